//! What a flush waits for: that the log has everything durably which it writes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::meta::Mark;
use crate::error::StoreError;

/// Makes durable in the log what is published up to a mark; why it cannot, in a sentence.
pub type SyncLog = Arc<dyn Fn(&Mark) -> Result<(), String> + Send + Sync>;

/// Nothing where there is no log.
#[derive(Default)]
pub(crate) struct LogSync(Mutex<Option<SyncLog>>);

impl LogSync {
    pub(super) fn set(&self, sync: SyncLog) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sync);
    }

    pub(super) fn run(&self, upto: &Mark) -> Result<(), StoreError> {
        // Not under the lock: it takes as long as the disk does.
        let sync = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sync.map_or(Ok(()), |sync| sync(upto)).map_err(StoreError::Log)
    }
}

impl fmt::Debug for LogSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSync").finish_non_exhaustive()
    }
}
