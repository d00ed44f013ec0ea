//! How a request under way is given up: abandoned without an answer, or by Cancel (RFC 3909) with
//! one. The operation Cancel itself is in `extended.rs`.
//!
//! Invariant: what was told to be canceled is answered so, and what was decided is not canceled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ldap::ber::{DecodeError, Reader, Tag};
use ldap::message::{ExtendedRequest, MessageId};
use ldap::result::ResultCode;

/// The OID of Cancel.
pub(crate) const OID: &str = "1.3.6.1.1.8";

/// Which request is to be canceled, when it is a Cancel that is well formed.
pub(crate) fn target(request: &ExtendedRequest<'_>) -> Option<MessageId> {
    read(request.value.filter(|_| request.oid == OID)?).ok()
}

/// The value of a Cancel: `SEQUENCE { cancelID MessageID }`.
pub(crate) fn read(value: &[u8]) -> Result<MessageId, DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    let id = sequence.integer_i32(Tag::INTEGER)?;
    sequence.end()?;
    outer.end()?;
    Ok(MessageId(id))
}

/// Says to whoever works on a request that nobody waits for it any more, or that it is to be
/// answered `canceled`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicU8>);

/// How a request may end that was going on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// By its own answer.
    Own,
    /// Without one.
    Abandoned,
    /// By the answer `canceled`.
    Canceled,
}

impl Cancel {
    pub(crate) fn set(&self) {
        self.0.fetch_or(ABANDONED, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (ABANDONED | CANCELED) != 0
    }

    /// From here on it is not canceled any more: its answer is made, or it is carried out.
    pub(crate) fn decide(&self) -> Ending {
        let before = self.0.fetch_or(DECIDED, Ordering::Relaxed);
        match (before & CANCELED != 0, before & ABANDONED != 0) {
            (true, _) => Ending::Canceled,
            (false, true) => Ending::Abandoned,
            (false, false) => Ending::Own,
        }
    }

    /// Whether it is too late to cancel it.
    pub(crate) fn is_decided(&self) -> bool {
        self.0.load(Ordering::Relaxed) & DECIDED != 0
    }

    /// Has it canceled.
    pub(crate) fn cancel(&self) -> Result<(), ResultCode> {
        let change = |was: u8| (was == 0).then_some(CANCELED);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change) {
            Ok(_) => Ok(()),
            Err(was) if was & (ABANDONED | CANCELED) != 0 => Err(ResultCode::NoSuchOperation),
            Err(_) => Err(ResultCode::TooLate),
        }
    }
}

const ABANDONED: u8 = 1;
const CANCELED: u8 = 2;
const DECIDED: u8 = 4;
