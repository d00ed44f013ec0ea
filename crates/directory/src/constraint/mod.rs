//! Constraints: what the values of entries must be like, beyond the schema, as administrators say
//! it in `cn=Constraints,cn=config`.
//!
//! Start at `text.rs`, how one is written, then `check.rs`, what a change is checked for.
//! `unique.rs` looks for entries that have the same; `violations.rs` finds the entries that broke
//! them before they came. `requested.rs` is uniqueness that a request asks for by a control: there
//! whoever asks has the words, so `asker.rs` looks with their eyes.
//!
//! Invariant: whoever has not the right to make a change learns nothing from a constraint: rights
//! are checked first.
//! Invariant: a change is checked on the state that its predecessors left, by the only thread that
//! decides: no two changes pass that together break a constraint.

mod asker;
pub(crate) mod changed;
pub(crate) mod check;
pub(crate) mod requested;
pub mod text;
mod unique;
pub(crate) mod violations;
