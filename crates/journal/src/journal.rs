//! The journal itself: what the rest of the server calls.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};

use crate::files::Files;
use crate::format::BLOCK_BYTES;
use crate::log::Log;
use crate::recover::{Loaded, Reach, load};
use crate::scan::segment_sequence;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::writer::{Ahead, Command, Control, Tail, Writer};
use crate::{
    Appended, Disk, Durability, Entries, JournalError, JournalOptions, JournalPosition, Lock,
    LockKind, OpenReport, VOTE_MAX_BYTES, VerifyReport,
};

/// The file whose lock keeps a second process from writing.
const LOCK_FILE: &str = "lock";

/// Called once with the outcome of an append, on the journal's thread, in the order of appends.
///
/// It must not wait: every append behind it does.
pub type Done = Box<dyn FnOnce(Result<JournalPosition, JournalError>) + Send>;

/// An append-only log of entries in segment files.
///
/// Shared between threads. One thread of its own writes and syncs; it ends with [`Journal::close`]
/// or when the journal is dropped.
pub struct Journal {
    shared: Arc<Shared>,
    /// `None` once it is closed.
    running: Mutex<Option<Running>>,
}

/// What ends when the journal is closed.
struct Running {
    commands: Sender<Command>,
    threads: Vec<JoinHandle<()>>,
}

/// How the journal is doing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JournalStatus {
    /// The first index that can be read.
    pub first: u64,
    /// The last entry written.
    pub last: Option<JournalPosition>,
    /// The last entry synced.
    pub durable: Option<JournalPosition>,
    /// Entries up to here are not needed for recovery.
    pub purged: Option<JournalPosition>,
    /// The last committed place saved.
    pub committed: Option<JournalPosition>,
    /// Bytes the segments occupy, used or reserved.
    pub bytes: u64,
    /// Segments that hold entries.
    pub segments: u64,
    /// Groups written since the journal was opened.
    pub groups: u64,
    /// Entries appended since the journal was opened.
    pub appended: u64,
    /// Syncs since the journal was opened.
    pub syncs: u64,
    /// How long they took together, in µs.
    pub sync_us: u64,
    /// How long the longest took, in µs.
    pub longest_sync_us: u64,
    /// Bytes written since the journal was opened.
    pub written_bytes: u64,
    /// Whether the last append failed for want of space, or something waits for it.
    pub is_full: bool,
    /// Why no more is appended, if so.
    pub is_poisoned: Option<String>,
}

impl JournalStatus {
    /// The index up to which every entry is synced here, or not needed any more; 0 = none.
    pub fn kept_index(&self) -> u64 {
        let ends = [self.durable, self.purged].into_iter().flatten().map(|end| end.index);
        ends.max().unwrap_or(0)
    }
}

impl Journal {
    /// Makes a journal in an empty directory; `first` will be the index of its first entry.
    pub fn create(
        disk: Arc<dyn Disk>,
        options: JournalOptions,
        first: u64,
    ) -> Result<Self, JournalError> {
        let lock = lock(&*disk)?;
        match load(&*disk, options.id, Reach::Needed, &mut |_, _| ()) {
            // Segments without a single group are of a creation that did not come to its end.
            Err(JournalError::Missing) => {}
            Ok(_) | Err(_) => return Err(JournalError::NotEmpty),
        }
        let names = disk.list().map_err(|error| JournalError::io("listing", &error))?;
        let leftovers: Vec<String> =
            names.into_iter().filter(|name| segment_sequence(name).is_some()).collect();
        let files = Files::new(disk, options);
        files.clean(&leftovers)?;
        let opened = files.prepare(1, 0)?;
        let tail = TailStart { end: BLOCK_BYTES, previous: opened.chain, opening: 1 };
        let segment = Arc::new(Segment::new(opened, first, Some(Vec::new())));
        let shared = Shared::new(files, Log::new(first, 1), vec![segment]);
        Self::start(shared, tail, false, None, lock, |writer| writer.mark_beginning())
    }

    /// Opens a journal: cuts a torn tail (and reports it), refuses other damage.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: JournalOptions,
    ) -> Result<(Self, OpenReport), JournalError> {
        let lock = lock(&*disk)?;
        forget(&*disk)?;
        let loaded = load(&*disk, options.id, Reach::Needed, &mut |_, _| ())?;
        let Loaded { log, segments, mut prepared, mut leftovers, tail, torn, .. } = loaded;
        leftovers.extend(prepared.drain(1.min(prepared.len())..).map(|opened| opened.name));
        // What was written and not synced before the process ended is readable: now it lasts. Not
        // before that are files removed, of which only this may say that they are of no use.
        if let Some(active) = segments.last() {
            let name = &active.opened.name;
            active.opened.file.sync().map_err(|error| JournalError::io(name, &error))?;
        }
        let files = Files::new(disk, options);
        files.clean(&leftovers)?;
        let last = log.last.map_or(log.next, |last| last.index + 1);
        let report = OpenReport {
            entries: last.saturating_sub(log.needed()),
            torn,
            checked_bytes: loaded.checked.bytes,
            damaged_history: loaded.damaged_history,
        };
        let opening = (tail.stamp >> 32) + 1;
        let start = TailStart { end: tail.end, previous: tail.previous, opening };
        let mut shared = Shared::new(files, log, segments);
        shared.forget_runs();
        let cut = report.torn.as_ref().map(|torn| torn.bytes);
        let journal =
            Self::start(shared, start, tail.is_sealed, prepared.pop(), lock, |writer| match cut {
                Some(bytes) => writer.cut(bytes),
                None => Ok(()),
            })?;
        Ok((journal, report))
    }

    /// Starts the threads; `first` is done before anything else.
    fn start(
        shared: Shared,
        tail: TailStart,
        is_sealed: bool,
        ready: Option<crate::scan::Opened>,
        lock: Lock,
        first: impl FnOnce(&mut Writer) -> Result<(), JournalError>,
    ) -> Result<Self, JournalError> {
        let shared = Arc::new(shared);
        let (commands, received) = unbounded();
        let (wanted, asked) = unbounded();
        let (made, taken) = bounded(1);
        let segment =
            shared.state().segments.last().map(Arc::clone).ok_or(JournalError::Missing)?;
        let TailStart { end, previous, opening } = tail;
        let stamp = opening << 32;
        let tail = Tail { segment, end, durable: end, previous, stamp, is_sealed };
        let ahead = Ahead { wanted, made: taken, ready, is_asked: false };
        let mut writer = Writer::new(Arc::clone(&shared), received, ahead, tail);
        let makes = Arc::clone(&shared);
        let maker = move || {
            for (sequence, bytes) in asked {
                if made.send(makes.files.prepare(sequence, bytes)).is_err() {
                    return;
                }
            }
        };
        let spawned = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
            thread.map_err(|error| JournalError::io("starting a thread", &error))
        };
        let maker = spawned("journal-files", Box::new(maker))?;
        first(&mut writer)?;
        let write = move || {
            writer.run();
            // Not before the last write.
            drop(lock);
        };
        let threads = vec![spawned("journal", Box::new(write))?, maker];
        let running = Running { commands, threads };
        Ok(Self { shared, running: Mutex::new(Some(running)) })
    }

    /// The first index that can be read (or will be, if there is none yet).
    pub fn first(&self) -> u64 {
        self.shared.status().first
    }

    /// The last entry written.
    pub fn last(&self) -> Option<JournalPosition> {
        self.shared.state().log.last
    }

    /// The last entry synced.
    pub fn durable(&self) -> Option<JournalPosition> {
        self.shared.state().durable
    }

    /// Appends entries, all or none, and returns at once; `done` learns the outcome.
    ///
    /// Appends that wait are written together and made durable with one sync. After a failed
    /// write or sync this and every later append fails with `Poisoned`, and whether the entries
    /// are in the journal is not known. After any other error nothing of the append is there;
    /// later appends that build on it fail with `OutOfOrder`. No entries at all, `Synced`, is a
    /// barrier: done when everything before is durable.
    pub fn append(&self, entries: Vec<Appended>, durability: Durability, done: Done) {
        let command = Command::Append { entries, durability, done };
        if let Err(Command::Append { done, .. }) = self.send(command) {
            done(Err(JournalError::Closed));
        }
    }

    /// Appends entries and waits for the outcome.
    pub fn append_wait(
        &self,
        entries: Vec<Appended>,
        durability: Durability,
    ) -> Result<JournalPosition, JournalError> {
        let (answer, outcome) = bounded(1);
        let done = move |place| {
            // The receiver waits below.
            let _ = answer.send(place);
        };
        self.append(entries, durability, Box::new(done));
        outcome.recv().unwrap_or(Err(JournalError::Closed))
    }

    /// Reads from index `from` up to what is written now.
    pub fn read(&self, from: u64) -> Result<Entries, JournalError> {
        // A copy of the list, so that looking through a segment holds nobody up.
        let (log, segments) = {
            let state = self.shared.state();
            (state.log.clone(), state.segments.clone())
        };
        Entries::new(&log, &segments, from)
    }

    /// Voids the entries behind `after`, durably; others take their indexes.
    ///
    /// `after` is an entry, or the index before the first; what is purged cannot be voided. Where
    /// nothing is behind `after`, nothing is done: what was only written before is not synced.
    pub fn truncate_suffix(&self, after: u64) -> Result<(), JournalError> {
        let (log, first) = {
            let state = self.shared.state();
            (state.log.clone(), crate::segment::first_readable(&state.log, &state.segments))
        };
        let what = "a truncation";
        let low = log.needed().saturating_sub(1);
        let high = log.next.saturating_sub(1);
        if after < low || after > high {
            return Err(JournalError::OutOfRange { what, index: after, low, high });
        }
        if after == high {
            return Ok(());
        }
        let place = match log.purged.filter(|purged| purged.index == after) {
            None if after >= first => Some(self.place(after)?),
            purged => purged,
        };
        let is_entry = place.is_some();
        let place = place.unwrap_or(JournalPosition { term: 0, index: after });
        self.control(Control::Truncate(place, is_entry))
    }

    /// The last index before the newest segments that take `bytes` together, or more by one
    /// segment; 0 if all take less. A purge up to there leaves so much to those who read behind. Of
    /// no bytes it is the last index.
    pub fn before_newest(&self, bytes: u64) -> u64 {
        self.shared.before_newest(bytes)
    }

    /// Says that entries up to `upto` are not needed for recovery any more.
    ///
    /// They stay readable until more than `keep_bytes` of them are kept; then whole segments are
    /// reused or removed, oldest first. None is while somebody holds the journal
    /// (see [`copy::hold`](crate::copy::hold)); the next purge makes up for it.
    pub fn purge(&self, upto: u64) -> Result<(), JournalError> {
        let (needed, last, next) = {
            let state = self.shared.state();
            (state.log.needed(), state.log.last, state.log.next)
        };
        if upto >= next {
            let (what, high) = ("a purge", next.saturating_sub(1));
            return Err(JournalError::OutOfRange { what, index: upto, low: 0, high });
        }
        if upto >= needed {
            let place = match last.filter(|last| last.index == upto) {
                Some(last) => last,
                None => self.place(upto)?,
            };
            self.control(Control::Purge(place))?;
        }
        self.shared.give_up()
    }

    /// Saves a vote, durably.
    pub fn save_vote(&self, vote: &[u8]) -> Result<(), JournalError> {
        if vote.len() > VOTE_MAX_BYTES {
            let (bytes, limit_bytes) = (vote.len() as u64, VOTE_MAX_BYTES as u64);
            return Err(JournalError::TooLarge { what: "a vote", bytes, limit_bytes });
        }
        self.control(Control::Vote(vote.to_vec()))
    }

    /// The vote last saved.
    pub fn vote(&self) -> Option<Vec<u8>> {
        self.shared.state().log.vote.clone()
    }

    /// Saves how far the log is committed; rides on the next write and sync.
    ///
    /// Returns at once. Without another write it is written and synced within about a second.
    pub fn save_committed(&self, place: JournalPosition) -> Result<(), JournalError> {
        self.shared.check()?;
        self.send(Command::Committed(place)).map_err(|_| JournalError::Closed)
    }

    /// The committed place last written.
    pub fn committed(&self) -> Option<JournalPosition> {
        self.shared.state().log.committed
    }

    /// Has what finds no room wait for it from now on, instead of failing with `NoSpace`: the disk
    /// is tried again every so often, and nothing is written before what waits but purges, which
    /// may be what makes room. With `None`, as in the beginning, all that waits fails at once.
    ///
    /// What waits takes memory: who appends sets the limit. A failed write for any other reason,
    /// and a failed sync, still end all appending.
    pub fn wait_for_room(&self, every: Option<Duration>) {
        // Nothing waits in a closed one.
        let _ = self.send(Command::WaitForRoom(every));
    }

    /// Forgets all entries: `first` is the index of the next one. The vote stays.
    pub fn reset(&self, first: u64) -> Result<(), JournalError> {
        self.control(Control::Reset(first, None))
    }

    /// Forgets all entries, and takes those up to `purged` for purged: the state that they led to
    /// came from elsewhere. The next entry follows that one. The vote stays.
    pub fn reset_after(&self, purged: JournalPosition) -> Result<(), JournalError> {
        self.control(Control::Reset(purged.index.saturating_add(1), Some(purged)))
    }

    /// How the journal is doing.
    pub fn status(&self) -> JournalStatus {
        self.shared.status()
    }

    /// Checks every byte of a journal that is not being written.
    ///
    /// `progress` is called now and then with the bytes checked so far and their total.
    pub fn verify(
        disk: &dyn Disk,
        options: &JournalOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> VerifyReport {
        crate::verify::verify(disk, options, progress)
    }

    /// Writes and syncs what waits, and ends the journal's thread. Later calls fail; reading
    /// goes on.
    pub fn close(&self) {
        let Some(running) = self.running().take() else {
            return;
        };
        let Running { commands, threads } = running;
        drop(commands);
        // The last owner may be a callback on the journal's own thread, which ends after it.
        let own = std::thread::current().id();
        if threads.iter().all(|thread| thread.thread().id() != own) {
            for thread in threads {
                // A panic in there has been reported, and callers see a closed journal.
                let _ = thread.join();
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, command: Command) -> Result<(), Command> {
        match &*self.running() {
            Some(running) => running.commands.send(command).map_err(|error| error.0),
            None => Err(command),
        }
    }

    fn control(&self, control: Control) -> Result<(), JournalError> {
        let (answer, outcome) = bounded(1);
        let sent = self.send(Command::Control { control, answer });
        sent.map_err(|_| JournalError::Closed)?;
        outcome.recv().unwrap_or(Err(JournalError::Closed))
    }

    /// The place of an entry that is there.
    fn place(&self, index: u64) -> Result<JournalPosition, JournalError> {
        let entry = self.read(index)?.next().unwrap_or(Err(JournalError::Missing))?;
        Ok(entry.place)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Where writing goes on.
struct TailStart {
    end: u64,
    previous: u32,
    opening: u64,
}

/// Has everything read from the medium: where a sync failed before, the system may show what is not
/// there, and go on to say that it is.
fn forget(disk: &dyn Disk) -> Result<(), JournalError> {
    let names = disk.list().map_err(|error| JournalError::io("listing the journal", &error))?;
    for name in names.iter().filter(|name| segment_sequence(name).is_some()) {
        let forgotten = disk.open(name, false).and_then(|file| file.forget());
        forgotten.map_err(|error| JournalError::io(name, &error))?;
    }
    Ok(())
}

fn lock(disk: &dyn Disk) -> Result<Lock, JournalError> {
    let locked = disk.lock(LOCK_FILE, LockKind::Exclusive);
    locked.map_err(|error| JournalError::io(LOCK_FILE, &error))?.ok_or(JournalError::InUse)
}
