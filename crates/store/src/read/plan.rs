//! Planning: turns a resolved filter and a scope into candidate entry ids.
//!
//! Invariant: a plan may hold entries that do not match, never miss one that does. The search
//! re-tests every candidate: too many cost time, too few would be a wrong answer.

mod cost;
mod explain;
mod indexable;
mod listed;
mod load;
mod lookup;
mod node;
mod scope;
mod stream;
mod substring;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{AttributeDescription, EntryId, ResolvedFilter};

use crate::error::StoreError;
use crate::index::IndexKind;
use crate::index::ids::IdSet;
use crate::read::computed::Computed;
use crate::read::interrupt::{Interrupt, NEVER, Watch};
use crate::read::view::View;
use crate::rows::entry::StoredEntry;
use crate::rows::key::INDEX_VALUE_KEPT_BYTES;
use cost::FEW_CANDIDATES;
use load::Loader;
use lookup::Lookup;
use node::{Node, Shape};
use stream::Stream;

pub use cost::Work;
pub use explain::{CandidateSource, Explanation, Operator, ScopeReport, TermReport};
pub use indexable::Indexable;
pub(crate) use lookup::after_all_with;

/// Says of which attributes all values count, see [`Ask::whole`].
pub type Whole<'a> = &'a dyn Fn(&AttributeDescription) -> bool;

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
    /// Whether all values that an index may hold of an attribute count, those with options and of
    /// subtypes as well. Where they do not, having no part of an index proves nothing: whoever asks
    /// may not know of the value that puts an entry there.
    pub whole: Whole<'a>,
    /// Asked for assertions about attributes that are computed.
    pub computed: Option<&'a dyn Computed>,
    /// Asked now and then: yes ends the planning with [`StoreError::Interrupted`].
    pub interrupt: &'a dyn Fn() -> bool,
    /// A clock: with one, the plan explains itself.
    pub explain: Option<&'a dyn Fn() -> Duration>,
    /// The filter as it was asked, for the texts of an explanation.
    pub text: Option<&'a Filter<'a>>,
    /// For measurements: of the parts of the filter, by their numbers, these are read, in this
    /// order, and no others; one number more is the scope. None: what costs least.
    pub parts: Option<&'a [usize]>,
}

impl<'a> Ask<'a> {
    /// Asks for all entries, without an explanation, and cannot be interrupted.
    #[must_use]
    pub fn new(filter: &'a ResolvedFilter, base: EntryId, scope: Scope) -> Self {
        let interrupt = &|| false;
        Self {
            filter,
            base,
            scope,
            wanted: None,
            whole: &|_| true,
            computed: None,
            interrupt,
            explain: None,
            text: None,
            parts: None,
        }
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
    /// Each candidate matches the filter.
    pub filter_exact: bool,
    /// Each candidate is in scope.
    pub scope_exact: bool,
    /// An index narrowed the candidates by the filter, or proved it; else all in scope are read.
    pub indexed: bool,
    work: Work,
    explanation: Option<Box<Explanation>>,
}

/// The entries a search has to look at.
#[derive(Debug)]
pub struct Candidates(Kind);

/// The ids of all candidates, to look them up in any order.
#[derive(Clone, Debug)]
pub struct CandidateIds(Option<IdSet>);

impl CandidateIds {
    /// The ids; none when every entry is one.
    pub(crate) fn into_set(self) -> Option<IdSet> {
        self.0
    }

    pub(crate) const fn set(&self) -> Option<&IdSet> {
        self.0.as_ref()
    }

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
    /// These, read while they are walked.
    Stream(Stream),
    /// Every entry there is.
    All,
}

impl Plan {
    /// Which entries to look at.
    #[must_use]
    pub const fn set(&self) -> &Candidates {
        &self.candidates
    }

    /// What planning has cost, and what testing the candidates will cost.
    #[must_use]
    pub const fn work(&self) -> Work {
        self.work
    }

    /// How the plan came about, if that was asked.
    #[must_use]
    pub fn explanation(&self) -> Option<&Explanation> {
        self.explanation.as_deref()
    }

    /// The ids of all candidates: to walk an index in its own order and keep what is among them.
    ///
    /// # Errors
    /// [`StoreError::Interrupted`] when `interrupt` says so.
    pub fn ids(
        &self,
        view: &View<'_>,
        interrupt: &dyn Fn() -> bool,
    ) -> Result<CandidateIds, StoreError> {
        Ok(CandidateIds(match &self.candidates.0 {
            Kind::Ids(ids) => Some(ids.clone()),
            Kind::Stream(stream) => Some(stream.ids(view, interrupt)?),
            Kind::All => None,
        }))
    }

    /// The ids of the candidates after `after`, in order; [`EntryId::ROOT`] is before all.
    pub fn candidates<'p>(
        &'p self,
        view: &'p View<'_>,
        after: EntryId,
    ) -> impl Iterator<Item = Result<EntryId, StoreError>> + 'p {
        self.candidates_until(view, after, NEVER)
    }

    /// The ids of the candidates after `after`, in order, until an interrupt: then the last item is
    /// [`StoreError::Interrupted`]. Between two candidates much may be read that is none.
    pub fn candidates_until<'p>(
        &'p self,
        view: &'p View<'_>,
        after: EntryId,
        interrupt: &'p dyn Fn() -> bool,
    ) -> impl Iterator<Item = Result<EntryId, StoreError>> + 'p {
        let walk = self.walk(view, after, interrupt);
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
        self.entries_until(view, after, NEVER)
    }

    /// The candidates after `after`, in the order of their ids, until an interrupt: then the last
    /// item is [`StoreError::Interrupted`].
    pub fn entries_until<'p>(
        &'p self,
        view: &'p View<'_>,
        after: EntryId,
        interrupt: &'p dyn Fn() -> bool,
    ) -> impl Iterator<Item = Result<StoredEntry<'p>, StoreError>> + 'p {
        let walk = self.walk(view, after, interrupt);
        walk.map(|step| match step {
            Step::Id(id) => view.expect_entry(id),
            Step::Entry(entry) => entry,
        })
    }

    fn walk<'p>(
        &'p self,
        view: &'p View<'_>,
        after: EntryId,
        interrupt: Interrupt<'p>,
    ) -> impl Iterator<Item = Step<'p>> + 'p {
        let (mut ids, mut stream, mut scan, mut failed) = (None, None, None, None);
        match &self.candidates.0 {
            Kind::Ids(set) => ids = Some(set.iter_after(after.0)),
            Kind::Stream(found) => match found.walk(view, after.0, interrupt) {
                Ok(walk) => stream = Some(walk),
                Err(error) => failed = Some(Step::Entry(Err(error))),
            },
            Kind::All => match view.scan(after.0) {
                Ok(rows) => scan = Some(rows),
                Err(error) => failed = Some(Step::Entry(Err(error))),
            },
        }
        let ids = ids.into_iter().flatten().map(Step::Id);
        let streamed = stream.into_iter().flatten().map(|id| match id {
            Ok(id) => Step::Id(id),
            Err(error) => Step::Entry(Err(error)),
        });
        let rows = scan.into_iter().flatten().map(Step::Entry);
        ids.chain(streamed).chain(rows).chain(failed)
    }
}

enum Step<'p> {
    Id(u64),
    Entry(Result<StoredEntry<'p>, StoreError>),
}

impl View<'_> {
    /// Plans a search.
    pub fn plan(&self, ask: &Ask<'_>) -> Result<Plan, StoreError> {
        if ask.scope == Scope::Base {
            return Ok(Plan::of_base(ask));
        }
        let is_whole = self.is_whole(ask.base, ask.scope)?;
        match self.plan_quickly(ask, is_whole)? {
            Some(plan) => Ok(plan),
            None => self.plan_by_cost(ask, is_whole),
        }
    }

    /// Whether every entry is in scope.
    fn is_whole(&self, base: EntryId, scope: Scope) -> Result<bool, StoreError> {
        match scope {
            Scope::Base | Scope::One => Ok(false),
            Scope::Subordinate => Ok(base == EntryId::ROOT),
            Scope::Subtree => self.is_everything(base),
        }
    }

    /// One assertion that few entries match: what most searches are.
    fn plan_quickly(&self, ask: &Ask<'_>, is_whole: bool) -> Result<Option<Plan>, StoreError> {
        let ResolvedFilter::Equality(assertion) = ask.filter else { return Ok(None) };
        let asked = &assertion.description;
        let index = self.dictionary().index(&asked.kind, IndexKind::Equality);
        let Some(index) = index.filter(|index| index.rule == Some(assertion.rule)) else {
            return Ok(None);
        };
        if ask.explain.is_some()
            || ask.parts.is_some()
            || assertion.key.len() >= INDEX_VALUE_KEPT_BYTES
            || self.dictionary().listed_of(asked).next().is_some()
        {
            return Ok(None);
        }
        let mut work = Work { rows: 1, ..Work::default() };
        let set = match self.list(index.id, &assertion.key)? {
            None => IdSet::empty(),
            Some(list) if list.count() <= FEW_CANDIDATES => self.load(&list, ask.interrupt)?,
            Some(_) => return Ok(None),
        };
        self.note_index(index.id);
        let filter_exact = asked.options().is_empty() || set.is_empty();
        let exact = (filter_exact && is_whole) || set.is_empty();
        work.ids = set.len();
        work.tests = if exact { 0 } else { set.len() };
        Ok(Some(Plan {
            estimate: set.len(),
            candidates: Candidates(Kind::Ids(set)),
            exact,
            filter_exact,
            scope_exact: is_whole,
            indexed: true,
            work,
            explanation: None,
        }))
    }

    fn plan_by_cost(&self, ask: &Ask<'_>, is_whole: bool) -> Result<Plan, StoreError> {
        let started = ask.explain.map(|clock| clock());
        let mut lookup = Lookup::new(self, ask.whole, ask.interrupt, ask.explain.is_some())?;
        lookup.computed = ask.computed;
        let mut root = lookup.term(ask.filter, ask.text, false)?;
        let candidates = if root.can_be_first() { root.count } else { lookup.entries };
        let is_few = candidates <= FEW_CANDIDATES && ask.parts.is_none();
        let scope = match is_whole || is_few {
            true => None,
            false => lookup.scope(ask.base, ask.scope, candidates)?,
        };
        let entries = lookup.entries;
        let mut loader = Loader {
            view: self,
            entries,
            interrupt: ask.interrupt,
            watch: Watch::new(ask.interrupt),
            clock: ask.explain,
            work: lookup.work,
        };
        // The scope is one more part of a conjunction.
        let mut nodes = match &mut root.shape {
            Shape::And(nodes) => std::mem::take(nodes),
            _ => vec![std::mem::replace(&mut root, Node::unknown())],
        };
        let parts = nodes.len();
        let scope_count = scope.as_ref().map(|scope| scope.count);
        nodes.extend(scope);
        let stream = match ask.parts {
            None => loader.stream(&mut nodes, ask.wanted)?,
            Some(_) => None,
        };
        let (kind, estimate) = match stream {
            Some((stream, count)) => (Kind::Stream(stream), count),
            None => {
                let loaded = match ask.parts {
                    None => loader.load_and(&mut nodes, None)?,
                    Some(parts) => loader.load_parts(&mut nodes, parts)?,
                };
                let count = loaded.set.as_ref().map_or(entries, IdSet::len);
                (loaded.set.map_or(Kind::All, Kind::Ids), count)
            }
        };
        let is_all = matches!(kind, Kind::All);
        let is_empty = !is_all && estimate == 0;
        let mut scope = nodes.split_off(parts.min(nodes.len()));
        let filter_exact = is_empty || nodes.iter().all(|node| node.is_done);
        let scope_exact = is_whole || is_empty || scope.iter().any(|scope| scope.is_done);
        let exact = filter_exact && scope_exact;
        // The scope alone tells nothing of the filter, and neither does what most entries have.
        let is_narrow = estimate.saturating_mul(4) <= entries.saturating_mul(3);
        let is_read = is_narrow && nodes.iter().any(|node| node.is_read);
        let indexed = !is_all && (exact || is_read);
        let mut work = loader.work;
        work.tests = if exact { 0 } else { estimate };
        let mut plan = Plan {
            estimate,
            indexed,
            candidates: Candidates(kind),
            exact,
            filter_exact,
            scope_exact,
            work,
            explanation: None,
        };
        if let (Some(clock), Some(started)) = (ask.explain, started) {
            let told = explain::Told {
                root,
                nodes,
                scope: scope.pop(),
                scope_count,
                is_whole,
                entries,
                taken: clock() - started,
            };
            plan.explanation = Some(Box::new(told.explanation(ask, &plan)));
        }
        Ok(plan)
    }
}

impl Plan {
    /// The base alone: what it is, is asked of it.
    fn of_base(ask: &Ask<'_>) -> Self {
        let ids = if ask.base == EntryId::ROOT { Vec::new() } else { vec![ask.base.0] };
        let set = IdSet::Few(ids);
        let work = Work { tests: set.len(), ..Work::default() };
        let explanation = ask.explain.map(|_| Box::new(explain::of_base(ask, set.len())));
        Self {
            estimate: set.len(),
            candidates: Candidates(Kind::Ids(set)),
            exact: false,
            filter_exact: false,
            scope_exact: true,
            indexed: true,
            work,
            explanation,
        }
    }
}
