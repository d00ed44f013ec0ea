//! Fault rounds with a cluster: its nodes, their network, disks and clocks fail under real clients,
//! and in the end all of them must hold exactly what was acknowledged, and the same.
//!
//! Each round: clients write at every node; something fails, as `fault` lists it; then all must
//! serve and follow one leader, and writes must be acknowledged again. No two nodes ever lead in
//! one term, and no node and no connection shows less than it has shown. After the last round the
//! trees of all nodes are compared with the answers and with each other, and `roster check` looks
//! at the files of each. A long run has `roster cluster verify` compare them after each round.
//! Start at [`run`]; the processes are in `nodes`, the clients in `load`, what is right in `judge`.
//!
//! Invariant: no wait is without a limit; a node that does not come back fails the run. What must
//! be right is asserted; how long it takes is told.

mod clock;
mod disks;
mod fault;
mod flip;
mod judge;
mod load;
mod medium;
mod network;
mod nodes;
mod report;
mod rounds;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::fault::Order;
pub use self::fault::{Fault, Flip, KINDS, Kind, Members, Part, Partition, Rest, Upgrade, Victim};
use self::load::{Account, BUSY, Fate, Gap, Load, NO_ROOM, OTHER, Shared, UNAVAILABLE};
pub use self::medium::{Loss, Lost, Media};
use self::nodes::{Cluster, View, Wanted};
pub use self::report::Totals;
use self::rounds::Programs;
pub use self::tools::missing;
use crate::chance::Chance;
use crate::client::Tree;
pub use crate::crash::Failure;
use crate::crash::server::{Place, now, pause};

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and where its data go; they must not exist yet.
    pub place: Place,
    /// How many nodes: 3 or 5.
    pub nodes: usize,
    /// When it is over.
    pub until: Until,
    /// Where chance starts. What happens depends on the machine too.
    pub seed: u64,
    /// Concurrent clients.
    pub clients: usize,
    /// The longest time for which a node is frozen.
    pub pause_max: Duration,
    /// The faults that take turns.
    pub faults: Vec<Fault>,
    /// All nodes are compared with what was acknowledged after each round, not after the last only.
    pub judges_each: bool,
    /// Syncs do nothing and say that all is well, so that power losses take what was acknowledged.
    pub syncs_lie: bool,
    /// The members are compared with each other by a command after each round, under load.
    pub verifies: bool,
    /// The program of the release before: the cluster begins with it, and upgrades are from it.
    pub before: Option<PathBuf>,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Until {
    /// After so many faults.
    Rounds(u64),
    /// With the first round that ends after so long.
    Time(Duration),
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
    let cluster = Cluster::start(&place(options), wanted(options));
    let mut run = Run::new(cluster.map_err(|error| failed(0, "at first", error))?, options);
    run.wait_healthy(false).map_err(|error| failed(0, "at first", error))?;
    let clients = run.start_clients(options);
    let mut order = Order::new(&options.faults, Chance::new(options.seed, ORDER_STREAM));
    let (start, mut round) = (now(), 0);
    while !options.until.is_over(round, start.elapsed()) {
        round += 1;
        let fault = order.next();
        let (begin, before) = (now(), run.acknowledged());
        let done = run.round(fault);
        let gap = done.map_err(|error| failed(round, &fault.to_string(), error))?;
        if options.judges_each {
            let wrong = run.judge_held(options.clients).unwrap_or_else(|error| vec![error]);
            if !wrong.is_empty() {
                return Err(Failure { round, story: fault.to_string(), faults: wrong });
            }
        }
        if options.verifies {
            let verified = run.verify();
            verified.map_err(|error| failed(round, &format!("{fault}, and after it"), error))?;
        }
        run.note_round(fault, gap, before);
        progress(&format!(
            "round {round}: {fault}: {} ms without a write, {} ms in all, {} acknowledged so far",
            gap.as_millis(),
            begin.elapsed().as_millis(),
            run.acknowledged()
        ));
        if round.is_multiple_of(SUMS_EVERY) {
            progress(&run.sums(start.elapsed()));
        }
    }
    let wrong = run.finish(clients).unwrap_or_else(|error| vec![error]);
    if wrong.is_empty() {
        return Ok(std::mem::take(&mut run.totals));
    }
    Err(Failure { round, story: "after the last".to_owned(), faults: wrong })
}

impl Until {
    fn is_over(self, rounds: u64, time: Duration) -> bool {
        match self {
            Self::Rounds(count) => rounds >= count,
            Self::Time(limit) => time >= limit,
        }
    }
}

/// The program that begins, and its settings.
fn place(options: &Options) -> Place {
    let mut place = options.place.clone();
    if let Some(before) = &options.before {
        place.roster.clone_from(before);
    }
    if options.faults.iter().any(|fault| matches!(fault, Fault::Members(_))) {
        let small = SMALL_LOG.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        place.environment.extend(small);
    }
    place
}

/// What the faults take.
fn wanted(options: &Options) -> Wanted {
    let has = |is_it: fn(&Fault) -> bool| options.faults.iter().any(is_it);
    Wanted {
        count: options.nodes,
        networks: has(|fault| tools::takes_root(*fault)),
        disks: has(|fault| matches!(fault, Fault::FullDisk(_) | Fault::SlowDisk(_))),
        clocks: has(|fault| matches!(fault, Fault::Clock(_))),
        media: has(|fault| matches!(fault, Fault::Power(..) | Fault::FailedSync(..))),
        lies: options.syncs_lie,
    }
}

struct Run {
    cluster: Cluster,
    shared: Arc<Shared>,
    chance: Chance,
    /// Draws what a medium loses.
    medium_chance: Chance,
    totals: Totals,
    /// Asks single nodes for a write.
    probe: Load,
    /// Who led in each term, by number in the cluster.
    leaders: BTreeMap<u64, u64>,
    pause_max: Duration,
    programs: Programs,
}

impl Run {
    fn new(cluster: Cluster, options: &Options) -> Self {
        let may_be_full = options.faults.iter().any(|fault| matches!(fault, Fault::FullDisk(_)));
        let may_dangle = options.before.is_some();
        let shared = Arc::new(Shared::new(cluster.doors(), may_be_full, may_dangle));
        let chance = |stream: u64| Chance::new(options.seed, stream);
        let probe = Load::new(options.clients, Arc::clone(&shared), chance(PROBE_STREAM));
        Self {
            cluster,
            shared,
            chance: chance(FAULT_STREAM),
            medium_chance: chance(MEDIUM_STREAM),
            totals: Totals::default(),
            probe,
            leaders: BTreeMap::new(),
            pause_max: options.pause_max,
            programs: Programs {
                before: options.before.clone().unwrap_or_else(|| options.place.roster.clone()),
                this: options.place.roster.clone(),
                were_all_new: false,
            },
        }
    }

    fn note_round(&mut self, fault: Fault, gap: Duration, acknowledged_before: u64) {
        let written = self.acknowledged() - acknowledged_before;
        self.totals.rounds += 1;
        self.totals.gaps.entry(fault).or_default().push(gap);
        *self.totals.written.entry(fault).or_default() += written;
    }

    /// Sums so far, in a line.
    fn sums(&self, time: Duration) -> String {
        let longest = self
            .totals
            .gaps
            .iter()
            .flat_map(|(fault, gaps)| gaps.iter().map(move |gap| (*gap, *fault)));
        let longest = longest.max().map_or_else(String::new, |(gap, fault)| {
            format!("; the longest time without one: {} ms, {fault}", gap.as_millis())
        });
        let (rounds, acknowledged) = (self.totals.rounds, self.acknowledged());
        let minutes = time.as_secs() / 60;
        format!("{minutes} minutes, {rounds} rounds: {acknowledged} acknowledged{longest}")
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

    fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// One fault, until everything works again; the longest time without an acknowledged write.
    fn round(&mut self, fault: Fault) -> Result<Duration, String> {
        self.wait_writes()?;
        pause(Duration::from_millis(self.chance.below(LOAD_MAX_MS)));
        let victims = match fault.victim() {
            Some(victim) => self.victims(victim)?,
            None => Vec::new(),
        };
        self.gap().restart();
        self.strike(fault, &victims)?;
        self.wait_healthy(false)?;
        self.wait_writes()?;
        if self.shared.is_wrong.load(Ordering::Relaxed) {
            return Err(self.wrong_of_clients());
        }
        Ok(self.gap().longest())
    }

    /// What the clients have seen that is not right.
    fn wrong_of_clients(&self) -> String {
        let wrong = self.shared.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.join("; ")
    }

    /// Has a node compare all members, under load, until it says that they are alike.
    fn verify(&mut self) -> Result<(), String> {
        let begin = now();
        loop {
            let which = self.chance.below(self.cluster.count() as u64) as usize;
            let said = self.run_tool(self.cluster.command(&["verify"], &[which])?, &[])?;
            let all = format!("{} members have stored the same", self.cluster.count());
            if said.is_success() && said.output.contains(&all) {
                self.totals
                    .took("'verify' says that all members are alike, after", begin.elapsed());
                return Ok(());
            }
            let is_other = said.output.contains("entries differ among");
            if is_other || begin.elapsed() > HEALTHY_MAX {
                return Err(format!("node {}: verify: {said:?}", which + 1));
            }
            // A member was not compared: it was behind, or the one that was asked was.
            self.totals.count(format!("'verify' was given again: {}", said.reason()));
            self.watch(VERIFY_AGAIN, &[])?;
        }
    }

    fn victims(&mut self, victim: Victim) -> Result<Vec<usize>, String> {
        let count = self.cluster.count();
        let leader = self.wait_healthy(false)?;
        let mut nodes: Vec<usize> = (0..count).collect();
        Ok(match victim {
            Victim::All => nodes,
            Victim::Leader => vec![leader],
            Victim::Follower => {
                nodes.retain(|which| *which != leader);
                self.draw(nodes, 1)
            }
            Victim::Minority => self.draw(nodes, (count - 1) / 2),
        })
    }

    /// So many of these, by chance.
    fn draw(&mut self, mut nodes: Vec<usize>, count: usize) -> Vec<usize> {
        let mut drawn = Vec::new();
        while drawn.len() < count && !nodes.is_empty() {
            drawn.push(nodes.swap_remove(self.chance.below(nodes.len() as u64) as usize));
        }
        drawn
    }

    /// What all nodes say of themselves but those that are not asked. An error when one of them
    /// ended unasked, cannot go on, or leads in a term in which another led.
    fn look(&mut self, unasked: &[usize]) -> Result<Vec<Option<View>>, String> {
        let mut views = Vec::new();
        for which in 0..self.cluster.count() {
            if unasked.contains(&which) {
                views.push(None);
                continue;
            }
            let view = self.cluster.view(which)?;
            if let Some(view) = &view {
                if view.member != self.cluster.id(which)? {
                    return Err(format!("node {} says it is member {}", which + 1, view.member));
                }
                if let Some(error) = &view.error {
                    return Err(format!("node {} cannot go on: {error}", which + 1));
                }
                self.note_leader(which, view)?;
            }
            views.push(view);
        }
        Ok(views)
    }

    fn note_leader(&mut self, which: usize, view: &View) -> Result<(), String> {
        if view.role != "leader" {
            return Ok(());
        }
        let id = self.cluster.id(which)?;
        match self.leaders.insert(view.term, id) {
            Some(other) if other != id => {
                let term = view.term;
                Err(format!("members {other} and {id} both lead in term {term}"))
            }
            _ => Ok(()),
        }
    }

    /// Looks at the nodes for a while.
    fn watch(&mut self, time: Duration, unasked: &[usize]) -> Result<(), String> {
        let begin = now();
        loop {
            self.look(unasked)?;
            let Some(left) = time.checked_sub(begin.elapsed()) else { return Ok(()) };
            pause(left.min(LOOK_EVERY));
        }
    }

    /// Waits until all nodes serve and follow one that leads; with `still`, until they have all
    /// applied the same and nothing is under way. Which one leads.
    fn wait_healthy(&mut self, still: bool) -> Result<usize, String> {
        let begin = now();
        let mut goal = None;
        loop {
            let views = self.look(&[])?;
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
    fn wait_writes(&mut self) -> Result<(), String> {
        let (begin, before) = (now(), self.acknowledged());
        while self.acknowledged() < before + WRITES_MIN {
            if begin.elapsed() > HEALTHY_MAX {
                let limit = HEALTHY_MAX.as_secs();
                let nodes = 0..self.cluster.count();
                let views: Vec<_> = nodes.map(|which| self.cluster.view(which)).collect();
                return Err(format!("no writes are acknowledged in {limit} s: {views:?}"));
            }
            pause(LOOK_EVERY);
        }
        Ok(())
    }

    /// Compares while nobody writes; what is wrong.
    fn judge_held(&mut self, clients: usize) -> Result<Vec<String>, String> {
        self.shared.hold.store(true, Ordering::SeqCst);
        let begin = now();
        while self.shared.shown().len() < clients {
            if begin.elapsed() > HEALTHY_MAX {
                return Err(format!("clients do not pause in {} s", HEALTHY_MAX.as_secs()));
            }
            pause(LOOK_EVERY);
        }
        self.wait_healthy(true)?;
        let mut accounts: Vec<Account> = self.shared.shown().values().cloned().collect();
        accounts.push(self.probe.account.clone());
        let wrong = judge::judge(&accounts, &self.trees()?);
        self.shared.hold.store(false, Ordering::SeqCst);
        Ok(wrong)
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
        let mut accounts = joined.map_err(|_| "a client panicked".to_owned())?;
        accounts.push(std::mem::take(&mut self.probe.account));
        self.sum(&accounts);
        self.wait_healthy(true)?;
        let faults = judge::judge(&accounts, &self.trees()?);
        if faults.is_empty() {
            self.cluster.stop()?;
            self.cluster.check()?;
        }
        Ok(faults)
    }

    fn trees(&mut self) -> Result<Vec<Tree>, String> {
        (0..self.cluster.count()).map(|which| self.cluster.tree(which)).collect()
    }

    fn sum(&mut self, accounts: &[Account]) {
        let totals = &mut self.totals;
        for account in accounts {
            let with = |code: i64| account.codes.get(&code).copied().unwrap_or(0);
            let certain = account.codes.iter().filter(|(code, _)| !NOT_REFUSED.contains(code));
            totals.acknowledged += with(0);
            totals.deleted += account.deleted;
            totals.unknown += with(OTHER) + account.unanswered;
            totals.unavailable += with(BUSY) + with(UNAVAILABLE) + with(NO_ROOM);
            if account.stale > 0 {
                totals.add(STALE, account.stale);
            }
            totals.refused += certain.map(|(_, count)| count).sum::<u64>();
            let added = account.written.values();
            totals.entries +=
                added.filter(|written| written.fate == Fate::Acknowledged).count() as u64;
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Clients of a run that failed.
        self.shared.stop.store(true, Ordering::Relaxed);
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

/// Sums are told after so many rounds.
const SUMS_EVERY: u64 = 20;
/// A comparison that did not have all members is begun again after so long.
const VERIFY_AGAIN: Duration = Duration::from_secs(1);
/// Where members come and go: little of the log is kept, so that copies are made, and of the log of
/// accesses.
const SMALL_LOG: [(&str, &str); 4] = [
    ("ROSTER_CLUSTER__LOG_KEEP_MIB", "8"),
    ("ROSTER_STORE__JOURNAL_KEEP_MIB", "8"),
    ("ROSTER_ACCESS_LOG__ROTATE_SIZE_MIB", "16"),
    ("ROSTER_ACCESS_LOG__KEEP_FILES", "1"),
];
/// How long it may take until a cluster works again, or is still.
const HEALTHY_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A cluster works when so many writes more are acknowledged.
const WRITES_MIN: u64 = 20;
/// The longest time under load before a fault.
const LOAD_MAX_MS: u64 = 300;
/// Answers that do not refuse a request by what it asks for.
const NOT_REFUSED: [i64; 5] = [0, BUSY, UNAVAILABLE, NO_ROOM, OTHER];
/// What such reads are called in the end.
const STALE: &str = "reads at a node that applies nothing any more that showed less than their \
                     connection had shown";
/// Streams of chance beside those of the clients.
const ORDER_STREAM: u64 = 1 << 20;
const FAULT_STREAM: u64 = ORDER_STREAM + 1;
const PROBE_STREAM: u64 = ORDER_STREAM + 2;
const MEDIUM_STREAM: u64 = ORDER_STREAM + 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn view(role: &str, term: u64, applied_lsn: u64) -> Option<View> {
        let (committed_index, last_index) = (applied_lsn + 1, applied_lsn + 1);
        let role = role.to_owned();
        let member = 1;
        Some(View { member, role, term, applied_lsn, committed_index, last_index, error: None })
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
}
