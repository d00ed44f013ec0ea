//! Who failed to sign in, from where and why, counted.
//!
//! Invariant: it takes bounded memory, whatever the log holds, and what is not kept is counted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, BufReader, Read};

use environment::Timestamp;
use offline::backup::Moment;
use serde::Serialize;

use super::line::Line;
use super::lines::{NextLine, next_line};
use crate::table::{Side, Table, number, shortened};

/// What logs say of those who signed in, or did not.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    since_us: u64,
    by_key: HashMap<Key, Count>,
    /// Lines in all, and lines that could not be read.
    lines: u64,
    bad_lines: u64,
    /// Lines that the server dropped, as the log says.
    dropped: u64,
    binds: u64,
    failed: u64,
    /// Failures of names that were too many to be kept.
    not_kept: u64,
}

/// Who, from where, how and why.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Key {
    name: String,
    address: String,
    mechanism: String,
    cause: String,
}

#[derive(Debug)]
struct Count {
    failures: u64,
    first_us: u64,
    last_us: u64,
}

/// What was counted.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) failures: Vec<Failed>,
    pub(crate) binds: u64,
    pub(crate) failed: u64,
    /// Failures of names below those of the list.
    pub(crate) not_shown: u64,
    /// Failures of names that were too many to be kept, whatever is shown; so the counts of names
    /// that seldom fail may be too low.
    pub(crate) not_kept: u64,
    pub(crate) lines: u64,
    pub(crate) unreadable_lines: u64,
    pub(crate) dropped_lines: u64,
}

/// Failures of one name from one address for one reason.
#[derive(Debug, Serialize)]
pub(crate) struct Failed {
    count: u64,
    name: String,
    address: String,
    mechanism: String,
    cause: String,
    first: String,
    last: String,
}

impl Failures {
    /// Counts what comes at or after `since`.
    pub(crate) fn since(since: Option<Timestamp>) -> Self {
        Self { since_us: since.map_or(0, |since| since.0), ..Self::default() }
    }

    /// Reads one file.
    ///
    /// # Errors
    /// When it cannot be read; a line that says nothing is counted.
    pub(crate) fn read(&mut self, octets: impl Read) -> io::Result<()> {
        let mut octets = BufReader::new(octets);
        let mut line = Vec::new();
        loop {
            let told = match next_line(&mut octets, &mut line)? {
                NextLine::End => return Ok(()),
                NextLine::TooLong => Err(()),
                NextLine::Line => self.line(&line),
            };
            self.lines += 1;
            self.bad_lines += u64::from(told.is_err());
        }
    }

    fn line(&mut self, octets: &[u8]) -> Result<(), ()> {
        if octets.trim_ascii().is_empty() {
            return Ok(());
        }
        let line = Line::parse(octets).map_err(drop)?;
        let time_us = line.time_us().map_err(drop)?;
        if time_us < self.since_us {
            return Ok(());
        }
        if line.kind == "dropped" {
            self.dropped = self.dropped.saturating_add(line.count);
        }
        // A message of an exchange that goes on is no sign-in yet (RFC 4511 §4.2.2).
        if line.kind != "bind" || line.code.is_none() || line.code == Some(SASL_IN_PROGRESS) {
            return Ok(());
        }
        self.binds += 1;
        if line.code != Some(0) {
            self.failed += 1;
            self.count(key(&line), time_us);
        }
        Ok(())
    }

    fn count(&mut self, key: Key, time_us: u64) {
        if self.by_key.len() >= KEYS_MAX && !self.by_key.contains_key(&key) {
            self.evict();
        }
        let new = Count { failures: 0, first_us: time_us, last_us: time_us };
        let count = self.by_key.entry(key).or_insert(new);
        count.failures += 1;
        count.first_us = count.first_us.min(time_us);
        count.last_us = count.last_us.max(time_us);
    }

    /// Makes room: keeps the half that fails most, of those alike the latest. Names that somebody
    /// makes up come once each, and must not keep out the one that is attacked.
    fn evict(&mut self) {
        let mut all: Vec<(Key, Count)> = self.by_key.drain().collect();
        all.sort_by_key(|(_, count)| Reverse((count.failures, count.last_us)));
        let evicted = all.drain(all.len().min(KEYS_MAX / 2)..);
        self.not_kept += evicted.map(|(_, count)| count.failures).sum::<u64>();
        self.by_key.extend(all);
    }

    /// The most frequent first, at most so many; 0: all.
    pub(crate) fn report(self, top: usize) -> Report {
        let mut all: Vec<(Key, Count)> = self.by_key.into_iter().collect();
        all.sort_by(|(key, count), (other_key, other)| {
            let order =
                |key: &Key, count: &Count| (count.failures, count.last_us, key.name.clone());
            order(other_key, other).cmp(&order(key, count))
        });
        let shown = if top == 0 { all.len() } else { top.min(all.len()) };
        let not_shown: u64 = all.drain(shown..).map(|(_, count)| count.failures).sum();
        let time = |us| Moment::from_micros(us).to_string();
        let failed = all.into_iter().map(|(key, count)| Failed {
            count: count.failures,
            name: key.name,
            address: key.address,
            mechanism: key.mechanism,
            cause: key.cause,
            first: time(count.first_us),
            last: time(count.last_us),
        });
        Report {
            failures: failed.collect(),
            binds: self.binds,
            failed: self.failed,
            not_shown,
            not_kept: self.not_kept,
            lines: self.lines,
            unreadable_lines: self.bad_lines,
            dropped_lines: self.dropped,
        }
    }
}

fn key(line: &Line) -> Key {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    // Who uses SASL has no DN in the request.
    let name = line.user.as_ref().filter(|name| !name.is_empty()).or(line.dn.as_ref());
    let client = text(&line.client);
    // The port is another one each time.
    let address = client.rsplit_once(':').map_or(&*client, |(address, _)| address);
    let kept = |text: &str| shortened(text, TEXT_LETTERS_MAX);
    Key {
        name: kept(name.map_or("", String::as_str)),
        address: kept(address),
        mechanism: kept(&text(&line.auth)),
        cause: kept(&cause(line)),
    }
}

/// Why, in words; lines of earlier releases say less.
fn cause(line: &Line) -> String {
    let by_name = line.cause.as_deref().and_then(|cause| word(CAUSES, cause));
    let by_policy = line.policy.as_deref().and_then(|policy| word(POLICIES, policy));
    let code = line.code.unwrap_or(0);
    let by_code = CODES.iter().find(|(known, _)| *known == code).map(|(_, words)| *words);
    let told = line.diagnostic.as_deref().filter(|told| !told.is_empty());
    match by_name.or(by_policy).or(by_code) {
        Some(words) => words.to_owned(),
        None => told.or(line.result.as_deref()).unwrap_or("refused").to_owned(),
    }
}

fn word(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, words)| *words)
}

impl Report {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new(&[
            ("failures", Side::Right),
            ("name", Side::Left),
            ("address", Side::Left),
            ("how", Side::Left),
            ("why", Side::Left),
            ("last (UTC)", Side::Left),
        ]);
        for one in &self.failures {
            let last = one.last.get(..16).unwrap_or(&one.last).replace('T', " ");
            let name = if one.name.is_empty() { "(no name)" } else { &one.name };
            table.row(vec![
                number(one.count),
                name.to_owned(),
                one.address.clone(),
                one.mechanism.clone(),
                one.cause.clone(),
                last,
            ]);
        }
        let [failed, binds] = [self.failed, self.binds].map(number);
        let mut text = match self.failures.is_empty() {
            true => String::new(),
            false => format!("{table}\n"),
        };
        text += &format!("{failed} of {binds} sign-ins failed");
        if self.not_shown > 0 {
            let count = number(self.not_shown);
            text += &format!("; {count} are not in the list: --top 0 shows those, too");
        }
        if self.not_kept > 0 {
            let count = number(self.not_kept);
            text += &format!("; {count} of names that seldom fail were too many to be kept");
        }
        text
    }
}

/// Counts the failures in a log of any octets; how many there are. For those who try what happens
/// to them.
pub fn count_failures(octets: &[u8]) -> u64 {
    let mut failures = Failures::since(None);
    // Octets in memory can be read.
    let _ = failures.read(octets);
    let report = failures.report(0);
    let listed: u64 = report.failures.iter().map(|one| one.count).sum();
    assert!(listed + report.not_kept == report.failed && report.failed <= report.binds);
    assert!(report.text().lines().count() <= report.failures.len() + 3);
    report.failed
}

/// Names of the access log, and what they mean.
const CAUSES: &[(&str, &str)] = &[
    ("noSuchEntry", "no such entry"),
    ("noPassword", "no password to compare with"),
    ("wrongPassword", "wrong password"),
    ("accountDisabled", "account disabled"),
    ("accountExpired", "account expired"),
    ("accountLocked", "account locked"),
    ("tooSoon", "too soon after a failure"),
    ("passwordExpired", "password expired"),
];

/// The password policy's names, in lines without a cause.
const POLICIES: &[(&str, &str)] = &[
    ("accountLocked", "account locked, disabled or expired"),
    ("passwordExpired", "password expired"),
];

/// Result codes that say enough (RFC 4511 §4.1.9).
const CODES: &[(u32, &str)] = &[
    (7, "mechanism unknown or not offered"),
    (8, "a stronger mechanism is required"),
    (13, "a password without TLS"),
    (34, "the name is no DN"),
    (51, "too busy, or too many connections or failures"),
    (123, "may not act as the identity asked for"),
];

/// saslBindInProgress.
const SASL_IN_PROGRESS: u32 = 14;
/// Names with addresses and causes that are kept.
const KEYS_MAX: usize = 50_000;
/// Letters of each that are kept.
const TEXT_LETTERS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], since: Option<Timestamp>) -> Report {
        let mut failures = Failures::since(since);
        failures.read(text).unwrap();
        failures.report(0)
    }

    fn bind(second: u32, more: &str) -> String {
        format!(
            "{{\"time\":\"2026-11-22T12:03:{second:02}Z\",\"kind\":\"bind\",\"client\":\
             \"[2001:db8::1]:46610\",\"auth\":\"simple\"{more}}}\n"
        )
    }

    #[test]
    fn failures_are_counted_by_name_address_and_cause() {
        let wrong = r#","dn":"uid=anna,dc=x","code":49,"cause":"wrongPassword""#;
        let text = [
            bind(1, wrong),
            bind(3, wrong),
            bind(2, r#","dn":"uid=x,dc=x","code":49,"cause":"noSuchEntry""#),
            bind(4, r#","dn":"","user":"bert","code":14"#),
            bind(5, r#","dn":"","user":"bert","code":49,"policy":"accountLocked""#),
            bind(6, r#","dn":"uid=anna,dc=x","code":0"#),
            "[2026-11-22T12:03:07Z] BIND from=\"192.0.2.7:1\" dn=\"\" authType=\"FROB\" result=7\n"
                .to_owned(),
            "frob\n".to_owned(),
        ];
        let report = read(text.concat().as_bytes(), None);
        assert_eq!((report.binds, report.failed, report.unreadable_lines), (6, 5, 1));
        let shown = report.text();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].contains("2  uid=anna,dc=x  [2001:db8::1]"), "{shown}");
        assert!(lines[1].ends_with("wrong password                       2026-11-22 12:03"));
        for want in ["bert", "account locked, disabled or expired", "no such entry", "(no name)"] {
            assert!(shown.contains(want), "{shown}");
        }
        assert!(shown.ends_with("5 of 6 sign-ins failed"), "{shown}");
        let later = offline_time("2026-11-22T12:03:03Z");
        assert_eq!(read(text.concat().as_bytes(), Some(later)).failed, 3);
    }

    fn offline_time(text: &str) -> Timestamp {
        Timestamp(text.parse::<Moment>().unwrap().micros())
    }

    #[test]
    fn no_name_reaches_the_terminal_as_it_is() {
        let name = r#","dn":"cn=\u001b[2J\u009b\u202e\n7 x","code":49"#;
        let text = read(bind(1, name).as_bytes(), None).text();
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text}");
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn made_up_names_do_not_hide_who_is_attacked() {
        let mut failures = Failures::since(None);
        let made_up = |count: usize, from: usize, failures: &mut Failures| {
            for at in from..from + count {
                let line = bind(1, &format!(r#","dn":"{at}","code":49"#));
                failures.read(line.as_bytes()).unwrap();
            }
        };
        made_up(KEYS_MAX, 0, &mut failures);
        for _ in 0..9 {
            failures.read(bind(2, r#","dn":"uid=anna","code":49"#).as_bytes()).unwrap();
        }
        made_up(KEYS_MAX, KEYS_MAX, &mut failures);
        let kept = failures.by_key.len();
        assert!(kept <= KEYS_MAX, "{kept}");
        let report = failures.report(0);
        assert_eq!((&*report.failures[0].name, report.failures[0].count), ("uid=anna", 9));
        let listed: u64 = report.failures.iter().map(|one| one.count).sum();
        assert_eq!((listed + report.not_kept, report.not_shown), (report.failed, 0));
        assert!(!report.text().contains("--top"));
    }

    #[test]
    fn what_is_too_much_is_counted_and_not_kept() {
        let long = "x".repeat(60_000);
        let one = bind(1, &format!(r#","dn":"{long}","code":49"#));
        let report = read(one.as_bytes(), None);
        assert!(report.failures[0].name.chars().count() <= TEXT_LETTERS_MAX);
        let mut failures = Failures::since(None);
        for at in 0..KEYS_MAX + 10 {
            let line = bind(1, &format!(r#","dn":"{at}","code":49"#));
            failures.read(line.as_bytes()).unwrap();
        }
        let report = failures.report(5);
        assert_eq!((report.failures.len(), report.failed), (5, KEYS_MAX as u64 + 10));
        assert_eq!(report.not_shown + report.not_kept, KEYS_MAX as u64 + 5);
        assert!(report.not_kept >= KEYS_MAX as u64 / 2);
        let text = report.text();
        assert!(text.contains("--top 0 shows") && text.contains("too many to be kept"), "{text}");
        let endless = vec![b'x'; 1 << 20];
        assert_eq!(read(&endless, None).unreadable_lines, 1);
    }
}
