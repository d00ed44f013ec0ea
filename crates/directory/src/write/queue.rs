//! The queue before the one writer, and its thread; what the writer does is in `pipeline.rs`.
//!
//! Invariant: every submitted request is answered exactly once.
//! Invariant: what waits is bounded, in requests and in octets, over all and for each who asks.

mod answers;
mod outbox;
mod patience;
mod pipeline;
mod waiting;

use std::process;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use aci::{Access, Identity};
use environment::{Chance as _, OsChance};
use ldap::dn::DnText;
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use self::answers::refuse_all;
use self::outbox::To;
pub use self::outbox::{Outbox, Reply};
use self::pipeline::Pipeline;
use self::waiting::{NotTaken, WaitingWrites};
use crate::directory::Directory;
use crate::request::asker_bytes::AskerHeld;
use crate::request::asker_queues::Asker;
use crate::request::cancel::Cancel;
use crate::request::controls::WriteControls;
use crate::request::limits::Limits;
use crate::request::refusal::Refusal;
use crate::request::session::Who;
use crate::write::decide::{WriteOp, WriteRequest};

/// A write that was read and resolved but not submitted yet.
#[must_use]
pub struct PendingWrite {
    pub(crate) directory: Arc<Directory>,
    pub(crate) request: Box<WriteRequest>,
    /// Who has a turn with it.
    pub(crate) asker: Asker,
    /// Of its message.
    pub(crate) octets: usize,
    /// It sends an old password that is not right.
    pub(crate) is_wrong_guess: bool,
}

impl PendingWrite {
    /// A change of the server's own: as the administrator, and not waiting for the disk where it
    /// is lazy.
    pub(crate) fn of_server(directory: &Arc<Directory>, op: WriteOp, is_lazy: bool) -> Self {
        let mut request = [0; 16];
        OsChance.fill(&mut request);
        let root = &directory.credentials.root.dn;
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
            directory: Arc::clone(directory),
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
        self.queue(To::Reply(reply));
    }

    /// Likewise; the answer comes as one of the many of a thread, which is told of them together.
    pub fn submit_to(self, outbox: &Arc<dyn Outbox>, connection: u64) {
        let to = To::Outbox { outbox: Arc::clone(outbox), connection };
        self.queue(to);
    }

    fn queue(self, to: To) {
        let Self { directory, request, asker, octets, .. } = self;
        let large_bytes = match request.held_bytes(octets) {
            ..=SMALL_BYTES => 0,
            octets => octets,
        };
        directory.queue().submit(Queued { request, to, asker, large_bytes, kept: None });
    }
}

/// A request that waits for the writer.
struct Queued {
    request: Box<WriteRequest>,
    to: To,
    asker: Asker,
    /// Octets that it takes while it waits; 0 where it is small.
    large_bytes: usize,
    /// What it has made of its answer and keeps until it is over, when it is carried out in steps.
    kept: Option<AskerHeld>,
}

/// The queue before the writer, and its thread.
pub(crate) struct WriteQueue {
    waiting: Arc<WaitingWrites>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriteQueue {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { waiting: Arc::new(WaitingWrites::new(limits)), thread: Mutex::new(None) }
    }

    /// Starts the writer of `directory`, whose queue this is.
    pub(crate) fn start(&self, directory: &Arc<Directory>) {
        let waiting = Arc::clone(&self.waiting);
        let pipeline = Pipeline::new(directory);
        let weak = Arc::downgrade(directory);
        let thread = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write_all(&waiting, &weak, pipeline))
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

/// The writer's life: batch after batch until the queue is closed and empty.
fn write_all(waiting: &WaitingWrites, directory: &Weak<Directory>, mut pipeline: Pipeline) {
    let _abort = AbortOnPanic;
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, WRITER_NICE);
    while let Some(first) = pipeline.next(waiting) {
        let Some(directory) = directory.upgrade() else {
            // The directory is being dropped, which closes the queue.
            refuse_all([first], &shutting_down());
            continue;
        };
        pipeline.write(&directory, waiting, first);
    }
}

/// A panic of the writer, or of the log while it answers, ends the process: with a change half-way
/// nobody knows what is true, and without a writer every client would wait for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!("the writer panicked; this is a bug");
            process::abort();
        }
    }
}

fn shutting_down() -> Refusal {
    Refusal::new(ResultCode::Unavailable, "the server is shutting down")
}

/// How much the writer steps back behind the threads that answer searches: where there are not
/// cores enough for both, a writer that decides one request after the other would keep readers
/// waiting for whole time slices.
const WRITER_NICE: i32 = 5;

/// A request that takes no more is not counted in octets: how many wait is bounded as well.
const SMALL_BYTES: usize = 4 * 1024;
