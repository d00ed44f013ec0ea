//! Sorted searches that park, and go on.
//!
//! Invariant: what is kept of a list has the order that it had; of its entries those are sent that
//! still match, with what the asker may see of them now.

use std::cell::Cell;
use std::ops::ControlFlow;

use schema::EntryId;
use store::{Plan, View};

use super::position::ListPosition;
use super::sorting::{Beginning, Failed, Sorting, binding, fault_as_result, open_cookie};
use crate::directory::State;
use crate::read::search::outcome::{Done, SearchOutcome};
use crate::read::search::parked::{CandidatesSeen, Kept, List, Parked, Phase, Rest};
use crate::read::search::request::{Resolved, Search};
use crate::read::search::run::AfterEntry;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

/// Goes on with a list. What the result says of the order is known already.
pub(in crate::read::search) fn resume(
    search: &Search<'_>,
    view: &View<'_>,
    state: &State,
    resolved: &Resolved<'_>,
    plan: &Plan,
    list: &List,
    sink: &mut ResponseSink<'_>,
) -> Result<SearchOutcome, Refusal> {
    let controls = search.controls;
    let (Some(sort), Some(parked)) = (&controls.sort, search.resumed) else {
        return Ok(SearchOutcome::Done(search.complete()));
    };
    let order = match sort.resolve(&state.schema, resolved.guard) {
        Ok(order) => order,
        // The asker may not use it any more.
        Err(fault) => return Ok(SearchOutcome::Done(fault_as_result(&fault, fault.code))),
    };
    let binding = binding(search, &order);
    let sent = match &controls.paged {
        Some(paged) if !paged.cookie.is_empty() => {
            open_cookie(search, paged.cookie, &order, &binding)?.1
        }
        Some(_) | None => 0,
    };
    let (bounds, after) = (search.bounds(), Some(list.last.clone()));
    let beginning = Beginning { bounds, order, after, sent, binding };
    let mut sorting = Sorting::new(search, view, state, resolved, plan, beginning);
    sorting.run.resume(parked);
    sorting.last = list.last.clone();
    let outcome = sorting.go_on(list, sink);
    sorting.report();
    match outcome {
        Ok(outcome) | Err(Failed::Ended(outcome)) => Ok(outcome),
        Err(Failed::Refused(refusal)) => Err(refusal),
        Err(Failed::Fault(fault)) => Ok(SearchOutcome::Done(fault_as_result(&fault, fault.code))),
    }
}

impl Sorting<'_> {
    fn go_on(&mut self, list: &List, sink: &mut ResponseSink<'_>) -> Result<SearchOutcome, Failed> {
        let index = self.index();
        let step = match (&list.rest, index) {
            (Rest::Kept(kept), _) => self.emit_kept(kept, sink),
            (Rest::Walk(sent), Some(index)) => {
                self.sent_ids = sent.take();
                self.walk(index, sink)
            }
            (Rest::Walk(_) | Rest::Sort, _) => self.sort_again(sink),
        }?;
        match step {
            ControlFlow::Continue(()) if self.run.search.controls.vlv.is_some() => {
                Ok(SearchOutcome::Done(Done::success()))
            }
            step => self.conclude(step, sink),
        }
    }

    /// Sends the entries that were kept, as far as they are still to be sent.
    fn emit_kept(
        &mut self,
        kept: &Kept,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        // They were candidates of the plan before: they may have been moved or changed since.
        self.run.forget_proofs();
        for (at, position) in kept.positions().iter().enumerate() {
            if let Some(outcome) = self.pass() {
                return Ok(ControlFlow::Break(outcome));
            }
            self.work.entries += 1;
            let Some(stored) = self.view().entry(position.id)? else { continue };
            if !self.run.matches(&stored)? {
                continue;
            }
            match self.emit(&stored, &position.key, sink)? {
                AfterEntry::Next => {}
                AfterEntry::Park => {
                    return Ok(ControlFlow::Break(self.park(Rest::Kept(kept.behind(at + 1)))));
                }
                AfterEntry::End(outcome) => return Ok(ControlFlow::Break(outcome)),
            }
        }
        let Some(cut) = kept.cut() else { return Ok(ControlFlow::Continue(())) };
        // Some of them are not there any more; others take their positions.
        self.after = Some(cut.clone());
        self.sort_again(sink)
    }

    /// Sends what comes after the position, sorted in memory.
    fn sort_again(
        &mut self,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        // The same candidates are looked at.
        self.run.seen = CandidatesSeen::default();
        self.sort_in_memory(sink)
    }

    /// The search parks: these positions, sorted in memory, are left.
    pub(super) fn park_list(&self, rest: &[ListPosition]) -> SearchOutcome {
        self.park(self.keep(rest).map_or(Rest::Sort, Rest::Kept))
    }

    /// The search parks in the middle of a walk. Entries of the value it is at are looked at
    /// again.
    pub(super) fn park_walk(&mut self) -> SearchOutcome {
        let max = self.run.search.directory.limits().parked_max_bytes;
        let sent = self.sent_ids.take().and_then(|sent| sent.keep(max));
        match self.park(Rest::Walk(Cell::new(sent))) {
            SearchOutcome::Parked(parked) => {
                SearchOutcome::Parked(Box::new(Parked { seen: self.seen_before, ..*parked }))
            }
            other => other,
        }
    }

    /// An entry was sent.
    pub(super) fn note_sent(&mut self, id: EntryId) {
        let most = self.run.search.directory.limits().sort_entries_max;
        if let Some(sent) = &mut self.sent_ids {
            sent.add(id);
            if sent.len() as u64 > most {
                self.sent_ids = None;
            }
        }
    }

    /// Whether a walk has sent an entry already, elsewhere in the order.
    pub(super) fn was_sent(&self, id: EntryId) -> bool {
        self.sent_ids.as_ref().is_some_and(|sent| sent.contains(id))
    }

    pub(super) fn park(&self, rest: Rest) -> SearchOutcome {
        let list = List { last: self.last.clone(), rest };
        SearchOutcome::parked(Phase::Sorted(list), self.run.sent, self.run.seen)
    }

    /// Keeps the entries of a list view that are left, if there is room for them.
    pub(super) fn keep_part(&self, ids: &[EntryId]) -> Option<Kept> {
        let positions = ids.iter().map(|&id| ListPosition { key: Vec::new(), id }).collect();
        let directory = self.run.search.directory;
        Kept::new(positions, None, &directory.budgets.parked, directory.limits().parked_max_bytes)
    }

    /// Keeps as many positions as may be sent, if there is room for them.
    fn keep(&self, rest: &[ListPosition]) -> Option<Kept> {
        let search = self.run.search;
        let directory = search.directory;
        // One more, to see that there is one.
        let most = self.wanted().map(|wanted| {
            let left = wanted.saturating_sub(self.run.sent.into()).saturating_add(1);
            usize::try_from(left).unwrap_or(usize::MAX)
        });
        let kept = rest.get(..most.unwrap_or(rest.len())).unwrap_or(rest);
        let is_cut = self.is_cut || kept.len() < rest.len();
        let cut = kept.last().or(Some(&self.last)).filter(|_| is_cut).cloned();
        // Keys are for the cookies of pages.
        let key = |position: &ListPosition| {
            if self.page.is_some() { position.key.clone() } else { Vec::new() }
        };
        let positions = kept
            .iter()
            .map(|position| ListPosition { key: key(position), id: position.id })
            .collect();
        Kept::new(positions, cut, &directory.budgets.parked, directory.limits().parked_max_bytes)
    }
}
