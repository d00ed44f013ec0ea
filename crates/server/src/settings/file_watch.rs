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

/// The thread that looks; it ends when this is dropped.
pub(crate) struct FileWatch {
    interval: Option<Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl FileWatch {
    /// Looks every `interval`; zero stands for never.
    pub(crate) fn start(
        tls: Arc<Tls>,
        mut keys: Option<KeyFile>,
        mut interval: Duration,
    ) -> Result<Self, ServerError> {
        let (sender, intervals) = bounded::<Duration>(0);
        let look = move || {
            loop {
                let never = interval.is_zero();
                match intervals.recv_timeout(if never { NEVER } else { interval }) {
                    Ok(other) => interval = other,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) if never => {}
                    Err(RecvTimeoutError::Timeout) => {
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

/// As good as.
const NEVER: Duration = Duration::from_hours(24);

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}
