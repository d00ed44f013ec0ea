//! Work that is too long for the thread that reads requests: large searches.

use std::fmt;
use std::sync::Arc;

use aci::Access;
use ldap::message::MessageId;

use crate::note::Noted;
use crate::stop::Stop;

/// A request to be carried out by a pool thread. It holds its own copy of the message, because the
/// read buffer is needed for the next one.
pub struct Job {
    pub(crate) id: MessageId,
    pub(crate) message: Vec<u8>,
    pub(crate) access: Arc<Access>,
    /// Controls of the request that the asker may not use.
    pub(crate) denied: Vec<&'static str>,
    pub(crate) stop: Stop,
}

impl Job {
    /// Which request it is.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// What tells that the job has to stop; for whoever waits on its behalf.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }
}

// The message may hold a password.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("message_bytes", &self.message.len())
            .finish_non_exhaustive()
    }
}

/// What the connection must know when a job is over; give it to `Session::finish`.
#[derive(Debug)]
#[must_use]
pub struct JobDone {
    pub(crate) id: MessageId,
    pub(crate) noted: Noted,
    pub(crate) end: Vec<u8>,
}

impl JobDone {
    /// Which request it was.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// What was noted of it.
    pub fn noted(&self) -> Noted {
        self.noted
    }

    /// The end of its answer, with the result. It comes with the word that the job is over: a
    /// client that has it may use the message id again at once (RFC 4511 §4.1.1.1).
    pub fn take_end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.end)
    }
}
