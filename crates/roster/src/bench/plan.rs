//! What a run does, as data: the streams, their jobs, their steps.
//!
//! A stream has connections of its own. A connection does one job after the other, drawn by weight
//! when the stream has several; a job is one request, or several that follow each other, as search
//! and bind do. An agent is sent the same plan that a run without agents follows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ldap::message::OperationKind;
use serde::{Deserialize, Serialize};

use super::answer::Expected;
use super::keys::Order;
use super::pace::Pace;
use super::pattern::{Pattern, VARIABLES_MAX, Variable, Variables};
use super::request::Blueprint;
use crate::commands::generate;
use crate::failure::Failure;
use crate::template::{ParseOptions, ShippedWords, Template};

/// A run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Plan {
    /// The job or profile.
    pub(crate) name: String,
    pub(crate) streams: Vec<Stream>,
    /// Threads of each process that share the connections.
    pub(crate) threads: usize,
    pub(crate) warmup_ms: u64,
    pub(crate) duration_ms: u64,
    pub(crate) seed: u64,
}

/// Connections that do the same.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Stream {
    pub(crate) connections: usize,
    /// Jobs each connection has begun and not ended, at most.
    pub(crate) outstanding: usize,
    /// Jobs a second of all connections together; without, as fast as responses arrive.
    pub(crate) rate: Option<f64>,
    /// How that changes over time, and which jobs are done when; the rate is the average then.
    #[serde(default)]
    pub(crate) pace: Option<Pace>,
    /// Jobs in all, those of the warm-up too; without, until the time is over.
    pub(crate) count: Option<u64>,
    pub(crate) latency_limit: LatencyLimit,
    /// What it adds and has not deleted is deleted at the end.
    pub(crate) removes: bool,
    /// What is done, each with its weight.
    pub(crate) jobs: Vec<(u32, Job)>,
}

/// How late is late.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct LatencyLimit {
    /// Slower ones are counted as late.
    pub(crate) late_us: Option<u64>,
    /// At a rate, what cannot even be sent within the limit is left out.
    pub(crate) skips: bool,
}

/// What a connection does again and again.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Job {
    /// What its requests draw from.
    pub(crate) variables: Variables,
    pub(crate) order: Order,
    pub(crate) steps: Vec<Step>,
    /// Binds go over a second connection, so that the first stays who it is.
    pub(crate) binds_apart: bool,
}

/// One request of a job, and its right answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Step {
    pub(crate) ask: Ask,
    pub(crate) expected: Expected,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    Prepared(Blueprint),
    /// A bind as the entry that the search before found.
    BindFound {
        password: Pattern,
    },
    /// The next entry of a template.
    Add(People),
    /// Deletes the oldest entry that this stream added; adds one while there is none.
    DeleteAdded,
}

/// Entries of a template.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct People {
    name: String,
    text: String,
    /// Where its word files are; those of the program without.
    #[serde(skip)]
    folder: Option<PathBuf>,
    definitions: Vec<(String, String)>,
    /// Entries of the template to pass over.
    pub(crate) first: u64,
}

impl Plan {
    pub(crate) fn warmup(&self) -> Duration {
        Duration::from_millis(self.warmup_ms)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.duration_ms)
    }

    /// The kinds of operation of all streams, each once; a cycle of several counts as one more.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        let mut add = |kind: &'static str| {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        };
        for (_, job) in self.streams.iter().flat_map(|stream| &stream.jobs) {
            job.steps.iter().for_each(|step| add(step.kind()));
            if job.steps.len() > 1 {
                add(CYCLE);
            }
        }
        kinds
    }

    pub(crate) fn connections(&self) -> usize {
        self.streams.iter().map(Stream::sockets).sum()
    }

    /// What is asked for a second, if every stream has a rate.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.streams.iter().map(|stream| stream.rate).sum()
    }

    /// What a plan must have, wherever it comes from.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let connections: usize = self.connections();
        if self.streams.is_empty() || connections == 0 || connections > CONNECTIONS_MAX {
            return Err(Failure::local(format!(
                "a run has from 1 to {CONNECTIONS_MAX} connections, not {connections}"
            )));
        }
        if self.threads == 0 || self.threads > THREADS_MAX {
            return Err(Failure::local(format!("a run has from 1 to {THREADS_MAX} threads")));
        }
        if self.warmup_ms.max(self.duration_ms) > TIME_MS_MAX {
            return Err(Failure::local("a run lasts ten days at most"));
        }
        for stream in &self.streams {
            stream.check()?;
        }
        let steps = || self.streams.iter().flat_map(Stream::steps);
        let writer = steps().find(|step| step.writes());
        if let Some(writer) = writer.filter(|_| steps().any(|step| step.expected == Expected::Same))
        {
            let reason = format!("{} may change how many entries a search finds", writer.kind());
            return Err(Failure::local(reason)
                .hint("say how many there may be, as in --expect 0-, or leave the writes out"));
        }
        Ok(())
    }

    /// What of it only reads, for so long; nothing if all of it writes.
    pub(crate) fn reading(&self, time: Duration) -> Option<Self> {
        let mut plan = Self {
            warmup_ms: 0,
            duration_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            ..self.clone()
        };
        for stream in &mut plan.streams {
            stream.jobs.retain(|(_, job)| !job.steps.iter().any(Step::writes));
            stream.count = None;
            stream.removes = false;
            // Not at its times: those are of the step that is measured.
            if stream.pace.take().is_some() {
                stream.rate = None;
            }
        }
        plan.streams.retain(|stream| !stream.jobs.is_empty());
        let connections: usize = plan.streams.iter().map(|stream| stream.connections).sum();
        plan.threads = plan.threads.min(connections);
        (connections > 0).then_some(plan)
    }

    /// The share of one of several processes: connections, rates and counts.
    pub(crate) fn share(&self, part: Part) -> Self {
        let mut plan = self.clone();
        for stream in &mut plan.streams {
            let all = stream.connections;
            stream.connections = part.of_count(all as u64) as usize;
            let share = stream.connections as f64 / all.max(1) as f64;
            stream.rate = stream.rate.map(|rate| rate * share);
            stream.pace.iter_mut().for_each(|pace| pace.share *= share);
            stream.count = stream.count.map(|count| part.of_count(count));
        }
        plan.streams.retain(|stream| stream.connections > 0);
        plan
    }
}

impl Stream {
    /// A stream of one job, as fast as responses arrive.
    pub(crate) fn of(job: Job, connections: usize) -> Self {
        Self {
            connections,
            outstanding: 1,
            rate: None,
            pace: None,
            count: None,
            latency_limit: LatencyLimit::default(),
            removes: false,
            jobs: vec![(1, job)],
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.jobs.iter().flat_map(|(_, job)| &job.steps)
    }

    /// Whether it adds entries.
    pub(crate) fn adds(&self) -> bool {
        self.steps().any(|step| matches!(step.ask, Ask::Add(_)))
    }

    /// Whether each connection has a second one, for binds.
    pub(crate) fn has_second(&self) -> bool {
        self.jobs.iter().any(|(_, job)| job.binds_apart)
    }

    /// Connections to the server in all.
    pub(crate) fn sockets(&self) -> usize {
        self.connections.saturating_mul(if self.has_second() { 2 } else { 1 })
    }

    fn check(&self) -> Result<(), Failure> {
        if self.steps().any(|step| step.kind() == "bind") && self.outstanding > 1 {
            let reason = "a bind must be the only outstanding request of a connection";
            return Err(
                Failure::local(reason).hint("leave --outstanding at 1 and use more --connections")
            );
        }
        let weights: u64 = self.jobs.iter().map(|(weight, _)| u64::from(*weight)).sum();
        if weights == 0 || self.jobs.len() > JOBS_MAX {
            return Err(Failure::local(format!(
                "a stream has from 1 to {JOBS_MAX} jobs with weights above 0"
            )));
        }
        if let Some(pace) = &self.pace {
            pace.check(self.jobs.len(), RATE_MAX)?;
            if self.rate.is_none() {
                return Err(Failure::local("a load with times has a rate"));
            }
        }
        if !(1..=OUTSTANDING_MAX).contains(&self.outstanding) {
            return Err(Failure::local(format!("--outstanding is from 1 to {OUTSTANDING_MAX}")));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= RATE_MAX)) {
            return Err(Failure::local(format!("a rate is above 0 and at most {RATE_MAX}")));
        }
        let is_good = |(_, job): &(u32, Job)| {
            (1..=STEPS_MAX).contains(&job.steps.len())
                && job.variables.iter().count() <= VARIABLES_MAX
                && job.variables.iter().all(Variable::is_good)
        };
        if !self.jobs.iter().all(is_good) {
            return Err(Failure::local("a job has one or two steps and values that exist"));
        }
        let deletes = self.steps().any(|step| matches!(step.ask, Ask::DeleteAdded));
        if deletes && !self.adds() {
            return Err(Failure::local("nothing is added that could be deleted")
                .hint("a mix with delete needs add, too"));
        }
        Ok(())
    }
}

impl Step {
    pub(crate) const fn kind(&self) -> &'static str {
        match &self.ask {
            Ask::Prepared(Blueprint::Search { .. }) => "search",
            Ask::Prepared(Blueprint::Compare { .. }) => "compare",
            Ask::Prepared(Blueprint::Bind { .. }) | Ask::BindFound { .. } => "bind",
            Ask::Prepared(Blueprint::Modify { .. }) => "modify",
            Ask::Prepared(Blueprint::ModifyDn { .. }) => "modify-dn",
            Ask::Prepared(Blueprint::Delete { .. }) | Ask::DeleteAdded => "delete",
            Ask::Add(_) => "add",
        }
    }

    /// Whether it changes entries.
    fn writes(&self) -> bool {
        match &self.ask {
            Ask::Prepared(blueprint) => match blueprint {
                Blueprint::Search { .. } | Blueprint::Compare { .. } | Blueprint::Bind { .. } => {
                    false
                }
                Blueprint::Modify { .. }
                | Blueprint::ModifyDn { .. }
                | Blueprint::Delete { .. } => true,
            },
            Ask::BindFound { .. } => false,
            Ask::Add(_) | Ask::DeleteAdded => true,
        }
    }

    /// A request other than a search, and success.
    pub(crate) const fn succeeds(ask: Ask, operation: OperationKind) -> Self {
        Self { ask, expected: Expected::Code(operation, 0) }
    }
}

impl People {
    pub(crate) const fn new(
        name: String,
        text: String,
        folder: Option<PathBuf>,
        definitions: Vec<(String, String)>,
        first: u64,
    ) -> Self {
        Self { name, text, folder, definitions, first }
    }

    /// The template, ready to make entries.
    pub(crate) fn template(&self) -> Result<Arc<Template>, Failure> {
        let options =
            ParseOptions { entries: Some(ENTRIES_MAX), constants: self.definitions.clone() };
        let template = match &self.folder {
            Some(folder) => {
                Template::parse(&self.name, &self.text, &generate::Beside(folder), &options)
            }
            None => Template::parse(&self.name, &self.text, &ShippedWords, &options),
        };
        Ok(Arc::new(template?))
    }
}

/// Which of how many processes, or of how many threads.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Part {
    pub(crate) index: u64,
    pub(crate) of: u64,
}

impl Part {
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// This part of so many, which differ by one at most.
    pub(crate) const fn of_count(self, count: u64) -> u64 {
        count / self.of + if self.index < count % self.of { 1 } else { 0 }
    }

    /// Parts come over the network, too.
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self.index < self.of && self.of <= AGENTS_MAX as u64 {
            return Ok(());
        }
        Err(Failure::local(format!("a load has at most {AGENTS_MAX} agents")))
    }
}

/// What a job of several requests is counted as, beside them.
pub(crate) const CYCLE: &str = "cycle";
/// Connections of a run.
const CONNECTIONS_MAX: usize = 1_000_000;
/// Ten days.
const TIME_MS_MAX: u64 = 864_000_000;
const THREADS_MAX: usize = 256;
const OUTSTANDING_MAX: usize = 1_000;
/// Jobs a second.
const RATE_MAX: f64 = 10_000_000.0;
/// Jobs of a stream.
pub(crate) const JOBS_MAX: usize = 256;
const STEPS_MAX: usize = 2;
/// Entries an endless template is given.
const ENTRIES_MAX: u64 = 1 << 62;

/// Agents of a run.
pub(crate) const AGENTS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_whole() {
        for (count, of) in [(10, 3), (2, 5), (1000, 7), (0, 1)] {
            let parts: Vec<u64> = (0..of).map(|index| Part { index, of }.of_count(count)).collect();
            assert_eq!(parts.iter().sum::<u64>(), count, "{parts:?}");
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1);
        }
    }
}
