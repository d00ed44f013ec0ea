//! Branches that follow another server: who changes them, and who does not.

use ldap::control_value::following;
use ldap::message::{
    Control, Controls, ControlsBuf, DeleteRequest, ModifyDnRequest, ModifyOperation, Request,
};
use ldap::result::ResultCode;

use crate::support::{Answer, Client, SUFFIX, Served};

const CONFIG: &str = "cn=Following,cn=config";
const OK: ResultCode = ResultCode::Success;
const REFUSED: ResultCode = ResultCode::UnwillingToPerform;

fn line(session: &str, rest: &str) -> String {
    format!("old: from ldap://old.example.com{rest} session {session} at 1/- below ou=a,{SUFFIX}")
}

#[track_caller]
fn set(root: &mut Client, operation: ModifyOperation, text: &str, code: ResultCode) {
    let answer = root.try_modify(CONFIG, &[(operation, "roster-follow", &[text])]);
    assert_eq!(answer.code(), code, "{text}: {}", answer.diagnostic);
}

/// Two branches, of which one follows.
fn served(rest: &str) -> (Served, Client) {
    let served = Served::new();
    let mut root = served.root();
    for unit in ["ou=a", "ou=b", "ou=c,ou=a"] {
        let unit = format!("{unit},{SUFFIX}");
        assert_eq!(root.add(&unit, &[("objectClass", &["organizationalUnit"])]), OK);
    }
    set(&mut root, ModifyOperation::Add, &line("one", rest), OK);
    (served, root)
}

/// A delete by a session.
fn delete(client: &mut Client, name: &str, session: &str) -> Answer {
    let mut controls = ControlsBuf::new();
    let value = Some(session.as_bytes());
    controls.push(Control { oid: following::OID, critical: true, value });
    client.request(Request::Delete(DeleteRequest { name }), controls.as_ref())
}

fn rename(client: &mut Client, name: &str, new_rdn: &str, above: Option<&str>) -> ResultCode {
    let request = ModifyDnRequest { name, new_rdn, delete_old_rdn: true, new_superior: above };
    client.request(Request::ModifyDn(request), Controls::EMPTY).code()
}

#[test]
fn only_its_session_changes_a_branch_that_follows() {
    let (_served, mut root) = served("");
    let [top, below, other] = ["ou=a", "ou=c,ou=a", "ou=b"].map(|it| format!("{it},{SUFFIX}"));
    let unit = [("objectClass", &["organizationalUnit"][..])];
    let answer = root.try_add(&format!("ou=d,{top}"), &unit);
    assert_eq!(answer.code(), REFUSED);
    assert!(answer.diagnostic.contains("the branch follows ldap://old.example.com: make the"));
    let change = [(ModifyOperation::Replace, "description", &["x"][..])];
    assert_eq!(root.modify(&below, &change), REFUSED);
    assert_eq!(root.modify(&other, &change), OK);
    assert_eq!(rename(&mut root, &below, "ou=e", None), REFUSED);
    assert_eq!(rename(&mut root, &below, "ou=c", Some(&other)), REFUSED);
    assert_eq!(rename(&mut root, &other, "ou=b", Some(&top)), REFUSED);
    let delete_plain = Request::Delete(DeleteRequest { name: &below });
    assert_eq!(root.request(delete_plain, Controls::EMPTY).code(), REFUSED);
    // Another session has lost it, and one that is right has no business elsewhere.
    for (name, session, why) in [
        (&below, "two", "the session does not follow here any more"),
        (&other, "two", "the session does not follow here any more"),
        (&other, "one", "the session follows in another branch"),
    ] {
        let answer = delete(&mut root, name, session);
        assert_eq!(answer.code(), REFUSED);
        assert!(answer.diagnostic.starts_with(why), "{answer:?}");
    }
    assert_eq!(delete(&mut root, &below, "one").code(), OK);
    // At its end all is as elsewhere, and the session is out.
    set(&mut root, ModifyOperation::Delete, &line("one", ""), OK);
    assert_eq!(delete(&mut root, &top, "one").code(), REFUSED);
    assert_eq!(root.modify(&top, &change), OK);
}

#[test]
fn clients_may_be_sent_to_the_source() {
    let (_served, mut root) = served(" refer");
    let change = [(ModifyOperation::Replace, "description", &["x"][..])];
    let answer = root.try_modify(&format!("ou=a,{SUFFIX}"), &change);
    assert_eq!(answer.code(), ResultCode::Referral, "{}", answer.diagnostic);
}

#[test]
fn of_two_who_take_over_one_does() {
    let (_served, mut root) = served("");
    let take = |root: &mut Client, from: &str, to: &str| {
        let changes: [(ModifyOperation, &str, &[&str]); 2] = [
            (ModifyOperation::Delete, "roster-follow", &[from]),
            (ModifyOperation::Add, "roster-follow", &[to]),
        ];
        root.modify(CONFIG, &changes)
    };
    let [one, two, three] = ["one", "two", "three"].map(|session| line(session, ""));
    assert_eq!(take(&mut root, &one, &two), OK);
    assert_eq!(take(&mut root, &one, &three), ResultCode::NoSuchAttribute);
    // Nothing follows twice, under whatever name.
    let exists = ResultCode::AttributeOrValueExists;
    set(&mut root, ModifyOperation::Add, &two.replace("old:", "new:"), exists);
    let above = format!("new: from ldap://h session s at - below {SUFFIX}");
    set(&mut root, ModifyOperation::Add, &above, exists);
    let invalid = ResultCode::InvalidAttributeSyntax;
    set(&mut root, ModifyOperation::Add, "new: from nowhere", invalid);
    let beside = format!("new: from ldap://h session s at - below ou=b,{SUFFIX}");
    set(&mut root, ModifyOperation::Add, &beside, OK);
}
