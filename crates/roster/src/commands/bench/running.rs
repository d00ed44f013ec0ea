//! How a load is run, and what is told of it.

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
use crate::bench::plan::{AGENTS_MAX, CYCLE, Part, Plan, Stream};
use crate::bench::process::Process;
use crate::bench::record::{BenchRecord, Cost, Latency, MeasuredServer, ServerShare, Spent};
use crate::bench::run::{self, Outcome, ServerOutcome, Watching};
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
        let logins = self.server.logins()?;
        let mut priming = Plan { warmup_ms: 0, ..plan.clone() };
        priming.duration_ms = u64::from(search_s) * 1000;
        let searches = |stream: &Stream| stream.rate.is_none() && stream.count.is_none();
        priming.streams.retain(searches);
        let is_told = self.live || output::is_watched();
        if search_s > 0 && !priming.streams.is_empty() {
            let priming = Arc::new(priming);
            let crew = self.crew(&priming, &logins)?;
            if is_told {
                output::note(format_args!("priming: {search_s} s"));
            }
            let ending = Arc::clone(ending);
            let servers = logins.iter().map(|_| None).collect();
            let outcome = run::watch(&priming, crew, Watching { servers, is_told, ending })?;
            judge(&outcome, &self.measured(&logins)?)?;
        }
        if null_s > 0 && is_told {
            output::note(format_args!("nothing: {null_s} s"));
        }
        run::pause(Duration::from_secs(u64::from(null_s)));
        Ok(())
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
        self.run_until(plan, Ending::by_signals()?)
    }

    /// Runs a plan, unless asked to end before, and tells what came of it.
    pub(super) fn run_until(&self, plan: &Plan, ending: Arc<Ending>) -> Result<Exit, Failure> {
        plan.check()?;
        let logins = self.server.logins()?;
        let plan = Arc::new(plan.clone());
        // Asked first: a server that has all connections it allows would not tell.
        let measured = self.measured(&logins)?;
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
        let watching = Watching { servers, is_told: self.live || output::is_watched(), ending };
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
        let mut latencies_ns: Option<Histogram<u64>> = None;
        for (kind, tally) in kinds.iter().zip(&server.tallies) {
            share.entries += tally.counts.entries;
            // Cycles hold the operations they are made of, and count for them.
            let is_counted = (*kind == CYCLE) == kinds.contains(&CYCLE);
            if is_counted {
                match &mut latencies_ns {
                    // Of the same bounds, they add.
                    Some(all) => drop(all.add(&tally.latencies_ns)),
                    None => latencies_ns = Some(tally.latencies_ns.clone()),
                }
            }
            share.errors += tally.counts.errors;
            if *kind != CYCLE {
                share.wrong += tally.counts.wrong;
                for (code, count) in &tally.counts.codes {
                    *share.result_codes.entry(*code).or_default() += count;
                }
            }
        }
        if let Some(latencies_ns) = latencies_ns {
            share.operations = latencies_ns.len();
            share.operations_per_s = share.operations as f64 / measured_s.max(1e-6);
            share.latency = Latency::of(&latencies_ns);
        }
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
