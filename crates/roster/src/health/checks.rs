//! The table of what `roster doctor` looks for: one row, one check.
//!
//! Invariant: a directory that `roster init` has just made has no finding above a note. A check
//! says what it has seen, and the command that mends it.

use serde::Serialize;
use server::Settings;

use super::facts::Facts;
use crate::account::moment;
use crate::connect::ADMINISTRATOR_HINT;
use crate::failure::Failure;
use crate::output::in_shell;
use crate::table::number;

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Something does not work, or soon will not, or is open to whoever comes.
    Error,
    /// It will become one.
    Warning,
    /// Good to know.
    Info,
}

/// What was found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// What was seen.
    pub(crate) evidence: String,
    /// A command, or what else mends it.
    pub(crate) mend: String,
}

/// Where a check looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// Whether the server answers at all, and shows what it is asked for.
    Connection,
    /// Whether the data directory can be looked at at all.
    Named,
    /// What cn=monitor and cn=config say to an administrator.
    Server,
    /// The data directory on this machine.
    Machine,
    /// A backup that is named.
    Backup,
}

/// One thing that is looked for.
pub(crate) struct Check {
    pub(crate) id: &'static str,
    pub(crate) source: Source,
    /// What it looks for, for the reference.
    pub(crate) looks_for: &'static str,
    look: fn(&Facts) -> Vec<Finding>,
}

impl Check {
    /// What it finds; nothing where it could not look.
    pub(crate) fn look(&self, facts: &Facts) -> Option<Vec<Finding>> {
        let can_look = match self.source {
            Source::Connection => true,
            Source::Server => facts.monitor().is_some(),
            Source::Named => facts.machine.is_some(),
            Source::Machine => facts.machine().is_some(),
            Source::Backup => facts.backup.is_some(),
        };
        can_look.then(|| (self.look)(facts))
    }
}

fn found(severity: Severity, evidence: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { severity, evidence: evidence.into(), mend: mend.into() }
}

use Severity::{Error, Info, Warning};

/// All of them, the most urgent first.
pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "server",
        source: Source::Connection,
        looks_for: "a server that does not answer, or does not show what it is asked for",
        look: answers,
    },
    Check {
        id: "data",
        source: Source::Named,
        looks_for: "a data directory that is named, and cannot be looked at",
        look: |facts| {
            let mend = "name it with --data DIR, and run this as the user that owns it";
            let why = facts.machine.as_ref().and_then(|machine| machine.as_ref().err());
            why.map(|why| found(Warning, why.clone(), mend)).into_iter().collect()
        },
    },
    Check {
        id: "quarantine",
        source: Source::Machine,
        looks_for: "data in quarantine: they are known to differ from those of the cluster",
        look: |facts| {
            let Some(machine) = facts.machine() else { return Vec::new() };
            let anew = "make the server anew from another one: docs/how-to/replace-a-server.md";
            let unread = "the server does not start while it cannot read the file";
            match &machine.quarantine {
                Ok(None) => Vec::new(),
                Ok(Some(reason)) => vec![found(Error, format!("quarantine: {reason}"), anew)],
                Err(why) => vec![found(Error, why.clone(), unread)],
            }
        },
    },
    Check {
        id: "cluster",
        source: Source::Server,
        looks_for: "members that are away, lag, differ, speak another version, or have failed; no \
                    majority, no leader",
        look: cluster,
    },
    Check {
        id: "disk",
        source: Source::Server,
        looks_for: "a disk with less left than 1 GiB, or than twice `store.disk_full_mib`",
        look: |facts| {
            let free =
                facts.monitor().and_then(|it| it.number("cn=store", "roster-disk-free-bytes"));
            free.into_iter().filter_map(|free| disk(facts, free)).collect()
        },
    },
    Check {
        id: "disk-here",
        source: Source::Machine,
        looks_for: "the same of the disk of the data directory, also while no server runs",
        look: disk_here,
    },
    Check {
        id: "certificate",
        source: Source::Server,
        looks_for: "a certificate that has expired, ends within 30 days, or could not be read anew",
        look: certificate,
    },
    Check {
        id: "panics",
        source: Source::Server,
        looks_for: "requests that failed inside the server",
        look: |facts| {
            let count = facts.monitor().and_then(|it| it.number("cn=operations", "roster-panics"));
            let mend = "the server's log has the place of each: report it";
            let told = count.filter(|count| *count > 0);
            told.map(|count| {
                found(Error, format!("{} panics since the start", number(count)), mend)
            })
            .into_iter()
            .collect()
        },
    },
    Check {
        id: "flushes",
        source: Source::Server,
        looks_for: "changes that could not be brought into the database",
        look: |facts| {
            let name = "roster-flush-failures";
            let count = facts.monitor().and_then(|it| it.number("cn=store", name));
            let evidence = |count| format!("{} flushes failed since the start", number(count));
            let mend = "the server's log says why: is the disk full or failing?";
            let told = count.filter(|count| *count > 0);
            told.map(|count| found(Warning, evidence(count), mend)).into_iter().collect()
        },
    },
    Check {
        id: "logs",
        source: Source::Server,
        looks_for: "an access or audit log that cannot be written, or has lost lines",
        look: logs,
    },
    Check {
        id: "sinks",
        source: Source::Server,
        looks_for: "sinks that are stopped, wait for their target, or have missed changes",
        look: sinks,
    },
    Check {
        id: "settings",
        source: Source::Server,
        looks_for: "settings of the directory that this server cannot hold, and has left out",
        look: |facts| {
            let left_out = facts.more().map(|more| more.left_out.as_slice()).unwrap_or_default();
            let mend =
                |name: &str| format!("roster config describe {name}; roster config reset {name}");
            let one = |name: &String| {
                found(Warning, format!("{name} is left out: the log says why"), mend(name))
            };
            left_out.iter().map(one).collect()
        },
    },
    Check {
        id: "clock",
        source: Source::Server,
        looks_for: "a server on another machine whose start and uptime do not add up to the time \
                    here, by more than 5 seconds",
        look: clock,
    },
    Check {
        id: "file-limit",
        source: Source::Server,
        looks_for: "a limit of open files that lowers `limits.connections_max`, or is nearly met",
        look: file_limit,
    },
    Check {
        id: "connections",
        source: Source::Server,
        looks_for: "more than four fifths of the connections that are allowed",
        look: |facts| {
            let count = |name| facts.monitor()?.number("cn=connections", name);
            let open = count("roster-connections-open").unwrap_or(0);
            let limit = count("roster-connections-limit").unwrap_or(0);
            if limit == 0 || open * 5 <= limit * 4 {
                return Vec::new();
            }
            let [open, limit] = [open, limit].map(number);
            let mend = "roster session list; raise limits.connections_max and the file limit";
            vec![found(Warning, format!("{open} of {limit} connections are open"), mend)]
        },
    },
    Check {
        id: "passwords",
        source: Source::Server,
        looks_for: "stored passwords, of the first 10,000 persons and accounts, in the clear or \
                    by schemes that are quickly guessed (MD5, SHA, CRYPT and the like)",
        look: passwords,
    },
    Check {
        id: "anonymous",
        source: Source::Server,
        looks_for: "what a client can read, of the first 20 entries, that does not say who it is",
        look: anonymous,
    },
    Check {
        id: "acis",
        source: Source::Server,
        looks_for: "ACIs, of the first 1,000, that name entries or attributes that there are not",
        look: acis,
    },
    Check {
        id: "files",
        source: Source::Machine,
        looks_for: "data, keys or the administrator's password that others on the machine can read",
        look: |facts| {
            let machine = facts.machine();
            let files = machine.map(|machine| machine.open_files.as_slice()).unwrap_or_default();
            let one = |path: &std::path::PathBuf| {
                let evidence = format!("others than its owner can use {}", path.display());
                found(Warning, evidence, format!("chmod go= {}", in_shell(path)))
            };
            files.iter().map(one).collect()
        },
    },
    Check {
        id: "unindexed",
        source: Source::Server,
        looks_for: "searches that no index helps, and were refused or carried out",
        look: unindexed,
    },
    Check {
        id: "indexes",
        source: Source::Server,
        looks_for: "indexes that the searches of late want, or do not use",
        look: |facts| {
            let advice = facts.more().map(|more| more.advice.as_slice()).unwrap_or_default();
            let one = |line: &String| {
                let (action, rest) = line.split_once(' ')?;
                let (definition, reason) = rest.split_once(": ")?;
                let mend = format!("roster index {action} '{definition}'");
                Some(found(Info, format!("{definition}: {reason}"), mend))
            };
            advice.iter().filter_map(one).collect()
        },
    },
    Check {
        id: "backup",
        source: Source::Backup,
        looks_for: "a backup that is missing, damaged, or older than a day; name it with --backup",
        look: backup,
    },
];

fn answers(facts: &Facts) -> Vec<Finding> {
    let hint = |failure: &Failure| failure.hint.clone().unwrap_or_default();
    let server = match &facts.server {
        Ok(server) => server,
        Err(failure) => return vec![found(Error, failure.message.clone(), hint(failure))],
    };
    let monitor = server.monitor.as_ref().err();
    let mut all: Vec<_> = monitor
        .map(|failure| found(Warning, failure.message.clone(), hint(failure)))
        .into_iter()
        .collect();
    let one = |what: &String| found(Warning, format!("not shown: {what}"), ADMINISTRATOR_HINT);
    all.extend(server.refused.iter().map(one));
    all
}

fn disk_here(facts: &Facts) -> Vec<Finding> {
    let Some(free) = facts.machine().and_then(|machine| machine.disk_free_bytes) else {
        return Vec::new();
    };
    // Most often it is the disk that the server has told of, a moment before.
    let told = facts.monitor().and_then(|it| it.number("cn=store", "roster-disk-free-bytes"));
    if told.is_some_and(|told| told.abs_diff(free) < DISK_ALIKE_BYTES) {
        return Vec::new();
    }
    disk(facts, free).into_iter().collect()
}

fn disk(facts: &Facts, free: u64) -> Option<Finding> {
    let full = facts.machine().map_or(0, |machine| machine.settings.store.disk_full_bytes);
    let evidence = format!("{} MiB are free for the data directory", number(free >> 20));
    let mend = "make room: old backups, logs put aside, or a larger disk";
    match free {
        _ if free <= full => Some(found(Error, format!("{evidence}: updates are refused"), mend)),
        _ if free < DISK_FREE_MIN_BYTES.max(full.saturating_mul(2)) => {
            Some(found(Warning, evidence, mend))
        }
        _ => None,
    }
}

fn cluster(facts: &Facts) -> Vec<Finding> {
    let view = facts.server.as_ref().ok().and_then(|server| server.cluster.as_ref());
    let advice = view.map(|view| view.advice(None)).unwrap_or_default();
    let severity = |line: &str| {
        let urgent =
            ["no majority", "no leader", "differ", "are not those", "has failed", "removed"];
        match urgent.iter().any(|words| line.contains(words)) {
            true => Error,
            false => Warning,
        }
    };
    let mend = "roster cluster status --watch; docs/how-to/disaster.md";
    advice.into_iter().map(|line| found(severity(&line), line, mend)).collect()
}

fn certificate(facts: &Facts) -> Vec<Finding> {
    let Some(monitor) = facts.monitor() else { return Vec::new() };
    let mut all = Vec::new();
    if let Some(error) = monitor.text("cn=tls", "roster-tls-error") {
        let evidence = format!("the changed certificate is not used: {error}");
        all.push(found(Error, evidence, "mend tls.cert and tls.key; the server reads them again"));
    }
    let subject = monitor.text("cn=tls", "roster-tls-subject").unwrap_or("the certificate");
    let mend = "put another in place of tls.cert and tls.key: docs/how-to/tls.md";
    match monitor.signed("cn=tls", "roster-tls-days") {
        Some(days) if days < 0 => all.push(found(Error, format!("{subject} has expired"), mend)),
        Some(days) if days < CERTIFICATE_DAYS_MIN => {
            all.push(found(Warning, format!("{subject} ends in {days} days"), mend));
        }
        Some(_) | None => {}
    }
    all
}

fn logs(facts: &Facts) -> Vec<Finding> {
    let Some(monitor) = facts.monitor() else { return Vec::new() };
    let mut all = Vec::new();
    for log in monitor.below("cn=logs") {
        let entry = format!("cn={log},cn=logs");
        if let Some(error) = monitor.text(&entry, "roster-log-error") {
            let evidence = format!("the {log} log cannot be written: {error}");
            all.push(found(Error, evidence, "make room on its disk, or mend its path and mode"));
        }
        let dropped = monitor.number(&entry, "roster-log-dropped").unwrap_or(0);
        if dropped > 0 {
            let evidence = format!("{} lines of the {log} log were lost", number(dropped));
            all.push(found(Warning, evidence, "give it a faster disk, or fewer kinds of lines"));
        }
    }
    all
}

fn sinks(facts: &Facts) -> Vec<Finding> {
    let Some(monitor) = facts.monitor() else { return Vec::new() };
    let mut all = Vec::new();
    for sink in monitor.below("cn=sinks") {
        let entry = format!("cn={sink},cn=sinks");
        let state = monitor.text(&entry, "roster-sink-state").unwrap_or_default();
        let error = monitor.text(&entry, "roster-sink-error").filter(|text| !text.is_empty());
        let severity = match state {
            "stopped" => Some(Error),
            "waiting" if error.is_some() => Some(Warning),
            _ => None,
        };
        if let Some(severity) = severity {
            let why = error.map(|error| format!(": {error}")).unwrap_or_default();
            let evidence = format!("the sink '{sink}' is {state}{why}");
            all.push(found(severity, evidence, "roster sink list; docs/how-to/sinks.md"));
        }
        let missing = monitor.number(&entry, "roster-sink-missing-changes").unwrap_or(0);
        if missing > 0 {
            let evidence = format!("the sink '{sink}' missed {} changes", number(missing));
            all.push(found(Warning, evidence, "have its target read the directory anew"));
        }
    }
    all
}

fn clock(facts: &Facts) -> Vec<Finding> {
    let Ok(server) = &facts.server else { return Vec::new() };
    let Ok(monitor) = &server.monitor else { return Vec::new() };
    // The clock is the same one.
    if facts.url.starts_with("ldapi:") {
        return Vec::new();
    }
    let of = |name| monitor.number("cn=process", name);
    let (Some(start), Some(up)) = (of("roster-process-start-us"), of("roster-process-uptime-us"))
    else {
        return Vec::new();
    };
    // A server does not tell its time. The sum is it, unless the clock was set meanwhile, or the
    // machine was suspended: so it is no more than a note.
    let there = start.saturating_add(up);
    let (asked, told) = (server.asked_at.0, server.told_at.0);
    let away = asked.saturating_sub(there).max(there.saturating_sub(told)) / 1_000_000;
    if away <= CLOCK_S_MAX {
        return Vec::new();
    }
    let evidence = format!(
        "by its start and uptime, the server's clock is {away} s away from that of this machine, \
         or was set since the start"
    );
    let mend = "compare 'date -u' on both; run an NTP client (chrony, systemd-timesyncd)";
    vec![found(Info, evidence, mend)]
}

fn file_limit(facts: &Facts) -> Vec<Finding> {
    let Some(monitor) = facts.monitor() else { return Vec::new() };
    let mut all = Vec::new();
    let mend = "LimitNOFILE= of the service, or ulimit -n, then restart the server";
    let of = |name| monitor.number("cn=process", name).unwrap_or(0);
    let (open, limit) = (of("roster-process-open-files"), of("roster-process-open-files-limit"));
    if limit > 0 && open * 10 > limit * 9 {
        let [open, limit] = [open, limit].map(number);
        all.push(found(Warning, format!("{open} of {limit} files are open"), mend));
    }
    let most = monitor.number("cn=connections", "roster-connections-limit").unwrap_or(0);
    let wanted = facts.machine().map(|machine| machine.settings.limits.connections_max);
    if let Some(wanted) = wanted.filter(|wanted| most > 0 && most < *wanted as u64) {
        // The default is more than most machines allow, and than most need.
        let is_meant = wanted != Settings::default().limits.connections_max;
        let severity = if is_meant || most < CONNECTIONS_FEW { Warning } else { Info };
        let [most, wanted, limit] = [most, wanted as u64, limit].map(number);
        let evidence = format!(
            "{limit} files allow for {most} connections, not for the {wanted} of the settings"
        );
        all.push(found(severity, evidence, mend));
    }
    all
}

fn passwords(facts: &Facts) -> Vec<Finding> {
    let Some(more) = facts.more() else { return Vec::new() };
    let mut all = Vec::new();
    if more.is_cut {
        let evidence = format!(
            "only the first {} accounts were looked at: there was no time for more",
            number(more.accounts_seen)
        );
        all.push(found(Info, evidence, "ask again when the server is less busy"));
    }
    for (scheme, count) in &more.schemes {
        let of = format!("of {} accounts", number(more.accounts_seen));
        let count = number(*count);
        let mend =
            "they are stored anew when people sign in; 'roster account reset' those who do not";
        if scheme.is_empty() {
            let evidence = format!("{count} passwords {of} are stored in the clear");
            all.push(found(Error, evidence, mend));
        } else if WEAK.contains(&scheme.as_str()) {
            let evidence = format!("{count} passwords {of} are stored as {{{scheme}}}");
            all.push(found(Warning, evidence, mend));
        }
    }
    all
}

fn anonymous(facts: &Facts) -> Vec<Finding> {
    let Some(more) = facts.more().filter(|more| more.anonymous_entries > 0) else {
        return Vec::new();
    };
    let names = &more.anonymous_attributes;
    let secret = names.iter().find(|name| name.to_ascii_lowercase().starts_with("userpassword"));
    let mend = "docs/how-to/access.md: give the ACI of default access instead of \"anyone\"";
    match secret {
        Some(_) => vec![found(Error, "anybody can read stored passwords (userPassword)", mend)],
        None => {
            let shown = names.iter().take(12).cloned().collect::<Vec<_>>().join(", ");
            vec![found(Info, format!("anybody can read entries, with {shown}"), mend)]
        }
    }
}

fn acis(facts: &Facts) -> Vec<Finding> {
    let dead = facts.more().map(|more| more.dead_names.as_slice()).unwrap_or_default();
    let one = |dead: &super::aci_names::DeadName| {
        let what = if dead.is_attribute { "no attribute" } else { "no entry" };
        let (entry, acl, name) = (&dead.entry, &dead.acl, &dead.name);
        let evidence = format!("the ACI \"{acl}\" of {entry} names {what} that there is: {name}");
        found(Warning, evidence, "correct or delete the ACI; 'roster why' tells what it decides")
    };
    dead.iter().take(FINDINGS_MAX).map(one).collect()
}

fn unindexed(facts: &Facts) -> Vec<Finding> {
    let Some(monitor) = facts.monitor() else { return Vec::new() };
    let of = |name| monitor.number("cn=operations", name).unwrap_or(0);
    let mend = "roster index advise; docs/how-to/slow-search.md";
    let refused = of("roster-unindexed-searches-refused");
    let mut all = Vec::new();
    if refused > 0 {
        let evidence = format!("{} searches were refused: no index helps", number(refused));
        all.push(found(Warning, evidence, mend));
    }
    let done = of("roster-unindexed-searches");
    if done > 0 {
        let evidence = format!("{} searches read all entries: no index helps", number(done));
        all.push(found(Info, evidence, mend));
    }
    all
}

fn backup(facts: &Facts) -> Vec<Finding> {
    let Some(backup) = &facts.backup else { return Vec::new() };
    let path = in_shell(&backup.path);
    let mend = format!("roster backup --to {path}");
    let until = match &backup.complete_until {
        Err(reason) => return vec![found(Error, reason.clone(), format!("{mend} --full"))],
        Ok(None) => return vec![found(Error, format!("there is no backup in {path}"), mend)],
        Ok(Some(until)) => *until,
    };
    let age = std::time::Duration::from_micros(facts.now.0.saturating_sub(until.0));
    let evidence = format!("the backup is complete until {} ago", moment::rough(age));
    match age.as_secs() / 3_600 {
        0..BACKUP_HOURS_MAX => Vec::new(),
        168.. => vec![found(Error, evidence, mend)],
        _ => vec![found(Warning, evidence, mend)],
    }
}

/// Schemes that are guessed at billions a second, or cut passwords off.
const WEAK: &[&str] = &["MD5", "SMD5", "SHA", "SSHA", "CRYPT", "LANMAN", "NT", "BASE64", "CLEAR"];
const DISK_FREE_MIN_BYTES: u64 = 1 << 30;
const CERTIFICATE_DAYS_MIN: i64 = 30;
/// Disks that differ less in what is free are taken for one.
const DISK_ALIKE_BYTES: u64 = 64 << 20;
const CLOCK_S_MAX: u64 = 5;
/// Connections that a directory of any use may have.
const CONNECTIONS_FEW: u64 = 1_000;
/// A day, and what a daily one may be late.
const BACKUP_HOURS_MAX: u64 = 26;
/// Findings of one check about ACIs.
const FINDINGS_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use environment::Timestamp;

    use super::super::facts::{BackupFacts, More, ServerFacts};
    use super::super::machine::Machine;
    use super::*;
    use crate::top::reading::{Reading, now};

    type Made<'a> = (&'a str, &'a [(&'a str, &'a [&'a str])]);

    fn facts(entries: &[Made<'_>], more: More) -> Facts {
        let at: Instant = now();
        let server = ServerFacts {
            naming_contexts: Vec::new(),
            monitor: Ok(Reading::made(at, entries)),
            asked_at: Timestamp(2_000_000_000),
            told_at: Timestamp(2_003_000_000),
            cluster: None,
            refused: Vec::new(),
            operations_per_s: None,
            more: Some(more),
        };
        let url = "ldap://a".to_owned();
        Facts { url, server: Ok(server), machine: None, backup: None, now: Timestamp(1 << 50) }
    }

    /// The findings of one check, each with its severity.
    fn look(id: &str, facts: &Facts) -> Vec<(Severity, String)> {
        let check = CHECKS.iter().find(|check| check.id == id).unwrap();
        let findings = check.look(facts).unwrap();
        assert!(findings.iter().all(|one| !one.mend.is_empty()), "{findings:?}");
        findings.into_iter().map(|one| (one.severity, one.evidence)).collect()
    }

    #[track_caller]
    fn check(id: &str, entries: &[Made<'_>], want: &[(Severity, &str)]) {
        let found = look(id, &facts(entries, More::default()));
        assert_eq!(found.len(), want.len(), "{found:?}");
        for ((severity, evidence), (want, part)) in found.iter().zip(want) {
            assert!(severity == want && evidence.contains(part), "{found:?} lacks {part}");
        }
    }

    #[test]
    fn what_the_monitor_says_is_judged() {
        let days = |days: &'static [&'static str]| [("roster-tls-days", days)];
        check("certificate", &[("cn=tls", &days(&["-1"]))], &[(Error, "has expired")]);
        check("certificate", &[("cn=tls", &days(&["29"]))], &[(Warning, "ends in 29 days")]);
        check("certificate", &[("cn=tls", &days(&["30"]))], &[]);
        let error = [("roster-tls-error", &["no key"] as &[_])];
        check("certificate", &[("cn=tls", &error)], &[(Error, "no key")]);
        let free = |free: &'static [&'static str]| [("roster-disk-free-bytes", free)];
        check("disk", &[("cn=store", &free(&["0"]))], &[(Error, "updates are refused")]);
        check("disk", &[("cn=store", &free(&["104857600"]))], &[(Warning, "100 MiB")]);
        check("disk", &[("cn=store", &free(&["10737418240"]))], &[]);
        let log = [("roster-log-error", &["disk full"] as &[_]), ("roster-log-dropped", &["7"])];
        let want = [(Error, "disk full"), (Warning, "7 lines of the access log")];
        check("logs", &[("cn=access,cn=logs", &log)], &want);
        let sink = [
            ("roster-sink-state", &["stopped"] as &[_]),
            ("roster-sink-error", &["gone"]),
            ("roster-sink-missing-changes", &["3"]),
        ];
        let want = [(Error, "the sink 'hr' is stopped: gone"), (Warning, "missed 3 changes")];
        check("sinks", &[("cn=hr,cn=sinks", &sink)], &want);
        let running = [("roster-sink-state", &["running"] as &[_]), ("roster-sink-error", &[""])];
        check("sinks", &[("cn=hr,cn=sinks", &running)], &[]);
        let panics = [("roster-panics", &["1"] as &[_])];
        check("panics", &[("cn=operations", &panics)], &[(Error, "1 panics")]);
        let flushes = [("roster-flush-failures", &["2"] as &[_])];
        check("flushes", &[("cn=store", &flushes)], &[(Warning, "2 flushes failed")]);
        let searches = [
            ("roster-unindexed-searches-refused", &["4"] as &[_]),
            ("roster-unindexed-searches", &["5"]),
        ];
        let want = [(Warning, "4 searches were refused"), (Info, "5 searches read")];
        check("unindexed", &[("cn=operations", &searches)], &want);
        let many =
            [("roster-connections-open", &["81"] as &[_]), ("roster-connections-limit", &["100"])];
        check("connections", &[("cn=connections", &many)], &[(Warning, "81 of 100")]);
        let files = [
            ("roster-process-open-files", &["95"] as &[_]),
            ("roster-process-open-files-limit", &["100"]),
        ];
        check("file-limit", &[("cn=process", &files)], &[(Warning, "95 of 100 files")]);
    }

    #[test]
    fn a_clock_is_compared_with_that_of_this_machine() {
        for (start, want) in [
            ("1993999999", Some(Info)),
            ("1996000000", None),
            ("2008000000", None),
            ("2009000000", Some(Info)),
            ("1", Some(Info)),
        ] {
            let start = [start];
            let process: [(&str, &[&str]); 2] =
                [("roster-process-start-us", &start), ("roster-process-uptime-us", &["0"])];
            let found = look("clock", &facts(&[("cn=process", &process)], More::default()));
            assert_eq!(found.first().map(|one| one.0), want, "{start:?}: {found:?}");
            let url = "ldapi://socket".to_owned();
            let here = Facts { url, ..facts(&[("cn=process", &process)], More::default()) };
            assert_eq!(look("clock", &here), []);
        }
    }

    #[test]
    fn what_is_not_shown_is_not_taken_for_well() {
        let mut facts = facts(&[], More::default());
        facts.machine = Some(Err("'/x' is not a roster data directory".to_owned()));
        let server = facts.server.as_mut().unwrap();
        server.refused = vec!["ACIs: busy (51)".to_owned()];
        assert_eq!(look("server", &facts), [(Warning, "not shown: ACIs: busy (51)".to_owned())]);
        facts.server.as_mut().unwrap().monitor = Err(Failure::refused("no").hint("sign in"));
        assert_eq!(look("server", &facts)[0], (Warning, "no".to_owned()));
        assert_eq!(look("data", &facts)[0].0, Warning);
        let quarantine = CHECKS.iter().find(|check| check.id == "quarantine").unwrap();
        assert_eq!(quarantine.look(&facts), None);
    }

    #[test]
    fn one_disk_is_told_once() {
        let free = [("roster-disk-free-bytes", &["104857600"] as &[_])];
        for (here, want) in [(104_861_696, 0), (400 << 20, 1), (2 << 30, 0)] {
            let machine = Machine {
                settings: Settings::default(),
                disk_free_bytes: Some(here),
                open_files: Vec::new(),
                quarantine: Ok(None),
            };
            let mut facts = facts(&[("cn=store", &free)], More::default());
            facts.machine = Some(Ok(machine));
            assert_eq!(look("disk", &facts).len(), 1);
            assert_eq!(look("disk-here", &facts).len(), want, "{here}");
        }
    }

    #[test]
    fn advice_and_settings_that_are_left_out_are_passed_on() {
        let more = More {
            left_out: vec!["authentication.mechanisms".to_owned()],
            advice: vec!["add substring description: 812 searches".to_owned()],
            ..More::default()
        };
        let facts = facts(&[], more);
        assert_eq!(look("settings", &facts)[0].0, Warning);
        let (severity, evidence) = look("indexes", &facts).remove(0);
        assert_eq!((severity, &*evidence), (Info, "substring description: 812 searches"));
    }

    #[test]
    fn a_backup_is_missing_damaged_old_or_well() {
        let hours = |hours: u64| Ok(Some(Timestamp((1 << 50) - hours * 3_600_000_000)));
        for (complete_until, want) in [
            (Ok(None), Some(Error)),
            (Err("it is damaged".to_owned()), Some(Error)),
            (hours(1), None),
            (hours(27), Some(Warning)),
            (hours(170), Some(Error)),
        ] {
            let backup = BackupFacts { path: "/backup".into(), complete_until };
            let facts = Facts { backup: Some(backup), ..facts(&[], More::default()) };
            assert_eq!(look("backup", &facts).first().map(|one| one.0), want);
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_a_finding_and_nothing_else_is_taken_for_well() {
        let server = Err(Failure::local("cannot connect").hint("start it"));
        let facts = Facts { server, ..facts(&[], More::default()) };
        assert_eq!(look("server", &facts), [(Error, "cannot connect".to_owned())]);
        let of_server = |check: &&Check| check.source == Source::Server;
        assert!(CHECKS.iter().filter(of_server).all(|check| check.look(&facts).is_none()));
    }
}
