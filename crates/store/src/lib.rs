//! Entries, names and indexes in LMDB.
//!
//! Start at `lmdb.rs` (the tables), then `plan.rs` and `apply.rs`.
//!
//! Invariants: knows no request, no session and no access rule. Every write goes through
//! [`Batch::apply`], in one durable LMDB transaction with the number of the last change in it; only
//! the bulk load writes otherwise, into a file of its own.

mod error;
mod format;
mod key;
mod posting;
mod varint;

pub use error::{Corruption, StoreError};
pub use format::FORMAT;
