//! Branches of `cn=monitor` whose figures the server has: operations, connections, queues, store,
//! journal, the process. Whoever has them tells; without anybody the branches are not there.

use schema::Entry;

use crate::config::monitor_sources::FigureEntry;
use crate::read::virtual_tree::{Branch, Site, always, never};
use crate::request::refusal::Refusal;

macro_rules! branch {
    ($name:literal, $is_slow:ident) => {
        Branch { name: $name, is_slow: $is_slow, entries: |site| entries(site, $name) }
    };
}

/// The branches; those are slow that ask the operating system for much.
pub(crate) const BRANCHES: [Branch; 6] = [
    branch!("cn=operations,cn=monitor", never),
    branch!("cn=connections,cn=monitor", never),
    branch!("cn=work,cn=monitor", never),
    branch!("cn=store,cn=monitor", always),
    branch!("cn=journal,cn=monitor", never),
    branch!("cn=process,cn=monitor", always),
];

fn entries(site: &Site<'_>, branch: &str) -> Result<Vec<Entry>, Refusal> {
    let Some(figures) = site.directory.monitors.figures.get() else { return Ok(Vec::new()) };
    let made = figures(branch).into_iter().map(|FigureEntry { name, values }| {
        let mut entry = site.entry(&name, &["top", "extensibleObject"]);
        for (attribute, value) in values {
            entry = entry.value(&attribute, &value);
        }
        entry.done()
    });
    Ok(made.collect())
}
