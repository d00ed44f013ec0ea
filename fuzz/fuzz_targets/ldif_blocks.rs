//! However a file is cut into blocks, their readers find the entries and errors of one reader of
//! the whole file, with the same lines, and no limit lets a cutter run on.
#![no_main]

use ldap::ldif::{LdifBlocks, LdifEntry, LdifError, LdifLimits, LdifReader, SliceReader};
use libfuzzer_sys::fuzz_target;

const LIMITS: LdifLimits =
    LdifLimits { line_length_max_bytes: 50, record_length_max_bytes: 100, record_lines_max: 5 };

type Found = Result<(u64, String, Vec<(String, Vec<u8>)>), LdifError>;

fn found(entry: &LdifEntry<'_>) -> Found {
    let attributes = entry.attributes().map(|(name, value)| (name.to_owned(), value.to_vec()));
    Ok((entry.line, entry.dn.to_owned(), attributes.collect()))
}

fn whole(text: &[u8]) -> Vec<Found> {
    let mut reader = LdifReader::new(text, LdifLimits::default());
    let mut all = Vec::new();
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => all.push(found(&entry)),
            Ok(None) => return all,
            Err(error) => all.push(Err(error)),
        }
    }
}

fn in_blocks(text: &[u8], block_bytes: usize, limits: LdifLimits) -> Vec<Found> {
    let mut blocks = LdifBlocks::new(text, block_bytes, limits);
    let mut all = Vec::new();
    loop {
        let block = match blocks.next_block() {
            Ok(Some(block)) => block,
            Ok(None) => return all,
            Err(error) => {
                all.push(Err(error));
                continue;
            }
        };
        let mut reader = SliceReader::new(&block, limits);
        let mut records = 0;
        loop {
            match reader.next_entry() {
                Ok(Some(entry)) => all.push(found(&entry)),
                Ok(None) => break,
                Err(error) => all.push(Err(error)),
            }
            reader.skip_record();
            records += 1;
            assert!(block.text.get(reader.record_range()).is_some());
        }
        assert!(records <= block.record_count_max);
    }
}

fuzz_target!(|text: &[u8]| {
    // A file in UTF-16 ends the cutting at once.
    if !text.starts_with(b"\xFF\xFE") && !text.starts_with(b"\xFE\xFF") {
        let whole = whole(text);
        for block_bytes in [1, 7, 64, 4096] {
            assert_eq!(in_blocks(text, block_bytes, LdifLimits::default()), whole);
        }
    }
    for block_bytes in [1, 7, 64] {
        let _ = in_blocks(text, block_bytes, LIMITS);
    }
});
