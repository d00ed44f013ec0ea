//! What a server answers, as owned values.

use std::fmt;

use ldap::message::{Attributes, LdapResult};
use ldap::result::ResultCode;

use crate::error::ClientError;

/// How an operation ended (RFC 4511 §4.1.9).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The result code.
    pub code: ResultCode,
    /// The nearest superior that exists, for the codes that have one.
    pub matched: String,
    /// The server's words.
    pub diagnostic: String,
    /// URLs of other servers, with `referral` only.
    pub referrals: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(result: &LdapResult<'_>) -> Self {
        Self {
            code: result.code,
            matched: result.matched_dn.to_owned(),
            diagnostic: result.diagnostic.to_owned(),
            referrals: result.referrals.iter().map(str::to_owned).collect(),
        }
    }

    /// Whether the server did what was asked for.
    pub fn is_success(&self) -> bool {
        self.code == ResultCode::Success
    }

    /// The outcome as an error unless it is success; `operation` names what was asked for.
    pub fn into_result(self, operation: &'static str) -> Result<(), ClientError> {
        if self.is_success() {
            return Ok(());
        }
        Err(ClientError::Refused { operation, outcome: self })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.code.name(), self.code.code())?;
        if !self.diagnostic.is_empty() {
            write!(f, ", {}", self.diagnostic)?;
        }
        if !self.matched.is_empty() {
            write!(f, "; the nearest entry that exists is '{}'", self.matched)?;
        }
        if !self.referrals.is_empty() {
            write!(f, "; ask {}", self.referrals.join(" or "))?;
        }
        Ok(())
    }
}

/// An entry as it was found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FoundEntry {
    /// Its name.
    pub dn: String,
    /// Its attribute descriptions, as the server wrote them, with their values.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

impl FoundEntry {
    /// A copy of what a search has found.
    pub fn of(dn: &str, attributes: Attributes<'_>) -> Self {
        let owned = attributes.iter().map(|attribute| {
            let values = attribute.values.iter().map(<[u8]>::to_vec).collect();
            (attribute.description.to_owned(), values)
        });
        Self { dn: dn.to_owned(), attributes: owned.collect() }
    }

    /// The values of an attribute that are text; its description in any case.
    pub fn texts<'a>(&'a self, description: &'a str) -> impl Iterator<Item = &'a str> {
        self.attributes
            .iter()
            .filter(move |(name, _)| name.eq_ignore_ascii_case(description))
            .flat_map(|(_, values)| values.iter())
            .filter_map(|value| str::from_utf8(value).ok())
    }

    /// The first of them.
    pub fn text<'a>(&'a self, description: &'a str) -> Option<&'a str> {
        self.texts(description).next()
    }
}

/// What a search found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// The entries, in the order they came.
    pub entries: Vec<FoundEntry>,
    /// Where the search would go on, which it did not.
    pub references: Vec<String>,
    /// How it ended; entries are there also when a limit ended it.
    pub outcome: Outcome,
}
