//! What every engine of the commit log must do, as a suite that its tests run.
//!
//! An engine's test implements [`Bench`] (how the engine is started over a medium that outlives
//! it, and how that medium fails) and calls [`check`] and, with several seeds, [`check_faults`].
//! Both panic with what went wrong.
//!
//! Invariant: the suite knows of an engine nothing but [`CommitLog`] and [`Bench`].

mod faults;
mod ledger;
mod script;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use store::Lsn;

use super::{CommitError, CommitLog, Durability, MemberChange, NotNow, ReadLevel, Reign, Role};

pub use faults::check_faults;
pub use ledger::Ledger;
use script::Script;
pub use script::{record_after, record_of, records};

/// An engine and the medium it keeps records on.
pub trait Bench {
    /// Starts the engine over what the medium holds. All records that it finds committed are
    /// applied to `machine`, which is empty, before it returns.
    ///
    /// # Panics
    /// When the engine does not start: the suite breaks media only in ways it must survive.
    fn start(&mut self, machine: &Arc<Ledger>) -> Arc<dyn CommitLog>;

    /// Loses the power: what the medium did not promise to keep may be gone. The engine still runs,
    /// but nothing it does from now on reaches the medium.
    fn lose_power(&mut self, seed: u64);

    /// Lets so many more writes and syncs of the medium work, and none after them. False if the
    /// engine's medium cannot fail.
    fn break_medium(&mut self, after: u64) -> bool;

    /// Lets the medium work again.
    fn mend_medium(&mut self);

    /// Leaves no room on the medium, or gives room again. False if it cannot get full.
    fn fill_medium(&mut self, is_full: bool) -> bool;
}

/// Makes a bench with an empty medium.
pub type MakeBench<'a> = &'a dyn Fn() -> Box<dyn Bench>;

/// Runs every case, each on a bench of its own.
pub fn check(make: MakeBench<'_>) {
    for case in CASES {
        case(&mut *make());
    }
}

const CASES: &[fn(&mut dyn Bench)] = &[
    batches_are_done_in_order,
    done_comes_after_the_batch_is_applied,
    a_batch_of_another_reign_never_happens,
    a_batch_that_does_not_follow_never_happens,
    a_tail_shows_committed_records_in_order,
    a_tail_starts_anywhere,
    a_barrier_waits_for_its_number,
    what_was_committed_is_there_after_a_restart,
    what_was_synced_is_there_after_a_power_cut,
    a_closed_log_takes_nothing,
    a_failure_leaves_the_outcome_unknown,
    a_full_medium_refuses_and_goes_on,
    the_role_is_told,
    the_last_member_stays,
];

fn batches_are_done_in_order(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    let (told, heard) = mpsc::channel();
    let mut expected = Vec::new();
    for size in 1..=40 {
        let batch = script.batch(size % 5 + 1, Durability::Synced);
        expected.push(script.last());
        let told = told.clone();
        let done = move |outcome| told.send(outcome).expect("the script listens");
        script.log().commit(script.reign, batch, Box::new(done));
        script.wait_for_window();
    }
    for last in expected {
        let outcome = heard.recv_timeout(PATIENCE).expect("every batch is done");
        assert_eq!(outcome, Ok(last), "batches are done in order, each with its last number");
    }
    assert!(heard.try_recv().is_err(), "no batch is done twice");
    script.check_ledger();
}

fn done_comes_after_the_batch_is_applied(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    for round in 0..20 {
        let batch = script.batch(round % 3 + 1, Durability::Synced);
        let last = script.last();
        let (log, ledger) = (Arc::clone(script.log()), Arc::clone(&script.ledger));
        let (told, heard) = mpsc::channel();
        let done = move |outcome| {
            let seen = (outcome, ledger.last(), log.applied(), log.in_flight());
            told.send(seen).expect("the script listens");
        };
        script.log().commit(script.reign, batch, Box::new(done));
        let (outcome, visible, applied, in_flight) =
            heard.recv_timeout(PATIENCE).expect("every batch is done");
        assert_eq!(outcome, Ok(last));
        assert_eq!(visible, last, "readers see a batch before it is answered");
        assert_eq!(applied, last, "the log says so, too");
        assert_eq!(in_flight, 0, "the next can be committed from within `done`");
    }
}

fn a_batch_of_another_reign_never_happens(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(3);
    let before = script.last();
    for reign in [Reign(script.reign.0 + 1), Reign(script.reign.0.wrapping_sub(1))] {
        let batch = script.batch(2, Durability::Synced);
        let outcome = script.commit_in(reign, batch);
        assert!(matches!(outcome, Err(CommitError::NotDeciding { .. })), "{outcome:?}");
        script.forget_after(before);
    }
    script.commit(1);
    script.check_ledger();
}

fn a_batch_that_does_not_follow_never_happens(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(3);
    let before = script.last();
    // Decided on a batch that never came.
    script.batch(2, Durability::Synced);
    let late = script.batch(1, Durability::Synced);
    let outcome = script.commit_in(script.reign, late);
    assert_eq!(outcome, Err(CommitError::Stale { expected: Lsn(before.0 + 1) }));
    script.forget_after(before);
    // A batch with a hole.
    let mut holed = script.batch(3, Durability::Synced);
    holed.records.remove(1);
    let outcome = script.commit_in(script.reign, holed);
    assert!(matches!(outcome, Err(CommitError::Stale { .. })), "{outcome:?}");
    script.forget_after(before);
    // One that is there already.
    let mut again = script.batch(1, Durability::Synced);
    script.forget_after(before);
    let first = script.batch(1, Durability::Synced);
    assert_eq!(script.commit_in(script.reign, first), Ok(script.last()));
    again.records.truncate(1);
    let outcome = script.commit_in(script.reign, again);
    assert_eq!(outcome, Err(CommitError::Stale { expected: Lsn(script.last().0 + 1) }));
    script.commit(2);
    script.check_ledger();
}

fn a_tail_shows_committed_records_in_order(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(5);
    let total = 5 + 60 * 2;
    let mut tail = script.log().tail(Lsn(1)).expect("nothing was purged");
    let ledger = Arc::clone(&script.ledger);
    let reader = thread::spawn(move || {
        let mut seen = Vec::new();
        while seen.len() < total {
            let next = tail.next_within(PATIENCE).expect("the log goes on");
            let record = next.expect("a record comes in time");
            assert!(ledger.last() >= record.lsn, "a tail shows only what is applied");
            assert_eq!(record.lsn.0, seen.len() as u64 + 1, "a tail is in order, without gaps");
            seen.push(record);
        }
        assert_eq!(tail.next_within(Duration::ZERO), Ok(None), "nothing comes before it is there");
        seen
    });
    for _ in 0..60 {
        script.commit(2);
    }
    let seen = reader.join().expect("the reader has nothing to object to");
    assert_eq!(seen, script.records(), "records come out as they went in");
}

fn a_tail_starts_anywhere(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(10);
    let mut middle = script.log().tail(Lsn(7)).expect("nothing was purged");
    let mut ahead = script.log().tail(Lsn(12)).expect("the future is not gone");
    assert_eq!(ahead.next_within(Duration::ZERO), Ok(None));
    script.commit(2);
    for lsn in 7..=12 {
        let record = middle.next_within(PATIENCE).expect("the log goes on");
        assert_eq!(record.map(|record| record.lsn), Some(Lsn(lsn)));
    }
    let record = ahead.next_within(PATIENCE).expect("the log goes on");
    assert_eq!(record.map(|record| record.lsn), Some(Lsn(12)));
}

fn a_barrier_waits_for_its_number(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(2);
    for level in [ReadLevel::Local, ReadLevel::Linearizable, ReadLevel::AtLeast(Lsn(2))] {
        let heard = script.barrier(level).recv_timeout(PATIENCE);
        assert_eq!(heard, Ok(Ok(Lsn(2))), "{level:?}");
    }
    let ahead = script.barrier(ReadLevel::AtLeast(Lsn(4)));
    script.commit(1);
    assert!(ahead.try_recv().is_err(), "number 4 is not there yet");
    script.commit(1);
    assert_eq!(ahead.recv_timeout(PATIENCE), Ok(Ok(Lsn(4))));
    let never = script.barrier(ReadLevel::AtLeast(Lsn(9)));
    script.log().close();
    assert_eq!(never.recv_timeout(PATIENCE), Ok(Err(NotNow::Closed)));
}

fn what_was_committed_is_there_after_a_restart(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    for round in 0..10 {
        let durability = if round % 2 == 0 { Durability::Written } else { Durability::Synced };
        let batch = script.batch(round % 4 + 1, durability);
        assert_eq!(script.commit_in(script.reign, batch), Ok(script.last()));
    }
    for _ in 0..3 {
        script.stop();
        script.restart(bench);
        script.check_ledger();
        let mut tail = script.log().tail(Lsn(1)).expect("nothing was purged");
        for record in script.records() {
            assert_eq!(tail.next_within(PATIENCE), Ok(Some(record)));
        }
        script.commit(2);
    }
}

fn what_was_synced_is_there_after_a_power_cut(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    for seed in 0..6 {
        script.commit(3);
        let acknowledged = script.last();
        // Not synced: may survive or not, but not with holes.
        let batch = script.batch(2, Durability::Written);
        assert_eq!(script.commit_in(script.reign, batch), Ok(script.last()));
        script.cut(bench, seed);
        script.restart(bench);
        script.adopt_ledger(acknowledged);
    }
    script.commit(1);
    script.check_ledger();
}

fn a_closed_log_takes_nothing(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(2);
    let mut tail = script.log().tail(Lsn(3)).expect("the future is not gone");
    script.log().close();
    assert!(tail.next_within(PATIENCE).is_err(), "nothing more will come");
    let before = script.last();
    let batch = script.batch(1, Durability::Synced);
    let outcome = script.commit_in(script.reign, batch);
    assert!(matches!(outcome, Err(CommitError::Fatal(_))), "{outcome:?}");
    script.forget_after(before);
    script.stop();
    script.restart(bench);
    script.check_ledger();
}

fn a_failure_leaves_the_outcome_unknown(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(4);
    let acknowledged = script.last();
    if !bench.break_medium(0) {
        return;
    }
    let ahead = script.barrier(ReadLevel::AtLeast(Lsn(acknowledged.0 + 1)));
    let batch = script.batch(2, Durability::Synced);
    let outcome = script.commit_in(script.reign, batch);
    assert!(matches!(outcome, Err(CommitError::Unknown { .. })), "{outcome:?}");
    assert_eq!(ahead.recv_timeout(PATIENCE), Ok(Err(NotNow::Closed)));
    assert!(matches!(script.log().role(), Role::Failed(_)), "{:?}", script.log().role());
    let next = script.batch(1, Durability::Synced);
    let outcome = script.commit_in(script.reign, next);
    assert!(matches!(outcome, Err(CommitError::Fatal(_))), "{outcome:?}");
    assert_eq!(script.ledger.last(), acknowledged, "what is not known is not shown");
    let mut tail = script.log().tail(Lsn(1)).expect("reading goes on");
    for lsn in 1..=acknowledged.0 {
        let record = tail.next_within(PATIENCE).expect("reading goes on");
        assert_eq!(record.map(|record| record.lsn), Some(Lsn(lsn)));
    }
    drop(tail);
    bench.mend_medium();
    script.cut(bench, 5);
    script.restart(bench);
    script.adopt_ledger(acknowledged);
    script.commit(2);
    script.check_ledger();
}

fn a_full_medium_refuses_and_goes_on(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    script.commit(2);
    if !bench.fill_medium(true) {
        return;
    }
    // What was reserved may still be used; it ends some time.
    let mut refusals = 0;
    for _ in 0..FULL_BATCHES_MAX {
        let before = script.last();
        let batch = script.large_batch();
        match script.commit_in(script.reign, batch) {
            Ok(last) => assert_eq!(last, script.last()),
            Err(error) => {
                assert_eq!(error, CommitError::NoSpace);
                script.forget_after(before);
                refusals += 1;
            }
        }
        if refusals == 2 {
            break;
        }
    }
    assert_eq!(refusals, 2, "a full medium refuses, again and again");
    assert_eq!(script.log().role(), Role::Deciding(script.reign), "and that is no failure");
    script.check_ledger();
    bench.fill_medium(false);
    script.commit(2);
    script.check_ledger();
    script.stop();
    script.restart(bench);
    script.check_ledger();
}

fn the_last_member_stays(bench: &mut dyn Bench) {
    let script = Script::start(bench);
    let log = script.log();
    let members = log.members().list();
    let ids: BTreeSet<u64> = members.iter().map(|member| member.id).collect();
    let unknown = ids.last().map_or(1, |last| last + 1);
    let impossible = [
        MemberChange::Remove { ids: ids.clone() },
        MemberChange::Demote { ids },
        MemberChange::Promote { ids: [unknown].into() },
        MemberChange::Transfer { id: unknown },
    ];
    for change in impossible {
        let (told, heard) = mpsc::sync_channel(1);
        log.members().change(change.clone(), Box::new(move |outcome| drop(told.send(outcome))));
        let outcome = heard.recv_timeout(PATIENCE).expect("a change is answered");
        assert!(outcome.is_err(), "{change:?}");
    }
    assert_eq!(log.members().list(), members);
    assert_eq!(log.role(), Role::Deciding(script.reign));
}

fn the_role_is_told(bench: &mut dyn Bench) {
    let mut script = Script::start(bench);
    let roles = Arc::new(Mutex::new(Vec::new()));
    let (kept, is_told) = (Arc::clone(&roles), Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&is_told);
    script.log().watch(Box::new(move |role| {
        told.store(true, Ordering::Release);
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(role.clone());
    }));
    assert!(is_told.load(Ordering::Acquire), "the present role is told at once");
    let known = || roles.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(known(), [Role::Deciding(script.reign)]);
    assert_eq!(script.log().role(), Role::Deciding(script.reign));
    assert!(!script.log().members().list().is_empty(), "somebody takes part");
    assert!(script.log().window() >= 1);
    script.commit(1);
    if bench.break_medium(0) {
        let batch = script.batch(1, Durability::Synced);
        assert!(script.commit_in(script.reign, batch).is_err_and(|error| error.is_unknown()));
        assert!(matches!(known().last(), Some(Role::Failed(_))), "{:?}", known());
        bench.mend_medium();
    }
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// After so many large batches any medium that says it is full must be.
const FULL_BATCHES_MAX: usize = 10_000;
