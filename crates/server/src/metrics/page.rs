//! The reference page, written from the table.

use std::fmt::Write as _;

use super::rows::{BRANCHES, ROWS};
use super::table::{Kind, MONITOR_ONLY, Metric, Unit};

/// `docs/reference/metrics.md`.
pub(crate) fn reference() -> String {
    let mut text = String::from(HEAD);
    for (branch, title) in BRANCHES {
        let _ = write!(text, "\n## {title}\n\nIn `{branch},cn=monitor`.\n\n");
        text.push_str("| Prometheus | kind | labels | attributes in `cn=monitor` | what it is |\n");
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
        Unit::Bytes => ", octets",
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

What a server counts and measures of itself. The same figures are in two places: as Prometheus' text
under `/metrics` of the admin listener (`[admin] listen`), and as entries below `cn=monitor`, which
whoever has the privilege `config-read` may read over LDAP. [How to watch a
server](../how-to/monitoring.md) says how to use both.

Counters begin at 0 when the server starts. Times are seconds for Prometheus, and microseconds in
attributes whose names end with `-us`. Where a metric has labels, each value of the first has an
entry of its own in `cn=monitor` where the table says *below*, and the entry above has the sum (but
that of the logs, where it would say nothing); other labels stand before the number, in values like
`success 1203`. Of a histogram, `cn=monitor` has how many were answered, all their time, percentiles
since the start, and the buckets that hold something, as values `END COUNT`: so many took less than
END microseconds, and not less than the bucket before.

This page is written from the table in `crates/server/src/metrics/rows.rs`; a test compares it. To
write it again: `ROSTER_WRITE_REFERENCE=1 cargo test -p server reference`.
";
