//! PBKDF2 (RFC 8018 §5.2) in the layouts of the servers that store it.
//!
//! - OpenLDAP and 389: `{PBKDF2}` `{PBKDF2-SHA1}` `{PBKDF2-SHA256}` `{PBKDF2-SHA512}`, with
//!   `iterations$salt$hash` in adapted base64.
//! - 389: `{PBKDF2_SHA256}`, base64 of 4 octets of iterations, 64 of salt, 256 of hash.
//! - OpenDJ: `{PBKDF2}` `{PBKDF2-HMAC-SHA256}` `{PBKDF2-HMAC-SHA512}`, with `iterations:` and the
//!   base64 of hash and salt.
//! - Atlassian and OpenDJ: `{PKCS5S2}`, base64 of 16 octets of salt and 32 of hash; 10,000
//!   iterations of SHA-1.

use base64::Engine as _;
use environment::Chance;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;

use super::cost::HashCost;
use super::stored::{Parameters, Stored};
use super::text::{self, BASE64_PADDED};

/// The hash function below.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prf {
    Sha1,
    Sha256,
    Sha512,
}

/// How iterations, salt and hash are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Layout {
    /// `iterations$salt$hash`.
    Fields,
    /// `iterations:` base64 of hash and salt.
    HashAndSalt,
    /// Base64 of fixed numbers of octets, iterations first.
    Octets,
    /// Base64 of salt and hash, with iterations that never change.
    SaltAndHash,
}

/// One stored value.
struct Pbkdf2 {
    prf: Prf,
    layout: Layout,
    iterations: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// Reads `{PBKDF2}`, which two servers write, each in its own way.
pub(super) fn parse_either(hash: &[u8], prf: Prf) -> Option<Box<dyn Stored>> {
    let layout = if hash.contains(&b':') { Layout::HashAndSalt } else { Layout::Fields };
    parse(hash, prf, layout)
}

/// Reads one layout.
pub(super) fn parse(hash: &[u8], prf: Prf, layout: Layout) -> Option<Box<dyn Stored>> {
    let hash = std::str::from_utf8(hash).ok()?;
    let (iterations, salt, hash) = match layout {
        Layout::Fields => {
            let mut fields = hash.split('$');
            let iterations = text::number(fields.next()?)?;
            let (salt, hash) =
                (text::decode_adapted(fields.next()?)?, text::decode_adapted(fields.next()?)?);
            fields.next().is_none().then_some((iterations, salt, hash))?
        }
        Layout::HashAndSalt => {
            let (iterations, rest) = hash.split_once(':')?;
            let octets = text::decode(rest)?;
            let (hash, salt) = octets.split_at_checked(prf.output_bytes())?;
            (text::number(iterations)?, salt.to_vec(), hash.to_vec())
        }
        Layout::Octets => {
            let octets = text::decode(hash)?;
            let (iterations, rest) = octets.split_first_chunk::<4>()?;
            let (salt, hash) = rest.split_at_checked(OCTETS_SALT_BYTES)?;
            (u32::from_be_bytes(*iterations), salt.to_vec(), hash.to_vec())
        }
        Layout::SaltAndHash => {
            let octets = text::decode(hash)?;
            let (salt, hash) = octets.split_at_checked(SALT_BYTES)?;
            (PKCS5S2_ITERATIONS, salt.to_vec(), hash.to_vec())
        }
    };
    let is_sound = iterations > 0 && !salt.is_empty() && hash.len() >= HASH_MIN_BYTES;
    is_sound.then(|| Box::new(Pbkdf2 { prf, layout, iterations, salt, hash }) as Box<dyn Stored>)
}

/// Makes a value in one layout.
pub(super) fn make(
    clear: &[u8],
    prf: Prf,
    layout: Layout,
    iterations: u32,
    chance: &mut dyn Chance,
) -> String {
    let (salt_bytes, hash_bytes) = match layout {
        Layout::Fields | Layout::HashAndSalt => (SALT_BYTES, prf.output_bytes()),
        Layout::Octets => (OCTETS_SALT_BYTES, OCTETS_HASH_BYTES),
        Layout::SaltAndHash => (SALT_BYTES, PKCS5S2_HASH_BYTES),
    };
    let iterations = if layout == Layout::SaltAndHash { PKCS5S2_ITERATIONS } else { iterations };
    let mut salt = vec![0; salt_bytes];
    chance.fill(&mut salt);
    let hash = prf.derive(clear, &salt, iterations, hash_bytes);
    match layout {
        Layout::Fields => {
            let (salt, hash) = (text::encode_adapted(&salt), text::encode_adapted(&hash));
            format!("{iterations}${salt}${hash}")
        }
        Layout::HashAndSalt => {
            format!("{iterations}:{}", BASE64_PADDED.encode([hash, salt].concat()))
        }
        Layout::Octets => {
            let iterations = iterations.to_be_bytes().to_vec();
            BASE64_PADDED.encode([iterations, salt, hash].concat())
        }
        Layout::SaltAndHash => BASE64_PADDED.encode([salt, hash].concat()),
    }
}

/// What tells values of one scheme apart: how often, and how it is written.
pub(super) fn parameters(layout: Layout, iterations: u32) -> Parameters {
    let iterations = if layout == Layout::SaltAndHash { PKCS5S2_ITERATIONS } else { iterations };
    Parameters([iterations, layout as u32, 0, 0])
}

impl Stored for Pbkdf2 {
    fn cost(&self) -> HashCost {
        HashCost::iterations(u64::from(self.iterations))
    }

    fn parameters(&self) -> Parameters {
        parameters(self.layout, self.iterations)
    }

    fn verify(&self, clear: &[u8]) -> bool {
        // The blocks of a longer hash do not depend on each other: the first one tells.
        let length = self.hash.len().min(self.prf.output_bytes());
        let Some(hash) = self.hash.get(..length) else { return false };
        self.prf.derive(clear, &self.salt, self.iterations, length).ct_eq(hash).into()
    }
}

impl Prf {
    pub(super) fn output_bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    pub(super) fn derive(
        self,
        clear: &[u8],
        salt: &[u8],
        iterations: u32,
        length: usize,
    ) -> Vec<u8> {
        let mut hash = vec![0; length];
        match self {
            Self::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(clear, salt, iterations, &mut hash),
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(clear, salt, iterations, &mut hash),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(clear, salt, iterations, &mut hash),
        }
        hash
    }
}

/// Octets of salt in new hashes.
const SALT_BYTES: usize = 16;
/// A shorter hash would be found by chance.
const HASH_MIN_BYTES: usize = 16;
/// The fixed parts of `{PBKDF2_SHA256}`.
const OCTETS_SALT_BYTES: usize = 64;
const OCTETS_HASH_BYTES: usize = 256;
/// The fixed parts of `{PKCS5S2}`.
const PKCS5S2_ITERATIONS: u32 = 10_000;
const PKCS5S2_HASH_BYTES: usize = 32;
