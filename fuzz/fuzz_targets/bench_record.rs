//! Any record of a run is refused or becomes a page that runs nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roster::bench::page::page;
use roster::bench::record::BenchRecord;

fuzz_target!(|octets: &[u8]| {
    let Ok(record) = BenchRecord::parse(octets) else { return };
    record.csv();
    let page = page(&[record.clone(), record], None).to_ascii_lowercase();
    for tag in ["<script", "<img", "<a ", "<iframe"] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert_eq!(page.matches("<style").count(), 1);
    assert!(page.ends_with("</html>"));
});
