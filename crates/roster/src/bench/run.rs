//! A run: the warm-up, the measured time, what came of it.
//!
//! Invariant: the CPU time of each server is read at the two ends of the measured time, and only
//! answers within it count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cost::{Bill, Source};
use super::crew::{Crew, Following, Loss, Report};
use super::live::Live;
use super::own::{Account, Toll};
use super::plan::Plan;
use super::seconds::Seconds;
use super::tally::{Delta, Place, Tally};
use crate::failure::Failure;
use crate::interrupt::Ending;

/// What is watched while a crew works.
pub(crate) struct Watching {
    /// Who tells what a server spends, for each server where somebody does.
    pub(crate) servers: Vec<Option<Source>>,
    /// A line for each second.
    pub(crate) is_told: bool,
    /// Asks for the end before its time.
    pub(crate) ending: Arc<Ending>,
}

/// What came of a run.
pub(crate) struct Outcome {
    /// What was counted, in the order of the plan's kinds.
    pub(crate) tallies: Vec<(&'static str, Tally)>,
    pub(crate) seconds: Vec<super::record::Second>,
    /// The measured time: as planned, or shorter when there was no more to do.
    pub(crate) measured: Duration,
    /// It was ended before its time: by who watched, or because a part of the load was lost.
    pub(crate) is_cut_short: bool,
    /// What came of each server.
    pub(crate) servers: Vec<ServerOutcome>,
    /// What it took of the load generator.
    pub(crate) toll: Toll,
    /// The first failure that is of no server.
    pub(crate) failure: Option<Failure>,
}

/// What came of one server.
pub(crate) struct ServerOutcome {
    pub(crate) connections: u64,
    /// What was counted, in the order of the plan's kinds; empty for a server alone, which has all
    /// there is.
    pub(crate) tallies: Vec<Tally>,
    /// What it spent, where that can be told.
    pub(crate) bill: Option<Bill>,
    /// Connections to it that were lost, and why the first was; none of them if only what it spent
    /// could not be read to the end.
    pub(crate) lost: Option<Loss>,
}

/// The time; benchmarks measure it, so they are the one place that takes it from the system.
#[allow(clippy::disallowed_methods, reason = "measures real time, which no test depends on")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Does nothing for so long.
#[allow(clippy::disallowed_methods, reason = "the phases of a benchmark are made of time")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Gives the word and follows the crew to the end of the run.
pub(crate) fn watch(plan: &Plan, crew: Crew, watching: Watching) -> Result<Outcome, Failure> {
    let kinds = plan.kinds();
    let tallies = kinds.iter().map(|kind| Ok((*kind, Tally::new()?)));
    let ending = watching.ending;
    ending.heed(true);
    let servers = crew.connections.iter().map(|connections| {
        let kinds = if crew.connections.len() > 1 { kinds.len() } else { 0 };
        let tallies = (0..kinds).map(|_| Tally::new()).collect::<Result<_, _>>()?;
        Ok(ServerOutcome { connections: *connections, tallies, bill: None, lost: None })
    });
    let servers = servers.collect::<Result<_, Failure>>()?;
    let mut watch = Watch {
        tallies: tallies.collect::<Result<_, Failure>>()?,
        seconds: Seconds::new(plan)?,
        servers,
        crew: crew.begin(plan, Arc::clone(&ending)),
        last_us: None,
        failure: None,
        others: None,
    };
    let start = watch.crew.start;
    watch.until(start);
    let account = Account::open(plan)?;
    for (server, source) in watch.servers.iter_mut().zip(watching.servers) {
        server.bill = source.map(Bill::open).transpose()?;
    }
    let mut live = Live::new(watching.is_told);
    let mut second = 0;
    loop {
        second += 1;
        let over = start + Duration::from_secs(second);
        watch.until(over);
        let is_over = watch.crew.open == 0 || over >= watch.crew.end;
        watch.look_at_servers(second);
        if !is_over {
            // Threads report a second soon after it, not at once.
            watch.until(over + REPORT_WAIT);
            watch.tell(&mut live, second);
            continue;
        }
        let outcome = watch.finish(account.close(), &mut live, second);
        ending.heed(false);
        return Ok(outcome);
    }
}

struct Watch {
    tallies: Vec<(&'static str, Tally)>,
    seconds: Seconds,
    servers: Vec<ServerOutcome>,
    crew: Following,
    last_us: Option<u64>,
    failure: Option<Failure>,
    /// What it took of other processes.
    others: Option<Toll>,
}

impl Watch {
    /// Collects reports until `moment`, until all have ended, or until the end.
    fn until(&mut self, moment: Instant) {
        while let Some(report) = self.crew.next(moment) {
            self.take(report);
        }
    }

    /// Notes what the servers spent in a second, counted from 1.
    fn look_at_servers(&mut self, second: u64) {
        let mut all: Option<(u64, Option<u64>)> = None;
        for server in &mut self.servers {
            match server.bill.as_mut().and_then(Bill::second) {
                None => {}
                Some(Ok((cpu_us, bytes))) => {
                    let (sum_us, sum) = all.unwrap_or((0, Some(0)));
                    all = Some((sum_us + cpu_us, sum.zip(bytes).map(|(sum, bytes)| sum + bytes)));
                }
                Some(Err(failure)) => Loss::add(&mut server.lost, Loss { connections: 0, failure }),
            }
        }
        if let Some((cpu_us, bytes)) = all {
            self.seconds.spent(second - 1, Some(cpu_us), bytes);
        }
    }

    /// Waits for what is still under way, and adds up.
    fn finish(mut self, toll: Toll, live: &mut Live, second: u64) -> Outcome {
        let ended_early = self.crew.open == 0 && now() < self.crew.end;
        while let Some(report) = self.crew.rest() {
            self.take(report);
        }
        let measured = match self.last_us.filter(|_| ended_early) {
            Some(us) => Duration::from_micros(us),
            None => self.crew.end.saturating_duration_since(self.crew.start),
        };
        self.tell(live, second);
        Outcome {
            seconds: self.seconds.finish(measured),
            tallies: self.tallies,
            measured,
            is_cut_short: self.crew.is_cut_short,
            servers: self.servers,
            toll: self.others.unwrap_or(toll),
            failure: self.failure,
        }
    }

    /// Closes a second, counted from 1, and shows it.
    fn tell(&mut self, live: &mut Live, second: u64) {
        let figures = self.seconds.close(second - 1);
        live.tell(&figures, &self.seconds.total_ns, self.seconds.errors);
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Second { second, deltas } => {
                for (place, delta) in deltas {
                    self.seconds.add(second, place.kind, &delta);
                    self.count(place, delta);
                }
            }
            Report::End(end) => {
                self.failure = self.failure.take().or(end.failure);
                self.last_us = self.last_us.max(end.last_us);
                if let Some(toll) = end.toll {
                    self.others.get_or_insert_default().add(toll);
                }
                for (server, lost) in end.lost {
                    if let Some(server) = self.servers.get_mut(server) {
                        // Why its connections were lost says more than why it could not be read.
                        let unread = server.lost.take_if(|lost| lost.connections == 0);
                        Loss::add(&mut server.lost, lost);
                        unread.into_iter().for_each(|unread| Loss::add(&mut server.lost, unread));
                    }
                }
            }
        }
    }

    fn count(&mut self, place: Place, delta: Delta) {
        let server = self.servers.get_mut(place.server);
        if let Some(tally) = server.and_then(|server| server.tallies.get_mut(place.kind)) {
            tally.add(delta.clone());
        }
        if let Some((_, tally)) = self.tallies.get_mut(place.kind) {
            tally.add(delta);
        }
    }
}

/// How long after a second its reports are waited for.
const REPORT_WAIT: Duration = Duration::from_millis(60);
