//! The thread that writes what binds have left in accounts, in batches.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, after, never, select};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::EntryId;

use super::account_event::AccountEvents;
use super::pending::{AccountWriter, Accounts, Signal};
use crate::write::queue::{PendingWrite, WriteQueue};
use crate::write::request::{SentEvents, WriteOp};

impl AccountWriter {
    /// Starts the thread, which ends when the accounts are dropped. Its changes go into `writes`,
    /// as those of the administrator `root`. It keeps neither alive: in a cluster what writes holds
    /// the log, and that what the log is applied to, which holds the accounts.
    pub(crate) fn start(self, accounts: &Arc<Accounts>, writes: &Arc<WriteQueue>, root: Dn) {
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
            let forgets = select! {
                recv(self.heard) -> call => match call {
                    Err(_) => return,
                    Ok(Signal::Soon) if is_armed => continue,
                    Ok(Signal::Soon) => {
                        (alarm, is_armed) = (after(self.delay), true);
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
            for events in accounts.take(forgets) {
                write(&accounts, &writes, root, events);
            }
            if finishing.is_some() {
                looks += 1;
                if accounts.is_done() || looks > FINISH_LOOKS_MAX {
                    finishing = None;
                } else {
                    (alarm, is_armed) = (after(FINISH_LOOK), true);
                }
            } else if !is_armed && !accounts.is_idle() {
                (alarm, is_armed) = (after(self.delay), true);
            }
        }
    }
}

/// Hands events to the writer of the directory.
fn write(
    accounts: &Arc<Accounts>,
    writes: &Arc<WriteQueue>,
    root: &Dn,
    events: Vec<AccountEvents>,
) {
    let ids: Vec<EntryId> = events.iter().map(|account| account.id).collect();
    let op = WriteOp::AccountEvents(SentEvents { accounts: events, is_elsewhere: false });
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

/// How often a shutdown looks whether the last write is over.
const FINISH_LOOK: Duration = Duration::from_millis(2);
const FINISH_LOOKS_MAX: u32 = 2_500;
