//! The values of the persistent search controls (draft-ietf-ldapext-psearch-03): a search that goes
//! on, and what has happened to an entry that it sends.

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// The OID of the request control.
pub const OID: &str = "2.16.840.1.113730.3.4.3";
/// The OID of the control that comes with an entry that has changed.
pub const ENTRY_CHANGE_OID: &str = "2.16.840.1.113730.3.4.7";

/// What a client wants to hear of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PersistentSearch {
    /// The sum of the numbers of [`ChangeType`] that are wanted.
    pub change_types: u8,
    /// Entries as they are at first are not wanted.
    pub changes_only: bool,
    /// With each entry that has changed comes what has happened to it.
    pub return_changes: bool,
}

/// What has happened to an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum ChangeType {
    /// It is new.
    Add = 1,
    /// It is gone.
    Delete = 2,
    /// It has other values.
    Modify = 4,
    /// It has another name.
    Rename = 8,
}

/// What comes with an entry that has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EntryChange<'a> {
    /// What has happened.
    pub change: ChangeType,
    /// The name that it had, if it has another one now and that may be told.
    pub previous_dn: Option<&'a str>,
    /// The number of the change.
    pub number: Option<u64>,
}

impl PersistentSearch {
    /// Reads the value of a request control.
    ///
    /// # Errors
    /// When it is malformed, or asks for no changes or such that nobody knows.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let types = fields.integer_i32(Tag::INTEGER)?;
        let changes_only = fields.boolean(Tag::BOOLEAN)?;
        let return_changes = fields.boolean(Tag::BOOLEAN)?;
        fields.end()?;
        match u8::try_from(types) {
            Ok(change_types @ 1..=15) => Ok(Self { change_types, changes_only, return_changes }),
            Ok(_) | Err(_) => Err(reader.error(DecodeReason::OutOfRange)),
        }
    }

    /// The value of a request control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, self.change_types.into());
        writer.boolean(Tag::BOOLEAN, self.changes_only);
        writer.boolean(Tag::BOOLEAN, self.return_changes);
        writer.end(fields);
        value
    }

    /// Whether this kind of change is wanted.
    #[must_use]
    pub const fn wants(&self, change: ChangeType) -> bool {
        self.change_types & change as u8 != 0
    }
}

impl ChangeType {
    const ALL: [Self; 4] = [Self::Add, Self::Delete, Self::Modify, Self::Rename];
}

impl<'a> EntryChange<'a> {
    /// Reads the value of a response control.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let number = fields.integer_i32(Tag::ENUMERATED)?;
        let change = ChangeType::ALL.into_iter().find(|one| *one as i32 == number);
        let change = change.ok_or_else(|| fields.error(DecodeReason::OutOfRange))?;
        let previous_dn = match fields.peek_tag() {
            Some(Tag::OCTET_STRING) => Some(fields.string(Tag::OCTET_STRING)?),
            Some(_) | None => None,
        };
        let number = match fields.peek_tag() {
            Some(Tag::INTEGER) => {
                let number = fields.integer_i64(Tag::INTEGER)?;
                let number = u64::try_from(number).ok();
                Some(number.ok_or_else(|| fields.error(DecodeReason::OutOfRange))?)
            }
            Some(_) | None => None,
        };
        fields.end()?;
        Ok(Self { change, previous_dn, number })
    }

    /// The value of a response control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::ENUMERATED, i64::from(self.change as u8));
        if let Some(name) = self.previous_dn {
            writer.octets(Tag::OCTET_STRING, name.as_bytes());
        }
        if let Some(number) = self.number.and_then(|number| i64::try_from(number).ok()) {
            writer.integer(Tag::INTEGER, number);
        }
        writer.end(fields);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_is_wanted() {
        let wire = b"\x30\x09\x02\x01\x05\x01\x01\xff\x01\x01\x00";
        let asked = PersistentSearch::decode(wire).unwrap();
        assert_eq!((asked.changes_only, asked.return_changes), (true, false));
        let wanted = ChangeType::ALL.map(|one| asked.wants(one));
        assert_eq!(wanted, [true, false, true, false]);
        assert_eq!(asked.encode(), wire);
        for types in [0, 16, -1, 300] {
            let mut value = Vec::new();
            let mut writer = Writer::new(&mut value);
            let fields = writer.begin(Tag::SEQUENCE);
            writer.integer(Tag::INTEGER, types);
            writer.boolean(Tag::BOOLEAN, true);
            writer.boolean(Tag::BOOLEAN, true);
            writer.end(fields);
            assert!(PersistentSearch::decode(&value).is_err(), "{types}");
        }
        for bad in [&b""[..], b"\x30\x00", &[wire, &b"\x00"[..]].concat()] {
            assert!(PersistentSearch::decode(bad).is_err(), "{bad:02x?}");
        }
    }

    #[test]
    fn what_has_happened_is_read_back() {
        for change in ChangeType::ALL {
            for (previous_dn, number) in
                [(None, None), (Some("dc=a"), None), (None, Some(7)), (Some(""), Some(1 << 40))]
            {
                let told = EntryChange { change, previous_dn, number };
                assert_eq!(EntryChange::decode(&told.encode()), Ok(told));
            }
        }
        let told = EntryChange { change: ChangeType::Rename, previous_dn: Some("a"), number: None };
        assert_eq!(told.encode(), b"\x30\x06\x0a\x01\x08\x04\x01a");
        assert!(EntryChange::decode(b"\x30\x03\x0a\x01\x03").is_err(), "no change is so");
    }
}
