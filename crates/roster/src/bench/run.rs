//! A run: the threads with their connections, the warm-up, the measured time, what came of it.
//!
//! Who puts load on the server is a crew: threads of this process, or agents in other processes.
//! All of a crew connect first, then get the word to begin, and report what they count every
//! second.
//!
//! Invariant: the CPU time of the server is read at the two ends of the measured time, and only
//! answers within it count.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::cost::{Bill, Source};
use super::lane::{ANSWER_WAIT, Client, Flow, Lane};
use super::live::Live;
use super::open;
use super::plan::{Part, Plan};
use super::process::Process;
use super::seconds::Seconds;
use super::tally::{Delta, Tally};
use super::work::{Turn, Turns, Work};
use crate::connect::Login;
use crate::failure::Failure;

/// What one of a crew reports.
#[derive(Debug)]
pub(crate) enum Report {
    /// What was counted in a second of the measured time, by kind of operation.
    Second { second: u64, deltas: Vec<(usize, Delta)> },
    /// It is done, and why it failed if it did; when the last counted answer came; and what CPU
    /// time another process took.
    End { failure: Option<Failure>, last_us: Option<u64>, cpu_us: Option<u64> },
}

/// Those who put load on the server, connected and waiting for the word.
#[derive(Debug)]
pub(crate) struct Crew {
    /// Gives each the word, and when it was given.
    pub(crate) go: Vec<Sender<Instant>>,
    pub(crate) reports: Receiver<Report>,
}

/// What is watched while a crew works.
pub(crate) struct Watching {
    pub(crate) server: Option<Source>,
    /// A line for each second.
    pub(crate) is_told: bool,
}

/// What came of a run.
pub(crate) struct Outcome {
    /// What was counted, in the order of the plan's kinds.
    pub(crate) tallies: Vec<(&'static str, Tally)>,
    pub(crate) seconds: Vec<super::record::Second>,
    /// The measured time: as planned, or shorter when there was no more to do.
    pub(crate) measured: Duration,
    /// What the server spent, where that can be told.
    pub(crate) server: Option<Bill>,
    pub(crate) client_cpu_us: u64,
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

impl Crew {
    /// The threads of this process, which does this part of the plan.
    pub(crate) fn here(plan: &Arc<Plan>, part: Part, login: &Login) -> Result<Self, Failure> {
        plan.check()?;
        rehearse(plan, part)?;
        let turns: Vec<Arc<Turns>> =
            plan.streams.iter().map(|stream| Arc::new(Turns::new(stream))).collect();
        open::raise_file_limit(plan.connections())?;
        let mut clients: Vec<Vec<Client>> = (0..plan.threads).map(|_| Vec::new()).collect();
        let mut thread = 0;
        for (number, stream) in plan.streams.iter().enumerate() {
            let main = open::open(login, stream.connections, true)?;
            let mut second = match stream.has_second() {
                true => open::open(login, stream.connections, false)?,
                false => Vec::new(),
            };
            for main in main {
                if let Some(clients) = clients.get_mut(thread % plan.threads) {
                    clients.push(Client::new(number, main, second.pop()));
                }
                thread += 1;
            }
        }
        let (sender, reports) = channel();
        let mut crew = Self { go: Vec::new(), reports };
        for (thread, clients) in (0..).zip(clients) {
            let flows = flows(plan, part, &turns, &clients)?;
            let number = part.index * plan.threads as u64 + thread;
            let lane = Lane::new(plan, number, flows, clients, sender.clone())?;
            let (go, word) = channel();
            let plan = Arc::clone(plan);
            std::thread::spawn(move || lane.run(&plan, &word));
            crew.go.push(go);
        }
        Ok(crew)
    }
}

/// Makes the first request of each job, so that what cannot be asked is refused before anything is
/// connected.
pub(crate) fn rehearse(plan: &Plan, part: Part) -> Result<(), Failure> {
    for stream in &plan.streams {
        let mut work = Work::new(plan, stream, Arc::new(Turns::new(stream)), part)?;
        let mut out = Vec::new();
        for job in 0..stream.jobs.len() {
            for step in 0..2 {
                if work.stage(job, step).is_some() {
                    let turn = Turn { job, number: part.index };
                    work.write(turn, step, (1, b"cn=x"), &mut out)?;
                }
            }
        }
    }
    Ok(())
}

/// The streams of one thread, with its share of their rates.
fn flows(
    plan: &Plan,
    part: Part,
    turns: &[Arc<Turns>],
    clients: &[Client],
) -> Result<Vec<Flow>, Failure> {
    let mut flows = Vec::new();
    for (number, (stream, turns)) in plan.streams.iter().zip(turns).enumerate() {
        let here = clients.iter().filter(|client| client.is_of(number)).count();
        let share = here as f64 / stream.connections.max(1) as f64;
        let rate = stream.rate.map(|rate| rate * share);
        let work = Work::new(plan, stream, Arc::clone(turns), part)?;
        flows.push(Flow::new(work, stream.outstanding, rate, stream.latency_limit));
    }
    Ok(flows)
}

/// Gives the word and follows the crew to the end of the run.
pub(crate) fn watch(plan: &Plan, crew: Crew, watching: Watching) -> Result<Outcome, Failure> {
    let tallies = plan.kinds().into_iter().map(|kind| Ok((kind, Tally::new()?)));
    let mut watch = Watch {
        tallies: tallies.collect::<Result<_, Failure>>()?,
        seconds: Seconds::new(plan)?,
        reports: &crew.reports,
        open: crew.go.len(),
        last_us: None,
        failure: None,
        others_cpu_us: None,
    };
    let begin = now();
    for go in &crew.go {
        // One that is gone has said why.
        let _ = go.send(begin);
    }
    let start = begin + plan.warmup();
    let end = start + plan.duration();
    watch.until(start);
    let own = Process::own();
    let mut server = watching.server.map(Bill::open).transpose()?;
    let own_before_us = own.cpu_us()?;
    let mut live = Live::new(watching.is_told);
    let mut second = 0;
    loop {
        second += 1;
        let over = end.min(start + Duration::from_secs(second));
        watch.until(over);
        let is_over = watch.open == 0 || over >= end;
        let own_us = own.cpu_us()?.saturating_sub(own_before_us);
        if let Some(server) = &mut server {
            let (cpu_us, anonymous_bytes) = server.second()?;
            watch.seconds.spent(second - 1, Some(cpu_us), anonymous_bytes);
        }
        if !is_over {
            // Threads report a second soon after it, not at once.
            watch.until(over + REPORT_WAIT);
            watch.tell(&mut live, second);
            continue;
        }
        let ended_early = watch.open == 0 && now() < end;
        watch.until(end + ANSWER_WAIT + ANSWER_WAIT);
        let measured = match watch.last_us.filter(|_| ended_early) {
            Some(us) => Duration::from_micros(us),
            None => plan.duration(),
        };
        watch.tell(&mut live, second);
        return Ok(Outcome {
            seconds: watch.seconds.finish(measured),
            tallies: watch.tallies,
            measured,
            server,
            client_cpu_us: watch.others_cpu_us.unwrap_or(own_us),
            failure: watch.failure,
        });
    }
}

struct Watch<'w> {
    tallies: Vec<(&'static str, Tally)>,
    seconds: Seconds,
    reports: &'w Receiver<Report>,
    /// Those who have not ended yet.
    open: usize,
    last_us: Option<u64>,
    failure: Option<Failure>,
    /// CPU time of other processes.
    others_cpu_us: Option<u64>,
}

impl Watch<'_> {
    /// Collects reports until `end`, or until all have ended.
    fn until(&mut self, end: Instant) {
        while self.open > 0 {
            match self.reports.recv_timeout(end.saturating_duration_since(now())) {
                Ok(report) => self.take(report),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "a part of the load generator ended without a report";
                    self.failure.get_or_insert(Failure::local(reason));
                    self.open = 0;
                }
            }
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
            Report::End { failure, last_us, cpu_us } => {
                self.open -= 1;
                self.failure = self.failure.take().or(failure);
                self.last_us = self.last_us.max(last_us);
                if let Some(us) = cpu_us {
                    *self.others_cpu_us.get_or_insert(0) += us;
                }
            }
        }
    }
}

/// How long after a second its reports are waited for.
const REPORT_WAIT: Duration = Duration::from_millis(60);
