//! What a change is checked for.

use std::cell::Cell;
use std::ops::RangeInclusive;

use aci::Privilege;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    AttributeDelta, AttributeDescription, Change, DnKey, EntryId, EntryRead, ResolvedFilter, Schema,
};
use store::{Ask, Resolved, View};

use super::asker::Asker;
use super::changed::Changed;
use super::text::{Constraint, Rule, Unique, ValueRule};
use super::unique::{self, Taken};
use crate::access::guard;
use crate::request::refusal::Refusal;
use crate::write::checks::Checked;
use crate::write::decision::Decide;

/// What is looked at to find out whether a change keeps a constraint.
pub(super) struct Look<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) schema: &'a Schema,
    /// How many other entries may still be looked at.
    left: Cell<usize>,
    /// Who looks, if it is not the server itself.
    pub(super) asker: Option<&'a Asker<'a>>,
}

impl<'a> Look<'a> {
    pub(super) const fn new(view: &'a View<'a>, schema: &'a Schema) -> Self {
        Self { view, schema, left: Cell::new(LOOKS_MAX), asker: None }
    }

    /// Looks as somebody with rights, who finds what a search of theirs would.
    pub(super) const fn of(asker: &'a Asker<'a>, view: &'a View<'a>, schema: &'a Schema) -> Self {
        Self { asker: Some(asker), ..Self::new(view, schema) }
    }

    /// Whether all values count that an index may hold of an attribute.
    pub(super) fn counts_all(&self, description: &AttributeDescription) -> bool {
        self.asker.is_none_or(|asker| asker.counts_all(description))
    }

    /// Whether whoever looks has no more time.
    pub(super) fn is_over(&self) -> bool {
        self.asker.is_some_and(Asker::is_over)
    }

    /// Whether one more may be looked at.
    pub(super) fn takes_one(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// What comes is another question.
    pub(super) fn begin_again(&self) {
        self.left.set(LOOKS_MAX);
    }
}

/// The most other entries that are looked at for one change: nobody else's change is decided
/// meanwhile.
pub(super) const LOOKS_MAX: usize = 10_000;

/// Which values of an entry are checked.
#[derive(Clone, Copy)]
pub(super) enum Which<'c> {
    All,
    /// Those that come.
    New(&'c [AttributeDelta]),
}

/// Why an entry breaks a constraint.
pub(super) enum Broken {
    /// By itself.
    Says(String),
    /// Another entry has the same.
    Taken(Taken),
}

/// Refuses with `constraintViolation` a change after which an entry breaks a constraint that it did
/// not break before. The change is permitted.
pub(crate) fn check(
    decide: &Decide<'_>,
    checked: &Checked<'_>,
    change: &Change,
) -> Result<(), Refusal> {
    let schema = &*decide.state.schema;
    let all = decide.directory.rules.constraints.of(decide.view, schema);
    if all.is_empty() {
        return Ok(());
    }
    let look = Look::new(decide.view, schema);
    let new_key = match change {
        Change::Add(add) => DnKey::from_dn(schema, add.entry.name()).unwrap_or_default(),
        Change::Rename(rename) => DnKey::from_dn(schema, &rename.new_dn).unwrap_or_default(),
        _ => checked.key.clone(),
    };
    let own = match change {
        Change::Modify(modify) => Some(modify.id),
        Change::Rename(rename) => Some(rename.id),
        _ => None,
    };
    let stored = match change {
        Change::Modify(modify) => Some(guard::stored(decide.view, modify.id)?),
        _ => None,
    };
    let changed;
    let after: &dyn EntryRead = match (change, &stored) {
        // With its superior classes.
        (Change::Add(add), _) => &add.entry,
        (Change::Modify(modify), Some(stored)) => {
            changed = Changed { before: stored, deltas: &modify.deltas };
            &changed
        }
        _ => checked.after,
    };
    if matches!(change, Change::Rename(_)) && new_key != *checked.key {
        check_places(decide, &all, checked.key)?;
    }
    for constraint in all.iter() {
        let is_within = |key: &DnKey| constraint.place.holds_at(key);
        if is_within(&new_key)
            && constraint.place.holds_for(schema, after)
            && let Some(which) = concerned(constraint, change, is_within(checked.key))
            && let Some(broken) = broken(&look, constraint, after, own, which)?
        {
            let on = own.filter(|_| !constraint.is_about_sent(change, which));
            return Err(refusal(decide, constraint, broken, on));
        }
        if let Change::Rename(rename) = change
            && new_key != *checked.key
            && let Some(base) = &constraint.place.below
            && (base.is_within(&new_key) || is_within(&new_key))
            && !is_within(checked.key)
        {
            let moved = Moved { top: rename.id, after, from: checked.key, to: &new_key, base };
            moved.check(decide, &look, constraint)?;
        }
    }
    Ok(())
}

/// Refuses a rename of what a constraint names by `below`, or of what is above it: it would hold
/// for nothing then. Whoever may change the constraint may do so.
fn check_places(decide: &Decide<'_>, all: &[Constraint], renamed: &DnKey) -> Result<(), Refusal> {
    let is_below =
        |one: &&Constraint| one.place.below.as_ref().is_some_and(|it| it.is_within(renamed));
    match all.iter().find(is_below) {
        Some(constraint) if !decide.guard.access().has(Privilege::ConfigWrite) => {
            Err(Refusal::new(
                ResultCode::InsufficientAccessRights,
                format!(
                    "constraint '{}' names the old name, or one below it: this rename needs the \
                     privilege config-write",
                    constraint.name
                ),
            ))
        }
        Some(_) | None => Ok(()),
    }
}

/// Which values of an entry a change makes a constraint look at; none if it is not concerned.
/// `was_within`: the constraint held for the place of the entry before.
fn concerned<'c>(
    constraint: &Constraint,
    change: &'c Change,
    was_within: bool,
) -> Option<Which<'c>> {
    let deltas = match change {
        Change::Add(_) => return Some(Which::All),
        Change::Modify(modify) => &modify.deltas,
        Change::Rename(rename) => &rename.deltas,
        _ => return None,
    };
    let touches =
        |asked: &AttributeDescription| deltas.iter().any(|delta| asked.covers(&delta.description));
    let mut asks_filter = false;
    if let Some(filter) = &constraint.place.filter {
        filter.visit_descriptions(&mut |asked| asks_filter |= touches(asked));
    }
    if !was_within || asks_filter {
        return Some(Which::All);
    }
    let is_touched = constraint.attributes.iter().any(|asked| touches(asked));
    is_touched.then_some(Which::New(deltas))
}

/// Whether an entry for which a constraint holds breaks it. `own`: its number, if it has one.
pub(super) fn broken(
    look: &Look<'_>,
    constraint: &Constraint,
    entry: &dyn EntryRead,
    own: Option<EntryId>,
    which: Which<'_>,
) -> Result<Option<Broken>, Refusal> {
    let of_attribute = |test: &dyn Fn(&AttributeDescription) -> Option<String>| {
        constraint.attributes.iter().find_map(|attribute| test(attribute)).map(Broken::Says)
    };
    Ok(match &constraint.rule {
        Rule::Unique(how) => {
            let criterion = constraint.criterion(*how);
            unique::taken(look, &criterion, entry, own, which)?.map(Broken::Taken)
        }
        Rule::Exists => {
            for attribute in &constraint.attributes {
                if let Some(why) = exists(look, entry, attribute, which)? {
                    return Ok(Some(Broken::Says(why)));
                }
            }
            None
        }
        Rule::Count(range) => of_attribute(&|attribute| count(entry, attribute, range)),
        Rule::Values(rule) => of_attribute(&|attribute| {
            let mut broken = None;
            each_value(entry, attribute, which, &mut |value| {
                broken = rule.refuses(look.schema, attribute, value);
                broken.is_none()
            });
            broken
        }),
    })
}

/// What is wrong with the names that an attribute has, if something is. An entry may name itself.
fn exists(
    look: &Look<'_>,
    entry: &dyn EntryRead,
    attribute: &AttributeDescription,
    which: Which<'_>,
) -> Result<Option<String>, Refusal> {
    let own = DnKey::from_text(look.schema, entry.dn()).ok();
    let (mut broken, mut failed) = (None, None);
    each_value(entry, attribute, which, &mut |value| {
        let text = String::from_utf8_lossy(value);
        let key = DnKey::from_text(look.schema, &text).ok();
        let is_there = match &key {
            Some(_) if key == own => true,
            Some(key) => match look.view.resolve(key) {
                Ok(found) => matches!(found, Resolved::Found(_)),
                Err(error) => {
                    failed = Some(error);
                    true
                }
            },
            None => false,
        };
        if !is_there {
            let name = attribute.text();
            broken = Some(format!("a value of '{name}' names no entry that is there: {text}"));
        }
        broken.is_none() && failed.is_none()
    });
    failed.map_or(Ok(broken), |error| Err(error.into()))
}

fn count(
    entry: &dyn EntryRead,
    attribute: &AttributeDescription,
    range: &RangeInclusive<u64>,
) -> Option<String> {
    let mut count = 0;
    entry.visit_values(attribute, &mut |_, _| {
        count += 1;
        true
    });
    (!range.contains(&count)).then(|| {
        format!("'{}' must have {}, not {count}", attribute.text(), in_words(range, "value"))
    })
}

/// Calls `visit` with the values of an attribute that are checked, until it says no.
pub(super) fn each_value(
    entry: &dyn EntryRead,
    attribute: &AttributeDescription,
    which: Which<'_>,
    visit: &mut dyn FnMut(&[u8]) -> bool,
) {
    each_described(entry, attribute, which, &mut |_, value| visit(value));
}

/// Calls `visit` with the values and what each of them is a value of.
pub(super) fn each_described(
    entry: &dyn EntryRead,
    attribute: &AttributeDescription,
    which: Which<'_>,
    visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
) {
    match which {
        Which::All => {
            entry.visit_values(attribute, visit);
        }
        Which::New(deltas) => {
            let deltas = deltas.iter().filter(|delta| attribute.covers(&delta.description));
            let mut values = deltas
                .flat_map(|delta| delta.added.iter().map(move |value| (&delta.description, value)));
            let _ = values.all(|(description, value)| visit(description, value));
        }
    }
}

impl ValueRule {
    /// What is wrong with a value, if something is.
    fn refuses(
        &self,
        schema: &Schema,
        attribute: &AttributeDescription,
        value: &[u8],
    ) -> Option<String> {
        let name = attribute.text();
        match self {
            Self::Pattern(pattern, text) => (!pattern.is_match(value))
                .then(|| format!("a value of '{name}' does not match /{text}/")),
            Self::Length(range) => {
                let count = std::str::from_utf8(value)
                    .map_or(value.len(), |text| text.chars().count())
                    as u64;
                (!range.contains(&count)).then(|| {
                    let words = in_words(range, "character");
                    format!("a value of '{name}' must have {words}, not {count}")
                })
            }
            Self::OneOf(values) => {
                // However long the value is, it is prepared once.
                let own = key_of(schema, attribute, value);
                let is_it = |one: &String| {
                    let key = key_of(schema, attribute, one.as_bytes());
                    key.as_ref().map_or(one.as_bytes() == value, |key| Some(key) == own.as_ref())
                };
                (!values.iter().any(is_it))
                    .then(|| format!("a value of '{name}' is none of: {}", values.join(", ")))
            }
            Self::Ascii => (!value.is_ascii())
                .then(|| format!("a value of '{name}' has other characters than ASCII has")),
        }
    }
}

/// A value as the attribute's rule compares it; none where there is no rule, or it takes no such
/// value.
fn key_of(schema: &Schema, attribute: &AttributeDescription, value: &[u8]) -> Option<Vec<u8>> {
    let rule = attribute.kind.equality?;
    let mut key = Vec::new();
    (rule.prepare)(schema, value, &mut key).ok().map(|()| key)
}

fn in_words(range: &RangeInclusive<u64>, what: &str) -> String {
    let plural = |count: u64| if count == 1 { what.to_owned() } else { format!("{what}s") };
    match (*range.start(), *range.end()) {
        (first, last) if first == last => format!("{first} {}", plural(first)),
        (0, last) => format!("at most {last} {}", plural(last)),
        (first, u64::MAX) => format!("at least {first} {}", plural(first)),
        (first, last) => format!("{first} to {last} {}", plural(last)),
    }
}

impl Constraint {
    /// Whether a refusal by these values is about what the asker has sent, and nothing else.
    fn is_about_sent(&self, change: &Change, which: Which<'_>) -> bool {
        let asks_values = match self.rule {
            Rule::Values(_) | Rule::Exists | Rule::Unique(Unique::Each | Unique::Across) => true,
            Rule::Count(_) | Rule::Unique(Unique::Combination) => false,
        };
        matches!(change, Change::Add(_)) || (matches!(which, Which::New(_)) && asks_values)
    }
}

/// What a rename brings to where a constraint holds.
struct Moved<'a> {
    top: EntryId,
    /// The topmost entry, as it is then.
    after: &'a dyn EntryRead,
    from: &'a DnKey,
    to: &'a DnKey,
    /// Where the constraint holds.
    base: &'a DnKey,
}

impl Moved<'_> {
    /// Whether an entry below the topmost one is then where the constraint holds.
    fn comes_within(&self, key: &DnKey) -> bool {
        let rest = key.as_bytes().get(self.from.as_bytes().len()..).unwrap_or_default();
        match self.base.as_bytes().strip_prefix(self.to.as_bytes()) {
            Some(below) => rest.starts_with(below),
            // All of it is.
            None => true,
        }
    }

    /// Checks the entries below the one that is renamed.
    fn check(
        &self,
        decide: &Decide<'_>,
        look: &Look<'_>,
        constraint: &Constraint,
    ) -> Result<(), Refusal> {
        let everything = ResolvedFilter::And(Vec::new());
        let plan = look.view.plan(&Ask::new(&everything, self.top, Scope::Subordinate))?;
        let mut seen = unique::Seen::default();
        if constraint.place.holds_at(self.to) && constraint.place.holds_for(look.schema, self.after)
        {
            seen.meets(look.schema, constraint, self.after)?;
        }
        for stored in plan.entries(look.view, EntryId::ROOT) {
            let stored = stored?;
            if !plan.scope_exact && !look.view.is_within(&stored, self.top)?
                || stored.id() == self.top
            {
                continue;
            }
            if !look.takes_one() {
                return Err(Refusal::new(
                    ResultCode::UnwillingToPerform,
                    format!(
                        "constraint '{}' holds there and not here, and more than {LOOKS_MAX} \
                         entries would have to be looked at: move fewer at once",
                        constraint.name
                    ),
                ));
            }
            let key = DnKey::from_text(look.schema, stored.dn()).unwrap_or_default();
            if !self.comes_within(&key) || !constraint.place.holds_for(look.schema, &stored) {
                continue;
            }
            let on = Some(stored.id());
            if let Some(broken) = broken(look, constraint, &stored, on, Which::All)? {
                return Err(refusal(decide, constraint, broken, on));
            }
            // Those that come along are not there yet.
            if let Some(attribute) = seen.meets(look.schema, constraint, &stored)? {
                let taken = Broken::Taken(Taken { attribute, by: on });
                return Err(refusal(decide, constraint, taken, on));
            }
        }
        Ok(())
    }
}

/// What is wrong is told of entries that the asker may see and search for their values: of the one
/// with the number `on`, which breaks the constraint, if it is not all sent; and who else has a
/// value.
fn refusal(
    decide: &Decide<'_>,
    constraint: &Constraint,
    broken: Broken,
    on: Option<EntryId>,
) -> Refusal {
    let shown = |id: EntryId| {
        let stored = guard::stored(decide.view, id).ok()?;
        let rights = decide.guard.on(&stored);
        let mut may = constraint.attributes.iter().all(|one| rights.may_search_all(one));
        // That it holds for the entry is told by the name of the entry.
        constraint.place.filter.iter().for_each(|filter| {
            filter.visit_descriptions(&mut |one| may = may && rights.may_search_all(one));
        });
        (rights.may_see() && may).then(|| stored.dn().to_owned())
    };
    let why = match broken {
        _ if on.is_some_and(|id| shown(id).is_none()) => {
            "an entry would break it by values that are hidden from you".to_owned()
        }
        Broken::Says(why) => why,
        Broken::Taken(Taken { attribute, by }) => match by.and_then(shown) {
            Some(name) => format!("{name} has this value of {attribute} already"),
            None => format!("another entry has this value of {attribute} already"),
        },
    };
    let name = &constraint.name;
    Refusal::new(ResultCode::ConstraintViolation, format!("constraint '{name}': {why}"))
}
