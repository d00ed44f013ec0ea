//! Threads for what would delay others on a worker: large searches, slow password hashes, and
//! updates of other nodes.
//!
//! `scan_pool.rs` and `hash_pool.rs` give out their threads by `fair_queue.rs`; `forwarded_pool.rs`
//! takes what other nodes hand on.

pub(crate) mod fair_queue;
pub(crate) mod forwarded_pool;
pub(crate) mod hash_pool;
pub(crate) mod scan_pool;
