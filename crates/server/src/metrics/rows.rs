//! The table of metrics: one row each, in the order of the reference page.
//!
//! A new metric is a row here, whose name says whether it is a counter and in what unit, and the
//! attribute of its name in the schema (`crates/schema/files/14-monitor.ldif`).

mod clustered;
mod runtime;
mod sent;
mod served;
mod stored;

use super::table::Metric;
use crate::rows::join;

/// The branches of `cn=monitor` that have metrics, each with the title of its section.
#[cfg(test)]
pub(crate) const BRANCHES: &[(&str, &str)] = &[
    ("cn=operations", "Operations"),
    ("cn=connections", "Connections"),
    ("cn=work", "Queues and passwords"),
    ("cn=store", "Store"),
    ("cn=journal", "Journal"),
    ("cn=archive", "Archive"),
    ("cn=sinks", "Sinks"),
    ("cn=cluster", "Cluster"),
    ("cn=logs", "Logs"),
    ("cn=tls", "Certificate"),
    ("cn=process", "Process"),
];

/// All metrics.
pub(crate) const ROWS: &[Metric] =
    &join::<
        Metric,
        {
            served::ROWS.len()
                + stored::ROWS.len()
                + sent::ROWS.len()
                + clustered::ROWS.len()
                + runtime::ROWS.len()
        },
    >(&[served::ROWS, stored::ROWS, sent::ROWS, clustered::ROWS, runtime::ROWS]);
