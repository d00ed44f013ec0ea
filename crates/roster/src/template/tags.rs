//! Values of a template: text, `{references}` and `<tags>` become a list of pieces.
//!
//! Invariant: a piece refers only to lines of its own template that exist, and every length in it
//! is within `RANDOM_LENGTH_MAX`; making the value later cannot go wrong on these grounds.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::words::{WordFiles, Words, shipped_names};
use super::{Reason, split_unescaped, unescape};

/// One piece of a value.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(Box<str>),
    First,
    Last,
    Sequential {
        start: u64,
    },
    Number {
        low: u64,
        high: u64,
        digits_min: usize,
    },
    Letters {
        alphabet: Box<[char]>,
        length_min: u32,
        length_max: u32,
    },
    Telephone,
    Month {
        letters_max: usize,
    },
    Boolean,
    Guid,
    Word(Words),
    NextWord(Words),
    /// Values, each with the sum of the weights up to and including its own.
    Choice(Box<[(Box<str>, u64)]>),
    /// The attribute is left out unless a draw below 100 is below this.
    Presence {
        percent: u64,
    },
    /// The attribute is left out unless the one in `slot` has a value (and, if given, this one).
    If {
        slot: usize,
        value: Option<Box<str>>,
        wanted: bool,
    },
    /// The first value of the attribute in `slot`, or as many characters of it.
    Attribute {
        slot: usize,
        letters_max: Option<usize>,
    },
    Dn {
        rdns_max: usize,
    },
    ParentDn,
    Rdn,
    /// The line has `count` values, each with another number of `low..=high`.
    Distinct {
        count: u64,
        low: u64,
        high: u64,
    },
}

/// What a value may refer to.
pub(crate) struct Surroundings<'a> {
    pub(crate) slots: &'a [Slot],
    /// The line whose value is being read.
    pub(crate) line: usize,
    pub(crate) shelf: &'a Shelf<'a>,
}

/// One attribute of a template with the lines that give it values.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// In lower case.
    pub(crate) attribute: String,
    /// Ascending.
    pub(crate) lines: Vec<usize>,
}

/// Reads the value of one line.
pub(crate) fn parse_value(text: &str, around: &Surroundings<'_>) -> Result<Vec<Piece>, Reason> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        let piece = match letter {
            '\\' => {
                plain.push(rest.next().unwrap_or('\\'));
                continue;
            }
            '{' => reference(enclosed(&mut rest, '{', '}')?, around)?,
            '<' => tag(enclosed(&mut rest, '<', '>')?, around)?,
            other => {
                plain.push(other);
                continue;
            }
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain).into()));
        }
        let is_distinct = |piece: &Piece| matches!(piece, Piece::Distinct { .. });
        if is_distinct(&piece) && pieces.iter().any(is_distinct) {
            return Err(Reason::new("a value may have one tag <distinct>"));
        }
        pieces.push(piece);
        if pieces.len() > PIECES_MAX {
            return Err(Reason::new(format!("a value may have at most {PIECES_MAX} pieces")));
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain.into()));
    }
    Ok(pieces)
}

/// The text up to an unescaped `close`, escapes left in; `rest` goes on behind it.
fn enclosed<'t>(
    rest: &mut std::str::Chars<'t>,
    open: char,
    close: char,
) -> Result<&'t str, Reason> {
    let text = rest.as_str();
    let Some((inside, behind)) = super::split_once_unescaped(text, close) else {
        return Err(Reason::new(format!("'{open}' without '{close}'"))
            .hint(format!("write '\\{open}' for the character itself")));
    };
    *rest = behind.chars();
    Ok(inside)
}

/// `{attribute}` or `{attribute:letters}`.
fn reference(text: &str, around: &Surroundings<'_>) -> Result<Piece, Reason> {
    let (name, letters) = match text.split_once(':') {
        Some((name, letters)) => (name, Some(number(letters, "number of characters")?)),
        None => (text, None),
    };
    let slot = around.slot(name)?;
    Ok(Piece::Attribute { slot, letters_max: letters.map(|letters| letters as usize) })
}

/// `<name:argument:…>`.
fn tag(text: &str, around: &Surroundings<'_>) -> Result<Piece, Reason> {
    let (name, arguments) = super::split_once_unescaped(text, ':').unwrap_or((text, ""));
    let arguments = Arguments {
        text: arguments,
        parts: if arguments.is_empty() {
            Vec::new()
        } else {
            split_unescaped(arguments, ':').map(unescape).collect()
        },
    };
    let name = name.trim().to_ascii_lowercase();
    match TAGS.iter().find(|tag| tag.name == name) {
        Some(tag) => (tag.parse)(&arguments, around).map_err(|reason| match reason.hint {
            Some(_) => reason,
            None => reason.hint(format!("the tag is written {}", tag.form)),
        }),
        None => Err(Reason::new(format!("unknown tag '<{name}>'")).hint(match similar(&name) {
            Some(near) => format!("did you mean '<{near}>'? Write '\\<' for a plain '<'"),
            None => "write '\\<' for a plain '<'".to_owned(),
        })),
    }
}

fn similar(name: &str) -> Option<&'static str> {
    TAGS.iter().map(|tag| tag.name).find(|known| known.starts_with(name) || name.starts_with(known))
}

struct Arguments<'a> {
    text: &'a str,
    parts: Vec<String>,
}

impl Arguments<'_> {
    fn part(&self, index: usize) -> Option<&str> {
        self.parts.get(index).map(String::as_str)
    }

    /// Part `index` as a number, `default` when it is not given.
    fn number(&self, index: usize, default: Option<u64>, what: &str) -> Result<u64, Reason> {
        match (self.part(index), default) {
            (Some(text), _) => number(text, what),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(Reason::new(format!("the {what} is missing"))),
        }
    }

    fn at_most(&self, count: usize) -> Result<(), Reason> {
        if self.parts.len() > count {
            return Err(Reason::new("too many arguments"));
        }
        Ok(())
    }
}

impl Surroundings<'_> {
    /// The slot of attribute `name`; within the attribute itself an earlier line must exist.
    fn slot(&self, name: &str) -> Result<usize, Reason> {
        let name = name.trim().to_ascii_lowercase();
        let place = self.slots.iter().position(|slot| slot.attribute == name);
        let slot = place.and_then(|place| self.slots.get(place));
        let first = slot.and_then(|slot| slot.lines.first());
        match (place, first) {
            (Some(place), Some(first)) if *first != self.line => Ok(place),
            _ => Err(Reason::new(format!("no other line of this template gives '{name}' a value"))
                .hint("write '\\{' for a plain '{'")),
        }
    }
}

/// The word lists in use, each read once.
pub(crate) struct Shelf<'a> {
    files: &'a dyn WordFiles,
    lists: RefCell<BTreeMap<String, Words>>,
}

impl<'a> Shelf<'a> {
    pub(crate) fn new(files: &'a dyn WordFiles) -> Self {
        Self { files, lists: RefCell::default() }
    }

    pub(crate) fn words(&self, name: &str) -> Result<Words, Reason> {
        if let Some(words) = self.lists.borrow().get(name) {
            return Ok(words.clone());
        }
        let words = self.find(name)?;
        self.lists.borrow_mut().insert(name.to_owned(), words.clone());
        Ok(words)
    }

    fn find(&self, name: &str) -> Result<Words, Reason> {
        if let Some(text) = self.files.read(name).map_err(Reason::new)? {
            return Words::parse(&text)
                .ok_or_else(|| Reason::new(format!("word file '{name}' contains no words")));
        }
        Words::shipped(name).ok_or_else(|| {
            let shipped: Vec<&str> = shipped_names().collect();
            Reason::new(format!("there is no word file '{name}'")).hint(format!(
                "put it next to the template, or use a shipped one: {}",
                shipped.join(", ")
            ))
        })
    }
}

/// One tag of the language. A new tag is a row here.
struct Tag {
    name: &'static str,
    form: &'static str,
    parse: fn(&Arguments<'_>, &Surroundings<'_>) -> Result<Piece, Reason>,
}

const TAGS: &[Tag] = &[
    Tag { name: "distinct", form: "<distinct:count:low:high>", parse: distinct },
    Tag { name: "dn", form: "<dn> or <dn:rdns>", parse: dn },
    Tag { name: "file", form: "<file:name> or <file:name:sequential>", parse: file },
    Tag { name: "first", form: "<first>", parse: |_, _| Ok(Piece::First) },
    Tag { name: "guid", form: "<guid>", parse: |_, _| Ok(Piece::Guid) },
    Tag {
        name: "ifabsent",
        form: "<ifabsent:attribute> or <ifabsent:attribute:value>",
        parse: |arguments, around| condition(arguments, around, false),
    },
    Tag {
        name: "ifpresent",
        form: "<ifpresent:attribute> or <ifpresent:attribute:value>",
        parse: |arguments, around| condition(arguments, around, true),
    },
    Tag { name: "last", form: "<last>", parse: |_, _| Ok(Piece::Last) },
    Tag { name: "list", form: "<list:one,two:weight,…>", parse: list },
    Tag { name: "parentdn", form: "<parentdn>", parse: |_, _| Ok(Piece::ParentDn) },
    Tag { name: "presence", form: "<presence:percent>", parse: presence },
    Tag { name: "random", form: "<random:kind:…>", parse: random },
    Tag { name: "rdn", form: "<rdn>", parse: |_, _| Ok(Piece::Rdn) },
    Tag { name: "sequential", form: "<sequential> or <sequential:first>", parse: sequential },
];

fn dn(arguments: &Arguments<'_>, _: &Surroundings<'_>) -> Result<Piece, Reason> {
    arguments.at_most(1)?;
    let rdns = arguments.number(0, Some(u64::MAX), "number of RDNs")?;
    if rdns == 0 {
        return Err(Reason::new("the number of RDNs must be at least 1"));
    }
    Ok(Piece::Dn { rdns_max: usize::try_from(rdns).unwrap_or(usize::MAX) })
}

fn distinct(arguments: &Arguments<'_>, _: &Surroundings<'_>) -> Result<Piece, Reason> {
    arguments.at_most(3)?;
    let count = arguments.number(0, None, "count of values")?;
    let low = arguments.number(1, None, "least number")?;
    let high = arguments.number(2, None, "greatest number")?;
    if count > DISTINCT_MAX {
        return Err(Reason::new(format!("a line may have at most {DISTINCT_MAX} values")));
    }
    if low > high {
        return Err(Reason::new(format!("{low} is greater than {high}")));
    }
    if u128::from(count) > u128::from(high - low) + 1 {
        let reason = format!("there are no {count} different numbers from {low} to {high}");
        return Err(Reason::new(reason));
    }
    Ok(Piece::Distinct { count, low, high })
}

fn sequential(arguments: &Arguments<'_>, _: &Surroundings<'_>) -> Result<Piece, Reason> {
    arguments.at_most(1)?;
    Ok(Piece::Sequential { start: arguments.number(0, Some(0), "first number")? })
}

fn presence(arguments: &Arguments<'_>, _: &Surroundings<'_>) -> Result<Piece, Reason> {
    arguments.at_most(1)?;
    let percent = arguments.number(0, None, "percentage")?;
    if percent > 100 {
        return Err(Reason::new("the percentage must be between 0 and 100"));
    }
    Ok(Piece::Presence { percent })
}

fn condition(
    arguments: &Arguments<'_>,
    around: &Surroundings<'_>,
    wanted: bool,
) -> Result<Piece, Reason> {
    arguments.at_most(2)?;
    let name = arguments.part(0).ok_or_else(|| Reason::new("the attribute is missing"))?;
    let value = arguments.part(1).map(Box::from);
    Ok(Piece::If { slot: around.slot(name)?, value, wanted })
}

fn file(arguments: &Arguments<'_>, around: &Surroundings<'_>) -> Result<Piece, Reason> {
    arguments.at_most(2)?;
    let name = arguments.part(0).ok_or_else(|| Reason::new("the name of the file is missing"))?;
    let words = around.shelf.words(name)?;
    match arguments.part(1) {
        None | Some("random") => Ok(Piece::Word(words)),
        Some("sequential") => Ok(Piece::NextWord(words)),
        Some(other) => Err(Reason::new(format!("'{other}' is not an order of words"))),
    }
}

/// `a,b:2,c:3`: a weight follows its value after `:` or `;`; it is 1 when not given.
fn list(arguments: &Arguments<'_>, _: &Surroundings<'_>) -> Result<Piece, Reason> {
    let mut values = Vec::new();
    let mut total = 0_u64;
    for item in split_unescaped(arguments.text, ',') {
        let (value, weight) = match item.rsplit_once([':', ';']) {
            Some((value, weight)) if !value.ends_with('\\') => (value, number(weight, "weight")?),
            _ => (item, 1),
        };
        total = total
            .checked_add(weight)
            .ok_or_else(|| Reason::new("the weights are too large together"))?;
        values.push((unescape(value).into_boxed_str(), total));
    }
    if total == 0 {
        return Err(Reason::new("the list is empty, or all weights are 0"));
    }
    Ok(Piece::Choice(values.into()))
}

fn random(arguments: &Arguments<'_>, _: &Surroundings<'_>) -> Result<Piece, Reason> {
    let kind = arguments.part(0).unwrap_or("").to_ascii_lowercase();
    let alphabet = match kind.as_str() {
        "alpha" => "abcdefghijklmnopqrstuvwxyz",
        "alphanumeric" => "abcdefghijklmnopqrstuvwxyz0123456789",
        "hex" => "0123456789abcdef",
        "numeric" => return numeric(arguments),
        "chars" => {
            let alphabet = arguments.part(1).unwrap_or("");
            return letters(alphabet, arguments, 2);
        }
        "boolean" => return Ok(Piece::Boolean),
        "telephone" => return Ok(Piece::Telephone),
        "month" => {
            let letters = arguments.number(1, Some(u64::MAX), "number of characters")?;
            return Ok(Piece::Month {
                letters_max: usize::try_from(letters).unwrap_or(usize::MAX),
            });
        }
        other => {
            return Err(Reason::new(format!("unknown kind of random value '{other}'")).hint(
                "use alpha, alphanumeric, boolean, chars, hex, month, numeric or telephone",
            ));
        }
    };
    letters(alphabet, arguments, 1)
}

/// `numeric:length`, `numeric:low:high` or `numeric:low:high:digits`.
fn numeric(arguments: &Arguments<'_>) -> Result<Piece, Reason> {
    arguments.at_most(4)?;
    if arguments.part(2).is_none() {
        return letters("0123456789", arguments, 1);
    }
    let low = arguments.number(1, None, "least number")?;
    let high = arguments.number(2, None, "greatest number")?;
    let digits = arguments.number(3, Some(1), "number of digits")?;
    if low > high {
        return Err(Reason::new(format!("{low} is greater than {high}")));
    }
    Ok(Piece::Number { low, high, digits_min: length(digits)? as usize })
}

/// `length` or `length_min:length_max`, from argument `at` on.
fn letters(alphabet: &str, arguments: &Arguments<'_>, at: usize) -> Result<Piece, Reason> {
    arguments.at_most(at + 2)?;
    if alphabet.is_empty() {
        return Err(Reason::new("there are no characters to choose from"));
    }
    let least = length(arguments.number(at, None, "length")?)?;
    let most = length(arguments.number(at + 1, Some(u64::from(least)), "greatest length")?)?;
    if least > most {
        return Err(Reason::new(format!("the length {least} is greater than {most}")));
    }
    Ok(Piece::Letters { alphabet: alphabet.chars().collect(), length_min: least, length_max: most })
}

fn length(number: u64) -> Result<u32, Reason> {
    u32::try_from(number).ok().filter(|length| *length <= RANDOM_LENGTH_MAX).ok_or_else(|| {
        Reason::new(format!("a random value may have at most {RANDOM_LENGTH_MAX} characters"))
    })
}

fn number(text: &str, what: &str) -> Result<u64, Reason> {
    text.trim().parse().map_err(|_| Reason::new(format!("'{text}' is not a {what}")))
}

/// Characters of one random piece.
const RANDOM_LENGTH_MAX: u32 = 65_536;
/// Values of one line.
const DISTINCT_MAX: u64 = 4_000_000;
/// Pieces of one value.
const PIECES_MAX: usize = 256;
