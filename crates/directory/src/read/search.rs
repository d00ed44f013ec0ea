//! Search (RFC 4511 §4.5): what is asked for, and the steps of the answer in their order.
//!
//! Invariant: limits, abandon and back-pressure are checked by `Run`, for entries and references,
//! and nowhere else.

pub(crate) mod aliases;
mod asserted;
mod bounds;
pub(crate) mod budget;
mod chain;
mod changes;
pub(crate) mod cost;
mod count;
mod deliver;
mod dereference;
mod explain;
mod follow;
mod join;
mod joined;
mod outcome;
mod pages;
pub(crate) mod parked;
mod regions;
mod request;
pub(crate) mod resolved;
mod run;
mod sorted;
mod special;
mod stream;
mod unindexed;
pub(crate) mod usable;
mod work;

pub use self::stream::waits::ChangeWait;

use std::cell::{Cell, OnceCell};
use std::ops::ControlFlow;
use std::sync::Arc;

use aci::{Privilege, WantedValues};
use ldap::message::{Controls, DerefAliases, Scope, SearchRequest};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, ResolvedFilter};
use store::{Ask, StoreError, View};

use self::bounds::Bounds;
use self::chain::Expanded;
use self::outcome::SearchOutcome;
use self::parked::{Parked, Phase};
use self::request::{Resolved, Search};
use self::resolved::ResolvedRequest;
use self::run::Run;
use self::usable::Usable;
use self::work::Work;
use crate::access::guard::{self, Guard, Viewer, guarded};
use crate::bind::recheck;
use crate::directory::State;
use crate::groups::lookup::Groups;
use crate::groups::members::Members;
use crate::read::analyser::{SAMPLED_ONE_IN, Watch};
use crate::read::effective_rights::ReportedRights;
use crate::read::lookup::Lookup;
use crate::read::special::special_entry;
use crate::read::subentry::Visibility;
use crate::read::target;
use crate::read::virtual_tree;
use crate::request::asker_queues::Asker;
use crate::request::completion::Completion;
use crate::request::controls::request::RequestControls;
use crate::request::decoded::JobRequest;
use crate::request::job::Job;
use crate::request::note::Note;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::snapshot::{SearchView, Snapshot};
use crate::request::stop::Stop;
use crate::request::worker::{Next, Worker};
use crate::virtual_attributes::planned;

/// Begins a search: runs it here when few candidates are expected, else makes a job of it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &SearchRequest<'_>,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let Worker { directory, snapshot, names, recorder, chance, .. } = worker;
    let note = Note::default();
    let watch = recorder.is_due().then(|| Watch::new(recorder, SAMPLED_ONE_IN, &*directory.clock));
    let limits = &directory.limits();
    let terms_max = limits.inline_terms_max;
    let Envelope { id, operation, bytes, .. } = envelope;
    sink.limit(limits.inline_output_max_bytes);
    let search = Search {
        directory,
        access: session.access(),
        request,
        controls,
        stop: None,
        asker: None,
        large_turns: None,
        candidates_max: Some(limits.inline_candidates_max),
        keeps_order: false,
        begun: directory.clock.elapsed(),
        session: Some(session),
        resumed: None,
        watch,
        note: &note,
        work: Work::default(),
        streaming: OnceCell::new(),
    };
    let slot = match controls.is_stream() {
        true => Some(search.admit(Asker::of(session))?),
        false => None,
    };
    // The root DSE is never a job, and a filter changes little about it.
    let is_small = bytes.len() <= cost::SMALL_BYTES
        || cost::is_root_dse(request)
        || !cost::is_large(request, terms_max);
    let mut resolved = None;
    let outcome = if is_small {
        let state = directory.state.load();
        let base = resolved::base(request, &state.schema, names)?;
        let meant = ResolvedRequest::of(request, base, controls, &state.schema);
        // Chains are followed elsewhere: nothing that is there, or hidden, decides where.
        let outcome = if meant.has_chains && !cost::is_root_dse(request) {
            Ok(SearchOutcome::TooMuch)
        } else {
            search.run(snapshot, &state, &meant, sink)
        };
        if matches!(outcome, Ok(SearchOutcome::TooMuch | SearchOutcome::Parked(_))) {
            let (budget, max) = (&directory.budgets.parked, limits.parked_requests_max_bytes());
            resolved = Box::new(meant).kept(bytes.len(), budget, max);
        }
        outcome
    } else {
        Ok(SearchOutcome::TooMuch)
    };
    sink.note(&note);
    match outcome? {
        SearchOutcome::Done(mut done) => {
            if controls.position.is_some() {
                let lsn = directory.storage.store.published().lsn;
                done = done.with(directory.position(lsn, &mut **chance));
            }
            Ok(Next::Answered(done.send(sink)))
        }
        SearchOutcome::Abandoned => Ok(Next::Answered(sink.nothing())),
        // Nothing parks here: the answer is kept, up to a limit.
        SearchOutcome::TooMuch | SearchOutcome::Parked(_) => {
            sink.take_back();
            let keeps_order = search.work.keeps_order();
            let deadline = search.bounds().deadline;
            let stop = Stop::new(session.begin(id), Arc::clone(&directory.clock));
            // What keeps its order begins when a thread takes it: here it would not have waited.
            stop.set_deadline(deadline.filter(|_| !keeps_order));
            Ok(Next::Later(Job {
                id,
                operation,
                request: JobRequest::copy(bytes),
                resolved,
                access: Arc::clone(session.access()),
                denied: controls.denied.clone(),
                stop,
                keeps_order,
                is_assumed: session.is_assumed(),
                parked: None,
                large: None,
                large_turns: session.large_turns(),
                turn: None,
                asker: Asker::of(session),
                room: Cell::default(),
                _stream: slot,
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
    job: &mut Job,
    request: &SearchRequest<'_>,
    controls: &RequestControls<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Completion, Box<Parked>> {
    let note = sink.noted();
    let before = job.resolved.take();
    let outcome = answer(worker, job, request, controls, before, &note, sink);
    sink.note(&note);
    match outcome {
        Ok((SearchOutcome::Done(mut done), _)) => {
            if controls.position.is_some() {
                done = done.with(worker.position());
            }
            Ok(done.send(sink))
        }
        Err(refusal) => Ok(sink.end(refusal, Controls::EMPTY)),
        Ok((SearchOutcome::Parked(parked), resolved)) => {
            job.resolved = Some(resolved);
            Err(parked.after(job.parked.take()))
        }
        Ok((SearchOutcome::Abandoned | SearchOutcome::TooMuch, _)) => Ok(sink.nothing()),
    }
}

/// The search of a job from where it is to where it ends or parks, and what its request means;
/// `before` is what it meant when it was handled last.
fn answer(
    worker: &mut Worker,
    job: &Job,
    request: &SearchRequest<'_>,
    controls: &RequestControls<'_>,
    before: Option<Box<ResolvedRequest>>,
    note: &Note,
    sink: &mut ResponseSink<'_>,
) -> Result<(SearchOutcome, Box<ResolvedRequest>), Refusal> {
    let Worker { directory, snapshot, names, recorder, .. } = worker;
    // It has waited: for its turn, or for its client. Rights are asked for anew, and so is whatever
    // depends on them; names mean the same until the schema is another one.
    let state = directory.state.load();
    recheck::check(directory, &state, snapshot.view()?, &job.access)?;
    let resolved = match before.filter(|before| before.holds_under(&state.schema)) {
        Some(resolved) => resolved,
        None => {
            let base = resolved::base(request, &state.schema, names)?;
            Box::new(ResolvedRequest::of(request, base, controls, &state.schema))
        }
    };
    let resumed = job.parked.as_deref();
    let begun = directory.clock.elapsed();
    let watch = Watch::new(recorder, 1, &*directory.clock);
    let search = Search {
        directory,
        access: &job.access,
        request,
        controls,
        stop: Some(&job.stop),
        asker: Some(job.asker),
        large_turns: Some(&job.large_turns),
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
        note,
        work: Work::after(resumed.map_or(0, |parked| parked.spent)),
        streaming: OnceCell::new(),
    };
    search.has_room(job);
    if job.keeps_order && resumed.is_none() {
        job.stop.set_deadline(search.bounds().deadline);
    }
    let mut outcome = search.run(snapshot, &state, &resolved, sink)?;
    if let SearchOutcome::Parked(parked) = &mut outcome {
        parked.begun = resumed.map_or(begun, |before| before.begun);
        parked.planned = search.watch.as_ref().and_then(Watch::plan);
        // What comes with each change is work of its own.
        parked.waits_for_room = search.waits_for_room();
        parked.spent = if parked.is_live() { 0 } else { search.work.spent() };
    }
    let outcome = match resumed {
        None => outcome,
        Some(parked) => outcome.resumed(parked),
    };
    Ok((outcome, resolved))
}

/// Candidates that may be looked at on the thread that reads requests where there are virtual
/// attributes.
const GIVEN_HERE_MAX: u64 = 4;

impl Search<'_> {
    fn run(
        &self,
        snapshot: &mut Snapshot,
        state: &State,
        meant: &ResolvedRequest,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let schema = &state.schema;
        let request = self.request;
        sink.set_types_only(request.types_only);
        let manage = self.controls.manage_dsa_it;
        let search_view = snapshot.view_for_search(state, manage, request.deref)?;
        // Aliases and chains lead anywhere. Whether there are aliases may not be known.
        let anywhere = DnKey::root();
        let is_local = request.deref == DerefAliases::Never && !meant.has_chains;
        let top = if is_local { &meant.key } else { &anywhere };
        let Self { directory, access, .. } = *self;
        let viewer = Viewer { directory, access, view: search_view.view, schema };
        let Some(effective) = &self.controls.effective_rights else {
            return guarded(&viewer, top, |guard| {
                self.run_guarded(guard, None, &search_view, state, meant, sink)
            });
        };
        let other =
            effective.access(access, search_view.view, state, &directory.credentials.root)?;
        let of_other = Viewer { access: &other, ..viewer };
        guarded(&of_other, top, |other| {
            let is_explained = access.has(Privilege::BypassAcl) || access.has(Privilege::ModifyAcl);
            guarded(&viewer, top, |guard| {
                let reported =
                    ReportedRights { guard: other, asker: guard, asked: effective, is_explained };
                self.run_guarded(guard, Some(&reported), &search_view, state, meant, sink)
            })
        })
    }

    /// The search, with the rules that hold for who asks.
    fn run_guarded(
        &self,
        guard: &Guard<'_>,
        reported: Option<&ReportedRights<'_>>,
        search_view: &SearchView<'_>,
        state: &State,
        meant: &ResolvedRequest,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let schema = &state.schema;
        let ResolvedRequest { key, filter, selection, matched_values, .. } = meant;
        let reads_changes =
            state.virtual_trees.hold_change(key) && self.access.has(Privilege::ChangelogRead);
        if !reads_changes && self.controls.changelog_cookie.is_some_and(|asked| asked.critical) {
            return Err(changes::no_cookies_here());
        }
        let wanted = matched_values.as_ref().map(|items| WantedValues { schema, items });
        let visible = (filter, selection, wanted);
        let (scope, deref) = (self.request.scope, self.request.deref);
        if self.controls.is_stream()
            && let Some(refusal) = self.not_a_stream(state, key)
        {
            return Err(refusal);
        }
        if let Some(special) = special_entry(self.directory, state, key, || self.offer())
            && (!key.is_root() || scope == Scope::Base)
            && self.resumed.is_none()
        {
            if let Some(end) = self.asserted(special.entry(), guard, schema)? {
                return Ok(end);
            }
            let answer = || Ok(self.special(special.entry(), guard, schema, visible, sink));
            return self.made(true, schema, guard, answer);
        }
        if reads_changes {
            return self.changes(search_view.view, guard, state, visible, sink);
        }
        let may_wait = self.candidates_max.is_none();
        let asked = virtual_tree::TreeSearch { base: key, scope, selection, may_wait };
        if let Some(found) = virtual_tree::find(self.directory, state, guard, &asked) {
            let found = found?;
            let answer = || self.virtual_entries(found, guard, schema, visible, sink);
            if self.resumed.is_some() {
                return answer();
            }
            return self.made(false, schema, guard, answer);
        }
        let &SearchView { view, referrals, subentries, aliases, groups } = search_view;
        let lookup = Lookup { name: self.request.base, key, referrals, scope: Some(scope) };
        let base = if key.is_root() {
            EntryId::ROOT
        } else if aliases && aliases::finds_base(deref) {
            aliases::find_base(view, state, guard, &lookup)?
        } else {
            target::find(view, state, guard, &lookup)?
        };
        // The guard begins at the base, unless aliases and chains may lead away from it.
        let is_local = deref == DerefAliases::Never && !meant.has_chains;
        let has_told = self.resumed.is_some_and(Parked::has_told);
        let hidden = !has_told && self.hidden(view, guard, base, is_local)?;
        if self.resumed.is_none()
            && self.controls.assertion.is_some()
            && let Some(end) = self.asserted_of_base(view, state, guard, base)?
        {
            return Ok(end);
        }
        if hidden && self.controls.is_stream() {
            return Err(guard.hidden(view, base)?);
        }
        let (shown, regions) = (self.shown(subentries), None);
        let Usable { searchable, filter: usable } = Usable::of(filter, guard);
        let filter = usable.as_ref().unwrap_or(filter);
        let dereference = meant.dereference.as_deref();
        if let Some(asked) = dereference {
            asked.check()?;
        }
        let join = match &meant.join {
            Some(Ok(join)) => Some(&**join),
            Some(Err(refusal)) => return Err(refusal.clone()),
            None => None,
        };
        let mut resolved = Resolved {
            base,
            scope,
            regions,
            filter,
            planned: guard.given().and_then(|all| planned::planned(all, filter)),
            selection,
            referrals,
            shown,
            wanted,
            searchable,
            guard,
            groups: Groups::new(view, schema).knowing(groups),
            reported,
            dereference,
            join,
        };
        // A refusal tells no more of what is hidden than an answer does.
        let outcome = match meant.has_chains {
            true if self.controls.is_stream() => Err(stream::no_chains()),
            has_chains => self.expanded(view, state, &mut resolved, aliases, has_chains, sink),
        };
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
        resolved: &mut Resolved<'_>,
        aliases: bool,
        has_chains: bool,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let Resolved { filter, guard, .. } = *resolved;
        if aliases
            && aliases::searches(self.request.deref, resolved.scope)
            && let Some(end) = self.follow(view, state, resolved)?
        {
            if matches!(end, SearchOutcome::TooMuch) {
                self.note_too_much(filter, guard);
            }
            return Ok(end);
        }
        let expanded = match has_chains {
            true => chain::expand(self, view, state, guard, filter)?,
            false => Expanded::Same,
        };
        let outcome = match expanded {
            Expanded::Same => self.entries(view, state, resolved, sink),
            Expanded::Filter(filter) => {
                let regions = resolved.regions.take();
                let given = guard.given();
                let planned = given.and_then(|all| planned::planned(all, &filter));
                let groups = resolved.groups.once_more();
                let expanded = Resolved { filter: &filter, planned, regions, groups, ..*resolved };
                self.entries(view, state, &expanded, sink)
            }
            Expanded::End(outcome) => Ok(outcome),
        };
        if matches!(outcome, Ok(SearchOutcome::TooMuch)) {
            self.note_too_much(filter, guard);
        }
        self.report(filter, &outcome);
        outcome
    }

    /// Of a search that is too much for the thread that reads requests: whether hidden entries may
    /// have decided that.
    #[cold]
    fn note_too_much(&self, filter: &ResolvedFilter, guard: &Guard<'_>) {
        // One that goes on with what changes is never answered there.
        if !self.controls.is_stream() && !usable::finds_all(filter, guard) {
            self.work.keep_order();
        }
    }

    /// Whether the asker may not know of the base: then the answer, if nothing is found, is that
    /// there is none. Entries below it may be seen all the same, and tell of it themselves.
    fn hidden(
        &self,
        view: &View<'_>,
        guard: &Guard<'_>,
        base: EntryId,
        is_local: bool,
    ) -> Result<bool, Refusal> {
        if guard.sees_all() || base == EntryId::ROOT {
            return Ok(false);
        }
        let is_disclosed = match guard.discloses_base().filter(|_| is_local) {
            Some(is_disclosed) => is_disclosed,
            None => guard.on(&guard::stored(view, base)?).is_disclosed(),
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

    /// Tells the analyser, when this search is one that is measured and went on to a plan here.
    fn report(&self, filter: &ResolvedFilter, outcome: &Result<SearchOutcome, Refusal>) {
        if let Some(watch) = &self.watch
            && !matches!(outcome, Ok(SearchOutcome::TooMuch | SearchOutcome::Parked(_)))
        {
            watch.report(filter, &*self.directory.clock);
        }
    }

    /// Subentries are seen by who asks for them, or for one by its name (RFC 3672 §3); `any` is
    /// whether there are any.
    fn shown(&self, any: bool) -> Visibility {
        match self.controls.subentries {
            Some(true) => Visibility::Subentries,
            None if self.request.scope == Scope::Base => Visibility::All,
            Some(false) | None if any => Visibility::Ordinary,
            Some(false) | None => Visibility::All,
        }
    }

    /// A search of the naming contexts.
    fn entries(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let outcome = self.steps(view, state, resolved, sink);
        let Some(end) = self.work_over() else { return outcome };
        match (end, outcome) {
            // It says so, and what became of the order.
            (SearchOutcome::Done(end), Ok(SearchOutcome::Done(done)))
                if done.code() == end.code() =>
            {
                Ok(SearchOutcome::Done(done))
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
    ) -> Result<SearchOutcome, Refusal> {
        if self.controls.is_stream() {
            return self.stream(view, state, resolved, sink);
        }
        self.found(view, state, resolved, sink)
    }

    /// The entries that there are.
    fn found(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
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
        let narrowed = resolved.only_subentries(state);
        let (base, scope) = (resolved.base, resolved.scope);
        let interrupt = || {
            let took = || self.directory.clock.elapsed().saturating_sub(self.begun);
            self.planning_ends(&bounds) || self.planning_is_over(took())
        };
        let members = Members::new(&resolved.groups, resolved.guard, &interrupt);
        let ask = Ask {
            wanted: self.wanted(&bounds, &start),
            whole: &|one| resolved.guard.may_search_all_of(one),
            computed: Some(&members),
            interrupt: &interrupt,
            ..Ask::new(narrowed.as_ref().unwrap_or(resolved.plan_filter()), base, scope)
        };
        let plan = match view.plan(&ask) {
            Ok(plan) => plan,
            Err(error) => return self.not_planned(error, &members, &bounds),
        };
        if let Some(watch) = &self.watch
            && self.resumed.is_none()
        {
            watch.planned(plan.estimate, unindexed::is_unindexed(&plan));
        }
        let spare = self.check_indexed(&plan, view, &ask, resolved.guard)?;
        self.work.spare.set(spare);
        let mut run = Run::new(self, view, state, resolved, &plan, bounds, start);
        let too_few = || self.work.has_found_too_few.get();
        if let Some(request) = &self.controls.entry_count {
            let outcome = self.count(request, &plan, &mut run, sink);
            return if too_few() { Ok(self.found_too_few(&plan, view)) } else { outcome };
        }
        // Looking for what entries do not store takes what those say who defined it.
        let is_given = resolved.guard.given().is_some() && plan.estimate > GIVEN_HERE_MAX;
        if (self.candidates_max.is_some() && is_given)
            || self.is_for_pool(plan.estimate, resolved.filter, !run.sends_all())
        {
            return Ok(SearchOutcome::TooMuch);
        }
        self.note_unindexed(&plan);
        if let Some(parked) = self.resumed
            && let Some(id) = parked.deferred
        {
            return run.send_deferred(id, parked, sink);
        }
        let mut is_at_references = false;
        match self.resumed {
            None if self.is_sorted() => {
                let outcome = sorted::run(self, view, state, resolved, &plan, bounds, sink);
                return if too_few() { Ok(self.found_too_few(&plan, view)) } else { outcome };
            }
            None => {}
            Some(parked) => {
                if let Some(list) = parked.list() {
                    return sorted::resume(self, view, state, resolved, &plan, list, sink);
                }
                run.resume(parked);
                is_at_references = matches!(parked.phase, Phase::References { .. });
            }
        }
        let step = if is_at_references {
            Ok(ControlFlow::Continue(()))
        } else {
            run.in_id_order(&plan, sink)
        };
        if let Some(watch) = &self.watch {
            watch.sent(run.sent);
        }
        if too_few() {
            return Ok(self.found_too_few(&plan, view));
        }
        if let ControlFlow::Break(outcome) = step? {
            return Ok(outcome);
        }
        if resolved.referrals
            && let ControlFlow::Break(outcome) = run.references(sink)?
        {
            return Ok(outcome);
        }
        Ok(SearchOutcome::Done(self.complete()))
    }
}

impl Search<'_> {
    /// The end of a search that could not be planned.
    fn not_planned(
        &self,
        error: StoreError,
        members: &Members<'_>,
        bounds: &Bounds,
    ) -> Result<SearchOutcome, Refusal> {
        match members.refusal() {
            Some(why) => Err(Refusal::new(ResultCode::AdminLimitExceeded, why)),
            None => self.ended_by(error, bounds),
        }
    }
}

/// Whether an answer without entries would tell that the base is there.
fn reveals(outcome: &Result<SearchOutcome, Refusal>) -> bool {
    !matches!(
        outcome,
        Ok(SearchOutcome::Abandoned | SearchOutcome::TooMuch | SearchOutcome::Parked(_))
    )
}
