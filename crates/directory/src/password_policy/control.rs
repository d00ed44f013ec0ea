//! The control that tells a client about its password (draft-behera-ldap-password-policy-10 §6).

use std::time::Duration;

use ldap::ber::{Tag, Writer};
use ldap::message::{Control, ControlsBuf};

/// The OID of the request control, which has no value, and of the response control.
pub const REQUEST: &str = "1.3.6.1.4.1.42.2.27.8.5.1";

/// What is about to go wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PolicyWarning {
    /// The password expires so soon.
    BeforeExpiration(Duration),
    /// It has expired, and is good for so many more binds.
    GraceRemaining(u32),
}

/// What is wrong, by its number in the control.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PolicyError {
    /// The password has expired.
    PasswordExpired = 0,
    /// The account is locked.
    AccountLocked = 1,
    /// Nothing may be done before the password is changed.
    ChangeAfterReset = 2,
    /// People may not change their password.
    PasswordModNotAllowed = 3,
    /// The old password has to be sent, too.
    MustSupplyOldPassword = 4,
    /// The password is too weak, or hashed where that is not accepted.
    InsufficientPasswordQuality = 5,
    /// It is too short.
    PasswordTooShort = 6,
    /// The last one was not used long enough.
    PasswordTooYoung = 7,
    /// It was used before.
    PasswordInHistory = 8,
    /// It is too long.
    PasswordTooLong = 9,
}

impl PolicyError {
    /// All of them, by their numbers.
    pub const ALL: [Self; 10] = [
        Self::PasswordExpired,
        Self::AccountLocked,
        Self::ChangeAfterReset,
        Self::PasswordModNotAllowed,
        Self::MustSupplyOldPassword,
        Self::InsufficientPasswordQuality,
        Self::PasswordTooShort,
        Self::PasswordTooYoung,
        Self::PasswordInHistory,
        Self::PasswordTooLong,
    ];

    /// Its name in the draft.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PasswordExpired => "passwordExpired",
            Self::AccountLocked => "accountLocked",
            Self::ChangeAfterReset => "changeAfterReset",
            Self::PasswordModNotAllowed => "passwordModNotAllowed",
            Self::MustSupplyOldPassword => "mustSupplyOldPassword",
            Self::InsufficientPasswordQuality => "insufficientPasswordQuality",
            Self::PasswordTooShort => "passwordTooShort",
            Self::PasswordTooYoung => "passwordTooYoung",
            Self::PasswordInHistory => "passwordInHistory",
            Self::PasswordTooLong => "passwordTooLong",
        }
    }
}

/// The value of the response control.
pub fn response_value(warning: Option<PolicyWarning>, error: Option<PolicyError>) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    if let Some(warning) = warning {
        let choice = writer.begin(Tag::context(0, true));
        let (tag, number) = match warning {
            PolicyWarning::BeforeExpiration(length) => (0, length.as_secs().min(MAX_INT)),
            PolicyWarning::GraceRemaining(logins) => (1, u64::from(logins).min(MAX_INT)),
        };
        writer.integer(Tag::context(tag, false), i64::try_from(number).unwrap_or(i64::MAX));
        writer.end(choice);
    }
    if let Some(error) = error {
        writer.enumerated(Tag::context(1, false), error as u32);
    }
    writer.end(sequence);
    value
}

/// Puts the response control to those of an answer: always where each answer `tells`, else with an
/// error alone.
pub(crate) fn add_to(list: &mut ControlsBuf, tells: bool, error: Option<PolicyError>) {
    if tells || error.is_some() {
        let value = response_value(None, error);
        list.push(Control { oid: REQUEST, critical: false, value: Some(&value) });
    }
}

/// maxInt (RFC 4511 §4.1.1).
const MAX_INT: u64 = 2_147_483_647;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_at_its_number() {
        let numbers = PolicyError::ALL.map(|error| error as usize);
        assert_eq!(numbers, std::array::from_fn(|number| number));
    }

    #[test]
    fn the_value_is_as_the_draft_has_it() {
        let day = PolicyWarning::BeforeExpiration(Duration::from_secs(86_400));
        let grace = PolicyWarning::GraceRemaining(3);
        for (warning, error, want) in [
            (None, None, "3000"),
            (Some(day), None, "3007a0058003015180"),
            (Some(grace), None, "3005a003810103"),
            (None, Some(PolicyError::PasswordExpired), "3003810100"),
            (Some(grace), Some(PolicyError::ChangeAfterReset), "3008a003810103810102"),
            (None, Some(PolicyError::PasswordTooLong), "3003810109"),
        ] {
            let value = response_value(warning, error);
            let text = value.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
            assert_eq!(text, want, "{warning:?} {error:?}");
        }
    }
}
