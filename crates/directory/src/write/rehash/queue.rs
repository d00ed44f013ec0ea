//! Passwords that wait to be hashed anew, and what took the place of which not long ago.
//!
//! Invariant: no bind waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use auth::password::PasswordStorage;
use crossbeam_channel::{Receiver, Sender, bounded};
use environment::{Chance, MakeChance};
use ldap::dn::Dn;
use schema::DnKey;
use zeroize::Zeroizing;

use crate::write::queue::{PendingWrite, WriteQueue};
use crate::write::request::{Rehash, WriteOp};

/// A password to be stored anew.
pub(crate) struct ProvedPassword {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    pub(crate) old: Vec<u8>,
    pub(crate) clear: Zeroizing<Vec<u8>>,
    /// How it is to be stored.
    pub(crate) storage: PasswordStorage,
}

/// Where proved passwords wait for their thread.
pub(crate) struct Rehasher {
    queue: Sender<ProvedPassword>,
    /// What took the place of what not long ago: a request that found the password behind the old
    /// value, before, means the new one.
    replaced: Mutex<VecDeque<(Vec<u8>, Vec<u8>)>>,
}

impl Rehasher {
    /// Prepares the queue; its thread is started with [`ProvedPasswords::start`].
    pub(crate) fn new(chance: MakeChance) -> (Self, ProvedPasswords) {
        let (queue, proved) = bounded(WAITING_MAX);
        (Self { queue, replaced: Mutex::default() }, ProvedPasswords { proved, chance })
    }

    /// Puts a password into the queue. When many are waiting it is left out: the next bind does it.
    pub(crate) fn offer(&self, proved: ProvedPassword) {
        let _ = self.queue.try_send(proved);
    }

    /// Notes which value takes the place of which.
    pub(crate) fn note(&self, old: &[u8], new: &[u8]) {
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        if replaced.len() == REPLACED_MAX {
            replaced.pop_front();
        }
        replaced.push_back((old.to_vec(), new.to_vec()));
    }
}

/// The value that is stored now of one that was found when a request was resolved: itself, or what
/// it was stored anew as since.
pub(crate) fn current_form(
    rehasher: Option<&Rehasher>,
    stored: &[Vec<u8>],
    found: &[u8],
) -> Option<Vec<u8>> {
    if stored.iter().any(|one| one == found) {
        return Some(found.to_vec());
    }
    let replaced = rehasher?.replaced.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, new) = replaced.iter().rev().find(|(old, _)| old == found)?;
    stored.contains(new).then(|| new.clone())
}

/// The other end of the queue.
pub(crate) struct ProvedPasswords {
    proved: Receiver<ProvedPassword>,
    chance: MakeChance,
}

impl ProvedPasswords {
    /// Starts the thread, which ends when the directory is dropped. Its changes go into `writes`,
    /// as those of the administrator `root`.
    pub(crate) fn start(self, writes: &Arc<WriteQueue>, root: Dn) {
        let weak = Arc::downgrade(writes);
        let thread = thread::Builder::new().name("rehash".to_owned());
        if let Err(error) = thread.spawn(move || self.serve(&weak, &root)) {
            tracing::warn!(%error, "passwords are not rehashed after a bind");
        }
    }

    fn serve(&self, writes: &Weak<WriteQueue>, root: &Dn) {
        // Of this thread alone. Where the system does not allow it, it runs like the others.
        let _ = rustix::process::setpriority_process(None, REHASH_NICE);
        let mut chance = (self.chance)();
        while let Ok(proved) = self.proved.recv() {
            let Some(writes) = writes.upgrade() else { return };
            store(&writes, root, proved, &mut *chance);
        }
    }
}

/// Hashes the password, and hands the change to the writer.
fn store(writes: &Arc<WriteQueue>, root: &Dn, proved: ProvedPassword, chance: &mut dyn Chance) {
    let ProvedPassword { key, dn, old, clear, storage } = proved;
    let Some(new) = storage.hash(&clear, chance) else { return };
    drop(clear);
    let op = WriteOp::Rehash(Rehash { key, dn, old, new });
    let write = PendingWrite::of_server(writes, root, op, false);
    // Nobody waits. If it is refused, the next bind tries again.
    write.submit(Box::new(|_| {}));
}

/// Replaced values that are remembered; a request is resolved and decided in less than a second.
const REPLACED_MAX: usize = 1_000;

/// Passwords that wait to be hashed.
const WAITING_MAX: usize = 1_000;

/// Behind everything that somebody waits for.
const REHASH_NICE: i32 = 15;
