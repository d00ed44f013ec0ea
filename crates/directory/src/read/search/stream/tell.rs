//! What one change is to a reader: an entry to be sent, one that is gone, nothing, or something
//! that cannot be told.

use std::slice;
use std::sync::Arc;

use environment::Timestamp;
use ldap::control_value::persistent_search::ChangeType;
use ldap::control_value::sync::SyncState;
use ldap::dn::Dn;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, EntryRead,
    ModifyChange, RenameChange, Schema,
};

use super::before::Undone;
use super::below::{removals, touch_below};
use super::follow::{After, At, Following};
use super::state::Happened;
use super::touched::Touched;
use crate::changelog::{Moment, are_above_unchanged, is_judged};
use crate::read::streams::changes_referral;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;
use crate::sinks::progress::is_position;

impl Following<'_, '_> {
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

    /// What a change is, and sends what is to be told of it.
    pub(super) fn tell(
        &mut self,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<After, Refusal> {
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
        Ok(self.send(add.id, add.entry.name(), happened, sink)?.unwrap_or(After::Next))
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
        let before = Undone::new(&stored, modify.dn.to_string(), &self.deltas_of(modify.id, at));
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
        if let Some(after) = self.send(modify.id, &modify.dn, happened, sink)? {
            return Ok(after);
        }
        if !self.is_sync() {
            return Ok(After::Next);
        }
        // It, or what is above it, was renamed since.
        let has_name = self.has_name(&stored, &modify.dn);
        let then = DnKey::from_dn(&self.state.schema, &modify.dn).ok();
        // In the midst of records it is judged by what it is now, by the name of now.
        let is_judged = |name: &DnKey| match self.run.resolved.guard.is_bypassed() {
            true => Ok(true),
            false if !at.batch.is_whole => Ok(false),
            false => self.is_judged_by_name(name, &before, &stored, at),
        };
        if was_in_scope && !has_name && !then.as_ref().map_or(Ok(false), is_judged)? {
            return Ok(After::Refresh);
        }
        // Far behind it is not known what it was. That it is gone is told by the changes that may
        // have taken it away; others would tell that something hidden was changed.
        let may_know = at.batch.is_whole
            || tells
            || self.tells(&modify.deltas, &before)
            || self.may_ask_for(&modify.deltas, [&stored, &before]);
        self.left(&before, &stored, at, sink, may_know)
    }

    /// Whether its reader may ask for any of these attributes, and does.
    fn may_ask_for(&self, deltas: &[AttributeDelta], entries: [&dyn EntryRead; 2]) -> bool {
        let rights = entries.map(|entry| self.run.resolved.guard.on(entry));
        deltas.iter().any(|delta| {
            self.are_asked_for(slice::from_ref(delta))
                && rights.iter().any(|rights| rights.may_search(&delta.description))
        })
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
        let before =
            Undone::new(&stored, rename.old_dn.to_string(), &self.deltas_of(rename.id, at));
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
        if let Some(after) = self.send(rename.id, &rename.new_dn, happened, sink)? {
            return Ok(after);
        }
        match is_judged {
            true => self.left(&before, &stored, at, sink, true),
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

    /// An entry that is not to be found now, and perhaps was before. `may_know`: its reader may
    /// know of the change.
    fn left(
        &mut self,
        before: &Undone<'_>,
        now: &dyn EntryRead,
        at: At<'_>,
        sink: &mut ResponseSink<'_>,
        may_know: bool,
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
                seen.filter(|_| may_know)
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
        let Some((delete, deleted_at)) = self.deletion_of(id, at) else {
            return Ok(After::Refresh);
        };
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
        let before = Undone::new(&entry, name.to_string(), &self.deltas_of(id, at));
        Ok(match self.run.found_so(&before) {
            Some(uuid) => self.gone(&before, uuid, sink),
            None => After::Next,
        })
    }

    /// What this change and those behind it did to an entry.
    fn deltas_of<'b>(&self, id: EntryId, at: At<'b>) -> Vec<&'b [AttributeDelta]> {
        let first = (at.record, at.change);
        let deltas = self.touched(at).from(&at.batch.all, id, first);
        let values = deltas.iter().flat_map(|deltas| deltas.iter());
        let values: usize = values.map(|delta| 1 + delta.added.len() + delta.removed.len()).sum();
        self.run.search.spend(values as u64 * VALUE_STEPS);
        deltas
    }

    /// The deletion of an entry that is not there any more.
    fn deletion_of<'b>(&self, id: EntryId, at: At<'b>) -> Option<(&'b DeleteChange, At<'b>)> {
        let (record, change) = self.touched(at).deletion(id)?;
        let batch = at.batch;
        let delete = batch.all.get(record)?.record.changes.get(change)?.as_delete()?;
        Some((delete, At { batch, record, change }))
    }

    fn touched<'b>(&self, at: At<'b>) -> &'b Touched {
        at.batch.touched.get_or_init(|| {
            let changes = at.batch.all.iter().map(|told| told.record.changes.len());
            self.run.search.spend(changes.sum::<usize>() as u64 * TOUCH_STEPS);
            Touched::of(&at.batch.all)
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

    fn moment<'m>(&'m self, at: At<'_>, gone: &'m dyn Fn(&DnKey) -> bool) -> Moment<'m> {
        let time = at.told().map_or(Timestamp(0), |told| told.record.csn.time);
        Moment { time, view: self.view, schema: &self.state.schema, gone }
    }
}

pub(super) fn happened(at: At<'_>, change: ChangeType, state: SyncState) -> Option<Happened> {
    let number = at.told()?.record.lsn.0;
    Some(Happened { change, state, previous_dn: None, number })
}

/// A deleted entry, as it was.
pub(super) fn entry_of(delete: &DeleteChange, schema: &Schema) -> Entry {
    let mut entry = Entry::new(delete.dn.clone());
    for one in &delete.attributes {
        // They were values of an entry.
        let _ = entry.replace_values(schema, &one.description, one.values.clone());
    }
    entry
}

/// What undoing one value takes, in steps of about a nanosecond.
const VALUE_STEPS: u64 = 200;
/// What finding the place of one change takes.
const TOUCH_STEPS: u64 = 50;
