//! What the server spent in the measured time: read at both ends of it, and each second.
//!
//! Invariant: nothing here touches the server but by one search a second at most, and that only
//! when its process is not on this machine.

use std::fmt;

use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;

use super::process::{Process, Watched};
use super::record::Spent;
use crate::failure::Failure;

/// What a server has spent so far; the beginning is arbitrary.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Reading {
    /// All CPU time.
    pub(crate) cpu_us: u64,
    /// How it divides; less exact than the sum.
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
    pub(crate) voluntary_switches: Option<u64>,
    pub(crate) involuntary_switches: Option<u64>,
    pub(crate) read_bytes: Option<u64>,
    pub(crate) written_bytes: Option<u64>,
    /// Memory now.
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) anonymous_bytes: Option<u64>,
}

/// Who tells what the server spends.
pub(crate) enum Source {
    /// The kernel, of a process on this machine.
    Process(Process),
    /// The server, under `cn=monitor`.
    Monitor(Box<Connection>),
}

/// What the server has spent since the measured time began.
pub(crate) struct Bill {
    teller: Teller,
    first: Reading,
    last: Reading,
    /// It told nothing the last time, and is not asked again.
    is_over: bool,
}

impl Source {
    /// The server, if it tells this connection.
    pub(crate) fn monitor(connection: Connection) -> Option<Self> {
        let mut connection = connection;
        monitored(&mut connection).ok().map(|_| Self::Monitor(Box::new(connection)))
    }
}

enum Teller {
    Process(Watched),
    Monitor(Box<Connection>),
}

impl Bill {
    /// To be called when the measured time begins.
    pub(crate) fn open(source: Source) -> Result<Self, Failure> {
        let mut teller = match source {
            Source::Process(process) => Teller::Process(Watched::begin(process)?),
            Source::Monitor(connection) => Teller::Monitor(connection),
        };
        let first = teller.tell()?;
        Ok(Self { teller, first, last: first, is_over: false })
    }

    /// CPU time in µs since the last call, and the memory now that no file backs; nothing any more
    /// after a failure.
    pub(crate) fn second(&mut self) -> Option<Result<(u64, Option<u64>), Failure>> {
        if self.is_over {
            return None;
        }
        let now = match self.teller.tell() {
            Ok(now) => now,
            Err(failure) => {
                self.is_over = true;
                return Some(Err(failure));
            }
        };
        let cpu_us = now.cpu_us.saturating_sub(self.last.cpu_us);
        self.last = now;
        Some(Ok((cpu_us, now.anonymous_bytes)))
    }

    /// What was spent until the last [`Bill::second`], for so many operations in so much time.
    pub(crate) fn spent(&self, operations: u64, measured_s: f64) -> Spent {
        let (first, last) = (&self.first, &self.last);
        let cpu_us = last.cpu_us.saturating_sub(first.cpu_us);
        let user_us = last.user_us.saturating_sub(first.user_us);
        let system_us = last.system_us.saturating_sub(first.system_us);
        let (user_us, system_us) = divided(cpu_us, user_us, system_us);
        let more = |first: Option<u64>, last: Option<u64>| {
            last.zip(first).map(|(last, first)| last.saturating_sub(first))
        };
        let cpu_us = cpu_us as f64;
        Spent {
            source: match self.teller {
                Teller::Process(_) => "pid",
                Teller::Monitor(_) => "monitor",
            }
            .to_owned(),
            user_us,
            system_us,
            cpu_us_per_operation: cpu_us / operations.max(1) as f64,
            cores: cpu_us / 1e6 / measured_s.max(1e-6),
            voluntary_switches: more(first.voluntary_switches, last.voluntary_switches),
            involuntary_switches: more(first.involuntary_switches, last.involuntary_switches),
            read_bytes: more(first.read_bytes, last.read_bytes),
            written_bytes: more(first.written_bytes, last.written_bytes),
            resident_bytes: last.resident_bytes,
            anonymous_bytes: last.anonymous_bytes,
        }
    }
}

impl Teller {
    fn tell(&mut self) -> Result<Reading, Failure> {
        match self {
            Self::Process(watched) => watched.look(),
            Self::Monitor(connection) => monitored(connection),
        }
    }
}

/// Asks the server for its own account.
fn monitored(connection: &mut Connection) -> Result<Reading, Failure> {
    let names = FIGURES.map(|(name, _)| name);
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &names,
        ..SearchFor::below(MONITOR_ENTRY, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let entry = found.entries.first().ok_or_else(|| {
        Failure::refused(format!("the server does not show '{MONITOR_ENTRY}': {}", found.outcome))
            .hint("bind as somebody who may read it (-D, -w), or name a process with --server-pid")
    })?;
    let mut reading = Reading::default();
    let mut has_cpu = false;
    for (name, put) in FIGURES {
        let Some(value) = entry.text(name).and_then(|text| text.parse().ok()) else { continue };
        has_cpu |= name == CPU_FIGURE;
        put(&mut reading, value);
    }
    if has_cpu {
        return Ok(reading);
    }
    Err(Failure::refused(format!("'{MONITOR_ENTRY}' has no readable {CPU_FIGURE}")).hint(
        "only roster reports its CPU time; for another server, name its process with \
               --server-pid",
    ))
}

/// A time, divided as the inexact parts are.
fn divided(total_us: u64, user: u64, system: u64) -> (u64, u64) {
    let sum = user.saturating_add(system);
    let share = user as f64 / sum.max(1) as f64;
    let user_us = if sum == 0 { total_us } else { (total_us as f64 * share) as u64 };
    (user_us.min(total_us), total_us - user_us.min(total_us))
}

/// An attribute of the monitor entry, and where it goes.
type Figure = (&'static str, fn(&mut Reading, u64));

/// Where a server tells what its process spends.
const MONITOR_ENTRY: &str = "cn=process,cn=monitor";
const CPU_FIGURE: &str = "roster-process-cpu-us";
const FIGURES: [Figure; 9] = [
    (CPU_FIGURE, |reading, us| reading.cpu_us = us),
    ("roster-process-cpu-user-us", |reading, us| reading.user_us = us),
    ("roster-process-cpu-system-us", |reading, us| reading.system_us = us),
    ("roster-process-voluntary-switches", |reading, n| reading.voluntary_switches = Some(n)),
    ("roster-process-involuntary-switches", |reading, n| reading.involuntary_switches = Some(n)),
    ("roster-process-read-bytes", |reading, bytes| reading.read_bytes = Some(bytes)),
    ("roster-process-written-bytes", |reading, bytes| reading.written_bytes = Some(bytes)),
    ("roster-process-resident-bytes", |reading, bytes| reading.resident_bytes = Some(bytes)),
    ("roster-process-anonymous-bytes", |reading, bytes| reading.anonymous_bytes = Some(bytes)),
];

/// A few lines, as the summary of a run has them.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total_us = self.user_us.saturating_add(self.system_us).max(1) as f64;
        let user = self.cpu_us_per_operation * (self.user_us as f64 / total_us);
        let system = self.cpu_us_per_operation - user;
        write!(
            f,
            "  server CPU  {:.1} µs an operation (user {user:.1}, system {system:.1}), {:.2} cores \
             busy",
            self.cpu_us_per_operation, self.cores
        )?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        if let Some((resident, own)) = self.resident_bytes.zip(self.anonymous_bytes) {
            let (resident, own) = (mib(resident), mib(own));
            write!(
                f,
                "\n  server RAM  {resident:.1} MiB resident, {own:.1} of it not backed by \
                       files"
            )?;
        }
        if let Some((voluntary, involuntary)) =
            self.voluntary_switches.zip(self.involuntary_switches)
        {
            write!(f, "\n  switches    {voluntary} waits, {involuntary} times interrupted")?;
        }
        if let Some((read, written)) = self.read_bytes.zip(self.written_bytes) {
            let (read, written) = (mib(read), mib(written));
            write!(f, "\n  server disk {read:.1} MiB read, {written:.1} MiB written")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_is_the_difference_of_its_two_ends() {
        let first = Reading {
            cpu_us: 150,
            user_us: 10,
            system_us: 0,
            voluntary_switches: Some(5),
            written_bytes: Some(1 << 20),
            ..Reading::default()
        };
        let last = Reading {
            cpu_us: 2_150,
            user_us: 22,
            system_us: 8,
            voluntary_switches: Some(25),
            written_bytes: Some(3 << 20),
            resident_bytes: Some(64 << 20),
            anonymous_bytes: Some(16 << 20),
            read_bytes: Some(9),
            ..Reading::default()
        };
        let process = Watched::begin(Process::with_id(std::process::id())).unwrap();
        let bill = Bill { teller: Teller::Process(process), first, last, is_over: false };
        let spent = bill.spent(100, 0.004);
        assert_eq!((spent.user_us, spent.system_us, spent.source.as_str()), (1_200, 800, "pid"));
        assert_eq!((spent.cpu_us_per_operation, spent.cores), (20.0, 0.5));
        assert_eq!((spent.voluntary_switches, spent.involuntary_switches), (Some(20), None));
        assert_eq!((spent.read_bytes, spent.written_bytes), (None, Some(2 << 20)));
        assert_eq!(
            spent.to_string(),
            "  server CPU  20.0 µs an operation (user 12.0, system 8.0), 0.50 cores busy\n  server \
             RAM  64.0 MiB resident, 16.0 of it not backed by files"
        );
    }

    #[test]
    fn a_time_is_divided_as_its_parts_are() {
        assert_eq!(divided(100, 30, 10), (75, 25));
        assert_eq!(divided(100, 0, 0), (100, 0));
        assert_eq!(divided(u64::MAX, u64::MAX, u64::MAX).1, 0);
    }

    #[test]
    fn this_process_has_a_bill() {
        let mut bill = Bill::open(Source::Process(Process::with_id(std::process::id()))).unwrap();
        let (_, anonymous_bytes) = bill.second().unwrap().unwrap();
        assert!(anonymous_bytes > Some(0));
        assert!(bill.spent(0, 0.0).resident_bytes > Some(0));
    }
}
