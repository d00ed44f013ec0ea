//! The subentries controls (RFC 3672 §3, and the LDUP draft before it): which of the two kinds of
//! entries a search is for.

use ldap::message::Control;
use ldap::search_control::subentries_visibility;

use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The control of RFC 3672.
pub(crate) const OID: &str = "1.3.6.1.4.1.4203.1.10.1";
/// The control of draft-ietf-ldup-subentry.
pub(crate) const LDUP: &str = "1.3.6.1.4.1.7628.5.101.1";

/// What the control is called.
pub(super) const NAME: &str = "the subentries control";

/// Whether only subentries are wanted.
pub(super) fn read(control: &Control<'_>) -> Result<bool, Refusal> {
    // Without a value, as the draft's clients send it, it asks for subentries.
    if control.oid == LDUP && control.value.is_none_or(<[u8]>::is_empty) {
        return Ok(true);
    }
    subentries_visibility(required(control, NAME)?)
        .map_err(|_| malformed("the value of the subentries control is not a boolean"))
}
