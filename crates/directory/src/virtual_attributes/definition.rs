//! What gives an attribute to which entries.

use std::sync::Arc;

use schema::{AttributeDescription, DnKey, EntryRead, Schema};

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
    pub(crate) area: Area,
    /// The subentry that it is of, if it is a collective one.
    pub(crate) subentry: Option<Arc<str>>,
}

/// Where the values come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// These.
    Constant(Vec<Vec<u8>>),
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
    Subtree(Subtree),
    /// All at and below an entry.
    Below(DnKey),
}

impl Area {
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
pub(crate) const DEFINITIONS_MAX: usize = 1_000;
const OBJECT_CLASS: &str = "objectClass";
