//! The history as a chain: each record names the number and the hash of the one before it.
//!
//! Invariant: what [`Chain::follow`] accepted follows, without a gap or a fork, from where the
//! chain began.

use history::record::RecordHead;

use super::manifest::Point;
use super::moment::Moment;

/// Where a walk along the records has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    last: Point,
}

/// Why a record does not follow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Break {
    /// It follows another history than the one before it.
    Fork,
    /// It is not the next one, or not a record of this release.
    Wrong(String),
}

impl Chain {
    pub(super) const fn after(last: Point) -> Self {
        Self { last }
    }

    /// The last record.
    pub(super) const fn last(&self) -> Point {
        self.last
    }

    /// Where the chain is after this record.
    pub(super) fn follow(&mut self, record: &[u8]) -> Result<Point, Break> {
        let next = self.last.lsn.saturating_add(1);
        let head = RecordHead::read(record)
            .map_err(|error| Break::Wrong(format!("record {next} cannot be read: {error}")))?;
        if head.lsn.0 != next {
            let found = head.lsn.0;
            return Err(Break::Wrong(format!("record {found} stands where {next} should be")));
        }
        if head.prev_hash != self.last.hash {
            return Err(Break::Fork);
        }
        let time = Moment::from_micros(head.csn.time.0);
        self.last = Point { lsn: next, hash: head.hash, time };
        Ok(self.last)
    }
}

impl Break {
    /// One clause that follows the name of a file.
    pub(super) fn reason(self, at: Point) -> String {
        match self {
            Self::Fork => format!("holds another history: record {} does not follow", at.lsn + 1),
            Self::Wrong(reason) => format!("is not part of this history: {reason}"),
        }
    }
}
