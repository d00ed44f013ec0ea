//! Lists in the order of an index: its groups one by one, from where the page before ended.
//!
//! Invariant: an entry is taken in the group of its least value, and in no other. Those without a
//! value are in no group: they come before the groups in reverse, else behind them.

use std::ops::ControlFlow;
use std::sync::Arc;

use ldap::message::Scope;
use schema::{EntryId, ResolvedFilter};
use store::{Ask, Members, OrderedGroup, OrderingIndex};

use super::position::ListPosition;
use super::sorting::{Failed, MEMBER_STEPS, Sorting};
use crate::read::search::outcome::SearchOutcome;
use crate::read::search::run::AfterEntry;
use crate::read::search::sorted::order::SortOrder;
use crate::request::sink::ResponseSink;

impl Sorting<'_> {
    /// Sends the list by walking the index.
    pub(super) fn walk(
        &mut self,
        index: OrderingIndex,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        let mut members = self.candidates()?;
        let after = self.after.as_ref().map(|after| after.key.as_slice());
        let is_before =
            self.order.primary().reverse && after.is_none_or(SortOrder::is_before_values);
        let is_behind = after.is_some_and(SortOrder::is_behind_values);
        if is_before
            && let ControlFlow::Break(outcome) = self.walk_before(index, &mut members, sink)?
        {
            return Ok(ControlFlow::Break(outcome));
        }
        if !is_behind
            && let ControlFlow::Break(outcome) = self.walk_values(index, &members, sink)?
        {
            return Ok(ControlFlow::Break(outcome));
        }
        let is_complete = self.after.is_none()
            && self.run.sends_all()
            && u64::from(self.run.sent) == members.len();
        if is_complete {
            Ok(ControlFlow::Continue(()))
        } else {
            self.walk_behind(index, members, sink)
        }
    }

    /// The candidates of the plan, without reading them.
    pub(super) fn candidates(&self) -> Result<Members, Failed> {
        let all = self.view().entry_count()?;
        let (search, bounds) = (self.run.search, self.run.bounds);
        let ids = self.plan.ids(self.view(), &search.interrupt(&bounds));
        Ok(Members::of_candidates(ids.map_err(|error| self.failed_by(error))?, all))
    }

    /// Entries that have a value.
    fn walk_values(
        &mut self,
        index: OrderingIndex,
        members: &Members,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        let view = self.view();
        let primary = self.order.primary();
        let from = self.after.as_ref().and_then(|after| primary.value_of(&after.key));
        let mut groups = view.ordered_groups(index, primary.reverse, from.as_deref())?;
        let mut group = OrderedGroup::default();
        let mut positions = self.positions();
        let (mut key, mut prefix) = (Vec::new(), Vec::new());
        while self.next_group(&mut groups, &mut group)? {
            if let Some(outcome) = self.pass() {
                return Ok(ControlFlow::Break(outcome));
            }
            prefix.clear();
            self.order.primary().append_group(&group, &mut prefix);
            let is_in_order = self.order.is_single() && group.is_whole();
            positions.clear();
            self.seen_before = self.run.seen;
            for id in group.ids().filter(|id| members.contains(*id)) {
                if let Some(outcome) = self.run.interrupted() {
                    return Ok(ControlFlow::Break(outcome));
                }
                let stored = self.read(id)?;
                if !self.is_listed(&stored)? {
                    continue;
                }
                self.key_of(&stored, &mut key)?;
                let is_before = |after: &ListPosition| (&key, id) <= (&after.key, after.id);
                if !key.starts_with(&prefix) || self.after.as_ref().is_some_and(is_before) {
                    continue;
                }
                if self.was_sent(id) {
                    continue;
                }
                if !is_in_order {
                    positions.push(&key, id)?;
                    continue;
                }
                match self.emit(&stored, &key, sink)? {
                    AfterEntry::Next => {}
                    AfterEntry::Park => return Ok(ControlFlow::Break(self.park_walk())),
                    AfterEntry::End(outcome) => return Ok(ControlFlow::Break(outcome)),
                }
            }
            if positions.list.is_empty() {
                continue;
            }
            let list = self.in_order(std::mem::take(&mut positions.list))?;
            let park = |here: &mut Self, _: &[ListPosition]| here.park_walk();
            if let ControlFlow::Break(outcome) = self.emit_all(&list, park, sink)? {
                return Ok(ControlFlow::Break(outcome));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Entries without a value, in reverse.
    fn walk_before(
        &mut self,
        index: OrderingIndex,
        members: &mut Members,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        let after = self.begun(SortOrder::is_before_values);
        if let Some(missing) = self.missing(members)? {
            return self.walk_ids(missing.ids_after(after), SortOrder::is_before_values, sink);
        }
        self.take_all(index, members)?;
        let rest = self.rest(members)?.into_iter().filter(|id| *id > after);
        self.walk_ids(rest, SortOrder::is_before_values, sink)
    }

    /// Those that no group has; in reverse, of those that have the attribute.
    fn walk_behind(
        &mut self,
        index: OrderingIndex,
        mut members: Members,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        self.take_all(index, &mut members)?;
        let mut rest = self.rest(&members)?;
        if self.order.primary().reverse
            && let Some(missing) = self.missing(&members)?
        {
            rest.retain(|id| !missing.contains(*id));
        }
        let after = self.begun(SortOrder::is_behind_values);
        let rest = rest.into_iter().filter(|id| *id > after);
        self.walk_ids(rest, SortOrder::is_behind_values, sink)
    }

    /// The entry behind which those go on that are alike in having no value: they are in the order
    /// of their ids when nothing else orders them.
    fn begun(&self, is_meant: impl Fn(&[u8]) -> bool) -> EntryId {
        let after = self.after.as_ref().filter(|after| is_meant(&after.key));
        after.filter(|_| self.order.is_single()).map_or(EntryId::ROOT, |after| after.id)
    }

    /// The entries of the list that lack the primary attribute, if an index of its presence tells.
    pub(super) fn missing(&mut self, members: &Members) -> Result<Option<Members>, Failed> {
        let description = Arc::clone(&self.order.primary().description);
        let present = ResolvedFilter::Present(description);
        let (view, search, bounds) = (self.view(), self.run.search, self.run.bounds);
        let interrupt = search.interrupt(&bounds);
        let ask = Ask::new(&present, EntryId::ROOT, Scope::Subtree);
        let plan = view.plan(&Ask { interrupt: &interrupt, ..ask });
        let plan = plan.map_err(|error| self.failed_by(error))?;
        if !plan.exact {
            return Ok(None);
        }
        let present = plan.ids(view, &interrupt).map_err(|error| self.failed_by(error))?;
        if let Some(missing) = members.without(&present) {
            return Ok(Some(missing));
        }
        let mut missing = Vec::new();
        if present.len().is_some_and(|count| count < members.len()) {
            for id in self.plan.candidates_until(view, EntryId::ROOT, &interrupt) {
                self.check_step()?;
                self.spend_passing(MEMBER_STEPS)?;
                let id = id.map_err(|error| self.failed_by(error))?;
                if !present.contains(id) {
                    missing.push(id);
                }
            }
        }
        Ok(Some(Members::of(missing.into_iter())))
    }

    /// Sends those of these entries that match and whose key `is_meant`.
    fn walk_ids(
        &mut self,
        ids: impl Iterator<Item = EntryId>,
        is_meant: impl Fn(&[u8]) -> bool,
        sink: &mut ResponseSink<'_>,
    ) -> Result<ControlFlow<SearchOutcome>, Failed> {
        let mut positions = self.positions();
        let wanted =
            self.wanted().and_then(|wanted| usize::try_from(wanted.saturating_add(1)).ok());
        let mut key = Vec::new();
        self.seen_before = self.run.seen;
        let is_single = self.order.is_single();
        for id in ids {
            if let Some(outcome) = self.run.interrupted() {
                return Ok(ControlFlow::Break(outcome));
            }
            if is_single {
                // Those before it are not looked at again.
                self.seen_before = self.run.seen;
            }
            let stored = self.read(id)?;
            if !self.is_listed(&stored)? {
                continue;
            }
            self.key_of(&stored, &mut key)?;
            let is_before = |after: &ListPosition| (&key, id) <= (&after.key, after.id);
            if !is_meant(&key) || self.after.as_ref().is_some_and(is_before) || self.was_sent(id) {
                continue;
            }
            if !is_single {
                positions.push(&key, id)?;
                if let Some(wanted) = wanted {
                    let search = self.run.search;
                    positions.prune(wanted, |steps| search.spend(steps));
                }
                continue;
            }
            match self.emit(&stored, &key, sink)? {
                AfterEntry::Next => {}
                AfterEntry::Park => return Ok(ControlFlow::Break(self.park_walk())),
                AfterEntry::End(outcome) => return Ok(ControlFlow::Break(outcome)),
            }
        }
        let list = self.in_order(positions.list)?;
        self.emit_all(&list, |here, _| here.park_walk(), sink)
    }

    /// Gives every member that has a value its turn.
    pub(super) fn take_all(
        &mut self,
        index: OrderingIndex,
        members: &mut Members,
    ) -> Result<(), Failed> {
        let mut groups = self.view().ordered_groups(index, false, None)?;
        let (mut group, mut taken) = (OrderedGroup::default(), Vec::new());
        members.renew();
        while members.left() > 0 && self.next_group(&mut groups, &mut group)? {
            self.check_step()?;
            taken.clear();
            members.take(&group, &mut taken);
        }
        Ok(())
    }

    /// The members that did not have their turn, by id.
    pub(super) fn rest(&mut self, members: &Members) -> Result<Vec<EntryId>, Failed> {
        if members.left() == 0 {
            return Ok(Vec::new());
        }
        if !members.is_all() {
            return Ok(members.ids().filter(|id| !members.is_taken(*id)).collect());
        }
        let mut rest = Vec::new();
        let (plan, view) = (self.plan, self.view());
        let (search, bounds) = (self.run.search, self.run.bounds);
        let interrupt = search.interrupt(&bounds);
        for id in plan.candidates_until(view, EntryId::ROOT, &interrupt) {
            self.check_step()?;
            self.spend_passing(MEMBER_STEPS)?;
            let id = id.map_err(|error| self.failed_by(error))?;
            if !members.is_taken(id) {
                rest.push(id);
            }
        }
        Ok(rest)
    }
}
