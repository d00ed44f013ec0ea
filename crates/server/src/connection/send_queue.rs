//! Answers that are ready, of several connections: they are sent one right after the other.
//!
//! A worker handles what its connections have sent, and sends the answers when it has handled what
//! the kernel had news of, or a few. Requests find the code and the data they need where the one
//! before left them, and so do answers on their way through the kernel; and a client is woken once
//! for several answers, not for each.
//!
//! Invariant: the octets of an answer are in a buffer of their own, from encoding until the kernel
//! has them. Whoever drops a buffer drops its octets with it; none is ever behind another's.
//! Invariant: an answer waits for no more than [`COUNT_MAX`] others, nor for longer than
//! [`DELAY_MAX`] and one time slice of one connection.
//! Invariant: what a connection sends itself leaves after what was handed in here for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::mailbox::Mailbox;
use crate::listen::stream::Stream;

/// Whole answers of a worker's connections that are to be sent.
#[derive(Default)]
pub(crate) struct SendQueue {
    list: RefCell<Vec<QueuedResponse>>,
    /// How many octets wait in the list.
    waiting_bytes: Cell<usize>,
    /// How often they were sent.
    batches: Cell<u64>,
    oldest: Cell<Option<Instant>>,
    waker: RefCell<Option<Waker>>,
    spare: SpareBuffers,
}

/// An answer to one connection.
struct QueuedResponse {
    stream: Rc<RefCell<Stream>>,
    mailbox: Rc<Mailbox>,
    answer: Vec<u8>,
}

/// Which of the batches an answer leaves with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Batch(u64);

impl SendQueue {
    /// Buffers for answers.
    pub(crate) fn spare(&self) -> &SpareBuffers {
        &self.spare
    }

    /// Hands in an answer to a connection.
    pub(crate) fn add(
        &self,
        stream: &Rc<RefCell<Stream>>,
        mailbox: &Rc<Mailbox>,
        answer: Vec<u8>,
        now: Instant,
    ) -> Batch {
        let mut list = self.list.borrow_mut();
        if list.is_empty() {
            self.oldest.set(Some(now));
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
        let waiting = self.waiting_bytes.get() + answer.len();
        self.waiting_bytes.set(waiting);
        list.push(QueuedResponse {
            stream: Rc::clone(stream),
            mailbox: Rc::clone(mailbox),
            answer,
        });
        let batch = Batch(self.batches.get());
        if list.len() >= COUNT_MAX || waiting >= OCTETS_MAX {
            drop(list);
            self.send();
        }
        batch
    }

    /// Sends what has waited for long.
    pub(crate) fn send_old(&self, now: Instant) {
        if self.oldest.get().is_some_and(|oldest| now.saturating_duration_since(oldest) > DELAY_MAX)
        {
            self.send();
        }
    }

    /// Sends the answers of `batch`, and with them all there are.
    pub(crate) fn send_batch(&self, batch: Batch) {
        if self.batches.get() == batch.0 {
            self.send();
        }
    }

    /// Sends all there is. What a peer does not take is left to its connection.
    fn send(&self) {
        let mut list = self.list.borrow_mut();
        for QueuedResponse { stream, mailbox, answer } in list.drain(..) {
            // What fails is left as well: the connection finds out when it goes on.
            let sent = match mailbox.has_left() {
                true => 0,
                false => stream.borrow().try_send(&answer).unwrap_or(0),
            };
            if let Some(rest) = answer.get(sent..).filter(|rest| !rest.is_empty()) {
                mailbox.leave(rest);
            }
            self.spare.give_back(answer);
        }
        self.waiting_bytes.set(0);
        self.oldest.set(None);
        self.batches.set(self.batches.get() + 1);
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

/// Buffers that are not in use, for the answers to come: a request allocates none.
///
/// Whoever takes one owns it, and it is empty. One that is never given back is freed.
#[derive(Default)]
pub(crate) struct SpareBuffers(RefCell<Vec<Vec<u8>>>);

impl SpareBuffers {
    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps a buffer, without what is in it; a large one, or one too many, is freed.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < COUNT_MAX && (1..=SPARE_MAX_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            kept.push(buffer);
        }
    }
}

/// So many answers are sent in a row at the most; and so many buffers are kept.
const COUNT_MAX: usize = 16;

/// For so long an answer waits for others.
const DELAY_MAX: Duration = Duration::from_micros(100);

/// Answers of so many octets are sent at once.
const OCTETS_MAX: usize = 64 * 1024;

/// Buffers that have grown larger are freed.
const SPARE_MAX_BYTES: usize = 32 * 1024;

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
            let send_queue = SendQueue::default();
            let (mut first, to_first, mailbox) = connection().await;
            let (mut second, to_second, other) = connection().await;
            for (octets, stream, mailbox) in [
                (b"one", &to_first, &mailbox),
                (b"two", &to_second, &other),
                (b"own", &to_first, &mailbox),
            ] {
                send_queue.add(stream, mailbox, octets.to_vec(), Instant::now());
            }
            check_silent(&mut first);
            check_silent(&mut second);
            let _ = poll_fn(|cx| Poll::Ready(send_queue.poll_work(cx))).await;
            check_received(&mut first, b"oneown");
            check_received(&mut second, b"two");
        });
    }

    #[test]
    fn answers_do_not_wait_for_many_nor_long_nor_when_their_connection_goes_on() {
        run(async || {
            let send_queue = SendQueue::default();
            let (mut client, stream, mailbox) = connection().await;
            let now = Instant::now();
            let add = |octets: &[u8]| send_queue.add(&stream, &mailbox, octets.to_vec(), now);
            for _ in 0..COUNT_MAX {
                check_silent(&mut client);
                add(b"many");
            }
            check_received(&mut client, &b"many".repeat(COUNT_MAX));

            let batch = add(b"long");
            send_queue.send_old(now + DELAY_MAX);
            check_silent(&mut client);
            send_queue.send_old(now + DELAY_MAX + Duration::from_nanos(1));
            check_received(&mut client, b"long");

            // That one has left; the next has not.
            let next = add(b"next");
            send_queue.send_batch(batch);
            check_silent(&mut client);
            send_queue.send_batch(next);
            check_received(&mut client, b"next");

            add(&vec![b'x'; OCTETS_MAX]);
            check_received(&mut client, &vec![b'x'; OCTETS_MAX]);
        });
    }

    #[test]
    fn what_a_client_does_not_take_is_left_in_its_order() {
        run(async || {
            let send_queue = SendQueue::default();
            let (mut client, stream, mailbox) = connection().await;
            let answer = (0..32 << 20_u32).map(|at| at as u8).collect::<Vec<_>>();
            let (first, second) = answer.split_at(answer.len() - 5);
            send_queue.add(&stream, &mailbox, first.to_vec(), Instant::now());
            let batch = send_queue.add(&stream, &mailbox, second.to_vec(), Instant::now());
            send_queue.send_batch(batch);
            let left = mailbox.take_left();
            assert!(!left.is_empty() && left.len() < answer.len());
            assert!(mailbox.take_left().is_empty());
            check_received(&mut client, &answer[..answer.len() - left.len()]);
            assert_eq!(left, answer[answer.len() - left.len()..]);
        });
    }

    #[test]
    fn a_spare_buffer_is_empty_and_small_and_there_are_few() {
        let spare = SpareBuffers::default();
        for size in [0, 1, 100, SPARE_MAX_BYTES, SPARE_MAX_BYTES + 1] {
            spare.give_back(vec![7; size]);
        }
        for _ in 0..2 * COUNT_MAX {
            spare.give_back(b"of somebody".to_vec());
        }
        assert_eq!(spare.0.borrow().len(), COUNT_MAX);
        for _ in 0..COUNT_MAX + 1 {
            let buffer = spare.take();
            assert!(buffer.is_empty() && buffer.capacity() <= SPARE_MAX_BYTES);
        }
    }
}
