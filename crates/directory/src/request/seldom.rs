//! Lines of the diagnostic log that clients cause: whoever reads it is not to be flooded, and
//! nobody is to fill a disk by being refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use environment::Clock;

/// Lines of one kind: at most `LINES_PER_SECOND_MAX` in a second.
pub struct Seldom {
    clock: Arc<dyn Clock>,
    /// The second of the last line, and how many were written in it.
    last: AtomicU64,
    left_out: AtomicU64,
}

impl Seldom {
    /// Seconds are those of `clock`.
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        let (last, left_out) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { clock: Arc::clone(clock), last, left_out }
    }

    /// Has a line written, or left out. `write` is told how many were left out before it, if any.
    pub fn line(&self, write: impl FnOnce(Option<u64>)) {
        let second = self.clock.elapsed().as_secs() << COUNT_BITS;
        let next = |last: u64| match last & !COUNT_MASK == second {
            false => Some(second | 1),
            true => ((last & COUNT_MASK) < LINES_PER_SECOND_MAX).then_some(last + 1),
        };
        if self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        write((left_out > 0).then_some(left_out));
    }
}

impl fmt::Debug for Seldom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seldom").field("left_out", &self.left_out).finish_non_exhaustive()
    }
}

/// The lines that clients cause by requests.
#[derive(Debug)]
pub(crate) struct SeldomLines {
    /// Unindexed searches, refused or not.
    pub(crate) unindexed: Seldom,
    /// Tokens and tickets that are not accepted.
    pub(crate) proof: Seldom,
    /// Names that let nobody in.
    pub(crate) name: Seldom,
    /// Hashes that cost more than is allowed.
    pub(crate) hash: Seldom,
    /// Entries that break the schema.
    pub(crate) broken: Seldom,
}

impl SeldomLines {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        let seldom = || Seldom::new(clock);
        Self {
            unindexed: seldom(),
            proof: seldom(),
            name: seldom(),
            hash: seldom(),
            broken: seldom(),
        }
    }
}

/// Lines of one kind in a second: enough to see what is going on.
const LINES_PER_SECOND_MAX: u64 = 10;
/// The lowest bits of `last` count lines.
const COUNT_BITS: u32 = 8;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use environment::{ManualClock, Timestamp};

    #[test]
    fn ten_lines_a_second_are_written_and_the_next_counts_the_others() {
        let manual = Arc::new(ManualClock::at(Timestamp(0)));
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&manual);
        let seldom = Seldom::new(&clock);
        let written = || {
            let mut written = Vec::new();
            (0..25).for_each(|_| seldom.line(|left_out| written.push(left_out)));
            written
        };
        assert_eq!(written(), [None; 10]);
        assert!(written().is_empty());
        manual.advance(Duration::from_secs(1));
        let mut next = vec![Some(15 + 25)];
        next.extend([None; 9]);
        assert_eq!(written(), next);
        manual.advance(Duration::from_secs(100));
        assert_eq!(written().first(), Some(&Some(15)));
    }
}
