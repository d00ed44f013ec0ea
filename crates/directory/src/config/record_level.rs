//! What the change records of a cluster may say: as much as all of its members can read.
//!
//! A release that can read more says so to the others; when all of them can, the leader has a
//! record say it, and only then a change is logged that needs it. So members of two releases serve
//! side by side, and whoever meets a record that it cannot read has been left behind.
//!
//! Invariant: the level never falls, and a server alone has none: it reads what it writes.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use aci::Permitted;
use history::record::RECORD_LEVEL;
use ldap::result::ResultCode;
use schema::Change;
use store::{StoreError, View};

use super::change_members::{WAIT_MAX, WAIT_MORE};
use super::monitor_sources::ClusterMemberState;
use crate::directory::Directory;
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;
use crate::write::decision::{Decide, Decision};
use crate::write::queue::PendingWrite;
use crate::write::request::WriteOp;

/// Where a server leads a cluster all of whose members can read more than its records may say, has
/// a record say that they may. To be called from time to time on every member.
///
/// # Errors
/// Why it was not logged; it is tried again.
pub fn raise_record_level(worker: &mut Worker) -> Result<(), String> {
    raise(worker).map_err(|refusal| refusal.diagnostic.into_owned())
}

fn raise(worker: &mut Worker) -> Result<(), Refusal> {
    let directory = Arc::clone(&worker.directory);
    let Some(teller) = directory.monitors.cluster.get() else { return Ok(()) };
    if (teller.own)().is_none_or(|own| own.leader != Some(own.member)) {
        return Ok(());
    }
    let mut reader = directory.storage.store.reader();
    let now = current(&directory, reader.view()?)?;
    let Some(level) = read_by_all(&(teller.members)()).filter(|level| *level > now) else {
        return Ok(());
    };
    let root = &directory.credentials.root.dn;
    let write = PendingWrite::of_server(&directory.queue, root, WriteOp::Level(level), false);
    let (told, heard) = sync_channel(1);
    write.submit(Box::new(move |done| drop(told.try_send(done.completion))));
    let unknown = |_| Refusal::new(ResultCode::Other, "it is not known whether it was logged");
    let done = heard.recv_timeout(WAIT_MAX + WAIT_MORE).map_err(unknown)?;
    match done.code {
        Some(ResultCode::Success) => {
            tracing::info!(level, "all members can read records of this level: they are written");
            Ok(())
        }
        code => Err(Refusal::new(code.unwrap_or(ResultCode::Other), done.diagnostic)),
    }
}

/// What all of them can read; none while one of them has not said it.
fn read_by_all(members: &[ClusterMemberState]) -> Option<u16> {
    let levels: Option<Vec<u16>> = members.iter().map(|member| member.record_level).collect();
    levels?.into_iter().min().map(|level| level.min(RECORD_LEVEL))
}

/// Decides on the level that the changes before it left.
pub(crate) fn decide(decide: &Decide<'_>, level: u16) -> Result<Decision, Refusal> {
    if level <= current(decide.directory, decide.view)? {
        return Ok(Decision::default());
    }
    Ok(Decision::change(Permitted::internal(Change::Level(level))))
}

/// Refuses a record of level `needed`, where not all members can read it.
pub(crate) fn check(directory: &Directory, view: &View<'_>, needed: u16) -> Result<(), Refusal> {
    let is_alone = directory.queue.forwarding().is_none();
    // What every release reads is not looked up.
    if is_alone || needed <= directory.record_level_first || needed <= current(directory, view)? {
        return Ok(());
    }
    let why = format!(
        "it takes change records of level {needed}, which not all members of the cluster can read \
         yet: upgrade them all; 'roster cluster status' says what each runs"
    );
    Err(Refusal::new(ResultCode::UnwillingToPerform, why))
}

fn current(directory: &Directory, view: &View<'_>) -> Result<u16, StoreError> {
    Ok(view.record_level()?.unwrap_or(directory.record_level_first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_that_does_not_say_what_it_reads_keeps_the_level() {
        let members = |levels: &[Option<u16>]| {
            let one = |level: &Option<u16>| ClusterMemberState {
                record_level: *level,
                ..ClusterMemberState::default()
            };
            levels.iter().map(one).collect::<Vec<_>>()
        };
        let own = Some(RECORD_LEVEL);
        assert_eq!(read_by_all(&members(&[own, own])), own);
        assert_eq!(read_by_all(&members(&[own, Some(2), own])), Some(2));
        assert_eq!(read_by_all(&members(&[own, None])), None);
        // Of what a later release reads nothing is known here.
        assert_eq!(read_by_all(&members(&[Some(RECORD_LEVEL + 1); 3])), own);
    }
}
