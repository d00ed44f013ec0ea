//! The outcome of one operation as a value: what logs, metrics and throttles read.
//!
//! Invariant: it says what the response says: whatever encodes a response makes it.

use std::borrow::Cow;

use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use crate::bind::failure::BindFailure;
use crate::password_policy::PolicyError;

/// What became of one message of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Completion {
    /// Which request it is; 0 where the message has no id that can be read.
    pub id: MessageId,
    /// What it asked for; none where the message is no request.
    pub operation: Option<OperationKind>,
    /// The result code of the response; none where there is no response.
    pub code: Option<ResultCode>,
    /// The diagnostic message of the response; empty where it says nothing.
    pub diagnostic: Cow<'static, str>,
    /// What the password policy had against it, asked for by the client or not.
    pub policy: Option<PolicyError>,
    /// What a bind failed for, which the client is not told.
    pub failure: Option<BindFailure>,
    /// Who the client of a SASL bind says it is, where it has said so.
    pub claimed: Option<Box<str>>,
    /// SearchResultEntry messages.
    pub entries: u32,
    /// SearchResultReference messages.
    pub references: u32,
    /// Candidates that a search looked at.
    pub candidates: u64,
    /// No index helped, whether the search was carried out or refused for it.
    pub is_unindexed: bool,
    /// A change of a password sent an old one that is not right.
    pub is_wrong_guess: bool,
    /// Bytes of all messages that were sent for it.
    pub bytes: u64,
}

impl Completion {
    /// That of a message which nothing answers yet.
    pub(crate) fn of(id: MessageId, operation: Option<OperationKind>) -> Self {
        Self {
            id,
            operation,
            code: None,
            diagnostic: Cow::Borrowed(""),
            policy: None,
            failure: None,
            claimed: None,
            entries: 0,
            references: 0,
            candidates: 0,
            is_unindexed: false,
            is_wrong_guess: false,
            bytes: 0,
        }
    }

    /// Whether it is a bind that was refused for what proves who the client is.
    pub fn is_failed_bind(&self) -> bool {
        self.operation == Some(OperationKind::Bind)
            && self.code == Some(ResultCode::InvalidCredentials)
    }
}

/// The response to a write.
#[derive(Debug)]
#[must_use]
pub struct WriteDone {
    /// What is to be sent; nothing where the request was abandoned.
    pub bytes: Vec<u8>,
    /// What it says.
    pub completion: Completion,
}
