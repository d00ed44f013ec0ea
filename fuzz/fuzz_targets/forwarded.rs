//! Any octets are a request or an answer of another node that is written the same again, or are
//! refused.
#![no_main]

use directory::forward::answer::ForwardedAnswer;
use directory::forward::request::reads_as_written;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = reads_as_written(octets);
    if let Ok(answer) = ForwardedAnswer::decode(octets) {
        assert_eq!(answer.encode().as_slice(), octets, "what was read is written the same");
    }
});
