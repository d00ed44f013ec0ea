//! Texts with values in them: `uid=user.[1-100000]`.
//!
//! | in a text | stands for |
//! |---|---|
//! | `[a-b]` | a number from a to b, with as many digits as a when that starts with 0 |
//! | `[digits:n]` | n digits |
//! | `[a,b,c]` | one of these |
//! | `[file:NAME]` | one of the lines of a file |
//! | `[inc(a,b)]`, `[randstr(n)]` … | what OpenDJ's tools make of it: see `generator` |
//! | `[1]` | the first value of the same request again, `[2]` the second |
//!
//! Any other bracket is itself.
//!
//! Invariant: a value is put into a request that is parsed already, so that none can change what
//! the request asks.

mod generator;

use std::io::Read as _;

use serde::{Deserialize, Serialize};

use self::generator::Wrong;
use super::keys::{Keys, Order};
use crate::chance::{Chance, mix};
use crate::failure::Failure;

/// One text; the values it refers to stand in `Variables`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
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
pub(crate) struct Variable {
    values: Values,
    /// In which order they come, if not in that of the job.
    order: Option<Order>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Values {
    Number { low: u64, high: u64, digits_min: usize },
    List(Vec<String>),
    Letters { length: usize, letters: Vec<char> },
}

impl From<Values> for Variable {
    fn from(values: Values) -> Self {
        Self { values, order: None }
    }
}

impl Pattern {
    /// Reads a pattern and adds its variables to `variables`.
    pub(crate) fn parse(text: &str, variables: &mut Variables) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('[') {
            plain.push_str(before);
            let column = |at: usize| text.get(..at).map_or(1, |before| before.chars().count() + 1);
            let at = text.len() - behind.len();
            let refused = |wrong: Wrong| Failure {
                message: format!(
                    "'{text}', column {}: {}",
                    column(at + wrong.at),
                    wrong.failure.message
                ),
                ..wrong.failure
            };
            match variables.bracket(behind).map_err(refused)? {
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

    /// Puts text behind it, which is as it is.
    pub(crate) fn push_text(&mut self, text: &str) {
        self.0.push(Part::Text(text.to_owned()));
    }

    /// Puts the value with this number behind it.
    pub(crate) fn push_value(&mut self, index: usize) {
        self.0.push(Part::Value(index));
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
    /// What the text behind an opening bracket stands for, and what is behind the closing one.
    fn bracket<'t>(&mut self, behind: &'t str) -> Result<Option<(usize, &'t str)>, Wrong> {
        // Characters of randstr are in brackets of their own.
        if generator::is_call(behind) {
            let (inside, after) = behind.split_once(")]").ok_or_else(|| Wrong {
                at: behind.len(),
                failure: Failure::local("')]' is missing"),
            })?;
            let call = behind.get(..=inside.len()).unwrap_or_default();
            return Ok(Some((self.add(generator::generator(call)?)?, after)));
        }
        let Some((inside, after)) = behind.split_once(']') else { return Ok(None) };
        if let Ok(number) = inside.parse::<usize>() {
            let index = number.checked_sub(1).filter(|index| *index < self.0.len());
            return Ok(index.map(|index| (index, after)));
        }
        let values = if let Some(name) = inside.strip_prefix("file:") {
            let hint = "[file:NAME] takes a value from each line of a file";
            let refused = |failure: Failure| Wrong { at: 0, failure: failure.hint(hint) };
            Some(Values::List(lines(name).map_err(refused)?))
        } else if let Some(count) = inside.strip_prefix("digits:") {
            digits(count)
        } else if inside.contains(',') {
            let list: Vec<String> = inside.split(',').map(str::to_owned).collect();
            list.iter().all(|item| !item.is_empty()).then_some(Values::List(list))
        } else {
            range(inside)
        };
        let index = values.map(|values| self.add(values.into())).transpose()?;
        Ok(index.map(|index| (index, after)))
    }

    /// Adds one of these values, of which there is at least one; none is empty.
    pub(crate) fn push_list(&mut self, values: Vec<String>) -> Result<usize, Failure> {
        self.add(Values::List(values).into()).map_err(|wrong| wrong.failure)
    }

    fn add(&mut self, variable: Variable) -> Result<usize, Wrong> {
        if self.0.len() >= VARIABLES_MAX {
            let failure = Failure::local(format!("a job has at most {VARIABLES_MAX} values"));
            return Err(Wrong { at: 0, failure });
        }
        self.0.push(variable);
        Ok(self.0.len() - 1)
    }

    /// With what the generators of OpenDJ's tools make as the first values.
    pub(crate) fn of_generators(generators: &[String]) -> Result<Self, Failure> {
        let mut variables = Self::default();
        for text in generators {
            let added = generator::generator(text).and_then(|variable| variables.add(variable));
            added.map_err(|Wrong { at, failure }| {
                let column = text.get(..at).map_or(1, |before| before.chars().count() + 1);
                let message = format!("generator '{text}', column {column}: {}", failure.message);
                Failure { message, ..failure }
            })?;
        }
        Ok(variables)
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
        let keys = |(variable, seed): (&Variable, u64)| {
            Keys::new(variable.span(), variable.order.unwrap_or(order), seed)
        };
        pairs.map(keys).collect()
    }

    /// The values of a turn as texts.
    pub(crate) fn draw(&self, keys: &mut [Keys], turn: u64) -> Vec<String> {
        let value = |(variable, keys): (&Variable, &mut Keys)| {
            let mut out = Vec::new();
            variable.write(keys.at(turn), &mut out);
            String::from_utf8(out).expect("values of a text are text")
        };
        self.iter().zip(keys).map(value).collect()
    }
}

/// `a-b`.
fn range(inside: &str) -> Option<Values> {
    let (low, high) = inside.split_once('-')?;
    let digits_min = if low.starts_with('0') { low.len() } else { 1 };
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    let is_good = low <= high && digits_min <= DIGITS_MAX;
    is_good.then_some(Values::Number { low, high, digits_min })
}

/// So many digits.
fn digits(count: &str) -> Option<Values> {
    let count: u32 = count.parse().ok().filter(|count| (1..=19).contains(count))?;
    let high = 10_u64.checked_pow(count)? - 1;
    Some(Values::Number { low: 0, high, digits_min: count as usize })
}

/// The lines of a file that hold something.
fn lines(name: &str) -> Result<Vec<String>, Failure> {
    let path = std::path::Path::new(name);
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| Failure::path("read", path, &error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::local(format!("'{name}' has more than {FILE_BYTES_MAX} bytes")));
    }
    let lines: Vec<String> =
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(Failure::local(format!("'{name}' contains no line to take values from")));
    }
    Ok(lines)
}

impl Variable {
    /// How many values it has; of those that are too many to count, as many as can be.
    pub(crate) fn span(&self) -> u64 {
        match &self.values {
            Values::Number { low, high, .. } => (high - low).saturating_add(1),
            Values::List(list) => list.len() as u64,
            Values::Letters { length, letters } => power(letters, *length).unwrap_or(u64::MAX),
        }
    }

    /// The octets of the value with this number from 0, put into `out`.
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        match &self.values {
            Values::Number { low, digits_min, .. } => {
                let mut rest = low + number;
                while rest > 0 || out.len() < *digits_min {
                    out.push(b'0' + (rest % 10) as u8);
                    rest /= 10;
                }
                out.reverse();
            }
            Values::List(list) => {
                let item = usize::try_from(number).ok().and_then(|number| list.get(number));
                out.extend_from_slice(item.map_or(b"", |item| item.as_bytes()));
            }
            Values::Letters { length, letters } => {
                let count = letters.len().max(1) as u64;
                // The number tells all letters, as digits do, or where chance starts.
                let mut chance = power(letters, *length).is_none().then(|| Chance::new(number, 0));
                let mut rest = number;
                for _ in 0..*length {
                    let place = match &mut chance {
                        Some(chance) => chance.below(count),
                        None => rest % count,
                    };
                    rest /= count;
                    let letter = letters.get(place as usize).copied().unwrap_or('x');
                    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }

    /// Whether it can be used at all: what came over the network may hold anything.
    pub(crate) fn is_good(&self) -> bool {
        match &self.values {
            Values::Number { low, high, digits_min } => low <= high && *digits_min <= DIGITS_MAX,
            Values::List(list) => !list.is_empty() && list.iter().all(|item| !item.is_empty()),
            Values::Letters { length, letters } => generator::is_good(*length, letters),
        }
    }
}

/// How many words of this length there are, if they can be counted.
fn power(letters: &[char], length: usize) -> Option<u64> {
    (letters.len() as u64).checked_pow(u32::try_from(length).ok()?)
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

/// Reads a text with values in it, or a generator, and draws some; whether it can be read. For
/// those who try what happens to texts of any kind; those that may name a file are refused.
pub fn draw(text: &str) -> bool {
    if text.contains('/') {
        return false;
    }
    let mut variables = Variables::of_generators(&[text.to_owned()]).unwrap_or_default();
    let pattern = Pattern::parse(&with_generators(text, &[text.to_owned()]), &mut variables);
    let Ok(pattern) = pattern else { return false };
    assert!(variables.iter().all(Variable::is_good), "what was read can be used");
    for order in [Order::Random, Order::Sequential, Order::Unique] {
        let mut keys = variables.keys(order, 1);
        for turn in [0, 1, u64::MAX] {
            pattern.fill(&variables.draw(&mut keys, turn));
        }
    }
    true
}

/// Values that a job draws from.
pub(crate) const VARIABLES_MAX: usize = 100;
/// Octets of a file of values.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// What a number may be.
const NUMBER: &str = "0 to 18446744073709551615";
/// Digits a number can be filled up to.
const DIGITS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, turn: u64) -> String {
        let mut variables = Variables::default();
        let pattern = Pattern::parse(text, &mut variables).unwrap();
        let mut keys = variables.keys(Order::Sequential, 1);
        pattern.fill(&variables.draw(&mut keys, turn))
    }

    /// Why a text is no pattern.
    #[track_caller]
    fn refused(text: &str) -> Failure {
        Pattern::parse(text, &mut Variables::default()).unwrap_err()
    }

    /// A file of words, as long as its folder is kept.
    fn words(text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        std::fs::write(&path, text).unwrap();
        (folder, path.display().to_string())
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
        let (_folder, path) = words("one\n\ntwo\n");
        check(&format!("[file:{path}] [1]"), 3, "two two");
        let (_folder, empty) = words("\n");
        for name in [empty.as_str(), "/nowhere/at/all"] {
            let failure = refused(&format!("[file:{name}]"));
            assert!(failure.message.contains(name), "{failure:?}");
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
        let constant = Variables::of_generators(&["rand".to_owned()]).unwrap();
        assert_eq!(constant.distinct(), 1);
    }

    #[test]
    fn generators_stand_in_brackets() {
        check("uid=[inc(1,3)],ou=[rand(7,8)]", 4, "uid=2,ou=7");
        check("[randstr(3,ab)]x[1]", 5, "babxbab");
        check("[randstr(2,[a-c]x)]", 15, "xx");
        check("[randstr(1,öü)]", 1, "ü");
        check("[inc(5,9)] [2]", 0, "5 [2]");
        let long = filled("[randstr(40)]", 7);
        assert!(long.len() == 40 && long.bytes().all(|octet| octet.is_ascii_alphanumeric()));
        assert_ne!(long, filled("[randstr(40)]", 8));
        let (_folder, path) = words("one\ntwo\n");
        check(&format!("[inc({path})]"), 3, "two");
    }

    #[test]
    fn what_is_counted_is_counted_in_any_order() {
        let generators = ["inc(1,9)".to_owned(), "rand(1,1000000)".to_owned()];
        let variables = Variables::of_generators(&generators).unwrap();
        let mut keys = variables.keys(Order::Random, 1);
        let counted: Vec<u64> = (0..10).map(|turn| keys[0].at(turn)).collect();
        assert_eq!(counted, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
        assert!((0..10).any(|turn| keys[1].at(turn) != turn));
    }

    #[test]
    fn errors_name_the_column() {
        for (wrong, column, reason) in [
            ("rand(2,1)", 8, "the second number is less than 2"),
            ("inc(1,x)", 7, "'x' is not a number from 0 to"),
            ("inc(-1,5)", 5, "'-1' is not a number"),
            ("rand(1", 7, "')' is missing"),
            ("random(1,2)", 1, "there is no generator 'random'"),
            ("randstr(0)", 9, "'0' is not a length from 1 to 1000"),
            ("randstr(9,ab[c)", 13, "a range is '[a-z]'"),
            ("randstr(9,ö[z-a])", 12, "there is nothing from 'z' to 'a'"),
            ("randstr(9,[!-\u{ffff}])", 11, "these are more than 1000 characters"),
            ("randstr(9,)", 11, "there is no character"),
            ("rand(nowhere)", 6, "cannot read nowhere"),
            ("", 1, "a generator is not empty"),
        ] {
            let failure = Variables::of_generators(&[wrong.to_owned()]).unwrap_err();
            let want = format!("generator '{wrong}', column {column}: {reason}");
            assert!(failure.message.starts_with(&want), "{failure:?} {want}");
            if !wrong.starts_with("random") && wrong.ends_with(')') {
                let text = format!("uid=[{wrong}]");
                let failure = refused(&text);
                let want = format!("'{text}', column {}: {reason}", column + 5);
                assert!(failure.message.starts_with(&want), "{failure:?} {want}");
            }
        }
        let failure = refused(&"[1-2]".repeat(101));
        assert!(failure.message.ends_with("column 502: a job has at most 100 values"));
    }

    #[test]
    fn texts_of_any_kind_can_be_tried() {
        for text in ["[1-5]%d", "randstr(20)", "[randstr(3,[a-z])]", "inc(0,18446744073709551615)"]
        {
            assert!(draw(text), "{text}");
        }
        assert!(!draw("[inc(") && !draw("[randstr(x)]"));
        const WORDS: [&str; 20] = [
            "inc(",
            "rand(",
            "randstr(",
            "digits:",
            "[",
            "[",
            "]",
            "]",
            ")",
            ",",
            "-",
            "0",
            "1",
            "7",
            "18446744073709551615",
            "ö",
            "a",
            "z",
            "%d",
            "%1$s",
        ];
        let (mut chance, mut read) = (Chance::new(1, 1), 0);
        for _ in 0..20_000 {
            let length = chance.below(12);
            let word = |_| WORDS[chance.below(WORDS.len() as u64) as usize];
            read += u32::from(draw(&(0..length).map(word).collect::<String>()));
        }
        assert!(read > 1_000, "{read}");
    }
}
