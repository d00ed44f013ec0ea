//! Whether a new password is good enough: pwdMinLength and pwdMaxLength of the draft, and what
//! a person can be expected not to use.
//!
//! Invariant: lengths are counted in characters, and nothing is compared but with what is handed
//! in.

use std::collections::HashSet;

use super::control::PolicyError;
use super::rules::{CheckQuality, Policy};

/// Why a password is not accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It is hashed already, so that nobody can look at it.
    Hashed,
    /// It has too few characters.
    Short,
    /// It has too many.
    Long,
    /// It is a word that many use.
    Common,
    /// It holds, or is, a value of the account's own attributes.
    Own,
}

impl Fault {
    /// What the control says of it.
    pub fn error(self) -> PolicyError {
        match self {
            Self::Hashed | Self::Common | Self::Own => PolicyError::InsufficientPasswordQuality,
            Self::Short => PolicyError::PasswordTooShort,
            Self::Long => PolicyError::PasswordTooLong,
        }
    }

    /// The same for people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Hashed => "a hashed password is not accepted: its quality cannot be looked at",
            Self::Short => "the password is too short",
            Self::Long => "the password is too long",
            Self::Common => "the password is one that many people use",
            Self::Own => "the password is made of a value of the entry, such as the name",
        }
    }
}

/// Words that nobody may use as a password, whatever their case.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Words(HashSet<String>);

impl Words {
    /// One word a line.
    pub fn of_lines(text: &str) -> Self {
        Self(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(folded).collect())
    }

    fn hold(&self, password: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&folded(password))
    }
}

impl Policy {
    /// Looks at a new password in clear text; `own` are values of the entry that it must not be
    /// made of.
    ///
    /// # Errors
    /// The first reason why it is not accepted.
    pub fn check_quality(
        &self,
        password: &str,
        mut own: &mut dyn Iterator<Item = &str>,
        words: &Words,
    ) -> Result<(), Fault> {
        if self.check_quality == CheckQuality::Off {
            return Ok(());
        }
        let length = u32::try_from(password.chars().count()).unwrap_or(u32::MAX);
        if length < self.min_length {
            return Err(Fault::Short);
        }
        if self.max_length > 0 && length > self.max_length {
            return Err(Fault::Long);
        }
        if words.hold(password) {
            return Err(Fault::Common);
        }
        let password = folded(password);
        let is_of = |value: &str| {
            // Two letters are in most passwords.
            value.chars().count() >= OWN_MIN_CHARACTERS && password.contains(&folded(value))
        };
        if (&mut own).any(is_of) { Err(Fault::Own) } else { Ok(()) }
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

fn folded(text: &str) -> String {
    text.to_lowercase()
}

/// Own values that are shorter are not looked for.
const OWN_MIN_CHARACTERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(policy: &Policy, password: &str, want: Result<(), Fault>) {
        let words = Words::of_lines("password\n\n letmein \nQwerty12345\n");
        let mut own = ["anna", "Anna Berg", "ab"].into_iter();
        assert_eq!(policy.check_quality(password, &mut own, &words), want, "{password}");
    }

    #[test]
    fn a_password_has_a_length_and_is_not_what_everybody_guesses() {
        let policy = Policy {
            check_quality: CheckQuality::WherePossible,
            min_length: 7,
            max_length: 20,
            ..Policy::default()
        };
        check(&policy, "sixsix", Err(Fault::Short));
        check(&policy, "äöüßäöü", Ok(()));
        check(&policy, "äöüßäö", Err(Fault::Short));
        check(&policy, &"x".repeat(20), Ok(()));
        check(&policy, &"x".repeat(21), Err(Fault::Long));
        check(&policy, "PassWord", Err(Fault::Common));
        check(&policy, "qwerty12345", Err(Fault::Common));
        check(&policy, "hello ANNA", Err(Fault::Own));
        check(&policy, "cab and cable", Ok(()));
        let off = Policy { check_quality: CheckQuality::Off, ..policy };
        check(&off, "x", Ok(()));
        check(&off, "password", Ok(()));
    }

    #[test]
    fn hashed_ones_are_accepted_unless_all_are_looked_at() {
        for (check_quality, want) in [
            (CheckQuality::Off, Ok(())),
            (CheckQuality::WherePossible, Ok(())),
            (CheckQuality::Always, Err(Fault::Hashed)),
        ] {
            let policy = Policy { check_quality, ..Policy::default() };
            assert_eq!(policy.check_hashed(), want);
        }
    }
}
