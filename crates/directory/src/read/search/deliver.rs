//! How an entry that matches leaves: whole, or, when it has very many values, in parts.
//!
//! Invariant: all values that are not put together here are names in reference lists, which are
//! sent as they are.

use aci::{Rights, VisibleEntry};
use ldap::message::Controls;
use ldap::result::ResultCode;
use schema::{AttributeDescription, EntryRead};
use store::{StoreError, StoredEntry};

use super::outcome::SearchOutcome;
use super::request::Resolved;
use super::run::{NAMES_HERE_MAX, Run};
use crate::read::account_usability::AccountsAsked;
use crate::request::asker_bytes::AskerHeld;
use crate::request::controls::response::ResponseControl;
use crate::request::large_entry::{LARGE_ENTRY_BYTES, LargeEntry, LargeParts, LongList};
use crate::request::refusal::Refusal;
use crate::request::sink::{Flow, ResponseSink};

/// An entry that is to be sent.
pub(super) struct Delivered<'a, 'v> {
    pub(super) stored: &'a StoredEntry<'v>,
    /// With what is computed for it.
    pub(super) entry: &'a dyn EntryRead,
    pub(super) rights: &'a Rights<'a>,
}

/// What the receiver says, or how the search ends.
type FlowOrEnd = Result<Flow, SearchOutcome>;

impl Run<'_> {
    /// Whether so many names have to be found, for all entries by now, that a thread of its own
    /// does it. Refuses an entry that has more than are held.
    pub(super) fn has_many_names(&mut self, stored: &StoredEntry<'_>) -> Result<bool, Refusal> {
        let Resolved { selection, guard, .. } = *self.resolved;
        let rights = guard.on(stored);
        let ranges = selection.ranges();
        let mut is_long = false;
        for (description, list) in stored.outside()? {
            // A refusal would tell how many there are.
            if !rights.may_read(description) {
                continue;
            }
            if selection.selects(description) {
                let count = list.count()?;
                if self.goes_in_parts(description, count, list.octets_known()) {
                    is_long = true;
                    continue;
                }
                if !self.search.request.types_only {
                    list.check_read(description)?;
                    self.names += count;
                }
            } else if ranges.iter().any(|range| range.description == *description) {
                self.names += list.count()?;
            }
        }
        Ok(is_long || self.names > NAMES_HERE_MAX)
    }

    /// Whether values of an attribute that has so many in a list, or that take so many octets, are
    /// sent in parts.
    fn goes_in_parts(&self, description: &AttributeDescription, count: u64, octets: u64) -> bool {
        let search = self.search;
        (count >= search.directory.limits().large_entry_values_min || octets >= IN_PARTS_BYTES)
            && !search.request.types_only
            // A list view goes on without parking.
            && search.controls.vlv.is_none()
            && self.resolved.wanted.is_none()
            && self.is_alone(description)
    }

    /// Whether no other values come to those that are stored.
    fn is_alone(&self, description: &AttributeDescription) -> bool {
        !self.resolved.guard.given().is_some_and(|all| all.may_give(description))
    }

    /// Sends an entry, with what its values lead to and what is asked for of its account.
    pub(super) fn deliver(
        &self,
        what: &Delivered<'_, '_>,
        others: Vec<ResponseControl>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<FlowOrEnd, Refusal> {
        let &Delivered { entry, rights, .. } = what;
        let Resolved { selection, wanted, .. } = *self.resolved;
        if let Some(asked) = &self.accounts {
            return self.deliver_account(asked, what, others, sink);
        }
        let visible = rights.visible(entry, selection).only(wanted);
        if others.is_empty() {
            return self.deliver_as(what, &visible, Controls::EMPTY, sink);
        }
        self.deliver_as(what, &visible, ResponseControl::list(&others).as_ref(), sink)
    }

    /// Sends an entry with what is asked for of its account.
    fn deliver_account(
        &self,
        asked: &AccountsAsked,
        what: &Delivered<'_, '_>,
        mut controls: Vec<ResponseControl>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<FlowOrEnd, Refusal> {
        let &Delivered { stored, entry, rights } = what;
        let Resolved { selection, wanted, guard, .. } = *self.resolved;
        let directory = self.search.directory;
        let Some((known, key)) = asked.account(directory, self.state, guard, self.view, stored)
        else {
            let visible = rights.visible(entry, selection).only(wanted);
            let controls = ResponseControl::list(&controls);
            return self.deliver_as(what, &visible, controls.as_ref(), sink);
        };
        let beside = asked.beside(entry, &known);
        controls.extend(asked.control(&known, &key, guard.access(), rights, directory));
        let visible = rights.visible(&beside, selection).only(wanted);
        self.deliver_as(what, &visible, ResponseControl::list(&controls).as_ref(), sink)
    }

    fn deliver_as(
        &self,
        what: &Delivered<'_, '_>,
        visible: &VisibleEntry<'_>,
        controls: Controls<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<FlowOrEnd, Refusal> {
        let &Delivered { stored, rights, .. } = what;
        if !stored.has_lists() {
            return Ok(Ok(sink.entry_with(visible, controls)));
        }
        if self.search.request.types_only {
            let outside = stored.outside()?;
            let is_listed = |one: &AttributeDescription| {
                self.is_alone(one) && outside.iter().any(|(listed, _)| ***listed == *one)
            };
            return Ok(Ok(sink.entry_types(visible, controls, &is_listed)));
        }
        let mut lists = Vec::new();
        for (description, list) in stored.outside()? {
            if self.resolved.selection.selects(description)
                && rights.may_read(description)
                && self.goes_in_parts(description, list.count()?, list.octets_known())
            {
                lists.push((description, list));
            }
        }
        match lists.is_empty() {
            true => Ok(Ok(sink.entry_with(visible, controls))),
            false => self.deliver_in_parts(stored, visible, controls, &lists, sink),
        }
    }

    /// Has an entry sent in parts: the search parks for it.
    fn deliver_in_parts<'v>(
        &self,
        stored: &StoredEntry<'v>,
        visible: &VisibleEntry<'_>,
        controls: Controls<'_>,
        lists: &[LongList<'v>],
        sink: &mut ResponseSink<'_>,
    ) -> Result<FlowOrEnd, Refusal> {
        let (search, bounds) = (self.search, self.bounds);
        let (Some(asker), Some(turns)) = (search.asker, search.large_turns) else {
            return Ok(Err(SearchOutcome::TooMuch));
        };
        // Before anything is held for it: the connection takes one after another.
        let Some(turn) = turns.take() else { return Ok(Ok(sink.defer(stored.id()))) };
        let given = search.take_room();
        let is_given = given.is_some();
        let new = || AskerHeld::new(&search.directory.budgets.large_entries, asker);
        let mut held = given.unwrap_or_else(new);
        if !is_given && !held.grow(LARGE_ENTRY_BYTES) {
            if search.may_wait_for_room() {
                search.wait_for_room();
                return Ok(Ok(sink.defer(stored.id())));
            }
            return Err(Refusal::new(ResultCode::Busy, TOO_MANY));
        }
        let lsn = self.view.lsn();
        let parts = LargeParts { stored, visible, controls, lists, lsn, held, turn };
        match LargeEntry::count(sink.id(), parts, &search.interrupt(&bounds)) {
            Ok(Some(large)) => Ok(Ok(sink.large_entry(large))),
            Ok(None) => Err(Refusal::new(ResultCode::AdminLimitExceeded, TOO_LONG)),
            Err(error @ StoreError::Interrupted) => Ok(Err(search.ended_by(error, &bounds)?)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Values that take so many octets are sent in parts, be they ever so few.
const IN_PARTS_BYTES: u64 = 8 << 20;

const TOO_MANY: &str = "too many entries with very many values are being sent; try again, or ask \
                        for a part of the values: 'member;range=0-1499'";
const TOO_LONG: &str = "the entry has more octets than a message may have; ask for a part of the \
                        values: 'member;range=0-1499'";
