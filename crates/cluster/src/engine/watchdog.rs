//! Whether this server should lead, and who should instead.
//!
//! A disk that is slow or full makes every write wait or fail as long as its server leads, and a
//! wrong clock puts wrong times into entries. Such a server hands the lead over, and does not stand
//! for election until it is well again. So does one that is not among the preferred ones, as long
//! as one of those can lead.
//!
//! Invariant: whoever does not stand does so after all when nobody leads for long: a slow leader is
//! better than none. But not who has no room for the log: it could not even vote for itself.
//! Invariant: the lead is handed only to a voter that was heard, has the log, and said that
//! nothing speaks against it; ever more seldom to one that does not take it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// A sync that takes longer is slow.
const SLOW_SYNC: Duration = Duration::from_millis(500);
/// A disk on which syncs have been slow for so long is a reason to hand the lead over.
const SLOW_DISK_AFTER: Duration = Duration::from_secs(5);
/// A server against which nothing has spoken for so long is well again.
const WELL_AFTER: Duration = Duration::from_secs(30);
/// A clock that differs by more from that of most members is a reason to hand the lead over.
pub(crate) const CLOCK_SKEW_MAX: Duration = Duration::from_secs(10);
/// Slow syncs further apart than this do not count as one time of slowness.
const SLOW_GAP: Duration = Duration::from_secs(2);
/// Who is not preferred stands when nobody has led for so many times the silence after which
/// another leader is elected.
const STANDS_UNPREFERRED_AFTER: u32 = 2;
/// And who should not lead, after so many.
const STANDS_UNFIT_AFTER: u32 = 5;
/// The lead is handed only to one that lacks no more entries than this: nothing is written until it
/// has them, and nobody leads if it never gets them.
const LAG_MAX: u64 = 1000;
/// Whoever was handed the lead and was not seen to lead is not handed it again for so long; each
/// further time for twice as long.
const DISTRUSTED_FOR: Duration = Duration::from_secs(30);
/// No longer than for so many doublings.
const DOUBLINGS_MAX: u32 = 7;

/// Who should lead, as far as one server knows.
pub(super) struct Watchdog {
    id: u64,
    /// Empty: all are.
    preferred: BTreeSet<u64>,
    silence_max: Duration,
    slow: Option<Slow>,
    /// What spoke against this server last, and when.
    impeded: Option<(String, Instant)>,
    led_until: Instant,
    handed_over: Option<Instant>,
    /// Those that were handed the lead, and have not been seen to lead since.
    distrusted: BTreeMap<u64, Distrust>,
    is_retiring: bool,
}

/// How long a voter is not handed the lead.
struct Distrust {
    until: Instant,
    times: u32,
}

/// What there is to see at a moment.
pub(super) struct Sight<'a> {
    pub(super) now: Instant,
    /// The longest that a sync took since the last look, or has been taking.
    pub(super) slowest_sync: Duration,
    /// Whether the log waits for room on its disk.
    pub(super) has_no_room: bool,
    /// What else speaks against this server.
    pub(super) impediment: Option<String>,
    pub(super) is_leader: bool,
    /// Who leads, as far as is known.
    pub(super) leader: Option<u64>,
    /// Whether somebody leads who is heard.
    pub(super) is_led: bool,
    /// The last entry of the log.
    pub(super) last_index: u64,
    pub(super) others: &'a [Voter],
}

/// Another voter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voter {
    pub(super) id: u64,
    /// The last entry that it is known to have.
    pub(super) matched: u64,
    /// Whether it answered lately.
    pub(super) is_heard: bool,
    /// Whether it said lately that nothing speaks against its leading.
    pub(super) is_fit: bool,
}

/// What follows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Verdict {
    /// Why this server should not lead.
    pub(super) unfit: Option<String>,
    /// Whether it may be elected.
    pub(super) stands: bool,
    /// To whom it hands the lead now.
    pub(super) successor: Option<u64>,
}

impl Watchdog {
    pub(super) fn new(
        id: u64,
        preferred: BTreeSet<u64>,
        silence_max: Duration,
        now: Instant,
    ) -> Self {
        Self {
            id,
            preferred,
            silence_max,
            slow: None,
            impeded: None,
            led_until: now,
            handed_over: None,
            distrusted: BTreeMap::new(),
            is_retiring: false,
        }
    }

    /// This server is about to end: it does not stand any more.
    pub(super) const fn retire(&mut self) {
        self.is_retiring = true;
    }

    pub(super) fn look(&mut self, sight: &Sight<'_>) -> Verdict {
        let now = sight.now;
        if sight.is_led {
            self.led_until = now;
        }
        if let Some(leader) = sight.leader.filter(|leader| *leader != self.id) {
            self.distrusted.remove(&leader);
        }
        let is_slow = self.has_slow_disk(now, sight.slowest_sync);
        let reason = sight.has_no_room.then(|| NO_ROOM.to_owned());
        let reason = reason.or_else(|| sight.impediment.clone());
        if let Some(reason) = reason.or_else(|| is_slow.then(slow_disk)) {
            self.impeded = Some((reason, now));
        }
        let is_lasting = |at: &Instant| now.saturating_duration_since(*at) < WELL_AFTER;
        let unfit = self.impeded.as_ref().filter(|(_, at)| is_lasting(at));
        let unfit = unfit.map(|(reason, _)| reason.clone());
        let is_preferred = self.is_preferred(self.id);
        let silences = match (&unfit, is_preferred) {
            (Some(_), _) => STANDS_UNFIT_AFTER,
            (None, false) => STANDS_UNPREFERRED_AFTER,
            (None, true) => 0,
        };
        let silent_for = now.saturating_duration_since(self.led_until);
        let stands =
            !self.is_retiring && !sight.has_no_room && silent_for >= silences * self.silence_max;
        let is_due = self.handed_over.is_none_or(|at| now - at > 2 * self.silence_max);
        let mut successor = None;
        if sight.is_leader && is_due && silences > 0 {
            successor = self.successor(sight, unfit.is_some());
        }
        if let Some(successor) = successor {
            self.handed_over = Some(now);
            self.distrust(successor, now);
        }
        Verdict { unfit, stands, successor }
    }

    /// Whoever is to lead when this server must not, whatever speaks against it: one that is heard
    /// and well, preferred, and has most of the log.
    pub(super) fn next(&self, others: &[Voter]) -> Option<u64> {
        let best = others.iter().max_by_key(|voter| {
            (voter.is_heard, voter.is_fit, self.is_preferred(voter.id), voter.matched)
        });
        best.map(|voter| voter.id)
    }

    /// It is not handed the lead again soon, unless it is seen to lead.
    fn distrust(&mut self, voter: u64, now: Instant) {
        let times = self.distrusted.get(&voter).map_or(0, |distrust| distrust.times);
        let until = now + DISTRUSTED_FOR * (1 << times.min(DOUBLINGS_MAX));
        self.distrusted.insert(voter, Distrust { until, times: times + 1 });
    }

    /// Whether the syncs of the disk have been slow for long.
    fn has_slow_disk(&mut self, now: Instant, slowest: Duration) -> bool {
        if slowest <= SLOW_SYNC {
            return false;
        }
        let slow = self.slow.get_or_insert(Slow { since: now, last: now });
        if now.saturating_duration_since(slow.last) > SLOW_GAP {
            slow.since = now;
        }
        slow.last = now;
        now.saturating_duration_since(slow.since) >= SLOW_DISK_AFTER
    }

    fn is_preferred(&self, id: u64) -> bool {
        self.preferred.is_empty() || self.preferred.contains(&id)
    }

    /// Whoever should lead instead; a leader of which nothing bad is known leaves only to one that
    /// is preferred and will not keep writes waiting.
    fn successor(&self, sight: &Sight<'_>, is_unfit: bool) -> Option<u64> {
        let able = sight.others.iter().filter(|voter| {
            let is_near = voter.matched + LAG_MAX >= sight.last_index;
            let distrust = self.distrusted.get(&voter.id);
            let is_trusted = distrust.is_none_or(|distrust| distrust.until <= sight.now);
            let is_better = is_unfit || self.is_preferred(voter.id);
            voter.is_heard && voter.is_fit && is_near && is_trusted && is_better
        });
        let best = able.max_by_key(|voter| (self.is_preferred(voter.id), voter.matched));
        best.map(|voter| voter.id)
    }
}

const NO_ROOM: &str = "its disk has no room for its journal";

fn slow_disk() -> String {
    format!("syncs of its disk took longer than {SLOW_SYNC:?} for {SLOW_DISK_AFTER:?}")
}

/// A time of slow syncs.
struct Slow {
    since: Instant,
    last: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Bench {
        watchdog: Watchdog,
        start: Instant,
        others: Vec<Voter>,
    }

    impl Bench {
        /// Server 1 of three that are well.
        fn new(preferred: &[u64]) -> Self {
            let start = Instant::now();
            let preferred = preferred.iter().copied().collect();
            let voter = |id| Voter { id, matched: 5_000, is_heard: true, is_fit: true };
            let watchdog = Watchdog::new(1, preferred, SECOND, start);
            Self { watchdog, start, others: vec![voter(2), voter(3)] }
        }

        fn look(&mut self, at_ms: u64, change: impl FnOnce(&mut Sight<'_>)) -> Verdict {
            let mut sight = Sight {
                now: self.start + Duration::from_millis(at_ms),
                slowest_sync: Duration::ZERO,
                has_no_room: false,
                impediment: None,
                is_leader: true,
                leader: Some(1),
                is_led: true,
                last_index: 5_100,
                others: &self.others,
            };
            change(&mut sight);
            self.watchdog.look(&sight)
        }
    }

    #[test]
    fn a_leader_whose_disk_is_slow_hands_over_and_stands_again_when_it_is_well() {
        let mut bench = Bench::new(&[]);
        let slow = |sight: &mut Sight<'_>| sight.slowest_sync = Duration::from_millis(501);
        for at_ms in (0..5_000).step_by(100) {
            let verdict = bench.look(at_ms, slow);
            assert_eq!((verdict.stands, verdict.successor), (true, None), "{at_ms}");
        }
        let verdict = bench.look(5_000, slow);
        assert!(verdict.unfit.is_some() && !verdict.stands, "{verdict:?}");
        assert!(verdict.successor.is_some());
        // Once is enough for a while.
        assert_eq!(bench.look(5_100, slow).successor, None);
        let next = bench.look(7_100, slow).successor;
        assert!(next.is_some() && next != verdict.successor, "the first did not take it");
        let follows = |sight: &mut Sight<'_>| sight.is_leader = false;
        assert!(!bench.look(37_000, follows).stands);
        assert!(bench.look(37_100, follows).stands);
    }

    #[test]
    fn a_slow_sync_now_and_then_is_no_reason() {
        let mut bench = Bench::new(&[]);
        for at_ms in (0..60_000).step_by(2_100) {
            let verdict = bench.look(at_ms, |sight| sight.slowest_sync = 2 * SECOND);
            assert_eq!(verdict.unfit, None, "{at_ms}");
        }
    }

    #[test]
    fn whoever_is_silent_or_unfit_does_not_get_the_lead() {
        let impeded = |sight: &mut Sight<'_>| sight.impediment = Some("full".to_owned());
        let mut bench = Bench::new(&[]);
        bench.others[0].is_heard = false;
        bench.others[1].matched = 4_099;
        assert_eq!(bench.look(0, impeded).successor, None, "it might never get what it lacks");
        bench.others[1].matched = 4_100;
        assert_eq!(bench.look(0, impeded).successor, Some(3));
        bench.others[1].is_fit = false;
        let verdict = bench.look(4_000, impeded);
        assert_eq!((verdict.successor, verdict.stands), (None, false));
        assert_eq!(verdict.unfit.as_deref(), Some("full"));
    }

    #[test]
    fn who_should_not_lead_stands_when_nobody_does() {
        let mut bench = Bench::new(&[2]);
        let alone = |sight: &mut Sight<'_>| (sight.is_leader, sight.is_led) = (false, false);
        assert!(!bench.look(1_999, alone).stands);
        assert!(bench.look(2_000, alone).stands, "it is not preferred, but well");
        let impeded = |sight: &mut Sight<'_>| {
            alone(sight);
            sight.impediment = Some("full".to_owned());
        };
        assert!(!bench.look(4_999, impeded).stands);
        assert!(bench.look(5_000, impeded).stands);
        assert!(!bench.look(5_100, |sight| sight.is_leader = false).stands, "it is led again");
        assert!(!bench.look(34_999, |sight| sight.is_leader = false).stands);
        let verdict = bench.look(35_000, |sight| sight.is_leader = false);
        assert_eq!(verdict.unfit, None, "{verdict:?}");
        bench.watchdog.retire();
        assert!(!bench.look(90_000, alone).stands);
    }

    #[test]
    fn who_has_no_room_for_its_log_hands_over_at_once_and_never_stands() {
        let mut bench = Bench::new(&[]);
        let verdict = bench.look(0, |sight| sight.has_no_room = true);
        assert_eq!(verdict.unfit.as_deref(), Some("its disk has no room for its journal"));
        assert!(verdict.successor.is_some() && !verdict.stands);
        let alone = |sight: &mut Sight<'_>| (sight.is_leader, sight.is_led) = (false, false);
        let full = |sight: &mut Sight<'_>| {
            alone(sight);
            sight.has_no_room = true;
        };
        assert!(!bench.look(600_000, full).stands, "it could not vote for itself");
        assert!(bench.look(600_100, alone).stands, "nobody else does");
        assert!(bench.look(600_100, alone).unfit.is_some());
        assert_eq!(bench.look(630_100, alone).unfit, None);
    }

    #[test]
    fn a_leader_that_must_go_leaves_to_the_best_there_is() {
        let mut bench = Bench::new(&[3]);
        assert_eq!(bench.watchdog.next(&[]), None);
        bench.others[0].matched = 5_001;
        assert_eq!(bench.watchdog.next(&bench.others), Some(3), "preferred");
        bench.others[1].is_fit = false;
        assert_eq!(bench.watchdog.next(&bench.others), Some(2), "well");
        bench.others[0].is_heard = false;
        assert_eq!(bench.watchdog.next(&bench.others), Some(3), "there");
    }

    #[test]
    fn who_does_not_take_the_lead_is_handed_it_ever_more_seldom() {
        let mut bench = Bench::new(&[2]);
        let handed = |bench: &mut Bench, from_s: u64, to_s: u64| {
            (from_s..to_s).filter(|s| bench.look(s * 1_000, |_| ()).successor.is_some()).count()
        };
        // At 0, 30, 90, 210 and so on, each time twice as long after the last.
        assert_eq!(handed(&mut bench, 0, 200), 3);
        assert_eq!(handed(&mut bench, 200, 900), 2);
        // It leads; the next time it is trusted as at first.
        bench.look(900_000, |sight| (sight.is_leader, sight.leader) = (false, Some(2)));
        assert_eq!(handed(&mut bench, 901, 932), 2);
    }

    #[test]
    fn the_lead_goes_to_a_preferred_server_that_has_the_log() {
        let mut bench = Bench::new(&[3]);
        bench.others[1].matched = 4_000;
        assert_eq!(bench.look(0, |_| ()).successor, None, "it would keep writes waiting");
        bench.others[1].matched = 4_100;
        assert_eq!(bench.look(0, |_| ()).successor, Some(3));
        assert_eq!(bench.look(2_100, |_| ()).successor, None, "it did not take it");
        let mut bench = Bench::new(&[1, 3]);
        let verdict = bench.look(0, |_| ());
        assert_eq!((verdict.successor, verdict.stands), (None, true));
        bench.others[0].matched = 5_100;
        let impeded = |sight: &mut Sight<'_>| sight.impediment = Some("full".to_owned());
        assert_eq!(bench.look(0, impeded).successor, Some(3), "preferred, though it lacks more");
    }
}
