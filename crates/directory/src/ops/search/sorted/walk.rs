//! Lists in the order of an index: its groups one by one, from where the page before ended.
//!
//! Invariant: an entry is taken in the group of its least value, and in no other.

use schema::EntryId;
use store::{Members, OrderedGroup, OrderingIndex};

use super::{Failed, Order, Place, Sent, Sorting, Step};
use crate::sink::ResponseSink;

impl Sorting<'_> {
    /// Sends the list by walking the index.
    pub(super) fn walk(
        &mut self,
        index: OrderingIndex,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Step, Failed> {
        let members = self.candidates()?;
        let is_among_the_last =
            self.after.as_ref().is_some_and(|after| Order::lacks_primary(&after.key));
        if !is_among_the_last && let Step::End(outcome) = self.walk_values(index, &members, sink)? {
            return Ok(Step::End(outcome));
        }
        let is_complete = self.after.is_none()
            && self.run.sends_all()
            && u64::from(self.run.sent) == members.len();
        if is_complete { Ok(Step::Next) } else { self.walk_missing(index, members, sink) }
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
    ) -> Result<Step, Failed> {
        let view = self.view();
        let primary = self.order.primary();
        let from = self.after.as_ref().and_then(|after| primary.value_of(&after.key));
        let mut groups = view.ordered_groups(index, primary.reverse, from.as_deref())?;
        let mut group = OrderedGroup::default();
        let mut places = self.places();
        let (mut key, mut prefix) = (Vec::new(), Vec::new());
        while self.next_group(&mut groups, &mut group)? {
            if let Some(outcome) = self.pass() {
                return Ok(Step::End(outcome));
            }
            prefix.clear();
            self.order.primary().append_group(&group, &mut prefix);
            let is_in_order = self.order.is_single() && group.is_whole();
            places.clear();
            self.seen_before = self.run.seen;
            for id in group.ids().filter(|id| members.contains(*id)) {
                if let Some(outcome) = self.run.interrupted() {
                    return Ok(Step::End(outcome));
                }
                let stored = self.read(id)?;
                if !self.run.matches(&stored)? {
                    continue;
                }
                self.key_of(&stored, &mut key);
                let is_before = |after: &Place| (&key, id) <= (&after.key, after.id);
                if !key.starts_with(&prefix) || self.after.as_ref().is_some_and(is_before) {
                    continue;
                }
                if self.was_sent(id) {
                    continue;
                }
                if !is_in_order {
                    places.push(&key, id)?;
                    continue;
                }
                match self.emit(&stored, &key, sink)? {
                    Sent::Next => {}
                    Sent::Park => return Ok(Step::End(self.park_walk())),
                    Sent::End(outcome) => return Ok(Step::End(outcome)),
                }
            }
            if places.list.is_empty() {
                continue;
            }
            let list = self.in_order(std::mem::take(&mut places.list))?;
            let park = |here: &mut Self, _: &[Place]| here.park_walk();
            if let Step::End(outcome) = self.emit_all(&list, park, sink)? {
                return Ok(Step::End(outcome));
            }
        }
        Ok(Step::Next)
    }

    /// Entries without a value.
    fn walk_missing(
        &mut self,
        index: OrderingIndex,
        mut members: Members,
        sink: &mut ResponseSink<'_>,
    ) -> Result<Step, Failed> {
        self.take_all(index, &mut members)?;
        let rest = self.rest(&members)?;
        let mut places = self.places();
        let mut key = Vec::new();
        self.seen_before = self.run.seen;
        for id in rest {
            if let Some(outcome) = self.run.interrupted() {
                return Ok(Step::End(outcome));
            }
            let stored = self.read(id)?;
            if !self.run.matches(&stored)? {
                continue;
            }
            self.key_of(&stored, &mut key);
            let is_before = |after: &Place| (&key, id) <= (&after.key, after.id);
            if self.after.as_ref().is_some_and(is_before) || self.was_sent(id) {
                continue;
            }
            if !self.order.is_single() {
                places.push(&key, id)?;
                continue;
            }
            match self.emit(&stored, &key, sink)? {
                Sent::Next => {}
                Sent::Park => return Ok(Step::End(self.park_walk())),
                Sent::End(outcome) => return Ok(Step::End(outcome)),
            }
        }
        let list = self.in_order(places.list)?;
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
            let id = id.map_err(|error| self.failed_by(error))?;
            if !members.is_taken(id) {
                rest.push(id);
            }
        }
        Ok(rest)
    }
}
