//! Numbers that no other entry has.
//!
//! Invariant: a number is given once: the next one is in the record that gives it, and only rises.

use std::cell::Cell;
use std::sync::Arc;

use aci::Permitted;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    Assertion, AttributeDescription, Change, DnKey, Entry, EntryId, ResolvedFilter, Schema,
    SettingChange, Truth,
};
use store::{Ask, Resolved, StoreError, StoredEntry, View};

use super::text::{Assignment, Numbers};
use crate::constraint::changed::Changed;
use crate::lines::place::Place;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::delta;

/// What an entry was given.
#[derive(Default)]
pub(crate) struct Given {
    /// The attributes that got a number, and had none that a client sent.
    pub(crate) attributes: Vec<Arc<AttributeDescription>>,
    /// Which numbers are next, for the record.
    pub(crate) change: Option<Permitted<Change>>,
}

/// An entry as it is before a modification.
pub(crate) struct Before<'b> {
    pub(crate) stored: &'b StoredEntry<'b>,
    /// As far as the modification needs it.
    pub(crate) before: &'b Entry,
}

/// Gives an entry the numbers that it is to have and has not.
///
/// # Errors
/// When no number is left, or an index is being built.
pub(crate) fn give(
    decide: &Decide<'_>,
    key: &DnKey,
    before: Option<&Before<'_>>,
    entry: &mut Entry,
) -> Result<Given, Refusal> {
    let schema = &*decide.state.schema;
    let mut given = Given::default();
    let all = decide.directory.rules.assignments.of(decide.view, schema);
    let mut counters = None;
    for (assignment, numbers) in all.iter().filter_map(|one| Some((one, one.numbers()?))) {
        let lacks = |one: &&Arc<AttributeDescription>| numbers.are_lacked(entry, one);
        let lacking: Vec<_> = numbers.attributes.iter().filter(lacks).cloned().collect();
        let place = &assignment.place;
        if lacking.is_empty() || !place.holds_at(key) || !is_meant(place, schema, before, entry) {
            continue;
        }
        let counters = match &mut counters {
            Some(counters) => counters,
            none => none.insert(decide.view.setting(NEXT)?),
        };
        let next = next_of(counters, &assignment.name);
        let own = before.map(|before| before.stored.id());
        let draw = Draw { decide, assignment, numbers, own, looks_left: Cell::new(LOOKS_MAX) };
        let drawn = draw.from(next.unwrap_or(0))?;
        let text = drawn.to_string().into_bytes();
        for description in lacking {
            // What a client sends or deletes it needs a right for.
            let had = before.is_some_and(|it| !it.before.values(&description).is_empty());
            let is_own = !had && entry.values(&description).is_empty();
            entry.replace_values(schema, &description, vec![text.clone()])?;
            if is_own {
                given.attributes.push(description);
            }
        }
        counters.retain(|text| !is_of(text, &assignment.name));
        counters.push(format!("{} {}", assignment.name, drawn.saturating_add(1)));
    }
    given.change = counters.map(|values| {
        let next = SettingChange { name: NEXT.to_owned(), values };
        Permitted::internal(Change::Setting(next))
    });
    Ok(given)
}

/// Whether an assignment is about such an entry; superior classes are as good as there.
fn is_meant(place: &Place, schema: &Schema, before: Option<&Before<'_>>, entry: &Entry) -> bool {
    if place.filter.is_none() {
        return true;
    }
    let mut whole = entry.clone();
    // One whose classes are not known is refused later.
    if whole.add_superior_classes(schema).is_err() {
        return false;
    }
    match before {
        None => place.holds_for(schema, &whole),
        // Of very many values the modification has a part alone.
        Some(Before { stored, before }) => {
            let deltas = delta::deltas(before, &whole);
            place.holds_for(schema, &Changed { before: *stored, deltas: &deltas })
        }
    }
}

impl Numbers {
    /// Whether an attribute has no value, or the one that stands for none.
    fn are_lacked(&self, entry: &Entry, description: &AttributeDescription) -> bool {
        match entry.values(description) {
            [] => true,
            [value] => self.stands_for.as_ref().is_some_and(|none| none.as_bytes() == value),
            _ => false,
        }
    }
}

/// The next number of an assignment, which a view has; none before the first was given.
pub(crate) fn next(view: &View<'_>, name: &str) -> Result<Option<u64>, StoreError> {
    Ok(next_of(&view.setting(NEXT)?, name))
}

fn next_of(counters: &[String], name: &str) -> Option<u64> {
    let text = counters.iter().find(|text| is_of(text, name))?;
    text.split_once(' ')?.1.parse().ok()
}

fn is_of(counter: &str, name: &str) -> bool {
    counter.split_once(' ').is_some_and(|(of, _)| of.eq_ignore_ascii_case(name))
}

/// The setting with the next number of each assignment that has given any: `NAME NUMBER`. It stays
/// when the assignment goes.
const NEXT: &str = "assigned";

/// A number being looked for.
struct Draw<'a, 'd> {
    decide: &'a Decide<'d>,
    assignment: &'a Assignment,
    numbers: &'a Numbers,
    /// The entry that it is for.
    own: Option<EntryId>,
    /// How many entries may still be looked at: nobody else's change is decided meanwhile.
    looks_left: Cell<u32>,
}

impl Draw<'_, '_> {
    /// One that is not below `next`.
    fn from(&self, next: u64) -> Result<u64, Refusal> {
        let (first, last) = (*self.numbers.range.start(), *self.numbers.range.end());
        let base = match &self.assignment.place.below {
            None => EntryId::ROOT,
            Some(key) => match self.decide.view.resolve(key)? {
                Resolved::Found(id) => id,
                // It is being added.
                Resolved::Missing { .. } | Resolved::NoContext => EntryId::ROOT,
            },
        };
        first_free(first.max(next), last, &mut |number| self.is_taken(base, number))?.ok_or_else(
            || {
                let why = format!(
                    "assignment '{}' has no number of {first}..{last} left: give it others",
                    self.assignment.name
                );
                Refusal::new(ResultCode::UnwillingToPerform, why)
            },
        )
    }

    /// Whether another entry has a number in one of the attributes.
    fn is_taken(&self, base: EntryId, number: u64) -> Result<bool, Refusal> {
        let schema = &*self.decide.state.schema;
        let text = number.to_string();
        let assertions = self.numbers.attributes.iter();
        let equal = |one: &Arc<AttributeDescription>| {
            Assertion::equality(schema, Arc::clone(one), text.as_bytes()).ok()
        };
        let parts = assertions.filter_map(equal).map(ResolvedFilter::Equality).collect();
        let filter = ResolvedFilter::Or(parts);
        let view = self.decide.view;
        let plan = view.plan(&Ask::new(&filter, base, Scope::Subtree))?;
        for stored in plan.entries(view, EntryId::ROOT) {
            if !plan.indexed || self.looks_left.get() == 0 {
                return Err(self.cannot_look());
            }
            self.looks_left.update(|left| left - 1);
            let stored = stored?;
            if self.own != Some(stored.id())
                && (plan.scope_exact || view.is_within(&stored, base)?)
                && (plan.filter_exact || filter.matches(schema, &stored) == Truth::True)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn cannot_look(&self) -> Refusal {
        let why = format!(
            "assignment '{}': which number is free cannot be looked up now; has each of its \
             attributes an equality index that is complete? Try again when it is built",
            self.assignment.name
        );
        Refusal::new(ResultCode::Busy, why)
    }
}

/// A number from `first` on, up to `last`, that is not taken: the first one, where fewer than
/// [`ASKED_MAX`] are taken before it, or all of them. Behind so many it asks about so many more as
/// the logarithm of the range says, and gaps may stay free.
fn first_free(
    first: u64,
    last: u64,
    is_taken: &mut dyn FnMut(u64) -> Result<bool, Refusal>,
) -> Result<Option<u64>, Refusal> {
    for number in (first..=last).take(ASKED_MAX) {
        if !is_taken(number)? {
            return Ok(Some(number));
        }
    }
    let (mut taken, mut step) = (first.saturating_add(ASKED_MAX as u64 - 1), 1_u64);
    while taken < last {
        let probe = taken.saturating_add(step).min(last);
        if is_taken(probe)? {
            (taken, step) = (probe, step.saturating_mul(2));
            continue;
        }
        let mut free = probe;
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            if is_taken(middle)? {
                taken = middle;
            } else {
                free = middle;
            }
        }
        return Ok(Some(free));
    }
    Ok(None)
}

/// The most entries that are looked at for one number.
const LOOKS_MAX: u32 = 10_000;
/// The most numbers that are asked about one after the other.
const ASKED_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::first_free;

    #[track_caller]
    fn check(taken: &BTreeSet<u64>, first: u64, last: u64, want: Option<u64>, asked_max: u32) {
        let mut asked = 0;
        let found = first_free(first, last, &mut |number| {
            asked += 1;
            assert!((first..=last).contains(&number), "{number}");
            Ok(taken.contains(&number))
        });
        let found = found.map_err(|_| "refused").unwrap();
        assert_eq!(found, want);
        assert!(asked <= asked_max, "{asked}");
    }

    #[test]
    fn the_first_behind_a_block_is_found_quickly() {
        let block: BTreeSet<u64> = (1_000..50_000).collect();
        check(&block, 1, 100, Some(1), 1);
        check(&block, 1_000, 60_000, Some(50_000), 1_040);
        check(&block, 49_999, 60_000, Some(50_000), 2);
        check(&block, 1_000, 50_000, Some(50_000), 1_040);
        check(&block, 1_000, 49_999, None, 1_040);
        // Numbers that are sent to mislead it: two to the power of each.
        let few: BTreeSet<u64> = (0..40).map(|power| 1 << power).collect();
        check(&few, 1, 1 << 40, Some(3), 3);
        check(&block, 5, 4, None, 0);
        check(&(0..10).collect(), 0, u64::MAX, Some(10), 11);
    }

    #[test]
    fn what_is_found_is_free_whatever_is_taken() {
        for seed in 0..500_u64 {
            let mut chance = testing::chance::Chance::new(seed, 0);
            let last = 1_000 + chance.below(200);
            // A block that is asked about one by one, and whatever behind it.
            let (block, dense) = (chance.below(1_100), chance.below(6));
            let taken: BTreeSet<u64> =
                (0..=last).filter(|number| *number < block || chance.below(5) < dense).collect();
            let first = chance.below(100);
            let found = first_free(first, last, &mut |number| Ok(taken.contains(&number)));
            let found = found.map_err(|_| "refused").unwrap();
            let near = (first..=last).take(super::ASKED_MAX).find(|one| !taken.contains(one));
            assert!(near.is_none() || near == found, "{seed}");
            assert!(found.is_none_or(|it| (first..=last).contains(&it) && !taken.contains(&it)));
        }
    }
}
