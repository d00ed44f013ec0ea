//! A peer that a test plays: what it sends comes in any pieces, and what it is sent it takes in any
//! pieces, later, or not at all. And one worker, in process, that serves such peers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use directory::Peer as DirectoryPeer;
use testing::chance::Chance;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::{spawn_local, yield_now};
use tokio::time::Instant;

use super::*;
use crate::listen::accept;
use crate::listen::stream::Stream;
use crate::listen::tls::Tls;
use crate::log::{ConnectionLog, Logs};
use crate::metrics::Meter;
use crate::server::share;
use crate::settings::file_watch;
use crate::worker::Worker;

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct Transport {
    /// Otherwise it holds what was written until it is flushed, as TLS does.
    pub(crate) is_plain: bool,
    peer: Rc<RefCell<Peer>>,
}

/// What the test has of it.
#[derive(Debug)]
pub(crate) struct Peer {
    /// What the server will read.
    sent: VecDeque<u8>,
    /// The server reads no more than that.
    has_ended: bool,
    /// Reading fails.
    is_reset: bool,
    /// So many octets it still takes.
    room: usize,
    /// Writing fails when it has taken so many octets.
    fails_at: Option<usize>,
    pub(crate) received: Vec<u8>,
    /// Written, and not flushed.
    held: Vec<u8>,
    chance: Chance,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Peer {
    pub(crate) fn new(chance: Chance) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            sent: VecDeque::new(),
            has_ended: false,
            is_reset: false,
            room: 0,
            fails_at: None,
            received: Vec::new(),
            held: Vec::new(),
            chance,
            reader: None,
            writer: None,
        }))
    }

    /// The other end.
    pub(crate) fn transport(peer: &Rc<RefCell<Self>>, is_plain: bool) -> Transport {
        Transport { is_plain, peer: Rc::clone(peer) }
    }

    /// Sends something to the server.
    pub(crate) fn send(&mut self, octets: impl IntoIterator<Item = u8>) {
        self.sent.extend(octets);
        self.wake_reader();
    }

    /// How much of that the server has not read.
    pub(crate) fn unread(&self) -> usize {
        self.sent.len()
    }

    /// Sends nothing more.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
        self.wake_reader();
    }

    /// Makes reading and writing fail.
    pub(crate) fn reset(&mut self) {
        (self.is_reset, self.fails_at) = (true, Some(0));
        self.wake_reader();
        self.wake_writer();
    }

    /// Takes so many octets more.
    pub(crate) fn take_more(&mut self, octets: usize) {
        self.room = self.room.saturating_add(octets);
        self.wake_writer();
    }

    /// Makes writing fail when so many octets more were taken.
    pub(crate) fn fail_after(&mut self, octets: usize) {
        self.fails_at = Some(self.received.len() + octets);
        self.wake_writer();
    }

    fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    fn wake_writer(&mut self) {
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Takes a part of `octets`: any number of them, none when there is no room.
    fn take(&mut self, octets: &[u8]) -> io::Result<usize> {
        let until_failure = self.fails_at.map(|at| at.saturating_sub(self.received.len()));
        if until_failure == Some(0) {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let most = octets.len().min(self.room).min(until_failure.unwrap_or(usize::MAX));
        let count = match most > 0 && self.chance.once_in(3) {
            true => 1 + self.chance.below(most as u64) as usize,
            false => most,
        };
        self.room -= count;
        self.received.extend_from_slice(&octets[..count]);
        Ok(count)
    }

    /// Hands on what is held; `false` when not all of it was taken.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let taken = self.take(&held);
            self.held = held;
            let count = taken?;
            self.held.drain(..count);
            if count == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Transport {
    pub(crate) fn try_write(&self, octets: &[u8]) -> io::Result<usize> {
        self.peer.borrow_mut().take(octets)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut peer = self.peer.borrow_mut();
        if peer.is_reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let count = peer.sent.len().min(buffer.remaining());
        if count == 0 && !peer.has_ended {
            peer.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let octets = peer.sent.drain(..count).collect::<Vec<_>>();
        buffer.put_slice(&octets);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut peer = self.peer.borrow_mut();
        let taken = match self.is_plain {
            true => peer.take(octets)?,
            false => {
                peer.flush()?;
                let count = octets.len().min(HELD_MAX_BYTES.saturating_sub(peer.held.len()));
                peer.held.extend_from_slice(&octets[..count]);
                count
            }
        };
        if taken > 0 {
            return Poll::Ready(Ok(taken));
        }
        peer.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut peer = self.peer.borrow_mut();
        if peer.flush()? {
            return Poll::Ready(Ok(()));
        }
        peer.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// Runs `act` beside a worker that serves a fresh directory.
pub(super) fn with_worker<T>(
    change: impl FnOnce(&mut Settings, &mut DirectoryOptions),
    act: impl AsyncFnOnce(&Rc<Worker>) -> T,
) -> T {
    let data = tempfile::tempdir().unwrap();
    let (directory, settings) = open(data.path(), change);
    let tls = Arc::new(Tls::new(&settings, file_watch::now()).unwrap());
    let (shared, threads) = share(&directory, &settings, tls).unwrap();
    let meters = [Arc::<Meter>::default()];
    let (mut logs, mut recorders) = Logs::start(&directory, &settings, &meters).unwrap();
    let recorder = recorders.pop().unwrap();
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
    let done = runtime.block_on(async {
        let worker = Rc::new(Worker::new(shared, recorder));
        let (_orders, receiver) = unbounded_channel();
        let serving = Rc::clone(&worker);
        spawn_local(async move { serving.serve(receiver).await });
        act(&worker).await
    });
    drop(runtime);
    for thread in threads {
        thread.join().unwrap();
    }
    logs.end_access();
    directory.shutdown();
    done
}

/// Another client of the worker.
pub(super) fn connect(worker: &Rc<Worker>, chance: Chance, is_plain: bool) -> Rc<RefCell<Peer>> {
    let peer = Peer::new(chance);
    let stream = Stream::Simulated(Peer::transport(&peer, is_plain));
    let address = "simulated".to_owned();
    let asker = DirectoryPeer { address, ..DirectoryPeer::default() };
    accept::begin(worker, stream, asker, ConnectionLog::new("ldapi"));
    peer
}

/// Another client of the worker, which comes from an address and takes whatever it is sent.
pub(super) fn connect_from(worker: &Rc<Worker>, address: IpAddr) -> Rc<RefCell<Peer>> {
    let peer = Peer::new(Chance::new(0, 0));
    peer.borrow_mut().take_more(usize::MAX);
    let stream = Stream::Simulated(Peer::transport(&peer, true));
    let asker = DirectoryPeer {
        address: address.to_string(),
        ip: Some(address),
        ..DirectoryPeer::default()
    };
    accept::begin(worker, stream, asker, ConnectionLog::new("ldap"));
    peer
}

/// Waits until something is so.
pub(super) async fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "it does not come to be");
        yield_now().await;
    }
}

/// Sends the last there is, and takes whatever comes.
pub(super) fn finish(peer: &mut Peer, octets: &[u8]) {
    peer.send(octets.iter().copied());
    peer.end();
    peer.take_more(usize::MAX);
}

/// What is answered to a client that takes everything, while nobody else asks.
pub(super) async fn ask_calmly(worker: &Rc<Worker>, octets: &[u8]) -> Vec<u8> {
    let peer = connect(worker, Chance::new(0, 0), true);
    finish(&mut peer.borrow_mut(), octets);
    all_ended(worker).await;
    let mut peer = peer.borrow_mut();
    std::mem::take(&mut peer.received)
}

/// Waits until every connection is gone.
pub(super) async fn all_ended(worker: &Worker) {
    let begun = Instant::now();
    while worker.shared.counters.connections.value() > 0 {
        assert!(begun.elapsed() < TIMEOUT, "a connection does not end");
        yield_now().await;
    }
}

/// Like one record of TLS.
const HELD_MAX_BYTES: usize = 16 * 1024;

/// Answers as text.
pub(super) fn described(mut octets: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(Frame::Complete(length)) = frame(octets, usize::MAX) {
        all.push(describe(&octets[..length]));
        octets = &octets[length..];
    }
    all
}
