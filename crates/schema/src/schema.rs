//! One immutable version of the schema: every definition by name and OID.
//!
//! Invariant: everything a definition refers to is there, and names and OIDs are unique within
//! their kind. A change makes a new version; whoever holds the old one keeps it whole.

mod assemble;
mod change;
mod subschema;
#[cfg(test)]
mod tests;

pub use change::ONLINE_FILE;

use std::sync::{Arc, OnceLock};

use ldap::dn::Rdn;
use rustc_hash::FxHashMap;

use crate::attribute_type::AttributeType;
use crate::description::{self, AttributeDescription, DescriptionError};
use crate::error::SchemaError;
use crate::file::{self, SchemaFile, Sourced};
use crate::names::NameMap;
use crate::object_class::ObjectClass;
use crate::rules::{MatchingRule, Syntax};
use crate::structure::StructureRules;
use crate::well_known::WellKnown;

/// One version of the schema, shared as `Arc<Schema>` and replaced as a whole.
pub struct Schema {
    generation: u64,
    sources: Vec<Sourced>,
    attribute_types: Vec<Arc<AttributeType>>,
    object_classes: Vec<Arc<ObjectClass>>,
    /// Types by every name and OID, as the description without options.
    descriptions: NameMap<Arc<AttributeDescription>>,
    classes: NameMap<Arc<ObjectClass>>,
    rules: NameMap<&'static MatchingRule>,
    syntaxes: NameMap<&'static Syntax>,
    /// OIDs of name forms and structural classes' content rules, by name.
    other_oids: NameMap<String>,
    content_rules: FxHashMap<String, ContentRule>,
    structure_rules: StructureRules,
    well_known: WellKnown,
    /// What is derived from each type, by the type's number: made when first asked for.
    subtypes: OnceLock<FxHashMap<u64, Vec<Arc<AttributeDescription>>>>,
}

/// What else entries of a structural class must, may and may not hold (RFC 4512 §4.1.6).
#[derive(Clone, Debug)]
pub struct ContentRule {
    /// The structural class it is about.
    pub class: Arc<ObjectClass>,
    /// The only auxiliary classes such entries may have.
    pub auxiliary: Vec<Arc<ObjectClass>>,
    /// Attributes they must hold.
    pub must: Vec<Arc<AttributeType>>,
    /// Attributes they may hold.
    pub may: Vec<Arc<AttributeType>>,
    /// Attributes they may not hold.
    pub not: Vec<Arc<AttributeType>>,
}

impl Schema {
    /// The schema of the files in the tree, read once per process.
    pub fn builtin() -> Arc<Self> {
        static BUILTIN: OnceLock<Arc<Schema>> = OnceLock::new();
        let load = || {
            let files = builtin_files();
            Arc::new(Self::load(&files).expect("the files of the tree load: a test proves it"))
        };
        Arc::clone(BUILTIN.get_or_init(load))
    }

    /// Builds a schema from files alone; they must define what the server needs, as
    /// [`builtin_files`] do. The order of files and definitions does not matter.
    pub fn load(files: &[SchemaFile]) -> Result<Self, SchemaError> {
        let mut sources = Vec::new();
        for file in files {
            sources.extend(file::read(file)?);
        }
        Self::assemble(sources, 1)
    }

    /// Adds files to this schema. A definition with a known OID replaces the known one, under
    /// the conditions of [`Self::with_change`], but may have other matching rules: whoever edits
    /// files builds the indexes anew.
    pub fn with_files(&self, files: &[SchemaFile]) -> Result<Self, SchemaError> {
        let mut added = Vec::new();
        for file in files {
            added.extend(file::read(file)?);
        }
        self.with_added_files(added)
    }

    /// Finds the description without options of a type, by its name or OID. Costs one hash lookup.
    pub fn plain_description(&self, name_or_oid: &str) -> Option<&Arc<AttributeDescription>> {
        self.descriptions.get(name_or_oid)
    }

    /// Finds an attribute type by name or OID.
    pub fn attribute_type(&self, name_or_oid: &str) -> Option<&Arc<AttributeType>> {
        self.descriptions.get(name_or_oid).map(|description| &description.kind)
    }

    /// Finds an object class by name or OID.
    pub fn object_class(&self, name_or_oid: &str) -> Option<&Arc<ObjectClass>> {
        self.classes.get(name_or_oid)
    }

    /// Finds a matching rule by name or OID.
    pub fn matching_rule(&self, name_or_oid: &str) -> Option<&'static MatchingRule> {
        self.rules.get(name_or_oid).copied()
    }

    /// Finds a syntax by OID, one defined by `X-SUBST` included.
    pub fn syntax(&self, oid: &str) -> Option<&'static Syntax> {
        self.syntaxes.get(oid).copied()
    }

    /// The OID of the element called `descr`: an attribute type, object class, matching rule,
    /// name form or content rule, in this order.
    pub fn oid_of(&self, descr: &str) -> Option<&str> {
        let of_type = || self.attribute_type(descr).map(|kind| kind.oid.as_str());
        let of_class = || self.object_class(descr).map(|class| class.oid.as_str());
        let of_rule = || self.matching_rule(descr).map(|rule| rule.oid);
        let of_other = || self.other_oids.get(descr).map(String::as_str);
        of_type().or_else(of_class).or_else(of_rule).or_else(of_other)
    }

    /// Reads an attribute description. Without options it costs one hash lookup.
    pub fn describe(&self, text: &str) -> Result<Arc<AttributeDescription>, DescriptionError> {
        if let Some(plain) = self.descriptions.get(text) {
            return Ok(Arc::clone(plain));
        }
        let (name, options) = description::split(text)?;
        let plain = self.descriptions.get(name);
        let plain = plain.ok_or_else(|| DescriptionError::UnknownType(name.to_owned()))?;
        if options.is_empty() {
            return Ok(Arc::clone(plain));
        }
        AttributeDescription::with_options(Arc::clone(&plain.kind), options).map(Arc::new)
    }

    /// The content rule of entries with this structural class.
    pub fn content_rule(&self, structural: &ObjectClass) -> Option<&ContentRule> {
        self.content_rules.get(&structural.oid)
    }

    /// The OIDs of the attribute types of an RDN.
    pub fn rdn_types(&self, rdn: &Rdn) -> Vec<Option<String>> {
        let oid = |name: &str| self.attribute_type(name).map(|kind| kind.oid.clone());
        rdn.avas().iter().map(|ava| oid(&ava.attribute)).collect()
    }

    /// How entries may be named, and where they may stand.
    pub fn structure_rules(&self) -> &StructureRules {
        &self.structure_rules
    }

    /// Every attribute type, in the order of the files.
    pub fn attribute_types(&self) -> impl Iterator<Item = &Arc<AttributeType>> {
        self.attribute_types.iter()
    }

    /// All types derived from one, at least: a type of the same number may have added its own.
    pub fn subtypes(&self, kind: &AttributeType) -> &[Arc<AttributeDescription>] {
        let all = self.subtypes.get_or_init(|| {
            let mut all: FxHashMap<u64, Vec<Arc<AttributeDescription>>> = FxHashMap::default();
            for kind in &self.attribute_types {
                let mut next = &kind.superior;
                while let Some(superior) = next {
                    let plain = AttributeDescription::plain(Arc::clone(kind));
                    all.entry(superior.number()).or_default().push(Arc::new(plain));
                    next = &superior.superior;
                }
            }
            all
        });
        all.get(&kind.number()).map_or(&[], Vec::as_slice)
    }

    /// Every object class, in the order of the files.
    pub fn object_classes(&self) -> impl Iterator<Item = &Arc<ObjectClass>> {
        self.object_classes.iter()
    }

    /// Counts the changes that led to this version; the schema of the files alone is 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What the code itself names.
    pub fn well_known(&self) -> &WellKnown {
        &self.well_known
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema")
            .field("generation", &self.generation)
            .field("attribute_types", &self.attribute_types.len())
            .field("object_classes", &self.object_classes.len())
            .finish_non_exhaustive()
    }
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../files/", $name)))),*]
    };
}

/// The schema files of the tree that every server starts with.
pub fn builtin_files() -> Vec<SchemaFile> {
    let files = files![
        "00-core.ldif",
        "01-x509.ldif",
        "02-cosine.ldif",
        "03-inetorgperson.ldif",
        "04-nis.ldif",
        "05-authpassword.ldif",
        "06-groups.ldif",
        "07-changelog.ldif",
        "08-misc.ldif",
        "09-roster.ldif",
        "10-limits.ldif",
        "11-certificates.ldif",
        "12-accounts.ldif",
        "13-password-policy.ldif",
        "14-monitor.ldif",
        "15-sessions.ldif",
        "16-virtual-attributes.ldif",
        "17-389-accounts.ldif",
        "18-settings.ldif",
        "19-tasks.ldif",
    ];
    let file =
        |(name, text): (&str, &str)| SchemaFile { name: name.to_owned(), text: text.to_owned() };
    files.into_iter().map(file).collect()
}
