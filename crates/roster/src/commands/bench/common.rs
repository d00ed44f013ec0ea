//! What every kind of load is told; `running` runs it.

use std::path::PathBuf;

use clap::Args;

use super::record::RecordOptions;
use crate::bench::jobs::Maker;
use crate::bench::keys::Order;
use crate::bench::plan::{LatencyLimit, Plan, Stream};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};

/// What every kind of load needs.
#[derive(Args, Debug)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) server: ServerOptions,

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

    /// Before anything is measured, read as the load does for this long, in seconds: caches are
    /// then as they are at work. Nothing is written
    #[arg(long, alias = "priming", value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(0..=36_000))]
    pub(super) prime: Option<u32>,

    /// After that, ask nothing for this long, in seconds: it shows what the servers do by
    /// themselves
    #[arg(long, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(0..=36_000))]
    pub(super) null: Option<u32>,

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
    pub(super) agents: Vec<String>,

    /// A file with the secret that the agents know
    #[arg(long, value_name = "FILE", requires = "agents")]
    pub(super) secret_file: Option<PathBuf>,

    /// The random seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The process id of a server on this machine: report its CPU time and memory. For several
    /// servers, those of all, in the same order
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pub(super) server_pid: Vec<u32>,

    /// Print the result as one line of JSON, the record that --output writes
    #[arg(long)]
    pub(super) json: bool,

    /// Show a line for each second, even if the output is not a terminal
    #[arg(long)]
    pub(super) live: bool,

    #[command(flatten)]
    pub(super) people: PeopleOptions,

    #[command(flatten)]
    pub(super) record: RecordOptions,
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
    /// Whether a rate was asked for.
    pub(super) const fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

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
}

/// Milliseconds with a fraction, as µs.
fn milliseconds(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok().filter(|ms| (0.001..=3_600_000.0).contains(ms));
    let ms = number.ok_or("a limit is from 0.001 to 3600000 ms")?;
    Ok((ms * 1000.0) as u64)
}

/// What is late at a rate when nobody says.
const LATE_US: u64 = 100_000;
/// Entries of a template that exist before anything is added, or more.
const FIRST: u64 = 1_000_000;
/// A run that ends with its requests ends after this in any case.
const DAY_S: u32 = 86_400;
