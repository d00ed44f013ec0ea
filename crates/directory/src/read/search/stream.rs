//! Searches that go on with what changes: persistent search (draft-ietf-ldapext-psearch-03) and
//! content synchronisation (RFC 4533).
//!
//! First the entries that there are, as in any search; then the changes that were made since it
//! began, one after the other; then it parks until there are more. Each change is judged by the
//! rules and the directory of now.
//!
//! Invariant: what is told of an entry that a consumer is not to have any more is told only where
//! its reader could find it before, by the rules of now: see `stream/before.rs`. Where nobody can
//! say that, or rules and schema are others, a consumer begins with all entries again.
//! Invariant: what is parked is a position. A change that was told is not told again, and none is
//! passed over.

mod before;
mod below;
mod cookie;
mod follow;
mod happened;
pub(super) mod state;
mod tell;
mod touched;
pub(super) mod waits;

use ldap::control_value::persistent_search;
use ldap::control_value::sync::{self, DONE_OID, INFO_OID, SyncDone, SyncInfo};
use ldap::message::{DerefAliases, Scope};
use ldap::result::ResultCode;
use schema::DnKey;
use store::View;

use aci::Privilege;

use super::outcome::{Done, SearchOutcome};
use super::parked::{Parked, Phase};
use super::request::{Resolved, Search};
use crate::access::guard::Guard;
use crate::directory::State;
use crate::request::asker_bytes::AskerHeld;
use crate::request::asker_queues::Asker;
use crate::request::budgets::STREAM_BYTES;
use crate::request::controls::response::ResponseControl;
use crate::request::refusal::Refusal;
use crate::request::sink::{Flow, ResponseSink};

use self::state::{Stage, StreamPosition, Streaming};

impl Search<'_> {
    /// Counts such a search among those of its asker.
    pub(super) fn admit(&self, asker: Asker) -> Result<AskerHeld, Refusal> {
        let controls = self.controls;
        let beside = controls.paged.is_some()
            || self.is_sorted()
            || controls.entry_count.is_some()
            || controls.join.is_some()
            || controls.effective_rights.is_some();
        if beside || (controls.sync.is_some() && controls.persistent.is_some()) {
            return Err(Refusal::new(ResultCode::UnwillingToPerform, NOT_BESIDE));
        }
        let follows =
            matches!(self.request.deref, DerefAliases::InSearching | DerefAliases::Always);
        if controls.sync.is_some() && follows {
            return Err(Refusal::new(ResultCode::UnwillingToPerform, NO_ALIASES));
        }
        // They would leave no room for what ends them.
        let outstanding = self.session.map_or(0, |session| session.outstanding());
        if (outstanding + 1).saturating_mul(2) > self.directory.limits().outstanding_max {
            return Err(Refusal::new(ResultCode::Busy, TOO_MANY_HERE));
        }
        let mut held = AskerHeld::new(&self.directory.budgets.streams, asker);
        let each_max = match asker {
            Asker::Root => usize::MAX,
            Asker::Entry(_) | Asker::Address(_) | Asker::Local => {
                self.directory.limits().streams_each_max.saturating_mul(STREAM_BYTES)
            }
        };
        match held.grow_within(STREAM_BYTES, each_max) {
            true => Ok(held),
            false => Err(Refusal::new(ResultCode::Busy, TOO_MANY)),
        }
    }

    /// Why changes of what is at `base` are not told, where that is so.
    pub(super) fn not_a_stream(&self, state: &State, base: &DnKey) -> Option<Refusal> {
        let is_alone = base.is_root() && self.request.scope == Scope::Base;
        let trees = &state.virtual_trees;
        let is_made = (trees.hold(base) && self.access.has(Privilege::ConfigRead))
            || (trees.hold_change(base) && self.access.has(Privilege::ChangelogRead));
        (is_alone || is_made || *base == state.subschema_key)
            .then(|| Refusal::new(ResultCode::UnwillingToPerform, MADE_HERE))
    }

    /// Such a search, from where it is.
    pub(super) fn stream(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        if self.candidates_max.is_some() {
            return Ok(SearchOutcome::TooMuch);
        }
        if self.directory.streams.is_closed() {
            return Err(Refusal::shutting_down());
        }
        self.check_control(resolved.guard)?;
        self.check_filter(resolved, state)?;
        let mut at = match self.resumed.and_then(|parked| parked.stream.as_deref()) {
            Some(at) => at.clone(),
            None => self.begin(view, resolved.guard)?,
        };
        at.waits = false;
        loop {
            if at.stage == Stage::Entries {
                match self.found(view, state, resolved, sink)? {
                    SearchOutcome::Done(done) if done.code() == ResultCode::Success => {}
                    SearchOutcome::Parked(mut parked) => {
                        parked.stream = Some(Box::new(at));
                        return Ok(SearchOutcome::Parked(parked));
                    }
                    end => return Ok(end),
                }
                if let Some(end) = self.end_stage(&mut at, sink) {
                    return Ok(end);
                }
            }
            if let Some(end) = self.follow_changes(view, state, resolved, &mut at, sink)? {
                return Ok(end);
            }
            // What was told of a consumer's past is no more than a beginning.
            at = self.at_view(view, resolved.guard, Stage::Entries);
            self.streaming().is_live.set(false);
            // It was about a change, and is not about the entries that there are.
            *self.streaming().happened.borrow_mut() = None;
        }
    }

    /// Its reader may have lost the right to ask for it since it began.
    fn check_control(&self, guard: &Guard<'_>) -> Result<(), Refusal> {
        let oid = match self.controls.sync {
            Some(_) => sync::REQUEST_OID,
            None => persistent_search::OID,
        };
        let may_use = self.resumed.is_none() || guard.anywhere(|guard| guard.may_use_control(oid));
        match may_use {
            true => Ok(()),
            false => Err(Refusal::new(ResultCode::InsufficientAccessRights, NO_MORE)),
        }
    }

    /// Content that hangs on what the server computes, or on other entries, changes without a
    /// change of the entry.
    fn check_filter(&self, resolved: &Resolved<'_>, state: &State) -> Result<(), Refusal> {
        let Some(_) = self.controls.sync else { return Ok(()) };
        if resolved.guard.hangs_on_others() {
            return Err(Refusal::new(ResultCode::UnwillingToPerform, OTHER_ENTRIES));
        }
        let computed = crate::read::computed::descriptions(state.schema.well_known());
        let given = resolved.guard.given();
        let mut is_stored = true;
        resolved.filter.visit_descriptions(&mut |one| {
            is_stored &= !computed.contains(&&**one) && !given.is_some_and(|all| all.may_give(one));
        });
        match is_stored {
            true => Ok(()),
            false => Err(Refusal::new(ResultCode::UnwillingToPerform, COMPUTED)),
        }
    }

    /// What is said with entries: most searches say nothing, and pay nothing for it.
    fn streaming(&self) -> &Streaming {
        self.streaming.get_or_init(Box::default)
    }

    /// Where it begins.
    fn begin(&self, view: &View<'_>, guard: &Guard<'_>) -> Result<StreamPosition, Refusal> {
        if let Some(asked) = &self.controls.persistent {
            let stage = if asked.changes_only { Stage::Live } else { Stage::Entries };
            return Ok(self.at_view(view, guard, stage));
        }
        let Some(asked) = &self.controls.sync else { return Err(no_control()) };
        let Some(cookie) = asked.cookie.filter(|cookie| !cookie.is_empty()) else {
            return Ok(self.at_view(view, guard, Stage::Entries));
        };
        match self.position_of(cookie, guard) {
            Some((lsn, hash)) => {
                Ok(StreamPosition { lsn, hash, ..self.at_view(view, guard, Stage::Missed) })
            }
            None if asked.reload_hint => Ok(self.at_view(view, guard, Stage::Entries)),
            None => Err(refresh_required()),
        }
    }

    /// What the rules ask of the world, for a consumer: all rules are asked for it, and nobody else
    /// needs it.
    fn standing(&self, guard: &Guard<'_>) -> u64 {
        match self.controls.sync {
            Some(_) => guard.standing(&|| self.spend(RULE_STEPS)),
            None => 0,
        }
    }

    /// All before the view is done with.
    fn at_view(&self, view: &View<'_>, guard: &Guard<'_>, stage: Stage) -> StreamPosition {
        let mark = view.mark();
        StreamPosition {
            stage,
            lsn: mark.lsn,
            hash: mark.hash,
            parts: 0,
            standing: self.standing(guard),
            has_told: false,
            waits: false,
            interest: None,
            happened: None,
        }
    }

    /// The consumer knows what there is, and changes follow; or that is the end.
    fn end_stage(
        &self,
        at: &mut StreamPosition,
        sink: &mut ResponseSink<'_>,
    ) -> Option<SearchOutcome> {
        let refresh_deletes = at.stage == Stage::Missed;
        let mut flow = Flow::Continue;
        if let Some(asked) = &self.controls.sync {
            let cookie = self.cookie(at);
            let cookie = Some(cookie.as_slice());
            if !asked.persists {
                let value = Some(SyncDone { cookie, refresh_deletes }.encode());
                let control = ResponseControl { oid: DONE_OID, value };
                return Some(SearchOutcome::Done(Done::success().with(control)));
            }
            let is_done = true;
            let info = match refresh_deletes {
                true => SyncInfo::RefreshDelete { cookie, is_done },
                false => SyncInfo::RefreshPresent { cookie, is_done },
            };
            flow = sink.intermediate(INFO_OID, &info.encode());
        }
        at.stage = Stage::Live;
        at.has_told = false;
        // It takes as long as its client stays.
        if let Some(stop) = self.stop {
            stop.set_deadline(None);
        }
        match flow {
            Flow::Continue => None,
            // The changes come when there is room for them.
            Flow::Park => Some(self.park_at(at)),
            Flow::Stop => Some(self.stopped()),
        }
    }

    /// It parks where it is, before it looks at changes.
    fn park_at(&self, at: &StreamPosition) -> SearchOutcome {
        let (sent, seen) = self.resumed.map_or_else(Default::default, Parked::counts);
        let mut outcome = SearchOutcome::parked(Phase::Stream, sent, seen);
        if let SearchOutcome::Parked(parked) = &mut outcome {
            parked.stream = Some(Box::new(at.clone()));
        }
        outcome
    }

    fn stopped(&self) -> SearchOutcome {
        match self.stop {
            // It goes on where there is room for its answer.
            None => SearchOutcome::TooMuch,
            Some(_) => SearchOutcome::Abandoned,
        }
    }
}

fn no_control() -> Refusal {
    Refusal::new(ResultCode::Other, "the search has no control to go on by")
}

/// The consumer has to begin without a cookie.
fn refresh_required() -> Refusal {
    Refusal::new(ResultCode::SyncRefreshRequired, REFRESH_REQUIRED)
}

/// That a search which goes on with what changes follows chains: what entries are led to changes
/// without a change of theirs.
#[cold]
pub(super) fn no_chains() -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, COMPUTED)
}

/// Steps that it takes to ask a rule what it asks of the world.
const RULE_STEPS: u64 = 50;
const NO_MORE: &str = "access rules no longer let you use the control of this search";
const REFRESH_REQUIRED: &str = "what changed since cannot be told: begin again without a cookie, \
                                or with the reload hint";
const NOT_BESIDE: &str = "persistent search and content synchronisation stand alone: ask without \
                          pages, sorting, list views, counts, joins and effective rights";
const NO_ALIASES: &str = "content synchronisation does not follow aliases: ask with \
                          neverDerefAliases or derefFindingBaseObj";
const MADE_HERE: &str = "the server makes this entry itself, and does not tell of its changes; ask \
                         for entries of a naming context";
const COMPUTED: &str = "the filter asks for attributes that the server computes: ask for stored \
                        ones, such as member of the group instead of memberOf";
const OTHER_ENTRIES: &str = "access rules ask for other entries than the one they are of (userattr \
                             beside USERDN of the entry itself, groupdn with macros): a copy \
                             cannot follow that; search again instead";
const TOO_MANY_HERE: &str = "half of what a connection may ask at once is under way: end a search, \
                             or use another connection";
const TOO_MANY: &str = "too many persistent searches and synchronisations are open; end one of \
                        yours, or raise streams_max and streams_each_max";
