//! The pre-read and post-read controls (RFC 4527): an update tells what its target was before, or
//! is after it.

use ldap::control_value;
use ldap::message::Control;
use ldap::result::ResultCode;

use super::request::ReadRequest;
use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The OID of the pre-read controls, request and response.
pub(crate) const PRE_READ: &str = "1.3.6.1.1.13.1";
/// The OID of the post-read controls, request and response.
pub(crate) const POST_READ: &str = "1.3.6.1.1.13.2";

/// What each of them is called.
pub(super) const NAME: &str = "a read entry control";

pub(super) fn read<'a>(control: &Control<'a>) -> Result<ReadRequest<'a>, Refusal> {
    let attributes =
        control_value::attribute_selection(required(control, NAME)?).map_err(|_| {
            malformed("the value of a read entry control is not an attribute selection")
        })?;
    if attributes.iter().nth(NAMES_MAX).is_some() {
        return Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("a read entry control names at most {NAMES_MAX} attributes"),
        ));
    }
    Ok(ReadRequest { attributes, critical: control.critical })
}

/// Attributes that one control names at the most: they are kept while the update waits.
const NAMES_MAX: usize = 1_000;
