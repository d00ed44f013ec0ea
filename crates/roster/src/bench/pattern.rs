//! Texts with values in them: `uid=user.[1-100000]`.
//!
//! | in a text | stands for |
//! |---|---|
//! | `[a-b]` | a number from a to b, with as many digits as a when that starts with 0 |
//! | `[digits:n]` | n digits |
//! | `[a,b,c]` | one of these |
//! | `[file:NAME]` | one of the lines of a file |
//! | `[1]` | the first value of the same request again, `[2]` the second |
//!
//! Any other bracket is itself.
//!
//! Invariant: a value is put into a request that is parsed already, so that none can change what
//! the request asks.

use serde::{Deserialize, Serialize};

use super::keys::{Keys, Order};
use crate::chance::mix;
use crate::failure::Failure;

/// One text; the values it refers to stand in `Variables`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Part {
    Text(String),
    /// The index of a variable.
    Value(usize),
}

/// What may stand for the brackets of one request, in the order in which its patterns name it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Variables(Vec<Variable>);

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Variable {
    Number { low: u64, high: u64, digits_min: usize },
    List(Vec<String>),
}

impl Pattern {
    /// Reads a pattern and adds its variables to `variables`.
    pub(crate) fn parse(text: &str, variables: &mut Variables) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('[') {
            plain.push_str(before);
            let value = match behind.split_once(']') {
                Some((inside, after)) => variables.value(inside)?.map(|index| (index, after)),
                None => None,
            };
            match value {
                Some((index, after)) => {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(Part::Value(index));
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
        Ok(Self(parts))
    }

    /// The text with these in the place of its values.
    pub(crate) fn fill(&self, values: &[String]) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Value(index) => values.get(*index).cloned().unwrap_or_default(),
        };
        self.0.iter().map(part).collect()
    }
}

impl Variables {
    /// What the text between two brackets stands for.
    fn value(&mut self, inside: &str) -> Result<Option<usize>, Failure> {
        if let Ok(number) = inside.parse::<usize>() {
            return Ok(number.checked_sub(1).filter(|index| *index < self.0.len()));
        }
        let variable = if let Some(name) = inside.strip_prefix("file:") {
            Some(Variable::List(lines(name)?))
        } else if let Some(count) = inside.strip_prefix("digits:") {
            digits(count)
        } else if inside.contains(',') {
            let list: Vec<String> = inside.split(',').map(str::to_owned).collect();
            list.iter().all(|item| !item.is_empty()).then_some(Variable::List(list))
        } else {
            range(inside)
        };
        self.0.extend(variable.clone());
        Ok(variable.map(|_| self.0.len() - 1))
    }

    /// With what the generators of OpenDJ's tools make as the first values.
    pub(crate) fn of_generators(generators: &[String]) -> Result<Self, Failure> {
        let variable = |text: &String| {
            generator(text).unwrap_or_else(|| {
                Err(Failure::local(format!("'{text}' is no generator of values"))
                    .hint("write rand(0,10000) or randfile(NAME)"))
            })
        };
        Ok(Self(generators.iter().map(variable).collect::<Result<_, _>>()?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Variable> {
        self.0.iter()
    }

    /// How many requests there are before a value comes again; 1 without values.
    pub(crate) fn distinct(&self) -> u64 {
        self.iter().map(Variable::span).max().unwrap_or(1)
    }

    /// In which order each of them is taken.
    pub(crate) fn keys(&self, order: Order, seed: u64) -> Vec<Keys> {
        let seeds = (0_u64..).map(|number| seed ^ mix(number));
        let pairs = self.iter().zip(seeds);
        pairs.map(|(variable, seed)| Keys::new(variable.span(), order, seed)).collect()
    }
}

/// `a-b`.
fn range(inside: &str) -> Option<Variable> {
    let (low, high) = inside.split_once('-')?;
    let digits_min = if low.starts_with('0') { low.len() } else { 1 };
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    let is_good = low <= high && digits_min <= DIGITS_MAX;
    is_good.then_some(Variable::Number { low, high, digits_min })
}

/// So many digits.
fn digits(count: &str) -> Option<Variable> {
    let count: u32 = count.parse().ok().filter(|count| (1..=19).contains(count))?;
    let high = 10_u64.checked_pow(count)? - 1;
    Some(Variable::Number { low: 0, high, digits_min: count as usize })
}

/// The lines of a file that hold something.
fn lines(name: &str) -> Result<Vec<String>, Failure> {
    let path = std::path::Path::new(name);
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::path("read", path, &error)
            .hint("[file:NAME] takes a value from each line of a file")
    })?;
    let lines: Vec<String> =
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(Failure::local(format!("'{name}' holds no line to take values from")));
    }
    Ok(lines)
}

impl Variable {
    /// How many values it has.
    pub(crate) fn span(&self) -> u64 {
        match self {
            Self::Number { low, high, .. } => (high - low).saturating_add(1),
            Self::List(list) => list.len() as u64,
        }
    }

    /// The octets of the value with this number from 0, put into `out`.
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::Number { low, digits_min, .. } => {
                let mut rest = low + number;
                while rest > 0 || out.len() < *digits_min {
                    out.push(b'0' + (rest % 10) as u8);
                    rest /= 10;
                }
                out.reverse();
            }
            Self::List(list) => {
                let item = usize::try_from(number).ok().and_then(|number| list.get(number));
                out.extend_from_slice(item.map_or(b"", |item| item.as_bytes()));
            }
        }
    }

    /// Whether it can be used at all: what came over the network may hold anything.
    pub(crate) fn is_good(&self) -> bool {
        match self {
            Self::Number { low, high, digits_min } => low <= high && *digits_min <= DIGITS_MAX,
            Self::List(list) => !list.is_empty() && list.iter().all(|item| !item.is_empty()),
        }
    }
}

/// The names OpenDJ's tools have for values, `%d`, `%s`, `%2$d`, as brackets: what the generators
/// of `-g` make are the first values of each request.
pub(crate) fn with_generators(text: &str, generators: &[String]) -> String {
    let mut text = text.to_owned();
    for (number, _) in (1..).zip(generators) {
        for name in [format!("%{number}$d"), format!("%{number}$s")] {
            text = text.replace(&name, &format!("[{number}]"));
        }
        if number == 1 {
            text = text.replace("%d", "[1]").replace("%s", "[1]");
        }
    }
    text
}

/// `rand(0,10000)` or `randfile(NAME)`.
fn generator(text: &str) -> Option<Result<Variable, Failure>> {
    let (name, rest) = text.split_once('(')?;
    let inside = rest.strip_suffix(')')?;
    match name {
        "rand" => {
            let (low, high) = inside.split_once(',')?;
            let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            (low <= high).then_some(Ok(Variable::Number { low, high, digits_min: 1 }))
        }
        "randfile" => Some(lines(inside).map(Variable::List)),
        _ => None,
    }
}

/// Digits a number can be filled up to.
const DIGITS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, turn: u64) -> String {
        let mut variables = Variables::default();
        let pattern = Pattern::parse(text, &mut variables).unwrap();
        let mut keys = variables.keys(Order::Sequential, 1);
        let values: Vec<String> = variables
            .iter()
            .zip(&mut keys)
            .map(|(variable, keys)| {
                let mut value = Vec::new();
                variable.write(keys.at(turn), &mut value);
                String::from_utf8(value).unwrap()
            })
            .collect();
        pattern.fill(&values)
    }

    /// The pattern with the values of turn `turn`.
    #[track_caller]
    fn check(text: &str, turn: u64, want: &str) {
        assert_eq!(filled(text, turn), want);
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
        check("[digits:4]", 12, "0012");
    }

    #[test]
    fn brackets_stand_for_items() {
        check("[a,b,c]", 1, "b");
        check("[x y,z]-[1]", 0, "x y-x y");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        std::fs::write(&path, "one\n\ntwo\n").unwrap();
        check(&format!("[file:{}] [1]", path.display()), 3, "two two");
        std::fs::write(&path, "\n").unwrap();
        for name in [path.display().to_string(), "/nowhere/at/all".to_owned()] {
            let text = format!("[file:{name}]");
            let failure = Pattern::parse(&text, &mut Variables::default()).unwrap_err();
            assert!(failure.message.contains(&name), "{failure:?}");
        }
    }

    #[test]
    fn other_brackets_are_text() {
        let all = "[ ] [] [a] [1] [9-1] [1-] [1-2 a[b]c [-1-2] [a,] [digits:0] [digits:20]";
        for text in all.split(' ') {
            check(text, 0, text);
        }
        check("[x[1-2]", 0, "[x1");
    }

    #[test]
    fn generators_of_opendj_are_the_first_values() {
        let list = ["rand(0,10000)".to_owned(), "rand(7,8)".to_owned()];
        let mut variables = Variables::of_generators(&list).unwrap();
        let text = with_generators("uid=user.%d %2$s %1$d", &list);
        assert_eq!(text, "uid=user.[1] [2] [1]");
        let pattern = Pattern::parse(&text, &mut variables).unwrap();
        assert_eq!(pattern.fill(&["5".to_owned(), "7".to_owned()]), "uid=user.5 7 5");
        for wrong in ["inc(1,2)", "rand(2,1)", "rand", "rand(1"] {
            assert!(Variables::of_generators(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
