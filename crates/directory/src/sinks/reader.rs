//! What a sink is told next: the changes behind its position, as its identity may read them now.
//!
//! Invariant: a batch ends behind a whole record, and takes no more room than is said here and one
//! record more; a view of the store is held no longer than it takes to make one.
//! Invariant: who the identity is, and what it may, is asked anew for each batch.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aci::{Access, Privilege};
use auth::scram::ScramHash;
use environment::Timestamp;
use history::changes::{ChangeReader, Changes};
use history::log::{Gone, Tail as _};
use history::record::{Decoder, Record};
use ldap::result::ResultCode;
use schema::{Change, DnKey, EntryId};
use serde_json::Value;
use store::{Lsn, StoreError, StoreReader, View};

use super::meant;
use super::position;
use super::progress::{SinkPosition, SinkProgress, is_position};
use super::text::Sink;
use crate::access::guard::{Guard, Viewer, guarded};
use crate::bind::{identity_mapper, login};
use crate::changelog::{self, Asked, Naming, Shown, Target, ToldChange};
use crate::directory::{Directory, State};
use crate::read::search::ChangeWait;
use crate::request::completion::WriteDone;
use crate::request::refusal::Refusal;
use crate::write::queue::PendingWrite;
use crate::write::request::WriteOp;

/// Reads for one sink.
pub struct SinkReader {
    directory: Arc<Directory>,
    sink: Arc<Sink>,
    reader: StoreReader,
    position: SinkPosition,
    /// Where it began.
    begun: Lsn,
    source: Option<(ChangeReader, Decoder)>,
    /// Makes ids of messages.
    id_key: Vec<u8>,
}

/// A change as a sink sends it.
#[derive(Clone, Debug)]
pub struct SinkMessage {
    /// Names it: the number of the change, its part if it is not the first, and some digits that
    /// are others in another history of the directory.
    pub id: String,
    /// The number of the change.
    pub number: u64,
    /// The `entryUUID` of the entry; its name where the identity may not read that.
    pub key: String,
    /// The entry, for whoever keeps an order.
    pub entry: EntryId,
    /// When the change was made.
    pub time: Timestamp,
    /// Where the sink is when it was told all before the record with this change.
    pub before: SinkPosition,
    /// The object.
    pub json: Vec<u8>,
}

/// What a sink is to be told, in order.
#[derive(Debug)]
pub struct SinkBatch {
    /// The messages; none where the changes are none of its.
    pub messages: Vec<SinkMessage>,
    /// Where it is when they are told.
    pub end: SinkPosition,
    /// Changes that were passed, but for those of positions.
    pub passed: u64,
    /// Whether there are no more by now.
    pub is_last: bool,
}

/// Changes that are not kept any more.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SinkGap {
    /// How many, if that is known.
    pub missing: u64,
    /// Why, in a sentence.
    pub reason: String,
    /// Where to go on.
    pub resume: SinkPosition,
}

/// Why a sink is told nothing now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SinkPause {
    /// Its identity may not, or cannot be found.
    Identity(String),
    /// Changes are missing.
    Gap(SinkGap),
    /// Something failed that may pass.
    Failed(String),
}

/// What a batch is made from.
struct Look<'a> {
    sink: &'a Sink,
    view: &'a View<'a>,
    state: &'a State,
    guard: &'a Guard<'a>,
    id_key: &'a [u8],
}

impl SinkReader {
    /// Goes on where the sink was; none where it is not among the sinks any more.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(directory: &Arc<Directory>, sink: &Arc<Sink>) -> Result<Option<Self>, String> {
        let mut reader = directory.storage.store.reader();
        let view = reader.view().map_err(|error| error.to_string())?;
        let position = position::stored(view, &sink.name).map_err(|error| error.to_string())?;
        let Some(position) = position else { return Ok(None) };
        let id_key = ScramHash::Sha256.hmac(&directory.store_id(), b"messages of sinks");
        let (directory, sink) = (Arc::clone(directory), Arc::clone(sink));
        let begun = position.lsn;
        Ok(Some(Self { directory, sink, reader, position, begun, source: None, id_key }))
    }

    /// Up to which change the sink was told.
    pub const fn position(&self) -> SinkPosition {
        self.position
    }

    /// The number of the last change there is.
    pub fn last(&self) -> u64 {
        self.directory.changes().last().0
    }

    /// The next batch. The position moves with [`Self::pass`].
    ///
    /// # Errors
    /// Why there is none now.
    pub fn next_batch(&mut self) -> Result<SinkBatch, SinkPause> {
        let made = self.batch();
        // Nothing of the store is held while a target is waited for.
        self.reader.release();
        if made.is_err() {
            self.source = None;
        }
        made
    }

    /// The sink was told up to here.
    pub fn pass(&mut self, position: SinkPosition) {
        self.position = position;
    }

    /// Stores the position; `done` hears why that did not happen, if so. It does not wait.
    pub fn store(&self, done: Box<dyn FnOnce(Result<(), String>) + Send>) {
        let progress = SinkProgress {
            name: self.sink.name.clone(),
            begun: self.begun,
            position: self.position,
        };
        let Directory { queue, credentials, .. } = &*self.directory;
        let op = WriteOp::SinkProgress(Box::new(progress));
        let write = PendingWrite::of_server(queue, &credentials.root.dn, op, true);
        write.submit(Box::new(move |WriteDone { completion, .. }| {
            done(match completion.code {
                Some(ResultCode::Success) => Ok(()),
                _ => Err(completion.diagnostic.into_owned()),
            });
        }));
    }

    /// Calls `wake` once, when there is a change that [`Self::next_batch`] has not seen, or none
    /// will come.
    pub fn wait(&self, wake: Box<dyn FnOnce() + Send>) -> ChangeWait {
        self.directory.wait_behind(self.position.lsn, wake)
    }

    fn batch(&mut self) -> Result<SinkBatch, SinkPause> {
        let Self { directory, sink, reader, position, source, id_key, .. } = self;
        let state = directory.state.load_full();
        let view = reader.view().map_err(failed)?;
        let access = access_of(directory, &state, view, &sink.identity)?;
        let last = view.lsn();
        let (mut batch, mut bytes) = (SinkBatch::at(*position), 0);
        if position.lsn >= last && position.lsn <= directory.changes().last() {
            batch.is_last = true;
            return Ok(batch);
        }
        // Not all that was read may have been told: that is read again.
        let follows = |(reader, _): &(ChangeReader, Decoder)| {
            position.lsn.0.checked_add(1) == Some(reader.position().0)
        };
        let (mut changes, mut decoder) = match source.take().filter(follows) {
            Some(source) => source,
            None => {
                let reader = open(&directory.changes(), *position)?;
                (reader, Decoder::new(Arc::clone(&state.schema)))
            }
        };
        decoder.follow(Arc::clone(&state.schema));
        let schema = &*state.schema;
        let viewer = Viewer { directory, access: &access, view, schema };
        let kept = directory.changes();
        let end = guarded(&viewer, &DnKey::root(), |guard| {
            let look = Look { sink, view, state: &state, guard, id_key };
            let begun = directory.clock.elapsed();
            while changes.position() <= last {
                let is_late = || directory.clock.elapsed().saturating_sub(begun) > TIME_MAX;
                let is_full = batch.messages.len() >= MESSAGES_MAX || bytes >= BYTES_MAX;
                if is_full || batch.passed >= RECORDS_MAX || is_late() {
                    return Ok(());
                }
                let next = changes.next_within(Duration::ZERO);
                let next = next.map_err(|gone| gap(&kept, batch.end, &gone))?;
                let Some(encoded) = next else { break };
                let record = decoder.decode(&encoded.bytes).map_err(|error| {
                    let why = format!("change {} cannot be read: {error}", encoded.lsn.0);
                    SinkPause::Failed(why)
                })?;
                look.record(&record, encoded.hash, &mut batch, &mut bytes)?;
                batch.end = SinkPosition { lsn: encoded.lsn, hash: Some(encoded.hash) };
            }
            batch.is_last = true;
            Ok(())
        });
        match end {
            Ok(()) => {
                *source = Some((changes, decoder));
                Ok(batch)
            }
            // What came before the end is told first.
            Err(_) if !batch.messages.is_empty() => Ok(SinkBatch { is_last: false, ..batch }),
            Err(pause) => Err(pause),
        }
    }
}

impl SinkBatch {
    fn at(end: SinkPosition) -> Self {
        Self { messages: Vec::new(), end, passed: 0, is_last: false }
    }
}

impl Look<'_> {
    /// Adds what the sink is told of a record.
    fn record(
        &self,
        record: &Record,
        hash: u64,
        batch: &mut SinkBatch,
        bytes: &mut usize,
    ) -> Result<(), SinkPause> {
        if !record.changes.iter().all(is_position) {
            batch.passed += 1;
        }
        for part in 1..=record.changes.len() {
            if let Some(message) = self.message(record, hash, part).map_err(failed)? {
                *bytes += message.json.len();
                batch.messages.push(SinkMessage { before: batch.end, ..message });
            }
        }
        Ok(())
    }

    fn message(
        &self,
        record: &Record,
        hash: u64,
        part: usize,
    ) -> Result<Option<SinkMessage>, StoreError> {
        let &Self { sink, view, state, guard, id_key } = self;
        let schema = &*state.schema;
        let Some(change) = record.changes.get(part - 1) else { return Ok(None) };
        let Some(entry) = entry_of(change) else { return Ok(None) };
        if !meant::is_meant(&sink.place, change, view, schema)? {
            return Ok(None);
        }
        let time = record.csn.time;
        let asked = Asked { time, guard, view, schema, made: None, attribute: "" };
        let Some(mut target) = Target::of(change, &asked)? else { return Ok(None) };
        let is_told = target.narrow(change, &|one| {
            let wanted = &sink.attributes;
            !one.kind.is_secret()
                && (wanted.is_empty() || wanted.iter().any(|asked| asked.covers(one)))
        });
        if !is_told {
            return Ok(None);
        }
        let shown = Shown { part, target: &target, naming: &Naming::Numbers, cookie: "" };
        let made = changelog::entry(schema, record, &shown);
        let told = made.and_then(|made| {
            ToldChange::read(&|name| {
                let description = schema.describe(name).ok()?;
                made.values(&description).first().cloned()
            })
        });
        Ok(told.map(|told| {
            let id = id(id_key, record.lsn, part, hash);
            let mut object = told.json();
            if let Value::Object(parts) = &mut object {
                parts.insert("id".to_owned(), id.clone().into());
            }
            let json = object.to_string().into_bytes();
            let key = told.uuid.unwrap_or(told.dn);
            let before = SinkPosition { lsn: Lsn(record.lsn.0.saturating_sub(1)), hash: None };
            SinkMessage { id, number: record.lsn.0, key, entry, time, before, json }
        }))
    }
}

/// The entry that a change is about; none where it is about the whole server.
fn entry_of(change: &Change) -> Option<EntryId> {
    match change {
        Change::Add(add) => Some(add.id),
        Change::Modify(modify) => Some(modify.id),
        Change::Rename(rename) => Some(rename.id),
        Change::Delete(delete) => Some(delete.id),
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => None,
    }
}

/// The id of a message: the bare hash would tell what a change holds to who tries.
fn id(key: &[u8], lsn: Lsn, part: usize, hash: u64) -> String {
    let content = [lsn.0.to_be_bytes(), hash.to_be_bytes()].concat();
    let mac = ScramHash::Sha256.hmac(key, &content);
    let digits = mac.iter().take(6).map(|octet| format!("{octet:02x}")).collect::<String>();
    match part {
        1 => format!("{}-{digits}", lsn.0),
        part => format!("{}.{part}-{digits}", lsn.0),
    }
}

/// The access of a sink's identity as it is now.
fn access_of(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    identity: &DnKey,
) -> Result<Access, SinkPause> {
    let refused = |refusal: Refusal| SinkPause::Failed(refusal.diagnostic.into_owned());
    let no = |why: &str| Err(SinkPause::Identity(why.to_owned()));
    let root = &directory.credentials.root;
    let Some(found) = identity_mapper::find_dn(root, view, identity).map_err(refused)? else {
        return no("the entry behind 'as' is not there");
    };
    let access = identity_mapper::access_of(root, state, view, found).map_err(refused)?;
    let Some(access) = access else { return no("the entry behind 'as' is not there") };
    if let Some(id) = access.entry() {
        let entry = view.entry(id).map_err(failed)?;
        let is_usable = match entry {
            Some(entry) => login::is_usable(directory, state, view, &entry).map_err(failed)?,
            None => false,
        };
        if !is_usable {
            return no("the account of the entry behind 'as' is switched off, or has expired");
        }
    }
    match access.has(Privilege::ChangelogRead) {
        true => Ok(access),
        false => no("the entry behind 'as' does not have the privilege changelog-read"),
    }
}

/// The changes behind a position.
fn open(changes: &Changes, position: SinkPosition) -> Result<ChangeReader, SinkPause> {
    let SinkPosition { lsn, hash } = position;
    let opened = match hash {
        Some(hash) => changes.read_after(lsn, hash),
        // Before all: with the first there is.
        None if lsn.0 == 0 => changes.read(changes.first()),
        None => changes.read(Lsn(lsn.0 + 1)),
    };
    opened.map_err(|gone| gap(changes, position, &gone))
}

fn gap(changes: &Changes, position: SinkPosition, gone: &Gone) -> SinkPause {
    match gone.may_pass {
        true => SinkPause::Failed(gone.reason.clone()),
        false => SinkPause::Gap(gap_at(changes, position, gone)),
    }
}

/// Where to go on behind changes that are missing.
fn gap_at(changes: &Changes, position: SinkPosition, gone: &Gone) -> SinkGap {
    let next = position.lsn.0 + 1;
    let first = gone.first.0.max(1);
    // Another history has changes with the numbers that were told: those behind are.
    let from = if first > next { first } else { next.min(changes.last().0 + 1) };
    SinkGap {
        missing: first.saturating_sub(next),
        reason: gone.reason.clone(),
        resume: SinkPosition { lsn: Lsn(from - 1), hash: None },
    }
}

fn failed(error: impl fmt::Display) -> SinkPause {
    SinkPause::Failed(error.to_string())
}

impl fmt::Debug for SinkReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkReader").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Messages of a batch.
const MESSAGES_MAX: usize = 500;
/// Octets of their objects.
const BYTES_MAX: usize = 4 << 20;
/// Changes that are looked at for one.
const RECORDS_MAX: u64 = 5_000;
/// How long that takes.
const TIME_MAX: Duration = Duration::from_millis(100);
