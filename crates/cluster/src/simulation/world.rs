//! The nodes, and a run from the beginning to the checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use environment::Chance as _;
use environment::SeededChance;
use history::log::conformance::Ledger;
use history::log::{CommitLog as _, Role, StateMachine as _};
use openraft::rt::AsyncRuntime as _;
use store::LogPosition;
use tokio::time::{Instant, sleep};

use super::Summary;
use super::checks::Seen;
use super::clients;
use super::faults;
use super::network::{Link, Network};
use crate::engine::{self, Parts, RaftLog};
use crate::errands::Errands;
use crate::log_store::LogStore;
use crate::options::Options;
use crate::simulated::SimulatedLog;
use crate::types::{Node, Runtime};

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) nodes: u64,
    pub(super) restores_leader: bool,
    /// How many faults there are before everything heals.
    pub(super) faults: usize,
}

impl Kind {
    pub(super) const fn nodes(nodes: u64) -> Self {
        Self { nodes, restores_leader: false, faults: 12 }
    }
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
    /// Another one in each life.
    pub(super) ledger: Mutex<Arc<Ledger>>,
    pub(super) running: Mutex<Option<Arc<RaftLog>>>,
    /// How often it was started.
    pub(super) life: Mutex<u64>,
}

impl Member {
    pub(super) fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger.lock().unwrap())
    }

    pub(super) fn log(&self) -> Option<Arc<RaftLog>> {
        self.running.lock().unwrap().clone()
    }
}

pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) dice: Dice,
    pub(super) network: Network,
    pub(super) members: BTreeMap<u64, Arc<Member>>,
    pub(super) seen: Arc<Seen>,
    pub(super) crashes: usize,
    seed: u64,
}

impl World {
    pub(super) fn new(seed: u64, kind: Kind) -> Self {
        let dice = Dice::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(kind.nodes));
        let network = Network::new(dice.clone());
        let syncs = Duration::from_micros(200)..=Duration::from_millis(8);
        let member = |id| {
            let ledger = Ledger::default();
            ledger.begin_at(LogPosition { term: 1, index: 3 });
            let disk = SimulatedLog::new(dice.below(u64::MAX), syncs.clone());
            let ledger = Mutex::new(Arc::new(ledger));
            let (running, life) = (Mutex::new(None), Mutex::new(0));
            (id, Arc::new(Member { id, disk, ledger, running, life }))
        };
        let members = (1..=kind.nodes).map(member).collect();
        let seen = Arc::new(Seen::new());
        Self { kind, dice, network, members, seen, crashes: 0, seed }
    }

    pub(super) async fn run(mut self) -> Summary {
        for id in 1..=self.kind.nodes {
            self.prepare(id).await;
            self.start(id).await;
        }
        let clients: Vec<_> = self
            .members
            .values()
            .flat_map(|member| {
                let dice = Dice::new(self.dice.below(u64::MAX));
                let reads = Dice::new(self.dice.below(u64::MAX));
                let follow = clients::follow(Arc::clone(member), Arc::clone(&self.seen), reads);
                let write = clients::write(Arc::clone(member), Arc::clone(&self.seen), dice);
                [Runtime::spawn(follow), Runtime::spawn(write)]
            })
            .collect();
        for _ in 0..self.kind.faults {
            let pause = self.dice.duration(Duration::from_millis(100), Duration::from_millis(2500));
            sleep(pause).await;
            faults::one(&mut self).await;
            self.seen.check_logs(&self.members);
        }
        self.heal().await;
        self.seen.stop();
        for client in clients {
            client.await.unwrap();
        }
        self.settle().await;
        self.seen.check(&self.members);
        for member in self.members.values() {
            let log = member.running.lock().unwrap().take();
            drop(log);
        }
        Summary { crashes: self.crashes, ..self.seen.summary() }
    }

    /// The log begins behind what all nodes have from the start.
    async fn prepare(&self, id: u64) {
        let member = &self.members[&id];
        let place = journal::JournalPosition { term: 1, index: 3 };
        member.disk.open().reset_after(place).await.unwrap();
    }

    pub(super) async fn start(&self, id: u64) {
        let member = &self.members[&id];
        let life = {
            let mut life = member.life.lock().unwrap();
            *life += 1;
            *life
        };
        let members = self.members.keys().map(|id| {
            let node = Node { address: format!("node{id}"), url: format!("ldap://node{id}") };
            (*id, node)
        });
        let seed = self.seed.wrapping_mul(1009).wrapping_add(id * 31 + life);
        let mut options = Options::new(id, members.collect(), seed);
        options.restores_leader = self.kind.restores_leader;
        options.outcome_wait = Duration::from_secs(3);
        self.network.begin(id, life);
        let parts = Parts {
            state: member.ledger(),
            log: LogStore::new(member.disk.open()),
            options,
            errands: Errands::inline(),
            asks: None,
        };
        let link = Link { network: self.network.clone(), from: id, life, to: 0 };
        let started = Runtime::scope(seed, engine::start(parts, link)).await;
        let engine::Started { log, receiver, .. } =
            started.unwrap_or_else(|reason| panic!("node {id}: {reason}"));
        self.network.join(id, receiver);
        *member.running.lock().unwrap() = Some(Arc::new(log));
    }

    /// Takes the power from a node.
    pub(super) fn crash(&mut self, id: u64) {
        let member = &self.members[&id];
        let Some(log) = member.running.lock().unwrap().take() else { return };
        self.crashes += 1;
        self.network.leave(id);
        member.disk.crash();
        let next = Arc::new(member.ledger().after_crash());
        *member.ledger.lock().unwrap() = next;
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
        sleep(Duration::from_secs(8)).await;
    }

    /// Starts what failed anew.
    pub(super) async fn revive(&mut self) {
        let ids: Vec<u64> = self.members.keys().copied().collect();
        for id in ids {
            let log = self.members[&id].log();
            if log.is_none_or(|log| matches!(log.role(), Role::Failed(_))) {
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
            let deciding = logs.iter().filter(|log| matches!(log.role(), Role::Deciding(_)));
            let is_led = deciding.count() == 1;
            let applied: Vec<_> =
                self.members.values().map(|member| member.ledger().applied()).collect();
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
