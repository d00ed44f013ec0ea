//! The types that the engine works with.

use std::fmt;
use std::sync::Arc;

use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::impls::leader_id_std::LeaderId;

/// A change record, as octets that are written once and shared by all who keep them.
#[derive(Clone, Eq, PartialEq)]
pub struct RecordBytes(pub Arc<[u8]>);

/// Where a member is found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// Where the other members reach it: `HOST:PORT`.
    pub address: String,
    /// Where clients reach it, as an LDAP URL; empty when they do not.
    pub url: String,
}

openraft::declare_raft_types!(
    /// What the engine is made of here: one leader a term, as in the Raft paper.
    pub Types:
        D = RecordBytes,
        R = (),
        NodeId = u64,
        Node = Node,
        Term = u64,
        LeaderId = LeaderId<u64, u64>,
);

pub(crate) type Entry = EntryOf<Types>;
pub(crate) type LogId = LogIdOf<Types>;
pub(crate) type Vote = VoteOf<Types>;
/// What a snapshot is handed over as: the directory of its files.
pub type SnapshotData = std::path::PathBuf;
pub(crate) type Membership = openraft::Membership<u64, Node>;

impl fmt::Debug for RecordBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for RecordBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
