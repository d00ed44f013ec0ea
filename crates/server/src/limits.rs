//! What one client may take from the others: connections, guesses, memory, time.
//!
//! `client_addresses.rs` counts by address, `connection_slots.rs` and `anonymous_share.rs` bound
//! those who have not authenticated, `budget.rs` counts what is held for clients that do not read,
//! and `memory.rs` gives freed memory back to the system. `open_files.rs` fits connections into the
//! open files that the system allows.

pub(crate) mod anonymous_share;
pub(crate) mod budget;
pub(crate) mod client_addresses;
pub(crate) mod connection_slots;
pub(crate) mod memory;
pub(crate) mod open_files;
