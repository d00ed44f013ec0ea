//! A message as it was received, decoded once for all who look at it.

use ldap::message::{DecodeFailure, DecodeLimits, Message, MessageId, OperationKind, Request};

/// One whole message of a client.
#[derive(Debug)]
pub struct Received<'m> {
    /// As it came.
    pub bytes: &'m [u8],
    /// What it says, or why it says nothing.
    pub message: Result<Message<'m, Request<'m>>, DecodeFailure>,
}

impl<'m> Received<'m> {
    /// Decodes a message (as `ldap::ber::frame` cut it).
    pub fn decode(bytes: &'m [u8], limits: &DecodeLimits) -> Self {
        Self { bytes, message: Message::<Request<'_>>::decode(bytes, limits) }
    }

    /// Its id, as far as it can be read.
    pub fn id(&self) -> Option<MessageId> {
        match &self.message {
            Ok(message) => Some(message.id),
            Err(failure) => failure.id,
        }
    }

    /// What it asks for, as far as it can be read.
    pub fn operation(&self) -> Option<OperationKind> {
        match &self.message {
            Ok(message) => Some(message.op.kind()),
            Err(failure) => failure.tag.and_then(OperationKind::from_tag),
        }
    }

    /// The request, where it can be read.
    pub fn request(&self) -> Option<&Request<'m>> {
        self.message.as_ref().ok().map(|message| &message.op)
    }
}

/// What identifies a request to whoever goes on with it elsewhere (RFC 4511 §4.1.1).
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'m> {
    pub(crate) id: MessageId,
    pub(crate) operation: OperationKind,
    /// The whole message.
    pub(crate) bytes: &'m [u8],
    /// The generation of the schema in force before the request was resolved, where that counts:
    /// for updates.
    pub(crate) schema_generation: Option<u64>,
}
