//! Deciding: one update request becomes effects and an answer.
//!
//! Invariant: a decision sees the state its predecessors left, and all clock and chance that a
//! change holds is used here; applying is a function of store and change alone.
//! Invariant: the only caller of `Batch::apply` for clients' changes, and it applies only what is
//! `Permitted`.
//! Invariant: a request that is refused leaves nothing in the batch.

use std::sync::Arc;

use aci::{Access, Permitted};
use ldap::message::{Control, ControlsBuf, Message, MessageId, Response, ResponseKind, StringsBuf};
use ldap::{encode, result::ResultCode};
use schema::{Change, DnKey};
use store::{Batch, StoreError, View};

use crate::chance::{Chance, OsChance};
use crate::directory::{Directory, State};
use crate::ops::target::Lookup;
use crate::ops::{add, delete, modify, modify_dn, password_modify};
use crate::referral;
use crate::refusal::Refusal;
use crate::session::{Cancel, Who};
use crate::stamp::{Stamp, Stamper};

/// One update request, resolved against the schema and owned.
#[allow(dead_code, reason = "some of it is for the change records alone")]
pub(crate) struct WriteRequest {
    pub(crate) id: MessageId,
    pub(crate) kind: ResponseKind,
    pub(crate) access: Arc<Access>,
    pub(crate) cancel: Cancel,
    pub(crate) manage_dsa_it: bool,
    /// The client does not wait for the disk (lazy commit).
    pub(crate) is_lazy: bool,
    /// Names the request in the change records; several records may be of one request.
    pub(crate) request: [u8; 16],
    /// Who asks and over which connection, for the change records.
    pub(crate) who: Arc<Who>,
    /// OIDs of the controls that changed what the request means, for the change records.
    pub(crate) controls: Vec<&'static str>,
    pub(crate) op: WriteOp,
}

/// What is to be done.
pub(crate) enum WriteOp {
    Add(add::Add),
    Delete(delete::Delete),
    Modify(modify::Modify),
    ModifyDn(modify_dn::ModifyDn),
    PasswordModify(password_modify::PasswordModify),
}

/// What a decision has at hand: the state its predecessors left, and its own stamp.
pub(crate) struct Decide<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) view: View<'a>,
    pub(crate) state: &'a State,
    pub(crate) access: &'a Access,
    /// There are referral objects, and the client does not manage them.
    pub(crate) referrals: bool,
    pub(crate) stamp: Stamp,
    pub(crate) chance: &'a mut dyn Chance,
    /// The id an added entry gets.
    pub(crate) next_id: schema::EntryId,
}

impl Decide<'_> {
    /// How an entry of this name is looked for.
    pub(crate) fn lookup<'a>(&self, name: &'a str, key: &'a DnKey) -> Lookup<'a> {
        Lookup { name, key, referrals: self.referrals, scope: None }
    }
}

/// What the decision of one operation leads to.
pub(crate) struct Decision {
    /// What is to be logged and applied; empty when the request changes nothing.
    pub(crate) changes: Vec<Permitted<Change>>,
    /// The value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
}

impl Decision {
    /// A decision that is nothing but a change.
    pub(crate) fn change(change: Permitted<Change>) -> Self {
        Self { changes: vec![change], value: None }
    }
}

/// What came of a request: its changes are in the batch, and its answer waits until they are
/// durable.
#[allow(dead_code, reason = "some of it is for the change records alone")]
pub(crate) struct Outcome {
    /// What was applied to the batch and is to be logged as one record; empty after a refusal.
    pub(crate) changes: Vec<Permitted<Change>>,
    /// What the changes were stamped with.
    pub(crate) stamp: Stamp,
    /// What the client is told.
    pub(crate) answer: Answer,
    /// Whether the request is carried out; else it is to be decided again later, behind those that
    /// wait, and only the last answer is sent.
    pub(crate) is_over: bool,
}

impl Outcome {
    /// Whether the next request must be decided under another schema.
    pub(crate) fn changes_schema(&self) -> bool {
        self.changes.iter().any(|change| matches!(change.get(), Change::Schema(_)))
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
#[derive(Debug)]
pub(crate) struct ResponseControl {
    pub(crate) oid: &'static str,
    pub(crate) value: Option<Vec<u8>>,
}

impl From<Refusal> for Answer {
    fn from(result: Refusal) -> Self {
        Self { result, value: None, controls: Vec::new() }
    }
}

impl Answer {
    /// The answer as it is sent.
    pub(crate) fn encode(&self, request: &WriteRequest) -> Vec<u8> {
        let mut out = Vec::new();
        let mut urls = StringsBuf::new();
        let result = self.result.to_result(&mut urls);
        let mut list = ControlsBuf::new();
        for ResponseControl { oid, value } in &self.controls {
            list.push(Control { oid, critical: false, value: value.as_deref() });
        }
        let controls = list.as_ref();
        match &self.value {
            None => encode::result(&mut out, request.id, request.kind, &result, controls),
            Some(value) => {
                let op = Response::Extended { result, oid: None, value: Some(value) };
                Message { id: request.id, op, controls }.encode(&mut out);
            }
        }
        out
    }
}

/// Decides request after request, with the clock and the chance of the writer.
pub(crate) struct Decider {
    stamper: Stamper,
    chance: OsChance,
}

impl Decider {
    pub(crate) fn new() -> Self {
        Self { stamper: Stamper::default(), chance: OsChance }
    }

    /// Decides one request on what its predecessors left, and applies it to the batch.
    ///
    /// # Errors
    /// When the store fails in the middle of a change: the batch cannot go on. A refusal is an
    /// outcome.
    pub(crate) fn one(
        &mut self,
        directory: &Directory,
        batch: &mut Batch<'_>,
        state: &State,
        request: &mut WriteRequest,
    ) -> Result<Outcome, StoreError> {
        let stamp = self.stamper.stamp(directory.clock.now(), request.access.identity());
        let decision = match self.decide(directory, batch, state, request, &stamp) {
            Ok(decision) => decision,
            Err(refusal) => {
                let answer = Answer::from(refusal);
                return Ok(Outcome { changes: Vec::new(), stamp, answer, is_over: true });
            }
        };
        let Decision { changes, value } = decision;
        for change in &changes {
            batch.apply(change.get())?;
        }
        let success = Refusal::new(ResultCode::Success, "");
        let answer = Answer { value, ..Answer::from(success) };
        Ok(Outcome { changes, stamp, answer, is_over: true })
    }

    fn decide(
        &mut self,
        directory: &Directory,
        batch: &Batch<'_>,
        state: &State,
        request: &WriteRequest,
        stamp: &Stamp,
    ) -> Result<Decision, Refusal> {
        let view = batch.view();
        let referrals = !request.manage_dsa_it && referral::any(&view, state.schema.well_known())?;
        let mut decide = Decide {
            directory,
            view,
            state,
            access: &request.access,
            referrals,
            stamp: stamp.clone(),
            chance: &mut self.chance,
            next_id: batch.next_entry_id(),
        };
        match &request.op {
            WriteOp::Add(op) => add::decide(&mut decide, op),
            WriteOp::Delete(op) => delete::decide(&mut decide, op),
            WriteOp::Modify(op) => modify::decide(&mut decide, op),
            WriteOp::ModifyDn(op) => modify_dn::decide(&mut decide, op),
            WriteOp::PasswordModify(op) => password_modify::decide(&mut decide, op),
        }
    }
}
