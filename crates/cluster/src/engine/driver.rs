//! Takes what the rest of the server asks of the engine, and tells it the role.
//!
//! Invariant: batches go to the engine in the order in which they were committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use history::log::{
    BarrierDone, CommitDone, CommitError, LogBatch, MembersError, NotNow, Reign, Role,
};
use openraft::alias::{JoinHandleOf, WatchReceiverOf};
use openraft::async_runtime::WatchReceiver;
use openraft::raft::ReadPolicy;
use openraft::rt::AsyncRuntime;
use openraft::{Instant as _, RaftMetrics, ServerState};
use store::Lsn;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::acknowledger::Pending;
use super::command::{Command, Standing, closed};
use super::lag::Lag;
use super::membership::{Followed, UnderWay};
use super::watchdog::{Sight, Voter, Watchdog};
use crate::asks::Asks;
use crate::copies::Copies;
use crate::log_store::LogStore;
use crate::machine::Engine;
use crate::options::Options;
use crate::shared::Shared;
use crate::types::{RecordBytes, Runtime, Types};

/// How long the end of the log waits for batches in flight.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

pub(super) struct Driver {
    pub(super) raft: Engine,
    pub(super) metrics: WatchReceiverOf<Types, RaftMetrics<Types>>,
    pub(super) shared: Arc<Shared>,
    pub(super) options: Options,
    pub(super) log: LogStore,
    pub(super) copies: Arc<Copies>,
    pub(super) asked: mpsc::UnboundedReceiver<Command>,
    pub(super) pending: mpsc::UnboundedSender<Pending>,
    pub(super) stands: watch::Sender<Standing>,
    /// Who leads, as far as is known.
    pub(super) leader: watch::Sender<Option<u64>>,
    /// Up to here, as the journal counts, the log is to be purged.
    pub(super) purge_upto: u64,
    /// Whether the log waits for room on its disk, as last seen.
    pub(super) has_no_room: bool,
    /// When a new term was asked for.
    pub(super) renewed: Option<Instant>,
    pub(super) watchdog: Watchdog,
    /// Where the leader is asked.
    pub(super) asks: Asks,
    /// Whether a change of the members is under way.
    pub(super) changing: UnderWay,
    /// How far learners are behind.
    pub(super) lag: Lag,
    /// Who takes part, as far as it was followed.
    pub(super) followed: Option<Followed>,
}

impl Driver {
    /// Until the log is closed.
    pub(super) async fn run(mut self, acknowledger: JoinHandleOf<Types, ()>) {
        let mut ticks = interval(self.options.heartbeat());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_running = true;
        loop {
            tokio::select! {
                biased;
                changed = self.metrics.changed(), if is_running => {
                    is_running = changed.is_ok();
                    self.look().await;
                    if !is_running {
                        self.shared.fail("the engine of the cluster ended".to_owned());
                    }
                }
                _ = ticks.tick() => {
                    self.shared.progress.grow_older(self.barrier_ages(), self.shared.no_quorum());
                    self.look().await;
                    self.judge().await;
                    self.purge().await;
                }
                command = self.asked.recv() => match command {
                    Some(Command::Close(told)) => return self.close(acknowledger, Some(told)).await,
                    None => return self.close(acknowledger, None).await,
                    Some(command) => self.carry_out(command).await,
                },
            }
        }
    }

    /// How many heartbeats somebody may wait for what is not applied: no longer than anybody waits
    /// for a change, or for the outcome of one.
    fn barrier_ages(&self) -> u64 {
        let longest = self.options.outcome_wait.max(self.options.read_wait());
        let ages = longest.as_nanos().div_ceil(self.options.heartbeat().as_nanos().max(1));
        u64::try_from(ages).unwrap_or(u64::MAX)
    }

    async fn carry_out(&mut self, command: Command) {
        match command {
            Command::Commit { reign, batch, done } => self.commit(reign, batch, done).await,
            Command::Linearizable(done) => self.linearizable(done),
            Command::ReadIndex(done) => self.read_index(done),
            Command::Forget => self.forget().await,
            Command::Retire => self.retire().await,
            Command::Change { change, done } => self.change(change, done),
            Command::Close(_) => {}
        }
    }

    /// Gives a batch to the engine.
    async fn commit(&mut self, reign: Reign, batch: LogBatch, done: CommitDone) {
        let last = batch.records.last().map_or(Lsn(0), |record| record.lsn);
        let outcomes = if self.shared.progress.role() == Role::Deciding(reign) {
            let records = batch.records.into_iter().map(|record| RecordBytes(record.bytes));
            let outcomes = self.raft.client_write_many(records).await;
            outcomes.map_err(|fatal| CommitError::Fatal(fatal.to_string()))
        } else {
            Err(CommitError::NotDeciding { leader: None })
        };
        // The acknowledger ends after this.
        let _ = self.pending.send(Pending { reign, last, outcomes, done });
    }

    /// Hands the lead over, and does not stand for election any more.
    async fn retire(&mut self) {
        self.watchdog.retire();
        self.raft.runtime_config().elect(false);
        let metrics = self.metrics.borrow_watched().clone();
        if metrics.state == ServerState::Leader
            && let Some(other) = self.successor(&metrics)
        {
            // A failure shows in the metrics.
            let _ = self.raft.trigger().transfer_leader(other).await;
        }
    }

    /// Has whoever leads ask a majority, and answers when all is applied here that was committed
    /// then; after [`Options::read_wait`] at the latest.
    fn linearizable(&self, done: BarrierDone) {
        let shared = Arc::clone(&self.shared);
        let wait = self.options.read_wait();
        let leader = self.metrics.borrow_watched().current_leader;
        if let Some(leader) = leader.filter(|leader| *leader != self.options.id) {
            let asks = self.asks.clone();
            Runtime::spawn(async move {
                let applied = async {
                    let lsn = asks.read(leader, wait).await?;
                    let (told, heard) = oneshot::channel();
                    let applied = move |outcome| drop(told.send(outcome));
                    shared.progress.when_applied(lsn, Box::new(applied));
                    heard.await.ok()
                };
                let outcome = timeout(wait, applied).await.ok().flatten();
                done(outcome.unwrap_or_else(|| Err(shared.no_quorum())));
            });
            return;
        }
        self.read_index(done);
    }

    /// Asks a majority whether this server still leads, and answers when all is applied that was
    /// committed then.
    fn read_index(&self, done: BarrierDone) {
        let (raft, shared) = (self.raft.clone(), Arc::clone(&self.shared));
        let wait = self.options.read_wait();
        Runtime::spawn(async move {
            let confirmed = timeout(wait, raft.ensure_linearizable(ReadPolicy::ReadIndex)).await;
            done(match confirmed {
                Ok(Ok(_)) => Ok(shared.progress.applied()),
                Ok(Err(_)) | Err(_) => Err(shared.no_quorum()),
            });
        });
    }

    /// Purges the log when it is longer than what is kept for members that fell behind. The engine
    /// purges only what a snapshot has, so it is told of one first.
    async fn forget(&mut self) {
        let kept = self.log.before_newest(self.options.log_keep_bytes);
        // Whoever gets a copy goes on behind it.
        let needed = self.copies.needs_after().unwrap_or(u64::MAX);
        let upto = kept.min(self.shared.flushed().index).min(needed);
        if upto <= self.purge_upto {
            return;
        }
        self.purge_upto = upto;
        // A failure shows in the metrics.
        let _ = self.raft.trigger().snapshot().await;
    }

    /// Looks at what the engine says of itself.
    async fn look(&mut self) {
        let metrics = self.metrics.borrow_watched().clone();
        self.follow_members(&metrics);
        let role = self.role(&metrics);
        if let Role::Failed(reason) = &role {
            self.shared.fail(reason.clone());
        } else if let Role::Deciding(reign) = &role {
            self.shared.leads(reign.0);
        }
        if self.shared.progress.set_role(role.clone()) {
            tracing::info!(?role, term = metrics.current_term, "the part of this server changed");
        }
        let role = self.shared.progress.role();
        self.stands.send_if_modified(|standing| {
            let is_new = standing.role != role;
            if is_new {
                *standing = Standing { role, since: Instant::now() };
            }
            is_new
        });
        let leader = metrics.current_leader;
        self.leader.send_if_modified(|before| std::mem::replace(before, leader) != leader);
        self.renew(&metrics).await;
    }

    /// Has the engine purge the log, again and again until it has: it does not as long as a member
    /// that is away may yet be sent what is to go. Asking it makes news of the metrics, so this is
    /// not done for each of those: the engine would do nothing else.
    async fn purge(&self) {
        let metrics = self.metrics.borrow_watched().clone();
        let snapshot = metrics.snapshot.map_or(0, |id| id.index + 1);
        let purged = metrics.purged.map_or(0, |id| id.index + 1);
        self.copies.look(purged);
        // A copy may have come since.
        let upto = self.purge_upto.min(self.copies.needs_after().unwrap_or(u64::MAX));
        if upto > purged && snapshot >= upto {
            // A failure shows in the metrics.
            let _ = self.raft.trigger().purge_log(upto.saturating_sub(1)).await;
        }
    }

    /// A leader that is heard again after it gave up a batch hands the lead over: in the next term
    /// that batch is either committed or gone.
    async fn renew(&mut self, metrics: &RaftMetrics<Types>) {
        let is_led = quorum_age(metrics).is_some_and(|age| age <= self.options.silence_max);
        let is_due = self.renewed.is_none_or(|at| at.elapsed() > self.options.silence_max);
        if metrics.state == ServerState::Leader
            && is_led
            && is_due
            && self.shared.has_given_up(metrics.current_term)
        {
            self.renewed = Some(Instant::now());
            // A failure shows in the metrics.
            let _ = match self.successor(metrics) {
                Some(other) => self.raft.trigger().transfer_leader(other).await,
                None => self.raft.trigger().elect(false).await,
            };
        }
    }

    /// Whoever is to lead when this server must not; none where there is no other voter.
    fn successor(&self, metrics: &RaftMetrics<Types>) -> Option<u64> {
        let watched = self.shared.watched();
        let others = voters(metrics, watched.fit.as_ref(), self.options.silence_max);
        self.watchdog.next(&others)
    }

    /// The same, one of `allowed`.
    pub(super) fn successor_among(
        &self,
        metrics: &RaftMetrics<Types>,
        allowed: &BTreeSet<u64>,
    ) -> Option<u64> {
        let watched = self.shared.watched();
        let mut others = voters(metrics, watched.fit.as_ref(), self.options.silence_max);
        others.retain(|other| allowed.contains(&other.id));
        self.watchdog.next(&others)
    }

    /// Whether this server should lead, and what follows.
    async fn judge(&mut self) {
        let metrics = &self.metrics.borrow_watched().clone();
        let silence_max = self.options.silence_max;
        let is_leader = metrics.state == ServerState::Leader;
        let heard = match is_leader {
            true => quorum_age(metrics),
            false => self.shared.heard_age(),
        };
        let watched = self.shared.watched();
        self.look_for_room();
        self.look_at_learners(metrics);
        let others = voters(metrics, watched.fit.as_ref(), silence_max);
        let verdict = self.watchdog.look(&Sight {
            now: Instant::now(),
            slowest_sync: self.log.take_slowest_sync(),
            has_no_room: self.has_no_room,
            impediment: watched.impediment.clone(),
            // One that gave a batch up hands over anyway.
            is_leader: is_leader && !self.shared.has_given_up(metrics.current_term),
            leader: metrics.current_leader,
            is_led: heard.is_some_and(|age| age <= silence_max),
            last_index: metrics.last_log_index.unwrap_or(0),
            others: &others,
        });
        let said = verdict.unfit.clone();
        if self.shared.set_unfit(verdict.unfit) {
            match said {
                Some(reason) => tracing::warn!(%reason, "this server should not lead"),
                None => tracing::info!("nothing speaks against this server's leading any more"),
            }
        }
        self.raft.runtime_config().elect(verdict.stands && !self.shared.is_removed());
        if let Some(successor) = verdict.successor {
            tracing::info!(successor, "the lead is handed over");
            // A failure shows in the metrics.
            let _ = self.raft.trigger().transfer_leader(successor).await;
        }
    }

    /// Whether the log waits for room; it says so when that changes.
    fn look_for_room(&mut self) {
        let has_no_room = self.log.has_no_room();
        if std::mem::replace(&mut self.has_no_room, has_no_room) == has_no_room {
            return;
        }
        if has_no_room {
            tracing::error!(
                "the disk has no room for the journal: what this member is to write waits until \
                 there is some; make room"
            );
        } else {
            tracing::info!("the journal has room again, and this member goes on");
        }
    }

    fn role(&self, metrics: &RaftMetrics<Types>) -> Role {
        if let Err(fatal) = &metrics.running_state {
            // What it says may be what follows from the first failure.
            let reason = self.log.failure().map_or_else(|| fatal.to_string(), str::to_owned);
            return Role::Failed(format!("the engine of the cluster ended: {reason}"));
        }
        match metrics.current_leader {
            Some(leader) if leader == metrics.id && metrics.state == ServerState::Leader => {
                let heard = quorum_age(metrics);
                if let Some(age) = heard {
                    self.shared.heard(Instant::now() - age);
                }
                let applied = metrics.last_applied.map(|id| **id.committed_leader_id());
                let is_current = applied == Some(metrics.current_term);
                let is_led = heard.is_some_and(|age| age <= self.options.silence_max);
                let is_over = self.shared.has_given_up(metrics.current_term);
                match is_current && is_led && !is_over {
                    true => Role::Deciding(Reign(metrics.current_term)),
                    false => Role::Alone,
                }
            }
            Some(leader) if leader != metrics.id => {
                let node = metrics.membership_config.membership().get_node(&leader);
                let url = node.map(|node| node.url.clone()).filter(|url| !url.is_empty());
                Role::Following { leader: url }
            }
            Some(_) | None => Role::Alone,
        }
    }

    /// Waits for what is in flight, and ends the engine.
    async fn close(
        self,
        acknowledger: JoinHandleOf<Types, ()>,
        told: Option<std::sync::mpsc::SyncSender<()>>,
    ) {
        let Self { mut asked, pending, raft, shared, stands, log, .. } = self;
        asked.close();
        while let Some(command) = asked.recv().await {
            match command {
                Command::Commit { reign, done, .. } => {
                    let outcomes = Err(closed());
                    let _ = pending.send(Pending { reign, last: Lsn(0), outcomes, done });
                }
                Command::Linearizable(done) | Command::ReadIndex(done) => {
                    done(Err(NotNow::Closed));
                }
                Command::Change { done, .. } => {
                    done(Err(MembersError::Refused("the server is shutting down".to_owned())));
                }
                Command::Forget | Command::Retire => {}
                Command::Close(told) => drop(told.send(())),
            }
        }
        drop(pending);
        let mut acknowledger = acknowledger;
        if timeout(CLOSE_WAIT, &mut acknowledger).await.is_err() {
            // It gives up what it waits for when nobody tells the role any more.
            drop(stands);
            let _ = acknowledger.await;
        }
        // The engine does not end before its log answers.
        log.give_up_room();
        let _ = raft.shutdown().await;
        log.close();
        shared.progress.close();
        if let Some(told) = told {
            let _ = told.send(());
        }
    }
}

/// How long ago a majority answered the leader; one that is the only voter is its own.
pub(super) fn quorum_age(metrics: &RaftMetrics<Types>) -> Option<Duration> {
    let mut voters = metrics.membership_config.membership().voter_ids();
    if voters.all(|id| id == metrics.id) {
        return Some(Duration::ZERO);
    }
    metrics.last_quorum_acked.map(|at| at.elapsed())
}

/// The other voters, as the leader knows them.
fn voters(
    metrics: &RaftMetrics<Types>,
    fit: Option<&BTreeSet<u64>>,
    silence_max: Duration,
) -> Vec<Voter> {
    let ids = metrics.membership_config.membership().voter_ids();
    let others = ids.filter(|id| *id != metrics.id).map(|id| {
        let matched = metrics.replication.as_ref().and_then(|all| all.get(&id)).copied().flatten();
        let heard = metrics.heartbeat.as_ref().and_then(|all| all.get(&id)).copied().flatten();
        Voter {
            id,
            matched: matched.map_or(0, |id| id.index),
            is_heard: heard.is_some_and(|at| at.elapsed() <= silence_max),
            is_fit: fit.is_none_or(|fit| fit.contains(&id)),
        }
    });
    others.collect()
}
