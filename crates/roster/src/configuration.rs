//! The configuration of a directory, as its entries below `cn=config` show it: what changed in it,
//! and what a file says it is to be.
//!
//! Invariant: a part of it is one row of `AREAS`; settings and indexes have files of their own.

pub(crate) mod brief;
pub mod file;
pub(crate) mod plan;
pub(crate) mod present;
pub(crate) mod requests;
pub(crate) mod told;
pub(crate) mod undo;

/// A part of the configuration whose values are those of one attribute.
#[derive(Debug)]
pub(crate) struct Area {
    /// What it is called in a file.
    pub(crate) key: &'static str,
    /// The entry that shows it, and its attribute.
    pub(crate) dn: &'static str,
    pub(crate) attribute: &'static str,
    /// What a value is called.
    pub(crate) what: &'static str,
    /// Whether a value begins with a name of its own and a colon.
    pub(crate) is_named: bool,
    /// The value that servers show where there is none.
    pub(crate) none: Option<&'static str>,
}

/// Every part, in the order of a file.
pub(crate) static AREAS: [Area; 11] = [
    Area {
        key: "naming_contexts",
        dn: NAMING_CONTEXTS_DN,
        attribute: NAMING_CONTEXT,
        what: "naming context",
        is_named: false,
        none: None,
    },
    Area {
        key: "constraints",
        dn: "cn=Constraints,cn=config",
        attribute: "roster-constraint",
        what: "constraint",
        is_named: true,
        none: None,
    },
    Area {
        key: "assignments",
        dn: "cn=Assignments,cn=config",
        attribute: "roster-assignment",
        what: "assignment",
        is_named: true,
        none: None,
    },
    Area {
        key: "virtual_attributes",
        dn: "cn=Virtual Attributes,cn=config",
        attribute: "roster-virtual-attribute",
        what: "virtual attribute",
        is_named: true,
        none: None,
    },
    Area {
        key: "sinks",
        dn: "cn=Sinks,cn=config",
        attribute: "roster-sink",
        what: "sink",
        is_named: true,
        none: None,
    },
    Area {
        key: "tasks",
        dn: "cn=Tasks,cn=config",
        attribute: "roster-task",
        what: "scheduled task",
        is_named: true,
        none: None,
    },
    Area {
        key: "global_acis",
        dn: "cn=Access Control Handler,cn=config",
        attribute: "ds-cfg-global-aci",
        what: "global ACI",
        is_named: false,
        none: None,
    },
    Area {
        key: "member_of",
        dn: "cn=Groups,cn=config",
        attribute: "roster-member-of",
        what: "meaning of memberOf",
        is_named: false,
        none: Some("all"),
    },
    Area {
        key: "member_uid_bases",
        dn: "cn=Groups,cn=config",
        attribute: "roster-member-uid-base",
        what: "base of memberUid",
        is_named: false,
        none: None,
    },
    Area {
        key: "references",
        dn: "cn=References,cn=config",
        attribute: "roster-reference",
        what: "reference",
        is_named: false,
        none: None,
    },
    Area {
        key: "schema_modes",
        dn: "cn=Schema,cn=config",
        attribute: "roster-schema-mode",
        what: "schema mode",
        is_named: true,
        none: None,
    },
];

/// The entry with the naming contexts, and the attribute with their names.
pub(crate) const NAMING_CONTEXTS_DN: &str = "cn=Naming Contexts,cn=config";
pub(crate) const NAMING_CONTEXT: &str = "roster-naming-context";
/// The entry with the settings, and the attribute with their lines.
pub(crate) const SETTINGS_DN: &str = "cn=Settings,cn=config";
pub(crate) const SETTING: &str = "roster-setting";
/// The entry above those of the indexes, and their attributes.
pub(crate) const INDEXES_DN: &str = "cn=Index,cn=config";
pub(crate) const INDEX: &str = "roster-index-definition";
pub(crate) const REBUILD: &str = "roster-index-rebuild";
pub(crate) const INDEXED: &str = "ds-cfg-attribute";
/// The entry of the schema.
pub(crate) const SCHEMA_DN: &str = "cn=schema";
