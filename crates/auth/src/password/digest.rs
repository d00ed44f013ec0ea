//! One hash of password and salt: `{SSHA…}`, `{SHA…}`, `{SMD5}`, `{MD5}` (RFC 2307 §5.3).
//!
//! Layout: base64 of the digest and of the salt that follows it; the salt may be empty.

use std::marker::PhantomData;

use base64::Engine as _;
use environment::Chance;
use sha2::Digest;
use subtle::ConstantTimeEq;

use super::cost::HashCost;
use super::stored::{Parameters, Stored};
use super::text::{self, BASE64_PADDED};

/// A digest and its salt.
struct Salted<'s, D> {
    /// In base64; decoded when it is compared, since what it costs is known without.
    text: &'s str,
    digest: PhantomData<fn() -> D>,
}

/// Reads a digest with or without a salt.
pub(super) fn parse<D: Digest + 'static>(hash: &[u8]) -> Option<Box<dyn Stored + '_>> {
    let text = std::str::from_utf8(hash).ok()?;
    // Four characters are three octets.
    let may_be_whole = text.len() * 3 >= <D as Digest>::output_size() * 4;
    may_be_whole.then(|| Box::new(Salted::<D> { text, digest: PhantomData }) as Box<dyn Stored>)
}

/// Makes a salted digest.
pub(super) fn make<D: Digest>(clear: &[u8], chance: &mut dyn Chance) -> String {
    let mut salt = [0; SALT_BYTES];
    chance.fill(&mut salt);
    let mut octets = digest::<D>(clear, &salt);
    octets.extend_from_slice(&salt);
    BASE64_PADDED.encode(octets)
}

impl<D: Digest> Stored for Salted<'_, D> {
    fn cost(&self) -> HashCost {
        HashCost::FAST
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
    }

    fn verify(&self, clear: &[u8]) -> bool {
        let decoded = text::decode(self.text).unwrap_or_default();
        let length = <D as Digest>::output_size();
        let Some((hash, salt)) = decoded.split_at_checked(length) else {
            return false;
        };
        is_same(&digest::<D>(clear, salt), hash)
    }

    fn is_whole(&self) -> bool {
        text::decode(self.text).is_some_and(|decoded| decoded.len() >= <D as Digest>::output_size())
    }
}

/// Compares two digests, eight octets at a time, in the same time wherever they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let ((words, rest), (other_words, other_rest)) = (one.as_chunks(), other.as_chunks());
    let same = words.iter().zip(other_words).fold(rest.ct_eq(other_rest), |same, (one, other)| {
        same & u64::from_ne_bytes(*one).ct_eq(&u64::from_ne_bytes(*other))
    });
    one.len() == other.len() && same.into()
}

fn digest<D: Digest>(clear: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut digest = D::new();
    digest.update(clear);
    digest.update(salt);
    digest.finalize().to_vec()
}

/// Octets of salt in new hashes.
const SALT_BYTES: usize = 16;
