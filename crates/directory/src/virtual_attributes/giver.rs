//! Which values are given to an entry.
//!
//! Invariant: values are given only to those who may read them where they are stored, but for those
//! of templates of Class of Service: whoever makes one means it to be shown.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use ldap::dn::{Ava, Dn, Rdn};
use schema::{AttributeDescription, DnKey, EntryRead, RdnKey, Schema, WellKnown};
use store::{Resolved, StoredEntry, View};

use super::definition::{Beside, Definition, Part, Source};
use super::set::{Attribute, VirtualAttributes};
use super::{collective, service};
use crate::access::guard::Guard;

/// Finds what is given to one entry.
pub(crate) struct Giver<'g> {
    all: &'g VirtualAttributes,
    view: &'g View<'g>,
    stored: &'g StoredEntry<'g>,
    reader: Option<&'g Guard<'g>>,
    /// What was found by number of the attribute.
    found: RefCell<Vec<(usize, Option<Rc<Given>>)>>,
    /// Its name, and whether anything is given to it at all.
    place: OnceCell<Option<DnKey>>,
    /// Other entries that were read.
    reads: Cell<u64>,
}

/// What is given of one attribute.
pub(crate) struct Given {
    pub(crate) description: Arc<AttributeDescription>,
    pub(crate) values: Vec<Vec<u8>>,
    /// Stored values are not seen.
    pub(crate) hides: bool,
}

impl<'g> Giver<'g> {
    pub(crate) fn new(
        all: &'g VirtualAttributes,
        view: &'g View<'g>,
        stored: &'g StoredEntry<'g>,
        reader: Option<&'g Guard<'g>>,
    ) -> Self {
        let (found, place, reads) = Default::default();
        Self { all, view, stored, reader, found, place, reads }
    }

    /// Entries that were read for it.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Whether asking for an attribute may get one that is given.
    pub(crate) fn may_give(&self, asked: &AttributeDescription) -> bool {
        self.all.may_give(asked)
    }

    /// Whether entries share attributes of subentries.
    pub(crate) fn has_subentries(&self) -> bool {
        self.all.has_collective()
    }

    /// All that is given of attributes that are wanted.
    pub(crate) fn of(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        roles: &dyn Fn() -> Vec<String>,
    ) -> Vec<Rc<Given>> {
        let all = self.all.attributes().iter().enumerate();
        let wanted = all.filter(|(_, one)| wants(&one.description));
        wanted.filter_map(|(number, one)| self.one(number, one, roles)).collect()
    }

    /// The names of the subentries whose attributes the entry shares.
    pub(crate) fn subentries(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        let Some(key) = self.key() else { return names };
        let schema = self.view.schema();
        for attribute in self.all.attributes() {
            for definition in &attribute.definitions {
                let Some(name) = &definition.subentry else { continue };
                let is_new = !names.contains(name);
                if is_new && definition.area.covers(self.stored, key, schema) {
                    names.push(Arc::clone(name));
                }
            }
        }
        names
    }

    /// The name of the entry; none of one that is given nothing.
    fn key(&self) -> Option<&DnKey> {
        let find = || {
            let schema = self.view.schema();
            let name = Dn::parse_stored(self.stored.dn()).ok()?;
            let key = DnKey::from_dn(schema, &name).ok()?;
            (!is_subentry(self.stored, schema.well_known())).then_some(key)
        };
        self.place.get_or_init(find).as_ref()
    }

    fn one(
        &self,
        number: usize,
        attribute: &Attribute,
        roles: &dyn Fn() -> Vec<String>,
    ) -> Option<Rc<Given>> {
        if let Some((_, known)) = self.found.borrow().iter().find(|(one, _)| *one == number) {
            return known.clone();
        }
        let given = self.find(attribute, roles).map(Rc::new);
        self.found.borrow_mut().push((number, given.clone()));
        given
    }

    fn find(&self, attribute: &Attribute, roles: &dyn Fn() -> Vec<String>) -> Option<Given> {
        let (key, schema) = (self.key()?, self.view.schema());
        let description = &attribute.description;
        let mut sources: Vec<(u64, &Definition, Vec<Vec<u8>>)> = Vec::new();
        for definition in &attribute.definitions {
            if !definition.area.covers(self.stored, key, schema)
                || (definition.subentry.is_some() && self.is_excluded(description))
            {
                continue;
            }
            for (priority, values) in self.values(definition, roles) {
                if !values.is_empty() {
                    sources.push((priority, definition, values));
                }
            }
        }
        sources.sort_by_key(|(priority, _, _)| *priority);
        let (_, first, _) = sources.first()?;
        let (first, merges) = (*first, first.merges);
        let mut has_stored = false;
        self.stored.visit_values(description, &mut |one, _| {
            has_stored = one == &**description;
            !has_stored
        });
        if first.beside == Beside::Stored && has_stored {
            return None;
        }
        let mut values: Vec<Vec<u8>> = Vec::new();
        let most = if description.kind.single_value { 1 } else { VALUES_MAX };
        let mut bytes = 0;
        for (_, _, some) in sources.into_iter().filter(|(_, one, _)| !merges || one.merges) {
            for value in some {
                bytes += value.len();
                let is_new = !values.iter().any(|one| is_same(description, one, &value, schema));
                if is_new && values.len() < most && bytes <= VALUES_MAX_BYTES {
                    values.push(value);
                }
            }
            if !merges {
                break;
            }
        }
        let hides = first.beside == Beside::Given
            || (description.kind.single_value && first.beside == Beside::Both);
        Some(Given { description: Arc::clone(description), values, hides })
    }

    fn is_excluded(&self, description: &AttributeDescription) -> bool {
        let schema = self.view.schema();
        let exclusions = &schema.well_known().collective_exclusions;
        collective::is_excluded(self.stored, exclusions, &description.kind, schema)
    }

    /// The values that a definition gives, by priority.
    fn values(
        &self,
        definition: &Definition,
        roles: &dyn Fn() -> Vec<String>,
    ) -> Vec<(u64, Vec<Vec<u8>>)> {
        let attribute = &definition.description;
        match &definition.source {
            Source::Constant(values) => vec![(LAST, values.clone())],
            Source::Superior(from) => {
                let superior = self.view.entry(self.stored.parent()).ok().flatten();
                self.reads.set(self.reads.get() + 1);
                vec![(LAST, superior.map_or_else(Vec::new, |one| self.readable(&one, from)))]
            }
            Source::Referenced { of, by } => {
                let mut found = Vec::new();
                for name in texts(self.stored, by) {
                    let entry = self.entry(&name);
                    found.extend(entry.map(|entry| self.readable(&entry, of)).unwrap_or_default());
                }
                vec![(LAST, found)]
            }
            Source::Text(parts) => vec![(LAST, self.text(parts).into_iter().collect())],
            Source::Template(name) => self.template(name, attribute).into_iter().collect(),
            Source::Named { below, by } => {
                let known = self.view.schema().well_known();
                let is_role = **by == *known.ns_role;
                let names = if is_role { roles() } else { texts(self.stored, by) };
                let all = names.iter().take(SOURCES_MAX).filter_map(|name| {
                    let key = self.below(below, name)?;
                    self.template(&key, attribute)
                });
                all.collect()
            }
        }
    }

    /// `cn=NAME`, as templates are called, below an entry.
    fn below(&self, above: &DnKey, name: &str) -> Option<DnKey> {
        let ava = Ava { attribute: "cn".to_owned(), value: name.as_bytes().to_vec() };
        let mut key = above.clone();
        key.push(&RdnKey::from_rdn(self.view.schema(), &Rdn::new(vec![ava])?).ok()?);
        Some(key)
    }

    /// What a template says of an attribute, and its priority.
    fn template(
        &self,
        name: &DnKey,
        attribute: &AttributeDescription,
    ) -> Option<(u64, Vec<Vec<u8>>)> {
        let entry = self.entry_of(name)?;
        let schema = self.view.schema();
        let mut is_template = false;
        entry.visit_values(&schema.well_known().object_class, &mut |_, value| {
            is_template = value.eq_ignore_ascii_case(service::TEMPLATE.as_bytes());
            !is_template
        });
        if !is_template {
            return None;
        }
        let priority = schema.describe(service::PRIORITY).ok();
        let priority = priority.and_then(|one| texts(&entry, &one).first()?.parse().ok());
        Some((priority.unwrap_or(LAST), values(&entry, attribute)))
    }

    /// The values of an entry that whoever reads may read there.
    fn readable(&self, entry: &StoredEntry<'_>, of: &AttributeDescription) -> Vec<Vec<u8>> {
        let may_read = |reader: &Guard<'_>| {
            reader.anywhere(|guard| {
                let rights = guard.on(entry);
                rights.may_see() && rights.may_read(of)
            })
        };
        match self.reader {
            Some(reader) if !reader.is_bypassed() && !may_read(reader) => Vec::new(),
            Some(_) | None => values(entry, of),
        }
    }

    fn entry(&self, name: &str) -> Option<StoredEntry<'g>> {
        self.entry_of(&DnKey::from_text(self.view.schema(), name).ok()?)
    }

    fn entry_of(&self, name: &DnKey) -> Option<StoredEntry<'g>> {
        self.reads.set(self.reads.get() + 1);
        match self.view.resolve(name).ok()? {
            Resolved::Found(id) => self.view.entry(id).ok()?,
            Resolved::Missing { .. } | Resolved::NoContext => None,
        }
    }

    /// The text that the parts make; none where a value is missing.
    fn text(&self, parts: &[Part]) -> Option<Vec<u8>> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Value(description) => {
                    let values = self.readable(self.stored, description);
                    text.push_str(std::str::from_utf8(values.first()?).ok()?);
                }
            }
        }
        (!text.is_empty() && text.len() <= VALUES_MAX_BYTES).then(|| text.into_bytes())
    }
}

/// Whether an entry is there for the server rather than for people.
fn is_subentry(entry: &dyn EntryRead, known: &WellKnown) -> bool {
    let mut found = false;
    entry.visit_values(&known.object_class, &mut |_, value| {
        found = SUBENTRIES.iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes()));
        !found
    });
    found
}

/// The first values of an attribute that are text.
fn texts(entry: &dyn EntryRead, description: &AttributeDescription) -> Vec<String> {
    let mut found = Vec::new();
    entry.visit_values(description, &mut |_, value| {
        found.extend(std::str::from_utf8(value).map(str::to_owned));
        found.len() < SOURCES_MAX
    });
    found
}

fn values(entry: &dyn EntryRead, description: &AttributeDescription) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    entry.visit_values(description, &mut |one, value| {
        if one == description {
            found.push(value.to_vec());
        }
        found.len() < VALUES_MAX
    });
    found
}

/// Whether two values are equal by the rule of their type.
pub(crate) fn is_same(
    description: &AttributeDescription,
    one: &[u8],
    other: &[u8],
    schema: &Schema,
) -> bool {
    let key = |value: &[u8]| {
        let mut key = Vec::new();
        let rule = description.kind.equality?;
        (rule.prepare)(schema, value, &mut key).ok().map(|()| key)
    };
    one == other || matches!((key(one), key(other)), (Some(one), Some(other)) if one == other)
}

/// Templates and other entries that one definition reads for an entry, at the most.
const SOURCES_MAX: usize = 16;
/// Values that are given of one attribute, at the most, and octets of them.
const VALUES_MAX: usize = 256;
const VALUES_MAX_BYTES: usize = 64 << 10;
/// The priority of what has none.
const LAST: u64 = u64::MAX;
const SUBENTRIES: [&str; 3] = ["subentry", "ldapSubentry", "2.5.17.0"];
