//! Any file gives the same records however it is cut into chunks, and they survive being written.
#![no_main]

use std::io::BufReader;

use ldap::ldif::{LdifBody, LdifError, LdifLimits, LdifReader, LdifReason, LdifRecord, LdifWriter};
use libfuzzer_sys::fuzz_target;

const LIMITS: LdifLimits =
    LdifLimits { line_length_max_bytes: 500, record_length_max_bytes: 1_000, record_lines_max: 50 };

fn read(text: &[u8], chunk: usize, limits: LdifLimits) -> Vec<Result<LdifRecord, LdifError>> {
    let mut reader = LdifReader::new(BufReader::with_capacity(chunk, text), limits);
    std::iter::from_fn(|| reader.next_record().transpose()).collect()
}

fuzz_target!(|text: &[u8]| {
    let records = read(text, 4096, LdifLimits::default());
    assert_eq!(read(text, 3, LdifLimits::default()), records);
    // With limits, an error may come at another chunk, but every reading ends.
    let _ = read(text, 7, LIMITS);

    // Changes among entries.
    let among = records.iter().filter_map(|record| record.as_ref().err());
    let among = among.filter(|error| error.reason == LdifReason::ChangeAmongEntries);
    let added: Vec<u64> = among.map(|error| error.line).collect();
    let good: Vec<LdifRecord> = records.into_iter().flatten().collect();
    for fold_columns in [0, 20] {
        let mut writer = LdifWriter::new(Vec::new(), fold_columns);
        for record in &good {
            writer.record(record).expect("memory takes all");
        }
        let written = writer.into_inner();
        assert!(written.is_ascii());
        let mut again: Vec<LdifRecord> = read(&written, 4096, LdifLimits::default())
            .into_iter()
            .map(|record| record.expect("a written record is read"))
            .collect();
        for (again, record) in again.iter_mut().zip(&good) {
            again.line = record.line;
        }
        assert_eq!(again, good);
    }

    // Entries borrowed from the buffer say the same.
    if good.iter().any(|record| matches!(record.body, LdifBody::Content(_))) {
        let mut reader = LdifReader::new(text, LdifLimits::default());
        let mut good = good.iter();
        loop {
            match reader.next_entry() {
                // Among entries only this reading takes what says that it is to be added.
                Ok(Some(entry))
                    if good.as_slice().first().is_none_or(|one| one.line != entry.line) =>
                {
                    assert!(added.contains(&entry.line));
                }
                Ok(Some(entry)) => {
                    let record = good.next().expect("there is one");
                    let LdifBody::Content(attributes) = &record.body else { panic!() };
                    let attributes = attributes.iter().map(|(name, value)| (&name[..], &value[..]));
                    assert!(record.dn == entry.dn && attributes.eq(entry.attributes()));
                }
                Ok(None) => break,
                Err(_) => {}
            }
        }
        assert!(good.next().is_none());
    }
});
