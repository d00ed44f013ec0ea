//! Trees the server makes itself, `cn=config` and `cn=monitor`: entries that are computed when they
//! are asked for.
//!
//! A branch plugs in as one row of [`TREES`]: its name and a function that makes its entries.
//!
//! Invariant: only who has the privilege `config-read` sees them; to everybody else the names are
//! in none of the naming contexts. They leave through `aci` like every other entry.

use std::collections::HashMap;

use aci::Privilege;
use ldap::dn::Dn;
use ldap::message::Scope;
use schema::{DnKey, Entry, Schema, Selection};

use crate::access::guard::Guard;
use crate::config::{
    access_config, figure_monitor, index_config, index_monitor, log_monitor, session_monitor,
    tls_monitor,
};
use crate::directory::{Directory, State};
use crate::read::analyser::branch;
use crate::read::subschema::SUBSCHEMA_DN;
use crate::request::refusal::Refusal;

/// A tree of entries the server makes itself.
struct Tree {
    name: &'static str,
    branches: &'static [Branch],
    /// Likewise, what the server tells.
    figures: &'static [Branch],
}

impl Tree {
    fn all(&self) -> impl Iterator<Item = &'static Branch> + use<> {
        self.branches.iter().chain(self.figures)
    }
}

/// A part of a tree: everything at and below one name.
pub(crate) struct Branch {
    /// The name of its topmost entry, whose superior is an entry of the tree.
    pub(crate) name: &'static str,
    /// Making it may take longer than a connection's neighbours should wait: it goes to the pool.
    pub(crate) is_slow: fn(&Site<'_>) -> bool,
    /// Makes its entries, the topmost first and every superior before its subordinates.
    pub(crate) entries: fn(&Site<'_>) -> Result<Vec<Entry>, Refusal>,
}

/// Every tree. A new branch is a row here and a function that makes its entries.
const TREES: &[Tree] = &[
    Tree {
        name: "cn=config",
        branches: &[
            Branch {
                name: index_config::INDEX_CONFIG_DN,
                is_slow: never,
                entries: index_config::entries,
            },
            Branch {
                name: access_config::ACCESS_CONFIG_DN,
                is_slow: never,
                entries: access_config::entries,
            },
        ],
        figures: &[],
    },
    Tree {
        name: "cn=monitor",
        branches: &[
            Branch { name: branch::NAME, is_slow: never, entries: branch::entries },
            Branch {
                name: index_monitor::INDEX_MONITOR_DN,
                is_slow: always,
                entries: index_monitor::entries,
            },
            Branch {
                name: log_monitor::LOG_MONITOR_DN,
                is_slow: never,
                entries: log_monitor::entries,
            },
            Branch {
                name: tls_monitor::TLS_MONITOR_DN,
                is_slow: never,
                entries: tls_monitor::entries,
            },
            Branch {
                name: session_monitor::SESSIONS_DN,
                is_slow: session_monitor::is_slow,
                entries: session_monitor::entries,
            },
        ],
        figures: &figure_monitor::BRANCHES,
    },
];

pub(crate) fn never(_: &Site<'_>) -> bool {
    false
}

pub(crate) fn always(_: &Site<'_>) -> bool {
    true
}

/// What a branch is made from.
pub(crate) struct Site<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) schema: &'a Schema,
    /// Which entry is asked for, or entries below which.
    pub(crate) base: &'a DnKey,
    selection: &'a Selection,
}

impl Site<'_> {
    /// Whether an attribute is asked for by name: what costs much is made only then.
    pub(crate) fn asks(&self, name: &str) -> bool {
        let description = self.schema.describe(name);
        description.is_ok_and(|description| self.selection.names_attribute(&description))
    }

    /// Begins an entry of the classes; its naming value is put in.
    ///
    /// `name` is written by the code, with values escaped where they are not.
    pub(crate) fn entry(&self, name: &str, classes: &[&str]) -> EntryMaker<'_> {
        EntryMaker::new(self.schema, name, classes)
    }
}

/// An entry in the making.
pub(crate) struct EntryMaker<'a> {
    schema: &'a Schema,
    entry: Entry,
}

impl<'a> EntryMaker<'a> {
    fn new(schema: &'a Schema, name: &str, classes: &[&str]) -> Self {
        let dn = Dn::parse(name).expect("the code writes valid names");
        let maker = Self { schema, entry: Entry::new(dn) };
        let mut maker = maker
            .values("objectClass", classes.iter().map(|&class| class.to_owned()))
            .value("structuralObjectClass", classes.first().unwrap_or(&"top"))
            .value("entryDN", name)
            .value("subschemaSubentry", SUBSCHEMA_DN);
        // Its types are defined, as those of every name in the code are.
        let _ = maker.entry.add_naming_values(schema);
        maker
    }

    /// Puts one value in.
    pub(crate) fn value(self, name: &str, value: &str) -> Self {
        self.values(name, [value.to_owned()])
    }

    /// Adds values; without any the attribute stays out.
    pub(crate) fn values(mut self, name: &str, values: impl IntoIterator<Item = String>) -> Self {
        let values: Vec<Vec<u8>> = values.into_iter().map(String::into_bytes).collect();
        let description = self.schema.describe(name);
        debug_assert!(description.is_ok(), "{name} is not in the schema");
        if let Ok(description) = description
            && !values.is_empty()
        {
            // Of values that are equal to the attribute's rule, the first stays.
            let added = self.entry.add_missing_values(self.schema, &description, &values);
            debug_assert!(added.is_ok(), "{name}: {added:?}");
        }
        self
    }

    /// The entry.
    pub(crate) fn done(self) -> Entry {
        self.entry
    }
}

/// The names of the trees, resolved against a schema.
pub(crate) struct VirtualTrees(Vec<TreeKeys>);

struct TreeKeys {
    tree: &'static Tree,
    root: DnKey,
    branches: Vec<(DnKey, &'static Branch)>,
}

/// What is looked for in a tree.
pub(crate) struct Asked<'a> {
    pub(crate) base: &'a DnKey,
    pub(crate) scope: Scope,
    pub(crate) selection: &'a Selection,
    /// This thread may take its time.
    pub(crate) may_wait: bool,
}

/// What a tree holds for a search.
pub(crate) enum Found {
    /// The base, and the entries in scope (the base among them where it is).
    Entries { base: Entry, in_scope: Vec<Entry> },
    /// To be asked again on a pool thread.
    TooSlowHere,
}

impl VirtualTrees {
    /// Resolves the names.
    pub(crate) fn new(schema: &Schema) -> Self {
        let key = |name| DnKey::from_text(schema, name).expect("the code writes valid names");
        let resolve = |tree: &'static Tree| TreeKeys {
            tree,
            root: key(tree.name),
            branches: tree.all().map(|branch| (key(branch.name), branch)).collect(),
        };
        Self(TREES.iter().map(resolve).collect())
    }

    /// Whether the name is in one of the trees, whether there is such an entry or not.
    pub(crate) fn hold(&self, key: &DnKey) -> bool {
        self.0.iter().any(|tree| key.is_within(&tree.root))
    }

    /// The entries of `scope` at `base`, if the name is in a tree and the asker may see it.
    ///
    /// Refuses with `noSuchObject`, naming the nearest superior that exists.
    pub(crate) fn find(
        &self,
        directory: &Directory,
        state: &State,
        guard: &Guard<'_>,
        asked: &Asked<'_>,
    ) -> Option<Result<Found, Refusal>> {
        let &Asked { base, selection, .. } = asked;
        let tree = self.0.iter().find(|tree| base.is_within(&tree.root))?;
        let site = Site { directory, schema: &state.schema, base, selection };
        guard.access().has(Privilege::ConfigRead).then(|| tree.find(&site, asked))
    }
}

impl TreeKeys {
    fn find(&self, site: &Site<'_>, asked: &Asked<'_>) -> Result<Found, Refusal> {
        let &Asked { base, scope, may_wait, .. } = asked;
        // The root alone needs none of the branches.
        let is_root_alone = *base == self.root && scope == Scope::Base;
        let is_wanted =
            |key: &DnKey| !is_root_alone && (key.is_within(base) || base.is_within(key));
        let mut made = vec![self.root_entry(site)];
        for (key, branch) in self.branches.iter().filter(|(key, _)| is_wanted(key)) {
            if !may_wait && (branch.is_slow)(site) {
                return Ok(Found::TooSlowHere);
            }
            debug_assert!(key.is_within(&self.root), "{} is elsewhere", branch.name);
            made.append(&mut (branch.entries)(site)?);
        }
        let made = self.with_counts(site.schema, made);
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
        Ok(Found::Entries { base: base_entry, in_scope })
    }

    fn root_entry(&self, site: &Site<'_>) -> Entry {
        site.entry(self.tree.name, &["top", "extensibleObject"]).done()
    }

    /// The entries with their keys, and with `hasSubordinates` and `numSubordinates`.
    fn with_counts(&self, schema: &Schema, made: Vec<Entry>) -> Vec<(DnKey, Entry)> {
        let key = |entry: &Entry| DnKey::from_dn(schema, entry.name()).unwrap_or_default();
        let keyed: Vec<_> = made.into_iter().map(|entry| (key(&entry), entry)).collect();
        let mut counts: HashMap<DnKey, usize> = HashMap::new();
        let made = keyed.iter().map(|(key, _)| key);
        let not_made = self.branches.iter().map(|(key, _)| key);
        let not_made = not_made.filter(|key| !keyed.iter().any(|(made, _)| made == *key));
        for parent in made.chain(not_made).filter_map(DnKey::parent) {
            *counts.entry(parent).or_default() += 1;
        }
        let with_count = |(key, entry): (DnKey, Entry)| {
            let count = counts.get(&key).copied().unwrap_or(0);
            let maker = EntryMaker { schema, entry }
                .value("hasSubordinates", if count > 0 { "TRUE" } else { "FALSE" })
                .value("numSubordinates", &count.to_string());
            (key, maker.done())
        };
        keyed.into_iter().map(with_count).collect()
    }
}
