//! The state of a node: a real store in a directory, under the real state machine.
//!
//! Each life of a node has a directory of its own, a copy of what the one before had flushed: the
//! life before runs on without knowing. LMDB is not simulated. What it has committed is taken for
//! durable, but for flushes whose sync is said not to have ended: of those a power cut may leave
//! nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use history::log::{ApplyError, CopyIntake, Decided, EncodedRecord, StateCopy, StateMachine};
use history::record::Record;
use history::recovery::{StoreMachine, check_journal};
use journal::{Journal, JournalOptions, JournalPosition};
use ldap::dn::Dn;
use schema::{EntryId, EntryRead as _, Schema};
use store::{CopyHead, IndexConfig, LogPosition, Lsn, Mark, Store, StoreOptions, View};
use tempfile::TempDir;

use super::requests::{self, CONTEXT};
use crate::simulated::SimulatedLog;

/// The last record that all nodes have from the start.
pub(super) const BEFORE_ALL: Lsn = Lsn(3);
/// Where the log has it.
pub(super) const BEGINNING: JournalPosition = JournalPosition { term: 1, index: 3 };
/// The journal's files are small, there are many of them.
const SEGMENT_BYTES: u64 = 64 * 4096;

/// What nodes have done.
#[derive(Default)]
pub(super) struct Known {
    /// The records that any has applied.
    records: Mutex<BTreeMap<Lsn, EncodedRecord>>,
    /// How many copies of others took the place of their states.
    pub(super) copies: AtomicUsize,
}

/// The state of one life of a node.
pub(super) struct State {
    pub(super) store: Arc<Store>,
    data: PathBuf,
    machine: StoreMachine,
    /// All records that were applied since the beginning.
    records: Mutex<Vec<EncodedRecord>>,
    /// Those that any node has applied: a copy of the state has no records.
    known: Arc<Known>,
    /// Leaves out the last change of a record that was decided elsewhere.
    skips: bool,
    /// What is left if the last flush was not synced.
    unsynced: Mutex<Option<PathBuf>>,
}

impl State {
    /// The first life of a node, whose directories are in `folder`.
    pub(super) fn first(template: &Path, folder: &Path, skips: bool, known: Arc<Known>) -> Self {
        let data = folder.join("life-1");
        copy(template, &data);
        Self::open(data, Vec::new(), skips, known)
    }

    fn open(
        data: PathBuf,
        mut records: Vec<EncodedRecord>,
        skips: bool,
        known: Arc<Known>,
    ) -> Self {
        let store = Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
        let store = Arc::new(store);
        let base = store.base();
        records.retain(|record| record.lsn <= base.lsn);
        let machine = StoreMachine::new(Arc::clone(&store));
        let (records, unsynced) = (Mutex::new(records), Mutex::default());
        Self { store, data, machine, records, known, skips, unsynced }
    }

    /// What a power cut leaves, for the next life; `loses` decides whether what need not be there
    /// is there.
    pub(super) fn after_crash(&self, life: u64, loses: bool) -> Self {
        let data = self.data.with_file_name(format!("life-{life}"));
        let unsynced = self.unsynced.lock().unwrap().take();
        let from = unsynced.filter(|_| loses).unwrap_or_else(|| self.data.clone());
        copy(&from, &data);
        Self::open(data, self.records(), self.skips, Arc::clone(&self.known))
    }

    /// Brings what is visible into the base; where that is, if it is durable.
    pub(super) fn flush(&self, is_synced: bool) -> Option<LogPosition> {
        let mut unsynced = self.unsynced.lock().unwrap();
        if is_synced {
            if let Some(before) = unsynced.take() {
                fs::remove_dir_all(before).unwrap();
            }
        } else if unsynced.is_none() {
            let before = self.data.with_extension(format!("before-{}", self.store.base().lsn.0));
            copy(&self.data, &before);
            *unsynced = Some(before);
        }
        let mark = self.store.flush().unwrap();
        is_synced.then_some(mark.position)
    }

    /// What is visible, by `look`.
    pub(super) fn see<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        look(self.store.reader().view().unwrap())
    }

    /// The records that were applied, from that after [`BEFORE_ALL`] on.
    pub(super) fn records(&self) -> Vec<EncodedRecord> {
        self.records.lock().unwrap().clone()
    }

    pub(super) fn last(&self) -> Mark {
        self.store.published()
    }

    /// All that is visible, and the digest of it that the store keeps, to be compared with that of
    /// other nodes.
    pub(super) fn contents(&self) -> String {
        let mut text = format!("{:?}\n", self.store.digests().last().unwrap());
        self.see(|view| {
            for entry in view.entries_after(EntryId::ROOT).unwrap() {
                let entry = entry.unwrap();
                writeln!(text, "{} {}", entry.id().0, entry.dn()).unwrap();
                entry.visit_attributes(&mut |description, values| {
                    for value in values.iter() {
                        writeln!(text, " {} {value:?}", description.text()).unwrap();
                    }
                });
            }
        });
        text
    }

    /// What `roster check` would find in the directory, with the log beside it; `loses_end`: with
    /// all but its end.
    pub(super) fn findings(&self, log: &SimulatedLog, loses_end: bool) -> Vec<String> {
        let data = self.data.with_extension("check");
        self.store.flush().unwrap();
        copy(&self.data, &data);
        let open = || Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
        let store = open();
        write_journal(&data, &store, log, loses_end);
        store.note_journal().unwrap();
        drop(store);
        let mut findings = check_journal(&data, &mut |_, _, _| ()).unwrap().findings;
        let report = open().check(&mut |_, _, _| ()).unwrap();
        findings.extend(report.findings.iter().map(|finding| format!("{finding:?}")));
        findings
    }

    /// Applies records, but for one change of the first.
    fn apply_most(&self, records: &[EncodedRecord], position: LogPosition) {
        let mut batch = self.store.begin_on_published().unwrap();
        for (at, encoded) in records.iter().enumerate() {
            let record = Record::decode(&encoded.bytes, &Schema::builtin()).unwrap();
            let (lsn, hash, time_us) = (record.lsn, encoded.hash, record.csn.time.0);
            let index = position.index - (records.len() - 1 - at) as u64;
            let mark = Mark { lsn, hash, time_us, position: LogPosition { index, ..position } };
            let kept = record.changes.len() - usize::from(at == 0);
            let changes = &record.changes[..kept];
            let _ = batch.apply_record(record.prev_hash, mark, changes).unwrap();
        }
        batch.publish();
    }
}

impl StateMachine for State {
    fn apply(
        &self,
        decided: Decided,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError> {
        if self.skips && decided == Decided::Elsewhere && !records.is_empty() {
            self.apply_most(records, position);
        } else {
            self.machine.apply(decided, records, position)?;
        }
        let mut kept = self.records.lock().unwrap();
        for record in records {
            let last = kept.last().map_or(BEFORE_ALL, |last| last.lsn);
            assert_eq!(record.lsn.0, last.0 + 1, "each record is applied once, in order");
            kept.push(record.clone());
            self.known.records.lock().unwrap().insert(record.lsn, record.clone());
        }
        let last = kept.last().map_or(BEFORE_ALL, |last| last.lsn);
        assert!(self.machine.applied() <= last, "nothing is visible that was not applied");
        Ok(())
    }

    fn applied(&self) -> Lsn {
        self.machine.applied()
    }

    fn position(&self) -> LogPosition {
        self.machine.position()
    }

    fn membership(&self) -> Result<Vec<u8>, ApplyError> {
        self.machine.membership()
    }

    fn set_membership(&self, octets: Vec<u8>) {
        self.machine.set_membership(octets);
    }

    fn begin_membership(&self, octets: Vec<u8>) -> Result<(), ApplyError> {
        self.machine.begin_membership(octets)
    }

    fn copy_bytes(&self) -> Option<u64> {
        self.machine.copy_bytes()
    }

    fn copy(&self) -> Result<Arc<dyn StateCopy>, ApplyError> {
        self.machine.copy()
    }

    fn receive(&self, head: &CopyHead) -> Result<Box<dyn CopyIntake>, ApplyError> {
        self.machine.receive(head)
    }

    fn install(&self, id: &[u8; 16]) -> Result<(), ApplyError> {
        self.machine.install(id)?;
        // It is durable, whatever of the state before was not.
        if let Some(before) = self.unsynced.lock().unwrap().take() {
            fs::remove_dir_all(before).unwrap();
        }
        let (mut records, last) = (self.records.lock().unwrap(), self.machine.applied());
        assert!(records.last().is_none_or(|before| before.lsn < last), "it is a step forward");
        let known = self.known.records.lock().unwrap();
        *records = known.range(..=last).map(|(_, one)| one.clone()).collect();
        self.known.copies.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn settle_copied(&self) {
        self.machine.settle_copied();
    }

    fn drop_received(&self) {
        self.machine.drop_received();
    }
}

/// A new directory for what nobody needs afterwards, in memory where there is a place for that.
pub(super) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("roster-simulation-").tempdir_in(place).unwrap()
}

/// What all nodes start with: made once for all runs that there are at a time.
pub(super) fn template() -> Arc<TempDir> {
    static TEMPLATE: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut template = TEMPLATE.lock().unwrap();
    if let Some(made) = template.upgrade() {
        return made;
    }
    let made = Arc::new(folder());
    make(&made.path().join("data"));
    *template = Arc::downgrade(&made);
    made
}

fn make(data: &Path) {
    let contexts = [Dn::parse(CONTEXT).unwrap()];
    let (options, indexes) = (StoreOptions::default(), IndexConfig::default());
    let store = Store::create(data, &options, Schema::builtin(), indexes, &contexts).unwrap();
    let mut batch = store.begin().unwrap();
    for (changes, index) in requests::first_records().iter().zip(1..) {
        changes.iter().for_each(|change| batch.change(change).unwrap());
        let position = LogPosition { term: BEGINNING.term, index };
        let mark = Mark { lsn: Lsn(index), hash: index, time_us: index, position };
        let _ = batch.record(mark).unwrap();
    }
    batch.commit().unwrap();
    store.keep_digest().unwrap();
    assert_eq!(store.base().lsn, BEFORE_ALL);
}

/// Copies the files of a data directory that nobody writes at the moment.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let place = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy(&file.path(), &place);
        } else {
            fs::copy(file.path(), place).unwrap();
        }
    }
}

/// Makes a journal of what a log has.
fn write_journal(data: &Path, store: &Store, log: &SimulatedLog, loses_end: bool) {
    let options =
        JournalOptions { segment_bytes: SEGMENT_BYTES, ..JournalOptions::new(store.id()) };
    let disk = history::journal_disk(data).unwrap();
    let (medium, mut entries) = (log.open(), log.entries());
    if loses_end {
        entries.truncate(entries.len() / 2);
    }
    let status = medium.status();
    let journal = Journal::create(disk, options, status.first).unwrap();
    journal.reset_after(status.purged.unwrap_or(BEGINNING)).unwrap();
    if !entries.is_empty() {
        journal.append_wait(entries, journal::Durability::Written).unwrap();
    }
    journal.save_vote(&medium.vote().unwrap()).unwrap();
    if let Some(committed) = status.committed {
        journal.save_committed(committed).unwrap();
    }
    journal.close();
}
