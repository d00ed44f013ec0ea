//! Substring assertions as lookups: grams of the substring index, ranges of them for short pieces,
//! and for what a value begins with a range of the equality index.

use schema::{MatchingRule, SubstringAssertion};

use super::cost::{GRAMS_MAX, NEXT_ROW_NS, ROW_NS};
use super::lookup::{Lookup, after_all_with, range, together};
use super::node::{Node, Shape};
use crate::error::StoreError;
use crate::index::{GRAM_BEGIN, GRAM_BYTES, GRAM_PADDING, IndexKind};
use crate::rows::key::{INDEX_VALUE_KEPT_BYTES, RowKey};

/// So many keys of the equality index that begin with a piece are counted at least, to find that
/// there are no more,
const PREFIX_KEYS_FEW: u64 = 8;
/// and at most so many: reading them costs less than the grams do.
const PREFIX_KEYS_MAX: u64 = GRAMS_MAX as u64 * ROW_NS / NEXT_ROW_NS / 2;

impl<'v> Lookup<'_, 'v> {
    pub(super) fn substrings(
        &mut self,
        assertion: &SubstringAssertion,
    ) -> Result<Node<'v>, StoreError> {
        let asked = &assertion.description;
        let is_plain = asked.options().is_empty();
        let prefix = self.prefix(assertion);
        let index = self.index(asked, IndexKind::Substring);
        let Some(index) = index.filter(|index| index.rule == Some(assertion.rule)) else {
            let Some((equality, node)) = prefix else { return Ok(Node::unknown()) };
            self.view.note_index(equality);
            return Ok(node);
        };
        let pieces = anchored_pieces(assertion);
        // A few keys that begin with the piece are all there is to read.
        let rows: usize = pieces.iter().map(|piece| some_grams(piece).count()).sum();
        if let Some((equality, mut node)) = prefix
            && self.count_few(&mut node, rows as u64 * ROW_NS / NEXT_ROW_NS)?
        {
            self.view.note_index(equality);
            return Ok(node);
        }
        self.view.note_index(index.id);
        let is_one = matches!(&*pieces, [piece] if piece.len() <= GRAM_BYTES);
        let exact = is_plain && is_one && !MAY_HOLD_MARKS.contains(&assertion.rule.name);
        let mut grams: Vec<&[u8]> = pieces.iter().flat_map(|piece| some_grams(piece)).collect();
        grams.sort_unstable();
        grams.dedup();
        let mut nodes = Vec::with_capacity(grams.len());
        for gram in grams {
            let node = self.list(index.id, gram, exact)?;
            if node.is_nothing() {
                return Ok(node);
            }
            nodes.push(node);
        }
        // Every octet of a value begins a gram, so a short piece is the beginning of one.
        let is_short = |piece: &&Vec<u8>| piece.len() < GRAM_BYTES && !piece.is_empty();
        let mut short: Vec<&Vec<u8>> = pieces.iter().filter(is_short).collect();
        short.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
        for piece in short {
            let from = RowKey::postings_from(index.id, piece);
            let to = after_all_with(from.as_bytes());
            nodes.push(range(from.as_bytes(), to, exact));
        }
        if nodes.is_empty() {
            return Ok(Node::unknown());
        }
        Ok(together(nodes, exact))
    }

    /// Whether the equality index tells which values begin with the first piece.
    pub(super) fn has_prefix(&self, assertion: &SubstringAssertion) -> bool {
        self.prefix(assertion).is_some()
    }

    /// The values that begin with the first piece, as a range of the equality index, and its id.
    fn prefix(&self, assertion: &SubstringAssertion) -> Option<(u16, Node<'v>)> {
        let asked = &assertion.description;
        let index = self.index(asked, IndexKind::Equality)?;
        let piece = assertion.initial.as_deref()?;
        let key = prefix_of_keys(piece, assertion.rule, index.rule?)?;
        if key.len() > INDEX_VALUE_KEPT_BYTES {
            return None;
        }
        let is_all = assertion.any.is_empty() && assertion.final_.is_none();
        let exact = is_all && asked.options().is_empty();
        let from = RowKey::postings_from(index.id, key);
        let to = after_all_with(from.as_bytes());
        Some((index.id, range(from.as_bytes(), to, exact)))
    }

    /// Counts a range that may have at most `few` lists; whether it does.
    fn count_few(&mut self, node: &mut Node<'v>, few: u64) -> Result<bool, StoreError> {
        let Shape::Range(range) = &mut node.shape else { return Ok(false) };
        let few = few.clamp(PREFIX_KEYS_FEW, PREFIX_KEYS_MAX);
        let found = self.view.range_count(&range.from, &range.to, few, self.interrupt)?;
        self.work.rows += found.lists.min(few) * NEXT_ROW_NS / ROW_NS + 1;
        if found.is_exact {
            range.lists = Some(found.lists);
            node.count = found.ids.min(self.entries);
        }
        Ok(found.is_exact)
    }
}

/// The pieces, the first and the last with the marks of the value's ends. A piece that is prepared
/// to nothing, such as a space in a number, says nothing.
fn anchored_pieces(assertion: &SubstringAssertion) -> Vec<Vec<u8>> {
    let mut pieces = Vec::with_capacity(2 + assertion.any.len());
    let given = |piece: &&Vec<u8>| !piece.is_empty();
    if let Some(initial) = assertion.initial.as_ref().filter(given) {
        pieces.push([&[GRAM_BEGIN], initial.as_slice()].concat());
    }
    pieces.extend(assertion.any.iter().filter(given).cloned());
    if let Some(final_) = assertion.final_.as_ref().filter(given) {
        // As many marks as make a gram of a short piece: what ends a value is followed by them.
        let marks = GRAM_BYTES.saturating_sub(final_.len()).clamp(1, GRAM_PADDING.len());
        let marks = GRAM_PADDING.get(..marks).unwrap_or_default();
        pieces.push([final_.as_slice(), marks].concat());
    }
    pieces
}

/// Grams that are spread over a piece: neighbours share two octets at least, which is enough to say
/// that one follows the other, and those in between would say little more. Of a long piece there
/// are as many, farther from each other.
fn some_grams(piece: &[u8]) -> impl Iterator<Item = &[u8]> {
    let count = (piece.len() + 1).saturating_sub(GRAM_BYTES);
    let step = count.div_ceil(GRAMS_MAX).max(GRAM_STEP);
    let places = (0..count).step_by(step);
    let last = count.checked_sub(1).filter(|last| !last.is_multiple_of(step));
    places.chain(last).filter_map(|at| piece.get(at..at + GRAM_BYTES))
}

/// So many octets after a gram the next one begins.
const GRAM_STEP: usize = GRAM_BYTES / 2;

/// What the keys of an equality rule begin with when a value begins with `piece`, if that is the
/// same question.
fn prefix_of_keys<'p>(
    piece: &'p [u8],
    substring: &MatchingRule,
    equality: &MatchingRule,
) -> Option<&'p [u8]> {
    if !PREFIX_RULES.contains(&(substring.name, equality.name)) {
        return None;
    }
    // Texts are prepared with a space before and behind them to be searched in, with none to be
    // compared, and differently where there are spaces within. Numbers have none at all.
    let is_text = substring.name.starts_with("case");
    let key = if is_text { piece.strip_prefix(b" ").unwrap_or(piece) } else { piece };
    (!key.is_empty() && !key.contains(&b' ')).then_some(key)
}

/// Substring rules and equality rules that prepare the beginning of a value alike, as long as there
/// is no space in it. A test compares them.
const PREFIX_RULES: [(&str, &str); 6] = [
    ("caseIgnoreSubstringsMatch", "caseIgnoreMatch"),
    ("caseExactSubstringsMatch", "caseExactMatch"),
    ("caseIgnoreIA5SubstringsMatch", "caseIgnoreIA5Match"),
    ("caseExactIA5SubstringsMatch", "caseExactIA5Match"),
    ("numericStringSubstringsMatch", "numericStringMatch"),
    ("telephoneNumberSubstringsMatch", "telephoneNumberMatch"),
];
/// Rules whose prepared values may hold the octets that mark the ends of a value.
const MAY_HOLD_MARKS: [&str; 1] = ["octetStringSubstringsMatch"];

#[cfg(test)]
mod tests {
    use schema::{ResolvedFilter, Schema, Truth};

    use super::*;

    #[test]
    fn pieces_that_are_prepared_to_nothing_say_nothing() {
        let schema = Schema::builtin();
        for (text, want) in [
            ("(telephoneNumber=2* )", &["\u{2}2"][..]),
            ("(telephoneNumber= *7)", &["7\u{3}\u{3}\u{3}"]),
            ("(telephoneNumber=* *)", &[]),
            ("(telephoneNumber=-*-*-)", &[]),
            ("(telephoneNumber=*1234)", &["1234\u{3}"]),
            ("(telephoneNumber=*123)", &["123\u{3}"]),
        ] {
            let filter = ldap::filter::Filter::parse(text).unwrap();
            let filter = ResolvedFilter::resolve(&filter, &schema);
            let ResolvedFilter::Substrings(assertion) = &filter else { panic!("{filter:?}") };
            let pieces = anchored_pieces(assertion);
            let pieces: Vec<&str> =
                pieces.iter().map(|piece| std::str::from_utf8(piece).unwrap()).collect();
            assert_eq!(pieces, want, "{text}");
        }
    }

    #[test]
    fn what_keys_begin_with_is_what_values_begin_with() {
        let schema = Schema::builtin();
        let values = [
            "Anna Lee",
            " anna",
            "\u{c9}t\u{e9}",
            "e\u{301}te",
            "+1 23-45",
            "007",
            " \u{301}a",
            "",
            "a",
            "ann  a",
            "\u{df}x",
            "\u{fb01}n",
        ];
        let mut compared = 0;
        for attribute in ["cn", "mail", "telephoneNumber", "x121Address", "homeDirectory"] {
            let asked = schema.describe(attribute).unwrap();
            let equality = asked.kind.equality.unwrap();
            for (value, piece) in values.iter().flat_map(|v| values.map(|piece| (v, piece))) {
                for length in 1..=piece.len() {
                    let Some(piece) = piece.get(..length) else { continue };
                    let text = format!("({attribute}={piece}*)");
                    let Ok(filter) = ldap::filter::Filter::parse(&text) else { continue };
                    let filter = ResolvedFilter::resolve(&filter, &schema);
                    let ResolvedFilter::Substrings(assertion) = &filter else { continue };
                    let initial = assertion.initial.as_deref().unwrap();
                    let Some(prefix) = prefix_of_keys(initial, assertion.rule, equality) else {
                        continue;
                    };
                    let mut key = Vec::new();
                    let is_valid = (equality.prepare)(&schema, value.as_bytes(), &mut key).is_ok();
                    let pairs = [(attribute, value.as_bytes())];
                    let dn = ldap::dn::Dn::parse("cn=x").unwrap();
                    let entry = schema::Entry::from_pairs(dn, pairs, &schema).unwrap();
                    let is_match = filter.matches(&schema, &entry) == Truth::True;
                    assert_eq!(is_match, is_valid && key.starts_with(prefix), "{text} {value:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 500, "{compared}");
    }
}
