//! Which texts are definitions, and that they print as they parse.

use DefinitionKind as Kind;
use proptest::prelude::*;

use super::*;

/// `text` is a definition that prints as `want`, and so does what it prints.
#[track_caller]
fn check(kind: Kind, text: &str, want: &str) {
    let definition = Definition::parse(kind, text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(definition.to_string(), want);
    assert_eq!(Definition::parse(kind, want).as_ref(), Ok(&definition), "parsed again");
    assert_eq!(Definition::parse_line(&definition.line()).as_ref(), Ok(&definition), "as a line");
}

/// `text` is refused, with a message that starts with `want` at the mark `^` below it.
#[track_caller]
fn refuse(kind: Kind, text: &str, at: &str, want: &str) {
    let error = Definition::parse(kind, text).expect_err("refused");
    let message = error.to_string();
    assert!(message.starts_with(want), "{message}");
    let rest = text.get(error.offset..).expect("offset within the text");
    assert!(rest.starts_with(at), "stopped at {rest:?}");
}

#[track_caller]
fn same(kind: Kind, text: &str) {
    check(kind, text, text);
}

#[test]
fn every_field_of_each_kind_is_kept() {
    same(
        Kind::AttributeType,
        "( 1.2.3 NAME ( 'a' 'bB' 'c-1' ) DESC 'some words' OBSOLETE SUP name \
         EQUALITY caseIgnoreMatch ORDERING caseIgnoreOrderingMatch \
         SUBSTR caseIgnoreSubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15{64} SINGLE-VALUE \
         COLLECTIVE NO-USER-MODIFICATION USAGE dSAOperation X-ORIGIN 'RFC 1' )",
    );
    same(
        Kind::ObjectClass,
        "( 1.2.3 NAME 'a' DESC 'd' OBSOLETE SUP ( top $ 2.5.6.6 ) AUXILIARY MUST ( cn $ sn ) \
         MAY description X-A 'b' )",
    );
    same(Kind::ObjectClass, "( 1.2.3 ABSTRACT )");
    same(Kind::ObjectClass, "( 1.2.3 )");
    same(Kind::Syntax, "( 1.2.3 DESC 'd' X-SUBST '1.2.4' X-NOT-HUMAN-READABLE 'TRUE' )");
    same(Kind::MatchingRule, "( 1.2.3 NAME 'm' DESC 'd' OBSOLETE SYNTAX 1.2.4 X-A 'b' )");
    same(Kind::MatchingRuleUse, "( 1.2.3 NAME 'm' OBSOLETE APPLIES ( cn $ 2.5.4.4 ) )");
    same(
        Kind::ContentRule,
        "( 1.2.3 NAME 'd' OBSOLETE AUX ( a $ b ) MUST c MAY ( d $ e ) NOT ( f $ g ) X-A 'b' )",
    );
    same(Kind::StructureRule, "( 7 NAME 's' DESC 'd' OBSOLETE FORM f SUP ( 1 2 3 ) X-A 'b' )");
    same(Kind::StructureRule, "( 0 FORM f SUP 7 )");
    same(Kind::NameForm, "( 1.2.3 NAME 'n' OBSOLETE OC person MUST ( cn $ sn ) MAY uid )");
}

#[test]
fn what_is_default_is_not_printed() {
    check(
        Kind::AttributeType,
        "( 1.2.3 DESC '' SYNTAX 1.2.4 USAGE userApplications )",
        "( 1.2.3 SYNTAX 1.2.4 )",
    );
    check(Kind::ObjectClass, "( 1.2.3 STRUCTURAL MUST ( cn ) )", "( 1.2.3 MUST cn )");
    check(Kind::ObjectClass, "( 1.2.3 NAME ( 'a' ) )", "( 1.2.3 NAME 'a' )");
}

#[test]
fn white_space_order_and_case_do_not_matter() {
    let want = "( 1.2.3 NAME 'a' SUP b SINGLE-VALUE USAGE directoryOperation )";
    let kind = Kind::AttributeType;
    check(kind, "(1.2.3 NAME'a'SUP b SINGLE-VALUE USAGE directoryOperation)", want);
    check(
        kind,
        "  ( 1.2.3\n\tNAME  'a'\r\n  USAGE DirectoryOperation sup   b\tsingle-value )  ",
        want,
    );
    check(
        Kind::ObjectClass,
        "(1.2.3 MAY(a$b $c)MUST d SUP(e))",
        "( 1.2.3 SUP e MUST d MAY ( a $ b $ c ) )",
    );
    check(Kind::StructureRule, "(7 FORM f SUP(1 2))", "( 7 FORM f SUP ( 1 2 ) )");
}

#[test]
fn quotes_and_backslashes_are_escaped() {
    let text = r"( 1.2.3 DESC 'it\27s \5C here' X-A ( '\27\27' '\5C' 'ü $ ( ) ' ) )";
    let definition = Definition::parse(Kind::ObjectClass, text).unwrap();
    assert_eq!(definition.description.as_deref(), Some(r"it's \ here"));
    assert_eq!(definition.extensions[0].values, ["''", r"\", "ü $ ( ) "]);
    same(Kind::ObjectClass, text);
    check(Kind::ObjectClass, r"( 1.2.3 DESC '\5c' )", r"( 1.2.3 DESC '\5C' )");
    refuse(Kind::ObjectClass, r"( 1.2.3 DESC 'a\nb' )", r"\nb", "bad escape; write a quote as");
    refuse(Kind::ObjectClass, r"( 1.2.3 DESC 'a\é7' )", r"\é", "bad escape");
    refuse(Kind::ObjectClass, r"( 1.2.3 DESC 'a\2", r"\2", "bad escape");
    refuse(Kind::ObjectClass, "( 1.2.3 DESC 'it's' )", "s' )", "unknown keyword 's'");
    refuse(Kind::ObjectClass, "( 1.2.3 DESC 'a )", "'a )", "a quoted string does not end");
    refuse(Kind::ObjectClass, "( 1.2.3 DESC a )", "a )", "expected a string in single quotes");
    refuse(Kind::ObjectClass, "( 1.2.3 DESC \"a\" )", "\"a\"", "expected a string in single");
}

#[test]
fn extensions_are_kept_in_order() {
    same(Kind::ObjectClass, "( 1.2.3 X-B ( 'a' 'b' ) X-A 'c' X-a_b-1 'd' )");
    let definition =
        Definition::parse(Kind::ObjectClass, "( 1.2.3 X-ORIGIN ( 'RFC 1' 'RFC 2' ) )").unwrap();
    assert_eq!(definition.extension("X-ORIGIN").unwrap(), ["RFC 1", "RFC 2"]);
    refuse(Kind::ObjectClass, "( 1.2.3 X- 'a' )", "X- 'a'", "unknown keyword 'X-'");
    refuse(Kind::ObjectClass, "( 1.2.3 X-A 'a' X-a 'b' )", "X-a 'b'", "'X-a' is given twice");
    refuse(Kind::ObjectClass, "( 1.2.3 X-A )", ")", "expected a string in single quotes");
    refuse(Kind::ObjectClass, "( 1.2.3 X-A ( ) )", ") )", "expected a string in single quotes");
}

#[test]
fn a_definition_starts_with_its_oid() {
    let kind = Kind::AttributeType;
    check(kind, "( myType-oid SYNTAX 1.2.4 )", "( myType-oid SYNTAX 1.2.4 )");
    check(kind, "( '1.2.3' SYNTAX '1.2.4' SUP 'b' )", "( 1.2.3 SUP b SYNTAX 1.2.4 )");
    refuse(kind, "( NAME 'a' SYNTAX 1.2.4 )", "NAME", "a definition starts with its OID");
    refuse(kind, "( myType SYNTAX 1.2.4 )", "myType", "a definition starts with its OID, not");
    refuse(kind, "( myOids:7 SYNTAX 1.2.4 )", "myOids", "'myOids:7' uses an OpenLDAP macro");
    refuse(kind, "( 1..3 SYNTAX 1.2.4 )", "1..3", "'1..3' is neither a dotted OID nor a name");
    refuse(kind, "( 1.02 SYNTAX 1.2.4 )", "1.02", "'1.02' is neither");
    refuse(kind, "( 1 SYNTAX 1.2.4 )", "1 ", "'1' is neither");
    refuse(kind, "( )", ")", "expected an OID");
    refuse(kind, "", "", "expected an opening parenthesis");
    refuse(kind, "1.2.3", "1", "expected an opening parenthesis");
    refuse(Kind::StructureRule, "( 1.2 FORM f )", "1.2", "'1.2' is not a number in range");
    refuse(Kind::StructureRule, "( 07 FORM f )", "07", "'07' is not a number in range");
    refuse(Kind::StructureRule, "( 99999999999 FORM f )", "999", "'99999999999' is not");
}

#[test]
fn names_are_letters_digits_and_hyphens_in_quotes() {
    let kind = Kind::ObjectClass;
    refuse(kind, "( 1.2.3 NAME a )", "a )", "expected a string in single quotes");
    refuse(kind, "( 1.2.3 NAME 'a_b' )", "'a_b'", "'a_b' is not a name: a letter, then");
    refuse(kind, "( 1.2.3 NAME '1a' )", "'1a'", "'1a' is not a name");
    refuse(kind, "( 1.2.3 NAME '1.2' )", "'1.2'", "'1.2' is not a name");
    refuse(kind, "( 1.2.3 NAME '' )", "''", "'' is not a name");
    refuse(kind, "( 1.2.3 NAME 'ü' )", "'ü'", "'ü' is not a name");
    refuse(kind, "( 1.2.3 NAME ( 'a' $ 'b' ) )", "$ 'b'", "expected a string in single quotes");
    refuse(kind, "( 1.2.3 NAME ( 'a' )", "", "expected a keyword or the closing parenthesis");
    let long = "a".repeat(crate::NAME_LENGTH_MAX_BYTES);
    same(kind, &format!("( 1.2.3 NAME '{long}' )"));
    refuse(kind, &format!("( 1.2.3 NAME '{long}a' )"), "'a", "'a");
}

#[test]
fn lists_hold_oids_between_dollar_signs() {
    let kind = Kind::ObjectClass;
    refuse(kind, "( 1.2.3 MUST ( a b ) )", "b )", "expected '$' or ')' in the list");
    refuse(kind, "( 1.2.3 MUST ( a $ ) )", ") )", "expected an OID or a name");
    refuse(kind, "( 1.2.3 MUST ( ) )", ") )", "expected an OID or a name");
    refuse(kind, "( 1.2.3 MUST )", ")", "expected an OID or a name");
    refuse(kind, "( 1.2.3 MUST ( ( a ) ) )", "( a", "expected an OID or a name");
    refuse(kind, "( 1.2.3 MUST a $ b )", "$", "expected a keyword");
    refuse(kind, "( 1.2.3 MUST ( a $ b_c ) )", "b_c", "'b_c' is neither a dotted OID nor a name");
    refuse(kind, "( 1.2.3 MUST at:7 )", "at:7", "'at:7' uses an OpenLDAP macro");
    refuse(kind, "( 1.2.3 SUP ( a $ b", "", "expected '$' or ')'");
}

#[test]
fn each_kind_has_its_own_keywords_once() {
    refuse(
        Kind::ObjectClass,
        "( 1.2.3 FOO )",
        "FOO",
        "unknown keyword 'FOO'; keywords of your own",
    );
    refuse(Kind::ObjectClass, "( 1.2.3 SYNTAX 1.2 )", "SYNTAX", "unknown keyword 'SYNTAX'");
    refuse(Kind::AttributeType, "( 1.2.3 MUST a )", "MUST", "unknown keyword 'MUST'");
    refuse(Kind::Syntax, "( 1.2.3 NAME 'a' )", "NAME", "unknown keyword 'NAME'");
    refuse(Kind::MatchingRule, "( 1.2.3 USAGE a )", "USAGE", "unknown keyword 'USAGE'");
    refuse(Kind::ObjectClass, "( 1.2.3 SUP a SUP b )", "SUP b", "'SUP' is given twice");
    refuse(Kind::ObjectClass, "( 1.2.3 ABSTRACT AUXILIARY )", "AUX", "'AUXILIARY' is given twice");
    refuse(Kind::ObjectClass, "( 1.2.3 OBSOLETE OBSOLETE )", "OBSOLETE )", "'OBSOLETE' is given");
}

#[test]
fn what_a_kind_needs_must_be_there() {
    refuse(Kind::AttributeType, "( 1.2.3 NAME 'a' )", "", "SYNTAX (or SUP to inherit one) is");
    refuse(Kind::MatchingRule, "( 1.2.3 NAME 'a' )", "", "SYNTAX is missing");
    refuse(Kind::MatchingRuleUse, "( 1.2.3 NAME 'a' )", "", "APPLIES is missing");
    refuse(Kind::StructureRule, "( 1 NAME 'a' )", "", "FORM is missing");
    refuse(Kind::NameForm, "( 1.2.3 MUST cn )", "", "OC is missing");
    refuse(Kind::NameForm, "( 1.2.3 OC person )", "", "MUST is missing");
}

#[test]
fn syntaxes_are_dotted_oids_with_a_length() {
    let kind = Kind::AttributeType;
    same(kind, "( 1.2.3 SYNTAX 1.2.4{0} )");
    same(kind, "( 1.2.3 SYNTAX 1.2.4{4294967295} )");
    refuse(kind, "( 1.2.3 SYNTAX 1.2.4{4294967296} )", "1.2.4{", "'4294967296}' is not a number");
    refuse(kind, "( 1.2.3 SYNTAX 1.2.4{} )", "1.2.4{", "'}' is not a number");
    refuse(kind, "( 1.2.3 SYNTAX 1.2.4{+1} )", "1.2.4{", "'+1}' is not a number");
    refuse(kind, "( 1.2.3 SYNTAX 1.2.4{1 )", "1.2.4{", "'1' is not a number");
    refuse(kind, "( 1.2.3 SYNTAX directoryString )", "dir", "'directoryString' is neither");
    refuse(kind, "( 1.2.3 SYNTAX OMs:15 )", "OMs", "'OMs:15' uses an OpenLDAP macro");
    refuse(Kind::MatchingRule, "( 1.2.3 SYNTAX 1.2{5} )", "1.2{5}", "'1.2{5}' is neither");
    refuse(
        kind,
        "( 1.2.3 SUP a USAGE some )",
        "some",
        "'some' is no usage; write userApplications",
    );
}

#[test]
fn nothing_follows_the_closing_parenthesis() {
    refuse(Kind::ObjectClass, "( 1.2.3 ) )", ")", "text after the closing parenthesis");
    refuse(Kind::ObjectClass, "( 1.2.3 ) x", "x", "text after the closing parenthesis");
    refuse(Kind::ObjectClass, "( 1.2.3", "", "expected a keyword or the closing parenthesis");
}

#[test]
fn a_definition_has_a_longest_length() {
    let padding = " ".repeat(DEFINITION_LENGTH_MAX_BYTES - "( 1.2.3 )".len());
    check(Kind::ObjectClass, &format!("( 1.2.3 {padding})"), "( 1.2.3 )");
    refuse(
        Kind::ObjectClass,
        &format!("( 1.2.3  {padding})"),
        "(",
        "the definition is longer than",
    );
}

#[test]
fn lines_name_the_kind() {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_attribute(kind.attribute()), Some(kind));
        assert_eq!(Kind::from_attribute(&kind.attribute().to_uppercase()), Some(kind));
    }
    let error = Definition::parse_line("cn: ( 1.2.3 )").unwrap_err();
    assert_eq!(error.fault, DefinitionFault::NoKind);
    assert_eq!(Definition::parse_line("").unwrap_err().fault, DefinitionFault::NoKind);
}

#[test]
fn every_definition_of_the_tree_prints_as_it_parses() {
    for file in crate::builtin_files() {
        for source in crate::file::read(&file).unwrap() {
            let definition = source.definition;
            let again = Definition::parse(definition.kind(), &definition.to_string());
            assert_eq!(again.as_ref(), Ok(&definition));
            assert!(definition.description.is_some(), "{definition} has a description");
            assert!(definition.extension("X-ORIGIN").is_some(), "{definition} has an origin");
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{1,12}", r"['\\()$ aü]{1,8}"]
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9-]{0,8}"
}

fn oid() -> impl Strategy<Value = String> {
    prop_oneof!["[12]\\.[1-9][0-9]{0,3}\\.[1-9]", name()]
}

fn oids() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(oid(), 0..4)
}

fn extensions() -> impl Strategy<Value = Vec<Extension>> {
    let values = prop::collection::vec(text(), 1..4);
    prop::collection::btree_map("X-[A-Z_]{1,6}", values, 0..3)
        .prop_map(|map| map.into_iter().map(|(name, values)| Extension { name, values }).collect())
}

fn body() -> impl Strategy<Value = Body> {
    let kind = prop_oneof![
        Just(ClassKind::Abstract),
        Just(ClassKind::Structural),
        Just(ClassKind::Auxiliary)
    ];
    let class = (oids(), kind, oids(), oids());
    let content = (oids(), oids(), oids(), oids());
    prop_oneof![
        class.prop_map(|(superiors, kind, must, may)| Body::ObjectClass {
            superiors,
            kind,
            must,
            may
        }),
        content.prop_map(|(auxiliary, must, may, not)| Body::ContentRule {
            auxiliary,
            must,
            may,
            not
        }),
        attribute_type().prop_map(Body::AttributeType),
    ]
}

fn attribute_type() -> impl Strategy<Value = AttributeTypeBody> {
    let rules = prop::array::uniform4(prop::option::of(oid()));
    let flags = prop::array::uniform3(any::<bool>());
    (rules, flags, any::<Option<u32>>(), 0..Usage::ALL.len()).prop_map(
        |([superior, equality, ordering, substring], flags, length_max, usage)| {
            let [single_value, collective, no_user_modification] = flags;
            AttributeTypeBody {
                superior,
                equality,
                ordering,
                substring,
                syntax: Some("1.2.4".to_owned()),
                length_max,
                single_value,
                collective,
                no_user_modification,
                usage: Usage::ALL[usage].0,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same(
        names in prop::collection::vec(name(), 0..3),
        description in prop::option::of(text()),
        obsolete: bool,
        body in body(),
        extensions in extensions(),
    ) {
        let oid = "1.2.3".to_owned();
        let definition = Definition { oid, names, description, obsolete, body, extensions };
        let again = Definition::parse(definition.kind(), &definition.to_string());
        prop_assert_eq!(again, Ok(definition));
    }

    #[test]
    fn any_text_is_read_or_refused_in_place(
        text in "[()$' \\\\{}1-3.a-cA-Z:\n-]{0,60}|\\( 1\\.2 [A-Z '()$a-c.-]{0,40}\\)",
        kind in 0..Kind::ALL.len(),
    ) {
        let kind = Kind::ALL[kind];
        match Definition::parse(kind, &text) {
            Ok(definition) => {
                let again = Definition::parse(kind, &definition.to_string());
                prop_assert_eq!(again, Ok(definition));
            }
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }
}
