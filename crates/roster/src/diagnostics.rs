//! Diagnostics, on standard error.
//!
//! Invariant: whoever does not read them stops nobody. A thread of its own writes them; lines that
//! find no room in its queue are lost, and counted: the log tells how many, once it is read again.

use std::io::{self, Stderr, Write};
use std::sync::{Arc, OnceLock};

use server::{HearSettings, Settings};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::output;

/// Writes what is in the queue when it goes, unless nobody reads: so long it waits a second.
#[must_use]
pub(crate) struct Log {
    _guard: WorkerGuard,
    set: SetFilter,
}

/// Has another filter hold.
type SetFilter = Arc<dyn Fn(&str) + Send + Sync>;

impl Log {
    /// What has the log follow `log.level`.
    pub(crate) fn follower(&self) -> HearSettings {
        let set = Arc::clone(&self.set);
        Box::new(move |settings| set(&filter(settings.log.level)))
    }
}

/// Sends diagnostics to standard error, as `[log]` says.
pub(crate) fn start_log(settings: &Settings) -> Log {
    let counter = Arc::new(OnceLock::new());
    let writer = Telling { to: io::stderr(), counter: Arc::clone(&counter), told: 0 };
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING_LINES_MAX)
        .thread_name("log")
        .finish(writer);
    let _ = counter.set(writer.error_counter());
    let filter = EnvFilter::new(filter(settings.log.level));
    let builder = tracing_subscriber::fmt().with_ansi(output::is_watched()).with_writer(writer);
    // A second subscriber would be refused: the first one stays, as in tests.
    let set: SetFilter = if settings.log.format == "json" {
        let builder = builder.json().with_env_filter(filter).with_filter_reloading();
        let handle = builder.reload_handle();
        let _ = builder.try_init();
        Arc::new(move |text| drop(handle.reload(EnvFilter::new(text))))
    } else {
        let builder = builder.with_env_filter(filter).with_filter_reloading();
        let handle = builder.reload_handle();
        let _ = builder.try_init();
        Arc::new(move |text| drop(handle.reload(EnvFilter::new(text))))
    };
    Log { _guard: guard, set }
}

/// What is logged at a level. The engine of clusters warns ten times a second of a member that is
/// away, and tells its inner state at every start: that is for whoever looks for a fault in it.
/// What an operator should know of it, the server tells itself; and of the targets of sinks, whose
/// words their libraries would write as they come.
fn filter(level: &str) -> String {
    match level {
        "debug" | "trace" => level.to_owned(),
        _ => format!("{level},openraft=error,async_nats=off,rskafka=off"),
    }
}

/// Standard error, and how many lines never came to it.
struct Telling {
    to: Stderr,
    counter: Arc<OnceLock<ErrorCounter>>,
    /// Lost lines that the log has told of.
    told: usize,
}

impl Write for Telling {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.to.write(line)?;
        let lost = self.counter.get().map_or(0, ErrorCounter::dropped_lines);
        if lost > self.told {
            let count = lost - self.told;
            self.told = lost;
            // It takes its place in the queue, like any line.
            tracing::warn!(count, "lines of this log were lost: standard error was not read");
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Lines that wait to be written: some megabytes.
const WAITING_LINES_MAX: usize = 10_000;
