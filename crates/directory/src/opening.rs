//! How a data directory is made and opened: what is read once, and the threads that are started.
//!
//! Invariant: nobody is served before what the journal has is in the store.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use aci::{GlobalAcis, Privileges};
use arc_swap::{ArcSwap, ArcSwapOption};
use auth::password::PasswordStorage;
use auth::scram::ScramHash;
use environment::{Clock, OsChance};
use history::log::{CommitLog, Local, StateMachine};
use history::recovery::{self, Follower, StoreMachine};
use history::{SCHEMA_DIRECTORY, journal_disk, schema_of};
use journal::{Disk, Durability, Journal};
use ldap::dn::Dn;
use ldap::message::{DecodeLimits, NAME_LENGTH_MAX_BYTES};
use schema::Schema;
use store::{Flusher, IndexConfig, Mark, Store, StoreError, StoreOptions};

use crate::access::view_rules::{ViewRules, ViewRulesInForce};
use crate::archiving::Archiving;
use crate::bind::credentials::{Credentials, RootIdentity, decoy};
use crate::bind::password_cache::{self, PasswordCache};
use crate::bind::sasl::scram::KnownKeys;
use crate::bind::{administrator, sasl};
use crate::changelog::ChangeCookieKey;
use crate::config::monitor_sources::MonitorSources;
use crate::config::schema_times::SchemaTimes;
use crate::config::setting_rows::ServerSettings;
use crate::directory::{Directory, State};
use crate::error::DirectoryError;
use crate::flush_failures::FlushFailures;
use crate::following::Following;
use crate::forward::known_requests::KnownRequests;
use crate::forward::outgoing::{Forwarding, ForwardingOptions};
use crate::live::Live;
use crate::member_machine::MemberMachine;
use crate::options::{AdminPassword, DirectoryOptions, LogParts};
use crate::password_policy::in_force::PoliciesInForce;
use crate::password_policy::pending::{AccountWriter, Accounts};
use crate::password_policy::set;
use crate::quarantine::Quarantine;
use crate::read::fresh::reads::FreshReads;
use crate::read::streams::Streams;
use crate::request::budgets::Budgets;
use crate::request::controls::position::PositionKey;
use crate::request::cookie::CookieKey;
use crate::request::policy::Policies;
use crate::request::seldom::SeldomLines;
use crate::request::session::{Peer, Session};
use crate::request::worker::Worker;
use crate::rules::RulesInForce;
use crate::storage::{LogKeepers, Storage};
use crate::write::queue::{WriteQueue, pipeline};
use crate::write::rehash::queue::{ProvedPasswords, Rehasher};
use crate::write::space::{DiskSpace, FileSystemSpace};
use crate::write::suffix;

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
        suffix::add_all(&store, entries, acis, &*clock, &mut OsChance)?;
        Ok(())
    }

    /// Changes the administrator's password in a data directory. A directory that is served takes
    /// it when it is told to look ([`Self::look_at_administrator`]).
    ///
    /// # Errors
    /// When it is no data directory, or the file cannot be written.
    pub fn set_administrator_password(
        data: &Path,
        password: &AdminPassword<'_>,
    ) -> Result<(), DirectoryError> {
        Store::check_data_directory(data)?;
        write_admin_password(data, password.clear, &password.storage)
    }

    /// Takes the administrator's password anew from the data directory. What cannot be read or is
    /// no stored password leaves the one before in force. Says whether it is another one.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn look_at_administrator(&self, data: &Path) -> Result<bool, DirectoryError> {
        let stored = read_admin_password(data)?;
        if **self.credentials.root.password.load() == stored {
            return Ok(false);
        }
        self.credentials.scram_keys.note(&stored);
        self.credentials.root.password.store(Arc::new(stored));
        Ok(true)
    }

    /// Where the administrator's password is in a data directory.
    pub fn administrator_password_path(data: &Path) -> PathBuf {
        data.join(ADMIN_PASSWORD_FILE)
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
        let quarantine = Quarantine::open(&options.data, &clock)?;
        let schema = schema_of(&options.data)?;
        let store = Arc::new(Store::open(&options.data, &options.store, schema)?);
        let journal = open_journal(&store, disk_of(&options)?, &options)?;
        let known = options.forwarder.is_some().then(|| KnownRequests::new(&clock));
        let space =
            options.space.clone().unwrap_or_else(|| Arc::new(FileSystemSpace::of(&options.data)));
        // With the changes that were made online.
        let schema = store.schema();
        let schema_times = SchemaTimes::open(&options.data, &schema, clock.now());
        let view_rules = ViewRules::read(store.reader().view()?, &schema)?;
        let password_policies =
            set::read(store.reader().view()?, &schema, &options.password_policy)?;
        let member = options.forwarder.is_some().then_some(options.member);
        let (accounts, account_writer) = Accounts::new(&options.password_policy, member);
        let root = RootIdentity::new(&options, &schema)?;
        let policies = Policies::new(&options.policies, &schema)?;
        let owner_uid = owner_of(&options.data)?;
        sasl::check(&options.authentication)?;
        options.authentication.check(&schema)?;
        let (scram_keys, scram_key_search) = KnownKeys::of(&store, &root.password())?;
        let scram_secret = ScramHash::Sha256.hmac(&store.id(), &root.password());
        let settings = Arc::new(ServerSettings::new(&store));
        let following = Arc::new(Following {
            store: Arc::clone(&store),
            state: Arc::new(ArcSwap::from_pointee(State::new(schema, schema_times))),
            view_rules: Arc::new(ViewRulesInForce::new(view_rules)),
            password_policies: Arc::new(PoliciesInForce::new(password_policies)),
            accounts: Arc::new(accounts),
            scram_keys: Arc::clone(&scram_keys),
            settings: Arc::clone(&settings),
            unseen: Mutex::default(),
        });
        let machine = machine_of(&following, known.as_ref(), &options, &quarantine)?;
        let log = open_log(machine, &store, &journal, &options, &clock)?;
        let forwarding = forwarding(&options, known, &store, &log, &clock)?;
        let position_key = PositionKey::of(&store.id());
        let sync_key = sync_key(&store.id());
        let streams = Arc::new(Streams::new(&log));
        let change_cookies = ChangeCookieKey::of(&store.id());
        let fresh_reads = fresh_reads(&options, &following, &log, &clock)?;
        let archiving = start_archive(&options, &store, &log, &clock, &space)?;
        let flusher = start_flusher(&store, &journal, &log, &options, &clock, archiving.as_ref())?;
        let (rehasher, proved) = Rehasher::new(options.chance);
        let credentials = Credentials {
            root,
            owner_uid,
            authentication: Live::new(options.authentication),
            decoy: Live::new(decoy(&options.passwords, &mut *(options.chance)())?),
            rehasher,
            password_cache: PasswordCache::new(options.passwords.cache, &mut *(options.chance)())
                .map(Arc::new),
            passwords: Live::new(options.passwords),
            scram_secret,
            scram_keys,
            _scram_key_search: scram_key_search,
            token_keys: ArcSwapOption::empty(),
        };
        let storage = Storage {
            store,
            log,
            journal,
            journal_hold: options.journal_hold,
            archiving: Mutex::new(archiving),
            waits_for_archive: options.log.is_none(),
            flusher: Mutex::new(Some(flusher)),
            space,
            space_limits: options.space_limits,
        };
        let (of_views, password_policies) = (&following.view_rules, &following.password_policies);
        let rules =
            RulesInForce::new(Arc::clone(of_views), Arc::clone(password_policies), policies);
        let directory = Arc::new(Self {
            storage,
            state: Arc::clone(&following.state),
            rules,
            credentials,
            accounts: Arc::clone(&following.accounts),
            decode_limits: decode_limits(),
            budgets: Budgets::new(&options.limits),
            queue: Arc::new(WriteQueue::new(&options.limits, options.chance, forwarding)),
            limits: Live::new(options.limits),
            monitors: MonitorSources::default(),
            settings,
            seldom: Arc::new(SeldomLines::new(&clock)),
            clock,
            make_chance: options.chance,
            cookie_key: CookieKey::new(&mut *(options.chance)()),
            position_key,
            sync_key,
            streams,
            change_cookies,
            fresh_reads,
            record_level_first: options.record_level_first,
            offers_tls: options.offers_tls,
            quarantine,
        });
        pipeline::start(&directory);
        start_account_threads(&directory, account_writer, proved);
        Ok(directory)
    }

    /// A thread's way in; one per thread.
    pub fn worker(self: &Arc<Self>) -> Worker {
        Worker::new(Arc::clone(self), self.chance())
    }

    /// A new connection's state.
    pub fn session(&self, peer: Peer) -> Session {
        Session::new(peer)
    }
}

/// The user id that owns the data directory.
fn owner_of(data: &Path) -> Result<u32, DirectoryError> {
    let metadata = fs::metadata(data);
    Ok(metadata.map_err(|source| DirectoryError::io(data.to_owned(), source))?.uid())
}

/// What seals where consumers of content synchronisation are: they come back after a restart, and
/// to any server of the directory.
fn sync_key(store: &[u8; 16]) -> CookieKey {
    CookieKey::of(&ScramHash::Sha256.hmac(store, b"content synchronisation"))
}

/// How much of a request is looked at.
fn decode_limits() -> DecodeLimits {
    DecodeLimits { dn_length_max_bytes: NAME_LENGTH_MAX_BYTES, ..DecodeLimits::default() }
}

/// What the journal is on.
fn disk_of(options: &DirectoryOptions) -> Result<Arc<dyn Disk>, DirectoryError> {
    match &options.disk {
        Some(disk) => Ok(Arc::clone(disk)),
        None => Ok(journal_disk(&options.data)?),
    }
}

/// Starts what writes to accounts after binds, and what forgets passwords.
fn start_account_threads(
    directory: &Arc<Directory>,
    account_writer: AccountWriter,
    proved: ProvedPasswords,
) {
    let root = &directory.credentials.root.dn;
    account_writer.start(&directory.accounts, &directory.queue, root.clone());
    proved.start(&directory.queue, root.clone());
    if let Some(cache) = &directory.credentials.password_cache {
        password_cache::start_sweeper(cache, Arc::clone(&directory.clock));
    }
}

/// Opens the archive of change records, if there is to be one.
fn start_archive(
    options: &DirectoryOptions,
    store: &Store,
    log: &Arc<dyn CommitLog>,
    clock: &Arc<dyn Clock>,
    space: &Arc<dyn DiskSpace>,
) -> Result<Option<Archiving>, DirectoryError> {
    let Some(at) = &options.archive else { return Ok(None) };
    let limits = options.space_limits;
    match Archiving::start(at, &options.data, store.id(), log, clock, space, limits) {
        Ok(archiving) => Ok(Some(archiving)),
        // Two that write to one archive would damage it; without one the service goes on.
        Err(error) if error.is_in_use() => Err(error),
        Err(error) => {
            tracing::error!(%error, "no changes are archived until the next start");
            Ok(None)
        }
    }
}

/// What is needed for reads that must be fresh; nothing where the log is that of this server alone.
fn fresh_reads(
    options: &DirectoryOptions,
    following: &Following,
    log: &Arc<dyn CommitLog>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<FreshReads>, DirectoryError> {
    if options.log.is_none() {
        return Ok(None);
    }
    let schema = &following.state.load().schema;
    FreshReads::of(&options.read_levels, &options.limits, log, clock, schema).map(Some)
}

/// What the log applies records to; what is known of requests hears of them.
fn machine_of(
    following: &Arc<Following>,
    known: Option<&Arc<KnownRequests>>,
    options: &DirectoryOptions,
    quarantine: &Arc<Quarantine>,
) -> Result<Arc<dyn StateMachine>, DirectoryError> {
    let mut machine = StoreMachine::new(Arc::clone(&following.store));
    // Else all is decided here.
    if options.log.is_some() {
        quarantine.prepare()?;
        machine = machine.followed_by(Arc::clone(following) as Arc<dyn Follower>);
    } else if known.is_none() {
        return Ok(Arc::new(machine));
    }
    Ok(Arc::new(MemberMachine {
        machine,
        store: Arc::clone(&following.store),
        quarantine: Arc::clone(quarantine),
        known: known.cloned(),
    }))
}

/// Opens the journal; that of one server with all that is in it applied.
fn open_journal(
    store: &Arc<Store>,
    disk: Arc<dyn Disk>,
    options: &DirectoryOptions,
) -> Result<Arc<Journal>, DirectoryError> {
    if options.log.is_none() {
        return recover(store, disk, options);
    }
    let journal = recovery::open_unapplied(store, disk, options.journal_options(store.id()))?;
    if !store.keeps_digest() {
        tracing::info!("the digest of the data is computed, once");
        store.keep_digest()?;
    }
    Ok(Arc::new(journal))
}

/// What hands updates to another node, where there may be one.
fn forwarding(
    options: &DirectoryOptions,
    known: Option<Arc<KnownRequests>>,
    store: &Store,
    log: &Arc<dyn CommitLog>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Forwarding>>, DirectoryError> {
    let both = options.forwarder.as_ref().zip(known);
    let Some((forwarder, known)) = both else { return Ok(None) };
    known.fill(store)?;
    let (limits, refers) = (&options.limits, options.refers_writes);
    let options = ForwardingOptions { limits, refers, known };
    Ok(Some(Forwarding::start(Arc::clone(forwarder), log, clock, options)))
}

/// Opens the commit log over the journal.
fn open_log(
    machine: Arc<dyn StateMachine>,
    store: &Store,
    journal: &Arc<Journal>,
    options: &DirectoryOptions,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn CommitLog>, DirectoryError> {
    let Some(make) = &options.log else {
        return Ok(Arc::new(Local::open(Arc::clone(journal), machine)));
    };
    make.make(LogParts {
        machine,
        store: store.id(),
        data: options.data.clone(),
        journal: Arc::clone(journal),
        clock: Arc::clone(clock),
        chance: options.chance,
    })
}

/// Opens the journal and applies what the database has not.
fn recover(
    store: &Arc<Store>,
    disk: Arc<dyn Disk>,
    options: &DirectoryOptions,
) -> Result<Arc<Journal>, DirectoryError> {
    let overlay_max_bytes = options.flush.overlay_max_bytes;
    let (journal, recovered) =
        recovery::open(store, disk, options.journal_options(store.id()), &mut |store| {
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
    log: &Arc<dyn CommitLog>,
    options: &DirectoryOptions,
    clock: &Arc<dyn Clock>,
    archiving: Option<&Archiving>,
) -> Result<Flusher, DirectoryError> {
    let keepers = LogKeepers {
        hold: options.journal_hold.clone(),
        // The log of a cluster keeps what members need, and takes whole positions.
        archive: archiving
            .filter(|_| options.log.is_none())
            .map(|archiving| Arc::clone(&archiving.archive)),
        journal: Arc::clone(journal),
    };
    let (synced, kept) = (Arc::downgrade(journal), Arc::downgrade(log));
    store.sync_log_before_flush(Arc::new(move |upto: &Mark| {
        let both = synced.upgrade().zip(kept.upgrade());
        both.map_or(Ok(()), |(journal, log)| sync_log(&journal, &*log, upto))
    }));
    let log = Arc::clone(log);
    let failures = FlushFailures::new(clock);
    let flushed = move |flushed: Result<&Mark, &StoreError>| match flushed {
        Ok(mark) => {
            failures.over();
            log.forget(keepers.limit(mark.position));
        }
        Err(error) => failures.note(&error.to_string()),
    };
    let flusher = store.start_flusher(options.flush.clone(), Box::new(flushed))?;
    Ok(flusher)
}

/// Makes the journal durable, and sees that the log has what is to be flushed: a member applies
/// what a majority has, which its own journal may have refused, and data that are ahead of their
/// journal could not be opened again.
fn sync_log(journal: &Journal, log: &dyn CommitLog, upto: &Mark) -> Result<(), String> {
    // An append of nothing waits until all before it is durable, and costs nothing if it is.
    let synced = journal.append_wait(Vec::new(), Durability::Synced);
    synced.map_err(|error| error.to_string())?;
    let (kept, index) = (log.kept_index(), upto.position.index);
    if kept < index {
        return Err(format!(
            "the journal has entries up to {kept}, and the flush would write up to {index}; see \
             whether its disk has room"
        ));
    }
    Ok(())
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
        let password = ArcSwap::from_pointee(read_admin_password(&options.data)?);
        let changes = options.root_privileges.iter().map(|name| name.as_bytes());
        let privileges = Privileges::ALL.changed_by(changes);
        Ok(Self { dn, key, password, privileges })
    }
}

/// The stored form of the administrator's password.
fn read_admin_password(data: &Path) -> Result<Vec<u8>, DirectoryError> {
    let path = data.join(ADMIN_PASSWORD_FILE);
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
                     write a new one with 'roster account set-administrator-password'",
        });
    }
    Ok(password)
}

/// Stores the administrator's password, hashed, in a file only the owner of the data directory can
/// read; the one before is there until this one is, whole.
fn write_admin_password(
    data: &Path,
    clear: &[u8],
    storage: &PasswordStorage,
) -> Result<(), DirectoryError> {
    let path = data.join(ADMIN_PASSWORD_FILE);
    let mut stored = storage.hash(clear, &mut OsChance).ok_or(DirectoryError::PasswordCosts)?;
    stored.push(b'\n');
    let new = data.join(format!("{ADMIN_PASSWORD_FILE}.new"));
    replace_file(data, &new, &path, &stored).map_err(|source| DirectoryError::io(path, source))
}

/// Writes `new`, as the owner of the data directory has it, and puts it in place of `path`.
fn replace_file(data: &Path, new: &Path, path: &Path, octets: &[u8]) -> std::io::Result<()> {
    match fs::remove_file(new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    file.write_all(octets)?;
    let (owner, own) = (fs::metadata(data)?, file.metadata()?);
    if owner.uid() != own.uid() {
        // The server would not be able to read it.
        std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    file.sync_all()?;
    fs::rename(new, path)?;
    fs::File::open(data)?.sync_all()
}

/// The administrator's hashed password, in the data directory.
const ADMIN_PASSWORD_FILE: &str = "admin-password";

/// The administrator's name, in the data directory.
const ADMIN_NAME_FILE: &str = "admin-name";
