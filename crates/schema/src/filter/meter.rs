//! What it costs to evaluate a filter, counted while it goes on.
//!
//! A step is about a nanosecond of a processor of today. Counted it is the same everywhere, so that
//! limits mean the same on every machine.
//!
//! Invariant: whatever depends on the number of terms, of pieces, of values or on their lengths is
//! counted before it is done, or right after.

use crate::matching_rule::{Compare, Holds, MatchingRule};

/// Counts the steps of evaluations; asks now and then whether to go on.
pub struct Meter<'m> {
    left: u64,
    is_over: bool,
    more: Option<&'m mut dyn FnMut() -> u64>,
}

impl<'m> Meter<'m> {
    /// Has `left` steps, and then as many as `more` gives; when it gives none, that is the end.
    pub fn new(left: u64, more: &'m mut dyn FnMut() -> u64) -> Self {
        Self { left, is_over: false, more: Some(more) }
    }

    /// For evaluations that nothing ends.
    pub const fn unlimited() -> Self {
        Self { left: u64::MAX, is_over: false, more: None }
    }

    /// Counts; says whether to go on.
    #[inline]
    pub fn spend(&mut self, steps: u64) -> bool {
        match self.left.checked_sub(steps) {
            Some(left) if !self.is_over => {
                self.left = left;
                true
            }
            Some(_) | None => self.ask(steps),
        }
    }

    /// Steps that are left until the next question.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Whether there are no more.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    #[cold]
    fn ask(&mut self, steps: u64) -> bool {
        let Some(more) = &mut self.more else { return true };
        while !self.is_over && self.left < steps {
            let given = more();
            self.is_over = given == 0;
            self.left = self.left.saturating_add(given);
        }
        self.left = self.left.saturating_sub(steps);
        !self.is_over
    }
}

impl std::fmt::Debug for Meter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { left, is_over, more: _ } = self;
        f.debug_struct("Meter")
            .field("left", left)
            .field("is_over", is_over)
            .finish_non_exhaustive()
    }
}

/// What preparing a value and comparing it with an assertion costs.
pub(super) fn steps_of_value(rule: &MatchingRule, value: &[u8]) -> u64 {
    let of_octet = match (rule.compare, rule.holds) {
        // Sounds are found letter by letter.
        (Compare::Words, _) => 32,
        (_, Holds::Name | Holds::Certificate) => NAME_OCTET_STEPS,
        (
            Compare::Key | Compare::Word | Compare::AllBits | Compare::AnyBits | Compare::Chain,
            Holds::Plain,
        ) => 2,
    };
    VALUE_STEPS + value.len() as u64 * of_octet
}

/// A term of the filter: finding its attribute, and whether the asker may search by it.
pub(super) const TERM_STEPS: u64 = 100;
/// A value, whatever its length.
const VALUE_STEPS: u64 = 20;
/// Looking for one piece of a substring assertion, besides the length of the value.
pub(super) const PIECE_STEPS: u64 = 40;
/// An attribute of an entry, when a rule is asked of all.
pub(super) const ATTRIBUTE_STEPS: u64 = 20;
/// Reading an octet of a name.
pub(super) const NAME_OCTET_STEPS: u64 = 8;
