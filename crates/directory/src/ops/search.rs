//! Search (RFC 4511 §4.5).
//!
//! Invariant: limits, abandon and back-pressure are checked in `Run::each` and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use aci::Access;
use ldap::message::{
    Control, Controls, ControlsBuf, MessageId, ResponseKind, Scope, SearchRequest, StringsBuf,
};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead, ResolvedFilter, Schema, Selection, Truth};
use store::{Reader, StoredEntry, View};

use crate::controls::{self, Operation, RequestControls, paged};
use crate::directory::{Directory, State};
use crate::job::Job;
use crate::live_entry::LiveEntry;
use crate::ops::target::{self, Lookup};
use crate::referral;
use crate::refusal::Refusal;
use crate::root_dse;
use crate::session::{Cancel, Session};
use crate::sink::{Flow, Flush, ResponseSink};
use crate::worker::{Next, Worker};

/// Begins a search: runs it here when few candidates are expected, else makes a job of it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &SearchRequest<'_>,
    controls: &RequestControls<'_>,
    (id, bytes): (MessageId, &[u8]),
    out: &mut Vec<u8>,
) -> Result<Next, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let limits = &directory.limits;
    let mut sink = ResponseSink::bounded(out, id, limits.inline_output_max_bytes);
    let search = Search {
        directory: &directory,
        access: session.access(),
        request,
        controls,
        cancel: None,
        candidates_max: Some(limits.inline_candidates_max),
        offers_external: root_dse::offers_external(session),
    };
    match search.run(&mut worker.reader, &mut sink)? {
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
    let directory = Arc::clone(&worker.directory);
    let mut sink = ResponseSink::flushed(out, job.id, directory.limits.chunk_bytes, flush);
    let outcome = controls::take(controls, Operation::Search).and_then(|controls| {
        let search = Search {
            directory: &directory,
            access: &job.access,
            request,
            controls: &controls,
            cancel: Some(&job.cancel),
            candidates_max: None,
            offers_external: false,
        };
        search.run(&mut worker.reader, &mut sink)
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
    offers_external: bool,
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
    fn run(&self, reader: &mut Reader, sink: &mut ResponseSink<'_>) -> Result<Outcome, Refusal> {
        let state = self.directory.state.load();
        let schema = &state.schema;
        let request = self.request;
        sink.set_types_only(request.types_only);
        let key = DnKey::from_text(schema, request.base)
            .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
        let filter = ResolvedFilter::resolve(&request.filter, schema);
        let selection = Selection::resolve(request.attributes.iter(), schema);
        if let Some(special) = target::special(self.directory, &state, &key, self.offers_external)
            && (key.depth() > 0 || request.scope == Scope::Base)
        {
            return Ok(self.special(special.entry(), schema, &filter, &selection, sink));
        }
        let view = reader.view()?;
        let base = if key.depth() == 0 {
            EntryId::ROOT
        } else {
            let lookup = Lookup {
                name: request.base,
                key: &key,
                manage_dsa_it: self.controls.manage_dsa_it,
                scope: Some(request.scope),
            };
            target::find(view, &state, &lookup)?
        };
        self.entries(view, &state, (base, &filter, &selection), sink)
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
        Outcome::Done(Done::success())
    }

    fn entries(
        &self,
        view: &View<'_>,
        state: &State,
        (base, filter, selection): (EntryId, &ResolvedFilter, &Selection),
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        let known = state.schema.well_known();
        let after = match &self.controls.paged {
            None => EntryId::ROOT,
            Some(paged) if paged.cookie.is_empty() => EntryId::ROOT,
            Some(paged) => {
                let asker = self.access.identity().authorization_id();
                self.directory.cookie_key.open(paged.cookie, self.request, &asker)?
            }
        };
        let plan = view.plan(filter, base, self.request.scope)?;
        if self.candidates_max.is_some_and(|max| plan.estimate > max) {
            return Ok(Outcome::TooMuch);
        }
        let mut searchable = true;
        filter.visit_descriptions(&mut |one| searchable &= self.access.may_search(one));
        let mut run = Run {
            search: self,
            view,
            state,
            base,
            filter,
            selection,
            exact: plan.exact && searchable,
            computed: LiveEntry::computed_descriptions(known)
                .iter()
                .any(|description| selection.selects(description)),
            referrals: !self.controls.manage_dsa_it && referral::any(view, known)?,
            bounds: self.bounds(),
            sent: 0,
            last: after,
            seen: 0,
        };
        for id in plan.candidates(view, after) {
            match run.each(id?, sink)? {
                Step::Next => {}
                Step::End(outcome) => return Ok(outcome),
            }
        }
        if run.referrals {
            run.references(sink)?;
        }
        Ok(Outcome::Done(Done {
            cookie: self.controls.paged.as_ref().map(|_| Vec::new()),
            ..Done::success()
        }))
    }

    /// The smaller of what was asked for and what is allowed; the root identity is allowed all.
    fn bounds(&self) -> Bounds {
        let limits = &self.directory.limits;
        let smaller = |asked: u32, allowed: u32| match (asked, allowed) {
            (0, 0) => None,
            (0, one) | (one, 0) => Some(one),
            (asked, allowed) => Some(asked.min(allowed)),
        };
        let (entries, seconds) = if self.access.is_root() {
            (0, 0)
        } else {
            (limits.size_limit_entries, limits.time_limit_s)
        };
        let time = smaller(self.request.time_limit_s, seconds);
        Bounds {
            entries: smaller(self.request.size_limit_entries, entries),
            page: self.controls.paged.as_ref().map(|paged| paged.size_entries),
            deadline: time
                .map(|s| self.directory.clock.elapsed() + Duration::from_secs(u64::from(s))),
        }
    }
}

/// What ends a search before its candidates do.
struct Bounds {
    entries: Option<u32>,
    page: Option<u32>,
    deadline: Option<Duration>,
}

/// A search under way.
struct Run<'a> {
    search: &'a Search<'a>,
    view: &'a View<'a>,
    state: &'a State,
    base: EntryId,
    filter: &'a ResolvedFilter,
    selection: &'a Selection,
    /// The plan proved the filter for every candidate, and the asker may use all of it.
    exact: bool,
    computed: bool,
    referrals: bool,
    bounds: Bounds,
    sent: u32,
    last: EntryId,
    seen: u32,
}

enum Step {
    Next,
    End(Outcome),
}

impl Run<'_> {
    /// One candidate: in scope? filter true? then limits, then out with it.
    fn each(&mut self, id: EntryId, sink: &mut ResponseSink<'_>) -> Result<Step, Refusal> {
        if let Some(end) = self.interrupted() {
            return Ok(Step::End(end));
        }
        let Some(stored) = self.view.entry(id)? else {
            return Ok(Step::Next);
        };
        if !self.in_scope(&stored)? {
            return Ok(Step::Next);
        }
        let schema = &self.state.schema;
        let known = schema.well_known();
        if self.referrals && referral::is_referral(&stored, known) {
            return Ok(Step::Next);
        }
        let live = LiveEntry::new(self.view, &stored, known, self.computed);
        let access = self.search.access;
        if !self.exact && self.filter.matches(schema, &access.searchable(&live)) != Truth::True {
            return Ok(Step::Next);
        }
        if let Some(end) = self.full() {
            return Ok(Step::End(Outcome::Done(end)));
        }
        self.sent += 1;
        self.last = id;
        Ok(match sink.entry(&access.visible(&live, self.selection)) {
            Flow::Continue => Step::Next,
            Flow::Stop => Step::End(self.stopped()),
        })
    }

    /// Abandon and the time limit, looked at now and then.
    fn interrupted(&mut self) -> Option<Outcome> {
        self.seen += 1;
        if self.seen % CANDIDATES_BETWEEN_CHECKS != 0 {
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
                self.search.directory.cookie_key.seal(self.last, self.search.request, &asker)
            };
            return Some(Done { cookie: Some(cookie), ..Done::success() });
        }
        self.bounds.entries.is_some_and(|max| self.sent >= max).then(|| {
            Done::refused(Refusal::new(
                ResultCode::SizeLimitExceeded,
                format!("more entries match than the {} allowed", self.sent),
            ))
        })
    }

    fn stopped(&self) -> Outcome {
        if self.search.candidates_max.is_some() { Outcome::TooMuch } else { Outcome::Abandoned }
    }

    fn in_scope(&self, entry: &StoredEntry<'_>) -> Result<bool, Refusal> {
        Ok(match self.search.request.scope {
            Scope::Base => entry.id() == self.base,
            Scope::One => entry.parent() == self.base,
            Scope::Subtree => entry.id() == self.base || self.view.is_within(entry, self.base)?,
            Scope::Subordinate => {
                entry.id() != self.base && self.view.is_within(entry, self.base)?
            }
        })
    }

    /// The referral objects in scope, whether the filter matches them or not (RFC 3296 §3).
    fn references(&mut self, sink: &mut ResponseSink<'_>) -> Result<(), Refusal> {
        let schema = &self.state.schema;
        let known = schema.well_known();
        let scope = self.search.request.scope;
        let plan = self.view.plan(&referral::filter(known), self.base, scope)?;
        for id in plan.candidates(self.view, EntryId::ROOT) {
            let Some(stored) = self.view.entry(id?)? else { continue };
            if self.in_scope(&stored)? && referral::is_referral(&stored, known) {
                let urls = referral::continuation(&stored, schema, scope);
                if !urls.is_empty() && sink.reference(&urls) == Flow::Stop {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// How often abandon and the time limit are looked at.
const CANDIDATES_BETWEEN_CHECKS: u32 = 32;
