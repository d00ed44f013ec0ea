//! Reading entries while others are appended.

use crate::{Entry, JournalError};

/// The entries from an index up to the last one at the time of the call, in order.
///
/// Segments that are purged meanwhile stay readable through it.
#[derive(Debug)]
pub struct Entries {}

impl Iterator for Entries {
    type Item = Result<Entry, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}
