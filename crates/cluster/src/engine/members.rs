//! Who takes part, and how each of them is doing.

use std::time::Duration;

use history::log::{
    Member, MemberChange, MemberState, MembersDone, MembersError, Membership, Role,
};
use openraft::alias::WatchReceiverOf;
use openraft::async_runtime::WatchReceiver;
use openraft::{RaftMetrics, ServerState};
use store::Lsn;
use tokio::sync::mpsc;

use super::command::Command;
use super::driver::quorum_age;
use crate::copies::CopyProgress;
use crate::shared::{Compared, Shared};
use crate::types::Types;

/// How the cluster is doing, as far as one server knows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// Which server says so.
    pub id: u64,
    /// What it is.
    pub role: Role,
    /// The term it is in.
    pub term: u64,
    /// Who leads, if that is known.
    pub leader: Option<u64>,
    /// The last change that is visible on it.
    pub applied: Lsn,
    /// Index of the last entry of its log, as the journal counts.
    pub last_index: u64,
    /// Index of the last entry that it knows to be committed.
    pub committed_index: u64,
    /// How long ago a majority answered the leader; only the leader knows.
    pub quorum_age: Option<Duration>,
    /// How long ago this server heard of whoever leads; none if it never did.
    pub heard_age: Option<Duration>,
    /// Whether it has had all that was acknowledged, at some moment since its start: whoever leads
    /// said so.
    pub has_caught_up: bool,
    /// Records without effect since its start.
    pub voids: u64,
    /// The last record after which its state was compared with those of other members, and was the
    /// same; none if it never was compared.
    pub alike: Option<Lsn>,
    /// How the states of the members differ, if they do.
    pub difference: Option<String>,
    /// From which record on its state is not what the log leads to, as far as is known; none if it
    /// is not known to differ.
    pub diverged: Option<Lsn>,
    /// Why it should not lead; none if nothing speaks against it.
    pub unfit: Option<String>,
    /// Members that speak other versions than this one of what members say to each other: which of
    /// them, what follows, and which to upgrade, in a sentence each.
    pub versions: Vec<String>,
    /// Members that list others than this one, and what is to be done, in a sentence each.
    pub listings: Vec<String>,
    /// All that take part, by number.
    pub members: Vec<MemberStatus>,
    /// Where the log says for good who takes part, as the journal counts; 0 for those with whom the
    /// cluster began.
    pub listed_at: u64,
    /// Whether no change of the members is under way.
    pub is_settled: bool,
    /// Whether it was removed from the cluster.
    pub is_removed: bool,
    /// The copy of the data that it is sent, because it lacks what the log no longer has.
    pub receives: Option<CopyProgress>,
    /// The members that it sends one.
    pub sends: Vec<CopyProgress>,
    /// Why copies do not get where they should, in a sentence for each other member.
    pub copy_hindrances: Vec<String>,
}

#[cfg(test)]
impl Status {
    /// Of server `id` in a term, which knows nothing else.
    pub(crate) fn of_test(id: u64, term: u64, leader: Option<u64>) -> Self {
        Self {
            id,
            role: Role::Alone,
            term,
            leader,
            applied: Lsn(0),
            last_index: 0,
            committed_index: 0,
            quorum_age: None,
            heard_age: None,
            has_caught_up: true,
            voids: 0,
            alike: None,
            difference: None,
            diverged: None,
            unfit: None,
            versions: Vec::new(),
            listings: Vec::new(),
            members: Vec::new(),
            listed_at: 0,
            is_settled: true,
            is_removed: false,
            receives: None,
            sends: Vec::new(),
            copy_hindrances: Vec::new(),
        }
    }
}

/// How a member is doing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberStatus {
    /// Its number.
    pub id: u64,
    /// Where the others reach it.
    pub address: String,
    /// Where clients reach it.
    pub url: String,
    /// Which key it has joined with; empty for one with whom the cluster began.
    pub key: String,
    /// Its part.
    pub state: MemberState,
    /// Index of the last entry that it is known to have; only the leader knows.
    pub matched_index: Option<u64>,
}

/// Who takes part, as the engine knows, and how that changes.
#[derive(Clone)]
pub(super) struct Members {
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) metrics: WatchReceiverOf<Types, RaftMetrics<Types>>,
}

impl Members {
    pub(super) fn status(&self, shared: &Shared) -> Status {
        let metrics = self.metrics.borrow_watched().clone();
        let index = |id: u64| id + 1;
        let is_leader = metrics.state == ServerState::Leader;
        let committed = metrics.local_committed.map(|id| index(id.index));
        let Compared { alike, difference } = shared.last_compared();
        let role = shared.progress.role();
        let (term, leader) = of_role(&role, &metrics);
        Status {
            id: metrics.id,
            role,
            term,
            leader,
            applied: shared.progress.applied(),
            last_index: metrics.last_log_index.map_or(0, index),
            committed_index: committed.unwrap_or(0),
            quorum_age: is_leader.then(|| quorum_age(&metrics)).flatten(),
            heard_age: shared.heard_age(),
            has_caught_up: shared.has_caught_up(),
            voids: shared.voids(),
            alike,
            difference,
            diverged: shared.diverged(),
            unfit: shared.unfit(),
            versions: shared.watched().versions.clone(),
            listings: shared.watched().listings.clone(),
            members: self.members(&metrics),
            listed_at: shared.listed().index,
            is_settled: is_settled(&metrics),
            is_removed: shared.is_removed(),
            receives: None,
            sends: Vec::new(),
            copy_hindrances: Vec::new(),
        }
    }

    /// Whether `id` takes part.
    pub(super) fn lists(&self, id: u64) -> bool {
        self.metrics.borrow_watched().membership_config.membership().get_node(&id).is_some()
    }

    fn members(&self, metrics: &RaftMetrics<Types>) -> Vec<MemberStatus> {
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let matched = |id: &u64| {
            let replication = metrics.replication.as_ref()?;
            replication.get(id)?.as_ref().map(|id| id.index + 1)
        };
        let status = |(id, node): (&u64, &crate::types::Node)| MemberStatus {
            id: *id,
            address: node.address.clone(),
            url: node.url.clone(),
            key: node.key.clone(),
            state: match voters.contains(id) {
                true => MemberState::Voter,
                false => MemberState::Learner,
            },
            matched_index: matched(id),
        };
        membership.nodes().map(status).collect()
    }
}

/// In which term a member of this role is, and who leads. The engine may be further than the role:
/// who leads no more must not seem to lead in the term of the next.
fn of_role(role: &Role, metrics: &RaftMetrics<Types>) -> (u64, Option<u64>) {
    match role {
        Role::Deciding(reign) => (reign.0, Some(metrics.id)),
        Role::Following { .. } | Role::Alone | Role::Failed(_) => {
            (metrics.current_term, metrics.current_leader)
        }
    }
}

/// Whether there is one set of voters, and the log says so for good.
fn is_settled(metrics: &RaftMetrics<Types>) -> bool {
    let (newest, settled) = (&metrics.membership_config, &metrics.committed_membership_config);
    newest.log_id() == settled.log_id() && newest.membership().get_joint_config().len() == 1
}

impl Membership for Members {
    fn list(&self) -> Vec<Member> {
        let metrics = self.metrics.borrow_watched().clone();
        let members = self.members(&metrics).into_iter();
        members
            .map(|MemberStatus { id, address, state, .. }| Member { id, address, state })
            .collect()
    }

    fn change(&self, change: MemberChange, done: MembersDone) {
        if let Err(mpsc::error::SendError(Command::Change { done, .. })) =
            self.commands.send(Command::Change { change, done })
        {
            done(Err(MembersError::Refused("the server is shutting down".to_owned())));
        }
    }
}

#[cfg(test)]
mod tests {
    use history::log::Reign;

    use super::*;

    #[test]
    fn whoever_led_does_not_seem_to_lead_in_the_term_of_the_next() {
        let mut metrics = RaftMetrics::<Types>::new_initial(1);
        metrics.current_term = 43;
        metrics.current_leader = Some(2);
        assert_eq!(of_role(&Role::Deciding(Reign(42)), &metrics), (42, Some(1)));
        assert_eq!(of_role(&Role::Alone, &metrics), (43, Some(2)));
    }
}
