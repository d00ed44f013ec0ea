//! Reference lists: which entries an attribute names that names very many, and which entries name
//! one like this. Both are posting lists, of entry ids: adding the ten-millionth member of a group
//! takes what adding the first one does, and a renamed entry changes none of them.
//!
//! Invariant: what is in a list is an entry. A value is in the list or in the record, never in
//! both.

use std::cell::OnceCell;
use std::sync::Arc;

use ldap::ber::{Tag, Writer, tlv_len};
use schema::{AttributeDescription, DnKey, EntryId};

use super::{List, Resolved, View};
use crate::base::lmdb::{ENTRIES, PlainTable};
use crate::error::StoreError;
use crate::index::{SOURCE_LISTS, TARGET_LISTS};
use crate::read::interrupt::Interrupt;
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
        let mut name = String::new();
        self.each(EntryId::ROOT, &mut |_, rdn, superior| {
            name.clear();
            name.push_str(rdn);
            if !superior.is_empty() {
                name.push(',');
                name.push_str(superior);
            }
            visit(&name)
        })?;
        Ok(())
    }

    /// Calls `visit` with the id, the RDN and the name of the superior of each entry that is named,
    /// from the one after `after` on, until it returns false. Whether all were visited.
    fn each(
        &self,
        after: EntryId,
        visit: &mut dyn FnMut(EntryId, &str, &str) -> bool,
    ) -> Result<bool, StoreError> {
        let (mut last, mut names) = (after, NameReader::new(self.view));
        // Many who ask want the first ones.
        let mut most = NAMES_FIRST;
        loop {
            let ids = self.after(last, most)?;
            let Some(end) = ids.last() else { return Ok(true) };
            last = *end;
            if !names.each(&ids, visit)? {
                return Ok(false);
            }
            most = (most * 4).min(NAMES_AT_ONCE);
        }
    }

    /// How many octets [`Self::write_after`] writes for all of them.
    ///
    /// # Errors
    /// [`StoreError::Interrupted`], or when the store cannot be read.
    pub fn octets(&self, interrupt: Interrupt<'_>) -> Result<u64, StoreError> {
        let (mut octets, mut names) = (0, 0);
        let mut is_stopped = false;
        self.each(EntryId::ROOT, &mut |_, rdn, superior| {
            let beside = if superior.is_empty() { 0 } else { 1 + superior.len() };
            octets += tlv_len(rdn.len() + beside) as u64;
            names += 1_usize;
            is_stopped = names.is_multiple_of(NAMES_AT_ONCE) && interrupt();
            !is_stopped
        })?;
        if is_stopped { Err(StoreError::Interrupted) } else { Ok(octets) }
    }

    /// Appends the names after `after` as values are sent, OCTET STRING after OCTET STRING, until
    /// `out` has `bytes_max` octets or a name more. The last entry that was named; none when there
    /// are no more.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn write_after(
        &self,
        after: EntryId,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Option<EntryId>, StoreError> {
        let mut last = after;
        let is_all = self.each(after, &mut |id, rdn, superior| {
            last = id;
            let beside = if superior.is_empty() { 0 } else { 1 + superior.len() };
            Writer::new(out).header(Tag::OCTET_STRING, rdn.len() + beside);
            out.extend_from_slice(rdn.as_bytes());
            if beside > 0 {
                out.push(b',');
                out.extend_from_slice(superior.as_bytes());
            }
            out.len() < bytes_max
        })?;
        Ok((!is_all).then_some(last))
    }

    /// As [`Self::write_after`], behind what an answer of this method says.
    pub(super) fn write_behind(
        &self,
        after: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let after = crate::rows::key::id(after).map_or(EntryId::ROOT, EntryId);
        let last = self.write_after(after, out, bytes_max)?;
        Ok(last.map(|id| id.0.to_be_bytes().to_vec()))
    }

    /// Appends all names as values are sent.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        self.write_after(EntryId::ROOT, out, usize::MAX)?;
        Ok(())
    }
}

/// Reads the names of entries, and no more of their records.
struct NameReader<'v> {
    view: &'v View<'v>,
    /// The superior of the last one, and its name: neighbours mostly have the same.
    parent: u64,
    superior: Arc<str>,
}

impl<'v> NameReader<'v> {
    fn new(view: &'v View<'v>) -> Self {
        Self { view, parent: 0, superior: Arc::default() }
    }

    /// Calls `visit` with the id, the RDN and the name of the superior of each entry, whose ids are
    /// in ascending order, until it returns false; whether it went on.
    fn each(
        &mut self,
        ids: &[EntryId],
        visit: &mut dyn FnMut(EntryId, &str, &str) -> bool,
    ) -> Result<bool, StoreError> {
        let view = self.view;
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(true) };
        let span = last.0.saturating_sub(first.0) / ids.len() as u64;
        // What a batch has changed so far is not in order.
        let is_walked = ids.len() > WALKED_MIN && span < WALKED_SPAN && view.memory.is_none();
        let mut rows = match is_walked {
            true => Some(view.rows(PlainTable::Entries, &first.0.to_be_bytes(), &[])?),
            false => None,
        };
        for id in ids {
            let id_key = id.0.to_be_bytes();
            let row = match &mut rows {
                None => view.stack().get(PlainTable::Entries, &id_key)?,
                Some(rows) => loop {
                    match rows.next().transpose()? {
                        Some((key, _)) if *key < id_key[..] => {}
                        Some((key, row)) if *key == id_key[..] => break Some(row),
                        Some(_) | None => break None,
                    }
                },
            };
            let missing = || StoreError::corrupt(ENTRIES, id.0, "is named, and missing");
            let head = RecordHead::parse(row.ok_or_else(missing)?);
            let head = head.map_err(|reason| StoreError::corrupt(ENTRIES, id.0, reason))?;
            if head.parent != self.parent {
                (self.parent, self.superior) = (head.parent, view.parent_dn(head.parent)?);
            }
            if !visit(*id, head.rdn, &self.superior) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// So many values of a list are read at once; of more a part is to be asked for.
pub(super) const LISTED_READ_MAX: u64 = 2_000_000;
/// So many ids are held to find their names, at first and later.
const NAMES_FIRST: usize = 8;
const NAMES_AT_ONCE: usize = 1024;
/// The records of so many entries and more are walked where every so-many-th is wanted: a step
/// costs about a fifth of finding one.
const WALKED_MIN: usize = 32;
const WALKED_SPAN: u64 = 4;

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

    /// The entries whose lists name an entry, each with the attribute by which it does; `most` of
    /// them, if there are more.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn listed_sources(
        &self,
        target: EntryId,
        most: usize,
    ) -> Result<Vec<(Arc<AttributeDescription>, EntryId)>, StoreError> {
        let mut found = Vec::new();
        for attribute in self.dictionary().listed() {
            let Some(list) = self.sources(*attribute, target)? else { continue };
            let Some(description) = self.dictionary().description(*attribute) else { continue };
            let mut last = 0;
            while found.len() < most {
                let some = self.ids_after(&list, last, most - found.len())?;
                let Some(end) = some.last() else { break };
                last = *end;
                let room = most - found.len();
                let some = some.into_iter().take(room);
                found.extend(some.map(|id| (Arc::clone(description), EntryId(id))));
            }
        }
        Ok(found)
    }

    /// The list of those that name `target` by `attribute`, an attribute id.
    pub(crate) fn sources(
        &self,
        attribute: u32,
        target: EntryId,
    ) -> Result<Option<List<'_>>, StoreError> {
        self.list(SOURCE_LISTS, &source_key(attribute, target.0))
    }
}

#[cfg(test)]
mod tests;
