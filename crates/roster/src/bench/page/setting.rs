//! What was run against what, on which machine: what all runs have in common, and what differs.

use maud::{Markup, html};

use super::figure::{Head, Table};
use super::number::{bytes, count, length, trimmed};
use super::run::Group;
use crate::bench::record::BenchRecord;
use crate::table::shortened;

/// Something to know about a run.
struct Fact {
    name: String,
    value: String,
    /// Whether runs in which it differs cannot simply be compared.
    matters: bool,
}

fn facts(record: &BenchRecord) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String, matters: bool| {
        if !value.is_empty() {
            facts.push(Fact { name: name.to_owned(), value: shortened(&value, 200), matters });
        }
    };
    add("server says it is", record.server.vendor.clone().unwrap_or_default(), false);
    add("address", record.server.uri.clone(), false);
    add("began", moment(&record.started), false);
    let load = &record.load;
    add("connections", count(load.connections), true);
    add("requests outstanding on each", count(load.outstanding), true);
    let rate = load.rate.map(|rate| format!("{} operations/s requested", trimmed(rate)));
    add("rate", rate.unwrap_or_else(|| "as fast as responses arrive".to_owned()), true);
    if let Some(replay) = &record.replay {
        let (requests, shapes) = (count(replay.requests), count(replay.shapes));
        let speed = trimmed(replay.speed);
        add(
            "repeats a log",
            format!("{requests} requests of {shapes} shapes, speed {speed}"),
            true,
        );
        let left_out =
            replay.left_out.iter().map(|(why, number)| format!("{} {why}", count(*number)));
        add("left out of the log", left_out.collect::<Vec<_>>().join("; "), false);
    }
    add("encryption", load.tls.clone(), true);
    add("measured", length((load.measured_s * 10.0).round() / 10.0), false);
    add("requested duration", length(load.duration_s), true);
    add("before measuring", length(load.warmup_s), false);
    add("entries", load.entries.map(count).unwrap_or_default(), true);
    let counted = |number: u64, name: &str| match number {
        1 => format!("1 {name}"),
        number => format!("{} {name}s", count(number)),
    };
    let (agents, threads) = (load.agents.max(1), load.threads.max(1));
    let generator = format!("{}, {}", counted(agents, "agent"), counted(threads, "thread"));
    add("load generator", generator, false);
    let machine = &record.machine;
    let place = if machine.client_on_same_machine { "the server's machine" } else { "another" };
    add("load generator", place.to_owned(), true);
    let whose = if machine.client_on_same_machine { "machine" } else { "load's machine" };
    add(&format!("{whose}: processor"), machine.cpu.clone(), true);
    add(&format!("{whose}: cores"), count(u64::from(machine.cores)), true);
    add(&format!("{whose}: memory"), bytes(machine.memory_bytes), true);
    add(&format!("{whose}: system"), machine.kernel.clone(), true);
    for (name, value) in &record.server.settings {
        add(&format!("note: {}", shortened(name, 60)), value.clone(), true);
    }
    facts
}

/// A point in time, to the second.
fn moment(started: &str) -> String {
    match (started.split_once('T'), started.ends_with('Z')) {
        (Some((day, time)), true) => {
            let time: String = time.chars().take_while(|letter| !".Z".contains(*letter)).collect();
            format!("{day} {time} UTC")
        }
        (Some(_) | None, _) => started.to_owned(),
    }
}

/// The names of facts of some runs, in order, and for each run its values.
fn compared(records: &[&BenchRecord]) -> Vec<(String, bool, Vec<Option<String>>)> {
    let all: Vec<Vec<Fact>> = records.iter().map(|record| facts(record)).collect();
    let mut rows: Vec<(String, bool, Vec<Option<String>>)> = Vec::new();
    for fact in all.iter().flatten() {
        if rows.iter().any(|(name, ..)| *name == fact.name) {
            continue;
        }
        let value = |facts: &Vec<Fact>| {
            let found = facts.iter().find(|other| other.name == fact.name);
            found.map(|found| found.value.clone())
        };
        rows.push((fact.name.clone(), fact.matters, all.iter().map(value).collect()));
    }
    rows
}

fn is_same(values: &[Option<String>]) -> bool {
    values.windows(2).all(|pair| pair.first() == pair.last())
}

fn records<'g>(group: &'g Group<'_>) -> Vec<&'g BenchRecord> {
    group.runs.iter().map(|run| run.record).collect()
}

/// Names of settings in which the runs of a job differ although they should not.
pub(super) fn conflicts(group: &Group<'_>) -> Vec<String> {
    let rows = compared(&records(group)).into_iter();
    rows.filter(|(_, matters, values)| *matters && !is_same(values))
        .map(|(name, ..)| name)
        .collect()
}

/// The settings in which the runs of a job differ, or which other jobs do not have.
pub(super) fn differences(group: &Group<'_>) -> Markup {
    let rows = compared(&records(group));
    let rows: Vec<_> = rows.into_iter().filter(|(_, _, values)| !is_same(values)).collect();
    if rows.is_empty() {
        return html! {};
    }
    let bodies = html! {
        tbody {
            @for (name, matters, values) in &rows {
                tr class=[matters.then_some("differs")] {
                    th scope="row" { @if *matters { "≠ " } (name) }
                    @for value in values { td { (value.as_deref().unwrap_or(UNKNOWN)) } }
                }
            }
        }
    };
    let caption = "≠ marks settings that should be the same for a comparison";
    let head = Head { class: "settings", name: "Differences", caption };
    html! {
        details open="" {
            summary { "What differs between these runs" }
            (head.table(group.columns(), &bodies))
        }
    }
}

/// What all runs of the page have in common, and by job what only its runs have.
pub(super) fn common(groups: &[Group<'_>]) -> Markup {
    let all: Vec<&BenchRecord> = groups.iter().flat_map(|group| records(group)).collect();
    if all.is_empty() {
        return html! {};
    }
    let rows = compared(&all);
    let by_job = by_job(groups, &rows);
    html! {
        section aria-labelledby="settings" {
            h2 id="settings" { "Machine and settings" }
            p { @if all.len() > 1 { "The same in all runs:" } }
            dl {
                @for (name, _, values) in rows.iter().filter(|(_, _, values)| is_same(values)) {
                    @let value = values.first().and_then(Option::as_deref);
                    div { dt { (name) } dd { (value.unwrap_or(UNKNOWN)) } }
                }
            }
            @if groups.len() > 1 && !by_job.rows.is_empty() { (by_job.draw("settings")) }
        }
    }
}

/// Settings that are the same in all runs of a job, but not in all jobs.
fn by_job(groups: &[Group<'_>], rows: &[(String, bool, Vec<Option<String>>)]) -> Table {
    let varying = rows.iter().filter(|(_, matters, values)| *matters && !is_same(values));
    let varying = varying.map(|(name, ..)| name);
    let by_group: Vec<_> = groups.iter().map(|group| compared(&records(group))).collect();
    let row = |name: &String| {
        let cell = |rows: &Vec<(String, bool, Vec<Option<String>>)>| {
            let found = rows.iter().find(|(other, ..)| other == name);
            match found {
                None => UNKNOWN.to_owned(),
                Some((_, _, values)) if !is_same(values) => "differs, see the job".to_owned(),
                Some((_, _, values)) => {
                    values.first().cloned().flatten().unwrap_or_else(|| UNKNOWN.to_owned())
                }
            }
        };
        std::iter::once(name.clone()).chain(by_group.iter().map(cell)).collect::<Vec<_>>()
    };
    let rows = varying
        .map(row)
        .filter(|row: &Vec<String>| row.iter().skip(1).any(|cell| cell != "differs, see the job"));
    let names = groups.iter().map(|group| shortened(group.name, 40));
    Table {
        caption: "What differs between the jobs".to_owned(),
        columns: std::iter::once("setting".to_owned()).chain(names).collect(),
        rows: rows.collect(),
    }
}

/// How each run was made.
pub(super) fn commands(groups: &[Group<'_>]) -> Markup {
    let runs = groups.iter().flat_map(|group| {
        let runs = group.runs.iter().map(|run| (run.label.as_str(), run.record));
        let floor = group.floor.map(|floor| (floor.label.as_str(), floor));
        runs.chain(floor).map(|(label, record)| (group.name, label, record))
    });
    let command = |record: &BenchRecord| {
        let words: Vec<String> = record.command.iter().map(|word| quoted(word)).collect();
        shortened(&words.join(" "), 2_000)
    };
    html! {
        section aria-labelledby="commands" {
            h2 id="commands" { "Commands" }
            dl class="commands" {
                @for (job, label, record) in runs {
                    div {
                        dt { (shortened(job, 40)) ", " (shortened(label, 40)) }
                        dd { code { (command(record)) } }
                    }
                }
            }
        }
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

const UNKNOWN: &str = "not told";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["-H", "ldap://h:1389", "(uid=user.[1-9])", "it's", ""].map(quoted);
        assert_eq!(words, ["-H", "ldap://h:1389", "'(uid=user.[1-9])'", r"'it'\''s'", "''"]);
    }

    #[test]
    fn settings_that_are_missing_differ() {
        let mut one = BenchRecord::default();
        let other = one.clone();
        one.server.settings.insert("hash".to_owned(), "SSHA".to_owned());
        let rows = compared(&[&one, &other]);
        let differing: Vec<_> = rows.iter().filter(|(_, _, values)| !is_same(values)).collect();
        assert_eq!(differing.len(), 1);
        assert_eq!(differing[0].0, "note: hash");
        assert_eq!(differing[0].2, [Some("SSHA".to_owned()), None]);
    }
}
