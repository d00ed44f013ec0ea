//! The table of metrics: one row each, in the order of the reference page.
//!
//! A new metric is a row here, and the attribute of its name in the schema
//! (`crates/schema/files/14-monitor.ldif`).

mod served;
mod stored;
mod surroundings;

use super::table::Metric;

/// The branches of `cn=monitor` that have metrics, each with the title of its section.
#[cfg(test)]
pub(crate) const BRANCHES: &[(&str, &str)] = &[
    ("cn=operations", "Operations"),
    ("cn=connections", "Connections"),
    ("cn=work", "Queues and passwords"),
    ("cn=store", "Store"),
    ("cn=journal", "Journal"),
    ("cn=logs", "Logs"),
    ("cn=tls", "Certificate"),
    ("cn=process", "Process"),
];

/// All metrics.
pub(crate) const ROWS: &[Metric] = &join::<
    { served::ROWS.len() + stored::ROWS.len() + surroundings::ROWS.len() },
>(&[served::ROWS, stored::ROWS, surroundings::ROWS]);

/// Several tables as one; `N` is how many rows they have together.
#[allow(clippy::indexing_slicing, reason = "the compiler does it, and would stop")]
const fn join<const N: usize>(tables: &[&[Metric]]) -> [Metric; N] {
    let mut joined = [tables[0][0]; N];
    let (mut table, mut row, mut to) = (0, 0, 0);
    while table < tables.len() {
        if row < tables[table].len() {
            joined[to] = tables[table][row];
            (row, to) = (row + 1, to + 1);
        } else {
            (table, row) = (table + 1, 0);
        }
    }
    assert!(to == N);
    joined
}
