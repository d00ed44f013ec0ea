//! Assignments: what the server writes by itself when an entry comes to be one of a kind, as
//! administrators say it in `cn=Assignments,cn=config`: numbers that no other entry has, and
//! memberships.
//!
//! Start at `text.rs`, how one is written; then `number.rs`, which sets numbers in an entry before
//! it is checked, and `follow.rs`, what changes in other entries after it: groups (`membership.rs`)
//! and entries that name each other (`link.rs`).
//!
//! Invariant: the next number is in the same record as the entry that has the last one: none is
//! ever given twice, whoever leads and whatever is deleted.
//! Invariant: what is written here needs no right of whoever changes the entry; who may say what is
//! written may change access rules.

pub(crate) mod follow;
mod link;
pub(crate) mod membership;
pub(crate) mod number;
pub mod text;
