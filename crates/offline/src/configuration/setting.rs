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
    pub change: SettingKind,
}

/// What is set.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum SettingKind {
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
pub struct SettingRemark {
    /// The entry of the other server.
    pub from: String,
    /// The line of that entry.
    pub line: u64,
    /// What it is about.
    pub about: String,
    /// Why.
    pub why: String,
}

impl SettingKind {
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

impl fmt::Display for SettingKind {
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) entry: &'static str,
    pub(super) attribute: &'static str,
}

pub(super) const CONSTRAINTS: Shown =
    Shown { entry: "cn=Constraints,cn=config", attribute: "roster-constraint" };
pub(super) const ASSIGNMENTS: Shown =
    Shown { entry: "cn=Assignments,cn=config", attribute: "roster-assignment" };
pub(super) const VIRTUAL_ATTRIBUTES: Shown =
    Shown { entry: "cn=Virtual Attributes,cn=config", attribute: "roster-virtual-attribute" };
pub(super) const REFERENCES: Shown =
    Shown { entry: "cn=References,cn=config", attribute: "roster-reference" };
pub(super) const GROUPS: Shown =
    Shown { entry: "cn=Groups,cn=config", attribute: "roster-member-of" };
