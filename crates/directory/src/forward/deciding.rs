//! The node that decides: an update of another node is carried out as if its session were here.
//!
//! Invariant: a peer has proved who it is, and is believed who its clients are; what those may do
//! is looked at here, by the state of this node.
//! Invariant: nothing but updates is carried out for another node.

use std::collections::VecDeque;
use std::sync::Arc;

use aci::{Access, Identity};
use ldap::control_value::read_level::POSITION_OID;
use ldap::dn::{Dn, DnText};
use ldap::message::{ExtendedRequest, Message, MessageId, OperationKind, Request};
use ldap::result::ResultCode;
use schema::DnKey;
use store::Lsn;
use zeroize::Zeroizing;

use super::answer::{Answered, ForwardedAnswer};
use super::forwarder::OTHER_VERSION;
use super::known_requests::{Begun, ForwardedDone, Ticket};
use super::octets::Unreadable;
use super::outgoing::Forwarding;
use super::request::{ForwardedIdentity, ForwardedRequest, ForwardedSession, ForwardedWork};
use super::told_again::{self, Reads};
use crate::bind::hashing::{HashDone, HashJob};
use crate::bind::identity_mapper;
use crate::bind::sasl;
use crate::bind::user_name::Found;
use crate::directory::Directory;
use crate::request::asker_queues::Asker;
use crate::request::completion::{Completion, WriteDone};
use crate::request::controls::transaction::SPECIFICATION;
use crate::request::outbox::{ForwardedReply, LostUpdate};
use crate::request::refusal::Refusal;
use crate::request::session::{SIMPLE, Session};
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, RequestState, Worker};
use crate::write::named;
use crate::write::queue::PendingWrite;
use crate::write::request::{Rehash, WriteOp};
use crate::write::response::WriteResponse;
use crate::write::transaction;
use crate::write::{password_modify, transactions};
use history::log::Role;
use ldap::control_value::policy_state;

/// A request of another node that waits for a password hash. Give the job to a thread of the hash
/// pool, and what comes of it to `Worker::resume_forwarded`.
#[must_use]
pub struct ForwardedHash {
    /// What is to be computed.
    pub job: Box<HashJob>,
    /// What goes on with it.
    pub rest: ForwardedUpdate,
}

/// A request of another node that is being carried out. Dropped, it is refused.
pub struct ForwardedUpdate {
    session: Session,
    /// Those that were not handled yet.
    messages: VecDeque<Zeroizing<Vec<u8>>>,
    /// Of the message that is answered: the last one.
    which: (MessageId, OperationKind),
    ticket: Ticket,
}

impl ForwardedUpdate {
    /// Who has a turn with it.
    pub fn asker(&self) -> Asker {
        Asker::of(&self.session)
    }

    /// Refuses it with `busy`: there is no room for its hash.
    pub fn refuse_busy(self, why: String) {
        self.ticket.answer(&ForwardedAnswer::Refused { code: ResultCode::Busy, diagnostic: why });
    }

    /// Nothing of it happens here: whoever asked asks whoever decides next.
    pub fn give_back(self) {
        self.ticket.answer(&ForwardedAnswer::NotDeciding { leader: None });
    }
}

impl Worker {
    /// Carries out a request of another node, in the octets that its forwarder was given; `done`
    /// gets the octets of the answer. Returns what waits for a password hash, if anything does.
    pub fn carry_out_forwarded(
        &mut self,
        octets: &[u8],
        done: ForwardedDone,
    ) -> Option<ForwardedHash> {
        let directory = Arc::clone(&self.directory);
        let Some(forwarding) = directory.queue.forwarding() else {
            done(refusal(ResultCode::UnwillingToPerform, "this server is alone").encode());
            return None;
        };
        let request = match ForwardedRequest::decode(octets) {
            Ok(request) => request,
            Err(Unreadable::OTHER_VERSION) => {
                done(refusal(ResultCode::Unavailable, OTHER_VERSION).encode());
                return None;
            }
            Err(error) => {
                let why = format!("the request of the other node cannot be read: {error}");
                done(refusal(ResultCode::ProtocolError, &why).encode());
                return None;
            }
        };
        let (ticket, applied) = match forwarding.known().begin(request.id, done) {
            Begun::New(ticket) => (ticket, None),
            Begun::Applied(ticket, last) => (ticket, Some(last)),
            Begun::Known => return None,
        };
        if let Some(leader) = elsewhere(forwarding) {
            ticket.answer(&ForwardedAnswer::NotDeciding { leader });
            return None;
        }
        match request.work {
            ForwardedWork::Messages { session, messages } => {
                let update = self.forwarded_update(session, messages, ticket, applied)?;
                self.go_on_forwarded(update)
            }
            ForwardedWork::Events(_) if applied.is_some() => {
                let which = (MessageId(0), OperationKind::Modify);
                ticket.answer(&self.answered_with(which, WriteResponse::success()));
                None
            }
            ForwardedWork::Events(accounts) => {
                self.note_told(&accounts, reply_to(&directory, ticket, false));
                None
            }
            ForwardedWork::Rehash { name, old, new } => {
                match named::named(&directory, &name) {
                    Ok(named) => {
                        let rehash = Rehash::of_another(named, old.to_vec(), new.to_vec());
                        submit_of_server(&directory, WriteOp::Rehash(rehash), ticket);
                    }
                    Err(error) => ticket.answer(&refusal(error.code, &error.diagnostic)),
                }
                None
            }
        }
    }

    /// Goes on with a request whose hashes are computed, as [`Self::carry_out_forwarded`] does.
    pub fn resume_forwarded(
        &mut self,
        mut update: ForwardedUpdate,
        done: HashDone,
    ) -> Option<ForwardedHash> {
        let mut out = Vec::new();
        let next = self.resume(&mut update.session, done, &mut out);
        match self.follow_forwarded(update, next, out) {
            Followed::GoOn(update) => self.go_on_forwarded(*update),
            Followed::Hash(hash) => Some(*hash),
            Followed::Over => None,
        }
    }

    /// The session and the messages, where they are those of an update that is to be carried out.
    fn forwarded_update(
        &mut self,
        told: Box<ForwardedSession>,
        messages: Vec<Zeroizing<Vec<u8>>>,
        ticket: Ticket,
        applied: Option<Lsn>,
    ) -> Option<ForwardedUpdate> {
        let checked = check_messages(&self.directory, &messages);
        let (which, kind) = match checked {
            Ok(checked) => checked,
            Err(why) => {
                ticket.answer(&refusal(ResultCode::ProtocolError, why));
                return None;
            }
        };
        // A deletion of a tree may have come to a part of it; the writer finds out.
        let applied = applied.filter(|_| !kind.may_go_on);
        if let Some(lsn) = applied {
            let mut answer = self.already(*told, &messages, &kind, lsn);
            answer.controls.extend(kind.wants_position.then(|| self.position()));
            ticket.answer(&self.answered_with(which, answer));
            return None;
        }
        let Some(mechanism) = known_mechanism(&told.who.mechanism) else {
            let why = "the session was authenticated by a mechanism that is not known here";
            ticket.answer(&refusal(ResultCode::UnwillingToPerform, why));
            return None;
        };
        let access = match access_now(self, &told.identity) {
            Ok(access) => access,
            Err(refusal) => {
                ticket.answer(&self.answered(which, refusal));
                return None;
            }
        };
        let mut session = Session::of_another(*told, access, mechanism);
        if let Some(identifier) = kind.transaction {
            let all = &self.directory.budgets.transactions;
            let (asker, now) = (Asker::of(&session), self.directory.clock.elapsed());
            session.transactions().open_as(&identifier, all, asker, now);
        }
        Some(ForwardedUpdate { session, messages: messages.into(), which, ticket })
    }

    /// What is answered to a request that was carried out before, and whose answer was lost.
    fn already(
        &mut self,
        told: ForwardedSession,
        messages: &[Zeroizing<Vec<u8>>],
        kind: &Kind,
        lsn: Lsn,
    ) -> WriteResponse {
        if kind.has_value || kind.reads == Reads::Before {
            return Refusal::value_lost().into();
        }
        if kind.reads == Reads::Nothing {
            return WriteResponse::success();
        }
        let directory = Arc::clone(&self.directory);
        let message = messages.last().and_then(|message| decode(&directory, message).ok());
        let mechanism = known_mechanism(&told.who.mechanism);
        let access = access_now(self, &told.identity);
        let (Some(message), Some(mechanism), Ok(access)) = (message, mechanism, access) else {
            return Refusal::value_lost().into();
        };
        let session = Session::of_another(told, access, mechanism);
        told_again::read_after(self, &session, &message, lsn)
    }

    fn go_on_forwarded(&mut self, mut update: ForwardedUpdate) -> Option<ForwardedHash> {
        // Dropped, it is refused: there is always a message that is not handled.
        while let Some(message) = update.messages.pop_front() {
            let mut out = Vec::new();
            self.request = RequestState::default();
            let next = self.handle(&mut update.session, &message, &mut out);
            match self.follow_forwarded(update, next, out) {
                Followed::GoOn(rest) => update = *rest,
                Followed::Hash(hash) => return Some(*hash),
                Followed::Over => return None,
            }
        }
        None
    }

    /// Does what is to be done after a message was handled.
    fn follow_forwarded(&mut self, update: ForwardedUpdate, next: Next, out: Vec<u8>) -> Followed {
        let is_last = update.messages.is_empty();
        match next {
            Next::Answered(completion) if is_last => {
                let done = WriteDone { bytes: out, completion };
                let answer = self.told(done);
                update.ticket.answer(&answer);
                Followed::Over
            }
            Next::Answered(completion) if completion.code == Some(ResultCode::Success) => {
                Followed::GoOn(Box::new(update))
            }
            Next::Answered(completion) => {
                // The update was taken where it was asked for, and is refused here.
                let Completion { id, code, diagnostic, .. } = completion;
                let code = code.unwrap_or(ResultCode::Other);
                let ended = transaction::answer(Some((id, Refusal::new(code, diagnostic))), &[]);
                let answer = self.answered_with(update.which, ended);
                update.ticket.answer(&answer);
                Followed::Over
            }
            Next::Write(pending) if is_last => {
                submit(&self.directory, pending, update.ticket);
                Followed::Over
            }
            Next::Hash(job) => Followed::Hash(Box::new(ForwardedHash { job, rest: update })),
            Next::Write(_)
            | Next::Later(_)
            | Next::Wait(_)
            | Next::StartTls(_)
            | Next::Close(_) => {
                let why = "another node may ask for nothing but updates";
                update.ticket.answer(&refusal(ResultCode::ProtocolError, why));
                Followed::Over
            }
        }
    }

    /// The answer to a request that ends here.
    fn answered(&self, which: (MessageId, OperationKind), refusal: Refusal) -> ForwardedAnswer {
        self.answered_with(which, WriteResponse::from(refusal))
    }

    fn answered_with(
        &self,
        which: (MessageId, OperationKind),
        response: WriteResponse,
    ) -> ForwardedAnswer {
        let mut bytes = Vec::new();
        let mut sink = ResponseSink::new(&mut bytes, which.0, Some(which.1));
        let completion = response.send(None, &mut sink);
        self.told(WriteDone { bytes, completion })
    }

    fn told(&self, done: WriteDone) -> ForwardedAnswer {
        let is_wrong_guess = done.completion.is_wrong_guess;
        told(&self.directory, is_wrong_guess, done)
    }
}

/// How far a request came.
enum Followed {
    /// Another message is to be handled.
    GoOn(Box<ForwardedUpdate>),
    Hash(Box<ForwardedHash>),
    Over,
}

/// What messages ask for together.
struct Kind {
    /// The identifier of the transaction that they are.
    transaction: Option<Vec<u8>>,
    /// What was begun of it may have to go on.
    may_go_on: bool,
    /// Its response has a value that was made when it was carried out.
    has_value: bool,
    /// What is to be told of its entry; of a transaction only whether anything is.
    reads: Reads,
    /// Its response tells a position.
    wants_position: bool,
}

/// Refuses messages that are no update; else the one that is answered, and what they are.
fn check_messages(
    directory: &Directory,
    messages: &[Zeroizing<Vec<u8>>],
) -> Result<((MessageId, OperationKind), Kind), &'static str> {
    let Some((last, updates)) = messages.split_last() else { return Err("there is no message") };
    let mut kind = Kind {
        transaction: None,
        may_go_on: false,
        has_value: false,
        reads: Reads::Nothing,
        wants_position: false,
    };
    for update in updates {
        let message = decode(directory, update)?;
        let Some(identifier) = transaction_of(&message).filter(|_| is_update(&message.op)) else {
            return Err("a message before the last is no update of a transaction");
        };
        kind.transaction.get_or_insert_with(|| identifier.to_vec());
        if Reads::of(&message) != Reads::Nothing {
            kind.reads = Reads::Before;
        }
    }
    let last = decode(directory, last)?;
    if updates.is_empty() {
        kind.reads = Reads::of(&last);
    }
    let is_end = |request: &ExtendedRequest<'_>| request.oid == transactions::END;
    let is_right = match &last.op {
        Request::Extended(request) if !updates.is_empty() => is_end(request),
        op => updates.is_empty() && is_update(op) && transaction_of(&last).is_none(),
    };
    if !is_right {
        return Err("another node may ask for nothing but updates");
    }
    kind.may_go_on = matches!(last.op, Request::Delete(_))
        && last.controls.iter().any(|control| control.oid == SUBTREE_DELETE);
    kind.wants_position = last.controls.iter().any(|control| control.oid == POSITION_OID);
    kind.has_value = match &last.op {
        Request::Extended(request) if request.oid == password_modify::value::OID => {
            password_modify::value::wants_generated(request.value)
        }
        Request::Extended(request) => !is_end(request),
        _ => false,
    };
    Ok(((last.id, last.op.kind()), kind))
}

fn decode<'m>(
    directory: &Directory,
    message: &'m [u8],
) -> Result<Message<'m, Request<'m>>, &'static str> {
    let message = Message::<Request<'_>>::decode(message, &directory.decode_limits);
    message.map_err(|_| "a message cannot be read")
}

fn transaction_of<'m>(message: &Message<'m, Request<'m>>) -> Option<&'m [u8]> {
    let found = message.controls.iter().find(|control| control.oid == SPECIFICATION);
    found.map(|control| control.value.unwrap_or_default())
}

/// Whether it is one that another node hands on by itself, or in a transaction.
fn is_update(request: &Request<'_>) -> bool {
    match request {
        Request::Add(_) | Request::Delete(_) | Request::Modify(_) | Request::ModifyDn(_) => true,
        Request::Extended(request) => {
            [password_modify::value::OID, policy_state::OID, policy_state::PING_OID]
                .contains(&request.oid)
        }
        Request::Bind(_)
        | Request::Unbind
        | Request::Search(_)
        | Request::Compare(_)
        | Request::Abandon(_) => false,
    }
}

/// Where the node is found that decides, if it is another one.
fn elsewhere(forwarding: &Forwarding) -> Option<Option<String>> {
    match &*forwarding.role() {
        Role::Deciding(_) => None,
        Role::Following { leader } => Some(leader.clone()),
        Role::Alone | Role::Failed(_) => Some(None),
    }
}

/// What the identity of a session may do now.
fn access_now(worker: &mut Worker, told: &ForwardedIdentity) -> Result<Access, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let gone = |why| Refusal::new(ResultCode::InsufficientAccessRights, why);
    let (name, entry, prover) = match told {
        ForwardedIdentity::Anonymous => return Ok(Access::of(Identity::Anonymous)),
        ForwardedIdentity::Root(name) => {
            let grants = *directory.credentials.root.access().grants();
            let name = Dn::parse(name)?;
            let key = named::key(&directory.state.load().schema, &name)?;
            return Ok(Access::with(Identity::Root(DnText::from(&name)), grants).keyed(key));
        }
        ForwardedIdentity::Entry { name, entry, prover } => (name, *entry, *prover),
    };
    let state = directory.state.load_full();
    let (root, view) = (&directory.credentials.root, worker.snapshot.view()?);
    let access = identity_mapper::access_of(root, &state, view, Found::Entry(entry))?;
    let access = access.ok_or_else(|| gone("the entry of this session was deleted"))?;
    // A name may have changed hands.
    match DnKey::from_text(&state.schema, name) {
        Ok(key) if access.key() == Some(&key) => Ok(access.proved_by(prover)),
        _ => Err(gone("the name or the privileges of the identity changed; bind again")),
    }
}

/// The name of a mechanism as sessions have it.
fn known_mechanism(name: &str) -> Option<&'static str> {
    ["", SIMPLE].into_iter().chain(sasl::mechanisms()).find(|known| *known == name)
}

/// Gives a resolved update to the writer.
fn submit(directory: &Arc<Directory>, pending: PendingWrite, ticket: Ticket) {
    let (id, is_wrong_guess) = (ticket.id(), pending.is_wrong_guess());
    pending.submit_forwarded(id, reply_to(directory, ticket, is_wrong_guess));
}

/// What tells another node what became of its request.
fn reply_to(directory: &Arc<Directory>, ticket: Ticket, is_wrong_guess: bool) -> ForwardedReply {
    let directory = Arc::downgrade(directory);
    Box::new(move |outcome| {
        let answer = match (outcome, directory.upgrade()) {
            (Ok(done), Some(directory)) => told(&directory, is_wrong_guess, done),
            (Err(LostUpdate::NotDeciding { leader }), _) => ForwardedAnswer::NotDeciding { leader },
            (Ok(_) | Err(LostUpdate::Unknown), _) => ForwardedAnswer::Unknown,
        };
        ticket.answer(&answer);
    })
}

fn submit_of_server(directory: &Arc<Directory>, op: WriteOp, ticket: Ticket) {
    let root = &directory.credentials.root.dn;
    submit(directory, PendingWrite::of_another_server(&directory.queue, root, op), ticket);
}

/// The answer that says what a response does. What it was decided on is visible by now.
fn told(directory: &Directory, is_wrong_guess: bool, done: WriteDone) -> ForwardedAnswer {
    let WriteDone { bytes, completion } = done;
    ForwardedAnswer::Answered(Answered {
        lsn: directory.storage.store.published().lsn,
        is_wrong_guess,
        policy: completion.policy,
        code: completion.code,
        diagnostic: completion.diagnostic.into_owned(),
        response: bytes,
    })
}

fn refusal(code: ResultCode, why: &str) -> ForwardedAnswer {
    ForwardedAnswer::Refused { code, diagnostic: why.to_owned() }
}

/// A delete takes the subordinates with it (draft-armijo-ldap-treedelete).
const SUBTREE_DELETE: &str = "1.2.840.113556.1.4.805";
