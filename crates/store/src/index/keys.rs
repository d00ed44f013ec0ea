//! Which keys values and entries have in an index.
//!
//! Invariants: the keys of a value depend on the value, the index and its matching rule alone; the
//! keys of an entry on its record and the index alone.

use ldap::message::Values;
use schema::{AttributeDescription, EntryRead, MatchingRule, Schema, Truth, ValueKey};

use super::{Form, Index, IndexKind};
use crate::rows::dictionary::{Asked, Dictionary};
use crate::rows::key::shorten;
use crate::rows::record::Record;

impl Index {
    /// Whether its keys depend on more than the values of one attribute, so that they are made for
    /// whole entries.
    pub(crate) const fn is_of_entries(&self) -> bool {
        self.with.is_some() || self.filter.is_some()
    }

    /// Whether its keys are pieces of values.
    pub(crate) fn is_of_grams(&self) -> bool {
        self.form == Form::Grams
    }

    /// Calls `emit` with each key of `value`; a key may come more than once. What the rule cannot
    /// prepare matches nothing, so it has none.
    pub(crate) fn keys(
        &self,
        schema: &Schema,
        value: &[u8],
        scratch: &mut Vec<u8>,
        mut emit: impl FnMut(&[u8]),
    ) {
        let Some(rule) = self.rule else { return emit(&[]) };
        scratch.clear();
        match self.form {
            Form::Presence => emit(&[]),
            Form::Whole => {
                if (rule.prepare)(schema, value, scratch).is_ok() {
                    shorten(scratch);
                    emit(scratch);
                }
            }
            Form::Words => {
                if (rule.prepare)(schema, value, scratch).is_ok() {
                    let mut long = Vec::new();
                    for word in scratch.split(|&octet| octet == b' ') {
                        long.clear();
                        long.extend_from_slice(word);
                        shorten(&mut long);
                        emit(&long);
                    }
                }
            }
            Form::Grams => {
                scratch.push(GRAM_BEGIN);
                if (rule.prepare)(schema, value, scratch).is_ok() {
                    scratch.extend_from_slice(&GRAM_PADDING);
                    scratch.windows(GRAM_BYTES).for_each(emit);
                }
            }
            Form::Bits => {
                if (rule.prepare)(schema, value, scratch).is_ok()
                    && let Some(number) = scratch.as_slice().try_into().ok().map(u64::from_be_bytes)
                {
                    each_bit(number, |bit| emit(&[bit]));
                }
            }
        }
    }

    /// Calls `emit` with each key that an entry has in this index; a key may come more than once.
    /// `record` has attributes of `dictionary`, which this index is of.
    pub(crate) fn entry_keys(
        &self,
        dictionary: &Dictionary,
        record: &Record<'_>,
        scratch: &mut Vec<u8>,
        mut emit: impl FnMut(&[u8]),
    ) {
        let schema = dictionary.schema();
        if let Some(filter) = &self.filter {
            let entry = Unnamed { dictionary, record };
            if filter.matches(schema, &entry) != Truth::True {
                return;
            }
        }
        let asked = Asked::new(&self.attribute);
        let values_of = |asked: &Asked<'_>| {
            let attributes = record.attributes();
            let covered = attributes.filter(|(id, _)| dictionary.is_covered(*id, asked));
            covered.flat_map(|(_, values)| values.iter()).collect::<Vec<&[u8]>>()
        };
        let values = values_of(&asked);
        let Some(with) = &self.with else {
            let apart = record.apart.iter().map(|of| of.attribute);
            let mut outside = record.listed.iter().chain(apart);
            if self.kind == IndexKind::Presence
                && outside.any(|attribute| dictionary.is_covered(attribute, &asked))
            {
                return emit(&[]);
            }
            let count = if self.kind == IndexKind::Presence { 1 } else { usize::MAX };
            for value in values.into_iter().take(count) {
                self.keys(schema, value, scratch, &mut emit);
            }
            return;
        };
        let (Some(rule), second) = (self.rule, values_of(&Asked::new(&with.attribute))) else {
            return;
        };
        if values.len().saturating_mul(second.len()) > COMPOSITE_PAIRS_MAX {
            return emit(COMPOSITE_CROWD);
        }
        let prepared = |rule: &MatchingRule, value: &&[u8]| {
            let mut key = Vec::new();
            (rule.prepare)(schema, value, &mut key).ok().map(|()| key)
        };
        let second: Vec<Vec<u8>> =
            second.iter().filter_map(|value| prepared(with.rule, value)).collect();
        for first in values.iter().filter_map(|value| prepared(rule, value)) {
            for second in &second {
                composite_key(&first, second, scratch);
                emit(scratch);
            }
        }
    }
}

/// Calls `visit` with the number of each bit that is set, from the lowest.
pub(crate) fn each_bit(number: u64, mut visit: impl FnMut(u8)) {
    let mut rest = number;
    while rest != 0 {
        visit(rest.trailing_zeros() as u8);
        rest &= rest - 1;
    }
}

/// The octets of one key of a substring index.
pub(crate) const GRAM_BYTES: usize = 4;
/// Stands before the first octet of a value. Prepared texts hold no control characters; where a
/// value of another syntax holds it, there are more candidates and none is missed.
pub(crate) const GRAM_BEGIN: u8 = 2;
/// Stands after the last octet of a value.
pub(crate) const GRAM_END: u8 = 3;
/// What follows the last octet of a value, so that every octet begins a gram: a piece of one octet
/// is the beginning of a gram wherever it stands.
pub(crate) const GRAM_PADDING: [u8; GRAM_BYTES - 1] = [GRAM_END; GRAM_BYTES - 1];

/// An entry with more pairs of values than this is in a composite index under
/// [`COMPOSITE_CROWD`], so that a few large entries do not fill it.
pub(crate) const COMPOSITE_PAIRS_MAX: usize = 4096;
/// The key of the entries with too many pairs. Whoever looks up a pair looks here as well. No pair
/// has it: each has [`COMPOSITE_SEPARATOR`].
pub(crate) const COMPOSITE_CROWD: &[u8] = &[];
/// Stands between the two values of a composite key; in the first it and the two octets beside it
/// are escaped, so that pairs are in the order of their first values.
const COMPOSITE_SEPARATOR: u8 = 1;
const COMPOSITE_ESCAPE: u8 = 2;

/// What the keys of all pairs with this first value begin with.
///
/// Longer than [`crate::rows::key::INDEX_VALUE_KEPT_BYTES`] it is only the beginning of keys that
/// are shortened.
pub(crate) fn composite_prefix(first: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for &octet in first {
        if octet <= COMPOSITE_ESCAPE {
            out.push(COMPOSITE_ESCAPE);
        }
        out.push(octet);
    }
    out.push(COMPOSITE_SEPARATOR);
}

/// The key of a pair of prepared values. True when it was shortened: then others may have it, too.
pub(crate) fn composite_key(first: &[u8], second: &[u8], out: &mut Vec<u8>) -> bool {
    composite_prefix(first, out);
    out.extend_from_slice(second);
    shorten(out)
}

/// A record as filters of indexes see it: without a name, which they must not ask for.
struct Unnamed<'a> {
    dictionary: &'a Dictionary,
    record: &'a Record<'a>,
}

impl EntryRead for Unnamed<'_> {
    fn dn(&self) -> &str {
        ""
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        _: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        let asked = Asked::new(asked);
        for (id, values) in self.record.attributes() {
            if self.dictionary.is_covered(id, &asked)
                && let Some(description) = self.dictionary.description(id)
                && !values.iter().all(|value| visit(description, value))
            {
                break;
            }
        }
        true
    }

    fn visit_wanted(
        &self,
        _: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        for (id, values) in self.record.attributes() {
            if let Some(description) = self.dictionary.description(id) {
                visit(description, Some(values));
            }
        }
    }
}
