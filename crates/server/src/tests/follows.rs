//! The log of a server that follows another one, which is not there.

use std::sync::Mutex;

use history::log::{
    BarrierDone, CommitDone, CommitError, CommitLog, Gone, LogBatch, Membership, OnlySelf,
    ReadLevel, Reign, Role, RoleWatcher, Tail,
};
use store::{LogPosition, Lsn};

/// A log that decides nothing, and says that it has applied everything.
#[derive(Default)]
pub(super) struct Follows {
    /// Who waits to hear what was acknowledged anywhere, until the test answers.
    pub(super) asked: Mutex<Vec<BarrierDone>>,
}

impl Follows {
    pub(super) fn answer(&self) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.into_iter().for_each(|done| done(Ok(self.applied())));
    }
}

impl CommitLog for Follows {
    fn commit(&self, _: Reign, _: LogBatch, done: CommitDone) {
        done(Err(CommitError::NotDeciding { leader: None }));
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn window(&self) -> usize {
        1
    }

    fn role(&self) -> Role {
        Role::Following { leader: Some("ldap://leader.example:1389".to_owned()) }
    }

    fn watch(&self, watcher: RoleWatcher) {
        watcher(&self.role());
    }

    fn barrier(&self, level: ReadLevel, done: BarrierDone) {
        match level {
            ReadLevel::Linearizable => self.asked.lock().unwrap().push(done),
            ReadLevel::Local | ReadLevel::AtLeast(_) => done(Ok(self.applied())),
        }
    }

    fn tail(&self, from: Lsn) -> Result<Box<dyn Tail>, Gone> {
        Err(Gone { first: from, reason: "nothing is kept".to_owned(), may_pass: false })
    }

    fn applied(&self) -> Lsn {
        Lsn(u64::MAX)
    }

    fn members(&self) -> &dyn Membership {
        &OnlySelf
    }

    fn kept_index(&self) -> u64 {
        u64::MAX
    }

    fn forget(&self, _: LogPosition) {}

    fn close(&self) {}
}
