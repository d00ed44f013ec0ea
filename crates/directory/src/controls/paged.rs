//! Simple paged results (RFC 2696).
//!
//! The cookie holds the id of the last entry sent, sealed together with what was asked and by whom
//! under a key of this process: the server keeps no state for a client, a page survives changes
//! made in between, and a cookie that was altered or belongs to another search is refused.

use ldap::ber::{Reader, Tag, Writer};
use ldap::message::Control;
use ldap::result::ResultCode;
use schema::EntryId;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::RequestControls;
use crate::refusal::Refusal;

/// The control's OID, in requests and responses.
pub(crate) const OID: &str = "1.2.840.113556.1.4.319";

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct PagedRequest<'a> {
    /// Entries wanted at most; 0 ends the paging.
    pub(crate) size_entries: u32,
    /// Empty for the first page.
    pub(crate) cookie: &'a [u8],
}

pub(super) fn take<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    let refuse = |reason: &'static str| Refusal::new(ResultCode::ProtocolError, reason);
    if taken.paged.is_some() {
        return Err(refuse("the paged results control was sent twice"));
    }
    let value = control.value.ok_or_else(|| refuse("the paged results control lacks its value"))?;
    let decode = || {
        let mut outer = Reader::new(value);
        let mut sequence = outer.sequence(Tag::SEQUENCE)?;
        let size = sequence.integer_i32(Tag::INTEGER)?;
        let cookie = sequence.octets(Tag::OCTET_STRING)?;
        sequence.end()?;
        outer.end()?;
        Ok::<_, ldap::ber::DecodeError>((size, cookie))
    };
    let (size, cookie) =
        decode().map_err(|_| refuse("the value of the paged results control is malformed"))?;
    let size_entries =
        u32::try_from(size).map_err(|_| refuse("the page size must not be negative"))?;
    taken.paged = Some(PagedRequest { size_entries, cookie });
    Ok(())
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

/// Seals and opens cookies.
pub(crate) struct CookieKey([u8; 32]);

impl CookieKey {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The cookie that continues at `position` the search that `binding` stands for.
    pub(crate) fn seal(&self, position: Position, binding: &[u8]) -> Vec<u8> {
        let mut cookie = position.after.0.to_be_bytes().to_vec();
        cookie.extend_from_slice(&position.sent.to_be_bytes());
        cookie.extend_from_slice(&self.mac_of(&[&cookie, binding]));
        cookie
    }

    /// Where to go on. Refuses with `protocolError` what has not the form of a cookie, with
    /// `unwillingToPerform` one that is not of this search, asker and process.
    pub(crate) fn open(&self, cookie: &[u8], binding: &[u8]) -> Result<Position, Refusal> {
        let split = || {
            let (after, rest) = cookie.split_first_chunk::<8>()?;
            let (sent, mac) = rest.split_first_chunk::<4>()?;
            let position = Position {
                after: EntryId(u64::from_be_bytes(*after)),
                sent: u32::from_be_bytes(*sent),
            };
            (mac.len() == MAC_BYTES).then_some((position, mac))
        };
        let (position, mac) = split().ok_or_else(|| {
            Refusal::new(ResultCode::ProtocolError, "the paged results cookie is malformed")
        })?;
        let sealed = cookie.strip_suffix(mac).unwrap_or_default();
        if bool::from(self.mac_of(&[sealed, binding]).ct_eq(mac)) {
            return Ok(position);
        }
        Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "the paged results cookie is not one of this search: start again without one",
        ))
    }

    /// Octets for a client to keep and to send back, sealed as `what` and for `binding`.
    pub(crate) fn seal_octets(&self, what: &[u8], octets: &[u8], binding: &[u8]) -> Vec<u8> {
        [octets, &self.mac_of(&[what, octets, binding])].concat()
    }

    /// The octets that were sealed so. Refuses as [`Self::open`] does.
    pub(crate) fn open_octets<'c>(
        &self,
        what: &[u8],
        sealed: &'c [u8],
        binding: &[u8],
    ) -> Result<&'c [u8], Refusal> {
        let (octets, mac) = sealed
            .split_last_chunk::<MAC_BYTES>()
            .ok_or_else(|| Refusal::new(ResultCode::ProtocolError, "the cookie is malformed"))?;
        if bool::from(self.mac_of(&[what, octets, binding]).ct_eq(mac)) {
            return Ok(octets);
        }
        Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "the cookie is not one of this search: start again without one",
        ))
    }

    fn mac_of(&self, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        // The key comes first and last (an envelope), so that the digest cannot be extended.
        let mut digest = Sha256::new();
        digest.update(self.0);
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.update(self.0);
        let mut mac = [0; MAC_BYTES];
        for (octet, from) in mac.iter_mut().zip(digest.finalize()) {
            *octet = from;
        }
        mac
    }
}

/// Octets of seal in a cookie.
const MAC_BYTES: usize = 16;
