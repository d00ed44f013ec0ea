//! What is to be set, and where it comes from.

use std::fmt;

/// Something that is to be set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setting {
    /// The entry of the other server that it is made of.
    pub from: String,
    /// The line of that entry.
    pub line: u64,
    /// What is set.
    pub change: SettingChange,
}

/// What is set.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum SettingChange {
    /// An index, by its definition.
    Index(String),
    /// A value of an entry.
    Value {
        /// The entry.
        entry: String,
        /// The attribute.
        attribute: &'static str,
        /// The value.
        value: String,
        /// Whether it takes the place of those that are there.
        replaces: bool,
    },
    /// A new entry.
    Entry {
        /// Its name.
        dn: String,
        /// Its attributes, a pair for each value.
        attributes: Vec<(String, String)>,
    },
    /// A line of roster.toml, which belongs to a server and not to the directory.
    File {
        /// The section.
        section: &'static str,
        /// The key.
        key: &'static str,
        /// The value, as it is written there.
        value: String,
    },
}

/// Something of the other server that became no setting, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remark {
    /// The entry of the other server.
    pub from: String,
    /// The line of that entry.
    pub line: u64,
    /// What it is about.
    pub about: String,
    /// Why.
    pub why: String,
}

impl SettingChange {
    /// In this order they are to be set: constraints and assignments need indexes.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Index(_) => 0,
            Self::Value { .. } => 1,
            Self::Entry { .. } => 2,
            Self::File { .. } => 3,
        }
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(definition) => write!(f, "index {definition}"),
            Self::Value { entry, attribute, value, .. } => {
                write!(f, "{attribute}: {value} ({entry})")
            }
            Self::Entry { dn, .. } => write!(f, "entry {dn}"),
            Self::File { section, key, value } => write!(f, "[{section}] {key} = {value}"),
        }
    }
}

/// Where settings of the directory are.
pub(super) const CONSTRAINTS: (&str, &str) = ("cn=Constraints,cn=config", "roster-constraint");
pub(super) const ASSIGNMENTS: (&str, &str) = ("cn=Assignments,cn=config", "roster-assignment");
pub(super) const VIRTUAL_ATTRIBUTES: (&str, &str) =
    ("cn=Virtual Attributes,cn=config", "roster-virtual-attribute");
pub(super) const REFERENCES: (&str, &str) = ("cn=References,cn=config", "roster-reference");
pub(super) const GROUPS: (&str, &str) = ("cn=Groups,cn=config", "roster-member-of");
