//! Fault rounds with a cluster: nodes are killed or frozen under real clients, and in the end all
//! of them must hold exactly what was acknowledged, and the same.
//!
//! Each round: clients write at every node; the leader, a follower or all are killed and started
//! again, or one of them is frozen for a while; then all must serve and follow one leader, and
//! writes must be acknowledged again. After the last round the trees of all nodes are compared with
//! the answers and with each other, and `roster check` looks at the files of each.
//! Start at [`run`]; the processes are in `nodes`, the clients in `load`, what is right in `judge`.
//!
//! Invariant: no wait is without a limit; a node that does not come back fails the run.

mod judge;
mod load;
mod nodes;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::load::{Account, BUSY, Fate, Gap, OTHER, Shared, UNAVAILABLE};
use self::nodes::{Cluster, View};
use crate::chance::Chance;
pub use crate::crash::Failure;
use crate::crash::server::{Place, now, pause};

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and where its data go; they must not exist yet.
    pub place: Place,
    /// How many nodes: 3 or 5.
    pub nodes: usize,
    /// How many faults.
    pub rounds: u64,
    /// Where chance starts. What happens depends on the machine too.
    pub seed: u64,
    /// Concurrent clients.
    pub clients: usize,
    /// The kinds that take turns.
    pub faults: Vec<Fault>,
}

/// What is done to a cluster in one round.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// `kill -9`, and a start after a time.
    Kill(Victim, Rest),
    /// SIGSTOP, and SIGCONT after a second or more.
    Pause(Victim),
}

/// To whom.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Victim {
    /// The one that leads.
    Leader,
    /// One that does not.
    Follower,
    /// All nodes.
    All,
}

/// How long a killed node stays down.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Rest {
    /// Less than an election takes.
    Short,
    /// Longer than that.
    Long,
}

impl Fault {
    /// The faults of each kind that has a name.
    pub const KINDS: [(&'static str, &'static [Self]); 2] = [
        (
            "kill",
            &[
                Self::Kill(Victim::Leader, Rest::Short),
                Self::Kill(Victim::Leader, Rest::Long),
                Self::Kill(Victim::Follower, Rest::Short),
                Self::Kill(Victim::Follower, Rest::Long),
                Self::Kill(Victim::All, Rest::Short),
                Self::Kill(Victim::All, Rest::Long),
            ],
        ),
        ("pause", &[Self::Pause(Victim::Leader), Self::Pause(Victim::Follower)]),
    ];

    const fn victim(self) -> Victim {
        match self {
            Self::Kill(victim, _) | Self::Pause(victim) => victim,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let victim = match self.victim() {
            Victim::Leader => "leader",
            Victim::Follower => "follower",
            Victim::All => "all",
        };
        match self {
            Self::Kill(_, Rest::Short) => write!(f, "kill {victim}, short rest"),
            Self::Kill(_, Rest::Long) => write!(f, "kill {victim}, long rest"),
            Self::Pause(_) => write!(f, "pause {victim}"),
        }
    }
}

/// Sums over all rounds.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Rounds that went well.
    pub rounds: u64,
    /// Writes acknowledged, all of which were found.
    pub acknowledged: u64,
    /// Writes without an answer, or with one that does not tell what became of them.
    pub unknown: u64,
    /// Writes that were answered with unavailable or busy.
    pub unavailable: u64,
    /// Writes that were refused for another reason, all on purpose.
    pub refused: u64,
    /// Entries that each node has of the clients.
    pub entries: u64,
    /// The longest times without an acknowledged write, one of each round.
    pub gaps: BTreeMap<Fault, Vec<Duration>>,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, acknowledged, unknown, unavailable, refused, entries, gaps } = self;
        write!(
            f,
            "{rounds} rounds: {acknowledged} writes acknowledged and all on every node, {unknown} \
             unknown, {unavailable} unavailable or busy, {refused} refused, {entries} entries"
        )?;
        for (fault, gaps) in gaps {
            let mut sorted = gaps.clone();
            sorted.sort();
            let ms = |gap: Option<&Duration>| gap.map_or(0, Duration::as_millis);
            let (median, longest) = (ms(sorted.get(sorted.len() / 2)), ms(sorted.last()));
            let times = sorted.len();
            write!(f, "\n  {:<28}", fault.to_string())?;
            write!(f, "{times:>4} times, without a write: median {median:>6} ms, longest ")?;
            write!(f, "{longest:>6} ms")?;
        }
        Ok(())
    }
}

/// Runs all rounds; `progress` gets a line for each.
///
/// # Errors
/// When something is not as it must be; the data are left as they are.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Totals, Failure> {
    let failed = |round: u64, story: &str, error: String| Failure {
        round,
        story: story.to_owned(),
        faults: vec![error],
    };
    let cluster = Cluster::start(&options.place, options.nodes);
    let mut run = Run::new(cluster.map_err(|error| failed(0, "at first", error))?, options);
    run.wait_healthy(false).map_err(|error| failed(0, "at first", error))?;
    let clients = run.start_clients(options);
    let mut faults = Faults::new(options);
    for round in 1..=options.rounds {
        let fault = faults.next();
        let begin = now();
        let done = run.round(fault);
        let gap = done.map_err(|error| failed(round, &fault.to_string(), error))?;
        run.totals.rounds += 1;
        run.totals.gaps.entry(fault).or_default().push(gap);
        progress(&format!(
            "round {round}: {fault}: {} ms without a write, {} ms in all, {} acknowledged so far",
            gap.as_millis(),
            begin.elapsed().as_millis(),
            run.shared.acknowledged.load(Ordering::Relaxed)
        ));
    }
    let wrong = run.finish(clients).unwrap_or_else(|error| vec![error]);
    if wrong.is_empty() {
        return Ok(run.totals);
    }
    Err(Failure { round: options.rounds, story: "after the last".to_owned(), faults: wrong })
}

/// Which fault comes next: all take turns, in an order that the seed tells.
struct Faults {
    all: Vec<Fault>,
    left: Vec<Fault>,
    chance: Chance,
}

impl Faults {
    fn new(options: &Options) -> Self {
        let chance = Chance::new(options.seed, ORDER_STREAM);
        Self { all: options.faults.clone(), left: Vec::new(), chance }
    }

    fn next(&mut self) -> Fault {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
        }
        let drawn = self.chance.below(self.left.len() as u64) as usize;
        // A run without any kind is one of the mildest.
        if self.left.is_empty() { Fault::Pause(Victim::Follower) } else { self.left.remove(drawn) }
    }
}

struct Run {
    cluster: Cluster,
    shared: Arc<Shared>,
    chance: Chance,
    totals: Totals,
}

impl Run {
    fn new(cluster: Cluster, options: &Options) -> Self {
        let shared = Arc::new(Shared::new(cluster.doors()));
        let chance = Chance::new(options.seed, FAULT_STREAM);
        Self { cluster, shared, chance, totals: Totals::default() }
    }

    fn start_clients(&self, options: &Options) -> Vec<JoinHandle<Account>> {
        let start = |number: usize| {
            let shared = Arc::clone(&self.shared);
            let chance = Chance::new(options.seed, number as u64);
            thread::spawn(move || load::run(number, &shared, chance))
        };
        (0..options.clients).map(start).collect()
    }

    fn gap(&self) -> MutexGuard<'_, Gap> {
        self.shared.gap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One fault, until everything works again; the longest time without an acknowledged write.
    fn round(&mut self, fault: Fault) -> Result<Duration, String> {
        self.wait_writes()?;
        pause(Duration::from_millis(self.chance.below(LOAD_MAX_MS)));
        let victims = self.victims(fault.victim())?;
        self.gap().restart();
        match fault {
            Fault::Kill(_, rest) => self.kill(&victims, rest)?,
            Fault::Pause(_) => {
                for which in &victims {
                    self.cluster.freeze(*which)?;
                }
                pause(Duration::from_millis(LONG_MS + self.chance.below(FREEZE_MORE_MS)));
                for which in &victims {
                    self.cluster.thaw(*which)?;
                }
            }
        }
        self.wait_healthy(false)?;
        self.wait_writes()?;
        Ok(self.gap().longest())
    }

    fn kill(&mut self, victims: &[usize], rest: Rest) -> Result<(), String> {
        for which in victims {
            self.cluster.kill(*which)?;
        }
        pause(Duration::from_millis(match rest {
            Rest::Short => self.chance.below(SHORT_MAX_MS + 1),
            Rest::Long => LONG_MS + self.chance.below(LONG_MORE_MS),
        }));
        for which in victims {
            self.cluster.start_again(*which)?;
        }
        Ok(())
    }

    fn victims(&mut self, victim: Victim) -> Result<Vec<usize>, String> {
        let count = self.cluster.count();
        let leader = match victim {
            Victim::All => return Ok((0..count).collect()),
            Victim::Leader | Victim::Follower => self.wait_healthy(false)?,
        };
        let followers: Vec<usize> = (0..count).filter(|which| *which != leader).collect();
        Ok(match victim {
            Victim::Follower => self.chance.pick(&followers).copied().into_iter().collect(),
            Victim::Leader | Victim::All => vec![leader],
        })
    }

    /// Waits until all nodes serve and follow one that leads; with `still`, until they have all
    /// applied the same and nothing is under way. Which one leads.
    fn wait_healthy(&mut self, still: bool) -> Result<usize, String> {
        let begin = now();
        let mut goal = None;
        loop {
            let mut views = Vec::new();
            for which in 0..self.cluster.count() {
                let view = self.cluster.view(which)?;
                if let Some(error) = view.as_ref().and_then(|view| view.error.clone()) {
                    return Err(format!("node {} cannot go on: {error}", which + 1));
                }
                views.push(view);
            }
            if let Some(leader) = healthy(&views, still, &mut goal) {
                return Ok(leader);
            }
            if begin.elapsed() > HEALTHY_MAX {
                let limit = HEALTHY_MAX.as_secs();
                return Err(format!("the cluster does not work after {limit} s: {views:?}"));
            }
            pause(LOOK_EVERY);
        }
    }

    /// Waits until more writes are acknowledged.
    fn wait_writes(&self) -> Result<(), String> {
        let count = || self.shared.acknowledged.load(Ordering::Relaxed);
        let (begin, before) = (now(), count());
        while count() < before + WRITES_MIN {
            if begin.elapsed() > HEALTHY_MAX {
                let limit = HEALTHY_MAX.as_secs();
                return Err(format!("no writes are acknowledged in {limit} s"));
            }
            pause(LOOK_EVERY);
        }
        Ok(())
    }

    /// Ends everything and compares; what is wrong.
    fn finish(&mut self, clients: Vec<JoinHandle<Account>>) -> Result<Vec<String>, String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let begin = now();
        while !clients.iter().all(JoinHandle::is_finished) {
            if begin.elapsed() > HEALTHY_MAX {
                return Err(format!("clients do not end in {} s", HEALTHY_MAX.as_secs()));
            }
            pause(LOOK_EVERY);
        }
        let joined: Result<Vec<Account>, _> = clients.into_iter().map(JoinHandle::join).collect();
        let accounts = joined.map_err(|_| "a client panicked".to_owned())?;
        self.sum(&accounts);
        self.wait_healthy(true)?;
        let trees: Result<Vec<_>, String> =
            (0..self.cluster.count()).map(|which| self.cluster.tree(which)).collect();
        let faults = judge::judge(&accounts, &trees?);
        if faults.is_empty() {
            self.cluster.stop()?;
            self.cluster.check()?;
        }
        Ok(faults)
    }

    fn sum(&mut self, accounts: &[Account]) {
        let totals = &mut self.totals;
        for account in accounts {
            let with = |code: i64| account.codes.get(&code).copied().unwrap_or(0);
            let certain = account.codes.iter().filter(|(code, _)| !NOT_REFUSED.contains(code));
            totals.acknowledged += with(0);
            totals.unknown += with(OTHER) + account.unanswered;
            totals.unavailable += with(BUSY) + with(UNAVAILABLE);
            totals.refused += certain.map(|(_, count)| count).sum::<u64>();
            let added = account.written.values();
            totals.entries +=
                added.filter(|written| written.fate == Fate::Acknowledged).count() as u64;
        }
    }
}

/// Which node leads, when all serve, follow that one and have applied what it had applied when this
/// was first so; with `still`, when nothing is under way.
fn healthy(views: &[Option<View>], still: bool, goal: &mut Option<u64>) -> Option<usize> {
    let views: Option<Vec<&View>> = views.iter().map(Option::as_ref).collect();
    let views = views?;
    let mut leaders = views.iter().enumerate().filter(|(_, view)| view.role == "leader");
    let (leader, leading) = leaders.next()?;
    let others = views.iter().enumerate().filter(|(which, _)| *which != leader);
    if !others.into_iter().all(|(_, view)| view.role == "follower" && view.term == leading.term) {
        return None;
    }
    if still {
        let state = |view: &View| (view.applied_lsn, view.committed_index, view.last_index);
        let is_still = leading.committed_index == leading.last_index;
        let are_alike = views.iter().all(|view| state(view) == state(leading));
        return (is_still && are_alike).then_some(leader);
    }
    let goal = *goal.get_or_insert(leading.applied_lsn);
    views.iter().all(|view| view.applied_lsn >= goal).then_some(leader)
}

/// Removes everything a run left.
pub fn clean(place: &Place) {
    crate::crash::clean(&place.folder);
}

/// How long it may take until a cluster works again, or is still.
const HEALTHY_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A cluster works when so many writes more are acknowledged.
const WRITES_MIN: u64 = 20;
/// The longest time under load before a fault.
const LOAD_MAX_MS: u64 = 300;
/// The longest of short rests.
const SHORT_MAX_MS: u64 = 50;
/// The shortest of long rests, and of the times for which a node is frozen.
const LONG_MS: u64 = 1000;
/// How much longer a long rest may be.
const LONG_MORE_MS: u64 = 1000;
/// How much longer a node may be frozen.
const FREEZE_MORE_MS: u64 = 2000;
/// Answers that do not refuse a request by what it asks for.
const NOT_REFUSED: [i64; 4] = [0, BUSY, UNAVAILABLE, OTHER];
/// Streams of chance beside those of the clients.
const ORDER_STREAM: u64 = 1 << 20;
const FAULT_STREAM: u64 = ORDER_STREAM + 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn view(role: &str, term: u64, applied_lsn: u64) -> Option<View> {
        let (committed_index, last_index) = (applied_lsn + 1, applied_lsn + 1);
        let role = role.to_owned();
        Some(View { role, term, applied_lsn, committed_index, last_index, error: None })
    }

    #[test]
    fn a_cluster_works_when_all_follow_one() {
        let (leader, follower) = (view("leader", 3, 9), view("follower", 3, 9));
        let works = |views: &[Option<View>], still| healthy(views, still, &mut None);
        let all = [follower.clone(), leader.clone(), follower.clone()];
        assert_eq!((works(&all, false), works(&all, true)), (Some(1), Some(1)));
        for other in [None, view("follower", 2, 9), view("leader", 2, 9), view("candidate", 3, 9)] {
            assert_eq!(works(&[follower.clone(), leader.clone(), other], false), None);
        }
        let behind = [view("follower", 3, 8), leader.clone(), follower.clone()];
        assert_eq!((works(&behind, false), works(&behind, true)), (None, None));
        assert_eq!(healthy(&behind, false, &mut Some(8)), Some(1));
    }

    #[test]
    fn all_faults_take_turns() {
        let place = Place { roster: "".into(), folder: "".into(), environment: Vec::new() };
        let all: Vec<Fault> =
            Fault::KINDS.iter().flat_map(|(_, kind)| kind.iter().copied()).collect();
        let (nodes, rounds, seed, clients) = (3, 8, 1, 1);
        let options = Options { place, nodes, rounds, seed, clients, faults: all.clone() };
        let mut faults = Faults::new(&options);
        let mut drawn: Vec<Fault> = all.iter().map(|_| faults.next()).collect();
        drawn.sort();
        assert_eq!(drawn, all);
    }
}
