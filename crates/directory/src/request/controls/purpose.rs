//! The operation purpose request control (UnboundID): why an update is made. The text is kept in
//! the change record; a control of a request that changes nothing has no effect.

use ldap::control_value::purpose::OperationPurpose;
use ldap::message::Control;
use ldap::result::ResultCode;

use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The OID of the control.
pub(super) use ldap::control_value::purpose::OID;

/// What the control is called.
pub(super) const NAME: &str = "the operation purpose control";

/// The longest text, in bytes.
const PURPOSE_MAX_BYTES: usize = 1_024;

/// The text; empty where there is none.
pub(super) fn read<'a>(control: &Control<'a>) -> Result<&'a str, Refusal> {
    let value = required(control, NAME)?;
    let asked = OperationPurpose::decode(value)
        .map_err(|_| malformed("the value of the operation purpose control is malformed"))?;
    let purpose = asked.purpose.unwrap_or_default().trim();
    if purpose.len() > PURPOSE_MAX_BYTES {
        let why = format!("the purpose of a request has at most {PURPOSE_MAX_BYTES} bytes");
        return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    }
    if purpose.chars().any(char::is_control) {
        let why = "the purpose of a request is one line, without characters for control";
        return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    }
    Ok(purpose)
}
