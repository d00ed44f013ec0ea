//! The commit log of several servers: batches go into the log of Raft, and are done when they are
//! applied here.
//!
//! One task, the driver, takes what the rest of the server asks and tells the role; another one,
//! the acknowledger, waits for the outcome of the batches, in their order.
//!
//! Invariant: a batch is accepted only while this server decides in the term in which the batch was
//! decided; what got into the log in a later one is void (`machine.rs`).
//! Invariant: this server decides only after the first entry of its term is applied here: its state
//! is then all that was ever acknowledged.
//! Invariant: a batch whose outcome was lost with the lead is unknown, never refused.

mod acknowledger;
mod changes;
mod command;
mod driver;
mod lag;
mod members;
mod membership;
mod watchdog;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use history::log::{
    BarrierDone, CommitDone, CommitError, CommitLog, Difference, Gone, LogBatch, MemberChange,
    MembersDone, Membership, NotNow, ReadLevel, Reign, Role, RoleWatcher, StateMachine, Tail,
};
use openraft::Raft;
use openraft::alias::JoinHandleOf;
use openraft::network::{NetSnapshot, RaftNetworkFactory};
use openraft::rt::AsyncRuntime;
use store::{LogPosition, Lsn};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use self::acknowledger::Acknowledger;
pub use self::changes::CHOSEN_MAX;
pub(crate) use self::changes::made_at;
use self::command::{Command, Standing, closed};
use self::driver::Driver;
use self::lag::Lag;
use self::members::Members;
pub use self::members::{MemberStatus, Status};
use self::membership::UnderWay;
pub(crate) use self::watchdog::CLOCK_SKEW_MAX;
use self::watchdog::Watchdog;
use crate::asks::Asks;
use crate::copies::Copies;
use crate::errands::Errands;
use crate::log_store::LogStore;
use crate::machine::{Engine, RaftMachine};
use crate::options::Options;
use crate::receiver::MemberReceiver;
use crate::shared::{Shared, Watched};
use crate::tail::RaftTail;
use crate::types::{Runtime, SnapshotFile, Types};

/// How many batches are worth having in flight: while one travels, the next are decided.
const WINDOW: usize = 8;

/// The log of a server that is a member of a cluster. It is closed when it is dropped.
pub struct RaftLog(pub(crate) LogHandle);

/// The same, for those who do not keep it open.
#[derive(Clone)]
pub(crate) struct LogHandle {
    shared: Arc<Shared>,
    log: LogStore,
    copies: Arc<Copies>,
    commands: mpsc::UnboundedSender<Command>,
    members: Members,
    /// Who leads, as far as is known.
    pub(crate) leader: watch::Receiver<Option<u64>>,
}

/// What a node is made of.
pub(crate) struct Parts {
    pub(crate) state: Arc<dyn StateMachine>,
    pub(crate) log: LogStore,
    pub(crate) options: Options,
    pub(crate) errands: Errands,
    pub(crate) copies: Arc<Copies>,
    /// Where the leader is asked.
    pub(crate) asks: Asks,
}

/// A node that runs.
pub(crate) struct Started {
    pub(crate) log: RaftLog,
    pub(crate) receiver: MemberReceiver,
    /// Ends when the log is closed.
    pub(crate) driver: JoinHandleOf<Types, ()>,
    pub(crate) engine: Engine,
}

/// Starts a node on the runtime that this is called in, within `Runtime::scope`.
///
/// # Errors
/// A sentence, when something is not possible or what is stored cannot be read.
pub(crate) async fn start<N>(parts: Parts, network: N) -> Result<Started, String>
where
    N: RaftNetworkFactory<Types>,
    N::Network: NetSnapshot<Types, SnapshotData = SnapshotFile>,
{
    let Parts { state, log, options, errands, copies, asks } = parts;
    let config = Arc::new(options.config()?);
    let shared = Shared::new(state.applied(), state.position());
    let kept = Arc::clone(&shared);
    let own = Arc::clone(&copies);
    let machine = RaftMachine::new(state, kept, errands.clone(), own, &options)?;
    let raft = Raft::new(options.id, config, network, log.clone(), machine).await;
    // The first reason, and not what the engine made of it.
    let raft = raft.map_err(|error| {
        let failed = shared.progress.failed().or_else(|| log.failure().map(str::to_owned));
        failed.unwrap_or_else(|| error.to_string())
    })?;
    let (commands, asked) = mpsc::unbounded_channel();
    let (pending, accepted) = mpsc::unbounded_channel();
    let (stands, standing) = watch::channel(Standing { role: Role::Alone, since: Instant::now() });
    let (tells_leader, leader) = watch::channel(None);
    let acknowledger = Acknowledger {
        shared: Arc::clone(&shared),
        errands,
        accepted,
        standing,
        outcome_wait: options.outcome_wait,
    };
    let acknowledger = Runtime::spawn(acknowledger.run());
    let members = Members { commands: commands.clone(), metrics: raft.metrics() };
    let preferred = options.preferred.clone();
    let watchdog = Watchdog::new(options.id, preferred, options.silence_max, Instant::now());
    let driver = Driver {
        raft: raft.clone(),
        metrics: raft.metrics(),
        shared: Arc::clone(&shared),
        options,
        log: log.clone(),
        copies: Arc::clone(&copies),
        asked,
        pending,
        stands,
        leader: tells_leader,
        purge_upto: 0,
        has_no_room: false,
        renewed: None,
        watchdog,
        asks,
        changing: UnderWay::default(),
        lag: Lag::default(),
        followed: None,
    };
    let driver = Runtime::spawn(driver.run(acknowledger));
    let engine = raft.clone();
    let receiver = MemberReceiver::new(raft, Arc::clone(&shared), log.clone(), Arc::clone(&copies));
    let log = RaftLog(LogHandle { shared, log, copies, commands, members, leader });
    Ok(Started { log, receiver, driver, engine })
}

/// Waits until this server has applied all that was acknowledged before it was started: whoever
/// leads says what that is, after it has asked a majority. A client that was answered here must not
/// see less after a restart, and what the log has by itself may be less: what the others have
/// committed is applied before the own disk has it, and a new leader may not know yet that it is.
///
/// # Errors
/// When the log ended meanwhile.
pub(crate) async fn caught_up(log: LogHandle, again: Duration) -> Result<(), String> {
    loop {
        let (told, heard) = oneshot::channel();
        // Who waits may have gone.
        let done = move |outcome| drop(told.send(outcome));
        log.barrier(ReadLevel::Linearizable, Box::new(done));
        match heard.await {
            Ok(Ok(_)) => {
                log.shared.set_caught_up();
                return Ok(());
            }
            Ok(Err(NotNow::NoQuorum { .. })) => {}
            Ok(Err(NotNow::Closed)) | Err(_) => {
                let failed = log.shared.progress.failed();
                return Err(failed.unwrap_or_else(|| "the log of the cluster ended".to_owned()));
            }
        }
        if let Some(reason) = log.shared.progress.failed() {
            return Err(reason);
        }
        sleep(again).await;
    }
}

impl RaftLog {
    /// How the cluster is doing, as far as it is known here.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status()
    }
}

impl LogHandle {
    pub(crate) fn status(&self) -> Status {
        let status = self.members.status(&self.shared);
        let (receives, sends) = (self.copies.receives(), self.copies.sends());
        Status { receives, sends, copy_hindrances: self.copies.hindrances(), ..status }
    }

    /// The last change that is visible here.
    pub(crate) fn applied(&self) -> Lsn {
        self.shared.progress.applied()
    }

    /// The log fails, and stays so.
    pub(crate) fn fail(&self, reason: String) {
        self.shared.fail(reason);
    }

    /// The members had the same state after this record.
    pub(crate) fn found_alike(&self, lsn: Lsn) {
        self.shared.compared(Some(lsn), None);
    }

    /// They have not.
    pub(crate) fn found_apart(&self, difference: &Difference) {
        self.shared.compared(None, Some(difference.to_string()));
    }

    /// The state of this member is not that of the others after this record.
    pub(crate) fn found_diverged(&self, lsn: Lsn) {
        self.shared.note_diverged(lsn);
    }

    /// Member `id` asked how this one is doing; it is noted if it is not listed here.
    pub(crate) fn note_asker(&self, id: u64) {
        if !self.members.lists(id) && !self.has_removed(id) {
            self.shared.note_unlisted(id);
        }
    }

    /// Whether `id` took part and does not any more.
    pub(crate) fn has_removed(&self, id: u64) -> bool {
        self.shared.listed().has_removed(id)
    }

    /// Changes who takes part, if this member decides.
    pub(crate) fn change(&self, change: MemberChange, done: MembersDone) {
        self.members.change(change, done);
    }

    /// Whether `id` is known to have lost what it had confirmed to this one.
    pub(crate) fn is_forgetful(&self, id: u64) -> bool {
        self.shared.watched().forgetful.contains(&id)
    }

    /// Another member says that this one takes part no more.
    pub(crate) fn set_removed(&self, by: u64) {
        self.shared.set_removed(by);
    }

    /// Who is not listed here and asked lately.
    pub(crate) fn unlisted(&self) -> BTreeSet<u64> {
        self.shared.unlisted()
    }

    /// What speaks against a server's leading, as it was found out.
    pub(crate) fn set_watched(&self, watched: Watched) {
        self.shared.set_watched(watched);
    }

    pub(crate) fn barrier(&self, level: ReadLevel, done: BarrierDone) {
        match level {
            ReadLevel::Local => done(Ok(self.shared.progress.applied())),
            ReadLevel::AtLeast(asked) => self.shared.progress.when_applied(asked, done),
            ReadLevel::Linearizable => self.ask(Command::Linearizable(done)),
        }
    }

    /// Which record one must have to see everything that was acknowledged; told only if this
    /// server leads, so that members do not ask each other in turns.
    pub(crate) fn read_index(&self, done: BarrierDone) {
        self.ask(Command::ReadIndex(done));
    }

    fn ask(&self, command: Command) {
        if let Err(mpsc::error::SendError(Command::Linearizable(done) | Command::ReadIndex(done))) =
            self.commands.send(command)
        {
            done(Err(NotNow::Closed));
        }
    }

    /// Whether a batch can be accepted at all.
    fn check(&self, reign: Reign, batch: &LogBatch) -> Result<(), CommitError> {
        match self.shared.progress.role() {
            _ if self.shared.progress.is_closed() => return Err(closed()),
            Role::Failed(reason) => return Err(CommitError::Fatal(reason)),
            Role::Deciding(now) if now == reign => {}
            Role::Following { leader } => return Err(CommitError::NotDeciding { leader }),
            Role::Deciding(_) | Role::Alone => {
                return Err(CommitError::NotDeciding { leader: None });
            }
        }
        batch.check()
    }
}

impl CommitLog for RaftLog {
    fn commit(&self, reign: Reign, batch: LogBatch, done: CommitDone) {
        if let Err(error) = self.0.check(reign, &batch) {
            return done(Err(error));
        }
        self.0.shared.in_flight.fetch_add(1, Ordering::AcqRel);
        let commit = Command::Commit { reign, batch, done };
        if let Err(mpsc::error::SendError(Command::Commit { done, .. })) =
            self.0.commands.send(commit)
        {
            self.0.shared.in_flight.fetch_sub(1, Ordering::AcqRel);
            done(Err(closed()));
        }
    }

    fn in_flight(&self) -> usize {
        self.0.shared.in_flight.load(Ordering::Acquire)
    }

    fn window(&self) -> usize {
        WINDOW
    }

    fn role(&self) -> Role {
        self.0.shared.progress.role()
    }

    fn watch(&self, watcher: RoleWatcher) {
        self.0.shared.progress.watch(watcher);
    }

    fn barrier(&self, level: ReadLevel, done: BarrierDone) {
        self.0.barrier(level, done);
    }

    fn tail(&self, from: Lsn) -> Result<Box<dyn Tail>, Gone> {
        Ok(Box::new(RaftTail::new(Arc::clone(&self.0.shared), self.0.log.clone(), from)?))
    }

    fn applied(&self) -> Lsn {
        self.0.shared.progress.applied()
    }

    fn members(&self) -> &dyn Membership {
        &self.0.members
    }

    fn kept_index(&self) -> u64 {
        self.0.log.status().kept_index()
    }

    fn forget(&self, upto: LogPosition) {
        self.0.shared.set_flushed(upto);
        // Without a driver there is nothing to forget.
        let _ = self.0.commands.send(Command::Forget);
    }

    fn retire(&self) {
        // Without a driver nobody leads here.
        let _ = self.0.commands.send(Command::Retire);
    }

    fn close(&self) {
        let (told, heard) = std::sync::mpsc::sync_channel(1);
        if self.0.commands.send(Command::Close(told)).is_ok() {
            // The driver tells, or is gone.
            let _ = heard.recv();
        }
        self.0.shared.progress.close();
    }
}

impl Drop for RaftLog {
    /// Whoever drops it does not wait for the end: it may be the engine's own thread.
    fn drop(&mut self) {
        let (told, _) = std::sync::mpsc::sync_channel(1);
        // The driver may be gone.
        let _ = self.0.commands.send(Command::Close(told));
        self.0.shared.progress.close();
    }
}

impl fmt::Debug for RaftLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftLog").field("progress", &self.0.shared.progress).finish_non_exhaustive()
    }
}
