//! Published figures beside those of the runs.

use maud::{Markup, html};

use super::figure::Head;
use super::number::{count, figure, grouped, length, ratio, short_time};
use super::published::{PUBLISHED, Published};
use super::run::{Group, Run};
use crate::table::shortened;

/// The table of those that a run repeats or comes near to, and the list of all others.
pub(super) fn section(groups: &[Group<'_>]) -> Markup {
    let runs = || groups.iter().flat_map(|group| group.runs.iter().map(move |run| (group, run)));
    let (found, others): (Vec<&Published>, Vec<&Published>) =
        PUBLISHED.iter().partition(|row| runs().any(|(group, _)| row.matches(group.name)));
    let title = format!("{} published figures without a run here", others.len());
    html! {
        section aria-labelledby="published" {
            h2 id="published" { "Beside published figures" }
            p { (HOW) }
            @if !found.is_empty() {
                @let caption = "Operations/s, published and here";
                @let head = Head { class: "published", name: "Published figures", caption };
                (head.table(COLUMNS, &html! {
                    @for row in found {
                        (body(row, &runs().filter(|(group, _)| row.matches(group.name)).collect()))
                    }
                }))
            }
            @if !others.is_empty() {
                details {
                    summary { (title) }
                    @let caption = "Operations/s as published";
                    @let head = Head { class: "published", name: &title, caption };
                    (head.table(OTHER_COLUMNS, &html! {
                        tbody {
                            @for row in others {
                                tr {
                                    (published(row, 1))
                                    td class="text" { (row.source.machine) }
                                    td class="text" { (row.profile) }
                                }
                            }
                        }
                    }))
                }
            }
        }
    }
}

/// A published figure with the runs beside it.
fn body(row: &Published, here: &Vec<(&Group<'_>, &Run<'_>)>) -> Markup {
    html! {
        tbody {
            @for (place, (_, run)) in here.iter().enumerate() {
                tr {
                    @if place == 0 { (published(row, here.len() + 1)) } @else { td colspan="2" {} }
                    (beside(row, run))
                }
            }
            tr {
                td class="why" colspan="6" {
                    b { "What differs, there → here:" } " " (differences(row, here).join(" · "))
                }
            }
        }
    }
}

/// The cells of a published figure, as many rows high as there are runs beside it.
fn published(row: &Published, rows: usize) -> Markup {
    let source = row.source;
    html! {
        th scope="rowgroup" rowspan=(rows) {
            (row.what)
            small { (source.server) ". " (source.publication) }
        }
        td { (grouped(row.per_s)) }
        td {
            @if let Some(per_core) = row.per_core() { (grouped(per_core)) } @else {
                "–" small { (row.unfair.unwrap_or("cores not told")) }
            }
        }
    }
}

/// The cells of a run.
fn beside(row: &Published, run: &Run<'_>) -> Markup {
    let per_core = run.cpu_us().map(|us| 1e6 / us);
    let dash = || "–".to_owned();
    let relation = row.per_core().zip(per_core).map(|(there, here)| here / there);
    html! {
        td class="text" { (run.label) }
        td { (figure(run.operations_per_s())) }
        td { (per_core.map_or_else(dash, figure)) }
        td { (relation.map_or_else(dash, ratio)) }
    }
}

/// What is not the same there and in the runs here; `there → here`.
fn differences(row: &Published, runs: &[(&Group<'_>, &Run<'_>)]) -> Vec<String> {
    let all: Vec<Vec<Pair>> = runs.iter().map(|(group, run)| pairs(row, group, run)).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let mut told = Vec::new();
    for (place, (name, there, here)) in first.iter().enumerate() {
        let of = |pairs: &Vec<Pair>| pairs.get(place).map(|(_, _, here)| here.clone());
        let values: Vec<String> = all.iter().filter_map(of).collect();
        if values.iter().all(|value| value == there) {
            continue;
        }
        let here = if values.iter().all(|value| value == here) {
            here.clone()
        } else {
            let named = values
                .iter()
                .zip(runs)
                .map(|(value, (_, run))| format!("{value} ({})", shortened(&run.label, 20)));
            named.collect::<Vec<_>>().join(", ")
        };
        told.push(format!("{name}: {there} → {here}"));
    }
    told
}

/// A name, what it is there, and what it is here.
type Pair = (&'static str, String, String);

/// What is compared; the same names for all runs beside one published figure.
fn pairs(row: &Published, group: &Group<'_>, run: &Run<'_>) -> Vec<Pair> {
    let (source, record) = (row.source, run.record);
    let note = |name: &str| {
        let note = record.server.settings.get(name).filter(|note| !note.trim().is_empty());
        note.map_or_else(|| "not told".to_owned(), |note| shortened(note.trim(), 60))
    };
    let told = |number: Option<u64>| number.map_or_else(|| "not told".to_owned(), count);
    let is_shared = record.machine.client_on_same_machine;
    let mut all: Vec<Pair> = Vec::new();
    let job = if row.is_repeated_by(group.name) { row.profile } else { group.name };
    all.push(("job", row.profile.to_owned(), shortened(job, 40)));
    all.push(("entries", told(source.entries), told(record.load.entries)));
    let cores = if is_shared {
        format!("{}, shared with the load", record.machine.cores)
    } else {
        note("cores")
    };
    all.push(("cores", told(row.cores.map(u64::from)), cores));
    let dash = || "–".to_owned();
    let mean = run.units().next().map(|stream| stream.latency.mean).filter(|us| *us > 0.0);
    let there = row.mean_ms.map(|ms| short_time(ms * 1000.0));
    let mean = mean.filter(|_| there.is_some()).map_or_else(dash, short_time);
    all.push(("mean latency", there.unwrap_or_else(dash), mean));
    let there = row.connections.map(u64::from);
    all.push(("connections", told(there), count(record.load.connections)));
    let there = source.minutes.map(|minutes| length(f64::from(minutes) * 60.0));
    let here = length(record.load.measured_s.round());
    all.push(("length", there.unwrap_or_else(|| "not told".to_owned()), here));
    if row.job == "auth" || row.job == "bind" {
        all.push(("hash", source.hash.to_owned(), note("hash")));
    }
    all.push(("ACIs", source.acis.to_owned(), note("aci")));
    all.push(("logs", source.logs.to_owned(), note("log")));
    let network = match record.server.settings.get("network") {
        _ if is_shared => "client on the same machine".to_owned(),
        Some(network) => shortened(network, 60),
        None => "client on another machine".to_owned(),
    };
    all.push(("network", source.network.to_owned(), network));
    let processor = shortened(&record.machine.cpu, 60);
    let machine = if is_shared { processor } else { note("machine") };
    all.push(("machine", source.machine.to_owned(), machine));
    all
}

const HOW: &str = "Published rates are divided by all cores of the machine, rates here by those \
    that the server kept busy (operations a CPU second). That favours the runs here by as much as \
    those machines were idle, and says nothing about how far a server scales; the processors \
    differ too. Where a rate hung on disks or on a network of servers, it is not divided.";

const COLUMNS: [&str; 7] = [
    "published",
    "operations/s",
    "a core",
    "here",
    "operations/s",
    "a busy core",
    "here ÷ there, a core",
];
const OTHER_COLUMNS: [&str; 5] = ["published", "operations/s", "a core", "machine", "profile"];
