//! New versions of a schema: definitions added and removed, online or by files.
//!
//! Invariant: what stored names and index keys were made of does not change under them.

use super::Schema;
use crate::attribute_type::AttributeType;
use crate::definition::{Definition, DefinitionKind};
use crate::error::{DefinitionLocation, SchemaError, SchemaFault};
use crate::file::{SCHEMA_FILE_EXTENSION, Sourced};
use crate::well_known::WellKnown;

/// What definitions added online name as their file.
pub const ONLINE_FILE: &str = "99-user.ldif";

impl Schema {
    /// The schema after an online change: first `remove` goes, by kind and OID, then `add` comes.
    /// An added definition with a known OID replaces the known one.
    ///
    /// Refuses: removing what others refer to or the server itself needs; names and OIDs used
    /// otherwise; references to what is not there; and, for a type that stays, another first
    /// name, superior or matching rule, because stored names and indexes are made of them. That
    /// no entry uses what is removed is for the caller to see to.
    pub fn with_change(
        &self,
        add: &[Definition],
        remove: &[Definition],
    ) -> Result<Self, SchemaError> {
        let place = DefinitionLocation { file: ONLINE_FILE.to_owned(), line: None };
        let mut sources = self.sources.clone();
        for definition in add.iter().chain(remove) {
            if is_fixed(definition.kind()) {
                return Err(SchemaError::of(&place, definition, SchemaFault::Fixed));
            }
        }
        let mut removed = Vec::new();
        for definition in remove {
            let at = sources.iter().position(|known| known.definition.is_same_element(definition));
            let Some(at) = at else {
                return Err(SchemaError::of(&place, definition, SchemaFault::NotDefined));
            };
            removed.push(sources.remove(at).definition);
        }
        let added = add.iter().map(|definition| {
            let mut definition = definition.clone();
            definition.set_extension(SCHEMA_FILE_EXTENSION, ONLINE_FILE);
            Sourced { definition, place: place.clone() }
        });
        let next = self.replaced(sources, added.collect());
        let next = next.map_err(|error| blame_removal(error, &removed, place))?;
        self.check_successor(&next, Indexes::Kept)?;
        Ok(next)
    }

    /// See [`Schema::with_files`].
    pub(super) fn with_added_files(&self, added: Vec<Sourced>) -> Result<Self, SchemaError> {
        let new = added.clone();
        let next = self.replaced(self.sources.clone(), added)?;
        self.check_successor(&next, Indexes::BuiltAnew)?;
        for Sourced { definition, place } in &new {
            next.check_superiors(place, [definition])?;
        }
        Ok(next)
    }

    /// Takes out what has the OID of an added definition and puts the added ones at the end, so
    /// that a conflict is theirs.
    fn replaced(&self, sources: Vec<Sourced>, added: Vec<Sourced>) -> Result<Self, SchemaError> {
        let mut sources = sources;
        for addition in &added {
            self.check_key(addition)?;
            sources.retain(|known| !known.definition.is_same_element(&addition.definition));
        }
        sources.extend(added);
        Self::assemble(sources, self.generation + 1)
    }

    /// Checks that what is stored under this schema can be used under `next`.
    fn check_successor(&self, next: &Self, indexes: Indexes) -> Result<(), SchemaError> {
        for kind in &self.attribute_types {
            let new = next.attribute_type(&kind.oid);
            if indexes == Indexes::Kept && new.is_some_and(|new| !is_indexed_alike(kind, new)) {
                let source = next.definition_of(DefinitionKind::AttributeType, &kind.oid);
                let source = source.expect("every type has a definition");
                let fault = SchemaFault::RulesChanged;
                return Err(SchemaError::of(&source.place, &source.definition, fault));
            }
        }
        let types = WellKnown::TYPES.iter().map(|name| (DefinitionKind::AttributeType, *name));
        let classes = WellKnown::CLASSES.iter().map(|name| (DefinitionKind::ObjectClass, *name));
        for (kind, name) in types.chain(classes) {
            let old = self.definition_of(kind, name);
            let new = next.definition_of(kind, name);
            if let (Some(old), Some(new)) = (old, new)
                && !new.definition.means_the_same(&old.definition)
            {
                let fault = SchemaFault::NeededByServer(name.to_owned());
                return Err(SchemaError::of(&new.place, &new.definition, fault));
            }
        }
        Ok(())
    }

    /// A known type keeps its first name. Checked first: others may refer to it by that name.
    fn check_key(&self, addition: &Sourced) -> Result<(), SchemaError> {
        let Sourced { definition, place } = addition;
        let known = self.attribute_type(&definition.oid);
        let Some(known) = known.filter(|_| definition.kind() == DefinitionKind::AttributeType)
        else {
            return Ok(());
        };
        if definition.name().eq_ignore_ascii_case(known.key()) {
            return Ok(());
        }
        let fault = SchemaFault::KeyChanged { key: known.name().to_owned() };
        Err(SchemaError::of(place, definition, fault))
    }

    fn definition_of(&self, kind: DefinitionKind, name: &str) -> Option<&Sourced> {
        self.sources.iter().find(|source| {
            let definition = &source.definition;
            definition.kind() == kind && definition.is_named(name)
        })
    }
}

/// Whether the indexes of the old schema serve the new one.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Indexes {
    Kept,
    BuiltAnew,
}

fn is_indexed_alike(old: &AttributeType, new: &AttributeType) -> bool {
    let rules = |kind: &AttributeType| {
        [kind.equality, kind.ordering, kind.substring].map(|rule| rule.map(|rule| rule.oid))
    };
    rules(old) == rules(new) && old.superior == new.superior
}

/// Definitions the server's code stands for.
fn is_fixed(kind: DefinitionKind) -> bool {
    match kind {
        DefinitionKind::Syntax | DefinitionKind::MatchingRule | DefinitionKind::MatchingRuleUse => {
            true
        }
        DefinitionKind::AttributeType
        | DefinitionKind::ObjectClass
        | DefinitionKind::ContentRule
        | DefinitionKind::StructureRule
        | DefinitionKind::NameForm => false,
    }
}

/// Turns "refers to what is not there" into "cannot be removed", where that is why.
fn blame_removal(
    error: SchemaError,
    removed: &[Definition],
    place: DefinitionLocation,
) -> SchemaError {
    let SchemaFault::Unknown { name, .. } = &error.fault else { return error };
    match removed.iter().find(|definition| definition.is_named(name)) {
        Some(definition) => {
            let by = format!("{} ({})", error.subject, error.place);
            SchemaError::of(&place, definition, SchemaFault::StillUsed { by })
        }
        None => error,
    }
}
