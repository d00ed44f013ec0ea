//! Writing change records.
//!
//! Invariant: nothing of what was decided is copied on the way but into the octets.

use aci::Permitted;
use ldap::dn::Dn;
use schema::{
    AddChange, Attribute, AttributeDelta, AttributeDescription, Change, DeleteChange, GatherChange,
    IndexChange, ModifyChange, RenameChange, SchemaChange, SettingChange,
};
use store::{Lsn, varint};

use super::{
    CHANGE_ADD, CHANGE_DELETE, CHANGE_GATHER, CHANGE_INDEX, CHANGE_MODIFY, CHANGE_NOTICE,
    CHANGE_RENAME, CHANGE_SCHEMA, CHANGE_SETTING, DELETED_ATTRIBUTES_MAX_BYTES, NOTICE_LEVEL,
    ORIGIN_LENGTH_OFFSET, Origin, PURPOSE_OID, RECORD_FORMAT, RECORD_LENGTH_MAX_BYTES, RecordDraft,
    RecordError, hash, level,
};
use crate::Csn;
use crate::log::Reign;

impl RecordDraft<'_> {
    /// The level that a reader of the record needs, see [`super::RecordHead::level`].
    #[must_use]
    pub fn level(&self) -> u16 {
        needed(self.changes.iter().map(Permitted::get))
    }

    /// Appends the record to `out`; returns the running hash after it.
    ///
    /// # Errors
    /// When the record would be longer than [`RECORD_LENGTH_MAX_BYTES`]; `out` is as it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<u64, RecordError> {
        let Self { lsn, prev_hash, reign, csn, origin, changes } = *self;
        let changes = changes.iter().map(Permitted::get);
        Parts { lsn, prev_hash, reign, csn, origin, changes }.encode(out)
    }
}

/// What a record is encoded from: one that is decided, or one that was read.
pub(super) struct Parts<'a, C> {
    pub(super) lsn: Lsn,
    pub(super) prev_hash: u64,
    pub(super) reign: Reign,
    pub(super) csn: Csn,
    pub(super) origin: &'a Origin,
    pub(super) changes: C,
}

impl<'a, C: ExactSizeIterator<Item = &'a Change> + Clone> Parts<'a, C> {
    /// See [`RecordDraft::encode`].
    pub(super) fn encode(self, out: &mut Vec<u8>) -> Result<u64, RecordError> {
        let start = out.len();
        out.extend_from_slice(&RECORD_FORMAT.to_be_bytes());
        // Who knows less can still read what says nothing new.
        out.extend_from_slice(&needed(self.changes.clone()).to_be_bytes());
        out.extend_from_slice(&self.lsn.0.to_be_bytes());
        out.extend_from_slice(&self.reign.0.to_be_bytes());
        out.extend_from_slice(&self.csn.time.0.to_be_bytes());
        out.extend_from_slice(&self.csn.count.to_be_bytes());
        out.extend_from_slice(&self.csn.replica.to_be_bytes());
        out.extend_from_slice(&self.csn.modification.to_be_bytes());
        out.extend_from_slice(&self.origin.request);
        debug_assert_eq!(out.len() - start, ORIGIN_LENGTH_OFFSET);
        write_origin(self.origin, out);
        let covered = out.len();
        out.extend_from_slice(&self.prev_hash.to_be_bytes());
        count(self.changes.len(), out);
        let mut room_bytes = DELETED_ATTRIBUTES_MAX_BYTES;
        for change in self.changes {
            write_change(change, &mut room_bytes, out);
        }
        let bytes = out.len() - start;
        if bytes > RECORD_LENGTH_MAX_BYTES {
            out.truncate(start);
            return Err(RecordError::TooLarge { bytes });
        }
        Ok(hash(out.get(covered..).unwrap_or_default()))
    }
}

/// The level that all of these changes need.
fn needed<'a>(changes: impl Iterator<Item = &'a Change>) -> u16 {
    changes.map(level).max().unwrap_or(1)
}

fn write_origin(origin: &Origin, out: &mut Vec<u8>) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(origin.op.number());
    varint::write(origin.who.session, out);
    varint::write(u64::from(origin.message.unsigned_abs()), out);
    octets(origin.who.dn.as_bytes(), out);
    octets(origin.who.authz.as_bytes(), out);
    octets(origin.who.address.as_bytes(), out);
    octets(origin.who.mechanism.as_bytes(), out);
    count(origin.controls.len() + usize::from(origin.purpose.is_some()), out);
    for control in &origin.controls {
        octets(control.as_bytes(), out);
    }
    if let Some(purpose) = &origin.purpose {
        octets(format!("{PURPOSE_OID} {purpose}").as_bytes(), out);
    }
    let length = (out.len() - length_at - 4) as u32;
    if let Some(place) = out.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// `room_bytes` is how much attributes of deleted entries may still take.
fn write_change(change: &Change, room_bytes: &mut usize, out: &mut Vec<u8>) {
    match change {
        Change::Add(AddChange { id, parent, key, entry }) => {
            out.push(CHANGE_ADD);
            varint::write(id.0, out);
            varint::write(parent.0, out);
            octets(key.as_bytes(), out);
            write_dn(entry.name(), out);
            write_attributes(entry.attributes(), out);
        }
        Change::Modify(ModifyChange { id, dn, deltas }) => {
            out.push(CHANGE_MODIFY);
            varint::write(id.0, out);
            write_dn(dn, out);
            write_deltas(deltas, out);
        }
        Change::Rename(change) => {
            // The new RDN is the leaf of the new name.
            let RenameChange { id, old_dn, new_parent, new_dn, new_rdn: _, key, deltas } = change;
            out.push(CHANGE_RENAME);
            varint::write(id.0, out);
            write_dn(old_dn, out);
            varint::write(new_parent.0, out);
            write_dn(new_dn, out);
            octets(key.as_bytes(), out);
            write_deltas(deltas, out);
        }
        Change::Delete(DeleteChange { id, dn, attributes }) => {
            out.push(CHANGE_DELETE);
            varint::write(id.0, out);
            write_dn(dn, out);
            let rest = room_bytes.checked_sub(octet_count(attributes));
            write_attributes(if rest.is_some() { attributes } else { &[] }, out);
            *room_bytes = rest.unwrap_or(*room_bytes);
        }
        Change::Schema(SchemaChange { added, removed }) => {
            out.push(CHANGE_SCHEMA);
            write_lines([added, removed], out);
        }
        Change::Index(IndexChange { added, removed }) => {
            out.push(CHANGE_INDEX);
            write_lines([added, removed], out);
        }
        Change::Setting(SettingChange { name, values }) => {
            out.push(CHANGE_SETTING);
            octets(name.as_bytes(), out);
            write_lines([values], out);
        }
        Change::Gather(GatherChange { id, dn, attributes, values_max }) => {
            out.push(CHANGE_GATHER);
            varint::write(id.0, out);
            write_dn(dn, out);
            count(attributes.len(), out);
            attributes.iter().for_each(|one| write_description(one, out));
            varint::write(*values_max, out);
        }
        Change::Level(level) => {
            out.extend_from_slice(&[CHANGE_NOTICE, NOTICE_LEVEL]);
            out.extend_from_slice(&level.to_be_bytes());
        }
    }
}

fn write_lines<const N: usize>(lists: [&[String]; N], out: &mut Vec<u8>) {
    for lines in lists {
        count(lines.len(), out);
        lines.iter().for_each(|line| octets(line.as_bytes(), out));
    }
}

fn write_dn(dn: &Dn, out: &mut Vec<u8>) {
    count(dn.rdns().len(), out);
    for rdn in dn.rdns() {
        count(rdn.avas().len(), out);
        for ava in rdn.avas() {
            octets(ava.attribute.as_bytes(), out);
            octets(&ava.value, out);
        }
    }
}

fn write_attributes(attributes: &[Attribute], out: &mut Vec<u8>) {
    count(attributes.len(), out);
    for Attribute { description, values } in attributes {
        write_description(description, out);
        write_values(values, out);
    }
}

fn write_deltas(deltas: &[AttributeDelta], out: &mut Vec<u8>) {
    count(deltas.len(), out);
    for AttributeDelta { description, removed, added } in deltas {
        write_description(description, out);
        write_values(removed, out);
        write_values(added, out);
    }
}

fn write_description(description: &AttributeDescription, out: &mut Vec<u8>) {
    octets(description.text().as_bytes(), out);
}

fn write_values(values: &[Vec<u8>], out: &mut Vec<u8>) {
    count(values.len(), out);
    values.iter().for_each(|value| octets(value, out));
}

fn octet_count(attributes: &[Attribute]) -> usize {
    let values = attributes.iter().flat_map(|attribute| &attribute.values);
    values.map(|value| value.len() + VALUE_OVERHEAD_BYTES).sum()
}

fn octets(octets: &[u8], out: &mut Vec<u8>) {
    count(octets.len(), out);
    out.extend_from_slice(octets);
}

fn count(count: usize, out: &mut Vec<u8>) {
    varint::write(count as u64, out);
}

/// At most so many octets come with each value: its length.
const VALUE_OVERHEAD_BYTES: usize = 4;
