//! Branches of `cn=monitor` whose figures the server has: operations, connections, queues, store,
//! journal, archive, sinks, the process. Whoever has them tells; without anybody the branches are
//! not there.

use schema::Entry;

use crate::config::monitor_sources::FigureEntry;
use crate::read::virtual_tree::branch::{Branch, BranchSource, always, never};
use crate::read::virtual_tree::names::{
    ARCHIVE_DN, CONNECTIONS_DN, JOURNAL_DN, OPERATIONS_DN, PROCESS_DN, SINKS_DN, STORE_DN, WORK_DN,
};
use crate::request::refusal::Refusal;

macro_rules! branch {
    ($name:ident, $is_slow:ident) => {
        Branch { name: $name, is_slow: $is_slow, entries: |source| entries(source, $name) }
    };
}

/// The branches; those are slow that ask the operating system for much.
pub(crate) const BRANCHES: [Branch; 8] = [
    branch!(OPERATIONS_DN, never),
    branch!(CONNECTIONS_DN, never),
    branch!(WORK_DN, never),
    branch!(STORE_DN, always),
    branch!(JOURNAL_DN, never),
    branch!(ARCHIVE_DN, never),
    branch!(SINKS_DN, never),
    branch!(PROCESS_DN, always),
];

fn entries(source: &BranchSource<'_>, branch: &str) -> Result<Vec<Entry>, Refusal> {
    let Some(figures) = source.directory.monitors.figures.get() else { return Ok(Vec::new()) };
    let made = figures(branch).into_iter().map(|FigureEntry { name, values }| {
        let mut entry = source.entry(&name, &["top", "extensibleObject"]);
        for (attribute, value) in values {
            entry = entry.value(&attribute, &value);
        }
        entry.done()
    });
    Ok(made.collect())
}
