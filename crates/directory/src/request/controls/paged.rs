//! Simple paged results (RFC 2696).
//!
//! The cookie holds the id of the last entry sent, encrypted under a key of this process and bound
//! to what was asked and by whom ([`crate::request::cookie`]): the server keeps no state for a
//! client, a page survives changes made in between, and a cookie that was altered or belongs to
//! another search is refused. Nobody learns from it how many entries are in between that are
//! hidden.

use ldap::ber::{DecodeError, Reader, Tag, Writer};
use ldap::message::Control;
use schema::EntryId;

use super::request::PagedRequest;
use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The control's OID, in requests and responses.
pub(crate) const OID: &str = "1.2.840.113556.1.4.319";

/// What the control is called.
pub(super) const NAME: &str = "the paged results control";

pub(super) fn read<'a>(control: &Control<'a>) -> Result<PagedRequest<'a>, Refusal> {
    let (size, cookie) = decode(required(control, NAME)?)
        .map_err(|_| malformed("the value of the paged results control is malformed"))?;
    let size_entries =
        u32::try_from(size).map_err(|_| malformed("the page size must not be negative"))?;
    Ok(PagedRequest { size_entries, cookie })
}

fn decode(value: &[u8]) -> Result<(i32, &[u8]), DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    let size = sequence.integer_i32(Tag::INTEGER)?;
    let cookie = sequence.octets(Tag::OCTET_STRING)?;
    sequence.end()?;
    outer.end()?;
    Ok((size, cookie))
}

/// The value of the response control: no estimate of the total (0) and where to go on.
pub(crate) fn response_value(cookie: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(cookie.len() + 16);
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.integer(Tag::INTEGER, 0);
    writer.octets(Tag::OCTET_STRING, cookie);
    writer.end(sequence);
    value
}

/// Where a page ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Position {
    /// The last entry sent.
    pub(crate) after: EntryId,
    /// Entries sent by all pages so far: a client's size limit holds for all of them together.
    pub(crate) sent: u32,
}

impl Position {
    /// As a cookie holds it.
    pub(crate) fn to_octets(self) -> [u8; 12] {
        let mut octets = [0; 12];
        let parts = self.after.0.to_be_bytes().into_iter().chain(self.sent.to_be_bytes());
        octets.iter_mut().zip(parts).for_each(|(octet, part)| *octet = part);
        octets
    }

    /// What a cookie holds.
    pub(crate) fn from_octets(octets: &[u8]) -> Option<Self> {
        let (after, rest) = octets.split_first_chunk()?;
        let sent = rest.try_into().ok()?;
        Some(Self { after: EntryId(u64::from_be_bytes(*after)), sent: u32::from_be_bytes(sent) })
    }
}
