//! Groups and roles: which entries are some, and who is in them.
//!
//! Start at `kind.rs`, what a group is, then `lookup.rs`, which groups a name or an entry is in.
//! `members.rs` has the opposite, who is in a group. `described.rs` are those that describe their
//! members; `user_names.rs` has members by `memberUid`; `roles.rs` are those of Sun's and 389's
//! servers. `member_entry.rs` shows an entry with its groups to filters of the server's own.
//!
//! Invariant: no access control here: whoever asks decides what may be told. But filters of groups
//! and roles see nothing secret: who may write one could else read secrets, by what the group may.
//! Invariant: every walk has an end: groups in circles are gone through once, and of them there is
//! a limit in number and in depth. Where some were left out that is told.

pub(crate) mod described;
pub(crate) mod kind;
pub(crate) mod known;
pub(crate) mod lookup;
pub(crate) mod member_entry;
pub(crate) mod members;
pub(crate) mod roles;
pub(crate) mod user_names;
