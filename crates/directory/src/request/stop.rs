//! What ends a job from outside: nobody waits for it any more, or its time is up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::Clock;

use crate::request::cancel::{Cancel, Ending};

/// Tells whether a job has to stop. Whoever waits on its behalf looks at it now and then.
#[derive(Clone)]
pub struct Stop {
    cancel: Cancel,
    clock: Arc<dyn Clock>,
    /// In nanoseconds of the clock; `u64::MAX` = none.
    deadline_ns: Arc<AtomicU64>,
    taking: Arc<Taking>,
}

/// When the client is to have taken an entry that is sent in parts.
struct Taking {
    /// As above.
    until_ns: AtomicU64,
    /// Since when its job waits for a thread; `u64::MAX` = it does not.
    waits_since_ns: AtomicU64,
}

impl Stop {
    pub(crate) fn new(cancel: Cancel, clock: Arc<dyn Clock>) -> Self {
        let never = || AtomicU64::new(u64::MAX);
        let taking = Taking { until_ns: never(), waits_since_ns: never() };
        Self { cancel, clock, deadline_ns: Arc::new(never()), taking: Arc::new(taking) }
    }

    pub(crate) fn set_deadline(&self, deadline: Option<Duration>) {
        let deadline_ns = deadline
            .and_then(|deadline| u64::try_from(deadline.as_nanos()).ok())
            .unwrap_or(u64::MAX);
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        let deadline_ns = self.deadline_ns.load(Ordering::Relaxed);
        (deadline_ns != u64::MAX).then(|| Duration::from_nanos(deadline_ns))
    }

    /// The client is to take an entry that is sent in parts within this time; none: it has.
    pub(crate) fn set_time_to_take(&self, time: Option<Duration>) {
        let until = time.and_then(|time| {
            u64::try_from(self.clock.elapsed().saturating_add(time).as_nanos()).ok()
        });
        self.taking.until_ns.store(until.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the client is to take such an entry.
    #[must_use]
    pub fn is_client_to_take(&self) -> bool {
        self.taking.until_ns.load(Ordering::Relaxed) != u64::MAX
    }

    /// The job is within such an entry and waits for a thread: its client has no part in that.
    pub fn waits(&self) {
        self.taking.waits_since_ns.store(self.now_ns(), Ordering::Release);
    }

    /// The job has a thread: its client has as much more time as it has waited.
    pub fn goes_on(&self) {
        let Taking { until_ns, waits_since_ns } = &*self.taking;
        let since = waits_since_ns.load(Ordering::Relaxed);
        if since == u64::MAX {
            return;
        }
        let waited = self.now_ns().saturating_sub(since);
        let until = until_ns.load(Ordering::Relaxed);
        until_ns.store(until.saturating_add(waited), Ordering::Relaxed);
        waits_since_ns.store(u64::MAX, Ordering::Release);
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether the client has not taken an entry that is sent in parts in time: the connection is
    /// to end.
    #[must_use]
    pub fn is_client_late(&self) -> bool {
        // What it has waited is counted before it does not wait any more.
        let waits = self.taking.waits_since_ns.load(Ordering::Acquire) != u64::MAX;
        let until_ns = self.taking.until_ns.load(Ordering::Relaxed);
        !waits && until_ns != u64::MAX && self.now_ns() >= until_ns
    }

    /// Whether nobody waits for the answer any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.cancel.is_set()
    }

    /// How the job ends, when all but its answer is done.
    pub(crate) fn decide(&self) -> Ending {
        self.cancel.decide()
    }

    /// Whether the job's time is up.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.deadline().is_some_and(|deadline| self.clock.elapsed() >= deadline)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("is_abandoned", &self.is_abandoned()).finish_non_exhaustive()
    }
}
