//! Entries as LDIF.

use std::sync::Arc;

use directory::loading::LiveEntry;
use ldap::ldif::push_ldif_line;
use ldap::message::Scope;
use schema::{AttributeDescription, EntryId, Selection, Truth};
use store::{Store, StoreReader, StoredEntry, View};

use super::ExportError;
use super::place::{Moved, Place, Places};
use super::walk::{Region, Task};
use crate::in_order::Chunks;

/// What is written of an entry.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Without it all attributes are.
    pub(super) selection: Option<Selection>,
    pub(super) is_without_operational: bool,
    pub(super) has_numbers: bool,
    pub(super) fold_columns: usize,
}

/// Makes the text of entries, on a thread of its own.
#[derive(Debug)]
pub(super) struct TextMaker<'m> {
    reader: StoreReader,
    chosen: &'m Chosen,
    region: &'m Region,
    places: Places<'m>,
    /// The name being written.
    dn: Vec<u8>,
}

impl<'m> TextMaker<'m> {
    pub(super) fn new(
        store: &Arc<Store>,
        chosen: &'m Chosen,
        region: &'m Region,
        moved: &'m Moved,
    ) -> Self {
        let places = Places::new(region.base, moved);
        Self { reader: store.reader(), chosen, region, places, dn: Vec::new() }
    }

    /// Makes the text of one task, as long as it is wanted.
    pub(super) fn make(
        &mut self,
        task: Task,
        chunks: &mut Chunks<ExportError>,
    ) -> Result<(), ExportError> {
        let Self { reader, chosen, region, places, dn } = self;
        let view = reader.view()?;
        let mut writer = Writer { view, chosen, region, dn, chunks };
        match task {
            Task::Text(text) => writer.chunks.text().extend_from_slice(&text),
            Task::Entries(ids) => {
                for id in ids {
                    let Some(entry) = view.entry(id)? else { continue };
                    if !writer.write(&entry)? {
                        break;
                    }
                }
            }
            Task::Straight(ids) => {
                for id in ids {
                    let Some(entry) = view.entry(id)? else { continue };
                    if places.of(view, &entry)? == Place::Straight && !writer.write(&entry)? {
                        break;
                    }
                }
            }
            Task::Numbers(first, last) => {
                for entry in view.entries_after(EntryId(first.0 - 1))? {
                    let entry = entry?;
                    if entry.id() > last {
                        break;
                    }
                    if places.of(view, &entry)? == Place::Straight && !writer.write(&entry)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Writes the entries of one task.
struct Writer<'w> {
    view: &'w View<'w>,
    chosen: &'w Chosen,
    region: &'w Region,
    dn: &'w mut Vec<u8>,
    chunks: &'w mut Chunks<ExportError>,
}

impl Writer<'_> {
    /// Writes an entry if it is asked for; false when nobody wants more.
    fn write(&mut self, entry: &StoredEntry<'_>) -> Result<bool, ExportError> {
        if !self.is_asked_for(entry) {
            return Ok(true);
        }
        let out = self.chunks.text();
        let Chosen { selection, is_without_operational, has_numbers, fold_columns } = self.chosen;
        if *has_numbers {
            out.extend_from_slice(b"# id: ");
            out.extend_from_slice(entry.id().0.to_string().as_bytes());
            out.push(b'\n');
        }
        self.dn.clear();
        self.dn.extend_from_slice(entry.rdn().as_bytes());
        if !entry.superior_dn().is_empty() {
            self.dn.push(b',');
            self.dn.extend_from_slice(entry.superior_dn().as_bytes());
        }
        push_ldif_line(out, "dn", self.dn, *fold_columns);
        let is_asked_for = |description: &AttributeDescription| {
            !(*is_without_operational && description.is_operational())
                && selection.as_ref().is_none_or(|selection| selection.selects(description))
        };
        for (description, values) in entry.record_attributes() {
            if is_asked_for(description) {
                for value in values {
                    push_ldif_line(out, description.text(), value, *fold_columns);
                }
            }
        }
        for (description, list) in entry.outside()? {
            if !is_asked_for(description) {
                continue;
            }
            // There may be more than are to be held together.
            let (chunks, mut written) = (&mut *self.chunks, Ok(true));
            list.each(&mut |value| {
                let out = chunks.text();
                push_ldif_line(out, description.text(), value, *fold_columns);
                written = chunks.end_line();
                matches!(written, Ok(true))
            })?;
            if !written? {
                return Ok(false);
            }
        }
        self.chunks.text().push(b'\n');
        self.chunks.end_record()
    }

    fn is_asked_for(&self, entry: &StoredEntry<'_>) -> bool {
        let Region { base, scope, filter, schema } = self.region;
        if *scope == Scope::One && entry.parent() != *base {
            return false;
        }
        let Some(filter) = filter else { return true };
        let live = LiveEntry::new(self.view, entry, schema.well_known(), false);
        filter.matches(schema, &live) == Truth::True
    }
}
