//! `etag`: another value after each change of an entry, so that who read it can ask for a change
//! only if nobody else made one.

use ldap::ber::Writer;
use ldap::filter::Filter;
use ldap::message::{Control, ControlsBuf, ModifyOperation, ModifyRequest, Request, Scope};
use ldap::result::ResultCode;

use crate::support::{Asked, Client, SUFFIX, Served, modifications};

const OK: ResultCode = ResultCode::Success;
const ASSERTION: &str = "1.3.6.1.1.12";

fn name(cn: &str) -> String {
    format!("cn={cn},{SUFFIX}")
}

fn etag(client: &mut Client, name: &str) -> String {
    let attributes = &["etag"][..];
    let asked = Asked { base: name, scope: Scope::Base, attributes, ..Asked::default() };
    let found = client.search(&asked).entries[0].texts("etag");
    assert_eq!(found.len(), 1);
    assert!(found[0].len() == 16 && found[0].bytes().all(|octet| octet.is_ascii_hexdigit()));
    found[0].clone()
}

/// Changes the description if the entry is in this state.
fn change(client: &mut Client, name: &str, state: &str, description: &str) -> ResultCode {
    let mut assertion = Vec::new();
    let text = format!("(etag={state})");
    Filter::parse(&text).unwrap().encode(&mut Writer::new(&mut assertion));
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: ASSERTION, critical: true, value: Some(&assertion) });
    let changes = modifications(&[(ModifyOperation::Replace, "description", &[description])]);
    let modify = ModifyRequest { name, changes: changes.as_ref() };
    client.request(Request::Modify(modify), controls.as_ref()).code()
}

#[test]
fn a_change_is_made_only_if_nobody_made_another() {
    let served = Served::new();
    let mut root = served.root();
    for cn in ["a", "b"] {
        assert_eq!(root.add(&name(cn), &[("objectClass", &["device"])]), OK);
    }
    let (a, b) = (name("a"), name("b"));
    let [first, other] = [&a, &b].map(|name| etag(&mut root, name));
    assert_ne!(first, other);
    assert_eq!(change(&mut root, &b, "0123456789abcdef", "x"), ResultCode::AssertionFailed);
    assert_eq!(change(&mut root, &b, &other, "x"), OK);
    assert_eq!(etag(&mut root, &a), first, "another entry was changed");
    let second = etag(&mut root, &b);
    assert_ne!(second, other);
    assert_eq!(change(&mut root, &b, &other, "y"), ResultCode::AssertionFailed);
    assert_eq!(change(&mut root, &b, &second, "y"), OK);
    // It is found by, with `+` it comes, and nobody writes it.
    let filter = format!("(&(objectClass=device)(etag={first}))");
    let found = root.search(&Asked { filter: &filter, attributes: &["+"], ..Asked::default() });
    assert_eq!(found.names(), [a.as_str()]);
    assert_eq!(found.entries[0].texts("etag"), [first.as_str()]);
    let written = root.modify(&a, &[(ModifyOperation::Replace, "etag", &["x"])]);
    assert_eq!(written, ResultCode::ConstraintViolation);
    // A restart changes nothing.
    drop(root);
    let served = served.reopen();
    assert_eq!(etag(&mut served.root(), &a), first);
}
