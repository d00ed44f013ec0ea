//! The queue before the one writer; what the writer does is in `pipeline.rs`.
//!
//! Invariant: every submitted request is answered exactly once.
//! Invariant: what waits is bounded, in requests and in octets, over all and for each who asks.

mod answers;
mod group_commit;
mod outbox;
pub(crate) mod pipeline;
mod waiting;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use aci::{Access, Identity};
use environment::MakeChance;
use ldap::dn::{Dn, DnText};
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use self::answers::{refuse_all, shutting_down};
use self::outbox::To;
pub use self::outbox::{Outbox, Reply};
use self::waiting::{NotTaken, Queued, WaitingWrites};
use crate::request::asker_queues::Asker;
use crate::request::cancel::Cancel;
use crate::request::controls::write::WriteControls;
use crate::request::limits::Limits;
use crate::request::refusal::Refusal;
use crate::request::session::Who;
use crate::write::request::{WriteOp, WriteRequest};

/// A write that was read and resolved but not submitted yet.
#[must_use]
pub struct PendingWrite {
    pub(crate) queue: Arc<WriteQueue>,
    pub(crate) request: Box<WriteRequest>,
    /// Who has a turn with it.
    pub(crate) asker: Asker,
    /// Of its message.
    pub(crate) octets: usize,
    /// It sends an old password that is not right.
    pub(crate) is_wrong_guess: bool,
}

impl PendingWrite {
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
        let request = WriteRequest {
            id: MessageId(0),
            operation: OperationKind::Modify,
            access: Arc::new(Access::of(Identity::Root(DnText::from(root)))),
            cancel: Cancel::default(),
            is_lazy,
            request,
            who: Arc::new(Who { dn: root.to_string(), ..Who::default() }),
            controls: WriteControls { manage_dsa_it: true, ..WriteControls::default() },
            schema_generation: None,
            op,
        };
        Self {
            queue: Arc::clone(queue),
            request: Box::new(request),
            asker: Asker::Root,
            octets: 0,
            is_wrong_guess: false,
        }
    }

    /// Which request it is; the connection lists it as outstanding until the answer comes.
    pub fn id(&self) -> MessageId {
        self.request.id
    }

    /// Whether it sends an old password that is not right.
    pub fn is_wrong_guess(&self) -> bool {
        self.is_wrong_guess
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

    fn send(self, to: To) {
        let Self { queue, request, asker, octets, .. } = self;
        let large_bytes = match request.held_bytes(octets) {
            ..=SMALL_BYTES => 0,
            octets => octets,
        };
        queue.submit(Queued { request, to, asker, large_bytes, kept: None });
    }
}

/// The queue before the writer, and its thread.
pub(crate) struct WriteQueue {
    waiting: Arc<WaitingWrites>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What names the server's own requests.
    chance: MakeChance,
}

impl WriteQueue {
    pub(crate) fn new(limits: &Limits, chance: MakeChance) -> Self {
        Self { waiting: Arc::new(WaitingWrites::new(limits)), thread: Mutex::new(None), chance }
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
            NotTaken::Closed => shutting_down(),
        };
        refuse_all([queued], &refusal);
    }

    /// Writes what is queued and ends the writer.
    pub(crate) fn shutdown(&self) {
        self.waiting.close();
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

/// A request that takes no more is not counted in octets: how many wait is bounded as well.
const SMALL_BYTES: usize = 4 * 1024;
