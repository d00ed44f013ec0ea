//! Ctrl-C for commands that must undo something before they end.

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
            output::note(format_args!("roster: error: interrupted"));
            std::process::exit(Exit::Local as i32);
        }
    });
    Ok(interrupted)
}

/// How long a command may take to end.
const GRACE: Duration = Duration::from_secs(5);
