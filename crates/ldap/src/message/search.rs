//! Search (RFC 4511 §4.5.1).

use super::{DecodeLimits, Strings};
use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};
use crate::filter::Filter;

/// Asks for the entries of a scope that match a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRequest<'a> {
    /// The DN of the base entry.
    pub base: &'a str,
    /// Which entries, seen from the base.
    pub scope: Scope,
    /// When aliases are followed.
    pub deref: DerefAliases,
    /// The most entries wanted; 0: as many as the server allows.
    pub size_limit_entries: u32,
    /// The most time to take, in seconds; 0: as long as the server allows.
    pub time_limit_s: u32,
    /// Whether to leave out the values.
    pub types_only: bool,
    /// Which entries match.
    pub filter: Filter<'a>,
    /// The attributes wanted (RFC 4511 §4.5.1.8); empty: all user attributes.
    pub attributes: Strings<'a>,
}

/// How far a search goes (RFC 4511 §4.5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The base entry only.
    Base,
    /// Its immediate subordinates.
    One,
    /// The base and all below.
    Subtree,
    /// All below, without the base (`draft-sermersheim-ldap-subordinate-scope`).
    Subordinate,
}

impl Scope {
    /// The scope with this number.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Base),
            1 => Some(Self::One),
            2 => Some(Self::Subtree),
            3 => Some(Self::Subordinate),
            _ => None,
        }
    }

    /// What it is called in LDAP URLs (RFC 4516 §2) and in what the server says.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::One => "one",
            Self::Subtree => "sub",
            Self::Subordinate => "subordinate",
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Base => 0,
            Self::One => 1,
            Self::Subtree => 2,
            Self::Subordinate => 3,
        }
    }
}

/// When a search follows aliases (RFC 4511 §4.5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerefAliases {
    /// Never.
    Never,
    /// While searching, not to find the base.
    InSearching,
    /// To find the base only.
    FindingBase,
    /// Always.
    Always,
}

impl DerefAliases {
    /// The choice with this number.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Never),
            1 => Some(Self::InSearching),
            2 => Some(Self::FindingBase),
            3 => Some(Self::Always),
            _ => None,
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Never => 0,
            Self::InSearching => 1,
            Self::FindingBase => 2,
            Self::Always => 3,
        }
    }
}

impl<'a> SearchRequest<'a> {
    pub(super) fn read(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let base = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let at_scope = fields;
        let scope = Scope::from_code(fields.enumerated(Tag::ENUMERATED)?)
            .ok_or(at_scope.error(DecodeReason::OutOfRange))?;
        let at_deref = fields;
        let deref = DerefAliases::from_code(fields.enumerated(Tag::ENUMERATED)?)
            .ok_or(at_deref.error(DecodeReason::OutOfRange))?;
        let size_limit_entries = fields.unsigned(Tag::INTEGER)?;
        let time_limit_s = fields.unsigned(Tag::INTEGER)?;
        let types_only = fields.boolean(Tag::BOOLEAN)?;
        let filter = Filter::decode(&mut fields, limits)?;
        let at_attributes = fields;
        let attributes = Strings::decode(fields.sequence(Tag::SEQUENCE)?)?;
        if attributes.is_longer_than(limits.selected_max) {
            return Err(at_attributes.error(DecodeReason::TooManyAttributes));
        }
        fields.end_extensible(&[])?;
        Ok(Self {
            base,
            scope,
            deref,
            size_limit_entries,
            time_limit_s,
            types_only,
            filter,
            attributes,
        })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.octets(Tag::OCTET_STRING, self.base.as_bytes());
        writer.enumerated(Tag::ENUMERATED, self.scope.code());
        writer.enumerated(Tag::ENUMERATED, self.deref.code());
        writer.integer(Tag::INTEGER, i64::from(self.size_limit_entries));
        writer.integer(Tag::INTEGER, i64::from(self.time_limit_s));
        writer.boolean(Tag::BOOLEAN, self.types_only);
        self.filter.encode(writer);
        writer.octets(Tag::SEQUENCE, self.attributes.as_ber());
    }
}
