//! Schema files: their form, and what a set of definitions must obey.

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
fn modifications_that_add_definitions_are_read() {
    let modify = "dn: cn=schema\nchangetype: modify\n";
    check(&format!("{modify}add: attributeTypes\n{A}\n"), A);
    check(&format!("{modify}ADD: attributetypes\n{A}\n-\nadd: objectClasses\n-\n"), A);
    let config = "dn: cn={5}x,cn=schema,cn=config\nchangetype: modify\nadd: olcAttributeTypes\n";
    check(&format!("{config}olcAttributeTypes: ( 1.2.3 NAME 'a' SUP name )\n-\n"), A);
    let wrong = |name: &str| {
        format!(
            "my.ldif:3: '{name}' does not belong in a schema file; definitions start with \
             'attributeTypes:', 'objectClasses:' or another attribute of cn=schema"
        )
    };
    // What takes definitions away is not for a file that says which there are.
    for verb in ["delete", "replace"] {
        let text = format!("{modify}{verb}: attributeTypes\n{A}\n");
        check(&text, &wrong(verb));
    }
    check(&format!("{modify}add: description\n"), &wrong("add"));
}

#[test]
fn records_that_add_nothing_to_a_schema_are_refused() {
    // They were taken without a word, and nothing of what they asked for happened.
    for verb in ["delete", "modrdn", "moddn", "Delete"] {
        let want = format!(
            "my.ldif:2: 'changetype: {verb}' does not belong in a schema file, which says what \
             there is: take definitions out of the file that has them, or delete them from \
             cn=schema of the running server"
        );
        check(&format!("dn: cn=schema\nchangetype: {verb}\n"), &want);
    }
    for name in ["uid=anna,dc=example,dc=org", "cn=config", "", "schema", "ou=schema"] {
        let want = format!(
            "my.ldif:1: '{name}' is no schema entry, and a schema file changes no other: put \
             definitions under 'dn: cn=schema', and load entries with roster import"
        );
        check(&format!("dn: {name}\nobjectClass: top\n{A}\n"), &want);
    }
    let base64 = "my.ldif:1: base64 is not read here; write the definition plainly";
    check("dn:: Y249c2NoZW1h\n", base64);
    for name in ["cn=schema", "CN=Schema", "cn=Subschema", "cn={4}my,cn=schema,cn=config"] {
        check(&format!("dn: {name}\nchangetype: add\n{A}\n"), A);
    }
    let two = format!("dn: cn=schema\n{A}\n\ndn: uid=anna\n");
    assert!(Schema::builtin().with_files(&[file("my.ldif", &two)]).is_err(), "each record counts");
}

#[test]
fn the_forms_of_openldap_are_read() {
    check("attributetype ( 1.2.3\n NAME 'a'\n  SUP name\n\t)\n", A);
    check("olcAttributeTypes: {12}( 1.2.3 NAME 'a' S\n UP name )\n", A);
    check("objectclass ( 1.2.3 NAME 'a' SUP top )\n", "objectClasses: ( 1.2.3 NAME 'a' SUP top )");
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

// Clients that look up types by OID take 'name-oid' for a fault, and two types of one OID for one.
#[test]
fn each_definition_of_the_tree_has_a_numeric_oid_of_its_own() {
    let mut seen = std::collections::BTreeMap::new();
    for file in builtin_files() {
        for sourced in file::read(&file).unwrap() {
            let Definition { oid, names, .. } = sourced.definition;
            assert!(ldap::description::is_numeric_oid(&oid), "{}: {oid}", file.name);
            let names = format!("{names:?} of {}", file.name);
            let before = seen.insert(oid.clone(), names.clone());
            assert_eq!(before, None, "{oid} is that of {names}, too");
        }
    }
    assert!(seen.len() > 500, "{}", seen.len());
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
        "dn: cn=schema\nobjectClasses: ( 1.2.3\n  NAME )\n",
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
    check(
        "attributeTypes: ( 2.5.4.4 NAME ( 'sn' 'cn' ) SUP name )",
        "my.ldif:1: attribute type 'sn': its name 'cn' belongs to attribute type 'cn' \
         (00-core.ldif); use another",
    );
    // A class and a type may share a name.
    check("objectClasses: ( 1.2.3 NAME 'cn' )", "objectClasses: ( 1.2.3 NAME 'cn' )");
    // One definition may repeat its name.
    check("objectClasses: ( 1.2.3 NAME ( 'a' 'A' ) )", "objectClasses: ( 1.2.3 NAME ( 'a' 'A' ) )");
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
    let text = include_str!("../../../files/04-nis-rfc2307.ldif");
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
