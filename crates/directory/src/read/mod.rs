//! Search and compare, and the entries that are made when they are read. Start at `search.rs`.

pub(crate) mod account_usability;
pub(crate) mod analyser;
pub(crate) mod compare;
pub(crate) mod computed;
pub(crate) mod dangling;
pub(crate) mod effective_rights;
pub(crate) mod excerpt;
pub mod explanation;
pub(crate) mod fresh;
pub(crate) mod live_entry;
pub(crate) mod lookup;
pub(crate) mod root_dse;
pub(crate) mod search;
pub(crate) mod search_counters;
pub(crate) mod special;
pub(crate) mod streams;
pub(crate) mod subentry;
pub(crate) mod subschema;
pub(crate) mod subtree;
pub(crate) mod target;
pub(crate) mod virtual_tree;
pub(crate) mod why;
