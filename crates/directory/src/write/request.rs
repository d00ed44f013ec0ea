//! Update requests as they wait for the writer: resolved against the schema, and owned.
//!
//! Invariant: data alone. What an operation means is in its own file.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aci::Access;
use environment::Chance;
use history::record::{OpKind, Origin};
use ldap::dn::{Dn, Rdn};
use ldap::message::{MessageId, ModifyOperation, OperationKind};
use ldap::result::ResultCode;
use schema::{AttributeDescription, DnKey, Entry, EntryId, RdnKey, Schema};

use crate::config::changes::{IndexConfig, SettingConfig};
use crate::forward::request::{Forwardable, Messages};
use crate::password_policy::account_event::AccountEvents;
use crate::password_policy::verdict::Verdict;
use crate::request::asker_bytes::AskerHeld;
use crate::request::cancel::Cancel;
use crate::request::controls::response::ResponseControl;
use crate::request::controls::write::WriteControls;
use crate::request::refusal::Refusal;
use crate::request::session::Who;
use crate::sinks::progress::SinkProgress;
use crate::write::account_state::change_operation::ChangeOperation;
use crate::write::references::Gathering;

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
    /// What is needed to have it decided by another node; none in a server that is alone.
    pub(crate) forwardable: Option<Box<Forwardable>>,
    /// It may have been carried out already, under the same name: another node has sent it.
    pub(crate) is_forwarded: bool,
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

    /// Where a step comes from that prepares another one: the request is not known by it.
    pub(crate) fn origin_of_preparation(&self, chance: &mut dyn Chance) -> Origin {
        let mut request = [0; 16];
        chance.fill(&mut request);
        Origin { request, op: OpKind::Internal, ..self.origin() }
    }

    /// Where its changes come from, for the change records.
    pub(crate) fn origin(&self) -> Origin {
        let (op, recorded) = match &self.op {
            WriteOp::Add(_) => (OpKind::Add, None),
            WriteOp::Delete(_) | WriteOp::SubtreeDelete(_) => (OpKind::Delete, None),
            WriteOp::Modify(_) => (OpKind::Modify, None),
            WriteOp::ModifyDn(_) => (OpKind::ModifyDn, None),
            WriteOp::PasswordModify(_) => (OpKind::PasswordModify, None),
            WriteOp::Rehash(_)
            | WriteOp::AccountEvents(_)
            | WriteOp::Level(_)
            | WriteOp::SinkProgress(_) => (OpKind::Internal, None),
            WriteOp::StateChange(_) => (OpKind::Modify, None),
            WriteOp::IndexConfig(op) => (op.kind, None),
            WriteOp::SettingConfig(_) => (OpKind::Modify, None),
            WriteOp::Transaction(all) => (OpKind::Transaction, Some(all.recorded())),
        };
        let own = self.controls.recorded.iter().copied();
        let of_updates = match &self.op {
            WriteOp::Transaction(all) => all.purpose(),
            _ => None,
        };
        Origin {
            request: self.request,
            who: Arc::clone(&self.who),
            message: self.id.0,
            op,
            controls: own.chain(recorded.into_iter().flatten()).map(Cow::Borrowed).collect(),
            purpose: self.controls.purpose.clone().or(of_updates),
        }
    }
}

/// What is to be done.
pub(crate) enum WriteOp {
    Add(Add),
    Delete(Delete),
    SubtreeDelete(SubtreeDelete),
    Modify(Modify),
    ModifyDn(ModifyDn),
    PasswordModify(PasswordModify),
    Rehash(Rehash),
    AccountEvents(Vec<AccountEvents>),
    StateChange(StateChange),
    IndexConfig(IndexConfig),
    SettingConfig(SettingConfig),
    /// What records may say from now on.
    Level(u16),
    /// Up to which change a sink was told.
    SinkProgress(Box<SinkProgress>),
    Transaction(Transaction),
}

impl WriteOp {
    /// The entry that it is about, if that is there before it.
    pub(crate) fn target(&self) -> Option<(&Dn, &DnKey)> {
        Some(match self {
            Self::Delete(op) => (&op.dn, &op.key),
            Self::SubtreeDelete(op) => (&op.dn, &op.key),
            Self::Modify(op) => (&op.dn, &op.key),
            Self::ModifyDn(op) => (&op.dn, &op.key),
            Self::PasswordModify(op) => (&op.dn, &op.key),
            Self::Rehash(op) => (&op.dn, &op.key),
            Self::StateChange(op) => (&op.dn, &op.key),
            Self::Add(_)
            | Self::AccountEvents(_)
            | Self::IndexConfig(_)
            | Self::SettingConfig(_)
            | Self::Level(_)
            | Self::SinkProgress(_)
            | Self::Transaction(_) => return None,
        })
    }

    /// What the policy says of the passwords in it, if it is one that may have some beside others.
    fn verdict(&self) -> Option<&Result<Verdict, Refusal>> {
        match self {
            Self::Add(op) => op.verdict.as_ref(),
            Self::Modify(op) => op.verdict.as_ref(),
            Self::Delete(_)
            | Self::SubtreeDelete(_)
            | Self::ModifyDn(_)
            | Self::PasswordModify(_)
            | Self::Rehash(_)
            | Self::AccountEvents(_)
            | Self::StateChange(_)
            | Self::IndexConfig(_)
            | Self::SettingConfig(_)
            | Self::Level(_)
            | Self::SinkProgress(_)
            | Self::Transaction(_) => None,
        }
    }

    /// Whether passwords may have to be hashed where it is resolved once more.
    pub(super) fn may_hash(&self) -> bool {
        matches!(self, Self::PasswordModify(_) | Self::Transaction(_)) || self.verdict().is_some()
    }

    /// Whether its passwords are refused already, whatever it is decided on.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::PasswordModify(op) => op.new.is_err(),
            other => matches!(other.verdict(), Some(Err(_))),
        }
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
            | Self::SettingConfig(_)
            | Self::Level(_)
            | Self::SinkProgress(_)
            | Self::Rehash(_)
            | Self::AccountEvents(_)
            | Self::StateChange(_)
            | Self::Transaction(_) => None,
        }
    }
}

/// An add, resolved.
pub(crate) struct Add {
    pub(crate) key: DnKey,
    /// As the client sent it, with the stored forms of its passwords; with one unknown value in
    /// their place where they are refused.
    pub(crate) entry: Entry,
    /// What the policy says of the passwords in it, if there are any.
    pub(crate) verdict: Option<Result<Verdict, Refusal>>,
}

/// A delete, resolved.
pub(crate) struct Delete {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
}

/// A subtree delete, and how far it came.
pub(crate) struct SubtreeDelete {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    pub(super) progress: Option<Progress>,
}

/// What is kept between the steps.
pub(super) struct Progress {
    /// The entry that was named. It keeps its id, whatever it is called meanwhile.
    pub(super) base: EntryId,
    /// Ids in the order of deletion.
    pub(super) waiting: VecDeque<EntryId>,
    /// Controls that the first step made for the answer.
    pub(super) controls: Vec<ResponseControl>,
}

impl SubtreeDelete {
    pub(crate) fn new(key: DnKey, dn: Dn) -> Self {
        Self { key, dn, progress: None }
    }

    /// Whether its preconditions were checked already.
    pub(crate) fn is_begun(&self) -> bool {
        self.progress.is_some()
    }

    /// Keeps the controls of the answer until it is sent.
    pub(crate) fn keep(&mut self, controls: Vec<ResponseControl>) {
        if let Some(progress) = &mut self.progress {
            progress.controls.extend(controls);
        }
    }

    /// Octets of the controls that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        let controls = self.progress.iter().flat_map(|progress| &progress.controls);
        controls.map(|control| control.value.as_ref().map_or(0, Vec::len)).sum()
    }

    /// The controls of the answer.
    pub(crate) fn take_controls(&mut self) -> Vec<ResponseControl> {
        self.progress.as_mut().map(|one| std::mem::take(&mut one.controls)).unwrap_or_default()
    }
}

/// A modify, resolved.
pub(crate) struct Modify {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    pub(crate) modifications: Vec<Modification>,
    /// Those of passwords that are refused, by the policy or as somebody else's.
    pub(crate) refused: Vec<RefusedPasswords>,
    /// Stored passwords that are to be deleted, each named by its clear text.
    pub(crate) proven: Vec<Vec<u8>>,
    /// What the policy says of the passwords in it, if there are any.
    pub(crate) verdict: Option<Result<Verdict, Refusal>>,
}

/// One modification, resolved.
#[derive(Clone)]
pub(crate) struct Modification {
    pub(crate) operation: ModifyOperation,
    pub(crate) description: Arc<AttributeDescription>,
    pub(crate) values: Vec<Vec<u8>>,
}

/// New passwords that are refused: nothing is hashed for them, and nothing of them is kept.
pub(crate) struct RefusedPasswords {
    pub(crate) operation: ModifyOperation,
    pub(crate) description: Arc<AttributeDescription>,
}

/// A rename, resolved.
pub(crate) struct ModifyDn {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    pub(super) new_rdn: Rdn,
    pub(super) delete_old_rdn: bool,
    pub(super) new_superior: Option<(Dn, DnKey)>,
    pub(super) preparation: Preparation,
}

/// What is done before a rename.
#[derive(Debug, Default)]
pub(super) enum Preparation {
    /// It was not looked whether there is anything to do.
    #[default]
    Unknown,
    /// Values that name what is renamed are kept by number.
    Gathering(Box<Gathering>),
    /// There is nothing left to do.
    Done,
}

impl ModifyDn {
    /// Whether a superior is named.
    pub(crate) fn moves(&self) -> bool {
        self.new_superior.is_some()
    }

    /// The name that it asks for.
    pub(super) fn new_key(&self, schema: &Schema) -> Result<DnKey, Refusal> {
        let rdn = RdnKey::from_rdn(schema, &self.new_rdn)
            .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
        let above = self.new_superior.as_ref().map(|(_, key)| key.clone());
        let mut key = above.or_else(|| self.key.parent()).unwrap_or_else(DnKey::root);
        key.push(&rdn);
        Ok(key)
    }

    /// Has it made in one step, or refused: in a transaction.
    pub(super) fn prepare_nothing(&mut self) {
        self.preparation = Preparation::Done;
    }
}

/// A password change, resolved.
pub(crate) struct PasswordModify {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    pub(super) old: OldPassword,
    /// The new password, unless the policy refuses it.
    pub(super) new: Result<AcceptedPassword, Refusal>,
}

/// The old password that a request sends.
pub(crate) enum OldPassword {
    NotSent,
    /// None of those of the entry, or one that nobody may try now.
    Wrong,
    /// Behind this stored value.
    Right(Vec<u8>),
}

/// A new password that the policy accepts.
pub(super) struct AcceptedPassword {
    /// As it will be stored.
    pub(super) stored: Vec<u8>,
    /// It itself, to be told to the client, when the server has made it up.
    pub(super) generated: Option<Vec<u8>>,
    /// What the policy says of it.
    pub(super) verdict: Verdict,
}

/// The change: one value takes the place of another.
pub(crate) struct Rehash {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
}

/// Changes of the state of one account, resolved.
pub(crate) struct StateChange {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    pub(super) changes: Vec<(&'static ChangeOperation, Vec<String>)>,
    pub(super) query: StateQuery,
}

/// What is to be answered.
pub(super) struct StateQuery {
    /// The name of the account as it was sent.
    pub(super) target: String,
    /// The numbers of what is asked for; none: everything.
    pub(super) numbers: Vec<u32>,
    /// Whether everything includes PingDirectory's operations: OpenDJ's clients fail on them.
    pub(super) knows_ping: bool,
}

/// Updates that are carried out together, or not at all.
pub(crate) struct Transaction {
    pub(super) identifier: Vec<u8>,
    pub(crate) updates: Vec<WriteRequest>,
    /// Their messages, where another node may be the one to decide; else none.
    pub(crate) messages: Messages,
    /// What the updates take, until they are decided or given up.
    pub(super) held: AskerHeld,
    /// When the client used it last.
    pub(super) used: Duration,
}

// The updates may hold passwords.
impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("updates", &self.updates.len())
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    /// One without updates.
    pub(super) fn new(identifier: Vec<u8>, held: AskerHeld, now: Duration) -> Self {
        let (updates, messages) = (Vec::new(), Vec::new());
        Self { identifier, updates, messages, held, used: now }
    }

    /// OIDs of the controls of all its updates that the change records note.
    pub(crate) fn recorded(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        for oid in self.updates.iter().flat_map(|update| &update.controls.recorded) {
            if !all.contains(oid) {
                all.push(*oid);
            }
        }
        all
    }
    /// Why the first of its updates is made that says so.
    fn purpose(&self) -> Option<Arc<str>> {
        self.updates.iter().find_map(|update| update.controls.purpose.clone())
    }
}
