//! The changes since a position, one after the other: what each is to a reader.

use std::cell::OnceCell;
use std::sync::Arc;

use environment::Timestamp;
use history::record::Decoder;
use ldap::control_value::persistent_search::ChangeType;
use ldap::control_value::sync::{INFO_OID, SyncInfo, SyncState};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, EntryRead,
    ModifyChange, RenameChange, ResolvedFilter, Schema, Selection,
};
use store::{Ask, Lsn, View};

use super::before::Undone;
use super::below::{Removal, changes_referral, removals, touch_below};
use super::happened::state_control;
use super::refresh_required;
use super::state::{Happened, Stage, StreamPosition};
use crate::changelog::{Moment, are_above_unchanged, is_judged};
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
use crate::sinks::position::is_position;

/// What comes after a change.
enum After {
    /// The next one.
    Next,
    /// The receiver has no room for more, or others wait for the thread.
    Park,
    /// The same, and the change is still to be told.
    ParkBefore,
    /// What was told does not lead to what there is: a consumer needs all entries.
    Refresh,
    End(SearchOutcome),
}

/// Records that are looked at together.
struct Batch {
    all: Vec<Arc<Told>>,
    /// What takes away names, once that is asked for.
    removals: OnceCell<Vec<Removal>>,
    /// There are no more by now: what the entries in them were can be told.
    is_whole: bool,
}

/// A change among others.
#[derive(Clone, Copy)]
struct At<'b> {
    batch: &'b Batch,
    record: usize,
    change: usize,
}

impl At<'_> {
    fn told(&self) -> Option<&Told> {
        self.batch.all.get(self.record).map(|told| &**told)
    }
}

/// Changes under way.
struct Following<'r, 'a> {
    run: Run<'a>,
    view: &'a View<'a>,
    state: &'a State,
    /// The name of the base.
    base: DnKey,
    at: &'r mut StreamPosition,
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
                        After::Next => {}
                        After::Park => return Ok(Some(self.park())),
                        After::ParkBefore => {
                            self.at.parts = change;
                            return Ok(Some(self.park()));
                        }
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
        match self.flush(sink) {
            Flow::Continue => self.wait(sink).map(Some),
            Flow::Park => Ok(Some(self.park())),
            Flow::Stop => Ok(Some(self.run.stopped())),
        }
    }

    /// Others are to have the thread.
    fn hand_over(&self, sink: &mut ResponseSink<'_>) -> SearchOutcome {
        let flow = match self.flush(sink) {
            Flow::Continue => sink.hand_on_all(),
            // A receiver that has no room is given nothing more.
            full @ (Flow::Park | Flow::Stop) => full,
        };
        match flow {
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
        self.run.search.streaming().gone.borrow_mut().clear();
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
        Ok(Some(Batch { all, removals: OnceCell::new(), is_whole }))
    }

    fn is_sync(&self) -> bool {
        self.run.search.controls.sync.is_some()
    }

    fn wants(&self, change: ChangeType) -> bool {
        self.run.search.controls.persistent.is_none_or(|asked| asked.wants(change))
    }

    /// What the rules ask of the entries is another thing for a consumer of whom they are asked.
    fn changes_rules(&self, deltas: &[AttributeDelta]) -> bool {
        let is_aci = |delta: &AttributeDelta| {
            let aci = self.state.schema.describe("aci").ok();
            aci.is_some_and(|aci| aci.covers(&delta.description))
        };
        self.is_sync() && !self.run.resolved.guard.is_bypassed() && deltas.iter().any(is_aci)
    }

    fn tell(&mut self, at: At<'_>, sink: &mut ResponseSink<'_>) -> Result<After, Refusal> {
        let change = at.told().and_then(|told| told.record.changes.get(at.change));
        match change {
            Some(Change::Add(add)) => self.added(add, at, sink),
            Some(Change::Modify(modify)) => self.modified(modify, at, sink),
            Some(Change::Rename(rename)) => self.renamed(rename, at, sink),
            Some(Change::Delete(delete)) => self.deleted(delete, at, sink),
            // What is stored of sinks changes nothing that is read.
            Some(change) if is_position(change) => Ok(After::Next),
            Some(Change::Schema(_) | Change::Setting(_)) if self.is_sync() => Ok(After::Refresh),
            Some(
                Change::Schema(_)
                | Change::Setting(_)
                | Change::Index(_)
                | Change::Level(_)
                | Change::Gather(_),
            )
            | None => Ok(After::Next),
        }
    }

    fn added(
        &mut self,
        add: &AddChange,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<After, Refusal> {
        if !self.wants(ChangeType::Add) {
            return Ok(After::Next);
        }
        let happened = happened(at, ChangeType::Add, SyncState::Add);
        Ok(self.send(add.id, happened, sink)?.unwrap_or(After::Next))
    }

    fn modified(
        &mut self,
        modify: &ModifyChange,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<After, Refusal> {
        if self.changes_rules(&modify.deltas) {
            return Ok(After::Refresh);
        }
        // It hides what is below, or does so no more.
        if self.is_sync()
            && changes_referral(&modify.deltas, self.state.schema.well_known())
            && let Ok(name) = DnKey::from_dn(&self.state.schema, &modify.dn)
            && self.may_have_had_below(modify.id, &name, at)?
        {
            return Ok(After::Refresh);
        }
        if !self.wants(ChangeType::Modify) {
            return Ok(After::Next);
        }
        let Some(stored) = self.view.entry(modify.id)? else {
            return self.left_before_it_was_deleted(modify.id, &modify.dn, at, sink);
        };
        // Who hears of changes alone hears of what is to be found, which most entries are not.
        if !self.is_sync() && !self.run.matches(&stored)? {
            return Ok(After::Next);
        }
        let before = Undone::new(&stored, modify.dn.to_string(), &deltas_of(modify.id, at));
        let was_in_scope = self.was_in_scope(&before);
        let was_found = was_in_scope && self.run.is_found_so(&before);
        let tells = self.tells(&modify.deltas, &stored);
        if was_found && !tells && self.run.matches(&stored)? {
            return Ok(After::Next);
        }
        // What is computed of an entry, and asked for, was not found before: nothing says that.
        if !self.is_sync() && !tells && !self.are_asked_for(&modify.deltas) {
            return Ok(After::Next);
        }
        let state = if was_found { SyncState::Modify } else { SyncState::Add };
        let happened = happened(at, ChangeType::Modify, state);
        if let Some(after) = self.send(modify.id, happened, sink)? {
            return Ok(after);
        }
        if !self.is_sync() {
            return Ok(After::Next);
        }
        // It, or what is above it, was renamed since.
        let schema = &self.state.schema;
        let then = DnKey::from_dn(schema, &modify.dn).ok();
        let has_name = then.is_some() && then == DnKey::from_text(schema, stored.dn()).ok();
        // In the midst of records it is judged by what it is now, by the name of now.
        let is_judged = |name: &DnKey| match self.run.resolved.guard.is_bypassed() {
            true => Ok(true),
            false if !at.batch.is_whole => Ok(false),
            false => self.is_judged_by_name(name, &before, &stored, at),
        };
        if was_in_scope && !has_name && !then.as_ref().map_or(Ok(false), is_judged)? {
            return Ok(After::Refresh);
        }
        self.left(&before, &stored, at, sink)
    }

    /// Whether any of these attributes is in the filter.
    fn are_asked_for(&self, deltas: &[AttributeDelta]) -> bool {
        let mut is_any = false;
        self.run.resolved.filter.visit_descriptions(&mut |asked| {
            is_any |= deltas.iter().any(|delta| asked.covers(&delta.description));
        });
        is_any
    }

    fn renamed(
        &mut self,
        rename: &RenameChange,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<After, Refusal> {
        if self.changes_rules(&rename.deltas) {
            return Ok(After::Refresh);
        }
        if !self.wants(ChangeType::Rename) {
            return Ok(After::Next);
        }
        let schema = &self.state.schema;
        let keys = [&rename.old_dn, &rename.new_dn].map(|name| DnKey::from_dn(schema, name));
        let [Ok(old), Ok(new)] = keys else { return Ok(After::Refresh) };
        let concerns = |key: &DnKey| key.is_within(&self.base) || self.base.is_within(key);
        if !concerns(&old) && !concerns(&new) {
            return Ok(After::Next);
        }
        // Whatever is below has other names, too, and other rules may hold for it.
        if self.is_sync() && self.may_have_had_below(rename.id, &new, at)? {
            return Ok(After::Refresh);
        }
        let Some(stored) = self.view.entry(rename.id)? else {
            return self.left_before_it_was_deleted(rename.id, &rename.old_dn, at, sink);
        };
        let before = Undone::new(&stored, rename.old_dn.to_string(), &deltas_of(rename.id, at));
        let is_judged = self.is_judged_by_name(&old, &before, &stored, at)?;
        let was_in_scope = self.run.is_in_scope(&old, &self.base);
        if self.is_sync() && was_in_scope && !is_judged {
            return Ok(After::Refresh);
        }
        let was_found = is_judged && self.was_found(&before).is_some();
        let tells_name = is_judged && was_in_scope && self.run.resolved.guard.on(&before).may_see();
        let state = if was_found { SyncState::Modify } else { SyncState::Add };
        let happened = happened(at, ChangeType::Rename, state).map(|happened| Happened {
            previous_dn: tells_name.then(|| rename.old_dn.to_string()),
            ..happened
        });
        if let Some(after) = self.send(rename.id, happened, sink)? {
            return Ok(after);
        }
        match is_judged {
            true => self.left(&before, &stored, at, sink),
            false => Ok(After::Next),
        }
    }

    /// Whether there was anything below an entry that has this name after a change: now there may
    /// be nothing any more. It may say so where there was not.
    fn may_have_had_below(&self, id: EntryId, name: &DnKey, at: At<'_>) -> Result<bool, Refusal> {
        if !at.batch.is_whole || self.view.child_count(id)? > 0 {
            return Ok(true);
        }
        let schema = &self.state.schema;
        let removals = at.batch.removals.get_or_init(|| removals(&at.batch.all, schema));
        self.run.search.spend(removals.len() as u64);
        Ok(touch_below(removals, (at.record, at.change), id, name))
    }

    /// Whether the rules of now judge an entry by a name of before: where that means what it meant,
    /// and the entry holds no rules itself, which hold for the name of now alone.
    fn is_judged_by_name(
        &self,
        name: &DnKey,
        before: &dyn EntryRead,
        now: &dyn EntryRead,
        at: At<'_>,
    ) -> Result<bool, Refusal> {
        if self.run.resolved.guard.is_bypassed() {
            return Ok(true);
        }
        let holds_rules = |entry: &dyn EntryRead| {
            let mut found = false;
            if let Ok(aci) = self.state.schema.describe("aci") {
                entry.visit_values(&aci, &mut |_, _| {
                    found = true;
                    false
                });
            }
            found
        };
        if holds_rules(before) || holds_rules(now) {
            return Ok(false);
        }
        Ok(are_above_unchanged(name, &self.moment(at, &|_| false))?)
    }

    /// Whether a reader may know that these attributes have changed, of an entry in scope: to send
    /// it again as it was would tell that something is hidden.
    fn tells(&self, deltas: &[AttributeDelta], entry: &dyn EntryRead) -> bool {
        if !self.was_in_scope(entry) {
            return true;
        }
        let rights = self.run.resolved.guard.on(entry);
        deltas.iter().any(|delta| rights.may_read(&delta.description))
    }

    /// An entry that is not to be found now, and perhaps was before.
    fn left(
        &mut self,
        before: &Undone<'_>,
        now: &dyn EntryRead,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<After, Refusal> {
        if !self.is_sync() {
            return Ok(After::Next);
        }
        let uuid = match at.batch.is_whole {
            true => self.was_found(before),
            false if !self.was_in_scope(before) => None,
            // What it was when this change was made is not known: more may follow. Whoever may see
            // it may as well hear that it is not among what was asked for.
            false if self.run.resolved.guard.is_bypassed() => self.run.seen_at_all(before),
            false => {
                let is_here = self.was_in_scope(now);
                let seen = is_here.then(|| self.run.seen_at_all(now)).flatten();
                if seen.is_none() {
                    return Ok(After::Refresh);
                }
                seen
            }
        };
        match uuid {
            Some(uuid) => Ok(self.gone(before, uuid, sink)),
            None => Ok(After::Next),
        }
    }

    /// An entry that was called `name` before this change, and is gone by now: it may not have been
    /// to be found any more when it was deleted.
    fn left_before_it_was_deleted(
        &mut self,
        id: EntryId,
        name: &Dn,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<After, Refusal> {
        let schema = Arc::clone(&self.state.schema);
        let Ok(key) = DnKey::from_dn(&schema, name) else { return Ok(After::Refresh) };
        if !self.is_sync() || !self.run.is_in_scope(&key, &self.base) {
            return Ok(After::Next);
        }
        let Some((delete, deleted_at)) = deletion_of(id, at) else { return Ok(After::Refresh) };
        let entry = entry_of(delete, &schema);
        if entry.attributes().is_empty() {
            return Ok(After::Refresh);
        }
        let schema = &self.state.schema;
        let gone =
            |above: &DnKey| deleted_at.told().is_some_and(|told| told.took_plain(above, schema));
        if !self.run.resolved.guard.is_bypassed() {
            let moment = self.moment(at, &gone);
            if !is_judged(&entry, &moment)? || !are_above_unchanged(&key, &moment)? {
                return Ok(After::Refresh);
            }
        }
        let before = Undone::new(&entry, name.to_string(), &deltas_of(id, at));
        Ok(match self.run.found_so(&before) {
            Some(uuid) => self.gone(&before, uuid, sink),
            None => After::Next,
        })
    }

    /// Whether an entry is in scope by the name that it is given.
    fn was_in_scope(&self, before: &dyn EntryRead) -> bool {
        let key = DnKey::from_text(&self.state.schema, before.dn());
        key.is_ok_and(|key| self.run.is_in_scope(&key, &self.base))
    }

    /// Whether a consumer was to have an entry as it was.
    fn was_found(&self, before: &dyn EntryRead) -> Option<[u8; 16]> {
        if !self.is_sync() || !self.was_in_scope(before) {
            return None;
        }
        self.run.found_so(before)
    }

    fn deleted(
        &mut self,
        delete: &DeleteChange,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<After, Refusal> {
        if !self.wants(ChangeType::Delete) {
            return Ok(After::Next);
        }
        let schema = Arc::clone(&self.state.schema);
        let Ok(key) = DnKey::from_dn(&schema, &delete.dn) else { return Ok(After::Refresh) };
        if !self.run.is_in_scope(&key, &self.base) {
            return Ok(After::Next);
        }
        let unknown = if self.is_sync() { After::Refresh } else { After::Next };
        let before = entry_of(delete, &schema);
        if before.attributes().is_empty() {
            return Ok(unknown);
        }
        let schema = &self.state.schema;
        let gone = |above: &DnKey| at.told().is_some_and(|told| told.took_plain(above, schema));
        if !self.run.resolved.guard.is_bypassed() && !is_judged(&before, &self.moment(at, &gone))? {
            return Ok(unknown);
        }
        if self.is_sync() {
            return Ok(match self.run.found_so(&before) {
                Some(uuid) => self.gone(&before, uuid, sink),
                None => After::Next,
            });
        }
        Ok(self.send_deleted(&before, at, sink))
    }

    /// Sends a deleted entry as it was.
    fn send_deleted(&mut self, before: &Entry, at: At<'_>, sink: &mut ResponseSink<'_>) -> After {
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

    /// A consumer is not to have an entry any more.
    fn gone(
        &mut self,
        before: &dyn EntryRead,
        uuid: [u8; 16],
        sink: &mut ResponseSink<'_>,
    ) -> After {
        self.at.has_told = true;
        let search = self.run.search;
        if self.at.stage == Stage::Missed {
            let count = {
                let mut gone = search.streaming().gone.borrow_mut();
                gone.push(uuid);
                gone.len()
            };
            if count < IDS_MAX {
                return After::Next;
            }
            let flow = self.flush(sink);
            return after(flow, &self.run);
        }
        let nothing = Selection::resolve(["1.1"].into_iter(), &self.state.schema);
        let rights = self.run.resolved.guard.on(before);
        let controls = [state_control(SyncState::Delete, uuid)];
        let visible = rights.visible(before, &nothing);
        let flow = sink.entry_with(&visible, ResponseControl::list(&controls).as_ref());
        self.run.sent += 1;
        after(flow, &self.run)
    }

    /// Sends what is gone and was to be told together. Who has no room for more is given nothing
    /// in this run any more: it would hold the thread.
    fn flush(&self, sink: &mut ResponseSink<'_>) -> Flow {
        let uuids = std::mem::take(&mut *self.run.search.streaming().gone.borrow_mut());
        if uuids.is_empty() {
            return Flow::Continue;
        }
        let info = SyncInfo::IdSet { cookie: None, is_gone: true, uuids };
        sink.intermediate(INFO_OID, &info.encode())
    }

    /// Sends an entry if it is to be found now; none if it is not.
    fn send(
        &mut self,
        id: EntryId,
        happened: Option<Happened>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Option<After>, Refusal> {
        let Some(stored) = self.view.entry(id)? else { return Ok(None) };
        if !self.run.matches(&stored)? {
            return Ok(None);
        }
        // It may be one of those that are told to be gone.
        match self.flush(sink) {
            Flow::Continue => {}
            Flow::Park => return Ok(Some(After::ParkBefore)),
            Flow::Stop => return Ok(Some(After::End(self.run.stopped()))),
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

    fn moment<'m>(&'m self, at: At<'_>, gone: &'m dyn Fn(&DnKey) -> bool) -> Moment<'m> {
        let time = at.told().map_or(Timestamp(0), |told| told.record.csn.time);
        Moment { time, view: self.view, schema: &self.state.schema, gone }
    }
}

fn after(flow: Flow, run: &Run<'_>) -> After {
    match flow {
        Flow::Continue => After::Next,
        Flow::Park => After::Park,
        Flow::Stop => After::End(run.stopped()),
    }
}

fn happened(at: At<'_>, change: ChangeType, state: SyncState) -> Option<Happened> {
    let number = at.told()?.record.lsn.0;
    Some(Happened { change, state, previous_dn: None, number })
}

/// A deleted entry, as it was.
fn entry_of(delete: &DeleteChange, schema: &Schema) -> Entry {
    let mut entry = Entry::new(delete.dn.clone());
    for one in &delete.attributes {
        // They were values of an entry.
        let _ = entry.replace_values(schema, &one.description, one.values.clone());
    }
    entry
}

/// The deletion of an entry, behind this change.
fn deletion_of<'b>(id: EntryId, at: At<'b>) -> Option<(&'b DeleteChange, At<'b>)> {
    let At { batch, .. } = at;
    batch.all.iter().enumerate().skip(at.record).find_map(|(record, told)| {
        told.record.changes.iter().enumerate().find_map(|(change, one)| match one {
            Change::Delete(delete) if delete.id == id => {
                Some((delete, At { batch, record, change }))
            }
            Change::Delete(_)
            | Change::Add(_)
            | Change::Modify(_)
            | Change::Rename(_)
            | Change::Schema(_)
            | Change::Index(_)
            | Change::Setting(_)
            | Change::Level(_)
            | Change::Gather(_) => None,
        })
    })
}

/// What this change and those behind it did to an entry.
fn deltas_of(id: EntryId, at: At<'_>) -> Vec<&'_ [AttributeDelta]> {
    let records = at.batch.all.iter().enumerate().skip(at.record);
    let changes = records.flat_map(|(number, told)| {
        let skipped = if number == at.record { at.change } else { 0 };
        told.record.changes.iter().skip(skipped)
    });
    let deltas = changes.filter_map(|change| match change {
        Change::Modify(modify) if modify.id == id => Some(&modify.deltas[..]),
        Change::Rename(rename) if rename.id == id => Some(&rename.deltas[..]),
        Change::Modify(_)
        | Change::Rename(_)
        | Change::Add(_)
        | Change::Delete(_)
        | Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => None,
    });
    deltas.collect()
}

const MISSING: &str = "changes are missing here: begin the search again";

/// Steps that a record takes, and each of its changes: looking at the entry it was made to.
const RECORD_STEPS: u64 = 200;
const CHANGE_STEPS: u64 = 400;
/// So many records are looked at together, with about so many octets.
const BATCH_MAX: u64 = 2_048;
const BATCH_MAX_BYTES: usize = 8 << 20;
/// So many entries are told to be gone with one message.
const IDS_MAX: usize = 500;
