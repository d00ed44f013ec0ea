//! Server-side sorting (RFC 2891): what entries are to be sorted by.

use ldap::ber::DecodeReason;
use ldap::control_value::sort::sort_keys;
use ldap::message::Control;

use super::request::SortRequest;
use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The request control's OID.
pub(crate) const OID: &str = "1.2.840.113556.1.4.473";

/// The octets of one prepared value that decide on its place: values that begin alike for so long
/// are equal.
pub(crate) const SORT_VALUE_MAX_BYTES: usize = 512;

/// The most octets of one value in the key of an entry: those of the value may all be zero.
pub(crate) const SORT_KEY_MAX_BYTES: usize = 1 + 2 * SORT_VALUE_MAX_BYTES + 2;

/// What the control is called.
pub(super) const NAME: &str = "the sort control";

pub(crate) fn read<'a>(control: &Control<'a>) -> Result<SortRequest<'a>, Refusal> {
    let keys = match sort_keys(required(control, NAME)?) {
        Ok(keys) => Some(keys),
        Err(error) if error.reason == DecodeReason::TooManyTerms => None,
        Err(_) => {
            return Err(malformed("the value of the sort control is not a list of sort keys"));
        }
    };
    Ok(SortRequest { keys, critical: control.critical })
}
