//! Which entries are exported, and in which order.
//!
//! Invariant: the list of all entries is never in memory; tasks are made while they are taken.

use std::collections::BTreeSet;
use std::sync::Arc;

use ldap::message::Scope;
use schema::{EntryId, ResolvedFilter, Schema};
use store::{Ask, Plan, Store, StoreError, View};

use super::ExportError;
use crate::in_order::Take;

/// Which entries are asked for.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) base: EntryId,
    pub(super) scope: Scope,
    pub(super) filter: Option<ResolvedFilter>,
    pub(super) schema: Arc<Schema>,
}

impl Region {
    fn is_everything(&self) -> bool {
        self.base == EntryId::ROOT && self.filter.is_none()
    }

    /// How many entries there are to write, about.
    pub(super) fn expected(&self, view: &View<'_>) -> Result<u64, ExportError> {
        if self.is_everything() {
            return Ok(view.entry_count()?);
        }
        self.with_plan(view, |plan| Ok(plan.estimate))
    }

    fn with_plan<T>(
        &self,
        view: &View<'_>,
        look: impl FnOnce(&Plan) -> Result<T, ExportError>,
    ) -> Result<T, ExportError> {
        let all = ResolvedFilter::And(Vec::new());
        let filter = self.filter.as_ref().unwrap_or(&all);
        look(&view.plan(&Ask::new(filter, self.base, self.scope))?)
    }
}

/// Entries whose text one thread makes in a row.
#[derive(Debug)]
pub(super) enum Task {
    /// What stands before all entries.
    Text(Vec<u8>),
    /// These entries, in this order, if they match the filter.
    Entries(Vec<EntryId>),
    /// Of these entries those whose turn is by their number, if they are in the region and match.
    Straight(Vec<EntryId>),
    /// Of the entries from the first number to the last those that are in the region and match.
    Numbers(EntryId, EntryId),
}

/// A walk through the entries.
#[derive(Debug)]
pub(super) enum Walk {
    /// Through the region, in the order of numbers, behind a text.
    ByNumber(Option<Vec<u8>>),
    /// In the order of names.
    ByName(Option<Vec<u8>>),
    /// Through what stands below these entries and is older than they are.
    Moved(BTreeSet<u64>),
}

impl Walk {
    /// Makes the tasks of the walk; they end when nobody takes them.
    pub(super) fn feed(
        self,
        store: &Arc<Store>,
        region: &Region,
        take: Take<'_, Task>,
    ) -> Result<(), ExportError> {
        let mut reader = store.reader();
        let view = reader.view()?;
        if let Self::ByNumber(Some(text)) | Self::ByName(Some(text)) = &self
            && !take(Task::Text(text.clone()))
        {
            return Ok(());
        }
        let mut batch = Batch { ids: Vec::new(), take };
        match self {
            Self::ByNumber(_) => by_number(view, region, batch),
            Self::ByName(_) => {
                by_name(view, region, &mut batch)?;
                batch.flush();
                Ok(())
            }
            Self::Moved(parents) => {
                for parent in parents {
                    for child in view.children(EntryId(parent))? {
                        let child = child?;
                        if child.0 < parent && !subtree(view, child, &mut batch)? {
                            return Ok(());
                        }
                    }
                }
                batch.flush();
                Ok(())
            }
        }
    }
}

/// Entries for a task.
struct Batch<'t> {
    ids: Vec<EntryId>,
    take: Take<'t, Task>,
}

impl Batch<'_> {
    /// Puts an entry behind the others; false when nobody wants more.
    fn push(&mut self, id: EntryId) -> bool {
        self.ids.push(id);
        self.ids.len() < TASK_ENTRIES || self.flush()
    }

    fn flush(&mut self) -> bool {
        self.ids.is_empty() || (self.take)(Task::Entries(std::mem::take(&mut self.ids)))
    }
}

fn by_number(view: &View<'_>, region: &Region, mut batch: Batch<'_>) -> Result<(), ExportError> {
    if matches!(region.scope, Scope::Base | Scope::Subtree) {
        for id in heads(view, region)? {
            if !batch.push(id?) {
                return Ok(());
            }
        }
    }
    if !batch.flush() || region.scope == Scope::Base {
        return Ok(());
    }
    if region.is_everything() {
        return numbers(view, batch.take);
    }
    region.with_plan(view, |plan| {
        // To look up most entries one by one takes longer than to read all in a row.
        if plan.estimate.saturating_mul(2) > view.entry_count()? {
            return numbers(view, batch.take);
        }
        let mut ids = Vec::with_capacity(TASK_ENTRIES);
        for id in plan.candidates(view, EntryId::ROOT) {
            ids.push(id?);
            if ids.len() == TASK_ENTRIES && !(batch.take)(Task::Straight(std::mem::take(&mut ids)))
            {
                return Ok(());
            }
        }
        if !ids.is_empty() {
            (batch.take)(Task::Straight(ids));
        }
        Ok(())
    })
}

/// All entries there are, by their numbers.
fn numbers(view: &View<'_>, take: Take<'_, Task>) -> Result<(), ExportError> {
    let mut after = EntryId::ROOT;
    // Numbers may have long gaps.
    while let Some(first) = view.entries_after(after)?.next() {
        let first = first?.id();
        let last = EntryId(first.0.saturating_add(TASK_ENTRIES as u64 - 1));
        if !take(Task::Numbers(first, last)) {
            return Ok(());
        }
        after = last;
    }
    Ok(())
}

fn by_name(view: &View<'_>, region: &Region, batch: &mut Batch<'_>) -> Result<(), ExportError> {
    match region.scope {
        Scope::Base => {
            batch.push(region.base);
        }
        Scope::One => {
            for id in view.children(region.base)? {
                if !batch.push(id?) {
                    return Ok(());
                }
            }
        }
        Scope::Subtree => {
            for id in heads(view, region)? {
                if !subtree(view, id?, batch)? {
                    return Ok(());
                }
            }
        }
        Scope::Subordinate => {
            for id in view.children(region.base)? {
                if !subtree(view, id?, batch)? {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// What the region begins with: the base, or the entries of the naming contexts.
fn heads<'v>(
    view: &'v View<'_>,
    region: &Region,
) -> Result<Box<dyn Iterator<Item = Result<EntryId, StoreError>> + 'v>, StoreError> {
    Ok(match region.base {
        EntryId::ROOT => Box::new(view.children(EntryId::ROOT)?),
        base => Box::new(std::iter::once(Ok(base))),
    })
}

/// An entry and all below it, siblings in the order of their names; false when nobody wants more.
fn subtree(view: &View<'_>, top: EntryId, batch: &mut Batch<'_>) -> Result<bool, ExportError> {
    // A level of the tree each.
    let mut open = Vec::new();
    let mut next = Some(top);
    loop {
        if let Some(id) = next {
            if !batch.push(id) {
                return Ok(false);
            }
            if view.child_count(id)? > 0 {
                open.push(view.children(id)?);
            }
        }
        let Some(level) = open.last_mut() else { return Ok(true) };
        next = level.next().transpose()?;
        if next.is_none() {
            open.pop();
        }
    }
}

/// Entries of one task.
const TASK_ENTRIES: usize = 1_000;
