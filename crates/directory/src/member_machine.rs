//! The state machine of a server that is not alone: the store, with those who have to hear of each
//! record that was applied, and of one that was not.
//!
//! Invariant: the request of a record is known, and a quarantine has begun, before the log hears
//! what became of the record.

use std::sync::Arc;

use history::log::{ApplyError, Decided, Difference, EncodedRecord, StateMachine};
use history::recovery::StoreMachine;
use store::{DigestPoint, LogPosition, Lsn, Store};

use crate::forward::known_requests::KnownRequests;
use crate::quarantine::Quarantine;

/// The store, and those who hear of records.
pub(crate) struct MemberMachine {
    pub(crate) machine: StoreMachine,
    pub(crate) store: Arc<Store>,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) known: Option<Arc<KnownRequests>>,
}

impl StateMachine for MemberMachine {
    fn apply(
        &self,
        decided: Decided,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError> {
        if let Some(reason) = self.quarantine.reason() {
            let lsn = Lsn(self.store.published().lsn.0 + 1);
            return Err(ApplyError::Diverged { lsn, reason: reason.to_owned() });
        }
        let applied = self.machine.apply(decided, records, position);
        match (&applied, &self.known) {
            (Ok(()), Some(known)) => known.note(records),
            (Ok(()), None) => {}
            (Err(error), _) => self.quarantine.note(error, &self.store, records, position),
        }
        applied
    }

    fn applied(&self) -> Lsn {
        self.machine.applied()
    }

    fn position(&self) -> LogPosition {
        self.machine.position()
    }

    fn membership(&self) -> Result<Vec<u8>, ApplyError> {
        self.machine.membership()
    }

    fn set_membership(&self, octets: Vec<u8>) {
        self.machine.set_membership(octets);
    }

    fn begin_membership(&self, octets: Vec<u8>) -> Result<(), ApplyError> {
        self.machine.begin_membership(octets)
    }

    fn digests(&self) -> Vec<DigestPoint> {
        self.machine.digests()
    }

    fn differs(&self, difference: &Difference) {
        self.quarantine.note_difference(difference, &self.store);
    }
}
