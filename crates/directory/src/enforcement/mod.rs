//! How strictly the schema is enforced, as administrators say it in `cn=Schema,cn=config`.
//!
//! Start at `modes.rs`, what can be said, then `broken.rs`, what is counted and logged of entries
//! that break a rule. `placement.rs` is about name forms and structure rules.
//!
//! Invariant: the mode is asked where an update is decided, on the state that its predecessors
//! left; what was decided is applied everywhere.

pub(crate) mod broken;
pub mod modes;
pub(crate) mod placement;
