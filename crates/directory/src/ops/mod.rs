//! One file per operation.

pub(crate) mod access_config;
pub(crate) mod account_state;
pub(crate) mod add;
pub(crate) mod bind;
pub(crate) mod checks;
pub(crate) mod compare;
pub(crate) mod delete;
pub(crate) mod excerpt;
pub(crate) mod extended;
mod held_bytes;
pub(crate) mod index_config;
pub(crate) mod modify;
pub(crate) mod modify_dn;
mod passes;
pub(crate) mod password_modify;
pub(crate) mod permit;
pub(crate) mod rank;
pub(crate) mod rehash;
pub(crate) mod relax;
pub(crate) mod schema_modify;
pub(crate) mod search;
pub(crate) mod subtree_delete;
pub(crate) mod suffix;
pub(crate) mod target;
pub(crate) mod transaction;
pub(crate) mod update;
pub(crate) mod why;
