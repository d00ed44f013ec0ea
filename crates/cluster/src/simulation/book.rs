//! The state of a node in the simulation: all records that were applied, and how many of them are
//! durable without the log.

use std::sync::{Mutex, MutexGuard};

use history::log::{ApplyError, Decided, EncodedRecord, StateMachine};
use history::record::RecordHead;
use store::{LogPosition, Lsn};

#[derive(Default)]
pub(super) struct Book(Mutex<State>);

#[derive(Clone, Default)]
struct State {
    records: Vec<EncodedRecord>,
    position: LogPosition,
    membership: Vec<u8>,
    durable: Option<Box<Self>>,
}

impl Book {
    pub(super) fn records(&self) -> Vec<EncodedRecord> {
        self.state().records.clone()
    }

    /// The number and running hash of the last record.
    pub(super) fn last(&self) -> (Lsn, u64) {
        self.state().records.last().map_or((Lsn(0), 0), |last| (last.lsn, last.hash))
    }

    /// Makes everything durable; where the log is now.
    pub(super) fn flush(&self) -> LogPosition {
        let mut state = self.state();
        let durable = State { durable: None, ..state.clone() };
        state.durable = Some(Box::new(durable));
        state.position
    }

    /// What is durable, for the next life: this one runs on without knowing.
    pub(super) fn after_crash(&self) -> Self {
        let durable = self.state().durable.clone().map(|durable| *durable).unwrap_or_default();
        let kept = Some(Box::new(durable.clone()));
        Self(Mutex::new(State { durable: kept, ..durable }))
    }

    /// A node begins somewhere: there is a place in the log before its first entry.
    pub(super) fn begin_at(&self, position: LogPosition) {
        self.state().position = position;
        self.flush();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl StateMachine for Book {
    fn apply(
        &self,
        _: Decided,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError> {
        for record in records {
            let head = RecordHead::read(&record.bytes).unwrap();
            let (last, hash) = self.last();
            if (head.lsn.0, head.prev_hash) != (last.0 + 1, hash) {
                let reason = format!("record {} with hash {hash:x} is the last", last.0);
                return Err(ApplyError::Diverged { lsn: head.lsn, reason });
            }
            self.state().records.push(record.clone());
        }
        let mut state = self.state();
        assert!(state.position < position, "an entry is applied once");
        state.position = position;
        Ok(())
    }

    fn applied(&self) -> Lsn {
        self.last().0
    }

    fn position(&self) -> LogPosition {
        self.state().position
    }

    fn membership(&self) -> Result<Vec<u8>, ApplyError> {
        Ok(self.state().membership.clone())
    }

    fn set_membership(&self, octets: Vec<u8>) {
        self.state().membership = octets;
    }
}
