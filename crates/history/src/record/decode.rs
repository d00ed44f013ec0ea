//! Reading change records.
//!
//! Invariant: memory is taken only for what is there: a count is compared with the octets that are
//! left before room is made for it. There is no recursion.

use std::borrow::Cow;
use std::sync::Arc;

use environment::Timestamp;
use ldap::description::is_oid;
use ldap::dn::{Ava, Dn, Rdn};
use schema::{
    AddChange, Attribute, AttributeDelta, AttributeDescription, Change, DeleteChange, Entry,
    EntryId, GatherChange, IndexChange, ModifyChange, RdnKey, RenameChange, Schema, SchemaChange,
    SettingChange,
};
use store::{Lsn, varint};

use super::{
    CHANGE_ADD, CHANGE_DELETE, CHANGE_GATHER, CHANGE_INDEX, CHANGE_MODIFY, CHANGE_NOTICE,
    CHANGE_RENAME, CHANGE_SCHEMA, CHANGE_SETTING, NOTICE_LEVEL, OpKind, Origin, PURPOSE_OID,
    RECORD_FORMAT, RECORD_LENGTH_MAX_BYTES, RECORD_LEVEL, Record, RecordError, RecordHead, Who,
    hash,
};
use crate::Csn;
use crate::log::Reign;

impl Record {
    /// Reads a record; `schema` is the one in force before it.
    ///
    /// # Errors
    /// When the octets are no record, or say what this release or the schema does not know.
    pub fn decode(bytes: &[u8], schema: &Schema) -> Result<Self, RecordError> {
        let (head, mut reader) = read_head(bytes)?;
        let origin = read_origin(&mut reader, head.request)?;
        let prev_hash = reader.u64()?;
        let mut record = Self {
            lsn: head.lsn,
            prev_hash,
            reign: head.reign,
            csn: head.csn,
            origin,
            changes: Vec::new(),
        };
        for _ in 0..reader.count(CHANGE_LENGTH_MIN_BYTES)? {
            let kind = reader.u8()?;
            record.changes.push(read_change(kind, &mut reader, schema)?);
        }
        if reader.rest.is_empty() { Ok(record) } else { Err(reader.error("more than a record")) }
    }
}

impl RecordHead {
    /// Reads what needs no schema.
    ///
    /// # Errors
    /// When the octets are no record, or one of a newer layout or level.
    pub fn read(bytes: &[u8]) -> Result<Self, RecordError> {
        let (mut head, mut reader) = read_head(bytes)?;
        let origin_bytes = reader.u32()?;
        reader.take(origin_bytes as usize)?;
        let covered = reader.rest;
        head.prev_hash = reader.u64()?;
        head.hash = hash(covered);
        Ok(head)
    }
}

/// Reads what is at a fixed place; both hashes are not yet known.
fn read_head(bytes: &[u8]) -> Result<(RecordHead, Reader<'_>), RecordError> {
    if bytes.len() > RECORD_LENGTH_MAX_BYTES {
        return Err(RecordError::TooLarge { bytes: bytes.len() });
    }
    let mut reader = Reader { rest: bytes, length: bytes.len() };
    let format = reader.u16()?;
    if format != RECORD_FORMAT {
        return Err(RecordError::UnknownKind { what: "record format", number: format.into() });
    }
    let level = reader.u16()?;
    if level > RECORD_LEVEL {
        return Err(unknown_level(level));
    }
    let (lsn, reign) = (Lsn(reader.u64()?), Reign(reader.u64()?));
    let csn = Csn {
        time: Timestamp(reader.u64()?),
        count: reader.u32()?,
        replica: reader.u16()?,
        modification: reader.u32()?,
    };
    let request = reader.array::<16>()?;
    Ok((RecordHead { format, level, lsn, prev_hash: 0, hash: 0, reign, csn, request }, reader))
}

fn read_origin(reader: &mut Reader<'_>, request: [u8; 16]) -> Result<Origin, RecordError> {
    let bytes = reader.u32()? as usize;
    let end = reader.offset() + bytes;
    let number = reader.u8()?;
    let op = OpKind::ALL.into_iter().find(|op| op.number() == number);
    let op =
        op.ok_or(RecordError::UnknownKind { what: "operation kind", number: number.into() })?;
    let session = reader.varint()?;
    let message = reader.varint()?;
    let message = i32::try_from(message).map_err(|_| reader.error("is no message id"))?;
    let mut text = || reader.text().map(str::to_owned);
    let (dn, authz, address, mechanism) = (text()?, text()?, text()?, Cow::Owned(text()?));
    let who = Who { dn, authz, address, mechanism, session };
    let mut controls: Vec<Cow<'static, str>> = Vec::new();
    for _ in 0..reader.count(1)? {
        controls.push(Cow::Owned(reader.text()?.to_owned()));
    }
    if reader.offset() != end {
        return Err(reader.error("the origin has another length"));
    }
    let purpose = controls.last().and_then(|last| purpose(last));
    if purpose.is_some() {
        controls.pop();
    }
    Ok(Origin { request, who: Arc::new(who), message, op, controls, purpose })
}

/// What stands behind the OID of the control that says why.
fn purpose(control: &str) -> Option<Arc<str>> {
    control.strip_prefix(PURPOSE_OID)?.strip_prefix(' ').map(Arc::from)
}

fn unknown_level(level: u16) -> RecordError {
    RecordError::UnknownKind { what: "record level", number: level.into() }
}

/// Something about the records themselves.
fn read_notice(reader: &mut Reader<'_>) -> Result<Change, RecordError> {
    match reader.u8()? {
        NOTICE_LEVEL => match reader.u16()? {
            level if level > RECORD_LEVEL => Err(unknown_level(level)),
            level => Ok(Change::Level(level)),
        },
        number => Err(RecordError::UnknownKind { what: "notice kind", number: number.into() }),
    }
}

fn read_change(kind: u8, reader: &mut Reader<'_>, schema: &Schema) -> Result<Change, RecordError> {
    match kind {
        CHANGE_ADD => {
            let (id, parent) = (reader.entry_id()?, EntryId(reader.varint()?));
            let key = RdnKey::from_bytes(reader.octets()?.to_vec());
            let name = read_dn(reader)?;
            let entry = Entry::from_stored(name, read_attributes(reader, schema)?);
            Ok(Change::Add(AddChange { id, parent, key, entry }))
        }
        CHANGE_MODIFY => {
            let (id, dn) = (reader.entry_id()?, read_dn(reader)?);
            let deltas = read_deltas(reader, schema)?;
            Ok(Change::Modify(ModifyChange { id, dn, deltas }))
        }
        CHANGE_RENAME => {
            let (id, old_dn) = (reader.entry_id()?, read_dn(reader)?);
            let new_parent = EntryId(reader.varint()?);
            let new_dn = read_dn(reader)?;
            let new_rdn = new_dn.rdns().first().cloned();
            let new_rdn = new_rdn.ok_or_else(|| reader.error("an entry without a name"))?;
            let key = RdnKey::from_bytes(reader.octets()?.to_vec());
            let deltas = read_deltas(reader, schema)?;
            let change = RenameChange { id, old_dn, new_parent, new_dn, new_rdn, key, deltas };
            Ok(Change::Rename(change))
        }
        CHANGE_DELETE => {
            let (id, dn) = (reader.entry_id()?, read_dn(reader)?);
            let attributes = read_attributes(reader, schema)?;
            Ok(Change::Delete(DeleteChange { id, dn, attributes }))
        }
        CHANGE_SCHEMA => {
            let (added, removed) = (read_lines(reader)?, read_lines(reader)?);
            Ok(Change::Schema(SchemaChange { added, removed }))
        }
        CHANGE_INDEX => {
            let (added, removed) = (read_lines(reader)?, read_lines(reader)?);
            Ok(Change::Index(IndexChange { added, removed }))
        }
        CHANGE_SETTING => {
            let (name, values) = (reader.text()?.to_owned(), read_lines(reader)?);
            Ok(Change::Setting(SettingChange { name, values }))
        }
        CHANGE_GATHER => {
            let (id, dn) = (reader.entry_id()?, read_dn(reader)?);
            let mut attributes = Vec::new();
            for _ in 0..reader.count(1)? {
                attributes.push(read_description(reader, schema)?);
            }
            let values_max = reader.varint()?;
            Ok(Change::Gather(GatherChange { id, dn, attributes, values_max }))
        }
        CHANGE_NOTICE => read_notice(reader),
        number => Err(RecordError::UnknownKind { what: "change kind", number: number.into() }),
    }
}

fn read_dn(reader: &mut Reader<'_>) -> Result<Dn, RecordError> {
    let rdn_count = reader.count(RDN_LENGTH_MIN_BYTES)?;
    let mut rdns = Vec::with_capacity(rdn_count);
    for _ in 0..rdn_count {
        let ava_count = reader.count(AVA_LENGTH_MIN_BYTES)?;
        let mut avas = Vec::with_capacity(ava_count);
        for _ in 0..ava_count {
            let attribute = reader.text()?;
            if !is_oid(attribute) {
                return Err(reader.error("is no attribute type"));
            }
            let attribute = attribute.to_owned();
            avas.push(Ava { attribute, value: reader.octets()?.to_vec() });
        }
        rdns.push(Rdn::new(avas).ok_or_else(|| reader.error("an RDN is empty"))?);
    }
    Ok(Dn::new(rdns))
}

fn read_attributes(
    reader: &mut Reader<'_>,
    schema: &Schema,
) -> Result<Vec<Attribute>, RecordError> {
    let count = reader.count(ATTRIBUTE_LENGTH_MIN_BYTES)?;
    let mut attributes = Vec::with_capacity(count);
    for _ in 0..count {
        let description = read_description(reader, schema)?;
        let values = read_values(reader)?;
        if values.is_empty() {
            return Err(reader.error("an attribute without values"));
        }
        attributes.push(Attribute { description, values });
    }
    Ok(attributes)
}

fn read_deltas(
    reader: &mut Reader<'_>,
    schema: &Schema,
) -> Result<Vec<AttributeDelta>, RecordError> {
    let count = reader.count(ATTRIBUTE_LENGTH_MIN_BYTES)?;
    let mut deltas = Vec::with_capacity(count);
    for _ in 0..count {
        let description = read_description(reader, schema)?;
        let (removed, added) = (read_values(reader)?, read_values(reader)?);
        deltas.push(AttributeDelta { description, removed, added });
    }
    Ok(deltas)
}

fn read_description(
    reader: &mut Reader<'_>,
    schema: &Schema,
) -> Result<Arc<AttributeDescription>, RecordError> {
    let text = reader.text()?;
    let unknown = |error| RecordError::Attribute { text: text.to_owned(), error };
    schema.describe(text).map_err(unknown)
}

fn read_values(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, RecordError> {
    let count = reader.count(1)?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(reader.octets()?.to_vec());
    }
    Ok(values)
}

fn read_lines(reader: &mut Reader<'_>) -> Result<Vec<String>, RecordError> {
    let count = reader.count(1)?;
    let mut lines = Vec::with_capacity(count);
    for _ in 0..count {
        lines.push(reader.text()?.to_owned());
    }
    Ok(lines)
}

/// What is left of the octets.
struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    fn offset(&self) -> usize {
        self.length - self.rest.len()
    }

    fn error(&self, reason: &'static str) -> RecordError {
        RecordError::Malformed { offset: self.offset(), reason }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let error = || self.error(ENDS);
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(error)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let error = || self.error(ENDS);
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(error)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, RecordError> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_be_bytes)
    }

    fn varint(&mut self) -> Result<u64, RecordError> {
        varint::read(&mut self.rest).ok_or_else(|| self.error("is no number"))
    }

    fn entry_id(&mut self) -> Result<EntryId, RecordError> {
        match self.varint()? {
            0 => Err(self.error("the root is no entry")),
            id => Ok(EntryId(id)),
        }
    }

    /// How many things follow, each of at least `each_bytes`. The length of the record bounds it:
    /// a limit of another kind could keep out what was acknowledged.
    fn count(&mut self, each_bytes: usize) -> Result<usize, RecordError> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count > self.rest.len() / each_bytes {
            return Err(self.error(ENDS));
        }
        Ok(count)
    }

    fn octets(&mut self) -> Result<&'a [u8], RecordError> {
        let length = self.count(1)?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a str, RecordError> {
        let octets = self.octets()?;
        std::str::from_utf8(octets).map_err(|_| self.error("is not text"))
    }
}

const ENDS: &str = "ends within the record";

// The fewest octets that each of several things takes.
const CHANGE_LENGTH_MIN_BYTES: usize = 2;
const RDN_LENGTH_MIN_BYTES: usize = 3;
const AVA_LENGTH_MIN_BYTES: usize = 2;
const ATTRIBUTE_LENGTH_MIN_BYTES: usize = 2;
