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
    if purpose.chars().any(is_refused) {
        let why = "the purpose of a request is one line, without quotation marks, backslashes and \
                   hidden characters";
        return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    }
    Ok(purpose)
}

/// What could pass for something else in a line of a log. The logs escape it, but members of an
/// older release take the text for the name of a control, which they write as it is.
const fn is_refused(letter: char) -> bool {
    matches!(letter, '"' | '\\' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{ad}' | '\u{61c}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let value = OperationPurpose { purpose: Some(text), ..OperationPurpose::default() };
        let value = value.encode();
        let control = Control { oid: OID, critical: false, value: Some(&value) };
        assert_eq!(read(&control).ok(), want, "{text:?}");
    }

    #[test]
    fn a_purpose_passes_for_nothing_else_in_a_log() {
        check(" ticket 7: it's größer, 'so' ", Some("ticket 7: it's größer, 'so'"));
        check("", Some(""));
        for bad in ["a\" who=\"b", "a\\", "a\nb", "a\u{202e}b", "a\u{200b}b", "a\u{85}b"] {
            check(bad, None);
        }
        check(&"x".repeat(PURPOSE_MAX_BYTES + 1), None);
    }
}
