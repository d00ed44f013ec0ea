//! The overlay: changes that are durable in the journal and not yet in LMDB.
//!
//! A batch writes to the open layer (`memtable.rs`). It is sealed, published as part of a version,
//! merged with others, and flushed into LMDB. Readers see the base through the layers (`stack.rs`).

pub(crate) mod awaited;
pub(crate) mod cells;
pub(crate) mod deltas;
pub(crate) mod flush;
pub(crate) mod layer;
pub(crate) mod memtable;
pub(crate) mod merge;
pub(crate) mod stack;
pub(crate) mod version;
