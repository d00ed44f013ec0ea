//! Any octets are a change record that is written and read back the same, or are refused at a
//! place inside them; what needs no schema agrees with what does.
#![no_main]

use history::record::{Record, RecordError, RecordHead};
use libfuzzer_sys::fuzz_target;
use schema::Schema;

fuzz_target!(|bytes: &[u8]| {
    let head = RecordHead::read(bytes);
    match Record::decode(bytes, &Schema::builtin()) {
        Ok(record) => {
            let head = head.expect("a whole record has a head");
            assert_eq!((head.lsn, head.prev_hash), (record.lsn, record.prev_hash));
            let mut again = Vec::new();
            record.encode(&mut again).expect("what was decoded is not too long");
            let read = Record::decode(&again, &Schema::builtin());
            assert_eq!(read.as_ref(), Ok(&record));
        }
        Err(RecordError::Malformed { offset, .. }) => assert!(offset <= bytes.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
