//! Explained searches: instead of what matches, one entry that says how the search is answered.
//!
//! The administrator asks for the attribute `debugsearchindex`, one line as OpenDJ writes it, or
//! for `roster-explain`, the JSON of `explanation.rs`, which `roster explain` prints.
//!
//! Invariant: what is explained is the plan of the same search without the attribute. Testing
//! candidates, which tells what the plan cannot, is bounded.

use std::fmt::Write as _;
use std::time::Duration;

use ldap::dn::Dn;
use ldap::message::DerefAliases;
use schema::{Entry, EntryId, ResolvedFilter, Schema, Truth};
use store::{Ask, CandidateSource, Explanation, Plan, StoreError, TermReport, View};

use super::outcome::SearchOutcome;
use super::request::{Resolved, Search};
use super::run::Run;
use super::sorted::{self, OrderPlan, Way};
use crate::directory::State;
use crate::groups::members::Members;
use crate::read::explanation::{
    ATTRIBUTE, Aliases, Order, Report, ScopePlan, Term, Tested, TestedTerm,
};
use crate::read::live_entry::LiveEntry;
use crate::request::controls::paged::Position;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

impl Search<'_> {
    /// Whether the search is to be explained instead of answered.
    pub(super) fn is_to_be_explained(&self, resolved: &Resolved<'_>, schema: &Schema) -> bool {
        let selection = resolved.selection;
        self.access.is_root()
            && selection.may_select_operational()
            && [DEBUG, ATTRIBUTE].iter().any(|name| {
                schema.describe(name).is_ok_and(|named| selection.names_attribute(&named))
            })
    }

    /// Answers with the one entry that explains the search.
    pub(super) fn explain(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &Resolved<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        if self.candidates_max.is_some() {
            // It may take its time, on another thread.
            return Ok(SearchOutcome::TooMuch);
        }
        let clock = &|| self.directory.clock.elapsed();
        let bounds = self.bounds();
        let is_given_up = || self.planning_ends(&bounds);
        let start = Position { after: EntryId::ROOT, sent: 0 };
        let narrowed = resolved.only_subentries(state);
        // What was added to the filter is told from what it was resolved to.
        let is_own = narrowed.is_none() && resolved.planned.is_none();
        let text = is_own.then_some(&self.request.filter);
        let (base, scope) = (resolved.base, resolved.scope);
        let begin = clock();
        let members = Members::new(&resolved.groups, resolved.guard, &is_given_up);
        let plan = view.plan(&Ask {
            computed: Some(&members),
            wanted: self.wanted(&bounds, &start),
            whole: &|one| resolved.guard.may_search_all_of(one),
            interrupt: &is_given_up,
            explain: Some(clock),
            text,
            ..Ask::new(narrowed.as_ref().unwrap_or(resolved.plan_filter()), base, scope)
        })?;
        let planned = clock() - begin;
        let Some(explanation) = plan.explanation().cloned() else {
            return Ok(SearchOutcome::Done(self.complete()));
        };
        let order = sorted::explain(self, view, state, resolved, &plan, bounds)?;
        let run = Run::new(self, view, state, resolved, &plan, bounds, start);
        let tested = test(run, &plan, &explanation.root)?;
        let Some(tested) = tested else { return Ok(SearchOutcome::Abandoned) };
        let report = Report {
            base: self.request.base.to_owned(),
            scope: self.request.scope.name().to_owned(),
            filter: self.request.filter.to_string(),
            indexed: plan.indexed,
            candidates: explanation.final_candidates,
            exact: explanation.exact,
            killed_by: killed_by(&explanation, &tested),
            time_us: micros(planned),
            entries: view.entry_count()?,
            aliases: self.alias_plan(resolved),
            subentries: self.controls.subentries,
            plan: Term::of(&explanation.root),
            order: order.as_ref().map(Order::of),
            scope_plan: ScopePlan {
                scope: explanation.scope.scope.name().to_owned(),
                entries: explanation.scope.count,
                used: explanation.scope.used,
            },
            tested,
        };
        let json = serde_json::to_string(&report).unwrap_or_default();
        let line = debug_line(&explanation, order.as_ref());
        let entry = entry(&state.schema, &[(DEBUG, line), (ATTRIBUTE, json)]);
        let rights = resolved.guard.on(&entry);
        let _ = sink.entry(&rights.visible(&entry, resolved.selection));
        Ok(SearchOutcome::Done(self.complete()))
    }

    /// What following aliases comes to, where it is asked for.
    fn alias_plan(&self, resolved: &Resolved<'_>) -> Option<Aliases> {
        let followed = match self.request.deref {
            DerefAliases::Never => return None,
            DerefAliases::InSearching => "search",
            DerefAliases::FindingBase => "find",
            DerefAliases::Always => "always",
        };
        let regions = resolved.regions.as_ref().map(|regions| regions.count() as u64);
        Some(Aliases { followed: followed.to_owned(), regions })
    }
}

fn entry(schema: &Schema, values: &[(&str, String)]) -> Entry {
    let mut entry = Entry::new(Dn::parse(NAME).expect("the constant is a DN"));
    for (name, value) in values {
        if let Ok(description) = schema.describe(name) {
            // One value cannot be there twice.
            let _ = entry.add_values(schema, &description, [value.clone().into_bytes()]);
        }
    }
    entry
}

/// Tests candidates as the search would, up to a limit, and each part of a conjunction by itself.
/// None when nobody waits any more.
fn test(mut run: Run<'_>, plan: &Plan, root: &TermReport) -> Result<Option<Tested>, Refusal> {
    let parts: &[ResolvedFilter] = match run.resolved.filter {
        ResolvedFilter::And(parts) => parts,
        _ => &[],
    };
    let mut tested = Tested::default();
    let mut matching = vec![0_u64; parts.len()];
    let (schema, guard) = (&run.state.schema, run.resolved.guard);
    let clock = &run.search.directory.clock;
    let begin = clock.elapsed();
    tested.complete = true;
    let (search, bounds) = (run.search, run.bounds);
    let interrupt = || search.planning_ends(&bounds) || clock.elapsed() - begin > TESTING_MAX;
    for stored in plan.entries_until(run.view, EntryId::ROOT, &interrupt) {
        let stored = match stored {
            Err(StoreError::Interrupted) if search.is_abandoned() => return Ok(None),
            Err(StoreError::Interrupted) => {
                tested.complete = false;
                break;
            }
            stored => stored?,
        };
        if tested.entries >= TESTED_ENTRIES_MAX || clock.elapsed() - begin > TESTING_MAX {
            tested.complete = false;
            break;
        }
        match run.interrupted() {
            Some(SearchOutcome::Abandoned) => return Ok(None),
            Some(_) => {
                tested.complete = false;
                break;
            }
            None => {}
        }
        tested.entries += 1;
        tested.matching += u64::from(run.matches(&stored)?);
        let live = LiveEntry::new(run.view, &stored, schema.well_known(), true).seen_by(guard);
        let rights = guard.on(&stored);
        let searchable = rights.searchable(&live);
        for (part, count) in parts.iter().zip(&mut matching) {
            *count += u64::from(part.matches(schema, &searchable) == Truth::True);
        }
    }
    tested.time_us = micros(clock.elapsed() - begin);
    // Without the same parts in the report, nobody could tell which part a count is of.
    let texts: Vec<String> = match &run.search.request.filter {
        ldap::filter::Filter::And(asked) if asked.len() == parts.len() => {
            asked.iter().map(ToString::to_string).collect()
        }
        _ => root.children.iter().map(|child| child.filter.clone()).collect(),
    };
    if texts.len() == parts.len() {
        let terms = texts.into_iter().zip(matching);
        tested.terms = terms.map(|(filter, matching)| TestedTerm { filter, matching }).collect();
    }
    Ok(Some(tested))
}

/// The part of the filter by which nothing is left.
fn killed_by(explanation: &Explanation, tested: &Tested) -> Option<String> {
    if explanation.killed_by.is_some() {
        return explanation.killed_by.clone();
    }
    if !tested.complete || tested.matching > 0 || tested.entries == 0 {
        return None;
    }
    if tested.terms.is_empty() {
        return Some(explanation.root.filter.clone());
    }
    tested.terms.iter().find(|term| term.matching == 0).map(|term| term.filter.clone())
}

impl Order {
    fn of(order: &OrderPlan) -> Self {
        let by = match order.way {
            Way::Index(_) => "index",
            Way::Memory => "memory",
            Way::Unsorted => "none",
        };
        Self {
            keys: order.keys.clone(),
            by: by.to_owned(),
            index: order.index().map(str::to_owned),
            reason: order.reason.clone(),
            would_help: order.would_help.clone(),
        }
    }
}

impl Term {
    /// Recurses as deep as the filter is, which decoding limits.
    fn of(report: &TermReport) -> Self {
        let (source, index, keys) = match &report.source {
            CandidateSource::Index { name, keys } => ("index", Some(name.clone()), Some(*keys)),
            CandidateSource::Scan => ("none", None, None),
            CandidateSource::Undefined => ("undefined", None, None),
            CandidateSource::Everything => ("everything", None, None),
            CandidateSource::Composed => ("parts", None, None),
        };
        Self {
            filter: report.filter.clone(),
            operator: report.operator.name().to_owned(),
            source: source.to_owned(),
            index,
            keys,
            candidates: report.candidates,
            exact: report.exact,
            order: report.order,
            skipped: report.skipped.map(str::to_owned),
            time_us: report.time_us,
            would_help: report.would_help.clone(),
            children: report.children.iter().map(Self::of).collect(),
        }
    }
}

/// The line of OpenDJ: each part with its index and count in the order of reading, parts that were
/// skipped left out; then the scope where it was used, what is left, and the order.
fn debug_line(explanation: &Explanation, order: Option<&OrderPlan>) -> String {
    let mut line = "filter=".to_owned();
    debug_term(&mut line, &explanation.root);
    let scope = &explanation.scope;
    if scope.used || scope.count.is_some() {
        let _ = write!(line, " scope={}", scope.scope.name());
        debug_count(&mut line, scope.count);
    }
    line.push_str(" final=");
    debug_count(&mut line, explanation.final_candidates);
    if let Some(order) = order {
        let _ = write!(line, " sort={}", order.keys);
        match order.index() {
            Some(name) => {
                let _ = write!(line, "[INDEX:{name}]");
            }
            None => line.push_str("[NOT-INDEXED]"),
        }
    }
    line
}

fn debug_term(line: &mut String, report: &TermReport) {
    use store::Operator::{And, Item, Not, Or};
    match report.operator {
        And | Or if !report.children.is_empty() => {
            line.push_str(if report.operator == And { "(&" } else { "(|" });
            let mut read: Vec<&TermReport> =
                report.children.iter().filter(|child| child.skipped.is_none()).collect();
            if report.operator == And {
                read.sort_by_key(|child| child.order.unwrap_or(u32::MAX));
            }
            for child in read {
                debug_term(line, child);
            }
            line.push(')');
        }
        And | Or | Not | Item => {
            line.push_str(&report.filter);
            if let CandidateSource::Index { name, .. } = &report.source {
                let _ = write!(line, "[INDEX:{name}]");
            }
        }
    }
    debug_count(line, report.candidates);
}

fn debug_count(line: &mut String, count: Option<u64>) {
    match count {
        Some(count) => {
            let _ = write!(line, "[COUNT:{count}]");
        }
        None => line.push_str("[NOT-INDEXED]"),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The entry that explains.
const NAME: &str = "cn=debugsearch";
/// Asked for, the line of OpenDJ is answered.
const DEBUG: &str = "debugsearchindex";
/// Candidates that an explanation tests at most.
const TESTED_ENTRIES_MAX: u64 = 20_000;
/// How long it tests at most.
const TESTING_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use store::{Operator, ScopeReport};

    use ldap::message::Scope;

    use super::*;

    fn item(filter: &str, source: CandidateSource, candidates: Option<u64>) -> TermReport {
        TermReport {
            filter: filter.to_owned(),
            operator: Operator::Item,
            source,
            candidates,
            exact: true,
            order: None,
            skipped: None,
            time_us: 3,
            would_help: None,
            children: Vec::new(),
        }
    }

    fn index(name: &str) -> CandidateSource {
        CandidateSource::Index { name: name.to_owned(), keys: 1 }
    }

    fn explanation(root: TermReport, count: Option<u64>, left: Option<u64>) -> Explanation {
        let scope = ScopeReport { scope: Scope::Subtree, count, used: count.is_some() };
        Explanation { root, scope, final_candidates: left, exact: false, killed_by: None }
    }

    #[test]
    fn the_line_is_that_of_opendj() {
        let one = item("(uid=user.1)", index("uid.equality"), Some(1));
        assert_eq!(
            debug_line(&explanation(one, None, Some(1)), None),
            "filter=(uid=user.1)[INDEX:uid.equality][COUNT:1] final=[COUNT:1]"
        );
        let scan = item("(description=*)", CandidateSource::Scan, None);
        assert_eq!(
            debug_line(&explanation(scan, Some(10_002), None), None),
            "filter=(description=*)[NOT-INDEXED] scope=sub[COUNT:10002] final=[NOT-INDEXED]"
        );
    }

    #[test]
    fn parts_stand_in_the_order_of_reading_and_skipped_ones_are_left_out() {
        let part = |filter: &str, order, skipped| TermReport {
            order,
            skipped,
            ..item(filter, index("x.equality"), Some(4))
        };
        let parts = vec![
            part("(x=a)", Some(2), None),
            part("(x=b)", None, Some("few candidates are left")),
            item("(!(x=d))", CandidateSource::Scan, None),
            part("(x=c)", Some(1), None),
        ];
        let operator = Operator::And;
        let root = TermReport {
            operator,
            children: parts,
            ..item("(&(x=a)(x=b)(!(x=d))(x=c))", CandidateSource::Composed, Some(2))
        };
        assert_eq!(
            debug_line(&explanation(root, None, Some(2)), None),
            "filter=(&(x=c)[INDEX:x.equality][COUNT:4](x=a)[INDEX:x.equality][COUNT:4]\
             (!(x=d))[NOT-INDEXED])[COUNT:2] final=[COUNT:2]"
        );
    }

    #[test]
    fn a_part_that_no_candidate_matches_is_named() {
        let plan = explanation(item("(&)", CandidateSource::Composed, Some(9)), None, Some(9));
        let term = |filter: &str, matching| TestedTerm { filter: filter.to_owned(), matching };
        let tested = |matching, complete| Tested {
            entries: 9,
            matching,
            complete,
            time_us: 0,
            terms: vec![term("(a=1)", 9), term("(b=2)", 0)],
        };
        assert_eq!(killed_by(&plan, &tested(0, true)).as_deref(), Some("(b=2)"));
        assert_eq!(killed_by(&plan, &tested(0, false)), None);
        assert_eq!(killed_by(&plan, &tested(1, true)), None);
        let single = Tested { terms: Vec::new(), ..tested(0, true) };
        assert_eq!(killed_by(&plan, &single).as_deref(), Some("(&)"));
    }
}
