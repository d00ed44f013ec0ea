//! The subentries controls (RFC 3672 §3, and the LDUP draft before it): which of the two kinds of
//! entries a search is for.

use ldap::message::Control;
use ldap::search_control::subentries_visibility;

use super::{RequestControls, malformed};
use crate::request::refusal::Refusal;

/// The control of RFC 3672.
pub(crate) const OID: &str = "1.3.6.1.4.1.4203.1.10.1";
/// The control of draft-ietf-ldup-subentry.
pub(crate) const LDUP: &str = "1.3.6.1.4.1.7628.5.101.1";

pub(super) fn take<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    // Without a value, as the draft's clients send it, it asks for subentries.
    let value = control.value.filter(|value| control.oid != LDUP || !value.is_empty());
    let visibility = match value {
        None if control.oid == LDUP => true,
        None => return Err(malformed("the subentries control lacks its value")),
        Some(value) => subentries_visibility(value)
            .map_err(|_| malformed("the value of the subentries control is not a boolean"))?,
    };
    if taken.subentries.replace(visibility).is_some() {
        return Err(malformed("a subentries control was sent twice"));
    }
    Ok(())
}
