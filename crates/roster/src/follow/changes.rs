//! What makes an entry here as it is wanted, by what differs.

use std::sync::Arc;

use client::FoundEntry;
use ldap::message::{Modification, ModificationsBuf, ModifyOperation, PartialAttribute, ValuesBuf};

use super::wanted::Wanted;
use crate::diff::body::{Body, BodyWriter};
use crate::diff::entry::compare;
use crate::diff::known::Attributes;
use crate::failure::Failure;

/// What makes the entry that was found as it is wanted.
pub(super) fn changes(
    wanted: &Wanted,
    found: &FoundEntry,
    attributes: &mut Attributes,
) -> Result<ModificationsBuf, Failure> {
    let mut octets = Vec::new();
    let mut writer = BodyWriter::new(&mut octets, &[], &found.dn);
    for (description, values) in &found.attributes {
        if attributes.get(description).is_read {
            values.iter().for_each(|value| writer.value(description, value));
        }
    }
    let (first, second) = (Body::read(&wanted.body)?, Body::read(&octets)?);
    let schema = Arc::clone(&attributes.schema);
    let is_kept = |description: &str| {
        let own = schema.describe(description);
        own.is_ok_and(|own| {
            own.kind.no_user_modification
                && !GO_WITH_SOURCE.iter().any(|name| own.kind.is_named(name))
        })
    };
    let mut all = ModificationsBuf::new();
    let mut named = Vec::new();
    for one in compare(&first, &second, attributes).modifications {
        let is_gone = one.operation == ModifyOperation::Delete && one.values.is_empty();
        if is_gone && is_kept(&one.description) {
            continue;
        }
        named.extend(STAMPS.iter().filter(|stamp| one.description.eq_ignore_ascii_case(stamp)));
        push(&mut all, one.operation, &one.description, one.values.iter().map(Vec::as_slice));
    }
    // Else the change would be stamped with now, and who follows.
    if all.as_ref().iter().next().is_some() {
        for stamp in STAMPS.iter().filter(|stamp| !named.contains(stamp)) {
            for (name, value) in first.values().filter(|(name, _)| name.eq_ignore_ascii_case(stamp))
            {
                push(&mut all, ModifyOperation::Replace, name, std::iter::once(value));
            }
        }
    }
    Ok(all)
}

fn push<'v>(
    all: &mut ModificationsBuf,
    operation: ModifyOperation,
    description: &str,
    values: impl Iterator<Item = &'v [u8]>,
) {
    let mut list = ValuesBuf::new();
    values.for_each(|value| list.push(value));
    let attribute = PartialAttribute { description, values: list.as_ref() };
    all.push(Modification { operation, attribute });
}

/// Attributes only servers set that go when the source has them no more; others that only this
/// server has are its own, such as when somebody signed in here.
const GO_WITH_SOURCE: [&str; 4] =
    ["pwdAccountLockedTime", "pwdFailureTime", "pwdGraceUseTime", "pwdReset"];
const STAMPS: [&str; 2] = ["modifyTimestamp", "modifiersName"];

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use schema::Schema;

    use super::super::wanted::settable;
    use super::*;

    fn changed(wanted: &[(&str, &str)], found: &[(&str, &str)]) -> Vec<(ModifyOperation, String)> {
        let mut body = Vec::new();
        let mut writer = BodyWriter::new(&mut body, &[], "cn=a,o=x");
        wanted.iter().for_each(|(name, value)| writer.value(name, value.as_bytes()));
        let wanted = Wanted { uuid: [0; 16], dn: "cn=a,o=x".to_owned(), body };
        let attributes =
            |(name, value): &(&str, &str)| ((*name).to_owned(), vec![value.as_bytes().to_vec()]);
        let attributes = found.iter().map(attributes).collect();
        let found = FoundEntry { dn: "cn=a,o=x".to_owned(), attributes };
        let mut attributes = settable(&Schema::builtin());
        let changes = changes(&wanted, &found, &mut attributes).unwrap();
        let one = |one: Modification<'_>| (one.operation, one.attribute.description.to_owned());
        changes.as_ref().iter().map(one).collect()
    }

    #[test]
    fn an_entry_becomes_as_the_source_has_it_with_the_stamps_of_the_source() {
        let stamp = (STAMPS[0], "20270101000000Z");
        assert!(changed(&[("sn", "A"), stamp], &[("sn", "a"), stamp]).is_empty());
        let all = changed(&[("sn", "b"), stamp], &[("sn", "a"), ("l", "x"), stamp]);
        let stamped = (ModifyOperation::Replace, STAMPS[0].to_owned());
        assert!(all.contains(&(ModifyOperation::Replace, "sn".to_owned())), "{all:?}");
        assert!(all.contains(&(ModifyOperation::Delete, "l".to_owned())), "{all:?}");
        assert_eq!(all.last(), Some(&stamped));
        // What this server noted stays, but for what locks an account.
        let found = [("sn", "a"), ("pwdChangedTime", "20270101000000Z")];
        assert!(changed(&[("sn", "a")], &found).is_empty());
        let found = [("sn", "a"), ("pwdAccountLockedTime", "000001010000Z")];
        assert_eq!(changed(&[("sn", "a")], &found).len(), 1);
    }
}
