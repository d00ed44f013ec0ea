//! Reads that wait until the data are fresh enough, and the thread that asks for them.
//!
//! Those that need to know what is acknowledged anywhere share a round: one question to whoever
//! leads is under way at a time, and those that came meanwhile share the next. Those that wait for
//! a change are looked at when something was applied.
//!
//! Invariant: each is given back exactly once, and whoever came during a round is not answered by
//! it, unless its bound allows for that.
//! Invariant: what waits is bounded in requests, over all and for each who asks, and in time.
//! Invariant: the log holds no more than one question and one waiter of this thread.
//! Invariant: a change takes no longer for those that do not wait for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, never, select, unbounded};
use environment::Clock;
use history::log::{CommitLog, NotNow, ReadLevel};
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;
use rustc_hash::FxHashMap;
use store::Lsn;
use zeroize::Zeroizing;

use super::level::Freshness;
use crate::request::asker_queues::Asker;
use crate::request::cancel::{Cancel, Ending};
use crate::request::completion::Completion;
use crate::request::limits::Limits;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink;

/// A read whose data are not fresh enough, and that was not handed in yet.
#[must_use]
pub struct WaitingRead {
    pub(super) id: MessageId,
    pub(super) operation: OperationKind,
    pub(super) message: Zeroizing<Vec<u8>>,
    pub(super) level: Freshness,
    pub(super) asker: Asker,
    pub(super) wait_max: Duration,
    /// What it is told when that is over.
    pub(super) late_code: ResultCode,
    pub(super) cancel: Cancel,
    pub(super) reads: Arc<WaitingReads>,
}

/// A read that goes on; give it to `Worker::resume_read`.
#[must_use]
pub struct ReadReady {
    read: Box<WaitingRead>,
    outcome: Result<(), Refusal>,
}

/// What becomes of a read that has waited.
pub(crate) enum Resumed {
    /// It is to be handled: its message.
    Message(Zeroizing<Vec<u8>>),
    /// It is answered, or nobody waits for that.
    Over(Completion),
}

/// Takes a read that goes on; called once, from a thread that must not wait.
pub type ReadDone = Box<dyn FnOnce(ReadReady) + Send>;

impl WaitingRead {
    /// Which request it is.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// How many octets it holds while it waits.
    pub fn octets(&self) -> usize {
        self.message.len()
    }

    /// Refuses the request: there is no room for it.
    pub fn refuse(&self, out: &mut Vec<u8>, code: ResultCode, why: String) -> Completion {
        sink::refuse(out, self.id, Some(self.operation), Refusal::new(code, why))
    }

    /// Has it wait; `done` gets it back. Given back at once, with the reason, where too many wait.
    ///
    /// # Errors
    /// The read, and why it cannot wait.
    pub fn submit(self: Box<Self>, done: ReadDone) -> Result<(), (Box<Self>, &'static str)> {
        let reads = Arc::clone(&self.reads);
        let mut counts = reads.lock();
        if counts.is_closed {
            drop(counts);
            done(ReadReady { read: self, outcome: Err(Refusal::shutting_down()) });
            return Ok(());
        }
        let (max, asker_max) = (reads.requests_max, reads.asker_requests_max);
        if let Err(why) = counts.admit(max, asker_max, self.asker) {
            return Err((self, why));
        }
        let until = reads.clock.elapsed() + self.wait_max;
        // With the lock held: nothing comes behind the end.
        let sent = reads.desk.send(Told::Read(Entered { read: self, until, done }));
        debug_assert!(sent.is_ok(), "the thread ends when no more is admitted");
        Ok(())
    }
}

impl ReadReady {
    /// Which request it is.
    pub fn id(&self) -> MessageId {
        self.read.id
    }

    /// What it asks for.
    pub fn operation(&self) -> OperationKind {
        self.read.operation
    }

    /// Ends what waited; the message, where the request is to be carried out.
    pub(crate) fn resume(self, session: &mut Session, out: &mut Vec<u8>) -> Resumed {
        let Self { read, outcome } = self;
        let (id, operation) = (read.id, Some(read.operation));
        session.forget(id);
        let refusal = match (read.cancel.decide(), outcome) {
            (Ending::Abandoned, _) => return Resumed::Over(Completion::of(id, operation)),
            (Ending::Canceled, _) => Refusal::new(ResultCode::Canceled, ""),
            (Ending::Own, Err(refusal)) => refusal,
            (Ending::Own, Ok(())) => return Resumed::Message(read.message),
        };
        Resumed::Over(sink::refuse(out, id, operation, refusal))
    }
}

impl fmt::Debug for WaitingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingRead")
            .field("id", &self.id)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadReady").field("read", &self.read).finish_non_exhaustive()
    }
}

/// What those who serve requests share with the thread.
pub(crate) struct WaitingReads {
    clock: Arc<dyn Clock>,
    requests_max: usize,
    asker_requests_max: usize,
    counts: Mutex<Counts>,
    /// When the last round began in which a majority was there, in nanoseconds of the clock and
    /// one; 0: there was none.
    confirmed_ns: AtomicU64,
    desk: Sender<Told>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    /// Those of who has not signed in.
    strangers: usize,
    of_askers: FxHashMap<Asker, usize>,
    is_closed: bool,
}

impl Counts {
    /// Counts one more, if there may be. Strangers have half of the places; whoever has signed in
    /// and has nothing here gets in, whatever others have.
    fn admit(&mut self, max: usize, asker_max: usize, asker: Asker) -> Result<(), &'static str> {
        let own = self.of_askers.get(&asker).copied().unwrap_or(0);
        let is_full = match asker {
            Asker::Root => own >= max,
            Asker::Entry(_) => own >= asker_max || (self.all >= max && own > 0),
            Asker::Address(_) | Asker::Local => {
                own >= asker_max || self.all >= max || self.strangers >= max / 2
            }
        };
        if is_full {
            return Err("too many reads are waiting for other servers");
        }
        self.all += 1;
        self.strangers += usize::from(asker.is_stranger());
        *self.of_askers.entry(asker).or_default() += 1;
        Ok(())
    }

    fn release(&mut self, asker: Asker) {
        self.all -= 1;
        self.strangers -= usize::from(asker.is_stranger());
        if let Some(own) = self.of_askers.get_mut(&asker) {
            *own -= 1;
            if *own == 0 {
                self.of_askers.remove(&asker);
            }
        }
    }
}

impl WaitingReads {
    /// Starts the thread; it ends when this is closed.
    pub(crate) fn start(
        log: &Arc<dyn CommitLog>,
        clock: &Arc<dyn Clock>,
        limits: &Limits,
    ) -> Arc<Self> {
        let (desk, told) = unbounded();
        let reads = Arc::new(Self {
            clock: Arc::clone(clock),
            requests_max: limits.waiting_reads_max,
            asker_requests_max: limits.waiting_reads_asker_max,
            counts: Mutex::default(),
            confirmed_ns: AtomicU64::new(0),
            desk: desk.clone(),
            thread: Mutex::default(),
        });
        let desk = Desk {
            reads: Arc::clone(&reads),
            log: Arc::clone(log),
            desk,
            for_changes: BTreeMap::new(),
            entered: 0,
            gathered: Vec::new(),
            asked: None,
            is_watching: false,
            heard: None,
            not_before: Duration::ZERO,
        };
        let thread = thread::Builder::new()
            .name("fresh-reads".to_owned())
            .spawn(move || desk.serve(&told))
            .expect("a process that starts can start one more thread");
        *reads.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        reads
    }

    /// Whether a majority was there in a round that began within so many milliseconds, with all
    /// that was acknowledged before applied here.
    pub(super) fn is_within(&self, staleness_ms: u32) -> bool {
        let Some(confirmed_ns) = self.confirmed_ns.load(Ordering::Acquire).checked_sub(1) else {
            return false;
        };
        let age = self.clock.elapsed().saturating_sub(Duration::from_nanos(confirmed_ns));
        age <= Duration::from_millis(staleness_ms.into())
    }

    fn confirm(&self, began: Duration) {
        let began_ns = u64::try_from(began.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        self.confirmed_ns.fetch_max(began_ns, Ordering::AcqRel);
    }

    /// How many wait, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        (self.lock().all, self.requests_max)
    }

    /// Refuses what waits, and what comes from now on.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        let _ = self.desk.send(Told::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread of waiting reads had panicked");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread is told.
enum Told {
    Read(Entered),
    /// A round has ended.
    Round(Result<Lsn, NotNow>),
    /// A change was applied, or none will be.
    Moved(Result<Lsn, NotNow>),
    Close,
}

/// A read that waits.
struct Entered {
    read: Box<WaitingRead>,
    until: Duration,
    done: ReadDone,
}

impl Entered {
    /// Whether nobody waits for it any more, or has waited for too long.
    fn is_over(&self, now: Duration) -> bool {
        self.until <= now || self.read.cancel.is_set()
    }

    /// Gives it back.
    fn end(self, outcome: Result<(), Refusal>) {
        let Self { read, done, .. } = self;
        read.reads.lock().release(read.asker);
        done(ReadReady { read, outcome });
    }
}

/// Those who share a round, and when it began.
struct Round {
    began: Duration,
    reads: Vec<Entered>,
}

/// What the thread works with.
struct Desk {
    reads: Arc<WaitingReads>,
    log: Arc<dyn CommitLog>,
    desk: Sender<Told>,
    /// By the change, and then as they came.
    for_changes: BTreeMap<(Lsn, u64), Entered>,
    /// How many have come.
    entered: u64,
    /// For the next round.
    gathered: Vec<Entered>,
    /// The round under way.
    asked: Option<Round>,
    /// The log tells of the next change.
    is_watching: bool,
    /// How long ago whoever leads had been heard when the last round failed.
    heard: Option<Duration>,
    /// No round begins before.
    not_before: Duration,
}

impl Desk {
    /// Until it is closed.
    fn serve(mut self, told: &Receiver<Told>) {
        let (mut is_open, mut alarm, mut is_armed) = (true, never(), false);
        while is_open {
            if !is_armed && !self.is_empty() {
                (alarm, is_armed) = (after(LOOK_EVERY), true);
            }
            select! {
                recv(told) -> one => is_open = one.is_ok_and(|one| self.hear(one)),
                recv(alarm) -> _ => {
                    (alarm, is_armed) = (never(), false);
                    self.give_up();
                }
            }
            // What has come together is looked at together.
            while is_open && let Ok(one) = told.try_recv() {
                is_open = self.hear(one);
            }
            self.give_back();
            self.watch();
            self.ask();
        }
        let asked = self.asked.take().map(|round| round.reads).unwrap_or_default();
        let for_changes = std::mem::take(&mut self.for_changes).into_values();
        let waiting = for_changes.chain(self.gathered.drain(..)).chain(asked);
        waiting.for_each(|one| one.end(Err(Refusal::shutting_down())));
    }

    fn is_empty(&self) -> bool {
        self.for_changes.is_empty() && self.gathered.is_empty() && self.asked.is_none()
    }

    /// Takes what it is told; false: that is all.
    fn hear(&mut self, told: Told) -> bool {
        match told {
            Told::Read(one) => self.enter(one),
            Told::Round(outcome) => self.end_round(outcome),
            Told::Moved(outcome) => {
                self.is_watching = false;
                // Where it took long it is asked again.
                if let Err(error @ NotNow::Closed) = outcome {
                    let (refusal, waiting) = (over(&error), std::mem::take(&mut self.for_changes));
                    waiting.into_values().for_each(|one| one.end(Err(refusal.clone())));
                }
            }
            Told::Close => return false,
        }
        true
    }

    /// A read waits from now on, if its data are not fresh enough by now.
    fn enter(&mut self, one: Entered) {
        let is_met = match one.read.level {
            Freshness::AtLeast(asked) => asked <= self.log.applied(),
            Freshness::Bounded { staleness_ms } => self.reads.is_within(staleness_ms),
            Freshness::Linearizable => false,
        };
        if is_met {
            return one.end(Ok(()));
        }
        if one.is_over(self.reads.clock.elapsed()) {
            return self.end_late(one);
        }
        match one.read.level {
            Freshness::AtLeast(asked) => {
                self.entered += 1;
                self.for_changes.insert((asked, self.entered), one);
            }
            Freshness::Bounded { .. } | Freshness::Linearizable => self.gathered.push(one),
        }
    }

    /// A round has ended: who has a bound is refused where it failed, and others go on trying.
    fn end_round(&mut self, outcome: Result<Lsn, NotNow>) {
        let Some(Round { began, reads }) = self.asked.take() else { return };
        match outcome {
            Ok(_) => {
                self.reads.confirm(began);
                reads.into_iter().for_each(|one| one.end(Ok(())));
                // Of those that came meanwhile, some have a bound that it is within.
                std::mem::take(&mut self.gathered).into_iter().for_each(|one| self.enter(one));
            }
            Err(NotNow::NoQuorum { heard }) => {
                self.heard = heard;
                self.not_before = self.reads.clock.elapsed() + LOOK_EVERY;
                for one in reads {
                    match one.read.level {
                        Freshness::Bounded { .. } => {
                            let refusal = one.read.no_quorum(heard);
                            one.end(Err(refusal));
                        }
                        Freshness::AtLeast(_) | Freshness::Linearizable => self.gathered.push(one),
                    }
                }
            }
            Err(error @ NotNow::Closed) => {
                reads.into_iter().for_each(|one| one.end(Err(over(&error))));
            }
        }
    }

    /// Gives back those whose change is applied.
    fn give_back(&mut self) {
        let Some((first, _)) = self.for_changes.first_key_value() else { return };
        let applied = self.log.applied();
        if first.0 <= applied {
            let later = self.for_changes.split_off(&(Lsn(applied.0.saturating_add(1)), 0));
            let met = std::mem::replace(&mut self.for_changes, later);
            met.into_values().for_each(|one| one.end(Ok(())));
        }
    }

    /// Gives back what nobody waits for any more, or has waited for too long.
    fn give_up(&mut self) {
        let now = self.reads.clock.elapsed();
        let mut over = Vec::new();
        let changes = self.for_changes.extract_if(.., |_, one| one.is_over(now));
        over.extend(changes.map(|(_, one)| one));
        over.extend(self.gathered.extract_if(.., |one| one.is_over(now)));
        if let Some(round) = &mut self.asked {
            over.extend(round.reads.extract_if(.., |one| one.is_over(now)));
        }
        over.into_iter().for_each(|one| self.end_late(one));
    }

    fn end_late(&self, one: Entered) {
        let refusal = one.read.late(self.heard);
        one.end(Err(refusal));
    }

    /// Has the log tell of the next change, if anybody waits for one.
    fn watch(&mut self) {
        if self.for_changes.is_empty() || self.is_watching {
            return;
        }
        self.is_watching = true;
        let next = Lsn(self.log.applied().0.saturating_add(1));
        let desk = self.desk.clone();
        let moved = move |outcome| drop(desk.send(Told::Moved(outcome)));
        self.log.barrier(ReadLevel::AtLeast(next), Box::new(moved));
    }

    /// Begins a round, if anybody waits for one and none is under way.
    fn ask(&mut self) {
        let began = self.reads.clock.elapsed();
        if self.asked.is_some() || self.gathered.is_empty() || began < self.not_before {
            return;
        }
        self.asked = Some(Round { began, reads: std::mem::take(&mut self.gathered) });
        let desk = self.desk.clone();
        let ended = move |outcome| drop(desk.send(Told::Round(outcome)));
        self.log.barrier(ReadLevel::Linearizable, Box::new(ended));
    }
}

impl WaitingRead {
    /// What it is told when it has waited for too long.
    fn late(&self, heard: Option<Duration>) -> Refusal {
        match self.level {
            Freshness::AtLeast(_) => {
                let waited = self.wait_max.as_millis();
                let why = format!(
                    "the change that the cookie names has not come to this server in {waited} ms"
                );
                Refusal::new(self.late_code, why)
            }
            Freshness::Bounded { .. } | Freshness::Linearizable => {
                Refusal { code: self.late_code, ..self.no_quorum(heard) }
            }
        }
    }

    /// What it is told where no majority can be asked; whoever leads was heard so long ago.
    fn no_quorum(&self, heard: Option<Duration>) -> Refusal {
        let what = match self.level {
            Freshness::Bounded { staleness_ms } => {
                format!("the data of this server may be older than {staleness_ms} ms")
            }
            Freshness::AtLeast(_) | Freshness::Linearizable => {
                "this server cannot tell whether its data are the newest".to_owned()
            }
        };
        let heard = match heard {
            Some(age) => format!("it heard from a leader {} ms ago", age.as_millis()),
            None => "it has heard from no leader since its start".to_owned(),
        };
        let why = format!("{what}: no majority of the servers can be asked, and {heard}");
        Refusal::new(ResultCode::Unavailable, why)
    }
}

/// Nothing comes any more.
fn over(error: &NotNow) -> Refusal {
    let why = match error {
        NotNow::NoQuorum { .. } => "no majority of the servers can be asked",
        NotNow::Closed => "this server hears of no further changes until it is started again",
    };
    Refusal::new(ResultCode::Unavailable, why)
}

/// How often those that wait are looked at: whether their time is over, they were abandoned, or
/// another round may begin.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use schema::EntryId;

    use super::*;

    #[test]
    fn strangers_leave_places_and_whoever_signed_in_has_one() {
        let mut counts = Counts::default();
        let mut admits =
            |asker, times| (0..times).filter(|_| counts.admit(8, 3, asker).is_ok()).count();
        let stranger = |last| Asker::Address(Ipv4Addr::new(192, 0, 2, last).into());
        assert_eq!([admits(stranger(1), 9), admits(stranger(2), 9)], [3, 1], "half of them");
        assert_eq!([admits(Asker::Local, 9), admits(Asker::Entry(EntryId(1)), 9)], [0, 3]);
        assert_eq!(admits(Asker::Entry(EntryId(2)), 9), 1, "the last place");
        assert_eq!(admits(Asker::Entry(EntryId(3)), 9), 1, "it has none yet");
        assert_eq!([admits(Asker::Root, 20), admits(stranger(3), 9)], [8, 0]);
        counts.release(stranger(1));
        assert!(counts.admit(99, 3, stranger(1)).is_ok());
        assert_eq!((counts.all, counts.strangers), (17, 4));
    }
}
