//! Filters as lookups: first the heads of all lists are read, which tells how long they are; then
//! the shortest are loaded, and no more than needed.
//!
//! Recurses as deep as the filter is, which decoding limits.

use schema::{Assertion, AttributeDescription, ResolvedFilter, SubstringAssertion};

use super::{FEW_CANDIDATES, Found};
use crate::error::StoreError;
use crate::ids::IdSet;
use crate::index::{GRAM_BEGIN, GRAM_BYTES, GRAM_PADDING, IndexKind, orders_keys_of};
use crate::interrupt::NEVER;
use crate::key::{INDEX_VALUE_KEPT_BYTES, RowKey, shorten};
use crate::view::{List, View};

/// A part of a filter, as far as indexes answer it.
struct Term<'v> {
    shape: Shape<'v>,
    /// Every id it gives matches this part of the filter.
    exact: bool,
}

enum Shape<'v> {
    Nothing,
    /// No index tells.
    Everything,
    List(List<'v>),
    /// Lists with head keys in a range.
    Range {
        from: Box<[u8]>,
        to: Box<[u8]>,
    },
    And(Vec<Term<'v>>),
    Or(Vec<Term<'v>>),
}

impl Term<'_> {
    const fn nothing() -> Self {
        Self { shape: Shape::Nothing, exact: true }
    }

    const fn everything() -> Self {
        Self { shape: Shape::Everything, exact: false }
    }

    /// At most how many ids it gives, about; none when no index tells.
    fn estimate(&self) -> Option<u64> {
        match &self.shape {
            Shape::Nothing => Some(0),
            Shape::Everything => None,
            Shape::List(list) => Some(list.count()),
            Shape::Range { .. } => Some(RANGE_ESTIMATE_IDS),
            Shape::And(terms) => terms.iter().filter_map(Term::estimate).min(),
            Shape::Or(terms) => {
                terms.iter().try_fold(0_u64, |sum, term| Some(sum.saturating_add(term.estimate()?)))
            }
        }
    }
}

/// How long a range of lists is cannot be told without reading it: it is read after the lists.
const RANGE_ESTIMATE_IDS: u64 = u64::MAX >> 8;
/// A range of more ids than this is not looked up.
const RANGE_IDS_MAX: u64 = 4_000_000;
/// With so few candidates a range is not read: they are tested.
const RANGE_CANDIDATES_MIN: u64 = 512;

impl View<'_> {
    /// The candidates of a filter in the whole directory.
    pub(super) fn find(&self, filter: &ResolvedFilter) -> Result<Found, StoreError> {
        let term = self.term(filter)?;
        let exact = term.exact;
        let Loaded { set, is_whole } = self.load_term(&term, None)?;
        Ok(Found { set, exact: exact && is_whole })
    }

    fn term(&self, filter: &ResolvedFilter) -> Result<Term<'_>, StoreError> {
        match filter {
            ResolvedFilter::And(filters) => self.and(filters),
            ResolvedFilter::Or(filters) => {
                let mut terms = Vec::with_capacity(filters.len());
                let mut exact = true;
                for filter in filters {
                    let term = self.term(filter)?;
                    if matches!(term.shape, Shape::Everything) {
                        return Ok(Term { exact: term.exact, ..term });
                    }
                    exact &= term.exact;
                    terms.push(term);
                }
                Ok(Term { shape: Shape::Or(terms), exact })
            }
            // What matches the inner filter is not all that is to be left out: for some entries
            // both are Undefined. Only such a filter is known to match none.
            ResolvedFilter::Not(inner) => Ok(if **inner == ResolvedFilter::Undefined {
                Term::nothing()
            } else {
                Term::everything()
            }),
            ResolvedFilter::Present(description) => self.present(description),
            ResolvedFilter::Equality(assertion) => self.equality(assertion),
            // Attributes that are no text are compared by their equality rule.
            ResolvedFilter::Approx(assertion) => self.equality(assertion),
            ResolvedFilter::GreaterOrEqual(assertion) => self.ordered(assertion, true),
            ResolvedFilter::LessOrEqual(assertion) => self.ordered(assertion, false),
            ResolvedFilter::Substrings(assertion) => self.substrings(assertion),
            ResolvedFilter::Extensible(_) => Ok(Term::everything()),
            ResolvedFilter::Undefined => Ok(Term::nothing()),
        }
    }

    fn and(&self, filters: &[ResolvedFilter]) -> Result<Term<'_>, StoreError> {
        let mut terms = Vec::with_capacity(filters.len());
        let mut exact = true;
        for filter in filters {
            let term = self.term(filter)?;
            if matches!(term.shape, Shape::Nothing) {
                return Ok(term);
            }
            exact &= term.exact;
            if !matches!(term.shape, Shape::Everything) {
                terms.push(term);
            }
        }
        if terms.is_empty() {
            return Ok(Term { shape: Shape::Everything, exact });
        }
        Ok(Term { shape: Shape::And(terms), exact })
    }

    fn list_term(&self, index: u16, key: &[u8], exact: bool) -> Result<Term<'_>, StoreError> {
        Ok(match self.list(index, key)? {
            Some(list) => Term { shape: Shape::List(list), exact },
            None => Term::nothing(),
        })
    }

    fn present(&self, asked: &AttributeDescription) -> Result<Term<'_>, StoreError> {
        let is_plain = asked.options().is_empty();
        if is_plain && asked.kind == self.schema().well_known().object_class.kind {
            // Every entry has an object class (RFC 4512 §2.4).
            return Ok(Term { shape: Shape::Everything, exact: true });
        }
        match self.dictionary().index(&asked.kind, IndexKind::Presence) {
            Some(index) => self.list_term(index.id, &[], is_plain),
            None => Ok(Term::everything()),
        }
    }

    fn equality(&self, assertion: &Assertion) -> Result<Term<'_>, StoreError> {
        let asked = &assertion.description;
        let index = self.dictionary().index(&asked.kind, IndexKind::Equality);
        let Some(index) = index.filter(|index| index.rule == Some(assertion.rule)) else {
            return Ok(Term::everything());
        };
        let exact = asked.options().is_empty();
        if assertion.key.len() < INDEX_VALUE_KEPT_BYTES {
            return self.list_term(index.id, &assertion.key, exact);
        }
        let mut key = assertion.key.clone();
        let is_shortened = shorten(&mut key);
        self.list_term(index.id, &key, exact && !is_shortened)
    }

    /// Values at least or at most as large as the assertion.
    fn ordered(&self, assertion: &Assertion, is_at_least: bool) -> Result<Term<'_>, StoreError> {
        let asked = &assertion.description;
        let index = self.dictionary().index(&asked.kind, IndexKind::Equality);
        let orders = |equality| orders_keys_of(assertion.rule, equality);
        let Some(index) = index.filter(|index| index.rule.is_some_and(orders)) else {
            return Ok(Term::everything());
        };
        // Of keys that were shortened only the beginning is in order.
        let is_cut = assertion.key.len() > INDEX_VALUE_KEPT_BYTES;
        let key = assertion.key.get(..INDEX_VALUE_KEPT_BYTES).unwrap_or(&assertion.key);
        let (from, to) = if is_at_least {
            (RowKey::postings_from(index.id, key), RowKey::postings_from(index.id + 1, &[]))
        } else if is_cut {
            let last = after_all_with(RowKey::postings_from(index.id, key).as_bytes());
            return Ok(range(RowKey::postings_from(index.id, &[]).as_bytes(), &last, false));
        } else {
            // The head row of the key itself is the last one; its chunks follow it.
            let last = after_all_with(RowKey::postings(index.id, key).as_bytes());
            let exact = asked.options().is_empty();
            return Ok(range(RowKey::postings_from(index.id, &[]).as_bytes(), &last, exact));
        };
        let exact = asked.options().is_empty() && !is_cut;
        Ok(range(from.as_bytes(), to.as_bytes(), exact))
    }

    fn substrings(&self, assertion: &SubstringAssertion) -> Result<Term<'_>, StoreError> {
        let asked = &assertion.description;
        let index = self.dictionary().index(&asked.kind, IndexKind::Substring);
        let Some(index) = index.filter(|index| index.rule == Some(assertion.rule)) else {
            return Ok(Term::everything());
        };
        let pieces = anchored_pieces(assertion);
        let mut grams: Vec<&[u8]> = pieces.iter().flat_map(|p| p.windows(GRAM_BYTES)).collect();
        grams.sort_unstable();
        grams.dedup();
        let mut terms = Vec::with_capacity(grams.len());
        for gram in grams {
            match self.list(index.id, gram)? {
                Some(list) => terms.push(Term { shape: Shape::List(list), exact: false }),
                None => return Ok(Term::nothing()),
            }
        }
        if !terms.is_empty() {
            return Ok(Term { shape: Shape::And(terms), exact: false });
        }
        // Every octet of a value begins a gram, so a short piece is the beginning of one.
        let short = pieces.iter().max_by_key(|piece| piece.len());
        Ok(short.map_or(Term::everything(), |piece| {
            let from = RowKey::postings_from(index.id, piece);
            range(from.as_bytes(), &after_all_with(from.as_bytes()), false)
        }))
    }

    /// Loads a term; with `within`, only what is in that set, too.
    fn load_term(&self, term: &Term<'_>, within: Option<IdSet>) -> Result<Loaded, StoreError> {
        match &term.shape {
            Shape::Nothing => Ok(Loaded::whole(IdSet::empty())),
            Shape::Everything => Ok(Loaded { set: within, is_whole: true }),
            Shape::List(list) => match within {
                None => Ok(Loaded::whole(self.load(list, NEVER)?)),
                Some(mut set) => {
                    self.intersect(&mut set, list, NEVER)?;
                    Ok(Loaded::whole(set))
                }
            },
            Shape::Range { from, to } => {
                match (self.range(from, to, RANGE_IDS_MAX, NEVER)?, within) {
                    (Some(found), None) => Ok(Loaded::whole(found)),
                    (Some(found), Some(mut set)) => {
                        set.intersect(&found);
                        Ok(Loaded::whole(set))
                    }
                    (None, within) => Ok(Loaded { set: within, is_whole: false }),
                }
            }
            Shape::And(terms) => self.load_and(terms, within),
            Shape::Or(terms) => self.load_or(terms, within),
        }
    }

    fn load_and(&self, terms: &[Term<'_>], within: Option<IdSet>) -> Result<Loaded, StoreError> {
        let mut order: Vec<(u64, &Term<'_>)> =
            terms.iter().map(|term| (term.estimate().unwrap_or(u64::MAX), term)).collect();
        order.sort_by_key(|(estimate, _)| *estimate);
        let half_of_all = self.entry_count()? / 2;
        let mut set = within;
        let mut is_whole = true;
        for (estimate, term) in order {
            if let Some(set) = &set
                && (set.len() <= FEW_CANDIDATES
                    || (estimate > half_of_all && estimate < RANGE_ESTIMATE_IDS)
                    || (estimate >= RANGE_ESTIMATE_IDS && set.len() < RANGE_CANDIDATES_MIN))
            {
                is_whole = false;
                if set.is_empty() {
                    break;
                }
                continue;
            }
            let loaded = self.load_term(term, set)?;
            set = loaded.set;
            is_whole &= loaded.is_whole;
        }
        Ok(Loaded { set, is_whole })
    }

    fn load_or(&self, terms: &[Term<'_>], within: Option<IdSet>) -> Result<Loaded, StoreError> {
        let mut all = IdSet::empty();
        let mut is_whole = true;
        for term in terms {
            let loaded = self.load_term(term, None)?;
            let Some(found) = loaded.set else {
                return Ok(Loaded { set: within, is_whole: false });
            };
            is_whole &= loaded.is_whole;
            all = all.union(found);
        }
        if let Some(within) = within {
            all.intersect(&within);
        }
        Ok(Loaded { set: Some(all), is_whole })
    }
}

/// What was loaded of a term.
struct Loaded {
    /// None: every entry.
    set: Option<IdSet>,
    /// Nothing was left out: the set is exact if the term is.
    is_whole: bool,
}

impl Loaded {
    const fn whole(set: IdSet) -> Self {
        Self { set: Some(set), is_whole: true }
    }
}

fn range<'v>(from: &[u8], to: &[u8], exact: bool) -> Term<'v> {
    Term { shape: Shape::Range { from: from.into(), to: to.into() }, exact }
}

/// The first key after all that start with `prefix`. Prefixes start with an index's number, which
/// is never the largest there is.
fn after_all_with(prefix: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if last != u8::MAX {
            key.push(last + 1);
            break;
        }
    }
    key
}

/// The pieces, the first and the last with the mark of the value's end.
fn anchored_pieces(assertion: &SubstringAssertion) -> Vec<Vec<u8>> {
    let mut pieces = Vec::with_capacity(2 + assertion.any.len());
    if let Some(initial) = &assertion.initial {
        pieces.push([&[GRAM_BEGIN], initial.as_slice()].concat());
    }
    pieces.extend(assertion.any.iter().cloned());
    if let Some(final_) = &assertion.final_ {
        pieces.push([final_.as_slice(), &GRAM_PADDING].concat());
    }
    pieces
}
