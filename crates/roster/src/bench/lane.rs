//! One thread of a run: its connections, driven by one epoll loop.
//!
//! Everything a request needs is kept from the one before: no allocation, one clock reading, one
//! write and one read for each, and one `epoll_wait` for as many as are ready.
//!
//! Invariant: at most `outstanding` jobs of a connection are under way, and every response names a
//! request of one of them.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use ldap::ber::{DecodeError, Frame, frame};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::answer::{Fault, Head, Verdict};
use super::plan::{LatencyLimit, Plan};
use super::request::FIRST_ID;
use super::run::{Report, now};
use super::schedule::Schedule;
use super::tally::{LATENCY_MAX_NS, Tally};
use super::wire::{Socket, Took};
use super::work::{Turn, Work};
use crate::chance::{Chance, mix};
use crate::failure::Failure;

/// A thread's share of a run.
pub(crate) struct Lane {
    /// Which of all threads of all processes.
    number: u64,
    epoll: OwnedFd,
    clients: Vec<Client>,
    streams: Vec<Flow>,
    tallies: Vec<Tally>,
    reports: Sender<Report>,
    window: Window,
    /// Seconds of the measured time that were reported.
    reported: u64,
    /// When the last counted answer came.
    last: Option<Instant>,
    /// Jobs under way.
    under_way: usize,
    /// Connections that are still of use.
    open: usize,
    is_ending: bool,
    failure: Option<Failure>,
    /// Read into, and written from.
    incoming: Vec<u8>,
    outgoing: [Vec<u8>; 2],
}

/// What the connections of one stream share in this thread.
pub(crate) struct Flow {
    pub(crate) work: Work,
    pub(crate) outstanding: usize,
    /// Jobs a second of this thread.
    pub(crate) rate: Option<f64>,
    pub(crate) latency_limit: LatencyLimit,
    /// Made when the run begins.
    schedule: Option<Schedule>,
    /// No more jobs are to come.
    is_over: bool,
    /// Its connections that are still of use.
    open: usize,
}

/// A client of the server: a connection, and a second one for binds if need be.
pub(crate) struct Client {
    stream: usize,
    sockets: [Option<Socket>; 2],
    is_watched_for_room: [bool; 2],
    next_id: i32,
    waiting: Vec<Waiting>,
    /// The name that a search found.
    found: Vec<u8>,
}

/// A job under way.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: i32,
    turn: Turn,
    step: usize,
    /// When the job was meant to begin.
    begun: Instant,
    /// When this step was asked.
    asked: Instant,
    entries: u64,
}

/// When answers count.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: Instant,
    end: Instant,
}

impl Window {
    /// Answers count by their own time; at a rate by the time their request was meant to be sent:
    /// requests that had to wait are part of what is measured.
    fn holds(&self, moment: Instant) -> bool {
        moment >= self.start && moment < self.end
    }
}

impl Flow {
    pub(crate) const fn new(
        work: Work,
        outstanding: usize,
        rate: Option<f64>,
        latency_limit: LatencyLimit,
    ) -> Self {
        Self { work, outstanding, rate, latency_limit, schedule: None, is_over: false, open: 0 }
    }
}

impl Client {
    pub(crate) const fn new(stream: usize, main: Socket, second: Option<Socket>) -> Self {
        Self {
            stream,
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

    const fn send_id(&mut self) -> i32 {
        let id = self.next_id;
        self.next_id = if id == i32::MAX { FIRST_ID.0 } else { id + 1 };
        id
    }
}

impl Lane {
    pub(crate) fn new(
        plan: &Plan,
        number: u64,
        streams: Vec<Flow>,
        clients: Vec<Client>,
        reports: Sender<Report>,
    ) -> Result<Self, Failure> {
        let mut streams = streams;
        for client in &clients {
            streams.get_mut(client.stream).into_iter().for_each(|flow| flow.open += 1);
        }
        let tallies = plan.kinds().iter().map(|_| Tally::new()).collect::<Result<_, _>>()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| broken("epoll", error))?;
        let never = now();
        let lane = Self {
            number,
            epoll,
            open: clients.len(),
            clients,
            streams,
            tallies,
            reports,
            window: Window { start: never, end: never },
            reported: 0,
            last: None,
            under_way: 0,
            is_ending: false,
            failure: None,
            incoming: vec![0; READ_BYTES],
            outgoing: [Vec::new(), Vec::new()],
        };
        for (index, client) in lane.clients.iter().enumerate() {
            for (side, socket) in client.sockets.iter().enumerate() {
                let Some(socket) = socket else { continue };
                epoll::add(&lane.epoll, socket.fd(), token(index, side), EventFlags::IN)
                    .map_err(|error| broken("epoll", error))?;
            }
        }
        Ok(lane)
    }

    /// Waits for the word, then runs to the end and reports it.
    pub(crate) fn run(mut self, plan: &Plan, go: &Receiver<Instant>) {
        // Who gives the word is gone when the run is called off.
        let Ok(begin) = go.recv() else { return };
        // Sleeps of less than the usual 50 µs: requests are due more exactly than that.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let start = begin + plan.warmup();
        self.window = Window { start, end: start + plan.duration() };
        self.begin(plan.seed, begin);
        let end = self.drive();
        self.failure = self.failure.take().or(end.err());
        let since_start = |at: Instant| at.saturating_duration_since(start);
        self.report(since_start(now()).as_secs() + 1);
        self.part();
        let last_us = self.last.map(|last| since_start(last).as_micros() as u64);
        let _ = self.reports.send(Report::End { failure: self.failure, last_us, cpu_us: None });
    }

    /// The schedules, and the first requests of all connections.
    fn begin(&mut self, seed: u64, begin: Instant) {
        for (number, flow) in (0..).zip(&mut self.streams) {
            let chance = Chance::new(seed ^ mix(number), self.number);
            flow.schedule = flow.rate.map(|rate| Schedule::new(rate, chance, begin));
        }
        for client in 0..self.clients.len() {
            let outstanding = self.flow_of(client).map_or(0, |flow| flow.outstanding);
            for _ in 0..outstanding {
                self.go_on(client, begin);
            }
            self.flush(client);
        }
    }

    /// The loop: until the time is over and everything is answered.
    fn drive(&mut self) -> Result<(), Failure> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let last = self.window.end + ANSWER_WAIT;
        loop {
            let at = now();
            self.ask_what_is_due(at);
            if at >= self.window.end && !self.is_ending {
                self.end();
            }
            self.report_seconds(at);
            if self.is_done(at) {
                return Ok(());
            }
            if at >= last {
                let seconds = ANSWER_WAIT.as_secs();
                self.give_up();
                return Err(Failure::refused(format!(
                    "the server left requests unanswered for {seconds} s"
                )));
            }
            let pause = self.next_moment(at, last).saturating_duration_since(at);
            events.clear();
            wait(&self.epoll, &mut events, pause)?;
            for event in &events {
                let data = event.data;
                self.ready((data.u64() >> 1) as usize, (data.u64() & 1) as usize, event.flags);
            }
        }
    }

    /// Whether nothing is under way and nothing more will be.
    fn is_done(&self, at: Instant) -> bool {
        if self.under_way > 0 {
            return false;
        }
        let is_over = |flow: &Flow| match &flow.schedule {
            _ if flow.is_over => true,
            Some(schedule) => schedule.due >= self.window.end,
            None => at >= self.window.end,
        };
        self.open == 0 || self.streams.iter().all(is_over)
    }

    /// When there is something to do even if no answer comes.
    fn next_moment(&self, at: Instant, last: Instant) -> Instant {
        let second = self.window.start + Duration::from_secs(self.reported + 1);
        let mut next = if self.is_ending { last } else { self.window.end.min(second) };
        for flow in self.streams.iter().filter(|flow| !flow.is_over) {
            let schedule = flow.schedule.as_ref();
            let due = schedule
                .filter(|schedule| !schedule.idle.is_empty() && schedule.due < self.window.end);
            if let Some(schedule) = due {
                next = next.min(schedule.due);
            }
        }
        next.max(at)
    }

    /// Sends what is due, as far as there are connections for it.
    fn ask_what_is_due(&mut self, at: Instant) {
        for number in 0..self.streams.len() {
            while let Some(client) = self.take_idle(number, at) {
                self.go_on(client, at);
                self.flush(client);
            }
        }
    }

    /// A connection for a request of this stream that is due.
    fn take_idle(&mut self, stream: usize, at: Instant) -> Option<usize> {
        let end = self.window.end;
        let flow = self.streams.get_mut(stream).filter(|flow| !flow.is_over)?;
        let schedule = flow.schedule.as_mut()?;
        let is_due = schedule.due <= at && schedule.due < end;
        if is_due { schedule.idle.pop_front() } else { None }
    }

    /// The time is over: connections that remove what they added begin with it, and what could not
    /// be sent for long is not sent any more.
    fn end(&mut self) {
        self.is_ending = true;
        for client in 0..self.clients.len() {
            let removes = |flow: &Flow| flow.work.remover.is_some();
            let is_idle = self.clients.get(client).is_some_and(|client| client.waiting.is_empty());
            if is_idle && self.flow_of(client).is_some_and(removes) {
                self.go_on(client, self.window.end);
                self.flush(client);
            }
        }
    }

    fn flow_of(&self, client: usize) -> Option<&Flow> {
        self.streams.get(self.clients.get(client)?.stream)
    }

    /// Begins the next job of a connection that has room for one, or lets it wait for its turn.
    fn go_on(&mut self, client: usize, at: Instant) {
        if let Err(failure) = self.try_go_on(client, at) {
            self.lose(client, failure);
        }
    }

    fn try_go_on(&mut self, number: usize, at: Instant) -> Result<(), Failure> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let Some(flow) = self.streams.get_mut(client.stream) else { return Ok(()) };
        let end = self.window.end;
        let mut begun = at;
        let mut is_over = flow.is_over || (at >= end && flow.schedule.is_none());
        if let Some(schedule) = &mut flow.schedule
            && !is_over
        {
            skip(schedule, flow.latency_limit, (at, end), |count| {
                let kind = flow.work.kind_of(0).and_then(|kind| self.tallies.get_mut(kind));
                kind.into_iter().for_each(|tally| tally.counts.skipped += count);
            });
            if schedule.due >= end {
                is_over = true;
            } else if schedule.due > at {
                schedule.idle.push_back(number);
                return Ok(());
            } else {
                begun = schedule.due;
                schedule.pass();
            }
        }
        let turn = if is_over { None } else { flow.work.next() };
        flow.is_over |= !is_over && turn.is_none();
        let turn = match turn {
            Some(turn) => turn,
            None if at >= end || flow.is_over => match flow.work.next_removal() {
                Some(turn) => turn,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        let waiting =
            Waiting { id: client.send_id(), turn, step: 0, begun, asked: begun, entries: 0 };
        ask(client, flow, waiting, (&mut self.outgoing, &mut self.tallies))?;
        self.under_way += 1;
        Ok(())
    }

    /// Something can be read or written.
    fn ready(&mut self, client: usize, side: usize, flags: EventFlags) {
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
    fn flush(&mut self, client: usize) {
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
        let (kind, is_add, is_right) = (stage.kind, stage.is_add, fault.is_none());
        let waited = *waiting;
        let cycle = flow.work.cycle(waited.turn.job);
        let moment = if flow.schedule.is_some() { waited.begun } else { at };
        let is_removal = flow.work.remover == Some(waited.turn.job);
        let counts = self.window.holds(moment) && !is_removal;
        let limit_ns = flow.latency_limit.late_us.map_or(u64::MAX, |us| us.saturating_mul(1000));
        if counts {
            self.last = Some(at);
        }
        let done = Done { at, code, counts, limit_ns };
        if let Some(tally) = self.tallies.get_mut(kind) {
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
            let buffers = (&mut self.outgoing, self.tallies.as_mut_slice());
            return ask(client, flow, waiting, buffers);
        }
        if let Some(tally) = cycle.and_then(|cycle| self.tallies.get_mut(cycle)) {
            done.count(tally, waited.begun, 0, None);
            tally.counts.made += 1;
        }
        client.waiting.swap_remove(place);
        self.under_way -= 1;
        self.try_go_on(number, at)
    }

    /// A connection that is of no use any more.
    fn lose(&mut self, number: usize, failure: Failure) {
        let Some(client) = self.clients.get_mut(number) else { return };
        if client.sockets.iter().all(Option::is_none) {
            return;
        }
        for waiting in client.waiting.drain(..) {
            self.under_way -= 1;
            let flow = self.streams.get(client.stream);
            let kind = flow.and_then(|flow| flow.work.kind_of(waiting.turn.job));
            if let Some(tally) = kind.and_then(|kind| self.tallies.get_mut(kind)) {
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
        self.failure.get_or_insert(failure);
    }

    /// What was not answered in time will not be.
    fn give_up(&mut self) {
        let late = || Failure::refused("the server left requests unanswered");
        for client in 0..self.clients.len() {
            if self.clients.get(client).is_some_and(|client| !client.waiting.is_empty()) {
                self.lose(client, late());
            }
        }
        self.failure = None;
    }

    /// Hands over each second that is over.
    fn report_seconds(&mut self, at: Instant) {
        let Some(passed) = at.checked_duration_since(self.window.start) else { return };
        if passed.as_secs() > self.reported {
            self.report(passed.as_secs());
        }
    }

    /// Hands over what was counted until this second.
    fn report(&mut self, until: u64) {
        let deltas = (0..).zip(self.tallies.iter_mut().map(Tally::take));
        let deltas = deltas.filter(|(_, delta)| !delta.is_empty()).collect();
        let report = Report::Second { second: until.saturating_sub(1), deltas };
        if self.reports.send(report).is_err() {
            // Nobody listens any more: the run was called off.
            self.window.end = self.window.end.min(now());
        }
        self.reported = until;
    }

    /// Says good-bye on all connections; a server that is gone need not hear it.
    fn part(&mut self) {
        let mut unbind = Vec::new();
        super::work::encode(FIRST_ID, ldap::message::Request::Unbind, &mut unbind);
        for socket in self.clients.iter_mut().flat_map(|client| &mut client.sockets).flatten() {
            let _ = socket.send(&unbind);
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
fn ask(
    client: &mut Client,
    flow: &mut Flow,
    waiting: Waiting,
    (outgoing, tallies): (&mut [Vec<u8>; 2], &mut [Tally]),
) -> Result<(), Failure> {
    let stage = flow.work.stage(waiting.turn.job, waiting.step);
    let (side, kind) = stage.map_or((0, 0), |stage| (usize::from(stage.is_apart), stage.kind));
    let Some(out) = outgoing.get_mut(side) else { return Ok(()) };
    flow.work.write(waiting.turn, waiting.step, (waiting.id, &client.found), out)?;
    tallies.get_mut(kind).into_iter().for_each(|tally| tally.counts.made += 1);
    client.waiting.push(waiting);
    Ok(())
}

/// Passes over what is too late to be sent.
fn skip(
    schedule: &mut Schedule,
    limit: LatencyLimit,
    (at, end): (Instant, Instant),
    count: impl FnOnce(u64),
) {
    let late = limit.late_us.filter(|_| limit.skips).map(Duration::from_micros);
    // What is not sent some time after the end is not sent at all.
    let last = if at >= end + DRAIN { Some(Duration::ZERO) } else { None };
    let Some(limit) = last.or(late) else { return };
    let mut skipped = 0;
    while schedule.due < end && at.saturating_duration_since(schedule.due) > limit {
        schedule.pass();
        skipped += 1;
    }
    count(skipped);
}

fn socket_of(clients: &mut [Client], client: usize, side: usize) -> Option<&mut Socket> {
    clients.get_mut(client)?.sockets.get_mut(side)?.as_mut()
}

fn token(client: usize, side: usize) -> EventData {
    EventData::new_u64((client as u64) << 1 | side as u64)
}

/// Waits for events; kernels that know no shorter times than milliseconds wait too short.
fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>, pause: Duration) -> Result<(), Failure> {
    let try_for = |events: &mut Vec<epoll::Event>, pause: Duration| {
        let timeout = rustix::time::Timespec::try_from(pause).ok();
        epoll::wait(epoll, spare_capacity(events), timeout.as_ref())
    };
    let waited = match try_for(events, pause) {
        Err(Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
            let whole = Duration::from_millis(u64::try_from(pause.as_millis()).unwrap_or(0));
            try_for(events, whole)
        }
        other => other,
    };
    match waited {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(broken("epoll", error)),
    }
}

/// A response nobody waits for: the notice of disconnection, or a server at fault.
fn unasked(head: &Head<'_>) -> Failure {
    match head.notice() {
        Some(notice) => Failure::refused(format!("the server disconnects: {notice}")),
        None => Failure::refused(format!("the server answered message {}, never sent", head.id)),
    }
}

fn garbled(error: DecodeError) -> Failure {
    Failure::refused(format!("the server sent a malformed message: {error}"))
}

fn lost(error: std::io::Error) -> Failure {
    Failure::refused(format!("a connection was lost: {}", crate::failure::plain(&error)))
}

fn broken(what: &str, error: Errno) -> Failure {
    Failure::local(format!("{what} failed: {}", crate::failure::plain(&error.into())))
}

/// The longest wait for the last answers of a run.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// How long after the end requests are sent that were due before it.
const DRAIN: Duration = Duration::from_secs(5);
/// Events taken at a time.
const EVENTS_MAX: usize = 512;
/// Octets read at a time.
const READ_BYTES: usize = 64 * 1024;
/// The largest response accepted.
const MESSAGE_SIZE_MAX_BYTES: usize = 64 << 20;
