//! Argon2 (RFC 9106) in the PHC string format, as OpenLDAP and Dovecot store it:
//! `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use environment::Chance;
use subtle::ConstantTimeEq;

use super::cost::HashCost;
use super::stored::{Parameters, Stored};
use super::text::{self, BASE64};

/// One stored value.
struct Hash {
    algorithm: Algorithm,
    version: Version,
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// What one hash takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Argon2Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes, which are computed one after the other here.
    pub lanes: u32,
}

impl Default for Argon2Cost {
    /// What OWASP advises where many sign in: 19 MiB, two passes, one lane.
    fn default() -> Self {
        Self { memory_kib: 19_456, passes: 2, lanes: 1 }
    }
}

impl Argon2Cost {
    /// Argon2id of this cost, in the current version.
    pub(super) fn parameters(self) -> Parameters {
        Parameters([
            self.memory_kib,
            self.passes,
            self.lanes,
            kind(Algorithm::Argon2id, Version::V0x13),
        ])
    }
}

/// Reads the PHC string.
pub(super) fn parse(hash: &[u8]) -> Option<Box<dyn Stored>> {
    let mut fields = std::str::from_utf8(hash).ok()?.strip_prefix('$')?.split('$');
    let algorithm = match fields.next()? {
        "argon2id" => Algorithm::Argon2id,
        "argon2i" => Algorithm::Argon2i,
        "argon2d" => Algorithm::Argon2d,
        _ => return None,
    };
    let mut list = fields.next()?;
    // Without a version it is the first one.
    let version = match list.strip_prefix("v=") {
        None => Version::V0x10,
        Some(version) => {
            list = fields.next()?;
            match version {
                "16" => Version::V0x10,
                "19" => Version::V0x13,
                _ => return None,
            }
        }
    };
    let [memory_kib, passes, lanes] = ["m", "t", "p"].map(|name| text::parameter(list, name));
    let (salt, hash) = (text::decode(fields.next()?)?, text::decode(fields.next()?)?);
    // A key that is not here, or data of somebody else: such a value can never be right.
    let is_plain = list.split(',').count() == 3 && fields.next().is_none();
    let is_sound = is_plain && salt.len() >= argon2::MIN_SALT_LEN && hash.len() >= HASH_MIN_BYTES;
    if !is_sound {
        return None;
    }
    let params = Params::new(memory_kib?, passes?, lanes?, Some(hash.len())).ok()?;
    Some(Box::new(Hash { algorithm, version, params, salt, hash }))
}

/// Makes a value: Argon2id in the current version.
pub(super) fn make(clear: &[u8], cost: Argon2Cost, chance: &mut dyn Chance) -> Option<String> {
    let Argon2Cost { memory_kib, passes, lanes } = cost;
    let params = Params::new(memory_kib, passes, lanes, Some(HASH_BYTES)).ok()?;
    let mut salt = [0; SALT_BYTES];
    chance.fill(&mut salt);
    let mut hash = [0; HASH_BYTES];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(clear, &salt, &mut hash)
        .ok()?;
    let (salt, hash) = (BASE64.encode(salt), BASE64.encode(hash));
    Some(format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${hash}"))
}

impl Stored for Hash {
    fn cost(&self) -> HashCost {
        let (memory_kib, passes) = (self.params.m_cost(), self.params.t_cost());
        HashCost {
            blocks: u64::from(memory_kib) * u64::from(passes),
            memory_bytes: u64::from(memory_kib) << 10,
            lanes: self.params.p_cost(),
        }
    }

    fn parameters(&self) -> Parameters {
        let Self { params, .. } = self;
        let kind = kind(self.algorithm, self.version);
        Parameters([params.m_cost(), params.t_cost(), params.p_cost(), kind])
    }

    fn verify(&self, clear: &[u8]) -> bool {
        let mut hash = vec![0; self.hash.len()];
        Argon2::new(self.algorithm, self.version, self.params.clone())
            .hash_password_into(clear, &self.salt, &mut hash)
            .is_ok_and(|()| hash.ct_eq(&self.hash).into())
    }
}

/// One number for variant and version.
fn kind(algorithm: Algorithm, version: Version) -> u32 {
    let algorithm = match algorithm {
        Algorithm::Argon2d => 0,
        Algorithm::Argon2i => 1,
        Algorithm::Argon2id => 2,
    };
    algorithm << 8 | version as u32
}

/// Octets of salt in new hashes.
const SALT_BYTES: usize = 16;
/// Octets of new hashes.
const HASH_BYTES: usize = 32;
/// A shorter hash would be found by chance.
const HASH_MIN_BYTES: usize = 16;
