//! One hash of password and salt: `{SSHA…}`, `{SHA…}`, `{SMD5}`, `{MD5}` (RFC 2307 §5.3).
//!
//! Layout: base64 of the digest and of the salt that follows it; the salt may be empty.

use std::marker::PhantomData;

use base64::Engine as _;
use sha2::Digest;
use subtle::ConstantTimeEq;

use super::cost::HashCost;
use super::text::{self, BASE64_PADDED};
use super::{Parameters, Stored};
use crate::chance::Chance;

/// A digest and its salt.
struct Salted<D> {
    decoded: Vec<u8>,
    digest: PhantomData<fn() -> D>,
}

/// Reads a digest with or without a salt.
pub(super) fn parse<D: Digest + 'static>(hash: &[u8]) -> Option<Box<dyn Stored>> {
    let decoded = text::decode(std::str::from_utf8(hash).ok()?)?;
    let is_whole = decoded.len() >= <D as Digest>::output_size();
    is_whole.then(|| Box::new(Salted::<D> { decoded, digest: PhantomData }) as Box<dyn Stored>)
}

/// Makes a salted digest.
pub(super) fn make<D: Digest>(clear: &[u8], chance: &mut dyn Chance) -> String {
    let mut salt = [0; SALT_BYTES];
    chance.fill(&mut salt);
    let mut octets = digest::<D>(clear, &salt);
    octets.extend_from_slice(&salt);
    BASE64_PADDED.encode(octets)
}

impl<D: Digest> Stored for Salted<D> {
    fn cost(&self) -> HashCost {
        HashCost::FAST
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
    }

    fn verify(&self, clear: &[u8]) -> bool {
        let length = <D as Digest>::output_size();
        let Some((hash, salt)) = self.decoded.split_at_checked(length) else {
            return false;
        };
        digest::<D>(clear, salt).ct_eq(hash).into()
    }
}

fn digest<D: Digest>(clear: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut digest = D::new();
    digest.update(clear);
    digest.update(salt);
    digest.finalize().to_vec()
}

/// Octets of salt in new hashes.
const SALT_BYTES: usize = 16;
