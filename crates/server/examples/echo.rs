//! The floor: a server that answers every request with a prepared answer of the usual size, so that
//! what is measured of it is a request and an answer through the kernel, and nothing else.
//!
//! `cargo run --release -p server --example echo -- [--kind epoll|tokio] [--listen ADDRESS]
//! [--answer-bytes N]`: it speaks as much LDAP as a load generator needs. A search gets one entry
//! of N octets and its end, a compare `compareTrue`, everything else success, each with the id of
//! its request. `epoll` waits for its sockets itself; `tokio` has a task for each connection on
//! one thread, as a worker of roster has.
//!
//! Invariant: nothing is looked up, and nothing is allocated for a request.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "whoever runs it sees why")]

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use ldap::ber::{Frame, Reader, Tag, frame};
use mio::{Events, Interest, Token};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::task::{LocalSet, spawn_local};

/// The answer to a search unless told otherwise, in octets: a person of the benchmarks, whole.
const ANSWER_BYTES: usize = 760;
/// What one read takes at the most.
const READ_BYTES: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let mut kind = "epoll".to_owned();
    let mut listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut answer_bytes = ANSWER_BYTES;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} takes a value"));
        match name.as_str() {
            "--kind" => kind = value,
            "--listen" => listen = value.parse().unwrap(),
            "--answer-bytes" => answer_bytes = value.parse().unwrap(),
            other => panic!("unknown option: {other}"),
        }
    }
    let answers = Answers::new(answer_bytes);
    match kind.as_str() {
        "epoll" => serve_epoll(listen, &answers),
        "tokio" => serve_tokio(listen, answers),
        other => panic!("--kind is epoll or tokio, not {other}"),
    }
}

/// Prepared answers, as they stand behind the message id.
struct Answers {
    entry: Vec<u8>,
    search_done: Vec<u8>,
}

impl Answers {
    fn new(answer_bytes: usize) -> Self {
        let name = b"uid=user.0,ou=people,dc=example,dc=com";
        // Around the value: headers of the message, the entry, its list, an attribute, its set.
        let around = name.len() + 40;
        let value = vec![b'x'; answer_bytes.saturating_sub(around)];
        let set = wrap(0x31, &wrap(0x04, &value));
        let attribute = wrap(0x30, &[wrap(0x04, b"description"), set].concat());
        let entry = wrap(0x64, &[wrap(0x04, name), wrap(0x30, &attribute)].concat());
        assert!(entry.len() < 60_000, "one answer has at the most 60,000 octets");
        Self { entry, search_done: result(0x65, 0) }
    }

    /// Appends the answers to the whole messages at the start of `octets`; says how many octets
    /// those are, none when the client is done.
    fn answer(&self, octets: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let mut used = 0;
        while let Ok(Frame::Complete(length)) = frame(&octets[used..], usize::MAX) {
            let mut fields = Reader::new(&octets[used..used + length]).sequence(Tag::SEQUENCE);
            let fields = fields.as_mut().ok()?;
            let id = fields.read(Tag::INTEGER).ok()?;
            used += length;
            match fields.peek_tag()?.0 {
                0x63 => {
                    message(out, id, &self.entry);
                    message(out, id, &self.search_done);
                }
                0x6e => message(out, id, &result(0x6f, 6)),
                // Unbind ends the connection, abandon has no answer.
                0x42 => return None,
                0x50 => {}
                // The answer's tag is the next one; that of delete is no constructed one.
                tag => message(out, id, &result((tag | 0x20) + 1, 0)),
            }
        }
        Some(used)
    }
}

fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x82, high, low], content].concat()
}

fn result(tag: u8, code: u8) -> Vec<u8> {
    [tag, 7, 0x0a, 1, code, 4, 0, 4, 0].to_vec()
}

fn message(out: &mut Vec<u8>, id: &[u8], op: &[u8]) {
    let length = u16::try_from(2 + id.len() + op.len()).unwrap().to_be_bytes();
    out.extend_from_slice(&[0x30, 0x82, length[0], length[1], 0x02, id.len() as u8]);
    out.extend_from_slice(id);
    out.extend_from_slice(op);
}

/// What was received of a connection and is not whole yet.
type Rest = Vec<u8>;

/// Answers what was read, together with what was left before; none when the client is done.
fn turn(answers: &Answers, read: &[u8], rest: &mut Rest, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    if rest.is_empty() {
        let used = answers.answer(read, out)?;
        rest.extend_from_slice(&read[used..]);
    } else {
        rest.extend_from_slice(read);
        let used = answers.answer(rest, out)?;
        rest.drain(..used);
    }
    Some(())
}

// ---- one thread, and epoll

fn serve_epoll(listen: SocketAddr, answers: &Answers) -> io::Result<()> {
    const LISTENER: Token = Token(usize::MAX);
    let mut poll = mio::Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut listener = mio::net::TcpListener::bind(listen)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    announce(listener.local_addr()?)?;
    let mut connections = Vec::<Option<(mio::net::TcpStream, Rest)>>::new();
    let (mut buffer, mut out) = (vec![0; READ_BYTES], Vec::new());
    loop {
        match poll.poll(&mut events, None) {
            // Whoever stops a process and lets it go on interrupts it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let token = Token(connections.len());
                    poll.registry().register(&mut stream, token, Interest::READABLE)?;
                    connections.push(Some((stream, Rest::new())));
                }
                continue;
            }
            let connection = &mut connections[event.token().0];
            if serve_once(connection, answers, &mut buffer, &mut out).is_none() {
                *connection = None;
            }
        }
    }
}

/// Reads until nothing is there, and answers; none when the connection is over.
fn serve_once(
    connection: &mut Option<(mio::net::TcpStream, Rest)>,
    answers: &Answers,
    buffer: &mut [u8],
    out: &mut Vec<u8>,
) -> Option<()> {
    let (stream, rest) = connection.as_mut()?;
    loop {
        let received = match stream.read(buffer) {
            Ok(0) => return None,
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(()),
            Err(_) => return None,
        };
        turn(answers, &buffer[..received], rest, out)?;
        // Whoever does not take the answer is no client of a benchmark.
        if !out.is_empty() && stream.write(out).ok()? < out.len() {
            return None;
        }
        // epoll tells of what comes later.
        if received < buffer.len() {
            return Some(());
        }
    }
}

// ---- one thread, and tasks

fn serve_tokio(listen: SocketAddr, answers: Answers) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = Rc::new(answers);
    let buffers = Rc::new(RefCell::new((vec![0; READ_BYTES], Vec::new())));
    LocalSet::new().block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind(listen).await?;
        announce(listener.local_addr()?)?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (answers, buffers) = (Rc::clone(&answers), Rc::clone(&buffers));
            spawn_local(async move {
                let mut rest = Rest::new();
                poll_fn(|cx| {
                    loop {
                        let (buffer, out) = &mut *buffers.borrow_mut();
                        let mut read = ReadBuf::new(buffer);
                        match Pin::new(&mut stream).poll_read(cx, &mut read) {
                            Poll::Ready(Ok(())) if !read.filled().is_empty() => {}
                            Poll::Ready(_) => return Poll::Ready(()),
                            Poll::Pending => return Poll::Pending,
                        }
                        if turn(&answers, read.filled(), &mut rest, out).is_none() {
                            return Poll::Ready(());
                        }
                        if out.is_empty() {
                            continue;
                        }
                        match Pin::new(&mut stream).poll_write(cx, out) {
                            Poll::Ready(Ok(sent)) if sent == out.len() => {}
                            _ => return Poll::Ready(()),
                        }
                    }
                })
                .await;
            });
        }
    })
}

fn announce(address: SocketAddr) -> io::Result<()> {
    println!("listening on {address}");
    io::stdout().flush()
}
