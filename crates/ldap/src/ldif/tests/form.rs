//! What lines and records may look like.

use super::*;

#[test]
fn files_without_records_are_empty() {
    for text in [
        "",
        "\n",
        "\n\n\n",
        "# comment",
        "# comment\n",
        "# a\n# b\n\n# c\n",
        "version: 1",
        "version: 1\n",
        "version: 1\n\n",
        "\nversion: 1\n",
        "# c\nversion: 1\n\n# d\n",
        "#",
        "#\n continued\n",
        "\u{feff}",
        "\u{feff}\n",
        "\u{feff}# c\n",
        "Version: 1\n",
        "version:1\n",
        "version:   1  \n",
    ] {
        check(text, &[]);
    }
}

#[test]
fn the_version_is_1() {
    check("version: 1\ndn: cn=a\ncn: a\n", &["2 {cn=a} content cn=[a]"]);
    check("version: 1\n\ndn: cn=a\ncn: a\n", &["3 {cn=a} content cn=[a]"]);
    check("dn: cn=a\nversion: 2\n", &["1 {cn=a} content version=[2]"]);
    // Files joined together.
    check(
        "version: 1\n\ndn: cn=a\ncn: a\n\nversion: 1\n\ndn: cn=b\ncn: b\n",
        &["3 {cn=a} content cn=[a]", "8 {cn=b} content cn=[b]"],
    );
    let bad = |version: &str| LdifReason::BadVersion(version.to_owned());
    check_error("version: 2\n", 1, bad("2"));
    check_error("version: 2\ndn: cn=a\ncn: a\n", 1, bad("2"));
    check_error("version:\n", 1, bad(""));
    check_error("version: 1.0\n", 1, bad("1.0"));
    check_error("version: 01\n", 1, bad("01"));
    check_error("# c\n\nversion: x\n", 3, bad("x"));
    check_error("version:: MQ==\n", 1, bad("MQ=="));
}

#[test]
fn a_byte_order_mark_is_dropped() {
    check("\u{feff}dn: cn=a\ncn: a\n", &["1 {cn=a} content cn=[a]"]);
    check("\u{feff}version: 1\ndn: cn=a\ncn: a\n", &["2 {cn=a} content cn=[a]"]);
    check_error(b"\xFF\xFEd\0n\0\n", 1, LdifReason::Utf16);
    check_error(b"\xFE\xFF\0d\0n\n", 1, LdifReason::Utf16);
    check_error("dn: cn=a\n\u{feff}cn: a\n", 2, LdifReason::BadDescription("\u{feff}cn".into()));
}

#[test]
fn empty_lines_separate_records() {
    let a_and_b = "! line 1: a record must begin with 'dn:', but this one begins with 'x'";
    check("x: 1\n\n\n\ndn: cn=b\ncn: b", &[a_and_b, "5 {cn=b} content cn=[b]"]);
    check(
        "\n\n\ndn: cn=a\ncn: a\n\n\n\ndn: cn=b\ncn: b\n\n\n",
        &["4 {cn=a} content cn=[a]", "9 {cn=b} content cn=[b]"],
    );
    check("dn: cn=a\ncn: a\n# no empty line\n# here\ncn: b\n", &["1 {cn=a} content cn=[a] cn=[b]"]);
    check("dn: cn=a\ncn: a\n\n# c\n\n# d\n", &["1 {cn=a} content cn=[a]"]);
    check_error("dn: cn=a\ncn: a\ndn: cn=b\ncn: b\n", 3, LdifReason::SecondDn);
    // The "empty" line holds a space, so it continues the line before.
    check_error("dn: cn=a\ncn: a\n \ndn: cn=b\ncn: b\n", 4, LdifReason::SecondDn);
}

#[test]
fn lines_that_begin_with_a_space_continue() {
    check_value("cn: a\n b", "ab");
    check_value("cn: a\n  b", "a b");
    check_value("cn: a\n b\n c\n d", "abcd");
    check_value("cn:\n a", "a");
    check_value("cn: \n a", "a");
    check_value("cn:\n  a", "a");
    check_value("c\n n: a", "a");
    check_value("cn\n : a", "a");
    check_value("cn:\n : YQ==", "a");
    check_value("cn::\n YQ==", "a");
    check_value("cn:: Y\n Q=\n =", "a");
    check_value("cn: a\n ", "a");
    check_value("cn: a\n \n b", "ab");
    check_value("cn: a\n #b", "a#b");
    check_value("cn: a\n : b", "a: b");
    check_value("cn: a\n -", "a-");
    check_value("cn: a\n\tb: c".trim_end_matches("\n\tb: c"), "a");
    check("d\n n\n :\n  cn=a\ncn: a\n", &["1 {cn=a} content cn=[a]"]);
    check("dn: cn=a,d\n c=b\ncn: a\n", &["1 {cn=a,dc=b} content cn=[a]"]);
    check("dn:: Y249\n YQ==\ncn: a\n", &["1 {cn=a} content cn=[a]"]);
    check("dn: cn=a\ncn: a\n b\nsn: c\n", &["1 {cn=a} content cn=[ab] sn=[c]"]);
    check_error(" dn: cn=a\ncn: a\n", 1, LdifReason::ContinuationWithoutLine);
}

#[test]
fn comments_may_stand_anywhere_and_continue() {
    check("# c\n more\n and more\ndn: cn=a\ncn: a\n", &["4 {cn=a} content cn=[a]"]);
    check("dn: cn=a\n# c\n dn: no\ncn: a\n", &["1 {cn=a} content cn=[a]"]);
    check("dn: cn=a\n#\n#\ncn: a\n#\n", &["1 {cn=a} content cn=[a]"]);
    check("#dn: cn=b\ndn: cn=a\n#cn: b\ncn: a", &["2 {cn=a} content cn=[a]"]);
    check("dn: cn=a\ncn: a # b\n", &["1 {cn=a} content cn=[a # b]"]);
    check(
        "dn: cn=a\n# c\nchangetype: modify\n# c\nadd: x\n# c\nx: 1\n# c\n-\n# c\n",
        &["1 {cn=a} modify Add(x [1])"],
    );
    check("dn: cn=a\ncn: a\n # not a comment\n", &["1 {cn=a} content cn=[a# not a comment]"]);
}

#[test]
fn values_stand_after_a_colon_and_spaces() {
    check_value("cn: a", "a");
    check_value("cn:a", "a");
    check_value("cn:     a", "a");
    check_value("cn:", "");
    check_value("cn: ", "");
    check_value("cn:    ", "");
    check_value("cn: a ", "a ");
    check_value("cn: a  b", "a  b");
    check_value("cn: :a", ":a");
    check_value("cn: <a", "<a");
    check_value("cn: a:b", "a:b");
    check_value("cn: a::b", "a::b");
    check_value("cn:\ta", "\ta");
    check_value("cn: {SSHA}x==", "{SSHA}x==");
    check_value("cn: -", "-");
    check_value("cn: ü", "ü");
    check_value("cn: 日本語", "日本語");
    check_value("CN;lang-de: a", "a");
    check_value("2.5.4.3: a", "a");
    check_value("changetype-x: a", "a");
    check(b"dn: cn=a\ncn: \xFF\xFE\n", &[r"1 {cn=a} content cn=[\xff\xfe]"]);
    check("dn: cn=a\ncn: a\rb\n", &[r"1 {cn=a} content cn=[a\rb]"]);
    check("dn: cn=a\r\ncn: a\r\r\n", &[r"1 {cn=a} content cn=[a\r]"]);
    check("dn: cn=a\ncn: a\0b\n", &[r"1 {cn=a} content cn=[a\x00b]"]);
    check("dn: cn=a\ncn: a", &["1 {cn=a} content cn=[a]"]);
    check(
        "dn: cn=a\r\ncn: a\r\n\r\ndn: cn=b\r\ncn: b",
        &["1 {cn=a} content cn=[a]", "4 {cn=b} content cn=[b]"],
    );
    check(
        "dn: cn=a\nobjectClass: x\nchangeType: modify\nDNx: y\n",
        &["1 {cn=a} content objectClass=[x] changeType=[modify] DNx=[y]"],
    );
}

#[test]
fn two_colons_mean_base64() {
    check_value("cn:: YQ==", "a");
    check_value("cn::YQ==", "a");
    check_value("cn::   YQ==", "a");
    check_value("cn:: YQ==  ", "a");
    check_value("cn:: YWI=", "ab");
    check_value("cn:: YWJj", "abc");
    check_value("cn::", "");
    check_value("cn:: ", "");
    check_value("cn:: AAECA/8=", [0, 1, 2, 3, 255]);
    check_value("cn:: IGE=", " a");
    check_value("cn:: CgoK", "\n\n\n");
    for bad in [
        "Y", "YQ===", "Y Q==", "Y===", "=", "====", "YQ==YQ==", "Y-Q_", "ü", "YQ=!", "YR==", "YWJ",
        "*", "<a", ": YQ==", "YQ==\tx", "YQ", "YQ=", "YWI", "YWJjYQ",
    ] {
        let text = format!("dn: cn=a\nsn: b\ncn:: {bad}\n");
        // Neither may padding be missing nor characters or bits be left over.
        check_error(text, 3, LdifReason::BadBase64);
    }
    check_error("dn:: !\ncn: a\n", 1, LdifReason::BadBase64);
}

#[test]
fn values_from_urls_are_refused() {
    for text in ["cn:< file:///etc/passwd", "cn:<file:///x", "cn:<", "cn:\n < http://x"] {
        check_error(format!("dn: cn=a\n{text}\n"), 2, LdifReason::Url);
    }
    check_error("dn:< file:///x\ncn: a\n", 1, LdifReason::Url);
    check_error(
        "dn: cn=a\ncontrol: 1.2.3 true:< file:///x\nchangetype: delete",
        2,
        LdifReason::Url,
    );
    assert!(LdifReason::Url.to_string().contains("'::'"));
}

#[test]
fn every_line_has_a_colon() {
    check_error("dn: cn=a\ncn\n", 2, LdifReason::MissingColon);
    check_error("dn: cn=a\ncn a\n", 2, LdifReason::MissingColon);
    check_error("dn\n", 1, LdifReason::MissingColon);
    check_error("dn cn=a\ncn: a\n", 1, LdifReason::MissingColon);
    check_error("dn: cn=a\ncn: a\nforgot the space\n", 3, LdifReason::MissingColon);
    check_error("dn: cn=a\ncn: a\n b\nc\n", 4, LdifReason::MissingColon);
    check_error("dn: cn=a\n\tcn\n", 2, LdifReason::MissingColon);
    check_error("dn: cn=a\n--\n", 2, LdifReason::MissingColon);
    check_error("garbage\nmore garbage\ndn: cn=a\n", 1, LdifReason::MissingColon);
    check_error("a line\n continued\nb\n", 1, LdifReason::MissingColon);
}

#[test]
fn attribute_descriptions_have_the_right_form() {
    for name in
        ["c n", "c_n", "1", "cn;", ";x", "cn;;x", "-cn", "cn ", "2.5.4.03", "cn=a", "*", "a.b"]
    {
        let reason = || LdifReason::BadDescription(name.to_owned());
        check_error(format!("dn: cn=a\nsn: b\n{name}: x\n"), 3, reason());
        check_error(format!("dn: cn=a\nchangetype: add\n{name}: x\n"), 3, reason());
        let modify = format!("dn: cn=a\nchangetype: modify\nreplace: {name}x y\n-\n");
        check_error(modify, 3, LdifReason::BadDescription(format!("{name}x y")));
    }
    check_error("dn: cn=a\n: x\n", 2, LdifReason::BadDescription(String::new()));
    check_error("dn: cn=a\nü: x\n", 2, LdifReason::BadDescription("ü".to_owned()));
    check_error(b"dn: cn=a\n\xFF: x\n", 2, LdifReason::BadDescription("\u{fffd}".to_owned()));
    check_error("dn: cn=a\n\tcn: x\n", 2, LdifReason::BadDescription("cn".to_owned()));
}

#[test]
fn a_record_begins_with_its_dn() {
    let missing = |found: &str| LdifReason::MissingDn(found.to_owned());
    check_error("cn: a\ndn: cn=a\n", 1, missing("cn"));
    check_error("# extended LDIF\n\nsearch: 2\nresult: 0 Success\n", 3, missing("search"));
    check_error("changetype: delete\n", 1, missing("changetype"));
    check_error("-\n", 1, missing("-"));
    check_error("\u{fc}: x\n", 1, missing("\u{fc}"));
    check("DN: cn=a\ncn: a\n", &["1 {cn=a} content cn=[a]"]);
    check("Dn:cn=a\ncn: a\n", &["1 {cn=a} content cn=[a]"]);
    check("dn:\nobjectClass: top\n", &["1 {} content objectClass=[top]"]);
    check("dn: \nobjectClass: top\n", &["1 {} content objectClass=[top]"]);
    check("dn: cn=ü\ncn: a\n", &["1 {cn=ü} content cn=[a]"]);
    check("dn:: Y249w7w=\ncn: a\n", &["1 {cn=ü} content cn=[a]"]);
    check("dn:: Y249YSA=\ncn: a\n", &["1 {cn=a } content cn=[a]"]);
    check_error(b"dn: cn=\xFF\ncn: a\n", 1, LdifReason::NotUtf8("DN"));
    check_error("dn:: /w==\ncn: a\n", 1, LdifReason::NotUtf8("DN"));
}

#[test]
fn an_entry_has_attributes() {
    check_error("dn: cn=a\n", 1, LdifReason::NoAttributes);
    check_error("\n\ndn: cn=a\n# c\n", 3, LdifReason::NoAttributes);
    check_error("dn: cn=a\nchangetype: add\n", 2, LdifReason::NoAttributes);
    check_error("dn: cn=a\ncn: a\n-\n", 3, LdifReason::UnexpectedSeparator);
    check_error("dn: cn=a\n-\n", 2, LdifReason::UnexpectedSeparator);
    check_error("dn: cn=a\nchangetype: add\ncn: a\n-\n", 4, LdifReason::UnexpectedSeparator);
}

#[test]
fn entries_and_changes_do_not_mix() {
    check(
        "dn: cn=a\ncn: a\n\ndn: cn=b\nchangetype: delete\n\ndn: cn=c\ncn: c\n",
        &[
            "1 {cn=a} content cn=[a]",
            "! line 4: a change record stands where an entry is expected: \
             entries and change records cannot be mixed",
            "7 {cn=c} content cn=[c]",
        ],
    );
    check(
        "dn: cn=b\nchangetype: delete\n\ndn: cn=a\ncn: a\n\ndn: cn=c\nchangetype: delete\n",
        &[
            "1 {cn=b} delete",
            "! line 4: 'changetype:' is missing: entries and change records cannot be mixed",
            "7 {cn=c} delete",
        ],
    );
}

#[test]
fn keywords_may_have_any_case() {
    check(
        "DN: cn=a\nChangeType: ADD\ncn: a\n\ndn: cn=a\nCHANGETYPE: Delete \n\n\
         dn: cn=a\nchangetype: MODRDN\nNewRDN: cn=b\nDeleteOldRDN: 1\nNewSuperior: c=x\n\n\
         dn: cn=a\nchangetype: ModDN\nnewrdn: cn=b\ndeleteoldrdn: 0 \n\n\
         dn: cn=a\nchangetype: Modify\nADD: cn\nCN: b\n-\nReplace: sn\nSN: c\n-\n",
        &[
            "1 {cn=a} add cn=[a]",
            "5 {cn=a} delete",
            "8 {cn=a} modrdn [cn=b] true [c=x]",
            "14 {cn=a} modrdn [cn=b] false [-]",
            "19 {cn=a} modify Add(cn [b]) Replace(sn [c])",
        ],
    );
}

#[test]
fn the_changetype_is_known() {
    let unknown = |found: &str| LdifReason::UnknownChangetype(found.to_owned());
    check_error("dn: cn=a\nchangetype: rename\n", 2, unknown("rename"));
    check_error("dn: cn=a\nchangetype:\n", 2, unknown(""));
    check_error("dn: cn=a\nchangetype: add delete\n", 2, unknown("add delete"));
    check("dn: cn=a\nchangetype:: ZGVsZXRl\n", &["1 {cn=a} delete"]);
    check_error(
        "dn: cn=a\nchangetype: delete\ncn: a\n",
        3,
        expected("an empty line after the change", "'cn:'"),
    );
    check_error(
        "dn: cn=a\nchangetype: delete\n-\n",
        3,
        expected("an empty line after the change", "'-'"),
    );
    check_error("dn: cn=a\nchangetype: add\nchangetype: add\ndn: x\n", 4, LdifReason::SecondDn);
}

#[test]
fn modifications_name_their_attribute() {
    check("dn: cn=a\nchangetype: modify\n", &["1 {cn=a} modify"]);
    check("dn: cn=a\nchangetype: modify\nadd: x\n", &["1 {cn=a} modify Add(x)"]);
    check("dn: cn=a\nchangetype: modify\nadd: x\nx: 1", &["1 {cn=a} modify Add(x [1])"]);
    check("dn: cn=a\nchangetype: modify\nadd: x\nx: 1\n- \n", &["1 {cn=a} modify Add(x [1])"]);
    check(
        "dn: cn=a\nchangetype: modify\nincrement: uidNumber\nuidNumber: 5\n-\n",
        &["1 {cn=a} modify Increment(uidNumber [5])"],
    );
    check(
        "dn: cn=a\nchangetype: modify\ndelete: x;lang-de\nx;LANG-DE: 1\nx;lang-de: \n-\n",
        &["1 {cn=a} modify Delete(x;lang-de [1] [])"],
    );
    check(
        "dn: cn=a\nchangetype: modify\nreplace: photo\nphoto:: AAE=\n-\nadd: add\nadd: add\n-\n",
        &[r"1 {cn=a} modify Replace(photo [\x00\x01]) Add(add [add])"],
    );
    check(
        "dn: cn=a\nchangetype: modify\nreplace: x \nx: 1\n-\ndelete: x\n-\ndelete: x\n-\n",
        &["1 {cn=a} modify Replace(x [1]) Delete(x) Delete(x)"],
    );
    let value = || expected("'x:' or '-'", "'y:'");
    check_error("dn: cn=a\nchangetype: modify\nadd: x\ny: 1\n-\n", 4, value());
    check_error("dn: cn=a\nchangetype: modify\nadd: x\nx: 1\ny: 1\n-\n", 5, value());
    check_error(
        "dn: cn=a\nchangetype: modify\nadd: x\nx: 1\nreplace: z\nz: 1\n-\n",
        5,
        expected("'x:' or '-'", "'replace:'"),
    );
    check_error(
        "dn: cn=a\nchangetype: modify\nadd: x\nx;lang-de: 1\n-\n",
        4,
        expected("'x:' or '-'", "'x;lang-de:'"),
    );
    let keyword = |found| expected("add:, delete:, replace: or increment:", found);
    check_error("dn: cn=a\nchangetype: modify\nx: 1\n", 3, keyword("'x:'"));
    check_error("dn: cn=a\nchangetype: modify\n-\n", 3, keyword("'-'"));
    check_error("dn: cn=a\nchangetype: modify\nadd: x\nx: 1\n-\n-\n", 6, keyword("'-'"));
    check_error("dn: cn=a\nchangetype: modify\nappend: x\nx: 1\n-\n", 3, keyword("'append:'"));
    check_error(
        "dn: cn=a\nchangetype: modify\nadd:\n-\n",
        3,
        LdifReason::BadDescription(String::new()),
    );
    check_error("dn: cn=a\nchangetype: modify\nadd:: /w==\n", 3, LdifReason::NotUtf8("attribute"));
}

#[test]
fn renames_say_what_becomes_of_the_old_name() {
    let text = |rest: &str| format!("dn: cn=a\nchangetype: modrdn\n{rest}");
    let end = "the end of the record";
    check_error(text(""), 2, expected("'newrdn:'", end));
    check_error(text("deleteoldrdn: 1\n"), 3, expected("'newrdn:'", "'deleteoldrdn:'"));
    check_error(text("newrdn: cn=b\n"), 2, expected("'deleteoldrdn:'", end));
    check_error(
        text("newrdn: cn=b\nnewsuperior: c=x\n"),
        4,
        expected("'deleteoldrdn:'", "'newsuperior:'"),
    );
    for bad in ["2", "", "true", "yes", "01", "1 1", "-1"] {
        let text = text(&format!("newrdn: cn=b\ndeleteoldrdn: {bad}\n"));
        check_error(text, 4, LdifReason::BadDeleteOldRdn);
    }
    check_error(
        text("newrdn: cn=b\ndeleteoldrdn: 1\ncn: b\n"),
        5,
        expected("'newsuperior:' or an empty line", "'cn:'"),
    );
    check_error(
        text("newrdn: cn=b\ndeleteoldrdn: 1\nnewsuperior: c=x\ncn: b\n"),
        6,
        expected("an empty line after the change", "'cn:'"),
    );
    check_error(text("newrdn:: /w==\n"), 3, LdifReason::NotUtf8("new RDN"));
    check_error(
        text("newrdn: cn=b\ndeleteoldrdn: 1\nnewsuperior:: /w==\n"),
        5,
        LdifReason::NotUtf8("new superior"),
    );
    check(
        text("newrdn:: Y249w7w=\ndeleteoldrdn: 1\nnewsuperior:: Yz3DvA==\n"),
        &["1 {cn=a} modrdn [cn=ü] true [c=ü]"],
    );
    check(
        text("newrdn: cn=b\ndeleteoldrdn: 0\nnewsuperior:\n"),
        &["1 {cn=a} modrdn [cn=b] false []"],
    );
}

#[test]
fn controls_have_an_oid_a_criticality_and_a_value() {
    let check_control = |control: &str, expected: &str| {
        check(
            format!("dn: cn=a\ncontrol: {control}\nchangetype: delete\n"),
            &[&format!("1 {{cn=a}} control({expected}) delete")],
        );
    };
    check_control("1.2.3", "1.2.3 false -");
    check_control("1.2.3 ", "1.2.3 false -");
    check_control("1.2.3 true", "1.2.3 true -");
    check_control("1.2.3  false ", "1.2.3 false -");
    check_control("1.2.3 TRUE", "1.2.3 true -");
    check_control("1.2.3 true: x", "1.2.3 true x");
    check_control("1.2.3 true:x", "1.2.3 true x");
    check_control("1.2.3: x", "1.2.3 false x");
    check_control("1.2.3 true: x: y", "1.2.3 true x: y");
    check_control("1.2.3 true:", "1.2.3 true ");
    check_control("1.2.3 false:: YWI=", "1.2.3 false ab");
    check_control("1.2.3:: /w==", r"1.2.3 false \xff");
    check_control("1.2.3 true::YWI=", "1.2.3 true ab");
    check(
        "dn: cn=a\ncontrol: 1.2 true\ncontrol: 1.3\nchangetype: add\ncn: a\n",
        &["1 {cn=a} control(1.2 true -) control(1.3 false -) add cn=[a]"],
    );
    for bad in ["", "x", "1", "cn true", "1.2 yes", "1.2 true true", "1.2 true x: y", ": x", "1.2x"]
    {
        let text = format!("dn: cn=a\ncontrol: {bad}\nchangetype: delete\n");
        check_error(text, 2, LdifReason::BadControl);
    }
    check_error("dn: cn=a\ncontrol: 1.2 true:: !\nchangetype: delete\n", 2, LdifReason::BadBase64);
    check_error("dn: cn=a\ncontrol: 1.2\n", 1, LdifReason::MissingChangetype);
    check_error("dn: cn=a\ncontrol: 1.2\ncn: a\n", 3, LdifReason::MissingChangetype);
}
