//! Sinks at work: a thread for each, which reads what it is to be told and sends it; and one that
//! starts and stops them as `cn=Sinks,cn=config` says, where this server decides.
//!
//! Start at `sinks/runner.rs`; what sends is `sinks/apart.rs`, where it is sent to
//! `sinks/target.rs`, with a file for each kind.
//!
//! Invariant: nothing waits for a sink: it holds a batch of messages and nothing else while its
//! target does not answer.
//! Invariant: what a target does keeps its own sink alone: what sends has a thread of its own, and
//! no thread is waited for without a limit.
//! Invariant: a position is stored behind what its target has confirmed.

mod apart;
mod board;
mod file;
mod files;
mod kafka;
mod nats;
mod partition;
mod received;
mod runner;
mod target;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use directory::Directory;
use directory::sinks::Sink;
use history::log::Role;
use tokio::sync::watch;

use self::apart::{ApartSender, LeftThreads};
pub(crate) use self::board::{SinkBoard, SinkFigures, SinkState};
use self::files::SinkFiles;
use self::runner::{Runner, WAIT_MAX, Waits};
pub(crate) use self::webhook::post_once;
use crate::error::ServerError;
use crate::settings::Settings;

/// The sinks of a server.
pub(crate) struct Sinks {
    stops: Arc<AtomicBool>,
    wake: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread that starts and stops them works with.
struct Keeper {
    directory: Arc<Directory>,
    board: Arc<SinkBoard>,
    files: SinkFiles,
    stops: Arc<AtomicBool>,
    leads: Arc<AtomicBool>,
    wake: Sender<()>,
    woken: Receiver<()>,
    running: BTreeMap<String, Running>,
    /// Those that panicked.
    broken: BTreeMap<String, Broken>,
    /// Their own threads, and those that send for them, which have not ended in time.
    left: LeftThreads,
    left_senders: LeftThreads,
}

/// A sink whose thread has panicked.
struct Broken {
    waits: Waits,
    /// When it begins again, by the clock that never goes back.
    again: Duration,
}

/// A sink at work.
struct Running {
    sink: Arc<Sink>,
    /// The schema that its line was read by.
    generation: u64,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Sinks {
    /// Starts what there is to send, and goes on as that changes.
    ///
    /// # Errors
    /// When there cannot be one more thread.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        settings: &Settings,
        board: &Arc<SinkBoard>,
    ) -> Result<Self, ServerError> {
        let (wake, woken) = bounded(1);
        let (stops, leads) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        if !settings.sinks.run {
            return Ok(Self { stops, wake, thread: None });
        }
        let (told, waker) = (Arc::clone(&leads), wake.clone());
        directory.log().watch(Box::new(move |role| {
            told.store(matches!(role, Role::Deciding(_)), Ordering::Release);
            let _ = waker.try_send(());
        }));
        let keeper = Keeper {
            directory: Arc::clone(directory),
            board: Arc::clone(board),
            files: SinkFiles::new(
                settings.server.data.join(&settings.sinks.directory),
                settings.store.disk_full_bytes,
            ),
            stops: Arc::clone(&stops),
            leads,
            wake: wake.clone(),
            woken,
            running: BTreeMap::new(),
            broken: BTreeMap::new(),
            left: LeftThreads::default(),
            left_senders: LeftThreads::default(),
        };
        let thread = thread::Builder::new()
            .name("sinks".to_owned())
            .spawn(move || keeper.work())
            .map_err(ServerError::Thread)?;
        Ok(Self { stops, wake, thread: Some(thread) })
    }

    /// Has them end: what was confirmed is stored first, as far as that takes no longer than
    /// [`runner::STORE_MAX`].
    pub(crate) fn ask_to_stop(&self) {
        self.stops.store(true, Ordering::Release);
        let _ = self.wake.try_send(());
    }

    /// Waits until they have ended, and no longer than [`STOP_MAX`].
    pub(crate) async fn ended(&self) {
        let is_at_work = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        let all = async {
            while is_at_work() {
                tokio::time::sleep(END_LOOK_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(STOP_MAX, all).await;
    }

    /// Ends them, or leaves them to the end of the process.
    pub(crate) fn stop(&mut self) {
        self.ask_to_stop();
        let Some(thread) = self.thread.take() else { return };
        if !ends_within(&[&thread], STOP_MAX) {
            tracing::error!("the thread that starts sinks does not end, and is left");
        } else if thread.join().is_err() {
            tracing::error!("the thread that starts sinks had panicked");
        }
    }
}

/// Waits until they have ended; `false` where that takes longer.
fn ends_within(threads: &[&JoinHandle<()>], limit: Duration) -> bool {
    let mut waited = Duration::ZERO;
    while !threads.iter().all(|thread| thread.is_finished()) {
        if waited > limit {
            return false;
        }
        thread::park_timeout(END_LOOK_EVERY);
        waited += END_LOOK_EVERY;
    }
    true
}

impl Drop for Sinks {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Keeper {
    fn work(mut self) {
        while !self.stops.load(Ordering::Acquire) {
            let seen = self.directory.changes().last();
            if let Err(error) = self.look() {
                tracing::error!(%error, "the sinks cannot be read");
            }
            let wake = self.wake.clone();
            let wait = self.directory.wait_behind(
                seen,
                Box::new(move || {
                    let _ = wake.try_send(());
                }),
            );
            let _ = self.woken.recv_timeout(LOOK_EVERY);
            drop(wait);
            // What comes together is looked at together.
            if !self.stops.load(Ordering::Acquire) {
                thread::park_timeout(TOGETHER);
            }
        }
        let names: Vec<String> = self.running.keys().cloned().collect();
        self.end(&names);
    }

    /// Has those at work that are to be.
    fn look(&mut self) -> Result<(), String> {
        let generation = self.directory.schema().generation();
        let wanted = self.directory.sinks()?;
        let leads = self.leads.load(Ordering::Acquire);
        self.board.keep(&wanted);
        let is_wanted = |running: &Running| {
            let same = |sink: &Arc<Sink>| sink.text == running.sink.text;
            leads
                && running.generation == generation
                && !running.thread.is_finished()
                && wanted.iter().any(same)
        };
        let over = self.running.iter().filter(|(_, running)| !is_wanted(running));
        let over: Vec<String> = over.map(|(name, _)| name.clone()).collect();
        self.end(&over);
        for sink in &wanted {
            if !leads {
                self.board.of(sink).is(SinkState::Standby, "");
            } else if !self.running.contains_key(&sink.name) && self.may_begin(sink) {
                self.begin(sink, generation);
            }
        }
        self.broken.retain(|name, _| wanted.iter().any(|sink| sink.name == *name));
        Ok(())
    }

    /// Whether nothing of before is at work for it, and it need not wait.
    fn may_begin(&self, sink: &Sink) -> bool {
        if self.left.has(&sink.name) {
            let why = "its thread of before has not ended: it begins behind that";
            self.board.of(sink).is(SinkState::Waiting, why);
            return false;
        }
        let now = self.directory.clock().elapsed();
        self.broken.get(&sink.name).is_none_or(|broken| broken.again <= now)
    }

    fn begin(&mut self, sink: &Arc<Sink>, generation: u64) {
        let (stop, stopped) = watch::channel(false);
        let figures = self.board.of(sink);
        let sender = ApartSender::new(sink, self.files.clone(), self.left_senders.clone());
        let runner = Runner::new(&self.directory, sink, Arc::clone(&figures), sender, stopped);
        let thread = thread::Builder::new().name(format!("sink-{}", sink.name));
        match thread.spawn(move || runner.work()) {
            Ok(thread) => {
                tracing::info!(sink = %sink.name, kind = sink.target.kind(), "a sink begins");
                let sink = Arc::clone(sink);
                let name = sink.name.clone();
                self.running.insert(name, Running { sink, generation, stop, thread });
            }
            Err(error) => {
                tracing::error!(sink = %sink.name, %error, "a sink has no thread");
                figures.is(SinkState::Waiting, &error.to_string());
            }
        }
    }

    /// Ends these, together.
    fn end(&mut self, names: &[String]) {
        let over: Vec<Running> =
            names.iter().filter_map(|name| self.running.remove(name)).collect();
        for running in &over {
            let _ = running.stop.send(true);
        }
        let threads: Vec<&JoinHandle<()>> = over.iter().map(|running| &running.thread).collect();
        ends_within(&threads, END_MAX);
        for Running { sink, thread, .. } in over {
            let name = &sink.name;
            if !thread.is_finished() {
                tracing::error!(sink = %name, "the thread of a sink does not end, and is left");
                self.left.keep(name, thread);
                continue;
            }
            match thread.join() {
                Ok(()) => tracing::info!(sink = %name, "a sink ends"),
                Err(_) => self.panicked(&sink),
            }
        }
    }

    /// It begins again, after waits that grow while that comes soon again.
    fn panicked(&mut self, sink: &Sink) {
        let now = self.directory.clock().elapsed();
        let new = || Broken { waits: Waits::new(), again: now };
        let broken = self.broken.entry(sink.name.clone()).or_insert_with(new);
        if now.saturating_sub(broken.again) > WAIT_MAX {
            *broken = new();
        }
        broken.again = now + broken.waits.next();
        tracing::error!(sink = %sink.name, "the thread of a sink had panicked");
        let figures = self.board.of(sink);
        figures.failed.fetch_add(1, Ordering::Relaxed);
        figures.is(SinkState::Waiting, "its thread had panicked: the log says where");
    }
}

/// How often it is looked at least whether all are at work.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long changes gather before they are looked at.
const TOGETHER: Duration = Duration::from_millis(100);
/// How long threads of sinks may take to end, before they are left.
const END_MAX: Duration = Duration::from_secs(3);
/// The same for the thread that ends them.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether a thread has ended.
const END_LOOK_EVERY: Duration = Duration::from_millis(10);
