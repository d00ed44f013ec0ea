//! What committed entries are applied to: the state machine of the engine over that of the commit
//! log.
//!
//! Invariant: which records are void follows from the log alone, so it is the same on all servers:
//! a record counts in an entry of the term in which it was decided, and only when it has the next
//! number. So what was decided in a lost leadership never takes effect on a state it did not see.
//! Invariant: a record with the next number and another history ends the applying: the servers
//! have diverged, and nothing is made worse.
//! Invariant: nothing is applied on the engine's own thread but in simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use history::log::{ApplyError, Decided, EncodedRecord, StateMachine};
use history::record::RecordHead;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, Raft, RaftSnapshotBuilder};
use store::{LogPosition, Lsn};

use crate::entry::{self, Malformed};
use crate::errands::Errands;
use crate::listing::numbers;
use crate::log_store::size;
use crate::options::Options;
use crate::shared::Shared;
use crate::types::{
    Entry, LogId, Membership, Node, RecordBytes, RecordOutcome, Snapshot, SnapshotFile,
    SnapshotMeta, StoredMembership, Types,
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
        Ok(Self { state, shared, errands, last, memberships })
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
                    self.memberships.push(StoredMembership::new(Some(log_id), membership));
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

    /// As of the last flush of the state.
    fn snapshot(&self) -> Snapshot {
        let last_log_id = log_id_at(self.shared.flushed());
        let last_membership = self.memberships.as_of(last_log_id);
        let meta = SnapshotMeta { last_log_id, last_membership };
        Snapshot { meta, snapshot: SnapshotFile::default() }
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

/// The last two sets of members: the engine may go back to the one before the last.
#[derive(Clone, Debug, Default)]
struct Memberships(Vec<StoredMembership>);

impl Memberships {
    const KEPT: usize = 2;

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether they are others than those with whom the cluster began.
    const fn has_changed(&self) -> bool {
        self.0.len() > 1
    }

    /// These take part from the beginning.
    fn begin(&mut self, at: LogPosition, members: &BTreeMap<u64, Node>) -> Result<(), String> {
        let voters = members.keys().copied().collect();
        let first = Membership::new(vec![voters], members.clone())
            .map_err(|_| "a voter is not among those who take part")?;
        self.push(StoredMembership::new(log_id_at(at), first));
        Ok(())
    }

    /// Where the log says of the first of them, as the journal counts.
    fn begins_at(&self) -> u64 {
        let first = self.0.first().and_then(|one| one.log_id().as_ref());
        first.map_or(0, |id| entry::place(id).index)
    }

    /// Says so if `listed` are others than those who take part, or elsewhere.
    fn note_differing(&self, listed: &BTreeMap<u64, Node>) {
        let Some(newest) = self.0.last() else { return };
        let known: BTreeMap<u64, Node> =
            newest.membership().nodes().map(|(id, node)| (*id, node.clone())).collect();
        if !listed.is_empty() && known != *listed {
            let known = numbers(&known.into_keys().collect());
            tracing::info!(
                "the members have been changed since the cluster began: it is that of {known}, and \
                 cluster.members of the settings counts no more"
            );
        }
    }

    fn push(&mut self, membership: StoredMembership) {
        self.0.push(membership);
        let surplus = self.0.len().saturating_sub(Self::KEPT);
        self.0.drain(..surplus);
    }

    /// Whether `listed` are those who take part, whatever their addresses are.
    fn check(&self, listed: &BTreeMap<u64, Node>) -> Result<(), String> {
        let Some(newest) = self.0.last() else { return Ok(()) };
        let known: BTreeSet<u64> = newest.membership().nodes().map(|(id, _)| *id).collect();
        let listed: BTreeSet<u64> = listed.keys().copied().collect();
        if known == listed {
            return Ok(());
        }
        let (known, listed) = (numbers(&known), numbers(&listed));
        Err(format!(
            "the settings list {listed}, and this data directory is that of a member of the \
             cluster of {known}: have cluster.members list {known}, on every member; their \
             addresses may be others"
        ))
    }

    /// Those who take part are where `listed` says.
    fn set_addresses(&mut self, listed: &BTreeMap<u64, Node>) -> Result<(), String> {
        for one in &mut self.0 {
            let membership = one.membership();
            let nodes = membership.nodes().map(|(id, known)| {
                let node = listed.get(id).unwrap_or(known);
                (*id, node.clone())
            });
            let nodes: BTreeMap<u64, Node> = nodes.collect();
            let moved = Membership::new(membership.get_joint_config().clone(), nodes)
                .map_err(|_| "a voter is not among those who take part")?;
            *one = StoredMembership::new(*one.log_id(), moved);
        }
        Ok(())
    }

    /// The newest that was in force at `at`.
    fn as_of(&self, at: Option<LogId>) -> StoredMembership {
        let found = self.0.iter().rev().find(|membership| *membership.log_id() <= at);
        found.or(self.0.first()).cloned().unwrap_or_default()
    }

    /// Each with its term, its index in the journal and its length in four octets.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for one in &self.0 {
            let place = one.log_id().as_ref().map(entry::place).unwrap_or_default();
            let members = entry::encode_membership(one.membership());
            out.extend_from_slice(&place.term.to_le_bytes());
            out.extend_from_slice(&place.index.to_le_bytes());
            let length = u32::try_from(members.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&members);
        }
        out
    }

    fn decode(mut octets: &[u8]) -> Result<Self, Malformed> {
        const SHORT: Malformed = Malformed("who takes part is incomplete in the database");
        let mut all = Vec::new();
        while !octets.is_empty() {
            let (term, rest) = octets.split_first_chunk().ok_or(SHORT)?;
            let (index, rest) = rest.split_first_chunk().ok_or(SHORT)?;
            let (length, rest) = rest.split_first_chunk().ok_or(SHORT)?;
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| SHORT)?;
            let (members, rest) = rest.split_at_checked(length).ok_or(SHORT)?;
            let (term, index) = (u64::from_le_bytes(*term), u64::from_le_bytes(*index));
            let members = members.get(2..).ok_or(SHORT)?;
            let membership = entry::decode_membership(members)?;
            let id = log_id_at(LogPosition { term, index });
            all.push(StoredMembership::new(id, membership));
            octets = rest;
        }
        Ok(Self(all))
    }
}

/// The engine's name for a place in the journal; index 0 is before the first.
fn log_id_at(position: LogPosition) -> Option<LogId> {
    let LogPosition { term, index } = position;
    (index > 0).then(|| entry::log_id(journal::JournalPosition { term, index }))
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

    async fn install_snapshot(&mut self, _: &SnapshotMeta, _: SnapshotFile) -> io::Result<()> {
        Err(io::Error::other("a snapshot of another server cannot be taken over yet"))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.shared.flushed().index.gt(&0).then(|| self.snapshot()))
    }
}
