//! The thread that writes what binds have left in accounts, in batches.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, after, never, select};
use ldap::result::ResultCode;
use schema::EntryId;

use super::account_event::AccountEvents;
use super::pending::{Call, Writer};
use crate::directory::Directory;
use crate::write::queue::PendingWrite;
use crate::write::request::WriteOp;

impl Writer {
    /// Starts the thread, which ends when the directory is dropped.
    pub(crate) fn start(self, directory: &Arc<Directory>) {
        let weak = Arc::downgrade(directory);
        let thread = thread::Builder::new().name("accounts".to_owned());
        thread
            .spawn(move || self.serve(&weak))
            .expect("a process that starts can start one more thread");
    }

    fn serve(&self, directory: &Weak<Directory>) {
        let mut alarm = never();
        let mut is_armed = false;
        // Until this is dropped somebody waits for it.
        let mut finishing: Option<Sender<()>> = None;
        let mut looks = 0;
        loop {
            let forgets = select! {
                recv(self.heard) -> call => match call {
                    Err(_) => return,
                    Ok(Call::Soon) if is_armed => continue,
                    Ok(Call::Soon) => {
                        (alarm, is_armed) = (after(self.delay), true);
                        continue;
                    }
                    Ok(Call::Now) => false,
                    Ok(Call::Finish(done)) => {
                        (finishing, looks) = (Some(done), 0);
                        false
                    }
                },
                recv(alarm) -> _ => {
                    (alarm, is_armed) = (never(), false);
                    true
                }
            };
            let Some(directory) = directory.upgrade() else { return };
            for accounts in directory.accounts.take(forgets) {
                write(&directory, accounts);
            }
            if finishing.is_some() {
                looks += 1;
                if directory.accounts.is_done() || looks > FINISH_LOOKS_MAX {
                    finishing = None;
                } else {
                    (alarm, is_armed) = (after(FINISH_LOOK), true);
                }
            } else if !is_armed && !directory.accounts.is_idle() {
                (alarm, is_armed) = (after(self.delay), true);
            }
        }
    }
}

/// Hands events to the writer of the directory.
fn write(directory: &Arc<Directory>, accounts: Vec<AccountEvents>) {
    let ids: Vec<EntryId> = accounts.iter().map(|account| account.id).collect();
    let op = WriteOp::AccountEvents(accounts);
    let write = PendingWrite::of_server(&directory.queue, &directory.root.dn, op, true);
    let weak = Arc::downgrade(directory);
    write.submit(Box::new(move |done| {
        if let Some(directory) = weak.upgrade() {
            let is_success = done.completion.code == Some(ResultCode::Success);
            directory.accounts.written(&ids, is_success);
        }
    }));
}

/// How often a shutdown looks whether the last write is over.
const FINISH_LOOK: Duration = Duration::from_millis(2);
const FINISH_LOOKS_MAX: u32 = 2_500;
