//! Search (RFC 4511 §4.5): what is asked for, and the steps of the answer in their order.
//!
//! Invariant: limits, abandon and back-pressure are checked by `Run`, for entries and references,
//! and nowhere else.

pub(crate) mod aliases;
mod bounds;
mod chain;
pub(crate) mod cost;
mod count;
mod done;
mod explain;
mod parked;
mod run;
mod sorted;
mod special;
mod unindexed;
mod usable;

use std::sync::Arc;
use std::time::Duration;

use aci::{Access, Privilege, WantedValues};
use ldap::message::{Controls, DerefAliases, Scope, SearchRequest};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead, ResolvedFilter, Schema, Selection, Truth};
use store::{Ask, View};

use self::aliases::Regions;
pub(crate) use self::bounds::Bounds;
use self::chain::Expanded;
use self::cost::Work;
pub(crate) use self::done::Done;
use self::parked::Phase;
pub(crate) use self::parked::{Budget, Parked};
pub(crate) use self::run::{Run, Sent, Step};
use self::usable::Usable;
use crate::access::guard::{Guard, Site, guarded};
use crate::bind::recheck;
use crate::directory::{Directory, State};
use crate::read::analyser::{SAMPLED_ONE_IN, Watch};
use crate::read::live_entry::LiveEntry;
use crate::read::root_dse::{self, Offer};
use crate::read::subentry::Shown;
use crate::read::target::{self, Lookup};
use crate::read::virtual_tree;
use crate::request::completion::Completion;
use crate::request::controls::effective_rights::Told;
use crate::request::controls::paged::Position;
use crate::request::controls::{self, Operation, RequestControls, assertion, matched_values};
use crate::request::cookie::{self, CookieFault, CookieKind};
use crate::request::job::Job;
use crate::request::name_memo::NameMemo;
use crate::request::note::Note;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::snapshot::{Ground, Snapshot};
use crate::request::stop::Stop;
use crate::request::worker::{Next, Worker};

/// Begins a search: runs it here when few candidates are expected, else makes a job of it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &SearchRequest<'_>,
    (controls, envelope): (&RequestControls<'_>, Envelope<'_>),
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let Worker { directory, snapshot, names, recorder, .. } = worker;
    let note = Note::default();
    let watch = recorder.is_due().then(|| Watch::new(recorder, SAMPLED_ONE_IN, &*directory.clock));
    let limits = &directory.limits;
    let terms_max = limits.inline_terms_max;
    let Envelope { id, operation, bytes, .. } = envelope;
    sink.limit(limits.inline_output_max_bytes);
    let search = Search {
        directory,
        access: session.access(),
        request,
        controls,
        stop: None,
        candidates_max: Some(limits.inline_candidates_max),
        keeps_order: false,
        begun: directory.clock.elapsed(),
        session: Some(session),
        resumed: None,
        watch,
        note: &note,
        work: Work::default(),
    };
    // The root DSE is never a job, and a filter changes little about it.
    let is_small = bytes.len() <= cost::SMALL_BYTES
        || cost::is_root_dse(request)
        || !cost::is_large(request, terms_max);
    let outcome = match is_small {
        true => search.run((snapshot, names), sink),
        false => Ok(Outcome::TooMuch),
    };
    sink.note(&note);
    let outcome = outcome?;
    match outcome {
        Outcome::Done(done) => Ok(Next::Answered(done.send(sink))),
        Outcome::Abandoned => Ok(Next::Answered(sink.nothing())),
        // Nothing parks here: the answer is kept, up to a limit.
        Outcome::TooMuch | Outcome::Parked(_) => {
            sink.take_back();
            let keeps_order = search.work.keeps_order();
            let deadline = search.bounds().deadline;
            let stop = Stop::new(session.begin(id), Arc::clone(&directory.clock));
            // What keeps its order begins when a thread takes it: here it would not have waited.
            stop.set_deadline(deadline.filter(|_| !keeps_order));
            Ok(Next::Later(Job {
                id,
                operation,
                message: bytes.to_vec(),
                access: Arc::clone(session.access()),
                denied: controls.denied.clone(),
                stop,
                keeps_order,
                is_assumed: session.is_assumed(),
                parked: None,
            }))
        }
    }
}

/// Carries out a search on a pool thread, or goes on with it.
///
/// # Errors
/// Where it goes on, when it parks.
pub(crate) fn run_job(
    worker: &mut Worker,
    job: &Job,
    request: &SearchRequest<'_>,
    controls: &Controls<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Completion, Box<Parked>> {
    let Worker { directory, snapshot, names, recorder, .. } = worker;
    let note = sink.noted();
    let resumed = job.parked.as_deref();
    let outcome = controls::take(controls, Operation::Search, &job.denied).and_then(|controls| {
        // It has waited: for its turn, or for its client.
        let state = directory.state.load();
        recheck::check((directory, &state), snapshot.view()?, &job.access)?;
        let begun = directory.clock.elapsed();
        let watch = Watch::new(recorder, 1, &*directory.clock);
        let search = Search {
            directory,
            access: &job.access,
            request,
            controls: &controls,
            stop: Some(&job.stop),
            candidates_max: None,
            keeps_order: job.keeps_order,
            begun,
            // The root DSE is never a job.
            session: None,
            resumed,
            watch: Some(match resumed {
                None => watch,
                Some(parked) => watch.resumed(parked.begun, parked.planned),
            }),
            note: &note,
            work: Work::after(resumed.map_or(0, |parked| parked.spent)),
        };
        if job.keeps_order && resumed.is_none() {
            job.stop.set_deadline(search.bounds().deadline);
        }
        let mut outcome = search.run((snapshot, names), sink)?;
        if let Outcome::Parked(parked) = &mut outcome {
            parked.begun = resumed.map_or(begun, |before| before.begun);
            parked.planned = search.watch.as_ref().and_then(Watch::plan);
            parked.spent = search.work.spent();
        }
        Ok(match resumed {
            None => outcome,
            Some(parked) => outcome.resumed(parked),
        })
    });
    sink.note(&note);
    match outcome {
        Ok(Outcome::Done(done)) => Ok(done.send(sink)),
        Err(refusal) => Ok(sink.end(refusal, Controls::EMPTY)),
        Ok(Outcome::Parked(parked)) => Err(parked),
        Ok(Outcome::Abandoned | Outcome::TooMuch) => Ok(sink.nothing()),
    }
}

/// One search, with everything it depends on.
pub(crate) struct Search<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) access: &'a Access,
    pub(crate) request: &'a SearchRequest<'a>,
    pub(crate) controls: &'a RequestControls<'a>,
    /// What ends it from outside; `None` on the thread that reads requests.
    pub(crate) stop: Option<&'a Stop>,
    /// Candidates up to which it may run here; `None` on a pool thread.
    pub(crate) candidates_max: Option<u64>,
    /// On a pool thread, because of what the asker may not find: later requests wait (see
    /// [`Run::release`]).
    pub(crate) keeps_order: bool,
    /// When it began on this thread.
    pub(crate) begun: Duration,
    /// Whose connection it came on, where the root DSE may be asked for.
    pub(crate) session: Option<&'a Session>,
    /// Where it goes on, when it has parked.
    pub(crate) resumed: Option<&'a Parked>,
    /// Set when the search is measured.
    pub(crate) watch: Option<Watch<'a>>,
    /// What the access log tells of it.
    pub(crate) note: &'a Note,
    /// What it has cost.
    pub(crate) work: Work,
}

/// What the request means here and now.
pub(crate) struct Resolved<'a> {
    /// Base and scope; where aliases are followed, the lowest subtree with all that they lead to.
    pub(crate) base: EntryId,
    pub(crate) scope: Scope,
    /// Where to look exactly, when aliases in scope are followed.
    pub(crate) regions: Option<Regions>,
    pub(crate) filter: &'a ResolvedFilter,
    pub(crate) selection: &'a Selection,
    /// Referral objects are looked out for.
    pub(crate) referrals: bool,
    /// Which of the entries found are shown.
    pub(crate) shown: Shown,
    /// Which of their values are.
    pub(crate) wanted: Option<WantedValues<'a>>,
    /// Whether the asker may use all of the filter in every entry.
    pub(crate) searchable: bool,
    /// What the asker may see.
    pub(crate) guard: &'a Guard<'a>,
    /// Whose rights are told beside the entries.
    pub(crate) told: Option<&'a Told<'a>>,
}

/// What is asked for: where, which entries, which attributes of them, and which values of those.
type Asked<'a> = (&'a DnKey, &'a ResolvedFilter, &'a Selection, Option<WantedValues<'a>>);

/// How a search ended.
pub(crate) enum Outcome {
    /// With an answer.
    Done(Done),
    /// Nobody waits for the answer.
    Abandoned,
    /// It is too large for the thread that reads requests.
    TooMuch,
    /// Not at all yet: its receiver has no room, or others wait for the thread.
    Parked(Box<Parked>),
}

impl Search<'_> {
    fn run(
        &self,
        (snapshot, names): (&mut Snapshot, &mut NameMemo),
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        let state = self.directory.state.load();
        let schema = &state.schema;
        let request = self.request;
        sink.set_types_only(request.types_only);
        // Names of single entries seldom come again.
        let key = match request.scope {
            Scope::Base => names.key(schema, request.base),
            Scope::One | Scope::Subtree | Scope::Subordinate => names.base(schema, request.base),
        };
        let key =
            key.map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
        let filter = ResolvedFilter::resolve(&request.filter, schema);
        let selection = Selection::resolve(request.attributes.iter(), schema);
        let wanted = matched_values::resolve(self.controls, request.types_only, schema);
        let wanted = wanted.as_ref().map(|items| WantedValues { schema, items });
        let manage = self.controls.manage_dsa_it;
        let ground = snapshot.view_for_search(&state, manage, request.deref)?;
        // Aliases and chains lead anywhere. Whether there are aliases may not be known.
        let anywhere = DnKey::root();
        let is_local = request.deref == DerefAliases::Never && !chain::asks(&filter);
        let top = if is_local { &key } else { &anywhere };
        let Self { directory, access, .. } = *self;
        let site = Site { directory, access, view: ground.view, schema };
        let asked = (&key, &filter, &selection, wanted);
        let Some(effective) = &self.controls.effective_rights else {
            return guarded(&site, top, |guard| {
                self.run_guarded((guard, None), (&ground, &state), asked, sink)
            });
        };
        let other = effective.access(access, ground.view, (&state, &directory.credentials.root))?;
        let of_other = Site { access: &other, ..site };
        guarded(&of_other, top, |other| {
            let is_explained = access.has(Privilege::BypassAcl) || access.has(Privilege::ModifyAcl);
            guarded(&site, top, |guard| {
                let told = Told { guard: other, asker: guard, asked: effective, is_explained };
                self.run_guarded((guard, Some(&told)), (&ground, &state), asked, sink)
            })
        })
    }

    /// The search, with the rules that hold for who asks.
    fn run_guarded(
        &self,
        (guard, told): (&Guard<'_>, Option<&Told<'_>>),
        (ground, state): (&Ground<'_>, &State),
        (key, filter, selection, wanted): Asked<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        let schema = &state.schema;
        let visible = (filter, selection, wanted);
        let (scope, deref) = (self.request.scope, self.request.deref);
        if let Some(special) = target::special(self.directory, state, key, || self.offer())
            && (!key.is_root() || scope == Scope::Base)
            && self.resumed.is_none()
        {
            if let Some(end) = self.asserted(special.entry(), guard, schema)? {
                return Ok(end);
            }
            let answer = || Ok(self.special(special.entry(), guard, (schema, visible), sink));
            return self.made(true, (schema, guard), answer);
        }
        let may_wait = self.candidates_max.is_none();
        let asked = virtual_tree::Asked { base: key, scope, selection, may_wait };
        if let Some(found) = virtual_tree::find(self.directory, state, guard, &asked) {
            let found = found?;
            let answer = || self.virtual_entries(found, guard, (schema, visible), sink);
            if self.resumed.is_some() {
                return answer();
            }
            return self.made(false, (schema, guard), answer);
        }
        let &Ground { view, referrals, subentries, aliases } = ground;
        let lookup = Lookup { name: self.request.base, key, referrals, scope: Some(scope) };
        let base = if key.is_root() {
            EntryId::ROOT
        } else if aliases && aliases::finds_base(deref) {
            aliases::find_base(view, state, guard, &lookup)?
        } else {
            target::find(view, state, guard, &lookup)?
        };
        // The guard begins at the base, unless aliases and chains may lead away from it.
        let is_local = deref == DerefAliases::Never && !chain::asks(filter);
        let has_told = self.resumed.is_some_and(Parked::has_told);
        let hidden = !has_told && self.hidden(view, guard, (base, is_local))?;
        if self.resumed.is_none()
            && self.controls.assertion.is_some()
            && let Some(end) = self.asserted_of_base(view, state, guard, base)?
        {
            return Ok(end);
        }
        let (shown, regions) = (self.shown(subentries), None);
        let Usable { searchable, filter: usable } = Usable::of(filter, guard);
        let filter = usable.as_ref().unwrap_or(filter);
        let mut resolved = Resolved {
            base,
            scope,
            regions,
            filter,
            selection,
            referrals,
            shown,
            wanted,
            searchable,
            guard,
            told,
        };
        let outcome = self.expanded(view, state, (&mut resolved, aliases), sink);
        if hidden && reveals(&outcome) && !sink.has_sent() {
            return Err(guard.hidden(view, base)?);
        }
        outcome
    }

    /// The search where aliases and chains lead it.
    fn expanded(
        &self,
        view: &View<'_>,
        state: &State,
        (resolved, aliases): (&mut Resolved<'_>, bool),
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        let Resolved { filter, guard, .. } = *resolved;
        if aliases
            && aliases::searches(self.request.deref, resolved.scope)
            && let Some(end) = self.follow(view, state, resolved)?
        {
            if matches!(end, Outcome::TooMuch) {
                self.note_too_much((filter, guard));
            }
            return Ok(end);
        }
        let outcome = match chain::expand(self, view, state, (guard, filter))? {
            Expanded::Same => self.entries(view, state, resolved, sink),
            Expanded::Filter(filter) => {
                let regions = resolved.regions.take();
                self.entries(view, state, &Resolved { filter: &filter, regions, ..*resolved }, sink)
            }
            Expanded::End(outcome) => Ok(outcome),
        };
        // That chains are followed elsewhere is decided by what is asked for.
        if matches!(outcome, Ok(Outcome::TooMuch)) && !chain::asks(filter) {
            self.note_too_much((filter, guard));
        }
        self.report(filter, &outcome);
        outcome
    }

    /// Of a search that is too much for the thread that reads requests: whether hidden entries may
    /// have decided that.
    #[cold]
    fn note_too_much(&self, (filter, guard): (&ResolvedFilter, &Guard<'_>)) {
        if !usable::finds_all(filter, guard) {
            self.work.keep_order();
        }
    }

    /// Whether the asker may not know of the base: then the answer, if nothing is found, is that
    /// there is none. Entries below it may be seen all the same, and tell of it themselves.
    fn hidden(
        &self,
        view: &View<'_>,
        guard: &Guard<'_>,
        (base, is_local): (EntryId, bool),
    ) -> Result<bool, Refusal> {
        if guard.sees_all() || base == EntryId::ROOT {
            return Ok(false);
        }
        let is_disclosed = match guard.discloses_base().filter(|_| is_local) {
            Some(is_disclosed) => is_disclosed,
            None => guard.on(&target::stored(view, base)?).is_disclosed(),
        };
        if is_disclosed {
            return Ok(false);
        }
        // These tell of it whatever is found.
        let controls = self.controls;
        let is_told = controls.assertion.is_some() || controls.entry_count.is_some();
        let is_later_page = controls.paged.as_ref().is_some_and(|page| !page.cookie.is_empty());
        // Where nothing below it is to be found, that is not looked for: it would take time.
        let is_alone = || Ok::<_, Refusal>(view.child_count(base)? == 0);
        let is_bare = is_told || self.request.scope == Scope::Base || guard.knows_nothing();
        if is_bare || is_alone()? {
            return Err(guard.hidden(view, base)?);
        }
        Ok(!is_later_page)
    }

    /// Puts what the aliases in scope lead to into the scope; the end of the search when it has to
    /// end meanwhile.
    fn follow(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &mut Resolved<'_>,
    ) -> Result<Option<Outcome>, Refusal> {
        let regions = aliases::regions(self, view, state, resolved)?;
        let regions = match regions {
            Ok(regions) => regions,
            Err(end) => return Ok(Some(end)),
        };
        if let Some(regions) = &regions {
            resolved.base = regions.top(view)?;
            resolved.scope = Scope::Subtree;
        }
        resolved.regions = regions;
        Ok(None)
    }

    /// Tells the analyser, when this search is one that is measured and went on to a plan here.
    fn report(&self, filter: &ResolvedFilter, outcome: &Result<Outcome, Refusal>) {
        if let Some(watch) = &self.watch
            && !matches!(outcome, Ok(Outcome::TooMuch | Outcome::Parked(_)))
        {
            watch.report(filter, &*self.directory.clock);
        }
    }

    /// Subentries are seen by who asks for them, or for one by its name (RFC 3672 §3); `any` is
    /// whether there are any.
    fn shown(&self, any: bool) -> Shown {
        match self.controls.subentries {
            Some(true) => Shown::Subentries,
            None if self.request.scope == Scope::Base => Shown::All,
            Some(false) | None if any => Shown::Ordinary,
            Some(false) | None => Shown::All,
        }
    }

    /// The target of the assertion control is the base of the search (RFC 4528 §3).
    fn asserted_of_base(
        &self,
        view: &View<'_>,
        state: &State,
        guard: &Guard<'_>,
        base: EntryId,
    ) -> Result<Option<Outcome>, Refusal> {
        let schema = &state.schema;
        if base == EntryId::ROOT {
            let root = root_dse::entry(self.directory, schema, self.offer());
            return self.asserted(&root, guard, schema);
        }
        let stored = target::stored(view, base)?;
        let live = LiveEntry::new(view, &stored, schema.well_known(), true).seen_by(guard);
        self.asserted(&live, guard, schema)
    }

    /// Refuses with `assertionFailed` what is asserted and not true; the end of the search, when
    /// finding out is too much work.
    fn asserted(
        &self,
        entry: &dyn EntryRead,
        guard: &Guard<'_>,
        schema: &Schema,
    ) -> Result<Option<Outcome>, Refusal> {
        let Some(filter) = &self.controls.assertion else { return Ok(None) };
        let filter = ResolvedFilter::resolve(filter, schema);
        let rights = guard.on(entry);
        let truth = match rights.is_disclosed() {
            true => self.evaluate(&filter, schema, &rights.searchable(entry)),
            false => Truth::Undefined,
        };
        match self.work_over() {
            Some(end) => Ok(Some(end)),
            None => assertion::holds(truth).map(|()| None),
        }
    }

    /// What the server offers whoever asks.
    fn offer(&self) -> Offer {
        let offer = self.session.map(|session| Offer::to(session, self.directory));
        offer.unwrap_or_default()
    }

    /// A search of the naming contexts.
    fn entries(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        let outcome = self.steps(view, state, resolved, sink);
        let Some(end) = self.work_over() else { return outcome };
        match (end, outcome) {
            // It says so, and what became of the order.
            (Outcome::Done(end), Ok(Outcome::Done(done))) if done.code() == end.code() => {
                Ok(Outcome::Done(done))
            }
            // What was found when the work was over is not all there is.
            (end, outcome) => outcome.and(Ok(end)),
        }
    }

    /// The steps of such a search. Their order is fixed, and each may end it.
    fn steps(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Outcome, Refusal> {
        if self.is_to_be_explained(resolved, &state.schema) {
            return self.explain(view, state, resolved, sink);
        }
        let bounds = self.bounds();
        if self.resumed.is_some()
            && let Some(end) = self.ended(&bounds)
        {
            return Ok(end);
        }
        let start = self.start()?;
        let narrowed = only_subentries(state, resolved);
        let interrupt = || {
            let took = || self.directory.clock.elapsed().saturating_sub(self.begun);
            self.planning_ends(&bounds) || self.planning_is_over(took())
        };
        let ask = Ask {
            wanted: self.wanted(&bounds, &start),
            interrupt: &interrupt,
            ..Ask::new(narrowed.as_ref().unwrap_or(resolved.filter), resolved.base, resolved.scope)
        };
        let plan = match view.plan(&ask) {
            Ok(plan) => plan,
            Err(error) => return self.ended_by(error, &bounds),
        };
        if let Some(watch) = &self.watch
            && self.resumed.is_none()
        {
            watch.planned(plan.estimate, unindexed::is_unindexed(&plan));
        }
        let spare = self.check_indexed(&plan, view, (&ask, resolved.guard))?;
        self.work.spare.set(spare);
        let mut run = Run::new(self, (view, state), resolved, &plan, (bounds, start));
        let too_few = || self.work.has_found_too_few.get();
        if let Some(request) = &self.controls.entry_count {
            let outcome = self.count(request, &plan, &mut run, sink);
            return if too_few() { Ok(self.found_too_few(&plan, view, &ask)) } else { outcome };
        }
        if self.is_for_pool(plan.estimate, resolved.filter, !run.sends_all()) {
            return Ok(Outcome::TooMuch);
        }
        self.note_unindexed(&plan);
        let mut is_at_references = false;
        match self.resumed {
            None if self.is_sorted() => {
                let outcome = sorted::run(self, (view, state), resolved, &plan, bounds, sink);
                return if too_few() { Ok(self.found_too_few(&plan, view, &ask)) } else { outcome };
            }
            None => {}
            Some(parked) => {
                if let Some(list) = parked.list() {
                    let parts = (view, state);
                    return sorted::resume(self, parts, resolved, &plan, (bounds, list), sink);
                }
                run.resume(parked);
                is_at_references = matches!(parked.phase, Phase::References { .. });
            }
        }
        let step = if is_at_references { Ok(Step::Next) } else { run.in_id_order(&plan, sink) };
        if let Some(watch) = &self.watch {
            watch.sent(run.sent);
        }
        if too_few() {
            return Ok(self.found_too_few(&plan, view, &ask));
        }
        if let Step::End(outcome) = step? {
            return Ok(outcome);
        }
        if resolved.referrals
            && let Step::End(outcome) = run.references(sink)?
        {
            return Ok(outcome);
        }
        Ok(Outcome::Done(self.complete()))
    }

    /// The end of a search that has no more entries to give.
    pub(crate) fn complete(&self) -> Done {
        match &self.controls.paged {
            None => Done::success(),
            Some(_) => Done::page(&[]),
        }
    }

    /// All that a cookie is bound to: who asks, and what decides which entries there are. What of
    /// them is returned may change from page to page.
    pub(crate) fn binding(&self) -> Vec<u8> {
        let mut binding = Vec::new();
        let asker = self.access.identity().authorization_id();
        for part in [self.request.base, &asker, &self.request.filter.to_string()] {
            binding.extend_from_slice(&(part.len() as u64).to_be_bytes());
            binding.extend_from_slice(part.as_bytes());
        }
        let subentries = match self.controls.subentries {
            None => 0,
            Some(visibility) => 1 + u8::from(visibility),
        };
        let flags = [
            self.request.scope as u8,
            self.request.deref as u8,
            u8::from(self.controls.manage_dsa_it),
            subentries,
        ];
        binding.extend_from_slice(&flags);
        binding
    }

    /// A cookie for the client to keep.
    pub(crate) fn seal(&self, kind: CookieKind, content: &[u8], binding: &[u8]) -> Vec<u8> {
        let directory = self.directory;
        directory.cookie_key.seal(kind, content, binding, &mut *directory.chance())
    }

    /// Where candidates in the order of their ids begin: at the first, or where the page before
    /// ended. Pages of a sorted search have a place of their own.
    fn start(&self) -> Result<Position, Refusal> {
        let is_by_id = match self.resumed.map(|parked| &parked.phase) {
            None => !self.is_sorted(),
            Some(Phase::Candidates { .. } | Phase::Counted { .. }) => true,
            Some(Phase::Sorted(_) | Phase::References { .. } | Phase::Made { .. }) => false,
        };
        if is_by_id { self.page_start() } else { Ok(Position { after: EntryId::ROOT, sent: 0 }) }
    }

    /// Where the page begins.
    fn page_start(&self) -> Result<Position, Refusal> {
        match &self.controls.paged {
            Some(paged) if !paged.cookie.is_empty() => {
                let key = &self.directory.cookie_key;
                let content = key.open(cookie::PAGE, paged.cookie, &self.binding())?;
                Position::from_octets(&content).ok_or_else(|| CookieFault::Malformed.into())
            }
            Some(_) | None => Ok(Position { after: EntryId::ROOT, sent: 0 }),
        }
    }
}

/// Whether an answer without entries would tell that the base is there.
fn reveals(outcome: &Result<Outcome, Refusal>) -> bool {
    !matches!(outcome, Ok(Outcome::Abandoned | Outcome::TooMuch | Outcome::Parked(_)))
}

/// The filter that finds the subentries among what is asked for, when only they are shown: there
/// are few of them, and an index knows which.
fn only_subentries(state: &State, resolved: &Resolved<'_>) -> Option<ResolvedFilter> {
    (resolved.shown == Shown::Subentries).then(|| {
        let subentries = state.subentries.filter().clone();
        ResolvedFilter::And(vec![subentries, resolved.filter.clone()])
    })
}
