//! Which attributes are computed when an entry is read.

use schema::{AttributeDescription, WellKnown};

/// All of them.
pub fn descriptions(known: &WellKnown) -> [&AttributeDescription; 8] {
    let [one, two, three, four] = of_entry(known);
    let [five, six, seven, eight] = of_groups(known);
    [one, two, three, four, five, six, seven, eight]
}

/// Those that tell of the entry and its subordinates.
pub(super) fn of_entry(known: &WellKnown) -> [&AttributeDescription; 4] {
    [&known.entry_dn, &known.subschema_subentry, &known.has_subordinates, &known.num_subordinates]
}

/// Those that tell of groups and roles. One that the schema of a site makes a user attribute is
/// stored, and not computed.
pub(crate) fn of_groups(known: &WellKnown) -> [&AttributeDescription; 4] {
    [&known.is_member_of, &known.member_of, &known.is_direct_member_of, &known.ns_role]
}
