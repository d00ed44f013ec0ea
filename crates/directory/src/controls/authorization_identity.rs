//! The authorization identity controls (RFC 3829): a bind answers who the client is now.

use aci::Identity;
use ldap::message::{Control, ControlsBuf, DecodeLimits, Message, Response};
use ldap::result::ResultCode;

use super::{RequestControls, check_no_value};
use crate::refusal::Refusal;

/// The OID of the request control.
pub(crate) const REQUEST: &str = "2.16.840.1.113730.3.4.16";
/// The OID of the response control.
const RESPONSE: &str = "2.16.840.1.113730.3.4.15";

pub(super) fn take<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    taken.authorization_identity = true;
    check_no_value(control)
}

/// Adds the response control to the answer of a bind, which begins at `start`, if it succeeded.
pub(crate) fn add_to(out: &mut Vec<u8>, start: usize, identity: &Identity) {
    let answer = out.get(start..).unwrap_or_default().to_vec();
    let limits = DecodeLimits::default();
    let Ok(message) = Message::<Response<'_>>::decode(&answer, &limits) else { return };
    let Response::Bind { result, .. } = &message.op else { return };
    if result.code != ResultCode::Success {
        return;
    }
    let name = identity.authorization_id();
    let mut controls = ControlsBuf::new();
    for control in message.controls.iter() {
        controls.push(control);
    }
    controls.push(Control { oid: RESPONSE, critical: false, value: Some(name.as_bytes()) });
    out.truncate(start);
    Message { id: message.id, op: message.op, controls: controls.as_ref() }.encode(out);
}
