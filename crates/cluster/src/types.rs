//! The types that the engine works with.

use std::fmt;
use std::sync::Arc;

use openraft::alias::{EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf};
use openraft::impls::leader_id_std::LeaderId;
use openraft::rt::deterministic_rng::DeterministicRng;
use openraft_rt_tokio::TokioRuntime;

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
    /// Which key it has joined with, as whoever let it in calls that; empty for those with whom
    /// the cluster began.
    pub key: String,
}

/// What became of a record that is committed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RecordOutcome {
    /// Its effects are visible here; an entry that is no record has none.
    #[default]
    Applied,
    /// It does not follow from the state before it, so it has no effect on any server.
    Void,
}

/// A snapshot, as the engine hands it on: its octets are made when it is sent, and are in files
/// when it was received.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SnapshotFile {
    /// That of this server.
    #[default]
    Own,
    /// One that was received, by the id of the copy.
    Received([u8; 16]),
}

/// Tasks and time of the engine. Its chance is handed in: what runs in `Runtime::scope(seed, ..)`,
/// and what that spawns, draws from the seed.
#[cfg(not(test))]
pub type Runtime = SeededRuntime;
#[cfg(test)]
pub use crate::simulation::Simulated as Runtime;

/// The runtime with chance that is handed in.
pub(crate) type SeededRuntime = DeterministicRng<TokioRuntime>;

openraft::declare_raft_types!(
    /// What the engine is made of here: one leader a term, as in the Raft paper.
    pub Types:
        D = RecordBytes,
        R = RecordOutcome,
        AsyncRuntime = Runtime,
        NodeId = u64,
        Node = Node,
        Term = u64,
        LeaderId = LeaderId<u64, u64>,
);

pub(crate) type Entry = EntryOf<Types>;
pub(crate) type LogId = LogIdOf<Types>;
pub(crate) type Vote = VoteOf<Types>;
pub(crate) type StoredMembership = StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = SnapshotMetaOf<Types>;
pub(crate) type Snapshot = SnapshotOf<Types, SnapshotFile>;
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
