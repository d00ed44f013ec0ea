//! Stored passwords: `{SCHEME}` hashes in userPassword (RFC 3112 §3 for the idea, RFC 2307 §5.3 for
//! the prefix).
//!
//! A scheme that can be verified is one row of `ROWS`; what is written is in `storage.rs`.
//!
//! Invariant: verification takes the same time wherever two hashes first differ.
//! Invariant: what a stored value costs to compute is known, and held against a limit, before
//! anything is computed.

mod argon2;
mod cost;
mod crypt;
mod digest;
mod pbkdf2;
mod scram;
mod scrypt;
mod storage;
mod stored;
mod text;

#[cfg(test)]
mod tests;

use ::sha1::Sha1;
use md5::Md5;
use schema::{AttributeDescription, EntryRead};
use sha2::{Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

pub use self::argon2::Argon2Cost;
pub use self::cost::{HashCost, HashCostMax};
pub use self::storage::{HashCosts, PasswordStorage, Scheme};

use self::pbkdf2::{Layout, Prf};
use self::stored::Stored;
use crate::scram::ScramHash;

/// What came of verifying a password against one stored value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is the password.
    Right,
    /// It is not, or the value is damaged or of an unknown scheme.
    Wrong,
    /// Computing the hash would cost more than is accepted.
    TooCostly(HashCost),
}

/// One scheme that can be verified.
struct Row {
    /// Its name, without braces.
    name: &'static str,
    /// Reads what follows the name; `None` when that is seen to be damaged.
    parse: for<'s> fn(&'s [u8]) -> Option<Box<dyn Stored + 's>>,
}

/// All schemes that can be verified.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { name: "ARGON2", parse: argon2::parse },
    Row { name: "ARGON2ID", parse: argon2::parse },
    Row { name: "ARGON2I", parse: argon2::parse },
    Row { name: "SSHA512", parse: digest::parse::<Sha512> },
    Row { name: "SSHA384", parse: digest::parse::<Sha384> },
    Row { name: "SSHA256", parse: digest::parse::<Sha256> },
    Row { name: "SSHA", parse: digest::parse::<Sha1> },
    Row { name: "SHA512", parse: digest::parse::<Sha512> },
    Row { name: "SHA384", parse: digest::parse::<Sha384> },
    Row { name: "SHA256", parse: digest::parse::<Sha256> },
    Row { name: "SHA", parse: digest::parse::<Sha1> },
    Row { name: "SMD5", parse: digest::parse::<Md5> },
    Row { name: "MD5", parse: digest::parse::<Md5> },
    Row { name: "CRYPT", parse: crypt::parse },
    Row { name: "BCRYPT", parse: crypt::parse_bcrypt },
    Row { name: "BLF-CRYPT", parse: crypt::parse_bcrypt },
    Row { name: "SHA256-CRYPT", parse: crypt::parse },
    Row { name: "SHA512-CRYPT", parse: crypt::parse },
    Row { name: "SCRYPT", parse: scrypt::parse },
    Row { name: "PBKDF2", parse: |hash| pbkdf2::parse_either(hash, Prf::Sha1) },
    Row { name: "PBKDF2-SHA1", parse: |hash| pbkdf2::parse(hash, Prf::Sha1, Layout::Fields) },
    Row { name: "PBKDF2-SHA256", parse: |hash| pbkdf2::parse(hash, Prf::Sha256, Layout::Fields) },
    Row { name: "PBKDF2-SHA512", parse: |hash| pbkdf2::parse(hash, Prf::Sha512, Layout::Fields) },
    Row { name: "PBKDF2_SHA256", parse: |hash| pbkdf2::parse(hash, Prf::Sha256, Layout::Octets) },
    Row {
        name: "PBKDF2-HMAC-SHA256",
        parse: |hash| pbkdf2::parse(hash, Prf::Sha256, Layout::HashAndSalt),
    },
    Row {
        name: "PBKDF2-HMAC-SHA512",
        parse: |hash| pbkdf2::parse(hash, Prf::Sha512, Layout::HashAndSalt),
    },
    Row { name: "SCRAM-SHA-1", parse: |fields| scram::parse(fields, ScramHash::Sha1) },
    Row { name: "SCRAM-SHA-256", parse: |fields| scram::parse(fields, ScramHash::Sha256) },
    Row { name: "SCRAM-SHA-512", parse: |fields| scram::parse(fields, ScramHash::Sha512) },
    Row { name: "PKCS5S2", parse: |hash| pbkdf2::parse(hash, Prf::Sha1, Layout::SaltAndHash) },
];

impl Row {
    fn named(name: &[u8]) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Whether a value names a scheme this server can verify; any other new value is clear text.
pub fn is_hashed(stored: &[u8]) -> bool {
    split_scheme(stored).is_some_and(|(name, _)| is_verifiable(name))
}

/// Whether a value is what a known scheme makes of a password, not only named like it.
pub fn is_well_formed(stored: &[u8]) -> bool {
    read(stored).is_some_and(|(_, read)| read.is_whole())
}

/// Whether values of this scheme, which is named without braces, can be verified.
pub fn is_verifiable(scheme: &[u8]) -> bool {
    Row::named(scheme).is_some()
}

/// Whether a value names a scheme of another server that this one knows but cannot verify.
pub fn is_foreign(stored: &[u8]) -> bool {
    split_scheme(stored).is_some_and(|(name, _)| {
        let is_it = |known: &str| {
            let (head, rest) = name.split_at_checked(known.len()).unwrap_or_default();
            // `SASL` is `SASL/MD5`, too.
            head.eq_ignore_ascii_case(known.as_bytes())
                && rest.first().is_none_or(|next| !next.is_ascii_alphabetic())
        };
        !name.is_empty() && FOREIGN_SCHEMES.iter().any(|known| is_it(known))
    })
}

/// Whether a value is stored as it comes: hashed, be it that only another server can verify it.
pub fn is_stored_form(stored: &[u8]) -> bool {
    is_hashed(stored) || is_foreign(stored)
}

/// Whether verifying this value takes so long that it must not delay other requests. What costs
/// too much is not computed, and so is not slow.
pub fn is_slow(stored: &[u8], max: &HashCostMax) -> bool {
    let read = read(stored);
    read.is_some_and(|(_, read)| read.cost().is_slow() && read.cost().is_within(max))
}

/// Whether verifying `stored` is sure to take as long as verifying `other`: the hash is of the same
/// kind, and costs no less. Of different kinds a block takes different times.
pub fn takes_as_long(stored: &[u8], other: &[u8], max: &HashCostMax) -> bool {
    let (Some((row, one)), Some((other_row, least))) = (read(stored), read(other)) else {
        return false;
    };
    let is_same_kind = kind(row, stored) == kind(other_row, other);
    let (cost, least) = (one.cost(), least.cost());
    let is_less = cost.blocks < least.blocks || cost.memory_bytes < least.memory_bytes;
    is_same_kind && !is_less && cost.is_within(max)
}

/// Which hash a value is: what crypt(3) calls it (`$argon2id$`), or else its scheme.
fn kind<'s>(row: &Row, stored: &'s [u8]) -> &'s [u8] {
    let hash = split_scheme(stored).and_then(|(_, hash)| hash.strip_prefix(b"$"));
    let named = hash.and_then(|hash| hash.split(|octet| *octet == b'$').next());
    named.unwrap_or(row.name.as_bytes())
}

/// Whether `clear` is the password behind `stored`. A damaged or unknown hash matches nothing.
pub fn verify(stored: &[u8], clear: &[u8], max: &HashCostMax) -> Verdict {
    let right = |is_right: bool| if is_right { Verdict::Right } else { Verdict::Wrong };
    if split_scheme(stored).is_none() {
        return right(stored.ct_eq(clear).into());
    }
    // An unknown scheme is not compared as clear text: whoever has read the hash could sign in
    // with it.
    let Some((_, read)) = read(stored) else { return Verdict::Wrong };
    let cost = read.cost();
    match cost.is_within(max) {
        true => right(clear.len() <= PASSWORD_MAX_BYTES && read.verify(clear)),
        false => Verdict::TooCostly(cost),
    }
}

/// Whether `clear` is the password, where that takes no time worth mentioning; else it is not.
pub fn verify_if_fast(stored: &[u8], clear: &[u8]) -> bool {
    verify(stored, clear, &HashCostMax::FAST) == Verdict::Right
}

/// The stored passwords of an entry, or its keys: the values of `description` itself. What an
/// import brought under an option or as a subtype signs nobody in: no reset would end it.
pub fn stored_in(entry: &dyn EntryRead, description: &AttributeDescription) -> Vec<Vec<u8>> {
    let mut stored = Vec::new();
    entry.visit_values(description, &mut |found, value| {
        if found == description {
            stored.push(value.to_vec());
        }
        true
    });
    stored
}

/// Reads a value of a scheme that can be verified.
fn read(stored: &[u8]) -> Option<(&'static Row, Box<dyn Stored + '_>)> {
    let (name, hash) = split_scheme(stored).filter(|_| stored.len() <= STORED_MAX_BYTES)?;
    let row = Row::named(name)?;
    Some((row, (row.parse)(hash)?))
}

/// What the names of other servers' schemes begin with.
const FOREIGN_SCHEMES: &[&str] = &[
    "3DES",
    "AES",
    "ARGON2",
    "ARGON2D",
    "BCRYPT",
    "BLOWFISH",
    "DES",
    "GOST_YESCRYPT",
    "KERBEROS",
    "LANMAN",
    "MD5",
    "NS-MTA-MD5",
    "NT",
    "PBKDF2",
    "RC4",
    "SASL",
    "SCRAM",
    "SCRYPT",
    "SHA3",
    "SSHA3",
    "TOTP",
    "TOTP1",
    "X- ORCLDBPWD",
    "X- ORCLIFSMD5",
    "X- ORCLLMV",
    "X- ORCLNTV",
    "X- ORCLWEBDAV",
];

/// `{NAME}rest` → (NAME, rest).
fn split_scheme(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = stored.strip_prefix(b"{")?;
    let end = rest.iter().position(|octet| *octet == b'}')?;
    let (name, rest) = rest.split_at_checked(end)?;
    Some((name, rest.strip_prefix(b"}")?))
}

/// Octets of a clear-text password. Some schemes take time that grows with its square.
pub const PASSWORD_MAX_BYTES: usize = 1_024;

/// Octets of a stored value; what is longer matches nothing.
const STORED_MAX_BYTES: usize = 4_096;
