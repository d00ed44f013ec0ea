//! Whether another entry has what no two entries may have.

use std::collections::HashSet;
use std::sync::Arc;

use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{Assertion, EntryId, EntryRead, ResolvedFilter, Schema, Truth};
use store::{Ask, Resolved};

use super::check::{LOOKS_MAX, Look, Which, each_value};
use super::text::{Constraint, Rule, Unique};
use crate::request::refusal::Refusal;

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
    constraint: &Constraint,
    how: Unique,
    entry: &dyn EntryRead,
    own: Option<EntryId>,
    which: Which<'_>,
) -> Result<Option<Taken>, Refusal> {
    for asked in questions(look.schema, constraint, how, entry, which)? {
        if let Some(by) = other(look, constraint, &asked.filter(), own)? {
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
    constraint: &Constraint,
    how: Unique,
    entry: &dyn EntryRead,
    which: Which<'_>,
) -> Result<Vec<Question>, Refusal> {
    if how == Unique::Combination {
        return combinations(schema, constraint, entry);
    }
    let mut asked = Vec::new();
    for attribute in &constraint.attributes {
        each_value(entry, attribute, which, &mut |value| {
            let others = constraint.attributes.iter().filter(|other| *other != attribute);
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
    if asked.len() > QUESTIONS_MAX { Err(too_many(constraint)) } else { Ok(asked) }
}

/// Each value of each attribute with each of the others; none if one of them has no value.
fn combinations(
    schema: &Schema,
    constraint: &Constraint,
    entry: &dyn EntryRead,
) -> Result<Vec<Question>, Refusal> {
    let mut all = vec![Vec::new()];
    for attribute in &constraint.attributes {
        let mut values = Vec::new();
        each_value(entry, attribute, Which::All, &mut |value| {
            values.extend(Assertion::equality(schema, Arc::clone(attribute), value));
            values.len() <= QUESTIONS_MAX
        });
        if all.len().saturating_mul(values.len()) > QUESTIONS_MAX {
            return Err(too_many(constraint));
        }
        let with = |begun: &Vec<Assertion>, value: &Assertion| {
            begun.iter().chain([value]).cloned().collect()
        };
        all = all.iter().flat_map(|begun| values.iter().map(|one| with(begun, one))).collect();
    }
    let how = Unique::Combination;
    Ok(all.into_iter().map(|parts| Question { parts, how }).collect())
}

fn too_many(constraint: &Constraint) -> Refusal {
    let why = format!(
        "constraint '{}': at most {QUESTIONS_MAX} values of an entry can be compared with those of \
         others",
        constraint.name
    );
    Refusal::new(ResultCode::AdminLimitExceeded, why)
}

/// An entry for which the constraint holds and that matches, if there is one but `own`.
fn other(
    look: &Look<'_>,
    constraint: &Constraint,
    asked: &ResolvedFilter,
    own: Option<EntryId>,
) -> Result<Option<EntryId>, Refusal> {
    let base = match &constraint.place.below {
        None => EntryId::ROOT,
        Some(key) => match look.view.resolve(key)? {
            Resolved::Found(id) => id,
            Resolved::Missing { .. } | Resolved::NoContext => return Ok(None),
        },
    };
    let with_filter;
    let filter = match &constraint.place.filter {
        None => asked,
        Some(filter) => {
            with_filter = ResolvedFilter::And(vec![asked.clone(), filter.clone()]);
            &with_filter
        }
    };
    let plan = look.view.plan(&Ask::new(filter, base, Scope::Subtree))?;
    for stored in plan.entries(look.view, EntryId::ROOT) {
        if !look.takes_one() {
            let why = format!(
                "constraint '{}' cannot be checked: more than {LOOKS_MAX} entries would have to be \
                 looked at; has each of its attributes an equality index that is complete?",
                constraint.name
            );
            return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
        }
        let stored = stored?;
        let is_other = own != Some(stored.id())
            && (plan.scope_exact || look.view.is_within(&stored, base)?)
            && (plan.filter_exact || filter.matches(look.schema, &stored) == Truth::True);
        if is_other {
            return Ok(Some(stored.id()));
        }
    }
    Ok(None)
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
        let asked = questions(schema, constraint, how, entry, Which::All)?;
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
