//! What the log says of flushes that failed: nothing else would, where changes are acknowledged
//! from the journal.
//!
//! Invariant: a flush that fails is tried again each second; the log gets a line a minute at most
//! for each reason.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::Clock;

/// The reasons that were told, and when.
pub(crate) struct FlushFailures {
    clock: Arc<dyn Clock>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    reasons: Vec<(String, Duration)>,
    is_failing: bool,
}

impl FlushFailures {
    /// Minutes are those of `clock`.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { clock: Arc::clone(clock), told: Mutex::default() }
    }

    /// A flush failed.
    pub(crate) fn note(&self, reason: &str) {
        if self.is_due(reason) {
            tracing::error!(
                %reason,
                "what was changed cannot be written to the data file; it stays in memory and in \
                 the journal, and is tried again"
            );
        }
    }

    /// A flush did not fail.
    pub(crate) fn over(&self) {
        let mut told = self.told();
        if std::mem::take(&mut told.is_failing) {
            drop(told);
            tracing::info!("what was changed is written to the data file again");
        }
    }

    fn is_due(&self, reason: &str) -> bool {
        let now = self.clock.elapsed();
        let mut told = self.told();
        told.is_failing = true;
        told.reasons.retain(|(_, at)| now.saturating_sub(*at) < TOLD_EVERY);
        let is_told = told.reasons.iter().any(|(known, _)| known == reason);
        if is_told || told.reasons.len() >= REASONS_MAX {
            return false;
        }
        told.reasons.push((reason.to_owned(), now));
        true
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reason is told again after so long.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// So many reasons are told in that time.
const REASONS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use environment::{ManualClock, Timestamp};

    use super::*;

    #[test]
    fn a_reason_is_told_once_a_minute() {
        let clock = Arc::new(ManualClock::at(Timestamp(0)));
        let failures = FlushFailures::new(&(Arc::clone(&clock) as Arc<dyn Clock>));
        let is_due = |reason: &str| failures.is_due(reason);
        assert!(is_due("full") && is_due("broken"));
        clock.advance(Duration::from_secs(59));
        assert!(!is_due("full") && !is_due("broken"));
        clock.advance(Duration::from_secs(1));
        assert!(is_due("full"));
        let told = (0..20).filter(|number| is_due(&number.to_string())).count();
        assert_eq!(told, REASONS_MAX - 1, "a reason that is another one each time is bounded");
    }
}
