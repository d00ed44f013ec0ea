//! What gives an attribute to which entries.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use schema::{Assertion, AttributeDescription, DnKey, EntryRead, MatchingRule, Schema};

use crate::lines::place::Place;
use crate::read::subtree::Subtree;

/// One definition.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The attribute that is given.
    pub(crate) description: Arc<AttributeDescription>,
    pub(crate) source: Source,
    /// What becomes of the values that an entry stores.
    pub(crate) beside: Beside,
    /// The values of others with the same attribute are given, too.
    pub(crate) merges: bool,
    /// It is sent to those alone who name it.
    pub(crate) named_only: bool,
    pub(crate) area: Area,
    /// The subentry that it is of, if it is a collective one.
    pub(crate) subentry: Option<Arc<str>>,
}

/// Where the values come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// These.
    Constant(Constant),
    /// An attribute of the superior of the entry.
    Superior(Arc<AttributeDescription>),
    /// An attribute of the entries that another attribute names.
    Referenced { of: Arc<AttributeDescription>, by: Arc<AttributeDescription> },
    /// Text with first values of the entry in it.
    Text(Vec<Part>),
    /// The attribute itself, of this template.
    Template(DnKey),
    /// The attribute itself, of the templates below this one which are named as values of an
    /// attribute of the entry.
    Named { below: DnKey, by: Arc<AttributeDescription> },
}

/// Values that are always the same.
#[derive(Debug)]
pub(crate) struct Constant {
    pub(crate) values: Vec<Vec<u8>>,
    /// Their keys by the equality rule of the type; none where a value has none.
    keys: Option<(&'static MatchingRule, FxHashSet<Vec<u8>>)>,
}

impl Constant {
    /// The first of these values, as many as may be given.
    pub(crate) fn new(
        description: &AttributeDescription,
        values: impl IntoIterator<Item = Vec<u8>>,
        schema: &Schema,
    ) -> Self {
        let mut bytes = 0;
        let mut is_few = |value: &Vec<u8>| {
            bytes += value.len();
            bytes <= VALUES_MAX_BYTES
        };
        let values: Vec<_> = values.into_iter().take_while(&mut is_few).take(VALUES_MAX).collect();
        let keys = description.kind.equality.and_then(|rule| {
            let key = |value: &Vec<u8>| {
                let mut key = Vec::new();
                (rule.prepare)(schema, value, &mut key).ok().map(|()| key)
            };
            Some((rule, values.iter().map(key).collect::<Option<_>>()?))
        });
        Self { values, keys }
    }

    /// Whether one of them may be the value of an assertion.
    pub(crate) fn may_be(&self, assertion: &Assertion) -> bool {
        match &self.keys {
            Some((rule, keys)) if *rule == assertion.rule => keys.contains(&assertion.key),
            Some(_) | None => true,
        }
    }
}

/// A part of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    /// As it is.
    Literal(String),
    /// The first value of an attribute.
    Value(Arc<AttributeDescription>),
}

/// What becomes of values that an entry stores where some are given to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Beside {
    /// They stay, and nothing is given.
    Stored,
    /// They are not seen.
    Given,
    /// Both are seen.
    Both,
}

/// Which entries it is about.
#[derive(Debug)]
pub(crate) enum Area {
    /// As a line says it.
    Place(Place),
    /// A subtree specification.
    Subtree(Arc<Subtree>),
    /// All at and below an entry.
    Below(DnKey),
}

impl Area {
    /// Whether it has other entries when one gets another name.
    pub(crate) fn is_of_rename(&self, old: &DnKey, new: &DnKey) -> bool {
        let is_named = |name: &DnKey| name.is_within(old) || name.is_within(new);
        match self {
            Self::Place(place) => place.below.as_ref().is_some_and(is_named),
            Self::Subtree(subtree) => subtree.is_of_rename(old, new),
            Self::Below(base) => is_named(base),
        }
    }

    /// Whether it has the entry of this name.
    pub(crate) fn covers(&self, entry: &dyn EntryRead, key: &DnKey, schema: &Schema) -> bool {
        match self {
            Self::Place(place) => place.holds_at(key) && place.holds_for(schema, entry),
            Self::Subtree(subtree) => subtree.covers(entry, key, schema),
            Self::Below(base) => key.is_within(base),
        }
    }
}

impl Definition {
    /// What keeps an attribute from being given: the server would act on other values than are
    /// seen, or they are secret.
    pub(crate) fn refusal(description: &AttributeDescription) -> Option<&'static str> {
        let kind = &description.kind;
        if kind.is_secret() || description.is_password() {
            Some("it is secret")
        } else if kind.is_operational() || kind.is_named(OBJECT_CLASS) {
            Some("the server acts on what is stored of it")
        } else if !description.options().is_empty() {
            Some("it has options")
        } else {
            None
        }
    }
}

/// The most definitions that are in force.
pub(crate) const DEFINITIONS_MAX: usize = 256;
/// Values that are given of one attribute, at the most, and octets of them.
pub(crate) const VALUES_MAX: usize = 256;
pub(crate) const VALUES_MAX_BYTES: usize = 64 << 10;
const OBJECT_CLASS: &str = "objectClass";
