//! A disk in memory that loses, tears and refuses: for tests, of this crate and of others.
//!
//! What it does depends on its seed and on the calls alone; [`SimDisk::disturb`] makes the threads
//! that call it meet in other orders. [`SimDisk::crash`] gives the disk as
//! a power cut may leave it: of what was not synced any subset of blocks is there, others are
//! as before or hold anything at all; of creations, renames and removals that were not synced
//! any prefix. [`SimDisk::kill`] gives it as the end of the process leaves it.

mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Disk, DiskFile, Lock, LockKind};
use trace::Trace;

/// The unit that is written whole or not at all, in bytes.
pub const SIM_BLOCK_BYTES: u64 = 512;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    shared: Arc<SimShared>,
}

#[derive(Debug, Default)]
struct SimShared {
    state: Mutex<SimState>,
    changed: Condvar,
    /// What the next call draws its pause from; 0 for none.
    unrest: AtomicU64,
}

/// An operation that can fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Writing to a file; a part of the bytes may be written all the same.
    Write,
    /// Making writes durable; some of them may be durable all the same.
    Sync,
    /// Reserving space.
    Allocate,
    /// Reading.
    Read,
    /// Creating, renaming, removing, and making that durable.
    Names,
}

#[derive(Debug, Clone)]
struct Planned {
    fault: Fault,
    /// Operations of the kind that still succeed.
    skip: u64,
    /// How many fail then.
    count: u64,
    kind: ErrorKind,
}

#[derive(Debug, Default)]
struct SimState {
    chance: u64,
    files: BTreeMap<u64, SimFile>,
    next_file: u64,
    names: BTreeMap<String, u64>,
    /// As a power cut would find them.
    synced_names: BTreeMap<String, u64>,
    pending: Vec<NameChange>,
    planned: Vec<Planned>,
    space_bytes: Option<u64>,
    /// After so many refusals there is space again; `None`: not by itself.
    refusals_left: Option<u64>,
    power_left: Option<u64>,
    operations: u64,
    syncs: u64,
    is_holding_syncs: bool,
    /// The file by this name has its syncs held.
    held_file: Option<String>,
    waiting_syncs: u64,
    locks: BTreeMap<String, Vec<LockKind>>,
    trace: Trace,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, u64),
    Rename(String, String),
    Remove(String),
}

#[derive(Clone, Debug, Default)]
struct SimFile {
    blocks: BTreeMap<u64, Block>,
    /// What a power cut would find at least: `None` for a block of zeros.
    dirty: BTreeMap<u64, Option<Block>>,
    /// What the system shows of blocks whose sync failed, though the medium has something else:
    /// it takes them for clean. `None` for a block of zeros.
    stale: BTreeMap<u64, Option<Block>>,
    len: u64,
    synced_len: u64,
}

type Block = Box<[u8; SIM_BLOCK_BYTES as usize]>;

impl SimDisk {
    /// An empty disk; all chance comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let disk = Self { shared: Arc::default() };
        disk.state().chance = seed.wrapping_mul(2).wrapping_add(1);
        disk
    }

    /// The disk as a power cut may leave it now; this one goes on undisturbed.
    pub fn crash(&self) -> Self {
        let mut state = self.state();
        let mut names = state.synced_names.clone();
        let changes = state.pending.len() as u64;
        let kept = state.random(changes + 1) as usize;
        state.trace.note(format_args!("power cut: {kept} of {changes} changes of names kept"));
        state.pending.iter().take(kept).for_each(|change| change.apply(&mut names));
        let mut after = SimState { next_file: state.next_file, ..SimState::default() };
        after.chance = state.random(u64::MAX) | 1;
        for (name, file) in &names {
            let lost = state.files.get(file).cloned().unwrap_or_default();
            after.files.insert(*file, lost.after_crash(name, &mut state));
        }
        after.trace = state.trace.clone();
        after.synced_names.clone_from(&names);
        after.names = names;
        Self::of(after)
    }

    /// The disk as the end of the process leaves it: all that was written, locks released.
    pub fn kill(&self) -> Self {
        let mut state = self.state();
        state.trace.note(format_args!("the process is killed"));
        Self::of(SimState {
            chance: state.chance | 1,
            files: state.files.clone(),
            next_file: state.next_file,
            names: state.names.clone(),
            synced_names: state.synced_names.clone(),
            pending: state.pending.clone(),
            trace: state.trace.clone(),
            ..SimState::default()
        })
    }

    /// After `skip` more operations of this kind, `count` of them fail with `kind`.
    pub fn fail(&self, fault: Fault, skip: u64, count: u64, kind: ErrorKind) {
        self.state().planned.push(Planned { fault, skip, count, kind });
    }

    /// Lets nothing fail any more, and gives all space.
    pub fn mend(&self) {
        let mut state = self.state();
        state.planned.clear();
        (state.space_bytes, state.refusals_left) = (None, None);
    }

    /// Bytes all files together may have; `None` is any number.
    pub fn limit_space(&self, bytes: Option<u64>) {
        let mut state = self.state();
        (state.space_bytes, state.refusals_left) = (bytes, None);
    }

    /// Bytes all files together may have until more were refused so often; then any number.
    pub fn limit_space_for(&self, bytes: u64, refusals: u64) {
        let mut state = self.state();
        (state.space_bytes, state.refusals_left) = (Some(bytes), Some(refusals.max(1)));
    }

    /// Bytes of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.state().used()
    }

    /// Whether a power cut may take back creations, renames or removals.
    pub fn has_unsynced_names(&self) -> bool {
        !self.state().pending.is_empty()
    }

    /// After `operations` more that change something, the power is off: all others fail.
    pub fn cut_power_after(&self, operations: u64) {
        self.state().power_left = Some(operations);
    }

    /// Operations so far that change something.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// From now on a call waits for a moment now and then, as `seed` says (other than 0): threads
    /// meet in orders that they seldom meet in by themselves.
    pub fn disturb(&self, seed: u64) {
        self.shared.unrest.store(seed, Ordering::Relaxed);
    }

    /// What is on the disk, and what was done to it lately: to explain a failure.
    pub fn report(&self) -> String {
        let state = self.state();
        let mut report = String::new();
        for (name, file) in &state.names {
            let (len, dirty) = state.files.get(file).map_or((0, Vec::new()), |held| {
                (held.len, held.dirty.keys().copied().collect::<Vec<_>>())
            });
            let is_synced = state.synced_names.get(name) == Some(file);
            let _ = writeln!(
                report,
                "  {name} is file {file} (durably: {is_synced}), {len} bytes, dirty {dirty:?}"
            );
        }
        let _ = writeln!(report, "  pending {:?}", state.pending);
        let _ = write!(report, "{}", state.trace);
        report
    }

    /// Lets syncs wait until it is called with `false`.
    pub fn hold_syncs(&self, is_holding: bool) {
        self.state().is_holding_syncs = is_holding;
        self.shared.changed.notify_all();
    }

    /// Lets syncs of the file with this name wait until another or none is named.
    pub fn hold_syncs_of(&self, name: Option<&str>) {
        self.state().held_file = name.map(str::to_owned);
        self.shared.changed.notify_all();
    }

    /// Waits until so many syncs wait.
    pub fn wait_for_held_syncs(&self, count: u64) {
        let mut state = self.state();
        while state.waiting_syncs < count {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Changes a byte of a file, durably: decay, or somebody's hand.
    pub fn flip(&self, name: &str, at: u64) {
        let mut state = self.state();
        if let Some(file) = state.names.get(name).copied()
            && let Some(file) = state.files.get_mut(&file)
        {
            let mut octet = [0];
            file.read(&mut octet, at);
            let [octet] = octet;
            file.write(&[octet ^ 0x55], at);
            file.dirty.remove(&(at / SIM_BLOCK_BYTES));
        }
    }

    /// Puts a file there, durably.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let mut file = SimFile { len: bytes.len() as u64, ..SimFile::default() };
        file.write(bytes, 0);
        file.sync();
        let number = state.make(file);
        state.names.insert(name.to_owned(), number);
        state.synced_names.insert(name.to_owned(), number);
    }

    /// The bytes of a file as a process sees them.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let file = state.files.get(state.names.get(name)?)?;
        let mut bytes = vec![0; file.len as usize];
        file.read(&mut bytes, 0);
        Some(bytes)
    }

    fn of(state: SimState) -> Self {
        Self { shared: Arc::new(SimShared { state: Mutex::new(state), ..SimShared::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets other threads go first, now and then.
    #[allow(clippy::disallowed_methods, reason = "that time passes is all it is for")]
    fn pause(&self) {
        let unrest = &self.shared.unrest;
        if unrest.load(Ordering::Relaxed) == 0 {
            return;
        }
        let drawn = mixed(unrest.fetch_add(GOLDEN, Ordering::Relaxed));
        match drawn % 16 {
            0..8 => {}
            8..12 => std::thread::yield_now(),
            12..15 => std::thread::sleep(Duration::from_micros((drawn >> 8) % 50)),
            _ => std::thread::sleep(Duration::from_micros((drawn >> 8) % 1000)),
        }
    }

    /// Changes names; a failure leaves them.
    fn change(&self, change: NameChange) -> io::Result<()> {
        self.pause();
        let mut state = self.state();
        let operated = state.operate(Fault::Names);
        state.trace.outcome(format_args!("{change:?}"), &operated);
        operated?;
        let known = match &change {
            NameChange::Set(..) => true,
            NameChange::Rename(name, _) | NameChange::Remove(name) => {
                state.names.contains_key(name)
            }
        };
        if !known {
            return Err(ErrorKind::NotFound.into());
        }
        change.apply(&mut state.names);
        state.pending.push(change);
        Ok(())
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Set(name, file) => {
                names.insert(name.clone(), *file);
            }
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl SimState {
    /// A number below `bound`.
    fn random(&mut self, bound: u64) -> u64 {
        self.chance = self.chance.wrapping_add(GOLDEN);
        mixed(self.chance) % bound.max(1)
    }

    /// Notes what came of an operation on a file.
    fn note<T>(&mut self, number: u64, what: std::fmt::Arguments<'_>, outcome: &io::Result<T>) {
        let name = self.names.iter().find(|(_, file)| **file == number).map(|(name, _)| name);
        let name = name.map_or("without a name", String::as_str);
        self.trace.outcome(format_args!("file {number} ({name}): {what}"), outcome);
    }

    /// Counts an operation, and fails it when that was planned.
    fn operate(&mut self, fault: Fault) -> io::Result<()> {
        if fault != Fault::Read {
            self.operations += 1;
            if let Some(left) = &mut self.power_left {
                *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the power is off"))?;
            }
        }
        for planned in &mut self.planned {
            if planned.fault != fault || planned.count == 0 {
                continue;
            }
            if planned.skip > 0 {
                planned.skip -= 1;
            } else {
                planned.count -= 1;
                return Err(planned.kind.into());
            }
        }
        Ok(())
    }

    fn holds_sync(&self, file: u64) -> bool {
        let held = self.held_file.as_ref().and_then(|name| self.names.get(name));
        self.is_holding_syncs || held == Some(&file)
    }

    fn used(&self) -> u64 {
        let mut alive: BTreeSet<u64> = self.names.values().copied().collect();
        alive.extend(self.synced_names.values());
        self.files.iter().filter(|(file, _)| alive.contains(file)).map(|(_, file)| file.len).sum()
    }

    fn has_space(&mut self, more: u64) -> io::Result<()> {
        match self.space_bytes {
            Some(limit) if more > 0 && self.used() + more > limit => {
                if let Some(left) = &mut self.refusals_left {
                    *left -= 1;
                    if *left == 0 {
                        (self.space_bytes, self.refusals_left) = (None, None);
                    }
                }
                Err(ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn make(&mut self, file: SimFile) -> u64 {
        self.next_file += 1;
        self.files.insert(self.next_file, file);
        self.next_file
    }
}

impl SimFile {
    fn write(&mut self, data: &[u8], at: u64) {
        let mut done = 0;
        while let Some(rest) = data.get(done..)
            && !rest.is_empty()
        {
            let here = at + done as u64;
            let number = here / SIM_BLOCK_BYTES;
            let inside = (here % SIM_BLOCK_BYTES) as usize;
            let count = rest.len().min(SIM_BLOCK_BYTES as usize - inside);
            let before = self.blocks.get(&number).cloned();
            self.dirty.entry(number).or_insert(before);
            // All of the block that the system shows is written with what is new in it.
            if let Some(shown) = self.stale.remove(&number) {
                self.blocks.insert(number, shown.unwrap_or_else(empty_block));
            }
            let block = self.blocks.entry(number).or_insert_with(empty_block);
            if let Some(place) = block.get_mut(inside..inside + count)
                && let Some(bytes) = rest.get(..count)
            {
                place.copy_from_slice(bytes);
            }
            done += count;
        }
        self.len = self.len.max(at + data.len() as u64);
    }

    fn read(&self, buf: &mut [u8], at: u64) -> usize {
        let count = (self.len.saturating_sub(at) as usize).min(buf.len());
        let mut done = 0;
        while done < count {
            let here = at + done as u64;
            let inside = (here % SIM_BLOCK_BYTES) as usize;
            let step = (count - done).min(SIM_BLOCK_BYTES as usize - inside);
            let number = here / SIM_BLOCK_BYTES;
            let block = match self.stale.get(&number) {
                Some(shown) => shown.as_ref(),
                None => self.blocks.get(&number),
            };
            if let Some(place) = buf.get_mut(done..done + step) {
                match block.and_then(|block| block.get(inside..inside + step)) {
                    Some(bytes) => place.copy_from_slice(bytes),
                    None => place.fill(0),
                }
            }
            done += step;
        }
        count
    }

    fn sync(&mut self) {
        self.dirty.clear();
        self.synced_len = self.len;
    }

    fn cut(&mut self, len: u64) {
        let keep = len.div_ceil(SIM_BLOCK_BYTES);
        let gone: Vec<u64> = self.blocks.range(keep..).map(|(number, _)| *number).collect();
        for number in gone {
            let before = self.blocks.remove(&number);
            self.dirty.entry(number).or_insert(before);
        }
        self.len = len;
    }

    /// What a failed sync leaves: what a power cut would, and the system shows what was written.
    fn after_failed_sync(self, name: &str, state: &mut SimState) -> Self {
        let (len, mut stale) = (self.len, self.stale.clone());
        let written = |number: &u64| (*number, self.blocks.get(number).cloned());
        stale.extend(self.dirty.keys().map(written));
        Self { len, stale, ..self.after_crash(name, state) }
    }

    /// What a power cut leaves: each block not synced old, new or anything.
    fn after_crash(mut self, name: &str, state: &mut SimState) -> Self {
        self.stale.clear();
        let mut fates = String::new();
        for (number, before) in std::mem::take(&mut self.dirty) {
            let fate = match state.random(16) {
                0..8 => "new",
                15 => {
                    let mut block = empty_block();
                    block.fill_with(|| state.random(256) as u8);
                    self.blocks.insert(number, block);
                    "torn"
                }
                _ => {
                    match before {
                        Some(block) => self.blocks.insert(number, block),
                        None => self.blocks.remove(&number),
                    };
                    "old"
                }
            };
            let _ = write!(fates, " {number} {fate}");
        }
        if state.random(2) == 0 {
            self.cut(self.synced_len);
            self.dirty.clear();
        }
        self.synced_len = self.len;
        state.trace.note(format_args!("of {name} there are {} bytes; blocks:{fates}", self.len));
        self
    }
}

/// The step of splitmix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What splitmix64 makes of its state.
fn mixed(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn empty_block() -> Block {
    Box::new([0; SIM_BLOCK_BYTES as usize])
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.pause();
        let mut state = self.state();
        state.operate(Fault::Read)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let known = self.state().names.get(name).copied();
        let number = match known {
            Some(number) => number,
            None if create => {
                let number = self.state().make(SimFile::default());
                self.change(NameChange::Set(name.to_owned(), number))?;
                number
            }
            None => return Err(ErrorKind::NotFound.into()),
        };
        Ok(Box::new(OpenFile { disk: self.clone(), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(NameChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(NameChange::Remove(name.to_owned()))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.pause();
        let mut state = self.state();
        let operated = state.operate(Fault::Names);
        state.trace.outcome(format_args!("sync of names"), &operated);
        operated?;
        state.pending.clear();
        state.synced_names = state.names.clone();
        Ok(())
    }

    fn lock(&self, name: &str, kind: LockKind) -> io::Result<Option<Lock>> {
        let mut state = self.state();
        let held = state.locks.entry(name.to_owned()).or_default();
        if held.iter().any(|held| *held == LockKind::Exclusive || kind == LockKind::Exclusive) {
            return Ok(None);
        }
        held.push(kind);
        Ok(Some(Lock::new(HeldLock { disk: self.clone(), name: name.to_owned(), kind })))
    }
}

#[derive(Debug)]
struct HeldLock {
    disk: SimDisk,
    name: String,
    kind: LockKind,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if let Some(held) = state.locks.get_mut(&self.name)
            && let Some(at) = held.iter().position(|held| *held == self.kind)
        {
            held.swap_remove(at);
        }
    }
}

#[derive(Debug)]
struct OpenFile {
    disk: SimDisk,
    number: u64,
}

impl OpenFile {
    fn file<T>(&self, state: &mut SimState, act: impl FnOnce(&mut SimFile) -> T) -> io::Result<T> {
        state.files.get_mut(&self.number).map(act).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl DiskFile for OpenFile {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.disk.pause();
        let mut state = self.disk.state();
        state.operate(Fault::Read)?;
        self.file(&mut state, |file| file.read(buf, at))
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.disk.pause();
        let mut state = self.disk.state();
        let more = {
            let len = self.file(&mut state, |file| file.len)?;
            (at + data.len() as u64).saturating_sub(len)
        };
        let outcome = state.has_space(more).and_then(|()| state.operate(Fault::Write));
        let written = match &outcome {
            Ok(()) => data.len() as u64,
            // As much as happened to be written before.
            Err(_) if state.power_left != Some(0) => state.random(data.len() as u64),
            Err(_) => 0,
        };
        let what = format_args!("write at {at} {written} of {} bytes", data.len());
        state.note(self.number, what, &outcome);
        let data = data.get(..written as usize).unwrap_or_default();
        self.file(&mut state, |file| file.write(data, at))?;
        outcome
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.pause();
        let mut state = self.disk.state();
        // Counted while they wait, or whoever waits for one takes another that passes for it.
        let is_held = state.holds_sync(self.number);
        state.waiting_syncs += u64::from(is_held);
        self.disk.shared.changed.notify_all();
        while state.holds_sync(self.number) {
            let changed = &self.disk.shared.changed;
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting_syncs -= u64::from(is_held);
        let operated = state.operate(Fault::Sync);
        state.note(self.number, format_args!("sync"), &operated);
        if let Err(error) = operated {
            // The worst of worlds: the blocks that failed count as clean, and some are there.
            if state.power_left != Some(0) {
                let file = self.file(&mut state, |file| file.clone())?;
                let file = file.after_failed_sync("it", &mut state);
                state.files.insert(self.number, file);
            }
            return Err(error);
        }
        state.syncs += 1;
        self.file(&mut state, SimFile::sync)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        self.file(&mut state, |file| file.len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.pause();
        let mut state = self.disk.state();
        let more = len.saturating_sub(self.file(&mut state, |file| file.len)?);
        let outcome = state.has_space(more).and_then(|()| state.operate(Fault::Allocate));
        state.note(self.number, format_args!("allocate {len}"), &outcome);
        outcome?;
        self.file(&mut state, |file| file.len = file.len.max(len))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.pause();
        let mut state = self.disk.state();
        let operated = state.operate(Fault::Write);
        state.note(self.number, format_args!("truncate to {len}"), &operated);
        operated?;
        self.file(&mut state, |file| file.cut(len))
    }

    fn forget(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operate(Fault::Read)?;
        self.file(&mut state, |file| file.stale.clear())
    }
}
