//! Online changes: what comes, goes, and stays.

use super::*;

#[track_caller]
fn refuse(add: &[Definition], remove: &[Definition], want: &str) {
    let error = Schema::builtin().with_change(add, remove).expect_err("refused");
    assert_eq!(without_lines(&error.to_string()), format!("99-user.ldif: {want}"));
}

#[test]
fn definitions_come_and_go() {
    let old = Schema::builtin();
    let add = [
        class("( 1.2.4 NAME 'b' SUP top AUXILIARY MUST a )"),
        attribute("( 1.2.3 NAME 'a' SUP name )"),
    ];
    let new = old.with_change(&add, &[]).unwrap();
    assert!(new.attribute_type("a").is_some() && old.attribute_type("a").is_none());
    assert!(new.object_class("b").unwrap().requires(new.attribute_type("a").unwrap()));
    let shown: Vec<String> = new.definitions(DefinitionKind::AttributeType).collect();
    let line = "( 1.2.3 NAME 'a' SUP name X-SCHEMA-FILE '99-user.ldif' )";
    assert!(shown.iter().any(|text| text == line));
    let back = new.with_change(&[], &add).unwrap();
    assert_same(&every_definition(&back), &every_definition(&old));
}

#[test]
fn a_known_oid_is_replaced() {
    let old = Schema::builtin();
    let one = old.with_change(&[attribute("( 1.2.3 NAME 'a' SUP name )")], &[]).unwrap();
    let two = attribute("( 1.2.3 NAME ( 'a' 'aa' ) DESC 'new' SUP name SINGLE-VALUE )");
    let two = one.with_change(&[two], &[]).unwrap();
    assert!(two.attribute_type("aa").unwrap().single_value);
    let removed = attribute("( 1.2.3 SUP name )");
    let three = attribute("( 1.2.3 NAME ( 'a' 'aaa' ) SUP name )");
    let three = two.with_change(&[three], &[removed]).unwrap();
    assert!(three.attribute_type("aa").is_none() && three.attribute_type("aaa").is_some());
    assert_eq!(three.generation(), old.generation() + 3);
}

#[test]
fn what_others_refer_to_stays() {
    refuse(
        &[],
        &[attribute("( 2.5.4.12 SUP name )")],
        "attribute type 'title': cannot be removed, object class 'organizationalPerson' \
         (00-core.ldif) refers to it",
    );
    refuse(
        &[],
        &[class("( 2.5.6.7 )")],
        "object class 'organizationalPerson': cannot be removed, object class \
         'inetOrgPerson' (03-inetorgperson.ldif) refers to it",
    );
    refuse(
        &[],
        &[attribute("( 2.5.4.16 NAME 'postalAddress' SUP name )")],
        "attribute type 'postalAddress': cannot be removed, attribute type \
         'registeredAddress' (00-core.ldif) refers to it",
    );
}

#[test]
fn what_stored_data_is_made_of_stays() {
    refuse(
        &[attribute("( 0.9.2342.19200300.100.1.9 NAME 'hostName' SUP name )")],
        &[],
        "attribute type 'hostName': its first name must stay 'host', which stored names \
         contain; add the new name after it",
    );
    let rules = "superior and matching rules of a type in use cannot change; remove the type \
                 and add it anew";
    refuse(
        &[attribute("( 0.9.2342.19200300.100.1.9 NAME 'host' SUP name )")],
        &[],
        &format!("attribute type 'host': {rules}"),
    );
    refuse(
        &[attribute(
            "( 0.9.2342.19200300.100.1.9 NAME 'host' EQUALITY caseExactMatch \
             SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
        )],
        &[],
        &format!("attribute type 'host': {rules}"),
    );
}

#[test]
fn what_the_server_needs_stays() {
    refuse(
        &[class("( 2.5.6.0 NAME 'top' ABSTRACT )")],
        &[],
        "object class 'top': the server itself needs 'top' as it is in 00-core.ldif; leave \
         it unchanged",
    );
    let error = Schema::builtin().with_change(&[], &[attribute("( 1.3.6.1.1.20 SUP name )")]);
    assert_eq!(error.unwrap_err().fault, SchemaFault::NeededByServer("entryDN".to_owned()));
    // Another description is no change.
    let top = class("( 2.5.6.0 NAME 'top' DESC 'mine' ABSTRACT MUST objectClass )");
    assert!(Schema::builtin().with_change(&[top], &[]).is_ok());
}

#[test]
fn what_is_not_there_cannot_go() {
    refuse(
        &[],
        &[class("( 1.2.3 NAME 'x' )")],
        "object class 'x': cannot be removed, it is not defined",
    );
    // The OID of an attribute type is not that of a class.
    refuse(
        &[],
        &[class("( 2.5.4.3 NAME 'x' )")],
        "object class 'x': cannot be removed, it is not defined",
    );
}

#[test]
fn syntaxes_and_rules_are_fixed() {
    let syntax = Definition::parse(DefinitionKind::Syntax, "( 1.2.3 )").unwrap();
    let want = "syntax '1.2.3': definitions of this kind are those the server implements and \
                cannot be changed";
    refuse(std::slice::from_ref(&syntax), &[], want);
    refuse(&[], &[syntax], want);
}

#[test]
fn names_and_oids_stay_unique() {
    refuse(
        &[attribute("( 1.2.3 NAME 'mail' SUP name )")],
        &[],
        "attribute type 'mail': its name 'mail' belongs to attribute type 'mail' \
         (02-cosine.ldif); use another",
    );
    refuse(
        &[attribute("( 1.2.3 NAME 'a' SUP name )"), attribute("( 1.2.3 NAME 'b' SUP name )")],
        &[],
        "attribute type 'b': its OID belongs to attribute type 'a' (99-user.ldif); use another",
    );
    refuse(
        &[class("( 1.2.3 NAME 'x' SUP nonesuch )")],
        &[],
        "object class 'x': superior class 'nonesuch' is not defined; correct it or add the \
         file that defines it",
    );
}
