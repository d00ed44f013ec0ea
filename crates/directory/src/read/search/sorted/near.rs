//! The part of a list that is near the one shown before: reached from there in the index, without
//! counting from the beginning.
//!
//! Invariant: only while nothing was changed since; so the positions of the part before still hold.

use std::collections::VecDeque;
use std::ops::Range;

use schema::EntryId;
use store::{Members, OrderedGroup, OrderedGroups, OrderingIndex};

use super::position::ListPosition;
use super::sorting::{Failed, READ_STEPS, Sorting};
use crate::read::search::sorted::order::SortOrder;

/// What the context of a list remembers of the part that was shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ShownPart {
    /// The last change in the directory then.
    pub(super) lsn: u64,
    /// How long the list was.
    pub(super) count: u64,
    /// The position of the first entry that was shown, from 0.
    pub(super) at: u64,
    /// That entry.
    pub(super) id: EntryId,
}

impl ShownPart {
    pub(super) fn to_octets(self) -> Vec<u8> {
        let Self { lsn, count, at, id } = self;
        [lsn, count, at, id.0].into_iter().flat_map(u64::to_be_bytes).collect()
    }

    pub(super) fn from_octets(octets: &[u8]) -> Option<Self> {
        let (numbers, rest) = octets.as_chunks::<8>();
        let &[lsn, count, at, id] = numbers else { return None };
        let number = u64::from_be_bytes;
        let shown = Self {
            lsn: number(lsn),
            count: number(count),
            at: number(at),
            id: EntryId(number(id)),
        };
        rest.is_empty().then_some(shown)
    }
}

impl Sorting<'_> {
    /// The entries of a part, if it is cheaper to reach from what was shown than from the beginning
    /// of the list; none also when it reaches into the entries without a value.
    pub(super) fn near(
        &mut self,
        index: OrderingIndex,
        shown: &ShownPart,
        part: &Range<u64>,
    ) -> Result<Option<Vec<EntryId>>, Failed> {
        if part.is_empty() {
            return Ok(None);
        }
        let way = part.start.abs_diff(shown.at) + (part.end - part.start);
        let from_start = match self.run.sends_all() {
            true => part.end,
            // Of hidden candidates the way may not tell.
            false if self.counts_seen => shown.count * READ_STEPS,
            false => self.plan.estimate * READ_STEPS,
        };
        if way.saturating_mul(READ_STEPS) >= from_start {
            return Ok(None);
        }
        let Some(stored) = self.view().entry(shown.id)? else { return Ok(None) };
        let mut anchor = ListPosition { key: Vec::new(), id: shown.id };
        self.key_of(&stored, &mut anchor.key)?;
        if SortOrder::lacks_primary(&anchor.key) {
            return Ok(None);
        }
        let members = self.candidates()?;
        let primary = self.order.primary();
        let (value, is_reverse) = (primary.value_of(&anchor.key), primary.reverse);
        let value = value.as_deref();
        let view = self.view();
        let mut after = view.ordered_groups(index, is_reverse, value)?;
        let Some(here) = self.next_places(&mut after, &members)? else { return Ok(None) };
        let Ok(at) = here.binary_search(&anchor) else { return Ok(None) };
        let Some(mut first) = shown.at.checked_sub(at as u64) else { return Ok(None) };
        let mut known: VecDeque<Vec<ListPosition>> = VecDeque::new();
        let mut end = first + here.len() as u64;
        known.push_back(here);
        let mut before = view.ordered_groups(index, !is_reverse, value)?;
        // That is the group that the walk in the other direction begins with.
        let _ = self.next_places(&mut before, &members)?;
        while first > part.start {
            let Some(positions) = self.next_places(&mut before, &members)? else { return Ok(None) };
            first = first.saturating_sub(positions.len() as u64);
            known.push_front(positions);
        }
        while end < part.end {
            let Some(positions) = self.next_places(&mut after, &members)? else { return Ok(None) };
            end += positions.len() as u64;
            known.push_back(positions);
            // What was passed over is not needed any more.
            while known.front().is_some_and(|group| first + group.len() as u64 <= part.start) {
                first += known.pop_front().map_or(0, |group| group.len() as u64);
            }
        }
        let skipped = (part.start - first) as usize;
        let wanted = (part.end - part.start) as usize;
        let ids = known.iter().flatten().skip(skipped).take(wanted).map(|position| position.id);
        Ok(Some(ids.collect()))
    }

    /// The positions of the next group that any entry of the list has its position in.
    fn next_places(
        &mut self,
        groups: &mut OrderedGroups<'_>,
        members: &Members,
    ) -> Result<Option<Vec<ListPosition>>, Failed> {
        let mut group = OrderedGroup::default();
        let (mut key, mut prefix) = (Vec::new(), Vec::new());
        while self.next_group(groups, &mut group)? {
            self.check_step()?;
            prefix.clear();
            self.order.primary().append_group(&group, &mut prefix);
            let mut positions = self.positions();
            for id in group.ids().filter(|id| members.contains(*id)) {
                self.check()?;
                let stored = self.read(id)?;
                if !self.is_listed(&stored)? {
                    continue;
                }
                self.key_of(&stored, &mut key)?;
                if key.starts_with(&prefix) {
                    positions.push(&key, id)?;
                }
            }
            if !positions.list.is_empty() {
                return self.in_order(positions.list).map(Some);
            }
        }
        Ok(None)
    }
}
