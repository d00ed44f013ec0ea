//! A copy of another machine's state: received, and put in the place of this one.
//!
//! Invariant: those who keep something in memory beside the store have it of the copy before the
//! copy can be seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::{BaseIntake, CopyHead, ReceivedBase, Store};

use super::super::refuse_newer;
use super::StoreMachine;
use crate::data_directory::schema_of;
use crate::log::{ApplyError, CopyIntake};

/// A copy that was received and is not in place yet. Clones are the same place.
#[derive(Clone, Debug, Default)]
pub(super) struct Received(Arc<Mutex<Option<ReceivedBase>>>);

impl Received {
    pub(super) fn begin(
        &self,
        store: &Arc<Store>,
        head: &CopyHead,
    ) -> Result<Box<dyn CopyIntake>, ApplyError> {
        // Its file may be the one that is to be gone on with.
        *self.place() = None;
        let (intake, store) = (store.receive_base(head)?, Arc::clone(store));
        Ok(Box::new(Intake { intake, store, place: self.clone() }))
    }

    pub(super) fn clear(&self, store: &Store) {
        *self.place() = None;
        if let Err(error) = store.drop_received() {
            tracing::warn!(%error, "what was received of a copy cannot be removed");
        }
    }

    fn place(&self) -> MutexGuard<'_, Option<ReceivedBase>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Intake {
    intake: BaseIntake,
    store: Arc<Store>,
    place: Received,
}

impl CopyIntake for Intake {
    fn written(&self) -> u64 {
        self.intake.written()
    }

    fn write(&mut self, octets: &[u8]) -> Result<(), ApplyError> {
        Ok(self.intake.write(octets)?)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), ApplyError> {
        Ok(self.intake.read_at(offset, into)?)
    }

    fn clear(&mut self) -> Result<(), ApplyError> {
        Ok(self.intake.clear()?)
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, ApplyError> {
        let Self { intake, store, place } = *self;
        let schema = schema_of(store.path());
        let schema = schema.map_err(|error| ApplyError::Copy(error.to_string()))?;
        let received = store.open_received(intake, schema)?;
        let membership = received.membership().to_vec();
        *place.place() = Some(received);
        Ok(membership)
    }
}

impl StoreMachine {
    /// Puts the copy with this id in the place of everything.
    pub(super) fn replace(&self, id: &[u8; 16]) -> Result<(), ApplyError> {
        let received = self.received.place().take_if(|received| received.head().id == *id);
        let missing = || ApplyError::Copy("the copy that was received is not there".to_owned());
        let received = received.ok_or_else(missing)?;
        let mark = received.head().mark;
        if mark.lsn < self.store.published().lsn {
            let reason = "the copy that was received is older than the data here";
            return Err(ApplyError::Copy(reason.to_owned()));
        }
        // Whatever is here of a batch is in the copy, too.
        let mut kept = self.kept();
        let replaced = self.store.put_in_place(received, |published, view| {
            refuse_newer(view.record_level()?)
                .map_err(|error| ApplyError::Copy(error.to_string()))?;
            let Some(follower) = &self.follower else { return Ok(()) };
            follower.dropped(published);
            follower.replacing(&mark, view)
        });
        kept.clear();
        self.note_kept(&kept);
        if let Some(follower) = &self.follower {
            follower.published();
        }
        replaced.map(drop)
    }
}
