//! Deciding: one update request becomes effects and an answer.
//!
//! Invariant: a decision sees the state its predecessors left, and all clock and chance that a
//! change holds is used here; applying is a function of store and change alone.
//! Invariant: the only one that puts clients' changes into a batch, and only what is `Permitted`.
//! Invariant: a request that is refused leaves nothing in the batch: its outcome has no changes,
//! and the writer rolls back what was tried.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use aci::{Access, AciSet, Permitted, Rights};
use environment::{Chance, OsChance, Timestamp};
use history::record::{OpKind, Origin};
use ldap::dn::Dn;
use ldap::message::{Control, ControlsBuf, MessageId, OperationKind};
use ldap::result::ResultCode;
use schema::{Change, DnKey, EntryId, EntryRead};
use store::{Batch, Mark, Resolved, StoreError, View};

use crate::access::acis;
use crate::access::guard::{Guard, Site, guarded_by};
use crate::bind::recheck;
use crate::config::{access_config, index_config};
use crate::directory::{Directory, State};
use crate::password_policy;
use crate::password_policy::pending::{self, AccountEvents};
use crate::password_policy::set::{self, PasswordPolicies};
use crate::read::live_entry::LiveEntry;
use crate::read::target::{self, Lookup};
use crate::request::cancel::Cancel;
use crate::request::completion::{Completion, WriteDone};
use crate::request::controls::read_entry::{self, ReadEntry, Room};
use crate::request::controls::{WriteControls, assertion};
use crate::request::referral;
use crate::request::refusal::Refusal;
use crate::request::session::Who;
use crate::request::sink::ResponseSink;
use crate::write::stamp::{Stamp, Stamper};
use crate::write::transactions::Transaction;
use crate::write::{
    account_state, add, delete, modify, modify_dn, password_modify, permit, rehash, subtree_delete,
    transaction,
};

/// One update request, resolved against the schema and owned.
pub(crate) struct WriteRequest {
    pub(crate) id: MessageId,
    pub(crate) operation: OperationKind,
    pub(crate) access: Arc<Access>,
    pub(crate) cancel: Cancel,
    /// The client does not wait for the disk (lazy commit).
    pub(crate) is_lazy: bool,
    /// Names the request in the change records; several records may be of one request.
    pub(crate) request: [u8; 16],
    /// Who asks and over which connection, for the change records.
    pub(crate) who: Arc<Who>,
    pub(crate) controls: WriteControls,
    /// That of the schema under which it was resolved: what its names mean is good for that alone.
    /// None: it is the server's own, and names nothing of a schema.
    pub(crate) schema_generation: Option<u64>,
    pub(crate) op: WriteOp,
}

impl WriteRequest {
    /// Whether its answer says what a password policy has to say: none where that was not asked
    /// for, and whether it says so when there is nothing.
    pub(crate) fn asks_policy(&self) -> Option<bool> {
        let tells = matches!(self.operation, OperationKind::Add | OperationKind::Modify)
            || matches!(self.op, WriteOp::PasswordModify(_));
        self.controls.password_policy.then_some(tells)
    }

    /// Where its changes come from, for the change records.
    pub(crate) fn origin(&self) -> Origin {
        let (op, recorded) = match &self.op {
            WriteOp::Add(_) => (OpKind::Add, None),
            WriteOp::Delete(_) | WriteOp::SubtreeDelete(_) => (OpKind::Delete, None),
            WriteOp::Modify(_) => (OpKind::Modify, None),
            WriteOp::ModifyDn(_) => (OpKind::ModifyDn, None),
            WriteOp::PasswordModify(_) => (OpKind::PasswordModify, None),
            WriteOp::Rehash(_) | WriteOp::AccountStates(_) => (OpKind::Internal, None),
            WriteOp::StateChange(_) => (OpKind::Modify, None),
            WriteOp::IndexConfig(op) => (op.kind, None),
            WriteOp::AccessConfig(_) => (OpKind::Modify, None),
            WriteOp::Transaction(all) => (OpKind::Transaction, Some(all.recorded())),
        };
        let own = self.controls.recorded.iter().copied();
        Origin {
            request: self.request,
            who: Arc::clone(&self.who),
            message: self.id.0,
            op,
            controls: own.chain(recorded.into_iter().flatten()).map(Cow::Borrowed).collect(),
        }
    }
}

/// What is to be done.
pub(crate) enum WriteOp {
    Add(add::Add),
    Delete(delete::Delete),
    SubtreeDelete(subtree_delete::SubtreeDelete),
    Modify(modify::Modify),
    ModifyDn(modify_dn::ModifyDn),
    PasswordModify(password_modify::PasswordModify),
    Rehash(rehash::Rehash),
    AccountStates(Vec<AccountEvents>),
    StateChange(account_state::StateChange),
    IndexConfig(index_config::IndexConfig),
    AccessConfig(access_config::AccessConfig),
    Transaction(Transaction),
}

impl WriteOp {
    /// The entry that it is about, if that is there before it.
    fn target(&self) -> Option<(&Dn, &DnKey)> {
        Some(match self {
            Self::Delete(op) => (&op.dn, &op.key),
            Self::SubtreeDelete(op) => (&op.dn, &op.key),
            Self::Modify(op) => (&op.dn, &op.key),
            Self::ModifyDn(op) => (&op.dn, &op.key),
            Self::PasswordModify(op) => (&op.dn, &op.key),
            Self::Rehash(op) => (&op.dn, &op.key),
            Self::StateChange(op) => (&op.dn, &op.key),
            Self::Add(_)
            | Self::AccountStates(_)
            | Self::IndexConfig(_)
            | Self::AccessConfig(_)
            | Self::Transaction(_) => return None,
        })
    }

    /// The value of its response, as far as it is known before the decision.
    pub(crate) fn value(&self) -> Option<Vec<u8>> {
        match self {
            Self::PasswordModify(op) => op.response_value(),
            Self::Add(_)
            | Self::Delete(_)
            | Self::SubtreeDelete(_)
            | Self::Modify(_)
            | Self::ModifyDn(_)
            | Self::IndexConfig(_)
            | Self::AccessConfig(_)
            | Self::Rehash(_)
            | Self::AccountStates(_)
            | Self::StateChange(_)
            | Self::Transaction(_) => None,
        }
    }
}

/// What a decision has at hand: the state its predecessors left, and its own stamp.
pub(crate) struct Decide<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) view: &'a View<'a>,
    pub(crate) state: &'a State,
    pub(crate) guard: &'a Guard<'a>,
    /// All ACIs, as its predecessors left them.
    pub(crate) acis: &'a AciSet,
    pub(crate) controls: &'a WriteControls,
    /// There are referral objects, and the client does not manage them.
    pub(crate) referrals: bool,
    pub(crate) stamp: Stamp,
    pub(crate) chance: &'a mut dyn Chance,
    /// The id an added entry gets.
    pub(crate) next_id: EntryId,
}

impl Decide<'_> {
    /// How an entry of this name is looked for.
    pub(crate) fn lookup<'a>(&self, name: &'a str, key: &'a DnKey) -> Lookup<'a> {
        Lookup { name, key, referrals: self.referrals, scope: None }
    }
}

/// What the decision of one operation leads to.
#[derive(Default)]
pub(crate) struct Decision {
    /// What is to be logged and applied; empty when the request changes nothing.
    pub(crate) changes: Vec<Permitted<Change>>,
    /// The value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
    /// What binds left of this account and is not in its entry yet is in the changes, or undone.
    pub(crate) settled: Option<EntryId>,
    /// What stands against it, told when nothing else does: to learn it one has to risk that the
    /// change is made.
    pub(crate) late: Option<Refusal>,
}

impl Decision {
    /// A decision that is nothing but a change.
    pub(crate) fn change(change: Permitted<Change>) -> Self {
        Self { changes: vec![change], ..Self::default() }
    }
}

/// What came of a request: its changes are in the batch, and its answer waits until they are
/// durable.
pub(crate) struct Outcome {
    /// What was applied to the batch and is to be logged as one record; empty after a refusal.
    pub(crate) changes: Vec<Permitted<Change>>,
    /// Accounts of which nothing waits any more when the changes are kept.
    settled: Vec<EntryId>,
    /// What the changes were stamped with.
    pub(crate) stamp: Stamp,
    /// What the client is told.
    pub(crate) answer: Answer,
    /// Whether the request is carried out; else it is to be decided again later, behind those that
    /// wait, and only the last answer is sent.
    pub(crate) is_over: bool,
    /// The ACIs from now on, when the changes touch any.
    pub(crate) acis: Option<Arc<AciSet>>,
    /// Likewise, the password policies.
    pub(crate) password_policies: Option<Arc<PasswordPolicies>>,
}

impl Outcome {
    /// Whether the next request must be decided under another schema.
    pub(crate) fn changes_schema(&self) -> bool {
        self.changes.iter().any(|change| matches!(change.get(), Change::Schema(_)))
    }

    /// The changes stay in the batch: what is remembered of accounts beside their entries follows
    /// them, before the next decision. Of changes that are given up nothing is to be forgotten.
    pub(crate) fn keep(&self, directory: &Directory, request: &WriteRequest) {
        if !matches!(request.op, WriteOp::AccountStates(_) | WriteOp::Rehash(_)) {
            directory.accounts.heed(&self.changes);
        }
        directory.credentials.scram_keys.heed(&self.changes);
        self.settled.iter().for_each(|account| directory.accounts.forget(*account));
    }
}

/// The answer to an update request.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The result; a success is a refusal that has nothing to say.
    pub(crate) result: Refusal,
    /// The value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
    /// Controls of the response.
    pub(crate) controls: Vec<ResponseControl>,
}

/// A control of a response.
#[derive(Clone, Debug)]
pub(crate) struct ResponseControl {
    pub(crate) oid: &'static str,
    pub(crate) value: Option<Vec<u8>>,
}

impl ResponseControl {
    /// Their wire form.
    pub(crate) fn list(controls: &[Self]) -> ControlsBuf {
        let mut list = ControlsBuf::new();
        for Self { oid, value } in controls {
            list.push(Control { oid, critical: false, value: value.as_deref() });
        }
        list
    }
}

impl From<Refusal> for Answer {
    fn from(result: Refusal) -> Self {
        Self { result, value: None, controls: Vec::new() }
    }
}

impl Answer {
    /// The answer that says no more than success.
    pub(crate) fn success() -> Self {
        Self::from(Refusal::new(ResultCode::Success, ""))
    }

    /// The answer of its own, as it is sent when what it depends on is durable.
    pub(crate) fn encode(self, request: &WriteRequest) -> WriteDone {
        let value_bytes = self.value.as_ref().map_or(0, |value| value.len() + VALUE_ROOM_BYTES);
        let mut bytes = Vec::with_capacity(value_bytes);
        let mut sink = ResponseSink::new(&mut bytes, request.id, Some(request.operation));
        let completion = self.send(request.asks_policy(), &mut sink);
        WriteDone { bytes, completion }
    }

    /// Sends the answer; `asks_policy` as [`WriteRequest::asks_policy`] says.
    pub(crate) fn send(self, asks_policy: Option<bool>, sink: &mut ResponseSink<'_>) -> Completion {
        let Self { result, value, controls } = self;
        let mut list = ResponseControl::list(&controls);
        if let Some(tells) = asks_policy {
            password_policy::add_to(&mut list, tells, result.policy);
        }
        match &value {
            None => sink.end(result, list.as_ref()),
            Some(value) => sink.extended_with(result, (None, Some(value)), list.as_ref()),
        }
    }
}

/// Decides request after request, with the clock and the chance of the writer.
pub(crate) struct Decider {
    stamper: Stamper,
    chance: OsChance,
}

impl Decider {
    /// Goes on after the last change there is.
    pub(crate) fn after(last: Mark) -> Self {
        Self { stamper: Stamper::after(Timestamp(last.time_us)), chance: OsChance }
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
    ) -> Result<Outcome, StoreError> {
        batch.savepoint();
        let stamp = self.stamper.stamp(directory.clock.now(), request.access.identity());
        let chance = &mut self.chance;
        let acis = directory.rules.acis.newest();
        let (changes, settled, before) = (Vec::new(), Vec::new(), Arc::clone(&acis));
        let room = Room::new(directory.limits.read_entry_max_bytes);
        let mut attempt =
            Attempt { directory, batch, state, stamp, chance, changes, settled, acis, room };
        let (answer, is_over) = match attempt.request(request) {
            Ok(carried) => (carried.answer, carried.is_over),
            Err(Failed::Refused(refusal)) => (Answer::from(refusal), true),
            Err(Failed::Store(error)) => return Err(error),
        };
        let Attempt { stamp, mut changes, mut settled, acis, .. } = attempt;
        if !matches!(answer.result.code, ResultCode::Success) {
            changes.clear();
            settled.clear();
        }
        let acis = (!changes.is_empty() && !Arc::ptr_eq(&acis, &before)).then_some(acis);
        let policies = directory.rules.password_policies.load();
        let policies = set::after(&policies, &changes, &batch.view())?;
        let password_policies = policies.map(Arc::new);
        Ok(Outcome { changes, settled, stamp, answer, is_over, acis, password_policies })
    }
}

fn takes_too_long(most: Duration) -> Refusal {
    Refusal::new(
        ResultCode::AdminLimitExceeded,
        format!(
            "all writes wait while a transaction is decided on, and this one takes more than \
             {most:?}: make it smaller"
        ),
    )
}

fn schema_changed() -> Refusal {
    Refusal::new(
        ResultCode::Busy,
        "the schema was changed since the request was read, and its attributes may be others now; \
         try again",
    )
}

/// Why an update is not carried out.
enum Failed {
    /// The answer is no.
    Refused(Refusal),
    /// The store failed in the middle of a change.
    Store(StoreError),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// How far an update came.
struct Carried {
    answer: Answer,
    is_over: bool,
}

/// One request being decided, and tried out on the batch.
struct Attempt<'a, 's> {
    directory: &'a Directory,
    batch: &'a mut Batch<'s>,
    state: &'a State,
    stamp: Stamp,
    chance: &'a mut OsChance,
    /// What is in the batch by now.
    changes: Vec<Permitted<Change>>,
    /// Accounts of which nothing waits any more, when that is carried out.
    settled: Vec<EntryId>,
    /// The ACIs that those changes leave.
    acis: Arc<AciSet>,
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
        let (clock, most) = (&self.directory.clock, self.directory.limits.transaction_max);
        let begun = clock.elapsed();
        for update in updates {
            if clock.elapsed().saturating_sub(begun) > most {
                refused = Some((update.id, takes_too_long(most)));
                controls.clear();
                break;
            }
            let refusal = match self.update(update) {
                Ok(Carried { answer, is_over }) => {
                    if !answer.controls.is_empty() {
                        controls.push((update.id, ResponseControl::list(&answer.controls)));
                    }
                    self.refuse_in_transaction(is_over)
                }
                Err(Failed::Refused(refusal)) => Some(refusal),
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
        recheck::check((self.directory, self.state), &self.batch.view(), access)?;
        // What rules mean is kept for a point of the log, and there is none between updates.
        let fresh = (!self.changes.is_empty()).then(|| Access::clone(access));
        let decided = self.decided(op, fresh.as_ref().unwrap_or(access), controls)?;
        let (mut read, Decision { changes, value, settled, late }, is_over) = decided;
        self.settled.extend(settled);
        let first = self.changes.len();
        for change in changes {
            self.batch.change(change.get()).map_err(Failed::Store)?;
            self.changes.push(change);
        }
        let new = self.changes.get(first..).unwrap_or_default();
        if let Some(after) =
            acis::after(&self.acis, new, &self.batch.view()).map_err(Failed::Store)?
        {
            self.acis = Arc::new(after);
        }
        if let Some(wanted) = &controls.post_read {
            read.extend(self.post_read(&Access::clone(access), wanted, (op, first))?);
        }
        if let Some(refusal) = late {
            return Err(refusal.into());
        }
        if let WriteOp::SubtreeDelete(op) = op {
            op.keep(read);
            read = if is_over { op.take_controls() } else { Vec::new() };
        }
        Ok(Carried { answer: Answer { value, controls: read, ..Answer::success() }, is_over })
    }

    /// What is to change, what was read before it, and whether that is all.
    fn decided(
        &mut self,
        op: &mut WriteOp,
        access: &Access,
        controls: &WriteControls,
    ) -> Result<(Vec<ResponseControl>, Decision, bool), Refusal> {
        let Self { directory, batch, state, stamp, chance, acis, room, .. } = self;
        let (view, next_id) = (&batch.view(), batch.next_entry_id());
        let referrals = !controls.manage_dsa_it && referral::any(view, state.schema.well_known())?;
        let site = Site { directory, access, view, schema: &state.schema };
        guarded_by(&site, acis, &DnKey::root(), |guard| {
            let mut decide = Decide {
                directory,
                view,
                state,
                guard,
                acis,
                controls,
                referrals,
                stamp: stamp.clone(),
                chance: &mut **chance,
                next_id,
            };
            permit::check(&decide, op)?;
            let read = pre_read(&decide, op, room)?;
            let (decision, is_over) = match op {
                WriteOp::Add(op) => (add::decide(&mut decide, op)?, true),
                WriteOp::Delete(op) => (delete::decide(&mut decide, op)?, true),
                WriteOp::SubtreeDelete(op) => subtree_delete::decide(&mut decide, op)?,
                WriteOp::Modify(op) => (modify::decide(&mut decide, op)?, true),
                WriteOp::ModifyDn(op) => (modify_dn::decide(&mut decide, op)?, true),
                WriteOp::PasswordModify(op) => (password_modify::decide(&mut decide, op)?, true),
                WriteOp::Rehash(op) => (rehash::decide(&mut decide, op)?, true),
                WriteOp::AccountStates(all) => (pending::decide(&mut decide, all)?, true),
                WriteOp::StateChange(op) => (account_state::decide(&mut decide, op)?, true),
                WriteOp::IndexConfig(op) => (index_config::decide(&mut decide, op)?, true),
                WriteOp::AccessConfig(op) => (access_config::decide(&decide, op)?, true),
                // The updates of a transaction are decided on one by one.
                WriteOp::Transaction(_) => (Decision::default(), true),
            };
            Ok((read, decision, is_over))
        })
    }

    /// The entry of an update as it is now (RFC 4527 §3.2); `first` is the update's first change.
    fn post_read(
        &mut self,
        access: &Access,
        wanted: &ReadEntry,
        (op, first): (&WriteOp, usize),
    ) -> Result<Option<ResponseControl>, Refusal> {
        let Self { directory, batch, state, changes, acis, room, .. } = self;
        let (view, schema) = (&batch.view(), &state.schema);
        let site = Site { directory, access, view, schema };
        let changes = changes.get(first..).unwrap_or_default();
        let id = match changes.last().map(Permitted::get) {
            Some(Change::Add(change)) => Some(change.id),
            Some(Change::Modify(change)) => Some(change.id),
            Some(Change::Rename(change)) => Some(change.id),
            Some(Change::Delete(_) | Change::Schema(_) | Change::Index(_) | Change::Setting(_)) => {
                None
            }
            // It is as it was.
            None => match op.target() {
                Some((_, key)) if *key == state.subschema_key => {
                    let entry = &*state.subschema;
                    return guarded_by(&site, acis, &DnKey::root(), |guard| {
                        let control = (read_entry::POST_READ, room);
                        wanted.response(control, entry, &guard.on(entry)).map(Some)
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
        let stored = target::stored(view, id)?;
        guarded_by(&site, acis, &DnKey::root(), |guard| {
            let control = (read_entry::POST_READ, room);
            wanted.read(control, view, &stored, schema.well_known(), guard).map(Some)
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
            let work_max = decide.directory.limits.assertion_work_max;
            assertion::check(filter, (entry, rights), schema, work_max)
        }
        None => Ok(()),
    };
    // The target of an add is the entry that is to be (RFC 4528 §3).
    if let WriteOp::Add(op) = op {
        return check(&op.entry, &guard.on(&op.entry)).map(|()| Vec::new());
    }
    if matches!(op, WriteOp::IndexConfig(_) | WriteOp::AccessConfig(_)) {
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
            read.push(wanted.response((read_entry::PRE_READ, room), entry, &rights)?);
        }
        return Ok(read);
    }
    let name = dn.to_string();
    let id = target::find(decide.view, decide.state, decide.guard, &decide.lookup(&name, key))?;
    let stored = target::stored(decide.view, id)?;
    let live = LiveEntry::new(decide.view, &stored, known, true).seen_by(guard);
    check(&live, &guard.on(&stored))?;
    if let Some(wanted) = pre_read {
        let control = (read_entry::PRE_READ, room);
        read.push(wanted.read(control, decide.view, &stored, known, guard)?);
    }
    Ok(read)
}

/// What a response takes besides a value.
const VALUE_ROOM_BYTES: usize = 1024;
