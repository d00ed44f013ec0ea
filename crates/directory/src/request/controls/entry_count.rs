//! The matching entry count control: a search tells how many entries it has, and returns none.

use ldap::message::Control;
use ldap::search_control::{EntryCount, EntryCountRequest, entry_count};

use super::value::{malformed, required};
use crate::request::controls::response::ResponseControl;
use crate::request::refusal::Refusal;

/// The OID of the request control.
pub(crate) const OID: &str = "1.3.6.1.4.1.30221.2.5.36";
/// The OID of the response control.
const RESPONSE: &str = "1.3.6.1.4.1.30221.2.5.37";

/// What the control is called.
pub(super) const NAME: &str = "the matching entry count control";

pub(super) fn read(control: &Control<'_>) -> Result<EntryCountRequest, Refusal> {
    EntryCountRequest::decode(required(control, NAME)?)
        .map_err(|_| malformed("the value of the matching entry count control is malformed"))
}

/// The response control.
pub(crate) fn response(count: EntryCount, debug: &[String], is_indexed: bool) -> ResponseControl {
    ResponseControl { oid: RESPONSE, value: Some(entry_count(count, debug, is_indexed)) }
}
