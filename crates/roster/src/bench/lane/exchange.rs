//! What passes between a lane and the server: requests go out, answers come in and are judged.
//!
//! Invariant: every response names a request that waits, or the connection is of no use any more.

use std::time::Instant;

use ldap::ber::{DecodeError, Frame, frame};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::super::answer::{Expected, Fault, Head, Verdict};
use super::super::crew::Loss;
use super::super::request::FIRST_ID;
use super::super::run::now;
use super::super::same::Comparison;
use super::super::tally::{LATENCY_MAX_NS, Place, Tallies, Tally};
use super::super::wire::{Socket, Took};
use super::super::work::Turn;
use super::{Flow, Lane, broken};
use crate::failure::{Exit, Failure};

/// A client of the server: a connection, and a second one for binds if need be.
pub(crate) struct Client {
    pub(super) stream: usize,
    pub(super) server: usize,
    pub(super) sockets: [Option<Socket>; 2],
    is_watched_for_room: [bool; 2],
    next_id: i32,
    pub(super) waiting: Vec<Waiting>,
    /// The name that a search found.
    found: Vec<u8>,
}

/// A job under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    id: i32,
    turn: Turn,
    step: usize,
    /// Which request it is, by its values.
    request: u64,
    /// When the job was meant to begin.
    begun: Instant,
    /// When this step was asked.
    asked: Instant,
    entries: u64,
}

impl Waiting {
    /// A job that begins with its first step.
    pub(super) const fn new(id: i32, turn: Turn, begun: Instant) -> Self {
        Self { id, turn, step: 0, request: 0, begun, asked: begun, entries: 0 }
    }
}

impl Client {
    pub(crate) const fn new(
        stream: usize,
        server: usize,
        main: Socket,
        second: Option<Socket>,
    ) -> Self {
        Self {
            stream,
            server,
            sockets: [Some(main), second],
            is_watched_for_room: [false; 2],
            next_id: FIRST_ID.0,
            waiting: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Whether it belongs to this stream.
    pub(crate) const fn is_of(&self, stream: usize) -> bool {
        self.stream == stream
    }

    pub(super) const fn send_id(&mut self) -> i32 {
        let id = self.next_id;
        self.next_id = if id == i32::MAX { FIRST_ID.0 } else { id + 1 };
        id
    }
}

impl Lane {
    /// Something can be read or written.
    pub(super) fn ready(&mut self, client: usize, side: usize, flags: EventFlags) {
        let outcome =
            if flags.contains(EventFlags::OUT) { self.make_room(client, side) } else { Ok(()) };
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        let outcome = match outcome {
            Ok(()) if is_readable => self.read(client, side),
            other => other,
        };
        match outcome {
            Ok(()) => self.flush(client),
            Err(failure) => self.lose(client, failure),
        }
    }

    /// The socket takes octets again.
    fn make_room(&mut self, client: usize, side: usize) -> Result<(), Failure> {
        let Some(socket) = socket_of(&mut self.clients, client, side) else { return Ok(()) };
        if socket.flush().map_err(lost)? {
            self.watch(client, side, false)?;
        }
        Ok(())
    }

    fn watch(&mut self, number: usize, side: usize, for_room: bool) -> Result<(), Failure> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let Some(watched) = client.is_watched_for_room.get_mut(side) else { return Ok(()) };
        if *watched == for_room {
            return Ok(());
        }
        *watched = for_room;
        let flags = if for_room { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let Some(Some(socket)) = client.sockets.get(side) else { return Ok(()) };
        epoll::modify(&self.epoll, socket.fd(), token(number, side), flags)
            .map_err(|error| broken("epoll", error))
    }

    /// Sends what was asked of one connection.
    pub(super) fn flush(&mut self, client: usize) {
        for side in 0..2 {
            if let Err(failure) = self.try_flush(client, side) {
                self.lose(client, failure);
            }
        }
    }

    fn try_flush(&mut self, client: usize, side: usize) -> Result<(), Failure> {
        let Some(out) = self.outgoing.get_mut(side).filter(|out| !out.is_empty()) else {
            return Ok(());
        };
        let is_all = match socket_of(&mut self.clients, client, side) {
            Some(socket) => socket.send(out).map_err(lost),
            None => Ok(true),
        };
        out.clear();
        if is_all? { Ok(()) } else { self.watch(client, side, true) }
    }

    /// Reads what has come and judges it.
    fn read(&mut self, client: usize, side: usize) -> Result<(), Failure> {
        let mut incoming = std::mem::take(&mut self.incoming);
        let outcome = self.read_into(&mut incoming, client, side);
        self.incoming = incoming;
        outcome
    }

    fn read_into(
        &mut self,
        incoming: &mut [u8],
        client: usize,
        side: usize,
    ) -> Result<(), Failure> {
        loop {
            let Some(socket) = socket_of(&mut self.clients, client, side) else { return Ok(()) };
            let holds_more = socket.may_hold_more();
            let took = match socket.read(incoming).map_err(lost)? {
                Took::Some(took) => took,
                Took::Nothing => return Ok(()),
                Took::End => return Err(Failure::refused("the server closed a connection")),
            };
            let mut rest = std::mem::take(&mut socket.rest);
            let is_full = took == incoming.len();
            let fresh = incoming.get(..took).unwrap_or_default();
            if rest.is_empty() {
                let done = self.responses(client, fresh)?;
                rest.extend_from_slice(fresh.get(done..).unwrap_or_default());
            } else {
                rest.extend_from_slice(fresh);
                let done = self.responses(client, &rest)?;
                rest.drain(..done);
            }
            if let Some(socket) = socket_of(&mut self.clients, client, side) {
                socket.rest = rest;
            }
            if !is_full && !holds_more {
                return Ok(());
            }
        }
    }

    /// Judges the whole responses at the front; says how many octets they were.
    fn responses(&mut self, client: usize, octets: &[u8]) -> Result<usize, Failure> {
        let at = now();
        self.heard = at;
        let mut done = 0;
        while let Some(rest) = octets.get(done..)
            && let Frame::Complete(length) = frame(rest, MESSAGE_SIZE_MAX_BYTES).map_err(garbled)?
            && let Some(message) = rest.get(..length)
        {
            done += length;
            let head = Head::of(message).map_err(garbled)?;
            self.response(client, &head, at)?;
        }
        Ok(done)
    }

    /// Counts one response and goes on with what follows from it.
    fn response(&mut self, number: usize, head: &Head<'_>, at: Instant) -> Result<(), Failure> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let Some(flow) = self.streams.get_mut(client.stream) else { return Ok(()) };
        let server = client.server;
        let place = client.waiting.iter().position(|waiting| waiting.id == head.id);
        let Some((place, waiting)) =
            place.and_then(|place| Some((place, client.waiting.get_mut(place)?)))
        else {
            return Err(unasked(head));
        };
        let Some(stage) = flow.work.stage(waiting.turn.job, waiting.step) else { return Ok(()) };
        let (code, fault) = match stage.expected.judge(head, waiting.entries).map_err(garbled)? {
            Verdict::Entry => {
                waiting.entries += 1;
                if stage.finds {
                    client.found.clear();
                    client.found.extend_from_slice(head.dn().map_err(garbled)?);
                }
                return Ok(());
            }
            Verdict::More => return Ok(()),
            Verdict::Right(code) => (code, None),
            Verdict::Wrong(code, fault) => (code, Some(fault)),
            Verdict::Misplaced => {
                let reason = "the server answered with a response of another kind";
                return Err(Failure::refused(reason));
            }
        };
        let (kind, is_add, waited) = (stage.kind, stage.is_add, *waiting);
        let is_compared = stage.expected == Expected::Same && fault.is_none();
        let compared = is_compared.then(|| flow.work.compare(waited.request, waited.entries));
        let fault = fault.or_else(|| match compared? {
            Comparison::First | Comparison::Same | Comparison::Forgotten => None,
            Comparison::Changed(first) => Some(Fault::Changed { entries: waited.entries, first }),
        });
        let is_right = fault.is_none();
        let cycle = flow.work.cycle(waited.turn.job);
        let moment = if flow.schedule.is_some() { waited.begun } else { at };
        let is_removal = flow.work.remover == Some(waited.turn.job);
        let counts = self.window.holds(moment) && !is_removal;
        let limit_ns = flow.latency_limit.late_us.map_or(u64::MAX, |us| us.saturating_mul(1000));
        if counts {
            self.last = Some(at);
        }
        let done = Done { at, code, counts, limit_ns };
        if let Some(tally) = self.tallies.at(Place { server, kind }) {
            compared.into_iter().for_each(|compared| tally.counts.compared.count(compared));
            done.count(tally, waited.asked, waited.entries, fault);
        }
        if is_add && is_right {
            flow.work.was_added(waited.turn.number);
        }
        let next = waited.step + 1;
        if is_right && flow.work.stage(waited.turn.job, next).is_some() {
            let id = client.send_id();
            client.waiting.swap_remove(place);
            let waiting = Waiting { id, step: next, asked: at, entries: 0, ..waited };
            return ask(client, flow, waiting, &mut self.outgoing, &mut self.tallies);
        }
        if let Some(tally) = cycle.and_then(|kind| self.tallies.at(Place { server, kind })) {
            done.count(tally, waited.begun, 0, None);
            tally.counts.made += 1;
        }
        client.waiting.swap_remove(place);
        self.under_way -= 1;
        self.try_go_on(number, at)
    }

    /// A connection that is of no use any more.
    pub(super) fn lose(&mut self, number: usize, failure: Failure) {
        let Some(client) = self.clients.get_mut(number) else { return };
        if client.sockets.iter().all(Option::is_none) {
            return;
        }
        let server = client.server;
        for waiting in client.waiting.drain(..) {
            self.under_way -= 1;
            let flow = self.streams.get(client.stream);
            let kind = flow.and_then(|flow| flow.work.kind_of(waiting.turn.job));
            if let Some(tally) = kind.and_then(|kind| self.tallies.at(Place { server, kind })) {
                tally.counts.errors += 1;
            }
        }
        // Closing takes them out of epoll, too.
        client.sockets = [None, None];
        if let Some(flow) = self.streams.get_mut(client.stream) {
            flow.open -= 1;
            flow.is_over |= flow.open == 0;
            let schedule = flow.schedule.iter_mut();
            schedule.for_each(|schedule| schedule.idle.retain(|idle| *idle != number));
        }
        self.outgoing.iter_mut().for_each(Vec::clear);
        self.open -= 1;
        match (failure.exit, self.lost.get_mut(server)) {
            (Exit::Refused, Some(lost)) => Loss::add(lost, Loss { connections: 1, failure }),
            // Not the server's doing.
            _ => {
                self.failure.get_or_insert(failure);
            }
        }
    }
}

/// An answer that is whole.
#[derive(Clone, Copy)]
struct Done {
    at: Instant,
    code: u32,
    /// Whether it is of the measured time.
    counts: bool,
    limit_ns: u64,
}

impl Done {
    fn count(self, tally: &mut Tally, since: Instant, entries: u64, fault: Option<Fault>) {
        if let Some(fault) = fault {
            tally.counts.wrong += 1;
            tally.counts.first_wrong.get_or_insert(fault);
        }
        if self.counts {
            let latency = self.at.saturating_duration_since(since).as_nanos();
            let latency_ns = u64::try_from(latency).unwrap_or(LATENCY_MAX_NS);
            tally.record(self.code, latency_ns);
            tally.counts.entries += entries;
            tally.counts.late += u64::from(latency_ns > self.limit_ns);
        }
    }
}

/// Puts a request into what goes out.
pub(super) fn ask(
    client: &mut Client,
    flow: &mut Flow,
    waiting: Waiting,
    outgoing: &mut [Vec<u8>; 2],
    tallies: &mut Tallies,
) -> Result<(), Failure> {
    let stage = flow.work.stage(waiting.turn.job, waiting.step);
    let (side, kind) = stage.map_or((0, 0), |stage| (usize::from(stage.is_apart), stage.kind));
    let Some(out) = outgoing.get_mut(side) else { return Ok(()) };
    let request = flow.work.write(waiting.turn, waiting.step, waiting.id, &client.found, out)?;
    let tally = tallies.at(Place { server: client.server, kind });
    tally.into_iter().for_each(|tally| tally.counts.made += 1);
    client.waiting.push(Waiting { request, ..waiting });
    Ok(())
}

fn socket_of(clients: &mut [Client], client: usize, side: usize) -> Option<&mut Socket> {
    clients.get_mut(client)?.sockets.get_mut(side)?.as_mut()
}

pub(super) fn token(client: usize, side: usize) -> EventData {
    EventData::new_u64((client as u64) << 1 | side as u64)
}

/// A response nobody waits for: the notice of disconnection, or a server at fault.
fn unasked(head: &Head<'_>) -> Failure {
    match head.notice() {
        Some(notice) => Failure::refused(format!("the server disconnects: {notice}"))
            .hint("does it allow this many connections? check its log, or use fewer (-c)"),
        None => Failure::refused(format!("the server answered message {}, never sent", head.id)),
    }
}

fn garbled(error: DecodeError) -> Failure {
    Failure::refused(format!("the server sent a malformed message: {error}"))
}

fn lost(error: std::io::Error) -> Failure {
    Failure::refused(format!("a connection was lost: {}", crate::failure::plain(&error)))
}

/// The largest response accepted.
const MESSAGE_SIZE_MAX_BYTES: usize = 64 << 20;
