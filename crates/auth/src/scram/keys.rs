//! What is stored of a password for SCRAM (RFC 5802 §3, RFC 5803): with it a server can verify a
//! proof, but not make one.
//!
//! Invariant: a proof is compared in constant time.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use subtle::ConstantTimeEq as _;

/// The hash functions that keys are made with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ScramHash {
    /// SHA-1: stored passwords of other servers can be verified, but it is not spoken.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// Salt, iterations and keys of one password.
#[derive(Clone, Eq, PartialEq)]
pub struct ScramKeys {
    /// The hash function they are made with.
    pub hash: ScramHash,
    /// How often it is applied.
    pub iterations: u32,
    /// What is mixed into the password.
    pub salt: Vec<u8>,
    /// A proof is verified with this one.
    pub stored_key: Vec<u8>,
    /// The server proves itself with this one.
    pub server_key: Vec<u8>,
}

impl ScramHash {
    /// The name of scheme and mechanism.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Octets of a key.
    pub const fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        [Self::Sha1, Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|hash| hash.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The digest of these octets.
    pub fn digest(self, octets: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(octets).to_vec(),
            Self::Sha256 => Sha256::digest(octets).to_vec(),
            Self::Sha512 => Sha512::digest(octets).to_vec(),
        }
    }

    /// The HMAC of these octets.
    pub fn hmac(self, key: &[u8], octets: &[u8]) -> Vec<u8> {
        const ANY_LENGTH: &str = "HMAC takes a key of any length";
        match self {
            Self::Sha1 => {
                let mac = Hmac::<Sha1>::new_from_slice(key).expect(ANY_LENGTH);
                mac.chain_update(octets).finalize().into_bytes().to_vec()
            }
            Self::Sha256 => {
                let mac = Hmac::<Sha256>::new_from_slice(key).expect(ANY_LENGTH);
                mac.chain_update(octets).finalize().into_bytes().to_vec()
            }
            Self::Sha512 => {
                let mac = Hmac::<Sha512>::new_from_slice(key).expect(ANY_LENGTH);
                mac.chain_update(octets).finalize().into_bytes().to_vec()
            }
        }
    }

    /// Hi() of RFC 5802 §2.2.
    fn salted(self, clear: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut out = vec![0; self.length()];
        match self {
            Self::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(clear, salt, iterations, &mut out),
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(clear, salt, iterations, &mut out),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(clear, salt, iterations, &mut out),
        }
        out
    }
}

impl ScramKeys {
    /// Makes the keys of a password, which is prepared as clients do it (RFC 4013). Takes as long
    /// as the iterations say.
    pub fn derive(hash: ScramHash, clear: &[u8], salt: Vec<u8>, iterations: u32) -> Self {
        let salted = hash.salted(&prepared(clear), &salt, iterations);
        let client_key = hash.hmac(&salted, b"Client Key");
        Self {
            hash,
            iterations,
            salt,
            stored_key: hash.digest(&client_key),
            server_key: hash.hmac(&salted, b"Server Key"),
        }
    }

    /// Whether `clear` is the password. Takes as long as the iterations say.
    pub fn is_of(&self, clear: &[u8]) -> bool {
        let made = Self::derive(self.hash, clear, self.salt.clone(), self.iterations);
        // A value that only one of them fits is damaged.
        let is_right = made.stored_key.ct_eq(&self.stored_key);
        (is_right & made.server_key.ct_eq(&self.server_key)).into()
    }

    /// Reads a value of `userPassword`, `{SCRAM-SHA-256}iterations:salt$stored:server`, or of
    /// `authPassword`, the same with `SCRAM-SHA-256$` before it (RFC 5803 §2). Other servers
    /// separate the parts by `,` or `:`, which are not in Base64, and may have a fifth part.
    pub fn parse(stored: &[u8]) -> Option<Self> {
        let (name, rest) = match stored.strip_prefix(b"{") {
            Some(braced) => split_once(braced, b'}')?,
            None => split_once(stored, b'$')?,
        };
        Self::parse_fields(ScramHash::named(name.trim_ascii())?, rest)
    }

    /// Reads what follows the name of the scheme.
    pub fn parse_fields(hash: ScramHash, fields: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(fields).ok()?;
        let mut parts = text.split([':', '$', ',']).map(str::trim);
        let iterations = parts.next()?.parse().ok()?;
        let mut octets = || STANDARD.decode(parts.next()?).ok();
        let (salt, stored_key, server_key) = (octets()?, octets()?, octets()?);
        let is_whole = parts.nth(1).is_none()
            && (1..=ITERATIONS_MAX).contains(&iterations)
            && !salt.is_empty()
            && stored_key.len() == hash.length()
            && server_key.len() == hash.length();
        is_whole.then_some(Self { hash, iterations, salt, stored_key, server_key })
    }
}

impl ScramKeys {
    /// What stands behind the name of the scheme.
    pub fn fields(&self) -> String {
        format!(
            "{}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(&self.stored_key),
            STANDARD.encode(&self.server_key)
        )
    }
}

/// As a value of `userPassword`.
impl fmt::Display for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}{}", self.hash.name(), self.fields())
    }
}

// Whoever has the server key can play the server.
impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramKeys")
            .field("hash", &self.hash)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// SASLprep, where the password allows it. One that is not UTF-8, or has what SASLprep prohibits,
/// is taken as it is, as other implementations do.
fn prepared(clear: &[u8]) -> Vec<u8> {
    std::str::from_utf8(clear)
        .ok()
        .and_then(|text| stringprep::saslprep(text).ok())
        .map_or_else(|| clear.to_vec(), |text| text.into_owned().into_bytes())
}

fn split_once(octets: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = octets.iter().position(|octet| *octet == at)?;
    let (before, rest) = octets.split_at_checked(end)?;
    Some((before, rest.get(1..)?))
}

/// Iterations that a client of somebody without keys is told, and those of new keys. A client has
/// to calculate them at each bind, and Cyrus SASL refuses more than 65,536.
pub const ITERATIONS_DEFAULT: u32 = 50_000;

/// More are surely a mistake: they would take a client seconds.
const ITERATIONS_MAX: u32 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677 §3: user `user`, password `pencil`.
    fn pencil() -> ScramKeys {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        ScramKeys::derive(ScramHash::Sha256, b"pencil", salt, 4_096)
    }

    #[test]
    fn keys_are_those_of_other_implementations() {
        // As PostgreSQL writes them for the same password, salt and iterations.
        let stored = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                      WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                      wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(ScramKeys::parse(stored.as_bytes()), Some(pencil()));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let keys = ScramKeys::derive(ScramHash::Sha512, b"x", b"salt".to_vec(), 5);
        let text = keys.to_string();
        assert!(text.starts_with("{SCRAM-SHA-512}5:c2FsdA==$"), "{text}");
        assert_eq!(ScramKeys::parse(text.as_bytes()), Some(keys.clone()));
        let dovecot = text.replace([':', '$'], ",").replace("SCRAM", "scram");
        assert_eq!(ScramKeys::parse(dovecot.as_bytes()), Some(keys.clone()));
        assert!(keys.is_of(b"x"));
        assert!(!keys.is_of(b"y"));
        assert!(!keys.is_of(b""));
    }

    #[test]
    fn damaged_keys_are_none() {
        let text = pencil().to_string();
        for wrong in [
            "".to_owned(),
            "secret".to_owned(),
            "{SSHA}x".to_owned(),
            text.replace("4096", "0"),
            text.replace("4096", "99999999999"),
            text.replace("256}", "1}"),
            text.replace("256}", "512}"),
            text.replace("W22", "!22"),
            format!("{text}:AAAA:AAAA"),
            text.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""),
        ] {
            assert_eq!(ScramKeys::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn passwords_are_prepared_as_clients_do() {
        let keys =
            |clear: &str| ScramKeys::derive(ScramHash::Sha256, clear.as_bytes(), b"s".to_vec(), 1);
        // RFC 4013 §3.
        assert_eq!(keys("I\u{ad}X"), keys("IX"));
        assert_eq!(keys("\u{2168}"), keys("IX"));
        assert_ne!(keys("user"), keys("USER"));
        // Prohibited: as it is.
        assert_ne!(keys("a\u{7}"), keys("a"));
    }
}
