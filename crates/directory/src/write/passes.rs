//! How much of an entry one update goes through: each modification compares values with all that
//! the attribute has, and those of a new entry are compared with each other.
//!
//! Invariant: it is counted before it is done, since all writes wait for it. A few modifications
//! may go through any number of values, as long as these are quickly read.

use ldap::message::ModifyOperation;
use ldap::result::ResultCode;
use schema::{AttributeDescription, Entry, Schema};

use crate::request::refusal::Refusal;
use crate::write::passwords;
use crate::write::request::Modification;

/// The work of one update, in steps of about a nanosecond.
pub(crate) struct Passes {
    count: u32,
    left: u64,
}

impl Passes {
    /// May do so much (see `Limits::modify_work_max`).
    pub(crate) fn new(work_max: u64) -> Self {
        Self { count: 0, left: work_max }
    }

    /// Counts what the request itself brings.
    pub(crate) fn sent(&mut self, modifications: &[Modification]) -> Result<(), Refusal> {
        modifications.iter().try_for_each(|one| {
            self.prepared(&one.description, one.values.iter().map(Vec::as_slice))
        })
    }

    /// Counts values that are prepared for comparing: those that are not ASCII always take long.
    pub(crate) fn prepared<'v>(
        &mut self,
        description: &AttributeDescription,
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Result<(), Refusal> {
        let Some(rule) = description.kind.equality else { return Ok(()) };
        self.spend(values.map(|value| rule.unicode_steps(value)).sum())
    }

    /// Counts one modification of an entry as it is by now.
    pub(crate) fn modification(
        &mut self,
        entry: &Entry,
        modification: &Modification,
    ) -> Result<(), Refusal> {
        let Modification { operation, description, values } = modification;
        self.spend(entry.attributes().len() as u64 * ATTRIBUTE_STEPS)?;
        let there = entry.values(description);
        let is_pass = match operation {
            ModifyOperation::Add | ModifyOperation::Increment => true,
            ModifyOperation::Delete => !values.is_empty(),
            // What is there goes unread.
            ModifyOperation::Replace => false,
        };
        if !is_pass || there.is_empty() {
            return Ok(());
        }
        if passwords::is_hashable(description) {
            let tries = there.len() as u64 * values.len() as u64;
            self.spend(tries.saturating_mul(VERIFY_STEPS))?;
        }
        self.count += 1;
        self.prepared(description, there.iter().map(Vec::as_slice))?;
        if self.count <= PASSES_MIN {
            return Ok(());
        }
        let rule = description.kind.equality;
        let steps = |value: &Vec<u8>| {
            let of_rule = rule.map_or(value.len() as u64, |rule| {
                rule.steps(value).saturating_sub(rule.unicode_steps(value))
            });
            VALUE_STEPS + of_rule
        };
        self.spend(there.iter().map(steps).sum())
    }

    /// Counts looking for the values of its name among those of an entry.
    pub(crate) fn name(&mut self, entry: &Entry, schema: &Schema) -> Result<(), Refusal> {
        let is_short = |values: &[Vec<u8>]| {
            values.len() <= SHORT_VALUES_MAX && values.iter().all(|one| one.len() <= SHORT_BYTES)
        };
        if entry.attributes().iter().all(|one| is_short(&one.values)) {
            return Ok(());
        }
        for ava in entry.name().rdns().first().into_iter().flat_map(|rdn| rdn.avas()) {
            let Ok(description) = schema.describe(&ava.attribute) else { continue };
            let values = entry.values(&description);
            // As it is written it is found at once.
            if !values.contains(&ava.value) {
                self.prepared(&description, values.iter().map(Vec::as_slice))?;
            }
        }
        Ok(())
    }

    /// Counts any other work.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Refusal> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Refusal::new(
                ResultCode::AdminLimitExceeded,
                "comparing values is more work than an update may be: put what is added to an \
                 attribute, and what is deleted from it, next to each other, or change less at \
                 once",
            )),
        }
    }
}

/// So many modifications may go through any number of values.
const PASSES_MIN: u32 = 4;
/// Attributes of so few, and so long, values are gone through in no time.
const SHORT_VALUES_MAX: usize = 8;
const SHORT_BYTES: usize = 512;
/// Looking whether an attribute of the entry is the one that is modified.
const ATTRIBUTE_STEPS: u64 = 10;
/// A value that others are compared with, whatever its length.
const VALUE_STEPS: u64 = 100;
/// Verifying a clear-text password against a hash that is quickly computed.
const VERIFY_STEPS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ldap::dn::Dn;

    use super::*;

    const WORK_MAX: u64 = 1_000_000;

    fn entry(pairs: &[(&str, &str)]) -> Entry {
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
        Entry::from_pairs(Dn::parse("cn=a,dc=x").unwrap(), pairs, &Schema::builtin()).unwrap()
    }

    fn modification(operation: ModifyOperation, name: &str, values: &[&str]) -> Modification {
        let description = Schema::builtin().describe(name).unwrap();
        let values = values.iter().map(|value| value.as_bytes().to_vec()).collect();
        Modification { operation, description: Arc::clone(&description), values }
    }

    /// How many of the same modification are allowed, up to 1,000.
    fn allowed(entry: &Entry, one: &Modification) -> usize {
        let mut passes = Passes::new(WORK_MAX);
        (0..1_000).take_while(|_| passes.modification(entry, one).is_ok()).count()
    }

    #[test]
    fn many_passes_are_allowed_over_few_octets_and_few_over_many() {
        use ModifyOperation::{Add, Delete, Replace};
        let long = "x".repeat(100_000);
        let entry = entry(&[("cn", "a"), ("description", &long), ("sn", "b")]);
        for operation in [Add, Delete] {
            assert_eq!(allowed(&entry, &modification(operation, "sn", &["x"])), 1_000);
            let count = allowed(&entry, &modification(operation, "description", &["x"]));
            assert_eq!(count, 4 + 4, "{operation:?}");
        }
        // What is there goes unread.
        for (operation, values) in [(Replace, &["x"][..]), (Replace, &[]), (Delete, &[])] {
            let one = modification(operation, "description", values);
            assert_eq!(allowed(&entry, &one), 1_000, "{operation:?}");
        }
        assert_eq!(allowed(&entry, &modification(Add, "description;lang-de", &["x"])), 1_000);
    }

    #[test]
    fn texts_that_are_not_ascii_count_from_the_first() {
        let long = "\u{FC}".repeat(10_000);
        let own = entry(&[("cn", "b"), ("description", &long)]);
        let add = modification(ModifyOperation::Add, "description", &["x"]);
        assert_eq!(allowed(&own, &add), 0);
        let mut passes = Passes::new(WORK_MAX);
        let sent = modification(ModifyOperation::Replace, "description", &[&long]);
        assert!(passes.sent(std::slice::from_ref(&sent)).is_err());
        // Octets stay as they are.
        let photo = modification(ModifyOperation::Replace, "jpegPhoto", &[&long]);
        assert!(passes.sent(&[photo]).is_ok());
    }

    #[test]
    fn the_value_of_the_name_is_looked_for_among_all_that_are_before_it() {
        let long = "\u{FC}".repeat(10_000);
        let schema = Schema::builtin();
        let name = |own: &Entry| Passes::new(WORK_MAX).name(own, &schema).is_ok();
        assert!(name(&entry(&[("cn", &long), ("cn", "a")])), "as it is written");
        assert!(!name(&entry(&[("cn", &long), ("cn", "A")])));
    }
}
