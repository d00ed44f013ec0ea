//! How far learners are behind, for those that want to be voters.
//!
//! Invariant: a learner has caught up when it lacks next to nothing, or has lacked nothing that is
//! older than a second for a while: with many writes, some entries are always on their way.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Who lacks no more entries than this has caught up.
const FEW_ENTRIES: u64 = 16;
/// Who has all that is older than this is near.
const NEAR: Duration = Duration::from_secs(1);
/// Who has been near for so long has caught up.
const NEAR_FOR: Duration = Duration::from_secs(3);

/// What the leader saw of its log and of the learners.
#[derive(Default)]
pub(super) struct Lag {
    /// The last index of the log at moments, oldest first; one of them is older than [`NEAR`].
    ends: VecDeque<(Instant, u64)>,
    /// Since when each learner has been near.
    near: BTreeMap<u64, Instant>,
}

impl Lag {
    /// What is seen now: the end of the log, and what each learner that answers is known to have.
    pub(super) fn look(&mut self, now: Instant, end: u64, learners: &BTreeMap<u64, u64>) {
        self.ends.push_back((now, end));
        while self.ends.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= NEAR) {
            self.ends.pop_front();
        }
        let old = self.ends.front().filter(|(at, _)| now.duration_since(*at) >= NEAR);
        let is_near = |has: u64| old.is_some_and(|(_, end)| has >= *end);
        self.near.retain(|id, _| learners.get(id).is_some_and(|has| is_near(*has)));
        for (id, _) in learners.iter().filter(|(_, has)| is_near(**has)) {
            self.near.entry(*id).or_insert(now);
        }
    }

    /// This server does not lead: what was seen says nothing any more.
    pub(super) fn forget(&mut self) {
        self.ends.clear();
        self.near.clear();
    }

    /// How many entries a learner lacks that has `has` of a log that ends with `end`; none if it
    /// has caught up.
    pub(super) fn lacks(&self, now: Instant, id: u64, has: u64, end: u64) -> Option<u64> {
        let lacks = end.saturating_sub(has);
        let is_near =
            self.near.get(&id).is_some_and(|since| now.duration_since(*since) >= NEAR_FOR);
        (lacks > FEW_ENTRIES && !is_near).then_some(lacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learner_has_caught_up_when_it_lacks_little_or_is_near_for_a_while() {
        let (began, mut lag) = (Instant::now(), Lag::default());
        let at = |tenths: u64| began + Duration::from_millis(100 * tenths);
        assert_eq!(lag.lacks(began, 4, 984, 1000), None);
        assert_eq!(lag.lacks(began, 4, 983, 1000), Some(17));
        // A thousand entries each tenth of a second; one is half a second behind, one two seconds.
        for tenth in 0..60u64 {
            let end = 1000 * tenth;
            let has = |behind: u64| end.saturating_sub(1000 * behind);
            lag.look(at(tenth), end, &BTreeMap::from([(4, has(5)), (5, has(20))]));
            let expected = if tenth < 40 { Some(end - has(5)) } else { None };
            if tenth > 0 {
                assert_eq!(lag.lacks(at(tenth), 4, has(5), end), expected, "{tenth}");
            }
            if tenth >= 20 {
                assert_eq!(lag.lacks(at(tenth), 5, has(20), end), Some(20_000), "{tenth}");
            }
        }
        // One that does not answer any more is not near.
        lag.look(at(60), 60_000, &BTreeMap::new());
        assert_eq!(lag.lacks(at(60), 4, 55_000, 60_000), Some(5_000));
        lag.forget();
        assert!(lag.near.is_empty() && lag.ends.is_empty());
    }
}
