//! What other nodes have told this one, which decides, of binds there. It waits until it is written
//! together with what binds left here: an account costs one change for all nodes.
//!
//! Invariant: every bind here sees it from the moment it was told.
//! Invariant: whoever told it remembers it, and is answered when all of it is written and visible,
//! or when it is given up: nothing is lost with this node or with its lead.
//! Invariant: so many accounts wait at most as `accounts_max` says; who finds no room tells again.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use environment::Timestamp;
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;
use schema::EntryId;
use store::Lsn;

use super::account_event::{AccountEvents, Event, What};
use super::pending::{Accounts, FoundAccount, Pending, Round, Shard, Signal, counts_failures};
use crate::request::outbox::{ForwardedReply, LostUpdate, refused};
use crate::request::refusal::Refusal;

/// What was told of one account.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What is to be written yet, and who waits for that.
    unsent: Vec<Event>,
    waiting: Vec<Arc<Telling>>,
    /// What is with the writer, or was written in this round, and who waits for that.
    sent: Vec<Event>,
    waiting_for_sent: Vec<Arc<Telling>>,
    /// The change with this number has those that were sent.
    decided: Option<Lsn>,
    /// The writer says so.
    is_written: bool,
    /// What is not sent is to be written at once.
    is_urgent: bool,
    /// Those up to here count no more.
    dead_through: Option<Timestamp>,
}

/// A request in which another node has told something. It is answered when nobody has it any more.
pub(crate) struct Telling {
    /// Accounts of which not everything is written.
    left: AtomicUsize,
    failed: Mutex<Option<NotWritten>>,
    reply: Mutex<Option<ForwardedReply>>,
}

/// Why something that was told is not written here.
#[derive(Clone, Debug)]
pub(crate) enum NotWritten {
    /// Another node decides.
    Lost(LostUpdate),
    /// It could not be written.
    Refused(Refusal),
}

impl Telling {
    /// A request about so many accounts.
    pub(crate) fn new(accounts: usize, reply: ForwardedReply) -> Arc<Self> {
        let (left, reply) = (AtomicUsize::new(accounts), Mutex::new(Some(reply)));
        Arc::new(Self { left, failed: Mutex::default(), reply })
    }

    /// Of one of the accounts nothing is to be written any more.
    pub(crate) fn is_done_with_one(&self) {
        self.left.fetch_sub(1, Ordering::AcqRel);
    }

    /// What was told of one of the accounts is not written here. Of several reasons the one holds
    /// that leaves most open.
    pub(crate) fn fail(&self, why: &NotWritten) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() || matches!(why, NotWritten::Lost(LostUpdate::Unknown)) {
            *failed = Some(why.clone());
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let failed = self.failed.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(reply) = self.reply.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        else {
            return;
        };
        let answer = |refusal| Ok(refused((MessageId(0), Some(OperationKind::Modify)), refusal));
        reply(match failed {
            Some(NotWritten::Lost(lost)) => Err(lost),
            Some(NotWritten::Refused(refusal)) => answer(refusal),
            None if *self.left.get_mut() > 0 => Err(LostUpdate::NotDeciding { leader: None }),
            None => answer(Refusal::new(ResultCode::Success, "")),
        });
    }
}

impl std::fmt::Debug for Telling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telling").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Accounts {
    /// Keeps room for so many accounts that another node tells of; whether there is any. Each of
    /// them is then told, or its room given back.
    pub(crate) fn admit_told(&self, accounts: usize) -> bool {
        let before = self.told_count.fetch_add(accounts, Ordering::Relaxed);
        let has_room = before.saturating_add(accounts) <= self.accounts_max;
        if !has_room {
            self.release_told(accounts);
        } else if before == 0 {
            let _ = self.calls.try_send(Signal::Soon);
        }
        has_room
    }

    /// Room that was kept for so many accounts is not needed.
    pub(crate) fn release_told(&self, accounts: usize) {
        self.told_count.fetch_sub(accounts, Ordering::Relaxed);
    }

    /// Another node tells of an account, for which room was kept. What locks it is written at once.
    pub(crate) fn tell(
        &self,
        account: &FoundAccount<'_>,
        told: &AccountEvents,
        telling: &Arc<Telling>,
        now: Timestamp,
    ) {
        let mut shard = self.shard(account.id);
        let may_lock = counts_failures(account.policy)
            && told.events.iter().any(|event| event.what == What::Failure);
        let before = may_lock.then(|| account.now(&shard, now).locked);
        if shard.told.contains_key(&account.id) {
            self.release_told(1);
        }
        shard.told.entry(account.id).or_default().push(&told.events, telling);
        let locks = before.is_some_and(|before| {
            let after = account.now(&shard, now).locked;
            after.is_some() && after != before
        });
        let Some(all) = shard.told.get_mut(&account.id) else { return };
        if (told.is_urgent || locks) && !all.unsent.is_empty() {
            all.is_urgent = true;
            let _ = self.calls.try_send(Signal::Now);
        }
    }

    /// What was told is looked at: this node may not decide any more.
    pub(super) fn look_at_told(&self) {
        if self.told_count.load(Ordering::Relaxed) > 0 {
            let _ = self.calls.try_send(Signal::Now);
        }
    }

    /// A write of what was told of these accounts is over.
    pub(super) fn told_written(&self, ids: &[EntryId], outcome: &Result<(), NotWritten>) {
        for id in ids {
            let mut shard = self.shard(*id);
            let Some(told) = shard.told.get_mut(id) else { continue };
            let waited = told.written(outcome.is_ok());
            let is_urgent = told.is_urgent;
            if told.is_empty() {
                shard.told.remove(id);
                self.release_told(1);
            }
            drop(shard);
            for telling in waited {
                match outcome {
                    Ok(()) => telling.is_done_with_one(),
                    Err(why) => telling.fail(why),
                }
            }
            if is_urgent {
                let _ = self.calls.try_send(Signal::Now);
            }
        }
    }

    /// Takes what was told in a part of the table and is to be written now, with what binds left
    /// here in the same accounts. Where another node decides, gives up what is not with the writer.
    pub(super) fn take_told(
        &self,
        shard: &mut Shard,
        round: Round,
        taken: &mut Vec<AccountEvents>,
    ) -> Vec<Arc<Telling>> {
        let mut given_up = Vec::new();
        let Shard { accounts, told, forgotten, .. } = shard;
        told.retain(|id, told| {
            let mut own = accounts.get_mut(id);
            let is_urgent = told.is_urgent || own.as_ref().is_some_and(|own| own.is_urgent);
            let forgets = round.forgets || is_urgent;
            if forgets && told.is_written {
                *forgotten = (*forgotten).max(told.forget_sent());
            }
            if round.hands_on {
                given_up.append(&mut told.give_up());
            } else if round.takes_all || is_urgent {
                if let Some(own) = &mut own {
                    if forgets && own.is_written {
                        *forgotten = (*forgotten).max(own.forget_sent());
                    }
                    own.drop_dead();
                }
                taken.extend(told.take_with(*id, own, round));
            }
            let is_kept = !told.is_empty();
            if !is_kept {
                self.release_told(1);
            }
            is_kept
        });
        given_up
    }
}

impl Told {
    /// Whether nothing is known that was told.
    fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.sent.is_empty()
    }

    /// Whether something is with the writer, or was written in this round.
    pub(super) fn is_taken(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whether everything is written.
    pub(super) fn is_done(&self) -> bool {
        self.unsent.is_empty() && (self.sent.is_empty() || self.is_written)
    }

    /// Whether something is to be written at once.
    pub(super) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Takes events that were not told before.
    fn push(&mut self, events: &[Event], telling: &Arc<Telling>) {
        let is_in = |all: &[Event], event: &Event| {
            all.iter().any(|known| (known.at, known.what) == (event.at, event.what))
        };
        for event in events {
            if !is_in(&self.sent, event) && !is_in(&self.unsent, event) {
                self.unsent.push(*event);
            }
        }
        if events.iter().any(|event| is_in(&self.unsent, event)) {
            self.waiting.push(Arc::clone(telling));
        } else if self.sent.is_empty() || self.is_written {
            telling.is_done_with_one();
        } else {
            self.waiting_for_sent.push(Arc::clone(telling));
        }
    }

    /// Takes what is to be written, with what binds left here, if nothing of the account is with
    /// the writer.
    fn take_with(
        &mut self,
        id: EntryId,
        own: Option<&mut Pending>,
        round: Round,
    ) -> Option<AccountEvents> {
        let is_busy = self.is_taken() || own.as_ref().is_some_and(|own| own.sent > 0);
        if is_busy || self.unsent.is_empty() {
            return None;
        }
        let events = own.and_then(|own| own.take(round)).unwrap_or_default();
        self.sent = mem::take(&mut self.unsent);
        self.waiting_for_sent = mem::take(&mut self.waiting);
        (self.decided, self.is_written, self.is_urgent) = (None, false, false);
        Some(AccountEvents { id, events, told: self.sent.clone(), is_urgent: false })
    }

    /// Gives up what is not with the writer; who waits for that.
    fn give_up(&mut self) -> Vec<Arc<Telling>> {
        self.unsent.clear();
        self.is_urgent = false;
        mem::take(&mut self.waiting)
    }

    /// A write is over; who waits for it. What could not be written is not here any more, with
    /// what came meanwhile, which may tell the same: it is told again.
    fn written(&mut self, is_done: bool) -> Vec<Arc<Telling>> {
        self.is_written = is_done;
        let mut waited = mem::take(&mut self.waiting_for_sent);
        if !is_done {
            self.forget_sent();
            waited.append(&mut self.give_up());
        }
        waited
    }

    /// The change that has what was sent; older views do not.
    fn forget_sent(&mut self) -> Lsn {
        self.sent.clear();
        self.is_written = false;
        self.decided.take().unwrap_or_default()
    }

    /// What was sent is part of this change; which of it counts.
    pub(super) fn decided<'t>(
        &mut self,
        told: &'t [Event],
        reset: Option<Timestamp>,
        lsn: Lsn,
    ) -> impl Iterator<Item = Event> + use<'t> {
        self.decided = Some(lsn);
        let dead = self.dead_through.max(reset);
        told.iter().copied().filter(move |event| dead.is_none_or(|dead| event.at > dead))
    }

    /// What a view of this point lacks.
    pub(super) fn unwritten(
        &self,
        lsn: Lsn,
        reset: Option<Timestamp>,
    ) -> impl Iterator<Item = Event> + '_ {
        let is_there = self.decided.is_some_and(|decided| lsn >= decided);
        let sent = if is_there { &[] } else { self.sent.as_slice() };
        let dead = self.dead_through.max(reset);
        let all = sent.iter().chain(&self.unsent).copied();
        all.filter(move |event| dead.is_none_or(|dead| event.at > dead))
    }

    /// What was told up to now counts no more.
    pub(super) fn forget(&mut self) {
        let last = self.sent.iter().chain(&self.unsent).map(|event| event.at).max();
        self.dead_through = self.dead_through.max(last);
    }

    /// What was decided after this change never comes.
    pub(super) fn drop_after(&mut self, last: Lsn) {
        self.decided = self.decided.filter(|decided| *decided <= last);
    }
}

#[cfg(test)]
mod tests;
