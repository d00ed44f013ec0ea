//! The authorization identity controls (RFC 3829): a bind answers who the client is now.

use aci::Identity;
use ldap::message::{Control, ControlsBuf};

/// The OID of the request control.
pub(crate) const REQUEST: &str = "2.16.840.1.113730.3.4.16";
/// The OID of the response control.
const RESPONSE: &str = "2.16.840.1.113730.3.4.15";

/// Adds the response control to those of a bind that succeeded.
pub(crate) fn add_to(controls: &mut ControlsBuf, identity: &Identity) {
    let name = identity.authorization_id();
    controls.push(Control { oid: RESPONSE, critical: false, value: Some(name.as_bytes()) });
}
