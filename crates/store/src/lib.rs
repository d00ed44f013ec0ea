//! Entries, names and indexes in LMDB.
//!
//! Start at `lmdb.rs` (the tables), then `plan.rs` and `apply.rs`.
//!
//! Invariants: knows no request, no session and no access rule. Every write goes through
//! [`Batch::apply`], in one durable LMDB transaction with the number of the last change in it; only
//! the bulk load writes otherwise, into a file of its own.

mod apply;
mod bulk;
mod check;
mod copy;
mod deltas;
mod dictionary;
mod entry;
mod error;
mod format;
mod ids;
mod index;
mod key;
mod lmdb;
mod meta;
mod names;
mod plan;
mod posting;
mod record;
mod store;
#[cfg(test)]
mod testing;
pub mod varint;
mod view;

pub use apply::Batch;
pub use bulk::{BulkError, BulkLoader, BulkReport, PreparedEntry, Preparer};
pub use check::{CHECK_FINDINGS_MAX, CheckReport, Finding, FindingKind};
pub use copy::{BASE_FILE, BaseReader, BaseSummary, base_summary};
pub use dictionary::{ATTRIBUTE_ID_COUNT_MAX, Dictionary};
pub use entry::StoredEntry;
pub use error::{Corruption, StoreError};
pub use format::FORMAT;
pub use index::{INDEX_COUNT_MAX, IndexConfig, IndexKind};
pub use lmdb::StoreOptions;
pub use meta::{LogPosition, Lsn, Mark};
pub use plan::{Candidates, Plan};
pub use record::RECORD_LENGTH_MAX_BYTES;
pub use store::{CONTEXT_COUNT_MAX, Reader, Statistics, Store, TableStatistics};
pub use view::{Resolved, TREE_DEPTH_MAX, View};
