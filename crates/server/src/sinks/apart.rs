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
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::files::SinkFiles;
use super::received::Received;
use super::target::{NotSent, SendTime, Sender};

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
    time: SendTime,
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
        time: SendTime,
        is_kept: &mut dyn FnMut(&str),
    ) -> Result<(), NotSent> {
        let (answer, mut answered) = oneshot::channel();
        let mut order = Order { pending: mem::take(pending), time, answer };
        let at_work = loop {
            let at_work = match self.at_work.take() {
                Some(at_work) => at_work,
                None => match self.begin().await {
                    Ok(at_work) => at_work,
                    Err(not_sent) => {
                        *pending = order.pending;
                        return Err(not_sent);
                    }
                },
            };
            match at_work.orders.send(order) {
                Ok(()) => break self.at_work.insert(at_work),
                // It has ended meanwhile.
                Err(mpsc::error::SendError(back)) => {
                    order = back;
                    self.left.keep(&self.sink.name, at_work.thread);
                }
            }
        };
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
        let owned = name.clone();
        let thread = thread::Builder::new()
            .name(format!("send-{name}"))
            .spawn(move || work(&owned, sender, ordered, &beating))
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

/// What the thread works with.
struct Worker<'a> {
    /// The sink.
    name: &'a str,
    sender: Sender,
    ordered: mpsc::UnboundedReceiver<Order>,
    received: Received,
    ticks: Interval,
    beats: &'a AtomicU64,
}

/// Sends what it is told to, until nobody tells it any more, or something failed: what a library
/// has at work for a connection ends with the runtime alone, whatever the target does.
fn work(name: &str, sender: Sender, ordered: mpsc::UnboundedReceiver<Order>, beats: &AtomicU64) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(sink = name, %error, "what sends for a sink cannot work");
            return;
        }
    };
    runtime.block_on(async {
        let (received, mut ticks) = (sender.received(), interval(BEAT));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut worker = Worker { name, sender, ordered, received, ticks, beats };
        while let Some(order) = worker.next().await {
            if !worker.serve(order).await {
                break;
            }
        }
    });
    // A look-up of a name may not have ended.
    runtime.shutdown_background();
}

impl Worker<'_> {
    /// What is to be sent next; none where it is to end: nobody asks any more, or the connection is
    /// lost, or has not been of use for long.
    async fn next(&mut self) -> Option<Order> {
        let Self { name, ordered, received, ticks, .. } = self;
        let mut idle = std::pin::pin!(sleep(IDLE_MAX));
        loop {
            tokio::select! {
                biased;
                order = ordered.recv() => return order,
                () = &mut idle => break,
                // Between messages, too, a target may send whatever it wants.
                _ = ticks.tick(), if received.is_counted() => if let Err(why) = received.check() {
                    tracing::warn!(sink = *name, why, "the connection of a sink is closed");
                    break;
                },
            }
        }
        ordered.close();
        // Ordered meanwhile.
        ordered.try_recv().ok()
    }

    /// Sends; `false` where it is to end.
    async fn serve(&mut self, order: Order) -> bool {
        let Self { sender, received, ticks, beats, .. } = self;
        let Order { mut pending, time, mut answer } = order;
        received.begin();
        let sent = {
            let mut sending = std::pin::pin!(sender.send(&mut pending, time));
            loop {
                tokio::select! {
                    biased;
                    // The sink ends: what is under way is given up.
                    () = answer.closed() => return false,
                    _ = ticks.tick() => {
                        beats.fetch_add(1, Ordering::Relaxed);
                        if let Err(why) = received.check() {
                            break Err(NotSent::Away(why));
                        }
                    }
                    sent = &mut sending => break sent,
                }
            }
        };
        let ends = matches!(sent, Err(NotSent::Away(_) | NotSent::Lost(_)));
        let _ = answer.send(Answer { pending, sent });
        !ends
    }
}

/// How often it is looked how the thread is.
const BEAT: Duration = Duration::from_millis(250);
/// A connection that is of no use for so long is closed: many targets close it then, or soon, which
/// would be found out when something is sent.
const IDLE_MAX: Duration = Duration::from_secs(50);
/// How long the thread before may take to end, before that is told.
const BEGIN_MAX: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
