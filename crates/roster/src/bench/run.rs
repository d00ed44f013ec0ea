//! A run: threads with their connections, the warm-up, the measured time, and what came of it.
//!
//! Invariant: the CPU time of the server is read at the two ends of the measured time, and only
//! answers within it count.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};

use super::answer::Expected;
use super::connection::{ANSWER_WAIT, Connection, Shared, Tally, Window};
use super::pace::Pace;
use super::pattern::{Numbers, Ranges};
use super::process::{Memory, Process};
use super::request::{Blueprint, Entries, Prepared, Source};
use crate::chance::Chance;
use crate::failure::Failure;
use crate::output;
use crate::template::Template;

/// What to do to which server, and for how long.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) address: (String, u16),
    /// DN and password each connection binds with.
    pub(crate) login: Option<(String, String)>,
    pub(crate) work: Work,
    pub(crate) expected: Arc<Expected>,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// Unanswered requests of each connection.
    pub(crate) outstanding: usize,
    /// Requests a second of all connections together; without, as fast as answers come.
    pub(crate) rate: Option<u32>,
    /// Whether a person is told how the run goes.
    pub(crate) is_told: bool,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) server: Option<Process>,
}

/// The requests of a run.
#[derive(Debug)]
pub(crate) enum Work {
    /// One request with numbers.
    Numbered { blueprint: Arc<Blueprint>, ranges: Ranges, order: Order },
    /// The entries of a template from this number on.
    Entries { template: Arc<Template>, first: u64 },
}

/// How numbers follow each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    /// Drawn.
    Random,
    /// Counted up, again and again.
    Sequential,
    /// Counted up, each once; then the run ends.
    Once,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// The measured time: as planned, or shorter when the requests ran out.
    pub(crate) measured: Duration,
    pub(crate) server_cpu_us: Option<u64>,
    pub(crate) client_cpu_us: u64,
    pub(crate) server_memory: Option<Memory>,
    /// Requests made in all, outside the measured time too.
    pub(crate) made: u64,
    /// Connections that failed, with the first reason.
    pub(crate) failure: Option<Failure>,
}

/// The time; benchmarks measure it, so they are the one place that takes it from the system.
#[allow(clippy::disallowed_methods, reason = "measures real time, which no test depends on")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Runs the plan; `threads` is between 1 and `connections`.
pub(crate) fn run(plan: &Plan) -> Result<Outcome, Failure> {
    let progress = Arc::new(AtomicU64::new(0));
    let turns = Arc::new(AtomicU64::new(match &plan.work {
        Work::Numbered { .. } => 0,
        Work::Entries { first, .. } => *first,
    }));
    // All threads and this one: no request is sent before every connection is open.
    let barrier = Barrier::new(plan.threads + 1);
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for thread in 0..plan.threads {
            let (sender, barrier) = (sender.clone(), &barrier);
            let (progress, turns) = (Arc::clone(&progress), Arc::clone(&turns));
            scope.spawn(move || {
                let lane = Lane { plan, thread, progress, turns, barrier };
                lane.run(&sender);
            });
        }
        drop(sender);
        barrier.wait();
        let mut outcome = watch(plan, &progress, &receiver)?;
        let first = match &plan.work {
            Work::Numbered { .. } => 0,
            Work::Entries { first, .. } => *first,
        };
        outcome.made = turns.load(Ordering::Relaxed).saturating_sub(first);
        Ok(outcome)
    })
}

/// One thread of a run.
struct Lane<'p> {
    plan: &'p Plan,
    thread: usize,
    progress: Arc<AtomicU64>,
    turns: Arc<AtomicU64>,
    barrier: &'p Barrier,
}

/// What a thread reports at its end.
struct Report {
    tally: Option<Tally>,
    failure: Option<Failure>,
}

impl Lane<'_> {
    fn run(&self, reports: &Sender<Report>) {
        let report =
            self.try_run().unwrap_or_else(|failure| Report { tally: None, failure: Some(failure) });
        // The receiver goes only when the run failed anyway.
        let _ = reports.send(report);
    }

    fn try_run(&self) -> Result<Report, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (connections, runtime) = match runtime {
            Ok(runtime) => (runtime.block_on(self.connect()), Ok(runtime)),
            Err(error) => (Ok(Vec::new()), Err(Failure::local(crate::failure::plain(&error)))),
        };
        let shared = self.shared();
        self.barrier.wait();
        let (connections, runtime, shared) = (connections?, runtime?, shared?);
        let start = now() + self.plan.warmup;
        let end = start + self.plan.duration;
        let window = Window { start, end, by_intent: self.plan.rate.is_some() };
        let shared = Rc::new(RefCell::new(shared));
        let failure = LocalSet::new().block_on(&runtime, self.drive(connections, &shared, window));
        let shared = Rc::into_inner(shared).map(RefCell::into_inner);
        Ok(Report { tally: shared.map(|shared| shared.tally), failure })
    }

    /// Opens this thread's share of the connections.
    async fn connect(&self) -> Result<Vec<Connection>, Failure> {
        let mut connections = Vec::new();
        for _ in (self.thread..self.plan.connections).step_by(self.plan.threads) {
            let mut connection = Connection::open(&self.plan.address).await?;
            if let Some((dn, password)) = &self.plan.login {
                connection.bind(dn, password).await?;
            }
            connections.push(connection);
        }
        Ok(connections)
    }

    fn shared(&self) -> Result<Shared, Failure> {
        let turns = Arc::clone(&self.turns);
        let source = match &self.plan.work {
            Work::Numbered { blueprint, ranges, order } => {
                let numbers = match order {
                    Order::Random => {
                        Numbers::Random(Chance::new(self.plan.seed, self.thread as u64))
                    }
                    Order::Sequential => Numbers::Sequential(turns),
                    Order::Once => Numbers::Once { next: turns, limit: ranges.distinct() },
                };
                Source::Prepared(Prepared::new(Arc::clone(blueprint), ranges.clone(), numbers)?)
            }
            Work::Entries { template, .. } => Source::Entries(Entries {
                generator: template.generator(self.plan.seed),
                next: turns,
                end: template.entries(),
            }),
        };
        Ok(Shared { source, tally: Tally::new(Arc::clone(&self.progress))? })
    }

    /// Drives all connections to their end; the first failure, if any.
    async fn drive(
        &self,
        connections: Vec<Connection>,
        shared: &Rc<RefCell<Shared>>,
        window: Window,
    ) -> Option<Failure> {
        let mut drives = JoinSet::new();
        let pace = self.plan.rate.map(|rate| {
            let rate = f64::from(rate) / self.plan.threads as f64;
            Rc::new(Pace::new(rate, now(), window.end))
        });
        if let Some(pace) = pace.clone() {
            drives.spawn_local(async move {
                pace.keep().await;
                Ok(())
            });
        }
        for connection in connections {
            let (shared, expected) = (Rc::clone(shared), Arc::clone(&self.plan.expected));
            let (outstanding, pace) = (self.plan.outstanding, pace.clone());
            drives.spawn_local(async move {
                match pace {
                    None => connection.drive(&shared, &expected, window, outstanding).await,
                    Some(pace) => connection.drive_paced(&shared, &expected, window, &pace).await,
                }
            });
        }
        let all = async {
            let mut failure = None;
            while let Some(end) = drives.join_next().await {
                let end = end.unwrap_or_else(|error| Err(Failure::local(error)));
                failure = failure.or(end.err());
            }
            failure
        };
        let limit = self.plan.warmup + self.plan.duration + ANSWER_WAIT;
        match tokio::time::timeout(limit, all).await {
            Ok(failure) => failure,
            Err(_) => Some(Failure::refused(format!(
                "the server left requests unanswered for {} s",
                ANSWER_WAIT.as_secs()
            ))),
        }
    }
}

/// Follows the run from outside: reads what the server spends, collects the reports.
fn watch(
    plan: &Plan,
    progress: &AtomicU64,
    reports: &Receiver<Report>,
) -> Result<Outcome, Failure> {
    let mut run = Watch { plan, reports, open: plan.threads, tally: None, failure: None };
    let start = now() + plan.warmup;
    let end = start + plan.duration;
    run.until(start);
    let own = Process::own();
    let before = run.spent(&own)?;
    let mut second = 0;
    while run.open > 0 && now() < end {
        second += 1;
        let counted = progress.load(Ordering::Relaxed);
        run.until(end.min(start + Duration::from_secs(second)));
        if plan.is_told && output::is_watched() {
            let rate = progress.load(Ordering::Relaxed) - counted;
            output::note(format_args!("{second:>5} s  {rate:>9} operations/s"));
        }
    }
    let after = run.spent(&own)?;
    let server_memory = plan.server.as_ref().map(Process::memory).transpose()?;
    let ended_early = run.open == 0;
    run.until(end + ANSWER_WAIT + ANSWER_WAIT);
    let Some(tally) = run.tally else {
        return Err(run.failure.unwrap_or_else(|| Failure::local("no thread reported")));
    };
    let last = tally.last.filter(|_| ended_early).unwrap_or(end);
    Ok(Outcome {
        measured: last.saturating_duration_since(start),
        tally,
        server_cpu_us: after.0.zip(before.0).map(|(after, before)| after - before),
        client_cpu_us: after.1 - before.1,
        server_memory,
        made: 0,
        failure: run.failure,
    })
}

struct Watch<'w> {
    plan: &'w Plan,
    reports: &'w Receiver<Report>,
    /// Threads that have not reported yet.
    open: usize,
    tally: Option<Tally>,
    failure: Option<Failure>,
}

impl Watch<'_> {
    /// Collects reports until `end`, or until all threads have reported.
    fn until(&mut self, end: Instant) {
        while self.open > 0 {
            let report = match self.reports.recv_timeout(end.saturating_duration_since(now())) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    self.open = 0;
                    return;
                }
            };
            self.open -= 1;
            self.failure = self.failure.take().or(report.failure);
            match (&mut self.tally, report.tally) {
                (Some(sum), Some(tally)) => sum.add(tally),
                (sum @ None, tally) => *sum = tally,
                (Some(_), None) => {}
            }
        }
    }

    /// CPU time of the server, if known, and of this process, in µs.
    fn spent(&self, own: &Process) -> Result<(Option<u64>, u64), Failure> {
        let server = self.plan.server.as_ref().map(Process::cpu_us).transpose()?;
        Ok((server, own.cpu_us()?))
    }
}
