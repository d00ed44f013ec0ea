//! Which indexes to add and which to drop, from what was asked.
//!
//! Invariant: an index is named as one to drop only after many searches, and never one that the
//! server itself looks things up in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Item, Shape, Statistics, Tally, Test};

/// Fewer candidates than these cost a search nothing worth an index.
const CANDIDATES_MIN: u64 = 100;
/// So many candidates for each entry found are worth an index.
const CANDIDATES_PER_ENTRY: u64 = 8;
/// An index that none of so many searches used is one to drop.
const SEARCHES_BEFORE_DROP: u64 = 100_000;
/// The most pieces of advice of either kind.
const ADVICE_COUNT_MAX: usize = 20;
/// Types that the server looks up itself, or that every directory is asked for sooner or later.
const ALWAYS_KEPT: [&str; 5] = ["objectClass", "entryUUID", "ref", "member", "uniqueMember"];

/// One index that there is.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ExistingIndex {
    /// The attribute type.
    pub(crate) attribute: String,
    /// The name of its kind: `equality`.
    pub(crate) kind: String,
    /// The second attribute of a composite index, or the rule of an extensible one.
    pub(crate) more: Option<String>,
}

/// What should be done, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Advice {
    /// `add` or `drop`.
    verb: &'static str,
    /// The definition of the index.
    definition: String,
    reason: String,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.verb, self.definition, self.reason)
    }
}

/// What to do about the indexes after these searches; what helps most comes first.
pub(crate) fn advise(seen: &Statistics, known: &BTreeSet<ExistingIndex>) -> Vec<Advice> {
    let mut advice = to_add(seen, known);
    advice.extend(to_drop(seen, known));
    advice
}

fn to_add(seen: &Statistics, known: &BTreeSet<ExistingIndex>) -> Vec<Advice> {
    // The searches that each index would help, and the shape that cost most of them.
    let mut wanted: BTreeMap<String, (u64, &Shape, Tally)> = BTreeMap::new();
    for (shape, tally) in seen.shapes.iter().filter(|(_, tally)| is_dear(tally)) {
        for definition in lacking(shape, known) {
            let known = wanted.entry(definition).or_insert((0, shape, *tally));
            known.0 = known.0.saturating_add(tally.candidates);
            if tally.candidates > known.2.candidates {
                (known.1, known.2) = (shape, *tally);
            }
        }
    }
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_by_key(|(_, (candidates, ..))| std::cmp::Reverse(*candidates));
    let advice = wanted.into_iter().map(|(definition, (_, shape, tally))| Advice {
        verb: "add",
        definition,
        reason: format!(
            "about {} searches like {shape} looked at {} entries each to find {}",
            tally.hits,
            tally.candidates / tally.hits.max(1),
            tally.entries / tally.hits.max(1),
        ),
    });
    advice.take(ADVICE_COUNT_MAX).collect()
}

fn is_dear(tally: &Tally) -> bool {
    let hits = tally.hits.max(1);
    tally.candidates / hits >= CANDIDATES_MIN
        && tally.candidates / CANDIDATES_PER_ENTRY > tally.entries
}

/// The indexes that would help searches of this shape.
fn lacking(shape: &Shape, known: &BTreeSet<ExistingIndex>) -> Vec<String> {
    match shape {
        Shape::Item(item) => {
            let needed = needed(item);
            let has = is_known(&needed, known) || item.attribute.is_empty();
            if has { Vec::new() } else { vec![text(&needed)] }
        }
        Shape::Or(shapes) => shapes.iter().flat_map(|shape| lacking(shape, known)).collect(),
        Shape::And(shapes) => {
            let mut parts: Vec<_> = shapes
                .iter()
                .filter(|shape| !matches!(shape, Shape::Not(_) | Shape::Undefined | Shape::More))
                .map(|shape| (rank(shape), lacking(shape, known)))
                .collect();
            parts.sort_by_key(|(rank, _)| *rank);
            let is_looked_up = parts.iter().any(|(_, lacking)| lacking.is_empty());
            let lacking: Vec<String> = parts.into_iter().flat_map(|(_, one)| one).collect();
            match (is_looked_up, lacking.is_empty()) {
                (true, true) => composite(shapes, known).into_iter().collect(),
                // One index is there and leaves too many: the others would help.
                (true, false) => lacking,
                // One is enough.
                (false, _) => lacking.into_iter().take(1).collect(),
            }
        }
        Shape::Not(_) | Shape::Undefined | Shape::More => Vec::new(),
    }
}

/// An index of two attributes, where both are tested for equality.
fn composite(shapes: &[Shape], known: &BTreeSet<ExistingIndex>) -> Option<String> {
    let mut equal = shapes.iter().filter_map(|shape| match shape {
        Shape::Item(item) if item.test == Test::Equality => Some(kind_of(item)),
        _ => None,
    });
    let (first, second) = (equal.next()?, equal.next()?);
    let is_there = |first: &str, second: &str| {
        known.iter().any(|one| one.attribute == first && one.more.as_deref() == Some(second))
    };
    (!is_there(first, second)
        && !is_there(second, first)
        && first != "objectClass"
        && second != "objectClass")
        .then(|| format!("equality {first} with {second}"))
}

/// Tests that leave few candidates first.
fn rank(shape: &Shape) -> u8 {
    match shape {
        Shape::Item(item) => match item.test {
            Test::Equality => 0,
            Test::Extensible { .. } => 1,
            Test::Substrings { .. } => 2,
            Test::GreaterOrEqual | Test::LessOrEqual => 3,
            Test::Approx => 4,
            Test::Present => 5,
        },
        Shape::And(_) | Shape::Or(_) | Shape::Not(_) | Shape::Undefined | Shape::More => 6,
    }
}

/// The attribute type of a description.
fn kind_of(item: &Item) -> &str {
    item.attribute.split(';').next().unwrap_or_default()
}

fn needed(item: &Item) -> ExistingIndex {
    let (kind, more) = match &item.test {
        Test::Present => ("presence", None),
        Test::Equality => ("equality", None),
        Test::GreaterOrEqual | Test::LessOrEqual => ("ordering", None),
        Test::Approx => ("approximate", None),
        Test::Substrings { .. } => ("substring", None),
        Test::Extensible { rule, .. } => ("extensible", Some((*rule).to_owned())),
    };
    ExistingIndex { attribute: kind_of(item).to_owned(), kind: kind.to_owned(), more }
}

fn is_known(needed: &ExistingIndex, known: &BTreeSet<ExistingIndex>) -> bool {
    // Every entry has an object class. Keys of an equality index are in order.
    (needed.kind == "presence" && needed.attribute == "objectClass")
        || known.contains(needed)
        || (needed.kind == "ordering"
            && known.contains(&ExistingIndex { kind: "equality".to_owned(), ..needed.clone() }))
}

fn text(index: &ExistingIndex) -> String {
    let ExistingIndex { attribute, kind, more } = index;
    match more {
        None => format!("{kind} {attribute}"),
        Some(more) if kind == "extensible" => format!("{kind} {attribute} {more}"),
        Some(more) => format!("{kind} {attribute} with {more}"),
    }
}

fn to_drop(seen: &Statistics, known: &BTreeSet<ExistingIndex>) -> Vec<Advice> {
    if seen.searches < SEARCHES_BEFORE_DROP {
        return Vec::new();
    }
    let used: BTreeSet<ExistingIndex> = seen.uses.keys().map(needed).collect();
    let is_used = |index: &ExistingIndex| {
        let attribute = || ExistingIndex { more: None, ..index.clone() };
        used.contains(index)
            // A composite index is used with its first attribute.
            || (index.kind == "equality" && index.more.is_some() && used.contains(&attribute()))
            // Ranges, sorting and begins of values use the keys of an equality index.
            || (index.kind == "equality"
                && used.iter().any(|one| {
                    one.attribute == index.attribute
                        && (one.kind == "ordering" || one.kind == "substring")
                }))
    };
    let unused = known.iter().filter(|index| {
        !ALWAYS_KEPT.iter().any(|kept| kept.eq_ignore_ascii_case(&index.attribute))
            && !is_used(index)
    });
    let advice = unused.map(|index| Advice {
        verb: "drop",
        definition: text(index),
        reason: format!("none of about {} searches since the start asked for it", seen.searches),
    });
    advice.take(ADVICE_COUNT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use ldap::filter::Filter;
    use schema::{ResolvedFilter, Schema};

    use super::*;

    fn known(texts: &[&str]) -> BTreeSet<ExistingIndex> {
        let one = |text: &&str| {
            let mut words = text.split(' ').map(str::to_owned);
            let (kind, attribute) = (words.next().unwrap(), words.next().unwrap());
            ExistingIndex { attribute, kind, more: words.next_back() }
        };
        texts.iter().map(one).collect()
    }

    fn seen(filters: &[(&str, u64, u64, u64)]) -> Statistics {
        let mut seen = Statistics::default();
        for &(filter, hits, candidates, entries) in filters {
            let parsed = Filter::parse(filter).unwrap();
            let shape = Shape::of(&ResolvedFilter::resolve(&parsed, &Schema::builtin()));
            shape.each_item(&mut |item| *seen.uses.entry(item.clone()).or_default() += hits);
            let (candidates, entries) = (candidates * hits, entries * hits);
            seen.shapes.push((shape, Tally { hits, candidates, entries, ..Tally::default() }));
            seen.searches += hits;
        }
        seen
    }

    #[track_caller]
    fn check(filters: &[(&str, u64, u64, u64)], indexes: &[&str], want: &[&str]) {
        let advice = advise(&seen(filters), &known(indexes));
        let texts: Vec<String> =
            advice.iter().map(|one| format!("{} {}", one.verb, one.definition)).collect();
        assert_eq!(texts, want);
    }

    #[test]
    fn searches_that_read_much_to_find_little_want_an_index() {
        check(&[("(description=*x*)", 5, 100_000, 3)], &[], &["add substring description"]);
        check(&[("(description=*x*)", 5, 100_000, 90_000)], &[], &[]);
        check(&[("(description=*x*)", 5, 20, 0)], &[], &[]);
        check(&[("(uidNumber>=5)", 5, 9_000, 1)], &["equality uidNumber"], &[]);
        check(
            &[("(cn:caseExactMatch:=X)", 5, 9_000, 1)],
            &[],
            &["add extensible cn caseExactMatch"],
        );
    }

    #[test]
    fn of_an_and_one_index_is_enough_unless_it_leaves_too_many() {
        let filter = "(&(l=X)(street=*y*))";
        check(&[(filter, 5, 9_000, 1)], &[], &["add equality l"]);
        check(&[(filter, 5, 9_000, 1)], &["equality l"], &["add substring street"]);
        check(&[("(|(l=X)(st=Y))", 5, 9_000, 1)], &["equality l"], &["add equality st"]);
        let both = "(&(l=X)(title=Y))";
        let indexes = ["equality l", "equality title"];
        check(&[(both, 5, 9_000, 1)], &indexes, &["add equality l with title"]);
        let all = ["equality l", "equality title", "equality l with title"];
        check(&[(both, 5, 9_000, 1)], &all, &[]);
    }

    #[test]
    fn what_many_searches_did_not_use_may_go() {
        let indexes =
            ["equality uid", "substring title", "equality objectClass", "equality uidNumber"];
        let searches = SEARCHES_BEFORE_DROP;
        check(&[("(uid=a)", searches - 1, 1, 1)], &indexes, &[]);
        check(
            &[("(uid=a)", searches, 1, 1), ("(uidNumber>=5)", 1, 1, 1)],
            &indexes,
            &["drop substring title"],
        );
    }

    #[test]
    fn advice_says_why() {
        let advice = advise(&seen(&[("(description=*x*)", 5, 100_000, 3)]), &known(&[]));
        let want = "add substring description: about 5 searches like (description=*?*) looked at \
                    100000 entries each to find 3";
        assert_eq!(advice.first().unwrap().to_string(), want);
    }
}
