//! The one writer: decide, apply, make durable, answer.
//!
//! Invariant: the only caller of `Batch::apply` for clients' changes, and it applies only what is
//! `Permitted`.
//! Invariant: a request of a batch is decided on the state its predecessors in the batch left.
//! Invariant: every submitted request is answered exactly once.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use aci::{Access, Permitted};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ldap::encode;
use ldap::message::{Controls, Message, MessageId, Response, ResponseKind, StringsBuf};
use ldap::result::ResultCode;
use schema::{Change, Schema};
use store::{Batch, View};

use crate::chance::{Chance, OsChance};
use crate::directory::{Directory, State};
use crate::ops::{add, delete, modify, modify_dn, password_modify};
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
    pub(crate) manage_dsa_it: bool,
    pub(crate) stamp: Stamp,
    pub(crate) chance: &'a mut dyn Chance,
    /// The id an added entry gets.
    pub(crate) next_id: schema::EntryId,
}

/// What a decision leads to.
pub(crate) struct Decision {
    /// What is to be logged and applied; `None` when the request changes nothing.
    pub(crate) change: Option<Permitted<Change>>,
    /// The value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
    /// The schema that is in force once the change is durable.
    pub(crate) schema: Option<Arc<Schema>>,
}

impl Decision {
    /// A decision that is nothing but a change.
    pub(crate) fn change(change: Permitted<Change>) -> Self {
        Self { change: Some(change), value: None, schema: None }
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
        // The writer itself may hold the last reference to the directory; it cannot wait for itself.
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
    let mut writer = Writer { stamper: Stamper::default(), chance: OsChance };
    while let Ok(first) = receiver.recv() {
        let Some(directory) = directory.upgrade() else {
            return refuse_all(vec![first], &unavailable());
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
        let mut transaction = match directory.store.begin() {
            Ok(transaction) => transaction,
            Err(error) => return refuse_all(batch, &Refusal::from(error)),
        };
        let mut state = directory.state.load_full();
        let mut schema_changed = false;
        let mut decided = Vec::with_capacity(batch.len());
        let mut waiting = batch.into_iter();
        while let Some(queued) = waiting.next() {
            if queued.request.cancel.is_set() {
                // Abandoned before it was decided; whoever counts replies still gets one.
                (queued.reply)(Vec::new());
                continue;
            }
            match self.one(directory, &mut transaction, &state, &queued.request) {
                Ok(Applied { value, schema }) => {
                    if let Some(schema) = schema {
                        state = Arc::new(State::new(schema));
                        schema_changed = true;
                    }
                    decided.push(Decided { queued, outcome: Ok(value) });
                }
                Err(Failed::Refused(refusal)) => {
                    decided.push(Decided { queued, outcome: Err(refusal) });
                }
                Err(Failed::Store(refusal)) => {
                    // The transaction is of no use any more: nothing of the batch happens.
                    drop(transaction);
                    let mut all = decided.into_iter().map(|one| one.queued).collect::<Vec<_>>();
                    all.push(queued);
                    all.extend(waiting);
                    return refuse_all(all, &refusal);
                }
            }
        }
        match transaction.commit() {
            Ok(_) => {
                if schema_changed {
                    // The store has it already; this only makes both hold the same one.
                    if let Err(error) = directory.store.set_schema(Arc::clone(&state.schema)) {
                        tracing::error!(%error, "the store keeps its own copy of the schema");
                    }
                    directory.state.store(state);
                }
                answer_all(decided);
            }
            Err(error) => {
                let all = decided.into_iter().map(|one| one.queued).collect();
                refuse_all(all, &Refusal::from(error));
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
    ) -> Result<Applied, Failed> {
        let stamp = self.stamper.stamp(directory.clock.now(), request.access.identity());
        let next_id = transaction.next_entry_id();
        let mut decide = Decide {
            directory,
            view: transaction.view(),
            state,
            access: &request.access,
            manage_dsa_it: request.manage_dsa_it,
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
            transaction.apply(change.get()).map_err(|error| Failed::Store(Refusal::from(error)))?;
        }
        Ok(Applied { value: decision.value, schema: decision.schema })
    }
}

struct Applied {
    value: Option<Vec<u8>>,
    schema: Option<Arc<Schema>>,
}

enum Failed {
    /// The answer to this request is no; the batch goes on.
    Refused(Refusal),
    /// The store failed in the middle of a change; the batch cannot go on.
    Store(Refusal),
}

fn unavailable() -> Refusal {
    Refusal::new(ResultCode::Unavailable, "the server is shutting down")
}

fn refuse_all(batch: Vec<Queued>, refusal: &Refusal) {
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
