//! Search (RFC 4511 §4.5).
//!
//! Invariant: limits, abandon and back-pressure are checked by `Run`, for entries and references,
//! and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use aci::Access;
use ldap::message::{
    Control, Controls, ControlsBuf, MessageId, ResponseKind, Scope, SearchRequest, StringsBuf,
};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead, ResolvedFilter, Schema, Selection, Truth};
use store::{Plan, StoredEntry, View};

use crate::controls::paged::{self, Position};
use crate::controls::{self, Operation, RequestControls};
use crate::directory::{Directory, State};
use crate::job::Job;
use crate::live_entry::LiveEntry;
use crate::ops::target::{self, Lookup};
use crate::referral;
use crate::refusal::Refusal;
use crate::root_dse::{self, Offer};
use crate::session::{Cancel, Session};
use crate::sink::{Flow, Flush, ResponseSink};
use crate::worker::{Next, Snapshot, Worker};

/// Begins a search: runs it here when few candidates are expected, else makes a job of it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &SearchRequest<'_>,
    controls: &RequestControls<'_>,
    (id, bytes): (MessageId, &[u8]),
    out: &mut Vec<u8>,
) -> Result<Next, Refusal> {
    let Worker { directory, snapshot, .. } = worker;
    let limits = &directory.limits;
    let mut sink = ResponseSink::bounded(out, id, limits.inline_output_max_bytes);
    let search = Search {
        directory,
        access: session.access(),
        request,
        controls,
        cancel: None,
        candidates_max: Some(limits.inline_candidates_max),
        offer: Offer::to(session, directory),
    };
    match search.run(snapshot, &mut sink)? {
        Outcome::Done(done) => {
            done.send(&mut sink);
            Ok(Next::Answered)
        }
        Outcome::Abandoned => Ok(Next::Answered),
        Outcome::TooMuch => {
            sink.take_back();
            let cancel = session.begin(id);
            Ok(Next::Later(Job {
                id,
                message: bytes.to_vec(),
                access: Arc::clone(session.access()),
                cancel,
                exclusive: false,
            }))
        }
    }
}

/// Carries out a search on a pool thread.
pub(crate) fn run_job(
    worker: &mut Worker,
    job: &Job,
    request: &SearchRequest<'_>,
    controls: &Controls<'_>,
    out: &mut Vec<u8>,
    flush: &mut Flush<'_>,
) {
    let Worker { directory, snapshot, .. } = worker;
    let mut sink = ResponseSink::flushed(out, job.id, directory.limits.chunk_bytes, flush);
    let outcome = controls::take(controls, Operation::Search).and_then(|controls| {
        let search = Search {
            directory,
            access: &job.access,
            request,
            controls: &controls,
            cancel: Some(&job.cancel),
            candidates_max: None,
            // The root DSE is never a job.
            offer: Offer::default(),
        };
        search.run(snapshot, &mut sink)
    });
    match outcome {
        Ok(Outcome::Done(done)) => done.send(&mut sink),
        Err(refusal) => Done::refused(refusal).send(&mut sink),
        Ok(Outcome::Abandoned | Outcome::TooMuch) => {}
    }
}

/// One search, with everything it depends on.
struct Search<'a> {
    directory: &'a Directory,
    access: &'a Access,
    request: &'a SearchRequest<'a>,
    controls: &'a RequestControls<'a>,
    cancel: Option<&'a Cancel>,
    /// Candidates up to which it may run here; `None` on a pool thread.
    candidates_max: Option<u64>,
    offer: Offer,
}

/// What the request means here and now.
struct Resolved<'a> {
    base: EntryId,
    filter: &'a ResolvedFilter,
    selection: &'a Selection,
    /// Referral objects are looked out for.
    referrals: bool,
}

/// How a search ended.
enum Outcome {
    /// With an answer.
    Done(Done),
    /// Nobody waits for the answer.
    Abandoned,
    /// It is too large for the thread that reads requests.
    TooMuch,
}

/// What SearchResultDone says.
struct Done {
    refusal: Refusal,
    cookie: Option<Vec<u8>>,
}

impl Done {
    fn refused(refusal: Refusal) -> Self {
        Self { refusal, cookie: None }
    }

    fn success() -> Self {
        Self::refused(Refusal::new(ResultCode::Success, ""))
    }

    fn send(&self, sink: &mut ResponseSink<'_>) {
        let mut urls = StringsBuf::new();
        let result = self.refusal.to_result(&mut urls);
        match &self.cookie {
            None => sink.result(ResponseKind::SearchDone, &result, Controls::EMPTY),
            Some(cookie) => {
                let value = paged::response_value(cookie);
                let mut list = ControlsBuf::new();
                list.push(Control { oid: paged::OID, critical: false, value: Some(&value) });
                sink.result(ResponseKind::SearchDone, &result, list.as_ref());
            }
        }
    }
}

impl Search<'_> {
    fn run(
        &self,
        snapshot: &mut Snapshot,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        let state = self.directory.state.load();
        let schema = &state.schema;
        let request = self.request;
        sink.set_types_only(request.types_only);
        let key = DnKey::from_text(schema, request.base)
            .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
        let filter = ResolvedFilter::resolve(&request.filter, schema);
        let selection = Selection::resolve(request.attributes.iter(), schema);
        if let Some(special) = target::special(self.directory, &state, &key, self.offer)
            && (key.depth() > 0 || request.scope == Scope::Base)
        {
            self.controls.check_assertion(special.entry(), self.access, schema)?;
            return Ok(self.special(special.entry(), schema, &filter, &selection, sink));
        }
        let (view, referrals) =
            snapshot.view_for(schema.well_known(), self.controls.manage_dsa_it)?;
        let base = if key.depth() == 0 {
            EntryId::ROOT
        } else {
            let scope = Some(request.scope);
            target::find(view, &state, &Lookup { name: request.base, key: &key, referrals, scope })?
        };
        if self.controls.assertion.is_some() {
            self.check_base(view, &state, base)?;
        }
        let resolved = Resolved { base, filter: &filter, selection: &selection, referrals };
        self.entries(view, &state, &resolved, sink)
    }

    /// The target of the assertion control is the base of the search (RFC 4528 §3).
    fn check_base(&self, view: &View<'_>, state: &State, base: EntryId) -> Result<(), Refusal> {
        let schema = &state.schema;
        if base == EntryId::ROOT {
            let root = root_dse::entry(self.directory, schema, self.offer);
            return self.controls.check_assertion(&root, self.access, schema);
        }
        let stored = target::stored(view, base)?;
        let live = LiveEntry::new(view, &stored, schema.well_known(), true);
        self.controls.check_assertion(&live, self.access, schema)
    }

    /// A search of an entry the server makes itself: it has nothing below it.
    fn special(
        &self,
        entry: &dyn EntryRead,
        schema: &Schema,
        filter: &ResolvedFilter,
        selection: &Selection,
        sink: &mut ResponseSink<'_>,
    ) -> Outcome {
        let in_scope = match self.request.scope {
            Scope::Base | Scope::Subtree => true,
            Scope::One | Scope::Subordinate => false,
        };
        if in_scope && filter.matches(schema, &self.access.searchable(entry)) == Truth::True {
            let _ = sink.entry(&self.access.visible(entry, selection));
        }
        Outcome::Done(self.complete())
    }

    fn entries(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        let start = self.start()?;
        let plan = view.plan(resolved.filter, resolved.base, self.request.scope)?;
        if self.candidates_max.is_some_and(|max| plan.estimate > max) {
            return Ok(Outcome::TooMuch);
        }
        let mut run = Run::new(self, (view, state), resolved, &plan, start);
        for stored in plan.entries(view, start.after) {
            match run.each(&stored?, sink)? {
                Step::Next => {}
                Step::End(outcome) => return Ok(outcome),
            }
        }
        if resolved.referrals
            && let Step::End(outcome) = run.references(sink)?
        {
            return Ok(outcome);
        }
        Ok(Outcome::Done(self.complete()))
    }

    /// The end of a search that has no more entries to give.
    fn complete(&self) -> Done {
        Done { cookie: self.controls.paged.as_ref().map(|_| Vec::new()), ..Done::success() }
    }

    /// Where the search goes on: at the beginning, or where the page before ended.
    fn start(&self) -> Result<Position, Refusal> {
        match &self.controls.paged {
            Some(paged) if !paged.cookie.is_empty() => {
                let asker = self.access.identity().authorization_id();
                self.directory.cookie_key.open(paged.cookie, self.request, &asker)
            }
            Some(_) | None => Ok(Position { after: EntryId::ROOT, sent: 0 }),
        }
    }

    /// The smaller of what was asked for and what is allowed; the root identity is allowed all.
    fn bounds(&self) -> Bounds {
        let limits = &self.directory.limits;
        let (entries, seconds) = if self.access.is_root() {
            (0, 0)
        } else {
            (limits.size_limit_entries, limits.time_limit_s)
        };
        let time = [self.request.time_limit_s, seconds].into_iter().filter(|&s| s > 0).min();
        Bounds {
            asked_entries: self.request.size_limit_entries,
            entries,
            page: self.controls.paged.as_ref().map(|paged| paged.size_entries),
            deadline: time
                .map(|time| self.directory.clock.elapsed() + Duration::from_secs(time.into())),
        }
    }
}

/// What ends a search before its candidates do.
struct Bounds {
    /// The client's size limit, over all pages; 0 = none.
    asked_entries: u32,
    /// The server's size limit, for each page; 0 = none.
    entries: u32,
    page: Option<u32>,
    deadline: Option<Duration>,
}

/// A search under way.
struct Run<'a> {
    search: &'a Search<'a>,
    view: &'a View<'a>,
    state: &'a State,
    resolved: &'a Resolved<'a>,
    /// The plan proved the filter for every candidate, and the asker may use all of it.
    exact: bool,
    /// The plan proved the scope for every candidate.
    scope_exact: bool,
    /// Computed attributes are asked for.
    computed: bool,
    bounds: Bounds,
    start: Position,
    /// Entries sent for this request.
    sent: u32,
    last: EntryId,
    seen: u32,
    /// The superior looked at last, and whether it is or lies below a referral object.
    parent: Option<(EntryId, bool)>,
}

enum Step {
    Next,
    End(Outcome),
}

impl<'a> Run<'a> {
    fn new(
        search: &'a Search<'a>,
        (view, state): (&'a View<'a>, &'a State),
        resolved: &'a Resolved<'a>,
        plan: &Plan,
        start: Position,
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
            bounds: search.bounds(),
            start,
            sent: 0,
            last: start.after,
            seen: 0,
            parent: None,
        }
    }

    /// One candidate: in scope? filter true? then limits, then out with it.
    fn each(
        &mut self,
        stored: &StoredEntry<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Step, Refusal> {
        if let Some(end) = self.interrupted() {
            return Ok(Step::End(end));
        }
        if !self.scope_exact && !self.in_scope(stored)? {
            return Ok(Step::Next);
        }
        let schema = &self.state.schema;
        let known = schema.well_known();
        let Resolved { filter, selection, referrals, .. } = *self.resolved;
        if referrals && (referral::is_referral(stored, known) || self.is_below_referral(stored)?) {
            return Ok(Step::Next);
        }
        let access = self.search.access;
        if !self.exact {
            // A filter may ask for computed attributes that the client does not want to have.
            let live = LiveEntry::new(self.view, stored, known, true);
            if filter.matches(schema, &access.searchable(&live)) != Truth::True {
                return Ok(Step::Next);
            }
        }
        if let Some(end) = self.full() {
            return Ok(Step::End(Outcome::Done(end)));
        }
        self.sent += 1;
        self.last = stored.id();
        let live = LiveEntry::new(self.view, stored, known, self.computed);
        Ok(match sink.entry(&access.visible(&live, selection)) {
            Flow::Continue => Step::Next,
            Flow::Stop => Step::End(self.stopped()),
        })
    }

    /// Abandon and the time limit, looked at now and then.
    fn interrupted(&mut self) -> Option<Outcome> {
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
    fn full(&self) -> Option<Done> {
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
            return Some(Done { cookie: Some(cookie), ..Done::success() });
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

    fn stopped(&self) -> Outcome {
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
    fn references(&mut self, sink: &mut ResponseSink<'_>) -> Result<Step, Refusal> {
        let schema = &self.state.schema;
        let known = schema.well_known();
        let scope = self.search.request.scope;
        let plan = self.view.plan(&referral::filter(known), self.resolved.base, scope)?;
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
