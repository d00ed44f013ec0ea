//! The pictures of a job: CPU time, throughput, latency, memory.

use maud::{Markup, html};

use super::figure::{Figure, Key, Mark, Table, draw_box, legend_of};
use super::number::{figure, grouped, short_time, trimmed};
use super::plot::{Axis, Line, Plot, SERIES, SIZE, place};
use super::points::{Point, every, points};
use super::run::{Group, Run};
use crate::bench::record::{BenchRecord, Stream};
use crate::table::shortened;

/// All pictures of a job.
pub(super) fn draw(group: &Group<'_>, number: usize) -> Markup {
    let id = |name: &str| format!("f{number}-{name}");
    let over_time = |name: &str, measure: &Measure| over_time(group, id(name), measure);
    html! {
        (cpu(group, id("cpu")))
        (over_time("rate", &RATE))
        @for (place, name) in group.streams().into_iter().enumerate() {
            (percentiles(group, name, id(&format!("percentiles{place}"))))
        }
        @for (place, run) in group.runs.iter().enumerate() {
            (latency(group, run, id(&format!("latency{place}"))))
        }
        (over_time("cores", &CORES))
        (over_time("memory", &MEMORY))
    }
}

const RATE: Measure = Measure {
    title: "Throughput over time, operations/s",
    of: |point| Some(point.operations_per_s),
    cell: grouped,
};
const CORES: Measure = Measure {
    title: "Cores the server kept busy",
    of: |point| point.cores,
    cell: |cores| format!("{cores:.2}"),
};
const MEMORY: Measure = Measure {
    title: "Memory of the server not backed by files, MiB",
    of: |point| point.anonymous_bytes.map(|bytes| bytes / MIB),
    cell: figure,
};

/// CPU time of an operation: bars of user and system time, and where the floor is.
fn cpu(group: &Group<'_>, id: String) -> Markup {
    let floor = group.floor.and_then(|record| Some((record, Bar::of(record, "floor".to_owned())?)));
    let bars: Vec<Bar> = group
        .runs
        .iter()
        .filter_map(|run| Bar::of(run.record, format!("s{}", run.series % SERIES)))
        .collect();
    if bars.is_empty() {
        return html! {};
    }
    let floor_us = floor.as_ref().map(|(_, bar)| bar.user_us + bar.system_us);
    let labels = group.runs.iter().filter(|run| run.cpu_us().is_some()).map(|run| &*run.label);
    let named: Vec<(&str, &Bar)> = labels
        .zip(&bars)
        .chain(floor.iter().map(|(record, bar)| (record.label.as_str(), bar)))
        .collect();
    let row = |(label, bar): &(&str, &Bar)| {
        let sum = bar.user_us + bar.system_us;
        let ratio = floor_us.map_or_else(|| "–".to_owned(), |floor| figure(sum / floor));
        let name = shortened(label, 40);
        vec![name, figure(bar.user_us), figure(bar.system_us), figure(sum), ratio]
    };
    let columns = ["server", "user, µs", "system, µs", "together, µs", "ratio to the floor"];
    let table = Table {
        caption: "Server CPU time per operation".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: named.iter().map(row).collect(),
    };
    let says = |(label, bar): &(&str, &Bar)| {
        format!("{}: {} µs", shortened(label, 40), figure(bar.user_us + bar.system_us))
    };
    let user = Key { class: "s0".to_owned(), mark: Mark::Box, label: "user" };
    let system = Key { class: "s0 system".to_owned(), mark: Mark::Box, label: "system" };
    let line = Key { class: "floor-key".to_owned(), mark: Mark::Line, label: "the floor" };
    let picture = Figure {
        id,
        title: "Server CPU time per operation, µs".to_owned(),
        note:
            "Shorter is better. Also meaningful on a busy machine, unlike throughput and latency."
                .to_owned(),
        says: named.iter().map(says).collect::<Vec<_>>().join("; "),
        legend: [user, system].into_iter().chain(floor_us.map(|_| line)).collect(),
        height: named.len() as f64 * BAR_STEP + 14.0,
        table,
    };
    picture.draw(&bars_of(&named, floor_us))
}

/// The bars of [`cpu`].
fn bars_of(named: &[(&str, &Bar)], floor_us: Option<f64>) -> Markup {
    let sums = named.iter().map(|(_, bar)| bar.user_us + bar.system_us);
    let most = sums.fold(0.0, f64::max).max(1e-9);
    let width = |us: f64| (SIZE.0 - 12.0) * us / most;
    let bar_of = |number: usize, label: &str, bar: &Bar| {
        let top = number as f64 * BAR_STEP + 8.0;
        let sum = bar.user_us + bar.system_us;
        let y = place(top + 13.0);
        let floor_us = floor_us.filter(|_| bar.class != "floor");
        let (user, system) = (width(bar.user_us), width(bar.system_us));
        html! {
            text x="6" y=(y) { (shortened(label, 28)) }
            text class="end strong" x=(place(SIZE.0 - 6.0)) y=(y) {
                (figure(sum)) " µs"
                @if let Some(floor) = floor_us { " · " (figure(sum / floor)) " × the floor" }
            }
            (draw_box(&bar.class, 6.0, top + 20.0, user, 18.0))
            (draw_box(&format!("{} system", bar.class), 6.0 + user, top + 20.0, system, 18.0))
            @if let Some(floor) = floor_us {
                path class="floor-line"
                    d=(format!("M{:.1} {:.1}v24", 6.0 + width(floor), top + 17.0)) {}
            }
        }
    };
    html! {
        @for (number, (label, bar)) in named.iter().enumerate() { (bar_of(number, label, bar)) }
    }
}

/// CPU time of an operation.
struct Bar {
    class: String,
    user_us: f64,
    system_us: f64,
}

impl Bar {
    fn of(record: &BenchRecord, class: String) -> Option<Self> {
        let spent = record.cost.server.as_ref()?;
        let us = Some(spent.cpu_us_per_operation).filter(|us| *us > 0.0)?;
        let (user, system) = (spent.user_us as f64, spent.system_us as f64);
        let share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        Some(Self { class, user_us: us * share, system_us: us * (1.0 - share) })
    }
}

/// Something that changes over time, of all servers in one picture.
struct Measure {
    title: &'static str,
    of: fn(&Point) -> Option<f64>,
    cell: fn(f64) -> String,
}

fn over_time(group: &Group<'_>, id: String, measure: &Measure) -> Markup {
    let series: Vec<(&Run<'_>, Vec<Point>)> =
        group.runs.iter().map(|run| (run, points(run.record, POINTS_MAX))).collect();
    let values = series.iter().flat_map(|(_, points)| points.iter().filter_map(measure.of));
    let Some(max) = values.reduce(f64::max) else { return html! {} };
    let end_s = end_s(group);
    let plot = Plot {
        x: Axis::of_time(end_s),
        y: Axis::from_zero(max, |tick, _| trimmed(tick)),
        x_title: X_TIME,
    };
    let lines: Vec<Line> = series
        .iter()
        .map(|(run, points)| Line {
            series: run.series,
            class: "",
            points: points.iter().map(|point| (point.at_s, (measure.of)(point))).collect(),
        })
        .collect();
    let says = series.iter().filter_map(|(run, points)| {
        let values: Vec<f64> = points.iter().filter_map(measure.of).collect();
        let (low, high) = (values.iter().copied().reduce(f64::min)?, max_of(&values)?);
        let cell = measure.cell;
        Some(format!("{}: between {} and {}", run.label, cell(low), cell(high)))
    });
    let picture = Figure {
        id,
        title: measure.title.to_owned(),
        note: seconds_note(group, "mean"),
        says: says.collect::<Vec<_>>().join("; "),
        legend: legend_of(group),
        height: SIZE.1,
        table: time_table(group, measure),
    };
    let cell = |run: &Run<'_>, point: &Point| {
        let value = (measure.of)(point).map_or_else(|| "–".to_owned(), measure.cell);
        format!("{}: {value}", run.label)
    };
    let hints = hints(&series, &cell);
    picture.draw(&html! {
        (plot.draw_axes())
        @for line in &lines { (plot.draw_line(line)) }
        (plot.draw_hints(&hints))
    })
}

/// What a picture of several servers over time says at each point of the first.
fn hints(
    series: &[(&Run<'_>, Vec<Point>)],
    cell: &dyn Fn(&Run<'_>, &Point) -> String,
) -> Vec<(f64, String)> {
    let longest = series.iter().max_by_key(|(_, points)| points.len());
    let Some((_, longest)) = longest else { return Vec::new() };
    let hint = |(place, point): (usize, &Point)| {
        let cells = series.iter().filter_map(|(run, points)| Some(cell(run, points.get(place)?)));
        (
            point.at_s,
            format!("{} s · {}", trimmed(point.at_s), cells.collect::<Vec<_>>().join(" · ")),
        )
    };
    longest.iter().enumerate().map(hint).collect()
}

fn time_table(group: &Group<'_>, measure: &Measure) -> Table {
    let series: Vec<Vec<Point>> =
        group.runs.iter().map(|run| points(run.record, ROWS_MAX)).collect();
    let longest = series.iter().max_by_key(|points| points.len());
    let row = |(place, point): (usize, &Point)| {
        let cell = |points: &Vec<Point>| {
            let value = points.get(place).and_then(measure.of);
            value.map_or_else(|| "–".to_owned(), measure.cell)
        };
        let head = format!("{:.0}", point.at_s);
        std::iter::once(head).chain(series.iter().map(cell)).collect()
    };
    let labels = group.runs.iter().map(|run| run.label.clone());
    Table {
        caption: measure.title.to_owned(),
        columns: std::iter::once("until, s".to_owned()).chain(labels).collect(),
        rows: longest.into_iter().flatten().enumerate().map(row).collect(),
    }
}

/// Latency over time of one server: the median, the high percentiles, the longest.
fn latency(group: &Group<'_>, run: &Run<'_>, id: String) -> Markup {
    let points_of = points(run.record, POINTS_MAX);
    let Some((min, max)) = latency_ends(group) else { return html! {} };
    if points_of.iter().all(|point| point.p50_us.is_none()) {
        return html! {};
    }
    let y = Axis::log(min, max, short_time);
    let plot = Plot { x: Axis::of_time(end_s(group)), y, x_title: X_TIME };
    let line = |(_, class, of): &Percentile| Line {
        series: run.series,
        class,
        points: points_of.iter().map(|point| (point.at_s, of(point))).collect(),
    };
    let cells = |point: &Point| {
        let cells = PERCENTILES.iter().map(|(_, _, of)| of(point).map_or_else(dash, figure));
        cells.collect::<Vec<_>>()
    };
    let rows = points(run.record, ROWS_MAX);
    let rows = rows
        .iter()
        .map(|point| std::iter::once(format!("{:.0}", point.at_s)).chain(cells(point)).collect());
    let names = PERCENTILES.map(|(name, ..)| name);
    let columns = std::iter::once("until, s".to_owned());
    let title = match group.runs.len() {
        1 => "Latency over time".to_owned(),
        _ => format!("Latency over time: {}", run.label),
    };
    let worst = points_of.iter().filter_map(|point| point.max_us).reduce(f64::max);
    let picture = Figure {
        id,
        title: title.clone(),
        note: seconds_note(group, "highest"),
        says: format!("the longest took {}", worst.map_or_else(dash, short_time)),
        legend: PERCENTILES
            .iter()
            .map(|(name, class, _)| Key {
                class: format!("s{} {class}", run.series % SERIES),
                mark: if *class == "dots" { Mark::Dot } else { Mark::Line },
                label: name,
            })
            .collect(),
        height: SIZE.1,
        table: Table {
            caption: format!("{title}, µs"),
            columns: columns.chain(names.map(str::to_owned)).collect(),
            rows: rows.collect(),
        },
    };
    let hint = |point: &Point| {
        let cells = PERCENTILES
            .iter()
            .map(|(name, _, of)| format!("{name} {}", of(point).map_or_else(dash, short_time)));
        let cells = cells.collect::<Vec<_>>().join(" · ");
        (point.at_s, format!("{} s · {cells}", trimmed(point.at_s)))
    };
    let hints: Vec<_> = points_of.iter().map(hint).collect();
    picture.draw(&html! {
        (plot.draw_axes())
        @for percentile in &PERCENTILES {
            @let line = line(percentile);
            (if percentile.1 == "dots" { plot.draw_dots(&line) } else { plot.draw_line(&line) })
        }
        (plot.draw_hints(&hints))
    })
}

/// Name, class and place of a line of [`latency`].
type Percentile = (&'static str, &'static str, fn(&Point) -> Option<f64>);

const PERCENTILES: [Percentile; 4] = [
    ("50 %", "thick", |point| point.p50_us),
    ("99 %", "whole", |point| point.p99_us),
    ("99.9 %", "broken", |point| point.p99_9_us),
    ("longest", "dots", |point| point.max_us),
];

/// The shortest and the longest time of all pictures of a group, so that they have the same axis.
fn latency_ends(group: &Group<'_>) -> Option<(f64, f64)> {
    let values = group.runs.iter().flat_map(|run| {
        let times = |second: &crate::bench::record::Second| [second.p50_us, second.max_us];
        run.record.seconds.iter().flat_map(times).flatten().filter(|us| *us > 0.0)
    });
    values.fold(None, |ends: Option<(f64, f64)>, us| {
        let (min, max) = ends.unwrap_or((us, us));
        Some((min.min(us), max.max(us)))
    })
}

/// How long which part of the operations took, all servers in one picture.
fn percentiles(group: &Group<'_>, name: &str, id: String) -> Markup {
    let curves: Vec<(&Run<'_>, Vec<(f64, f64)>)> = group
        .runs
        .iter()
        .filter_map(|run| {
            Some((run, curve(run.stream(name)?))).filter(|(_, curve)| !curve.is_empty())
        })
        .collect();
    let times = || curves.iter().flat_map(|(_, curve)| curve.iter().map(|(_, us)| *us));
    let (Some(min), Some(max)) = (times().reduce(f64::min), times().reduce(f64::max)) else {
        return html! {};
    };
    let deepest = curves.iter().flat_map(|(_, curve)| curve.iter().map(|(one_in, _)| *one_in));
    let deepest = deepest.fold(10.0, f64::max).min(1e8);
    let ticks = QUANTILES.into_iter().filter(|(one_in, _)| *one_in <= deepest);
    let ticks = ticks.map(|(one_in, label)| (one_in, label.to_owned())).collect();
    let x = Axis::log_with(1.0, deepest, ticks);
    let plot = Plot {
        x,
        y: Axis::log(min, max, short_time),
        x_title: "% of the operations took at most this long",
    };
    let title = match group.streams().len() {
        1 => "Latency by percentile".to_owned(),
        _ => format!("Latency by percentile: {}", shortened(name, 40)),
    };
    let says = curves.iter().filter_map(|(run, curve)| {
        let longest = curve.last().map(|(_, us)| short_time(*us))?;
        Some(format!("{}: the longest took {longest}", run.label))
    });
    let picture = Figure {
        id,
        title,
        note:
            "Both axes are logarithmic; lower is better, and the right end is the longest of all."
                .to_owned(),
        says: says.collect::<Vec<_>>().join("; "),
        legend: legend_of(group),
        height: SIZE.1,
        table: percentile_table(&curves),
    };
    let lines = curves.iter().map(|(run, curve)| Line {
        series: run.series,
        class: "",
        points: curve.iter().map(|(one_in, us)| (*one_in, Some(*us))).collect(),
    });
    let lines: Vec<Line> = lines.collect();
    let hints: Vec<(f64, String)> = QUANTILES
        .into_iter()
        .filter(|(one_in, _)| *one_in <= deepest)
        .map(|(one_in, label)| {
            let cell = |(run, curve): &(&Run<'_>, Vec<(f64, f64)>)| {
                format!("{}: {}", run.label, short_time(at(curve, one_in)))
            };
            let cells = curves.iter().map(cell).collect::<Vec<_>>().join(" · ");
            (one_in, format!("{label} % · {cells}"))
        })
        .collect();
    picture.draw(&html! {
        (plot.draw_axes())
        @for line in &lines { (plot.draw_line(line)) }
        (plot.draw_hints(&hints))
    })
}

fn percentile_table(curves: &[(&Run<'_>, Vec<(f64, f64)>)]) -> Table {
    let row = |(one_in, label): (f64, &str)| {
        let cell = |(_, curve): &(&Run<'_>, Vec<(f64, f64)>)| {
            let is_known = curve.last().is_some_and(|(deepest, _)| *deepest >= one_in);
            if is_known { figure(at(curve, one_in)) } else { dash() }
        };
        std::iter::once(format!("{label} %")).chain(curves.iter().map(cell)).collect()
    };
    let longest =
        curves.iter().map(|(_, curve)| curve.last().map_or_else(dash, |(_, us)| figure(*us)));
    let longest = std::iter::once("longest".to_owned()).chain(longest).collect();
    let labels = curves.iter().map(|(run, _)| run.label.clone());
    Table {
        caption: "Latency by percentile, µs".to_owned(),
        columns: std::iter::once("of the operations".to_owned()).chain(labels).collect(),
        rows: QUANTILES.into_iter().map(row).chain([longest]).collect(),
    }
}

/// For each time: one operation in how many took longer. The last row is the longest of all.
fn curve(stream: &Stream) -> Vec<(f64, f64)> {
    let all: f64 = stream.histogram.iter().map(|(_, count)| *count as f64).sum();
    if all < 1.0 {
        return Vec::new();
    }
    let mut sum = 0.0;
    let mut curve = Vec::new();
    for (us, count) in stream.histogram.iter().filter(|(us, count)| *us > 0.0 && *count > 0) {
        if curve.is_empty() {
            curve.push((1.0, *us));
        }
        sum += *count as f64;
        curve.push((all / (all - sum).max(1.0), *us));
    }
    curve
}

/// What all but one operation in so many took at most.
fn at(curve: &[(f64, f64)], one_in: f64) -> f64 {
    let found = curve.iter().find(|(deeper, _)| *deeper >= one_in * 0.999_999);
    found.or(curve.last()).map_or(0.0, |(_, us)| *us)
}

/// The end of the longest run of a group.
fn end_s(group: &Group<'_>) -> f64 {
    let ends = group.runs.iter().filter_map(|run| run.record.seconds.last());
    ends.map(|second| second.at_s).fold(0.0, f64::max)
}

/// What a point stands for, when that is more than a second.
fn seconds_note(group: &Group<'_>, which: &str) -> String {
    let every = group.runs.iter().map(|run| every(run.record, POINTS_MAX)).max().unwrap_or(1);
    match every {
        1 => String::new(),
        every => format!("Each point is the {which} of {every} seconds."),
    }
}

fn max_of(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn dash() -> String {
    "–".to_owned()
}

/// One in so many, as a percentile.
const QUANTILES: [(f64, &str); 9] = [
    (2.0, "50"),
    (10.0, "90"),
    (100.0, "99"),
    (1e3, "99.9"),
    (1e4, "99.99"),
    (1e5, "99.999"),
    (1e6, "99.9999"),
    (1e7, "99.99999"),
    (1e8, "99.999999"),
];

const X_TIME: &str = "time since the measurement began";
const MIB: f64 = 1_048_576.0;
/// As many as a picture has room for.
const POINTS_MAX: usize = 200;
const ROWS_MAX: usize = 40;
/// Height of a bar and its label.
const BAR_STEP: f64 = 50.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_at_the_longest() {
        let histogram = vec![(10.0, 50), (20.0, 40), (30.0, 9), (99.0, 1)];
        let curve = curve(&Stream { histogram, ..Stream::default() });
        assert_eq!(curve, [(1.0, 10.0), (2.0, 10.0), (10.0, 20.0), (100.0, 30.0), (100.0, 99.0)]);
        assert_eq!((at(&curve, 2.0), at(&curve, 5.0), at(&curve, 1e9)), (10.0, 20.0, 99.0));
        assert_eq!(super::curve(&Stream::default()), []);
    }
}
