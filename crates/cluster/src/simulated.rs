//! A medium in memory for the log of the engine, on tokio's clock: for tests and simulations.
//!
//! Entries can be read at once, and are durable when a sync has ended, whose length chance gives.
//! The medium outlives who writes on it: after [`SimulatedLog::crash`] of what was not synced a
//! prefix is left, and [`SimulatedLog::open`] goes on with it.
//!
//! Invariant: no thread and no clock but tokio's: with paused time on one thread everything
//! depends on the seed and the calls alone.
//! Invariant: errors, and the order of callbacks, are those of the journal.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journal::{
    Appended, Done, JournalError, JournalPosition, JournalStatus, LogEntry, VOTE_MAX_BYTES,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::log_store::{LogMedium, Waiting};

/// A medium in memory. Clones are the same medium.
#[derive(Clone)]
pub struct SimulatedLog {
    shared: Arc<Shared>,
}

struct Shared {
    /// How long a sync takes, from and to, in µs.
    sync_us: RangeInclusive<u64>,
    state: Mutex<State>,
    /// A stall ended, or an opening, or there is room.
    changed: Notify,
}

#[derive(Default)]
struct State {
    chance: u64,
    /// What is read.
    shown: Contents,
    /// What a power cut leaves at least.
    durable: Contents,
    /// What is not durable, oldest first.
    queue: VecDeque<Queued>,
    /// What was in a sync that failed, oldest first: any prefix of it is there.
    uncertain: Vec<Change>,
    /// How often it was opened; what belongs to an earlier time comes to nothing.
    opening: u64,
    is_syncing: bool,
    is_stalled: bool,
    is_full: bool,
    /// What finds no room waits for it.
    waits_for_room: bool,
    fails_next_sync: bool,
    status: JournalStatus,
}

/// What a log holds.
#[derive(Clone, Default)]
struct Contents {
    next: u64,
    last: Option<JournalPosition>,
    purged: Option<JournalPosition>,
    committed: Option<JournalPosition>,
    vote: Option<Vec<u8>>,
    entries: BTreeMap<u64, Appended>,
}

#[derive(Clone)]
enum Change {
    Entries(Vec<Appended>),
    Vote(Vec<u8>),
    Committed(JournalPosition),
    /// Entries behind this place are void; `false` if it is before the first entry.
    Truncate(JournalPosition, bool),
    Purge(JournalPosition),
    Reset(u64, Option<JournalPosition>),
}

/// A call whose outcome is not known yet.
struct Queued {
    change: Option<Change>,
    /// What is answered when the sync succeeds.
    outcome: Result<JournalPosition, JournalError>,
    answer: Answer,
}

enum Answer {
    Append(Done),
    Waiting(oneshot::Sender<Result<(), JournalError>>),
    Nobody,
}

impl Answer {
    fn give(self, outcome: Result<JournalPosition, JournalError>) {
        match self {
            Self::Append(done) => done(outcome),
            Self::Waiting(answer) => {
                // Who asked may have gone.
                let _ = answer.send(outcome.map(|_| ()));
            }
            Self::Nobody => {}
        }
    }
}

impl SimulatedLog {
    /// An empty log that begins with index 1; a sync takes a time from `sync_time`, both ends
    /// included, in steps of 1 µs. All chance comes from `seed`.
    #[must_use]
    pub fn new(seed: u64, sync_time: RangeInclusive<Duration>) -> Self {
        let us = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let empty = Contents { next: 1, ..Contents::default() };
        let state =
            State { chance: seed, shown: empty.clone(), durable: empty, ..State::default() };
        let sync_us = us(sync_time.start())..=us(sync_time.end());
        let shared = Shared { sync_us, state: Mutex::new(state), changed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// The medium for a [`LogStore`](crate::LogStore), until the next crash.
    #[must_use]
    pub fn open(&self) -> Arc<dyn LogMedium> {
        let opening = self.state().opening;
        Arc::new(Opened { log: self.clone(), opening })
    }

    /// Ends all openings as a power cut does: what waits fails with `Closed`, and of what was not
    /// synced a prefix is left that chance chooses. Faults are over.
    pub fn crash(&self) {
        let mut state = self.state();
        let queue = std::mem::take(&mut state.queue);
        let mut changes = std::mem::take(&mut state.uncertain);
        let mut answers = Vec::new();
        for queued in queue {
            changes.extend(queued.change);
            answers.push(queued.answer);
        }
        // An append is all there or not at all.
        let kept = state.random(changes.len() as u64 + 1) as usize;
        changes.into_iter().take(kept).for_each(|change| state.durable.apply(change));
        *state = State {
            chance: state.chance,
            shown: state.durable.clone(),
            durable: std::mem::take(&mut state.durable),
            opening: state.opening + 1,
            ..State::default()
        };
        drop(state);
        self.shared.changed.notify_waiters();
        answers.into_iter().for_each(|answer| answer.give(Err(JournalError::Closed)));
    }

    /// The next sync that ends fails; nothing more is written until it is opened again.
    pub fn fail_next_sync(&self) {
        self.state().fails_next_sync = true;
    }

    /// Lets no sync end until it is called with `false`.
    pub fn stall(&self, is_stalled: bool) {
        self.state().is_stalled = is_stalled;
        self.shared.changed.notify_waiters();
    }

    /// Leaves no room until it is called with `false`: everything waits for it, or is refused.
    pub fn fill(&self, is_full: bool) {
        self.state().is_full = is_full;
        self.shared.changed.notify_waiters();
    }

    /// The entries that can be read and are not purged, in order.
    #[must_use]
    pub fn entries(&self) -> Vec<Appended> {
        self.state().shown.entries.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs, one sync after the other, until nobody waits.
    async fn sync(self, opening: u64) {
        loop {
            let (count, time) = {
                let mut state = self.state();
                if state.opening != opening {
                    return;
                }
                let (least, most) = (*self.shared.sync_us.start(), *self.shared.sync_us.end());
                let time_us = least + state.random(most.saturating_sub(least).saturating_add(1));
                (state.queue.len(), Duration::from_micros(time_us))
            };
            let began = Instant::now();
            tokio::time::sleep(time).await;
            self.stalled(opening).await;
            let Some(answers) = self.state().synced(opening, count, began.elapsed()) else {
                return;
            };
            answers.into_iter().for_each(|(answer, outcome)| answer.give(outcome));
            let mut state = self.state();
            if state.opening == opening && !state.is_waited_for() {
                state.is_syncing = false;
                return;
            }
        }
    }

    async fn stalled(&self, opening: u64) {
        loop {
            let changed = self.shared.changed.notified();
            let is_stalled = {
                let state = self.state();
                state.opening == opening && state.stands_still()
            };
            if !is_stalled {
                return;
            }
            changed.await;
        }
    }
}

type Answers = Vec<(Answer, Result<JournalPosition, JournalError>)>;

impl State {
    /// A number below `bound`, which is not 0.
    fn random(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.chance;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn is_waited_for(&self) -> bool {
        self.queue.iter().any(|queued| !matches!(queued.answer, Answer::Nobody))
    }

    /// Whether no sync ends.
    const fn stands_still(&self) -> bool {
        self.is_stalled || (self.is_full && self.waits_for_room)
    }

    /// Whether anything can be written.
    fn check(&self) -> Result<(), JournalError> {
        match &self.status.is_poisoned {
            Some(reason) => Err(JournalError::Poisoned { reason: reason.clone() }),
            None if self.is_full && !self.waits_for_room => Err(no_space()),
            None => Ok(()),
        }
    }

    /// A sync of the oldest `count` calls has ended; `None` if nobody syncs any more.
    fn synced(&mut self, opening: u64, count: usize, time: Duration) -> Option<Answers> {
        if self.opening != opening {
            return None;
        }
        let mut answers = Answers::new();
        if std::mem::take(&mut self.fails_next_sync) {
            let reason = "the sync failed".to_owned();
            self.status.is_poisoned = Some(reason.clone());
            for queued in std::mem::take(&mut self.queue) {
                self.uncertain.extend(queued.change);
                let poisoned = Err(JournalError::Poisoned { reason: reason.clone() });
                answers.push((queued.answer, queued.outcome.and(poisoned)));
            }
            return Some(answers);
        }
        // Less, if what waited for room was given up.
        for queued in self.queue.drain(..count.min(self.queue.len())) {
            if let Some(change) = queued.change {
                self.durable.apply(change);
            }
            answers.push((queued.answer, queued.outcome));
        }
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.status.syncs += 1;
        self.status.sync_us += time_us;
        self.status.longest_sync_us = self.status.longest_sync_us.max(time_us);
        Some(answers)
    }
}

impl Contents {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Entries(entries) => {
                for entry in entries {
                    self.next = entry.place.index + 1;
                    self.last = Some(entry.place);
                    self.entries.insert(entry.place.index, entry);
                }
            }
            Change::Vote(vote) => self.vote = Some(vote),
            Change::Committed(place) => self.committed = Some(place),
            Change::Truncate(after, is_entry) => {
                self.entries.split_off(&(after.index + 1));
                self.next = after.index + 1;
                self.last = is_entry.then_some(after);
            }
            Change::Purge(upto) => {
                self.entries = self.entries.split_off(&(upto.index + 1));
                self.purged = Some(upto);
            }
            Change::Reset(first, purged) => {
                let vote = self.vote.take();
                *self = Self { next: first, purged, vote, ..Self::default() };
            }
        }
    }

    fn purged_index(&self) -> u64 {
        self.purged.map_or(0, |purged| purged.index)
    }

    /// The first entry there is, or the next.
    fn first(&self) -> u64 {
        self.entries.first_key_value().map_or(self.next, |(first, _)| *first)
    }

    fn check(&self, entries: &[Appended]) -> Result<(), JournalError> {
        let (mut next, mut term) = (self.next, self.last.map_or(0, |last| last.term));
        for entry in entries {
            if entry.place.index != next || entry.place.term < term {
                return Err(JournalError::OutOfOrder { expected: next, found: entry.place });
            }
            (next, term) = (next + 1, entry.place.term);
        }
        Ok(())
    }

    fn out_of_range(&self, what: &'static str, index: u64) -> JournalError {
        let low = self.first().saturating_sub(1).max(self.purged_index());
        JournalError::OutOfRange { what, index, low, high: self.next.saturating_sub(1) }
    }
}

fn no_space() -> JournalError {
    JournalError::NoSpace { text: "the disk is full".to_owned() }
}

/// One time that the medium is open.
struct Opened {
    log: SimulatedLog,
    opening: u64,
}

impl Opened {
    /// Asks for a change; what `make` gives is done behind all that was asked before.
    fn change(
        &self,
        answer: Answer,
        make: impl FnOnce(&mut State) -> Result<Option<Change>, JournalError>,
    ) {
        let mut state = self.log.state();
        if state.opening != self.opening {
            drop(state);
            return answer.give(Err(JournalError::Closed));
        }
        let made = state.check().and_then(|()| make(&mut state));
        if let Ok(Some(change)) = &made {
            state.shown.apply(change.clone());
        }
        let last = state.shown.last.unwrap_or_default();
        let (change, outcome) = match made {
            Ok(change) => (change, Ok(last)),
            Err(error) => (None, Err(error)),
        };
        if change.is_none() && state.queue.is_empty() {
            drop(state);
            return answer.give(outcome);
        }
        state.queue.push_back(Queued { change, outcome, answer });
        if !state.is_syncing && state.is_waited_for() {
            state.is_syncing = true;
            drop(state);
            tokio::spawn(self.log.clone().sync(self.opening));
        }
    }

    fn wait(
        &self,
        make: impl FnOnce(&mut State) -> Result<Option<Change>, JournalError>,
    ) -> Waiting<()> {
        let (answer, outcome) = oneshot::channel();
        self.change(Answer::Waiting(answer), make);
        Box::pin(async move { outcome.await.unwrap_or(Err(JournalError::Closed)) })
    }
}

impl LogMedium for Opened {
    fn append(&self, entries: Vec<Appended>, done: Done) {
        self.change(Answer::Append(done), |state| {
            state.shown.check(&entries)?;
            state.status.appended += entries.len() as u64;
            Ok((!entries.is_empty()).then_some(Change::Entries(entries)))
        });
    }

    fn barrier(self: Arc<Self>) -> Waiting<()> {
        self.wait(|_| Ok(None))
    }

    fn read(self: Arc<Self>, from: u64, to: u64, max_bytes: usize) -> Waiting<Vec<LogEntry>> {
        Box::pin(std::future::ready(self.read_now(from, to, max_bytes)))
    }

    fn read_now(
        &self,
        from: u64,
        to: u64,
        max_bytes: usize,
    ) -> Result<Vec<LogEntry>, JournalError> {
        let state = self.log.state();
        let first = state.shown.first();
        if from < first {
            return Err(JournalError::Gone { first });
        }
        let mut entries = Vec::new();
        let mut bytes = 0;
        for entry in state.shown.entries.range(from..).map(|(_, entry)| entry) {
            bytes += entry.payload.len();
            if entry.place.index > to || (bytes > max_bytes && !entries.is_empty()) {
                break;
            }
            entries.push(LogEntry { place: entry.place, payload: entry.payload.to_vec() });
        }
        Ok(entries)
    }

    fn save_vote(self: Arc<Self>, vote: Vec<u8>) -> Waiting<()> {
        self.wait(|_| {
            let (bytes, limit_bytes) = (vote.len() as u64, VOTE_MAX_BYTES as u64);
            if bytes > limit_bytes {
                return Err(JournalError::TooLarge { what: "a vote", bytes, limit_bytes });
            }
            Ok(Some(Change::Vote(vote)))
        })
    }

    fn vote(&self) -> Option<Vec<u8>> {
        self.log.state().shown.vote.clone()
    }

    fn save_committed(&self, place: JournalPosition) -> Result<(), JournalError> {
        if let Some(reason) = self.status().is_poisoned {
            return Err(JournalError::Poisoned { reason });
        }
        self.change(Answer::Nobody, |_| Ok(Some(Change::Committed(place))));
        Ok(())
    }

    fn truncate_suffix(self: Arc<Self>, after: u64) -> Waiting<()> {
        self.wait(|state| {
            let shown = &state.shown;
            let low = shown.first().saturating_sub(1).max(shown.purged_index());
            if after < low || after >= shown.next {
                return Err(shown.out_of_range("a truncation", after));
            }
            let purged = shown.purged.filter(|purged| purged.index == after);
            let entry = shown.entries.get(&after).map(|entry| entry.place).or(purged);
            let place = entry.unwrap_or(JournalPosition { term: 0, index: after });
            let is_last = after + 1 == shown.next;
            Ok((!is_last).then_some(Change::Truncate(place, entry.is_some())))
        })
    }

    fn purge(self: Arc<Self>, upto: u64) -> Waiting<()> {
        self.wait(|state| {
            if upto >= state.shown.next {
                return Err(state.shown.out_of_range("a purge", upto));
            }
            Ok(state.shown.entries.get(&upto).map(|entry| Change::Purge(entry.place)))
        })
    }

    fn reset(self: Arc<Self>, first: u64) -> Waiting<()> {
        self.wait(|_| Ok(Some(Change::Reset(first, None))))
    }

    fn reset_after(self: Arc<Self>, purged: JournalPosition) -> Waiting<()> {
        self.wait(|_| Ok(Some(Change::Reset(purged.index + 1, Some(purged)))))
    }

    fn before_newest(&self, bytes: u64) -> u64 {
        let state = self.log.state();
        let mut taken = 0;
        let mut newest = state.shown.entries.iter().rev();
        let before = newest.find(|(_, entry)| {
            taken += entry.payload.len() as u64;
            taken >= bytes
        });
        before.map_or(0, |(index, _)| index.saturating_sub(1))
    }

    fn wait_for_room(&self, every: Option<Duration>) {
        let mut state = self.log.state();
        if state.opening != self.opening {
            return;
        }
        state.waits_for_room = every.is_some();
        if state.waits_for_room || !state.is_full {
            return;
        }
        state.shown = state.durable.clone();
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        self.log.shared.changed.notify_waiters();
        queue.into_iter().for_each(|it| it.answer.give(it.outcome.and(Err(no_space()))));
    }

    /// Who opens it anew is not in the way of this one.
    fn close(&self) {}

    fn status(&self) -> JournalStatus {
        let state = self.log.state();
        let shown = &state.shown;
        JournalStatus {
            first: shown.first(),
            last: shown.last,
            durable: state.durable.last,
            purged: shown.purged,
            committed: state.durable.committed,
            is_full: state.is_full,
            ..state.status.clone()
        }
    }
}
