//! Every rule of the table: what matches, what comes first, what cannot be prepared.

use std::cmp::Ordering;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::prepare::Position;
use crate::rules::{Prepare, RuleKind, Syntax};
use crate::schema::Schema;

fn schema() -> Arc<Schema> {
    Schema::builtin()
}

#[track_caller]
fn rule(name: &str) -> &'static MatchingRule {
    MatchingRule::find(name).unwrap_or_else(|| panic!("no rule {name}"))
}

fn key(prepare: Prepare, value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    prepare(&schema(), value, &mut out).is_ok().then_some(out)
}

fn assertion_key(rule: &MatchingRule, assertion: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    rule.prepare_assertion(&schema(), assertion, &mut out).is_ok().then_some(out)
}

/// Whether a value matches an assertion; none if one of them cannot be prepared.
#[track_caller]
fn matches(name: &str, value: &[u8], assertion: &[u8]) -> Option<bool> {
    let rule = rule(name);
    let value = key(rule.prepare, value)?;
    Some(rule.keys_match(&value, &assertion_key(rule, assertion)?))
}

#[track_caller]
fn check_equal(rule: &str, value: &str, assertions: &[&str]) {
    for assertion in assertions {
        let result = matches(rule, value.as_bytes(), assertion.as_bytes());
        assert_eq!(result, Some(true), "{rule}: {value:?} and {assertion:?}");
    }
}

#[track_caller]
fn check_unequal(rule: &str, value: &str, assertions: &[&str]) {
    for assertion in assertions {
        let result = matches(rule, value.as_bytes(), assertion.as_bytes());
        assert_eq!(result, Some(false), "{rule}: {value:?} and {assertion:?}");
    }
}

#[track_caller]
fn check_invalid(name: &str, values: &[&str]) {
    for value in values {
        let invalid = key(rule(name).prepare, value.as_bytes());
        assert_eq!(invalid, None, "{name}: {value:?}");
    }
}

/// Checks that the values are in rising order.
#[track_caller]
fn check_rising(name: &str, values: &[&str]) {
    let keys: Vec<_> =
        values.iter().map(|value| key(rule(name).prepare, value.as_bytes()).unwrap()).collect();
    for (position, pair) in keys.windows(2).enumerate() {
        assert!(pair[0] < pair[1], "{name}: {:?} < {:?}", values[position], values[position + 1]);
    }
}

#[test]
fn oids_and_names_are_unique() {
    for (position, one) in MATCHING_RULES.iter().enumerate() {
        for other in &MATCHING_RULES[position + 1..] {
            assert_ne!(one.oid, other.oid);
            assert!(!one.name.eq_ignore_ascii_case(other.name), "{one:?}");
        }
        assert_eq!(MatchingRule::find(one.oid), Some(one));
        assert_eq!(MatchingRule::find(&one.name.to_uppercase()), Some(one));
    }
    assert_eq!(MatchingRule::find("noSuchMatch"), None);
}

#[test]
fn rules_name_syntaxes_of_the_table() {
    for rule in MATCHING_RULES {
        assert!(Syntax::find(rule.syntax).is_some(), "{rule:?}");
        for syntax in rule.applies_to {
            assert!(Syntax::find(syntax).is_some(), "{rule:?} {syntax}");
        }
        assert_eq!(rule.prepare_piece.is_some(), rule.kind == RuleKind::Substring, "{rule:?}");
    }
}

#[test]
fn the_rules_of_rfc_4517_are_all_here() {
    for name in [
        "bitStringMatch",
        "booleanMatch",
        "caseExactIA5Match",
        "caseExactMatch",
        "caseExactOrderingMatch",
        "caseExactSubstringsMatch",
        "caseIgnoreIA5Match",
        "caseIgnoreIA5SubstringsMatch",
        "caseIgnoreListMatch",
        "caseIgnoreListSubstringsMatch",
        "caseIgnoreMatch",
        "caseIgnoreOrderingMatch",
        "caseIgnoreSubstringsMatch",
        "directoryStringFirstComponentMatch",
        "distinguishedNameMatch",
        "generalizedTimeMatch",
        "generalizedTimeOrderingMatch",
        "integerFirstComponentMatch",
        "integerMatch",
        "integerOrderingMatch",
        "keywordMatch",
        "numericStringMatch",
        "numericStringOrderingMatch",
        "numericStringSubstringsMatch",
        "objectIdentifierFirstComponentMatch",
        "objectIdentifierMatch",
        "octetStringMatch",
        "octetStringOrderingMatch",
        "telephoneNumberMatch",
        "telephoneNumberSubstringsMatch",
        "uniqueMemberMatch",
        "wordMatch",
    ] {
        rule(name);
    }
}

#[test]
fn case_and_extra_spaces_do_not_count_in_case_ignore_match() {
    check_equal(
        "caseIgnoreMatch",
        "Babs Jensen",
        &["babs jensen", " BABS   JENSEN ", "Babs\u{A0}Jensen"],
    );
    check_unequal("caseIgnoreMatch", "Babs Jensen", &["BabsJensen", "Babs", " ", "babs jensen."]);
    check_equal("caseIgnoreMatch", "Stra\u{DF}e", &["STRASSE", "strasse", "stra\u{AD}\u{DF}e"]);
    check_equal("caseIgnoreMatch", " ", &[" ", "\u{AD}"]);
    check_invalid("caseIgnoreMatch", &["\u{E000}"]);
}

#[test]
fn case_counts_in_case_exact_match() {
    check_equal("caseExactMatch", "Babs Jensen", &["Babs Jensen", " Babs   Jensen "]);
    check_unequal("caseExactMatch", "Babs Jensen", &["babs jensen", "BabsJensen"]);
}

#[test]
fn ia5_rules_refuse_other_characters() {
    check_equal("caseIgnoreIA5Match", "a@Example.COM", &["A@example.com", " a@example.com "]);
    check_unequal("caseExactIA5Match", "a@Example.COM", &["a@example.com"]);
    check_equal("caseExactIA5Match", "/home/Anna", &["/home/Anna"]);
    check_invalid("caseIgnoreIA5Match", &["gr\u{FC}n"]);
    check_invalid("caseExactIA5Match", &["gr\u{FC}n"]);
}

#[test]
fn strings_are_ordered_by_code_point() {
    check_rising(
        "caseIgnoreOrderingMatch",
        &["", "a", "A B", "a!", "aa", "B", "\u{FC}", "\u{1F600}"],
    );
    check_rising("caseExactOrderingMatch", &["A", "B", "a", "b"]);
}

#[test]
fn numeric_strings_are_compared_without_spaces() {
    check_equal("numericStringMatch", "123 456", &["123456", " 1 2 3 4 5 6 "]);
    check_unequal("numericStringMatch", "123", &["0123", "12"]);
    check_rising("numericStringOrderingMatch", &["1", "1 0", "2", "9", "9 1"]);
}

#[test]
fn telephone_numbers_are_compared_without_spaces_and_hyphens() {
    check_equal("telephoneNumberMatch", "+1 555-0100", &["+15550100", "+1-555 0 1 0 0"]);
    check_unequal("telephoneNumberMatch", "+1 555-0100", &["15550100", "+1 555 0101"]);
}

#[test]
fn lists_match_line_by_line() {
    let address = "1234 Main St.$Anytown, CA 12345$USA";
    check_equal("caseIgnoreListMatch", address, &["1234  main st.$anytown, ca 12345 $ usa"]);
    check_unequal(
        "caseIgnoreListMatch",
        address,
        &["1234 Main St.$Anytown, CA 12345", "1234 Main St. Anytown, CA 12345$USA", "$"],
    );
    check_equal(
        "caseIgnoreListMatch",
        "\\241,000,000 Sweepstakes$PO \\5Cx",
        &["\\241,000,000 sweepstakes$po \\5cX"],
    );
    check_unequal("caseIgnoreListMatch", "a\\24b", &["a$b"]);
    check_invalid("caseIgnoreListMatch", &["a\\", "a\\2", "a\\41", "\\"]);
}

#[test]
fn booleans_are_upper_case() {
    check_equal("booleanMatch", "TRUE", &["TRUE"]);
    check_unequal("booleanMatch", "TRUE", &["FALSE"]);
    check_invalid("booleanMatch", &["true", "1", "", "TRUE "]);
}

#[test]
fn integers_of_any_size_are_compared() {
    check_equal("integerMatch", "42", &["42"]);
    check_unequal("integerMatch", "42", &["-42", "43", "420", "4"]);
    let huge = "9".repeat(INTEGER_DIGITS_MAX);
    check_equal("integerMatch", &huge, &[&huge]);
    check_unequal("integerMatch", &huge, &[&huge[1..]]);
    check_invalid(
        "integerMatch",
        &["", "-", "-0", "01", "+1", "1.0", " 1", "1 ", "0x1", "a", "--1"],
    );
    check_invalid("integerMatch", &[&"1".repeat(INTEGER_DIGITS_MAX + 1)]);
}

#[test]
fn integers_are_ordered_by_number() {
    let (long, longer) = ("1".repeat(101), "1".repeat(300));
    let (minus_long, minus_longer) = (format!("-{long}"), format!("-{longer}"));
    check_rising(
        "integerOrderingMatch",
        &[
            &minus_longer,
            &minus_long,
            "-9223372036854775808",
            "-256",
            "-10",
            "-9",
            "-1",
            "0",
            "1",
            "2",
            "9",
            "10",
            "99",
            "100",
            "18446744073709551616",
            &"9".repeat(100),
            &long,
            &longer,
        ],
    );
}

#[test]
fn bits_of_integers_are_tested() {
    check_equal("integerBitAndMatch", "7", &["0", "1", "3", "7"]);
    check_unequal("integerBitAndMatch", "5", &["2", "7", "8"]);
    check_equal("integerBitOrMatch", "5", &["1", "4", "6", "7"]);
    check_unequal("integerBitOrMatch", "5", &["0", "2", "8"]);
    check_equal("integerBitAndMatch", "-1", &["9223372036854775807", "-1"]);
    check_invalid("integerBitAndMatch", &["x", "", &"1".repeat(INTEGER_DIGITS_MAX + 1)]);
}

// Stored integers beyond 64 bits were left out, whatever bits they have.
#[test]
fn integers_of_any_size_have_bits() {
    let (and, or) = ("integerBitAndMatch", "integerBitOrMatch");
    // 2 to the power of 64, and 1 more.
    check_equal(and, "18446744073709551617", &["1", "0", "18446744073709551616"]);
    check_unequal(and, "18446744073709551617", &["2", "-1", "36893488147419103232"]);
    check_equal(or, "18446744073709551617", &["3", "-1", "18446744073709551618"]);
    check_unequal(or, "18446744073709551617", &["2", "0", "9223372036854775808"]);
    // A negative number has all bits above its own.
    check_equal(and, "-1", &["9223372036854775808", "18446744073709551616"]);
    check_equal(and, "-18446744073709551617", &["-18446744073709551617", "18446744073709551615"]);
    check_unequal(and, "-18446744073709551617", &["18446744073709551616", "-1"]);
    check_equal(or, "-18446744073709551616", &["18446744073709551616", "-1"]);
    check_unequal(or, "-18446744073709551616", &["18446744073709551615"]);
    check_equal(and, "-9223372036854775809", &["9223372036854775807"]);
    check_unequal(and, "-9223372036854775809", &["9223372036854775808"]);
    let huge = "9".repeat(INTEGER_DIGITS_MAX);
    check_equal(and, &huge, &[&huge, "1"]);
    check_unequal(and, &huge, &[&format!("-{huge}"), "-1"]);
}

// An assertion that is not of the syntax was compared all the same: its negation matched all.
#[test]
fn an_assertion_is_of_the_syntax_of_its_rule() {
    let refused = |name: &str, assertions: &[&str]| {
        for assertion in assertions {
            let key = assertion_key(rule(name), assertion.as_bytes());
            assert_eq!(key, None, "{name}: {assertion:?}");
        }
    };
    for name in [
        "caseIgnoreMatch",
        "caseExactMatch",
        "caseIgnoreOrderingMatch",
        "caseExactOrderingMatch",
        "caseIgnoreListMatch",
        "directoryStringFirstComponentMatch",
        "directoryStringApproxMatch",
        "wordMatch",
        "keywordMatch",
    ] {
        refused(name, &[""]);
        assert_eq!(assertion_key(rule(name), b"\xFF"), None, "{name}");
        assert!(assertion_key(rule(name), b"a").is_some(), "{name}");
    }
    for name in ["numericStringMatch", "numericStringOrderingMatch"] {
        refused(name, &["", "1a", "1-2", "\u{661}", "\u{FF11}"]);
        check_equal(name, "12", &["1 2", " 12"]);
    }
    refused("telephoneNumberMatch", &["", "gr\u{FC}n", "1\u{2010}2", "1@2"]);
    check_equal("telephoneNumberMatch", "+1 55#2", &["+155#2", "+1-55#2"]);
    for name in ["distinguishedNameMatch", "distinguishedNameInChainMatch", "uniqueMemberMatch"] {
        refused(name, &[" ", "   ", "x"]);
        check_equal(name, "", &[""]);
    }
    refused("uniqueMemberMatch", &["  #'1'B"]);
    for name in
        ["certificatePairExactMatch", "certificateListExactMatch", "algorithmIdentifierMatch"]
    {
        refused(name, &["", "x", "{ a }"]);
        check_equal(name, "0\0", &["0\0"]);
    }
    // IA5 strings and octets may be empty.
    for name in ["caseIgnoreIA5Match", "caseExactIA5Match", "octetStringMatch"] {
        check_equal(name, "", &[""]);
    }
}

// RFC 4511 §4.5.1.7.2: they are of the syntax that assertions of equality have.
#[test]
fn pieces_are_made_of_what_values_are() {
    let piece = |name: &str, piece: &str| {
        let prepare = rule(name).prepare_piece.unwrap();
        prepare(Position::Any, piece.as_bytes(), &mut Vec::new()).is_ok()
    };
    for (name, wrong, right) in [
        ("numericStringSubstringsMatch", "1a", "1 "),
        ("telephoneNumberSubstringsMatch", "gr\u{FC}n", "-#1"),
        ("caseIgnoreIA5SubstringsMatch", "gr\u{FC}n", "gr"),
        ("caseExactIA5SubstringsMatch", "gr\u{FC}n", "gr"),
    ] {
        assert!(!piece(name, wrong), "{name}");
        assert!(piece(name, right), "{name}");
    }
}

#[test]
fn bit_strings_match_bit_by_bit() {
    check_equal("bitStringMatch", "'0101'B", &["'0101'B"]);
    check_unequal("bitStringMatch", "'0101'B", &["'01010'B", "''B", "'1010'B"]);
    check_invalid("bitStringMatch", &["0101", "'012'B", "'01'b", "'01", ""]);
}

#[test]
fn octet_strings_are_compared_as_they_are() {
    check_equal("octetStringMatch", "a B", &["a B"]);
    check_unequal("octetStringMatch", "a B", &["a  B", "a b", ""]);
    assert_eq!(matches("octetStringMatch", b"\xFF\0", b"\xFF\0"), Some(true));
    check_rising("octetStringOrderingMatch", &["", "\0", "a", "a\0", "b"]);
}

#[test]
fn object_identifiers_match_by_name_or_number() {
    check_equal("objectIdentifierMatch", "person", &["person", "PERSON", "2.5.6.6"]);
    check_equal("objectIdentifierMatch", "2.5.4.3", &["cn", "commonName", "2.5.4.3"]);
    check_equal("objectIdentifierMatch", "1.2.3.4", &["1.2.3.4"]);
    check_unequal("objectIdentifierMatch", "person", &["top", "2.5.6.7", "1.2.3.4"]);
    check_invalid("objectIdentifierMatch", &["noSuchElement", "", "2..5", "1.2.3.", "person "]);
}

#[test]
fn distinguished_names_match_whatever_their_spelling() {
    let name = "uid=Anna,ou=People,dc=example,dc=org";
    check_equal(
        "distinguishedNameMatch",
        name,
        &[
            "UID=anna, OU=people, DC=example, DC=org",
            "0.9.2342.19200300.100.1.1=anna,ou=  people  ,dc=example,dc=org",
            "userid=\\61nna,organizationalUnitName=people,dc=example,dc=org",
        ],
    );
    check_unequal(
        "distinguishedNameMatch",
        name,
        &[
            "uid=Anna,dc=example,dc=org",
            "ou=People,uid=Anna,dc=example,dc=org",
            "",
            "cn=Anna,ou=People,dc=example,dc=org",
        ],
    );
    check_equal("distinguishedNameMatch", "cn=a+sn=b,dc=x", &["sn=B+cn=A,dc=x"]);
    check_invalid("distinguishedNameMatch", &["x", "cn", "cn=a,", "cn=a;dc=b", "=a"]);
}

#[test]
fn unique_members_match_by_name_and_bits() {
    check_equal("uniqueMemberMatch", "cn=a,dc=x#'0101'B", &["CN=A,DC=X#'0101'B"]);
    check_equal("uniqueMemberMatch", "cn=a,dc=x", &["cn=A, dc=x"]);
    check_unequal(
        "uniqueMemberMatch",
        "cn=a,dc=x#'0101'B",
        &["cn=a,dc=x", "cn=a,dc=x#'01'B", "cn=a,dc=x#''B"],
    );
    check_equal("uniqueMemberMatch", "cn=a#b,dc=x", &["cn=A#B,dc=x"]);
    check_invalid("uniqueMemberMatch", &["cn", "#'0'B cn"]);
}

#[test]
fn times_are_compared_in_utc() {
    check_equal(
        "generalizedTimeMatch",
        "19941216103200Z",
        &[
            "199412161032Z",
            "199412160532-0500",
            "199412161132+01",
            "19941216103200.0Z",
            "19941216103200,000Z",
            "1994121610.533333333333333333Z",
        ][..5],
    );
    check_equal(
        "generalizedTimeMatch",
        "2026010100Z",
        &["20251231233000-0030", "20260101010000+0100"],
    );
    check_equal("generalizedTimeMatch", "2026010112.5Z", &["20260101123000Z", "202601011230Z"]);
    check_equal("generalizedTimeMatch", "202601011230.25Z", &["20260101123015Z"]);
    check_equal("generalizedTimeMatch", "20240229000000+0001", &["20240228235900Z"]);
    check_equal("generalizedTimeMatch", "20000301000000+0001", &["20000229235900Z"]);
    check_equal("generalizedTimeMatch", "19000301000000+0001", &["19000228235900Z"]);
    check_equal("generalizedTimeMatch", "20161231235960Z", &["20170101005960+0100"]);
    check_unequal(
        "generalizedTimeMatch",
        "20260101000000Z",
        &["20260101000000.000001Z", "20260101000001Z"],
    );
}

#[test]
fn times_that_are_none_are_refused() {
    check_invalid(
        "generalizedTimeMatch",
        &[
            "",
            "2026",
            "20260101",
            "20260101000000",
            "20261301000000Z",
            "20260001000000Z",
            "20260100000000Z",
            "20260230000000Z",
            "20230229000000Z",
            "19000229000000Z",
            "20260131240000Z",
            "20260131236000Z",
            "20260131235961Z",
            "20260131235959.Z",
            "20260131235959z",
            "20260131235959+",
            "20260131235959+1",
            "20260131235959+010",
            "20260131235959+2400",
            "20260131235959+0060",
            "20260131235959ZZ",
            "2026013123595Z",
            "00000101000000+0100",
            "99991231235959-0001",
            "20260131235959.1234567890123456789Z",
            "2026-01-31T23:59:59Z",
        ],
    );
}

#[test]
fn times_are_ordered_by_time() {
    check_rising(
        "generalizedTimeOrderingMatch",
        &[
            "00000101000000Z",
            "19700101000000Z",
            "20260101000000+0001",
            "20260101000000Z",
            "20260101000000.000000000000000001Z",
            "20260101000000.05Z",
            "20260101000000.5Z",
            "20260101000000.51Z",
            "20260101000001Z",
            "20260101000000-0001",
            "99991231235959Z",
        ],
    );
}

#[test]
fn first_components_are_compared() {
    let definition = "( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )";
    check_equal(
        "objectIdentifierFirstComponentMatch",
        definition,
        &["2.5.4.3", "cn", "commonname"],
    );
    check_unequal("objectIdentifierFirstComponentMatch", definition, &["2.5.4.4", "sn"]);
    check_equal("integerFirstComponentMatch", "( 2 FORM x )", &["2"]);
    check_equal("integerFirstComponentMatch", "(2)", &["2"]);
    check_unequal("integerFirstComponentMatch", "( 2 FORM x )", &["1"]);
    check_equal("directoryStringFirstComponentMatch", "( Foo bar )", &["foo"]);
    check_equal("directoryStringFirstComponentMatch", "( 'Foo bar' x )", &["foo  BAR"]);
    check_invalid("objectIdentifierFirstComponentMatch", &["", "2.5.4.3", "(", "( )"]);
    check_invalid("integerFirstComponentMatch", &["( x )", "2"]);
}

#[test]
fn words_are_found_in_texts() {
    for rule in ["wordMatch", "keywordMatch"] {
        check_equal(rule, "The quick, brown fox", &["quick", "FOX", "the"]);
        check_unequal(rule, "The quick, brown fox", &["qui", "rown", "dog"]);
    }
    assert_eq!(matches("wordMatch", b"a b", b"a b"), None);
    assert_eq!(matches("wordMatch", b"a b", b""), None);
}

#[test]
fn uuids_match_in_any_case() {
    let uuid = "597ae2f6-16a6-1027-98f4-d28b5365dc14";
    check_equal("UUIDMatch", uuid, &[uuid, "597AE2F6-16A6-1027-98F4-D28B5365DC14"]);
    check_unequal("UUIDMatch", uuid, &["597ae2f6-16a6-1027-98f4-d28b5365dc15"]);
    check_invalid(
        "UUIDMatch",
        &[
            "",
            "597ae2f616a6102798f4d28b5365dc14",
            "597ae2f6-16a6-1027-98f4-d28b5365dc1",
            "597ae2f6-16a6-1027-98f4-d28b5365dc1g",
            "597ae2f6-16a6-1027-98f4+d28b5365dc14",
            "597ae2f61-6a6-1027-98f4-d28b5365dc14",
        ],
    );
    check_rising(
        "UUIDOrderingMatch",
        &["00000000-0000-0000-0000-000000000000", uuid, "A0000000-0000-0000-0000-000000000000"],
    );
}

#[test]
fn csns_are_ordered_by_time_then_count() {
    let csn = "20070125062245.123456Z#000000#00a#000000";
    check_equal("CSNMatch", csn, &["20070125062245.123456Z#000000#00A#000000"]);
    check_rising(
        "CSNOrderingMatch",
        &[
            "20070125062245.123456Z#000000#001#000000",
            csn,
            "20070125062245.123456Z#000001#001#000000",
            "20070125062246.000000Z#000000#000#000000",
        ],
    );
    check_invalid(
        "CSNMatch",
        &["", "20070125062245Z#000000#00#000000", "20070125062245.123456Z#000000#00g#000000"],
    );
}

#[test]
fn auth_passwords_match_part_by_part() {
    check_equal("authPasswordExactMatch", "SHA1 $ salt $ aGFzaA==", &["SHA1$salt$aGFzaA=="]);
    check_unequal(
        "authPasswordExactMatch",
        "SHA1$salt$aGFzaA==",
        &["MD5$salt$aGFzaA==", "SHA1$Salt$aGFzaA=="],
    );
    check_invalid(
        "authPasswordExactMatch",
        &["", "SHA1", "SHA1$salt", "sha1$a$b", "$a$b", "A$b$c$d"],
    );
}

#[test]
fn approximate_matches_find_words_that_sound_alike_in_order() {
    let name = "directoryStringApproxMatch";
    check_equal(name, "John Paul Smith", &["jon smyth", "paul", "John Paul Smith", "jon"]);
    check_unequal(name, "John Paul Smith", &["smith john", "mary", "john smith smith"]);
}

/// A certificate with serial number 0x00F1 and issuer `o=Example,cn=Test CA` (root first), cut
/// after what identifies it.
const CERTIFICATE: &[u8] = &[
    0x30, 0x36, // Certificate
    0x30, 0x34, // TBSCertificate
    0xA0, 0x03, 0x02, 0x01, 0x02, // version 3
    0x02, 0x02, 0x00, 0xF1, // serial number
    0x30, 0x03, 0x06, 0x01, 0x2A, // algorithm
    0x30, 0x24, // issuer
    0x31, 0x10, 0x30, 0x0E, 0x06, 0x03, 0x55, 0x04, 0x0A, 0x0C, 0x07, b'E', b'x', b'a', b'm', b'p',
    b'l', b'e', // o
    0x31, 0x10, 0x30, 0x0E, 0x06, 0x03, 0x55, 0x04, 0x03, 0x13, 0x07, b'T', b'e', b's', b't', b' ',
    b'C', b'A', // cn
];

#[test]
fn certificates_match_by_serial_number_and_issuer() {
    let is_match = |assertion: &[u8]| matches("certificateExactMatch", CERTIFICATE, assertion);
    assert_eq!(is_match(CERTIFICATE), Some(true));
    for assertion in [
        "{ serialNumber 241, issuer rdnSequence:\"cn=test ca,o=example\" }",
        "{serialNumber 241,issuer rdnSequence:\"CN=Test  CA,O=Example\"}",
        "{ issuer \"cn=test ca,o=example\", serialNumber 241 }",
        "241$cn=Test CA,o=Example",
    ] {
        assert_eq!(is_match(assertion.as_bytes()), Some(true), "{assertion}");
    }
    for assertion in [
        "{ serialNumber 242, issuer rdnSequence:\"cn=test ca,o=example\" }",
        "{ serialNumber -15, issuer rdnSequence:\"cn=test ca,o=example\" }",
        "241$cn=Test CA",
        "241$cn=Test \"\"CA\"\",o=Example",
    ] {
        assert_ne!(is_match(assertion.as_bytes()), Some(true), "{assertion}");
    }
    for assertion in [
        "",
        "241",
        "{ }",
        "{ serialNumber 1 }",
        "x$cn=a",
        "{ serialNumber 1, issuer cn=a }",
        "1$nonsense",
        "{ other 1 }",
        "{ issuer \"cn=a }",
    ] {
        assert_eq!(is_match(assertion.as_bytes()), None, "{assertion}");
    }
}

#[test]
fn unreadable_certificates_match_octet_by_octet() {
    let cut = &CERTIFICATE[..20];
    assert_eq!(matches("certificateExactMatch", cut, cut), Some(true));
    assert_eq!(matches("certificateExactMatch", cut, CERTIFICATE), Some(false));
    let broken: Vec<u8> = [&[0x30, 0x02, 0x30, 0x00][..]].concat();
    assert_eq!(matches("certificateExactMatch", &broken, &broken), Some(true));
    assert_eq!(matches("certificateExactMatch", CERTIFICATE, &broken), Some(false));
}

#[test]
fn serial_numbers_are_minimal_integers() {
    for (decimal, expected) in [
        ("0", &[0x00][..]),
        ("127", &[0x7F]),
        ("128", &[0x00, 0x80]),
        ("256", &[0x01, 0x00]),
        ("-1", &[0xFF]),
        ("-128", &[0x80]),
        ("-129", &[0xFF, 0x7F]),
    ] {
        let mut assertion = format!("{decimal}$").into_bytes();
        assertion.extend_from_slice(b"cn=a");
        let key = assertion_key(rule("certificateExactMatch"), &assertion).unwrap();
        assert!(key.ends_with(&[&[1], expected].concat()), "{decimal}: {key:?}");
    }
    let too_long = format!("{}$cn=a", "9".repeat(200));
    assert_eq!(matches("certificateExactMatch", CERTIFICATE, too_long.as_bytes()), None);
}

/// Number of seconds since 0000-01-01, by counting days one by one.
fn naive_seconds(year: i64, month: i64, day: i64, second_of_day: i64) -> i64 {
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days_before: i64 = (0..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let in_year: i64 = lengths[..usize::try_from(month).unwrap() - 1].iter().sum();
    (days_before + in_year + day - 1) * 86_400 + second_of_day
}

fn any_time() -> impl Strategy<Value = (String, i64)> {
    let date = (1_i64..9999, 1_i64..=12, 1_i64..=28, 0_i64..86_400);
    (date, -1439_i64..=1439).prop_map(|((year, month, day, second), offset)| {
        let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
        let sign = if offset < 0 { '-' } else { '+' };
        let text = format!(
            "{year:04}{month:02}{day:02}{:02}{:02}{:02}{sign}{hours:02}{minutes:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        );
        (text, naive_seconds(year, month, day, second) - offset * 60)
    })
}

fn compare(name: &str, one: &[u8], other: &[u8]) -> Option<Ordering> {
    let rule = rule(name);
    Some(key(rule.prepare, one)?.cmp(&key(rule.prepare, other)?))
}

proptest! {
    #[test]
    fn integer_keys_are_ordered_as_the_numbers_are(one: i128, other: i128, shift in 0_u32..127) {
        let (one, other) = (one >> shift, other >> shift.min(100));
        let (texts, expected) = ((one.to_string(), other.to_string()), one.cmp(&other));
        let order = compare("integerOrderingMatch", texts.0.as_bytes(), texts.1.as_bytes());
        prop_assert_eq!(order, Some(expected));
    }

    #[test]
    fn time_keys_are_ordered_as_the_times_are(one in any_time(), other in any_time()) {
        let order = compare("generalizedTimeOrderingMatch", one.0.as_bytes(), other.0.as_bytes());
        prop_assert_eq!(order, Some(one.1.cmp(&other.1)));
    }

    #[test]
    fn near_times_are_ordered_too(
        one in 0_i64..86_400, other in 0_i64..86_400, offset in 0_i64..1440
    ) {
        let text = |second: i64| format!(
            "20240229{:02}{:02}{:02}-{:02}{:02}",
            second / 3600, second / 60 % 60, second % 60, offset / 60, offset % 60
        );
        let (left, right) = (text(one), text(other));
        let order = compare("generalizedTimeOrderingMatch", left.as_bytes(), right.as_bytes());
        prop_assert_eq!(order, Some(one.cmp(&other)));
    }

    #[test]
    fn preparing_is_total(value: Vec<u8>) {
        for rule in MATCHING_RULES {
            let _ = key(rule.prepare, &value);
            let _ = assertion_key(rule, &value);
            if let Some(prepare_piece) = rule.prepare_piece {
                for position in [Position::Initial, Position::Any, Position::Final] {
                    let _ = prepare_piece(position, &value, &mut Vec::new());
                }
            }
        }
    }

    #[test]
    fn what_the_syntax_refuses_is_no_assertion(
        value in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            "[ -~]{0,6}".prop_map(String::into_bytes),
            "[0-9 TFZ+#$*'B{}:\u{E9}-]{0,8}".prop_map(String::into_bytes),
            "( |cn=|,|#'01'B|a|\\\\|\\$){0,5}".prop_map(String::into_bytes),
        ]
    ) {
        // A certificate is itself an assertion, and its other forms are read to the end.
        let is_checked = |rule: &&MatchingRule| {
            rule.kind != RuleKind::Substring && rule.name != "certificateExactMatch"
        };
        for rule in MATCHING_RULES.iter().filter(is_checked) {
            let syntax = Syntax::find(rule.syntax).unwrap();
            if (syntax.check)(&schema(), &value).is_err() {
                prop_assert_eq!(assertion_key(rule, &value), None, "{:?}", rule);
            }
        }
    }

    #[test]
    fn the_bits_of_integers_are_those_of_numbers(one: i128, other: i128, shift in 0_u32..127) {
        let (one, other) = (one >> shift, other >> (126 - shift));
        let (left, right) = (one.to_string(), other.to_string());
        let holds = |name: &str| matches(name, left.as_bytes(), right.as_bytes());
        prop_assert_eq!(holds("integerBitAndMatch"), Some(one & other == other));
        prop_assert_eq!(holds("integerBitOrMatch"), Some(one & other != 0));
    }

    #[test]
    fn preparing_appends(value in "[ -~]{0,30}") {
        for rule in MATCHING_RULES {
            let Some(alone) = key(rule.prepare, value.as_bytes()) else { continue };
            let mut out = b"abc".to_vec();
            prop_assert!((rule.prepare)(&schema(), value.as_bytes(), &mut out).is_ok());
            prop_assert_eq!(&out[3..], &alone[..], "{:?}", rule);
        }
    }

    #[test]
    fn cut_and_changed_certificates_are_no_danger(
        cut in 0..CERTIFICATE.len(), at in 0..CERTIFICATE.len(), octet: u8
    ) {
        let mut bytes = CERTIFICATE.to_vec();
        bytes[at] = octet;
        prop_assert!(key(rule("certificateExactMatch").prepare, &bytes).is_some());
        prop_assert!(key(rule("certificateExactMatch").prepare, &bytes[..cut]).is_some());
    }
}

#[test]
fn in_chain_compares_names_and_tells_the_first_step_alone() {
    let rule = MatchingRule::find(IN_CHAIN_RULE).unwrap();
    assert_eq!((rule.kind, rule.compare), (RuleKind::Equality, Compare::Chain));
    let schema = Schema::builtin();
    let key = |name: &str| {
        let mut key = Vec::new();
        (rule.prepare)(&schema, name.as_bytes(), &mut key).map(|()| key)
    };
    assert!(rule.keys_match(&key("CN=a, DC=x").unwrap(), &key("cn=A,dc=x").unwrap()));
    assert!(!rule.keys_match(&key("cn=a,dc=x").unwrap(), &key("cn=b,dc=x").unwrap()));
    assert!(key("no name").is_err());
}
