//! Explanations: what a plan did, part by part of its filter, for people and tools.
//!
//! Invariant: an explanation is only made when it is asked for, and never changes the plan.

use std::fmt;

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{Assertion, AttributeDescription, MatchingRule, ResolvedFilter, SubstringAssertion};

/// How a plan came to its candidates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// The filter and its parts.
    pub root: TermReport,
    /// The scope.
    pub scope: ScopeReport,
    /// How many candidates are left, at most; none when no index helped.
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
    pub source: Source,
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
pub enum Source {
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
