//! Attributes that are computed: who computes them knows the entries that have them.

use schema::{Assertion, AttributeDescription, EntryId};

use crate::error::StoreError;

/// Entries that have a value of an attribute that is computed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ComputedCandidates {
    /// In any order; all that have it are among them.
    pub ids: Vec<EntryId>,
    /// No others are.
    pub exact: bool,
}

/// Knows which entries have values of attributes that are computed: no index has them.
pub trait Computed {
    /// Whether it knows an attribute. Looking for those that have a value of it may take long.
    fn computes(&self, asked: &AttributeDescription) -> bool;

    /// The entries that an assertion is true of. None where nobody knows, or they are more than
    /// `at_most`.
    ///
    /// # Errors
    /// As those of a plan.
    fn candidates(
        &self,
        assertion: &Assertion,
        at_most: u64,
    ) -> Result<Option<ComputedCandidates>, StoreError>;
}
