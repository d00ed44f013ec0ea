//! The journal's thread: gathers what waits into groups, writes and syncs them, in order.
//!
//! What always holds: a group is written with one write at the end of the log; nothing is
//! written behind a group whose write or sync failed; callbacks come in the order of the calls.
//! What waits for room keeps its place: nothing is written before it but purges.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use crate::format::{
    BLOCK_BYTES, Frame, GROUP_ALIGN_BYTES, GROUP_HEADER_BYTES, GroupWriter, Kind, Record, Stream,
    record_bytes,
};
use crate::log::{Log, Position};
use crate::scan::{Mark, Opened};
use crate::segment::Segment;
use crate::shared::{Counters, Shared, State};
use crate::{Appended, Done, Durability, JournalError, JournalPosition};

/// A group is not gathered beyond this, in bytes; a single append may be larger.
const GROUP_BYTES: u64 = 4 * 1024 * 1024;
/// Largest single append, in bytes.
pub(crate) const APPEND_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// What the journal's thread is asked to do.
pub(crate) enum Command {
    Append {
        entries: Vec<Appended>,
        durability: Durability,
        done: Done,
    },
    Control {
        control: Control,
        answer: Sender<Result<(), JournalError>>,
    },
    Committed(JournalPosition),
    /// How often to look for room where there is none; `None` gives up at once.
    WaitForRoom(Option<Duration>),
}

impl Command {
    fn is_purge(&self) -> bool {
        matches!(self, Self::Control { control: Control::Purge(_), .. })
    }

    /// Whether entries that are written may be void after it.
    fn is_cut(&self) -> bool {
        let is_cut =
            |control: &Control| matches!(control, Control::Truncate(..) | Control::Reset(..));
        matches!(self, Self::Control { control, .. } if is_cut(control))
    }
}

/// What is written and synced on its own.
pub(crate) enum Control {
    Vote(Vec<u8>),
    Purge(JournalPosition),
    /// The last entry that stays, and whether it is one (and not the place before the first).
    Truncate(JournalPosition, bool),
    /// With the index of the first entry, and the last one that was purged if there was any.
    Reset(u64, Option<JournalPosition>),
}

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: u64,
    /// Everything before is synced.
    pub(crate) durable: u64,
    pub(crate) previous: u32,
    pub(crate) stamp: u64,
    pub(crate) is_sealed: bool,
}

impl Tail {
    fn stream(&self) -> Stream {
        self.segment.opened.stream
    }

    /// Where the next group begins: never in a block that holds synced bytes.
    fn start(&self) -> u64 {
        let unit = if self.end == self.durable { BLOCK_BYTES } else { GROUP_ALIGN_BYTES };
        self.end.next_multiple_of(unit)
    }

    /// Whether a group of `bytes` fits, with a block to spare for the seal.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let end = (self.start() + bytes).next_multiple_of(BLOCK_BYTES);
        !self.is_sealed && end + BLOCK_BYTES <= self.segment.opened.len
    }
}

/// The writing side of a journal.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) ahead: Ahead,
    pub(crate) tail: Tail,
    queue: VecDeque<Command>,
    group: GroupWriter,
    committed: Option<JournalPosition>,
    /// Whether a mark says already that all is synced.
    is_marked: bool,
    /// Since when there is something that was only written.
    unsynced_since: Option<Instant>,
    /// How often what finds no room looks for it again; `None`: it fails.
    room_every: Option<Duration>,
}

/// The segment that comes next, made by another thread.
pub(crate) struct Ahead {
    /// To the thread that makes segments: which, and how long at least.
    pub(crate) wanted: Sender<(u64, u64)>,
    pub(crate) made: Receiver<Result<Opened, JournalError>>,
    pub(crate) ready: Option<Opened>,
    pub(crate) is_asked: bool,
}

impl Ahead {
    fn ask(&mut self, sequence: u64, bytes: u64) {
        if self.ready.is_none() && !self.is_asked {
            self.is_asked = self.wanted.send((sequence, bytes)).is_ok();
        }
    }

    /// The next segment, at least `bytes` long; waits for it when it is not made yet.
    fn take(&mut self, sequence: u64, bytes: u64) -> Result<Opened, JournalError> {
        for _ in 0..2 {
            self.ask(sequence, bytes);
            if self.is_asked {
                self.is_asked = false;
                match self.made.recv() {
                    Ok(Ok(opened)) => self.ready = Some(opened),
                    // It was tried long ago, or is: space may have come back meanwhile.
                    Ok(Err(_)) => {}
                    Err(_) => return Err(JournalError::Closed),
                }
            }
            if let Some(opened) = self.ready.take().filter(|opened| opened.len >= bytes) {
                return Ok(opened);
            }
        }
        self.ask(sequence, bytes);
        self.is_asked = false;
        self.made.recv().unwrap_or(Err(JournalError::Closed))
    }
}

/// An append, and what comes of it unless the group fails.
struct Taken {
    entries: Vec<Appended>,
    durability: Durability,
    done: Done,
    outcome: Result<JournalPosition, JournalError>,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        commands: Receiver<Command>,
        ahead: Ahead,
        tail: Tail,
    ) -> Self {
        Self {
            shared,
            commands,
            ahead,
            tail,
            queue: VecDeque::new(),
            group: GroupWriter::default(),
            committed: None,
            is_marked: true,
            unsynced_since: None,
            room_every: None,
        }
    }

    /// Runs until the journal is closed.
    pub(crate) fn run(mut self) {
        self.ask_ahead();
        while self.gather() {
            match self.queue.pop_front() {
                Some(Command::Committed(place)) => self.committed = Some(place),
                Some(Command::WaitForRoom(every)) => self.room_every = every,
                Some(Command::Control { control, answer }) => {
                    let done = self.carry_out(&control);
                    if self.waits(&done) {
                        self.queue.push_front(Command::Control { control, answer });
                        self.wait_for_room();
                        continue;
                    }
                    if self.room_every.is_some() && done.is_ok() {
                        self.shared.state().is_full = false;
                    }
                    // Who asked may have gone.
                    let _ = answer.send(done);
                }
                Some(append @ Command::Append { .. }) => {
                    self.queue.push_front(append);
                    self.appends();
                }
                None => self.idle(),
            }
            self.sync_overdue();
        }
        self.idle();
        self.mark();
        let _ = self.sync();
    }

    /// Waits for work unless there is some, and takes all there is; false when nobody is left.
    fn gather(&mut self) -> bool {
        if self.queue.is_empty() {
            let is_idle =
                self.is_marked && self.committed.is_none() && self.tail.end == self.tail.durable;
            let received = if is_idle || self.shared.check().is_err() {
                self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.commands.recv_timeout(self.shared.files.options.lazy_sync)
            };
            match received {
                Ok(command) => self.queue.push_back(command),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        self.queue.extend(self.commands.try_iter());
        true
    }

    /// Whether something found no room and is to wait for it.
    fn waits<T>(&self, outcome: &Result<T, JournalError>) -> bool {
        self.room_every.is_some() && matches!(outcome, Err(JournalError::NoSpace { .. }))
    }

    /// Waits until it is time to look for room again, or nothing waits any more. Only purges are
    /// carried out meanwhile: they may be what makes room.
    fn wait_for_room(&mut self) {
        self.shared.state().is_full = true;
        self.queue.extend(self.commands.try_iter());
        let until = now() + self.room_every.unwrap_or_default();
        let mut is_news = true;
        loop {
            // Much may wait: it is looked through only for what can be done.
            if std::mem::take(&mut is_news) {
                let is_given_up = |command: &Command| matches!(command, Command::WaitForRoom(None));
                if self.queue.iter().any(is_given_up) {
                    break;
                }
                self.purge_early();
            }
            match self.commands.recv_deadline(until) {
                Ok(command) => {
                    is_news = command.is_purge() || matches!(command, Command::WaitForRoom(_));
                    self.keep(command);
                }
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.room_every = None;
    }

    /// Has a command wait for its turn. Of places committed the last one counts.
    fn keep(&mut self, command: Command) {
        if matches!(command, Command::Committed(_))
            && let Some(last @ Command::Committed(_)) = self.queue.back_mut()
        {
            *last = command;
        } else {
            self.queue.push_back(command);
        }
    }

    /// Carries out the purges that wait: they are of entries that are written.
    fn purge_early(&mut self) {
        if self.queue.iter().any(Command::is_cut) {
            return;
        }
        while let Some(at) = self.queue.iter().position(Command::is_purge)
            && let Some(Command::Control { control, answer }) = self.queue.remove(at)
        {
            let done = self.carry_out(&control);
            if self.waits(&done) {
                return self.queue.insert(at, Command::Control { control, answer });
            }
            // Who asked may have gone.
            let _ = answer.send(done);
        }
    }

    /// After a while without work: syncs what was only written, then notes that all is synced.
    fn idle(&mut self) {
        if self.shared.check().is_err() {
            return;
        }
        if self.committed.is_some() {
            // Its loss would cost nothing: the next group has it again.
            let _ = self.single(Kind::Mark, JournalPosition::default(), &[]);
        }
        if self.tail.end != self.tail.durable {
            let _ = self.sync();
        } else if !self.is_marked {
            self.mark();
        }
    }

    /// Syncs what was only written when that is long ago. Where such writes come all the time there
    /// is never a while without work.
    fn sync_overdue(&mut self) {
        if self.tail.end == self.tail.durable {
            return;
        }
        let since = *self.unsynced_since.get_or_insert_with(now);
        if since.elapsed() >= self.shared.files.options.lazy_sync {
            // Whoever writes next hears of a failure.
            let _ = self.sync();
        }
    }

    /// Writes that all before is synced: damage to it is then never taken for a torn tail.
    fn mark(&mut self) {
        let bytes = self.overhead() + record_bytes(0);
        if !self.is_marked && self.tail.has_room(bytes) && self.sync().is_ok() {
            let _ = self.single(Kind::Mark, JournalPosition::default(), &[]);
        }
        self.is_marked = true;
    }

    /// Writes the state with which the first segment begins, durably.
    pub(crate) fn mark_beginning(&mut self) -> Result<(), JournalError> {
        self.begin();
        self.put(None)?;
        self.sync()
    }

    /// Notes durably that a torn tail of `bytes` was cut here.
    pub(crate) fn cut(&mut self, bytes: u64) -> Result<(), JournalError> {
        if self.tail.has_room(self.overhead() + record_bytes(8)) {
            let place = self.shared.state().log.state_place();
            self.single(Kind::Cut, place, &bytes.to_le_bytes())?;
        }
        self.sync()
    }

    /// Writes one record as a group, without a sync.
    fn single(
        &mut self,
        kind: Kind,
        place: JournalPosition,
        payload: &[u8],
    ) -> Result<(), JournalError> {
        self.room(record_bytes(payload.len()))?;
        self.group.record(kind, place, payload);
        let log = self.shared.state().log.clone();
        self.write(log, &Record { kind, place, payload })
    }

    /// Writes the appends at the head of the queue as one group.
    fn appends(&mut self) {
        let mut all: Vec<Taken> = Vec::new();
        let (mut next, mut last) = {
            let state = self.shared.state();
            (state.log.next, state.log.last)
        };
        let mut count = 0;
        let mut first = None;
        let mut is_synced = false;
        let poisoned = self.shared.check();
        self.group.begin();
        while self.group.bytes() < GROUP_BYTES
            && let Some(command) = self.queue.pop_front()
        {
            let Command::Append { entries, durability, done } = command else {
                self.queue.push_front(command);
                break;
            };
            let checked = poisoned.clone().and_then(|()| self.check(&entries, next, last));
            let made = match checked {
                Ok(bytes) if count == 0 && bytes > 0 => self.room(bytes),
                Ok(bytes) if bytes > 0 && !self.tail.has_room(self.group.bytes() + bytes) => {
                    self.queue.push_front(Command::Append { entries, durability, done });
                    break;
                }
                checked => checked.map(|_| ()),
            };
            is_synced |= made.is_ok() && durability == Durability::Synced;
            if let Err(error) = made {
                let outcome = Err(error);
                let waits = self.waits(&outcome);
                all.push(Taken { entries, durability, done, outcome });
                if waits {
                    return self.put_back(all);
                }
                continue;
            }
            for entry in &entries {
                self.group.record(Kind::Entry, entry.place, &entry.payload);
                first.get_or_insert(entry.place.index);
                last = Some(entry.place);
                next = entry.place.index + 1;
            }
            count += entries.len() as u64;
            all.push(Taken { entries, durability, done, outcome: Ok(last.unwrap_or_default()) });
        }
        let written = match first {
            Some(first) => self.write_entries(first, next, last, count),
            None => Ok(()),
        };
        if self.waits(&written) {
            return self.put_back(all);
        }
        let outcome = written.and_then(|()| if is_synced { self.sync() } else { Ok(()) });
        self.answer(all, &outcome);
    }

    /// Has appends that found no room wait for it: nothing of them is written.
    fn put_back(&mut self, all: Vec<Taken>) {
        for Taken { entries, durability, done, .. } in all.into_iter().rev() {
            self.queue.push_front(Command::Append { entries, durability, done });
        }
        self.wait_for_room();
    }

    /// Tells what came of the appends of a group.
    fn answer(&self, all: Vec<Taken>, written: &Result<(), JournalError>) {
        for Taken { done, outcome, .. } in all {
            let answer = match written {
                Ok(()) => outcome,
                Err(error) => outcome.and(Err(error.clone())),
            };
            // A callback that panics has lost its own state, but must not stop those behind it.
            if catch_unwind(AssertUnwindSafe(|| done(answer))).is_err() {
                self.shared.poison("a callback of an append panicked".to_owned());
            }
        }
    }

    /// Whether entries may follow; how many bytes they take.
    fn check(
        &self,
        entries: &[Appended],
        mut next: u64,
        last: Option<JournalPosition>,
    ) -> Result<u64, JournalError> {
        let mut term = last.map_or(0, |last| last.term);
        let mut bytes = 0;
        let limit = self.shared.files.options.record_max_bytes;
        for entry in entries {
            if entry.place.index != next || entry.place.term < term || next == u64::MAX {
                return Err(JournalError::OutOfOrder { expected: next, found: entry.place });
            }
            if entry.payload.len() > limit as usize {
                return Err(JournalError::TooLarge {
                    what: "an entry",
                    bytes: entry.payload.len() as u64,
                    limit_bytes: u64::from(limit),
                });
            }
            term = entry.place.term;
            next += 1;
            bytes += record_bytes(entry.payload.len());
        }
        if bytes > APPEND_MAX_BYTES {
            let what = "an append";
            return Err(JournalError::TooLarge { what, bytes, limit_bytes: APPEND_MAX_BYTES });
        }
        Ok(bytes)
    }

    /// Begins a group for records of `bytes`, in the next segment if they don't fit in this.
    fn room(&mut self, bytes: u64) -> Result<(), JournalError> {
        if !self.tail.has_room(self.overhead() + bytes) {
            let rolled = self.roll(bytes);
            self.shared.state().is_full = matches!(rolled, Err(JournalError::NoSpace { .. }));
            rolled?;
        }
        self.begin();
        Ok(())
    }

    /// Bytes of a group besides the records that are put into it.
    fn overhead(&self) -> u64 {
        let is_new = self.tail.end == BLOCK_BYTES;
        let state = if is_new { self.shared.state().log.encode().len() } else { 0 };
        GROUP_HEADER_BYTES as u64 + record_bytes(state) + record_bytes(0)
    }

    /// Begins a group with what must be in it: the state in a new segment, the committed place.
    fn begin(&mut self) {
        self.group.begin();
        if self.tail.end == BLOCK_BYTES {
            let log = &self.shared.state().log;
            self.group.record(Kind::State, log.state_place(), &log.encode());
        }
        if let Some(place) = self.committed {
            self.group.record(Kind::Committed, place, &[]);
        }
    }

    /// Seals the segment and goes on in the next, which has room for records of `bytes`.
    fn roll(&mut self, bytes: u64) -> Result<(), JournalError> {
        let next = self.next_segment(bytes)?;
        if !self.tail.is_sealed {
            self.begin();
            let place = self.shared.state().log.state_place();
            self.group.record(Kind::Seal, place, &[]);
            let log = self.shared.state().log.clone();
            let sealed = self.write(log, &Record { kind: Kind::Seal, place, payload: &[] });
            if let Err(error) = sealed {
                self.ahead.ready = Some(next);
                return Err(error);
            }
            self.tail.is_sealed = true;
        }
        self.sync()?;
        let first = self.shared.state().log.next;
        self.switch(next, first, |state, segment| state.segments.push(segment));
        Ok(())
    }

    fn next_segment(&mut self, bytes: u64) -> Result<Opened, JournalError> {
        let sequence = self.tail.segment.sequence() + 1;
        let state = self.shared.state().log.encode().len();
        let records = record_bytes(state) + record_bytes(0) + bytes;
        let groups = (GROUP_HEADER_BYTES as u64 + records).next_multiple_of(BLOCK_BYTES);
        self.ahead.take(sequence, BLOCK_BYTES + groups + BLOCK_BYTES)
    }

    fn switch(&mut self, next: Opened, first: u64, change: impl FnOnce(&mut State, Arc<Segment>)) {
        let previous = next.chain;
        let segment = Arc::new(Segment::new(next, first, Some(Vec::new())));
        change(&mut self.shared.state(), Arc::clone(&segment));
        let stamp = self.tail.stamp;
        let (end, durable) = (BLOCK_BYTES, BLOCK_BYTES);
        self.tail = Tail { segment, end, durable, previous, stamp, is_sealed: false };
        self.ask_ahead();
    }

    fn ask_ahead(&mut self) {
        self.ahead.ask(self.tail.segment.sequence() + 1, 0);
    }

    fn write_entries(
        &mut self,
        first: u64,
        next: u64,
        last: Option<JournalPosition>,
        count: u64,
    ) -> Result<(), JournalError> {
        let (mark, committed) = self.put(Some(first))?;
        self.tail.segment.mark(mark);
        let mut state = self.shared.state();
        state.log.next = next;
        state.log.last = last;
        state.log.committed = committed.or(state.log.committed);
        state.is_full = false;
        drop(state);
        Counters::add(&self.shared.counters.appended, count);
        Ok(())
    }

    /// Writes the group, which ends with `record`, and applies it to the log as it was.
    fn write(&mut self, mut log: Log, record: &Record<'_>) -> Result<(), JournalError> {
        let (mark, committed) = self.put(None)?;
        let from = Position { sequence: self.tail.segment.sequence(), offset: mark.offset };
        log.committed = committed.or(log.committed);
        let applied = log.apply(record, from);
        self.shared.state().log = log;
        applied.map_err(|reason| self.shared.poison(reason))
    }

    /// Writes the group at the end of the log; where, and the committed place it holds.
    fn put(&mut self, first: Option<u64>) -> Result<(Mark, Option<JournalPosition>), JournalError> {
        let (stream, offset) = (self.tail.stream(), self.tail.start());
        // Each attempt has a stamp of its own: parts of two never pass for one group.
        self.tail.stamp += 1;
        let (previous, stamp) = (self.tail.previous, self.tail.stamp);
        let end = offset + self.group.bytes();
        let frame = Frame { offset, synced: self.tail.durable, stamp, previous };
        let (checksum, bytes) = self.group.finish(stream, frame);
        let (written_bytes, written) =
            (bytes.len() as u64, self.tail.segment.opened.file.write_at(bytes, offset));
        self.group.shrink(GROUP_BYTES as usize);
        if let Err(error) = written {
            let error = JournalError::io(&self.tail.segment.opened.name, &error);
            let is_full = matches!(error, JournalError::NoSpace { .. });
            self.shared.state().is_full = is_full;
            if is_full {
                self.take_back(offset)?;
                return Err(error);
            }
            return Err(self.shared.poison(error.to_string()));
        }
        self.tail.end = end;
        self.tail.previous = checksum;
        self.is_marked = false;
        Counters::add(&self.shared.counters.groups, 1);
        Counters::add(&self.shared.counters.written_bytes, written_bytes);
        let mark = Mark { index: first.unwrap_or(0), offset, previous, stamp: stamp - 1 };
        Ok((mark, self.committed.take()))
    }

    /// Has nothing that counts at `offset`, where a group was written in part for want of space:
    /// who appended it is told that it is not there, and it may lack no more than zeros at its end.
    /// When this fails, nobody knows.
    fn take_back(&self, offset: u64) -> Result<(), JournalError> {
        let file = &self.tail.segment.opened.file;
        let taken = file.write_at(&[0; GROUP_HEADER_BYTES], offset).and_then(|()| file.sync());
        taken.map_err(|error| {
            self.shared.poison(format!("a part of a group could not be revoked: {error}"))
        })
    }

    /// Makes all that was written durable.
    fn sync(&mut self) -> Result<(), JournalError> {
        self.shared.check()?;
        if self.tail.end == self.tail.durable {
            return Ok(());
        }
        let name = &self.tail.segment.opened.name;
        let begin = now();
        // Whatever it says: after a failed sync nobody knows what is on the medium.
        self.tail
            .segment
            .opened
            .file
            .sync()
            .map_err(|error| self.shared.poison(format!("the sync of {name} failed: {error}")))?;
        self.shared.counters.synced(begin.elapsed());
        self.tail.durable = self.tail.end;
        self.unsynced_since = None;
        self.shared.state().synced();
        Ok(())
    }

    /// Does what is written and synced on its own; nothing of it is there if there is no room.
    fn carry_out(&mut self, control: &Control) -> Result<(), JournalError> {
        self.shared.check()?;
        match control {
            Control::Vote(vote) => self.single(Kind::Vote, JournalPosition::default(), vote)?,
            Control::Purge(place) => self.single(Kind::Purge, *place, &[])?,
            Control::Truncate(after, is_entry) => {
                let payload: &[u8] = if *is_entry { &[1] } else { &[] };
                self.single(Kind::Truncate, *after, payload)?;
            }
            Control::Reset(first, purged) => return self.reset(*first, *purged),
        }
        self.sync()
    }

    /// Begins a new log in the next segment; those before it are not of it.
    fn reset(&mut self, first: u64, purged: Option<JournalPosition>) -> Result<(), JournalError> {
        // Until the new log is durable a power cut finds its segment without a group, and the one
        // made ahead: a third, which this one would be, is taken for a loss.
        if self.tail.end == BLOCK_BYTES {
            self.single(Kind::Mark, JournalPosition::default(), &[])?;
        }
        let next = self.next_segment(0)?;
        self.sync()?;
        let vote = self.shared.state().log.vote.clone();
        let log = Log { vote, purged, ..Log::new(first, next.stream.sequence) };
        self.committed = None;
        let mut old = Vec::new();
        self.switch(next, first, |state, segment| {
            old = std::mem::replace(&mut state.segments, vec![segment]);
            state.log = log;
            state.durable = None;
        });
        self.begin();
        // The old log is no longer open, and the new one not there: no way to go on.
        self.put(None)
            .and_then(|_| self.sync())
            .map_err(|error| self.shared.poison(error.to_string()))?;
        // Those that stay are of no log: they go when the journal is opened.
        self.shared.files.recycle(|| old, drop)
    }
}

/// The time by which lazy writes are synced.
#[allow(clippy::disallowed_methods, reason = "what is written does not depend on it")]
fn now() -> Instant {
    Instant::now()
}
