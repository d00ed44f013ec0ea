//! How a subcommand ends badly: the exit code, the message and what to do about it.
//!
//! Invariant: messages and hints are one sentence each, in lower case and without a full stop.

use std::fmt;
use std::io;
use std::path::Path;

use directory::DirectoryError;
use history::HistoryError;
use offline::backup::BackupError;
use server::{ServerError, SettingsError};
use store::StoreError;

use crate::template::TemplateError;

/// A subcommand's end other than success.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The server is not there, or cannot answer now: later it may.
    pub(crate) is_passing: bool,
}

/// The exit codes of the program; `--help` lists them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    Done = 0,
    /// The server said no, or gave a wrong answer; of a comparison, that something differs.
    Refused = 1,
    /// Wrong use, or a failure on this side.
    Local = 2,
    /// Ctrl-C ended it, as shells have it: 128 and the number of the signal.
    Interrupted = 130,
}

impl Failure {
    /// A failure on this side.
    pub(crate) fn local(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Local, message: message.to_string(), hint: None, is_passing: false }
    }

    /// Ctrl-C.
    pub(crate) fn interrupted(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Interrupted, ..Self::local(message) }
    }

    /// The server refused.
    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Refused, ..Self::local(message) }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Reading or writing `path` failed.
    pub(crate) fn path(action: &str, path: &Path, error: &io::Error) -> Self {
        let failure = Self::local(format!("cannot {action} {}: {}", path.display(), plain(error)));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("the disk is full: make room, then run the command again")
            }
            _ => failure,
        }
    }
}

/// The text of an error without Rust's `(os error 2)`, starting in lower case.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or("");
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Writing standard output failed. When its reader left early (`roster export | head`), nobody is
/// there to be told: the program is done.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::Done,
            _ => Exit::Local,
        };
        let message = format!("cannot write the output: {}", plain(&error));
        Self { exit, ..Self::local(message) }
    }
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        Self { hint: error.hint.clone(), ..Self::local(error) }
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Data(error) => error.into(),
            DirectoryError::Quarantined { .. } => Self::local(&error).hint(
                "make the server anew from the data of another one; remove the file when that is \
                 done, or to look at the data",
            ),
            DirectoryError::Name { .. }
            | DirectoryError::Authentication { .. }
            | DirectoryError::AdminPassword { .. }
            | DirectoryError::PasswordCosts
            | DirectoryError::Log(_)
            | DirectoryError::Archive(_)
            | DirectoryError::ArchiveInUse(_) => Self::local(without_os_error(&error)),
        }
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Store(error) => error.into(),
            HistoryError::Mismatch { reason, advice } => Self::local(reason).hint(advice),
            HistoryError::OfCluster => Self::local(&error).hint(
                "serve it with the settings of the cluster; change data with 'roster' over LDAP, \
                 on any server",
            ),
            HistoryError::NotOfCluster => Self::local(&error),
            HistoryError::Journal(_) | HistoryError::Schema(_) | HistoryError::Io { .. } => {
                Self::local(without_os_error(&error))
            }
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::local(without_os_error(&error));
        let hint = match &error {
            StoreError::InUse { pid: Some(pid), .. } => {
                format!("stop the process {pid} first, or use the server that it runs")
            }
            StoreError::InUse { pid: None, .. } => "stop the process that uses it".to_owned(),
            StoreError::NotADirectory { .. } | StoreError::NotADataDirectory { .. } => {
                "make a data directory with 'roster init --data DIR --suffix DN'".to_owned()
            }
            StoreError::NotEmpty { .. } => "choose a directory that does not exist yet".to_owned(),
            StoreError::NewerFormat { .. } => {
                "use the release that wrote the data, or a later one".to_owned()
            }
            StoreError::OlderFormat { .. } => {
                "'roster export' of the older release, then 'roster init' and 'roster import' of \
                 this one"
                    .to_owned()
            }
            StoreError::Full | StoreError::NoRoom { .. } => {
                "make room on the disk, then run the command again".to_owned()
            }
            StoreError::DataFile { .. } => {
                "nothing was changed; restore the data from a backup ('roster restore'): what the \
                 file has lost is nowhere else"
                    .to_owned()
            }
            StoreError::Corrupt(_) => {
                "'roster check' lists all faults; restore the data from a backup".to_owned()
            }
            // LMDB reports a write that the disk took only in part as an I/O error.
            StoreError::Lmdb(_) => {
                "is the disk full? Otherwise 'roster check' tells whether the data file is damaged"
                    .to_owned()
            }
            StoreError::Io { .. }
            | StoreError::Log(_)
            | StoreError::TooLarge { .. }
            | StoreError::ContextsOverlap { .. }
            | StoreError::Invalid { .. }
            | StoreError::Diverged { .. }
            | StoreError::TooMany { .. }
            | StoreError::TooManyValues { .. }
            | StoreError::Interrupted => return failure,
        };
        failure.hint(hint)
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        let failure = Self::local(without_os_error(&error));
        let hint = match error {
            BackupError::Directory(error) => return error.into(),
            BackupError::Io { path, source } => return Self::path("read or write", &path, &source),
            BackupError::Damaged { .. } => {
                "take a new backup with --full, or restore from another one"
            }
            BackupError::NoBackup { .. } => "take one with 'roster backup --data DIR --to DIR'",
            BackupError::InUse { .. } => "wait until it is done",
            BackupError::Asked { hint, .. } => hint,
        };
        failure.hint(hint)
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let in_use = matches!(
            &error,
            ServerError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse
        );
        let failure = Self::local(without_os_error(&error));
        if in_use { failure.hint("choose another port with --ldap or --ldaps") } else { failure }
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::local(without_os_error(&error))
    }
}

/// The text of an error whose end may be one of the system's.
fn without_os_error(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or("").to_owned()
}
