//! A state machine that only keeps what it was given, and objects to what does not follow.

use std::sync::{Mutex, PoisonError};

use store::{LogPosition, Lsn};

use super::super::{ApplyError, EncodedRecord, Reign, StateMachine};
use crate::record::RecordHead;

/// All records that were applied, in order.
#[derive(Debug, Default)]
pub struct Ledger {
    records: Mutex<Vec<EncodedRecord>>,
}

impl Ledger {
    /// The number of the last record.
    pub fn last(&self) -> Lsn {
        Lsn(self.records.lock().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    /// All of them.
    pub fn records(&self) -> Vec<EncodedRecord> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl StateMachine for Ledger {
    fn apply(&self, _: Reign, records: &[EncodedRecord], _: LogPosition) -> Result<(), ApplyError> {
        let mut kept = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            let lsn = record.lsn;
            let head = RecordHead::read(&record.bytes)
                .map_err(|error| ApplyError::Record { lsn, reason: error.to_string() })?;
            let (number, hash) = kept.last().map_or((0, 0), |last| (last.lsn.0, last.hash));
            if (head.lsn, lsn.0, head.prev_hash) != (lsn, number + 1, hash) {
                let reason = format!("record {number} is the last");
                return Err(ApplyError::Diverged { lsn, reason });
            }
            kept.push(record.clone());
        }
        Ok(())
    }

    fn applied(&self) -> Lsn {
        self.last()
    }
}
