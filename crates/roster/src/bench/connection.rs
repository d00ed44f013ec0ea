//! One connection of a run: keeps its requests outstanding and judges each answer.
//!
//! Invariant: at most `outstanding` requests are unanswered, and every response names one of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ldap::ber::{Frame, frame};
use ldap::message::{DecodeLimits, Message, MessageId, Request, Response};
use ldap::result::ResultCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::answer::{Expected, Fault, Operation, Verdict};
use super::pace::Pace;
use super::request::{FIRST_ID, Source, encode, simple_bind};
use super::run::now;
use crate::failure::Failure;

/// What the connections of one thread saw in the measured time.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Time from sending a request to its whole answer, in ns.
    pub(crate) latencies_ns: Histogram<u64>,
    /// Answers by result code.
    pub(crate) codes: BTreeMap<u32, u64>,
    /// Entries found.
    pub(crate) entries: u64,
    /// Wrong answers, also outside the measured time.
    pub(crate) wrong: u64,
    /// The first of them.
    pub(crate) first_wrong: Option<Fault>,
    /// When the last counted answer came.
    pub(crate) last: Option<Instant>,
    /// Counted answers of all threads, for those who watch.
    progress: Arc<AtomicU64>,
}

impl Tally {
    pub(crate) fn new(progress: Arc<AtomicU64>) -> Result<Self, Failure> {
        let latencies_ns = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
            .map_err(|error| Failure::local(format!("cannot count latencies: {error}")))?;
        Ok(Self {
            latencies_ns,
            codes: BTreeMap::new(),
            entries: 0,
            wrong: 0,
            first_wrong: None,
            last: None,
            progress,
        })
    }

    pub(crate) fn add(&mut self, other: Self) {
        // Histograms with the same bounds always fit into each other.
        let _ = self.latencies_ns.add(&other.latencies_ns);
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
        self.entries += other.entries;
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
        self.last = self.last.max(other.last);
    }
}

/// When answers count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// Answers count by the time their request was meant to be sent, not by their own: at a given
    /// rate, requests that had to wait are part of what is measured.
    pub(crate) by_intent: bool,
}

impl Window {
    fn holds(&self, asked: Instant, answered: Instant) -> bool {
        let moment = if self.by_intent { asked } else { answered };
        moment >= self.start && moment < self.end
    }
}

/// A request without its whole answer.
#[derive(Debug)]
struct Waiting {
    id: MessageId,
    since: Instant,
    entries: u64,
}

/// An open connection, bound if the run asks for it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    incoming: Vec<u8>,
    /// Bytes of `incoming` that hold something.
    filled: usize,
    outgoing: Vec<u8>,
    next_id: i32,
    waiting: Vec<Waiting>,
}

/// What a thread's connections share.
pub(crate) struct Shared {
    pub(crate) source: Source,
    pub(crate) tally: Tally,
}

impl Connection {
    pub(crate) async fn open(address: &(String, u16)) -> Result<Self, Failure> {
        let failed = |error| {
            let (host, port) = address;
            Failure::local(format!(
                "cannot connect to {host}:{port}: {}",
                crate::failure::plain(&error)
            ))
            .hint("does the server run there? Name it with -H ldap://host:port")
        };
        let stream = TcpStream::connect((address.0.as_str(), address.1)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Self {
            stream,
            incoming: vec![0; READ_BYTES],
            filled: 0,
            outgoing: Vec::new(),
            next_id: FIRST_ID.0,
            waiting: Vec::new(),
        })
    }

    /// Binds with name and password.
    pub(crate) async fn bind(&mut self, dn: &str, password: &str) -> Result<(), Failure> {
        let id = self.send_id();
        encode(id, Request::Bind(simple_bind(dn, password)), &mut self.outgoing);
        self.waiting.push(Waiting { id, since: now(), entries: 0 });
        self.flush().await?;
        let mut tally = Tally::new(Arc::default())?;
        let expected = Expected::Code(Operation::Bind, ResultCode::Success);
        let always = Window { start: now(), end: now(), by_intent: false };
        while !self.waiting.is_empty() {
            self.read().await?;
            self.answers(&expected, always, &mut tally)?;
        }
        match tally.first_wrong {
            Some(fault) => Err(Failure::refused(format!("cannot bind as '{dn}': {fault}"))),
            None => Ok(()),
        }
    }

    /// Sends requests until the window ends or there are none left, and waits for all answers.
    pub(crate) async fn drive(
        mut self,
        shared: &RefCell<Shared>,
        expected: &Expected,
        window: Window,
        outstanding: usize,
    ) -> Result<(), Failure> {
        let mut asking = true;
        loop {
            if asking {
                asking = self.ask(&mut shared.borrow_mut().source, window, outstanding)?;
            }
            if self.waiting.is_empty() {
                break;
            }
            self.flush().await?;
            self.read().await?;
            self.answers(expected, window, &mut shared.borrow_mut().tally)?;
        }
        self.unbind().await
    }

    /// Sends a request whenever one is due and this connection is idle, and waits for its answer.
    pub(crate) async fn drive_paced(
        mut self,
        shared: &RefCell<Shared>,
        expected: &Expected,
        window: Window,
        pace: &Pace,
    ) -> Result<(), Failure> {
        while let Some(since) = pace.next().await {
            let id = self.send_id();
            if !shared.borrow_mut().source.next(id, &mut self.outgoing)? {
                break;
            }
            self.waiting.push(Waiting { id, since, entries: 0 });
            self.flush().await?;
            while !self.waiting.is_empty() {
                self.read().await?;
                self.answers(expected, window, &mut shared.borrow_mut().tally)?;
            }
        }
        self.unbind().await
    }

    async fn unbind(&mut self) -> Result<(), Failure> {
        let id = self.send_id();
        encode(id, Request::Unbind, &mut self.outgoing);
        self.flush().await
    }

    /// Fills up the outstanding requests; false when no more are to come.
    fn ask(
        &mut self,
        source: &mut Source,
        window: Window,
        outstanding: usize,
    ) -> Result<bool, Failure> {
        let since = now();
        if since >= window.end {
            return Ok(false);
        }
        while self.waiting.len() < outstanding {
            let id = self.send_id();
            if !source.next(id, &mut self.outgoing)? {
                return Ok(false);
            }
            self.waiting.push(Waiting { id, since, entries: 0 });
        }
        Ok(true)
    }

    fn send_id(&mut self) -> MessageId {
        let id = MessageId(self.next_id);
        self.next_id = self.next_id.checked_add(1).unwrap_or(FIRST_ID.0);
        id
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        if !self.outgoing.is_empty() {
            self.stream.write_all(&self.outgoing).await.map_err(lost)?;
            self.outgoing.clear();
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Failure> {
        if self.filled == self.incoming.len() {
            self.incoming.resize(self.filled * 2, 0);
        }
        let room = self.incoming.get_mut(self.filled..).unwrap_or_default();
        match self.stream.read(room).await.map_err(lost)? {
            0 => Err(Failure::refused("the server closed a connection")),
            read => {
                self.filled += read;
                Ok(())
            }
        }
    }

    /// Judges the whole responses that came in.
    fn answers(
        &mut self,
        expected: &Expected,
        window: Window,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let garbled = |error: &dyn std::fmt::Display| {
            Failure::refused(format!("the server sent a malformed message: {error}"))
        };
        let at = now();
        let mut start = 0;
        while let Some(rest) = self.incoming.get(start..self.filled)
            && let Frame::Complete(length) =
                frame(rest, MESSAGE_SIZE_MAX_BYTES).map_err(|error| garbled(&error))?
            && let Some(bytes) = rest.get(..length)
        {
            start += length;
            let message = Message::<Response<'_>>::decode(bytes, &DecodeLimits::default())
                .map_err(|error| garbled(&error))?;
            answer(&mut self.waiting, &message, expected, (at, window), tally)?;
        }
        self.incoming.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(())
    }
}

/// Counts one response.
fn answer(
    waiting: &mut Vec<Waiting>,
    message: &Message<'_, Response<'_>>,
    expected: &Expected,
    (at, window): (Instant, Window),
    tally: &mut Tally,
) -> Result<(), Failure> {
    let place = waiting.iter().position(|waiting| waiting.id == message.id);
    let Some(asked) = place.and_then(|place| waiting.get_mut(place)) else {
        return Err(unasked(message));
    };
    let (code, fault) = match expected.judge(&message.op, asked.entries) {
        Verdict::Entry => {
            asked.entries += 1;
            return Ok(());
        }
        Verdict::More => return Ok(()),
        Verdict::Right(code) => (code, None),
        Verdict::Wrong(code, fault) => (code, Some(fault)),
        Verdict::Misplaced => {
            return Err(Failure::refused("the server answered with a response of another kind"));
        }
    };
    if let Some(fault) = fault {
        tally.wrong += 1;
        tally.first_wrong.get_or_insert(fault);
    }
    if window.holds(asked.since, at) {
        let latency = u64::try_from((at - asked.since).as_nanos()).unwrap_or(LATENCY_MAX_NS);
        tally.latencies_ns.saturating_record(latency);
        *tally.codes.entry(code.code()).or_default() += 1;
        tally.entries += asked.entries;
        tally.last = Some(at);
        tally.progress.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(place) = place {
        waiting.swap_remove(place);
    }
    Ok(())
}

/// A response nobody waits for: the notice of disconnection, or a server at fault.
fn unasked(message: &Message<'_, Response<'_>>) -> Failure {
    match message.op {
        Response::Extended { result, .. } if message.id == MessageId::UNSOLICITED => {
            Failure::refused(format!(
                "the server disconnects: {} {}",
                result.code.name(),
                result.diagnostic
            ))
        }
        _ => Failure::refused(format!("the server answered message {}, never sent", message.id)),
    }
}

fn lost(error: std::io::Error) -> Failure {
    Failure::refused(format!("a connection was lost: {}", crate::failure::plain(&error)))
}

/// The longest wait for the last answers of a run.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// Bytes asked for in one read, at first.
const READ_BYTES: usize = 16 * 1024;
/// The largest response accepted.
const MESSAGE_SIZE_MAX_BYTES: usize = 64 << 20;
/// Latencies above this count as this.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
