//! What comes from a target, counted, where the library that reads it keeps all of it in memory;
//! and whether the connection is lost, where the library would make another one by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_nats::Statistics;

/// The count, from the begin of what is being sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Received(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counts: Mutex<Option<Arc<Statistics>>>,
    before: AtomicU64,
    lost: Mutex<Option<String>>,
}

impl Received {
    /// A connection begins, which is counted there.
    pub(super) fn is_of(&self, counts: Arc<Statistics>) {
        *self.0.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
        self.begin();
    }

    /// Whether there is a connection that is counted.
    pub(super) fn is_counted(&self) -> bool {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Something is to be sent: what comes from now on is counted.
    pub(super) fn begin(&self) {
        self.0.before.store(self.all(), Ordering::Relaxed);
    }

    /// There is no connection, for this reason.
    pub(super) fn is_lost(&self, why: String) {
        *self.0.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Refuses more than any answers have, and a connection that is lost.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(why) = &*self.0.lost.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(why.clone());
        }
        let bytes = self.all().saturating_sub(self.0.before.load(Ordering::Relaxed));
        match bytes > RECEIVED_MAX_BYTES {
            true => Err(format!("it sends more than {RECEIVED_MAX_BYTES} bytes for an answer")),
            false => Ok(()),
        }
    }

    fn all(&self) -> u64 {
        let counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.as_ref().map_or(0, |counts| counts.in_bytes.load(Ordering::Relaxed))
    }
}

/// Answers to a batch have some ten thousand bytes, and what a server tells of itself less than
/// that.
const RECEIVED_MAX_BYTES: u64 = 2 << 20;
