//! What is written, and that it is read back.

use proptest::prelude::*;

use super::*;

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
