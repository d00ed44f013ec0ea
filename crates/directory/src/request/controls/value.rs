//! What the values of controls have in common: they are there or not, and once.

use ldap::message::Control;
use ldap::result::ResultCode;

use crate::request::refusal::Refusal;

/// The refusal of a control whose value is not as it has to be.
pub(super) fn malformed(what: &'static str) -> Refusal {
    Refusal::new(ResultCode::ProtocolError, what)
}

/// A control that says all by being there. Microsoft's clients send an empty value.
pub(super) fn check_no_value(control: &Control<'_>) -> Result<(), Refusal> {
    if control.value.is_some_and(|value| !value.is_empty()) {
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            format!("control {} has no value", control.oid),
        ));
    }
    Ok(())
}

/// The value of a control that needs one; `name` is what the control is called.
pub(super) fn required<'a>(control: &Control<'a>, name: &str) -> Result<&'a [u8], Refusal> {
    control
        .value
        .ok_or_else(|| Refusal::new(ResultCode::ProtocolError, format!("{name} lacks its value")))
}

/// Fills a field with what was read of a control, unless one of its kind was read before.
pub(super) fn once<T>(
    field: &mut Option<T>,
    name: &str,
    read: impl FnOnce() -> Result<T, Refusal>,
) -> Result<(), Refusal> {
    if field.is_some() {
        return Err(Refusal::new(ResultCode::ProtocolError, format!("{name} was sent twice")));
    }
    *field = Some(read()?);
    Ok(())
}
