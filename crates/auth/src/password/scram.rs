//! `{SCRAM-SHA-1}`, `{SCRAM-SHA-256}`, `{SCRAM-SHA-512}`: what a server verifies SCRAM with, kept
//! as a password (the fields of RFC 5803). A simple bind makes the keys of what it was given.

use environment::Chance;

use super::cost::HashCost;
use super::stored::{Parameters, Stored};
use crate::scram::{ScramHash, ScramKeys};

/// Reads the fields that follow the scheme's name.
pub(super) fn parse(fields: &[u8], hash: ScramHash) -> Option<Box<dyn Stored>> {
    Some(Box::new(ScramKeys::parse_fields(hash, fields)?))
}

/// Makes the fields.
pub(super) fn make(
    clear: &[u8],
    hash: ScramHash,
    iterations: u32,
    chance: &mut dyn Chance,
) -> String {
    let mut salt = vec![0; SALT_BYTES];
    chance.fill(&mut salt);
    ScramKeys::derive(hash, clear, salt, iterations).fields()
}

/// What tells values of one scheme apart.
pub(super) fn parameters(iterations: u32) -> Parameters {
    Parameters([iterations, 0, 0, 0])
}

impl Stored for ScramKeys {
    fn cost(&self) -> HashCost {
        HashCost::iterations(u64::from(self.iterations))
    }

    fn parameters(&self) -> Parameters {
        parameters(self.iterations)
    }

    fn verify(&self, clear: &[u8]) -> bool {
        self.is_of(clear)
    }
}

/// Octets of salt in new keys.
const SALT_BYTES: usize = 16;
