//! What a policy entry says: `pwdPolicy` of the draft (§5.2).

use std::fmt;
use std::time::Duration;

use auth::password::Scheme;

use super::quality::{Fault, LOOKED_AT_MAX_CHARACTERS, NewPassword, Quality, Words};

/// What is done with passwords whose quality cannot be looked at because they come hashed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CheckQuality {
    /// No password is looked at.
    #[default]
    Off,
    /// Hashed ones are accepted.
    WherePossible,
    /// Hashed ones are refused.
    Always,
}

/// The rules for the accounts that a policy is for. Zero and `None` of the draft are `None` here.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PasswordPolicy {
    /// pwdMinAge: how long a password has to be used before it may be changed.
    pub min_age: Option<Duration>,
    /// pwdMaxAge: how long it may be used.
    pub max_age: Option<Duration>,
    /// pwdInHistory: how many used ones must not be used again.
    pub in_history: u32,
    /// pwdCheckQuality.
    pub check_quality: CheckQuality,
    /// pwdMinLength, in characters; 0: any.
    pub min_length: u32,
    /// pwdMaxLength, in characters; 0: any.
    pub max_length: u32,
    /// pwdExpireWarning: how long before it expires a bind is told so.
    pub expire_warning: Option<Duration>,
    /// pwdGraceAuthNLimit: how many binds an expired password is good for.
    pub grace_logins: u32,
    /// pwdGraceExpiry: for how long after it expired.
    pub grace_expiry: Option<Duration>,
    /// pwdLockout: whether failures lock the account.
    pub lockout: bool,
    /// pwdLockoutDuration: for how long; `None`: until somebody unlocks it.
    pub lockout_duration: Option<Duration>,
    /// pwdMaxFailure: after how many; 0: never.
    pub max_failures: u32,
    /// pwdFailureCountInterval: for how long a failure counts; `None`: until a bind succeeds.
    pub failure_interval: Option<Duration>,
    /// pwdMaxRecordedFailure: how many are noted; 0: as many as lock the account.
    pub max_recorded_failures: u32,
    /// pwdMustChange: whether a password that somebody else set has to be changed first.
    pub must_change: bool,
    /// pwdAllowUserChange: whether people may change their own.
    pub allow_user_change: bool,
    /// pwdSafeModify: whether the old one has to be sent with the new one.
    pub safe_modify: bool,
    /// pwdMinDelay: how long answers wait after the first failure.
    pub min_delay: Option<Duration>,
    /// pwdMaxDelay: up to what that doubles with each failure.
    pub max_delay: Option<Duration>,
    /// pwdMaxIdle: after how long without a bind the account is locked.
    pub max_idle: Option<Duration>,
    /// Used passwords must not be used again for so long, however many they are.
    pub history_duration: Option<Duration>,
    /// Whether the password that an entry is added with has to be changed first.
    pub must_change_new: bool,
    /// What a password has to be like, besides its length.
    pub quality: Quality,
    /// What holds for passwords that have to be changed first.
    pub temporary: Temporary,
    /// Whether quality and history are no matter to those who set the passwords of others.
    pub skips_administrators: bool,
    /// Who may send a password that is hashed already.
    pub hashed: HashedFrom,
    /// Whether an entry may have several passwords.
    pub allow_multiple: bool,
    /// How passwords are stored; `None`: as the settings of the server have it.
    pub scheme: Option<Scheme>,
    /// Whether the time of the last bind is noted although no rule needs it.
    pub records_login: bool,
}

/// What holds for a password that somebody else set and that has to be changed first: 389's
/// temporary password rules.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Temporary {
    /// For how many binds it is good, right or wrong.
    pub max_uses: Option<u32>,
    /// How long it is not good yet.
    pub valid_after: Option<Duration>,
    /// After how long it is not good any more.
    pub expires_after: Option<Duration>,
}

/// Who may send a password that is hashed already.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum HashedFrom {
    /// Those who may set the passwords of others.
    #[default]
    Administrators,
    /// Whoever may set the password.
    Everybody,
    /// The root identity alone.
    Nobody,
}

impl PasswordPolicy {
    /// Looks at a new password in clear text.
    ///
    /// # Errors
    /// The first reason why it is not accepted.
    pub fn check_quality(&self, new: &NewPassword<'_>, words: &Words) -> Result<(), Fault> {
        if self.check_quality == CheckQuality::Off {
            return Ok(());
        }
        let length = u32::try_from(new.clear.chars().count()).unwrap_or(u32::MAX);
        if length < self.min_length {
            return Err(Fault::Short(self.min_length));
        }
        if self.max_length > 0 && length > self.max_length {
            return Err(Fault::Long(self.max_length));
        }
        if length > LOOKED_AT_MAX_CHARACTERS {
            return Err(Fault::Long(LOOKED_AT_MAX_CHARACTERS));
        }
        self.quality.check(new, words)
    }

    /// Whether a password that comes hashed is accepted.
    ///
    /// # Errors
    /// When the policy looks at all of them.
    pub fn check_hashed(&self) -> Result<(), Fault> {
        match self.check_quality {
            CheckQuality::Off | CheckQuality::WherePossible => Ok(()),
            CheckQuality::Always => Err(Fault::Hashed),
        }
    }
}

/// A value of a policy entry that is not what its attribute takes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyFault {
    /// The attribute.
    pub attribute: &'static str,
    /// Its value, or the beginning of it.
    pub value: String,
    /// What it takes.
    pub takes: &'static str,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attribute, value, takes } = self;
        write!(f, "'{value}' of {attribute} is not {takes}")
    }
}

impl PasswordPolicy {
    /// What holds for passwords that people give themselves where no policy is written.
    pub fn built_in() -> Self {
        Self {
            allow_user_change: true,
            allow_multiple: true,
            check_quality: CheckQuality::WherePossible,
            min_length: BUILT_IN_MIN_CHARACTERS,
            quality: Quality { dictionary: true, ..Quality::default() },
            ..Self::default()
        }
    }

    /// Whether used passwords are kept.
    pub fn remembers(&self) -> bool {
        self.in_history > 0 || self.history_duration.is_some()
    }

    /// Whether some passwords have to be changed first.
    pub fn forces_change(&self) -> bool {
        self.must_change || self.must_change_new
    }

    /// How many failures are kept in the entry.
    pub fn failures_kept(&self) -> usize {
        let most = match self.max_recorded_failures {
            0 if self.max_failures == 0 => FAILURES_KEPT,
            0 => self.max_failures,
            recorded => recorded.max(self.max_failures),
        };
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}

/// The least characters of a password where no policy is written.
const BUILT_IN_MIN_CHARACTERS: u32 = 8;

/// Failures that are kept when nothing is said about them.
const FAILURES_KEPT: u32 = 5;

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;
    use schema::{Entry, Schema};

    use super::*;
    use crate::password_policy::rows;

    fn read(pairs: &[(&str, &str)]) -> Result<PasswordPolicy, PolicyFault> {
        let schema = Schema::builtin();
        let fixed = [("objectClass", "pwdPolicy"), ("cn", "x"), ("pwdAttribute", "userPassword")];
        let pairs = fixed.iter().chain(pairs).map(|(name, value)| (*name, value.as_bytes()));
        let name = Dn::parse("cn=x,dc=example").unwrap();
        let entry = Entry::from_pairs(name, pairs, &schema).unwrap();
        PasswordPolicy::read(&entry, &schema)
    }

    #[test]
    fn what_is_not_said_is_no_rule() {
        let policy = read(&[]).unwrap();
        assert_eq!(policy, PasswordPolicy { allow_user_change: true, ..PasswordPolicy::default() });
        assert_eq!(read(&[("pwdMaxAge", "0"), ("pwdLockoutDuration", "0")]).unwrap(), policy);
    }

    #[test]
    fn every_attribute_is_read() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let policy = read(&[
            ("pwdMinAge", "1"),
            ("pwdMaxAge", "2"),
            ("pwdInHistory", "3"),
            ("pwdCheckQuality", "2"),
            ("pwdMinLength", "5"),
            ("pwdMaxLength", "6"),
            ("pwdExpireWarning", "7"),
            ("pwdGraceAuthNLimit", "8"),
            ("pwdGraceExpiry", "9"),
            ("pwdLockout", "TRUE"),
            ("pwdLockoutDuration", "10"),
            ("pwdMaxFailure", "11"),
            ("pwdFailureCountInterval", "12"),
            ("pwdMaxRecordedFailure", "13"),
            ("pwdMustChange", "TRUE"),
            ("pwdAllowUserChange", "FALSE"),
            ("pwdSafeModify", "TRUE"),
            ("pwdMinDelay", "14"),
            ("pwdMaxDelay", "15"),
            ("pwdMaxIdle", "16"),
        ]);
        let want = PasswordPolicy {
            min_age: seconds(1),
            max_age: seconds(2),
            in_history: 3,
            check_quality: CheckQuality::Always,
            min_length: 5,
            max_length: 6,
            expire_warning: seconds(7),
            grace_logins: 8,
            grace_expiry: seconds(9),
            lockout: true,
            lockout_duration: seconds(10),
            max_failures: 11,
            failure_interval: seconds(12),
            max_recorded_failures: 13,
            must_change: true,
            allow_user_change: false,
            safe_modify: true,
            min_delay: seconds(14),
            max_delay: seconds(15),
            max_idle: seconds(16),
            must_change_new: true,
            quality: Quality {
                dictionary: true,
                own_attributes: rows::own_attributes(),
                ..Quality::default()
            },
            ..PasswordPolicy::default()
        };
        assert_eq!(policy.unwrap(), want);
        assert_eq!(want.failures_kept(), 13);
    }

    #[test]
    fn a_policy_is_understood_as_a_whole_or_not_at_all() {
        let fault = read(&[("pwdMaxAge", "-1")]).unwrap_err().to_string();
        assert!(fault.starts_with("'-1' of pwdMaxAge is not a time"), "{fault}");
        let fault = read(&[("pwdCheckQuality", "3")]).unwrap_err().to_string();
        assert_eq!(fault, "'3' of pwdCheckQuality is not 0, 1 or 2");
    }
}
