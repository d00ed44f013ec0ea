//! Whether a request is answered every time as it was the first time: by as many entries.
//!
//! The threads of a process share what they remember. A request is known by a hash of the numbers
//! of its values, so that nothing of its text is kept.
//!
//! Invariant: the first number of entries that is noted for a request stays, whoever notes it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::record::Compared;

/// The requests of a stream, and how many entries were found for each.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// Twice as many as requests are remembered, so that one is found within a few steps.
    slots: Vec<Slot>,
    taken: AtomicU64,
    requests_max: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// Which request it is; 0 is none.
    request: AtomicU64,
    /// How many entries were found, and one more; 0 as long as nobody has said.
    found: AtomicU64,
}

/// How an answer compares with the first one to the same request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Comparison {
    /// It is the first.
    First,
    /// It brings as many entries.
    Same,
    /// The first one brought so many entries.
    Changed(u64),
    /// There were too many other requests before.
    Forgotten,
}

impl Remembered {
    /// Remembers so many requests at the most.
    pub(crate) fn new(requests_max: u64) -> Self {
        let slots = (0..2 * requests_max.next_power_of_two()).map(|_| Slot::default()).collect();
        Self { slots, taken: AtomicU64::new(0), requests_max }
    }

    /// Notes that so many entries were found for a request, by the hash of its values.
    pub(crate) fn compare(&self, request: u64, entries: u64) -> Comparison {
        let request = request.max(1);
        let (before, after) = self.slots.split_at(request as usize & (self.slots.len() - 1));
        for slot in after.iter().chain(before) {
            // Looked at first: where it is full, all that is remembered is seen in the slots.
            let is_full = self.taken.load(Ordering::Acquire) >= self.requests_max;
            match slot.request.load(Ordering::Relaxed) {
                0 if is_full => break,
                0 => match take(&slot.request, request) {
                    Ok(_) => {
                        self.taken.fetch_add(1, Ordering::Release);
                        return slot.note(entries);
                    }
                    Err(other) if other == request => return slot.note(entries),
                    Err(_) => {}
                },
                known if known == request => return slot.note(entries),
                _ => {}
            }
        }
        Comparison::Forgotten
    }
}

impl Slot {
    /// Two threads may have the first answers to one request at once: one of them is the first.
    fn note(&self, entries: u64) -> Comparison {
        match take(&self.found, entries.saturating_add(1)) {
            Ok(_) => Comparison::First,
            Err(first) if first - 1 == entries => Comparison::Same,
            Err(first) => Comparison::Changed(first - 1),
        }
    }
}

/// Puts a number in the place of 0; the other number that stands there already.
fn take(place: &AtomicU64, number: u64) -> Result<u64, u64> {
    place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)
}

impl Compared {
    pub(crate) fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.answers = self.answers.saturating_add(other.answers);
        self.forgotten = self.forgotten.saturating_add(other.forgotten);
    }

    pub(crate) fn count(&mut self, comparison: Comparison) {
        match comparison {
            Comparison::First => self.requests += 1,
            Comparison::Same | Comparison::Changed(_) => self.answers += 1,
            Comparison::Forgotten => self.forgotten += 1,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Requests of a stream that each process remembers: 32 MiB. That one is taken for another of so
/// many has a chance of 2^-44.
pub(crate) const REQUESTS_REMEMBERED_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::mix;

    #[test]
    fn the_first_answer_sets_the_number() {
        let remembered = Remembered::new(4);
        for (request, entries, want) in [
            (7, 3, Comparison::First),
            (7, 3, Comparison::Same),
            (7, 0, Comparison::Changed(3)),
            (7, 3, Comparison::Same),
            // The same place, and one before the first.
            (7 + 8, 0, Comparison::First),
            (7 + 8, 1, Comparison::Changed(0)),
            (0, 1, Comparison::First),
            (0, 1, Comparison::Same),
            (u64::MAX, 5, Comparison::First),
            (99, 5, Comparison::Forgotten),
            (99, 6, Comparison::Forgotten),
            (7 + 8, 0, Comparison::Same),
        ] {
            assert_eq!(remembered.compare(request, entries), want, "{request} {entries}");
        }
    }

    #[test]
    fn threads_agree_which_answer_was_first() {
        const REQUESTS: u64 = 10_000;
        let remembered = Remembered::new(REQUESTS);
        let ask = |thread: u64| {
            let mut compared = Compared::default();
            (0..REQUESTS).for_each(|n| compared.count(remembered.compare(mix(n), n + thread)));
            compared
        };
        let mut all = Compared::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
            threads.into_iter().for_each(|thread| all.add(thread.join().unwrap()));
        });
        assert_eq!(all, Compared { requests: REQUESTS, answers: 3 * REQUESTS, forgotten: 0 });
    }
}
