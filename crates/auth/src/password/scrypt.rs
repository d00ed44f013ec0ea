//! scrypt (RFC 7914) in the PHC string format, as Passlib writes it:
//! `$scrypt$ln=15,r=8,p=1$salt$hash`; and the `$7$` of crypt(3).

use base64::Engine as _;
use environment::Chance;
use scrypt::Params;
use subtle::ConstantTimeEq;

use super::cost::HashCost;
use super::stored::{Parameters, Stored};
use super::text::{self, BASE64};

/// One stored value.
struct Hash {
    cost: Cost,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// N is a power of two; its logarithm, the block size and the parallelisation.
#[derive(Clone, Copy)]
struct Cost {
    log_n: u32,
    r: u32,
    p: u32,
}

/// Reads the PHC string.
pub(super) fn parse(hash: &[u8]) -> Option<Box<dyn Stored>> {
    let text = std::str::from_utf8(hash).ok()?;
    let mut fields = text.strip_prefix("$scrypt$")?.split('$');
    let list = fields.next()?;
    let [log_n, r, p] = ["ln", "r", "p"].map(|name| text::parameter(list, name));
    let (salt, hash) = (text::decode(fields.next()?)?, text::decode(fields.next()?)?);
    let cost = Cost { log_n: log_n?, r: r?, p: p? };
    fields.next().is_none().then(|| stored(cost, salt, hash))?
}

/// Reads what follows `$7$`: one character of N, five each of r and p, the salt as it is, the hash.
pub(super) fn parse_crypt(rest: &str) -> Option<Box<dyn Stored>> {
    let (log_n, rest) = (text::crypt_digit(*rest.as_bytes().first()?)?, rest.get(1..)?);
    let five = |text: &str| {
        let digits = text.bytes().enumerate().map(|(at, letter)| {
            text::crypt_digit(letter)?.checked_shl(6 * u32::try_from(at).ok()?)
        });
        digits.sum::<Option<u32>>()
    };
    let (r, p) = (five(rest.get(..5)?)?, five(rest.get(5..10)?)?);
    let (salt, hash) = rest.get(10..)?.split_once('$')?;
    stored(Cost { log_n, r, p }, salt.as_bytes().to_vec(), text::decode_crypt(hash)?)
}

fn stored(cost: Cost, salt: Vec<u8>, hash: Vec<u8>) -> Option<Box<dyn Stored>> {
    let is_sound = cost.log_n > 0 && cost.log_n < 64 && hash.len() >= HASH_MIN_BYTES;
    // The product is what the library computes with; it must not overflow there.
    cost.params().filter(|_| is_sound)?;
    Some(Box::new(Hash { cost, salt, hash }))
}

/// Makes a value.
pub(super) fn make(clear: &[u8], log_n: u32, chance: &mut dyn Chance) -> Option<String> {
    let cost = Cost { log_n, r: BLOCK_SIZE, p: 1 };
    let mut salt = [0; SALT_BYTES];
    chance.fill(&mut salt);
    let hash = cost.derive(clear, &salt, HASH_BYTES)?;
    let (salt, hash) = (BASE64.encode(salt), BASE64.encode(hash));
    Some(format!("$scrypt$ln={log_n},r={BLOCK_SIZE},p=1${salt}${hash}"))
}

/// What tells values apart.
pub(super) fn parameters(log_n: u32) -> Parameters {
    Parameters([log_n, BLOCK_SIZE, 1, 0])
}

impl Stored for Hash {
    fn cost(&self) -> HashCost {
        let Cost { log_n, r, p } = self.cost;
        let memory = (1_u64 << log_n).saturating_mul(u64::from(r));
        HashCost {
            blocks: memory.saturating_mul(u64::from(p)),
            memory_bytes: memory.saturating_mul(128),
            lanes: p,
        }
    }

    fn parameters(&self) -> Parameters {
        let Cost { log_n, r, p } = self.cost;
        Parameters([log_n, r, p, 0])
    }

    fn verify(&self, clear: &[u8]) -> bool {
        let hash = self.cost.derive(clear, &self.salt, self.hash.len());
        hash.is_some_and(|hash| hash.ct_eq(&self.hash).into())
    }
}

impl Cost {
    fn params(self) -> Option<Params> {
        Params::new(u8::try_from(self.log_n).ok()?, self.r, self.p).ok()
    }

    fn derive(self, clear: &[u8], salt: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut hash = vec![0; length];
        scrypt::scrypt(clear, salt, &self.params()?, &mut hash).ok()?;
        Some(hash)
    }
}

/// Octets of salt in new hashes.
const SALT_BYTES: usize = 16;
/// Octets of new hashes.
const HASH_BYTES: usize = 32;
/// A shorter hash would be found by chance.
const HASH_MIN_BYTES: usize = 16;
/// r of new hashes.
const BLOCK_SIZE: u32 = 8;
