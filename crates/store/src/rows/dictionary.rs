//! The dictionary: attribute descriptions by the ids that records use, and which indexes they feed.
//!
//! Invariants: ids count from zero without gaps and are never reused; a description has one id.
//! A dictionary is immutable: a new description makes a new one.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use schema::{
    AttributeDescription, AttributeType, Definition, DefinitionKind, Families, MatchingRule, Schema,
};

use crate::base::compress::Compression;
use crate::base::lmdb::{ATTRIBUTES, META};
use crate::base::naming_context::{NAMING_CONTEXTS, NamingContexts};
use crate::error::StoreError;
use crate::index::{Index, IndexDefinition, IndexKind, IndexRow, IndexState};

/// The most attribute descriptions of one store, over all its life.
pub const ATTRIBUTE_ID_COUNT_MAX: usize = 1 << 20;

/// Attribute ids, descriptions and indexes under one version of the schema.
#[derive(Clone, Debug)]
pub struct Dictionary {
    schema: Arc<Schema>,
    attributes: Vec<KnownAttribute>,
    ids: FxHashMap<String, u32>,
    /// In the order of their ids, which need not be without gaps.
    indexes: Vec<Index>,
    /// What plans may look up for a type, by its OID.
    by_type: FxHashMap<String, TypeIndexes>,
    /// Positions of the indexes whose keys are made for whole entries.
    of_entries: Vec<usize>,
    /// With which records are compressed; none when they are not.
    compression: Option<Arc<Compression>>,
    /// The ids of the attributes that have a reference list in some entry, or once had.
    listed: Vec<u32>,
    /// The attributes that have values in rows of their own in some entry, or once had, and the
    /// rules by which these are kept.
    apart: Vec<(u32, &'static MatchingRule)>,
    /// The settings of the directory by name, but for those that change with entries: whoever
    /// decides on a change asks for several of them.
    settings: Arc<Settings>,
    /// The naming contexts that the store was made with.
    first_contexts: NamingContexts,
    /// Those that there are: what the setting says, or else the first.
    contexts: NamingContexts,
}

/// Values of settings, by name.
pub(crate) type Settings = FxHashMap<String, Arc<[String]>>;

/// Positions of the valid indexes of one type.
#[derive(Clone, Debug, Default)]
struct TypeIndexes {
    /// Of all entries and this type alone, one place for each kind.
    plain: [Option<usize>; IndexKind::ALL.len()],
    /// Of all entries and this type alone, by rules that are not the type's own.
    extensible: Vec<usize>,
    /// Of all entries, with another type: before or after it.
    composite: Vec<usize>,
    /// Of some entries; composite ones, too, under both types.
    filtered: Vec<usize>,
}

/// An attribute that has an id.
#[derive(Clone, Debug)]
pub(crate) struct KnownAttribute {
    pub(crate) description: Arc<AttributeDescription>,
    /// Of its type: what is not in here is certainly none of its superiors. See
    /// [`Asked::may_be_in`].
    pub(crate) families: Families,
    /// Positions of the indexes its values go into.
    indexes: Vec<usize>,
    /// Whether very many values may be in a reference list, see [`Dictionary::may_be_listed`].
    may_be_listed: bool,
    /// Whether very many values may be rows of their own, see [`Dictionary::may_be_apart`].
    may_be_apart: bool,
}

impl Dictionary {
    /// A dictionary without attributes. `rows` are those of `meta`, in the order of their ids.
    pub(crate) fn new(schema: Arc<Schema>, rows: &[IndexRow]) -> Result<Self, StoreError> {
        let mut indexes = Vec::with_capacity(rows.len());
        let mut by_type: FxHashMap<String, TypeIndexes> = FxHashMap::default();
        let mut of_entries = Vec::new();
        for (position, row) in rows.iter().enumerate() {
            let index = Index::resolve(row.id, &row.definition, row.state, &schema)?;
            if index.state.is_written() && index.is_of_entries() {
                of_entries.push(position);
            }
            let with = index.with.as_ref().map(|with| &with.attribute);
            let types = [Some(&index.attribute), with];
            if index.state == IndexState::Valid {
                for kind in types.into_iter().flatten() {
                    let places = by_type.entry(kind.kind.oid.clone()).or_default();
                    places.put(&index, position);
                }
            }
            indexes.push(index);
        }
        let (attributes, ids) = (Vec::new(), FxHashMap::default());
        let (compression, listed, apart, settings) = (None, Vec::new(), Vec::new(), Arc::default());
        let (first_contexts, contexts) = Default::default();
        Ok(Self {
            schema,
            attributes,
            ids,
            indexes,
            by_type,
            of_entries,
            compression,
            listed,
            apart,
            settings,
            first_contexts,
            contexts,
        })
    }

    /// This dictionary of a store that was made with these naming contexts.
    pub(crate) fn with_first_contexts(self, first: NamingContexts) -> Self {
        Self { contexts: first.clone(), first_contexts: first, ..self }
    }

    /// This dictionary with these settings.
    pub(crate) fn with_settings(mut self, settings: Settings) -> Result<Self, StoreError> {
        self.contexts = match settings.get(NAMING_CONTEXTS) {
            None => self.first_contexts.clone(),
            Some(values) => NamingContexts::of_setting(values, &self.schema)?,
        };
        Ok(Self { settings: Arc::new(settings), ..self })
    }

    /// The naming contexts that the store was made with.
    pub(crate) const fn first_contexts(&self) -> &NamingContexts {
        &self.first_contexts
    }

    /// The naming contexts.
    #[must_use]
    #[inline]
    pub const fn contexts(&self) -> &NamingContexts {
        &self.contexts
    }

    /// The values of a setting that is at hand, if it has any.
    #[inline]
    pub(crate) fn setting(&self, name: &str) -> Option<&Arc<[String]>> {
        self.settings.get(name)
    }

    /// Other values of a setting that is at hand.
    pub(crate) fn set(&mut self, name: &str, values: &[String]) -> Result<(), StoreError> {
        if name == NAMING_CONTEXTS {
            self.contexts = match values {
                [] => self.first_contexts.clone(),
                values => NamingContexts::of_setting(values, &self.schema)?,
            };
        }
        let settings = Arc::make_mut(&mut self.settings);
        match values {
            [] => drop(settings.remove(name)),
            values => drop(settings.insert(name.to_owned(), values.into())),
        }
        Ok(())
    }

    /// This dictionary, where these attributes have reference lists.
    pub(crate) fn with_listed(self, listed: Vec<u32>) -> Self {
        Self { listed, ..self }
    }

    /// This dictionary, where these attributes have values in rows of their own, kept by rules with
    /// these OIDs.
    pub(crate) fn with_apart(self, apart: Vec<(u32, String)>) -> Result<Self, StoreError> {
        let mut all = Vec::with_capacity(apart.len());
        for (attribute, oid) in apart {
            let rule = schema::MATCHING_RULES.iter().find(|rule| rule.oid == oid);
            let rule = rule.ok_or_else(|| {
                StoreError::corrupt(META, crate::base::meta::APART, format!("has no rule {oid}"))
            })?;
            all.push((attribute, rule));
        }
        let made = Self { apart: all, ..self };
        made.check_apart_rules()?;
        Ok(made)
    }

    /// Refuses a schema by which values in rows of their own would be compared otherwise than they
    /// are kept. A type that it does not know compares none.
    fn check_apart_rules(&self) -> Result<(), StoreError> {
        for (attribute, rule) in &self.apart {
            let Some(known) = self.description(*attribute) else { continue };
            if known.kind.equality != Some(*rule) && !is_stand_in(&known.kind) {
                return Err(StoreError::Invalid {
                    what: "attribute type",
                    text: known.text().to_owned(),
                    reason: format!(
                        "an entry has, or had, very many values of it, which are kept by {}: its \
                         equality rule cannot be another one",
                        rule.name
                    ),
                });
            }
        }
        Ok(())
    }

    /// The rule by which values of an attribute are kept in rows of their own.
    #[inline]
    pub(crate) fn apart_rule(&self, attribute: u32) -> Option<&'static MatchingRule> {
        self.apart.iter().find(|(one, _)| *one == attribute).map(|(_, rule)| *rule)
    }

    /// The attributes that have values in rows of their own, or once had, and their rules.
    pub(crate) fn apart(&self) -> &[(u32, &'static MatchingRule)] {
        &self.apart
    }

    /// Values of an attribute become rows of their own; whether that is new.
    pub(crate) fn push_apart(&mut self, attribute: u32, rule: &'static MatchingRule) -> bool {
        let is_new = self.apart_rule(attribute).is_none();
        if is_new {
            self.apart.push((attribute, rule));
        }
        is_new
    }

    /// Whether very many values of the attribute `id` may be rows of their own: people set them,
    /// they are compared by a rule, and no index needs all of them together.
    pub(crate) fn may_be_apart(&self, id: u32) -> bool {
        self.attributes.get(id as usize).is_some_and(|known| known.may_be_apart)
    }

    /// The attributes that have a reference list in some entry, or once had.
    #[inline]
    pub(crate) fn listed(&self) -> &[u32] {
        &self.listed
    }

    /// An attribute that has values outside of records and would be in this index, of a kind that
    /// does not take those. None where the definition is wrong: others say so.
    #[must_use]
    pub fn lists_against(&self, definition: &IndexDefinition) -> Option<&AttributeDescription> {
        let index = Index::resolve(0, definition, IndexState::Valid, &self.schema).ok()?;
        let takes = |description: &AttributeDescription| {
            let is_own =
                index.kind == IndexKind::Equality && index.rule == description.kind.equality;
            !index.is_of_entries() && (is_own || index.kind == IndexKind::Presence)
        };
        let apart = self.apart.iter().map(|(id, _)| id);
        let mut listed = self.listed.iter().chain(apart).filter_map(|id| self.description(*id));
        let found = listed.find(|one| index.depends_on(one) && !takes(one));
        found.map(|description| &**description)
    }

    /// Those of them that `asked` covers.
    #[inline]
    pub(crate) fn listed_of(&self, asked: &AttributeDescription) -> impl Iterator<Item = u32> {
        let covers = |id: &u32| self.is_covered(*id, &Asked::new(asked));
        self.listed.iter().copied().filter(covers)
    }

    /// An attribute has a reference list from now on.
    pub(crate) fn push_listed(&mut self, attribute: u32) {
        self.listed.push(attribute);
    }

    /// Whether very many values of the attribute `id` may be in a reference list: they name
    /// entries, people set them, and no index needs them as text but one of equality, which is not
    /// asked for them. An index that is being removed does not count, so that it is the same on
    /// all servers.
    pub(crate) fn may_be_listed(&self, id: u32) -> bool {
        self.attributes.get(id as usize).is_some_and(|known| known.may_be_listed)
    }

    /// This dictionary for a directory that is compressed so, or not at all.
    pub(crate) fn with_compression(self, compression: Option<Arc<Compression>>) -> Self {
        Self { compression, ..self }
    }

    /// With which records are compressed; none when they are not.
    #[inline]
    pub(crate) const fn compression(&self) -> Option<&Arc<Compression>> {
        self.compression.as_ref()
    }

    /// Whether an entry may have values of an attribute: none has if none ever had.
    #[must_use]
    pub fn may_be_stored(&self, asked: &AttributeDescription) -> bool {
        let asked = Asked::new(asked);
        self.attributes.iter().any(|known| known.is_covered(&asked))
    }

    /// How many attribute descriptions have a number.
    #[must_use]
    pub fn attribute_count(&self) -> usize {
        self.attributes.len()
    }

    /// Whether records are compressed.
    #[must_use]
    pub const fn compresses(&self) -> bool {
        self.compression.is_some()
    }

    /// The rows that the indexes were made of, their definitions canonical.
    pub(crate) fn rows(&self) -> Vec<IndexRow> {
        let row = |index: &Index| {
            let Index { id, definition, state, .. } = index;
            IndexRow { id: *id, definition: definition.clone(), state: *state }
        };
        self.indexes.iter().map(row).collect()
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

    /// This dictionary's attributes and indexes under another schema.
    pub(crate) fn under(&self, schema: Arc<Schema>) -> Result<Self, StoreError> {
        self.made_anew(schema, &self.rows())
    }

    /// This dictionary under another schema, or with other indexes; the rest stays.
    pub(crate) fn made_anew(
        &self,
        schema: Arc<Schema>,
        rows: &[IndexRow],
    ) -> Result<Self, StoreError> {
        // Whatever comes to be in it is either made anew, or kept here.
        let Self {
            schema: _,
            attributes,
            ids: _,
            indexes: _,
            by_type: _,
            of_entries: _,
            compression,
            listed,
            apart,
            settings,
            first_contexts,
            contexts,
        } = self;
        let texts: Vec<String> =
            attributes.iter().map(|known| known.description.text().to_owned()).collect();
        let made = Self::new(schema, rows)?.with_texts(&texts)?;
        let (compression, listed, apart) = (compression.clone(), listed.clone(), apart.clone());
        let made = Self {
            compression,
            listed,
            apart,
            settings: Arc::clone(settings),
            first_contexts: first_contexts.clone(),
            contexts: contexts.clone(),
            ..made
        };
        made.check_apart_rules()?;
        Ok(made)
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
        let families = description.kind.families();
        let indexes = (0..self.indexes.len())
            .filter(|&position| {
                self.indexes.get(position).is_some_and(|index| {
                    let is_made_of_values = index.state.is_written() && !index.is_of_entries();
                    is_made_of_values && index.attribute.covers(&description)
                })
            })
            .collect();
        let may_be_listed = self.has_only_references(&description);
        let may_be_apart = self.has_only_points(&description);
        let known = KnownAttribute { description, families, indexes, may_be_listed, may_be_apart };
        self.attributes.push(known);
        Ok(id)
    }

    fn has_only_references(&self, description: &AttributeDescription) -> bool {
        let kind = &description.kind;
        let is_by_name = kind.equality.is_some_and(compares_names);
        kind.names_entries()
            && is_by_name
            && !kind.single_value
            && !kind.no_user_modification
            && self.has_only_own_indexes(description)
    }

    fn has_only_points(&self, description: &AttributeDescription) -> bool {
        let kind = &description.kind;
        kind.equality.is_some()
            && !kind.names_entries()
            && !kind.single_value
            && !kind.no_user_modification
            && !kind.is_operational()
            && !kind.is_secret()
            && !description.is_password()
            && *description != *self.schema.well_known().object_class
            && self.has_only_own_indexes(description)
    }

    /// Whether values are in no indexes but those of presence and of equality by their own rule.
    fn has_only_own_indexes(&self, description: &AttributeDescription) -> bool {
        let kind = &description.kind;
        let mut written = self.indexes.iter().filter(|index| index.state.is_written());
        written.all(|index| {
            let is_own = index.kind == IndexKind::Equality && index.rule == kind.equality;
            !index.depends_on(description)
                || (!index.is_of_entries() && (is_own || index.kind == IndexKind::Presence))
        })
    }

    /// The attribute with this id.
    #[inline]
    pub(crate) fn known(&self, id: u32) -> Option<&KnownAttribute> {
        self.attributes.get(id as usize)
    }

    /// Whether values of the attribute `id` are values of `asked`.
    #[inline]
    pub(crate) fn is_covered(&self, id: u32, asked: &Asked<'_>) -> bool {
        self.known(id).is_some_and(|known| known.is_covered(asked))
    }

    /// The indexes that values of the attribute `id` go into, whatever else is in the entry. Those
    /// that are being built are among them.
    pub(crate) fn indexes_of(&self, id: u32) -> impl Iterator<Item = &Index> {
        let positions = self.attributes.get(id as usize).map(|known| known.indexes.as_slice());
        self.at(positions.unwrap_or_default())
    }

    /// The indexes whose keys are made for whole entries: composite and filtered ones. Those that
    /// are being built are among them.
    pub(crate) fn indexes_of_entries(&self) -> impl Iterator<Item = &Index> {
        self.at(&self.of_entries)
    }

    /// The valid index of this kind for values of `kind` in all entries. An index of equality gives
    /// the order as well where the ordering rule orders its keys. Of extensible ones see
    /// [`Self::extensible`].
    pub(crate) fn index(&self, attribute: &AttributeType, kind: IndexKind) -> Option<&Index> {
        let plain = &self.by_type.get(&attribute.oid)?.plain;
        self.indexes.get((*plain.get(place_of(kind))?)?)
    }

    /// The valid index of values of `kind` in all entries by a rule that is not its own.
    pub(crate) fn extensible(&self, kind: &AttributeType, rule: &MatchingRule) -> Option<&Index> {
        let found = self.by_type.get(&kind.oid)?;
        self.at(&found.extensible).find(|index| index.rule == Some(rule))
    }

    /// The valid composite indexes that have `kind` as their first or second attribute, of all
    /// entries.
    pub(crate) fn composites(&self, kind: &AttributeType) -> impl Iterator<Item = &Index> {
        self.at(self.by_type.get(&kind.oid).map_or(&[], |found| found.composite.as_slice()))
    }

    /// The valid filtered indexes of values of `kind`; composite ones with it are among them.
    pub(crate) fn filtered(&self, kind: &AttributeType) -> impl Iterator<Item = &Index> {
        self.at(self.by_type.get(&kind.oid).map_or(&[], |found| found.filtered.as_slice()))
    }

    /// Every index, in the order of the ids; those that are being built or dropped are among them.
    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// The index with this id.
    pub(crate) fn index_with_id(&self, id: u16) -> Option<&Index> {
        let position = self.indexes.binary_search_by_key(&id, |index| index.id).ok()?;
        self.indexes.get(position)
    }

    /// Id, definition and state of every index, in the order of the ids.
    pub fn definitions(&self) -> impl Iterator<Item = (u16, &IndexDefinition, IndexState)> {
        self.indexes.iter().map(|index| (index.id, &index.definition, index.state))
    }

    fn at(&self, positions: &[usize]) -> impl Iterator<Item = &Index> {
        positions.iter().filter_map(|&position| self.indexes.get(position))
    }
}

impl TypeIndexes {
    fn put(&mut self, index: &Index, position: usize) {
        if index.filter.is_some() {
            self.filtered.push(position);
        } else if index.with.is_some() {
            self.composite.push(position);
        } else if index.kind == IndexKind::Extensible {
            self.extensible.push(position);
        } else {
            for kind in IndexKind::ALL.into_iter().filter(|&kind| index.is_of_kind(kind)) {
                if let Some(place) = self.plain.get_mut(place_of(kind)) {
                    *place = Some(position);
                }
            }
        }
    }
}

impl KnownAttribute {
    /// Whether its values are values of `asked`.
    #[inline]
    pub(crate) fn is_covered(&self, asked: &Asked<'_>) -> bool {
        asked.may_be_in(self.families) && asked.description.covers(&self.description)
    }
}

/// A question about an attribute description, ready to be asked of many ids.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    description: &'a AttributeDescription,
    family: Families,
}

impl<'a> Asked<'a> {
    #[inline]
    pub(crate) fn new(description: &'a AttributeDescription) -> Self {
        Self { description, family: description.kind.family() }
    }

    /// Whether it may cover one of the attributes that these families are of; not, when it
    /// certainly covers none.
    #[inline]
    pub(crate) const fn may_be_in(&self, families: Families) -> bool {
        families & self.family != 0
    }
}

/// Whether the keys of names alone are those of DNs by this rule.
pub(crate) fn compares_names(rule: &MatchingRule) -> bool {
    // distinguishedNameMatch and uniqueMemberMatch.
    ["2.5.13.1", "2.5.13.23"].contains(&rule.oid)
}

const fn place_of(kind: IndexKind) -> usize {
    kind as usize
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

/// Whether nothing but its name is known of a type.
fn is_stand_in(kind: &AttributeType) -> bool {
    kind.oid == kind.name() || kind.oid == format!("{}-oid", kind.name())
}

const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::IndexConfig;

    fn dictionary(texts: &[&str]) -> Dictionary {
        with_indexes(&["equality name", "substring cn"], texts)
    }

    fn with_indexes(lines: &[&str], texts: &[&str]) -> Dictionary {
        let config = lines.iter().fold(IndexConfig::none(), |config, line| {
            config.and(IndexDefinition::parse(line).unwrap())
        });
        let rows = config.rows(&Schema::builtin()).unwrap();
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Dictionary::new(Schema::builtin(), &rows).unwrap().with_texts(&texts).unwrap()
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
    fn lookups_find_what_is_valid_of_its_sort() {
        let lines = [
            "equality createTimestamp",
            "equality cn",
            "extensible cn 2.5.13.5",
            "equality l with cn",
            "equality cn where (objectClass=person)",
            "equality sn with cn where (objectClass=person)",
            "substring cn",
        ];
        let mut rows = with_indexes(&lines, &[]).rows();
        rows[6].state = IndexState::Building { upto: schema::EntryId(7), end: schema::EntryId(9) };
        rows[6].id = 9;
        rows.push(IndexRow { id: 11, state: IndexState::Dropping, ..rows[6].clone() });
        let schema = Schema::builtin();
        let texts = ["cn".to_owned(), "createTimestamp".to_owned()];
        let dictionary = Dictionary::new(Arc::clone(&schema), &rows).unwrap();
        let dictionary = dictionary.with_texts(&texts).unwrap();
        let kind = |name: &str| Arc::clone(schema.attribute_type(name).unwrap());
        let id = |index: Option<&Index>| index.map(|index| index.id);
        let (cn, time, rule) = (kind("cn"), kind("createTimestamp"), MatchingRule::find);
        assert_eq!(id(dictionary.index(&time, IndexKind::Equality)), Some(0));
        assert_eq!(id(dictionary.index(&time, IndexKind::Ordering)), Some(0));
        assert_eq!(id(dictionary.index(&cn, IndexKind::Equality)), Some(1));
        assert_eq!(id(dictionary.index(&cn, IndexKind::Ordering)), None, "it has no such rule");
        assert_eq!(id(dictionary.index(&cn, IndexKind::Substring)), None, "it is not valid yet");
        assert_eq!(id(dictionary.index(&cn, IndexKind::Extensible)), None);
        assert_eq!(id(dictionary.extensible(&cn, rule("caseExactMatch").unwrap())), Some(2));
        assert_eq!(id(dictionary.extensible(&cn, rule("caseIgnoreMatch").unwrap())), None);
        let ids = |indexes: Vec<&Index>| indexes.iter().map(|index| index.id).collect::<Vec<_>>();
        assert_eq!(ids(dictionary.composites(&cn).collect()), [3]);
        assert_eq!(ids(dictionary.composites(&kind("l")).collect()), [3]);
        assert_eq!(ids(dictionary.filtered(&cn).collect()), [4, 5]);
        assert_eq!(ids(dictionary.indexes_of(0).collect()), [1, 2, 9]);
        assert_eq!(ids(dictionary.indexes_of_entries().collect()), [3, 4, 5]);
        assert_eq!(id(dictionary.index_with_id(9)), Some(9));
        assert_eq!(id(dictionary.index_with_id(8)), None);
        assert_eq!(dictionary.under(schema).unwrap().rows(), rows);
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
