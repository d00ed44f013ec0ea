//! How many connections that were refused have a line in the access log: a flood of them must not
//! fill the disk, or push out what others did.
//!
//! Invariant: each one has a line, or is counted as left out.

use std::sync::atomic::{AtomicU64, Ordering};

/// The refusals of all workers.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    per_second_max: u32,
    /// The second, since the logs began, and how many were logged in it: half a word each.
    logged: AtomicU64,
    left_out: AtomicU64,
}

impl Refusals {
    pub(super) fn new(per_second_max: u32) -> Self {
        Self { per_second_max, ..Self::default() }
    }

    /// Whether the one that comes now may have a line; if not, it is counted.
    pub(super) fn may_be_logged(&self, now_us: u64) -> bool {
        let second = (now_us / 1_000_000) << 32;
        let next = |logged: u64| {
            // Workers look at the clock one after the other: the latest second counts.
            let (at, count) =
                if logged >> 32 << 32 >= second { (logged, logged) } else { (second, 0) };
            let is_room = (count as u32) < self.per_second_max;
            is_room.then_some(at + 1)
        };
        let is_logged =
            self.logged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
        if !is_logged {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        is_logged
    }

    /// How many have no line.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_told_in_a_second_and_the_others_counted() {
        let refusals = Refusals::new(3);
        let log = |now_us: u64, times: usize| {
            (0..times).filter(|_| refusals.may_be_logged(now_us)).count()
        };
        assert_eq!(log(5, 2), 2);
        assert_eq!(log(999_999, 5), 1);
        assert_eq!(refusals.left_out(), 4);
        assert_eq!(log(1_000_000, 5), 3);
        // A worker whose look at the clock is older.
        assert_eq!(log(999_999, 1), 0);
        assert_eq!(log(7_000_000, 1), 1);
        assert_eq!(refusals.left_out(), 7);
        let none = Refusals::new(0);
        assert!(!none.may_be_logged(0) && !none.may_be_logged(9_000_000));
        assert_eq!(none.left_out(), 2);
    }
}
