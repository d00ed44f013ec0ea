//! What a change does to the rows.
//!
//! Invariant: it depends on the state before it and the change alone, so it is the same on every
//! replica and at recovery.

mod apart;
mod edit;
mod references;

use std::sync::Arc;

use ldap::dn::{Dn, Rdn};
use schema::{
    AddChange, AttributeDescription, Change, Definition, DeleteChange, DnKey, EntryId, IndexChange,
    ModifyChange, RdnKey, RenameChange, SchemaChange, SettingChange,
};

use self::apart::Called;
use self::references::{Parted, ReferenceChange};
use crate::base::digest::RowHash;
use crate::base::lmdb::{CHILDREN, ENTRIES, NAMES, PlainTable};
use crate::base::meta;
use crate::error::StoreError;
use crate::index::{BRANCH_LISTS, IndexState, LEVEL_LISTS};
use crate::overlay::deltas::{ENTRY_ID_LIMIT, PostingChange};
use crate::rows::key::{self, RowKey, display};
use crate::rows::names;
use crate::rows::record::{Outside, Record, RecordHead, RecordWriter};
use crate::write::batch::Batch;
pub use references::LISTED_MIN_BYTES;

impl Batch<'_> {
    /// Turns a change into rows and changes of posting lists.
    pub(crate) fn make(&mut self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Add(change) => self.add(change),
            Change::Modify(change) => self.modify(change),
            Change::Rename(change) => self.rename(change),
            Change::Delete(change) => self.delete(change),
            Change::Schema(change) => self.schema(change),
            Change::Index(change) => self.indexes(change),
            Change::Setting(change) => self.setting(change),
            Change::Gather(change) => self.gather_some(change),
            Change::Level(level) => self.level(*level),
        }
    }

    fn add(&mut self, change: &AddChange) -> Result<(), StoreError> {
        let (id, parent) = (change.id.0, change.parent.0);
        if id == 0 || id >= ENTRY_ID_LIMIT {
            return Err(StoreError::corrupt(ENTRIES, id, "is not the id of an entry"));
        }
        if self.get(PlainTable::Entries, &id.to_be_bytes())?.is_some() {
            return Err(StoreError::corrupt(ENTRIES, id, "is there before it is added"));
        }
        if parent != 0 && self.get(PlainTable::Entries, &parent.to_be_bytes())?.is_none() {
            return Err(StoreError::corrupt(ENTRIES, parent, "is missing, though its superior"));
        }
        let entry = &change.entry;
        let rdn = own_name(entry.name(), change.parent);
        let ids = self.attribute_ids(entry.attributes().iter().map(|one| &one.description))?;
        let mut parted = Vec::new();
        for (attribute, &attribute_id) in entry.attributes().iter().zip(&ids) {
            if let Some(parts) = self.part(attribute_id, &attribute.values)? {
                parted.push((attribute_id, parts));
            }
        }
        let mut listed: Vec<u32> = parted.iter().map(|(attribute_id, _)| *attribute_id).collect();
        listed.sort_unstable();
        let of_ids = entry.attributes().iter().zip(&ids);
        let of_ids = of_ids.map(|(attribute, id)| (*id, attribute.values.as_slice()));
        let edit = self.add_apart(Called { id, rdn: &rdn }, of_ids)?;
        let outside = Outside { listed: &listed, apart: &edit.apart };
        let mut row = std::mem::take(&mut self.row);
        let mut record = RecordWriter::begin_outside(parent, &rdn, outside, &mut row);
        for (attribute, &attribute_id) in entry.attributes().iter().zip(&ids) {
            if edit.takes(attribute_id) {
                continue;
            }
            record.attribute(attribute_id, kept(&parted, attribute_id, &attribute.values));
        }
        record.finish()?;
        self.put(PlainTable::Entries, &id.to_be_bytes(), Some(&row));
        let added = self.hash_of_row(id, &row)?;
        self.digest(RowHash::default(), added);
        self.index_entry(&row, id, true)?;
        self.row = row;
        self.put_apart(edit);
        self.put_name(parent, &change.key, id)?;
        self.count_child(parent, true)?;
        self.put_below(parent, id, true);
        for (attribute, attribute_id) in entry.attributes().iter().zip(ids) {
            let values = kept(&parted, attribute_id, &attribute.values);
            self.index_values(attribute_id, values, id, true);
        }
        for (attribute, parts) in parted {
            self.index_presence(attribute, id, true);
            for target in parts.targets {
                self.refer(id, ReferenceChange { attribute, target, is_added: true });
            }
        }
        self.counters.next_entry_id = self.counters.next_entry_id.max(id.saturating_add(1));
        self.counters.entry_count += 1;
        Ok(())
    }

    fn modify(&mut self, change: &ModifyChange) -> Result<(), StoreError> {
        self.edit(change.id.0, None, &change.deltas)
    }

    fn rename(&mut self, change: &RenameChange) -> Result<(), StoreError> {
        let id = change.id.0;
        let (old_parent, old_key) = self.name_of(id)?;
        self.remove_name(old_parent, &old_key, id)?;
        self.put_name(change.new_parent.0, &change.key, id)?;
        if old_parent != change.new_parent.0 {
            self.count_child(old_parent, false)?;
            self.count_child(change.new_parent.0, true)?;
            self.put_below(old_parent, id, false);
            self.put_below(change.new_parent.0, id, true);
            if self.child_count(id)? > 0 {
                self.put_branch(old_parent, id, false);
                self.put_branch(change.new_parent.0, id, true);
            }
        }
        if self.get(PlainTable::Children, &id.to_be_bytes())?.is_some() {
            self.counters.names_moved += 1;
        }
        let rdn = own_name(&change.new_dn, change.new_parent);
        // What is remembered is not known to all servers.
        self.forget_moved_names();
        self.edit(id, Some((change.new_parent.0, &rdn)), &change.deltas)?;
        self.forget_moved_names();
        Ok(())
    }

    fn delete(&mut self, change: &DeleteChange) -> Result<(), StoreError> {
        let id = change.id.0;
        let (parent, rdn_key) = self.name_of(id)?;
        match self.get(PlainTable::Children, &id.to_be_bytes())? {
            None => {}
            Some(row) if key::id(row) == Some(0) => {
                self.put(PlainTable::Children, &id.to_be_bytes(), None);
                self.counters.names_moved += 1;
            }
            Some(_) => {
                return Err(StoreError::corrupt(CHILDREN, id, "is not zero in a deletion"));
            }
        }
        self.remove_name(parent, &rdn_key, id)?;
        self.count_child(parent, false)?;
        self.put_below(parent, id, false);
        self.forget_target(id)?;
        self.unindex(id)?;
        self.put(PlainTable::Entries, &id.to_be_bytes(), None);
        self.counters.entry_count = self.counters.entry_count.saturating_sub(1);
        self.forget_moved_names();
        Ok(())
    }

    fn schema(&mut self, change: &SchemaChange) -> Result<(), StoreError> {
        let parse = |line: &String| {
            Definition::parse_line(line).map_err(|error| invalid_definition(line, &error))
        };
        let added: Vec<Definition> = change.added.iter().map(parse).collect::<Result<_, _>>()?;
        let removed: Vec<Definition> =
            change.removed.iter().map(parse).collect::<Result<_, _>>()?;
        let schema = self.dictionary.schema().with_change(&added, &removed);
        let schema = schema.map_err(|error| invalid_definition("change", &error))?;
        for line in &change.removed {
            self.put_digested(meta::definition_key(line)?.as_bytes(), None)?;
        }
        for line in &change.added {
            let key = meta::definition_key(line)?;
            self.put_digested(key.as_bytes(), Some(line.as_bytes()))?;
        }
        self.dictionary = Arc::new(self.dictionary.under(Arc::new(schema))?);
        Ok(())
    }

    /// Other values of a setting. What it means is not the store's business.
    fn setting(&mut self, change: &SettingChange) -> Result<(), StoreError> {
        let SettingChange { name, values } = change;
        let key = meta::setting_key(name)?;
        let row = meta::setting_row(values);
        let row = (!values.is_empty()).then_some(row.as_slice());
        self.put_digested(key.as_bytes(), row)?;
        if meta::is_at_hand(name) {
            Arc::make_mut(&mut self.dictionary).set(name, values)?;
        }
        Ok(())
    }

    /// What records may say from now on. It stands among the settings, and is none of them.
    fn level(&mut self, level: u16) -> Result<(), StoreError> {
        let row = meta::setting_row(&[level.to_string()]);
        self.put_digested(meta::setting_key(meta::LEVEL)?.as_bytes(), Some(&row))
    }

    /// Other indexes. What they hold is built and removed beside everything else, see
    /// `index/build.rs`.
    fn indexes(&mut self, change: &IndexChange) -> Result<(), StoreError> {
        let end = EntryId(self.counters.next_entry_id);
        let (dictionary, touched) = self.dictionary.changed_by(change, end)?;
        for index in dictionary.indexes().iter().filter(|index| touched.contains(&index.id)) {
            let row = meta::index_row(index);
            self.put(PlainTable::Meta, meta::index_key(index.id).as_bytes(), Some(row.as_bytes()));
            let state = meta::state_row(index.state);
            let state = state.as_deref().map(str::as_bytes);
            self.put(PlainTable::Meta, meta::state_key(index.id).as_bytes(), state);
            if matches!(index.state, IndexState::Building { .. }) {
                self.begin_index_uses(index.id);
            }
        }
        self.dictionary = Arc::new(dictionary);
        Ok(())
    }

    /// Parent and RDN key of an entry.
    fn name_of(&self, id: u64) -> Result<(u64, RdnKey), StoreError> {
        let head = self.head_of(id)?;
        let damaged = |reason: String| StoreError::corrupt(ENTRIES, id, reason);
        let key = rdn_key(head.parent, head.rdn, self.dictionary.schema()).map_err(damaged)?;
        Ok((head.parent, key))
    }

    fn head_of(&self, id: u64) -> Result<RecordHead<'_>, StoreError> {
        let row = self.get(PlainTable::Entries, &id.to_be_bytes())?;
        let row = row.ok_or_else(|| StoreError::corrupt(ENTRIES, id, "is missing"))?;
        RecordHead::parse(row).map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))
    }

    /// A record; one that is compressed is read into the buffer.
    fn record_of<'r>(&'r self, id: u64, buffer: &'r mut Vec<u8>) -> Result<Record<'r>, StoreError> {
        let row = self.get(PlainTable::Entries, &id.to_be_bytes())?;
        let row = row.ok_or_else(|| StoreError::corrupt(ENTRIES, id, "is missing"))?;
        Record::read(row, &self.dictionary, buffer)
            .map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))
    }

    fn put_name(&mut self, parent: u64, name: &RdnKey, id: u64) -> Result<(), StoreError> {
        let (row_key, is_shortened) = RowKey::name(parent, name.as_bytes());
        let row_key = row_key.as_bytes();
        let row = self.get(PlainTable::Names, row_key)?;
        if let Some(row) = row
            && names::find_in_row(row, name.as_bytes(), is_shortened)?.is_some()
        {
            return Err(StoreError::corrupt(
                NAMES,
                display(row_key),
                "is there before it is added",
            ));
        }
        let row = names::add_to_row(row, name.as_bytes(), is_shortened, id);
        self.put(PlainTable::Names, row_key, Some(&row));
        Ok(())
    }

    fn remove_name(&mut self, parent: u64, name: &RdnKey, id: u64) -> Result<(), StoreError> {
        let (row_key, is_shortened) = RowKey::name(parent, name.as_bytes());
        let row_key = row_key.as_bytes();
        let missing = || StoreError::corrupt(NAMES, display(row_key), "does not lead to its entry");
        let row = self.get(PlainTable::Names, row_key)?.ok_or_else(missing)?;
        if names::find_in_row(row, name.as_bytes(), is_shortened)? != Some(id) {
            return Err(missing());
        }
        let row = names::remove_from_row(row, is_shortened, id);
        if row.is_empty() {
            self.put(PlainTable::Names, row_key, None);
            return Ok(());
        }
        self.put(PlainTable::Names, row_key, Some(&row));
        Ok(())
    }

    /// Counts a subordinate more or less. A count that has come back to zero stays: it tells that
    /// readers may remember the entry's name.
    fn count_child(&mut self, parent: u64, is_added: bool) -> Result<(), StoreError> {
        let before = self.child_count(parent)?;
        let count = if is_added { before.checked_add(1) } else { before.checked_sub(1) };
        let count = count.ok_or_else(|| StoreError::corrupt(CHILDREN, parent, "counts too few"))?;
        self.put(PlainTable::Children, &parent.to_be_bytes(), Some(&count.to_be_bytes()));
        // With the first subordinate it becomes a branch, with the last it is none any more.
        if parent != 0 && (before == 0 || count == 0) {
            let above = self.head_of(parent)?.parent;
            self.put_branch(above, parent, is_added);
        }
        Ok(())
    }

    fn child_count(&self, parent: u64) -> Result<u64, StoreError> {
        match self.get(PlainTable::Children, &parent.to_be_bytes())? {
            None => Ok(0),
            Some(row) => {
                key::id(row).ok_or_else(|| StoreError::corrupt(CHILDREN, parent, "is no number"))
            }
        }
    }

    /// An entry comes to or goes from the level below `parent`.
    fn put_below(&mut self, parent: u64, id: u64, is_added: bool) {
        let change = PostingChange::new(id, is_added);
        self.memory.push(LEVEL_LISTS, &parent.to_be_bytes(), change);
    }

    /// An entry below `parent` begins or ceases to have subordinates there.
    fn put_branch(&mut self, parent: u64, id: u64, is_added: bool) {
        let change = PostingChange::new(id, is_added);
        self.memory.push(BRANCH_LISTS, &parent.to_be_bytes(), change);
    }

    /// The ids of descriptions; new ones get an id and a row.
    fn attribute_ids<'a>(
        &mut self,
        descriptions: impl Iterator<Item = &'a Arc<AttributeDescription>>,
    ) -> Result<Vec<u32>, StoreError> {
        let mut ids = Vec::with_capacity(descriptions.size_hint().0);
        for description in descriptions {
            let id = match self.dictionary.id(description) {
                Some(id) => id,
                None => {
                    let dictionary = Arc::make_mut(&mut self.dictionary);
                    let id = dictionary.push(Arc::clone(description))?;
                    let text = description.text().as_bytes();
                    self.put(PlainTable::Attributes, &id.to_be_bytes(), Some(text));
                    self.digest_attribute(id, description);
                    id
                }
            };
            ids.push(id);
        }
        Ok(ids)
    }
}

/// The values that stay in a record.
fn kept<'v>(
    parted: &[(u32, Parted<'v>)],
    attribute: u32,
    all: &'v [Vec<u8>],
) -> impl Iterator<Item = &'v [u8]> + Clone {
    let parts = parted.iter().find(|(one, _)| *one == attribute);
    let (some, all) = match parts {
        Some((_, parts)) => (parts.kept.clone(), &[][..]),
        None => (Vec::new(), all),
    };
    some.into_iter().chain(all.iter().map(Vec::as_slice))
}

/// What a record says of its own name: the leaf; of a naming context the whole DN.
pub(crate) fn own_name(dn: &Dn, parent: EntryId) -> String {
    match dn.rdns().first() {
        Some(leaf) if parent != EntryId::ROOT => leaf.to_string(),
        Some(_) | None => dn.to_string(),
    }
}

/// The key of a record's own name.
pub(crate) fn rdn_key(parent: u64, rdn: &str, schema: &schema::Schema) -> Result<RdnKey, String> {
    if parent == 0 {
        let key = DnKey::from_text(schema, rdn).map_err(|error| error.to_string())?;
        return Ok(RdnKey::of_naming_context(&key));
    }
    let rdn = Rdn::parse(rdn).map_err(|error| error.to_string())?;
    RdnKey::from_rdn(schema, &rdn).map_err(|error| error.to_string())
}

fn invalid_definition(line: &str, error: &dyn std::fmt::Display) -> StoreError {
    let (what, text) = ("schema definition", line.to_owned());
    StoreError::Invalid { what, text, reason: error.to_string() }
}
