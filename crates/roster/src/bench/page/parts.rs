//! What a run is made of: servers that shared its load, and steps.

use maud::{Markup, html};

use super::figure::Table;
use super::number::{count, figure, length};
use super::run::Group;
use crate::bench::record::{NULL, ServerShare, Step};
use crate::table::shortened;

/// A table for each run that has several servers.
pub(super) fn servers(group: &Group<'_>) -> Markup {
    let tables = group.runs.iter().filter(|run| !run.record.servers.is_empty()).map(|run| Table {
        caption: format!("Servers of {}, which share the connections", run.label),
        columns: SERVER_COLUMNS.map(str::to_owned).to_vec(),
        rows: run.record.servers.iter().map(server).collect(),
    });
    html! { @for table in tables { (table.draw("settings")) } }
}

/// A table for each run that had other steps than the one that was measured.
pub(super) fn steps(group: &Group<'_>) -> Markup {
    let tables = group.runs.iter().filter(|run| !run.record.steps.is_empty()).map(|run| Table {
        caption: format!(
            "Steps of {}; all other figures are of the one that was measured",
            run.label
        ),
        columns: STEP_COLUMNS.map(str::to_owned).to_vec(),
        rows: run.record.steps.iter().map(step).collect(),
    });
    html! { @for table in tables { (table.draw("settings")) } }
}

fn step(step: &Step) -> Vec<String> {
    let known = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
    let asked = |value: f64| if step.name == NULL { "–".to_owned() } else { figure(value) };
    vec![
        shortened(&step.name, 40),
        length((step.seconds * 10.0).round() / 10.0),
        count(step.operations),
        asked(step.operations_per_s),
        count(step.wrong.saturating_add(step.errors)),
        asked(step.latency.p50),
        asked(step.latency.p99),
        asked(step.latency.p99_9),
        asked(step.latency.max),
        known(step.spent.as_ref().map(|spent| spent.cores)),
    ]
}

fn server(share: &ServerShare) -> Vec<String> {
    let ServerShare { latency, spent, .. } = share;
    let known = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure);
    let lost = match &share.lost {
        None => String::new(),
        Some(reason) => {
            format!("{} connections: {}", count(share.lost_connections), shortened(reason, 200))
        }
    };
    vec![
        shortened(&share.server.uri, 60),
        count(share.connections),
        count(share.operations),
        figure(share.operations_per_s),
        count(share.wrong.saturating_add(share.errors)),
        figure(latency.p50),
        figure(latency.p99),
        figure(latency.p99_9),
        figure(latency.max),
        known(spent.as_ref().map(|spent| spent.cpu_us_per_operation)),
        known(spent.as_ref().map(|spent| spent.cores)),
        lost,
    ]
}

const STEP_COLUMNS: [&str; 10] = [
    "step",
    "length",
    "operations",
    "operations/s",
    "wrong or missing",
    "latency: 50 %, µs",
    "99 %, µs",
    "99.9 %, µs",
    "longest, µs",
    "busy cores of the servers",
];
const SERVER_COLUMNS: [&str; 12] = [
    "server",
    "connections",
    "operations",
    "operations/s",
    "wrong or missing",
    "latency: 50 %, µs",
    "99 %, µs",
    "99.9 %, µs",
    "longest, µs",
    "CPU, µs per operation",
    "busy cores",
    "lost",
];
