//! Reads the data file into memory beside a server that begins to serve (`store.preload`).
//!
//! Invariants: clients are served meanwhile; at most half of the memory that is left is filled;
//! dropping it ends it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use offline::default_budget_bytes;
use store::{Preloaded, Store, StoreError};

use crate::failure::Failure;

/// A data file that is being read.
#[derive(Debug)]
pub(crate) struct Preload {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Preload {
    /// Begins to read, if that is wanted: `auto` is when the file fits.
    pub(crate) fn start(store: Arc<Store>, wanted: &str) -> Result<Option<Self>, Failure> {
        let budget_bytes = default_budget_bytes();
        let is_wanted = match wanted {
            "auto" => store.file_bytes()? <= budget_bytes,
            wanted => wanted == "on",
        };
        if !is_wanted {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let read = move || match run(&store, budget_bytes, &stopped) {
            Ok(Preloaded { bytes, of_bytes }) => {
                tracing::info!(bytes, of_bytes, "preload: done");
            }
            Err(error) => tracing::warn!(%error, "preload: the data file cannot be read"),
        };
        let thread = Builder::new().name("preload".to_owned()).spawn(read);
        let thread = thread.map_err(|error| Failure::local(format!("cannot preload: {error}")))?;
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

impl Drop for Preload {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn run(store: &Store, budget_bytes: u64, stop: &AtomicBool) -> Result<Preloaded, StoreError> {
    let mut told = 0;
    store.preload(budget_bytes, &mut |done, of| {
        let percent = done.saturating_mul(100) / of.max(1);
        if of >= TOLD_BYTES_MIN && percent >= told + TELL_PERCENT {
            told = percent - percent % TELL_PERCENT;
            tracing::info!(percent, done_bytes = done, of_bytes = of, "preload");
        }
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
}

/// Files that are smaller are read in a second or less, and only the end is told.
const TOLD_BYTES_MIN: u64 = 1 << 30;
/// Progress is told every so many percent.
const TELL_PERCENT: u64 = 10;
