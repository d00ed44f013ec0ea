//! One thread of a run: its connections, driven by one epoll loop.
//!
//! Everything a request needs is kept from the one before: no allocation, one clock reading, one
//! write and one read for each, and one `epoll_wait` for as many as are ready.
//!
//! Invariant: at most `outstanding` jobs of a connection are under way, and every response names a
//! request of one of them.

mod exchange;

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

pub(crate) use self::exchange::Client;
use self::exchange::{Waiting, ask, token};
use super::crew::{End, Loss, Report};
use super::halt::Halt;
use super::pace::Pace;
use super::plan::{LatencyLimit, Plan};
use super::request::FIRST_ID;
use super::run::now;
use super::schedule::Schedule;
use super::tally::{Place, Tallies};
use super::work::Work;
use crate::chance::{Chance, mix};
use crate::failure::Failure;

/// A thread's share of a run.
pub(crate) struct Lane {
    /// Which of all threads of all processes.
    number: u64,
    epoll: OwnedFd,
    halt: Option<Arc<Halt>>,
    clients: Vec<Client>,
    streams: Vec<Flow>,
    tallies: Tallies,
    reports: Sender<Report>,
    window: Window,
    /// Seconds of the measured time that were reported.
    reported: u64,
    /// When the last counted answer came.
    last: Option<Instant>,
    /// When the last answer of any kind came.
    heard: Instant,
    /// How long it waits for one more when the time is over.
    answer_wait: Duration,
    /// Jobs under way.
    under_way: usize,
    /// Connections that are still of use.
    open: usize,
    is_ending: bool,
    failure: Option<Failure>,
    /// Of each server: connections that were lost.
    lost: Vec<Option<Loss>>,
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
    /// How that changes over time.
    pub(crate) pace: Option<Arc<Pace>>,
    pub(crate) latency_limit: LatencyLimit,
    /// Made when the run begins.
    schedule: Option<Schedule>,
    /// No more jobs are to come.
    is_over: bool,
    /// Its connections that are still of use.
    open: usize,
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
        Self {
            work,
            outstanding,
            rate,
            pace: None,
            latency_limit,
            schedule: None,
            is_over: false,
            open: 0,
        }
    }

    /// This flow, with a rate that changes.
    pub(crate) fn paced(self, pace: Option<Arc<Pace>>) -> Self {
        Self { pace, ..self }
    }
}

impl Lane {
    pub(crate) fn new(
        plan: &Plan,
        number: u64,
        servers: usize,
        streams: Vec<Flow>,
        clients: Vec<Client>,
        reports: Sender<Report>,
    ) -> Result<Self, Failure> {
        let mut streams = streams;
        for client in &clients {
            streams.get_mut(client.stream).into_iter().for_each(|flow| flow.open += 1);
        }
        let tallies = Tallies::new(servers, plan.kinds().len())?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| broken("epoll", error))?;
        let never = now();
        let lane = Self {
            number,
            epoll,
            halt: None,
            open: clients.len(),
            clients,
            streams,
            tallies,
            reports,
            window: Window { start: never, end: never },
            reported: 0,
            last: None,
            heard: never,
            answer_wait: ANSWER_WAIT,
            under_way: 0,
            is_ending: false,
            failure: None,
            lost: (0..servers).map(|_| None).collect(),
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

    /// Ends when `halt` says so, if that is before its time.
    pub(crate) fn until(mut self, halt: Arc<Halt>) -> Result<Self, Failure> {
        epoll::add(&self.epoll, halt.fd(), EventData::new_u64(HALT), EventFlags::IN)
            .map_err(|error| broken("epoll", error))?;
        self.halt = Some(halt);
        Ok(self)
    }

    /// The measured time ends.
    fn heed_halt(&mut self) {
        if let Some(halt) = self.halt.take() {
            self.window.end = self.window.end.min(halt.at().unwrap_or_else(now));
            // Nothing more comes of it, and it would never be silent.
            let _ = epoll::delete(&self.epoll, halt.fd());
        }
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
        let lost = self.lost.into_iter().enumerate();
        let lost = lost.filter_map(|(server, lost)| Some((server, lost?))).collect();
        let end = End { failure: self.failure, lost, last_us, toll: None };
        let _ = self.reports.send(Report::End(end));
    }

    /// The schedules, and the first requests of all connections.
    fn begin(&mut self, seed: u64, begin: Instant) {
        for (number, flow) in (0..).zip(&mut self.streams) {
            let chance = Chance::new(seed ^ mix(number), self.number);
            flow.schedule = match (&flow.pace, flow.rate) {
                (Some(pace), _) => {
                    let pace = Arc::clone(pace);
                    Some(Schedule::paced(pace, chance, begin, self.window.start))
                }
                (None, rate) => rate.map(|rate| Schedule::new(rate, chance, begin)),
            };
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
        loop {
            let at = now();
            let last = self.window.end.max(self.heard) + self.answer_wait;
            self.ask_what_is_due(at);
            if at >= self.window.end && !self.is_ending {
                self.end();
            }
            self.report_seconds(at);
            if self.is_done(at) {
                return Ok(());
            }
            if at >= last {
                self.give_up();
                return Ok(());
            }
            let pause = self.next_moment(at, last).saturating_duration_since(at);
            events.clear();
            wait(&self.epoll, &mut events, pause)?;
            for event in &events {
                let data = event.data.u64();
                if data == HALT {
                    self.heed_halt();
                } else {
                    self.ready((data >> 1) as usize, (data & 1) as usize, event.flags);
                }
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
            // The quiet end of a recorded day is a part of it.
            Some(_) if flow.pace.is_some() => at >= self.window.end,
            Some(schedule) => schedule.due >= self.window.end,
            None => at >= self.window.end,
        };
        self.open == 0 || self.streams.iter().all(is_over)
    }

    /// When there is something to do even if no answer comes.
    fn next_moment(&self, at: Instant, last: Instant) -> Instant {
        let second = self.window.start + Duration::from_secs(self.reported + 1);
        let end = if self.is_ending { last } else { self.window.end };
        let mut next = end.min(second);
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
        let (end, server) = (self.window.end, client.server);
        let mut begun = at;
        let mut is_over = flow.is_over || (at >= end && flow.schedule.is_none());
        if let Some(schedule) = &mut flow.schedule
            && !is_over
        {
            skip(schedule, flow.latency_limit, at, end, |count| {
                let kind = flow.work.kind_of(0);
                let tally = kind.and_then(|kind| self.tallies.at(Place { server, kind }));
                tally.into_iter().for_each(|tally| tally.counts.skipped += count);
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
        let since = begun.saturating_duration_since(self.window.start);
        let turn = if is_over { None } else { flow.work.next(since) };
        flow.is_over |= !is_over && turn.is_none();
        let turn = match turn {
            Some(turn) => turn,
            None if at >= end || flow.is_over => match flow.work.next_removal() {
                Some(turn) => turn,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        let waiting = Waiting::new(client.send_id(), turn, begun);
        ask(client, flow, waiting, &mut self.outgoing, &mut self.tallies)?;
        self.under_way += 1;
        Ok(())
    }

    /// What was not answered in time will not be.
    fn give_up(&mut self) {
        let seconds = self.answer_wait.as_secs();
        let late =
            || Failure::refused(format!("the server left requests unanswered for {seconds} s"));
        for client in 0..self.clients.len() {
            if self.clients.get(client).is_some_and(|client| !client.waiting.is_empty()) {
                self.lose(client, late());
            }
        }
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
        let deltas = self.tallies.take();
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

/// Passes over what is too late to be sent.
fn skip(
    schedule: &mut Schedule,
    limit: LatencyLimit,
    at: Instant,
    end: Instant,
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

/// Waits for events, at the most so long. `epoll_pwait` counts in whole milliseconds, rounded up:
/// what is due in between would be late. So it waits for those that are whole, and what is left is
/// waited for by `ppoll`, which counts in nanoseconds.
fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>, pause: Duration) -> Result<(), Failure> {
    let whole = Duration::from_millis(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
    if whole.is_zero() && !pause.is_zero() {
        let mut ready = [PollFd::new(epoll, PollFlags::IN)];
        let timeout = Timespec::try_from(pause).ok();
        unless_interrupted(rustix::event::poll(&mut ready, timeout.as_ref()))?;
    }
    let timeout = Timespec::try_from(whole).ok();
    unless_interrupted(epoll::wait(epoll, spare_capacity(events), timeout.as_ref()))
}

fn unless_interrupted(waited: Result<usize, Errno>) -> Result<(), Failure> {
    match waited {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(broken("epoll", error)),
    }
}

fn broken(what: &str, error: Errno) -> Failure {
    Failure::local(format!("{what} failed: {}", crate::failure::plain(&error.into())))
}

/// The longest wait for one more answer when the time of a run is over.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// How long after the end requests are sent that were due before it.
const DRAIN: Duration = Duration::from_secs(5);
/// What epoll says of the halt: no socket has this number.
const HALT: u64 = u64::MAX;
/// Events taken at a time.
const EVENTS_MAX: usize = 512;
/// Octets read at a time.
const READ_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    use ldap::ber::{Frame, frame};
    use ldap::message::{Controls, DecodeLimits, LdapResult, Message, Request, Response};
    use ldap::result::ResultCode;

    use super::super::jobs;
    use super::super::plan::{Part, Stream};
    use super::super::wire::Socket;
    use super::super::work::Turns;
    use super::*;

    /// A server that adds at once, and takes its time for each delete.
    fn serve(mut stream: UnixStream, delete: Duration) {
        let (mut incoming, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            while let Ok(Frame::Complete(length)) = frame(&incoming, 1 << 20) {
                let octets: Vec<u8> = incoming.drain(..length).collect();
                let limits = DecodeLimits::default();
                let message = Message::<Request<'_>>::decode(&octets, &limits).unwrap();
                let done = LdapResult::new(ResultCode::Success);
                let op = match message.op {
                    Request::Add(_) => Response::Add(done),
                    Request::Delete(_) => {
                        super::super::run::pause(delete);
                        Response::Delete(done)
                    }
                    _ => return,
                };
                let mut out = Vec::new();
                Message { id: message.id, op, controls: Controls::EMPTY }.encode(&mut out);
                if stream.write_all(&out).is_err() {
                    return;
                }
            }
            match stream.read(&mut buffer) {
                Ok(read) if read > 0 => incoming.extend_from_slice(&buffer[..read]),
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// `--remove` gave up in the middle, 30 s after the end of the run, however fast the server
    /// deleted: the wait counted from the end, not from the last answer.
    #[test]
    fn removing_takes_as_long_as_it_takes() {
        let adds = Stream::of(jobs::add(jobs::people("dc=x", 0)), 1);
        let plan = Plan {
            name: String::new(),
            streams: vec![Stream { count: Some(20), removes: true, ..adds }],
            threads: 1,
            warmup_ms: 0,
            duration_ms: 100,
            seed: 1,
        };
        let (near, far) = UnixStream::pair().unwrap();
        std::thread::spawn(|| serve(far, Duration::from_millis(60)));
        let client =
            Client::new(0, 0, Socket::new(client::ClientStream::Unix(near)).unwrap(), None);
        let stream = &plan.streams[0];
        let work = Work::new(&plan, stream, Arc::new(Turns::new(stream)), Part::WHOLE).unwrap();
        let flow = Flow::new(work, 1, None, stream.latency_limit);
        let (sender, reports) = channel();
        let mut lane = Lane::new(&plan, 0, 1, vec![flow], vec![client], sender).unwrap();
        // Half as long as the deletes take together.
        lane.answer_wait = Duration::from_millis(600);
        let (go, word) = channel();
        go.send(now()).unwrap();
        lane.run(&plan, &word);
        let (mut made, mut errors) = (0, 0);
        for report in reports {
            match report {
                Report::Second { deltas, .. } => {
                    made += deltas.iter().map(|(_, delta)| delta.counts.made).sum::<u64>();
                    errors += deltas.iter().map(|(_, delta)| delta.counts.errors).sum::<u64>();
                }
                Report::End(end) => {
                    assert!(end.failure.is_none() && end.lost.is_empty(), "{end:?}");
                }
            }
        }
        assert_eq!((made, errors), (40, 0));
    }

    /// At a rate, all latencies were half a millisecond too long on average, and up to a whole one:
    /// the wait for the next moment was rounded up to milliseconds.
    #[test]
    fn a_wait_ends_within_its_millisecond() {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let waited = |pause: Duration| {
            let begin = now();
            wait(&epoll, &mut Vec::with_capacity(1), pause).unwrap();
            begin.elapsed()
        };
        let pause = Duration::from_micros(200);
        let least = (0..50).map(|_| waited(pause)).min().unwrap();
        assert!((pause..Duration::from_micros(900)).contains(&least), "{least:?}");
        // Of a longer one only the whole milliseconds: the rest is asked for anew.
        let least = (0..5).map(|_| waited(Duration::from_micros(3_900))).min().unwrap();
        assert!(least < Duration::from_micros(3_900), "{least:?}");
    }
}
