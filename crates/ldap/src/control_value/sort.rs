//! The values of the server-side sort controls (RFC 2891).

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// The most sort keys of one request; a value with more is refused.
pub const SORT_KEYS_MAX: usize = 8;

const RULE: Tag = Tag::context(0, false);
const REVERSE: Tag = Tag::context(1, false);
const ATTRIBUTE: Tag = Tag::context(0, false);

/// One sort key of a request, the first being the primary one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SortKey<'a> {
    /// The attribute description.
    pub attribute: &'a str,
    /// The ordering rule, by name or OID; none for the attribute's own.
    pub rule: Option<&'a str>,
    /// The largest value comes first.
    pub reverse: bool,
}

/// Reads a SortKeyList. Fails with `TooManyTerms` when there are more than [`SORT_KEYS_MAX`] keys.
pub fn sort_keys(value: &[u8]) -> Result<Vec<SortKey<'_>>, DecodeError> {
    let mut reader = Reader::new(value);
    let mut list = reader.sequence(Tag::SEQUENCE)?;
    reader.end()?;
    if list.is_empty() {
        return Err(list.error(DecodeReason::EmptyList));
    }
    let mut keys = Vec::new();
    while !list.is_empty() {
        if keys.len() == SORT_KEYS_MAX {
            return Err(list.error(DecodeReason::TooManyTerms));
        }
        let mut key = list.sequence(Tag::SEQUENCE)?;
        let attribute = key.string(Tag::OCTET_STRING)?;
        let rule = key.string_optional(RULE)?;
        let reverse = key.peek_tag() == Some(REVERSE) && key.boolean(REVERSE)?;
        key.end_extensible(&[RULE, REVERSE])?;
        keys.push(SortKey { attribute, rule, reverse });
    }
    Ok(keys)
}

/// Writes a SortKeyList.
#[must_use]
pub fn write_sort_keys(keys: &[SortKey<'_>]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let list = writer.begin(Tag::SEQUENCE);
    for key in keys {
        let one = writer.begin(Tag::SEQUENCE);
        writer.octets(Tag::OCTET_STRING, key.attribute.as_bytes());
        if let Some(rule) = key.rule {
            writer.octets(RULE, rule.as_bytes());
        }
        if key.reverse {
            writer.boolean(REVERSE, true);
        }
        writer.end(one);
    }
    writer.end(list);
    value
}

/// What a SortResult says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SortResult<'a> {
    /// The number of a result code.
    pub code: u32,
    /// The attribute of the sort key at fault.
    pub attribute: Option<&'a str>,
}

impl<'a> SortResult<'a> {
    /// Reads the value of a response control.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let code = fields.enumerated(Tag::ENUMERATED)?;
        let attribute = fields.string_optional(ATTRIBUTE)?;
        fields.end_extensible(&[ATTRIBUTE])?;
        Ok(Self { code, attribute })
    }

    /// Writes the value of a response control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.enumerated(Tag::ENUMERATED, self.code);
        if let Some(attribute) = self.attribute {
            writer.octets(ATTRIBUTE, attribute.as_bytes());
        }
        writer.end(fields);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CN: SortKey<'_> = SortKey { attribute: "cn", rule: None, reverse: false };

    #[test]
    fn sort_keys_are_read_as_they_are_written() {
        let keys = [
            CN,
            SortKey { attribute: "sn", rule: Some("2.5.13.3"), reverse: true },
            SortKey { attribute: "uid;x-a", rule: None, reverse: true },
        ];
        assert_eq!(sort_keys(&write_sort_keys(&keys)).unwrap(), keys);
        assert_eq!(write_sort_keys(&[CN]), b"\x30\x06\x30\x04\x04\x02cn");
    }

    #[test]
    fn true_may_be_any_octet_but_zero() {
        for (octet, want) in [(0, false), (1, true), (0xff, true)] {
            let value = [b"\x30\x09\x30\x07\x04\x02cn\x81\x01".as_slice(), &[octet]].concat();
            assert_eq!(sort_keys(&value).unwrap(), [SortKey { reverse: want, ..CN }]);
        }
    }

    #[test]
    fn what_is_no_list_of_sort_keys_is_refused() {
        let bad: [&[u8]; 7] = [
            b"",
            b"\x30\x00",
            b"\x30\x02\x30\x00",
            b"\x30\x06\x30\x04\x04\x02cn\x00",
            b"\x30\x06\x31\x04\x04\x02cn",
            b"\x30\x08\x30\x06\x04\x02cn\x81\x00",
            b"\x30\x09\x30\x07\x04\x02cn\x04\x01x",
        ];
        for value in bad {
            assert!(sort_keys(value).is_err(), "{value:02x?}");
        }
        assert_eq!(sort_keys(&write_sort_keys(&[CN; SORT_KEYS_MAX])).unwrap().len(), SORT_KEYS_MAX);
        let error = sort_keys(&write_sort_keys(&[CN; SORT_KEYS_MAX + 1])).unwrap_err();
        assert_eq!(error.reason, DecodeReason::TooManyTerms);
    }

    #[test]
    fn a_sort_result_names_the_key_at_fault() {
        for (code, attribute) in [(0, None), (16, Some("shoeSize"))] {
            let result = SortResult { code, attribute };
            assert_eq!(SortResult::decode(&result.encode()), Ok(result));
        }
        assert_eq!(SortResult { code: 0, attribute: None }.encode(), b"\x30\x03\x0a\x01\x00");
    }
}
