//! A directory as a whole: what is opened once and shared by all threads.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use aci::{Access, GlobalAcis, Grants, Identity, Privileges};
use arc_swap::{ArcSwap, ArcSwapOption};
use auth::jwt::TokenKeys;
use auth::password::PasswordStorage;
use auth::scram::ScramHash;
use crossbeam_channel::bounded;
use environment::{Chance, Clock, OsChance};
use history::log::{CommitLog, Local};
use history::recovery::{self, StoreMachine};
use history::{SCHEMA_DIRECTORY, journal_disk, schema_of};
use journal::{Disk, Durability, Journal, JournalOptions};
use ldap::dn::{Dn, DnText};
use ldap::message::{DecodeLimits, NAME_LENGTH_MAX_BYTES};
use schema::{DnKey, Entry, Schema};
use store::{FlushOptions, Flusher, IndexConfig, Lsn, Store, StoreOptions};
use zeroize::Zeroizing;

use crate::access::acis;
use crate::access::acis_in_force::AcisInForce;
use crate::access::grants::GrantTypes;
use crate::bind::administrator;
use crate::bind::authentication::AuthenticationOptions;
use crate::bind::hashing::PasswordOptions;
use crate::bind::password_cache::{self, PasswordCache, PasswordCacheCounts};
use crate::bind::sasl::scram::{KeySearch, KnownKeys};
use crate::config::figure_monitor::{FigureMonitor, Figures};
use crate::config::log_monitor::{LogMonitor, LogState, LogStates};
use crate::config::schema_times::SchemaTimes;
use crate::config::session_monitor::{SessionMonitor, SessionTeller};
use crate::config::tls_monitor::{CertificateTeller, TlsMonitor};
use crate::error::DirectoryError;
use crate::password_policy::SwitchTypes;
use crate::password_policy::pending::Accounts;
use crate::password_policy::set::{self, PasswordPolicies, PasswordPolicyOptions};
use crate::read::analyser::Analyser;
use crate::read::search::Budget;
use crate::read::search_counters::{SearchCounters, SearchCounts};
use crate::read::subentry::Subentries;
use crate::read::subschema;
use crate::read::virtual_tree::VirtualTrees;
use crate::request::asker_bytes::AskerBytes;
use crate::request::cookie::CookieKey;
use crate::request::identity_limits::Identities;
use crate::request::limits::Limits;
use crate::request::policy::{Policies, Policy};
use crate::request::seldom::SeldomLines;
use crate::request::session::{Peer, Session};
use crate::request::worker::Worker;
use crate::write::queue::WriteQueue;
use crate::write::rehash::Rehasher;
use crate::write::space::{DiskSpace, FileSystemSpace, SpaceLimits, SpaceWatch};
use crate::write::suffix;

/// How a directory is opened.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// The data directory.
    pub data: PathBuf,
    /// The name of the administrator, who has no entry, where the data directory says none.
    pub root_dn: String,
    /// What changes the privileges of the administrator, who has all: `-NAME` takes one away.
    pub root_privileges: Vec<String>,
    /// What one request may cost.
    pub limits: Limits,
    /// How passwords are kept and verified.
    pub passwords: PasswordOptions,
    /// Which password policy is in force where nothing else says so, and what binds note.
    pub password_policy: PasswordPolicyOptions,
    /// How the store is opened.
    pub store: StoreOptions,
    /// How changes are kept in memory and brought into the database.
    pub flush: FlushOptions,
    /// Size of one segment of the journal, in bytes.
    pub journal_segment_bytes: u64,
    /// Journal kept after its changes are in the database, in bytes.
    pub journal_keep_bytes: u64,
    /// The disk under the journal; none stands for `journal/` in the data directory.
    pub disk: Option<Arc<dyn Disk>>,
    /// What tells how much room there is; none stands for the file system of the data directory.
    pub space: Option<Arc<dyn DiskSpace>>,
    /// Below which room writes are refused.
    pub space_limits: SpaceLimits,
    /// Whether StartTLS can succeed: the listener has a certificate.
    pub offers_tls: bool,
    /// What connections may ask for, the first that matches counts; none: everything.
    pub policies: Vec<Policy>,
    /// Held by whoever must not miss any record of the journal.
    pub journal_hold: Option<JournalHold>,
    /// How clients may prove who they are.
    pub authentication: AuthenticationOptions,
}

/// How far somebody has come who must miss no record: what follows stays in the journal.
#[derive(Clone, Debug)]
pub struct JournalHold(Arc<AtomicU64>);

impl JournalHold {
    /// Keeps every record after this one.
    pub fn after(lsn: Lsn) -> Self {
        Self(Arc::new(AtomicU64::new(lsn.0)))
    }

    /// The records up to this one are not needed any more.
    pub fn advance(&self, lsn: Lsn) {
        self.0.store(lsn.0, Ordering::Release);
    }

    /// How far the journal may be purged when the database has come to `index`.
    fn limit(hold: Option<&Self>, index: u64) -> u64 {
        hold.map_or(index, |hold| index.min(hold.0.load(Ordering::Acquire)))
    }
}

impl DirectoryOptions {
    /// The defaults for the data directory `data`.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            root_dn: ROOT_DN.to_owned(),
            root_privileges: Vec::new(),
            limits: Limits::default(),
            passwords: PasswordOptions::default(),
            password_policy: PasswordPolicyOptions::default(),
            store: StoreOptions::default(),
            flush: FlushOptions::default(),
            journal_segment_bytes: journal::SEGMENT_BYTES_DEFAULT,
            journal_keep_bytes: journal::KEEP_BYTES_DEFAULT,
            disk: None,
            space: None,
            space_limits: SpaceLimits::default(),
            offers_tls: false,
            policies: Vec::new(),
            journal_hold: None,
            authentication: AuthenticationOptions::default(),
        }
    }

    fn journal(&self, id: [u8; 16]) -> JournalOptions {
        JournalOptions {
            segment_bytes: self.journal_segment_bytes,
            keep_bytes: self.journal_keep_bytes,
            ..JournalOptions::new(id)
        }
    }
}

/// An open directory.
pub struct Directory {
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<dyn CommitLog>,
    pub(crate) state: Arc<ArcSwap<State>>,
    /// The ACIs in force; what a view has is never newer.
    pub(crate) acis: Arc<AcisInForce>,
    /// The password policies in force; likewise.
    pub(crate) password_policies: Arc<ArcSwap<PasswordPolicies>>,
    /// What binds have left in accounts and is not written yet.
    pub(crate) accounts: Accounts,
    pub(crate) root: RootIdentity,
    pub(crate) limits: Limits,
    pub(crate) identities: Arc<Identities>,
    pub(crate) decode_limits: DecodeLimits,
    pub(crate) passwords: PasswordOptions,
    /// A stored password that nobody has: names that do not exist are verified against it.
    pub(crate) decoy: Vec<u8>,
    /// None when passwords stay as they are stored.
    pub(crate) rehasher: Option<Rehasher>,
    /// None where every bind computes its hash.
    pub(crate) password_cache: Option<PasswordCache>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cookie_key: CookieKey,
    /// What lists of parked searches hold.
    pub(crate) parked: Budget,
    pub(crate) analyser: Analyser,
    pub(crate) search_counters: SearchCounters,
    pub(crate) seldom: Arc<SeldomLines>,
    /// The user id that owns the data directory: an administrator on the Unix socket.
    pub(crate) owner_uid: u32,
    offers_tls: bool,
    pub(crate) authentication: AuthenticationOptions,
    /// What bearer tokens are verified with; none: they are not taken.
    pub(crate) token_keys: ArcSwapOption<TokenKeys>,
    /// What salts of names that have no keys are made of. It stays the same as long as the data
    /// directory and the administrator's password do.
    pub(crate) scram_secret: Vec<u8>,
    /// For which hashes SCRAM has keys to verify with.
    pub(crate) scram_keys: Arc<KnownKeys>,
    _scram_key_search: KeySearch,
    space: Arc<dyn DiskSpace>,
    space_limits: SpaceLimits,
    queue: WriteQueue,
    /// What the updates of open transactions take.
    pub(crate) held_for_transactions: Arc<Mutex<AskerBytes>>,
    journal: Arc<Journal>,
    journal_hold: Option<JournalHold>,
    pub(crate) policies: Policies,
    pub(crate) log_monitor: LogMonitor,
    pub(crate) tls_monitor: TlsMonitor,
    pub(crate) figure_monitor: FigureMonitor,
    pub(crate) session_monitor: SessionMonitor,
    /// None once the directory is shut down.
    flusher: Mutex<Option<Flusher>>,
    make_chance: fn() -> Box<dyn Chance>,
}

/// What changes with the schema, replaced as a whole.
pub(crate) struct State {
    pub(crate) schema: Arc<Schema>,
    pub(crate) schema_times: SchemaTimes,
    /// The subschema subentry, made once per version because it is large.
    pub(crate) subschema: Arc<Entry>,
    pub(crate) subschema_key: DnKey,
    pub(crate) virtual_trees: VirtualTrees,
    pub(crate) subentries: Subentries,
    pub(crate) grants: GrantTypes,
    pub(crate) switches: SwitchTypes,
}

impl State {
    pub(crate) fn new(schema: Arc<Schema>, schema_times: SchemaTimes) -> Self {
        let (subschema, subschema_key) = subschema::entry(&schema, &schema_times);
        let virtual_trees = VirtualTrees::new(&schema);
        let (subentries, grants) = (Subentries::new(&schema), GrantTypes::new(&schema));
        let switches = SwitchTypes::new(&schema);
        let subschema = Arc::new(subschema);
        Self {
            schema,
            schema_times,
            subschema,
            subschema_key,
            virtual_trees,
            subentries,
            grants,
            switches,
        }
    }
}

/// The administrator's password, and how it is to be stored.
#[derive(Clone, Copy)]
pub struct AdminPassword<'p> {
    /// As it will be typed.
    pub clear: &'p [u8],
    /// In which scheme.
    pub storage: PasswordStorage,
}

/// The administrator.
pub(crate) struct RootIdentity {
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
    /// The stored form of the password.
    pub(crate) password: Vec<u8>,
    privileges: Privileges,
}

impl Directory {
    /// Creates a data directory: the store, the administrator's password (hashed, readable by the
    /// owner only), an entry for each suffix, and the global ACIs. Without `admin_password` the
    /// administrator can sign in through the Unix socket only.
    ///
    /// # Errors
    /// When the directory exists already and is not empty, cannot be written, or a suffix is not a
    /// name an entry can be made for (its first RDN must be of dc, o, ou, c, l, st or cn).
    pub fn init(
        data: &Path,
        suffixes: &[Dn],
        admin_password: Option<AdminPassword<'_>>,
        acis: GlobalAcis,
        clock: Arc<dyn Clock>,
    ) -> Result<(), DirectoryError> {
        let schema = Schema::builtin();
        let entries =
            suffixes.iter().map(|dn| suffix::entry(dn, &schema)).collect::<Result<Vec<_>, _>>()?;
        let store = Store::create(
            data,
            &StoreOptions::default(),
            Arc::clone(&schema),
            IndexConfig::default(),
            suffixes,
        )?;
        if let Some(AdminPassword { clear, storage }) = admin_password {
            write_admin_password(data, clear, &storage)?;
        }
        let schema_files = data.join(SCHEMA_DIRECTORY);
        fs::create_dir_all(&schema_files)
            .map_err(|source| DirectoryError::io(schema_files, source))?;
        suffix::add_all(&store, (entries, acis), &*clock, &mut OsChance)?;
        Ok(())
    }

    /// Names the administrator of a data directory; it is read when that is opened.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn name_administrator(data: &Path, name: &Dn) -> Result<(), DirectoryError> {
        let path = data.join(ADMIN_NAME_FILE);
        fs::File::create(&path)
            .and_then(|mut file| writeln!(file, "{name}").and_then(|()| file.sync_all()))
            .map_err(|source| DirectoryError::io(path, source))
    }

    /// Opens a data directory: applies what the journal has and the database has not, and starts
    /// the writer and the flusher.
    ///
    /// # Errors
    /// When another process uses it, it is not a data directory, its format is newer, a schema
    /// file of it is wrong, or its journal is damaged.
    pub fn open(
        options: DirectoryOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, DirectoryError> {
        let schema = schema_of(&options.data)?;
        let store = Arc::new(Store::open(&options.data, &options.store, schema)?);
        let disk = match &options.disk {
            Some(disk) => Arc::clone(disk),
            None => journal_disk(&options.data)?,
        };
        let journal = recover(&store, disk, &options)?;
        let machine = Arc::new(StoreMachine::new(Arc::clone(&store)));
        let log = Arc::new(Local::open(Arc::clone(&journal), machine));
        let flusher = start_flusher(&store, &journal, &options)?;
        let space =
            options.space.clone().unwrap_or_else(|| Arc::new(FileSystemSpace::of(&options.data)));
        // With the changes that were made online.
        let schema = store.schema();
        let schema_times = SchemaTimes::open(&options.data, &schema, clock.now());
        let acis = acis::read(store.reader().view()?, &schema)?;
        let password_policies =
            set::read(store.reader().view()?, &schema, &options.password_policy)?;
        let (accounts, account_writer) = Accounts::new(&options.password_policy);
        let root = RootIdentity::new(&options, &schema)?;
        let policies = Policies::new(&options.policies, &schema)?;
        let owner_uid = fs::metadata(&options.data)
            .map_err(|source| DirectoryError::io(options.data.clone(), source))?
            .uid();
        options.authentication.check(&schema)?;
        let (scram_keys, scram_key_search) = KnownKeys::of(&store, &root.password)?;
        let scram_secret = ScramHash::Sha256.hmac(&store.id(), &root.password);
        let (rehasher, proved) = Rehasher::new();
        let directory = Arc::new(Self {
            store,
            log,
            acis: Arc::new(AcisInForce::new(acis)),
            password_policies: Arc::new(ArcSwap::from_pointee(password_policies)),
            accounts,
            state: Arc::new(ArcSwap::from_pointee(State::new(schema, schema_times))),
            root,
            decode_limits: DecodeLimits {
                dn_length_max_bytes: NAME_LENGTH_MAX_BYTES,
                ..DecodeLimits::default()
            },
            decoy: decoy(&options.passwords)?,
            rehasher: options.passwords.rehash_on_bind.then_some(rehasher),
            password_cache: PasswordCache::new(options.passwords.cache, &mut OsChance),
            passwords: options.passwords,
            seldom: Arc::new(SeldomLines::new(&clock)),
            clock,
            cookie_key: CookieKey::new(&mut OsChance),
            parked: Budget::default(),
            analyser: Analyser::default(),
            search_counters: SearchCounters::default(),
            owner_uid,
            offers_tls: options.offers_tls,
            authentication: options.authentication,
            token_keys: ArcSwapOption::empty(),
            scram_secret,
            scram_keys,
            _scram_key_search: scram_key_search,
            space,
            space_limits: options.space_limits,
            queue: WriteQueue::new(&options.limits),
            held_for_transactions: Arc::new(Mutex::new(AskerBytes::new(
                options.limits.transactions_max_bytes,
            ))),
            limits: options.limits,
            identities: Arc::default(),
            journal,
            journal_hold: options.journal_hold,
            policies,
            log_monitor: LogMonitor::default(),
            tls_monitor: TlsMonitor::default(),
            figure_monitor: FigureMonitor::default(),
            session_monitor: SessionMonitor::default(),
            flusher: Mutex::new(Some(flusher)),
            make_chance: || Box::new(OsChance),
        });
        directory.queue.start(&directory);
        account_writer.start(&directory);
        if directory.rehasher.is_some() {
            proved.start(&directory);
        }
        password_cache::start_sweeper(&directory);
        Ok(directory)
    }

    /// A thread's way in; one per thread.
    pub fn worker(self: &Arc<Self>) -> Worker {
        Worker::new(Arc::clone(self), self.chance())
    }

    /// A source of unpredictable octets, for whoever has no worker's.
    pub(crate) fn chance(&self) -> Box<dyn Chance> {
        (self.make_chance)()
    }

    /// A new connection's state.
    pub fn session(&self, peer: Peer) -> Session {
        Session::new(peer)
    }

    /// The store, for export and check while the directory is open.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The schema in force.
    pub fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.state.load().schema)
    }

    /// The log of committed changes, for those who follow it.
    pub fn log(&self) -> &Arc<dyn CommitLog> {
        &self.log
    }

    /// What tells the time here.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What keeps the journal from being purged, if anything does.
    pub fn journal_hold(&self) -> Option<&JournalHold> {
        self.journal_hold.as_ref()
    }

    /// Has `cn=logs,cn=monitor` show what `states` tells; once in the life of a directory.
    pub fn show_logs(&self, states: LogStates) {
        self.log_monitor.set(states);
    }

    /// What was counted of searches since the start.
    pub fn search_counts(&self) -> SearchCounts {
        self.search_counters.read()
    }

    /// What was counted of slow passwords, and how many are held.
    pub fn password_cache_counts(&self) -> PasswordCacheCounts {
        self.password_cache.as_ref().map(PasswordCache::counts).unwrap_or_default()
    }

    /// How many writes wait for the writer, and how many may.
    pub fn write_queue_depth(&self) -> (usize, usize) {
        self.queue.depth()
    }

    /// Octets that large requests take while they wait for the writer.
    pub fn write_queue_bytes(&self) -> usize {
        self.queue.held_bytes()
    }

    /// Octets that the updates of open transactions take.
    pub fn transaction_bytes(&self) -> usize {
        self.held_for_transactions.lock().unwrap_or_else(PoisonError::into_inner).held()
    }

    /// Bytes that may still be written where the data directory is; none when nobody knows.
    pub fn disk_free_bytes(&self) -> Option<u64> {
        self.space.free_bytes().ok()
    }

    /// How many access rules are in force.
    pub fn aci_count(&self) -> usize {
        self.acis.newest().len()
    }

    /// How the logs of requests and changes are, if there are any.
    pub fn log_states(&self) -> Vec<LogState> {
        self.log_monitor.states()
    }

    /// Has `cn=monitor` show what `figures` tells; once in the life of a directory.
    pub fn show_figures(&self, figures: Figures) {
        self.figure_monitor.set(figures);
    }

    /// The journal, for backups and for those who watch it.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Writes what binds have left and what is queued, and ends the writer; later writes are
    /// answered `unavailable`. Then
    /// brings all changes into the database, so that the next start has nothing to recover, and
    /// closes the journal. Reading goes on.
    pub fn shutdown(&self) {
        self.accounts.finish();
        self.queue.shutdown();
        if let Some(flusher) = self.take_flusher() {
            flusher.stop();
            self.last_flush();
        }
        self.log.close();
    }

    /// Flushes on a thread of its own, and waits for it no longer than the limit says: what is
    /// not in the database is in the journal.
    fn last_flush(&self) {
        let overlay_bytes = self.store.overlay().bytes;
        let (done, is_done) = bounded(1);
        let (store, journal) = (Arc::clone(&self.store), Arc::clone(&self.journal));
        let hold = self.journal_hold.clone();
        let flush = move || {
            let flushed = store.flush().map_err(DirectoryError::from);
            let upto = |index| JournalHold::limit(hold.as_ref(), index);
            let purged = flushed.and_then(|mark| Ok(journal.purge(upto(mark.position.index))?));
            let _ = done.send(purged);
        };
        let started = thread::Builder::new().name("last-flush".to_owned()).spawn(flush);
        if let Err(error) = started {
            return tracing::warn!(%error, "what is not in the database stays in the journal");
        }
        let mut waited = Duration::ZERO;
        while waited < self.limits.shutdown_flush_max {
            match is_done.recv_timeout(PROGRESS_EVERY) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    return tracing::warn!(
                        %error,
                        "the last changes could not be brought into the database; \
                         they are in the journal"
                    );
                }
                Err(_) => waited += PROGRESS_EVERY,
            }
            tracing::info!(overlay_bytes, ?waited, "bringing the last changes into the database");
        }
        tracing::warn!(?waited, "the last changes stay in the journal: the database is slow");
    }

    fn take_flusher(&self) -> Option<Flusher> {
        self.flusher.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes `cn=tls,cn=monitor` show what this tells.
    pub fn show_certificate(&self, teller: CertificateTeller) {
        self.tls_monitor.set(teller);
    }

    /// Makes `cn=Sessions,cn=monitor` show the connections this tells of, and close them.
    pub fn show_sessions(&self, teller: SessionTeller) {
        self.session_monitor.set(teller);
    }

    /// Sets the keys that bearer tokens are verified with, a JSON Web Key Set (RFC 7517). The ones
    /// before stay when it cannot be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set_token_keys(&self, text: &str) -> Result<(), String> {
        self.token_keys.store(Some(Arc::new(TokenKeys::read(text)?)));
        Ok(())
    }

    /// Whether a bearer token can be accepted.
    pub(crate) fn takes_tokens(&self) -> bool {
        let tokens = &self.authentication.tokens;
        !tokens.issuer.is_empty() && !tokens.audience.is_empty() && self.token_keys.load().is_some()
    }

    pub(crate) fn offers_tls(&self) -> bool {
        self.offers_tls
    }

    pub(crate) fn queue(&self) -> &WriteQueue {
        &self.queue
    }

    pub(crate) fn space_watch(&self) -> SpaceWatch {
        SpaceWatch::new(Arc::clone(&self.space), self.space_limits)
    }
}

/// A directory that is dropped answers what is queued and ends its threads; what is not in the
/// database stays in the journal, for the next start to recover.
impl Drop for Directory {
    fn drop(&mut self) {
        self.queue.shutdown();
        if let Some(flusher) = self.take_flusher() {
            flusher.stop();
        }
        self.log.close();
    }
}

/// Opens the journal and applies what the database has not.
fn recover(
    store: &Arc<Store>,
    disk: Arc<dyn Disk>,
    options: &DirectoryOptions,
) -> Result<Arc<Journal>, DirectoryError> {
    let overlay_max_bytes = options.flush.overlay_max_bytes;
    let (journal, recovered) =
        recovery::open(store, disk, options.journal(store.id()), &mut |store| {
            // What is replayed must fit into the memory that writing would have.
            if store.overlay().bytes > overlay_max_bytes / 2 {
                store.flush()?;
            }
            Ok(())
        })?;
    if recovered.records > 0 {
        tracing::info!(?recovered, "changes of the journal were applied");
    }
    Ok(Arc::new(journal))
}

/// Starts to bring changes into the database; the journal hears what it need not keep.
fn start_flusher(
    store: &Arc<Store>,
    journal: &Arc<Journal>,
    options: &DirectoryOptions,
) -> Result<Flusher, DirectoryError> {
    let synced = Arc::downgrade(journal);
    store.sync_log_before_flush(Arc::new(move || {
        // An append of nothing waits until all before it is durable, and costs nothing if it is.
        let Some(journal) = synced.upgrade() else { return Ok(()) };
        let synced = journal.append_wait(Vec::new(), Durability::Synced);
        synced.map(drop).map_err(|error| error.to_string())
    }));
    let (journal, hold) = (Arc::clone(journal), options.journal_hold.clone());
    let flusher = store.start_flusher(
        options.flush.clone(),
        Box::new(move |mark| {
            let upto = JournalHold::limit(hold.as_ref(), mark.position.index);
            if let Err(error) = journal.purge(upto) {
                tracing::warn!(%error, "the journal keeps more than it needs");
            }
        }),
    )?;
    Ok(flusher)
}

impl RootIdentity {
    fn new(options: &DirectoryOptions, schema: &Schema) -> Result<Self, DirectoryError> {
        let path = options.data.join(ADMIN_NAME_FILE);
        let name = match fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => options.root_dn.clone(),
            Err(source) => return Err(DirectoryError::io(path, source)),
        };
        let bad = |reason: String| DirectoryError::Name { text: name.clone(), reason };
        let dn = Dn::parse(&name).map_err(|error| bad(error.to_string()))?;
        let key = administrator::check_name(&dn, &[], schema)?;
        let path = options.data.join(ADMIN_PASSWORD_FILE);
        let password = match fs::read(&path) {
            Ok(text) => text.trim_ascii().to_vec(),
            // No password: the administrator comes through the Unix socket.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => b"{NONE}".to_vec(),
            Err(source) => return Err(DirectoryError::io(path, source)),
        };
        if !password.starts_with(b"{") {
            return Err(DirectoryError::AdminPassword {
                path,
                reason: "does not hold a hashed password like {SSHA512}…; \
                         write a new one with roster init",
            });
        }
        let changes = options.root_privileges.iter().map(|name| name.as_bytes());
        let privileges = Privileges::ALL.changed_by(changes);
        Ok(Self { dn, key, password, privileges })
    }

    /// What it may do.
    pub(crate) fn access(&self) -> Access {
        let grants = Grants { privileges: self.privileges, ..Grants::default() };
        Access::with(Identity::Root(DnText::from(&self.dn)), grants).keyed(self.key.clone())
    }
}

/// The stored form of a password that nobody knows.
fn decoy(options: &PasswordOptions) -> Result<Vec<u8>, DirectoryError> {
    let mut clear = Zeroizing::new([0; 32]);
    OsChance.fill(&mut *clear);
    options.storage.hash(&*clear, &mut OsChance).ok_or(DirectoryError::PasswordCosts)
}

/// Stores the administrator's password, hashed, in a file only the owner can read.
fn write_admin_password(
    data: &Path,
    clear: &[u8],
    storage: &PasswordStorage,
) -> Result<(), DirectoryError> {
    let path = data.join(ADMIN_PASSWORD_FILE);
    let mut stored = storage.hash(clear, &mut OsChance).ok_or(DirectoryError::PasswordCosts)?;
    stored.push(b'\n');
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(&stored).and_then(|()| file.sync_all()))
        .map_err(|source| DirectoryError::io(path, source))
}

/// How often the log tells that a shutdown goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The administrator's hashed password, in the data directory.
const ADMIN_PASSWORD_FILE: &str = "admin-password";

/// The administrator's name, in the data directory.
const ADMIN_NAME_FILE: &str = "admin-name";

/// The administrator's name unless the data directory says otherwise.
pub const ROOT_DN: &str = "cn=Directory Manager";
