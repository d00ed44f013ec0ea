//! The throttle of a connection: its guesses at passwords wait when those of its address failed.
//! A guess is a bind, or a change of a password that sends the old one.
//!
//! Guesses of one connection that are handed to another node, or wait for fresh data, go on one by
//! one, so that a client need not be refused that sends many at once.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use directory::{Completion, Received};
use ldap::message::{MessageId, OperationKind};
use tokio::time::{Sleep, sleep};

use crate::limits::client_addresses::{
    Admission, ClientAddresses, CountedConnection, HandedOn, Position, Source, Ticket,
};

/// The address of a client, what is counted of it, and whether its next guess has to wait.
pub(crate) struct BindThrottle {
    address: Option<IpAddr>,
    counted: Option<CountedConnection>,
    /// The guess that comes next has a position in line.
    position: Option<Position>,
    /// Until it is to be asked once more, if it is not called before.
    wait: Option<Pin<Box<Sleep>>>,
    /// What the last guess is counted for.
    source: Option<Source>,
    /// The last message that was handled is a guess.
    is_guess: bool,
    /// That one is counted as under way.
    ticket: Option<Ticket>,
    /// Guesses that another node looks at, or that wait until the data are fresh.
    elsewhere: Vec<Elsewhere>,
    /// The guess that comes next waits for those.
    waits_for_own: bool,
}

/// A guess that another node looks at, or that waits until the data are fresh; until it is
/// answered.
struct Elsewhere {
    id: MessageId,
    source: Option<Source>,
    counted: Option<HandedOn>,
}

/// Whether a message may be handled.
pub(super) enum Decision {
    Now,
    /// [`BindThrottle::poll_wait`] says when, or one of the connection's own is answered.
    Later,
    /// Not at all: too many wait.
    Never,
}

impl BindThrottle {
    pub(crate) fn new(address: Option<IpAddr>, counted: Option<CountedConnection>) -> Self {
        Self {
            address,
            counted,
            position: None,
            wait: None,
            source: None,
            is_guess: false,
            ticket: None,
            elsewhere: Vec::new(),
            waits_for_own: false,
        }
    }

    /// Whether a message has to wait: one that sends a password, of an address whose binds fail.
    /// `account` says whose password that is.
    pub(super) fn throttle(
        &mut self,
        received: &Received<'_>,
        addresses: &ClientAddresses,
        now: impl Fn() -> Duration,
        account: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Decision {
        self.is_guess = received.guesses_password();
        if !self.is_guess {
            return Decision::Now;
        }
        // A bind gives up what came before it, and is answered here.
        let is_bind = received.operation() == Some(OperationKind::Bind);
        self.waits_for_own = !is_bind && !self.elsewhere.is_empty();
        if self.waits_for_own {
            return Decision::Later;
        }
        let admission = match self.position.take() {
            Some(position) => {
                // Others may have gone on meanwhile.
                self.source = Some(position.source);
                addresses.admit_waited(position, now())
            }
            None => {
                self.source = addresses.source(self.address, account);
                addresses.admit_bind(self.source, now())
            }
        };
        match admission {
            Admission::Now(ticket) => {
                self.ticket = ticket;
                Decision::Now
            }
            Admission::Waits(position, wait) => {
                (self.position, self.wait) = (Some(position), Some(Box::pin(sleep(wait))));
                Decision::Later
            }
            Admission::Never => Decision::Never,
        }
    }

    /// Whether a message waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some() || (self.waits_for_own && !self.elsewhere.is_empty())
    }

    /// `Ready` when the message that waits is to be asked for once more.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (Some(sleep), Some(position)) = (&mut self.wait, &mut self.position) else {
            return Poll::Pending;
        };
        if sleep.as_mut().poll(cx).is_pending()
            && Pin::new(&mut position.called).poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        self.wait = None;
        Poll::Ready(())
    }

    /// The message that has waited cannot be handled now: nobody waits for it in line.
    pub(super) fn step_back(&mut self, addresses: &ClientAddresses, now: impl Fn() -> Duration) {
        if self.wait.is_none()
            && let Some(position) = self.position.take()
        {
            addresses.give_up(position, now());
        }
    }

    /// The message that was handled waits for a hash: a guess counts from now on.
    pub(super) fn begins(&mut self, addresses: &ClientAddresses, now: impl Fn() -> Duration) {
        if self.is_guess && self.ticket.is_none() {
            self.ticket = addresses.begin(self.source, now());
        }
    }

    /// A message was answered; a guess that failed counts.
    pub(super) fn answered(
        &mut self,
        completion: &Completion,
        addresses: &ClientAddresses,
        now: impl Fn() -> Duration,
    ) {
        let has_failed =
            completion.is_wrong_guess || (self.is_guess && completion.is_failed_bind());
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
            None if has_failed => {
                let source = match self.is_guess {
                    true => self.source,
                    // Its looks did not say so, nor whose password it was about.
                    false => addresses.source(self.address, || None),
                };
                addresses.bind_failed(source, now());
            }
            None => {}
        }
    }

    /// A message that has waited for fresh data is handled now: if it is a guess, it is the one
    /// that is under way here. No other may be.
    pub(super) fn goes_on(
        &mut self,
        id: MessageId,
        addresses: &ClientAddresses,
        now: impl Fn() -> Duration,
    ) {
        let waited = self.elsewhere.iter().position(|one| one.id == id);
        let waited = waited.map(|at| self.elsewhere.swap_remove(at));
        self.is_guess = waited.is_some();
        if let Some(Elsewhere { source, counted, .. }) = waited {
            self.source = source;
            self.ticket = counted.map(|counted| addresses.come_back(counted, now()));
        }
    }

    /// The message that was handled is to be handed to another node, or to wait: a guess is counted
    /// there until it is answered. False where too many of its source are: it may not.
    pub(super) fn hand_on(
        &mut self,
        id: MessageId,
        addresses: &ClientAddresses,
        now: impl Fn() -> Duration,
    ) -> bool {
        if self.is_guess {
            match addresses.hand_on(self.ticket.take(), self.source, now()) {
                Ok(counted) => {
                    self.elsewhere.push(Elsewhere { id, source: self.source, counted });
                }
                Err(ticket) => {
                    self.ticket = ticket;
                    return false;
                }
            }
        }
        true
    }

    /// An answer came later than its message was handled; `has_failed`, where it says that a
    /// password is wrong.
    pub(super) fn answered_later(
        &mut self,
        id: MessageId,
        has_failed: bool,
        addresses: &ClientAddresses,
        now: impl Fn() -> Duration,
    ) {
        let source = match self.elsewhere.iter().position(|one| one.id == id) {
            Some(at) => match self.elsewhere.swap_remove(at) {
                Elsewhere { counted: Some(counted), .. } => {
                    return addresses.end_elsewhere(counted, has_failed, now());
                }
                Elsewhere { source, .. } => source,
            },
            None if has_failed => addresses.source(self.address, || None),
            None => return,
        };
        if has_failed {
            addresses.bind_failed(source, now());
        }
    }

    /// The connection is gone.
    pub(crate) fn leave(&mut self, addresses: &ClientAddresses, now: impl Fn() -> Duration) {
        self.ends(false, addresses, &now);
        // Who does not wait for the answer has guessed all the same.
        for counted in self.elsewhere.drain(..).filter_map(|one| one.counted) {
            addresses.end_elsewhere(counted, true, now());
        }
        self.wait = None;
        self.step_back(addresses, now);
        addresses.disconnect(self.counted.take());
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use ldap::message::{
        Authentication, BindRequest, CompareRequest, Controls, DecodeLimits, Message, Request,
    };
    use tokio::runtime::Builder;

    use super::*;
    use crate::limits::client_addresses::AddressLimits;

    const NOW: Duration = Duration::from_secs(100);

    fn throttle(throttle: &mut BindThrottle, addresses: &ClientAddresses) -> Decision {
        let authentication = Authentication::Simple(b"secret");
        let op = Request::Bind(BindRequest { version: 3, name: "cn=anna", authentication });
        let mut bind = Vec::new();
        Message { id: MessageId(1), op, controls: Controls::EMPTY }.encode(&mut bind);
        let received = Received::decode(&bind, &DecodeLimits::default());
        throttle.throttle(&received, addresses, || NOW, || None)
    }

    fn completion(id: i32, is_wrong_guess: bool) -> Completion {
        Completion {
            id: MessageId(id),
            operation: None,
            code: None,
            diagnostic: "".into(),
            policy: None,
            failure: None,
            claimed: None,
            entries: 0,
            references: 0,
            candidates: 0,
            is_unindexed: false,
            is_wrong_guess,
            bytes: 0,
        }
    }

    #[test]
    fn who_is_called_and_cannot_go_lets_the_next_one_go() {
        let addresses = ClientAddresses::new(
            AddressLimits {
                connections_max: 0,
                bind_failures_max: 1,
                bind_delay_max: Duration::from_secs(1),
            },
            Vec::new(),
        );
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let cx = &mut Context::from_waker(Waker::noop());
            let new = || BindThrottle::new(Some(IpAddr::from([192, 0, 2, 1])), None);
            let mut hashing = [new(), new()];
            for one in &mut hashing {
                assert!(matches!(throttle(one, &addresses), Decision::Now));
                one.begins(&addresses, || NOW);
            }
            let mut line = [new(), new()];
            for one in &mut line {
                assert!(matches!(throttle(one, &addresses), Decision::Later));
                // One that waits keeps its position.
                one.step_back(&addresses, || NOW);
                assert!(one.poll_wait(cx).is_pending());
            }
            hashing[0].ends(false, &addresses, || NOW);
            let [first, next] = &mut line;
            assert!(first.poll_wait(cx).is_ready() && next.poll_wait(cx).is_pending());
            // Its client does not take the answers that were made before.
            first.step_back(&addresses, || NOW);
            assert!(next.poll_wait(cx).is_ready());
            assert!(matches!(throttle(next, &addresses), Decision::Now));
            assert!(matches!(throttle(first, &addresses), Decision::Later));
            hashing.iter_mut().chain(&mut line).for_each(|one| one.leave(&addresses, || NOW));
            assert_eq!(addresses.binds(IpAddr::from([192, 0, 2, 1])), [0, 0, 0]);
        });
    }

    /// It took the place of a bind of its address until it was answered: for as long as nobody led.
    #[test]
    fn a_guess_that_waits_is_counted_on_its_own_until_it_is_answered() {
        let addresses = ClientAddresses::new(
            AddressLimits {
                connections_max: 0,
                bind_failures_max: 4,
                bind_delay_max: Duration::from_secs(1),
            },
            Vec::new(),
        );
        let address = IpAddr::from([192, 0, 2, 1]);
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let new = || BindThrottle::new(Some(address), None);
            let [mut one, mut other] = [new(), new()];
            for id in [7, 8] {
                assert!(matches!(throttle(&mut one, &addresses), Decision::Now));
                assert!(one.hand_on(MessageId(id), &addresses, || NOW));
            }
            // Four may fail: no more than two go on.
            assert!(matches!(throttle(&mut other, &addresses), Decision::Now));
            assert!(!other.hand_on(MessageId(1), &addresses, || NOW));
            other.ends(false, &addresses, || NOW);
            // And none of them is in the way of what is looked at here.
            for _ in 0..10 {
                assert!(matches!(throttle(&mut other, &addresses), Decision::Now));
                other.begins(&addresses, || NOW);
                other.ends(false, &addresses, || NOW);
            }
            // What only looks like one that waits, since it has its number.
            one.answered(&completion(7, false), &addresses, || NOW);
            assert!(matches!(throttle(&mut other, &addresses), Decision::Now));
            assert!(!other.hand_on(MessageId(1), &addresses, || NOW));
            other.ends(false, &addresses, || NOW);
            for id in [7, 8] {
                one.goes_on(MessageId(id), &addresses, || NOW);
                // It needs a hash, too.
                one.begins(&addresses, || NOW);
                one.answered(&completion(id, false), &addresses, || NOW);
            }
            assert_eq!(addresses.binds(address), [0, 0, 0]);
            assert!(matches!(throttle(&mut one, &addresses), Decision::Now));
            assert!(one.hand_on(MessageId(9), &addresses, || NOW));
            one.goes_on(MessageId(9), &addresses, || NOW);
            one.answered(&completion(9, true), &addresses, || NOW);
            assert_eq!(addresses.binds(address), [1, 0, 0], "it was wrong");
            // Who does not wait for the answer has guessed all the same.
            assert!(matches!(throttle(&mut one, &addresses), Decision::Now));
            assert!(one.hand_on(MessageId(10), &addresses, || NOW));
            one.leave(&addresses, || NOW);
            assert_eq!(addresses.binds(address), [2, 0, 0]);
        });
    }

    /// A client that sends many at once need not be refused.
    #[test]
    fn guesses_of_one_connection_wait_for_each_other() {
        let addresses = ClientAddresses::new(
            AddressLimits {
                connections_max: 0,
                bind_failures_max: 9,
                bind_delay_max: Duration::from_secs(1),
            },
            Vec::new(),
        );
        let mut one = BindThrottle::new(Some(IpAddr::from([192, 0, 2, 1])), None);
        let mut compare = Vec::new();
        let op = Request::Compare(CompareRequest {
            name: "cn=anna",
            description: "userPassword",
            value: b"secret",
        });
        Message { id: MessageId(2), op, controls: Controls::EMPTY }.encode(&mut compare);
        let compare = Received::decode(&compare, &DecodeLimits::default());
        let comes = |one: &mut BindThrottle| one.throttle(&compare, &addresses, || NOW, || None);
        assert!(matches!(comes(&mut one), Decision::Now));
        assert!(one.hand_on(MessageId(2), &addresses, || NOW));
        assert!(matches!(comes(&mut one), Decision::Later) && one.is_waiting());
        // A bind gives up what came before it.
        assert!(matches!(throttle(&mut one, &addresses), Decision::Now) && !one.is_waiting());
        assert!(matches!(comes(&mut one), Decision::Later) && one.is_waiting());
        one.answered_later(MessageId(2), false, &addresses, || NOW);
        assert!(!one.is_waiting());
        assert!(matches!(comes(&mut one), Decision::Now));
    }

    #[test]
    fn what_is_found_to_be_a_wrong_guess_counts_whatever_its_message_looks_like() {
        let addresses = ClientAddresses::new(
            AddressLimits {
                connections_max: 0,
                bind_failures_max: 9,
                bind_delay_max: Duration::from_secs(1),
            },
            Vec::new(),
        );
        let address = IpAddr::from([192, 0, 2, 1]);
        let mut one = BindThrottle::new(Some(address), None);
        // A type of passwords that only the schema knows.
        let mut unbind = Vec::new();
        let op = Request::Unbind;
        Message { id: MessageId(2), op, controls: Controls::EMPTY }.encode(&mut unbind);
        let received = Received::decode(&unbind, &DecodeLimits::default());
        let decision = one.throttle(&received, &addresses, || NOW, || None);
        assert!(matches!(decision, Decision::Now));
        let completion = |is_wrong_guess| completion(2, is_wrong_guess);
        one.answered(&completion(false), &addresses, || NOW);
        let before = addresses.binds(address);
        one.answered(&completion(true), &addresses, || NOW);
        assert_ne!(addresses.binds(address), before);
    }
}
