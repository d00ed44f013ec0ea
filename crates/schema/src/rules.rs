//! What a syntax and a matching rule are (RFC 4517): how values are checked and compared.
//!
//! Which there are stands in the tables of `syntax.rs` and `matching_rule.rs`.

use crate::prepare::{Invalid, Position};
use crate::schema::Schema;
use crate::syntax::oid;

/// A syntax.
pub struct Syntax {
    /// Its object identifier.
    pub oid: &'static str,
    /// Its name, as published in `ldapSyntaxes`.
    pub name: &'static str,
    /// Whether values are text that a person can read.
    pub human_readable: bool,
    /// Whether a value conforms.
    pub check: Check,
}

impl Syntax {
    pub(crate) const fn text(oid: &'static str, name: &'static str, check: Check) -> Self {
        Self { oid, name, human_readable: true, check }
    }

    pub(crate) const fn octets(oid: &'static str, name: &'static str, check: Check) -> Self {
        Self { oid, name, human_readable: false, check }
    }
}

impl PartialEq for Syntax {
    fn eq(&self, other: &Self) -> bool {
        self.oid == other.oid
    }
}

impl Eq for Syntax {}

impl std::fmt::Debug for Syntax {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Says why a value does not conform; the sentence continues "the value …".
pub type Check = fn(&Schema, &[u8]) -> Result<(), &'static str>;

/// The check that every value passes.
pub(crate) fn anything(_: &Schema, _: &[u8]) -> Result<(), &'static str> {
    Ok(())
}

/// What a rule decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleKind {
    /// Whether two values match.
    Equality,
    /// Which of two values comes first.
    Ordering,
    /// Whether a value holds some pieces.
    Substring,
}

/// How the key of a value and the key of an assertion are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Compare {
    /// Octet by octet. Only such rules can be looked up in an index of keys.
    Key,
    /// One of the value's words is the assertion.
    Word,
    /// The assertion's words are among the value's, in this order.
    Words,
    /// The value has every bit of the assertion.
    AllBits,
    /// The value has one bit of the assertion.
    AnyBits,
    /// The value is the assertion, or names an entry from which values lead there. Of the entry at
    /// hand only the first can be told; a search asks for the rest before it asks entries.
    Chain,
}

/// Appends the key of a value; what is appended on refusal means nothing.
pub type Prepare = fn(&Schema, &[u8], &mut Vec<u8>) -> Result<(), Invalid>;
/// Appends the key of a piece of a substring assertion.
pub type PreparePiece = fn(Position, &[u8], &mut Vec<u8>) -> Result<(), Invalid>;

/// A matching rule.
pub struct MatchingRule {
    /// Its object identifier.
    pub oid: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it decides.
    pub kind: RuleKind,
    /// The syntax of assertion values, as an OID.
    pub syntax: &'static str,
    /// The syntaxes of the attributes it applies to, as OIDs.
    pub applies_to: &'static [&'static str],
    /// The key of an attribute value.
    pub prepare: Prepare,
    /// What an assertion value has to be, where preparing does not tell.
    check_assertion: Check,
    /// The key of an assertion value that was checked.
    assertion_key: Prepare,
    /// The key of a piece; substring rules only.
    pub prepare_piece: Option<PreparePiece>,
    /// How keys are compared for equality.
    pub compare: Compare,
    /// What values hold: names, for example, whose values may hold names.
    pub(crate) holds: Holds,
}

/// What values of a rule hold, and so may nest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Holds {
    /// Octets, numbers, times, texts of ASCII alone.
    Plain,
    /// Texts of any characters, which are normalized.
    Text,
    Name,
    Certificate,
}

impl MatchingRule {
    /// Whether it can compare values of the syntax with this OID.
    pub fn applies_to(&self, syntax: &str) -> bool {
        self.applies_to.contains(&syntax)
    }

    /// Whether a value with key `value` matches an assertion with key `assertion`.
    pub fn keys_match(&self, value: &[u8], assertion: &[u8]) -> bool {
        match self.compare {
            Compare::Key | Compare::Chain => value == assertion,
            Compare::Word => value.split(|&byte| byte == b' ').any(|word| word == assertion),
            Compare::Words => {
                let mut words = value.split(|&byte| byte == b' ');
                assertion.split(|&byte| byte == b' ').all(|asked| words.any(|word| word == asked))
            }
            Compare::AllBits => octet_pairs(value, assertion)
                .all(|(value, assertion)| value & assertion == assertion),
            Compare::AnyBits => {
                octet_pairs(value, assertion).any(|(value, assertion)| value & assertion != 0)
            }
        }
    }

    /// Appends the key of an assertion value, which has to be of the assertion syntax: a filter
    /// with one that is not is Undefined (RFC 4511 §4.5.1.7).
    pub fn prepare_assertion(
        &self,
        schema: &Schema,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Invalid> {
        (self.check_assertion)(schema, value).map_err(Invalid)?;
        (self.assertion_key)(schema, value, out)
    }

    const fn new(
        oid: &'static str,
        name: &'static str,
        kind: RuleKind,
        applies_to: &'static [&'static str],
        prepare: Prepare,
    ) -> Self {
        let [syntax, ..] = applies_to else { panic!("a rule applies to a syntax") };
        Self {
            oid,
            name,
            kind,
            syntax,
            applies_to,
            prepare,
            check_assertion: anything,
            assertion_key: prepare,
            prepare_piece: None,
            compare: Compare::Key,
            holds: Holds::Plain,
        }
    }

    /// An equality rule whose assertions have the first syntax of `applies_to`.
    pub(crate) const fn equality(
        oid: &'static str,
        name: &'static str,
        applies_to: &'static [&'static str],
        prepare: Prepare,
    ) -> Self {
        Self::new(oid, name, RuleKind::Equality, applies_to, prepare)
    }

    pub(crate) const fn ordering(
        oid: &'static str,
        name: &'static str,
        applies_to: &'static [&'static str],
        prepare: Prepare,
    ) -> Self {
        Self::new(oid, name, RuleKind::Ordering, applies_to, prepare)
    }

    pub(crate) const fn substring(
        oid: &'static str,
        name: &'static str,
        applies_to: &'static [&'static str],
        prepare: Prepare,
        prepare_piece: PreparePiece,
    ) -> Self {
        let rule = Self::new(oid, name, RuleKind::Substring, applies_to, prepare);
        Self { syntax: oid::SUBSTRING_ASSERTION, prepare_piece: Some(prepare_piece), ..rule }
    }

    pub(crate) const fn comparing(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }

    pub(crate) const fn holding(self, holds: Holds) -> Self {
        Self { holds, ..self }
    }

    /// Gives assertions a syntax and a preparation of their own.
    pub(crate) const fn asserting(self, syntax: &'static str, assertion_key: Prepare) -> Self {
        Self { syntax, assertion_key, ..self }
    }

    /// Checks assertions by their syntax: where preparing accepts more than that.
    pub(crate) const fn checking(self, check_assertion: Check) -> Self {
        Self { check_assertion, ..self }
    }
}

impl PartialEq for MatchingRule {
    fn eq(&self, other: &Self) -> bool {
        self.oid == other.oid
    }
}

impl Eq for MatchingRule {}

impl std::fmt::Debug for MatchingRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The octets of two keys in two's complement, the lowest first; of the shorter one the sign
/// goes on.
fn octet_pairs(one: &[u8], other: &[u8]) -> impl Iterator<Item = (u8, u8)> {
    let length = one.len().max(other.len());
    let sign = |key: &[u8]| {
        let is_negative = key.first().is_some_and(|octet| octet & 0x80 != 0);
        std::iter::repeat(if is_negative { 0xFF } else { 0 })
    };
    let (more_of_one, more_of_other) = (sign(one), sign(other));
    let one = one.iter().rev().copied().chain(more_of_one);
    one.zip(other.iter().rev().copied().chain(more_of_other)).take(length)
}
