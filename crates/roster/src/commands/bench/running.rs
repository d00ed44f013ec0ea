//! How a load is run, and what is told of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::Connection;
use hdrhistogram::Histogram;

use super::common::Common;
use super::record::{moment, vendor};
use crate::bench::agent;
use crate::bench::agent::line::Secret;
use crate::bench::cost::{Bill, Source};
use crate::bench::crew::Crew;
use crate::bench::hashes::{Hashes, SlowBinds};
use crate::bench::plan::{AGENTS_MAX, CYCLE, Part, Plan};
use crate::bench::process::Process;
use crate::bench::record::{
    BenchRecord, Cost, Latency, MEASURED, MeasuredServer, NULL, PRIME, ReplayedLog, ServerShare,
    Spent, Step,
};
use crate::bench::run::{self, Outcome, ServerOutcome, Watching};
use crate::bench::summary::Summary;
use crate::bench::tally::Tally;
use crate::connect::{Login, LoginText};
use crate::failure::{Exit, Failure};
use crate::interrupt::Ending;
use crate::output;

/// The steps before the one that counts; 0 leaves them out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepsBefore {
    pub(super) prime_s: u32,
    pub(super) null_s: u32,
}

/// What all steps of a run have in common.
struct Running {
    logins: Vec<Login>,
    /// The servers as they are called, in the same order.
    measured: Vec<MeasuredServer>,
    /// The log that it repeats.
    log: Option<ReplayedLog>,
    ending: Arc<Ending>,
}

impl Common {
    /// Who does it: this process, or agents.
    fn crew(&self, plan: &Arc<Plan>, logins: &[Login]) -> Result<Crew, Failure> {
        if self.agents.is_empty() {
            return Crew::here(plan, Part::WHOLE, logins);
        }
        if self.agents.len() > AGENTS_MAX {
            return Err(Failure::local(format!("a load has at most {AGENTS_MAX} agents")));
        }
        let secret = Secret::read(self.secret_file.as_deref())?;
        let texts: Vec<LoginText> = logins.iter().map(Login::text).collect();
        agent::crew(plan, &self.agents, &secret, &texts)
    }

    /// Reads as the plan does: caches are then as they would be after some time at work.
    fn prime(&self, plan: &Plan, time: Duration, run: &Running) -> Result<Step, Failure> {
        let plan = plan.reading(time).ok_or_else(|| {
            Failure::local("nothing of this load reads, so that nothing can be primed")
                .hint("leave --prime out")
        })?;
        let plan = Arc::new(plan);
        let servers = tellers(&run.logins, &run.measured)?;
        let crew = self.crew(&plan, &run.logins)?;
        self.tell(PRIME, time);
        let ending = Arc::clone(&run.ending);
        let outcome =
            run::watch(&plan, crew, Watching { servers, is_told: self.is_told(), ending })?;
        judge(&outcome, &run.measured)?;
        let kinds = plan.kinds();
        let tallies = outcome.tallies.iter().map(|(_, tally)| tally);
        let Counted { operations, wrong, errors, latency, .. } = Counted::of(&kinds, tallies);
        let seconds = outcome.measured.as_secs_f64();
        let bills = outcome.servers.iter().map(|server| server.bill.as_ref());
        let spent = bills.map(|bill| Some(bill?.spent(operations, seconds)));
        Ok(Step {
            name: PRIME.to_owned(),
            seconds,
            operations,
            operations_per_s: operations as f64 / seconds.max(1e-6),
            wrong,
            errors,
            latency,
            spent: Spent::of_all(&spent.collect::<Vec<_>>()),
        })
    }

    /// Leaves the servers alone: what they still had to do is done, and it is seen what they do by
    /// themselves.
    fn leave_alone(&self, time: Duration, run: &Running) -> Result<Step, Failure> {
        let mut bills = Vec::new();
        for teller in tellers(&run.logins, &run.measured)? {
            bills.push(teller.map(Bill::open).transpose()?);
        }
        self.tell(NULL, time);
        run::pause(time);
        let spent = bills.iter_mut().map(|bill| {
            let bill = bill.as_mut()?;
            // One that does not tell any more is left out.
            bill.second()?.ok()?;
            Some(bill.spent(0, time.as_secs_f64()))
        });
        let spent = Spent::of_all(&spent.collect::<Vec<_>>());
        Ok(Step {
            name: NULL.to_owned(),
            seconds: time.as_secs_f64(),
            // Nothing was asked.
            spent: spent.map(|spent| Spent { cpu_us_per_operation: 0.0, ..spent }),
            ..Step::default()
        })
    }

    /// Who watches sees which step begins.
    fn tell(&self, step: &str, time: Duration) {
        if self.is_told() {
            output::note(format_args!("{step}: {} s", time.as_secs()));
        }
    }

    fn is_told(&self) -> bool {
        self.live || output::is_watched()
    }

    /// The servers as they are called, with their processes.
    fn measured(&self, logins: &[Login]) -> Result<Vec<MeasuredServer>, Failure> {
        let (pids, count) = (&self.server_pid, logins.len());
        if !pids.is_empty() && pids.len() != count {
            let reason = format!("--server-pid names {} processes of {count} servers", pids.len());
            return Err(Failure::local(reason).hint("name one for each server, in the same order"));
        }
        let server = |(number, login): (usize, &Login)| MeasuredServer {
            uri: login.uri().to_owned(),
            vendor: vendor(login.uri()),
            pid: pids.get(number).copied(),
            ..MeasuredServer::default()
        };
        Ok(logins.iter().enumerate().map(server).collect())
    }

    /// Runs a plan and tells what came of it.
    pub(super) fn run(&self, plan: &Plan) -> Result<Exit, Failure> {
        self.run_after(plan, &StepsBefore::default())
    }

    /// Runs the plan that was made of a log.
    pub(super) fn run_log(&self, plan: &Plan, log: ReplayedLog) -> Result<Exit, Failure> {
        self.run_all(plan, &StepsBefore::default(), Some(log))
    }

    /// Runs a plan after other steps, for which the options may have other times.
    pub(super) fn run_after(&self, plan: &Plan, before: &StepsBefore) -> Result<Exit, Failure> {
        self.run_all(plan, before, None)
    }

    fn run_all(
        &self,
        plan: &Plan,
        before: &StepsBefore,
        log: Option<ReplayedLog>,
    ) -> Result<Exit, Failure> {
        plan.check()?;
        let ending = Ending::by_signals()?;
        let logins = self.server.logins()?;
        let measured = self.measured(&logins)?;
        let run = Running { logins, measured, log, ending };
        let time = |option: Option<u32>, default| {
            Some(Duration::from_secs(option.unwrap_or(default).into())).filter(|it| !it.is_zero())
        };
        let prime = time(self.prime, before.prime_s).map(|time| self.prime(plan, time, &run));
        let mut steps: Vec<Step> = prime.transpose()?.into_iter().collect();
        let null = time(self.null, before.null_s).map(|time| self.leave_alone(time, &run));
        steps.extend(null.transpose()?);
        self.measure(plan, run, steps)
    }

    /// The step that counts.
    fn measure(&self, plan: &Plan, run: Running, steps: Vec<Step>) -> Result<Exit, Failure> {
        let Running { logins, measured, log, ending } = run;
        let plan = Arc::new(plan.clone());
        // Asked first: a server that has all connections it allows would not tell.
        let mut record = self.record.begin(&plan.name, &measured);
        let servers = tellers(&logins, &measured)?;
        let work = match (&logins[..], &measured[..]) {
            ([login], [server]) if plan.kinds().contains(&"bind") => {
                connection_to_roster(login, server)?
            }
            _ => None,
        };
        let crew = self.crew(&plan, &logins)?;
        let hashes = work.and_then(Hashes::begin);
        record.started = moment();
        let watching = Watching { servers, is_told: self.is_told(), ending };
        let outcome = run::watch(&plan, crew, watching)?;
        if outcome.is_cut_short && outcome.measured.is_zero() {
            return judge(&outcome, &measured);
        }
        fill(&mut record, &plan, &outcome);
        if measured.len() > 1 {
            record.servers = shares(&plan, &outcome, &measured);
            let spent = record.servers.iter().map(|share| share.spent.clone());
            // Each operation is one of all: what it cost is not the sum of what it cost each.
            record.cost.server = Spent::of_all(&spent.collect::<Vec<_>>()).map(|spent| {
                let cpu_us = spent.user_us.saturating_add(spent.system_us) as f64;
                let cpu_us_per_operation = cpu_us / record.operations().max(1) as f64;
                Spent { cpu_us_per_operation, ..spent }
            });
        }
        record.load.tls = protection(&logins);
        record.replay = log;
        if !steps.is_empty() {
            record.steps = steps;
            record.steps.push(measured_step(&record));
        }
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
        judge(&outcome, &measured)
    }
}

/// Who tells what each server spends: the kernel of this machine, or a roster elsewhere, if it
/// tells this login.
fn tellers(logins: &[Login], servers: &[MeasuredServer]) -> Result<Vec<Option<Source>>, Failure> {
    let teller = |(login, server): (&Login, &MeasuredServer)| match server.pid {
        Some(pid) => Ok(Some(Source::Process(Process::with_id(pid)))),
        None => Ok(connection_to_roster(login, server)?.and_then(Source::monitor)),
    };
    logins.iter().zip(servers).map(teller).collect()
}

/// A connection to a server that is roster. A login that it refuses is not tried again.
fn connection_to_roster(
    login: &Login,
    server: &MeasuredServer,
) -> Result<Option<Connection>, Failure> {
    if !server.vendor.as_ref().is_some_and(|name| name.starts_with("roster")) {
        return Ok(None);
    }
    match login.connect() {
        Ok(mut connection) => {
            connection.set_answer_timeout(MONITOR_WAIT)?;
            Ok(Some(connection))
        }
        Err(failure) if failure.exit == Exit::Refused && !failure.is_passing => Err(failure),
        // Agents may reach it all the same.
        Err(_) => Ok(None),
    }
}

/// How the connections to all servers are protected.
fn protection(logins: &[Login]) -> String {
    let mut ways: Vec<&str> = logins.iter().map(Login::protection).collect();
    ways.dedup();
    ways.join(" ")
}

/// What each of several servers did.
fn shares(plan: &Plan, outcome: &Outcome, servers: &[MeasuredServer]) -> Vec<ServerShare> {
    let kinds = plan.kinds();
    let measured_s = outcome.measured.as_secs_f64();
    let share = |(server, measured): (&ServerOutcome, &MeasuredServer)| {
        let mut share = ServerShare {
            server: measured.clone(),
            connections: server.connections,
            lost_connections: server.lost.as_ref().map_or(0, |lost| lost.connections),
            lost: server.lost.as_ref().map(|lost| lost.failure.message.clone()),
            ..ServerShare::default()
        };
        let counted = Counted::of(&kinds, server.tallies.iter());
        share.operations = counted.operations;
        share.operations_per_s = counted.operations as f64 / measured_s.max(1e-6);
        (share.entries, share.wrong) = (counted.entries, counted.wrong);
        (share.errors, share.latency) = (counted.errors, counted.latency);
        share.result_codes = counted.result_codes;
        let spent = |bill: &Bill| bill.spent(share.operations, measured_s);
        share.spent = server.bill.as_ref().map(spent);
        share
    };
    outcome.servers.iter().zip(servers).map(share).collect()
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
        server: outcome.servers.iter().find_map(|server| server.bill.as_ref()).map(spent),
        client_cpu_us_per_operation: client_cpu_us / record.operations().max(1) as f64,
    };
}

/// Tallies of all kinds of operation together.
#[derive(Default)]
struct Counted {
    operations: u64,
    entries: u64,
    wrong: u64,
    errors: u64,
    result_codes: BTreeMap<u32, u64>,
    latency: Latency,
}

impl Counted {
    fn of<'t>(kinds: &[&str], tallies: impl Iterator<Item = &'t Tally>) -> Self {
        let mut counted = Self::default();
        let mut latencies_ns: Option<Histogram<u64>> = None;
        for (kind, tally) in kinds.iter().zip(tallies) {
            let counts = &tally.counts;
            counted.errors += counts.errors;
            // Cycles count for the operations they are made of, and repeat their answers.
            if (*kind == CYCLE) == kinds.contains(&CYCLE) {
                match &mut latencies_ns {
                    // Of the same bounds, they add.
                    Some(all) => drop(all.add(&tally.latencies_ns)),
                    None => latencies_ns = Some(tally.latencies_ns.clone()),
                }
            }
            if *kind == CYCLE {
                continue;
            }
            counted.entries += counts.entries;
            counted.wrong += counts.wrong;
            for (code, count) in &counts.codes {
                *counted.result_codes.entry(*code).or_default() += count;
            }
        }
        if let Some(latencies_ns) = latencies_ns {
            counted.operations = latencies_ns.len();
            counted.latency = Latency::of(&latencies_ns);
        }
        counted
    }
}

/// What was measured as a step.
fn measured_step(record: &BenchRecord) -> Step {
    let units: Vec<_> = record.streams.iter().filter(|stream| record.is_counted(stream)).collect();
    Step {
        name: MEASURED.to_owned(),
        seconds: record.load.measured_s,
        operations: record.operations(),
        operations_per_s: units.iter().map(|stream| stream.operations_per_s).sum(),
        wrong: record.streams.iter().map(|stream| stream.wrong).sum(),
        errors: record.streams.iter().map(|stream| stream.errors).sum(),
        // Of several kinds, their own rows tell.
        latency: match &units[..] {
            [stream] => stream.latency,
            _ => Latency::default(),
        },
        spent: record.cost.server.clone(),
    }
}

/// A run with a wrong answer is no run, and one that was cut short, or lost a server, is not what
/// was asked for.
fn judge(outcome: &Outcome, servers: &[MeasuredServer]) -> Result<Exit, Failure> {
    if let Some(failure) = &outcome.failure {
        return Err(failure.clone());
    }
    let mut lost = outcome.servers.iter().zip(servers);
    if let Some((server, lost)) = lost.find_map(|(one, server)| Some((server, one.lost.as_ref()?)))
    {
        let failure = lost.failure.clone();
        if servers.len() == 1 {
            return Err(failure);
        }
        let message = format!("{}: {}", server.uri, failure.message);
        return Err(Failure { message, ..failure });
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

/// When most answers were wrong.
const MOST_WRONG: &str = "the load does not fit this directory: the defaults fit that of 'roster \
                          demo'; describe this one with --base, --filter, --dn and --entries";
/// The longest wait for what a server tells of itself while it is measured.
const MONITOR_WAIT: Duration = Duration::from_secs(5);
