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

/// A request by a session.
fn ask(client: &mut Client, request: Request<'_>, session: &str, more: Controls<'_>) -> Answer {
    let mut controls: ControlsBuf = more.iter().collect();
    let value = Some(session.as_bytes());
    controls.push(Control { oid: following::OID, critical: true, value });
    client.request(request, controls.as_ref())
}

fn delete(client: &mut Client, name: &str, session: &str) -> Answer {
    ask(client, Request::Delete(DeleteRequest { name }), session, Controls::EMPTY)
}

fn renaming<'a>(name: &'a str, new_rdn: &'a str, above: Option<&'a str>) -> Request<'a> {
    let new_superior = above;
    Request::ModifyDn(ModifyDnRequest { name, new_rdn, delete_old_rdn: true, new_superior })
}

fn rename(client: &mut Client, name: &str, new_rdn: &str, above: Option<&str>) -> ResultCode {
    client.request(renaming(name, new_rdn, above), Controls::EMPTY).code()
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
fn nobody_else_brings_anything_into_the_place_of_a_branch() {
    let (_served, mut root) = served("");
    let line = format!("n: from ldap://h session two at - below ou=n,ou=k,{SUFFIX}");
    set(&mut root, ModifyOperation::Add, &line, OK);
    let unit = [("objectClass", &["organizationalUnit"][..])];
    let [k, n, m, in_m] =
        ["ou=k", "ou=n,ou=k", "ou=m", "ou=n,ou=m"].map(|name| format!("{name},{SUFFIX}"));
    for name in [&m, &in_m] {
        assert_eq!(root.add(name, &unit), OK);
    }
    // By the name of what is above it, with what is below that.
    assert_eq!(rename(&mut root, &m, "ou=k", None), REFUSED);
    assert_eq!(root.add(&k, &unit), OK);
    assert_eq!(root.add(&n, &unit), REFUSED);
    assert_eq!(rename(&mut root, &m, "ou=n", Some(&k)), REFUSED);
    assert_eq!(rename(&mut root, &m, "OU=N", Some(&k)), REFUSED);
    assert_eq!(rename(&mut root, &m, "ou=o", Some(&k)), OK);
    let o = format!("ou=o,{k}");
    assert_eq!(rename(&mut root, &o, "ou=n", None), REFUSED);
    assert_eq!(rename(&mut root, &k, "ou=q", None), REFUSED);
    // Nor does the session of another branch.
    let answer = ask(&mut root, renaming(&o, "ou=n", None), "one", Controls::EMPTY);
    assert_eq!(answer.code(), REFUSED);
    assert_eq!(rename(&mut root, &o, "ou=p", None), OK);
}

#[test]
fn a_session_changes_nothing_outside_its_branch() {
    let (_served, mut root) = served("");
    let [top, below, other] = ["ou=a", "ou=c,ou=a", "ou=b"].map(|it| format!("{it},{SUFFIX}"));
    let line = format!("t: from ldap://h session two at - below ou=x,{other}");
    let unit = [("objectClass", &["organizationalUnit"][..])];
    for name in [format!("ou=x,{other}"), format!("ou=o,{other}")] {
        assert_eq!(root.add(&name, &unit), OK);
    }
    set(&mut root, ModifyOperation::Add, &line, OK);
    let (held, out) = (format!("ou=x,{other}"), format!("ou=o,{other}"));
    for (session, name, new_rdn, above) in [
        // Out of it, and into it.
        ("one", &below, "ou=c", Some(&*other)),
        ("one", &out, "ou=o", Some(&*top)),
        // The branch itself.
        ("one", &top, "ou=a", Some(&*other)),
        ("one", &top, "ou=z", None),
        // What is above it.
        ("two", &other, "ou=bb", None),
        ("two", &other, "OU=b", None),
        // Into another one, and out of that.
        ("one", &below, "ou=c", Some(&*held)),
        ("two", &below, "ou=c", Some(&*held)),
    ] {
        let answer = ask(&mut root, renaming(name, new_rdn, above), session, Controls::EMPTY);
        assert_eq!(answer.code(), REFUSED, "{session}: {name} to {new_rdn}: {answer:?}");
        assert!(answer.diagnostic.starts_with("the session follows in another"), "{answer:?}");
    }
    let mut tree = ControlsBuf::new();
    tree.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    let delete_tree = |name| Request::Delete(DeleteRequest { name });
    let answer = ask(&mut root, delete_tree(&other), "two", tree.as_ref());
    assert_eq!(answer.code(), REFUSED);
    // Within it all is allowed, and the top may be written otherwise.
    let within = ask(&mut root, renaming(&below, "ou=e", Some(&top)), "one", Controls::EMPTY);
    assert_eq!(within.code(), OK, "{within:?}");
    let again = ask(&mut root, renaming(&top, "OU=A", None), "one", Controls::EMPTY);
    assert_eq!(again.code(), OK, "{again:?}");
    assert_eq!(ask(&mut root, delete_tree(&top), "one", tree.as_ref()).code(), OK);
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
