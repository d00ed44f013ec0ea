//! What the connections of a worker read into, one after the other: whole messages are handled
//! where they were read.
//!
//! Invariant: nobody sees what another connection has read, and what was read is wiped as soon as
//! it was looked at, however that ended: there may be a password in it.

use std::cell::{RefCell, RefMut};
use std::io;
use std::ops::Deref;
use std::task::{Context, Poll};

use crate::listen::stream::Stream;

/// Room for one read.
pub(crate) struct ReadBuffer(RefCell<Vec<u8>>);

/// What one read has brought; none at the end of the stream.
pub(crate) struct Received<'b> {
    buffer: RefMut<'b, Vec<u8>>,
    count: usize,
}

impl ReadBuffer {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(vec![0; READ_BUFFER_BYTES]))
    }

    /// Reads once.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        stream: &RefCell<Stream>,
    ) -> Poll<io::Result<Received<'_>>> {
        self.poll_read_some(cx, stream, READ_BUFFER_BYTES)
    }

    /// Reads once, so many octets at the most.
    pub(crate) fn poll_read_some(
        &self,
        cx: &mut Context<'_>,
        stream: &RefCell<Stream>,
        most: usize,
    ) -> Poll<io::Result<Received<'_>>> {
        let mut buffer = self.0.borrow_mut();
        let room = buffer.get_mut(..most.min(READ_BUFFER_BYTES)).unwrap_or_default();
        let polled = stream.borrow_mut().poll_read(cx, room);
        polled.map_ok(|count| Received { buffer, count })
    }
}

impl Deref for Received<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(..self.count).unwrap_or_default()
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.buffer.get_mut(..self.count).unwrap_or_default().fill(0);
    }
}

/// What one read takes at the most.
const READ_BUFFER_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Waker;

    use testing::chance::Chance;

    use super::*;
    use crate::tests::simulated::Peer;

    #[test]
    fn what_was_read_is_wiped_also_when_its_handling_panics() {
        let buffer = ReadBuffer::new();
        let peer = Peer::new(Chance::new(1, 1));
        let stream = RefCell::new(Stream::Simulated(Peer::transport(&peer, true)));
        let read = || match buffer.poll_read(&mut Context::from_waker(Waker::noop()), &stream) {
            Poll::Ready(Ok(received)) => received,
            Poll::Ready(Err(_)) | Poll::Pending => panic!("nothing was read"),
        };
        for panics in [false, true] {
            peer.borrow_mut().send(*b"a password");
            let handled = catch_unwind(AssertUnwindSafe(|| {
                let received = read();
                assert_eq!(&*received, b"a password");
                assert!(!panics);
            }));
            assert_eq!(handled.is_err(), panics);
            assert!(buffer.0.borrow().iter().all(|octet| *octet == 0));
        }
    }
}
