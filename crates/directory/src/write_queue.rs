//! The one writer: decide, apply, make durable, answer.
//!
//! Invariant: every submitted request is answered exactly once.

use std::process;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::vec;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ldap::message::MessageId;
use ldap::result::ResultCode;
use store::{Batch, LogPosition, Lsn, Mark, StoreError};

use crate::decide::{Answer, Decider, Outcome, WriteRequest};
use crate::directory::{Directory, State};
use crate::refusal::Refusal;

/// Takes the encoded answer to a write; called once, from the writer's thread.
pub type Reply = Box<dyn FnOnce(Vec<u8>) + Send>;

/// A write that was read and resolved but not submitted yet.
#[must_use]
pub struct PendingWrite {
    pub(crate) directory: Arc<Directory>,
    pub(crate) request: Box<WriteRequest>,
}

impl PendingWrite {
    /// Which request it is; the connection lists it as outstanding until the answer comes.
    pub fn id(&self) -> MessageId {
        self.request.id
    }

    /// Queues the write. `reply` gets the answer after the change is durable and visible; at once
    /// when the queue is full (`busy`) or the directory is shutting down (`unavailable`).
    pub fn submit(self, reply: Reply) {
        let Self { directory, request } = self;
        directory.queue().submit(*request, reply);
    }
}

struct Queued {
    request: WriteRequest,
    reply: Reply,
}

/// The queue before the writer, and its thread.
pub(crate) struct WriteQueue {
    sender: Mutex<Option<Sender<Queued>>>,
    receiver: Receiver<Queued>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriteQueue {
    pub(crate) fn new(requests_max: usize) -> Self {
        let (sender, receiver) = bounded(requests_max);
        Self { sender: Mutex::new(Some(sender)), receiver, thread: Mutex::new(None) }
    }

    /// Starts the writer of `directory`, whose queue this is.
    pub(crate) fn start(&self, directory: &Arc<Directory>) {
        let receiver = self.receiver.clone();
        let weak = Arc::downgrade(directory);
        let thread = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write_all(&receiver, &weak))
            .expect("a process that starts can start one more thread");
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    fn submit(&self, request: WriteRequest, reply: Reply) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let refuse = |queued: Queued, code, why| {
            refuse_all([queued], &Refusal::new(code, why));
        };
        let queued = Queued { request, reply };
        let Some(sender) = sender else {
            return refuse(queued, ResultCode::Unavailable, "the server is shutting down");
        };
        match sender.try_send(queued) {
            Ok(()) => {}
            Err(TrySendError::Full(queued)) => {
                refuse(queued, ResultCode::Busy, "too many writes are waiting; try again");
            }
            Err(TrySendError::Disconnected(queued)) => {
                refuse(queued, ResultCode::Unavailable, "the server is shutting down");
            }
        }
    }

    /// Writes what is queued and ends the writer.
    pub(crate) fn shutdown(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The writer itself may hold the last reference to the directory; it cannot wait for
        // itself.
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the writer had panicked");
        }
    }
}

/// The writer's life: batch after batch until the queue is closed.
fn write_all(receiver: &Receiver<Queued>, directory: &Weak<Directory>) {
    let _abort = AbortOnPanic;
    let Some(last) = directory.upgrade().map(|directory| directory.store.published()) else {
        return;
    };
    let mut writer = Writer { decider: Decider::after(last), unfinished: Vec::new() };
    loop {
        let mut batch = Vec::new();
        if writer.unfinished.is_empty() {
            let Ok(first) = receiver.recv() else { return };
            batch.push(first);
        }
        let Some(directory) = directory.upgrade() else {
            // The directory is being dropped, which closes the queue.
            let all = batch.into_iter().chain(writer.unfinished).chain(receiver.iter());
            refuse_all(all, &unavailable());
            return;
        };
        while batch.len() < directory.limits.write_batch_max
            && let Ok(next) = receiver.try_recv()
        {
            batch.push(next);
        }
        batch.append(&mut writer.unfinished);
        writer.write(&directory, batch);
    }
}

/// A panic of the writer ends the process: with a change half-way nobody knows what is true, and
/// without a writer every client would wait for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!("the writer panicked; this is a bug");
            process::abort();
        }
    }
}

struct Writer {
    decider: Decider,
    /// Requests that were carried out in part: they go on behind those that came meanwhile.
    unfinished: Vec<Queued>,
}

/// A request of the batch that was decided and waits for the sync.
struct Decided {
    queued: Queued,
    answer: Answer,
    is_over: bool,
}

impl Writer {
    fn write(&mut self, directory: &Directory, batch: Vec<Queued>) {
        let mut waiting = batch.into_iter();
        while waiting.len() > 0 {
            self.transact(directory, &mut waiting);
        }
    }

    /// One durable transaction with the waiting requests, up to one that changes the schema: the
    /// next are decided under the new one.
    fn transact(&mut self, directory: &Directory, waiting: &mut vec::IntoIter<Queued>) {
        let mut transaction = match directory.store.begin() {
            Ok(transaction) => transaction,
            Err(error) => return refuse_all(waiting, &Refusal::from(error)),
        };
        let state = directory.state.load_full();
        let mut changes_schema = false;
        let mut decided = Vec::with_capacity(waiting.len());
        while !changes_schema && let Some(mut queued) = waiting.next() {
            if queued.request.cancel.is_set() {
                // Abandoned before it was decided; whoever counts replies still gets one.
                (queued.reply)(Vec::new());
                continue;
            }
            match self.decider.one(directory, &mut transaction, &state, &mut queued.request) {
                Ok(outcome) => {
                    record(&mut transaction, &outcome);
                    changes_schema = outcome.changes_schema();
                    let Outcome { answer, is_over, .. } = outcome;
                    decided.push(Decided { queued, answer, is_over });
                }
                Err(error) => {
                    // The transaction is of no use any more: nothing of it happens.
                    drop(transaction);
                    let batch = decided.into_iter().map(|one| one.queued).chain([queued]);
                    return self.recover(directory, batch.collect(), error);
                }
            }
        }
        match transaction.commit() {
            Ok(_) => {
                if changes_schema {
                    directory.state.store(Arc::new(State::new(directory.store.schema())));
                }
                self.answer_all(decided);
            }
            Err(error) => {
                let batch = decided.into_iter().map(|one| one.queued).collect();
                self.recover(directory, batch, error);
            }
        }
    }

    /// A transaction failed: one bad request must not take the others with it, so each is tried
    /// alone. The one that fails alone is refused.
    fn recover(&mut self, directory: &Directory, batch: Vec<Queued>, error: StoreError) {
        let is_alone = batch.len() == 1;
        let refusal = Refusal::from(error);
        for queued in batch {
            if is_alone {
                refuse_all([queued], &refusal);
            } else {
                self.write(directory, vec![queued]);
            }
        }
    }

    fn answer_all(&mut self, decided: Vec<Decided>) {
        for Decided { queued, answer, is_over } in decided {
            if is_over {
                let octets = answer.encode(&queued.request);
                (queued.reply)(octets);
            } else {
                self.unfinished.push(queued);
            }
        }
    }
}

/// Makes the changes of a request one record, or undoes what it tried.
fn record(batch: &mut Batch<'_>, outcome: &Outcome) {
    if outcome.changes.is_empty() {
        return batch.rollback();
    }
    let Mark { lsn, hash, position, .. } = batch.last();
    let lsn = Lsn(lsn.0 + 1);
    let time_us = outcome.stamp.moment.time.0;
    let position = LogPosition { index: lsn.0, ..position };
    // The writer alone counts, so the record is the next.
    let _ = batch.record(Mark { lsn, hash, time_us, position });
    batch.release();
}

fn unavailable() -> Refusal {
    Refusal::new(ResultCode::Unavailable, "the server is shutting down")
}

fn refuse_all(batch: impl IntoIterator<Item = Queued>, refusal: &Refusal) {
    for queued in batch {
        let answer = Answer::from(refusal.clone());
        (queued.reply)(answer.encode(&queued.request));
    }
}
