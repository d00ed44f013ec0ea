//! No message of a SASL exchange, no token and no stored key breaks its reader.
#![no_main]

use auth::is_well_formed;
use libfuzzer_sys::fuzz_target;

const KINDS: &[&str] = &[
    "PLAIN",
    "ANONYMOUS",
    "OAUTHBEARER",
    "SCRAM first",
    "SCRAM final",
    "SCRAM keys",
    "token",
];

fuzz_target!(|octets: &[u8]| {
    for kind in KINDS {
        let _ = is_well_formed(kind, octets);
    }
    // What has no NUL at all has no three parts.
    assert!(octets.contains(&0) || !is_well_formed("PLAIN", octets));
});
