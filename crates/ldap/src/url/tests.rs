//! What is an LDAP URL, what is not, and why.

use proptest::prelude::*;

use super::*;

/// Shows the parts of a URL that are there.
fn show(url: &LdapUrl) -> String {
    let LdapUrl { scheme, host, port, dn, attributes, scope, filter, extensions } = url;
    let mut shown = scheme.name().to_owned();
    if let Some(host) = host {
        shown += &format!(" host {host}");
    }
    if let Some(port) = port {
        shown += &format!(" port {port}");
    }
    if !dn.is_root() {
        shown += &format!(" dn {dn}");
    }
    for attribute in attributes {
        shown += &format!(" attribute {attribute}");
    }
    if let Some(scope) = scope {
        shown += &format!(" scope {scope:?}");
    }
    if let Some(filter) = filter {
        shown += &format!(" filter {filter}");
    }
    for UrlExtension { critical, name, value } in extensions {
        let critical = if *critical { "critical " } else { "" };
        shown += &format!(" {critical}extension {name} {value:?}");
    }
    shown
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let url = LdapUrl::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(show(&url), expected, "{text:?}");
    let displayed = url.to_string();
    assert!(displayed.is_ascii(), "{displayed}");
    assert_eq!(LdapUrl::parse(&displayed), Ok(url), "{text:?} displayed as {displayed:?}");
}

#[track_caller]
fn check_error(text: &str, offset: usize, reason: UrlReason) {
    assert_eq!(LdapUrl::parse(text), Err(UrlError { offset, reason }), "{text:?}");
}

#[track_caller]
fn check_display(text: &str, expected: &str) {
    let displayed = LdapUrl::parse(text).map(|url| url.to_string());
    assert_eq!(displayed.as_deref(), Ok(expected), "{text:?}");
}

#[test]
fn examples_of_rfc_4516() {
    check("ldap:///o=University%20of%20Michigan,c=US", "ldap dn o=University of Michigan,c=US");
    check(
        "ldap://ldap1.example.net/o=University%20of%20Michigan,c=US",
        "ldap host ldap1.example.net dn o=University of Michigan,c=US",
    );
    check(
        "ldap://ldap1.example.net/o=University%20of%20Michigan,c=US?postalAddress",
        "ldap host ldap1.example.net dn o=University of Michigan,c=US attribute postalAddress",
    );
    check(
        "ldap://ldap1.example.net:6666/o=University%20of%20Michigan,c=US??sub?(cn=Babs%20Jensen)",
        "ldap host ldap1.example.net port 6666 dn o=University of Michigan,c=US scope Subtree \
         filter (cn=Babs Jensen)",
    );
    check(
        "LDAP://ldap1.example.com/c=GB?objectClass?ONE",
        "ldap host ldap1.example.com dn c=GB attribute objectClass scope One",
    );
    check(
        "ldap://ldap2.example.com/o=Question%3f,c=US?mail",
        "ldap host ldap2.example.com dn o=Question?,c=US attribute mail",
    );
    check(
        "ldap://ldap3.example.com/o=Babsco,c=US???(four-octet=%5c00%5c00%5c00%5c04)",
        r"ldap host ldap3.example.com dn o=Babsco,c=US filter (four-octet=\00\00\00\04)",
    );
    check(
        "ldap://ldap.example.com/o=An%20Example%5C2C%20Inc.,c=US",
        r"ldap host ldap.example.com dn o=An Example\, Inc.,c=US",
    );
    check("ldap://ldap.example.net", "ldap host ldap.example.net");
    check("ldap://ldap.example.net/", "ldap host ldap.example.net");
    check("ldap://ldap.example.net/?", "ldap host ldap.example.net");
    check(
        "ldap:///??sub??e-bindname=cn=Manager%2cdc=example%2cdc=com",
        r#"ldap scope Subtree extension e-bindname Some("cn=Manager,dc=example,dc=com")"#,
    );
    check(
        "ldap:///??sub??!e-bindname=cn=Manager%2cdc=example%2cdc=com",
        r#"ldap scope Subtree critical extension e-bindname Some("cn=Manager,dc=example,dc=com")"#,
    );
}

#[test]
fn schemes_are_three_in_any_case() {
    check("ldap://h", "ldap host h");
    check("ldaps://h", "ldaps host h");
    check("LdapS://h", "ldaps host h");
    check("ldapi://h", "ldapi host h");
    for text in
        ["http://h", "://h", "ldap ://h", " ldap://h", "ldapx://h", "cldap://h", "url:ldap://h"]
    {
        check_error(text, 0, UrlReason::UnknownScheme);
    }
    for text in ["", "h", "ldap", "ldap:", "ldap:/", "ldap:h", "ldap:/h", "h:389", "dc=example"] {
        check_error(text, 0, UrlReason::MissingScheme);
    }
}

#[test]
fn hosts_are_names_or_addresses() {
    check("ldap://", "ldap");
    check("ldap:///", "ldap");
    check("ldap://localhost", "ldap host localhost");
    check("ldap://127.0.0.1:1389", "ldap host 127.0.0.1 port 1389");
    check("ldap://a-b.c_d.example.", "ldap host a-b.c_d.example.");
    check("ldap://b%C3%BCcher.example", "ldap host bücher.example");
    check("ldap://bücher.example", "ldap host bücher.example");
    check("ldap://[::1]", "ldap host ::1");
    check("ldap://[::1]:389/dc=x", "ldap host ::1 port 389 dn dc=x");
    check("ldap://[2001:db8::7]/", "ldap host 2001:db8::7");
    check("ldap://[::ffff:1.2.3.4]", "ldap host ::ffff:1.2.3.4");
    check("ldap://[fe80::1%25eth0]:389", "ldap host fe80::1%eth0 port 389");
    for text in [
        "ldap://[::1",
        "ldap://[]",
        "ldap://[x]",
        "ldap://[::1]x",
        "ldap://[::1]389",
        "ldap://[1.2.3.4]",
        "ldap://[::1%25]",
        "ldap://[::1%25a%25b]",
        "ldap://a b",
        "ldap://user@h",
        "ldap://h?base",
        "ldap://h#x",
        "ldap://a%3Ab",
        "ldap://a%2Fb",
        "ldap://a,b",
        "ldap://(h)",
        "ldap://a%00",
        "ldap://h:80]",
        "ldap://a[b",
    ] {
        let reason = if text.ends_with("80]") { UrlReason::BadPort } else { UrlReason::BadHost };
        check_error(text, if reason == UrlReason::BadPort { 9 } else { 7 }, reason);
    }
}

#[test]
fn ports_are_numbers() {
    check("ldap://h:389", "ldap host h port 389");
    check("ldap://h:0", "ldap host h port 0");
    check("ldap://h:65535", "ldap host h port 65535");
    check("ldap://h:00389", "ldap host h port 389");
    check("ldap://h:", "ldap host h");
    check("ldap://h:/", "ldap host h");
    check("ldap://:389", "ldap port 389");
    check("ldap://:389/dc=x", "ldap port 389 dn dc=x");
    check("ldap://[::1]:", "ldap host ::1");
    check_error("ldap://h:65536", 9, UrlReason::BadPort);
    check_error("ldap://h:x", 9, UrlReason::BadPort);
    check_error("ldap://h:-1", 9, UrlReason::BadPort);
    check_error("ldap://h:+1", 9, UrlReason::BadPort);
    check_error("ldap://h:1 ", 9, UrlReason::BadPort);
    check_error("ldap://h:389:389", 9, UrlReason::BadPort);
    check_error("ldap://::1", 8, UrlReason::BadPort);
    check_error("ldap://[::1]:x/", 13, UrlReason::BadPort);
    check_error("ldap://h:99999999999999999999", 9, UrlReason::BadPort);
}

#[test]
fn ports_have_defaults() {
    let port = |text| LdapUrl::parse(text).unwrap().port_or_default();
    assert_eq!(port("ldap://h"), 389);
    assert_eq!(port("ldaps://h"), 636);
    assert_eq!(port("ldap://h:1389"), 1389);
    assert_eq!(port("ldaps://h:389"), 389);
    assert_eq!(port("ldapi:///"), 0);
}

#[test]
fn local_sockets_have_an_encoded_path() {
    check("ldapi://%2Frun%2Fldapi", "ldapi host /run/ldapi");
    check("ldapi://%2frun%2fldapi/", "ldapi host /run/ldapi");
    check("ldapi:///", "ldapi");
    check("ldapi://%2Fa%3Ab%20c/dc=x", "ldapi host /a:b c dn dc=x");
    check_display("ldapi://%2frun%2fldapi/dc=x", "ldapi://%2Frun%2Fldapi/dc=x");
}

#[test]
fn the_dn_follows_rfc_4514() {
    check("ldap:///dc=example,dc=com", "ldap dn dc=example,dc=com");
    check("ldap:///dc=example%2Cdc=com", "ldap dn dc=example,dc=com");
    check("ldap:///cn=a/b", "ldap dn cn=a/b");
    check("ldap:///cn=a b", "ldap dn cn=a b");
    check("ldap:///cn=%C3%BC", "ldap dn cn=ü");
    check("ldap:///cn=ü", "ldap dn cn=ü");
    check(r"ldap:///cn=a\2cb", r"ldap dn cn=a\,b");
    check("ldap:///cn=a%2Bsn=b", "ldap dn cn=a+sn=b");
    check("ldap:///cn=a+sn=b", "ldap dn cn=a+sn=b");
    let dn_error = |text: &str| UrlReason::Dn(Dn::parse(text).unwrap_err());
    check_error("ldap:///x", 8, dn_error("x"));
    check_error("ldap:///cn=a,", 8, dn_error("cn=a,"));
    check_error("ldap://h/cn=%3Ca%3E", 9, dn_error("cn=<a>"));
    check_error("ldap:///cn=%00", 8, dn_error("cn=\0"));
    check_error("ldap://///", 8, dn_error("//"));
}

#[test]
fn attributes_are_selectors() {
    check("ldap:///?cn", "ldap attribute cn");
    check("ldap:///?cn,sn", "ldap attribute cn attribute sn");
    check("ldap:///?*,+", "ldap attribute * attribute +");
    check("ldap:///?%2A,%2b", "ldap attribute * attribute +");
    check("ldap:///?1.1", "ldap attribute 1.1");
    check("ldap:///?cn;lang-de,2.5.4.4", "ldap attribute cn;lang-de attribute 2.5.4.4");
    check("ldap:///?@person", "ldap attribute @person");
    check_error("ldap:///?,", 9, UrlReason::BadAttribute);
    check_error("ldap:///?cn,", 12, UrlReason::BadAttribute);
    check_error("ldap:///?cn,,sn", 12, UrlReason::BadAttribute);
    check_error("ldap:///?cn, sn", 12, UrlReason::BadAttribute);
    check_error("ldap:///?c_n", 9, UrlReason::BadAttribute);
    check_error("ldap:///?cn%2Csn", 9, UrlReason::BadAttribute);
    check_error("ldap:///?@", 9, UrlReason::BadAttribute);
    check_error("ldap:///?(cn=a)", 9, UrlReason::BadAttribute);
}

#[test]
fn scopes_are_known() {
    check("ldap:///??base", "ldap scope Base");
    check("ldap:///??one", "ldap scope One");
    check("ldap:///??sub", "ldap scope Subtree");
    check("ldap:///??SUB", "ldap scope Subtree");
    check("ldap:///??subordinate", "ldap scope Subordinate");
    check("ldap:///??subordinates", "ldap scope Subordinate");
    check("ldap:///??children", "ldap scope Subordinate");
    check("ldap:///??", "ldap");
    check_error("ldap:///??two", 10, UrlReason::BadScope);
    check_error("ldap:///??sub ", 10, UrlReason::BadScope);
    check_error("ldap:///??(cn=a)", 10, UrlReason::BadScope);
    check_error("ldap:///dc=x?cn?subtree", 16, UrlReason::BadScope);
}

#[test]
fn filters_follow_rfc_4515() {
    check("ldap:///???(cn=a)", "ldap filter (cn=a)");
    check("ldap:///???(cn=a%3Fb)", "ldap filter (cn=a?b)");
    check("ldap:///???(cn=John Doe)", "ldap filter (cn=John Doe)");
    check("ldap:///???(&(a=b)(c=d))", "ldap filter (&(a=b)(c=d))");
    check("ldap:///???(%26(a=b)(c=d))", "ldap filter (&(a=b)(c=d))");
    check(r"ldap:///???(cn=\2a)", r"ldap filter (cn=\2a)");
    check("ldap:///???", "ldap");
    let filter_error = |text: &str| UrlReason::Filter(Filter::parse(text).unwrap_err());
    check_error("ldap:///???(cn=a", 11, filter_error("(cn=a"));
    check_error("ldap:///???%20", 11, filter_error(" "));
    check_error("ldap:///???(cn=%00)", 11, filter_error("(cn=\0)"));
}

#[test]
fn extensions_have_names() {
    check("ldap:///????x", "ldap extension x None");
    check("ldap:///????!x", "ldap critical extension x None");
    check("ldap:///????x=", r#"ldap extension x Some("")"#);
    check("ldap:///????x=y", r#"ldap extension x Some("y")"#);
    check("ldap:///????x=y=z", r#"ldap extension x Some("y=z")"#);
    check("ldap:///????1.2.3=a%2Cb", r#"ldap extension 1.2.3 Some("a,b")"#);
    check("ldap:///????x,!y=1", r#"ldap extension x None critical extension y Some("1")"#);
    check("ldap:///????x=%00", r#"ldap extension x Some("\0")"#);
    check("ldap:///????x=%3F", r#"ldap extension x Some("?")"#);
    check("ldap:///????", "ldap");
    check_error("ldap:///????!", 13, UrlReason::BadExtension);
    check_error("ldap:///????=x", 12, UrlReason::BadExtension);
    check_error("ldap:///????x,", 14, UrlReason::BadExtension);
    check_error("ldap:///????!!x", 13, UrlReason::BadExtension);
    check_error("ldap:///????x y", 12, UrlReason::BadExtension);
    check_error("ldap:///????x=y?z", 16, UrlReason::TooManyParts);
    check_error("ldap:///?????", 13, UrlReason::TooManyParts);
}

#[test]
fn percent_encoding_is_two_hex_digits() {
    for text in ["%", "%2", "%2g", "%g2", "%%20", "% 20", "%+2", "%é"] {
        check_error(&format!("ldap:///cn=a{text}"), 12, UrlReason::BadPercent);
        check_error(&format!("ldap://h{text}"), 8, UrlReason::BadPercent);
        check_error(&format!("ldap:///????x={text}"), 14, UrlReason::BadPercent);
    }
    check("ldap:///cn=a%25", "ldap dn cn=a%");
    check("ldap:///cn=a%2525", "ldap dn cn=a%25");
    check_error("ldap:///cn=%FF", 8, UrlReason::NotUtf8);
    check_error("ldap:///cn=%C3?x", 8, UrlReason::NotUtf8);
    check_error("ldap:///????x=%FF", 14, UrlReason::NotUtf8);
}

#[test]
fn raw_control_characters_and_long_texts_are_refused() {
    check_error("ldap:///cn=a\nb", 12, UrlReason::ControlCharacter);
    check_error("ldap://h\0", 8, UrlReason::ControlCharacter);
    check_error("\tldap://h", 0, UrlReason::ControlCharacter);
    let long = format!("ldap:///{}", "?".repeat(URL_LENGTH_MAX_BYTES));
    check_error(&long, URL_LENGTH_MAX_BYTES, UrlReason::TooLong);
    assert!(UrlReason::TooLong.to_string().contains(&URL_LENGTH_MAX_BYTES.to_string()));
}

#[test]
fn displayed_urls_are_short_and_encoded() {
    check_display("LDAP://Host:389/", "ldap://Host:389");
    check_display("ldap:///???", "ldap:///");
    check_display("ldap://h/?", "ldap://h");
    check_display("ldap://h/??sub", "ldap://h/??sub");
    check_display("ldap:///cn=a b?cn", "ldap:///cn=a%20b?cn");
    check_display("ldap:///cn=%3f%23%5B", "ldap:///cn=%3F%23%5B");
    check_display(
        "ldap:///o=An%20Example%5C2C%20Inc.,c=US",
        "ldap:///o=An%20Example%5C,%20Inc.,c=US",
    );
    check_display("ldap://[::1]:389/dc=x", "ldap://[::1]:389/dc=x");
    check_display("ldap://[fe80::1%25eth0]", "ldap://[fe80::1%25eth0]");
    check_display("ldap:///????x=a%2cb,!y", "ldap:///????x=a%2Cb,!y");
    check_display("ldap:///???(cn=ü)", "ldap:///???(cn=%C3%BC)");
}

#[test]
fn errors_say_what_and_where() {
    let message = |text| LdapUrl::parse(text).unwrap_err().to_string();
    assert_eq!(
        message("ldap://h/dc=x??subtree"),
        "the scope must be base, one, sub or subordinate (at byte 15)"
    );
    assert_eq!(
        message("ldap://h/dc=x,"),
        "the DN is wrong at its byte 5: an RDN such as cn=name is missing (at byte 9)"
    );
}

fn url() -> impl Strategy<Value = LdapUrl> {
    let host =
        proptest::option::of(prop_oneof!["[a-z0-9.-]{1,12}", Just("2001:db8::1".to_owned())]);
    let scheme = proptest::sample::select(vec![UrlScheme::Ldap, UrlScheme::Ldaps]);
    let dn = any::<String>().prop_map(|value| {
        let rdn = crate::dn::Ava { attribute: "cn".to_owned(), value: value.into_bytes() };
        Dn::new(crate::dn::Rdn::new(vec![rdn]).into_iter().collect())
    });
    let dn = prop_oneof![Just(Dn::root()), dn];
    let attribute = proptest::sample::select(vec!["cn", "*", "+", "1.1", "cn;lang-de", "@person"]);
    let scope = proptest::option::of(proptest::sample::select(vec![
        Scope::Base,
        Scope::One,
        Scope::Subtree,
        Scope::Subordinate,
    ]));
    let filter = proptest::option::of("\\(cn=[a-zé?#%&,! ]{0,8}\\)");
    let extension = ("[a-z][a-z0-9-]{0,4}", any::<bool>(), proptest::option::of(any::<String>()))
        .prop_map(|(name, critical, value)| UrlExtension { critical, name, value });
    (
        (scheme, host, proptest::option::of(any::<u16>()), dn),
        proptest::collection::vec(attribute.prop_map(str::to_owned), 0..3),
        (scope, filter),
        proptest::collection::vec(extension, 0..3),
    )
        .prop_map(|((scheme, host, port, dn), attributes, (scope, filter), extensions)| {
            LdapUrl { scheme, host, port, dn, attributes, scope, filter, extensions }
        })
}

proptest! {
    #[test]
    fn displayed_urls_parse_back(url in url()) {
        let text = url.to_string();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{}", text);
        prop_assert_eq!(LdapUrl::parse(&text), Ok(url));
    }

    #[test]
    fn any_text_parses_to_a_stable_url_or_fails_inside_it(
        text in "ldap[si]?://[a\\[\\]:1%25é]{0,6}/?[a=,?(!)%2#éx*+ ]{0,20}"
    ) {
        match LdapUrl::parse(&text) {
            Ok(url) => prop_assert_eq!(LdapUrl::parse(&url.to_string()), Ok(url)),
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }
}
