//! How identities are proved: stored passwords, the keys and messages of SCRAM, signed tokens, and
//! the messages of the other SASL mechanisms. Pure functions and data.
//!
//! Start at `password/mod.rs`, then `scram.rs` and `jwt.rs`.
//!
//! Invariant: knows no directory, session or thread; octets go in, octets and verdicts come out.
//! Invariant: secrets are compared in constant time, and what a hash costs is known before it is
//! computed.

pub mod anonymous;
pub mod jwt;
pub mod oauthbearer;
pub mod password;
pub mod plain;
pub mod scram;

/// A message that is not as its mechanism says, and what would be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Malformed(pub &'static str);

/// Reads a client's first message as the mechanism of this name does, to the end of its syntax;
/// says whether it is well formed. For tests of the parsers.
pub fn is_well_formed(mechanism: &str, octets: &[u8]) -> bool {
    match mechanism {
        plain::PLAIN => plain::read(octets).is_ok(),
        "ANONYMOUS" => anonymous::read(octets).is_ok(),
        "OAUTHBEARER" => oauthbearer::read(octets).is_ok(),
        "SCRAM first" => scram::ClientFirst::read(octets).is_ok(),
        "SCRAM final" => scram::ClientFinal::read(octets).is_ok(),
        "SCRAM keys" => scram::ScramKeys::parse(octets).is_some(),
        "token" => jwt::header(octets).is_some(),
        _ => false,
    }
}
