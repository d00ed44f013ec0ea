//! Who waits is woken: by a change, by one further behind, and where a look fails.

#![allow(clippy::disallowed_methods, reason = "threads of a real clock are waited for")]

use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use history::log::{
    BarrierDone, CommitDone, CommitError, Gone, LogBatch, Membership, Reign, Role, RoleWatcher,
    Tail,
};
use ldap::message::Scope;
use schema::DnKey;
use store::LogPosition;

use super::*;

/// Less than the time after which the thread looks by itself.
const SOON: Duration = Duration::from_secs(5);

/// A log of which only the numbers matter.
#[derive(Default)]
struct Numbers {
    now: Mutex<(Lsn, Vec<(Lsn, BarrierDone)>)>,
}

impl Numbers {
    fn at(lsn: u64) -> Arc<Self> {
        let log = Self::default();
        log.now.lock().unwrap().0 = Lsn(lsn);
        Arc::new(log)
    }

    fn apply(&self, lsn: u64) {
        let mut now = self.now.lock().unwrap();
        now.0 = Lsn(lsn);
        let (due, later) = std::mem::take(&mut now.1).into_iter().partition(|(at, _)| at.0 <= lsn);
        now.1 = later;
        drop(now);
        let due: Vec<(Lsn, BarrierDone)> = due;
        due.into_iter().for_each(|(_, done)| done(Ok(Lsn(lsn))));
    }

    fn watched(&self) -> Vec<u64> {
        self.now.lock().unwrap().1.iter().map(|(at, _)| at.0).collect()
    }

    fn until_watched(&self, wanted: &[u64]) {
        let begun = Instant::now();
        while self.watched() != wanted {
            assert!(begun.elapsed() < SOON, "{:?}", self.watched());
            thread::yield_now();
        }
    }
}

impl CommitLog for Numbers {
    fn commit(&self, _: Reign, _: LogBatch, done: CommitDone) {
        done(Err(CommitError::Fatal("nothing is written here".to_owned())));
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn window(&self) -> usize {
        1
    }

    fn role(&self) -> Role {
        unreachable!("nobody asks for it")
    }

    fn watch(&self, _: RoleWatcher) {}

    fn barrier(&self, level: ReadLevel, done: BarrierDone) {
        let ReadLevel::AtLeast(lsn) = level else { unreachable!("by number alone") };
        let mut now = self.now.lock().unwrap();
        let applied = now.0;
        if lsn > applied {
            return now.1.push((lsn, done));
        }
        drop(now);
        done(Ok(applied));
    }

    fn tail(&self, first: Lsn) -> Result<Box<dyn Tail>, Gone> {
        Err(Gone { first, reason: "nothing is kept here".to_owned(), may_pass: false })
    }

    fn applied(&self) -> Lsn {
        self.now.lock().unwrap().0
    }

    fn members(&self) -> &dyn Membership {
        unreachable!("nobody asks for them")
    }

    fn kept_index(&self) -> u64 {
        0
    }

    fn forget(&self, _: LogPosition) {}

    fn close(&self) {}
}

fn place(lsn: u64) -> Place {
    Place { lsn: Lsn(lsn), hash: lsn }
}

fn interest() -> Arc<Interest> {
    Arc::new(Interest {
        text: "all".into(),
        generation: 1,
        base: DnKey::default(),
        scope: Scope::Subtree,
        filter: None,
        follows_aliases: false,
        is_sync: false,
        is_ruled: false,
    })
}

/// Makes what looks.
type Make = Box<dyn FnOnce() -> Look + Send>;

/// Somebody who waits.
struct One {
    told: Receiver<Passed>,
    _waiter: Waiter,
}

fn enter(waiting: &Waiting, after: u64, interest: Option<Arc<Interest>>, make: Make) -> One {
    let (sender, told) = channel();
    let wake = Box::new(move |passed| sender.send(passed).unwrap());
    One { told, _waiter: waiting.enter(place(after), interest, wake, make) }
}

fn looks(look: impl FnMut(&[(Arc<Interest>, Place)]) -> Vec<Found> + Send + 'static) -> Make {
    Box::new(|| Box::new(look))
}

fn blind() -> Make {
    looks(|asked| vec![Found::Unknown; asked.len()])
}

#[test]
fn what_was_passed_over_is_kept_where_the_next_is_unknown() {
    let numbers = Numbers::at(10);
    let waiting = Waiting::new(&(Arc::clone(&numbers) as Arc<dyn CommitLog>));
    let mut count = 0;
    let look = move |asked: &[(Arc<Interest>, Place)]| {
        count += 1;
        let found = if count == 1 { Found::Passed(place(11)) } else { Found::Unknown };
        vec![found; asked.len()]
    };
    let one = enter(&waiting, 10, Some(interest()), looks(look));
    numbers.until_watched(&[11]);
    numbers.apply(11);
    numbers.until_watched(&[12]);
    // It has come later, and knows of all that was passed over.
    let late = enter(&waiting, 11, Some(interest()), blind());
    numbers.apply(12);
    assert_eq!(one.told.recv_timeout(SOON).unwrap().place, Some(place(11)));
    assert_eq!(late.told.recv_timeout(SOON).unwrap().place, None);
    waiting.close();
}

#[test]
fn who_is_further_behind_is_woken_in_time() {
    let numbers = Numbers::at(99);
    let waiting = Waiting::new(&(Arc::clone(&numbers) as Arc<dyn CommitLog>));
    let ahead = enter(&waiting, 100, None, blind());
    numbers.until_watched(&[101]);
    let behind = enter(&waiting, 99, None, blind());
    numbers.until_watched(&[101, 100]);
    numbers.apply(100);
    behind.told.recv_timeout(SOON).expect("its change is there");
    assert!(ahead.told.try_recv().is_err(), "its change is not");
    numbers.until_watched(&[101]);
    numbers.apply(101);
    ahead.told.recv_timeout(SOON).expect("its change is there");
    waiting.close();
}

#[test]
fn a_panic_while_changes_are_looked_at_silences_nobody() {
    let numbers = Numbers::at(10);
    let waiting = Waiting::new(&(Arc::clone(&numbers) as Arc<dyn CommitLog>));
    let grouped = enter(&waiting, 10, Some(interest()), looks(|_| panic!("as the test wants it")));
    let any = enter(&waiting, 11, None, blind());
    numbers.until_watched(&[11]);
    numbers.apply(11);
    grouped.told.recv_timeout(SOON).expect("it looks for itself");
    numbers.until_watched(&[12]);
    numbers.apply(12);
    any.told.recv_timeout(SOON).expect("its change is there");
    waiting.close();
}
