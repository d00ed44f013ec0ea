//! A state machine that only keeps what it was given, and objects to what does not follow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{LogPosition, Lsn};

use super::super::{ApplyError, Decided, EncodedRecord, StateMachine};
use crate::record::RecordHead;

/// All records that were applied, in order, and what the log keeps beside them.
#[derive(Debug, Default)]
pub struct Ledger {
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    records: Vec<EncodedRecord>,
    position: LogPosition,
    membership: Vec<u8>,
    /// What is there without the log.
    durable: Option<Box<Self>>,
}

impl Ledger {
    /// The log begins behind a place.
    pub fn begin_at(&self, position: LogPosition) {
        self.state().position = position;
        self.flush();
    }

    /// Makes everything durable without the log; where that is now.
    pub fn flush(&self) -> LogPosition {
        let mut state = self.state();
        let durable = State { durable: None, ..state.clone() };
        state.durable = Some(Box::new(durable));
        state.position
    }

    /// What is durable, for the next life: this one runs on without knowing.
    #[must_use]
    pub fn after_crash(&self) -> Self {
        let durable = self.state().durable.clone().map(|durable| *durable).unwrap_or_default();
        let kept = Some(Box::new(durable.clone()));
        Self { state: Mutex::new(State { durable: kept, ..durable }) }
    }

    /// The number of the last record.
    pub fn last(&self) -> Lsn {
        Lsn(self.state().records.len() as u64)
    }

    /// The running hash after the last record.
    pub fn hash(&self) -> u64 {
        self.state().records.last().map_or(0, |last| last.hash)
    }

    /// All of them.
    pub fn records(&self) -> Vec<EncodedRecord> {
        self.state().records.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateMachine for Ledger {
    fn apply(
        &self,
        _: Decided,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError> {
        let mut state = self.state();
        for record in records {
            let lsn = record.lsn;
            let head = RecordHead::read(&record.bytes)
                .map_err(|error| ApplyError::Record { lsn, reason: error.to_string() })?;
            let (number, hash) =
                state.records.last().map_or((0, 0), |last| (last.lsn.0, last.hash));
            if (head.lsn, lsn.0, head.prev_hash) != (lsn, number + 1, hash) {
                let reason = format!("record {number} is the last");
                return Err(ApplyError::Diverged { lsn, reason });
            }
            state.records.push(record.clone());
        }
        let is_new = records.is_empty() || state.position < position;
        assert!(is_new, "an entry is applied once");
        state.position = position;
        Ok(())
    }

    fn applied(&self) -> Lsn {
        self.last()
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
