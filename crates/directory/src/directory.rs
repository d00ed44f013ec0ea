//! A directory as a whole: what is opened once and shared by all threads.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use ldap::dn::Dn;
use ldap::message::DecodeLimits;
use schema::{DnKey, Entry, Schema, SchemaFile};
use store::{IndexConfig, Store, StoreOptions};

use crate::chance::{Chance, OsChance};
use crate::clock::Clock;
use crate::controls::paged::CookieKey;
use crate::error::DirectoryError;
use crate::limits::Limits;
use crate::ops::suffix;
use crate::password::{Scheme, hash_password};
use crate::session::{Peer, Session};
use crate::subschema;
use crate::worker::Worker;
use crate::write_queue::WriteQueue;

/// How a directory is opened.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// The data directory.
    pub data: PathBuf,
    /// The name of the administrator, who has no entry.
    pub root_dn: String,
    /// What one request may cost.
    pub limits: Limits,
    /// How new clear-text passwords are stored.
    pub password_scheme: Scheme,
    /// How the store is opened.
    pub store: StoreOptions,
    /// Whether StartTLS can succeed: the listener has a certificate.
    pub offers_tls: bool,
}

impl DirectoryOptions {
    /// The defaults for the data directory `data`.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            root_dn: ROOT_DN.to_owned(),
            limits: Limits::default(),
            password_scheme: Scheme::default(),
            store: StoreOptions::default(),
            offers_tls: false,
        }
    }
}

/// An open directory.
pub struct Directory {
    pub(crate) store: Arc<Store>,
    pub(crate) state: ArcSwap<State>,
    pub(crate) root: RootIdentity,
    pub(crate) limits: Limits,
    pub(crate) decode_limits: DecodeLimits,
    pub(crate) password_scheme: Scheme,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cookie_key: CookieKey,
    /// The user id that owns the data directory: an administrator on the Unix socket.
    pub(crate) owner_uid: u32,
    offers_tls: bool,
    queue: WriteQueue,
    make_chance: fn() -> Box<dyn Chance>,
}

/// What changes with the schema, replaced as a whole.
pub(crate) struct State {
    pub(crate) schema: Arc<Schema>,
    /// The subschema subentry, made once per version because it is large.
    pub(crate) subschema: Arc<Entry>,
    pub(crate) subschema_key: DnKey,
}

impl State {
    pub(crate) fn new(schema: Arc<Schema>) -> Self {
        let (subschema, subschema_key) = subschema::entry(&schema);
        Self { schema, subschema: Arc::new(subschema), subschema_key }
    }
}

/// The administrator.
pub(crate) struct RootIdentity {
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
    /// The stored form of the password.
    pub(crate) password: Vec<u8>,
}

impl Directory {
    /// Creates a data directory: the store, the administrator's password (hashed, readable by the
    /// owner only), and an entry for each suffix. Without `admin_password` the administrator can
    /// sign in through the Unix socket only.
    ///
    /// # Errors
    /// When the directory exists already and is not empty, cannot be written, or a suffix is not a
    /// name an entry can be made for (its first RDN must be of dc, o, ou, c, l, st or cn).
    pub fn init(
        data: &Path,
        suffixes: &[Dn],
        admin_password: Option<&[u8]>,
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
        if let Some(clear) = admin_password {
            write_admin_password(data, clear)?;
        }
        let schema_files = data.join(SCHEMA_DIRECTORY);
        fs::create_dir_all(&schema_files)
            .map_err(|source| DirectoryError::Io { path: schema_files, source })?;
        suffix::add_all(&store, entries, &*clock, &mut OsChance)?;
        Ok(())
    }

    /// Opens a data directory and starts its writer.
    ///
    /// # Errors
    /// When another process uses it, it is not a data directory, its format is newer, or a schema
    /// file of it is wrong.
    pub fn open(
        options: DirectoryOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, DirectoryError> {
        let store = Store::open(&options.data, &options.store, schema_of(&options.data)?)?;
        // With the changes that were made online.
        let schema = store.schema();
        let root = RootIdentity::new(&options, &schema)?;
        let owner_uid = fs::metadata(&options.data)
            .map_err(|source| DirectoryError::Io { path: options.data.clone(), source })?
            .uid();
        let mut key = [0_u8; 32];
        OsChance.fill(&mut key);
        let directory = Arc::new(Self {
            store: Arc::new(store),
            state: ArcSwap::from_pointee(State::new(schema)),
            root,
            decode_limits: DecodeLimits::default(),
            password_scheme: options.password_scheme,
            clock,
            cookie_key: CookieKey::new(key),
            owner_uid,
            offers_tls: options.offers_tls,
            queue: WriteQueue::new(options.limits.write_queue_max),
            limits: options.limits,
            make_chance: || Box::new(OsChance),
        });
        directory.queue.start(&directory);
        Ok(directory)
    }

    /// A thread's way in; one per thread.
    pub fn worker(self: &Arc<Self>) -> Worker {
        Worker::new(Arc::clone(self), (self.make_chance)())
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

    /// Writes what is queued, then ends the writer; later writes are answered `unavailable`.
    pub fn shutdown(&self) {
        self.queue.shutdown();
    }

    pub(crate) fn offers_tls(&self) -> bool {
        self.offers_tls
    }

    pub(crate) fn queue(&self) -> &WriteQueue {
        &self.queue
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.queue.shutdown();
    }
}

impl RootIdentity {
    fn new(options: &DirectoryOptions, schema: &Schema) -> Result<Self, DirectoryError> {
        let bad = |reason: String| DirectoryError::Name { text: options.root_dn.clone(), reason };
        let dn = Dn::parse(&options.root_dn).map_err(|error| bad(error.to_string()))?;
        let key = DnKey::from_dn(schema, &dn).map_err(|error| bad(error.to_string()))?;
        let path = options.data.join(ADMIN_PASSWORD_FILE);
        let password = match fs::read(&path) {
            Ok(text) => text.trim_ascii().to_vec(),
            // No password: the administrator comes through the Unix socket.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => b"{NONE}".to_vec(),
            Err(source) => return Err(DirectoryError::Io { path, source }),
        };
        if !password.starts_with(b"{") {
            return Err(DirectoryError::AdminPassword {
                path,
                reason: "does not hold a hashed password like {SSHA512}…; \
                         write a new one with roster init",
            });
        }
        Ok(Self { dn, key, password })
    }
}

/// Stores the administrator's password, hashed, in a file only the owner can read.
fn write_admin_password(data: &Path, clear: &[u8]) -> Result<(), DirectoryError> {
    let path = data.join(ADMIN_PASSWORD_FILE);
    let mut stored = hash_password(Scheme::default(), clear, &mut OsChance);
    stored.push(b'\n');
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(&stored).and_then(|()| file.sync_all()))
        .map_err(|source| DirectoryError::Io { path, source })
}

/// The schema of a data directory, without what was changed online.
pub(crate) fn schema_of(data: &Path) -> Result<Arc<Schema>, DirectoryError> {
    let files = schema_files(data)?;
    Ok(match &files[..] {
        [] => Schema::builtin(),
        files => Arc::new(Schema::builtin().with_files(files)?),
    })
}

/// The user's own schema files, in order of their names.
fn schema_files(data: &Path) -> Result<Vec<SchemaFile>, DirectoryError> {
    let directory = data.join(SCHEMA_DIRECTORY);
    let listing = match fs::read_dir(&directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(DirectoryError::Io { path: directory, source }),
    };
    let mut paths = listing
        .filter_map(|found| found.ok().map(|found| found.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ldif"))
        .collect::<Vec<_>>();
    paths.sort();
    paths
        .into_iter()
        .map(|path| match fs::read_to_string(&path) {
            Ok(text) => Ok(SchemaFile { name: path.display().to_string(), text }),
            Err(source) => Err(DirectoryError::Io { path, source }),
        })
        .collect()
}

/// Where users put schema files, in the data directory.
const SCHEMA_DIRECTORY: &str = "schema";

/// The administrator's hashed password, in the data directory.
const ADMIN_PASSWORD_FILE: &str = "admin-password";

/// The administrator's name unless a setting says otherwise.
pub(crate) const ROOT_DN: &str = "cn=Directory Manager";
