//! The greeting: who dials, whom it wants, for what; and what the other side says to that.
//!
//! Invariant: its forms are the same in every protocol, so that two releases can tell each other
//! what they speak.

use std::fmt;

use super::frame::Purpose;

/// The protocol that is spoken here.
pub const PROTOCOL: u16 = 1;
/// Begins a greeting and its response.
const MAGIC: [u8; 8] = *b"\x00roster\x01";
/// Octets of a greeting.
pub(crate) const GREETING_BYTES: usize = 43;
/// Octets of the response to one.
pub(crate) const WELCOME_BYTES: usize = 35;

/// One of a cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NodeIdentity {
    /// The number of the store that all nodes began with.
    pub cluster: [u8; 16],
    /// The number of the node.
    pub node: u64,
}

/// What the dialing side says first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Greeting {
    pub(crate) protocol: u16,
    pub(crate) from: NodeIdentity,
    pub(crate) wanted: u64,
    pub(crate) purpose: u8,
}

/// What the accepting side says to that: who it is, and whether it goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Welcome {
    pub(crate) protocol: u16,
    pub(crate) from: NodeIdentity,
    pub(crate) is_welcome: bool,
}

/// Why a node that was reached is not the one that was wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GreetingError {
    /// It does not speak this protocol at all.
    Malformed,
    /// It speaks another version of it.
    Protocol {
        /// The version that it speaks.
        theirs: u16,
    },
    /// It belongs to another cluster.
    Cluster,
    /// It is another node of the cluster.
    Node {
        /// The node that was reached.
        reached: u64,
    },
    /// It does not want this connection, and gives no reason.
    Refused,
}

impl Greeting {
    pub(crate) fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut out = Vec::with_capacity(GREETING_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.protocol.to_le_bytes());
        out.extend_from_slice(&self.from.cluster);
        out.extend_from_slice(&self.from.node.to_le_bytes());
        out.extend_from_slice(&self.wanted.to_le_bytes());
        out.push(self.purpose);
        filled(&out)
    }

    /// None when it begins otherwise than a greeting does.
    pub(crate) fn decode(octets: &[u8; GREETING_BYTES]) -> Option<Self> {
        let (protocol, from, rest) = begin(octets)?;
        let (wanted, rest) = rest.split_first_chunk()?;
        Some(Self { protocol, from, wanted: u64::from_le_bytes(*wanted), purpose: *rest.first()? })
    }

    /// What it is for, and the response to it, as `own` gives it.
    pub(crate) fn response(&self, own: NodeIdentity) -> (Option<Purpose>, Welcome) {
        let is_meant = self.protocol == PROTOCOL
            && self.from.cluster == own.cluster
            && self.wanted == own.node
            && self.from.node != own.node;
        let purpose = Purpose::numbered(self.purpose).filter(|_| is_meant);
        (purpose, Welcome { protocol: PROTOCOL, from: own, is_welcome: purpose.is_some() })
    }
}

impl Welcome {
    pub(crate) fn encode(&self) -> [u8; WELCOME_BYTES] {
        let mut out = Vec::with_capacity(WELCOME_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.protocol.to_le_bytes());
        out.extend_from_slice(&self.from.cluster);
        out.extend_from_slice(&self.from.node.to_le_bytes());
        out.push(u8::from(self.is_welcome));
        filled(&out)
    }

    pub(crate) fn decode(octets: &[u8; WELCOME_BYTES]) -> Result<Self, GreetingError> {
        let (protocol, from, rest) = begin(octets).ok_or(GreetingError::Malformed)?;
        let is_welcome = match rest {
            [0] => false,
            [1] => true,
            _ => return Err(GreetingError::Malformed),
        };
        Ok(Self { protocol, from, is_welcome })
    }

    /// Whether `wanted` was reached and goes on.
    pub(crate) fn check(&self, wanted: NodeIdentity) -> Result<(), GreetingError> {
        if self.protocol != PROTOCOL {
            return Err(GreetingError::Protocol { theirs: self.protocol });
        }
        if self.from.cluster != wanted.cluster {
            return Err(GreetingError::Cluster);
        }
        if self.from.node != wanted.node {
            return Err(GreetingError::Node { reached: self.from.node });
        }
        if self.is_welcome { Ok(()) } else { Err(GreetingError::Refused) }
    }
}

impl fmt::Display for GreetingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("what was reached does not speak roster's protocol"),
            Self::Protocol { theirs } => write!(
                f,
                "the node speaks version {theirs} of the protocol, and this one version {PROTOCOL}"
            ),
            Self::Cluster => f.write_str("the node belongs to another cluster"),
            Self::Node { reached } => write!(f, "node {reached} was reached instead"),
            Self::Refused => f.write_str("the node refuses the connection"),
        }
    }
}

/// What both begin with.
fn begin(octets: &[u8]) -> Option<(u16, NodeIdentity, &[u8])> {
    let rest = octets.strip_prefix(&MAGIC)?;
    let (protocol, rest) = rest.split_first_chunk()?;
    let (cluster, rest) = rest.split_first_chunk()?;
    let (node, rest) = rest.split_first_chunk()?;
    let from = NodeIdentity { cluster: *cluster, node: u64::from_le_bytes(*node) };
    Some((u16::from_le_bytes(*protocol), from, rest))
}

/// The octets as an array; they are as many as it holds.
fn filled<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.iter_mut().zip(octets).for_each(|(out, octet)| *out = *octet);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: NodeIdentity = NodeIdentity { cluster: *b"cluster of tests", node: 2 };

    fn greeting() -> Greeting {
        let from = NodeIdentity { node: 1, ..OWN };
        Greeting { protocol: PROTOCOL, from, wanted: 2, purpose: Purpose::Log as u8 }
    }

    #[test]
    fn a_greeting_reads_back_the_same() {
        let octets = greeting().encode();
        assert_eq!(Greeting::decode(&octets), Some(greeting()));
        for at in 0..8 {
            let mut other = octets;
            other[at] ^= 1;
            assert_eq!(Greeting::decode(&other), None, "{at}");
        }
        let (purpose, welcome) = greeting().response(OWN);
        assert_eq!(purpose, Some(Purpose::Log));
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
        assert_eq!(welcome.check(OWN), Ok(()));
        let mut octets = welcome.encode();
        octets[WELCOME_BYTES - 1] = 2;
        assert_eq!(Welcome::decode(&octets), Err(GreetingError::Malformed));
    }

    #[test]
    fn each_disagreement_is_told_apart() {
        let refused = |greeting: Greeting, own: NodeIdentity| {
            let (purpose, welcome) = greeting.response(own);
            assert_eq!(purpose, None);
            let wanted = NodeIdentity { cluster: greeting.from.cluster, node: greeting.wanted };
            welcome.check(wanted).unwrap_err()
        };
        let newer = Greeting { protocol: 2, ..greeting() };
        assert_eq!(refused(newer, OWN), GreetingError::Refused);
        let other = NodeIdentity { cluster: [7; 16], ..OWN };
        assert_eq!(refused(greeting(), other), GreetingError::Cluster);
        let third = NodeIdentity { node: 3, ..OWN };
        assert_eq!(refused(greeting(), third), GreetingError::Node { reached: 3 });
        assert_eq!(refused(Greeting { purpose: 9, ..greeting() }, OWN), GreetingError::Refused);
        assert_eq!(refused(Greeting { from: OWN, ..greeting() }, OWN), GreetingError::Refused);
        let older = Welcome { protocol: 0, from: OWN, is_welcome: false };
        assert_eq!(older.check(OWN), Err(GreetingError::Protocol { theirs: 0 }));
    }
}
