//! The values of content synchronisation (RFC 4533): what a consumer asks for, and what it is told
//! with an entry, between entries and at the end.

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// The OID of the request control.
pub const REQUEST_OID: &str = "1.3.6.1.4.1.4203.1.9.1.1";
/// The OID of the control that comes with an entry.
pub const STATE_OID: &str = "1.3.6.1.4.1.4203.1.9.1.2";
/// The OID of the control at the end.
pub const DONE_OID: &str = "1.3.6.1.4.1.4203.1.9.1.3";
/// The OID of what is told between entries.
pub const INFO_OID: &str = "1.3.6.1.4.1.4203.1.9.1.4";

/// What a consumer asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SyncRequest<'a> {
    /// The search goes on with what changes.
    pub persists: bool,
    /// Where the consumer was.
    pub cookie: Option<&'a [u8]>,
    /// It takes everything anew rather than to be told that it has to.
    pub reload_hint: bool,
}

/// What an entry is to the consumer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum SyncState {
    /// It is there, as it was.
    Present = 0,
    /// It has come.
    Add = 1,
    /// It is another than it was.
    Modify = 2,
    /// It is gone, or not to be seen any more.
    Delete = 3,
}

/// What comes with an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EntryState<'a> {
    /// What it is.
    pub state: SyncState,
    /// Its `entryUUID`.
    pub uuid: [u8; 16],
    /// Where the consumer is with it.
    pub cookie: Option<&'a [u8]>,
}

/// What is told between entries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SyncInfo<'a> {
    /// Where the consumer is.
    NewCookie(&'a [u8]),
    /// What is gone was told, by delete; whether that was all to begin with.
    RefreshDelete {
        /// Where the consumer is.
        cookie: Option<&'a [u8]>,
        /// From now on changes follow.
        is_done: bool,
    },
    /// What is there was told; what was not is gone.
    RefreshPresent {
        /// Where the consumer is.
        cookie: Option<&'a [u8]>,
        /// From now on changes follow.
        is_done: bool,
    },
    /// Entries by their `entryUUID`.
    IdSet {
        /// Where the consumer is.
        cookie: Option<&'a [u8]>,
        /// They are gone; else they are there as they were.
        is_gone: bool,
        /// Which.
        uuids: Vec<[u8; 16]>,
    },
}

/// What is told at the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SyncDone<'a> {
    /// Where the consumer is.
    pub cookie: Option<&'a [u8]>,
    /// What is gone was told; else what was not told of is.
    pub refresh_deletes: bool,
}

impl<'a> SyncRequest<'a> {
    /// Reads the value of a request control.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let persists = match fields.integer_i32(Tag::ENUMERATED)? {
            1 => false,
            3 => true,
            _ => return Err(fields.error(DecodeReason::OutOfRange)),
        };
        let cookie = optional_cookie(&mut fields)?;
        let reload_hint =
            fields.peek_tag() == Some(Tag::BOOLEAN) && fields.boolean(Tag::BOOLEAN)?;
        fields.end()?;
        Ok(Self { persists, cookie, reload_hint })
    }

    /// The value of a request control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::ENUMERATED, if self.persists { 3 } else { 1 });
        write_cookie(&mut writer, self.cookie);
        if self.reload_hint {
            writer.boolean(Tag::BOOLEAN, true);
        }
        writer.end(fields);
        value
    }
}

impl SyncState {
    const ALL: [Self; 4] = [Self::Present, Self::Add, Self::Modify, Self::Delete];
}

impl<'a> EntryState<'a> {
    /// Reads the value of the control of an entry.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let number = fields.integer_i32(Tag::ENUMERATED)?;
        let state = SyncState::ALL.into_iter().find(|one| *one as i32 == number);
        let state = state.ok_or_else(|| fields.error(DecodeReason::OutOfRange))?;
        let uuid = uuid(&mut fields)?;
        let cookie = optional_cookie(&mut fields)?;
        fields.end()?;
        Ok(Self { state, uuid, cookie })
    }

    /// The value of the control of an entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::ENUMERATED, i64::from(self.state as u8));
        writer.octets(Tag::OCTET_STRING, &self.uuid);
        write_cookie(&mut writer, self.cookie);
        writer.end(fields);
        value
    }
}

impl<'a> SyncInfo<'a> {
    /// Reads the value of an intermediate response.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let info = match reader.peek_tag() {
            Some(NEW_COOKIE) => Self::NewCookie(reader.octets(NEW_COOKIE)?),
            Some(tag @ (REFRESH_DELETE | REFRESH_PRESENT)) => {
                let mut fields = reader.sequence(tag)?;
                let cookie = optional_cookie(&mut fields)?;
                let is_done =
                    fields.peek_tag() != Some(Tag::BOOLEAN) || fields.boolean(Tag::BOOLEAN)?;
                fields.end()?;
                match tag == REFRESH_DELETE {
                    true => Self::RefreshDelete { cookie, is_done },
                    false => Self::RefreshPresent { cookie, is_done },
                }
            }
            _ => {
                let mut fields = reader.sequence(ID_SET)?;
                let cookie = optional_cookie(&mut fields)?;
                let is_gone =
                    fields.peek_tag() == Some(Tag::BOOLEAN) && fields.boolean(Tag::BOOLEAN)?;
                let mut list = fields.sequence(Tag::SET)?;
                fields.end()?;
                let mut uuids = Vec::new();
                while list.peek_tag().is_some() {
                    uuids.push(uuid(&mut list)?);
                }
                Self::IdSet { cookie, is_gone, uuids }
            }
        };
        reader.end()?;
        Ok(info)
    }

    /// The value of an intermediate response.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        match self {
            Self::NewCookie(cookie) => writer.octets(NEW_COOKIE, cookie),
            Self::RefreshDelete { cookie, is_done } | Self::RefreshPresent { cookie, is_done } => {
                let is_delete = matches!(self, Self::RefreshDelete { .. });
                let tag = if is_delete { REFRESH_DELETE } else { REFRESH_PRESENT };
                let fields = writer.begin(tag);
                write_cookie(&mut writer, *cookie);
                if !is_done {
                    writer.boolean(Tag::BOOLEAN, false);
                }
                writer.end(fields);
            }
            Self::IdSet { cookie, is_gone, uuids } => {
                let fields = writer.begin_long(ID_SET);
                write_cookie(&mut writer, *cookie);
                if *is_gone {
                    writer.boolean(Tag::BOOLEAN, true);
                }
                let list = writer.begin_long(Tag::SET);
                uuids.iter().for_each(|uuid| writer.octets(Tag::OCTET_STRING, uuid));
                writer.end(list);
                writer.end(fields);
            }
        }
        value
    }
}

impl<'a> SyncDone<'a> {
    /// Reads the value of the control at the end.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let cookie = optional_cookie(&mut fields)?;
        let refresh_deletes =
            fields.peek_tag() == Some(Tag::BOOLEAN) && fields.boolean(Tag::BOOLEAN)?;
        fields.end()?;
        Ok(Self { cookie, refresh_deletes })
    }

    /// The value of the control at the end.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        write_cookie(&mut writer, self.cookie);
        if self.refresh_deletes {
            writer.boolean(Tag::BOOLEAN, true);
        }
        writer.end(fields);
        value
    }
}

/// Reads an `entryUUID` as its text has it, into its octets.
#[must_use]
pub fn uuid_of_text(text: &[u8]) -> Option<[u8; 16]> {
    let mut digits = text.iter().filter(|octet| **octet != b'-');
    let mut digit = || char::from(*digits.next()?).to_digit(16);
    let mut uuid = [0; 16];
    for octet in &mut uuid {
        let (high, low) = (digit()?, digit()?);
        *octet = u8::try_from(high << 4 | low).ok()?;
    }
    digits.next().is_none().then_some(uuid)
}

fn optional_cookie<'a>(fields: &mut Reader<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    match fields.peek_tag() {
        Some(Tag::OCTET_STRING) => fields.octets(Tag::OCTET_STRING).map(Some),
        Some(_) | None => Ok(None),
    }
}

fn write_cookie(writer: &mut Writer<'_>, cookie: Option<&[u8]>) {
    if let Some(cookie) = cookie {
        writer.octets(Tag::OCTET_STRING, cookie);
    }
}

fn uuid(fields: &mut Reader<'_>) -> Result<[u8; 16], DecodeError> {
    let octets = fields.octets(Tag::OCTET_STRING)?;
    octets.try_into().map_err(|_| fields.error(DecodeReason::OutOfRange))
}

const NEW_COOKIE: Tag = Tag::context(0, false);
const REFRESH_DELETE: Tag = Tag::context(1, true);
const REFRESH_PRESENT: Tag = Tag::context(2, true);
const ID_SET: Tag = Tag::context(3, true);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_mode_and_perhaps_a_cookie() {
        let check = |wire: &[u8], want: Option<SyncRequest<'_>>| {
            assert_eq!(SyncRequest::decode(wire).ok(), want, "{wire:02x?}");
            if let Some(request) = want {
                assert_eq!(request.encode(), wire);
            }
        };
        let only = SyncRequest { persists: false, cookie: None, reload_hint: false };
        check(b"\x30\x03\x0a\x01\x01", Some(only));
        let cookie = Some(&b"c"[..]);
        let all = SyncRequest { persists: true, cookie, reload_hint: true };
        check(b"\x30\x09\x0a\x01\x03\x04\x01c\x01\x01\xff", Some(all));
        for bad in [&b""[..], b"\x30\x00", b"\x30\x03\x0a\x01\x02", b"\x30\x03\x02\x01\x01"] {
            check(bad, None);
        }
    }

    #[test]
    fn what_is_told_is_read_back() {
        let cookies = [None, Some(&b""[..]), Some(&b"cookie"[..])];
        for cookie in cookies {
            for state in SyncState::ALL {
                let told = EntryState { state, uuid: [7; 16], cookie };
                assert_eq!(EntryState::decode(&told.encode()), Ok(told));
            }
            for flag in [false, true] {
                let done = SyncDone { cookie, refresh_deletes: flag };
                assert_eq!(SyncDone::decode(&done.encode()), Ok(done));
                for uuids in [vec![], vec![[1; 16]], vec![[2; 16]; 300]] {
                    for info in [
                        SyncInfo::NewCookie(cookie.unwrap_or_default()),
                        SyncInfo::RefreshDelete { cookie, is_done: flag },
                        SyncInfo::RefreshPresent { cookie, is_done: flag },
                        SyncInfo::IdSet { cookie, is_gone: flag, uuids },
                    ] {
                        assert_eq!(SyncInfo::decode(&info.encode()), Ok(info));
                    }
                }
            }
        }
        assert!(SyncInfo::decode(b"").is_err());
        assert!(SyncInfo::decode(b"\xa3\x05\x31\x03\x04\x01x").is_err(), "no UUID");
    }

    #[test]
    fn a_uuid_has_so_many_digits() {
        let text = b"00112233-4455-6677-8899-aAbBcCdDeEfF";
        let want = [0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255];
        assert_eq!(uuid_of_text(text), Some(want));
        for bad in [&b""[..], b"0", &text[1..], &[text, &b"0"[..]].concat(), b"x"] {
            assert_eq!(uuid_of_text(bad), None);
        }
    }
}
