//! What a run is made of: several servers.
//!
//! Invariant: what all parts did together stands in the record itself.

use std::collections::BTreeMap;

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
