//! What the page says in sentences: its title, what the figures mean, and the caveats.

use maud::{Markup, html};

use super::number::{count, figure, length, short_time};
use super::{Group, Run, results, setting};
use crate::bench::profiles::Profile;
use crate::bench::record::BenchRecord;
use crate::table::shortened;

/// The title of a page without one.
pub(super) fn title(groups: &[Group<'_>]) -> String {
    let servers = servers(groups);
    match servers.as_slice() {
        [] => "Directory server benchmark".to_owned(),
        [one] => format!("Benchmark of {one}"),
        [one, other] => format!("{one} and {other}, side by side"),
        [one, ..] => format!("{one} and {} others, side by side", servers.len() - 1),
    }
}

/// How many runs of what, and when.
pub(super) fn subtitle(groups: &[Group<'_>]) -> String {
    let runs: usize = groups.iter().map(|group| group.runs.len()).sum();
    let names: Vec<String> = groups.iter().map(|group| shortened(group.name, 40)).collect();
    let mut days: Vec<String> = groups
        .iter()
        .flat_map(|group| &group.runs)
        .map(|run| run.record.started.chars().take(10).collect())
        .filter(|day: &String| !day.is_empty())
        .collect();
    days.sort();
    days.dedup();
    let when = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => format!(", {first} to {last}"),
        (Some(day), _) => format!(", {day}"),
        (None, _) => String::new(),
    };
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    format!("{runs} of {}{when}", names.join(", "))
}

fn servers(groups: &[Group<'_>]) -> Vec<String> {
    let mut servers: Vec<String> = Vec::new();
    for run in groups.iter().flat_map(|group| &group.runs) {
        let label = shortened(run.record.label.trim(), 40);
        if !servers.contains(&label) {
            servers.push(label);
        }
    }
    servers
}

/// Who takes more CPU time than the first server, and by how much, over all jobs that both have
/// done: a sentence for each other server.
pub(super) fn headlines(groups: &[Group<'_>]) -> Vec<String> {
    let mut servers = servers(groups).into_iter();
    let Some(first) = servers.next() else { return Vec::new() };
    let cpu = |group: &Group<'_>, server: &str| {
        let run = group.runs.iter().find(|run| run.label == server)?;
        run.cpu_us().filter(|_| results::bad(run) == 0)
    };
    let headline = |other: String| {
        let ratio = |group: &Group<'_>| Some(cpu(group, &other)? / cpu(group, &first)?);
        let ratios: Vec<f64> = groups.iter().filter_map(ratio).collect();
        let least = ratios.iter().copied().reduce(f64::min)?;
        let most = ratios.iter().copied().reduce(f64::max)?;
        let jobs = match ratios.len() {
            1 => return None,
            2 if groups.len() == 2 => "in both jobs".to_owned(),
            number if number == groups.len() => format!("in all {number} jobs"),
            number => format!("in {number} of {} jobs", groups.len()),
        };
        let (least, most) = (figure(least), figure(most));
        let range = if least == most { least } else { format!("{least} to {most}") };
        Some(format!("{other} takes {range} times the CPU time of {first}, {jobs}."))
    };
    servers.filter_map(headline).take(LISTED_MAX).collect()
}

/// What came out, in a sentence for each server.
pub(super) fn verdicts(group: &Group<'_>) -> Vec<String> {
    let name = shortened(group.name, 40);
    let spoiled = |run: &Run<'_>| format!("{name}: the run of {} is invalid.", run.label);
    let Some(first) = group.first() else { return Vec::new() };
    if results::bad(first) > 0 {
        return vec![spoiled(first)];
    }
    let Some(cpu) = first.cpu_us() else {
        let rate = figure(first.operations_per_s());
        return vec![format!("{name}: {} does {rate} operations/s.", first.label)];
    };
    let floor =
        group.floor.and_then(|floor| Some(floor.cost.server.as_ref()?.cpu_us_per_operation));
    let floor = floor.filter(|us| *us > 0.0).map(|us| {
        format!(", {} times the cost of receiving and sending that much", figure(cpu / us))
    });
    let mut verdicts = vec![format!(
        "{name}: {} takes {} µs of CPU time for an operation{}.",
        first.label,
        figure(cpu),
        floor.unwrap_or_default()
    )];
    for other in group.runs.iter().skip(1) {
        if results::bad(other) > 0 {
            verdicts.push(spoiled(other));
            continue;
        }
        let Some(other_cpu) = other.cpu_us() else { continue };
        let (us, label) = (figure(other_cpu), &other.label);
        let first = &first.label;
        verdicts.push(if other_cpu >= cpu {
            format!(
                "{name}: {label} takes {us} µs, {} times what {first} takes.",
                figure(other_cpu / cpu)
            )
        } else {
            format!(
                "{name}: {label} takes {us} µs; {first} takes {} times that.",
                figure(cpu / other_cpu)
            )
        });
    }
    verdicts
}

/// What could mislead: a sentence for each kind, with the runs it is about.
pub(super) fn cautions(groups: &[Group<'_>]) -> Vec<String> {
    let runs = || groups.iter().flat_map(|group| group.runs.iter().map(move |run| (group, run)));
    let mut cautions = Vec::new();
    for (sentence, of) in CAUTIONS {
        let named = runs().filter_map(|(group, run)| {
            let figure = of(run)?;
            let name = format!("{} of {}", shortened(group.name, 40), run.label);
            Some(if figure.is_empty() { name } else { format!("{name} ({figure})") })
        });
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            cautions.push(format!("{sentence} {}.", listed(&named, ", ")));
        }
    }
    let differing = groups.iter().filter_map(|group| {
        let names: Vec<String> =
            setting::conflicts(group).iter().map(|name| shortened(bare(name), 40)).collect();
        let group = shortened(group.name, 40);
        (!names.is_empty()).then(|| format!("{group} in {}", listed(&names, ", ")))
    });
    let differing: Vec<String> = differing.collect();
    if !differing.is_empty() {
        cautions.push(format!("Runs of the same job differ: {}.", listed(&differing, "; ")));
    }
    shared_machine(groups, &mut cautions);
    cautions
}

/// The name of a setting, without where it comes from.
fn bare(name: &str) -> &str {
    name.trim_start_matches("note: ")
}

/// The first of them, and how many there are more.
fn listed(names: &[String], between: &str) -> String {
    let shown = names.iter().take(LISTED_MAX).cloned().collect::<Vec<_>>().join(between);
    match names.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// What is said about runs, and whether it holds for one: then with a figure, if there is one.
type Caution = (&'static str, fn(&Run<'_>) -> Option<String>);

const CAUTIONS: [Caution; 8] = [
    ("Responses were wrong or missing; the figures cannot be used:", |run| {
        Some(results::bad(run)).filter(|bad| *bad > 0).map(count)
    }),
    ("Cut short, by Ctrl-C or because a part of the load was lost:", |run| {
        let load = &run.record.load;
        let measured = length((load.measured_s * 10.0).round() / 10.0);
        load.cut_short.then(|| format!("{measured} of {}", length(load.duration_s)))
    }),
    ("Requests were due and never sent:", |run| {
        let skipped = run.units().map(|stream| stream.skipped).fold(0, u64::saturating_add);
        Some(skipped).filter(|skipped| *skipped > 0).map(count)
    }),
    ("More different searches than can be remembered; responses not compared:", |run| {
        let compared = run.record.streams.iter().filter_map(|stream| stream.compared);
        let forgotten = compared.map(|of| of.forgotten).fold(0, u64::saturating_add);
        Some(forgotten).filter(|forgotten| *forgotten > 0).map(count)
    }),
    ("The load generator took more than a third as much CPU time as the server:", |run| {
        let (_, text) = results::client_share(run).filter(|(share, _)| *share > SHARE_MAX)?;
        Some(text)
    }),
    ("The server's CPU time is not known; its process was not named with --server-pid:", |run| {
        run.cpu_us().is_none().then(String::new)
    }),
    (
        "The machine's own stalls are more than half of the latency at 99.9 %, which then \
         describes the machine:",
        |run| {
            let stalls_us = run.record.machine.stalls?.p99_9;
            let latency_us = run.units().map(|stream| stream.latency.p99_9).fold(0.0, f64::max);
            let times = || format!("{} of {}", short_time(stalls_us), short_time(latency_us));
            (stalls_us > latency_us / 2.0 && latency_us > 0.0).then(times)
        },
    ),
    ("Measured for less than 5 s:", |run| {
        let measured_s = run.record.load.measured_s;
        (measured_s < SHORT_S).then(|| length((measured_s * 10.0).round() / 10.0))
    }),
];

fn shared_machine(groups: &[Group<'_>], cautions: &mut Vec<String>) {
    let is_shared = |run: &&Run<'_>| run.record.machine.client_on_same_machine;
    let shared = groups.iter().flat_map(|group| &group.runs).find(is_shared);
    if let Some(run) = shared {
        let cores = run.record.machine.cores;
        cautions.push(format!(
            "Load and server shared a machine of {cores} cores: throughput and latency depend on \
             how they competed for the CPU; compare CPU time first."
        ));
    }
}

/// How the figures were taken.
pub(super) fn reading(groups: &[Group<'_>]) -> Markup {
    let any = |holds: &dyn Fn(&BenchRecord) -> bool| {
        groups.iter().flat_map(|group| &group.runs).any(|run| holds(run.record))
    };
    let of_source = |source: &str| {
        any(&|record| record.cost.server.as_ref().is_some_and(|spent| spent.source == source))
    };
    let sentences = [
        (of_source("pid"), BY_PID),
        (of_source("monitor"), BY_MONITOR),
        (any(&|record| record.load.rate.is_none()), CLOSED_LOOP),
        (any(&|record| record.load.rate.is_some()), OPEN_LOOP),
        (groups.iter().any(|group| group.floor.is_some()), FLOOR),
    ];
    let sentences = sentences.into_iter().filter_map(|(holds, text)| holds.then_some(text));
    html! {
        section aria-labelledby="reading" {
            h2 id="reading" { "How to read this" }
            ul { @for text in READING.into_iter().chain(sentences) { li { (text) } } }
        }
    }
}

/// What a job does.
pub(super) fn about(name: &str) -> Option<String> {
    if let Some(profile) = Profile::named(name) {
        return Some(format!("Profile: {}. Published: {}.", profile.repeats, profile.published));
    }
    ABOUT.iter().find(|(job, _)| *job == name).map(|(_, about)| (*about).to_owned())
}

const ABOUT: [(&str, &str); 9] = [
    ("search", "Search for entries by a filter that contains a number."),
    ("auth", "Search for an entry, then bind as the entry found; both together are one operation."),
    ("bind", "Bind with the name and the password of an entry."),
    ("compare", "Compare a value with those of an entry."),
    ("modify", "Replace an attribute without an index."),
    ("modify-dn", "Rename entries, each once."),
    ("add", "Add entries with about 20 attributes, each once."),
    ("delete", "Delete entries, each once."),
    ("mixed", "Several kinds of operations at once, by weight."),
];

const READING: [&str; 3] = [
    "CPU time per operation is the CPU time that the server's process took during the measurement, \
     divided by the operations answered. It hardly changes if other work shares the machine, so \
     use it to compare servers.",
    "Latency is the time until the complete response arrived. Percentiles come from a histogram of \
     all operations with two digits; nothing is sampled.",
    "Every response was checked: its result code and its number of entries; if the number is not \
     known in advance, it had to equal that of the first response to the same request.",
];
const BY_PID: &str = "The server's CPU time was read from its process, in ns for each thread \
                      (schedstat); its division into user and system time comes from clock ticks \
                      and is less exact.";
const BY_MONITOR: &str = "The server itself reported its CPU time, under cn=monitor.";
const CLOSED_LOOP: &str = "Without a rate, a connection sends its next request when the last one \
                           is answered: a slow server gets fewer requests, so the load adapts to \
                           the server, and a stall delays only as many requests as there are \
                           connections.";
const OPEN_LOOP: &str = "With a rate, latency counts from the time a request was due, so that it \
                         includes the wait behind other requests.";
const FLOOR: &str = "The floor is a server that reads a request and sends a response of the same \
                     size without interpreting either.";

/// Less is noise.
const SHORT_S: f64 = 5.0;
const LISTED_MAX: usize = 6;
/// Of the server's CPU time; a third, and some for what is inexact.
const SHARE_MAX: f64 = 0.34;
