//! A run: the warm-up, the measured time, what came of it.
//!
//! Invariant: the CPU time of the server is read at the two ends of the measured time, and only
//! answers within it count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cost::{Bill, Source};
use super::crew::{Crew, Following, Report};
use super::live::Live;
use super::own::{Account, Toll};
use super::plan::Plan;
use super::seconds::Seconds;
use super::tally::Tally;
use crate::failure::Failure;
use crate::interrupt::Ending;

/// What is watched while a crew works.
pub(crate) struct Watching {
    pub(crate) server: Option<Source>,
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
    /// What the server spent, where that can be told.
    pub(crate) server: Option<Bill>,
    /// What it took of the load generator.
    pub(crate) toll: Toll,
    /// The first reason why a connection failed.
    pub(crate) failure: Option<Failure>,
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
    let tallies = plan.kinds().into_iter().map(|kind| Ok((kind, Tally::new()?)));
    let ending = watching.ending;
    ending.heed(true);
    let mut watch = Watch {
        tallies: tallies.collect::<Result<_, Failure>>()?,
        seconds: Seconds::new(plan)?,
        crew: crew.begin(plan, Arc::clone(&ending)),
        last_us: None,
        failure: None,
        unreadable: None,
        others: None,
    };
    let start = watch.crew.start;
    watch.until(start);
    let account = Account::open(plan)?;
    let mut server = watching.server.map(Bill::open).transpose()?;
    let mut live = Live::new(watching.is_told);
    let mut second = 0;
    loop {
        second += 1;
        let over = start + Duration::from_secs(second);
        watch.until(over);
        let is_over = watch.crew.open == 0 || over >= watch.crew.end;
        if let Some(server) = &mut server {
            watch.look_at(server, second);
        }
        if !is_over {
            // Threads report a second soon after it, not at once.
            watch.until(over + REPORT_WAIT);
            watch.tell(&mut live, second);
            continue;
        }
        let outcome = watch.finish(server, account.close(), &mut live, second);
        ending.heed(false);
        return Ok(outcome);
    }
}

struct Watch {
    tallies: Vec<(&'static str, Tally)>,
    seconds: Seconds,
    crew: Following,
    last_us: Option<u64>,
    failure: Option<Failure>,
    /// Why what the server spends cannot be read any more.
    unreadable: Option<Failure>,
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

    /// Notes what the server spent in a second, counted from 1.
    fn look_at(&mut self, server: &mut Bill, second: u64) {
        match server.second() {
            Ok((cpu_us, bytes)) => self.seconds.spent(second - 1, Some(cpu_us), bytes),
            // Of a server that has died its connections tell, too, and they tell better.
            Err(failure) => {
                self.unreadable.get_or_insert(failure);
            }
        }
    }

    /// Waits for what is still under way, and adds up.
    fn finish(mut self, server: Option<Bill>, toll: Toll, live: &mut Live, second: u64) -> Outcome {
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
            server,
            toll: self.others.unwrap_or(toll),
            failure: self.failure.or(self.unreadable),
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
                for (kind, delta) in deltas {
                    if let Some((_, tally)) = self.tallies.get_mut(kind) {
                        self.seconds.add(second, kind, &delta);
                        tally.add(delta);
                    }
                }
            }
            Report::End { failure, last_us, toll } => {
                self.failure = self.failure.take().or(failure);
                self.last_us = self.last_us.max(last_us);
                if let Some(toll) = toll {
                    self.others.get_or_insert_default().add(toll);
                }
            }
        }
    }
}

/// How long after a second its reports are waited for.
const REPORT_WAIT: Duration = Duration::from_millis(60);
