//! Searches beside an import: what they take says how fast it may go.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use client::{ClientError, Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;

use super::now;
use super::throttle::{Throttle, latency_max_default};

/// Probes on a thread of their own, until it is dropped.
pub(crate) struct Probe {
    throttle: Arc<Mutex<Throttle>>,
    latency_max: Duration,
    probes: Arc<AtomicU64>,
    /// The thread ends when this does.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Looks what a search of `base` takes now, and goes on probing. The connections are used in
    /// turns: a server may serve each on another thread.
    pub(crate) fn start(
        mut connections: Vec<Connection>,
        base: &str,
        latency_max: Option<Duration>,
        requests_max: usize,
    ) -> Result<Self, ClientError> {
        let mut idle = Vec::with_capacity(IDLE_PROBES);
        let count = connections.len().max(1);
        for number in 0..IDLE_PROBES {
            if let Some(connection) = connections.get_mut(number % count) {
                idle.push(probe(connection, base)?);
            }
        }
        let latency_max = latency_max.unwrap_or_else(|| latency_max_default(&mut idle));
        let throttle = Arc::new(Mutex::new(Throttle::new(latency_max, requests_max)));
        let probes = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = mpsc::channel();
        let thread = {
            let (throttle, probes, base) =
                (Arc::clone(&throttle), Arc::clone(&probes), base.to_owned());
            thread::spawn(move || {
                let mut next = 0;
                while stopped.recv_timeout(PROBE_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let Some(connection) = connections.get_mut(next % count) else { return };
                    next += 1;
                    // Where it fails so will the import, which can say why.
                    let Ok(latency) = probe(connection, &base) else { return };
                    throttle.lock().unwrap_or_else(PoisonError::into_inner).probed(latency);
                    probes.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        Ok(Self { throttle, latency_max, probes, stop: Some(stop), thread: Some(thread) })
    }

    /// Asks the regulator, or tells it something.
    pub(crate) fn throttle<T>(&self, ask: impl FnOnce(&mut Throttle) -> T) -> T {
        ask(&mut self.throttle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a search may take.
    pub(crate) const fn latency_max(&self) -> Duration {
        self.latency_max
    }

    /// How many probes there were beside the import.
    pub(crate) fn probes(&self) -> u64 {
        self.probes.load(Ordering::Relaxed)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It holds nothing that could be lost with it.
            let _ = thread.join();
        }
    }
}

/// One search for the entry `base`, which need not exist.
fn probe(connection: &mut Connection, base: &str) -> Result<Duration, ClientError> {
    let begin = now();
    let filter = Filter::Present("objectClass");
    let asked =
        SearchFor { scope: Scope::Base, attributes: &["1.1"], ..SearchFor::below(base, filter) };
    connection.search(&asked)?;
    Ok(begin.elapsed())
}

/// Searches that tell what one takes without the import.
const IDLE_PROBES: usize = 32;
/// Between two searches beside the import.
const PROBE_EVERY: Duration = Duration::from_millis(20);
