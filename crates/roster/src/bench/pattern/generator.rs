//! The generators of values that OpenDJ's tools have: for `-g`, and for brackets.
//!
//! | text | makes |
//! |---|---|
//! | `inc(a,b)`, `inc(FILE)` | numbers from a to b, or the lines of a file, in turn |
//! | `rand(a,b)`, `rand(FILE)`, `randfile(FILE)` | the same in the order of the job |
//! | `randstr(n)`, `randstr(n,[A-Z]xyz)` | n letters or digits, or n of these characters |
//! | anything else | itself |

use super::super::keys::Order;
use super::{NUMBER, Values, Variable, lines};
use crate::failure::Failure;

/// Why a text is no generator.
#[derive(Debug)]
pub(super) struct Wrong {
    /// Where in the text, in octets.
    pub(super) at: usize,
    pub(super) failure: Failure,
}

/// Reads a generator, or a constant.
pub(super) fn generator(text: &str) -> Result<Variable, Wrong> {
    let Some((name, rest)) = text.split_once('(').filter(|(name, _)| is_name(name)) else {
        return match text {
            "" => Err(wrong(0, "a generator is not empty")),
            text => Ok(Values::List(vec![text.to_owned()]).into()),
        };
    };
    let at = name.len() + 1;
    let inside = rest.strip_suffix(')').ok_or_else(|| wrong(text.len(), "')' is missing"))?;
    match name {
        "inc" => Ok(Variable { order: Some(Order::Sequential), ..numbers_or_lines(inside, at)? }),
        "rand" => numbers_or_lines(inside, at),
        "randfile" => of_file(inside, at),
        "randstr" => letters(inside, at),
        _ => {
            let failure = Failure::local(format!("there is no generator '{name}'"));
            Err(Wrong { at: 0, failure: failure.hint(FORMS) })
        }
    }
}

/// Whether brackets with this text in them are meant to hold a generator.
pub(super) fn is_call(inside: &str) -> bool {
    let name = inside.split_once('(').map(|(name, _)| name);
    name.is_some_and(|name| ["inc", "rand", "randfile", "randstr"].contains(&name))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_alphanumeric())
}

/// `a,b` or the name of a file.
fn numbers_or_lines(inside: &str, at: usize) -> Result<Variable, Wrong> {
    let Some((low, high)) = inside.split_once(',') else { return of_file(inside, at) };
    let behind = at + low.len() + 1;
    let (low, high) = (number(low, at)?, number(high, behind)?);
    match low <= high {
        true => Ok(Values::Number { low, high, digits_min: 1 }.into()),
        false => Err(wrong(behind, format!("the second number is less than {low}"))),
    }
}

fn number(text: &str, at: usize) -> Result<u64, Wrong> {
    let shown = text.trim();
    shown.parse().map_err(|_| wrong(at, format!("'{shown}' is not a number from {NUMBER}")))
}

fn of_file(name: &str, at: usize) -> Result<Variable, Wrong> {
    match lines(name) {
        Ok(lines) => Ok(Values::List(lines).into()),
        Err(failure) => Err(Wrong { at, failure: failure.hint(FORMS) }),
    }
}

/// `n` or `n,characters`.
fn letters(inside: &str, at: usize) -> Result<Variable, Wrong> {
    let (count, set) = inside.split_once(',').unwrap_or((inside, LETTERS));
    let length = count.trim().parse().ok().filter(|count| (1..=LENGTH_MAX).contains(count));
    let length = length
        .ok_or_else(|| wrong(at, format!("'{count}' is not a length from 1 to {LENGTH_MAX}")))?;
    let at = at + count.len() + 1;
    let mut letters = Vec::new();
    let mut rest = set;
    while let Some(first) = rest.chars().next() {
        let at = at + set.len() - rest.len();
        let (low, high, after) = match range(rest) {
            Some(range) => range,
            None if first == '[' => return Err(wrong(at, "a range is '[a-z]'")),
            None => (first, first, rest.get(first.len_utf8()..).unwrap_or_default()),
        };
        if low > high {
            return Err(wrong(at, format!("there is nothing from '{low}' to '{high}'")));
        }
        letters.extend((low..=high).take(LETTERS_MAX + 1));
        letters.sort_unstable();
        letters.dedup();
        if letters.len() > LETTERS_MAX {
            return Err(wrong(at, format!("these are more than {LETTERS_MAX} characters")));
        }
        rest = after;
    }
    if letters.is_empty() {
        return Err(wrong(at, "there is no character to choose"));
    }
    Ok(Values::Letters { length, letters }.into())
}

/// `[a-z]` at the front, and what is behind it.
fn range(text: &str) -> Option<(char, char, &str)> {
    let mut characters = text.chars();
    let open = characters.next().filter(|open| *open == '[');
    let (low, dash, high) = (characters.next()?, characters.next()?, characters.next()?);
    let is_range = open.is_some() && dash == '-' && characters.next() == Some(']');
    is_range.then_some((low, high, characters.as_str()))
}

fn wrong(at: usize, reason: impl std::fmt::Display) -> Wrong {
    Wrong { at, failure: Failure::local(reason) }
}

/// What a generator of letters may hold, wherever it comes from.
pub(super) fn is_good(length: usize, letters: &[char]) -> bool {
    (1..=LENGTH_MAX).contains(&length) && (1..=LETTERS_MAX).contains(&letters.len())
}

/// What `randstr` chooses from if nothing is said.
const LETTERS: &str = "[A-Z][a-z][0-9]";
/// Characters a value of letters has at most.
const LENGTH_MAX: usize = 1_000;
/// Characters it is chosen from at most.
const LETTERS_MAX: usize = 1_000;
const FORMS: &str = "write inc(1,100), inc(FILE), rand(1,100), rand(FILE), randstr(8) or \
                     randstr(8,[a-z][0-9])";
