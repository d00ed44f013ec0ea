//! The record of a run: one JSON object a file, what `roster bench --output` writes and
//! `roster bench report` reads.
//!
//! Times are in µs unless a name says otherwise. Fields that a reader does not know are passed
//! over; what is missing and may be is none.
//!
//! Invariant: what [`BenchRecord::parse`] returns is small enough to draw, and its numbers are
//! finite and not negative: a record may come from anybody.

mod parts;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub use self::parts::{MEASURED, NULL, PRIME, ReplayedLog, ServerShare, Step};
use super::process::number;
use crate::connect::SERVERS_MAX;
use crate::failure::Failure;
use crate::whole_file::WholeFile;

/// A run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct BenchRecord {
    /// [`FORMAT`].
    pub format: String,
    /// The job or the profile.
    pub name: String,
    /// What the server is called in comparisons.
    #[serde(default)]
    pub label: String,
    /// When it began, as in RFC 3339, in UTC.
    #[serde(default)]
    pub started: String,
    /// The command line, without passwords.
    #[serde(default)]
    pub command: Vec<String>,
    /// The server.
    pub server: MeasuredServer,
    /// The machine of the load generator.
    pub machine: Machine,
    /// The load.
    pub load: Load,
    /// What came of it, for each kind of operation.
    pub streams: Vec<Stream>,
    /// How it went, over all streams.
    #[serde(default)]
    pub seconds: Vec<Second>,
    /// What it cost.
    #[serde(default)]
    pub cost: Cost,
    /// What each server did, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerShare>,
    /// The steps of the run, if there were others than the one that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// The log whose load was repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayedLog>,
}

/// The server that was measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct MeasuredServer {
    /// Where it is; of several servers all, with spaces between.
    pub uri: String,
    /// What it calls itself: `vendorName` and `vendorVersion` of the root DSE. Of several servers
    /// what all of them do.
    #[serde(default)]
    pub vendor: Option<String>,
    /// Its process, when that is on this machine and was named.
    #[serde(default)]
    pub pid: Option<u32>,
    /// What the person who measured says about it.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// A machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Machine {
    /// The model of its processors.
    pub cpu: String,
    /// How many there are.
    pub cores: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Name and version of its operating system.
    pub kernel: String,
    /// Whether load and server shared it.
    pub client_on_same_machine: bool,
    /// Its own stalls in the measured time: how much later than asked a thread was woken that only
    /// slept, by percentiles of all moments.
    pub stalls: Option<Latency>,
}

/// The load that was put on the server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Load {
    /// Connections of all streams.
    pub connections: u64,
    /// Unanswered requests of each.
    pub outstanding: u64,
    /// Operations a second that were asked for; none: as many as were answered.
    pub rate: Option<f64>,
    /// Threads of the load generator.
    pub threads: u64,
    /// Processes of it.
    pub agents: u64,
    /// How long it ran before the measured time.
    pub warmup_s: f64,
    /// How long it was meant to be measured.
    pub duration_s: f64,
    /// How long it was.
    pub measured_s: f64,
    /// Whether it was ended before its time: by Ctrl-C, or because a part of the load was lost.
    pub cut_short: bool,
    /// `none`, `starttls` or `ldaps`.
    pub tls: String,
    /// Entries of the directory, where that is known.
    pub entries: Option<u64>,
}

/// The operations of one kind, or the cycles of several.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Stream {
    /// `search`, `bind` …, or `cycle` for the operations that make one unit together.
    pub name: String,
    /// Answers in the measured time.
    pub operations: u64,
    /// Requests sent in all, those outside the measured time too.
    #[serde(default)]
    pub made: u64,
    /// Entries found.
    #[serde(default)]
    pub entries: u64,
    /// Answers other than the expected.
    #[serde(default)]
    pub wrong: u64,
    /// What was compared, if answers were to be the same every time, outside the measured time too.
    #[serde(default)]
    pub compared: Option<Compared>,
    /// Requests without an answer.
    #[serde(default)]
    pub errors: u64,
    /// Requests that were sent after they were due.
    #[serde(default)]
    pub late: u64,
    /// Requests that were due and not sent.
    #[serde(default)]
    pub skipped: u64,
    /// Answers by result code.
    #[serde(default)]
    pub result_codes: BTreeMap<u32, u64>,
    /// Answers a second.
    pub operations_per_s: f64,
    /// From when a request was due, or sent, to its whole answer.
    #[serde(default)]
    pub latency: Latency,
    /// The latencies whole: how many took at most so many µs, and more than the row before.
    #[serde(default)]
    pub histogram: Vec<(f64, u64)>,
}

/// Answers to a request that was asked before: they are to bring as many entries.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Compared {
    /// Requests whose first answer is remembered.
    pub requests: u64,
    /// Answers that were compared with it.
    pub answers: u64,
    /// Answers to requests that were too many to remember.
    pub forgotten: u64,
}

/// Latencies, in µs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 90 % took at most this.
    pub p90: f64,
    /// 99 % took at most this.
    pub p99: f64,
    /// 99.9 % took at most this.
    pub p99_9: f64,
    /// 99.99 % took at most this.
    pub p99_99: f64,
    /// 99.999 % took at most this.
    pub p99_999: f64,
    /// The longest.
    pub max: f64,
}

/// A second of the measured time.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Second {
    /// When it ended, counted from the beginning of the measured time.
    pub at_s: f64,
    /// Answers.
    pub operations: u64,
    /// Wrong and missing answers.
    pub errors: u64,
    /// The median latency.
    pub p50_us: Option<f64>,
    /// 99 % took at most this.
    pub p99_us: Option<f64>,
    /// 99.9 % took at most this.
    pub p99_9_us: Option<f64>,
    /// The longest.
    pub max_us: Option<f64>,
    /// CPU time that the server took.
    pub server_cpu_us: Option<u64>,
    /// Memory of the server that is not backed by files.
    pub server_anonymous_bytes: Option<u64>,
}

/// What a run cost both sides.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Cost {
    /// The server, where it can be told.
    pub server: Option<Spent>,
    /// CPU time of the load generator.
    pub client_cpu_us_per_operation: f64,
}

/// What the server spent in the measured time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Spent {
    /// `pid` (from `/proc`) or `monitor` (the server's own account).
    pub source: String,
    /// CPU time outside the kernel.
    pub user_us: u64,
    /// CPU time in the kernel.
    pub system_us: u64,
    /// Both, for each operation.
    pub cpu_us_per_operation: f64,
    /// Cores that were kept busy.
    pub cores: f64,
    /// How often a thread waited for something.
    pub voluntary_switches: Option<u64>,
    /// How often a thread was made to wait.
    pub involuntary_switches: Option<u64>,
    /// What was read from disks.
    pub read_bytes: Option<u64>,
    /// What was written to disks.
    pub written_bytes: Option<u64>,
    /// Memory at the end, mapped files included.
    pub resident_bytes: Option<u64>,
    /// Memory at the end that no file backs.
    pub anonymous_bytes: Option<u64>,
}

/// Why something is no record of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BenchRecordError(String);

impl fmt::Display for BenchRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BenchRecordError {}

impl BenchRecord {
    /// Reads a record and checks it.
    pub fn parse(octets: &[u8]) -> Result<Self, BenchRecordError> {
        if octets.len() > RECORD_BYTES_MAX {
            return Err(BenchRecordError(format!("it has more than {RECORD_BYTES_MAX} bytes")));
        }
        /// What every version of the format has.
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let head: Head = serde_json::from_slice(octets)
            .map_err(|error| BenchRecordError(format!("it is not a record of a run: {error}")))?;
        if head.format != FORMAT {
            let found = head.format.chars().take(40).collect::<String>();
            let reason = format!("its format is '{}', not '{FORMAT}'", found.escape_debug());
            return Err(BenchRecordError(reason));
        }
        let record: Self = serde_json::from_slice(octets).map_err(|error| {
            BenchRecordError(format!("it is not a complete record of a run: {error}"))
        })?;
        record.check()?;
        Ok(record)
    }

    /// Reads the file `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut octets = Vec::new();
        let limit = RECORD_BYTES_MAX as u64 + 1;
        std::fs::File::open(path)
            .and_then(|file| file.take(limit).read_to_end(&mut octets))
            .map_err(|error| Failure::path("read", path, &error).hint(MADE_BY))?;
        Self::parse(&octets).map_err(|error| {
            Failure::local(format!("cannot use {}: {error}", path.display())).hint(MADE_BY)
        })
    }

    /// Writes it to the file `path`.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error| Failure::path("write", path, &error);
        let mut file = WholeFile::create(path).map_err(failed)?;
        file.write_all(self.to_json().as_bytes()).map_err(failed)?;
        file.write_all(b"\n").map_err(failed)?;
        file.finish().map_err(failed)
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers can be written as JSON")
    }

    /// The seconds as comma-separated values, with names in the first line.
    pub fn csv(&self) -> String {
        let mut csv = String::from(
            "at_s,operations,errors,p50_us,p99_us,p99_9_us,max_us,server_cpu_us,\
             server_anonymous_bytes\n",
        );
        for second in &self.seconds {
            let Second { at_s, operations, errors, .. } = second;
            let latencies = [second.p50_us, second.p99_us, second.p99_9_us, second.max_us]
                .map(|latency| latency.map_or_else(String::new, |us| format!("{us:.1}")))
                .join(",");
            let spent = [second.server_cpu_us, second.server_anonymous_bytes]
                .map(|spent| spent.map_or_else(String::new, |spent| spent.to_string()))
                .join(",");
            csv.push_str(&format!("{at_s},{operations},{errors},{latencies},{spent}\n"));
        }
        csv
    }

    /// What the streams did together: the cycles where there are any, since these hold the others.
    pub fn operations(&self) -> u64 {
        let units = self.streams.iter().filter(|stream| self.is_counted(stream));
        units.fold(0, |sum, stream| sum.saturating_add(stream.operations))
    }

    /// Whether the stream is not part of another one.
    pub fn is_counted(&self, stream: &Stream) -> bool {
        let has_cycles = self.streams.iter().any(|stream| stream.name == CYCLE);
        !has_cycles || stream.name == CYCLE
    }

    /// Limits that keep a page readable, and numbers that can be drawn.
    fn check(&self) -> Result<(), BenchRecordError> {
        let limits = [
            ("words of the command", self.command.len(), COMMAND_WORDS_MAX),
            ("settings", self.server.settings.len(), SETTINGS_MAX),
            ("streams", self.streams.len(), STREAMS_MAX),
            ("seconds", self.seconds.len(), SECONDS_MAX),
            ("servers", self.servers.len(), SERVERS_MAX),
            ("steps", self.steps.len(), STEPS_MAX),
            ("reasons", self.replay.as_ref().map_or(0, ReplayedLog::rows), REASONS_MAX),
        ];
        at_most(&limits)?;
        let texts = [&self.name, &self.label, &self.started, &self.server.uri, &self.load.tls]
            .into_iter()
            .chain([&self.machine.cpu, &self.machine.kernel])
            .chain(&self.server.vendor)
            .chain(&self.command)
            .chain(self.server.settings.iter().flat_map(|(name, value)| [name, value]))
            .chain(self.streams.iter().map(|stream| &stream.name))
            .chain(self.cost.server.iter().map(|spent| &spent.source))
            .chain(self.servers.iter().flat_map(ServerShare::texts))
            .chain(self.steps.iter().flat_map(Step::texts))
            .chain(self.replay.iter().flat_map(ReplayedLog::texts));
        for text in texts {
            at_most(&[("bytes of one text", text.len(), TEXT_BYTES_MAX)])?;
        }
        let Load { rate, warmup_s, duration_s, measured_s, .. } = self.load;
        numbers("load", &[rate.unwrap_or(0.0), warmup_s, duration_s, measured_s])?;
        numbers("cost", &[self.cost.client_cpu_us_per_operation])?;
        if let Some(spent) = &self.cost.server {
            numbers("cost.server", &[spent.cpu_us_per_operation, spent.cores])?;
        }
        if let Some(stalls) = &self.machine.stalls {
            stalls.check("machine.stalls")?;
        }
        let mut before = -1.0;
        for second in &self.seconds {
            let Second { at_s, p50_us, p99_us, p99_9_us, max_us, .. } = *second;
            let latencies = [p50_us, p99_us, p99_9_us, max_us].map(|us| us.unwrap_or(0.0));
            numbers("seconds", &latencies)?;
            numbers("seconds", &[at_s])?;
            if at_s <= before {
                return Err(BenchRecordError("its seconds are out of order".to_owned()));
            }
            before = at_s;
        }
        self.servers.iter().try_for_each(ServerShare::check)?;
        self.steps.iter().try_for_each(Step::check)?;
        numbers("replay", &[self.replay.as_ref().map_or(0.0, |replay| replay.speed)])?;
        self.streams.iter().try_for_each(Stream::check)
    }
}

impl Stream {
    /// The operations of this time, with these latencies.
    pub(crate) fn of(name: &str, latencies_ns: &Histogram<u64>, measured_s: f64) -> Self {
        Self {
            name: name.to_owned(),
            operations: latencies_ns.len(),
            operations_per_s: latencies_ns.len() as f64 / measured_s.max(1e-6),
            latency: Latency::of(latencies_ns),
            histogram: sparse(latencies_ns),
            ..Self::default()
        }
    }

    fn check(&self) -> Result<(), BenchRecordError> {
        at_most(&[
            ("result codes", self.result_codes.len(), RESULT_CODES_MAX),
            ("rows of a histogram", self.histogram.len(), HISTOGRAM_ROWS_MAX),
        ])?;
        numbers("streams", &[self.operations_per_s])?;
        self.latency.check("streams")?;
        let (mut before, mut sum) = (-1.0, 0_u64);
        for &(us, count) in &self.histogram {
            numbers("histogram", &[us])?;
            if us <= before {
                return Err(BenchRecordError("its histogram is out of order".to_owned()));
            }
            before = us;
            sum = sum.checked_add(count).ok_or_else(|| {
                BenchRecordError("its histogram counts more than there can be".to_owned())
            })?;
        }
        Ok(())
    }
}

impl Latency {
    fn check(&self, place: &str) -> Result<(), BenchRecordError> {
        let Self { mean, p50, p90, p99, p99_9, p99_99, p99_999, max } = *self;
        numbers(place, &[mean, p50, p90, p99, p99_9, p99_99, p99_999, max])
    }

    /// The figures of a histogram of ns.
    pub(crate) fn of(latencies_ns: &Histogram<u64>) -> Self {
        if latencies_ns.is_empty() {
            return Self::default();
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        let at = |quantile| us(latencies_ns.value_at_quantile(quantile));
        Self {
            mean: latencies_ns.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            p99_999: at(0.99999),
            max: us(latencies_ns.max()),
        }
    }
}

/// A histogram of ns as one of µs, with two digits and without empty rows.
pub(crate) fn sparse(latencies_ns: &Histogram<u64>) -> Vec<(f64, u64)> {
    let Ok(mut coarse) = Histogram::<u64>::new_with_bounds(1, latencies_ns.high(), 2) else {
        return Vec::new();
    };
    for row in latencies_ns.iter_recorded() {
        coarse.saturating_record_n(row.value_iterated_to(), row.count_since_last_iteration());
    }
    let rows = coarse.iter_recorded();
    rows.map(|row| (row.value_iterated_to() as f64 / 1000.0, row.count_since_last_iteration()))
        .collect()
}

impl Machine {
    /// This machine.
    pub(crate) fn here(client_on_same_machine: bool) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let value_of = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
        let available = || std::thread::available_parallelism().map_or(0, |cores| cores.get());
        let kilobytes = number(&read("/proc/meminfo"), "MemTotal:");
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: value_of("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: u32::try_from(if count > 0 { count } else { available() }).unwrap_or(u32::MAX),
            memory_bytes: kilobytes.unwrap_or(0).saturating_mul(1024),
            kernel: format!("Linux {}", kernel.trim()),
            client_on_same_machine,
            stalls: None,
        }
    }
}

/// The arguments of this process, with the values of passwords left out.
pub(crate) fn command_without_passwords(
    arguments: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let mut hide_next = false;
    let hide = |argument: String| {
        if std::mem::take(&mut hide_next) {
            return HIDDEN.to_owned();
        }
        if argument == "-w" || SECRET_OPTIONS.contains(&argument.as_str()) {
            hide_next = true;
            return argument;
        }
        match argument.split_once('=') {
            Some((name, _)) if SECRET_OPTIONS.contains(&name) => format!("{name}={HIDDEN}"),
            _ if argument.starts_with("-w") => format!("-w{HIDDEN}"),
            _ => argument,
        }
    };
    arguments.into_iter().map(hide).collect()
}

fn at_most(limits: &[(&str, usize, usize)]) -> Result<(), BenchRecordError> {
    match limits.iter().find(|(_, count, limit)| count > limit) {
        None => Ok(()),
        Some((what, count, limit)) => {
            Err(BenchRecordError(format!("it has {count} {what}, more than {limit}")))
        }
    }
}

fn numbers(place: &str, numbers: &[f64]) -> Result<(), BenchRecordError> {
    if numbers.iter().all(|number| (0.0..=NUMBER_MAX).contains(number)) {
        Ok(())
    } else {
        Err(BenchRecordError(format!("a number of its {place} is out of range")))
    }
}

/// What `format` says.
pub const FORMAT: &str = "roster-bench 1";
/// The stream whose operations are made of those of the others.
pub const CYCLE: &str = "cycle";

/// A day of seconds has 20 MB.
const RECORD_BYTES_MAX: usize = 64 << 20;
const COMMAND_WORDS_MAX: usize = 1_000;
const SETTINGS_MAX: usize = 200;
const STREAMS_MAX: usize = 32;
const STEPS_MAX: usize = 16;
const REASONS_MAX: usize = 100;
/// A day and some.
const SECONDS_MAX: usize = 100_000;
const RESULT_CODES_MAX: usize = 200;
/// Two digits from 1 ns to an hour are 5,000.
const HISTOGRAM_ROWS_MAX: usize = 20_000;
const TEXT_BYTES_MAX: usize = 4_096;
/// Larger than what is measured: 31 years in ns.
const NUMBER_MAX: f64 = 1e18;

const MADE_BY: &str = "records are made by 'roster bench JOB --output FILE'";
const HIDDEN: &str = "***";
const SECRET_OPTIONS: [&str; 2] = ["--bind-password", "--password"];

#[cfg(test)]
mod tests;
