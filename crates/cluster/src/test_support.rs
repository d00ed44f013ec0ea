//! What fuzz targets and tests share.
//!
//! Invariant: not linked into the product.

use crate::changing;
use crate::copies::any;
use crate::transport::check_message as check;
use crate::verifying::message::{Answer, Asked};

/// Reads octets as each message that a node may get; what is read writes and reads back the same.
///
/// # Panics
/// When it does not.
pub fn check_message(octets: &[u8]) {
    check(octets);
}

/// Gives octets to the receiver of a copy, as messages about it: `copies/any.rs` says how.
///
/// # Panics
/// When the receiver takes for whole what is not.
pub fn check_copy(octets: &[u8]) {
    any::check(octets);
}

/// Reads octets as a change of the members, and as what came of one; what is read writes and reads
/// back the same.
///
/// # Panics
/// When it does not.
pub fn check_change(octets: &[u8]) {
    if let Ok(change) = changing::decode(octets) {
        let mut written = Vec::new();
        changing::encode(&change, &mut written);
        assert_eq!(changing::decode(&written), Ok(change));
    }
    if let Ok(outcome) = changing::decode_outcome(octets) {
        assert_eq!(changing::decode_outcome(&changing::encode_outcome(&outcome)), Ok(outcome));
    }
}

/// Reads octets as what members ask each other when their data are compared, and as the answer;
/// what is read writes and reads back the same.
///
/// # Panics
/// When it does not.
pub fn check_comparison(octets: &[u8]) {
    if let Ok(asked) = Asked::decode(octets) {
        let mut written = Vec::new();
        asked.encode(&mut written);
        assert_eq!(written, octets);
    }
    if let Ok(answer) = Answer::decode(octets) {
        assert_eq!(answer.encode(), octets);
    }
}
