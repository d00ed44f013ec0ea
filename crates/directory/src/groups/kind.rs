//! Which entries are groups.
//!
//! Invariant: an entry is a group by its structural class, which it has from its first day. Who may
//! write the classes and members of an account could else make it a group, and so put anybody
//! into every group that the account is in.

use schema::{AttributeDescription, ClassKind, EntryRead, ObjectClass, Schema};

/// Whether an entry is a group.
pub(crate) fn is_group(entry: &dyn EntryRead, schema: &Schema) -> bool {
    let own = &schema.well_known().object_class;
    let mut found = false;
    entry.visit_values(own, &mut |_, value| {
        let name = std::str::from_utf8(value).unwrap_or_default();
        found = schema.object_class(name).is_some_and(|class| is_group_class(class, schema));
        !found
    });
    found
}

/// Whether a class is structural and provides for members itself: `groupOfNames` and its like, and
/// what other vendors and sites define.
pub(crate) fn is_group_class(class: &ObjectClass, schema: &Schema) -> bool {
    let known = schema.well_known();
    let named: [&AttributeDescription; 3] =
        [&known.member, &known.unique_member, &known.member_url];
    let mut attributes = class.all_must.iter().chain(&class.all_may);
    let is_listed =
        |name: &str| schema.object_class(name).is_some_and(|listed| class.is_subclass_of(listed));
    class.kind == ClassKind::Structural
        && (attributes.any(|kind| named.iter().any(|one| kind.is_subtype_of(&one.kind)))
            || WITH_MEMBERS_BY_OTHERS.iter().any(|name| is_listed(name)))
}

/// Structural classes of groups whose members are attributes of auxiliary classes: that of RFC
/// 2307. In RFC 2307bis it is an auxiliary class itself, and makes no group.
const WITH_MEMBERS_BY_OTHERS: &[&str] = &["posixGroup"];

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;
    use schema::Entry;

    use super::*;

    #[test]
    fn a_group_is_one_by_its_structural_class() {
        let schema = Schema::builtin();
        let check = |classes: &[&str], want: bool| {
            let pairs = classes.iter().map(|class| ("objectClass", class.as_bytes()));
            let entry = Entry::from_pairs(Dn::parse("cn=a").unwrap(), pairs, &schema).unwrap();
            assert_eq!(is_group(&entry, &schema), want, "{classes:?}");
        };
        for class in ["groupOfNames", "groupOfUniqueNames", "groupOfEntries", "GROUPOFURLS"] {
            check(&[class], true);
            check(&["top", "extensibleObject", class], true);
        }
        check(&["2.5.6.9"], true);
        for class in ["inetOrgPerson", "organizationalUnit", "device", "organizationalRole"] {
            check(&[class], false);
            check(&[class, "extensibleObject", "ds-virtual-static-group", "posixGroup"], false);
        }
    }
}
