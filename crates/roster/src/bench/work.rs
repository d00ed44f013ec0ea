//! The jobs of one stream in one thread: whose turn it is, and the requests that come of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ldap::message::{
    AddRequest, AttributesBuf, Authentication, BindRequest, Controls, DeleteRequest, Message,
    MessageId, PartialAttribute, Request, ValuesBuf,
};

use super::answer::Expected;
use super::keys::{Keys, Order};
use super::pace::Pace;
use super::pattern::{Pattern, Variables};
use super::plan::{Ask, CYCLE, Job, Part, Plan, Step, Stream};
use super::request::Prepared;
use super::same::{Comparison, REQUESTS_REMEMBERED_MAX, Remembered};
use crate::chance::{Chance, mix};
use crate::failure::Failure;
use crate::template::Generator;

/// What the threads of a process share of one stream.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Jobs begun.
    begun: AtomicU64,
    /// Of each job of the stream: turns taken.
    of_jobs: Vec<AtomicU64>,
    /// How many entries requests have found, where that is to stay.
    remembered: OnceLock<Remembered>,
    /// Which jobs are done when.
    pace: Option<Pace>,
}

impl Turns {
    pub(crate) fn new(stream: &Stream) -> Self {
        let of_jobs = stream.jobs.iter().map(|_| AtomicU64::new(0)).collect();
        let pace = stream.pace.clone();
        Self { begun: AtomicU64::new(0), of_jobs, remembered: OnceLock::new(), pace }
    }
}

/// All jobs of a stream.
#[derive(Debug)]
pub(crate) struct Work {
    turns: Arc<Turns>,
    part: Part,
    seed: u64,
    count: Option<u64>,
    weights: Vec<u32>,
    jobs: Vec<Doing>,
    /// Where in `jobs` the one is that removes what was added at the end.
    pub(crate) remover: Option<usize>,
    /// Numbers of entries that were added and not deleted.
    pub(crate) added: std::collections::VecDeque<u64>,
    keeps_added: bool,
}

/// A job at work.
#[derive(Debug)]
struct Doing {
    variables: Variables,
    keys: Vec<Keys>,
    /// Kept for their memory.
    values: Vec<Vec<u8>>,
    /// Turns there are.
    limit: Option<u64>,
    /// Where its cycles are counted, if it has several steps.
    cycle: Option<usize>,
    steps: Vec<Stage>,
}

/// A step at work.
#[derive(Debug)]
pub(crate) struct Stage {
    make: Make,
    pub(crate) expected: Expected,
    /// Where its answers are counted.
    pub(crate) kind: usize,
    pub(crate) is_apart: bool,
    pub(crate) is_add: bool,
    /// The name of the entry it finds is kept for the next step.
    pub(crate) finds: bool,
}

#[derive(Debug)]
enum Make {
    Prepared(Prepared),
    BindFound(Pattern),
    Add(Box<People>),
    Delete(Box<People>),
}

#[derive(Debug)]
struct People {
    generator: Generator,
    first: u64,
    /// Entries from the first on.
    count: u64,
}

/// A job that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) job: usize,
    pub(crate) number: u64,
}

impl Work {
    pub(crate) fn new(
        plan: &Plan,
        stream: &Stream,
        turns: Arc<Turns>,
        part: Part,
    ) -> Result<Self, Failure> {
        let kinds = plan.kinds();
        let mut jobs = Vec::new();
        let all_steps = || stream.jobs.iter().flat_map(|(_, job)| &job.steps);
        let people = all_steps().find_map(|step| match &step.ask {
            Ask::Add(people) => Some(people),
            Ask::Prepared(_) | Ask::BindFound { .. } | Ask::DeleteAdded => None,
        });
        // Who deletes must make the same entries as who adds.
        let people = || match people {
            Some(people) => {
                let template = people.template()?;
                let first = template.first_subordinate().unwrap_or(0).saturating_add(people.first);
                let count = template.entries().saturating_sub(first);
                Ok(Box::new(People { generator: template.generator(plan.seed), first, count }))
            }
            None => Err(Failure::local("nothing is added that could be deleted")),
        };
        for (number, (_, job)) in (0..).zip(&stream.jobs) {
            jobs.push(Doing::new(job, &kinds, plan.seed ^ mix(number), &people)?);
        }
        let remover = stream.removes.then_some(jobs.len());
        if remover.is_some() {
            let delete = ldap::message::OperationKind::Delete;
            let job = Job {
                variables: Variables::default(),
                order: Order::Sequential,
                steps: vec![Step::succeeds(Ask::DeleteAdded, delete)],
                binds_apart: false,
            };
            jobs.push(Doing::new(&job, &kinds, plan.seed, &people)?);
        }
        let weights: Vec<u32> = stream.jobs.iter().map(|(weight, _)| *weight).collect();
        let deletes = all_steps().any(|step| matches!(step.ask, Ask::DeleteAdded));
        Ok(Self {
            turns,
            part,
            seed: plan.seed,
            count: stream.count,
            weights,
            jobs,
            remover,
            added: std::collections::VecDeque::new(),
            keeps_added: deletes || stream.removes,
        })
    }

    /// The next job, so long after the measured time began; `None` when there are no more.
    pub(crate) fn next(&mut self, since: Duration) -> Option<Turn> {
        let begun = self.turns.begun.fetch_add(1, Ordering::Relaxed);
        if self.count.is_some_and(|count| begun >= count) {
            return None;
        }
        let job = if self.weights.len() == 1 { 0 } else { self.draw(begun, since) };
        let deletes = |doing: &Doing| {
            doing.steps.first().is_some_and(|stage| matches!(stage.make, Make::Delete(_)))
        };
        if !self.jobs.get(job).is_some_and(deletes) {
            return self.turn_of(job);
        }
        match self.added.pop_front() {
            Some(number) => Some(Turn { job, number }),
            None => {
                let adds = |doing: &Doing| doing.steps.first().is_some_and(|stage| stage.is_add);
                self.turn_of(self.jobs.iter().position(adds)?)
            }
        }
    }

    /// The next entry that is to go at the end of the run.
    pub(crate) fn next_removal(&mut self) -> Option<Turn> {
        let job = self.remover?;
        Some(Turn { job, number: self.added.pop_front()? })
    }

    fn turn_of(&self, job: usize) -> Option<Turn> {
        let turn = self.turns.of_jobs.get(job)?.fetch_add(1, Ordering::Relaxed);
        let number = turn.checked_mul(self.part.of)?.checked_add(self.part.index)?;
        let limit = self.jobs.get(job)?.limit;
        limit.is_none_or(|limit| number < limit).then_some(Turn { job, number })
    }

    /// One of the jobs by weight.
    fn draw(&self, begun: u64, since: Duration) -> usize {
        let mix = self.turns.pace.as_ref().and_then(|pace| pace.mix_at(since));
        let weights = mix.unwrap_or(&self.weights);
        let all = weights.iter().copied().map(u64::from).sum();
        let number = begun.wrapping_mul(self.part.of).wrapping_add(self.part.index);
        let mut place = Chance::new(self.seed ^ WEIGHTS, number).below(all);
        for (job, weight) in weights.iter().enumerate() {
            match place.checked_sub(u64::from(*weight)) {
                None => return job,
                Some(rest) => place = rest,
            }
        }
        0
    }

    pub(crate) fn stage(&self, job: usize, step: usize) -> Option<&Stage> {
        self.jobs.get(job)?.steps.get(step)
    }

    /// Where a job as a whole is counted: as a cycle, or as its one step.
    pub(crate) fn kind_of(&self, job: usize) -> Option<usize> {
        let doing = self.jobs.get(job)?;
        doing.cycle.or_else(|| doing.steps.first().map(|stage| stage.kind))
    }

    pub(crate) fn cycle(&self, job: usize) -> Option<usize> {
        self.jobs.get(job)?.cycle
    }

    /// Notes that the entry with this number is there now.
    pub(crate) fn was_added(&mut self, number: u64) {
        if self.keeps_added {
            self.added.push_back(number);
        }
    }

    /// Compares how many entries an answer brought with the first to the same request.
    pub(crate) fn compare(&self, request: u64, entries: u64) -> Comparison {
        let remembered = &self.turns.remembered;
        remembered
            .get_or_init(|| Remembered::new(REQUESTS_REMEMBERED_MAX))
            .compare(request, entries)
    }

    /// Appends the request of a step; `found` is the name that the step before found. Says which
    /// request it is: those with other values have, in all likelihood, other numbers.
    pub(crate) fn write(
        &mut self,
        turn: Turn,
        step: usize,
        id: i32,
        found: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, Failure> {
        let gone = || Failure::local("a job has no such step");
        let doing = self.jobs.get_mut(turn.job).ok_or_else(gone)?;
        let values = doing.write(turn.number, step, MessageId(id), found, out)?;
        Ok(mix(values ^ mix(turn.job as u64 + 1)))
    }
}

impl Doing {
    fn new(
        job: &Job,
        kinds: &[&str],
        seed: u64,
        people: &dyn Fn() -> Result<Box<People>, Failure>,
    ) -> Result<Self, Failure> {
        let kind = |name: &str| kinds.iter().position(|kind| *kind == name);
        let count = job.variables.iter().count();
        let mut steps = Vec::new();
        let mut limit = (job.order == Order::Once).then(|| job.variables.distinct());
        for (number, step) in job.steps.iter().enumerate() {
            let make = match &step.ask {
                Ask::Prepared(blueprint) => {
                    Make::Prepared(Prepared::new(blueprint.clone(), count)?)
                }
                Ask::BindFound { password } => Make::BindFound(password.clone()),
                Ask::Add(_) => Make::Add(people()?),
                Ask::DeleteAdded => Make::Delete(people()?),
            };
            if let Make::Add(people) = &make {
                limit = Some(people.count);
            }
            let is_bind = step.kind() == "bind";
            steps.push(Stage {
                is_add: matches!(make, Make::Add(_)),
                make,
                expected: step.expected,
                kind: kind(step.kind()).unwrap_or(0),
                is_apart: job.binds_apart && is_bind,
                finds: matches!(
                    job.steps.get(number + 1).map(|step| &step.ask),
                    Some(Ask::BindFound { .. })
                ),
            });
        }
        Ok(Self {
            keys: job.variables.keys(job.order, seed),
            values: vec![Vec::new(); count],
            variables: job.variables.clone(),
            limit,
            cycle: if job.steps.len() > 1 { kind(CYCLE) } else { None },
            steps,
        })
    }

    fn write(
        &mut self,
        number: u64,
        step: usize,
        id: MessageId,
        found: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, Failure> {
        let mut drawn = 0;
        for ((variable, keys), value) in
            self.variables.iter().zip(&mut self.keys).zip(&mut self.values)
        {
            let number = keys.at(number);
            drawn = mix(drawn) ^ number;
            variable.write(number, value);
        }
        let stage = self.steps.get_mut(step);
        match &mut stage.ok_or_else(|| Failure::local("a job has no such step"))?.make {
            Make::Prepared(prepared) => prepared.write(id, &self.values, out)?,
            Make::BindFound(password) => {
                let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
                let values: Vec<String> = self.values.iter().map(text).collect();
                let name = std::str::from_utf8(found).map_err(|_| {
                    Failure::refused("the server named an entry with bytes that are not UTF-8")
                })?;
                encode(id, Request::Bind(simple_bind(name, &password.fill(&values))), out);
            }
            Make::Add(people) => people.add(id, number, out)?,
            Make::Delete(people) => people.delete(id, number, out)?,
        }
        Ok(drawn)
    }
}

impl People {
    fn add(&mut self, id: MessageId, number: u64, out: &mut Vec<u8>) -> Result<(), Failure> {
        let number = self.first.saturating_add(number);
        let entry = self.generator.generate(number).map_err(Failure::local)?;
        let pairs: Vec<(&str, &str)> = entry.attributes().collect();
        let mut attributes = AttributesBuf::new();
        for (index, (description, _)) in pairs.iter().enumerate() {
            let same = |(other, _): &&(&str, &str)| other.eq_ignore_ascii_case(description);
            if pairs.iter().take(index).any(|pair| same(&pair)) {
                continue;
            }
            let values: ValuesBuf =
                pairs.iter().filter(same).map(|(_, value)| value.as_bytes()).collect();
            attributes.push(PartialAttribute { description, values: values.as_ref() });
        }
        let request = AddRequest { name: entry.dn(), attributes: attributes.as_ref() };
        encode(id, Request::Add(request), out);
        Ok(())
    }

    fn delete(&mut self, id: MessageId, number: u64, out: &mut Vec<u8>) -> Result<(), Failure> {
        let number = self.first.saturating_add(number);
        let entry = self.generator.generate(number).map_err(Failure::local)?;
        encode(id, Request::Delete(DeleteRequest { name: entry.dn() }), out);
        Ok(())
    }
}

/// A bind with name and password (RFC 4511 §4.2).
pub(crate) const fn simple_bind<'a>(name: &'a str, password: &'a str) -> BindRequest<'a> {
    let authentication = Authentication::Simple(password.as_bytes());
    BindRequest { version: 3, name, authentication }
}

/// Appends one message without controls.
pub(crate) fn encode(id: MessageId, op: Request<'_>, out: &mut Vec<u8>) {
    Message { id, op, controls: Controls::EMPTY }.encode(out);
}

/// Which job is drawn has nothing to do with which numbers it draws.
const WEIGHTS: u64 = 0x5743_1A0E_9D2B_66F1;
