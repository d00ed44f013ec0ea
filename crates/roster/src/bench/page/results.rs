//! The figures of a job as a table, and all jobs at a glance.

use maud::{Markup, html};

use super::figure::Head;
use super::number::{count, figure, percent, ratio};
use super::{Group, Run, words};
use crate::bench::record::{Spent, Stream};
use crate::table::shortened;

/// A row: what it is, what is better, and how it is read of a run.
struct Measure {
    name: &'static str,
    better: Better,
    of: fn(&Run<'_>, Option<&Spent>) -> Option<f64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Better {
    More,
    Less,
    Neither,
}

const MEASURES: [Measure; 12] = [
    Measure {
        name: "Throughput, operations/s",
        better: Better::More,
        of: |run, _| Some(run.operations_per_s()),
    },
    Measure {
        name: "Server CPU, µs an operation",
        better: Better::Less,
        of: |run, _| run.cpu_us(),
    },
    Measure {
        name: "Operations a CPU second",
        better: Better::More,
        of: |run, _| run.cpu_us().map(|us| 1e6 / us),
    },
    Measure {
        name: "Cores of the server busy",
        better: Better::Neither,
        of: |_, spent| spent.map(|spent| spent.cores),
    },
    Measure {
        name: "Waits of server threads an operation",
        better: Better::Less,
        of: |run, spent| each(run, spent?.voluntary_switches),
    },
    Measure {
        name: "Interruptions of server threads an operation",
        better: Better::Neither,
        of: |run, spent| each(run, spent?.involuntary_switches),
    },
    Measure {
        name: "Written to disk, octets an operation",
        better: Better::Less,
        of: |run, spent| each(run, spent?.written_bytes),
    },
    Measure {
        name: "Memory not backed by files, MiB",
        better: Better::Less,
        of: |_, spent| spent?.anonymous_bytes.map(|bytes| bytes as f64 / 1_048_576.0),
    },
    Measure {
        name: "Memory resident, MiB",
        better: Better::Neither,
        of: |_, spent| spent?.resident_bytes.map(|bytes| bytes as f64 / 1_048_576.0),
    },
    Measure {
        name: "Load generator's CPU, µs an operation",
        better: Better::Neither,
        of: |run, _| Some(run.record.cost.client_cpu_us_per_operation).filter(|us| *us > 0.0),
    },
    Measure {
        name: "The machine's own stalls, 99.9 %, µs",
        better: Better::Neither,
        of: |run, _| run.record.machine.stalls.map(|stalls| stalls.p99_9),
    },
    Measure {
        name: "The machine's own stalls, longest, µs",
        better: Better::Neither,
        of: |run, _| run.record.machine.stalls.map(|stalls| stalls.max),
    },
];

/// A row of a stream.
type StreamMeasure = (&'static str, Better, fn(&Stream) -> Option<f64>);

const STREAM_MEASURES: [StreamMeasure; 11] = [
    ("Operations/s", Better::More, |stream| Some(stream.operations_per_s)),
    ("Latency, mean, µs", Better::Less, |stream| known(stream.latency.mean)),
    ("Latency, 50 %, µs", Better::Less, |stream| known(stream.latency.p50)),
    ("Latency, 90 %, µs", Better::Less, |stream| known(stream.latency.p90)),
    ("Latency, 99 %, µs", Better::Less, |stream| known(stream.latency.p99)),
    ("Latency, 99.9 %, µs", Better::Less, |stream| known(stream.latency.p99_9)),
    ("Latency, 99.99 %, µs", Better::Less, |stream| {
        known(stream.latency.p99_99).filter(|_| stream.operations >= 10_000)
    }),
    ("Latency, 99.999 %, µs", Better::Less, |stream| {
        known(stream.latency.p99_999).filter(|_| stream.operations >= 100_000)
    }),
    ("Latency, longest, µs", Better::Less, |stream| known(stream.latency.max)),
    ("Late requests", Better::Less, |stream| known(stream.late as f64)),
    ("Skipped requests", Better::Less, |stream| known(stream.skipped as f64)),
];

fn known(value: f64) -> Option<f64> {
    Some(value).filter(|value| *value > 0.0)
}

fn each(run: &Run<'_>, total: Option<u64>) -> Option<f64> {
    let operations = run.record.operations().max(1) as f64;
    total.map(|total| total as f64 / operations)
}

/// The table of a job: a row for each figure, a column for each server.
pub(super) fn table(group: &Group<'_>) -> Markup {
    let caption = match group.first().filter(|_| group.runs.len() > 1) {
        None => "Results".to_owned(),
        Some(first) => format!("Results; × is the ratio to {}, bold the best", first.label),
    };
    let of_runs =
        |of: &dyn Fn(&Run<'_>) -> Option<f64>| group.runs.iter().map(of).collect::<Vec<_>>();
    let floor =
        group.floor.and_then(|floor| Some(floor.cost.server.as_ref()?.cpu_us_per_operation));
    let streams = group.streams();
    // Of a single stream, the throughput is there already.
    let measures = STREAM_MEASURES.iter().skip(usize::from(streams.len() == 1));
    let bodies = html! {
        tbody {
            @for Measure { name, better, of } in &MEASURES {
                (row(name, *better, &of_runs(&|run| of(run, run.record.cost.server.as_ref()))))
            }
            @if let Some(floor) = floor.filter(|floor| *floor > 0.0) {
                @let values = of_runs(&|run| run.cpu_us().map(|us| us / floor));
                (row("CPU, ratio to the floor", Better::Less, &values))
            }
            @for name in &streams {
                @if streams.len() > 1 {
                    tr class="part" {
                        th scope="rowgroup" colspan=(group.runs.len() + 1) { (name) }
                    }
                }
                @for (title, better, of) in measures.clone() {
                    @let of = |run: &Run<'_>| run.stream(name).and_then(of);
                    (row(title, *better, &of_runs(&of)))
                }
            }
            (rows_of_counts(group))
        }
    };
    Head { class: "results", name: "Results", caption: &caption }.table(group.columns(), &bodies)
}

/// A row, unless nobody has the figure.
fn row(name: &str, better: Better, values: &[Option<f64>]) -> Markup {
    let known = || values.iter().flatten().copied();
    let best = match better {
        Better::More => known().reduce(f64::max),
        Better::Less => known().reduce(f64::min),
        Better::Neither => None,
    };
    if known().next().is_none() {
        return html! {};
    }
    // Where all are alike, nobody is best.
    let is_even = known().all(|value| best == Some(value));
    let best = best.filter(|_| values.len() > 1 && !is_even);
    let first = values.first().copied().flatten().filter(|first| *first > 0.0);
    html! {
        tr {
            th scope="row" { (name) }
            @for (place, value) in values.iter().enumerate() {
                td {
                    @match value {
                        Some(value) if best == Some(*value) => b { (figure(*value)) },
                        value => span { (value.map_or_else(|| "–".to_owned(), figure)) },
                    }
                    // Without a ratio too, so that numbers stand below each other.
                    @if place > 0 {
                        @let relation = first.zip(*value).map(|(first, value)| value / first);
                        small { (relation.map(ratio).unwrap_or_default()) }
                    }
                }
            }
        }
    }
}

/// How many operations the figures stand on, and whether all were right.
fn rows_of_counts(group: &Group<'_>) -> Markup {
    let row = |name: &str, of: fn(&Run<'_>) -> u64, class: fn(u64) -> &'static str| {
        html! {
            tr {
                th scope="row" { (name) }
                @for (place, run) in group.runs.iter().enumerate() {
                    td {
                        span class=(class(of(run))) { (count(of(run))) }
                        @if place > 0 { small {} }
                    }
                }
            }
        }
    };
    html! {
        (row("Operations measured", |run| run.record.operations(), |_| ""))
        (row("Wrong or missing answers", bad, |bad| if bad > 0 { "bad" } else { "" }))
        @if group.runs.iter().any(|run| compared(run).is_some()) {
            @let name = "Answers compared with the first to the same request";
            (row(name, |run| compared(run).unwrap_or(0), |_| ""))
        }
    }
}

/// Answers whose entries were compared with earlier ones, if they were to be.
fn compared(run: &Run<'_>) -> Option<u64> {
    let streams = run.record.streams.iter().filter_map(|stream| stream.compared);
    streams.map(|compared| compared.answers).reduce(u64::saturating_add)
}

/// Answers that were wrong, or never came.
pub(super) fn bad(run: &Run<'_>) -> u64 {
    let of = |stream: &Stream| stream.wrong.saturating_add(stream.errors);
    run.record.streams.iter().map(of).fold(0, u64::saturating_add)
}

/// All jobs in a few lines: what holds, and what to beware of.
pub(super) fn glance(groups: &[Group<'_>]) -> Markup {
    let runs: usize = groups.iter().map(|group| group.runs.len()).sum();
    let cautions = words::cautions(groups);
    html! {
        section aria-labelledby="glance" {
            h2 id="glance" { "At a glance" }
            @match groups {
                [] => p { "There is no run." },
                [group] => (tiles(group)),
                _ => {}
            }
            @for headline in words::headlines(groups) { p class="headline" { (headline) } }
            @if runs <= VERDICTS_MAX {
                ul class="verdicts" {
                    @for verdict in groups.iter().flat_map(words::verdicts) { li { (verdict) } }
                }
            }
            @if groups.len() > 1 { (overview(groups)) }
            @if !cautions.is_empty() {
                div class="cautions" role="note" {
                    h3 { "To beware of" }
                    ul { @for caution in &cautions { li { (caution) } } }
                }
            }
        }
    }
}

/// The figures that matter most, large.
fn tiles(group: &Group<'_>) -> Markup {
    let Some(first) = group.first() else { return html! {} };
    let latency = first.units().next().map(|stream| stream.latency);
    let tiles = [
        ("operations/s", Some(first.operations_per_s())),
        ("µs of server CPU an operation", first.cpu_us()),
        ("µs, the median latency", latency.and_then(|latency| known(latency.p50))),
        ("µs, what 99.9 % stay below", latency.and_then(|latency| known(latency.p99_9))),
    ];
    let tiles = tiles.into_iter().filter_map(|(name, value)| Some((name, value?)));
    html! {
        @if group.runs.len() > 1 { p class="whose" { (first.label) } }
        ul class="tiles" {
            @for (name, value) in tiles {
                li { strong { (figure(value)) } " " span { (name) } }
            }
        }
    }
}

/// Jobs and servers: a row for each run.
fn overview(groups: &[Group<'_>]) -> Markup {
    let caption = "All jobs; × is the ratio to the first server of the job";
    let bodies = html! {
        @for group in groups {
            tbody {
                @for (place, run) in group.runs.iter().enumerate() {
                    tr {
                        @if place == 0 {
                            th scope="rowgroup" rowspan=(group.runs.len()) {
                                (shortened(group.name, 40))
                            }
                        }
                        td class="text" { (run.label) }
                        (overview_cells(group, run, place == 0))
                    }
                }
            }
        }
    };
    Head { class: "overview", name: "All jobs", caption }.table(OVERVIEW, &bodies)
}

/// The figures of a run in [`overview`].
fn overview_cells(group: &Group<'_>, run: &Run<'_>, is_first: bool) -> Markup {
    if bad(run) > 0 {
        // Its figures stand below, beside what is wrong with them.
        return html! { td colspan="5" class="text" { (SPOILED) } };
    }
    let first = group.first().filter(|run| bad(run) == 0).and_then(Run::cpu_us);
    let relation =
        first.zip(run.cpu_us()).filter(|_| !is_first).map(|(first, us)| ratio(us / first));
    let latency = run.units().next().map(|stream| stream.latency);
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
    html! {
        td { (shown(run.cpu_us())) }
        td { (relation.unwrap_or_default()) }
        td { (figure(run.operations_per_s())) }
        td { (shown(latency.and_then(|latency| known(latency.p50)))) }
        td { (shown(latency.and_then(|latency| known(latency.p99_9)))) }
    }
}

const OVERVIEW: [&str; 7] =
    ["job", "server", "CPU, µs", "", "operations/s", "latency: 50 %, µs", "99.9 %, µs"];
/// What stands for the figures of a run with wrong or missing answers.
const SPOILED: &str = "spoiled: answers were wrong or did not come";
/// With more, the table is what can be read.
const VERDICTS_MAX: usize = 8;

/// How much of the server's CPU time the load generator took; none when either is not known.
pub(super) fn client_share(run: &Run<'_>) -> Option<(f64, String)> {
    let client = Some(run.record.cost.client_cpu_us_per_operation).filter(|us| *us > 0.0)?;
    let share = client / run.cpu_us()?;
    Some((share, percent(share)))
}
