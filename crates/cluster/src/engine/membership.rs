//! What the driver does about who takes part: follows it, and has it changed.
//!
//! Invariant: one change is under way at a time.
//! Invariant: what was cut short is ended by whoever leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::log::{MemberChange, MembersChanged, MembersDone, MembersError, Role};
use openraft::async_runtime::WatchReceiver as _;
use openraft::rt::AsyncRuntime as _;
use openraft::{Instant as _, RaftMetrics};
use tokio::time::{Instant, timeout};

use super::changes::{self, Known, Plan, UNDER_WAY};
use super::driver::Driver;
use crate::machine::Engine;
use crate::types::{LogId, Membership, Runtime, StoredMembership, Types};

/// How long a change may take on the leader; what it has begun may go on.
const CHANGE_MAX: Duration = Duration::from_secs(20);

/// Says whether a change is under way.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<AtomicBool>);

impl UnderWay {
    /// Begins one, unless there is one.
    fn begin(&self) -> Option<Changing> {
        let is_first = !self.0.swap(true, Ordering::AcqRel);
        is_first.then(|| Changing(Arc::clone(&self.0)))
    }
}

/// A change that is under way until this is dropped.
struct Changing(Arc<AtomicBool>);

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Who takes part, as far as it was followed.
pub(super) struct Followed {
    /// Where the log says so: of the newest, and of those of whom it says so for good.
    at: [Option<LogId>; 2],
    settled: Arc<StoredMembership>,
}

impl Driver {
    /// Changes who takes part, if this server decides.
    pub(super) fn change(&mut self, change: MemberChange, done: MembersDone) {
        let metrics = self.metrics.borrow_watched().clone();
        let plan = match self.plan(&metrics, &change) {
            Ok(plan) => plan,
            Err(error) => return done(Err(error)),
        };
        let Some(changing) = self.changing.begin() else {
            return done(Err(MembersError::Refused(UNDER_WAY.to_owned())));
        };
        if !matches!(plan, Plan::AlreadySo | Plan::Joined(_)) {
            tracing::info!(?change, "the members are to change");
        }
        let successor = self.successor_of_own(&metrics, &plan);
        let (raft, at) = (self.raft.clone(), *metrics.membership_config.log_id());
        let silence_max = self.options.silence_max;
        let before = metrics.membership_config.membership().voter_ids().collect();
        Runtime::spawn(async move {
            let carried_out = match (plan, successor) {
                (_, Some(other)) => {
                    let _ = hand_over(&raft, other).await;
                    // Whoever leads then is asked again.
                    Err(MembersError::NotDeciding)
                }
                (Plan::Transfer(id), None) => hand_over(&raft, id).await,
                (plan @ Plan::Rename(..), None) => {
                    let changed = changes::carry_out(&raft, at, &before, plan).await;
                    // Until it shows who answers: what comes next is judged by that.
                    Runtime::sleep(2 * silence_max).await;
                    changed
                }
                (plan, None) => {
                    let changed = changes::carry_out(&raft, at, &before, plan);
                    timeout(CHANGE_MAX, changed).await.unwrap_or_else(|_| Err(late()))
                }
            };
            if let Err(error) = &carried_out {
                tracing::info!(%error, "the members were not changed as asked");
            }
            // Whoever is told may ask for the next one.
            drop(changing);
            done(carried_out);
        });
    }

    /// What a change comes to, asked of this server.
    fn plan(
        &self,
        metrics: &RaftMetrics<Types>,
        change: &MemberChange,
    ) -> Result<Plan, MembersError> {
        if !matches!(self.shared.progress.role(), Role::Deciding(_)) {
            return Err(MembersError::NotDeciding);
        }
        let mut known = self.known(metrics);
        if self.stands.borrow().since.elapsed() <= self.options.silence_max {
            // It has not had the time to hear all.
            match change {
                MemberChange::Transfer { id } => drop(known.heard.insert(*id)),
                _ if known.is_all_heard() => {}
                _ => return Err(MembersError::NotDeciding),
            }
        }
        changes::plan(&known, change.clone())
    }

    /// To whom this server hands the lead, if it is not to be a voter any more and another one can
    /// take it.
    fn successor_of_own(&self, metrics: &RaftMetrics<Types>, plan: &Plan) -> Option<u64> {
        match plan {
            Plan::Members { voters, .. } if !voters.contains(&self.options.id) => {
                let successor = self.successor_among(metrics, voters);
                tracing::info!(?successor, "this server leads, and is to leave");
                successor
            }
            Plan::Members { .. }
            | Plan::AlreadySo
            | Plan::Joined(_)
            | Plan::Join(_)
            | Plan::Rename(..)
            | Plan::Transfer(_) => None,
        }
    }

    /// What a change is judged by.
    fn known<'k>(&self, metrics: &'k RaftMetrics<Types>) -> Known<'k> {
        let (now, membership) = (Instant::now(), metrics.membership_config.membership());
        let heard = self.heard(metrics);
        let end = metrics.last_log_index.unwrap_or(0);
        let lacks = |id: u64| {
            let has = matched(metrics, id);
            self.lag.lacks(now, id, has, end).map(|lacks| (id, lacks))
        };
        let lacking = membership.learner_ids().filter_map(lacks).collect();
        Known { id: metrics.id, membership, heard, lacking }
    }

    /// Who answered the leader lately, itself included.
    fn heard(&self, metrics: &RaftMetrics<Types>) -> BTreeSet<u64> {
        let silence_max = self.options.silence_max;
        let all = metrics.heartbeat.iter().flatten();
        let heard = all.filter(|(_, at)| at.is_some_and(|at| at.elapsed() <= silence_max));
        heard.map(|(id, _)| *id).chain([metrics.id]).collect()
    }

    /// Looks at the members, once a heartbeat: how far learners are, and whether a change is to be
    /// ended.
    pub(super) fn look_at_learners(&mut self, metrics: &RaftMetrics<Types>) {
        if !matches!(self.shared.progress.role(), Role::Deciding(_)) {
            return self.lag.forget();
        }
        let (heard, membership) = (self.heard(metrics), metrics.membership_config.membership());
        let learners: BTreeMap<u64, u64> = membership
            .learner_ids()
            .filter(|id| heard.contains(id))
            .map(|id| (id, matched(metrics, id)))
            .collect();
        self.lag.look(Instant::now(), metrics.last_log_index.unwrap_or(0), &learners);
        let at = *metrics.membership_config.log_id();
        if membership.get_joint_config().len() > 1
            && at == *metrics.committed_membership_config.log_id()
            && let Some(changing) = self.changing.begin()
        {
            tracing::info!("a change of the members that was cut short is ended");
            let raft = self.raft.clone();
            Runtime::spawn(async move {
                let _changing = changing;
                // It is tried again otherwise.
                let _ = timeout(CHANGE_MAX, changes::finish(&raft, at)).await;
            });
        }
    }

    /// Follows who takes part, as the engine says.
    pub(super) fn follow_members(&mut self, metrics: &RaftMetrics<Types>) {
        let (newest, settled) = (&metrics.membership_config, &metrics.committed_membership_config);
        let at = [*newest.log_id(), *settled.log_id()];
        // Before the engine has looked into its log it says that nobody does.
        if self.followed.is_none() && newest.membership().nodes().next().is_none() {
            return;
        }
        if self.followed.as_ref().is_some_and(|before| before.at == at) {
            return;
        }
        let others = newest.membership().nodes().chain(settled.membership().nodes());
        let others = others.filter(|(id, _)| **id != self.options.id);
        self.asks.follow(&others.map(|(id, node)| (*id, node.address.clone())).collect());
        if let Some(before) = &self.followed {
            tell(before.settled.membership(), settled.membership());
        }
        self.shared.set_listed(settled);
        self.followed = Some(Followed { at, settled: Arc::clone(settled) });
    }
}

/// The last entry that a member is known to have.
fn matched(metrics: &RaftMetrics<Types>, id: u64) -> u64 {
    let matched = metrics.replication.as_ref().and_then(|all| all.get(&id)).copied().flatten();
    matched.map_or(0, |id| id.index)
}

/// Hands the lead over, and waits until another one leads.
async fn hand_over(raft: &Engine, other: u64) -> Result<MembersChanged, MembersError> {
    let asked = raft.trigger().transfer_leader(other).await;
    asked.map_err(|fatal| MembersError::Unknown(fatal.to_string()))?;
    let leads = |metrics: &RaftMetrics<Types>| metrics.current_leader == Some(other);
    let taken = raft.wait(Some(TRANSFER_MAX)).metrics(leads, "the lead is handed over").await;
    let not_yet = |_| MembersError::Unknown(format!("member {other} has not taken the lead yet"));
    taken.map(|_| MembersChanged::Done).map_err(not_yet)
}

/// How long one may take to take the lead.
const TRANSFER_MAX: Duration = Duration::from_secs(5);

fn late() -> MembersError {
    MembersError::Unknown(format!("it took longer than {} s", CHANGE_MAX.as_secs()))
}

/// Tells the log what is new.
fn tell(before: &Membership, now: &Membership) {
    let part = |of: &Membership, id: u64| {
        let is_voter = of.voter_ids().any(|voter| voter == id);
        of.get_node(&id).map(|_| if is_voter { "voter" } else { "learner" })
    };
    let all: BTreeSet<u64> = before.nodes().chain(now.nodes()).map(|(id, _)| *id).collect();
    for member in all {
        let address = now.get_node(&member).map(|node| &*node.address).unwrap_or_default();
        match (part(before, member), part(now, member)) {
            (was, is) if was == is => {}
            (None, Some(is)) => tracing::info!(member, part = is, address, "a member joined"),
            (Some(_), Some(is)) => tracing::info!(member, part = is, "a member has another part"),
            (_, None) => tracing::info!(member, "a member was removed"),
        }
    }
}
