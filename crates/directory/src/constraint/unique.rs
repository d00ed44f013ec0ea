//! Whether another entry has what no two entries may have.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{Assertion, AttributeDescription, EntryId, EntryRead, ResolvedFilter, Schema, Truth};
use store::{Ask, Resolved, StoreError};

use super::asker::Candidate;
use super::check::{LOOKS_MAX, Look, Which, each_value};
use super::text::{Constraint, Rule, Unique};
use crate::lines::place::Place;
use crate::request::refusal::Refusal;

/// What is to be unique, and where others are looked for.
pub(super) struct Criterion<'a> {
    /// The attributes; with none of them, every other entry of the place is one that has the same.
    pub(super) attributes: &'a [Arc<AttributeDescription>],
    pub(super) how: Unique,
    pub(super) place: &'a Place,
    pub(super) called: Called<'a>,
}

/// What a refusal begins with.
#[derive(Clone, Copy)]
pub(super) enum Called<'a> {
    /// The constraint with this name.
    Constraint(&'a str),
    /// The control with this name.
    Control(&'a [u8]),
}

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constraint(name) => write!(f, "constraint '{name}'"),
            Self::Control(id) => {
                write!(f, "the uniqueness control '{}'", String::from_utf8_lossy(id))
            }
        }
    }
}

impl Constraint {
    /// What is unique by it.
    pub(super) fn criterion(&self, how: Unique) -> Criterion<'_> {
        let Self { name, attributes, place, .. } = self;
        Criterion { attributes, how, place, called: Called::Constraint(name) }
    }
}

/// Another entry has what an entry is to have.
pub(super) struct Taken {
    /// The attributes, as a refusal names them.
    pub(super) attribute: String,
    /// Which entry, if that is known.
    pub(super) by: Option<EntryId>,
}

/// Who else has what an entry has, or is to have.
pub(super) fn taken(
    look: &Look<'_>,
    criterion: &Criterion<'_>,
    entry: &dyn EntryRead,
    own: Option<EntryId>,
    which: Which<'_>,
) -> Result<Option<Taken>, Refusal> {
    for asked in questions(look.schema, criterion, entry, which)? {
        if let Some(by) = other(look, criterion, &asked.filter(), own)? {
            return Ok(Some(Taken { attribute: asked.names(), by: Some(by) }));
        }
    }
    Ok(None)
}

/// What no other entry may have.
struct Question {
    /// Of a value: that it is one of these attributes. Of a combination: one of each of them.
    parts: Vec<Assertion>,
    how: Unique,
}

impl Question {
    fn filter(&self) -> ResolvedFilter {
        let mut parts = self.parts.iter().cloned().map(ResolvedFilter::Equality);
        match self.how {
            Unique::Each if self.parts.len() == 1 => {
                parts.next().unwrap_or(ResolvedFilter::Undefined)
            }
            Unique::Each | Unique::Combination => ResolvedFilter::And(parts.collect()),
            Unique::Across => ResolvedFilter::Or(parts.collect()),
        }
    }

    /// The attributes that have the values; of a value it is the first.
    fn names(&self) -> String {
        let count = if self.how == Unique::Combination { self.parts.len() } else { 1 };
        let names = self.parts.iter().take(count);
        let names: Vec<_> = names.map(|one| format!("'{}'", one.description.text())).collect();
        names.join(" and ")
    }
}

/// What is asked about the values of an entry.
fn questions(
    schema: &Schema,
    criterion: &Criterion<'_>,
    entry: &dyn EntryRead,
    which: Which<'_>,
) -> Result<Vec<Question>, Refusal> {
    let how = criterion.how;
    if how == Unique::Combination {
        return combinations(schema, criterion, entry);
    }
    let mut asked = Vec::new();
    for attribute in criterion.attributes {
        each_value(entry, attribute, which, &mut |value| {
            let others = criterion.attributes.iter().filter(|other| *other != attribute);
            let others = others.filter(|_| how == Unique::Across);
            // What no rule can prepare is equal to nothing.
            let assertions = [attribute].into_iter().chain(others);
            let parts: Vec<Assertion> = assertions
                .flat_map(|one| Assertion::equality(schema, Arc::clone(one), value))
                .collect();
            if !parts.is_empty() {
                asked.push(Question { parts, how });
            }
            asked.len() <= QUESTIONS_MAX
        });
    }
    if asked.len() > QUESTIONS_MAX { Err(too_many(criterion.called)) } else { Ok(asked) }
}

/// Each value of each attribute with each of the others; none if one of them has no value.
fn combinations(
    schema: &Schema,
    criterion: &Criterion<'_>,
    entry: &dyn EntryRead,
) -> Result<Vec<Question>, Refusal> {
    let mut all = vec![Vec::new()];
    for attribute in criterion.attributes {
        let mut values = Vec::new();
        each_value(entry, attribute, Which::All, &mut |value| {
            values.extend(Assertion::equality(schema, Arc::clone(attribute), value));
            values.len() <= QUESTIONS_MAX
        });
        if all.len().saturating_mul(values.len()) > QUESTIONS_MAX {
            return Err(too_many(criterion.called));
        }
        let with = |begun: &Vec<Assertion>, value: &Assertion| {
            begun.iter().chain([value]).cloned().collect()
        };
        all = all.iter().flat_map(|begun| values.iter().map(|one| with(begun, one))).collect();
    }
    let how = Unique::Combination;
    Ok(all.into_iter().map(|parts| Question { parts, how }).collect())
}

fn too_many(called: Called<'_>) -> Refusal {
    let why = format!(
        "{called}: at most {QUESTIONS_MAX} values of an entry can be compared with those of others"
    );
    Refusal::new(ResultCode::AdminLimitExceeded, why)
}

/// An entry that the criterion is about and that matches, if there is one but `own`.
pub(super) fn other(
    look: &Look<'_>,
    criterion: &Criterion<'_>,
    asked: &ResolvedFilter,
    own: Option<EntryId>,
) -> Result<Option<EntryId>, Refusal> {
    let base = match &criterion.place.below {
        None => EntryId::ROOT,
        Some(key) => match look.view.resolve(key)? {
            Resolved::Found(id) => id,
            Resolved::Missing { .. } | Resolved::NoContext => return Ok(None),
        },
    };
    let with_filter;
    let mut filter = match &criterion.place.filter {
        None => asked,
        Some(filter) => {
            with_filter = ResolvedFilter::And(vec![asked.clone(), filter.clone()]);
            &with_filter
        }
    };
    let usable = look.asker.and_then(|asker| asker.usable(filter));
    filter = usable.as_ref().unwrap_or(filter);
    let called = criterion.called;
    let failed = |error: StoreError| match error {
        StoreError::Interrupted => takes_too_long(called),
        other => other.into(),
    };
    let interrupt = &|| look.is_over();
    let whole = &|one: &AttributeDescription| look.counts_all(one);
    let ask = Ask { interrupt, whole, ..Ask::new(filter, base, Scope::Subtree) };
    let plan = look.view.plan(&ask).map_err(failed)?;
    // All other writes wait. It depends on what is asked, not on what is there.
    if look.asker.is_some()
        && look.view.indexable(filter, whole).is_unindexed()
        && look.view.entry_count()? > UNINDEXED_ENTRIES_MAX
    {
        return Err(unindexed(called));
    }
    for stored in plan.entries_until(look.view, EntryId::ROOT, interrupt) {
        if look.is_over() {
            return Err(takes_too_long(called));
        }
        let stored = stored.map_err(failed)?;
        let is_other = || -> Result<bool, Refusal> {
            Ok(own != Some(stored.id())
                && (plan.scope_exact || look.view.is_within(&stored, base)?))
        };
        let candidate = match look.asker {
            // Which of those that are hidden are in the way is not told by their number.
            Some(asker) if is_other()? => asker.looks_at(look, filter, &stored),
            Some(_) => Candidate::Hidden,
            None if !look.takes_one() => return Err(too_many_looks(called)),
            None => {
                let is_match =
                    plan.filter_exact || filter.matches(look.schema, &stored) == Truth::True;
                if is_match && is_other()? { Candidate::Match } else { Candidate::Seen }
            }
        };
        match candidate {
            Candidate::Match => return Ok(Some(stored.id())),
            Candidate::Seen if look.asker.is_some() && !look.takes_one() => {
                return Err(too_many_looks(called));
            }
            Candidate::Seen | Candidate::Hidden => {}
        }
    }
    // Also where there was no candidate: many questions take their time.
    match look.is_over() {
        true => Err(takes_too_long(called)),
        false => Ok(None),
    }
}

fn unindexed(called: Called<'_>) -> Refusal {
    let why = format!(
        "{called} cannot be checked: no index answers what it asks for, and all other writes would \
         wait; ask for attributes that have an equality index"
    );
    Refusal::new(ResultCode::UnwillingToPerform, why)
}

fn too_many_looks(called: Called<'_>) -> Refusal {
    let why = format!(
        "{called} cannot be checked: more than {LOOKS_MAX} entries would have to be looked at; has \
         each of its attributes an equality index that is complete?"
    );
    Refusal::new(ResultCode::UnwillingToPerform, why)
}

/// The refusal of a check that keeps others waiting.
pub(super) fn takes_too_long(called: Called<'_>) -> Refusal {
    let why = format!(
        "{called} takes too long to check, and all other writes wait for it: has each of its \
         attributes an equality index that is complete?"
    );
    Refusal::new(ResultCode::AdminLimitExceeded, why)
}

/// What entries have that come together to where a constraint holds.
#[derive(Default)]
pub(super) struct Seen(HashSet<Vec<(Arc<str>, Vec<u8>)>>);

impl Seen {
    /// Notes what an entry has; the attributes that one before had the same of.
    pub(super) fn meets(
        &mut self,
        schema: &Schema,
        constraint: &Constraint,
        entry: &dyn EntryRead,
    ) -> Result<Option<String>, Refusal> {
        let Rule::Unique(how) = constraint.rule else { return Ok(None) };
        let asked = questions(schema, &constraint.criterion(how), entry, Which::All)?;
        let key = |question: &Question| {
            let is_value = how != Unique::Combination;
            let parts = question.parts.iter().take(if is_value { 1 } else { usize::MAX });
            let part = |one: &Assertion| {
                let name = if how == Unique::Across { "" } else { one.description.text() };
                (Arc::from(name), one.key.clone())
            };
            parts.map(part).collect::<Vec<_>>()
        };
        let own: HashSet<_> = asked.iter().map(key).collect();
        let met = asked.iter().find(|question| self.0.contains(&key(question)));
        let met = met.map(Question::names);
        self.0.extend(own);
        Ok(met)
    }
}

/// The most values, or combinations of values, of one entry that are looked up.
const QUESTIONS_MAX: usize = 1_000;
/// In a directory with so many entries a control may ask for what no index answers.
const UNINDEXED_ENTRIES_MAX: u64 = 1_000;
