//! Entries, names and indexes in LMDB.
//!
//! Start at `lmdb.rs` (the tables). Then, for a write: `batch.rs`, `apply.rs` (a change becomes
//! rows), `memory.rs` and `layer.rs` (where the rows lie until they are flushed), `version.rs`
//! (when they are seen). For a read: `reader.rs`, `view.rs`, `stack.rs` (which of the layers says
//! what holds), `plan.rs`.
//!
//! Invariants: knows no request, no session and no access rule. Every write goes through a
//! [`Batch`], into a layer over LMDB, and with others into LMDB in one durable transaction with the
//! number of the last change in it; only the bulk load writes otherwise.

mod apply;
mod batch;
mod build;
mod bulk;
mod cells;
mod check;
mod compress;
pub mod conformance;
mod copy;
mod data_file;
mod deltas;
mod dictionary;
mod entry;
mod error;
mod flush;
mod format;
mod ids;
mod index;
mod index_status;
mod interrupt;
mod key;
mod layer;
mod lmdb;
#[doc(hidden)]
pub mod measure;
mod memory;
mod merge;
mod meta;
mod names;
mod plan;
mod posting;
mod preload;
mod reader;
mod record;
mod remembered;
mod stack;
mod store;
mod swap;
#[cfg(test)]
mod testing;
mod uses;
pub mod varint;
mod version;
mod view;

pub use batch::{Applied, Batch};
pub use build::IndexStep;
pub use bulk::{
    Added, BulkError, BulkLoader, BulkReport, Held, LoadOptions, Phase, Place, PrepareError,
    PreparedEntry, Preparer, Refusal, RefusalReason,
};
pub use check::{CHECK_FINDINGS_MAX, CheckReport, Finding, FindingKind};
pub use copy::{Adoption, BaseReader, BaseSummary, base_mark, base_summary};
pub use dictionary::{ATTRIBUTE_ID_COUNT_MAX, Dictionary, with_stand_in};
pub use entry::StoredEntry;
pub use error::{Corruption, StoreError};
pub use flush::{FlushOptions, Flusher, OnFlush, OverlayStatus, SyncLog};
pub use format::{FORMAT, has_journal, identity};
pub use index::{
    INDEX_COUNT_MAX, INDEX_DEFINITION_MAX_BYTES, IndexConfig, IndexDefinition, IndexKind,
    IndexState,
};
pub use index_status::{IndexStatus, IndexStatusOptions};
pub use lmdb::StoreOptions;
pub use meta::{LogPosition, Lsn, Mark};
pub use plan::{
    Ask, CandidateIds, Candidates, Explanation, Indexable, Operator, Plan, ScopeReport, Source,
    TermReport, Work,
};
pub use preload::{PreloadProgress, Preloaded};
pub use reader::{IndexUses, Reader};
pub use record::RECORD_LENGTH_MAX_BYTES;
pub use store::{BaseStatus, CONTEXT_COUNT_MAX, Statistics, Store, TableStatistics};
pub use uses::CacheUses;
pub use view::{
    Members, OrderedGroup, OrderedGroups, OrderingIndex, Resolved, TREE_DEPTH_MAX, View,
    ordering_would_help,
};
