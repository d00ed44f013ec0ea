//! Reading entries while others are appended.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::format::Kind;
use crate::log::{Log, Position, Run};
use crate::scan::Scan;
use crate::segment::{Segment, first_readable, locate};
use crate::{JournalError, LogEntry};

/// The entries from an index up to the last one at the time of the call, in order.
///
/// Segments that are purged meanwhile stay readable through it.
#[derive(Debug)]
pub struct Entries {
    /// Those not yet begun.
    segments: VecDeque<Arc<Segment>>,
    present: Option<(Arc<Segment>, Scan)>,
    /// The present one, and those after it.
    runs: VecDeque<Run>,
    want: u64,
    until: u64,
    ready: VecDeque<LogEntry>,
}

impl Entries {
    /// Reads from `from` up to what `log` has now.
    pub(crate) fn new(
        log: &Log,
        segments: &[Arc<Segment>],
        from: u64,
    ) -> Result<Self, JournalError> {
        let first = first_readable(log, segments);
        if from < first {
            return Err(JournalError::Gone { first });
        }
        let mut entries = Self {
            segments: VecDeque::new(),
            present: None,
            runs: VecDeque::new(),
            want: from,
            until: log.next,
            ready: VecDeque::new(),
        };
        let at = locate(log, segments, from);
        if from < log.next
            && let Some((run, _)) = log.run(from)
            && let Some(segments) = at.and_then(|at| segments.get(at..))
            && let Some((segment, later)) = segments.split_first()
        {
            entries.runs = log.runs.iter().copied().filter(|one| one.first >= run.first).collect();
            let is_here = run.from.sequence == segment.sequence();
            let mut scan = segment.opened.scan();
            if let Some(mark) = segment.find(from, if is_here { run.from.offset } else { 0 })? {
                scan.skip_to(&mark);
            }
            entries.present = Some((Arc::clone(segment), scan));
            entries.segments = later.iter().cloned().collect();
        }
        Ok(entries)
    }

    /// Takes the entries that are wanted from the next group.
    fn advance(&mut self) -> Result<(), JournalError> {
        let (segment, scan) = match &mut self.present {
            Some(present) => present,
            None => {
                let segment = self.segments.pop_front().ok_or(JournalError::Missing)?;
                let scan = segment.opened.scan();
                self.present.insert((segment, scan))
            }
        };
        if let Some(end) = scan.advance()? {
            let reason = format!("{}, while it was read", end.reason);
            return Err(segment.opened.damage(end.offset, Some(self.want), reason));
        }
        let at = Position { sequence: segment.sequence(), offset: scan.start() };
        let mut is_sealed = false;
        for record in scan.records() {
            is_sealed |= record.kind == Kind::Seal;
            if record.kind != Kind::Entry
                || record.place.index != self.want
                || self.want >= self.until
                // Of a run that was cut off before this one begins.
                || self.runs.front().is_some_and(|run| at < run.from)
            {
                continue;
            }
            self.ready
                .push_back(LogEntry { place: record.place, payload: record.payload.to_vec() });
            self.want += 1;
            if self.runs.get(1).is_some_and(|next| self.want >= next.first) {
                self.runs.pop_front();
            }
        }
        if is_sealed {
            self.present = None;
        }
        Ok(())
    }
}

impl Iterator for Entries {
    type Item = Result<LogEntry, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(Ok(entry));
            }
            if self.want >= self.until {
                return None;
            }
            if let Err(error) = self.advance() {
                self.until = self.want;
                return Some(Err(error));
            }
        }
    }
}
