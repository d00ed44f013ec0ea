//! The clients of each node: one writes where it is decided, one reads, one follows the tail. And
//! what brings the state of the node into its base now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::log::{CommitError, CommitLog as _, Durability, LogBatch, ReadLevel, Reign, Role};
use store::Lsn;
use tokio::time::sleep;

use super::checks::{Read, Seen};
use super::requests::{self, Decision, Desk, KEYS, Request};
use super::state::{BEFORE_ALL, State};
use super::world::{Dice, Member, Plant};
use crate::engine::RaftLog;

/// What a writer knows of what it decided.
struct Tentative {
    life: u64,
    reign: Reign,
    /// A batch of this reign did not happen, so what was decided on it does not either.
    is_lost: Arc<AtomicBool>,
}

/// Until the run is over.
pub(super) async fn write(member: Arc<Member>, seen: Arc<Seen>, dice: Dice) {
    let mut tentative: Option<Tentative> = None;
    while !seen.is_over() {
        sleep(dice.duration(Duration::from_millis(5), Duration::from_millis(80))).await;
        let Some((log, life)) = member.serving() else { continue };
        let Role::Deciding(reign) = log.role() else { continue };
        let goes_on = tentative.as_ref().is_some_and(|kept| {
            kept.life == life && kept.reign == reign && !kept.is_lost.load(Ordering::Acquire)
        });
        if !goes_on {
            // As the writer does: nothing is decided before all that was is known.
            if log.in_flight() > 0 {
                continue;
            }
            member.state().store.drop_tentative();
            tentative = Some(Tentative { life, reign, is_lost: Arc::default() });
        }
        let Some(kept) = tentative.as_ref() else { continue };
        if log.in_flight() < log.window() {
            let count = 1 + dice.below(5);
            let asked: Vec<_> = (0..count).map(|_| seen.ask(member.id, &dice)).collect();
            batch(&member, &log, &seen, kept, asked);
        }
    }
}

/// Decides requests together, on what is tentative.
fn batch(member: &Member, log: &RaftLog, seen: &Arc<Seen>, kept: &Tentative, asked: Vec<Request>) {
    let state = member.state();
    let is_blind = member.plant == Some(Plant::RetriesBlindly);
    let desk = Desk { reign: kept.reign, now_us: member.wall_clock_us(), is_blind };
    let (mut records, mut decided) = (Vec::new(), Vec::new());
    let mut batch = state.store.begin().unwrap();
    for request in asked {
        match requests::decide(&mut batch, &request, desk) {
            Decision::Record(record) => {
                records.push(record);
                decided.push(request);
            }
            Decision::Known => seen.answered(&[request], &known(&state, request.id)),
        }
    }
    let Some(last) = records.last().map(|last| last.lsn) else { return };
    batch.seal();
    if member.plant == Some(Plant::AcknowledgesEarly) {
        seen.answered(&decided, &Ok(last));
    }
    let (told, is_lost) = (Arc::clone(seen), Arc::clone(&kept.is_lost));
    let done = move |outcome: Result<Lsn, CommitError>| {
        is_lost.fetch_or(outcome.is_err(), Ordering::AcqRel);
        told.answered(&decided, &outcome);
    };
    log.commit(kept.reign, LogBatch { records, durability: Durability::Synced }, Box::new(done));
}

/// What is answered to a request that has happened, as far as it was decided here.
fn known(state: &State, request: u64) -> Result<Lsn, CommitError> {
    match state.see(|view| requests::has_happened(view, request)) {
        true => Ok(BEFORE_ALL),
        false => Err(CommitError::Unknown { reason: "it is underway".to_owned() }),
    }
}

/// Reads registers at a node, with and without asking the others.
pub(super) async fn read(member: Arc<Member>, seen: Arc<Seen>, dice: Dice) {
    while !seen.is_over() {
        sleep(dice.duration(Duration::from_millis(5), Duration::from_millis(100))).await;
        let Some((log, life)) = member.serving() else { continue };
        let key = dice.below(KEYS);
        let (node, state) = (member.id, member.state());
        if dice.percent(50) {
            seen.local_read(node, state.see(|view| view.mark().lsn));
            continue;
        }
        let (began, must_have) = seen.begin_read();
        let (seen, reader) = (Arc::clone(&seen), Arc::clone(&member));
        let done = move |answer: Result<Lsn, _>| {
            let Ok(lsn) = answer else { return };
            // Nobody hears what a node that crashed answers.
            if reader.serving().is_some_and(|(_, now)| now == life) {
                let (at, value) = state.see(|view| (view.mark().lsn, requests::read(view, key)));
                assert!(at >= lsn, "what a barrier promises is visible");
                seen.end_read(Read { node, key, began, must_have, value, at });
            }
        };
        let level = match member.plant {
            Some(Plant::ReadsUnasked) => ReadLevel::Local,
            _ => ReadLevel::Linearizable,
        };
        log.barrier(level, Box::new(done));
    }
}

/// Flushes the state of a node, at moments by chance.
pub(super) async fn flush(member: Arc<Member>, seen: Arc<Seen>, dice: Dice) {
    while !seen.is_over() {
        sleep(dice.duration(Duration::from_millis(100), Duration::from_millis(2500))).await;
        let Some(log) = member.log() else { continue };
        let (life, is_synced) = (member.life(), dice.percent(70));
        // What is flushed is durable in the log before.
        for _ in 0..100 {
            if member.life() != life || member.log().is_none() {
                break;
            }
            let durable = member.disk.open().status().durable.map_or(0, |durable| durable.index);
            if durable >= member.state().last().position.index {
                if let Some(position) = member.state().flush(is_synced) {
                    log.forget(position);
                }
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Reads the tail of the log as a feed does; what it was given must be what all nodes have in the
/// end.
pub(super) async fn follow(member: Arc<Member>, seen: Arc<Seen>, dice: Dice) {
    let mut next = Lsn(BEFORE_ALL.0 + 1);
    while !seen.is_over() {
        sleep(dice.duration(Duration::from_millis(5), Duration::from_millis(100))).await;
        let Some(log) = member.log() else { continue };
        let life = member.life();
        let Ok(mut tail) = log.tail(next) else { continue };
        drop(log);
        // A failed log, or one that ended, has no more.
        while !seen.is_over() && member.life() == life && member.log().is_some() {
            match tail.next_within(Duration::ZERO) {
                Ok(Some(record)) => {
                    assert_eq!(record.lsn, next, "a tail is in order, without gaps");
                    next.0 += 1;
                    seen.followed(member.id, record);
                }
                Ok(None) => {
                    let pause = dice.duration(Duration::from_millis(5), Duration::from_millis(100));
                    sleep(pause).await;
                }
                Err(_) => break,
            }
        }
    }
}
