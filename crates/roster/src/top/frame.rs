//! What happened between two readings.
//!
//! Invariant: what the server does not tell is left out, never guessed; a counter that began anew,
//! because the server did, counts nothing for once.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::{Reading, Times};

/// One interval.
#[derive(Debug, Serialize)]
pub(super) struct Frame {
    pub(super) version: Option<String>,
    pub(super) uptime_s: Option<u64>,
    pub(super) interval_s: f64,
    pub(super) operations_per_s: f64,
    /// Other results than success and what is said on the way to it.
    pub(super) errors_per_s: f64,
    pub(super) entries_per_s: f64,
    pub(super) received_bytes_per_s: f64,
    pub(super) sent_bytes_per_s: f64,
    pub(super) unindexed_per_s: f64,
    pub(super) bind_failures_per_s: f64,
    pub(super) operations: Vec<Operation>,
    pub(super) connections: Connections,
    pub(super) process: Process,
    pub(super) queues: Vec<Queue>,
    pub(super) store: Store,
    pub(super) journal: Journal,
    pub(super) logs: Vec<Log>,
    pub(super) certificate_days: Option<i64>,
    pub(super) panics: Option<u64>,
    /// None where the server is alone.
    pub(super) cluster: Option<Cluster>,
}

/// The server as a member of a cluster.
#[derive(Debug, Serialize)]
pub(super) struct Cluster {
    pub(super) member: u64,
    pub(super) role: String,
    pub(super) leader: Option<u64>,
    pub(super) term: Option<u64>,
    pub(super) members: Vec<Member>,
}

#[derive(Debug, Serialize)]
pub(super) struct Member {
    pub(super) member: u64,
    pub(super) role: String,
    /// Changes that are visible on the leader and not there.
    pub(super) lag: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) per_s: f64,
    pub(super) errors_per_s: f64,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) total: u64,
    /// Results of the interval that were errors.
    pub(super) errors: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Connections {
    pub(super) open: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) accepted_per_s: f64,
    pub(super) refused_per_s: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Process {
    /// How many cores it keeps busy.
    pub(super) cpu_cores: f64,
    pub(super) cpu_us_per_operation: Option<f64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) anonymous_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) switches_per_s: f64,
    pub(super) read_bytes_per_s: Option<f64>,
    pub(super) written_bytes_per_s: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) limit: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Store {
    pub(super) entries: Option<u64>,
    pub(super) overlay_layers: Option<u64>,
    pub(super) overlay_bytes: Option<u64>,
    pub(super) overlay_limit_bytes: Option<u64>,
    pub(super) behind_changes: Option<u64>,
    pub(super) behind_us: Option<u64>,
    pub(super) flushes: Option<u64>,
    pub(super) flush_failures: Option<u64>,
    pub(super) last_flush_us: Option<u64>,
    pub(super) database_bytes: Option<u64>,
    pub(super) oldest_reader_us: Option<u64>,
    pub(super) disk_free_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Journal {
    pub(super) segments: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) records_per_s: f64,
    pub(super) written_bytes_per_s: f64,
    pub(super) syncs_per_s: f64,
    /// Of the interval, on the average.
    pub(super) sync_us: Option<u64>,
    pub(super) failed: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Log {
    pub(super) name: String,
    pub(super) lines_per_s: f64,
    pub(super) dropped: u64,
    pub(super) failed: bool,
}

/// Two readings, and the time between them.
struct Between<'r> {
    before: &'r Reading,
    now: &'r Reading,
    seconds: f64,
}

impl Between<'_> {
    fn more(&self, entry: &str, attribute: &str) -> Option<u64> {
        let of = |reading: &Reading| reading.number(entry, attribute);
        Some(of(self.now)?.saturating_sub(of(self.before).unwrap_or(0)))
    }

    fn rate(&self, entry: &str, attribute: &str) -> f64 {
        self.known_rate(entry, attribute).unwrap_or(0.0)
    }

    fn known_rate(&self, entry: &str, attribute: &str) -> Option<f64> {
        self.more(entry, attribute).map(|more| self.per_s(more))
    }

    fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    fn operation(&self, name: &str) -> Operation {
        let entry = format!("cn={name},cn=operations");
        let results = |reading: &Reading| reading.counts(&entry, "roster-operation-results");
        let errors = grown(results(self.before), results(self.now));
        let errors: BTreeMap<_, _> =
            errors.into_iter().filter(|(result, _)| is_error(result)).collect();
        let times = grown(self.before.times(&entry), self.now.times(&entry));
        Operation {
            name: name.to_owned(),
            per_s: self.rate(&entry, "roster-operation-count"),
            errors_per_s: self.per_s(errors.values().sum()),
            p50_us: percentile(&times, 0.5),
            p99_us: percentile(&times, 0.99),
            total: self.now.number(&entry, "roster-operation-count").unwrap_or(0),
            errors,
        }
    }

    fn process(&self, operations_per_s: f64) -> Process {
        let number = |attribute| self.now.number(PROCESS, attribute);
        let cpu_us_per_s = self.rate(PROCESS, "roster-process-cpu-us");
        Process {
            cpu_cores: cpu_us_per_s / 1e6,
            cpu_us_per_operation: (operations_per_s >= OPERATIONS_MANY)
                .then(|| cpu_us_per_s / operations_per_s),
            resident_bytes: number("roster-process-resident-bytes"),
            anonymous_bytes: number("roster-process-anonymous-bytes"),
            open_files: number("roster-process-open-files"),
            switches_per_s: self.rate(PROCESS, "roster-process-voluntary-switches")
                + self.rate(PROCESS, "roster-process-involuntary-switches"),
            read_bytes_per_s: self.known_rate(PROCESS, "roster-process-read-bytes"),
            written_bytes_per_s: self.known_rate(PROCESS, "roster-process-written-bytes"),
        }
    }

    fn store(&self) -> Store {
        let number = |attribute| self.now.number("cn=store", attribute);
        Store {
            entries: number("roster-store-entries"),
            overlay_layers: number("roster-overlay-layers"),
            overlay_bytes: number("roster-overlay-bytes"),
            overlay_limit_bytes: number("roster-overlay-limit-bytes"),
            behind_changes: number("roster-flush-behind-changes"),
            behind_us: number("roster-flush-behind-us"),
            flushes: number("roster-flushes"),
            flush_failures: number("roster-flush-failures"),
            last_flush_us: number("roster-flush-last-us"),
            database_bytes: number("roster-database-file-bytes"),
            oldest_reader_us: number("roster-database-oldest-reader-us"),
            disk_free_bytes: number("roster-disk-free-bytes"),
        }
    }

    fn journal(&self) -> Journal {
        let number = |attribute| self.now.number(JOURNAL, attribute);
        let syncs = self.more(JOURNAL, "roster-journal-syncs").unwrap_or(0);
        let sync_us = self.more(JOURNAL, "roster-journal-sync-us").unwrap_or(0);
        Journal {
            segments: number("roster-journal-segments"),
            bytes: number("roster-journal-bytes"),
            records_per_s: self.rate(JOURNAL, "roster-journal-records"),
            written_bytes_per_s: self.rate(JOURNAL, "roster-journal-written-bytes"),
            syncs_per_s: self.per_s(syncs),
            sync_us: sync_us.checked_div(syncs),
            failed: number("roster-journal-failed") == Some(1),
        }
    }

    fn cluster(&self) -> Option<Cluster> {
        let number = |attribute| self.now.number(CLUSTER, attribute);
        let text = |entry: &str| self.now.text(entry, "roster-cluster-role").map(str::to_owned);
        let member = |name: String| {
            let entry = format!("cn={name},{CLUSTER}");
            let lag = self.now.number(&entry, "roster-cluster-lag");
            Some(Member { member: name.parse().ok()?, role: text(&entry)?, lag })
        };
        let mut members: Vec<Member> =
            self.now.below(CLUSTER).into_iter().filter_map(member).collect();
        members.sort_by_key(|one| one.member);
        Some(Cluster {
            member: number("roster-cluster-member")?,
            role: text(CLUSTER)?,
            leader: number("roster-cluster-leader"),
            term: number("roster-cluster-term"),
            members,
        })
    }

    fn log(&self, name: String) -> Log {
        let entry = format!("cn={name},cn=logs");
        Log {
            lines_per_s: self.rate(&entry, "roster-log-lines"),
            dropped: self.now.number(&entry, "roster-log-dropped").unwrap_or(0),
            failed: self.now.number(&entry, "roster-log-failed") == Some(1),
            name,
        }
    }
}

impl Frame {
    pub(super) fn between(before: &Reading, now: &Reading) -> Self {
        let seconds = (now.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let between = Between { before, now, seconds };
        let names = now.below(OPERATIONS);
        let mut operations: Vec<Operation> =
            names.iter().map(|name| between.operation(name)).collect();
        operations.sort_by_key(|one| std::cmp::Reverse(one.total));
        let operations_per_s = operations.iter().map(|one| one.per_s).sum();
        let rate = |attribute| between.rate(OPERATIONS, attribute);
        let connections = Connections {
            open: now.number(CONNECTIONS, "roster-connections-open"),
            limit: now.number(CONNECTIONS, "roster-connections-limit"),
            accepted_per_s: between.rate(CONNECTIONS, "roster-connections-accepted"),
            refused_per_s: between.rate(CONNECTIONS, "roster-connections-refused"),
        };
        let queue = |name: String| {
            let number = |attribute| now.number(&format!("cn={name},cn=work"), attribute);
            let length = number("roster-queue-length").unwrap_or(0);
            let limit = number("roster-queue-limit").unwrap_or(0);
            Queue { length, limit, name }
        };
        let uptime_us = now.number(PROCESS, "roster-process-uptime-us");
        Self {
            version: now.text(PROCESS, "roster-process-version").map(str::to_owned),
            uptime_s: uptime_us.map(|time_us| time_us / 1_000_000),
            interval_s: seconds,
            operations_per_s,
            errors_per_s: operations.iter().map(|one| one.errors_per_s).sum(),
            entries_per_s: rate("roster-search-entries"),
            received_bytes_per_s: rate("roster-received-bytes"),
            sent_bytes_per_s: rate("roster-sent-bytes"),
            unindexed_per_s: rate("roster-unindexed-searches"),
            bind_failures_per_s: rate("roster-bind-failure-count"),
            operations,
            connections,
            process: between.process(operations_per_s),
            queues: now.below("cn=work").into_iter().map(queue).collect(),
            store: between.store(),
            journal: between.journal(),
            logs: now.below("cn=logs").into_iter().map(|name| between.log(name)).collect(),
            certificate_days: now.signed("cn=tls", "roster-tls-days"),
            panics: now.number(OPERATIONS, "roster-panics"),
            cluster: between.cluster(),
        }
    }

    /// Results of all operations that were errors, most first.
    pub(super) fn errors(&self) -> Vec<(String, u64)> {
        let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
        for (result, count) in self.operations.iter().flat_map(|one| &one.errors) {
            *sum.entry(result).or_default() += count;
        }
        let mut all: Vec<_> =
            sum.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }
}

fn is_error(result: &str) -> bool {
    !matches!(
        result,
        "success" | "compareTrue" | "compareFalse" | "referral" | "saslBindInProgress" | "none"
    )
}

/// By how much each has grown, where it has.
fn grown<K: Ord>(before: BTreeMap<K, u64>, now: BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let more = now.into_iter().map(|(key, count)| {
        let before = before.get(&key).copied().unwrap_or(0);
        (key, count.saturating_sub(before))
    });
    more.filter(|(_, more)| *more > 0).collect()
}

/// Below which time this share of them is.
fn percentile(times: &Times, share: f64) -> Option<u64> {
    let count: u64 = times.values().sum();
    let wanted = (count as f64 * share).ceil() as u64;
    let mut below = 0;
    let mut each = times.iter();
    each.find_map(|(end, count)| {
        below += count;
        (below >= wanted).then_some(*end)
    })
}

const OPERATIONS: &str = "cn=operations";
const CONNECTIONS: &str = "cn=connections";
const PROCESS: &str = "cn=process";
const JOURNAL: &str = "cn=journal";
const CLUSTER: &str = "cn=cluster";

/// Of fewer, what a server does besides would be counted as theirs.
const OPERATIONS_MANY: f64 = 100.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::reading::now;
    use super::*;

    const SEARCH: &str = "cn=search,cn=operations";

    fn two() -> (Reading, Reading) {
        let at = now();
        let before = Reading::made(
            at,
            &[
                ("cn=operations", &[("roster-search-entries", &["10"])]),
                (
                    SEARCH,
                    &[
                        ("roster-operation-count", &["100"]),
                        ("roster-operation-results", &["success 90", "noSuchObject 10"]),
                        ("roster-operation-times", &["20 90", "30 10"]),
                    ],
                ),
                (
                    "cn=journal",
                    &[("roster-journal-syncs", &["5"]), ("roster-journal-sync-us", &["500"])],
                ),
                ("cn=process", &[("roster-process-cpu-us", &["1000000"])]),
            ],
        );
        let now = Reading::made(
            at + Duration::from_secs(2),
            &[
                ("cn=operations", &[("roster-search-entries", &["30"])]),
                (
                    SEARCH,
                    &[
                        ("roster-operation-count", &["500"]),
                        ("roster-operation-results", &["success 470", "noSuchObject 30"]),
                        ("roster-operation-times", &["20 90", "30 406", "1024 4"]),
                    ],
                ),
                (
                    "cn=journal",
                    &[("roster-journal-syncs", &["9"]), ("roster-journal-sync-us", &["1300"])],
                ),
                ("cn=process", &[("roster-process-cpu-us", &["2000000"])]),
                ("cn=tls", &[("roster-tls-days", &["-1"])]),
            ],
        );
        (before, now)
    }

    #[test]
    fn rates_and_percentiles_are_those_of_the_interval() {
        let (before, now) = two();
        let frame = Frame::between(&before, &now);
        let search = &frame.operations[0];
        assert_eq!((search.per_s, search.errors_per_s, search.total), (200.0, 10.0, 500));
        assert_eq!((search.p50_us, search.p99_us), (Some(30), Some(30)));
        assert_eq!(frame.errors(), [("noSuchObject".to_owned(), 20)]);
        assert_eq!((frame.entries_per_s, frame.journal.syncs_per_s), (10.0, 2.0));
        assert_eq!(frame.journal.sync_us, Some(200));
        assert_eq!(frame.process.cpu_cores, 0.5);
        assert_eq!(frame.process.cpu_us_per_operation, Some(2_500.0));
        assert_eq!(frame.certificate_days, Some(-1));
        assert_eq!((frame.store.entries, frame.uptime_s), (None, None));
        let json = serde_json::to_value(&frame).unwrap();
        assert_eq!(json["operations"][0]["name"], "search");
    }

    #[test]
    fn a_member_is_shown_with_the_others_in_order() {
        let (before, _) = two();
        let now = Reading::made(
            before.at + Duration::from_secs(1),
            &[
                (
                    "cn=cluster",
                    &[
                        ("roster-cluster-member", &["2"]),
                        ("roster-cluster-role", &["leader"]),
                        ("roster-cluster-term", &["7"]),
                    ],
                ),
                ("cn=10,cn=cluster", &[("roster-cluster-role", &["unreachable"])]),
                (
                    "cn=9,cn=cluster",
                    &[("roster-cluster-role", &["follower"]), ("roster-cluster-lag", &["12"])],
                ),
            ],
        );
        let cluster = Frame::between(&before, &now).cluster.unwrap();
        assert_eq!((cluster.member, &*cluster.role, cluster.term), (2, "leader", Some(7)));
        let members: Vec<_> =
            cluster.members.iter().map(|one| (one.member, &*one.role, one.lag)).collect();
        assert_eq!(members, [(9, "follower", Some(12)), (10, "unreachable", None)]);
        assert!(Frame::between(&before, &before).cluster.is_none());
    }

    #[test]
    fn a_server_that_began_anew_counts_nothing_for_once() {
        let (before, now) = two();
        let frame = Frame::between(&now, &before.taken_at(now.at + Duration::from_secs(1)));
        assert_eq!(frame.operations[0].per_s, 0.0);
        assert_eq!(frame.operations[0].p99_us, None);
        assert_eq!(frame.journal.sync_us, None);
    }
}
