//! Where responses are encoded. An entry leaves only as a `VisibleEntry`.
//!
//! Invariant: what encodes the end of a response makes its [`Completion`], so neither can say
//! otherwise than the other.

use aci::{VisibleAttribute, VisibleEntry};
use ldap::encode::{self, EntryWriter};
use ldap::message::{
    Controls, LdapResult, Message, MessageId, OperationKind, Response, ResponseKind, StringsBuf,
};
use ldap::result::ResultCode;
use schema::{AttributeDescription, EntryId};

use crate::request::completion::Completion;
use crate::request::large_entry::{LargeEntry, LargeFailure, LargeMessage};
use crate::request::note::Note;
use crate::request::refusal::Refusal;

/// Whether the receiver wants more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Flow {
    /// Go on.
    Continue,
    /// The receiver has taken this, and has no room for more: the search may give up its thread
    /// (see `Ran::Parked`). It may as well go on; then the next chunk waits.
    Park,
    /// The receiver is gone, full, or asked to stop.
    Stop,
}

/// A part of the response to a search: whole messages, without the last one; or a part of a message
/// that is too long to be held.
#[derive(Debug, Default)]
pub struct Part {
    /// What is to be sent.
    pub bytes: Vec<u8>,
    /// SearchResultEntry messages in it.
    pub entries: u32,
    /// SearchResultReference messages in it.
    pub references: u32,
    /// Its last message goes on in the next part: nothing else may come between.
    pub is_open: bool,
}

/// What takes the response to a search on a pool thread.
pub trait Receiver {
    /// Takes a filled part; may block, which is the back-pressure.
    fn take(&mut self, part: Part) -> Flow;

    /// Whether the search is to give its thread to others who wait for one; asked about once a
    /// millisecond.
    fn should_yield(&mut self) -> bool {
        false
    }

    /// Later requests of the connection may overtake the search, if they could not (see
    /// `Job::keeps_order`).
    fn release(&mut self) {}
}

impl<F: FnMut(Part) -> Flow> Receiver for F {
    fn take(&mut self, part: Part) -> Flow {
        self(part)
    }
}

/// The response to one request, encoded as it comes.
pub(crate) struct ResponseSink<'b> {
    out: &'b mut Vec<u8>,
    /// Where the response begins in `out`.
    start: usize,
    types_only: bool,
    capacity: Capacity<'b>,
    /// The outcome so far; its bytes are those that were handed on.
    completion: Completion,
    /// Entries and references in `out`.
    entries: u32,
    references: u32,
    /// An entry that is to be sent in parts, after what is in `out`.
    large: Option<Box<LargeEntry>>,
    /// One that waits for its turn to be.
    deferred: Option<EntryId>,
}

/// How far an entry was sent that is sent in parts.
pub(crate) enum Streamed {
    /// To its end.
    Whole,
    /// The receiver has no room for the rest, or others wait for the thread.
    Parked,
    /// The receiver is gone.
    Stopped,
    /// The rest cannot be had: the message can never be completed.
    Failed(LargeFailure),
}

enum Capacity<'b> {
    /// Everything stays in `out`; beyond the limit, in bytes, a search is started again on the scan
    /// pool.
    Bounded { limit: usize },
    /// Full parts are handed on.
    Flushed { chunk: usize, keeps_order: bool, receiver: &'b mut dyn Receiver },
}

impl<'b> ResponseSink<'b> {
    /// A sink that keeps the response to this request in `out`.
    pub(crate) fn new(
        out: &'b mut Vec<u8>,
        id: MessageId,
        operation: Option<OperationKind>,
    ) -> Self {
        let capacity = Capacity::Bounded { limit: usize::MAX };
        Self::with(out, Completion::of(id, operation), capacity)
    }

    /// A sink that hands on parts of about `chunk_bytes`, after what `so_far` says was sent.
    pub(crate) fn flushed(
        out: &'b mut Vec<u8>,
        so_far: Completion,
        chunk_bytes: usize,
        receiver: &'b mut dyn Receiver,
    ) -> Self {
        let capacity = Capacity::Flushed { chunk: chunk_bytes, keeps_order: false, receiver };
        Self::with(out, so_far, capacity)
    }

    /// Later requests must not overtake this one, until it is released.
    pub(crate) fn keep_order(&mut self) {
        if let Capacity::Flushed { keeps_order, .. } = &mut self.capacity {
            *keeps_order = true;
        }
    }

    /// Whether that is still so.
    pub(crate) fn keeps_order(&self) -> bool {
        matches!(self.capacity, Capacity::Flushed { keeps_order: true, .. })
    }

    /// Later requests may overtake this one from now on.
    pub(crate) fn release(&mut self) {
        if let Capacity::Flushed { keeps_order, receiver, .. } = &mut self.capacity
            && std::mem::take(keeps_order)
        {
            receiver.release();
        }
    }

    fn with(out: &'b mut Vec<u8>, completion: Completion, capacity: Capacity<'b>) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            types_only: false,
            capacity,
            completion,
            entries: 0,
            references: 0,
            large: None,
            deferred: None,
        }
    }

    /// Keeps at most `limit_bytes` of entries in the buffer, where they are kept there.
    pub(crate) fn limit(&mut self, limit_bytes: usize) {
        if let Capacity::Bounded { limit } = &mut self.capacity {
            *limit = limit_bytes;
        }
    }

    /// Leaves values out of the entries that follow (RFC 4511 §4.5.1.6).
    pub(crate) fn set_types_only(&mut self, types_only: bool) {
        self.types_only = types_only;
    }

    /// One SearchResultEntry (RFC 4511 §4.5.2).
    pub(crate) fn entry(&mut self, entry: &VisibleEntry<'_>) -> Flow {
        self.entry_with(entry, Controls::EMPTY)
    }

    /// One SearchResultEntry, with controls of its own.
    pub(crate) fn entry_with(&mut self, entry: &VisibleEntry<'_>, controls: Controls<'_>) -> Flow {
        let types_only = self.types_only;
        let mut writer = EntryWriter::begin(self.out, self.completion.id, entry.dn());
        entry.visit(&mut |description, values| {
            if types_only {
                writer.attribute_types_only(description);
            } else {
                writer.attribute(description, values);
            }
        });
        writer.finish(controls);
        self.entries += 1;
        self.flow()
    }

    /// One SearchResultEntry without values, which are not even put together where `is_long` is
    /// true of an attribute.
    pub(crate) fn entry_types(
        &mut self,
        entry: &VisibleEntry<'_>,
        controls: Controls<'_>,
        is_long: &dyn Fn(&AttributeDescription) -> bool,
    ) -> Flow {
        let mut writer = EntryWriter::begin(self.out, self.completion.id, entry.dn());
        entry.visit_in_parts(is_long, &mut |attribute| match attribute {
            VisibleAttribute::Whole(description, _) => writer.attribute_types_only(description),
            VisibleAttribute::InParts(description) => {
                writer.attribute_types_only(description.text());
            }
        });
        writer.finish(controls);
        self.entries += 1;
        self.flow()
    }

    /// The message that a response is to.
    pub(crate) fn id(&self) -> MessageId {
        self.completion.id
    }

    /// The next SearchResultEntry is sent in parts: the search parks before, and whoever has run it
    /// sends them.
    pub(crate) fn large_entry(&mut self, entry: LargeEntry) -> Flow {
        self.large = Some(Box::new(entry));
        Flow::Park
    }

    /// Whether the search has parked for such an entry.
    pub(crate) fn is_large(&self) -> bool {
        self.large.is_some()
    }

    /// Takes an entry that is to be sent in parts, if the search has parked for one.
    pub(crate) fn take_large(&mut self) -> Option<LargeEntry> {
        self.large.take().map(|large| *large)
    }

    /// The next SearchResultEntry is to be sent in parts, but it is not its turn: the search parks,
    /// and sends it when it goes on. Later requests may overtake it: the asker may read what brings
    /// it to the pool.
    pub(crate) fn defer(&mut self, id: EntryId) -> Flow {
        self.release();
        self.deferred = Some(id);
        self.hand_on_all()
    }

    /// Takes the entry that the search has parked before, if it is not its turn.
    pub(crate) fn take_deferred(&mut self) -> Option<EntryId> {
        self.deferred.take()
    }

    /// Sends the next parts of an entry.
    pub(crate) fn stream(&mut self, large: &mut LargeMessage) -> Streamed {
        let Capacity::Flushed { chunk, .. } = self.capacity else { return Streamed::Stopped };
        loop {
            let is_open = match large.fill(self.out, chunk) {
                Ok(is_open) => is_open,
                Err(failure) => return Streamed::Failed(failure),
            };
            self.entries += u32::from(!is_open);
            match self.hand_on_part(is_open) {
                Flow::Stop => return Streamed::Stopped,
                Flow::Continue | Flow::Park if !is_open => return Streamed::Whole,
                Flow::Park => return Streamed::Parked,
                Flow::Continue if self.should_yield() => return Streamed::Parked,
                Flow::Continue => {}
            }
        }
    }

    /// Whether the search is to give its thread to others.
    pub(crate) fn should_yield(&mut self) -> bool {
        match &mut self.capacity {
            Capacity::Flushed { receiver, .. } => receiver.should_yield(),
            Capacity::Bounded { .. } => false,
        }
    }

    /// More to come before the end (RFC 4511 §4.13).
    pub(crate) fn intermediate(&mut self, oid: &'static str, value: &[u8]) -> Flow {
        let op = Response::Intermediate { oid: Some(oid), value: Some(value) };
        self.message(op, Controls::EMPTY);
        self.flow()
    }

    /// One SearchResultReference (RFC 4511 §4.5.3).
    pub(crate) fn reference(&mut self, urls: &[String]) -> Flow {
        let mut list = StringsBuf::new();
        for url in urls {
            list.push(url);
        }
        self.message(Response::SearchReference(list.as_ref()), Controls::EMPTY);
        self.references += 1;
        self.flow()
    }

    /// Whether an entry or a reference was sent.
    pub(crate) fn has_sent(&self) -> bool {
        let Completion { entries, references, .. } = self.completion;
        self.entries + self.references + entries + references > 0
    }

    /// The end of a response that has nothing but a result.
    pub(crate) fn end(&mut self, result: Refusal, controls: Controls<'_>) -> Completion {
        let kind = self.completion.operation.and_then(OperationKind::answered_by);
        if let Some(kind) = kind {
            let mut urls = StringsBuf::new();
            let id = self.completion.id;
            encode::result(self.out, id, kind, &result.to_result(&mut urls), controls);
        }
        self.ended(kind, result)
    }

    /// The end of a bind that is not refused, with the server's part of a SASL exchange.
    pub(crate) fn bind(
        &mut self,
        code: ResultCode,
        server_sasl_credentials: Option<&[u8]>,
        controls: Controls<'_>,
    ) -> Completion {
        let result = LdapResult::new(code);
        self.message(Response::Bind { result, server_sasl_credentials }, controls);
        self.ended(Some(ResponseKind::Bind), Refusal::new(code, ""))
    }

    /// The end of an extended operation that was carried out.
    pub(crate) fn extended(&mut self, oid: Option<&str>, value: Option<&[u8]>) -> Completion {
        self.extended_with(Refusal::new(ResultCode::Success, ""), oid, value, Controls::EMPTY)
    }

    /// The end of an extended operation, with its name and value.
    pub(crate) fn extended_with(
        &mut self,
        result: Refusal,
        oid: Option<&str>,
        value: Option<&[u8]>,
        controls: Controls<'_>,
    ) -> Completion {
        let mut urls = StringsBuf::new();
        let op = Response::Extended { result: result.to_result(&mut urls), oid, value };
        self.message(op, controls);
        self.ended(Some(ResponseKind::Extended), result)
    }

    /// A notice that a transaction is given up (RFC 5805 §2.4): it answers no request.
    pub(crate) fn aborted_transaction(&mut self, identifier: &[u8], code: ResultCode, why: &str) {
        encode::aborted_transaction(self.out, identifier, code, why);
    }

    /// The notice that ends a session (RFC 4511 §4.4.1): all that is said to the message at hand.
    pub(crate) fn notice_of_disconnection(&mut self, result: Refusal) -> Completion {
        encode::notice_of_disconnection(self.out, result.code, &result.diagnostic);
        self.ended(Some(ResponseKind::Extended), result)
    }

    /// The outcome of what has no response: by the protocol, or because nobody waits for it.
    pub(crate) fn nothing(&mut self) -> Completion {
        self.ended(None, Refusal::new(ResultCode::Success, ""))
    }

    /// Takes what a search has noted.
    pub(crate) fn note(&mut self, note: &Note) {
        note.add_to(&mut self.completion);
    }

    /// What was noted so far, of a search that goes on.
    pub(crate) fn noted(&self) -> Note {
        Note::resume(&self.completion)
    }

    /// What is answered here.
    pub(crate) fn operation(&self) -> Option<OperationKind> {
        self.completion.operation
    }

    fn message(&mut self, op: Response<'_>, controls: Controls<'_>) {
        Message { id: self.completion.id, op, controls }.encode(self.out);
    }

    /// The outcome of the operation, as it was encoded.
    fn ended(&mut self, kind: Option<ResponseKind>, result: Refusal) -> Completion {
        let Completion { id, operation, entries, references, bytes, .. } = self.completion;
        let Completion { candidates, is_unindexed, .. } = self.completion;
        let Refusal { code, diagnostic, policy, failure, .. } = result;
        Completion {
            code: kind.map(|_| code),
            diagnostic,
            policy,
            failure,
            entries: entries + self.entries,
            references: references + self.references,
            bytes: bytes + (self.out.len() - self.start) as u64,
            candidates,
            is_unindexed,
            ..Completion::of(id, operation)
        }
    }

    /// Takes back what was written for this request and is not handed on yet.
    pub(crate) fn take_back(&mut self) {
        self.out.truncate(self.start);
        (self.entries, self.references) = (0, 0);
    }

    /// Whether the search is to give its thread to others; then what it has so far is on its way.
    pub(crate) fn turn(&mut self) -> Flow {
        let Capacity::Flushed { receiver, .. } = &mut self.capacity else {
            return Flow::Continue;
        };
        if !receiver.should_yield() {
            return Flow::Continue;
        }
        self.hand_on_all()
    }

    /// Hands on what there is, of a search that parks.
    pub(crate) fn hand_on_all(&mut self) -> Flow {
        if self.out.is_empty() {
            return Flow::Park;
        }
        match self.hand_on() {
            Flow::Continue | Flow::Park => Flow::Park,
            Flow::Stop => Flow::Stop,
        }
    }

    fn flow(&mut self) -> Flow {
        match &self.capacity {
            Capacity::Bounded { limit } if self.out.len() - self.start > *limit => Flow::Stop,
            Capacity::Flushed { chunk, .. } if self.out.len() >= *chunk => self.hand_on(),
            Capacity::Bounded { .. } | Capacity::Flushed { .. } => Flow::Continue,
        }
    }

    /// Hands on what there is.
    fn hand_on(&mut self) -> Flow {
        self.hand_on_part(false)
    }

    fn hand_on_part(&mut self, is_open: bool) -> Flow {
        let Capacity::Flushed { receiver, .. } = &mut self.capacity else {
            return Flow::Continue;
        };
        let bytes = std::mem::take(self.out);
        let entries = std::mem::take(&mut self.entries);
        let references = std::mem::take(&mut self.references);
        let so_far = &mut self.completion;
        so_far.entries += entries;
        so_far.references += references;
        so_far.bytes += bytes.len() as u64;
        receiver.take(Part { bytes, entries, references, is_open })
    }

    /// How many bytes were handed on.
    pub(crate) fn handed_on(&self) -> u64 {
        self.completion.bytes
    }

    /// What was handed on, of a search that parks.
    pub(crate) fn parked(&self) -> Completion {
        debug_assert!(self.out.is_empty(), "a search parks when all it has was taken");
        self.completion.clone()
    }
}

/// Refuses a request that was not begun, or goes no further.
pub(crate) fn refuse(
    out: &mut Vec<u8>,
    id: MessageId,
    operation: Option<OperationKind>,
    refusal: Refusal,
) -> Completion {
    ResponseSink::new(out, id, operation).end(refusal, Controls::EMPTY)
}

/// Appends the notice of disconnection (RFC 4511 §4.4.1): all that is said to the message at hand.
pub fn disconnect(
    out: &mut Vec<u8>,
    id: MessageId,
    operation: Option<OperationKind>,
    code: ResultCode,
    diagnostic: &'static str,
) -> Completion {
    let refusal = Refusal::new(code, diagnostic);
    ResponseSink::new(out, id, operation).notice_of_disconnection(refusal)
}
