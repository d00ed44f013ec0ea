//! Assertions: an attribute, a rule, and a prepared value.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use ldap::dn::{DnLimits, parse_dn};
use memchr::memmem;

use super::{Meter, Truth, meter};
use crate::attribute_type::AttributeType;
use crate::description::AttributeDescription;
use crate::entry::{EntryRead, ValueKey};
use crate::prepare::{Invalid, Position};
use crate::rules::{MatchingRule, RuleKind};
use crate::schema::Schema;

/// The most memory a thread keeps for preparing values between two evaluations.
const SCRATCH_KEPT_MAX_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What an evaluation works with.
pub(super) struct Scratch<'e, 'm> {
    /// Where values are prepared.
    key: Vec<u8>,
    pub(super) meter: &'e mut Meter<'m>,
}

/// Lends a buffer that is reused, so that evaluating a filter allocates nothing.
pub(super) fn with_scratch<'m, T>(
    meter: &mut Meter<'m>,
    use_it: impl FnOnce(&mut Scratch<'_, 'm>) -> T,
) -> T {
    let mut scratch = Scratch { key: SCRATCH.take(), meter };
    let result = use_it(&mut scratch);
    if scratch.key.capacity() <= SCRATCH_KEPT_MAX_BYTES {
        SCRATCH.set(scratch.key);
    }
    result
}

/// An attribute value assertion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assertion {
    /// The attribute asked about; the subtypes and options it covers are meant as well.
    pub description: Arc<AttributeDescription>,
    /// How values are compared.
    pub rule: &'static MatchingRule,
    /// The assertion value, prepared.
    pub key: Vec<u8>,
}

impl Assertion {
    /// Prepares an assertion value.
    pub(super) fn new(
        schema: &Schema,
        description: Arc<AttributeDescription>,
        rule: &'static MatchingRule,
        value: &[u8],
    ) -> Result<Self, Invalid> {
        let mut key = Vec::with_capacity(value.len() + 2);
        rule.prepare_assertion(schema, value, &mut key)?;
        Ok(Self { description, rule, key })
    }

    /// Resolves the assertion of a Compare request (RFC 4511 §4.10).
    pub fn equality(
        schema: &Schema,
        description: Arc<AttributeDescription>,
        value: &[u8],
    ) -> Result<Self, AssertionError> {
        let Some(rule) = description.kind.equality else {
            return Err(AssertionError::NoRule(description.kind.name().to_owned()));
        };
        Self::new(schema, description, rule, value).map_err(AssertionError::Value)
    }

    /// Whether a value of the entry matches by an equality rule.
    pub fn holds(&self, schema: &Schema, entry: &dyn EntryRead) -> Truth {
        self.holds_within(schema, entry, &mut Meter::unlimited())
    }

    /// Whether a value of the entry matches by an equality rule, and what it costs to find out: see
    /// [`super::ResolvedFilter::matches_within`].
    pub fn holds_within(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        meter: &mut Meter<'_>,
    ) -> Truth {
        with_scratch(meter, |scratch| self.evaluate_equal(schema, entry, scratch))
    }

    /// Whether the key of one value is that of the assertion.
    pub(super) fn evaluate_equal(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        scratch: &mut Scratch<'_, '_>,
    ) -> Truth {
        let mut holds = false;
        let matches = |key: &[u8]| self.rule.keys_match(key, &self.key);
        let key = ValueKey { rule: self.rule, key: &self.key };
        let may_ask = entry.visit_matching(&self.description, Some(&key), &mut |_, value| {
            holds = key_satisfies(self.rule, schema, value, scratch, matches);
            !holds && !scratch.meter.is_over()
        });
        Truth::of(may_ask, holds)
    }

    /// Whether the key of one value satisfies `matches`.
    pub(super) fn evaluate(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        scratch: &mut Scratch<'_, '_>,
        matches: impl Fn(&[u8]) -> bool,
    ) -> Truth {
        any_key(&self.description, self.rule, schema, entry, scratch, matches)
    }
}

/// Why a value cannot be asserted of an attribute.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AssertionError {
    /// The type of this name has no equality rule.
    NoRule(String),
    /// The rule cannot prepare the value.
    Value(Invalid),
}

impl fmt::Display for AssertionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule(name) => write!(f, "attribute type '{name}' has no equality rule"),
            Self::Value(invalid) => write!(f, "the assertion value {invalid}"),
        }
    }
}

impl std::error::Error for AssertionError {}

/// A substring assertion; one piece at least.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SubstringAssertion {
    /// The attribute asked about.
    pub description: Arc<AttributeDescription>,
    /// How values and pieces are prepared.
    pub rule: &'static MatchingRule,
    /// What the prepared value starts with.
    pub initial: Option<Vec<u8>>,
    /// What it holds after that, in this order and without overlap.
    pub any: Vec<Vec<u8>>,
    /// What it ends with.
    pub final_: Option<Vec<u8>>,
}

impl SubstringAssertion {
    pub(super) fn new<'a>(
        description: Arc<AttributeDescription>,
        rule: &'static MatchingRule,
        initial: Option<&[u8]>,
        any: impl Iterator<Item = &'a [u8]>,
        final_: Option<&[u8]>,
    ) -> Result<Self, Invalid> {
        const NO_PIECES: Invalid = Invalid("is compared by a rule without substrings");
        let prepare_piece = rule.prepare_piece.ok_or(NO_PIECES)?;
        let prepare = |position, piece: &[u8]| {
            let mut key = Vec::with_capacity(piece.len() + 2);
            prepare_piece(position, piece, &mut key)?;
            Ok(key)
        };
        Ok(Self {
            description,
            rule,
            initial: initial.map(|piece| prepare(Position::Initial, piece)).transpose()?,
            any: any.map(|piece| prepare(Position::Any, piece)).collect::<Result<_, _>>()?,
            final_: final_.map(|piece| prepare(Position::Final, piece)).transpose()?,
        })
    }

    /// Reads the text form `initial*any*final` (RFC 4517 §3.3.30); none if it is not well-formed.
    pub(super) fn from_text(
        description: Arc<AttributeDescription>,
        rule: &'static MatchingRule,
        value: &[u8],
    ) -> Option<Self> {
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for piece in value.split(|&byte| byte == b'*') {
            pieces.push(unescape_piece(piece)?);
        }
        let final_ = pieces.pop().filter(|_| !pieces.is_empty())?;
        let mut pieces = pieces.iter().map(Vec::as_slice);
        let initial = pieces.next()?;
        let given = |piece: &&[u8]| !piece.is_empty();
        let is_empty = initial.is_empty() && final_.is_empty() && pieces.len() == 0;
        if is_empty || pieces.clone().any(<[u8]>::is_empty) {
            return None;
        }
        let final_ = Some(final_.as_slice()).filter(given);
        Self::new(description, rule, Some(initial).filter(given), pieces, final_).ok()
    }

    pub(super) fn evaluate(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        scratch: &mut Scratch<'_, '_>,
    ) -> Truth {
        let looked_for = Cell::new(0);
        let matches = |key: &[u8]| self.is_in(key, &looked_for);
        let truth = any_key(&self.description, self.rule, schema, entry, scratch, matches);
        scratch.meter.spend(looked_for.get() * meter::PIECE_STEPS);
        truth
    }

    /// Whether the pieces are in a prepared value, in order and without overlap. Counts those that
    /// were looked for.
    fn is_in(&self, value: &[u8], looked_for: &Cell<u64>) -> bool {
        let search = || {
            let mut rest = value;
            if let Some(initial) = &self.initial {
                rest = rest.strip_prefix(initial.as_slice())?;
            }
            if let Some(final_) = &self.final_ {
                rest = rest.strip_suffix(final_.as_slice())?;
            }
            for piece in &self.any {
                if piece.len() > rest.len() {
                    // Looking for it would begin with reading all of it.
                    return None;
                }
                looked_for.set(looked_for.get() + 1);
                let start = memmem::find(rest, piece)?;
                rest = rest.get(start + piece.len()..)?;
            }
            Some(())
        };
        search().is_some()
    }
}

/// Replaces `\2A` and `\5C`; none at any other backslash.
fn unescape_piece(piece: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(piece.len());
    let mut rest = piece;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let (escaped, after) = match after {
            [b'2', b'A' | b'a', after @ ..] => (b'*', after),
            [b'5', b'C' | b'c', after @ ..] => (b'\\', after),
            _ => return None,
        };
        plain.push(escaped);
        rest = after;
    }
    Some(plain)
}

/// A matching rule assertion (RFC 4511 §4.5.1.7.7) of an equality or ordering rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExtensibleAssertion {
    /// The attribute asked about; without one, all whose syntax the rule applies to.
    pub description: Option<Arc<AttributeDescription>>,
    /// How values are compared. An ordering rule asks whether a value is earlier.
    pub rule: &'static MatchingRule,
    /// Whether the assertions of the entry's name are asked as well.
    pub dn_attributes: bool,
    /// The assertion value, prepared.
    pub key: Vec<u8>,
}

impl ExtensibleAssertion {
    pub(super) fn evaluate(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        scratch: &mut Scratch<'_, '_>,
    ) -> Truth {
        let matches = |key: &[u8]| match self.rule.kind {
            RuleKind::Equality | RuleKind::Substring => self.rule.keys_match(key, &self.key),
            RuleKind::Ordering => key < self.key.as_slice(),
        };
        let of_attributes = match &self.description {
            Some(description) => any_key(description, self.rule, schema, entry, scratch, matches),
            None => self.any_attribute(schema, entry, scratch, matches),
        };
        if self.dn_attributes && of_attributes == Truth::False {
            let holds = self.any_ava(schema, entry.dn(), scratch, matches);
            return Truth::of(true, holds);
        }
        of_attributes
    }

    fn any_attribute(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        scratch: &mut Scratch<'_, '_>,
        matches: impl Fn(&[u8]) -> bool,
    ) -> Truth {
        let mut holds = false;
        let key = ValueKey { rule: self.rule, key: &self.key };
        entry.visit_wanted(&|_| false, &mut |description, values| {
            let goes_on = !holds && scratch.meter.spend(meter::ATTRIBUTE_STEPS);
            if !goes_on || !self.rule.applies_to(description.kind.syntax.oid) {
                return;
            }
            let mut look = |value: &[u8]| {
                holds = key_satisfies(self.rule, schema, value, scratch, &matches);
                !holds && !scratch.meter.is_over()
            };
            match values {
                Some(values) => {
                    let _ = values.iter().all(look);
                }
                None => {
                    entry.visit_matching(description, Some(&key), &mut |_, value| look(value));
                }
            }
        });
        Truth::of(true, holds)
    }

    fn any_ava(
        &self,
        schema: &Schema,
        dn: &str,
        scratch: &mut Scratch<'_, '_>,
        matches: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let is_asked = |kind: &AttributeType| match &self.description {
            Some(asked) => asked.options().is_empty() && kind.is_subtype_of(&asked.kind),
            None => self.rule.applies_to(kind.syntax.oid),
        };
        scratch.meter.spend(dn.len() as u64 * meter::NAME_OCTET_STEPS);
        parse_dn(dn, DnLimits::default()).map_while(Result::ok).any(|ava| {
            schema.attribute_type(ava.attribute).is_some_and(|kind| is_asked(kind))
                && key_satisfies(self.rule, schema, &ava.value, scratch, &matches)
        })
    }
}

/// Whether the key of one value that `asked` covers satisfies `matches`.
fn any_key(
    asked: &AttributeDescription,
    rule: &MatchingRule,
    schema: &Schema,
    entry: &dyn EntryRead,
    scratch: &mut Scratch<'_, '_>,
    matches: impl Fn(&[u8]) -> bool,
) -> Truth {
    let mut holds = false;
    let may_ask = entry.visit_values(asked, &mut |_, value| {
        holds = key_satisfies(rule, schema, value, scratch, &matches);
        !holds && !scratch.meter.is_over()
    });
    Truth::of(may_ask, holds)
}

fn key_satisfies(
    rule: &MatchingRule,
    schema: &Schema,
    value: &[u8],
    scratch: &mut Scratch<'_, '_>,
    matches: impl Fn(&[u8]) -> bool,
) -> bool {
    let Scratch { key, meter } = scratch;
    if !meter.spend(rule.steps(value)) {
        return false;
    }
    key.clear();
    (rule.prepare)(schema, value, key).is_ok() && matches(key)
}
