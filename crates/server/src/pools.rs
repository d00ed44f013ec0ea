//! Threads for what would delay others on a worker: large searches, slow password hashes, and
//! updates of other nodes.
//!
//! All of them give out their threads by `fair_queue.rs`.

pub(crate) mod fair_queue;
pub(crate) mod forwarded_pool;
pub(crate) mod hash_pool;
pub(crate) mod scan_pool;
