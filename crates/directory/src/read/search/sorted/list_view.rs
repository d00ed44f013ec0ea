//! The part of a list that a virtual list view shows (draft-ietf-ldapext-ldapv3-vlv-09).
//!
//! Invariant: the list is what the sorted search without the control would send, without limits;
//! targetPosition and contentCount are exact.

use std::ops::Range;

use ldap::control_value::vlv::{VlvRequest, VlvTarget};
use ldap::result::ResultCode;
use schema::EntryId;
use store::{Members, OrderedGroup, OrderingIndex};

use super::near::ShownPart;
use super::position::ListPosition;
use super::sorting::{Failed, READ_STEPS, Sorting};
use crate::read::search::outcome::{Done, SearchOutcome};
use crate::read::search::parked::Rest;
use crate::read::search::run::AfterEntry;
use crate::read::search::sorted::order::{SortOrder, sorted_response};
use crate::request::controls::vlv;
use crate::request::cookie;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

/// What a view asks for.
enum Target {
    Offset {
        offset: i32,
        content_count: i32,
    },
    /// The beginning of the keys of entries with the asserted value.
    Value(Vec<u8>),
}

/// A part of the list.
struct Part {
    /// The target's position, from 1.
    position: u64,
    /// How long the list is.
    count: u64,
    /// The position of its first entry, from 0.
    start: u64,
    ids: Vec<EntryId>,
}

impl Sorting<'_> {
    /// Sends the part of the list that is asked for.
    pub(super) fn list_view(
        &mut self,
        request: &VlvRequest<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Failed> {
        let shown = self.shown(request).map_err(fail)?;
        let target = self.target(request).map_err(fail)?;
        let index = self.index();
        let mut found = None;
        if let (Some(index), Some(shown)) = (index, shown) {
            found = self.part_near(request, &target, index, &shown)?;
        }
        let is_walked = self.part_is_walked()?;
        let part = match (found, index.filter(|_| is_walked)) {
            (Some(part), _) => part,
            (None, None) => self.part_in_memory(request, &target)?,
            (None, Some(index)) => self.part_of_index(request, &target, index)?,
        };
        let mut outcome = SearchOutcome::Done(Done::success());
        for (at, &id) in part.ids.iter().enumerate() {
            let sent = match self.pass() {
                Some(outcome) => AfterEntry::End(outcome),
                None => {
                    let stored = self.read_again(id)?;
                    self.emit(&stored, &[], sink)?
                }
            };
            match sent {
                AfterEntry::Next => {}
                AfterEntry::Park => {
                    let rest = part.ids.get(at + 1..).unwrap_or_default();
                    // Without room for the rest it keeps its thread: to find the part again may
                    // cost as much as it did, and it may be another one by then.
                    if let Some(kept) = self.keep_part(rest) {
                        outcome = self.park(Rest::Kept(kept));
                        break;
                    }
                }
                AfterEntry::End(ended) => {
                    outcome = ended;
                    break;
                }
            }
        }
        let shown = ShownPart {
            lsn: self.view().lsn().0,
            count: part.count,
            at: part.start,
            id: part.ids.first().copied().unwrap_or(EntryId::ROOT),
        };
        let search = self.run.search;
        let context = search.seal(cookie::LIST_VIEW, &shown.to_octets(), &self.binding);
        let response = vlv::response(part.position, part.count, ResultCode::Success, &context);
        Ok(outcome.with(sorted_response()).with(response))
    }

    /// Whether a part is counted off in an index, where there is one.
    pub(super) fn part_is_walked(&self) -> Result<bool, Refusal> {
        if !self.run.may_count_candidates() {
            return Ok(self.is_walked_by_shape());
        }
        let limit = self.run.search.directory.limits().sort_entries_max;
        let all = self.view().entry_count()?;
        let is_large = self.plan.estimate.saturating_mul(READ_STEPS) > all;
        Ok((is_large && self.run.sends_all()) || self.plan.estimate > limit)
    }

    /// The part, reached from the one before.
    fn part_near(
        &mut self,
        request: &VlvRequest<'_>,
        target: &Target,
        index: OrderingIndex,
        shown: &ShownPart,
    ) -> Result<Option<Part>, Failed> {
        let Target::Offset { .. } = target else { return Ok(None) };
        let (position, part) = place_and_part(request, target, shown.count, || Ok(0))?;
        let ids = self.near(index, shown, &part)?;
        Ok(ids.map(|ids| Part { position, count: shown.count, start: part.start, ids }))
    }

    fn part_in_memory(
        &mut self,
        request: &VlvRequest<'_>,
        target: &Target,
    ) -> Result<Part, Failed> {
        let list = self.gather(None)?;
        let count = list.len() as u64;
        let before = || match target {
            Target::Value(key) => Ok(list.partition_point(|position| position.key < *key) as u64),
            Target::Offset { .. } => Ok(0),
        };
        let (position, part) = place_and_part(request, target, count, before)?;
        let within = list.get(part.start as usize..part.end as usize).unwrap_or_default();
        let ids = within.iter().map(|position| position.id).collect();
        Ok(Part { position, count, start: part.start, ids })
    }

    fn part_of_index(
        &mut self,
        request: &VlvRequest<'_>,
        target: &Target,
        index: OrderingIndex,
    ) -> Result<Part, Failed> {
        let mut members = self.members()?;
        let count = members.len();
        let before = || match target {
            Target::Value(key) => self.count_before(index, &mut members, key),
            Target::Offset { .. } => Ok(0),
        };
        let (position, part) = place_and_part(request, target, count, before)?;
        let ids = self.ids_of_part(index, &mut members, &part)?;
        Ok(Part { position, count, start: part.start, ids })
    }

    /// What was shown before, if the directory is still as it was.
    fn shown(&self, request: &VlvRequest<'_>) -> Result<Option<ShownPart>, Done> {
        let Some(context) = request.context.filter(|context| !context.is_empty()) else {
            return Ok(None);
        };
        let key = &self.run.search.directory.cookie_key;
        let octets = key.open(cookie::LIST_VIEW, context, &self.binding).map_err(|_| {
            Done::no_list_view(
                ResultCode::ProtocolError,
                "the context ID does not belong to this list: start again without one",
            )
        })?;
        let lsn = self.view().lsn().0;
        Ok(ShownPart::from_octets(&octets).filter(|shown| shown.lsn == lsn))
    }

    fn target(&self, request: &VlvRequest<'_>) -> Result<Target, Done> {
        match request.target {
            VlvTarget::Offset { offset, content_count } => {
                Ok(Target::Offset { offset, content_count })
            }
            VlvTarget::Value(value) => {
                let primary = self.order.primary();
                let (mut prepared, mut key) = (Vec::new(), Vec::new());
                let schema = &self.run.state.schema;
                // Not as an assertion: an empty text is where clients begin a list.
                (primary.rule.prepare)(schema, value, &mut prepared).map_err(|error| {
                    let diagnostic = format!("the assertion value {error}");
                    Done::no_list_view(ResultCode::InappropriateMatching, diagnostic)
                })?;
                primary.append_value(&prepared, true, &mut key);
                Ok(Target::Value(key))
            }
        }
    }

    /// The entries of the list, in no order; each is read only where the plan is not certain.
    fn members(&mut self) -> Result<Members, Failed> {
        if self.run.sends_all() {
            return self.candidates();
        }
        let mut ids = Vec::new();
        let (plan, view) = (self.plan, self.view());
        let (search, bounds) = (self.run.search, self.run.bounds);
        let interrupt = search.interrupt(&bounds);
        for stored in plan.entries_until(view, EntryId::ROOT, &interrupt) {
            let stored = stored.map_err(|error| self.failed_by(error))?;
            self.check()?;
            self.count_entry()?;
            if self.is_listed(&stored)? {
                ids.push(stored.id());
            }
        }
        Ok(Members::of(ids.into_iter()))
    }

    /// How many entries come before all whose key begins with `key`.
    fn count_before(
        &mut self,
        index: OrderingIndex,
        members: &mut Members,
        key: &[u8],
    ) -> Result<u64, Failed> {
        let mut groups = self.view().ordered_groups(index, false, None)?;
        let (mut group, mut taken, mut prefix) = (OrderedGroup::default(), Vec::new(), Vec::new());
        let mut before = self.before_values(index, members)?.len() as u64;
        members.renew();
        while self.next_group(&mut groups, &mut group)? {
            self.check_step()?;
            prefix.clear();
            self.order.primary().append_group(&group, &mut prefix);
            taken.clear();
            members.take(&group, &mut taken);
            if !group.is_whole() && key.starts_with(&prefix) {
                let positions = self.sorted_places(&taken)?;
                before +=
                    positions.partition_point(|position| position.key.as_slice() < key) as u64;
            } else if prefix.as_slice() < key {
                before += taken.len() as u64;
            } else if !self.order.primary().reverse {
                break;
            }
        }
        Ok(before)
    }

    /// The positions of some entries, in order.
    fn sorted_places(&mut self, ids: &[EntryId]) -> Result<Vec<ListPosition>, Failed> {
        let mut positions = self.positions();
        let mut key = Vec::new();
        for &id in ids {
            self.check()?;
            let stored = self.read(id)?;
            self.key_of(&stored, &mut key)?;
            positions.push(&key, id)?;
        }
        self.in_order(positions.list)
    }

    /// The entries of a part of the list, by walking the index from its beginning.
    fn ids_of_part(
        &mut self,
        index: OrderingIndex,
        members: &mut Members,
        part: &Range<u64>,
    ) -> Result<Vec<EntryId>, Failed> {
        let count = members.len();
        if part.is_empty() {
            return Ok(Vec::new());
        }
        let is_reverse = self.order.primary().reverse;
        let mut before = self.before_values(index, members)?;
        let lead = before.len() as u64;
        // Of a reversed list the end is known only when it is known how many have no value.
        let with_value = if is_reverse {
            self.take_all(index, members)?;
            count - members.left()
        } else {
            count
        };
        let among = |position: u64| position.saturating_sub(lead).min(with_value);
        let values = among(part.start)..among(part.end);
        let wanted = match is_reverse {
            true => with_value - values.end..with_value - values.start,
            false => values,
        };
        let mut pieces: Vec<Vec<EntryId>> = Vec::new();
        let mut at = 0;
        members.renew();
        if !wanted.is_empty() {
            let mut groups = self.view().ordered_groups(index, false, None)?;
            let (mut group, mut taken) = (OrderedGroup::default(), Vec::new());
            while at < wanted.end && self.next_group(&mut groups, &mut group)? {
                self.check_step()?;
                taken.clear();
                members.take(&group, &mut taken);
                let end = at + taken.len() as u64;
                if end > wanted.start && !taken.is_empty() {
                    if !self.order.is_single() || !group.is_whole() {
                        let positions = self.sorted_places(&taken)?;
                        taken.clear();
                        taken.extend(positions.iter().map(|position| position.id));
                    }
                    let (first, last) = (at.max(wanted.start), end.min(wanted.end));
                    // In a reversed list the group ends where it begins here.
                    let within =
                        if is_reverse { end - last..end - first } else { first - at..last - at };
                    let within = within.start as usize..within.end as usize;
                    pieces.push(taken.get(within).unwrap_or_default().to_vec());
                }
                at = end;
            }
        }
        if is_reverse {
            pieces.reverse();
        }
        if part.start < lead {
            before = self.ids_in_order(before)?;
            let within = part.start as usize..part.end.min(lead) as usize;
            pieces.insert(0, before.get(within).unwrap_or_default().to_vec());
        }
        let behind = if is_reverse { lead + with_value } else { at };
        if part.end > behind {
            if is_reverse {
                self.take_all(index, members)?;
            }
            let mut rest = self.rest(members)?;
            // Both are in the order of their ids.
            before.sort_unstable();
            rest.retain(|id| before.binary_search(id).is_err());
            let rest = self.ids_in_order(rest)?;
            let within = part.start.saturating_sub(behind)..part.end - behind;
            let within = within.start as usize..within.end as usize;
            pieces.push(rest.get(within).unwrap_or_default().to_vec());
        }
        Ok(pieces.concat())
    }

    /// Entries that are alike in the primary key, in the order of the list.
    fn ids_in_order(&mut self, ids: Vec<EntryId>) -> Result<Vec<EntryId>, Failed> {
        if self.order.is_single() {
            return Ok(ids);
        }
        let positions = self.sorted_places(&ids)?;
        Ok(positions.iter().map(|position| position.id).collect())
    }

    /// The entries that come before all with a value, by id: those without one, in reverse.
    fn before_values(
        &mut self,
        index: OrderingIndex,
        members: &mut Members,
    ) -> Result<Vec<EntryId>, Failed> {
        if !self.order.primary().reverse {
            return Ok(Vec::new());
        }
        if let Some(missing) = self.missing(members)? {
            return Ok(missing.ids().collect());
        }
        self.take_all(index, members)?;
        let (mut ids, mut key) = (Vec::new(), Vec::new());
        for id in self.rest(members)? {
            self.check()?;
            let stored = self.read(id)?;
            self.key_of(&stored, &mut key)?;
            if SortOrder::is_before_values(&key) {
                ids.push(id);
            }
        }
        Ok(ids)
    }
}

fn fail(done: Done) -> Failed {
    Failed::Ended(SearchOutcome::Done(done.with(sorted_response())))
}

/// The target's position in a list of `count` entries, and the part that goes with it; `before`
/// says how many entries come before an asserted value.
fn place_and_part(
    request: &VlvRequest<'_>,
    target: &Target,
    count: u64,
    before: impl FnOnce() -> Result<u64, Failed>,
) -> Result<(u64, Range<u64>), Failed> {
    let position = match target {
        Target::Offset { offset, content_count } => vlv::position(*offset, *content_count, count)
            .ok_or_else(|| fail(out_of_range(count)))?,
        Target::Value(_) if count == 0 => 0,
        Target::Value(_) => 1 + before()?,
    };
    Ok((position, vlv::window(request, position, count)))
}

fn out_of_range(count: u64) -> Done {
    Done::refused(Refusal::new(
        ResultCode::VirtualListViewError,
        "the offset is not in the list: it counts from 1 to contentCount",
    ))
    .with(vlv::response(0, count, ResultCode::OffsetRangeError, &[]))
}
