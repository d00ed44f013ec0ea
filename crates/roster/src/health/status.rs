//! `roster status`: how a server is, on one screen.

use std::time::Duration;

use client::Connection;
use serde::Serialize;

use super::facts::Facts;
use crate::account::moment;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::number;
use crate::top::reading::Reading;

/// One line of the screen: what, and how it is. What is not known says so.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    value: Option<String>,
}

/// Prints it; the code says whether the server answers.
pub(crate) fn run(facts: &Facts, json: bool) -> Result<Exit, Failure> {
    let rows = rows(facts);
    if json {
        let values: serde_json::Map<String, serde_json::Value> =
            rows.iter().map(|row| (row.name.replace(' ', "_"), row.value.clone().into())).collect();
        output::json(&values)?;
    } else {
        for Row { name, value } in &rows {
            let value = value.as_deref().unwrap_or("not known");
            output::line(format_args!("{name:<18} {}", output::within_line(value)))?;
        }
    }
    match &facts.server {
        Err(failure) => Err(failure.clone()),
        Ok(server) => {
            if let Err(failure) = &server.monitor {
                let hint = failure.hint.clone().unwrap_or_default();
                let what = output::within_line(&failure.message);
                output::note(format_args!("roster: note: {what}; {hint}"));
            }
            Ok(Exit::Done)
        }
    }
}

/// Has the server count for a moment.
pub(crate) fn measure(connection: &mut Connection, facts: &mut Facts, over: Duration) {
    let Ok(server) = &mut facts.server else { return };
    let Ok(before) = &server.monitor else { return };
    std::thread::park_timeout(over);
    let Ok(after) = Reading::take(connection) else { return };
    let count = |reading: &Reading| reading.number("cn=operations", "roster-operation-count");
    let seconds = after.at.saturating_duration_since(before.at).as_secs_f64();
    if let (Some(first), Some(last)) = (count(before), count(&after)) {
        server.operations_per_s = Some(last.saturating_sub(first) as f64 / seconds.max(0.001));
    }
    server.monitor = Ok(after);
}

fn rows(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut put = |name, value: Option<String>| rows.push(Row { name, value });
    let server = facts.server.as_ref().ok();
    let monitor = facts.monitor();
    let text = |entry, name| monitor.and_then(|it| it.text(entry, name)).map(str::to_owned);
    let count = |entry, name| monitor.and_then(|it| it.number(entry, name));
    let state = match &facts.server {
        Ok(_) => "it answers".to_owned(),
        Err(failure) => failure.message.clone(),
    };
    put("server", Some(format!("{}: {state}", facts.url)));
    put("version", text("cn=process", "roster-process-version"));
    let up = count("cn=process", "roster-process-uptime-us").map(Duration::from_micros);
    put(
        "up for",
        up.map(moment::rough).map(|up| if up.is_empty() { "a moment".into() } else { up }),
    );
    put("naming contexts", server.map(|server| server.naming_contexts.join(", ")));
    put("entries", count("cn=store", "roster-store-entries").map(number));
    let connections = count("cn=connections", "roster-connections-open").map(|open| {
        let limit = count("cn=connections", "roster-connections-limit").unwrap_or(0);
        let by = listeners(monitor);
        format!("{} of {} ({by})", number(open), number(limit))
    });
    put("connections", connections);
    let rate = server.and_then(|server| server.operations_per_s);
    put("operations", rate.map(|rate| format!("{rate:.1} a second")));
    let is_told = server.is_some_and(|it| it.monitor.is_ok() && it.refused.is_empty());
    put("cluster", cluster(facts, is_told));
    put("certificate", certificate(monitor));
    put("backup", Some(backup(facts)));
    let free = count("cn=store", "roster-disk-free-bytes");
    let free = free.or(facts.machine().and_then(|machine| machine.disk_free_bytes));
    put("disk free", free.map(|free| format!("{} MiB", number(free >> 20))));
    let data = match &facts.machine {
        Some(Ok(machine)) => machine.settings.server.data.display().to_string(),
        Some(Err(why)) => format!("not looked at: {why}"),
        None => "not looked at: name one with --data DIR".to_owned(),
    };
    put("data directory", Some(data));
    // Else nothing is to be said of it.
    if let Some(quarantine) = facts.machine().map(|machine| &machine.quarantine)
        && let Err(why) | Ok(Some(why)) = quarantine
    {
        put("quarantine", Some(why.clone()));
    }
    put("last errors", monitor.map(errors));
    rows
}

fn listeners(monitor: Option<&Reading>) -> String {
    let Some(monitor) = monitor else { return String::new() };
    let one = |name: String| {
        let entry = format!("cn={name},cn=connections");
        let open = monitor.number(&entry, "roster-connections-open")?;
        Some(format!("{name} {}", number(open)))
    };
    let all = monitor.below("cn=connections").into_iter().filter_map(one);
    all.collect::<Vec<_>>().join(", ")
}

fn cluster(facts: &Facts, is_told: bool) -> Option<String> {
    let view = facts.server.as_ref().ok()?.cluster.as_ref();
    match view {
        None => is_told.then(|| "none: the server is alone".to_owned()),
        Some(view) => {
            let leader =
                view.leader().map_or("no leader".to_owned(), |id| format!("member {id} leads"));
            let lag = if view.has_lag() { "somebody lags" } else { "nobody lags" };
            let told = view.told_by;
            let advice = view.advice(None).len();
            let more = if advice > 0 {
                format!("; {advice} remarks: roster cluster status")
            } else {
                String::new()
            };
            Some(format!("member {told} tells: {leader}, {lag}{more}"))
        }
    }
}

fn certificate(monitor: Option<&Reading>) -> Option<String> {
    let monitor = monitor?;
    let days = monitor.signed("cn=tls", "roster-tls-days")?;
    let subject = monitor.text("cn=tls", "roster-tls-subject").unwrap_or("");
    let end = moment::written(monitor.text("cn=tls", "roster-tls-expires").unwrap_or(""));
    Some(format!("{subject}, ends {end} UTC (in {days} days)"))
}

fn backup(facts: &Facts) -> String {
    let Some(backup) = &facts.backup else {
        return "not looked at: name one with --backup DIR".to_owned();
    };
    match &backup.complete_until {
        Err(reason) => reason.clone(),
        Ok(None) => format!("none in {}", backup.path.display()),
        Ok(Some(until)) => {
            let age = Duration::from_micros(facts.now.0.saturating_sub(until.0));
            let age = moment::rough(age);
            let age = if age.is_empty() { "a moment".to_owned() } else { age };
            format!("complete until {age} ago, in {}", backup.path.display())
        }
    }
}

/// What the server says of itself that went wrong.
fn errors(monitor: &Reading) -> String {
    let mut all = Vec::new();
    for log in monitor.below("cn=logs") {
        let entry = format!("cn={log},cn=logs");
        all.extend(monitor.text(&entry, "roster-log-error").map(|why| format!("{log} log: {why}")));
    }
    all.extend(monitor.text("cn=tls", "roster-tls-error").map(|why| format!("TLS: {why}")));
    for (entry, name, what) in [
        ("cn=operations", "roster-panics", "panics"),
        ("cn=store", "roster-flush-failures", "failed flushes"),
    ] {
        let count = monitor.number(entry, name).filter(|count| *count > 0);
        all.extend(count.map(|count| format!("{} {what}", number(count))));
    }
    if all.is_empty() { "none; 'roster doctor' looks closer".to_owned() } else { all.join("; ") }
}
