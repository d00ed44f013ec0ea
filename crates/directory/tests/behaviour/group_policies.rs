//! Password policies of the members of groups and roles.

use std::time::Duration;

use ldap::message::ModifyOperation::{self, Add, Delete, Replace};
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::DnKey;
use store::Resolved;

use crate::support::{Asked, Client, SUFFIX, Served};

fn dn(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

#[track_caller]
fn add(root: &mut Client, name: &str, attributes: &[(&str, &[&str])]) {
    let answer = root.try_add(&dn(name), attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

#[track_caller]
fn change(root: &mut Client, name: &str, how: ModifyOperation, what: (&str, &[&str])) {
    let answer = root.try_modify(&dn(name), &[(how, what.0, what.1)]);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

fn add_person(root: &mut Client, name: &str) {
    let secret = ("userPassword", &["a secret of mine"][..]);
    add(root, name, &[("objectClass", &["inetOrgPerson"]), ("sn", &["Archer"]), secret]);
}

fn add_policy(root: &mut Client, name: &str, filter: &str, rules: &[(&str, &str)]) {
    let filter = match filter {
        "" => "{}".to_owned(),
        filter => format!("{{ specificationFilter \"{}\" }}", filter.replace("SUFFIX", SUFFIX)),
    };
    let mut attributes: Vec<(&str, &[&str])> = vec![
        ("objectClass", &["top", "subentry", "pwdPolicy"]),
        ("pwdAttribute", &["userPassword"]),
    ];
    let filter = [filter.as_str()];
    attributes.push(("subtreeSpecification", &filter));
    attributes.extend(rules.iter().map(|(name, value)| (*name, std::slice::from_ref(value))));
    add(root, name, &attributes);
}

/// The policy that governs somebody, as the entry tells.
#[track_caller]
fn check(root: &mut Client, name: &str, want: &str) {
    let (base, attributes) = (dn(name), &["pwdPolicySubentry"][..]);
    let asked = Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() };
    let told = root.search(&asked).entries[0].texts("pwdPolicySubentry");
    let want: Vec<String> =
        [want].iter().filter(|one| !one.is_empty()).map(|one| dn(one)).collect();
    assert_eq!(told, want, "{name}");
}

/// Anna and Bob, and a group with Anna that no policy names.
fn served() -> Served {
    let served = Served::with(|options| {
        options.password_policy.state_delay = Duration::from_secs(3_600);
    });
    let mut root = served.root();
    add_person(&mut root, "anna");
    add_person(&mut root, "bob");
    let classes = ("objectClass", &["groupOfEntries"][..]);
    add(&mut root, "staff", &[classes, ("member", &[&dn("anna")])]);
    served
}

#[test]
fn groups_and_roles_of_each_kind_have_policies() {
    let served = served();
    let mut root = served.root();
    let classes = ("objectClass", &["groupOfEntries"][..]);
    add(&mut root, "all", &[classes, ("member", &[&dn("staff")])]);
    let url = format!("ldap:///{SUFFIX}??sub?(cn=anna)");
    add(&mut root, "described", &[("objectClass", &["groupOfURLs"]), ("memberURL", &[&url])]);
    let classes = ("objectClass", &["ldapSubentry", "nsFilteredRoleDefinition"][..]);
    add(&mut root, "role", &[classes, ("nsRoleFilter", &["(cn=anna)"])]);
    for (filter, anna, bob) in [
        ("(isMemberOf=cn=staff,SUFFIX)", "policy", ""),
        ("(memberOf=CN=Staff, SUFFIX)", "policy", ""),
        ("(isMemberOf=cn=all,SUFFIX)", "policy", ""),
        ("(isDirectMemberOf=cn=all,SUFFIX)", "", ""),
        ("(isMemberOf=cn=described,SUFFIX)", "policy", ""),
        ("(nsRole=cn=role,SUFFIX)", "policy", ""),
        ("(&(isMemberOf=cn=all,SUFFIX)(sn=baker))", "", ""),
        ("(|(isMemberOf=cn=all,SUFFIX)(cn=bob))", "policy", "policy"),
        ("(!(isMemberOf=cn=all,SUFFIX))", "", "policy"),
        ("(isMemberOf=cn=nowhere,SUFFIX)", "", ""),
    ] {
        add_policy(&mut root, "policy", filter, &[]);
        check(&mut root, "anna", anna);
        check(&mut root, "bob", bob);
        assert_eq!(root.delete(&dn("policy")), ResultCode::Success, "{filter}");
    }
}

#[test]
fn the_own_pointer_comes_first_then_groups_then_subtrees() {
    let served = served();
    let mut root = served.root();
    add_policy(&mut root, "a whole", "", &[]);
    check(&mut root, "anna", "a whole");
    add_policy(&mut root, "p2", "(isMemberOf=cn=staff,SUFFIX)", &[]);
    check(&mut root, "anna", "p2");
    check(&mut root, "bob", "a whole");
    // Of two groups the policy whose name comes first.
    add_policy(&mut root, "p1", "(isMemberOf=cn=staff,SUFFIX)", &[]);
    check(&mut root, "anna", "p1");
    change(&mut root, "anna", Add, ("pwdPolicySubentry", &[&dn("a whole")]));
    check(&mut root, "anna", "a whole");
    change(&mut root, "anna", Delete, ("pwdPolicySubentry", &[]));
    assert_eq!(root.delete(&dn("p1")), ResultCode::Success);
    // In the moment after a change of the group.
    change(&mut root, "staff", Replace, ("member", &[&dn("bob")]));
    check(&mut root, "anna", "a whole");
    check(&mut root, "bob", "p2");
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    check(&mut root, "anna", "a whole");
    check(&mut root, "bob", "p2");
}

#[test]
fn binds_and_new_passwords_follow_the_policy_of_the_group() {
    let served = served();
    let mut root = served.root();
    let rules = &[
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "1"),
        ("pwdCheckQuality", "2"),
        ("pwdMinLength", "12"),
        ("pwdMustChange", "TRUE"),
    ];
    add_policy(&mut root, "policy", "(isMemberOf=cn=staff,SUFFIX)", rules);
    let (anna, bob) = (dn("anna"), dn("bob"));
    let mut client = served.client();
    for (who, want) in [(&anna, ResultCode::InvalidCredentials), (&bob, ResultCode::Success)] {
        assert_eq!(client.bind(who, "wrong"), ResultCode::InvalidCredentials);
        assert_eq!(client.bind(who, "a secret of mine"), want, "{who}");
    }
    // Whoever leaves the group is not locked by its policy again.
    change(&mut root, "staff", Replace, ("member", &[&bob]));
    change(&mut root, "anna", Replace, ("userPassword", &["a secret of mine"]));
    // It may have been written already.
    change(&mut root, "anna", Replace, ("pwdAccountLockedTime", &[]));
    assert_eq!(client.bind(&anna, "wrong"), ResultCode::InvalidCredentials);
    assert_eq!(client.bind(&anna, "a secret of mine"), ResultCode::Success);
    let set = |who: &str, password: &str| {
        let mut client = served.client();
        assert_eq!(client.bind(who, "a secret of mine"), ResultCode::Success);
        client.modify(who, &[(Replace, "userPassword", &[password])])
    };
    assert_eq!(set(&bob, "xk4-9q!mz"), ResultCode::ConstraintViolation);
    assert_eq!(set(&anna, "xk4-9q!mz"), ResultCode::Success);
    // What the administrator set has to be changed.
    change(&mut root, "bob", Replace, ("userPassword", &["given by the desk"]));
    change(&mut root, "anna", Replace, ("userPassword", &["given by the desk"]));
    for (who, want) in [(&anna, ResultCode::Success), (&bob, ResultCode::InsufficientAccessRights)]
    {
        let mut client = served.client();
        assert_eq!(client.bind(who, "given by the desk"), ResultCode::Success);
        assert_eq!(client.search(&Asked::default()).code(), want, "{who}");
    }
    // One that is a member before it is there.
    change(&mut root, "staff", Add, ("member", &[&dn("carl")]));
    add_person(&mut root, "carl");
    check(&mut root, "carl", "policy");
}

#[test]
fn nobody_leaves_a_policy_by_the_own_entry() {
    let served = served();
    let mut root = served.root();
    let url = format!("ldap:///{SUFFIX}??sub?(title=boss)");
    add(&mut root, "bosses", &[("objectClass", &["groupOfURLs"]), ("memberURL", &[&url])]);
    add_policy(&mut root, "lax", "(isMemberOf=cn=bosses,SUFFIX)", &[]);
    let rule = "(targetattr=\"title\")(version 3.0; acl \"own\"; \
                allow (write) userdn=\"ldap:///self\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[rule])]), ResultCode::Success);
    let mut anna = served.client();
    assert_eq!(anna.bind(&dn("anna"), "a secret of mine"), ResultCode::Success);
    let mut call = |title: &str| anna.modify(&dn("anna"), &[(Replace, "title", &[title])]);
    assert_eq!(call("clerk"), ResultCode::Success);
    assert_eq!(call("boss"), ResultCode::InsufficientAccessRights);
    check(&mut root, "anna", "");
    change(&mut root, "anna", Replace, ("title", &["boss"]));
    check(&mut root, "anna", "lax");
    assert_eq!(call("clerk"), ResultCode::InsufficientAccessRights);
    assert_eq!(call("Boss"), ResultCode::Success);
    // Nobody takes the group away from under the policy either.
    let rule = "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (all) userdn=\"ldap:///all\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[rule])]), ResultCode::Success);
    let renamed = anna.rename(&dn("bosses"), "cn=chiefs", true, None);
    assert_eq!(renamed, ResultCode::InsufficientAccessRights);
    assert_eq!(root.rename(&dn("bosses"), "cn=chiefs", true, None), ResultCode::Success);
    check(&mut root, "anna", "");
}

/// Of somebody who is in more groups than anybody counts those that are found hold; that she is in
/// none of the others cannot be said.
#[test]
fn of_too_many_groups_those_that_are_found_count() {
    let served = served();
    let mut root = served.root();
    let names = |letter: &str| (0..160).map(|one| format!("{letter}{one}")).collect::<Vec<_>>();
    let classes = ("objectClass", &["groupOfEntries"][..]);
    let below = names("below");
    for group in &below {
        add(&mut root, group, &[classes, ("member", &[&dn("anna")])]);
    }
    let members: Vec<String> = below.iter().map(|one| dn(one)).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    for group in names("above") {
        add(&mut root, &group, &[classes, ("member", &members)]);
    }
    add_policy(&mut root, "found", "(isMemberOf=cn=below7,SUFFIX)", &[]);
    check(&mut root, "anna", "found");
    assert_eq!(root.delete(&dn("found")), ResultCode::Success);
    add_policy(&mut root, "none", "(!(isMemberOf=cn=nowhere,SUFFIX))", &[]);
    check(&mut root, "anna", "");
    check(&mut root, "bob", "none");
}

/// Makes the record of an entry one that nobody can read.
fn spoil(served: &Served, name: &str) {
    let store = served.directory.store();
    let key = DnKey::from_text(&store.schema(), &dn(name)).unwrap();
    let found = store.reader().view().unwrap().resolve(&key).unwrap();
    let Resolved::Found(id) = found else { panic!("{name} is not there") };
    store.spoil(id).unwrap();
}

/// A group that could not be read was one that nobody was in: its policy did not hold, and a
/// locked account could sign in.
#[test]
fn who_is_in_a_group_that_cannot_be_read_signs_in_under_no_other_policy() {
    let served = served();
    let mut root = served.root();
    add_policy(&mut root, "strict", "(isMemberOf=cn=staff,SUFFIX)", &[("pwdLockout", "TRUE")]);
    add_policy(&mut root, "a whole", "", &[]);
    check(&mut root, "anna", "strict");
    spoil(&served, "staff");
    let mut client = served.client();
    check(&mut root, "bob", "a whole");
    assert_eq!(client.bind(&dn("bob"), "a secret of mine"), ResultCode::Success);
    // Whether the password is right or not.
    for password in ["a secret of mine", "another one"] {
        assert_eq!(client.bind(&dn("anna"), password), ResultCode::Other, "{password}");
    }
    let refused = root.try_modify(&dn("anna"), &[(Replace, "userPassword", &["a new secret"])]);
    assert_eq!(refused.code(), ResultCode::Other);
    // What asks for no policy goes on.
    change(&mut root, "anna", Replace, ("title", &["boss"]));
}
