//! The access log, a line for each operation, and the audit log, every change.
//!
//! Start at `access_recorder.rs` for what a worker does, then `log_writer.rs` and `render.rs`;
//! `audit.rs` for changes. Both write through `file.rs`, which puts files aside; a helper thread
//! compresses and removes those (`file::keep`).
//!
//! Invariant: no request waits for a log. What the access log has no room for is counted.
//! Invariant: the audit log has every change: it is written from the journal, which keeps what the
//! log does not have.

mod access_recorder;
mod audit;
mod file;
mod files;
mod filter;
mod line;
mod log_writer;
mod position;
mod refusals;
mod render;
mod ring;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use directory::{Directory, JournalHold, Live, LogState};
use environment::Timestamp;
use store::Lsn;
use tokio::time::Instant;

pub(crate) use self::access_recorder::{AccessRecorder, ConnectionLog};
use self::audit::Auditor;
use self::file::{FileRules, Keep, LogFile, Retention, Rotation};
pub use self::file::{RotatedLog, rotated_logs};
use self::files::{Compression, Disk, Files};
use self::line::Form;
pub use self::line::is_hidden;
use self::log_writer::LogWriter;
use self::refusals::Refusals;
use crate::error::ServerError;
use crate::metrics::Meter;
use crate::settings::{LogFileSettings, Settings};

/// The logs of a running server, and their threads.
pub(crate) struct Logs {
    access: Option<Log>,
    audit: Option<Log>,
    keeper: Option<JoinHandle<()>>,
    rules: LogRules,
}

/// The rules of the files of both logs, where they are written.
#[derive(Clone, Default)]
pub(crate) struct LogRules {
    access: Option<Arc<Live<FileRules>>>,
    audit: Option<Arc<Live<FileRules>>>,
}

impl LogRules {
    /// Those of these settings hold from now on.
    pub(crate) fn begin(&self, settings: &Settings) {
        let (access, audit) = (&settings.access_log.file, &settings.audit_log.file);
        for (rules, settings) in [(&self.access, access), (&self.audit, audit)] {
            if let Some(rules) = rules {
                rules.set(file_rules(settings));
            }
        }
    }
}

struct Log {
    control: Arc<Control>,
    thread: JoinHandle<()>,
}

/// What a log's thread and everybody else share.
#[derive(Default)]
pub(super) struct Control {
    doorbell: Arc<Doorbell>,
    stop: AtomicBool,
    reopen: AtomicBool,
    lines: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    /// The last change that is durable in the log.
    lsn: AtomicU64,
    error: Mutex<Option<String>>,
}

impl Control {
    fn count(&self, counter: fn(&Self) -> &AtomicU64, more: u64) {
        counter(self).fetch_add(more, Ordering::Relaxed);
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether the file is to be opened anew; it is asked once for each time.
    fn is_to_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::AcqRel)
    }

    /// Sets whether the log can be written; says whether that is news.
    fn set_error(&self, error: Option<String>) -> bool {
        let mut known = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = known.is_some() != error.is_some();
        *known = error;
        is_news
    }

    fn state(&self, name: &'static str, file: &str) -> LogState {
        let lsn = self.lsn.load(Ordering::Relaxed);
        LogState {
            name,
            file: file.to_owned(),
            lines: self.lines.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            lsn: (name == AUDIT).then_some(lsn),
            error: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// Wakes the thread of a log; to ring it costs a look at memory that seldom changes.
#[derive(Default)]
pub(super) struct Doorbell {
    is_asleep: AtomicBool,
    is_rung: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Doorbell {
    /// There is something, and no hurry.
    fn ring(&self) {
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// There is much.
    fn ring_now(&self) {
        if !self.is_rung.swap(true, Ordering::Relaxed) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The calling thread is the one to wake.
    fn belongs_here(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// Sleeps until there is something. Whoever rings at the same moment may not be heard: so it
    /// never takes longer than `most`.
    fn sleep(&self, most: Duration) {
        self.is_asleep.store(true, Ordering::Relaxed);
        thread::park_timeout(most);
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Waits for more, but not when there is much already.
    fn gather(&self, most: Duration) {
        if !self.is_rung.load(Ordering::Relaxed) {
            thread::park_timeout(most);
        }
        self.is_rung.store(false, Ordering::Relaxed);
    }
}

impl Logs {
    /// Starts what the settings ask for, with a recorder for each worker, which counts in its
    /// meter.
    ///
    /// # Errors
    /// A log file cannot be written, a thread cannot be started.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        settings: &Settings,
        meters: &[Arc<Meter>],
    ) -> Result<(Self, Vec<AccessRecorder>), ServerError> {
        let rules = LogRules::default();
        let mut logs = Self { access: None, audit: None, keeper: None, rules };
        let mut recorders = Vec::new();
        if settings.access_log_path().is_some() || settings.audit_log_path().is_some() {
            let (keeper, files) = unbounded();
            let now = directory.clock().now();
            logs.keeper = Some(spawn("log-keeper", move || keep(&files))?);
            if let Some(path) = settings.access_log_path() {
                let rules = &settings.access_log.file;
                let file = open(Arc::new(Disk), path, rules, keeper.clone(), now)?;
                logs.rules.access = Some(file.rules());
                let (log, list) = start_access(directory, settings, file, meters)?;
                (logs.access, recorders) = (Some(log), list);
            }
            if let Some(path) = settings.audit_log_path() {
                let files: Arc<dyn Files> = Arc::new(Disk);
                let rules = &settings.audit_log.file;
                let file = open(Arc::clone(&files), path, rules, keeper, now)?;
                logs.rules.audit = Some(file.rules());
                logs.audit = Some(start_audit(directory, settings, file, files)?);
            }
            logs.show(directory, settings);
        }
        if recorders.is_empty() {
            recorders = meters.iter().map(Arc::clone).map(AccessRecorder::off).collect();
        }
        Ok((logs, recorders))
    }

    /// Has `cn=monitor` show how the logs are.
    fn show(&self, directory: &Directory, settings: &Settings) {
        let controls = [
            (ACCESS, &self.access, settings.access_log_path()),
            (AUDIT, &self.audit, settings.audit_log_path()),
        ];
        let shown = controls.into_iter().filter_map(|(name, log, path)| {
            Some((name, Arc::clone(&log.as_ref()?.control), path?.display().to_string()))
        });
        let shown = shown.collect::<Vec<_>>();
        directory.show_logs(Box::new(move || {
            shown.iter().map(|(name, control, path)| control.state(name, path)).collect()
        }));
    }

    /// What has other rules of their files hold.
    pub(crate) fn rules(&self) -> LogRules {
        self.rules.clone()
    }

    /// Opens the files anew: somebody else put them aside.
    pub(crate) fn reopen(&self) {
        for log in [&self.access, &self.audit].into_iter().flatten() {
            log.control.reopen.store(true, Ordering::Release);
            log.control.doorbell.wake();
        }
    }

    /// Ends the access log with all that was put into it; no worker puts more.
    pub(crate) fn end_access(&mut self) {
        end(self.access.take());
    }

    /// Ends the audit log with all changes; there will be no more.
    pub(crate) fn end_audit(&mut self) {
        end(self.audit.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

fn end(log: Option<Log>) {
    if let Some(Log { control, thread }) = log {
        control.stop.store(true, Ordering::Release);
        control.doorbell.wake();
        if thread.join().is_err() {
            tracing::error!("the thread of a log panicked");
        }
    }
}

fn start_access(
    directory: &Arc<Directory>,
    settings: &Settings,
    file: LogFile,
    meters: &[Arc<Meter>],
) -> Result<(Log, Vec<AccessRecorder>), ServerError> {
    let form = if settings.access_log.format == "text" { Form::Text } else { Form::Json };
    let control = Arc::<Control>::default();
    let epoch = Instant::now();
    let rings = meters.iter().map(|_| ring::ring(settings.access_log.buffer_bytes));
    let (producers, consumers): (Vec<_>, Vec<_>) = rings.unzip();
    let refusals = Arc::new(Refusals::new(settings.access_log.refused_per_second_max));
    let recorder = |(meter, ring)| {
        let (doorbell, refusals) = (Arc::clone(&control.doorbell), Arc::clone(&refusals));
        AccessRecorder::on(Arc::clone(meter), ring, doorbell, refusals, epoch)
    };
    let recorders = meters.iter().zip(producers).map(recorder).collect();
    let log_writer = LogWriter::new(consumers, file, form, Arc::clone(&control), directory, epoch);
    let log_writer = log_writer.with_refusals(refusals);
    let thread = spawn("access-log", move || log_writer.work())?;
    Ok((Log { control, thread }, recorders))
}

fn start_audit(
    directory: &Arc<Directory>,
    settings: &Settings,
    file: LogFile,
    files: Arc<dyn Files>,
) -> Result<Log, ServerError> {
    let control = Arc::<Control>::default();
    let form = audit::Form {
        is_json: settings.audit_log.format == "json",
        shows_hashes: settings.audit_log.passwords == "hashed",
    };
    let auditor = Auditor::new(directory, file, files, form, Arc::clone(&control));
    let thread = spawn("audit-log", move || auditor.work())?;
    Ok(Log { control, thread })
}

/// Holds what the audit log of these settings does not have yet in the journal, from before the
/// directory is opened; nothing when there is no audit log.
#[must_use]
pub fn journal_hold(settings: &Settings) -> Option<JournalHold> {
    let path = settings.audit_log_path()?;
    let known = position::read(&Disk, &path);
    Some(JournalHold::after(known.map_or(Lsn(0), |position| position.lsn)))
}

/// Opens the log file `path`; `keeper` hears what is to be done with those that are rotated.
fn open(
    files: Arc<dyn Files>,
    path: PathBuf,
    settings: &LogFileSettings,
    keeper: Sender<Keep>,
    now: Timestamp,
) -> Result<LogFile, ServerError> {
    let FileRules { rotation, retention } = file_rules(settings);
    LogFile::open(files, path.clone(), rotation, retention, keeper, now)
        .map_err(|source| ServerError::Io { path, source })
}

fn file_rules(settings: &LogFileSettings) -> FileRules {
    let rotation = Rotation {
        size_bytes: settings.rotate_size_bytes,
        every: settings.rotate_every,
        at_s: settings.rotate_at_min.map(|minutes| u64::from(minutes) * 60),
    };
    let retention = Retention {
        files: settings.keep_files,
        age: settings.keep,
        free_bytes: settings.keep_free_bytes,
        compression: match settings.compress {
            "gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            _ => Compression::None,
        },
    };
    FileRules { rotation, retention }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServerError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(ServerError::Thread)
}

/// Looks after files that were put aside, until no log is left.
fn keep(files: &Receiver<Keep>) {
    // Of this thread alone: whoever serves clients goes first.
    let _ = rustix::process::setpriority_process(None, KEEPER_NICE);
    while let Ok(one) = files.recv() {
        file::keep(&Disk, &one);
    }
}

/// The names in `cn=logs,cn=monitor`.
const ACCESS: &str = "access";
const AUDIT: &str = "audit";

/// Session tracking (draft-wahl-ldap-session).
const SESSION_TRACKING: &str = "1.3.6.1.4.1.21008.108.63.1";
/// Proxied authorization (draft-weltman-ldapv3-proxy-04), and that of RFC 4370.
const PROXIED_1: &str = "2.16.840.1.113730.3.4.12";
const PROXIED_2: &str = "2.16.840.1.113730.3.4.18";

const KEEPER_NICE: i32 = 10;
