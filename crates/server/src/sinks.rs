//! Sinks at work: a thread for each, which reads what it is to be told and sends it; and one that
//! starts and stops them as `cn=Sinks,cn=config` says, where this server decides.
//!
//! Start at `sinks/runner.rs`; where it is sent to is `sinks/target.rs`, with a file for each kind.
//!
//! Invariant: nothing waits for a sink: it holds a batch of messages and nothing else while its
//! target does not answer.
//! Invariant: a position is stored behind what its target has confirmed.

mod board;
mod file;
mod files;
mod kafka;
mod nats;
mod partition;
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

pub(crate) use self::board::{SinkBoard, SinkFigures, SinkState};
use self::files::SinkFiles;
use self::runner::Runner;
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
        };
        let thread = thread::Builder::new()
            .name("sinks".to_owned())
            .spawn(move || keeper.work())
            .map_err(ServerError::Thread)?;
        Ok(Self { stops, wake, thread: Some(thread) })
    }

    /// Ends them: what was confirmed is stored first, as far as that takes no longer than
    /// [`runner::STORE_MAX`].
    pub(crate) fn stop(&mut self) {
        self.stops.store(true, Ordering::Release);
        let _ = self.wake.try_send(());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that starts sinks had panicked");
        }
    }
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
            } else if !self.running.contains_key(&sink.name) {
                self.begin(sink, generation);
            }
        }
        Ok(())
    }

    fn begin(&mut self, sink: &Arc<Sink>, generation: u64) {
        let (stop, stopped) = watch::channel(false);
        let figures = self.board.of(sink);
        let runner =
            Runner::new(&self.directory, sink, Arc::clone(&figures), self.files.clone(), stopped);
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
        for running in over {
            let name = &running.sink.name;
            match running.thread.join() {
                Ok(()) => tracing::info!(sink = %name, "a sink ends"),
                Err(_) => tracing::error!(sink = %name, "the thread of a sink had panicked"),
            }
        }
    }
}

/// How often it is looked at least whether all are at work.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long changes gather before they are looked at.
const TOGETHER: Duration = Duration::from_millis(100);
