//! Sends on a thread of its own: what a target, or the library that speaks to it, does there may
//! block or panic, and keeps nobody but this sink.
//!
//! Invariant: a thread that does not come back is left, and none begins beside it that sends for a
//! sink of the same name, until it has ended. It has hold of nothing but the target and a batch.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use directory::sinks::{Sink, SinkMessage};
use environment::Timestamp;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::files::SinkFiles;
use super::target::{NotSent, Sender};

/// Threads that were left, by the names of their sinks.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftThreads(Arc<Mutex<Vec<LeftThread>>>);

#[derive(Debug)]
struct LeftThread {
    name: String,
    thread: JoinHandle<()>,
}

/// What sends for a sink, seen from the sink's own thread.
pub(super) struct ApartSender {
    sink: Arc<Sink>,
    files: SinkFiles,
    left: LeftThreads,
    at_work: Option<AtWork>,
}

struct AtWork {
    orders: mpsc::UnboundedSender<Order>,
    /// It grows while the thread is not kept by a call.
    beats: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// What is to be sent.
struct Order {
    pending: Vec<SinkMessage>,
    now: Timestamp,
    answer: oneshot::Sender<Answer>,
}

/// What is left of it, and why.
struct Answer {
    pending: Vec<SinkMessage>,
    sent: Result<(), NotSent>,
}

impl LeftThreads {
    /// Keeps a thread in mind that has not ended.
    pub(super) fn keep(&self, name: &str, thread: JoinHandle<()>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(LeftThread { name: name.to_owned(), thread });
    }

    /// Whether one of this name has not ended.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|left| !left.thread.is_finished());
        all.iter().any(|left| left.name == name)
    }
}

impl ApartSender {
    pub(super) fn new(sink: &Arc<Sink>, files: SinkFiles, left: LeftThreads) -> Self {
        Self { sink: Arc::clone(sink), files, left, at_work: None }
    }

    /// Sends some messages, as [`Sender::send`] does. `is_kept` is told once when a call does not
    /// come back in time; it is waited for nevertheless, since what it was given may yet be sent.
    /// Where the thread has panicked (`Lost`) `pending` is empty, whatever was sent of it.
    pub(super) async fn send(
        &mut self,
        pending: &mut Vec<SinkMessage>,
        now: Timestamp,
        is_kept: &mut dyn FnMut(&str),
    ) -> Result<(), NotSent> {
        if self.at_work.as_ref().is_some_and(|at_work| at_work.orders.is_closed()) {
            self.leave();
        }
        let at_work = match self.at_work.take() {
            Some(at_work) => at_work,
            None => self.begin().await?,
        };
        let at_work = self.at_work.insert(at_work);
        let (answer, mut answered) = oneshot::channel();
        let order = Order { pending: mem::take(pending), now, answer };
        // Where it is gone the answer does not come either.
        let _ = at_work.orders.send(order);
        let (mut last, mut still, mut is_told) = (0, Duration::ZERO, false);
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answered => break answer,
                () = sleep(BEAT) => {}
            }
            let beats = at_work.beats.load(Ordering::Relaxed);
            still = if beats == last { still + BEAT } else { Duration::ZERO };
            last = beats;
            if still > self.sink.target.timeout() + BEAT && !mem::replace(&mut is_told, true) {
                let seconds = still.as_secs();
                is_kept(&format!("a call has not come back for {seconds} seconds"));
            }
        };
        match answer {
            Ok(Answer { pending: left, sent }) => {
                *pending = left;
                if matches!(sent, Err(NotSent::Away(_))) {
                    // It ends: all begins anew.
                    self.leave();
                }
                sent.map_err(NotSent::shortened)
            }
            Err(_) => {
                self.leave();
                Err(NotSent::Lost("its thread has ended: the log says why".to_owned()))
            }
        }
    }

    async fn begin(&self) -> Result<AtWork, NotSent> {
        let name = &self.sink.name;
        let mut waited = Duration::ZERO;
        while self.left.has(name) && waited < BEGIN_MAX {
            sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
        if self.left.has(name) {
            let why = "a call of before has not come back: a sink of this name begins behind it";
            return Err(NotSent::Away(why.to_owned()));
        }
        let (orders, ordered) = mpsc::unbounded_channel();
        let beats = Arc::<AtomicU64>::default();
        let (sender, beating) = (Sender::of(&self.sink, &self.files), Arc::clone(&beats));
        let thread = thread::Builder::new()
            .name(format!("send-{name}"))
            .spawn(move || work(sender, ordered, &beating))
            .map_err(|error| NotSent::Away(format!("it has no thread: {error}")))?;
        Ok(AtWork { orders, beats, thread })
    }

    /// Leaves the thread, which ends as soon as it comes back.
    fn leave(&mut self) {
        if let Some(AtWork { orders, thread, .. }) = self.at_work.take() {
            drop(orders);
            self.left.keep(&self.sink.name, thread);
        }
    }
}

impl Drop for ApartSender {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Sends what it is told to, until nobody tells it any more, or something failed: what a library
/// has at work for a connection ends with the runtime alone, whatever the target does.
fn work(mut sender: Sender, mut ordered: mpsc::UnboundedReceiver<Order>, beats: &AtomicU64) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "what sends for a sink cannot work");
            return;
        }
    };
    runtime.block_on(async {
        let received = sender.received();
        let mut ticks = interval(BEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let order = tokio::select! {
                order = ordered.recv() => order,
                // Between messages, too, a target may send whatever it wants.
                _ = ticks.tick(), if received.is_counted() => match received.check() {
                    Ok(()) => continue,
                    Err(why) => {
                        tracing::warn!(why, "the connection of a sink is closed");
                        break;
                    }
                },
            };
            let Some(Order { mut pending, now, mut answer }) = order else { break };
            received.begin();
            let sent = {
                let mut sending = std::pin::pin!(sender.send(&mut pending, now));
                loop {
                    tokio::select! {
                        biased;
                        // The sink ends: what is under way is given up.
                        () = answer.closed() => break None,
                        _ = ticks.tick() => {
                            beats.fetch_add(1, Ordering::Relaxed);
                            if let Err(why) = received.check() {
                                break Some(Err(NotSent::Away(why)));
                            }
                        }
                        sent = &mut sending => break Some(sent),
                    }
                }
            };
            let Some(sent) = sent else { break };
            let is_away = matches!(sent, Err(NotSent::Away(_) | NotSent::Lost(_)));
            let _ = answer.send(Answer { pending, sent });
            if is_away {
                break;
            }
        }
    });
    // A look-up of a name may not have ended.
    runtime.shutdown_background();
}

/// How often it is looked how the thread is.
const BEAT: Duration = Duration::from_millis(250);
/// How long the thread before may take to end, before that is told.
const BEGIN_MAX: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
