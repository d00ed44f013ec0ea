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
}

impl Stop {
    pub(crate) fn new(cancel: Cancel, clock: Arc<dyn Clock>) -> Self {
        Self { cancel, clock, deadline_ns: Arc::new(AtomicU64::new(u64::MAX)) }
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
