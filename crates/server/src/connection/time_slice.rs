//! How long a connection is served before its neighbours are served.
//!
//! Invariant: it is time that is limited, not messages: one message costs a microsecond, another a
//! millisecond.

use std::time::Duration;

use tokio::time::Instant;

/// One time slice of a connection.
#[derive(Default)]
pub(super) struct TimeSlice {
    begun: Option<Instant>,
    /// Octets that were handled since the clock was looked at.
    octets: usize,
    is_over: bool,
}

impl TimeSlice {
    /// Messages are about to be handled.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun.get_or_insert(now);
    }

    /// A message was handled, with so many octets of it and of its answer.
    pub(super) fn handled(&mut self, octets: usize, now: impl FnOnce() -> Instant) {
        self.octets += MESSAGE_OCTETS + octets;
        if self.octets >= LOOK_EVERY_OCTETS
            && let Some(begun) = self.begun
        {
            self.octets = 0;
            self.is_over = now().saturating_duration_since(begun) >= SLICE_MAX;
        }
    }

    /// When the first message was handled, if any was.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.begun
    }

    /// Whether the neighbours are to be served now.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// How long messages of one connection are handled in a row.
const SLICE_MAX: Duration = Duration::from_micros(500);

/// The clock is looked at when so many octets were handled.
const LOOK_EVERY_OCTETS: usize = 2_048;

/// A message counts like so many octets more.
const MESSAGE_OCTETS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages are handled in one slice, each with so many octets and so long.
    fn check(octets: usize, each: Duration, want: std::ops::RangeInclusive<u32>) {
        let begun = Instant::now();
        let mut slice = TimeSlice::default();
        slice.begin(begun);
        let mut handled = 0;
        while !slice.is_over() {
            handled += 1;
            slice.handled(octets, || begun + each * handled);
        }
        assert!(want.contains(&handled), "{handled} messages of {octets} octets in {each:?}");
    }

    #[test]
    fn a_slice_ends_by_time_and_not_by_messages() {
        // 128 messages were handled in a row, whatever they cost.
        check(50_000, Duration::from_millis(10), 1..=1);
        check(50_000, Duration::from_micros(100), 5..=5);
        check(200, Duration::from_micros(10), 50..=60);
        check(0, Duration::from_micros(1), 500..=520);
    }
}
