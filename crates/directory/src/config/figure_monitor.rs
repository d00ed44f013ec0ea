//! Branches of `cn=monitor` whose figures the server has: operations, connections, queues, store,
//! journal, the process. Whoever has them tells; without anybody the branches are not there.

use std::sync::OnceLock;

use schema::Entry;

use crate::read::virtual_tree::{Branch, Site, always, never};
use crate::request::refusal::Refusal;

/// An entry of `cn=monitor` as it is to be made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FigureEntry {
    /// Its name, whole.
    pub name: String,
    /// Attribute types of the schema, each with a value; a type may be there several times.
    pub values: Vec<(String, String)>,
}

/// Tells the entries of the branch with this name, the topmost first.
pub type Figures = Box<dyn Fn(&str) -> Vec<FigureEntry> + Send + Sync>;

/// Where whoever has figures says how to ask; nobody need.
#[derive(Default)]
pub(crate) struct FigureMonitor(OnceLock<Figures>);

impl FigureMonitor {
    /// The first who says it is asked.
    pub(crate) fn set(&self, figures: Figures) {
        let _ = self.0.set(figures);
    }
}

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
    let Some(figures) = site.directory.figure_monitor.0.get() else { return Ok(Vec::new()) };
    let made = figures(branch).into_iter().map(|FigureEntry { name, values }| {
        let mut entry = site.entry(&name, &["top", "extensibleObject"]);
        for (attribute, value) in values {
            entry = entry.value(&attribute, &value);
        }
        entry.done()
    });
    Ok(made.collect())
}
