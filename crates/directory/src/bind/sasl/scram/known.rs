//! For which hashes SCRAM can succeed: it is offered for those, and for no others, because clients
//! take it before anything else and then ask for a password that cannot be proved by it.
//!
//! Invariant: a question costs two loads. What is known comes from the settings and policies, from
//! the entries, and from the keys that are written and used since.
//! Invariant: every entry is looked at after a start, the first ones before it is over, the others
//! beside the clients: what a start takes does not depend on how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use schema::{Change, EntryId, Schema};
use store::{Store, StoreError, View};

use auth::password;
use auth::scram::{ScramHash, ScramKeys};

/// Hashes of which some account has keys, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    sha256: AtomicBool,
    sha512: AtomicBool,
}

impl KnownKeys {
    /// Looks at the password of the administrator, at the first entries, and, as long as what is
    /// returned lives, at the others.
    pub(crate) fn of(
        store: &Arc<Store>,
        root_password: &[u8],
    ) -> Result<(Arc<Self>, KeySearch), StoreError> {
        let known = Arc::new(Self::default());
        known.note(root_password);
        let schema = store.schema();
        let last = known.look_at(store.reader().view()?, &schema, EntryId::ROOT)?;
        let search = KeySearch::after(last, store, &known);
        Ok((known, search))
    }

    /// Looks at all entries anew, as long as what is returned lives: another state took the place
    /// of the one that was looked at.
    pub(crate) fn search_all(self: &Arc<Self>, store: &Arc<Store>) -> KeySearch {
        KeySearch::after(Some(EntryId::ROOT), store, self)
    }

    /// Looks at the next entries; returns the last of them, none where there are no more.
    fn look_at(
        &self,
        view: &View<'_>,
        schema: &Schema,
        after: EntryId,
    ) -> Result<Option<EntryId>, StoreError> {
        let types = schema.well_known();
        let (mut count, mut last) = (0, after);
        for entry in view.entries_after(after)?.take(LOOKED_AT_ONCE) {
            let entry = entry?;
            (count, last) = (count + 1, entry.id());
            for description in [&types.user_password, &types.auth_password] {
                for stored in password::stored_in(&entry, description) {
                    self.note(&stored);
                }
            }
        }
        Ok((count == LOOKED_AT_ONCE).then_some(last))
    }

    /// Whether no entry can tell anything new.
    fn is_all(&self) -> bool {
        [&self.sha256, &self.sha512].iter().all(|flag| flag.load(Ordering::Relaxed))
    }

    /// Whether some account has keys for `hash`.
    pub(crate) fn has(&self, hash: ScramHash) -> bool {
        self.flag(hash).is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// This is stored in an account.
    pub(crate) fn note(&self, stored: &[u8]) {
        let may_be = stored.strip_prefix(b"{").unwrap_or(stored).get(..NAMES.len());
        if may_be.is_some_and(|name| name.eq_ignore_ascii_case(NAMES))
            && let Some(keys) = ScramKeys::parse(stored)
            && let Some(flag) = self.flag(keys.hash)
        {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// These changes are decided.
    pub(crate) fn heed<'c>(&self, changes: impl IntoIterator<Item = &'c Change>) {
        for change in changes {
            match change {
                Change::Add(add) => {
                    let passwords = add.entry.attributes().iter();
                    let passwords = passwords.filter(|one| one.description.is_password());
                    passwords.flat_map(|one| &one.values).for_each(|stored| self.note(stored));
                }
                Change::Modify(modify) => {
                    let passwords =
                        modify.deltas.iter().filter(|one| one.description.is_password());
                    passwords.flat_map(|one| &one.added).for_each(|stored| self.note(stored));
                }
                _ => {}
            }
        }
    }

    fn flag(&self, hash: ScramHash) -> Option<&AtomicBool> {
        match hash {
            ScramHash::Sha1 => None,
            ScramHash::Sha256 => Some(&self.sha256),
            ScramHash::Sha512 => Some(&self.sha512),
        }
    }
}

/// A thread that looks at all entries, slowly. It ends when this is dropped.
pub(crate) struct KeySearch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl KeySearch {
    /// None is needed where there are no entries to look at.
    fn after(last: Option<EntryId>, store: &Arc<Store>, known: &Arc<KnownKeys>) -> Self {
        let Some(last) = last.filter(|_| !known.is_all()) else {
            return Self { stop: None, thread: None };
        };
        let (stop, stopped) = bounded(0);
        let (store, known) = (Arc::clone(store), Arc::clone(known));
        let builder = thread::Builder::new().name("scram-keys".to_owned());
        let thread = builder.spawn(move || look_at_all(&store, &known, last, &stopped));
        let thread = thread.inspect_err(|error| {
            tracing::warn!(%error, "SCRAM may not be offered even if accounts have keys for it");
        });
        Self { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for KeySearch {
    fn drop(&mut self) {
        // The thread hears that nobody can send any more. Its database is closed when it has ended.
        self.stop = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the search for SCRAM keys panicked");
        }
    }
}

fn look_at_all(store: &Arc<Store>, known: &KnownKeys, last: EntryId, stopped: &Receiver<()>) {
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut next = Some(last);
    while let Some(last) = next.filter(|_| !known.is_all()) {
        if stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        // A view of its own each time: an old one would keep the database from using its space.
        let found = store.reader().view().and_then(|view| {
            let schema = store.schema();
            known.look_at(view, &schema, last)
        });
        next = found.unwrap_or_else(|error| {
            tracing::error!(%error, "not all entries could be searched for SCRAM keys");
            None
        });
    }
}

/// What the names of all schemes with keys begin with.
const NAMES: &[u8] = b"SCRAM-SHA-";

/// Entries that are looked at together: a few milliseconds.
const LOOKED_AT_ONCE: usize = 1_000;

/// Between them: a million entries take half a minute, and a tenth of a processor.
const PAUSE: Duration = Duration::from_millis(25);

/// How much it steps back behind all others.
const NICE: i32 = 10;
