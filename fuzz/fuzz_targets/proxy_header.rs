//! Headers of the PROXY protocol: never more than there is, never the client's octets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::ProxyHeader;

fuzz_target!(|octets: &[u8]| {
    match ProxyHeader::read(octets) {
        Ok(ProxyHeader::Incomplete { need_at_least }) => {
            assert!(need_at_least > octets.len() && need_at_least < 5_000);
        }
        Ok(whole @ ProxyHeader::Complete { length, .. }) => {
            let header = &octets[..length];
            assert_eq!(ProxyHeader::read(header), Ok(whole), "what follows does not count");
            // A reader that asks for what is needed gets there, and not beyond.
            let mut have = 0;
            while have < length {
                match ProxyHeader::read(&header[..have]) {
                    Ok(ProxyHeader::Incomplete { need_at_least }) => {
                        assert!(need_at_least <= length, "it would read the client's octets");
                        have = need_at_least;
                    }
                    other => panic!("{have} of {length} octets: {other:?}"),
                }
            }
        }
        Err(_) => {}
    }
});
