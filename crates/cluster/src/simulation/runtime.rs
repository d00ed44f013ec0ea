//! The runtime of the engine in simulations: that of the product, with two differences. Whoever
//! waits for a watched value is woken in the order of the waiting; the product's wakes in an order
//! by chance, which no seed reaches. And each node may have a clock that is too fast or too slow.

use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::Arc;
use std::time::Duration;

use openraft::rt::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use openraft::rt::{AsyncRuntime, OptionalSend, OptionalSync};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::types::SeededRuntime as Inner;

/// See the module.
#[derive(Debug)]
pub struct Simulated(Inner);

impl Simulated {
    /// Runs a future, all of whose chance comes from `seed`.
    pub fn scope<F: Future>(seed: u64, future: F) -> impl Future<Output = F::Output> {
        Inner::scope(seed, future)
    }
}

impl AsyncRuntime for Simulated {
    type JoinError = <Inner as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <Inner as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <Inner as AsyncRuntime>::Sleep;
    type Instant = Shown;
    type TimeoutError = <Inner as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <Inner as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = <Inner as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <Inner as AsyncRuntime>::Mpsc;
    type Watch = InOrder;
    type Oneshot = <Inner as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <Inner as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        match CLOCK.try_with(|clock| *clock) {
            Ok(clock) => Inner::spawn(clock.scope(future)),
            Err(_) => Inner::spawn(future),
        }
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        Inner::sleep(Clock::until(Shown::now_here() + duration))
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        Inner::sleep(Clock::until(deadline))
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        Inner::timeout(Clock::until(Shown::now_here() + duration), future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        Inner::timeout(Clock::until(deadline), future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        Inner::is_panic(join_error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        Inner::thread_rng()
    }

    fn new(threads: usize) -> Self {
        Self(Inner::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

tokio::task_local! {
    /// That of the node on whose behalf something runs.
    static CLOCK: Clock;
}

/// A clock that is too fast or too slow by the same factor all the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// When it showed what was the case.
    began: Instant,
    permille: u64,
}

impl Clock {
    /// It shows `permille` thousandths of the time that passes from now on.
    pub(super) fn new(permille: u64) -> Self {
        Self { began: Instant::now(), permille }
    }

    /// Runs a future that sees the time that this clock shows.
    pub(super) fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CLOCK.scope(self, future)
    }

    /// How long it is until the clock shows `shown`.
    fn until(Shown(shown): Shown) -> Duration {
        let real = |clock: &Self| {
            let passed = shown.saturating_duration_since(clock.began).as_nanos() as u64;
            clock.began + Duration::from_nanos((passed * 1000).div_ceil(clock.permille))
        };
        let at = CLOCK.try_with(real).unwrap_or(shown);
        at.saturating_duration_since(Instant::now())
    }
}

/// A moment, as a clock shows it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Shown(Instant);

impl Shown {
    fn now_here() -> Self {
        let now = Instant::now();
        let shown = |clock: &Clock| {
            let passed = now.saturating_duration_since(clock.began).as_nanos() as u64;
            clock.began + Duration::from_nanos(passed * clock.permille / 1000)
        };
        Self(CLOCK.try_with(shown).unwrap_or(now))
    }
}

impl openraft::Instant for Shown {
    fn now() -> Self {
        Self::now_here()
    }
}

impl Add<Duration> for Shown {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Shown {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Shown {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Shown {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl Sub for Shown {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0 - earlier.0
    }
}

/// Watched values whose watchers are woken in order.
pub struct InOrder;

pub struct WatchedSender<T> {
    /// None while it is dropped.
    inner: Option<watch::Sender<T>>,
    changed: Arc<Notify>,
}

pub struct WatchedReceiver<T> {
    inner: watch::Receiver<T>,
    changed: Arc<Notify>,
}

impl<T> WatchedSender<T> {
    fn inner(&self) -> &watch::Sender<T> {
        self.inner.as_ref().unwrap()
    }
}

impl<T> Clone for WatchedSender<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), changed: Arc::clone(&self.changed) }
    }
}

impl<T> Clone for WatchedReceiver<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), changed: Arc::clone(&self.changed) }
    }
}

impl<T> Drop for WatchedSender<T> {
    fn drop(&mut self) {
        self.inner = None;
        self.changed.notify_waiters();
    }
}

impl Watch for InOrder {
    type Sender<T: OptionalSend + OptionalSync> = WatchedSender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = WatchedReceiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = watch::Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (WatchedSender<T>, WatchedReceiver<T>) {
        let (sender, receiver) = watch::channel(init);
        let changed = Arc::new(Notify::new());
        let sender = WatchedSender { inner: Some(sender), changed: Arc::clone(&changed) };
        (sender, WatchedReceiver { inner: receiver, changed })
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<InOrder, T> for WatchedSender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        let sent = self.inner().send(value).map_err(|error| SendError(error.0));
        self.changed.notify_waiters();
        sent
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let is_modified = self.inner().send_if_modified(modify);
        if is_modified {
            self.changed.notify_waiters();
        }
        is_modified
    }

    fn borrow_watched(&self) -> watch::Ref<'_, T> {
        self.inner().borrow()
    }

    fn subscribe(&self) -> WatchedReceiver<T> {
        WatchedReceiver { inner: self.inner().subscribe(), changed: Arc::clone(&self.changed) }
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<InOrder, T> for WatchedReceiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        let notify = Arc::clone(&self.changed);
        loop {
            // Before the look, so that nothing is missed in between.
            let changed = notify.notified();
            match self.inner.has_changed() {
                Err(_) => return Err(RecvError(())),
                Ok(true) => {
                    self.inner.mark_unchanged();
                    return Ok(());
                }
                Ok(false) => changed.await,
            }
        }
    }

    fn borrow_watched(&self) -> watch::Ref<'_, T> {
        self.inner.borrow()
    }

    fn borrow_and_update(&mut self) -> watch::Ref<'_, T> {
        self.inner.borrow_and_update()
    }
}
