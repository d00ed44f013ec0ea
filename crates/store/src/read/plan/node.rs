//! A filter as lookups: each part with what indexes know of it, before anything long is read.
//!
//! Invariant: the ids that a node stands for are all that its part of the filter can match, and
//! where it is exact no others.

use super::cost::Work;
use super::explain::TermReport;
use crate::index::ids::IdSet;
use crate::read::view::List;

/// More than any number of entries: nothing tells how many.
pub(super) const UNKNOWN: u64 = u64::MAX;
/// A range that was not counted yet: less than unknown, more than any list.
pub(super) const UNCOUNTED: u64 = u64::MAX >> 8;

/// A part of a filter.
pub(super) struct Node<'v> {
    pub(super) shape: Shape<'v>,
    /// Every id it stands for matches this part of the filter.
    pub(super) exact: bool,
    /// How many ids it stands for, about; [`UNKNOWN`] where no index tells.
    pub(super) count: u64,
    /// It is not read: too few are left without it.
    pub(super) is_late: bool,
    /// What is left when all is done is exactly what it leaves.
    pub(super) is_done: bool,
    /// It was read, and left something out or could have.
    pub(super) is_read: bool,
    /// A conjunction of what one assertion asks for: its parts are seldom independent.
    pub(super) is_pieces: bool,
    /// Its turn among what is read together with it: 1 is first; none when it was not read.
    pub(super) step: Option<u32>,
    /// Why it was not read.
    pub(super) skipped: Option<&'static str>,
    /// How long it took, if anybody asks.
    pub(super) time_us: u64,
    pub(super) details: Option<Box<Details>>,
}

/// What a node stands for.
pub(super) enum Shape<'v> {
    /// These ids.
    Ids(IdSet),
    /// Every entry: all match, or no index tells.
    Everything,
    List(Posting<'v>),
    /// The lists with head keys in a range.
    Range(Range),
    /// Every entry but those of the node, which is exact.
    Without(Box<Node<'v>>),
    And(Vec<Node<'v>>),
    Or(Vec<Node<'v>>),
}

/// A posting list, and how to find it again if it is long.
pub(super) struct Posting<'v> {
    pub(super) list: List<'v>,
    pub(super) key: Option<ListKey>,
}

/// Where a posting list is.
#[derive(Clone, Debug)]
pub(super) struct ListKey {
    pub(super) index: u16,
    pub(super) value: Box<[u8]>,
}

/// The lists whose head keys are at least `from` and below `to`.
pub(super) struct Range {
    pub(super) from: Box<[u8]>,
    pub(super) to: Box<[u8]>,
    /// How many lists there are, once counted.
    pub(super) lists: Option<u64>,
}

/// What is remembered for an explanation.
pub(super) struct Details {
    pub(super) report: TermReport,
    /// The node stands for the opposite of what is reported.
    pub(super) is_turned: bool,
    /// The filters that turn it round, from the inner to the outer.
    pub(super) nots: Vec<String>,
}

impl<'v> Node<'v> {
    pub(super) const fn new(shape: Shape<'v>, exact: bool, count: u64) -> Self {
        Self {
            shape,
            exact,
            count,
            is_late: false,
            is_done: false,
            is_read: false,
            is_pieces: false,
            step: None,
            skipped: None,
            time_us: 0,
            details: None,
        }
    }

    pub(super) const fn nothing() -> Self {
        Self::new(Shape::Ids(IdSet::empty()), true, 0)
    }

    /// No index tells.
    pub(super) const fn unknown() -> Self {
        Self::new(Shape::Everything, false, UNKNOWN)
    }

    /// Every entry matches.
    pub(super) const fn everything() -> Self {
        Self::new(Shape::Everything, true, UNKNOWN)
    }

    /// Nothing tells which entries it leaves out, or it leaves out none.
    pub(super) const fn is_everything(&self) -> bool {
        self.count == UNKNOWN
    }

    /// It can be read when nothing was read before.
    pub(super) fn can_be_first(&self) -> bool {
        match &self.shape {
            Shape::Everything | Shape::Without(_) => false,
            Shape::Ids(_) | Shape::List(_) | Shape::Range(_) => true,
            Shape::And(nodes) => nodes.iter().any(|node| !node.is_late && node.can_be_first()),
            Shape::Or(nodes) => nodes.iter().all(Self::can_be_first),
        }
    }

    pub(super) const fn is_nothing(&self) -> bool {
        self.count == 0 && matches!(self.shape, Shape::Ids(_))
    }

    pub(super) const fn skip(&mut self, reason: &'static str) {
        self.skipped = Some(reason);
    }

    /// It had more ids than were worth reading: it tells nothing.
    pub(super) const fn gave_up(&mut self) {
        self.count = UNKNOWN;
        self.exact = false;
        self.skip(super::load::TOO_MANY);
    }

    /// Its parts, when they are read as parts of the conjunction that it is in.
    pub(super) const fn spread(&mut self) -> Option<&mut Vec<Self>> {
        match &mut self.shape {
            Shape::And(nodes) if !self.is_late => Some(nodes),
            _ => None,
        }
    }
}

impl Details {
    pub(super) const fn new(report: TermReport, is_turned: bool) -> Self {
        Self { report, is_turned, nots: Vec::new() }
    }
}

impl Work {
    pub(super) fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.ids += more.ids;
        self.tests += more.tests;
    }
}
