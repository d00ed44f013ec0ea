//! The values of controls and extended operations that have a structure of their own.
//!
//! Invariants: a value is one element and nothing after it; what a writer here writes, the reader
//! beside it reads back equal; decoding borrows and has the limits of messages.

pub mod changelog_cookie;
pub mod dereference;
pub mod following;
pub mod join;
pub mod persistent_search;
pub mod policy_state;
pub mod purpose;
pub mod read_level;
pub mod sort;
pub mod sync;
pub mod uniqueness;
pub mod usability;
pub mod vlv;

use crate::ber::{DecodeError, OpenElement, Reader, Tag, Writer, integer_len, tlv_len};
use crate::control::Controls;
use crate::filter::Filter;
use crate::message::{DecodeLimits, MessageId, PartialAttribute, PartialAttributeElement};
use crate::message::{Element as _, SEARCH_ENTRY, Strings, Values};

/// The filter of an assertion control (RFC 4528 §3).
pub fn assertion<'a>(value: &'a [u8], limits: &DecodeLimits) -> Result<Filter<'a>, DecodeError> {
    let mut reader = Reader::new(value);
    let filter = Filter::decode(&mut reader, limits)?;
    reader.end()?;
    Ok(filter)
}

/// The attribute selection of a pre-read or post-read control (RFC 4527 §3).
pub fn attribute_selection(value: &[u8]) -> Result<Strings<'_>, DecodeError> {
    let mut reader = Reader::new(value);
    let list = reader.sequence(Tag::SEQUENCE)?;
    reader.end()?;
    Strings::decode(list)
}

/// What ends a transaction (RFC 5805 §2.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TransactionEnd<'a> {
    /// Whether its updates are to be carried out; else they are forgotten.
    pub commit: bool,
    /// Which transaction.
    pub identifier: &'a [u8],
}

impl<'a> TransactionEnd<'a> {
    /// Reads the value of an end transaction request.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let commit = fields.peek_tag() != Some(Tag::BOOLEAN) || fields.boolean(Tag::BOOLEAN)?;
        // The UnboundID LDAP SDK leaves it the tag that it had in the response (RFC 4511 §4.12).
        let identifier = match fields.read_optional(Tag::context(11, false))? {
            Some(identifier) => identifier,
            None => fields.octets(Tag::OCTET_STRING)?,
        };
        fields.end_extensible(&[])?;
        Ok(Self { commit, identifier })
    }
}

/// Writes the value of an end transaction response (RFC 5805 §2.4): the update that failed, and
/// the response controls of each update that has any. Empty when there is neither: the response
/// has no value then.
pub fn transaction_ended(
    failed: Option<MessageId>,
    updates: &[(MessageId, Controls<'_>)],
) -> Vec<u8> {
    let mut value = Vec::new();
    if failed.is_none() && updates.is_empty() {
        return value;
    }
    // The controls may hold megabytes: all lengths are known before any octet is written, so that
    // none is written twice.
    let id_len = |id: &MessageId| tlv_len(integer_len(i64::from(id.0)));
    let update_len =
        |(id, controls): &(MessageId, Controls<'_>)| id_len(id) + tlv_len(controls.as_ber().len());
    let list_len = updates.iter().map(|update| tlv_len(update_len(update))).sum::<usize>();
    let whole_len =
        failed.as_ref().map_or(0, id_len) + if updates.is_empty() { 0 } else { tlv_len(list_len) };
    value.reserve_exact(tlv_len(whole_len));
    let mut writer = Writer::new(&mut value);
    writer.header(Tag::SEQUENCE, whole_len);
    if let Some(id) = failed {
        writer.integer(Tag::INTEGER, i64::from(id.0));
    }
    if !updates.is_empty() {
        writer.header(Tag::SEQUENCE, list_len);
        for update @ (id, controls) in updates {
            writer.header(Tag::SEQUENCE, update_len(update));
            writer.integer(Tag::INTEGER, i64::from(id.0));
            writer.octets(Tag::SEQUENCE, controls.as_ber());
        }
    }
    value
}

/// Writes the value of a pre-read or post-read response control: a SearchResultEntry
/// (RFC 4527 §3).
#[derive(Debug)]
pub struct EntryValueWriter {
    value: Vec<u8>,
    entry: OpenElement,
    attributes: OpenElement,
}

impl EntryValueWriter {
    /// Begins an entry with this DN.
    #[must_use]
    pub fn begin(dn: &str) -> Self {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let entry = writer.begin_long(SEARCH_ENTRY);
        writer.octets(Tag::OCTET_STRING, dn.as_bytes());
        let attributes = writer.begin_long(Tag::SEQUENCE);
        Self { value, entry, attributes }
    }

    /// How many octets it has by now, about.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.value.len()
    }

    /// Adds an attribute with its values.
    pub fn attribute(&mut self, description: &str, values: Values<'_>) {
        let attribute = PartialAttribute { description, values };
        PartialAttributeElement::write(&attribute, &mut Writer::new(&mut self.value));
    }

    /// The finished value.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let Self { mut value, entry, attributes } = self;
        // Two lengths may need two octets more each; a large value is not to be doubled for them.
        value.reserve_exact(4);
        let mut writer = Writer::new(&mut value);
        writer.end(attributes);
        writer.end(entry);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Control, ControlsBuf};
    use crate::encode::EntryWriter;
    use crate::message::{Message, Response, ValuesBuf};

    #[track_caller]
    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    #[test]
    fn an_assertion_is_one_filter() {
        let limits = DecodeLimits::default();
        let mut value = Vec::new();
        let filter = Filter::parse("(&(sn=a)(!(cn=b)))").unwrap();
        filter.encode(&mut Writer::new(&mut value));
        assert_eq!(assertion(&value, &limits), Ok(filter));
        value.push(0);
        assert!(assertion(&value, &limits).is_err(), "something after it");
        assert!(assertion(b"", &limits).is_err());
    }

    #[test]
    fn a_selection_is_a_sequence_of_strings() {
        let names = attribute_selection(b"\x30\x07\x04\x02cn\x04\x01*").unwrap();
        assert!(names.iter().eq(["cn", "*"]));
        assert!(attribute_selection(b"\x30\x00").unwrap().is_empty());
        for bad in [&b""[..], b"\x30", b"\x04\x02cn", b"\x30\x02\x02\x00", b"\x30\x00\x00"] {
            assert!(attribute_selection(bad).is_err(), "{bad:02x?}");
        }
    }

    #[test]
    fn a_transaction_is_committed_unless_it_says_otherwise() {
        let check = |value: &[u8], want: Option<(bool, &[u8])>| {
            let found = TransactionEnd::decode(value).ok();
            assert_eq!(found.map(|end| (end.commit, end.identifier)), want, "{value:02x?}");
        };
        check(b"\x30\x03\x04\x01a", Some((true, b"a")));
        check(b"\x30\x06\x01\x01\xff\x04\x01a", Some((true, b"a")));
        check(b"\x30\x06\x01\x01\x00\x04\x01a", Some((false, b"a")));
        check(b"\x30\x02\x04\x00", Some((true, b"")));
        check(b"\x30\x03\x8b\x01a", Some((true, b"a")));
        check(b"\x30\x06\x01\x01\x00\x8b\x01a", Some((false, b"a")));
        check(b"\x30\x00", None);
        check(b"\x30\x03\x04\x01a\x00", None);
        check(b"", None);
    }

    #[test]
    fn the_end_of_a_transaction_names_the_update_and_its_controls() {
        assert!(transaction_ended(None, &[]).is_empty());
        assert_eq!(hex(&transaction_ended(Some(MessageId(3)), &[])), "3003020103");
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "1.2", critical: false, value: Some(b"v") });
        let updates = [(MessageId(2), controls.as_ref())];
        let want = "30133011300f020102300a30080403312e32040176";
        assert_eq!(hex(&transaction_ended(None, &updates)), want);
    }

    #[test]
    fn an_entry_value_is_a_search_result_entry() {
        for length in [1, 200, 70_000] {
            check_entry_value(&vec![b'x'; length]);
        }
    }

    #[track_caller]
    fn check_entry_value(content: &[u8]) {
        let mut values = ValuesBuf::new();
        values.push(content);
        let mut writer = EntryValueWriter::begin("dc=a");
        writer.attribute("cn", values.as_ref());
        let value = writer.finish();
        let mut expected = Vec::new();
        let mut entry = EntryWriter::begin(&mut expected, MessageId(1), "dc=a");
        entry.attribute("cn", values.as_ref());
        entry.finish(Controls::EMPTY);
        let limits = DecodeLimits::default();
        let want = Message::<Response<'_>>::decode(&expected, &limits).unwrap().op;
        let mut message = Vec::new();
        let mut writer = Writer::new(&mut message);
        let mark = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, 1);
        writer.raw(&value);
        writer.end(mark);
        assert_eq!(Message::<Response<'_>>::decode(&message, &limits).unwrap().op, want);
    }
}
