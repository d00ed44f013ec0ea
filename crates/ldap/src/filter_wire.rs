//! Search filters on the wire (RFC 4511 §4.5.1.7).
//!
//! Invariants: decoding recurses no deeper than `filter_depth_max` and makes no more than
//! `filter_terms_max` terms; empty `and` and `or` are allowed (RFC 4526).

use std::borrow::Cow;

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};
use crate::filter::{AvaFilter, ExtensibleFilter, Filter, SubstringFilter};
use crate::message::DecodeLimits;

impl<'a> Filter<'a> {
    /// Reads the next element, a filter; values are borrowed.
    pub fn decode(reader: &mut Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let mut budget =
            Budget { depth_left: limits.filter_depth_max, terms_left: limits.filter_terms_max };
        decode_filter(reader, &mut budget)
    }

    /// Writes the filter as one element.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::And(filters) => encode_set(AND, filters, writer),
            Self::Or(filters) => encode_set(OR, filters, writer),
            Self::Not(filter) => {
                let mark = writer.begin(NOT);
                filter.encode(writer);
                writer.end(mark);
            }
            Self::Equality(ava) => encode_ava(EQUALITY, ava, writer),
            Self::Substrings(substrings) => encode_substrings(substrings, writer),
            Self::GreaterOrEqual(ava) => encode_ava(GREATER_OR_EQUAL, ava, writer),
            Self::LessOrEqual(ava) => encode_ava(LESS_OR_EQUAL, ava, writer),
            Self::Present(description) => writer.octets(PRESENT, description.as_bytes()),
            Self::Approx(ava) => encode_ava(APPROX, ava, writer),
            Self::Extensible(extensible) => encode_extensible(extensible, writer),
        }
    }
}

/// What is left of the limits while a filter is read.
struct Budget {
    depth_left: u16,
    terms_left: u32,
}

impl Budget {
    fn take_term(&mut self, at: &Reader<'_>) -> Result<(), DecodeError> {
        match self.terms_left.checked_sub(1) {
            Some(left) => {
                self.terms_left = left;
                Ok(())
            }
            None => Err(at.error(DecodeReason::TooManyTerms)),
        }
    }
}

fn decode_filter<'a>(
    reader: &mut Reader<'a>,
    budget: &mut Budget,
) -> Result<Filter<'a>, DecodeError> {
    budget.take_term(reader)?;
    let Some(depth_left) = budget.depth_left.checked_sub(1) else {
        return Err(reader.error(DecodeReason::TooDeep));
    };
    let Some(tag) = reader.peek_tag() else {
        return Err(reader.error(DecodeReason::Truncated));
    };
    budget.depth_left = depth_left;
    let filter = match tag {
        AND => Filter::And(decode_set(reader.sequence(tag)?, budget)?),
        OR => Filter::Or(decode_set(reader.sequence(tag)?, budget)?),
        NOT => {
            let mut inner = reader.sequence(tag)?;
            let filter = decode_filter(&mut inner, budget)?;
            inner.end()?;
            Filter::Not(Box::new(filter))
        }
        EQUALITY => Filter::Equality(decode_ava(reader.sequence(tag)?)?),
        SUBSTRINGS => Filter::Substrings(decode_substrings(reader.sequence(tag)?, budget)?),
        GREATER_OR_EQUAL => Filter::GreaterOrEqual(decode_ava(reader.sequence(tag)?)?),
        LESS_OR_EQUAL => Filter::LessOrEqual(decode_ava(reader.sequence(tag)?)?),
        PRESENT => Filter::Present(reader.string(tag)?),
        APPROX => Filter::Approx(decode_ava(reader.sequence(tag)?)?),
        EXTENSIBLE => Filter::Extensible(decode_extensible(reader.sequence(tag)?)?),
        _ => return Err(reader.error(DecodeReason::UnexpectedTag(tag))),
    };
    budget.depth_left += 1;
    Ok(filter)
}

fn decode_set<'a>(
    mut members: Reader<'a>,
    budget: &mut Budget,
) -> Result<Vec<Filter<'a>>, DecodeError> {
    let mut filters = Vec::new();
    while !members.is_empty() {
        filters.push(decode_filter(&mut members, budget)?);
    }
    Ok(filters)
}

fn decode_ava<'a>(mut fields: Reader<'a>) -> Result<AvaFilter<'a>, DecodeError> {
    let description = fields.string(Tag::OCTET_STRING)?;
    let value = Cow::Borrowed(fields.octets(Tag::OCTET_STRING)?);
    fields.end_extensible(&[])?;
    Ok(AvaFilter { description, value })
}

/// `initial` comes first and `final` last, each at most once; no piece is empty
/// (RFC 4517 §3.3.30).
fn decode_substrings<'a>(
    mut fields: Reader<'a>,
    budget: &mut Budget,
) -> Result<SubstringFilter<'a>, DecodeError> {
    let description = fields.string(Tag::OCTET_STRING)?;
    let mut pieces = fields.sequence(Tag::SEQUENCE)?;
    fields.end_extensible(&[])?;
    if pieces.is_empty() {
        return Err(pieces.error(DecodeReason::EmptyList));
    }
    let mut substrings =
        SubstringFilter { description, initial: None, any: Vec::new(), final_: None };
    let mut is_first = true;
    while !pieces.is_empty() {
        budget.take_term(&pieces)?;
        let start = pieces;
        let (tag, piece) = pieces.read_any()?;
        let in_order = match tag {
            INITIAL => is_first,
            ANY | FINAL => substrings.final_.is_none(),
            _ => return Err(start.error(DecodeReason::UnexpectedTag(tag))),
        };
        if !in_order {
            return Err(start.error(DecodeReason::SubstringOrder));
        }
        if piece.is_empty() {
            return Err(start.error(DecodeReason::EmptySubstring));
        }
        match tag {
            INITIAL => substrings.initial = Some(Cow::Borrowed(piece)),
            FINAL => substrings.final_ = Some(Cow::Borrowed(piece)),
            _ => substrings.any.push(Cow::Borrowed(piece)),
        }
        is_first = false;
    }
    Ok(substrings)
}

fn decode_extensible<'a>(mut fields: Reader<'a>) -> Result<ExtensibleFilter<'a>, DecodeError> {
    let start = fields;
    let rule = fields.string_optional(RULE)?;
    let description = fields.string_optional(DESCRIPTION)?;
    if rule.is_none() && description.is_none() {
        return Err(start.error(DecodeReason::EmptyMatchingRule));
    }
    let value = Cow::Borrowed(fields.octets(VALUE)?);
    let dn_attributes =
        fields.peek_tag() == Some(DN_ATTRIBUTES) && fields.boolean(DN_ATTRIBUTES)?;
    fields.end_extensible(&[RULE, DESCRIPTION, VALUE, DN_ATTRIBUTES])?;
    Ok(ExtensibleFilter { rule, description, value, dn_attributes })
}

fn encode_set(tag: Tag, filters: &[Filter<'_>], writer: &mut Writer<'_>) {
    let mark = writer.begin(tag);
    for filter in filters {
        filter.encode(writer);
    }
    writer.end(mark);
}

fn encode_ava(tag: Tag, ava: &AvaFilter<'_>, writer: &mut Writer<'_>) {
    let mark = writer.begin(tag);
    writer.octets(Tag::OCTET_STRING, ava.description.as_bytes());
    writer.octets(Tag::OCTET_STRING, &ava.value);
    writer.end(mark);
}

fn encode_substrings(substrings: &SubstringFilter<'_>, writer: &mut Writer<'_>) {
    let mark = writer.begin(SUBSTRINGS);
    writer.octets(Tag::OCTET_STRING, substrings.description.as_bytes());
    let pieces = writer.begin(Tag::SEQUENCE);
    if let Some(initial) = &substrings.initial {
        writer.octets(INITIAL, initial);
    }
    for any in &substrings.any {
        writer.octets(ANY, any);
    }
    if let Some(final_) = &substrings.final_ {
        writer.octets(FINAL, final_);
    }
    writer.end(pieces);
    writer.end(mark);
}

fn encode_extensible(extensible: &ExtensibleFilter<'_>, writer: &mut Writer<'_>) {
    let mark = writer.begin(EXTENSIBLE);
    if let Some(rule) = extensible.rule {
        writer.octets(RULE, rule.as_bytes());
    }
    if let Some(description) = extensible.description {
        writer.octets(DESCRIPTION, description.as_bytes());
    }
    writer.octets(VALUE, &extensible.value);
    if extensible.dn_attributes {
        writer.boolean(DN_ATTRIBUTES, true);
    }
    writer.end(mark);
}

const AND: Tag = Tag::context(0, true);
const OR: Tag = Tag::context(1, true);
const NOT: Tag = Tag::context(2, true);
const EQUALITY: Tag = Tag::context(3, true);
const SUBSTRINGS: Tag = Tag::context(4, true);
const GREATER_OR_EQUAL: Tag = Tag::context(5, true);
const LESS_OR_EQUAL: Tag = Tag::context(6, true);
const PRESENT: Tag = Tag::context(7, false);
const APPROX: Tag = Tag::context(8, true);
const EXTENSIBLE: Tag = Tag::context(9, true);

const INITIAL: Tag = Tag::context(0, false);
const ANY: Tag = Tag::context(1, false);
const FINAL: Tag = Tag::context(2, false);

const RULE: Tag = Tag::context(1, false);
const DESCRIPTION: Tag = Tag::context(2, false);
const VALUE: Tag = Tag::context(3, false);
const DN_ATTRIBUTES: Tag = Tag::context(4, false);
