//! Finding out what a directory of segments holds. Reads only; opening acts upon it.
//!
//! The groups are followed from the beginning of the newest segment that holds one. Where they
//! end, it is decided what a damaged group means: if groups further on say that its place had
//! been synced when they were written, or if the log goes on in another segment, no power cut
//! explains it, and nothing may be cut. Else it was never reported as synced: a torn tail.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::format::{BLOCK_BYTES, Kind};
use crate::log::{Log, Position};
use crate::scan::{End, HINT, Mark, Opened, Remains, Scan, segment_name, segment_sequence};
use crate::segment::{Segment, locate, marks_of};
use crate::{Damage, Disk, JournalError, TornTail};

/// How far back everything is checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reach {
    /// Segments that recovery needs.
    Needed,
    /// All segments.
    All,
}

/// What a directory holds.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) log: Log,
    /// Oldest first; the last one is written next.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Segments made ahead, without a group; the oldest is the next one.
    pub(crate) prepared: Vec<Opened>,
    /// Files of segments that are of no use any more.
    pub(crate) leftovers: Vec<String>,
    pub(crate) tail: LoadedTail,
    pub(crate) torn: Option<TornTail>,
    /// Damage before what recovery needs.
    pub(crate) damaged_history: Option<Damage>,
    pub(crate) checked: Checked,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct LoadedTail {
    /// The end of the last group.
    pub(crate) end: u64,
    /// Its checksum.
    pub(crate) previous: u32,
    /// The greatest stamp anywhere near the end.
    pub(crate) stamp: u64,
    /// Whether the segment is sealed, so that the log goes on in the next.
    pub(crate) is_sealed: bool,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Checked {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Finds out what `disk` holds for the store `id`; `progress` hears of bytes and their total.
pub(crate) fn load(
    disk: &dyn Disk,
    id: [u8; 16],
    reach: Reach,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Loaded, JournalError> {
    let (mut older, mut leftovers) = open_segments(disk, id)?;
    let before_gap = leftovers.iter().filter_map(|name| segment_sequence(name)).max();
    let total = older.iter().map(|opened| opened.len).sum();
    let mut prepared = Vec::new();
    let mut torn = None;
    let mut stamp = 0;
    let active = loop {
        let Some(newest) = older.pop() else {
            return Err(no_log(&prepared, &leftovers));
        };
        newest.check_length()?;
        let Some(remains) = no_group(&newest)? else {
            break newest;
        };
        if remains.end > 0 {
            torn = Some(torn_tail(&newest, BLOCK_BYTES, remains.end));
        }
        stamp = remains.stamp.max(stamp);
        prepared.insert(0, newest);
    };
    // One is made ahead when the one before is begun, and that when the last is full.
    if let Some(empty) = prepared.iter().rev().nth(PREPARED_MAX) {
        return Err(empty.damage(BLOCK_BYTES, None, EMPTY.to_owned()));
    }
    let mut walk = Walk { checked: Checked::default(), total, progress };
    let mut log = Log::default();
    let newest = walk.segment(&active, &mut log, SegmentAge::Newest)?;
    if newest.tail.is_sealed && prepared.is_empty() {
        check_follows(disk, &active, log.next)?;
    }
    let state = newest.state.unwrap_or_else(|| log.clone());
    // Before a reset nothing is of use.
    let before = older.iter().filter(|opened| opened.stream.sequence < log.origin);
    leftovers.extend(before.map(|opened| opened.name.clone()));
    older.retain(|opened| opened.stream.sequence >= log.origin);
    let active = Arc::new(Segment::new(active, state.next, Some(newest.marks)));
    let mut history = walk.history(older, active, (&state, &log), reach)?;
    if history.damage.is_none()
        && let Some(oldest) = history.segments.first().map(|oldest| oldest.sequence())
        && before_gap.is_some_and(|before| before >= log.origin)
    {
        history.damage = Some(lost(oldest.saturating_sub(1), None, GONE_HISTORY));
    }
    leftovers.extend(history.unreadable);
    let mut torn = newest.torn.or(torn);
    if let Some(torn) = &mut torn {
        torn.last = log.last;
    }
    Ok(Loaded {
        log,
        segments: history.segments,
        prepared,
        leftovers,
        tail: LoadedTail { stamp: newest.tail.stamp.max(stamp), ..newest.tail },
        torn,
        damaged_history: history.damage,
        checked: walk.checked,
    })
}

/// That no segment has a group: a creation that did not come to its end leaves the first one so,
/// and nothing else does.
fn no_log(prepared: &[Opened], leftovers: &[String]) -> JournalError {
    JournalError::Damaged(match prepared {
        [] if leftovers.is_empty() => return JournalError::Missing,
        [first] if first.stream.sequence == 1 && leftovers.is_empty() => {
            return JournalError::Missing;
        }
        [first, ..] if first.stream.sequence > 1 => lost(first.stream.sequence - 1, None, GONE),
        [] | [_, ..] => lost(1, None, EMPTY),
    })
}

/// After a sealed segment there is another: it was there, durably, before the seal was written.
fn check_follows(disk: &dyn Disk, sealed: &Opened, next: u64) -> Result<(), JournalError> {
    let sequence = sealed.stream.sequence + 1;
    // Whoever writes the journal may have made it after it was looked which there are.
    match disk.open(&segment_name(sequence), false) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(JournalError::Damaged(lost(sequence, Some(next), GONE)))
        }
        Err(error) => Err(JournalError::io(segment_name(sequence), &error)),
    }
}

/// The damage of a segment that must be there.
fn lost(sequence: u64, index: Option<u64>, reason: &str) -> Damage {
    let (reason, hint) = (reason.to_owned(), HINT.to_owned());
    Damage { segment: segment_name(sequence), offset: 0, index, reason, hint }
}

/// The segments that follow each other up to the newest, oldest first; and files before a gap.
fn open_segments(
    disk: &dyn Disk,
    id: [u8; 16],
) -> Result<(Vec<Opened>, Vec<String>), JournalError> {
    let names = disk.list().map_err(|error| JournalError::io("listing the journal", &error))?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| segment_sequence(name)).collect();
    sequences.sort_unstable();
    let gap = sequences.iter().rev().zip(sequences.iter().rev().skip(1));
    let together = gap.take_while(|(newer, older)| **newer - **older == 1).count() + 1;
    let leftovers = sequences.drain(..sequences.len().saturating_sub(together));
    let leftovers = leftovers.map(segment_name).collect();
    let opened: Result<_, _> =
        sequences.into_iter().map(|sequence| Opened::open(disk, id, sequence)).collect();
    Ok((opened?, leftovers))
}

/// What stands in a segment that does not begin with a valid group; `None` for one that does.
fn no_group(opened: &Opened) -> Result<Option<Remains>, JournalError> {
    let mut scan = opened.scan();
    let Some(end) = scan.advance()? else {
        return Ok(None);
    };
    let remains = scan.remains(end.offset)?;
    if end.unknown_kind.is_none() && remains.durable <= end.offset {
        return Ok(Some(remains));
    }
    scan.forget_buffer();
    if scan.advance()?.is_none() {
        return Ok(None);
    }
    Err(middle(opened, &end, None))
}

/// Whether a segment is the last one of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SegmentAge {
    Newest,
    /// Another one follows, so that it must be whole.
    Older,
}

/// What walking through one segment found.
struct Walked {
    /// The state with which it begins.
    state: Option<Log>,
    marks: Vec<Mark>,
    tail: LoadedTail,
    torn: Option<TornTail>,
}

struct History {
    segments: Vec<Arc<Segment>>,
    unreadable: Vec<String>,
    damage: Option<Damage>,
}

struct Walk<'a> {
    checked: Checked,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Walk<'_> {
    /// Applies all records of a segment to `log`.
    fn segment(
        &mut self,
        opened: &Opened,
        log: &mut Log,
        place: SegmentAge,
    ) -> Result<Walked, JournalError> {
        let mut scan = opened.scan();
        let mut walked =
            Walked { state: None, marks: Vec::new(), tail: LoadedTail::default(), torn: None };
        let before = self.checked.bytes;
        while !walked.tail.is_sealed {
            if let Some(end) = scan.advance()? {
                // It may have been written just when it was looked at first.
                let ended = self.end(opened, &mut scan, &end, place, log.next)?;
                let Some(remains) = ended else { continue };
                if remains.end > end.offset {
                    walked.torn = Some(torn_tail(opened, end.offset, remains.end));
                }
                walked.tail.stamp = remains.stamp;
                break;
            }
            self.group(opened, &scan, log, &mut walked)?;
            self.checked.bytes = before + scan.at();
            (self.progress)(self.checked.bytes, self.total);
        }
        let (previous, stamp) = scan.chain();
        let stamp = stamp.max(walked.tail.stamp);
        walked.tail = LoadedTail { end: scan.at(), previous, stamp, ..walked.tail };
        self.checked.bytes = before + opened.len;
        Ok(walked)
    }

    /// Applies the records of the present group.
    fn group(
        &mut self,
        opened: &Opened,
        scan: &Scan,
        log: &mut Log,
        walked: &mut Walked,
    ) -> Result<(), JournalError> {
        let from = Position { sequence: opened.stream.sequence, offset: scan.start() };
        for record in scan.records() {
            if walked.state.is_none() && record.kind != Kind::State {
                let reason = "the segment does not begin with its state".to_owned();
                return Err(opened.damage(from.offset, None, reason));
            }
            let due = log.next;
            log.apply(&record, from).map_err(|reason| {
                opened.damage(from.offset, Some(due), format!("{reason}, though all is whole"))
            })?;
            match record.kind {
                Kind::State if walked.state.is_none() => walked.state = Some(log.clone()),
                Kind::Entry => self.checked.entries += 1,
                Kind::Seal => walked.tail.is_sealed = true,
                _ => {}
            }
        }
        marks_of(scan, &mut walked.marks);
        Ok(())
    }

    /// Decides what the end of the valid groups means: damage is an error, the rest is given.
    fn end(
        &mut self,
        opened: &Opened,
        scan: &mut Scan,
        end: &End,
        place: SegmentAge,
        next: u64,
    ) -> Result<Option<Remains>, JournalError> {
        let remains = scan.remains(end.offset)?;
        if end.unknown_kind.is_none()
            && place == SegmentAge::Newest
            && remains.durable <= end.offset
        {
            return Ok(Some(remains));
        }
        // Another process may have completed it after it was looked at.
        scan.forget_buffer();
        let (previous, stamp) = scan.chain();
        let mut again = opened.scan();
        again.skip_to(&Mark { index: 0, offset: scan.at(), previous, stamp });
        if again.advance()?.is_none() {
            return Ok(None);
        }
        Err(middle(opened, end, Some(next)))
    }

    /// All segments, of which those before the newest are checked as far as `reach` asks.
    fn history(
        &mut self,
        older: Vec<Opened>,
        newest: Arc<Segment>,
        ends: (&Log, &Log),
        reach: Reach,
    ) -> Result<History, JournalError> {
        let (state, log) = ends;
        let mut history = History { segments: vec![newest], unreadable: Vec::new(), damage: None };
        for opened in older.into_iter().rev() {
            if history.damage.is_some() {
                history.unreadable.push(opened.name);
                continue;
            }
            match first_state(&opened) {
                Ok(state) => {
                    history.segments.insert(0, Arc::new(Segment::new(opened, state.next, None)));
                }
                Err(JournalError::Damaged(damage)) => {
                    history.damage = Some(damage);
                    history.unreadable.push(opened.name);
                }
                Err(error) => return Err(error),
            }
        }
        let needed = log.needed();
        let from = locate(log, &history.segments, needed).ok_or_else(|| {
            let damage = history.damage.clone().unwrap_or_else(|| missing(&history, needed));
            JournalError::Damaged(damage)
        })?;
        let from = if reach == Reach::All { 0 } else { from };
        let count = history.segments.len();
        let mut before = Log::default();
        for segment in history.segments.iter_mut().take(count - 1).skip(from) {
            let opened = segment.opened.clone();
            let walked = self.segment(&opened, &mut before, SegmentAge::Older)?;
            *segment = Arc::new(Segment::new(opened, segment.first, Some(walked.marks)));
        }
        if from + 1 < count
            && !state.continues(&before)
            && let Some(newest) = history.segments.last()
        {
            let reason = "the segment does not continue the one before".to_owned();
            return Err(newest.opened.damage(BLOCK_BYTES, Some(before.next), reason));
        }
        Ok(history)
    }
}

/// The state with which a segment begins.
fn first_state(opened: &Opened) -> Result<Log, JournalError> {
    opened.check_length()?;
    let mut scan = opened.scan();
    if let Some(end) = scan.advance()? {
        return Err(middle(opened, &end, None));
    }
    let state = scan.records().next().filter(|record| record.kind == Kind::State);
    let state = state.and_then(|record| Log::decode(&record));
    state.ok_or_else(|| {
        let reason = "the segment does not begin with its state".to_owned();
        opened.damage(BLOCK_BYTES, None, reason)
    })
}

/// A group that no power cut can have damaged.
fn middle(opened: &Opened, end: &End, index: Option<u64>) -> JournalError {
    let why = match end.unknown_kind {
        Some(kind) => format!("{} ({kind})", end.reason),
        None => format!("{}, and it was written and synced before others", end.reason),
    };
    opened.damage(end.offset, index, why)
}

fn missing(history: &History, needed: u64) -> Damage {
    let oldest = history.segments.first().map_or(1, |oldest| oldest.sequence());
    let reason =
        format!("the file is missing, and recovery begins in it or before it, at {needed}");
    lost(oldest.saturating_sub(1), Some(needed), &reason)
}

fn torn_tail(opened: &Opened, offset: u64, end: u64) -> TornTail {
    let bytes = end.saturating_sub(offset);
    TornTail { segment: opened.name.clone(), offset, bytes, last: None }
}

// Why a segment is lost.
const GONE: &str = "the file is missing, and the log continued in it";
const GONE_HISTORY: &str = "the file is missing; recovery does not need it, backups begin after it";
const EMPTY: &str = "everything in it is lost";

/// No more segments than so many are without a group.
const PREPARED_MAX: usize = 2;
