//! Searches that no index helps: who may do them, and that they are noticed.
//!
//! A search is unindexed when its plan is the whole directory and the filter has still to be
//! tested. In a small directory that is no matter, and nobody is refused.

use std::sync::atomic::Ordering;

use ldap::filter::Filter;
use ldap::result::ResultCode;
use schema::Schema;
use store::{Ask, Plan, Source, TermReport, View};

use super::Search;
use crate::guard::Guard;
use crate::refusal::Refusal;

impl Search<'_> {
    /// Refuses an unindexed search when the client wants that, or when it would look at many
    /// entries and the asker lacks the right.
    pub(super) fn check_indexed(
        &self,
        plan: &Plan,
        view: &View<'_>,
        (ask, guard): (&Ask<'_>, &Guard<'_>),
    ) -> Result<(), Refusal> {
        // What was begun goes on.
        if !is_unindexed(plan) || self.resumed.is_some() {
            return Ok(());
        }
        self.note.unindexed();
        let (rejects, permits) = (self.controls.reject_unindexed, self.controls.permit_unindexed);
        let is_large = plan.estimate > u64::from(self.directory.limits.unindexed_entries);
        // A count says how it goes about it, and looks at entries only when that is asked for.
        let is_count = self.controls.entry_count.is_some_and(|request| !request.even_unindexed);
        let is_refused = rejects || (is_large && !self.access.may_search_unindexed(permits));
        if is_count || !is_refused {
            return Ok(());
        }
        let counters = &self.directory.search_counters;
        counters.unindexed_refused.fetch_add(1, Ordering::Relaxed);
        self.log_unindexed(plan, true);
        let (code, why) = if rejects {
            (ResultCode::UnwillingToPerform, "and the request says that it is to be refused then")
        } else {
            (
                ResultCode::InsufficientAccessRights,
                "make the filter more specific, or ask for an index or for the privilege \
                 unindexed-search",
            )
        };
        let (term, would_help) = self.culprit(view, ask);
        let would_help = match would_help {
            Some(index) => format!(" (an index '{index}' would)"),
            None => String::new(),
        };
        // How many there are is for those alone who may see them, out of scope as well.
        let all = match guard.anywhere(|guard| guard.sees_all()) {
            true => format!("all {} entries", plan.estimate),
            false => "all entries".to_owned(),
        };
        Err(Refusal::new(
            code,
            format!(
                "the search is unindexed: no index answers {}{would_help}, so {all} would be \
                 looked at; {why}",
                shortened(&term),
            ),
        ))
    }

    /// The part of the filter that no index answers, and the index that would help.
    fn culprit(&self, view: &View<'_>, ask: &Ask<'_>) -> (String, Option<String>) {
        let clock = || self.directory.clock.elapsed();
        let asked = Some(&self.request.filter).filter(|_| self.controls.subentries != Some(true));
        let ask = Ask { explain: Some(&clock), text: asked, ..*ask };
        // Without an explanation the refusal stands; it only says less.
        let planned = view.plan(&ask).ok();
        let explanation = planned.as_ref().and_then(|plan| plan.explanation());
        let found = explanation.and_then(|explanation| scanned(&explanation.root));
        match found {
            Some(term) => (term.filter.clone(), term.would_help.clone()),
            None => (self.request.filter.to_string(), None),
        }
    }

    /// Counts and logs an unindexed search that is carried out and looks at many entries.
    pub(super) fn note_unindexed(&self, plan: &Plan) {
        let is_large = plan.estimate > u64::from(self.directory.limits.unindexed_entries);
        if is_unindexed(plan) && is_large && self.resumed.is_none() {
            self.directory.search_counters.unindexed.fetch_add(1, Ordering::Relaxed);
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

pub(super) fn is_unindexed(plan: &Plan) -> bool {
    !plan.indexed && !plan.exact
}

/// The first part of a filter that no index answers; one that an index could answer comes before
/// the others.
fn scanned(report: &TermReport) -> Option<&TermReport> {
    let here = matches!(report.source, Source::Scan).then_some(report);
    let below = report.children.iter().filter_map(scanned);
    let all = below.chain(here).collect::<Vec<_>>();
    all.iter().find(|term| term.would_help.is_some()).or_else(|| all.first()).copied()
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
