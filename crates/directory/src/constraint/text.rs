//! How a constraint is written: `NAME: KIND ATTRIBUTES … [below DN] [where FILTER]`, in a line.
//!
//! A kind plugs in by one row of [`KINDS`].
//!
//! Invariant: reading a line takes time by its length alone, and what it becomes has a limit.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use regex::bytes::{Regex, RegexBuilder};
use schema::{AttributeDescription, DnKey, ResolvedFilter, Schema};

use crate::read::live_entry::LiveEntry;

/// What entries must be like, as an administrator says it.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Its name, by which a refusal tells which one it was.
    pub name: String,
    /// The attributes that it is about.
    pub(super) attributes: Vec<Arc<AttributeDescription>>,
    pub(super) rule: Rule,
    /// Only entries at and below this one, if not all.
    pub(super) below: Option<DnKey>,
    /// Only entries that match, if not all.
    pub(super) filter: Option<ResolvedFilter>,
}

/// What it asks for.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// No two entries have the same.
    Unique(Unique),
    /// Each value of each attribute is like this.
    Values(ValueRule),
    /// Each attribute has so many values.
    Count(RangeInclusive<u64>),
    /// Each value names an entry.
    Exists,
}

/// What no two entries have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unique {
    /// The same value of one of the attributes.
    Each,
    /// A value of one of the attributes that the other entry has of one of them.
    Across,
    /// The same values of all of them.
    Combination,
}

/// What a value is like.
#[derive(Clone, Debug)]
pub(super) enum ValueRule {
    /// The whole of it matches; with the text.
    Pattern(Regex, String),
    /// So many characters; octets, where it is not UTF-8.
    Length(RangeInclusive<u64>),
    /// One of these, by the equality rule of the attribute, or octet by octet without one.
    OneOf(Vec<String>),
    /// No octet above 127.
    Ascii,
}

/// Why a line is no constraint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConstraintError(String);

impl fmt::Display for ConstraintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConstraintError {}

type Parsed<T> = Result<T, ConstraintError>;
/// What a constraint asks for of which attributes.
type AboutAttributes = (Vec<Arc<AttributeDescription>>, Rule);

fn wrong<T>(why: impl Into<String>) -> Parsed<T> {
    Err(ConstraintError(why.into()))
}

/// A kind of constraint.
pub struct Kind {
    /// The word for it.
    pub name: &'static str,
    /// What follows the word.
    pub form: &'static str,
    /// What it asks for, for the reference.
    pub about: &'static str,
    /// A line, without its name.
    pub example: &'static str,
    /// Reads what follows the word.
    read: fn(&mut Scanner<'_>, &Schema) -> Parsed<AboutAttributes>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Every kind.
pub static KINDS: [Kind; 7] = [
    Kind {
        name: "unique",
        form: "[across | combination] ATTRIBUTES",
        about: "No two entries have the same value of one of the attributes. With 'across', a \
                value of one attribute is not one of another in another entry either; with \
                'combination', no two entries have the same values of all the attributes together. \
                Each attribute needs an equality index; of a combination, one of them does.",
        example: "unique across mail,mailLocalAddress below ou=people,dc=example,dc=com",
        read: read_unique,
    },
    Kind {
        name: "pattern",
        form: "ATTRIBUTES /REGULAR EXPRESSION/",
        about: "The regular expression matches the whole of each value. A slash in it is written \
                '\\/'.",
        example: "pattern telephoneNumber /\\+[0-9 ]{6,20}/",
        read: read_pattern,
    },
    Kind {
        name: "values",
        form: "ATTRIBUTES (VALUE|VALUE|…)",
        about: "Each value is one of these, by the equality rule of the attribute. '\\' stands \
                before a '|', ')' or '\\' in a value.",
        example: "values employeeType (staff|contractor)",
        read: read_values,
    },
    Kind {
        name: "length",
        form: "ATTRIBUTES MIN..MAX",
        about: "Each value has so many characters; either number may be left out.",
        example: "length uid 3..32",
        read: read_length,
    },
    Kind {
        name: "count",
        form: "ATTRIBUTES MIN..MAX",
        about: "Each attribute has so many values, those with options and of subtypes among them; \
                either number may be left out.",
        example: "count mail 1..3 where (objectClass=inetOrgPerson)",
        read: read_count,
    },
    Kind {
        name: "ascii",
        form: "ATTRIBUTES",
        about: "All values are of 7 bits: no octet is above 127.",
        example: "ascii uid,mail",
        read: read_ascii,
    },
    Kind {
        name: "exists",
        form: "ATTRIBUTES",
        about: "Each value names an entry that is there. Whoever may write such an attribute \
                learns by it which entries are.",
        example: "exists manager,owner where (objectClass=inetOrgPerson)",
        read: read_exists,
    },
];

impl Constraint {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is no constraint, or asks about attributes that the schema does not know or that are
    /// secret.
    pub fn parse(text: &str, schema: &Schema) -> Parsed<Self> {
        if text.len() > CONSTRAINT_MAX_BYTES {
            return wrong(format!("a constraint has at most {CONSTRAINT_MAX_BYTES} bytes"));
        }
        let Some((name, rest)) = text.split_once(':') else {
            return wrong("it begins with a name and ':', as in 'mail-unique: unique mail'");
        };
        if !is_name(name) {
            return wrong("its name is up to 64 letters, digits, '-', '_' and '.'");
        }
        let mut scanner = Scanner(rest.trim_start());
        let word = scanner.word();
        let Some(kind) = KINDS.iter().find(|kind| kind.name == word) else {
            let all = KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
            return wrong(format!("'{word}' is no kind of constraint; there are: {all}"));
        };
        let (attributes, rule) = (kind.read)(&mut scanner, schema)?;
        let (below, filter) = scanner.place(schema)?;
        Ok(Self { name: name.to_owned(), attributes, rule, below, filter })
    }

    /// What it needs an equality index of: of all of these, or of one of them.
    pub(crate) fn looks_up(&self) -> (&[Arc<AttributeDescription>], bool) {
        match self.rule {
            Rule::Unique(Unique::Combination) => (&self.attributes, false),
            Rule::Unique(Unique::Each | Unique::Across) => (&self.attributes, true),
            Rule::Values(_) | Rule::Count(_) | Rule::Exists => (&[], true),
        }
    }
}

/// The name that a line begins with.
pub(crate) fn name_of(text: &str) -> &str {
    text.split(':').next().unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    let is_one = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    !name.is_empty() && name.len() <= NAME_MAX_BYTES && name.bytes().all(is_one)
}

/// What of a line is not read yet.
struct Scanner<'t>(&'t str);

impl<'t> Scanner<'t> {
    /// Up to the next blank.
    fn word(&mut self) -> &'t str {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest.trim_start();
        word
    }

    /// The next word, if it is this one.
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word).filter(|rest| rest.starts_with(' '));
        if let Some(rest) = rest {
            self.0 = rest.trim_start();
        }
        rest.is_some()
    }

    fn attributes(&mut self, schema: &Schema) -> Parsed<Vec<Arc<AttributeDescription>>> {
        let mut found: Vec<Arc<AttributeDescription>> = Vec::new();
        for name in self.word().split(',') {
            let description = schema.describe(name).map_err(|error| {
                ConstraintError(format!("'{name}' is no attribute of the schema: {error}"))
            })?;
            if description.kind.is_secret() {
                return wrong(format!("'{name}' is secret: a constraint would tell of its values"));
            }
            if description.kind.no_user_modification {
                return wrong(format!("'{name}' is set or computed by the server alone"));
            }
            if !description.options().is_empty() {
                return wrong(format!("'{name}': a constraint is about all options of a type"));
            }
            if found.contains(&description) {
                return wrong(format!("'{name}' is there twice"));
            }
            found.push(description);
        }
        if found.len() > ATTRIBUTES_MAX {
            return wrong(format!("a constraint is about at most {ATTRIBUTES_MAX} attributes"));
        }
        Ok(found)
    }

    /// What stands between `open` and `close`, split at `between` if that is given; a backslash
    /// stands before those in it. Other backslashes stay, and those before backslashes of patterns.
    fn enclosed(&mut self, open: char, close: char, between: Option<char>) -> Parsed<Vec<String>> {
        let Some(rest) = self.0.strip_prefix(open) else {
            return wrong(format!("'{open}' is expected before '{}'", self.0));
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
                self.0 = rest.trim_start();
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
    fn range(&mut self) -> Parsed<RangeInclusive<u64>> {
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

    /// `below DN where FILTER`, both or one of them or nothing; that is all.
    fn place(&mut self, schema: &Schema) -> Parsed<(Option<DnKey>, Option<ResolvedFilter>)> {
        let (mut below, mut filter) = (None, None);
        if self.takes("below") {
            // A name may have blanks in it.
            let end = self.0.find(" where").unwrap_or(self.0.len());
            let (name, rest) = self.0.split_at(end);
            let filter = rest.trim_start().strip_prefix("where").unwrap_or(rest);
            if !rest.is_empty() && !filter.trim_start().starts_with('(') {
                return wrong(
                    "a filter in parentheses is expected behind 'where'; in a name, write the \
                     blank before that word as '\\20'",
                );
            }
            let dn = Dn::parse(name.trim()).map_err(|error| {
                ConstraintError(format!("'{}' is no name of an entry: {error}", name.trim()))
            })?;
            let key = DnKey::from_dn(schema, &dn)
                .map_err(|error| ConstraintError(format!("'{name}': {error}")))?;
            if key.depth() == 0 {
                return wrong("'below' names an entry; leave it out for all of them");
            }
            below = Some(key);
            self.0 = rest.trim_start();
        }
        if let Some(rest) = self.0.strip_prefix("where") {
            self.0 = rest.trim_start();
            let text = std::mem::take(&mut self.0).trim_end();
            let parsed = Filter::parse(text)
                .map_err(|error| ConstraintError(format!("'{text}' is no filter: {error}")))?;
            filter = Some(resolved(&parsed, schema)?);
        }
        match self.0 {
            "" => Ok((below, filter)),
            rest => {
                wrong(format!("'{rest}' is too much: 'below DN' and 'where FILTER' may follow"))
            }
        }
    }
}

/// A filter whose answer is never Undefined because of the schema, and which asks for no secret.
fn resolved(filter: &Filter<'_>, schema: &Schema) -> Parsed<ResolvedFilter> {
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
    let known = LiveEntry::computed_descriptions(schema.well_known());
    resolved.visit_descriptions(&mut |description| {
        let name = || Some(description.text().to_owned());
        if description.kind.is_secret() {
            secret = name();
        } else if known.iter().any(|one| description.covers(one)) {
            computed = name();
        }
    });
    match (secret, computed) {
        (Some(name), _) => {
            wrong(format!("'{name}' is secret: a constraint would tell of its values"))
        }
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

fn read_unique(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<AboutAttributes> {
    let how = if scanner.takes("across") {
        Unique::Across
    } else if scanner.takes("combination") {
        Unique::Combination
    } else {
        Unique::Each
    };
    let attributes = scanner.attributes(schema)?;
    if let Some(one) = attributes.iter().find(|one| one.kind.equality.is_none()) {
        return wrong(format!("'{}' has no equality rule to compare its values by", one.text()));
    }
    if how != Unique::Each && attributes.len() < 2 {
        return wrong("two attributes are needed, with a comma between, as in 'mail,uid'");
    }
    Ok((attributes, Rule::Unique(how)))
}

fn read_pattern(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<AboutAttributes> {
    let attributes = scanner.attributes(schema)?;
    let text = scanner.enclosed('/', '/', None)?.concat();
    let build = |pattern: &str| {
        let built = RegexBuilder::new(pattern)
            .size_limit(PATTERN_MAX_BYTES)
            .dfa_size_limit(PATTERN_MAX_BYTES)
            .nest_limit(PATTERN_DEPTH_MAX)
            .build();
        built
            .map_err(|error| ConstraintError(format!("/{text}/ is no regular expression: {error}")))
    };
    // By itself, too: it must not close the group that it stands in.
    build(&text)?;
    let pattern = build(&format!(r"\A(?:{text})\z"))?;
    Ok((attributes, Rule::Values(ValueRule::Pattern(pattern, text))))
}

fn read_values(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<AboutAttributes> {
    let attributes = scanner.attributes(schema)?;
    let values = scanner.enclosed('(', ')', Some('|'))?;
    Ok((attributes, Rule::Values(ValueRule::OneOf(values))))
}

fn read_length(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<AboutAttributes> {
    let attributes = scanner.attributes(schema)?;
    Ok((attributes, Rule::Values(ValueRule::Length(scanner.range()?))))
}

fn read_count(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<AboutAttributes> {
    let attributes = scanner.attributes(schema)?;
    Ok((attributes, Rule::Count(scanner.range()?)))
}

fn read_ascii(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<AboutAttributes> {
    Ok((scanner.attributes(schema)?, Rule::Values(ValueRule::Ascii)))
}

fn read_exists(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<AboutAttributes> {
    let attributes = scanner.attributes(schema)?;
    match attributes.iter().find(|one| !one.kind.names_entries()) {
        Some(one) => wrong(format!("values of '{}' are no names of entries", one.text())),
        None => Ok((attributes, Rule::Exists)),
    }
}

/// The longest constraint, in bytes.
pub const CONSTRAINT_MAX_BYTES: usize = 4096;
/// The longest name of one, in bytes.
const NAME_MAX_BYTES: usize = 64;
/// The most attributes that one is about.
const ATTRIBUTES_MAX: usize = 16;
/// What a regular expression may take when it is compiled, in bytes.
const PATTERN_MAX_BYTES: usize = 256 << 10;
/// How deep groups may stand in groups of a regular expression.
const PATTERN_DEPTH_MAX: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_read() {
        let schema = Schema::builtin();
        for kind in &KINDS {
            let read = Constraint::parse(&format!("a: {}", kind.example), &schema);
            assert!(read.is_ok(), "{}: {read:?}", kind.example);
        }
    }

    #[test]
    fn what_is_no_constraint_is_refused_with_the_reason() {
        let schema = Schema::builtin();
        for (text, why) in [
            ("unique mail", "begins with a name"),
            (": unique mail", "its name is"),
            ("a b: unique mail", "its name is"),
            ("a: uniqe mail", "'uniqe' is no kind of constraint; there are: unique, "),
            ("a: unique", "'' is no attribute"),
            ("a: unique nothing", "'nothing' is no attribute"),
            ("a: unique mail,mail", "'mail' is there twice"),
            ("a: unique mail;lang-de", "all options"),
            ("a: unique across mail", "two attributes"),
            ("a: unique combination mail below dc=x", "two attributes"),
            ("a: unique userPassword", "is secret"),
            ("a: count modifyTimestamp ..0", "by the server alone"),
            ("a: count hasSubordinates ..0", "by the server alone"),
            ("a: unique mail below", "'below' is too much"),
            ("a: unique mail below x", "'x' is no name"),
            ("a: unique mail where (userPassword=a)", "'userPassword' is secret"),
            ("a: unique mail where (nothing=a)", "does not know"),
            ("a: unique mail where cn", "is no filter"),
            ("a: unique mail below dc=x where cn=y", "in parentheses is expected"),
            ("a: unique mail where (ou:dn:=people)", "names of superiors"),
            ("a: unique mail where (!(:caseIgnoreMatch:=x))", "names of superiors"),
            ("a: unique mail where (|(cn=a)(hasSubordinates=TRUE))", "is computed"),
            ("a: pattern mail /a)|(?:b/", "no regular expression"),
            ("a: unique mail twice", "'twice' is too much"),
            ("a: pattern mail", "'/' is expected"),
            ("a: pattern mail /a", "'/' is missing"),
            ("a: pattern mail /(/", "no regular expression"),
            ("a: pattern mail /(((a{200}){200}){200})/", "no regular expression"),
            ("a: pattern mail /a/b", "a blank is expected"),
            ("a: values mail a|b", "'(' is expected"),
            ("a: values mail (a|b", "')' is missing"),
            ("a: length mail 3", "is no range"),
            ("a: length mail ..", "is no range"),
            ("a: length mail 5..3", "is no range"),
            ("a: count mail -1..3", "is no range"),
        ] {
            let error = Constraint::parse(text, &schema).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = format!("a: pattern mail /{}/", "a".repeat(CONSTRAINT_MAX_BYTES));
        assert!(Constraint::parse(&long, &schema).unwrap_err().to_string().contains("at most"));
    }

    #[test]
    fn what_is_written_is_meant() {
        let schema = Schema::builtin();
        let read = |text: &str| Constraint::parse(text, &schema).unwrap();
        let one = read(
            "a: unique mail below ou=a\\20where b,dc=x  where (&(cn=a where \\28b\\29)(sn=c))",
        );
        assert_eq!(one.below, DnKey::from_text(&schema, "ou=a where b,dc=x").ok());
        assert!(one.filter.is_some());
        let Rule::Values(ValueRule::Pattern(pattern, text)) =
            read(r"a: pattern cn /\/a\\b|c d/").rule
        else {
            panic!()
        };
        assert_eq!(text, r"/a\\b|c d");
        for (value, matches) in [(r"/a\b", true), ("c d", true), ("c dd", false), ("x/a", false)] {
            assert_eq!(pattern.is_match(value.as_bytes()), matches, "{value}");
        }
        let Rule::Values(ValueRule::OneOf(values)) = read(r"a: values cn (a|b\|\)\\ c|)").rule
        else {
            panic!()
        };
        assert_eq!(values, ["a", r"b|)\ c", ""]);
        for (text, range) in [("3..", 3..=u64::MAX), ("..3", 0..=3), ("0..0", 0..=0)] {
            let Rule::Count(read) = read(&format!("a: count cn {text}")).rule else { panic!() };
            assert_eq!(read, range);
        }
    }

    #[test]
    fn the_reference_page_is_what_the_kinds_say() {
        let mut page = HEAD.to_owned();
        for Kind { name, form, about, example, .. } in &KINDS {
            let [form, about, example] = [form, about, example].map(|it| it.replace('|', "\\|"));
            page += &format!("| `{name}` | `{form}` | {about} | `{example}` |\n");
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/constraints.md");
        if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == page, "{path} is not as the code says");
    }

    const HEAD: &str = "\
# Kinds of constraints

What follows the name in a [constraint](../how-to/constraints.md). `ATTRIBUTES` are names with
commas between, and no blanks; after all of it, `below DN` and `where FILTER` may follow.

To regenerate this page: `ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference`.

| kind | followed by | | example |
|---|---|---|---|
";
}
