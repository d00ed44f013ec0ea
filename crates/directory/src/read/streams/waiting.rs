//! Who waits for the next change, and the thread that wakes them.
//!
//! Invariant: each is woken once at the most, and not after it has gone.
//! Invariant: the log holds one waiter, whoever waits here; what it calls does not wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use history::log::{CommitLog, NotNow, ReadLevel};
use store::Lsn;

type Wake = Box<dyn FnOnce() + Send>;

/// Those who wait.
pub(super) struct Waiting {
    log: Arc<dyn CommitLog>,
    desk: Mutex<Desk>,
    told: Condvar,
    this: Weak<Self>,
}

#[derive(Default)]
struct Desk {
    all: BTreeMap<(Lsn, u64), Wake>,
    entered: u64,
    /// The log tells of the next record.
    is_watching: bool,
    thread: Option<JoinHandle<()>>,
    /// There may be somebody to wake.
    is_told: bool,
    is_closed: bool,
}

/// Somebody who waits for a change, as long as this lives.
pub struct ChangeWait {
    waiting: Weak<Waiting>,
    key: (Lsn, u64),
}

impl Waiting {
    pub(super) fn new(log: &Arc<dyn CommitLog>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            log: Arc::clone(log),
            desk: Mutex::default(),
            told: Condvar::new(),
            this: this.clone(),
        })
    }

    pub(super) fn enter(&self, after: Lsn, wake: Wake) -> ChangeWait {
        let mut desk = self.lock();
        desk.entered += 1;
        let key = (after, desk.entered);
        let waiting = self.this.clone();
        if desk.is_closed {
            drop(desk);
            wake();
            return ChangeWait { waiting, key };
        }
        desk.all.insert(key, wake);
        desk.is_told = true;
        if desk.thread.is_none() {
            let waiting = self.this.clone();
            let thread = thread::Builder::new()
                .name("streams".to_owned())
                .spawn(move || serve(&waiting))
                .expect("a process that serves can start one more thread");
            desk.thread = Some(thread);
        }
        drop(desk);
        self.told.notify_one();
        ChangeWait { waiting, key }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub(super) fn close(&self) {
        let mut desk = self.lock();
        desk.is_closed = true;
        let all = std::mem::take(&mut desk.all);
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        let thread = desk.thread.take().filter(is_other);
        drop(desk);
        self.told.notify_one();
        all.into_values().for_each(|wake| wake());
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of searches that wait for changes had panicked");
        }
    }

    /// Those whose change is there.
    fn take(&self) -> BTreeMap<(Lsn, u64), Wake> {
        let applied = self.log.applied();
        let mut desk = self.lock();
        let later = desk.all.split_off(&(applied, 0));
        std::mem::replace(&mut desk.all, later)
    }

    /// Has the log tell of the next record, if anybody waits for one.
    fn watch(&self) {
        let mut desk = self.lock();
        if desk.all.is_empty() || desk.is_watching || desk.is_closed {
            return;
        }
        desk.is_watching = true;
        let Some(((after, _), _)) = desk.all.first_key_value() else { return };
        let next = Lsn(after.0.saturating_add(1));
        // The log may answer at once.
        drop(desk);
        let this = self.this.clone();
        let moved = move |outcome: Result<Lsn, NotNow>| {
            let Some(waiting) = this.upgrade() else { return };
            let mut desk = waiting.lock();
            (desk.is_watching, desk.is_told) = (false, true);
            // Nothing comes any more, until the server starts again.
            desk.is_closed |= matches!(outcome, Err(NotNow::Closed));
            drop(desk);
            waiting.told.notify_one();
        };
        self.log.barrier(ReadLevel::AtLeast(next), Box::new(moved));
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread does while there is somebody who may come.
fn serve(waiting: &Weak<Waiting>) {
    while let Some(this) = waiting.upgrade() {
        let desk = this.lock();
        let idle = |desk: &mut Desk| !desk.is_told && !desk.is_closed;
        let waited = this.told.wait_timeout_while(desk, LOOK_EVERY, idle);
        let (mut desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
        desk.is_told = false;
        let is_closed = desk.is_closed;
        drop(desk);
        if is_closed {
            return this.close();
        }
        let woken = this.take();
        let is_any = !woken.is_empty();
        woken.into_values().for_each(|wake| wake());
        this.watch();
        drop(this);
        // What comes together is told together.
        if is_any {
            thread::park_timeout(TOGETHER);
        }
    }
}

impl Drop for ChangeWait {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.upgrade() {
            let wake = waiting.lock().all.remove(&self.key);
            drop(wake);
        }
    }
}

impl fmt::Debug for ChangeWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeWait").field("after", &self.key.0.0).finish_non_exhaustive()
    }
}

/// How long those who wait are not woken again after they were.
const TOGETHER: Duration = Duration::from_millis(2);
/// How often the thread looks whether it is needed at all.
const LOOK_EVERY: Duration = Duration::from_secs(10);
