//! How long the medium takes to make durable what it is asked to write.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What is on its way to the medium; it is done in its order.
#[derive(Default)]
pub(super) struct SyncTimes(Mutex<Times>);

#[derive(Default)]
struct Times {
    begun: VecDeque<Instant>,
    slowest: Duration,
}

impl SyncTimes {
    /// Something was given to the medium.
    pub(super) fn begin(&self, now: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).begun.push_back(now);
    }

    /// The oldest is durable, or has failed.
    pub(super) fn end(&self, now: Instant) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = times.begun.pop_front() {
            times.slowest = times.slowest.max(now.saturating_duration_since(begun));
        }
    }

    /// How long the oldest has been waiting.
    pub(super) fn waiting(&self, now: Instant) -> Duration {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.waiting(now)
    }

    /// The longest that one took since this was last asked, or has been taking.
    pub(super) fn take_slowest(&self, now: Instant) -> Duration {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = times.waiting(now);
        std::mem::take(&mut times.slowest).max(waiting)
    }
}

impl Times {
    fn waiting(&self, now: Instant) -> Duration {
        let begun = self.begun.front();
        begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(*begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_counts_once_and_what_waits_counts_as_long_as_it_waits() {
        let times = SyncTimes::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let slowest = |ms| times.take_slowest(at(ms)).as_millis();
        times.begin(at(0));
        times.begin(at(100));
        assert_eq!(slowest(300), 300);
        assert_eq!(times.waiting(at(300)).as_millis(), 300);
        times.end(at(400));
        assert_eq!([slowest(450), slowest(460)], [400, 360]);
        times.end(at(470));
        assert_eq!([slowest(480), slowest(490)], [370, 0]);
        times.end(at(500));
        assert_eq!(slowest(500), 0);
        assert_eq!(times.waiting(at(500)), Duration::ZERO);
    }
}
