//! One worker: a thread with its own event loop, listeners and connections.
//!
//! Invariant: nothing here is shared with another worker but what is in [`Shared`], and no request
//! takes a lock. A connection stays on the worker that accepted it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::Guard;
use directory::{
    Completion, Directory, HashDone, Live, Network, Next, Outbox, ReadReady, Received, Session,
    WriteDone,
};
use ldap::result::ResultCode;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};

use crate::connection::mailbox::{Arrived, ConnectionId, Inbox, Mailbox};
use crate::connection::read_buffer::ReadBuffer;
use crate::connection::send_queue::SendQueue;
use crate::connection::sessions::{Closings, Sessions};
use crate::limits::anonymous_share::AnonymousShare;
use crate::limits::budget::Budget;
use crate::limits::client_addresses::ClientAddresses;
use crate::limits::connection_slots::ConnectionSlots;
use crate::limits::memory::Releases;
use crate::listen::host_names::HostNames;
use crate::listen::read_levels::ListenerLevels;
use crate::listen::tls::Tls;
use crate::log::AccessRecorder;
use crate::metrics::counters::Counters;
use crate::pools::hash_pool::HashPool;
use crate::pools::scan_pool::ScanPool;
use crate::settings::{LimitSettings, Settings, TaskSettings};
use crate::sinks::SinkBoard;

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) directory: Arc<Directory>,
    /// See [`Self::limits`].
    pub(crate) limits: Live<LimitSettings>,
    /// The log has warned that connections are nearly as many as open files allow.
    pub(crate) warned_of_files: AtomicBool,
    pub(crate) accept_rules: Live<AcceptRules>,
    pub(crate) tls: Arc<Tls>,
    pub(crate) scan_pool: ScanPool,
    pub(crate) hash_pool: HashPool,
    /// What is told of the sinks.
    pub(crate) sinks: Arc<SinkBoard>,
    /// What settings say of tasks now.
    pub(crate) tasks: Arc<Live<TaskSettings>>,
    pub(crate) counters: Arc<Counters>,
    /// What each client address costs.
    pub(crate) client_addresses: ClientAddresses,
    /// All connections, for those who list and close them.
    pub(crate) sessions: Sessions,
    /// What is held for clients that do not take it.
    pub(crate) budget: Arc<Budget>,
    /// Connections that have not authenticated.
    pub(crate) connection_slots: ConnectionSlots,
    /// Finds the names of clients' hosts, when access rules are to ask for them.
    pub(crate) host_names: Option<HostNames>,
}

impl Shared {
    /// What connections may cost now.
    pub(crate) fn limits(&self) -> Guard<Arc<LimitSettings>> {
        self.limits.get()
    }
}

/// What this machine says of connections that begin.
#[derive(Clone, Debug)]
pub(crate) struct AcceptRules {
    pub(crate) handshake_timeout: Duration,
    /// How long operations may go on when the server stops.
    pub(crate) shutdown_timeout: Duration,
    /// Proxies whose word counts for where a connection comes from.
    pub(crate) proxies: Vec<Network>,
    /// How fresh reads are on each listener, where they do not say.
    pub(crate) read_levels: ListenerLevels,
}

impl AcceptRules {
    /// Those of settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            handshake_timeout: settings.tls.handshake_timeout,
            shutdown_timeout: settings.server.shutdown_timeout,
            proxies: settings.listen.proxies.clone(),
            read_levels: settings.listen.read_levels.clone(),
        }
    }
}

/// What runs on the thread of a worker.
pub(crate) type RunOnWorker = Box<dyn FnOnce(&Rc<Worker>) + Send>;

/// What a worker has to do.
pub(crate) enum Order {
    /// This, on its thread.
    Run(RunOnWorker),
    /// Finish what is in progress, then end.
    Stop,
    /// End at once.
    Kill,
}

/// The state of one worker, shared by the tasks of its thread.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) anonymous_share: AnonymousShare,
    inbox: Arc<Inbox>,
    /// The inbox, for those who fill it.
    pub(crate) outbox: Arc<dyn Outbox>,
    /// What a connection reads into; whole messages are handled where they are.
    pub(crate) read_buffer: ReadBuffer,
    /// Answers that are to be sent.
    pub(crate) send_queue: SendQueue,
    directory: RefCell<directory::Worker>,
    connections: RefCell<FxHashMap<ConnectionId, Rc<Mailbox>>>,
    next_id: Cell<u64>,
    stopping: Cell<bool>,
    /// Accept loops end.
    pub(crate) stop: Notify,
    /// The last connection is gone.
    emptied: Notify,
    /// Writes the access log.
    pub(crate) recorder: AccessRecorder,
    /// How often all sessions were to be looked at.
    pub(crate) recheck_round: Cell<u64>,
    /// A message was handled since the idle watch looked.
    active: Cell<bool>,
    activity: Notify,
    closings: Arc<Closings>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, recorder: AccessRecorder) -> Self {
        let directory = RefCell::new(shared.directory.worker());
        let inbox = Arc::<Inbox>::default();
        Self {
            shared,
            anonymous_share: AnonymousShare::default(),
            outbox: Arc::<Inbox>::clone(&inbox),
            inbox,
            read_buffer: ReadBuffer::new(),
            send_queue: SendQueue::default(),
            directory,
            connections: RefCell::default(),
            next_id: Cell::new(0),
            stopping: Cell::new(false),
            stop: Notify::new(),
            emptied: Notify::new(),
            recorder,
            recheck_round: Cell::new(0),
            active: Cell::new(false),
            activity: Notify::new(),
            closings: Arc::default(),
        }
    }

    /// Handles one message; `None` when that panicked.
    pub(crate) fn handle(
        &self,
        session: &mut Session,
        received: &Received<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Next> {
        self.guarded(|directory| {
            #[cfg(test)]
            crate::tests::panic_if_asked(received.bytes);
            directory.handle_received(session, received, out)
        })
    }

    /// Decodes one whole message; `None` when that panicked.
    pub(crate) fn decode<'m>(&self, message: &'m [u8]) -> Option<Received<'m>> {
        self.guarded(|directory| directory.decode(message))
    }

    /// Refuses a message that is not to be handled.
    pub(crate) fn refuse(
        &self,
        session: &mut Session,
        received: &Received<'_>,
        code: ResultCode,
        why: &'static str,
        out: &mut Vec<u8>,
    ) -> Completion {
        self.directory.borrow_mut().refuse(session, received, code, why, out)
    }

    /// Brings a session up to what its entry is now; otherwise says why it has to end.
    pub(crate) fn recheck(&self, session: &mut Session) -> Result<(), &'static str> {
        self.guarded(|directory| directory.recheck(session)).unwrap_or(Err("internal error"))
    }

    /// Goes on with a message whose password hashes are computed; `None` when that panicked.
    pub(crate) fn resume(
        &self,
        session: &mut Session,
        done: HashDone,
        out: &mut Vec<u8>,
    ) -> Option<Next> {
        self.guarded(|directory| directory.resume(session, done, out))
    }

    /// Goes on with a read that has waited for fresh data; `None` when that panicked.
    pub(crate) fn resume_read(
        &self,
        session: &mut Session,
        ready: ReadReady,
        out: &mut Vec<u8>,
    ) -> Option<Next> {
        self.guarded(|directory| directory.resume_read(session, ready, out))
    }

    fn guarded<T>(&self, work: impl FnOnce(&mut directory::Worker) -> T) -> Option<T> {
        let mut directory = self.directory.borrow_mut();
        let handled = catch_unwind(AssertUnwindSafe(|| work(&mut directory)));
        if handled.is_err() {
            self.shared.counters.panics.add(1);
            tracing::error!("a request panicked; its session is closed");
            // It may have been left in any state.
            *directory = self.shared.directory.worker();
        }
        handled.ok()
    }

    /// A clock that never goes back.
    pub(crate) fn now(&self) -> Duration {
        self.shared.directory.clock().elapsed()
    }

    /// Whose password a message tries.
    pub(crate) fn account_of_guess(
        &self,
        session: &Session,
        received: &Received<'_>,
    ) -> Option<Vec<u8>> {
        self.guarded(|directory| directory.account_of_guess(session, received)).flatten()
    }

    /// Makes room for a connection that came in on `listener`.
    pub(crate) fn admit(
        &self,
        session: &Session,
        listener: &'static str,
    ) -> (ConnectionId, Rc<Mailbox>) {
        let id = ConnectionId(self.next_id.get());
        self.next_id.set(id.0 + 1);
        let since = self.shared.directory.clock().now();
        let status = self.shared.sessions.enter(session, listener, since, id, &self.closings);
        let mailbox = Rc::new(Mailbox::new(status, session.who()));
        self.connections.borrow_mut().insert(id, Rc::clone(&mailbox));
        (id, mailbox)
    }

    /// A connection is gone.
    pub(crate) fn forget(&self, id: ConnectionId) {
        let mut connections = self.connections.borrow_mut();
        if let Some(mailbox) = connections.remove(&id) {
            self.shared.sessions.leave(&mailbox.status);
        }
        self.shared.counters.connections.subtract(1);
        if connections.is_empty() {
            self.emptied.notify_one();
        }
    }

    /// Whether no further message may be handled.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// A message is being handled.
    pub(crate) fn mark_active(&self) {
        if !self.active.replace(true) {
            self.activity.notify_one();
        }
    }

    /// Gives the directory's snapshot up when nothing was asked for a while.
    async fn watch_idle(&self) {
        loop {
            self.activity.notified().await;
            while self.active.replace(false) {
                sleep(SNAPSHOT_KEPT).await;
            }
            self.directory.borrow_mut().idle();
        }
    }

    /// Does everything but accepting, until the worker has to end.
    pub(crate) async fn serve(self: &Rc<Self>, orders: UnboundedReceiver<Order>) {
        let watch = Rc::clone(self);
        spawn_local(async move { watch.anonymous_share.run().await });
        let watch = Rc::clone(self);
        spawn_local(async move { watch.watch_idle().await });
        let watch = Rc::clone(self);
        spawn_local(async move { watch.watch_sessions().await });
        let watch = Rc::clone(self);
        spawn_local(async move { watch.watch_closings().await });
        let sender = Rc::clone(self);
        spawn_local(poll_fn(move |cx| sender.send_queue.poll_work(cx)));
        self.distribute(orders).await;
    }

    /// Has all sessions looked at when the directory has changed.
    async fn watch_sessions(&self) {
        let store = self.shared.directory.store();
        let (mut seen, mut quiet) = (store.published().lsn, 0);
        let mut releases = Releases::default();
        loop {
            sleep(SESSIONS_EVERY).await;
            self.recorder.meter().beat(self.now());
            releases.look(&self.shared.budget);
            let now = store.published().lsn;
            quiet += 1;
            // An account may expire while nobody writes.
            if std::mem::replace(&mut seen, now) != now || quiet == QUIET_MAX {
                quiet = 0;
                self.recheck_round.set(self.recheck_round.get() + 1);
                self.connections.borrow().values().for_each(|mailbox| mailbox.wake());
                self.mark_active();
            }
        }
    }

    /// Wakes connections that are to be closed.
    async fn watch_closings(&self) {
        loop {
            for id in self.closings.next().await {
                if let Some(mailbox) = self.connections.borrow().get(&id) {
                    mailbox.wake();
                }
            }
        }
    }

    fn deliver(&self, connection: ConnectionId, done: WriteDone) {
        if let Some(mailbox) = self.connections.borrow().get(&connection) {
            mailbox.put(done);
        }
    }

    fn begin_stop(&self) {
        self.stopping.set(true);
        self.stop.notify_waiters();
        for mailbox in self.connections.borrow().values() {
            mailbox.wake();
        }
    }

    /// Distributes answers and follows orders until the worker has to end.
    async fn distribute(self: &Rc<Self>, mut orders: UnboundedReceiver<Order>) {
        let mut batch = Vec::new();
        let mut deadline = None::<Instant>;
        loop {
            if deadline.is_some() && self.connections.borrow().is_empty() {
                return;
            }
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Run(work)) => work(self),
                    Some(Order::Stop) => {
                        let rules = self.shared.accept_rules.get();
                        deadline = Some(Instant::now() + rules.shutdown_timeout);
                        self.begin_stop();
                    }
                    Some(Order::Kill) | None => return,
                },
                () = self.inbox.arrived.notified() => {
                    self.inbox.exchange(&mut batch);
                    for Arrived { connection, done } in batch.drain(..) {
                        self.deliver(connection, done);
                    }
                }
                () = self.emptied.notified() => {}
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    tracing::warn!("operations did not end in time; their sessions are closed");
                    return;
                }
            }
        }
    }
}

/// How often sessions are looked at while the directory changes: one may outlive its reason for so
/// long.
const SESSIONS_EVERY: Duration = Duration::from_millis(500);

/// So often nothing has changed before sessions are looked at all the same: every ten seconds.
const QUIET_MAX: u32 = 20;

/// How long a worker without requests keeps its snapshot, and with it old pages of the store.
const SNAPSHOT_KEPT: Duration = Duration::from_millis(100);
