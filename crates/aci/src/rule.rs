//! One access control instruction (ACI), read and resolved: what it is about, whom it is for, and
//! what it allows or denies.
//!
//! Invariants: every name is a key, every filter is resolved, every address is a number; nothing
//! is parsed when a question is asked, but what macros make. An ACI does not know its holder, so
//! one that is renamed needs no reading of its ACIs.

pub(crate) mod network;
pub(crate) mod pattern;
mod right;
pub(crate) mod template;

use std::fmt;
use std::sync::Arc;

use ldap::message::Scope;
use schema::{Assertion, AttributeDescription, DnKey, ResolvedFilter, Schema, Truth};

use self::network::{AddressRange, HostPattern};
use self::pattern::DnPattern;
pub use self::right::Right;
pub(crate) use self::right::Rights;
use crate::text::{self, AciError, AciReason};

/// An access control instruction. Two are equal when they say the same, however it was written.
#[derive(Clone, Debug)]
pub struct Aci {
    pub(crate) name: String,
    pub(crate) targets: Targets,
    pub(crate) statements: Vec<Statement>,
    pub(crate) text: String,
    pub(crate) unknown: Vec<String>,
    pub(crate) unanswered: Vec<String>,
}

impl Aci {
    /// Reads an ACI and resolves what it names.
    ///
    /// # Errors
    /// The column, in characters from 1, and what is wrong there.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, AciError> {
        text::parse(text, schema)
    }

    /// Stands for a stored value that cannot be read: it denies everything to everybody, since
    /// nobody knows what it was to deny.
    pub fn unreadable(text: &str) -> Self {
        let attributes =
            AttributeList { user: true, operational: true, ..AttributeList::default() };
        Self {
            name: "unreadable".to_owned(),
            targets: Targets::Entries(Box::new(EntryTargets {
                attributes: Some(attributes),
                ..EntryTargets::default()
            })),
            statements: vec![Statement {
                allows: false,
                rights: Rights::EVERY,
                rule: Bind::Is(Arc::new(Condition {
                    negated: false,
                    test: Test::User(vec![Subject::Anyone]),
                })),
            }],
            text: text.to_owned(),
            unknown: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    /// What its author calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The attributes it names that the schema does not have. Where one is asked about, the answer
    /// is not known: it grants nothing, and a deny denies.
    pub fn unknown_names(&self) -> &[String] {
        &self.unknown
    }

    /// The terms of its filters to which the schema has no answer, although it has their
    /// attributes: the value is not of the syntax, or there is no such rule. They grant nothing,
    /// and a deny denies.
    pub fn unanswered_terms(&self) -> &[String] {
        &self.unanswered
    }

    /// Whether it has `targattrfilters` beside `targetattr`. Here the filters replace the list
    /// where values are added or deleted; other servers want both to fit.
    pub fn has_filters_beside_attributes(&self) -> bool {
        self.targets
            .entries()
            .is_some_and(|targets| targets.values.is_some() && targets.attributes.is_some())
    }

    /// Whether it can make a difference to a right to an attribute.
    pub(crate) fn is_about(&self, right: Right, attribute: &AttributeDescription) -> bool {
        let Some(targets) = self.targets.entries() else { return false };
        self.statements.iter().filter(|statement| statement.rights.has(right)).any(|statement| {
            targets.attributes.as_ref().is_some_and(|list| {
                list.covers(attribute, statement.allows) || list.overlaps(attribute)
            })
        })
    }

    /// Whether it can make a difference to a right to entries as a whole.
    pub(crate) fn is_about_entries(&self, right: Right) -> bool {
        self.targets.entries().is_some()
            && self.statements.iter().any(|statement| statement.rights.has(right))
    }

    /// Whether the target means nothing at or below the entry that holds the ACI.
    pub(crate) fn is_outside(&self, holder: &DnKey) -> bool {
        let target = self.targets.entries().and_then(|targets| targets.name.as_ref());
        let Some(target) = target.filter(|target| !target.negated) else { return false };
        match target.pattern.exact() {
            Some(name) => !name.is_within(holder),
            None => {
                let above = target.pattern.superior();
                !above.is_within(holder) && !holder.is_within(&above)
            }
        }
    }

    /// What it denies, of all entries; none when it only allows.
    pub(crate) fn without_target(&self) -> Option<Self> {
        let mut whole = self.clone();
        whole.statements.retain(|statement| !statement.allows);
        if let Targets::Entries(targets) = &mut whole.targets {
            (targets.name, targets.scope) = (None, TargetScope::default());
        }
        (!whole.statements.is_empty()).then_some(whole)
    }

    /// Whether the target means other entries when one gets another name: it names that entry, one
    /// below it, or what it is to be.
    pub(crate) fn is_of_rename(&self, old: &DnKey, new: &DnKey, schema: &Schema) -> bool {
        let target = self.targets.entries().and_then(|targets| targets.name.as_ref());
        let Some(NameTarget { pattern, .. }) = target else { return false };
        let above = pattern.superior();
        above.is_within(old) || above.is_within(new) || pattern.tells_apart(old, new, schema)
    }

    /// Checks that the target lies within the entry that holds the ACI.
    ///
    /// # Errors
    /// [`AciReason::TargetOutside`] otherwise: such an ACI would never apply.
    pub fn check_holder(&self, holder: &DnKey) -> Result<(), AciError> {
        match self.targets.exact_name() {
            Some(name) if !name.is_within(holder) => {
                Err(AciError { column: 1, reason: AciReason::TargetOutside })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl PartialEq for Aci {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.targets == other.targets
            && self.statements == other.statements
    }
}

impl Eq for Aci {}

impl fmt::Display for Aci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(self, f)
    }
}

/// What an ACI is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Targets {
    /// Entries and what is in them.
    Entries(Box<EntryTargets>),
    /// Controls and extended operations.
    Requests(RequestTargets),
}

impl Targets {
    pub(crate) fn entries(&self) -> Option<&EntryTargets> {
        match self {
            Self::Entries(targets) => Some(targets),
            Self::Requests(_) => None,
        }
    }

    /// The one entry that `target` names, if it names one.
    pub(crate) fn exact_name(&self) -> Option<&DnKey> {
        let target = self.entries()?.name.as_ref().filter(|target| !target.negated)?;
        target.pattern.exact()
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct EntryTargets {
    pub(crate) name: Option<NameTarget>,
    pub(crate) scope: TargetScope,
    /// Without it, no attribute is meant.
    pub(crate) attributes: Option<AttributeList>,
    pub(crate) filter: Option<FilterTarget>,
    pub(crate) values: Option<ValueFilters>,
}

impl EntryTargets {
    /// Whether a statement is about the entry itself as far as rights to attributes go: it names no
    /// attributes, or takes all of them.
    pub(crate) fn is_of_whole_entry(&self, allows: bool) -> bool {
        let takes_all = || !allows && self.attributes.as_ref().is_some_and(AttributeList::is_all);
        self.values.is_none() && (self.attributes.is_none() || takes_all())
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NameTarget {
    pub(crate) negated: bool,
    pub(crate) pattern: DnPattern,
}

/// How far below the entry that `target` names, or that holds the ACI, it reaches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum TargetScope {
    Base,
    OneLevel,
    #[default]
    Subtree,
    Subordinate,
}

impl TargetScope {
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::Base, "base"),
        (Self::OneLevel, "onelevel"),
        (Self::Subtree, "subtree"),
        (Self::Subordinate, "subordinate"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(scope, _)| *scope == self).map_or("", |(_, name)| name)
    }
}

/// A list of attributes, or all but those of a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct AttributeList {
    pub(crate) negated: bool,
    /// `*`
    pub(crate) user: bool,
    /// `+`
    pub(crate) operational: bool,
    pub(crate) names: Vec<AttributeName>,
    /// `#secret`: what the schema knows to be secret, resolved.
    pub(crate) secret: Option<Vec<Arc<AttributeDescription>>>,
}

/// An attribute by name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum AttributeName {
    Known(Arc<AttributeDescription>),
    /// The schema has no such type.
    Unknown(String),
}

impl AttributeName {
    pub(crate) fn known(&self) -> Option<&Arc<AttributeDescription>> {
        match self {
            Self::Known(description) => Some(description),
            Self::Unknown(_) => None,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Known(description) => description.text(),
            Self::Unknown(name) => name,
        }
    }
}

impl AttributeList {
    /// What it names, one by one or as secret.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Arc<AttributeDescription>> {
        let named = self.names.iter().filter_map(AttributeName::known);
        named.chain(self.secret.iter().flatten())
    }

    /// Whether the attribute is meant. A name means the type with at least its options; types
    /// derived from it are meant too where that leaves less access.
    pub(crate) fn covers(&self, asked: &AttributeDescription, allows: bool) -> bool {
        let with_subtypes = self.negated == allows;
        let is_named = self
            .known()
            .any(|name| name.covers(asked) && (with_subtypes || name.kind == asked.kind));
        let operational = asked.is_operational();
        let of_kind = if operational { self.operational } else { self.user };
        if self.negated {
            self.excepts_from(operational) && !of_kind && !is_named
        } else {
            of_kind || is_named
        }
    }

    /// Whether it names some of what asking for this gets: where one type is derived from the
    /// other, both mean the derived one with the options of both.
    fn overlaps(&self, asked: &AttributeDescription) -> bool {
        self.known().any(|name| {
            name.kind.is_subtype_of(&asked.kind) || asked.kind.is_subtype_of(&name.kind)
        })
    }

    /// Whether there is no attribute that is not meant.
    pub(crate) fn is_all(&self) -> bool {
        self.user && self.operational && !self.negated
    }

    /// Whether the list of a `!=` is about this kind of attributes: user or operational ones.
    fn excepts_from(&self, operational: bool) -> bool {
        let is_of_kind = |name: &AttributeName| match name {
            AttributeName::Known(name) => name.is_operational() == operational,
            AttributeName::Unknown(_) => !operational,
        };
        let all = if operational { self.operational } else { self.user };
        // There are secrets of both kinds.
        all || self.secret.is_some() || self.names.iter().any(is_of_kind)
    }

    /// What it says of an attribute that no list names.
    pub(crate) fn covers_unnamed(&self, operational: bool) -> bool {
        let of_kind = if operational { self.operational } else { self.user };
        if self.negated { self.excepts_from(operational) && !of_kind } else { of_kind }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct FilterTarget {
    pub(crate) negated: bool,
    pub(crate) filter: FilterText,
    /// The filter has macros: it is made for each entry.
    pub(crate) has_macro: bool,
}

/// A filter, and how it was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct FilterText {
    pub(crate) text: String,
    pub(crate) filter: ResolvedFilter,
}

/// `targattrfilters`: which values may be added and deleted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ValueFilters {
    pub(crate) add: Option<Vec<ValueFilter>>,
    pub(crate) delete: Option<Vec<ValueFilter>>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ValueFilter {
    pub(crate) attribute: AttributeName,
    pub(crate) filter: FilterText,
}

impl ValueFilter {
    /// Whether it is about values of this attribute.
    pub(crate) fn is_about(&self, asked: &AttributeDescription) -> bool {
        self.attribute.known().is_some_and(|name| name.covers(asked))
    }

    /// Whether it names the very type of this attribute.
    pub(crate) fn names_type_of(&self, asked: &AttributeDescription) -> bool {
        self.attribute.known().is_some_and(|name| name.kind == asked.kind)
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct RequestTargets {
    pub(crate) controls: Option<OidList>,
    pub(crate) operations: Option<OidList>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct OidList {
    pub(crate) negated: bool,
    /// `*`
    pub(crate) all: bool,
    pub(crate) oids: Vec<String>,
}

impl OidList {
    pub(crate) fn covers(&self, oid: &str) -> bool {
        (self.all || self.oids.iter().any(|own| own == oid)) != self.negated
    }
}

/// One pair of permissions and a bind rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Statement {
    pub(crate) allows: bool,
    pub(crate) rights: Rights,
    pub(crate) rule: Bind,
}

/// A bind rule: who must ask, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Bind {
    Is(Arc<Condition>),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    /// `and` and `or` without parentheses. Servers differ in which comes first, so it holds if it
    /// holds read from either end, and is not known if only from one.
    Mixed(Vec<Self>, Vec<Connective>),
    /// Found out already; never read from a text.
    Known(Truth),
}

impl Bind {
    /// Whether a part of it asks for other entries, depending on the one that it is asked about:
    /// its answer changes when those do.
    pub(crate) fn asks_others(&self) -> bool {
        match self {
            Self::Is(condition) => condition.test.asks_others(),
            Self::Not(rule) => rule.asks_others(),
            Self::All(rules) | Self::Any(rules) | Self::Mixed(rules, _) => {
                rules.iter().any(Self::asks_others)
            }
            Self::Known(_) => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Connective {
    And,
    Or,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Condition {
    pub(crate) negated: bool,
    pub(crate) test: Test,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Test {
    User(Vec<Subject>),
    Group(Vec<DnPattern>),
    Attribute(UserAttribute),
    Address(Vec<AddressRange>),
    Host(Vec<HostPattern>),
    /// Minutes since midnight.
    Time(Comparator, u16),
    /// A bit for each day; Sunday is the lowest.
    Days(u8),
    Method(Vec<Method>),
    Strength(Comparator, u32),
}

impl Test {
    /// Whether it asks for other entries (above the one that it is asked about, the asker's own, a
    /// group) that depend on that one.
    fn asks_others(&self) -> bool {
        match self {
            Self::Attribute(asked) => {
                asked.relation != Relation::User || asked.levels.iter().any(|level| *level != 0)
            }
            // One without macros is asked about without an entry.
            Self::Group(groups) => groups.iter().any(|group| group.exact().is_none()),
            Self::User(_)
            | Self::Address(_)
            | Self::Host(_)
            | Self::Time(..)
            | Self::Days(_)
            | Self::Method(_)
            | Self::Strength(..) => false,
        }
    }

    /// Whether it is about who asks, or how they proved it.
    pub(crate) fn is_of_identity(&self) -> bool {
        match self {
            Self::User(_) | Self::Group(_) | Self::Attribute(_) | Self::Method(_) => true,
            Self::Address(_)
            | Self::Host(_)
            | Self::Time(..)
            | Self::Days(_)
            | Self::Strength(..) => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Comparator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparator {
    /// Longest first, as they are looked for in a text.
    pub(crate) const ALL: [(Self, &str); 6] = [
        (Self::LessOrEqual, "<="),
        (Self::GreaterOrEqual, ">="),
        (Self::NotEqual, "!="),
        (Self::Equal, "="),
        (Self::Less, "<"),
        (Self::Greater, ">"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(own, _)| *own == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn holds(self, one: u32, other: u32) -> bool {
        match self {
            Self::Equal => one == other,
            Self::NotEqual => one != other,
            Self::Less => one < other,
            Self::LessOrEqual => one <= other,
            Self::Greater => one > other,
            Self::GreaterOrEqual => one >= other,
        }
    }
}

/// One of the names of a `userdn`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    Anyone,
    All,
    Oneself,
    Parent,
    Name(DnPattern),
    Search(Url),
}

/// An LDAP URL that says which entries are meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Url {
    /// What follows `ldap:///`, as displayed.
    pub(crate) text: String,
    pub(crate) base: DnKey,
    pub(crate) scope: Scope,
    pub(crate) filter: Option<ResolvedFilter>,
}

/// `userattr`: what the asker has to do with an attribute of the target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct UserAttribute {
    /// Of groups: only those at or below this name count.
    pub(crate) within: Option<DnPattern>,
    /// How many levels above the target the attribute may be; 0 is the target itself.
    pub(crate) levels: Vec<u8>,
    pub(crate) attribute: AttributeName,
    pub(crate) relation: Relation,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Relation {
    /// A value names the asker.
    User,
    /// A value names a group of the asker.
    Group,
    /// A value is a URL that finds the asker.
    Url,
    /// The asker has the same value; none where the attribute is not known.
    Value(String, Option<Assertion>),
}

/// One of the methods of an `authmethod`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    /// Whatever it was.
    Any,
    Simple,
    Certificate,
    Sasl(String),
}
