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
    /// How long it may take from the first part on; `u64::MAX` = there is no such entry.
    time_ns: AtomicU64,
}

impl Stop {
    pub(crate) fn new(cancel: Cancel, clock: Arc<dyn Clock>) -> Self {
        let never = || AtomicU64::new(u64::MAX);
        let taking = Taking { until_ns: never(), time_ns: never() };
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
        let time = time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(u64::MAX);
        self.taking.time_ns.store(time, Ordering::Relaxed);
        self.taking.until_ns.store(u64::MAX, Ordering::Relaxed);
        self.client_takes();
    }

    /// The client is sent such an entry from now on: before, it was sent others.
    pub fn client_takes(&self) {
        let time = self.taking.time_ns.load(Ordering::Relaxed);
        if time != u64::MAX {
            let until = self.clock.elapsed().saturating_add(Duration::from_nanos(time)).as_nanos();
            let until = u64::try_from(until).unwrap_or(u64::MAX);
            self.taking.until_ns.store(until, Ordering::Relaxed);
        }
    }

    /// Whether the client has not taken an entry that is sent in parts in time: the connection is
    /// to end.
    #[must_use]
    pub fn is_client_late(&self) -> bool {
        let until_ns = self.taking.until_ns.load(Ordering::Relaxed);
        // Another thread may just have sent all of it.
        let is_sending = self.taking.time_ns.load(Ordering::Relaxed) != u64::MAX;
        is_sending && until_ns != u64::MAX && self.clock.elapsed() >= Duration::from_nanos(until_ns)
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
