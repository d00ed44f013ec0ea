//! A disk in memory that loses, tears and refuses: for tests, of this crate and of others.
//!
//! It behaves by its seed alone. What was not synced is kept only in parts at a crash: any subset
//! of blocks, and any prefix of creations, renames and removals.
