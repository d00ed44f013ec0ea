//! The values of the controls that make a search return less, more or only a number.
//!
//! Invariants: a value is one element and nothing after it; decoding borrows and has the limits of
//! messages.

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};
use crate::filter::Filter;
use crate::message::DecodeLimits;

/// How many items the filter of a matched values control may have.
pub const VALUES_ITEMS_MAX: usize = 1_000;

/// The filter of a matched values control (RFC 3876 §2): items without `and`, `or` and `not`. A
/// value is wanted when one of them matches it.
pub fn values_return_filter<'a>(
    value: &'a [u8],
    limits: &DecodeLimits,
) -> Result<Vec<Filter<'a>>, DecodeError> {
    let mut reader = Reader::new(value);
    let mut list = reader.sequence(Tag::SEQUENCE)?;
    reader.end()?;
    let mut items = Vec::new();
    while let Some(tag) = list.peek_tag() {
        if items.len() >= VALUES_ITEMS_MAX {
            return Err(list.error(DecodeReason::TooManyTerms));
        }
        let item = Filter::decode(&mut list, limits)?;
        let is_simple = match &item {
            Filter::And(_) | Filter::Or(_) | Filter::Not(_) => false,
            // A SimpleMatchingAssertion has no dnAttributes.
            Filter::Extensible(extensible) => !extensible.dn_attributes,
            Filter::Equality(_)
            | Filter::Substrings(_)
            | Filter::GreaterOrEqual(_)
            | Filter::LessOrEqual(_)
            | Filter::Present(_)
            | Filter::Approx(_) => true,
        };
        if !is_simple {
            return Err(list.error(DecodeReason::UnexpectedTag(tag)));
        }
        items.push(item);
    }
    if items.is_empty() {
        return Err(list.error(DecodeReason::EmptyList));
    }
    Ok(items)
}

/// Whether only subentries are wanted, or none of them (RFC 3672 §3).
pub fn subentries_visibility(value: &[u8]) -> Result<bool, DecodeError> {
    let mut reader = Reader::new(value);
    let visibility = reader.boolean(Tag::BOOLEAN)?;
    reader.end()?;
    Ok(visibility)
}

/// What a matching entry count control asks for. Thresholds for giving up early, and what else
/// such a control may say, are read over: they only trade exactness for time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EntryCountRequest {
    /// Up to how many candidates may be read to find out which of them match.
    pub examine_max: u32,
    /// They are to be read even where their number is known without.
    pub always_examine: bool,
    /// An unindexed search is to be carried out as well.
    pub even_unindexed: bool,
    /// How the number was found is to be told.
    pub debug: bool,
}

impl EntryCountRequest {
    /// Reads the value of a request control.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let mut request = Self::default();
        if fields.peek_tag() == Some(EXAMINE_MAX) {
            request.examine_max = fields.unsigned(EXAMINE_MAX)?;
        }
        for (tag, field) in [
            (ALWAYS_EXAMINE, &mut request.always_examine),
            (EVEN_UNINDEXED, &mut request.even_unindexed),
            (DEBUG, &mut request.debug),
        ] {
            if fields.peek_tag() == Some(tag) {
                *field = fields.boolean(tag)?;
            }
        }
        fields.end_extensible(&[EXAMINE_MAX, ALWAYS_EXAMINE, EVEN_UNINDEXED, DEBUG])?;
        Ok(request)
    }
}

/// How many entries a search has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EntryCount {
    /// This many, each of them looked at.
    Examined(u64),
    /// This many, as the indexes say.
    Unexamined(u64),
    /// No more than this many.
    AtMost(u64),
    /// Nobody knows without reading everything.
    Unknown,
}

/// Writes the value of a matching entry count response: the number, how it was found when that was
/// asked for, and whether an index helped.
pub fn entry_count(count: EntryCount, debug: &[String], is_indexed: bool) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let whole = writer.begin(Tag::SEQUENCE);
    // Clients read an integer of 32 bits.
    let number = |count: u64| i64::from(i32::try_from(count).unwrap_or(i32::MAX));
    match count {
        EntryCount::Examined(count) => writer.integer(Tag::context(0, false), number(count)),
        EntryCount::Unexamined(count) => writer.integer(Tag::context(1, false), number(count)),
        // None at most is none: a bound is positive.
        EntryCount::AtMost(0) => writer.integer(Tag::context(1, false), 0),
        EntryCount::AtMost(count) => writer.integer(Tag::context(2, false), number(count)),
        EntryCount::Unknown => writer.octets(Tag::context(3, false), b""),
    }
    if !debug.is_empty() {
        let list = writer.begin(Tag::context(0, true));
        for line in debug {
            writer.octets(Tag::OCTET_STRING, line.as_bytes());
        }
        writer.end(list);
    }
    if !is_indexed {
        writer.boolean(Tag::context(1, false), false);
    }
    writer.end(whole);
    value
}

const EXAMINE_MAX: Tag = Tag::context(0, false);
const ALWAYS_EXAMINE: Tag = Tag::context(1, false);
const EVEN_UNINDEXED: Tag = Tag::context(2, false);
const DEBUG: Tag = Tag::context(3, false);

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    fn list_of(filters: &[&str]) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let list = writer.begin(Tag::SEQUENCE);
        for filter in filters {
            Filter::parse(filter).unwrap().encode(&mut writer);
        }
        writer.end(list);
        value
    }

    #[test]
    fn a_values_filter_is_a_list_of_simple_items() {
        let limits = DecodeLimits::default();
        let check = |filters: &[&str], is_right: bool| {
            let value = list_of(filters);
            let items = values_return_filter(&value, &limits);
            assert_eq!(items.is_ok(), is_right, "{filters:?}");
            if let Ok(items) = items {
                assert!(items.iter().map(ToString::to_string).eq(filters.iter().copied()));
            }
        };
        check(&["(cn=a)"], true);
        check(&["(cn=a*b)", "(cn>=a)", "(cn<=a)", "(cn=*)", "(cn~=a)", "(cn:2.5.13.5:=a)"], true);
        check(&["(:caseExactMatch:=a)"], true);
        check(&[], false);
        check(&["(&(cn=a))"], false);
        check(&["(cn=a)", "(|(cn=a))"], false);
        check(&["(!(cn=a))"], false);
        check(&["(cn:dn:=a)"], false);
        check(&["(cn=a)"; VALUES_ITEMS_MAX], true);
        check(&["(cn=a)"; VALUES_ITEMS_MAX + 1], false);
        for bad in [&b""[..], b"\x30", b"\x30\x02\x02\x00", b"\x31\x00"] {
            assert!(values_return_filter(bad, &limits).is_err(), "{bad:02x?}");
        }
        let mut longer = list_of(&["(cn=a)"]);
        longer.push(0);
        assert!(values_return_filter(&longer, &limits).is_err(), "something after it");
    }

    #[test]
    fn a_visibility_is_one_boolean() {
        let check = |value: &[u8], want: Option<bool>| {
            assert_eq!(subentries_visibility(value).ok(), want, "{value:02x?}");
        };
        check(b"\x01\x01\xff", Some(true));
        // Not what senders should write, and read all the same.
        check(b"\x01\x01\x01", Some(true));
        check(b"\x01\x01\x00", Some(false));
        check(b"", None);
        check(b"\x01\x01\xff\x00", None);
        check(b"\x02\x01\x01", None);
        check(b"\x30\x03\x01\x01\xff", None);
    }

    #[test]
    fn a_count_request_has_defaults_and_room_for_more() {
        let all = EntryCountRequest {
            examine_max: 5,
            always_examine: true,
            even_unindexed: true,
            debug: true,
        };
        let check = |value: &[u8], want: Option<EntryCountRequest>| {
            assert_eq!(EntryCountRequest::decode(value).ok(), want, "{value:02x?}");
        };
        check(b"\x30\x00", Some(EntryCountRequest::default()));
        check(b"\x30\x0c\x80\x01\x05\x81\x01\xff\x82\x01\xff\x83\x01\xff", Some(all));
        let exploded = b"\x30\x06\x80\x01\x05\x84\x01\xff";
        check(exploded, Some(EntryCountRequest { examine_max: 5, ..Default::default() }));
        check(b"\x30\x03\x80\x01\xff", None);
        check(b"\x30\x06\x81\x01\xff\x80\x01\x05", None);
        check(b"\x30\x00\x00", None);
        check(b"", None);
    }

    #[test]
    fn a_count_is_written_as_its_readers_expect() {
        let check = |count: EntryCount, debug: &[String], is_indexed: bool, want: &str| {
            assert_eq!(hex(&entry_count(count, debug, is_indexed)), want, "{count:?}");
        };
        check(EntryCount::Examined(3), &[], true, "3003800103");
        check(EntryCount::Unexamined(0), &[], true, "3003810100");
        check(EntryCount::AtMost(200), &[], true, "3004820200c8");
        check(EntryCount::AtMost(0), &[], true, "3003810100");
        check(EntryCount::Unknown, &[], false, "30058300810100");
        check(EntryCount::Examined(1), &["a".to_owned()], true, "3008800101a003040161");
        check(EntryCount::AtMost(1 << 40), &[], true, "300682047fffffff");
    }
}
