//! Finding the entries that are joined with one.

use std::collections::BTreeSet;

use ldap::control_value::join::JoinedEntries;
use ldap::message::{AttributesBuf, PartialAttribute, Scope, Values};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead, ResolvedFilter, Truth};
use store::{Ask, Resolved, StoreError, StoredEntry, View};

use super::dereference::{FOLLOWED_MAX, LISTED_MAX};
use super::join::{Base, Bound, Join, Rule, Source};
use super::outcome::SearchOutcome;
use super::request::Search;
use super::run::CHILD_STEPS;
use crate::access::guard::Guard;
use crate::directory::State;
use crate::read::computed;
use crate::read::live_entry::LiveEntry;
use crate::request::controls::join::OID;
use crate::request::controls::response::ResponseControl;
use crate::request::referral;
use crate::request::refusal::Refusal;
use crate::virtual_attributes::planned;

/// What came of joining an entry with others.
pub(super) enum Joined {
    /// The control for the entry.
    Control(ResponseControl),
    /// None is, and so the entry is not wanted either.
    Unwanted,
    /// The search ends.
    End(SearchOutcome),
}

/// What joins entries.
pub(super) struct Joiner<'a> {
    pub(super) search: &'a Search<'a>,
    pub(super) view: &'a View<'a>,
    pub(super) state: &'a State,
    /// The base of the search.
    pub(super) base: EntryId,
    /// Referral objects are looked out for.
    pub(super) referrals: bool,
}

/// What is left of what may be told of one entry, and how the join ended.
#[derive(Clone)]
struct Told {
    entries: usize,
    bytes: usize,
    ended: Option<(ResultCode, String)>,
}

/// Why no more is looked for.
enum Break {
    End(SearchOutcome),
    Refused(Refusal),
}

impl From<StoreError> for Break {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Refusal> for Break {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Told {
    /// The first reason counts.
    fn end(&mut self, code: ResultCode, why: String) {
        self.ended.get_or_insert((code, why));
    }

    fn end_as_full(&mut self) {
        let megabytes = TOLD_MAX_BYTES >> 20;
        let why = format!("at most {TOLD_MAX} entries and {megabytes} MiB come with an entry");
        self.end(ResultCode::AdminLimitExceeded, why);
    }

    fn is_full(&self) -> bool {
        self.ended.as_ref().is_some_and(|(code, _)| *code == ResultCode::AdminLimitExceeded)
    }
}

impl Joiner<'_> {
    /// Joins an entry with others. `guard` is for entries below the base of the search.
    pub(super) fn join(
        &self,
        join: &Join,
        stored: &StoredEntry<'_>,
        guard: &Guard<'_>,
    ) -> Result<Joined, Refusal> {
        // How much there is to look at is not known.
        if self.search.candidates_max.is_some() {
            return Ok(Joined::End(SearchOutcome::TooMuch));
        }
        let mut told = Told { entries: TOLD_MAX, bytes: TOLD_MAX_BYTES, ended: None };
        // They may be anywhere, also where other rules hold than here.
        let found = guard.anywhere(|guard| self.joined(join, stored, guard, &mut told));
        let entries = match found {
            Ok(entries) => entries,
            Err(Break::End(end)) => return Ok(Joined::End(end)),
            Err(Break::Refused(refusal)) => return Err(refusal),
        };
        if join.require_match && entries.count() == 0 {
            return Ok(Joined::Unwanted);
        }
        let (code, why) = told.ended.unwrap_or((ResultCode::Success, String::new()));
        let value = Some(entries.finish(code.code(), &why));
        Ok(Joined::Control(ResponseControl { oid: OID, value }))
    }

    fn joined(
        &self,
        join: &Join,
        stored: &StoredEntry<'_>,
        guard: &Guard<'_>,
        told: &mut Told,
    ) -> Result<JoinedEntries, Break> {
        let (base, is_known) = self.base_of(join, stored, guard)?;
        let before = (!is_known).then(|| told.clone());
        let entries = match base {
            Some(base) => self.joined_below(join, (base, is_known), stored, guard, told)?,
            None => JoinedEntries::default(),
        };
        // Whoever may not know of the base learns of it by what is found below, and by nothing
        // else: however the join ended, it is as if the base were not there.
        if let Some(before) = before.filter(|_| entries.count() == 0) {
            *told = before;
            told.end(ResultCode::NoSuchObject, NO_BASE.to_owned());
        }
        Ok(entries)
    }

    /// What is joined at and below a base, of which the asker may know or not.
    fn joined_below(
        &self,
        join: &Join,
        place: (EntryId, bool),
        stored: &StoredEntry<'_>,
        guard: &Guard<'_>,
        told: &mut Told,
    ) -> Result<JoinedEntries, Break> {
        let ((base, is_known), mut entries) = (place, JoinedEntries::default());
        let Some(bound) = self.bound(&join.rule, stored, guard, told)? else {
            return Ok(entries);
        };
        let candidates = match self.candidates(&bound, join, base, guard, told) {
            // That there are too many tells of the base.
            Err(Break::Refused(one)) if !is_known && one.code == ResultCode::AdminLimitExceeded => {
                return Ok(entries);
            }
            candidates => candidates?,
        };
        let Some(candidates) = candidates else { return Ok(entries) };
        for id in candidates {
            self.check()?;
            let Some(entry) = self.view.entry(EntryId(id))? else { continue };
            if !self.is_joined(join, &bound, base, &entry, guard)? {
                continue;
            }
            if entries.count() >= join.size_limit {
                let why = format!("more than {} entries are joined with it", join.size_limit);
                told.end(ResultCode::SizeLimitExceeded, why);
                break;
            }
            if told.entries == 0 || told.bytes == 0 {
                told.end_as_full();
                break;
            }
            told.entries -= 1;
            let nested = match &join.nested {
                Some(nested) => Some(self.joined(nested, &entry, guard, told)?),
                None => None,
            };
            let is_wanted = join.nested.as_ref().is_none_or(|nested| !nested.require_match)
                || nested.as_ref().is_some_and(|nested| nested.count() > 0);
            if !is_wanted {
                continue;
            }
            let before = entries.bytes();
            let Some(attributes) = self.told_of(join, &entry, guard, told)? else { break };
            if attributes.as_ref().as_ber().len() > told.bytes {
                told.end_as_full();
                break;
            }
            entries.push(entry.dn(), attributes.as_ref(), nested.as_ref());
            // Those that it is joined with in turn have been counted.
            let of_nested = nested.map_or(0, |nested| nested.bytes());
            let own = (entries.bytes() - before).saturating_sub(of_nested);
            told.bytes = told.bytes.saturating_sub(own);
            if told.is_full() {
                break;
            }
        }
        // What is not complete is not told as if it were.
        self.check()?;
        Ok(entries)
    }

    /// Where to look, if it is there, and whether the asker may know of it.
    fn base_of(
        &self,
        join: &Join,
        stored: &StoredEntry<'_>,
        guard: &Guard<'_>,
    ) -> Result<(Option<EntryId>, bool), Break> {
        let key = match &join.base {
            Base::Search => return Ok((Some(self.base), true)),
            Base::Source => return Ok((Some(stored.id()), true)),
            Base::Custom(key) => key,
        };
        if key.is_root() {
            return Ok((Some(EntryId::ROOT), true));
        }
        let Resolved::Found(id) = self.view.resolve(key)? else { return Ok((None, false)) };
        let Some(entry) = self.view.entry(id)? else { return Ok((None, false)) };
        Ok((Some(id), guard.on(&entry).is_disclosed()))
    }

    /// What a rule means for an entry; none where it has too many values.
    fn bound(
        &self,
        rule: &Rule,
        stored: &StoredEntry<'_>,
        guard: &Guard<'_>,
        told: &mut Told,
    ) -> Result<Option<Bound>, Break> {
        let schema = &self.state.schema;
        Ok(Some(match rule {
            Rule::And(parts) | Rule::Or(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    let Some(bound) = self.bound(part, stored, guard, told)? else {
                        return Ok(None);
                    };
                    all.push(bound);
                }
                match rule {
                    Rule::And(_) => Bound::All(all),
                    Rule::Or(_) | Rule::Dn(_) | Rule::Values { .. } | Rule::Names(_) => {
                        Bound::Any(all)
                    }
                }
            }
            Rule::Dn(source) => {
                let Some(names) = self.values(source, stored, guard, told)? else {
                    return Ok(None);
                };
                let mut ids = BTreeSet::new();
                for name in names {
                    self.search.spend(NAME_STEPS);
                    let name = std::str::from_utf8(&name).ok();
                    let key = name.and_then(|name| DnKey::from_text(schema, name).ok());
                    let Some(key) = key else { continue };
                    if let Resolved::Found(id) = self.view.resolve(&key)? {
                        ids.insert(id.0);
                    }
                }
                Bound::Ids(ids)
            }
            Rule::Values { source, target, how } => {
                let Some(values) = self.values(source, stored, guard, told)? else {
                    return Ok(None);
                };
                Bound::of_values(&values, target, *how, schema)
            }
            Rule::Names(target) => Bound::naming(stored.dn(), target, schema),
        }))
    }

    /// The values of an attribute that the asker may read; none where they are too many.
    fn values(
        &self,
        source: &Source,
        stored: &StoredEntry<'_>,
        guard: &Guard<'_>,
        told: &mut Told,
    ) -> Result<Option<Vec<Vec<u8>>>, Break> {
        let known = self.state.schema.well_known();
        let mut values = Vec::new();
        // Of what may not be read nothing is told, not how many there are either.
        let rights = guard.on(stored);
        let mut is_too_many = false;
        for (description, list) in stored.outside()? {
            let is_read = rights.may_see() && rights.may_read(description);
            if is_read && source.own.selects(description) {
                is_too_many |= list.count()? > VALUES_MAX as u64;
            }
        }
        if !is_too_many {
            let live = LiveEntry::new(self.view, stored, known, true).seen_by(guard);
            let live = live.selecting(&source.own);
            rights.visible(&live, &source.own).visit(&mut |_, found| {
                let left = VALUES_MAX + 1 - values.len();
                values.extend(found.iter().take(left).map(<[u8]>::to_vec));
            });
            self.search.spend(live.others_read() * CHILD_STEPS);
        }
        if is_too_many || values.len() > VALUES_MAX {
            let why = format!("an entry with more than {VALUES_MAX} values is joined with none");
            told.end(ResultCode::AdminLimitExceeded, why);
            return Ok(None);
        }
        self.search.spend(values.len() as u64 * NAME_STEPS);
        Ok(Some(values))
    }

    /// The numbers of all that may be joined; none where that would take to look at all entries.
    fn candidates(
        &self,
        bound: &Bound,
        join: &Join,
        base: EntryId,
        guard: &Guard<'_>,
        told: &mut Told,
    ) -> Result<Option<BTreeSet<u64>>, Break> {
        match bound {
            Bound::Ids(ids) => Ok(Some(ids.clone())),
            Bound::Filter(filter) => self.planned(filter.clone(), join, base, guard, told),
            Bound::Any(parts) => {
                let mut all = BTreeSet::new();
                for part in parts {
                    let found = self.candidates(part, join, base, guard, told)?;
                    let Some(mut found) = found else { return Ok(None) };
                    all.append(&mut found);
                }
                Ok(Some(all))
            }
            Bound::All(parts) => {
                let named = parts.iter().find(|part| matches!(part, Bound::Ids(_)));
                let filters = parts.iter().filter_map(|part| match part {
                    Bound::Filter(filter) => Some(filter.clone()),
                    Bound::All(_) | Bound::Any(_) | Bound::Ids(_) => None,
                });
                let filters = filters.collect::<Vec<_>>();
                match (named, filters.is_empty(), parts.first()) {
                    (Some(named), ..) => self.candidates(named, join, base, guard, told),
                    (None, false, _) => {
                        self.planned(ResolvedFilter::And(filters), join, base, guard, told)
                    }
                    (None, true, Some(first)) => self.candidates(first, join, base, guard, told),
                    (None, true, None) => Ok(Some(BTreeSet::new())),
                }
            }
        }
    }

    /// What the plan for a filter has.
    fn planned(
        &self,
        filter: ResolvedFilter,
        join: &Join,
        base: EntryId,
        guard: &Guard<'_>,
        told: &mut Told,
    ) -> Result<Option<BTreeSet<u64>>, Break> {
        if matches!(&filter, ResolvedFilter::Or(ways) if ways.is_empty()) {
            return Ok(Some(BTreeSet::new()));
        }
        let filter = match &join.filter {
            Some(more) => ResolvedFilter::And(vec![filter, more.clone()]),
            None => filter,
        };
        let given = guard.given().and_then(|all| planned::planned(all, &filter));
        let filter = given.map_or(filter, |planned| *planned);
        let bounds = self.search.bounds();
        let interrupt = self.search.interrupt(&bounds);
        let whole = |one: &_| guard.may_search_all_of(one);
        let ask =
            Ask { whole: &whole, interrupt: &interrupt, ..Ask::new(&filter, base, join.scope) };
        let ended = |error| match self.search.ended_by(error, &bounds) {
            Ok(end) => Break::End(end),
            Err(refusal) => Break::Refused(refusal),
        };
        let plan = self.view.plan(&ask).map_err(ended)?;
        let is_narrow = plan.indexed && self.view.is_narrowed(&filter);
        if !is_narrow && join.scope != Scope::Base && !self.may_look_at_all()? {
            let why = "no index finds the entries that are joined with it";
            told.end(ResultCode::UnwillingToPerform, why.to_owned());
            return Ok(None);
        }
        let mut ids = BTreeSet::new();
        for id in plan.candidates_until(self.view, EntryId::ROOT, &interrupt) {
            ids.insert(id.map_err(ended)?.0);
            self.search.spend_unseen(CANDIDATE_STEPS);
            if ids.len() > CANDIDATES_MAX {
                return Err(Break::Refused(Refusal::new(
                    ResultCode::AdminLimitExceeded,
                    format!("a join looks at most at {CANDIDATES_MAX} entries: narrow its filter"),
                )));
            }
        }
        Ok(Some(ids))
    }

    /// Whether all entries may be looked at: there are few, or the asker has the right.
    fn may_look_at_all(&self) -> Result<bool, Break> {
        let Search { directory, access, controls, .. } = self.search;
        let few = u64::from(directory.limits().unindexed_entries);
        Ok(!controls.reject_unindexed
            && (access.may_search_unindexed(controls.permit_unindexed)
                || self.view.entry_count()? <= few))
    }

    /// Whether an entry is joined, and may be found by whoever asks.
    fn is_joined(
        &self,
        join: &Join,
        bound: &Bound,
        base: EntryId,
        entry: &StoredEntry<'_>,
        guard: &Guard<'_>,
    ) -> Result<bool, Break> {
        let (view, schema) = (self.view, &self.state.schema);
        let known = schema.well_known();
        let in_scope = match join.scope {
            Scope::Base => entry.id() == base,
            Scope::One => entry.parent() == base,
            Scope::Subtree => view.is_within(entry, base)?,
            Scope::Subordinate => entry.id() != base && view.is_within(entry, base)?,
        };
        let rights = guard.on(entry);
        if !in_scope || !rights.may_see() {
            self.search.spend_unseen(CHILD_STEPS);
            return Ok(false);
        }
        // A search would lead elsewhere, or not show it.
        let is_referral = self.referrals
            && (referral::is_referral(entry, known)
                || referral::is_below(view, known, entry.parent())?);
        if is_referral || (join.scope != Scope::Base && self.state.subentries.hold(schema, entry)) {
            return Ok(false);
        }
        let live = LiveEntry::new(view, entry, known, true).seen_by(guard);
        let seen = rights.searchable(&live);
        let is_one = self.is_meant(bound, entry.id(), &seen)
            && join
                .filter
                .as_ref()
                .is_none_or(|filter| self.search.evaluate(filter, schema, &seen) == Truth::True);
        self.search.spend((1 + live.others_read()) * CHILD_STEPS);
        Ok(is_one)
    }

    fn is_meant(&self, bound: &Bound, id: EntryId, entry: &dyn EntryRead) -> bool {
        match bound {
            Bound::All(parts) => parts.iter().all(|part| self.is_meant(part, id, entry)),
            Bound::Any(parts) => parts.iter().any(|part| self.is_meant(part, id, entry)),
            Bound::Ids(ids) => ids.contains(&id.0),
            Bound::Filter(filter) => {
                self.search.evaluate(filter, &self.state.schema, entry) == Truth::True
            }
        }
    }

    /// What of an entry is told; none where it has too many names in lists.
    fn told_of(
        &self,
        join: &Join,
        entry: &StoredEntry<'_>,
        guard: &Guard<'_>,
        told: &mut Told,
    ) -> Result<Option<AttributesBuf>, Break> {
        let (known, wanted) = (self.state.schema.well_known(), &join.selection);
        let rights = guard.on(entry);
        let mut names = 0;
        for (description, list) in entry.outside()? {
            if wanted.selects(description) && rights.may_see() && rights.may_read(description) {
                list.check_read(description)?;
                names += list.count()?;
            }
        }
        if names > LISTED_MAX {
            let why = format!("an entry with more than {FOLLOWED_MAX} names does not come with it");
            told.end(ResultCode::AdminLimitExceeded, why);
            return Ok(None);
        }
        self.search.spend(names * NAME_STEPS);
        let computed = wanted.may_select_operational()
            && computed::descriptions(known).iter().any(|one| wanted.selects(one));
        let live = LiveEntry::new(self.view, entry, known, computed);
        let live = live.seen_by(guard).selecting(wanted);
        let mut found = AttributesBuf::new();
        rights.visible(&live, wanted).visit(&mut |description, values| {
            let values = if join.types_only { Values::EMPTY } else { values };
            found.push(PartialAttribute { description, values });
        });
        self.search.spend(live.others_read() * CHILD_STEPS);
        Ok(Some(found))
    }

    /// Ends what takes too long.
    fn check(&self) -> Result<(), Break> {
        let bounds = self.search.bounds();
        if let Some(end) = self.search.work_over() {
            return Err(Break::End(end));
        }
        match self.search.interrupt(&bounds)() {
            true => Err(Break::End(self.search.ended_by(StoreError::Interrupted, &bounds)?)),
            false => Ok(()),
        }
    }
}

const NO_BASE: &str = "the base of the join does not exist";
/// The most values of an entry that lead to others.
const VALUES_MAX: usize = 1_000;
/// The most entries that come with an entry, those that they are joined with in turn among them,
/// and the most octets.
const TOLD_MAX: usize = 5_000;
const TOLD_MAX_BYTES: usize = 4 << 20;
/// The most entries that are looked at for one join of an entry.
const CANDIDATES_MAX: usize = 100_000;
/// To find an entry by an index, and by a value of another, in steps.
const CANDIDATE_STEPS: u64 = 20;
const NAME_STEPS: u64 = CHILD_STEPS / 8;
