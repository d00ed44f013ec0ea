//! The transaction specification control (RFC 5805 §2.2): an update belongs to a transaction.

use ldap::message::Control;

use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The OID of the control.
pub(crate) const SPECIFICATION: &str = "1.3.6.1.1.21.2";

/// The identifier of the transaction.
pub(super) fn read<'a>(control: &Control<'a>) -> Result<&'a [u8], Refusal> {
    required(control, NAME)
}

/// Refuses one that is not critical: a server that ignored it would make the update at once.
pub(super) fn check_critical(control: &Control<'_>) -> Result<(), Refusal> {
    match control.critical {
        true => Ok(()),
        false => Err(malformed("the transaction specification control must be critical")),
    }
}

/// What the control is called.
pub(super) const NAME: &str = "the transaction specification control";
