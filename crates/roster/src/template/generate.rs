//! Making the entries of a template, one at a time and in any order.
//!
//! Invariant: entry `n` is the same whatever was generated before it; parents have smaller
//! numbers than the entries below them.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::parse::{Kind, LEVELS_MAX, Line, Template};
use super::tags::Piece;
use crate::chance::{Chance, mix};

/// Makes entries; keeps buffers and the names of the last parents.
#[derive(Debug)]
pub struct Generator {
    template: Arc<Template>,
    seed: u64,
    /// Per level: the number and the DN of the entry made or needed last.
    parents: Vec<(u64, String)>,
    draft: Draft,
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
    },
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchEntry => f.write_str("the template has fewer entries"),
            Self::NoRdnValue { attribute, entry } => {
                write!(f, "entry {entry} got no value for its rdnAttr '{attribute}'")
            }
            Self::TooLarge { line } => write!(
                f,
                "line {line} of the template makes an entry over {ENTRY_SIZE_MAX_BYTES} bytes"
            ),
        }
    }
}

impl std::error::Error for GenerateError {}

impl Template {
    /// Starts generating; the same seed yields the same entries.
    #[must_use]
    pub fn generator(self: &Arc<Self>, seed: u64) -> Generator {
        Generator { template: Arc::clone(self), seed, parents: Vec::new(), draft: Draft::default() }
    }
}

/// Where an entry stands: its kind, its number among all entries and among its siblings.
#[derive(Clone, Copy, Debug)]
struct Place {
    kind: usize,
    number: u64,
    index: u64,
}

impl Generator {
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
    fn locate(&self, number: u64) -> Result<([Place; LEVELS_MAX], usize), GenerateError> {
        let template = &*self.template;
        let after = template.branches.partition_point(|(_, first)| *first <= number);
        let branch = after.checked_sub(1).and_then(|index| template.branches.get(index));
        let (kind, first) = *branch.ok_or(GenerateError::NoSuchEntry)?;
        let mut place = Place { kind, number: first, index: 0 };
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

    fn make(&mut self, place: Place, depth: usize) -> Result<(), GenerateError> {
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
        self.draft.make(template, kind, place, self.seed, Names { dn, parent })?;
        *known = place.number;
        Ok(())
    }
}

/// The place one level below `place` that leads to entry `number`.
fn child(template: &Template, place: Place, number: u64) -> Option<Place> {
    let mut first = place.number + 1;
    for child in &template.kinds.get(place.kind)?.children {
        let size = template.kinds.get(child.kind)?.size;
        let all = size * child.count;
        if number - first < all {
            let index = (number - first) / size;
            return Some(Place { kind: child.kind, number: first + index * size, index });
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
        lines.filter_map(move |(index, line)| {
            draft.value(index).map(|value| (line.attribute.as_str(), value))
        })
    }

    /// Appends the entry to `out` as an LDIF record with the blank line behind it (RFC 2849).
    pub fn write_ldif(&self, out: &mut Vec<u8>) {
        ldif_line(out, "dn", self.dn);
        for (attribute, value) in self.attributes() {
            ldif_line(out, attribute, value);
        }
        out.push(b'\n');
    }
}

/// One unfolded line, in base64 where RFC 2849 §2 asks for it.
fn ldif_line(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    if is_safe(value.as_bytes()) {
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
    } else {
        out.extend_from_slice(b":: ");
        out.extend_from_slice(STANDARD.encode(value).as_bytes());
    }
    out.push(b'\n');
}

fn is_safe(value: &[u8]) -> bool {
    let start = !matches!(value.first(), Some(b' ' | b':' | b'<'));
    let inside = !value.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r' | 0x80..));
    start && inside && value.last() != Some(&b' ')
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
}

impl Draft {
    fn value(&self, line: usize) -> Option<&str> {
        let (start, end) = *self.values.get(line)?;
        self.text.get(start..end).filter(|value| !value.is_empty())
    }

    fn make(
        &mut self,
        template: &Template,
        kind: &Kind,
        place: Place,
        seed: u64,
        names: Names<'_>,
    ) -> Result<(), GenerateError> {
        self.text.clear();
        self.values.clear();
        self.values.resize(kind.lines.len(), (0, 0));
        let mut maker = Maker {
            kind,
            place,
            seed,
            template,
            chance: Chance::new(seed, place.number),
            names,
            draft: self,
        };
        for index in &kind.order {
            if let Some(line) = kind.lines.get(*index) {
                maker.line(*index, line)?;
            }
        }
        maker.name()
    }
}

struct Maker<'m> {
    kind: &'m Kind,
    place: Place,
    seed: u64,
    template: &'m Template,
    chance: Chance,
    names: Names<'m>,
    draft: &'m mut Draft,
}

impl Maker<'_> {
    fn line(&mut self, index: usize, line: &Line) -> Result<(), GenerateError> {
        let start = self.draft.text.len();
        for piece in &line.pieces {
            if !self.piece(piece, index)? {
                self.draft.text.truncate(start);
                return Ok(());
            }
            if self.draft.text.len() > ENTRY_SIZE_MAX_BYTES {
                return Err(GenerateError::TooLarge { line: line.number });
            }
        }
        let end = self.draft.text.len();
        if let Some(value) = self.draft.values.get_mut(index) {
            *value = (start, end);
        }
        Ok(())
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
                push_letters(text, &mut self.chance, alphabet, (*length_min, *length_max));
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
        }
        Ok(true)
    }

    /// First and last names are drawn together, so that no pair comes twice before all are used.
    fn person(&mut self, first: bool) {
        let (firsts, lasts) = (&self.template.first_names, &self.template.last_names);
        let pairs = firsts.count() * lasts.count();
        let place = self.place.number.wrapping_add(mix(self.seed) >> 32) % pairs;
        let step = u128::from(self.template.name_stride);
        let pair = (u128::from(place) * step % u128::from(pairs)) as u64;
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
        let Some(value) = self.values(slot, line).next() else { return };
        let end = match letters_max {
            None => value.len(),
            Some(max) => value.char_indices().nth(max).map_or(value.len(), |(end, _)| end),
        };
        let copied = value.get(..end).unwrap_or("").to_owned();
        self.draft.text.push_str(&copied);
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

fn push_escaped(out: &mut String, value: &str) {
    let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    if plain {
        out.push_str(value);
    } else {
        ldap::dn::escape_value(value.as_bytes(), out);
    }
}

/// The first RDNs of a DN.
fn push_dn(out: &mut String, dn: &str, rdns_max: usize) {
    let rdns = super::split_unescaped(dn, ',').take(rdns_max);
    for (index, rdn) in rdns.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(rdn);
    }
}

fn parent_text(dn: &str) -> &str {
    super::split_once_unescaped(dn, ',').map_or("", |(_, parent)| parent)
}

fn push_number(out: &mut String, number: u64, digits_min: usize) {
    let mut digits = [b'0'; 20];
    let mut rest = number;
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    out.extend(std::iter::repeat_n('0', digits_min.saturating_sub(count)));
    out.extend(digits.iter().skip(20 - count).map(|digit| char::from(*digit)));
}

fn push_letters(
    out: &mut String,
    chance: &mut Chance,
    alphabet: &[char],
    (length_min, length_max): (u32, u32),
) {
    let length = if length_min == length_max {
        length_min
    } else {
        chance.between(u64::from(length_min), u64::from(length_max)) as u32
    };
    let count = alphabet.len() as u64;
    for _ in 0..length {
        out.extend(alphabet.get(chance.below(count) as usize));
    }
}

/// `+1 ddd ddd dddd`.
fn push_telephone(out: &mut String, chance: &mut Chance) {
    let digits = chance.below(10_000_000_000);
    out.push_str("+1 ");
    push_number(out, digits / 10_000_000, 3);
    out.push(' ');
    push_number(out, digits / 10_000 % 1_000, 3);
    out.push(' ');
    push_number(out, digits % 10_000, 4);
}

/// A UUID of version 4 (RFC 9562 §5.4) from drawn bits.
fn push_guid(out: &mut String, chance: &mut Chance) {
    let (high, low) = (chance.draw(), chance.draw());
    let high = high & !0xF000 | 0x4000;
    let low = low & !(0b11 << 62) | (0b10 << 62);
    let bits = u128::from(high) << 64 | u128::from(low);
    for digit in 0..32_u32 {
        if matches!(digit, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        let nibble = (bits >> (124 - 4 * digit)) & 0xF;
        out.extend(char::from_digit(nibble as u32, 16));
    }
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

/// The values of one entry together.
const ENTRY_SIZE_MAX_BYTES: usize = 1 << 20;
