//! What an LDIF file says, what it may not, and what is written.

use std::io::{self, BufReader, Read};

use proptest::prelude::*;

use super::*;

fn escape(value: &[u8]) -> String {
    value.escape_ascii().to_string()
}

fn pairs(attributes: &[(String, Vec<u8>)]) -> String {
    attributes.iter().map(|(name, value)| format!(" {name}=[{}]", escape(value))).collect()
}

/// Shows a record on one line: its line, its DN in braces, and what it says.
fn show(record: &LdifRecord) -> String {
    let LdifRecord { line, dn, controls, body } = record;
    let controls: String = controls
        .iter()
        .map(|control| {
            let value = control.value.as_deref().map_or("-".to_owned(), escape);
            format!(" control({} {} {value})", control.oid, control.critical)
        })
        .collect();
    let body = match body {
        LdifBody::Content(attributes) => format!("content{}", pairs(attributes)),
        LdifBody::Change(LdifChange::Add(attributes)) => format!("add{}", pairs(attributes)),
        LdifBody::Change(LdifChange::Delete) => "delete".to_owned(),
        LdifBody::Change(LdifChange::Modify(modifications)) => {
            let modifications: String = modifications
                .iter()
                .map(|LdifModification { operation, description, values }| {
                    let values: String =
                        values.iter().map(|value| format!(" [{}]", escape(value))).collect();
                    format!(" {operation:?}({description}{values})")
                })
                .collect();
            format!("modify{modifications}")
        }
        LdifBody::Change(LdifChange::ModifyDn { new_rdn, delete_old_rdn, new_superior }) => {
            let superior = new_superior.as_deref().unwrap_or("-");
            format!("modrdn [{new_rdn}] {delete_old_rdn} [{superior}]")
        }
    };
    format!("{line} {{{dn}}}{controls} {body}")
}

fn read_all(text: &[u8], buffer_bytes: usize) -> Vec<Result<LdifRecord, LdifError>> {
    let source = BufReader::with_capacity(buffer_bytes, text);
    let mut reader = LdifReader::new(source, LdifLimits::default());
    std::iter::from_fn(|| reader.next_record().transpose()).collect()
}

/// Reads `text` and compares all records; a record that cannot be read shows as `! line N: why`.
#[track_caller]
fn check(text: impl AsRef<[u8]>, expected: &[&str]) {
    let text = text.as_ref();
    let records = read_all(text, 64 * 1024);
    let shown: Vec<String> = records
        .iter()
        .map(|record| match record {
            Ok(record) => show(record),
            Err(error) => format!("! {error}"),
        })
        .collect();
    assert_eq!(shown, expected, "\n{}", text.escape_ascii());
    // The way the source cuts its chunks changes nothing.
    for buffer_bytes in [1, 2, 3, 7] {
        assert_eq!(read_all(text, buffer_bytes), records, "in chunks of {buffer_bytes}");
    }
    // Neither does the end of line.
    if !text.contains(&b'\r') {
        let crlf = text.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
        assert_eq!(read_all(&crlf, 64 * 1024), records, "with CRLF");
    }
    // What was read can be written and read again.
    for fold_columns in [0, 2, 20, LDIF_FOLD_COLUMNS] {
        let written: Vec<_> = records.iter().flatten().cloned().collect();
        assert_eq!(write_and_read(&written, fold_columns), written, "folded at {fold_columns}");
    }
}

fn write(records: &[LdifRecord], fold_columns: usize) -> String {
    let mut writer = LdifWriter::new(Vec::new(), fold_columns);
    for record in records {
        writer.record(record).unwrap();
    }
    String::from_utf8(writer.into_inner()).unwrap()
}

/// Writes and reads records again; their lines are taken from the originals.
fn write_and_read(records: &[LdifRecord], fold_columns: usize) -> Vec<LdifRecord> {
    let text = write(records, fold_columns);
    assert!(text.is_ascii(), "{text}");
    if fold_columns > 0 {
        assert!(text.lines().all(|line| line.len() <= fold_columns), "{text}");
    }
    let mut again: Vec<_> =
        read_all(text.as_bytes(), 64 * 1024).into_iter().map(Result::unwrap).collect();
    for (again, record) in again.iter_mut().zip(records) {
        again.line = record.line;
    }
    again
}

/// Checks an entry `cn=a` with one attribute line.
#[track_caller]
fn check_value(line: &str, expected: impl AsRef<[u8]>) {
    let text = format!("dn: cn=a\n{line}\n");
    match read_all(text.as_bytes(), 64 * 1024).as_slice() {
        [Ok(LdifRecord { body: LdifBody::Content(attributes), .. })] => {
            assert_eq!(attributes.len(), 1, "{line:?}");
            assert_eq!(escape(&attributes[0].1), escape(expected.as_ref()), "{line:?}");
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

/// Checks that the first record fails at `line`, and that a good record after it is still read.
#[track_caller]
fn check_error(text: impl AsRef<[u8]>, line: u64, reason: LdifReason) {
    let text = [text.as_ref(), b"\n\ndn: cn=next\nchangetype: delete\n"].concat();
    for buffer_bytes in [1, 64 * 1024] {
        let mut reader = LdifReader::new(
            BufReader::with_capacity(buffer_bytes, &text[..]),
            LdifLimits::default(),
        );
        let error = LdifError { line, reason: reason.clone() };
        assert_eq!(reader.next_record(), Err(error), "{}", text.escape_ascii());
        reader.skip_record().unwrap();
        // A file of entries refuses the change record, but that is how far it comes.
        let next = match reader.next_record() {
            Ok(Some(record)) => record.dn,
            Err(error) if error.reason == LdifReason::ChangeAmongEntries => "cn=next".to_owned(),
            other => panic!("{other:?}: {}", text.escape_ascii()),
        };
        assert_eq!(next, "cn=next", "{}", text.escape_ascii());
    }
}

fn expected(expected: &str, found: &str) -> LdifReason {
    LdifReason::Expected { expected: expected.to_owned(), found: found.to_owned() }
}

#[test]
fn example_1_two_entries() {
    check(
        "version: 1\n\
         dn: cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com\n\
         objectclass: top\n\
         objectclass: person\n\
         objectclass: organizationalPerson\n\
         cn: Barbara Jensen\n\
         cn: Barbara J Jensen\n\
         cn: Babs Jensen\n\
         sn: Jensen\n\
         uid: bjensen\n\
         telephonenumber: +1 408 555 1212\n\
         description: A big sailing fan.\n\
         \n\
         dn: cn=Bjorn Jensen, ou=Accounting, dc=airius, dc=com\n\
         objectclass: top\n\
         objectclass: person\n\
         objectclass: organizationalPerson\n\
         cn: Bjorn Jensen\n\
         sn: Jensen\n\
         telephonenumber: +1 408 555 1212\n",
        &[
            "2 {cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com} content \
             objectclass=[top] objectclass=[person] objectclass=[organizationalPerson] \
             cn=[Barbara Jensen] cn=[Barbara J Jensen] cn=[Babs Jensen] sn=[Jensen] \
             uid=[bjensen] telephonenumber=[+1 408 555 1212] description=[A big sailing fan.]",
            "14 {cn=Bjorn Jensen, ou=Accounting, dc=airius, dc=com} content objectclass=[top] \
             objectclass=[person] objectclass=[organizationalPerson] cn=[Bjorn Jensen] \
             sn=[Jensen] telephonenumber=[+1 408 555 1212]",
        ],
    );
}

#[test]
fn example_2_a_folded_value_and_no_spaces_after_colons() {
    check(
        "version: 1\n\
         dn:cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com\n\
         objectclass:top\n\
         cn:Barbara Jensen\n\
         telephonenumber:+1 408 555 1212\n\
         description:Babs is a big sailing fan, and travels extensively in sea\n \
          rch of perfect sailing conditions.\n\
         title:Product Manager, Rod and Reel Division\n",
        &["2 {cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com} content \
           objectclass=[top] cn=[Barbara Jensen] telephonenumber=[+1 408 555 1212] \
           description=[Babs is a big sailing fan, and travels extensively in sea\
           rch of perfect sailing conditions.] \
           title=[Product Manager, Rod and Reel Division]"],
    );
}

#[test]
fn example_3_a_base64_value() {
    check(
        "version: 1\n\
         dn: cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com\n\
         cn: Gern Jensen\n\
         description:: V2hhdCBhIGNhcmVmdWwgcmVhZGVyIHlvdSBhcmUhICBUaGlzIHZhbHVl\n \
          IGlzIGJhc2UtNjQtZW5jb2RlZCBiZWNhdXNlIGl0IGhhcyBhIGNvbnRyb2wgY2hhcmFjdG\n \
          VyIGluIGl0IChhIENSKS4NICBCeSB0aGUgd2F5LCB5b3Ugc2hvdWxkIHJlYWxseSBnZXQg\n \
          b3V0IG1vcmUu\n",
        &["2 {cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com} content \
           cn=[Gern Jensen] description=[What a careful reader you are!  This value is \
           base-64-encoded because it has a control character in it (a CR).\\r  By the way, \
           you should really get out more.]"],
    );
}

#[test]
fn example_4_utf_8_and_comments() {
    check(
        "version: 1\n\
         dn:: b3U95Za25qWt6YOoLG89QWlyaXVz\n\
         # dn:: ou=<JapaneseOU>,o=Airius\n\
         objectclass: top\n\
         objectclass: organizationalUnit\n\
         ou:: 5Za25qWt6YOo\n\
         # ou:: <JapaneseOU>\n\
         ou;lang-ja:: 5Za25qWt6YOo\n\
         # ou;lang-ja:: <JapaneseOU>\n\
         ou;lang-ja;phonetic:: 44GI44GE44GO44KH44GG44G2\n\
         # ou;lang-ja:: <JapaneseOU_in_phonetic_representation>\n\
         ou;lang-en: Sales\n\
         description: Japanese office\n\
         \n\
         dn:: dWlkPXJvZ2FzYXdhcmEsb3U95Za25qWt6YOoLG89QWlyaXVz\n\
         # dn:: uid=<uid>,ou=<JapaneseOU>,o=Airius\n\
         userpassword: {SHA}O3HSv1MusyL4kTjP+HKI5uxuNoM=\n\
         objectclass: inetOrgPerson\n\
         uid: rogasawara\n\
         cn;lang-ja:: 5bCP56yg5Y6fIOODreODieODi+ODvA==\n\
         title;lang-en: Sales, Director\n",
        &[
            concat!(
                r"2 {ou=営業部,o=Airius} content objectclass=[top] ",
                r"objectclass=[organizationalUnit] ou=[\xe5\x96\xb6\xe6\xa5\xad\xe9\x83\xa8] ",
                r"ou;lang-ja=[\xe5\x96\xb6\xe6\xa5\xad\xe9\x83\xa8] ",
                r"ou;lang-ja;phonetic=[\xe3\x81\x88\xe3\x81\x84",
                r"\xe3\x81\x8e\xe3\x82\x87\xe3\x81\x86\xe3\x81\xb6] ",
                r"ou;lang-en=[Sales] description=[Japanese office]",
            ),
            concat!(
                r"15 {uid=rogasawara,ou=営業部,o=Airius} content ",
                r"userpassword=[{SHA}O3HSv1MusyL4kTjP+HKI5uxuNoM=] ",
                r"objectclass=[inetOrgPerson] uid=[rogasawara] ",
                r"cn;lang-ja=[\xe5\xb0\x8f\xe7\xac\xa0\xe5\x8e\x9f ",
                r"\xe3\x83\xad\xe3\x83\x89\xe3\x83\x8b\xe3\x83\xbc] title;lang-en=[Sales, ",
                r"Director]",
            ),
        ],
    );
}

#[test]
fn example_5_a_value_from_a_url_is_refused() {
    check_error(
        "version: 1\n\
         dn: cn=Horatio Jensen, ou=Product Testing, dc=airius, dc=com\n\
         objectclass: top\n\
         cn: Horatio Jensen\n\
         jpegphoto:< file:///usr/local/directory/photos/hjensen.jpg\n",
        5,
        LdifReason::Url,
    );
}

#[test]
fn example_6_change_records() {
    check(
        "version: 1\n\
         # Add a new entry\n\
         dn: cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com\n\
         changetype: add\n\
         objectclass: top\n\
         cn: Fiona Jensen\n\
         uid: fiona\n\
         \n\
         # Delete an existing entry\n\
         dn: cn=Robert Jensen, ou=Marketing, dc=airius, dc=com\n\
         changetype: delete\n\
         \n\
         # Modify an entry's relative distinguished name\n\
         dn: cn=Paul Jensen, ou=Product Development, dc=airius, dc=com\n\
         changetype: modrdn\n\
         newrdn: cn=Paula Jensen\n\
         deleteoldrdn: 1\n\
         \n\
         # Rename an entry and move all of its children to a new location in\n\
         # the directory tree (only implemented by LDAPv3 servers).\n\
         dn: ou=PD Accountants, ou=Product Development, dc=airius, dc=com\n\
         changetype: modrdn\n\
         newrdn: ou=Product Development Accountants\n\
         deleteoldrdn: 0\n\
         newsuperior: ou=Accounting, dc=airius, dc=com\n\
         \n\
         # Modify an entry: add an additional value to the postaladdress\n\
         # attribute, completely delete the description attribute, replace\n\
         # the telephonenumber attribute with two values, and delete a specific\n\
         # value from the facsimiletelephonenumber attribute\n\
         dn: cn=Paula Jensen, ou=Product Development, dc=airius, dc=com\n\
         changetype: modify\n\
         add: postaladdress\n\
         postaladdress: 123 Anystreet $ Sunnyvale, CA $ 94086\n\
         -\n\
         delete: description\n\
         -\n\
         replace: telephonenumber\n\
         telephonenumber: +1 408 555 1234\n\
         telephonenumber: +1 408 555 5678\n\
         -\n\
         delete: facsimiletelephonenumber\n\
         facsimiletelephonenumber: +1 408 555 9876\n\
         -\n\
         \n\
         # Modify an entry: replace the postaladdress attribute with an empty\n\
         # set of values (which will cause the attribute to be removed), and\n\
         # delete the entire description attribute. Note that the first will\n\
         # always succeed, while the second will only succeed if at least\n\
         # one value for the description attribute is present.\n\
         dn: cn=Ingrid Jensen, ou=Product Support, dc=airius, dc=com\n\
         changetype: modify\n\
         replace: postaladdress\n\
         -\n\
         delete: description\n\
         -\n",
        &[
            "3 {cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com} add objectclass=[top] \
             cn=[Fiona Jensen] uid=[fiona]",
            "10 {cn=Robert Jensen, ou=Marketing, dc=airius, dc=com} delete",
            "14 {cn=Paul Jensen, ou=Product Development, dc=airius, dc=com} \
             modrdn [cn=Paula Jensen] true [-]",
            "21 {ou=PD Accountants, ou=Product Development, dc=airius, dc=com} \
             modrdn [ou=Product Development Accountants] false \
             [ou=Accounting, dc=airius, dc=com]",
            "31 {cn=Paula Jensen, ou=Product Development, dc=airius, dc=com} modify \
             Add(postaladdress [123 Anystreet $ Sunnyvale, CA $ 94086]) \
             Delete(description) \
             Replace(telephonenumber [+1 408 555 1234] [+1 408 555 5678]) \
             Delete(facsimiletelephonenumber [+1 408 555 9876])",
            "51 {cn=Ingrid Jensen, ou=Product Support, dc=airius, dc=com} modify \
             Replace(postaladdress) Delete(description)",
        ],
    );
}

#[test]
fn example_7_a_control() {
    check(
        "version: 1\n\
         # Delete an entry. The operation will attach the LDAPv3\n\
         # Tree Delete Control defined in [9]. The criticality\n\
         # field is \"true\" and the controlValue field is\n\
         # absent, as required by [9].\n\
         dn: ou=Product Development, dc=airius, dc=com\n\
         control: 1.2.840.113556.1.4.805 true\n\
         changetype: delete\n",
        &["6 {ou=Product Development, dc=airius, dc=com} \
           control(1.2.840.113556.1.4.805 true -) delete"],
    );
}

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
    check_value("cn:: YQ", "a");
    check_value("cn:: YQ=", "a");
    check_value("cn:: YWI=", "ab");
    check_value("cn:: YWI", "ab");
    check_value("cn:: YWJj", "abc");
    check_value("cn::", "");
    check_value("cn:: ", "");
    check_value("cn:: AAECA/8=", [0, 1, 2, 3, 255]);
    check_value("cn:: IGE=", " a");
    check_value("cn:: CgoK", "\n\n\n");
    for bad in [
        "Y", "YQ===", "Y Q==", "Y===", "=", "====", "YQ==YQ==", "Y-Q_", "ü", "YQ=!", "YR==", "YWJ",
        "*", "<a", ": YQ==", "YQ==\tx",
    ] {
        let text = format!("dn: cn=a\nsn: b\ncn:: {bad}\n");
        // Padding may be missing, but neither characters nor bits may be left over.
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

#[test]
fn reading_goes_on_after_an_error() {
    let text = "dn: cn=a\ncn: a\n\nbad line\ncn: x\n\ndn: cn=b\ncn:: !\nsn: b\n y\n\n\n\
                dn: cn=c\n\n x\ny: z\n\ndn: cn=d\ncn: d\n";
    check(
        text,
        &[
            "1 {cn=a} content cn=[a]",
            "! line 4: ':' is missing: write 'attribute: value', \
             and begin the continuation of a long line with a space",
            "! line 8: the text after '::' is not valid base64",
            "! line 13: the entry has no attributes",
            "! line 15: the line begins with a space but there is no line before it to continue",
            "18 {cn=d} content cn=[d]",
        ],
    );
    // The same when the caller skips by hand: it is never one record too many.
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let mut dns = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => dns.push(record.dn),
            Ok(None) => break,
            Err(_) => reader.skip_record().unwrap(),
        }
    }
    assert_eq!(dns, ["cn=a", "cn=d"]);
}

#[test]
fn entries_can_be_borrowed() {
    let text = "dn: cn=a\ncn: a\nsn:: YWI=\n\ndn: cn=b\nchangetype: delete\n\n\
                dn: cn=c\nc_n: x\n\ndn: cn=d\nCN:\n";
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!((entry.line, entry.dn), (1, "cn=a"));
    let attributes: Vec<_> = entry.attributes().collect();
    assert_eq!(attributes, [("cn", &b"a"[..]), ("sn", &b"ab"[..])]);
    let error = reader.next_entry().map(|_| ()).unwrap_err();
    assert_eq!((error.line, error.reason), (5, LdifReason::ChangeOfEntry("delete".to_owned())));
    let error = reader.next_entry().map(|_| ()).unwrap_err();
    assert_eq!(error.line, 9);
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!(entry.attributes().collect::<Vec<_>>(), [("CN", &b""[..])]);
    assert!(reader.next_entry().unwrap().is_none());
    assert!(reader.next_entry().unwrap().is_none());
    assert_eq!(reader.line(), 12);
}

#[test]
fn limits_hold() {
    let limits =
        LdifLimits { line_length_max_bytes: 20, record_length_max_bytes: 50, record_lines_max: 4 };
    let read = |text: &str| {
        let mut results = Vec::new();
        for buffer_bytes in [1, 16, 4096] {
            let source = BufReader::with_capacity(buffer_bytes, text.as_bytes());
            let mut reader = LdifReader::new(source, limits);
            let first = reader.next_record().map(|record| record.unwrap().dn);
            let second = reader.next_record().map(|record| record.unwrap().dn);
            assert_eq!(second.unwrap(), "cn=n", "in chunks of {buffer_bytes}");
            results.push(first);
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        results.remove(0).map_err(|error| (error.line, error.reason))
    };
    let next = "\n\ndn: cn=n\ncn: n\n";
    let line = |length: usize| format!("cn: {}", "x".repeat(length - 4));

    assert!(read(&format!("dn: cn=a\n{}{next}", line(20))).is_ok());
    let too_long = LdifReason::LineTooLong { max_bytes: 20 };
    assert_eq!(read(&format!("dn: cn=a\n{}{next}", line(21))), Err((2, too_long.clone())));
    let long = "x".repeat(1000);
    assert_eq!(read(&format!("dn: cn=a\ncn: {long}{next}")), Err((2, too_long.clone())));
    // Folding does not help.
    let folded = format!("dn: cn=a\n{}\n {}{next}", line(20), "x");
    assert_eq!(read(&folded), Err((3, too_long.clone())));
    let folded = format!("dn: cn=a\ncn: x{}{next}", "\n x".repeat(1000));
    assert_eq!(read(&folded), Err((18, too_long.clone())));
    assert_eq!(read(&format!("# {long}\n{next}")), Err((1, too_long)));

    let ten = line(10);
    assert!(read(&format!("dn: cn=a\n{ten}\n{ten}\n{ten}{next}")).is_ok());
    let too_many = LdifReason::TooManyLines { max: 4 };
    assert_eq!(read(&format!("dn: cn=a\n{}{next}", "a:\n".repeat(4))), Err((5, too_many)));
    let too_long = LdifReason::RecordTooLong { max_bytes: 50 };
    let text = format!("dn: cn=a\n{0}\n{0}\n{0}{next}", line(20));
    assert_eq!(read(&text), Err((4, too_long)));
}

#[test]
fn long_lines_are_read_whole() {
    let value = "0123456789abcdef".repeat(100_000);
    let text = format!("dn: cn=a\ncn: {value}\nsn: b\n");
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let entry = reader.next_entry().unwrap().unwrap();
    let attributes: Vec<_> = entry.attributes().collect();
    assert_eq!(attributes, [("cn", value.as_bytes()), ("sn", b"b")]);
}

/// Fails after its text, as a disk may.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("disk on fire")),
            length => Ok(length),
        }
    }
}

#[test]
fn a_failing_source_is_an_error_not_an_end() {
    for text in ["", "dn: cn=a\ncn: a\n", "dn: cn=a\ncn: a", "dn: cn=a\nbad\n", "# c"] {
        let mut reader =
            LdifReader::new(BufReader::new(Broken(text.as_bytes())), LdifLimits::default());
        let mut error = reader.next_record().unwrap_err();
        if error.reason == LdifReason::MissingColon {
            error = reader.next_record().unwrap_err();
        }
        assert_eq!(error.reason, LdifReason::Io("disk on fire".to_owned()), "{text:?}");
    }
}

#[test]
fn messages_are_short_and_printable() {
    let text = format!("{}\x07\u{200b}: x\n", "x".repeat(10_000));
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let message = reader.next_record().unwrap_err().to_string();
    assert!(message.len() < 200, "{message}");
    assert!(!message.contains(|c: char| c.is_control()), "{message}");
}

#[track_caller]
fn check_written(value: impl AsRef<[u8]>, expected: &str) {
    let mut writer = LdifWriter::new(Vec::new(), 0);
    writer.attribute("cn", value.as_ref()).unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    assert_eq!(text, format!("{expected}\n"));
}

#[test]
fn values_are_written_plain_where_the_rfc_allows() {
    check_written("a", "cn: a");
    check_written("", "cn:");
    check_written("a b", "cn: a b");
    check_written("a:b", "cn: a:b");
    check_written("a<b", "cn: a<b");
    check_written("#a", "cn: #a");
    check_written("-", "cn: -");
    check_written("\t\x7f", "cn: \t\x7f");
    check_written(" a", "cn:: IGE=");
    check_written("a ", "cn:: YSA=");
    check_written(" ", "cn:: IA==");
    check_written(":a", "cn:: OmE=");
    check_written("<a", "cn:: PGE=");
    check_written("a\n", "cn:: YQo=");
    check_written("a\rb", "cn:: YQ1i");
    check_written("a\0", "cn:: YQA=");
    check_written("ä", "cn:: w6Q=");
    check_written(b"\xFF", "cn:: /w==");
}

#[test]
fn lines_are_folded_at_the_column_asked_for() {
    let fold = |value: &str, columns| {
        let mut writer = LdifWriter::new(Vec::new(), columns);
        writer.attribute("cn", value.as_bytes()).unwrap();
        String::from_utf8(writer.into_inner()).unwrap()
    };
    assert_eq!(fold("abcdefghij", 0), "cn: abcdefghij\n");
    assert_eq!(fold("abcdefghij", 14), "cn: abcdefghij\n");
    assert_eq!(fold("abcdefghij", 13), "cn: abcdefghi\n j\n");
    assert_eq!(fold("abcdefghij", 8), "cn: abcd\n efghij\n");
    assert_eq!(fold("abcdefghij", 7), "cn: abc\n defghi\n j\n");
    assert_eq!(fold("abc", 2), "cn\n :\n  \n a\n b\n c\n");
    assert_eq!(fold("abc", 1), fold("abc", 2));
}

#[test]
fn a_file_is_written_piece_by_piece() {
    let mut writer = LdifWriter::new(Vec::new(), LDIF_FOLD_COLUMNS);
    writer.version().unwrap();
    writer.comment("two\nlines\r!").unwrap();
    writer.dn("cn=ü").unwrap();
    writer.attribute("cn", "ü".as_bytes()).unwrap();
    writer.attribute("sn", b"x").unwrap();
    writer.end_record().unwrap();
    writer.dn("").unwrap();
    writer.attribute("objectClass", b"top").unwrap();
    writer.end_record().unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    assert_eq!(
        text,
        "version: 1\n\n# two\n# lines !\ndn:: Y249w7w=\ncn:: w7w=\nsn: x\n\n\
         dn:\nobjectClass: top\n\n"
    );
    check(text, &[r"5 {cn=ü} content cn=[\xc3\xbc] sn=[x]", "9 {} content objectClass=[top]"]);
}

fn description() -> impl Strategy<Value = String> {
    "[a-z][a-zA-Z0-9-]{0,6}(;[a-z-]{1,4}){0,2}".prop_filter("not a keyword", |name| {
        !["dn", "changetype", "control"].iter().any(|keyword| name.eq_ignore_ascii_case(keyword))
    })
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![any::<Vec<u8>>(), "[ -~]{0,100}".prop_map(String::into_bytes)]
}

fn attributes() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    proptest::collection::vec((description(), value()), 1..5)
}

fn change_strategy() -> impl Strategy<Value = LdifChange> {
    let operation = proptest::sample::select(vec![
        ModifyOperation::Add,
        ModifyOperation::Delete,
        ModifyOperation::Replace,
        ModifyOperation::Increment,
    ]);
    let modification =
        (operation, description(), proptest::collection::vec(value(), 0..3)).prop_map(
            |(operation, description, values)| LdifModification { operation, description, values },
        );
    prop_oneof![
        attributes().prop_map(LdifChange::Add),
        Just(LdifChange::Delete),
        proptest::collection::vec(modification, 0..4).prop_map(LdifChange::Modify),
        (any::<String>(), any::<bool>(), proptest::option::of(any::<String>())).prop_map(
            |(new_rdn, delete_old_rdn, new_superior)| LdifChange::ModifyDn {
                new_rdn,
                delete_old_rdn,
                new_superior
            }
        ),
    ]
}

fn records() -> impl Strategy<Value = Vec<LdifRecord>> {
    let control = ("[0-2](\\.[1-9]{1,3}){1,3}", any::<bool>(), proptest::option::of(value()))
        .prop_map(|(oid, critical, value)| LdifControl { oid, critical, value });
    let controls = proptest::collection::vec(control, 0..3);
    let entry = (any::<String>(), attributes()).prop_map(|(dn, attributes)| LdifRecord {
        line: 0,
        dn,
        controls: Vec::new(),
        body: LdifBody::Content(attributes),
    });
    let change =
        (any::<String>(), controls, change_strategy()).prop_map(|(dn, controls, change)| {
            LdifRecord { line: 0, dn, controls, body: LdifBody::Change(change) }
        });
    prop_oneof![proptest::collection::vec(entry, 0..4), proptest::collection::vec(change, 0..4)]
}

proptest! {
    #[test]
    fn written_records_read_back(records in records(), fold_columns in 0usize..100) {
        prop_assume!(fold_columns != 1);
        prop_assert_eq!(write_and_read(&records, fold_columns), records);
    }

    #[test]
    fn any_text_is_read_the_same_in_any_chunks_and_ends(
        text in "((dn|cn|-|changetype|add|version|#|control|[a ])(:|::|:<|)( |)\
                 (1|modify|add|cn=a|YQ==|)\r?\n(\n|)){0,12}",
        buffer_bytes in 1usize..9,
    ) {
        let records = read_all(text.as_bytes(), buffer_bytes);
        prop_assert_eq!(&records, &read_all(text.as_bytes(), 4096));
        let lines = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
        for error in records.iter().filter_map(|record| record.as_ref().err()) {
            prop_assert!(error.line >= 1 && error.line <= lines, "{}", error);
        }
    }
}
