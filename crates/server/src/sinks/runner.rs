//! One sink at work: reads a batch, has it sent until it is confirmed, stores where it is.
//!
//! Invariant: a message is sent only while the batch is young, and never after a wait, be it for a
//! connection: what is left is made anew, by the rights of then.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use directory::Directory;
use directory::sinks::{Sink, SinkGap, SinkMessage, SinkPause, SinkReader, WhenGone};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::apart::ApartSender;
use super::board::{SinkFigures, SinkState};
use super::target::{NotSent, SendTime};

/// A sink and what it works with.
pub(super) struct Runner {
    directory: Arc<Directory>,
    sink: Arc<Sink>,
    figures: Arc<SinkFigures>,
    sender: ApartSender,
    stop: watch::Receiver<bool>,
    /// What is not stored yet of where it is.
    unstored: Unstored,
    attempts: Attempts,
}

/// What came of attempts to send, which outlives a batch.
struct Attempts {
    waits: Waits,
    /// The message that was refused last, and how often.
    refused: Option<(String, u32)>,
    /// Messages behind the position that were confirmed, or left out, with their numbers.
    done: BTreeMap<String, u64>,
    /// The last batch became too old before anything of it was confirmed.
    is_stale: bool,
}

/// When the position is to be stored.
#[derive(Default)]
struct Unstored {
    /// By the clock that never goes back.
    last: Duration,
    has_sent: bool,
    /// Changes that were passed.
    passed: u64,
    /// Storing it failed.
    failed: Arc<AtomicBool>,
}

/// Waits that grow.
pub(super) struct Waits(Duration);

/// It has to end.
struct Stop;

impl Runner {
    pub(super) fn new(
        directory: &Arc<Directory>,
        sink: &Arc<Sink>,
        figures: Arc<SinkFigures>,
        sender: ApartSender,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let (directory, sink) = (Arc::clone(directory), Arc::clone(sink));
        let (unstored, attempts) = (Unstored::default(), Attempts::new());
        Self { directory, sink, figures, sender, stop, unstored, attempts }
    }

    /// Works until it is told to stop.
    pub(super) fn work(mut self) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(sink = %self.sink.name, %error, "a sink cannot work");
                return;
            }
        };
        runtime.block_on(async {
            let Ok(mut reader) = self.open().await else { return };
            // It ends in no other way.
            let Err(Stop) = self.all(&mut reader).await;
            self.store_last(&reader).await;
        });
        // A look-up of a name may not have ended.
        runtime.shutdown_background();
    }

    /// The reader, as soon as there is one.
    async fn open(&mut self) -> Result<SinkReader, Stop> {
        self.figures.is_behind(None);
        let mut waits = Waits::new();
        loop {
            let why = match SinkReader::open(&self.directory, &self.sink) {
                Ok(Some(reader)) => return Ok(reader),
                Ok(None) => "it is not known where it is to begin".to_owned(),
                Err(error) => error,
            };
            self.is_kept(SinkState::Waiting, &why);
            self.rest(waits.next()).await?;
        }
    }

    async fn all(&mut self, reader: &mut SinkReader) -> Result<std::convert::Infallible, Stop> {
        let mut waits = Waits::new();
        self.show(reader);
        loop {
            if *self.stop.borrow() {
                return Err(Stop);
            }
            match reader.next_batch() {
                Ok(batch) => {
                    waits = Waits::new();
                    if !self.deliver(reader, batch.messages).await? {
                        continue;
                    }
                    self.unstored.passed += batch.passed;
                    reader.pass(batch.end);
                    self.attempts.forget_before(reader);
                    self.figures.is(SinkState::Running, "");
                    self.show(reader);
                    self.store_if_due(reader);
                    if batch.is_last {
                        self.idle(reader).await?;
                    } else {
                        tokio::task::yield_now().await;
                    }
                }
                Err(SinkPause::Gap(gap)) => self.leap(reader, &gap).await?,
                Err(SinkPause::Identity(why) | SinkPause::Failed(why)) => {
                    self.is_kept(SinkState::Waiting, &why);
                    self.rest(waits.next()).await?;
                }
            }
        }
    }

    /// Sends until all is confirmed or left out: `true`; or until what is left is to be made anew,
    /// since the identity may have lost its rights.
    async fn deliver(
        &mut self,
        reader: &mut SinkReader,
        mut pending: Vec<SinkMessage>,
    ) -> Result<bool, Stop> {
        let made = self.directory.clock().elapsed();
        self.attempts.leave_out_done(&mut pending);
        while let Some(first) = pending.first() {
            self.figures.is_behind(Some(first.time));
            let named = |message: &SinkMessage| (message.id.clone(), message.number);
            let before: Vec<(String, u64)> = pending.iter().map(named).collect();
            let sent = self.send(&mut pending, made + BATCH_AGE_MAX).await?;
            if !matches!(sent, Err(NotSent::Lost(_))) {
                self.confirmed(before, &pending);
                self.move_before(reader, &pending);
            }
            match sent {
                Ok(()) => {
                    if self.figures.is(SinkState::Running, "") {
                        tracing::info!(sink = %self.sink.name, "a sink sends");
                    }
                }
                Err(NotSent::Away(why) | NotSent::Lost(why)) => {
                    self.figures.failed.fetch_add(1, Ordering::Relaxed);
                    self.is_kept(SinkState::Waiting, &why);
                    self.rest_of_target().await?;
                    return Ok(false);
                }
                Err(NotSent::Stale) => {
                    if mem::replace(&mut self.attempts.is_stale, true) {
                        self.figures.failed.fetch_add(1, Ordering::Relaxed);
                        self.is_kept(SinkState::Waiting, "its connection takes long, and is lost");
                        self.rest_of_target().await?;
                    }
                    return Ok(false);
                }
                Err(NotSent::Refused { at, why }) => {
                    self.figures.failed.fetch_add(1, Ordering::Relaxed);
                    let Some(message) = pending.get(at) else { continue };
                    if self.attempts.refused(&message.id) >= self.sink.tries {
                        let message = pending.remove(at);
                        self.bury(&message, &why);
                        self.attempts.done.insert(message.id, message.number);
                        self.unstored.has_sent = true;
                        self.move_before(reader, &pending);
                    } else {
                        self.is_kept(SinkState::Waiting, &why);
                        self.rest_of_target().await?;
                        return Ok(false);
                    }
                }
            }
            let age = self.directory.clock().elapsed().saturating_sub(made);
            if age > BATCH_AGE_MAX && !pending.is_empty() {
                return Ok(false);
            }
        }
        self.figures.is_behind(None);
        Ok(true)
    }

    /// Has some of it sent, until then, by the clock that never goes back; unless it has to end.
    async fn send(
        &mut self,
        pending: &mut Vec<SinkMessage>,
        until: Duration,
    ) -> Result<Result<(), NotSent>, Stop> {
        let Self { directory, sink, figures, sender, stop, .. } = self;
        let clock = directory.clock();
        let until = Instant::now() + until.saturating_sub(clock.elapsed());
        let time = SendTime { now: clock.now(), until };
        let mut is_kept = |why: &str| {
            figures.failed.fetch_add(1, Ordering::Relaxed);
            if figures.is(SinkState::Waiting, why) {
                tracing::warn!(sink = %sink.name, why, "a sink is kept");
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stops| *stops) => Err(Stop),
            sent = sender.send(pending, time, &mut is_kept) => Ok(sent),
        }
    }

    /// Counts what is pending no more.
    fn confirmed(&mut self, before: Vec<(String, u64)>, pending: &[SinkMessage]) {
        let count = before.len() - pending.len();
        if count == 0 {
            return;
        }
        self.figures.sent.fetch_add(count as u64, Ordering::Relaxed);
        self.attempts.waits = Waits::new();
        self.attempts.is_stale = false;
        self.unstored.has_sent = true;
        let mut left = pending.iter().map(|message| &message.id).peekable();
        for (id, number) in before {
            // In order: those that are pending are among those that were.
            if left.next_if(|pending| **pending == id).is_none() {
                self.attempts.done.insert(id, number);
            }
        }
    }

    /// Moves to the last record all of whose messages are confirmed.
    fn move_before(&mut self, reader: &mut SinkReader, pending: &[SinkMessage]) {
        let Some(first) = pending.first() else { return };
        if first.before.lsn > reader.position().lsn {
            reader.pass(first.before);
            self.attempts.forget_before(reader);
            self.show(reader);
        }
        self.store_if_due(reader);
    }

    async fn rest_of_target(&mut self) -> Result<(), Stop> {
        // A rest may cost the connection: the one after it may take as long to begin as the first.
        self.attempts.is_stale = false;
        let time = self.attempts.waits.next();
        self.rest(time).await
    }

    /// A message that its target does not take is left out.
    fn bury(&self, message: &SinkMessage, why: &str) {
        self.figures.dead.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            sink = %self.sink.name, change = message.number, id = %message.id, why,
            "a dead letter: the target of a sink refuses a message for good, which is left out"
        );
    }

    /// Changes are gone that it was not told.
    async fn leap(&mut self, reader: &mut SinkReader, gap: &SinkGap) -> Result<(), Stop> {
        let SinkGap { missing, reason, resume } = gap;
        let why =
            format!("{missing} changes behind {} are gone: {reason}", reader.position().lsn.0);
        if self.sink.when_gone == WhenGone::Stop {
            let why = format!("{why}; drop it and add it again to begin anew");
            self.is_kept(SinkState::Stopped, &why);
            let _ = self.stop.wait_for(|stops| *stops).await;
            return Err(Stop);
        }
        self.figures.missing.fetch_add(*missing, Ordering::Relaxed);
        tracing::error!(sink = %self.sink.name, missing, "{why}; it goes on behind them");
        reader.pass(*resume);
        self.unstored.has_sent = true;
        // What cannot be read again and again is not asked for again and again.
        self.rest(WAIT_FIRST).await
    }

    /// Waits for a change, or until the position is to be stored.
    async fn idle(&mut self, reader: &SinkReader) -> Result<(), Stop> {
        let (wake, woken) = oneshot::channel();
        let wait = reader.wait(Box::new(move || {
            let _ = wake.send(());
        }));
        let due = self.unstored.due_in(self.directory.clock().elapsed());
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stops| *stops) => return Err(Stop),
            _ = woken => {}
            () = sleep(due) => {}
        }
        drop(wait);
        self.store_if_due(reader);
        Ok(())
    }

    fn show(&self, reader: &SinkReader) {
        self.figures.position.store(reader.position().lsn.0, Ordering::Relaxed);
    }

    fn store_if_due(&mut self, reader: &SinkReader) {
        let now = self.directory.clock().elapsed();
        if !self.unstored.due_in(now).is_zero() {
            return;
        }
        self.unstored = Unstored { last: now, ..Unstored::default() };
        let (failed, sink) = (Arc::clone(&self.unstored.failed), self.sink.name.clone());
        reader.store(Box::new(move |stored| {
            if let Err(error) = stored {
                failed.store(true, Ordering::Relaxed);
                tracing::debug!(sink, error, "the position of a sink was not stored");
            }
        }));
    }

    /// Stores where it is before it ends, if that does not take long.
    async fn store_last(&mut self, reader: &SinkReader) {
        if !self.unstored.is_any() {
            return;
        }
        let (done, stored) = oneshot::channel();
        reader.store(Box::new(move |outcome| drop(done.send(outcome))));
        let _ = timeout(STORE_MAX, stored).await;
    }

    /// Shows what keeps it, and logs it once.
    fn is_kept(&self, state: SinkState, why: &str) {
        if self.figures.is(state, why) {
            tracing::warn!(sink = %self.sink.name, state = state.word(), why, "a sink is kept");
        }
    }

    async fn rest(&mut self, time: Duration) -> Result<(), Stop> {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stops| *stops) => Err(Stop),
            () = sleep(time) => Ok(()),
        }
    }
}

impl Attempts {
    const fn new() -> Self {
        Self { waits: Waits::new(), refused: None, done: BTreeMap::new(), is_stale: false }
    }

    /// Takes away what was confirmed or left out before the batch was made anew.
    fn leave_out_done(&self, pending: &mut Vec<SinkMessage>) {
        pending.retain(|message| !self.done.contains_key(&message.id));
    }

    /// What is before the position does not come again. A batch that is made anew may be shorter
    /// than the one before: what is behind it is kept.
    fn forget_before(&mut self, reader: &SinkReader) {
        let position = reader.position().lsn.0;
        self.done.retain(|_, number| *number > position);
    }

    /// A message was refused; how often by now.
    fn refused(&mut self, id: &str) -> u32 {
        let tries = match &self.refused {
            Some((last, tries)) if last == id => tries + 1,
            _ => 1,
        };
        self.refused = Some((id.to_owned(), tries));
        tries
    }
}

impl Unstored {
    fn is_any(&self) -> bool {
        self.has_sent || self.passed > 0 || self.failed.load(Ordering::Relaxed)
    }

    /// How long it may wait.
    fn due_in(&self, now: Duration) -> Duration {
        let every = if self.has_sent || self.failed.load(Ordering::Relaxed) {
            STORE_EVERY
        } else if self.passed >= PASSED_MAX {
            Duration::ZERO
        } else if self.passed > 0 {
            STORE_PASSED_EVERY
        } else {
            return IDLE_MAX;
        };
        (self.last + every).saturating_sub(now)
    }
}

impl Waits {
    pub(super) const fn new() -> Self {
        Self(WAIT_FIRST)
    }

    pub(super) fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(WAIT_MAX);
        now
    }
}

/// The wait after the first attempt that failed; each is twice the one before.
const WAIT_FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);
/// The oldest batch of which something is sent.
const BATCH_AGE_MAX: Duration = Duration::from_secs(2);
/// How often the position is stored while messages are sent.
const STORE_EVERY: Duration = Duration::from_secs(1);
/// The same where changes were passed that are none of the sink's.
const STORE_PASSED_EVERY: Duration = Duration::from_secs(3_600);
/// So many of them are not waited for.
const PASSED_MAX: u64 = 10_000;
/// How long it waits for changes at a time.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// How long the end waits until the position is stored.
pub(super) const STORE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        let mut waits = Waits::new();
        let all: Vec<u128> = (0..9).map(|_| waits.next().as_millis()).collect();
        assert_eq!(all, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    }

    #[test]
    fn a_position_is_stored_when_something_was_told_and_not_for_its_own_sake() {
        let at = Duration::from_secs(100);
        let unstored =
            |has_sent, passed| Unstored { last: at, has_sent, passed, ..Unstored::default() };
        assert_eq!(unstored(true, 1).due_in(at), STORE_EVERY);
        assert!(unstored(true, 0).due_in(at + STORE_EVERY).is_zero());
        assert!(unstored(false, PASSED_MAX).due_in(at).is_zero());
        assert_eq!(unstored(false, 1).due_in(at), STORE_PASSED_EVERY);
        assert!(!unstored(false, 0).is_any());
        assert_eq!(unstored(false, 0).due_in(at * 1_000), IDLE_MAX);
    }
}
