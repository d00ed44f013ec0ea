//! Sorted searches (RFC 2891), whole, in pages, or the part that a virtual list view shows.
//!
//! A list is in the order of its entries' keys, then of their ids. It is found in one of two ways:
//! by walking an index that has the primary key's values in order, or by reading all candidates and
//! sorting their keys in memory. Both give the same list; `memory` has limits, a walk needs none.
//!
//! Invariants: nothing is sent before its position is certain; the order and the counts depend only
//! on what the asker may search. No state is kept between two requests: a page goes on after the
//! position that its cookie names, whatever was added or removed since.
//! Invariant: reading candidates, taking their keys and comparing those is work of the search,
//! counted before it is done: its limit, the time limit and abandon end a sort as they end any
//! other search.

mod list_view;
mod memory;
mod near;
pub(super) mod order;
pub(super) mod position;
mod resume;
mod sorting;
#[cfg(test)]
mod tests;
mod walk;

use std::ops::ControlFlow;

use ldap::result::ResultCode;
use schema::Schema;
use store::{Plan, View};

use self::sorting::{Beginning, Failed, Sorting, binding, fault_as_result, open_cookie};
use super::bounds::Bounds;
use super::outcome::{Done, SearchOutcome};
use super::request::{Resolved, Search};
use super::run::Run;
use crate::access::guard::Guard;
use crate::directory::State;
use crate::read::search::sorted::order::{SortFault, sorted_response};
use crate::request::cookie;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

impl Search<'_> {
    /// Says with the answer `send` what became of the order where entries are not stored but made
    /// by the server: one is in any order, several are not sorted, and there is no view of them.
    pub(super) fn made(
        &self,
        is_one: bool,
        schema: &Schema,
        guard: &Guard<'_>,
        send: impl FnOnce() -> Result<SearchOutcome, Refusal>,
    ) -> Result<SearchOutcome, Refusal> {
        const NOT_SORTED: &str = "entries that the server makes itself are not sorted";
        let code = ResultCode::UnwillingToPerform;
        if self.controls.vlv.is_some() {
            return Ok(SearchOutcome::Done(Done::no_list_view(code, NOT_SORTED)));
        }
        let Some(sort) = &self.controls.sort else { return send() };
        let fault = match sort.resolve(schema, guard) {
            Ok(_) if is_one => return Ok(send()?.with(sorted_response())),
            Ok(_) => SortFault::new(code, NOT_SORTED),
            Err(fault) => fault,
        };
        if sort.critical {
            let code = ResultCode::UnavailableCriticalExtension;
            return Ok(SearchOutcome::Done(fault_as_result(&fault, code)));
        }
        Ok(send()?.with(fault.response()))
    }
}

pub(super) use self::resume::resume;

/// Answers a search whose entries are wanted in an order.
pub(super) fn run(
    search: &Search<'_>,
    view: &View<'_>,
    state: &State,
    resolved: &Resolved<'_>,
    plan: &Plan,
    bounds: Bounds,
    sink: &mut ResponseSink<'_>,
) -> Result<SearchOutcome, Refusal> {
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
        return Ok(SearchOutcome::Done(Done::no_list_view(code, diagnostic)));
    };
    let order = match sort.resolve(&state.schema, resolved.guard) {
        Ok(order) => order,
        Err(fault) => return unsorted(search, view, state, resolved, plan, &fault, sink),
    };
    let is_page_by_id = |octets: usize| octets == cookie::PAGE.cookie_bytes();
    if controls.paged.as_ref().is_some_and(|paged| is_page_by_id(paged.cookie.len())) {
        // The page before was in no order, since the list was too large for one.
        let limits = &search.directory.limits();
        let fault = memory::too_large(limits.sort_entries_max, limits.sort_bytes_max);
        return unsorted(search, view, state, resolved, plan, &fault, sink);
    }
    let binding = binding(search, &order);
    let (after, sent) = match &controls.paged {
        Some(paged) if !paged.cookie.is_empty() => {
            open_cookie(search, paged.cookie, &order, &binding)?
        }
        Some(_) | None => (None, 0),
    };
    let beginning = Beginning { bounds, order, after, sent, binding };
    let mut sorting = Sorting::new(search, view, state, resolved, plan, beginning);
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
            Ok(SearchOutcome::Done(fault_as_result(&fault, fault.code)))
        }
        Err(Failed::Fault(fault)) => unsorted(search, view, state, resolved, plan, &fault, sink),
    }
}

/// The answer to a search that cannot be sorted: none when the order was critical, else all entries
/// in any order; the response control says so (RFC 2891 §2).
fn unsorted(
    search: &Search<'_>,
    view: &View<'_>,
    state: &State,
    resolved: &Resolved<'_>,
    plan: &Plan,
    fault: &SortFault,
    sink: &mut ResponseSink<'_>,
) -> Result<SearchOutcome, Refusal> {
    if search.controls.vlv.is_some() {
        let done = Done::no_list_view(fault.code, fault.diagnostic.clone());
        return Ok(SearchOutcome::Done(done.with(fault.response())));
    }
    if search.controls.sort.as_ref().is_some_and(|sort| sort.critical) {
        let code = ResultCode::UnavailableCriticalExtension;
        return Ok(SearchOutcome::Done(fault_as_result(fault, code)));
    }
    let start = search.page_start()?;
    let mut run = Run::new(search, view, state, resolved, plan, search.bounds(), start);
    let mut step = run.in_id_order(plan, sink)?;
    if matches!(step, ControlFlow::Continue(())) && resolved.referrals {
        step = run.references(sink)?;
    }
    let outcome = match step {
        ControlFlow::Continue(()) => SearchOutcome::Done(search.complete()),
        ControlFlow::Break(outcome) => outcome,
    };
    Ok(outcome.with(fault.response()))
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
    view: &View<'_>,
    state: &State,
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
    let beginning = Beginning { bounds, order, after: None, sent: 0, binding };
    let sorting = Sorting::new(search, view, state, resolved, plan, beginning);
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

const NO_ORDERED_INDEX: &str = "no index has the values of the first key in this order";
const SORTING_COSTS_LESS: &str = "sorting the candidates costs less than walking an index";
