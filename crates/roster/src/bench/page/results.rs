//! The figures of a job as a table, and all jobs at a glance.

use super::figure::Head;
use super::markup::Markup;
use super::number::{count, figure, percent, ratio};
use super::{Group, Run, words};
use crate::bench::record::{Spent, Stream};

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
        name: "Server CPU, µs per operation",
        better: Better::Less,
        of: |run, _| run.cpu_us(),
    },
    Measure {
        name: "Operations per CPU second",
        better: Better::More,
        of: |run, _| run.cpu_us().map(|us| 1e6 / us),
    },
    Measure {
        name: "Busy cores of the server",
        better: Better::Neither,
        of: |_, spent| spent.map(|spent| spent.cores),
    },
    Measure {
        name: "Waits of server threads per operation",
        better: Better::Less,
        of: |run, spent| each(run, spent?.voluntary_switches),
    },
    Measure {
        name: "Interruptions of server threads per operation",
        better: Better::Neither,
        of: |run, spent| each(run, spent?.involuntary_switches),
    },
    Measure {
        name: "Written to disk, bytes per operation",
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
        name: "Load generator's CPU, µs per operation",
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
pub(super) fn table(out: &mut Markup, group: &Group<'_>) {
    let caption = match group.first().filter(|_| group.runs.len() > 1) {
        None => "Results".to_owned(),
        Some(first) => format!("Results; × is the ratio to {}, bold the best", first.label),
    };
    Head { class: "results", name: "Results", caption: &caption }.open(out, group.columns());
    out.open("tbody", &[]);
    for measure in &MEASURES {
        let value = |run: &Run<'_>| (measure.of)(run, run.record.cost.server.as_ref());
        row(out, measure.name, measure.better, &group.runs.iter().map(value).collect::<Vec<_>>());
    }
    let floor =
        group.floor.and_then(|floor| Some(floor.cost.server.as_ref()?.cpu_us_per_operation));
    if let Some(floor) = floor.filter(|floor| *floor > 0.0) {
        let values = group.runs.iter().map(|run| run.cpu_us().map(|us| us / floor));
        row(out, "CPU, ratio to the floor", Better::Less, &values.collect::<Vec<_>>());
    }
    let streams = group.streams();
    for name in &streams {
        let of = |run: &Run<'_>| -> Option<usize> {
            run.record.streams.iter().position(|stream| stream.name == *name)
        };
        if streams.len() > 1 {
            let columns = (group.runs.len() + 1).to_string();
            out.open("tr", &[("class", "part")]);
            out.element("th", &[("scope", "rowgroup"), ("colspan", &columns)], name);
            out.close();
        }
        for (place, (title, better, value)) in STREAM_MEASURES.iter().enumerate() {
            // Of a single stream, the throughput is there already.
            if place == 0 && streams.len() == 1 {
                continue;
            }
            let values = group.runs.iter().map(|run| value(run.record.streams.get(of(run)?)?));
            row(out, title, *better, &values.collect::<Vec<_>>());
        }
    }
    row_of_counts(out, group);
    out.close();
    Head::close(out);
}

/// A row, unless nobody has the figure.
fn row(out: &mut Markup, name: &str, better: Better, values: &[Option<f64>]) {
    let known = || values.iter().flatten().copied();
    let best = match better {
        Better::More => known().reduce(f64::max),
        Better::Less => known().reduce(f64::min),
        Better::Neither => None,
    };
    if known().next().is_none() {
        return;
    }
    // Where all are alike, nobody is best.
    let is_even = known().all(|value| best == Some(value));
    let best = best.filter(|_| values.len() > 1 && !is_even);
    let first = values.first().copied().flatten().filter(|first| *first > 0.0);
    out.open("tr", &[]);
    out.element("th", &[("scope", "row")], name);
    for (place, value) in values.iter().enumerate() {
        out.open("td", &[]);
        match value {
            None => {
                out.element("span", &[], "–");
                if place > 0 {
                    out.element("small", &[], "");
                }
            }
            Some(value) => {
                let tag = if best == Some(*value) { "b" } else { "span" };
                out.element(tag, &[], &figure(*value));
                // Without a ratio too, so that numbers stand below each other.
                if place > 0 {
                    let ratio = first.map(|first| ratio(value / first));
                    out.element("small", &[], &ratio.unwrap_or_default());
                }
            }
        }
        out.close();
    }
    out.close();
}

/// How many operations the figures stand on, and whether all were right.
fn row_of_counts(out: &mut Markup, group: &Group<'_>) {
    out.open("tr", &[]);
    out.element("th", &[("scope", "row")], "Operations measured");
    for (place, run) in group.runs.iter().enumerate() {
        count_cell(out, run.record.operations(), place, "");
    }
    out.close();
    out.open("tr", &[]);
    out.element("th", &[("scope", "row")], "Wrong or missing responses");
    for (place, run) in group.runs.iter().enumerate() {
        let bad = bad(run);
        count_cell(out, bad, place, if bad > 0 { "bad" } else { "" });
    }
    out.close();
    if group.runs.iter().all(|run| compared(run).is_none()) {
        return;
    }
    out.open("tr", &[]);
    out.element("th", &[("scope", "row")], "Responses compared with the first to the same request");
    for (place, run) in group.runs.iter().enumerate() {
        count_cell(out, compared(run).unwrap_or(0), place, "");
    }
    out.close();
}

/// Answers whose entries were compared with earlier ones, if they were to be.
fn compared(run: &Run<'_>) -> Option<u64> {
    let streams = run.record.streams.iter().filter_map(|stream| stream.compared);
    streams.map(|compared| compared.answers).reduce(u64::saturating_add)
}

fn count_cell(out: &mut Markup, number: u64, place: usize, class: &str) {
    out.open("td", &[]);
    out.element("span", &[("class", class)], &count(number));
    if place > 0 {
        out.element("small", &[], "");
    }
    out.close();
}

/// Answers that were wrong, or never came.
pub(super) fn bad(run: &Run<'_>) -> u64 {
    let of = |stream: &Stream| stream.wrong.saturating_add(stream.errors);
    run.record.streams.iter().map(of).fold(0, u64::saturating_add)
}

/// All jobs in a few lines: what holds, and the caveats.
pub(super) fn glance(out: &mut Markup, groups: &[Group<'_>]) {
    out.open("section", &[("aria-labelledby", "glance")]);
    out.element("h2", &[("id", "glance")], "At a glance");
    if groups.is_empty() {
        out.element("p", &[], "There is no run.");
    }
    if groups.len() == 1 {
        for group in groups {
            tiles(out, group);
        }
    }
    let runs: usize = groups.iter().map(|group| group.runs.len()).sum();
    for headline in words::headlines(groups) {
        out.element("p", &[("class", "headline")], &headline);
    }
    if runs <= VERDICTS_MAX {
        out.open("ul", &[("class", "verdicts")]);
        for verdict in groups.iter().flat_map(words::verdicts) {
            out.element("li", &[], &verdict);
        }
        out.close();
    }
    if groups.len() > 1 {
        overview(out, groups);
    }
    let cautions = words::cautions(groups);
    if !cautions.is_empty() {
        out.open("div", &[("class", "cautions"), ("role", "note")]);
        out.element("h3", &[], "Caveats");
        out.open("ul", &[]);
        for caution in &cautions {
            out.element("li", &[], caution);
        }
        out.close();
        out.close();
    }
    out.close();
}

/// The figures that matter most, large.
fn tiles(out: &mut Markup, group: &Group<'_>) {
    let Some(first) = group.first() else { return };
    let latency = first.units().next().map(|stream| stream.latency);
    let tiles = [
        ("operations/s", Some(first.operations_per_s())),
        ("µs of server CPU per operation", first.cpu_us()),
        ("µs, the median latency", latency.and_then(|latency| known(latency.p50))),
        (
            "µs, the 99.9th percentile of the latency",
            latency.and_then(|latency| known(latency.p99_9)),
        ),
    ];
    if group.runs.len() > 1 {
        out.element("p", &[("class", "whose")], &first.label);
    }
    out.open("ul", &[("class", "tiles")]);
    for (name, value) in tiles {
        let Some(value) = value else { continue };
        out.open("li", &[]);
        out.element("strong", &[], &figure(value));
        out.text(" ");
        out.element("span", &[], name);
        out.close();
    }
    out.close();
}

/// Jobs and servers: a row for each run.
fn overview(out: &mut Markup, groups: &[Group<'_>]) {
    let caption = "All jobs; × is the ratio to the first server of the job";
    Head { class: "overview", name: "All jobs", caption }.open(out, OVERVIEW);
    for group in groups {
        out.open("tbody", &[]);
        let rows = group.runs.len().to_string();
        let first = group.first().filter(|run| bad(run) == 0).and_then(Run::cpu_us);
        for (place, run) in group.runs.iter().enumerate() {
            out.open("tr", &[]);
            if place == 0 {
                let cell = [("scope", "rowgroup"), ("rowspan", rows.as_str())];
                out.element("th", &cell, &super::markup::shortened(group.name, 40));
            }
            out.element("td", &[("class", "text")], &run.label);
            if bad(run) > 0 {
                // Its figures stand below, beside what is wrong with them.
                out.element("td", &[("colspan", "5"), ("class", "text")], SPOILED);
                out.close();
                continue;
            }
            let relation = first.zip(run.cpu_us()).map(|(first, us)| us / first);
            let latency = run.units().next().map(|stream| stream.latency);
            let cells = [
                run.cpu_us().map(figure),
                relation.filter(|_| place > 0).map(ratio),
                Some(figure(run.operations_per_s())),
                latency.and_then(|latency| known(latency.p50)).map(figure),
                latency.and_then(|latency| known(latency.p99_9)).map(figure),
            ];
            for (cell, value) in cells.into_iter().enumerate() {
                let none = if cell == 1 { "" } else { "–" };
                out.element("td", &[], value.as_deref().unwrap_or(none));
            }
            out.close();
        }
        out.close();
    }
    Head::close(out);
}

const OVERVIEW: [&str; 7] =
    ["job", "server", "CPU, µs", "", "operations/s", "latency: 50 %, µs", "99.9 %, µs"];
/// What stands for the figures of a run with wrong or missing answers.
const SPOILED: &str = "invalid: responses were wrong or missing";
/// With more, the table is what can be read.
const VERDICTS_MAX: usize = 8;

/// How much of the server's CPU time the load generator took; none when either is not known.
pub(super) fn client_share(run: &Run<'_>) -> Option<(f64, String)> {
    let client = Some(run.record.cost.client_cpu_us_per_operation).filter(|us| *us > 0.0)?;
    let share = client / run.cpu_us()?;
    Some((share, percent(share)))
}
