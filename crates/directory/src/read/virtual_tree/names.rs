//! The names of the trees that the server makes, and of their branches.
//!
//! Invariant: a branch is everything at and below one name, whose superior is an entry of its tree.

use schema::{DnKey, Schema};

use crate::changelog::CHANGELOG_DN;

/// The entry above those of the indexes.
pub(crate) const INDEX_CONFIG_DN: &str = "cn=Index,cn=config";

/// The entry with the server's settings, above one for each section.
pub(crate) const SERVER_SETTINGS_DN: &str = "cn=Settings,cn=config";

/// The entry with the global ACIs.
pub(crate) const ACCESS_CONFIG_DN: &str = "cn=Access Control Handler,cn=config";

/// The entry with the tokens of those that may join the cluster.
pub(crate) const JOIN_TOKENS_DN: &str = "cn=Join Tokens,cn=config";

/// The entry with the sinks.
pub(crate) const SINK_CONFIG_DN: &str = "cn=Sinks,cn=config";

/// The entry with the constraints.
pub(crate) const CONSTRAINT_CONFIG_DN: &str = "cn=Constraints,cn=config";

/// The entry with the assignments.
pub(crate) const ASSIGNMENT_CONFIG_DN: &str = "cn=Assignments,cn=config";

/// The entry above those of the assignments, with the numbers that come next.
pub(crate) const ASSIGNMENT_MONITOR_DN: &str = "cn=Assignments,cn=monitor";

/// The entry with the virtual attributes that administrators define.
pub(crate) const VIRTUAL_ATTRIBUTE_CONFIG_DN: &str = "cn=Virtual Attributes,cn=config";

/// The entry with the settings of groups.
pub(crate) const GROUP_CONFIG_DN: &str = "cn=Groups,cn=config";

/// The entry with the attributes whose values follow what they name.
pub(crate) const REFERENCE_CONFIG_DN: &str = "cn=References,cn=config";

/// The entry with the naming contexts.
pub(crate) const NAMING_CONTEXT_CONFIG_DN: &str = "cn=Naming Contexts,cn=config";

/// The entry that says which branches follow another server.
pub(crate) const FOLLOWING_CONFIG_DN: &str = "cn=Following,cn=config";

/// The entry that says how strictly the schema is enforced.
pub(crate) const SCHEMA_CONFIG_DN: &str = "cn=Schema,cn=config";

/// The entry above those of the constraints, with what breaks them.
pub(crate) const CONSTRAINT_MONITOR_DN: &str = "cn=Constraints,cn=monitor";

/// The entry that tells which filters are asked for.
pub(crate) const FILTER_MONITOR_DN: &str = "cn=filters,cn=monitor";

/// The entry above those that tell of the indexes.
pub(crate) const INDEX_MONITOR_DN: &str = "cn=index,cn=monitor";

/// The entry above those of the logs.
pub(crate) const LOG_MONITOR_DN: &str = "cn=logs,cn=monitor";

/// The entry of the certificate that clients are shown.
pub(crate) const TLS_MONITOR_DN: &str = "cn=tls,cn=monitor";

/// The entry above those of the members of the cluster.
pub(crate) const CLUSTER_MONITOR_DN: &str = "cn=cluster,cn=monitor";

/// The entry above those of the members, under the names that OpenDJ has for what they tell.
pub(crate) const REPLICATION_MONITOR_DN: &str = "cn=replication,cn=monitor";

/// The entry above those of the connections.
pub(crate) const SESSIONS_DN: &str = "cn=Sessions,cn=monitor";

/// What the server tells of itself.
pub(crate) const OPERATIONS_DN: &str = "cn=operations,cn=monitor";
pub(crate) const CONNECTIONS_DN: &str = "cn=connections,cn=monitor";
pub(crate) const WORK_DN: &str = "cn=work,cn=monitor";
pub(crate) const STORE_DN: &str = "cn=store,cn=monitor";
pub(crate) const JOURNAL_DN: &str = "cn=journal,cn=monitor";
pub(crate) const ARCHIVE_DN: &str = "cn=archive,cn=monitor";
pub(crate) const SINKS_DN: &str = "cn=sinks,cn=monitor";
pub(crate) const PROCESS_DN: &str = "cn=process,cn=monitor";

/// The entry with the lines of scheduled tasks, above those that 389 Directory Server has.
pub(crate) const TASK_CONFIG_DN: &str = "cn=Tasks,cn=config";

/// The entry above those of the tasks.
pub(crate) const SCHEDULED_TASKS_DN: &str = "cn=Scheduled Tasks,cn=tasks";

/// The entry above those of what is done again and again.
pub(crate) const RECURRING_TASKS_DN: &str = "cn=Recurring Tasks,cn=tasks";

/// Every tree, with its branches in the order in which they are found.
const TREES: [(&str, &[&str]); 4] = [
    (
        "cn=config",
        &[
            NAMING_CONTEXT_CONFIG_DN,
            INDEX_CONFIG_DN,
            ACCESS_CONFIG_DN,
            CONSTRAINT_CONFIG_DN,
            ASSIGNMENT_CONFIG_DN,
            VIRTUAL_ATTRIBUTE_CONFIG_DN,
            GROUP_CONFIG_DN,
            REFERENCE_CONFIG_DN,
            SCHEMA_CONFIG_DN,
            SINK_CONFIG_DN,
            FOLLOWING_CONFIG_DN,
            SERVER_SETTINGS_DN,
            JOIN_TOKENS_DN,
            TASK_CONFIG_DN,
        ],
    ),
    (
        "cn=monitor",
        &[
            FILTER_MONITOR_DN,
            INDEX_MONITOR_DN,
            CONSTRAINT_MONITOR_DN,
            ASSIGNMENT_MONITOR_DN,
            LOG_MONITOR_DN,
            TLS_MONITOR_DN,
            CLUSTER_MONITOR_DN,
            REPLICATION_MONITOR_DN,
            SESSIONS_DN,
            OPERATIONS_DN,
            CONNECTIONS_DN,
            WORK_DN,
            STORE_DN,
            JOURNAL_DN,
            ARCHIVE_DN,
            SINKS_DN,
            PROCESS_DN,
        ],
    ),
    ("cn=tasks", &[SCHEDULED_TASKS_DN, RECURRING_TASKS_DN]),
    // Made by `read/search/changes.rs`: there may be very many.
    (CHANGELOG_DN, &[]),
];

/// The names of the trees, resolved against a schema.
pub(crate) struct VirtualTrees(Vec<TreeKeys>);

/// One tree.
pub(crate) struct TreeKeys {
    pub(super) name: &'static str,
    pub(super) root: DnKey,
    pub(super) branches: Vec<(DnKey, &'static str)>,
}

impl TreeKeys {
    /// Whether it is that of the changes.
    pub(super) fn is_of_changes(&self) -> bool {
        self.name == CHANGELOG_DN
    }
}

impl VirtualTrees {
    /// Resolves the names.
    pub(crate) fn new(schema: &Schema) -> Self {
        let key = |name| DnKey::from_text(schema, name).expect("the code writes valid names");
        let resolve = |(name, branches): (&'static str, &'static [&'static str])| TreeKeys {
            name,
            root: key(name),
            branches: branches.iter().map(|&branch| (key(branch), branch)).collect(),
        };
        Self(TREES.map(resolve).into())
    }

    /// Whether the name is in the tree of changes.
    pub(crate) fn hold_change(&self, key: &DnKey) -> bool {
        self.of(key).is_some_and(TreeKeys::is_of_changes)
    }

    /// Whether the name is in one of the trees, whether there is such an entry or not.
    pub(crate) fn hold(&self, key: &DnKey) -> bool {
        self.of(key).is_some()
    }

    /// The tree that a name is in.
    pub(super) fn of(&self, key: &DnKey) -> Option<&TreeKeys> {
        self.0.iter().find(|tree| key.is_within(&tree.root))
    }

    /// The names of all branches.
    #[cfg(test)]
    pub(super) fn branch_names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|tree| &tree.branches).map(|(_, name)| *name)
    }
}
