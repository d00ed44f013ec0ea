//! Updates: a file for each operation, the decision, and the queue of the writer. Start at
//! `request.rs`, `decide.rs` and `queue.rs`.

pub(crate) mod account_events;
pub(crate) mod account_state;
pub(crate) mod add;
pub(crate) mod before_hashing;
pub(crate) mod checks;
mod context_rename;
pub(crate) mod decide;
pub(crate) mod decision;
pub(crate) mod delete;
pub(crate) mod delta;
pub(crate) mod followed;
pub(crate) mod held_bytes;
pub(crate) mod modify;
pub(crate) mod modify_dn;
pub(crate) mod named;
pub(crate) mod old_password;
pub(crate) mod passes;
pub(crate) mod password_modify;
pub(crate) mod passwords;
pub(crate) mod permit;
pub(crate) mod queue;
pub(crate) mod rank;
pub(crate) mod read_entry;
pub(crate) mod references;
pub(crate) mod rehash;
pub(crate) mod relax;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod space;
pub(crate) mod stamp;
pub(crate) mod stored_form;
pub(crate) mod submit;
pub(crate) mod subtree_delete;
pub(crate) mod suffix;
pub(crate) mod transaction;
pub(crate) mod transactions;
