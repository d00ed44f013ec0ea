//! Numbers that no other entry has.
//!
//! Invariant: a number is given once: the next one is in the record that gives it, and only rises.

use std::sync::Arc;

use aci::{Permitted, Right};
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    Assertion, AttributeDescription, Change, DnKey, Entry, EntryId, ResolvedFilter, Schema,
    SettingChange, Truth,
};
use store::{Ask, Resolved, StoreError, View};

use super::text::{Assignment, Numbers};
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// What an entry was given.
#[derive(Default)]
pub(crate) struct Given {
    /// The attributes that got a number, and had none that a client sent.
    pub(crate) attributes: Vec<Arc<AttributeDescription>>,
    /// Which numbers are next, for the record.
    pub(crate) change: Option<Permitted<Change>>,
}

/// Gives an entry the numbers that it is to have and has not. `stored`: its id, if it is there
/// already. A refusal is one to tell whoever may make the change.
pub(crate) fn give(
    decide: &Decide<'_>,
    key: &DnKey,
    entry: &mut Entry,
    stored: Option<EntryId>,
) -> Result<Given, Refusal> {
    let schema = &*decide.state.schema;
    let mut given = Given::default();
    let all = decide.directory.rules.assignments.of(decide.view, schema)?;
    if all.is_empty() {
        return Ok(given);
    }
    let (mut counters, mut is_given) = (decide.view.setting(NEXT)?, false);
    for (assignment, numbers) in all.iter().filter_map(|one| Some((one, one.numbers()?))) {
        let lacks = |one: &&Arc<AttributeDescription>| numbers.are_lacked(entry, one);
        let lacking: Vec<_> = numbers.attributes.iter().filter(lacks).cloned().collect();
        let place = &assignment.place;
        if lacking.is_empty() || !place.holds_at(key) || !is_meant(assignment, schema, entry) {
            continue;
        }
        let next = next_of(&counters, &assignment.name);
        let draw = Draw { decide, assignment, numbers, own: stored };
        let drawn = draw.from(next.unwrap_or(0))?;
        let text = drawn.to_string().into_bytes();
        for description in lacking {
            let is_own = entry.values(&description).is_empty();
            entry.replace_values(schema, &description, vec![text.clone()])?;
            if is_own {
                given.attributes.push(description);
            }
        }
        counters.retain(|text| !is_of(text, &assignment.name));
        counters.push(format!("{} {}", assignment.name, drawn.saturating_add(1)));
        is_given = true;
    }
    if is_given {
        let next = SettingChange { name: NEXT.to_owned(), values: counters };
        given.change = Some(Permitted::internal(Change::Setting(next)));
    }
    Ok(given)
}

/// Whether an assignment is about such an entry; superior classes are as good as there.
fn is_meant(assignment: &Assignment, schema: &Schema, entry: &Entry) -> bool {
    if assignment.place.filter.is_none() {
        return true;
    }
    let mut whole = entry.clone();
    // One whose classes are not known is refused later.
    whole.add_superior_classes(schema).is_ok() && assignment.place.holds_for(schema, &whole)
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
        for (stored, looked_at) in plan.entries(view, EntryId::ROOT).zip(0..) {
            let stored = stored?;
            // Too many to look at: as good as taken.
            if looked_at > LOOKS_MAX {
                return Ok(true);
            }
            if self.own != Some(stored.id())
                && (plan.scope_exact || view.is_within(&stored, base)?)
                && (plan.filter_exact || filter.matches(schema, &stored) == Truth::True)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A number from `first` on, up to `last`, that is not taken: the first one, where those before it
/// stand without a gap. Asks about so many as the logarithm of the range says, and then about the
/// first few.
fn first_free(
    first: u64,
    last: u64,
    is_taken: &mut dyn FnMut(u64) -> Result<bool, Refusal>,
) -> Result<Option<u64>, Refusal> {
    if first > last {
        return Ok(None);
    }
    if !is_taken(first)? {
        return Ok(Some(first));
    }
    let (mut taken, mut step) = (first, 1_u64);
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
    // All that was asked about is taken, up to the last.
    for number in (first..=last).take(ASKED_MAX) {
        if !is_taken(number)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The most entries that are looked at for one number.
const LOOKS_MAX: u32 = 1_000;
/// The most numbers that are asked about one after the other.
const ASKED_MAX: usize = 1_000;

/// Whether somebody may be told that no number is left.
pub(crate) fn tell(refusal: Refusal, rights: &aci::Rights<'_>) -> Refusal {
    let may = rights.may_entry(Right::Add) || rights.may_entry(Right::Write);
    if may { refusal } else { aci::Denied.into() }
}

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
        check(&block, 1_000, 60_000, Some(50_000), 40);
        check(&block, 49_999, 60_000, Some(50_000), 2);
        check(&block, 1_000, 50_000, Some(50_000), 40);
        check(&block, 1_000, 49_999, None, 1_100);
        check(&block, 5, 4, None, 0);
        check(&(0..10).collect(), 0, u64::MAX, Some(10), 10);
    }

    #[test]
    fn what_is_found_is_free_whatever_is_taken() {
        for seed in 0..2_000_u64 {
            let mut chance = testing::chance::Chance::new(seed, 0);
            let last = 1 + chance.below(60);
            let dense = chance.below(5);
            let taken: BTreeSet<u64> = (0..=last).filter(|_| chance.below(5) < dense).collect();
            let first = chance.below(last);
            let found = first_free(first, last, &mut |number| Ok(taken.contains(&number)));
            let found = found.map_err(|_| "refused").unwrap();
            let is_any = (first..=last).any(|number| !taken.contains(&number));
            assert_eq!(found.is_some(), is_any, "{seed}");
            assert!(found.is_none_or(|it| (first..=last).contains(&it) && !taken.contains(&it)));
        }
    }
}
