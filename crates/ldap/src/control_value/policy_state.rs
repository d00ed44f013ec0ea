//! The value of the password policy state extended operation, of request and response alike, as
//! OpenDJ, Oracle Unified Directory and PingDirectory have it.
//!
//! Invariant: a value has no more operations and values than the limits say.

use std::borrow::Cow;

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// The OID of the operation.
pub const OID: &str = "1.3.6.1.4.1.26027.1.6.1";

/// PingDirectory's OID for the same, and for operations of its own.
pub const PING_OID: &str = "1.3.6.1.4.1.30221.1.6.1";

/// The most operations of one request; a value with more is refused.
pub const OPERATIONS_MAX: usize = 200;

/// The most values of one operation.
pub const VALUES_MAX: usize = 1_000;

/// Whose state, and what about it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PolicyState<'a> {
    /// The DN of the account.
    pub target: Cow<'a, str>,
    /// What is asked for and to be changed; in a response, what was asked for.
    pub operations: Vec<StateOperation<'a>>,
}

/// One operation of a request, or its answer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StateOperation<'a> {
    /// Which one, see [`operation`].
    pub number: u32,
    /// Its values: times, numbers, names, `true` and `false`.
    pub values: Vec<Cow<'a, str>>,
}

impl StateOperation<'_> {
    /// An operation without values.
    #[must_use]
    pub const fn of(number: u32) -> Self {
        Self { number, values: Vec::new() }
    }
}

impl<'a> PolicyState<'a> {
    /// Reads the value of a request or a response.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let target = Cow::Borrowed(fields.string(Tag::OCTET_STRING)?);
        let mut operations = Vec::new();
        if let Some(mut list) = fields.sequence_optional(Tag::SEQUENCE)? {
            while !list.is_empty() {
                if operations.len() == OPERATIONS_MAX {
                    return Err(list.error(DecodeReason::TooManyTerms));
                }
                operations.push(StateOperation::decode(list.sequence(Tag::SEQUENCE)?)?);
            }
        }
        fields.end_extensible(&[])?;
        Ok(Self { target, operations })
    }

    /// Writes the value of a request or a response.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let whole = writer.begin(Tag::SEQUENCE);
        writer.octets(Tag::OCTET_STRING, self.target.as_bytes());
        if !self.operations.is_empty() {
            let list = writer.begin(Tag::SEQUENCE);
            for StateOperation { number, values } in &self.operations {
                let one = writer.begin(Tag::SEQUENCE);
                writer.enumerated(Tag::ENUMERATED, *number);
                if !values.is_empty() {
                    let list = writer.begin(Tag::SEQUENCE);
                    for value in values {
                        writer.octets(Tag::OCTET_STRING, value.as_bytes());
                    }
                    writer.end(list);
                }
                writer.end(one);
            }
            writer.end(list);
        }
        writer.end(whole);
        value
    }
}

impl<'a> StateOperation<'a> {
    fn decode(mut fields: Reader<'a>) -> Result<Self, DecodeError> {
        let number = fields.enumerated(Tag::ENUMERATED)?;
        let mut values = Vec::new();
        if let Some(mut list) = fields.sequence_optional(Tag::SEQUENCE)? {
            while !list.is_empty() {
                if values.len() == VALUES_MAX {
                    return Err(list.error(DecodeReason::TooManyTerms));
                }
                values.push(Cow::Borrowed(list.string(Tag::OCTET_STRING)?));
            }
        }
        fields.end_extensible(&[])?;
        Ok(Self { number, values })
    }
}

/// The numbers of the operations. Those up to 40 are OpenDJ's, the others PingDirectory's. A time
/// is a GeneralizedTime; a change without one means now.
pub mod operation {
    /// The DN of the policy.
    pub const POLICY_DN: u32 = 0;
    /// Whether the account is disabled.
    pub const DISABLED: u32 = 1;
    /// Disables it, or does not.
    pub const SET_DISABLED: u32 = 2;
    /// Enables it.
    pub const CLEAR_DISABLED: u32 = 3;
    /// When the account expires.
    pub const EXPIRATION: u32 = 4;
    /// Has it expire then.
    pub const SET_EXPIRATION: u32 = 5;
    /// Has it never expire.
    pub const CLEAR_EXPIRATION: u32 = 6;
    /// Seconds until it expires.
    pub const UNTIL_EXPIRATION: u32 = 7;
    /// When the password was changed.
    pub const CHANGED: u32 = 8;
    /// Says when it was.
    pub const SET_CHANGED: u32 = 9;
    /// Forgets when it was.
    pub const CLEAR_CHANGED: u32 = 10;
    /// When the account was warned that the password expires.
    pub const WARNED: u32 = 11;
    /// Says when it was.
    pub const SET_WARNED: u32 = 12;
    /// Forgets when it was.
    pub const CLEAR_WARNED: u32 = 13;
    /// Seconds until the password expires.
    pub const UNTIL_PASSWORD_EXPIRATION: u32 = 14;
    /// Seconds until binds are warned of it.
    pub const UNTIL_WARNING: u32 = 15;
    /// When binds failed.
    pub const FAILURES: u32 = 16;
    /// Adds a time.
    pub const ADD_FAILURE: u32 = 17;
    /// Says when they did.
    pub const SET_FAILURES: u32 = 18;
    /// Forgets the failures, and unlocks the account.
    pub const CLEAR_FAILURES: u32 = 19;
    /// Seconds until the account is unlocked by itself.
    pub const UNTIL_UNLOCK: u32 = 20;
    /// How many more binds may fail.
    pub const REMAINING_FAILURES: u32 = 21;
    /// When the account was last used.
    pub const LAST_LOGIN: u32 = 22;
    /// Says when it was.
    pub const SET_LAST_LOGIN: u32 = 23;
    /// Forgets when it was.
    pub const CLEAR_LAST_LOGIN: u32 = 24;
    /// Seconds until the account is locked for not having been used.
    pub const UNTIL_IDLE_LOCK: u32 = 25;
    /// Whether the password must be changed first.
    pub const RESET: u32 = 26;
    /// Says so.
    pub const SET_RESET: u32 = 27;
    /// Says that it need not.
    pub const CLEAR_RESET: u32 = 28;
    /// Seconds until an account whose password was reset is locked.
    pub const UNTIL_RESET_LOCK: u32 = 29;
    /// When the expired password was used.
    pub const GRACE_USES: u32 = 30;
    /// Adds a time.
    pub const ADD_GRACE_USE: u32 = 31;
    /// Says when it was.
    pub const SET_GRACE_USES: u32 = 32;
    /// Forgets the times.
    pub const CLEAR_GRACE_USES: u32 = 33;
    /// How often it may still be used.
    pub const REMAINING_GRACE: u32 = 34;
    /// By when the password has to be changed as everybody's.
    pub const REQUIRED_CHANGE: u32 = 35;
    /// Says when.
    pub const SET_REQUIRED_CHANGE: u32 = 36;
    /// Forgets when.
    pub const CLEAR_REQUIRED_CHANGE: u32 = 37;
    /// Seconds until then.
    pub const UNTIL_REQUIRED_CHANGE: u32 = 38;
    /// The passwords that were used.
    pub const HISTORY: u32 = 39;
    /// Forgets them.
    pub const CLEAR_HISTORY: u32 = 40;
    /// From when on the account is good.
    pub const ACTIVATION: u32 = 45;
    /// Has it good from then on.
    pub const SET_ACTIVATION: u32 = 46;
    /// Has it good from always on.
    pub const CLEAR_ACTIVATION: u32 = 47;
    /// Seconds until it is good.
    pub const UNTIL_ACTIVATION: u32 = 48;
    /// What there is to know about the account.
    pub const NOTICES: u32 = 52;
    /// What will keep it from being used.
    pub const WARNINGS: u32 = 53;
    /// What keeps it from being used.
    pub const ERRORS: u32 = 54;
    /// Whether it may be used.
    pub const USABLE: u32 = 55;
    /// Whether it is not good yet.
    pub const NOT_YET_ACTIVE: u32 = 56;
    /// Whether it has expired.
    pub const EXPIRED: u32 = 57;
    /// When the password expires.
    pub const PASSWORD_EXPIRATION: u32 = 58;
    /// Whether the account is locked by failures, or by an administrator.
    pub const LOCKED: u32 = 59;
    /// Locks it, or unlocks it.
    pub const SET_LOCKED: u32 = 60;
    /// Since when it is locked.
    pub const LOCKED_TIME: u32 = 61;
    /// Whether it is locked for not having been used.
    pub const IDLE_LOCKED: u32 = 62;
    /// Since when, or from when on.
    pub const IDLE_LOCKED_TIME: u32 = 63;
    /// How many passwords that were used are remembered.
    pub const HISTORY_COUNT: u32 = 66;
    /// Whether the password has expired.
    pub const PASSWORD_EXPIRED: u32 = 67;
    /// Whether there is a password.
    pub const HAS_PASSWORD: u32 = 81;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(operations: Vec<StateOperation<'_>>) -> PolicyState<'_> {
        PolicyState { target: "uid=a".into(), operations }
    }

    #[test]
    fn values_are_as_opendj_writes_them() {
        let values = vec!["true".into()];
        let disable = StateOperation { number: operation::SET_DISABLED, values };
        let both = vec![disable, StateOperation::of(operation::FAILURES)];
        for (value, want) in [
            (state(Vec::new()), b"\x30\x07\x04\x05uid=a".as_slice()),
            (
                state(both),
                b"\x30\x1b\x04\x05uid=a\x30\x12\
                  \x30\x0b\x0a\x01\x02\x30\x06\x04\x04true\
                  \x30\x03\x0a\x01\x10",
            ),
        ] {
            assert_eq!(value.encode(), want);
            assert_eq!(PolicyState::decode(want).as_ref(), Ok(&value));
        }
        // A list without operations is none.
        assert_eq!(PolicyState::decode(b"\x30\x09\x04\x05uid=a\x30\x00"), Ok(state(Vec::new())));
    }

    #[test]
    fn what_is_no_such_value_is_refused() {
        let bad: [&[u8]; 7] = [
            b"",
            b"\x30\x00",
            b"\x30\x02\x04\x01",
            b"\x30\x03\x04\x01\xff",
            b"\x30\x08\x04\x01a\x30\x03\x30\x01\x00",
            b"\x30\x0a\x04\x01a\x30\x05\x30\x03\x02\x01\x02",
            b"\x30\x03\x04\x01a\x00",
        ];
        for value in bad {
            assert!(PolicyState::decode(value).is_err(), "{value:02x?}");
        }
        let many = |operations, values| {
            let values = vec![Cow::Borrowed("x"); values];
            state(vec![StateOperation { number: 18, values }; operations]).encode()
        };
        assert!(PolicyState::decode(&many(OPERATIONS_MAX, 1)).is_ok());
        assert!(PolicyState::decode(&many(OPERATIONS_MAX + 1, 1)).is_err());
        assert!(PolicyState::decode(&many(1, VALUES_MAX)).is_ok());
        assert!(PolicyState::decode(&many(1, VALUES_MAX + 1)).is_err());
    }
}
