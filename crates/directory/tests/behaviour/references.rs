//! Values that name an entry follow it when it is renamed, and go when it is deleted.

use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::message::{Control, ControlsBuf, DeleteRequest, Request, Scope};
use ldap::result::ResultCode;

use crate::support::{Asked, Client, SUFFIX, Served};

const CONFIG: &str = "cn=References,cn=config";
const TREE_DELETE: &str = "1.2.840.113556.1.4.805";

fn dn(name: &str) -> String {
    format!("{name},{SUFFIX}")
}

#[track_caller]
fn add(root: &mut Client, name: &str, attributes: &[(&str, &[&str])]) {
    let answer = root.try_add(&dn(name), attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

fn values(client: &mut Client, name: &str, attribute: &str) -> Vec<String> {
    let (base, attributes) = (dn(name), &[attribute][..]);
    let answer =
        client.search(&Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
    let values = answer.entries[0].texts(attribute);
    values.iter().map(|one| one.replace(&format!(",{SUFFIX}"), "")).collect()
}

fn add_person(root: &mut Client, name: &str) {
    add(root, name, &[("objectClass", &["inetOrgPerson"]), ("sn", &["x"]), ("cn", &["x"])]);
}

fn add_group(root: &mut Client, name: &str, members: &[&str]) {
    let members: Vec<String> = members.iter().map(|member| dn(member)).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    add(root, name, &[("objectClass", &["groupOfNames"]), ("member", &members)]);
}

/// People below two units, groups of them.
fn filled() -> Served {
    let served = Served::new();
    let mut root = served.root();
    for unit in ["ou=here", "ou=there", "ou=deep,ou=here"] {
        add(&mut root, unit, &[("objectClass", &["organizationalUnit"])]);
    }
    for person in ["uid=anna,ou=here", "uid=bob,ou=here", "uid=cora,ou=deep,ou=here"] {
        add_person(&mut root, person);
    }
    add_group(
        &mut root,
        "cn=all",
        &["uid=anna,ou=here", "UID=Bob, OU=Here", "uid=cora,ou=deep,ou=here"],
    );
    add_group(&mut root, "cn=one", &["uid=anna,ou=here"]);
    let anna = dn("uid=anna,ou=here");
    let classes = ("objectClass", &["groupOfUniqueNames"][..]);
    add(&mut root, "cn=unique", &[classes, ("uniqueMember", &[&anna])]);
    let change = root.modify(&dn("uid=bob,ou=here"), &[(Add, "manager", &[&anna])]);
    assert_eq!(change, ResultCode::Success);
    served
}

#[test]
fn what_names_a_deleted_entry_goes_with_it() {
    let served = filled();
    let mut root = served.root();
    let before = values(&mut root, "cn=one", "modifyTimestamp");
    let last = || served.directory.store().published().lsn.0;
    let records = last();
    assert_eq!(root.delete(&dn("uid=anna,ou=here")), ResultCode::Success);
    assert_eq!(last(), records + 1, "it is one change record");
    assert_eq!(
        values(&mut root, "cn=all", "member"),
        ["UID=Bob, OU=Here", "uid=cora,ou=deep,ou=here"]
    );
    // A group may be empty.
    assert_eq!(values(&mut root, "cn=one", "member"), [""; 0]);
    assert_eq!(values(&mut root, "cn=unique", "uniqueMember"), [""; 0]);
    assert_eq!(values(&mut root, "uid=bob,ou=here", "manager"), [""; 0]);
    assert_eq!(before.len(), 1);
    // In another spelling it names the same entry.
    assert_eq!(root.delete(&dn("uid=bob,ou=here")), ResultCode::Success);
    assert_eq!(values(&mut root, "cn=all", "member"), ["uid=cora,ou=deep,ou=here"]);
}

#[test]
fn what_names_a_renamed_entry_or_one_below_it_follows() {
    let served = filled();
    let mut root = served.root();
    let to = dn("ou=there");
    assert_eq!(root.rename(&dn("ou=here"), "ou=office", true, Some(&to)), ResultCode::Success);
    assert_eq!(
        values(&mut root, "cn=all", "member"),
        [
            "uid=anna,ou=office,ou=there",
            "UID=Bob,ou=office,ou=there",
            "uid=cora,ou=deep,ou=office,ou=there",
        ]
    );
    assert_eq!(values(&mut root, "cn=one", "member"), ["uid=anna,ou=office,ou=there"]);
    assert_eq!(values(&mut root, "cn=unique", "uniqueMember"), ["uid=anna,ou=office,ou=there"]);
    let bob = "uid=bob,ou=office,ou=there";
    assert_eq!(values(&mut root, bob, "manager"), ["uid=anna,ou=office,ou=there"]);
    // It can be searched for as it is called now.
    let filter = format!("(member={})", dn("uid=anna,ou=office,ou=there"));
    let answer = root.search(&Asked { filter: &filter, ..Asked::default() });
    assert_eq!(answer.entries.len(), 2, "{filter}");
    // Another spelling of the same name is no news for them.
    let (anna, to) = (dn("uid=anna,ou=office,ou=there"), "UID=ANNA");
    assert_eq!(root.rename(&anna, to, false, None), ResultCode::Success);
    assert_eq!(values(&mut root, "cn=one", "member"), ["uid=anna,ou=office,ou=there"]);
    // Whoever is named twice then is named once.
    let change =
        root.modify(&dn("cn=one"), &[(Add, "member", &[&dn("uid=zoe,ou=office,ou=there")])]);
    assert_eq!(change, ResultCode::Success);
    assert_eq!(root.rename(&anna, "uid=zoe", true, None), ResultCode::Success);
    assert_eq!(values(&mut root, "cn=one", "member"), ["uid=zoe,ou=office,ou=there"]);
}

#[test]
fn a_deleted_tree_leaves_nothing_that_names_it() {
    let served = filled();
    let mut root = served.root();
    add_group(&mut root, "cn=within,ou=here", &["uid=anna,ou=here", "uid=bob,ou=here"]);
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: TREE_DELETE, critical: true, value: None });
    let answer =
        root.request(Request::Delete(DeleteRequest { name: &dn("ou=here") }), controls.as_ref());
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    assert_eq!(values(&mut root, "cn=all", "member"), [""; 0]);
    assert_eq!(values(&mut root, "cn=unique", "uniqueMember"), [""; 0]);
}

/// The right to delete is enough, and nothing is told of what changes besides.
#[test]
fn references_follow_whatever_rights_there_are_on_them() {
    let served = filled();
    let mut root = served.root();
    let aci = format!(
        "(target=\"ldap:///ou=here,{SUFFIX}\")(targetattr=\"*\")(version 3.0; acl \"d\"; \
         allow (all) userdn=\"ldap:///uid=bob,ou=here,{SUFFIX}\";)"
    );
    let hide = "(targetattr=\"*\")(targetfilter=\"(objectClass=groupOfNames)\")(version 3.0; \
                acl \"h\"; deny (all) userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[&aci, hide])]), ResultCode::Success);
    let bob = dn("uid=bob,ou=here");
    assert_eq!(
        root.modify(&bob, &[(Replace, "userPassword", &["secret words"])]),
        ResultCode::Success
    );
    let mut client = served.client();
    assert_eq!(client.bind(&bob, "secret words"), ResultCode::Success);
    let denied = client.modify(&dn("cn=all"), &[(Delete, "member", &[])]);
    assert_eq!(denied, ResultCode::InsufficientAccessRights);
    assert_eq!(client.delete(&dn("uid=anna,ou=here")), ResultCode::Success);
    assert_eq!(values(&mut root, "cn=one", "member"), [""; 0]);
    assert_eq!(values(&mut root, "cn=all", "member").len(), 2);
}

#[test]
fn which_attributes_follow_is_a_setting() {
    let served = filled();
    let mut root = served.root();
    let mut set = |values: &[&str]| {
        let answer = root.try_modify(CONFIG, &[(Replace, "roster-reference", values)]);
        (answer.code(), answer.diagnostic)
    };
    let (code, why) = set(&["description"]);
    assert_eq!(code, ResultCode::UnwillingToPerform, "{why}");
    let (code, why) = set(&["secretary"]);
    assert_eq!(code, ResultCode::UnwillingToPerform);
    assert!(why.contains("roster index add 'equality secretary'"), "{why}");
    assert_eq!(set(&["manager"]).0, ResultCode::Success);
    assert_eq!(root.delete(&dn("uid=anna,ou=here")), ResultCode::Success);
    assert_eq!(values(&mut root, "uid=bob,ou=here", "manager"), [""; 0]);
    assert_eq!(values(&mut root, "cn=one", "member"), ["uid=anna,ou=here"]);
    let none = root.try_modify(CONFIG, &[(Replace, "roster-reference", &[])]);
    assert_eq!(none.code(), ResultCode::Success, "{}", none.diagnostic);
    assert_eq!(root.delete(&dn("uid=cora,ou=deep,ou=here")), ResultCode::Success);
    assert_eq!(values(&mut root, "cn=all", "member").len(), 3);
}

/// An index does not tell values with options from those without.
#[test]
fn values_with_options_follow_by_themselves() {
    let served = filled();
    let mut root = served.root();
    let (anna, zoe) = (dn("uid=anna,ou=here"), dn("uid=zoe,ou=here"));
    let change = [(Replace, "member", &[zoe.as_str()][..]), (Add, "member;x-old", &[&anna])];
    assert_eq!(root.modify(&dn("cn=one"), &change), ResultCode::Success);
    assert_eq!(root.rename(&anna, "uid=zoe", true, None), ResultCode::Success);
    assert_eq!(values(&mut root, "cn=one", "member;x-old"), ["uid=zoe,ou=here"]);
}

/// A leaf with a name that many have at the beginning of theirs is told apart from them.
#[test]
fn a_name_that_is_the_beginning_of_another_is_another() {
    let served = filled();
    let mut root = served.root();
    for name in ["uid=a", "uid=ab"] {
        add_person(&mut root, name);
    }
    add_group(&mut root, "cn=both", &["uid=a", "uid=ab", "uid=x,uid=a"]);
    assert_eq!(root.delete(&dn("uid=a")), ResultCode::Success);
    // What never was there stays as it was written.
    assert_eq!(values(&mut root, "cn=both", "member"), ["uid=ab", "uid=x,uid=a"]);
}

/// What stands in the way of a rename is named, to those who may know it.
#[test]
fn a_refusal_names_an_entry_that_is_in_the_way() {
    let served = filled();
    let mut root = served.root();
    // Names that no entry has cannot be kept by number; these take more than a record may.
    for number in 0..16 {
        let long = "x".repeat(500);
        let members: Vec<String> =
            (0..1000).map(|one| format!("uid={long}-{one},ou=here")).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        add_group(&mut root, &format!("cn=long-{number}"), &members);
    }
    let answer = root.try_rename(&dn("ou=here"), "ou=office", true, None);
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded);
    let is_named = |why: &str| {
        why.contains(&format!(",{SUFFIX}' is one of them")) && why.contains("'cn=long-")
    };
    assert!(is_named(&answer.diagnostic), "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains("more than 12 MiB"), "{}", answer.diagnostic);

    let aci = "(targetattr=\"*\")(version 3.0; acl \"d\"; allow (all) userdn=\"ldap:///all\";)";
    // Without attributes it hides the whole entry.
    let hide = "(targetfilter=\"(objectClass=groupOfNames)\")(version 3.0; acl \"h\"; deny (all) \
                userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[aci, hide])]), ResultCode::Success);
    let bob = dn("uid=bob,ou=here");
    let password = [(Replace, "userPassword", &["secret words"][..])];
    assert_eq!(root.modify(&bob, &password), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(&bob, "secret words"), ResultCode::Success);
    let answer = client.try_rename(&dn("ou=here"), "ou=office", true, None);
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded, "{}", answer.diagnostic);
    assert!(!answer.diagnostic.contains("long-"), "{}", answer.diagnostic);

    // Nor where the entry may be seen, but not what names others.
    let unread = "(targetattr=\"member\")(version 3.0; acl \"m\"; deny (read) \
                  userdn=\"ldap:///anyone\";)";
    let change = root.modify(SUFFIX, &[(Delete, "aci", &[hide]), (Add, "aci", &[unread])]);
    assert_eq!(change, ResultCode::Success);
    let answer = client.try_rename(&dn("ou=here"), "ou=office", true, None);
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded, "{}", answer.diagnostic);
    assert!(!answer.diagnostic.contains("long-"), "{}", answer.diagnostic);
}
