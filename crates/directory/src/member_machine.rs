//! The state machine of a server that is not alone: the store, with those who have to hear of each
//! record that was applied, and of one that was not.
//!
//! Invariant: the request of a record is known, and a quarantine has begun, before the log hears
//! what became of the record.

use std::sync::Arc;
use std::time::Duration;

use history::log::{
    ApplyError, CopyIntake, Decided, Difference, EncodedRecord, StateCopy, StateMachine,
};
use history::recovery::StoreMachine;
use store::{CopyHead, DigestPoint, HeldState, LogPosition, Lsn, NotHeld, Store};

use crate::forward::known_requests::KnownRequests;
use crate::quarantine::Quarantine;

/// The store, and those who hear of records.
pub(crate) struct MemberMachine {
    pub(crate) machine: StoreMachine,
    pub(crate) store: Arc<Store>,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) known: Option<Arc<KnownRequests>>,
}

impl MemberMachine {
    fn refuse_in_quarantine(&self) -> Result<(), ApplyError> {
        match self.quarantine.reason() {
            Some(reason) => Err(ApplyError::Copy(reason.to_owned())),
            None => Ok(()),
        }
    }
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

    fn hold(&self, lsn: Lsn, limit: Duration) -> Result<HeldState, NotHeld> {
        match self.quarantine.reason() {
            Some(reason) => Err(NotHeld::Refused(reason.to_owned())),
            None => self.machine.hold(lsn, limit),
        }
    }

    fn copy_bytes(&self) -> Option<u64> {
        self.machine.copy_bytes()
    }

    fn copy(&self) -> Result<Arc<dyn StateCopy>, ApplyError> {
        self.refuse_in_quarantine()?;
        self.machine.copy()
    }

    fn receive(&self, head: &CopyHead) -> Result<Box<dyn CopyIntake>, ApplyError> {
        // It is to be looked at, and not to be healed unseen.
        self.refuse_in_quarantine()?;
        self.machine.receive(head)
    }

    fn install(&self, id: &[u8; 16]) -> Result<(), ApplyError> {
        self.refuse_in_quarantine()?;
        self.machine.install(id)?;
        match &self.known {
            Some(known) => Ok(known.fill(&self.store)?),
            None => Ok(()),
        }
    }

    fn settle_copied(&self) {
        self.machine.settle_copied();
    }

    fn drop_received(&self) {
        self.machine.drop_received();
    }

    fn differs(&self, difference: &Difference) {
        self.quarantine.note_difference(difference, &self.store);
    }

    fn forgot(&self, reason: &str) {
        self.quarantine.note_forgotten(reason, &self.store);
    }
}
