//! The octets of one connection of a run: a socket that never blocks, with TLS or without.
//!
//! Invariant: what does not fit into the socket stays here and goes out in its order.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use client::ClientStream;

/// An open connection.
pub(crate) struct Socket {
    stream: ClientStream,
    /// The beginning of a message whose rest has not come yet.
    pub(crate) rest: Vec<u8>,
    /// What the socket has not taken yet.
    pending: Vec<u8>,
    sent: usize,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Took {
    /// This many octets; maybe there are more.
    Some(usize),
    /// Nothing for now.
    Nothing,
    /// The server has closed.
    End,
}

impl Socket {
    /// Takes over a connection on which nothing is under way.
    pub(crate) fn new(mut stream: ClientStream) -> io::Result<Self> {
        match &mut stream {
            ClientStream::Tcp(socket) => socket.set_nonblocking(true)?,
            ClientStream::Unix(socket) => socket.set_nonblocking(true)?,
            ClientStream::Tls(tls) => {
                tls.sock.set_nonblocking(true)?;
                tls.conn.set_buffer_limit(None);
            }
        }
        Ok(Self { stream, rest: Vec::new(), pending: Vec::new(), sent: 0 })
    }

    /// What epoll watches.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            ClientStream::Tcp(socket) => socket.as_fd(),
            ClientStream::Unix(socket) => socket.as_fd(),
            ClientStream::Tls(tls) => tls.sock.as_fd(),
        }
    }

    /// Reads what has come, as far as it fits.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Took> {
        let read = match &mut self.stream {
            ClientStream::Tcp(socket) => socket.read(buffer),
            ClientStream::Unix(socket) => socket.read(buffer),
            ClientStream::Tls(tls) => {
                // What was deciphered before comes first.
                match tls.conn.reader().read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    taken => return took(taken),
                }
                match tls.conn.read_tls(&mut tls.sock) {
                    Ok(0) => return Ok(Took::End),
                    Ok(_) => {
                        tls.conn.process_new_packets().map_err(io::Error::other)?;
                        tls.conn.reader().read(buffer)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        took(read)
    }

    /// Whether a read that did not fill the buffer may have left something nobody is told of.
    pub(crate) const fn may_hold_more(&self) -> bool {
        matches!(self.stream, ClientStream::Tls(_))
    }

    /// Sends `octets`; whether all went out, or the socket is to be watched for when more fits.
    pub(crate) fn send(&mut self, octets: &[u8]) -> io::Result<bool> {
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(octets);
            return self.flush();
        }
        if let ClientStream::Tls(tls) = &mut self.stream {
            tls.conn.writer().write_all(octets)?;
            return self.flush();
        }
        let sent = self.write(octets)?;
        let left = octets.get(sent..).unwrap_or_default();
        self.pending.extend_from_slice(left);
        Ok(left.is_empty())
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        if let ClientStream::Tls(tls) = &mut self.stream {
            while tls.conn.wants_write() {
                match tls.conn.write_tls(&mut tls.sock) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            return Ok(true);
        }
        let pending = std::mem::take(&mut self.pending);
        let sent = self.write(pending.get(self.sent..).unwrap_or_default());
        self.pending = pending;
        self.sent += sent?;
        let is_all = self.sent >= self.pending.len();
        if is_all {
            self.pending.clear();
            self.sent = 0;
        }
        Ok(is_all)
    }

    /// As much as the socket takes.
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = match &mut self.stream {
            ClientStream::Tcp(socket) => socket.write(octets),
            ClientStream::Unix(socket) => socket.write(octets),
            ClientStream::Tls(_) => Ok(0),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }
}

fn took(read: io::Result<usize>) -> io::Result<Took> {
    match read {
        Ok(0) => Ok(Took::End),
        Ok(count) => Ok(Took::Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Took::Nothing),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Took::Nothing),
        Err(error) => Err(error),
    }
}
