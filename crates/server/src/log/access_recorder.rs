//! What a worker records of each operation when it is over: in its meter, and one record in its own
//! ring for the access log. Both have the same numbers, from the same readings of the clock.
//!
//! Invariant: a line names who asked as the connection was then: before the record of an operation
//! goes into the ring, what changed about its connection did.
//! Invariant: nothing here waits, and nothing here changes a response.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use directory::{Completion, Part, Received, Session};
use history::record::Who;
use ldap::message::{Authentication, Controls, MessageId, ModifyOperation, OperationKind, Request};
use ldap::result::ResultCode;
use tokio::time::Instant;

use super::refusals::Refusals;
use super::ring::Producer;
use super::wire::{Draft, Field, Kind, LoggedRequest, MESSAGE_MAX_BYTES, OperationRecord};
use super::{Doorbell, PROXIED_1, PROXIED_2, SESSION_TRACKING};
use crate::metrics::{Measured, Meter, micros};

/// What a worker records operations with.
pub(crate) struct AccessRecorder {
    meter: Arc<Meter>,
    /// When the logs began.
    epoch: Instant,
    /// When the octets that are being handled were read, or the message before was done with.
    began: Cell<Instant>,
    read: Cell<Instant>,
    /// None when there is no access log.
    log: Option<RefCell<Log>>,
}

/// The access log of one worker.
struct Log {
    ring: Producer,
    doorbell: Arc<Doorbell>,
    epoch: Instant,
    draft: Vec<u8>,
    /// Ends of connections that found no room: the log thread must hear of each.
    ends: VecDeque<Vec<u8>>,
    refusals: Arc<Refusals>,
}

/// What the access log follows of one connection.
#[derive(Default)]
pub(crate) struct ConnectionLog {
    /// Operations so far.
    operations: u64,
    /// The log thread knows the connection.
    is_introduced: bool,
    /// TLS, once it protects the connection, as far as the log thread does not know it.
    secured: Option<(&'static str, String)>,
    /// Who the log thread takes the client for.
    who: Option<Arc<Who>>,
    pending: Vec<Pending>,
    /// Why it ends.
    reason: Option<String>,
    listener: &'static str,
}

/// An operation that is answered later.
struct Pending {
    id: MessageId,
    operation: OperationRecord,
    received_bytes: u64,
    /// Sent for it before it went on elsewhere.
    begun_bytes: u64,
    read: Instant,
    diagnostic: Cow<'static, str>,
    request: Vec<u8>,
}

impl ConnectionLog {
    /// The log of a connection that came in on `listener`.
    pub(crate) fn new(listener: &'static str) -> Self {
        Self { listener, ..Self::default() }
    }

    /// Keeps why the connection ends; the first reason stands.
    pub(crate) fn ends(&mut self, reason: &str) {
        if self.reason.is_none() {
            self.reason = Some(reason.to_owned());
        }
    }

    /// TLS protects the connection from now on.
    pub(crate) fn secured(&mut self, version: &'static str, cipher: String) {
        self.secured = Some((version, cipher));
    }

    /// Operations that were begun so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// Where the connection came in.
    pub(crate) fn listener(&self) -> &'static str {
        self.listener
    }
}

impl AccessRecorder {
    /// One that writes no log.
    pub(crate) fn off(meter: Arc<Meter>) -> Self {
        let now = Instant::now();
        Self { meter, epoch: now, began: Cell::new(now), read: Cell::new(now), log: None }
    }

    pub(super) fn on(
        meter: Arc<Meter>,
        ring: Producer,
        doorbell: Arc<Doorbell>,
        refusals: Arc<Refusals>,
        epoch: Instant,
    ) -> Self {
        let (draft, ends) = (Vec::new(), VecDeque::new());
        let log = Log { ring, doorbell, epoch, draft, ends, refusals };
        Self { epoch, log: Some(RefCell::new(log)), ..Self::off(meter) }
    }

    /// What the worker counts in.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// A connection was accepted.
    pub(crate) fn connected(&self, connection: &mut ConnectionLog, session: &Session) {
        if let Some(log) = &self.log {
            log.borrow_mut().introduce(connection, session);
        }
    }

    /// A connection was refused before anything was asked. As many as come are counted, but not
    /// that many have a line.
    pub(crate) fn refused(&self, connection: &ConnectionLog, client: &str, reason: &str) {
        self.meter.refused(connection.listener);
        self.record_refused(connection, client, reason);
    }

    fn record_refused(&self, connection: &ConnectionLog, client: &str, reason: &str) {
        let Some(log) = &self.log else { return };
        let mut log = log.borrow_mut();
        let now = micros(log.epoch.elapsed());
        if !log.refusals.may_be_logged(now) {
            // The count is logged in time; there is no hurry.
            return log.doorbell.ring();
        }
        let mut draft = std::mem::take(&mut log.draft);
        let mut record = Draft::begin(&mut draft, Kind::Refused);
        record.number(now).text(client.as_bytes());
        record.text(connection.listener.as_bytes()).text(reason.as_bytes());
        log.put(&draft);
        log.draft = draft;
    }

    /// No TLS came about, and the connection ends. One that the log does not know yet was refused.
    pub(crate) fn not_secured(
        &self,
        connection: &mut ConnectionLog,
        session: &Session,
        reason: &str,
    ) {
        if !connection.is_introduced {
            self.record_refused(connection, &session.who().address, reason);
        }
        connection.ends(reason);
    }

    /// Octets that were read are being handled from now on.
    pub(crate) fn read(&self, read: Instant, now: Instant) {
        self.read.set(read);
        self.began.set(now);
    }

    /// A message was handled, and `completion` is all that became of it.
    pub(crate) fn handled(
        &self,
        connection: &mut ConnectionLog,
        session: &Session,
        received: &Received<'_>,
        completion: &Completion,
    ) {
        // What has no id that can be read is no operation.
        let Some(id) = received.id() else { return };
        let received_bytes = received.bytes.len() as u64;
        if completion.operation == Some(OperationKind::Unbind) {
            connection.ends("unbind");
            let kind = completion.operation;
            return self
                .count(&OperationRecord { kind, ..OperationRecord::default() }, received_bytes);
        }
        let mut operation = self.new_operation(connection, session, id, completion.operation);
        operation.complete(completion);
        self.count(&operation, received_bytes);
        let Some(log) = &self.log else { return };
        let mut log = log.borrow_mut();
        if !log.introduce(connection, session) {
            return;
        }
        let mut draft = std::mem::take(&mut log.draft);
        let mut record = Draft::begin(&mut draft, Kind::Operation);
        record.operation(&operation).text(completion.diagnostic.as_bytes());
        put_request(&mut draft, received);
        if let Some(name) = &completion.claimed {
            Draft(&mut draft).field(Field::User, name.as_bytes());
        }
        log.put(&draft);
        log.draft = draft;
    }

    /// A message was begun, and goes on elsewhere; so many bytes were sent for it.
    pub(crate) fn begun(
        &self,
        connection: &mut ConnectionLog,
        session: &Session,
        received: &Received<'_>,
        sent_bytes: u64,
    ) {
        let Some(id) = received.id() else { return };
        let mut operation = self.new_operation(connection, session, id, received.operation());
        operation.bytes = sent_bytes;
        let mut request = Vec::new();
        if self.log.is_some() {
            put_request(&mut request, received);
        }
        connection.pending.push(Pending {
            id,
            operation,
            received_bytes: received.bytes.len() as u64,
            begun_bytes: sent_bytes,
            read: self.read.get(),
            diagnostic: Cow::Borrowed(""),
            request,
        });
    }

    /// A part of a response came that is not its end.
    pub(crate) fn part(&self, connection: &mut ConnectionLog, id: MessageId, part: &Part) {
        let pending = connection.pending.iter_mut().find(|pending| pending.id == id);
        if let Some(Pending { operation, .. }) = pending {
            operation.entries = operation.entries.saturating_add(part.entries);
            operation.references = operation.references.saturating_add(part.references);
            operation.bytes += part.bytes.len() as u64;
        }
    }

    /// The end of a response came; nothing, when the operation was abandoned. It waited so long for
    /// a thread.
    pub(crate) fn answered(
        &self,
        connection: &mut ConnectionLog,
        session: &Session,
        completion: Completion,
        waited: Duration,
    ) {
        let index = connection.pending.iter().position(|pending| pending.id == completion.id);
        let Some(index) = index else { return };
        let mut pending = connection.pending.swap_remove(index);
        let operation = &mut pending.operation;
        operation.complete(&completion);
        operation.bytes += pending.begun_bytes;
        operation.queue_us = operation.queue_us.saturating_add(micros(waited));
        pending.diagnostic = completion.diagnostic;
        // Who binds with a slow hash is known only now: the fields were drafted before it was
        // carried out. Of the other requests nobody claims anything.
        if let (Some(name), Some(OperationKind::Bind), true) =
            (&completion.claimed, pending.operation.kind, self.log.is_some())
        {
            Draft(&mut pending.request).field(Field::User, name.as_bytes());
        }
        self.end(connection, session, pending);
    }

    /// The connection is gone, and with it whoever waited for what is not answered.
    pub(crate) fn disconnected(&self, connection: &mut ConnectionLog, session: &Session) {
        self.meter.closed(connection.listener);
        for mut pending in std::mem::take(&mut connection.pending) {
            pending.operation.is_abandoned = true;
            self.end(connection, session, pending);
        }
        let Some(log) = &self.log else { return };
        if !connection.is_introduced {
            return;
        }
        let mut log = log.borrow_mut();
        let mut record = Vec::new();
        let reason = connection.reason.as_deref().unwrap_or("lost");
        let now = micros(log.epoch.elapsed());
        let mut draft = Draft::begin(&mut record, Kind::Disconnect);
        draft.number(session.who().session).number(now).number(connection.operations);
        draft.text(reason.as_bytes());
        log.ends.push_back(record);
        log.put_ends();
    }

    /// What is known of an operation now.
    fn new_operation(
        &self,
        connection: &mut ConnectionLog,
        session: &Session,
        id: MessageId,
        kind: Option<OperationKind>,
    ) -> OperationRecord {
        let now = Instant::now();
        let (read, began) = (self.read.get(), self.began.replace(now));
        let number = connection.operations;
        connection.operations += 1;
        OperationRecord {
            connection: session.who().session,
            number,
            ended_us: micros(now - self.epoch),
            queue_us: micros(began - read),
            elapsed_us: micros(now - read),
            message_id: id.0,
            kind,
            ..OperationRecord::default()
        }
    }

    fn end(&self, connection: &mut ConnectionLog, session: &Session, pending: Pending) {
        let Pending { mut operation, received_bytes, read, diagnostic, request, .. } = pending;
        let now = Instant::now();
        operation.ended_us = micros(now - self.epoch);
        operation.elapsed_us = micros(now - read);
        operation.is_abandoned |= operation.code.is_none();
        self.count(&operation, received_bytes);
        let Some(log) = &self.log else { return };
        let mut log = log.borrow_mut();
        if !log.introduce(connection, session) {
            return;
        }
        let mut draft = std::mem::take(&mut log.draft);
        Draft::begin(&mut draft, Kind::Operation).operation(&operation).text(diagnostic.as_bytes());
        draft.extend_from_slice(&request);
        log.put(&draft);
        log.draft = draft;
    }

    fn count(&self, operation: &OperationRecord, received_bytes: u64) {
        self.meter.count(&Measured {
            kind: operation.kind,
            code: operation.code,
            is_abandoned: operation.is_abandoned,
            elapsed_us: operation.elapsed_us,
            received_bytes,
            sent_bytes: operation.bytes,
            entries: operation.entries,
            references: operation.references,
        });
    }
}

impl Log {
    /// Hands the log thread what it has to know of the connection; says whether it knows it all.
    fn introduce(&mut self, connection: &mut ConnectionLog, session: &Session) -> bool {
        let who = session.who();
        let is_known = connection.who.as_ref().is_some_and(|known| Arc::ptr_eq(known, who));
        if connection.is_introduced
            && is_known
            && connection.secured.is_none()
            && self.ends.is_empty()
        {
            return true;
        }
        self.put_ends();
        let now = micros(self.epoch.elapsed());
        let mut draft = std::mem::take(&mut self.draft);
        if !connection.is_introduced {
            let mut record = Draft::begin(&mut draft, Kind::Connect);
            record.number(who.session).number(now);
            record.text(who.address.as_bytes()).text(connection.listener.as_bytes());
            connection.is_introduced = self.put(&draft);
        }
        if let (true, Some((version, cipher))) = (connection.is_introduced, &connection.secured) {
            let mut record = Draft::begin(&mut draft, Kind::Secured);
            record.number(who.session).number(now);
            record.text(version.as_bytes()).text(cipher.as_bytes());
            if self.put(&draft) {
                connection.secured = None;
            }
        }
        if connection.is_introduced && !is_known {
            let mut record = Draft::begin(&mut draft, Kind::Identity);
            record.number(who.session).text(who.dn.as_bytes());
            record.text(who.authz.as_bytes()).text(who.mechanism.as_bytes());
            if self.put(&draft) {
                connection.who = Some(Arc::clone(who));
            }
        }
        self.draft = draft;
        let is_known = connection.who.as_ref().is_some_and(|known| Arc::ptr_eq(known, who));
        connection.is_introduced && is_known && connection.secured.is_none()
    }

    fn put_ends(&mut self) {
        while let Some(end) = self.ends.front() {
            if !self.ring.try_put(end) {
                return self.doorbell.ring_now();
            }
            self.ends.pop_front();
        }
        self.doorbell.ring();
    }

    fn put(&mut self, record: &[u8]) -> bool {
        let is_put = self.ring.put(record);
        if self.ring.is_half_full() {
            self.ring.look();
            if self.ring.is_half_full() {
                self.doorbell.ring_now();
            }
        }
        self.doorbell.ring();
        is_put
    }
}

impl OperationRecord {
    /// What the outcome says of it.
    fn complete(&mut self, completion: &Completion) {
        self.code = completion.code.map(ResultCode::code);
        self.entries = completion.entries;
        self.references = completion.references;
        self.candidates = completion.candidates;
        self.is_unindexed = completion.is_unindexed;
        self.policy = completion.policy;
        self.failure = completion.failure;
        self.bytes = completion.bytes;
    }
}

/// Appends what the message asks for, without its secrets.
fn put_request(out: &mut Vec<u8>, received: &Received<'_>) {
    let is_search = received.operation() == Some(OperationKind::Search);
    if is_search && received.bytes.len() <= MESSAGE_MAX_BYTES {
        out.push(LoggedRequest::Message as u8);
        return out.extend_from_slice(received.bytes);
    }
    let mut draft = Draft(out);
    draft.octet(LoggedRequest::Fields as u8);
    // What cannot be read has no fields; the answer says why.
    if let Ok(message) = &received.message {
        put_fields(&mut draft, &message.op);
        put_controls(&mut draft, &message.controls);
    }
}

fn put_fields(draft: &mut Draft<'_>, request: &Request<'_>) {
    match request {
        Request::Bind(bind) => {
            draft.field(Field::Name, bind.name.as_bytes());
            let mechanism = match &bind.authentication {
                Authentication::Simple(_) => "simple",
                Authentication::Sasl { mechanism, .. } => mechanism,
                Authentication::Other(_) => "unknown",
            };
            draft.field(Field::Mechanism, mechanism.as_bytes());
        }
        // One that is too long to be there as it came.
        Request::Search(search) => {
            draft.field(Field::Name, search.base.as_bytes());
            draft.field(Field::Cut, &[]);
        }
        Request::Compare(compare) => {
            draft.field(Field::Name, compare.name.as_bytes());
            draft.field(Field::Attribute, compare.description.as_bytes());
            draft.field(Field::Value, compare.value);
        }
        Request::Add(add) => draft.field(Field::Name, add.name.as_bytes()),
        Request::Delete(delete) => draft.field(Field::Name, delete.name.as_bytes()),
        Request::Modify(modify) => {
            draft.field(Field::Name, modify.name.as_bytes());
            for change in modify.changes.iter() {
                let how = match change.operation {
                    ModifyOperation::Add => "add",
                    ModifyOperation::Delete => "delete",
                    ModifyOperation::Replace => "replace",
                    ModifyOperation::Increment => "increment",
                };
                let text = format!("{how} {}", change.attribute.description);
                draft.field(Field::Change, text.as_bytes());
            }
        }
        Request::ModifyDn(rename) => {
            draft.field(Field::Name, rename.name.as_bytes());
            draft.field(Field::NewRdn, rename.new_rdn.as_bytes());
            if let Some(superior) = rename.new_superior {
                draft.field(Field::NewSuperior, superior.as_bytes());
            }
            if rename.delete_old_rdn {
                draft.field(Field::DeletesOldRdn, &[]);
            }
        }
        Request::Abandon(id) => draft.field(Field::Target, id.0.to_string().as_bytes()),
        Request::Extended(extended) => draft.field(Field::Oid, extended.oid.as_bytes()),
        Request::Unbind => {}
    }
}

/// The controls; the values of those that say who is behind the request.
fn put_controls(draft: &mut Draft<'_>, controls: &Controls<'_>) {
    for control in controls.iter() {
        draft.field(Field::Control, control.oid.as_bytes());
        if let (SESSION_TRACKING | PROXIED_1 | PROXIED_2, Some(value)) =
            (control.oid, control.value)
        {
            draft.field(Field::ControlValue, value);
        }
    }
}
