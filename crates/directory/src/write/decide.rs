//! Deciding: one update request becomes effects and an answer.
//!
//! Invariant: a decision sees the state its predecessors left, and all clock and chance that a
//! change holds is used here; applying is a function of store and change alone.
//! Invariant: the only one that puts clients' changes into a batch, and only what is `Permitted`.
//! Invariant: a request that is refused leaves nothing in the batch: its outcome has no changes,
//! and the writer rolls back what was tried.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aci::{Access, Permitted, Rights};
use environment::{Chance, Timestamp};
use ldap::result::ResultCode;
use schema::{AttributeDescription, Change, DnKey, EntryId, EntryRead};
use store::{Batch, Mark, Resolved, StoreError, StoredEntry};

use crate::access::guard::{self, Viewer, guarded_by};
use crate::access::view_rules::ViewRules;
use crate::assignment::follow;
use crate::assignment::text::ASSIGNMENTS;
use crate::bind::recheck;
use crate::config::setting_rows::is_of_settings;
use crate::config::{index_config, record_level, setting_config};
use crate::constraint::requested::{self, Told};
use crate::directory::{Directory, State};
use crate::enforcement::broken::Broken;
use crate::password_policy::set::{self, PasswordPolicies};
use crate::read::live_entry::LiveEntry;
use crate::read::target;
use crate::request::controls::response::ResponseControl;
use crate::request::controls::write::{ReadEntry, WriteControls};
use crate::request::controls::{assertion, read_entry};
use crate::request::referral;
use crate::request::refusal::Refusal;
use crate::sinks::position;
use crate::write::decision::{Decide, Decision};
use crate::write::read_entry::Room;
use crate::write::request::{Transaction, WriteOp, WriteRequest};
use crate::write::response::WriteResponse;
use crate::write::stamp::{Stamp, Stamper};
use crate::write::{
    account_events, account_state, add, delete, followed, modify, modify_dn, password_modify,
    permit, references, rehash, subtree_delete, transaction,
};

/// What came of a request: its changes are in the batch, and its answer waits until they are
/// durable.
pub(crate) struct WriteOutcome {
    /// What was applied to the batch and is to be logged as one record; empty after a refusal.
    pub(crate) changes: Vec<Permitted<Change>>,
    /// Accounts of which nothing waits any more when the changes are kept.
    settled: Vec<EntryId>,
    /// What the entries break of the schema.
    broken: Vec<Broken>,
    /// What the changes were stamped with.
    pub(crate) stamp: Stamp,
    /// What the client is told.
    pub(crate) answer: WriteResponse,
    /// Whether the request is carried out; else it is to be decided again later, behind those that
    /// wait, and only the last answer is sent.
    pub(crate) is_over: bool,
    /// The rules that views are read by from now on, when the changes touch any.
    pub(crate) view_rules: Option<Arc<ViewRules>>,
    /// The password policies from now on, when the changes touch any.
    pub(crate) password_policies: Option<Arc<PasswordPolicies>>,
}

impl WriteOutcome {
    /// Whether the next request must be decided under another schema.
    pub(crate) fn changes_schema(&self) -> bool {
        self.changes.iter().any(|change| matches!(change.get(), Change::Schema(_)))
    }

    /// Whether settings of the server change.
    pub(crate) fn changes_settings(&self) -> bool {
        self.changes.iter().any(|change| is_of_settings(change.get()))
    }

    /// The changes stay in the batch: what is remembered of accounts beside their entries follows
    /// them, before the next decision. Of changes that are given up nothing is to be forgotten.
    pub(crate) fn keep(&self, directory: &Directory, request: &WriteRequest) {
        let decided = self.stamp.moment.time;
        if !matches!(request.op, WriteOp::AccountEvents(_) | WriteOp::Rehash(_)) {
            directory.accounts.heed(self.changes.iter().map(Permitted::get), decided);
        }
        directory.credentials.scram_keys.heed(self.changes.iter().map(Permitted::get));
        self.settled.iter().for_each(|account| directory.accounts.forget(*account, decided));
        let (rules, seldom) = (&directory.monitors.broken_rules, &directory.seldom.broken);
        self.broken.iter().for_each(|broken| rules.note(broken, seldom));
    }
}

/// Decides request after request, with the clock and the chance of the writer.
pub(crate) struct Decider {
    stamper: Stamper,
    chance: Box<dyn Chance>,
}

impl Decider {
    /// Goes on after the last change there is.
    pub(crate) fn after(last: Mark, chance: Box<dyn Chance>) -> Self {
        Self { stamper: Stamper::after(Timestamp(last.time_us)), chance }
    }

    /// Another reign begins, after the last change there is.
    pub(crate) fn follow(&mut self, last: Mark) {
        self.stamper.follow(Timestamp(last.time_us));
    }

    /// Decides one request on what its predecessors left, and puts its changes into the batch,
    /// after a savepoint. The caller records the changes and releases it, or rolls back when there
    /// is no change: what a refused request or one without effect tried is to be undone.
    ///
    /// # Errors
    /// When the store fails in the middle of a change. A refusal is an outcome.
    pub(crate) fn one(
        &mut self,
        directory: &Directory,
        batch: &mut Batch<'_>,
        state: &State,
        request: &mut WriteRequest,
    ) -> Result<WriteOutcome, StoreError> {
        batch.savepoint();
        let stamp = self.stamper.stamp(directory.clock.now(), request.access.identity());
        let chance = &mut *self.chance;
        let rules = directory.rules.of_views.newest();
        let (changes, settled, broken) = (Vec::new(), Vec::new(), Vec::new());
        let before = Arc::clone(&rules);
        let room = Room::new(directory.limits().read_entry_max_bytes);
        let mut attempt = Attempt {
            directory,
            batch,
            state,
            stamp,
            chance,
            changes,
            settled,
            broken,
            rules,
            room,
        };
        let (answer, is_over) = match attempt.request(request) {
            Ok(carried) => (carried.answer, carried.is_over),
            Err(Failed::Refused(answer)) => (*answer, true),
            Err(Failed::Store(error)) => return Err(error),
        };
        let Attempt { stamp, mut changes, mut settled, mut broken, rules, .. } = attempt;
        if !matches!(answer.result.code, ResultCode::Success) {
            changes.clear();
            settled.clear();
            broken.clear();
        }
        let view_rules = (!changes.is_empty() && !Arc::ptr_eq(&rules, &before)).then_some(rules);
        let policies = directory.rules.password_policies.load();
        let policies = set::after(&policies, changes.iter().map(Permitted::get), &batch.view())?;
        let password_policies = policies.map(Arc::new);
        Ok(WriteOutcome {
            changes,
            settled,
            broken,
            stamp,
            answer,
            is_over,
            view_rules,
            password_policies,
        })
    }
}

fn takes_too_long(most: Duration) -> Refusal {
    Refusal::new(
        ResultCode::AdminLimitExceeded,
        format!(
            "a transaction may take at most {most:?}, because all other writes wait for it: make \
             it smaller"
        ),
    )
}

fn schema_changed() -> Refusal {
    Refusal::new(ResultCode::Busy, "the schema changed after the request was read; try again")
}

/// Why an update is not carried out.
enum Failed {
    /// The answer is no.
    Refused(Box<WriteResponse>),
    /// The store failed in the middle of a change.
    Store(StoreError),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal.into()))
    }
}

/// How far an update came.
struct Carried {
    answer: WriteResponse,
    is_over: bool,
}

/// One request being decided, and tried out on the batch.
struct Attempt<'a, 's> {
    directory: &'a Directory,
    batch: &'a mut Batch<'s>,
    state: &'a State,
    stamp: Stamp,
    chance: &'a mut dyn Chance,
    /// What is in the batch by now.
    changes: Vec<Permitted<Change>>,
    /// Accounts of which nothing waits any more, when that is carried out.
    settled: Vec<EntryId>,
    /// What the entries break of the schema.
    broken: Vec<Broken>,
    /// The rules that those changes leave.
    rules: Arc<ViewRules>,
    /// What may still be read of entries for the answer.
    room: Room,
}

impl Attempt<'_, '_> {
    fn request(&mut self, request: &mut WriteRequest) -> Result<Carried, Failed> {
        if let WriteOp::Transaction(Transaction { updates, .. }) = &mut request.op {
            return self.transaction(updates);
        }
        let mut carried = self.update(request)?;
        if request.controls.no_op {
            let why = "the request would have been carried out";
            carried.answer.result = Refusal::new(ResultCode::NoOperation, why);
            carried.is_over = true;
        }
        Ok(carried)
    }

    /// The updates of a transaction, each decided on what those before it left. The first that is
    /// refused ends it (RFC 5805 §3.4).
    fn transaction(&mut self, updates: &mut [WriteRequest]) -> Result<Carried, Failed> {
        let mut controls = Vec::new();
        let mut refused = None;
        let (clock, most) = (&self.directory.clock, self.directory.limits().transaction_max);
        let begun = clock.elapsed();
        for update in updates {
            if clock.elapsed().saturating_sub(begun) > most {
                refused = Some((update.id, takes_too_long(most)));
                controls.clear();
                break;
            }
            if let WriteOp::ModifyDn(op) = &mut update.op {
                op.prepare_nothing();
            }
            let refusal = match self.update(update) {
                Ok(Carried { answer, is_over }) => {
                    if !answer.controls.is_empty() {
                        controls.push((update.id, ResponseControl::list(&answer.controls)));
                    }
                    self.refuse_in_transaction(is_over)
                }
                Err(Failed::Refused(answer)) => Some(answer.result),
                Err(error @ Failed::Store(_)) => return Err(error),
            };
            if let Some(refusal) = refusal {
                refused = Some((update.id, refusal));
                controls.clear();
                break;
            }
        }
        Ok(Carried { answer: transaction::answer(refused, &controls), is_over: true })
    }

    /// What an update of a transaction must not be, as the last change and `is_over` show it.
    fn refuse_in_transaction(&self, is_over: bool) -> Option<Refusal> {
        if !is_over {
            return Some(Refusal::new(
                ResultCode::AdminLimitExceeded,
                "the tree is too large to be deleted in a transaction",
            ));
        }
        let last = self.changes.last().map(Permitted::get);
        matches!(last, Some(Change::Schema(_))).then(|| {
            Refusal::new(
                ResultCode::UnwillingToPerform,
                "the schema is not changed in a transaction",
            )
        })
    }

    /// One update: rights, preconditions, decision, changes, and what is to be read before and
    /// after.
    fn update(&mut self, request: &mut WriteRequest) -> Result<Carried, Failed> {
        let is_begun = matches!(&request.op, WriteOp::SubtreeDelete(op) if op.is_begun());
        let generation = self.state.schema.generation();
        if !is_begun && request.schema_generation.is_some_and(|one| one != generation) {
            return Err(schema_changed().into());
        }
        let WriteRequest { op, access, controls, .. } = request;
        recheck::check(self.directory, self.state, &self.batch.view(), access)?;
        // What rules mean is kept for a point of the log, and there is none between updates.
        let fresh = (!self.changes.is_empty()).then(|| Access::clone(access));
        let decided = self.decided(op, fresh.as_ref().unwrap_or(access), controls)?;
        let (mut read, Decision { changes, value, settled, late, broken }, is_over) = decided;
        self.settled.extend(settled);
        self.broken.extend(broken);
        let first = self.changes.len();
        let before = self.before(&changes)?;
        self.apply(before)?;
        self.apply(changes)?;
        let own = first..self.changes.len();
        self.follow(own.clone(), access)?;
        self.assign(first)?;
        let new = self.changes.get(first..).unwrap_or_default().iter().map(Permitted::get);
        if let Some(after) = self.rules.after(new, &self.batch.view()).map_err(Failed::Store)? {
            self.rules = Arc::new(after);
        }
        if let Some(wanted) = &controls.post_read
            && is_over
        {
            read.extend(self.post_read(&Access::clone(access), wanted, op, own)?);
        }
        if let Some(refusal) = late {
            return Err(refusal.into());
        }
        if let WriteOp::SubtreeDelete(op) = op {
            op.keep(read);
            read = if is_over { op.take_controls() } else { Vec::new() };
        }
        Ok(Carried {
            answer: WriteResponse { value, controls: read, ..WriteResponse::success() },
            is_over,
        })
    }

    /// What is to change, what was read before it, and whether that is all.
    fn decided(
        &mut self,
        op: &mut WriteOp,
        access: &Access,
        controls: &WriteControls,
    ) -> Result<(Vec<ResponseControl>, Decision, bool), Failed> {
        let Self { directory, batch, state, stamp, chance, rules, room, .. } = self;
        let (view, next_id) = (&batch.view(), batch.next_entry_id());
        let referrals = !controls.manage_dsa_it && referral::any(view, state.schema.well_known())?;
        let viewer = Viewer { directory, access, view, schema: &state.schema };
        guarded_by(&viewer, rules, &DnKey::root(), |guard| {
            let mut decide = Decide {
                directory,
                view,
                state,
                guard,
                acis: &rules.acis,
                virtual_attributes: &rules.virtual_attributes,
                controls,
                referrals,
                stamp: stamp.clone(),
                chance: &mut **chance,
                next_id,
            };
            permit::check(&decide, op)?;
            let followed = directory.rules.followed.of(view, &state.schema);
            let session = decide.controls.following.as_deref();
            followed::check(&followed, session, op, &state.schema)?;
            let mut read = pre_read(&decide, op, room)?;
            let (decision, is_over) = match op {
                WriteOp::Add(op) => (add::decide(&mut decide, op)?, true),
                WriteOp::Delete(op) => (delete::decide(&mut decide, op)?, true),
                WriteOp::SubtreeDelete(op) => subtree_delete::decide(&mut decide, op)?,
                WriteOp::Modify(op) => (modify::decide(&mut decide, op)?, true),
                WriteOp::ModifyDn(op) => modify_dn::decide_step(&mut decide, op)?,
                WriteOp::PasswordModify(op) => (password_modify::decide(&mut decide, op)?, true),
                WriteOp::Rehash(op) => (rehash::decide(&mut decide, op)?, true),
                WriteOp::AccountEvents(all) => (account_events::decide(&mut decide, all)?, true),
                WriteOp::StateChange(op) => (account_state::decide(&mut decide, op)?, true),
                WriteOp::IndexConfig(op) => (index_config::decide(&mut decide, op)?, true),
                WriteOp::SettingConfig(op) => (setting_config::decide(&decide, op)?, true),
                WriteOp::Level(level) => (record_level::decide(&decide, *level)?, true),
                WriteOp::SinkProgress(op) => (position::decide(&decide, op)?, true),
                // The updates of a transaction are decided on one by one.
                WriteOp::Transaction(_) => (Decision::default(), true),
            };
            let Told { controls, refusal } = requested::check(&decide, op, &decision)?;
            if let Some(refusal) = refusal {
                return Err(Failed::Refused(Box::new(WriteResponse {
                    controls,
                    ..refusal.into()
                })));
            }
            read.extend(controls);
            Ok((read, decision, is_over))
        })
    }

    /// What is to go before these changes.
    fn before(&self, changes: &[Permitted<Change>]) -> Result<Vec<Permitted<Change>>, Failed> {
        if !changes.iter().any(|change| matches!(change.get(), Change::Delete(_))) {
            return Ok(Vec::new());
        }
        let (view, schema) = (&self.batch.view(), &self.state.schema);
        references::go_before(view, schema, &self.stamp, changes).map_err(Failed::Store)
    }

    /// What names the entries that these changes rename or delete changes with them.
    fn follow(&mut self, own: Range<usize>, access: &Access) -> Result<(), Failed> {
        let Self { directory, batch, state, stamp, changes, rules, .. } = self;
        let causes = changes.get(own).unwrap_or_default();
        // A view takes some work.
        if !causes.iter().any(|change| references::may_follow(change.get())) {
            return Ok(());
        }
        let (view, schema) = (&batch.view(), &state.schema);
        let follows = references::follow(view, schema, stamp, causes).map_err(|blocked| {
            // The rules that the log has by now are not asked: entries have moved since.
            let access = Access::clone(access);
            let viewer = Viewer { directory, access: &access, view, schema };
            guarded_by(&viewer, rules, &DnKey::root(), |guard| {
                let may_read = |stored: &StoredEntry<'_>, one: &AttributeDescription| {
                    let rights = guard.on(stored);
                    rights.may_see() && rights.may_read(one)
                };
                blocked.refusal(&may_read, view)
            })
        })?;
        self.apply(follows)
    }

    /// What is assigned in other entries, by all changes since the `first`.
    fn assign(&mut self, first: usize) -> Result<(), Failed> {
        let all = {
            // A view takes some work.
            if self.batch.setting_at_hand(ASSIGNMENTS).is_none() {
                return Ok(());
            }
            self.directory.rules.assignments.of(&self.batch.view(), &self.state.schema)
        };
        if !follow::any(&all) {
            return Ok(());
        }
        for at in first..self.changes.len() {
            let Self { batch, state, stamp, changes, .. } = self;
            let Some(change) = changes.get(at) else { break };
            let (view, schema) = (&batch.view(), &state.schema);
            let follows = follow::follow(view, schema, stamp, &all, change.get())?;
            self.apply(follows)?;
        }
        Ok(())
    }

    /// Puts changes into the batch, and into the record.
    fn apply(&mut self, changes: Vec<Permitted<Change>>) -> Result<(), Failed> {
        for change in changes {
            self.batch.change(change.get()).map_err(|error| match error {
                // Nothing of the change stays, and what the client sends decides on it.
                StoreError::TooLarge { .. } => Failed::from(Refusal::from(error)),
                error => Failed::Store(error),
            })?;
            self.changes.push(change);
        }
        Ok(())
    }

    /// The entry of an update as it is now (RFC 4527 §3.2); `own` are the update's own changes.
    fn post_read(
        &mut self,
        access: &Access,
        wanted: &ReadEntry,
        op: &WriteOp,
        own: Range<usize>,
    ) -> Result<Option<ResponseControl>, Refusal> {
        let Self { directory, batch, state, changes, rules, room, .. } = self;
        let (view, schema) = (&batch.view(), &state.schema);
        let viewer = Viewer { directory, access, view, schema };
        let changes = changes.get(own).unwrap_or_default();
        let id = match changes.last().map(Permitted::get) {
            Some(Change::Add(change)) => Some(change.id),
            Some(Change::Modify(change)) => Some(change.id),
            Some(Change::Rename(change)) => Some(change.id),
            Some(
                Change::Delete(_)
                | Change::Schema(_)
                | Change::Index(_)
                | Change::Setting(_)
                | Change::Gather(_)
                | Change::Level(_),
            ) => None,
            // It is as it was.
            None => match op.target() {
                Some((_, key)) if *key == state.subschema_key => {
                    let entry = &*state.subschema;
                    return guarded_by(&viewer, rules, &DnKey::root(), |guard| {
                        let rights = &guard.on(entry);
                        wanted.response(read_entry::POST_READ, room, entry, rights).map(Some)
                    });
                }
                Some((_, key)) => match view.resolve(key)? {
                    Resolved::Found(id) => Some(id),
                    Resolved::Missing { .. } | Resolved::NoContext => None,
                },
                None => None,
            },
        };
        let Some(id) = id else {
            return match wanted.critical {
                true => Err(Refusal::new(
                    ResultCode::UnavailableCriticalExtension,
                    "the entry is made anew after the change; read it then",
                )),
                false => Ok(None),
            };
        };
        let stored = guard::stored(view, id)?;
        guarded_by(&viewer, rules, &DnKey::root(), |guard| {
            wanted
                .read(read_entry::POST_READ, room, view, &stored, schema.well_known(), guard)
                .map(Some)
        })
    }
}

/// Checks the assertion, and reads the target as it was (RFC 4528, RFC 4527 §3.1). A subtree
/// delete does so before its first step.
fn pre_read(
    decide: &Decide<'_>,
    op: &WriteOp,
    room: &mut Room,
) -> Result<Vec<ResponseControl>, Refusal> {
    let WriteControls { assertion, pre_read, .. } = decide.controls;
    if assertion.is_none() && pre_read.is_none() {
        return Ok(Vec::new());
    }
    let schema = &decide.state.schema;
    let guard = &decide.guard;
    let check = |entry: &dyn EntryRead, rights: &Rights<'_>| match assertion {
        Some(filter) => {
            let work_max = decide.directory.limits().assertion_work_max;
            assertion::check(filter, entry, rights, schema, work_max)
        }
        None => Ok(()),
    };
    // The target of an add is the entry that is to be (RFC 4528 §3).
    if let WriteOp::Add(op) = op {
        return check(&op.entry, &guard.on(&op.entry)).map(|()| Vec::new());
    }
    if matches!(op, WriteOp::IndexConfig(_) | WriteOp::SettingConfig(_)) {
        return Err(Refusal::new(
            ResultCode::UnavailableCriticalExtension,
            "entries of the configuration are made when asked for; read them by a search",
        ));
    }
    let is_begun = matches!(op, WriteOp::SubtreeDelete(op) if op.is_begun());
    let Some((dn, key)) = op.target().filter(|_| !is_begun) else { return Ok(Vec::new()) };
    let known = schema.well_known();
    let mut read = Vec::new();
    if *key == decide.state.subschema_key {
        let entry = &*decide.state.subschema;
        let rights = guard.on(entry);
        check(entry, &rights)?;
        if let Some(wanted) = pre_read {
            read.push(wanted.response(read_entry::PRE_READ, room, entry, &rights)?);
        }
        return Ok(read);
    }
    let name = dn.to_string();
    let id = target::find(decide.view, decide.state, decide.guard, &decide.lookup(&name, key))?;
    let stored = guard::stored(decide.view, id)?;
    let live = LiveEntry::new(decide.view, &stored, known, true).seen_by(guard);
    check(&live, &guard.on(&stored))?;
    if let Some(wanted) = pre_read {
        let (oid, view) = (read_entry::PRE_READ, decide.view);
        read.push(wanted.read(oid, room, view, &stored, known, guard)?);
    }
    Ok(read)
}
