//! `cn=filters,cn=monitor`: what the analyser has seen, and what it advises.

use std::collections::BTreeSet;

use schema::Entry;

use super::advice::{ExistingIndex, advise};
use super::{Shape, Statistics, Tally};
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::FILTER_MONITOR_DN;
use crate::request::refusal::Refusal;

/// So many of the most frequent shapes are shown, and so many of the slowest.
const SHOWN_COUNT: usize = 50;

/// Makes the entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let seen = source.directory.monitors.analyser.seen();
    let advice = advise(&seen, &known(source));
    let counts = source.directory.search_counts();
    let entry = source
        .entry(FILTER_MONITOR_DN, &["top", "extensibleObject"])
        .value("roster-unindexed-searches", &counts.unindexed.to_string())
        .value("roster-unindexed-refused", &counts.unindexed_refused.to_string())
        .values("filter-use", shown(&seen).into_iter().map(line))
        .values("roster-index-advice", advice.iter().map(ToString::to_string));
    Ok(vec![entry.done()])
}

fn known(source: &BranchSource<'_>) -> BTreeSet<ExistingIndex> {
    let indexes = source.directory.storage.store.indexes();
    // An index of some entries only does not answer every search.
    let definitions = indexes.definitions().iter().filter(|one| one.filter.is_none());
    let known = definitions.map(|one| ExistingIndex {
        attribute: one.attribute.clone(),
        kind: one.kind.name().to_owned(),
        more: one.with.clone().or_else(|| one.rule.clone()),
    });
    known.collect()
}

/// The most frequent shapes, and then the slowest that are not among them.
fn shown(seen: &Statistics) -> Vec<&(Shape, Tally)> {
    let mut frequent: Vec<_> = seen.shapes.iter().collect();
    let mut slow = frequent.clone();
    frequent.sort_by_key(|(shape, tally)| (std::cmp::Reverse(tally.hits), shape));
    frequent.truncate(SHOWN_COUNT);
    slow.sort_by_key(|(shape, tally)| (std::cmp::Reverse(tally.time_max_us), shape));
    slow.truncate(SHOWN_COUNT);
    slow.retain(|one| !frequent.iter().any(|(shape, _)| *shape == one.0));
    frequent.extend(slow);
    frequent
}

/// The form of OpenDJ's analyser, with more figures: `maxmatches` is the most candidates of one
/// search, -1 when some were unindexed.
fn line((shape, tally): &(Shape, Tally)) -> String {
    let hits = tally.hits.max(1);
    let (matches, message) = if tally.unindexed > 0 {
        ("-1".to_owned(), format!("{} of them unindexed", tally.unindexed))
    } else {
        (tally.candidates_max.to_string(), String::new())
    };
    format!(
        "{shape} hits:{} maxmatches:{matches} candidates:{} entries:{} mean_us:{} max_us:{} \
         message:{message}",
        tally.hits,
        tally.candidates / hits,
        tally.entries / hits,
        tally.time_us / hits,
        tally.time_max_us,
    )
}
