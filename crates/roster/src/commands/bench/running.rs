//! How a load is run, and what is told of it.

use std::sync::Arc;

use client::Connection;

use super::common::Common;
use super::record::moment;
use crate::bench::agent;
use crate::bench::agent::line::Secret;
use crate::bench::cost::{Bill, Source};
use crate::bench::crew::Crew;
use crate::bench::hashes::{Hashes, SlowBinds};
use crate::bench::plan::{AGENTS_MAX, Part, Plan, Stream};
use crate::bench::process::Process;
use crate::bench::record::{BenchRecord, Cost};
use crate::bench::run::{self, Outcome, Watching};
use crate::bench::summary::Summary;
use crate::connect::{Login, LoginText};
use crate::failure::{Exit, Failure};
use crate::interrupt::Ending;
use crate::output;

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
            let crew = self.crew(&priming, &[login])?;
            if is_told {
                output::note(format_args!("priming: {search_s} s"));
            }
            let ending = Arc::clone(ending);
            judge(&run::watch(&priming, crew, Watching { servers: vec![None], is_told, ending })?)?;
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
        let protection = login.protection();
        let crew = self.crew(&plan, &[login])?;
        let hashes = work.and_then(Hashes::begin);
        record.started = moment();
        let watching =
            Watching { servers: vec![server], is_told: self.live || output::is_watched(), ending };
        let outcome = run::watch(&plan, crew, watching)?;
        if outcome.is_cut_short && outcome.measured.is_zero() {
            return judge(&outcome);
        }
        fill(&mut record, &plan, &outcome);
        protection.clone_into(&mut record.load.tls);
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
        server: outcome.servers.iter().find_map(|server| server.bill.as_ref()).map(spent),
        client_cpu_us_per_operation: client_cpu_us / record.operations().max(1) as f64,
    };
}

/// A run with a wrong answer is no run, and one that was cut short is not what was asked for.
fn judge(outcome: &Outcome) -> Result<Exit, Failure> {
    let lost = outcome.servers.iter().find_map(|server| server.lost.as_ref());
    if let Some(failure) = outcome.failure.as_ref().or(lost.map(|lost| &lost.failure)) {
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

/// When most answers were wrong.
const MOST_WRONG: &str = "the load does not fit this directory: the defaults fit that of 'roster \
                          demo'; describe this one with --base, --filter, --dn and --entries";
