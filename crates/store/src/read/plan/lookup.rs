//! Filters as lookups: the heads of lists are read, which tells how long they are, and nothing
//! else yet.
//!
//! A `!` is brought down to the assertions first, which three-valued logic allows: what matches
//! `(!(&(a)(b)))` is what matches `(|(!(a))(!(b)))`. An assertion that is Undefined for an entry,
//! because the asker has no right to it, matches neither way, so the ids of a node can only be too
//! many for that asker, never too few.
//!
//! Recurses as deep as the filter is, which decoding limits.

use ldap::filter::Filter;
use rustc_hash::FxHashSet;
use schema::{
    Assertion, AttributeDescription, Compare, ExtensibleAssertion, MatchingRule, ResolvedFilter,
    RuleKind,
};

use super::Whole;
use super::cost::{FEW_CANDIDATES, STREAM_WANTED_IDS_MIN, Work};
use super::explain::{self, CandidateSource, Operator, TermReport};
use super::node::{Details, ListKey, Node, Posting, Range, Shape, UNCOUNTED, UNKNOWN};
use crate::error::StoreError;
use crate::index::ids::IdSet;
use crate::index::{
    COMPOSITE_CROWD, Index, IndexDefinition, IndexKind, composite_key, each_bit, orders_keys_of,
};
use crate::read::computed::Computed;
use crate::read::interrupt::{Interrupt, Watch};
use crate::read::view::View;
use crate::rows::dictionary::Asked;
use crate::rows::key::{INDEX_VALUE_KEPT_BYTES, RowKey, shorten};

/// Looks up the parts of one filter.
pub(super) struct Lookup<'a, 'v> {
    pub(super) view: &'v View<'v>,
    pub(super) entries: u64,
    pub(super) is_explained: bool,
    pub(super) interrupt: Interrupt<'a>,
    pub(super) whole: Whole<'a>,
    pub(super) watch: Watch<'a>,
    pub(super) work: Work,
    /// The parts of the conjunctions above, all of which hold for what is looked for: a filtered
    /// index whose filter is among them has all of it.
    pub(super) given: Vec<&'a ResolvedFilter>,
    /// See [`Ask::computed`](super::Ask::computed).
    pub(super) computed: Option<&'a dyn Computed>,
    /// Reading more than so many entries of a computed attribute is of no use.
    pub(super) worth: u64,
}

/// Two assertions of a conjunction, each with its place in it, and the index of both.
pub(super) struct Pair<'v, 'f> {
    pub(super) index: &'v Index,
    pub(super) first: (usize, &'f Assertion),
    pub(super) second: (usize, &'f Assertion),
}

/// The text of a part of a filter, where it is known.
type AsAsked<'a> = Option<&'a Filter<'a>>;

/// Duplicates are looked for in disjunctions of more parts than this.
const PARTS_FEW: usize = 8;
/// Of a conjunction so many parts are looked at for what they mean for one another.
const PARTS_MAX: usize = 64;
/// To test a candidate for a computed attribute takes as long as to find so many that have it.
const TESTS_OF_COMPUTED: u64 = 8;
/// With more descriptions than this nobody looks which of them a type has.
const DESCRIPTIONS_FEW: usize = 4096;

pub(super) const FEW_ARE_LEFT: &str = "few candidates are left: they are tested";
pub(super) const SAID_BEFORE: &str = "it is a duplicate";
pub(super) const WITH_OTHER_BOUND: &str = "it is read together with the other bound";
pub(super) const IN_COMPOSITE: &str = "an index of both attributes is used";

impl<'a, 'v> Lookup<'a, 'v> {
    pub(super) fn new(
        view: &'v View<'v>,
        whole: Whole<'a>,
        interrupt: Interrupt<'a>,
        is_explained: bool,
    ) -> Result<Self, StoreError> {
        let entries = view.entry_count()?;
        Ok(Self { entries, ..Self::over(view, whole, interrupt, is_explained) })
    }

    /// One that reads nothing: it does not know how many entries there are.
    pub(super) fn over(
        view: &'v View<'v>,
        whole: Whole<'a>,
        interrupt: Interrupt<'a>,
        is_explained: bool,
    ) -> Self {
        let watch = Watch::new(interrupt);
        let (work, given) = (Work::default(), Vec::new());
        let (computed, worth) = (None, u64::MAX);
        Self {
            view,
            entries: 0,
            is_explained,
            interrupt,
            whole,
            watch,
            work,
            given,
            computed,
            worth,
        }
    }

    /// Looks up a filter, or its opposite.
    pub(super) fn term(
        &mut self,
        filter: &'a ResolvedFilter,
        asked: AsAsked<'a>,
        is_negated: bool,
    ) -> Result<Node<'v>, StoreError> {
        self.watch.row()?;
        let mut node = match filter {
            ResolvedFilter::Not(inner) => {
                let inner_asked = explain::part(filter, asked, 0);
                let mut node = self.term(inner, inner_asked, !is_negated)?;
                if let Some(details) = &mut node.details {
                    details.nots.push(explain::text(filter, asked));
                }
                return Ok(node);
            }
            ResolvedFilter::And(parts) if is_negated => self.any(filter, parts, asked, true)?,
            ResolvedFilter::Or(parts) if is_negated => self.all(filter, parts, asked, true)?,
            ResolvedFilter::And(parts) => self.all(filter, parts, asked, false)?,
            ResolvedFilter::Or(parts) => self.any(filter, parts, asked, false)?,
            item if is_negated => {
                // What is given holds only because other parts prove it: were an index with a
                // filter used for the opposite, two parts could each leave it to the other one.
                let given = std::mem::take(&mut self.given);
                // What may be too many proves nothing of the others.
                let worth = std::mem::replace(&mut self.worth, 0);
                let node = self.item(item);
                let node = node.map(|node| self.described(node, item, asked));
                (self.given, self.worth) = (given, worth);
                return Ok(self.without(item, node?));
            }
            item => {
                let node = self.item(item)?;
                return Ok(self.described(node, item, asked));
            }
        };
        if self.is_explained {
            let operator = explain::operator_of(filter);
            let report =
                TermReport::new(explain::text(filter, asked), operator, CandidateSource::Composed);
            node.details = Some(Box::new(Details::new(report, is_negated)));
        }
        Ok(node)
    }

    /// Puts down what an explanation says of an assertion.
    fn described(&self, mut node: Node<'v>, item: &ResolvedFilter, asked: AsAsked<'_>) -> Node<'v> {
        if !self.is_explained {
            return node;
        }
        let source = match (self.index_of(item), &node.shape) {
            _ if *item == ResolvedFilter::Undefined => CandidateSource::Undefined,
            (_, Shape::Everything) if node.exact => CandidateSource::Everything,
            (_, Shape::Everything) => CandidateSource::Scan,
            (Some(name), _) => CandidateSource::Index { name, keys: 0 },
            (None, _) => CandidateSource::Composed,
        };
        let mut report = TermReport::new(explain::text(item, asked), Operator::Item, source);
        if report.source == CandidateSource::Scan {
            report.would_help = would_help(item);
        }
        node.details = Some(Box::new(Details::new(report, false)));
        node
    }

    /// All entries but those of an assertion.
    fn without(&self, item: &ResolvedFilter, mut node: Node<'v>) -> Node<'v> {
        let details = node.details.take();
        // Neither an Undefined assertion nor its opposite matches.
        let mut turned = if *item == ResolvedFilter::Undefined {
            Node::nothing()
        } else if !self.is_whole(item) {
            Node::unknown()
        } else if node.is_everything() {
            if node.exact { Node::nothing() } else { Node::unknown() }
        } else if node.is_nothing() && node.exact {
            Node::everything()
        } else if !node.exact {
            Node::unknown()
        } else {
            let count = match node.count {
                UNCOUNTED => UNCOUNTED,
                count => self.entries.saturating_sub(count),
            };
            Node::new(Shape::Without(Box::new(node)), true, count)
        };
        turned.details = details;
        if let Some(details) = &mut turned.details {
            details.is_turned = true;
        }
        turned
    }

    /// A conjunction.
    fn all(
        &mut self,
        filter: &'a ResolvedFilter,
        parts: &'a [ResolvedFilter],
        asked: AsAsked<'a>,
        is_negated: bool,
    ) -> Result<Node<'v>, StoreError> {
        let given = self.given.len();
        if !is_negated {
            self.give(parts);
        }
        let node = self.all_given(filter, parts, asked, is_negated);
        self.given.truncate(given);
        node
    }

    fn all_given(
        &mut self,
        filter: &'a ResolvedFilter,
        parts: &'a [ResolvedFilter],
        asked: AsAsked<'a>,
        is_negated: bool,
    ) -> Result<Node<'v>, StoreError> {
        let mut nodes: Vec<Option<Node<'v>>> = Vec::new();
        nodes.resize_with(parts.len(), || None);
        let mut smallest = UNKNOWN;
        // What one row tells is asked first: it may be all that is needed.
        for is_quick in [true, false] {
            for (part, (at, place)) in parts.iter().zip(nodes.iter_mut().enumerate()) {
                if is_one_row(part, self.computed) != is_quick {
                    continue;
                }
                let is_late = !is_quick && smallest <= FEW_CANDIDATES;
                if is_late && !self.is_explained {
                    *place = Some(Node { is_late, ..Node::unknown() });
                    continue;
                }
                let part_asked = explain::part(filter, asked, at);
                let worth = self.worth;
                if smallest < UNCOUNTED {
                    self.worth = worth.min(smallest.saturating_mul(TESTS_OF_COMPUTED));
                }
                let node = self.term(part, part_asked, is_negated);
                self.worth = worth;
                let node = node?;
                if node.is_nothing() && !self.is_explained {
                    return Ok(node);
                }
                if !is_late && node.can_be_first() {
                    smallest = smallest.min(node.count);
                }
                *place = Some(Node { is_late, ..node });
            }
            if is_quick && !is_negated && smallest > FEW_CANDIDATES {
                self.pairs(parts, &mut nodes, &mut smallest)?;
            }
        }
        let mut nodes: Vec<Node<'v>> = nodes.into_iter().flatten().collect();
        if !is_negated {
            self.between(parts, &mut nodes);
        }
        // That a part matches nothing is all there is to know of the rest. Where it is explained,
        // such a part may have parts itself.
        let matches_nothing =
            |node: &Node<'_>| node.is_nothing() || (node.exact && node.count == 0);
        let is_nothing = nodes.iter().any(|node| matches_nothing(node) && !node.is_late);
        let exact = is_nothing || nodes.iter().all(|node| node.exact && !node.is_late);
        let first = nodes.iter().filter(|node| !node.is_late && node.can_be_first());
        let count = match first.map(|node| node.count).min() {
            Some(count) => count,
            None if nodes.iter().all(Node::is_everything) => UNKNOWN,
            None => self.entries,
        };
        Ok(Node::new(Shape::And(nodes), exact, count))
    }

    /// A disjunction.
    fn any(
        &mut self,
        filter: &'a ResolvedFilter,
        parts: &'a [ResolvedFilter],
        asked: AsAsked<'a>,
        is_negated: bool,
    ) -> Result<Node<'v>, StoreError> {
        // What holds for all of it need not hold for a part that is turned round.
        let mut nodes: Vec<Node<'v>> = Vec::with_capacity(parts.len());
        let mut seen: FxHashSet<(&str, &[u8])> = FxHashSet::default();
        let (mut exact, mut count) = (true, 0_u64);
        for (at, part) in parts.iter().enumerate() {
            let is_new = match part {
                ResolvedFilter::Equality(one) if parts.len() > PARTS_FEW => {
                    seen.insert((one.description.text(), &one.key))
                }
                _ => true,
            };
            if !is_new && !self.is_explained {
                continue;
            }
            let mut node = self.term(part, explain::part(filter, asked, at), is_negated)?;
            if !is_new {
                node.shape = Shape::Ids(IdSet::empty());
                (node.exact, node.count) = (true, 0);
                node.skip(SAID_BEFORE);
            }
            if node.is_everything() && !self.is_explained {
                return Ok(node);
            }
            exact &= node.exact;
            count = count.saturating_add(node.count);
            if !node.is_nothing() || self.is_explained {
                nodes.push(node);
            }
        }
        if let Some(all) = nodes.iter().find(|node| node.count == UNKNOWN) {
            let is_all = all.exact && all.is_everything();
            return Ok(Node::new(Shape::Or(nodes), is_all, UNKNOWN));
        }
        if nodes.is_empty() {
            return Ok(Node::nothing());
        }
        let count = if count >= UNCOUNTED { UNCOUNTED } else { count.min(self.entries) };
        Ok(Node::new(Shape::Or(nodes), exact, count))
    }

    fn item(&mut self, item: &ResolvedFilter) -> Result<Node<'v>, StoreError> {
        match item {
            ResolvedFilter::Present(description) => self.present(description),
            ResolvedFilter::Equality(assertion) => self.equality(assertion),
            ResolvedFilter::Approx(assertion) => {
                let index = self.index(&assertion.description, IndexKind::Approximate);
                match index.filter(|index| index.rule == Some(assertion.rule)) {
                    Some(index) => self.by_rule(index, &assertion.description, &assertion.key),
                    // Attributes that are no text are compared by their equality rule.
                    None => self.equality(assertion),
                }
            }
            ResolvedFilter::GreaterOrEqual(assertion) => Ok(self.ordered(assertion, true)),
            ResolvedFilter::LessOrEqual(assertion) => Ok(self.ordered(assertion, false)),
            ResolvedFilter::Substrings(assertion) => self.substrings(assertion),
            ResolvedFilter::Extensible(assertion) => self.extensible(assertion),
            ResolvedFilter::Undefined => Ok(Node::nothing()),
            ResolvedFilter::And(_) | ResolvedFilter::Or(_) | ResolvedFilter::Not(_) => {
                Ok(Node::unknown())
            }
        }
    }

    /// The list of one key.
    pub(super) fn list(
        &mut self,
        index: u16,
        key: &[u8],
        exact: bool,
    ) -> Result<Node<'v>, StoreError> {
        self.work.rows += 1;
        let Some(list) = self.view.list(index, key)? else { return Ok(Node::nothing()) };
        let count = list.count();
        let is_long = count > STREAM_WANTED_IDS_MIN;
        let key = is_long.then(|| ListKey { index, value: key.into() });
        Ok(Node::new(Shape::List(Posting { list, key }), exact, count))
    }

    /// The list of a key that may be too long for a row.
    fn long_list(&mut self, index: u16, key: &[u8], exact: bool) -> Result<Node<'v>, StoreError> {
        if key.len() < INDEX_VALUE_KEPT_BYTES {
            return self.list(index, key, exact);
        }
        let mut key = key.to_vec();
        let is_shortened = shorten(&mut key);
        self.list(index, &key, exact && !is_shortened)
    }

    fn present(&mut self, asked: &AttributeDescription) -> Result<Node<'v>, StoreError> {
        let is_plain = asked.options().is_empty();
        let schema = self.view.schema();
        if is_plain && asked.kind == schema.well_known().object_class.kind {
            // Every entry has an object class (RFC 4512 §2.4).
            return Ok(Node::everything());
        }
        match self.index(asked, IndexKind::Presence) {
            Some(index) => {
                self.view.note_index(index.id);
                self.list(index.id, &[], is_plain)
            }
            None => Ok(Node::unknown()),
        }
    }

    fn equality(&mut self, assertion: &Assertion) -> Result<Node<'v>, StoreError> {
        let asked = &assertion.description;
        let index = self.index(asked, IndexKind::Equality);
        match index.filter(|index| index.rule == Some(assertion.rule)) {
            Some(index) => {
                self.view.note_index(index.id);
                let exact = asked.options().is_empty();
                let node = self.long_list(index.id, &assertion.key, exact)?;
                self.with_lists(asked, assertion.rule, &assertion.key, node)
            }
            None => self.computed(assertion),
        }
    }

    /// The index of this kind that has all that is looked for: one of all entries, else one of only
    /// those entries that everything that is looked for is among.
    pub(super) fn index(&self, asked: &AttributeDescription, kind: IndexKind) -> Option<&'v Index> {
        let index = self.view.dictionary().index(&asked.kind, kind);
        index.or_else(|| self.filtered(asked).find(|index| index.is_of_kind(kind)))
    }

    /// Indexes of values of a type, of only those entries that everything that is looked for is
    /// among.
    pub(super) fn filtered(&self, asked: &AttributeDescription) -> impl Iterator<Item = &'v Index> {
        let is_any = !self.given.is_empty();
        let all = is_any.then(|| self.view.dictionary().filtered(&asked.kind));
        all.into_iter().flatten().filter(|index| {
            index.with.is_none()
                && index.attribute.kind == asked.kind
                && index.filter.as_ref().is_some_and(|filter| self.is_given(filter))
        })
    }

    /// Whether everything that is looked for matches a filter: it was asked for, or all its parts
    /// were.
    fn is_given(&self, filter: &ResolvedFilter) -> bool {
        (self.given.iter().take(PARTS_MAX).any(|part| *part == filter)
            && self.is_certain(filter, false))
            || match filter {
                ResolvedFilter::And(parts) => {
                    !parts.is_empty() && parts.iter().all(|part| self.is_given(part))
                }
                _ => false,
            }
    }

    /// Whether what a filter is true of, as far as whoever asks may search, is what the index holds
    /// for it: not where it denies what some hidden value makes true.
    fn is_certain(&self, filter: &ResolvedFilter, is_negated: bool) -> bool {
        match filter {
            ResolvedFilter::Not(part) => self.is_certain(part, !is_negated),
            ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => {
                parts.iter().all(|part| self.is_certain(part, is_negated))
            }
            item => !is_negated || self.is_whole(item),
        }
    }

    /// What is given below a conjunction of these parts.
    pub(super) fn give(&mut self, parts: &'a [ResolvedFilter]) {
        for part in parts {
            self.given.push(part);
            if let ResolvedFilter::And(parts) = part {
                self.give(parts);
            }
        }
    }

    /// Values at least or at most as large as the assertion.
    fn ordered(&self, assertion: &Assertion, is_at_least: bool) -> Node<'v> {
        let asked = &assertion.description;
        let index = self.index(asked, IndexKind::Ordering);
        let Some(index) = index.filter(|index| orders(index, assertion.rule)) else {
            return Node::unknown();
        };
        self.view.note_index(index.id);
        // Of keys that were shortened only the beginning is in order.
        let is_cut = assertion.key.len() > INDEX_VALUE_KEPT_BYTES;
        let key = assertion.key.get(..INDEX_VALUE_KEPT_BYTES).unwrap_or(&assertion.key);
        let exact = asked.options().is_empty() && !is_cut;
        let from = RowKey::postings_from(index.id, if is_at_least { key } else { &[] });
        let to: Box<[u8]> = if is_at_least {
            RowKey::postings_from(index.id + 1, &[]).as_bytes().into()
        } else if is_cut {
            after_all_with(RowKey::postings_from(index.id, key).as_bytes())
        } else {
            // The head row of the key itself is the last one; its chunks follow it.
            after_all_with(RowKey::postings(index.id, key).as_bytes())
        };
        range(from.as_bytes(), to, exact)
    }

    fn extensible(&mut self, assertion: &ExtensibleAssertion) -> Result<Node<'v>, StoreError> {
        let Some(asked) = assertion.description.as_deref() else { return Ok(Node::unknown()) };
        if assertion.dn_attributes || assertion.rule.kind != RuleKind::Equality {
            return Ok(Node::unknown());
        }
        match self.index_by(asked, assertion.rule) {
            Some(index) => self.by_rule(index, asked, &assertion.key),
            None => Ok(Node::unknown()),
        }
    }

    /// The index of the values of a type by this rule.
    pub(super) fn index_by(
        &self,
        asked: &AttributeDescription,
        rule: &MatchingRule,
    ) -> Option<&'v Index> {
        let own = [IndexKind::Equality, IndexKind::Approximate];
        let own = own.into_iter().filter_map(|kind| self.index(asked, kind));
        let other = self.view.dictionary().extensible(&asked.kind, rule).into_iter();
        let filtered = self.filtered(asked).filter(|index| index.kind == IndexKind::Extensible);
        other.chain(own).chain(filtered).find(|index| index.rule == Some(rule))
    }

    /// What an index by the rule of the assertion knows of its key.
    fn by_rule(
        &mut self,
        index: &Index,
        asked: &AttributeDescription,
        key: &[u8],
    ) -> Result<Node<'v>, StoreError> {
        self.view.note_index(index.id);
        let is_plain = asked.options().is_empty();
        match index.rule.map(|rule| rule.compare) {
            Some(Compare::Key) => {
                let node = self.long_list(index.id, key, is_plain)?;
                match index.rule {
                    Some(rule) => self.with_lists(asked, rule, key, node),
                    None => Ok(node),
                }
            }
            // The assertion is one word.
            Some(Compare::Word) => self.long_list(index.id, key, is_plain),
            Some(Compare::Words) => {
                let words: Vec<&[u8]> = key.split(|&octet| octet == b' ').collect();
                let exact = is_plain && words.len() == 1;
                let each = words.iter().map(|word| self.long_list(index.id, word, exact));
                Ok(together(each.collect::<Result<_, _>>()?, exact))
            }
            Some(Compare::AllBits | Compare::AnyBits) => self.bits(index, is_plain, key),
            Some(Compare::Chain) | None => Ok(Node::unknown()),
        }
    }

    fn bits(&mut self, index: &Index, is_plain: bool, key: &[u8]) -> Result<Node<'v>, StoreError> {
        let is_any = index.rule.is_some_and(|rule| rule.compare == Compare::AnyBits);
        let Ok(number) = <[u8; 8]>::try_from(key).map(u64::from_be_bytes) else {
            return Ok(Node::unknown());
        };
        let mut bits = Vec::new();
        each_bit(number, |bit| bits.push(bit));
        // Every number has all bits of zero: which entries have one, no list tells.
        if bits.is_empty() {
            return Ok(if is_any { Node::nothing() } else { Node::unknown() });
        }
        // All bits may be spread over several values of an entry.
        let exact = is_plain && (is_any || bits.len() == 1);
        let each = bits.iter().map(|bit| self.list(index.id, &[*bit], exact));
        let each = each.collect::<Result<Vec<_>, _>>()?;
        if !is_any {
            return Ok(together(each, exact));
        }
        let count = each.iter().map(|node| node.count).sum::<u64>().min(self.entries);
        Ok(Node::new(Shape::Or(each), exact, count))
    }

    /// Pairs of assertions that an index of both attributes answers.
    fn pairs(
        &mut self,
        parts: &'a [ResolvedFilter],
        nodes: &mut Vec<Option<Node<'v>>>,
        smallest: &mut u64,
    ) -> Result<(), StoreError> {
        for Pair { index, first, second } in self.pairs_in(parts) {
            let node = self.pair(index, first.1, second.1)?;
            // The pair stands for both parts where it tells all.
            for at in [first.0, second.0] {
                if let Some(Some(part)) = nodes.get_mut(at)
                    && node.exact
                {
                    part.shape = Shape::Everything;
                    (part.exact, part.count) = (true, UNKNOWN);
                    part.skip(IN_COMPOSITE);
                }
            }
            *smallest = (*smallest).min(node.count);
            nodes.push(Some(node));
        }
        Ok(())
    }

    /// The pairs of assertions of a conjunction that an index of both attributes answers.
    pub(super) fn pairs_in<'f>(&self, parts: &'f [ResolvedFilter]) -> Vec<Pair<'v, 'f>> {
        let items: Vec<(usize, &Assertion)> = parts
            .iter()
            .take(PARTS_MAX)
            .enumerate()
            .filter_map(|(at, part)| equal(at, part))
            .collect();
        let mut pairs = Vec::new();
        for first in &items {
            let kind = &first.1.description.kind;
            let dictionary = self.view.dictionary();
            let is_given = |index: &&Index| match &index.filter {
                Some(filter) => index.with.is_some() && self.is_given(filter),
                None => true,
            };
            let filtered = dictionary.filtered(kind).filter(is_given);
            for index in dictionary.composites(kind).chain(filtered) {
                let Some(with) = &index.with else { continue };
                if index.attribute.kind != *kind || index.rule != Some(first.1.rule) {
                    continue;
                }
                let is_second = |(_, second): &&(usize, &Assertion)| {
                    second.description.kind == with.attribute.kind && second.rule == with.rule
                };
                let second = items.iter().find(is_second);
                pairs.extend(second.map(|second| Pair { index, first: *first, second: *second }));
            }
        }
        pairs
    }

    fn pair(
        &mut self,
        index: &Index,
        first: &Assertion,
        second: &Assertion,
    ) -> Result<Node<'v>, StoreError> {
        let mut key = Vec::new();
        let is_shortened = composite_key(&first.key, &second.key, &mut key);
        let is_plain =
            first.description.options().is_empty() && second.description.options().is_empty();
        let exact = is_plain && !is_shortened;
        self.view.note_index(index.id);
        let mut node = self.list(index.id, &key, exact)?;
        // Entries with too many pairs are here, whatever their values.
        let crowd = self.list(index.id, COMPOSITE_CROWD, false)?;
        if !crowd.is_nothing() {
            let count = node.count.saturating_add(crowd.count).min(self.entries);
            node = Node::new(Shape::Or(vec![node, crowd]), false, count);
        }
        if self.is_explained {
            let text =
                |one: &Assertion| explain::text(&ResolvedFilter::Equality(one.clone()), None);
            let name = index.definition.name();
            let source = CandidateSource::Index { name, keys: 1 };
            let filter = format!("(&{}{})", text(first), text(second));
            let report = TermReport::new(filter, Operator::Item, source);
            node.details = Some(Box::new(Details::new(report, false)));
        }
        Ok(node)
    }

    /// A lower and an upper bound of an attribute that has one value, which the server sets: both
    /// are about that value, so the range between them has all that matches.
    fn between(&self, parts: &[ResolvedFilter], nodes: &mut [Node<'v>]) {
        for (low_at, low) in parts.iter().take(PARTS_MAX).enumerate() {
            let ResolvedFilter::GreaterOrEqual(low) = low else { continue };
            let asked = &low.description;
            let upper = |part: &ResolvedFilter| match part {
                ResolvedFilter::LessOrEqual(one) => one.description == *asked,
                _ => false,
            };
            let Some(high_at) = parts.iter().take(PARTS_MAX).position(upper) else { continue };
            if !self.has_one_value(asked) {
                continue;
            }
            let Ok([low, high]) = nodes.get_disjoint_mut([low_at, high_at]) else { continue };
            let (Shape::Range(range), Shape::Range(upper)) = (&mut low.shape, &mut high.shape)
            else {
                continue;
            };
            range.to = std::mem::take(&mut upper.to);
            if range.from >= range.to {
                low.shape = Shape::Ids(IdSet::empty());
                low.count = 0;
            }
            high.shape = Shape::Everything;
            high.count = UNKNOWN;
            high.skip(WITH_OTHER_BOUND);
        }
    }

    fn has_one_value(&self, asked: &AttributeDescription) -> bool {
        let kind = &asked.kind;
        if !kind.single_value || !kind.no_user_modification || !asked.options().is_empty() {
            return false;
        }
        let dictionary = self.view.dictionary();
        let asked = Asked::new(asked);
        let ids = 0..u32::try_from(dictionary.len()).unwrap_or(u32::MAX);
        dictionary.len() <= DESCRIPTIONS_FEW
            && ids.filter(|&id| dictionary.is_covered(id, &asked)).count() <= 1
    }

    /// The name of the index that is asked for an assertion.
    fn index_of(&self, item: &ResolvedFilter) -> Option<String> {
        let plain = |asked: &AttributeDescription, kind: IndexKind| self.index(asked, kind);
        let index = match item {
            ResolvedFilter::Present(asked) => plain(asked, IndexKind::Presence),
            ResolvedFilter::Equality(one) => plain(&one.description, IndexKind::Equality),
            ResolvedFilter::Approx(one) => plain(&one.description, IndexKind::Approximate)
                .or_else(|| plain(&one.description, IndexKind::Equality)),
            ResolvedFilter::GreaterOrEqual(one) | ResolvedFilter::LessOrEqual(one) => {
                plain(&one.description, IndexKind::Ordering)
            }
            ResolvedFilter::Substrings(one) => plain(&one.description, IndexKind::Substring)
                .or_else(|| plain(&one.description, IndexKind::Equality)),
            ResolvedFilter::Extensible(one) => {
                one.description.as_deref().and_then(|asked| self.index_by(asked, one.rule))
            }
            _ => None,
        };
        index.map(|index| index.definition.name())
    }
}

/// Whether the keys of an index are in the order of this rule.
pub(super) fn orders(index: &Index, rule: &MatchingRule) -> bool {
    index.rule.is_some_and(|own| own == rule || orders_keys_of(rule, own))
}

fn equal(at: usize, part: &ResolvedFilter) -> Option<(usize, &Assertion)> {
    match part {
        ResolvedFilter::Equality(assertion) => Some((at, assertion)),
        _ => None,
    }
}

/// Whether one row tells of a part how long it is.
fn is_one_row(filter: &ResolvedFilter, computed: Option<&dyn Computed>) -> bool {
    match filter {
        ResolvedFilter::Not(inner) => is_one_row(inner, computed),
        ResolvedFilter::Equality(one) => {
            computed.is_none_or(|computed| !computed.computes(&one.description))
        }
        ResolvedFilter::Present(_) | ResolvedFilter::Undefined => true,
        ResolvedFilter::And(_)
        | ResolvedFilter::Or(_)
        | ResolvedFilter::GreaterOrEqual(_)
        | ResolvedFilter::LessOrEqual(_)
        | ResolvedFilter::Approx(_)
        | ResolvedFilter::Substrings(_)
        | ResolvedFilter::Extensible(_) => false,
    }
}

/// What is in all of these, which one assertion asks for.
pub(super) fn together(mut nodes: Vec<Node<'_>>, exact: bool) -> Node<'_> {
    if let Some(at) = nodes.iter().position(Node::is_nothing) {
        return nodes.swap_remove(at);
    }
    if nodes.len() == 1
        && let Some(node) = nodes.pop()
    {
        return Node { exact, ..node };
    }
    let count = nodes.iter().map(|node| node.count).min().unwrap_or(UNKNOWN);
    Node { is_pieces: true, ..Node::new(Shape::And(nodes), exact, count) }
}

pub(super) fn range<'v>(from: &[u8], to: Box<[u8]>, exact: bool) -> Node<'v> {
    let range = Range { from: from.into(), to, lists: None };
    Node::new(Shape::Range(range), exact, UNCOUNTED)
}

/// The first key after all that start with `prefix`. Prefixes start with an index's number, which
/// is never the largest there is.
pub(crate) fn after_all_with(prefix: &[u8]) -> Box<[u8]> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if last != u8::MAX {
            key.push(last + 1);
            break;
        }
    }
    key.into()
}

/// The definition of an index that would answer an assertion.
pub(super) fn would_help(item: &ResolvedFilter) -> Option<String> {
    let definition = |kind: IndexKind, asked: &AttributeDescription| {
        let attribute = asked.kind.name().to_owned();
        IndexDefinition { kind, attribute, rule: None, with: None, filter: None }
    };
    let definition = match item {
        ResolvedFilter::Present(asked) => definition(IndexKind::Presence, asked),
        ResolvedFilter::Equality(one) => definition(IndexKind::Equality, &one.description),
        ResolvedFilter::Approx(one) => definition(IndexKind::Approximate, &one.description),
        ResolvedFilter::GreaterOrEqual(one) | ResolvedFilter::LessOrEqual(one) => {
            definition(IndexKind::Ordering, &one.description)
        }
        ResolvedFilter::Substrings(one) => definition(IndexKind::Substring, &one.description),
        ResolvedFilter::Extensible(one) => {
            let asked = one.description.as_deref()?;
            if one.dn_attributes || one.rule.kind != RuleKind::Equality {
                return None;
            }
            let rule = Some(one.rule.oid.to_owned());
            IndexDefinition { rule, ..definition(IndexKind::Extensible, asked) }
        }
        _ => return None,
    };
    Some(definition.to_string())
}
