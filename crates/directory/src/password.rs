//! Stored passwords: `{SCHEME}` hashes in userPassword (RFC 3112 §3 for the idea, RFC 2307 §5.3 for
//! the prefix).
//!
//! Invariant: verification takes the same time wherever two hashes first differ.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

use crate::chance::Chance;

/// How new passwords are stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scheme {
    /// `{SSHA}`: SHA-1 with a salt. Only for systems that know nothing better.
    Ssha,
    /// `{SSHA256}`: SHA-256 with a salt.
    Ssha256,
    /// `{SSHA512}`: SHA-512 with a salt; the default.
    #[default]
    Ssha512,
}

impl Scheme {
    /// The name in braces, as stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssha => "SSHA",
            Self::Ssha256 => "SSHA256",
            Self::Ssha512 => "SSHA512",
        }
    }
}

/// The stored form of a clear-text password.
pub fn hash_password(scheme: Scheme, clear: &[u8], chance: &mut dyn Chance) -> Vec<u8> {
    let mut salt = [0_u8; SALT_BYTES];
    chance.fill(&mut salt);
    let mut hash = match scheme {
        Scheme::Ssha => digest::<Sha1>(clear, &salt),
        Scheme::Ssha256 => digest::<Sha256>(clear, &salt),
        Scheme::Ssha512 => digest::<Sha512>(clear, &salt),
    };
    hash.extend_from_slice(&salt);
    let mut stored = format!("{{{}}}", scheme.name()).into_bytes();
    stored.extend_from_slice(STANDARD.encode(hash).as_bytes());
    stored
}

/// Whether a value names a scheme this server can verify; any other new value is clear text.
pub(crate) fn is_hashed(stored: &[u8]) -> bool {
    split_scheme(stored).is_some_and(|(name, _)| Verifier::named(name).is_some())
}

/// Whether values of this scheme, which is named without braces, can be verified.
pub(crate) fn is_verifiable(scheme: &[u8]) -> bool {
    Verifier::named(scheme).is_some()
}

/// Whether a value names a scheme of another server that this one knows but cannot verify.
pub(crate) fn is_foreign(stored: &[u8]) -> bool {
    split_scheme(stored).is_some_and(|(name, _)| {
        let is_it = |known: &str| {
            let (head, rest) = name.split_at_checked(known.len()).unwrap_or_default();
            // `PBKDF2` is `PBKDF2-HMAC-SHA256`, too.
            head.eq_ignore_ascii_case(known.as_bytes())
                && rest.first().is_none_or(|next| !next.is_ascii_alphabetic())
        };
        !name.is_empty() && FOREIGN_SCHEMES.iter().any(|known| is_it(known))
    })
}

/// Whether a value is stored as it comes: hashed, be it that only another server can verify it.
pub(crate) fn is_stored_form(stored: &[u8]) -> bool {
    is_hashed(stored) || is_foreign(stored)
}

/// Whether verifying this value takes milliseconds, so that it must not delay other requests.
pub(crate) fn is_slow(stored: &[u8]) -> bool {
    split_scheme(stored)
        .is_some_and(|(name, _)| matches!(Verifier::named(name), Some(Verifier::Crypt)))
}

/// Whether `clear` is the password behind `stored`. A damaged or unknown hash matches nothing.
pub(crate) fn verify(stored: &[u8], clear: &[u8]) -> bool {
    let Some((name, hash)) = split_scheme(stored) else {
        return stored.ct_eq(clear).into();
    };
    match Verifier::named(name) {
        // Not compared as clear text: whoever has read the hash could sign in with it.
        None => false,
        Some(Verifier::Digest(check)) => {
            STANDARD.decode(hash).is_ok_and(|decoded| check(&decoded, clear))
        }
        Some(Verifier::Crypt) => {
            std::str::from_utf8(hash).is_ok_and(|hash| pwhash::unix::verify(clear, hash))
        }
    }
}

/// Spends about the time of a verification, so that a bind to a name that does not exist takes as
/// long as one with a wrong password.
pub(crate) fn verify_nothing(clear: &[u8]) {
    std::hint::black_box(digest::<Sha512>(clear, &[0; SALT_BYTES]));
}

enum Verifier {
    /// Hash of the password and of the salt that follows it.
    Digest(fn(&[u8], &[u8]) -> bool),
    /// crypt(3) in all its forms.
    Crypt,
}

impl Verifier {
    fn named(name: &[u8]) -> Option<Self> {
        VERIFIERS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(
            |(_, check)| match check {
                Some(check) => Self::Digest(*check),
                None => Self::Crypt,
            },
        )
    }
}

type DigestCheck = fn(&[u8], &[u8]) -> bool;

/// Scheme names and what verifies them; `None` is crypt(3).
const VERIFIERS: &[(&str, Option<DigestCheck>)] = &[
    ("SSHA512", Some(check_digest::<Sha512>)),
    ("SSHA384", Some(check_digest::<Sha384>)),
    ("SSHA256", Some(check_digest::<Sha256>)),
    ("SSHA", Some(check_digest::<Sha1>)),
    ("SHA512", Some(check_digest::<Sha512>)),
    ("SHA384", Some(check_digest::<Sha384>)),
    ("SHA256", Some(check_digest::<Sha256>)),
    ("SHA", Some(check_digest::<Sha1>)),
    ("CRYPT", None),
];

/// What the names of other servers' schemes begin with.
const FOREIGN_SCHEMES: &[&str] = &[
    "3DES",
    "AES",
    "ARGON2",
    "ARGON2D",
    "ARGON2I",
    "ARGON2ID",
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
    "PKCS5S2",
    "RC4",
    "SASL",
    "SCRAM",
    "SCRYPT",
    "SHA3",
    "SMD5",
    "SSHA3",
    "TOTP",
    "TOTP1",
    "X- ORCLDBPWD",
    "X- ORCLIFSMD5",
    "X- ORCLLMV",
    "X- ORCLNTV",
    "X- ORCLWEBDAV",
];

/// `decoded` is the digest followed by the salt, which may be empty.
fn check_digest<D: Digest>(decoded: &[u8], clear: &[u8]) -> bool {
    let length = <D as Digest>::output_size();
    let Some((hash, salt)) = decoded.split_at_checked(length) else {
        return false;
    };
    digest::<D>(clear, salt).ct_eq(hash).into()
}

fn digest<D: Digest>(clear: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut digest = D::new();
    digest.update(clear);
    digest.update(salt);
    digest.finalize().to_vec()
}

/// `{NAME}rest` → (NAME, rest).
fn split_scheme(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = stored.strip_prefix(b"{")?;
    let end = rest.iter().position(|octet| *octet == b'}')?;
    let (name, rest) = rest.split_at_checked(end)?;
    Some((name, rest.strip_prefix(b"}")?))
}

/// Octets of salt in new hashes.
const SALT_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SeededChance;

    #[track_caller]
    fn check(stored: &str, clear: &str, want: bool) {
        assert_eq!(verify(stored.as_bytes(), clear.as_bytes()), want, "{stored} / {clear}");
    }

    #[test]
    fn each_scheme_verifies_its_own_hashes_and_nothing_else() {
        let mut chance = SeededChance(1);
        for scheme in [Scheme::Ssha, Scheme::Ssha256, Scheme::Ssha512] {
            let stored = hash_password(scheme, b"secret", &mut chance);
            let stored = String::from_utf8(stored).unwrap();
            check(&stored, "secret", true);
            check(&stored, "Secret", false);
            check(&stored, "", false);
            assert!(is_hashed(stored.as_bytes()));
            assert_ne!(stored.as_bytes(), hash_password(scheme, b"secret", &mut chance), "salted");
        }
    }

    #[test]
    fn hashes_made_elsewhere_verify() {
        check("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secret", true);
        check("{sha}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secret", true);
        check("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secrets", false);
        // Made by Python's hashlib and by crypt(3) of the C library; openssl agrees on $1$ to $6$.
        for stored in [
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "{SHA256}K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols=",
            "{SHA384}WKd1ukESvjAFrkQHznV9iP2nHUBJe7gCbsrFTU4//HIyzo3jq1rLMK45dg/ufFPt",
            "{SHA512}vSsar3708Jvp9Szi2NWZZ02Bqp1qRCFpbcTZPdBhnWgs5WtNZKnvCXdhztmeD2cmW192CF5bDufK\
             RpayrW/isg==",
            "{SSHA}cqVbhtveg6UlUYb4hGPrp7XYoikAAQIDBAUGBw==",
            "{SSHA256}lAejl/Of0h/+J/b6px7T8LLPd/QxmtSbDDvk8djjRJEAAQIDBAUGBw==",
            "{SSHA384}ovWmOuRxardiAXRoZ0oJ3oNrimvG3way/lnwSIrxRCQs3mxTACkzZgBei27d9HRgAAECAwQFBgc=",
            "{SSHA512}sA0uxvTZmjjgeqepQzW+3VNsblhqzltje58zvmzlAr0V6DwpiazN2VxnSFYthOpYDzqKXnv8rNmI\
             QMOVX9alQgABAgMEBQYH",
            "{CRYPT}abNANd1rDfiNc",
            "{CRYPT}$1$saltsalt$9xy1btjgzLYfb7hivXtC//",
            "{CRYPT}$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
            "{CRYPT}$5$rounds=5000$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
            "{CRYPT}$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT\
             0Y77vwPZN.Pq.H91p5hVO1",
            "{CRYPT}$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
            "{CRYPT}$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
            "{CRYPT}$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        ] {
            check(stored, "secret", true);
            check(&stored.replacen("CRYPT", "crypt", 1), "secret", true);
            for wrong in ["Secret", "secret ", "secre", "", stored] {
                check(stored, wrong, false);
            }
            assert!(is_hashed(stored.as_bytes()), "{stored}");
            assert_eq!(is_slow(stored.as_bytes()), stored.starts_with("{CRYPT}"), "{stored}");
        }
    }

    #[test]
    fn schemes_of_others_are_told_from_clear_text() {
        for foreign in [
            "{MD5}Xr4ilOzQ4PCOq3aQ0qbuaQ==",
            "{smd5}x",
            "{PBKDF2-HMAC-SHA256}10:x",
            "{PBKDF2_SHA256}AAAIAA",
            "{ARGON2}$argon2id$v=19",
            "{SASL/MD5}x",
            "{SASL}user@REALM",
            "{X- ORCLNTV}x",
            "{SSHA3-256}x",
        ] {
            assert!(is_foreign(foreign.as_bytes()) && !is_hashed(foreign.as_bytes()), "{foreign}");
            assert!(is_stored_form(foreign.as_bytes()));
            check(foreign, foreign, false);
        }
        for other in ["{SSHA}x", "{CRYPT}x", "{}x", "{x}y", "{AESTHETIC}x", "MD5", "{MD5", ""] {
            assert!(!is_foreign(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_damaged_or_unknown_hash_matches_nothing() {
        check("{SSHA512}", "", false);
        check("{SSHA512}%%%", "%%%", false);
        check("{SSHA}c2hvcnQ=", "short", false);
        for damaged in ["", "x", "xx", "$", "$6$", "$6$salt", "$2b$", "$2b$05$short", "$y$j9T$x$y"]
        {
            let stored = format!("{{CRYPT}}{damaged}");
            for clear in ["", "x", damaged, &stored] {
                check(&stored, clear, false);
            }
        }
        check("{UNKNOWN}x", "x", false);
        check("{UNKNOWN}x", "{UNKNOWN}x", false);
        check("clear", "clear", true);
        check("{", "{", true);
        check("", "", true);
    }
}
