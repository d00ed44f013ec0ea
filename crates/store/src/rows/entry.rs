//! Stored entries: read in place, from the memory map; one that is compressed holds its attributes
//! itself.
//!
//! Invariant: values in reference lists, and in rows of their own, are values like others; they
//! come after those in the record.

use std::cell::OnceCell;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::message::{Values, ValuesBuf};
use schema::{
    Attribute, AttributeDescription, DnKey, Entry, EntryId, EntryRead, Families, Schema, ValueKey,
};

use crate::base::lmdb::ENTRIES;
use crate::error::StoreError;
use crate::read::view::{ApartValues, OutsideValues, ReferenceList, View};
use crate::rows::dictionary::{Asked, Dictionary, compares_names};
use crate::rows::record::{Apart, Listed, Record, RecordHead};

/// An entry as it is in the store; borrows from the view it was read in.
#[derive(Debug)]
pub struct StoredEntry<'v> {
    id: EntryId,
    parent: u64,
    rdn: &'v str,
    attributes: Attributes<'v>,
    superior: Arc<str>,
    dn: OnceCell<String>,
    /// The families of all its attributes, once somebody has looked at each: a bind asks for
    /// dozens that an entry seldom has.
    families: OnceCell<Families>,
    dictionary: &'v Dictionary,
    /// Of an entry that has values outside of its record.
    lists: Option<Box<Lists<'v>>>,
}

/// What an entry has beside its record.
#[derive(Debug)]
struct Lists<'v> {
    /// The attributes that have lists.
    listed: Listed<'v>,
    /// The attributes whose values are rows of their own.
    apart: Apart<'v>,
    view: &'v View<'v>,
    /// All values of each of these attributes, once they were asked for.
    whole: OnceCell<Vec<(u32, OnceCell<Vec<u8>>)>>,
    /// Why values could not be read.
    failure: OnceCell<StoreError>,
}

impl<'v> Lists<'v> {
    fn new(head: &RecordHead<'v>, view: &'v View<'v>) -> Box<Self> {
        let (listed, apart) = (head.listed, head.apart);
        Box::new(Self { listed, apart, view, whole: OnceCell::new(), failure: OnceCell::new() })
    }

    /// Whether an attribute has values outside of the record.
    fn has(&self, attribute: u32) -> bool {
        self.listed.contains(attribute) || self.apart.of(attribute).is_some()
    }

    /// The attributes that have values outside of the record.
    fn ids(&self) -> impl Iterator<Item = u32> + use<'v> {
        self.listed.iter().chain(self.apart.iter().map(|one| one.attribute))
    }

    /// Remembers why values could not be read; the first reason tells enough.
    fn note(&self, failure: StoreError) {
        let _ = self.failure.set(failure);
    }
}

/// Whether the attributes of a record were read through before, as they are at this commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsChecked(pub(crate) bool);

/// The attributes of a record that was read.
#[derive(Debug)]
enum Attributes<'v> {
    Mapped(&'v [u8]),
    Decompressed(Vec<u8>),
}

impl<'v> StoredEntry<'v> {
    /// Reads a record whose superior has this name.
    #[inline]
    pub(crate) fn new(
        id: EntryId,
        head: &RecordHead<'v>,
        is_checked: IsChecked,
        superior: Arc<str>,
        view: &'v View<'v>,
    ) -> Result<Self, &'static str> {
        let dictionary = &**view.dictionary();
        let plain = match is_checked {
            IsChecked(true) => head.plain_attributes(),
            IsChecked(false) => head.plain(dictionary.len())?,
        };
        let attributes = match plain {
            Some(attributes) => Attributes::Mapped(attributes),
            None => {
                let mut buffer = Vec::new();
                head.attributes(dictionary, &mut buffer)?;
                Attributes::Decompressed(buffer)
            }
        };
        let (parent, rdn) = (head.parent, head.rdn);
        Ok(Self {
            id,
            parent,
            rdn,
            attributes,
            superior,
            dn: OnceCell::new(),
            families: OnceCell::new(),
            dictionary,
            lists: head.has_outside().then(|| Lists::new(head, view)),
        })
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        let attributes = match &self.attributes {
            Attributes::Mapped(attributes) => attributes,
            Attributes::Decompressed(attributes) => attributes.as_slice(),
        };
        Record::of_parts(self.parent, self.rdn, self.listed(), self.apart(), attributes)
    }

    /// The attributes that have lists.
    #[inline]
    fn listed(&self) -> Listed<'v> {
        self.lists.as_ref().map_or(Listed::default(), |lists| lists.listed)
    }

    /// The attributes whose values are rows of their own.
    #[inline]
    fn apart(&self) -> Apart<'v> {
        self.lists.as_ref().map_or(Apart::default(), |lists| lists.apart)
    }

    /// Whether an attribute has values outside of the record.
    #[inline]
    fn is_outside(&self, attribute: u32) -> bool {
        self.lists.as_ref().is_some_and(|lists| lists.has(attribute))
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> EntryId {
        self.id
    }

    /// Its superior; [`EntryId::ROOT`] of a naming context.
    #[must_use]
    pub const fn parent(&self) -> EntryId {
        EntryId(self.parent)
    }

    /// The leaf of its name, as it was sent; of a naming context the whole DN.
    #[must_use]
    pub const fn rdn(&self) -> &'v str {
        self.rdn
    }

    /// The name of its superior; empty for a naming context. With [`Self::rdn`] it makes the DN
    /// without allocating.
    #[must_use]
    pub fn superior_dn(&self) -> &str {
        &self.superior
    }

    /// The values of the attribute with exactly this description.
    #[must_use]
    pub fn values(&self, description: &AttributeDescription) -> Values<'_> {
        let id = self.dictionary.id(description);
        id.map_or(Values::EMPTY, |id| match self.is_outside(id) {
            true => self.whole(id),
            false => self.record().values(id),
        })
    }

    /// The attributes, in the order they were added; those with values outside of the record last.
    /// All values of those are put together: see [`Self::record_attributes`] and
    /// [`Self::outside`].
    pub fn attributes(&self) -> impl Iterator<Item = (&'v Arc<AttributeDescription>, Values<'_>)> {
        let of_record = self.record().attributes();
        let inside = of_record.filter(move |(id, _)| !self.is_outside(*id));
        let outside = self.lists.iter().flat_map(|lists| lists.ids());
        let all = inside.chain(outside.map(|id| (id, self.whole(id))));
        let dictionary = self.dictionary;
        all.filter_map(move |(id, values)| Some((dictionary.description(id)?, values)))
    }

    /// As [`Self::attributes`], without the values that are outside of the record.
    pub fn record_attributes(
        &self,
    ) -> impl Iterator<Item = (&'v Arc<AttributeDescription>, Values<'_>)> {
        let dictionary = self.dictionary;
        let all = self.record().attributes();
        all.filter_map(move |(id, values)| Some((dictionary.description(id)?, values)))
    }

    /// The attributes that have reference lists, with these.
    pub fn lists(
        &self,
    ) -> impl Iterator<Item = (&'v Arc<AttributeDescription>, ReferenceList<'v>)> {
        let (dictionary, id) = (self.dictionary, self.id.0);
        self.lists.iter().flat_map(move |lists| {
            let view = lists.view;
            lists.listed.iter().filter_map(move |attribute| {
                let description = dictionary.description(attribute)?;
                Some((description, ReferenceList::new(view, id, attribute)))
            })
        })
    }

    /// The attributes whose values are rows of their own, with these.
    ///
    /// # Errors
    /// When the record says so of an attribute that has none.
    pub fn apart_values(
        &self,
    ) -> Result<Vec<(&'v Arc<AttributeDescription>, ApartValues<'v>)>, StoreError> {
        let Some(lists) = self.lists.as_ref().filter(|lists| !lists.apart.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for of in lists.apart.iter() {
            if let Some(description) = self.dictionary.description(of.attribute) {
                all.push((description, ApartValues::new(lists.view, self.id.0, of)?));
            }
        }
        Ok(all)
    }

    /// The attributes that have values outside of the record, with these.
    ///
    /// # Errors
    /// As [`Self::apart_values`].
    pub fn outside(
        &self,
    ) -> Result<Vec<(&'v Arc<AttributeDescription>, OutsideValues<'v>)>, StoreError> {
        let lists = self.lists().map(|(one, list)| (one, OutsideValues::References(list)));
        let mut all: Vec<_> = lists.collect();
        let apart = self.apart_values()?.into_iter();
        all.extend(apart.map(|(one, values)| (one, OutsideValues::Apart(values))));
        Ok(all)
    }

    /// All values of an attribute that has some outside of the record.
    fn whole(&self, attribute: u32) -> Values<'_> {
        let Some(lists) = &self.lists else { return Values::EMPTY };
        let whole = lists
            .whole
            .get_or_init(|| lists.ids().map(|attribute| (attribute, OnceCell::new())).collect());
        let Some((_, values)) = whole.iter().find(|(one, _)| *one == attribute) else {
            return Values::EMPTY;
        };
        let values = values.get_or_init(|| {
            let mut values = self.record().values(attribute).as_ber().to_vec();
            if let Err(error) = self.write_outside(lists, attribute, &mut values) {
                lists.note(error);
            }
            values
        });
        Values::from_ber_trusted(values)
    }

    /// Appends the values of an attribute that are outside of the record.
    fn write_outside(
        &self,
        lists: &Lists<'v>,
        attribute: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let Some(description) = self.dictionary.description(attribute) else { return Ok(()) };
        if let Some(of) = lists.apart.of(attribute) {
            let values = ApartValues::new(lists.view, self.id.0, of)?;
            values.check_read(description)?;
            return values.write(out);
        }
        let list = ReferenceList::new(lists.view, self.id.0, attribute);
        list.check_read(description)?;
        list.write(out)
    }

    /// Appends the names of a list from number `first` on, up to `most`; whether there are more.
    fn names_from(
        list: &ReferenceList<'_>,
        view: &View<'_>,
        mut first: u64,
        most: u64,
        out: &mut ValuesBuf,
    ) -> Result<bool, StoreError> {
        let (mut last, mut left) = (EntryId::ROOT, most);
        loop {
            let wanted = first.saturating_add(left).saturating_add(1);
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(IDS_AT_ONCE);
            let ids = list.after(last, wanted)?;
            let Some(end) = ids.last() else { return Ok(false) };
            last = *end;
            let skipped = usize::try_from(first).unwrap_or(usize::MAX).min(ids.len());
            first -= skipped as u64;
            for id in ids.iter().skip(skipped) {
                if left == 0 {
                    return Ok(true);
                }
                out.push(view.dn(*id)?.as_bytes());
                left -= 1;
            }
        }
    }

    /// Whether attributes have values outside of the record.
    #[inline]
    #[must_use]
    pub const fn has_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Refuses what was read of the entry, where values in its lists could not be read.
    ///
    /// # Errors
    /// Why they could not.
    pub fn complete(&self) -> Result<(), StoreError> {
        match self.lists.as_ref().and_then(|lists| lists.failure.get()) {
            None => Ok(()),
            Some(StoreError::Corrupt(corruption)) => Err(StoreError::Corrupt(corruption.clone())),
            Some(StoreError::TooManyValues { attribute, limit }) => {
                Err(StoreError::TooManyValues { attribute: attribute.clone(), limit: *limit })
            }
            Some(&StoreError::TooLarge { what, bytes, limit_bytes }) => {
                Err(StoreError::TooLarge { what, bytes, limit_bytes })
            }
            Some(other) => Err(StoreError::Lmdb(other.to_string())),
        }
    }

    /// Calls `visit` with the values in lists, of attributes that `asked` covers: all, or that
    /// which has a key. The families of the attributes that have lists; none where it is to end.
    #[cold]
    fn visit_lists(
        &self,
        lists: &Lists<'v>,
        asked: &Asked<'_>,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> Result<Option<Families>, StoreError> {
        let name = only.filter(|only| compares_names(only.rule));
        let name = name.map(|only| DnKey::from_bytes(only.key.to_vec()));
        let (mut goes_on, mut families) = (true, 0);
        for id in lists.listed.iter() {
            let Some(known) = self.dictionary.known(id) else { continue };
            families |= known.families;
            if !goes_on || !known.is_covered(asked) {
                continue;
            }
            let description = &known.description;
            let list = ReferenceList::new(lists.view, self.id.0, id);
            match &name {
                None => list.names(&mut |name| {
                    goes_on = visit(description, name.as_bytes());
                    goes_on
                })?,
                Some(name) => {
                    if let Some(id) = list.find(name)? {
                        goes_on = visit(description, lists.view.dn(id)?.as_bytes());
                    }
                }
            }
        }
        if goes_on && !lists.apart.is_empty() {
            return self.visit_apart(lists, asked, only, families, visit);
        }
        Ok(goes_on.then_some(families))
    }

    /// As [`Self::visit_lists`], of values that are rows of their own.
    fn visit_apart(
        &self,
        lists: &Lists<'v>,
        asked: &Asked<'_>,
        only: Option<&ValueKey<'_>>,
        mut families: Families,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> Result<Option<Families>, StoreError> {
        let mut goes_on = true;
        for of in lists.apart.iter() {
            let Some(known) = self.dictionary.known(of.attribute) else { continue };
            families |= known.families;
            if !goes_on || !known.is_covered(asked) {
                continue;
            }
            let values = ApartValues::new(lists.view, self.id.0, of)?;
            match only.and_then(|only| values.find_key(only)) {
                Some(found) => {
                    goes_on = found?.is_none_or(|value| visit(&known.description, value));
                }
                None => values.values(&mut |value| {
                    goes_on = visit(&known.description, value);
                    goes_on
                })?,
            }
        }
        Ok(goes_on.then_some(families))
    }

    /// A copy to work on.
    pub fn to_entry(&self) -> Result<Entry, StoreError> {
        let name = Dn::parse_stored(self.dn()).map_err(|error| {
            StoreError::corrupt(ENTRIES, self.id.0, format!("has a name that is none: {error}"))
        })?;
        let attributes = self.attributes().map(|(description, values)| Attribute {
            description: Arc::clone(description),
            values: values.iter().map(<[u8]>::to_vec).collect(),
        });
        let attributes = attributes.collect();
        self.complete()?;
        Ok(Entry::from_stored(name, attributes))
    }
}

/// Whether an attribute tells the groups or roles of an entry, which are computed from others.
fn tells_groups(asked: &AttributeDescription, schema: &Schema) -> bool {
    let known = schema.well_known();
    let all = [&known.is_member_of, &known.member_of, &known.is_direct_member_of, &known.ns_role];
    all.into_iter().any(|one| asked.covers(one))
}

impl EntryRead for StoredEntry<'_> {
    fn dn(&self) -> &str {
        if self.superior.is_empty() {
            return self.rdn;
        }
        self.dn.get_or_init(|| join(self.rdn, &self.superior))
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        // The name of a naming context is in one piece.
        (!self.superior.is_empty()).then_some((self.rdn, &*self.superior))
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        // What is stored does not tell: an assertion about them is Undefined here, and so is its
        // opposite.
        if asked.is_operational() && tells_groups(asked, self.dictionary.schema()) {
            return false;
        }
        let asked = Asked::new(asked);
        if self.families.get().is_some_and(|&families| !asked.may_be_in(families)) {
            return true;
        }
        let (dictionary, mut families) = (self.dictionary, 0);
        for (id, values) in self.record().attributes() {
            let Some(known) = dictionary.known(id) else { continue };
            families |= known.families;
            if known.is_covered(&asked)
                && !values.iter().all(|value| visit(&known.description, value))
            {
                return true;
            }
        }
        if let Some(lists) = &self.lists {
            match self.visit_lists(lists, &asked, only, visit) {
                Ok(Some(of_lists)) => families |= of_lists,
                Ok(None) => return true,
                Err(error) => {
                    lists.note(error);
                    return false;
                }
            }
        }
        // All of them were looked at.
        let _ = self.families.set(families);
        true
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        let Some(lists) = &self.lists else {
            for (description, values) in self.record_attributes() {
                visit(description, Some(values));
            }
            return;
        };
        for (id, values) in self.record().attributes() {
            let description = self.dictionary.description(id);
            if let Some(description) = description.filter(|_| !lists.has(id)) {
                visit(description, Some(values));
            }
        }
        for id in lists.ids() {
            if let Some(description) = self.dictionary.description(id) {
                let values = wants(description).then(|| self.whole(id));
                visit(description, values);
            }
        }
    }

    fn values_from(
        &self,
        description: &AttributeDescription,
        first: u64,
        most: u64,
        out: &mut ValuesBuf,
    ) -> bool {
        let Some(id) = self.dictionary.id(description) else { return false };
        let of_record = self.record().values(id);
        let (mut count, mut left) = (0, most);
        for value in of_record.iter() {
            if count >= first {
                if left == 0 {
                    return true;
                }
                out.push(value);
                left -= 1;
            }
            count += 1;
        }
        let Some(lists) = self.lists.as_ref().filter(|lists| lists.has(id)) else { return false };
        let first = first.saturating_sub(count);
        let more = match lists.apart.of(id) {
            Some(of) => ApartValues::new(lists.view, self.id.0, of).and_then(|values| {
                let mut has_more = false;
                values.values_from(first, &mut |value| {
                    has_more = left == 0;
                    if !has_more {
                        out.push(value);
                        left -= 1;
                    }
                    !has_more
                })?;
                Ok(has_more)
            }),
            None => {
                let list = ReferenceList::new(lists.view, self.id.0, id);
                Self::names_from(&list, lists.view, first, left, out)
            }
        };
        more.unwrap_or_else(|error| {
            lists.note(error);
            false
        })
    }
}

/// So many ids of a list are held to get to a part of it.
const IDS_AT_ONCE: usize = 65_536;

/// The DN of the entry `rdn` below `superior`.
pub(crate) fn join(rdn: &str, superior: &str) -> String {
    if superior.is_empty() {
        return rdn.to_owned();
    }
    let mut dn = String::with_capacity(rdn.len() + 1 + superior.len());
    dn.push_str(rdn);
    dn.push(',');
    dn.push_str(superior);
    dn
}
