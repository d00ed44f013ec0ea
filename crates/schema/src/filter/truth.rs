//! Three-valued truth.

use std::ops::Not;

/// The value of a filter for one entry (RFC 4511 §4.5.1.7).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Truth {
    /// The entry matches.
    True,
    /// The entry does not match.
    False,
    /// No answer: unknown attribute, malformed value, or no right to ask.
    Undefined,
}

impl Truth {
    /// False if either is, else Undefined if either is.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::Undefined, _) | (_, Self::Undefined) => Self::Undefined,
            (Self::True, Self::True) => Self::True,
        }
    }

    /// True if either is, else Undefined if either is.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::True, _) | (_, Self::True) => Self::True,
            (Self::Undefined, _) | (_, Self::Undefined) => Self::Undefined,
            (Self::False, Self::False) => Self::False,
        }
    }

    /// The truth of an assertion that holds or not, if it may be asked.
    pub(super) const fn of(may_ask: bool, holds: bool) -> Self {
        match (may_ask, holds) {
            (false, _) => Self::Undefined,
            (true, true) => Self::True,
            (true, false) => Self::False,
        }
    }
}

impl Not for Truth {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Undefined => Self::Undefined,
        }
    }
}
