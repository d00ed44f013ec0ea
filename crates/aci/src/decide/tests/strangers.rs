//! What bind rules say of those who are not signed in, and of what cannot be read.

use super::*;

const ANNA: &str = "uid=anna,ou=people,dc=x";
const ALLOW_ALL: &str =
    "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (read) userdn=\"ldap:///anyone\";)";

/// What an allow by this rule gives, and whether a deny by it leaves what all are given.
#[track_caller]
fn given_and_left(rule: &str, who: &str, name: &str) -> [bool; 2] {
    let aci =
        |word: &str| format!("(targetattr=\"*\")(version 3.0; acl \"x\"; {word} (read) {rule};)");
    let given = case(&[("dc=x", &aci("allow"))]).ask(who, "read cn", name);
    let left = case(&[("dc=x", ALLOW_ALL), ("dc=x", &aci("deny"))]).ask(who, "read cn", name);
    [given, left]
}

/// `groupdn != "…"` admitted strangers: who is in no group is not in that one either.
#[test]
fn no_negation_opens_anything_to_who_is_not_signed_in() {
    for condition in [
        "userdn @ \"ldap:///all\"",
        "userdn @ \"ldap:///self\"",
        "userdn @ \"ldap:///parent\"",
        "userdn @ \"ldap:///uid=bert,ou=people,dc=x\"",
        "userdn @ \"ldap:///uid=*,ou=people,dc=x\"",
        "userdn @ \"ldap:///dc=x??sub?(l=oslo)\"",
        "groupdn @ \"ldap:///cn=admins,ou=groups,dc=x\"",
        "roledn @ \"ldap:///cn=admins,ou=groups,dc=x\"",
        "userattr @ \"owner#GROUPDN\"",
        "userattr @ \"parent[0,1].manager#USERDN\"",
        "userattr @ \"labeledURI#LDAPURL\"",
        "userattr @ \"l#oslo\"",
        "authmethod @ \"simple\"",
        "authmethod @ \"sasl EXTERNAL\"",
    ] {
        let (is, is_not) = (condition.replace('@', "="), condition.replace('@', "!="));
        let nothing = [false, false];
        for rule in [
            is_not.clone(),
            format!("not ({is})"),
            format!("not (not ({is}))"),
            format!("not ({is_not})"),
            format!("not ({is} or ssf>\"100\")"),
            format!("({is_not}) and ssf=\"0\""),
            format!("({is_not}) or ssf>\"100\""),
        ] {
            assert_eq!(anonymous(&rule), nothing, "{rule}");
        }
        // Who is not signed in is nobody: that is certain.
        assert_eq!(anonymous(&is), [false, true], "{is}");
        // What else the rule asks for may be true of anybody.
        assert_eq!(anonymous(&format!("({is_not}) or ssf=\"0\"")), [true, false], "{is_not}");
        assert_eq!(anonymous(&format!("({is_not}) and ssf>\"100\"")), [false, true], "{is_not}");
    }
}

/// Asks who did not authenticate.
#[track_caller]
fn anonymous(rule: &str) -> [bool; 2] {
    let aci =
        |word: &str| format!("(targetattr=\"*\")(version 3.0; acl \"x\"; {word} (read) {rule};)");
    let asked = |acis: &[(&str, &str)]| {
        let mut case = case(acis);
        case.method = AuthenticationMethod::Anonymous;
        case.ask("", "read cn", ANNA)
    };
    [asked(&[("dc=x", &aci("allow"))]), asked(&[("dc=x", ALLOW_ALL), ("dc=x", &aci("deny"))])]
}

#[test]
fn what_does_not_ask_who_it_is_may_be_negated_for_anybody() {
    for (rule, holds) in [
        ("userdn!=\"ldap:///anyone\"", false),
        ("not (userdn=\"ldap:///anyone\")", false),
        ("not (userdn!=\"ldap:///anyone || ldap:///self\")", true),
        ("ip!=\"10.0.0.0/8\"", true),
        ("not (ip=\"10.0.0.0/8\")", true),
        ("ssf!=\"128\"", true),
        ("not (ssf>=\"128\")", true),
        ("authmethod!=\"none\"", false),
        ("authmethod=\"none\"", true),
    ] {
        assert_eq!(anonymous(rule), [holds, !holds], "{rule}");
    }
}

#[test]
fn a_negation_is_for_all_others_who_are_signed_in() {
    for (rule, who, holds) in [
        ("groupdn!=\"ldap:///cn=admins,ou=groups,dc=x\"", "anna", true),
        ("groupdn!=\"ldap:///cn=admins,ou=groups,dc=x\"", "carl", false),
        ("not (userdn=\"ldap:///uid=bert,ou=people,dc=x\")", "anna", true),
        ("not (not (userdn=\"ldap:///uid=bert,ou=people,dc=x\"))", "bert", true),
        ("not (userdn=\"ldap:///all\")", "anna", false),
        ("authmethod!=\"sasl EXTERNAL\"", "anna", true),
    ] {
        assert_eq!(given_and_left(rule, who, ANNA), [holds, !holds], "{who} {rule}");
    }
}

/// A value that is no URL counted as one that finds nobody: a deny by it was lifted.
#[test]
fn a_url_that_cannot_be_read_gives_nothing_and_lifts_no_deny() {
    const ERIK: &str = "CN=Erik,Ou=People,DC=X";
    for rule in ["userattr=\"labeledURI#LDAPURL\"", "userattr!=\"labeledURI#LDAPURL\""] {
        assert_eq!(given_and_left(rule, "anna", ERIK), [false, false], "{rule}");
    }
    // One that can be read and finds the asker decides.
    let rule = "userattr=\"labeledURI#LDAPURL\"";
    assert_eq!(given_and_left(rule, "carl", ERIK), [true, false]);
    assert_eq!(given_and_left(rule, "bert", ANNA), [false, true]);
}

#[test]
fn a_macro_that_makes_no_name_gives_nothing_and_lifts_no_deny() {
    let rule = "userdn=\"ldap:///uid=bert,description=($attr.description)\"";
    assert_eq!(given_and_left(rule, "anna", "CN=Erik,Ou=People,DC=X"), [false, false]);
}

/// Nobody knows what `($dn)` was to be where the target came to lie outside the holder.
#[test]
fn where_the_target_lies_outside_the_holder_macros_lift_no_deny() {
    let target = "(target=\"ldap:///ou=people,($dn),ou=groups,dc=x\")(targetattr=\"*\")";
    for rule in [
        "groupdn=\"ldap:///cn=staff,ou=groups,($dn),dc=x\"",
        "userdn=\"ldap:///uid=bert,ou=people,($dn),dc=x\"",
        "userdn=\"ldap:///uid=bert,ou=people,[$dn],dc=x\"",
    ] {
        let deny = format!("{target}(version 3.0; acl \"x\"; deny (read) {rule};)");
        let case = case(&[("dc=x", ALLOW_ALL), ("dc=a,dc=x", &deny)]);
        case.check("anna", "read cn", "dc=a,dc=x", false);
        case.check("anna", "read cn", "ou=groups,dc=x", true);
    }
    let filter = "(targetfilter=\"(ou=($dn))\")(version 3.0; acl \"x\"; deny (read)";
    let deny = format!("{target}{filter} userdn=\"ldap:///all\";)");
    let case = case(&[("dc=x", ALLOW_ALL), ("dc=a,dc=x", &deny)]);
    let cn = Schema::builtin().describe("cn").unwrap();
    case.asked("anna", |asker| {
        let rules = Rules::new(&case.set, 0);
        for (name, want) in [("dc=a,dc=x", false), ("ou=groups,dc=x", true)] {
            let entry = case.world.find(&key(name)).unwrap();
            assert_eq!(rules.below(asker, &key(name)).of(entry).may(Right::Read, &cn), want);
        }
    });
}

/// Who may write such a value could guess passwords by whom it gives something.
#[test]
fn a_url_that_an_entry_holds_finds_nobody_by_what_is_secret() {
    let rule = "userattr=\"labeledURI#LDAPURL\"";
    let allow = format!("(targetattr=\"cn\")(version 3.0; acl \"x\"; allow (read) {rule};)");
    let mut case = case(&[("dc=x", &allow)]);
    let holder = |name: &str, filter: &str| {
        let url = format!("ldap:///ou=people,dc=x??one?{filter}");
        entry(name, &[("cn", "x"), ("labeledURI", &url)])
    };
    case.world.entries.extend([
        entry("uid=dirk,ou=people,dc=x", &[("uid", "dirk"), ("userPassword", "secret")]),
        holder("cn=a,dc=x", "(uid=dirk)"),
        holder("cn=b,dc=x", "(userPassword=secret)"),
    ]);
    let cn = Schema::builtin().describe("cn").unwrap();
    case.asked("dirk", |asker| {
        let rules = Rules::new(&case.set, 0);
        for (name, want) in [("cn=a,dc=x", true), ("cn=b,dc=x", false)] {
            let entry = case.world.find(&key(name)).unwrap();
            let reach = rules.below(asker, &key(name));
            assert_eq!(reach.of(entry).may(Right::Read, &cn), want, "{name}");
        }
    });
}
