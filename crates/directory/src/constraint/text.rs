//! How a constraint is written: `NAME: KIND ATTRIBUTES … [below DN] [where FILTER]`, in a line.
//!
//! A kind plugs in by one row of `KINDS`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use schema::{AttributeDescription, Schema};

use crate::lines::Line;
use crate::lines::kind::Kind;
use crate::lines::place::Place;
use crate::lines::scanner::{LineError, Parsed, Scanner, wrong};

/// What entries must be like, as an administrator says it.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Its name, by which a refusal tells which one it was.
    pub name: String,
    /// The attributes that it is about.
    pub(super) attributes: Vec<Arc<AttributeDescription>>,
    pub(super) rule: Rule,
    /// The entries that it is about.
    pub(super) place: Place,
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

/// What a constraint asks for of which attributes.
type AboutAttributes = (Vec<Arc<AttributeDescription>>, Rule);

/// Every kind.
pub(super) static KINDS: [Kind<AboutAttributes>; 7] = [
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

/// The setting with the constraints.
pub(crate) const CONSTRAINTS: &str = "constraints";

impl Line for Constraint {
    const SETTING: &'static str = CONSTRAINTS;

    fn read(text: &str, schema: &Schema) -> Parsed<Self> {
        Self::parse(text, schema)
    }
}

impl Constraint {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is no constraint, or asks about attributes that the schema does not know or that are
    /// secret.
    pub fn parse(text: &str, schema: &Schema) -> Parsed<Self> {
        let (name, mut scanner) = Scanner::begin(text, "constraint", KINDS[0].example)?;
        let kind = scanner.kind(&KINDS)?;
        let (attributes, rule) = (kind.read)(&mut scanner, schema)?;
        let place = scanner.place(schema)?;
        Ok(Self { name: name.to_owned(), attributes, rule, place })
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
        built.map_err(|error| LineError(format!("/{text}/ is no regular expression: {error}")))
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

/// What a regular expression may take when it is compiled, in bytes.
const PATTERN_MAX_BYTES: usize = 256 << 10;
/// How deep groups may stand in groups of a regular expression.
const PATTERN_DEPTH_MAX: u32 = 32;

#[cfg(test)]
mod tests {
    use schema::DnKey;

    use super::*;
    use crate::lines::kind::check_reference;
    use crate::lines::scanner::LINE_MAX_BYTES;

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
            ("a: unique mail;lang-de", "is about options"),
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
        let long = format!("a: pattern mail /{}/", "a".repeat(LINE_MAX_BYTES));
        assert!(Constraint::parse(&long, &schema).unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn what_is_written_is_meant() {
        let schema = Schema::builtin();
        let read = |text: &str| Constraint::parse(text, &schema).unwrap();
        let one = read(
            "a: unique mail below ou=a\\20where b,dc=x  where (&(cn=a where \\28b\\29)(sn=c))",
        );
        assert_eq!(one.place.below, DnKey::from_text(&schema, "ou=a where b,dc=x").ok());
        assert!(one.place.filter.is_some());
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
        check_reference("constraints.md", HEAD, &KINDS);
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
