//! One line for each refusal: an entry, a result code, a diagnostic.

use ldap::dn::Dn;

use super::*;
use crate::file::SchemaFile;

fn entry_in(schema: &Schema, lines: &str) -> Result<Entry, EntryError> {
    let mut name = Dn::root();
    let mut pairs = Vec::new();
    for line in lines.split("; ").map(str::trim) {
        let (attribute, value) = line.split_once(": ").unwrap();
        match attribute {
            "dn" => name = Dn::parse(value).unwrap(),
            _ => pairs.push((attribute, value.as_bytes())),
        }
    }
    Entry::from_pairs(name, pairs, schema)
}

fn outcome(schema: &Schema, lines: &str, mode: Mode) -> Result<String, Violation> {
    let entry = entry_in(schema, lines)?;
    validate(&entry, schema, mode).map(|structure| structure.structural.name().to_owned())
}

#[track_caller]
fn check_valid(lines: &str, structural: &str) {
    let outcome = outcome(&Schema::builtin(), lines, Mode::Client);
    assert_eq!(outcome.as_deref(), Ok(structural), "{lines}");
}

#[track_caller]
fn check(lines: &str, code: ResultCode, diagnostic: &str) {
    let outcome = outcome(&Schema::builtin(), lines, Mode::Client);
    assert_eq!(outcome, Err(Violation::new(code, diagnostic)), "{lines}");
}

#[test]
fn well_formed_entries_are_valid() {
    check_valid("dn: cn=a,dc=x; objectClass: person; cn: a; sn: b", "person");
    check_valid("dn: cn=a; objectClass: top; objectClass: person; cn: A; sn: b", "person");
    check_valid(
        "dn: cn=a; objectClass: inetOrgPerson; cn: a; sn: b; mail: a@b; uid: c",
        "inetOrgPerson",
    );
    check_valid(
        "dn: cn=a; objectClass: person; objectClass: inetOrgPerson; \
         objectClass: organizationalPerson; cn: a; sn: b",
        "inetOrgPerson",
    );
    check_valid(
        "dn: uid=a+cn=b; objectClass: account; objectClass: extensibleObject; uid: a; cn: b",
        "account",
    );
    check_valid(
        "dn: dc=x; objectClass: organization; objectClass: dcObject; dc: x; o: y",
        "organization",
    );
    check_valid("dn: ou=a; objectClass: 2.5.6.5; ou: a", "organizationalUnit");
    check_valid("dn: cn=a; objectClass: person; cn: a; sn;lang-de: b; cn;lang-fr: c", "person");
    check_valid(
        "dn: ou=a; objectClass: referral; objectClass: extensibleObject; ou: a; ref: ldap://h/",
        "referral",
    );
}

#[test]
fn an_entry_has_object_classes() {
    check(
        "dn: cn=a; cn: a",
        ResultCode::ObjectClassViolation,
        "entry has no attribute 'objectClass': add its structural object class",
    );
    check(
        "dn: cn=a; objectClass: noSuchClass; cn: a",
        ResultCode::ObjectClassViolation,
        "object class 'noSuchClass' is not defined",
    );
}

#[test]
fn a_unix_group_is_that_alone_or_another_group_too() {
    check_valid("dn: cn=a; objectClass: posixGroup; cn: a; gidNumber: 5", "posixGroup");
    check_valid(
        "dn: cn=a; objectClass: posixGroup; objectClass: groupOfNames; cn: a; gidNumber: 5",
        "groupOfNames",
    );
    check(
        "dn: cn=a; objectClass: posixAccount; cn: a; uid: b; uidNumber: 1; gidNumber: 5; \
         homeDirectory: /",
        ResultCode::ObjectClassViolation,
        "entry has no structural object class: add one that says what it is",
    );
}

#[test]
fn an_entry_has_one_structural_class() {
    const NONE: &str = "entry has no structural object class: add one that says what it is";
    check("dn: cn=a; objectClass: top; cn: a", ResultCode::ObjectClassViolation, NONE);
    check("dn: dc=a; objectClass: dcObject; dc: a", ResultCode::ObjectClassViolation, NONE);
    check(
        "dn: cn=a; objectClass: top; objectClass: extensibleObject; cn: a",
        ResultCode::ObjectClassViolation,
        NONE,
    );
    check(
        "dn: cn=a; objectClass: inetOrgPerson; objectClass: organizationalUnit; cn: a; sn: b",
        ResultCode::ObjectClassViolation,
        "object classes 'inetOrgPerson' and 'organizationalUnit' are both structural and neither \
         is derived from the other: keep one",
    );
}

#[test]
fn required_attributes_are_there() {
    check(
        "dn: cn=a; objectClass: inetOrgPerson; cn: a",
        ResultCode::ObjectClassViolation,
        "object class 'inetOrgPerson' requires attribute 'sn'",
    );
    check(
        "dn: o=a; objectClass: organization; objectClass: dcObject; o: a",
        ResultCode::ObjectClassViolation,
        "object class 'dcObject' requires attribute 'dc'",
    );
}

#[test]
fn other_attributes_are_refused() {
    check(
        "dn: cn=a; objectClass: person; cn: a; sn: b; mail: a@b",
        ResultCode::ObjectClassViolation,
        "attribute 'mail' is not allowed by the object classes of the entry: leave it out or add \
         a class that allows it",
    );
    check(
        "dn: cn=a; objectClass: person; cn: a; sn: b; ou;lang-de: x",
        ResultCode::ObjectClassViolation,
        "attribute 'ou;lang-de' is not allowed by the object classes of the entry: leave it out \
         or add a class that allows it",
    );
}

#[test]
fn attribute_types_are_defined() {
    check(
        "dn: cn=a; objectClass: person; cn: a; sn: b; noSuchType: x",
        ResultCode::UndefinedAttributeType,
        "attribute type 'noSuchType' is not defined",
    );
    check(
        "dn: foo=a; objectClass: person; cn: a; sn: b",
        ResultCode::UndefinedAttributeType,
        "attribute type 'foo' is not defined",
    );
}

#[test]
fn single_valued_attributes_have_one_value() {
    check(
        "dn: uid=a; objectClass: account; objectClass: posixAccount; uid: a; cn: a; uidNumber: 1; \
         uidNumber: 2; gidNumber: 1; homeDirectory: /",
        ResultCode::ConstraintViolation,
        "attribute 'uidNumber' takes one value, not 2",
    );
}

#[test]
fn values_have_the_syntax_of_their_type() {
    check(
        "dn: uid=a; objectClass: account; objectClass: posixAccount; uid: a; cn: a; uidNumber: x; \
         gidNumber: 1; homeDirectory: /",
        ResultCode::InvalidAttributeSyntax,
        "value 1 of attribute 'uidNumber' is not an integer: an optional '-' and digits without \
         leading zeros",
    );
    check(
        "dn: cn=a; objectClass: person; cn: a; sn: b; seeAlso: cn=x; seeAlso: y",
        ResultCode::InvalidAttributeSyntax,
        "value 2 of attribute 'seeAlso' is not a distinguished name",
    );
    check(
        "dn: c=DEU; objectClass: country; c: DEU",
        ResultCode::InvalidAttributeSyntax,
        "value 1 of attribute 'c' is not a country code of two letters",
    );
}

#[test]
fn values_are_there_once() {
    check(
        "dn: cn=a; objectClass: person; cn: a; sn: b; sn: B",
        ResultCode::AttributeOrValueExists,
        "attribute 'sn' has a value that is added already",
    );
}

#[test]
fn the_server_keeps_its_own_attributes() {
    const LINES: &str = "dn: cn=a; objectClass: person; cn: a; sn: b; \
                         createTimestamp: 20260101000000Z";
    check(
        LINES,
        ResultCode::ConstraintViolation,
        "attribute 'createTimestamp' is kept by the server and cannot be set",
    );
    let imported = outcome(&Schema::builtin(), LINES, Mode::Import);
    assert_eq!(imported.as_deref(), Ok("person"));
}

#[test]
fn the_name_is_among_the_values() {
    check(
        "dn: cn=a; objectClass: person; cn: b; sn: b",
        ResultCode::NamingViolation,
        "attribute 'cn' lacks the value that the name of the entry has: add it, or rename the \
         entry",
    );
    check(
        "dn: cn=a+sn=c; objectClass: person; cn: a; sn: b",
        ResultCode::NamingViolation,
        "attribute 'sn' lacks the value that the name of the entry has: add it, or rename the \
         entry",
    );
    check(
        "dn: sn=b; objectClass: person; cn: a; sn;lang-de: b",
        ResultCode::NamingViolation,
        "attribute 'sn' lacks the value that the name of the entry has: add it, or rename the \
         entry",
    );
}

#[test]
fn some_attributes_cannot_name_an_entry() {
    check(
        "dn: jpegPhoto=x; objectClass: inetOrgPerson; cn: a; sn: b; jpegPhoto: x",
        ResultCode::NamingViolation,
        "attribute 'jpegPhoto' has no equality rule and cannot name an entry",
    );
    check(
        "dn: createTimestamp=20260101000000Z; objectClass: person; cn: a; sn: b; \
         createTimestamp: 20260101000000Z",
        ResultCode::NamingViolation,
        "attribute 'createTimestamp' is operational and cannot name an entry",
    );
}

#[test]
fn options_fit() {
    check(
        "dn: cn=a; objectClass: person; cn: a; sn: b; description;lang-de-: x",
        ResultCode::ConstraintViolation,
        "attribute 'description;lang-de-' names a range of languages: name one language",
    );
    check(
        "dn: cn=a; objectClass: person; cn: a; sn: b; description;binary: x",
        ResultCode::UndefinedAttributeType,
        "option 'binary' is not allowed for attribute type 'description'",
    );
}

#[test]
fn collective_attributes_belong_to_subentries() {
    check(
        "dn: cn=a; objectClass: person; objectClass: extensibleObject; cn: a; sn: b; c-ou: x",
        ResultCode::ObjectClassViolation,
        "attribute 'c-ou' is collective: put it in a subentry",
    );
    check_valid(
        "dn: cn=a; objectClass: subentry; objectClass: collectiveAttributeSubentry; cn: a; \
         subtreeSpecification: {}; c-ou: x",
        "subentry",
    );
}

#[test]
fn passwords_are_not_shown() {
    let lines = "dn: cn=a; objectClass: person; cn: a; sn: b; userPassword: hunter2; \
                 userPassword: hunter2";
    let violation = outcome(&Schema::builtin(), lines, Mode::Client).unwrap_err();
    assert_eq!(violation.code, ResultCode::AttributeOrValueExists);
    assert!(!violation.to_string().contains("hunter2"));
}

#[test]
fn long_names_of_classes_are_cut() {
    let lines = format!("dn: cn=a; objectClass: {}; cn: a", "\u{FC}".repeat(5000));
    let violation = outcome(&Schema::builtin(), &lines, Mode::Client).unwrap_err();
    assert!(violation.diagnostic.len() < 150, "{violation}");
}

const CONTENT_RULE: &str = "\
dn: cn=schema
dITContentRules: ( 2.5.6.6 NAME 'personRule' AUX posixAccount MUST description MAY mail
  NOT seeAlso )
";

#[track_caller]
fn check_by_content_rule(lines: &str, diagnostic: &str) {
    let file = SchemaFile { name: "99-test.ldif".into(), text: CONTENT_RULE.into() };
    let schema = Schema::builtin().with_files(&[file]).unwrap();
    let lines = format!("dn: cn=a; objectClass: person; cn: a; sn: b; {lines}");
    let diagnosed = match outcome(&schema, &lines, Mode::Client) {
        Ok(_) => String::new(),
        Err(violation) => violation.to_string(),
    };
    assert_eq!(diagnosed, diagnostic);
}

#[test]
fn content_rules_are_kept() {
    check_by_content_rule("description: x; mail: a@b", "");
    check_by_content_rule(
        "mail: a@b",
        "objectClassViolation: the DIT content rule of 'person' requires attribute 'description'",
    );
    check_by_content_rule(
        "description: x; seeAlso: cn=x",
        "objectClassViolation: the DIT content rule of 'person' forbids attribute 'seeAlso'",
    );
    check_by_content_rule(
        "description: x; objectClass: uidObject; uid: x",
        "objectClassViolation: the DIT content rule of 'person' does not allow object class \
         'uidObject'",
    );
}

#[test]
fn only_touched_attributes_are_checked_again() {
    let schema = Schema::builtin();
    let lines = "dn: cn=a; objectClass: person; cn: a; sn: b; seeAlso: nonsense";
    let entry = entry_in(&schema, lines).unwrap();
    let see_also = schema.describe("seeAlso").unwrap();
    let sn = schema.describe("sn").unwrap();
    let gone = schema.describe("title").unwrap();
    assert!(validate_touched(&entry, &schema, &[sn, gone], &mut Tolerance::none()).is_ok());
    let violation =
        validate_touched(&entry, &schema, &[see_also], &mut Tolerance::none()).unwrap_err();
    assert_eq!(violation.code, ResultCode::InvalidAttributeSyntax);
}
