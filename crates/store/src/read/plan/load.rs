//! Reading what a filter needs, and no more: the shortest lists first, each only as long as it
//! costs less than testing the candidates that it would leave out.
//!
//! Invariant: what is left out of a set cannot match. What was not read only makes the set larger,
//! and the plan not exact.

use std::cmp::Reverse;
use std::time::Duration;

use super::cost::{
    self, NEXT_ROW_NS, RANGE_ID_NS, RANGE_PROBES_MAX, RETEST_NS, ROW_NS, TEST_NS, Work,
};
use super::node::{Node, Range, Shape, UNCOUNTED, UNKNOWN};
use crate::error::StoreError;
use crate::index::ids::{IdGatherer, IdSet};
use crate::read::interrupt::{Interrupt, Watch};
use crate::read::view::View;

/// Reads nodes.
pub(super) struct Loader<'a, 'v> {
    pub(super) view: &'v View<'v>,
    pub(super) entries: u64,
    pub(super) interrupt: Interrupt<'a>,
    pub(super) watch: Watch<'a>,
    pub(super) clock: Option<&'a dyn Fn() -> Duration>,
    pub(super) work: Work,
}

/// What was read of a node.
pub(super) struct Loaded {
    /// None: every entry.
    pub(super) set: Option<IdSet>,
    /// These are just the entries that match.
    pub(super) exact: bool,
}

pub(super) const TESTS_COST_LESS: &str = "testing what is left costs less";
pub(super) const NOTHING_IS_LEFT: &str = "no candidate is left";
pub(super) const NO_INDEX: &str = "no index helps";
pub(super) const TOO_MANY: &str = "most entries have it";

impl<'v> Loader<'_, 'v> {
    /// Reads a node; with `within`, only what is in that set, too.
    pub(super) fn load(
        &mut self,
        node: &mut Node<'v>,
        within: Option<IdSet>,
    ) -> Result<Loaded, StoreError> {
        if (self.interrupt)() {
            return Err(StoreError::Interrupted);
        }
        let started = self.clock.map(|clock| clock());
        let loaded = self.load_shape(node, within)?;
        // What depends on a range that gave up tells as little.
        let has_given_up = match &node.shape {
            Shape::Without(inner) => inner.is_everything(),
            Shape::Or(nodes) => !loaded.exact && nodes.iter().any(Node::is_everything),
            _ => false,
        };
        if has_given_up {
            node.gave_up();
        }
        node.is_done = loaded.exact;
        node.is_read = loaded.set.is_some() && !node.is_everything();
        if let (Some(clock), Some(started)) = (self.clock, started) {
            node.time_us += u64::try_from((clock() - started).as_micros()).unwrap_or(u64::MAX);
        }
        Ok(loaded)
    }

    fn load_shape(
        &mut self,
        node: &mut Node<'v>,
        within: Option<IdSet>,
    ) -> Result<Loaded, StoreError> {
        if node.is_everything() {
            return Ok(Loaded { set: within, exact: node.exact });
        }
        let exact = node.exact;
        match &mut node.shape {
            Shape::Everything => Ok(Loaded { set: within, exact }),
            Shape::Ids(ids) => {
                let set = match within {
                    None => ids.clone(),
                    Some(mut set) => {
                        set.intersect(ids);
                        set
                    }
                };
                Ok(Loaded { set: Some(set), exact })
            }
            Shape::List(posting) => {
                let list = &posting.list;
                let set = match within {
                    None => {
                        let rows = cost::chunk_rows(list, self.entries);
                        self.work.add(Work { rows, ids: list.count(), tests: 0 });
                        self.view.load(list, self.interrupt)?
                    }
                    Some(mut set) => {
                        self.work.add(cost::intersect_work(list, set.len(), self.entries));
                        self.view.intersect(&mut set, list, self.interrupt)?;
                        set
                    }
                };
                Ok(Loaded { set: Some(set), exact })
            }
            Shape::Range(range) => {
                let ids_max = node.count.min(self.entries).max(RANGE_IDS_MIN);
                let Some(found) = self.load_range(range, ids_max)? else {
                    node.gave_up();
                    return Ok(Loaded { set: within, exact: false });
                };
                let set = match within {
                    None => found,
                    Some(mut set) => {
                        set.intersect(&found);
                        set
                    }
                };
                Ok(Loaded { set: Some(set), exact })
            }
            Shape::Without(inner) => self.load_without(inner, within),
            Shape::And(nodes) => self.load_and(nodes, within),
            Shape::Or(nodes) => self.load_or(nodes, within),
        }
    }

    fn load_range(&mut self, range: &mut Range, ids_max: u64) -> Result<Option<IdSet>, StoreError> {
        let found = self.view.range(&range.from, &range.to, ids_max, self.interrupt)?;
        let ids = found.as_ref().map_or(ids_max, IdSet::len);
        let rows = range.lists.unwrap_or(ids);
        // A row that follows another costs less than one that is looked for.
        let rows = rows * NEXT_ROW_NS / ROW_NS + 1;
        self.work.add(Work { rows, ids: ids * RANGE_ID_NS / cost::ID_NS, tests: 0 });
        Ok(found)
    }

    fn load_without(
        &mut self,
        inner: &mut Node<'v>,
        within: Option<IdSet>,
    ) -> Result<Loaded, StoreError> {
        let Some(mut set) = within else { return Ok(Loaded { set: None, exact: false }) };
        if let Shape::List(posting) = &inner.shape {
            let list = &posting.list;
            self.work.add(cost::intersect_work(list, set.len(), self.entries));
            self.view.subtract(&mut set, list, self.interrupt)?;
            return Ok(Loaded { set: Some(set), exact: inner.exact });
        }
        let loaded = self.load(inner, Some(set.clone()))?;
        match loaded.set {
            Some(found) if loaded.exact => {
                set.subtract(&found);
                Ok(Loaded { set: Some(set), exact: true })
            }
            _ => Ok(Loaded { set: Some(set), exact: false }),
        }
    }

    /// Reads a conjunction, the parts that leave least first.
    pub(super) fn load_and(
        &mut self,
        nodes: &mut [Node<'v>],
        within: Option<IdSet>,
    ) -> Result<Loaded, StoreError> {
        let loaded = self.load_spread(&mut spread(nodes), within)?;
        settle(nodes);
        Ok(loaded)
    }

    fn load_spread(
        &mut self,
        parts: &mut [Part<'_, 'v>],
        within: Option<IdSet>,
    ) -> Result<Loaded, StoreError> {
        let mut set = within;
        // The last is the next.
        let mut order = in_order(parts);
        let mut step = 0;
        let mut exact = true;
        // Parts of one filter are seldom independent: those that disappoint make the next ones
        // less promising.
        let mut doubt = 1;
        let mut read: Vec<usize> = Vec::new();
        while !order.is_empty() {
            self.watch.row()?;
            if set.is_none() && !self.put_first(parts, &mut order)? {
                for at in order.drain(..) {
                    let reason = self.reason_not_to_begin(parts, at).unwrap_or(NO_INDEX);
                    exact &= skip(parts, at, reason);
                }
                break;
            }
            let Some(at) = order.pop() else { break };
            let Some(part) = parts.get_mut(at) else { continue };
            let own_doubt = part.doubt(&read);
            if let Some(left) = set.as_ref().map(IdSet::len) {
                if left == 0 {
                    order.push(at);
                    order.drain(..).for_each(|at| finish(parts, at));
                    return Ok(Loaded { set, exact: true });
                }
                self.count(part.node, left)?;
                let doubt = own_doubt.saturating_mul(doubt);
                if let Some(reason) = self.reason_to_skip(parts, at, &order, left, doubt, exact) {
                    exact &= skip(parts, at, reason);
                    continue;
                }
            }
            let Some(Part { node, assertion }) = parts.get_mut(at) else { continue };
            let before = set.as_ref().map(IdSet::len);
            let loaded = self.load(node, set.take())?;
            step += 1;
            node.step = Some(step);
            read.extend(*assertion);
            exact &= loaded.exact;
            set = loaded.set;
            if let (Some(before), Some(left)) = (before, set.as_ref().map(IdSet::len)) {
                let hoped = before - cost::expected(before, node.count, self.entries);
                if (before - left) * 2 < hoped / own_doubt {
                    doubt = doubt.saturating_mul(DOUBT);
                }
            }
        }
        let exact = exact || set.as_ref().is_some_and(IdSet::is_empty);
        Ok(Loaded { set, exact })
    }

    /// Reads these parts of a conjunction in this order, and no others.
    pub(super) fn load_parts(
        &mut self,
        nodes: &mut [Node<'v>],
        parts: &[usize],
    ) -> Result<Loaded, StoreError> {
        let mut set = None;
        let mut exact = true;
        for (at, node) in nodes.iter_mut().enumerate() {
            if !parts.contains(&at) {
                exact &= skip_node(node, TESTS_COST_LESS);
            }
        }
        for &at in parts {
            let Some(node) = nodes.get_mut(at) else { continue };
            self.count(node, self.entries)?;
            let loaded = self.load(node, set.take())?;
            exact &= loaded.exact;
            set = loaded.set;
        }
        Ok(Loaded { set, exact })
    }

    /// Puts the node that is best read before all others at the end; false when there is none.
    pub(super) fn put_first(
        &mut self,
        parts: &mut [Part<'_, 'v>],
        order: &mut Vec<usize>,
    ) -> Result<bool, StoreError> {
        loop {
            let first = order.iter().rposition(|&at| self.reason_not_to_begin(parts, at).is_none());
            let Some(first) = first else { return Ok(false) };
            let at = order.remove(first);
            let count = parts.get(at).map_or(0, |part| part.node.count);
            if count != UNCOUNTED {
                // As much may be spent on counting ranges as on loading this.
                let mut is_same = true;
                for &other in order.iter().filter(|_| count >= COUNT_SHARE) {
                    let Some(Part { node, .. }) = parts.get_mut(other) else { continue };
                    self.count(node, count / COUNT_SHARE)?;
                    let is_longer = node.count >= count;
                    is_same &= is_longer || self.reason_not_to_begin(parts, other).is_some();
                }
                order.push(at);
                if is_same {
                    return Ok(true);
                }
                order.sort_by_key(|&at| {
                    Reverse(parts.get(at).map_or(UNKNOWN, |part| part.node.count))
                });
                continue;
            }
            // Nothing else can be first, so it matters how long the ranges are: the shortest is
            // known before the others are counted to their ends.
            let ranges: Vec<usize> = order.drain(..).chain([at]).collect();
            let mut left = COUNT_FIRST;
            let mut is_known = false;
            while !is_known {
                let mut is_counted = true;
                for &at in &ranges {
                    let Some(Part { node, .. }) = parts.get_mut(at) else { continue };
                    self.count(node, left)?;
                    if node.count == UNCOUNTED && left >= self.entries {
                        node.count = self.entries;
                    }
                    let is_short = node.count < UNCOUNTED;
                    is_counted &= node.count != UNCOUNTED;
                    // Were any part enough, one that is not to begin would be, for ever.
                    is_known |= is_short && self.reason_not_to_begin(parts, at).is_none();
                }
                is_known |= is_counted;
                left = left.saturating_mul(8);
            }
            *order = in_order(parts).into_iter().filter(|one| ranges.contains(one)).collect();
        }
    }

    /// Why a node is not read when nothing was read before it.
    pub(super) fn reason_not_to_begin(
        &self,
        parts: &[Part<'_, 'v>],
        at: usize,
    ) -> Option<&'static str> {
        let node = &*parts.get(at)?.node;
        if node.is_late {
            return Some(super::lookup::FEW_ARE_LEFT);
        }
        if node.is_everything() {
            return Some(NO_INDEX);
        }
        if !node.can_be_first() {
            return Some(NO_INDEX);
        }
        // Entries are read faster one after the other than one by one.
        let is_large = self.entries > ENTRIES_FEW && node.count < UNCOUNTED;
        let is_most = is_large && node.count > self.entries / 4 * 3;
        let is_all = || parts.len() <= REST_FEW && parts.iter().all(|part| part.node.exact);
        (is_most && !is_all()).then_some(TOO_MANY)
    }

    /// Why a node is not read when `left` candidates are left without it.
    pub(super) fn reason_to_skip(
        &self,
        parts: &[Part<'_, 'v>],
        at: usize,
        later: &[usize],
        left: u64,
        doubt: u64,
        exact: bool,
    ) -> Option<&'static str> {
        let node = &*parts.get(at)?.node;
        if node.is_late {
            return Some(super::lookup::FEW_ARE_LEFT);
        }
        if node.is_everything() {
            return Some(NO_INDEX);
        }
        let price = self.price(node, left);
        let stays = cost::expected(left, node.count, self.entries);
        let saved = (left - stays) * TEST_NS / doubt;
        if price <= saved {
            return None;
        }
        // When all the rest is read as well, nothing at all is tested.
        let rest = || later.iter().rev().filter_map(|&at| parts.get(at)).map(|part| &*part.node);
        let is_short = later.len() <= REST_FEW;
        if is_short && exact && node.exact && rest().all(|node| node.exact && !node.is_late) {
            let (mut price, mut stays) = (price, stays);
            for node in rest().filter(|node| !node.is_everything()) {
                price = price.saturating_add(self.price(node, stays));
                stays = cost::expected(stays, node.count, self.entries);
            }
            if price <= (left - stays) * TEST_NS + stays * RETEST_NS {
                return None;
            }
        }
        Some(TESTS_COST_LESS)
    }

    /// What it costs to keep what a node stands for of `left` candidates.
    fn price(&self, node: &Node<'v>, left: u64) -> u64 {
        if node.count == 0 || node.is_late || left == 0 {
            return 0;
        }
        match &node.shape {
            Shape::Everything => 0,
            Shape::Ids(_) => left * cost::ID_NS,
            Shape::List(posting) => cost::intersect_work(&posting.list, left, self.entries).cost(),
            Shape::Range(range) => {
                if node.count >= UNCOUNTED {
                    return u64::MAX;
                }
                let lists = range.lists.unwrap_or(node.count);
                ROW_NS + lists * NEXT_ROW_NS + node.count * RANGE_ID_NS
            }
            Shape::Without(inner) => self.price(inner, left),
            Shape::And(nodes) => {
                let mut stays = left;
                let mut price = 0_u64;
                for at in by_count(nodes.iter()).into_iter().rev() {
                    let Some(node) = nodes.get(at) else { continue };
                    let own = self.price(node, stays);
                    let after = cost::expected(stays, node.count, self.entries);
                    if own > (stays - after) * TEST_NS && price > 0 {
                        continue;
                    }
                    price = price.saturating_add(own);
                    stays = after;
                }
                price
            }
            Shape::Or(nodes) => {
                let prices = nodes.iter().map(|node| self.price(node, left));
                prices.fold(0, u64::saturating_add)
            }
        }
    }

    /// Counts the ranges in a node, as far as that costs little beside testing `left` candidates.
    pub(super) fn count(&mut self, node: &mut Node<'v>, left: u64) -> Result<(), StoreError> {
        if node.count != UNCOUNTED || node.is_late {
            return Ok(());
        }
        node.count = match &mut node.shape {
            Shape::Range(range) => {
                let probes = left.saturating_mul(TEST_NS) / NEXT_ROW_NS / 4;
                let probes = probes.clamp(1, RANGE_PROBES_MAX);
                let found =
                    self.view.range_count(&range.from, &range.to, probes, self.interrupt)?;
                self.work.rows += found.lists.min(probes) * NEXT_ROW_NS / ROW_NS + 1;
                self.watch.row()?;
                if found.is_exact {
                    range.lists = Some(found.lists);
                    found.ids.min(self.entries)
                } else if probes == RANGE_PROBES_MAX {
                    // It is read as far as it holds less than half of all.
                    (self.entries / 2).max(found.ids)
                } else {
                    UNCOUNTED
                }
            }
            Shape::Without(inner) => {
                self.count(inner, left)?;
                match inner.count {
                    UNCOUNTED => UNCOUNTED,
                    count => self.entries.saturating_sub(count),
                }
            }
            Shape::And(nodes) => {
                nodes.iter_mut().try_for_each(|node| self.count(node, left))?;
                nodes.iter().map(|node| node.count).min().unwrap_or(UNKNOWN)
            }
            Shape::Or(nodes) => {
                nodes.iter_mut().try_for_each(|node| self.count(node, left))?;
                let sum = nodes.iter().fold(0_u64, |sum, node| sum.saturating_add(node.count));
                if sum >= UNCOUNTED { UNCOUNTED } else { sum.min(self.entries) }
            }
            Shape::Ids(_) | Shape::Everything | Shape::List(_) => UNCOUNTED,
        };
        Ok(())
    }

    /// Reads a disjunction: what is in any of the parts, in one pass.
    fn load_or(
        &mut self,
        nodes: &mut [Node<'v>],
        within: Option<IdSet>,
    ) -> Result<Loaded, StoreError> {
        let mut gathered = IdGatherer::default();
        let mut many: Option<IdSet> = None;
        let mut exact = true;
        for (at, node) in nodes.iter_mut().enumerate() {
            self.watch.row()?;
            node.step = u32::try_from(at + 1).ok();
            // A part that is shorter than what is looked for is read as it is.
            let is_short = within.as_ref().is_none_or(|set| node.count < set.len() / 4);
            let of = if is_short { None } else { within.clone() };
            let loaded = self.load(node, of)?;
            let Some(found) = loaded.set else {
                return Ok(Loaded { set: within, exact: loaded.exact });
            };
            exact &= loaded.exact;
            match found {
                IdSet::Few(ids) => ids.into_iter().for_each(|id| gathered.push(id)),
                found @ IdSet::Many(_) => {
                    many = Some(match many {
                        Some(many) => many.union(found),
                        None => found,
                    });
                }
            }
        }
        let mut all = gathered.finish();
        if let Some(many) = many {
            all = all.union(many);
        }
        if let Some(within) = within {
            all.intersect(&within);
        }
        Ok(Loaded { set: Some(all), exact })
    }
}

/// A range is read at least as far as this, however few ids it was said to have.
const RANGE_IDS_MIN: u64 = 1024;

/// By this the next parts are less promising when one left out less than half of what was hoped.
const DOUBT: u64 = 4;
/// In a directory of so many entries every list is worth reading: it tells more than it costs.
const ENTRIES_FEW: u64 = 1000;
/// The first guess of how many candidates a range leaves.
const COUNT_FIRST: u64 = 16;
/// Loading a list costs less than testing its entries by about this.
const COUNT_SHARE: u64 = 64;
/// Whether it pays to read all that is left is found out for so many parts, and no more.
const REST_FEW: usize = 16;

/// A part of a conjunction that is read by itself.
pub(super) struct Part<'n, 'v> {
    pub(super) node: &'n mut Node<'v>,
    /// Parts of one assertion have the same number; none for one that is an assertion alone.
    pub(super) assertion: Option<usize>,
}

impl Part<'_, '_> {
    /// By how much it promises less than it seems to, when these assertions were read: the first
    /// part of one tells most.
    pub(super) fn doubt(&self, read: &[usize]) -> u64 {
        let Some(own) = self.assertion else { return 1 };
        let before = read.iter().filter(|&&assertion| assertion == own).count();
        DOUBT.saturating_pow(u32::try_from(before).unwrap_or(u32::MAX))
    }
}

/// The parts of a conjunction, with those of the conjunctions in it: the pieces of a substring are
/// parts like any other, so that those are read first that leave least.
pub(super) fn spread<'n, 'v>(nodes: &'n mut [Node<'v>]) -> Vec<Part<'n, 'v>> {
    let mut parts = Vec::with_capacity(nodes.len());
    spread_into(nodes, None, &mut parts);
    parts
}

fn spread_into<'n, 'v>(
    nodes: &'n mut [Node<'v>],
    assertion: Option<usize>,
    parts: &mut Vec<Part<'n, 'v>>,
) {
    for node in nodes {
        let own = node.is_pieces.then_some(parts.len());
        if node.spread().is_none() {
            parts.push(Part { node, assertion });
        } else if let Some(nodes) = node.spread() {
            spread_into(nodes, own.or(assertion), parts);
        }
    }
}

/// Puts down of the conjunctions that were spread what became of their parts.
pub(super) fn settle(nodes: &mut [Node<'_>]) {
    for node in nodes {
        let Some(parts) = node.spread() else { continue };
        settle(parts);
        let is_done = parts.iter().all(|part| part.is_done);
        let is_read = parts.iter().any(|part| part.is_read);
        (node.is_done, node.is_read) = (is_done, is_read);
    }
}

/// The numbers of the parts, the one that leaves least at the end.
pub(super) fn in_order(parts: &[Part<'_, '_>]) -> Vec<usize> {
    by_count(parts.iter().map(|part| &*part.node))
}

/// The numbers of the nodes, the one that leaves least at the end.
fn by_count<'n, 'v: 'n>(nodes: impl Iterator<Item = &'n Node<'v>>) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> = nodes.map(|node| node.count).zip(0..).collect();
    order.sort_unstable_by(|one, other| other.cmp(one));
    order.into_iter().map(|(_, at)| at).collect()
}

/// Leaves a part out; whether all entries match it anyway.
pub(super) fn skip(parts: &mut [Part<'_, '_>], at: usize, reason: &'static str) -> bool {
    parts.get_mut(at).is_some_and(|part| skip_node(part.node, reason))
}

fn skip_node(node: &mut Node<'_>, reason: &'static str) -> bool {
    node.is_done = node.exact && node.is_everything();
    if !node.is_done && node.skipped.is_none() {
        node.skip(reason);
    }
    node.is_done
}

fn finish(parts: &mut [Part<'_, '_>], at: usize) {
    if let Some(Part { node, .. }) = parts.get_mut(at) {
        node.is_done = true;
        node.skip(NOTHING_IS_LEFT);
    }
}
