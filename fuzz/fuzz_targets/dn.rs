//! Any text is a DN that reads back as it was displayed, or fails at a place inside the text.
#![no_main]

use ldap::dn::{Dn, DnLimits, parse_dn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Dn::parse(text) {
        Ok(dn) => {
            let displayed = dn.to_string();
            let walked = parse_dn(text, DnLimits::default()).count();
            assert_eq!(walked, dn.rdns().iter().map(|rdn| rdn.avas().len()).sum::<usize>());
            // Escapes make a text longer, so the displayed one may be over the limit.
            let limits = DnLimits { length_max_bytes: usize::MAX, ..DnLimits::default() };
            let again: Result<Vec<_>, _> = parse_dn(&displayed, limits).collect();
            let again = again.expect("a displayed DN parses");
            let avas = dn.rdns().iter().flat_map(|rdn| rdn.avas());
            assert!(avas.eq(again.into_iter().map(ldap::dn::Ava::from).collect::<Vec<_>>().iter()));
        }
        Err(error) => assert!(error.offset <= text.len() && !error.to_string().is_empty()),
    }
});
