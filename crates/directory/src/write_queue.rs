//! The one writer: decide, apply, make durable, answer.
//!
//! Invariant: the only caller of `Batch::apply` for clients' changes, and it applies only what is
//! `Permitted`.
//! Invariant: a request of a batch is decided on the state its predecessors in the batch left.
//! Invariant: every submitted request is answered exactly once.

use std::iter;
use std::process;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::vec;

use aci::{Access, Permitted};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ldap::encode;
use ldap::message::{Controls, Message, MessageId, Response, ResponseKind, StringsBuf};
use ldap::result::ResultCode;
use schema::{Change, DnKey};
use store::{Batch, StoreError, View};

use crate::chance::{Chance, OsChance};
use crate::directory::{Directory, State};
use crate::ops::target::Lookup;
use crate::ops::{add, delete, modify, modify_dn, password_modify};
use crate::referral;
use crate::refusal::Refusal;
use crate::session::Cancel;
use crate::stamp::{Stamp, Stamper};

/// Takes the encoded answer to a write; called once, from the writer's thread.
pub type Reply = Box<dyn FnOnce(Vec<u8>) + Send>;

/// A write that was read and resolved but not submitted yet.
#[must_use]
pub struct PendingWrite {
    pub(crate) directory: Arc<Directory>,
    pub(crate) request: WriteRequest,
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
        directory.queue().submit(request, reply);
    }
}

/// One update request, resolved against the schema and owned.
pub(crate) struct WriteRequest {
    pub(crate) id: MessageId,
    pub(crate) kind: ResponseKind,
    pub(crate) access: Arc<Access>,
    pub(crate) cancel: Cancel,
    pub(crate) manage_dsa_it: bool,
    pub(crate) op: WriteOp,
}

/// What is to be done.
pub(crate) enum WriteOp {
    Add(add::Add),
    Delete(delete::Delete),
    Modify(modify::Modify),
    ModifyDn(modify_dn::ModifyDn),
    PasswordModify(password_modify::PasswordModify),
}

/// What a decision has at hand: the state its predecessors left, and its own stamp.
pub(crate) struct Decide<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) view: View<'a>,
    pub(crate) state: &'a State,
    pub(crate) access: &'a Access,
    /// There are referral objects, and the client does not manage them.
    pub(crate) referrals: bool,
    pub(crate) stamp: Stamp,
    pub(crate) chance: &'a mut dyn Chance,
    /// The id an added entry gets.
    pub(crate) next_id: schema::EntryId,
}

impl Decide<'_> {
    /// How an entry of this name is looked for.
    pub(crate) fn lookup<'a>(&self, name: &'a str, key: &'a DnKey) -> Lookup<'a> {
        Lookup { name, key, referrals: self.referrals, scope: None }
    }
}

/// What a decision leads to.
pub(crate) struct Decision {
    /// What is to be logged and applied; `None` when the request changes nothing.
    pub(crate) change: Option<Permitted<Change>>,
    /// The value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
}

impl Decision {
    /// A decision that is nothing but a change.
    pub(crate) fn change(change: Permitted<Change>) -> Self {
        Self { change: Some(change), value: None }
    }

    fn changes_schema(&self) -> bool {
        self.change.as_ref().is_some_and(|change| matches!(change.get(), Change::Schema(_)))
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
            let refusal = Refusal::new(code, why);
            (queued.reply)(encode_refusal(&queued.request, &refusal));
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
    let mut writer = Writer { stamper: Stamper::default(), chance: OsChance };
    while let Ok(first) = receiver.recv() {
        let Some(directory) = directory.upgrade() else {
            // The directory is being dropped, which closes the queue.
            refuse_all(iter::once(first).chain(receiver.iter()), &unavailable());
            return;
        };
        let mut batch = vec![first];
        while batch.len() < directory.limits.write_batch_max
            && let Ok(next) = receiver.try_recv()
        {
            batch.push(next);
        }
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
    stamper: Stamper,
    chance: OsChance,
}

/// A request of the batch that was decided and waits for the sync.
struct Decided {
    queued: Queued,
    outcome: Result<Option<Vec<u8>>, Refusal>,
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
        while !changes_schema && let Some(queued) = waiting.next() {
            if queued.request.cancel.is_set() {
                // Abandoned before it was decided; whoever counts replies still gets one.
                (queued.reply)(Vec::new());
                continue;
            }
            let outcome = match self.one(directory, &mut transaction, &state, &queued.request) {
                Ok(decision) => {
                    changes_schema = decision.changes_schema();
                    Ok(decision.value)
                }
                Err(Failed::Refused(refusal)) => Err(refusal),
                Err(Failed::Store(error)) => {
                    // The transaction is of no use any more: nothing of it happens.
                    drop(transaction);
                    decided.push(Decided { queued, outcome: Ok(None) });
                    return self.recover(directory, decided, error);
                }
            };
            decided.push(Decided { queued, outcome });
        }
        match transaction.commit() {
            Ok(_) => {
                if changes_schema {
                    directory.state.store(Arc::new(State::new(directory.store.schema())));
                }
                answer_all(decided);
            }
            Err(error) => self.recover(directory, decided, error),
        }
    }

    /// A transaction failed: one bad request must not take the others with it, so each is tried
    /// alone. The one that fails alone is refused.
    fn recover(&mut self, directory: &Directory, batch: Vec<Decided>, error: StoreError) {
        let is_alone = batch.len() == 1;
        let refusal = Refusal::from(error);
        for Decided { queued, .. } in batch {
            if is_alone {
                refuse_all([queued], &refusal);
            } else {
                self.write(directory, vec![queued]);
            }
        }
    }

    /// Decides one request on what its predecessors left, and applies it.
    fn one(
        &mut self,
        directory: &Directory,
        transaction: &mut Batch<'_>,
        state: &State,
        request: &WriteRequest,
    ) -> Result<Decision, Failed> {
        let stamp = self.stamper.stamp(directory.clock.now(), request.access.identity());
        let next_id = transaction.next_entry_id();
        let view = transaction.view();
        let referrals = !request.manage_dsa_it
            && referral::any(&view, state.schema.well_known()).map_err(Failed::Refused)?;
        let mut decide = Decide {
            directory,
            view,
            state,
            access: &request.access,
            referrals,
            stamp,
            chance: &mut self.chance,
            next_id,
        };
        let decision = match &request.op {
            WriteOp::Add(op) => add::decide(&mut decide, op),
            WriteOp::Delete(op) => delete::decide(&mut decide, op),
            WriteOp::Modify(op) => modify::decide(&mut decide, op),
            WriteOp::ModifyDn(op) => modify_dn::decide(&mut decide, op),
            WriteOp::PasswordModify(op) => password_modify::decide(&mut decide, op),
        }
        .map_err(Failed::Refused)?;
        drop(decide);
        if let Some(change) = &decision.change {
            transaction.apply(change.get()).map_err(Failed::Store)?;
        }
        Ok(decision)
    }
}

enum Failed {
    /// The answer to this request is no; the batch goes on.
    Refused(Refusal),
    /// The store failed in the middle of a change; the transaction cannot go on.
    Store(StoreError),
}

fn unavailable() -> Refusal {
    Refusal::new(ResultCode::Unavailable, "the server is shutting down")
}

fn refuse_all(batch: impl IntoIterator<Item = Queued>, refusal: &Refusal) {
    for queued in batch {
        (queued.reply)(encode_refusal(&queued.request, refusal));
    }
}

fn answer_all(decided: Vec<Decided>) {
    for Decided { queued, outcome } in decided {
        let answer = match outcome {
            Ok(value) => encode_success(&queued.request, value.as_deref()),
            Err(refusal) => encode_refusal(&queued.request, &refusal),
        };
        (queued.reply)(answer);
    }
}

fn encode_refusal(request: &WriteRequest, refusal: &Refusal) -> Vec<u8> {
    let mut out = Vec::new();
    let mut urls = StringsBuf::new();
    let result = refusal.to_result(&mut urls);
    encode::result(&mut out, request.id, request.kind, &result, Controls::EMPTY);
    out
}

fn encode_success(request: &WriteRequest, value: Option<&[u8]>) -> Vec<u8> {
    let success = Refusal::new(ResultCode::Success, "");
    if value.is_none() {
        return encode_refusal(request, &success);
    }
    let mut out = Vec::new();
    let mut urls = StringsBuf::new();
    let op = Response::Extended { result: success.to_result(&mut urls), oid: None, value };
    Message { id: request.id, op, controls: Controls::EMPTY }.encode(&mut out);
    out
}
