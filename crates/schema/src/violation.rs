//! That an entry breaks a rule of the schema.

use ldap::result::ResultCode;

/// A rule that an entry breaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The result code of the refusal.
    pub code: ResultCode,
    /// What is wrong and what to do, for the client.
    pub diagnostic: String,
}

impl Violation {
    pub(crate) fn new(code: ResultCode, diagnostic: impl Into<String>) -> Self {
        Self { code, diagnostic: diagnostic.into() }
    }

    pub(crate) fn of_class(diagnostic: impl Into<String>) -> Self {
        Self::new(ResultCode::ObjectClassViolation, diagnostic)
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.diagnostic)
    }
}

impl std::error::Error for Violation {}
