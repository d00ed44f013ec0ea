//! The candidates of a search, one by one: in scope? filter true? then limits, then out with it.

use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{EntryId, Truth};
use store::{Ask, Plan, StoredEntry, View};

use super::{Bounds, Done, Outcome, Resolved, Search};
use crate::controls::paged::Position;
use crate::directory::State;
use crate::live_entry::LiveEntry;
use crate::referral;
use crate::refusal::Refusal;
use crate::session::Cancel;
use crate::sink::{Flow, ResponseSink};

/// A search under way.
pub(crate) struct Run<'a> {
    pub(crate) search: &'a Search<'a>,
    pub(crate) view: &'a View<'a>,
    pub(crate) state: &'a State,
    pub(crate) resolved: &'a Resolved<'a>,
    /// The plan proved the filter for every candidate, and the asker may use all of it.
    exact: bool,
    /// The plan proved the scope for every candidate.
    scope_exact: bool,
    /// Computed attributes are asked for.
    computed: bool,
    pub(crate) bounds: Bounds,
    pub(crate) start: Position,
    /// Entries sent for this request.
    pub(crate) sent: u32,
    pub(crate) last: EntryId,
    seen: u32,
    /// The superior looked at last, and whether it is or lies below a referral object.
    parent: Option<(EntryId, bool)>,
}

/// Whether to go on.
pub(crate) enum Step {
    /// With the next candidate.
    Next,
    /// Not at all.
    End(Outcome),
}

impl<'a> Run<'a> {
    /// Begins with what the plan has proved.
    pub(crate) fn new(
        search: &'a Search<'a>,
        (view, state): (&'a View<'a>, &'a State),
        resolved: &'a Resolved<'a>,
        plan: &Plan,
        (bounds, start): (Bounds, Position),
    ) -> Self {
        let mut searchable = true;
        resolved.filter.visit_descriptions(&mut |one| searchable &= search.access.may_search(one));
        let selection = resolved.selection;
        let computed = LiveEntry::computed_descriptions(state.schema.well_known());
        Self {
            search,
            view,
            state,
            resolved,
            exact: plan.exact && searchable,
            scope_exact: plan.scope_exact,
            computed: selection.may_select_operational()
                && computed.iter().any(|description| selection.selects(description)),
            bounds,
            sent: 0,
            last: start.after,
            start,
            seen: 0,
            parent: None,
        }
    }

    /// All candidates after the one the page before ended at, in the order of their ids.
    pub(crate) fn in_id_order(
        &mut self,
        plan: &Plan,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Step, Refusal> {
        for stored in plan.entries(self.view, self.last) {
            let stored = stored?;
            if let Some(end) = self.interrupted() {
                return Ok(Step::End(end));
            }
            if self.matches(&stored)?
                && let Step::End(end) = self.send(&stored, sink)?
            {
                return Ok(Step::End(end));
            }
        }
        Ok(Step::Next)
    }

    /// Whether every candidate is a match and is sent, as far as the limits allow.
    pub(crate) fn sends_all(&self) -> bool {
        self.exact && self.scope_exact && !self.resolved.referrals
    }

    /// Whether a candidate is in scope, no matter of a referral, and the filter true of it.
    pub(crate) fn matches(&mut self, stored: &StoredEntry<'_>) -> Result<bool, Refusal> {
        if !self.scope_exact && !self.in_scope(stored)? {
            return Ok(false);
        }
        let schema = &self.state.schema;
        let known = schema.well_known();
        let Resolved { filter, referrals, .. } = *self.resolved;
        if referrals && (referral::is_referral(stored, known) || self.is_below_referral(stored)?) {
            return Ok(false);
        }
        if self.exact {
            return Ok(true);
        }
        // A filter may ask for computed attributes that the client does not want to have.
        let live = LiveEntry::new(self.view, stored, known, true);
        Ok(filter.matches(schema, &self.search.access.searchable(&live)) == Truth::True)
    }

    /// Sends an entry that matches, unless it is one too many.
    pub(crate) fn send(
        &mut self,
        stored: &StoredEntry<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Step, Refusal> {
        if let Some(end) = self.full() {
            return Ok(Step::End(Outcome::Done(end)));
        }
        self.sent += 1;
        self.last = stored.id();
        let known = self.state.schema.well_known();
        let live = LiveEntry::new(self.view, stored, known, self.computed);
        Ok(match sink.entry(&self.search.access.visible(&live, self.resolved.selection)) {
            Flow::Continue => Step::Next,
            Flow::Stop => Step::End(self.stopped()),
        })
    }

    /// Abandon and the time limit, looked at now and then.
    pub(crate) fn interrupted(&mut self) -> Option<Outcome> {
        let is_due = self.seen.is_multiple_of(CANDIDATES_BETWEEN_CHECKS);
        self.seen = self.seen.wrapping_add(1);
        if !is_due {
            return None;
        }
        if self.search.cancel.is_some_and(Cancel::is_set) {
            return Some(Outcome::Abandoned);
        }
        let now = self.search.directory.clock.elapsed();
        self.bounds.deadline.is_some_and(|deadline| now >= deadline).then(|| {
            Outcome::Done(Done::refused(Refusal::new(
                ResultCode::TimeLimitExceeded,
                "the search took longer than allowed; its entries are incomplete",
            )))
        })
    }

    /// Whether one more entry would be one too many.
    pub(crate) fn full(&self) -> Option<Done> {
        if self.bounds.page.is_some_and(|page| self.sent >= page) {
            let asker = self.search.access.identity().authorization_id();
            // A page of size 0 is how a client says that it wants no more (RFC 2696 §3).
            let cookie = if self.bounds.page == Some(0) {
                Vec::new()
            } else {
                let end =
                    Position { after: self.last, sent: self.start.sent.saturating_add(self.sent) };
                self.search.directory.cookie_key.seal(end, self.search.request, &asker)
            };
            return Some(Done::page(&cookie));
        }
        let Bounds { asked_entries, entries, .. } = self.bounds;
        let total = self.start.sent.saturating_add(self.sent);
        let is_full =
            (asked_entries > 0 && total >= asked_entries) || (entries > 0 && self.sent >= entries);
        is_full.then(|| {
            Done::refused(Refusal::new(
                ResultCode::SizeLimitExceeded,
                "more entries match than the size limit allows",
            ))
        })
    }

    pub(crate) fn stopped(&self) -> Outcome {
        if self.search.candidates_max.is_some() { Outcome::TooMuch } else { Outcome::Abandoned }
    }

    fn in_scope(&self, entry: &StoredEntry<'_>) -> Result<bool, Refusal> {
        let base = self.resolved.base;
        Ok(match self.search.request.scope {
            Scope::Base => entry.id() == base,
            Scope::One => entry.parent() == base,
            Scope::Subtree => self.view.is_within(entry, base)?,
            Scope::Subordinate => entry.id() != base && self.view.is_within(entry, base)?,
        })
    }

    /// Neighbours mostly have the same superior, so the last answer is kept.
    fn is_below_referral(&mut self, entry: &StoredEntry<'_>) -> Result<bool, Refusal> {
        let parent = entry.parent();
        match self.parent {
            Some((known, answer)) if known == parent => Ok(answer),
            Some(_) | None => {
                let known = self.state.schema.well_known();
                let answer = referral::is_below(self.view, known, parent)?;
                self.parent = Some((parent, answer));
                Ok(answer)
            }
        }
    }

    /// The referral objects in scope, whether the filter matches them or not (RFC 3296 §3).
    pub(crate) fn references(&mut self, sink: &mut ResponseSink<'_>) -> Result<Step, Refusal> {
        let schema = &self.state.schema;
        let known = schema.well_known();
        let scope = self.search.request.scope;
        let plan =
            self.view.plan(&Ask::new(&referral::filter(known), self.resolved.base, scope))?;
        for stored in plan.entries(self.view, EntryId::ROOT) {
            let stored = stored?;
            if let Some(end) = self.interrupted() {
                return Ok(Step::End(end));
            }
            if !referral::is_referral(&stored, known)
                || !self.in_scope(&stored)?
                || self.is_below_referral(&stored)?
            {
                continue;
            }
            let urls = referral::continuation(&stored, schema, scope);
            if !urls.is_empty() && sink.reference(&urls) == Flow::Stop {
                return Ok(Step::End(self.stopped()));
            }
        }
        Ok(Step::Next)
    }
}

/// How often abandon and the time limit are looked at.
const CANDIDATES_BETWEEN_CHECKS: u32 = 32;
