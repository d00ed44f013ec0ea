//! The thread that writes what binds have left in accounts, in batches.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, after, never, select};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::EntryId;

use super::account_event::{AccountEvents, Event};
use super::pending::{AccountWriter, Accounts, Round, Signal};
use super::told::NotWritten;
use crate::request::refusal::Refusal;
use crate::write::queue::{PendingWrite, WriteQueue};
use crate::write::request::WriteOp;

impl AccountWriter {
    /// Starts the thread, which ends when the accounts are dropped. Its changes go into `writes`,
    /// as those of the administrator `root`. It keeps neither alive: in a cluster what writes holds
    /// the log, and that what the log is applied to, which holds the accounts.
    pub(crate) fn start(self, accounts: &Arc<Accounts>, writes: &Arc<WriteQueue>, root: Dn) {
        if let Some(forwarding) = writes.forwarding() {
            let accounts = Arc::downgrade(accounts);
            forwarding.watch(Box::new(move |_| {
                if let Some(accounts) = accounts.upgrade() {
                    accounts.look_at_told();
                }
            }));
        }
        let (weak, writes) = (Arc::downgrade(accounts), Arc::downgrade(writes));
        let thread = thread::Builder::new().name("accounts".to_owned());
        thread
            .spawn(move || self.serve(&weak, &writes, &root))
            .expect("a process that starts can start one more thread");
    }

    fn serve(&self, accounts: &Weak<Accounts>, writes: &Weak<WriteQueue>, root: &Dn) {
        let mut alarm = never();
        let mut is_armed = false;
        // Until this is dropped somebody waits for it.
        let mut finishing: Option<Sender<()>> = None;
        let mut looks = 0;
        loop {
            let is_alarm = select! {
                recv(self.heard) -> call => match call {
                    Err(_) => return,
                    Ok(Signal::Soon) if is_armed => continue,
                    Ok(Signal::Soon) => {
                        let Some(writes) = writes.upgrade() else { return };
                        (alarm, is_armed) = (after(self.delay(&writes)), true);
                        continue;
                    }
                    Ok(Signal::Now) => false,
                    Ok(Signal::Finish(done)) => {
                        (finishing, looks) = (Some(done), 0);
                        false
                    }
                },
                recv(alarm) -> _ => {
                    (alarm, is_armed) = (never(), false);
                    true
                }
            };
            let both = accounts.upgrade().zip(writes.upgrade());
            let Some((accounts, writes)) = both else { return };
            let is_last = finishing.is_some();
            let round = Round {
                forgets: is_alarm,
                takes_all: is_alarm || is_last,
                is_last,
                hands_on: hands_on(&writes),
            };
            for events in accounts.take(round) {
                write(&accounts, &writes, root, events);
            }
            if is_last {
                looks += 1;
                if accounts.is_done() || looks > FINISH_LOOKS_MAX {
                    finishing = None;
                } else {
                    (alarm, is_armed) = (after(FINISH_LOOK), true);
                }
            } else if !is_armed && !accounts.is_idle() {
                (alarm, is_armed) = (after(self.delay(&writes)), true);
            }
        }
    }

    /// How long events wait. Where another node decides, it has them wait for those of others.
    fn delay(&self, writes: &WriteQueue) -> Duration {
        if hands_on(writes) { self.delay / HAND_ON_PARTS } else { self.delay }
    }
}

/// Whether another node decides.
fn hands_on(writes: &WriteQueue) -> bool {
    writes.forwarding().is_some_and(|forwarding| forwarding.hands_on())
}

/// Hands events to the writer of the directory.
fn write(
    accounts: &Arc<Accounts>,
    writes: &Arc<WriteQueue>,
    root: &Dn,
    events: Vec<AccountEvents>,
) {
    if events.iter().any(|account| !account.told.is_empty()) {
        return write_with_told(accounts, writes, root, events);
    }
    let ids: Vec<EntryId> = events.iter().map(|account| account.id).collect();
    let op = WriteOp::AccountEvents(events);
    let write = PendingWrite::of_server(writes, root, op, true);
    let (weak, forwarding) = (Arc::downgrade(accounts), writes.forwarding().cloned());
    write.submit(Box::new(move |done| {
        if let Some(accounts) = weak.upgrade() {
            let is_done = done.completion.code == Some(ResultCode::Success);
            let last = forwarding.map(|forwarding| forwarding.applied());
            accounts.written(&ids, is_done, last);
        }
    }));
}

/// Hands events to the writer of which other nodes have told some. Where this node does not decide
/// after all, each node hands on its own.
fn write_with_told(
    accounts: &Arc<Accounts>,
    writes: &Arc<WriteQueue>,
    root: &Dn,
    events: Vec<AccountEvents>,
) {
    let ids_of = |events_of: fn(&AccountEvents) -> &Vec<Event>| -> Vec<EntryId> {
        let have_any = events.iter().filter(|account| !events_of(account).is_empty());
        have_any.map(|account| account.id).collect()
    };
    let (own, told) = (ids_of(|account| &account.events), ids_of(|account| &account.told));
    let write = PendingWrite::of_several_servers(writes, root, WriteOp::AccountEvents(events));
    let (weak, forwarding) = (Arc::downgrade(accounts), writes.forwarding().cloned());
    write.submit_here(Box::new(move |outcome| {
        let Some(accounts) = weak.upgrade() else { return };
        let outcome = match outcome {
            Err(lost) => Err(NotWritten::Lost(lost)),
            Ok(done) => match done.completion.code {
                Some(ResultCode::Success) => Ok(()),
                code => Err(NotWritten::Refused(Refusal::new(
                    code.unwrap_or(ResultCode::Other),
                    done.completion.diagnostic,
                ))),
            },
        };
        let last = forwarding.map(|forwarding| forwarding.applied());
        accounts.written(&own, outcome.is_ok(), last);
        accounts.told_written(&told, &outcome);
        if matches!(outcome, Err(NotWritten::Lost(_))) {
            // There may be a lock among it.
            accounts.hurry(&own);
        }
    }));
}

/// How often what binds leave is handed to the node that decides while that lets them wait once.
const HAND_ON_PARTS: u32 = 4;

/// How often a shutdown looks whether the last write is over.
const FINISH_LOOK: Duration = Duration::from_millis(2);
const FINISH_LOOKS_MAX: u32 = 2_500;
