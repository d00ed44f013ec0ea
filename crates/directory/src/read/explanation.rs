//! What an explained search says: the JSON of the attribute [`ATTRIBUTE`], which `roster explain`
//! reads. docs/how-to/slow-search.md tells how to read it.
//!
//! Invariant: a reader passes over what a later server adds.

use serde::{Deserialize, Serialize};

/// Asked for, a search is explained instead of answered.
pub const ATTRIBUTE: &str = "roster-explain";

/// How a search is answered.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report {
    /// The DN where the search begins.
    pub base: String,
    /// base, one, sub, subordinate
    pub scope: String,
    /// The whole filter.
    pub filter: String,
    /// An index or the tree narrowed the candidates.
    pub indexed: bool,
    /// At most so many; null when every entry is one.
    pub candidates: Option<u64>,
    /// No candidate needs a test.
    pub exact: bool,
    /// The part of the filter that leaves nothing, if nothing matches and one part alone does it.
    pub killed_by: Option<String>,
    /// The time of planning.
    pub time_us: u64,
    /// Entries of the directory.
    pub entries: u64,
    /// When aliases are followed; null when they are not.
    pub aliases: Option<Aliases>,
    /// Only subentries are wanted, or none; null when nothing was said of them.
    pub subentries: Option<bool>,
    /// What became of the filter.
    pub plan: Term,
    /// Null when entries are wanted in any order.
    pub order: Option<Order>,
    /// What the scope alone narrows.
    pub scope_plan: ScopePlan,
    /// What came of testing candidates.
    pub tested: Tested,
}

/// What became of a part of the filter.
#[derive(Debug, Deserialize, Serialize)]
pub struct Term {
    /// The part as text.
    pub filter: String,
    /// and, or, not, item
    pub operator: String,
    /// index, none, undefined, everything, parts
    pub source: String,
    /// The index that was read.
    pub index: Option<String>,
    /// Keys that were looked up in it.
    pub keys: Option<u64>,
    /// At most so many; null when every entry is one.
    pub candidates: Option<u64>,
    /// No candidate needs a test.
    pub exact: bool,
    /// When it was read among its neighbours, from 1.
    pub order: Option<u32>,
    /// Why it was not read.
    pub skipped: Option<String>,
    /// The time of reading it.
    pub time_us: u64,
    /// The index that would narrow it.
    pub would_help: Option<String>,
    /// The parts it is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Self>,
}

/// How aliases are followed.
#[derive(Debug, Deserialize, Serialize)]
pub struct Aliases {
    /// search, find, always
    pub followed: String,
    /// So many entries, levels and subtrees are in scope; null when no alias is in scope.
    pub regions: Option<u64>,
}

/// How entries come into the order that is asked for.
#[derive(Debug, Deserialize, Serialize)]
pub struct Order {
    /// The sort keys, `-` before those in reverse.
    pub keys: String,
    /// index, memory, none
    pub by: String,
    /// The index that is walked.
    pub index: Option<String>,
    /// Why no index is walked, or entries come in any order.
    pub reason: Option<String>,
    /// The index that could be walked.
    pub would_help: Option<String>,
}

/// What the scope alone narrows.
#[derive(Debug, Deserialize, Serialize)]
pub struct ScopePlan {
    /// base, one, sub, subordinate
    pub scope: String,
    /// Entries in scope, where that was counted.
    pub entries: Option<u64>,
    /// It narrowed the candidates.
    pub used: bool,
}

/// What came of testing candidates.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Tested {
    /// Entries that were tested.
    pub entries: u64,
    /// Those that match.
    pub matching: u64,
    /// Every candidate was tested.
    pub complete: bool,
    /// The time of reading and testing them.
    pub time_us: u64,
    /// How many of the tested entries match each part of a conjunction by itself.
    pub terms: Vec<TestedTerm>,
}

/// What came of testing a part of a conjunction.
#[derive(Debug, Deserialize, Serialize)]
pub struct TestedTerm {
    /// The part as text.
    pub filter: String,
    /// Entries that match it.
    pub matching: u64,
}
