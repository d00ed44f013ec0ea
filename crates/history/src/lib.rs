//! What happened to a directory: change records, the log that orders them and makes them durable,
//! and recovery of what the data do not have yet.
//!
//! Start at `record.rs`, then `log.rs` and `recovery.rs`.
//!
//! Invariant: knows no session, no operation and no access rule; only what `aci` permitted becomes
//! a record.
//! Invariant: nothing is skipped, and nothing is acknowledged before it is durable and visible.

pub mod archive;
pub mod changes;
mod csn;
mod data_directory;
mod error;
pub mod log;
pub mod record;
pub mod recovery;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;

pub use csn::Csn;
pub use data_directory::{
    ARCHIVE_DIRECTORY, CLUSTER_SETTINGS, JOURNAL_DIRECTORY, QUARANTINE_FILE, SCHEMA_DIRECTORY,
    archive_disk, journal_disk, schema_of,
};
pub use error::HistoryError;
