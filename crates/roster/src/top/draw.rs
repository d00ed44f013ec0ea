//! How an interval looks.

use std::fmt::Write as _;

use super::frame::{Cluster, Frame, Operation};
use super::watch::Away;
use crate::table::number;

/// What the terminal can do.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) has_colour: bool,
    pub(super) width: usize,
}

/// What stands beside the figures of an interval.
#[derive(Clone, Copy, Default)]
pub(super) struct Shown<'s> {
    /// Operations per second of the intervals so far; none for a time without a server.
    pub(super) rates: &'s [Option<f64>],
    /// The figures are old.
    pub(super) absence: Option<&'s Absence>,
}

/// Why there are no figures of now.
#[derive(Debug)]
pub(super) enum Absence {
    /// The server was asked and has not answered for so many seconds.
    Silent(u64),
    /// It is not there.
    Away(Away),
    /// It is there again after so many seconds, and the interval has just begun.
    Back(u64),
}

/// All of an interval, a line each.
pub(super) fn block(frame: &Frame, server: &str, shown: Shown<'_>, style: Style) -> String {
    let Some(absence) = shown.absence else {
        return text(&figures(frame, server, shown, style), style);
    };
    // What was an alarm is one no more: nobody knows.
    let plain = Style { has_colour: false, ..style };
    let mut lines = figures(frame, server, shown, plain);
    for line in &mut lines {
        *line = style.old(&clipped(line, style.width));
    }
    if let Some(line) = lines.get_mut(1) {
        *line = why_old(absence, style, "; the figures are old");
    }
    text(&lines, style)
}

/// The page before there is an interval.
pub(super) fn nothing_yet(server: &str, absence: Option<&Absence>, style: Style) -> String {
    let why = absence.map_or_else(|| "reading …".to_owned(), |why| why_old(why, style, ""));
    text(&[format!("roster   {server}"), why], style)
}

/// Why figures are old; what matters comes first, since narrow terminals cut the rest.
fn why_old(absence: &Absence, style: Style, more: &str) -> String {
    match absence {
        Absence::Silent(seconds) => {
            style.alarm(&format!("no answer for {}{more}", duration(*seconds)))
        }
        Absence::Away(away) => {
            let (length, reason) = (duration(away.seconds()), &away.reason);
            style.alarm(&format!("disconnected for {length}, reconnecting{more}: {reason}"))
        }
        Absence::Back(seconds) => {
            style.notable(&format!("back after {}{more}", duration(*seconds)))
        }
    }
}

fn figures(frame: &Frame, server: &str, shown: Shown<'_>, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(head(frame, server));
    lines.push(String::new());
    lines.push(format!(
        "operations   {}",
        join(&[
            format!("{}/s", rate(frame.operations_per_s)),
            format!("{} entries/s", rate(frame.entries_per_s)),
            format!("in {}/s", octets(frame.received_bytes_per_s)),
            format!("out {}/s", octets(frame.sent_bytes_per_s)),
            curve(shown.rates, style.width),
        ])
    ));
    lines.push(errors(frame, style));
    lines.push(connections(frame, style));
    lines.extend([process(frame), memory(frame)]);
    lines.push(String::new());
    lines.push(format!(
        "{:<12} {:>11} {:>10} {:>10} {:>11} {:>16}",
        "operation", "per second", "p50", "p99", "errors/s", "since the start"
    ));
    let seen = frame.operations.iter().filter(|one| one.total > 0);
    lines.extend(seen.map(|one| operation(one, style)));
    lines.push(String::new());
    lines.extend([queues(frame, style), store(frame), flush(frame, style)]);
    lines.extend([journal(frame, style), logs(frame, style), certificate(frame, style)]);
    lines.extend(frame.cluster.as_ref().map(|it| cluster(it, style)));
    lines
}

fn text(lines: &[String], style: Style) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&clipped(line, style.width));
        text.push('\n');
    }
    text
}

/// The names of the columns of [`line`].
pub(super) fn line_head() -> String {
    format!(
        "{:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>6} {:>6} {:>9} {:>6}",
        "ops/s",
        "search/s",
        "bind/s",
        "write/s",
        "errors/s",
        "p50",
        "p99",
        "conns",
        "cores",
        "queued",
        "overlay",
        "behind"
    )
}

/// An interval in one line. Times are those of the kind of which there were most.
pub(super) fn line(frame: &Frame) -> String {
    let of = |names: &[&str]| {
        let those = frame.operations.iter().filter(|one| names.contains(&one.name.as_str()));
        those.map(|one| one.per_s).sum::<f64>()
    };
    let most = frame.operations.iter().max_by(|one, other| one.per_s.total_cmp(&other.per_s));
    let most = most.filter(|one| one.per_s > 0.0);
    let queued: u64 = frame.queues.iter().map(|queue| queue.length).sum();
    format!(
        "{:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>6.2} {:>6} {:>9} {:>6}",
        rate(frame.operations_per_s),
        rate(of(&["search"])),
        rate(of(&["bind"])),
        rate(of(&["add", "modify", "delete", "modify_dn"])),
        rate(frame.errors_per_s),
        time(most.and_then(|one| one.p50_us)),
        time(most.and_then(|one| one.p99_us)),
        known(frame.connections.open),
        frame.process.cpu_cores,
        number(queued),
        size(frame.store.overlay_bytes),
        known(frame.store.behind_changes),
    )
}

fn head(frame: &Frame, server: &str) -> String {
    let version = frame.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let up = frame.uptime_s.map(|seconds| format!("   up {}", duration(seconds)));
    format!(
        "roster{version}   {server}{}   every {:.1} s",
        up.unwrap_or_default(),
        frame.interval_s
    )
}

fn errors(frame: &Frame, style: Style) -> String {
    let mut parts = vec![format!("{}/s", rate(frame.errors_per_s))];
    let most = frame.errors().into_iter().take(ERRORS_SHOWN);
    parts.extend(most.map(|(name, count)| format!("{} {name}", number(count))));
    if frame.bind_failures_per_s > 0.0 {
        parts.push(format!("{} failed binds/s", rate(frame.bind_failures_per_s)));
    }
    if frame.unindexed_per_s > 0.0 {
        parts.push(format!("{} unindexed searches/s", rate(frame.unindexed_per_s)));
    }
    let panics = frame.panics.filter(|panics| *panics > 0);
    parts.extend(panics.map(|panics| style.alarm(&format!("{panics} bugs since the start"))));
    format!("errors       {}", join(&parts))
}

fn connections(frame: &Frame, style: Style) -> String {
    let connections = &frame.connections;
    let mut parts = vec![
        format!("{} of {} open", known(connections.open), known(connections.limit)),
        format!("{}/s new", rate(connections.accepted_per_s)),
    ];
    if connections.refused_per_s > 0.0 {
        parts.push(style.alarm(&format!("{}/s refused", rate(connections.refused_per_s))));
    }
    format!("connections  {}", join(&parts))
}

fn process(frame: &Frame) -> String {
    let process = &frame.process;
    let cost = process.cpu_us_per_operation.map(|cost| format!("{cost:.1} µs per operation"));
    let mut parts = vec![format!("{:.2} cores", process.cpu_cores)];
    parts.extend(cost);
    parts.push(format!("{} switches/s", rate(process.switches_per_s)));
    parts.push(format!("{} files", known(process.open_files)));
    format!("cpu          {}", join(&parts))
}

fn memory(frame: &Frame) -> String {
    let process = &frame.process;
    let mapped = process.resident_bytes.zip(process.anonymous_bytes);
    let mapped = mapped.map(|(all, own)| all.saturating_sub(own));
    let mut parts = vec![
        format!("{} of its own", size(process.anonymous_bytes)),
        format!("{} mapped", size(mapped)),
    ];
    let disk = process.read_bytes_per_s.zip(process.written_bytes_per_s);
    parts.extend(disk.map(|(read, written)| {
        format!("disk {}/s read, {}/s written", octets(read), octets(written))
    }));
    format!("memory       {}", join(&parts))
}

fn operation(one: &Operation, style: Style) -> String {
    let errors = format!("{:>11}", rate(one.errors_per_s));
    let errors = if one.errors_per_s > 0.0 { style.notable(&errors) } else { errors };
    format!(
        "{:<12} {:>11} {:>10} {:>10} {errors} {:>16}",
        one.name,
        rate(one.per_s),
        time(one.p50_us),
        time(one.p99_us),
        number(one.total)
    )
}

fn queues(frame: &Frame, style: Style) -> String {
    let one = |queue: &super::frame::Queue| {
        let text = format!("{} {} of {}", queue.name, number(queue.length), number(queue.limit));
        if queue.length * 2 > queue.limit { style.alarm(&text) } else { text }
    };
    format!("queues       {}", join(&frame.queues.iter().map(one).collect::<Vec<_>>()))
}

fn store(frame: &Frame) -> String {
    let store = &frame.store;
    let parts = [
        format!("{} entries", known(store.entries)),
        format!("database {}", size(store.database_bytes)),
        format!("oldest reader {}", time(store.oldest_reader_us)),
        format!("disk {} free", size(store.disk_free_bytes)),
    ];
    format!("store        {}", join(&parts))
}

fn flush(frame: &Frame, style: Style) -> String {
    let store = &frame.store;
    let overlay = format!(
        "overlay {} of {} in {} layers",
        size(store.overlay_bytes),
        size(store.overlay_limit_bytes),
        known(store.overlay_layers)
    );
    let is_full = store.overlay_bytes.zip(store.overlay_limit_bytes);
    let is_full = is_full.is_some_and(|(bytes, limit)| bytes > limit / 4 * 3);
    let mut parts = vec![
        if is_full { style.alarm(&overlay) } else { overlay },
        format!("{} changes behind, {}", known(store.behind_changes), time(store.behind_us)),
        format!("{} flushes, the last {}", known(store.flushes), time(store.last_flush_us)),
    ];
    let failures = store.flush_failures.filter(|failures| *failures > 0);
    parts.extend(failures.map(|failures| style.alarm(&format!("{failures} failed"))));
    format!("flush        {}", join(&parts))
}

fn journal(frame: &Frame, style: Style) -> String {
    let journal = &frame.journal;
    let mut parts = vec![
        format!("{} changes/s", rate(journal.records_per_s)),
        format!("{} syncs/s of {}", rate(journal.syncs_per_s), time(journal.sync_us)),
        format!("{}/s", octets(journal.written_bytes_per_s)),
        format!("{} kept", size(journal.bytes)),
    ];
    if journal.failed {
        parts.push(style.alarm("failed: nothing is written"));
    }
    format!("journal      {}", join(&parts))
}

fn logs(frame: &Frame, style: Style) -> String {
    let one = |log: &super::frame::Log| {
        let mut text = format!("{} {}/s", log.name, rate(log.lines_per_s));
        if log.dropped > 0 {
            text.push_str(&style.alarm(&format!(", {} dropped", number(log.dropped))));
        }
        if log.failed {
            text.push_str(&style.alarm(", cannot be written"));
        }
        text
    };
    let all = frame.logs.iter().map(one).collect::<Vec<_>>();
    format!("logs         {}", if all.is_empty() { "off".to_owned() } else { join(&all) })
}

fn certificate(frame: &Frame, style: Style) -> String {
    let text = match frame.certificate_days {
        None => "–".to_owned(),
        Some(days) if days < 0 => style.alarm("expired"),
        Some(days) if days < DAYS_FEW => style.alarm(&format!("{days} days left")),
        Some(days) => format!("{days} days left"),
    };
    format!("certificate  {text}")
}

fn cluster(cluster: &Cluster, style: Style) -> String {
    let role = match cluster.role.as_str() {
        "failed" => style.alarm("failed: takes no part until a restart"),
        "none" => style.alarm("no leader"),
        role => role.to_owned(),
    };
    let leader = cluster.leader.filter(|leader| *leader != cluster.member);
    let mut parts = vec![format!("member {}, {role}", cluster.member)];
    parts.extend(leader.map(|leader| format!("leader {leader}")));
    parts.push(format!("term {}", known(cluster.term)));
    for member in &cluster.members {
        let id = member.member;
        parts.push(match (member.role.as_str(), member.lag) {
            (role @ ("unreachable" | "failed"), _) => style.alarm(&format!("{id} {role}")),
            ("leader", _) | (_, None) => continue,
            (_, Some(lag)) => format!("{id} lags {}", number(lag)),
        });
    }
    format!("cluster      {}", join(&parts))
}

impl Style {
    fn alarm(self, text: &str) -> String {
        self.in_colour("\x1b[1;31m", text)
    }

    fn notable(self, text: &str) -> String {
        self.in_colour("\x1b[33m", text)
    }

    /// Of figures that are no longer true.
    fn old(self, text: &str) -> String {
        self.in_colour("\x1b[2m", text)
    }

    fn in_colour(self, colour: &str, text: &str) -> String {
        if self.has_colour { format!("{colour}{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn join(parts: &[String]) -> String {
    let parts = parts.iter().filter(|part| !part.is_empty()).map(String::as_str);
    parts.collect::<Vec<_>>().join("   ")
}

/// The rates of the last intervals as a curve, as long as fits; a gap where there was no server.
fn curve(rates: &[Option<f64>], width: usize) -> String {
    let room = width.saturating_sub(CURVE_FROM).min(CURVE_MAX);
    let shown = rates.get(rates.len().saturating_sub(room)..).unwrap_or_default();
    let most = shown.iter().flatten().copied().fold(0.0, f64::max);
    if shown.len() < 2 || most <= 0.0 {
        return String::new();
    }
    let step = |rate: f64| ((rate / most * (STEPS.len() - 1) as f64).round() as usize).min(7);
    let mark = |rate: &Option<f64>| rate.and_then(|rate| STEPS.get(step(rate))).unwrap_or(&' ');
    shown.iter().map(mark).collect()
}

/// No longer than the terminal is wide; what switches colours takes no place.
fn clipped(line: &str, width: usize) -> String {
    let (mut out, mut taken, mut is_code) = (String::new(), 0, false);
    for letter in line.chars() {
        if letter == '\x1b' {
            is_code = true;
        }
        if !is_code {
            taken += 1;
        }
        if is_code || taken <= width {
            out.push(letter);
        }
        if is_code && letter == 'm' {
            is_code = false;
        }
    }
    out
}

fn rate(per_s: f64) -> String {
    if per_s > 0.0 && per_s < 10.0 {
        return format!("{per_s:.1}");
    }
    number(per_s.round() as u64)
}

fn known(value: Option<u64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

fn time(time_us: Option<u64>) -> String {
    match time_us {
        None => "–".to_owned(),
        Some(time_us) if time_us < 1_000 => format!("{time_us} µs"),
        Some(time_us) if time_us < 100_000 => format!("{:.1} ms", time_us as f64 / 1e3),
        Some(time_us) if time_us < 1_000_000 => format!("{} ms", time_us / 1_000),
        Some(time_us) => format!("{:.1} s", time_us as f64 / 1e6),
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), |bytes| octets(bytes as f64))
}

fn octets(count: f64) -> String {
    let mut value = count;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1000.0 {
            let digits = usize::from(unit != "B" && value < 100.0);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let mut text = String::new();
    if days > 0 {
        let _ = write!(text, "{days} d ");
    }
    if seconds >= 3_600 {
        let _ = write!(text, "{hours} h ");
    }
    if seconds >= 60 {
        let _ = write!(text, "{minutes} min");
    } else {
        let _ = write!(text, "{seconds} s");
    }
    text
}

/// Results shown in the line of errors.
const ERRORS_SHOWN: usize = 3;
/// From so few days on it is time to renew the certificate.
const DAYS_FEW: i64 = 30;
/// The column where the curve begins, about, and how long it gets.
const CURVE_FROM: usize = 74;
const CURVE_MAX: usize = 60;
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::super::frame::Member;
    use super::*;

    #[test]
    fn values_have_the_unit_that_suits_them() {
        let times = [Some(9), Some(1_500), Some(250_000), Some(2_500_000), None].map(time);
        assert_eq!(times, ["9 µs", "1.5 ms", "250 ms", "2.5 s", "–"]);
        let sizes = [0.0, 999.0, 2_048.0, 3e8, 4e15].map(octets);
        assert_eq!(sizes, ["0 B", "999 B", "2.0 KiB", "286 MiB", "3638.0 TiB"]);
        let rates = [0.0, 0.5, 12.4, 12_345.6].map(rate);
        assert_eq!(rates, ["0", "0.5", "12", "12,346"]);
        let durations = [5, 65, 3_700, 90_000].map(duration);
        assert_eq!(durations, ["5 s", "1 min", "1 h 1 min", "1 d 1 h 0 min"]);
    }

    #[test]
    fn the_line_of_the_cluster_has_the_lag_and_who_is_away() {
        let member = |member, role: &str, lag| Member { member, role: role.to_owned(), lag };
        let shown = Cluster {
            member: 3,
            role: "follower".to_owned(),
            leader: Some(1),
            term: Some(7),
            members: vec![
                member(1, "leader", Some(0)),
                member(2, "unreachable", None),
                member(3, "follower", Some(1_200)),
            ],
        };
        let style = Style { has_colour: false, width: 200 };
        assert_eq!(
            cluster(&shown, style),
            "cluster      member 3, follower   leader 1   term 7   2 unreachable   3 lags 1,200"
        );
        let alone = Cluster { role: "none".to_owned(), leader: None, term: None, ..shown };
        assert!(cluster(&alone, style).starts_with("cluster      member 3, no leader   term –"));
    }

    #[test]
    fn lines_are_clipped_without_their_colours() {
        assert_eq!(clipped("ab\x1b[1;31mcd\x1b[0mef", 3), "ab\x1b[1;31mc\x1b[0m");
        assert_eq!(clipped("übergang", 4), "über");
    }

    #[test]
    fn the_curve_is_as_high_as_its_highest() {
        assert_eq!(curve(&[Some(0.0), Some(50.0), None, Some(100.0)], 200), "▁▅ █");
        assert_eq!(curve(&[Some(1.0)], 200), "");
        assert_eq!(curve(&[Some(1.0), Some(2.0)], 40), "");
    }
}
