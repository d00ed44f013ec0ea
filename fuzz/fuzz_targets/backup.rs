//! Any octets are a part or a manifest of a backup, or are refused; a time that is read prints as
//! a text that is read the same.
#![no_main]

use offline::backup::{Manifest, Moment, PartReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    if let Ok(mut reader) = PartReader::new(octets) {
        let mut total = 0;
        while let Ok(Some(entry)) = reader.next_entry() {
            total += entry.payload.len();
        }
        assert!(total <= octets.len());
    }
    if let Ok(manifest) = Manifest::parse(octets) {
        assert!(manifest.last().lsn >= manifest.base.mark.lsn);
    }
    if let Ok(moment) = std::str::from_utf8(octets).unwrap_or_default().parse::<Moment>() {
        assert_eq!(moment.to_string().parse(), Ok(moment));
    }
});
