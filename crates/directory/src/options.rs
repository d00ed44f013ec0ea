//! How a directory is opened: what the settings of a node say, with their defaults.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use auth::password::PasswordStorage;
use environment::{Clock, MakeChance, os_chance};
use history::log::{CommitLog, StateMachine};
use history::record::RECORD_LEVEL_FIRST;
use journal::{Disk, Journal, JournalOptions};
use store::{FlushOptions, StoreOptions};

use crate::archiving::ArchiveAt;
use crate::bind::authentication::AuthenticationOptions;
use crate::bind::hashing::PasswordOptions;
use crate::error::DirectoryError;
use crate::forward::forwarder::Forwarder;
use crate::password_policy::set::PasswordPolicyOptions;
use crate::read::fresh::level::DefaultReadLevel;
use crate::request::limits::Limits;
use crate::request::policy::Policy;
use crate::storage::JournalHold;
use crate::write::space::{DiskSpace, SpaceLimits};

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
    /// The archive of change records; none: there is none.
    pub archive: Option<ArchiveAt>,
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
    /// What hands updates to the node that decides, where another one may; none: this server is
    /// alone.
    pub forwarder: Option<Arc<dyn Forwarder>>,
    /// The number of this server among those of its cluster; of no account where it is alone.
    pub member: u64,
    /// How fresh reads are in naming contexts, or parts of them, where their requests do not say;
    /// of no account where the log is that of one server.
    pub read_levels: Vec<(String, DefaultReadLevel)>,
    /// What the records of a cluster may say whose log does not say it: what all releases read that
    /// can be its members.
    pub record_level_first: u16,
    /// Whether clients are told by a referral who decides, instead of handing on what they ask for.
    pub refers_writes: bool,
    /// Where salts, keys and identifiers come from.
    pub chance: MakeChance,
    /// What makes the commit log; none: that of one server, on the journal.
    pub log: Option<MakeLog>,
}

/// Makes the commit log of a directory; once, for options that were cloned as well.
#[derive(Clone)]
pub struct MakeLog(Arc<Mutex<Option<Make>>>);

type Make = Box<dyn FnOnce(LogParts) -> Result<Arc<dyn CommitLog>, DirectoryError> + Send>;

/// What a commit log is made of.
pub struct LogParts {
    /// What it applies committed records to. Nothing of the journal has been: only the log knows
    /// what is committed.
    pub machine: Arc<dyn StateMachine>,
    /// The store's number, the same in all data directories that are copies of one.
    pub store: [u8; 16],
    /// The data directory.
    pub data: PathBuf,
    /// It is open. One that was made just now has the last record of the base for purged.
    pub journal: Arc<Journal>,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from.
    pub chance: MakeChance,
}

impl MakeLog {
    /// Has `make` make the log.
    pub fn new(
        make: impl FnOnce(LogParts) -> Result<Arc<dyn CommitLog>, DirectoryError> + Send + 'static,
    ) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(make)))))
    }

    pub(crate) fn make(&self, parts: LogParts) -> Result<Arc<dyn CommitLog>, DirectoryError> {
        let make = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let used = || DirectoryError::Log("the commit log was made already".to_owned());
        make.ok_or_else(used)?(parts)
    }
}

impl fmt::Debug for MakeLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MakeLog").finish_non_exhaustive()
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
            archive: None,
            disk: None,
            space: None,
            space_limits: SpaceLimits::default(),
            offers_tls: false,
            policies: Vec::new(),
            journal_hold: None,
            authentication: AuthenticationOptions::default(),
            forwarder: None,
            member: 0,
            read_levels: Vec::new(),
            record_level_first: RECORD_LEVEL_FIRST,
            refers_writes: false,
            chance: os_chance,
            log: None,
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

/// The administrator's password, and how it is to be stored.
#[derive(Clone, Copy)]
pub struct AdminPassword<'p> {
    /// As it will be typed.
    pub clear: &'p [u8],
    /// In which scheme.
    pub storage: PasswordStorage,
}

/// The administrator's name unless the data directory says otherwise.
pub const ROOT_DN: &str = "cn=Directory Manager";
