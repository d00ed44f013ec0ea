//! What clients were told, and what must hold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use history::log::{CommitError, EncodedRecord};
use history::record::RecordHead;
use store::Lsn;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::Summary;
use super::world::Member;

/// What became of a request, as its client knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Told {
    /// It was sent to this node.
    Nothing {
        node: u64,
    },
    Acknowledged,
    Refused,
    Unknown,
}

struct Asked {
    told: Told,
    /// The last record that was acknowledged anywhere when it was asked.
    after: Lsn,
}

pub(super) struct Seen {
    began: Instant,
    is_over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: BTreeMap<u128, Asked>,
    acknowledged: Lsn,
    trace: u64,
    /// What readers of the tails were given, with the node.
    followed: Vec<(u64, EncodedRecord)>,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), is_over: AtomicBool::new(false), state: Mutex::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// A new request to `node`; its id.
    pub(super) fn ask(&self, node: u64) -> u128 {
        let mut state = self.state();
        let id = state.asked.len() as u128 + 1;
        let after = state.acknowledged;
        state.asked.insert(id, Asked { told: Told::Nothing { node }, after });
        id
    }

    pub(super) fn answered(&self, ids: &[u128], outcome: &Result<Lsn, CommitError>) {
        let told = match outcome {
            Ok(_) => Told::Acknowledged,
            Err(error) if error.is_unknown() => Told::Unknown,
            Err(_) => Told::Refused,
        };
        let mut state = self.state();
        state.note(self.began, &format!("{ids:?} {outcome:?}"));
        for id in ids {
            let asked = state.asked.get_mut(id).unwrap();
            // Its client is told no more when the node has crashed.
            if matches!(asked.told, Told::Nothing { .. }) {
                asked.told = told;
            }
        }
        if let Ok(lsn) = outcome {
            state.acknowledged = state.acknowledged.max(*lsn);
        }
    }

    /// A node crashed: nobody knows what became of what it was asked.
    pub(super) fn crashed(&self, crashed: u64) {
        let mut state = self.state();
        state.note(self.began, &format!("crash {crashed}"));
        for asked in state.asked.values_mut() {
            if asked.told == (Told::Nothing { node: crashed }) {
                asked.told = Told::Unknown;
            }
        }
    }

    /// A reader of a tail was given a record.
    pub(super) fn followed(&self, node: u64, record: EncodedRecord) {
        self.state().followed.push((node, record));
    }

    /// The last record that anybody was told of.
    pub(super) fn acknowledged(&self) -> Lsn {
        self.state().acknowledged
    }

    pub(super) fn check_read(&self, node: u64, must_have: Lsn, sees: Lsn) {
        assert!(
            sees >= must_have,
            "node {node} read {sees:?} although {must_have:?} was acknowledged before"
        );
    }

    /// The same place in the log has the same content everywhere.
    pub(super) fn check_logs(&self, members: &BTreeMap<u64, Arc<Member>>) {
        let mut places = BTreeMap::new();
        for member in members.values() {
            for entry in member.disk.entries() {
                let place = (entry.place.index, entry.place.term);
                let (first, payload) =
                    places.entry(place).or_insert_with(|| (member.id, entry.payload.clone()));
                assert!(
                    *payload == entry.payload,
                    "nodes {first} and {} have different entries at {place:?}",
                    member.id
                );
            }
        }
    }

    /// At the end, when all nodes are together again.
    pub(super) fn check(&self, members: &BTreeMap<u64, Arc<Member>>) {
        self.check_logs(members);
        let first = members.values().next().unwrap();
        let records = first.ledger().records();
        for member in members.values() {
            assert!(
                member.ledger().records() == records,
                "nodes {} and {} have applied different records",
                first.id,
                member.id
            );
        }
        let mut times: BTreeMap<u128, Lsn> = BTreeMap::new();
        for record in &records {
            let head = RecordHead::read(&record.bytes).unwrap();
            let id = u128::from_le_bytes(head.request);
            let before = times.insert(id, head.lsn);
            assert_eq!(before, None, "request {id} happened twice");
        }
        let state = self.state();
        assert!(!state.followed.is_empty(), "somebody reads the tails");
        for (node, record) in &state.followed {
            let there = records.get(usize::try_from(record.lsn.0 - 1).unwrap());
            assert!(there == Some(record), "the tail of node {node} showed what is not there");
        }
        for (id, asked) in &state.asked {
            let lsn = times.get(id);
            match asked.told {
                Told::Acknowledged => assert!(lsn.is_some(), "request {id} was acknowledged"),
                Told::Refused => assert_eq!(lsn, None, "request {id} was refused"),
                Told::Unknown => {}
                Told::Nothing { node } => panic!("request {id} to node {node} has no answer"),
            }
            if let Some(lsn) = lsn {
                let after = asked.after;
                assert!(*lsn > after, "request {id} came before {after:?}, which was over");
            }
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let state = self.state();
        let count = |told| state.asked.values().filter(|asked| asked.told == told).count();
        Summary {
            acknowledged: count(Told::Acknowledged),
            refused: count(Told::Refused),
            unknown: count(Told::Unknown),
            crashes: 0,
            trace: state.trace,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn note(&mut self, began: Instant, line: &str) {
        let line = format!("{:?} {line}", began.elapsed());
        if std::env::var_os("ROSTER_SIMULATION_TRACE").is_some() {
            println!("{line}");
        }
        let line = format!("{} {line}", self.trace);
        self.trace = xxh3_64(line.as_bytes());
    }
}
