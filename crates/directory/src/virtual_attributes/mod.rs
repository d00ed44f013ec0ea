//! Attributes that entries have without storing them: collective ones (RFC 3671), those of Class
//! of Service as Sun's and 389's servers have it, and those that administrators define.
//!
//! Start at `definition.rs`, what a definition says. `collective.rs`, `service.rs` and `text.rs`
//! read the three forms; `set.rs` has all of a directory; `giver.rs` finds the values for an entry.
//!
//! Invariant: what is given is seen by who reads, searches and compares. Nothing else of the server
//! heeds it, but that accounts are switched off by it (`switched_off.rs`): access rules, groups,
//! policies, constraints and indexes see what is stored.
//! Invariant: no value is given that is made of another given one, so finding them has an end.

pub(crate) mod collective;
pub(crate) mod definition;
pub(crate) mod giver;
pub(crate) mod planned;
pub(crate) mod service;
pub(crate) mod set;
pub(crate) mod switched_off;
pub mod text;
