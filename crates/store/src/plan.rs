//! Planning: turns a resolved filter and a scope into candidate entry ids.
//!
//! Invariant: a plan may hold entries that do not match, never miss one that does. The search
//! re-tests every candidate: too many cost time, too few would be a wrong answer.

mod term;

use ldap::message::Scope;
use schema::{EntryId, ResolvedFilter};

use crate::entry::StoredEntry;
use crate::error::StoreError;
use crate::ids::{IdIter, IdSet};
use crate::view::View;

/// When so few candidates are left, testing them costs less than reading further lists.
pub(crate) const FEW_CANDIDATES: u64 = 8;
/// A subtree or a level of up to this many entries is walked when no index helps.
pub(crate) const WALK_ENTRIES_MAX: usize = 16_384;

/// How a search goes about it.
#[derive(Debug)]
pub struct Plan {
    /// Which entries to look at.
    candidates: Candidates,
    /// How many there are, about.
    pub estimate: u64,
    /// Each candidate is in scope and matches the filter: neither needs a test. Whether the asker
    /// may know is another question.
    pub exact: bool,
    /// Each candidate is in scope.
    pub scope_exact: bool,
    /// An index or the tree narrowed the candidates; else the whole directory is read.
    pub indexed: bool,
}

/// The entries a search has to look at.
#[derive(Debug)]
pub struct Candidates(Kind);

#[derive(Debug)]
enum Kind {
    /// These, and no others.
    Ids(IdSet),
    /// Every entry there is.
    All,
}

impl Plan {
    /// Which entries to look at.
    #[must_use]
    pub const fn set(&self) -> &Candidates {
        &self.candidates
    }

    /// The ids of the candidates after `after`, in order; [`EntryId::ROOT`] is before all.
    pub fn candidates<'p>(
        &'p self,
        view: &'p View<'_>,
        after: EntryId,
    ) -> impl Iterator<Item = Result<EntryId, StoreError>> + 'p {
        let walk = self.walk(view, after);
        walk.map(|step| match step {
            Step::Id(id) => Ok(EntryId(id)),
            Step::Entry(entry) => entry.map(|entry| entry.id()),
        })
    }

    /// The candidates after `after`, in the order of their ids, each read once.
    pub fn entries<'p>(
        &'p self,
        view: &'p View<'_>,
        after: EntryId,
    ) -> impl Iterator<Item = Result<StoredEntry<'p>, StoreError>> + 'p {
        let walk = self.walk(view, after);
        walk.map(|step| match step {
            Step::Id(id) => view.expect_entry(id),
            Step::Entry(entry) => entry,
        })
    }

    fn walk<'p>(
        &'p self,
        view: &'p View<'_>,
        after: EntryId,
    ) -> impl Iterator<Item = Step<'p>> + 'p {
        let (ids, scan) = match &self.candidates.0 {
            Kind::Ids(ids) => (Some(ids.iter_after(after.0)), None),
            Kind::All => (None, Some(view.scan(after.0))),
        };
        let (rows, failed) = match scan.transpose() {
            Ok(rows) => (rows, None),
            Err(error) => (None, Some(Step::Entry(Err(error)))),
        };
        let ids: Option<IdIter<'p>> = ids;
        let rows = rows.into_iter().flatten().map(Step::Entry);
        ids.into_iter().flatten().map(Step::Id).chain(rows).chain(failed)
    }
}

enum Step<'p> {
    Id(u64),
    Entry(Result<StoredEntry<'p>, StoreError>),
}

/// Candidates by the filter alone.
#[derive(Debug)]
pub(crate) struct Found {
    /// None: every entry.
    pub(crate) set: Option<IdSet>,
    /// Every candidate matches.
    pub(crate) exact: bool,
}

impl View<'_> {
    /// Plans a search for entries in `scope` of `base` that match `filter`.
    pub fn plan(
        &self,
        filter: &ResolvedFilter,
        base: EntryId,
        scope: Scope,
    ) -> Result<Plan, StoreError> {
        if scope == Scope::Base {
            let set = IdSet::Few(if base == EntryId::ROOT { Vec::new() } else { vec![base.0] });
            return Ok(Plan::of_scope(set));
        }
        let found = self.find(filter)?;
        let whole = match scope {
            Scope::Base | Scope::One | Scope::Subordinate => base == EntryId::ROOT,
            Scope::Subtree => self.is_everything(base)?,
        };
        let whole = whole && scope != Scope::One;
        match found.set {
            Some(set) => {
                // A level or a subtree may be smaller than what the filter finds.
                let limit = usize::try_from(set.len() / 2).unwrap_or(usize::MAX);
                if !whole
                    && set.len() > FEW_CANDIDATES
                    && let Some(walked) = self.walk(base, scope, limit.min(WALK_ENTRIES_MAX))?
                {
                    let mut set = set;
                    set.intersect(&walked);
                    return Ok(Plan { exact: found.exact, ..Plan::of_scope(set) });
                }
                Ok(Plan {
                    estimate: set.len(),
                    candidates: Candidates(Kind::Ids(set)),
                    exact: found.exact && whole,
                    scope_exact: whole,
                    indexed: true,
                })
            }
            None => {
                if !whole && let Some(walked) = self.walk(base, scope, WALK_ENTRIES_MAX)? {
                    return Ok(Plan { exact: found.exact, ..Plan::of_scope(walked) });
                }
                Ok(Plan {
                    estimate: self.entry_count()?,
                    candidates: Candidates(Kind::All),
                    exact: found.exact && whole,
                    scope_exact: whole,
                    indexed: false,
                })
            }
        }
    }

    /// The entries in scope, if there are at most `limit`.
    fn walk(&self, base: EntryId, scope: Scope, limit: usize) -> Result<Option<IdSet>, StoreError> {
        // One read tells of most levels that they are too large.
        if self.child_count(base)? > limit as u64 {
            return Ok(None);
        }
        let mut ids = Vec::new();
        if scope == Scope::Subtree && base != EntryId::ROOT {
            ids.push(base.0);
        }
        let is_deep = scope != Scope::One;
        let mut open = vec![base];
        while let Some(parent) = open.pop() {
            for child in self.children(parent)? {
                let child = child?;
                if ids.len() >= limit {
                    return Ok(None);
                }
                ids.push(child.0);
                if is_deep && self.child_count(child)? > 0 {
                    open.push(child);
                }
            }
        }
        Ok(Some(IdSet::from_unsorted(ids)))
    }
}

impl Plan {
    /// Candidates that are all in scope.
    fn of_scope(set: IdSet) -> Self {
        Self {
            estimate: set.len(),
            candidates: Candidates(Kind::Ids(set)),
            exact: false,
            scope_exact: true,
            indexed: true,
        }
    }
}
