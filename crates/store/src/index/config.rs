//! Which indexes a new store is to have, and which it has if nobody says.

use schema::Schema;

use super::{INDEX_COUNT_MAX, Index, IndexDefinition, IndexKind, IndexRow, IndexState};
use crate::error::StoreError;

/// Which attribute types are indexed, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IndexConfig {
    definitions: Vec<IndexDefinition>,
}

impl IndexConfig {
    /// No index.
    #[must_use]
    pub const fn none() -> Self {
        Self { definitions: Vec::new() }
    }

    /// Adds indexes for an attribute type, given by name or OID.
    #[must_use]
    pub fn with(self, attribute: &str, kinds: &[IndexKind]) -> Self {
        kinds.iter().fold(self, |config, &kind| config.and(IndexDefinition::new(kind, attribute)))
    }

    /// Adds an index.
    #[must_use]
    pub fn and(mut self, definition: IndexDefinition) -> Self {
        if !self.definitions.contains(&definition) {
            self.definitions.push(definition);
        }
        self
    }

    /// The definitions, in the order they were added.
    #[must_use]
    pub fn definitions(&self) -> &[IndexDefinition] {
        &self.definitions
    }

    /// The rows of a new store. Definitions that come to the same under this schema make one.
    pub(crate) fn rows(&self, schema: &Schema) -> Result<Vec<IndexRow>, StoreError> {
        let mut rows: Vec<IndexRow> = Vec::with_capacity(self.definitions.len());
        for definition in &self.definitions {
            let definition = definition.canonical(schema)?;
            if rows.iter().any(|row| row.definition == definition) {
                continue;
            }
            if rows.len() >= INDEX_COUNT_MAX {
                return Err(StoreError::TooMany { what: "indexes", limit: INDEX_COUNT_MAX });
            }
            let id = rows.len() as u16;
            rows.push(IndexRow { id, definition, state: IndexState::Valid });
        }
        Ok(rows)
    }
}

impl IndexDefinition {
    /// This index with the names that the schema has for its parts. What another kind of index
    /// does as well becomes that kind: an ordering rule that orders the keys of the equality rule
    /// needs no index of its own, nor does an extensible index of the type's own equality rule.
    ///
    /// # Errors
    /// When the schema lacks an attribute type or a rule, or no index can be made of it.
    pub fn canonical(&self, schema: &Schema) -> Result<Self, StoreError> {
        Index::resolve(0, self, IndexState::Valid, schema).map(|index| index.definition)
    }
}

impl Default for IndexConfig {
    /// For directories of people and groups, see `docs/indexes.md`, which has what each costs. An
    /// index of an attribute that an entry does not have costs that entry nothing. What can be
    /// looked up by its value is listed as well: programs that copy a directory, and gateways that
    /// enumerate accounts, ask for `(uid=*)`. Such a list is a few runs of ids, next to nothing.
    fn default() -> Self {
        use IndexKind::{Equality, Presence, Substring};
        let kinds = [
            (Presence, DEFAULT_PRESENCE),
            (Presence, DEFAULT_EQUALITY),
            (Equality, OF_EVERY_ENTRY),
            (Equality, DEFAULT_EQUALITY),
            (Substring, DEFAULT_SUBSTRING),
        ];
        kinds.into_iter().fold(Self::none(), |config, (kind, attributes)| {
            attributes.iter().fold(config, |config, attribute| config.with(attribute, &[kind]))
        })
    }
}

/// What tells a start which entries have access rules.
const DEFAULT_PRESENCE: &[&str] = &["aci"];

/// By value and by presence; that of `ref` tells every search whether there are referrals at all.
const DEFAULT_EQUALITY: &[&str] = &[
    // What finds an entry: logins, renumbering, other directories' keys.
    "uid",
    "mail",
    "employeeNumber",
    "uidNumber",
    "gidNumber",
    "ref",
    // What people look for.
    "cn",
    "sn",
    "givenName",
    "displayName",
    "telephoneNumber",
    "l",
    "title",
    "ou",
    "o",
    "dc",
    // Whose group, whose manager: asked at each login, and by whoever deletes an entry.
    "member",
    "uniqueMember",
    "memberUid",
    "manager",
    "owner",
    "seeAlso",
];

/// What every entry has, so that a list of those that do tells nothing. The times are what programs
/// ask for that copy the directory bit by bit.
const OF_EVERY_ENTRY: &[&str] = &["objectClass", "entryUUID", "createTimestamp", "modifyTimestamp"];

/// What address books search as one types.
const DEFAULT_SUBSTRING: &[&str] =
    &["uid", "cn", "sn", "givenName", "displayName", "mail", "telephoneNumber", "l", "title"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_indexes_fit_the_schema() {
        let schema = Schema::builtin();
        let config = IndexConfig::default();
        let rows = config.rows(&schema).unwrap();
        let kept: Vec<_> = rows.iter().map(|row| &row.definition).collect();
        assert_eq!(kept, config.definitions().iter().collect::<Vec<_>>(), "none comes twice");
    }

    #[test]
    fn definitions_that_come_to_the_same_make_one_index() {
        let lines = [
            "equality commonName",
            "ordering createTimestamp",
            "equality createTimestamp",
            "extensible 2.5.4.3 caseIgnoreMatch",
            "extensible cn caseExactMatch",
            "extensible cn caseIgnoreSubstringsMatch",
            "approximate cn",
            "extensible cn 1.3.6.1.4.1.4203.666.4.4",
            "equality L with TITLE where (objectclass=person)",
        ];
        let config = lines.iter().fold(IndexConfig::none(), |config, line| {
            config.and(IndexDefinition::parse(line).unwrap())
        });
        let rows = config.rows(&Schema::builtin()).unwrap();
        let shown: Vec<_> = rows.iter().map(|row| row.definition.to_string()).collect();
        assert_eq!(
            shown,
            [
                "equality cn",
                "equality createTimestamp",
                "extensible cn 2.5.13.5",
                "substring cn",
                "approximate cn",
                "equality l with title where (objectclass=person)",
            ]
        );
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
