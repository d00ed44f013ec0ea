//! Trees the server makes itself, `cn=config` and `cn=monitor`: entries that are computed when they
//! are asked for.
//!
//! A branch plugs in by its name in `virtual_tree/names.rs` and one row of [`BRANCHES`], with a
//! function that makes its entries.
//!
//! Invariant: only who has the privilege `config-read` sees them; to everybody else the names are
//! in none of the naming contexts. They leave through `aci` like every other entry.

pub(crate) mod branch;
pub(crate) mod names;

use std::collections::HashMap;

use aci::Privilege;
use ldap::message::Scope;
use schema::{DnKey, Entry, Schema, Selection};

use self::branch::{Branch, BranchSource, EntryMaker, MakeEntries, always, never};
use self::names::{
    ACCESS_CONFIG_DN, ASSIGNMENT_CONFIG_DN, ASSIGNMENT_MONITOR_DN, CLUSTER_MONITOR_DN,
    CONSTRAINT_CONFIG_DN, CONSTRAINT_MONITOR_DN, FILTER_MONITOR_DN, FOLLOWING_CONFIG_DN,
    GROUP_CONFIG_DN, INDEX_CONFIG_DN, INDEX_MONITOR_DN, JOIN_TOKENS_DN, LOG_MONITOR_DN,
    NAMING_CONTEXT_CONFIG_DN, RECURRING_TASKS_DN, REFERENCE_CONFIG_DN, REPLICATION_MONITOR_DN,
    SCHEDULED_TASKS_DN, SCHEMA_CONFIG_DN, SERVER_SETTINGS_DN, SESSIONS_DN, SINK_CONFIG_DN,
    TASK_CONFIG_DN, TLS_MONITOR_DN, TreeKeys, VIRTUAL_ATTRIBUTE_CONFIG_DN,
};
use crate::access::guard::Guard;
use crate::config::setting_config::shown;
use crate::config::{
    access_config, assignment_config, cluster_monitor, constraint_config, figure_monitor,
    index_config, index_monitor, join_tokens, log_monitor, server_settings, session_monitor,
    tls_monitor,
};
use crate::directory::{Directory, State};
use crate::read::analyser;
use crate::request::refusal::Refusal;
use crate::tasks::entries as tasks;

/// A branch whose entries are made at once.
const fn quick(name: &'static str, entries: MakeEntries) -> Branch {
    Branch { name, is_slow: never, entries }
}

/// Every branch but those of `figure_monitor`.
const BRANCHES: [Branch; 25] = [
    quick(NAMING_CONTEXT_CONFIG_DN, |source| shown(source, NAMING_CONTEXT_CONFIG_DN)),
    quick(INDEX_CONFIG_DN, index_config::entries),
    quick(ACCESS_CONFIG_DN, access_config::entries),
    quick(CONSTRAINT_CONFIG_DN, |source| shown(source, CONSTRAINT_CONFIG_DN)),
    quick(ASSIGNMENT_CONFIG_DN, |source| shown(source, ASSIGNMENT_CONFIG_DN)),
    quick(ASSIGNMENT_MONITOR_DN, assignment_config::states),
    quick(VIRTUAL_ATTRIBUTE_CONFIG_DN, |source| shown(source, VIRTUAL_ATTRIBUTE_CONFIG_DN)),
    quick(GROUP_CONFIG_DN, |source| shown(source, GROUP_CONFIG_DN)),
    quick(REFERENCE_CONFIG_DN, |source| shown(source, REFERENCE_CONFIG_DN)),
    quick(SCHEMA_CONFIG_DN, |source| shown(source, SCHEMA_CONFIG_DN)),
    quick(SINK_CONFIG_DN, |source| shown(source, SINK_CONFIG_DN)),
    quick(SERVER_SETTINGS_DN, server_settings::sections),
    quick(FOLLOWING_CONFIG_DN, |source| shown(source, FOLLOWING_CONFIG_DN)),
    Branch {
        name: CONSTRAINT_MONITOR_DN,
        is_slow: constraint_config::is_slow,
        entries: constraint_config::broken,
    },
    quick(JOIN_TOKENS_DN, join_tokens::entries),
    Branch { name: TASK_CONFIG_DN, is_slow: tasks::is_slow, entries: tasks::config },
    Branch { name: SCHEDULED_TASKS_DN, is_slow: tasks::is_slow, entries: tasks::scheduled },
    quick(RECURRING_TASKS_DN, tasks::recurring),
    quick(FILTER_MONITOR_DN, analyser::branch::entries),
    Branch { name: INDEX_MONITOR_DN, is_slow: always, entries: index_monitor::entries },
    quick(LOG_MONITOR_DN, log_monitor::entries),
    quick(TLS_MONITOR_DN, tls_monitor::entries),
    Branch {
        name: CLUSTER_MONITOR_DN,
        is_slow: cluster_monitor::is_slow,
        entries: cluster_monitor::entries,
    },
    Branch {
        name: REPLICATION_MONITOR_DN,
        is_slow: cluster_monitor::is_slow_replication,
        entries: cluster_monitor::replication,
    },
    Branch {
        name: SESSIONS_DN,
        is_slow: session_monitor::is_slow,
        entries: session_monitor::entries,
    },
];

/// The branch of this name.
fn branch(name: &str) -> Option<&'static Branch> {
    let mut all = BRANCHES.iter().chain(&figure_monitor::BRANCHES);
    all.find(|branch| branch.name == name)
}

/// What is looked for in a tree.
pub(crate) struct TreeSearch<'a> {
    pub(crate) base: &'a DnKey,
    pub(crate) scope: Scope,
    pub(crate) selection: &'a Selection,
    /// This thread may take its time.
    pub(crate) may_wait: bool,
}

/// What a tree holds for a search.
pub(crate) enum TreeEntries {
    /// The base, and the entries in scope (the base among them where it is).
    Found { base: Entry, in_scope: Vec<Entry> },
    /// To be asked again on a pool thread.
    TooSlowHere,
}

/// The entries of `scope` at `base`, if the name is in a tree and the asker may see it.
///
/// Refuses with `noSuchObject`, naming the nearest superior that exists.
pub(crate) fn find(
    directory: &Directory,
    state: &State,
    guard: &Guard<'_>,
    asked: &TreeSearch<'_>,
) -> Option<Result<TreeEntries, Refusal>> {
    let &TreeSearch { base, scope, selection, .. } = asked;
    // Of changes only those know who may read them, see `read/search/changes.rs`.
    let tree = state.virtual_trees.of(base).filter(|tree| !tree.is_of_changes())?;
    let source = BranchSource { directory, schema: &state.schema, base, scope, selection };
    guard.access().has(Privilege::ConfigRead).then(|| find_in(tree, &source, asked))
}

fn find_in(
    tree: &TreeKeys,
    source: &BranchSource<'_>,
    asked: &TreeSearch<'_>,
) -> Result<TreeEntries, Refusal> {
    let &TreeSearch { base, scope, may_wait, .. } = asked;
    // The root alone needs none of the branches.
    let is_root_alone = *base == tree.root && scope == Scope::Base;
    let is_wanted = |key: &DnKey| !is_root_alone && (key.is_within(base) || base.is_within(key));
    let mut made = vec![root_entry(tree, source)];
    for (key, name) in tree.branches.iter().filter(|(key, _)| is_wanted(key)) {
        let Some(branch) = branch(name) else { continue };
        if !may_wait && (branch.is_slow)(source) {
            return Ok(TreeEntries::TooSlowHere);
        }
        debug_assert!(key.is_within(&tree.root), "{} is elsewhere", branch.name);
        made.append(&mut (branch.entries)(source)?);
    }
    let made = with_counts(tree, source.schema, made);
    let nearest =
        made.iter().filter(|(key, _)| base.is_within(key)).max_by_key(|(key, _)| key.depth());
    let Some((nearest, entry)) = nearest else {
        return Err(Refusal::no_such_object(String::new(), "no such entry"));
    };
    if nearest != base {
        return Err(Refusal::no_such_object(entry.name().to_string(), "no such entry"));
    }
    let base_entry = entry.clone();
    let depth = base.depth();
    let is_in_scope = |key: &DnKey| {
        key.is_within(base)
            && match scope {
                Scope::Base => key.depth() == depth,
                Scope::One => key.depth() == depth + 1,
                Scope::Subtree => true,
                Scope::Subordinate => key.depth() > depth,
            }
    };
    let in_scope = made.into_iter().filter(|(key, _)| is_in_scope(key));
    let in_scope = in_scope.map(|(_, entry)| entry).collect();
    Ok(TreeEntries::Found { base: base_entry, in_scope })
}

fn root_entry(tree: &TreeKeys, source: &BranchSource<'_>) -> Entry {
    source.entry(tree.name, &["top", "extensibleObject"]).done()
}

/// The entries with their keys, and with `hasSubordinates` and `numSubordinates`.
fn with_counts(tree: &TreeKeys, schema: &Schema, made: Vec<Entry>) -> Vec<(DnKey, Entry)> {
    let key = |entry: &Entry| DnKey::from_dn(schema, entry.name()).unwrap_or_default();
    let keyed: Vec<_> = made.into_iter().map(|entry| (key(&entry), entry)).collect();
    let mut counts: HashMap<DnKey, usize> = HashMap::new();
    let made = keyed.iter().map(|(key, _)| key);
    let not_made = tree.branches.iter().map(|(key, _)| key);
    let not_made = not_made.filter(|key| !keyed.iter().any(|(made, _)| made == *key));
    for parent in made.chain(not_made).filter_map(DnKey::parent) {
        *counts.entry(parent).or_default() += 1;
    }
    let with_count = |(key, entry): (DnKey, Entry)| {
        let count = counts.get(&key).copied().unwrap_or(0);
        let maker = EntryMaker::of(schema, entry)
            .value("hasSubordinates", if count > 0 { "TRUE" } else { "FALSE" })
            .value("numSubordinates", &count.to_string());
        (key, maker.done())
    };
    keyed.into_iter().map(with_count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_function_that_makes_its_entries() {
        let trees = names::VirtualTrees::new(&Schema::builtin());
        for name in trees.branch_names() {
            assert!(branch(name).is_some(), "{name}");
        }
        let count = BRANCHES.len() + figure_monitor::BRANCHES.len();
        assert_eq!(trees.branch_names().count(), count);
    }
}
