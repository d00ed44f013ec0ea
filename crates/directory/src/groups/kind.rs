//! Which entries are groups.
//!
//! Invariant: an entry is a group by its structural class, which it has from its first day. Who may
//! write the classes and members of an account could else make it a group, and so put anybody
//! into every group that the account is in.

use schema::{ClassKind, EntryRead, ObjectClass, Schema};

/// Whether an entry is a group.
pub(crate) fn is_group(entry: &dyn EntryRead, schema: &Schema) -> bool {
    let own = &schema.well_known().object_class;
    let (mut found, mut is_posix_group, mut is_something_else) = (false, false, false);
    entry.visit_values(own, &mut |_, value| {
        let name = std::str::from_utf8(value).unwrap_or_default();
        if let Some(class) = schema.object_class(name) {
            found = class.is_of_groups(schema);
            is_posix_group |= is_posix(class);
            is_something_else |= class.kind == ClassKind::Structural;
        }
        !found
    });
    // Where it is auxiliary (RFC 2307bis) it stands for the structural class of what has no other.
    found || (is_posix_group && !is_something_else)
}

/// Whether it is the class of groups of RFC 2307.
pub(crate) fn is_posix(class: &ObjectClass) -> bool {
    class.names.iter().any(|name| name.eq_ignore_ascii_case(POSIX_GROUP))
}

/// The class of groups of RFC 2307.
const POSIX_GROUP: &str = "posixGroup";

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
        check(&["posixGroup"], true);
        check(&["top", "posixGroup", "posixAccount"], true);
    }
}
