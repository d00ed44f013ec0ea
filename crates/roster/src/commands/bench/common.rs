//! What every kind of load is told, and how it is run.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use client::Connection;

use super::record::{RecordOptions, moment};
use crate::bench::agent;
use crate::bench::agent::line::Secret;
use crate::bench::cost::{Bill, Source};
use crate::bench::crew::Crew;
use crate::bench::hashes::{Hashes, SlowBinds};
use crate::bench::jobs::Maker;
use crate::bench::keys::Order;
use crate::bench::plan::AGENTS_MAX;
use crate::bench::plan::{LatencyLimit, Part, Plan, Stream};
use crate::bench::process::Process;
use crate::bench::record::{BenchRecord, Cost};
use crate::bench::run::{self, Outcome, Watching};
use crate::bench::summary::Summary;
use crate::connect::{Login, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::interrupt::Ending;
use crate::output;

/// What every kind of load needs.
#[derive(Args, Debug)]
pub(super) struct Common {
    #[command(flatten)]
    server: ServerOptions,

    /// Connections; 50, or as many as a profile has
    #[arg(short, long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,

    /// How long to measure, in seconds; 10, or as long as a profile has
    #[arg(short = 't', long, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=864_000))]
    duration: Option<u32>,

    /// End after this many operations of each stream, including the warm-up, which is off by
    /// default then
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// How long to run before measuring, in seconds; 1, or as long as a profile has
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=36_000))]
    warmup: Option<u32>,

    /// Unanswered requests of each connection at a time
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    outstanding: Option<u32>,

    /// Send this many requests a second at random moments (Poisson), regardless of responses, and
    /// measure each latency from the time the request was due; by default each connection sends its
    /// next request after the last response
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,

    /// Count responses that took longer as late; with --rate, a request that is later than this
    /// before it can be sent is not sent, and counted as skipped. By default, responses above 100
    /// ms are late at a rate
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    latency_limit: Option<u64>,

    /// Threads that share the connections
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// Divide the load among agents: 'roster bench agent' at these addresses
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    agents: Vec<String>,

    /// A file with the secret that the agents know
    #[arg(long, value_name = "FILE", requires = "agents")]
    secret_file: Option<PathBuf>,

    /// The random seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The process id of a server on this machine: report its CPU time and memory
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,

    /// Print the result as one line of JSON, the record that --output writes
    #[arg(long)]
    json: bool,

    /// Show a line for each second, even if the output is not a terminal
    #[arg(long)]
    live: bool,

    #[command(flatten)]
    pub(super) people: PeopleOptions,

    #[command(flatten)]
    record: RecordOptions,
}

/// The entries that the defaults fit.
#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub(super) struct PeopleOptions {
    /// How many people there are: uid=user.1 and so on
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(super) entries: u64,

    /// They are below ou=people of this entry
    #[arg(long, value_name = "DN", default_value = "dc=example,dc=com")]
    pub(super) suffix: String,

    /// A generator of values as OpenDJ's tools have it, for %d, %s and %1$d in texts; again for
    /// %2$d: inc(1,100) counts, rand(1,100) draws, inc(FILE) and rand(FILE) take lines,
    /// randstr(8,[a-z][0-9]) makes words; any other text stands for itself
    #[arg(short = 'g', long = "generator", value_name = "GENERATOR")]
    generators: Vec<String>,
}

impl PeopleOptions {
    /// The names of all of them.
    pub(super) fn everybody(&self) -> String {
        format!("uid=user.[1-{}],ou=people,{}", self.entries, self.suffix)
    }

    /// How many to pass over when people are added.
    pub(super) fn first(&self) -> u64 {
        self.entries.max(FIRST)
    }

    pub(super) fn maker(&self, order: Order) -> Maker {
        Maker { order, generators: self.generators.clone() }
    }
}

/// What is done when the command line does not say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) duration_s: u32,
    pub(super) warmup_s: u32,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { duration_s: 10, warmup_s: 1 }
    }
}

impl Common {
    /// Connections, unless told otherwise so many.
    pub(super) fn connections_or(&self, default: u32) -> usize {
        self.connections.unwrap_or(default) as usize
    }

    /// The stream as the options ask for it; its rate is the share of its connections.
    pub(super) fn applied(&self, stream: Stream, all_connections: usize) -> Stream {
        let share = stream.connections as f64 / all_connections.max(1) as f64;
        let rate = self.rate.map(|rate| f64::from(rate) * share).or(stream.rate);
        let latency_limit = match self.latency_limit {
            Some(us) => LatencyLimit { late_us: Some(us), skips: true },
            None if rate.is_some() && stream.latency_limit.late_us.is_none() => {
                LatencyLimit { late_us: Some(LATE_US), skips: false }
            }
            None => stream.latency_limit,
        };
        Stream {
            outstanding: self.outstanding.map_or(stream.outstanding, |count| count as usize),
            count: self.count.or(stream.count),
            rate,
            latency_limit,
            ..stream
        }
    }

    pub(super) fn plan(&self, name: &str, streams: Vec<Stream>, defaults: Defaults) -> Plan {
        let has_count = streams.iter().any(|stream| stream.count.is_some());
        let is_once = |stream: &Stream| stream.jobs.iter().any(|(_, job)| job.order == Order::Once);
        let (duration_s, warmup_s) = match has_count {
            true => (DAY_S, 0),
            // What can be done only once is not to be done before it is measured.
            false if streams.iter().any(is_once) => (defaults.duration_s, 0),
            false => (defaults.duration_s, defaults.warmup_s),
        };
        let connections: usize = streams.iter().map(|stream| stream.connections).sum();
        Plan {
            name: name.to_owned(),
            streams,
            threads: (self.threads as usize).min(connections.max(1)),
            warmup_ms: u64::from(self.warmup.unwrap_or(warmup_s)) * 1000,
            duration_ms: u64::from(self.duration.unwrap_or(duration_s)) * 1000,
            seed: self.seed,
        }
    }

    /// Runs a plan of one stream.
    pub(super) fn run_one(&self, name: &str, stream: Stream) -> Result<Exit, Failure> {
        let connections = stream.connections;
        let streams = vec![self.applied(stream, connections)];
        self.run(&self.plan(name, streams, Defaults::default()))
    }

    /// Who does it: this process, or agents.
    fn crew(&self, plan: &Arc<Plan>, login: &Login) -> Result<Crew, Failure> {
        if self.agents.is_empty() {
            return Crew::here(plan, Part::WHOLE, login);
        }
        if self.agents.len() > AGENTS_MAX {
            return Err(Failure::local(format!("a load has at most {AGENTS_MAX} agents")));
        }
        let secret = Secret::read(self.secret_file.as_deref())?;
        agent::crew(plan, &self.agents, &secret, &login.text())
    }

    /// Searches as the plan does, then leaves the server alone: its caches are as they would be
    /// after some time at work, and what it still had to do is done.
    pub(super) fn prime(
        &self,
        plan: &Plan,
        search_s: u32,
        null_s: u32,
        ending: &Arc<Ending>,
    ) -> Result<(), Failure> {
        let login = self.server.login()?;
        let mut priming = Plan { warmup_ms: 0, ..plan.clone() };
        priming.duration_ms = u64::from(search_s) * 1000;
        let searches = |stream: &Stream| stream.rate.is_none() && stream.count.is_none();
        priming.streams.retain(searches);
        let is_told = self.live || output::is_watched();
        if search_s > 0 && !priming.streams.is_empty() {
            let priming = Arc::new(priming);
            let crew = self.crew(&priming, &login)?;
            if is_told {
                output::note(format_args!("priming: {search_s} s"));
            }
            let ending = Arc::clone(ending);
            judge(&run::watch(&priming, crew, Watching { server: None, is_told, ending })?)?;
        }
        if null_s > 0 && is_told {
            output::note(format_args!("nothing: {null_s} s"));
        }
        run::pause(std::time::Duration::from_secs(u64::from(null_s)));
        Ok(())
    }

    /// Who tells what the server spends: the kernel of this machine, or a roster elsewhere, if it
    /// tells this login.
    fn teller(&self, login: &Login, record: &BenchRecord) -> Option<Source> {
        if let Some(pid) = self.server_pid {
            return Some(Source::Process(Process::with_id(pid)));
        }
        Source::monitor(connection_to_roster(login, record)?)
    }

    /// Runs a plan and tells what came of it.
    pub(super) fn run(&self, plan: &Plan) -> Result<Exit, Failure> {
        self.run_until(plan, Ending::by_signals()?)
    }

    /// Runs a plan, unless asked to end before, and tells what came of it.
    pub(super) fn run_until(&self, plan: &Plan, ending: Arc<Ending>) -> Result<Exit, Failure> {
        plan.check()?;
        let login = self.server.login()?;
        let plan = Arc::new(plan.clone());
        // Asked first: a server that has all connections it allows would not tell.
        let mut record = self.record.begin(&plan.name, login.uri(), self.server_pid);
        let server = self.teller(&login, &record);
        let has_binds = plan.kinds().contains(&"bind");
        let work = has_binds.then(|| connection_to_roster(&login, &record)).flatten();
        let crew = self.crew(&plan, &login)?;
        let hashes = work.and_then(Hashes::begin);
        record.started = moment();
        let watching = Watching { server, is_told: self.live || output::is_watched(), ending };
        let outcome = run::watch(&plan, crew, watching)?;
        if outcome.is_cut_short && outcome.measured.is_zero() {
            return judge(&outcome);
        }
        fill(&mut record, &plan, &outcome);
        login.protection().clone_into(&mut record.load.tls);
        if !self.agents.is_empty() {
            record.load.agents = self.agents.len() as u64;
            // Agents may be anywhere.
            let is_here = self.agents.iter().all(|agent| agent.starts_with("127."));
            record.machine.client_on_same_machine &= is_here;
        }
        record.load.entries.get_or_insert(self.people.entries);
        self.record.keep(&record)?;
        if self.json {
            output::line(format_args!("{}", output::json_shown(&record.to_json())))?;
        } else {
            output::line(format_args!("{}", Summary(&record)))?;
            if let Some(slow) = SlowBinds::of(&record, hashes) {
                output::line(format_args!("{slow}"))?;
            }
        }
        judge(&outcome)
    }
}

/// A connection to a server that is roster.
fn connection_to_roster(login: &Login, record: &BenchRecord) -> Option<Connection> {
    let is_roster = record.server.vendor.as_ref().is_some_and(|name| name.starts_with("roster"));
    is_roster.then(|| login.connect().ok())?
}

/// Puts what came of a run into its record.
fn fill(record: &mut BenchRecord, plan: &Plan, outcome: &Outcome) {
    let measured_s = outcome.measured.as_secs_f64();
    let outstanding = plan.streams.iter().map(|stream| stream.outstanding).max();
    let load = &mut record.load;
    load.connections = plan.connections() as u64;
    load.outstanding = outstanding.unwrap_or(1) as u64;
    load.rate = plan.rate();
    load.threads = plan.threads as u64;
    load.warmup_s = plan.warmup().as_secs_f64();
    load.duration_s = plan.duration().as_secs_f64();
    load.measured_s = measured_s;
    load.cut_short = outcome.is_cut_short;
    for (name, tally) in &outcome.tallies {
        let counts = &tally.counts;
        record.streams.push(crate::bench::record::Stream {
            made: counts.made,
            entries: counts.entries,
            wrong: counts.wrong,
            errors: counts.errors,
            late: counts.late,
            skipped: counts.skipped,
            compared: Some(counts.compared).filter(|compared| !compared.is_empty()),
            result_codes: counts.codes.clone(),
            ..crate::bench::record::Stream::of(name, &tally.latencies_ns, measured_s)
        });
    }
    record.seconds.clone_from(&outcome.seconds);
    record.machine.stalls = outcome.toll.stalls();
    let client_cpu_us = outcome.toll.cpu_ns as f64 / 1e3;
    let spent = |bill: &Bill| bill.spent(record.operations(), measured_s);
    record.cost = Cost {
        server: outcome.server.as_ref().map(spent),
        client_cpu_us_per_operation: client_cpu_us / record.operations().max(1) as f64,
    };
}

/// A run with a wrong answer is no run, and one that was cut short is not what was asked for.
fn judge(outcome: &Outcome) -> Result<Exit, Failure> {
    if let Some(failure) = &outcome.failure {
        return Err(failure.clone());
    }
    let wrong: u64 = outcome.tallies.iter().map(|(_, tally)| tally.counts.wrong).sum();
    let first = outcome.tallies.iter().find_map(|(_, tally)| tally.counts.first_wrong.as_ref());
    match first {
        Some(fault) => {
            let reason = format!("{wrong} responses were wrong, the first one: {fault}");
            let codes = outcome.tallies.iter().flat_map(|(_, tally)| tally.counts.codes.values());
            let failure = Failure::refused(reason);
            let is_odd = wrong < codes.sum::<u64>() / 2;
            Err(if is_odd { failure } else { failure.hint(MOST_WRONG) })
        }
        None if outcome.is_cut_short && outcome.measured.is_zero() => {
            Err(Failure::interrupted("ended before anything was measured"))
        }
        None if outcome.is_cut_short => {
            let measured_s = outcome.measured.as_secs_f64();
            Err(Failure::interrupted(format!("ended early, after {measured_s:.1} s")))
        }
        None => Ok(Exit::Done),
    }
}

/// Milliseconds with a fraction, as µs.
fn milliseconds(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok().filter(|ms| (0.001..=3_600_000.0).contains(ms));
    let ms = number.ok_or("a limit is from 0.001 to 3600000 ms")?;
    Ok((ms * 1000.0) as u64)
}

/// When most answers were wrong.
const MOST_WRONG: &str = "the load does not fit this directory: the defaults fit that of 'roster \
                          demo'; describe this one with --base, --filter, --dn and --entries";

/// What is late at a rate when nobody says.
const LATE_US: u64 = 100_000;
/// Entries of a template that exist before anything is added, or more.
const FIRST: u64 = 1_000_000;
/// A run that ends with its requests ends after this in any case.
const DAY_S: u32 = 86_400;
