//! The commit log of several servers: Raft over the journal.
//!
//! Start at `types.rs` for what the engine is told, then `log_store.rs` for what it keeps.
//!
//! Invariant: knows records as octets: no operation, no session, no schema.
//! Invariant: a vote is on the medium before it is answered, an entry before it is counted.
#![cfg_attr(test, allow(missing_docs, reason = "tests explain themselves by name"))]

mod entry;
mod log_store;
#[cfg(any(test, feature = "test-support"))]
pub mod simulated;
mod types;

#[cfg(any(test, feature = "test-support"))]
pub use entry::arbitrary;
pub use log_store::{LogMedium, LogStore, Waiting};
pub use types::{Node, Types};
