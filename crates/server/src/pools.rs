//! Threads for what would delay others on a worker: large searches and slow password hashes.
//!
//! `scan_pool.rs` and `hash_pool.rs` are the pools; both give out their threads by `fair_queue.rs`.

pub(crate) mod fair_queue;
pub(crate) mod forward_pool;
pub(crate) mod hash_pool;
pub(crate) mod scan_pool;
