//! The dictionary: attribute descriptions by the ids that records use, and which indexes they feed.
//!
//! Invariants: ids count from zero without gaps and are never reused; a description has one id.
//! A dictionary is immutable: a new description makes a new one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};
use schema::{AttributeDescription, AttributeType, Definition, DefinitionKind, Schema};

use crate::error::StoreError;
use crate::index::{Index, IndexKind};
use crate::lmdb::{ATTRIBUTES, META};

/// The most attribute descriptions of one store, over all its life.
pub const ATTRIBUTE_ID_COUNT_MAX: usize = 1 << 20;

/// Attribute ids, descriptions and indexes under one version of the schema.
#[derive(Clone, Debug)]
pub struct Dictionary {
    schema: Arc<Schema>,
    attributes: Vec<KnownAttribute>,
    ids: FxHashMap<String, u32>,
    indexes: Vec<Index>,
    /// Positions in `indexes` by the OID of the type, one place for each kind.
    by_type: FxHashMap<String, [Option<usize>; IndexKind::ALL.len()]>,
}

#[derive(Clone, Debug)]
struct KnownAttribute {
    description: Arc<AttributeDescription>,
    /// One bit for the type and each of its superiors: what is not in here is certainly none.
    family: u64,
    /// Positions of the indexes its values go into.
    indexes: Vec<usize>,
}

impl Dictionary {
    /// A dictionary without attributes. `indexes` are rows of `meta`: attribute type and kind.
    pub(crate) fn new(
        schema: Arc<Schema>,
        indexes: &[(String, IndexKind)],
    ) -> Result<Self, StoreError> {
        let mut resolved = Vec::with_capacity(indexes.len());
        let mut by_type: FxHashMap<String, [Option<usize>; 3]> = FxHashMap::default();
        for (position, (attribute, kind)) in indexes.iter().enumerate() {
            let id = u16::try_from(position).expect("INDEX_COUNT_MAX is checked when writing");
            let index = Index::resolve(id, attribute, *kind, &schema)?;
            let places = by_type.entry(index.attribute.kind.oid.clone()).or_default();
            if let Some(place) = places.get_mut(place_of(*kind)) {
                *place = Some(position);
            }
            resolved.push(index);
        }
        let ids = FxHashMap::default();
        Ok(Self { schema, attributes: Vec::new(), ids, indexes: resolved, by_type })
    }

    /// Adds the descriptions of the table `attributes`, in the order of their ids. Types that the
    /// schema lacks get a stand-in that compares octets.
    pub(crate) fn with_texts(mut self, texts: &[String]) -> Result<Self, StoreError> {
        let schema = Arc::clone(&self.schema);
        let unknown: Vec<&str> = texts
            .iter()
            .filter(|text| schema.describe(text).is_err())
            .map(|text| text.split(';').next().unwrap_or(text))
            .collect();
        let schema = with_stand_ins(schema, &unknown)?;
        for text in texts {
            let described = schema.describe(text);
            let description = described.map_err(|error| {
                StoreError::corrupt(ATTRIBUTES, text, format!("is no description: {error}"))
            })?;
            self.push(description)?;
        }
        Ok(self)
    }

    /// The same attributes and indexes under another schema.
    pub(crate) fn under(&self, schema: Arc<Schema>) -> Result<Self, StoreError> {
        let indexes: Vec<(String, IndexKind)> = self
            .indexes
            .iter()
            .map(|index| (index.attribute.kind.oid.clone(), index.kind))
            .collect();
        let texts: Vec<String> =
            self.attributes.iter().map(|known| known.description.text().to_owned()).collect();
        Self::new(schema, &indexes)?.with_texts(&texts)
    }

    /// The schema that the descriptions are from.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// How many descriptions there are; their ids are the numbers below it.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.attributes.len()
    }

    /// Whether no entry was ever stored.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    /// The description with this id.
    #[must_use]
    pub fn description(&self, id: u32) -> Option<&Arc<AttributeDescription>> {
        self.attributes.get(id as usize).map(|known| &known.description)
    }

    /// The id of a description.
    #[must_use]
    pub fn id(&self, description: &AttributeDescription) -> Option<u32> {
        self.ids.get(description.text()).copied()
    }

    /// Gives a new description the next id.
    pub(crate) fn push(
        &mut self,
        description: Arc<AttributeDescription>,
    ) -> Result<u32, StoreError> {
        if self.attributes.len() >= ATTRIBUTE_ID_COUNT_MAX {
            let what = "attribute descriptions";
            return Err(StoreError::TooMany { what, limit: ATTRIBUTE_ID_COUNT_MAX });
        }
        let id = self.attributes.len() as u32;
        let before = self.ids.insert(description.text().to_owned(), id);
        if before.is_some() {
            let text = description.text();
            return Err(StoreError::corrupt(ATTRIBUTES, id, format!("'{text}' has an id already")));
        }
        let mut family = 0;
        each_superior(&description.kind, |kind| family |= family_bit(kind));
        let indexes = (0..self.indexes.len())
            .filter(|&position| {
                let index = self.indexes.get(position);
                index.is_some_and(|index| index.attribute.covers(&description))
            })
            .collect();
        self.attributes.push(KnownAttribute { description, family, indexes });
        Ok(id)
    }

    /// Whether values of the attribute `id` are values of `asked`.
    #[inline]
    pub(crate) fn is_covered(&self, id: u32, asked: &Asked<'_>) -> bool {
        self.attributes.get(id as usize).is_some_and(|known| {
            known.family & asked.family != 0 && asked.description.covers(&known.description)
        })
    }

    /// The indexes that values of the attribute `id` go into.
    pub(crate) fn indexes_of(&self, id: u32) -> impl Iterator<Item = &Index> {
        let positions = self.attributes.get(id as usize).map(|known| known.indexes.as_slice());
        positions.unwrap_or_default().iter().filter_map(|&position| self.indexes.get(position))
    }

    /// The index of this kind for values of `kind`.
    pub(crate) fn index(&self, attribute: &AttributeType, kind: IndexKind) -> Option<&Index> {
        let position = (*self.by_type.get(&attribute.oid)?.get(place_of(kind))?)?;
        self.indexes.get(position)
    }

    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }
}

/// A question about an attribute description, ready to be asked of many ids.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    description: &'a AttributeDescription,
    family: u64,
}

impl<'a> Asked<'a> {
    #[inline]
    pub(crate) fn new(description: &'a AttributeDescription) -> Self {
        Self { description, family: family_bit(&description.kind) }
    }
}

const fn place_of(kind: IndexKind) -> usize {
    kind as usize
}

fn each_superior(kind: &AttributeType, mut visit: impl FnMut(&AttributeType)) {
    let mut next = Some(kind);
    while let Some(kind) = next {
        visit(kind);
        next = kind.superior.as_deref();
    }
}

fn family_bit(kind: &AttributeType) -> u64 {
    let mut hasher = FxHasher::default();
    kind.oid.hash(&mut hasher);
    1 << (hasher.finish() >> 58)
}

/// The schema with a definition for each type that it lacks.
fn with_stand_ins(schema: Arc<Schema>, names: &[&str]) -> Result<Arc<Schema>, StoreError> {
    if names.is_empty() {
        return Ok(schema);
    }
    let mut definitions: Vec<Definition> = Vec::new();
    for name in names {
        let definition = stand_in(name).map_err(|reason| {
            StoreError::corrupt(ATTRIBUTES, name, format!("is no name: {reason}"))
        })?;
        if !definitions.contains(&definition) {
            definitions.push(definition);
        }
    }
    let schema = schema.with_change(&definitions, &[]);
    let schema = schema
        .map_err(|error| StoreError::corrupt(META, "schema", format!("has no room: {error}")))?;
    Ok(Arc::new(schema))
}

/// The schema with a definition for the type of the description `text`, which it lacks: the same
/// stand-in with which entries are read that hold such values. None when `text` is no description.
#[must_use]
pub fn with_stand_in(schema: &Schema, text: &str) -> Option<Schema> {
    let definition = stand_in(text.split(';').next()?).ok()?;
    let schema = schema.with_change(&[definition], &[]).ok()?;
    schema.describe(text).is_ok().then_some(schema)
}

/// A definition of a type of which nothing but the name is known.
fn stand_in(name: &str) -> Result<Definition, String> {
    let text = if name.starts_with(|first: char| first.is_ascii_digit()) {
        format!("( {name} EQUALITY octetStringMatch SYNTAX {OCTET_STRING} )")
    } else {
        format!("( {name}-oid NAME '{name}' EQUALITY octetStringMatch SYNTAX {OCTET_STRING} )")
    };
    Definition::parse(DefinitionKind::AttributeType, &text).map_err(|error| error.to_string())
}

const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(texts: &[&str]) -> Dictionary {
        let config =
            [("name".to_owned(), IndexKind::Equality), ("cn".to_owned(), IndexKind::Substring)];
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Dictionary::new(Schema::builtin(), &config).unwrap().with_texts(&texts).unwrap()
    }

    #[test]
    fn an_index_takes_the_values_of_subtypes_and_options() {
        let dictionary = dictionary(&["cn;lang-de", "sn", "name", "mail"]);
        let indexes = |id| dictionary.indexes_of(id).map(|index| index.id).collect::<Vec<_>>();
        assert_eq!(
            [indexes(0), indexes(1), indexes(2), indexes(3)],
            [vec![0, 1], vec![0], vec![0], vec![]]
        );
    }

    #[test]
    fn covering_asks_types_and_options() {
        let dictionary = dictionary(&["cn;lang-de", "sn", "mail"]);
        let schema = Schema::builtin();
        for (asked, want) in [
            ("name", [true, true, false]),
            ("cn", [true, false, false]),
            ("cn;lang-en", [false, false, false]),
            ("cn;lang-de", [true, false, false]),
            ("mail", [false, false, true]),
        ] {
            let description = schema.describe(asked).unwrap();
            let asked = Asked::new(&description);
            assert_eq!(
                [0, 1, 2].map(|id| dictionary.is_covered(id, &asked)),
                want,
                "{description}"
            );
        }
    }

    #[test]
    fn types_that_are_gone_from_the_schema_keep_their_ids() {
        let dictionary = dictionary(&["goneType", "cn", "1.2.3.4.5;x-a", "goneType;lang-de"]);
        let text = |id| dictionary.description(id).unwrap().text().to_owned();
        assert_eq!([0, 1, 2, 3].map(text), ["goneType", "cn", "1.2.3.4.5;x-a", "goneType;lang-de"]);
        assert!(Arc::ptr_eq(dictionary.schema(), &Schema::builtin()));
    }
}
