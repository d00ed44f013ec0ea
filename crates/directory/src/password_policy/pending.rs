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
use environment::Timestamp;
use rustc_hash::FxHashMap;
use schema::{Change, EntryId, ModifyChange};
use store::{Lsn, StoredEntry, View};

use super::account::{AccountState, Rejected, Remark};
use super::account_event::{AccountEvents, Event, What};
use super::attempts::{Guess, Own, UnderWay};
use super::attributes::{after as later, between};
use super::rules::PasswordPolicy;
use super::set::PasswordPolicyOptions;

/// The events of one account, the oldest first.
#[derive(Debug, Default)]
struct Pending {
    events: Vec<Event>,
    /// The first so many are with the writer.
    sent: usize,
    /// The change with this number has those that were sent.
    decided: Option<Lsn>,
    /// The writer says so.
    is_written: bool,
    /// Those up to here count no more.
    dead_through: Option<Timestamp>,
}

/// A part of the table.
#[derive(Default)]
struct Shard {
    accounts: FxHashMap<EntryId, Pending>,
    under_way: UnderWay,
    /// The last change of which the events are not here any more: older views lack them.
    forgotten: Lsn,
    /// In a cluster, when clients last set the state of accounts: events of other nodes up to then
    /// count no more, also those that come later.
    resets: FxHashMap<EntryId, Timestamp>,
}

/// What is known of accounts beyond their entries.
pub(crate) struct Accounts {
    shards: Vec<Mutex<Shard>>,
    /// How many accounts have any.
    count: AtomicUsize,
    calls: Sender<Signal>,
    accounts_max: usize,
    last_login: bool,
    last_login_precision: Duration,
    /// Whether other nodes send what binds left there.
    has_others: bool,
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
    /// Prepares the table; its thread is started with [`AccountWriter::start`].
    pub(crate) fn new(options: &PasswordPolicyOptions, has_others: bool) -> (Self, AccountWriter) {
        let (calls, heard) = bounded(CALLS_MAX);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let accounts = Self {
            shards,
            count: AtomicUsize::new(0),
            calls,
            accounts_max: options.accounts_max,
            last_login: options.last_login,
            last_login_precision: options.last_login_precision,
            has_others,
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
    ) -> AccountState {
        let stored = AccountState::read(entry, view.schema());
        let account = FoundAccount { id: entry.id(), policy, stored: &stored, lsn: view.lsn() };
        match self.is_idle() {
            true => stored,
            false => account.now(self.shard(account.id).accounts.get(&account.id)).into_owned(),
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
        let known = account.now(pending);
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
        let state = account.now(shard.accounts.get(&account.id));
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
        let known = account.now(shard.accounts.get(&account.id));
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
        let now = shard.later_than_all(account.id, &known, now);
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
        let now = shard.later_than_all(account.id, state, now);
        let locked = state.after_failure(policy, now).locked;
        let changes = locked != state.locked;
        let is_counted = counts_uses(policy, state);
        let event = Event { at: now, what: What::Failure, is_counted };
        self.note(shard, account, event, changes);
        changes && locked.is_some()
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
        if !is_known && self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            let _ = self.calls.try_send(Signal::Soon);
        }
        if is_urgent || pending.events.len() >= EVENTS_MAX / 2 {
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
    }

    pub(super) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn shard(&self, id: EntryId) -> MutexGuard<'_, Shard> {
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
    pub(super) fn take(&self, forgets: bool) -> Vec<Vec<AccountEvents>> {
        let mut writes = Vec::new();
        let mut some = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let Shard { accounts, forgotten, .. } = &mut *shard;
            accounts.retain(|id, pending| {
                if forgets && pending.is_written {
                    *forgotten = (*forgotten).max(pending.forget_sent());
                }
                if pending.sent == 0 {
                    // Whoever decides elsewhere does not know that they count no more.
                    let dead = pending.dead_through;
                    pending.events.retain(|event| dead.is_none_or(|dead| event.at > dead));
                }
                if pending.sent == 0 && !pending.events.is_empty() {
                    pending.sent = pending.events.len();
                    some.push(AccountEvents { id: *id, events: pending.events.clone() });
                }
                let is_kept = !pending.events.is_empty();
                if !is_kept {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
                is_kept
            });
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

    /// A write is over. Where another node has decided it, the change is none after `last`.
    pub(super) fn written(&self, ids: &[EntryId], is_done: bool, last: Option<Lsn>) {
        for id in ids {
            if let Some(pending) = self.shard(*id).accounts.get_mut(id) {
                pending.is_written = is_done;
                pending.decided = pending.decided.or(last);
                if !is_done {
                    (pending.sent, pending.decided) = (0, None);
                }
            }
        }
    }

    /// Of the events that were sent, those that still count; they are part of the change `lsn`.
    pub(crate) fn decided(&self, id: EntryId, events: &[Event], lsn: Lsn) -> Vec<Event> {
        let mut shard = self.shard(id);
        let Some(pending) = shard.accounts.get_mut(&id) else { return events.to_vec() };
        pending.decided = Some(lsn);
        events.iter().copied().filter(|event| pending.counts(*event)).collect()
    }

    /// Of events of another node, those that still count.
    pub(crate) fn counted(&self, id: EntryId, events: &[Event]) -> Vec<Event> {
        let reset = self.shard(id).resets.get(&id).copied();
        events.iter().copied().filter(|event| reset.is_none_or(|reset| event.at > reset)).collect()
    }

    /// Whether all is written.
    pub(super) fn is_done(&self) -> bool {
        self.shards.iter().all(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.accounts.values().all(|one| one.is_written && one.sent == one.events.len())
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
    fn forget_sent(&mut self) -> Lsn {
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
    fn now(&self, pending: Option<&Pending>) -> Cow<'_, AccountState> {
        let Some(pending) = pending else { return Cow::Borrowed(self.stored) };
        let is_there = pending.decided.is_some_and(|decided| self.lsn >= decided);
        let unwritten = pending.events.iter().skip(if is_there { pending.sent } else { 0 });
        // They are there also where nobody knows whether they were written.
        let is_new = |event: &Event| !self.stored.failures.contains(&event.at);
        let events = unwritten.copied().filter(|event| pending.counts(*event) && is_new(event));
        Cow::Owned(replay(self.stored.clone(), events, self.policy))
    }
}

/// The state after these events.
pub(crate) fn replay(
    state: AccountState,
    events: impl Iterator<Item = Event>,
    policy: &PasswordPolicy,
) -> AccountState {
    events.fold(state, |state, Event { at, what, .. }| match what {
        What::Failure => state.after_failure(policy, at),
        // It was let in when it came, under the policy of then.
        What::Success => match state.after_success(policy, at) {
            Ok(login) => login.state,
            Err(_) => state,
        },
    })
}

/// The state after events that were noted here or at another node, at `now` of the node that
/// decides. What was noted already is not noted twice, and what a later success or a new password
/// clears is cleared, in whatever order they come.
pub(crate) fn merge(
    state: AccountState,
    events: impl Iterator<Item = Event>,
    policy: &PasswordPolicy,
    now: Timestamp,
) -> AccountState {
    // A time that is far ahead is that of a wrong clock, or was imported: it clears nothing.
    let near = later(now, NEAR);
    events.fold(state, |state, event| {
        let at = event.at;
        let clears = |moment: Option<Timestamp>| moment.filter(|moment| *moment <= near);
        let (success, changed) = (clears(state.last_success), clears(state.changed));
        if changed.is_some_and(|changed| at <= changed) {
            return state;
        }
        let is_before = success.is_some_and(|success| at <= success);
        let is_known = state.failures.contains(&at)
            || state.grace_uses.contains(&at)
            || event.what == What::Success && state.last_success == Some(at);
        match event.what {
            _ if is_known => state,
            What::Failure if is_before => state.after_use(policy),
            What::Failure | What::Success => {
                let last = state.last_success.filter(|_| is_before);
                let mut after = replay(state, std::iter::once(event), policy);
                after.last_success = last.or(after.last_success);
                after
            }
        }
    })
}

/// Whether a rule needs to know of wrong passwords.
fn counts_failures(policy: &PasswordPolicy) -> bool {
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

/// How far the clocks of nodes may be apart for the order of what they note: more than the 10
/// seconds that a node may be off and still lead.
const NEAR: Duration = Duration::from_secs(60);

/// Accounts in one change.
const ACCOUNTS_PER_WRITE: usize = 250;

/// Parts of the table that are locked alone.
const SHARDS: usize = 64;

/// Calls that wait to be heard. One that finds no room says nothing that the others do not.
const CALLS_MAX: usize = 64;

/// Into how many parts the time that an account may be idle is divided: so exactly the last bind is
/// known.
const IDLE_PARTS: u32 = 50;

/// How long a shutdown waits for the last write.
const FINISH_MAX: Duration = Duration::from_secs(5);
