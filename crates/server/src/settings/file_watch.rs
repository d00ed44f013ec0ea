//! Files that are looked at now and then, so that a change takes effect without a restart.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Another owner or mode changes this alone.
    changed: (i64, i64),
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
            changed: (found.ctime(), found.ctime_nsec()),
        })
    };
    paths.iter().map(stamp).collect()
}

/// A file that is read whenever it is another one. What could not be read is tried again, and told
/// of once.
#[derive(Default)]
struct Watched {
    /// The file that was read last.
    seen: Vec<Option<Stamp>>,
    /// Why the one that is there now is not used.
    error: Option<String>,
}

impl Watched {
    /// Has the file at `path` read if it is another one; `what` it is, for the log. What `read`
    /// says of it is whether it says something else than before.
    fn look(&mut self, path: &Path, what: &str, read: impl FnOnce() -> Result<bool, String>) {
        // Before it is read: what changes meanwhile is found the next time.
        let now = stamps(&[path.to_owned()]);
        if now == self.seen {
            return;
        }
        match read() {
            Ok(is_other) => {
                if is_other {
                    tracing::info!(path = %path.display(), "{what} reloaded");
                }
                *self = Self { seen: now, error: None };
            }
            Err(error) => {
                if self.error.as_ref() != Some(&error) {
                    let path = path.display();
                    tracing::error!(error, %path, "{what} cannot be used; those of before are");
                }
                self.error = Some(error);
            }
        }
    }
}

/// The keys that bearer tokens are verified with.
pub(crate) struct KeyFile {
    path: PathBuf,
    directory: Arc<Directory>,
    watched: Watched,
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
        let watched = Watched { seen, error: None };
        let file = Self { path, directory: Arc::clone(directory), watched };
        let refuse = |reason| ServerError::TokenKeys { path: file.path.clone(), reason };
        read_keys(&file.path, &file.directory).map_err(refuse)?;
        Ok(Some(file))
    }

    fn look(&mut self) {
        let Self { path, directory, watched } = self;
        watched.look(path, "token keys", || read_keys(path, directory).map(|()| true));
    }
}

fn read_keys(path: &Path, directory: &Directory) -> Result<(), String> {
    let octets = read_file(path, KEYS_MAX_BYTES).map_err(|error| error.to_string())?;
    let text = String::from_utf8(octets).map_err(|error| error.to_string())?;
    directory.set_token_keys(&text)
}

/// The administrator's password in the data directory.
pub(crate) struct AdministratorFile {
    data: PathBuf,
    path: PathBuf,
    directory: Arc<Directory>,
    watched: Watched,
}

impl AdministratorFile {
    /// The one of the directory. It is read again at the first look: it may have been replaced
    /// since the directory has read it.
    pub(crate) fn new(settings: &Settings, directory: &Arc<Directory>) -> Self {
        let data = settings.server.data.clone();
        let path = Directory::administrator_password_path(&data);
        Self { data, path, directory: Arc::clone(directory), watched: Watched::default() }
    }

    fn look(&mut self) {
        let Self { data, path, directory, watched } = self;
        watched.look(path, "the administrator's password", || {
            directory.look_at_administrator(data).map_err(|error| error.to_string())
        });
    }
}

/// The thread that looks; it ends when this is dropped.
pub(crate) struct FileWatch {
    stop: Option<Sender<()>>,
    asked: Arc<Asked>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked of the thread. Nobody waits for it: it may be waiting for a file.
#[derive(Default)]
struct Asked {
    /// How often it looks at what has an interval; 0 stands for never.
    interval_ms: AtomicU64,
    /// It is to look at once, whatever the interval.
    soon: AtomicBool,
}

impl Asked {
    fn set_interval(&self, interval: Duration) {
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        self.interval_ms.store(millis, Ordering::Relaxed);
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.load(Ordering::Relaxed))
    }
}

impl FileWatch {
    /// Looks at the administrator's password every second, and at the rest every `interval`; zero
    /// stands for never.
    pub(crate) fn start(
        tls: Arc<Tls>,
        mut keys: Option<KeyFile>,
        mut administrator: AdministratorFile,
        interval: Duration,
    ) -> Result<Self, ServerError> {
        let asked = Arc::<Asked>::default();
        asked.set_interval(interval);
        let (stop, stopped) = bounded::<()>(0);
        let own = Arc::clone(&asked);
        let look = move || {
            let mut waited = Duration::ZERO;
            loop {
                let interval = own.interval();
                let is_never = interval.is_zero();
                let pause = if is_never { LOOK_EVERY } else { interval.min(LOOK_EVERY) };
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                administrator.look();
                waited += pause;
                let is_due = !is_never && waited >= interval;
                if own.soon.swap(false, Ordering::Relaxed) || is_due {
                    waited = Duration::ZERO;
                    tls.look(now());
                    if let Some(keys) = &mut keys {
                        keys.look();
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("file-watch".to_owned()).spawn(look);
        let thread = Some(thread.map_err(ServerError::Thread)?);
        Ok(Self { stop: Some(stop), asked, thread })
    }

    /// Looks every `interval` from now on, and once within a second.
    pub(crate) fn look_soon(&self, interval: Duration) {
        self.asked.set_interval(interval);
        self.asked.soon.store(true, Ordering::Relaxed);
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a file holds, `max_bytes` at the most; no device and no pipe, which have no end.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut octets = Vec::new();
    fs::File::open(path)?.take(max_bytes + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > max_bytes {
        return Err(io::Error::other(format!("it has more than {} KiB", max_bytes >> 10)));
    }
    Ok(octets)
}

/// The most of a file of keys.
const KEYS_MAX_BYTES: u64 = 1 << 20;

/// How often the administrator's password is looked at, at the least.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}
