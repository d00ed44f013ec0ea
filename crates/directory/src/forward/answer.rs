//! What the node that decides says of an update that was handed to it.
//!
//! Layout, little-endian; a text is its length (u32) and UTF-8:
//!
//! ```text
//! version u16
//! kind u8:  1 answered     lsn u64, wrong guess u8, policy u8 (255: none), has code u8, code u32,
//!                        diagnostic text, response u32 + octets
//!           2 not deciding leader text (empty: not known)
//!           3 unknown
//!           4 refused      result code u32, diagnostic text
//! ```
//!
//! Invariant: everything but `answered` and `unknown` says that nothing happened.

use ldap::result::ResultCode;
use store::Lsn;
use zeroize::Zeroizing;

use super::forwarder::{ANSWER_MAX_BYTES, PROTOCOL_VERSION};
use super::octets::{OctetReader, Unreadable, put_octets};
use crate::password_policy::PolicyError;

/// What became of an update that was handed on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ForwardedAnswer {
    /// It is decided, and what was changed is durable.
    Answered(Answered),
    /// The node does not decide; nothing happened.
    NotDeciding {
        /// Where clients find the one that does, as an LDAP URL.
        leader: Option<String>,
    },
    /// Whether it happened is not known to the node: it lost the lead meanwhile.
    Unknown,
    /// Nothing happened, and nobody looked at it.
    Refused {
        /// What its client is told.
        code: ResultCode,
        /// Why.
        diagnostic: String,
    },
}

/// The response to an update.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answered {
    /// The response is true of a state with this change, and of none before.
    pub lsn: Lsn,
    /// An old password that was sent is not right.
    pub is_wrong_guess: bool,
    /// What the password policy had against it.
    pub policy: Option<PolicyError>,
    /// The result code that the response has; none where there is no response.
    pub code: Option<ResultCode>,
    /// The diagnostic message that it has.
    pub diagnostic: String,
    /// The LDAP message to be sent; empty where its client has abandoned it.
    pub response: Vec<u8>,
}

impl ForwardedAnswer {
    /// Whether it shows that somebody decides. Who ends or fails may say so itself.
    pub(super) fn is_of_one_who_decides(&self) -> bool {
        match self {
            Self::Answered(Answered { code, .. }) => *code != Some(ResultCode::Unavailable),
            Self::Refused { code, .. } => *code != ResultCode::Unavailable,
            Self::NotDeciding { .. } | Self::Unknown => false,
        }
    }

    /// Octets that it takes at the most.
    fn room_bytes(&self) -> usize {
        const OTHERS_BYTES: usize = 64;
        OTHERS_BYTES
            + match self {
                Self::Answered(answered) => answered.diagnostic.len() + answered.response.len(),
                Self::NotDeciding { leader } => leader.as_ref().map_or(0, String::len),
                Self::Unknown => 0,
                Self::Refused { diagnostic, .. } => diagnostic.len(),
            }
    }

    /// It as octets.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        // At once, or a password in it would be left where the octets were before.
        let mut out = Zeroizing::new(Vec::with_capacity(self.room_bytes()));
        out.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        match self {
            Self::Answered(answered) => {
                let Answered { lsn, is_wrong_guess, policy, code, diagnostic, response } = answered;
                out.push(ANSWERED);
                out.extend_from_slice(&lsn.0.to_le_bytes());
                out.push(u8::from(*is_wrong_guess));
                out.push(policy.map_or(NO_POLICY, |policy| policy as u8));
                out.push(u8::from(code.is_some()));
                out.extend_from_slice(&code.map_or(0, ResultCode::code).to_le_bytes());
                put_octets(&mut out, diagnostic.as_bytes());
                put_octets(&mut out, response);
            }
            Self::NotDeciding { leader } => {
                out.push(NOT_DECIDING);
                put_octets(&mut out, leader.as_deref().unwrap_or_default().as_bytes());
            }
            Self::Unknown => out.push(UNKNOWN),
            Self::Refused { code, diagnostic } => {
                out.push(REFUSED);
                out.extend_from_slice(&code.code().to_le_bytes());
                put_octets(&mut out, diagnostic.as_bytes());
            }
        }
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the octets are none, or one of another version.
    pub fn decode(octets: &[u8]) -> Result<Self, Unreadable> {
        if octets.len() > ANSWER_MAX_BYTES {
            return Err(Unreadable("longer than an answer may be"));
        }
        let mut reader = OctetReader::new(octets);
        if reader.u16()? != PROTOCOL_VERSION {
            return Err(Unreadable::OTHER_VERSION);
        }
        let answer = match reader.u8()? {
            ANSWERED => Self::Answered(Answered {
                lsn: Lsn(reader.u64()?),
                is_wrong_guess: reader.bool()?,
                policy: read_policy(&mut reader)?,
                code: read_code(&mut reader)?,
                diagnostic: reader.text(ANSWER_MAX_BYTES)?.to_owned(),
                response: reader.octets(ANSWER_MAX_BYTES)?.to_vec(),
            }),
            NOT_DECIDING => {
                let leader = reader.text(TEXT_MAX_BYTES)?;
                Self::NotDeciding { leader: (!leader.is_empty()).then(|| leader.to_owned()) }
            }
            UNKNOWN => Self::Unknown,
            REFUSED => Self::Refused {
                code: ResultCode::from_wire(reader.u32()?),
                diagnostic: reader.text(TEXT_MAX_BYTES)?.to_owned(),
            },
            _ => return Err(Unreadable("an answer of a kind that is not known")),
        };
        reader.end()?;
        Ok(answer)
    }
}

fn read_policy(reader: &mut OctetReader<'_>) -> Result<Option<PolicyError>, Unreadable> {
    match reader.u8()? {
        NO_POLICY => Ok(None),
        number => {
            let known = PolicyError::ALL.get(usize::from(number)).copied();
            known.map(Some).ok_or(Unreadable("a policy error that is not known"))
        }
    }
}

/// The code that a response has; a number where there is none is refused, as it stands for nothing.
fn read_code(reader: &mut OctetReader<'_>) -> Result<Option<ResultCode>, Unreadable> {
    match (reader.bool()?, reader.u32()?) {
        (true, code) => Ok(Some(ResultCode::from_wire(code))),
        (false, 0) => Ok(None),
        (false, _) => Err(Unreadable("a code of no response")),
    }
}

const ANSWERED: u8 = 1;
const NOT_DECIDING: u8 = 2;
const UNKNOWN: u8 = 3;
const REFUSED: u8 = 4;

/// Stands for no policy error.
const NO_POLICY: u8 = u8::MAX;

/// Octets of a diagnostic or a URL.
const TEXT_MAX_BYTES: usize = 64 * 1024;
