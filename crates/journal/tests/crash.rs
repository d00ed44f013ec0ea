//! Power cuts and failing disks, hundreds of them: what was acknowledged is there, in order,
//! and what is there is what some prefix of the calls would have left.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "a failure is explained")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use journal::simulated::{Fault, SimDisk};
use journal::{
    Appended, Disk, Durability, Journal, JournalError, JournalOptions, JournalPosition,
    LAZY_SYNC_DEFAULT, copy,
};

const ID: [u8; 16] = *b"a store of tests";
const BLOCK: u64 = 4096;

/// splitmix64: the test depends on its seed alone.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What a journal should hold. Purging takes nothing away: what is purged may be read on.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    next: u64,
    term: u64,
    entries: BTreeMap<u64, (u64, Vec<u8>)>,
    vote: Option<Vec<u8>>,
    purged: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<Appended>, Durability),
    Truncate(u64),
    Vote(Vec<u8>),
    Purge(u64),
    Reset(u64),
}

impl Model {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Append(entries, _) => {
                for entry in entries {
                    let content = (entry.place.term, entry.payload.to_vec());
                    self.entries.insert(entry.place.index, content);
                    self.next = entry.place.index + 1;
                    self.term = entry.place.term;
                }
            }
            Step::Truncate(after) => {
                self.entries.split_off(&(after + 1));
                self.next = after + 1;
                self.term = self.entries.get(after).map_or(0, |entry| entry.0);
            }
            Step::Vote(vote) => self.vote = Some(vote.clone()),
            Step::Purge(upto) => self.purged = self.purged.max(*upto),
            Step::Reset(first) => {
                self.entries.clear();
                (self.next, self.term, self.purged) = (*first, 0, first - 1);
            }
        }
    }

    /// Whether this is what was found.
    fn is_found(&self, found: &Found) -> bool {
        let want = self.entries.range(found.first..);
        found.vote == self.vote
            && found.last.unwrap_or(found.first.max(self.next) - 1) + 1 == self.next
            && found.first <= self.purged + 1
            && found.needed == self.next - self.purged - 1
            && want.eq(&found.entries)
    }
}

/// What a journal holds after it was opened.
struct Found {
    first: u64,
    last: Option<u64>,
    needed: u64,
    vote: Option<Vec<u8>>,
    entries: BTreeMap<u64, (u64, Vec<u8>)>,
}

impl Found {
    fn new(journal: &Journal, needed: u64) -> Self {
        let first = journal.first();
        let mut entries = BTreeMap::new();
        for entry in journal.read(first).unwrap().map(Result::unwrap) {
            let before = entries.insert(entry.place.index, (entry.place.term, entry.payload));
            assert_eq!(before, None, "an entry twice");
        }
        let last = journal.last().map(|last| last.index);
        Self { first, last, needed, vote: journal.vote(), entries }
    }
}

/// How a round ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// With a power cut: what is synced is there.
    Cut,
    /// With the end of the process: what is written is there.
    Kill,
    /// With the end of the process, and a power cut while the next one opens the journal.
    KillAndCut,
}

/// One journal through all that happens to it. When a test fails it tells all of that.
struct Run {
    seed: u64,
    chance: Chance,
    options: JournalOptions,
    disk: SimDisk,
    /// Threads are held up now and then, so that they meet in other orders.
    is_restless: bool,
    end: End,
    /// What is acknowledged, by the durability that survives what comes next.
    held: Model,
    /// What was done since, of which a prefix may be there.
    open: Vec<Step>,
    stamp: u64,
    /// What finds no room waits for it, and it comes.
    waits: bool,
    /// Torn tails met.
    torn: u64,
    /// What was asked for, and what came of it.
    story: Vec<String>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}, restless: {}, {:?}", self.seed, self.is_restless, self.options);
            self.story.iter().for_each(|line| println!("  {line}"));
            println!("the disk:\n{}", self.disk.report());
        }
    }
}

impl Run {
    /// What the journal holds if all is there.
    fn now(&self) -> Model {
        let mut now = self.held.clone();
        self.open.iter().for_each(|step| now.apply(step));
        now
    }

    fn tell(&mut self, step: &Step, outcome: &Result<(), JournalError>) {
        let what = match step {
            Step::Append(entries, durability) => {
                let index = |entry: Option<&Appended>| entry.map_or(0, |entry| entry.place.index);
                let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
                let (first, last) = (index(entries.first()), index(entries.last()));
                format!("{durability:?} append {first}..={last}, {bytes} bytes")
            }
            step => format!("{step:?}"),
        };
        let outcome = outcome.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
        self.story.push(format!("{what}: {outcome}"));
    }

    fn step(&mut self, now: &Model) -> Step {
        match self.chance.below(40) {
            0 if now.next > now.purged + 1 => {
                let low = now.purged;
                Step::Truncate(low + self.chance.below(now.next - low))
            }
            1 => Step::Vote(vec![self.chance.below(256) as u8; 20]),
            2 | 3 if now.next > now.purged + 1 => {
                let count = now.next - now.purged - 1;
                // Often all: recovery then needs nothing but the last segment.
                let less = self.chance.below(count) * self.chance.below(4).min(1);
                Step::Purge(now.purged + count - less)
            }
            // It gives up what an earlier one left.
            5 => Step::Purge(self.chance.below(now.purged + 1)),
            4 if self.chance.below(8) == 0 => Step::Reset(now.next + self.chance.below(50)),
            _ => {
                let durability = match self.chance.below(4) {
                    0 => Durability::Written,
                    _ => Durability::Synced,
                };
                let term = now.term.max(1) + u64::from(self.chance.below(30) == 0);
                let count = self.chance.below(6) + 1;
                let entries = (0..count).map(|at| {
                    self.stamp += 1;
                    let length = match self.chance.below(20) {
                        0 => self.chance.below(20_000),
                        _ => self.chance.below(400),
                    };
                    let mut payload = vec![self.stamp as u8; length as usize];
                    payload.extend_from_slice(&self.stamp.to_le_bytes());
                    let place = JournalPosition { term, index: now.next + at };
                    Appended { place, payload: payload.into() }
                });
                Step::Append(entries.collect(), durability)
            }
        }
    }

    /// Does random steps until the journal is poisoned or the round is over.
    fn steps(&mut self, journal: &Journal) {
        for _ in 0..self.chance.below(60) + 5 {
            self.limit_space();
            self.rest();
            let now = self.now();
            let outcome = match self.step(&now) {
                Step::Append(entries, durability) => {
                    self.appends(journal, entries, durability, now)
                }
                step => self.controls(journal, step, &now),
            };
            match outcome {
                Err(JournalError::Poisoned { .. }) => return,
                Err(error @ JournalError::NoSpace { .. }) if self.waits => panic!("{error}"),
                Err(JournalError::NoSpace { .. } | JournalError::Io { .. }) | Ok(()) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.rest();
    }

    fn limit_space(&mut self) {
        let disk = &self.disk;
        match self.chance.below(40) {
            0 | 3 if self.waits => {
                let bytes = disk.used_bytes() + self.chance.below(4) * BLOCK;
                disk.limit_space_for(bytes, self.chance.below(12));
            }
            0 => disk.limit_space(Some(disk.used_bytes() + self.chance.below(4) * BLOCK)),
            1 | 2 => disk.limit_space(None),
            _ => {}
        }
    }

    /// Now and then leaves the journal without work for a while.
    fn rest(&mut self) {
        if self.is_restless && self.chance.below(4) == 0 {
            std::thread::park_timeout(Duration::from_micros(self.chance.below(2000)));
        }
    }

    /// Plans what goes wrong in this round, and how it ends.
    fn plan(&mut self) {
        let skip = self.chance.below(60);
        let fault = match self.chance.below(10) {
            0 | 1 => {
                self.disk.cut_power_after(self.chance.below(150));
                None
            }
            2 | 3 => Some((Fault::Sync, ErrorKind::Other)),
            4 => Some((Fault::Write, ErrorKind::Other)),
            5 => Some((Fault::Write, ErrorKind::StorageFull)),
            6 => Some((Fault::Names, ErrorKind::Other)),
            7 => Some((Fault::Allocate, ErrorKind::Other)),
            _ => None,
        };
        if let Some((fault, kind)) = fault {
            self.disk.fail(fault, skip, 1, kind);
        }
        self.end = match self.chance.below(6) {
            // After a failed sync not even the system's memory holds what was written.
            0 if fault.is_none_or(|(fault, _)| fault != Fault::Sync) => End::Kill,
            1 => End::KillAndCut,
            _ => End::Cut,
        };
        self.story.push(format!("a round with {fault:?} after {skip}, ends with {:?}", self.end));
    }

    /// Does what is written and synced on its own.
    fn controls(&mut self, journal: &Journal, step: Step, now: &Model) -> Result<(), JournalError> {
        let outcome = control(journal, &step);
        self.tell(&step, &outcome);
        // Where nothing changes nothing is written or synced: it says nothing of what was before.
        let is_nothing = match step {
            Step::Truncate(after) => after + 1 == now.next,
            Step::Purge(upto) => upto <= now.purged,
            _ => false,
        };
        if is_nothing {
            return outcome;
        }
        self.open.push(step);
        match &outcome {
            Ok(()) => self.acknowledge(self.open.len()),
            Err(JournalError::Poisoned { .. }) => {}
            // It stands when only the removing of files failed.
            Err(_) if stands(journal, self.open.last()) => self.acknowledge(self.open.len()),
            Err(_) => drop(self.open.pop()),
        }
        outcome
    }

    /// Appends, often several at once without waiting for each; then takes the answers.
    fn appends(
        &mut self,
        journal: &Journal,
        entries: Vec<Appended>,
        durability: Durability,
        mut now: Model,
    ) -> Result<(), JournalError> {
        let (sender, answers) = crossbeam_channel::unbounded();
        let mut next = Some((entries, durability));
        let mut left = if self.chance.below(3) == 0 { self.chance.below(8) } else { 0 };
        while let Some((entries, durability)) = next.take() {
            let step = Step::Append(entries.clone(), durability);
            now.apply(&step);
            self.open.push(step);
            let (at, sender) = (self.open.len(), sender.clone());
            let done = move |answer| sender.send((at, durability, answer)).unwrap();
            journal.append(entries, durability, Box::new(done));
            while left > 0 && next.is_none() {
                left -= 1;
                if let Step::Append(entries, durability) = self.step(&now) {
                    next = Some((entries, durability));
                }
            }
        }
        drop(sender);
        let (mut before, mut durable) = (0, 0);
        let mut outcome = Ok(());
        let mut refused_from = None;
        for (at, durability, answer) in answers {
            assert!(at > before, "callbacks out of order");
            before = at;
            let step = self.open[at - 1].clone();
            self.tell(&step, &answer.clone().map(|_| ()));
            match answer {
                Ok(_) if outcome.is_err() => panic!("success after a failure"),
                Ok(_) if durability == Durability::Synced || self.end == End::Kill => durable = at,
                Ok(_) => {}
                Err(error) => {
                    if !matches!(error, JournalError::Poisoned { .. }) {
                        refused_from.get_or_insert(at - 1);
                    }
                    outcome = outcome.and(Err(error));
                }
            }
        }
        assert_eq!(before, self.open.len(), "an append without an answer");
        // What was refused is not there, nor what was built on it.
        self.open.truncate(refused_from.unwrap_or(usize::MAX));
        self.acknowledge(durable);
        outcome
    }

    fn acknowledge(&mut self, count: usize) {
        for step in self.open.drain(..count) {
            self.held.apply(&step);
        }
    }

    /// What the round leaves on the disk.
    fn end(&mut self) {
        self.disk = match self.end {
            End::Cut => {
                // Another power cut at the same moment might have left something else.
                let before = self.disk.clone();
                for _ in 0..2 {
                    self.disk = before.crash();
                    self.check();
                }
                before.crash()
            }
            End::Kill | End::KillAndCut => self.disk.kill(),
        };
        // Power cuts during recovery, and during the recovery from that.
        let mut is_cut = self.end == End::KillAndCut;
        while is_cut || (self.end != End::Kill && self.chance.below(3) == 0) {
            is_cut = false;
            self.disturb();
            let operations = self.chance.below(12);
            self.disk.cut_power_after(operations);
            let opened = Journal::open(self.arc(), self.options.clone());
            self.story.push(format!("power for {operations} operations, opened: {opened:?}"));
            drop(opened);
            self.disk = self.disk.crash();
        }
    }

    fn arc(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    fn disturb(&mut self) {
        if self.is_restless {
            self.disk.disturb(self.chance.below(u64::MAX) | 1);
        }
    }

    /// Opens what is left and goes on from there.
    fn reopen(&mut self) -> Journal {
        let (journal, model, is_torn) = self.check();
        self.story.push(format!("opened: {journal:?}"));
        self.torn += u64::from(is_torn);
        self.held = model;
        self.open.clear();
        self.disturb();
        journal
    }

    /// Opens what is left and finds the prefix of the steps that it holds; whether it was torn.
    fn check(&self) -> (Journal, Model, bool) {
        let verified = Journal::verify(&self.disk, &self.options, &mut |_, _| ());
        let source = copy::open(&self.disk, ID);
        let opened = Journal::open(self.arc(), self.options.clone());
        let (Ok((journal, report)), Ok(source)) = (opened, source) else {
            panic!("it cannot be opened: {verified:?}");
        };
        assert!(verified.is_sound(), "{verified:?}");
        assert_eq!(verified.torn, report.torn);
        assert_eq!(source.last(), journal.last());
        let mut model = self.held.clone();
        let mut steps = self.open.iter();
        let found = Found::new(&journal, report.entries);
        while !model.is_found(&found) {
            let Some(step) = steps.next() else {
                let held = (self.held.next, self.held.purged, &self.held.vote);
                let was = (found.first, found.last, found.needed, &found.vote);
                panic!(
                    "after {held:?} no prefix of {:?} is {was:?}: {journal:?}, {report:?}",
                    self.open
                );
            };
            model.apply(step);
        }
        (journal, model, report.torn.is_some())
    }
}

fn stands(journal: &Journal, step: Option<&Step>) -> bool {
    let status = journal.status();
    match step {
        Some(Step::Purge(upto)) => status.purged.map_or(0, |purged| purged.index) == *upto,
        Some(Step::Reset(first)) => status.last.is_none() && status.first == *first,
        _ => false,
    }
}

fn control(journal: &Journal, step: &Step) -> Result<(), JournalError> {
    match step {
        Step::Truncate(after) => journal.truncate_suffix(*after),
        Step::Vote(vote) => journal.save_vote(vote),
        Step::Purge(upto) => journal.purge(*upto),
        Step::Reset(first) => journal.reset(*first),
        Step::Append(..) => unreachable!(),
    }
}

/// An empty journal on a disk of its own.
fn begin(seed: u64, is_restless: bool) -> (Run, Journal) {
    let mut chance = Chance(seed);
    let lazy_sync = Duration::from_micros(200 << (2 * chance.below(4)));
    let options = JournalOptions {
        segment_bytes: BLOCK * (6 + chance.below(20)),
        keep_bytes: chance.below(3) * 20 * BLOCK,
        lazy_sync: if is_restless { lazy_sync } else { LAZY_SYNC_DEFAULT },
        ..JournalOptions::new(ID)
    };
    let disk = SimDisk::new(seed);
    let arc: Arc<dyn Disk> = Arc::new(disk.clone());
    let journal = Journal::create(arc, options.clone(), 1).unwrap();
    let mut run = Run {
        seed,
        chance,
        options,
        disk,
        is_restless,
        end: End::Cut,
        held: Model { next: 1, ..Model::default() },
        open: Vec::new(),
        stamp: 0,
        waits: seed % 2 == 1,
        torn: 0,
        story: Vec::new(),
    };
    run.disturb();
    (run, journal)
}

/// Six rounds of steps and crashes; the number of torn tails.
fn check_seed(seed: u64, is_restless: bool) -> u64 {
    let (mut run, mut journal) = begin(seed, is_restless);
    for _ in 0..6 {
        journal.wait_for_room(run.waits.then_some(Duration::from_micros(100)));
        run.plan();
        run.steps(&journal);
        run.end();
        // Not before: what it does when it is closed is not part of what the crash found.
        drop(journal);
        journal = run.reopen();
    }
    run.torn
}

/// More with JOURNAL_SEEDS=5000, one alone with JOURNAL_SEED=17.
fn check_seeds(count: u64, is_restless: bool) {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let one = number("JOURNAL_SEED");
    let (from, to) =
        one.map_or((0, number("JOURNAL_SEEDS").unwrap_or(count)), |seed| (seed, seed + 1));
    let torn: u64 = (from..to).map(|seed| check_seed(seed, is_restless)).sum();
    assert!(torn * 10 > to - from || one.is_some(), "only {torn} torn tails: too tame");
}

/// It writes nothing, so that what was only written before may still be lost.
#[test]
fn a_truncation_of_nothing_acknowledges_nothing() {
    for seed in 0..16 {
        let (mut run, journal) = begin(seed, false);
        let entry = |index| Appended {
            place: JournalPosition { term: 1, index },
            payload: vec![7; 100].into(),
        };
        let entries = (1..=6).map(entry).collect();
        run.appends(&journal, entries, Durability::Written, run.now()).unwrap();
        let now = run.now();
        run.controls(&journal, Step::Truncate(now.next - 1), &now).unwrap();
        run.end();
        drop(journal);
        drop(run.reopen());
    }
}

#[test]
fn what_was_acknowledged_survives_every_power_cut() {
    check_seeds(200, false);
}

/// Threads that are held up at the disk, and syncs and marks of a journal without work.
#[test]
fn what_was_acknowledged_survives_whatever_the_threads_do_first() {
    check_seeds(60, true);
}
