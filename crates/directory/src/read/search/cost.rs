//! What a search may cost: work, counted in steps, beside the number of entries and the time.
//!
//! Invariant: on the thread that reads requests a search does about a millisecond of it, which is
//! `inline_work_max`; elsewhere no more than its asker may have done. However large a filter, an
//! entry or a value is, it is looked at often enough whether that, or the time, is reached.
//! Invariant: what a search does with entries that the asker may not find counts for no limit that
//! is told. The time bounds it: a search keeps its thread for [`TURN_MAX`] at most, or for as long
//! as its work may take.

use std::time::Duration;

use aci::{Access, Identity, VisibleEntry, WantedValues};
use ldap::filter::Filter;
use ldap::message::{Scope, SearchRequest};
use ldap::result::ResultCode;
use schema::{EntryRead, Meter, ResolvedFilter, Schema, Truth};

use super::bounds::{Bounds, too_long};
use super::outcome::{Done, SearchOutcome};
use super::request::Search;
use super::work::{Over, terms};
use crate::request::limits::Limits;
use crate::request::refusal::Refusal;

impl Search<'_> {
    /// What a filter says of an entry; when the work is over, Undefined.
    pub(crate) fn evaluate(
        &self,
        filter: &ResolvedFilter,
        schema: &Schema,
        entry: &dyn EntryRead,
    ) -> Truth {
        let (truth, is_over) = self.metered(|meter| filter.matches_within(schema, entry, meter));
        if is_over { Truth::Undefined } else { truth }
    }

    /// What a filter says of an entry that may be hidden; when the work is over, Undefined.
    pub(super) fn evaluate_unseen(
        &self,
        filter: &ResolvedFilter,
        schema: &Schema,
        entry: &dyn EntryRead,
    ) -> Truth {
        let matches = |meter: &mut Meter<'_>| filter.matches_within(schema, entry, meter);
        let (truth, is_over) = self.metered_unseen(matches);
        if is_over { Truth::Undefined } else { truth }
    }

    /// What a filter says of an entry, when that takes few steps, which are not counted.
    pub(super) fn glance(
        filter: &ResolvedFilter,
        schema: &Schema,
        entry: &dyn EntryRead,
    ) -> Option<Truth> {
        let mut more = || 0;
        let mut meter = Meter::new(GLANCE_STEPS, &mut more);
        let truth = filter.matches_within(schema, entry, &mut meter);
        (!meter.is_over()).then_some(truth)
    }

    /// Counts work for what the asker may not find.
    pub(super) fn spend_unseen(&self, steps: u64) {
        self.metered_unseen(|meter| meter.spend(steps));
    }

    fn metered_unseen<T>(&self, work: impl FnOnce(&mut Meter<'_>) -> T) -> (T, bool) {
        let mut more = || self.more_unseen();
        let mut meter = Meter::new(self.work.unseen_left.get(), &mut more);
        let done = work(&mut meter);
        self.work.unseen_left.set(meter.left());
        (done, meter.is_over())
    }

    /// Counts work that is done elsewhere.
    pub(crate) fn spend(&self, steps: u64) {
        self.metered(|meter| meter.spend(steps));
    }

    /// Does work that a meter counts; says, too, whether the search may do no more.
    pub(super) fn metered<T>(&self, work: impl FnOnce(&mut Meter<'_>) -> T) -> (T, bool) {
        let mut more = || self.more();
        let mut meter = Meter::new(self.work.left.get(), &mut more);
        let done = work(&mut meter);
        self.work.left.set(meter.left());
        (done, meter.is_over())
    }

    /// Counts what it takes to pick the values of an entry that are wanted, of those that may be
    /// read, before it is done; the end of the search, when that is too much.
    pub(super) fn picks(
        &self,
        entry: &VisibleEntry<'_>,
        wanted: Option<WantedValues<'_>>,
    ) -> Option<SearchOutcome> {
        let wanted = wanted?;
        let mut of_item = 0;
        entry.visit(&mut |_, values| {
            let steps = |value: &[u8]| PICK_STEPS + PICK_OCTET_STEPS * value.len() as u64;
            of_item += values.iter().map(steps).sum::<u64>();
        });
        let steps = of_item.saturating_mul(wanted.items.len() as u64);
        if steps > PICK_STEPS_MAX && self.candidates_max.is_none() {
            return Some(SearchOutcome::Done(too_much_work()));
        }
        self.spend(steps);
        self.work_over()
    }

    /// Counts the time of planning, which is in reads of the store and not in steps. Says whether
    /// it has to end.
    pub(super) fn planning_is_over(&self, took: Duration) -> bool {
        let steps = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let is_over = self.candidates_max.is_none() && steps > self.work_max();
        if is_over {
            self.work.over.set(Some(Over::Limit));
        }
        is_over
    }

    /// Whether what was begun then has taken longer than so many steps, or than the search may.
    pub(super) fn takes_longer(&self, begun: Duration, steps_max: u64) -> bool {
        let took = self.directory.clock.elapsed().saturating_sub(begun);
        self.planning_is_over(took) || took > Duration::from_nanos(steps_max)
    }

    /// The end of the search, when it may do no more.
    pub(crate) fn work_over(&self) -> Option<SearchOutcome> {
        self.work.over.get().map(|over| match over {
            // The root DSE is never a job: what it offers depends on the connection.
            Over::Here if is_root_dse(self.request) => SearchOutcome::Done(too_much_work()),
            Over::Here => SearchOutcome::TooMuch,
            Over::Limit => SearchOutcome::Done(too_much_work()),
            Over::Late => SearchOutcome::Done(too_long()),
            Over::Abandoned => SearchOutcome::Abandoned,
        })
    }

    /// How many steps more may be done until the next question; 0: none.
    fn more(&self) -> u64 {
        if self.work.over.get().is_some() {
            return 0;
        }
        let spent = self.work.spent.get();
        let limit = (spent >= self.work_max()).then_some(Over::Limit);
        // Here, all work counts: of what is hidden, too.
        let over = self.over_here(spent).or(limit).or_else(|| self.is_to_end());
        self.work.over.set(over);
        self.work.spent.set(spent + LOOK_EVERY_STEPS);
        if over.is_some() { 0 } else { LOOK_EVERY_STEPS }
    }

    /// The same for what the asker may not find.
    fn more_unseen(&self) -> u64 {
        if self.work.over.get().is_some() {
            return 0;
        }
        let unseen = self.work.unseen.get();
        let over = self.over_here(unseen).or_else(|| self.is_to_end());
        self.work.over.set(over);
        self.work.unseen.set(unseen + LOOK_EVERY_STEPS);
        if over.is_some() { 0 } else { LOOK_EVERY_STEPS }
    }

    fn over_here(&self, spent: u64) -> Option<Over> {
        let is_here = self.candidates_max.is_some();
        (is_here && spent >= self.directory.limits().inline_work_max).then_some(Over::Here)
    }

    /// Why it has to end, whatever it has cost.
    fn is_to_end(&self) -> Option<Over> {
        if self.is_abandoned() {
            return Some(Over::Abandoned);
        }
        let now = self.directory.clock.elapsed();
        self.is_late(&self.bounds(), now).then_some(Over::Late)
    }

    /// Whether its time is up, or it has had its thread for too long.
    pub(super) fn is_late(&self, bounds: &Bounds, now: Duration) -> bool {
        let turn_max = Duration::from_nanos(self.work_max()).max(TURN_MAX);
        bounds.deadline.is_some_and(|deadline| now >= deadline)
            || now.saturating_sub(self.begun) > turn_max
    }

    fn work_max(&self) -> u64 {
        work_max(&self.directory.limits(), self.access)
    }

    /// Whether the candidates are too many for the thread that reads requests, or testing that
    /// many with this filter is too much work for it.
    pub(super) fn is_for_pool(&self, estimate: u64, filter: &ResolvedFilter, tests: bool) -> bool {
        let Some(max) = self.candidates_max else { return false };
        let steps = || terms(filter).saturating_mul(TERM_STEPS).saturating_mul(estimate);
        estimate > max || (tests && steps() > self.directory.limits().inline_work_max)
    }
}

/// Steps that an asker may have done for a search, or a compare. What the identity was given comes
/// before what everybody has; the root identity is allowed all.
pub(crate) fn work_max(limits: &Limits, access: &Access) -> u64 {
    let of_all = match access.identity() {
        Identity::Root(_) => return u64::MAX,
        Identity::Anonymous => limits.search_work_anonymous_max,
        Identity::Entry(_) => limits.search_work_max,
    };
    match access.grants().search_work_max.unwrap_or(of_all) {
        0 => u64::MAX,
        millions => u64::from(millions) * STEPS_OF_MILLION,
    }
}

/// Whether the root DSE is asked for.
pub(super) fn is_root_dse(request: &SearchRequest<'_>) -> bool {
    request.base.is_empty() && request.scope == Scope::Base
}

/// Whether a request is so large that even resolving it takes too long where requests are read: by
/// the terms of its filter, and by what is to be prepared for matching.
pub(super) fn is_large(request: &SearchRequest<'_>, max: u64) -> bool {
    fn count(filter: &Filter<'_>, left: &mut u64) {
        let pieces = match filter {
            Filter::And(parts) | Filter::Or(parts) => {
                parts.iter().for_each(|part| count(part, left));
                0
            }
            Filter::Not(part) => {
                count(part, left);
                0
            }
            Filter::Substrings(substrings) => {
                let any = substrings.any.iter();
                let all = substrings.initial.iter().chain(any).chain(&substrings.final_);
                substrings.any.len() as u64 + all.map(|piece| in_terms(piece)).sum::<u64>()
            }
            Filter::Equality(ava)
            | Filter::GreaterOrEqual(ava)
            | Filter::LessOrEqual(ava)
            | Filter::Approx(ava) => in_terms(&ava.value),
            Filter::Present(_) => 0,
            Filter::Extensible(extensible) => in_terms(&extensible.value),
        };
        *left = left.saturating_sub(1 + pieces);
    }
    let mut left = max.saturating_sub(in_terms(request.base.as_bytes()));
    count(&request.filter, &mut left);
    left == 0
}

/// How many terms take as long as preparing a value does.
fn in_terms(value: &[u8]) -> u64 {
    let octets = value.len() as u64;
    // Short ones are the usual ones, and part of what a term takes.
    match octets <= OCTETS_OF_TERM {
        true => 0,
        false if value.is_ascii() => octets / OCTETS_OF_TERM,
        false => octets / OCTETS_OF_TERM * NOT_ASCII_FACTOR,
    }
}

fn too_much_work() -> Done {
    Done::refused(Refusal::new(
        ResultCode::AdminLimitExceeded,
        "the search is more work than allowed; make its filter smaller or more specific, or sort \
         by fewer keys; its entries are incomplete",
    ))
}

/// Work between two looks at whether to go on: about a quarter of a millisecond.
pub(crate) const LOOK_EVERY_STEPS: u64 = 250_000;
/// What it takes to read an entry, and to find out whether it may be seen.
pub(super) const ENTRY_STEPS: u64 = 1_000;
/// Steps of which it does not matter whether they are counted: it takes about as long to find out
/// whether the asker may see the entry.
pub(super) const GLANCE_STEPS: u64 = 2_000;
/// How long a search has its thread at the most, unless its work may take longer. What is divided
/// parks long before.
const TURN_MAX: Duration = Duration::from_secs(10);
/// What it takes to compare a value with what is wanted, at least and for each octet.
const PICK_STEPS: u64 = 100;
const PICK_OCTET_STEPS: u64 = 8;
/// The most for the values of one entry, which nothing interrupts: about a second.
const PICK_STEPS_MAX: u64 = 1_000_000_000;
/// A request that is no longer has few terms.
pub(super) const SMALL_BYTES: usize = 512;
/// Octets of a value that are prepared while a term is resolved.
const OCTETS_OF_TERM: u64 = 64;
/// So much longer it takes where they are not ASCII.
const NOT_ASCII_FACTOR: u64 = 4;
/// What a term costs each candidate at least.
pub(super) const TERM_STEPS: u64 = 100;
const STEPS_OF_MILLION: u64 = 1_000_000;
