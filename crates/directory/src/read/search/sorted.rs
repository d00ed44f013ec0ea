//! Sorted searches (RFC 2891), whole, in pages, or the part that a virtual list view shows.
//!
//! A list is in the order of its entries' keys, then of their ids. It is found in one of two ways:
//! by walking an index that has the primary key's values in order, or by reading all candidates and
//! sorting their keys in memory. Both give the same list; `memory` has limits, a walk needs none.
//!
//! Invariants: nothing is sent before its place is certain; the order and the counts depend only on
//! what the asker may search. No state is kept between two requests: a page goes on after the place
//! that its cookie names, whatever was added or removed since.
//! Invariant: reading candidates, taking their keys and comparing those is work of the search,
//! counted before it is done: its limit, the time limit and abandon end a sort as they end any
//! other search.

mod list_view;
mod memory;
mod near;
mod resume;
#[cfg(test)]
mod tests;
mod walk;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ldap::result::ResultCode;
use schema::{EntryId, Schema};
use store::{OrderedGroup, OrderedGroups, OrderingIndex, Plan, StoreError, StoredEntry, View};

use super::cost::ENTRY_STEPS;
use super::parked::SentIds;
use super::run::{CHILD_STEPS, Seen};
use super::{Bounds, Done, Outcome, Resolved, Run, Search, Sent, Step};
use crate::access::guard::Guard;
use crate::directory::State;
use crate::read::live_entry::LiveEntry;
use crate::read::target;
use crate::request::controls::paged::Position;
use crate::request::controls::sort::{Order, SortFault, sorted_response};
use crate::request::cookie::{self, CookieFault};
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

/// What reading an entry costs, with its place in the order, in steps of a walk.
const READ_STEPS: u64 = 25;

/// What the next group of a walk costs, in steps of work.
const GROUP_STEPS: u64 = 100;
/// What it costs to see whether an entry is among others.
const MEMBER_STEPS: u64 = 20;
/// How often abandon and the time limit are looked at where no candidate is.
const STEPS_BETWEEN_CHECKS: u32 = 64;
/// So many places are sorted in a millisecond or two.
const RUN_PLACES: usize = 4_096;
/// What it costs to compare a place with another one, besides their keys, in steps of work.
const COMPARE_STEPS: u64 = 50;
/// So many octets of keys are compared in a step.
const OCTETS_OF_STEP: usize = 8;

/// A place in the list: the key of an entry, and its id.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    pub(super) key: Vec<u8>,
    pub(super) id: EntryId,
}

impl Place {
    /// The octets it takes.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + memory::PLACE_BYTES
    }

    /// What it costs to compare it with another one.
    fn compare_steps(&self) -> u64 {
        COMPARE_STEPS + (self.key.len() / OCTETS_OF_STEP) as u64
    }
}

/// A sorted search under way.
struct Sorting<'a> {
    run: Run<'a>,
    plan: &'a Plan,
    order: Order,
    /// Where the page before ended.
    after: Option<Place>,
    /// Entries of this page.
    page: Option<u32>,
    /// The place of the entry sent last.
    last: Place,
    /// Candidates looked at before those that a walk looks at again when it goes on here.
    seen_before: Seen,
    /// Only entries that the asker may find count as work, since hidden ones may be among them.
    counts_seen: bool,
    /// The list in memory has not all matches.
    is_cut: bool,
    /// What a walk has sent that may park; none, too, when that is too much to keep.
    sent_ids: Option<SentIds>,
    steps: u32,
    work: Work,
    binding: Vec<u8>,
}

/// What was done for an answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Work {
    /// Groups of an index that were walked over.
    groups: u64,
    /// Entries that were read, to be placed or to be sent.
    entries: u64,
}

/// Why a list is not to be had.
enum Failed {
    /// The search is over.
    Ended(Outcome),
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

impl Search<'_> {
    /// Whether the entries are wanted in an order.
    pub(super) fn is_sorted(&self) -> bool {
        self.controls.sort.is_some() || self.controls.vlv.is_some()
    }

    /// Says with the answer `send` what became of the order where entries are not stored but made
    /// by the server: one is in any order, several are not sorted, and there is no view of them.
    pub(super) fn made(
        &self,
        is_one: bool,
        (schema, guard): (&Schema, &Guard<'_>),
        send: impl FnOnce() -> Result<Outcome, Refusal>,
    ) -> Result<Outcome, Refusal> {
        const NOT_SORTED: &str = "entries that the server makes itself are not sorted";
        let code = ResultCode::UnwillingToPerform;
        if self.controls.vlv.is_some() {
            return Ok(Outcome::Done(list_view::refused(code, NOT_SORTED)));
        }
        let Some(sort) = &self.controls.sort else { return send() };
        let fault = match sort.resolve(schema, guard) {
            Ok(_) if is_one => return Ok(send()?.with(sorted_response())),
            Ok(_) => SortFault::new(code, NOT_SORTED),
            Err(fault) => fault,
        };
        if sort.critical {
            let code = ResultCode::UnavailableCriticalExtension;
            return Ok(Outcome::Done(fault_as_result(&fault, code)));
        }
        Ok(send()?.with(fault.response()))
    }
}

pub(super) use self::resume::resume;

/// Answers a search whose entries are wanted in an order.
pub(super) fn run(
    search: &Search<'_>,
    (view, state): (&View<'_>, &State),
    resolved: &Resolved<'_>,
    plan: &Plan,
    bounds: Bounds,
    sink: &mut ResponseSink<'_>,
) -> Result<Outcome, Refusal> {
    let controls = search.controls;
    if controls.vlv.is_some() && controls.paged.is_some() {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "a virtual list view has no pages: leave one of the two controls out",
        ));
    }
    let Some(sort) = &controls.sort else {
        let code = ResultCode::SortControlMissing;
        let diagnostic = "a virtual list view needs an order: send a sort control, too";
        return Ok(Outcome::Done(list_view::refused(code, diagnostic)));
    };
    let parts = (view, state);
    let order = match sort.resolve(&state.schema, resolved.guard) {
        Ok(order) => order,
        Err(fault) => return unsorted(search, parts, resolved, plan, (bounds, &fault), sink),
    };
    let is_page_by_id = |octets: usize| octets == cookie::PAGE.cookie_bytes();
    if controls.paged.as_ref().is_some_and(|paged| is_page_by_id(paged.cookie.len())) {
        // The page before was in no order, since the list was too large for one.
        let limits = &search.directory.limits;
        let fault = memory::too_large(limits.sort_entries_max, limits.sort_bytes_max);
        return unsorted(search, parts, resolved, plan, (bounds, &fault), sink);
    }
    let binding = binding(search, &order);
    let (after, sent) = match &controls.paged {
        Some(paged) if !paged.cookie.is_empty() => {
            open_cookie(search, paged.cookie, (&order, &binding))?
        }
        Some(_) | None => (None, 0),
    };
    let mut sorting =
        Sorting::new(search, parts, resolved, plan, (bounds, order, (after, sent), binding));
    let outcome = match &controls.vlv {
        Some(request) => sorting.list_view(request, sink),
        None => sorting.whole(sink),
    };
    sorting.report();
    match outcome {
        Ok(outcome) | Err(Failed::Ended(outcome)) => Ok(outcome),
        Err(Failed::Refused(refusal)) => Err(refusal),
        // Of a walk some entries may be on their way already.
        Err(Failed::Fault(fault)) if sorting.run.sent > 0 => {
            Ok(Outcome::Done(fault_as_result(&fault, fault.code)))
        }
        Err(Failed::Fault(fault)) => {
            unsorted(search, parts, resolved, plan, (search.bounds(), &fault), sink)
        }
    }
}

/// The answer to a search that cannot be sorted: none when the order was critical, else all entries
/// in any order; the response control says so (RFC 2891 §2).
fn unsorted(
    search: &Search<'_>,
    parts: (&View<'_>, &State),
    resolved: &Resolved<'_>,
    plan: &Plan,
    (bounds, fault): (Bounds, &SortFault),
    sink: &mut ResponseSink<'_>,
) -> Result<Outcome, Refusal> {
    if search.controls.vlv.is_some() {
        let done = list_view::refused(fault.code, fault.diagnostic.clone());
        return Ok(Outcome::Done(done.with(fault.response())));
    }
    if search.controls.sort.as_ref().is_some_and(|sort| sort.critical) {
        let code = ResultCode::UnavailableCriticalExtension;
        return Ok(Outcome::Done(fault_as_result(fault, code)));
    }
    let start = search.page_start()?;
    let mut run = Run::new(search, parts, resolved, plan, (bounds, start));
    let mut step = run.in_id_order(plan, sink)?;
    if matches!(step, Step::Next) && resolved.referrals {
        step = run.references(sink)?;
    }
    let outcome = match step {
        Step::Next => Outcome::Done(search.complete()),
        Step::End(outcome) => outcome,
    };
    Ok(outcome.with(fault.response()))
}

fn fault_as_result(fault: &SortFault, code: ResultCode) -> Done {
    Done::refused(Refusal::new(code, fault.diagnostic.clone())).with(fault.response())
}

/// What a cookie or a context of a list is bound to: they are of no use to another search.
fn binding(search: &Search<'_>, order: &Order) -> Vec<u8> {
    let mut binding = search.binding();
    binding.extend_from_slice(order.to_string().as_bytes());
    binding
}

fn open_cookie(
    search: &Search<'_>,
    octets: &[u8],
    (order, binding): (&Order, &[u8]),
) -> Result<(Option<Place>, u32), Refusal> {
    let kind = cookie::sorted_page(order.key_max_bytes());
    let opened = search.directory.cookie_key.open(kind, octets, binding)?;
    let split = || {
        let (sent, rest) = opened.split_first_chunk::<4>()?;
        let (id, key) = rest.split_first_chunk::<8>()?;
        let place = Place { key: key.to_vec(), id: EntryId(u64::from_be_bytes(*id)) };
        Some((Some(place), u32::from_be_bytes(*sent)))
    };
    split().ok_or_else(|| CookieFault::Malformed.into())
}

/// How entries get their order, for an explanation.
pub(super) struct OrderPlan {
    /// The sort keys.
    pub(super) keys: String,
    pub(super) way: Way,
    /// Why no index is walked, or there is no order.
    pub(super) reason: Option<String>,
    /// An index that could be walked instead.
    pub(super) would_help: Option<String>,
}

/// One of the ways to an order.
pub(super) enum Way {
    /// Walking the index of this name.
    Index(String),
    Memory,
    Unsorted,
}

impl OrderPlan {
    /// The index that is walked.
    pub(super) fn index(&self) -> Option<&str> {
        match &self.way {
            Way::Index(name) => Some(name),
            Way::Memory | Way::Unsorted => None,
        }
    }
}

/// What [`run`] would do for the order of a list from its beginning.
pub(super) fn explain(
    search: &Search<'_>,
    (view, state): (&View<'_>, &State),
    resolved: &Resolved<'_>,
    plan: &Plan,
    bounds: Bounds,
) -> Result<Option<OrderPlan>, Refusal> {
    let Some(sort) = &search.controls.sort else { return Ok(None) };
    let order = match sort.resolve(&state.schema, resolved.guard) {
        Ok(order) => order,
        Err(fault) => {
            let (keys, reason) = (fault.attribute.unwrap_or_default(), Some(fault.diagnostic));
            return Ok(Some(OrderPlan { keys, way: Way::Unsorted, reason, would_help: None }));
        }
    };
    let keys = order.names();
    let binding = binding(search, &order);
    let begun = (bounds, order, (None, 0), binding);
    let sorting = Sorting::new(search, (view, state), resolved, plan, begun);
    let is_walked = match &search.controls.vlv {
        Some(_) => sorting.part_is_walked()?,
        None => sorting.walk_is_cheaper(),
    };
    let by_memory = |reason: &str, would_help| OrderPlan {
        keys: keys.clone(),
        way: Way::Memory,
        reason: Some(reason.to_owned()),
        would_help,
    };
    let Some(index) = sorting.index() else {
        let key = sorting.order.primary();
        let would_help = store::ordering_would_help(&key.description, key.rule);
        return Ok(Some(by_memory(NO_ORDERED_INDEX, would_help)));
    };
    if !is_walked {
        return Ok(Some(by_memory(SORTING_COSTS_LESS, None)));
    }
    let way = Way::Index(view.ordering_index_name(index).unwrap_or_default());
    Ok(Some(OrderPlan { keys, way, reason: None, would_help: None }))
}

/// What it costs to sort places.
fn sort_steps(places: &[Place]) -> u64 {
    places.iter().map(Place::compare_steps).sum::<u64>() * levels_of(places.len())
}

/// How often each of so many is compared, about.
fn levels_of(count: usize) -> u64 {
    u64::from(count.max(1).ilog2()) + 1
}

const NO_ORDERED_INDEX: &str = "no index has the values of the first key in this order";
const SORTING_COSTS_LESS: &str = "sorting the candidates costs less than walking an index";

/// Where a list begins: its limits, its order, the place before it and how many entries were sent,
/// and what its cookies are bound to.
type Begun = (Bounds, Order, (Option<Place>, u32), Vec<u8>);

impl<'a> Sorting<'a> {
    fn new(
        search: &'a Search<'a>,
        parts: (&'a View<'a>, &'a State),
        resolved: &'a Resolved<'a>,
        plan: &'a Plan,
        (bounds, order, (after, sent), binding): Begun,
    ) -> Self {
        let start = Position { after: EntryId::ROOT, sent };
        let bounds_of_list = Bounds { page: None, ..bounds };
        let mut run = Run::new(search, parts, resolved, plan, (bounds_of_list, start));
        // Where requests are read all work counts.
        let counts_seen = search.candidates_max.is_none() && run.count_seen();
        Self {
            run,
            counts_seen,
            plan,
            order,
            after,
            page: bounds.page,
            last: Place { key: Vec::new(), id: EntryId::ROOT },
            seen_before: Seen::default(),
            is_cut: false,
            sent_ids: None,
            steps: 0,
            work: Work::default(),
            binding,
        }
    }

    /// Tells what was done.
    fn report(&self) {
        let Work { groups, entries } = self.work;
        tracing::debug!(groups, entries, "sorted");
        #[cfg(test)]
        tests::note(self.work);
        if let Some(watch) = &self.run.search.watch {
            watch.sent(self.run.sent);
        }
    }

    fn view(&self) -> &'a View<'a> {
        self.run.view
    }

    /// The index that has the values of the primary key in order, if the asker may know them all.
    fn index(&self) -> Option<OrderingIndex> {
        let key = self.order.primary();
        let index = self.view().ordering_index(&key.description, key.rule)?;
        self.order.may_use_index(self.run.resolved.guard).then_some(index)
    }

    /// All entries, or a page of them.
    fn whole(&mut self, sink: &mut ResponseSink<'_>) -> Result<Outcome, Failed> {
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
    fn conclude(&mut self, step: Step, sink: &mut ResponseSink<'_>) -> Result<Outcome, Failed> {
        Ok(match step {
            Step::End(outcome) => outcome,
            Step::Next if self.run.resolved.referrals => match self.run.references(sink)? {
                Step::End(outcome) => outcome,
                Step::Next => Outcome::Done(self.run.search.complete()),
            },
            Step::Next => Outcome::Done(self.run.search.complete()),
        })
    }

    /// Goes on to the next group of a walk.
    fn next_group(
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
    fn failed_by(&self, error: StoreError) -> Failed {
        match self.run.search.ended_by(error, &self.run.bounds) {
            Ok(outcome) => self.over(outcome),
            Err(refusal) => Failed::Refused(refusal),
        }
    }

    /// The search is over before its list is.
    fn over(&self, outcome: Outcome) -> Failed {
        // Of a walk some entries may be on their way already.
        if self.run.sent > 0 { Failed::Ended(outcome) } else { Self::not_sorted(outcome) }
    }

    /// Counts work before it is done.
    fn spend(&self, steps: u64) -> Result<(), Failed> {
        self.run.search.spend(steps);
        self.run.search.work_over().map_or(Ok(()), |outcome| Err(self.over(outcome)))
    }

    /// Counts work for what may be hidden.
    fn spend_passing(&self, steps: u64) -> Result<(), Failed> {
        let search = self.run.search;
        match self.counts_seen {
            true => search.spend_unseen(steps),
            false => search.spend(steps),
        }
        search.work_over().map_or(Ok(()), |outcome| Err(self.over(outcome)))
    }

    /// Counts an entry that is read to be placed.
    fn count_entry(&mut self) -> Result<(), Failed> {
        self.work.entries += 1;
        self.spend_passing(ENTRY_STEPS)
    }

    /// Whether an entry that was read is one of the list.
    fn is_listed(&mut self, stored: &StoredEntry<'_>) -> Result<bool, Failed> {
        let before = self.run.seen.counted;
        let is_listed = self.run.matches(stored)?;
        if self.counts_seen && self.run.seen.counted > before {
            self.spend(ENTRY_STEPS)?;
        }
        Ok(is_listed)
    }

    /// Reads an entry to place it.
    fn read(&mut self, id: EntryId) -> Result<StoredEntry<'a>, Failed> {
        self.count_entry()?;
        Ok(target::stored(self.view(), id)?)
    }

    /// Reads an entry that has its place, to send it.
    fn read_again(&mut self, id: EntryId) -> Result<StoredEntry<'a>, Failed> {
        self.work.entries += 1;
        Ok(target::stored(self.view(), id)?)
    }

    /// How many entries are wanted, if not all.
    fn wanted(&self) -> Option<u64> {
        let Bounds { total_entries, entries, .. } = self.run.bounds;
        let asked = (total_entries > 0).then(|| total_entries.saturating_sub(self.run.start.sent));
        let entries = (entries > 0).then_some(entries);
        [self.page, asked, entries].into_iter().flatten().min().map(u64::from)
    }

    fn walk_is_cheaper(&self) -> bool {
        if !self.run.may_count_candidates() {
            return self.is_walked_by_shape();
        }
        let candidates = self.plan.estimate;
        let all = self.view().entry_count().unwrap_or(u64::MAX);
        let wanted = self.wanted().unwrap_or(candidates).min(candidates).max(1);
        if wanted >= self.run.search.directory.limits.sort_entries_max {
            return true;
        }
        // The candidates lie anywhere in the order: so much of it is walked until enough are met.
        let mut walked = u128::from(all) * u128::from(wanted) / u128::from(candidates.max(1));
        let key = self.order.primary();
        if key.reverse && self.after.as_ref().is_none_or(|it| Order::is_before_values(&it.key)) {
            // Those without a value come first, and without an index the others tell who they are.
            let tells = self.view().tells_presence(&key.description);
            walked += u128::from(if tells { candidates } else { all });
        }
        let sorted = u128::from(candidates) * u128::from(READ_STEPS);
        walked + u128::from(wanted * READ_STEPS) < sorted
    }

    /// Whether an index is walked where the numbers of candidates and of all entries may tell of
    /// hidden ones: where the filter alone says that there are many.
    fn is_walked_by_shape(&self) -> bool {
        !self.view().indexable(self.run.resolved.filter).narrows
    }

    /// The key of an entry.
    fn key_of(&self, stored: &StoredEntry<'_>, key: &mut Vec<u8>) -> Result<(), Failed> {
        key.clear();
        let schema = &self.run.state.schema;
        let guard = self.run.resolved.guard;
        let live = LiveEntry::new(self.run.view, stored, schema.well_known(), true).seen_by(guard);
        let rights = guard.on(stored);
        let entry = rights.searchable(&live);
        self.run.search.metered(|meter| self.order.append_key(schema, &entry, meter, key));
        self.spend_passing(live.children_read() * CHILD_STEPS)
    }

    /// Before a candidate is looked at, while nothing is sent.
    fn check(&mut self) -> Result<(), Failed> {
        match self.run.interrupted() {
            None => Ok(()),
            Some(outcome) => Err(Self::not_sorted(outcome)),
        }
    }

    /// Before a step that looks at no candidate: abandon and the time limit, now and then.
    fn pass(&mut self) -> Option<Outcome> {
        self.steps = self.steps.wrapping_add(1);
        let is_due = self.steps.is_multiple_of(STEPS_BETWEEN_CHECKS);
        if is_due { self.run.search.ended(&self.run.bounds) } else { None }
    }

    /// Likewise, while nothing is sent.
    fn check_step(&mut self) -> Result<(), Failed> {
        match self.pass() {
            None => Ok(()),
            Some(outcome) => Err(Self::not_sorted(outcome)),
        }
    }

    /// The end of a search whose entries are not in order yet.
    fn not_sorted(outcome: Outcome) -> Failed {
        let code = match &outcome {
            Outcome::Done(done) => done.code(),
            Outcome::Abandoned | Outcome::TooMuch | Outcome::Parked(_) => ResultCode::Other,
        };
        Failed::Ended(outcome.with(SortFault::new(code, "").response()))
    }

    /// Puts places in order, and looks at abandon and the time limit in between.
    fn in_order(&mut self, mut places: Vec<Place>) -> Result<Vec<Place>, Failed> {
        if places.len() <= RUN_PLACES {
            self.spend(sort_steps(&places))?;
            places.sort_unstable();
            return Ok(places);
        }
        let count = places.len();
        let mut runs = Vec::new();
        while !places.is_empty() {
            if let Some(outcome) = self.run.search.ended(&self.run.bounds) {
                return Err(Self::not_sorted(outcome));
            }
            let mut run = places.split_off(places.len().saturating_sub(RUN_PLACES));
            self.spend(sort_steps(&run))?;
            run.sort_unstable();
            runs.push(run.into_iter());
        }
        let first = runs.iter_mut().enumerate().filter_map(|(at, run)| Some((run.next()?, at)));
        let mut heads: BinaryHeap<Reverse<(Place, usize)>> = first.map(Reverse).collect();
        let mut merged = Vec::with_capacity(count);
        let levels = levels_of(heads.len());
        while let Some(Reverse((place, at))) = heads.pop() {
            self.check_step()?;
            self.spend(place.compare_steps() * levels)?;
            merged.push(place);
            if let Some(next) = runs.get_mut(at).and_then(Iterator::next) {
                heads.push(Reverse((next, at)));
            }
        }
        Ok(merged)
    }

    /// Sends the entry at a place, unless the page is full.
    fn emit(
        &mut self,
        stored: &StoredEntry<'_>,
        key: &[u8],
        sink: &mut ResponseSink<'_>,
    ) -> Result<Sent, Failed> {
        if self.page.is_some_and(|page| self.run.sent >= page) {
            return Ok(Sent::End(Outcome::Done(self.page_end())));
        }
        let sent = self.run.send(stored, sink)?;
        self.run.release(sink);
        match &sent {
            Sent::End(_) => {}
            Sent::Next | Sent::Park => {
                self.last.key.clear();
                self.last.key.extend_from_slice(key);
                self.last.id = stored.id();
                self.note_sent(stored.id());
            }
        }
        Ok(sent)
    }

    /// Sends the entries at these places; what becomes of the others when it has to park.
    fn emit_all(
        &mut self,
        places: &[Place],
        park: impl Fn(&mut Self, &[Place]) -> Outcome,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Step, Failed> {
        for (at, place) in places.iter().enumerate() {
            if let Some(outcome) = self.pass() {
                return Ok(Step::End(outcome));
            }
            let stored = self.read_again(place.id)?;
            match self.emit(&stored, &place.key, sink)? {
                Sent::Next => {}
                Sent::Park => {
                    let rest = places.get(at + 1..).unwrap_or_default();
                    return Ok(Step::End(park(self, rest)));
                }
                Sent::End(outcome) => return Ok(Step::End(outcome)),
            }
        }
        Ok(Step::Next)
    }

    fn page_end(&self) -> Done {
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
