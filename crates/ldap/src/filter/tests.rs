//! What is a filter, what is not, and why.

use proptest::prelude::*;

use super::*;

/// Shows the structure of a filter, so that a test can see what was understood.
fn shape(filter: &Filter<'_>) -> String {
    let text = |value: &[u8]| value.escape_ascii().to_string();
    let ava = |name: &str, ava: &AvaFilter<'_>| {
        format!("{name} {} [{}]", ava.description, text(&ava.value))
    };
    let list = |name: &str, filters: &[Filter<'_>]| {
        format!("{name} {{{}}}", filters.iter().map(shape).collect::<Vec<_>>().join(", "))
    };
    match filter {
        Filter::And(filters) => list("and", filters),
        Filter::Or(filters) => list("or", filters),
        Filter::Not(filter) => format!("not {{{}}}", shape(filter)),
        Filter::Equality(x) => ava("eq", x),
        Filter::GreaterOrEqual(x) => ava("ge", x),
        Filter::LessOrEqual(x) => ava("le", x),
        Filter::Approx(x) => ava("approx", x),
        Filter::Present(description) => format!("present {description}"),
        Filter::Substrings(x) => {
            let end = |piece: &Option<Cow<'_, [u8]>>| {
                piece.as_deref().map_or("-".to_owned(), |piece| format!("[{}]", text(piece)))
            };
            let any: String = x.any.iter().map(|piece| format!("[{}]", text(piece))).collect();
            format!("sub {} {} {{{any}}} {}", x.description, end(&x.initial), end(&x.final_))
        }
        Filter::Extensible(x) => format!(
            "ext {} {} {} [{}]",
            x.description.unwrap_or("-"),
            if x.dn_attributes { "dn" } else { "-" },
            x.rule.unwrap_or("-"),
            text(&x.value)
        ),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(shape(&filter), expected, "{text:?}");
    let displayed = filter.to_string();
    assert_eq!(Filter::parse(&displayed), Ok(filter), "{text:?} displayed and parsed again");
}

/// Checks `(cn=text)` as an equality filter.
#[track_caller]
fn check_value(text: &str, expected: impl AsRef<[u8]>) {
    let expected = expected.as_ref().escape_ascii().to_string();
    check(&format!("(cn={text})"), &format!("eq cn [{expected}]"));
    check(&format!("(cn>={text})"), &format!("ge cn [{expected}]"));
    check(&format!("(cn<={text})"), &format!("le cn [{expected}]"));
    check(&format!("(cn~={text})"), &format!("approx cn [{expected}]"));
    check(&format!("(cn:=x{text})"), &format!("ext cn - - [x{expected}]"));
    check(&format!("(cn=x{text}*)"), &format!("sub cn [x{expected}] {{}} -"));
    check(&format!("(cn=*x{text})"), &format!("sub cn - {{}} [x{expected}]"));
    check(&format!("(cn=*x{text}*)"), &format!("sub cn - {{[x{expected}]}} -"));
}

#[track_caller]
fn check_error(text: &str, offset: usize, reason: FilterReason) {
    assert_eq!(Filter::parse(text), Err(FilterError { offset, reason }), "{text:?}");
}

#[track_caller]
fn check_display(text: &str, expected: &str) {
    let displayed = Filter::parse(text).map(|filter| filter.to_string());
    assert_eq!(displayed.as_deref(), Ok(expected), "{text:?}");
}

#[test]
fn examples_of_rfc_4515() {
    check("(cn=Babs Jensen)", "eq cn [Babs Jensen]");
    check("(!(cn=Tim Howes))", "not {eq cn [Tim Howes]}");
    check(
        "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
        "and {eq objectClass [Person], or {eq sn [Jensen], sub cn [Babs J] {} -}}",
    );
    check("(o=univ*of*mich*)", "sub o [univ] {[of][mich]} -");
    check("(seeAlso=)", "eq seeAlso []");

    check("(cn:caseExactMatch:=Fred Flintstone)", "ext cn - caseExactMatch [Fred Flintstone]");
    check("(cn:=Betty Rubble)", "ext cn - - [Betty Rubble]");
    check("(sn:dn:2.4.6.8.10:=Barney Rubble)", "ext sn dn 2.4.6.8.10 [Barney Rubble]");
    check("(o:dn:=Ace Industry)", "ext o dn - [Ace Industry]");
    check("(:1.2.3:=Wilma Flintstone)", "ext - - 1.2.3 [Wilma Flintstone]");
    check("(:DN:2.4.6.8.10:=Dino)", "ext - dn 2.4.6.8.10 [Dino]");

    check(
        r"(o=Parens R Us \28for all your parenthetical needs\29)",
        "eq o [Parens R Us (for all your parenthetical needs)]",
    );
    check(r"(cn=*\2A*)", "sub cn - {[*]} -");
    check(r"(filename=C:\5cMyFile)", r"eq filename [C:\\MyFile]");
    check(r"(bin=\00\00\00\04)", r"eq bin [\x00\x00\x00\x04]");
    check(r"(sn=Lu\c4\8di\c4\87)", r"eq sn [Lu\xc4\x8di\xc4\x87]");
    check(r"(1.3.6.1.4.1.1466.0=\04\02\48\69)", r"eq 1.3.6.1.4.1.1466.0 [\x04\x02Hi]");
}

#[test]
fn empty_lists_are_true_and_false() {
    check("(&)", "and {}");
    check("(|)", "or {}");
    check("(!(&))", "not {and {}}");
    check("(&(|)(&))", "and {or {}, and {}}");
    check("( & )", "and {}");
}

#[test]
fn items_have_one_of_six_operators() {
    check("(cn=a)", "eq cn [a]");
    check("(cn~=a)", "approx cn [a]");
    check("(cn>=a)", "ge cn [a]");
    check("(cn<=a)", "le cn [a]");
    check("(cn=*)", "present cn");
    check("(cn:=a)", "ext cn - - [a]");
    check("(objectClass=*)", "present objectClass");
    check("(2.5.4.3=a)", "eq 2.5.4.3 [a]");
    check("(cn;lang-de=a)", "eq cn;lang-de [a]");
    check("(cn;lang-de;x-1>=a)", "ge cn;lang-de;x-1 [a]");
    check("(userCertificate;binary=*)", "present userCertificate;binary");
    check("(cn>=)", "ge cn []");
    check("(cn<=)", "le cn []");
    check("(cn~=)", "approx cn []");
    check("(cn:=)", "ext cn - - []");
}

#[test]
fn stars_split_a_value_into_pieces() {
    check("(cn=a*)", "sub cn [a] {} -");
    check("(cn=*a)", "sub cn - {} [a]");
    check("(cn=*a*)", "sub cn - {[a]} -");
    check("(cn=a*b)", "sub cn [a] {} [b]");
    check("(cn=a*b*c)", "sub cn [a] {[b]} [c]");
    check("(cn=a*b*c*d)", "sub cn [a] {[b][c]} [d]");
    check("(cn=*a*b)", "sub cn - {[a]} [b]");
    check("(cn=a*b*)", "sub cn [a] {[b]} -");
    check("(cn= *)", "sub cn [ ] {} -");
    check("(cn=* )", "sub cn - {} [ ]");
    check("(cn=* *)", "sub cn - {[ ]} -");
    check(r"(cn=\2a)", "eq cn [*]");
    check(r"(cn=\2a*)", "sub cn [*] {} -");
    check(r"(cn=*\2a)", "sub cn - {} [*]");
    check(r"(cn=a\2ab*c)", "sub cn [a*b] {} [c]");
    check("(cn=ä*ö*ü)", r"sub cn [\xc3\xa4] {[\xc3\xb6]} [\xc3\xbc]");
    for (text, offset) in
        [("(cn=**)", 5), ("(cn=a**b)", 6), ("(cn=a*b**)", 8), ("(cn=***)", 5), ("(cn=**a)", 5)]
    {
        check_error(text, offset, FilterReason::EmptySubstring);
    }
}

#[test]
fn plain_values_stand_as_they_are() {
    for value in [
        "",
        "a",
        " a",
        "a ",
        " ",
        "a b",
        "=",
        "==",
        "a=b",
        "a>=b",
        "a~=b",
        "<",
        ">",
        "&",
        "|",
        "!",
        "&a",
        "!a",
        "#",
        "+",
        ",",
        ";",
        ":",
        ":=",
        "\"",
        "'",
        "/",
        "?",
        "@",
        "[",
        "]",
        "^",
        "{",
        "}",
        "ä",
        "日本",
        "🦀",
        "\t",
        "\n",
        "\u{7f}",
        "cn=a,ou=b",
        "20260101000000Z",
        "+49 30 1",
        "%",
    ] {
        check_value(value, value);
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
    check_value(r"\c3\a4", "ä");
    check_value(r"\5c2a", r"\2a");
    check_value(r"\28\29\2a\5c\00", b"()*\\\0");
}

#[test]
fn bad_escapes_are_refused() {
    for text in [
        r"(cn=\)",
        r"(cn=\)a)",
        r"(cn=\2)",
        r"(cn=\2g)",
        r"(cn=\g2)",
        r"(cn=\\)",
        r"(cn=\*)",
        r"(cn=\ 2a)",
        r"(cn=\xx)",
        r"(cn=\ä)",
        r"(cn=\",
        r"(cn=\2",
        "(cn=\\\0\0)",
        r"(cn=\,)",
    ] {
        check_error(text, 4, FilterReason::BadEscape);
    }
    check_error(r"(cn=a*b\)", 7, FilterReason::BadEscape);
    check_error(r"(&(cn=a)(user=DOM\user))", 17, FilterReason::BadEscape);
}

#[test]
fn special_characters_must_be_escaped() {
    check_error("(cn=a(b)", 5, FilterReason::UnescapedOpen);
    check_error("(cn=(a))", 4, FilterReason::UnescapedOpen);
    check_error("(cn=a*(b))", 6, FilterReason::UnescapedOpen);
    check_error("(cn:=a(b)", 6, FilterReason::UnescapedOpen);
    check_error("(cn=a\0b)", 5, FilterReason::Nul);
    check_error("(cn=\0)", 4, FilterReason::Nul);
    check_error("(cn>=a*)", 6, FilterReason::UnescapedStar);
    check_error("(cn<=*)", 5, FilterReason::UnescapedStar);
    check_error("(cn~=a*b)", 6, FilterReason::UnescapedStar);
    check_error("(cn:=*)", 5, FilterReason::UnescapedStar);
    check_error("(cn:dn:2.5.13.2:=a*)", 18, FilterReason::UnescapedStar);
}

#[test]
fn spaces_around_filters_are_skipped() {
    check(" (cn=a) ", "eq cn [a]");
    check("\n(cn=a)\n", "eq cn [a]");
    check("(& (cn=a) (sn=b) )", "and {eq cn [a], eq sn [b]}");
    check("(&\n  (cn=a)\n  (|\n\t(sn=b)\r\n  )\n)", "and {eq cn [a], or {eq sn [b]}}");
    check("( cn=a)", "eq cn [a]");
    check("(! (cn=a) )", "not {eq cn [a]}");
    check("( ! ( cn=a ) )", "not {eq cn [a ]}");
    check_error("(cn =a)", 1, FilterReason::BadDescription);
    check_error("(cn = a)", 1, FilterReason::BadDescription);
}

#[test]
fn a_single_item_needs_no_parentheses() {
    check("cn=a", "eq cn [a]");
    check("uid=anna*", "sub uid [anna] {} -");
    check("objectClass=*", "present objectClass");
    check(" cn=a", "eq cn [a]");
    check("cn:dn:=a", "ext cn dn - [a]");
    check_error("cn=a)", 4, FilterReason::TextAfterEnd);
    check_error("&(cn=a)(sn=b)", 0, FilterReason::MissingOpen);
    check_error("|(cn=a)", 0, FilterReason::MissingOpen);
    check_error("!(cn=a)", 0, FilterReason::MissingOpen);
    check_error("cn", 2, FilterReason::MissingEquals);
    check_error("(&cn=a)", 2, FilterReason::MissingOpen);
    check_error("(&(cn=a)sn=b)", 8, FilterReason::MissingOpen);
    check_error("(!cn=a)", 2, FilterReason::MissingOpen);
}

#[test]
fn parentheses_must_balance() {
    check_error("", 0, FilterReason::MissingFilter);
    check_error("  ", 2, FilterReason::MissingFilter);
    check_error("(", 1, FilterReason::MissingFilter);
    check_error("()", 1, FilterReason::MissingFilter);
    check_error("( )", 2, FilterReason::MissingFilter);
    check_error(")", 0, FilterReason::MissingFilter);
    check_error("(()", 1, FilterReason::MissingFilter);
    check_error("((cn=a))", 1, FilterReason::MissingFilter);
    check_error("(cn=a", 5, FilterReason::MissingClose);
    check_error("(cn=a*", 6, FilterReason::MissingClose);
    check_error("(&(cn=a)", 8, FilterReason::MissingClose);
    check_error("(&", 2, FilterReason::MissingClose);
    check_error("(!(cn=a)", 8, FilterReason::MissingClose);
    check_error("(!(cn=a)(sn=b))", 8, FilterReason::MissingClose);
    check_error("(!)", 2, FilterReason::MissingFilter);
    check_error("(!", 2, FilterReason::MissingFilter);
    check_error("(cn=a))", 6, FilterReason::TextAfterEnd);
    check_error("(cn=a)(sn=b)", 6, FilterReason::TextAfterEnd);
    check_error("(cn=a)x", 6, FilterReason::TextAfterEnd);
    check_error("(cn=a) x", 7, FilterReason::TextAfterEnd);
}

#[test]
fn items_need_a_description_and_an_equals_sign() {
    check_error("(cn)", 3, FilterReason::MissingEquals);
    check_error("(cn", 3, FilterReason::MissingEquals);
    check_error("(cn>a)", 5, FilterReason::MissingEquals);
    check_error("(cn(a=b))", 3, FilterReason::MissingEquals);
    check_error("(&(cn)(sn=a))", 5, FilterReason::MissingEquals);
    for text in [
        "(=a)",
        "(>=a)",
        "(~=a)",
        "(=*)",
        "(c n=a)",
        "(c_n=a)",
        "(1=a)",
        "(2.05=a)",
        "(*=a)",
        "(cn;=a)",
        "(;x=a)",
        "(cn;;x=a)",
        "(ä=a)",
        "(cn><=a)",
        "(cn~~=a)",
        "(-cn=a)",
        "(cn!=a)",
        "(\\63n=a)",
        "(\0=a)",
        "(cn;x_y=a)",
    ] {
        check_error(text, 1, FilterReason::BadDescription);
    }
    check_error("(&(cn=a)(c n=a))", 9, FilterReason::BadDescription);
}

#[test]
fn extensible_matches_name_an_attribute_or_a_rule() {
    check("(cn:caseIgnoreMatch:=a)", "ext cn - caseIgnoreMatch [a]");
    check("(cn;lang-de:dn:2.5.13.2:=a)", "ext cn;lang-de dn 2.5.13.2 [a]");
    check("(:caseIgnoreMatch:=a)", "ext - - caseIgnoreMatch [a]");
    check("(cn:Dn:=a)", "ext cn dn - [a]");
    check("(cn:dn:dn:=a)", "ext cn dn dn [a]");
    check("(:dn:dn:=a)", "ext - dn dn [a]");
    check("(member:1.2.840.113556.1.4.1941:=cn=x)", "ext member - 1.2.840.113556.1.4.1941 [cn=x]");
    check_error("(:=a)", 1, FilterReason::NeitherTypeNorRule);
    check_error("(:dn:=a)", 1, FilterReason::NeitherTypeNorRule);
    check_error("(cn::=a)", 1, FilterReason::BadRule);
    check_error("(::=a)", 1, FilterReason::BadRule);
    check_error("(cn:dn::=a)", 1, FilterReason::BadRule);
    check_error("(cn:a b:=a)", 1, FilterReason::BadRule);
    check_error("(cn:1:=a)", 1, FilterReason::BadRule);
    check_error("(cn:a:b:=a)", 1, FilterReason::BadRule);
    check_error("(cn:dn:a:b:=a)", 1, FilterReason::BadRule);
    check_error("(cn:a:dn:=a)", 1, FilterReason::BadRule);
    check_error("(c n:dn:=a)", 1, FilterReason::BadDescription);
    check_error("(cn:dn=a)", 1, FilterReason::BadDescription);
}

#[test]
fn depth_is_limited() {
    let max = usize::from(FILTER_DEPTH_MAX);
    let nested = |depth: usize| format!("{}(a=b){}", "(!".repeat(depth - 1), ")".repeat(depth - 1));
    assert!(Filter::parse(&nested(max)).is_ok());
    check_error(&nested(max + 1), 2 * max, FilterReason::TooDeep);
    check_error(&"(".repeat(1_000_000), 1, FilterReason::MissingFilter);
    check_error(&"(&".repeat(1_000_000), 2 * max, FilterReason::TooDeep);
    check_error(&"(!".repeat(1_000_000), 2 * max, FilterReason::TooDeep);
}

#[test]
fn the_number_of_terms_is_limited() {
    let max = FILTER_TERMS_MAX as usize;
    let list = |terms: usize| format!("(|{})", "(a=b)".repeat(terms - 1));
    assert!(Filter::parse(&list(max)).is_ok());
    let last = 2 + 5 * (max - 1);
    check_error(&list(max + 1), last, FilterReason::TooManyTerms);
}

#[test]
fn messages_name_the_limits() {
    assert!(FilterReason::TooDeep.to_string().contains(&(FILTER_DEPTH_MAX - 1).to_string()));
    assert!(FilterReason::TooManyTerms.to_string().contains(&FILTER_TERMS_MAX.to_string()));
    let error = Filter::parse("(cn=a(b)").unwrap_err();
    assert_eq!(error.to_string(), r"'(' in a value must be written as '\28' (at byte 5)");
}

#[test]
fn values_without_escapes_are_borrowed() {
    let borrows = |text| match Filter::parse(text) {
        Ok(Filter::Equality(ava)) => matches!(ava.value, Cow::Borrowed(_)),
        other => panic!("{other:?}"),
    };
    assert!(borrows("(cn=a b)"));
    assert!(!borrows(r"(cn=a\20b)"));
}

#[test]
fn displayed_filters_are_printable() {
    check_display(" ( & (cn=a) (sn=b) ) ", "(&(cn=a)(sn=b))");
    check_display("cn=a", "(cn=a)");
    check_display("(cn=a\nb)", r"(cn=a\0ab)");
    check_display(r"(cn=\c3\a4\c3)", r"(cn=ä\c3)");
    check_display(r"(cn=\41\2A\7f)", r"(cn=A\2a\7f)");
    check_display("(:DN:2.5.13.2:=a)", "(:dn:2.5.13.2:=a)");
    check_display("(cn=*a*b*)", "(cn=*a*b*)");
    check_display("(!(|))", "(!(|))");
}

fn filter() -> impl Strategy<Value = Filter<'static>> {
    let name = || proptest::sample::select(vec!["cn", "2.5.4.3", "cn;lang-de", "x-1", "dn"]);
    let rule = || proptest::sample::select(vec!["caseIgnoreMatch", "2.5.13.2", "dn"]);
    let value = || {
        let special =
            proptest::collection::vec(proptest::sample::select(b" ()*\\\0a:=&|!".to_vec()), 0..5);
        prop_oneof![any::<Vec<u8>>(), special].prop_map(Cow::<'static, [u8]>::Owned)
    };
    let piece = move || value().prop_filter("pieces are not empty", |piece| !piece.is_empty());
    let ava =
        move || (name(), value()).prop_map(|(description, value)| AvaFilter { description, value });
    let pieces = (
        name(),
        proptest::option::of(piece()),
        proptest::collection::vec(piece(), 0..3),
        proptest::option::of(piece()),
    );
    let substrings = pieces
        .prop_filter("one piece at least", |(_, initial, any, final_)| {
            initial.is_some() || !any.is_empty() || final_.is_some()
        })
        .prop_map(|(description, initial, any, final_)| {
            Filter::Substrings(SubstringFilter { description, initial, any, final_ })
        });
    let extensible =
        (proptest::option::of(rule()), proptest::option::of(name()), value(), any::<bool>())
            .prop_filter("a rule or a description", |(rule, name, ..)| {
                rule.is_some() || name.is_some()
            })
            // Without ":dn", a rule called dn would read as ":dn".
            .prop_filter("rule dn needs :dn", |(rule, _, _, dn)| *rule != Some("dn") || *dn)
            .prop_map(|(rule, description, value, dn_attributes)| {
                Filter::Extensible(ExtensibleFilter { rule, description, value, dn_attributes })
            });
    let leaf = prop_oneof![
        ava().prop_map(Filter::Equality),
        ava().prop_map(Filter::GreaterOrEqual),
        ava().prop_map(Filter::LessOrEqual),
        ava().prop_map(Filter::Approx),
        name().prop_map(Filter::Present),
        substrings,
        extensible,
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Filter::And),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Filter::Or),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

proptest! {
    #[test]
    fn displayed_filters_parse_back(filter in filter()) {
        let text = filter.to_string();
        prop_assert!(!text.contains(|c: char| c.is_ascii_control()));
        prop_assert_eq!(Filter::parse(&text), Ok(filter));
    }

    #[test]
    fn any_text_parses_to_a_stable_filter_or_fails_inside_it(
        text in "[a-c(&|!)=*:~<>\\\\ 0é]{0,24}"
    ) {
        match Filter::parse(&text) {
            Ok(filter) => {
                let displayed = filter.to_string();
                prop_assert_eq!(Filter::parse(&displayed), Ok(filter));
            }
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }
}
