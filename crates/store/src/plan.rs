//! Planning: turns a resolved filter and a scope into candidate entry ids.
//!
//! Invariant: a plan may hold entries that do not match, never miss one that does. The search
//! re-tests every candidate: too many cost time, too few would be a wrong answer.

mod explain;
mod term;

use std::fmt;
use std::time::Duration;

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{EntryId, ResolvedFilter};

use crate::entry::StoredEntry;
use crate::error::StoreError;
use crate::ids::{IdIter, IdSet};
use crate::view::View;

pub use explain::{Explanation, Operator, ScopeReport, Source, TermReport};

/// When so few candidates are left, testing them costs less than reading further lists.
pub(crate) const FEW_CANDIDATES: u64 = 8;
/// A subtree or a level of up to this many entries is walked when no index helps.
pub(crate) const WALK_ENTRIES_MAX: usize = 16_384;

/// What is asked of a plan.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// Which entries are looked for.
    pub filter: &'a ResolvedFilter,
    /// Where they are looked for.
    pub base: EntryId,
    /// How far below `base`.
    pub scope: Scope,
    /// How many entries are enough, if that is known: a size limit or a page.
    pub wanted: Option<u64>,
    /// Asked now and then: yes ends the planning with [`StoreError::Interrupted`].
    pub interrupt: &'a dyn Fn() -> bool,
    /// A clock: with one, the plan explains itself.
    pub explain: Option<&'a dyn Fn() -> Duration>,
    /// The filter as it was asked, for the texts of an explanation.
    pub text: Option<&'a Filter<'a>>,
}

impl<'a> Ask<'a> {
    /// Asks for all entries, without an explanation, and cannot be interrupted.
    #[must_use]
    pub fn new(filter: &'a ResolvedFilter, base: EntryId, scope: Scope) -> Self {
        let interrupt = &|| false;
        Self { filter, base, scope, wanted: None, interrupt, explain: None, text: None }
    }
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("filter", &self.filter)
            .field("base", &self.base)
            .field("scope", &self.scope)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

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
    explanation: Option<Box<Explanation>>,
}

/// The entries a search has to look at.
#[derive(Debug)]
pub struct Candidates(Kind);

/// The ids of all candidates, to look them up in any order.
#[derive(Clone, Debug)]
pub struct CandidateIds(Option<IdSet>);

impl CandidateIds {
    /// How many there are; none when every entry is one.
    #[must_use]
    pub fn len(&self) -> Option<u64> {
        self.0.as_ref().map(IdSet::len)
    }

    /// Whether no entry is a candidate.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(IdSet::is_empty)
    }

    /// Whether an entry is a candidate.
    #[must_use]
    pub fn contains(&self, id: EntryId) -> bool {
        self.0.as_ref().is_none_or(|ids| ids.contains(id.0))
    }
}

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

    /// How the plan came about, if that was asked.
    #[must_use]
    pub fn explanation(&self) -> Option<&Explanation> {
        self.explanation.as_deref()
    }

    /// The ids of all candidates: to walk an index in its own order and keep what is among them.
    pub fn ids(&self, _view: &View<'_>) -> Result<CandidateIds, StoreError> {
        Ok(CandidateIds(match &self.candidates.0 {
            Kind::Ids(ids) => Some(ids.clone()),
            Kind::All => None,
        }))
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
    /// Plans a search.
    pub fn plan(&self, ask: &Ask<'_>) -> Result<Plan, StoreError> {
        let started = ask.explain.map(|clock| clock());
        let mut plan = self.plan_quietly(ask)?;
        if let (Some(clock), Some(started)) = (ask.explain, started) {
            plan.explanation = Some(Box::new(plan.explained(ask, clock() - started)));
        }
        Ok(plan)
    }

    fn plan_quietly(&self, ask: &Ask<'_>) -> Result<Plan, StoreError> {
        let Ask { filter, base, scope, .. } = *ask;
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
                    explanation: None,
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
                    explanation: None,
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
            explanation: None,
        }
    }

    fn explained(&self, ask: &Ask<'_>, taken: Duration) -> Explanation {
        let final_candidates = self.indexed.then_some(self.estimate);
        let filter = explain::text(ask.filter, ask.text);
        let root = TermReport {
            filter: filter.clone(),
            operator: match ask.filter {
                ResolvedFilter::And(_) => Operator::And,
                ResolvedFilter::Or(_) => Operator::Or,
                ResolvedFilter::Not(_) => Operator::Not,
                _ => Operator::Item,
            },
            source: if self.indexed { Source::Composed } else { Source::Scan },
            candidates: final_candidates,
            exact: self.exact,
            order: self.indexed.then_some(1),
            skipped: None,
            time_us: u64::try_from(taken.as_micros()).unwrap_or(u64::MAX),
            would_help: None,
            children: Vec::new(),
        };
        let scope = ScopeReport { scope: ask.scope, count: None, used: self.scope_exact };
        let killed_by = (final_candidates == Some(0)).then_some(filter);
        Explanation { root, scope, final_candidates, exact: self.exact, killed_by }
    }
}
