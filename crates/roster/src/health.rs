//! How a server is, on one screen (`status`), and what is wrong with it (`doctor`).
//!
//! Start at `facts.rs` (what is asked once), then `checks.rs`, the table of what is looked for in
//! it.
//!
//! Invariant: what could not be looked at is said, never taken for well.

pub(crate) mod aci_names;
pub(crate) mod checks;
pub(crate) mod doctor;
pub(crate) mod facts;
pub(crate) mod machine;
pub(crate) mod status;
