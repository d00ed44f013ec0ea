//! The scan pool: threads for requests that would delay their neighbours.
//!
//! Invariant: what waits is bounded. The queue has a length: beyond it a request is refused, except
//! one of each connection that must not be overtaken (see `Job::keeps_order`). A job holds at most
//! [`CHUNKS_MAX`] chunks and one that its connection has not taken. While all jobs of a connection
//! hold as many together, none makes more (see [`Account::chunks`]).
//! Invariant: a client that does not read holds no thread: its search parks within
//! [`PARK_AFTER_MAX`], its connection has it, and hands it in again when it has taken all chunks.
//! What a job ends with always finds room.
//! Invariant: while others wait, a search that goes through candidates has a thread for a time
//! slice (see [`SLICE_MIN`]) and then parks, too; planning, chains, sorting and list views are not
//! divided.
//! Invariant: some threads serve only those who have signed in (see [`ScanPoolSize`]), and nobody
//! has all threads that could serve others (see [`Shares`]).
//! Invariant: of a message that is sent in parts the rest follows, whoever has no more use for it,
//! as long as its connection is there.
//! Invariant: a search whose time is over while it waits is told so about when a thread has done
//! with another job, not when its turn comes.
//! Invariant: memory that a long job used goes back to the system when its thread is idle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use directory::{
    ChangeWait, Directory, Flow, HashDone, HashJob, Job, JobDone, Part, Passed, Ran, ReadReady,
    Receiver, Session, Stop, Worker,
};
use ldap::message::MessageId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::error::ServerError;
use crate::limits::budget::{Account, Budget, Chunk};
use crate::limits::memory::Releases;
use crate::metrics::counters::Counters;
use crate::pools::fair_queue::{Asker, FairQueue, QueueSize, Serves, Shares};

/// What a job sends to its connection. A channel that closes without `Done` means that the job
/// panicked.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A part of the answer.
    Chunk(Chunk),
    /// The job is over; it waited so long for a thread.
    Done(JobDone, Duration),
    /// Later requests may overtake the job, which they could not.
    Released,
    /// The job has given up its thread: hand it in again.
    Parked(Box<ParkedJob>),
    /// The job is over within a message: the connection ends.
    Broken,
    /// The password hashes of a request are computed.
    Hashed(HashDone),
    /// They are not: the request has made room for another one.
    Displaced(Box<HashJob>),
    /// The search that has parked here may go on: there is a change behind those it need not see.
    Changed(Passed),
    /// A read has waited until the data are fresh enough, or in vain.
    Fresh(ReadReady),
}

/// A job without a thread.
#[derive(Debug)]
pub(crate) struct ParkedJob {
    job: Job,
    /// How long it has waited for threads.
    waited: Duration,
}

impl ParkedJob {
    /// Which request it is.
    pub(crate) fn id(&self) -> MessageId {
        self.job.id()
    }

    /// All that the job has made was taken.
    pub(crate) fn renew(&mut self, session: &Session) {
        session.renew(&mut self.job);
    }

    /// Whether it waits for a change.
    pub(crate) fn waits_for_change(&self) -> bool {
        self.job.waits_for_change()
    }

    /// Has `wake` called when there is a change that may concern it.
    pub(crate) fn wait_for_change(
        &self,
        directory: &Arc<Directory>,
        wake: Box<dyn FnOnce(Passed) + Send>,
    ) -> Option<ChangeWait> {
        directory.wait_for_change(&self.job, wake)
    }

    /// It goes on with what it has waited for.
    pub(crate) fn pass(&mut self, passed: Passed) {
        self.job.pass(passed);
    }

    /// Whether nobody waits for it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.job.stop().is_abandoned()
    }

    /// Whether it is to be handed in when no other job of its session sends an entry in parts.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.job.waits_for_turn()
    }
}

/// How large the pool is, and what may wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanPoolSize {
    pub(crate) threads: usize,
    /// Threads among them that serve nobody who has not signed in; fewer than all.
    pub(crate) threads_reserved: usize,
    pub(crate) queue: QueueSize,
}

/// Where connections hand in their jobs. The threads end when it is dropped.
#[derive(Debug)]
pub(crate) struct ScanPool {
    queue: Arc<FairQueue<Queued>>,
}

#[derive(Debug)]
struct Queued {
    parked: ParkedJob,
    asker: Asker,
    deliver: mpsc::Sender<Delivery>,
    account: Arc<Account>,
    since: Instant,
}

impl ScanPool {
    /// Starts the threads.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        counters: &Arc<Counters>,
        budget: &Arc<Budget>,
        size: ScanPoolSize,
    ) -> Result<(Self, Vec<JoinHandle<()>>), ServerError> {
        let shares = Shares::of(size.threads, size.threads_reserved);
        let pool = Self { queue: Arc::new(FairQueue::new(size.queue, shares)) };
        let mut handles = Vec::new();
        for number in 0..size.threads {
            let (directory, counters) = (Arc::clone(directory), Arc::clone(counters));
            let budget = Arc::clone(budget);
            let is_reserved = number < size.threads_reserved;
            let serves = if is_reserved { Serves::SignedIn } else { Serves::Everybody };
            let queue = Arc::clone(&pool.queue);
            let timer =
                Builder::new_current_thread().enable_time().build().map_err(ServerError::Thread)?;
            let handle = thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || serve(&directory, &counters, &budget, &queue, serves, &timer))
                .map_err(ServerError::Thread)?;
            handles.push(handle);
        }
        Ok((pool, handles))
    }

    /// How many jobs wait, those that go on included, and how many new ones may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.queue.depth()
    }

    /// Hands in a job of a session; gives it back when too many are waiting.
    pub(crate) fn submit(
        &self,
        session: &Session,
        account: &Arc<Account>,
        job: Job,
    ) -> Result<mpsc::Receiver<Delivery>, Box<Job>> {
        let asker = Asker::of(session);
        let parked = ParkedJob { job, waited: Duration::ZERO };
        let (queued, deliveries) = queued(parked, asker, account);
        if queued.parked.job.keeps_order() {
            self.queue.put_back(asker, queued);
            return Ok(deliveries);
        }
        match self.queue.put(asker, queued) {
            Ok(()) => Ok(deliveries),
            Err(queued) => Err(Box::new(queued.parked.job)),
        }
    }

    /// Hands in a job that has parked; it waits for a thread, as others do.
    pub(crate) fn resume(
        &self,
        session: &Session,
        account: &Arc<Account>,
        mut parked: ParkedJob,
    ) -> mpsc::Receiver<Delivery> {
        // It may have waited elsewhere.
        parked.renew(session);
        if parked.job.is_within_message() {
            parked.job.stop().waits();
        }
        let asker = Asker::of(session);
        let (queued, deliveries) = queued(parked, asker, account);
        self.queue.put_back(asker, queued);
        deliveries
    }

    /// Gives up what waits and nobody waits for: connections are gone.
    pub(crate) fn sweep(&self) {
        self.queue.retain(|queued| !queued.deliver.is_closed());
    }
}

impl Drop for ScanPool {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn queued(
    parked: ParkedJob,
    asker: Asker,
    account: &Arc<Account>,
) -> (Queued, mpsc::Receiver<Delivery>) {
    let release_max = usize::from(parked.job.keeps_order());
    let (deliver, deliveries) = mpsc::channel(CHUNKS_MAX + END_MAX + release_max);
    let (account, since) = (Arc::clone(account), Instant::now());
    (Queued { parked, asker, deliver, account, since }, deliveries)
}

/// Whether a thread has taken up the job that delivers here: it keeps room for its end.
pub(crate) fn has_thread(deliveries: &mpsc::Receiver<Delivery>) -> bool {
    deliveries.capacity() < deliveries.max_capacity()
}

/// What one thread does until the queue closes.
fn serve(
    directory: &Arc<Directory>,
    counters: &Counters,
    budget: &Budget,
    queue: &FairQueue<Queued>,
    serves: Serves,
    timer: &Runtime,
) {
    let mut worker = directory.worker();
    let mut releases = Releases::default();
    let others_wait = |asker| queue.others_wait(serves, asker);
    let mut looked = Instant::now();
    let run = |worker: &mut Worker, queued| {
        let carried_out =
            catch_unwind(AssertUnwindSafe(|| carry_out(worker, queued, timer, &others_wait)));
        match carried_out {
            Ok(Left::Done) => {}
            Ok(Left::Parked) => {
                counters.parked.add(1);
            }
            Ok(Left::Yielded) => {
                counters.yielded.add(1);
            }
            Err(_) => {
                counters.panics.add(1);
                tracing::error!("a request panicked on the scan pool; its session is closed");
                // It may have been left in any state.
                *worker = directory.worker();
            }
        }
    };
    loop {
        let mut has_waited = false;
        let queued = queue.take(serves, || {
            worker.idle();
            releases.idle(budget, std::mem::replace(&mut has_waited, true))
        });
        let Some((queued, _turn)) = queued else { return };
        let begun = Instant::now();
        run(&mut worker, queued);
        releases.ran(begun.elapsed());
        // Whose time is over is told, although it is not their turn.
        if looked.elapsed() >= LOOK_FOR_LATE_EVERY {
            looked = Instant::now();
            // Those that are within a message have its rest to send, as before.
            let is_over = |job: &Job| job.is_late() && !job.is_within_message();
            let late = queue.take_out(|queued| is_over(&queued.parked.job));
            late.into_iter().for_each(|queued| run(&mut worker, queued));
        }
    }
}

/// Why a thread leaves a job.
enum Left {
    /// It is over.
    Done,
    /// Its client does not read.
    Parked,
    /// It gave way to others.
    Yielded,
}

/// Runs a job until it is over or has parked.
fn carry_out(
    worker: &mut Worker,
    queued: Queued,
    timer: &Runtime,
    others_wait: &dyn Fn(Asker) -> bool,
) -> Left {
    let Queued { parked: ParkedJob { job, waited }, asker, deliver, account, since } = queued;
    let waited = waited + since.elapsed();
    job.stop().goes_on();
    let reserve = || deliver.clone().try_reserve_owned().ok();
    let end = (0..END_MAX).map_while(|_| reserve()).collect();
    let release = job.keeps_order().then(reserve).flatten();
    let mut output = JobOutput {
        deliver,
        end,
        release,
        account,
        stop: job.stop(),
        timer,
        begun: Instant::now(),
        park_after: None,
        slice_end: None,
        others_wait: &|| others_wait(asker),
        has_yielded: false,
        is_within_message: job.is_within_message(),
    };
    if output.is_backlogged() && !output.stop.is_abandoned() && !output.stop.is_late() {
        output.last(Delivery::Parked(Box::new(ParkedJob { job, waited })));
        return Left::Parked;
    }
    match worker.run(job, &mut output) {
        Ran::Done(done) => {
            output.last(Delivery::Done(done, waited));
            Left::Done
        }
        Ran::Parked(job) => {
            output.last(Delivery::Parked(Box::new(ParkedJob { job, waited })));
            if output.has_yielded { Left::Yielded } else { Left::Parked }
        }
        Ran::Broken => {
            output.last(Delivery::Broken);
            Left::Done
        }
    }
}

/// The output of a job, on its way to its connection.
struct JobOutput<'t> {
    deliver: mpsc::Sender<Delivery>,
    /// Room kept for the end of the job.
    end: Vec<mpsc::OwnedPermit<Delivery>>,
    /// Room for the word that later requests may overtake the job, while they may not.
    release: Option<mpsc::OwnedPermit<Delivery>>,
    account: Arc<Account>,
    stop: Stop,
    timer: &'t Runtime,
    /// When the job began, or went on.
    begun: Instant,
    /// How long it waits for room before it is to park; known with the first chunk.
    park_after: Option<Duration>,
    /// When its time slice is over; known with the first candidate.
    slice_end: Option<Instant>,
    /// Whether anybody else waits for the thread.
    others_wait: &'t dyn Fn() -> bool,
    /// It was to yield.
    has_yielded: bool,
    /// The next part goes on with the message of the last one: who has begun it gets all of it.
    is_within_message: bool,
}

impl Receiver for JobOutput<'_> {
    /// Hands a chunk on. While the connection has no room for it, it blocks: for a moment, then the
    /// job is to park. A job that does not waits on.
    fn take(&mut self, mut part: Part) -> Flow {
        let is_bound = self.is_within_message || part.is_open;
        self.is_within_message = part.is_open;
        let begun = Instant::now();
        let took = begun.saturating_duration_since(self.begun);
        let park_after =
            *self.park_after.get_or_insert_with(|| took.clamp(PARK_AFTER_MIN, PARK_AFTER_MAX));
        loop {
            let is_backlogged = self.is_backlogged();
            let room = async {
                if is_backlogged {
                    sleep(LOOK_EVERY).await;
                }
                self.deliver.reserve().await
            };
            match self.timer.block_on(async { timeout(LOOK_EVERY, room).await }) {
                Ok(Ok(permit)) => {
                    permit.send(Delivery::Chunk(self.account.chunk(part)));
                    return Flow::Continue;
                }
                // The connection is gone.
                Ok(Err(_)) => return Flow::Stop,
                Err(_) => {}
            }
            if self.stop.is_abandoned() && !is_bound {
                return Flow::Stop;
            }
            let is_late = self.stop.is_late() && !is_bound;
            if is_late || begun.elapsed() >= park_after {
                match self.last_chunk(part) {
                    Ok(()) if !is_late => return Flow::Park,
                    Err(kept) if !is_late => part = kept,
                    Ok(()) | Err(_) => return Flow::Stop,
                }
            }
        }
    }

    fn should_yield(&mut self) -> bool {
        let now = Instant::now();
        let slice_end = *self.slice_end.get_or_insert_with(|| {
            let took = now.saturating_duration_since(self.begun);
            now + (took * SLICE_PLANS).clamp(SLICE_MIN, SLICE_MAX)
        });
        self.has_yielded =
            now >= slice_end && ((self.others_wait)() || now - slice_end >= RENEW_AFTER);
        self.has_yielded
    }

    fn release(&mut self) {
        if let Some(permit) = self.release.take() {
            permit.send(Delivery::Released);
        }
    }
}

impl JobOutput<'_> {
    /// Whether other searches have left enough for the connection.
    fn is_backlogged(&self) -> bool {
        // Where it keeps the order, or is within a message, the others wait for it.
        if self.release.is_some() || self.is_within_message {
            return false;
        }
        let in_channel = self.deliver.max_capacity() - self.deliver.capacity();
        let own = in_channel.saturating_sub(self.end.len());
        self.account.chunks().saturating_sub(own) >= CHUNKS_MAX
    }

    /// Delivers a chunk into the room that was kept, if there is still any for one: the other is
    /// for the end of the job.
    fn last_chunk(&mut self, part: Part) -> Result<(), Part> {
        match self.end.pop() {
            Some(permit) if !self.end.is_empty() => {
                permit.send(Delivery::Chunk(self.account.chunk(part)));
                Ok(())
            }
            permit => {
                self.end.extend(permit);
                Err(part)
            }
        }
    }

    /// Delivers into the room that was kept.
    fn last(&mut self, delivery: Delivery) {
        if let Some(permit) = self.end.pop() {
            permit.send(delivery);
        }
    }
}

/// Chunks of one job (64 KiB each, about) that wait for its connection; while others have left as
/// many for it, a job makes none.
pub(crate) const CHUNKS_MAX: usize = 8;
/// Deliveries that end a job, or its time on a thread: the chunk that found no room, and that it is
/// done, with the end of the answer, or has parked.
const END_MAX: usize = 2;
/// How long a thread waits for a client that does not read, before the search parks. To go on costs
/// a new plan, so it waits as long as it took to the first chunk, within these bounds: a client
/// that reads, but slowly, costs about twice as much of a thread at the most.
const PARK_AFTER_MIN: Duration = Duration::from_millis(4);
const PARK_AFTER_MAX: Duration = Duration::from_millis(50);
/// How long a time slice is, from the first candidate. To go on costs a new plan here, too: so it
/// is some times as long as planning took, within these bounds.
const SLICE_PLANS: u32 = 3;
const SLICE_MIN: Duration = Duration::from_millis(20);
const SLICE_MAX: Duration = Duration::from_millis(500);
/// How long after its time slice a search parks even if nobody waits: then the snapshot it reads is
/// given back, and the rights it has are those of now.
const RENEW_AFTER: Duration = Duration::from_millis(500);
/// How often a thread looks for jobs whose time is over while they wait for one.
const LOOK_FOR_LATE_EVERY: Duration = Duration::from_millis(100);
/// How often a job that waits for its connection looks whether it has to stop.
const LOOK_EVERY: Duration = Duration::from_millis(2);
