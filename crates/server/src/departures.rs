//! Answers that are ready, of several connections: they are sent one right after the other.
//!
//! A worker handles what its connections have sent, and sends the answers when it has handled what
//! the kernel had told it of, or a few. Requests find the code and the data they need where the one
//! before left them, and so do answers on their way through the kernel; and a client is woken once
//! for several answers, not for each.
//!
//! Invariant: an answer waits for no more than [`COUNT_MAX`] others, nor for longer than
//! [`DELAY_MAX`] and one turn of one connection.
//! Invariant: what a connection sends itself leaves after what was handed in here for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::stream::Stream;
use crate::worker::Mailbox;

/// Whole answers of a worker's connections that are to be sent.
#[derive(Default)]
pub(crate) struct Departures {
    /// One behind the other.
    octets: RefCell<Vec<u8>>,
    list: RefCell<Vec<Departure>>,
    /// How often they were sent.
    rounds: Cell<u64>,
    oldest: Cell<Option<Instant>>,
    waker: RefCell<Option<Waker>>,
}

struct Departure {
    stream: Rc<RefCell<Stream>>,
    mailbox: Rc<Mailbox>,
    /// Where its octets end.
    end: usize,
}

/// Which of the rounds an answer leaves with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Round(u64);

impl Departures {
    /// Where answers are to be appended, before they are handed in.
    pub(crate) fn octets(&self) -> &RefCell<Vec<u8>> {
        &self.octets
    }

    /// What was appended since the last is for this connection.
    pub(crate) fn add(
        &self,
        stream: &Rc<RefCell<Stream>>,
        mailbox: &Rc<Mailbox>,
        now: Instant,
    ) -> Round {
        let end = self.octets.borrow().len();
        let mut list = self.list.borrow_mut();
        if list.is_empty() {
            self.oldest.set(Some(now));
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
        list.push(Departure { stream: Rc::clone(stream), mailbox: Rc::clone(mailbox), end });
        let round = Round(self.rounds.get());
        if list.len() >= COUNT_MAX || end >= OCTETS_MAX {
            drop(list);
            self.send();
        }
        round
    }

    /// Sends what has waited for long.
    pub(crate) fn send_old(&self, now: Instant) {
        if self.oldest.get().is_some_and(|oldest| now.saturating_duration_since(oldest) > DELAY_MAX)
        {
            self.send();
        }
    }

    /// Sends what is to leave with `round`, and with it all there is.
    pub(crate) fn send_round(&self, round: Round) {
        if self.rounds.get() == round.0 {
            self.send();
        }
    }

    /// Sends all there is. What a peer does not take is left to its connection.
    fn send(&self) {
        let mut octets = self.octets.borrow_mut();
        let mut list = self.list.borrow_mut();
        let mut start = 0;
        for Departure { stream, mailbox, end } in list.drain(..) {
            let answer = octets.get(start..end).unwrap_or_default();
            start = end;
            // What fails is left as well: the connection finds out when it goes on.
            let sent = match mailbox.has_left() {
                true => 0,
                false => stream.borrow().try_send(answer).unwrap_or(0),
            };
            if let Some(rest) = answer.get(sent..).filter(|rest| !rest.is_empty()) {
                mailbox.leave(rest);
            }
        }
        octets.clear();
        octets.shrink_to(OCTETS_KEPT);
        self.oldest.set(None);
        self.rounds.set(self.rounds.get() + 1);
    }

    /// Sends whatever is handed in, as soon as the tasks that were ready before have run.
    pub(crate) fn poll_work(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        drop(waker);
        if !self.list.borrow().is_empty() {
            self.send();
        }
        Poll::Pending
    }
}

/// So many answers are sent in a row at the most.
const COUNT_MAX: usize = 16;

/// For so long an answer waits for others.
const DELAY_MAX: Duration = Duration::from_micros(100);

/// Answers of so many octets are sent at once.
const OCTETS_MAX: usize = 64 * 1024;

/// Room for answers a worker keeps; larger answers give theirs back.
const OCTETS_KEPT: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;
    use std::net::TcpStream as Client;

    use tokio::net::TcpListener;
    use tokio::runtime::{Builder, LocalOptions};

    use super::*;

    /// Runs `act` where there are sockets.
    fn run<T>(act: impl AsyncFnOnce() -> T) -> T {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(act())
    }

    /// Both ends of a connection; the server's can be written to.
    async fn connection() -> (Client, Rc<RefCell<Stream>>, Rc<Mailbox>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().await.unwrap().0;
        stream.writable().await.unwrap();
        (client, Rc::new(RefCell::new(Stream::Tcp(stream))), Rc::default())
    }

    fn append(departures: &Departures, octets: &[u8]) {
        departures.octets().borrow_mut().extend_from_slice(octets);
    }

    #[track_caller]
    fn check_received(client: &mut Client, want: &[u8]) {
        let mut received = vec![0; want.len()];
        client.read_exact(&mut received).unwrap();
        assert_eq!(received, want);
    }

    #[track_caller]
    fn check_silent(client: &mut Client) {
        client.set_nonblocking(true).unwrap();
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        client.set_nonblocking(false).unwrap();
    }

    #[test]
    fn answers_wait_for_one_another_and_reach_whom_they_are_for() {
        run(async || {
            let departures = Departures::default();
            let (mut first, to_first, mailbox) = connection().await;
            let (mut second, to_second, other) = connection().await;
            for (octets, stream, mailbox) in [
                (b"one", &to_first, &mailbox),
                (b"two", &to_second, &other),
                (b"own", &to_first, &mailbox),
            ] {
                append(&departures, octets);
                departures.add(stream, mailbox, Instant::now());
            }
            check_silent(&mut first);
            check_silent(&mut second);
            let _ = poll_fn(|cx| Poll::Ready(departures.poll_work(cx))).await;
            check_received(&mut first, b"oneown");
            check_received(&mut second, b"two");
            assert!(departures.octets().borrow().is_empty());
        });
    }

    #[test]
    fn answers_do_not_wait_for_many_nor_long_nor_when_their_connection_goes_on() {
        run(async || {
            let departures = Departures::default();
            let (mut client, stream, mailbox) = connection().await;
            let now = Instant::now();
            let add = |octets: &[u8]| {
                append(&departures, octets);
                departures.add(&stream, &mailbox, now)
            };
            for _ in 0..COUNT_MAX {
                check_silent(&mut client);
                add(b"many");
            }
            check_received(&mut client, &b"many".repeat(COUNT_MAX));

            let round = add(b"long");
            departures.send_old(now + DELAY_MAX);
            check_silent(&mut client);
            departures.send_old(now + DELAY_MAX + Duration::from_nanos(1));
            check_received(&mut client, b"long");

            // That one has left; the next has not.
            let next = add(b"next");
            departures.send_round(round);
            check_silent(&mut client);
            departures.send_round(next);
            check_received(&mut client, b"next");

            add(&vec![b'x'; OCTETS_MAX]);
            check_received(&mut client, &vec![b'x'; OCTETS_MAX]);
        });
    }

    #[test]
    fn what_a_client_does_not_take_is_left_in_its_order() {
        run(async || {
            let departures = Departures::default();
            let (mut client, stream, mailbox) = connection().await;
            let answer = (0..32 << 20_u32).map(|at| at as u8).collect::<Vec<_>>();
            let (first, second) = answer.split_at(answer.len() - 5);
            append(&departures, first);
            departures.add(&stream, &mailbox, Instant::now());
            append(&departures, second);
            let round = departures.add(&stream, &mailbox, Instant::now());
            departures.send_round(round);
            let left = mailbox.take_left();
            assert!(!left.is_empty() && left.len() < answer.len());
            assert!(mailbox.take_left().is_empty());
            check_received(&mut client, &answer[..answer.len() - left.len()]);
            assert_eq!(left, answer[answer.len() - left.len()..]);
        });
    }
}
