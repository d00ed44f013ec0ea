//! The updates of one connection that are not answered, in the order in which they came: those that
//! this node decides, and those that are handed on.
//!
//! Invariant: of those that are handed on one is under way at a time, and it leaves when none of
//! those that came before it is unanswered.

use std::collections::VecDeque;

/// The place of an update among those of its connection.
pub(super) type Place = u64;

/// The updates of one connection.
#[derive(Debug)]
pub(super) struct Line<T> {
    next: Place,
    /// Those that are decided here.
    here: VecDeque<Place>,
    /// Those that are to be handed on.
    waiting: VecDeque<(Place, T)>,
    is_under_way: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let (here, waiting) = (VecDeque::new(), VecDeque::new());
        Self { next: 0, here, waiting, is_under_way: false }
    }
}

impl<T> Line<T> {
    /// One comes that is decided here.
    pub(super) fn enter(&mut self) -> Place {
        let place = self.take_place();
        self.here.push_back(place);
        place
    }

    /// One comes that is handed on. Given back when it is to leave at once.
    pub(super) fn join(&mut self, update: T) -> Option<T> {
        let place = self.take_place();
        self.waiting.push_back((place, update));
        self.leave()
    }

    /// One that was to be decided here is handed on, in its place. The next one to leave, if one
    /// may.
    pub(super) fn give_up(&mut self, place: Place, update: T) -> Option<T> {
        self.forget(place);
        let at = self.waiting.partition_point(|(other, _)| *other < place);
        self.waiting.insert(at, (place, update));
        self.leave()
    }

    /// One that was decided here is answered. The next one to leave, if one may.
    pub(super) fn answered_here(&mut self, place: Place) -> Option<T> {
        self.forget(place);
        self.leave()
    }

    /// The one that was under way is answered. The next one to leave, if one may.
    pub(super) fn answered(&mut self) -> Option<T> {
        self.is_under_way = false;
        self.leave()
    }

    /// Whether any is handed on.
    pub(super) fn is_handed_on(&self) -> bool {
        self.is_under_way || !self.waiting.is_empty()
    }

    /// Whether one that is handed on comes before the one of this place, which is decided here.
    pub(super) fn is_behind(&self, place: Place) -> bool {
        self.is_under_way || self.waiting.front().is_some_and(|(other, _)| *other < place)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_handed_on() && self.here.is_empty()
    }

    fn take_place(&mut self) -> Place {
        self.next += 1;
        self.next
    }

    fn forget(&mut self, place: Place) {
        // Nearly always the first.
        if let Some(at) = self.here.iter().position(|other| *other == place) {
            self.here.remove(at);
        }
    }

    fn leave(&mut self) -> Option<T> {
        let first = self.waiting.front()?.0;
        if self.is_under_way || self.here.front().is_some_and(|before| *before < first) {
            return None;
        }
        self.is_under_way = true;
        self.waiting.pop_front().map(|(_, update)| update)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_handed_on_leave_one_by_one() {
        let mut line = Line::default();
        assert_eq!(line.join("a"), Some("a"));
        assert_eq!(line.join("b"), None);
        assert_eq!(line.answered(), Some("b"));
        assert_eq!(line.answered(), None);
        assert!(line.is_empty());
    }

    #[test]
    fn none_leaves_before_those_that_are_decided_here() {
        let mut line = Line::default();
        let (first, second) = (line.enter(), line.enter());
        assert_eq!(line.join("c"), None);
        assert_eq!(line.answered_here(first), None);
        assert_eq!(line.answered_here(second), Some("c"));
    }

    #[test]
    fn what_is_given_up_keeps_its_place_in_whatever_order_it_is() {
        let mut line = Line::default();
        let (first, second, third) = (line.enter(), line.enter(), line.enter());
        assert_eq!(line.join("d"), None);
        assert!(!line.is_behind(first) && !line.is_behind(third));
        assert_eq!(line.give_up(second, "b"), None);
        assert!(!line.is_behind(first) && line.is_behind(third));
        assert_eq!(line.give_up(first, "a"), Some("a"));
        assert!(line.is_behind(third));
        assert_eq!(line.answered(), Some("b"));
        assert_eq!(line.give_up(third, "c"), None);
        assert_eq!(line.answered(), Some("c"));
        assert_eq!(line.answered(), Some("d"));
        assert!(line.is_handed_on() && !line.is_empty());
        assert_eq!(line.answered(), None);
        assert!(line.is_empty());
    }
}
