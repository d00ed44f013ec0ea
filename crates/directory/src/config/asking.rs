//! What the extended operations about the cluster share: their values are JSON, and they take a
//! privilege.

use aci::{Access, Privilege};
use ldap::result::ResultCode;
use serde::de::DeserializeOwned;

use crate::request::refusal::Refusal;

/// Refuses who has not the privilege `config-write`, which `what` needs.
pub(super) fn needs_config_write(access: &Access, what: &str) -> Result<(), Refusal> {
    needs(access, Privilege::ConfigWrite, what)
}

/// Refuses who has not the privilege that `what` needs.
pub(super) fn needs(access: &Access, privilege: Privilege, what: &str) -> Result<(), Refusal> {
    match access.has(privilege) {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            format!("{what} needs the privilege {}", privilege.name()),
        )),
    }
}

/// The value of a request, of so many bytes at the most; one that cannot be read `is_not` one.
pub(super) fn value<T: DeserializeOwned>(
    value: Option<&[u8]>,
    max_bytes: usize,
    is_not: &str,
) -> Result<T, Refusal> {
    let value = value.unwrap_or_default();
    if value.len() > max_bytes {
        return Err(malformed(format!("the value is longer than {max_bytes} bytes")));
    }
    serde_json::from_slice(value).map_err(|error| malformed(format!("the value {is_not}: {error}")))
}

/// The request is none.
pub(super) fn malformed(why: String) -> Refusal {
    Refusal::new(ResultCode::ProtocolError, why)
}
