//! What fuzz targets and tests share.
//!
//! Invariant: not linked into the product.

use crate::transport::check_message as check;

/// Reads octets as each message that a node may get; what is read writes and reads back the same.
///
/// # Panics
/// When it does not.
pub fn check_message(octets: &[u8]) {
    check(octets);
}
