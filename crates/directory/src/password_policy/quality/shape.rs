//! What a password is made of, in one walk over it.

use std::collections::HashSet;

/// What there is of each kind, and how long the longest runs are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Shape {
    pub(super) digits: u32,
    pub(super) uppers: u32,
    pub(super) lowers: u32,
    pub(super) specials: u32,
    /// What is not of ASCII.
    pub(super) others: u32,
    pub(super) unique: u32,
    /// Longest run of one character.
    pub(super) repeats: u32,
    /// Longest run of characters that follow each other, up or down.
    pub(super) sequence: u32,
    /// Longest run of one kind.
    pub(super) class_run: u32,
}

/// A kind of characters.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Digit,
    Upper,
    Lower,
    Special,
    Other,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            '0'..='9' => Self::Digit,
            'A'..='Z' => Self::Upper,
            'a'..='z' => Self::Lower,
            c if c.is_ascii() => Self::Special,
            _ => Self::Other,
        }
    }
}

impl Shape {
    pub(super) fn of(text: &str) -> Self {
        let mut shape = Self::default();
        let mut seen = HashSet::new();
        let (mut repeats, mut class_run) = (0, 0);
        let mut last: Option<char> = None;
        for c in text.chars() {
            let kind = Kind::of(c);
            let count = match kind {
                Kind::Digit => &mut shape.digits,
                Kind::Upper => &mut shape.uppers,
                Kind::Lower => &mut shape.lowers,
                Kind::Special => &mut shape.specials,
                Kind::Other => &mut shape.others,
            };
            *count += 1;
            seen.insert(c);
            repeats = if last == Some(c) { repeats + 1 } else { 1 };
            class_run =
                if last.is_some_and(|one| Kind::of(one) == kind) { class_run + 1 } else { 1 };
            shape.repeats = shape.repeats.max(repeats);
            shape.class_run = shape.class_run.max(class_run);
            last = Some(c);
        }
        shape.unique = u32::try_from(seen.len()).unwrap_or(u32::MAX);
        shape.sequence = sequences(text).map(|run| length(&run)).max().unwrap_or(0);
        shape
    }

    pub(super) fn categories(&self) -> u32 {
        let kinds = [self.digits, self.uppers, self.lowers, self.specials, self.others];
        kinds.into_iter().map(|count| u32::from(count > 0)).sum()
    }
}

/// Whether a sequence of more than `most` characters is there twice.
pub(super) fn repeats_a_sequence(text: &str, most: u32) -> bool {
    let mut seen = HashSet::new();
    sequences(text).any(|run| length(&run) > most && !seen.insert(run))
}

/// The longest runs of letters or digits each of which follows the one before, up or down, in
/// lower case. A character that ends one run may begin the next.
fn sequences(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text.chars().map(|c| c.to_ascii_lowercase()).peekable();
    let mut last: Option<char> = None;
    std::iter::from_fn(move || {
        let mut run = String::new();
        let first = last.take().or_else(|| rest.next())?;
        run.push(first);
        let mut end = first;
        let mut way = None;
        while let Some(next) = rest.peek().copied() {
            let step = step(end, next);
            if step == 0 || way.is_some_and(|way| way != step) {
                // The turn of a run is in both: "abcba" goes up, and down.
                last = (step != 0).then_some(end);
                break;
            }
            way = Some(step);
            run.push(next);
            end = next;
            rest.next();
        }
        Some(run)
    })
}

/// 1 or -1 where one letter or digit is the neighbour of another, else 0.
fn step(from: char, to: char) -> i32 {
    if !from.is_alphanumeric() || !to.is_alphanumeric() {
        return 0;
    }
    match i64::from(u32::from(to)) - i64::from(u32::from(from)) {
        1 => 1,
        -1 => -1,
        _ => 0,
    }
}

fn length(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}
