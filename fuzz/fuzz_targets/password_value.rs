//! Stored password values: reading one never fails loudly, never costs more than is allowed, and no
//! clear text that is made of the value itself is right, but for values without a scheme.

#![no_main]

use auth::password::{HashCostMax, Verdict, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stored: &[u8]| {
    let max = HashCostMax { blocks: 2_000, memory_bytes: 1 << 20, lanes: 4 };
    let none = HashCostMax { blocks: 0, memory_bytes: 0, lanes: 0 };
    let has_scheme = stored.first() == Some(&b'{') && stored.contains(&b'}');
    for clear in [stored, b"secret".as_slice(), b"".as_slice()] {
        let verdict = verify(stored, clear, &max);
        if has_scheme && clear == stored {
            assert_ne!(verdict, Verdict::Right, "the hash is not the password");
        }
        if has_scheme {
            assert_ne!(verify(stored, clear, &none), Verdict::Right);
        }
    }
});
