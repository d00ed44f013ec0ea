//! What a run is made of: several servers, steps, and the log that it repeats.
//!
//! Invariant: what all parts did together stands in the record itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{BenchRecordError, Latency, MeasuredServer, RESULT_CODES_MAX, Spent, at_most, numbers};

/// What one of several servers did.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ServerShare {
    /// Which one.
    pub server: MeasuredServer,
    /// Connections to it.
    #[serde(default)]
    pub connections: u64,
    /// Answers in the measured time; cycles where there are any.
    pub operations: u64,
    /// Answers a second.
    #[serde(default)]
    pub operations_per_s: f64,
    /// Entries found.
    #[serde(default)]
    pub entries: u64,
    /// Answers other than the expected.
    #[serde(default)]
    pub wrong: u64,
    /// Requests without an answer.
    #[serde(default)]
    pub errors: u64,
    /// Answers by result code.
    #[serde(default)]
    pub result_codes: BTreeMap<u32, u64>,
    /// From when a request was due, or sent, to its whole answer.
    #[serde(default)]
    pub latency: Latency,
    /// What it spent, where that can be told.
    #[serde(default)]
    pub spent: Option<Spent>,
    /// Connections that were lost.
    #[serde(default)]
    pub lost_connections: u64,
    /// Why the first of them was.
    #[serde(default)]
    pub lost: Option<String>,
}

/// A step of a run. What was measured is the last; its figures are those of the record.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Step {
    /// [`PRIME`], [`NULL`] or [`MEASURED`].
    pub name: String,
    /// How long it was.
    pub seconds: f64,
    /// Answers; cycles where there are any.
    #[serde(default)]
    pub operations: u64,
    /// Answers a second.
    #[serde(default)]
    pub operations_per_s: f64,
    /// Answers other than the expected.
    #[serde(default)]
    pub wrong: u64,
    /// Requests without an answer.
    #[serde(default)]
    pub errors: u64,
    /// From when a request was due, or sent, to its whole answer.
    #[serde(default)]
    pub latency: Latency,
    /// What all servers spent together, where that can be told.
    #[serde(default)]
    pub spent: Option<Spent>,
}

/// The step that reads as the load does, so that caches are as they are at work.
pub const PRIME: &str = "prime";
/// The step that asks nothing, which shows what servers do by themselves.
pub const NULL: &str = "null";
/// The step that counts.
pub const MEASURED: &str = "measured";

/// A log whose load was repeated.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ReplayedLog {
    /// Lines of it.
    pub lines: u64,
    /// Requests that are repeated.
    pub requests: u64,
    /// Shapes of requests that are told apart.
    pub shapes: u64,
    /// How long it is.
    pub length_s: f64,
    /// How many times as fast it is repeated.
    pub speed: f64,
    /// Requests that are not repeated, by why not.
    pub left_out: BTreeMap<String, u64>,
    /// Lines that the server dropped when it wrote the log.
    pub dropped: u64,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// What is wrong with the first of them.
    pub first_bad: Vec<String>,
}

impl ReplayedLog {
    pub(super) fn rows(&self) -> usize {
        self.left_out.len() + self.first_bad.len()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        self.left_out.keys().chain(&self.first_bad)
    }
}

/// What a person is told of it.
impl fmt::Display for ReplayedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, requests, shapes, length_s, speed, .. } = self;
        write!(
            f,
            "{requests} requests of {shapes} shapes in {length_s:.0} s, {speed} times as fast, out \
             of {lines} lines"
        )?;
        let mut begin = "\n  left out    ";
        for (reason, count) in &self.left_out {
            write!(f, "{begin}{count} {reason}")?;
            begin = "\n              ";
        }
        if self.dropped > 0 {
            write!(f, "\n  dropped     {} lines, when the log was written", self.dropped)?;
        }
        if self.bad_lines > 0 {
            write!(f, "\n  unreadable  {} lines", self.bad_lines)?;
        }
        for bad in &self.first_bad {
            write!(f, "\n              {bad}")?;
        }
        Ok(())
    }
}

impl Step {
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(self.spent.iter().map(|spent| &spent.source))
    }

    pub(super) fn check(&self) -> Result<(), BenchRecordError> {
        numbers("steps", &[self.seconds, self.operations_per_s])?;
        if let Some(spent) = &self.spent {
            numbers("steps", &[spent.cpu_us_per_operation, spent.cores])?;
        }
        self.latency.check("steps")
    }
}

impl ServerShare {
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        let settings = self.server.settings.iter().flat_map(|(name, value)| [name, value]);
        let spent = self.spent.iter().map(|spent| &spent.source);
        let own = std::iter::once(&self.server.uri).chain(&self.server.vendor).chain(&self.lost);
        own.chain(settings).chain(spent)
    }

    pub(super) fn check(&self) -> Result<(), BenchRecordError> {
        at_most(&[("result codes", self.result_codes.len(), RESULT_CODES_MAX)])?;
        numbers("servers", &[self.operations_per_s])?;
        if let Some(spent) = &self.spent {
            numbers("servers", &[spent.cpu_us_per_operation, spent.cores])?;
        }
        self.latency.check("servers")
    }
}

impl Spent {
    /// What all of them spent together; none if it is not known of one.
    pub(crate) fn of_all(all: &[Option<Self>]) -> Option<Self> {
        let mut all = all.iter();
        let first = all.next()?.clone()?;
        all.try_fold(first, |sum, one| Some(sum.and(one.as_ref()?)))
    }

    fn and(self, other: &Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(a, b)| a + b);
        let is_same = self.source == other.source;
        Self {
            source: if is_same { self.source } else { format!("{} {}", self.source, other.source) },
            user_us: self.user_us.saturating_add(other.user_us),
            system_us: self.system_us.saturating_add(other.system_us),
            cpu_us_per_operation: self.cpu_us_per_operation + other.cpu_us_per_operation,
            cores: self.cores + other.cores,
            voluntary_switches: sum(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: sum(self.involuntary_switches, other.involuntary_switches),
            read_bytes: sum(self.read_bytes, other.read_bytes),
            written_bytes: sum(self.written_bytes, other.written_bytes),
            resident_bytes: sum(self.resident_bytes, other.resident_bytes),
            anonymous_bytes: sum(self.anonymous_bytes, other.anonymous_bytes),
        }
    }
}
