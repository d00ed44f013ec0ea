//! What the engine's thread shares with the rest of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use history::log::{ApplyError, LogProgress, NotNow, Reign, Role};
use history::record::RecordHead;
use journal::JournalPosition;
use store::{LogPosition, Lsn};
use tokio::time::Instant;

use crate::engine::made_at;
use crate::entry::{MEMBERS_MAX, place};
use crate::types::StoredMembership;
use crate::unsaid::Unsaid;

/// What the engine's thread shares with the rest of the server.
pub(crate) struct Shared {
    pub(crate) progress: LogProgress,
    /// Batches that were accepted and are not done.
    pub(crate) in_flight: AtomicUsize,
    /// The term in which this node leads, or led last since its start; 0 if it never did.
    led: AtomicU64,
    /// The last term in which a batch was given up; 0 if none was.
    given_up: AtomicU64,
    /// Up to here the state is durable without the log.
    flushed: Mutex<LogPosition>,
    /// When whoever leads was heard last.
    heard: Mutex<Option<Instant>>,
    /// See [`Self::has_caught_up`].
    has_caught_up: AtomicBool,
    /// Records that had no effect.
    voids: AtomicU64,
    unsaid_voids: Mutex<Unsaid>,
    /// See [`Self::diverged`].
    diverged: Mutex<Option<Lsn>>,
    compared: Mutex<Compared>,
    watched: Mutex<Arc<Watched>>,
    /// Why this server should not lead, as it was last judged.
    unfit: Mutex<Option<String>>,
    /// When who is not listed here asked how this server is doing.
    unlisted: Mutex<BTreeMap<u64, Instant>>,
    listed: Mutex<Arc<Listed>>,
    /// Where the log says of those with whom the cluster began; [`u64::MAX`] when it says of others
    /// since.
    began_at: AtomicU64,
    /// Whether this server takes part no more.
    is_removed: AtomicBool,
    /// See [`Self::note_copied`].
    copied: Mutex<Vec<RangeInclusive<u64>>>,
}

/// Who takes part, as the log says for good.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// Where the log says it, as the journal counts; 0 for those with whom the cluster began.
    pub(crate) index: u64,
    pub(crate) ids: BTreeSet<u64>,
}

impl Listed {
    /// Whether `id` took part once and does not any more, as opposed to one that the log names
    /// later than it has been read here.
    pub(crate) fn has_removed(&self, id: u64) -> bool {
        self.index > made_at(id) && !self.ids.contains(&id)
    }
}

/// What came of comparing this member's state with those of the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compared {
    /// The last record after which all that were heard had the same.
    pub(crate) alike: Option<Lsn>,
    /// How they differ now, in a sentence.
    pub(crate) difference: Option<String>,
}

/// What speaks against a server's leading, as far as it takes long to find out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// Against this one.
    pub(crate) impediment: Option<String>,
    /// The others that said lately that nothing speaks against theirs; none where nobody asks.
    pub(crate) fit: Option<BTreeSet<u64>>,
    /// Which of the others speak other versions, in a sentence each.
    pub(crate) versions: Vec<String>,
    /// Which of them list others than this one, in a sentence each.
    pub(crate) listings: Vec<String>,
    /// Which of them have lost what they had confirmed to this one.
    pub(crate) forgetful: BTreeSet<u64>,
}

impl Shared {
    pub(crate) fn new(applied: Lsn, flushed: LogPosition) -> Arc<Self> {
        Arc::new(Self {
            progress: LogProgress::new(applied, Role::Alone),
            in_flight: AtomicUsize::new(0),
            led: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            flushed: Mutex::new(flushed),
            heard: Mutex::new(None),
            has_caught_up: AtomicBool::new(false),
            voids: AtomicU64::new(0),
            unsaid_voids: Mutex::default(),
            diverged: Mutex::default(),
            compared: Mutex::default(),
            watched: Mutex::default(),
            unfit: Mutex::default(),
            unlisted: Mutex::default(),
            listed: Mutex::default(),
            began_at: AtomicU64::new(u64::MAX),
            is_removed: AtomicBool::new(false),
            copied: Mutex::default(),
        })
    }

    /// Who takes part, as the log says for good.
    pub(crate) fn listed(&self) -> Arc<Listed> {
        Arc::clone(&self.listed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_listed(&self, settled: &StoredMembership) {
        let at = settled.log_id().as_ref().map_or(0, |id| place(id).index);
        let index = if self.began_at.load(Ordering::Relaxed) == at { 0 } else { at };
        let ids = settled.membership().nodes().map(|(id, _)| *id).collect();
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Listed { index, ids });
    }

    /// The members with whom the cluster began are those of whom the log says at `index`.
    pub(crate) fn set_began_at(&self, index: u64) {
        self.began_at.store(index, Ordering::Relaxed);
    }

    /// Member `by` says that this server was removed: it takes part no more, for ever.
    pub(crate) fn set_removed(&self, by: u64) {
        if !self.is_removed.swap(true, Ordering::Relaxed) {
            self.fail(format!("this member was removed from the cluster, as member {by} says"));
        }
    }

    /// Whether this server was removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Relaxed)
    }

    /// Whether this node decided what is of `term`: nobody else did, it did so since its start, and
    /// whoever decided has not been told that the outcome is unknown.
    pub(crate) fn has_led(&self, term: u64) -> bool {
        self.led.load(Ordering::Acquire) == term && !self.has_given_up(term)
    }

    /// This node leads in `term`.
    pub(crate) fn leads(&self, term: u64) {
        self.led.fetch_max(term, Ordering::AcqRel);
    }

    /// A batch of `reign` was given up: nothing more is decided in it.
    pub(crate) fn give_up(&self, reign: Reign) {
        self.given_up.fetch_max(reign.0, Ordering::AcqRel);
        if self.progress.role() == Role::Deciding(reign) {
            self.progress.set_role(Role::Alone);
        }
    }

    /// Whether nothing more is decided in `term`.
    pub(crate) fn has_given_up(&self, term: u64) -> bool {
        self.given_up.load(Ordering::Acquire) >= term
    }

    pub(crate) fn flushed(&self) -> LogPosition {
        *self.lock()
    }

    /// The state is durable up to `position` without the log.
    pub(crate) fn set_flushed(&self, position: LogPosition) {
        let mut flushed = self.lock();
        *flushed = (*flushed).max(position);
    }

    /// Whoever leads was heard at `at`: as the leader, from a majority.
    pub(crate) fn heard(&self, at: Instant) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        *heard = (*heard).max(Some(at));
    }

    /// How long ago whoever leads was heard last; none if that never was.
    pub(crate) fn heard_age(&self) -> Option<Duration> {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.map(|at| at.elapsed())
    }

    /// All that was acknowledged before the start is applied here.
    pub(crate) fn set_caught_up(&self) {
        self.has_caught_up.store(true, Ordering::Relaxed);
    }

    /// Whether all that was acknowledged before the start is applied here.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.has_caught_up.load(Ordering::Relaxed)
    }

    /// Nobody can tell what was acknowledged.
    pub(crate) fn no_quorum(&self) -> NotNow {
        NotNow::NoQuorum { heard: self.heard_age() }
    }

    /// What was found out last.
    pub(crate) fn watched(&self) -> Arc<Watched> {
        Arc::clone(&self.watched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_watched(&self, watched: Watched) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(watched);
    }

    /// Why this server should not lead; none if nothing speaks against it.
    pub(crate) fn unfit(&self) -> Option<String> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether that is news: that it should not, or that it may again.
    pub(crate) fn set_unfit(&self, reason: Option<String>) -> bool {
        let mut unfit = self.unfit.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = unfit.is_some() != reason.is_some();
        *unfit = reason;
        is_news
    }

    /// Member `id`, which is not listed here, asked how this server is doing.
    pub(crate) fn note_unlisted(&self, id: u64) {
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        if unlisted.len() < MEMBERS_MAX || unlisted.contains_key(&id) {
            unlisted.insert(id, Instant::now());
        }
    }

    /// Who is not listed here and asked lately.
    pub(crate) fn unlisted(&self) -> BTreeSet<u64> {
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        unlisted.retain(|_, at| at.elapsed() < UNLISTED_KEPT);
        unlisted.keys().copied().collect()
    }

    /// A record has no effect. The same holds on every server, so it is no failure.
    pub(crate) fn note_void(&self, head: &RecordHead, place: JournalPosition) {
        self.voids.fetch_add(1, Ordering::Relaxed);
        let mut unsaid = self.unsaid_voids.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = unsaid.due(Instant::now()) else { return };
        drop(unsaid);
        tracing::info!(
            count,
            lsn = head.lsn.0,
            term = place.term,
            index = place.index,
            "changes that were not decided on what is before them have no effect; this was the last"
        );
    }

    /// The state here is not what the log leads to, from record `lsn` on, as far as is known.
    pub(crate) fn note_diverged(&self, lsn: Lsn) {
        let mut diverged = self.diverged.lock().unwrap_or_else(PoisonError::into_inner);
        if diverged.is_none_or(|known| lsn < known) {
            *diverged = Some(lsn);
            tracing::error!(
                lsn = lsn.0,
                "the data of this member are not those of the cluster, from this change on or \
                 earlier: take clients away from it, and make it anew"
            );
        }
    }

    /// From which record on the state here is not what the log leads to; none if it is not known
    /// to differ.
    pub(crate) fn diverged(&self) -> Option<Lsn> {
        *self.diverged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records behind `before`, up to `last`, came in a copy of the data: the log here never
    /// had them, and may have others in their places until it is told.
    pub(crate) fn note_copied(&self, before: Lsn, last: Lsn) {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        copied.push(before.0 + 1..=last.0);
        if copied.len() > COPIED_MAX {
            // What lies between them is not told either.
            let first = copied.remove(0);
            if let Some(second) = copied.first_mut() {
                *second = *first.start()..=*second.end();
            }
        }
    }

    /// The record behind the copy that record `lsn` came in; none if it came by the log.
    pub(crate) fn behind_copy(&self, lsn: Lsn) -> Option<Lsn> {
        let copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        let found = copied.iter().find(|range| range.contains(&lsn.0));
        found.map(|range| Lsn(range.end() + 1))
    }

    /// How many records had no effect since the start.
    pub(crate) fn voids(&self) -> u64 {
        self.voids.load(Ordering::Relaxed)
    }

    /// The states were compared; what was alike before is remembered while they differ.
    pub(crate) fn compared(&self, alike: Option<Lsn>, difference: Option<String>) {
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        compared.alike = alike.or(compared.alike);
        compared.difference = difference;
    }

    /// What came of comparing the states last.
    pub(crate) fn last_compared(&self) -> Compared {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records could not be applied: nothing is, from now on.
    pub(crate) fn not_applied(&self, error: &ApplyError) {
        if let ApplyError::Diverged { lsn, .. } = error {
            self.note_diverged(*lsn);
        }
        self.fail(format!("committed changes were not applied: {error}"));
    }

    pub(crate) fn fail(&self, reason: String) {
        if self.progress.set_role(Role::Failed(reason.clone())) {
            tracing::error!(%reason, "the log failed: no change is accepted until a restart");
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogPosition> {
        self.flushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is not listed here counts for so long after it asked: it asks each second.
const UNLISTED_KEPT: Duration = Duration::from_secs(10);
/// Copies that are told apart: there is seldom more than one in the life of a process.
const COPIED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CHOSEN_MAX;

    #[test]
    fn what_came_in_copies_is_remembered() {
        let shared = Shared::new(Lsn(0), LogPosition::default());
        for number in 0..2 * COPIED_MAX as u64 {
            shared.note_copied(Lsn(10 * number), Lsn(10 * number + 5));
        }
        let last = 20 * COPIED_MAX as u64 - 10;
        for (lsn, want) in [(last, None), (last + 1, Some(last + 6)), (last + 6, None)] {
            assert_eq!(shared.behind_copy(Lsn(lsn)), want.map(Lsn), "{lsn}");
        }
        // The oldest are one by now, with what lies between them.
        assert!(shared.behind_copy(Lsn(1)).is_some() && shared.behind_copy(Lsn(7)).is_some());
    }

    #[test]
    fn whoever_was_removed_is_told_from_whoever_is_to_come() {
        let listed = |index: u64| Listed { index, ids: BTreeSet::from([1, 2, CHOSEN_MAX + 40]) };
        // Of those with whom the cluster began, nobody is missing before something changed.
        assert!(!listed(0).has_removed(3));
        assert!(listed(41).has_removed(3));
        assert!(!listed(41).has_removed(2));
        assert!(!listed(41).has_removed(CHOSEN_MAX + 40));
        // One whose entry has been read, and that is not there, was removed.
        assert!(listed(41).has_removed(CHOSEN_MAX + 20));
        assert!(!listed(41).has_removed(CHOSEN_MAX + 41));
        assert!(!listed(41).has_removed(CHOSEN_MAX + 50));
    }
}
