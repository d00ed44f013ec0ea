//! A load of several processes or machines: agents that do their part of a plan, and a coordinator
//! that gives the word and adds up what they count.
//!
//! The coordinator connects to every agent and sends it the plan and which part of it to do:
//! connections, rates and counts are shared out, and numbers interleaved, so that no two agents use
//! the same. All connect to the server; then all are told to begin; then each sends what it counted
//! every second, histograms included.
//!
//! Invariant: an agent does nothing for who does not know its secret. Without a secret it listens
//! on loopback addresses only.

pub(crate) mod line;
pub(crate) mod message;

use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::line::{Hear, Line, Secret, Side, Talk};
use self::message::{FromAgent, Said, ToAgent};
use super::crew::{Crew, End, Loss, Report, connections_of};
use super::lane::ANSWER_WAIT;
use super::own::Account;
use super::plan::{Part, Plan};
use super::tally::Place;
use crate::connect::{Login, LoginText, SERVERS_MAX};
use crate::failure::{Failure, plain};
use crate::interrupt::Ending;

pub use message::read as read_message;

/// Listens for coordinators and serves one after the other.
pub(crate) struct Agent {
    listener: TcpListener,
    secret: Secret,
}

impl Agent {
    /// Listens. Only loopback addresses can do without a secret.
    pub(crate) fn listen(address: SocketAddr, secret: Secret) -> Result<Self, Failure> {
        if !address.ip().is_loopback() && secret.is_empty() {
            return Err(Failure::local(format!("{address} can be reached from other machines"))
                .hint("name a file with a secret, --secret-file FILE, or listen on 127.0.0.1"));
        }
        let listener = TcpListener::bind(address).map_err(|error| {
            Failure::local(format!("cannot listen on {address}: {}", plain(&error)))
        })?;
        Ok(Self { listener, secret })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|error| Failure::local(plain(&error)))
    }

    /// Serves the next coordinator to the end; what became of it.
    pub(crate) fn serve_one(&self) -> Result<String, Failure> {
        let (stream, peer) = self
            .listener
            .accept()
            .map_err(|error| Failure::local(format!("cannot accept: {}", plain(&error))))?;
        let name = self.serve(stream);
        name.map(|name| format!("{name} for {peer}")).map_err(|failure| Failure {
            message: format!("{peer}: {}", failure.message),
            ..failure
        })
    }

    fn serve(&self, stream: TcpStream) -> Result<String, Failure> {
        let mut line = Line::open(stream, &self.secret, Side::Agent)?;
        let ToAgent::Prepare { plan, part, logins } = line.receive()? else {
            return Err(Failure::refused("the coordinator sent no plan"));
        };
        let plan = Arc::new(*plan);
        let name = plan.name.clone();
        let crew = part.check().and_then(|()| {
            if logins.is_empty() || logins.len() > SERVERS_MAX {
                return Err(Failure::local(format!("a load has from 1 to {SERVERS_MAX} servers")));
            }
            let logins: Vec<Login> = logins.into_iter().map(Login::of).collect();
            Crew::here(&plan, part, &logins)
        });
        let crew = match crew {
            Ok(crew) => crew,
            Err(failure) => {
                line.send(&FromAgent::Ready { failure: Some(Said::of(&failure)) })?;
                return Err(failure);
            }
        };
        line.send(&FromAgent::Ready { failure: None })?;
        line.patience(BEGIN_WAIT)?;
        let ToAgent::Begin = line.receive()? else {
            return Err(Failure::refused("the coordinator did not start the run"));
        };
        forward(&plan, crew, line)?;
        Ok(name)
    }
}

/// Lets the crew begin and passes on what it reports.
fn forward(plan: &Plan, crew: Crew, line: Line) -> Result<(), Failure> {
    let kinds = plan.kinds();
    let ending = Arc::new(Ending::default());
    let asked = Arc::clone(&ending);
    line.patience(plan.warmup() + plan.duration() + ANSWER_WAIT)?;
    let Line { mut talk, mut hear } = line;
    std::thread::spawn(move || {
        // The coordinator asks for the end, or is gone.
        let _ = hear.receive::<ToAgent>();
        asked.ask();
    });
    let servers = crew.connections.len();
    let mut crew = crew.begin(plan, ending);
    let mut ended = End::default();
    let mut lost: Vec<Option<Loss>> = (0..servers).map(|_| None).collect();
    let mut pass_on = |report| match report {
        Report::Second { second, deltas } => {
            let named = |(place, delta): (Place, _)| {
                let name = kinds.get(place.kind)?;
                Some((place.server, (*name).to_owned(), delta))
            };
            let deltas = deltas.into_iter().filter_map(named).collect();
            talk.send(&FromAgent::Second { second, deltas })
        }
        Report::End(end) => {
            ended.failure = ended.failure.take().or(end.failure);
            ended.last_us = ended.last_us.max(end.last_us);
            for (server, more) in end.lost {
                lost.get_mut(server).into_iter().for_each(|lost| Loss::add(lost, more.clone()));
            }
            Ok(())
        }
    };
    let start = crew.start;
    while let Some(report) = crew.next(start) {
        pass_on(report)?;
    }
    let account = Account::open(plan)?;
    let end = crew.end;
    while let Some(report) = crew.next(end) {
        pass_on(report)?;
    }
    let toll = account.close();
    while let Some(report) = crew.rest() {
        pass_on(report)?;
    }
    let (failure, last_us) = (ended.failure.as_ref().map(Said::of), ended.last_us);
    let told = |(server, lost): (usize, Option<Loss>)| {
        let lost = lost?;
        Some((server, lost.connections, Said::of(&lost.failure)))
    };
    let lost = lost.into_iter().enumerate().filter_map(told).collect();
    let told = talk.send(&FromAgent::End { failure, lost, last_us, toll });
    // Wakes the thread that hears.
    talk.close();
    told
}

/// Agents as a crew: connected to the server, waiting for the word.
pub(crate) fn crew(
    plan: &Plan,
    agents: &[String],
    secret: &Secret,
    logins: &[LoginText],
) -> Result<Crew, Failure> {
    plan.check()?;
    let (sender, reports) = channel();
    let mut waiting = Vec::new();
    for (index, address) in (0..).zip(agents) {
        let part = Part { index, of: agents.len() as u64 };
        let prepare =
            ToAgent::Prepare { plan: Box::new(plan.share(part)), part, logins: logins.to_vec() };
        let (secret, address) = (secret.clone(), address.clone());
        waiting.push(std::thread::spawn(move || {
            let about = |failure: Failure| Failure {
                message: format!("agent {address}: {}", failure.message),
                ..failure
            };
            ready(&address, &secret, &prepare).map_err(about)
        }));
    }
    let mut connections = vec![0; logins.len()];
    for index in 0..agents.len() as u64 {
        let part = Part { index, of: agents.len() as u64 };
        let own = connections_of(&plan.share(part), part, logins.len());
        connections.iter_mut().zip(own).for_each(|(all, own)| *all += own);
    }
    let mut crew = Crew { connections, go: Vec::new(), stop: Vec::new(), reports };
    for (thread, address) in waiting.into_iter().zip(agents) {
        let line = thread.join().map_err(|_| Failure::local("a thread panicked"))??;
        line.patience(plan.warmup() + ANSWER_WAIT + ANSWER_WAIT)?;
        let talk = Arc::new(Mutex::new(line.talk));
        let follower = Follower {
            address: address.clone(),
            kinds: plan.kinds(),
            talk: Arc::clone(&talk),
            hear: line.hear,
            reports: sender.clone(),
        };
        let (go, word) = channel();
        std::thread::spawn(move || follower.follow(&word));
        crew.go.push(go);
        crew.stop.push(Box::new(move || {
            // One that is gone has stopped.
            let _ = tell(&talk, &ToAgent::End);
        }));
    }
    Ok(crew)
}

fn tell(talk: &Mutex<Talk>, message: &ToAgent) -> Result<(), Failure> {
    let talk = talk.lock();
    talk.map_err(|_| Failure::local("a thread panicked"))?.send(message)
}

/// Connects to an agent and has it connect to the server.
fn ready(address: &str, secret: &Secret, prepare: &ToAgent) -> Result<Line, Failure> {
    let unreachable = |error: std::io::Error| {
        Failure::local(format!("cannot connect: {}", plain(&error)))
            .hint("is 'roster bench agent --listen ADDRESS' running there?")
    };
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs().map_err(unreachable)? {
        match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
            Ok(stream) => {
                let mut line = Line::open(stream, secret, Side::Coordinator)?;
                line.send(prepare)?;
                line.patience(READY_WAIT)?;
                return match line.receive()? {
                    FromAgent::Ready { failure: None } => Ok(line),
                    FromAgent::Ready { failure: Some(said) } => Err(said.into_failure()),
                    FromAgent::Second { .. } | FromAgent::End { .. } => {
                        Err(Failure::refused("it reports before the run was started"))
                    }
                };
            }
            Err(error) => last = error,
        }
    }
    Err(unreachable(last))
}

/// Follows one agent to its end.
struct Follower {
    address: String,
    kinds: Vec<&'static str>,
    talk: Arc<Mutex<Talk>>,
    hear: Hear,
    reports: Sender<Report>,
}

impl Follower {
    fn follow(mut self, word: &Receiver<Instant>) {
        // Who gives the word is gone when the run is called off.
        if word.recv().is_err() {
            return;
        }
        let end = self.try_follow().unwrap_or_else(|failure| {
            let message = format!("agent {}: {}", self.address, failure.message);
            Report::End(End::failed(Failure { message, ..failure }))
        });
        let _ = self.reports.send(end);
    }

    fn try_follow(&mut self) -> Result<Report, Failure> {
        tell(&self.talk, &ToAgent::Begin)?;
        loop {
            match self.hear.receive()? {
                FromAgent::Ready { .. } => {}
                FromAgent::Second { second, deltas } => {
                    self.hear.patience(SECOND_WAIT)?;
                    let placed = |(server, name, delta): (usize, String, _)| {
                        let kind = self.kinds.iter().position(|kind| *kind == name)?;
                        Some((Place { server, kind }, delta))
                    };
                    let deltas = deltas.into_iter().filter_map(placed).collect();
                    // Nobody listens only when the run has failed.
                    let _ = self.reports.send(Report::Second { second, deltas });
                }
                FromAgent::End { failure, lost, last_us, toll } => {
                    let failure = failure.map(Said::into_failure);
                    let loss = |(server, connections, said): (usize, u64, Said)| {
                        (server, Loss { connections, failure: said.into_failure() })
                    };
                    let lost = lost.into_iter().map(loss).collect();
                    return Ok(Report::End(End { failure, lost, last_us, toll: Some(toll) }));
                }
            }
        }
    }
}

/// The longest wait for a connection to an agent.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for an agent's connections to the server.
const READY_WAIT: Duration = Duration::from_secs(300);
/// The longest wait for the next second of an agent at work.
const SECOND_WAIT: Duration = Duration::from_secs(15);
/// The longest wait of an agent for the word: others may still connect.
const BEGIN_WAIT: Duration = Duration::from_secs(600);
