//! What an LDIF file says, what it may not, and what is written.

mod examples;
mod form;
mod reading;
mod writing;

use std::io::BufReader;

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
