//! `cn=Join Tokens,cn=config`: the tokens with which machines may join the cluster, a value each.
//!
//! A value says, with blanks between: the name of the token, 32 hexadecimal digits; the SHA-256 of
//! its secret, 64; the second of its end, since 1970-01-01T00:00:00Z; `voter`, `learner`, or
//! `replaces-N`, what the machine is to be: with the last, a voter in the place of member N; and
//! the SHA-256 of the key of the machine that has used it, 64, or `-`.
//!
//! Invariant: the first machine that a token lets in is the only one: taking a token is one change,
//! of a value that says that nobody has it to one that says who has.
//! Invariant: a secret is not kept.
//!
//! One that is over lets nobody in, and goes; that of a machine which waits to be a voter stays.

use std::str::FromStr;

use environment::Timestamp;
use ldap::result::ResultCode;
use schema::Entry;
use sha2::{Digest as _, Sha256};
use store::{StoreError, View};
use subtle::ConstantTimeEq as _;

use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::JOIN_TOKENS_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The setting.
pub(super) const JOIN_TOKENS: &str = history::CLUSTER_SETTINGS[0];
/// The attribute.
pub const ATTRIBUTE: &str = "roster-join-token";
/// The most tokens at a time.
const TOKENS_MAX: usize = 64;
/// The longest that a token is valid, in seconds: a week.
const VALID_MAX_S: u64 = 7 * 86_400;
/// How far clocks may be apart, in seconds.
const SKEW_S: u64 = 60;
/// The octets of a name.
pub(super) const NAME_BYTES: usize = 16;
/// The octets of a hash.
pub(super) const HASH_BYTES: usize = 32;

/// A token, as it is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JoinToken {
    /// Its name.
    pub name: [u8; NAME_BYTES],
    /// The SHA-256 of its secret.
    pub secret: [u8; HASH_BYTES],
    /// Its end, in seconds since 1970.
    pub ends_s: u64,
    /// What the machine is to be when it has caught up.
    pub part: JoinPart,
    /// The SHA-256 of the key of the machine that has used it.
    pub key: Option<[u8; HASH_BYTES]>,
}

/// What a machine that joins is to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JoinPart {
    /// A learner.
    Learner,
    /// A voter, as soon as their number stays odd.
    Voter,
    /// A voter in the place of this one, which leaves for ever.
    InPlaceOf(u64),
}

impl JoinPart {
    /// Whose place the machine is to take.
    pub(super) const fn replaces(self) -> Option<u64> {
        match self {
            Self::InPlaceOf(member) => Some(member),
            Self::Learner | Self::Voter => None,
        }
    }
}

impl FromStr for JoinPart {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        match text {
            "voter" => Ok(Self::Voter),
            "learner" => Ok(Self::Learner),
            _ => {
                let member = text.strip_prefix(REPLACES).and_then(|text| text.parse().ok());
                member.filter(|member| *member > 0).map(Self::InPlaceOf).ok_or(NoToken)
            }
        }
    }
}

impl std::fmt::Display for JoinPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Learner => f.write_str("learner"),
            Self::Voter => f.write_str("voter"),
            Self::InPlaceOf(member) => write!(f, "{REPLACES}{member}"),
        }
    }
}

/// What stands before the number of the member that is replaced.
const REPLACES: &str = "replaces-";

impl JoinToken {
    /// Whether this is its secret.
    pub(super) fn has_secret(&self, secret: &[u8]) -> bool {
        bool::from(Sha256::digest(secret).as_slice().ct_eq(&self.secret))
    }

    /// Whether it is over.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.ends_s < now.seconds()
    }
}

/// Why a text is no token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoToken;

impl FromStr for JoinToken {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [name, secret, ends_s, part, key] = parts[..] else { return Err(NoToken) };
        let part = part.parse()?;
        let key = if key == "-" { None } else { Some(octets(key)?) };
        let ends_s = ends_s.parse().map_err(|_| NoToken)?;
        let token = Self { name: octets(name)?, secret: octets(secret)?, ends_s, part, key };
        // One text for each.
        if token.to_string() == text { Ok(token) } else { Err(NoToken) }
    }
}

impl std::fmt::Display for JoinToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, secret, ends_s, part, key } = self;
        let key = key.map_or_else(|| "-".to_owned(), |key| hex(&key));
        write!(f, "{} {} {ends_s} {part} {key}", hex(name), hex(secret))
    }
}

/// Octets as hexadecimal digits.
pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Reads what [`hex`] wrote.
///
/// # Errors
/// When it is not so many octets in lower case.
pub fn octets<const N: usize>(text: &str) -> Result<[u8; N], NoToken> {
    let is_hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.as_bytes().iter().all(is_hex) {
        return Err(NoToken);
    }
    let mut octets = [0; N];
    for (octet, digits) in octets.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| NoToken)?;
        *octet = u8::from_str_radix(digits, 16).map_err(|_| NoToken)?;
    }
    Ok(octets)
}

/// The values, as they are kept.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    view.setting(JOIN_TOKENS)
}

/// The tokens that are not over.
pub(super) fn tokens(view: &View<'_>, now: Timestamp) -> Result<Vec<JoinToken>, StoreError> {
    let tokens = values(view)?.into_iter().filter_map(|text| text.parse::<JoinToken>().ok());
    Ok(tokens.filter(|token| !token.is_over(now)).collect())
}

/// Refuses what is no token, and forgets those that are over.
pub(super) fn put(
    decide: &Decide<'_>,
    beside: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let now = decide.stamp.moment.time;
    let token = text.parse::<JoinToken>().map_err(|NoToken| {
        let why = "a value of a token is its name, the SHA-256 of its secret, its end in seconds \
                   since 1970, 'voter', 'learner' or 'replaces-N', and '-'";
        Refusal::new(ResultCode::InvalidAttributeSyntax, why)
    })?;
    if token.is_over(now) || token.ends_s > now.seconds() + VALID_MAX_S + SKEW_S {
        let why = "a token ends in the future, and within seven days; are the clocks right?";
        return Err(Refusal::new(ResultCode::ConstraintViolation, why));
    }
    beside.retain(|text| {
        let waits = |token: &JoinToken| token.part != JoinPart::Learner && token.key.is_some();
        text.parse().is_ok_and(|token: JoinToken| !token.is_over(now) || waits(&token))
    });
    if beside.len() >= TOKENS_MAX {
        let why = format!("there are {TOKENS_MAX} tokens already: delete some");
        return Err(Refusal::new(ResultCode::AdminLimitExceeded, why));
    }
    Ok(())
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(JOIN_TOKENS_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_the_same() {
        for key in [None, Some([7; 32])] {
            let token = JoinToken {
                name: [1; 16],
                secret: Sha256::digest(b"secret").into(),
                ends_s: 1_700_000_000,
                part: if key.is_some() { JoinPart::InPlaceOf(7) } else { JoinPart::Learner },
                key,
            };
            assert_eq!(token.to_string().parse(), Ok(token.clone()));
            assert!(token.has_secret(b"secret"));
            assert!(!token.has_secret(b"secret "));
            assert!(token.is_over(Timestamp(1_700_000_001_000_000)));
            assert!(!token.is_over(Timestamp(1_700_000_000_000_000)));
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let good = format!("{} {} 17 voter -", "0".repeat(32), "a".repeat(64));
        assert!(good.parse::<JoinToken>().is_ok());
        for bad in [
            String::new(),
            good.replace("voter", "leader"),
            good.replace("17", "-17"),
            good.replace("17", "017"),
            good.replace('a', "A"),
            good.replace('a', "é"),
            good.replace(" -", ""),
            format!("{good} "),
            format!("{good} more"),
        ] {
            assert_eq!(bad.parse::<JoinToken>(), Err(NoToken), "{bad}");
        }
    }
}
