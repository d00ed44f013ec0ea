//! The server as a whole: starts the threads, waits for the signal to stop, and stops in order.

mod machine;
mod worker_thread;

use std::future::pending;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use directory::{Directory, FirstMember, Live, ServerRun, SessionTeller, StopKind};
use rustix::process::{DumpableBehavior, Resource, set_dumpable_behavior, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(crate) use self::machine::Machine;
use self::worker_thread::WorkerThread;
use crate::admin::Admins;
use crate::connection::sessions::Sessions;
use crate::error::ServerError;
use crate::in_force::{Following, SettingsInForce, address_limits, budget_limits};
use crate::limits::budget::Budget;
use crate::limits::client_addresses::ClientAddresses;
use crate::limits::connection_slots::ConnectionSlots;
use crate::limits::open_files::{fit_connections, raise_file_limit, warn_of_files};
use crate::listen::host_names::HostNames;
use crate::listen::listeners::{Addresses, Listening};
use crate::listen::tls::Tls;
use crate::log::Logs;
use crate::metrics::counters::{Counters, Counts};
use crate::metrics::{self, Meter, Metrics, Process};
use crate::pools::fair_queue::QueueSize;
use crate::pools::forwarded_pool::{ForwardedPool, ForwardedPoolSize};
use crate::pools::hash_pool::{HashPool, HashPoolSize};
use crate::pools::scan_pool::{ScanPool, ScanPoolSize};
use crate::settings::file_watch::{self, AdministratorFile, FileWatch, KeyFile};
use crate::settings::{LimitSettings, PasswordSettings, ServerSettings, Settings};
use crate::sinks::{SinkBoard, Sinks};
use crate::tasks::{TaskProgram, Tasks};
use crate::worker::{AcceptRules, Order, Shared};

/// A running server. Dropping it ends it at once; [`Server::wait`] ends it in order.
pub struct Server {
    directory: Arc<Directory>,
    /// Of the workers: the pools end when these have let it go.
    shared: Weak<Shared>,
    /// Those that are read again; none: they stay as they are.
    settings: Option<Arc<SettingsInForce>>,
    machine: Machine,
    pub(crate) counters: Arc<Counters>,
    pub(crate) metrics: Arc<Metrics>,
    pool_threads: Vec<JoinHandle<()>>,
    /// None where the server is alone.
    forwarded_pool: Option<ForwardedPool>,
    sinks: Sinks,
    /// None where they are not done.
    tasks: Option<Tasks>,
    logs: Logs,
    /// Hears of each worker that ends.
    ended: UnboundedReceiver<()>,
    shutdown: ShutdownHandle,
    ending: Arc<Mutex<Option<Ended>>>,
    /// Where `wait` waits; made at the start, so that no signal is missed in between.
    control: Runtime,
    signals: Signals,
}

/// Why a server has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// It is to begin once more, as the first member of a cluster.
    Becomes(FirstMember),
    /// It is to begin anew.
    Restarts,
}

/// Asks a server to stop; from any thread.
#[derive(Clone, Debug, Default)]
pub struct ShutdownHandle(Arc<Notify>);

impl ShutdownHandle {
    /// Makes [`Server::wait`] stop the server.
    pub fn shutdown(&self) {
        self.0.notify_one();
    }
}

impl Server {
    /// Opens the listeners and starts the threads. When it returns, clients are served.
    ///
    /// # Errors
    /// An address that cannot be listened on, a certificate that cannot be used, threads that
    /// cannot be started.
    pub fn start(directory: Arc<Directory>, settings: &Settings) -> Result<Self, ServerError> {
        let control = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServerError::Thread)?;
        let signals = {
            let _inside = control.enter();
            Signals::new().map_err(ServerError::Thread)?
        };
        let workers = or_cores(settings.server.workers);
        let process = Process::own();
        if !settings.server.core_dumps {
            forbid_core_dumps();
        }
        let files = raise_file_limit(&settings.limits);
        let mut settings = settings.clone();
        if let Some(files) = fit_connections(&mut settings.limits, files)? {
            warn_of_files(settings.limits.connections_max, files);
        }
        let settings = &settings;
        let tls = Arc::new(Tls::new(settings, file_watch::now())?);
        let shown = Arc::clone(&tls);
        directory.show_certificate(Box::new(move || shown.state()));
        let keys = KeyFile::load(settings, &directory)?;
        let administrator = AdministratorFile::new(settings, &directory);
        let interval = settings.tls.reload_interval;
        let files = FileWatch::start(Arc::clone(&tls), keys, administrator, interval)?;
        let mut listening = Listening::default();
        let per_worker = listening.begin(listening.open(settings, workers)?)?;
        let (shared, mut pool_threads) = share(&directory, settings, Arc::clone(&tls))?;
        let forwarded_pool = forwarded_pool(&shared, &mut pool_threads)?;
        let meters: Vec<_> = (0..workers).map(|_| Arc::<Meter>::default()).collect();
        let (logs, recorders) = Logs::start(&directory, settings, &meters)?;
        let metrics = Metrics::new(&shared, meters, process);
        let shown = Arc::clone(&metrics);
        shared.directory.show_figures(Box::new(move |branch| {
            shown.scrape().map(|scrape| metrics::entries(&scrape, branch)).unwrap_or_default()
        }));
        show_sessions(&shared);
        let sinks = Sinks::start(&shared.directory, settings, &shared.sinks)?;
        let (ended_sender, ended) = unbounded_channel();
        let machine = Machine {
            listening,
            admins: Admins::default(),
            tls,
            files,
            log_rules: logs.rules(),
            metrics: Arc::clone(&metrics),
            shared: Arc::downgrade(&shared),
            workers: Vec::new(),
        };
        let mut server = Self {
            directory,
            shared: Arc::downgrade(&shared),
            settings: None,
            machine,
            counters: Arc::clone(&shared.counters),
            metrics,
            pool_threads,
            forwarded_pool,
            sinks,
            tasks: None,
            logs,
            ended,
            shutdown: ShutdownHandle::default(),
            ending: Arc::default(),
            control,
            signals,
        };
        let lists = per_worker.into_iter().zip(recorders);
        for (number, (listeners, recorder)) in lists.enumerate() {
            let worker = WorkerThread::start(number, &shared, listeners, recorder, &ended_sender)?;
            server.machine.workers.push(worker);
        }
        // The last: whoever asks there whether clients are served gets a true answer.
        let machine = &mut server.machine;
        machine.admins.begin(machine.admins.open(&settings.admin.listen, &machine.metrics)?);
        tracing::info!(workers, "serving {}", machine.addresses());
        Ok(server)
    }

    /// Has the directory's settings followed, and this machine's read again on SIGHUP.
    ///
    /// # Errors
    /// Settings that cannot be read.
    pub fn follow_settings(&mut self, following: Following) -> Result<(), ServerError> {
        let settings = SettingsInForce::new(&self.directory, &self.shared, following)
            .map_err(ServerError::Settings)?;
        settings.follow();
        self.settings = Some(settings);
        Ok(())
    }

    /// Has tasks done, each by a process with the command that `program` makes.
    ///
    /// # Errors
    /// When what is known of tasks cannot be read or kept.
    pub fn do_tasks(
        &mut self,
        settings: &Settings,
        program: TaskProgram,
    ) -> Result<(), ServerError> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let rules = Arc::clone(&shared.tasks);
        self.tasks =
            Some(Tasks::start(&self.directory, settings, self.addresses().ldapi, rules, program)?);
        Ok(())
    }

    /// Where the server listens; with the port the system chose where the settings say 0.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.machine.addresses()
    }

    /// What carries out the updates that other nodes hand to this one; none where the server is
    /// alone.
    #[must_use]
    pub fn forwarded_pool(&self) -> Option<ForwardedPool> {
        self.forwarded_pool.clone()
    }

    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// What stops the server from another thread.
    #[must_use]
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.shutdown.clone()
    }

    /// Has the server end, to become the first member of a cluster, when it is asked to by LDAP and
    /// `check` has nothing against it.
    pub fn offer_cluster(
        &self,
        check: impl Fn(&FirstMember) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let (ending, shutdown) = (Arc::clone(&self.ending), self.shutdown_handle());
        self.directory.show_cluster_init(Box::new(move |member| {
            check(member)?;
            let mut ending = ending.lock().unwrap_or_else(PoisonError::into_inner);
            if ending.is_some() {
                return Err("the server is stopping, or becomes a member already".to_owned());
            }
            *ending = Some(Ended::Becomes(member.clone()));
            shutdown.shutdown();
            Ok(())
        }));
    }

    /// Has the server end, or end to begin anew, when it is asked to by LDAP; `check` says what
    /// speaks against beginning anew.
    pub fn offer_stop(&self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let (ending, shutdown) = (Arc::clone(&self.ending), self.shutdown_handle());
        let run = ServerRun { began_us: self.directory.clock().now().0 };
        self.directory.offer_stop(Box::new(move |kind| {
            let wanted = match kind {
                StopKind::Tell => return Ok(run),
                StopKind::Stop => Ended::Stopped,
                StopKind::Restart => {
                    check()?;
                    Ended::Restarts
                }
            };
            let mut ending = ending.lock().unwrap_or_else(PoisonError::into_inner);
            if ending.as_ref().is_some_and(|decided| *decided != wanted) {
                return Err("the server is ending already, in another way".to_owned());
            }
            *ending = Some(wanted);
            shutdown.shutdown();
            Ok(run)
        }));
    }

    /// Serves until SIGTERM, SIGINT or [`ShutdownHandle::shutdown`], then stops in order: accepts
    /// no more, finishes what is in progress, notifies the clients, and writes what is queued. A
    /// second signal ends it at once.
    ///
    /// # Errors
    /// A worker ended by itself.
    pub fn wait(mut self) -> Result<Ended, ServerError> {
        let ending = Arc::clone(&self.ending);
        let Self {
            directory,
            control,
            signals,
            shutdown,
            ended,
            machine,
            logs,
            metrics,
            sinks,
            tasks,
            settings,
            ..
        } = &mut self;
        let outcome = control.block_on(async {
            let mut outcome = loop {
                tokio::select! {
                    kind = signals.any() => match kind {
                        Heard::Stop => break Ok(Ended::Stopped),
                        Heard::HangUp => {
                            logs.reopen();
                            if let Some(settings) = settings {
                                settings.reload(machine);
                            }
                        }
                    },
                    () = reload_asked(settings.as_deref()) => {
                        if let Some(settings) = settings {
                            settings.reload(machine);
                        }
                    }
                    () = shutdown.0.notified() => break Ok(decided(&ending)),
                    _ = ended.recv() => break Err(ServerError::WorkerEnded),
                }
            };
            tracing::info!("stopping");
            // Whoever asks for something else from now on is refused.
            decided(&ending);
            metrics.stopping();
            sinks.ask_to_stop();
            if let Some(tasks) = tasks {
                tasks.ask_to_stop();
            }
            let all_ended = async {
                // While this server decides: they store where they are.
                sinks.ended().await;
                directory.retire();
                machine.workers.iter().for_each(|worker| worker.send(Order::Stop));
                // It closes when the last worker has ended.
                while ended.recv().await.is_some() {}
            };
            tokio::select! {
                () = all_ended => {}
                () = signals.next() => outcome = outcome.map(|_| Ended::Stopped),
            }
            outcome
        });
        self.join();
        tracing::info!("stopped");
        outcome
    }

    /// Ends all threads, the workers first: the pool and the writer still serve them.
    fn join(&mut self) {
        self.machine.admins = Admins::default();
        self.sinks.stop();
        self.tasks = None;
        // Before the pool that hashes for it, which ends with the workers.
        if let Some(pool) = &self.forwarded_pool {
            pool.close();
        }
        let workers = &mut self.machine.workers;
        workers.iter().for_each(|worker| worker.send(Order::Kill));
        workers.drain(..).for_each(WorkerThread::join);
        for thread in self.pool_threads.drain(..) {
            let _ = thread.join();
        }
        self.logs.end_access();
        self.directory.shutdown();
        // Of what was written until then, too.
        self.logs.end_audit();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.join();
    }
}

/// Waits until somebody asks for the settings to be read again.
async fn reload_asked(settings: Option<&SettingsInForce>) {
    match settings {
        Some(settings) => settings.reload_asked().await,
        None => pending().await,
    }
}

/// How a server ends that is asked to: as it was asked first.
fn decided(ending: &Mutex<Option<Ended>>) -> Ended {
    let mut ending = ending.lock().unwrap_or_else(PoisonError::into_inner);
    ending.get_or_insert(Ended::Stopped).clone()
}

/// Makes what the workers share, and starts the threads of its pools.
pub(crate) fn share(
    directory: &Arc<Directory>,
    settings: &Settings,
    tls: Arc<Tls>,
) -> Result<(Arc<Shared>, Vec<JoinHandle<()>>), ServerError> {
    let counters = Arc::new(Counters::default());
    let limits = &settings.limits;
    let budget = Budget::new(budget_limits(limits));
    let size = scan_pool_size(&settings.server);
    let (scan_pool, mut threads) = ScanPool::start(directory, &counters, &budget, size)?;
    let (hash_pool, hash_threads) = HashPool::start(&counters, hash_pool_size(&settings.password))?;
    threads.extend(hash_threads);
    let shared = Arc::new(Shared {
        directory: Arc::clone(directory),
        limits: Live::new(limits.clone()),
        warned_of_files: AtomicBool::new(false),
        accept_rules: Live::new(AcceptRules::of(settings)),
        tls,
        scan_pool,
        hash_pool,
        sinks: Arc::<SinkBoard>::default(),
        tasks: Arc::new(Live::new(settings.tasks.clone())),
        counters,
        sessions: Sessions::new(),
        budget,
        connection_slots: ConnectionSlots::new(connection_slots_max(limits)),
        host_names: {
            let settings = &settings.access_control;
            settings.host_names.then(|| HostNames::of_system(settings.host_name_wait))
        },
        client_addresses: ClientAddresses::new(
            address_limits(limits),
            limits.bind_gateways.clone(),
        ),
    });
    Ok((shared, threads))
}

/// Starts the pool for updates of other nodes, if there may be any.
fn forwarded_pool(
    shared: &Arc<Shared>,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<Option<ForwardedPool>, ServerError> {
    if !shared.directory.takes_forwarded() {
        return Ok(None);
    }
    let (hashes, size) = (shared.hash_pool.queue(), ForwardedPoolSize::default());
    let (pool, own) = ForwardedPool::start(&shared.directory, hashes, size)?;
    threads.extend(own);
    Ok(Some(pool))
}

/// Has the directory show the connections of a server, as long as it runs.
fn show_sessions(shared: &Arc<Shared>) {
    let [count, list, close] = [(); 3].map(|()| Arc::downgrade(shared));
    shared.directory.show_sessions(SessionTeller {
        count: Box::new(move || {
            let open = count.upgrade().map_or(0, |shared| shared.counters.connections.value());
            usize::try_from(open).unwrap_or(usize::MAX)
        }),
        list: Box::new(move || {
            let Some(shared) = list.upgrade() else { return Vec::new() };
            shared.sessions.list(shared.directory.clock().now())
        }),
        close: Box::new(move |number, reason| {
            close.upgrade().is_some_and(|shared| shared.sessions.close(number, reason))
        }),
    });
}

/// How many connections may be there that have not authenticated.
pub(crate) fn connection_slots_max(limits: &LimitSettings) -> usize {
    let LimitSettings { connections_max, connections_anonymous_percent, .. } = *limits;
    connections_max.saturating_mul(connections_anonymous_percent) / 100
}

/// The signals that stop a server, and the one that has it open its logs anew.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
enum Heard {
    Stop,
    HangUp,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) -> Heard {
        tokio::select! {
            _ = self.terminate.recv() => Heard::Stop,
            _ = self.interrupt.recv() => Heard::Stop,
            _ = self.hang_up.recv() => Heard::HangUp,
        }
    }

    /// One of those that stop a server.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// 0 stands for one per core.
fn or_cores(threads: usize) -> usize {
    if threads > 0 { threads } else { thread::available_parallelism().map_or(1, usize::from) }
}

/// How large the scan pool is. Without a number there is one thread more than there are cores: one
/// who asks leaves a thread to others, and may still use all cores.
fn scan_pool_size(settings: &ServerSettings) -> ScanPoolSize {
    let threads = match settings.scan_threads {
        0 => or_cores(0) + 1,
        threads => threads,
    };
    let reserved = match settings.scan_threads_reserved {
        0 => (threads / 4).max(1),
        reserved => reserved,
    };
    let max = settings.scan_queue_max;
    ScanPoolSize {
        threads,
        threads_reserved: reserved.min(threads.saturating_sub(1)),
        queue: QueueSize {
            max,
            reserved: settings.scan_queue_reserved.min(max / 2),
            asker_max: settings.scan_queue_asker_max,
        },
    }
}

/// How large the hash pool is: half of the cores at the most, because hashing is not what a
/// directory is for.
fn hash_pool_size(settings: &PasswordSettings) -> HashPoolSize {
    let threads = match settings.hash_threads {
        0 => or_cores(0).div_ceil(2),
        threads => threads,
    };
    let max = settings.hash_queue_max;
    HashPoolSize {
        threads,
        queue: QueueSize {
            max,
            reserved: max / HASH_QUEUE_RESERVED,
            asker_max: settings.hash_queue_address_max,
        },
    }
}

/// Asks the system to write no core file, and to let nobody look into the memory of the process:
/// there are passwords and keys in it.
fn forbid_core_dumps() {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core files cannot be disabled");
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "debuggers cannot be kept from the process");
    }
}

/// One of so many positions in the queue of the hash pool is for those who have signed in.
const HASH_QUEUE_RESERVED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_kept_for_those_who_have_signed_in() {
        let size = |threads, reserved, max| {
            let size = scan_pool_size(&ServerSettings {
                scan_threads: threads,
                scan_threads_reserved: reserved,
                scan_queue_max: max,
                scan_queue_reserved: 250,
                scan_queue_asker_max: 250,
                ..ServerSettings::default()
            });
            (size.threads, size.threads_reserved, size.queue.reserved)
        };
        assert_eq!(size(2, 0, 1_000), (2, 1, 250));
        assert_eq!(size(3, 0, 1_000), (3, 1, 250));
        assert_eq!(size(16, 0, 1_000), (16, 4, 250));
        assert_eq!(size(16, 9, 100), (16, 9, 50), "strangers have half of the places");
        assert_eq!(size(4, 9, 1), (4, 3, 0), "one thread is for everybody");
        assert_eq!(size(1, 1, 1_000), (1, 0, 250));
        let (threads, reserved, _) = size(0, 0, 1_000);
        assert!(threads >= 2 && reserved >= 1 && reserved < threads);
    }
}
