//! The reference page, written from the table.

use std::fmt::Write as _;

use super::rows::{BRANCHES, ROWS};
use super::table::{Kind, MONITOR_ONLY, Metric, Unit};

/// `docs/reference/metrics.md`.
pub(crate) fn reference() -> String {
    let mut text = String::from(HEAD);
    for (branch, title) in BRANCHES {
        let _ = write!(text, "\n## {title}\n\nIn `{branch},cn=monitor`.\n\n");
        text.push_str("| Prometheus | kind | labels | attributes in `cn=monitor` | meaning |\n");
        text.push_str("|---|---|---|---|---|\n");
        for metric in ROWS.iter().filter(|metric| metric.path.branch == *branch) {
            text.push_str(&row(metric));
        }
    }
    text
}

fn row(metric: &Metric) -> String {
    let kind = match metric.kind() {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Info => "information",
    };
    let unit = match metric.unit() {
        Unit::None => "",
        Unit::Bytes => ", bytes",
        Unit::Seconds => ", seconds",
        Unit::Days => ", days",
    };
    let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
    let attributes = metric.attributes();
    let attributes = attributes.iter().map(|(name, is_number)| {
        let form = if *is_number { "" } else { " (text)" };
        format!("`{name}`{form}")
    });
    let attributes = attributes.collect::<Vec<_>>().join(", ");
    let entry = match metric.labels {
        [first, ..] if metric.path.has_entries => format!("below `cn={first}`: "),
        _ => String::new(),
    };
    let name = match metric.name {
        MONITOR_ONLY => "–".to_owned(),
        name => format!("`{name}`"),
    };
    format!(
        "| {name} | {kind}{unit} | {} | {entry}{attributes} | {} |\n",
        labels.join(", "),
        metric.help
    )
}

const HEAD: &str = "# Metrics

A server publishes its metrics in two places: in Prometheus' text format under `/metrics` of the
admin listener (`[admin] listen`), and as entries below `cn=monitor`, which users with the privilege
`config-read` may read over LDAP. [How to monitor a server](../how-to/monitoring.md) explains both.

Counters begin at 0 when the server starts. Times are seconds for Prometheus, and microseconds in
attributes whose names end with `-us`. If the table says *below*, each value of the metric's first
label has an entry of its own in `cn=monitor`, and the entry above has the sum (except for the logs,
where a sum has no meaning). Other labels precede the number, in values like `success 1203`. For a
histogram, `cn=monitor` has the number of answered operations, their total time, percentiles since
the start, and the buckets that are not empty, as values `END COUNT`: COUNT operations took less
than END microseconds, and not less than the END of the previous bucket.

This page is generated from the table in `crates/server/src/metrics/rows.rs`; a test compares it. To
regenerate it: `ROSTER_WRITE_REFERENCE=1 cargo test -p server reference`.
";
