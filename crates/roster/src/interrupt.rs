//! Ctrl-C for commands that must undo something before they end.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::failure::{Exit, Failure};
use crate::output;

/// A flag that Ctrl-C sets. Whoever does not end soon after it, because it waits for input, or gets
/// a second Ctrl-C, is ended: only for commands that may be killed at any time.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::local)?;
    // The handler is there when this returns, not when the thread gets to it.
    let guard = runtime.enter();
    let mut signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
        .map_err(Failure::local)?;
    drop(guard);
    std::thread::spawn(move || {
        runtime.block_on(async {
            if signals.recv().await.is_none() {
                return;
            }
            flag.store(true, Ordering::Relaxed);
            let _ = tokio::time::timeout(GRACE, signals.recv()).await;
        });
        if flag.load(Ordering::Relaxed) {
            // A bar that is drawn still is one line, and the cursor is in it.
            if output::is_watched() {
                let _ = output::draw("\r\x1b[2K");
            }
            output::note(format_args!("roster: error: interrupted"));
            std::process::exit(Exit::Interrupted as i32);
        }
    });
    Ok(interrupted)
}

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
