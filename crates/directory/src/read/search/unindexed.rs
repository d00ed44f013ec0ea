//! Searches that no index helps: who may do them, and that they are noticed.
//!
//! A search is unindexed when its plan is the whole directory and the filter has still to be
//! tested. In a small directory that is no matter, and nobody is refused. In a large one whoever
//! lacks the right may look at some entries for each one that is found: what returns much is no
//! waste. An order needs all of them before the first is sent, so it is refused at once.
//!
//! Invariant: of hidden entries none of this tells. To whoever may not count candidates a search is
//! unindexed by its filter, whatever the indexes hold, however many entries there are, and only
//! entries that they may see are counted as looked at: an order is refused when these are too many.

use std::sync::atomic::Ordering;

use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{ResolvedFilter, Schema};
use store::{Ask, Plan, View};

use super::outcome::{Done, SearchOutcome};
use super::request::Search;
use super::usable;
use crate::access::guard::Guard;
use crate::request::refusal::Refusal;

impl Search<'_> {
    /// Refuses an unindexed search when the client wants that, or when it would look at many
    /// entries before it sends one and the asker lacks the right. Says how many entries it may look
    /// at without finding any; none: any number.
    pub(super) fn check_indexed(
        &self,
        plan: &Plan,
        view: &View<'_>,
        ask: &Ask<'_>,
        guard: &Guard<'_>,
    ) -> Result<Option<u64>, Refusal> {
        let rejects = self.controls.reject_unindexed;
        let sends_late = self.sends_late();
        // Nothing is looked at in vain, and no plan is asked about.
        if plan.exact && !sends_late && !rejects {
            return Ok(None);
        }
        // Indexes narrow it down, by what they hold and by what is asked: it is the same for
        // everybody.
        if plan.indexed && view.is_narrowed(ask.filter) {
            return Ok(None);
        }
        let disclosed = Disclosed::of(plan, view, ask, guard);
        if !disclosed.is_unindexed {
            return Ok(None);
        }
        self.note.unindexed();
        let (spare, is_limited) = self.spare_looks(disclosed.candidates);
        let ends_late = is_limited && disclosed.candidates.is_none();
        // A count says how it goes about it, and looks at entries only when that is asked for.
        let is_count = self.controls.entry_count.is_some_and(|request| !request.even_unindexed);
        // What was begun goes on.
        let is_refused =
            self.resumed.is_none() && (rejects || (is_limited && sends_late && !ends_late));
        if is_count || !is_refused {
            return Ok((is_limited && (ends_late || !sends_late)).then_some(spare));
        }
        Err(self.refused_for_all(plan, view, disclosed.candidates))
    }

    /// The refusal of a search that needs all entries before the first is sent.
    fn refused_for_all(&self, plan: &Plan, view: &View<'_>, candidates: Option<u64>) -> Refusal {
        // How many there are is for those alone who find them all.
        let looks = match candidates {
            Some(candidates) => format!("all {candidates} entries would be looked at"),
            None => "all entries would be looked at".to_owned(),
        };
        self.refused_at_once(plan, self.culprit(view), &looks)
    }

    /// How many entries each level of a chain that no index helps may look at: nothing is found
    /// before all were. None of `candidates`: hidden ones are among them.
    pub(super) fn check_chain(&self, candidates: Option<u64>) -> ChainLooks {
        self.note.unindexed();
        let (spare, is_limited) = self.spare_looks(candidates);
        // What was begun goes on.
        if self.resumed.is_some() {
            return ChainLooks::Any;
        }
        match (is_limited, candidates) {
            _ if self.controls.reject_unindexed => ChainLooks::None,
            (true, Some(_)) => ChainLooks::None,
            (true, None) => ChainLooks::AtMost(spare),
            (false, _) => ChainLooks::Any,
        }
    }

    /// The refusal to follow a chain that no index helps. `ask` has the term as the client has
    /// written it.
    pub(super) fn refused_chain(&self, plan: &Plan, view: &View<'_>, ask: &Ask<'_>) -> Refusal {
        let looks = "all entries would be looked at for each level";
        let found = view.unanswered(ask.filter, ask.text);
        self.refused_at_once(plan, found.unwrap_or_else(|| self.culprit(view)), looks)
    }

    /// How many entries may be looked at in vain, and whether so many candidates are too many for
    /// an asker who lacks the right; none: they may be.
    fn spare_looks(&self, candidates: Option<u64>) -> (u64, bool) {
        let spare = u64::from(self.directory.limits().unindexed_entries);
        let permits = self.controls.permit_unindexed;
        let may_be_many = candidates.is_none_or(|candidates| candidates > spare);
        (spare, may_be_many && !self.access.may_search_unindexed(permits))
    }

    /// Refuses before anything is looked at: the client wants that, or else for the `looks` that
    /// there would be.
    fn refused_at_once(
        &self,
        plan: &Plan,
        culprit: (String, Option<String>),
        looks: &str,
    ) -> Refusal {
        if self.controls.reject_unindexed {
            let why = "and the request says that it is to be refused then";
            return self.refused(plan, culprit, ResultCode::UnwillingToPerform, why);
        }
        let why = format!("so {looks}; {WHAT_TO_DO}");
        self.refused(plan, culprit, ResultCode::InsufficientAccessRights, &why)
    }

    /// Whether nothing is sent before all entries were looked at.
    fn sends_late(&self) -> bool {
        self.controls.entry_count.is_some() || self.is_sorted()
    }

    /// The end of an unindexed search that has looked at too many entries for those it has found.
    pub(super) fn found_too_few(&self, plan: &Plan, view: &View<'_>) -> SearchOutcome {
        if self.sends_late() {
            return SearchOutcome::Done(Done::refused(self.refused_for_all(plan, view, None)));
        }
        let why = format!(
            "and few of the entries looked at match; {WHAT_TO_DO}; its entries are incomplete"
        );
        let code = ResultCode::InsufficientAccessRights;
        SearchOutcome::Done(Done::refused(self.refused(plan, self.culprit(view), code, &why)))
    }

    fn refused(
        &self,
        plan: &Plan,
        culprit: (String, Option<String>),
        code: ResultCode,
        why: &str,
    ) -> Refusal {
        let counters = &self.directory.monitors.search_counters;
        counters.unindexed_refused.fetch_add(1, Ordering::Relaxed);
        self.log_unindexed(plan, true);
        let (term, would_help) = culprit;
        let would_help = match would_help {
            Some(index) => format!(" (an index '{index}' would)"),
            None => String::new(),
        };
        let term = shortened(&term);
        Refusal::new(
            code,
            format!("the search is unindexed: no index answers {term}{would_help}, {why}"),
        )
    }

    /// The part of the filter that no index answers, and the index that would help.
    fn culprit(&self, view: &View<'_>) -> (String, Option<String>) {
        // What is planned may have terms that the client did not send, and shall not see.
        let own = ResolvedFilter::resolve(&self.request.filter, view.schema());
        let found = view.unanswered(&own, Some(&self.request.filter));
        found.unwrap_or_else(|| (self.request.filter.to_string(), None))
    }

    /// Counts and logs an unindexed search that is begun and may look at many entries.
    pub(super) fn note_unindexed(&self, plan: &Plan) {
        let is_large = plan.estimate > u64::from(self.directory.limits().unindexed_entries);
        if is_unindexed(plan) && is_large && self.resumed.is_none() {
            self.directory.monitors.search_counters.unindexed.fetch_add(1, Ordering::Relaxed);
            self.log_unindexed(plan, false);
        }
    }

    /// The filter for the log, unless it asserts what is secret.
    fn shown_filter(&self) -> String {
        let state = self.directory.state.load();
        match asks_for_secrets(&self.request.filter, &state.schema) {
            true => "{hidden}".to_owned(),
            false => self.request.filter.to_string(),
        }
    }

    fn log_unindexed(&self, plan: &Plan, refused: bool) {
        self.directory.seldom.unindexed.line(|left_out| {
            tracing::info!(
                unindexed = true,
                refused,
                who = self.access.identity().authorization_id(),
                base = shortened(self.request.base),
                scope = ?self.request.scope,
                filter = shortened(&self.shown_filter()),
                candidates = plan.estimate,
                left_out,
                "an unindexed search"
            );
        });
    }
}

/// How many entries each level of a chain may look at.
pub(super) enum ChainLooks {
    None,
    /// So many that may be seen.
    AtMost(u64),
    Any,
}

/// What may be disclosed of a plan to whoever asks.
struct Disclosed {
    is_unindexed: bool,
    /// How many candidates there are, about; none where hidden ones may be among them.
    candidates: Option<u64>,
}

impl Disclosed {
    fn of(plan: &Plan, view: &View<'_>, ask: &Ask<'_>, guard: &Guard<'_>) -> Self {
        if usable::finds_all(ask.filter, guard) {
            return Self { is_unindexed: is_unindexed(plan), candidates: Some(plan.estimate) };
        }
        let is_unindexed =
            ask.scope != Scope::Base && view.indexable(ask.filter, ask.whole).is_unindexed();
        Self { is_unindexed, candidates: None }
    }
}

/// Whether a filter asserts what is secret of an attribute, or of one that the schema does not
/// have: that may be a secret with a misspelled name.
fn asks_for_secrets(filter: &Filter<'_>, schema: &Schema) -> bool {
    let is_secret = |description: &str| match schema.describe(description) {
        Ok(known) => known.is_password() || known.kind.is_kept_from_logs(),
        Err(_) => true,
    };
    match filter {
        Filter::And(parts) | Filter::Or(parts) => {
            parts.iter().any(|part| asks_for_secrets(part, schema))
        }
        Filter::Not(part) => asks_for_secrets(part, schema),
        Filter::Present(_) => false,
        Filter::Equality(ava)
        | Filter::GreaterOrEqual(ava)
        | Filter::LessOrEqual(ava)
        | Filter::Approx(ava) => is_secret(ava.description),
        Filter::Substrings(substrings) => is_secret(substrings.description),
        Filter::Extensible(extensible) => extensible.description.is_none_or(is_secret),
    }
}

/// How many entries an unindexed search may look at, beside its spare ones, for those it has found.
pub(super) fn looks_for(found: u32) -> u64 {
    u64::from(found) * LOOKS_PER_ENTRY
}

/// An entry that is found is worth so many looks.
const LOOKS_PER_ENTRY: u64 = 10;

const WHAT_TO_DO: &str = "make the filter more specific, or ask for an index or for the privilege \
                          unindexed-search";

pub(super) fn is_unindexed(plan: &Plan) -> bool {
    !plan.indexed && !plan.exact
}

/// As much of a text as a sentence has room for.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
    }
}

/// Characters of a filter or a name that a diagnostic or a log record shows.
const SHOWN_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asserted_of_secrets_is_not_shown() {
        let schema = Schema::builtin();
        let asks = |text: &str| asks_for_secrets(&Filter::parse(text).unwrap(), &schema);
        for secret in [
            "(userPassword=x)",
            "(&(cn=a)(!(userPassword=*x*)))",
            "(pwdHistory=x)",
            "(sambaNTPassword>=x)",
            "(userPassword:octetStringMatch:=x)",
            "(:octetStringMatch:=x)",
            "(userPasswrod=x)",
        ] {
            assert!(asks(secret), "{secret}");
        }
        for shown in ["(cn=a)", "(|(sn~=b)(description=*c*))", "(userPassword=*)"] {
            assert!(!asks(shown), "{shown}");
        }
    }
}
