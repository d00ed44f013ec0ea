//! Arbitrary filters: every form, deep and wide, about what is stored and about what is not.

use std::fmt;

use schema::MatchingRule;

use super::dice::Dice;
use super::values;
use super::vocabulary::{self, Vocabulary, Word};

/// A filter as it is asked, nothing looked up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Asked {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Present(String),
    Equal(String, Vec<u8>),
    AtLeast(String, Vec<u8>),
    AtMost(String, Vec<u8>),
    Like(String, Vec<u8>),
    Pieces { of: String, initial: Option<Vec<u8>>, any: Vec<Vec<u8>>, final_: Option<Vec<u8>> },
    ByRule { of: Option<String>, rule: Option<String>, dn: bool, value: Vec<u8> },
}

/// A filter, and the attribute of an index that has only the entries it is true of.
#[derive(Clone, Debug)]
pub struct Condition {
    pub filter: Asked,
    pub attribute: String,
}

/// A filter that holds a condition, as it is or turned round, and asks for what its index has.
pub fn filter_with(vocabulary: &Vocabulary, dice: &mut Dice, given: &Condition) -> Asked {
    let of = vocabulary.words.iter().find(|word| word.kind.name() == given.attribute);
    let mut other = match of {
        Some(word) => match dice.below(3) {
            0 => about(vocabulary, word, dice),
            1 => Asked::Equal(vocabulary.asked(word, dice), value(word, dice)),
            _ => filter(vocabulary, dice, 2),
        },
        None => filter(vocabulary, dice, 2),
    };
    let mut given = given.filter.clone();
    if dice.one_in(5) {
        given.ask_of(&vocabulary.asked(vocabulary.word(dice), dice));
    }
    for one in [&mut other, &mut given] {
        if dice.one_in(4) {
            *one = Asked::Not(Box::new(one.clone()));
        }
    }
    let mut all = vec![given, other];
    if dice.one_in(3) {
        all.push(filter(vocabulary, dice, 1));
    }
    if dice.one_in(2) {
        all.reverse();
    }
    match dice.below(8) {
        0 => Asked::Or(all),
        1 => Asked::Not(Box::new(Asked::And(all))),
        2 => Asked::Not(Box::new(Asked::Or(all))),
        3 => Asked::Or(vec![Asked::And(all), filter(vocabulary, dice, 1)]),
        _ => Asked::And(all),
    }
}

/// A filter of up to this depth.
pub fn filter(vocabulary: &Vocabulary, dice: &mut Dice, depth: usize) -> Asked {
    if depth == 0 || dice.one_in(4) {
        return item(vocabulary, dice);
    }
    let several = |dice: &mut Dice, most: usize| -> Vec<Asked> {
        (0..dice.below(most + 1)).map(|_| filter(vocabulary, dice, depth - 1)).collect()
    };
    match dice.below(14) {
        13 => between(vocabulary, dice),
        0..5 => Asked::And(several(dice, 4)),
        5..8 => Asked::Or(several(dice, 4)),
        8..10 => Asked::Not(Box::new(filter(vocabulary, dice, depth - 1))),
        10 => wide(vocabulary, dice),
        11 => {
            // The same question twice, and its opposite.
            let one = filter(vocabulary, dice, depth - 1);
            let not = Asked::Not(Box::new(one.clone()));
            let mut all = several(dice, 2);
            all.push(if dice.one_in(2) { one.clone() } else { not });
            all.push(one);
            if dice.one_in(2) { Asked::And(all) } else { Asked::Or(all) }
        }
        _ => {
            let mut one = filter(vocabulary, dice, depth - 1);
            for _ in 0..dice.between(1, 6) {
                one = Asked::Not(Box::new(one));
            }
            one
        }
    }
}

/// A lower and an upper bound of one attribute, and something else at times.
fn between(vocabulary: &Vocabulary, dice: &mut Dice) -> Asked {
    let word = vocabulary.word(dice);
    let of = vocabulary.asked(word, dice);
    let (low, high) = (value(word, dice), value(word, dice));
    let mut all = vec![Asked::AtLeast(of.clone(), low), Asked::AtMost(of, high)];
    if dice.one_in(3) {
        all.push(item(vocabulary, dice));
    }
    if dice.one_in(3) {
        all.reverse();
    }
    Asked::And(all)
}

/// Many questions about one attribute.
fn wide(vocabulary: &Vocabulary, dice: &mut Dice) -> Asked {
    let word = vocabulary.word(dice);
    let of = vocabulary.asked(word, dice);
    let all = (0..dice.between(5, 40)).map(|_| match dice.below(8) {
        0 => Asked::Present(of.clone()),
        1 => pieces(of.clone(), word, dice),
        _ => Asked::Equal(of.clone(), value(word, dice)),
    });
    let all: Vec<Asked> = all.collect();
    match dice.below(4) {
        0 => Asked::And(all),
        1 => Asked::And(all.into_iter().map(|one| Asked::Not(Box::new(one))).collect()),
        _ => Asked::Or(all),
    }
}

fn value(word: &Word, dice: &mut Dice) -> Vec<u8> {
    let value = dice.pick_skewed(&word.pool);
    values::variant(value, dice)
}

fn item(vocabulary: &Vocabulary, dice: &mut Dice) -> Asked {
    about(vocabulary, vocabulary.word(dice), dice)
}

/// An assertion about an attribute.
pub fn about(vocabulary: &Vocabulary, word: &Word, dice: &mut Dice) -> Asked {
    let of = vocabulary.asked(word, dice);
    match dice.below(20) {
        0 | 1 => Asked::Present(of),
        2..7 => Asked::Equal(of, value(word, dice)),
        7 | 8 => Asked::AtLeast(of, value(word, dice)),
        9 | 10 => Asked::AtMost(of, value(word, dice)),
        11 => Asked::Like(of, value(word, dice)),
        12 => {
            let value = values::alike(dice.pick_skewed::<Vec<u8>>(&word.pool), dice);
            Asked::Like(of, value)
        }
        13..17 => pieces(of, word, dice),
        _ => by_rule(of, word, dice),
    }
}

fn pieces(of: String, word: &Word, dice: &mut Dice) -> Asked {
    let cut = |dice: &mut Dice| values::piece(dice.pick_skewed::<Vec<u8>>(&word.pool), dice);
    let initial = if dice.one_in(3) { cut(dice) } else { None };
    let final_ = if dice.one_in(3) { cut(dice) } else { None };
    let most = if initial.is_none() && final_.is_none() || dice.one_in(4) { 3 } else { 0 };
    let any: Vec<Vec<u8>> = (0..dice.below(most + 1)).filter_map(|_| cut(dice)).collect();
    if initial.is_none() && final_.is_none() && any.is_empty() {
        return Asked::Present(of);
    }
    Asked::Pieces { of, initial, any, final_ }
}

fn by_rule(of: String, word: &Word, dice: &mut Dice) -> Asked {
    let own = [word.kind.equality, word.kind.ordering, word.kind.substring];
    let own: Vec<&MatchingRule> = own.into_iter().flatten().collect();
    let applying = vocabulary::applying(word.kind.syntax.oid);
    let all: Vec<&MatchingRule> = vocabulary::rules().collect();
    let from = match dice.below(6) {
        0 | 1 if !own.is_empty() => &own,
        2..5 if !applying.is_empty() => &applying,
        _ => &all,
    };
    let rule = *dice.pick(from);
    let name = match dice.below(3) {
        0 => rule.oid.to_owned(),
        1 => rule.name.to_owned(),
        _ => rule.name.to_uppercase(),
    };
    let mut value = value(word, dice);
    if rule.kind == schema::RuleKind::Substring {
        let text = String::from_utf8_lossy(&value).replace(['*', '\\'], "");
        value = match dice.below(4) {
            0 => format!("{text}*"),
            1 => format!("*{text}"),
            2 => format!("*{}*", text.chars().take(2).collect::<String>()),
            _ => text,
        }
        .into_bytes();
    }
    let (has_type, has_rule) = match dice.below(6) {
        0 => (false, true),
        1 => (true, false),
        _ => (true, true),
    };
    let (of, rule) = (has_type.then_some(of), has_rule.then_some(name));
    Asked::ByRule { of, rule, dn: dice.one_in(3), value }
}

impl Asked {
    /// Asks the same of another attribute.
    fn ask_of(&mut self, other: &str) {
        match self {
            Self::And(parts) | Self::Or(parts) => {
                parts.iter_mut().for_each(|part| part.ask_of(other));
            }
            Self::Not(part) => part.ask_of(other),
            Self::ByRule { of, .. } => *of = of.take().map(|_| other.to_owned()),
            Self::Present(of)
            | Self::Equal(of, _)
            | Self::AtLeast(of, _)
            | Self::AtMost(of, _)
            | Self::Like(of, _)
            | Self::Pieces { of, .. } => other.clone_into(of),
        }
    }

    /// Filters that are smaller and may show the same.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        match self {
            Self::And(parts) | Self::Or(parts) => {
                all.extend(parts.iter().cloned());
                let again = |parts: Vec<Self>| match self {
                    Self::And(_) => Self::And(parts),
                    _ => Self::Or(parts),
                };
                for at in 0..parts.len() {
                    let mut fewer = parts.clone();
                    fewer.remove(at);
                    all.push(again(fewer));
                }
                for (at, part) in parts.iter().enumerate() {
                    for smaller in part.smaller() {
                        let mut other = parts.clone();
                        other[at] = smaller;
                        all.push(again(other));
                    }
                }
            }
            Self::Not(part) => {
                all.push(Self::clone(part));
                all.extend(part.smaller().into_iter().map(|one| Self::Not(Box::new(one))));
            }
            Self::Present(_) => {}
            Self::Equal(of, value) => {
                let shorter = shorter(value).map(|value| Self::Equal(of.clone(), value));
                all.extend(shorter);
                all.push(Self::Present(of.clone()));
            }
            Self::AtLeast(of, value) => {
                all.extend(shorter(value).map(|value| Self::AtLeast(of.clone(), value)));
            }
            Self::AtMost(of, value) => {
                all.extend(shorter(value).map(|value| Self::AtMost(of.clone(), value)));
            }
            Self::Like(of, value) => all.push(Self::Equal(of.clone(), value.clone())),
            Self::Pieces { of, initial, any, final_ } => {
                let whole: Vec<Option<Vec<u8>>> = [initial.clone()]
                    .into_iter()
                    .chain(any.iter().cloned().map(Some))
                    .chain([final_.clone()])
                    .collect();
                for at in 0..whole.len() {
                    let Some(piece) = &whole[at] else { continue };
                    for less in [None].into_iter().chain(shorter(piece).map(Some)) {
                        let mut pieces = whole.clone();
                        pieces[at] = less.filter(|piece| !piece.is_empty());
                        let (final_, initial) = (pieces.pop().unwrap(), pieces.remove(0));
                        let any: Vec<Vec<u8>> = pieces.into_iter().flatten().collect();
                        if initial.is_some() || final_.is_some() || !any.is_empty() {
                            all.push(Self::Pieces { of: of.clone(), initial, any, final_ });
                        }
                    }
                }
            }
            Self::ByRule { of, rule, dn, value } => {
                let make =
                    |value, dn| Self::ByRule { of: of.clone(), rule: rule.clone(), dn, value };
                if *dn {
                    all.push(make(value.clone(), false));
                }
                all.extend(shorter(value).map(|value| make(value, *dn)));
            }
        }
        all
    }
}

/// Without the second half, the last octet, the first octet.
fn shorter(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let length = value.len();
    let cuts = [(0, length / 2), (0, length.saturating_sub(1)), (1.min(length), length)];
    let cuts = cuts.map(|(from, to)| value[from..to].to_vec());
    cuts.into_iter().filter(move |cut| cut.len() < length)
}

/// A value in a filter (RFC 4515 §3), everything escaped that might need it.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&octet| match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b',' | b'=' | b' ' => {
                write!(f, "{}", char::from(octet))
            }
            _ => write!(f, "\\{octet:02x}"),
        })
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, sign: char, all: &[Self]| {
            write!(f, "({sign}")?;
            all.iter().try_for_each(|one| write!(f, "{one}"))?;
            f.write_str(")")
        };
        match self {
            Self::And(all) => list(f, '&', all),
            Self::Or(all) => list(f, '|', all),
            Self::Not(one) => write!(f, "(!{one})"),
            Self::Present(of) => write!(f, "({of}=*)"),
            Self::Equal(of, value) => write!(f, "({of}={})", Escaped(value)),
            Self::AtLeast(of, value) => write!(f, "({of}>={})", Escaped(value)),
            Self::AtMost(of, value) => write!(f, "({of}<={})", Escaped(value)),
            Self::Like(of, value) => write!(f, "({of}~={})", Escaped(value)),
            Self::Pieces { of, initial, any, final_ } => {
                write!(f, "({of}={}*", Escaped(initial.as_deref().unwrap_or_default()))?;
                any.iter().try_for_each(|piece| write!(f, "{}*", Escaped(piece)))?;
                write!(f, "{})", Escaped(final_.as_deref().unwrap_or_default()))
            }
            Self::ByRule { of, rule, dn, value } => {
                write!(f, "({}", of.as_deref().unwrap_or_default())?;
                f.write_str(if *dn { ":dn" } else { "" })?;
                rule.iter().try_for_each(|rule| write!(f, ":{rule}"))?;
                write!(f, ":={})", Escaped(value))
            }
        }
    }
}
