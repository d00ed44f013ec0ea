//! What is counted against limits that hold for all connections together.

use std::sync::{Arc, Mutex, PoisonError};

use crate::read::search::budget::Budget;
use crate::request::asker_bytes::AskerBytes;
use crate::request::identity_limits::Identities;
use crate::request::large_entry::LARGE_ENTRY_BYTES;

/// What is taken now.
pub(crate) struct Budgets {
    /// Connections and operations of each identity.
    pub(crate) identities: Arc<Identities>,
    /// What the updates of open transactions take.
    pub(crate) transactions: Arc<Mutex<AskerBytes>>,
    /// What lists of parked searches hold.
    pub(crate) parked: Budget,
    /// What entries that are sent in parts count for.
    pub(crate) large_entries: Arc<Mutex<AskerBytes>>,
}

impl Budgets {
    /// Nothing is taken; the updates of open transactions may take so many octets, and so many
    /// entries may be sent in parts.
    pub(crate) fn new(transactions_max_bytes: usize, large_entries_max: usize) -> Self {
        let large_bytes = large_entries_max.saturating_mul(LARGE_ENTRY_BYTES);
        Self {
            identities: Arc::default(),
            transactions: Arc::new(Mutex::new(AskerBytes::new(transactions_max_bytes))),
            parked: Budget::default(),
            large_entries: Arc::new(Mutex::new(AskerBytes::new(large_bytes))),
        }
    }

    /// Octets that the updates of open transactions take.
    pub(crate) fn transaction_bytes(&self) -> usize {
        self.transactions.lock().unwrap_or_else(PoisonError::into_inner).held()
    }
}
