//! The changes since a position, one after the other, and what is sent of them.

use std::cell::OnceCell;
use std::sync::Arc;

use history::record::Decoder;
use ldap::control_value::persistent_search::ChangeType;
use ldap::control_value::sync::{INFO_OID, SyncInfo, SyncState};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{DnKey, Entry, EntryId, EntryRead, ResolvedFilter, Selection};
use store::{Ask, Lsn, StoredEntry, View};

use super::below::Removal;
use super::happened::state_control;
use super::refresh_required;
use super::state::{Happened, Stage, StreamPosition};
use super::tell::happened;
use super::touched::Touched;
use crate::directory::State;
use crate::read::search::bounds::Bounds;
use crate::read::search::outcome::{Done, SearchOutcome};
use crate::read::search::parked::Phase;
use crate::read::search::request::{Resolved, Search};
use crate::read::search::run::{AfterEntry, Run};
use crate::read::streams::Told;
use crate::request::controls::paged::Position;
use crate::request::controls::response::ResponseControl;
use crate::request::refusal::Refusal;
use crate::request::sink::{Flow, ResponseSink};

/// What comes after a change.
pub(super) enum After {
    /// The next one.
    Next,
    /// The receiver has no room for more, or others wait for the thread.
    Park,
    /// What was told does not lead to what there is: a consumer needs all entries.
    Refresh,
    End(SearchOutcome),
}

/// Records that are looked at together.
pub(super) struct Batch {
    pub(super) all: Vec<Arc<Told>>,
    /// What takes away names, once that is asked for.
    pub(super) removals: OnceCell<Vec<Removal>>,
    /// Where entries are changed, once that is asked for.
    pub(super) touched: OnceCell<Touched>,
    /// There are no more by now: what the entries in them were can be told.
    pub(super) is_whole: bool,
}

/// A change among others.
#[derive(Clone, Copy)]
pub(super) struct At<'b> {
    pub(super) batch: &'b Batch,
    pub(super) record: usize,
    pub(super) change: usize,
}

impl At<'_> {
    pub(super) fn told(&self) -> Option<&Told> {
        self.batch.all.get(self.record).map(|told| &**told)
    }
}

/// Changes under way.
pub(super) struct Following<'r, 'a> {
    pub(super) run: Run<'a>,
    pub(super) view: &'a View<'a>,
    pub(super) state: &'a State,
    /// The name of the base.
    pub(super) base: DnKey,
    pub(super) at: &'r mut StreamPosition,
}

impl Search<'_> {
    /// Tells the changes since a position, until it waits or has to end; none: a consumer needs all
    /// entries instead.
    pub(super) fn follow_changes(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        at: &mut StreamPosition,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Option<SearchOutcome>, Refusal> {
        let is_live = at.stage == Stage::Live;
        self.streaming().is_live.set(is_live);
        let deadline = self.bounds().deadline.filter(|_| !is_live);
        if is_live && let Some(stop) = self.stop {
            stop.set_deadline(None);
        }
        // Limits are about what is asked for at once.
        let unlimited =
            Bounds { total_entries: 0, entries: 0, look_through_entries: 0, page: None, deadline };
        let nothing = ResolvedFilter::Undefined;
        let plan = view.plan(&Ask::new(&nothing, resolved.base, resolved.scope))?;
        let start = Position { after: EntryId::ROOT, sent: 0 };
        let mut run = Run::new(self, view, state, resolved, &plan, unlimited, start);
        run.forget_proofs();
        if let Some(parked) = self.resumed {
            run.resume(parked);
            if let Some(id) = parked.deferred {
                *self.streaming().happened.borrow_mut() = at.happened.clone();
                let mut end = run.send_deferred(id, parked, sink)?;
                if let SearchOutcome::Parked(parked) = &mut end {
                    parked.stream = Some(Box::new(at.clone()));
                }
                return Ok(Some(end));
            }
        }
        let base = match view.entry(resolved.base)? {
            Some(base) => DnKey::from_text(&state.schema, base.dn()).ok(),
            None => Some(DnKey::root()),
        };
        let Some(base) = base else { return Ok(None) };
        let standing = self.standing(resolved.guard);
        let is_other_standing = standing != at.standing;
        at.standing = standing;
        let mut following = Following { run, view, state, base, at };
        if is_other_standing {
            return following.refresh();
        }
        following.all(sink)
    }
}

impl Following<'_, '_> {
    fn all(&mut self, sink: &mut ResponseSink<'_>) -> Result<Option<SearchOutcome>, Refusal> {
        let search = self.run.search;
        while self.at.lsn < self.view.lsn() {
            let Some(batch) = self.batch()? else { return self.refresh() };
            if batch.all.is_empty() {
                break;
            }
            for (record, told) in batch.all.iter().enumerate() {
                search.spend(RECORD_STEPS);
                for change in self.at.parts..told.record.changes.len() {
                    search.spend(CHANGE_STEPS);
                    if let Some(end) = search.ended(&self.run.bounds) {
                        return Ok(Some(end));
                    }
                    let after = self.tell(At { batch: &batch, record, change }, sink)?;
                    self.at.parts = change + 1;
                    match after {
                        // A record may have very many.
                        After::Next if sink.should_yield() => {
                            return Ok(Some(self.hand_over(sink)));
                        }
                        After::Next => {}
                        After::Park => return Ok(Some(self.park())),
                        After::Refresh => return self.refresh(),
                        After::End(end) => return Ok(Some(end)),
                    }
                }
                self.at.parts = 0;
                (self.at.lsn, self.at.hash) = (told.record.lsn, told.hash);
                if sink.should_yield() {
                    return Ok(Some(self.hand_over(sink)));
                }
            }
        }
        self.wait(sink).map(Some)
    }

    /// Others are to have the thread.
    fn hand_over(&self, sink: &mut ResponseSink<'_>) -> SearchOutcome {
        match sink.hand_on_all() {
            Flow::Continue | Flow::Park => self.park(),
            Flow::Stop => self.run.stopped(),
        }
    }

    /// All was told that there is.
    fn wait(&mut self, sink: &mut ResponseSink<'_>) -> Result<SearchOutcome, Refusal> {
        let search = self.run.search;
        if self.at.stage == Stage::Missed {
            if let Some(end) = search.end_stage(self.at, sink) {
                return Ok(end);
            }
        } else if search.controls.sync.is_some() && std::mem::take(&mut self.at.has_told) {
            let cookie = search.cookie(self.at);
            // Without room there is nothing left to hand on below.
            if sink.intermediate(INFO_OID, &SyncInfo::NewCookie(&cookie).encode()) == Flow::Stop {
                return Ok(self.run.stopped());
            }
        }
        if sink.hand_on_all() == Flow::Stop {
            return Ok(self.run.stopped());
        }
        self.at.waits = true;
        self.at.interest = self.interest();
        Ok(self.park())
    }

    fn park(&self) -> SearchOutcome {
        let mut outcome = self.run.parked(Phase::Stream);
        if let SearchOutcome::Parked(parked) = &mut outcome {
            parked.stream = Some(Box::new(self.at.clone()));
        }
        outcome
    }

    /// A consumer needs all entries: in the midst of changes it has to ask again, and before them
    /// it gets all: that tells what is gone, too.
    fn refresh(&mut self) -> Result<Option<SearchOutcome>, Refusal> {
        if !self.is_sync() {
            return Err(Refusal::new(ResultCode::UnwillingToPerform, MISSING));
        }
        match self.at.stage {
            Stage::Missed => Ok(None),
            Stage::Entries | Stage::Live => {
                Ok(Some(SearchOutcome::Done(Done::refused(refresh_required()))))
            }
        }
    }

    /// The next records that the log tells; none when they cannot be had any more.
    fn batch(&self) -> Result<Option<Batch>, Refusal> {
        let directory = self.run.search.directory;
        let (changes, schema) = (directory.changes(), &self.state.schema);
        let last = self.view.lsn();
        let from = Lsn(self.at.lsn.0 + 1);
        let to = last.0.min(self.at.lsn.0 + BATCH_MAX);
        let mut all = Vec::new();
        let (mut hash, mut bytes) = (self.at.hash, 0);
        let mut own = None;
        for lsn in from.0..=to {
            let shared = match own {
                None => directory.streams.record(&changes, schema, Lsn(lsn)),
                Some(_) => Ok(None),
            };
            let told = match shared {
                Ok(Some(told)) => Some(told),
                Ok(None) => {
                    if own.is_none() {
                        let Ok(reader) = changes.read(Lsn(lsn)) else { return Ok(None) };
                        own = Some((reader, Decoder::new(Arc::clone(schema))));
                    }
                    let Some((reader, decoder)) = &mut own else { return Ok(None) };
                    let Ok(told) = Told::next(reader, decoder, Lsn(lsn)) else { return Ok(None) };
                    told.map(Arc::new)
                }
                Err(_) => return Ok(None),
            };
            // What is visible already is about to be told by the log.
            let Some(told) = told else { break };
            if told.record.prev_hash != hash {
                return Ok(None);
            }
            hash = told.hash;
            bytes += told.bytes;
            all.push(told);
            if bytes >= BATCH_MAX_BYTES {
                break;
            }
        }
        let is_whole = all.last().is_some_and(|told| told.record.lsn == last);
        let (removals, touched) = (OnceCell::new(), OnceCell::new());
        Ok(Some(Batch { all, removals, touched, is_whole }))
    }

    /// Whether an entry has this name by now.
    pub(super) fn has_name(&self, stored: &StoredEntry<'_>, name: &Dn) -> bool {
        let schema = &self.state.schema;
        let then = DnKey::from_dn(schema, name).ok();
        then.is_some() && then == DnKey::from_text(schema, stored.dn()).ok()
    }

    pub(super) fn is_sync(&self) -> bool {
        self.run.search.controls.sync.is_some()
    }

    pub(super) fn send_deleted(
        &mut self,
        before: &Entry,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> After {
        if !self.run.is_found_so(before) {
            return After::Next;
        }
        let (search, resolved) = (self.run.search, self.run.resolved);
        let happened = happened(at, ChangeType::Delete, SyncState::Delete);
        let controls: Vec<_> =
            happened.and_then(|one| search.change_control(&one)).into_iter().collect();
        let rights = resolved.guard.on(before);
        let visible = rights.visible(before, resolved.selection).only(resolved.wanted);
        self.run.sent += 1;
        after(sink.entry_with(&visible, ResponseControl::list(&controls).as_ref()), &self.run)
    }

    /// A consumer is not to have an entry any more. It is told so of each by itself: of several at
    /// once, slapd's consumers take it that no entry is gone which is not told (`refreshDeletes`),
    /// and keep what is gone by the content as a whole, if that has to follow.
    pub(super) fn gone(
        &mut self,
        before: &dyn EntryRead,
        uuid: [u8; 16],
        sink: &mut ResponseSink<'_>,
    ) -> After {
        self.at.has_told = true;
        let nothing = Selection::resolve(["1.1"].into_iter(), &self.state.schema);
        let rights = self.run.resolved.guard.on(before);
        let controls = [state_control(SyncState::Delete, uuid)];
        let visible = rights.visible(before, &nothing);
        let flow = sink.entry_with(&visible, ResponseControl::list(&controls).as_ref());
        self.run.sent += 1;
        after(flow, &self.run)
    }

    /// Sends an entry, which had this name after the change, if it is to be found now; none if it
    /// is not.
    pub(super) fn send(
        &mut self,
        id: EntryId,
        name: &Dn,
        happened: Option<Happened>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Option<After>, Refusal> {
        let Some(stored) = self.view.entry(id)? else { return Ok(None) };
        if !self.run.matches(&stored)? {
            return Ok(None);
        }
        // It, or what is above it, was renamed since, and is told of then: a consumer that is told
        // the new name now has an entry without a superior, and none by the name when that comes.
        if self.is_sync() && !self.has_name(&stored, name) {
            return Ok(Some(After::Next));
        }
        self.at.happened.clone_from(&happened);
        *self.run.search.streaming().happened.borrow_mut() = happened;
        let before = self.run.sent;
        let sent = self.run.send(&stored, sink)?;
        // What may not be told at all is not told by a new cookie either.
        self.at.has_told |= self.run.sent > before;
        Ok(Some(match sent {
            AfterEntry::Next => After::Next,
            AfterEntry::Park => After::Park,
            AfterEntry::End(end) => After::End(end),
        }))
    }
}

fn after(flow: Flow, run: &Run<'_>) -> After {
    match flow {
        Flow::Continue => After::Next,
        Flow::Park => After::Park,
        Flow::Stop => After::End(run.stopped()),
    }
}

const MISSING: &str = "changes are missing here: begin the search again";

/// Steps that a record takes, and each of its changes: looking at the entry it was made to.
const RECORD_STEPS: u64 = 200;
const CHANGE_STEPS: u64 = 400;
/// So many records are looked at together, with about so many octets.
const BATCH_MAX: u64 = 2_048;
const BATCH_MAX_BYTES: usize = 8 << 20;
