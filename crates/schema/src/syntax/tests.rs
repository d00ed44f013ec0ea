//! Every syntax of the table: what conforms and what does not.

use super::*;
use crate::schema::Schema;

#[track_caller]
fn syntax(name: &str) -> &'static Syntax {
    SYNTAXES.iter().find(|syntax| syntax.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn conforms(name: &str, value: &[u8]) -> bool {
    (syntax(name).check)(&Schema::builtin(), value).is_ok()
}

#[track_caller]
fn check(name: &str, valid: &[&str], invalid: &[&str]) {
    for value in valid {
        assert!(conforms(name, value.as_bytes()), "{name} has {value:?}");
    }
    for value in invalid {
        assert!(!conforms(name, value.as_bytes()), "{name} has no {value:?}");
    }
}

#[track_caller]
fn check_octets(name: &str, valid: &[&[u8]], invalid: &[&[u8]]) {
    for value in valid {
        assert!(conforms(name, value), "{name} has {value:?}");
    }
    for value in invalid {
        assert!(!conforms(name, value), "{name} has no {value:?}");
    }
}

#[test]
fn oids_and_names_are_unique() {
    for (position, one) in SYNTAXES.iter().enumerate() {
        for other in &SYNTAXES[position + 1..] {
            assert_ne!(one.oid, other.oid);
            assert_ne!(one.name, other.name);
        }
        assert_eq!(Syntax::find(one.oid), Some(one));
    }
    assert_eq!(Syntax::find("1.2.3"), None);
}

#[test]
fn the_syntaxes_of_rfc_4517_are_all_here() {
    for last in [
        3, 6, 7, 11, 12, 14, 15, 16, 17, 21, 22, 23, 24, 25, 26, 27, 28, 30, 31, 34, 35, 36, 37,
        38, 39, 40, 41, 44, 50, 51, 52, 53, 54, 58,
    ] {
        let oid = format!("1.3.6.1.4.1.1466.115.121.1.{last}");
        assert!(Syntax::find(&oid).is_some(), "{oid}");
    }
}

#[test]
fn checking_is_total() {
    let long = vec![b'('; 100_000];
    let braces = vec![b'{'; 100_000];
    for syntax in SYNTAXES {
        for value in [&b""[..], b"\0", b"\xFF\xFE", b"(", b"{", b"'", b"#", b"$", &long, &braces] {
            let _ = (syntax.check)(&Schema::builtin(), value);
        }
    }
}

#[test]
fn directory_strings_are_filled_utf_8() {
    for name in ["Directory String", "ACI Item"] {
        check(name, &["a", " ", "gr\u{FC}n", "\u{1F600}", "a\nb"], &[""]);
        check_octets(name, &[], &[b"\xFF", b"a\xC3", b"\xED\xA0\x80"]);
    }
}

#[test]
fn ia5_strings_are_ascii() {
    check("IA5 String", &["", "a", "a@b", "\x7F"], &["gr\u{FC}n"]);
}

#[test]
fn printable_strings_have_few_characters() {
    check("Printable String", &["a", "A-Z 0", "'()+,-./:?="], &["", "a*b", "a@b", "a_b", "\u{FC}"]);
}

#[test]
fn countries_have_two_letters() {
    check("Country String", &["DE", "us"], &["", "D", "DEU", "D*", "\u{FC}"]);
}

#[test]
fn numeric_strings_are_digits_and_spaces() {
    check("Numeric String", &["0", "15 079 672 281", " "], &["", "1a", "-1", "1.0"]);
}

#[test]
fn telephone_numbers_are_printable() {
    check(
        "Telephone Number",
        &["+1 512 315 0280", "+1-512-315-0280", "x123", "#1*"],
        &["", "\u{FC}"],
    );
}

#[test]
fn fax_numbers_may_have_parameters() {
    check(
        "Facsimile Telephone Number",
        &["+61 3 9896 7801", "+81 3 347 7418$fineResolution", "1$b4Width$a3Width"],
        &["", "$fineResolution", "1$", "1$other", "1$fineResolution$"],
    );
}

#[test]
fn integers_have_no_leading_zeros() {
    check(
        "INTEGER",
        &["0", "1321", "-7", "123456789012345678901234567890"],
        &["", "-", "01", "-0", "1.5", "1 ", "a"],
    );
}

#[test]
fn booleans_are_true_or_false() {
    check("Boolean", &["TRUE", "FALSE"], &["", "true", "0", "TRUE "]);
}

#[test]
fn bit_strings_are_quoted() {
    check("Bit String", &["'0101111101'B", "''B"], &["", "0101", "'2'B", "'01'H", "'01'b"]);
}

#[test]
fn generalized_times_have_a_zone() {
    check(
        "Generalized Time",
        &["199412161032Z", "199412160532-0500", "2026010100Z", "20260101000000.5Z"],
        &["", "199412161032", "1994", "19941316103200Z", "today"],
    );
}

#[test]
fn utc_times_have_two_digits_of_the_year() {
    check(
        "UTC Time",
        &["9412161032Z", "941216103200Z", "9412160532-0500", "9412161032", "0002291032Z"],
        &["", "9413161032Z", "941216103260Z", "9412161032-05", "9412161032z", "19941216103200Z"],
    );
}

#[test]
fn object_identifiers_are_names_or_numbers() {
    check("OID", &["1.2.3.4", "cn", "2.5.4.3", "a-b"], &["", "1.", "1..2", "cn;x", "a b", "1.02"]);
}

#[test]
fn names_parse() {
    check(
        "DN",
        &[
            "",
            "UID=jsmith,DC=example,DC=net",
            "OU=Sales+CN=J.  Smith,DC=example",
            "CN=Lu\\C4\\8Di\\C4\\87",
        ],
        &["x", "cn=a,", "cn", ",", "cn=a;dc=b"],
    );
    check_octets("DN", &[], &[b"cn=\xFF"]);
    check(
        "Name And Optional UID",
        &["1.3.6.1.4.1.1466.0=#04024869,O=Test,C=GB#'0101'B", "cn=a", "cn=a#b", ""],
        &["cn", "cn#'01'B"],
    );
}

#[test]
fn postal_addresses_have_escaped_lines() {
    check(
        "Postal Address",
        &[
            "1234 Main St.$Anytown, CA 12345$USA",
            "\\241,000,000 Sweepstakes$PO Box 1000000$Anytown, CA 12345$USA",
            "a\\5cb",
            "$",
        ],
        &["", "a\\", "a\\b", "\\23"],
    );
}

#[test]
fn delivery_methods_are_a_list() {
    check(
        "Delivery Method",
        &["telephone", "telephone $ videotex", "any$mhs"],
        &["", "phone", "telephone $", "$", "telephone videotex"],
    );
}

#[test]
fn guides_have_criteria() {
    check(
        "Enhanced Guide",
        &[
            "person#(sn$EQ)#oneLevel",
            "person # (sn$EQ|!cn$SUBSTR)&uid$GE # wholeSubtree",
            "2.5.6.6#?true#baseobject",
            "person#!(?false)#subordinates",
        ],
        &[
            "",
            "person#(sn$EQ)",
            "person##oneLevel",
            "person#(sn$EQ#oneLevel",
            "person#sn#oneLevel",
            "person#sn$EQ#everywhere",
            "per son#sn$EQ#oneLevel",
            "person#()#oneLevel",
            "person#sn$EQ|#oneLevel",
            "person#sn$XX#oneLevel",
        ],
    );
    check(
        "Guide",
        &["sn$EQ", "person#sn$EQ|cn$LE", "person # (sn$APPROX)"],
        &["", "person#", "#sn$EQ", "sn", "sn$EQ)"],
    );
}

#[test]
fn parts_are_separated() {
    check("Other Mailbox", &["internet$a@b", "mhs$"], &["", "internet", "$a", "x$\u{FC}"]);
    check("Substring Assertion", &["a*", "*a", "a*b*c", "*a*"], &["", "a", "*", "a**b"]);
    check("Telex Number", &["1$de$x"], &["", "1$de", "1$de$x$y", "1$$x", "*$de$x"]);
    check(
        "Teletex Terminal Identifier",
        &["a", "a$graphic:x", "a$private:\0$page:"],
        &["", "$graphic:x", "a$other:x", "a$graphic"],
    );
    check(
        "RFC2307 Boot Parameter",
        &["root=fs:/nfs/root"],
        &["", "root", "root=fs", "=fs:/x", "root=:/x", "root=fs:"],
    );
    check(
        "RFC2307 NIS Netgroup Triple",
        &["(host,user,domain)", "(,,)", "(-,-,-)", "( host , user , domain )"],
        &["", "host,user,domain", "(host,user)", "(a,b,c,d)", "(a b,c,d)", "((a,b,c))"],
    );
    check(
        "authPassword",
        // The last as RFC 5803 §3 has it.
        &["SHA1$salt$aGFzaA==", "MD5 $ x $ y", "SCRAM-SHA-1$4096:c2FsdA==$a2V5:a2V5"],
        &["", "SHA1", "SHA1$a", "sha1$a$b", "SHA1$a$b c"],
    );
}

#[test]
fn subtree_specifications_have_parts_in_order() {
    check(
        "Subtree Specification",
        &[
            "{}",
            "{ }",
            "{ base \"ou=people\" }",
            "{base \"ou=people\", minimum 1, maximum 3}",
            "{ specificExclusions { chopBefore:\"ou=a\", chopAfter:\"ou=b, c\" } }",
            "{ base \"a}b\", specificationFilter and:{ item:1.2.3, not:item:1.2.4 } }",
        ],
        &[
            "",
            "{",
            "}",
            "{ base ou=people }",
            "{ minimum x }",
            "{ minimum 1, base \"ou=a\" }",
            "{ base \"a\", base \"b\" }",
            "{ other 1 }",
            "{ base \"a\", }",
            "{ base \"a }",
            "{ specificExclusions { }",
            "{ base }",
        ],
    );
}

#[test]
fn uuids_and_csns_have_a_fixed_form() {
    check(
        "UUID",
        &["597ae2f6-16a6-1027-98f4-d28b5365dc14"],
        &["", "597ae2f6", "597ae2f6-16a6-1027-98f4-d28b5365dc1x"],
    );
    check(
        "CSN",
        &["20070125062245.123456Z#000000#001#000000"],
        &["", "20070125062245Z#000000#00#000000"],
    );
}

#[test]
fn x_509_values_are_one_sequence() {
    for name in [
        "X.509 Certificate",
        "X.509 Certificate List",
        "X.509 Certificate Pair",
        "X.509 Supported Algorithm",
    ] {
        check_octets(
            name,
            &[b"\x30\x00", b"\x30\x02\x05\x00"],
            &[
                b"",
                b"\x30",
                b"\x30\x01",
                b"\x30\x00\x00",
                b"\x31\x00",
                b"\x30\x80\x00\x00",
                b"text",
            ],
        );
    }
    for syntax in SYNTAXES.iter().filter(|syntax| syntax.oid.starts_with("1.3.6.1.1.15.")) {
        check(syntax.name, &["{ serialNumber 1, issuer rdnSequence:\"\" }", "1$cn=a"], &["", "x"]);
    }
}

#[test]
fn some_syntaxes_take_any_octets() {
    for name in ["Octet String", "JPEG", "Fax", "Audio", "Binary"] {
        check_octets(name, &[b"", b"\0", b"\xFF\xFE", b"text"], &[]);
        assert!(!syntax(name).human_readable);
    }
}

#[test]
fn definitions_are_parsed() {
    check(
        "Attribute Type Description",
        &["( 1.2.3 NAME 'x' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"],
        &["", "1.2.3", "( NAME 'x' )", "( 1.2.3 NAME x", "( 1.2.3 FOO )"],
    );
    check(
        "Object Class Description",
        &["( 1.2.3 NAME 'x' SUP top STRUCTURAL MUST cn )"],
        &["", "( x"],
    );
    check("LDAP Syntax Description", &["( 1.2.3 DESC 'x' )"], &["", "( 1.2.3 DESC x )"]);
    check("Matching Rule Description", &["( 1.2.3 NAME 'x' SYNTAX 1.2.4 )"], &["", "( 1.2.3 )"]);
    check("Matching Rule Use Description", &["( 1.2.3 NAME 'x' APPLIES cn )"], &["", "( 1.2.3 )"]);
    check("Name Form Description", &["( 1.2.3 NAME 'x' OC person MUST cn )"], &["", "( 1.2.3 )"]);
    check("DIT Content Rule Description", &["( 2.5.6.6 NAME 'x' NOT cn )"], &["", "2.5.6.6"]);
    check("DIT Structure Rule Description", &["( 2 NAME 'x' FORM y )"], &["", "( x FORM y )"]);
}
