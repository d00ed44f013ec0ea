//! What a schema is and what it refuses to become.

use proptest::prelude::*;

use super::*;
use crate::error::SchemaFault;
use crate::object_class::ClassKind;

fn file(name: &str, text: &str) -> SchemaFile {
    SchemaFile { name: name.to_owned(), text: text.to_owned() }
}

fn attribute(text: &str) -> Definition {
    Definition::parse(DefinitionKind::AttributeType, text).unwrap()
}

fn class(text: &str) -> Definition {
    Definition::parse(DefinitionKind::ObjectClass, text).unwrap()
}

/// Drops the line numbers of the tree's own files, which change with every edit.
fn without_lines(message: &str) -> String {
    let mut text = String::new();
    for part in message.split_inclusive(".ldif:") {
        let is_own = |part: &str| part.contains("(0") && part.ends_with(".ldif:");
        let after_own = text.contains("(0") && text.ends_with(".ldif");
        let part =
            if after_own { part.trim_start_matches(|c: char| c.is_ascii_digit()) } else { part };
        text.push_str(if is_own(part) { part.trim_end_matches(':') } else { part });
    }
    text
}

fn every_definition(schema: &Schema) -> Vec<String> {
    let lines = |kind: DefinitionKind| {
        schema.definitions(kind).map(move |text| format!("{}: {text}", kind.attribute()))
    };
    let mut all: Vec<String> = DefinitionKind::ALL.into_iter().flat_map(lines).collect();
    all.sort();
    all
}

mod lookup {
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
        assert_eq!(
            schema.syntax("1.3.6.1.4.1.1466.115.121.1.15").unwrap().name,
            "Directory String"
        );
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
}

mod descriptions {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(
            Schema::builtin().describe(text).map(|found| found.text().to_owned()).as_deref(),
            Ok(want)
        );
    }

    #[test]
    fn options_are_sorted_lower_case_and_once() {
        check("CN", "cn");
        check("2.5.4.3", "cn");
        check("commonName;LANG-de", "cn;lang-de");
        check("cn;x-2;lang-de;x-1;X-2", "cn;lang-de;x-1;x-2");
        check("cn;lang-", "cn;lang-");
    }

    #[test]
    fn certificates_always_travel_as_binary() {
        check("userCertificate", "userCertificate;binary");
        check("usercertificate;BINARY", "userCertificate;binary");
        check("2.5.4.36;x-1;binary", "userCertificate;binary;x-1");
        check("certificateRevocationList", "certificateRevocationList;binary");
        check("userSMIMECertificate", "userSMIMECertificate;binary");
        check("jpegPhoto", "jpegPhoto");
        let schema = Schema::builtin();
        assert_eq!(schema.describe("userCertificate"), schema.describe("userCertificate;binary"));
    }

    #[test]
    fn what_describes_nothing_is_refused() {
        let refuse = |text: &str, want: DescriptionError| {
            assert_eq!(Schema::builtin().describe(text).err(), Some(want), "{text}");
        };
        for text in
            ["", ";", "cn;", "cn;;x", "c n", "cn;a_b", ";binary", "1", "cn ", "*", "1.1.", "ü"]
        {
            refuse(text, DescriptionError::Malformed);
        }
        refuse("nonesuch", DescriptionError::UnknownType("nonesuch".to_owned()));
        refuse("nonesuch;lang-de", DescriptionError::UnknownType("nonesuch".to_owned()));
        refuse("1.2.3.4", DescriptionError::UnknownType("1.2.3.4".to_owned()));
        refuse("cn;binary", DescriptionError::BinaryNotAllowed("cn".to_owned()));
        refuse("jpegPhoto;binary", DescriptionError::BinaryNotAllowed("jpegPhoto".to_owned()));
        let many: String = (0..17).map(|number| format!(";x-{number}")).collect();
        refuse(&format!("cn{many}"), DescriptionError::TooManyOptions);
        refuse(&format!("cn{}", ";x".repeat(600)), DescriptionError::Malformed);
    }

    #[track_caller]
    fn covers(asked: &str, had: &str, want: bool) {
        let schema = Schema::builtin();
        let (asked, had) = (schema.describe(asked).unwrap(), schema.describe(had).unwrap());
        assert_eq!(asked.covers(&had), want, "{asked} covers {had}");
    }

    #[test]
    fn a_description_covers_its_subtypes() {
        covers("cn", "cn", true);
        covers("name", "cn", true);
        covers("cn", "name", false);
        covers("cn", "sn", false);
        covers("cn", "cn;lang-de", true);
        covers("name", "cn;lang-de;x-1", true);
        covers("cn;lang-de", "cn", false);
        covers("cn;lang-de", "cn;lang-de", true);
        covers("cn;lang-de", "cn;lang-de;x-1", true);
        covers("cn;lang-de;x-1", "cn;lang-de", false);
        covers("cn;lang-de", "cn;lang-en", false);
        covers("name;lang-de", "cn;lang-de", true);
        covers("userCertificate", "userCertificate;binary", true);
        covers("userCertificate;binary", "userCertificate", true);
    }

    #[test]
    fn a_language_range_covers_its_languages() {
        covers("cn;lang-", "cn;lang-de", true);
        covers("cn;lang-", "cn", false);
        covers("cn;lang-en-", "cn;lang-en", true);
        covers("cn;lang-en-", "cn;lang-en-us", true);
        covers("cn;lang-en-", "cn;lang-eng", false);
        covers("cn;lang-en", "cn;lang-en-us", false);
        let schema = Schema::builtin();
        assert!(schema.describe("cn;lang-en-").unwrap().is_range());
        assert!(!schema.describe("cn;lang-en").unwrap().is_range());
    }

    #[test]
    fn passwords_are_known_as_such() {
        let schema = Schema::builtin();
        assert!(schema.describe("userPassword").unwrap().is_password());
        assert!(schema.describe("userPassword;x-1").unwrap().is_password());
        assert!(schema.describe("authPassword").unwrap().is_password());
        assert!(!schema.describe("pwdAttribute").unwrap().is_password());
        let derived = attribute("( 1.2.3 NAME 'oldPassword' SUP userPassword )");
        let schema = schema.with_change(&[derived], &[]).unwrap();
        assert!(schema.describe("oldPassword").unwrap().is_password());
    }

    #[test]
    fn descriptions_of_two_versions_are_equal() {
        let old = Schema::builtin();
        let new = old.with_change(&[attribute("( 1.2.3 NAME 'a' SUP name )")], &[]).unwrap();
        assert_eq!(old.describe("cn;lang-de"), new.describe("cn;lang-de"));
        assert!(old.describe("name").unwrap().covers(&new.describe("a").unwrap()));
        assert_eq!(new.generation(), old.generation() + 1);
    }
}

mod files {
    use super::*;

    /// Adds a file to the schema of the tree; `want` is the message, or the definitions it adds.
    #[track_caller]
    fn check(text: &str, want: &str) {
        let base = Schema::builtin();
        match base.with_files(&[file("my.ldif", text)]) {
            Ok(schema) => {
                let old = every_definition(&base);
                let mut new = every_definition(&schema);
                new.retain(|line| !old.contains(line) && !line.starts_with("matchingRuleUse"));
                assert_eq!(new.join("\n").replace(" X-SCHEMA-FILE 'my.ldif'", ""), want);
            }
            Err(error) => assert_eq!(without_lines(&error.to_string()), want),
        }
    }

    const A: &str = "attributeTypes: ( 1.2.3 NAME 'a' SUP name )";

    #[test]
    fn lines_are_ldif() {
        check(A, A);
        check(&format!("# comment\n more\ndn: cn=schema\nobjectClass: top\n\n{A}\n"), A);
        check("\u{feff}ATTRIBUTETYPES:( 1.2.3\r\n  NAME 'a'\r\n   SUP\r\n  na\r\n me )\r\n", A);
        check("attributeTypes: ( 1.2.3\n\tNAME 'a'\n\tSUP name )\n", A);
        check("attributeTypes: ( 1.2.3 NAME 'a' SUP name\n )\n", A);
        check("", "");
        check("dn: cn=schema\n", "");
    }

    #[test]
    fn the_forms_of_openldap_are_read() {
        check("attributetype ( 1.2.3\n NAME 'a'\n  SUP name\n\t)\n", A);
        check("olcAttributeTypes: {12}( 1.2.3 NAME 'a' S\n UP name )\n", A);
        check(
            "objectclass ( 1.2.3 NAME 'a' SUP top )\n",
            "objectClasses: ( 1.2.3 NAME 'a' SUP top )",
        );
        check(
            "objectidentifier my 1.2.3\n",
            "my.ldif:1: OpenLDAP's objectidentifier is not read here; write dotted OIDs in full",
        );
        check(
            "olcObjectIdentifier: {0}my 1.2.3\n",
            "my.ldif:1: OpenLDAP's objectidentifier is not read here; write dotted OIDs in full",
        );
        check(
            "\nattributetype ( my:1 NAME 'a' SUP name )\n",
            "my.ldif:2: attribute type: 'my:1' uses an OpenLDAP macro; write the dotted OID it \
             stands for, at character 4",
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        check("# c\nwhat\n", "my.ldif:2: expected 'name: value'; comments start with '#'");
        check("what ( 1.2.3 )\n", "my.ldif:1: expected 'name: value'; comments start with '#'");
        check(
            "mail: a@b\n",
            "my.ldif:1: 'mail' does not belong in a schema file; definitions start with \
             'attributeTypes:', 'objectClasses:' or another attribute of cn=schema",
        );
        check(
            "attributeTypes:: KCAp\n",
            "my.ldif:1: base64 is not read here; write the definition plainly",
        );
        check(
            "dn: x\nobjectClasses: ( 1.2.3\n  NAME )\n",
            "my.ldif:2: object class: expected a string in single quotes, at character 14",
        );
    }

    #[test]
    fn what_is_not_defined_is_named() {
        check(
            "attributeTypes: ( 1.2.3 NAME 'a' SUP b )",
            "my.ldif:1: attribute type 'a': superior type 'b' is not defined; correct it or add \
             the file that defines it",
        );
        check(
            "objectClasses: ( 1.2.3 NAME 'a' MUST b )",
            "my.ldif:1: object class 'a': attribute type in MUST 'b' is not defined; correct it \
             or add the file that defines it",
        );
        check(
            "objectClasses: ( 1.2.3 NAME 'a' SUP cn )",
            "my.ldif:1: object class 'a': superior class 'cn' is not defined; correct it or add \
             the file that defines it",
        );
        check(
            "attributeTypes: ( 1.2.3 NAME 'a' SYNTAX 1.2.4 )",
            "my.ldif:1: attribute type 'a': syntax '1.2.4' is not defined; correct it or add the \
             file that defines it",
        );
        check(
            "attributeTypes: ( 1.2.3 NAME 'a' SUP name EQUALITY b )",
            "my.ldif:1: attribute type 'a': matching rule 'b' is not defined; correct it or add \
             the file that defines it",
        );
        check(
            "attributeTypes: ( 1.2.3 NAME 'a' SUP name EQUALITY caseIgnoreOrderingMatch )",
            "my.ldif:1: attribute type 'a': matching rule 'caseIgnoreOrderingMatch' is not one \
             for EQUALITY",
        );
    }

    #[test]
    fn oids_and_names_are_unique() {
        check(
            &format!("{A}\nattributeTypes: ( 1.2.4 NAME 'A' SUP name )"),
            "my.ldif:2: attribute type 'A': its name 'A' belongs to attribute type 'a' \
             (my.ldif:1); use another",
        );
        check(
            &format!("{A}\nattributeTypes: ( 1.2.3 NAME 'b' SUP name )"),
            "my.ldif:2: attribute type 'b': its OID belongs to attribute type 'a' (my.ldif:1); \
             use another",
        );
        check(
            "objectClasses: ( 2.5.4.3 NAME 'b' )",
            "my.ldif:1: object class 'b': its OID belongs to attribute type 'cn' \
             (00-core.ldif); use another",
        );
        check(
            "attributeTypes: ( 1.2.3 NAME 'userid' SUP name )",
            "my.ldif:1: attribute type 'userid': its name 'userid' belongs to attribute type \
             'uid' (00-core.ldif); use another",
        );
        // A class and a type may share a name.
        check("objectClasses: ( 1.2.3 NAME 'cn' )", "objectClasses: ( 1.2.3 NAME 'cn' )");
        // One definition may repeat its name.
        check(
            "objectClasses: ( 1.2.3 NAME ( 'a' 'A' ) )",
            "objectClasses: ( 1.2.3 NAME ( 'a' 'A' ) )",
        );
    }

    #[test]
    fn superiors_end_somewhere() {
        check(
            "attributeTypes: ( 1.2.3 NAME 'a' SUP b )\nattributeTypes: ( 1.2.4 NAME 'b' SUP a )",
            "my.ldif:1: attribute type 'a': its superiors form a circle or a chain longer than 32",
        );
        check(
            "objectClasses: ( 1.2.3 NAME 'a' SUP a )",
            "my.ldif:1: object class 'a': its superiors form a circle or a chain longer than 32",
        );
        let chain = |length: usize, backwards: bool| {
            let line = |n: usize| match n {
                0 => "attributeTypes: ( 1.2.3.0 NAME 'a0' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"
                    .to_owned(),
                n => format!("attributeTypes: ( 1.2.3.{n} NAME 'a{n}' SUP a{} )", n - 1),
            };
            let mut lines: Vec<String> = (0..length).map(line).collect();
            if backwards {
                lines.reverse();
            }
            Schema::builtin().with_files(&[file("my.ldif", &lines.join("\n"))])
        };
        for backwards in [false, true] {
            assert!(chain(33, backwards).is_ok());
            assert_eq!(chain(34, backwards).unwrap_err().fault, SchemaFault::EndlessChain);
            assert_eq!(chain(5000, backwards).unwrap_err().fault, SchemaFault::EndlessChain);
        }
    }

    #[test]
    fn kinds_of_superiors_fit() {
        let want = |name: &str, kind: &str| {
            format!(
                "my.ldif:1: object class 'a': a class of its kind cannot be derived from {kind} \
                 class '{name}'"
            )
        };
        let class = |rest: &str| format!("objectClasses: ( 1.2.3 NAME 'a' SUP {rest} )");
        check(&class("person ABSTRACT"), &want("person", "STRUCTURAL"));
        check(&class("person AUXILIARY"), &want("person", "STRUCTURAL"));
        check(&class("posixAccount STRUCTURAL"), &want("posixAccount", "AUXILIARY"));
        check(&class("posixAccount AUXILIARY"), &class("posixAccount AUXILIARY"));
        check(&class("( person $ device )"), &class("( person $ device )"));
    }

    #[test]
    fn usage_and_collective_follow_the_superior() {
        let line = |rest: &str| format!("attributeTypes: ( 1.2.3 NAME 'a' SUP {rest} )");
        check(
            &line("name USAGE directoryOperation"),
            "my.ldif:1: attribute type 'a': its USAGE differs from that of its superior",
        );
        check(
            &line("name SINGLE-VALUE COLLECTIVE"),
            "my.ldif:1: attribute type 'a': a collective attribute must have usage \
             userApplications and many values",
        );
        check(&line("name COLLECTIVE"), &line("name COLLECTIVE"));
    }

    #[test]
    fn syntaxes_and_rules_are_those_of_the_server() {
        check(
            "ldapSyntaxes: ( 1.3.6.1.4.1.1466.115.121.1.15 DESC 'mine' )\nmatchingRules: ( \
               2.5.13.2 NAME 'x' SYNTAX 1.2 )\nmatchingRuleUse: ( 1.2.3 APPLIES x )",
            "",
        );
        let hint = "this server does not implement it; remove the definition, or name a known \
                    syntax with X-SUBST";
        check("ldapSyntaxes: ( 1.2.4 )", &format!("my.ldif:1: syntax '1.2.4': {hint}"));
        check(
            "matchingRules: ( 1.2.4 NAME 'm' SYNTAX 1.2 )",
            &format!("my.ldif:1: matching rule 'm': {hint}"),
        );
        let schema = Schema::builtin()
            .with_files(&[file(
                "my.ldif",
                "attributeTypes: ( 1.2.3 NAME 'a' SYNTAX 1.2.4 )\n\
                 ldapSyntaxes: ( 1.2.4 X-SUBST '1.3.6.1.4.1.1466.115.121.1.27' )",
            )])
            .unwrap();
        assert_eq!(schema.attribute_type("a").unwrap().syntax.name, "INTEGER");
        let shown: Vec<String> = schema.definitions(DefinitionKind::Syntax).collect();
        assert!(shown.iter().any(|text| text.starts_with("( 1.2.4 X-SUBST '1.3.6")), "{shown:?}");
    }

    #[test]
    fn content_rules_name_forms_and_structure_rules_refer_to_what_is_there() {
        let rules = "dITContentRules: ( 2.5.6.6 NAME 'p' AUX posixAccount MUST mail NOT title )\n\
                     dITStructureRules: ( 2 FORM pf SUP 1 )\n\
                     dITStructureRules: ( 1 FORM pf )\n\
                     nameForms: ( 1.2.3 NAME 'pf' OC person MUST cn )";
        let schema = Schema::builtin().with_files(&[file("my.ldif", rules)]).unwrap();
        let person = schema.object_class("person").unwrap();
        let rule = schema.content_rule(person).unwrap();
        assert_eq!(rule.auxiliary[0].name(), "posixAccount");
        assert_eq!((rule.must[0].name(), rule.not[0].name()), ("mail", "title"));
        assert!(schema.content_rule(schema.object_class("device").unwrap()).is_none());
        assert_eq!(schema.oid_of("PF"), Some("1.2.3"));
        assert_eq!(schema.oid_of("p"), Some("2.5.6.6"));
        check(
            "dITContentRules: ( 2.5.6.6 AUX device )",
            "my.ldif:1: DIT content rule '2.5.6.6': object class 'device' is not AUXILIARY",
        );
        check(
            "dITContentRules: ( 2.5.6.0 )",
            "my.ldif:1: DIT content rule '2.5.6.0': object class 'top' is not STRUCTURAL",
        );
        check(
            "nameForms: ( 1.2.3 NAME 'pf' OC posixAccount MUST cn )",
            "my.ldif:1: name form 'pf': object class 'posixAccount' is not STRUCTURAL",
        );
        check(
            "dITStructureRules: ( 1 FORM pf )",
            "my.ldif:1: DIT structure rule '1': name form 'pf' is not defined; correct it or add \
             the file that defines it",
        );
    }

    #[test]
    fn a_file_may_replace_what_it_does_not_rename() {
        let text = include_str!("../../files/04-nis-rfc2307.ldif");
        let schema = Schema::builtin().with_files(&[file("04-nis-rfc2307.ldif", text)]).unwrap();
        assert_eq!(schema.object_class("posixGroup").unwrap().kind, ClassKind::Structural);
        check(
            "attributeTypes: ( 0.9.2342.19200300.100.1.3 NAME ( 'rfc822Mailbox' 'mail' ) SUP name )",
            "my.ldif:1: attribute type 'rfc822Mailbox': its first name must stay 'mail', which \
             stored names contain; add the new name after it",
        );
        check(
            "attributeTypes: ( 1.3.6.1.1.20 NAME 'entryDN' SUP name )",
            "my.ldif:1: attribute type 'entryDN': the server itself needs 'entryDN' as it is in \
             00-core.ldif; leave it unchanged",
        );
        let other = "attributeTypes: ( 1.3.6.1.1.1.1.2 NAME 'gecos' SUP name )";
        check(other, other);
    }

    #[test]
    fn a_schema_without_what_the_server_needs_is_refused() {
        let error = Schema::load(&[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the server itself needs 'objectClass' as it is in 00-core.ldif; leave it unchanged"
        );
    }

    #[test]
    fn definitions_have_a_greatest_number() {
        let line = |n| format!("objectClasses: ( 1.2.3.{n} )\n");
        let known = Schema::builtin().sources.len();
        let text: String = (0..DEFINITION_COUNT_MAX - known).map(line).collect();
        let schema = Schema::builtin().with_files(&[file("a", &text)]).unwrap();
        let error = schema.with_files(&[file("b", &line(99_999))]).unwrap_err();
        assert_eq!(error.fault, SchemaFault::TooMany);
    }
}

mod changes {
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
}

/// Compares line by line, so that a failure shows one line.
#[track_caller]
fn assert_same(found: &[String], want: &[String]) {
    for (found, want) in found.iter().zip(want) {
        assert_eq!(found, want);
    }
    assert_eq!(found.len(), want.len());
}

/// Writes all definitions of a schema as one file.
fn as_file(lines: &[String]) -> SchemaFile {
    file("all.ldif", &lines.join("\n"))
}

#[test]
fn the_definitions_of_a_schema_load_to_an_equal_one() {
    let schema = Schema::builtin();
    let all = every_definition(&schema);
    let again = Schema::load(&[as_file(&all)]).unwrap_or_else(|error| panic!("{error}"));
    assert_same(&every_definition(&again), &all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_of_definitions_does_not_matter(
        lines in Just(every_definition(&Schema::builtin())).prop_shuffle()
    ) {
        let again = Schema::load(&[as_file(&lines)]).unwrap();
        assert_same(&every_definition(&again), &every_definition(&Schema::builtin()));
        let person = again.object_class("inetOrgPerson").unwrap();
        prop_assert_eq!(person.all_must.len(), 3);
    }

    #[test]
    fn any_file_is_read_or_refused_with_its_line(
        text in "(attributeTypes: |objectclass |olcFoo: |#|[ \t\n:a(){}']|\\( 1\\.2\\.3 |SUP top \\)){0,20}"
    ) {
        if let Err(error) = Schema::builtin().with_files(&[file("f", &text)]) {
            prop_assert!(error.to_string().starts_with("f:"), "{}", error);
        }
    }
}
