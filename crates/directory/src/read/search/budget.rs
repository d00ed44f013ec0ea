//! What parked searches may hold in memory, over all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What lists of parked searches hold, over all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// Takes octets of it, if there are so many.
    pub(super) fn take(&self, bytes: usize, max: usize) -> bool {
        let fits = |held: usize| held.checked_add(bytes).filter(|&all| all <= max);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
