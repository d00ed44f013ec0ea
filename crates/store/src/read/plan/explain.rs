//! Explanations: what a plan did, part by part of its filter, for people and tools.
//!
//! Invariant: an explanation is only made when it is asked for, and never changes the plan.

use std::fmt;
use std::time::Duration;

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{Assertion, AttributeDescription, MatchingRule, ResolvedFilter, SubstringAssertion};

use super::node::{Details, Node, Shape, UNCOUNTED};
use super::{Ask, Plan};

/// How a plan came to its candidates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// The filter and its parts.
    pub root: TermReport,
    /// The scope.
    pub scope: ScopeReport,
    /// How many candidates are left, at most; none when every entry is one.
    pub final_candidates: Option<u64>,
    /// Every candidate matches and is in scope: none is tested.
    pub exact: bool,
    /// The part of the filter that leaves no candidate, as text.
    pub killed_by: Option<String>,
}

/// What became of one part of a filter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TermReport {
    /// The part as RFC 4515 text.
    pub filter: String,
    /// What kind of part it is.
    pub operator: Operator,
    /// Where its candidates come from.
    pub source: CandidateSource,
    /// How many candidates it has, at most; none when no index tells.
    pub candidates: Option<u64>,
    /// Each of its candidates matches it, and they are all.
    pub exact: bool,
    /// When it was read among the parts of its superior: 1 is first; none when it was not.
    pub order: Option<u32>,
    /// Why it was not read.
    pub skipped: Option<&'static str>,
    /// How long it took, in microseconds.
    pub time_us: u64,
    /// An index that would help, as the text of its definition.
    pub would_help: Option<String>,
    /// The parts of it.
    pub children: Vec<Self>,
}

/// What kind of part of a filter a report is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    /// `&`
    And,
    /// `|`
    Or,
    /// `!`
    Not,
    /// An assertion.
    Item,
}

impl Operator {
    /// The name for people and tools.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
            Self::Not => "not",
            Self::Item => "item",
        }
    }
}

/// Where the candidates of a part of a filter come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CandidateSource {
    /// An index.
    Index {
        /// Its name, such as `uid.equality`.
        name: String,
        /// How many keys of it were looked up.
        keys: u64,
    },
    /// No index tells: every entry that the rest of the filter leaves is tested.
    Scan,
    /// The schema has no answer: nothing matches.
    Undefined,
    /// Every entry matches.
    Everything,
    /// The parts below it.
    Composed,
}

/// What the scope did for a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScopeReport {
    /// The scope that was asked for.
    pub scope: Scope,
    /// How many entries are in scope; none when they were not counted.
    pub count: Option<u64>,
    /// Candidates out of scope were left out.
    pub used: bool,
}

/// What there is to tell when a plan is made.
pub(super) struct Told<'v> {
    /// The filter without the parts that were read, or nothing when they are one.
    pub(super) root: Node<'v>,
    pub(super) nodes: Vec<Node<'v>>,
    pub(super) scope: Option<Node<'v>>,
    pub(super) scope_count: Option<u64>,
    pub(super) is_whole: bool,
    pub(super) entries: u64,
    pub(super) taken: Duration,
}

impl Told<'_> {
    pub(super) fn explanation(mut self, ask: &Ask<'_>, plan: &Plan) -> Explanation {
        let is_used = self.scope.as_ref().is_some_and(|scope| scope.is_done);
        let is_none = plan.indexed && plan.estimate == 0;
        let killed_by = is_none.then(|| self.killer()).flatten();
        let is_one = self.root.details.is_none();
        let mut root = match self.nodes.pop() {
            Some(node) if is_one && self.nodes.is_empty() => of_node(node, self.entries),
            last => {
                self.nodes.extend(last);
                let count = self.root.count;
                self.root.shape = Shape::And(self.nodes);
                self.root.count = count;
                of_node(self.root, self.entries)
            }
        };
        root.in_turn(plan.indexed.then_some(1));
        root.time_us = u64::try_from(self.taken.as_micros()).unwrap_or(u64::MAX);
        let count = if self.is_whole { Some(self.entries) } else { self.scope_count };
        let scope = ScopeReport { scope: ask.scope, count, used: is_used };
        let is_all = matches!(plan.candidates.0, super::Kind::All);
        let final_candidates = (!is_all).then_some(plan.estimate);
        Explanation { root, scope, final_candidates, exact: plan.exact, killed_by }
    }

    /// The part that leaves nothing: one that has no candidates by itself, else the last that was
    /// read.
    fn killer(&self) -> Option<String> {
        if let Some(text) = killer_of(&self.nodes) {
            return Some(text);
        }
        self.scope.as_ref().map(|_| "the scope".to_owned())
    }
}

fn killer_of(nodes: &[Node<'_>]) -> Option<String> {
    let empty = nodes.iter().find(|node| node.count == 0);
    let last = || {
        let told = nodes.iter().filter(|node| last_step(node).is_some());
        told.max_by_key(|node| last_step(node))
    };
    let node = empty.or_else(last)?;
    let details = node.details.as_ref()?;
    if let (Shape::And(nodes), true) = (&node.shape, details.nots.is_empty())
        && let Some(text) = killer_of(nodes)
    {
        return Some(text);
    }
    Some(details.nots.last().unwrap_or(&details.report.filter).clone())
}

/// When a node was read first, or its parts were as parts of the conjunction that it is in.
fn first_step(node: &Node<'_>) -> Option<u32> {
    match &node.shape {
        Shape::And(nodes) if node.step.is_none() => nodes.iter().filter_map(first_step).min(),
        _ => node.step,
    }
}

/// When a node was read last, or its parts were as parts of the conjunction that it is in.
fn last_step(node: &Node<'_>) -> Option<u32> {
    match &node.shape {
        Shape::And(nodes) if node.step.is_none() => nodes.iter().filter_map(last_step).max(),
        _ => node.step,
    }
}

/// How long it took to read a node or its parts.
fn time_us(node: &Node<'_>) -> u64 {
    match &node.shape {
        Shape::And(nodes) if node.step.is_none() => nodes.iter().map(time_us).sum(),
        _ => node.time_us,
    }
}

/// Why neither a node nor any part of it was read.
fn skipped(node: &Node<'_>) -> Option<&'static str> {
    match &node.shape {
        Shape::And(nodes) if node.skipped.is_none() && first_step(node).is_none() => {
            nodes.iter().find_map(skipped)
        }
        _ => node.skipped,
    }
}

/// The report of a node and all that are below it.
fn of_node(node: Node<'_>, entries: u64) -> TermReport {
    let known = |count: u64| Some(count).filter(|&count| count < UNCOUNTED);
    let exact = node.exact && node.count < UNCOUNTED;
    let (keys, count) = (keys_of(&node.shape), node.count);
    let (skipped, time_us) = (skipped(&node), time_us(&node));
    let (nodes, inner) = match node.shape {
        Shape::And(nodes) | Shape::Or(nodes) => (nodes, None),
        Shape::Without(inner) => (Vec::new(), Some(inner.count)),
        Shape::Ids(_) | Shape::Everything | Shape::List(_) | Shape::Range(_) => (Vec::new(), None),
    };
    let Some(details) = node.details else { return TermReport::unknown() };
    let Details { mut report, mut is_turned, nots } = *details;
    if let CandidateSource::Index { keys: looked_up, .. } = &mut report.source {
        *looked_up = keys;
    }
    let candidates = |is_turned: bool| match (is_turned, inner) {
        (false, _) => known(count),
        (true, Some(inner)) => known(inner),
        (true, None) => known(count).map(|count| entries.saturating_sub(count)),
    };
    report.candidates = candidates(is_turned);
    report.exact = exact;
    (report.skipped, report.time_us) = (skipped, time_us);
    report.children = in_turn(nodes, entries);
    for filter in nots {
        is_turned = !is_turned;
        let candidates = candidates(is_turned);
        let (order, skipped, time_us) = (report.order, report.skipped, report.time_us);
        report = TermReport {
            filter,
            operator: Operator::Not,
            source: CandidateSource::Composed,
            candidates,
            exact,
            order,
            skipped,
            time_us,
            would_help: None,
            children: vec![report],
        };
    }
    report
}

/// The reports of the parts of a node. Grams and the like are read in turn with parts that are told
/// of: what is told is the turn among these.
fn in_turn(nodes: Vec<Node<'_>>, entries: u64) -> Vec<TermReport> {
    let told: Vec<Node<'_>> = nodes.into_iter().filter(|node| node.details.is_some()).collect();
    let mut steps: Vec<u32> = told.iter().filter_map(first_step).collect();
    steps.sort_unstable();
    let reports = told.into_iter().map(|node| {
        let turn = first_step(&node).map(|step| steps.partition_point(|&one| one < step) + 1);
        let mut report = of_node(node, entries);
        report.in_turn(turn.and_then(|turn| u32::try_from(turn).ok()));
        report
    });
    reports.collect()
}

/// The number of keys that are looked up for a node.
fn keys_of(shape: &Shape<'_>) -> u64 {
    match shape {
        Shape::Ids(_) | Shape::List(_) => 1,
        Shape::Everything => 0,
        Shape::Range(range) => range.lists.unwrap_or(0),
        Shape::Without(inner) => keys_of(&inner.shape),
        Shape::And(nodes) | Shape::Or(nodes) => nodes.iter().map(|node| keys_of(&node.shape)).sum(),
    }
}

impl TermReport {
    pub(super) const fn new(filter: String, operator: Operator, source: CandidateSource) -> Self {
        Self {
            filter,
            operator,
            source,
            candidates: None,
            exact: false,
            order: None,
            skipped: None,
            time_us: 0,
            would_help: None,
            children: Vec::new(),
        }
    }

    /// Puts down when it was read; that of its opposite is the same.
    fn in_turn(&mut self, turn: Option<u32>) {
        self.order = turn;
        if self.operator == Operator::Not {
            self.children.iter_mut().for_each(|inner| inner.in_turn(turn));
        }
    }

    const fn unknown() -> Self {
        Self::new(String::new(), Operator::Item, CandidateSource::Composed)
    }
}

/// The explanation of a search for the base alone.
pub(super) fn of_base(ask: &Ask<'_>, count: u64) -> Explanation {
    let filter = text(ask.filter, ask.text);
    let mut root = TermReport::new(filter, operator_of(ask.filter), CandidateSource::Scan);
    root.skipped = Some("the base is tested");
    let scope = ScopeReport { scope: ask.scope, count: Some(count), used: true };
    Explanation { root, scope, final_candidates: Some(count), exact: false, killed_by: None }
}

pub(super) const fn operator_of(filter: &ResolvedFilter) -> Operator {
    match filter {
        ResolvedFilter::And(_) => Operator::And,
        ResolvedFilter::Or(_) => Operator::Or,
        ResolvedFilter::Not(_) => Operator::Not,
        _ => Operator::Item,
    }
}

/// The text of a part of a filter: as it was asked where that is known, else from what it was
/// resolved to, values as they are compared.
pub(super) fn text(filter: &ResolvedFilter, asked: Option<&Filter<'_>>) -> String {
    match asked {
        Some(asked) => asked.to_string(),
        None => Resolved(filter).to_string(),
    }
}

/// The filter of which `at` is the number of a part, when both have the same form.
pub(super) fn part<'f, 'a>(
    resolved: &ResolvedFilter,
    asked: Option<&'f Filter<'a>>,
    at: usize,
) -> Option<&'f Filter<'a>> {
    match (resolved, asked?) {
        (ResolvedFilter::And(all), Filter::And(parts))
        | (ResolvedFilter::Or(all), Filter::Or(parts))
            if all.len() == parts.len() =>
        {
            parts.get(at)
        }
        (ResolvedFilter::Not(_), Filter::Not(inner)) => Some(inner),
        _ => None,
    }
}

struct Resolved<'f>(&'f ResolvedFilter);

impl fmt::Display for Resolved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let item = |f: &mut fmt::Formatter<'_>, assertion: &Assertion, operator: &str| {
            write!(f, "({}{operator}{})", assertion.description, Value(&assertion.key))
        };
        match self.0 {
            ResolvedFilter::And(parts) => {
                f.write_str("(&")?;
                parts.iter().try_for_each(|part| Self(part).fmt(f))?;
                f.write_str(")")
            }
            ResolvedFilter::Or(parts) => {
                f.write_str("(|")?;
                parts.iter().try_for_each(|part| Self(part).fmt(f))?;
                f.write_str(")")
            }
            ResolvedFilter::Not(inner) => write!(f, "(!{})", Self(inner)),
            ResolvedFilter::Present(description) => write!(f, "({description}=*)"),
            ResolvedFilter::Equality(assertion) => item(f, assertion, "="),
            ResolvedFilter::GreaterOrEqual(assertion) => item(f, assertion, ">="),
            ResolvedFilter::LessOrEqual(assertion) => item(f, assertion, "<="),
            ResolvedFilter::Approx(assertion) => item(f, assertion, "~="),
            ResolvedFilter::Substrings(assertion) => substrings(f, assertion),
            ResolvedFilter::Extensible(assertion) => extensible(
                f,
                assertion.description.as_deref(),
                assertion.dn_attributes,
                assertion.rule,
                &assertion.key,
            ),
            ResolvedFilter::Undefined => f.write_str("(undefined)"),
        }
    }
}

fn substrings(f: &mut fmt::Formatter<'_>, assertion: &SubstringAssertion) -> fmt::Result {
    let piece = |piece: &Option<Vec<u8>>| Value(piece.as_deref().unwrap_or_default()).to_string();
    write!(f, "({}={}*", assertion.description, piece(&assertion.initial))?;
    for any in &assertion.any {
        write!(f, "{}*", Value(any))?;
    }
    write!(f, "{})", piece(&assertion.final_))
}

fn extensible(
    f: &mut fmt::Formatter<'_>,
    description: Option<&AttributeDescription>,
    dn_attributes: bool,
    rule: &MatchingRule,
    key: &[u8],
) -> fmt::Result {
    f.write_str("(")?;
    if let Some(description) = description {
        write!(f, "{description}")?;
    }
    if dn_attributes {
        f.write_str(":dn")?;
    }
    write!(f, ":{}:={})", rule.oid, Value(key))
}

/// A value with everything escaped that is not plain text.
struct Value<'a>(&'a [u8]);

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let octets = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "\\{byte:02x}"))
        };
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                if letter.is_control() || matches!(letter, '(' | ')' | '*' | '\\') {
                    octets(f, letter.encode_utf8(&mut [0; 4]).as_bytes())?;
                } else {
                    write!(f, "{letter}")?;
                }
            }
            octets(f, chunk.invalid())?;
        }
        Ok(())
    }
}
