//! What a run is made of: servers that shared its load.

use maud::{Markup, html};

use super::figure::Table;
use super::number::{count, figure};
use super::run::Group;
use crate::bench::record::ServerShare;
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
