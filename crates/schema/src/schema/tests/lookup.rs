//! What the schema of the tree knows, by every name.

use super::*;

#[test]
fn the_files_of_the_tree_load() {
    let schema = Schema::load(&builtin_files()).unwrap_or_else(|error| panic!("{error}"));
    assert!(schema.attribute_types().count() > 250);
    assert!(schema.object_classes().count() > 70);
    assert_eq!(schema.generation(), 1);
}

#[track_caller]
fn check_type(name: &str, oid: &str, rules: [&str; 3], syntax: &str) {
    let schema = Schema::builtin();
    let kind = schema.attribute_type(name).unwrap_or_else(|| panic!("{name} is defined"));
    assert_eq!(kind.name(), name);
    assert_eq!(kind.oid, oid);
    let found = [kind.equality, kind.ordering, kind.substring];
    let found = found.map(|rule| rule.map_or("", |rule| rule.name));
    assert_eq!(found.map(str::to_lowercase), rules.map(str::to_lowercase));
    assert_eq!(kind.syntax.oid.strip_prefix("1.3.6.1.4.1.1466.115.121.1."), Some(syntax));
    assert_eq!(schema.attribute_type(&oid.to_uppercase()), Some(kind));
    assert_eq!(schema.attribute_type(&name.to_uppercase()), Some(kind));
    assert_eq!(schema.oid_of(name), Some(oid));
    assert_eq!(kind.key(), name.to_lowercase());
}

const IGNORE: [&str; 3] = ["caseIgnoreMatch", "", "caseIgnoreSubstringsMatch"];
const IGNORE_IA5: [&str; 3] = ["caseIgnoreIA5Match", "", "caseIgnoreIA5SubstringsMatch"];
const DN: [&str; 3] = ["distinguishedNameMatch", "", ""];
const TEL: [&str; 3] = ["telephoneNumberMatch", "", "telephoneNumberSubstringsMatch"];
const INTEGER: [&str; 3] = ["integerMatch", "integerOrderingMatch", ""];
const TIME: [&str; 3] = ["generalizedTimeMatch", "generalizedTimeOrderingMatch", ""];

#[test]
fn well_known_types_have_their_oids_rules_and_syntaxes() {
    check_type("objectClass", "2.5.4.0", ["objectIdentifierMatch", "", ""], "38");
    check_type("cn", "2.5.4.3", IGNORE, "15");
    check_type("sn", "2.5.4.4", IGNORE, "15");
    check_type("c", "2.5.4.6", IGNORE, "11");
    check_type("l", "2.5.4.7", IGNORE, "15");
    check_type("st", "2.5.4.8", IGNORE, "15");
    check_type("street", "2.5.4.9", IGNORE, "15");
    check_type("o", "2.5.4.10", IGNORE, "15");
    check_type("ou", "2.5.4.11", IGNORE, "15");
    check_type("givenName", "2.5.4.42", IGNORE, "15");
    check_type("telephoneNumber", "2.5.4.20", TEL, "50");
    check_type("member", "2.5.4.31", DN, "12");
    check_type("userPassword", "2.5.4.35", ["octetStringMatch", "", ""], "40");
    check_type("uid", "0.9.2342.19200300.100.1.1", IGNORE, "15");
    check_type("mail", "0.9.2342.19200300.100.1.3", IGNORE_IA5, "26");
    check_type("dc", "0.9.2342.19200300.100.1.25", IGNORE_IA5, "26");
    check_type("mobile", "0.9.2342.19200300.100.1.41", TEL, "50");
    check_type("manager", "0.9.2342.19200300.100.1.10", DN, "12");
    check_type("jpegPhoto", "0.9.2342.19200300.100.1.60", ["", "", ""], "28");
    check_type("employeeNumber", "2.16.840.1.113730.3.1.3", IGNORE, "15");
    check_type("displayName", "2.16.840.1.113730.3.1.241", IGNORE, "15");
    check_type("uidNumber", "1.3.6.1.1.1.1.0", INTEGER, "27");
    check_type("createTimestamp", "2.5.18.1", TIME, "24");
    check_type("modifyTimestamp", "2.5.18.2", TIME, "24");
    check_type("entryDN", "1.3.6.1.1.20", DN, "12");
    check_type("numSubordinates", "1.3.6.1.4.1.453.16.2.103", INTEGER, "27");
    check_type("ref", "2.16.840.1.113730.3.1.34", ["caseExactMatch", "", ""], "15");
    check_type("isMemberOf", "1.3.6.1.4.1.42.2.27.9.1.792", DN, "12");
    check_type("memberOf", "1.2.840.113556.1.2.102", DN, "12");
    check_type("changeNumber", "2.16.840.1.113730.3.1.5", INTEGER, "27");
    check_type(
        "sshPublicKey",
        "1.3.6.1.4.1.24552.500.1.1.1.13",
        ["octetStringMatch", "", ""],
        "40",
    );
    check_type("pwdChangedTime", "1.3.6.1.4.1.42.2.27.8.1.16", TIME, "24");
    check_type("seeAlso", "2.5.4.34", DN, "12");
}

#[track_caller]
fn check_class(name: &str, oid: &str, kind: ClassKind, must: &str) {
    let schema = Schema::builtin();
    let class = schema.object_class(name).unwrap_or_else(|| panic!("{name} is defined"));
    assert_eq!((class.name(), class.oid.as_str(), class.kind), (name, oid, kind));
    let mut all_must: Vec<&str> = class.all_must.iter().map(|kind| kind.name()).collect();
    all_must.sort_unstable();
    assert_eq!(all_must.join(" "), must);
    assert_eq!(schema.object_class(oid), Some(class));
    assert_eq!(schema.object_class(&name.to_lowercase()), Some(class));
    assert_eq!(schema.oid_of(name), Some(oid));
}

#[test]
fn well_known_classes_have_their_oids_kinds_and_attributes() {
    use ClassKind::{Abstract, Auxiliary, Structural};
    check_class("top", "2.5.6.0", Abstract, "objectClass");
    check_class("alias", "2.5.6.1", Structural, "aliasedObjectName objectClass");
    check_class("person", "2.5.6.6", Structural, "cn objectClass sn");
    check_class("organizationalPerson", "2.5.6.7", Structural, "cn objectClass sn");
    check_class("inetOrgPerson", "2.16.840.1.113730.3.2.2", Structural, "cn objectClass sn");
    check_class("organization", "2.5.6.4", Structural, "o objectClass");
    check_class("organizationalUnit", "2.5.6.5", Structural, "objectClass ou");
    check_class("domain", "0.9.2342.19200300.100.4.13", Structural, "dc objectClass");
    check_class("dcObject", "1.3.6.1.4.1.1466.344", Auxiliary, "dc objectClass");
    check_class("groupOfNames", "2.5.6.9", Structural, "cn objectClass");
    check_class("account", "0.9.2342.19200300.100.4.5", Structural, "objectClass uid");
    check_class("referral", "2.16.840.1.113730.3.2.6", Structural, "objectClass ref");
    check_class("extensibleObject", "1.3.6.1.4.1.1466.101.120.111", Auxiliary, "objectClass");
    check_class("posixGroup", "1.3.6.1.1.1.2.2", Auxiliary, "gidNumber objectClass");
    check_class(
        "posixAccount",
        "1.3.6.1.1.1.2.0",
        Auxiliary,
        "cn gidNumber homeDirectory objectClass uid uidNumber",
    );
    check_class(
        "changeLogEntry",
        "2.16.840.1.113730.3.2.1",
        Structural,
        "changeNumber changeTime changeType objectClass targetDN",
    );
}

#[test]
fn other_names_mean_the_same() {
    let schema = Schema::builtin();
    for (name, other) in [
        ("cn", "commonName"),
        ("uid", "userid"),
        ("mail", "rfc822Mailbox"),
        ("sn", "surname"),
        ("dc", "domainComponent"),
        ("st", "stateOrProvinceName"),
        ("facsimileTelephoneNumber", "fax"),
    ] {
        assert_eq!(schema.attribute_type(name), schema.attribute_type(other));
        assert_eq!(schema.describe(other).unwrap().text(), name);
    }
    assert_eq!(schema.attribute_type("nonesuch"), None);
    assert_eq!(schema.object_class("cn"), None);
    assert_eq!(schema.oid_of("CASEIGNOREMATCH"), Some("2.5.13.2"));
    assert_eq!(schema.oid_of("nonesuch"), None);
    assert_eq!(schema.matching_rule("2.5.13.2").unwrap().name, "caseIgnoreMatch");
    assert_eq!(schema.syntax("1.3.6.1.4.1.1466.115.121.1.15").unwrap().name, "Directory String");
}

#[test]
fn subclasses_inherit_what_they_may_hold() {
    let schema = Schema::builtin();
    let person = schema.object_class("person").unwrap();
    let inet = schema.object_class("inetOrgPerson").unwrap();
    let extensible = schema.object_class("extensibleObject").unwrap();
    let kind = |name| schema.attribute_type(name).unwrap();
    assert!(inet.is_subclass_of(person));
    assert!(inet.is_subclass_of(inet));
    assert!(!person.is_subclass_of(inet));
    assert!(inet.is_subclass_of(schema.object_class("top").unwrap()));
    assert!(inet.allows(kind("mail")) && inet.allows(kind("userPassword")));
    assert!(inet.allows(kind("sn")) && inet.requires(kind("sn")));
    assert!(!person.allows(kind("mail")));
    assert!(!inet.allows(kind("uidNumber")));
    assert!(extensible.is_extensible() && extensible.allows(kind("uidNumber")));
    assert!(!inet.is_extensible());
}

#[test]
fn subtypes_are_of_the_type_they_are_derived_from() {
    let schema = Schema::builtin();
    let kind = |name| schema.attribute_type(name).unwrap();
    assert!(kind("cn").is_subtype_of(kind("name")));
    assert!(kind("cn").is_subtype_of(kind("cn")));
    assert!(!kind("name").is_subtype_of(kind("cn")));
    assert!(!kind("cn").is_subtype_of(kind("sn")));
    assert!(kind("c-l").is_subtype_of(kind("name")));
    assert!(kind("member").is_subtype_of(kind("distinguishedName")));
    assert!(!kind("manager").is_subtype_of(kind("distinguishedName")));
}

#[test]
fn operational_types_say_so() {
    let schema = Schema::builtin();
    for name in ["entryUUID", "modifyTimestamp", "namingContexts", "ref", "isMemberOf", "aci"] {
        assert!(schema.describe(name).unwrap().is_operational(), "{name}");
    }
    for name in ["cn", "objectClass", "userPassword", "member"] {
        assert!(!schema.describe(name).unwrap().is_operational(), "{name}");
    }
}

#[test]
fn the_subschema_shows_every_kind() {
    let schema = Schema::builtin();
    let count = |kind| schema.definitions(kind).count();
    assert_eq!(count(DefinitionKind::Syntax), SYNTAXES.len());
    assert_eq!(count(DefinitionKind::MatchingRule), MATCHING_RULES.len());
    assert_eq!(count(DefinitionKind::AttributeType), schema.attribute_types().count());
    assert_eq!(count(DefinitionKind::ObjectClass), schema.object_classes().count());
    let uses: Vec<String> = schema.definitions(DefinitionKind::MatchingRuleUse).collect();
    let rule = uses.iter().find(|text| text.contains("'caseIgnoreMatch'")).unwrap();
    assert!(rule.starts_with("( 2.5.13.2 NAME 'caseIgnoreMatch' APPLIES ( "));
    assert!(rule.contains(" cn ") && !rule.contains(" member "), "{rule}");
    for kind in DefinitionKind::ALL {
        for text in schema.definitions(kind) {
            assert_eq!(Definition::parse(kind, &text).unwrap().to_string(), text);
        }
    }
}
