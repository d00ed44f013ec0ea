//! The queue before the one writer; what the writer does is in `pipeline.rs`.
//!
//! Invariant: every submitted request is answered exactly once.
//! Invariant: what waits is bounded, in requests and in octets, over all and for each who asks.

mod answers;
mod carried_out;
mod group_commit;
pub(crate) mod pipeline;
mod rules;
mod waiting;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use aci::{Access, Identity};
use environment::MakeChance;
use ldap::dn::{Dn, DnText};
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use self::answers::refuse_all;
use self::waiting::{NotTaken, Queued, WaitingWrites};
use crate::forward::outgoing::{Forwarding, Outgoing};
use crate::forward::request::{Forwardable, ForwardedRequest, RequestId};
use crate::request::asker_bytes::SMALL_BYTES;
use crate::request::asker_queues::Asker;
use crate::request::cancel::Cancel;
use crate::request::completion::Completion;
use crate::request::controls::write::WriteControls;
use crate::request::limits::Limits;
use crate::request::outbox::{ForwardedReply, Outbox, Reply, To};
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::{Session, Who};
use crate::request::sink;
use crate::write::request::{WriteOp, WriteRequest};

/// A write that was read and resolved but not submitted yet.
#[must_use]
pub struct PendingWrite {
    queue: Arc<WriteQueue>,
    work: Work,
    /// It sends an old password that is not right.
    is_wrong_guess: bool,
}

/// Where it is decided.
enum Work {
    Here {
        request: Box<WriteRequest>,
        /// Who has a turn with it.
        asker: Asker,
        /// Of its message.
        octets: usize,
    },
    /// By another node.
    Elsewhere {
        id: MessageId,
        operation: OperationKind,
        cancel: Cancel,
        forwardable: Box<Forwardable>,
    },
}

impl PendingWrite {
    /// An update that is decided here. Its message has so many octets.
    pub(crate) fn here(
        queue: &Arc<WriteQueue>,
        request: WriteRequest,
        session: &Session,
        octets: usize,
    ) -> Self {
        let (request, asker) = (Box::new(request), Asker::of(session));
        let work = Work::Here { request, asker, octets };
        Self { queue: Arc::clone(queue), work, is_wrong_guess: false }
    }

    /// An update that another node decides.
    pub(crate) fn elsewhere(
        queue: &Arc<WriteQueue>,
        forwardable: Forwardable,
        envelope: Envelope<'_>,
        cancel: Cancel,
    ) -> Self {
        let Envelope { id, operation, .. } = envelope;
        let work = Work::Elsewhere { id, operation, cancel, forwardable: Box::new(forwardable) };
        Self { queue: Arc::clone(queue), work, is_wrong_guess: false }
    }

    /// This one, which may send an old password that is not right.
    pub(crate) fn guessing(self, is_wrong_guess: bool) -> Self {
        Self { is_wrong_guess, ..self }
    }

    /// A change of the server's own: as the administrator `root`, and not waiting for the disk
    /// where it is lazy.
    pub(crate) fn of_server(
        queue: &Arc<WriteQueue>,
        root: &Dn,
        op: WriteOp,
        is_lazy: bool,
    ) -> Self {
        let mut request = [0; 16];
        (queue.chance)().fill(&mut request);
        let forwarded = queue.forwarding.as_ref().and_then(|forwarding| {
            let forwardable = of_server(request, &op)?;
            Some((forwarding.takes(forwardable.session), Box::new(forwardable)))
        });
        let forwardable = match forwarded {
            Some((true, forwardable)) => {
                let (id, operation) = (MessageId(0), OperationKind::Modify);
                let cancel = Cancel::default();
                let work = Work::Elsewhere { id, operation, cancel, forwardable };
                return Self { queue: Arc::clone(queue), work, is_wrong_guess: false };
            }
            Some((false, forwardable)) => Some(forwardable),
            None => None,
        };
        let request = own_request(request, root, op, is_lazy);
        Self::of_root(queue, WriteRequest { forwardable, ..request })
    }

    /// A change that the server at another node makes on its own account.
    pub(crate) fn of_another_server(queue: &Arc<WriteQueue>, root: &Dn, op: WriteOp) -> Self {
        Self::of_root(queue, own_request([0; 16], root, op, false))
    }

    /// A change that this server and those at other nodes make together; each remembers its part
    /// until it hears what became of it. It does not wait for the disk.
    pub(crate) fn of_several_servers(queue: &Arc<WriteQueue>, root: &Dn, op: WriteOp) -> Self {
        let mut request = [0; 16];
        (queue.chance)().fill(&mut request);
        Self::of_root(queue, own_request(request, root, op, true))
    }

    fn of_root(queue: &Arc<WriteQueue>, request: WriteRequest) -> Self {
        let work = Work::Here { request: Box::new(request), asker: Asker::Root, octets: 0 };
        Self { queue: Arc::clone(queue), work, is_wrong_guess: false }
    }

    /// Which request it is; the connection lists it as outstanding until the answer comes.
    pub fn id(&self) -> MessageId {
        match &self.work {
            Work::Here { request, .. } => request.id,
            Work::Elsewhere { id, .. } => *id,
        }
    }

    /// Refuses it, and nothing of it happens.
    pub fn refuse(self, out: &mut Vec<u8>, code: ResultCode, why: &'static str) -> Completion {
        let operation = match &self.work {
            Work::Here { request, .. } => request.operation,
            Work::Elsewhere { operation, .. } => *operation,
        };
        sink::refuse(out, self.id(), Some(operation), Refusal::new(code, why))
    }

    /// Whether it sends an old password that is not right.
    pub fn is_wrong_guess(&self) -> bool {
        self.is_wrong_guess
    }

    /// Whether another node decides it: what it says of an old password is known with the answer.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.work, Work::Elsewhere { .. })
    }

    /// Queues the write. `reply` gets the answer after the change is durable and visible; at once
    /// when the queue is full (`busy`) or the directory is shutting down (`unavailable`).
    pub fn submit(self, reply: Reply) {
        self.send(To::Reply(reply));
    }

    /// Queues the write as [`Self::submit`] does. The answer comes to an outbox, which gets those
    /// of all connections of a thread together.
    pub fn submit_to(self, outbox: &Arc<dyn Outbox>, connection: u64) {
        let to = To::Outbox { outbox: Arc::clone(outbox), connection };
        self.send(to);
    }

    /// Queues an update of another node, under the name that it has there.
    pub(crate) fn submit_forwarded(mut self, request: RequestId, reply: ForwardedReply) {
        if let Work::Here { request: own, .. } = &mut self.work {
            (own.request, own.is_forwarded) = (request, true);
        }
        self.send(To::Forwarded(reply));
    }

    /// Queues the write as [`Self::submit`] does. It is not handed on: where it is not decided
    /// here, `reply` is told so.
    pub(crate) fn submit_here(self, reply: ForwardedReply) {
        self.send(To::Forwarded(reply));
    }

    fn send(self, to: To) {
        let Self { queue, work, .. } = self;
        match work {
            Work::Here { mut request, asker, octets } => {
                if let (Some(forwarding), Some(forwardable)) =
                    (&queue.forwarding, &mut request.forwardable)
                {
                    forwardable.turn = Some(forwarding.turn(forwardable.session));
                }
                let large_bytes = match request.held_bytes(octets) {
                    ..=SMALL_BYTES => 0,
                    octets => octets,
                };
                queue.submit(Queued { request, to, asker, large_bytes, kept: None });
            }
            Work::Elsewhere { id, operation, cancel, forwardable } => {
                let forwarding = queue.forwarding.as_ref();
                let forwarding = forwarding.expect("it was asked whether it takes this one");
                forwarding.submit(Outgoing {
                    forwardable: *forwardable,
                    id,
                    operation,
                    cancel,
                    to,
                    is_begun: false,
                    may_have_happened: false,
                });
            }
        }
    }
}

/// An update of the administrator `root` that no client has sent.
fn own_request(request: RequestId, root: &Dn, op: WriteOp, is_lazy: bool) -> WriteRequest {
    WriteRequest {
        id: MessageId(0),
        operation: OperationKind::Modify,
        access: Arc::new(Access::of(Identity::Root(DnText::from(root)))),
        cancel: Cancel::default(),
        is_lazy,
        request,
        who: Arc::new(Who { dn: root.to_string(), ..Who::default() }),
        controls: WriteControls { manage_dsa_it: true, ..WriteControls::default() },
        schema_generation: None,
        forwardable: None,
        is_forwarded: false,
        op,
    }
}

/// What another node has to be sent of a change of the server's own; none of those that are no
/// other node's matter.
fn of_server(id: RequestId, op: &WriteOp) -> Option<Forwardable> {
    let (request, session) = match op {
        WriteOp::AccountEvents(events) => {
            (ForwardedRequest::of_events(id, events), session_of_events(id))
        }
        WriteOp::Rehash(op) => (op.to_another(id), Who::default().session),
        _ => return None,
    };
    Some(Forwardable { request, session, asker: Asker::Root, turn: None })
}

/// Events need no order, and the node that decides has some of them wait: each request of them is
/// alone in its line. Connections do not get as far as these numbers.
fn session_of_events(id: RequestId) -> u64 {
    id.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)) | 1 << 63
}

/// The queue before the writer, and its thread.
pub(crate) struct WriteQueue {
    waiting: Arc<WaitingWrites>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What names the server's own requests.
    chance: MakeChance,
    /// What hands updates to another node; none in a server that is alone.
    forwarding: Option<Arc<Forwarding>>,
}

impl WriteQueue {
    pub(crate) fn new(
        limits: &Limits,
        chance: MakeChance,
        forwarding: Option<Arc<Forwarding>>,
    ) -> Self {
        let waiting = Arc::new(WaitingWrites::new(limits));
        Self { waiting, thread: Mutex::new(None), chance, forwarding }
    }

    /// What hands updates to another node; none in a server that is alone.
    pub(crate) fn forwarding(&self) -> Option<&Arc<Forwarding>> {
        self.forwarding.as_ref()
    }

    /// Starts the writer's thread: `write` takes what waits until the queue is closed.
    fn start(&self, write: impl FnOnce(&WaitingWrites) + Send + 'static) {
        let waiting = Arc::clone(&self.waiting);
        let thread = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write(&waiting))
            .expect("a process that starts can start one more thread");
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    /// How many requests wait for the writer, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.waiting.depth()
    }

    /// Octets that large requests take while they wait.
    pub(crate) fn held_bytes(&self) -> usize {
        self.waiting.held_bytes()
    }

    fn submit(&self, queued: Queued) {
        let Err((queued, why)) = self.waiting.put(queued) else { return };
        let refusal = match why {
            NotTaken::Full => {
                Refusal::new(ResultCode::Busy, "too many writes are waiting; try again")
            }
            NotTaken::TooLarge => Refusal::new(
                ResultCode::Busy,
                "large writes that wait take too much memory; try again when one is answered",
            ),
            NotTaken::Closed => Refusal::shutting_down(),
        };
        refuse_all([queued], &refusal);
    }

    /// Writes what is queued and ends the writer.
    pub(crate) fn shutdown(&self) {
        self.waiting.close();
        if let Some(forwarding) = &self.forwarding {
            forwarding.close();
        }
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
