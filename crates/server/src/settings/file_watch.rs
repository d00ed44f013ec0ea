//! Files that are looked at now and then, so that a change takes effect without a restart.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use directory::Directory;
use environment::{Clock as _, SystemClock, Timestamp};

use crate::error::ServerError;
use crate::listen::tls::Tls;
use crate::settings::Settings;

/// What distinguishes one version of a file from another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// The stamps of these files; `None` for one that cannot be looked at.
pub(crate) fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some(Stamp {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    };
    paths.iter().map(stamp).collect()
}

/// The keys that bearer tokens are verified with.
pub(crate) struct KeyFile {
    path: PathBuf,
    directory: Arc<Directory>,
    seen: Vec<Option<Stamp>>,
}

impl KeyFile {
    /// Loads the file that the settings name, if they name one.
    pub(crate) fn load(
        settings: &Settings,
        directory: &Arc<Directory>,
    ) -> Result<Option<Self>, ServerError> {
        let Some(path) = settings.token_keys_path() else {
            return Ok(None);
        };
        let seen = stamps(std::slice::from_ref(&path));
        let file = Self { path, directory: Arc::clone(directory), seen };
        file.read()?;
        Ok(Some(file))
    }

    fn read(&self) -> Result<(), ServerError> {
        let refuse = |reason| ServerError::TokenKeys { path: self.path.clone(), reason };
        let text = fs::read_to_string(&self.path).map_err(|error| refuse(error.to_string()))?;
        self.directory.set_token_keys(&text).map_err(refuse)
    }

    fn look(&mut self) {
        let seen = stamps(std::slice::from_ref(&self.path));
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        match self.read() {
            Ok(()) => tracing::info!(path = %self.path.display(), "token keys reloaded"),
            Err(error) => {
                tracing::error!(%error, "the changed keys cannot be used; the previous ones stay \
                                         in use");
            }
        }
    }
}

/// The administrator's password in the data directory.
pub(crate) struct AdministratorFile {
    data: PathBuf,
    path: PathBuf,
    directory: Arc<Directory>,
    seen: Vec<Option<Stamp>>,
}

impl AdministratorFile {
    /// The one of the directory, which has read it.
    pub(crate) fn new(settings: &Settings, directory: &Arc<Directory>) -> Self {
        let data = settings.server.data.clone();
        let path = Directory::administrator_password_path(&data);
        let seen = stamps(std::slice::from_ref(&path));
        Self { data, path, directory: Arc::clone(directory), seen }
    }

    fn look(&mut self) {
        let seen = stamps(std::slice::from_ref(&self.path));
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        match self.directory.look_at_administrator(&self.data) {
            Ok(()) => tracing::info!("the administrator's password was changed"),
            Err(error) => tracing::error!(
                %error,
                "the administrator's password cannot be taken; the previous one stays in use"
            ),
        }
    }
}

/// The thread that looks; it ends when this is dropped.
pub(crate) struct FileWatch {
    interval: Option<Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl FileWatch {
    /// Looks every `interval`; zero stands for never. At the administrator's password it looks
    /// every second: the old one must not work any longer.
    pub(crate) fn start(
        tls: Arc<Tls>,
        mut keys: Option<KeyFile>,
        mut administrator: AdministratorFile,
        mut interval: Duration,
    ) -> Result<Self, ServerError> {
        let (sender, intervals) = bounded::<Duration>(0);
        let look = move || {
            let mut waited = Duration::ZERO;
            loop {
                let pause = if interval.is_zero() { LOOK_EVERY } else { interval.min(LOOK_EVERY) };
                match intervals.recv_timeout(pause) {
                    Ok(other) => interval = other,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        administrator.look();
                        waited += pause;
                        if interval.is_zero() || waited < interval {
                            continue;
                        }
                        waited = Duration::ZERO;
                        tls.look(now());
                        if let Some(keys) = &mut keys {
                            keys.look();
                        }
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("file-watch".to_owned()).spawn(look);
        let thread = Some(thread.map_err(ServerError::Thread)?);
        Ok(Self { interval: Some(sender), thread })
    }

    /// Looks every `interval` from now on, when it has looked this time.
    pub(crate) fn set_interval(&self, interval: Duration) {
        if let Some(sender) = &self.interval {
            // It is gone only when it has panicked.
            let _ = sender.send(interval);
        }
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        drop(self.interval.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How often the administrator's password is looked at, at the least.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}
