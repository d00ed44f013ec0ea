//! Making the entries of a template, one at a time and in any order.
//!
//! Invariants: entry `n` is the same whatever was generated before it; parents have smaller
//! numbers than the entries below them; an entry with its values takes no more memory than
//! [`ENTRY_SIZE_MAX_BYTES`] and [`REPEATED_SIZE_MAX_BYTES`].

use std::fmt;
use std::sync::Arc;

use ldap::ldif::push_ldif_line;

use super::parse::{Kind, LEVELS_MAX, Line, Template};
use super::tags::Piece;
use super::text::{push_dn, push_escaped, push_guid, push_letters, push_number, push_telephone};
use crate::chance::{Chance, mix};

/// Makes entries; keeps buffers and the names of the last parents.
#[derive(Debug)]
pub struct Generator {
    template: Arc<Template>,
    seed: u64,
    /// Per level: the number and the DN of the entry made or needed last.
    parents: Vec<(u64, String)>,
    draft: Draft,
    /// What the values of one `<distinct>` line may take together.
    repeated_max_bytes: usize,
}

/// One generated entry; borrows the generator's buffers.
#[derive(Debug)]
pub struct Generated<'g> {
    dn: &'g str,
    kind: &'g Kind,
    draft: &'g Draft,
}

/// Why an entry cannot be made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GenerateError {
    /// The template has fewer entries.
    NoSuchEntry,
    /// The attribute that names the entry got no value.
    NoRdnValue {
        /// The attribute.
        attribute: String,
        /// The number of the entry.
        entry: u64,
    },
    /// The entry became too large.
    TooLarge {
        /// The line of the template that went too far.
        line: u32,
        /// What it may take.
        limit_bytes: usize,
    },
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchEntry => f.write_str("the template has fewer entries"),
            Self::NoRdnValue { attribute, entry } => {
                write!(f, "entry {entry} got no value for its rdnAttr '{attribute}'")
            }
            Self::TooLarge { line, limit_bytes } => {
                write!(f, "line {line} of the template makes an entry over {limit_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for GenerateError {}

impl Template {
    /// Starts generating; the same seed yields the same entries.
    #[must_use]
    pub fn generator(self: &Arc<Self>, seed: u64) -> Generator {
        Generator {
            template: Arc::clone(self),
            seed,
            parents: Vec::new(),
            draft: Draft::default(),
            repeated_max_bytes: REPEATED_SIZE_MAX_BYTES,
        }
    }
}

/// Where an entry stands: its kind, its number among all entries and among its siblings.
#[derive(Clone, Copy, Debug)]
struct EntryPosition {
    kind: usize,
    number: u64,
    index: u64,
}

impl Generator {
    /// Sets what the values of one `<distinct>` line may take, instead of
    /// [`REPEATED_SIZE_MAX_BYTES`].
    #[must_use]
    pub fn with_repeated_max_bytes(self, repeated_max_bytes: usize) -> Self {
        Self { repeated_max_bytes, ..self }
    }

    /// Makes entry `number`, from 0.
    ///
    /// # Errors
    /// When the template has no such entry or its value cannot be made.
    pub fn generate(&mut self, number: u64) -> Result<Generated<'_>, GenerateError> {
        let (path, level) = self.locate(number)?;
        for (depth, place) in path.iter().enumerate().take(level + 1) {
            let known = self.parents.get(depth).is_some_and(|(known, _)| *known == place.number);
            if !known || depth == level {
                self.make(*place, depth)?;
            }
        }
        let place = path.get(level).ok_or(GenerateError::NoSuchEntry)?;
        let kind = self.template.kinds.get(place.kind).ok_or(GenerateError::NoSuchEntry)?;
        let dn = self.parents.get(level).map_or("", |(_, dn)| dn.as_str());
        Ok(Generated { dn, kind, draft: &self.draft })
    }

    /// The places from the branch down to entry `number`, and how far down it is.
    fn locate(&self, number: u64) -> Result<([EntryPosition; LEVELS_MAX], usize), GenerateError> {
        let template = &*self.template;
        let after = template.branches.partition_point(|(_, first)| *first <= number);
        let branch = after.checked_sub(1).and_then(|index| template.branches.get(index));
        let (kind, first) = *branch.ok_or(GenerateError::NoSuchEntry)?;
        let mut place = EntryPosition { kind, number: first, index: 0 };
        let mut path = [place; LEVELS_MAX];
        for (level, slot) in path.iter_mut().enumerate() {
            *slot = place;
            if place.number == number {
                return Ok((path, level));
            }
            place = child(template, place, number).ok_or(GenerateError::NoSuchEntry)?;
        }
        Err(GenerateError::NoSuchEntry)
    }

    fn make(&mut self, place: EntryPosition, depth: usize) -> Result<(), GenerateError> {
        let template = &*self.template;
        let kind = template.kinds.get(place.kind).ok_or(GenerateError::NoSuchEntry)?;
        self.parents.resize_with(self.parents.len().max(depth + 1), || (u64::MAX, String::new()));
        let (above, own) = self.parents.split_at_mut(depth);
        let parent = above.last().map_or("", |(_, dn)| dn.as_str());
        let Some((known, dn)) = own.first_mut() else { return Err(GenerateError::NoSuchEntry) };
        *known = u64::MAX;
        dn.clear();
        if let Some(fixed) = &kind.dn {
            dn.push_str(fixed);
        }
        let names = Names { dn, parent };
        self.draft.make(template, kind, place, self.seed, self.repeated_max_bytes, names)?;
        *known = place.number;
        Ok(())
    }
}

/// The place one level below `place` that leads to entry `number`.
fn child(template: &Template, place: EntryPosition, number: u64) -> Option<EntryPosition> {
    let mut first = place.number + 1;
    for child in &template.kinds.get(place.kind)?.children {
        let size = template.kinds.get(child.kind)?.size;
        let all = size * child.count;
        if number - first < all {
            let index = (number - first) / size;
            return Some(EntryPosition { kind: child.kind, number: first + index * size, index });
        }
        first += all;
    }
    None
}

impl<'g> Generated<'g> {
    /// The distinguished name.
    #[must_use]
    pub fn dn(&self) -> &'g str {
        self.dn
    }

    /// The attribute values in the order of the template, each with its attribute description.
    pub fn attributes(&self) -> impl Iterator<Item = (&'g str, &'g str)> + use<'g> {
        let draft = self.draft;
        let lines = self.kind.lines.iter().enumerate();
        lines.flat_map(move |(index, line)| {
            let attribute = line.attribute.as_str();
            let values = draft.value(index).into_iter().chain(draft.repeated(index));
            values.map(move |value| (attribute, value))
        })
    }

    /// Appends the entry to `out` as an LDIF record with the blank line behind it (RFC 2849).
    pub fn write_ldif(&self, out: &mut Vec<u8>) {
        push_ldif_line(out, "dn", self.dn.as_bytes(), NO_FOLDING);
        for (attribute, value) in self.attributes() {
            push_ldif_line(out, attribute, value.as_bytes(), NO_FOLDING);
        }
        out.push(b'\n');
    }
}

/// The name being made and the one above it.
struct Names<'n> {
    dn: &'n mut String,
    parent: &'n str,
}

/// The values of the entry in the making.
#[derive(Debug, Default)]
struct Draft {
    text: String,
    /// Per line: where its value is in `text`; empty when the attribute is left out.
    values: Vec<(usize, usize)>,
    repeats: Vec<Repeat>,
    /// The values of lines with many, one after the other; in `text` they have none.
    repeated: String,
    /// Where each of them ends.
    repeated_ends: Vec<usize>,
}

/// The values of a line that has many.
#[derive(Debug)]
struct Repeat {
    line: usize,
    /// Where they begin in `repeated`, and in `repeated_ends`.
    start: usize,
    ends: (usize, usize),
}

impl Draft {
    fn value(&self, line: usize) -> Option<&str> {
        let (start, end) = *self.values.get(line)?;
        self.text.get(start..end).filter(|value| !value.is_empty())
    }

    fn repeated(&self, line: usize) -> impl Iterator<Item = &str> {
        let found = self.repeats.iter().find(|repeat| repeat.line == line);
        found.into_iter().flat_map(|repeat| {
            let (first, last) = repeat.ends;
            let ends = self.repeated_ends.get(first..last).unwrap_or_default();
            ends.iter().scan(repeat.start, |start, &end| {
                let value = self.repeated.get(*start..end);
                *start = end;
                value
            })
        })
    }

    fn make(
        &mut self,
        template: &Template,
        kind: &Kind,
        place: EntryPosition,
        seed: u64,
        repeated_max_bytes: usize,
        names: Names<'_>,
    ) -> Result<(), GenerateError> {
        self.text.clear();
        self.values.clear();
        self.values.resize(kind.lines.len(), (0, 0));
        self.repeats.clear();
        self.repeated.clear();
        self.repeated_ends.clear();
        let mut maker = Maker {
            kind,
            place,
            seed,
            template,
            chance: Chance::new(seed, place.number),
            names,
            draft: self,
            repeated_max_bytes,
        };
        for index in &kind.order {
            if let Some(line) = kind.lines.get(*index) {
                maker.line(*index, line)?;
            }
        }
        maker.name()
    }
}

/// `count` different numbers of `low..=high`.
#[derive(Clone, Copy)]
struct Numbers {
    count: u64,
    low: u64,
    high: u64,
}

struct Maker<'m> {
    kind: &'m Kind,
    place: EntryPosition,
    seed: u64,
    template: &'m Template,
    chance: Chance,
    names: Names<'m>,
    draft: &'m mut Draft,
    repeated_max_bytes: usize,
}

impl Maker<'_> {
    fn line(&mut self, index: usize, line: &Line) -> Result<(), GenerateError> {
        let start = self.draft.text.len();
        let mut distinct = None;
        for piece in &line.pieces {
            if let Piece::Distinct { count, low, high } = *piece {
                distinct = Some((self.draft.text.len(), Numbers { count, low, high }));
                continue;
            }
            if !self.piece(piece, index)? {
                self.draft.text.truncate(start);
                return Ok(());
            }
            if self.draft.text.len() > ENTRY_SIZE_MAX_BYTES {
                let limit_bytes = ENTRY_SIZE_MAX_BYTES;
                return Err(GenerateError::TooLarge { line: line.number, limit_bytes });
            }
        }
        if let Some((split, numbers)) = distinct {
            let is_made = self.repeat(index, start, split, numbers);
            self.draft.text.truncate(start);
            let limit_bytes = self.repeated_max_bytes;
            let too_large = GenerateError::TooLarge { line: line.number, limit_bytes };
            return if is_made { Ok(()) } else { Err(too_large) };
        }
        let end = self.draft.text.len();
        if let Some(value) = self.draft.values.get_mut(index) {
            *value = (start, end);
        }
        Ok(())
    }

    /// Makes the values of a line with different numbers, of which what stands before and behind
    /// the number is the end of `text`; false when they become too large.
    ///
    /// Of the range cut into `count` parts, about as long as each other, each part gives one
    /// number: so all differ, and none has to be remembered.
    fn repeat(&mut self, line: usize, start: usize, split: usize, numbers: Numbers) -> bool {
        let mut chance = Chance::new(self.chance.draw(), line as u64);
        let Draft { text, repeats, repeated, repeated_ends, .. } = &mut *self.draft;
        let before = text.get(start..split).unwrap_or_default();
        let behind = text.get(split..).unwrap_or_default();
        let (first, begin) = (repeated_ends.len(), repeated.len());
        let Numbers { count, low, high } = numbers;
        let range = u128::from(high - low) + 1;
        let part = |index: u64| (range * u128::from(index) / u128::from(count.max(1))) as u64;
        let mut from = part(0);
        for index in 1..=count {
            let upto = part(index);
            repeated.push_str(before);
            push_number(repeated, low + from + chance.below(upto.wrapping_sub(from)), 1);
            repeated.push_str(behind);
            repeated_ends.push(repeated.len());
            from = upto;
            if repeated.len() > self.repeated_max_bytes {
                return false;
            }
        }
        repeats.push(Repeat { line, start: begin, ends: (first, repeated_ends.len()) });
        true
    }

    /// Appends what a piece stands for; false when the attribute is to be left out.
    fn piece(&mut self, piece: &Piece, line: usize) -> Result<bool, GenerateError> {
        let text = &mut self.draft.text;
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::First | Piece::Last => self.person(matches!(piece, Piece::First)),
            Piece::Sequential { start } => {
                push_number(text, start.wrapping_add(self.place.index), 1)
            }
            Piece::Number { low, high, digits_min } => {
                push_number(text, self.chance.between(*low, *high), *digits_min);
            }
            Piece::Letters { alphabet, length_min, length_max } => {
                push_letters(text, &mut self.chance, alphabet, *length_min, *length_max);
            }
            Piece::Telephone => push_telephone(text, &mut self.chance),
            Piece::Month { letters_max } => {
                let month = self.chance.below(MONTHS.len() as u64) as usize;
                text.extend(
                    MONTHS.iter().skip(month).take(1).flat_map(|m| m.chars().take(*letters_max)),
                );
            }
            Piece::Boolean => {
                text.push_str(if self.chance.below(2) == 1 { "TRUE" } else { "FALSE" });
            }
            Piece::Guid => push_guid(text, &mut self.chance),
            Piece::Word(words) => text.push_str(words.word(self.chance.below(words.count()))),
            Piece::NextWord(words) => text.push_str(words.word(self.place.index)),
            Piece::Choice(values) => {
                let total = values.last().map_or(0, |(_, sum)| *sum);
                let drawn = self.chance.below(total);
                let place = values.partition_point(|(_, sum)| *sum <= drawn);
                text.push_str(values.get(place).map_or("", |(value, _)| value));
            }
            Piece::Presence { percent } => return Ok(self.chance.below(100) < *percent),
            Piece::If { slot, value, wanted } => {
                return Ok(self.present(*slot, line, value.as_deref()) == *wanted);
            }
            Piece::Attribute { slot, letters_max } => self.copy(*slot, line, *letters_max),
            Piece::Dn { rdns_max } => {
                self.name()?;
                push_dn(&mut self.draft.text, self.names.dn, *rdns_max);
            }
            Piece::ParentDn => text.push_str(match &self.kind.dn {
                Some(branch) => parent_text(branch),
                None => self.names.parent,
            }),
            Piece::Rdn => {
                self.name()?;
                push_dn(&mut self.draft.text, self.names.dn, 1);
            }
            // Of the line as a whole.
            Piece::Distinct { .. } => {}
        }
        Ok(true)
    }

    /// First and last names are drawn together, so that no pair comes twice before all are used.
    fn person(&mut self, first: bool) {
        let (firsts, lasts) = (&self.template.first_names, &self.template.last_names);
        let pairs = firsts.count() * lasts.count();
        let place = self.place.number.wrapping_add(mix(self.seed) >> 32) % pairs;
        let step = self.template.name_stride;
        // Both are below `pairs`. Dividing 128 bits takes long, and few lists need it.
        let pair = match place.checked_mul(step) {
            Some(product) => product % pairs,
            None => (u128::from(place) * u128::from(step) % u128::from(pairs)) as u64,
        };
        let word = if first {
            firsts.word(pair % firsts.count())
        } else {
            lasts.word(pair / firsts.count())
        };
        self.draft.text.push_str(word);
    }

    /// The lines of a slot that count for `line`: of its own attribute those above it.
    fn values(&self, slot: usize, line: usize) -> impl Iterator<Item = &str> {
        let lines = self.kind.slots.get(slot).map_or(&[][..], |slot| &slot.lines);
        let own = lines.contains(&line);
        let earlier = lines.iter().take_while(move |other| !own || **other < line);
        earlier.filter_map(|line| self.draft.value(*line))
    }

    fn present(&self, slot: usize, line: usize, wanted: Option<&str>) -> bool {
        self.values(slot, line).any(|value| wanted.is_none_or(|wanted| wanted == value))
    }

    fn copy(&mut self, slot: usize, line: usize, letters_max: Option<usize>) {
        let lines = self.kind.slots.get(slot).map_or(&[][..], |slot| &slot.lines);
        let own = lines.contains(&line);
        let earlier = lines.iter().take_while(|other| !own || **other < line);
        let mut places = earlier.filter_map(|line| self.draft.values.get(*line));
        let Some(&(start, end)) = places.find(|(start, end)| start < end) else { return };
        let value = self.draft.text.get(start..end).unwrap_or_default();
        let length = match letters_max {
            None => value.len(),
            Some(max) => value.char_indices().nth(max).map_or(value.len(), |(end, _)| end),
        };
        self.draft.text.extend_from_within(start..start + length);
    }

    /// Puts the DN together; needs the lines of the RDN.
    fn name(&mut self) -> Result<(), GenerateError> {
        if !self.names.dn.is_empty() {
            return Ok(());
        }
        for (index, part) in self.kind.rdn.iter().enumerate() {
            let lines = self.kind.slots.get(part.slot).map_or(&[][..], |slot| &slot.lines);
            let Some(value) = lines.iter().find_map(|line| self.draft.value(*line)) else {
                self.names.dn.clear();
                return Err(GenerateError::NoRdnValue {
                    attribute: part.attribute.clone(),
                    entry: self.place.number,
                });
            };
            if index > 0 {
                self.names.dn.push('+');
            }
            self.names.dn.push_str(&part.attribute);
            self.names.dn.push('=');
            push_escaped(self.names.dn, value);
        }
        self.names.dn.push(',');
        self.names.dn.push_str(self.names.parent);
        Ok(())
    }
}

fn parent_text(dn: &str) -> &str {
    super::split_once_unescaped(dn, ',').map_or("", |(_, parent)| parent)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Lines of LDIF are as long as they are.
const NO_FOLDING: usize = 0;
/// The values of one entry together, without those of `<distinct>` lines.
const ENTRY_SIZE_MAX_BYTES: usize = 1 << 20;
/// The values of the `<distinct>` lines of one entry together.
pub const REPEATED_SIZE_MAX_BYTES: usize = 128 << 20;
