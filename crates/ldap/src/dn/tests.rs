//! What is a DN, what is not, and why.

use proptest::prelude::*;

use super::*;

/// Parses `text` and compares with the assertions of each RDN, leaf first, as (type, value).
#[track_caller]
fn check(text: &str, expected: &[&[(&str, &[u8])]]) {
    let dn = Dn::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let got: Vec<Vec<(&str, &[u8])>> = dn
        .rdns()
        .iter()
        .map(|rdn| rdn.avas().iter().map(|a| (a.attribute.as_str(), &a.value[..])).collect())
        .collect();
    assert_eq!(got, expected, "{text:?}");
    assert_eq!(Dn::parse(&dn.to_string()), Ok(dn), "{text:?} displayed and parsed again");
}

/// Parses `cn=` and `text` and compares the value.
#[track_caller]
fn check_value(text: &str, expected: impl AsRef<[u8]>) {
    check(&format!("cn={text}"), &[&[("cn", expected.as_ref())]]);
    check(&format!("cn= {text},c=x"), &[&[("cn", expected.as_ref())], &[("c", b"x")]]);
    check(&format!("cn={text} +c=x"), &[&[("cn", expected.as_ref()), ("c", b"x")]]);
}

#[track_caller]
fn check_error(text: &str, offset: usize, reason: DnReason) {
    assert_eq!(Dn::parse(text), Err(DnError { offset, reason }), "{text:?}");
}

#[track_caller]
fn check_display(text: &str, expected: &str) {
    assert_eq!(Dn::parse(text).map(|dn| dn.to_string()).as_deref(), Ok(expected), "{text:?}");
}

#[test]
fn examples_of_rfc_4514() {
    check(
        "UID=jsmith,DC=example,DC=net",
        &[&[("UID", b"jsmith")], &[("DC", b"example")], &[("DC", b"net")]],
    );
    check(
        "OU=Sales+CN=J.  Smith,DC=example,DC=net",
        &[&[("OU", b"Sales"), ("CN", b"J.  Smith")], &[("DC", b"example")], &[("DC", b"net")]],
    );
    check(
        r#"CN=James \"Jim\" Smith\, III,DC=example,DC=net"#,
        &[&[("CN", br#"James "Jim" Smith, III"#)], &[("DC", b"example")], &[("DC", b"net")]],
    );
    check(
        r"CN=Before\0dAfter,DC=example,DC=net",
        &[&[("CN", b"Before\rAfter")], &[("DC", b"example")], &[("DC", b"net")]],
    );
    check("1.3.6.1.4.1.1466.0=#04024869", &[&[("1.3.6.1.4.1.1466.0", b"Hi")]]);
    check(r"CN=Lu\C4\8Di\C4\87", &[&[("CN", "Lučić".as_bytes())]]);
}

#[test]
fn the_root_has_no_rdns() {
    check("", &[]);
    check(" ", &[]);
    check("   ", &[]);
    assert!(Dn::root().is_root());
    assert_eq!(Dn::root().to_string(), "");
    assert_eq!(Dn::root().parent(), None);
}

#[test]
fn parent_and_child_are_inverse() {
    let dn = Dn::parse("cn=a+sn=b,ou=c,dc=d").unwrap();
    let parent = dn.parent().unwrap();
    assert_eq!(parent.to_string(), "ou=c,dc=d");
    assert_eq!(parent.child(dn.rdns()[0].clone()), dn);
    assert_eq!(Dn::root().child(Rdn::parse("dc=d").unwrap()).to_string(), "dc=d");
    assert_eq!(Dn::parse("dc=d").unwrap().parent(), Some(Dn::root()));
}

#[test]
fn spaces_around_separators_are_padding() {
    for text in [
        "cn=a,c=x",
        "cn=a, c=x",
        "cn=a ,c=x",
        "cn=a  ,  c=x",
        " cn=a,c=x",
        "cn=a,c=x ",
        "cn =a,c= x",
        "  cn  =  a  ,  c  =  x  ",
    ] {
        check(text, &[&[("cn", b"a")], &[("c", b"x")]]);
    }
    check("cn = a + sn = b", &[&[("cn", b"a"), ("sn", b"b")]]);
}

#[test]
fn values_may_be_empty() {
    check("cn=", &[&[("cn", b"")]]);
    check("cn=,c=", &[&[("cn", b"")], &[("c", b"")]]);
    check("cn=+c=", &[&[("cn", b""), ("c", b"")]]);
    check("cn= ", &[&[("cn", b"")]]);
    check("cn=#0400", &[&[("cn", b"")]]);
}

#[test]
fn plain_values_stand_as_they_are() {
    for value in [
        "a", "A b", "a  b", "a=b", "=", "==", "a#b", "a#", "'x'", "(x)", "*", "!", "$", "%", "&",
        "/", ":", "?", "@", "[x]", "^", "_", "`", "{x}", "|", "~", ".", "-", "ä", "Lučić", "日本",
        "🦀", "\t", "a\tb", "a\nb", "\u{7f}", "\u{85}", "\u{a0}", "\u{2028}", "1.2.3",
    ] {
        check_value(value, value);
    }
}

#[test]
fn special_characters_are_escaped_by_a_backslash() {
    for special in [' ', '"', '#', '+', ',', ';', '<', '=', '>', '\\'] {
        check_value(&format!("\\{special}"), special.to_string());
        check_value(&format!("a\\{special}"), format!("a{special}"));
        check_value(&format!("\\{special}b"), format!("{special}b"));
        check_value(&format!("a\\{special}b"), format!("a{special}b"));
        check_value(&format!("\\{special}\\{special}"), format!("{special}{special}"));
    }
}

#[test]
fn every_octet_may_be_escaped_in_hex() {
    for octet in 0..=255u8 {
        check_value(&format!("\\{octet:02x}"), [octet]);
        check_value(&format!("\\{octet:02X}"), [octet]);
        check_value(&format!("a\\{octet:02x}b"), [b'a', octet, b'b']);
        check_value(&format!("\\{octet:02x}\\{octet:02x}"), [octet, octet]);
    }
    check_value(r"\e4\F6", [0xE4, 0xF6]);
    check_value(r"\c3\a4", "ä");
    check_value(r"\c3x", [0xC3, b'x']);
    check_value(r"\5c", "\\");
    check_value(r"\5c2c", "\\2c");
    check_value(r"\\2c", "\\2c");
    check_value(r"\abc", [0xAB, b'c']);
}

#[test]
fn only_unescaped_spaces_at_the_ends_are_padding() {
    check_value(r"\ ", " ");
    check_value(r"\20", " ");
    check_value(r"\ \ ", "  ");
    check_value(r"\  x", "  x");
    check_value(r"x\ ", "x ");
    check_value(r"x \ ", "x  ");
    check_value(r"x\  ", "x ");
    check_value(r"\ x\ ", " x ");
    check_value(r"x \, ", "x ,");
    check_value(r"x\,  y ", "x,  y");
    check_value("x   ", "x");
    check_value(r"\20\20", "  ");
}

#[test]
fn hex_strings_are_unwrapped() {
    check_value("#04024869", "Hi");
    check_value("#0C024869", "Hi");
    check_value("#0c024869", "Hi");
    check_value("#12023132", "12");
    check_value("#13024869", "Hi");
    check_value("#16024869", "Hi");
    check_value("#1A024869", "Hi");
    check_value("#0401ff", [0xFF]);
    check_value("#0c02c3a4", "ä");
    check_value("#0481024869", "Hi");
    check_value("#048200024869", "Hi");
    check_value("#0400", "");
    let long = vec![b'x'; 200];
    let hex: String = long.iter().map(|octet| format!("{octet:02x}")).collect();
    check_value(&format!("#0481c8{hex}"), long);
}

#[test]
fn bad_hex_strings_are_refused() {
    for text in [
        "cn=#",
        "cn=#0",
        "cn=#04",
        "cn=#040",
        "cn=#0401",
        "cn=#040",
        "cn=#0402486",
        "cn=#040248",
        "cn=#0402486900",
        "cn=#04800000",
        "cn=#0484000000024869",
        "cn=#xx",
        "cn=#,c=x",
        "cn=#+c=x",
        "cn=# 0400",
        "cn=#04ff",
        "cn=#0480",
    ] {
        check_error(text, 3, DnReason::BadHexString);
    }
    check_error("cn=#04024869x", 12, DnReason::BadHexString);
    check_error("cn=#0402486 9", 3, DnReason::BadHexString);
    check_error("cn=#0400 x", 9, DnReason::BadHexString);
    check_error("cn=#0400\\20", 8, DnReason::BadHexString);
    check_error("cn=#0201ff", 3, DnReason::HexStringType { tag: 0x02 });
    check_error("cn=#1e020041", 3, DnReason::HexStringType { tag: 0x1E });
    check_error("cn=#3000", 3, DnReason::HexStringType { tag: 0x30 });
    check_error("c=x,cn=#24020400", 7, DnReason::HexStringType { tag: 0x24 });
}

#[test]
fn attribute_types_are_names_or_oids() {
    for name in ["cn", "CN", "x-y", "a1", "2.5.4.3", "0.9.2342.19200300.100.1.25", "1.0"] {
        check(&format!("{name}=v"), &[&[(name, b"v")]]);
    }
    for (text, offset) in [
        ("=v", 0),
        ("1=v", 0),
        ("1.=v", 0),
        ("1.02=v", 0),
        (".1=v", 0),
        ("-a=v", 0),
        ("c.n=v", 0),
        ("c_n=v", 1),
        ("cn;lang-de=v", 2),
        ("c n=v", 2),
        ("(cn=v", 0),
        ("\"cn\"=v", 0),
        ("\\63n=v", 0),
        ("gr\u{fc}n=v", 2),
        ("\u{fc}=v", 0),
        ("cn:=v", 2),
        ("cn=a,1=b", 5),
        ("cn=a+x y=b", 7),
        ("\tcn=a", 0),
    ] {
        check_error(text, offset, DnReason::BadAttributeType);
    }
    check_error("oid.2.5.4.3=v", 0, DnReason::OidPrefix);
    check_error("c=x, OID.2.5.4.3=v", 5, DnReason::OidPrefix);
}

#[test]
fn each_separator_needs_an_assertion_on_both_sides() {
    for (text, offset) in [
        (",", 0),
        (" ,", 1),
        ("+", 0),
        (",cn=a", 0),
        ("+cn=a", 0),
        ("cn=a,", 5),
        ("cn=a, ", 6),
        ("cn=a+", 5),
        ("cn=a,,c=x", 5),
        ("cn=a, ,c=x", 6),
        ("cn=a,+c=x", 5),
        ("cn=a+,c=x", 5),
        ("cn=a++c=x", 5),
    ] {
        check_error(text, offset, DnReason::MissingRdn);
    }
    for (text, offset) in
        [("cn", 2), ("cn ", 3), ("cn,c=x", 2), ("cn=a,c", 6), ("cn=a,c,d=e", 6), ("cn+sn=a", 2)]
    {
        check_error(text, offset, DnReason::MissingEquals);
    }
    // The comma was meant as part of the value.
    check_error("cn=Sue, Grabbit and Runn", 16, DnReason::BadAttributeType);
}

#[test]
fn unescaped_special_characters_are_refused() {
    check_error("cn=a<b", 4, DnReason::Unescaped('<'));
    check_error("cn=a>b", 4, DnReason::Unescaped('>'));
    check_error("cn=<GUID>", 3, DnReason::Unescaped('<'));
    check_error("cn=a\"b", 4, DnReason::Unescaped('"'));
    check_error("cn=a \"b\"", 5, DnReason::Unescaped('"'));
    check_error("cn=a;c=x", 4, DnReason::Semicolon);
    check_error("cn=;", 3, DnReason::Semicolon);
    check_error("cn=a\0b", 4, DnReason::Nul);
    check_error("c=x,cn=a\\,b\0", 11, DnReason::Nul);
}

/// ldapts and ldapjs write values with a space at an end in quotes, as RFC 2253 §4 had it, and were
/// refused.
#[test]
fn values_in_quotes_are_what_stands_between_them() {
    check_value("\"a\"", "a");
    check_value("\"a, b+c=d;<e>#\"", "a, b+c=d;<e>#");
    check_value("\" a  \"", " a  ");
    check_value("\"Zoë \\\"x\\\" \\\\ \\c3\\ab\" ", "Zoë \"x\" \\ ë");
    check_value("\"\"", "");
    check_value("\"#04\"", "#04");
    check_display("cn=\" a, b\" , c=x", "cn=\\ a\\, b,c=x");
}

#[test]
fn values_in_quotes_must_end_with_one() {
    for text in ["cn=\"", "cn=\"a", "cn=\"a,c=x", "cn=\"a\\\"", "cn=\"a\"b", "cn=\"a\" \"b\""] {
        check_error(text, 3, DnReason::QuotedValue);
    }
    check_error("cn=\"a\0\"", 5, DnReason::Nul);
    check_error("cn=\"a\\x\"", 5, DnReason::BadEscape);
    check_error("cn=a\"", 4, DnReason::Unescaped('"'));
}

#[test]
fn bad_escapes_are_refused() {
    check_error("cn=\\", 3, DnReason::BadEscape);
    check_error("cn=a\\", 4, DnReason::BadEscape);
    check_error("cn=\\x", 3, DnReason::BadEscape);
    check_error("cn=\\a", 3, DnReason::BadEscape);
    check_error("cn=\\ag", 3, DnReason::BadEscape);
    check_error("cn=\\ga", 3, DnReason::BadEscape);
    check_error("cn=\\a,c=x", 3, DnReason::BadEscape);
    check_error("cn=\\ä", 3, DnReason::BadEscape);
    check_error("cn=\\é0", 3, DnReason::BadEscape);
    check_error("cn=\\*", 3, DnReason::BadEscape);
    check_error("cn=\\(", 3, DnReason::BadEscape);
    check_error("cn=a\\2c\\2", 7, DnReason::BadEscape);
    check_error("cn=DOMAIN\\user", 9, DnReason::BadEscape);
}

#[test]
fn limits_hold() {
    let rdns = |count: usize| vec!["c=x"; count].join(",");
    assert_eq!(Dn::parse(&rdns(RDN_COUNT_MAX)).unwrap().rdns().len(), RDN_COUNT_MAX);
    let reason = DnReason::TooManyRdns { max: RDN_COUNT_MAX };
    check_error(&rdns(RDN_COUNT_MAX + 1), RDN_COUNT_MAX * 4, reason);

    let avas = |count: usize| vec!["c=x"; count].join("+");
    assert_eq!(Dn::parse(&avas(AVA_COUNT_MAX)).unwrap().rdns()[0].avas().len(), AVA_COUNT_MAX);
    let reason = DnReason::TooManyAvas { max: AVA_COUNT_MAX };
    check_error(&avas(AVA_COUNT_MAX + 1), AVA_COUNT_MAX * 4, reason);
    // The count starts again with each RDN.
    assert!(Dn::parse(&[avas(AVA_COUNT_MAX), avas(AVA_COUNT_MAX)].join(",")).is_ok());

    let value = |length: usize| format!("c={}", "x".repeat(length - 2));
    assert!(Dn::parse(&value(DN_LENGTH_MAX_BYTES)).is_ok());
    let reason = DnReason::TooLong { max: DN_LENGTH_MAX_BYTES };
    check_error(&value(DN_LENGTH_MAX_BYTES + 1), DN_LENGTH_MAX_BYTES, reason);
}

#[test]
fn callers_may_set_their_own_limits() {
    let limits = DnLimits { length_max_bytes: 7, rdn_count_max: 1, ava_count_max: 2 };
    let first_error = |text| parse_dn(text, limits).find_map(Result::err).map(|e| e.reason);
    assert_eq!(first_error("a=b+c=d"), None);
    assert_eq!(first_error("a=b+c=de"), Some(DnReason::TooLong { max: 7 }));
    assert_eq!(first_error("a=b,c=d"), Some(DnReason::TooManyRdns { max: 1 }));
    assert_eq!(first_error("a=+b=+c"), Some(DnReason::TooManyAvas { max: 2 }));
}

#[test]
fn an_rdn_is_one_rdn() {
    let rdn = Rdn::parse("cn=a + sn=b").unwrap();
    assert_eq!(rdn.avas().len(), 2);
    assert_eq!(rdn.to_string(), "cn=a+sn=b");
    let error = |text| Rdn::parse(text).unwrap_err();
    assert_eq!(error(""), DnError { offset: 0, reason: DnReason::MissingRdn });
    assert_eq!(error("cn"), DnError { offset: 2, reason: DnReason::MissingEquals });
    let reason = DnReason::TooManyRdns { max: 1 };
    assert_eq!(error("cn=a,c=x"), DnError { offset: 5, reason });
    assert_eq!(Rdn::new(Vec::new()), None);
}

#[test]
fn the_walk_borrows_values_without_escapes() {
    let avas: Vec<_> = parse_dn(r"cn=a b ,ou=c\,d", DnLimits::default())
        .map(|ava| ava.map(|ava| matches!(ava.value, Cow::Borrowed(_))))
        .collect();
    assert_eq!(avas, [Ok(true), Ok(false)]);
}

#[test]
fn the_walk_ends_after_an_error() {
    let mut walk = parse_dn("cn=a,,c=x", DnLimits::default());
    assert!(walk.next().is_some_and(|ava| ava.is_ok()));
    assert!(walk.next().is_some_and(|ava| ava.is_err()));
    assert_eq!(walk.next(), None);
    assert_eq!(walk.next(), None);
    let mut walk = parse_dn("cn=a", DnLimits { length_max_bytes: 3, ..DnLimits::default() });
    assert!(walk.next().is_some_and(|ava| ava.is_err()));
    assert_eq!(walk.next(), None);
}

#[test]
fn displayed_names_are_printable_and_minimal() {
    check_display(" cn = a , c = x ", "cn=a,c=x");
    check_display("CN=A+Sn=b,C=x", "CN=A+Sn=b,C=x");
    check_display(r"cn=a\2cb\3db", r"cn=a\,b=b");
    check_display(r"cn=\20a\20", r"cn=\ a\ ");
    check_display(r"cn=\20", r"cn=\ ");
    check_display(r"cn=\ \ \ ", r"cn=\  \ ");
    check_display(r"cn=\23a\23", r"cn=\#a#");
    check_display(r"cn=\00\0a\7f\ff", r"cn=\00\0a\7f\ff");
    check_display(r"cn=\c3\a4\c3", r"cn=ä\c3");
    check_display(r"cn=\ff\20", r"cn=\ff\ ");
    check_display(r"cn=\20\ff", r"cn=\ \ff");
    check_display("1.2.3=#04024869", "1.2.3=Hi");
}

#[test]
fn errors_say_what_and_where() {
    let message = |text| Dn::parse(text).unwrap_err().to_string();
    assert_eq!(message("cn=a<b"), r"'<' in a value must be written as '\<' (at byte 4)");
    assert_eq!(message("cn=a,"), "an RDN such as cn=name is missing (at byte 5)");
    assert_eq!(message("oid.1.2=x"), "write the OID without the prefix 'oid.' (at byte 0)");
    assert_eq!(
        message("cn=#0201ff"),
        "a value of BER type 0x02 has no string form here: write the value as text (at byte 3)"
    );
}

fn ava() -> impl Strategy<Value = Ava> {
    let attribute = prop_oneof!["[a-zA-Z][a-zA-Z0-9-]{0,5}", "[0-2](\\.(0|[1-9][0-9]{0,4})){1,4}"];
    let special =
        proptest::collection::vec(proptest::sample::select(b" #,+;<>=\"\\\0a".to_vec()), 0..6);
    let value =
        prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes), special];
    (attribute, value).prop_map(|(attribute, value)| Ava { attribute, value })
}

proptest! {
    #[test]
    fn displayed_names_parse_back(
        rdns in proptest::collection::vec(proptest::collection::vec(ava(), 1..4), 0..5)
    ) {
        let dn = Dn::new(rdns.into_iter().filter_map(Rdn::new).collect());
        let text = dn.to_string();
        prop_assert!(!text.contains(|c: char| c.is_ascii_control()));
        prop_assert_eq!(Dn::parse(&text), Ok(dn));
    }

    #[test]
    fn any_text_parses_to_a_stable_name_or_fails_inside_it(text in "[a-c1.=,+\\\\# \"<;é0]{0,24}") {
        match Dn::parse(&text) {
            Ok(dn) => prop_assert_eq!(Dn::parse(&dn.to_string()), Ok(dn)),
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }
}

#[test]
fn a_text_that_is_believed_is_as_it_would_be_written() {
    let parts =
        ["a", "=", ",", "+", " ", "\\", "#", "cn", ".", "@", "\u{e9}", "1.2", "_", "\0", "\""];
    let mut believed = 0;
    // Every text of up to five of these parts.
    for number in 0..parts.len().pow(5) {
        let text: String = (0..5)
            .map(|place| number / parts.len().pow(place) % parts.len())
            .map_while(|part| parts.get(part))
            .copied()
            .collect();
        let Ok(dn) = Dn::parse(&text) else { continue };
        believed += u32::from(is_as_written(&text));
        assert_eq!(DnText::of_entry(&text).unwrap().as_str(), dn.to_string(), "{text:?}");
    }
    assert!(believed > 1000, "{believed}");
}
