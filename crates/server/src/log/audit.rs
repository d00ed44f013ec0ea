//! The thread of the audit log: follows the journal, and writes every change of it.
//!
//! Invariant: the position is written after what it stands for is durable, and the journal keeps
//! what is behind the position. So whatever happens to the process or the disk, a change that was
//! acknowledged is in the log, or in the journal and in the log after the next start.
//! Invariant: nothing is in the log twice: what is behind the position is cut off at the start.

mod text;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use directory::Directory;
use directory::sinks::is_position;
use environment::{Clock, Timestamp};
use history::log::{EncodedRecord, Gone, Tail};
use history::record::Decoder;
use store::Lsn;
use tokio::time::Instant;

use super::Control;
use super::file::LogFile;
use super::files::Files;
use super::position::{self, Position};
pub(super) use text::Form;

/// The thread's state.
pub(super) struct Auditor {
    directory: Arc<Directory>,
    clock: Arc<dyn Clock>,
    file: LogFile,
    files: Arc<dyn Files>,
    path: PathBuf,
    form: Form,
    control: Arc<Control>,
    decoder: Decoder,
    /// The next change to render.
    next: Lsn,
    /// It was never written before.
    is_new: bool,
    /// Lines that are rendered, and not written yet.
    lines: Vec<u8>,
    count: u64,
    /// The last change that is written, and that which is durable as the position says.
    written: Lsn,
    settled: Lsn,
    settled_at: Instant,
}

impl Auditor {
    pub(super) fn new(
        directory: &Arc<Directory>,
        file: LogFile,
        files: Arc<dyn Files>,
        form: Form,
        control: Arc<Control>,
    ) -> Self {
        let decoder = Decoder::new(directory.schema());
        Self {
            directory: Arc::clone(directory),
            clock: Arc::clone(directory.clock()),
            path: file.path().to_owned(),
            file,
            files,
            form,
            control,
            decoder,
            next: Lsn(1),
            is_new: true,
            lines: Vec::new(),
            count: 0,
            written: Lsn(0),
            settled: Lsn(0),
            settled_at: Instant::now(),
        }
    }

    /// Works until the log of changes is closed, and everything is written.
    pub(super) fn work(mut self) {
        let control = Arc::clone(&self.control);
        control.doorbell.belongs_here();
        self.find_place();
        let log = Arc::clone(self.directory.log());
        let mut tail: Option<Box<dyn Tail>> = None;
        let mut wait = Duration::ZERO;
        loop {
            let reading = match tail.as_mut() {
                Some(tail) => tail.next_within(wait),
                None => match log.tail(self.next) {
                    Ok(opened) => tail.insert(opened).next_within(wait),
                    Err(gone) => Err(gone),
                },
            };
            match reading {
                Ok(Some(record)) => {
                    self.render(&record);
                    wait = Duration::ZERO;
                    if self.lines.len() < WRITE_BYTES {
                        continue;
                    }
                }
                // All there is was rendered; when the server ends there will be no more.
                Ok(None) if control.is_stopping() => {
                    self.write();
                    break;
                }
                Ok(None) => wait = LOOK_EVERY,
                Err(gone) => {
                    tail = None;
                    if !self.go_on_after(&gone) {
                        // The log of changes is closed, or cannot be read now.
                        if !self.write() || control.is_stopping() {
                            break;
                        }
                        self.settle_sometimes();
                        thread::park_timeout(PAUSE);
                    }
                }
            }
            if !self.write() {
                break;
            }
            self.settle_sometimes();
            if control.is_to_reopen() {
                let now = self.clock.now();
                self.change_file(now, LogFile::reopen);
            }
        }
        if self.written != self.settled {
            self.settle();
        }
    }

    /// Finds where the log ended, and cuts off what may not be whole.
    fn find_place(&mut self) {
        let now = self.clock.now();
        let Some(known) = position::read(&*self.files, &self.path) else {
            // What is in the file now is not ours to cut off.
            return self.settle();
        };
        // Before the first change was settled, the first one there is comes first.
        self.is_new = known.lsn == Lsn(0);
        self.next = Lsn(known.lsn.0 + 1);
        if let Some((identity, length)) = self.file.position()
            && identity == known.identity
            && length > known.length
        {
            // It is rendered again, from the journal.
            match self.file.truncate(known.length, now) {
                Ok(()) => tracing::info!(
                    octets = length - known.length,
                    "the end of the audit log is written again from the journal"
                ),
                Err(error) => self.failed(&error),
            }
        }
        let applied = self.directory.log().applied();
        if known.lsn > applied {
            let (logged, has) = (known.lsn.0, applied.0);
            let note = format!(
                "the log has changes up to {logged}, the directory only up to {has}: it was \
                 restored; changes with numbers above {has} are different ones from here on"
            );
            self.note(&note);
            self.next = Lsn(has + 1);
        }
        self.written = Lsn(self.next.0 - 1);
        self.settled = known.lsn;
        self.control.lsn.store(known.lsn.0, Ordering::Relaxed);
    }

    /// Whether reading goes on behind changes that the journal does not have; they are missing in
    /// the log, which says so.
    fn go_on_after(&mut self, gone: &Gone) -> bool {
        if gone.first <= self.next {
            return false;
        }
        if !self.is_new {
            let note = format!(
                "changes {} to {} are missing: the journal does not have them any more",
                self.next.0,
                gone.first.0 - 1
            );
            tracing::error!("the audit log has a gap: {note}");
            self.note(&note);
        }
        self.is_new = false;
        self.next = gone.first;
        true
    }

    fn note(&mut self, note: &str) {
        text::note(&mut self.lines, self.form, self.clock.now(), note);
    }

    fn render(&mut self, record: &EncodedRecord) {
        self.decoder.follow(self.directory.schema());
        self.is_new = false;
        self.next = Lsn(record.lsn.0 + 1);
        match self.decoder.decode(&record.bytes) {
            // A sink's own note of where it is.
            Ok(decoded) if decoded.changes.iter().all(is_position) => {}
            Ok(decoded) => {
                let guessed = self.decoder.guessed();
                self.count += text::record(&mut self.lines, self.form, &decoded, guessed);
            }
            Err(error) => {
                let lsn = record.lsn.0;
                tracing::error!(lsn, %error, "a change cannot be written to the audit log");
                self.note(&format!("change {lsn} cannot be written: {error}"));
            }
        }
    }

    /// Writes what was rendered. While that cannot be done it waits; `false` when the server ends
    /// meanwhile.
    fn write(&mut self) -> bool {
        while !self.lines.is_empty() {
            let now = self.clock.now();
            if self.file.is_due(now) {
                self.change_file(now, LogFile::rotate);
            }
            match self.file.append(&self.lines, now) {
                Ok(()) => {
                    self.control.count(|control| &control.lines, self.count);
                    self.control.count(|control| &control.bytes, self.lines.len() as u64);
                    if self.control.set_error(None) {
                        tracing::info!("the audit log can be written again");
                    }
                    self.count = 0;
                    self.lines.clear();
                    self.lines.shrink_to(2 * WRITE_BYTES);
                }
                Err(error) => {
                    self.failed(&error);
                    if self.control.is_stopping() {
                        // What follows the position is written after the next start.
                        return false;
                    }
                    thread::park_timeout(PAUSE);
                    if self.control.is_to_reopen() {
                        self.change_file(now, LogFile::reopen);
                    }
                }
            }
        }
        self.written = Lsn(self.next.0 - 1);
        true
    }

    fn failed(&self, error: &io::Error) {
        if self.control.set_error(Some(error.to_string())) {
            let path = self.path.display();
            tracing::error!(
                %path,
                %error,
                "the audit log cannot be written; the journal keeps what is missing in it"
            );
        }
    }

    /// Goes on in another file. The position is written before and after it, so that at any moment
    /// it is clear which file it means.
    fn change_file(
        &mut self,
        now: Timestamp,
        change: fn(&mut LogFile, Timestamp) -> io::Result<()>,
    ) {
        let changed = self.try_settle().and_then(|()| change(&mut self.file, now));
        if let Err(error) = changed.and_then(|()| self.try_settle()) {
            tracing::error!(%error, "the audit log continues in the same file");
        }
    }

    /// Makes what was written durable, now and then.
    fn settle_sometimes(&mut self) {
        if self.written != self.settled && self.settled_at.elapsed() >= SETTLE_EVERY {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Err(error) = self.try_settle() {
            self.failed(&error);
        }
    }

    fn try_settle(&mut self) -> io::Result<()> {
        self.settled_at = Instant::now();
        self.file.sync()?;
        let Some((identity, length)) = self.file.position() else { return Ok(()) };
        let lsn = self.written;
        position::write(&*self.files, &self.path, Position { lsn, identity, length })?;
        self.settled = lsn;
        self.control.lsn.store(lsn.0, Ordering::Relaxed);
        if let Some(hold) = self.directory.journal_hold() {
            hold.advance(lsn);
        }
        Ok(())
    }
}

/// Changes are written when there are so many octets of them, or no more come.
const WRITE_BYTES: usize = 256 * 1024;

/// How long the log of changes is waited for in one go.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often what was written is made durable. Until then the journal has it.
const SETTLE_EVERY: Duration = Duration::from_secs(1);

/// How long it takes until what failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
