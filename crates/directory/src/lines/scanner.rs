//! Reads lines.
//!
//! Invariant: reading a line takes time by its length alone, and what it becomes has a limit.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use schema::{AttributeDescription, DnKey, ResolvedFilter, Schema};

use super::kind::Kind;
use super::place::Place;
use crate::read::computed;

/// Why a line does not say what it is to say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LineError(pub(crate) String);

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LineError {}

pub(crate) type Parsed<T> = Result<T, LineError>;

pub(crate) fn wrong<T>(why: impl Into<String>) -> Parsed<T> {
    Err(LineError(why.into()))
}

fn is_name(name: &str) -> bool {
    let is_one = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    !name.is_empty() && name.len() <= NAME_MAX_BYTES && name.bytes().all(is_one)
}

/// What of a line is not read yet.
pub(crate) struct Scanner<'t> {
    rest: &'t str,
    /// What a line is called.
    what: &'static str,
}

impl<'t> Scanner<'t> {
    /// The name of a line, and what follows it. `example` is a line without its name.
    pub(crate) fn begin(
        text: &'t str,
        what: &'static str,
        example: &str,
    ) -> Parsed<(&'t str, Self)> {
        if text.len() > LINE_MAX_BYTES {
            return wrong(format!("the {what} has more than {LINE_MAX_BYTES} bytes"));
        }
        let Some((name, rest)) = text.split_once(':') else {
            return wrong(format!("it begins with a name and ':', as in 'a-name: {example}'"));
        };
        if !is_name(name) {
            return wrong("its name is up to 64 letters, digits, '-', '_' and '.'");
        }
        Ok((name, Self { rest: rest.trim_start(), what }))
    }

    /// What the line begins with: the kind of it, one of these.
    pub(crate) fn kind<'k, R>(&mut self, kinds: &'k [Kind<R>]) -> Parsed<&'k Kind<R>> {
        let word = self.word();
        kinds.iter().find(|kind| kind.name == word).ok_or_else(|| {
            let all = kinds.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
            LineError(format!("'{word}' is no kind of {}; there are: {all}", self.what))
        })
    }

    /// Up to the next blank.
    pub(crate) fn word(&mut self) -> &'t str {
        let (word, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        self.rest = rest.trim_start();
        word
    }

    /// The next word, if it is this one.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word).filter(|rest| rest.starts_with(' '));
        if let Some(rest) = rest {
            self.rest = rest.trim_start();
        }
        rest.is_some()
    }

    /// `NAME=VALUE`, if that comes next; a value with blanks stands in quotation marks.
    pub(crate) fn option(&mut self) -> Parsed<Option<(&'t str, String)>> {
        let word = self.rest.split(' ').next().unwrap_or_default();
        let Some((name, _)) = word.split_once('=') else { return Ok(None) };
        let value = self.rest.get(name.len() + 1..).unwrap_or_default();
        if !value.starts_with('"') {
            let (_, value) = self.word().split_once('=').unwrap_or_default();
            return Ok(Some((name, value.to_owned())));
        }
        self.rest = value;
        Ok(Some((name, self.enclosed('"', '"', None)?.concat())))
    }

    /// What is left, if there is anything.
    pub(crate) fn left(&self) -> Option<&'t str> {
        (!self.rest.is_empty()).then_some(self.rest)
    }

    /// Names of attributes that anybody may set, with commas between.
    pub(crate) fn attributes(&mut self, schema: &Schema) -> Parsed<Vec<Arc<AttributeDescription>>> {
        let what = self.what;
        let found = attributes(self.word().split(','), schema, what)?;
        match found.len() > ATTRIBUTES_MAX {
            true => wrong(format!("the {what} is about at most {ATTRIBUTES_MAX} attributes")),
            false => Ok(found),
        }
    }

    /// What stands between `open` and `close`, split at `between` if that is given; a backslash
    /// stands before those in it. Other backslashes stay, and those before backslashes of patterns.
    pub(crate) fn enclosed(
        &mut self,
        open: char,
        close: char,
        between: Option<char>,
    ) -> Parsed<Vec<String>> {
        let Some(rest) = self.rest.strip_prefix(open) else {
            return wrong(format!("'{open}' is expected before '{}'", self.rest));
        };
        let (mut parts, mut part) = (Vec::new(), String::new());
        let mut letters = rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            if letter == '\\' {
                let Some((_, next)) = letters.next() else { break };
                let is_plain = next == close || Some(next) == between;
                if !is_plain && (between.is_none() || next != '\\') {
                    part.push('\\');
                }
                part.push(next);
            } else if letter == close {
                parts.push(part);
                let rest = rest.get(at + letter.len_utf8()..).unwrap_or_default();
                if !rest.is_empty() && !rest.starts_with(' ') {
                    return wrong(format!("a blank is expected before '{rest}'"));
                }
                self.rest = rest.trim_start();
                return Ok(parts);
            } else if Some(letter) == between {
                parts.push(std::mem::take(&mut part));
            } else {
                part.push(letter);
            }
        }
        wrong(format!("'{close}' is missing at the end"))
    }

    /// `MIN..MAX`.
    pub(crate) fn range(&mut self) -> Parsed<RangeInclusive<u64>> {
        let word = self.word();
        let read = || {
            let (first, last) = word.split_once("..")?;
            let number = |text: &str, without: u64| match text {
                "" => Some(without),
                text => text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?,
            };
            let range = number(first, 0)?..=number(last, u64::MAX)?;
            (word != ".." && !range.is_empty()).then_some(range)
        };
        read().map_or_else(|| wrong(format!("'{word}' is no range, such as 3..32")), Ok)
    }

    /// The name of an entry, up to `below` or `where`.
    pub(crate) fn name(&mut self, schema: &Schema) -> Parsed<DnKey> {
        let ends = [" below ", " where "].iter().filter_map(|word| self.rest.find(word));
        let (name, rest) = self.rest.split_at(ends.min().unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        entry_name(name, schema)
    }

    /// `below DN where FILTER`, both or one of them or nothing; that is all.
    pub(crate) fn place(&mut self, schema: &Schema) -> Parsed<Place> {
        let (mut below, mut filter) = (None, None);
        if self.takes("below") {
            // A name may have blanks in it.
            let end = self.rest.find(" where").unwrap_or(self.rest.len());
            let (name, rest) = self.rest.split_at(end);
            let filter = rest.trim_start().strip_prefix("where").unwrap_or(rest);
            if !rest.is_empty() && !filter.trim_start().starts_with('(') {
                return wrong(
                    "a filter in parentheses is expected behind 'where'; in a name, write the \
                     blank before that word as '\\20'",
                );
            }
            below = Some(entry_name(name, schema)?);
            self.rest = rest.trim_start();
        }
        if let Some(rest) = self.rest.strip_prefix("where") {
            self.rest = rest.trim_start();
            let text = std::mem::take(&mut self.rest).trim_end();
            let parsed = Filter::parse(text)
                .map_err(|error| LineError(format!("'{text}' is no filter: {error}")))?;
            filter = Some(resolved(&parsed, schema, self.what)?);
        }
        match self.rest {
            "" => Ok(Place { below, filter }),
            rest => {
                wrong(format!("'{rest}' is too much: 'below DN' and 'where FILTER' may follow"))
            }
        }
    }
}

/// The attributes with these names; `what` is about their values.
pub(crate) fn attributes<'n>(
    names: impl Iterator<Item = &'n str>,
    schema: &Schema,
    what: &str,
) -> Parsed<Vec<Arc<AttributeDescription>>> {
    let mut found: Vec<Arc<AttributeDescription>> = Vec::new();
    for name in names {
        let description = schema.describe(name).map_err(|error| {
            LineError(format!("'{name}' is no attribute of the schema: {error}"))
        })?;
        if description.kind.is_secret() {
            return wrong(format!("'{name}' is secret: no {what} is about its values"));
        }
        if description.kind.no_user_modification {
            return wrong(format!("'{name}' is set or computed by the server alone"));
        }
        if !description.options().is_empty() {
            return wrong(format!("'{name}': no {what} is about options of a type"));
        }
        if found.contains(&description) {
            return wrong(format!("'{name}' is there twice"));
        }
        found.push(description);
    }
    Ok(found)
}

fn entry_name(name: &str, schema: &Schema) -> Parsed<DnKey> {
    let name = name.trim();
    let dn = Dn::parse(name)
        .map_err(|error| LineError(format!("'{name}' is no name of an entry: {error}")))?;
    let key =
        DnKey::from_dn(schema, &dn).map_err(|error| LineError(format!("'{name}': {error}")))?;
    match key.depth() {
        0 => wrong("the name of an entry is expected; leave 'below' out for all of them"),
        _ => Ok(key),
    }
}

/// A filter whose answer is never Undefined because of the schema, and which asks for no secret.
pub(crate) fn resolved(filter: &Filter<'_>, schema: &Schema, what: &str) -> Parsed<ResolvedFilter> {
    let resolved = ResolvedFilter::resolve(filter, schema);
    if has_undefined(&resolved) {
        return wrong(format!("the schema does not know what '{filter}' asks for"));
    }
    if asks_names(&resolved) {
        return wrong(
            "a filter that asks for names of superiors (':dn:'), or for no attribute, changes its \
             answer with changes of other entries: name an attribute, or use 'below'",
        );
    }
    let (mut secret, mut computed) = (None, None);
    let known = computed::descriptions(schema.well_known());
    resolved.visit_descriptions(&mut |description| {
        let name = || Some(description.text().to_owned());
        if description.kind.is_secret() {
            secret = name();
        } else if known.iter().any(|one| description.covers(one)) {
            computed = name();
        }
    });
    match (secret, computed) {
        (Some(name), _) => wrong(format!("'{name}' is secret: no {what} is about its values")),
        (None, Some(name)) => wrong(format!("'{name}' is computed: no entry has such a value")),
        (None, None) => Ok(resolved),
    }
}

/// Whether a part of a filter has an answer by more than attributes of the entry.
fn asks_names(filter: &ResolvedFilter) -> bool {
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => parts.iter().any(asks_names),
        ResolvedFilter::Not(part) => asks_names(part),
        ResolvedFilter::Extensible(one) => one.dn_attributes || one.description.is_none(),
        _ => false,
    }
}

fn has_undefined(filter: &ResolvedFilter) -> bool {
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => parts.iter().any(has_undefined),
        ResolvedFilter::Not(part) => has_undefined(part),
        ResolvedFilter::Undefined => true,
        _ => false,
    }
}

/// The longest line, in bytes.
pub(crate) const LINE_MAX_BYTES: usize = 4096;
/// The longest name of one, in bytes.
const NAME_MAX_BYTES: usize = 64;
/// The most attributes that one is about.
const ATTRIBUTES_MAX: usize = 16;
