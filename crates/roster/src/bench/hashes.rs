//! How many binds of a run made the server compute a slow hash, and why: read at both ends.
//!
//! Invariant: nothing here touches the server but by two searches, outside the measured time.

use std::fmt;

use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;

use super::record::BenchRecord;

/// What a server has counted of slow passwords; the beginning is arbitrary.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counts {
    /// Requests that had hashes computed, and the time of it.
    jobs: u64,
    time_us: u64,
    /// Binds that looked among the passwords that were verified lately.
    looks: u64,
}

/// A server that tells, and what it told when the run began.
pub(crate) struct Hashes {
    connection: Connection,
    first: Counts,
}

/// Why binds were slow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SlowBinds {
    /// The server counted them.
    Counted { jobs: u64, binds: u64, each_us: u64, is_cached: bool },
    /// By what an operation cost it.
    Guessed { each_us: u64 },
}

impl Hashes {
    /// What the server tells this connection, if it is one that tells.
    pub(crate) fn begin(connection: Connection) -> Option<Self> {
        let mut connection = connection;
        let first = read(&mut connection)?;
        Some(Self { connection, first })
    }

    fn since(&mut self) -> Option<Counts> {
        let Counts { jobs, time_us, looks } = read(&mut self.connection)?;
        Some(Counts {
            jobs: jobs.saturating_sub(self.first.jobs),
            time_us: time_us.saturating_sub(self.first.time_us),
            looks: looks.saturating_sub(self.first.looks),
        })
    }
}

impl SlowBinds {
    /// Whether slow hashes are what the binds of a run cost.
    pub(crate) fn of(record: &BenchRecord, hashes: Option<Hashes>) -> Option<Self> {
        let streams = record.streams.iter().filter(|stream| stream.name == "bind");
        let binds = streams.map(|stream| stream.made.max(stream.operations)).sum::<u64>();
        if binds == 0 {
            return None;
        }
        match hashes.and_then(|mut hashes| hashes.since()) {
            Some(counts) => Self::counted(counts, binds),
            None => Self::guessed(record),
        }
    }

    fn counted(counts: Counts, binds: u64) -> Option<Self> {
        let Counts { jobs, time_us, looks } = counts;
        let each_us = time_us / jobs.max(1);
        let is_cached = looks > 0;
        (jobs > binds / FEW).then_some(Self::Counted { jobs, binds, each_us, is_cached })
    }

    fn guessed(record: &BenchRecord) -> Option<Self> {
        let each_us = record.cost.server.as_ref()?.cpu_us_per_operation as u64;
        (each_us >= SLOW_US).then_some(Self::Guessed { each_us })
    }
}

/// Two lines of a summary.
impl fmt::Display for SlowBinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1e3;
        match *self {
            Self::Counted { jobs, binds, each_us, is_cached } => {
                let each_ms = ms(each_us);
                let why = if is_cached { FIRST_ONES } else { NOT_KEPT };
                write!(
                    f,
                    "  slow hashes {jobs} for {binds} binds, {each_ms:.1} ms each: the stored \
                     passwords are Argon2, bcrypt, PBKDF2 or the like\n  hint        {why}"
                )
            }
            Self::Guessed { each_us } => {
                write!(
                    f,
                    "  hint        {:.1} ms of CPU is the cost of verifying Argon2, bcrypt or \
                     PBKDF2; with -D and -w of a user who may read cn=monitor, roster reports it",
                    ms(each_us)
                )
            }
        }
    }
}

fn read(connection: &mut Connection) -> Option<Counts> {
    let names = [JOBS, TIME_US, HITS, MISSES];
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &names,
        ..SearchFor::below(WORK_ENTRY, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked).ok()?;
    let entry = found.entries.first()?;
    let number = |name| entry.text(name).and_then(|text| text.parse::<u64>().ok());
    let looks = number(HITS).unwrap_or_default() + number(MISSES).unwrap_or_default();
    Some(Counts { jobs: number(JOBS)?, time_us: number(TIME_US)?, looks })
}

/// Where roster tells of its work.
const WORK_ENTRY: &str = "cn=work,cn=monitor";
const JOBS: &str = "roster-password-hash-jobs";
const TIME_US: &str = "roster-password-hash-us";
const HITS: &str = "roster-password-cache-hits";
const MISSES: &str = "roster-password-cache-misses";

/// One slow bind of so many is not what a run measures.
const FEW: u64 = 1_000;

/// What no fast bind costs.
const SLOW_US: u64 = 1_000;

/// When verified passwords are kept.
const FIRST_ONES: &str = "each password is hashed once per password.cache_age_s: use a longer \
                          --warmup, or fewer people, to measure the binds after that";

/// When they are not.
const NOT_KEPT: &str = "verified passwords are not cached: password.cache_age_s is 0, or these \
                        accounts have privileges";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::{Cost, Spent, Stream};

    fn record(name: &str, made: u64, cpu_us_per_operation: f64) -> BenchRecord {
        let server = Some(Spent { cpu_us_per_operation, ..Spent::default() });
        BenchRecord {
            streams: vec![Stream { name: name.to_owned(), made, ..Stream::default() }],
            cost: Cost { server, ..Cost::default() },
            ..BenchRecord::default()
        }
    }

    #[test]
    fn slow_binds_are_told_and_why() {
        let counted = |jobs, looks| {
            let counts = Counts { jobs, time_us: jobs * 27_140, looks };
            SlowBinds::counted(counts, 10_000).map(|slow| slow.to_string())
        };
        assert_eq!(counted(10, 10_000), None, "one in a thousand");
        let first = counted(600, 10_000).unwrap();
        assert!(first.starts_with("  slow hashes 600 for 10000 binds, 27.1 ms each"), "{first}");
        assert!(first.ends_with(FIRST_ONES));
        assert!(counted(10_000, 0).unwrap().ends_with(NOT_KEPT));
    }

    #[test]
    fn a_server_that_does_not_count_is_judged_by_what_it_cost() {
        let guess = |name, cpu_us| SlowBinds::of(&record(name, 10, cpu_us), None);
        assert_eq!(guess("bind", 22.0), None);
        assert_eq!(guess("search", 27_000.0), None);
        assert_eq!(guess("bind", 27_000.0), Some(SlowBinds::Guessed { each_us: 27_000 }));
    }
}
