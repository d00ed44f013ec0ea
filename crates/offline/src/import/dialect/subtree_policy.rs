//! Password policies of 389 for a subtree: `cn="cn=nsPwPolicyEntry_subtree,ou=people,dc=x"` below
//! `cn=nsPwPolicyContainer,ou=people,dc=x`, which Class of Service gives to the entries below
//! `ou=people,dc=x`. Here they are subentries of that entry.
//!
//! Invariant: what has another form, such as the policy of one user, keeps its name.

use ldap::dn::{Dn, Rdn};

use super::begins_with;

/// Whether the name of an entry begins as one of theirs may do. Costs little.
pub(super) fn may_be(dn: &str) -> bool {
    STARTS.iter().any(|start| begins_with(dn, start))
}

/// The name as that of a subentry of the top of the subtree.
pub(super) fn moved(dn: &str) -> Option<String> {
    if !may_be(dn) {
        return None;
    }
    let dn = Dn::parse(dn).ok()?;
    let [leaf, container, ..] = dn.rdns() else { return None };
    if !value_of(container)?.eq_ignore_ascii_case(CONTAINER) {
        return None;
    }
    let top = dn.parent()?.parent()?;
    let about = Dn::parse(value_of(leaf)?).ok()?;
    let is_policy = about
        .rdns()
        .first()
        .and_then(value_of)
        .is_some_and(|name| POLICIES.iter().any(|policy| name.eq_ignore_ascii_case(policy)));
    let is_of_top = about.parent()?.to_string().eq_ignore_ascii_case(&top.to_string());
    (is_policy && is_of_top).then(|| top.child(leaf.clone()).to_string())
}

/// A value that names such a policy.
pub(super) fn value(value: &[u8]) -> Option<Vec<u8>> {
    moved(std::str::from_utf8(value).ok()?).map(String::into_bytes)
}

/// The text of an RDN of one value.
fn value_of(rdn: &Rdn) -> Option<&str> {
    match rdn.avas() {
        [ava] => std::str::from_utf8(&ava.value).ok(),
        _ => None,
    }
}

/// What says which entries a subentry is about.
pub(super) const SPECIFICATION: &str = "subtreeSpecification";
const CONTAINER: &str = "nsPwPolicyContainer";
/// New releases, and old ones, where policies of users have the same name.
const POLICIES: [&str; 2] = ["nsPwPolicyEntry_subtree", "nsPwPolicyEntry"];
/// How a name begins whose leaf has a name for its value.
const STARTS: [&str; 3] = ["cn=cn\\", "cn=\"cn=", "cn=cn="];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_of_a_subtree_is_below_its_top() {
        let new = "cn=cn\\3DnsPwPolicyEntry_subtree\\2Cou\\3Da\\2Cdc\\3Dx";
        for leaf in [new, "cn=cn=nsPwPolicyEntry_subtree\\,ou=A\\,dc=x"] {
            let found = moved(&format!("{leaf},cn=NSpwPolicyContainer,ou=a,dc=x")).unwrap();
            assert!(found.ends_with("\\,dc=x,ou=a,dc=x"), "{found}");
            assert_eq!(moved(&found), None, "once is enough");
        }
        for other in [
            "cn=cn\\3DnsPwPolicyEntry_user\\2Cuid\\3Db\\2Cou\\3Da,cn=nsPwPolicyContainer,ou=a",
            "cn=cn\\3DnsPwPolicyEntry\\2Cuid\\3Db\\2Cou\\3Da,cn=nsPwPolicyContainer,ou=a",
            "cn=cn\\3DnsPwTemplateEntry\\2Cou\\3Da,cn=nsPwPolicyContainer,ou=a",
            "cn=cn\\3DnsPwPolicyEntry_subtree\\2Cou\\3Da,cn=other,ou=a",
            "cn=nsPwPolicyContainer,ou=a",
            "cn=cn\\",
            "",
        ] {
            assert_eq!(moved(other), None, "{other}");
        }
    }
}
