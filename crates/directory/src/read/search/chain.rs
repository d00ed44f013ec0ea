//! In-chain (1.2.840.113556.1.4.1941): `(member:1.2.840.113556.1.4.1941:=DN)` is true of entries
//! that have the DN as a member, or a member that has it, and so on.
//!
//! Before planning, the assertion becomes an OR of equality assertions: of the DN, and of all
//! entries that lead to it. Those are found level by level, all of a level in one look-up.
//!
//! Invariants: an entry is gone through once for each chain, so circles end. What all chains of one
//! filter may hold is limited together, by entries ([`CHAIN_ENTRIES_MAX`]) and by octets
//! ([`CHAIN_BYTES_MAX`]); only entries count that the asker may see and search. Only values that
//! the asker may search for lead anywhere, of entries that they may see: what a search for each
//! level would find.
//! Invariant: looking chains up does not park. All it does, planning too, is work of the search,
//! counted before it is done, and there is so little of it that others do not wait long for the
//! thread ([`CHAIN_WORK_MAX`], [`CHAIN_WORK_ANONYMOUS_MAX`]). What is done with entries that may be
//! hidden is not counted: the same limits, as times, bound it.

use std::mem::size_of;
use std::sync::Arc;
use std::time::Duration;

use aci::{Identity, Rights};
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;
use rustc_hash::{FxHashMap, FxHashSet};
use schema::{
    Assertion, AttributeDescription, Compare, EntryId, EntryRead, ExtensibleAssertion,
    MatchingRule, ResolvedFilter,
};
use store::{Ask, Plan, StoreError, StoredEntry, View};

use super::bounds::Bounds;
use super::cost::ENTRY_STEPS;
use super::outcome::SearchOutcome;
use super::request::Search;
use super::unindexed::{ChainLooks, is_unindexed};
use crate::access::guard::Guard;
use crate::directory::State;
use crate::request::refusal::Refusal;

/// In-chain assertions of one filter, equal ones too.
const CHAIN_TERMS_MAX: usize = 64;
/// Entries that all chains of one filter lead through together.
const CHAIN_ENTRIES_MAX: usize = 10_000;
/// Octets of the assertions that all chains of one filter become together.
const CHAIN_BYTES_MAX: usize = 8 << 20;
/// What it takes to look up a key of a level, whatever is found.
const KEY_STEPS: u64 = 300;
/// Steps of work for all chains of one filter, which are done in one turn: half a second.
const CHAIN_WORK_MAX: u64 = 500_000_000;
/// The same for who has not signed in: 50 ms.
const CHAIN_WORK_ANONYMOUS_MAX: u64 = 50_000_000;

/// What became of a filter.
pub(crate) enum Expanded {
    /// It asks for no chain.
    Same,
    /// It asks for its entries one by one now.
    Filter(ResolvedFilter),
    /// It cannot be answered here, or by nobody any more.
    End(SearchOutcome),
}

/// Looks up the chains that a filter asks about.
pub(crate) fn expand(
    search: &Search<'_>,
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    filter: &ResolvedFilter,
) -> Result<Expanded, Refusal> {
    if !filter.asks_chains() {
        return Ok(Expanded::Same);
    }
    if count(filter) > CHAIN_TERMS_MAX {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            format!("a filter has at most {CHAIN_TERMS_MAX} in-chain terms; ask for fewer at once"),
        ));
    }
    let bounds = search.bounds();
    match Chains::new(search, view, state, guard, &bounds).rewrite(filter) {
        Ok(filter) => Ok(Expanded::Filter(filter)),
        Err(End::Over(outcome)) => Ok(Expanded::End(outcome)),
        Err(End::Refused(refusal)) => Err(refusal),
    }
}

/// How many chains a filter asks about. Recurses as deep as it is, which decoding limits.
fn count(filter: &ResolvedFilter) -> usize {
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => parts.iter().map(count).sum(),
        ResolvedFilter::Not(part) => count(part),
        one => usize::from(one.asks_chains()),
    }
}

/// Why there is no filter.
enum End {
    /// The search is over.
    Over(SearchOutcome),
    Refused(Refusal),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

/// What looking up chains depends on, and what is left for them.
struct Chains<'a> {
    search: &'a Search<'a>,
    view: &'a View<'a>,
    state: &'a State,
    guard: &'a Guard<'a>,
    bounds: &'a Bounds,
    /// What was looked up: the assertions of an attribute and a key.
    known: FxHashMap<(Arc<str>, Vec<u8>), Vec<ResolvedFilter>>,
    /// Entries that may be found, and how many more.
    entries_max: usize,
    entries_left: usize,
    /// Octets that assertions may take still.
    bytes_left: usize,
    /// Steps that the search may have done when these are over, and when it began with them.
    spent_max: u64,
    work_max: u64,
    begun: Duration,
}

/// One chain that is being looked up.
struct Chain<'a> {
    asked: &'a ExtensibleAssertion,
    description: &'a Arc<AttributeDescription>,
    rule: &'static MatchingRule,
    /// Entries that lead to what is asked for.
    found: FxHashSet<EntryId>,
    /// The asker may see every entry, and search it for values of the attribute: all work counts.
    finds_all: bool,
}

impl Chain<'_> {
    fn assertion(&self, key: Vec<u8>) -> ResolvedFilter {
        let (description, rule) = (Arc::clone(self.description), self.rule);
        ResolvedFilter::Equality(Assertion { description, rule, key })
    }
}

impl<'a> Chains<'a> {
    fn new(
        search: &'a Search<'a>,
        view: &'a View<'a>,
        state: &'a State,
        guard: &'a Guard<'a>,
        bounds: &'a Bounds,
    ) -> Self {
        let work_max = match search.access.identity() {
            Identity::Root(_) => u64::MAX,
            Identity::Anonymous => CHAIN_WORK_ANONYMOUS_MAX,
            Identity::Entry(_) => CHAIN_WORK_MAX,
        };
        let entries_max = match bounds.look_through_entries {
            0 => CHAIN_ENTRIES_MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX).min(CHAIN_ENTRIES_MAX),
        };
        Self {
            search,
            view,
            state,
            guard,
            bounds,
            known: FxHashMap::default(),
            entries_max,
            entries_left: entries_max,
            bytes_left: CHAIN_BYTES_MAX,
            spent_max: search.work.spent().saturating_add(work_max),
            work_max,
            begun: search.directory.clock.elapsed(),
        }
    }

    /// The filter without chains. Recurses as deep as the filter is, which decoding limits.
    fn rewrite(&mut self, filter: &ResolvedFilter) -> Result<ResolvedFilter, End> {
        Ok(match filter {
            ResolvedFilter::And(parts) => ResolvedFilter::And(self.rewrite_all(parts)?),
            ResolvedFilter::Or(parts) => ResolvedFilter::Or(self.rewrite_all(parts)?),
            ResolvedFilter::Not(part) => ResolvedFilter::Not(Box::new(self.rewrite(part)?)),
            ResolvedFilter::Extensible(asked) if asked.rule.compare == Compare::Chain => {
                self.chain(asked)?
            }
            other => other.clone(),
        })
    }

    fn rewrite_all(&mut self, parts: &[ResolvedFilter]) -> Result<Vec<ResolvedFilter>, End> {
        parts.iter().map(|part| self.rewrite(part)).collect()
    }

    /// The entries that lead to the one asked for, as assertions. Those of an equal term are known.
    fn chain(&mut self, asked: &ExtensibleAssertion) -> Result<ResolvedFilter, End> {
        // A chain is one of values of one attribute.
        let (Some(description), Some(rule)) =
            (&asked.description, MatchingRule::find(DISTINGUISHED_NAME_MATCH))
        else {
            return Ok(ResolvedFilter::Undefined);
        };
        let key = (Arc::<str>::from(description.text()), asked.key.clone());
        if let Some(known) = self.known.get(&key) {
            let bytes = known.iter().map(bytes_of).sum();
            let again = known.clone();
            self.take_bytes(bytes)?;
            return Ok(ResolvedFilter::Or(again));
        }
        let guard = self.guard;
        let finds_all = guard.sees_all() && guard.may_search_everywhere(description);
        let chain = Chain { asked, description, rule, found: FxHashSet::default(), finds_all };
        let assertions = self.look_up(chain)?;
        self.known.insert(key, assertions.clone());
        Ok(ResolvedFilter::Or(assertions))
    }

    fn look_up(&mut self, mut chain: Chain<'_>) -> Result<Vec<ResolvedFilter>, End> {
        let first = chain.assertion(chain.asked.key.clone());
        self.take_bytes(bytes_of(&first))?;
        let (mut all, mut level) = (Vec::new(), vec![first]);
        while !level.is_empty() {
            let filter = ResolvedFilter::Or(level);
            level = self.level(&mut chain, &filter)?;
            if let ResolvedFilter::Or(parts) = filter {
                all.extend(parts);
            }
        }
        Ok(all)
    }

    /// The entries that have one of a level, and were not found before.
    fn level(
        &mut self,
        chain: &mut Chain<'_>,
        level: &ResolvedFilter,
    ) -> Result<Vec<ResolvedFilter>, End> {
        let (search, view, guard, bounds) = (self.search, self.view, self.guard, self.bounds);
        let (begun, work_max) = (self.begun, self.work_max);
        let interrupt = || search.planning_ends(bounds) || search.takes_longer(begun, work_max);
        let ask = Ask { interrupt: &interrupt, ..Ask::new(level, EntryId::ROOT, Scope::Subtree) };
        let plan = view.plan(&ask).map_err(|error| self.ended_by(error))?;
        let keys = Keys { exact: plan.exact, of: keys_of(level) };
        self.spend(match chain.finds_all {
            true => plan.work().planning_cost(),
            false => keys.of.len() as u64 * KEY_STEPS,
        })?;
        let mut spare = self.check_indexed(chain, &plan)?;
        // Of entries that the asker may see and search as a whole nothing is tested.
        let is_certain = plan.exact && chain.finds_all;
        let mut next = Vec::new();
        for stored in plan.entries_until(view, EntryId::ROOT, &interrupt) {
            let stored = stored.map_err(|error| self.ended_by(error))?;
            if chain.finds_all {
                self.spend(ENTRY_STEPS)?;
            }
            // Rights may take longer to find out than steps say.
            if interrupt() {
                return Err(self.ended_by(StoreError::Interrupted));
            }
            if let Some(spare) = &mut spare
                && guard.on(&stored).may_see()
            {
                *spare = spare.checked_sub(1).ok_or_else(|| self.unindexed(chain, &plan))?;
            }
            let is_new = !chain.found.contains(&stored.id());
            if is_new && (is_certain || self.leads(chain, &keys, &stored)?) {
                next.extend(self.found(chain, &stored)?);
            }
        }
        Ok(next)
    }

    /// Whether the asker may see the entry, and search it for a value that it has of a level.
    fn leads(
        &self,
        chain: &Chain<'_>,
        keys: &Keys<'_>,
        stored: &StoredEntry<'_>,
    ) -> Result<bool, End> {
        let rights = self.guard.on(stored);
        if !rights.may_see() {
            return Ok(false);
        }
        let may_all = keys.exact && rights.may_search_all(chain.description);
        Ok(may_all || self.has_one(chain, keys, stored, &rights)?)
    }

    /// Each value is prepared once, however many keys there are.
    fn has_one(
        &self,
        chain: &Chain<'_>,
        keys: &Keys<'_>,
        stored: &StoredEntry<'_>,
        rights: &Rights<'_>,
    ) -> Result<bool, End> {
        let (schema, rule) = (&self.state.schema, chain.rule);
        let (mut holds, mut key, mut ended) = (false, Vec::new(), None);
        let may_ask = rights.searchable(stored).visit_values(chain.description, &mut |_, value| {
            ended = match chain.finds_all {
                true => self.spend(rule.steps(value)).err(),
                // Another value, which may not be searched for, may have made it a candidate.
                false => self.pass(rule.steps(value)).err(),
            };
            if ended.is_some() {
                return false;
            }
            key.clear();
            let is_name = (rule.prepare)(schema, value, &mut key).is_ok();
            holds = is_name && keys.of.contains(key.as_slice());
            !holds
        });
        match ended {
            Some(end) => Err(end),
            None => Ok(may_ask && holds),
        }
    }

    /// Puts an entry to the chain; what is asserted of it then.
    fn found(
        &mut self,
        chain: &mut Chain<'_>,
        stored: &StoredEntry<'_>,
    ) -> Result<Option<ResolvedFilter>, End> {
        chain.found.insert(stored.id());
        if !chain.finds_all {
            self.spend(ENTRY_STEPS)?;
        }
        self.entries_left = self.entries_left.checked_sub(1).ok_or_else(|| {
            let most = self.entries_max;
            too_large(format!("more than {most} entries are in the chains of the filter"))
        })?;
        let name = stored.dn().as_bytes();
        self.spend(chain.rule.steps(name))?;
        let mut key = Vec::new();
        if (chain.rule.prepare)(&self.state.schema, name, &mut key).is_err() {
            return Ok(None);
        }
        key.shrink_to_fit();
        let assertion = chain.assertion(key);
        self.take_bytes(bytes_of(&assertion))?;
        Ok(Some(assertion))
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), End> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(|| {
            too_large(format!("the chains of the filter take more than {CHAIN_BYTES_MAX} bytes"))
        })?;
        Ok(())
    }

    /// Refuses a chain that no index helps. Where entries may be hidden, says of how many that may
    /// be seen each level may look at, if that is limited.
    fn check_indexed(&self, chain: &Chain<'_>, plan: &Plan) -> Result<Option<u64>, Refusal> {
        let is_unindexed = match chain.finds_all {
            true => is_unindexed(plan),
            false => {
                let single = chain.assertion(chain.asked.key.clone());
                self.view.indexable(&single, &|_| true).is_unindexed()
            }
        };
        if !is_unindexed {
            return Ok(None);
        }
        let candidates = chain.finds_all.then_some(plan.estimate);
        match self.search.check_chain(candidates) {
            ChainLooks::Any => Ok(None),
            ChainLooks::AtMost(spare) => Ok(Some(spare)),
            ChainLooks::None => Err(self.unindexed(chain, plan)),
        }
    }

    /// The refusal of a chain that no index helps, by the term that the client has written.
    fn unindexed(&self, chain: &Chain<'_>, plan: &Plan) -> Refusal {
        let single = chain.assertion(chain.asked.key.clone());
        let text = self.as_written(&self.search.request.filter, chain.asked);
        let ask = Ask { text, ..Ask::new(&single, EntryId::ROOT, Scope::Subtree) };
        self.search.refused_chain(plan, self.view, &ask)
    }

    /// The term of the request that an assertion comes from.
    fn as_written<'f>(
        &self,
        filter: &'f Filter<'f>,
        asked: &ExtensibleAssertion,
    ) -> Option<&'f Filter<'f>> {
        match filter {
            Filter::And(parts) | Filter::Or(parts) => {
                parts.iter().find_map(|part| self.as_written(part, asked))
            }
            Filter::Not(part) => self.as_written(part, asked),
            Filter::Extensible(_) => {
                let resolved = ResolvedFilter::resolve(filter, &self.state.schema);
                matches!(&resolved, ResolvedFilter::Extensible(one) if one == asked)
                    .then_some(filter)
            }
            _ => None,
        }
    }

    /// Counts work before it is done.
    fn spend(&self, steps: u64) -> Result<(), End> {
        self.search.spend(steps);
        if let Some(outcome) = self.search.work_over() {
            return Err(End::Over(outcome));
        }
        if self.search.work.spent() > self.spent_max { Err(too_much_work()) } else { Ok(()) }
    }

    /// Counts work for what may be hidden.
    fn pass(&self, steps: u64) -> Result<(), End> {
        self.search.spend_unseen(steps);
        self.search.work_over().map_or(Ok(()), |outcome| Err(End::Over(outcome)))
    }

    /// The end when the store was interrupted, or failed.
    fn ended_by(&self, error: StoreError) -> End {
        match error {
            StoreError::Interrupted => {
                self.search.ended(self.bounds).map_or_else(too_much_work, End::Over)
            }
            failed => failed.into(),
        }
    }
}

/// The keys of a level.
struct Keys<'l> {
    /// The plan has proved that each candidate has one.
    exact: bool,
    of: FxHashSet<&'l [u8]>,
}

fn keys_of(level: &ResolvedFilter) -> FxHashSet<&[u8]> {
    let ResolvedFilter::Or(parts) = level else { return FxHashSet::default() };
    parts.iter().map(key_of).collect()
}

fn key_of(assertion: &ResolvedFilter) -> &[u8] {
    match assertion {
        ResolvedFilter::Equality(assertion) => &assertion.key,
        _ => &[],
    }
}

/// The octets that an assertion of a chain takes.
fn bytes_of(assertion: &ResolvedFilter) -> usize {
    size_of::<ResolvedFilter>() + key_of(assertion).len()
}

fn too_large(diagnostic: String) -> End {
    End::Refused(Refusal::new(ResultCode::AdminLimitExceeded, diagnostic))
}

fn too_much_work() -> End {
    too_large("following the chains of the filter is more work than is done at once".to_owned())
}

const DISTINGUISHED_NAME_MATCH: &str = "2.5.13.1";
