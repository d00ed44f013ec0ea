//! Rules within one request: what a change leaves guards the next update of the transaction, and
//! what is read after the change.

use ldap::message::{
    Control, Controls, ControlsBuf, ExtendedRequest, ModifyDnRequest, ModifyOperation,
    ModifyRequest, Request,
};
use ldap::result::ResultCode;

use crate::support::{Answer, Client, SUFFIX, Served, modifications};

const START: &str = "1.3.6.1.1.21.1";
const END: &str = "1.3.6.1.1.21.3";
const SPECIFICATION: &str = "1.3.6.1.1.21.2";
const PRE_READ: &str = "1.3.6.1.1.13.1";
const POST_READ: &str = "1.3.6.1.1.13.2";
const MALLORY: &str = "uid=mallory,dc=example,dc=org";

fn unit(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

fn add_person(root: &mut Client, name: &str, uid: &str, more: &[(&str, &[&str])]) {
    let uid = [uid];
    let mut all: Vec<(&str, &[&str])> = vec![
        ("objectClass", &["inetOrgPerson"]),
        ("uid", &uid),
        ("cn", &uid),
        ("sn", &["Berg"]),
        ("description", &["top secret"]),
        ("userPassword", &["secret"]),
    ];
    all.extend_from_slice(more);
    assert_eq!(root.add(name, &all), ResultCode::Success, "{name}");
}

/// Mallory may change the names of units, owns one, and leaves a group if she likes.
fn served() -> Served {
    let served = Served::new();
    let mut root = served.root();
    add_person(&mut root, MALLORY, "mallory", &[]);
    let aci = |targets: &str, says: &str| {
        format!("{targets}(version 3.0; acl \"x\"; {says} userdn=\"ldap:///{MALLORY}\";)")
    };
    let own = aci("(targetattr=\"*\")", "allow (all)");
    let deny = aci("(targetattr=\"description\")", "deny (all)");
    for (name, aci) in [("mine", &own), ("hr", &deny)] {
        let attributes: &[(&str, &[&str])] =
            &[("objectClass", &["organizationalUnit"]), ("aci", &[aci])];
        assert_eq!(root.add(&unit(name), attributes), ResultCode::Success);
    }
    add_person(&mut root, &format!("uid=boss,{}", unit("hr")), "boss", &[]);
    let group: &[(&str, &[&str])] = &[("objectClass", &["groupOfNames"]), ("member", &[MALLORY])];
    assert_eq!(root.add(&format!("cn=group,{SUFFIX}"), group), ResultCode::Success);
    let names = aci("(targetattr=\"ou || uid || member\")", "allow (write)");
    let by_group = format!(
        "(targetattr=\"title\")(version 3.0; acl \"x\"; allow (write) \
         groupdn=\"ldap:///cn=group,{SUFFIX}\";)"
    );
    let allow = [(ModifyOperation::Add, "aci", &[&*names, &*by_group][..])];
    assert_eq!(root.modify(SUFFIX, &allow), ResultCode::Success);
    served
}

fn mallory(served: &Served) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(MALLORY, "secret"), ResultCode::Success);
    client
}

fn start(client: &mut Client) -> Vec<u8> {
    let answer = client.extended(START, None);
    assert_eq!(answer.code(), ResultCode::Success);
    answer.value.unwrap()
}

fn commit(client: &mut Client, identifier: &[u8]) -> Answer {
    let mut value = vec![0x30, identifier.len() as u8 + 2, 0x04, identifier.len() as u8];
    value.extend_from_slice(identifier);
    let end = ExtendedRequest { oid: END, value: Some(&value) };
    client.request(Request::Extended(end), Controls::EMPTY)
}

/// In a transaction, if one is named; reading so the attributes named.
fn controls(identifier: Option<&[u8]>, read: Option<(&str, &str)>) -> ControlsBuf {
    let mut controls = ControlsBuf::new();
    if identifier.is_some() {
        controls.push(Control { oid: SPECIFICATION, critical: true, value: identifier });
    }
    if let Some((oid, attribute)) = read {
        let attribute = attribute.as_bytes();
        let mut value = vec![0x30, attribute.len() as u8 + 2, 0x04, attribute.len() as u8];
        value.extend_from_slice(attribute);
        controls.push(Control { oid, critical: true, value: Some(&value) });
    }
    controls
}

fn rename(client: &mut Client, name: &str, new_rdn: &str, controls: &ControlsBuf) -> Answer {
    let rename = ModifyDnRequest { name, new_rdn, delete_old_rdn: true, new_superior: None };
    client.request(Request::ModifyDn(rename), controls.as_ref())
}

fn modify(
    client: &mut Client,
    name: &str,
    change: (ModifyOperation, &str, &[&str]),
    controls: &ControlsBuf,
) -> Answer {
    let changes = modifications(&[change]);
    let request = ModifyRequest { name, changes: changes.as_ref() };
    client.request(Request::Modify(request), controls.as_ref())
}

/// Whether it has the secret anywhere, or a hash.
fn tells_secret(answer: &Answer) -> bool {
    let has = |octets: &[u8]| {
        [&b"top secret"[..], b"{SSHA512}"]
            .iter()
            .any(|secret| octets.windows(secret.len()).any(|part| part == *secret))
    };
    answer.controls.iter().any(|(_, value)| has(value)) || answer.value.as_deref().is_some_and(has)
}

#[test]
fn what_is_read_after_a_rename_is_guarded_by_the_acis_that_went_with_it() {
    let served = served();
    let mut root = served.root();
    let deny = format!(
        "(targetattr=\"description\")(version 3.0; acl \"x\"; deny (all) \
         userdn=\"ldap:///{MALLORY}\";)"
    );
    let name = format!("uid=own,{SUFFIX}");
    add_person(&mut root, &name, "own", &[("aci", &[&deny])]);
    let mut mallory = mallory(&served);
    let read = controls(None, Some((POST_READ, "description")));
    let answer = rename(&mut mallory, &name, "uid=other", &read);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    assert!(!tells_secret(&answer), "{answer:?}");
    // An administrator reads it so.
    let answer = rename(&mut root, &format!("uid=other,{SUFFIX}"), "uid=own", &read);
    assert!(tells_secret(&answer), "{answer:?}");
}

#[test]
fn names_that_are_swapped_in_a_transaction_open_no_subtree() {
    let served = served();
    let mut mallory = mallory(&served);
    let boss = format!("uid=boss,{}", unit("mine"));
    let change = (ModifyOperation::Replace, "employeeType", &["owned"][..]);
    for read in [None, Some((PRE_READ, "userPassword")), Some((POST_READ, "*"))] {
        let identifier = start(&mut mallory);
        let within = controls(Some(&identifier), None);
        assert_eq!(
            rename(&mut mallory, &unit("mine"), "ou=tmp", &within).code(),
            ResultCode::Success
        );
        assert_eq!(
            rename(&mut mallory, &unit("hr"), "ou=mine", &within).code(),
            ResultCode::Success
        );
        let reading = controls(Some(&identifier), read);
        let _ = modify(&mut mallory, &boss, change, &reading);
        let _ = rename(&mut mallory, &unit("mine"), "ou=hr", &within);
        let _ = rename(&mut mallory, &unit("tmp"), "ou=mine", &within);
        let ended = commit(&mut mallory, &identifier);
        assert_ne!(ended.code(), ResultCode::Success, "{read:?}");
        assert!(!tells_secret(&ended), "{ended:?}");
    }
    // Without the group, what her own ACI says goes with her own unit.
    let identifier = start(&mut mallory);
    let within = controls(Some(&identifier), None);
    assert_eq!(rename(&mut mallory, &unit("mine"), "ou=new", &within).code(), ResultCode::Success);
    let new = unit("new");
    let change = (ModifyOperation::Add, "description", &["mine"][..]);
    assert_eq!(modify(&mut mallory, &new, change, &within).code(), ResultCode::Success);
    let ended = commit(&mut mallory, &identifier);
    assert_eq!(ended.code(), ResultCode::Success, "{}", ended.diagnostic);
}

#[test]
fn a_group_that_was_left_in_a_transaction_gives_nothing_in_it() {
    let served = served();
    let mut mallory = mallory(&served);
    let title = (ModifyOperation::Replace, "title", &["member"][..]);
    let none = ControlsBuf::new();
    assert_eq!(modify(&mut mallory, MALLORY, title, &none).code(), ResultCode::Success);
    let identifier = start(&mut mallory);
    let within = controls(Some(&identifier), None);
    let leave = (ModifyOperation::Replace, "member", &["cn=nobody"][..]);
    for (name, change) in [
        (MALLORY.to_owned(), title),
        (format!("cn=group,{SUFFIX}"), leave),
        (MALLORY.to_owned(), title),
    ] {
        assert_eq!(modify(&mut mallory, &name, change, &within).code(), ResultCode::Success);
    }
    assert_eq!(commit(&mut mallory, &identifier).code(), ResultCode::InsufficientAccessRights);
}
