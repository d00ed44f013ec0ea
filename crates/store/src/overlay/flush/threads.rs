//! The flusher's, the merger's and the indexer's threads.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::pace::{FlushOptions, OverlayStatus, now};
use crate::base::meta::Mark;
use crate::error::StoreError;
use crate::index::build::build_when_due;
use crate::store::Store;

/// Hears of each flush: the place of the last change that is in the base now, or why it failed.
pub type OnFlush = Box<dyn Fn(Result<&Mark, &StoreError>) + Send + Sync>;

/// The threads that flush, merge and build indexes; they end when this is dropped.
pub struct Flusher {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Store {
    /// Starts the threads that write what is published to LMDB. There is one flusher at a time.
    /// `on_flush` is called on the flusher's thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start_flusher(
        self: &Arc<Self>,
        options: FlushOptions,
        on_flush: OnFlush,
    ) -> Result<Flusher, StoreError> {
        self.pace.begin(&options);
        let mut flusher = Flusher { store: Arc::clone(self), threads: Vec::new() };
        let (store, of_indexes) = (Arc::clone(self), options.clone());
        flusher.spawn("indexer", move || build_when_due(&store, &of_indexes))?;
        let store = Arc::clone(self);
        flusher.spawn("flusher", move || flush_when_due(&store, &options, &on_flush))?;
        let store = Arc::clone(self);
        flusher.spawn("merger", move || {
            while store.pace.wait_for_merge(&store.versions) {
                store.merge_due();
            }
        })?;
        Ok(flusher)
    }

    /// How the overlay is.
    #[must_use]
    pub fn overlay(&self) -> OverlayStatus {
        self.pace.status(&self.versions)
    }
}

impl Flusher {
    /// Ends the threads; a flush that has begun comes to its end. What is in the overlay stays
    /// there.
    pub fn stop(self) {
        drop(self);
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let io = |source: io::Error| StoreError::io(self.store.base_environment().path(), source);
        self.threads.push(thread.map_err(io)?);
        Ok(())
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.store.pace.stop();
        for thread in self.threads.drain(..) {
            // It panicked, which its own message told.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Flusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flusher").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

fn flush_when_due(store: &Store, options: &FlushOptions, on_flush: &OnFlush) {
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, BACKGROUND_NICE);
    while store.pace.wait_for_flush(options) {
        match store.flush() {
            Ok(mark) => on_flush(Ok(&mark)),
            Err(error) => {
                on_flush(Err(&error));
                store.pace.not_before(now() + options.retry_after);
            }
        }
    }
}

/// How much flusher and indexer step back behind the threads that somebody waits for, the writer
/// among them. Each gets about a tenth of what a thread that answers searches gets, and what is
/// left over; where that is too little for flushes, the bound of the overlay slows the writer.
pub(crate) const BACKGROUND_NICE: i32 = 10;
