//! The schema changes over LDAP, at once and for good.

use std::time::Duration;

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::{Asked, Client, Served, manual_clock};

const SCHEMA: &str = "cn=schema";
const HAT: &str = "( 1.3.6.1.4.1.55555.1 NAME 'hat' EQUALITY caseIgnoreMatch \
     SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
const CAP: &str = "( 1.3.6.1.4.1.55555.0 NAME 'cap' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
const HATTED: &str = "( 1.3.6.1.4.1.55555.2 NAME 'hatted' SUP top AUXILIARY MAY hat )";
const UNIT: &str = "ou=unit,dc=example,dc=org";

fn add(root: &mut Client, attribute: &str, definition: &str) -> ResultCode {
    root.modify(SCHEMA, &[(ModifyOperation::Add, attribute, &[definition])])
}

fn remove(root: &mut Client, attribute: &str, definition: &str) -> ResultCode {
    root.modify(SCHEMA, &[(ModifyOperation::Delete, attribute, &[definition])])
}

fn add_hats(root: &mut Client) {
    let both: &[(ModifyOperation, &str, &[&str])] = &[
        (ModifyOperation::Add, "attributeTypes", &[HAT]),
        (ModifyOperation::Add, "objectClasses", &[HATTED]),
    ];
    assert_eq!(root.modify(SCHEMA, both), ResultCode::Success);
}

fn add_unit(root: &mut Client) -> ResultCode {
    root.add(UNIT, &[("objectClass", &["organizationalUnit", "hatted"]), ("hat", &["Panama"])])
}

fn published(client: &mut Client, attribute: &str, name: &str) -> Vec<String> {
    let search =
        Asked { base: SCHEMA, scope: Scope::Base, attributes: &[attribute], ..Asked::default() };
    let mut definitions = client.search(&search).entries[0].texts(attribute);
    definitions.retain(|definition| definition.contains(&format!("'{name}'")));
    definitions
}

#[test]
fn a_change_holds_for_the_next_request_of_everyone() {
    let served = Served::new();
    let (mut root, mut other) = (served.root(), served.root());
    assert_eq!(add_unit(&mut other), ResultCode::UndefinedAttributeType);
    let hat = Asked { filter: "(hat=PANAMA)", ..Asked::default() };
    assert!(other.search(&hat).entries.is_empty());
    add_hats(&mut root);
    assert_eq!(add_unit(&mut other), ResultCode::Success);
    assert_eq!(other.search(&hat).names(), [UNIT]);
    assert_eq!(published(&mut other, "attributeTypes", "hat").len(), 1);
    assert_eq!(published(&mut other, "objectClasses", "hatted").len(), 1);
}

#[test]
fn a_change_survives_reopening() {
    let served = Served::new();
    let mut root = served.root();
    add_hats(&mut root);
    assert_eq!(add_unit(&mut root), ResultCode::Success);
    let before = published(&mut root, "attributeTypes", "hat");
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    assert_eq!(published(&mut root, "attributeTypes", "hat"), before);
    let hat = Asked { filter: "(hat=panama)", attributes: &["hat"], ..Asked::default() };
    assert_eq!(root.search(&hat).entries[0].texts("hat"), ["Panama"]);
    assert_eq!(root.delete(UNIT), ResultCode::Success);
    assert_eq!(remove(&mut root, "objectClasses", HATTED), ResultCode::Success);
    assert_eq!(remove(&mut root, "attributeTypes", HAT), ResultCode::Success);
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    assert!(published(&mut root, "attributeTypes", "hat").is_empty());
    assert_eq!(add_unit(&mut root), ResultCode::UndefinedAttributeType);
}

#[test]
fn what_is_used_stays() {
    let served = Served::new();
    let mut root = served.root();
    add_hats(&mut root);
    let stays = |root: &mut Client, attribute, definition| {
        let code = remove(root, attribute, definition);
        assert!(
            matches!(code, ResultCode::UnwillingToPerform | ResultCode::ConstraintViolation),
            "{code:?}"
        );
    };
    stays(&mut root, "attributeTypes", HAT);
    assert_eq!(add_unit(&mut root), ResultCode::Success);
    stays(&mut root, "objectClasses", HATTED);
    let strip: &[(ModifyOperation, &str, &[&str])] = &[
        (ModifyOperation::Delete, "hat", &[]),
        (ModifyOperation::Delete, "objectClass", &["hatted"]),
    ];
    assert_eq!(root.modify(UNIT, strip), ResultCode::Success);
    assert_eq!(remove(&mut root, "objectClasses", HATTED), ResultCode::Success);
    assert_eq!(remove(&mut root, "attributeTypes", HAT), ResultCode::Success);
}

#[test]
fn an_attribute_that_only_extensible_objects_have_stays_too() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(add(&mut root, "attributeTypes", HAT), ResultCode::Success);
    let classes: &[&str] = &["organizationalUnit", "extensibleObject"];
    let unit = [("objectClass", classes), ("hat", &["Panama"])];
    assert_eq!(root.add(UNIT, &unit), ResultCode::Success);
    assert_eq!(remove(&mut root, "attributeTypes", HAT), ResultCode::UnwillingToPerform);
    assert_eq!(root.delete(UNIT), ResultCode::Success);
    assert_eq!(remove(&mut root, "attributeTypes", HAT), ResultCode::Success);
}

#[test]
fn a_wrong_definition_changes_nothing() {
    let served = Served::new();
    let mut root = served.root();
    let check = |root: &mut Client, definition: &str, want: ResultCode| {
        let both: &[(ModifyOperation, &str, &[&str])] = &[
            (ModifyOperation::Add, "attributeTypes", &[HAT]),
            (ModifyOperation::Add, "attributeTypes", &[definition]),
        ];
        let answer = root.try_modify(SCHEMA, both);
        assert_eq!(answer.code(), want, "{definition}: {}", answer.diagnostic);
        assert!(!answer.diagnostic.is_empty(), "{definition}");
        assert!(published(root, "attributeTypes", "hat").is_empty(), "{definition}");
    };
    let syntax = "SYNTAX 1.3.6.1.4.1.1466.115.121.1.15";
    for wrong in ["", "hat", "( 1.2.3 NAME", "( 1.2.3 NAME 'cap' FOO )"] {
        check(&mut root, wrong, ResultCode::InvalidAttributeSyntax);
    }
    for wrong in [
        "( 1.2.3 NAME 'cap' SYNTAX 9.9.9 )".to_owned(),
        "( 1.2.3 NAME 'cap' SUP nothing )".to_owned(),
        format!("( 1.2.3 NAME 'cap' EQUALITY noMatch {syntax} )"),
        format!("( 1.2.3 NAME 'cn' {syntax} )"),
        format!("( 2.5.4.3 NAME 'commonName' {syntax} )"),
        format!("( 1.2.3 NAME 'cap' SUP cap {syntax} )"),
    ] {
        check(&mut root, &wrong, ResultCode::ConstraintViolation);
    }
}

#[test]
fn definitions_are_not_replaced_as_a_whole() {
    let served = Served::new();
    let mut root = served.root();
    let check = |root: &mut Client, operation, attribute, values: &[&str], want: ResultCode| {
        assert_eq!(root.modify(SCHEMA, &[(operation, attribute, values)]), want, "{attribute}");
    };
    let unwilling = ResultCode::UnwillingToPerform;
    check(&mut root, ModifyOperation::Replace, "attributeTypes", &[HAT], unwilling);
    check(&mut root, ModifyOperation::Replace, "attributeTypes", &[], unwilling);
    check(&mut root, ModifyOperation::Delete, "attributeTypes", &[], unwilling);
    check(&mut root, ModifyOperation::Add, "cn", &["other"], unwilling);
    check(&mut root, ModifyOperation::Delete, "objectClass", &["subschema"], unwilling);
    assert_eq!(root.delete(SCHEMA), unwilling);
    assert_eq!(root.rename(SCHEMA, "cn=other", true, None), unwilling);
}

/// Clients keep a copy of the schema until this time is another one (RFC 4512 §4.2).
#[test]
fn the_time_of_the_schema_is_another_when_the_schema_is() {
    let served = Served::new();
    let times = |served: &Served| {
        let attributes = &["createTimestamp", "modifyTimestamp"][..];
        let search = Asked { base: SCHEMA, scope: Scope::Base, attributes, ..Asked::default() };
        let entry = served.root().search(&search).entries.remove(0);
        (entry.texts("createTimestamp").remove(0), entry.texts("modifyTimestamp").remove(0))
    };
    let first = times(&served);
    assert_eq!(first.0, first.1);
    let later = manual_clock();
    later.advance(Duration::from_secs(60));
    let served = served.under(later);
    assert_eq!(times(&served), first, "a start changes nothing");

    // Two changes in one second, and a start that reads them in another order.
    add_hats(&mut served.root());
    let second = times(&served);
    assert!(second.0 == first.0 && second.1 > first.1, "{second:?}");
    assert_eq!(add(&mut served.root(), "attributeTypes", CAP), ResultCode::Success);
    let third = times(&served);
    assert!(third.1 > second.1, "{third:?}");
    let served = served.reopen();
    assert_eq!(times(&served), third);

    // What a schema file brings, and what another release does, too: its digest is another.
    let (options, data) = served.pulled();
    let file = options.data.join("schema/50-scarf.ldif");
    let scarf = CAP.replace("55555.0", "55555.3").replace("cap", "scarf");
    std::fs::write(&file, format!("dn: cn=schema\nattributeTypes: {scarf}\n")).unwrap();
    let served = Served::opened(options, data);
    let fourth = times(&served);
    assert!(fourth.1 > third.1, "{fourth:?}");
    let (options, data) = served.pulled();
    std::fs::remove_file(file).unwrap();
    let served = Served::opened(options, data);
    assert!(times(&served).1 > fourth.1);
}
