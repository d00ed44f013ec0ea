//! A sorted search under way: the work, the limits and the entries that all ways to an order share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use ldap::result::ResultCode;
use schema::EntryId;
use store::{OrderedGroup, OrderedGroups, OrderingIndex, Plan, StoreError, StoredEntry, View};

use super::position::ListPosition;
use crate::access::guard;
use crate::directory::State;
use crate::read::live_entry::LiveEntry;
use crate::read::search::bounds::Bounds;
use crate::read::search::cost::ENTRY_STEPS;
use crate::read::search::outcome::{Done, SearchOutcome};
use crate::read::search::parked::{CandidatesSeen, SentIds};
use crate::read::search::request::{Resolved, Search};
use crate::read::search::run::{AfterEntry, CHILD_STEPS, Run};
use crate::read::search::sorted::order::{SortFault, SortOrder, sorted_response};
use crate::request::controls::paged::Position;
use crate::request::cookie::{self, CookieFault};
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

/// What reading an entry costs, with its position in the order, in steps of a walk.
pub(super) const READ_STEPS: u64 = 25;

/// What the next group of a walk costs, in steps of work.
const GROUP_STEPS: u64 = 100;
/// What it costs to see whether an entry is among others.
pub(super) const MEMBER_STEPS: u64 = 20;
/// How often abandon and the time limit are looked at where no candidate is.
const STEPS_BETWEEN_CHECKS: u32 = 64;
/// So many positions are sorted in a millisecond or two.
const RUN_POSITIONS: usize = 4_096;

/// A sorted search under way.
pub(super) struct Sorting<'a> {
    pub(super) run: Run<'a>,
    pub(super) plan: &'a Plan,
    pub(super) order: SortOrder,
    /// Where the page before ended.
    pub(super) after: Option<ListPosition>,
    /// Entries of this page.
    pub(super) page: Option<u32>,
    /// The position of the entry sent last.
    pub(super) last: ListPosition,
    /// Candidates looked at before those that a walk looks at again when it goes on here.
    pub(super) seen_before: CandidatesSeen,
    /// Only entries that the asker may find count as work, since hidden ones may be among them.
    pub(super) counts_seen: bool,
    /// The list in memory has not all matches.
    pub(super) is_cut: bool,
    /// What a walk has sent that may park; none, too, when that is too much to keep.
    pub(super) sent_ids: Option<SentIds>,
    pub(super) steps: u32,
    pub(super) work: ListWork,
    pub(super) binding: Vec<u8>,
}

/// What was done for an answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct ListWork {
    /// Groups of an index that were walked over.
    pub(super) groups: u64,
    /// Entries that were read, to be placed or to be sent.
    pub(super) entries: u64,
}

/// Why a list is not to be had.
pub(super) enum Failed {
    /// The search is over.
    Ended(SearchOutcome),
    /// It cannot be sorted.
    Fault(SortFault),
    Refused(Refusal),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

/// What a cookie or a context of a list is bound to: they are of no use to another search.
pub(super) fn binding(search: &Search<'_>, order: &SortOrder) -> Vec<u8> {
    let mut binding = search.binding();
    binding.extend_from_slice(order.to_string().as_bytes());
    binding
}

pub(super) fn open_cookie(
    search: &Search<'_>,
    octets: &[u8],
    order: &SortOrder,
    binding: &[u8],
) -> Result<(Option<ListPosition>, u32), Refusal> {
    let kind = cookie::sorted_page(order.key_max_bytes());
    let opened = search.directory.cookie_key.open(kind, octets, binding)?;
    let split = || {
        let (sent, rest) = opened.split_first_chunk::<4>()?;
        let (id, key) = rest.split_first_chunk::<8>()?;
        let position = ListPosition { key: key.to_vec(), id: EntryId(u64::from_be_bytes(*id)) };
        Some((Some(position), u32::from_be_bytes(*sent)))
    };
    split().ok_or_else(|| CookieFault::Malformed.into())
}

pub(super) fn fault_as_result(fault: &SortFault, code: ResultCode) -> Done {
    Done::refused(Refusal::new(code, fault.diagnostic.clone())).with(fault.response())
}

/// What it costs to sort positions.
fn sort_steps(positions: &[ListPosition]) -> u64 {
    positions.iter().map(ListPosition::compare_steps).sum::<u64>() * levels_of(positions.len())
}

/// How often each of so many is compared, about.
fn levels_of(count: usize) -> u64 {
    u64::from(count.max(1).ilog2()) + 1
}

/// Where a list begins.
pub(super) struct Beginning {
    pub(super) bounds: Bounds,
    pub(super) order: SortOrder,
    /// The position before it.
    pub(super) after: Option<ListPosition>,
    /// How many entries were sent before.
    pub(super) sent: u32,
    /// What its cookies are bound to.
    pub(super) binding: Vec<u8>,
}

impl<'a> Sorting<'a> {
    pub(super) fn new(
        search: &'a Search<'a>,
        view: &'a View<'a>,
        state: &'a State,
        resolved: &'a Resolved<'a>,
        plan: &'a Plan,
        beginning: Beginning,
    ) -> Self {
        let Beginning { bounds, order, after, sent, binding } = beginning;
        let start = Position { after: EntryId::ROOT, sent };
        let bounds_of_list = Bounds { page: None, ..bounds };
        let mut run = Run::new(search, view, state, resolved, plan, bounds_of_list, start);
        // Where requests are read all work counts.
        let counts_seen = search.candidates_max.is_none() && run.count_seen();
        Self {
            run,
            counts_seen,
            plan,
            order,
            after,
            page: bounds.page,
            last: ListPosition { key: Vec::new(), id: EntryId::ROOT },
            seen_before: CandidatesSeen::default(),
            is_cut: false,
            sent_ids: None,
            steps: 0,
            work: ListWork::default(),
            binding,
        }
    }

    /// Tells what was done.
    pub(super) fn report(&self) {
        let ListWork { groups, entries } = self.work;
        tracing::debug!(groups, entries, "sorted");
        #[cfg(test)]
        super::tests::note(self.work);
        if let Some(watch) = &self.run.search.watch {
            watch.sent(self.run.sent);
        }
    }

    pub(super) fn view(&self) -> &'a View<'a> {
        self.run.view
    }

    /// The index that has the values of the primary key in order, if the asker may know them all.
    pub(super) fn index(&self) -> Option<OrderingIndex> {
        let key = self.order.primary();
        let index = self.view().ordering_index(&key.description, key.rule)?;
        self.order.may_use_index(self.run.resolved.guard).then_some(index)
    }

    /// All entries, or a page of them.
    pub(super) fn whole(&mut self, sink: &mut ResponseSink<'_>) -> Result<SearchOutcome, Failed> {
        let step = match self.index().filter(|_| self.walk_is_cheaper()) {
            Some(index) => {
                let is_on_pool = self.run.search.stop.is_some();
                let budget = &self.run.search.directory.budgets.parked;
                self.sent_ids = is_on_pool.then(|| SentIds::new(budget));
                self.walk(index, sink)
            }
            None => self.sort_in_memory(sink),
        }?;
        Ok(self.conclude(step, sink)?.with(sorted_response()))
    }

    /// What follows the entries.
    pub(super) fn conclude(
        &mut self,
        step: ControlFlow<SearchOutcome>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Failed> {
        Ok(match step {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(()) if self.run.resolved.referrals => {
                match self.run.references(sink)? {
                    ControlFlow::Break(outcome) => outcome,
                    ControlFlow::Continue(()) => SearchOutcome::Done(self.run.search.complete()),
                }
            }
            ControlFlow::Continue(()) => SearchOutcome::Done(self.run.search.complete()),
        })
    }

    /// Goes on to the next group of a walk.
    pub(super) fn next_group(
        &mut self,
        groups: &mut OrderedGroups<'_>,
        group: &mut OrderedGroup,
    ) -> Result<bool, Failed> {
        self.work.groups += 1;
        self.spend_passing(GROUP_STEPS)?;
        let (search, bounds) = (self.run.search, self.run.bounds);
        let next = groups.next_into(group, &search.interrupt(&bounds));
        next.map_err(|error| self.failed_by(error))
    }

    /// Why there is no list when the store was interrupted, or failed.
    pub(super) fn failed_by(&self, error: StoreError) -> Failed {
        match self.run.search.ended_by(error, &self.run.bounds) {
            Ok(outcome) => self.over(outcome),
            Err(refusal) => Failed::Refused(refusal),
        }
    }

    /// The search is over before its list is.
    pub(super) fn over(&self, outcome: SearchOutcome) -> Failed {
        // Of a walk some entries may be on their way already.
        if self.run.sent > 0 { Failed::Ended(outcome) } else { Self::not_sorted(outcome) }
    }

    /// Counts work before it is done.
    pub(super) fn spend(&self, steps: u64) -> Result<(), Failed> {
        self.run.search.spend(steps);
        self.run.search.work_over().map_or(Ok(()), |outcome| Err(self.over(outcome)))
    }

    /// Counts work for what may be hidden.
    pub(super) fn spend_passing(&self, steps: u64) -> Result<(), Failed> {
        let search = self.run.search;
        match self.counts_seen {
            true => search.spend_unseen(steps),
            false => search.spend(steps),
        }
        search.work_over().map_or(Ok(()), |outcome| Err(self.over(outcome)))
    }

    /// Counts an entry that is read to be placed.
    pub(super) fn count_entry(&mut self) -> Result<(), Failed> {
        self.work.entries += 1;
        self.spend_passing(ENTRY_STEPS)
    }

    /// Whether an entry that was read is one of the list.
    pub(super) fn is_listed(&mut self, stored: &StoredEntry<'_>) -> Result<bool, Failed> {
        let before = self.run.seen.counted;
        let is_listed = self.run.matches(stored)?;
        if self.counts_seen && self.run.seen.counted > before {
            self.spend(ENTRY_STEPS)?;
        }
        Ok(is_listed)
    }

    /// Reads an entry to find its position.
    pub(super) fn read(&mut self, id: EntryId) -> Result<StoredEntry<'a>, Failed> {
        self.count_entry()?;
        Ok(guard::stored(self.view(), id)?)
    }

    /// Reads an entry that has its position, to send it.
    pub(super) fn read_again(&mut self, id: EntryId) -> Result<StoredEntry<'a>, Failed> {
        self.work.entries += 1;
        Ok(guard::stored(self.view(), id)?)
    }

    /// How many entries are wanted, if not all.
    pub(super) fn wanted(&self) -> Option<u64> {
        let Bounds { total_entries, entries, .. } = self.run.bounds;
        let asked = (total_entries > 0).then(|| total_entries.saturating_sub(self.run.start.sent));
        let entries = (entries > 0).then_some(entries);
        [self.page, asked, entries].into_iter().flatten().min().map(u64::from)
    }

    pub(super) fn walk_is_cheaper(&self) -> bool {
        if !self.run.may_count_candidates() {
            return self.is_walked_by_shape();
        }
        let candidates = self.plan.estimate;
        let all = self.view().entry_count().unwrap_or(u64::MAX);
        let wanted = self.wanted().unwrap_or(candidates).min(candidates).max(1);
        if wanted >= self.run.search.directory.limits().sort_entries_max {
            return true;
        }
        // The candidates lie anywhere in the order: so much of it is walked until enough are met.
        let mut walked = u128::from(all) * u128::from(wanted) / u128::from(candidates.max(1));
        let key = self.order.primary();
        if key.reverse && self.after.as_ref().is_none_or(|it| SortOrder::is_before_values(&it.key))
        {
            // Those without a value come first, and without an index the others tell who they are.
            let tells = self.view().tells_presence(&key.description);
            walked += u128::from(if tells { candidates } else { all });
        }
        let sorted = u128::from(candidates) * u128::from(READ_STEPS);
        walked + u128::from(wanted * READ_STEPS) < sorted
    }

    /// Whether an index is walked where the numbers of candidates and of all entries may tell of
    /// hidden ones: where the filter alone says that there are many.
    pub(super) fn is_walked_by_shape(&self) -> bool {
        let Resolved { guard, .. } = self.run.resolved;
        let filter = self.run.resolved.plan_filter();
        !self.view().indexable(filter, &|one| guard.may_search_all_of(one)).narrows
    }

    /// The key of an entry.
    pub(super) fn key_of(&self, stored: &StoredEntry<'_>, key: &mut Vec<u8>) -> Result<(), Failed> {
        key.clear();
        let schema = &self.run.state.schema;
        let guard = self.run.resolved.guard;
        let live = LiveEntry::new(self.run.view, stored, schema.well_known(), true).seen_by(guard);
        let rights = guard.on(stored);
        let entry = rights.searchable(&live);
        self.run.search.metered(|meter| self.order.append_key(schema, &entry, meter, key));
        self.spend_passing(live.others_read() * CHILD_STEPS)
    }

    /// Before a candidate is looked at, while nothing is sent.
    pub(super) fn check(&mut self) -> Result<(), Failed> {
        match self.run.interrupted() {
            None => Ok(()),
            Some(outcome) => Err(Self::not_sorted(outcome)),
        }
    }

    /// Before a step that looks at no candidate: abandon and the time limit, now and then.
    pub(super) fn pass(&mut self) -> Option<SearchOutcome> {
        self.steps = self.steps.wrapping_add(1);
        let is_due = self.steps.is_multiple_of(STEPS_BETWEEN_CHECKS);
        if is_due { self.run.search.ended(&self.run.bounds) } else { None }
    }

    /// Looks at abandon and the time limit, now and then, while nothing is sent.
    pub(super) fn check_step(&mut self) -> Result<(), Failed> {
        match self.pass() {
            None => Ok(()),
            Some(outcome) => Err(Self::not_sorted(outcome)),
        }
    }

    /// The end of a search whose entries are not in order yet.
    pub(super) fn not_sorted(outcome: SearchOutcome) -> Failed {
        let code = match &outcome {
            SearchOutcome::Done(done) => done.code(),
            SearchOutcome::Abandoned | SearchOutcome::TooMuch | SearchOutcome::Parked(_) => {
                ResultCode::Other
            }
        };
        Failed::Ended(outcome.with(SortFault::new(code, "").response()))
    }

    /// Puts positions in order, and looks at abandon and the time limit in between.
    pub(super) fn in_order(
        &mut self,
        mut positions: Vec<ListPosition>,
    ) -> Result<Vec<ListPosition>, Failed> {
        if positions.len() <= RUN_POSITIONS {
            self.spend(sort_steps(&positions))?;
            positions.sort_unstable();
            return Ok(positions);
        }
        let count = positions.len();
        let mut runs = Vec::new();
        while !positions.is_empty() {
            if let Some(outcome) = self.run.search.ended(&self.run.bounds) {
                return Err(Self::not_sorted(outcome));
            }
            let mut run = positions.split_off(positions.len().saturating_sub(RUN_POSITIONS));
            self.spend(sort_steps(&run))?;
            run.sort_unstable();
            runs.push(run.into_iter());
        }
        let first = runs.iter_mut().enumerate().filter_map(|(at, run)| Some((run.next()?, at)));
        let mut heads: BinaryHeap<Reverse<(ListPosition, usize)>> = first.map(Reverse).collect();
        let mut merged = Vec::with_capacity(count);
        let levels = levels_of(heads.len());
        while let Some(Reverse((position, at))) = heads.pop() {
            self.check_step()?;
            self.spend(position.compare_steps() * levels)?;
            merged.push(position);
            if let Some(next) = runs.get_mut(at).and_then(Iterator::next) {
                heads.push(Reverse((next, at)));
            }
        }
        Ok(merged)
    }

    /// Sends the entry at a position, unless the page is full.
    pub(super) fn emit(
        &mut self,
        stored: &StoredEntry<'_>,
        key: &[u8],
        sink: &mut ResponseSink<'_>,
    ) -> Result<AfterEntry, Failed> {
        if self.page.is_some_and(|page| self.run.sent >= page) {
            return Ok(AfterEntry::End(SearchOutcome::Done(self.page_end())));
        }
        let sent = self.run.send(stored, sink)?;
        self.run.release(sink);
        match &sent {
            AfterEntry::End(_) => {}
            AfterEntry::Next | AfterEntry::Park => {
                self.last.key.clear();
                self.last.key.extend_from_slice(key);
                self.last.id = stored.id();
                self.note_sent(stored.id());
            }
        }
        Ok(sent)
    }

    /// Sends the entries at these positions; what becomes of the others when it has to park.
    pub(super) fn emit_all(
        &mut self,
        positions: &[ListPosition],
        park: impl Fn(&mut Self, &[ListPosition]) -> SearchOutcome,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        for (at, position) in positions.iter().enumerate() {
            if let Some(outcome) = self.pass() {
                return Ok(ControlFlow::Break(outcome));
            }
            let stored = self.read_again(position.id)?;
            match self.emit(&stored, &position.key, sink)? {
                AfterEntry::Next => {}
                AfterEntry::Park => {
                    let rest = positions.get(at + 1..).unwrap_or_default();
                    return Ok(ControlFlow::Break(park(self, rest)));
                }
                AfterEntry::End(outcome) => return Ok(ControlFlow::Break(outcome)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn page_end(&self) -> Done {
        if self.page == Some(0) {
            // This is how a client says that it wants no more (RFC 2696 §3).
            return Done::page(&[]);
        }
        let sent = self.run.start.sent.saturating_add(self.run.sent);
        let mut octets = sent.to_be_bytes().to_vec();
        octets.extend_from_slice(&self.last.id.0.to_be_bytes());
        octets.extend_from_slice(&self.last.key);
        let kind = cookie::sorted_page(self.order.key_max_bytes());
        Done::page(&self.run.search.seal(kind, &octets, &self.binding))
    }
}
