//! crypt(3): the forms that begin with `$`, and the two of DES that do not.
//!
//! Invariant: how often a value wants to be hashed is read here, before the library sees it.

use std::fmt::Write as _;

use environment::Chance;
use pwhash::HashSetup;
use pwhash::bcrypt::{BcryptSetup, BcryptVariant};
use subtle::ConstantTimeEq;
use yescrypt::{Mode, Params};

use base64::Engine as _;

use super::cost::HashCost;
use super::scrypt;
use super::stored::{Parameters, Stored};
use super::text::{self, BASE64_BCRYPT};

/// A form whose text the library verifies as a whole.
struct Whole {
    text: String,
    blocks: u64,
    parameters: Parameters,
}

/// yescrypt, `$y$`.
struct Yescrypt {
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// Reads any form of crypt(3).
pub(super) fn parse(hash: &[u8]) -> Option<Box<dyn Stored>> {
    let is_plain = hash.iter().all(u8::is_ascii_graphic);
    let text = std::str::from_utf8(hash).ok().filter(|text| is_plain && !text.is_empty())?;
    if let Some(rest) = text.strip_prefix("$y$") {
        return parse_yescrypt(rest);
    }
    if let Some(rest) = text.strip_prefix("$7$") {
        return scrypt::parse_crypt(rest);
    }
    let (blocks, parameters) = match text.strip_prefix('$') {
        Some(rest) => {
            let (kind, rest) = rest.split_once('$')?;
            match kind {
                "1" => (MD5_ROUNDS, Parameters::default()),
                "2a" | "2b" | "2y" => return parse_bcrypt(hash),
                "sha1" => {
                    let rounds = text::number(rest.split_once('$')?.0)?;
                    (u64::from(rounds), Parameters::default())
                }
                "5" | "6" => {
                    let rounds = match rest.strip_prefix("rounds=") {
                        Some(rest) => text::number(rest.split_once('$')?.0)?,
                        None => SHA_ROUNDS_DEFAULT,
                    };
                    (u64::from(rounds), Parameters([rounds, text::number(kind)?, 0, 0]))
                }
                _ => return None,
            }
        }
        None if text.starts_with('_') => {
            let count = text.as_bytes().get(1..5)?.iter().enumerate();
            let count = count.map(|(at, letter)| Some(text::crypt_digit(*letter)? << (6 * at)));
            (u64::from(count.sum::<Option<u32>>()?), Parameters::default())
        }
        None => (DES_ROUNDS, Parameters::default()),
    };
    Some(Box::new(Whole { text: text.to_owned(), blocks, parameters }))
}

/// Reads bcrypt alone: `{BCRYPT}` of OpenLDAP and OpenDJ.
pub(super) fn parse_bcrypt(hash: &[u8]) -> Option<Box<dyn Stored>> {
    let text = std::str::from_utf8(hash).ok().filter(|text| text.len() == BCRYPT_TEXT_BYTES)?;
    let (head, salt_and_hash) = text.split_at_checked(BCRYPT_HEAD_BYTES)?;
    let cost = head
        .strip_prefix("$2")?
        .strip_prefix(['a', 'b', 'y'])?
        .strip_prefix('$')?
        .strip_suffix('$')?;
    let cost = text::number(cost).filter(|cost| (4..=31).contains(cost))?;
    let is_base64 = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'/');
    salt_and_hash.bytes().all(is_base64).then(|| {
        let (blocks, parameters) = (BCRYPT_STEP_BLOCKS << cost, bcrypt_parameters(cost));
        Box::new(Whole { text: text.to_owned(), blocks, parameters }) as Box<dyn Stored>
    })
}

/// Makes bcrypt, `$2b$`. It looks at the first 72 octets of a password only.
pub(super) fn make_bcrypt(clear: &[u8], cost: u32, chance: &mut dyn Chance) -> Option<String> {
    let mut salt = [0; 16];
    chance.fill(&mut salt);
    let salt = BASE64_BCRYPT.encode(salt);
    let variant = Some(BcryptVariant::V2b);
    let setup = BcryptSetup { salt: Some(&salt), cost: Some(cost), variant };
    pwhash::bcrypt::hash_with(setup, clear).ok()
}

/// What tells values of bcrypt apart.
pub(super) fn bcrypt_parameters(cost: u32) -> Parameters {
    Parameters([cost, 2, 0, 0])
}

/// Makes `$5$` or `$6$`.
#[expect(deprecated, reason = "systems that know nothing else are asked for by name")]
pub(super) fn make_sha(
    clear: &[u8],
    kind: ShaCrypt,
    rounds: u32,
    chance: &mut dyn Chance,
) -> Option<String> {
    let mut salt = [0; 12];
    chance.fill(&mut salt);
    let salt = text::encode_crypt(&salt);
    let setup = HashSetup { salt: Some(&salt), rounds: Some(rounds) };
    match kind {
        ShaCrypt::Sha256 => pwhash::sha256_crypt::hash_with(setup, clear).ok(),
        ShaCrypt::Sha512 => pwhash::sha512_crypt::hash_with(setup, clear).ok(),
    }
}

/// `$5$` or `$6$`.
#[derive(Clone, Copy)]
pub(super) enum ShaCrypt {
    Sha256,
    Sha512,
}

/// What tells values of `$5$` and `$6$` apart.
pub(super) fn sha_parameters(kind: ShaCrypt, rounds: u32) -> Parameters {
    let number = match kind {
        ShaCrypt::Sha256 => 5,
        ShaCrypt::Sha512 => 6,
    };
    Parameters([rounds, number, 0, 0])
}

/// Makes yescrypt with the parameters that distributions use: 16 MiB.
pub(super) fn make_yescrypt(clear: &[u8], chance: &mut dyn Chance) -> Option<String> {
    let params = Params::default();
    let mut salt = [0; 16];
    chance.fill(&mut salt);
    let mut hash = [0; YESCRYPT_HASH_BYTES];
    yescrypt::yescrypt(clear, &salt, &params, &mut hash).ok()?;
    let mut text = format!("$y${params}$");
    let (salt, hash) = (text::encode_crypt(&salt), text::encode_crypt(&hash));
    write!(text, "{salt}${hash}").ok()?;
    Some(text)
}

/// What tells values of yescrypt apart.
pub(super) fn yescrypt_parameters() -> Parameters {
    parameters_of(&Params::default())
}

fn parameters_of(params: &Params) -> Parameters {
    Parameters([u32::try_from(params.n()).unwrap_or(u32::MAX), params.r(), params.p(), 25])
}

/// What follows `$y$`.
fn parse_yescrypt(rest: &str) -> Option<Box<dyn Stored>> {
    let mut fields = rest.split('$');
    let (written, salt, hash) = (fields.next()?, fields.next()?, fields.next()?);
    let is_crypt = |text: &str| text.bytes().all(|letter| text::crypt_digit(letter).is_some());
    if fields.next().is_some() || written.len() > YESCRYPT_PARAMS_MAX_BYTES || !is_crypt(written) {
        return None;
    }
    let read = written.parse::<Params>().ok()?;
    let (n, r, p) = (read.n(), read.r(), read.p());
    if n < 2 || u64::from(r) * u64::from(p) >= 1 << 30 {
        return None;
    }
    // The library does not tell how often the memory is walked beyond the least; only what is
    // written like this is that least.
    let params = Params::new(Mode::default(), n, r, p).ok()?;
    if params.to_string() != written {
        return None;
    }
    let (salt, hash) = (text::decode_crypt(salt)?, text::decode_crypt(hash)?);
    let is_whole = hash.len() == YESCRYPT_HASH_BYTES;
    is_whole.then(|| Box::new(Yescrypt { params, salt, hash }) as Box<dyn Stored>)
}

impl Stored for Whole {
    fn cost(&self) -> HashCost {
        HashCost::iterations(self.blocks)
    }

    fn parameters(&self) -> Parameters {
        self.parameters
    }

    fn verify(&self, clear: &[u8]) -> bool {
        pwhash::unix::verify(clear, &self.text)
    }

    fn is_whole(&self) -> bool {
        let (hash, lengths) = match (self.text.strip_prefix('_'), self.text.rsplit_once('$')) {
            (Some(hash), _) => (hash, 19..=19),
            (None, Some((_, hash))) => (hash, 22..=usize::MAX),
            (None, None) => (self.text.as_str(), 13..=13),
        };
        lengths.contains(&hash.len()) && hash.bytes().all(|one| text::crypt_digit(one).is_some())
    }
}

impl Stored for Yescrypt {
    fn cost(&self) -> HashCost {
        let memory = self.params.n().saturating_mul(u64::from(self.params.r()));
        HashCost {
            blocks: memory.saturating_mul(u64::from(self.params.p())),
            memory_bytes: memory.saturating_mul(128),
            lanes: self.params.p(),
        }
    }

    fn parameters(&self) -> Parameters {
        parameters_of(&self.params)
    }

    fn verify(&self, clear: &[u8]) -> bool {
        let mut hash = [0; YESCRYPT_HASH_BYTES];
        yescrypt::yescrypt(clear, &self.salt, &self.params, &mut hash)
            .is_ok_and(|()| hash.as_slice().ct_eq(&self.hash).into())
    }
}

/// Rounds of `$5$` and `$6$` that do not say how many.
const SHA_ROUNDS_DEFAULT: u32 = 5_000;
/// Rounds of `$1$`.
const MD5_ROUNDS: u64 = 1_000;
/// Rounds of DES, each of which takes longer than a block.
const DES_ROUNDS: u64 = 100;
/// `$2b$10$` and 53 characters.
const BCRYPT_TEXT_BYTES: usize = 60;
const BCRYPT_HEAD_BYTES: usize = 7;
/// What one step of bcrypt takes: two key set-ups of Blowfish.
const BCRYPT_STEP_BLOCKS: u64 = 128;
/// Eight parameters of six characters.
const YESCRYPT_PARAMS_MAX_BYTES: usize = 48;
const YESCRYPT_HASH_BYTES: usize = 32;
