//! The read level control: how fresh the data must be that a search or a compare reads.

use ldap::control_value::read_level::ReadLevelRequest;
use ldap::message::Control;

use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// What the control is called.
pub(super) const NAME: &str = "the read level control";

/// In a box, since few requests have one.
pub(super) fn read<'a>(control: &Control<'a>) -> Result<Box<ReadLevelRequest<'a>>, Refusal> {
    ReadLevelRequest::decode(required(control, NAME)?)
        .map(Box::new)
        .map_err(|_| malformed("the value of the read level control is malformed"))
}
