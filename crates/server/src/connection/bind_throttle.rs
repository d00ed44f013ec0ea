//! The throttle of a connection: its guesses at passwords wait when those of its address failed.
//! A guess is a bind, or a change of a password that sends the old one.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ldap::ber::{Reader, Tag};
use ldap::result::ResultCode;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use crate::limits::client_addresses::{
    Admission, ClientAddresses, CountedConnection, Seen, Source, Ticket,
};
use crate::log::summarize;

/// The address of a client, what is counted of it, and whether its next guess has to wait.
pub(crate) struct BindThrottle {
    address: Option<IpAddr>,
    counted: Option<CountedConnection>,
    wait: Option<Wait>,
    /// The guess that comes next has waited.
    waited: Option<Waited>,
    /// What the last guess is counted for.
    source: Option<Source>,
    /// The last message that was handled is a guess.
    is_guess: bool,
    /// That one is counted as under way.
    ticket: Option<Ticket>,
}

/// What a guess waits for.
enum Wait {
    Delay(Pin<Box<Sleep>>, Seen),
    /// It may have waited for a delay before.
    Ticket(oneshot::Receiver<Option<Ticket>>, Option<Seen>),
}

/// What a guess has waited for.
enum Waited {
    Delay(Seen),
    Ticket(Ticket),
}

/// Whether a message may be handled.
pub(super) enum Decision {
    Now,
    /// [`BindThrottle::poll_wait`] says when.
    Later,
    /// Not at all: too many wait.
    Never,
}

impl BindThrottle {
    pub(crate) fn new(address: Option<IpAddr>, counted: Option<CountedConnection>) -> Self {
        Self {
            address,
            counted,
            wait: None,
            waited: None,
            source: None,
            is_guess: false,
            ticket: None,
        }
    }

    /// Whether a message has to wait: one that sends a password, of an address whose binds fail.
    /// `account` says whose password that is.
    pub(super) fn throttle(
        &mut self,
        message: &[u8],
        addresses: &ClientAddresses,
        (now, account): (impl Fn() -> Duration, impl FnOnce() -> Option<Vec<u8>>),
    ) -> Decision {
        self.is_guess = is_guess(message);
        if !self.is_guess {
            return Decision::Now;
        }
        let waited = self.waited.take();
        let seen = match &waited {
            Some(Waited::Delay(seen)) => Some(*seen),
            Some(Waited::Ticket(_)) | None => None,
        };
        let admission = match waited {
            Some(Waited::Ticket(ticket)) => Admission::Now(Some(ticket)),
            Some(Waited::Delay(seen)) => addresses.admit_waited(self.source, seen, now()),
            None => {
                self.source = addresses.source(self.address, account);
                addresses.admit_bind(self.source, now())
            }
        };
        match admission {
            Admission::Now(ticket) => {
                self.ticket = ticket;
                return Decision::Now;
            }
            Admission::After(wait, seen) => {
                self.wait = Some(Wait::Delay(Box::pin(sleep(wait)), seen));
            }
            Admission::WhenGiven(given) => self.wait = Some(Wait::Ticket(given, seen)),
            Admission::Never => return Decision::Never,
        }
        Decision::Later
    }

    /// Whether a message waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// `Ready` when nothing waits any more.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waited = match &mut self.wait {
            None => return Poll::Pending,
            Some(Wait::Delay(sleep, seen)) => {
                ready!(sleep.as_mut().poll(cx));
                Some(Waited::Delay(*seen))
            }
            Some(Wait::Ticket(given, seen)) => {
                let ticket = ready!(Pin::new(given).poll(cx)).ok().flatten();
                ticket.map(Waited::Ticket).or(seen.map(Waited::Delay))
            }
        };
        (self.wait, self.waited) = (None, waited);
        Poll::Ready(())
    }

    /// The message that was handled waits for a hash: a guess counts from now on.
    pub(super) fn begins(&mut self, addresses: &ClientAddresses, now: impl Fn() -> Duration) {
        if self.is_guess && self.ticket.is_none() {
            self.ticket = addresses.begin(self.source, now());
        }
    }

    /// A response was made; a bind that failed counts. So does one that found no room in the
    /// hash pool: a password that is right and quick to verify would have needed none.
    pub(super) fn answered(
        &mut self,
        answer: &[u8],
        addresses: &ClientAddresses,
        now: impl Fn() -> Duration,
    ) {
        let counts = [ResultCode::InvalidCredentials, ResultCode::Busy];
        let has_failed = tag(answer) == Some(BIND_RESPONSE)
            && counts.iter().any(|code| summarize(answer).code == Some(code.code()));
        self.ends(has_failed, addresses, now);
    }

    /// The message that was handled is done with, as far as passwords go.
    pub(super) fn ends(
        &mut self,
        has_failed: bool,
        addresses: &ClientAddresses,
        now: impl Fn() -> Duration,
    ) {
        match self.ticket.take() {
            Some(ticket) => addresses.end(ticket, has_failed, now()),
            None if has_failed => addresses.bind_failed(self.source, now()),
            None => {}
        }
    }

    /// The client has not waited for the answer to its bind. That counts as one that failed: a
    /// password that is right and quick to verify would have been answered before.
    pub(super) fn hung_up(&mut self, addresses: &ClientAddresses, now: Duration) {
        self.ends(true, addresses, || now);
    }

    /// The connection is gone.
    pub(crate) fn leave(&mut self, addresses: &ClientAddresses, now: impl Fn() -> Duration) {
        self.ends(false, addresses, &now);
        let given = match (self.wait.take(), self.waited.take()) {
            (Some(Wait::Ticket(mut given, _)), _) => {
                given.close();
                given.try_recv().ok().flatten()
            }
            (_, Some(Waited::Ticket(ticket))) => Some(ticket),
            (_, Some(Waited::Delay(_)) | None) => None,
        };
        if let Some(ticket) = given {
            addresses.end(ticket, false, now());
        }
        addresses.disconnect(self.counted.take());
    }
}

/// Whether a message sends a password that may be wrong.
fn is_guess(message: &[u8]) -> bool {
    match tag(message) {
        Some(BIND) => true,
        Some(EXTENDED | MODIFY) => directory::guesses_password(message),
        Some(_) | None => false,
    }
}

/// The tag of a message's operation.
fn tag(message: &[u8]) -> Option<Tag> {
    let mut fields = Reader::new(message).sequence(Tag::SEQUENCE).ok()?;
    fields.read(Tag::INTEGER).ok()?;
    fields.peek_tag()
}

const BIND: Tag = Tag::application(0, true);
const MODIFY: Tag = Tag::application(6, true);
const EXTENDED: Tag = Tag::application(23, true);
const BIND_RESPONSE: Tag = Tag::application(1, true);
