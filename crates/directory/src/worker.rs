//! What one thread needs to serve requests: a reader of the store, chance, scratch space.

use std::sync::Arc;

use ldap::ber::DecodeReason;
use ldap::encode;
use ldap::message::{Controls, DecodeFailure, LdapResult, Message, Request, ResponseKind};
use ldap::result::ResultCode;
use store::Reader;

use crate::chance::Chance;
use crate::directory::Directory;
use crate::dispatch;
use crate::job::{Job, JobDone};
use crate::session::Session;
use crate::sink::Flow;
use crate::write_queue::PendingWrite;

/// One thread's way into the directory.
pub struct Worker {
    pub(crate) directory: Arc<Directory>,
    pub(crate) reader: Reader,
    pub(crate) chance: Box<dyn Chance>,
}

/// What the connection has to do after a message was handled.
#[must_use]
pub enum Next {
    /// Everything to send is in the buffer; there may be nothing to send (abandon).
    Answered,
    /// Submit it; the answer comes when the change is durable.
    Write(PendingWrite),
    /// Give it to a pool thread.
    Later(Job),
    /// Send the buffer, discard what was received already, then begin the TLS handshake.
    StartTls,
    /// Send the buffer, then close.
    Close,
}

impl Worker {
    pub(crate) fn new(directory: Arc<Directory>, chance: Box<dyn Chance>) -> Self {
        let reader = directory.store.reader();
        Self { directory, reader, chance }
    }

    /// Handles one complete message (as `ldap::ber::frame` cut it) and appends to `out` what is to
    /// be sent.
    pub fn handle(&mut self, session: &mut Session, message: &[u8], out: &mut Vec<u8>) -> Next {
        match Message::<Request<'_>>::decode(message, &self.directory.decode_limits) {
            Ok(decoded) => dispatch::dispatch(self, session, &decoded, message, out),
            Err(failure) => refuse_undecodable(&failure, out),
        }
    }

    /// Carries out a job on a pool thread. `flush` takes filled chunks and says whether to go on;
    /// it may block.
    pub fn run(&mut self, job: Job, flush: &mut dyn FnMut(Vec<u8>) -> Flow) -> JobDone {
        dispatch::run(self, job, flush)
    }

    /// The thread has nothing to do: gives up its snapshot, so that old pages can be reused.
    pub fn idle(&mut self) {
        self.reader.release();
    }
}

/// RFC 4511 §4.1.1: broken structure ends the session with a notice of disconnection; where only
/// the content of a known request is at fault, that request is answered `protocolError`.
fn refuse_undecodable(failure: &DecodeFailure, out: &mut Vec<u8>) -> Next {
    let diagnostic = failure.error.to_string();
    let kind = failure.tag.and_then(ResponseKind::answering);
    match (failure.id, kind) {
        (Some(id), Some(kind)) if is_content_error(failure.error.reason) => {
            let result = LdapResult {
                diagnostic: &diagnostic,
                ..LdapResult::new(ResultCode::ProtocolError)
            };
            encode::result(out, id, kind, &result, Controls::EMPTY);
            Next::Answered
        }
        _ => {
            encode::notice_of_disconnection(out, ResultCode::ProtocolError, &diagnostic);
            Next::Close
        }
    }
}

/// Whether the message was well framed and only its content is not acceptable.
fn is_content_error(reason: DecodeReason) -> bool {
    match reason {
        DecodeReason::BadUtf8
        | DecodeReason::OutOfRange
        | DecodeReason::EmptyList
        | DecodeReason::SubstringOrder
        | DecodeReason::EmptySubstring
        | DecodeReason::EmptyMatchingRule
        | DecodeReason::TooDeep
        | DecodeReason::TooManyTerms
        | DecodeReason::TooManyControls
        | DecodeReason::NameTooLong => true,
        DecodeReason::Truncated
        | DecodeReason::IndefiniteLength
        | DecodeReason::LengthTooLong
        | DecodeReason::MessageTooLong
        | DecodeReason::HighTagNumber
        | DecodeReason::UnexpectedTag(_)
        | DecodeReason::BadBoolean
        | DecodeReason::BadInteger
        | DecodeReason::BadNull
        | DecodeReason::TrailingBytes => false,
    }
}
