//! Updates: a file for each operation, the decision, and the queue of the writer. Start at
//! `decide.rs` and `queue.rs`.

pub(crate) mod account_state;
pub(crate) mod add;
pub(crate) mod checks;
pub(crate) mod decide;
pub(crate) mod delete;
pub(crate) mod held_bytes;
pub(crate) mod modify;
pub(crate) mod modify_dn;
pub(crate) mod passes;
pub(crate) mod password_modify;
pub(crate) mod permit;
pub(crate) mod queue;
pub(crate) mod rank;
pub(crate) mod read_entry;
pub(crate) mod rehash;
pub(crate) mod relax;
pub(crate) mod space;
pub(crate) mod stamp;
pub(crate) mod subtree_delete;
pub(crate) mod suffix;
pub(crate) mod transaction;
pub(crate) mod transactions;
pub(crate) mod update;
