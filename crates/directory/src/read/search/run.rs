//! The candidates of a search, one by one: in scope? filter true? then limits, then out with it.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::time::Duration;

use aci::Rights;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{EntryId, EntryRead, ResolvedFilter, Truth};
use store::{Ask, Plan, StoredEntry, View};

use super::bounds::{Bounds, too_long};
use super::cost::{GLANCE_STEPS, TERM_STEPS};
use super::deliver::Delivered;
use super::dereference::{Dereference, Followed, Follower, Here};
use super::join::Join;
use super::joined::{Joined, Joiner};
use super::outcome::{Done, SearchOutcome};
use super::parked::{CandidatesSeen, Parked, Phase};
use super::request::{Resolved, Search};
use super::unindexed::looks_for;
use super::usable::finds_all;
use super::work::terms;
use crate::directory::State;
use crate::read::account_usability::AccountsAsked;
use crate::read::computed;
use crate::read::live_entry::{LiveEntry, Shown};
use crate::read::subentry::Visibility;
use crate::request::controls::paged::Position;
use crate::request::controls::response::ResponseControl;
use crate::request::refusal::Refusal;
use crate::request::sink::{Flow, ResponseSink};
use crate::request::{cookie, referral};

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
    /// Which of the attributes that are asked for are sent.
    shown: Shown,
    /// What is asked for of accounts.
    pub(super) accounts: Option<AccountsAsked>,
    pub(crate) bounds: Bounds,
    pub(crate) start: Position,
    /// Names in reference lists that were to be found.
    pub(super) names: u64,
    /// Entries sent for this request.
    pub(crate) sent: u32,
    pub(crate) last: EntryId,
    /// The candidate before the first.
    after: EntryId,
    /// Candidates looked at.
    pub(crate) seen: CandidatesSeen,
    /// How many may be looked at on the thread that reads requests.
    here_max: u64,
    /// How many may count as looked at until [`Self::looked_enough`] is asked.
    look_max: u64,
    /// Only candidates count that the asker may find, since hidden ones may be among them: those in
    /// scope that may be seen and that [`Self::indexable`] is true of. Else all count.
    counts_seen: bool,
    indexable: OnceCell<ResolvedFilter>,
    /// On a pool thread: the filter takes long, whatever the entry holds.
    is_costly: bool,
    /// Of an unindexed search: candidates that may be looked at beside those that it finds.
    spare: Option<u64>,
    /// How many candidates are looked at between two looks at the clock, how many are left until
    /// the next, and when the last was.
    stride: u32,
    until_look: u32,
    looked: Duration,
    /// It was just looked at.
    has_looked: bool,
    /// Later requests wait for the search.
    keeps_order: bool,
    /// The asker may use all of the filter, and see every entry.
    searchable: bool,
    /// The asker may see every entry.
    sees_all: bool,
    /// The superior looked at last, and whether it is or lies below a referral object.
    parent: Option<(EntryId, bool)>,
}

/// What follows an entry that was sent.
pub(crate) enum AfterEntry {
    /// The next one.
    Next,
    /// The receiver has no room for more, or others wait for the thread: the search is to park.
    Park,
    /// The end of the search.
    End(SearchOutcome),
}

impl<'a> Run<'a> {
    /// Begins with what the plan has proved.
    pub(crate) fn new(
        search: &'a Search<'a>,
        view: &'a View<'a>,
        state: &'a State,
        resolved: &'a Resolved<'a>,
        plan: &Plan,
        bounds: Bounds,
        start: Position,
    ) -> Self {
        // Of a subentry asking for an attribute may get a collective one with rules of its own.
        let is_even = resolved.guard.is_bypassed() || resolved.shown != Visibility::Subentries;
        let searchable = resolved.searchable && is_even;
        let sees_all = resolved.guard.sees_all();
        let selection = resolved.selection;
        let computed = computed::descriptions(state.schema.well_known());
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
            shown: Shown::of(search.controls),
            accounts: AccountsAsked::of(search.controls, selection, search.directory, state),
            bounds,
            names: 0,
            sent: 0,
            last: start.after,
            after: start.after,
            start,
            seen: CandidatesSeen::default(),
            here_max: search.candidates_max.unwrap_or(u64::MAX),
            look_max: u64::MAX,
            counts_seen: false,
            indexable: OnceCell::new(),
            is_costly: search.candidates_max.is_none() && takes_long(resolved.filter),
            spare: search.work.spare.get(),
            stride: 1,
            // When the search began was looked at before the plan was made.
            until_look: 1,
            looked: search.begun,
            has_looked: false,
            keeps_order: search.keeps_order,
            searchable: searchable && sees_all,
            sees_all,
            parent: None,
        };
        run.look_at(look_through(&bounds).min(run.spare.unwrap_or(u64::MAX)));
        if run.keeps_order {
            run.count_seen();
        }
        run
    }

    /// At most so many candidates may count as looked at.
    fn look_at(&mut self, most: u64) {
        self.look_max = self.look_max.min(most);
        let may_end = self.look_max < u64::MAX;
        if may_end && !self.counts_seen {
            self.counts_seen = !self.may_count_candidates();
        }
    }

    /// Counts only candidates that the asker may find, whatever the limits are; says whether hidden
    /// ones may be among them.
    pub(super) fn count_seen(&mut self) -> bool {
        self.counts_seen = self.counts_seen || !self.may_count_candidates();
        self.counts_seen
    }

    /// The part of the filter that indexes answer, whatever they hold.
    fn indexable(&self) -> &ResolvedFilter {
        let Resolved { guard, .. } = self.resolved;
        let filter = self.resolved.plan_filter();
        self.indexable
            .get_or_init(|| self.view.indexable(filter, &|one| guard.may_search_all_of(one)).filter)
    }

    /// Goes on where a search has parked.
    pub(crate) fn resume(&mut self, parked: &Parked) {
        (self.sent, self.seen) = (parked.sent, parked.seen);
        if let Phase::Candidates { after, last } = parked.phase {
            (self.after, self.last) = (after, last);
        }
        self.until_look = 0;
    }

    /// The search parks here.
    pub(super) fn parked(&self, phase: Phase) -> SearchOutcome {
        SearchOutcome::parked(phase, self.sent, self.seen)
    }

    /// All candidates after the one the page before ended at, in the order of their ids.
    pub(crate) fn in_id_order(
        &mut self,
        plan: &Plan,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Refusal> {
        let (search, bounds) = (self.search, self.bounds);
        let interrupt = search.interrupt(&bounds);
        for stored in plan.entries_until(self.view, self.after, &interrupt) {
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => return Ok(ControlFlow::Break(search.ended_by(error, &bounds)?)),
            };
            if let Some(end) = self.interrupted() {
                return Ok(ControlFlow::Break(end));
            }
            let mut sent = AfterEntry::Next;
            if self.matches(&stored)? {
                sent = self.send(&stored, sink)?;
            }
            self.release(sink);
            if let AfterEntry::Next = sent {
                sent = self.turn(sink);
            }
            match sent {
                AfterEntry::Next => {}
                AfterEntry::Park => {
                    let (after, last) = (stored.id(), self.last);
                    return Ok(ControlFlow::Break(self.parked(Phase::Candidates { after, last })));
                }
                AfterEntry::End(end) => return Ok(ControlFlow::Break(end)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether every candidate is a match and is sent, as far as the limits allow.
    pub(crate) fn sends_all(&self) -> bool {
        self.exact
            && self.sees_all
            && self.scope_exact
            && !self.resolved.referrals
            && self.resolved.shown != Visibility::Ordinary
    }

    /// Whether the number of candidates tells of no entry that the asker may not find.
    pub(crate) fn may_count_candidates(&self) -> bool {
        let Resolved { filter, guard, .. } = *self.resolved;
        self.searchable && finds_all(filter, guard)
    }

    /// What comes next need not be candidates of the plan: what it has proved holds for them no
    /// more than for any entry.
    pub(super) fn forget_proofs(&mut self) {
        (self.exact, self.proved, self.scope_exact) = (false, false, false);
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
        if !self.counts_seen {
            return Ok(is_match);
        }
        if is_match || self.is_seen(stored) {
            self.seen.counted += 1;
        }
        match self.seen.counted > self.most_looks() {
            true => Err(self.looked_too_often()),
            false => Ok(is_match),
        }
    }

    /// Whether a candidate is one whatever is hidden: the asker may see it, and search for what
    /// made it one.
    fn is_seen(&self, stored: &StoredEntry<'_>) -> bool {
        let schema = &self.state.schema;
        let guard = self.resolved.guard;
        let rights = guard.on(stored);
        let live = LiveEntry::new(self.view, stored, schema.well_known(), true).seen_by(guard);
        let live = live.among(&self.resolved.groups);
        let seen = rights.searchable(&live);
        (self.sees_all || rights.may_see())
            && self.search.evaluate_unseen(self.indexable(), schema, &seen) == Truth::True
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
            Visibility::All => true,
            Visibility::Ordinary => !self.state.subentries.hold(schema, stored),
            Visibility::Subentries => self.state.subentries.hold(schema, stored),
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
        let may_see = || self.sees_all || rights.may_see();
        if self.exact {
            return may_see();
        }
        // Where requests are read all work counts, and how much it was is not told.
        let counts_all = self.searchable || self.search.candidates_max.is_some();
        if !counts_all && self.is_costly && !may_see() {
            return false;
        }
        if self.proved && self.may_use_all(&rights, counts_all) {
            return may_see();
        }
        // A filter may ask for computed attributes that the client does not want to have.
        let live = LiveEntry::new(self.view, stored, known, true).seen_by(guard);
        let live = live.among(&self.resolved.groups);
        let entry = rights.searchable(&live);
        let truth = match counts_all {
            true => self.search.evaluate(filter, schema, &entry),
            false => self.evaluate(stored, &entry),
        };
        let others_steps = live.others_read() * CHILD_STEPS;
        match self.searchable {
            true => self.search.spend(others_steps),
            // Hidden ones are among them.
            false => self.search.spend_unseen(others_steps),
        }
        truth == Truth::True && may_see()
    }

    /// What the filter says of an entry that may be hidden. It counts as work where that is not so.
    fn evaluate(&self, stored: &StoredEntry<'_>, entry: &dyn EntryRead) -> Truth {
        let schema = &self.state.schema;
        let filter = self.resolved.filter;
        if !self.is_costly
            && let Some(truth) = Search::glance(filter, schema, entry)
        {
            return truth;
        }
        match self.is_seen(stored) {
            true => self.search.evaluate(filter, schema, entry),
            false => Truth::Undefined,
        }
    }

    /// Sends an entry that matches, unless it is one too many.
    pub(crate) fn send(
        &mut self,
        stored: &StoredEntry<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<AfterEntry, Refusal> {
        // Whether this one is wanted at all shows when others were looked for.
        let is_picky = self.resolved.join.is_some_and(|join| join.require_match);
        if !is_picky && let Some(end) = self.full() {
            return Ok(AfterEntry::End(SearchOutcome::Done(end)));
        }
        let is_slow = stored.has_lists() && self.has_many_names(stored)?;
        if is_slow && self.search.candidates_max.is_some() {
            return Ok(AfterEntry::End(SearchOutcome::TooMuch));
        }
        let mut others: Vec<ResponseControl> = Vec::new();
        if self.search.controls.is_stream() && !self.says_what_happened(stored, &mut others) {
            return Ok(AfterEntry::Next);
        }
        if let Some(asked) = self.resolved.dereference {
            match self.follow(asked, stored)? {
                Followed::Done(control) => others.extend(control),
                Followed::TooMuch => return Ok(AfterEntry::End(SearchOutcome::TooMuch)),
            }
        }
        if let Some(join) = self.resolved.join {
            match self.join(join, stored)? {
                Joined::Control(control) => others.push(control),
                Joined::Unwanted => return Ok(AfterEntry::Next),
                Joined::End(end) => return Ok(AfterEntry::End(end)),
            }
        }
        if is_picky && let Some(end) = self.full() {
            return Ok(AfterEntry::End(SearchOutcome::Done(end)));
        }
        self.sent += 1;
        self.last = stored.id();
        let known = self.state.schema.well_known();
        let Resolved { selection, wanted, guard, reported, .. } = *self.resolved;
        let live = LiveEntry::new(self.view, stored, known, self.computed)
            .seen_by(guard)
            .selecting(selection)
            .showing(self.shown)
            .among(&self.resolved.groups);
        let rights = guard.on(stored);
        let beside = reported.map(|rights| rights.beside(&live, selection, &self.state.schema));
        let entry: &dyn EntryRead = match &beside {
            Some(beside) => beside,
            None => &live,
        };
        if let Some(end) = self.search.picks(&rights.visible(entry, selection), wanted) {
            return Ok(AfterEntry::End(end));
        }
        let delivered = self.deliver(&Delivered { stored, entry, rights: &rights }, others, sink);
        let others_read = live.others_read();
        if others_read > 0 {
            self.search.spend_unseen(others_read * CHILD_STEPS);
        }
        if stored.has_lists() {
            stored.complete()?;
        }
        Ok(match delivered? {
            Ok(Flow::Continue) => AfterEntry::Next,
            Ok(Flow::Park) => AfterEntry::Park,
            Ok(Flow::Stop) => AfterEntry::End(self.stopped()),
            Err(end) => AfterEntry::End(end),
        })
    }

    /// Sends an entry that has waited for its turn, if it still matches. Then the search parks as
    /// after any entry in parts: what is left of it goes on where it was, when this one was taken.
    pub(super) fn send_deferred(
        &mut self,
        id: EntryId,
        parked: &Parked,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        self.resume(parked);
        self.forget_proofs();
        // It was counted when it was to be sent first.
        self.sent = self.sent.saturating_sub(1);
        self.seen.counted = self.seen.counted.saturating_sub(1);
        if let Some(stored) = self.view.entry(id)?
            && self.matches(&stored)?
            && let AfterEntry::End(end) = self.send(&stored, sink)?
        {
            return Ok(end);
        }
        self.seen = parked.seen;
        if !sink.is_large() && sink.hand_on_all() == Flow::Stop {
            return Ok(self.stopped());
        }
        Ok(self.parked(Phase::AsBefore))
    }

    /// What values of an entry name, unless there are so many that a thread of its own does it.
    fn follow(
        &mut self,
        asked: &Dereference,
        stored: &StoredEntry<'_>,
    ) -> Result<Followed, Refusal> {
        let Resolved { guard, referrals, .. } = *self.resolved;
        let here = self.search.candidates_max.map(|_| Here {
            names: NAMES_HERE_MAX.saturating_sub(self.names),
            bytes: self.search.directory.limits().inline_output_max_bytes,
        });
        let (view, state) = (self.view, self.state);
        let follower = Follower { view, state, guard, stored, referrals, here };
        let (followed, names) = follower.follow(asked)?;
        self.names += names;
        self.search.spend(names * NAME_STEPS);
        Ok(followed)
    }

    /// Joins an entry with others.
    fn join(&self, join: &Join, stored: &StoredEntry<'_>) -> Result<Joined, Refusal> {
        let Resolved { base, guard, referrals, .. } = *self.resolved;
        let (search, view, state) = (self.search, self.view, self.state);
        Joiner { search, view, state, base, referrals }.join(join, stored, guard)
    }

    /// What ends the search before the next candidate is looked at: nobody waits, or it has looked
    /// at too many, or for too long.
    pub(crate) fn interrupted(&mut self) -> Option<SearchOutcome> {
        if self.seen.candidates >= self.here_max {
            return Some(SearchOutcome::TooMuch);
        }
        if !self.counts_seen
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
    fn ended(&mut self) -> Option<SearchOutcome> {
        if self.search.is_abandoned() {
            return Some(SearchOutcome::Abandoned);
        }
        if let Some(end) = self.search.work_over() {
            return Some(end);
        }
        if self.until_look > 0 {
            self.until_look -= 1;
            return None;
        }
        self.is_late().then(|| SearchOutcome::Done(too_long()))
    }

    /// The end of a search that may look at no more candidates.
    #[cold]
    fn looked_enough(&mut self) -> Option<SearchOutcome> {
        self.look_max = self.most_looks();
        if self.seen.candidates < self.look_max {
            return None;
        }
        Some(SearchOutcome::Done(Done::refused(self.looked_too_often())))
    }

    #[cold]
    fn looked_too_often(&mut self) -> Refusal {
        let has_found_too_few = self.most_looks() < look_through(&self.bounds);
        self.search.work.has_found_too_few.set(has_found_too_few);
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

    /// Lets later requests overtake the search as soon as what the asker may find would have
    /// brought it to the pool: sooner would tell of what is hidden.
    pub(crate) fn release(&mut self, sink: &mut ResponseSink<'_>) {
        if !self.keeps_order {
            return;
        }
        let limits = &self.search.directory.limits();
        // More than what may be done where requests are read, however it is counted there.
        let has_worked = self.search.work.spent() > limits.inline_work_max.saturating_mul(2);
        let has_sent = sink.handed_on() > limits.inline_output_max_bytes as u64;
        if self.seen.counted > limits.inline_candidates_max || has_worked || has_sent {
            self.keeps_order = false;
            self.counts_seen = self.look_max < u64::MAX;
            sink.release();
        }
    }

    /// Whether the search is to give its thread to others, after a candidate; asked when the clock
    /// was looked at.
    pub(crate) fn turn(&mut self, sink: &mut ResponseSink<'_>) -> AfterEntry {
        if !std::mem::take(&mut self.has_looked) {
            return AfterEntry::Next;
        }
        match sink.turn() {
            Flow::Continue => AfterEntry::Next,
            Flow::Park => AfterEntry::Park,
            Flow::Stop => AfterEntry::End(self.stopped()),
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
        self.search.is_late(&self.bounds, now)
    }

    /// Whether every attribute of the filter may be searched in an entry.
    fn may_use_all(&self, rights: &Rights<'_>, counts_all: bool) -> bool {
        let (mut may, mut count) = (true, 0);
        self.resolved.filter.visit_descriptions(&mut |one| {
            count += 1;
            may = may && rights.may_search_all(one);
        });
        let steps = count * RIGHT_STEPS;
        match counts_all || (may && self.is_costly) {
            true => self.search.spend(steps),
            // Whether it is a candidate may not be told.
            false => self.search.spend_unseen(steps),
        }
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

    pub(crate) fn stopped(&self) -> SearchOutcome {
        match self.search.stop {
            None => SearchOutcome::TooMuch,
            Some(stop) if !stop.is_abandoned() && stop.is_late() => SearchOutcome::Done(too_long()),
            Some(_) => SearchOutcome::Abandoned,
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
    pub(crate) fn references(
        &mut self,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Refusal> {
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
                Err(error) => return Ok(ControlFlow::Break(search.ended_by(error, &bounds)?)),
            };
            // References are no candidates: hidden ones would count for the look-through limit.
            if let Some(end) = self.ended() {
                return Ok(ControlFlow::Break(end));
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
                    return Ok(ControlFlow::Break(self.parked(Phase::References { after })));
                }
                Flow::Stop => return Ok(ControlFlow::Break(self.stopped())),
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Whether a filter takes long, whatever an entry holds.
fn takes_long(filter: &ResolvedFilter) -> bool {
    terms(filter).saturating_mul(TERM_STEPS) > GLANCE_STEPS
}

/// How many candidates may be looked at.
fn look_through(bounds: &Bounds) -> u64 {
    match bounds.look_through_entries {
        0 => u64::MAX,
        most => most.into(),
    }
}

/// So many names of entries are found where requests are read.
pub(super) const NAMES_HERE_MAX: u64 = 2_000;
/// To find a name of an entry, in steps.
const NAME_STEPS: u64 = CHILD_STEPS / 8;

/// What it costs to find out whether an attribute may be searched.
const RIGHT_STEPS: u64 = 30;

/// What it costs to find out whether a subordinate may be seen.
pub(super) const CHILD_STEPS: u64 = 1_000;

/// Candidates between two looks at the clock, at the most.
const STRIDE_MAX: u32 = 32;

/// How long should be between two looks at the clock, at the most.
const LOOK_EVERY: Duration = Duration::from_millis(1);
