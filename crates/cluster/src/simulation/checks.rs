//! What clients were told and saw, and what must hold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use history::log::{CommitError, EncodedRecord};
use history::record::RecordHead;
use store::Lsn;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::linearizable::{self, Call, Moment};
use super::requests::{self, KEYS, Request, Way};
use super::state::BEFORE_ALL;
use super::world::{Dice, Member, Plant};
use super::{Summary, is_traced};

/// What became of a request that was sent to a node, as its client knows.
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
    key: u64,
    way: Way,
    began: Moment,
    /// When it was acknowledged.
    ended: Option<Moment>,
    /// Of each time it was sent.
    told: Vec<Told>,
    /// The last record that was acknowledged anywhere when it was asked.
    after: Lsn,
}

impl Asked {
    /// What its client makes of it all.
    fn outcome(&self) -> Told {
        let is = |told| self.told.contains(&told);
        match () {
            () if is(Told::Acknowledged) => Told::Acknowledged,
            () if is(Told::Unknown) => Told::Unknown,
            () => self.told.last().copied().unwrap(),
        }
    }
}

/// A read that must see all that was acknowledged before it began.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) node: u64,
    pub(super) key: u64,
    pub(super) began: Moment,
    /// What was acknowledged when it began.
    pub(super) must_have: Lsn,
    /// What it saw, and after which record.
    pub(super) value: u64,
    pub(super) at: Lsn,
}

pub(super) struct Seen {
    began: Instant,
    is_over: AtomicBool,
    plant: Option<Plant>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Moment,
    asked: BTreeMap<u64, Asked>,
    /// Requests of which nobody knows the outcome, and that will be sent again.
    unknown: Vec<u64>,
    /// Requests that were acknowledged, and whose entries are still there.
    settled: Vec<u64>,
    acknowledged: Lsn,
    reads: Vec<(Read, Moment)>,
    /// The last that was read without asking anybody, at each node.
    local: BTreeMap<u64, Lsn>,
    local_reads: usize,
    retries: usize,
    trace: u64,
    /// What readers of the tails were given, with the node.
    followed: Vec<(u64, EncodedRecord)>,
}

impl Seen {
    pub(super) fn new(plant: Option<Plant>) -> Self {
        let state = State { acknowledged: BEFORE_ALL, ..State::default() };
        let (is_over, state) = (AtomicBool::new(false), Mutex::new(state));
        Self { began: Instant::now(), is_over, plant, state }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// A request to `node`: a new one, or one of unknown outcome again.
    pub(super) fn ask(&self, node: u64, dice: &Dice) -> Request {
        let mut state = self.state();
        let tidies = match self.plant {
            None => dice.percent(50).then(|| state.take_settled(dice)).flatten(),
            Some(_) => None,
        };
        if !state.unknown.is_empty() && dice.percent(50) {
            let at = dice.below(state.unknown.len() as u64) as usize;
            let id = state.unknown.remove(at);
            state.retries += 1;
            let asked = state.asked.get_mut(&id).unwrap();
            asked.told.push(Told::Nothing { node });
            let attempt = asked.told.len() - 1;
            return Request { id, attempt, key: asked.key, way: asked.way, tidies };
        }
        let (key, way) = (dice.below(KEYS), [Way::Modify, Way::Replace][dice.below(2) as usize]);
        let (id, began) = (state.asked.len() as u64 + 1, state.moment());
        let (told, after) = (vec![Told::Nothing { node }], state.acknowledged);
        state.asked.insert(id, Asked { key, way, began, ended: None, told, after });
        Request { id, attempt: 0, key, way, tidies }
    }

    pub(super) fn answered(&self, sent: &[Request], outcome: &Result<Lsn, CommitError>) {
        let told = match outcome {
            Ok(_) => Told::Acknowledged,
            Err(error) if !error.is_unknown() => Told::Refused,
            Err(_) if self.plant == Some(Plant::UnknownAsRefused) => Told::Refused,
            Err(_) => Told::Unknown,
        };
        let mut state = self.state();
        let ids: Vec<_> = sent.iter().map(|request| (request.id, request.attempt)).collect();
        state.note(self.began, &format!("{ids:?} {outcome:?}"));
        for (id, attempt) in ids {
            state.tell(id, attempt, told);
        }
        if let Ok(lsn) = outcome {
            state.acknowledged = state.acknowledged.max(*lsn);
        }
    }

    /// A node crashed: nobody knows what became of what it was asked.
    pub(super) fn crashed(&self, crashed: u64) {
        let mut state = self.state();
        state.note(self.began, &format!("crash {crashed}"));
        let open: Vec<_> = state
            .asked
            .iter()
            .filter(|(_, asked)| asked.told.last() == Some(&Told::Nothing { node: crashed }))
            .map(|(id, asked)| (*id, asked.told.len() - 1))
            .collect();
        for (id, attempt) in open {
            state.tell(id, attempt, Told::Unknown);
        }
    }

    /// Something happened that is worth a line.
    pub(super) fn note(&self, line: &str) {
        self.state().note(self.began, line);
    }

    /// A reader of a tail was given a record.
    pub(super) fn followed(&self, node: u64, record: EncodedRecord) {
        self.state().followed.push((node, record));
    }

    /// A read begins: when, and the last record that anybody was told of.
    pub(super) fn begin_read(&self) -> (Moment, Lsn) {
        let mut state = self.state();
        (state.moment(), state.acknowledged)
    }

    /// A read ends.
    pub(super) fn end_read(&self, read: Read) {
        let mut state = self.state();
        let Read { node, key, value, at, .. } = read;
        state.note(self.began, &format!("{node} reads {key}: {value} at {}", at.0));
        let now = state.moment();
        state.reads.push((read, now));
    }

    /// A node was read without asking anybody.
    pub(super) fn local_read(&self, node: u64, at: Lsn) {
        let mut state = self.state();
        let before = state.local.insert(node, at).unwrap_or_default();
        state.local_reads += 1;
        assert!(before <= at, "reads of node {node} went back from {} to {}", before.0, at.0);
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
        let records = check_states(members);
        let history = History::of(&records);
        let state = self.state();
        state.check_requests(&history);
        state.check_reads(&history);
        assert!(!state.followed.is_empty(), "somebody reads the tails");
        for (node, record) in &state.followed {
            let at = usize::try_from(record.lsn.0 - BEFORE_ALL.0 - 1).unwrap();
            let there = records.get(at);
            assert!(there == Some(record), "the tail of node {node} showed what is not there");
        }
        drop(state);
        for member in members.values() {
            let loses_end = self.plant == Some(Plant::LosesEndOfLog) && member.id == 1;
            let findings = member.state().findings(&member.disk, loses_end);
            assert!(findings.is_empty(), "the check of node {} found {findings:?}", member.id);
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let state = self.state();
        let count = |told| state.asked.values().filter(|asked| asked.outcome() == told).count();
        Summary {
            acknowledged: count(Told::Acknowledged),
            refused: count(Told::Refused),
            unknown: count(Told::Unknown),
            retries: state.retries,
            reads: state.reads.len(),
            local_reads: state.local_reads,
            crashes: 0,
            changes: 0,
            copies: 0,
            trace: state.trace,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // One that found something has said so.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All nodes have applied the same records, and these have led to the same.
fn check_states(members: &BTreeMap<u64, Arc<Member>>) -> Vec<EncodedRecord> {
    let first = members.values().next().unwrap();
    let (records, contents) = (first.state().records(), first.state().contents());
    let last = records.last().map(|last| (last.lsn, last.hash)).unwrap();
    for member in members.values() {
        let (id, state) = (member.id, member.state());
        assert!(state.records() == records, "nodes {} and {id} have other records", first.id);
        let mark = state.last();
        assert_eq!((mark.lsn, mark.hash), last, "node {id} shows what its records do");
        assert!(state.contents() == contents, "nodes {} and {id} have other entries", first.id);
    }
    records
}

/// What happened, as the log tells in the end.
struct History {
    /// The record of each request.
    records: BTreeMap<u64, Lsn>,
    /// Which request was where, in order.
    order: Vec<(Lsn, u64)>,
}

impl History {
    fn of(records: &[EncodedRecord]) -> Self {
        let mut history = Self { records: BTreeMap::new(), order: Vec::new() };
        let mut last_us = 0;
        for record in records {
            let head = RecordHead::read(&record.bytes).unwrap();
            let id = requests::request_of(head.request);
            let before = history.records.insert(id, head.lsn);
            assert_eq!(before, None, "request {id} happened twice");
            history.order.push((head.lsn, id));
            assert!(last_us < head.time_us(), "record {} is not later", head.lsn.0);
            last_us = head.time_us();
        }
        history
    }
}

impl State {
    fn moment(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    fn take_settled(&mut self, dice: &Dice) -> Option<u64> {
        let count = self.settled.len() as u64;
        (count > 0).then(|| self.settled.swap_remove(dice.below(count) as usize))
    }

    /// Its client is told no more when it was told once.
    fn tell(&mut self, id: u64, attempt: usize, told: Told) {
        let now = self.moment();
        let asked = self.asked.get_mut(&id).unwrap();
        if !matches!(asked.told[attempt], Told::Nothing { .. }) {
            return;
        }
        asked.told[attempt] = told;
        match told {
            Told::Acknowledged => {
                asked.ended = Some(now);
                self.settled.push(id);
            }
            // Refused after an outcome that is not known says nothing about that one. Some are not
            // sent again.
            Told::Refused | Told::Unknown
                if asked.outcome() == Told::Unknown && !id.is_multiple_of(4) =>
            {
                self.unknown.push(id);
            }
            Told::Nothing { .. } | Told::Refused | Told::Unknown => {}
        }
    }

    fn check_requests(&self, history: &History) {
        for (id, asked) in &self.asked {
            let lsn = history.records.get(id);
            match asked.outcome() {
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

    fn check_reads(&self, history: &History) {
        let mut calls: BTreeMap<u64, Vec<Call>> = BTreeMap::new();
        for (id, asked) in &self.asked {
            let Asked { key, began, ended, .. } = *asked;
            if asked.outcome() != Told::Refused {
                let call = Call { value: *id, is_write: true, began, ended };
                calls.entry(key).or_default().push(call);
            }
        }
        for (read, ended) in &self.reads {
            let Read { key, value, began, .. } = *read;
            let call = Call { value, is_write: false, began, ended: Some(*ended) };
            calls.entry(key).or_default().push(call);
        }
        for (key, calls) in &calls {
            if let Err(reason) = linearizable::check(calls) {
                panic!("register {key} is not linearizable: {reason}");
            }
        }
        for (read, _) in &self.reads {
            let Read { node, at, must_have, .. } = read;
            assert!(at >= must_have, "node {node} read {at:?}, {must_have:?} was acknowledged");
            let behind = history.order.partition_point(|(lsn, _)| lsn <= at);
            let mut before = history.order[..behind].iter().rev();
            let last = before.find(|(_, id)| self.asked[id].key == read.key);
            let value = last.map_or(0, |(_, id)| *id);
            assert_eq!(read.value, value, "node {node} shows the state after {}", at.0);
        }
    }

    fn note(&mut self, began: Instant, line: &str) {
        let line = format!("{:?} {line}", began.elapsed());
        if is_traced() {
            println!("{line}");
        }
        let line = format!("{} {line}", self.trace);
        self.trace = xxh3_64(line.as_bytes());
    }
}
