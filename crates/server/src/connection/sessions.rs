//! The connections there are, for those who list them and close them.
//!
//! Invariant: a request takes no lock here. What a connection shows of itself are a few stores into
//! memory that its worker alone writes; a lock is taken when it begins, binds and ends, and by
//! whoever asks.
//! Invariant: nobody who asks waits for a worker: one that is busy, or asks itself, blocks nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use directory::{Session, SessionState};
use environment::Timestamp;
use history::record::Who;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connection::mailbox::ConnectionId;
use crate::metrics::micros;

/// All connections, by the numbers of their sessions.
pub(crate) struct Sessions {
    /// What times are counted from.
    epoch: Instant,
    shards: [Mutex<FxHashMap<u64, Arc<ConnectionStatus>>>; SHARDS],
}

/// The status of one connection, as others see it.
pub(crate) struct ConnectionStatus {
    number: u64,
    listener: &'static str,
    address: String,
    since: Timestamp,
    tls: OnceLock<&'static str>,
    who: Mutex<Arc<Who>>,
    last_us: AtomicU64,
    operations: AtomicU64,
    outstanding: AtomicU64,
    waiting_bytes: AtomicU64,
    /// Why it is to be closed.
    reason: OnceLock<String>,
    location: Location,
}

/// Where a connection is served.
struct Location {
    connection: ConnectionId,
    closings: Arc<Closings>,
}

/// What changes with requests.
pub(crate) struct Activity {
    pub(crate) last: Instant,
    pub(crate) operations: u64,
    pub(crate) outstanding: usize,
    pub(crate) waiting_bytes: usize,
}

/// Connections of one worker that are to be closed; each is named once, so there are no more than
/// connections.
#[derive(Default)]
pub(crate) struct Closings {
    requested: Mutex<Vec<ConnectionId>>,
    arrived: Notify,
}

impl Closings {
    /// Those that others asked for, when there are any.
    pub(crate) async fn next(&self) -> Vec<ConnectionId> {
        self.arrived.notified().await;
        std::mem::take(&mut locked(&self.requested))
    }
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), shards: Default::default() }
    }

    /// A connection begins.
    pub(crate) fn enter(
        &self,
        session: &Session,
        listener: &'static str,
        since: Timestamp,
        connection: ConnectionId,
        closings: &Arc<Closings>,
    ) -> Arc<ConnectionStatus> {
        let who = session.who();
        let shown = Arc::new(ConnectionStatus {
            number: who.session,
            listener,
            address: session.client_address().to_owned(),
            since,
            tls: OnceLock::new(),
            who: Mutex::new(Arc::clone(who)),
            last_us: AtomicU64::new(micros(self.epoch.elapsed())),
            operations: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            reason: OnceLock::new(),
            location: Location { connection, closings: Arc::clone(closings) },
        });
        self.shard(shown.number).insert(shown.number, Arc::clone(&shown));
        shown
    }

    /// A connection is gone.
    pub(crate) fn leave(&self, shown: &ConnectionStatus) {
        self.shard(shown.number).remove(&shown.number);
    }

    /// Has the connection with this number closed; says whether there is such a one.
    pub(crate) fn close(&self, number: u64, reason: &str) -> bool {
        let found = self.shard(number).get(&number).map(Arc::clone);
        let Some(shown) = found else { return false };
        if shown.reason.set(reason.to_owned()).is_ok() {
            let Location { connection, closings } = &shown.location;
            locked(&closings.requested).push(*connection);
            closings.arrived.notify_one();
        }
        true
    }

    /// All connections, by their numbers.
    pub(crate) fn list(&self, now: Timestamp) -> Vec<SessionState> {
        let elapsed_us = micros(self.epoch.elapsed());
        let mut all = Vec::new();
        for shard in &self.shards {
            // Workers wait for a lock no longer than pointers are copied.
            let shown = locked(shard).values().map(Arc::clone).collect::<Vec<_>>();
            all.extend(shown.iter().map(|shown| shown.state(now, elapsed_us)));
        }
        all.sort_unstable_by_key(|state| state.number);
        all
    }

    fn shard(&self, number: u64) -> MutexGuard<'_, FxHashMap<u64, Arc<ConnectionStatus>>> {
        let index = usize::try_from(number % SHARDS as u64).unwrap_or(0);
        let [first, ..] = &self.shards;
        locked(self.shards.get(index).unwrap_or(first))
    }

    /// When a moment was.
    pub(crate) fn since_epoch(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.epoch)
    }
}

impl ConnectionStatus {
    /// That of no connection.
    #[cfg(test)]
    pub(crate) fn nobody(who: &Arc<Who>) -> Arc<Self> {
        let location = Location { connection: ConnectionId(0), closings: Arc::default() };
        Arc::new(Self {
            number: 0,
            listener: "ldap",
            address: String::new(),
            since: Timestamp(0),
            tls: OnceLock::new(),
            who: Mutex::new(Arc::clone(who)),
            last_us: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            reason: OnceLock::new(),
            location,
        })
    }

    /// TLS protects the connection from now on.
    pub(crate) fn secured(&self, version: &'static str) {
        let _ = self.tls.set(version);
    }

    /// Somebody has bound, or nobody is bound any more.
    pub(crate) fn set_who(&self, who: &Arc<Who>) {
        *locked(&self.who) = Arc::clone(who);
    }

    /// Only the worker of the connection says so.
    pub(crate) fn set(&self, sessions: &Sessions, activity: &Activity) {
        let &Activity { last, operations, outstanding, waiting_bytes } = activity;
        self.last_us.store(micros(sessions.since_epoch(last)), Ordering::Relaxed);
        self.operations.store(operations, Ordering::Relaxed);
        self.outstanding.store(outstanding as u64, Ordering::Relaxed);
        self.waiting_bytes.store(waiting_bytes as u64, Ordering::Relaxed);
    }

    /// Why the connection is to be closed, if it is.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    fn state(&self, now: Timestamp, elapsed_us: u64) -> SessionState {
        let who = Arc::clone(&locked(&self.who));
        let ago_us = elapsed_us.saturating_sub(self.last_us.load(Ordering::Relaxed));
        SessionState {
            number: self.number,
            address: self.address.clone(),
            listener: self.listener,
            tls: self.tls.get().copied(),
            bind_dn: who.dn.clone(),
            mechanism: who.mechanism.to_string(),
            since: self.since,
            last_activity: Timestamp(now.0.saturating_sub(ago_us)),
            operations: self.operations.load(Ordering::Relaxed),
            outstanding: self.outstanding.load(Ordering::Relaxed),
            waiting_bytes: self.waiting_bytes.load(Ordering::Relaxed),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So that workers seldom wait for each other when connections come and go.
const SHARDS: usize = 16;
