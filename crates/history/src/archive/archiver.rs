//! The work of the thread that fills an archive: follows the log.
//!
//! Invariant: nobody waits for it. What the log gave up before it came there is missing in the
//! archive, which says so and begins a new run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use environment::Clock;
use store::Lsn;

use super::writer::ArchiveWriter;
use super::{Archive, ArchiveError};
use crate::log::{CommitLog, Gone, Tail};

/// Fills an archive from a log until it is stopped.
pub struct Archiver {
    archive: Arc<Archive>,
    log: Arc<dyn CommitLog>,
    clock: Arc<dyn Clock>,
    /// The last record that the directory had when it was opened.
    has: Lsn,
    room: Room,
    stop: Arc<ArchiveEnding>,
}

/// Octets that are free on the disk and wanted by others, if that is known and too few.
pub type Room = Box<dyn Fn() -> bool + Send>;

/// Ends an archiver.
#[derive(Debug, Default)]
pub struct ArchiveEnding {
    is_asked: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl ArchiveEnding {
    /// The archiver writes what it has, and ends.
    pub fn stop(&self) {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_asked.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    /// Waits so long, or until it is to end.
    fn pause(&self, length: Duration) {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_asked() {
            let _ = self.changed.wait_timeout(held, length);
        }
    }
}

impl Archiver {
    /// An archiver; `lacks_room` says whether others want the room on the disk that the archive
    /// takes.
    pub fn new(
        archive: &Arc<Archive>,
        log: &Arc<dyn CommitLog>,
        clock: &Arc<dyn Clock>,
        lacks_room: Room,
    ) -> Self {
        Self {
            archive: Arc::clone(archive),
            log: Arc::clone(log),
            clock: Arc::clone(clock),
            has: log.applied(),
            room: lacks_room,
            stop: Arc::default(),
        }
    }

    /// What ends it.
    pub fn stopper(&self) -> Arc<ArchiveEnding> {
        Arc::clone(&self.stop)
    }

    /// Works until it is stopped.
    pub fn work(self) {
        let mut writer = ArchiveWriter::new(&self.archive);
        while let Err(error) = writer.cut_after(self.has).and_then(|()| writer.settle()) {
            self.failed(&mut writer, &error);
            if self.stop.is_asked() {
                return;
            }
            if matches!(error, ArchiveError::Damaged { .. } | ArchiveError::Record { .. }) {
                self.archive.remove_newest();
            } else {
                // Told there; what is left is what there is to go on with.
                let _ = self.archive.forget_removed();
            }
        }
        let mut round = Round::new(&*self.clock);
        while !self.stop.is_asked() {
            if let Err(error) = self.follow(&mut writer, &mut round) {
                self.failed(&mut writer, &error);
                writer = ArchiveWriter::new(&self.archive);
            }
        }
        if let Err(error) = writer.write().and_then(|()| writer.sync()) {
            tracing::warn!(%error, "the last changes are not in the archive; they are in the log");
        }
    }

    /// Follows the log until something fails, or it is to end.
    fn follow(&self, writer: &mut ArchiveWriter, round: &mut Round) -> Result<(), ArchiveError> {
        let mut tail: Option<Box<dyn Tail>> = None;
        while !self.stop.is_asked() {
            let next = writer.next().unwrap_or(Lsn(1));
            let reading = match tail.as_mut() {
                Some(tail) => tail.next_within(Duration::ZERO),
                None => match self.log.tail(next) {
                    Ok(opened) => tail.insert(opened).next_within(Duration::ZERO),
                    Err(gone) => Err(gone),
                },
            };
            match reading {
                Ok(Some(record)) => {
                    writer.add(&record)?;
                    if writer.pending_bytes() >= self.archive.options.block_bytes {
                        round.wrote(&*self.clock);
                        writer.write()?;
                    }
                }
                // Many at a time: to be woken for each would cost more than all else.
                Ok(None) => self.stop.pause(LOOK_EVERY),
                Err(gone) => {
                    tail = self.behind(&gone, next);
                    if tail.is_none() {
                        self.stop.pause(PAUSE);
                    }
                }
            }
            self.now_and_then(writer, round)?;
        }
        Ok(())
    }

    /// What is done each second: what waited long enough is written, all is made durable, and what
    /// is too old goes.
    fn now_and_then(
        &self,
        writer: &mut ArchiveWriter,
        round: &mut Round,
    ) -> Result<(), ArchiveError> {
        if !round.is_due(&*self.clock) {
            return Ok(());
        }
        if writer.pending_bytes() > 0 && round.waited(&*self.clock) >= self.archive.options.delay {
            round.wrote(&*self.clock);
            writer.write()?;
        } else if writer.pending_bytes() == 0 {
            round.wrote(&*self.clock);
        }
        writer.sync()?;
        self.archive.forget_removed()?;
        writer.retire(self.clock.now())?;
        if (self.room)() && writer.make_room() {
            tracing::warn!("the disk is nearly full: the oldest file of the archive was removed");
        }
        self.archive.went_well();
        Ok(())
    }

    /// The reading goes on where the log begins, if it has given up what comes next.
    fn behind(&self, gone: &Gone, next: Lsn) -> Option<Box<dyn Tail>> {
        if gone.first <= next {
            return None;
        }
        // Before the first record of all there was nothing.
        if self.archive.last().is_some() {
            let missing = gone.first.0 - next.0;
            self.archive.missed(missing);
            let (from, to) = (next.0, gone.first.0 - 1);
            tracing::error!(
                "changes {from} to {to} are missing in the archive: the log does not have them \
                 any more"
            );
        }
        self.log.tail(gone.first).ok()
    }

    fn failed(&self, writer: &mut ArchiveWriter, error: &ArchiveError) {
        if self.archive.failed(error) {
            tracing::error!(%error, "the archive cannot be written; the log keeps what it can");
        }
        if error.is_full() && writer.make_room() {
            tracing::warn!("the disk is full: the oldest file of the archive was removed");
        }
        self.stop.pause(PAUSE);
    }
}

/// When things were done last, by the clock that never goes back.
struct Round {
    looked: Duration,
    wrote: Duration,
}

impl Round {
    fn new(clock: &dyn Clock) -> Self {
        Self { looked: clock.elapsed(), wrote: clock.elapsed() }
    }

    fn is_due(&mut self, clock: &dyn Clock) -> bool {
        let now = clock.elapsed();
        let is_due = now.saturating_sub(self.looked) >= LOOK_AROUND_EVERY;
        if is_due {
            self.looked = now;
        }
        is_due
    }

    fn wrote(&mut self, clock: &dyn Clock) {
        self.wrote = clock.elapsed();
    }

    fn waited(&self, clock: &dyn Clock) -> Duration {
        clock.elapsed().saturating_sub(self.wrote)
    }
}

impl std::fmt::Debug for Archiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archiver").field("archive", &self.archive).finish_non_exhaustive()
    }
}

/// How often the log is looked at once all of it was read.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often what was written is made durable, and what is too old is looked for.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(1);

/// How long it takes until what failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);
