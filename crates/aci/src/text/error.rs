//! Why a text is no ACI, and where.

use std::fmt;

use ldap::filter::FilterReason;
use ldap::url::UrlReason;

use super::limits::{ACI_LENGTH_MAX_BYTES, ACI_VALUES_MAX, BIND_RULE_DEPTH_MAX, PARENT_LEVEL_MAX};
use crate::rule::pattern::PatternFault;

/// Why a text is no ACI.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AciError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong there.
    pub reason: AciReason,
}

impl fmt::Display for AciError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.reason)
    }
}

impl std::error::Error for AciError {}

/// What is wrong with the text of an ACI.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AciReason {
    /// Longer than [`ACI_LENGTH_MAX_BYTES`].
    TooLong,
    /// More values than [`ACI_VALUES_MAX`].
    TooManyValues,
    /// Bind rules nested deeper than [`BIND_RULE_DEPTH_MAX`].
    TooDeep,
    /// Something else must come here.
    Expected(&'static str),
    /// Another version than 3.0.
    Version,
    /// A quote that nothing closes.
    UnclosedQuote,
    /// A quote inside a value.
    Quote,
    /// Something after the last parenthesis.
    TextAfterEnd,
    /// A target of an unknown kind.
    Target(String),
    /// A second target of one kind.
    TargetTwice(String),
    /// Targets that do not go together.
    MixedTargets,
    /// The target lies outside the entry that holds the ACI.
    TargetOutside,
    /// An unknown right.
    Right(String),
    /// An unknown keyword of bind rules.
    Keyword(String),
    /// No attribute description.
    Attribute(String),
    /// An attribute whose values cannot be compared.
    NotComparable(String),
    /// A name is wrong.
    Name(PatternFault),
    /// A URL is wrong.
    Url(UrlReason),
    /// A filter is wrong.
    Filter(FilterReason),
    /// A value of the wrong form.
    Value(&'static str),
    /// What other servers know and this one does not.
    NotSupported(&'static str),
}

impl fmt::Display for AciReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => {
                return write!(f, "the ACI is longer than {ACI_LENGTH_MAX_BYTES} octets");
            }
            Self::TooManyValues => {
                return write!(f, "the ACI lists more than {ACI_VALUES_MAX} values");
            }
            Self::TooDeep => {
                return write!(f, "bind rules are nested deeper than {BIND_RULE_DEPTH_MAX}");
            }
            Self::Expected(what) => return write!(f, "expected {what}"),
            Self::Target(name) => return write!(f, "there is no target '{name}'"),
            Self::TargetTwice(name) => return write!(f, "there are two targets '{name}'"),
            Self::Right(name) => return write!(f, "there is no right '{name}'"),
            Self::Keyword(name) => return write!(f, "bind rules have no keyword '{name}'"),
            Self::Attribute(name) => return write!(f, "'{name}' is not an attribute description"),
            Self::NotComparable(name) => {
                return write!(f, "values of '{name}' cannot be compared");
            }
            Self::Name(fault) => return fault.fmt(f),
            Self::Url(reason) => return write!(f, "the URL is wrong: {reason}"),
            Self::Filter(reason) => return write!(f, "the filter is wrong: {reason}"),
            Self::Version => "the version must be 3.0",
            Self::UnclosedQuote => "nothing closes this quote",
            Self::Quote => "a quote cannot stand inside a value; write '\\22' in a name",
            Self::TextAfterEnd => "there is text after the end of the ACI",
            Self::MixedTargets => {
                "'targetcontrol' and 'extop' cannot be limited to entries or attributes"
            }
            Self::TargetOutside => "the target is not within the entry that holds the ACI",
            Self::Value(what) | Self::NotSupported(what) => what,
        })
    }
}

/// What a wrong level of `parent[…]` is told.
pub(super) const PARENT_LEVELS: AciReason =
    AciReason::Value("levels are numbers from 0 to 9, as in parent[0,1].manager#USERDN");
const _: () = assert!(PARENT_LEVEL_MAX == 9, "the text names the limit");
