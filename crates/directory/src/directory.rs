//! A directory as a whole: what is opened once and shared by all threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use aci::{Access, Grants, Identity, Privileges};
use arc_swap::{ArcSwap, ArcSwapOption};
use auth::jwt::TokenKeys;
use auth::password::PasswordStorage;
use crossbeam_channel::bounded;
use environment::{Chance, Clock};
use history::log::CommitLog;
use journal::{Disk, Journal, JournalOptions};
use ldap::dn::{Dn, DnText};
use ldap::message::DecodeLimits;
use schema::{DnKey, Entry, Schema};
use store::{FlushOptions, Flusher, Lsn, Store, StoreOptions};

use crate::access::acis_in_force::AcisInForce;
use crate::access::grants::GrantTypes;
use crate::bind::authentication::AuthenticationOptions;
use crate::bind::hashing::HashRules;
use crate::bind::hashing::PasswordOptions;
use crate::bind::password_cache::{PasswordCache, PasswordCacheCounts};
use crate::bind::sasl::scram::{KeySearch, KnownKeys};
use crate::config::monitor_sources::{
    CertificateTeller, Figures, LogState, LogStates, MonitorSources, SessionTeller,
};
use crate::config::schema_times::SchemaTimes;
use crate::error::DirectoryError;
use crate::password_policy::SwitchTypes;
use crate::password_policy::pending::Accounts;
use crate::password_policy::set::{PasswordPolicies, PasswordPolicyOptions};
use crate::read::analyser::Analyser;
use crate::read::search::Budget;
use crate::read::search_counters::{SearchCounters, SearchCounts};
use crate::read::subentry::Subentries;
use crate::read::subschema;
use crate::read::virtual_tree::names::VirtualTrees;
use crate::request::asker_bytes::AskerBytes;
use crate::request::cookie::CookieKey;
use crate::request::identity_limits::Identities;
use crate::request::limits::Limits;
use crate::request::policy::{Policies, Policy};
use crate::request::seldom::SeldomLines;
use crate::write::queue::WriteQueue;
use crate::write::rehash::Rehasher;
use crate::write::space::{DiskSpace, SpaceLimits, SpaceWatch};

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
    pub(crate) fn limit(hold: Option<&Self>, index: u64) -> u64 {
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

    pub(crate) fn journal_options(&self, id: [u8; 16]) -> JournalOptions {
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
    pub(crate) offers_tls: bool,
    pub(crate) authentication: AuthenticationOptions,
    /// What bearer tokens are verified with; none: they are not taken.
    pub(crate) token_keys: ArcSwapOption<TokenKeys>,
    /// What salts of names that have no keys are made of. It stays the same as long as the data
    /// directory and the administrator's password do.
    pub(crate) scram_secret: Vec<u8>,
    /// For which hashes SCRAM has keys to verify with.
    pub(crate) scram_keys: Arc<KnownKeys>,
    pub(crate) _scram_key_search: KeySearch,
    pub(crate) space: Arc<dyn DiskSpace>,
    pub(crate) space_limits: SpaceLimits,
    pub(crate) queue: WriteQueue,
    /// What the updates of open transactions take.
    pub(crate) held_for_transactions: Arc<Mutex<AskerBytes>>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) journal_hold: Option<JournalHold>,
    pub(crate) policies: Policies,
    pub(crate) monitors: MonitorSources,
    /// None once the directory is shut down.
    pub(crate) flusher: Mutex<Option<Flusher>>,
    pub(crate) make_chance: fn() -> Box<dyn Chance>,
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
    pub(crate) privileges: Privileges,
}

impl Directory {
    /// How passwords are hashed here.
    pub(crate) fn hash_rules(&self) -> HashRules<'_> {
        HashRules { options: &self.passwords, seldom: &self.seldom }
    }

    /// A source of unpredictable octets, for whoever has no worker's.
    pub(crate) fn chance(&self) -> Box<dyn Chance> {
        (self.make_chance)()
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
        let _ = self.monitors.logs.set(states);
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
        self.monitors.logs()
    }

    /// Has `cn=monitor` show what `figures` tells; once in the life of a directory.
    pub fn show_figures(&self, figures: Figures) {
        let _ = self.monitors.figures.set(figures);
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
            return tracing::warn!(%error, "changes that are not in the database stay in the \
                                           journal");
        }
        let mut waited = Duration::ZERO;
        while waited < self.limits.shutdown_flush_max {
            match is_done.recv_timeout(PROGRESS_EVERY) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    return tracing::warn!(
                        %error,
                        "the last changes could not be written to the database; they are in the \
                         journal"
                    );
                }
                Err(_) => waited += PROGRESS_EVERY,
            }
            tracing::info!(overlay_bytes, ?waited, "writing the last changes to the database");
        }
        tracing::warn!(?waited, "the last changes stay in the journal: the database is slow");
    }

    fn take_flusher(&self) -> Option<Flusher> {
        self.flusher.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes `cn=tls,cn=monitor` show what this tells.
    pub fn show_certificate(&self, teller: CertificateTeller) {
        let _ = self.monitors.certificate.set(teller);
    }

    /// Makes `cn=Sessions,cn=monitor` show the connections this tells of, and close them.
    pub fn show_sessions(&self, teller: SessionTeller) {
        let _ = self.monitors.sessions.set(teller);
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

/// A directory that is dropped answers what is queued and ends its threads; changes that are not in
/// the database stay in the journal, for the next start to recover.
impl Drop for Directory {
    fn drop(&mut self) {
        self.queue.shutdown();
        if let Some(flusher) = self.take_flusher() {
            flusher.stop();
        }
        self.log.close();
    }
}

impl RootIdentity {
    /// What it may do.
    pub(crate) fn access(&self) -> Access {
        let grants = Grants { privileges: self.privileges, ..Grants::default() };
        Access::with(Identity::Root(DnText::from(&self.dn)), grants).keyed(self.key.clone())
    }
}

/// How often the log tells that a shutdown goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The administrator's name unless the data directory says otherwise.
pub const ROOT_DN: &str = "cn=Directory Manager";
