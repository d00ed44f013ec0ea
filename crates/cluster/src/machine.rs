//! What committed entries are applied to: the state machine of the engine over that of the commit
//! log.
//!
//! Invariant: which records are void follows from the log alone, so it is the same on all servers:
//! a record counts in an entry of the term in which it was decided, and only when it has the next
//! number. So what was decided in a lost leadership never takes effect on a state it did not see.
//! Invariant: a record with the next number and another history ends the applying: the servers
//! have diverged, and nothing is made worse.
//! Invariant: nothing is applied on the engine's own thread but in simulations.

use std::io;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use history::log::{ApplyError, Decided, EncodedRecord, StateMachine};
use history::record::RecordHead;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, Raft, RaftSnapshotBuilder};
use store::{LogPosition, Lsn};

use crate::copies::Copies;
use crate::entry;
use crate::errands::Errands;
use crate::log_store::size;
use crate::memberships::{Memberships, log_id_at};
use crate::options::Options;
use crate::shared::Shared;
use crate::types::{
    Entry, LogId, RecordBytes, RecordOutcome, Snapshot, SnapshotFile, SnapshotMeta,
    StoredMembership, Types,
};

/// So many entries are applied together at the most.
const APPLY_ENTRIES_MAX: usize = 1024;
/// And so many octets of them, if more than one.
const APPLY_MAX_BYTES: usize = 8 << 20;

/// The engine, as those see it who pass messages on to it.
pub type Engine = Raft<Types, RaftMachine>;

/// The state machine of the engine.
pub struct RaftMachine {
    state: Arc<dyn StateMachine>,
    shared: Arc<Shared>,
    errands: Errands,
    copies: Arc<Copies>,
    /// The last record.
    last: Lsn,
    memberships: Memberships,
}

impl RaftMachine {
    /// Over `state`; `options` say who takes part when the state says of nobody that he does, and
    /// it says so from then on. Until the members are first changed the options say where they are;
    /// later they say nothing.
    ///
    /// # Errors
    /// When what the state knows of the members cannot be read, or it knows of others.
    pub(crate) fn new(
        state: Arc<dyn StateMachine>,
        shared: Arc<Shared>,
        errands: Errands,
        copies: Arc<Copies>,
        options: &Options,
    ) -> Result<Self, String> {
        let (position, members) = (state.position(), &options.members);
        let stored = state.membership().map_err(|error| error.to_string())?;
        let mut memberships = Memberships::decode(&stored).map_err(|malformed| malformed.0)?;
        if memberships.has_changed() {
            memberships.note_differing(members);
        } else {
            options.check_own()?;
            if memberships.is_empty() && !members.is_empty() {
                memberships.begin(position, members)?;
                // Before anything is decided: whoever lists others later must not count by them.
                let kept = state.begin_membership(memberships.encode());
                kept.map_err(|error| format!("who takes part cannot be kept: {error}"))?;
            } else if !members.is_empty() {
                memberships.check(members)?;
                memberships.set_addresses(members)?;
            }
            shared.set_began_at(memberships.begins_at());
        }
        let last = state.applied();
        Ok(Self { state, shared, errands, copies, last, memberships })
    }

    /// What is to become of an entry, and the record in it if it has an effect.
    fn judge(&mut self, id: &LogId, record: &RecordBytes) -> Result<Judged, ApplyError> {
        let head = RecordHead::read(&record.0).map_err(|error| ApplyError::Record {
            lsn: Lsn(self.last.0 + 1),
            reason: error.to_string(),
        })?;
        let last = self.last;
        if head.reign.0 != **id.committed_leader_id() || head.lsn.0 != last.0 + 1 {
            return Ok(Judged::Void(head));
        }
        // Whether it follows from the state as well, the state says.
        self.last = head.lsn;
        let bytes = Arc::clone(&record.0);
        Ok(Judged::Next(EncodedRecord { lsn: head.lsn, hash: head.hash, bytes }))
    }

    /// Sorts entries into runs and applies them; what became of each.
    async fn apply_all(&mut self, entries: Vec<Entry>) -> Result<Vec<RecordOutcome>, ApplyError> {
        let mut outcomes = Vec::with_capacity(entries.len());
        let mut run = Run::default();
        for Entry { log_id, payload } in entries {
            let outcome = match payload {
                EntryPayload::Blank => {
                    self.apply(std::mem::take(&mut run)).await?;
                    self.begin_reign(&log_id).await?;
                    RecordOutcome::Applied
                }
                EntryPayload::Membership(membership) => {
                    self.apply(std::mem::take(&mut run)).await?;
                    let newer = StoredMembership::new(Some(log_id), membership);
                    self.memberships.push(newer, self.shared.flushed());
                    self.state.set_membership(self.memberships.encode());
                    RecordOutcome::Applied
                }
                EntryPayload::Normal(record) => match self.judge(&log_id, &record)? {
                    Judged::Void(head) => {
                        self.shared.note_void(&head, entry::place(&log_id));
                        // Whoever decides gives a number once, and here another record has it.
                        if head.reign.0 == **log_id.committed_leader_id() && head.lsn <= self.last {
                            self.shared.note_diverged(head.lsn);
                        }
                        RecordOutcome::Void
                    }
                    Judged::Next(record) => {
                        if !run.takes(&log_id) {
                            self.apply(std::mem::take(&mut run)).await?;
                        }
                        run.push(log_id, record);
                        RecordOutcome::Applied
                    }
                },
            };
            outcomes.push(outcome);
        }
        self.apply(run).await?;
        Ok(outcomes)
    }

    /// Applies records that follow each other.
    async fn apply(&mut self, run: Run) -> Result<(), ApplyError> {
        let Some((id, last)) = run.last else { return Ok(()) };
        let place = entry::place(&id);
        let position = LogPosition { term: place.term, index: place.index };
        let decided = match self.shared.has_led(place.term) {
            true => Decided::Here,
            false => Decided::Elsewhere,
        };
        let state = Arc::clone(&self.state);
        let applied = self.errands.run(move || state.apply(decided, &run.records, position)).await;
        applied.unwrap_or_else(|| Err(stopped(last)))?;
        // A part of a batch is not visible yet.
        self.shared.progress.reached(self.state.applied());
        Ok(())
    }

    /// Another leadership begins: what it found of a batch of the one before is all that comes of
    /// it.
    async fn begin_reign(&mut self, id: &LogId) -> Result<(), ApplyError> {
        if self.state.applied() == self.last {
            return Ok(());
        }
        let place = entry::place(id);
        let position = LogPosition { term: place.term, index: place.index };
        let state = Arc::clone(&self.state);
        let apply = move || state.apply(Decided::Elsewhere, &[], position);
        self.errands.run(apply).await.unwrap_or_else(|| Err(stopped(self.last)))?;
        self.shared.progress.reached(self.state.applied());
        Ok(())
    }

    /// As of the last flush of the state, or the copy that is kept.
    fn snapshot(&self) -> Snapshot {
        let own = || self.memberships.meta(self.shared.flushed());
        let meta = self.copies.kept().unwrap_or_else(own);
        Snapshot { meta, snapshot: SnapshotFile::Own }
    }

    /// Puts a copy of another member's state in the place of this one.
    async fn install(&mut self, id: [u8; 16]) -> Result<(), ApplyError> {
        let state = Arc::clone(&self.state);
        let installed = self.errands.run(move || {
            state.install(&id)?;
            state.membership()
        });
        let membership = installed.await.unwrap_or_else(|| Err(stopped(self.last)))?;
        let memberships = Memberships::decode(&membership);
        self.memberships = memberships.map_err(|error| ApplyError::Copy(error.0.to_owned()))?;
        self.shared.set_began_at(match self.memberships.has_changed() {
            true => u64::MAX,
            false => self.memberships.begins_at(),
        });
        let before = self.last;
        self.last = self.state.applied();
        // Before anybody hears of them: the log may still have what was never decided.
        self.shared.note_copied(before, self.last);
        let position = self.state.position();
        self.shared.set_flushed(position);
        self.copies.installed(position);
        self.shared.progress.reached(self.last);
        tracing::info!(
            lsn = self.last.0,
            index = position.index,
            "a copy of another member's data has taken the place of those that were here"
        );
        Ok(())
    }
}

/// A record, looked at.
enum Judged {
    /// Without effect.
    Void(RecordHead),
    /// The next one.
    Next(EncodedRecord),
}

/// Records that follow each other in the log as well: of one term, without entries between them.
#[derive(Default)]
struct Run {
    records: Vec<EncodedRecord>,
    last: Option<(LogId, Lsn)>,
}

impl Run {
    fn takes(&self, id: &LogId) -> bool {
        self.last.is_none_or(|(last, _)| {
            last.index + 1 == id.index && last.committed_leader_id() == id.committed_leader_id()
        })
    }

    fn push(&mut self, id: LogId, record: EncodedRecord) {
        self.last = Some((id, record.lsn));
        self.records.push(record);
    }
}

fn stopped(last: Lsn) -> ApplyError {
    ApplyError::Record { lsn: last, reason: "the server is shutting down".to_owned() }
}

impl RaftSnapshotBuilder<Types> for Snapshot {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<Self> {
        Ok(self.clone())
    }
}

impl RaftStateMachine<Types> for RaftMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Snapshot;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = log_id_at(self.state.position());
        Ok((applied, self.memberships.as_of(applied)))
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        let mut chunks = entries.ready_chunks(APPLY_ENTRIES_MAX);
        while let Some(chunk) = chunks.next().await {
            let mut chunk = chunk.into_iter().peekable();
            while chunk.peek().is_some() {
                let (mut entries, mut waiting) = (Vec::new(), Vec::new());
                let mut bytes = 0;
                while bytes < APPLY_MAX_BYTES
                    && let Some(next) = chunk.next()
                {
                    let (entry, responder) = next?;
                    bytes += size(&entry);
                    entries.push(entry);
                    waiting.push(responder);
                }
                let outcomes = self.apply_all(entries).await.map_err(|error| {
                    self.shared.not_applied(&error);
                    io::Error::other(error)
                })?;
                for (responder, outcome) in waiting.into_iter().zip(outcomes) {
                    if let Some(responder) = responder {
                        responder.send(outcome);
                    }
                }
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Snapshot {
        self.snapshot()
    }

    async fn install_snapshot(&mut self, _: &SnapshotMeta, file: SnapshotFile) -> io::Result<()> {
        let SnapshotFile::Received(id) = file else {
            return Err(io::Error::other("a snapshot of this server is no copy of another one's"));
        };
        self.install(id).await.map_err(|error| {
            self.shared.not_applied(&error);
            io::Error::other(error)
        })
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.shared.flushed().index.gt(&0).then(|| self.snapshot()))
    }
}
