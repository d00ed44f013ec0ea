//! The commit log of several servers: Raft over the journal.
//!
//! Start at `types.rs` for what the engine is told, then `log_store.rs` for what it keeps.
//!
//! Invariant: knows records as octets: no operation, no session, no schema.
//! Invariant: a vote is on the medium before it is answered, an entry before it is counted.
#![cfg_attr(test, allow(missing_docs, reason = "tests explain themselves by name"))]

mod asks;
mod changing;
mod comparing;
mod copies;
mod engine;
mod entry;
mod errands;
mod listing;
mod log_store;
mod machine;
mod memberships;
mod options;
mod receiver;
mod report;
mod service;
mod shared;
#[cfg(any(test, feature = "test-support"))]
pub mod simulated;
#[cfg(test)]
mod simulation;
mod tail;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod transport;
mod types;
mod unsaid;
mod verifying;
mod versions;
mod watcher;

pub use copies::{
    ARRIVAL_KEPT_FOR, COPY_KEPT_FOR, COPY_PIECE_BYTES, COPY_RATE_BYTES, CopyProgress, Piece,
};
pub use engine::{CHOSEN_MAX, MemberStatus, RaftLog, Status};
#[cfg(any(test, feature = "test-support"))]
pub use entry::arbitrary;
pub use listing::numbers as member_numbers;
pub use log_store::{LogMedium, LogStore, Waiting};
pub use machine::{Engine, RaftMachine};
pub use memberships::{KnownMember, known_members};
pub use options::{
    LOG_KEEP_BYTES, OUTCOME_WAIT, Options, SILENCE_MAX, VERIFY_RATE_BYTES, VOTERS_MAX,
};
pub use receiver::MemberReceiver;
pub use report::{MemberFacts, MemberReport};
pub use service::{AnswerDone, AskedHere, Facts, LeaderAnswered, Service, ServiceParts};
pub use types::{Node, RecordOutcome, Runtime, SnapshotFile, Types};
pub use watcher::Impediment;
