//! Who puts load on the server: threads of this process, or agents in other processes.
//!
//! All of a crew connect first, then get the word to begin, and report what they count every
//! second; whoever gave the word follows them to the end, and can end it early. Connections are
//! shared out among servers in turn.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::halt::Halt;
use super::lane::{ANSWER_WAIT, Client, Flow, Lane};
use super::open;
use super::own::Toll;
use super::pace::Pace;
use super::plan::{Part, Plan, Stream};
use super::run::now;
use super::tally::{Delta, Place};
use super::work::{Turn, Turns, Work};
use crate::connect::Login;
use crate::failure::Failure;
use crate::interrupt::Ending;

/// What one of a crew reports.
#[derive(Debug)]
pub(crate) enum Report {
    /// What was counted in a second of the measured time, by server and kind of operation.
    Second { second: u64, deltas: Vec<(Place, Delta)> },
    /// It is done.
    End(End),
}

/// How one of a crew ended.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// Why it failed, if it did.
    pub(crate) failure: Option<Failure>,
    /// What it lost of servers, each with its number.
    pub(crate) lost: Vec<(usize, Loss)>,
    /// When the last counted answer came.
    pub(crate) last_us: Option<u64>,
    /// What the measured time took of another process.
    pub(crate) toll: Option<Toll>,
}

/// Connections to a server that were lost.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) connections: u64,
    /// Why the first of them was.
    pub(crate) failure: Failure,
}

impl End {
    pub(crate) fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

impl Loss {
    /// Adds more to what was lost, if anything was.
    pub(crate) fn add(lost: &mut Option<Self>, more: Self) {
        match lost {
            Some(lost) => lost.connections += more.connections,
            None => *lost = Some(more),
        }
    }
}

/// Tells one of a crew that the measured time ends now.
pub(crate) type Stop = Box<dyn FnMut() + Send>;

/// Those who put load on the servers, connected and waiting for the word.
pub(crate) struct Crew {
    /// Connections to each server.
    pub(crate) connections: Vec<u64>,
    /// Gives each the word, and when it was given.
    pub(crate) go: Vec<Sender<Instant>>,
    pub(crate) stop: Vec<Stop>,
    pub(crate) reports: Receiver<Report>,
}

/// A crew at work.
pub(crate) struct Following {
    /// How many servers there are.
    servers: usize,
    reports: Receiver<Report>,
    stop: Vec<Stop>,
    ending: Arc<Ending>,
    /// Those who have not ended yet.
    pub(crate) open: usize,
    /// When the measured time begins.
    pub(crate) start: Instant,
    /// When it ends.
    pub(crate) end: Instant,
    /// The end was asked for, or a part of the load was lost.
    pub(crate) is_cut_short: bool,
}

impl Crew {
    /// The threads of this process, which does this part of the plan on these servers.
    pub(crate) fn here(plan: &Arc<Plan>, part: Part, logins: &[Login]) -> Result<Self, Failure> {
        plan.check()?;
        rehearse(plan, part)?;
        let turns: Vec<Arc<Turns>> =
            plan.streams.iter().map(|stream| Arc::new(Turns::new(stream))).collect();
        open::raise_file_limit(plan.connections())?;
        let mut clients: Vec<Vec<Client>> = (0..plan.threads).map(|_| Vec::new()).collect();
        let mut next = first_of(plan, part);
        let mut thread = 0;
        for (number, stream) in plan.streams.iter().enumerate() {
            for client in open_stream(logins, stream, number, next)? {
                if let Some(clients) = clients.get_mut(thread % plan.threads) {
                    clients.push(client);
                }
                thread += 1;
            }
            next = next.wrapping_add(stream.connections);
        }
        let (sender, reports) = channel();
        let halt = Arc::new(Halt::new()?);
        let stopped = Arc::clone(&halt);
        let stop: Stop = Box::new(move || stopped.call(now()));
        let connections = connections_of(plan, part, logins.len());
        let mut crew = Self { connections, go: Vec::new(), stop: vec![stop], reports };
        for (thread, clients) in (0..).zip(clients) {
            let flows = flows(plan, part, &turns, &clients)?;
            let number = part.index * plan.threads as u64 + thread;
            let lane = Lane::new(plan, number, logins.len(), flows, clients, sender.clone())?;
            let lane = lane.until(Arc::clone(&halt))?;
            let (go, word) = channel();
            let plan = Arc::clone(plan);
            std::thread::spawn(move || lane.run(&plan, &word));
            crew.go.push(go);
        }
        Ok(crew)
    }
}

/// The server that the connection with this number is to.
fn server_of(connection: usize, servers: usize) -> usize {
    connection % servers.max(1)
}

/// The number of the first connection: each process goes on where the one before ends.
fn first_of(plan: &Plan, part: Part) -> usize {
    let all = plan.streams.iter().map(|stream| stream.connections).sum::<usize>();
    all.wrapping_mul(part.index as usize)
}

/// How many connections this part of a load has to each server, those for binds included.
pub(crate) fn connections_of(plan: &Plan, part: Part, servers: usize) -> Vec<u64> {
    let mut connections = vec![0; servers];
    let mut next = first_of(plan, part);
    for stream in &plan.streams {
        for _ in 0..stream.connections {
            let count = connections.get_mut(server_of(next, servers));
            count.into_iter().for_each(|count| *count += if stream.has_second() { 2 } else { 1 });
            next = next.wrapping_add(1);
        }
    }
    connections
}

/// Connections of a stream, shared out among the servers in turn: the first goes to the server with
/// the number `first`, counted around.
fn open_stream(
    logins: &[Login],
    stream: &Stream,
    number: usize,
    first: usize,
) -> Result<Vec<Client>, Failure> {
    let server_of = |connection: usize| server_of(first.wrapping_add(connection), logins.len());
    let mut opened = Vec::new();
    for (server, login) in logins.iter().enumerate() {
        let here = (0..stream.connections).filter(|place| server_of(*place) == server).count();
        let main = open::open(login, here, true)?;
        let second = match stream.has_second() {
            true => open::open(login, here, false)?,
            false => Vec::new(),
        };
        opened.push((main, second));
    }
    let mut clients = Vec::new();
    for server in (0..stream.connections).map(server_of) {
        let sockets = opened.get_mut(server);
        let sockets = sockets.and_then(|(main, second)| Some((main.pop()?, second.pop())));
        clients.extend(sockets.map(|(main, second)| Client::new(number, server, main, second)));
    }
    Ok(clients)
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
                    work.write(turn, step, 1, b"cn=x", &mut out)?;
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
        let pace = stream.pace.as_ref();
        let pace = pace.map(|pace| Arc::new(Pace { share: pace.share * share, ..pace.clone() }));
        let work = Work::new(plan, stream, Arc::clone(turns), part)?;
        flows.push(Flow::new(work, stream.outstanding, rate, stream.latency_limit).paced(pace));
    }
    Ok(flows)
}

impl Crew {
    /// Gives the word.
    pub(crate) fn begin(self, plan: &Plan, ending: Arc<Ending>) -> Following {
        let begin = now();
        for go in &self.go {
            // One that is gone has said why.
            let _ = go.send(begin);
        }
        let start = begin + plan.warmup();
        let end = start + plan.duration();
        let (open, Self { connections, stop, reports, .. }) = (self.go.len(), self);
        let servers = connections.len();
        Following { servers, reports, stop, ending, open, start, end, is_cut_short: false }
    }
}

impl Following {
    /// The next report before `moment` and before the end of the measured time, which may come
    /// early.
    pub(crate) fn next(&mut self, moment: Instant) -> Option<Report> {
        while self.open > 0 {
            if self.ending.is_asked() {
                self.cut_short();
            }
            let left = moment.min(self.end).saturating_duration_since(now());
            match self.reports.recv_timeout(left.min(LOOK_EVERY)) {
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                other => return Some(self.seen(other)),
            }
        }
        None
    }

    /// The next report after the end. What was added may have to be removed, which takes as long as
    /// it takes; somebody reports every second meanwhile.
    pub(crate) fn rest(&mut self) -> Option<Report> {
        if self.open == 0 {
            return None;
        }
        let report = self.reports.recv_timeout(ANSWER_WAIT + ANSWER_WAIT);
        Some(self.seen(report))
    }

    fn seen(&mut self, report: Result<Report, RecvTimeoutError>) -> Report {
        let report = report.unwrap_or_else(|_| {
            self.open = 1;
            let reason = "a part of the load generator ended without a report";
            Report::End(End::failed(Failure::local(reason)))
        });
        if let Report::End(end) = &report {
            self.open -= 1;
            // Of several servers the others go on: that is what such a run shows.
            let is_last = self.servers < 2 || self.open == 0;
            if end.failure.is_some() || (is_last && !end.lost.is_empty()) {
                // What is left is not the load that was asked for.
                self.cut_short();
            }
        }
        report
    }

    /// The measured time ends now.
    fn cut_short(&mut self) {
        let now = now();
        if now < self.end && !self.is_cut_short {
            self.is_cut_short = true;
            self.end = now;
            self.stop.iter_mut().for_each(|stop| stop());
        }
    }
}

/// How often somebody looks whether the end was asked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
