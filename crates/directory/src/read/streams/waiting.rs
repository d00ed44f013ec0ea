//! Who waits for the next change, and the thread that wakes them.
//!
//! Those who say what would concern them are passed over where a change does not: that is found
//! once for all who ask alike, and none of their connections is woken.
//!
//! Invariant: each is woken once at the most, and not after it has gone.
//! Invariant: the log holds one waiter, whoever waits here; what it calls does not wait.
//! Invariant: while changes are looked at nobody who comes or goes waits for that.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use history::log::{CommitLog, NotNow, ReadLevel};
use store::Lsn;

use super::interest::{Found, Interest, Place};
use crate::request::asker_bytes::AskerHeld;

/// Called when there is something to hear, with how far there is nothing.
pub(crate) type Wake = Box<dyn FnOnce(Passed) + Send>;

/// Finds what the changes behind a place are to those who wait there, in the same order.
pub(crate) type Look = Box<dyn FnMut(&[(Arc<Interest>, Place)]) -> Vec<Found>>;

/// What a search that has waited is told when it goes on.
#[derive(Debug, Default)]
pub struct Passed {
    /// How far the changes do not concern it: it need not look at them.
    pub(crate) place: Option<Place>,
    /// The room that it has waited for.
    pub(crate) room: Option<AskerHeld>,
}

/// Those who wait.
pub(super) struct Waiting {
    log: Arc<dyn CommitLog>,
    desk: Mutex<Desk>,
    told: Condvar,
    this: Weak<Self>,
}

#[derive(Default)]
struct Desk {
    /// Those whom any change concerns.
    all: BTreeMap<(Lsn, u64), Wake>,
    groups: BTreeMap<Arc<str>, Group>,
    entered: u64,
    /// Records of which the log tells when they are there.
    watched: BTreeSet<Lsn>,
    thread: Option<JoinHandle<()>>,
    /// There may be somebody to wake.
    is_told: bool,
    is_closed: bool,
}

/// Those who ask alike.
struct Group {
    interest: Arc<Interest>,
    /// What is behind the first place does not concern them, up to the second.
    from: Lsn,
    place: Place,
    all: BTreeMap<u64, (Place, Wake)>,
}

/// Somebody who waits for a change, as long as this lives.
pub(crate) struct Waiter {
    waiting: Weak<Waiting>,
    key: Key,
}

enum Key {
    Any(Lsn, u64),
    Grouped(Arc<str>, u64),
}

impl Waiting {
    pub(super) fn new(log: &Arc<dyn CommitLog>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            log: Arc::clone(log),
            desk: Mutex::default(),
            told: Condvar::new(),
            this: this.clone(),
        })
    }

    pub(super) fn enter(
        &self,
        after: Place,
        interest: Option<Arc<Interest>>,
        wake: Wake,
        make_look: impl FnOnce() -> Look + Send + 'static,
    ) -> Waiter {
        let mut desk = self.lock();
        desk.entered += 1;
        let number = desk.entered;
        let waiting = self.this.clone();
        if desk.is_closed {
            drop(desk);
            wake(Passed::default());
            return Waiter { waiting, key: Key::Any(after.lsn, number) };
        }
        let key = desk.insert(after, interest, wake);
        desk.is_told = true;
        if desk.thread.is_none() {
            let waiting = self.this.clone();
            let thread = thread::Builder::new()
                .name("streams".to_owned())
                .spawn(move || serve(&waiting, make_look()))
                .expect("a process that serves can start one more thread");
            desk.thread = Some(thread);
        }
        drop(desk);
        self.told.notify_one();
        Waiter { waiting, key }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub(super) fn close(&self) {
        let mut desk = self.lock();
        desk.is_closed = true;
        let all = std::mem::take(&mut desk.all);
        let groups = std::mem::take(&mut desk.groups);
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        let thread = desk.thread.take().filter(is_other);
        drop(desk);
        self.told.notify_one();
        let grouped = groups.into_values().flat_map(|group| group.all.into_values());
        let all = all.into_values().chain(grouped.map(|(_, wake)| wake));
        all.for_each(|wake| wake(Passed::default()));
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of searches that wait for changes had panicked");
        }
    }

    /// Those whose change is there.
    fn take(&self) -> Vec<(Passed, Wake)> {
        let applied = self.log.applied();
        let mut desk = self.lock();
        let later = desk.all.split_off(&(applied, 0));
        let taken = std::mem::replace(&mut desk.all, later);
        taken.into_values().map(|wake| (Passed::default(), wake)).collect()
    }

    /// Those whom a change concerns, of those who say what would; none when there was no change.
    fn take_concerned(&self, look: &mut Look) -> Option<Vec<(Passed, Wake)>> {
        let applied = self.log.applied();
        let asked: Vec<_> = {
            let desk = self.lock();
            let behind = desk.groups.values().filter(|group| group.place.lsn < applied);
            behind.map(|group| (Arc::clone(&group.interest), group.place)).collect()
        };
        if asked.is_empty() {
            return None;
        }
        // Without this thread nobody would hear of anything any more. What looks has no state that
        // it does not make anew.
        let looked = catch_unwind(AssertUnwindSafe(|| look(&asked)));
        let found = looked.unwrap_or_else(|_| {
            tracing::error!("changes could not be looked at for those who wait: a panic");
            vec![Found::Unknown; asked.len()]
        });
        let mut taken = Vec::new();
        let mut desk = self.lock();
        for ((interest, place), found) in asked.into_iter().zip(found) {
            // Another one may have come to be meanwhile.
            let Some(group) = desk.groups.get_mut(&interest.text) else { continue };
            if group.place == place {
                group.take(found, &mut taken);
                if group.all.is_empty() {
                    desk.groups.remove(&interest.text);
                }
            }
        }
        Some(taken)
    }

    /// Has the log tell of the next record, if anybody waits for one.
    fn watch(&self) {
        let mut desk = self.lock();
        if desk.is_closed {
            return;
        }
        let of_all = desk.all.first_key_value().map(|((after, _), _)| *after);
        let of_groups = desk.groups.values().map(|group| group.place.lsn).min();
        let Some(after) = of_all.into_iter().chain(of_groups).min() else { return };
        let next = Lsn(after.0.saturating_add(1));
        // One that is further behind than who came before it must not wait for theirs.
        if desk.watched.first().is_some_and(|first| *first <= next) {
            return;
        }
        desk.watched.insert(next);
        // The log may answer at once.
        drop(desk);
        let this = self.this.clone();
        let moved = move |outcome: Result<Lsn, NotNow>| {
            let Some(waiting) = this.upgrade() else { return };
            let mut desk = waiting.lock();
            desk.watched.remove(&next);
            desk.is_told = true;
            // Nothing comes any more, until the server starts again.
            desk.is_closed |= matches!(outcome, Err(NotNow::Closed));
            drop(desk);
            waiting.told.notify_one();
        };
        self.log.barrier(ReadLevel::AtLeast(next), Box::new(moved));
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn insert(&mut self, after: Place, interest: Option<Arc<Interest>>, wake: Wake) -> Key {
        let number = self.entered;
        let any = Key::Any(after.lsn, number);
        let Some(interest) = interest else {
            self.all.insert((after.lsn, number), wake);
            return any;
        };
        let text = Arc::clone(&interest.text);
        let group = self.groups.entry(Arc::clone(&text)).or_insert_with(|| Group {
            interest,
            from: after.lsn,
            place: after,
            all: BTreeMap::new(),
        });
        // What is before that was not looked at.
        if after.lsn < group.from {
            self.all.insert((after.lsn, number), wake);
            return any;
        }
        group.all.insert(number, (after, wake));
        Key::Grouped(text, number)
    }
}

impl Group {
    fn take(&mut self, found: Found, taken: &mut Vec<(Passed, Wake)>) {
        let (passed, concerned) = match found {
            Found::Passed(place) => {
                self.place = place;
                return;
            }
            Found::Concerned(place) => (Some(place), place.lsn),
            // What was passed over before is known still.
            Found::Unknown => (Some(self.place), Lsn(u64::MAX)),
        };
        // Who is behind the change that concerns them knows of it already.
        let all = std::mem::take(&mut self.all);
        for (number, (after, wake)) in all {
            if after.lsn > concerned {
                self.all.insert(number, (after, wake));
            } else {
                let passed = passed.filter(|place| place.lsn > after.lsn);
                taken.push((Passed { place: passed, room: None }, wake));
            }
        }
        let first = self.all.values().map(|(after, _)| *after).min_by_key(|after| after.lsn);
        if let Some(first) = first {
            (self.from, self.place) = (first.lsn, first);
        }
    }
}

/// What the thread does while there is somebody who may come.
fn serve(waiting: &Weak<Waiting>, mut look: Look) {
    while let Some(this) = waiting.upgrade() {
        let desk = this.lock();
        let idle = |desk: &mut Desk| !desk.is_told && !desk.is_closed;
        let waited = this.told.wait_timeout_while(desk, LOOK_EVERY, idle);
        let (mut desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
        desk.is_told = false;
        let is_closed = desk.is_closed;
        drop(desk);
        if is_closed {
            return this.close();
        }
        let mut woken = this.take();
        let concerned = this.take_concerned(&mut look);
        let is_any = !woken.is_empty() || concerned.is_some();
        woken.extend(concerned.into_iter().flatten());
        woken.into_iter().for_each(|(passed, wake)| wake(passed));
        this.watch();
        drop(this);
        // What comes together is told together.
        if is_any {
            thread::park_timeout(TOGETHER);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let Some(waiting) = self.waiting.upgrade() else { return };
        let mut desk = waiting.lock();
        let wake = match &self.key {
            Key::Any(after, number) => desk.all.remove(&(*after, *number)),
            Key::Grouped(text, number) => {
                let group = desk.groups.get_mut(text);
                let (wake, is_empty) = group.map_or((None, false), |group| {
                    let wake = group.all.remove(number);
                    (wake.map(|(_, wake)| wake), group.all.is_empty())
                });
                if is_empty {
                    desk.groups.remove(text);
                }
                wake
            }
        };
        drop(desk);
        drop(wake);
    }
}

/// How long changes are not looked at again after they were.
const TOGETHER: Duration = Duration::from_millis(2);
/// How often the thread looks whether it is needed at all.
const LOOK_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
