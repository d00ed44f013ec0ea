//! The connection between coordinator and agent: messages with a length and a seal.
//!
//! Both begin with a line that names the protocol and 32 random octets. From these and the shared
//! secret comes the key that seals every message, with its direction and number: none can be made,
//! changed, left out or repeated by who does not know the secret. Messages are not enciphered.
//!
//! Invariant: a message is decoded only after its seal was found right; before, no more octets of
//! it are kept than have come.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::failure::{Failure, plain};

/// What both ends know.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

/// Which end this is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Coordinator = 1,
    Agent = 2,
}

/// A connection whose other end knows the secret, or cannot send anything.
pub(crate) struct Line {
    pub(crate) talk: Talk,
    pub(crate) hear: Hear,
}

/// What goes to the other end.
pub(crate) struct Talk {
    stream: TcpStream,
    key: Vec<u8>,
    side: Side,
    sent: u64,
}

/// What comes from the other end.
pub(crate) struct Hear {
    stream: TcpStream,
    key: Vec<u8>,
    /// The other end.
    side: Side,
    received: u64,
}

impl Secret {
    /// What stands in the file, without the newline at its end; nothing without a file.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self(Vec::new())) };
        let text = std::fs::read(path).map_err(|error| Failure::path("read", path, &error))?;
        let secret = text.trim_ascii_end();
        if secret.len() < SECRET_BYTES_MIN {
            let path = path.display();
            let reason = format!("the secret in {path} has fewer than {SECRET_BYTES_MIN} bytes");
            return Err(Failure::local(reason).hint("make one with 'openssl rand -hex 32'"));
        }
        Ok(Self(secret.to_vec()))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Line {
    /// Greets the other end.
    pub(crate) fn open(
        mut stream: TcpStream,
        secret: &Secret,
        side: Side,
    ) -> Result<Self, Failure> {
        let mut own = [0; NONCE_BYTES];
        getrandom::fill(&mut own)
            .map_err(|error| Failure::local(format!("cannot get random numbers: {error}")))?;
        stream.set_nodelay(true).map_err(lost)?;
        // Who sends to a machine that is gone is told so, not after a quarter of an hour.
        rustix::net::sockopt::set_tcp_user_timeout(&stream, GONE_MS)
            .map_err(|error| lost(error.into()))?;
        patience(&stream, GREETING_WAIT)?;
        stream.write_all(&[PROTOCOL, &own].concat()).map_err(lost)?;
        let mut greeting = vec![0; PROTOCOL.len() + NONCE_BYTES];
        stream.read_exact(&mut greeting).map_err(|error| {
            let failure = lost(error);
            match failure.hint {
                None => failure.hint("an agent serves one run at a time: is it busy?"),
                Some(_) => failure,
            }
        })?;
        let other = greeting.strip_prefix(PROTOCOL).ok_or_else(|| {
            Failure::refused("the peer does not speak the agent protocol")
                .hint("use the same release for the agents and the coordinator")
        })?;
        let parts = match side {
            Side::Coordinator => [PROTOCOL, &own, other],
            Side::Agent => [PROTOCOL, other, &own],
        };
        let key = seal(&secret.0, &parts)?.finalize().into_bytes().to_vec();
        let other = match side {
            Side::Coordinator => Side::Agent,
            Side::Agent => Side::Coordinator,
        };
        let twin = stream.try_clone().map_err(lost)?;
        let hear = Hear { stream: twin, key: key.clone(), side: other, received: 0 };
        Ok(Self { talk: Talk { stream, key, side, sent: 0 }, hear })
    }

    /// The longest wait for the next message from now on.
    pub(crate) fn patience(&self, wait: Duration) -> Result<(), Failure> {
        self.hear.patience(wait)
    }

    pub(crate) fn send<M: Serialize>(&mut self, message: &M) -> Result<(), Failure> {
        self.talk.send(message)
    }

    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> Result<M, Failure> {
        self.hear.receive()
    }
}

impl Talk {
    /// Closes the line in both directions.
    pub(crate) fn close(&self) {
        // The other end may have done it before.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub(crate) fn send<M: Serialize>(&mut self, message: &M) -> Result<(), Failure> {
        let text = serde_json::to_vec(message).map_err(Failure::local)?;
        let length = u32::try_from(text.len()).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
        let length = length.ok_or_else(|| {
            Failure::local(format!("a message to an agent has more than {MESSAGE_BYTES_MAX} bytes"))
                .hint("values from files are sent to every agent: use shorter files")
        })?;
        let seal = seal(&self.key, &[&[self.side as u8], &self.sent.to_be_bytes(), &text])?;
        let seal = seal.finalize().into_bytes();
        self.stream.write_all(&[&length.to_be_bytes(), &*seal, &text].concat()).map_err(lost)?;
        self.sent += 1;
        Ok(())
    }
}

impl Hear {
    /// The longest wait for the next message from now on.
    pub(crate) fn patience(&self, wait: Duration) -> Result<(), Failure> {
        patience(&self.stream, wait)
    }

    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> Result<M, Failure> {
        let mut head = [0; 4 + SEAL_BYTES];
        let is_known = self.received > 0;
        self.stream.read_exact(&mut head).map_err(|error| {
            let failure = lost(error);
            // Who has said something knows the secret.
            Failure { hint: failure.hint.filter(|_| !is_known), ..failure }
        })?;
        let (length, seal_of_it) = head.split_first_chunk::<4>().unwrap_or((&[0xFF; 4], &[]));
        let length = u32::from_be_bytes(*length);
        if length > MESSAGE_BYTES_MAX {
            return Err(Failure::refused("the peer sent a message that is too long"));
        }
        let mut text = Vec::new();
        (&self.stream).take(length.into()).read_to_end(&mut text).map_err(lost)?;
        let seal = seal(&self.key, &[&[self.side as u8], &self.received.to_be_bytes(), &text])?;
        seal.verify_slice(seal_of_it).map_err(|_| {
            Failure::refused("the peer does not have the secret")
                .hint("give the agents and the coordinator the same --secret-file")
        })?;
        self.received += 1;
        serde_json::from_slice(&text)
            .map_err(|error| Failure::refused(format!("a message is malformed: {error}")))
    }
}

fn seal(key: &[u8], parts: &[&[u8]]) -> Result<Hmac<Sha256>, Failure> {
    let mut seal = Hmac::<Sha256>::new_from_slice(key).map_err(Failure::local)?;
    parts.iter().for_each(|part| seal.update(part));
    Ok(seal)
}

fn patience(stream: &TcpStream, wait: Duration) -> Result<(), Failure> {
    stream.set_read_timeout(Some(wait)).map_err(lost)?;
    stream.set_write_timeout(Some(WRITE_WAIT)).map_err(lost)
}

fn lost(error: std::io::Error) -> Failure {
    use std::io::ErrorKind::{TimedOut, UnexpectedEof, WouldBlock};
    match error.kind() {
        UnexpectedEof => Failure::refused("the peer closed the connection")
            .hint("do the agents and the coordinator have the same --secret-file?"),
        TimedOut | WouldBlock => Failure::refused("the peer does not answer"),
        _ => Failure::refused(format!("the connection was lost: {}", plain(&error))),
    }
}

const PROTOCOL: &[u8] = b"roster bench agent 2\n";
const NONCE_BYTES: usize = 32;
const SEAL_BYTES: usize = 32;
const SECRET_BYTES_MIN: usize = 16;
/// Octets of a message.
const MESSAGE_BYTES_MAX: u32 = 16 << 20;
/// The longest wait for a greeting and the first message.
const GREETING_WAIT: Duration = Duration::from_secs(10);
/// A machine that acknowledges nothing for so long is gone.
const GONE_MS: u32 = 20_000;
/// The longest wait for the other end to take a message.
const WRITE_WAIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(secrets: [&str; 2]) -> (Line, Line) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let [one, other] = secrets.map(|secret| Secret(secret.into()));
        let agent = std::thread::spawn(move || {
            Line::open(listener.accept().unwrap().0, &other, Side::Agent).unwrap()
        });
        let stream = TcpStream::connect(address).unwrap();
        (Line::open(stream, &one, Side::Coordinator).unwrap(), agent.join().unwrap())
    }

    #[test]
    fn messages_pass_in_both_directions() {
        let (mut one, mut other) = pair(["x", "x"]);
        for text in ["a", "bc"] {
            one.send(&text).unwrap();
            assert_eq!(other.receive::<String>().unwrap(), text);
        }
        other.send(&7).unwrap();
        assert_eq!(one.receive::<u8>().unwrap(), 7);
    }

    #[test]
    fn who_does_not_know_the_secret_is_not_heard() {
        let (mut one, mut other) = pair(["x", "y"]);
        one.send(&"a").unwrap();
        let failure = other.receive::<String>().unwrap_err();
        assert_eq!(failure.message, "the peer does not have the secret");
        assert!(failure.hint.unwrap().contains("--secret-file"));
    }

    #[test]
    fn who_leaves_without_a_word_may_not_know_the_secret() {
        for words in [0, 1] {
            let (mut one, mut other) = pair(["x", "x"]);
            (0..words).for_each(|_| one.send(&"a").unwrap());
            one.talk.close();
            (0..words).for_each(|_| drop(other.receive::<String>().unwrap()));
            let failure = other.receive::<String>().unwrap_err();
            assert_eq!(failure.hint.is_some(), words == 0, "{failure:?}");
        }
    }

    #[test]
    fn a_message_cannot_be_sent_twice_or_back() {
        let (mut one, mut other) = pair(["x", "x"]);
        one.send(&"a").unwrap();
        one.talk.sent = 0;
        one.send(&"a").unwrap();
        assert!(other.receive::<String>().is_ok() && other.receive::<String>().is_err());
        let (mut one, mut other) = pair(["x", "x"]);
        one.talk.side = Side::Agent;
        one.send(&"a").unwrap();
        assert!(other.receive::<String>().is_err());
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let (one, mut other) = pair(["x", "x"]);
        (&one.talk.stream).write_all(&[0xFF; 4 + SEAL_BYTES]).unwrap();
        assert!(other.receive::<String>().unwrap_err().message.contains("too long"));
    }
}
