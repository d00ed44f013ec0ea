//! The turns of a connection's requests to send an entry in parts.
//!
//! Invariant: of one connection one such entry at most is under way, from when its octets are
//! counted until the connection has taken them. What waits for its turn holds no view.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whose turn it is, among the requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeTurns {
    is_taken: Arc<AtomicBool>,
}

impl LargeTurns {
    /// The turn; none while another request has it.
    pub(crate) fn take(&self) -> Option<LargeTurn> {
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        (!was_taken).then(|| LargeTurn { is_taken: Arc::clone(&self.is_taken) })
    }

    /// Whether nobody has it.
    pub(crate) fn is_free(&self) -> bool {
        !self.is_taken.load(Ordering::Acquire)
    }
}

/// The turn of one request; it ends when this is dropped.
pub(crate) struct LargeTurn {
    is_taken: Arc<AtomicBool>,
}

impl Drop for LargeTurn {
    fn drop(&mut self) {
        self.is_taken.store(false, Ordering::Release);
    }
}
