//! Any octets are a record of an entry that can be walked to its last value, or are refused, and no
//! more memory is taken for them than they may need; compressed ones that were damaged among them.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use store::measure::{RecordReader, is_record};

/// What may be taken for a record of so many octets: a frame may repeat one octet many times.
const fn memory_max(row: usize) -> usize {
    2 * ((row << 16) + (1 << 20))
}

fuzz_target!(|bytes: &[u8]| {
    static READER: OnceLock<RecordReader> = OnceLock::new();
    let reader = READER.get_or_init(|| RecordReader::new().expect("the built-in schema"));
    let mut buffer = Vec::new();
    let _ = is_record(bytes, reader, &mut buffer);
    assert!(buffer.capacity() <= memory_max(bytes.len()));
    // A whole one, with some octets of it replaced.
    let Some((&[number, at, length], damage)) = bytes.split_first_chunk() else { return };
    let mut row = reader.compressed(u64::from(number));
    assert!(is_record(&row, reader, &mut buffer));
    let from = usize::from(at).min(row.len());
    let to = (from + usize::from(length)).min(row.len());
    row.splice(from..to, damage.iter().copied());
    let _ = is_record(&row, reader, &mut buffer);
    assert!(buffer.capacity() <= memory_max(row.len().max(bytes.len()).max(1 << 8)));
});
