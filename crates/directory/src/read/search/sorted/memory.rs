//! Lists that are sorted in memory: the keys of all candidates that match, or of the first ones.
//!
//! Invariant: what is held is bounded by the limits on entries and octets.

use std::ops::ControlFlow;

use ldap::result::ResultCode;
use schema::EntryId;

use super::position::{ListPosition, POSITION_BYTES};
use super::sorting::{Failed, Sorting};
use crate::read::search::outcome::SearchOutcome;
use crate::read::search::sorted::order::SortFault;
use crate::request::sink::ResponseSink;

/// Positions are thrown away when there are this many more than twice as many as wanted.
const SURPLUS_POSITIONS: usize = 1024;

/// How often each position is compared to find those that come first, about.
const SELECT_COMPARES: u64 = 3;

/// Positions that are gathered, within the limits.
pub(super) struct Positions {
    pub(super) list: Vec<ListPosition>,
    bytes: usize,
    /// Some were thrown away.
    is_cut: bool,
    entries_max: u64,
    bytes_max: usize,
}

/// Why a list has no order: it is larger than these limits.
pub(super) fn too_large(entries_max: u64, bytes_max: usize) -> SortFault {
    SortFault::new(
        ResultCode::AdminLimitExceeded,
        format!(
            "more than {entries_max} entries or {bytes_max} bytes of sort keys would be sorted in \
             memory: narrow the filter, ask for pages, or sort by an indexed attribute first",
        ),
    )
}

impl Positions {
    pub(super) fn push(&mut self, key: &[u8], id: EntryId) -> Result<(), Failed> {
        self.bytes += key.len() + POSITION_BYTES;
        if self.list.len() as u64 >= self.entries_max || self.bytes > self.bytes_max {
            return Err(Failed::Fault(too_large(self.entries_max, self.bytes_max)));
        }
        self.list.push(ListPosition { key: key.to_vec(), id });
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    /// Throws away what is certainly not among the first `wanted`; tells `spend` what that costs.
    pub(super) fn prune(&mut self, wanted: usize, spend: impl FnOnce(u64)) {
        let is_full = self.list.len() as u64 >= self.entries_max || self.bytes * 2 > self.bytes_max;
        let is_long = self.list.len() > 2 * wanted + SURPLUS_POSITIONS;
        if is_long || (is_full && self.list.len() > wanted + wanted / 4) {
            spend(
                self.list.iter().map(|position| position.compare_steps() * SELECT_COMPARES).sum(),
            );
            self.list.select_nth_unstable(wanted);
            self.list.truncate(wanted);
            self.is_cut = true;
            self.bytes = self.list.iter().map(ListPosition::bytes).sum();
        }
    }
}

impl Sorting<'_> {
    pub(super) fn positions(&self) -> Positions {
        let limits = &self.run.search.directory.limits();
        Positions {
            list: Vec::new(),
            bytes: 0,
            is_cut: false,
            entries_max: limits.sort_entries_max,
            bytes_max: limits.sort_bytes_max,
        }
    }

    /// Sends the list, sorted in memory.
    pub(super) fn sort_in_memory(
        &mut self,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        let wanted = self.wanted();
        let list = self.gather(wanted)?;
        self.emit_all(&list, |here, rest| here.park_list(rest), sink)
    }

    /// The positions of all matches in their order; with `wanted`, one more than these at least.
    pub(super) fn gather(&mut self, wanted: Option<u64>) -> Result<Vec<ListPosition>, Failed> {
        let mut positions = self.positions();
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted.saturating_add(1)).ok());
        let mut key = Vec::new();
        let (plan, view) = (self.plan, self.view());
        let (search, bounds) = (self.run.search, self.run.bounds);
        let interrupt = search.interrupt(&bounds);
        for stored in plan.entries_until(view, EntryId::ROOT, &interrupt) {
            let stored = stored.map_err(|error| self.failed_by(error))?;
            self.check()?;
            self.count_entry()?;
            if !self.is_listed(&stored)? {
                continue;
            }
            self.key_of(&stored, &mut key)?;
            let id = stored.id();
            let is_before = |after: &ListPosition| (&key, id) <= (&after.key, after.id);
            if self.after.as_ref().is_some_and(is_before) {
                continue;
            }
            positions.push(&key, id)?;
            if let Some(wanted) = wanted {
                positions.prune(wanted, |steps| search.spend(steps));
            }
        }
        self.is_cut = positions.is_cut;
        self.in_order(positions.list)
    }
}
