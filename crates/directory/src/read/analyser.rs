//! The filter analyser: which shapes of filters are asked, how often, and what they cost.
//!
//! A shape is a filter without its values. Searches that run where they were read are sampled,
//! those that go to the pool are all recorded: so every slow search is seen, and a fast one pays
//! for a countdown.
//!
//! Invariant: what is kept is bounded, and holds no value that a client sent.
//! Invariant: a thread writes its own table only; nobody else locks it but who reads the monitor.

mod advice;
pub(crate) mod branch;
mod shape;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::Clock;
use rustc_hash::FxHashMap;
use schema::ResolvedFilter;

pub(crate) use shape::{Item, Shape, Test};

/// Of the searches that run where they were read, one in so many is recorded, on average.
pub(crate) const SAMPLED_ONE_IN: u32 = 16;
/// The most shapes that one thread keeps; those that took the least time go first.
pub(crate) const SHAPE_COUNT_MAX: usize = 256;
/// The most attributes, each with a kind of test, whose use one thread counts.
pub(crate) const USE_COUNT_MAX: usize = 4_096;

/// What one search did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchReport<'a> {
    /// The filter as it was asked.
    pub(crate) filter: &'a ResolvedFilter,
    /// How many candidates the plan had, about.
    pub(crate) candidates: u64,
    /// How many entries were sent.
    pub(crate) entries: u64,
    /// No index narrowed it.
    pub(crate) unindexed: bool,
    /// From the plan to the answer.
    pub(crate) elapsed: Duration,
}

/// What is known of all searches of one shape.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    /// How many there were, about.
    pub(crate) hits: u64,
    /// How many of them no index narrowed, about.
    pub(crate) unindexed: u64,
    /// Candidates of all of them, about.
    pub(crate) candidates: u64,
    /// The most candidates of one.
    pub(crate) candidates_max: u64,
    /// Entries sent by all of them, about.
    pub(crate) entries: u64,
    /// The time of all of them, about, in microseconds.
    pub(crate) time_us: u64,
    /// The longest, in microseconds.
    pub(crate) time_max_us: u64,
}

/// The analyser of a directory: the tables of all threads.
#[derive(Debug, Default)]
pub(crate) struct Analyser {
    tables: Mutex<Vec<Arc<Mutex<Table>>>>,
}

/// One thread's way to record.
#[derive(Debug)]
pub(crate) struct Recorder {
    table: Arc<Mutex<Table>>,
    /// Searches until the next that is recorded.
    countdown: u32,
    /// Decides how many that are: with a fixed step, requests that come in turns would be seen in
    /// part only.
    state: u32,
}

#[derive(Debug, Default)]
struct Table {
    rows: FxHashMap<Shape, Tally>,
    uses: BTreeMap<Item, u64>,
    searches: u64,
}

/// The searches that all threads have recorded.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    /// The shapes, in no order.
    pub(crate) shapes: Vec<(Shape, Tally)>,
    /// How often each attribute was tested in which way, about.
    pub(crate) uses: BTreeMap<Item, u64>,
    /// How many searches there were, about.
    pub(crate) searches: u64,
}

impl Analyser {
    /// A recorder for one more thread.
    pub(crate) fn recorder(&self) -> Recorder {
        let table = Arc::new(Mutex::new(Table::default()));
        let mut tables = lock(&self.tables);
        tables.push(Arc::clone(&table));
        let state = 0x9e37_79b9_u32.wrapping_mul(tables.len() as u32) | 1;
        Recorder { table, countdown: 0, state }
    }

    /// What has been seen so far.
    pub(crate) fn seen(&self) -> Statistics {
        let mut shapes: FxHashMap<Shape, Tally> = FxHashMap::default();
        let mut seen = Statistics::default();
        for table in lock(&self.tables).iter() {
            let table = lock(table);
            seen.searches += table.searches;
            for (shape, tally) in &table.rows {
                shapes.entry(shape.clone()).or_default().join(tally);
            }
            for (item, count) in &table.uses {
                *seen.uses.entry(item.clone()).or_default() += count;
            }
        }
        seen.shapes = shapes.into_iter().collect();
        seen
    }
}

/// A search that is measured.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    recorder: &'a Recorder,
    /// How many searches it stands for.
    weight: u32,
    began: Duration,
    candidates: Cell<Option<u64>>,
    unindexed: Cell<bool>,
    entries: Cell<u64>,
}

impl<'a> Watch<'a> {
    /// Begins to measure.
    pub(crate) fn new(recorder: &'a Recorder, weight: u32, clock: &dyn Clock) -> Self {
        Self {
            recorder,
            weight,
            began: clock.elapsed(),
            candidates: Cell::new(None),
            unindexed: Cell::new(false),
            entries: Cell::new(0),
        }
    }

    /// The search began before, and has parked since: then with this plan.
    pub(crate) fn resumed(self, began: Duration, planned: Option<(u64, bool)>) -> Self {
        if let Some((candidates, unindexed)) = planned {
            self.planned(candidates, unindexed);
        }
        Self { began, ..self }
    }

    /// What the plan was, for a search that parks.
    pub(crate) fn plan(&self) -> Option<(u64, bool)> {
        self.candidates.get().map(|candidates| (candidates, self.unindexed.get()))
    }

    /// The search has a plan.
    pub(crate) fn planned(&self, candidates: u64, unindexed: bool) {
        self.candidates.set(Some(candidates));
        self.unindexed.set(unindexed);
    }

    /// So many entries were sent.
    pub(crate) fn sent(&self, entries: u32) {
        self.entries.set(entries.into());
    }

    /// The search has ended; without a plan there is nothing to tell.
    pub(crate) fn report(&self, filter: &ResolvedFilter, clock: &dyn Clock) {
        let Some(candidates) = self.candidates.get() else { return };
        let report = SearchReport {
            filter,
            candidates,
            entries: self.entries.get(),
            unindexed: self.unindexed.get(),
            elapsed: clock.elapsed().saturating_sub(self.began),
        };
        self.recorder.record(&report, self.weight);
    }
}

impl Recorder {
    /// Whether the search that begins now is to be measured.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.countdown > 0 {
            self.countdown -= 1;
            return false;
        }
        // Marsaglia's xorshift with 32 bits; the steps are 0 to 30, 15 on average.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.countdown = self.state % (2 * SAMPLED_ONE_IN - 1);
        true
    }

    /// Records a search that stands for `weight` of them.
    pub(crate) fn record(&self, report: &SearchReport<'_>, weight: u32) {
        let shape = Shape::of(report.filter);
        lock(&self.table).record(shape, report, u64::from(weight));
    }
}

impl Table {
    fn record(&mut self, shape: Shape, report: &SearchReport<'_>, weight: u64) {
        self.searches += weight;
        shape.each_item(&mut |item| {
            if let Some(count) = self.uses.get_mut(item) {
                *count += weight;
            } else if self.uses.len() < USE_COUNT_MAX {
                self.uses.insert(item.clone(), weight);
            }
        });
        if self.rows.len() >= SHAPE_COUNT_MAX && !self.rows.contains_key(&shape) {
            let least = self.rows.iter().min_by_key(|(_, tally)| tally.time_us);
            if let Some(least) = least.map(|(shape, _)| shape.clone()) {
                self.rows.remove(&least);
            }
        }
        let time_us = u64::try_from(report.elapsed.as_micros()).unwrap_or(u64::MAX);
        self.rows.entry(shape).or_default().join(&Tally {
            hits: weight,
            unindexed: if report.unindexed { weight } else { 0 },
            candidates: report.candidates.saturating_mul(weight),
            candidates_max: report.candidates,
            entries: report.entries.saturating_mul(weight),
            time_us: time_us.saturating_mul(weight),
            time_max_us: time_us,
        });
    }
}

impl Tally {
    fn join(&mut self, other: &Self) {
        self.hits = self.hits.saturating_add(other.hits);
        self.unindexed = self.unindexed.saturating_add(other.unindexed);
        self.candidates = self.candidates.saturating_add(other.candidates);
        self.candidates_max = self.candidates_max.max(other.candidates_max);
        self.entries = self.entries.saturating_add(other.entries);
        self.time_us = self.time_us.saturating_add(other.time_us);
        self.time_max_us = self.time_max_us.max(other.time_max_us);
    }
}

/// What a thread that panicked has left is good enough for counting.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use ldap::filter::Filter;
    use schema::Schema;

    use super::*;

    fn filter(text: &str) -> ResolvedFilter {
        ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &Schema::builtin())
    }

    fn report(filter: &ResolvedFilter, micros: u64) -> SearchReport<'_> {
        let elapsed = Duration::from_micros(micros);
        SearchReport { filter, candidates: 10, entries: 2, unindexed: false, elapsed }
    }

    #[test]
    fn one_search_in_sixteen_is_due() {
        let analyser = Analyser::default();
        let mut recorder = analyser.recorder();
        let due = (0..160_000).filter(|_| recorder.is_due()).count();
        assert!((9_000..11_000).contains(&due), "{due}");
    }

    #[test]
    fn searches_in_turns_are_all_seen() {
        let analyser = Analyser::default();
        let mut recorder = analyser.recorder();
        let mut seen = [0; 16];
        for turn in 0..160_000 {
            if recorder.is_due() {
                seen[turn % 16] += 1;
            }
        }
        assert!(seen.iter().all(|&count| (300..1_000).contains(&count)), "{seen:?}");
    }

    #[test]
    fn what_threads_saw_is_added_up() {
        let analyser = Analyser::default();
        let (one, two) = (analyser.recorder(), analyser.recorder());
        one.record(&report(&filter("(uid=anna)"), 5), 16);
        two.record(&report(&filter("(uid=bert)"), 9), 1);
        let seen = analyser.seen();
        assert_eq!(seen.searches, 17);
        let [(shape, tally)] = seen.shapes.as_slice() else { panic!("{seen:?}") };
        assert_eq!(shape.to_string(), "(uid=?)");
        let want = Tally {
            hits: 17,
            unindexed: 0,
            candidates: 170,
            candidates_max: 10,
            entries: 34,
            time_us: 89,
            time_max_us: 9,
        };
        assert_eq!(*tally, want);
        assert_eq!(seen.uses.values().copied().collect::<Vec<_>>(), [17]);
    }

    #[test]
    fn the_shapes_that_took_the_most_time_stay() {
        let analyser = Analyser::default();
        let recorder = analyser.recorder();
        recorder.record(&report(&filter("(description=*slow*)"), 1_000_000), 1);
        for n in 0..2 * SHAPE_COUNT_MAX {
            let text = format!("(&(cn=a){})", presences(n % 300));
            recorder.record(&report(&filter(&text), 1), 1);
        }
        let seen = analyser.seen();
        assert_eq!(seen.shapes.len(), SHAPE_COUNT_MAX);
        let slow = "(description=*?*)";
        assert!(seen.shapes.iter().any(|(shape, _)| shape.to_string() == slow));
    }

    /// A filter of its own shape for each number.
    fn presences(number: usize) -> String {
        let names = ["cn", "sn", "uid", "mail", "l", "title", "street", "st", "ou"];
        let chosen = names.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1);
        chosen.map(|(_, name)| format!("({name}=*)")).collect()
    }
}
