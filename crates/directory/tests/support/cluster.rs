//! Several directories in one process with one log: one of them decides, and the others apply what
//! it decides. Who decides, what a node applies and what becomes of messages the test says.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use directory::forward::{ForwardError, Forwarder, ForwarderDone};
use directory::{Directory, DirectoryError, DirectoryOptions, LogParts, MakeLog};
use history::log::{
    BarrierDone, CommitDone, CommitError, CommitLog, Decided, Durability, EncodedRecord, Gone,
    LogBatch, Membership, NotNow, OnlySelf, ReadLevel, Reign, Role, RoleWatcher, StateMachine,
    Tail,
};
use journal::{FileDisk, Journal, JournalOptions, JournalPosition};
use store::{LogPosition, Lsn};
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::{Served, init_with, small};

/// The directories.
pub struct Cluster {
    pub nodes: Vec<Served>,
    pub log: Arc<SharedLog>,
    pub wire: Arc<Wire>,
}

impl Cluster {
    /// Two nodes, the first of which decides.
    pub fn new() -> Self {
        Self::with(2, |_| {})
    }

    /// So many nodes, whose options `adjust` has changed.
    pub fn with(count: usize, adjust: impl Fn(&mut DirectoryOptions)) -> Self {
        Self::filled(count, |_| {}, adjust)
    }

    /// So many nodes that begin with what `fill` has put into the data directory.
    pub fn filled(
        count: usize,
        fill: impl FnOnce(&Served),
        adjust: impl Fn(&mut DirectoryOptions),
    ) -> Self {
        let seed = Arc::new(TempDir::new().unwrap());
        let first = seed.path().join("data");
        init_with(&first, directory::GlobalAcis::Public);
        let served = Served::opened(small(first.clone()), Arc::clone(&seed));
        fill(&served);
        served.directory.shutdown();
        drop(served.pulled());
        Self::of((0..count).map(|_| first.as_path()), adjust)
    }

    /// Other nodes with what these have in their databases, and a log of nothing.
    pub fn without_log(&self) -> Self {
        for node in &self.nodes {
            let store = node.directory.store();
            // As a log of several has it.
            store.set_membership(vec![1]);
            store.flush().unwrap();
        }
        Self::of(self.nodes.iter().map(|node| node.options.data.as_path()), |options| {
            let base = store::base_mark(&options.data, &options.store).unwrap();
            let disk = Arc::new(FileDisk::new(options.data.join("journal")));
            let id = store::identity(&options.data).unwrap();
            let (journal, _) = Journal::open(disk, JournalOptions::new(id)).unwrap();
            let LogPosition { term, index } = base.position;
            journal.reset_after(JournalPosition { term, index }).unwrap();
            journal.close();
        })
    }

    /// Nodes with copies of these data directories.
    fn of<'p>(
        directories: impl Iterator<Item = &'p Path>,
        adjust: impl Fn(&mut DirectoryOptions),
    ) -> Self {
        let log = Arc::new(SharedLog::default());
        let wire = Arc::new(Wire { log: Arc::clone(&log), ..Wire::default() });
        let mut nodes = Vec::new();
        for (number, directory) in directories.enumerate() {
            let data = Arc::new(TempDir::new().unwrap());
            let path = data.path().join("data");
            copy(directory, &path);
            let mut options = small(path);
            adjust(&mut options);
            options.member = number as u64;
            let own = Arc::clone(&log);
            options.log = Some(MakeLog::new(move |parts| own.join(number, parts)));
            options.forwarder = Some(Arc::clone(&wire) as Arc<dyn Forwarder>);
            nodes.push(Served::opened(options, data));
        }
        for node in &nodes {
            wire.serve(&node.directory);
        }
        let cluster = Self { nodes, log, wire };
        cluster.lead(Some(0));
        cluster
    }

    /// The node that decides first.
    pub fn leader(&self) -> &Served {
        &self.nodes[0]
    }

    /// The other one.
    pub fn follower(&self) -> &Served {
        &self.nodes[1]
    }

    /// Another node decides from now on, or nobody does.
    pub fn lead(&self, leader: Option<usize>) {
        self.log.lead(leader);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Its threads hold the directories, which hold it.
        self.wire.nodes.lock().unwrap().clear();
    }
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The log of all of them.
#[derive(Default)]
pub struct SharedLog {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    leader: Option<usize>,
    term: u64,
    first: u64,
    /// With the terms that they were decided in.
    records: Vec<(u64, EncodedRecord)>,
    nodes: Vec<NodeState>,
    /// How safe the last batch was to be.
    last_durability: Option<Durability>,
    /// What becomes of the next batch.
    loses: Option<Loses>,
    /// It is becoming that.
    is_losing: bool,
    /// A node that has lost the lead does not say so of its batch.
    is_silent: bool,
    /// How often a majority was asked.
    rounds: usize,
    /// What becomes of such questions.
    quorum: Quorum,
    /// Those that are not answered yet.
    asked: Vec<BarrierDone>,
}

/// What becomes of questions to a majority.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Quorum {
    #[default]
    There,
    /// It is not there, and whoever led was heard [`HEARD`] ago.
    Gone,
    /// It answers later.
    Slow,
}

/// See [`Quorum::Gone`].
pub const HEARD: Duration = Duration::from_millis(1_234);

struct NodeState {
    machine: Arc<dyn StateMachine>,
    /// It applies nothing.
    is_held: bool,
    /// Its log has failed.
    has_failed: bool,
    barriers: Vec<(Lsn, BarrierDone)>,
    watchers: Vec<RoleWatcher>,
}

/// The node that decides loses the lead with the next batch.
#[derive(Clone, Copy, Debug)]
pub struct Loses {
    /// Whether the others have the batch.
    pub is_committed: bool,
    /// Whether the node applies it as its own after it has said that the outcome is not known.
    pub is_late: Option<Late>,
    /// So many batches are committed before as usual.
    pub after: usize,
    /// Who decides then.
    pub to: usize,
}

/// When a node applies what it has said of that its outcome is not known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Late {
    /// Before the writer has heard that.
    AtOnce,
    /// When the test says so.
    Told,
}

impl SharedLog {
    fn join(
        self: &Arc<Self>,
        number: usize,
        parts: LogParts,
    ) -> Result<Arc<dyn CommitLog>, DirectoryError> {
        let mut state = self.lock();
        assert_eq!(state.nodes.len(), number);
        state.first = parts.machine.applied().0 + 1;
        state.nodes.push(NodeState {
            machine: parts.machine,
            is_held: false,
            has_failed: false,
            barriers: Vec::new(),
            watchers: Vec::new(),
        });
        Ok(Arc::new(NodeLog { number, shared: Arc::clone(self) }))
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// How safe the last batch was to be.
    pub fn last_durability(&self) -> Option<Durability> {
        self.lock().last_durability
    }

    /// All records.
    pub fn records(&self) -> Vec<EncodedRecord> {
        self.lock().records.iter().map(|(_, record)| record.clone()).collect()
    }

    /// A node applies nothing from now on, or all there is.
    pub fn hold(&self, number: usize, is_held: bool) {
        self.lock().nodes[number].is_held = is_held;
        self.catch_up();
    }

    /// The log of a node fails: it applies nothing any more, and those who wait for that are told.
    pub fn fail(&self, number: usize) {
        let mut state = self.lock();
        let node = &mut state.nodes[number];
        (node.is_held, node.has_failed) = (true, true);
        let waiting = std::mem::take(&mut node.barriers);
        drop(state);
        self.tell();
        waiting.into_iter().for_each(|(_, done)| done(Err(NotNow::Closed)));
    }

    pub fn lose(&self, loses: Loses) {
        self.lock().loses = Some(loses);
    }

    /// A node applies its last record of a term as its own, and from then on what it has not.
    pub fn apply_late(&self, number: usize, term: u64) {
        let mut state = self.lock();
        let found = state.records.iter().rev().find(|(of, _)| *of == term);
        let record = found.unwrap().1.clone();
        let position = LogPosition { term, index: record.lsn.0 };
        let node = &mut state.nodes[number];
        node.machine.apply(Decided::Here, &[record], position).unwrap();
        node.is_held = false;
        drop(state);
        self.catch_up();
    }

    /// In which term somebody decides now.
    pub fn term(&self) -> u64 {
        self.lock().term
    }

    /// A node that has lost the lead says so of its batch when this is over.
    pub fn silence(&self, is_silent: bool) {
        self.lock().is_silent = is_silent;
        self.moved.notify_all();
    }

    /// Who decides.
    pub fn leader(&self) -> Option<usize> {
        self.lock().leader
    }

    /// What becomes of questions to a majority; those that were asked are answered.
    pub fn set_quorum(&self, quorum: Quorum) {
        let mut state = self.lock();
        state.quorum = quorum;
        let last = state.last();
        let asked = std::mem::take(&mut state.asked);
        drop(state);
        asked.into_iter().for_each(|done| done(answer(quorum, last)));
    }

    /// How often a majority was asked.
    pub fn rounds(&self) -> usize {
        self.lock().rounds
    }

    /// Waits until a majority was asked so often.
    pub fn wait_for_rounds(&self, rounds: usize) {
        drop(self.moved.wait_while(self.lock(), |state| state.rounds < rounds).unwrap());
    }

    /// Whether the next loss has happened.
    pub fn wait_until_lost(&self) {
        drop(
            self.moved
                .wait_while(self.lock(), |state| state.loses.is_some() || state.is_losing)
                .unwrap(),
        );
    }

    fn lead(&self, leader: Option<usize>) {
        let mut state = self.lock();
        state.term += 1;
        state.leader = None;
        drop(state);
        self.tell();
        self.catch_up();
        self.lock().leader = leader;
        self.tell();
    }

    /// Tells everybody what they are.
    fn tell(&self) {
        let state = self.lock();
        for (number, node) in state.nodes.iter().enumerate() {
            let role = state.role(number);
            node.watchers.iter().for_each(|watcher| watcher(&role));
        }
    }

    /// Has all nodes apply what they have not.
    fn catch_up(&self) {
        let mut reached = Vec::new();
        let mut state = self.lock();
        let first = state.first;
        let State { records, nodes, .. } = &mut *state;
        for node in nodes.iter_mut().filter(|node| !node.is_held) {
            let have = usize::try_from(node.machine.applied().0 + 1 - first).unwrap();
            for (term, record) in records.iter().skip(have) {
                let position = LogPosition { term: *term, index: record.lsn.0 };
                let one = std::slice::from_ref(record);
                node.machine.apply(Decided::Elsewhere, one, position).unwrap();
            }
            let applied = node.machine.applied();
            let barriers = &mut node.barriers;
            reached.extend(barriers.extract_if(.., |(lsn, _)| *lsn <= applied));
        }
        drop(state);
        reached.into_iter().for_each(|(lsn, done)| done(Ok(lsn)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn answer(quorum: Quorum, last: Lsn) -> Result<Lsn, NotNow> {
    match quorum {
        Quorum::There | Quorum::Slow => Ok(last),
        Quorum::Gone => Err(NotNow::NoQuorum { heard: Some(HEARD) }),
    }
}

impl State {
    fn last(&self) -> Lsn {
        self.records.last().map_or(Lsn(self.first - 1), |(_, record)| record.lsn)
    }

    fn role(&self, number: usize) -> Role {
        if self.nodes[number].has_failed {
            return Role::Failed("its disk is broken".to_owned());
        }
        match self.leader {
            Some(leader) if leader == number => Role::Deciding(Reign(self.term)),
            Some(leader) => Role::Following { leader: Some(format!("ldap://node{leader}")) },
            None => Role::Following { leader: None },
        }
    }
}

/// What one node sees of it.
struct NodeLog {
    number: usize,
    shared: Arc<SharedLog>,
}

impl CommitLog for NodeLog {
    fn commit(&self, reign: Reign, batch: LogBatch, done: CommitDone) {
        let mut state = self.shared.lock();
        if state.role(self.number) != Role::Deciding(reign) {
            drop(state);
            return done(Err(CommitError::NotDeciding { leader: None }));
        }
        state.last_durability = Some(batch.durability);
        let lost = match &mut state.loses {
            Some(Loses { after, .. }) if *after > 0 => {
                *after -= 1;
                None
            }
            _ => state.loses.take(),
        };
        state.is_losing |= lost.is_some();
        let last = batch.records.last().unwrap().lsn;
        let is_committed = lost.is_none_or(|lost| lost.is_committed);
        if is_committed {
            let term = state.term;
            state.records.extend(batch.records.iter().map(|one| (term, one.clone())));
        }
        let Some(Loses { to, .. }) = lost else {
            let position = LogPosition { term: state.term, index: last.0 };
            let machine = Arc::clone(&state.nodes[self.number].machine);
            machine.apply(Decided::Here, &batch.records, position).unwrap();
            drop(state);
            self.shared.catch_up();
            return done(Ok(last));
        };
        if let Some(late) = lost.and_then(|lost| lost.is_late) {
            let term = state.term;
            state.nodes[self.number].is_held = true;
            drop(state);
            self.shared.lead(Some(to));
            done(Err(CommitError::Unknown { reason: "the lead is lost".to_owned() }));
            if late == Late::AtOnce {
                self.shared.apply_late(self.number, term);
            }
            self.shared.lock().is_losing = false;
            return self.shared.moved.notify_all();
        }
        // This node hears of it last.
        let held = std::mem::replace(&mut state.nodes[self.number].is_held, true);
        drop(state);
        self.shared.lead(Some(to));
        drop(self.shared.moved.wait_while(self.shared.lock(), |state| state.is_silent).unwrap());
        done(Err(CommitError::Unknown { reason: "the lead is lost".to_owned() }));
        let mut state = self.shared.lock();
        let node = &mut state.nodes[self.number];
        node.is_held = held;
        // What it has decided and nobody has is given up.
        let position = node.machine.position();
        node.machine.apply(Decided::Elsewhere, &[], position).unwrap();
        state.is_losing = false;
        drop(state);
        self.shared.catch_up();
        self.shared.moved.notify_all();
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn window(&self) -> usize {
        1
    }

    fn role(&self) -> Role {
        self.shared.lock().role(self.number)
    }

    fn watch(&self, watcher: RoleWatcher) {
        let mut state = self.shared.lock();
        watcher(&state.role(self.number));
        state.nodes[self.number].watchers.push(watcher);
    }

    fn barrier(&self, level: ReadLevel, done: BarrierDone) {
        let mut state = self.shared.lock();
        let (quorum, last) = (state.quorum, state.last());
        let applied = state.nodes[self.number].machine.applied();
        if level == ReadLevel::Linearizable {
            state.rounds += 1;
            self.shared.moved.notify_all();
            match quorum {
                Quorum::Slow => return state.asked.push(done),
                Quorum::Gone => {
                    drop(state);
                    return done(answer(quorum, last));
                }
                Quorum::There => {}
            }
        }
        let node = &mut state.nodes[self.number];
        let is_after = |lsn: Lsn| lsn > applied;
        match level {
            ReadLevel::AtLeast(lsn) if node.has_failed && is_after(lsn) => {
                drop(state);
                done(Err(NotNow::Closed));
            }
            ReadLevel::AtLeast(lsn) if lsn > applied => node.barriers.push((lsn, done)),
            ReadLevel::Linearizable if last > applied => node.barriers.push((last, done)),
            _ => {
                drop(state);
                done(Ok(applied));
            }
        }
    }

    fn tail(&self, from: Lsn) -> Result<Box<dyn Tail>, Gone> {
        let first = Lsn(self.shared.lock().first);
        if from < first {
            let reason = "it is before the first".to_owned();
            return Err(Gone { first, reason, may_pass: false });
        }
        Ok(Box::new(SharedTail { next: from, shared: Arc::clone(&self.shared) }))
    }

    fn applied(&self) -> Lsn {
        self.shared.lock().nodes[self.number].machine.applied()
    }

    fn members(&self) -> &dyn Membership {
        &OnlySelf
    }

    fn kept_index(&self) -> u64 {
        u64::MAX
    }

    fn forget(&self, _: LogPosition) {}

    fn close(&self) {
        let waiting = std::mem::take(&mut self.shared.lock().nodes[self.number].barriers);
        waiting.into_iter().for_each(|(_, done)| done(Err(NotNow::Closed)));
    }
}

struct SharedTail {
    next: Lsn,
    shared: Arc<SharedLog>,
}

impl Tail for SharedTail {
    fn next_within(&mut self, _: Duration) -> Result<Option<EncodedRecord>, Gone> {
        let state = self.shared.lock();
        let at = usize::try_from(self.next.0 - state.first).unwrap();
        self.next.0 += 1;
        Ok(state.records.get(at).map(|(_, record)| record.clone()))
    }
}

/// What carries messages between nodes.
#[derive(Default)]
pub struct Wire {
    log: Arc<SharedLog>,
    nodes: Mutex<Vec<Sender<Sent>>>,
    /// How many password hashes were computed for other nodes.
    pub hashes: Arc<AtomicUsize>,
    faults: Mutex<VecDeque<Fault>>,
    /// Whoever is asked speaks another version.
    pub is_other_version: AtomicBool,
    /// The requests that were handed in.
    pub requests: Mutex<Vec<Vec<u8>>>,
    kept: Mutex<VecDeque<Kept>>,
}

/// A request on its way.
struct Kept {
    request: Vec<u8>,
    within: Duration,
    done: ForwarderDone,
}

type Sent = (Vec<u8>, Box<dyn FnOnce(Vec<u8>) + Send>);

/// What becomes of a message.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    NotSent,
    /// The request is lost; nobody knows.
    LoseRequest,
    /// It is carried out, and the answer is lost.
    LoseAnswer,
    /// It is on its way until [`Wire::let_go`].
    Keep,
}

impl Wire {
    /// What becomes of the next messages.
    pub fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Nothing more becomes of messages.
    pub fn mend(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// How long the one that is on its way may take for its answer; waits for one.
    pub fn kept_within(&self) -> Duration {
        loop {
            if let Some(kept) = self.kept.lock().unwrap().front() {
                return kept.within;
            }
            thread::yield_now();
        }
    }

    /// The same of the one that was sent last.
    pub fn last_kept_within(&self) -> Duration {
        self.kept.lock().unwrap().back().unwrap().within
    }

    /// The one that is on its way gets there, or nobody knows whether it does; waits for one.
    pub fn let_go(&self, gets_there: bool) {
        self.kept_within();
        let Kept { request, done, .. } = self.kept.lock().unwrap().pop_front().unwrap();
        if !gets_there {
            return done(Err(ForwardError::Unknown));
        }
        let answer = Box::new(move |octets: Vec<u8>| done(Ok(octets.into())));
        assert!(self.send(request, answer), "somebody decides");
    }

    /// How many requests were handed in.
    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    fn serve(&self, directory: &Arc<Directory>) {
        let (sender, receiver) = channel::<Sent>();
        self.nodes.lock().unwrap().push(sender);
        let (directory, hashes) = (Arc::clone(directory), Arc::clone(&self.hashes));
        thread::spawn(move || {
            let mut worker = directory.worker();
            while let Ok((octets, done)) = receiver.recv() {
                let mut hash =
                    worker.carry_out_forwarded(&octets, Box::new(|answer| done(answer.to_vec())));
                while let Some(waiting) = hash {
                    hashes.fetch_add(1, Ordering::Relaxed);
                    hash = worker.resume_forwarded(waiting.rest, waiting.job.run());
                }
                worker.idle();
            }
        });
    }

    /// Sends octets to the node that decides, as a forwarder does.
    pub fn send(&self, mut request: Vec<u8>, mut done: Box<dyn FnOnce(Vec<u8>) + Send>) -> bool {
        if self.is_other_version.load(Ordering::SeqCst) {
            // A later one: what is asked is of another version to it, and what it says here.
            request[0] ^= 2;
            let told = done;
            done = Box::new(move |mut answer| {
                answer[0] ^= 2;
                told(answer);
            });
        }
        let leader = self.log.lock().leader;
        let nodes = self.nodes.lock().unwrap();
        let Some(node) = leader.and_then(|leader| nodes.get(leader)) else { return false };
        node.send((request, done)).is_ok()
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Forwarder for Wire {
    fn forward(&self, request: Zeroizing<Vec<u8>>, within: Duration, done: ForwarderDone) {
        let request = request.to_vec();
        self.requests.lock().unwrap().push(request.clone());
        let fault = self.faults.lock().unwrap().pop_front();
        if let Some(Fault::Keep) = fault {
            return self.kept.lock().unwrap().push_back(Kept { request, within, done });
        }
        let done = Mutex::new(Some(done));
        match fault {
            None | Some(Fault::Keep) => {
                let done = Arc::new(done);
                let told = Arc::clone(&done);
                let answer =
                    move |octets: Vec<u8>| told.lock().unwrap().take().unwrap()(Ok(octets.into()));
                if !self.send(request, Box::new(answer)) {
                    done.lock().unwrap().take().unwrap()(Err(ForwardError::NotSent));
                }
            }
            Some(Fault::NotSent) => {
                done.into_inner().unwrap().unwrap()(Err(ForwardError::NotSent));
            }
            Some(Fault::LoseRequest) => {
                done.into_inner().unwrap().unwrap()(Err(ForwardError::Unknown));
            }
            Some(Fault::LoseAnswer) => {
                let lost = move |_| done.into_inner().unwrap().unwrap()(Err(ForwardError::Unknown));
                assert!(self.send(request, Box::new(lost)), "somebody decides");
            }
        }
    }
}
