//! The member that is asked: holds a state and reads it, on a thread of its own that steps back
//! behind all others.
//!
//! Invariant: one comparison at a time, and one state; both go when nobody asks for as long as
//! `HELD_MAX`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use history::log::StateMachine;
use store::{Digest, HeldState, NotHeld, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::message::{Answer, Asked, ENTRIES_MAX, Question, RunId};
use super::{HELD_MAX, HOLD_WAIT_MAX, SLICE_MAX_BYTES};

/// Where the state of this member is asked for; clones are the same.
#[derive(Clone)]
pub(crate) struct Holder(Sender<Given>);

struct Given {
    from: u64,
    asked: Asked,
    answer: oneshot::Sender<Answer>,
}

impl Holder {
    /// Over `state`. The thread ends when the last clone is gone.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start(state: Arc<dyn StateMachine>) -> std::io::Result<Self> {
        let (given, taken) = unbounded();
        let run = move || {
            // Of this thread alone. Where the system does not allow it, it runs like the others.
            let _ = rustix::process::setpriority_process(None, NICE);
            serve(&*state, &taken);
        };
        thread::Builder::new().name("raft-verify".to_owned()).spawn(run)?;
        Ok(Self(given))
    }

    /// Has a question of member `from` answered; none when the thread is gone.
    pub(crate) async fn ask(&self, from: u64, asked: Asked) -> Option<Answer> {
        let (answer, heard) = oneshot::channel();
        // The thread ends only when nobody can ask any more.
        let _ = self.0.send(Given { from, asked, answer });
        heard.await.ok()
    }
}

/// The comparison that is under way.
struct Current {
    run: RunId,
    /// The member that asks.
    by: u64,
    state: Option<HeldState>,
    asked: Instant,
}

fn serve(machine: &dyn StateMachine, taken: &Receiver<Given>) {
    let mut current: Option<Current> = None;
    loop {
        let given = match &current {
            None => taken.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(current) => taken.recv_timeout(HELD_MAX.saturating_sub(current.asked.elapsed())),
        };
        if current.as_ref().is_some_and(|current| current.asked.elapsed() >= HELD_MAX) {
            current = None;
        }
        match given {
            Ok(Given { from, asked, answer }) => {
                let said = respond(machine, &mut current, from, asked);
                // Who asked may have gone.
                drop(answer.send(said));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn respond(
    machine: &dyn StateMachine,
    current: &mut Option<Current>,
    from: u64,
    Asked { run, what }: Asked,
) -> Answer {
    if let Some(other) = current.as_ref().filter(|other| other.run != run) {
        return Answer::Busy(other.by);
    }
    match what {
        Question::End => {
            *current = None;
            return Answer::Done;
        }
        Question::Hold { lsn, wait_ms } => {
            // What was held goes first: one state at a time.
            *current = None;
            let wait = Duration::from_millis(u64::from(wait_ms)).min(HOLD_WAIT_MAX);
            let (answer, state) = match machine.hold(lsn, wait) {
                Ok(state) => match state.entry_count() {
                    Ok(entries) => (Answer::Held { entries }, Some(state)),
                    Err(error) => (Answer::Refused(error.to_string()), None),
                },
                Err(NotHeld::Passed { at }) => (Answer::Passed(at), None),
                Err(NotHeld::NotReached { at }) => (Answer::NotReached(at), None),
                Err(NotHeld::Busy) => (Answer::Refused(TWICE.to_owned()), None),
                Err(NotHeld::Refused(reason)) => return Answer::Refused(reason),
            };
            *current = Some(Current { run, by: from, state, asked: Instant::now() });
            return answer;
        }
        Question::Slice { .. }
        | Question::Entries { .. }
        | Question::Describe(_)
        | Question::Common
        | Question::CommonRows
        | Question::LetGo => {}
    }
    let Some(current) = current else { return Answer::NotHeld };
    let answer = match &current.state {
        Some(state) => {
            read(state, &what).unwrap_or_else(|error| Answer::Refused(error.to_string()))
        }
        None => Answer::NotHeld,
    };
    if what == Question::LetGo {
        current.state = None;
    }
    current.asked = Instant::now();
    answer
}

/// Reads what is asked for of the state.
fn read(state: &HeldState, what: &Question) -> Result<Answer, StoreError> {
    Ok(match what {
        Question::Slice { from, through } => {
            Answer::Slice(state.slice(*from, *through, SLICE_MAX_BYTES)?)
        }
        Question::Entries { from, through } => {
            Answer::Entries(state.entries(*from, *through, ENTRIES_MAX)?)
        }
        Question::Describe(ids) => {
            let all = ids.iter().map(|id| state.describe(*id));
            Answer::Described(all.collect::<Result<_, _>>()?)
        }
        Question::Common => {
            let rows = state.common_rows()?;
            let sum = rows.iter().fold(0_u128, |sum, (_, row)| sum.wrapping_add(row.number()));
            Answer::Rows(vec![(rows.len().to_string(), Digest::from_number(sum))])
        }
        Question::CommonRows => Answer::Rows(state.common_rows()?),
        Question::LetGo | Question::Hold { .. } | Question::End => Answer::Done,
    })
}

/// How much the thread steps back. Not further: what it does under a lock that publishes, for some
/// microseconds, is not to be kept from the processor for long.
const NICE: i32 = 10;
const TWICE: &str = "its state is held by somebody else";
