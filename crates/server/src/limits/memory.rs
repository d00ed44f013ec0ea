//! Memory that was freed goes back to the system.
//!
//! The allocator keeps what was freed for the next that asks, by thread: a thread that has nothing
//! to do any more would keep what clients made it hold. So a thread that is idle, or looks after
//! others anyway, has the allocator give it back when much was released since the last time.

use std::sync::OnceLock;
use std::time::Duration;

use crate::limits::budget::Budget;

/// Has the allocator of the program give memory back: `release` is called on each thread of the
/// server after much was freed there, and may be slow. The first call counts.
pub fn on_release(release: fn()) {
    let _ = RELEASE.set(release);
}

static RELEASE: OnceLock<fn()> = OnceLock::new();

/// What one thread knows of it.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    seen: u64,
    /// Something ran here for long.
    has_worked: bool,
    /// It is to be done once more: what others free of this thread's memory comes later.
    again: bool,
    /// Looks until it may be done again.
    pause: u32,
}

impl Releases {
    /// Gives memory back when much was released.
    pub(crate) fn look(&mut self, budget: &Budget) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        let released = budget.released();
        let is_much = released - self.seen >= MUCH_BYTES || self.has_worked;
        if is_much || self.again {
            (self.seen, self.again, self.pause) = (released, is_much, PAUSE_LOOKS);
            self.has_worked = false;
            if let Some(release) = RELEASE.get() {
                release();
            }
        }
    }

    /// Something ran on this thread for so long. What it used for itself, lists to be sorted or the
    /// entries of a chain, no budget counts.
    pub(crate) fn ran(&mut self, took: Duration) {
        self.has_worked |= took >= LONG_JOB;
    }

    /// A thread is idle, for the first time or after a pause that was asked for: memory is given
    /// back, and how long to wait until that is looked at again; none when there is no need.
    pub(crate) fn idle(&mut self, budget: &Budget, has_waited: bool) -> Option<Duration> {
        if has_waited {
            self.look(budget);
            if budget.held().0 == 0 && !self.again && self.pause == 0 {
                // Less than that is not worth it.
                self.seen = budget.released();
            }
        }
        let is_pending =
            self.again || self.has_worked || budget.released() != self.seen || budget.held().0 > 0;
        is_pending.then_some(IDLE_LOOK)
    }
}

/// What is worth it.
const MUCH_BYTES: u64 = 1 << 20;

/// What took less time did not use much.
const LONG_JOB: Duration = Duration::from_millis(5);

/// So many looks are left out after it: it takes time, and pages that are wanted again are slow.
const PAUSE_LOOKS: u32 = 3;

/// How often an idle thread looks while memory is held.
const IDLE_LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::limits::budget::BudgetLimits;

    thread_local! {
        static RELEASED: AtomicUsize = const { AtomicUsize::new(0) };
    }

    fn release() {
        RELEASED.with(|count| count.fetch_add(1, Ordering::Relaxed));
    }

    fn released() -> usize {
        RELEASED.with(|count| count.load(Ordering::Relaxed))
    }

    /// What a chain or a sort had used stayed with its thread until more work came: only answers
    /// that were not taken counted.
    #[test]
    fn what_a_long_job_used_is_given_back_when_its_thread_is_idle() {
        on_release(release);
        let limits =
            BudgetLimits { all_max_bytes: 1, anonymous_max_bytes: 1, address_max_bytes: 1 };
        let budget = Budget::new(limits);
        let mut releases = Releases::default();
        releases.ran(Duration::from_millis(1));
        assert_eq!(releases.idle(&budget, false), None, "a short one");
        releases.ran(Duration::from_millis(50));
        assert_eq!(releases.idle(&budget, false), Some(IDLE_LOOK));
        assert_eq!(released(), 0, "others may come soon");
        assert_eq!(releases.idle(&budget, true), Some(IDLE_LOOK));
        assert_eq!(released(), 1);
        // Once more, for what others free later; then never again.
        let looks = (0..100).take_while(|_| releases.idle(&budget, true).is_some()).count();
        assert!(looks < 100);
        assert_eq!(released(), 2);
    }
}
