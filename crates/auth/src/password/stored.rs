//! A stored password as its format reads it.

use super::cost::HashCost;

/// A stored value that was read.
pub(super) trait Stored {
    /// What verifying takes.
    fn cost(&self) -> HashCost;

    /// What tells it apart from a value of the same scheme with other costs.
    fn parameters(&self) -> Parameters;

    /// Whether `clear` is the password. Its cost was looked at.
    fn verify(&self, clear: &[u8]) -> bool;

    /// Whether it is as long, and of such letters, as its scheme writes it, where reading it did
    /// not look at that.
    fn is_whole(&self) -> bool {
        true
    }
}

/// Costs and layout of a value, as its scheme counts them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Parameters(pub(super) [u32; 4]);
