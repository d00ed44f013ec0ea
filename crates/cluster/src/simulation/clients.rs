//! One client at each node: writes where it is decided, and asks for linearizable reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::log::conformance::record_after;
use history::log::{CommitError, CommitLog as _, Durability, LogBatch, ReadLevel, Reign, Role};
use history::record::{OpKind, Origin, Who};
use store::Lsn;
use tokio::time::sleep;

use super::checks::Seen;
use super::world::{Dice, Member};
use crate::engine::RaftLog;

/// What a writer decides on: the state of its node and what it has in flight.
struct Tentative {
    life: u64,
    reign: Reign,
    last: (Lsn, u64),
    /// A batch of this reign did not happen, so what was decided on it does not either.
    is_lost: Arc<AtomicBool>,
}

/// Until the run is over.
pub(super) async fn write(member: Arc<Member>, seen: Arc<Seen>, dice: Dice) {
    let mut tentative: Option<Tentative> = None;
    while !seen.is_over() {
        sleep(dice.duration(Duration::from_millis(1), Duration::from_millis(30))).await;
        let Some(log) = member.log() else { continue };
        if dice.percent(10) {
            read(&member, &log, &seen);
        }
        let Role::Deciding(reign) = log.role() else { continue };
        let life = *member.life.lock().unwrap();
        let goes_on = tentative.as_ref().is_some_and(|kept| {
            kept.life == life && kept.reign == reign && !kept.is_lost.load(Ordering::Acquire)
        });
        if !goes_on {
            // As the writer does: nothing is decided before all that was is known.
            if log.in_flight() > 0 {
                continue;
            }
            let ledger = member.ledger();
            let last = (ledger.last(), ledger.hash());
            tentative = Some(Tentative { life, reign, last, is_lost: Arc::default() });
        }
        let Some(kept) = tentative.as_mut() else { continue };
        if log.in_flight() < log.window() {
            batch(&member, &log, &seen, kept, 1 + dice.below(5));
        }
    }
}

fn batch(member: &Member, log: &RaftLog, seen: &Arc<Seen>, kept: &mut Tentative, size: u64) {
    let mut records = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..size {
        let id = seen.ask(member.id);
        let origin = Origin {
            request: id.to_le_bytes(),
            who: Who::server(),
            message: 1,
            op: OpKind::Internal,
            controls: Vec::new(),
        };
        let line = format!("change {id}");
        let record = record_after(kept.last.0, kept.last.1, kept.reign, &origin, line);
        kept.last = (record.lsn, record.hash);
        records.push(record);
        ids.push(id);
    }
    let (told, is_lost) = (Arc::clone(seen), Arc::clone(&kept.is_lost));
    let done = move |outcome: Result<Lsn, CommitError>| {
        is_lost.fetch_or(outcome.is_err(), Ordering::AcqRel);
        told.answered(&ids, &outcome);
    };
    log.commit(kept.reign, LogBatch { records, durability: Durability::Synced }, Box::new(done));
}

/// A read that must see all that was acknowledged before it.
fn read(member: &Arc<Member>, log: &RaftLog, seen: &Arc<Seen>) {
    let must_have = seen.acknowledged();
    let (id, ledger, seen) = (member.id, member.ledger(), Arc::clone(seen));
    let done = move |answer: Result<Lsn, _>| {
        if let Ok(lsn) = answer {
            let sees = ledger.last();
            seen.check_read(id, must_have, lsn.min(sees));
        }
    };
    log.barrier(ReadLevel::Linearizable, Box::new(done));
}

/// Reads the tail of the log as a feed does; what it was given must be what all nodes have in the
/// end.
pub(super) async fn follow(member: Arc<Member>, seen: Arc<Seen>, dice: Dice) {
    let mut next = Lsn(1);
    while !seen.is_over() {
        sleep(dice.duration(Duration::from_millis(1), Duration::from_millis(40))).await;
        let Some(log) = member.log() else { continue };
        let life = *member.life.lock().unwrap();
        let Ok(mut tail) = log.tail(next) else { continue };
        drop(log);
        // A failed log, or one that ended, has no more.
        while !seen.is_over() && *member.life.lock().unwrap() == life && member.log().is_some() {
            match tail.next_within(Duration::ZERO) {
                Ok(Some(record)) => {
                    assert_eq!(record.lsn, next, "a tail is in order, without gaps");
                    next.0 += 1;
                    seen.followed(member.id, record);
                }
                Ok(None) => {
                    let pause = dice.duration(Duration::from_millis(1), Duration::from_millis(40));
                    sleep(pause).await;
                }
                Err(_) => break,
            }
        }
    }
}
