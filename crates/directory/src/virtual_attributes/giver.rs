//! Which values are given to an entry.
//!
//! Invariant: values are given only to those who may read them where they are stored, but for those
//! of templates of Class of Service: whoever makes one means it to be shown.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use ldap::dn::{Ava, Dn, Rdn};
use rustc_hash::FxHashSet;
use schema::{AttributeDescription, DnKey, EntryRead, RdnKey, Schema, WellKnown};
use store::{Resolved, StoreError, StoredEntry, View};

use super::definition::{Beside, Definition, Part, Source, VALUES_MAX, VALUES_MAX_BYTES};
use super::set::{Attribute, VirtualAttributes};
use super::{collective, service};
use crate::access::guard::Guard;
use crate::groups::lookup::GROUPS_MAX;

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
    /// Why one could not be.
    failed: RefCell<Option<StoreError>>,
}

/// What is given of one attribute.
pub(crate) struct Given {
    pub(crate) description: Arc<AttributeDescription>,
    pub(crate) values: Vec<Vec<u8>>,
    /// Stored values are not seen.
    pub(crate) hides: bool,
    /// It is sent to those alone who name it, unless it is stored.
    pub(crate) named_only: bool,
}

impl<'g> Giver<'g> {
    pub(crate) fn new(
        all: &'g VirtualAttributes,
        view: &'g View<'g>,
        stored: &'g StoredEntry<'g>,
        reader: Option<&'g Guard<'g>>,
    ) -> Self {
        let (found, place, reads, failed) = Default::default();
        Self { all, view, stored, reader, found, place, reads, failed }
    }

    /// Entries that were read for it.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Whether all could be read that what it found was made of.
    ///
    /// # Errors
    /// That of the store.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// What was read; nothing where that failed.
    fn read<T>(&self, read: Result<Option<T>, StoreError>) -> Option<T> {
        read.unwrap_or_else(|error| {
            *self.failed.borrow_mut() = Some(error);
            None
        })
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

    /// The names of the subentries whose attributes the entry shares, as far as whoever reads may
    /// see them.
    pub(crate) fn subentries(&self) -> Vec<Arc<str>> {
        let mut asked: Vec<(Arc<str>, bool)> = Vec::new();
        let Some(key) = self.key() else { return Vec::new() };
        let schema = self.view.schema();
        for attribute in self.all.attributes() {
            for definition in &attribute.definitions {
                let Some(name) = &definition.subentry else { continue };
                if asked.iter().any(|(one, _)| one == name) {
                    continue;
                }
                let is_its = definition.area.covers(self.stored, key, schema);
                asked.push((Arc::clone(name), is_its && self.may_see(name)));
            }
        }
        asked.into_iter().filter(|(_, is_told)| *is_told).map(|(name, _)| name).collect()
    }

    fn may_see(&self, name: &str) -> bool {
        let Some(reader) = self.reader.filter(|reader| !reader.is_bypassed()) else { return true };
        let entry = self.entry(name);
        entry.is_some_and(|entry| reader.anywhere(|guard| guard.on(&entry).may_see()))
    }

    /// The name of the entry; none of one that is given nothing.
    fn key(&self) -> Option<&DnKey> {
        let find = || {
            let schema = self.view.schema();
            let name = Dn::parse_stored(self.stored.dn()).ok()?;
            let key = DnKey::from_dn(schema, &name).ok()?;
            // The server asks of accounts, whatever else they make of themselves.
            let is_asked = self.reader.is_none();
            (is_asked || !is_subentry(self.stored, schema.well_known())).then_some(key)
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
        let mut sources: Vec<(u64, &Definition, Found<'_>)> = Vec::new();
        // Each may have a filter of some size.
        self.reads.set(self.reads.get() + attribute.definitions.len() as u64);
        for definition in &attribute.definitions {
            if !definition.area.covers(self.stored, key, schema)
                || (definition.subentry.is_some() && self.is_excluded(description))
            {
                continue;
            }
            let found = self.values(definition, roles).into_iter();
            let found = found.filter(|(_, found)| !found.is_nothing());
            sources.extend(found.map(|(priority, found)| (priority, definition, found)));
        }
        sources.sort_by_key(|(priority, _, _)| *priority);
        let (first, merges) = sources.first().map(|(_, first, _)| (*first, first.merges))?;
        let mut has_stored = false;
        self.stored.visit_values(description, &mut |one, _| {
            has_stored = one == &**description;
            !has_stored
        });
        if first.beside == Beside::Stored && has_stored {
            return None;
        }
        let most = if description.kind.single_value { 1 } else { VALUES_MAX };
        let mut given = GivenValues::new(description, most);
        let used = sources.iter().filter(|(_, one, _)| !merges || one.merges);
        let used = used.take(if merges { sources.len() } else { 1 });
        for (_, _, found) in used {
            found.values().iter().for_each(|value| given.add(value, schema));
        }
        let values = given.values;
        // Of what may not be read nothing is seen, but what it takes the place of is not either.
        let hides = first.beside == Beside::Given
            || (description.kind.single_value
                && first.beside == Beside::Both
                && !values.is_empty());
        let description = Arc::clone(description);
        let named_only = first.named_only && !description.is_operational();
        (hides || !values.is_empty()).then_some(Given { description, values, hides, named_only })
    }

    fn is_excluded(&self, description: &AttributeDescription) -> bool {
        let schema = self.view.schema();
        let exclusions = &schema.well_known().collective_exclusions;
        collective::is_excluded(self.stored, exclusions, &description.kind, schema)
    }

    /// The values that a definition gives, by priority.
    fn values<'f>(
        &self,
        definition: &'f Definition,
        roles: &dyn Fn() -> Vec<String>,
    ) -> Vec<(u64, Found<'f>)> {
        let attribute = &definition.description;
        match &definition.source {
            Source::Constant(constant) => vec![(LAST, Found::Constant(&constant.values))],
            Source::Superior(from) => {
                let superior = self.read(self.view.entry(self.stored.parent()));
                self.reads.set(self.reads.get() + 1);
                let found = superior.map(|one| self.readable(&one, from));
                found.map(|found| (LAST, found)).into_iter().collect()
            }
            Source::Referenced { of, by } => {
                let names = self.readable(self.stored, by);
                let mut all = Vec::new();
                let mut is_hidden = matches!(names, Found::Hidden);
                for name in names.values().iter().take(SOURCES_MAX) {
                    let entry = std::str::from_utf8(name).ok().and_then(|name| self.entry(name));
                    match entry.map(|entry| self.readable(&entry, of)) {
                        Some(Found::Hidden) => is_hidden = true,
                        Some(found) => all.extend(found.values().iter().cloned()),
                        None => {}
                    }
                }
                let found = match all.is_empty() && is_hidden {
                    true => Found::Hidden,
                    false => Found::Read(all),
                };
                vec![(LAST, found)]
            }
            Source::Text(parts) => vec![(LAST, self.text(attribute, parts))],
            Source::Template(name) => self.template(name, attribute).into_iter().collect(),
            Source::Named { below, by } => {
                let known = self.view.schema().well_known();
                let is_role = **by == *known.ns_role;
                let names = if is_role { roles() } else { texts(self.stored, by) };
                // Most roles have no template: they take no place from those that have one.
                let all = names.iter().filter_map(|name| {
                    let key = self.below(below, name)?;
                    self.template(&key, attribute).filter(|(_, found)| !found.is_nothing())
                });
                // What the server acts on does not end with one template more.
                let most = if self.reader.is_none() { GROUPS_MAX } else { SOURCES_MAX };
                all.take(most).collect()
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
    ) -> Option<(u64, Found<'static>)> {
        let entry = self.entry_of(name)?;
        let schema = self.view.schema();
        if !service::is_template(&entry, schema) {
            return None;
        }
        let priority = schema.describe(service::PRIORITY).ok();
        let priority = priority.and_then(|one| texts(&entry, &one).first()?.parse().ok());
        Some((priority.unwrap_or(LAST), Found::Read(values(&entry, attribute))))
    }

    /// The values of an entry, as far as whoever reads may read them there.
    fn readable(&self, entry: &StoredEntry<'_>, of: &AttributeDescription) -> Found<'static> {
        let may_read = |reader: &Guard<'_>| {
            reader.anywhere(|guard| {
                let rights = guard.on(entry);
                rights.may_see() && rights.may_read(of)
            })
        };
        let values = values(entry, of);
        match self.reader {
            Some(reader) if !values.is_empty() && !reader.is_bypassed() && !may_read(reader) => {
                Found::Hidden
            }
            Some(_) | None => Found::Read(values),
        }
    }

    fn entry(&self, name: &str) -> Option<StoredEntry<'g>> {
        self.entry_of(&DnKey::from_text(self.view.schema(), name).ok()?)
    }

    fn entry_of(&self, name: &DnKey) -> Option<StoredEntry<'g>> {
        self.reads.set(self.reads.get() + 1);
        match self.read(self.view.resolve(name).map(Some))? {
            Resolved::Found(id) => self.read(self.view.entry(id)),
            Resolved::Missing { .. } | Resolved::NoContext => None,
        }
    }

    /// The text that the parts make; none where a value is missing, or the text is no value.
    fn text(&self, description: &AttributeDescription, parts: &[Part]) -> Found<'static> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Value(description) => {
                    let found = self.readable(self.stored, description);
                    if matches!(found, Found::Hidden) {
                        return Found::Hidden;
                    }
                    let first = found.values().first().map(Vec::as_slice).unwrap_or_default();
                    match std::str::from_utf8(first) {
                        Ok(first) if !first.is_empty() => text.push_str(first),
                        Ok(_) | Err(_) => return Found::Read(Vec::new()),
                    }
                }
            }
        }
        let text = text.into_bytes();
        let is_value = (description.kind.syntax.check)(self.view.schema(), &text).is_ok();
        Found::Read(if is_value { vec![text] } else { Vec::new() })
    }
}

/// What a definition has for an entry.
enum Found<'f> {
    /// Always the same.
    Constant(&'f [Vec<u8>]),
    /// These, read elsewhere.
    Read(Vec<Vec<u8>>),
    /// Values that whoever reads may not read.
    Hidden,
}

impl Found<'_> {
    fn values(&self) -> &[Vec<u8>] {
        match self {
            Self::Constant(values) => values,
            Self::Read(values) => values,
            Self::Hidden => &[],
        }
    }

    fn is_nothing(&self) -> bool {
        match self {
            Self::Constant(values) => values.is_empty(),
            Self::Read(values) => values.is_empty(),
            Self::Hidden => false,
        }
    }
}

/// Values of an attribute, each once, as many as may be given.
struct GivenValues<'d> {
    description: &'d AttributeDescription,
    values: Vec<Vec<u8>>,
    keys: FxHashSet<Vec<u8>>,
    most: usize,
    bytes: usize,
}

impl<'d> GivenValues<'d> {
    fn new(description: &'d AttributeDescription, most: usize) -> Self {
        Self { description, values: Vec::new(), keys: FxHashSet::default(), most, bytes: 0 }
    }

    fn add(&mut self, value: &[u8], schema: &Schema) {
        let fits = self.bytes + value.len() <= VALUES_MAX_BYTES && self.values.len() < self.most;
        if fits && self.keys.insert(key_of(self.description, value, schema)) {
            self.bytes += value.len();
            self.values.push(value.to_vec());
        }
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
    let (mut found, mut bytes) = (Vec::new(), 0);
    entry.visit_values(description, &mut |one, value| {
        // What is too large is not given, and not copied either.
        if one == description && bytes + value.len() <= VALUES_MAX_BYTES {
            bytes += value.len();
            found.push(value.to_vec());
        }
        found.len() < VALUES_MAX
    });
    found
}

/// What equal values have in common: the key by the equality rule of their type, or the octets.
pub(crate) fn key_of(description: &AttributeDescription, value: &[u8], schema: &Schema) -> Vec<u8> {
    let mut key = Vec::new();
    let rule = description.kind.equality;
    match rule.map(|rule| (rule.prepare)(schema, value, &mut key)) {
        Some(Ok(())) => key,
        Some(Err(_)) | None => value.to_vec(),
    }
}

/// Templates and other entries that one definition reads for an entry, at the most.
const SOURCES_MAX: usize = 16;
/// The priority of what has none.
const LAST: u64 = u64::MAX;
const SUBENTRIES: [&str; 4] =
    ["subentry", "ldapSubentry", "2.5.17.0", "2.16.840.1.113719.2.142.6.1.1"];
