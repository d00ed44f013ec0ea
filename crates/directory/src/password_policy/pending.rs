//! What binds leave behind in accounts: kept in memory as events, and written in batches by a
//! thread, so that no bind waits for a write.
//!
//! Invariant: every bind sees the events of all binds before it, written or not, and is decided
//! and noted in one step: of many guesses at once no more are looked at than the policy allows.
//! Invariant: events are put into the entry as it is when they are written. What an administrator
//! or a new password did meanwhile is not undone: the events before it count no more.
//! Invariant: memory is bounded, and nobody gets past a lock by filling it.
//! Invariant: guesses that wait for a hash count as failures for all others (`attempts.rs`).
//!
//! What was not written when a process dies is lost: the events of the last `state_delay`.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use environment::{Clock, Timestamp};
use rustc_hash::FxHashMap;
use schema::{Change, EntryId, ModifyChange};
use store::{Lsn, StoredEntry, View};

use super::account::{AccountState, Rejected, Remark};
use super::account_event::{ACCOUNTS_PER_WRITE, AccountEvents, EVENTS_PER_REQUEST, Event, What};
use super::attempts::{Guess, Own, UnderWay};
use super::attributes::{after as later, between};
use super::merge::{NEAR, merge, replay};
use super::rules::PasswordPolicy;
use super::set::PasswordPolicyOptions;
use super::told::Told;

/// The events of one account, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pending {
    events: Vec<Event>,
    /// The first so many are with the writer.
    pub(super) sent: usize,
    /// The change with this number has those that were sent.
    decided: Option<Lsn>,
    /// The writer says so.
    pub(super) is_written: bool,
    /// Writes of those that were sent that are not over: several where another node decides.
    underway: u32,
    /// One that is over was none.
    has_failed: bool,
    /// Those that are not sent are to be written at once.
    pub(super) is_urgent: bool,
    /// Those up to here count no more.
    dead_through: Option<Timestamp>,
}

/// A part of the table.
#[derive(Default)]
pub(super) struct Shard {
    pub(super) accounts: FxHashMap<EntryId, Pending>,
    /// What other nodes have told; nothing in a server that is alone.
    pub(super) told: FxHashMap<EntryId, Told>,
    under_way: UnderWay,
    /// The last change of which the events are not here any more: older views lack them.
    pub(super) forgotten: Lsn,
    /// In a cluster, when clients last set the state of accounts: events of other nodes up to then
    /// count no more, also those that come later.
    resets: FxHashMap<EntryId, Timestamp>,
}

/// What is known of accounts beyond their entries.
pub(crate) struct Accounts {
    shards: Vec<Mutex<Shard>>,
    /// How many accounts have any.
    count: AtomicUsize,
    /// How many have any that other nodes have told, or are about to.
    pub(super) told_count: AtomicUsize,
    pub(super) calls: Sender<Signal>,
    pub(super) accounts_max: usize,
    last_login: bool,
    last_login_precision: Duration,
    /// Whether other nodes send what binds left there.
    has_others: bool,
    /// The times of events of this node in microseconds, modulo [`MEMBER_TICKS`]; none where it is
    /// alone.
    member_tick: Option<u64>,
    /// Guesses that have a number so far.
    guesses: AtomicU64,
}

/// What the thread is told.
pub(super) enum Signal {
    /// There is something to write, some time.
    Soon,
    /// There is something that others should know.
    Now,
    /// Everything is to be written; then the answer is dropped.
    Finish(Sender<()>),
}

/// What is to be taken from the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// What was written in the round before is forgotten.
    pub(super) forgets: bool,
    /// What is not urgent, too.
    pub(super) takes_all: bool,
    /// All of it is urgent: the server ends.
    pub(super) is_last: bool,
    /// Another node decides.
    pub(super) hands_on: bool,
}

/// An account as a bind found it: what its entry says in a view, and what governs it.
pub(crate) struct FoundAccount<'a> {
    pub(crate) id: EntryId,
    pub(crate) policy: &'a PasswordPolicy,
    pub(crate) stored: &'a AccountState,
    /// The point of the view.
    pub(crate) lsn: Lsn,
}

/// Why a bind under a policy is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotNow {
    /// The policy says so.
    Rejected(Rejected),
    /// A failure could not be noted: too many wait to be written.
    Busy,
    /// The view is too old: the account is to be read again.
    Stale,
}

impl Accounts {
    /// Prepares the table of the member of a cluster with this number, or of a server that is
    /// alone; its thread is started with [`AccountWriter::start`].
    pub(crate) fn new(
        options: &PasswordPolicyOptions,
        member: Option<u64>,
    ) -> (Self, AccountWriter) {
        let (calls, heard) = bounded(CALLS_MAX);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let accounts = Self {
            shards,
            count: AtomicUsize::new(0),
            told_count: AtomicUsize::new(0),
            calls,
            accounts_max: options.accounts_max,
            last_login: options.last_login,
            last_login_precision: options.last_login_precision,
            has_others: member.is_some(),
            member_tick: member.map(|member| member % MEMBER_TICKS),
            guesses: AtomicU64::new(0),
        };
        (accounts, AccountWriter { heard, delay: options.state_delay })
    }

    /// Whether binds are to be noted where no policy says so.
    pub(crate) fn keeps_last_login(&self) -> bool {
        self.last_login
    }

    /// The state of an account: its entry in `view`, and what binds have left since.
    pub(crate) fn state(
        &self,
        view: &View<'_>,
        entry: &StoredEntry<'_>,
        policy: &PasswordPolicy,
        clock: &dyn Clock,
    ) -> AccountState {
        let stored = AccountState::read(entry, view.schema());
        let account = FoundAccount { id: entry.id(), policy, stored: &stored, lsn: view.lsn() };
        match self.is_idle() {
            true => stored,
            false => account.now(&self.shard(account.id), clock.now()).into_owned(),
        }
    }

    /// Whether a password is looked at at all.
    pub(crate) fn may_try(
        &self,
        account: &FoundAccount<'_>,
        own: Own<'_>,
        now: Timestamp,
    ) -> Result<(), NotNow> {
        self.may_try_in(&self.shard(account.id), account, own, now)
    }

    fn may_try_in(
        &self,
        shard: &Shard,
        account: &FoundAccount<'_>,
        own: Own<'_>,
        now: Timestamp,
    ) -> Result<(), NotNow> {
        let is_full = self.count.load(Ordering::Relaxed) >= self.accounts_max;
        account.check_fresh(shard)?;
        let pending = shard.accounts.get(&account.id);
        let has_room = pending.map_or(!is_full, |pending| pending.events.len() < EVENTS_MAX);
        let known = account.now(shard, now);
        let state = account.with_guesses(&known, shard, own, now);
        state.before_login(account.policy, now).map_err(NotNow::Rejected)?;
        // Or else whoever fills the table could guess without being counted.
        if has_room || !counts_failures(account.policy) { Ok(()) } else { Err(NotNow::Busy) }
    }

    /// A guess begins to wait for its hash: it gets its place among those that the policy allows,
    /// if there is one, and says so. Where nothing is counted it needs none.
    pub(crate) fn begin(&self, account: &FoundAccount<'_>, guess: &Guess, now: Timestamp) -> bool {
        if !counts_failures(account.policy) && !counts_uses(account.policy, account.stored) {
            return false;
        }
        let mut shard = self.shard(account.id);
        if self.may_try_in(&shard, account, Own::Same(guess), now).is_err() {
            return false;
        }
        shard.under_way.begin(account.id, guess, now);
        true
    }

    /// A guess like no other.
    pub(crate) fn guess(&self) -> Guess {
        Guess::Number(self.guesses.fetch_add(1, Ordering::Relaxed))
    }

    /// The bind of a guess is over. If nothing was noted of it, it is a failure unless it is right.
    pub(crate) fn end(
        &self,
        account: &FoundAccount<'_>,
        guess: &Guess,
        is_right: bool,
        now: Timestamp,
    ) {
        let mut shard = self.shard(account.id);
        if is_right {
            shard.under_way.settle(account.id, guess);
        }
        if !shard.under_way.end(account.id, guess) {
            return;
        }
        let state = account.now(&shard, now);
        let may_login = state.before_login(account.policy, now);
        // It got its place when there was no delay.
        if matches!(may_login, Ok(()) | Err(Rejected::Delayed(_))) {
            self.note_failure(&mut shard, account, &state, now);
        }
    }

    /// The password was looked at: what the bind is told, and a note of it. Whether it may succeed
    /// is asked once more, after everything that was noted meanwhile.
    pub(crate) fn settle(
        &self,
        account: &FoundAccount<'_>,
        own: Own<'_>,
        is_right: bool,
        now: Timestamp,
    ) -> Result<Remark, NotNow> {
        let policy = account.policy;
        let mut shard = self.shard(account.id);
        account.check_fresh(&shard)?;
        let known = account.now(&shard, now);
        let state = account.with_guesses(&known, &shard, own, now);
        // A wrong one that had its place before a delay began is noted when its bind is over.
        state.before_login(policy, now).map_err(NotNow::Rejected)?;
        if let Own::Held(guess) = own {
            shard.under_way.settle(account.id, guess);
        }
        if !is_right {
            // The bind that locks an account is told so, as those are that come after it.
            return match self.note_failure(&mut shard, account, &known, now) {
                true => Err(NotNow::Rejected(Rejected::Locked)),
                false => Ok(Remark::default()),
            };
        }
        // The guesses of others are theirs: a success clears what was noted.
        let now = self.own_time(shard.later_than_all(account.id, &known, now));
        let login = known.after_success(policy, now).map_err(NotNow::Rejected)?;
        if self.is_worth(policy, &known, &login.state, now) {
            let is_counted = account.stored.differs_in_uses(&login.state);
            let event = Event { at: now, what: What::Success, is_counted };
            self.note(&mut shard, account, event, false);
        }
        Ok(login.remark)
    }

    /// Notes a failure where a rule needs it; says whether it locks the account.
    fn note_failure(
        &self,
        shard: &mut Shard,
        account: &FoundAccount<'_>,
        state: &AccountState,
        now: Timestamp,
    ) -> bool {
        let policy = account.policy;
        if !counts_failures(policy) && !counts_uses(policy, state) {
            return false;
        }
        let now = self.own_time(shard.later_than_all(account.id, state, now));
        let locked = state.after_failure(policy, now).locked;
        let changes = locked != state.locked;
        let is_counted = counts_uses(policy, state);
        let event = Event { at: now, what: What::Failure, is_counted };
        self.note(shard, account, event, changes);
        changes && locked.is_some()
    }

    /// This moment, or the next one that is a time of no other member: two that note something
    /// after the same failure, and whose clocks are behind it, would give both the same time.
    fn own_time(&self, at: Timestamp) -> Timestamp {
        let Some(tick) = self.member_tick else { return at };
        Timestamp(at.0.saturating_add((tick + MEMBER_TICKS - at.0 % MEMBER_TICKS) % MEMBER_TICKS))
    }

    /// Whether a successful bind changes more than the time of the last one, or that by much.
    fn is_worth(
        &self,
        policy: &PasswordPolicy,
        before: &AccountState,
        after: &AccountState,
        now: Timestamp,
    ) -> bool {
        let unnoted = AccountState { last_success: before.last_success, ..after.clone() };
        if unnoted != *before {
            return true;
        }
        let precision = match policy.max_idle {
            Some(idle) => self.last_login_precision.min(idle / IDLE_PARTS),
            None if self.last_login || policy.records_login => self.last_login_precision,
            None => return false,
        };
        before.last_success.is_none_or(|last| between(last, now) >= precision)
    }

    fn note(&self, shard: &mut Shard, account: &FoundAccount<'_>, event: Event, is_urgent: bool) {
        let is_known = shard.accounts.contains_key(&account.id);
        // A success that is not noted undoes nothing.
        let most = match event.what {
            What::Success => self.accounts_max / 2,
            What::Failure => self.accounts_max,
        };
        if !is_known && self.count.load(Ordering::Relaxed) >= most {
            return;
        }
        let pending = shard.accounts.entry(account.id).or_default();
        if is_urgent && pending.is_written {
            // What follows is to be written at once.
            shard.forgotten = shard.forgotten.max(pending.forget_sent());
        }
        pending.push(event, account.policy);
        let is_urgent = is_urgent || pending.events.len() >= EVENTS_MAX / 2;
        pending.is_urgent |= is_urgent;
        if !is_known && self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            let _ = self.calls.try_send(Signal::Soon);
        }
        if is_urgent {
            let _ = self.calls.try_send(Signal::Now);
        }
    }

    /// A client's changes are decided here, at this moment: the events of accounts whose state
    /// they set count no more.
    pub(crate) fn heed<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c Change>,
        decided: Timestamp,
    ) {
        if self.has_others || !self.is_idle() {
            changes.into_iter().filter_map(set_by).for_each(|id| self.forget(id, decided));
        }
    }

    /// A client's changes were decided by another node: what was noted here later than that still
    /// counts.
    pub(crate) fn heed_another<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c Change>,
        decided: Timestamp,
    ) {
        for id in changes.into_iter().filter_map(set_by) {
            self.shard(id).reset(id, decided);
        }
    }

    /// What was decided here after `last` never comes: the events in it are to be written yet.
    pub(crate) fn drop_after(&self, last: Lsn) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let pending = shard.accounts.values_mut();
            for one in pending.filter(|one| one.decided.is_some_and(|decided| decided > last)) {
                one.decided = None;
            }
            shard.told.values_mut().for_each(|told| told.drop_after(last));
        }
    }

    /// What binds left so far counts no more for an account: it was undone at this moment.
    pub(crate) fn forget(&self, id: EntryId, decided: Timestamp) {
        let mut shard = self.shard(id);
        if self.has_others {
            let last = shard.accounts.get(&id).and_then(Pending::last);
            shard.reset(id, last.map_or(decided, |last| last.max(decided)));
        }
        if let Some(pending) = shard.accounts.get_mut(&id) {
            pending.dead_through = pending.last();
        }
        if let Some(told) = shard.told.get_mut(&id) {
            told.forget();
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0 && self.told_count.load(Ordering::Relaxed) == 0
    }

    pub(super) fn shard(&self, id: EntryId) -> MutexGuard<'_, Shard> {
        let place = usize::try_from(id.0).unwrap_or_default() % SHARDS;
        let shard = self.shards.get(place).expect("there are so many shards");
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has everything written, and waits for it no longer than a limit.
    pub(crate) fn finish(&self) {
        let (done, is_done) = bounded(0);
        if self.is_idle() || self.calls.send(Signal::Finish(done)).is_err() {
            return;
        }
        if is_done.recv_timeout(FINISH_MAX) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
            tracing::warn!("the account state that binds recorded could not be written in time");
        }
    }

    /// Takes what is to be written now, and forgets what was written long enough ago.
    pub(super) fn take(&self, round: Round) -> Vec<Vec<AccountEvents>> {
        // Of a server that is alone every write takes all there is.
        let round = Round { takes_all: round.takes_all || !self.has_others, ..round };
        let mut writes = Vec::new();
        let mut some = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let given_up = self.take_told(&mut shard, round, &mut some);
            self.take_own(&mut shard, round, &mut some);
            drop(shard);
            // Those who told it are answered now.
            drop(given_up);
            while some.len() >= ACCOUNTS_PER_WRITE {
                let rest = some.split_off(ACCOUNTS_PER_WRITE);
                writes.push(std::mem::replace(&mut some, rest));
            }
        }
        if !some.is_empty() {
            writes.push(some);
        }
        writes
    }

    fn take_own(&self, shard: &mut Shard, round: Round, taken: &mut Vec<AccountEvents>) {
        let Shard { accounts, told, forgotten, .. } = shard;
        accounts.retain(|id, pending| {
            if round.forgets && pending.is_written {
                *forgotten = (*forgotten).max(pending.forget_sent());
            }
            pending.drop_dead();
            // An account costs one change in a round, whoever told of it.
            let waits = told.get(id).is_some_and(Told::is_taken);
            if (round.takes_all || pending.is_urgent) && !waits {
                let is_urgent = pending.is_urgent || round.is_last;
                let one = |events| AccountEvents { id: *id, events, told: Vec::new(), is_urgent };
                taken.extend(pending.take(round).map(one));
            }
            let is_kept = !pending.events.is_empty();
            if !is_kept {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            is_kept
        });
    }

    /// A write is over. Where another node has decided it, the change is none after `last`.
    pub(super) fn written(&self, ids: &[EntryId], is_done: bool, last: Option<Lsn>) {
        for id in ids {
            let mut shard = self.shard(*id);
            let Some(pending) = shard.accounts.get_mut(id) else { continue };
            pending.written(is_done, last);
            if shard.told.get(id).is_some_and(Told::is_urgent) {
                let _ = self.calls.try_send(Signal::Now);
            }
        }
    }

    /// What binds left in these accounts is to be written at once.
    pub(super) fn hurry(&self, ids: &[EntryId]) {
        for id in ids {
            if let Some(pending) = self.shard(*id).accounts.get_mut(id) {
                pending.is_urgent = true;
            }
        }
        let _ = self.calls.try_send(Signal::Now);
    }

    /// Of the events that are to be written, those that still count, in the order of their times;
    /// they are part of the change `lsn`.
    pub(crate) fn decided(&self, account: &AccountEvents, lsn: Lsn) -> Vec<Event> {
        let AccountEvents { id, events, told, .. } = account;
        let mut shard = self.shard(*id);
        let mut counted = match shard.accounts.get_mut(id).filter(|_| !events.is_empty()) {
            None => events.clone(),
            Some(pending) => {
                pending.decided = Some(lsn);
                events.iter().copied().filter(|event| pending.counts(*event)).collect()
            }
        };
        if !told.is_empty() {
            let reset = shard.resets.get(id).copied();
            // Or else it was given up, and is told again.
            if let Some(all) = shard.told.get_mut(id) {
                counted.extend(all.decided(told, reset, lsn));
            }
            counted.sort_by_key(|event| event.at);
        }
        counted
    }

    /// Whether all is written.
    pub(super) fn is_done(&self) -> bool {
        self.shards.iter().all(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.accounts.values().all(|one| one.is_written && one.sent == one.events.len())
                && shard.told.values().all(Told::is_done)
        })
    }
}

impl Shard {
    /// A client has set the state of an account: what binds left up to then counts no more.
    fn reset(&mut self, id: EntryId, moment: Timestamp) {
        if self.resets.len() >= RESETS_MAX && !self.resets.contains_key(&id) {
            let oldest = self.resets.iter().min_by_key(|(_, moment)| **moment);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.resets.remove(&oldest);
            }
        }
        let known = self.resets.entry(id).or_insert(moment);
        *known = moment.max(*known);
        if let Some(pending) = self.accounts.get_mut(&id) {
            pending.dead_through = pending.dead_through.max(Some(moment));
        }
    }

    /// `now`, or a moment after everything that was noted when the clock, or that of another node,
    /// was ahead: or else it would be taken for something that was cleared.
    fn later_than_all(&self, id: EntryId, state: &AccountState, now: Timestamp) -> Timestamp {
        let pending = self.accounts.get(&id);
        let noted = pending.and_then(Pending::last);
        let dead = pending.and_then(|one| one.dead_through).max(self.resets.get(&id).copied());
        let near = later(now, NEAR * 2);
        let clears = [state.last_success, state.changed].map(|at| at.filter(|at| *at <= near));
        let [success, changed] = clears;
        let [failure, grace] = [&state.failures, &state.grace_uses].map(|all| all.last().copied());
        let last = [noted, dead, failure, grace, success, changed].into_iter().flatten().max();
        let tick = Duration::from_micros(1);
        last.map_or(now, |last| now.max(later(last, tick)))
    }
}

impl Pending {
    /// When the last event was.
    fn last(&self) -> Option<Timestamp> {
        self.events.last().map(|event| event.at)
    }

    /// Those that are not sent and count no more go: whoever decides elsewhere does not know that
    /// they do not.
    pub(super) fn drop_dead(&mut self) {
        if let Some(dead) = self.dead_through {
            let mut to_keep = self.sent;
            self.events.retain(|event| {
                let is_sent = to_keep > 0;
                to_keep = to_keep.saturating_sub(1);
                is_sent || event.at > dead
            });
        }
    }

    /// Takes what is to be sent. This node decides on one batch at a time; another one is handed
    /// what is new although it has not answered.
    pub(super) fn take(&mut self, round: Round) -> Option<Vec<Event>> {
        // One that was decided here may yet be, and says what a view has of all that was sent.
        if self.sent > 0 && (!round.hands_on || self.decided.is_some()) {
            return None;
        }
        let most = if round.hands_on { EVENTS_PER_REQUEST } else { usize::MAX };
        let events: Vec<_> = self.events.iter().skip(self.sent).take(most).copied().collect();
        if events.is_empty() {
            return None;
        }
        self.sent += events.len();
        self.underway += 1;
        self.is_urgent &= self.sent < self.events.len();
        Some(events)
    }

    /// A write of some that were sent is over.
    fn written(&mut self, is_done: bool, last: Option<Lsn>) {
        self.underway = self.underway.saturating_sub(1);
        self.has_failed |= !is_done;
        if self.underway > 0 {
            return;
        }
        self.is_written = !self.has_failed;
        self.decided = self.decided.or(last);
        if self.has_failed {
            (self.sent, self.decided) = (0, None);
        }
        self.has_failed = false;
    }

    /// What a view of this point lacks.
    fn unwritten(&self, lsn: Lsn) -> impl Iterator<Item = Event> + '_ {
        let is_there = self.decided.is_some_and(|decided| lsn >= decided);
        let unwritten = self.events.iter().skip(if is_there { self.sent } else { 0 });
        unwritten.copied().filter(|event| self.counts(*event))
    }

    fn counts(&self, event: Event) -> bool {
        self.dead_through.is_none_or(|dead| event.at > dead)
    }

    fn push(&mut self, event: Event, policy: &PasswordPolicy) {
        let sent = self.sent;
        if event.is_counted {
            self.events.push(event);
            return;
        }
        if event.what == What::Success {
            // It supersedes those before it.
            self.events.truncate(sent);
        } else if self.events.len().saturating_sub(sent) > policy.failures_kept() {
            let mut unsent = self.events.iter().skip(sent);
            let oldest = unsent.position(|event| event.what == What::Failure);
            if let Some(oldest) = oldest {
                self.events.remove(sent + oldest);
            }
        }
        self.events.push(event);
    }

    /// The change that has them; older views do not.
    pub(super) fn forget_sent(&mut self) -> Lsn {
        self.events.drain(..self.sent);
        (self.sent, self.is_written) = (0, false);
        self.decided.take().unwrap_or_default()
    }
}

impl FoundAccount<'_> {
    /// The view must not be older than what was forgotten.
    fn check_fresh(&self, shard: &Shard) -> Result<(), NotNow> {
        if self.lsn < shard.forgotten { Err(NotNow::Stale) } else { Ok(()) }
    }

    /// What is known, for whoever has these guesses: those of others under way have failed.
    ///
    /// They lock as if they all failed now, for as long as they are under way; a delay begins with
    /// the guess.
    fn with_guesses<'s>(
        &self,
        known: &'s AccountState,
        shard: &Shard,
        own: Own<'_>,
        now: Timestamp,
    ) -> Cow<'s, AccountState> {
        let mut begun: Vec<_> = shard.under_way.of_others(self.id, own).collect();
        if begun.is_empty() {
            return Cow::Borrowed(known);
        }
        let failure = |state: AccountState, _| state.after_failure(self.policy, now);
        let mut state = begun.iter().fold(known.clone(), failure);
        begun.sort_unstable();
        // The last failures are these guesses.
        let guesses = state.failures.iter_mut().rev().zip(begun.into_iter().rev());
        guesses.for_each(|(failure, begun)| *failure = begun);
        state.failures.sort_unstable();
        Cow::Owned(state)
    }

    /// What the entry says and what is not in it yet.
    pub(super) fn now(&self, shard: &Shard, now: Timestamp) -> Cow<'_, AccountState> {
        let pending = shard.accounts.get(&self.id);
        if let Some(told) = shard.told.get(&self.id) {
            let reset = shard.resets.get(&self.id).copied();
            let own = pending.into_iter().flat_map(|pending| pending.unwritten(self.lsn));
            let mut events: Vec<_> = own.chain(told.unwritten(self.lsn, reset)).collect();
            events.sort_by_key(|event| event.at);
            return Cow::Owned(merge(self.stored.clone(), events.into_iter(), self.policy, now));
        }
        let Some(pending) = pending else { return Cow::Borrowed(self.stored) };
        // They are there also where nobody knows whether they were written.
        let is_new = |event: &Event| !self.stored.failures.contains(&event.at);
        let events = pending.unwritten(self.lsn).filter(is_new);
        Cow::Owned(replay(self.stored.clone(), events, self.policy))
    }
}

/// Whether a rule needs to know of wrong passwords.
pub(super) fn counts_failures(policy: &PasswordPolicy) -> bool {
    (policy.lockout && policy.max_failures > 0) || policy.min_delay.is_some()
}

/// Whether the number of binds counts, right or wrong: of a password that is good for a few.
fn counts_uses(policy: &PasswordPolicy, state: &AccountState) -> bool {
    state.is_reset && policy.temporary.max_uses.is_some()
}

/// The account of which a change sets what events are about.
fn set_by(change: &Change) -> Option<EntryId> {
    match change {
        Change::Modify(change) if sets_state(change) => Some(change.id),
        Change::Delete(change) => Some(change.id),
        _ => None,
    }
}

/// Whether a change sets what events are about.
fn sets_state(change: &ModifyChange) -> bool {
    change.deltas.iter().any(|delta| {
        delta.description.is_password()
            || STATE.iter().any(|name| delta.description.kind.name().eq_ignore_ascii_case(name))
    })
}

/// The other end of the calls.
pub(crate) struct AccountWriter {
    pub(super) heard: Receiver<Signal>,
    pub(super) delay: Duration,
}

/// What events change: whoever sets one of these knows better. Passwords do so as well.
const STATE: &[&str] = &[
    "pwdAccountLockedTime",
    "pwdFailureTime",
    "pwdGraceUseTime",
    "pwdChangedTime",
    "pwdReset",
    "pwdLastSuccess",
];

/// Events of one account that wait.
const EVENTS_MAX: usize = 256;

/// Accounts whose last reset is remembered, in each part of the table; the oldest give way.
const RESETS_MAX: usize = 256;

/// Members of which no two give events of an account the same time, if their numbers follow each
/// other.
const MEMBER_TICKS: u64 = 64;

/// Parts of the table that are locked alone.
const SHARDS: usize = 64;

/// Calls that wait to be heard. One that finds no room says nothing that the others do not.
const CALLS_MAX: usize = 64;

/// Into how many parts the time that an account may be idle is divided: so exactly the last bind is
/// known.
const IDLE_PARTS: u32 = 50;

/// How long a shutdown waits for the last write.
const FINISH_MAX: Duration = Duration::from_secs(5);
