//! The log of the engine beside two others, `raft-log` and the simulated medium: the same
//! operations lead to the same state, also after opening anew.

use std::path::Path;
use std::sync::mpsc;

use journal::FileDisk;
use raft_log::RaftLog;
use raft_log::api::raft_log_writer::RaftLogWriter;

use super::model::{Chance, Model, Step, control, found, id};
use super::*;

/// The octets of an entry.
#[derive(Clone, Debug)]
struct Payload(Vec<u8>);

impl codeq::Encode for Payload {
    fn encode<W: io::Write>(&self, to: W) -> io::Result<usize> {
        self.0.encode(to)
    }
}

impl codeq::Decode for Payload {
    fn decode<R: io::Read>(from: R) -> io::Result<Self> {
        Vec::decode(from).map(Self)
    }
}

struct Told(mpsc::Sender<io::Result<()>>);

impl chunked_wal::Callback for Told {
    fn send(self, outcome: io::Result<()>) {
        self.0.send(outcome).unwrap();
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Octets;

impl raft_log::Types for Octets {
    type LogId = (u64, u64);
    type LogPayload = Payload;
    /// The term, and the candidate times two, one more if a majority has agreed.
    type Vote = (u64, u64);
    type Callback = Told;
    type UserData = u64;

    fn log_index(id: &(u64, u64)) -> u64 {
        id.1
    }

    fn payload_size(payload: &Payload) -> u64 {
        payload.0.len() as u64
    }
}

fn pair(id: &LogId) -> (u64, u64) {
    (**id.committed_leader_id(), id.index)
}

/// The other log.
struct Other(RaftLog<Octets>);

impl Other {
    fn open(directory: &Path) -> Self {
        let mut config = raft_log::Config::new(directory.display());
        config.wal.flush_batch_wait = Some(Duration::ZERO);
        config.wal.chunk_max_size = Some(1 << 16);
        Self(RaftLog::open(Arc::new(config)).unwrap())
    }

    fn step(&mut self, step: &Step) {
        let log = &mut self.0;
        match step {
            Step::Append(entries) => log.append(entries.iter().map(|entry| {
                (pair(&entry.log_id), Payload(entry::encode(&entry.payload).to_vec()))
            })),
            Step::Truncate(after) => log.truncate(after.map_or(0, |after| after.index + 1)),
            Step::Purge(upto) => log.purge(pair(upto)),
            Step::Vote(vote) => {
                let candidate = vote.leader_id.voted_for * 2 + u64::from(vote.committed);
                log.save_vote((vote.leader_id.term, candidate))
            }
            Step::Committed(place) => log.commit(pair(place)),
        }
        .unwrap();
        let (told, outcome) = mpsc::channel();
        log.flush(true, Some(Told(told))).unwrap();
        outcome.recv().unwrap().unwrap();
    }

    fn found(&self) -> Model {
        let state = self.0.log_state();
        let unpair = |(term, index): &(u64, u64)| id(*term, *index);
        let vote = state.vote().map(|(term, candidate)| match candidate % 2 {
            0 => Vote::new(*term, candidate / 2),
            _ => Vote::new_committed(*term, candidate / 2),
        });
        let from = state.purged().map_or(0, |purged| purged.1 + 1);
        let entries = self.0.read(from, u64::MAX).map(|read| {
            let ((term, index), payload) = read.unwrap();
            let place = entry::place(&id(term, index));
            (index, entry::decode(place, payload.0.into()).unwrap())
        });
        let found = Model {
            purged: state.purged().map(unpair),
            entries: entries.collect(),
            vote,
            committed: state.committed().map(unpair),
        };
        assert_eq!(found.last(), state.last().map(unpair));
        found
    }
}

/// What all of them show. How far the log is committed is compared after opening alone: the
/// journal writes it with what comes next.
async fn compare(logs: &mut [LogStore; 2], other: &Other, seed: u64, is_opened: bool) -> Model {
    let shown = |mut model: Model| {
        // Of what is purged, everything is committed.
        model.committed = model.committed.max(model.purged).filter(|_| is_opened);
        model
    };
    let want = shown(other.found());
    for log in logs {
        assert_eq!(shown(found(log).await), want, "seed {seed}");
    }
    want
}

async fn check_seed(seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    std::fs::create_dir(&ours).unwrap();
    std::fs::create_dir(&theirs).unwrap();
    let mut chance = Chance(seed);
    let options = JournalOptions {
        segment_bytes: 1 << 16,
        keep_bytes: chance.below(2) << 17,
        ..JournalOptions::new([1; 16])
    };
    let simulated = SimulatedLog::new(seed, Duration::ZERO..=Duration::ZERO);
    drop(Journal::create(Arc::new(FileDisk::new(&ours)), options.clone(), 1).unwrap());
    let mut model = Model::default();
    for _ in 0..3 {
        let (journal, _) = Journal::open(Arc::new(FileDisk::new(&ours)), options.clone()).unwrap();
        let mut logs = [LogStore::new(Arc::new(journal)), LogStore::new(simulated.open())];
        let mut other = Other::open(&theirs);
        let shown = compare(&mut logs, &other, seed, true).await;
        let committed = model.committed.max(model.purged);
        assert_eq!(shown, Model { committed, ..model.clone() }, "seed {seed}");
        for left in (0..40).rev() {
            let step = match model.vote.filter(|_| left == 0) {
                // The last mark rides on it.
                Some(vote) => Step::Vote(Vote::new(vote.leader_id.term + 1, 1)),
                None => model.step(&mut chance),
            };
            model.apply(&step);
            for log in &mut logs {
                control(log, &step).await.unwrap();
            }
            other.step(&step);
            let shown = compare(&mut logs, &other, seed, false).await;
            assert_eq!(shown, Model { committed: None, ..model.clone() }, "seed {seed}");
        }
    }
}

#[test]
fn the_log_does_what_another_log_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for seed in 0..12 {
        runtime.block_on(check_seed(seed));
    }
}
