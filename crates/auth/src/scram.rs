//! The messages of SCRAM (RFC 5802, RFC 7677) and the proofs in them: what a client sends is read,
//! the challenge is made, and the client's proof is verified against the keys of its password.
//!
//! Invariant: a proof is verified in constant time, and fails unless nonce and channel binding are
//! those of the exchange.

mod keys;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use environment::Chance;
use subtle::ConstantTimeEq as _;

use crate::Malformed;

pub use keys::{ITERATIONS_DEFAULT, ScramHash, ScramKeys};

/// How the names of the mechanisms begin.
pub const PREFIX: &str = "SCRAM-";

/// `client-first-message`, its parts.
#[derive(Debug, Eq, PartialEq)]
pub struct ClientFirst<'m> {
    /// What it says of channel binding.
    pub binding: Binding<'m>,
    /// Whom the client wants to be.
    pub authzid: String,
    /// The header, for `c=`.
    pub header: &'m str,
    /// What follows it.
    bare: &'m str,
    /// Who the client says it is.
    pub username: String,
    nonce: &'m str,
}

/// `gs2-cbind-flag`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Binding<'m> {
    /// The client cannot.
    Unsupported,
    /// The client could, and believes that the server cannot.
    Unoffered,
    /// Of the type of this name.
    Used(&'m str),
}

/// `client-final-message`, its parts.
#[derive(Debug, Eq, PartialEq)]
pub struct ClientFinal<'m> {
    binding: Vec<u8>,
    nonce: &'m str,
    /// The message up to the proof.
    without_proof: &'m str,
    proof: Vec<u8>,
}

impl<'m> ClientFirst<'m> {
    /// Reads one.
    ///
    /// # Errors
    /// When it is not as RFC 5802 §7 says.
    pub fn read(octets: &'m [u8]) -> Result<Self, Malformed> {
        let text = text(octets)?;
        let mut parts = text.splitn(3, ',');
        let (Some(flag), Some(authzid), Some(bare)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let binding = match flag {
            "n" => Binding::Unsupported,
            "y" => Binding::Unoffered,
            _ => Binding::Used(flag.strip_prefix("p=").filter(|it| is_name(it)).ok_or_else(wrong)?),
        };
        let authzid = match authzid {
            "" => String::new(),
            name => read_name(name.strip_prefix("a=").ok_or_else(wrong)?)?,
        };
        let header = text.strip_suffix(bare).ok_or_else(wrong)?;
        let mut parts = bare.split(',');
        let mut part =
            |name| parts.next().and_then(|part| part.strip_prefix(name)).ok_or_else(wrong);
        // A message that begins with `m=` has an extension that must be understood.
        let (username, nonce) = (read_name(part("n=")?)?, part("r=")?);
        if username.is_empty() || nonce.is_empty() || !is_printable(nonce) {
            return Err(wrong());
        }
        Ok(Self { binding, authzid, header, bare, username, nonce })
    }
}

impl<'m> ClientFinal<'m> {
    /// Reads one.
    ///
    /// # Errors
    /// When it is not as RFC 5802 §7 says.
    pub fn read(octets: &'m [u8]) -> Result<Self, Malformed> {
        let text = text(octets)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(wrong)?;
        let mut parts = without_proof.split(',');
        let mut part =
            |name| parts.next().and_then(|part| part.strip_prefix(name)).ok_or_else(wrong);
        let (binding, nonce) = (part("c=")?, part("r=")?);
        let decode = |part: &str| STANDARD.decode(part).map_err(|_| wrong());
        Ok(Self { binding: decode(binding)?, nonce, without_proof, proof: decode(proof)? })
    }
}

/// What is remembered of the server's challenge until the client's proof comes.
#[derive(Debug)]
pub struct Challenge {
    /// What the proof is verified with.
    pub keys: ScramKeys,
    /// What must stand in `c=`, decoded: the header of the first message and the binding.
    binding: Vec<u8>,
    /// The client's and the server's, joined.
    nonce: String,
    /// `client-first-message-bare "," server-first-message ","`.
    auth_message: String,
}

impl Challenge {
    /// The answer to `first`, and `server-first-message`, which sends it. `binding` is what the
    /// client has to repeat in `c=`.
    pub fn new(
        first: &ClientFirst<'_>,
        binding: Vec<u8>,
        keys: ScramKeys,
        chance: &mut dyn Chance,
    ) -> (Self, String) {
        let nonce = format!("{}{}", first.nonce, made_nonce(chance));
        let salt = STANDARD.encode(&keys.salt);
        let message = format!("r={nonce},s={salt},i={}", keys.iterations);
        let auth_message = format!("{},{message},", first.bare);
        (Self { keys, binding, nonce, auth_message }, message)
    }

    /// Verifies the proof: the server's, or none when the client's is wrong.
    ///
    /// # Errors
    /// When the message belongs to another exchange.
    pub fn verify(&self, last: &ClientFinal<'_>) -> Result<Option<Vec<u8>>, Malformed> {
        let ScramKeys { hash, stored_key, server_key, .. } = &self.keys;
        if last.nonce != self.nonce {
            return Err(Malformed("the nonce is not the one of the exchange"));
        }
        let auth_message = format!("{}{}", self.auth_message, last.without_proof);
        let signature = hash.hmac(stored_key, auth_message.as_bytes());
        let client_key: Vec<u8> =
            last.proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        let is_right = last.proof.len() == signature.len()
            && bool::from(hash.digest(&client_key).ct_eq(stored_key))
            && bool::from(last.binding.ct_eq(&self.binding));
        let verifier = STANDARD.encode(hash.hmac(server_key, auth_message.as_bytes()));
        Ok(is_right.then(|| format!("v={verifier}").into_bytes()))
    }
}

/// Whether a message carries a proof, which may be wrong; the first one of an exchange does not.
pub fn carries_proof(octets: Option<&[u8]>) -> bool {
    octets.is_some_and(|octets| octets.starts_with(b"c="))
}

fn made_nonce(chance: &mut dyn Chance) -> String {
    let mut octets = [0; NONCE_BYTES];
    chance.fill(&mut octets);
    STANDARD.encode(octets)
}

fn wrong() -> Malformed {
    Malformed("the SCRAM message is not as RFC 5802 says")
}

fn text(octets: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(octets)
        .ok()
        .filter(|text| text.len() <= MESSAGE_MAX_BYTES && !text.contains('\0'))
        .ok_or_else(wrong)
}

/// Undoes `=2C` and `=3D` and prepares the name (RFC 5802 §5.1).
fn read_name(text: &str) -> Result<String, Malformed> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        name.push_str(before);
        let (character, after) = match after.split_at_checked(2) {
            Some(("2C", after)) => (',', after),
            Some(("3D", after)) => ('=', after),
            _ => return Err(wrong()),
        };
        name.push(character);
        rest = after;
    }
    name.push_str(rest);
    stringprep::saslprep(&name).map(|prepared| prepared.into_owned()).map_err(|_| wrong())
}

/// `cb-name`.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | '-'))
}

/// `printable`: no comma can be left in it.
fn is_printable(text: &str) -> bool {
    text.chars().all(|one| matches!(one, '!'..='~'))
}

/// Octets of salt: as many as RFC 7677's example has.
pub const SALT_BYTES: usize = 16;
/// Octets of chance in a nonce; a multiple of three, so that Base64 has no padding.
const NONCE_BYTES: usize = 18;
/// Octets of one message; a server keeps about twice as many for each client in an exchange.
const MESSAGE_MAX_BYTES: usize = 4_096;
