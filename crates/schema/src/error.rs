//! Why a schema could not be built or changed: where, what, and what to do about it.

use std::fmt;

use crate::definition::{DEFINITION_COUNT_MAX, Definition, DefinitionError, SUPERIOR_DEPTH_MAX};

/// Where a definition stands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DefinitionLocation {
    /// The file's name, as it was given.
    pub file: String,
    /// The line its definition starts at, from 1; `None` for one given online.
    pub line: Option<usize>,
}

impl fmt::Display for DefinitionLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Why a schema could not be built or changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaError {
    /// The definition or line at fault.
    pub place: DefinitionLocation,
    /// What the definition is, as `attribute type 'cn'`; empty when it could not be read.
    pub subject: String,
    /// What is wrong.
    pub fault: SchemaFault,
}

impl SchemaError {
    pub(crate) fn of(
        place: &DefinitionLocation,
        definition: &Definition,
        fault: SchemaFault,
    ) -> Self {
        Self { place: place.clone(), subject: subject(definition), fault }
    }
}

/// What is wrong with a schema, its files or its change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SchemaFault {
    /// A line that is not `name: value`, a comment or the continuation of one.
    NotALine,
    /// A value in base64.
    Base64,
    /// A line naming something no schema file holds.
    UnknownLine(String),
    /// The record of a file is of an entry that has no schema.
    OtherEntry(String),
    /// The record of a file does not add definitions.
    ChangeType(String),
    /// OpenLDAP's `objectidentifier`, which names part of an OID.
    MacroLine,
    /// A definition that cannot be read.
    Unreadable(DefinitionError),
    /// More than [`DEFINITION_COUNT_MAX`] definitions.
    TooMany,
    /// The OID belongs to another definition.
    OidTaken(String),
    /// The name belongs to another definition.
    NameTaken {
        /// The name.
        name: String,
        /// Whose it is and where that stands.
        owner: String,
    },
    /// Something it refers to is not defined.
    Unknown {
        /// Which part refers to it, as `superior type`.
        role: &'static str,
        /// What it is called there.
        name: String,
    },
    /// A matching rule in a place for another kind of rule.
    WrongRule {
        /// The place, as `EQUALITY`.
        role: &'static str,
        /// The rule.
        name: String,
    },
    /// A chain of superiors that ends nowhere or is longer than [`SUPERIOR_DEPTH_MAX`].
    EndlessChain,
    /// A superior type with another usage (RFC 4512 §2.5.1).
    UsageDiffers,
    /// A collective type that is operational or single-valued (RFC 3671 §2.2).
    BadCollective,
    /// A superior class of a kind this class cannot be derived from (RFC 4512 §2.4).
    BadSuperiorKind(String),
    /// A content rule whose classes are of the wrong kinds (RFC 4512 §4.1.6).
    BadClassKind {
        /// The class at fault.
        class: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A syntax or matching rule the server does not implement.
    NotImplemented,
    /// The server's own code needs it as it is in the files of the tree.
    NeededByServer(String),
    /// It derives a type from one that the server acts on.
    ActedOn(String),
    /// It opens to clients what the server acts on.
    Opened,
    /// It takes away a type that the server acts on.
    Kept(String),
    /// ACIs would mean something else by it.
    Reinterpreted(&'static str),
    /// A type's key is part of stored names.
    KeyChanged {
        /// The first name it has and must keep.
        key: String,
    },
    /// Rules and superior of a type decide what its index holds.
    RulesChanged,
    /// What is to be removed is not there.
    NotDefined,
    /// What is to be removed is still referred to.
    StillUsed {
        /// By what.
        by: String,
    },
    /// Definitions of this kind come from the server's code and cannot be changed.
    Fixed,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place != DefinitionLocation::default() {
            write!(f, "{}: ", self.place)?;
        }
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        self.fault.fmt(f)
    }
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALine => f.write_str("expected 'name: value'; comments start with '#'"),
            Self::Base64 => f.write_str("base64 is not read here; write the definition plainly"),
            Self::UnknownLine(name) => write!(
                f,
                "'{name}' does not belong in a schema file; definitions start with \
                 'attributeTypes:', 'objectClasses:' or another attribute of cn=schema"
            ),
            Self::OtherEntry(name) => write!(
                f,
                "'{name}' is no schema entry, and a schema file changes no other: put \
                 definitions under 'dn: cn=schema', and load entries with roster import"
            ),
            Self::ChangeType(verb) => write!(
                f,
                "'changetype: {verb}' does not belong in a schema file, which says what there \
                 is: take definitions out of the file that has them, or delete them from cn=schema \
                 of the running server"
            ),
            Self::MacroLine => f.write_str(
                "OpenLDAP's objectidentifier is not read here; write dotted OIDs in full",
            ),
            Self::Unreadable(error) => error.fmt(f),
            Self::TooMany => {
                write!(f, "a schema holds at most {DEFINITION_COUNT_MAX} definitions")
            }
            Self::OidTaken(owner) => write!(f, "its OID belongs to {owner}; use another"),
            Self::NameTaken { name, owner } => {
                write!(f, "its name '{name}' belongs to {owner}; use another")
            }
            Self::Unknown { role, name } => write!(
                f,
                "{role} '{name}' is not defined; correct it or add the file that defines it"
            ),
            Self::WrongRule { role, name } => {
                write!(f, "matching rule '{name}' is not one for {role}")
            }
            Self::EndlessChain => {
                write!(f, "its superiors form a circle or a chain longer than {SUPERIOR_DEPTH_MAX}")
            }
            Self::UsageDiffers => f.write_str("its USAGE differs from that of its superior"),
            Self::BadCollective => f.write_str(
                "a collective attribute must have usage userApplications and many values",
            ),
            Self::BadSuperiorKind(superior) => {
                write!(f, "a class of its kind cannot be derived from {superior}")
            }
            Self::BadClassKind { class, wanted } => {
                write!(f, "object class '{class}' is not {wanted}")
            }
            Self::NotImplemented => f.write_str(
                "this server does not implement it; remove the definition, \
                 or name a known syntax with X-SUBST",
            ),
            Self::NeededByServer(name) => write!(
                f,
                "the server itself needs '{name}' as it is in 00-core.ldif; leave it unchanged"
            ),
            Self::ActedOn(name) => write!(
                f,
                "the server acts on '{name}', and would on types derived from it; \
                 define one without that superior"
            ),
            Self::Opened => f.write_str(
                "the server acts on it: it stays operational, and what only the server changes \
                 stays so; keep its USAGE and NO-USER-MODIFICATION",
            ),
            Self::Kept(name) => write!(
                f,
                "the server acts on '{name}', and would heed no value of it any more: it stays"
            ),
            Self::Reinterpreted(what) => write!(
                f,
                "ACIs would mean something else by it: it {what}; that takes the privilege \
                 bypass-acl, or a schema file and a restart"
            ),
            Self::KeyChanged { key } => write!(
                f,
                "its first name must stay '{key}', which stored names contain; \
                 add the new name after it"
            ),
            Self::RulesChanged => f.write_str(
                "superior and matching rules of a type in use cannot change; \
                 remove the type and add it anew",
            ),
            Self::NotDefined => f.write_str("cannot be removed, it is not defined"),
            Self::StillUsed { by } => write!(f, "cannot be removed, {by} refers to it"),
            Self::Fixed => f.write_str(
                "definitions of this kind are those the server implements and cannot be changed",
            ),
        }
    }
}

impl std::error::Error for SchemaError {}

/// What a definition is called in a message.
pub(crate) fn subject(definition: &Definition) -> String {
    format!("{} '{}'", definition.kind().noun(), definition.name())
}
