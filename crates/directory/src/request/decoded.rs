//! The request of a job: a copy of its message, and what that says.
//!
//! Invariant: the copy is decoded when the job is first run, and what it says is kept while the job
//! is parked, as long as there is room for it (`Limits::parked_max_bytes`). Without room only the
//! copy is kept, and decoded again.

use ldap::filter::Filter;
use ldap::message::Request;
use self_cell::self_cell;

use crate::read::search::budget::{Budget, Held};
use crate::request::controls::request::RequestControls;
use crate::request::refusal::Refusal;

/// What a message asks for.
pub(crate) struct RequestParts<'m> {
    pub(crate) op: Request<'m>,
    pub(crate) controls: RequestControls<'m>,
}

self_cell!(
    struct MessageCell {
        owner: Vec<u8>,
        #[covariant]
        dependent: RequestParts,
    }
);

/// A request with the message that it borrows from.
pub(crate) struct DecodedRequest {
    cell: MessageCell,
    /// The room that it takes while its job is parked, from the first time on.
    held: Option<Held>,
}

/// The request of a job that is not run now.
pub(crate) enum JobRequest {
    /// The message.
    Encoded(Vec<u8>),
    /// The message, decoded.
    Decoded(DecodedRequest),
}

impl Default for JobRequest {
    fn default() -> Self {
        Self::Encoded(Vec::new())
    }
}

impl JobRequest {
    /// The copy of a message.
    pub(crate) fn copy(message: &[u8]) -> Self {
        Self::Encoded(message.to_vec())
    }

    /// Bytes of the message.
    pub(crate) fn message_bytes(&self) -> usize {
        match self {
            Self::Encoded(message) => message.len(),
            Self::Decoded(request) => request.cell.borrow_owner().len(),
        }
    }

    /// The request, which `decode` reads from the message unless it was read before.
    pub(crate) fn decoded(
        self,
        decode: impl for<'m> FnOnce(&'m [u8]) -> Result<RequestParts<'m>, Refusal>,
    ) -> Result<DecodedRequest, Refusal> {
        match self {
            Self::Encoded(message) => {
                let cell = MessageCell::try_new(message, |message| decode(message))?;
                Ok(DecodedRequest { cell, held: None })
            }
            Self::Decoded(request) => Ok(request),
        }
    }
}

impl DecodedRequest {
    /// What is asked for.
    pub(crate) fn parts(&self) -> &RequestParts<'_> {
        self.cell.borrow_dependent()
    }

    /// The same for a job that parks: decoded, where the budget has room for that. `terms` are
    /// those of its filters; `max` is what all may take.
    pub(crate) fn kept(mut self, terms: u64, budget: &Budget, max: usize) -> JobRequest {
        if self.held.is_none() {
            let terms = usize::try_from(terms).unwrap_or(usize::MAX);
            self.held = budget.hold(terms.saturating_mul(BYTES_OF_TERM), max);
        }
        match self.held {
            Some(_) => JobRequest::Decoded(self),
            None => JobRequest::Encoded(self.cell.into_owner()),
        }
    }
}

/// What a term of a filter takes, decoded: lists of them may be half empty.
const BYTES_OF_TERM: usize = 2 * size_of::<Filter<'_>>();
