//! Where a connection comes from, and the waits of its binds.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ldap::ber::{Reader, Tag};
use ldap::result::ResultCode;
use tokio::time::{Sleep, sleep};

use crate::addresses::{Addresses, Admission, Place, Source};
use crate::log::told;

/// The address of a client, what is counted of it, and whether its next bind has to wait.
pub(crate) struct Origin {
    address: Option<IpAddr>,
    place: Option<Place>,
    /// Runs while a bind waits for its turn.
    wait: Option<Pin<Box<Sleep>>>,
    /// The bind that comes next has waited.
    has_waited: bool,
    /// What the last bind is counted for.
    source: Option<Source>,
}

/// Whether a message may be handled.
pub(super) enum Turn {
    Now,
    /// [`Origin::poll_wait`] says when.
    Later,
    /// Not at all: too many wait.
    Never,
}

impl Origin {
    pub(crate) fn new(address: Option<IpAddr>, place: Option<Place>) -> Self {
        Self { address, place, wait: None, has_waited: false, source: None }
    }

    /// Whether a message has to wait: a bind, of an address whose binds fail.
    pub(super) fn turn(
        &mut self,
        message: &[u8],
        addresses: &Addresses,
        now: impl Fn() -> Duration,
    ) -> Turn {
        if tag(message) != Some(BIND) || std::mem::take(&mut self.has_waited) {
            return Turn::Now;
        }
        self.source = addresses.source(self.address, message);
        match addresses.admit_bind(self.source, now()) {
            Admission::Now => Turn::Now,
            Admission::After(wait) => {
                self.wait = Some(Box::pin(sleep(wait)));
                Turn::Later
            }
            Admission::Never => Turn::Never,
        }
    }

    /// Whether a message waits for its turn.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// `Ready` when nothing waits any more.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wait) = &mut self.wait else { return Poll::Pending };
        let waited = wait.as_mut().poll(cx);
        if waited.is_ready() {
            (self.wait, self.has_waited) = (None, true);
        }
        waited
    }

    /// What a client was told; a bind that failed counts. So does one that found no room in the
    /// hash pool: a password that is right and quick to verify would have needed none.
    pub(super) fn told(&self, answer: &[u8], addresses: &Addresses, now: impl Fn() -> Duration) {
        let counts = [ResultCode::InvalidCredentials, ResultCode::Busy];
        if tag(answer) == Some(BIND_RESPONSE)
            && counts.iter().any(|code| told(answer).code == Some(code.code()))
        {
            addresses.bind_failed(self.source, now());
        }
    }

    /// The client has not waited for the answer to its bind. That counts as one that failed: a
    /// password that is right and quick to verify would have been answered before.
    pub(super) fn hung_up(&self, addresses: &Addresses, now: Duration) {
        addresses.bind_failed(self.source, now);
    }

    /// The connection is gone.
    pub(super) fn leave(&mut self, addresses: &Addresses) {
        addresses.disconnect(self.place.take());
    }
}

/// The tag of a message's operation.
fn tag(message: &[u8]) -> Option<Tag> {
    let mut fields = Reader::new(message).sequence(Tag::SEQUENCE).ok()?;
    fields.read(Tag::INTEGER).ok()?;
    fields.peek_tag()
}

const BIND: Tag = Tag::application(0, true);
const BIND_RESPONSE: Tag = Tag::application(1, true);
