//! Reference lists: which entries an attribute names that names very many, and which entries name
//! one like this. Both are posting lists, of entry ids: adding the ten-millionth member of a group
//! takes what adding the first one does, and a renamed entry changes none of them.
//!
//! Invariant: what is in a list is an entry. A value is in the list or in the record, never in
//! both.

use std::cell::OnceCell;

use ldap::ber::{Tag, Writer};
use schema::{AttributeDescription, DnKey, EntryId};

use super::{List, Resolved, View};
use crate::base::lmdb::{ENTRIES, PlainTable};
use crate::error::StoreError;
use crate::index::{SOURCE_LISTS, TARGET_LISTS};
use crate::rows::record::RecordHead;
use crate::rows::varint;

/// The key of the list of those that `attribute` of `source` names.
pub(crate) fn target_key(source: u64, attribute: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_RESERVE_BYTES);
    varint::write(u64::from(attribute), &mut key);
    varint::write(source, &mut key);
    key
}

/// The key of the list of those that name `target` by `attribute`.
pub(crate) fn source_key(attribute: u32, target: u64) -> Vec<u8> {
    target_key(target, attribute)
}

/// The attribute and the entry of a key.
pub(crate) fn key_parts(mut key: &[u8]) -> Option<(u32, u64)> {
    let attribute = u32::try_from(varint::read(&mut key)?).ok()?;
    let id = varint::read(&mut key)?;
    key.is_empty().then_some((attribute, id))
}

const KEY_RESERVE_BYTES: usize = 10;

/// The values of one attribute of an entry that are in a list.
#[derive(Debug)]
pub struct ReferenceList<'v> {
    view: &'v View<'v>,
    source: u64,
    attribute: u32,
    list: OnceCell<Option<List<'v>>>,
}

impl<'v> ReferenceList<'v> {
    pub(crate) const fn new(view: &'v View<'v>, source: u64, attribute: u32) -> Self {
        Self { view, source, attribute, list: OnceCell::new() }
    }

    fn list(&self) -> Result<Option<&List<'v>>, StoreError> {
        if let Some(list) = self.list.get() {
            return Ok(list.as_ref());
        }
        let list = self.view.list(TARGET_LISTS, &target_key(self.source, self.attribute))?;
        Ok(self.list.get_or_init(|| list).as_ref())
    }

    /// How many entries are named, at most: what came or went since the last flush may be counted
    /// though it changes nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self) -> Result<u64, StoreError> {
        Ok(self.list()?.map_or(0, List::count))
    }

    /// Refuses to read all values of a list that has very many; `description` is its attribute.
    ///
    /// # Errors
    /// [`StoreError::TooManyValues`], or when the store cannot be read.
    pub fn check_read(&self, description: &AttributeDescription) -> Result<(), StoreError> {
        match self.count()? > LISTED_READ_MAX {
            true => Err(StoreError::TooManyValues {
                attribute: description.text().to_owned(),
                limit: LISTED_READ_MAX,
            }),
            false => Ok(()),
        }
    }

    /// Whether an entry is named.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn contains(&self, target: EntryId) -> Result<bool, StoreError> {
        self.list()?.map_or(Ok(false), |list| self.view.list_has(list, target.0))
    }

    /// The entry with this name, if it is named.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn find(&self, name: &DnKey) -> Result<Option<EntryId>, StoreError> {
        let Resolved::Found(id) = self.view.resolve(name)? else { return Ok(None) };
        Ok(self.contains(id)?.then_some(id))
    }

    /// The next entries that are named, in the order of their ids: `most`, or a few more or less;
    /// none when there are no more after `after`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn after(&self, after: EntryId, most: usize) -> Result<Vec<EntryId>, StoreError> {
        let Some(list) = self.list()? else { return Ok(Vec::new()) };
        let ids = self.view.ids_after(list, after.0, most)?;
        Ok(ids.into_iter().map(EntryId).collect())
    }

    /// Calls `visit` with the name of each entry that is named, in the order of their ids, until it
    /// returns false.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn names(&self, visit: &mut dyn FnMut(&str) -> bool) -> Result<(), StoreError> {
        let (mut last, mut name) = (EntryId::ROOT, String::new());
        // Many who ask want the first ones.
        let mut most = NAMES_FIRST;
        loop {
            let ids = self.after(last, most)?;
            for id in &ids {
                self.view.write_dn(*id, &mut name)?;
                if !visit(&name) {
                    return Ok(());
                }
            }
            match ids.last() {
                Some(id) => last = *id,
                None => return Ok(()),
            }
            most = (most * 4).min(NAMES_AT_ONCE);
        }
    }

    /// Appends the names as values are sent: OCTET STRING after OCTET STRING.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        self.names(&mut |name| {
            Writer::new(out).octets(Tag::OCTET_STRING, name.as_bytes());
            true
        })
    }
}

/// So many values of a list are read at once; of more a part is to be asked for.
const LISTED_READ_MAX: u64 = 2_000_000;
/// So many ids are held to find their names, at first and later.
const NAMES_FIRST: usize = 8;
const NAMES_AT_ONCE: usize = 1024;

impl View<'_> {
    /// How many references to an entry are in lists; at most, as [`ReferenceList::count`].
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn listed_references(&self, target: EntryId) -> Result<u64, StoreError> {
        let mut count = 0;
        for attribute in self.dictionary().listed() {
            count += self.sources(*attribute, target)?.map_or(0, |list| list.count());
        }
        Ok(count)
    }

    /// The list of those that name `target` by `attribute`, an attribute id.
    pub(crate) fn sources(
        &self,
        attribute: u32,
        target: EntryId,
    ) -> Result<Option<List<'_>>, StoreError> {
        self.list(SOURCE_LISTS, &source_key(attribute, target.0))
    }

    /// Writes the name of an entry into `out`, over what is there. No more of its record is read.
    fn write_dn(&self, id: EntryId, out: &mut String) -> Result<(), StoreError> {
        let row = self.stack().get(PlainTable::Entries, &id.0.to_be_bytes())?;
        let row = row.ok_or_else(|| StoreError::corrupt(ENTRIES, id.0, "is named, and missing"))?;
        let head = RecordHead::parse(row);
        let head = head.map_err(|reason| StoreError::corrupt(ENTRIES, id.0, reason))?;
        out.clear();
        out.push_str(head.rdn);
        if head.parent != 0 {
            out.push(',');
            out.push_str(&self.parent_dn(head.parent)?);
        }
        Ok(())
    }
}
