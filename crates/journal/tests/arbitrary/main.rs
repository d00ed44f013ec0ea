//! Segments of arbitrary bytes: see `image.rs`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod image;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bytes_never_panic(octets in prop::collection::vec(any::<u8>(), 0..600)) {
        image::check(&octets);
    }

    #[test]
    fn records_that_fit_together_never_panic(
        how in 2..4_u8,
        state in prop::collection::vec(0..4_u8, 13),
        rest in prop::collection::vec(prop_oneof![3 => 0..10_u8, 1 => any::<u8>()], 0..200),
    ) {
        // A state first, or the rest is hardly looked at.
        let mut octets = vec![how, 0, 6];
        octets.extend_from_slice(&state[..12]);
        octets.push(0);
        octets.extend_from_slice(&[state[12]; 3]);
        octets.extend_from_slice(&rest);
        image::check(&octets);
    }
}
