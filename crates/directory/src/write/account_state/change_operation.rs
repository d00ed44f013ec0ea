//! An operation that changes the state of an account, as the request holds it.

use environment::Timestamp;

use crate::password_policy::{Account, PasswordPolicy};
use crate::request::refusal::Refusal;

/// An account being changed.
pub(crate) struct AccountChange<'a> {
    pub(super) account: &'a mut Account,
    pub(super) policy: &'a PasswordPolicy,
    pub(super) now: Timestamp,
}

/// An operation that changes something.
pub(crate) struct ChangeOperation {
    pub(super) number: u32,
    /// The number of what is told afterwards.
    pub(super) reports: u32,
    /// Changes the account as the values say.
    pub(super) change: fn(&mut AccountChange<'_>, &[String]) -> Result<(), Refusal>,
}
