//! Entry ids in the order of an index's keys, forward and backward, from a key on: how a sorted
//! search finds its first entries without sorting all of them.
//!
//! Invariants: a group holds every entry that has a value in it, and groups follow one another in
//! the order of their values. An entry with several values is in several groups. Of long values an
//! index keeps the beginning in order, so all values that begin alike are one group.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound;

use roaring::RoaringTreemap;
use schema::{AttributeDescription, EntryId, MatchingRule};

use super::View;
use crate::error::StoreError;
use crate::index::ids::IdSet;
use crate::index::posting::Head;
use crate::index::{IndexDefinition, IndexKind, orders_keys_of};
use crate::overlay::deltas::damaged;
use crate::read::interrupt::Interrupt;
use crate::read::plan::CandidateIds;
use crate::rows::key::{INDEX_VALUE_KEPT_BYTES, RowKey};

/// An index whose keys are in the order of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OrderingIndex {
    id: u16,
}

/// Walks the groups of an index.
pub struct OrderedGroups<'v> {
    view: &'v View<'v>,
    index: u16,
    is_backward: bool,
    base: Peekable<Rows<'v>>,
    /// Heads of changed lists, those of one layer each.
    changed: Vec<Peekable<Heads<'v>>>,
}

type Rows<'v> = Box<dyn Iterator<Item = Result<(&'v [u8], &'v [u8]), StoreError>> + 'v>;
type Heads<'v> = Box<dyn Iterator<Item = &'v [u8]> + 'v>;

/// The entries that have a value in one place of the order.
#[derive(Debug)]
pub struct OrderedGroup {
    value: Vec<u8>,
    is_whole: bool,
    set: IdSet,
}

impl Default for OrderedGroup {
    fn default() -> Self {
        Self { value: Vec::new(), is_whole: true, set: IdSet::empty() }
    }
}

impl OrderedGroup {
    /// The prepared value, or what all values of the group begin with.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Whether [`Self::value`] is the whole value; else it is the beginning of all.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The entries, by id.
    pub fn ids(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.set.iter_after(0).map(EntryId)
    }
}

impl View<'_> {
    /// The index that has the values of `asked` in the order of `rule`, if there is one.
    #[must_use]
    pub fn ordering_index(
        &self,
        asked: &AttributeDescription,
        rule: &MatchingRule,
    ) -> Option<OrderingIndex> {
        if !asked.options().is_empty() {
            // The index has the values under all options.
            return None;
        }
        let is_ordered = |own: &MatchingRule| own == rule || orders_keys_of(rule, own);
        [IndexKind::Equality, IndexKind::Ordering]
            .into_iter()
            .filter_map(|kind| self.dictionary().index(&asked.kind, kind))
            .find(|index| index.rule.is_some_and(is_ordered))
            .map(|index| OrderingIndex { id: index.id })
    }

    /// Whether an index tells which entries have such an attribute.
    #[must_use]
    pub fn tells_presence(&self, asked: &AttributeDescription) -> bool {
        let index = self.dictionary().index(&asked.kind, IndexKind::Presence);
        asked.options().is_empty() && index.is_some()
    }

    /// The name of an index, such as `sn.equality`.
    #[must_use]
    pub fn ordering_index_name(&self, index: OrderingIndex) -> Option<String> {
        self.dictionary().index_with_id(index.id).map(|index| index.definition.name())
    }

    /// The groups of an index, from the first one that may hold `from` on; backward from the last
    /// that may.
    pub fn ordered_groups<'v>(
        &'v self,
        index: OrderingIndex,
        is_backward: bool,
        from: Option<&[u8]>,
    ) -> Result<OrderedGroups<'v>, StoreError> {
        self.note_index(index.id);
        let (start, end) = bounds(index.id, is_backward, from.unwrap_or_default(), from.is_some());
        let ground = &self.ground;
        let range = (Bound::Included(start.as_slice()), Bound::Excluded(end.as_slice()));
        let txn = ground.snapshot.txn();
        let base: Rows<'v> = if is_backward {
            let rows = ground.tables.postings.rev_range(txn, &range)?;
            Box::new(rows.map(|row| row.map_err(StoreError::from)).filter(is_of_head))
        } else {
            let rows = ground.tables.postings.range(txn, &range)?;
            Box::new(rows.map(|row| row.map_err(StoreError::from)).filter(is_of_head))
        };
        let mut changed: Vec<Peekable<Heads<'v>>> = Vec::new();
        for layer in &*self.layers {
            let heads = layer.lists().range(&start, &end).map(|list| list.head);
            let heads: Heads<'v> =
                if is_backward { Box::new(heads.rev()) } else { Box::new(heads) };
            changed.push(heads.peekable());
        }
        if let Some(memory) = self.memory {
            let mut heads: Vec<&[u8]> =
                memory.lists_in(&start, &end).into_iter().map(|(head, _)| head).collect();
            if is_backward {
                heads.reverse();
            }
            let heads: Heads<'v> = Box::new(heads.into_iter());
            changed.push(heads.peekable());
        }
        Ok(OrderedGroups {
            view: self,
            index: index.id,
            is_backward,
            base: base.peekable(),
            changed,
        })
    }
}

/// The index that would have the values of `asked` in the order of `rule`, as the text of its
/// definition.
#[must_use]
pub fn ordering_would_help(asked: &AttributeDescription, rule: &MatchingRule) -> Option<String> {
    let kind = &asked.kind;
    let is_ordered = |own: &MatchingRule| own == rule || orders_keys_of(rule, own);
    let kind_of_index = if kind.equality.is_some_and(is_ordered) {
        IndexKind::Equality
    } else if kind.ordering == Some(rule) {
        IndexKind::Ordering
    } else {
        return None;
    };
    let is_plain = asked.options().is_empty();
    is_plain.then(|| IndexDefinition::new(kind_of_index, kind.name()).to_string())
}

impl<'v> OrderedGroups<'v> {
    /// Goes on to the next group; false when there is none. A group may be empty.
    ///
    /// # Errors
    /// [`StoreError::Interrupted`] when `interrupt` says so.
    pub fn next_into(
        &mut self,
        group: &mut OrderedGroup,
        interrupt: &dyn Fn() -> bool,
    ) -> Result<bool, StoreError> {
        let Some(head) = self.peek()? else { return Ok(false) };
        group.value.clear();
        append_value(head, &mut group.value);
        group.is_whole = group.value.len() < INDEX_VALUE_KEPT_BYTES;
        let mut ids = match std::mem::replace(&mut group.set, IdSet::empty()) {
            IdSet::Few(ids) => ids,
            IdSet::Many(_) => Vec::new(),
        };
        ids.clear();
        if group.is_whole {
            let value = std::mem::take(&mut group.value);
            group.set = self.take(head, &value, ids, interrupt)?;
            group.value = value;
            return Ok(true);
        }
        // All that begins alike is one group.
        group.value.truncate(INDEX_VALUE_KEPT_BYTES);
        let prefix = RowKey::postings_from(self.index, &group.value);
        group.set = IdSet::Few(ids);
        let mut value = Vec::new();
        while let Some(head) = self.peek()?
            && head.starts_with(prefix.as_bytes())
        {
            value.clear();
            append_value(head, &mut value);
            let more = self.take(head, &value, Vec::new(), interrupt)?;
            group.set = std::mem::replace(&mut group.set, IdSet::empty()).union(more);
        }
        Ok(true)
    }

    /// The next head, of the base or of a changed list.
    fn peek(&mut self) -> Result<Option<&'v [u8]>, StoreError> {
        let mut next = match self.base.peek() {
            Some(Ok((key, _))) => Some(*key),
            Some(Err(_)) => {
                // The error is given once; then the walk is over.
                self.base.next().transpose()?;
                None
            }
            None => None,
        };
        let first = if self.is_backward { Ordering::Greater } else { Ordering::Less };
        for heads in &mut self.changed {
            if let Some(&head) = heads.peek()
                && next.is_none_or(|next| head.cmp(next) == first)
            {
                next = Some(head);
            }
        }
        Ok(next)
    }

    /// Takes the list with this head, the next one; `ids` is a buffer to use.
    fn take(
        &mut self,
        head: &[u8],
        value: &[u8],
        mut ids: Vec<u64>,
        interrupt: Interrupt<'_>,
    ) -> Result<IdSet, StoreError> {
        let row = match self.base.peek() {
            Some(Ok((key, _))) if *key == head => self.base.next().transpose()?,
            _ => None,
        };
        let mut is_changed = false;
        for heads in &mut self.changed {
            is_changed |= heads.next_if(|next| *next == head).is_some();
        }
        if !is_changed && let Some((key, row)) = row {
            // The ids of short lists are here already.
            if let Head::Inline(inline) = Head::read(row).ok_or_else(|| damaged(key))? {
                ids.extend(inline);
                return Ok(IdSet::Few(ids));
            }
        }
        match self.view.list(self.index, value)? {
            Some(list) => self.view.load(&list, interrupt),
            None => Ok(IdSet::Few(ids)),
        }
    }
}

impl std::fmt::Debug for OrderedGroups<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrderedGroups")
            .field("index", &self.index)
            .field("is_backward", &self.is_backward)
            .finish_non_exhaustive()
    }
}

/// Where the rows of a walk begin, and before which they end.
fn bounds(index: u16, is_backward: bool, from: &[u8], is_from: bool) -> (Vec<u8>, Vec<u8>) {
    let first = RowKey::postings_from(index, &[]).as_bytes().to_vec();
    let end = RowKey::postings_from(index + 1, &[]).as_bytes().to_vec();
    if !is_from {
        return (first, end);
    }
    let kept = from.get(..INDEX_VALUE_KEPT_BYTES).unwrap_or(from);
    if !is_backward {
        return (RowKey::postings_from(index, kept).as_bytes().to_vec(), end);
    }
    let last = if kept.len() < INDEX_VALUE_KEPT_BYTES {
        RowKey::postings(index, kept)
    } else {
        RowKey::postings_from(index, kept)
    };
    // The first key after all that begin so. It begins with the index's number, which is never the
    // largest there is.
    let mut end = last.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last != u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    (first, end)
}

/// The length of the head's key in a key of its list.
fn head_length(key: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        at += key.get(at..)?.iter().position(|&octet| octet == 0)?;
        match key.get(at + 1)? {
            0 => return Some(at + 2),
            _ => at += 2,
        }
    }
}

/// Whether a row is a head; what cannot be read is not left out.
fn is_of_head(row: &Result<(&[u8], &[u8]), StoreError>) -> bool {
    row.as_ref().map_or(true, |(key, _)| is_head(key))
}

/// Whether a key is that of a head, and not of a chunk.
fn is_head(key: &[u8]) -> bool {
    // What has no end is damaged, and refused as a head.
    head_length(key).is_none_or(|length| length == key.len())
}

/// Appends the value in a head's key.
fn append_value(head: &[u8], out: &mut Vec<u8>) {
    let escaped = head.get(2..head.len().saturating_sub(2)).unwrap_or_default();
    let mut parts = escaped.split_inclusive(|&octet| octet == 0);
    if let Some(first) = parts.next() {
        out.extend_from_slice(first);
    }
    // After a zero stands the octet that escapes it.
    parts.for_each(|part| out.extend_from_slice(part.get(1..).unwrap_or_default()));
}

/// The entries that a list in order is made of, and which of them had their turn.
#[derive(Debug)]
pub struct Members {
    /// None: every entry.
    set: Option<IdSet>,
    count: u64,
    taken: RoaringTreemap,
}

impl Members {
    /// The candidates of a plan, in a directory of `all` entries.
    #[must_use]
    pub fn of_candidates(ids: CandidateIds, all: u64) -> Self {
        let set = ids.into_set();
        let count = set.as_ref().map_or(all, IdSet::len);
        Self { set, count, taken: RoaringTreemap::new() }
    }

    /// These.
    pub fn of(ids: impl Iterator<Item = EntryId>) -> Self {
        let set = IdSet::from_unsorted(ids.map(|id| id.0).collect());
        Self { count: set.len(), set: Some(set), taken: RoaringTreemap::new() }
    }

    /// Those that are not among these, none of which had its turn; none when every entry is one.
    #[must_use]
    pub fn without(&self, others: &CandidateIds) -> Option<Self> {
        let mut set = self.set.clone()?;
        match others.set() {
            Some(others) => set.subtract(others),
            None => set = IdSet::empty(),
        }
        Some(Self { count: set.len(), set: Some(set), taken: RoaringTreemap::new() })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether every entry of the directory is one.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.set.is_none()
    }

    /// Whether this entry is one, no matter whether it had its turn.
    #[must_use]
    pub fn contains(&self, id: EntryId) -> bool {
        self.set.as_ref().is_none_or(|set| set.contains(id.0))
    }

    /// Puts those of a group that did not have their turn into `out`; now they had. In an ascending
    /// walk of all groups each entry so comes in the group of its least value.
    pub fn take(&mut self, group: &OrderedGroup, out: &mut Vec<EntryId>) {
        for id in group.ids() {
            if self.contains(id) && self.taken.insert(id.0) {
                out.push(id);
            }
        }
    }

    /// How many did not have their turn.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.count.saturating_sub(self.taken.len())
    }

    /// Whether this one had its turn.
    #[must_use]
    pub fn is_taken(&self, id: EntryId) -> bool {
        self.taken.contains(id.0)
    }

    /// All of them are to have their turn anew.
    pub fn renew(&mut self) {
        self.taken.clear();
    }

    /// All of them in the order of their ids; nothing when every entry is one.
    pub fn ids(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.ids_after(EntryId::ROOT)
    }

    /// Those after `after`, likewise.
    pub fn ids_after(&self, after: EntryId) -> impl Iterator<Item = EntryId> + '_ {
        self.set.iter().flat_map(move |set| set.iter_after(after.0)).map(EntryId)
    }
}

#[cfg(test)]
mod tests;
