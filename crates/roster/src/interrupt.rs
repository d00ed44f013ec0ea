//! Ctrl-C for commands that must undo or tell something before they end.

use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};
use crate::output;

/// A flag that Ctrl-C sets. Whoever does not end soon after it, because it waits for input, or gets
/// a second Ctrl-C, is ended: only for commands that may be killed at any time.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    at_signal(&[SignalKind::interrupt()], move || {
        flag.store(true, Ordering::Relaxed);
        Some(GRACE)
    })?;
    Ok(interrupted)
}

/// Whether a command was asked to end early and to tell what it has: by Ctrl-C, by SIGTERM, or by
/// who coordinates it.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    is_asked: AtomicBool,
    is_heeded: AtomicBool,
}

impl Ending {
    /// Listens to signals. The second one ends the process at once; so does the first while nobody
    /// heeds them.
    pub(crate) fn by_signals() -> Result<Arc<Self>, Failure> {
        let ending = Arc::new(Self::default());
        let listener = Arc::clone(&ending);
        at_signal(&[SignalKind::interrupt(), SignalKind::terminate()], move || {
            if !listener.is_heeded.load(Ordering::Relaxed) {
                return None;
            }
            listener.ask();
            Some(Duration::MAX)
        })?;
        Ok(ending)
    }

    /// From now on somebody looks whether it is asked, or nobody does any more.
    pub(crate) fn heed(&self, is_heeded: bool) {
        self.is_heeded.store(is_heeded, Ordering::Relaxed);
    }

    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

/// Signals that are looked for by and by.
pub(crate) struct Signals {
    runtime: Runtime,
    signals: Vec<Signal>,
}

impl Signals {
    /// From now on they do not end the process.
    pub(crate) fn listen(kinds: &[SignalKind]) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::local)?;
        let guard = runtime.enter();
        let signals: Result<Vec<Signal>, _> = kinds.iter().map(|kind| signal(*kind)).collect();
        drop(guard);
        Ok(Self { runtime, signals: signals.map_err(Failure::local)? })
    }

    /// Whether one of them has come since.
    pub(crate) fn has_come(&mut self) -> bool {
        let Self { runtime, signals } = self;
        // The timer is of the runtime, too.
        runtime.block_on(async { tokio::time::timeout(LOOK, any(signals)).await.is_ok() })
    }
}

/// Has a signal not end the process, from now on, whether or not somebody listens to it.
pub(crate) fn listen(kind: SignalKind) -> Result<(), Failure> {
    // The handler stays when nobody listens any more.
    Signals::listen(&[kind]).map(drop)
}

/// Does `first` at the first of these signals, and ends the process at the second, or when the time
/// that `first` returned is over; at once without.
fn at_signal(
    kinds: &[SignalKind],
    first: impl FnOnce() -> Option<Duration> + Send + 'static,
) -> Result<(), Failure> {
    // The handlers are there when this returns, not when the thread gets to it.
    let Signals { runtime, mut signals } = Signals::listen(kinds)?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            any(&mut signals).await;
            if let Some(grace) = first() {
                let _ = tokio::time::timeout(grace, any(&mut signals)).await;
            }
        });
        // A bar that is drawn still is one line, and the cursor is in it.
        if output::is_watched() {
            let _ = output::draw("\r\x1b[2K");
        }
        output::note(format_args!("roster: error: interrupted"));
        if let Some(left) = *LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner) {
            output::note(format_args!("roster: warning: {left}"));
        }
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(())
}

/// Says what stays undone if the process is ended by a signal from now on.
pub(crate) fn leaves_behind(what: Option<&'static str>) {
    *LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

/// What is told when the process is ended by a signal.
static LEFT_BEHIND: Mutex<Option<&'static str>> = Mutex::new(None);

/// The next of these signals.
async fn any(signals: &mut [Signal]) {
    poll_fn(|context| {
        let mut polled = signals.iter_mut().map(|signal| signal.poll_recv(context));
        if polled.any(|signal| signal.is_ready()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// How long it takes to see a signal that has come.
const LOOK: Duration = Duration::from_millis(10);

/// What goes to `out` until Ctrl-C: then it cannot be written any more, and whoever writes it
/// undoes what there is.
pub(crate) struct Until<'o, W> {
    pub(crate) out: &'o mut W,
    pub(crate) interrupted: &'o AtomicBool,
}

impl<W: Write> Write for Until<'_, W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(io::Error::other("interrupted")),
            false => self.out.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What failed because of Ctrl-C did not fail.
pub(crate) fn told<T>(interrupted: &AtomicBool, result: Result<T, Failure>) -> Result<T, Failure> {
    match interrupted.load(Ordering::Relaxed) {
        true => result.map_err(|_| Failure::interrupted("interrupted: nothing is kept")),
        false => result,
    }
}

/// How long a command may take to end.
const GRACE: Duration = Duration::from_secs(5);
