//! The candidates of a search, one by one: in scope? filter true? then limits, then out with it.

use std::time::Duration;

use aci::Rights;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{EntryId, EntryRead, ResolvedFilter, Truth};
use store::{Ask, Plan, StoredEntry, View};

use super::bounds::too_long;
use super::parked::{Parked, Phase};
use super::unindexed::looks_for;
use super::usable::finds_all;
use super::{Bounds, Done, Outcome, Resolved, Search};
use crate::directory::State;
use crate::read::live_entry::LiveEntry;
use crate::read::subentry::Shown;
use crate::request::controls::account_usability::AccountsAsked;
use crate::request::controls::paged::Position;
use crate::request::refusal::Refusal;
use crate::request::sink::{Flow, ResponseSink};
use crate::request::{cookie, referral};
use crate::write::decide::ResponseControl;

/// A search under way.
pub(crate) struct Run<'a> {
    pub(crate) search: &'a Search<'a>,
    pub(crate) view: &'a View<'a>,
    pub(crate) state: &'a State,
    pub(crate) resolved: &'a Resolved<'a>,
    /// The plan proved the filter for every candidate.
    proved: bool,
    /// The same, and the asker may use all of it in every entry.
    exact: bool,
    /// The plan proved the scope for every candidate.
    scope_exact: bool,
    /// Computed attributes are asked for.
    computed: bool,
    /// What is asked for of accounts.
    accounts: Option<AccountsAsked>,
    pub(crate) bounds: Bounds,
    pub(crate) start: Position,
    /// Entries sent for this request.
    pub(crate) sent: u32,
    pub(crate) last: EntryId,
    /// The candidate before the first.
    after: EntryId,
    /// Candidates looked at.
    pub(crate) seen: Seen,
    /// How many may count as looked at until [`Self::looked_enough`] is asked.
    look_max: u64,
    /// Which candidates count, where hidden ones may be among them: those in scope that may be seen
    /// and that this is true of. None: all count.
    counted: Option<ResolvedFilter>,
    /// Of an unindexed search: candidates that may be looked at beside those that it finds.
    spare: Option<u64>,
    has_found_too_few: bool,
    /// How many candidates are looked at between two looks at the clock, how many are left until
    /// the next, and when the last was.
    stride: u32,
    until_look: u32,
    looked: Duration,
    /// It was just looked at.
    has_looked: bool,
    /// The asker may use all of the filter, and see every entry.
    searchable: bool,
    /// The asker may see every entry.
    sees_all: bool,
    /// The superior looked at last, and whether it is or lies below a referral object.
    parent: Option<(EntryId, bool)>,
}

/// How many candidates were looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// All of them, for the log.
    pub(crate) candidates: u64,
    /// Those that the asker may see, where only they count for limits.
    counted: u64,
}

/// What comes of sending an entry.
pub(crate) enum Sent {
    /// The next one.
    Next,
    /// The receiver has no room for more, or others wait for the thread: the search is to park.
    Park,
    /// The end of the search.
    End(Outcome),
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
        // Of a subentry asking for an attribute may get a collective one with rules of its own.
        let is_even = resolved.guard.is_bypassed() || resolved.shown != Shown::Subentries;
        let searchable = resolved.searchable && is_even;
        let sees_all = resolved.guard.sees_all();
        let selection = resolved.selection;
        let computed = LiveEntry::computed_descriptions(state.schema.well_known());
        let mut run = Self {
            search,
            view,
            state,
            resolved,
            proved: plan.exact && is_even,
            exact: plan.exact && searchable,
            scope_exact: plan.scope_exact && resolved.regions.is_none(),
            computed: selection.may_select_operational()
                && computed.iter().any(|description| selection.selects(description)),
            accounts: AccountsAsked::of(search.controls, selection, search.directory, state),
            bounds,
            sent: 0,
            last: start.after,
            after: start.after,
            start,
            seen: Seen::default(),
            look_max: u64::MAX,
            counted: None,
            spare: None,
            has_found_too_few: false,
            stride: 1,
            // When the search began was looked at before the plan was made.
            until_look: 1,
            looked: search.begun,
            has_looked: false,
            searchable: searchable && sees_all,
            sees_all,
            parent: None,
        };
        run.look_at(look_through(&bounds));
        run
    }

    /// At most so many candidates may count as looked at.
    fn look_at(&mut self, most: u64) {
        self.look_max = self.look_max.min(most);
        let may_end = self.look_max < u64::MAX;
        if may_end && self.counted.is_none() && !self.may_count_candidates() {
            self.counted = Some(self.view.indexable(self.resolved.filter).filter);
        }
    }

    /// Goes on where a search has parked.
    pub(crate) fn resume(&mut self, parked: &Parked) {
        (self.sent, self.seen) = (parked.sent, parked.seen);
        if let Phase::Candidates { after, last } = parked.phase {
            (self.after, self.last) = (after, last);
        }
        self.until_look = 0;
    }

    /// It may look at `spare` candidates beside those that it finds.
    pub(super) fn look_for(&mut self, spare: u64) {
        self.spare = Some(spare);
        self.look_at(spare);
    }

    /// Whether it has ended because it had found too few.
    pub(super) fn has_found_too_few(&self) -> bool {
        self.has_found_too_few
    }

    /// The search parks here.
    pub(super) fn parked(&self, phase: Phase) -> Outcome {
        Parked::at(phase, (self.sent, self.seen))
    }

    /// All candidates after the one the page before ended at, in the order of their ids.
    pub(crate) fn in_id_order(
        &mut self,
        plan: &Plan,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Step, Refusal> {
        let (search, bounds) = (self.search, self.bounds);
        let interrupt = search.interrupt(&bounds);
        for stored in plan.entries_until(self.view, self.after, &interrupt) {
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => return Ok(Step::End(search.ended_by(error, &bounds)?)),
            };
            if let Some(end) = self.interrupted() {
                return Ok(Step::End(end));
            }
            let mut sent = Sent::Next;
            if self.matches(&stored)? {
                sent = self.send(&stored, sink)?;
            }
            if let Sent::Next = sent {
                sent = self.turn(sink);
            }
            match sent {
                Sent::Next => {}
                Sent::Park => {
                    let (after, last) = (stored.id(), self.last);
                    return Ok(Step::End(self.parked(Phase::Candidates { after, last })));
                }
                Sent::End(end) => return Ok(Step::End(end)),
            }
        }
        Ok(Step::Next)
    }

    /// Whether every candidate is a match and is sent, as far as the limits allow.
    pub(crate) fn sends_all(&self) -> bool {
        self.exact
            && self.sees_all
            && self.scope_exact
            && !self.resolved.referrals
            && self.resolved.shown != Shown::Ordinary
    }

    /// Whether the number of candidates tells of no entry that the asker may not find.
    pub(crate) fn may_count_candidates(&self) -> bool {
        let Resolved { filter, guard, .. } = *self.resolved;
        self.searchable && finds_all(filter, guard)
    }

    /// Whether a candidate is in scope, no matter of a referral, and the filter true of it.
    ///
    /// Refuses with `adminLimitExceeded` one that the asker may see and that is too many to be
    /// looked at, where hidden ones may be among the candidates: whether some follow is not told.
    pub(crate) fn matches(&mut self, stored: &StoredEntry<'_>) -> Result<bool, Refusal> {
        if !self.is_concerned(stored)? {
            return Ok(false);
        }
        let is_match = self.is_true_of(stored);
        let Some(counted) = &self.counted else { return Ok(is_match) };
        if is_match || self.is_seen_among(counted, stored) {
            self.seen.counted += 1;
        }
        match self.seen.counted > self.most_looks() {
            true => Err(self.looked_too_often()),
            false => Ok(is_match),
        }
    }

    /// Whether an entry is one that the asker may see, and a filter true of it.
    fn is_seen_among(&self, filter: &ResolvedFilter, stored: &StoredEntry<'_>) -> bool {
        let schema = &self.state.schema;
        let guard = self.resolved.guard;
        let rights = guard.on(stored);
        let live = LiveEntry::new(self.view, stored, schema.well_known(), true).seen_by(guard);
        let seen = rights.searchable(&live);
        rights.may_see() && self.search.evaluate(filter, schema, &seen) == Truth::True
    }

    /// Whether a candidate is in scope, no matter of a referral, and to be shown if it matches.
    fn is_concerned(&mut self, stored: &StoredEntry<'_>) -> Result<bool, Refusal> {
        if !self.scope_exact && !self.in_scope(stored)? {
            return Ok(false);
        }
        let schema = &self.state.schema;
        let Resolved { referrals, shown, .. } = *self.resolved;
        let is_referral = |run: &mut Self| {
            let is_one = referral::is_referral(stored, schema.well_known());
            Ok::<_, Refusal>(is_one || run.is_below_referral(stored)?)
        };
        if referrals && is_referral(self)? {
            return Ok(false);
        }
        Ok(match shown {
            Shown::All => true,
            Shown::Ordinary => !self.state.subentries.hold(schema, stored),
            Shown::Subentries => self.state.subentries.hold(schema, stored),
        })
    }

    /// Whether the filter is true of an entry that the asker may see.
    fn is_true_of(&self, stored: &StoredEntry<'_>) -> bool {
        if self.exact && self.sees_all {
            return true;
        }
        let schema = &self.state.schema;
        let known = schema.well_known();
        let Resolved { filter, guard, .. } = *self.resolved;
        let rights = guard.on(stored);
        let is_match = self.exact || (self.proved && self.may_use_all(filter, &rights)) || {
            // A filter may ask for computed attributes that the client does not want to have.
            let live = LiveEntry::new(self.view, stored, known, true).seen_by(guard);
            let truth = self.search.evaluate(filter, schema, &rights.searchable(&live));
            self.search.spend(live.children_read() * CHILD_STEPS);
            truth == Truth::True
        };
        is_match && (self.sees_all || rights.may_see())
    }

    /// Sends an entry that matches, unless it is one too many.
    pub(crate) fn send(
        &mut self,
        stored: &StoredEntry<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Sent, Refusal> {
        if let Some(end) = self.full() {
            return Ok(Sent::End(Outcome::Done(end)));
        }
        self.sent += 1;
        self.last = stored.id();
        let known = self.state.schema.well_known();
        let Resolved { selection, wanted, guard, told, .. } = *self.resolved;
        let live = LiveEntry::new(self.view, stored, known, self.computed).seen_by(guard);
        let rights = guard.on(stored);
        let beside = told.map(|told| told.beside(&live, selection, &self.state.schema));
        let entry: &dyn EntryRead = match &beside {
            Some(beside) => beside,
            None => &live,
        };
        if let Some(end) = self.search.picks(entry, self.resolved.wanted) {
            return Ok(Sent::End(end));
        }
        let flow = match &self.accounts {
            None => sink.entry(&rights.visible(entry, selection).only(wanted)),
            Some(asked) => self.send_account((asked, stored), entry, &rights, sink),
        };
        Ok(match flow {
            Flow::Continue => Sent::Next,
            Flow::Park => Sent::Park,
            Flow::Stop => Sent::End(self.stopped()),
        })
    }

    /// Sends an entry with what is asked for of its account.
    fn send_account(
        &self,
        (asked, stored): (&AccountsAsked, &StoredEntry<'_>),
        entry: &dyn EntryRead,
        rights: &Rights<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Flow {
        let Resolved { selection, wanted, guard, .. } = *self.resolved;
        let directory = self.search.directory;
        let Some((known, key)) = asked.account((directory, self.state), guard, self.view, stored)
        else {
            return sink.entry(&rights.visible(entry, selection).only(wanted));
        };
        let beside = asked.beside(entry, &known);
        let control = asked.control((&known, &key), (guard.access(), rights), directory);
        let visible = rights.visible(&beside, selection).only(wanted);
        let controls = ResponseControl::list(control.as_slice());
        sink.entry_with(&visible, controls.as_ref())
    }

    /// What ends the search before the next candidate is looked at: nobody waits, or it has looked
    /// at too many, or for too long.
    pub(crate) fn interrupted(&mut self) -> Option<Outcome> {
        if self.counted.is_none()
            && self.seen.candidates >= self.look_max
            && let Some(end) = self.looked_enough()
        {
            return Some(end);
        }
        self.seen.candidates += 1;
        self.search.note.candidates(self.seen.candidates);
        self.ended()
    }

    /// What ends the search before the next step: nobody waits, or it takes too long.
    fn ended(&mut self) -> Option<Outcome> {
        if self.search.is_abandoned() {
            return Some(Outcome::Abandoned);
        }
        if let Some(end) = self.search.work_over() {
            return Some(end);
        }
        if self.until_look > 0 {
            self.until_look -= 1;
            return None;
        }
        self.is_late().then(|| Outcome::Done(too_long()))
    }

    /// The end of a search that may look at no more candidates.
    #[cold]
    fn looked_enough(&mut self) -> Option<Outcome> {
        self.look_max = self.most_looks();
        if self.seen.candidates < self.look_max {
            return None;
        }
        Some(Outcome::Done(Done::refused(self.looked_too_often())))
    }

    #[cold]
    fn looked_too_often(&mut self) -> Refusal {
        self.has_found_too_few = self.most_looks() < look_through(&self.bounds);
        Refusal::new(
            ResultCode::AdminLimitExceeded,
            "the search would look at more entries than the look-through limit allows; \
             its entries are incomplete",
        )
    }

    /// How many candidates may count as looked at, with those found so far.
    fn most_looks(&self) -> u64 {
        let found = self.spare.map_or(u64::MAX, |spare| spare + looks_for(self.sent));
        look_through(&self.bounds).min(found)
    }

    /// Whether the search is to give its thread to others, after a candidate; asked when the clock
    /// was looked at.
    pub(crate) fn turn(&mut self, sink: &mut ResponseSink<'_>) -> Sent {
        if !std::mem::take(&mut self.has_looked) {
            return Sent::Next;
        }
        match sink.turn() {
            Flow::Continue => Sent::Next,
            Flow::Park => Sent::Park,
            Flow::Stop => Sent::End(self.stopped()),
        }
    }

    /// Looks at the clock. Candidates may cost a microsecond each, or milliseconds: the number of
    /// them between two looks adapts.
    fn is_late(&mut self) -> bool {
        let now = self.search.directory.clock.elapsed();
        if now.saturating_sub(self.looked) > LOOK_EVERY {
            self.stride = (self.stride / 2).max(1);
        } else {
            self.stride = (self.stride * 2).min(STRIDE_MAX);
        }
        self.looked = now;
        self.until_look = self.stride - 1;
        self.has_looked = true;
        self.bounds.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether every attribute of a filter may be searched in an entry.
    fn may_use_all(&self, filter: &ResolvedFilter, rights: &Rights<'_>) -> bool {
        let (mut may, mut count) = (true, 0);
        filter.visit_descriptions(&mut |one| {
            count += 1;
            may = may && rights.may_search_all(one);
        });
        self.search.spend(count * RIGHT_STEPS);
        may
    }

    /// Whether one more entry would be one too many.
    pub(crate) fn full(&self) -> Option<Done> {
        if self.bounds.page.is_some_and(|page| self.sent >= page) {
            // A page of size 0 is how a client says that it wants no more (RFC 2696 §3).
            let cookie = if self.bounds.page == Some(0) {
                Vec::new()
            } else {
                let end =
                    Position { after: self.last, sent: self.start.sent.saturating_add(self.sent) };
                self.search.seal(cookie::PAGE, &end.to_octets(), &self.search.binding())
            };
            return Some(Done::page(&cookie));
        }
        let Bounds { total_entries, entries, .. } = self.bounds;
        let total = self.start.sent.saturating_add(self.sent);
        let is_full =
            (total_entries > 0 && total >= total_entries) || (entries > 0 && self.sent >= entries);
        is_full.then(|| {
            Done::refused(Refusal::new(
                ResultCode::SizeLimitExceeded,
                "more entries match than the size limit allows",
            ))
        })
    }

    pub(crate) fn stopped(&self) -> Outcome {
        match self.search.stop {
            None => Outcome::TooMuch,
            Some(stop) if !stop.is_abandoned() && stop.is_late() => Outcome::Done(too_long()),
            Some(_) => Outcome::Abandoned,
        }
    }

    fn in_scope(&self, entry: &StoredEntry<'_>) -> Result<bool, Refusal> {
        let Resolved { base, scope, regions, .. } = self.resolved;
        if let Some(regions) = regions {
            return Ok(regions.contains(self.view, entry)?
                && regions.shows(entry, self.state.schema.well_known()));
        }
        let base = *base;
        Ok(match *scope {
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
        let Resolved { base, scope, .. } = *self.resolved;
        let plan = self.view.plan(&Ask::new(&referral::filter(known), base, scope))?;
        let scope = self.search.request.scope;
        let (search, bounds) = (self.search, self.bounds);
        let interrupt = search.interrupt(&bounds);
        let after = match search.resumed.map(|parked| &parked.phase) {
            Some(Phase::References { after }) => *after,
            Some(_) | None => EntryId::ROOT,
        };
        for stored in plan.entries_until(self.view, after, &interrupt) {
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => return Ok(Step::End(search.ended_by(error, &bounds)?)),
            };
            // References are no candidates: hidden ones would count for the look-through limit.
            if let Some(end) = self.ended() {
                return Ok(Step::End(end));
            }
            if !referral::is_referral(&stored, known)
                || !self.in_scope(&stored)?
                || self.is_below_referral(&stored)?
                || !referral::may_follow(&self.resolved.guard.on(&stored), known)
            {
                continue;
            }
            let urls = referral::continuation(&stored, schema, scope);
            if urls.is_empty() {
                continue;
            }
            match sink.reference(&urls) {
                Flow::Continue => {}
                Flow::Park => {
                    let after = stored.id();
                    return Ok(Step::End(self.parked(Phase::References { after })));
                }
                Flow::Stop => return Ok(Step::End(self.stopped())),
            }
        }
        Ok(Step::Next)
    }
}

/// How many candidates may be looked at.
fn look_through(bounds: &Bounds) -> u64 {
    match bounds.look_through_entries {
        0 => u64::MAX,
        most => most.into(),
    }
}

/// What it costs to find out whether an attribute may be searched.
const RIGHT_STEPS: u64 = 30;

/// What it costs to find out whether a subordinate may be seen.
pub(super) const CHILD_STEPS: u64 = 1_000;

/// Candidates between two looks at the clock, at the most.
const STRIDE_MAX: u32 = 32;

/// How long should be between two looks at the clock, at the most.
const LOOK_EVERY: Duration = Duration::from_millis(1);
