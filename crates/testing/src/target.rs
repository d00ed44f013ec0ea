//! What a script talks to: octets out, messages in.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::ber;

/// How long a server may take for one answer before a script counts it as none.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest message taken from a server, in bytes.
const MESSAGE_SIZE_MAX_BYTES: usize = 64 << 20;

/// A directory server with any number of connections.
pub trait Target {
    /// Opens a connection and gives the number it has from now on.
    fn open(&mut self) -> usize;
    /// Sends octets, not necessarily a whole message.
    fn send(&mut self, connection: usize, octets: &[u8]);
    /// Waits for the next message, for the end of the connection, or until waiting is useless.
    fn receive(&mut self, connection: usize) -> Received;
}

/// What a connection brings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Received {
    /// One whole message.
    Message(Vec<u8>),
    /// The server closed the connection.
    Closed,
    /// No answer in time, or in process: none will come.
    Nothing,
}

/// A server at a TCP address.
#[derive(Debug)]
pub struct TcpTarget {
    address: SocketAddr,
    connections: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    /// None when it could not be opened or was closed.
    stream: Option<TcpStream>,
    received: Vec<u8>,
}

impl TcpTarget {
    /// Connects when a script opens its connections.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, connections: Vec::new() }
    }
}

impl Target for TcpTarget {
    fn open(&mut self) -> usize {
        let stream = TcpStream::connect_timeout(&self.address, ANSWER_TIMEOUT).ok();
        if let Some(stream) = &stream {
            // Failing to set an option only costs time.
            let _ = stream.set_nodelay(true);
            let _ = stream.set_read_timeout(Some(ANSWER_TIMEOUT));
            let _ = stream.set_write_timeout(Some(ANSWER_TIMEOUT));
        }
        self.connections.push(Connection { stream, received: Vec::new() });
        self.connections.len() - 1
    }

    fn send(&mut self, connection: usize, octets: &[u8]) {
        let stream = self.connections.get_mut(connection).and_then(|one| one.stream.as_mut());
        if let Some(stream) = stream {
            // A server that closed while we wrote shows up in the next receive.
            let _ = stream.write_all(octets);
        }
    }

    fn receive(&mut self, connection: usize) -> Received {
        self.connections.get_mut(connection).map_or(Received::Closed, Connection::receive)
    }
}

impl Connection {
    fn receive(&mut self) -> Received {
        let mut chunk = [0; 16 << 10];
        loop {
            if let Some(message) = self.take_message() {
                return Received::Message(message);
            }
            let Some(stream) = &mut self.stream else {
                return Received::Closed;
            };
            if self.received.len() > MESSAGE_SIZE_MAX_BYTES {
                return Received::Nothing;
            }
            match stream.read(&mut chunk) {
                Ok(0) => self.stream = None,
                Ok(count) => self.received.extend(chunk.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Received::Nothing;
                }
                Err(_) => self.stream = None,
            }
        }
    }

    fn take_message(&mut self) -> Option<Vec<u8>> {
        let (_, header, content) = ber::measure(&self.received)?;
        let length = header.checked_add(content)?;
        if self.received.len() < length {
            return None;
        }
        Some(self.received.drain(..length).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    #[test]
    fn messages_are_cut_from_the_stream_wherever_the_pieces_end() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut target = TcpTarget::new(listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 2];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&[0x30, 0x02, 1]).unwrap();
            stream.write_all(&[2, 0x30, 0x01, 3]).unwrap();
            request
        });
        let connection = target.open();
        target.send(connection, &[7, 8]);
        assert_eq!(target.receive(connection), Received::Message(vec![0x30, 2, 1, 2]));
        assert_eq!(target.receive(connection), Received::Message(vec![0x30, 1, 3]));
        assert_eq!(target.receive(connection), Received::Closed);
        assert_eq!(server.join().unwrap(), [7, 8]);
    }
}
