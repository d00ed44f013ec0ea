//! Indexes: which there are, of what kinds, and which keys an entry has in each.
//!
//! An index belongs to one attribute type and holds the values of all its subtypes, under whatever
//! options; so a lookup by the type never misses one of them. A filter on a supertype that has no
//! index of its own is not looked up. A *composite* index holds pairs of values of two attributes,
//! a *filtered* one only entries that match its filter. Beside these there are always the lists of
//! the tree, [`LEVEL_LISTS`] and [`BRANCH_LISTS`], and those of who names whom, [`TARGET_LISTS`]
//! and [`SOURCE_LISTS`]: values that are in them are in no index but that of presence.
//!
//! Invariant: what the schema says of an index (attribute types, rules, its filter) is resolved
//! when the dictionary is made; `definition` is its canonical text.

pub(crate) mod build;
mod config;
mod definition;
pub(crate) mod ids;
mod keys;
pub(crate) mod posting;
pub(crate) mod status;

use std::fmt;
use std::sync::Arc;

use ldap::filter::Filter;
use schema::{
    APPROXIMATE_RULE, AttributeDescription, AttributeType, Compare, EntryId, MatchingRule,
    ResolvedFilter, RuleKind, Schema,
};

pub use self::config::IndexConfig;
pub use self::definition::{INDEX_DEFINITION_MAX_BYTES, IndexDefinition};
use self::definition::{check_length, invalid};
pub(crate) use self::keys::*;
use crate::error::StoreError;

/// The most indexes of one store.
pub const INDEX_COUNT_MAX: usize = 4096;

/// The number of the lists of entries one level below an entry; the key is its id.
pub(crate) const LEVEL_LISTS: u16 = 0xff00;
/// The number of the lists of those entries one level below an entry that have subordinates
/// themselves; the key is its id.
pub(crate) const BRANCH_LISTS: u16 = 0xff01;
/// The number of the lists of those entries that an attribute of an entry names, where they are
/// many; the key is made of the entry and the attribute, see `references.rs`.
pub(crate) const TARGET_LISTS: u16 = 0xff02;
/// The number of the lists of those entries that name an entry like this.
pub(crate) const SOURCE_LISTS: u16 = 0xff03;

/// What can be looked up in an index.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum IndexKind {
    /// Whether there is a value: one list for the attribute.
    Presence,
    /// Values by the equality rule; ranges, too, where the ordering rule orders the same keys.
    Equality,
    /// Ranges of values by the ordering rule, where it does not order the keys of the equality
    /// rule.
    Ordering,
    /// Pieces of values: every four octets in a row.
    Substring,
    /// Words of values by their sound.
    Approximate,
    /// Values by a rule that is not the attribute type's own.
    Extensible,
}

impl IndexKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Presence,
        Self::Equality,
        Self::Ordering,
        Self::Substring,
        Self::Approximate,
        Self::Extensible,
    ];

    /// The name in `meta` and in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Equality => "equality",
            Self::Ordering => "ordering",
            Self::Substring => "substring",
            Self::Approximate => "approximate",
            Self::Extensible => "extensible",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How far an index is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IndexState {
    /// Every entry is in it.
    #[default]
    Valid,
    /// It is being filled; plans do not use it yet.
    Building {
        /// Entries up to this one are in it,
        upto: EntryId,
        /// and from this one on, by their own writes.
        end: EntryId,
    },
    /// Its rows are being removed; nothing is written to it.
    Dropping,
}

impl IndexState {
    /// Whether changes of entries change it.
    pub(crate) const fn is_written(self) -> bool {
        matches!(self, Self::Valid | Self::Building { .. })
    }

    /// Whether this entry is in it, if it has a key.
    pub(crate) const fn holds(self, id: u64) -> bool {
        match self {
            Self::Valid => true,
            Self::Building { upto, end } => id <= upto.0 || id >= end.0,
            Self::Dropping => false,
        }
    }

    /// Reads what [`fmt::Display`] shows.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let id = |text: &str| text.parse().ok().map(EntryId);
        match words.as_slice() {
            ["building", upto, end] => Some(Self::Building { upto: id(upto)?, end: id(end)? }),
            ["dropping"] => Some(Self::Dropping),
            _ => None,
        }
    }
}

impl fmt::Display for IndexState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid => f.write_str("valid"),
            Self::Building { upto, end } => write!(f, "building {} {}", upto.0, end.0),
            Self::Dropping => f.write_str("dropping"),
        }
    }
}

/// An index as `meta` has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct IndexRow {
    /// The number in row keys; below [`LEVEL_LISTS`].
    pub(crate) id: u16,
    pub(crate) definition: IndexDefinition,
    pub(crate) state: IndexState,
}

/// An index of a store, resolved against the schema.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The number in row keys.
    pub(crate) id: u16,
    /// Canonical, see [`IndexDefinition::canonical`].
    pub(crate) definition: IndexDefinition,
    pub(crate) state: IndexState,
    pub(crate) kind: IndexKind,
    pub(crate) attribute: Arc<AttributeDescription>,
    /// How values become keys; presence needs none.
    pub(crate) rule: Option<&'static MatchingRule>,
    pub(crate) form: Form,
    /// The second attribute of a composite index.
    pub(crate) with: Option<With>,
    /// Of a filtered index.
    pub(crate) filter: Option<ResolvedFilter>,
}

/// How values become keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// One key for all.
    Presence,
    /// The prepared value, shortened when it is long.
    Whole,
    /// Each word of the prepared value, shortened likewise.
    Words,
    /// Pieces of the prepared value.
    Grams,
    /// The number of each bit that is set.
    Bits,
}

impl Form {
    /// The form of an index by this rule; none when its matches cannot be looked up.
    const fn of(rule: &MatchingRule) -> Option<Self> {
        match (rule.kind, rule.compare) {
            (RuleKind::Substring, _) => Some(Self::Grams),
            (RuleKind::Ordering, _) | (RuleKind::Equality, Compare::Key) => Some(Self::Whole),
            (RuleKind::Equality, Compare::Word | Compare::Words) => Some(Self::Words),
            (RuleKind::Equality, Compare::AllBits | Compare::AnyBits) => Some(Self::Bits),
            (RuleKind::Equality, Compare::Chain) => None,
        }
    }
}

/// The second attribute of a composite index.
#[derive(Clone, Debug)]
pub(crate) struct With {
    pub(crate) attribute: Arc<AttributeDescription>,
    pub(crate) rule: &'static MatchingRule,
}

impl Index {
    pub(crate) fn resolve(
        id: u16,
        definition: &IndexDefinition,
        state: IndexState,
        schema: &Schema,
    ) -> Result<Self, StoreError> {
        let refused = |reason: String| invalid(&definition.to_string(), reason);
        let attribute = stored_type(&definition.attribute, schema).map_err(refused)?;
        let named = match &definition.rule {
            Some(rule) => {
                let found = schema.matching_rule(rule);
                Some(found.ok_or_else(|| refused(format!("there is no rule '{rule}'")))?)
            }
            None => None,
        };
        let (kind, rule) = kind_and_rule(definition.kind, named, &attribute).map_err(refused)?;
        let form = match rule {
            Some(rule) => Form::of(rule)
                .ok_or_else(|| refused(format!("values are not looked up by {}", rule.name)))?,
            None => Form::Presence,
        };
        let with = match &definition.with {
            Some(with) => Some(second(with, schema).map_err(refused)?),
            None => None,
        };
        let (text, filter) = match &definition.filter {
            Some(text) => {
                let (text, filter) = condition(text, schema).map_err(refused)?;
                (Some(text), Some(filter))
            }
            None => (None, None),
        };
        let definition = IndexDefinition {
            kind,
            attribute: attribute.name().to_owned(),
            rule: rule.filter(|_| kind == IndexKind::Extensible).map(|rule| rule.oid.to_owned()),
            with: with.as_ref().map(|with| with.attribute.kind.name().to_owned()),
            filter: text,
        };
        check_length(&definition.to_string())?;
        let attribute = Arc::new(AttributeDescription::plain(attribute));
        Ok(Self { id, definition, state, kind, attribute, rule, form, with, filter })
    }

    /// Whether its keys are in the order of the attribute type's ordering rule.
    pub(crate) fn orders(&self) -> bool {
        match (self.attribute.kind.ordering, self.rule) {
            (Some(ordering), Some(rule)) => ordering == rule || orders_keys_of(ordering, rule),
            _ => false,
        }
    }

    /// Whether it answers what an index of this kind does: one of equality gives the order as well
    /// where its keys are in the order of the ordering rule.
    pub(crate) fn is_of_kind(&self, kind: IndexKind) -> bool {
        self.kind == kind
            || (kind == IndexKind::Ordering && self.kind == IndexKind::Equality && self.orders())
    }

    /// Whether values of this description have to do with the index.
    pub(crate) fn depends_on(&self, description: &AttributeDescription) -> bool {
        self.attribute.covers(description)
            || self.with.as_ref().is_some_and(|with| with.attribute.covers(description))
            || self.filter.as_ref().is_some_and(|filter| is_asked_by(filter, description))
    }

    /// The rules by which it was made, by OID, its filter's after its own: `-` for none. When a
    /// schema file gives a type another rule, the index does not fit any more.
    pub(crate) fn rules(&self) -> String {
        let with = self.with.as_ref().map(|with| with.rule);
        let mut oids: Vec<&str> = self.rule.into_iter().chain(with).map(|rule| rule.oid).collect();
        if let Some(filter) = &self.filter {
            each_rule(filter, &mut |rule| oids.push(rule.oid));
        }
        if oids.is_empty() { NO_RULE.to_owned() } else { oids.join(",") }
    }
}

const NO_RULE: &str = "-";

/// An attribute type that entries store. Those that are made up when an entry is read must not be
/// indexed: a lookup would find nothing.
fn stored_type(name: &str, schema: &Schema) -> Result<Arc<AttributeType>, String> {
    let found = schema.attribute_type(name);
    let found = found.ok_or_else(|| format!("there is no attribute type '{name}'"))?;
    match computed(schema).iter().any(|computed| computed.kind.oid == found.oid) {
        true => Err(format!("values of '{name}' are made when an entry is read")),
        false => Ok(Arc::clone(found)),
    }
}

fn computed(schema: &Schema) -> [&Arc<AttributeDescription>; 7] {
    let known = schema.well_known();
    [
        &known.entry_dn,
        &known.subschema_subentry,
        &known.has_subordinates,
        &known.num_subordinates,
        &known.etag,
        &known.governing_structure_rule,
        &known.collective_attribute_subentries,
    ]
}

/// The kind that does it with the least, and the rule that makes the keys.
fn kind_and_rule(
    kind: IndexKind,
    named: Option<&'static MatchingRule>,
    attribute: &AttributeType,
) -> Result<(IndexKind, Option<&'static MatchingRule>), String> {
    let lacks = |kind: IndexKind| format!("the attribute type has no {} rule", kind.name());
    let equality = attribute.equality.filter(|rule| rule.compare == Compare::Key);
    let approximate = || {
        let rule = MatchingRule::find(APPROXIMATE_RULE);
        rule.filter(|rule| rule.applies_to(attribute.syntax.oid))
    };
    match kind {
        IndexKind::Presence => Ok((kind, None)),
        IndexKind::Equality => match equality {
            Some(rule) => Ok((kind, Some(rule))),
            None => Err(lacks(kind)),
        },
        IndexKind::Ordering => match (attribute.ordering, equality) {
            (Some(ordering), Some(equality)) if orders_keys_of(ordering, equality) => {
                Ok((IndexKind::Equality, Some(equality)))
            }
            (Some(ordering), _) => Ok((kind, Some(ordering))),
            (None, _) => Err(lacks(kind)),
        },
        IndexKind::Substring => match attribute.substring {
            Some(rule) => Ok((kind, Some(rule))),
            None => Err(lacks(kind)),
        },
        // What is no text is compared by its equality rule.
        IndexKind::Approximate => match (approximate(), equality) {
            (Some(rule), _) => Ok((kind, Some(rule))),
            (None, Some(rule)) => Ok((IndexKind::Equality, Some(rule))),
            (None, None) => Err(lacks(kind)),
        },
        IndexKind::Extensible => {
            let rule = named.ok_or_else(|| "it needs a matching rule".to_owned())?;
            let is_own = |own: Option<&MatchingRule>| own == Some(rule);
            if is_own(equality) {
                kind_and_rule(IndexKind::Equality, None, attribute)
            } else if is_own(attribute.ordering) {
                kind_and_rule(IndexKind::Ordering, None, attribute)
            } else if is_own(attribute.substring) {
                kind_and_rule(IndexKind::Substring, None, attribute)
            } else if is_own(approximate()) {
                kind_and_rule(IndexKind::Approximate, None, attribute)
            } else if rule.applies_to(attribute.syntax.oid) || is_own(attribute.equality) {
                Ok((kind, Some(rule)))
            } else {
                Err(format!("{} does not apply to the attribute type", rule.name))
            }
        }
    }
}

/// The second attribute of a composite index.
fn second(name: &str, schema: &Schema) -> Result<With, String> {
    let found = stored_type(name, schema)?;
    let rule = found.equality.filter(|rule| rule.compare == Compare::Key);
    let rule = rule.ok_or_else(|| format!("'{name}' has no equality rule"))?;
    Ok(With { attribute: Arc::new(AttributeDescription::plain(found)), rule })
}

/// The filter of a filtered index. It is asked of the record alone, so it must not ask for what is
/// made when an entry is read, its name included.
fn condition(text: &str, schema: &Schema) -> Result<(String, ResolvedFilter), String> {
    let parsed = Filter::parse(text).map_err(|error| format!("its filter: {error}"))?;
    let filter = ResolvedFilter::resolve(&parsed, schema);
    let mut reason = None;
    each_item(&filter, &mut |item| {
        let found = match item {
            ResolvedFilter::Undefined => Some("has a part that the schema cannot answer"),
            ResolvedFilter::Extensible(asked) if asked.dn_attributes => Some("asks for the name"),
            ResolvedFilter::Extensible(asked) if asked.rule.compare == Compare::Chain => {
                Some("asks for other entries")
            }
            _ => None,
        };
        reason = reason.or(found);
    });
    if computed(schema).iter().any(|computed| is_asked_by(&filter, computed)) {
        reason = reason.or(Some("asks for values that are made when an entry is read"));
    }
    match reason {
        Some(reason) => Err(format!("its filter {reason}")),
        None => Ok((parsed.to_string(), filter)),
    }
}

/// Visits the items of a filter; recurses as deep as it is, which parsing limits.
fn each_item(filter: &ResolvedFilter, visit: &mut dyn FnMut(&ResolvedFilter)) {
    match filter {
        ResolvedFilter::And(filters) | ResolvedFilter::Or(filters) => {
            filters.iter().for_each(|filter| each_item(filter, visit));
        }
        ResolvedFilter::Not(filter) => each_item(filter, visit),
        item => visit(item),
    }
}

fn each_rule(filter: &ResolvedFilter, visit: &mut dyn FnMut(&'static MatchingRule)) {
    each_item(filter, &mut |item| match item {
        ResolvedFilter::Equality(assertion)
        | ResolvedFilter::GreaterOrEqual(assertion)
        | ResolvedFilter::LessOrEqual(assertion)
        | ResolvedFilter::Approx(assertion) => visit(assertion.rule),
        ResolvedFilter::Substrings(assertion) => visit(assertion.rule),
        ResolvedFilter::Extensible(assertion) => visit(assertion.rule),
        ResolvedFilter::And(_)
        | ResolvedFilter::Or(_)
        | ResolvedFilter::Not(_)
        | ResolvedFilter::Present(_)
        | ResolvedFilter::Undefined => {}
    });
}

/// Whether values of this description have to do with the filter.
fn is_asked_by(filter: &ResolvedFilter, description: &AttributeDescription) -> bool {
    let mut is_asked = false;
    each_item(filter, &mut |item| {
        is_asked |= match item {
            // A rule without an attribute asks all whose syntax it applies to.
            ResolvedFilter::Extensible(assertion) => match &assertion.description {
                Some(asked) => asked.covers(description),
                None => assertion.rule.applies_to(description.kind.syntax.oid),
            },
            _ => false,
        };
    });
    filter.visit_descriptions(&mut |asked| is_asked |= asked.covers(description));
    is_asked
}

/// Whether an ordering rule orders the keys of an equality rule, so that a range of values is a
/// range of keys. Both must prepare values alike; a test compares them.
pub(crate) fn orders_keys_of(ordering: &MatchingRule, equality: &MatchingRule) -> bool {
    ordering.kind == RuleKind::Ordering && RANGE_RULES.contains(&(equality.name, ordering.name))
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
mod tests;
