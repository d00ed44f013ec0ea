//! Power cuts and failing disks under the log of the engine: what was acknowledged is there, and
//! what is there is what some prefix of the calls would have left.

use std::io::ErrorKind;

use futures_util::FutureExt;
use journal::Disk;
use journal::simulated::Fault;
use openraft::StorageHelper;

use super::model::{Chance, Model, Step, append, control, found};
use super::*;

const BLOCK: u64 = 4096;
const ID: [u8; 16] = *b"a store of tests";

/// What a log is written on, with what may happen to it.
trait Ground {
    fn open(&mut self) -> LogStore;
    /// Something goes wrong during the next steps, perhaps.
    fn plan(&mut self, chance: &mut Chance, log: &LogStore);
    fn stall(&mut self, is_stalled: bool);
    /// The power is off; the log that was open is dropped before the next is opened.
    fn crash(&mut self, chance: &mut Chance, log: LogStore);
}

struct DiskGround {
    disk: SimDisk,
    options: JournalOptions,
    is_new: bool,
}

impl DiskGround {
    fn new(seed: u64, chance: &mut Chance) -> Self {
        let options = JournalOptions {
            segment_bytes: BLOCK * (6 + chance.below(20)),
            keep_bytes: chance.below(3) * 20 * BLOCK,
            ..JournalOptions::new(ID)
        };
        Self { disk: SimDisk::new(seed), options, is_new: true }
    }
}

impl Ground for DiskGround {
    fn open(&mut self) -> LogStore {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let options = self.options.clone();
        let journal = match std::mem::take(&mut self.is_new) {
            true => Journal::create(disk, options, 1).unwrap(),
            false => Journal::open(disk, options).unwrap().0,
        };
        LogStore::new(Arc::new(journal))
    }

    fn plan(&mut self, chance: &mut Chance, log: &LogStore) {
        match chance.below(9) {
            0 | 1 => self.disk.cut_power_after(chance.below(150)),
            2 => self.disk.fail(Fault::Sync, chance.below(60), 1, ErrorKind::Other),
            3 => self.disk.fail(Fault::Write, chance.below(60), 1, ErrorKind::Other),
            4 => {
                log.give_up_room();
                self.disk.limit_space(Some(self.disk.used_bytes() + chance.below(4) * BLOCK));
            }
            5 | 6 => {
                log.medium.wait_for_room(Some(Duration::from_micros(100)));
                let bytes = self.disk.used_bytes() + chance.below(4) * BLOCK;
                self.disk.limit_space_for(bytes, 1 + chance.below(12));
            }
            _ => {}
        }
    }

    fn stall(&mut self, is_stalled: bool) {
        self.disk.hold_syncs(is_stalled);
    }

    fn crash(&mut self, chance: &mut Chance, log: LogStore) {
        let after = self.disk.crash();
        let before = std::mem::replace(&mut self.disk, after);
        before.hold_syncs(false);
        drop(log);
        // Power cuts during recovery, and during the recovery from that.
        while chance.one_in(4) {
            self.disk.cut_power_after(chance.below(12));
            drop(Journal::open(Arc::new(self.disk.clone()), self.options.clone()));
            self.disk = self.disk.crash();
        }
    }
}

impl Ground for SimulatedLog {
    fn open(&mut self) -> LogStore {
        LogStore::new(Self::open(self))
    }

    fn plan(&mut self, chance: &mut Chance, log: &LogStore) {
        match chance.below(7) {
            0 | 1 => self.fail_next_sync(),
            2 => {
                log.give_up_room();
                self.fill(true);
            }
            3 => {
                self.fill(true);
                let (disk, full) = (self.clone(), Duration::from_millis(chance.below(5_000)));
                tokio::spawn(async move {
                    tokio::time::sleep(full).await;
                    disk.fill(false);
                });
            }
            _ => {}
        }
    }

    fn stall(&mut self, is_stalled: bool) {
        Self::stall(self, is_stalled);
    }

    fn crash(&mut self, _: &mut Chance, _: LogStore) {
        Self::crash(self);
    }
}

struct Run<G> {
    ground: G,
    chance: Chance,
    /// What is acknowledged.
    held: Model,
    /// What was asked since, of which a prefix may be there.
    open: Vec<Step>,
    /// Times that something was lost that was asked.
    losses: u64,
}

impl<G: Ground> Run<G> {
    fn now(&self) -> Model {
        let mut now = self.held.clone();
        self.open.iter().for_each(|step| now.apply(step));
        now
    }

    fn acknowledge(&mut self, count: usize) {
        self.open.drain(..count).for_each(|step| self.held.apply(&step));
    }

    /// Does random steps until one fails, which stops the engine.
    async fn steps(&mut self, log: &mut LogStore) -> io::Result<()> {
        let count = self.chance.below(40) + 5;
        let planned_at = self.chance.below(count);
        for at in 0..count {
            if at == planned_at {
                self.ground.plan(&mut self.chance, log);
            }
            let step = self.now().step(&mut self.chance);
            let outcome = match step {
                Step::Append(entries) => self.appends(log, entries).await,
                step => {
                    let outcome = control(log, &step).await;
                    let is_written = match &step {
                        Step::Committed(_) => false,
                        Step::Truncate(after) => *after != self.now().last(),
                        Step::Append(_) | Step::Purge(_) | Step::Vote(_) => true,
                    };
                    self.open.push(step);
                    if outcome.is_ok() && is_written {
                        self.acknowledge(self.open.len());
                    }
                    outcome
                }
            };
            outcome?;
            if self.chance.one_in(8) {
                let mut now = self.now();
                let mut shown = found(log).await;
                (now.committed, shown.committed) = (None, None);
                assert_eq!(shown, now);
            }
        }
        Ok(())
    }

    /// Appends, often several at once without waiting for each; then takes the answers.
    async fn appends(&mut self, log: &mut LogStore, entries: Vec<Entry>) -> io::Result<()> {
        let mut next = Some(entries);
        let mut left = if self.chance.one_in(3) { self.chance.below(8) } else { 0 };
        let mut outcomes = Vec::new();
        while let Some(entries) = next.take() {
            outcomes.push((self.open.len(), append(log, entries.clone()).await));
            self.open.push(Step::Append(entries));
            while left > 0 && next.is_none() {
                left -= 1;
                if let Step::Append(entries) = self.now().step(&mut self.chance) {
                    next = Some(entries);
                }
            }
        }
        let (_, last) = outcomes.last_mut().unwrap();
        let last = last.await;
        let (mut acknowledged, mut refused, mut failed) = (0, Vec::new(), None);
        let before = outcomes.len() - 1;
        for (number, (at, outcome)) in outcomes.into_iter().enumerate() {
            let outcome = match number == before {
                true => clone(&last),
                // A log that has failed refuses at once, before it has told of what was under way.
                false if last.is_err() => outcome.await,
                false => outcome.now_or_never().expect("callbacks are called in order"),
            };
            refused.extend((outcome.is_err() && !is_poisoned(&outcome)).then_some(at));
            match outcome {
                Ok(()) if failed.is_some() => panic!("success after a failure"),
                Ok(()) => acknowledged = at + 1,
                Err(error) => failed = Some(error),
            }
        }
        // What was refused for want of space is not there, nor what was built on it.
        refused.into_iter().rev().for_each(|at| drop(self.open.remove(at)));
        self.acknowledge(acknowledged);
        failed.map_or(Ok(()), Err)
    }

    /// Has the disk stand still, and the power fail then, with appends under way.
    async fn stall(&mut self, log: &mut LogStore) {
        self.ground.stall(true);
        for _ in 0..self.chance.below(4) {
            let Step::Append(entries) = self.now().step(&mut self.chance) else { continue };
            let outcome = append(log, entries.clone()).await.now_or_never();
            if outcome.as_ref().is_none_or(is_poisoned) {
                self.open.push(Step::Append(entries));
            }
            if let Some(outcome) = outcome {
                // A fault that was planned: the engine stops.
                return assert!(outcome.is_err(), "told before the sync");
            }
            let mut now = self.now();
            now.committed = None;
            let shown = Model { committed: None, ..found(log).await };
            assert_eq!(shown, now, "what is appended is readable at once");
        }
    }

    /// Opens what is left and finds the prefix of the steps that it holds.
    async fn reopen(&mut self, seed: u64) -> LogStore {
        let mut log = self.ground.open();
        let found = found(&mut log).await;
        let mut steps = self.open.iter();
        let mut model = self.held.clone();
        loop {
            let committed = model.committed.min(model.last());
            if found == (Model { committed, ..model.clone() }) {
                break;
            }
            let Some(step) = steps.next() else {
                let (held, open) = (&self.held, &self.open);
                panic!("seed {seed}: {held:?} and no prefix of {open:?} is {found:?}");
            };
            model.apply(step);
        }
        self.losses += u64::from(steps.next().is_some());
        self.held = found;
        self.open.clear();
        self.starts(&mut log).await;
        log
    }

    /// The engine can start on it, and applies what is committed.
    async fn starts(&self, log: &mut LogStore) {
        let mut base = Applied { last: self.held.purged, ..Applied::default() };
        let mut helper = StorageHelper::new(log, &mut base).with_id(1);
        let state = helper.get_initial_state().await.unwrap();
        assert_eq!(*state.vote_ref(), self.held.vote.unwrap_or_else(|| Vote::new(0, 1)));
        assert_eq!(base.last, self.held.committed.max(self.held.purged));
    }
}

/// Nobody knows whether it is there.
fn is_poisoned(outcome: &io::Result<()>) -> bool {
    matches!(outcome, Err(error) if error.to_string().contains("no more writes"))
}

fn clone(outcome: &io::Result<()>) -> io::Result<()> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

/// Rounds of steps and power cuts; how often something was lost.
async fn check_seed<G: Ground>(seed: u64, ground: G, chance: Chance, rounds: u64) -> u64 {
    let (held, open) = (Model::default(), Vec::new());
    let mut run = Run { ground, chance, held, open, losses: 0 };
    let mut log = run.ground.open();
    for _ in 0..rounds {
        let outcome = run.steps(&mut log).await;
        if outcome.is_ok() && run.chance.one_in(4) {
            run.stall(&mut log).await;
        }
        run.ground.crash(&mut run.chance, log);
        log = run.reopen(seed).await;
    }
    run.losses
}

/// The seeds to try: more with `LOG_SEEDS=5000`, one alone with `LOG_SEED=17`.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let all = 0..number("LOG_SEEDS").unwrap_or(count);
    number("LOG_SEED").map_or(all, |seed| seed..seed + 1)
}

#[test]
fn the_log_on_the_journal_survives_every_power_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut losses = 0;
    let seeds = seeds(100);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut chance = Chance(seed);
        let ground = DiskGround::new(seed, &mut chance);
        losses += runtime.block_on(check_seed(seed, ground, chance, 6));
    }
    assert!(losses * 2 > count || count == 1, "only {losses} losses: too tame");
}

#[test]
fn the_simulated_medium_keeps_what_the_journal_keeps() {
    let mut losses = 0;
    let seeds = seeds(100);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let ground = SimulatedLog::new(seed, Duration::ZERO..=Duration::from_millis(20));
        losses += paused().block_on(check_seed(seed, ground, Chance(seed), 6));
    }
    assert!(losses * 2 > count || count == 1, "only {losses} losses: too tame");
}
