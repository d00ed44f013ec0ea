//! What is counted against limits that hold for all connections together.

use std::sync::{Arc, Mutex, PoisonError};

use crate::read::search::budget::Budget;
use crate::request::asker_bytes::AskerBytes;
use crate::request::identity_limits::Identities;
use crate::request::large_entry::LARGE_ENTRY_BYTES;
use crate::request::limits::Limits;

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
    /// What searches that go on with what changes count for.
    pub(crate) streams: Arc<Mutex<AskerBytes>>,
}

/// What one of them counts for.
pub(crate) const STREAM_BYTES: usize = LARGE_ENTRY_BYTES;

impl Budgets {
    /// Nothing is taken of what the limits allow.
    pub(crate) fn new(limits: &Limits) -> Self {
        let of = |max| Arc::new(Mutex::new(AskerBytes::new(max)));
        Self {
            identities: Arc::default(),
            transactions: of(limits.transactions_max_bytes),
            parked: Budget::default(),
            large_entries: of(large_bytes(limits)),
            streams: of(stream_bytes(limits)),
        }
    }

    /// What is allowed from now on; what is held beyond it stays.
    pub(crate) fn fit(&self, limits: &Limits) {
        let all = [
            (&self.transactions, limits.transactions_max_bytes),
            (&self.large_entries, large_bytes(limits)),
            (&self.streams, stream_bytes(limits)),
        ];
        for (held, max) in all {
            held.lock().unwrap_or_else(PoisonError::into_inner).set_max(max);
        }
    }

    /// How many searches go on with what changes.
    pub(crate) fn streams(&self) -> usize {
        let held = self.streams.lock().unwrap_or_else(PoisonError::into_inner).held();
        held / STREAM_BYTES
    }

    /// Octets that the updates of open transactions take.
    pub(crate) fn transaction_bytes(&self) -> usize {
        self.transactions.lock().unwrap_or_else(PoisonError::into_inner).held()
    }
}

fn large_bytes(limits: &Limits) -> usize {
    limits.large_entries_max.saturating_mul(LARGE_ENTRY_BYTES)
}

fn stream_bytes(limits: &Limits) -> usize {
    limits.streams_max.saturating_mul(STREAM_BYTES)
}
