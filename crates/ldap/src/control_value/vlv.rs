//! The values of the virtual list view controls (draft-ietf-ldapext-ldapv3-vlv-09 §6).

use crate::ber::{DecodeError, Reader, Tag, Writer};

const BY_OFFSET: Tag = Tag::context(0, true);
const GREATER_OR_EQUAL: Tag = Tag::context(1, false);

/// Which part of a list is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VlvRequest<'a> {
    /// Entries wanted before the target.
    pub before: u32,
    /// Entries wanted after the target.
    pub after: u32,
    /// The entry asked for.
    pub target: VlvTarget<'a>,
    /// What the server sent with the part before.
    pub context: Option<&'a [u8]>,
}

/// How the target is named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VlvTarget<'a> {
    /// By its place. Numbers that the draft does not allow are for the server to refuse, which has
    /// a code of its own for them.
    Offset {
        /// The place, counted from 1.
        offset: i32,
        /// How long the client takes the list to be; 0 = it does not know.
        content_count: i32,
    },
    /// The first entry whose primary sort key is not before this value.
    Value(&'a [u8]),
}

impl<'a> VlvRequest<'a> {
    /// Reads the value of a request control.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let before = fields.unsigned(Tag::INTEGER)?;
        let after = fields.unsigned(Tag::INTEGER)?;
        let target = match fields.sequence_optional(BY_OFFSET)? {
            Some(mut place) => {
                let offset = place.integer_i32(Tag::INTEGER)?;
                let content_count = place.integer_i32(Tag::INTEGER)?;
                place.end_extensible(&[])?;
                VlvTarget::Offset { offset, content_count }
            }
            None => VlvTarget::Value(fields.octets(GREATER_OR_EQUAL)?),
        };
        let context = fields.read_optional(Tag::OCTET_STRING)?;
        fields.end_extensible(&[BY_OFFSET, GREATER_OR_EQUAL])?;
        Ok(Self { before, after, target, context })
    }

    /// Writes the value of a request control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, self.before.into());
        writer.integer(Tag::INTEGER, self.after.into());
        match self.target {
            VlvTarget::Offset { offset, content_count } => {
                let place = writer.begin(BY_OFFSET);
                writer.integer(Tag::INTEGER, offset.into());
                writer.integer(Tag::INTEGER, content_count.into());
                writer.end(place);
            }
            VlvTarget::Value(value) => writer.octets(GREATER_OR_EQUAL, value),
        }
        if let Some(context) = self.context {
            writer.octets(Tag::OCTET_STRING, context);
        }
        writer.end(fields);
        value
    }
}

/// Which part of a list was sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct VlvResponse<'a> {
    /// The place of the target, counted from 1; one after the last when no entry is the target.
    pub target_position: u32,
    /// How long the list is.
    pub content_count: u32,
    /// The number of a result code.
    pub code: u32,
    /// To be sent with the next request for this list.
    pub context: Option<&'a [u8]>,
}

impl<'a> VlvResponse<'a> {
    /// Reads the value of a response control.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let target_position = fields.unsigned(Tag::INTEGER)?;
        let content_count = fields.unsigned(Tag::INTEGER)?;
        let code = fields.enumerated(Tag::ENUMERATED)?;
        let context = fields.read_optional(Tag::OCTET_STRING)?;
        fields.end_extensible(&[])?;
        Ok(Self { target_position, content_count, code, context })
    }

    /// Writes the value of a response control. Numbers above maxInt have no place in it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.target_position <= i32::MAX as u32, "targetPosition is at most maxInt");
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, self.target_position.into());
        writer.integer(Tag::INTEGER, self.content_count.into());
        writer.enumerated(Tag::ENUMERATED, self.code);
        if let Some(context) = self.context {
            writer.octets(Tag::OCTET_STRING, context);
        }
        writer.end(fields);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: VlvRequest<'_> = VlvRequest {
        before: 0,
        after: 19,
        target: VlvTarget::Offset { offset: 1, content_count: 0 },
        context: None,
    };

    #[test]
    fn requests_are_read_as_they_are_written() {
        let by_value = VlvRequest { target: VlvTarget::Value(b"be"), context: Some(b"c"), ..FIRST };
        let negative = VlvTarget::Offset { offset: -1, content_count: i32::MAX };
        for request in [FIRST, by_value, VlvRequest { target: negative, ..FIRST }] {
            assert_eq!(VlvRequest::decode(&request.encode()), Ok(request));
        }
        let want = b"\x30\x0e\x02\x01\x00\x02\x01\x13\xa0\x06\x02\x01\x01\x02\x01\x00";
        assert_eq!(FIRST.encode(), want);
    }

    #[test]
    fn responses_are_read_as_they_are_written() {
        let found = VlvResponse {
            target_position: 7,
            content_count: i32::MAX as u32,
            code: 0,
            context: Some(b"x"),
        };
        for response in [found, VlvResponse { code: 61, context: None, ..found }] {
            assert_eq!(VlvResponse::decode(&response.encode()), Ok(response));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let bad: [&[u8]; 6] = [
            b"",
            b"\x30\x00",
            b"\x30\x06\x02\x01\x00\x02\x01\x13",
            b"\x30\x0e\x02\x01\xff\x02\x01\x13\xa0\x06\x02\x01\x01\x02\x01\x00",
            b"\x30\x0b\x02\x01\x00\x02\x01\x13\xa0\x03\x02\x01\x01",
            b"\x30\x09\x02\x01\x00\x02\x01\x13\x81\x01a\x00",
        ];
        for value in bad {
            assert!(VlvRequest::decode(value).is_err(), "{value:02x?}");
        }
    }
}
