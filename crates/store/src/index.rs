//! Indexes: which there are, and which keys a value has in each.
//!
//! An index belongs to one attribute type and holds the values of all its subtypes, under whatever
//! options; so a lookup by the type never misses one of them. A filter on a supertype that has no
//! index of its own is not looked up.
//!
//! Invariant: the keys of a value depend on the value, the index and its matching rule alone.

use std::sync::Arc;

use schema::{AttributeDescription, Compare, MatchingRule, Schema};

use crate::error::StoreError;
use crate::key::shorten;

/// The most indexes of one store.
pub const INDEX_COUNT_MAX: usize = 4096;

/// What can be looked up in an index.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum IndexKind {
    /// Whether there is a value: one list for the attribute.
    Presence,
    /// Values by the equality rule; ranges, too, where the ordering rule orders the same keys.
    Equality,
    /// Pieces of values: every three octets in a row.
    Substring,
}

impl IndexKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Presence, Self::Equality, Self::Substring];

    /// The name in `meta` and in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Equality => "equality",
            Self::Substring => "substring",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Which attribute types are indexed, and how.
///
/// Attributes that are not stored but made up when an entry is read (`entryDN`,
/// `hasSubordinates`, …) must not be indexed: a lookup would find nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IndexConfig {
    rows: Vec<(String, IndexKind)>,
}

impl IndexConfig {
    /// No index.
    #[must_use]
    pub const fn none() -> Self {
        Self { rows: Vec::new() }
    }

    /// Adds indexes for an attribute type, given by name or OID.
    #[must_use]
    pub fn with(mut self, attribute: &str, kinds: &[IndexKind]) -> Self {
        for &kind in kinds {
            let row = (attribute.to_owned(), kind);
            if !self.rows.contains(&row) {
                self.rows.push(row);
            }
        }
        self
    }

    /// Attribute type and kind of each index.
    pub fn rows(&self) -> impl Iterator<Item = (&str, IndexKind)> {
        self.rows.iter().map(|(attribute, kind)| (attribute.as_str(), *kind))
    }
}

impl Default for IndexConfig {
    fn default() -> Self {
        use IndexKind::{Equality, Presence, Substring};
        let mut config = Self::none().with("ref", &[Presence, Equality]);
        for attribute in DEFAULT_EQUALITY {
            config = config.with(attribute, &[Equality]);
        }
        for attribute in DEFAULT_SUBSTRING {
            config = config.with(attribute, &[Substring]);
        }
        config
    }
}

const DEFAULT_EQUALITY: [&str; 19] = [
    "objectClass",
    "entryUUID",
    "uid",
    "cn",
    "sn",
    "givenName",
    "mail",
    "telephoneNumber",
    "l",
    "title",
    "member",
    "uniqueMember",
    "memberUid",
    "uidNumber",
    "gidNumber",
    "ou",
    "o",
    "dc",
    "employeeNumber",
];
const DEFAULT_SUBSTRING: [&str; 8] =
    ["uid", "cn", "sn", "givenName", "mail", "telephoneNumber", "l", "title"];

/// An index of a store, its attribute type resolved against the schema.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The number in row keys.
    pub(crate) id: u16,
    pub(crate) kind: IndexKind,
    pub(crate) attribute: Arc<AttributeDescription>,
    /// How values become keys; presence needs none.
    pub(crate) rule: Option<&'static MatchingRule>,
}

impl Index {
    pub(crate) fn resolve(
        id: u16,
        attribute: &str,
        kind: IndexKind,
        schema: &Schema,
    ) -> Result<Self, StoreError> {
        let refused = |reason: String| StoreError::Invalid {
            what: "index",
            text: format!("{} {attribute}", kind.name()),
            reason,
        };
        let Some(found) = schema.attribute_type(attribute) else {
            return Err(refused("there is no such attribute type".to_owned()));
        };
        let rule = match kind {
            IndexKind::Presence => None,
            IndexKind::Equality => found.equality,
            IndexKind::Substring => found.substring,
        };
        let is_usable = match kind {
            IndexKind::Presence => true,
            IndexKind::Equality => rule.is_some_and(|rule| rule.compare == Compare::Key),
            IndexKind::Substring => rule.is_some(),
        };
        if !is_usable {
            return Err(refused(format!("the attribute type has no {} rule", kind.name())));
        }
        let attribute = Arc::new(AttributeDescription::plain(Arc::clone(found)));
        Ok(Self { id, kind, attribute, rule })
    }

    /// Calls `emit` with each key of `value`; a key may come more than once. What the rule cannot
    /// prepare matches nothing, so it has none.
    pub(crate) fn keys(
        &self,
        schema: &Schema,
        value: &[u8],
        scratch: &mut Vec<u8>,
        mut emit: impl FnMut(&[u8]),
    ) {
        let Some(rule) = self.rule else { return emit(&[]) };
        scratch.clear();
        match self.kind {
            IndexKind::Presence => {}
            IndexKind::Equality => {
                if (rule.prepare)(schema, value, scratch).is_ok() {
                    shorten(scratch);
                    emit(scratch);
                }
            }
            IndexKind::Substring => {
                scratch.push(GRAM_BEGIN);
                if (rule.prepare)(schema, value, scratch).is_ok() {
                    scratch.push(GRAM_END);
                    scratch.windows(GRAM_BYTES).for_each(emit);
                }
            }
        }
    }
}

/// The octets of one key of a substring index.
pub(crate) const GRAM_BYTES: usize = 3;
/// Stands before the first octet of a value. Prepared texts hold no control characters; where a
/// value of another syntax holds it, there are more candidates and none is missed.
pub(crate) const GRAM_BEGIN: u8 = 2;
/// Stands after the last octet of a value.
pub(crate) const GRAM_END: u8 = 3;

/// Whether an ordering rule orders the keys of an equality rule, so that a range of values is a
/// range of keys. Both must prepare values alike; a test compares them.
pub(crate) fn orders_keys_of(ordering: &MatchingRule, equality: &MatchingRule) -> bool {
    RANGE_RULES.contains(&(equality.name, ordering.name))
}

const RANGE_RULES: [(&str, &str); 8] = [
    ("caseIgnoreMatch", "caseIgnoreOrderingMatch"),
    ("caseExactMatch", "caseExactOrderingMatch"),
    ("numericStringMatch", "numericStringOrderingMatch"),
    ("integerMatch", "integerOrderingMatch"),
    ("octetStringMatch", "octetStringOrderingMatch"),
    ("generalizedTimeMatch", "generalizedTimeOrderingMatch"),
    ("UUIDMatch", "UUIDOrderingMatch"),
    ("CSNMatch", "CSNOrderingMatch"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_range_prepare_alike() {
        let schema = Schema::builtin();
        let values = [
            "Hello  World",
            " \u{e9}t\u{e9} ",
            "0042",
            "-7",
            "1234567890",
            "20240229120000Z",
            "20240229120000.5+0100",
            "597ae2f6-16a6-1027-98f4-d28b5365dc14",
            "20240229120000.000000Z#000001#000#000000",
            "",
        ];
        for (equality, ordering) in RANGE_RULES {
            let find = |name| MatchingRule::find(name).unwrap();
            let (equality, ordering) = (find(equality), find(ordering));
            let mut prepared = 0;
            for value in values {
                let key = |rule: &MatchingRule| {
                    let mut key = Vec::new();
                    (rule.prepare)(&schema, value.as_bytes(), &mut key).ok().map(|()| key)
                };
                assert_eq!(key(equality), key(ordering), "{equality:?} {value:?}");
                prepared += usize::from(key(equality).is_some());
            }
            assert!(prepared > 0, "{equality:?}");
        }
    }

    #[test]
    fn the_default_indexes_fit_the_schema() {
        let schema = Schema::builtin();
        for (attribute, kind) in IndexConfig::default().rows() {
            Index::resolve(1, attribute, kind, &schema).unwrap();
        }
    }

    #[track_caller]
    fn check_keys(attribute: &str, kind: IndexKind, value: &str, want: &[&str]) {
        let schema = Schema::builtin();
        let index = Index::resolve(1, attribute, kind, &schema).unwrap();
        let mut keys = Vec::new();
        index.keys(&schema, value.as_bytes(), &mut Vec::new(), |key| {
            keys.push(String::from_utf8_lossy(key).replace('\u{2}', "^").replace('\u{3}', "$"));
        });
        assert_eq!(keys, want);
    }

    #[test]
    fn values_have_these_keys() {
        use IndexKind::{Equality, Presence, Substring};
        check_keys("cn", Presence, "Anna", &[""]);
        check_keys("cn", Equality, " Anna  Lee ", &["anna lee"]);
        check_keys("uidNumber", Equality, "no number", &[]);
        check_keys("telephoneNumber", Substring, "+1 23", &["^+1", "+12", "123", "23$"]);
        check_keys("cn", Substring, "Ab", &["^ a", " ab", "ab ", "b $"]);
    }
}
