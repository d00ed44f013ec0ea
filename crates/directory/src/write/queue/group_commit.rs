//! How long the writer waits for more requests before it gives a batch to a log that is idle.
//!
//! Clients that were just answered mostly ask again at once. Without a wait the batch leaves
//! before they are back, and they wait for a whole sync that is not theirs: two halves take turns,
//! and twice as many syncs are made. With a wait all of them share one.
//!
//! Invariant: a request that came while the log was idle, and so a lone client, never waits.
//! Invariant: the wait is at most half of what a commit takes, and at most [`WAIT_MAX`].

use std::time::Duration;

/// What is known of the log and the clients.
#[derive(Debug, Default)]
pub(super) struct GroupCommit {
    /// How long a commit takes, smoothed.
    commit: Duration,
    /// How many requests the last batch had.
    last_count: usize,
    /// So many more batches leave at once, because waiting was in vain.
    hurried: u32,
}

/// A wait for more requests.
#[derive(Debug)]
pub(super) struct Wait {
    /// By the clock that never goes back.
    pub(super) until: Duration,
    /// How many requests the batch has when everybody is back.
    count: usize,
    /// How many it has when it is not worth the wait again.
    count_min: usize,
}

impl GroupCommit {
    /// A batch of `count` requests was given to the log.
    pub(super) fn left(&mut self, count: usize) {
        self.last_count = count;
    }

    /// The log has committed a batch, which took so long.
    pub(super) fn committed(&mut self, took: Duration) {
        self.commit = (self.commit * 3 + took) / 4;
    }

    /// The log became idle at `now`, while `count` requests are gathered.
    pub(super) fn wait(&mut self, now: Duration, count: usize) -> Option<Wait> {
        if count == 0 || self.last_count == 0 {
            return None;
        }
        if self.hurried > 0 {
            self.hurried -= 1;
            return None;
        }
        let time = (self.commit / 2).min(WAIT_MAX);
        let count_min = count + self.last_count / 2;
        Some(Wait { until: now + time, count: count + self.last_count, count_min })
    }

    /// The wait is over, with `count` requests in the batch.
    pub(super) fn waited(&mut self, wait: &Wait, count: usize) {
        if count < wait.count_min {
            self.hurried = HURRIED_BATCHES;
        }
    }
}

impl Wait {
    /// Whether somebody may still come.
    pub(super) fn is_on(&self, now: Duration, count: usize) -> bool {
        count < self.count && now < self.until
    }
}

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_millis(2);

/// So many batches leave at once after a wait in vain.
const HURRIED_BATCHES: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn experienced() -> GroupCommit {
        GroupCommit { commit: MS, last_count: 10, hurried: 0 }
    }

    #[test]
    fn a_batch_waits_for_those_who_were_just_answered() {
        let wait = experienced().wait(MS, 5).expect("there is company to wait for");
        assert_eq!(wait.until, MS + MS / 2);
        assert!(wait.is_on(MS, 14));
        assert!(!wait.is_on(MS, 15), "everybody is back");
        assert!(!wait.is_on(MS * 2, 6), "it took too long");
    }

    #[test]
    fn nobody_waits_alone() {
        assert!(experienced().wait(MS, 0).is_none());
        assert!(GroupCommit::default().wait(MS, 5).is_none());
    }

    #[test]
    fn a_slow_disk_does_not_make_for_long_waits() {
        let mut group_commit = experienced();
        for _ in 0..20 {
            group_commit.committed(MS * 500);
        }
        assert_eq!(group_commit.wait(MS, 5).expect("as before").until, MS + WAIT_MAX);
    }

    #[test]
    fn a_wait_in_vain_is_not_repeated_soon() {
        let mut group_commit = experienced();
        let wait = group_commit.wait(MS, 5).expect("as before");
        group_commit.waited(&wait, 9);
        for _ in 0..HURRIED_BATCHES {
            assert!(group_commit.wait(MS, 5).is_none());
        }
        let wait = group_commit.wait(MS, 5).expect("after a while it is tried again");
        group_commit.waited(&wait, 10);
        assert!(group_commit.wait(MS, 5).is_some(), "it was worth it");
    }
}
