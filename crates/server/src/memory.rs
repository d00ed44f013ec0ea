//! Memory that was freed goes back to the system.
//!
//! The allocator keeps what was freed for the next that asks, by thread: a thread that has nothing
//! to do any more would keep what clients made it hold. So a thread that is idle, or looks after
//! others anyway, has the allocator give it back when much was released since the last time.

use std::sync::OnceLock;
use std::time::Duration;

use crate::budget::Budget;

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
        let is_much = released - self.seen >= MUCH_BYTES;
        if is_much || self.again {
            (self.seen, self.again, self.pause) = (released, is_much, PAUSE_LOOKS);
            if let Some(release) = RELEASE.get() {
                release();
            }
        }
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
        let is_pending = self.again || budget.released() != self.seen || budget.held().0 > 0;
        is_pending.then_some(IDLE_LOOK)
    }
}

/// What is worth it.
const MUCH_BYTES: u64 = 1 << 20;

/// So many looks are left out after it: it takes time, and pages that are wanted again are slow.
const PAUSE_LOOKS: u32 = 3;

/// How often an idle thread looks while memory is held.
const IDLE_LOOK: Duration = Duration::from_secs(1);
