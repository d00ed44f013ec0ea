//! The thread of the access log: takes what the workers left, makes lines of it, writes them.
//!
//! Invariant: a line that could not be written is counted, and the log says so as soon as it can.

use std::sync::{Arc, Weak};
use std::time::Duration;

use directory::Directory;
use environment::{Clock, Timestamp};
use tokio::time::Instant;

use super::Control;
use super::file::LogFile;
use super::filter::Secrets;
use super::line::Form;
use super::refusals::Refusals;
use super::render::Renderer;
use super::ring::Consumer;

/// The thread's state.
pub(super) struct LogWriter {
    consumers: Vec<Consumer>,
    file: LogFile,
    renderer: Renderer,
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    directory: Weak<Directory>,
    epoch: Instant,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    count: u64,
    record: Vec<u8>,
    /// Records without room in a ring, as far as the log says so.
    dropped_logged: u64,
    /// Lines that could not be written, as far as the log does not say so.
    lost: u64,
    /// Connections that were refused.
    refusals: Arc<Refusals>,
    /// How many of them the log says have no line, and since when.
    left_out_logged: u64,
    left_out_at: Instant,
    /// When the disk was looked at for files that have to go.
    kept: Instant,
}

impl LogWriter {
    pub(super) fn new(
        consumers: Vec<Consumer>,
        file: LogFile,
        form: Form,
        control: Arc<Control>,
        directory: &Arc<Directory>,
        epoch: Instant,
    ) -> Self {
        Self {
            consumers,
            file,
            renderer: Renderer::new(form, Secrets::new(directory.schema())),
            control,
            clock: Arc::clone(directory.clock()),
            directory: Arc::downgrade(directory),
            epoch,
            lines: Vec::new(),
            count: 0,
            record: Vec::new(),
            dropped_logged: 0,
            lost: 0,
            refusals: Arc::default(),
            left_out_logged: 0,
            left_out_at: epoch,
            kept: epoch,
        }
    }

    /// One that also logs how many refused connections have no line.
    pub(super) fn with_refusals(self, refusals: Arc<Refusals>) -> Self {
        Self { refusals, ..self }
    }

    /// Works until the server ends, and everything is written.
    pub(super) fn work(mut self) {
        let control = Arc::clone(&self.control);
        control.doorbell.belongs_here();
        loop {
            // Looked at first: what was put in before it was set is taken below.
            let is_stopping = control.is_stopping();
            let some = self.drain();
            if is_stopping {
                break;
            }
            if some {
                control.doorbell.gather(GATHER);
            } else {
                control.doorbell.sleep(IDLE);
            }
        }
        if let Err(error) = self.file.sync() {
            tracing::warn!(%error, "the end of the access log may not be on the disk");
        }
    }

    /// Writes all there is; says whether there was anything.
    fn drain(&mut self) -> bool {
        let now = self.clock.now();
        // The wall clock may be set while the server runs.
        let since = u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.renderer.epoch = Timestamp(now.0.saturating_sub(since));
        if let Some(directory) = self.directory.upgrade() {
            self.renderer.secrets.set_schema(directory.schema());
        }
        if self.control.is_to_reopen()
            && let Err(error) = self.file.reopen(now)
        {
            tracing::error!(%error, "the access log cannot be reopened");
        }
        self.look_after_disk(now);
        let mut some = false;
        let mut consumers = std::mem::take(&mut self.consumers);
        for consumer in &mut consumers {
            while consumer.take(&mut self.record) {
                some = true;
                self.count += u64::from(self.renderer.record(&self.record, &mut self.lines));
                if self.lines.len() >= WRITE_BYTES {
                    self.write(now);
                }
            }
        }
        let dropped = consumers.iter().map(Consumer::dropped).sum::<u64>();
        self.consumers = consumers;
        let more = dropped - self.dropped_logged;
        if more > 0 {
            self.dropped_logged = dropped;
            self.control.count(|control| &control.dropped, more);
            self.renderer.dropped(more, "the log did not keep up", now, &mut self.lines);
            tracing::warn!(count = more, "records of the access log were dropped");
        }
        self.log_left_out(now);
        self.write(now);
        if self.file.is_due(now)
            && let Err(error) = self.file.rotate(now)
        {
            tracing::error!(%error, "the access log cannot be rotated");
        }
        some
    }

    /// How many refused connections have no line: now and then, and at the end.
    fn log_left_out(&mut self, now: Timestamp) {
        let left_out = self.refusals.left_out();
        let more = left_out - self.left_out_logged;
        if more > 0 && (self.left_out_at.elapsed() >= LEFT_OUT_EVERY || self.control.is_stopping())
        {
            (self.left_out_logged, self.left_out_at) = (left_out, Instant::now());
            self.renderer.left_out(more, now, &mut self.lines);
            self.count += 1;
        }
    }

    fn write(&mut self, now: Timestamp) {
        if self.lines.is_empty() {
            return;
        }
        if self.file.is_due(now)
            && let Err(error) = self.file.rotate(now)
        {
            tracing::error!(%error, "the access log cannot be rotated");
        }
        if self.lost > 0 {
            let mut report = Vec::new();
            self.renderer.dropped(self.lost, "the file could not be written", now, &mut report);
            // They are lost as well if it still cannot be.
            self.lines.splice(..0, report);
        }
        match self.file.append(&self.lines, now) {
            Ok(()) => {
                self.control.count(|control| &control.lines, self.count);
                self.control.count(|control| &control.bytes, self.lines.len() as u64);
                if self.control.set_error(None) {
                    tracing::info!(lost = self.lost, "the access log can be written again");
                }
                self.lost = 0;
            }
            Err(error) => {
                self.lost += self.count;
                self.control.count(|control| &control.dropped, self.count);
                if self.control.set_error(Some(error.to_string())) {
                    let path = self.file.path().display();
                    tracing::error!(%path, %error, "the access log cannot be written");
                }
            }
        }
        self.count = 0;
        self.lines.clear();
        self.lines.shrink_to(2 * WRITE_BYTES);
    }

    /// The disk may fill up although this log puts nothing aside.
    fn look_after_disk(&mut self, now: Timestamp) {
        if self.file.watches_disk() && self.kept.elapsed() >= KEEP_EVERY {
            self.kept = Instant::now();
            self.file.keep(now);
        }
    }
}

/// How long lines are gathered.
const GATHER: Duration = Duration::from_millis(50);

/// How often the log says how many refused connections have no line.
const LEFT_OUT_EVERY: Duration = Duration::from_secs(10);

/// How long a log sleeps at the most.
const IDLE: Duration = Duration::from_secs(1);

/// Lines are written when there are so many octets of them.
const WRITE_BYTES: usize = 128 * 1024;

/// How often the disk is looked at.
const KEEP_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
