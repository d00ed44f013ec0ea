//! What one thread needs to serve requests: a reader of the store, chance, scratch space.

use std::sync::Arc;

use environment::Chance;
use ldap::ber::DecodeReason;
use ldap::message::{Controls, DecodeFailure, DerefAliases, MessageId, OperationKind};
use ldap::result::ResultCode;
use schema::WellKnown;
use store::{Lsn, StoreError, StoreReader, View};

use crate::bind::hashing::{Behind, Hashed};
use crate::bind::hashing::{HashDone, HashJob, RequestHashes};
use crate::bind::{Told, recheck};
use crate::directory::{Directory, State};
use crate::read::analyser::Recorder;
use crate::read::search::aliases;
use crate::request::completion::Completion;
use crate::request::job::{Job, Ran};
use crate::request::name_memo::NameMemo;
use crate::request::received::Received;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::{self, Receiver, ResponseSink};
use crate::request::{dispatch, referral};
use crate::write::queue::PendingWrite;
use auth::password::Scheme;

/// One thread's way into the directory.
pub struct Worker {
    pub(crate) directory: Arc<Directory>,
    pub(crate) snapshot: Snapshot,
    pub(crate) chance: Box<dyn Chance>,
    /// Names that were asked for.
    pub(crate) names: NameMemo,
    pub(crate) recorder: Recorder,
    /// The request that is handled: replaced as a whole when the next one is.
    pub(crate) request: RequestState,
}

/// What is known of the request at hand beside its message.
#[derive(Default)]
pub(crate) struct RequestState {
    /// Password hashes that it asks for, and those it was answered.
    pub(crate) hashing: RequestHashes,
    /// What a bind is told of its account.
    pub(crate) told: Told,
    /// An old password that it sends is not right.
    pub(crate) is_wrong_guess: bool,
}

/// What the connection has to do after a message was handled.
#[must_use]
pub enum Next {
    /// Everything to send is in the buffer; there may be nothing to send (abandon).
    Answered(Completion),
    /// Submit it; the answer comes when the change is durable.
    Write(PendingWrite),
    /// Give it to a pool thread.
    Later(Job),
    /// Give it to a thread of the hash pool, and what comes of it to `Worker::resume`. Nothing was
    /// answered yet, and no further message of the connection may be handled until then: a bind
    /// decides who the following requests come from (RFC 4511 §4.2.1), and an update may be what
    /// they build upon.
    Hash(Box<HashJob>),
    /// Send the buffer, discard what was received already, then begin the TLS handshake.
    StartTls(Completion),
    /// Send the buffer, then close.
    Close(Completion),
}

impl Worker {
    pub(crate) fn new(directory: Arc<Directory>, chance: Box<dyn Chance>) -> Self {
        let reader = directory.store.reader();
        let snapshot = Snapshot { reader, referrals: None, subentries: None, aliases: None };
        let recorder = directory.analyser.recorder();
        let (names, request) = (NameMemo::default(), RequestState::default());
        Self { directory, snapshot, chance, names, recorder, request }
    }

    /// Handles one complete message (as `ldap::ber::frame` cut it) and appends to `out` what is to
    /// be sent.
    pub fn handle(&mut self, session: &mut Session, message: &[u8], out: &mut Vec<u8>) -> Next {
        let received = self.decode(message);
        self.handle_received(session, &received, out)
    }

    /// Decodes one whole message (as `ldap::ber::frame` cut it).
    pub fn decode<'m>(&self, message: &'m [u8]) -> Received<'m> {
        Received::decode(message, &self.directory.decode_limits)
    }

    /// Handles one message that is decoded already.
    pub fn handle_received(
        &mut self,
        session: &mut Session,
        received: &Received<'_>,
        out: &mut Vec<u8>,
    ) -> Next {
        self.request = RequestState::default();
        self.carry_out(session, received, out)
    }

    fn carry_out(
        &mut self,
        session: &mut Session,
        received: &Received<'_>,
        out: &mut Vec<u8>,
    ) -> Next {
        let start = out.len();
        let id = received.id().unwrap_or(MessageId::UNSOLICITED);
        let mut sink = ResponseSink::new(out, id, received.operation());
        let mut next = match &received.message {
            Ok(decoded) => dispatch::dispatch(self, session, decoded, received.bytes, &mut sink),
            Err(failure) => {
                if received.operation() == Some(OperationKind::Bind) {
                    session.start_bind();
                }
                let next = refuse_undecodable(failure, &mut sink);
                // It may have been an update of any of them.
                for identifier in session.transactions().abort_all() {
                    let why = "a request of the connection could not be read";
                    sink.aborted_transaction(&identifier, ResultCode::ProtocolError, why);
                }
                next
            }
        };
        if let Next::Answered(completion) | Next::StartTls(completion) | Next::Close(completion) =
            &mut next
        {
            completion.bytes = (out.len() - start) as u64;
            completion.is_wrong_guess = self.request.is_wrong_guess;
        }
        next
    }

    /// Refuses a message that is not carried out. After a bind the client is nobody, as after every
    /// bind that fails (RFC 4513 §4).
    pub fn refuse(
        &mut self,
        session: &mut Session,
        received: &Received<'_>,
        (code, why): (ResultCode, &'static str),
        out: &mut Vec<u8>,
    ) -> Completion {
        let operation = received.operation();
        if operation == Some(OperationKind::Bind) {
            session.refuse_bind();
        }
        let id = received.id().unwrap_or(MessageId::UNSOLICITED);
        sink::refuse(out, (id, operation), Refusal::new(code, why))
    }

    /// Goes on with a request whose hashes are computed.
    pub fn resume(&mut self, session: &mut Session, done: HashDone, out: &mut Vec<u8>) -> Next {
        let HashDone { id, operation, message, answered, cancel, attempt } = done;
        session.forget(id);
        if cancel.is_set() {
            return Next::Answered(Completion::of(id, Some(operation)));
        }
        let hashing = RequestHashes::resumed(answered, attempt);
        self.request = RequestState { hashing, ..RequestState::default() };
        let received = Received::decode(&message, &self.directory.decode_limits);
        self.carry_out(session, &received, out)
    }

    /// Which of the stored values a password is behind.
    pub(crate) fn which(&mut self, clear: &[u8], stored: &[Vec<u8>]) -> Behind {
        self.request.hashing.which(self.directory.hash_rules(), clear, stored)
    }

    /// The stored form of a new password.
    pub(crate) fn stored_form(
        &mut self,
        clear: &[u8],
        as_what: (Option<Scheme>, bool),
    ) -> Result<Hashed, Refusal> {
        let Self { directory, request, chance, .. } = self;
        request.hashing.known().stored_form(&directory.passwords, clear, as_what, &mut **chance)
    }

    /// Carries out a job on a pool thread, or goes on with one.
    pub fn run(&mut self, job: Job, receiver: &mut dyn Receiver) -> Ran {
        dispatch::run(self, job, receiver)
    }

    /// Brings a session up to what its entry is now: its name, privileges and limits.
    ///
    /// # Errors
    /// Why the session has to end: its entry is gone or switched off, or it asked for something
    /// with rights that it has no more, and that is still under way.
    pub fn recheck(&mut self, session: &mut Session) -> Result<(), &'static str> {
        recheck::recheck(self, session).unwrap_or_else(|refusal| {
            tracing::warn!(reason = %refusal.diagnostic, "a session cannot be looked at");
            Err("the entry of this session cannot be read")
        })
    }

    /// The thread has nothing to do: gives up its snapshot, so that old pages can be reused.
    pub fn idle(&mut self) {
        self.snapshot.reader.release();
    }
}

/// What a thread reads the store with, and what it found out about the version it reads.
pub(crate) struct Snapshot {
    reader: StoreReader,
    /// Whether there was any referral object at this point of the log.
    referrals: Option<(Lsn, bool)>,
    /// Whether there was any subentry at this point of the log.
    subentries: Option<(Lsn, bool)>,
    /// Whether there was any alias at this point; looked for when aliases are to be followed.
    aliases: Option<(Lsn, bool)>,
}

/// The directory as of the last commit, and what a search has to look out for in it.
pub(crate) struct SearchView<'r> {
    pub(crate) view: &'r View<'r>,
    /// There are referral objects, and the client does not manage them.
    pub(crate) referrals: bool,
    /// There are subentries.
    pub(crate) subentries: bool,
    /// There are aliases, and they are to be followed.
    pub(crate) aliases: bool,
}

impl Snapshot {
    /// The directory as of the last commit.
    pub(crate) fn view(&mut self) -> Result<&View<'_>, StoreError> {
        self.reader.view()
    }

    /// The directory as of the last commit, and whether referral objects are to be looked out for:
    /// there are some, and the client does not manage them.
    pub(crate) fn view_for(
        &mut self,
        known: &WellKnown,
        manage_dsa_it: bool,
    ) -> Result<(&View<'_>, bool), Refusal> {
        Self::look(&mut self.reader, &mut self.referrals, known, manage_dsa_it)
    }

    fn look<'r>(
        reader: &'r mut StoreReader,
        known_before: &mut Option<(Lsn, bool)>,
        known: &WellKnown,
        manage_dsa_it: bool,
    ) -> Result<(&'r View<'r>, bool), Refusal> {
        let view = reader.view()?;
        let referrals = match *known_before {
            Some((lsn, any)) if lsn == view.lsn() => any,
            Some(_) | None => referral::any(view, known)?,
        };
        *known_before = Some((view.lsn(), referrals));
        Ok((view, referrals && !manage_dsa_it))
    }

    /// The directory as of the last commit, and what a search has to look out for. Schemas never
    /// change without the log going on, so the answers hold as long as its position does.
    pub(crate) fn view_for_search(
        &mut self,
        state: &State,
        manage_dsa_it: bool,
        deref: DerefAliases,
    ) -> Result<SearchView<'_>, Refusal> {
        let known = state.schema.well_known();
        let Self { reader, referrals, subentries, aliases } = self;
        let (view, referrals) = Self::look(reader, referrals, known, manage_dsa_it)?;
        let lsn = view.lsn();
        let there = match *subentries {
            Some((at, any)) if at == lsn => any,
            Some(_) | None => state.subentries.any(view)?,
        };
        *subentries = Some((lsn, there));
        let subentries = there;
        if deref == DerefAliases::Never {
            return Ok(SearchView { view, referrals, subentries, aliases: false });
        }
        let there = match *aliases {
            Some((at, any)) if at == lsn => any,
            Some(_) | None => aliases::any(view)?,
        };
        *aliases = Some((lsn, there));
        Ok(SearchView { view, referrals, subentries, aliases: there })
    }
}

/// RFC 4511 §4.1.1: broken structure ends the session with a notice of disconnection; where only
/// the content of a known request is at fault, that request is answered, and more may follow.
fn refuse_undecodable(failure: &DecodeFailure, sink: &mut ResponseSink<'_>) -> Next {
    let diagnostic = failure.error.to_string();
    let kind = sink.operation().and_then(OperationKind::answered_by);
    match (failure.id, kind, code_of_content(failure.error.reason)) {
        (Some(_), Some(_), Some(code)) => {
            Next::Answered(sink.end(Refusal::new(code, diagnostic), Controls::EMPTY))
        }
        _ => {
            let refusal = Refusal::new(ResultCode::ProtocolError, diagnostic);
            Next::Close(sink.notice_of_disconnection(refusal))
        }
    }
}

/// What a message is answered that was well framed and whose content is not acceptable.
fn code_of_content(reason: DecodeReason) -> Option<ResultCode> {
    match reason {
        // Nothing is wrong with it but its size.
        DecodeReason::TooDeep
        | DecodeReason::TooManyTerms
        | DecodeReason::TooManyControls
        | DecodeReason::TooManyAttributes
        | DecodeReason::TooManyModifications => Some(ResultCode::AdminLimitExceeded),
        DecodeReason::BadUtf8
        | DecodeReason::OutOfRange
        | DecodeReason::EmptyList
        | DecodeReason::SubstringOrder
        | DecodeReason::EmptySubstring
        | DecodeReason::EmptyMatchingRule
        | DecodeReason::NameTooLong => Some(ResultCode::ProtocolError),
        DecodeReason::Truncated
        | DecodeReason::IndefiniteLength
        | DecodeReason::LengthTooLong
        | DecodeReason::MessageTooLong
        | DecodeReason::HighTagNumber
        | DecodeReason::UnexpectedTag(_)
        | DecodeReason::BadBoolean
        | DecodeReason::BadInteger
        | DecodeReason::BadNull
        | DecodeReason::TrailingBytes => None,
    }
}
