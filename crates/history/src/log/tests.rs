//! The suite, run over a naive engine; the engine on the journal has its own file.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::conformance::{Bench, Ledger, check, check_faults};
use super::members::OnlySelf;
use super::*;

/// An engine of a few lines: a list, and a lock around everything.
struct Naive {
    inner: Arc<Mutex<Inner>>,
    machine: Arc<dyn StateMachine>,
}

#[derive(Default)]
struct Inner {
    records: Vec<EncodedRecord>,
    is_closed: bool,
    barriers: Vec<(Lsn, BarrierDone)>,
}

impl Naive {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommitLog for Naive {
    fn commit(&self, reign: Reign, batch: LogBatch, done: CommitDone) {
        if reign != Reign::ETERNAL {
            return done(Err(CommitError::NotDeciding { leader: None }));
        }
        let mut inner = self.lock();
        if inner.is_closed {
            drop(inner);
            return done(Err(CommitError::Fatal("closed".to_owned())));
        }
        let next = inner.records.len() as u64 + 1;
        let mut pairs = batch.records.iter().zip(next..);
        if !pairs.all(|(record, lsn)| record.lsn == Lsn(lsn)) {
            drop(inner);
            return done(Err(CommitError::Stale { expected: Lsn(next) }));
        }
        inner.records.extend(batch.records.iter().cloned());
        let position = at(&inner.records);
        self.machine.apply(Decided::Here, &batch.records, position).unwrap();
        let last = Lsn(inner.records.len() as u64);
        let reached: Vec<_> = inner.barriers.extract_if(.., |(asked, _)| *asked <= last).collect();
        drop(inner);
        reached.into_iter().for_each(|(_, done)| done(Ok(last)));
        done(Ok(last));
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn window(&self) -> usize {
        1
    }

    fn role(&self) -> Role {
        Role::Deciding(Reign::ETERNAL)
    }

    fn watch(&self, watcher: RoleWatcher) {
        watcher(&self.role());
    }

    fn barrier(&self, level: ReadLevel, done: BarrierDone) {
        let applied = self.applied();
        match level {
            ReadLevel::AtLeast(asked) if asked > applied => {
                self.lock().barriers.push((asked, done));
            }
            _ => done(Ok(applied)),
        }
    }

    fn tail(&self, from: Lsn) -> Result<Box<dyn Tail>, Gone> {
        Ok(Box::new(NaiveTail { inner: Arc::clone(&self.inner), next: from.0 }))
    }

    fn applied(&self) -> Lsn {
        Lsn(self.lock().records.len() as u64)
    }

    fn members(&self) -> &dyn Membership {
        &OnlySelf
    }

    fn kept_index(&self) -> u64 {
        u64::MAX
    }

    fn forget(&self, _: LogPosition) {}

    fn close(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        let waiting = std::mem::take(&mut inner.barriers);
        drop(inner);
        waiting.into_iter().for_each(|(_, done)| done(Err(NotNow::Closed)));
    }
}

struct NaiveTail {
    inner: Arc<Mutex<Inner>>,
    next: u64,
}

impl Tail for NaiveTail {
    fn next_within(&mut self, timeout: Duration) -> Result<Option<EncodedRecord>, Gone> {
        let mut waited = Duration::ZERO;
        loop {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(record) = inner.records.get(self.next as usize - 1) {
                self.next += 1;
                return Ok(Some(record.clone()));
            }
            if inner.is_closed {
                return Err(Gone { first: Lsn(1), reason: "closed".to_owned(), may_pass: false });
            }
            drop(inner);
            if waited >= timeout {
                return Ok(None);
            }
            std::thread::park_timeout(Duration::from_millis(1));
            waited += Duration::from_millis(1);
        }
    }
}

/// Its medium is the list itself.
#[derive(Default)]
struct NaiveBench {
    inner: Arc<Mutex<Inner>>,
}

/// The place of the last record.
fn at(records: &[EncodedRecord]) -> LogPosition {
    LogPosition { term: 1, index: records.len() as u64 }
}

impl Bench for NaiveBench {
    fn start(&mut self, machine: &Arc<Ledger>) -> Arc<dyn CommitLog> {
        let records = self.inner.lock().unwrap_or_else(PoisonError::into_inner).records.clone();
        machine.apply(Decided::Elsewhere, &records, at(&records)).unwrap();
        self.inner = Arc::new(Mutex::new(Inner { records, ..Inner::default() }));
        let machine = Arc::clone(machine) as Arc<dyn StateMachine>;
        Arc::new(Naive { inner: Arc::clone(&self.inner), machine })
    }

    fn lose_power(&mut self, _: u64) {}

    fn break_medium(&mut self, _: u64) -> bool {
        false
    }

    fn mend_medium(&mut self) {}

    fn fill_medium(&mut self, _: bool) -> bool {
        false
    }
}

#[test]
fn a_naive_engine_conforms() {
    check(&|| Box::new(NaiveBench::default()));
    for seed in 0..8 {
        check_faults(&|| Box::new(NaiveBench::default()), seed);
    }
}
