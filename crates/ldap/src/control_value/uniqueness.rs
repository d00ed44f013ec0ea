//! The values of the uniqueness controls of UnboundID: an update is carried out only if no other
//! entry has what its entry is to have.
//!
//! ```text
//! UniquenessRequestValue ::= SEQUENCE {
//!     uniquenessID                            [0] OCTET STRING,
//!     attributeTypes                          [1] SET OF OCTET STRING OPTIONAL,
//!     multipleAttributeBehavior               [2] ENUMERATED {
//!         uniqueWithinEachAttribute (0), uniqueAcrossAllAttributesIncludingInSameEntry (1),
//!         uniqueAcrossAllAttributesExceptInSameEntry (2), uniqueInCombination (3),
//!         ... } DEFAULT uniqueWithinEachAttribute,
//!     baseDN                                  [3] LDAPDN OPTIONAL,
//!     filter                                  [4] Filter OPTIONAL,     -- the tag is explicit
//!     preventConflictsWithSoftDeletedEntries  [5] BOOLEAN DEFAULT FALSE,
//!     preCommitValidationLevel                [6] ENUMERATED {
//!         none (0), allSubtreeViews (1), allBackendSets (2), allAvailableBackendServers (3),
//!         ... } DEFAULT allSubtreeViews,
//!     postCommitValidationLevel               [7] ENUMERATED { as above } DEFAULT allSubtreeViews,
//!     alertOnPostCommitConflictDetection      [8] BOOLEAN DEFAULT TRUE,
//!     createConflictPreventionDetailsEntry    [9] BOOLEAN DEFAULT FALSE,
//!     ... }
//!
//! UniquenessResponseValue ::= SEQUENCE {
//!     uniquenessID                [0] OCTET STRING,
//!     preCommitValidationPassed   [1] BOOLEAN OPTIONAL,
//!     postCommitValidationPassed  [2] BOOLEAN OPTIONAL,
//!     validationMessage           [3] OCTET STRING OPTIONAL,
//!     ... }
//! ```

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};
use crate::filter::Filter;
use crate::message::DecodeLimits;

/// The OID of the request control.
pub const REQUEST_OID: &str = "1.3.6.1.4.1.30221.2.5.52";
/// The OID of the response control.
pub const RESPONSE_OID: &str = "1.3.6.1.4.1.30221.2.5.53";
/// How many attributes a control may be about.
pub const ATTRIBUTES_MAX: usize = 16;
/// How long the name may be by which its sender tells it from others, in octets.
pub const ID_MAX_BYTES: usize = 256;

const ID: Tag = Tag::context(0, false);
const ATTRIBUTES: Tag = Tag::context(1, true);
const SEVERAL: Tag = Tag::context(2, false);
const BASE: Tag = Tag::context(3, false);
const FILTER: Tag = Tag::context(4, true);
const SOFT_DELETED: Tag = Tag::context(5, false);
const BEFORE: Tag = Tag::context(6, false);
const AFTER: Tag = Tag::context(7, false);
const ALERT: Tag = Tag::context(8, false);
const ENTRY: Tag = Tag::context(9, false);

/// All tags of a request, in their order.
const OF_REQUEST: [Tag; 10] =
    [ID, ATTRIBUTES, SEVERAL, BASE, FILTER, SOFT_DELETED, BEFORE, AFTER, ALERT, ENTRY];

const BEFORE_PASSED: Tag = Tag::context(1, false);
const AFTER_PASSED: Tag = Tag::context(2, false);
const MESSAGE: Tag = Tag::context(3, false);

/// What values of several attributes have to do with each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SeveralAttributes {
    /// Nothing: each attribute is unique by itself.
    #[default]
    Each,
    /// A value of one of them is not one of another either, not even in the same entry.
    Across,
    /// The same, but an entry may have a value in several of them.
    AcrossOthers,
    /// They are unique together.
    Combination,
}

impl SeveralAttributes {
    /// All of them, in the order of their numbers.
    const ALL: [Self; 4] = [Self::Each, Self::Across, Self::AcrossOthers, Self::Combination];
}

/// Where conflicts are looked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ValidationLevel {
    /// Nowhere.
    None,
    /// In one server for each subtree view.
    #[default]
    SubtreeViews,
    /// In one server of each set of servers.
    BackendSets,
    /// In all servers that can be asked.
    Servers,
}

impl ValidationLevel {
    /// All of them, in the order of their numbers.
    const ALL: [Self; 4] = [Self::None, Self::SubtreeViews, Self::BackendSets, Self::Servers];
}

/// What a request control asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UniquenessRequest<'a> {
    /// By what the response is told from those of other controls.
    pub id: &'a [u8],
    /// The attributes whose values are to be unique; with none of them, the filter says all.
    pub attributes: Vec<&'a str>,
    /// What they have to do with each other.
    pub several: SeveralAttributes,
    /// Only entries at and below this one are looked at.
    pub base: Option<&'a str>,
    /// Only entries that match are looked at.
    pub filter: Option<Filter<'a>>,
    /// Entries that are deleted, and kept, count as well.
    pub with_soft_deleted: bool,
    /// Where conflicts are looked for before the update is carried out.
    pub before: ValidationLevel,
    /// The same, after it.
    pub after: ValidationLevel,
    /// Administrators are to be told of a conflict that is found after it.
    pub alerts: bool,
    /// A temporary entry is to keep others from the same meanwhile.
    pub has_entry: bool,
}

impl<'a> UniquenessRequest<'a> {
    /// Asks nothing of an entry yet.
    #[must_use]
    pub fn new(id: &'a [u8]) -> Self {
        Self {
            id,
            attributes: Vec::new(),
            several: SeveralAttributes::default(),
            base: None,
            filter: None,
            with_soft_deleted: false,
            before: ValidationLevel::default(),
            after: ValidationLevel::default(),
            alerts: true,
            has_entry: false,
        }
    }

    /// Reads the value of a control.
    ///
    /// # Errors
    /// When it is malformed, has neither an attribute nor a filter, or exceeds a limit.
    pub fn decode(value: &'a [u8], limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let mut request = Self::new(fields.octets(ID)?);
        if request.id.len() > ID_MAX_BYTES {
            return Err(fields.error(DecodeReason::NameTooLong));
        }
        if let Some(mut names) = fields.sequence_optional(ATTRIBUTES)? {
            while !names.is_empty() {
                if request.attributes.len() >= ATTRIBUTES_MAX {
                    return Err(names.error(DecodeReason::TooManyTerms));
                }
                request.attributes.push(names.string(Tag::OCTET_STRING)?);
            }
        }
        request.several = one_of(&mut fields, SEVERAL, &SeveralAttributes::ALL)?;
        request.base = fields.string_optional(BASE)?;
        if request.base.is_some_and(|base| base.len() > limits.dn_length_max_bytes) {
            return Err(fields.error(DecodeReason::NameTooLong));
        }
        if let Some(mut filter) = fields.sequence_optional(FILTER)? {
            request.filter = Some(Filter::decode(&mut filter, limits)?);
            filter.end()?;
        }
        request.with_soft_deleted = flag(&mut fields, SOFT_DELETED, false)?;
        request.before = one_of(&mut fields, BEFORE, &ValidationLevel::ALL)?;
        request.after = one_of(&mut fields, AFTER, &ValidationLevel::ALL)?;
        request.alerts = flag(&mut fields, ALERT, true)?;
        request.has_entry = flag(&mut fields, ENTRY, false)?;
        fields.end_extensible(&OF_REQUEST)?;
        match request.attributes.is_empty() && request.filter.is_none() {
            true => Err(fields.error(DecodeReason::EmptyList)),
            false => Ok(request),
        }
    }

    /// Writes the value of a control; what has its default is left out.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin_long(Tag::SEQUENCE);
        writer.octets(ID, self.id);
        if !self.attributes.is_empty() {
            let names = writer.begin_long(ATTRIBUTES);
            for name in &self.attributes {
                writer.octets(Tag::OCTET_STRING, name.as_bytes());
            }
            writer.end(names);
        }
        put_one_of(&mut writer, SEVERAL, &SeveralAttributes::ALL, self.several);
        if let Some(base) = self.base {
            writer.octets(BASE, base.as_bytes());
        }
        if let Some(filter) = &self.filter {
            let outer = writer.begin_long(FILTER);
            filter.encode(&mut writer);
            writer.end(outer);
        }
        put_flag(&mut writer, SOFT_DELETED, self.with_soft_deleted, false);
        put_one_of(&mut writer, BEFORE, &ValidationLevel::ALL, self.before);
        put_one_of(&mut writer, AFTER, &ValidationLevel::ALL, self.after);
        put_flag(&mut writer, ALERT, self.alerts, true);
        put_flag(&mut writer, ENTRY, self.has_entry, false);
        writer.end(fields);
        value
    }
}

/// What a response control tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UniquenessResponse<'a> {
    /// That of the request control.
    pub id: &'a [u8],
    /// Whether there was no conflict before the update; none where none was looked for.
    pub before_passed: Option<bool>,
    /// Whether there was none after it.
    pub after_passed: Option<bool>,
    /// What the conflict is.
    pub message: Option<&'a str>,
}

impl<'a> UniquenessResponse<'a> {
    /// Reads the value of a control.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let id = fields.octets(ID)?;
        let mut passed = |tag| match fields.peek_tag() == Some(tag) {
            true => fields.boolean(tag).map(Some),
            false => Ok(None),
        };
        let (before_passed, after_passed) = (passed(BEFORE_PASSED)?, passed(AFTER_PASSED)?);
        let message = fields.string_optional(MESSAGE)?;
        fields.end_extensible(&[ID, BEFORE_PASSED, AFTER_PASSED, MESSAGE])?;
        Ok(Self { id, before_passed, after_passed, message })
    }

    /// Writes the value of a control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin_long(Tag::SEQUENCE);
        writer.octets(ID, self.id);
        for (tag, passed) in
            [(BEFORE_PASSED, self.before_passed), (AFTER_PASSED, self.after_passed)]
        {
            if let Some(passed) = passed {
                writer.boolean(tag, passed);
            }
        }
        if let Some(message) = self.message {
            writer.octets(MESSAGE, message.as_bytes());
        }
        writer.end(fields);
        value
    }
}

/// Reads a number that stands for one of these; the default where there is none.
fn one_of<T: Copy + Default>(
    fields: &mut Reader<'_>,
    tag: Tag,
    all: &[T],
) -> Result<T, DecodeError> {
    if fields.peek_tag() != Some(tag) {
        return Ok(T::default());
    }
    let number = fields.enumerated(tag)?;
    let one = usize::try_from(number).ok().and_then(|number| all.get(number));
    one.copied().ok_or_else(|| fields.error(DecodeReason::OutOfRange))
}

fn put_one_of<T: Default + PartialEq>(writer: &mut Writer<'_>, tag: Tag, all: &[T], one: T) {
    if one != T::default()
        && let Some(number) = (0..).zip(all).find_map(|(number, it)| (*it == one).then_some(number))
    {
        writer.enumerated(tag, number);
    }
}

fn flag(fields: &mut Reader<'_>, tag: Tag, default: bool) -> Result<bool, DecodeError> {
    match fields.peek_tag() == Some(tag) {
        true => fields.boolean(tag),
        false => Ok(default),
    }
}

fn put_flag(writer: &mut Writer<'_>, tag: Tag, value: bool, default: bool) {
    if value != default {
        writer.boolean(tag, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{ [0] "u", [1] { uid } }`, as the SDK writes it.
    const PLAIN: &[u8] = b"\x30\x0a\x80\x01u\xa1\x05\x04\x03uid";

    /// Everything, and nothing by default: the filter is an element in an element.
    const WHOLE: &[u8] = b"\x30\x34\x80\x01u\xa1\x0b\x04\x03uid\x04\x04mail\x82\x01\x03\
        \x83\x04dc=x\xa4\x0a\xa3\x08\x04\x02sn\x04\x02ab\x85\x01\xff\x86\x01\x02\x87\x01\x03\
        \x88\x01\x00\x89\x01\xff";

    fn decode(value: &[u8]) -> Result<UniquenessRequest<'_>, DecodeError> {
        UniquenessRequest::decode(value, &DecodeLimits::default())
    }

    #[test]
    fn a_request_is_read() {
        let plain = UniquenessRequest { attributes: vec!["uid"], ..UniquenessRequest::new(b"u") };
        assert_eq!(decode(PLAIN), Ok(plain.clone()));
        assert_eq!(plain.encode(), PLAIN);
        let whole = UniquenessRequest {
            attributes: vec!["uid", "mail"],
            several: SeveralAttributes::Combination,
            base: Some("dc=x"),
            filter: Some(Filter::parse("(sn=ab)").unwrap()),
            with_soft_deleted: true,
            before: ValidationLevel::BackendSets,
            after: ValidationLevel::Servers,
            alerts: false,
            has_entry: true,
            ..UniquenessRequest::new(b"u")
        };
        assert_eq!(decode(WHOLE), Ok(whole.clone()));
        assert_eq!(whole.encode(), WHOLE);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for value in [
            &b""[..],
            b"\x30\x00",
            // Neither attributes nor a filter.
            b"\x30\x03\x80\x01u",
            b"\x30\x05\x80\x01u\xa1\x00",
            // No name of its own.
            b"\x30\x07\xa1\x05\x04\x03uid",
            // A number that stands for nothing.
            b"\x30\x0d\x80\x01u\xa1\x05\x04\x03uid\x82\x01\x04",
            b"\x30\x0d\x80\x01u\xa1\x05\x04\x03uid\x86\x01\x04",
            // A filter without its own tag.
            b"\x30\x0d\x80\x01u\xa4\x08\x04\x02sn\x04\x02ab",
            // Two filters.
            b"\x30\x0d\x80\x01u\xa4\x08\x87\x02sn\x87\x02cn",
            // Out of order.
            b"\x30\x0a\xa1\x05\x04\x03uid\x80\x01u",
        ] {
            assert!(decode(value).is_err(), "{value:?}");
        }
        for at in 0..WHOLE.len() {
            assert!(decode(&WHOLE[..at]).is_err(), "{at}");
        }
        assert!(decode(&[PLAIN, b"\0"].concat()).is_err());
        let attributes = vec!["a"; ATTRIBUTES_MAX + 1];
        let many = UniquenessRequest { attributes, ..UniquenessRequest::new(b"u") };
        assert!(decode(&many.encode()).is_err());
        let long = vec![b'u'; ID_MAX_BYTES + 1];
        let long = UniquenessRequest { attributes: vec!["a"], ..UniquenessRequest::new(&long) };
        assert!(decode(&long.encode()).is_err());
    }

    #[test]
    fn a_response_is_written() {
        let told = UniquenessResponse {
            id: b"u",
            before_passed: Some(false),
            after_passed: None,
            message: Some("no"),
        };
        let value = told.encode();
        assert_eq!(value, b"\x30\x0a\x80\x01u\x81\x01\x00\x83\x02no");
        assert_eq!(UniquenessResponse::decode(&value), Ok(told));
        let told = UniquenessResponse {
            before_passed: Some(true),
            after_passed: Some(true),
            message: None,
            ..told
        };
        assert_eq!(told.encode(), b"\x30\x09\x80\x01u\x81\x01\xff\x82\x01\xff");
        assert_eq!(UniquenessResponse::decode(&told.encode()), Ok(told));
    }
}
