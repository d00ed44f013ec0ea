//! Storing a password anew after a bind proved it, when new ones are stored otherwise by now.
//!
//! Invariant: no bind waits for it. It is the server's own change: it says nothing about who
//! modified the entry and when, and is made only while the old value is still there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use auth::password::{PasswordStorage, Scheme};
use crossbeam_channel::{Receiver, Sender, bounded};
use environment::OsChance;
use ldap::dn::Dn;
use schema::{Change, DnKey};
use store::Resolved;
use zeroize::Zeroizing;

use crate::bind::simple::Candidate;
use crate::directory::Directory;
use crate::read::target;
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decide::{Decide, Decision, WriteOp};
use crate::write::queue::PendingWrite;
use crate::write::update;

/// A password to be stored anew.
struct Proved {
    key: DnKey,
    dn: Dn,
    old: Vec<u8>,
    clear: Zeroizing<Vec<u8>>,
    /// How it is to be stored.
    storage: PasswordStorage,
}

/// The change: one value takes the place of another.
pub(crate) struct Rehash {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// Where proved passwords wait for their thread.
pub(crate) struct Rehasher {
    queue: Sender<Proved>,
    /// What took the place of what not long ago: a request that found the password behind the old
    /// value, before, means the new one.
    replaced: Mutex<VecDeque<(Vec<u8>, Vec<u8>)>>,
}

impl Rehasher {
    /// Prepares the queue; its thread is started with [`Queue::start`].
    pub(crate) fn new() -> (Self, Queue) {
        let (queue, proved) = bounded(WAITING_MAX);
        (Self { queue, replaced: Mutex::default() }, Queue { proved })
    }

    fn note(&self, old: &[u8], new: &[u8]) {
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        if replaced.len() == REPLACED_MAX {
            replaced.pop_front();
        }
        replaced.push_back((old.to_vec(), new.to_vec()));
    }
}

/// The other end of the queue.
pub(crate) struct Queue {
    proved: Receiver<Proved>,
}

impl Queue {
    /// Starts the thread, which ends when the directory is dropped.
    pub(crate) fn start(self, directory: &Arc<Directory>) {
        let weak = Arc::downgrade(directory);
        let thread = thread::Builder::new().name("rehash".to_owned());
        if let Err(error) = thread.spawn(move || self.serve(&weak)) {
            tracing::warn!(%error, "passwords are not rehashed after a bind");
        }
    }

    fn serve(&self, directory: &Weak<Directory>) {
        // Of this thread alone. Where the system does not allow it, it runs like the others.
        let _ = rustix::process::setpriority_process(None, REHASH_NICE);
        while let Ok(proved) = self.proved.recv() {
            let Some(directory) = directory.upgrade() else { return };
            store(&directory, proved);
        }
    }
}

/// After a successful bind: if the password is not stored as a new one would be, it will be soon.
/// When many are waiting, the next bind does it.
pub(crate) fn after_bind(worker: &mut Worker, candidate: &Candidate, place: usize, clear: &[u8]) {
    let scheme = candidate.key.as_ref().and_then(|key| scheme(worker, key));
    let directory = &worker.directory;
    let options = &directory.credentials.passwords;
    let PasswordStorage { scheme: usual, costs } = options.storage;
    let storage = PasswordStorage { scheme: scheme.unwrap_or(usual), costs };
    let (Some(rehasher), Some(key)) = (&directory.credentials.rehasher, &candidate.key) else {
        return;
    };
    let (Some(old), Some(dn)) = (candidate.passwords.get(place), candidate.access.identity().dn())
    else {
        return;
    };
    if !options.rehash_on_bind || storage.is_current(old) || is_kept(old) {
        return;
    }
    let Ok(dn) = Dn::parse(dn.as_str()) else { return };
    let (key, old) = (key.clone(), old.clone());
    let clear = Zeroizing::new(clear.to_vec());
    let _ = rehasher.queue.try_send(Proved { key, dn, old, clear, storage });
}

/// In which scheme the policy of an account wants its passwords, if in any.
fn scheme(worker: &mut Worker, key: &DnKey) -> Option<Scheme> {
    let policies = worker.directory.rules.password_policies.load_full();
    if policies.is_empty() || !worker.directory.credentials.passwords.rehash_on_bind {
        return None;
    }
    let view = worker.snapshot.view().ok()?;
    let Resolved::Found(id) = view.resolve(key).ok()? else { return None };
    policies.of(&view.entry(id).ok()??, key)?.policy.scheme
}

/// The value that is stored now of one that was found when a request was resolved: itself, or what
/// it was stored anew as since.
pub(crate) fn stored_now(
    directory: &Directory,
    stored: &[Vec<u8>],
    found: &[u8],
) -> Option<Vec<u8>> {
    if stored.iter().any(|one| one == found) {
        return Some(found.to_vec());
    }
    let replaced = &directory.credentials.rehasher.as_ref()?.replaced;
    let replaced = replaced.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, new) = replaced.iter().rev().find(|(old, _)| old == found)?;
    stored.contains(new).then(|| new.clone())
}

/// Keys of SCRAM stay: another form would end the binds that use them.
fn is_kept(stored: &[u8]) -> bool {
    stored.get(..SCRAM.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCRAM))
}

/// Hashes the password, and hands the change to the writer.
fn store(directory: &Arc<Directory>, proved: Proved) {
    let Proved { key, dn, old, clear, storage } = proved;
    let Some(new) = storage.hash(&clear, &mut OsChance) else { return };
    drop(clear);
    let op = WriteOp::Rehash(Rehash { key, dn, old, new });
    let write = PendingWrite::of_server(directory, op, false);
    // Nobody waits. If it is refused, the next bind tries again.
    write.submit(Box::new(|_| {}));
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &Rehash) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    let entry = target::stored(decide.view, id)?;
    let before = entry.to_entry()?;
    let schema = &decide.state.schema;
    let known = schema.well_known();
    let stored = before.values(&known.user_password);
    if !stored.contains(&op.old) {
        return Ok(Decision::default());
    }
    let values = stored.iter().map(|one| if *one == op.old { &op.new } else { one });
    let values = values.cloned().collect();
    let mut after = before.clone();
    after.replace_values(schema, &known.user_password, values)?;
    let kept = [&known.modifiers_name, &known.modify_timestamp].map(Arc::clone);
    update::stamp_modified(&mut after, schema, &decide.stamp, &kept)?;
    if let Some(rehasher) = &decide.directory.credentials.rehasher {
        rehasher.note(&op.old, &op.new);
    }
    let change = Change::Modify(update::modify_change(id, &before, &after));
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&entry),
        onto: None,
        after: &after,
        passwords: Passwords::OfServer,
    };
    Ok(Decision::change(checks::permit(decide, &checked, change)?))
}

/// What the names of SCRAM's schemes begin with.
const SCRAM: &[u8] = b"{SCRAM-";

/// Replaced values that are remembered; a request is resolved and decided in less than a second.
const REPLACED_MAX: usize = 1_000;

/// Passwords that wait to be hashed.
const WAITING_MAX: usize = 1_000;

/// Behind everything that somebody waits for.
const REHASH_NICE: i32 = 15;
