//! The nodes, and a run from the beginning to the checks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::Chance as _;
use environment::SeededChance;
use history::log::{CommitLog as _, MemberState, Role, StateMachine as _};
use openraft::alias::JoinHandleOf;
use openraft::rt::AsyncRuntime as _;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::Summary;
use super::checks::Seen;
use super::clients;
use super::faults;
use super::network::{Link, Network};
use super::runtime::Clock;
use super::state::{self, BEGINNING, Known, State};
use crate::asks::Asks;
use crate::copies::Copies;
use crate::engine::{self, MemberStatus, Parts, RaftLog, caught_up};
use crate::errands::Errands;
use crate::log_store::LogStore;
use crate::options::{LOG_KEEP_BYTES, Options};
use crate::simulated::SimulatedLog;
use crate::types::{Node, Runtime, Types};

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) nodes: u64,
    /// How many faults there are before everything heals.
    pub(super) faults: usize,
    pub(super) plant: Option<Plant>,
    /// Whether the members change meanwhile.
    pub(super) changes: bool,
    /// How much of the log is kept, in bytes.
    pub(super) log_keep_bytes: u64,
}

impl Kind {
    pub(super) const fn nodes(nodes: u64) -> Self {
        let (plant, log_keep_bytes) = (None, LOG_KEEP_BYTES);
        Self { nodes, faults: 10, plant, changes: false, log_keep_bytes }
    }

    /// The members change while things go wrong.
    pub(super) const fn changing(nodes: u64) -> Self {
        Self { faults: 30, changes: true, ..Self::nodes(nodes) }
    }

    /// The log is kept for a moment only, so that members get copies of the data.
    pub(super) const fn copying(nodes: u64) -> Self {
        Self { faults: 20, log_keep_bytes: 2 << 10, ..Self::nodes(nodes) }
    }

    /// The same, while the members change: those that come have nothing.
    pub(super) const fn copying_and_changing(nodes: u64) -> Self {
        Self { log_keep_bytes: 2 << 10, ..Self::changing(nodes) }
    }
}

/// Something that is wrong on purpose: the checks must find it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Plant {
    /// A leader goes on as that after a restart, in the same term.
    RestoresLeader,
    /// The writer acknowledges before the log does.
    AcknowledgesEarly,
    /// The client is told that nothing happened where that is not known.
    UnknownAsRefused,
    /// Reads do not ask the others.
    ReadsUnasked,
    /// A node is read before it has what it had before it crashed.
    ServesAtOnce,
    /// A request is decided again that has happened.
    RetriesBlindly,
    /// Node 1 leaves out the last change of records that another decided.
    SkipsChanges,
    /// The first records that node 2 is sent are altered on the way.
    AltersInTransit,
    /// The journal of node 1 is without its end.
    LosesEndOfLog,
}

/// Chance that repeats.
#[derive(Clone)]
pub(super) struct Dice(Arc<Mutex<SeededChance>>);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SeededChance(seed))))
    }

    /// A number below `end`.
    pub(super) fn below(&self, end: u64) -> u64 {
        let mut octets = [0; 8];
        self.0.lock().unwrap().fill(&mut octets);
        u64::from_le_bytes(octets) % end.max(1)
    }

    pub(super) fn percent(&self, percent: u64) -> bool {
        percent > 0 && self.below(100) < percent
    }

    pub(super) fn duration(&self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_micros()).unwrap();
        from + Duration::from_micros(self.below(span + 1))
    }
}

/// One node: what outlives a crash, and what runs.
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) disk: SimulatedLog,
    pub(super) plant: Option<Plant>,
    /// How far its time of day is ahead of an hour ago.
    pub(super) ahead: Mutex<Duration>,
    began: Instant,
    /// Another one in each life.
    state: Mutex<Arc<State>>,
    running: Mutex<Option<Arc<RaftLog>>>,
    /// How often it was started.
    life: Mutex<u64>,
    /// The last life in which it served clients.
    served: Mutex<u64>,
}

impl Member {
    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap())
    }

    pub(super) fn log(&self) -> Option<Arc<RaftLog>> {
        self.running.lock().unwrap().clone()
    }

    pub(super) fn life(&self) -> u64 {
        *self.life.lock().unwrap()
    }

    /// Its log, if it serves clients, and in which life it does.
    pub(super) fn serving(&self) -> Option<(Arc<RaftLog>, u64)> {
        let life = self.life();
        let serves = *self.served.lock().unwrap() == life;
        self.log().filter(|_| serves).map(|log| (log, life))
    }

    /// What its clock shows, in µs since 1970.
    pub(super) fn wall_clock_us(&self) -> u64 {
        let ahead = *self.ahead.lock().unwrap() + self.began.elapsed();
        1_700_000_000_000_000 + u64::try_from(ahead.as_micros()).unwrap()
    }

    /// It serves clients from now on, one of which has waited for that.
    fn serve(&self, life: u64, seen: &Seen) {
        if self.life() == life && self.log().is_some() {
            *self.served.lock().unwrap() = life;
            seen.local_read(self.id, self.state().last().lsn);
        }
    }
}

pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) dice: Dice,
    pub(super) network: Network,
    pub(super) members: BTreeMap<u64, Arc<Member>>,
    pub(super) seen: Arc<Seen>,
    pub(super) crashes: usize,
    /// Changes of the members that came to their end.
    pub(super) changes: Arc<AtomicUsize>,
    seed: u64,
    /// How far clocks are too slow or too fast, in parts of a thousand.
    drift: u64,
    clocks: BTreeMap<u64, Clock>,
    began: Instant,
    tasks: Vec<JoinHandleOf<Types, ()>>,
    template: Arc<TempDir>,
    folder: TempDir,
    known: Arc<Known>,
}

/// A clock that is as wrong as `drift` allows.
fn clock(dice: &Dice, drift: u64) -> Clock {
    Clock::new(1000 - drift + dice.below(2 * drift + 1))
}

impl World {
    pub(super) fn new(seed: u64, kind: Kind) -> Self {
        let dice = Dice::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(kind.nodes));
        let (template, folder) = (state::template(), state::folder());
        // In half of the runs the clocks are up to a tenth too slow or too fast.
        let drift = if dice.percent(50) { 100 } else { 0 };
        let clocks: BTreeMap<_, _> = (1..=kind.nodes).map(|id| (id, clock(&dice, drift))).collect();
        let network = Network::new(dice.clone(), clocks.clone(), kind.plant);
        let mut world = Self {
            kind,
            dice,
            network,
            members: BTreeMap::new(),
            seen: Arc::new(Seen::new(kind.plant)),
            crashes: 0,
            changes: Arc::default(),
            seed,
            drift,
            clocks,
            began: Instant::now(),
            tasks: Vec::new(),
            template,
            folder,
            known: Arc::default(),
        };
        (1..=kind.nodes).for_each(|id| world.make(id));
        world
    }

    /// A node that has what all have from the start.
    fn make(&mut self, id: u64) {
        let place = self.folder.path().join(id.to_string());
        std::fs::create_dir(&place).unwrap();
        let skips = self.kind.plant == Some(Plant::SkipsChanges) && id == 1;
        let known = Arc::clone(&self.known);
        let state = State::first(&self.template.path().join("data"), &place, skips, known);
        let syncs = Duration::from_micros(200)..=Duration::from_millis(8);
        let member = Member {
            id,
            disk: SimulatedLog::new(self.dice.below(u64::MAX), syncs),
            plant: self.kind.plant,
            ahead: Mutex::new(Duration::from_secs(3600)),
            began: self.began,
            state: Mutex::new(Arc::new(state)),
            running: Mutex::default(),
            life: Mutex::default(),
            served: Mutex::default(),
        };
        self.members.insert(id, Arc::new(member));
    }

    /// The clients of a node begin.
    fn attend(&mut self, id: u64) {
        let member = &self.members[&id];
        let parts = || {
            let dice = Dice::new(self.dice.below(u64::MAX));
            (Arc::clone(member), Arc::clone(&self.seen), dice)
        };
        let (one, seen, dice) = parts();
        self.tasks.push(Runtime::spawn(clients::write(one, seen, dice)));
        let (one, seen, dice) = parts();
        self.tasks.push(Runtime::spawn(clients::read(one, seen, dice)));
        let (one, seen, dice) = parts();
        self.tasks.push(Runtime::spawn(clients::follow(one, seen, dice)));
        let (one, seen, dice) = parts();
        self.tasks.push(Runtime::spawn(clients::flush(one, seen, dice)));
    }

    pub(super) async fn run(mut self) -> Summary {
        for id in 1..=self.kind.nodes {
            self.prepare(id).await;
            self.start(id).await;
        }
        (1..=self.kind.nodes).for_each(|id| self.attend(id));
        for _ in 0..self.kind.faults {
            let pause = self.dice.duration(Duration::from_millis(100), Duration::from_millis(1800));
            sleep(pause).await;
            faults::one(&mut self).await;
            self.admit().await;
            self.seen.check_logs(&self.members);
        }
        self.heal().await;
        self.part().await;
        self.seen.stop();
        for task in std::mem::take(&mut self.tasks) {
            task.await.unwrap();
        }
        self.settle().await;
        self.seen.check(&self.members);
        for member in self.members.values() {
            let log = member.running.lock().unwrap().take();
            drop(log);
        }
        let changes = self.changes.load(Ordering::Relaxed);
        let copies = self.known.copies.load(Ordering::Relaxed);
        Summary { crashes: self.crashes, changes, copies, ..self.seen.summary() }
    }

    /// Nodes that joined are started.
    async fn admit(&mut self) {
        let listed = self.listed().map(|(members, _)| members).unwrap_or_default();
        for id in listed.into_iter().map(|member| member.id) {
            if !self.members.contains_key(&id) {
                let clock = clock(&self.dice, self.drift);
                self.clocks.insert(id, clock);
                self.network.add(id, clock);
                self.make(id);
                self.prepare(id).await;
                self.start(id).await;
                self.attend(id);
            }
        }
    }

    /// Who takes part, as whoever decides says, and whether that is so for good.
    pub(super) fn listed(&self) -> Option<(Vec<MemberStatus>, bool)> {
        let logs = self.members.values().filter_map(|member| member.log());
        let deciding = logs.filter(|log| matches!(log.role(), Role::Deciding(_)));
        let status = deciding.map(|log| log.status()).max_by_key(|status| status.term)?;
        Some((status.members, status.is_settled))
    }

    /// When nothing goes wrong any more, those that take part are told from those that do not:
    /// these go.
    async fn part(&mut self) {
        let began = Instant::now();
        let members = loop {
            if let Some((members, true)) = self.listed() {
                break members;
            }
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "no change of the members comes to an end"
            );
            self.revive().await;
            sleep(Duration::from_millis(50)).await;
        };
        self.admit().await;
        let gone = |id: &u64| members.iter().all(|member| member.id != *id);
        let gone: Vec<u64> = self.members.keys().copied().filter(gone).collect();
        for id in gone {
            self.crash(id);
            self.members.remove(&id);
        }
        let voters = members.iter().filter(|member| member.state == MemberState::Voter).count();
        assert!(voters % 2 == 1, "{voters} voters");
    }

    /// The log begins behind what all nodes have from the start.
    async fn prepare(&self, id: u64) {
        let member = &self.members[&id];
        member.disk.open().reset_after(BEGINNING).await.unwrap();
    }

    pub(super) async fn start(&self, id: u64) {
        let member = &self.members[&id];
        // It may be crashed twice at a time.
        if member.log().is_some() {
            return;
        }
        let life = {
            let mut life = member.life.lock().unwrap();
            *life += 1;
            *life
        };
        let members = (1..=self.kind.nodes).map(|id| {
            let node = Node {
                address: format!("node{id}"),
                url: format!("ldap://node{id}"),
                ..Node::default()
            };
            (id, node)
        });
        let seed = self.seed.wrapping_mul(1009).wrapping_add(id * 31 + life);
        let mut options = Options::new(id, members.collect(), seed);
        options.restores_leader = self.kind.plant == Some(Plant::RestoresLeader);
        options.outcome_wait = Duration::from_secs(3);
        options.log_keep_bytes = self.kind.log_keep_bytes;
        self.network.begin(id, life);
        let copies = Copies::new(member.state(), Errands::inline(), options.copy_rate_bytes);
        let network = self.network.clone();
        let link = Link { network, from: id, life, to: 0, copies: Some(Arc::clone(&copies)) };
        let parts = Parts {
            state: member.state(),
            log: LogStore::new(member.disk.open()),
            options,
            errands: Errands::inline(),
            copies,
            asks: Asks::Simulated(link.clone()),
        };
        let clock = self.clocks[&id];
        let started = clock.scope(Runtime::scope(seed, engine::start(parts, link))).await;
        let engine::Started { log, receiver, .. } =
            started.unwrap_or_else(|reason| panic!("node {id}: {reason}"));
        let log = Arc::new(log);
        self.network.join(id, receiver, &log);
        *member.running.lock().unwrap() = Some(Arc::clone(&log));
        if self.kind.plant == Some(Plant::ServesAtOnce) {
            member.serve(life, &self.seen);
        }
        let (member, seen) = (Arc::clone(member), Arc::clone(&self.seen));
        let caught_up = caught_up(log.0.clone(), Duration::from_millis(100));
        Runtime::spawn(async move {
            if caught_up.await.is_ok() {
                member.serve(life, &seen);
            }
        });
    }

    /// Takes the power from a node.
    pub(super) fn crash(&mut self, id: u64) {
        let member = &self.members[&id];
        if member.serving().is_some() {
            // The last that a client sees of it.
            self.seen.local_read(id, member.state().last().lsn);
        }
        let Some(log) = member.running.lock().unwrap().take() else { return };
        self.crashes += 1;
        self.network.leave(id);
        member.disk.crash();
        let next = member.state().after_crash(member.life() + 1, self.dice.percent(50));
        *member.state.lock().unwrap() = Arc::new(next);
        self.seen.crashed(id);
        // It runs on without knowing, and reaches nothing any more.
        drop(log);
    }

    /// Everything works again.
    async fn heal(&mut self) {
        self.network.heal();
        for member in self.members.values() {
            member.disk.stall(false);
            member.disk.fill(false);
        }
        self.revive().await;
        sleep(Duration::from_secs(3)).await;
    }

    /// Starts what failed anew.
    pub(super) async fn revive(&mut self) {
        let ids: Vec<u64> = self.members.keys().copied().collect();
        for id in ids {
            let role = self.members[&id].log().map(|log| log.role());
            if let Some(Role::Failed(reason)) = &role {
                // That is waited for.
                assert!(!reason.contains("no space"), "node {id} ended: {reason}");
            }
            if role.is_none_or(|role| matches!(role, Role::Failed(_))) {
                self.crash(id);
                self.start(id).await;
            }
        }
    }

    /// Waits until all nodes have applied the same.
    async fn settle(&mut self) {
        let began = Instant::now();
        loop {
            // A sync that was to fail may do so only now.
            self.revive().await;
            let logs: Vec<_> = self.members.values().filter_map(|member| member.log()).collect();
            let is_alike = logs.iter().all(|log| log.status().diverged.is_none());
            assert!(is_alike, "a node takes its data for others than those of the log");
            let deciding = logs.iter().filter(|log| matches!(log.role(), Role::Deciding(_)));
            let is_led = deciding.count() == 1;
            let applied: Vec<_> =
                self.members.values().map(|member| member.state().applied()).collect();
            let is_idle = logs.iter().all(|log| log.in_flight() == 0);
            if is_led && is_idle && applied.windows(2).all(|pair| pair[0] == pair[1]) {
                return;
            }
            let roles: Vec<_> = logs.iter().map(|log| log.role()).collect();
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "the nodes do not come together: applied {applied:?}, roles {roles:?}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
}
