//! The one writer: decides on the tentative state, hands batches to the log, goes on meanwhile.
//!
//! While the log makes one batch durable, the next is decided and gathered. It is sealed when the
//! log takes another one, so a lone client waits for nobody, and many share a sync.
//!
//! Invariant: a request is decided on the state that the requests before it left, durable or not,
//! and answered only when that state is durable and visible. That holds for refusals too.
//! Invariant: when a batch is lost, so is everything that was decided on top of it.
//! Invariant: nothing is decided between a change of the schema, of ACIs or of password policies
//! and the moment it is in force.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{iter, process, thread};

use crossbeam_channel::{Receiver, Sender, select, unbounded};
use history::log::{CommitError, Durability, EncodedRecord, LogBatch, Reign, Role};
use history::record::{RECORD_LENGTH_MAX_BYTES, RecordDraft};
use history::recovery::BATCH_ROWS_MAX_BYTES;
use ldap::result::ResultCode;
use store::{Applied, Batch, Lsn, Mark, Store};

use super::answers::{Failed, Waiting, answer_all, fail_all, give_up, refuse_all};
use super::carried_out::carried_out;
use super::group_commit::{GroupCommit, Wait};
use super::rules::{Begins, RulesOfBatch};
use super::waiting::{Found, Queued, WaitingWrites};
use crate::access::view_rules::ViewRules;
use crate::config::record_level;
use crate::directory::{Directory, State};
use crate::forward::outgoing::{Forwarding, Turn};
use crate::password_policy::set::PasswordPolicies;
use crate::request::asker_bytes::AskerHeld;
use crate::request::budgets::Budgets;
use crate::request::cancel::Ending;
use crate::request::limits::Limits;
use crate::request::refusal::Refusal;
use crate::write::decide::{Decider, WriteOutcome};
use crate::write::request::{WriteOp, WriteRequest};
use crate::write::response::WriteResponse;
use crate::write::space::SpaceWatch;

/// Starts the writer of `directory`.
pub(crate) fn start(directory: &Arc<Directory>) {
    let pipeline = Pipeline::new(directory);
    let weak = Arc::downgrade(directory);
    directory.queue.start(move |waiting| write_all(waiting, &weak, pipeline));
}

/// The writer's life: batch after batch until the queue is closed and empty.
fn write_all(waiting: &WaitingWrites, directory: &Weak<Directory>, mut pipeline: Pipeline) {
    let _abort = AbortOnPanic;
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, WRITER_NICE);
    while let Some(first) = pipeline.next(waiting) {
        let Some(directory) = directory.upgrade() else {
            // The directory is being dropped, which closes the queue.
            refuse_all([first], &Refusal::shutting_down());
            continue;
        };
        pipeline.write(&directory, waiting, first);
    }
}

/// A panic of the writer, or of the log while it answers, ends the process: with a change half-way
/// nobody knows what is true, and without a writer every client would wait for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!("the writer panicked; this is a bug");
            process::abort();
        }
    }
}

/// The writer's state between batches.
struct Pipeline {
    store: Arc<Store>,
    decider: Decider,
    space: SpaceWatch,
    group_commit: GroupCommit,
    /// How the log tells of batches that are done, and of a lost lead.
    to_writer: Sender<Heard>,
    heard: Receiver<Heard>,
    /// Batches the log has not told of.
    in_flight: usize,
    /// Batches that are lost, whose requests have not been told.
    untold: usize,
    /// A batch was lost: the tentative state is not going to be.
    has_lost: bool,
    /// The lead was lost: a batch that is being gathered will not be taken, and whoever applies
    /// what others decide must not wait for it.
    has_lost_lead: bool,
    /// Why nothing is written as long as the log has failed.
    stopped: Option<Refusal>,
    /// The reign of the last decision.
    reign: Option<Reign>,
    /// Requests that were carried out in part; they go on behind those that came meanwhile.
    unfinished: VecDeque<Queued>,
    /// One that came when the batch before it was lost: it is the next.
    put_back: Option<Queued>,
    /// Those who wait until the rules are what they are now.
    given_up: Option<GivenUp>,
    /// Where records are encoded.
    scratch: Vec<u8>,
}

/// A batch that is being gathered.
struct Open<'s> {
    began: Duration,
    batch: Batch<'s>,
    reign: Reign,
    state: Arc<State>,
    records: Vec<EncodedRecord>,
    record_bytes: usize,
    waiting: Vec<Waiting>,
    /// Octets of the answers among them.
    answer_bytes: usize,
    /// Requests of the batch that are not over with it.
    unfinished: Vec<Queued>,
    /// Somebody waits for the disk.
    is_synced: bool,
    changes_schema: bool,
    /// Settings of the server are in it.
    changes_settings: bool,
    /// The rules that views are read by from this batch on, when it touches any.
    view_rules: Option<Arc<ViewRules>>,
    /// The password policies from this batch on, when it touches any.
    password_policies: Option<Arc<PasswordPolicies>>,
}

/// What the log tells the writer.
enum Heard {
    /// A batch is done.
    Done(Done),
    /// Those of a lost batch who are not answered by the writer have been answered, or have their
    /// places among those that are handed on.
    Told,
    /// What was decided on is not to come any more.
    LostLead,
}

/// What the log tells the writer of one batch.
struct Done {
    took: Duration,
    lost: Option<CommitError>,
    /// Others are told that it is lost after the writer: [`Heard::Told`] follows.
    tells_others: bool,
    unfinished: Vec<Queued>,
    /// Whom the writer answers: those who have asked for other rules, which are lost.
    waiting: Vec<Waiting>,
}

/// Requests of a batch that was lost with the rules in it.
struct GivenUp {
    waiting: Vec<Waiting>,
    unfinished: Vec<Queued>,
    failed: Failed,
}

impl Pipeline {
    fn new(directory: &Directory) -> Self {
        let (to_writer, heard) = unbounded();
        watch_lead(directory, to_writer.clone());
        Self {
            store: Arc::clone(&directory.storage.store),
            decider: Decider::after(directory.storage.store.published(), directory.chance()),
            space: directory.storage.space_watch(),
            group_commit: GroupCommit::default(),
            to_writer,
            heard,
            in_flight: 0,
            untold: 0,
            has_lost: false,
            has_lost_lead: false,
            stopped: None,
            reign: None,
            unfinished: VecDeque::new(),
            put_back: None,
            given_up: None,
            scratch: Vec::new(),
        }
    }

    /// The next request to be decided; waits for it. None when the queue is closed and everything
    /// is done.
    fn next(&mut self, waiting: &WaitingWrites) -> Option<Queued> {
        loop {
            self.hear_log();
            if let Some(queued) = self.put_back.take() {
                return Some(queued);
            }
            let is_closed = match waiting.take() {
                Found::Request(queued) => return Some(queued),
                Found::Nothing => false,
                Found::Closed => true,
            };
            if let Some(queued) = self.unfinished.pop_front() {
                return Some(queued);
            }
            if is_closed && self.in_flight == 0 {
                return None;
            }
            if is_closed {
                self.wait_for_log();
                continue;
            }
            select! {
                recv(waiting.rung) -> _ => {}
                recv(self.heard) -> heard => if let Ok(heard) = heard {
                    self.note(heard);
                },
            }
        }
    }

    /// Decides `first` and what comes while the log is busy, and hands it to the log.
    fn write(&mut self, directory: &Directory, waiting: &WaitingWrites, first: Queued) {
        let reign = match self.may_write(directory) {
            Ok(reign) => reign,
            Err(NotNow::Refused(refusal)) => return refuse_all([first], &refusal),
            Err(NotNow::Lost(error)) => {
                return give_up([first], &Failed::new(&error), directory.queue.forwarding());
            }
        };
        if !directory.storage.store.wait_for_room(directory.limits().write_wait_max) {
            let all = iter::once(first).chain(iter::from_fn(|| waiting.try_take()));
            return refuse_for_room(directory, all);
        }
        let mut open = match directory.storage.store.begin() {
            Ok(batch) => Open::new(batch, reign, directory),
            Err(error) => return refuse_all([first], &Refusal::from(error)),
        };
        self.decide(directory, &mut open, first);
        // One step in each batch: a queue that is never empty must not stop a request in steps.
        if !open.changes_rules()
            && !open.is_awaited(&self.store)
            && let Some(step) = self.unfinished.pop_front()
        {
            self.decide(directory, &mut open, step);
        }
        self.gather(directory, waiting, &mut open);
        self.commit(directory, open);
    }

    /// Decides what comes until the batch is to leave.
    fn gather(&mut self, directory: &Directory, waiting: &WaitingWrites, open: &mut Open<'_>) {
        let window = directory.storage.log.window();
        let mut wait = None;
        while !open.changes_rules() && !self.has_lost && !self.has_lost_lead {
            let is_idle = self.in_flight < window;
            // Whoever was decided first must not wait for costly requests of others.
            if is_idle && open.is_late(directory) {
                break;
            }
            let next = if open.is_full(&directory.limits()) || open.is_awaited(&self.store) {
                if is_idle {
                    break;
                }
                self.wait_for_log();
                None
            } else {
                match waiting.take() {
                    Found::Request(next) => Some(next),
                    Found::Closed if is_idle => break,
                    Found::Closed => {
                        self.wait_for_log();
                        None
                    }
                    Found::Nothing if is_idle => {
                        match next_in_company(directory, waiting, open, wait.as_ref()) {
                            Some(next) => Some(next),
                            None => break,
                        }
                    }
                    Found::Nothing => self.next_while_busy(waiting),
                }
            };
            self.hear_log();
            if !is_idle && self.in_flight < window {
                wait = self.group_commit.wait(directory.clock.elapsed(), open.count());
            }
            match next {
                // Its client knows that the batch is lost; this one is not part of it.
                Some(next) if self.has_lost || self.has_lost_lead => {
                    self.put_back = Some(next);
                }
                Some(next) => self.decide(directory, open, next),
                None => {}
            }
        }
        if let Some(wait) = wait {
            self.group_commit.waited(&wait, open.count());
        }
    }

    /// Waits for another request or for the log, whichever comes first.
    fn next_while_busy(&mut self, waiting: &WaitingWrites) -> Option<Queued> {
        select! {
            recv(waiting.rung) -> _ => waiting.try_take(),
            recv(self.heard) -> heard => {
                if let Ok(heard) = heard {
                    self.note(heard);
                }
                None
            }
        }
    }

    /// Whether anything can be written now: the reign in which it is decided, or why not.
    fn may_write(&mut self, directory: &Directory) -> Result<Reign, NotNow> {
        self.hear_log();
        if self.has_lost || self.has_lost_lead {
            // What follows a lost batch is lost as well; the log says so of each. What is in none
            // of them must find those before it in their places, should the lead come back.
            while self.in_flight > 0 || self.untold > 0 {
                self.wait_for_log();
            }
            directory.storage.store.drop_tentative();
            (self.has_lost, self.has_lost_lead) = (false, false);
        }
        let role = directory.storage.log.role();
        if let Some(refusal) = &self.stopped
            && (directory.queue.forwarding().is_none() || matches!(role, Role::Failed(_)))
        {
            return Err(NotNow::Refused(refusal.clone()));
        }
        // The lead was lost, and nothing else.
        self.stopped = None;
        match role {
            Role::Deciding(reign) => {
                // Before its first reign, too, a server may have followed another one.
                if self.reign.replace(reign) != Some(reign) {
                    self.decider.follow(directory.storage.store.published());
                }
                Ok(reign)
            }
            Role::Following { leader } => Err(NotNow::Lost(CommitError::NotDeciding { leader })),
            Role::Alone => Err(NotNow::Lost(CommitError::NoQuorum)),
            Role::Failed(reason) => Err(NotNow::Refused((&CommitError::Fatal(reason)).into())),
        }
    }

    /// Decides one request on what its predecessors left; its effects and its record become part
    /// of the batch.
    fn decide(&mut self, directory: &Directory, open: &mut Open<'_>, mut queued: Queued) {
        // One before it was given up with the lead, which came back.
        let turn = queued.request.forwardable.as_ref().and_then(|one| one.turn.as_ref());
        if turn.is_some_and(Turn::is_behind) {
            let failed = Failed::new(&CommitError::NotDeciding { leader: None });
            return give_up([queued], &failed, directory.queue.forwarding());
        }
        // From here on it is too late to cancel it; one that goes on in steps may be abandoned.
        if queued.request.cancel.decide() != Ending::Own {
            return refuse_all([queued], &Refusal::new(ResultCode::Canceled, ""));
        }
        // What has happened needs no room.
        if let Some(answer) = carried_out(directory, &queued.request) {
            return open.answer(directory, queued, answer, false);
        }
        let owed_bytes = || directory.storage.store.overlay_bytes() as u64;
        self.space.look(directory.clock.elapsed(), owed_bytes);
        if let Some(refusal) = self.space.refusal_of(&queued.request) {
            return refuse_all([queued], &refusal);
        }
        let Open { batch, state, .. } = open;
        let outcome = match self.decider.one(directory, batch, state, &mut queued.request) {
            Ok(outcome) => outcome,
            Err(error) => {
                batch.rollback();
                let answer = Refusal::from(error).into();
                return open.answer(directory, queued, answer, false);
            }
        };
        if outcome.changes.is_empty() {
            batch.rollback();
            return open.push(directory, queued, outcome, false);
        }
        if !outcome.is_over && !may_keep(&directory.budgets, &mut queued) {
            batch.rollback();
            return open.answer(directory, queued, keeps_too_much().into(), false);
        }
        match self.record(directory, open.reign, batch, &queued.request, &outcome) {
            Ok(record) => {
                batch.release();
                outcome.keep(directory, &queued.request);
                open.record_bytes += record.bytes.len();
                self.space.logged(record.bytes.len());
                open.records.push(record);
                open.is_synced |= !queued.request.is_lazy;
                open.changes_schema |= outcome.changes_schema();
                open.changes_settings |= outcome.changes_settings();
                if outcome.view_rules.is_some() {
                    open.view_rules.clone_from(&outcome.view_rules);
                }
                if outcome.password_policies.is_some() {
                    open.password_policies.clone_from(&outcome.password_policies);
                }
                open.push(directory, queued, outcome, true);
            }
            Err(refusal) => {
                batch.rollback();
                open.answer(directory, queued, refusal.into(), false);
            }
        }
    }

    /// The record of what a request has changed in the batch.
    fn record(
        &mut self,
        directory: &Directory,
        reign: Reign,
        batch: &mut Batch<'_>,
        request: &WriteRequest,
        outcome: &WriteOutcome,
    ) -> Result<EncodedRecord, Refusal> {
        let last = batch.last();
        let lsn = Lsn(last.lsn.0 + 1);
        let csn = outcome.stamp.moment;
        // A step that only prepares another one is not what the request is known by.
        let is_preparing = !outcome.is_over && matches!(request.op, WriteOp::ModifyDn(_));
        let origin = match is_preparing {
            true => request.origin_of_preparation(&mut *directory.chance()),
            false => request.origin(),
        };
        let draft = RecordDraft {
            lsn,
            prev_hash: last.hash,
            reign,
            csn,
            origin: &origin,
            changes: &outcome.changes,
        };
        record_level::check(directory, &batch.view(), draft.level())?;
        self.scratch.clear();
        let hash = draft.encode(&mut self.scratch).map_err(|error| Refusal::from(&error))?;
        let applied = batch.record(Mark { lsn, hash, time_us: csn.time.0, ..last })?;
        assert_eq!(applied, Applied::Done, "the writer gives the numbers itself");
        batch.keep_request(origin.request);
        let bytes = Arc::from(self.scratch.as_slice());
        self.scratch.shrink_to(SCRATCH_KEPT_BYTES);
        Ok(EncodedRecord { lsn, hash, bytes })
    }

    /// Hands the batch to the log, or answers at once when there is nothing to make durable.
    fn commit(&mut self, directory: &Directory, open: Open<'_>) {
        let changes_rules = open.changes_rules();
        let Open {
            batch,
            reign,
            records,
            waiting,
            unfinished,
            is_synced,
            changes_schema,
            changes_settings,
            view_rules,
            password_policies,
            ..
        } = open;
        if records.is_empty() {
            drop(batch);
            // The refusals may come from what is in flight.
            while self.in_flight > 0 {
                self.wait_for_log();
            }
        } else if !self.has_lost && !self.has_lost_lead {
            // Before anybody can see the entries that they guard, and while no other batch is made.
            let last = records.last().map_or(Lsn(0), |record| record.lsn);
            if let Some(rules) = &view_rules {
                directory.rules.of_views.put(rules, last);
            }
            let changes_policies = password_policies.is_some();
            if let Some(policies) = password_policies {
                directory.rules.password_policies.put(policies, last);
            }
            let rules = RulesOfBatch { last, changes_schema, view_rules, changes_policies };
            batch.seal();
            self.in_flight += 1;
            let to_writer = self.to_writer.clone();
            let begins = Begins::of(directory, changes_schema, changes_settings);
            self.group_commit.left(waiting.len() + unfinished.len());
            let forwarding = directory.queue.forwarding().cloned();
            let clock = Arc::clone(&directory.clock);
            let began = clock.elapsed();
            let durability = if is_synced { Durability::Synced } else { Durability::Written };
            let done = Box::new(move |outcome: Result<Lsn, CommitError>| {
                let _abort = AbortOnPanic;
                let took = clock.elapsed().saturating_sub(began);
                let (lost, tells_others) = (outcome.err(), false);
                let waiting_here = Vec::new();
                let told = Done { took, lost, tells_others, unfinished, waiting: waiting_here };
                if told.lost.is_some() && changes_rules {
                    let _ = to_writer.send(Heard::Done(Done { waiting, ..told }));
                } else {
                    finish(told, waiting, begins, &to_writer, forwarding.as_ref());
                }
            });
            directory.storage.log.commit(reign, LogBatch { records, durability }, done);
            while changes_rules && self.in_flight > 0 {
                self.wait_for_log();
            }
            if changes_rules && self.has_lost {
                rules.forget(directory);
            }
            if let Some(GivenUp { waiting, unfinished, failed }) = self.given_up.take() {
                let forwarding = directory.queue.forwarding();
                fail_all(waiting, &failed, forwarding);
                give_up(unfinished, &failed, forwarding);
            }
            return;
        }
        if self.has_lost || self.has_lost_lead {
            // Decided on a state that is not going to be. That holds for what a request in steps
            // remembers as well: the entry it found may be another one from now on.
            let refusal = self.stopped.clone().unwrap_or_else(|| (&CommitError::Busy).into());
            let failed = Failed::decided_in_vain(refusal);
            let forwarding = directory.queue.forwarding();
            give_up(unfinished, &failed, forwarding);
            fail_all(waiting, &failed, forwarding);
        } else {
            self.unfinished.extend(unfinished);
            answer_all(waiting);
        }
    }

    /// Takes note of what the log has told. Done before every decision: whoever was told that a
    /// batch is lost may send another request at once.
    fn hear_log(&mut self) {
        while let Ok(heard) = self.heard.try_recv() {
            self.note(heard);
        }
    }

    fn wait_for_log(&mut self) {
        let heard = self.heard.recv().expect("the writer itself holds a sender");
        self.note(heard);
    }

    /// Takes note of what the log has told.
    fn note(&mut self, heard: Heard) {
        let done = match heard {
            Heard::Done(done) => done,
            Heard::Told => {
                self.untold -= 1;
                return;
            }
            Heard::LostLead => {
                self.has_lost_lead = true;
                return;
            }
        };
        let Done { took, lost, tells_others, unfinished, waiting } = done;
        self.in_flight -= 1;
        self.untold += usize::from(tells_others);
        self.group_commit.committed(took);
        let Some(error) = lost else { return self.unfinished.extend(unfinished) };
        if !waiting.is_empty() || !unfinished.is_empty() {
            self.given_up = Some(GivenUp { waiting, unfinished, failed: Failed::new(&error) });
        }
        self.has_lost = true;
        // At once: should it be committed after all, it is applied from its octets, and whoever
        // follows those is told of the rules in it.
        self.store.drop_tentative();
        match &error {
            CommitError::Unknown { .. } | CommitError::Fatal(_) => {
                self.stopped = Some((&error).into());
            }
            CommitError::NoSpace => self.space.look_again(),
            CommitError::NotDeciding { .. }
            | CommitError::Stale { .. }
            | CommitError::Busy
            | CommitError::NoQuorum
            | CommitError::TooLarge { .. } => {}
        }
    }
}

impl<'s> Open<'s> {
    fn new(batch: Batch<'s>, reign: Reign, directory: &Directory) -> Self {
        Self {
            began: directory.clock.elapsed(),
            batch,
            reign,
            state: directory.state.load_full(),
            records: Vec::new(),
            record_bytes: 0,
            waiting: Vec::new(),
            answer_bytes: 0,
            unfinished: Vec::new(),
            is_synced: false,
            changes_schema: false,
            changes_settings: false,
            view_rules: None,
            password_policies: None,
        }
    }

    /// Whether the next request must be decided under another schema, other ACIs or policies.
    fn changes_rules(&self) -> bool {
        self.changes_schema || self.view_rules.is_some() || self.password_policies.is_some()
    }

    fn push(
        &mut self,
        directory: &Directory,
        queued: Queued,
        outcome: WriteOutcome,
        is_logged: bool,
    ) {
        if outcome.is_over {
            self.answer(directory, queued, outcome.answer, is_logged);
        } else {
            self.unfinished.push(queued);
        }
    }

    /// Has a request answered when the batch is durable; with the position of what it was decided
    /// on and has left, if that is asked for.
    fn answer(
        &mut self,
        directory: &Directory,
        queued: Queued,
        answer: WriteResponse,
        is_logged: bool,
    ) {
        let answer = telling(answer, directory, &queued.request, self.batch.last().lsn);
        let waiting = Waiting::new(queued, answer, is_logged);
        self.answer_bytes += waiting.octets();
        self.waiting.push(waiting);
    }

    /// How many requests it has.
    fn count(&self) -> usize {
        self.waiting.len() + self.unfinished.len()
    }

    /// Whether it should have left by now.
    fn is_late(&self, directory: &Directory) -> bool {
        let taken = directory.clock.elapsed().saturating_sub(self.began);
        taken >= directory.limits().write_batch_max_time
    }

    /// Whether the state after its last change is compared with that of other members.
    fn is_awaited(&self, store: &Store) -> bool {
        store.is_awaited(self.batch.last().lsn)
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.count() >= limits.write_batch_max
            || self.record_bytes >= limits.write_batch_max_bytes
            || self.batch.row_bytes() >= BATCH_ROWS_MAX_BYTES
            || self.answer_bytes >= limits.read_entry_max_bytes
    }
}

/// Tells everybody how a batch ended; on a thread of the log.
fn finish(
    mut told: Done,
    waiting: Vec<Waiting>,
    begins: Begins,
    to_writer: &Sender<Heard>,
    forwarding: Option<&Arc<Forwarding>>,
) {
    // First the writer, which goes on while these are answered; and none of them may ask again
    // before it knows that a batch is lost.
    let Some(error) = &told.lost else {
        begins.begin();
        let _ = to_writer.send(Heard::Done(told));
        return answer_all(waiting);
    };
    let failed = Failed::new(error);
    let unfinished = std::mem::take(&mut told.unfinished);
    told.tells_others = true;
    let _ = to_writer.send(Heard::Done(told));
    // In the order in which they came, as far as they are sent again.
    fail_all(waiting, &failed, forwarding);
    give_up(unfinished, &failed, forwarding);
    let _ = to_writer.send(Heard::Told);
}

/// Has the writer told when it stops to decide, or decides in another reign.
fn watch_lead(directory: &Directory, to_writer: Sender<Heard>) {
    let before = Mutex::new(None);
    directory.storage.log.watch(Box::new(move |role| {
        let now = match role {
            Role::Deciding(reign) => Some(*reign),
            Role::Following { .. } | Role::Alone => None,
            // It tells so of every batch, and nothing is applied any more.
            Role::Failed(_) => return,
        };
        let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_some() && *before != now {
            // Where there is no writer, nothing is decided.
            let _ = to_writer.send(Heard::LostLead);
        }
        *before = now;
    }));
}

/// Why nothing can be written now.
enum NotNow {
    Refused(Refusal),
    /// Another node decides, or nobody.
    Lost(CommitError),
}

/// The next of those the batch waits for; None when it is to leave.
fn next_in_company(
    directory: &Directory,
    waiting: &WaitingWrites,
    open: &Open<'_>,
    wait: Option<&Wait>,
) -> Option<Queued> {
    let wait = wait?;
    let now = directory.clock.elapsed();
    if !wait.is_on(now, open.count()) {
        return None;
    }
    waiting.take_within(wait.until.saturating_sub(now))
}

/// Counts what a request keeps of its answer until it is over, as what updates of open transactions
/// take is counted; false when that is too much.
fn may_keep(budgets: &Budgets, queued: &mut Queued) -> bool {
    let WriteOp::SubtreeDelete(op) = &queued.request.op else { return true };
    let octets = op.kept_bytes();
    if queued.kept.is_some() || octets == 0 {
        return true;
    }
    let mut kept = AskerHeld::new(&budgets.transactions, queued.asker);
    let is_room = kept.grow(octets);
    queued.kept = Some(kept);
    is_room
}

fn keeps_too_much() -> Refusal {
    Refusal::new(
        ResultCode::Busy,
        "too many large answers are kept for deletions of trees; delete without pre-read, or try \
         again later",
    )
}

/// An answer with the position of what it speaks of, if the request asks for that.
fn telling(
    mut answer: WriteResponse,
    directory: &Directory,
    request: &WriteRequest,
    lsn: Lsn,
) -> WriteResponse {
    if request.controls.position {
        answer.controls.push(directory.position(lsn, &mut *directory.chance()));
    }
    answer
}

/// Refuses requests for which there is no room in the overlay. What has happened needs none.
fn refuse_for_room(directory: &Directory, all: impl Iterator<Item = Queued>) {
    let (mut known, mut refused) = (Vec::new(), Vec::new());
    for queued in all {
        match carried_out(directory, &queued.request) {
            Some(answer) => {
                let lsn = directory.storage.store.published().lsn;
                let answer = telling(answer, directory, &queued.request, lsn);
                known.push(Waiting::new(queued, answer, false));
            }
            None => refused.push(queued),
        }
    }
    answer_all(known);
    refuse_all(refused, &no_room(&directory.storage.store));
}

/// Why the overlay has no room although it was waited for.
fn no_room(store: &Store) -> Refusal {
    if store.overlay().is_disk_full {
        return (&CommitError::NoSpace).into();
    }
    Refusal::new(
        ResultCode::Busy,
        "too many changes wait to be written to the database; try again later",
    )
}

/// How much the writer steps back behind the threads that answer searches: where there are not
/// cores enough for both, a writer that decides one request after the other would keep readers
/// waiting for whole time slices.
const WRITER_NICE: i32 = 5;

/// Room for records the writer keeps; a larger one gives its own back.
const SCRATCH_KEPT_BYTES: usize = 256 * 1024;

/// What the log takes is what a record may have.
const _: () = assert!(RECORD_LENGTH_MAX_BYTES as u64 <= journal::RECORD_MAX_BYTES_DEFAULT as u64);
