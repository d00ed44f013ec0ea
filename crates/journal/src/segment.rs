//! Segments: which there are, and where in them an index is found.

use std::sync::{Arc, Mutex, PoisonError};

use crate::JournalError;
use crate::format::Kind;
use crate::log::Log;
use crate::scan::{Mark, Opened, Scan};

/// Distance of the marks from which reading can begin, in bytes of a segment.
pub(crate) const MARK_DISTANCE_BYTES: u64 = 64 * 1024;

/// A segment that holds groups.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) opened: Opened,
    /// The index that was due when the segment began.
    pub(crate) first: u64,
    /// `None` until somebody reads it: old segments are not looked through when opening.
    marks: Mutex<Option<Vec<Mark>>>,
}

impl Segment {
    pub(crate) fn new(opened: Opened, first: u64, marks: Option<Vec<Mark>>) -> Self {
        Self { opened, first, marks: Mutex::new(marks) }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.opened.stream.sequence
    }

    /// Remembers a group, unless another is near.
    pub(crate) fn mark(&self, mark: Mark) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        push_mark(marks.get_or_insert_default(), mark);
    }

    /// The last marked group from `from` on that begins at or before `index`.
    pub(crate) fn find(&self, index: u64, from: u64) -> Result<Option<Mark>, JournalError> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.is_none() {
            *marks = Some(self.look_through()?);
        }
        let marks = marks.as_deref().unwrap_or_default();
        let behind = marks.get(marks.partition_point(|mark| mark.offset < from)..);
        // Within a run indexes grow; behind it they may begin again lower.
        let run = behind.unwrap_or_default().iter().take_while(|mark| mark.index <= index);
        Ok(run.last().copied())
    }

    fn look_through(&self) -> Result<Vec<Mark>, JournalError> {
        let mut scan = self.opened.scan();
        let mut marks = Vec::new();
        // A damaged segment is found out by who reads up to the damage.
        while scan.advance()?.is_none() {
            marks_of(&scan, &mut marks);
        }
        Ok(marks)
    }
}

/// Adds a mark for the present group of `scan` where one is due.
pub(crate) fn marks_of(scan: &Scan, marks: &mut Vec<Mark>) {
    let entry = scan.records().find(|record| record.kind == Kind::Entry);
    if let Some(entry) = entry {
        push_mark(marks, scan.mark(entry.place.index));
    }
}

/// Adds a mark where one is due.
fn push_mark(marks: &mut Vec<Mark>, mark: Mark) {
    let due = marks.last().is_none_or(|last| {
        mark.index <= last.index || mark.offset >= last.offset + MARK_DISTANCE_BYTES
    });
    if due {
        marks.push(mark);
    }
}

/// The segment in which `index` is found, or would be if it is the next.
pub(crate) fn locate(log: &Log, segments: &[Arc<Segment>], index: u64) -> Option<usize> {
    let (run, next) = log.run(index)?;
    let last = next.map_or(u64::MAX, |next| next.from.sequence);
    segments.iter().rposition(|segment| {
        let sequence = segment.sequence();
        let is_inside = sequence > run.from.sequence && sequence <= last && segment.first <= index;
        is_inside || sequence == run.from.sequence
    })
}

/// The first index that can be read.
pub(crate) fn first_readable(log: &Log, segments: &[Arc<Segment>]) -> u64 {
    let Some(oldest) = segments.first() else {
        return log.next;
    };
    for (at, run) in log.runs.iter().enumerate() {
        let end = log.runs.get(at + 1);
        if end.is_some_and(|end| end.from.sequence < oldest.sequence()) {
            continue;
        }
        let first = if run.from.sequence >= oldest.sequence() {
            run.first
        } else {
            oldest.first.max(run.first)
        };
        if end.is_none_or(|end| first < end.first) {
            return first;
        }
    }
    log.next
}
