//! This server as a member of a cluster: what its settings say, and how updates reach the member
//! that decides.
//!
//! Invariant: without `[cluster]` in the settings nothing of this is started.

mod admission;
mod monitor;

use std::fmt;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use ::cluster::transport::{AskError, Credentials, NodeIdentity};
use ::cluster::{
    AskedHere, Facts, Impediment, MemberFacts, Options, Service, ServiceParts, Status,
};
use directory::forward::answer::ForwardedAnswer;
use directory::forward::{ForwardError, Forwarder, ForwarderDone, PROTOCOL_VERSION};
use directory::{
    CHANGE_WAIT_MAX, ClusterState, ClusterTeller, Directory, DirectoryError, DirectoryOptions,
    LogParts, MakeLog, VerifyAsked, promote_joined, raise_record_level,
};
use history::log::{CommitLog, MembersError, Verification};
use zeroize::Zeroizing;

use self::admission::Admission;
use self::monitor::Reports;
use crate::error::ServerError;
use crate::pools::forwarded_pool::ForwardedPool;
use crate::server::Server;
use crate::settings::{ClusterSettings, Settings};

/// This server as a member of a cluster.
#[derive(Debug)]
pub struct ClusterMember {
    way: Arc<Way>,
    admission: Arc<Admission>,
}

/// To whoever decides, once the engine runs.
struct Way {
    service: OnceLock<Arc<Service>>,
    /// What answers the others, once the directory is open.
    pool: OnceLock<ForwardedPool>,
    directory: OnceLock<Weak<Directory>>,
    /// For longer than this nobody leads without being heard.
    silence_max: Duration,
    /// What the disk had left, in bytes, and when the certificate ends, in seconds since 1970, when
    /// it was looked at last; 0 before.
    disk_free_bytes: AtomicU64,
    certificate_ends_s: AtomicU64,
}

impl ClusterMember {
    /// Has `options` open the directory as that of a member, if the settings say that it is one.
    ///
    /// # Errors
    /// When the address for the others cannot be listened on.
    pub fn prepare(
        settings: &Settings,
        options: &mut DirectoryOptions,
    ) -> Result<Option<Self>, ServerError> {
        let settings = &settings.cluster;
        if settings.id == 0 {
            return Ok(None);
        }
        let address = *settings.listen.first().ok_or(ServerError::NoListener)?;
        let listener =
            TcpListener::bind(address).map_err(|source| ServerError::Listen { address, source })?;
        let way = Arc::new(Way {
            service: OnceLock::new(),
            pool: OnceLock::new(),
            directory: OnceLock::new(),
            silence_max: SILENCES * settings.silence_max(),
            disk_free_bytes: AtomicU64::new(0),
            certificate_ends_s: AtomicU64::new(0),
        });
        options.limits.forward_wait_max = settings.write_wait;
        options.refers_writes = settings.refers_writes;
        options.read_levels.clone_from(&settings.read_levels);
        options.limits.read_wait_max = settings.read_wait;
        options.limits.waiting_reads_max = settings.waiting_reads_max;
        options.limits.waiting_reads_asker_max = settings.waiting_reads_max.div_ceil(4);
        options.forwarder = Some(Arc::clone(&way) as Arc<dyn Forwarder>);
        options.member = settings.id;
        let admission = Arc::new(Admission::new(&options.data, settings));
        let (kept, settings) = (Arc::clone(&way), settings.clone());
        options.log = Some(MakeLog::new(move |parts| {
            let service = start(&settings, parts, listener, &kept).map_err(DirectoryError::Log)?;
            let log = service.log() as Arc<dyn CommitLog>;
            let _ = kept.service.set(service);
            Ok(log)
        }));
        Ok(Some(Self { way, admission }))
    }

    /// Carries out from now on what the others hand on, and has `cn=monitor` show the cluster.
    pub fn serve(&self, directory: &Arc<Directory>, server: &Server) {
        let _ = self.way.directory.set(Arc::downgrade(directory));
        if let Some(pool) = server.forwarded_pool() {
            let _ = self.way.pool.set(pool);
        }
        let (way, kept) = (Arc::clone(&self.way), Arc::clone(&self.way));
        let (changing, verifying) = (Arc::clone(&self.way), Arc::clone(&self.way));
        let (admission, admitting) = (Arc::clone(&self.admission), Arc::clone(&self.admission));
        let (store, clock) = (directory.store_id(), Arc::clone(directory.clock()));
        let told_clock = Arc::clone(&clock);
        let now = move || told_clock.now();
        let reports = Reports::new(Arc::clone(directory.clock()), self.way.silence_max);
        directory.show_cluster(ClusterTeller {
            own: Box::new(move || {
                let service = way.service.get()?;
                let verified = service.verification().map(|told| monitor::verified(&told, now()));
                Some(ClusterState { verified, ..monitor::own(service.status(), way.silence_max) })
            }),
            members: Box::new(move || {
                kept.service.get().map(|service| reports.members(service)).unwrap_or_default()
            }),
            change: Box::new(move |change, done| match changing.service.get() {
                Some(service) => service.change_members(change, CHANGE_WAIT_MAX, done),
                None => done(Err(MembersError::NotDeciding)),
            }),
            verify: Box::new(move |asked| match verifying.service.get() {
                Some(service) => verify(service, asked),
                None => Err("the server is starting".to_owned()),
            }),
            can_admit: Box::new(move |key| admission.check(key)),
            admit: Box::new(move |member, key| admitting.admit(store, member, key, clock.now())),
        });
        self.look_after(directory);
    }

    /// Has the others know the disk and the certificate of a machine that serves nobody yet; to be
    /// called from time to time.
    pub fn look(&self, directory: &Arc<Directory>) {
        let _ = self.way.directory.set(Arc::downgrade(directory));
        self.way.look(directory, &self.admission);
    }

    /// Looks after the cluster from time to time, as long as the directory is there: what this
    /// member tells of itself, and that machines which joined are voters when they can be.
    fn look_after(&self, directory: &Arc<Directory>) {
        let (way, admission) = (Arc::clone(&self.way), Arc::clone(&self.admission));
        way.look(directory, &admission);
        let directory = Arc::downgrade(directory);
        let look = move || {
            let mut told = Ok(());
            loop {
                thread::park_timeout(LOOK_EVERY);
                let Some(directory) = directory.upgrade() else { return };
                way.look(&directory, &admission);
                let outcome = promote_joined(&mut directory.worker());
                if let Err(reason) = &outcome
                    && outcome != told
                {
                    tracing::info!(reason, "a machine that joined is no voter yet");
                }
                told = outcome;
                // It is tried again: nobody waits for it.
                if let Err(reason) = raise_record_level(&mut directory.worker()) {
                    tracing::debug!(reason, "the level of records is as it was");
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("cluster".to_owned()).spawn(look) {
            tracing::warn!(%error, "machines that join stay learners: promote them by command");
        }
    }

    /// How the cluster is doing, as far as this server knows.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.way.service.get().map(|service| service.status())
    }
}

/// Begins to compare the data of the members, tells how far that is, or ends it.
fn verify(service: &Service, asked: VerifyAsked) -> Result<Option<Verification>, String> {
    Ok(match asked {
        VerifyAsked::Start => {
            let run = service.verify()?;
            service.ask_after_verification(run)
        }
        VerifyAsked::Look(run) => service.ask_after_verification(run),
        VerifyAsked::Stop(run) => {
            service.stop_verification(run);
            service.ask_after_verification(run)
        }
    })
}

/// Starts the engine over the parts of a directory.
fn start(
    settings: &ClusterSettings,
    parts: LogParts,
    listener: TcpListener,
    way: &Arc<Way>,
) -> Result<Arc<Service>, String> {
    let mut seed = [0; 8];
    (parts.chance)().fill(&mut seed);
    let members = settings.members_by_number()?;
    let mut options = Options::new(settings.id, members, u64::from_le_bytes(seed));
    options.silence_max = settings.silence_max();
    options.outcome_wait = settings.write_wait;
    options.preferred = settings.preferred.clone();
    options.log_keep_bytes = settings.log_keep_bytes;
    options.copy_rate_bytes = settings.copy_rate_bytes;
    options.verify_rate_bytes = settings.verify_rate_bytes;
    #[cfg(feature = "planted-faults")]
    {
        options.restores_leader = std::env::var_os(RESTORES_LEADER).is_some();
    }
    let identity = NodeIdentity { cluster: parts.store, node: settings.id };
    let files = parts.data.join(&settings.certificates);
    let credentials = Credentials::load(&files, identity, parts.clock.now());
    let credentials = credentials.map_err(|error| error.to_string())?;
    let [way, kept, told] = [(); 3].map(|()| Arc::downgrade(way));
    let impediment: Impediment =
        Arc::new(move || kept.upgrade()?.directory.get()?.upgrade()?.lead_impediment());
    let clock = parts.clock;
    let facts: Facts = Arc::new(move || told.upgrade().map(|way| way.facts()).unwrap_or_default());
    let asked_here: AskedHere = Arc::new(move |octets, done| {
        match way.upgrade().as_ref().and_then(|way| way.pool.get()) {
            Some(pool) => pool.carry_out(octets, done),
            // Nothing of it has happened: it is asked again.
            None => done(ForwardedAnswer::NotDeciding { leader: None }.encode()),
        }
    });
    Service::start(ServiceParts {
        options,
        state: parts.machine,
        journal: parts.journal,
        credentials,
        listener,
        asked_here,
        asks_version: PROTOCOL_VERSION,
        clock,
        impediment,
        facts,
    })
}

impl Way {
    /// What this member tells of itself; it waits for no disk.
    fn facts(&self) -> MemberFacts {
        let directory = self.directory.get().and_then(Weak::upgrade);
        MemberFacts {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            disk_free_bytes: self.disk_free_bytes.load(Ordering::Relaxed),
            certificate_ends_s: self.certificate_ends_s.load(Ordering::Relaxed),
            applied_us: directory.map_or(0, |directory| directory.store().published().time_us),
            ..MemberFacts::default()
        }
    }

    /// Looks at the disk, and at the certificate on it.
    fn look(&self, directory: &Directory, admission: &Admission) {
        // 0 says that nobody knows, and a disk may really be full.
        let free_bytes = directory.disk_free_bytes().map_or(0, |bytes| bytes.max(1));
        self.disk_free_bytes.store(free_bytes, Ordering::Relaxed);
        let ends_s = admission.certificate_ends_s().unwrap_or(0);
        self.certificate_ends_s.store(ends_s, Ordering::Relaxed);
    }
}

impl Forwarder for Way {
    fn forward(&self, request: Zeroizing<Vec<u8>>, within: Duration, done: ForwarderDone) {
        let Some(service) = self.service.get() else { return done(Err(ForwardError::NotSent)) };
        let answered = move |answer: Result<Zeroizing<Vec<u8>>, AskError>| {
            done(answer.map_err(|error| match error {
                AskError::NotSent(_) => ForwardError::NotSent,
                AskError::Unknown(_) => ForwardError::Unknown,
            }));
        };
        service.ask_leader(request, within, Box::new(answered));
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("service", &self.service.get()).finish_non_exhaustive()
    }
}

/// The variable of the environment that has a leader go on as that after a restart.
#[cfg(feature = "planted-faults")]
const RESTORES_LEADER: &str = "PLANTED_RESTORES_LEADER";
/// How often the disk is looked at, the certificate, and whether a machine can be a voter.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// After so many times the silence after which another leader is elected, there is none.
const SILENCES: u32 = 3;
