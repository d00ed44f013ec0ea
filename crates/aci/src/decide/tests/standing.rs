//! What rules ask of the world beside the entry.

use super::*;

/// One rule that lets read by `rule`.
fn by(rule: &str) -> Case {
    case(&[("dc=x", &format!("(targetattr=\"*\")(version 3.0; acl \"x\"; allow (read) {rule};)"))])
}

#[test]
fn what_rules_ask_of_a_connection_counts() {
    let standing =
        |case: &Case| case.asked("anna", |asker| Rules::new(&case.set, 0).standing(asker, &|| {}));
    let clear = by("ssf>=\"128\"");
    assert_eq!(standing(&clear), standing(&by("ssf>=\"128\"")));
    let tls = Case { ssf: 256, ..by("ssf>=\"128\"") };
    assert_ne!(standing(&clear), standing(&tls));
}

#[test]
fn rules_that_ask_for_other_entries_are_known_where_they_concern_the_asker() {
    let hangs = |rule: &str, who: &str| {
        let case = by(rule);
        case.asked(who, |asker| Rules::new(&case.set, 0).hangs_on_others(asker))
    };
    for rule in [
        "userattr=\"parent[1].manager#USERDN\"",
        "userattr=\"owner#GROUPDN\"",
        "userattr=\"labeledURI#LDAPURL\"",
        "userattr=\"l#Rome\"",
    ] {
        assert!(hangs(rule, "anna"), "{rule}");
        assert!(!hangs(rule, ""), "{rule}: who has no entry is none of those");
    }
    for rule in [
        "userattr=\"manager#USERDN\"",
        "userdn=\"ldap:///self\"",
        "groupdn=\"ldap:///cn=staff,ou=groups,dc=x\"",
        "ssf>=\"128\" and userattr=\"owner#GROUPDN\"",
    ] {
        assert!(!hangs(rule, "anna"), "{rule}");
    }
}
