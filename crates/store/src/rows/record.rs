//! Entry records: what a row of `entries` holds.
//!
//! A version octet, the parent's id, the length and the text of the own RDN (of a naming context:
//! the whole DN), and then for each attribute its id, the length of its values, and the values as
//! they are sent: OCTET STRING after OCTET STRING. In version 2 all attributes are compressed: the
//! number of a dictionary, and a frame (see `base/compress.rs`). Version 3 is version 1 with the
//! ids of those attributes between name and attributes that have values in a reference list (see
//! `references.rs`), and perhaps some in the record, too. Version 4 has behind these ids those of
//! the attributes whose values are rows of their own (see `rows/apart.rs`), all of them, and how
//! many these are.
//!
//! Invariants: an attribute has one value at least, wherever it is, and is there once; a record
//! that was parsed has whole attributes with known ids, so walking it cannot fail.

use ldap::ber::{Reader, Tag, Writer};
use ldap::message::Values;

use crate::error::StoreError;
use crate::rows::dictionary::Dictionary;
use crate::rows::varint;

/// The version with attributes as they are.
const RECORD_VERSION: u8 = 1;
/// The version with compressed attributes.
const RECORD_VERSION_COMPRESSED: u8 = 2;
/// The version with attributes as they are, some of which have a reference list.
const RECORD_VERSION_LISTED: u8 = 3;
/// The version with attributes as they are, and others whose values are rows of their own.
const RECORD_VERSION_APART: u8 = 4;
/// The largest record. LMDB takes up to 4 GiB, but a change rewrites the whole record.
pub const RECORD_LENGTH_MAX_BYTES: usize = 256 << 20;

/// A record in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) parent: u64,
    /// As it was sent; of a naming context the whole DN.
    pub(crate) rdn: &'a str,
    pub(crate) listed: Listed<'a>,
    pub(crate) apart: Apart<'a>,
    attributes: &'a [u8],
}

/// An attribute of a record whose values are rows of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ApartOf {
    pub(crate) attribute: u32,
    /// How many values it has.
    pub(crate) count: u64,
    /// Their octets as they are sent, with tags and lengths.
    pub(crate) octets: u64,
}

/// The attributes of a record whose values are rows of their own, in the order of their ids.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Apart<'a>(&'a [u8]);

impl<'a> Apart<'a> {
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = ApartOf> + Clone + 'a {
        let mut rest = self.0;
        std::iter::from_fn(move || read_apart(&mut rest))
    }

    pub(crate) fn of(self, attribute: u32) -> Option<ApartOf> {
        self.iter().find(|one| one.attribute == attribute)
    }

    /// Refuses what no writer makes.
    #[cold]
    fn check(self, attribute_count: usize) -> Result<(), &'static str> {
        let (mut rest, mut last) = (self.0, None);
        while !rest.is_empty() {
            let one = read_apart(&mut rest).ok_or("ends within the numbers of values apart")?;
            let id = one.attribute;
            if id as usize >= attribute_count || last.is_some_and(|last| last >= id) {
                return Err("has values apart of an attribute that is not in the table, or twice");
            }
            if one.count == 0 {
                return Err("has an attribute without values");
            }
            last = Some(id);
        }
        Ok(())
    }
}

fn read_apart(rest: &mut &[u8]) -> Option<ApartOf> {
    let attribute = u32::try_from(varint::read(rest)?).ok()?;
    Some(ApartOf { attribute, count: varint::read(rest)?, octets: varint::read(rest)? })
}

/// What a new record says of values that are not in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outside<'o> {
    /// The attributes that have a reference list, in the order of their ids.
    pub(crate) listed: &'o [u32],
    /// The attributes whose values are rows of their own, in the order of their ids.
    pub(crate) apart: &'o [ApartOf],
}

/// The ids of the attributes of a record that have a reference list, in ascending order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Listed<'a>(&'a [u8]);

impl<'a> Listed<'a> {
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(self, attribute: u32) -> bool {
        self.iter().any(|one| one == attribute)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u32> + Clone + 'a {
        let mut rest = self.0;
        std::iter::from_fn(move || varint::read(&mut rest).map(|id| id as u32))
    }

    /// Refuses what no writer makes.
    #[cold]
    fn check(self, attribute_count: usize) -> Result<(), &'static str> {
        let (mut rest, mut last) = (self.0, None);
        while !rest.is_empty() {
            let id = varint::read(&mut rest).ok_or("ends within the ids of lists")?;
            if id >= attribute_count as u64 || last.is_some_and(|last| last >= id) {
                return Err("has a list of an attribute that is not in the table, or two");
            }
            last = Some(id);
        }
        Ok(())
    }
}

/// What of a record is never compressed, and the rest as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead<'a> {
    pub(crate) parent: u64,
    /// As in [`Record::rdn`].
    pub(crate) rdn: &'a str,
    pub(crate) listed: Listed<'a>,
    pub(crate) apart: Apart<'a>,
    body: Body<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    Plain(&'a [u8]),
    Compressed { dictionary: u64, frame: &'a [u8] },
}

impl<'a> RecordHead<'a> {
    /// Reads the head of a record; its attributes are not looked into.
    #[inline]
    pub(crate) fn parse(row: &'a [u8]) -> Result<Self, &'static str> {
        let (&version, mut rest) = row.split_first().ok_or("is empty")?;
        if !(RECORD_VERSION..=RECORD_VERSION_APART).contains(&version) {
            return Err("has an unknown version");
        }
        let parent = varint::read(&mut rest).ok_or("has no parent")?;
        let rdn = read_block(&mut rest).ok_or("has no RDN")?;
        let rdn = std::str::from_utf8(rdn).map_err(|_| "has an RDN that is not UTF-8")?;
        let (mut listed, mut apart) = (Listed::default(), Apart::default());
        if version >= RECORD_VERSION_LISTED {
            listed = Listed(read_block(&mut rest).ok_or("has no ids of lists")?);
            if version == RECORD_VERSION_APART {
                apart = Apart(read_block(&mut rest).ok_or("has no numbers of values apart")?);
            }
        }
        let body = if version != RECORD_VERSION_COMPRESSED {
            Body::Plain(rest)
        } else {
            let dictionary = varint::read(&mut rest).ok_or("has no dictionary")?;
            Body::Compressed { dictionary, frame: rest }
        };
        Ok(Self { parent, rdn, listed, apart, body })
    }

    /// The attributes; none when they are compressed.
    pub(crate) const fn plain_attributes(&self) -> Option<&'a [u8]> {
        match self.body {
            Body::Plain(attributes) => Some(attributes),
            Body::Compressed { .. } => None,
        }
    }

    /// The attributes, checked; none when they are compressed.
    #[inline]
    pub(crate) fn plain(&self, attribute_count: usize) -> Result<Option<&'a [u8]>, &'static str> {
        let attributes = self.plain_attributes();
        if let Some(attributes) = attributes {
            self.check_outside(attribute_count)?;
            check_attributes(attributes, attribute_count)?;
        }
        Ok(attributes)
    }

    /// The attributes, checked. Those that are compressed are written to the buffer.
    #[inline]
    pub(crate) fn attributes<'b>(
        &self,
        dictionary: &Dictionary,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], &'static str>
    where
        'a: 'b,
    {
        let attributes = match self.body {
            Body::Plain(attributes) => attributes,
            Body::Compressed { dictionary: number, frame } => {
                let compression = dictionary.compression();
                let compression = compression.ok_or("is compressed, and the directory is not")?;
                compression.decompress(number, frame, buffer)?;
                // One damaged octet of a frame may be many of what it holds.
                check_attributes(buffer, dictionary.len())?;
                check_values(buffer)?;
                return Ok(buffer);
            }
        };
        self.check_outside(dictionary.len())?;
        check_attributes(attributes, dictionary.len())?;
        Ok(attributes)
    }

    #[inline]
    fn check_outside(&self, attribute_count: usize) -> Result<(), &'static str> {
        if !self.listed.is_empty() {
            self.listed.check(attribute_count)?;
        }
        if !self.apart.is_empty() {
            self.apart.check(attribute_count)?;
        }
        Ok(())
    }

    /// Whether it says of values that are not in it.
    pub(crate) const fn has_outside(&self) -> bool {
        !self.listed.is_empty() || !self.apart.is_empty()
    }
}

/// Refuses attributes that no writer makes. Values are not looked into.
#[inline]
fn check_attributes(mut rest: &[u8], attribute_count: usize) -> Result<(), &'static str> {
    while !rest.is_empty() {
        let id = varint::read(&mut rest).ok_or("ends within an attribute")?;
        let values = read_block(&mut rest).ok_or("ends within an attribute")?;
        if id >= attribute_count as u64 {
            return Err("has an attribute that is not in the table");
        }
        if values.is_empty() {
            return Err("has an attribute without values");
        }
    }
    Ok(())
}

/// Refuses values that are not in the form in which they are sent.
fn check_values(mut rest: &[u8]) -> Result<(), &'static str> {
    while !rest.is_empty() {
        varint::read(&mut rest).ok_or("ends within an attribute")?;
        let mut values = Reader::new(read_block(&mut rest).ok_or("ends within an attribute")?);
        while !values.is_empty() {
            values.octets(Tag::OCTET_STRING).map_err(|_| "has a damaged value")?;
        }
    }
    Ok(())
}

impl<'a> Record<'a> {
    /// Reads a record that is not compressed; refuses what no writer makes. Values are not looked
    /// into.
    #[inline]
    pub(crate) fn parse(row: &'a [u8], attribute_count: usize) -> Result<Self, &'static str> {
        let head = RecordHead::parse(row)?;
        let attributes = head.plain(attribute_count)?.ok_or("is compressed")?;
        Ok(Self::of_head(&head, attributes))
    }

    /// Reads a record of any version. One that is compressed is read into the buffer.
    #[inline]
    pub(crate) fn read(
        row: &'a [u8],
        dictionary: &Dictionary,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Self, &'static str> {
        let head = RecordHead::parse(row)?;
        let attributes = head.attributes(dictionary, buffer)?;
        Ok(Self::of_head(&head, attributes))
    }

    /// A record of parts that were read before.
    #[inline]
    pub(crate) const fn of_head(head: &RecordHead<'a>, attributes: &'a [u8]) -> Self {
        let &RecordHead { parent, rdn, listed, apart, .. } = head;
        Self { parent, rdn, listed, apart, attributes }
    }

    /// A record of parts that were read before.
    #[inline]
    pub(crate) const fn of_parts(
        parent: u64,
        rdn: &'a str,
        listed: Listed<'a>,
        apart: Apart<'a>,
        attributes: &'a [u8],
    ) -> Self {
        Self { parent, rdn, listed, apart, attributes }
    }

    /// Writes a record again, below another superior, into an empty buffer.
    pub(crate) fn copy_below(row: &[u8], parent: u64, out: &mut Vec<u8>) -> Option<()> {
        let (&version, mut rest) = row.split_first()?;
        varint::read(&mut rest)?;
        out.clear();
        out.push(version);
        varint::write(parent, out);
        out.extend_from_slice(rest);
        Some(())
    }

    /// The octets of all attributes.
    pub(crate) const fn attribute_octets(&self) -> &'a [u8] {
        self.attributes
    }

    /// The attributes in order: id and values.
    #[inline]
    pub(crate) const fn attributes(&self) -> RecordAttributes<'a> {
        RecordAttributes { rest: self.attributes }
    }

    /// The attributes in order: id and octets of the values, whatever these are.
    pub(crate) fn attributes_unchecked(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let mut rest = self.attributes;
        std::iter::from_fn(move || {
            let id = varint::read(&mut rest)?;
            Some((id as u32, read_block(&mut rest)?))
        })
    }

    /// The values of one attribute.
    pub(crate) fn values(&self, id: u32) -> Values<'a> {
        self.attributes()
            .find(|(found, _)| *found == id)
            .map_or(Values::EMPTY, |(_, values)| values)
    }
}

/// Walks the attributes of a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordAttributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for RecordAttributes<'a> {
    type Item = (u32, Values<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Values<'a>)> {
        let id = varint::read(&mut self.rest)?;
        let values = read_block(&mut self.rest)?;
        Some((id as u32, Values::from_ber_trusted(values)))
    }
}

#[inline]
fn read_block<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint::read(rest)?).ok()?;
    let (block, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(block)
}

/// Writes a compressed record into an empty buffer.
pub(crate) fn write_compressed(
    head: &RecordHead<'_>,
    dictionary: u64,
    frame: &[u8],
    out: &mut Vec<u8>,
) {
    out.clear();
    out.push(RECORD_VERSION_COMPRESSED);
    varint::write(head.parent, out);
    varint::write(head.rdn.len() as u64, out);
    out.extend_from_slice(head.rdn.as_bytes());
    varint::write(dictionary, out);
    out.extend_from_slice(frame);
}

/// Writes a record.
#[derive(Debug)]
pub(crate) struct RecordWriter<'o> {
    out: &'o mut Vec<u8>,
    values: Vec<u8>,
}

impl<'o> RecordWriter<'o> {
    /// Starts a record in an empty buffer.
    pub(crate) fn begin(parent: u64, rdn: &str, out: &'o mut Vec<u8>) -> Self {
        Self::begin_outside(parent, rdn, Outside::default(), out)
    }

    /// As [`Self::begin`], of an entry that has values outside of the record.
    pub(crate) fn begin_outside(
        parent: u64,
        rdn: &str,
        outside: Outside<'_>,
        out: &'o mut Vec<u8>,
    ) -> Self {
        let Outside { listed, apart } = outside;
        out.clear();
        out.push(match (listed, apart) {
            ([], []) => RECORD_VERSION,
            (_, []) => RECORD_VERSION_LISTED,
            (_, _) => RECORD_VERSION_APART,
        });
        varint::write(parent, out);
        varint::write(rdn.len() as u64, out);
        out.extend_from_slice(rdn.as_bytes());
        let mut values = Vec::new();
        if !listed.is_empty() || !apart.is_empty() {
            listed.iter().for_each(|id| varint::write(u64::from(*id), &mut values));
            varint::write(values.len() as u64, out);
            out.extend_from_slice(&values);
        }
        if !apart.is_empty() {
            values.clear();
            for ApartOf { attribute, count, octets } in apart {
                let numbers = [u64::from(*attribute), *count, *octets];
                numbers.into_iter().for_each(|number| varint::write(number, &mut values));
            }
            varint::write(values.len() as u64, out);
            out.extend_from_slice(&values);
        }
        Self { out, values }
    }

    /// Appends an attribute; one without values is left out.
    pub(crate) fn attribute<'v>(&mut self, id: u32, values: impl Iterator<Item = &'v [u8]>) {
        self.values.clear();
        let mut writer = Writer::new(&mut self.values);
        values.for_each(|value| writer.octets(Tag::OCTET_STRING, value));
        if !self.values.is_empty() {
            varint::write(u64::from(id), self.out);
            varint::write(self.values.len() as u64, self.out);
            self.out.extend_from_slice(&self.values);
        }
    }

    /// Appends an attribute as it was in another record.
    pub(crate) fn copy(&mut self, id: u32, values: Values<'_>) {
        varint::write(u64::from(id), self.out);
        varint::write(values.as_ber().len() as u64, self.out);
        self.out.extend_from_slice(values.as_ber());
    }

    /// Checks the size of what was written.
    pub(crate) fn finish(self) -> Result<(), StoreError> {
        if self.out.len() > RECORD_LENGTH_MAX_BYTES {
            return Err(StoreError::TooLarge {
                what: "an entry",
                bytes: self.out.len(),
                limit_bytes: RECORD_LENGTH_MAX_BYTES,
            });
        }
        debug_assert!(Record::parse(self.out, usize::MAX).is_ok(), "what is written can be read");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_what_it_wrote(
            parent: u64,
            rdn: String,
            attributes in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
                0..6,
            ),
        ) {
            let mut out = vec![7];
            let mut writer = RecordWriter::begin(parent, &rdn, &mut out);
            for (id, values) in attributes.iter().enumerate() {
                writer.attribute(id as u32 * 100, values.iter().map(Vec::as_slice));
            }
            writer.finish().unwrap();
            let record = Record::parse(&out, 501).unwrap();
            prop_assert_eq!(record.parent, parent);
            prop_assert_eq!(record.rdn, rdn);
            let read: Vec<(u32, Vec<Vec<u8>>)> = record
                .attributes()
                .map(|(id, values)| (id, values.iter().map(<[u8]>::to_vec).collect()))
                .collect();
            let want: Vec<_> =
                attributes.into_iter().enumerate().map(|(id, v)| (id as u32 * 100, v)).collect();
            prop_assert_eq!(read, want);
        }

        #[test]
        fn damage_never_panics(row: Vec<u8>, cut in 0_usize..40) {
            let mut out = Vec::new();
            let mut writer = RecordWriter::begin(3, "cn=x", &mut out);
            writer.attribute(1, [&b"value"[..], b"other"].into_iter());
            writer.finish().unwrap();
            let cut = &out[..cut.min(out.len())];
            for row in [&row[..], cut] {
                if let Ok(record) = Record::parse(row, 2) {
                    prop_assert!(record.attributes().all(|(id, _)| id < 2) || row != cut);
                }
            }
        }
    }

    #[test]
    fn attributes_without_values_are_left_out() {
        let mut out = Vec::new();
        let mut writer = RecordWriter::begin(0, "dc=x", &mut out);
        writer.attribute(5, std::iter::empty());
        writer.finish().unwrap();
        assert_eq!(Record::parse(&out, 0).unwrap().attributes().count(), 0);
    }
}
