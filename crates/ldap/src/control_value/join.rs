//! The values of the join controls of UnboundID: with an entry come others that have to do with it,
//! as rows do in a join of SQL.
//!
//! ```text
//! LDAPJoin ::= SEQUENCE {
//!     joinRule      JoinRule,
//!     baseObject    CHOICE {
//!         useSearchBaseDN   [0] NULL,
//!         useSourceEntryDN  [1] NULL,
//!         useCustomBaseDN   [2] LDAPDN, ... },
//!     scope         [0] ENUMERATED { as of a search } OPTIONAL,
//!     derefAliases  [1] ENUMERATED { as of a search } OPTIONAL,
//!     sizeLimit     [2] INTEGER (0 .. maxInt) OPTIONAL,
//!     filter        [3] Filter OPTIONAL,              -- the tag is explicit
//!     attributes    [4] AttributeSelection OPTIONAL,
//!     requireMatch  [5] BOOLEAN DEFAULT FALSE,
//!     nestedJoin    [6] LDAPJoin OPTIONAL, ... }
//!
//! JoinRule ::= CHOICE {
//!     and            [0] SET (1 .. MAX) OF JoinRule,
//!     or             [1] SET (1 .. MAX) OF JoinRule,
//!     dnJoin         [2] AttributeDescription,
//!     equalityJoin   [3] JoinRuleAssertion,
//!     containsJoin   [4] JoinRuleAssertion,
//!     reverseDNJoin  [5] AttributeDescription, ... }
//!
//! JoinRuleAssertion ::= SEQUENCE {
//!     sourceAttribute  AttributeDescription,
//!     targetAttribute  AttributeDescription,
//!     matchAll         BOOLEAN DEFAULT FALSE }
//!
//! JoinResult ::= SEQUENCE {
//!     COMPONENTS OF LDAPResult,
//!     entries  [4] SEQUENCE OF JoinedEntry }
//!
//! JoinedEntry ::= SEQUENCE {
//!     objectName         LDAPDN,
//!     attributes         PartialAttributeList,
//!     nestedJoinResults  SEQUENCE OF JoinedEntry OPTIONAL }
//! ```

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};
use crate::filter::Filter;
use crate::message::{Attributes, DecodeLimits, DerefAliases, Scope, Strings};

/// The OID of the control, of requests and of responses.
pub const OID: &str = "1.3.6.1.4.1.30221.2.5.9";
/// How many joins a request may have, one in the other.
pub const DEPTH_MAX: usize = 4;
/// How many parts a rule may have, and how deep they may be in each other.
pub const RULE_PARTS_MAX: usize = 16;
const RULE_DEPTH_MAX: usize = 4;

const AND: Tag = Tag::context(0, true);
const OR: Tag = Tag::context(1, true);
const BY_DN: Tag = Tag::context(2, false);
const EQUALITY: Tag = Tag::context(3, true);
const CONTAINS: Tag = Tag::context(4, true);
const REVERSE_DN: Tag = Tag::context(5, false);

const SEARCH_BASE: Tag = Tag::context(0, false);
const SOURCE_ENTRY: Tag = Tag::context(1, false);
const CUSTOM: Tag = Tag::context(2, false);

const SCOPE: Tag = Tag::context(0, false);
const DEREF: Tag = Tag::context(1, false);
const SIZE_LIMIT: Tag = Tag::context(2, false);
const FILTER: Tag = Tag::context(3, true);
const ATTRIBUTES: Tag = Tag::context(4, true);
const REQUIRE_MATCH: Tag = Tag::context(5, false);
const NESTED: Tag = Tag::context(6, true);
/// All behind the base, in their order.
const OPTIONAL: [Tag; 7] = [SCOPE, DEREF, SIZE_LIMIT, FILTER, ATTRIBUTES, REQUIRE_MATCH, NESTED];

const ENTRIES: Tag = Tag::context(4, true);

/// Which entries are joined with one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JoinRule<'a> {
    /// Those of all of these.
    And(Vec<Self>),
    /// Those of one of these.
    Or(Vec<Self>),
    /// Those that values of an attribute name.
    Dn(&'a str),
    /// Those that have its values.
    Equality(JoinAssertion<'a>),
    /// Those that have its values in theirs.
    Contains(JoinAssertion<'a>),
    /// Those that name it by an attribute.
    ReverseDn(&'a str),
}

/// Of which attributes values are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JoinAssertion<'a> {
    /// That of the entry that is joined with others.
    pub source: &'a str,
    /// That of the others.
    pub target: &'a str,
    /// All values of the source are to be there, not one of them.
    pub match_all: bool,
}

/// Where the others are looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JoinBase<'a> {
    /// At the base of the search.
    Search,
    /// At the entry itself.
    Source,
    /// At the entry of this name.
    Custom(&'a str),
}

/// What a request control asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntryJoin<'a> {
    /// Which entries are joined.
    pub rule: JoinRule<'a>,
    /// Where they are.
    pub base: JoinBase<'a>,
    /// How far below; as the search does if nothing is said.
    pub scope: Option<Scope>,
    /// What is done about aliases; as the search does if nothing is said.
    pub deref: Option<DerefAliases>,
    /// How many there may be; 0 and nothing are as many as the server gives.
    pub size_limit: Option<u32>,
    /// Only those that match are joined.
    pub filter: Option<Filter<'a>>,
    /// What of them is wanted, as a search says it.
    pub attributes: Option<Strings<'a>>,
    /// An entry with which none is joined is not wanted.
    pub require_match: bool,
    /// What these are joined with in turn.
    pub nested: Option<Box<Self>>,
}

impl<'a> JoinRule<'a> {
    fn decode(
        reader: &mut Reader<'a>,
        depth: usize,
        parts: &mut usize,
    ) -> Result<Self, DecodeError> {
        *parts += 1;
        if depth > RULE_DEPTH_MAX {
            return Err(reader.error(DecodeReason::TooDeep));
        }
        if *parts > RULE_PARTS_MAX {
            return Err(reader.error(DecodeReason::TooManyTerms));
        }
        match reader.peek_tag() {
            Some(AND) => Self::set(reader.sequence(AND)?, depth, parts).map(Self::And),
            Some(OR) => Self::set(reader.sequence(OR)?, depth, parts).map(Self::Or),
            Some(EQUALITY) => JoinAssertion::decode(reader.sequence(EQUALITY)?).map(Self::Equality),
            Some(CONTAINS) => JoinAssertion::decode(reader.sequence(CONTAINS)?).map(Self::Contains),
            Some(REVERSE_DN) => reader.string(REVERSE_DN).map(Self::ReverseDn),
            _ => reader.string(BY_DN).map(Self::Dn),
        }
    }

    fn set(
        mut reader: Reader<'a>,
        depth: usize,
        parts: &mut usize,
    ) -> Result<Vec<Self>, DecodeError> {
        let mut all = Vec::new();
        while !reader.is_empty() {
            all.push(Self::decode(&mut reader, depth + 1, parts)?);
        }
        match all.is_empty() {
            true => Err(reader.error(DecodeReason::EmptyList)),
            false => Ok(all),
        }
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        let mut set = |tag, parts: &[Self]| {
            let set = writer.begin_long(tag);
            parts.iter().for_each(|part| part.encode(writer));
            writer.end(set);
        };
        match self {
            Self::And(parts) => set(AND, parts),
            Self::Or(parts) => set(OR, parts),
            Self::Dn(attribute) => writer.octets(BY_DN, attribute.as_bytes()),
            Self::Equality(assertion) => assertion.encode(EQUALITY, writer),
            Self::Contains(assertion) => assertion.encode(CONTAINS, writer),
            Self::ReverseDn(attribute) => writer.octets(REVERSE_DN, attribute.as_bytes()),
        }
    }
}

impl<'a> JoinAssertion<'a> {
    fn decode(mut fields: Reader<'a>) -> Result<Self, DecodeError> {
        let source = fields.string(Tag::OCTET_STRING)?;
        let target = fields.string(Tag::OCTET_STRING)?;
        let match_all = !fields.is_empty() && fields.boolean(Tag::BOOLEAN)?;
        fields.end()?;
        Ok(Self { source, target, match_all })
    }

    fn encode(&self, tag: Tag, writer: &mut Writer<'_>) {
        let fields = writer.begin_long(tag);
        writer.octets(Tag::OCTET_STRING, self.source.as_bytes());
        writer.octets(Tag::OCTET_STRING, self.target.as_bytes());
        if self.match_all {
            writer.boolean(Tag::BOOLEAN, true);
        }
        writer.end(fields);
    }
}

impl<'a> EntryJoin<'a> {
    /// Reads the value of a control.
    ///
    /// # Errors
    /// When it is malformed, or exceeds a limit.
    pub fn decode(value: &'a [u8], limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        Self::fields(fields, limits, 1)
    }

    fn fields(
        mut fields: Reader<'a>,
        limits: &DecodeLimits,
        depth: usize,
    ) -> Result<Self, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(fields.error(DecodeReason::TooDeep));
        }
        let rule = JoinRule::decode(&mut fields, 1, &mut 0)?;
        let base = match fields.peek_tag() {
            Some(SEARCH_BASE) => null(&mut fields, SEARCH_BASE).map(|()| JoinBase::Search)?,
            Some(SOURCE_ENTRY) => null(&mut fields, SOURCE_ENTRY).map(|()| JoinBase::Source)?,
            _ => JoinBase::Custom(fields.string(CUSTOM)?),
        };
        if matches!(base, JoinBase::Custom(name) if name.len() > limits.dn_length_max_bytes) {
            return Err(fields.error(DecodeReason::NameTooLong));
        }
        let scope = one_of(&mut fields, SCOPE, &SCOPES)?;
        let deref = one_of(&mut fields, DEREF, &DEREFS)?;
        let has_limit = fields.peek_tag() == Some(SIZE_LIMIT);
        let size_limit = has_limit.then(|| fields.unsigned(SIZE_LIMIT)).transpose()?;
        let mut filter = None;
        if let Some(mut inner) = fields.sequence_optional(FILTER)? {
            filter = Some(Filter::decode(&mut inner, limits)?);
            inner.end()?;
        }
        let attributes = fields.sequence_optional(ATTRIBUTES)?.map(Strings::decode).transpose()?;
        let has_flag = fields.peek_tag() == Some(REQUIRE_MATCH);
        let require_match = has_flag && fields.boolean(REQUIRE_MATCH)?;
        let nested = match fields.sequence_optional(NESTED)? {
            Some(nested) => Some(Box::new(Self::fields(nested, limits, depth + 1)?)),
            None => None,
        };
        fields.end_extensible(&OPTIONAL)?;
        Ok(Self { rule, base, scope, deref, size_limit, filter, attributes, require_match, nested })
    }

    /// Writes the value of a control; what has its default is left out.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        self.write(Tag::SEQUENCE, &mut Writer::new(&mut value));
        value
    }

    fn write(&self, tag: Tag, writer: &mut Writer<'_>) {
        let fields = writer.begin_long(tag);
        self.rule.encode(writer);
        match self.base {
            JoinBase::Search => writer.octets(SEARCH_BASE, b""),
            JoinBase::Source => writer.octets(SOURCE_ENTRY, b""),
            JoinBase::Custom(name) => writer.octets(CUSTOM, name.as_bytes()),
        }
        put_one_of(writer, SCOPE, &SCOPES, self.scope);
        put_one_of(writer, DEREF, &DEREFS, self.deref);
        if let Some(limit) = self.size_limit {
            writer.integer(SIZE_LIMIT, limit.into());
        }
        if let Some(filter) = &self.filter {
            let outer = writer.begin_long(FILTER);
            filter.encode(writer);
            writer.end(outer);
        }
        if let Some(attributes) = self.attributes {
            let list = writer.begin_long(ATTRIBUTES);
            attributes.iter().for_each(|one| writer.octets(Tag::OCTET_STRING, one.as_bytes()));
            writer.end(list);
        }
        if self.require_match {
            writer.boolean(REQUIRE_MATCH, true);
        }
        if let Some(nested) = &self.nested {
            nested.write(NESTED, writer);
        }
        writer.end(fields);
    }
}

fn null(fields: &mut Reader<'_>, tag: Tag) -> Result<(), DecodeError> {
    match fields.octets(tag)?.is_empty() {
        true => Ok(()),
        false => Err(fields.error(DecodeReason::BadNull)),
    }
}

fn one_of<T: Copy>(fields: &mut Reader<'_>, tag: Tag, all: &[T]) -> Result<Option<T>, DecodeError> {
    if fields.peek_tag() != Some(tag) {
        return Ok(None);
    }
    let number = fields.enumerated(tag)?;
    let found = usize::try_from(number).ok().and_then(|number| all.get(number));
    found.map(|found| Some(*found)).ok_or_else(|| fields.error(DecodeReason::OutOfRange))
}

fn put_one_of<T: PartialEq>(writer: &mut Writer<'_>, tag: Tag, all: &[T], one: Option<T>) {
    let number = one.and_then(|one| all.iter().position(|other| *other == one));
    if let Some(number) = number.and_then(|number| u32::try_from(number).ok()) {
        writer.enumerated(tag, number);
    }
}

/// In the order of their numbers.
const SCOPES: [Scope; 4] = [Scope::Base, Scope::One, Scope::Subtree, Scope::Subordinate];
const DEREFS: [DerefAliases; 4] = [
    DerefAliases::Never,
    DerefAliases::InSearching,
    DerefAliases::FindingBase,
    DerefAliases::Always,
];

/// Writes the entries that one is joined with, one after the other.
#[derive(Debug, Default)]
pub struct JoinedEntries {
    content: Vec<u8>,
    count: usize,
}

impl JoinedEntries {
    /// Adds an entry with what it is joined with in turn.
    pub fn push(&mut self, name: &str, attributes: Attributes<'_>, nested: Option<&Self>) {
        let mut writer = Writer::new(&mut self.content);
        let entry = writer.begin_long(Tag::SEQUENCE);
        writer.octets(Tag::OCTET_STRING, name.as_bytes());
        writer.octets(Tag::SEQUENCE, attributes.as_ber());
        if let Some(nested) = nested.filter(|nested| nested.count > 0) {
            writer.octets(Tag::SEQUENCE, &nested.content);
        }
        writer.end(entry);
        self.count += 1;
    }

    /// How many there are, without those that they are joined with.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// How many octets they have.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.content.len()
    }

    /// The value of a response control: how the join ended, and what came of it.
    #[must_use]
    pub fn finish(&self, code: u32, diagnostic: &str) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.content.len() + diagnostic.len() + 32);
        let mut writer = Writer::new(&mut value);
        let result = writer.begin_long(Tag::SEQUENCE);
        writer.enumerated(Tag::ENUMERATED, code);
        writer.octets(Tag::OCTET_STRING, b"");
        writer.octets(Tag::OCTET_STRING, diagnostic.as_bytes());
        writer.octets(ENTRIES, &self.content);
        writer.end(result);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AttributesBuf, PartialAttribute, StringsBuf, ValuesBuf};

    /// What the SDK sends for the example in its documentation, shortened: equality of `a` and
    /// `b`, a base, the whole subtree, aliases never, a filter `(c=d)`.
    const REQUEST: &[u8] = b"\x30\x23\xa3\x06\x04\x01a\x04\x01b\x82\x04dc=x\x80\x01\x02\x81\x01\
          \x00\xa3\x08\xa3\x06\x04\x01c\x04\x01d\xa4\x03\x04\x01*";

    fn decode(value: &[u8]) -> Result<EntryJoin<'_>, DecodeError> {
        EntryJoin::decode(value, &DecodeLimits::default())
    }

    #[test]
    fn a_request_is_read_and_written() {
        let read = decode(REQUEST).unwrap();
        let assertion = JoinAssertion { source: "a", target: "b", match_all: false };
        assert_eq!(read.rule, JoinRule::Equality(assertion));
        assert_eq!(read.base, JoinBase::Custom("dc=x"));
        assert_eq!(read.scope, Some(Scope::Subtree));
        assert_eq!(read.deref, Some(DerefAliases::Never));
        assert_eq!((read.size_limit, read.require_match), (None, false));
        assert!(read.filter.is_some() && read.nested.is_none());
        assert_eq!(read.attributes.unwrap().iter().collect::<Vec<_>>(), ["*"]);
        assert_eq!(decode(&read.encode()).unwrap(), read);
    }

    #[test]
    fn every_part_comes_back() {
        let mut names = StringsBuf::new();
        names.push("cn");
        let assertion = JoinAssertion { source: "a", target: "b", match_all: true };
        let inner = EntryJoin {
            rule: JoinRule::ReverseDn("member"),
            base: JoinBase::Source,
            scope: None,
            deref: None,
            size_limit: None,
            filter: None,
            attributes: None,
            require_match: false,
            nested: None,
        };
        let outer = EntryJoin {
            rule: JoinRule::Or(vec![
                JoinRule::And(vec![JoinRule::Dn("manager"), JoinRule::Contains(assertion)]),
                JoinRule::Equality(assertion),
            ]),
            base: JoinBase::Search,
            scope: Some(Scope::Subordinate),
            deref: Some(DerefAliases::Always),
            size_limit: Some(7),
            filter: None,
            attributes: Some(names.as_ref()),
            require_match: true,
            nested: Some(Box::new(inner)),
        };
        let value = outer.encode();
        assert_eq!(decode(&value), Ok(outer));
        for end in 0..value.len() {
            assert!(decode(&value[..end]).is_err(), "{end}");
        }
        assert!(decode(&[&value[..], b"\0"].concat()).is_err());
    }

    #[test]
    fn limits_hold() {
        let nested = |depth: usize| {
            let mut request = decode(REQUEST).unwrap();
            for _ in 1..depth {
                request = EntryJoin { nested: Some(Box::new(request)), ..decode(REQUEST).unwrap() };
            }
            request.encode()
        };
        assert!(decode(&nested(DEPTH_MAX)).is_ok());
        assert!(decode(&nested(DEPTH_MAX + 1)).is_err());
        let of_rule = |rule: JoinRule<'static>| {
            decode(&EntryJoin { rule, ..decode(REQUEST).unwrap() }.encode()).is_ok()
        };
        let many = |count: usize| JoinRule::And(vec![JoinRule::Dn("a"); count]);
        assert!(of_rule(many(RULE_PARTS_MAX - 1)));
        assert!(!of_rule(many(RULE_PARTS_MAX)));
        assert!(!of_rule(many(0)));
        let deep =
            |depth: usize| (1..depth).fold(JoinRule::Dn("a"), |rule, _| JoinRule::Or(vec![rule]));
        assert!(of_rule(deep(RULE_DEPTH_MAX)));
        assert!(!of_rule(deep(RULE_DEPTH_MAX + 1)));
    }

    #[test]
    fn a_result_is_written() {
        let mut values = ValuesBuf::new();
        values.push(b"v");
        let mut attributes = AttributesBuf::new();
        attributes.push(PartialAttribute { description: "cn", values: values.as_ref() });
        let mut inner = JoinedEntries::default();
        inner.push("cn=i", Attributes::EMPTY, None);
        let mut all = JoinedEntries::default();
        all.push("cn=o", attributes.as_ref(), Some(&inner));
        all.push("cn=p", Attributes::EMPTY, Some(&JoinedEntries::default()));
        assert_eq!(all.count(), 2);
        let written = all.finish(4, "no");
        let mut reader = Reader::new(&written);
        let mut fields = reader.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(fields.enumerated(Tag::ENUMERATED), Ok(4));
        assert_eq!(fields.octets(Tag::OCTET_STRING), Ok(&b""[..]));
        assert_eq!(fields.string(Tag::OCTET_STRING), Ok("no"));
        let mut entries = fields.sequence(ENTRIES).unwrap();
        let mut first = entries.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(first.string(Tag::OCTET_STRING), Ok("cn=o"));
        assert_eq!(first.octets(Tag::SEQUENCE), Ok(attributes.as_ref().as_ber()));
        let mut nested = first.sequence(Tag::SEQUENCE).unwrap();
        assert!(nested.octets(Tag::SEQUENCE).is_ok() && nested.end().is_ok());
        assert!(first.end().is_ok());
        let mut second = entries.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(second.string(Tag::OCTET_STRING), Ok("cn=p"));
        assert_eq!(second.octets(Tag::SEQUENCE), Ok(&b""[..]));
        assert!(second.end().is_ok() && entries.end().is_ok() && fields.end().is_ok());
    }
}
