//! `roster serve --preload`: reads the data file into memory beside the server.
//!
//! Invariants: clients are served meanwhile; no more is read than there is free memory for;
//! dropping it ends it.

use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use store::{Preloaded, Store, StoreError};

use crate::failure::Failure;

/// A data file that is being read.
#[derive(Debug)]
pub(crate) struct Preload {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Preload {
    /// Begins to read.
    pub(crate) fn start(store: Arc<Store>) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let read = move || match run(&store, free_bytes() / BUDGET_PART, &stopped) {
            Ok(Preloaded { bytes, of_bytes }) => {
                tracing::info!(bytes, of_bytes, "preload: done");
            }
            Err(error) => tracing::warn!(%error, "preload: the data file cannot be read"),
        };
        let thread = Builder::new().name("preload".to_owned()).spawn(read);
        let thread = thread.map_err(|error| Failure::local(format!("cannot preload: {error}")))?;
        Ok(Self { stop, thread: Some(thread) })
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
        if percent >= told + TELL_PERCENT {
            told = percent - percent % TELL_PERCENT;
            tracing::info!(percent, done_bytes = done, of_bytes = of, "preload");
        }
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
}

/// Memory that can be had without swapping, in bytes: of the machine, or of the control group that
/// the process is in, whichever is less. Everything when the system does not tell.
fn free_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available);
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    // Of the second version, as a container sees it; "max" is no number and no limit.
    let group = number("memory.max")
        .map(|most| most.saturating_sub(number("memory.current").unwrap_or_default()));
    [machine, group].into_iter().flatten().min().unwrap_or(u64::MAX)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// One part of so many of the free memory may be filled.
const BUDGET_PART: u64 = 2;
/// Progress is told every so many percent.
const TELL_PERCENT: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_memory_is_read_or_unknown() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:     22 kB\n"), Some(22 * 1024));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(available("MemAvailable: much\n"), None);
        assert!(free_bytes() > 0);
    }
}
