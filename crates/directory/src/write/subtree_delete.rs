//! Subtree delete (draft-armijo-ldap-treedelete): an entry and everything below it.
//!
//! A large tree is deleted in steps, each a change record of its own and at most
//! [`STEP_ENTRIES_MAX`] entries or about [`STEP_REFERENCES_MAX`] values that name them, leaves
//! first and the named entry last. Between the steps other writes are carried out, and what was
//! interrupted can be sent again.
//!
//! Invariant: no step leaves an entry without its superior.
//! Invariant: memory is bounded whatever the size of the tree: ids that wait for their turn are
//! at most [`WAITING_ENTRIES_MAX`], and they are a hint only; each is looked at again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use aci::{Denied, Permitted};
use history::record::Record;
use ldap::dn::Dn;
use ldap::result::ResultCode;
use rustc_hash::FxHashSet;
use schema::{AttributeDescription, Change, DnKey, EntryId};
use store::{Lsn, View};

use crate::access::guard;
use crate::directory::Directory;
use crate::read::target;
use crate::request::referral;
use crate::request::refusal::Refusal;
use crate::write::decision::{Decide, Decision};
use crate::write::request::{Progress, SubtreeDelete};
use crate::write::{checks, delete, references};

/// Decides on the next step; false beside it when there is more to do.
pub(crate) fn decide(
    decide: &mut Decide<'_>,
    op: &mut SubtreeDelete,
) -> Result<(Decision, bool), Refusal> {
    let progress = match &mut op.progress {
        Some(progress) => progress,
        None => {
            let base = begin(decide, &op.key, &op.dn)?;
            let (waiting, controls) = (VecDeque::new(), Vec::new());
            op.progress.insert(Progress { base, waiting, controls })
        }
    };
    if decide.view.entry(progress.base)?.is_none() {
        // Somebody else deleted what was left of it.
        return Ok((Decision::default(), true));
    }
    let step = Step::of(decide, progress)?;
    if step.changes.is_empty() {
        // The walk found leaves, so the names and the counts of the store contradict each other.
        return Err(Refusal::new(ResultCode::Other, "the tree of the store is inconsistent"));
    }
    let is_over = step.doomed.contains(&progress.base);
    Ok((Decision { changes: step.changes, ..Decision::default() }, is_over))
}

/// Finds the entry and looks for what would stop the deletion half-way.
fn begin(decide: &Decide<'_>, key: &DnKey, dn: &Dn) -> Result<EntryId, Refusal> {
    let name = dn.to_string();
    let base = target::find(decide.view, decide.state, decide.guard, &decide.lookup(&name, key))?;
    if decide.referrals && referral::any_below(decide.view, decide.state, base)? {
        return Err(Refusal::new(
            ResultCode::AffectsMultipleDsas,
            "the tree holds referral objects: ManageDsaIT deletes them with the rest",
        ));
    }
    // Or else it would be found when half of the tree is gone.
    if !checks::may_set_policies(decide)
        && decide.directory.rules.password_policies.load().holds_within(key)
    {
        return Err(Denied.into());
    }
    checks::check_definitions_within(decide, key, &guard::stored(decide.view, base)?)?;
    Ok(base)
}

/// Whether the deletion of a tree came to its end with its record `last`: the named entry is
/// deleted last. Refuses where nobody can tell.
pub(crate) fn deleted_tree(
    directory: &Directory,
    op: &SubtreeDelete,
    last: Lsn,
) -> Result<bool, Refusal> {
    let schema = directory.storage.store.schema();
    let record = directory.storage.log.tail(last).ok();
    let record = record.and_then(|mut tail| tail.next_within(Duration::ZERO).ok().flatten());
    let record = record.and_then(|record| Record::decode(&record.bytes, &schema).ok());
    let Some(record) = record else {
        return Err(Refusal::new(
            ResultCode::Other,
            "the deletion was begun, and how far it came is not known any more; look at the tree",
        ));
    };
    let is_base = |dn: &Dn| DnKey::from_dn(&schema, dn).is_ok_and(|key| key == op.key);
    Ok(record.changes.iter().any(|one| matches!(one, Change::Delete(one) if is_base(&one.dn))))
}

/// The entries of one step.
#[derive(Default)]
struct Step {
    doomed: FxHashSet<EntryId>,
    /// How many values name them.
    references: u64,
    changes: Vec<Permitted<Change>>,
}

impl Step {
    fn of(decide: &Decide<'_>, progress: &mut Progress) -> Result<Self, Refusal> {
        let view = decide.view;
        let mut step = Self::default();
        let mut octets = 0;
        let mut is_fresh = false;
        let kinds = references::kinds(view, &decide.state.schema)?;
        while step.doomed.len() < STEP_ENTRIES_MAX
            && octets < STEP_OCTETS_MAX
            && step.references < STEP_REFERENCES_MAX
        {
            let Some(id) = progress.waiting.pop_front() else {
                if is_fresh || !step.doomed.is_empty() {
                    break;
                }
                progress.waiting = leaves_first(view, progress.base)?;
                is_fresh = true;
                continue;
            };
            match step.take(decide, id, progress.base)? {
                Taken::Entry(size) => {
                    octets += size;
                    step.note_references(decide, &kinds, id)?;
                }
                Taken::Elsewhere => {}
                // The tree has grown below it: its new subordinates are to be found first.
                Taken::NotYet => progress.waiting.clear(),
            }
        }
        Ok(step)
    }

    /// Dooms an entry if it may go now.
    fn take(&mut self, decide: &Decide<'_>, id: EntryId, base: EntryId) -> Result<Taken, Refusal> {
        let view = decide.view;
        let Some(stored) = view.entry(id)? else { return Ok(Taken::Elsewhere) };
        if !view.is_within(&stored, base)? {
            return Ok(Taken::Elsewhere);
        }
        let children = view.child_count(id)?;
        if children > 0 && !self.dooms_all(view, id, children)? {
            return Ok(Taken::NotYet);
        }
        let (change, octets) = delete::change(&stored)?;
        self.doomed.insert(id);
        self.changes.push(checks::permit_delete(decide, &stored, change)?);
        Ok(Taken::Entry(octets))
    }

    /// Counts the values that name an entry.
    fn note_references(
        &mut self,
        decide: &Decide<'_>,
        kinds: &[Arc<AttributeDescription>],
        id: EntryId,
    ) -> Result<(), Refusal> {
        let name = decide.view.dn(id)?;
        if let Ok(key) = DnKey::from_text(&decide.state.schema, &name) {
            self.references += references::count(decide.view, kinds, id, &key)?;
        }
        Ok(())
    }

    /// Whether all `count` subordinates of an entry go in this very step.
    fn dooms_all(&self, view: &View<'_>, id: EntryId, count: u64) -> Result<bool, Refusal> {
        if count > self.doomed.len() as u64 {
            return Ok(false);
        }
        for child in view.children(id)? {
            if !self.doomed.contains(&child?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What became of an id that waited.
enum Taken {
    /// It goes; its size in octets, about.
    Entry(usize),
    /// It is not there any more, or was moved away.
    Elsewhere,
    /// It has subordinates that do not go before it.
    NotYet,
}

/// The first entries of the tree below `base`, `base` included, each behind its subordinates.
fn leaves_first(view: &View<'_>, base: EntryId) -> Result<VecDeque<EntryId>, Refusal> {
    let mut found = VecDeque::new();
    let mut path = vec![(base, view.children(base)?)];
    while let Some((id, children)) = path.last_mut() {
        match children.next() {
            Some(child) => {
                let child = child?;
                path.push((child, view.children(child)?));
            }
            None => {
                found.push_back(*id);
                path.pop();
                if found.len() >= WAITING_ENTRIES_MAX {
                    break;
                }
            }
        }
    }
    Ok(found)
}

/// Entries deleted in one step, which is one change record: few enough that the writes of others,
/// which wait meanwhile, hardly notice.
const STEP_ENTRIES_MAX: usize = 200;

/// Values that name the entries of one step, about: each of these is a change, too.
const STEP_REFERENCES_MAX: u64 = 1000;

/// Octets of the entries of one step, about: a record stays small.
const STEP_OCTETS_MAX: usize = 1 << 20;

/// Ids found in one walk through the tree.
const WAITING_ENTRIES_MAX: usize = 10_000;
