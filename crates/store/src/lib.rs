//! Entries, names and indexes in LMDB.
//!
//! The folders, in the order in which a change meets them: `write` (a change becomes rows),
//! `overlay` (where the rows lie until they are flushed, and when they are seen), `base` (LMDB),
//! and for a search `read` (views and plans). All of them know `rows` (what a row holds) and
//! `index`. `bulk` builds a whole base, `upkeep` checks one. Start at `base/lmdb.rs` (the tables),
//! then `write/apply.rs` and `read/plan.rs`.
//!
//! Invariants: knows no request, no session and no access rule. Every write goes through a
//! [`Batch`], into a layer over LMDB, and with others into LMDB in one durable transaction with the
//! number of the last change in it; only the bulk load writes otherwise.

mod base;
mod bulk;
#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod error;
mod index;
#[cfg(any(test, feature = "test-support"))]
pub mod measure;
mod overlay;
mod read;
mod rows;
mod store;
#[cfg(test)]
mod testing;
mod upkeep;
mod write;

pub use self::store::{BaseStatus, Statistics, Store, TableStatistics};
pub use base::copy::{Adoption, BaseReader, BaseSummary, base_mark, base_summary};
pub use base::digest::{Digest, DigestPoint};
pub use base::format::{FORMAT, has_journal, identity, refuse_in_use};
pub use base::lmdb::StoreOptions;
pub use base::meta::Mark;
pub use base::naming_context::{CONTEXT_COUNT_MAX, NAMING_CONTEXTS, NO_CONTEXT, NamingContexts};
pub use base::position::{LogPosition, Lsn};
pub use base::requests::{KeptRequest, REQUESTS_KEPT_FOR, REQUESTS_KEPT_MAX};
pub use base::staged::StagedBase;
pub use base::transfer::{BaseCopy, BaseIntake, COPY_LEAVES_BYTES, CopyHead, ReceivedBase};
pub use bulk::{
    Added, BulkError, BulkLoader, BulkReport, Held, LoadOptions, Phase, PrepareError,
    PreparedEntry, Preparer, Refusal, RefusalReason, SourceLine,
};
pub use error::{Corruption, Gib, StoreError};
pub use index::build::IndexStep;
pub use index::status::{IndexStatus, IndexStatusOptions};
pub use index::{
    INDEX_COUNT_MAX, INDEX_DEFINITION_MAX_BYTES, IndexConfig, IndexDefinition, IndexKind,
    IndexState,
};
pub use overlay::flush::{FlushOptions, Flusher, OnFlush, OverlayStatus, SyncLog};
pub use read::computed::{Computed, ComputedCandidates, at_or_below};
pub use read::held::{HeldEntry, HeldState, NotHeld, Slice};
pub use read::plan::{
    Ask, CandidateIds, CandidateSource, Candidates, Explanation, Indexable, Operator, Plan,
    ScopeReport, TermReport, Whole, Work,
};
pub use read::reader::{DetachedView, IndexUses, StoreReader};
pub use read::uses::CacheUses;
pub use read::view::{
    ApartValues, Meant, Members, Naming, OrderedGroup, OrderedGroups, OrderingIndex, OutsideValues,
    ReferenceList, References, Resolved, SomeReferences, TREE_DEPTH_MAX, View, ordering_would_help,
};
pub use rows::dictionary::{ATTRIBUTE_ID_COUNT_MAX, Dictionary, with_stand_in};
pub use rows::entry::StoredEntry;
pub use rows::record::RECORD_LENGTH_MAX_BYTES;
pub use rows::varint;
pub use upkeep::check::{CHECK_FINDINGS_MAX, CheckReport, Finding, FindingKind};
pub use upkeep::leave::renew_identity;
pub use upkeep::preload::{PreloadProgress, Preloaded};
pub use write::apply::LISTED_MIN_BYTES;
pub use write::batch::{Applied, Batch};
pub use write::digest::{DIGEST_INTERVAL_RECORDS, DIGESTS_KEPT_MAX};
