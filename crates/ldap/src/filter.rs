//! Search filters and their text form (RFC 4515, RFC 4526).
//!
//! Invariants of a parsed filter: its depth and number of terms are bounded, its descriptions and
//! rules have the right form, no piece of a substring assertion is empty, and the displayed text
//! parses back to an equal filter.
//!
//! Accepted beyond the RFC: spaces around each parenthesised filter, and a single item without its
//! parentheses, as in `uid=anna`.

use std::borrow::Cow;
use std::fmt;

use crate::description::{is_attribute_description, is_oid};
use crate::dn::{hex_octet, push_octet_escape};

/// How deep filters may be nested; an item alone has depth 1, so 100 levels of and, or and not may
/// stand around it.
pub const FILTER_DEPTH_MAX: u16 = 101;
/// How many filters one filter may hold, itself included.
pub const FILTER_TERMS_MAX: u32 = 10_000;

/// A search filter (RFC 4511 §4.5.1.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter<'a> {
    /// True when all of them are; an empty one is the absolute true filter (RFC 4526 §2).
    And(Vec<Self>),
    /// True when one of them is; an empty one is the absolute false filter (RFC 4526 §2).
    Or(Vec<Self>),
    /// Inverts its filter.
    Not(Box<Self>),
    /// `(cn=x)`.
    Equality(AvaFilter<'a>),
    /// `(cn=a*b*c)`.
    Substrings(SubstringFilter<'a>),
    /// `(cn>=x)`.
    GreaterOrEqual(AvaFilter<'a>),
    /// `(cn<=x)`.
    LessOrEqual(AvaFilter<'a>),
    /// `(cn=*)`.
    Present(&'a str),
    /// `(cn~=x)`.
    Approx(AvaFilter<'a>),
    /// `(cn:dn:rule:=x)`.
    Extensible(ExtensibleFilter<'a>),
}

/// An attribute description and the value asserted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvaFilter<'a> {
    /// The attribute description.
    pub description: &'a str,
    /// The assertion value, unescaped.
    pub value: Cow<'a, [u8]>,
}

/// A substring assertion; at least one piece is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubstringFilter<'a> {
    /// The attribute description.
    pub description: &'a str,
    /// What the value must start with.
    pub initial: Option<Cow<'a, [u8]>>,
    /// What it must contain, in this order.
    pub any: Vec<Cow<'a, [u8]>>,
    /// What it must end with.
    pub final_: Option<Cow<'a, [u8]>>,
}

/// A matching rule assertion; a rule or a description is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensibleFilter<'a> {
    /// The matching rule, by name or OID.
    pub rule: Option<&'a str>,
    /// The attribute description.
    pub description: Option<&'a str>,
    /// The assertion value, unescaped.
    pub value: Cow<'a, [u8]>,
    /// Whether the attributes of the DN are compared as well.
    pub dn_attributes: bool,
}

impl<'a> Filter<'a> {
    /// Parses a filter; values without escapes are borrowed from `text`.
    pub fn parse(text: &'a str) -> Result<Self, FilterError> {
        let mut parser = Parser { text, position: 0, terms: 0 };
        parser.skip_spaces();
        let filter = match parser.peek() {
            Some(b'(') => parser.filter(1)?,
            Some(b'&' | b'|' | b'!') => return Err(parser.error(FilterReason::MissingOpen)),
            Some(_) => parser.item()?,
            None => return Err(parser.error(FilterReason::MissingFilter)),
        };
        parser.skip_spaces();
        match parser.peek() {
            None => Ok(filter),
            Some(_) => Err(parser.error(FilterReason::TextAfterEnd)),
        }
    }
}

type AvaOperator<'a> = fn(AvaFilter<'a>) -> Filter<'a>;

/// Reads a filter from the left; every method starts at `position` and ends after what it read.
struct Parser<'a> {
    text: &'a str,
    position: usize,
    terms: u32,
}

impl<'a> Parser<'a> {
    /// Reads a filter in parentheses. Recursion ends at [`FILTER_DEPTH_MAX`].
    fn filter(&mut self, depth: u16) -> Result<Filter<'a>, FilterError> {
        if depth > FILTER_DEPTH_MAX {
            return Err(self.error(FilterReason::TooDeep));
        }
        self.terms += 1;
        if self.terms > FILTER_TERMS_MAX {
            return Err(self.error(FilterReason::TooManyTerms));
        }
        self.position += 1;
        self.skip_spaces();
        let filter = match self.peek() {
            Some(b'&') => Filter::And(self.filters(depth)?),
            Some(b'|') => Filter::Or(self.filters(depth)?),
            Some(b'!') => Filter::Not(Box::new(self.negated(depth)?)),
            Some(_) => self.item()?,
            None => return Err(self.error(FilterReason::MissingFilter)),
        };
        match self.peek() {
            Some(b')') => self.position += 1,
            _ => return Err(self.error(FilterReason::MissingClose)),
        }
        Ok(filter)
    }

    /// Reads `&` or `|` and the filters after it; there may be none (RFC 4526).
    fn filters(&mut self, depth: u16) -> Result<Vec<Filter<'a>>, FilterError> {
        self.position += 1;
        let mut filters = Vec::new();
        loop {
            self.skip_spaces();
            match self.peek() {
                Some(b'(') => filters.push(self.filter(depth + 1)?),
                Some(b')') | None => return Ok(filters),
                Some(_) => return Err(self.error(FilterReason::MissingOpen)),
            }
        }
    }

    /// Reads `!` and the one filter after it.
    fn negated(&mut self, depth: u16) -> Result<Filter<'a>, FilterError> {
        self.position += 1;
        self.skip_spaces();
        let filter = match self.peek() {
            Some(b'(') => self.filter(depth + 1)?,
            Some(b')') | None => return Err(self.error(FilterReason::MissingFilter)),
            Some(_) => return Err(self.error(FilterReason::MissingOpen)),
        };
        self.skip_spaces();
        Ok(filter)
    }

    /// Reads an item without its parentheses.
    fn item(&mut self) -> Result<Filter<'a>, FilterError> {
        let start = self.position;
        let rest = self.text.get(start..).unwrap_or_default();
        let length = rest.find(['=', '(', ')']).unwrap_or(rest.len());
        let head = rest.get(..length).unwrap_or_default();
        self.position += length;
        if self.peek() != Some(b'=') {
            let is_empty = head.trim_ascii().is_empty();
            let reason =
                if is_empty { FilterReason::MissingFilter } else { FilterReason::MissingEquals };
            return Err(self.error(reason));
        }
        self.position += 1;
        if let Some(head) = head.strip_suffix(':') {
            return self.extensible(start, head);
        }
        let operators: [(char, AvaOperator<'a>); 3] =
            [('~', Filter::Approx), ('>', Filter::GreaterOrEqual), ('<', Filter::LessOrEqual)];
        for (operator, filter) in operators {
            if let Some(description) = head.strip_suffix(operator) {
                let description = check_description(start, description)?;
                return Ok(filter(AvaFilter { description, value: self.whole_value()? }));
            }
        }
        self.equality_or_substrings(check_description(start, head)?)
    }

    fn equality_or_substrings(&mut self, description: &'a str) -> Result<Filter<'a>, FilterError> {
        let first = self.value()?;
        if self.peek() != Some(b'*') {
            return Ok(Filter::Equality(AvaFilter { description, value: first }));
        }
        let initial = Some(first).filter(|piece| !piece.is_empty());
        let mut any = Vec::new();
        loop {
            self.position += 1;
            let piece_start = self.position;
            let piece = self.value()?;
            match (self.peek(), piece.is_empty()) {
                (Some(b'*'), false) => any.push(piece),
                (Some(b'*'), true) => {
                    return Err(FilterError {
                        offset: piece_start,
                        reason: FilterReason::EmptySubstring,
                    });
                }
                (_, true) if initial.is_none() && any.is_empty() => {
                    return Ok(Filter::Present(description));
                }
                (_, is_empty) => {
                    let final_ = (!is_empty).then_some(piece);
                    return Ok(Filter::Substrings(SubstringFilter {
                        description,
                        initial,
                        any,
                        final_,
                    }));
                }
            }
        }
    }

    /// Reads the value of an extensible match whose text before `:=` is `head`.
    fn extensible(&mut self, start: usize, head: &'a str) -> Result<Filter<'a>, FilterError> {
        let mut parts = head.split(':');
        let description = match parts.next() {
            None | Some("") => None,
            Some(description) => Some(check_description(start, description)?),
        };
        let mut rule = parts.next();
        let dn_attributes = rule.is_some_and(|part| part.eq_ignore_ascii_case("dn"));
        if dn_attributes {
            rule = parts.next();
        }
        if rule.is_some_and(|rule| !is_oid(rule)) || parts.next().is_some() {
            return Err(FilterError { offset: start, reason: FilterReason::BadRule });
        }
        if rule.is_none() && description.is_none() {
            return Err(FilterError { offset: start, reason: FilterReason::NeitherTypeNorRule });
        }
        let value = self.whole_value()?;
        Ok(Filter::Extensible(ExtensibleFilter { rule, description, value, dn_attributes }))
    }

    /// Reads a value in which `*` must be escaped.
    fn whole_value(&mut self) -> Result<Cow<'a, [u8]>, FilterError> {
        let value = self.value()?;
        match self.peek() {
            Some(b'*') => Err(self.error(FilterReason::UnescapedStar)),
            _ => Ok(value),
        }
    }

    /// Reads a value up to `)`, `*` or the end.
    fn value(&mut self) -> Result<Cow<'a, [u8]>, FilterError> {
        let mut value = Cow::Borrowed(self.plain());
        loop {
            match self.peek() {
                None | Some(b')' | b'*') => return Ok(value),
                Some(b'(') => return Err(self.error(FilterReason::UnescapedOpen)),
                Some(b'\\') => {
                    let value = value.to_mut();
                    value.push(self.escape()?);
                    value.extend_from_slice(self.plain());
                }
                Some(_) => return Err(self.error(FilterReason::Nul)),
            }
        }
    }

    /// Reads octets up to one that may not stand for itself.
    fn plain(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let is_special = |byte: &u8| matches!(byte, b'(' | b')' | b'*' | b'\\' | 0);
        let length = rest.iter().position(is_special).unwrap_or(rest.len());
        self.position += length;
        rest.get(..length).unwrap_or_default()
    }

    fn escape(&mut self) -> Result<u8, FilterError> {
        let octet = match self.rest() {
            [_, high, low, ..] => hex_octet(*high, *low),
            _ => None,
        };
        let octet = octet.ok_or_else(|| self.error(FilterReason::BadEscape))?;
        self.position += 3;
        Ok(octet)
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    const fn error(&self, reason: FilterReason) -> FilterError {
        FilterError { offset: self.position, reason }
    }
}

fn check_description(offset: usize, description: &str) -> Result<&str, FilterError> {
    if is_attribute_description(description) {
        Ok(description)
    } else {
        Err(FilterError { offset, reason: FilterReason::BadDescription })
    }
}

impl fmt::Display for Filter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, operator, filters: &[Self]| {
            write!(f, "({operator}")?;
            filters.iter().try_for_each(|filter| filter.fmt(f))?;
            f.write_str(")")
        };
        match self {
            Self::And(filters) => list(f, '&', filters),
            Self::Or(filters) => list(f, '|', filters),
            Self::Not(filter) => write!(f, "(!{filter})"),
            Self::Equality(ava) => write!(f, "({}={})", ava.description, Escaped(&ava.value)),
            Self::GreaterOrEqual(ava) => {
                write!(f, "({}>={})", ava.description, Escaped(&ava.value))
            }
            Self::LessOrEqual(ava) => write!(f, "({}<={})", ava.description, Escaped(&ava.value)),
            Self::Approx(ava) => write!(f, "({}~={})", ava.description, Escaped(&ava.value)),
            Self::Present(description) => write!(f, "({description}=*)"),
            Self::Substrings(substrings) => substrings.fmt(f),
            Self::Extensible(extensible) => extensible.fmt(f),
        }
    }
}

impl fmt::Display for SubstringFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let initial = self.initial.as_deref().unwrap_or_default();
        write!(f, "({}={}*", self.description, Escaped(initial))?;
        for piece in &self.any {
            write!(f, "{}*", Escaped(piece))?;
        }
        write!(f, "{})", Escaped(self.final_.as_deref().unwrap_or_default()))
    }
}

impl fmt::Display for ExtensibleFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}", self.description.unwrap_or_default())?;
        if self.dn_attributes {
            f.write_str(":dn")?;
        }
        if let Some(rule) = self.rule {
            write!(f, ":{rule}")?;
        }
        write!(f, ":={})", Escaped(&self.value))
    }
}

/// Displays a value in the form of RFC 4515 §3, without control characters.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '*' | '(' | ')' | '\\' | '\0'..='\x1F' | '\x7F' => {
                        push_octet_escape(character as u8, &mut text);
                    }
                    _ => text.push(character),
                }
            }
            for octet in chunk.invalid() {
                push_octet_escape(*octet, &mut text);
            }
        }
        f.write_str(&text)
    }
}

/// Why a text is not a filter, and where.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FilterError {
    /// The byte of the text at which the trouble begins.
    pub offset: usize,
    /// What is wrong there.
    pub reason: FilterReason,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.reason, self.offset)
    }
}

impl std::error::Error for FilterError {}

/// What is wrong with the text of a filter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FilterReason {
    /// Filters are nested deeper than [`FILTER_DEPTH_MAX`].
    TooDeep,
    /// There are more filters than [`FILTER_TERMS_MAX`].
    TooManyTerms,
    /// Nothing stands where a filter must.
    MissingFilter,
    /// A filter does not begin with `(`.
    MissingOpen,
    /// A filter does not end with `)`.
    MissingClose,
    /// Something follows the end of the filter.
    TextAfterEnd,
    /// An item has no `=`.
    MissingEquals,
    /// An attribute description has the wrong form.
    BadDescription,
    /// A matching rule is neither a name nor a dotted OID.
    BadRule,
    /// An extensible match names neither an attribute nor a rule.
    NeitherTypeNorRule,
    /// Two `*` follow each other.
    EmptySubstring,
    /// A `*` stands in the value of an operator without substrings.
    UnescapedStar,
    /// A `(` stands in a value.
    UnescapedOpen,
    /// A zero octet stands in a value.
    Nul,
    /// A backslash is not followed by two hex digits.
    BadEscape,
}

impl fmt::Display for FilterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooDeep => "the filter is nested deeper than 100 levels",
            Self::TooManyTerms => "the filter has more than 10000 terms",
            Self::MissingFilter => "a filter such as (cn=name) is missing",
            Self::MissingOpen => "'(' is missing: each filter stands in its own parentheses",
            Self::MissingClose => "')' is missing",
            Self::TextAfterEnd => {
                "the filter ended before this: join several as in (&(a=1)(b=2)), \
                 write ')' in a value as '\\29'"
            }
            Self::MissingEquals => "'=' is missing: write (cn=name), or (cn=*) for any value",
            Self::BadDescription => {
                "an attribute must be a name of letters, digits and hyphens or a dotted OID"
            }
            Self::BadRule => "a matching rule must be a name or a dotted OID, as in (cn:rule:=x)",
            Self::NeitherTypeNorRule => "':=' needs an attribute or a matching rule before it",
            Self::EmptySubstring => "nothing stands between two '*': write one",
            Self::UnescapedStar => "'*' has no meaning here: write '\\2a' for the character",
            Self::UnescapedOpen => "'(' in a value must be written as '\\28'",
            Self::Nul => "a zero octet in a value must be written as '\\00'",
            Self::BadEscape => {
                "'\\' must be followed by two hex digits: write '\\5c' for the character itself"
            }
        })
    }
}

#[cfg(test)]
mod tests;
