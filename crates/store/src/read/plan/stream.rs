//! Candidates that are made while they are walked: a long list is read window by window, and of
//! each window is kept what the other parts of the filter leave.
//!
//! Invariant: the ids come in order, each once, and none after the last one that was asked for is
//! read.

use std::vec;

use super::cost::{self, STREAM_IDS_MIN, STREAM_WANTED_IDS_MIN, Work};
use super::load::{Loader, Part, in_order, settle, skip, spread};
use super::node::{ListKey, Node, Shape};
use crate::error::StoreError;
use crate::index::ids::{IdGatherer, IdSet};
use crate::read::interrupt::Interrupt;
use crate::read::view::{List, View};

/// A window has at least about so many ids; some fractions of a millisecond.
const WINDOW_IDS: usize = 8192;
/// With so many times more candidates than entries that are wanted they are streamed.
const STREAM_WANTED_TIMES: u64 = 16;

/// A list, and what is kept of it.
#[derive(Debug)]
pub(super) struct Stream {
    first: ListKey,
    also: Vec<(Also, bool)>,
}

/// Ids that a candidate must be among, or must not.
#[derive(Debug)]
enum Also {
    List(ListKey),
    Ids(IdSet),
}

impl Stream {
    /// The ids after `after`, until the interrupt ends it.
    pub(super) fn walk<'p>(
        &'p self,
        view: &'p View<'p>,
        after: u64,
        interrupt: Interrupt<'p>,
    ) -> Result<Walk<'p>, StoreError> {
        let find = |key: &'p ListKey| view.list(key.index, &key.value);
        let also = self.also.iter().map(|(also, is_in)| {
            Ok(match also {
                Also::List(key) => (Kept::List(find(key)?), *is_in),
                Also::Ids(ids) => (Kept::Ids(ids), *is_in),
            })
        });
        let also = also.collect::<Result<_, StoreError>>()?;
        let first = find(&self.first)?;
        let after = first.is_some().then_some(after);
        Ok(Walk { view, first, also, ids: Vec::new().into_iter(), after, interrupt })
    }

    /// All ids at once.
    pub(super) fn ids(
        &self,
        view: &View<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<IdSet, StoreError> {
        let mut gatherer = IdGatherer::default();
        for id in self.walk(view, 0, interrupt)? {
            gatherer.push(id?);
        }
        Ok(gatherer.finish())
    }
}

enum Kept<'p> {
    List(Option<List<'p>>),
    Ids(&'p IdSet),
}

/// Walks a [`Stream`].
pub(super) struct Walk<'p> {
    view: &'p View<'p>,
    first: Option<List<'p>>,
    also: Vec<(Kept<'p>, bool)>,
    ids: vec::IntoIter<u64>,
    /// Where the next window begins; none when there is none.
    after: Option<u64>,
    interrupt: Interrupt<'p>,
}

impl Walk<'_> {
    /// Reads the next window; false when there is none.
    fn advance(&mut self) -> Result<bool, StoreError> {
        let interrupt = self.interrupt;
        let (Some(first), Some(after)) = (&self.first, self.after.take()) else { return Ok(false) };
        if interrupt() {
            return Err(StoreError::Interrupted);
        }
        let window = self.view.window(first, after, WINDOW_IDS, interrupt)?;
        self.after = window.upto;
        // As a list, whatever its length: to keep what is in bitmaps, the other list would be read
        // whole, again for each window.
        let mut ids = IdSet::Few(window.ids.iter_after(0).collect());
        for (kept, is_in) in &self.also {
            match (kept, is_in) {
                (Kept::List(Some(list)), true) => self.view.intersect(&mut ids, list, interrupt)?,
                (Kept::List(Some(list)), false) => self.view.subtract(&mut ids, list, interrupt)?,
                (Kept::List(None), true) => ids = IdSet::empty(),
                (Kept::List(None), false) => {}
                (Kept::Ids(other), true) => ids.intersect(other),
                (Kept::Ids(other), false) => ids.subtract(other),
            }
        }
        self.ids = match ids {
            IdSet::Few(ids) => ids.into_iter(),
            many @ IdSet::Many(_) => many.iter_after(0).collect::<Vec<u64>>().into_iter(),
        };
        Ok(true)
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<u64, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(id) = self.ids.next() {
                return Some(Ok(id));
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.after = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<'v> Loader<'_, 'v> {
    /// A conjunction as a stream, and how many ids it has at most; none when what is to be read
    /// first is no long list.
    pub(super) fn stream(
        &mut self,
        nodes: &mut [Node<'v>],
        wanted: Option<u64>,
    ) -> Result<Option<(Stream, u64)>, StoreError> {
        let stream = self.stream_of(&mut spread(nodes), wanted)?;
        if stream.is_some() {
            settle(nodes);
        }
        Ok(stream)
    }

    fn stream_of(
        &mut self,
        parts: &mut [Part<'_, 'v>],
        wanted: Option<u64>,
    ) -> Result<Option<(Stream, u64)>, StoreError> {
        let mut order = in_order(parts);
        if !self.put_first(parts, &mut order)? {
            return Ok(None);
        }
        let Some(part) = order.pop().and_then(|at| parts.get_mut(at)) else { return Ok(None) };
        let Part { node, assertion } = part;
        let Shape::List(posting) = &node.shape else { return Ok(None) };
        let few = wanted.map_or(STREAM_IDS_MIN, |wanted| {
            let few = wanted.saturating_mul(STREAM_WANTED_TIMES);
            few.clamp(STREAM_WANTED_IDS_MIN, STREAM_IDS_MIN)
        });
        let Some(first) = posting.key.clone().filter(|_| node.count > few) else {
            return Ok(None);
        };
        let count = node.count;
        let rows = cost::chunk_rows(&posting.list, self.entries);
        self.work.add(Work { rows, ids: count, tests: 0 });
        (node.is_done, node.is_read) = (node.exact, true);
        node.step = Some(1);
        let mut read: Vec<usize> = assertion.iter().copied().collect();
        let mut exact = node.exact;
        let (mut left, mut also) = (count, Vec::new());
        while let Some(at) = order.pop() {
            let Some(part) = parts.get_mut(at) else { continue };
            self.count(part.node, left)?;
            let doubt = part.doubt(&read);
            if let Some(reason) = self.reason_to_skip(parts, at, &order, left, doubt, exact) {
                exact &= skip(parts, at, reason);
                continue;
            }
            let Some(Part { node, assertion }) = parts.get_mut(at) else { continue };
            let Some(kept) = self.also(node, left)? else {
                exact = false;
                continue;
            };
            also.push(kept);
            read.extend(*assertion);
            node.is_read = true;
            // What was read here may hold more than it stands for.
            node.is_done = match node.shape {
                Shape::List(_) | Shape::Without(_) => node.exact,
                _ => node.is_done,
            };
            node.step = u32::try_from(also.len() + 1).ok();
            exact &= node.is_done;
            left = cost::expected(left, node.count, self.entries);
        }
        Ok(Some((Stream { first, also }, count)))
    }

    /// A node as something to keep of each window; none when it cannot be read.
    fn also(&mut self, node: &mut Node<'v>, left: u64) -> Result<Option<(Also, bool)>, StoreError> {
        let (inner, is_in) = match &mut node.shape {
            Shape::Without(inner) => (&mut **inner, false),
            _ => (node, true),
        };
        if let Shape::List(posting) = &inner.shape
            && let Some(key) = &posting.key
        {
            self.work.add(cost::intersect_work(&posting.list, left, self.entries));
            return Ok(Some((Also::List(key.clone()), is_in)));
        }
        let loaded = self.load(inner, None)?;
        // What is left out must match; what is kept may be more.
        Ok(loaded.set.filter(|_| is_in || loaded.exact).map(|set| (Also::Ids(set), is_in)))
    }
}
