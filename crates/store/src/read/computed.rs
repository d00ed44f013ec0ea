//! Attributes that are computed: who computes them knows the entries that have them.

use schema::{Assertion, EntryId};

use crate::error::StoreError;

/// Knows which entries have values of attributes that are computed: no index has them.
pub trait Computed {
    /// All entries that an assertion may be true of, in any order, and perhaps more. None where
    /// nobody knows, or they are more than `at_most`.
    ///
    /// # Errors
    /// As those of a plan.
    fn candidates(
        &self,
        assertion: &Assertion,
        at_most: u64,
    ) -> Result<Option<Vec<EntryId>>, StoreError>;
}
