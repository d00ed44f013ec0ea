//! Texts with numbers in them: `uid=user.[1-100000]`.
//!
//! `[a-b]` stands for a number from a to b, with as many digits as `a` when that starts with 0;
//! `[1]` for the first number of the same request again, `[2]` for the second. Any other bracket is
//! itself.
//!
//! Invariant: a number on the wire is its decimal digits, so that it can be put in place there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chance::Chance;

/// One text; the numbers it refers to stand in `Ranges`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Text(String),
    /// The index of a range.
    Number(usize),
}

/// The numbers of one request, in the order in which its patterns name them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Ranges(Vec<Range>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Range {
    low: u64,
    high: u64,
    digits_min: usize,
}

impl Pattern {
    /// Reads a pattern and adds its numbers to `ranges`.
    pub(crate) fn parse(text: &str, ranges: &mut Ranges) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('[') {
            plain.push_str(before);
            match behind
                .split_once(']')
                .and_then(|(inside, after)| Some((ranges.number(inside)?, after)))
            {
                Some((index, after)) => {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(Part::Number(index));
                    rest = after;
                }
                None => {
                    plain.push('[');
                    rest = behind;
                }
            }
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Self(parts)
    }

    /// The text with these digits for its numbers.
    pub(crate) fn fill(&self, digits: &[String]) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Number(index) => digits.get(*index).cloned().unwrap_or_default(),
        };
        self.0.iter().map(part).collect()
    }
}

impl Ranges {
    /// `a-b` adds a range, a single number names one that was there before.
    fn number(&mut self, inside: &str) -> Option<usize> {
        let Some((low, high)) = inside.split_once('-') else {
            let index = inside.parse::<usize>().ok()?.checked_sub(1)?;
            return (index < self.0.len()).then_some(index);
        };
        let digits_min = if low.starts_with('0') { low.len() } else { 1 };
        let (low, high) = (low.parse().ok()?, high.parse().ok()?);
        if low > high || digits_min > DIGITS_MAX {
            return None;
        }
        self.0.push(Range { low, high, digits_min });
        Some(self.0.len() - 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range> {
        self.0.iter()
    }

    /// How many requests there are before a number comes again; 1 without numbers.
    pub(crate) fn distinct(&self) -> u64 {
        self.iter().map(|range| range.span()).max().unwrap_or(1)
    }
}

impl Range {
    fn span(self) -> u64 {
        (self.high - self.low).saturating_add(1)
    }

    /// The number's digits, put into `digits`.
    pub(crate) fn write(self, number: u64, digits: &mut Vec<u8>) {
        digits.clear();
        let mut rest = number;
        while rest > 0 || digits.len() < self.digits_min {
            digits.push(b'0' + (rest % 10) as u8);
            rest /= 10;
        }
        digits.reverse();
    }
}

/// In which order numbers are taken.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    /// Each drawn by itself.
    Random(Chance),
    /// One after the other, shared by all connections; starting again after the last.
    Sequential(Arc<AtomicU64>),
    /// One after the other, each once: after `limit` requests there are no more.
    Once {
        /// Requests made so far.
        next: Arc<AtomicU64>,
        /// Requests there are.
        limit: u64,
    },
}

impl Numbers {
    /// Draws the numbers of one request into `drawn`; false when they are used up.
    pub(crate) fn draw(&mut self, ranges: &Ranges, drawn: &mut Vec<u64>) -> bool {
        drawn.clear();
        let turn = match self {
            Self::Random(chance) => {
                drawn.extend(ranges.iter().map(|range| chance.between(range.low, range.high)));
                return true;
            }
            Self::Sequential(next) => next.fetch_add(1, Ordering::Relaxed),
            Self::Once { next, limit } => {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= *limit {
                    return false;
                }
                turn
            }
        };
        drawn.extend(ranges.iter().map(|range| range.low + turn % range.span()));
        true
    }
}

/// Digits a number can be filled up to.
const DIGITS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// The pattern with the numbers of turn `turn`.
    #[track_caller]
    fn check(text: &str, turn: u64, want: &str) {
        let mut ranges = Ranges::default();
        let pattern = Pattern::parse(text, &mut ranges);
        let mut drawn = Vec::new();
        assert!(Numbers::Sequential(Arc::new(AtomicU64::new(turn))).draw(&ranges, &mut drawn));
        let digits = |(range, number): (&Range, &u64)| {
            let mut digits = Vec::new();
            range.write(*number, &mut digits);
            String::from_utf8(digits).unwrap()
        };
        let digits: Vec<String> = ranges.iter().zip(&drawn).map(digits).collect();
        assert_eq!(pattern.fill(&digits), want);
    }

    #[test]
    fn brackets_stand_for_numbers() {
        check("plain", 0, "plain");
        check("user.[1-100]", 0, "user.1");
        check("user.[1-100]", 99, "user.100");
        check("user.[1-100]", 100, "user.1");
        check("[0-3]", 0, "0");
        check("[001-200]x", 6, "007x");
        check("[5-9] [10-19]", 7, "7 17");
        check("uid=[1-9],ou=[1]", 4, "uid=5,ou=5");
        check("[00-10][1-2][2]", 3, "0322");
    }

    #[test]
    fn other_brackets_are_text() {
        for text in ["[", "]", "[]", "[a]", "[1]", "[9-1]", "[1-]", "[1-2", "a[b]c", "[-1-2]"] {
            check(text, 0, text);
        }
        check("[x[1-2]", 0, "[x1");
    }

    #[test]
    fn numbers_taken_once_end() {
        let mut ranges = Ranges::default();
        Pattern::parse("[1-3]", &mut ranges);
        assert_eq!(ranges.distinct(), 3);
        let mut numbers = Numbers::Once { next: Arc::default(), limit: ranges.distinct() };
        let mut all: Vec<u64> = Vec::new();
        let mut drawn = Vec::new();
        while numbers.draw(&ranges, &mut drawn) {
            all.extend(&drawn);
        }
        assert_eq!(all, [1, 2, 3]);
    }

    #[test]
    fn random_numbers_stay_in_their_range() {
        let mut ranges = Ranges::default();
        Pattern::parse("[3-5]", &mut ranges);
        let mut numbers = Numbers::Random(Chance::new(1, 1));
        let mut drawn = Vec::new();
        for _ in 0..100 {
            assert!(numbers.draw(&ranges, &mut drawn));
            assert!((3..=5).contains(&drawn[0]));
        }
    }
}
