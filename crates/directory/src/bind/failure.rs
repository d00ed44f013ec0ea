//! Why a bind failed: for the access log alone.
//!
//! Invariant: no client is told, nor can it tell by the time a refusal takes.

/// What a client that proves nothing lacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BindFailure {
    /// The name stands for nobody, or for more than one.
    NoSuchEntry,
    /// Nothing is stored that the proof could match: no password, or no keys of the mechanism.
    NoPassword,
    /// The proof is that of another password.
    WrongPassword,
    /// The account was switched off.
    AccountDisabled,
    /// The account has expired.
    AccountExpired,
    /// The account is locked: by failures, by somebody, by its times, or for having been idle.
    AccountLocked,
    /// The bind before failed not long ago.
    TooSoon,
    /// The password has expired, and no grace is left.
    PasswordExpired,
}

impl BindFailure {
    /// All of them, by their numbers.
    pub const ALL: [Self; 8] = [
        Self::NoSuchEntry,
        Self::NoPassword,
        Self::WrongPassword,
        Self::AccountDisabled,
        Self::AccountExpired,
        Self::AccountLocked,
        Self::TooSoon,
        Self::PasswordExpired,
    ];

    /// Its name in the access log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSuchEntry => "noSuchEntry",
            Self::NoPassword => "noPassword",
            Self::WrongPassword => "wrongPassword",
            Self::AccountDisabled => "accountDisabled",
            Self::AccountExpired => "accountExpired",
            Self::AccountLocked => "accountLocked",
            Self::TooSoon => "tooSoon",
            Self::PasswordExpired => "passwordExpired",
        }
    }
}
