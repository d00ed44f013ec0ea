//! How an assignment is written: `NAME: KIND … [below DN] [where FILTER]`, in a line.
//!
//! A kind plugs in by one row of `KINDS`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use schema::{AttributeDescription, DnKey, Schema};

use crate::lines::Line;
use crate::lines::kind::Kind;
use crate::lines::place::Place;
use crate::lines::scanner::{LineError, Parsed, Scanner, wrong};

/// What the server writes by itself, as an administrator says it.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Its name.
    pub name: String,
    pub(super) rule: Rule,
    /// The entries that it is about.
    pub(crate) place: Place,
}

/// What is written.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Number(Numbers),
    Member(Membership),
    Link(Link),
}

/// A number that no other entry has.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    /// The attributes that get it: the same one, those that have no value.
    pub(crate) attributes: Vec<Arc<AttributeDescription>>,
    pub(super) range: RangeInclusive<u64>,
    /// A value that stands for none.
    pub(super) stands_for: Option<String>,
}

/// That entries are members of a group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Membership {
    pub(super) attribute: Arc<AttributeDescription>,
    pub(super) group: DnKey,
}

/// That entries name each other.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Where an entry names another one,
    pub(super) from: Arc<AttributeDescription>,
    /// that one names it.
    pub(super) to: Arc<AttributeDescription>,
}

/// Every kind.
pub(super) static KINDS: [Kind<Rule>; 3] = [
    Kind {
        name: "number",
        form: "ATTRIBUTES FIRST..LAST [for VALUE]",
        about: "An entry that is added gets the next number of the range in those of the \
                attributes that have no value, or this value, the same number in each; and one \
                that is modified, in its object classes, these attributes or those of the filter. \
                No other entry (below the DN, if there is one) has the number, and it is not given \
                again, even when the entry is deleted. Each attribute needs an equality index.",
        example: "number uidNumber,gidNumber 10000..59999 for -1 below ou=people,dc=example,dc=com \
                  where (objectClass=posixAccount)",
        read: read_number,
    },
    Kind {
        name: "member",
        form: "ATTRIBUTE of GROUP",
        about: "An entry becomes a value of the attribute of the group when it comes to be one of \
                those that are meant, and the value goes when it is none of them any more. Of \
                several for one group each is enough. The attribute needs an equality index, and \
                stands in cn=References,cn=config, as member and uniqueMember do by default.",
        example: "member member of cn=staff,ou=groups,dc=example,dc=com below \
                  ou=people,dc=example,dc=com where (employeeType=staff)",
        read: read_member,
    },
    Kind {
        name: "link",
        form: "ATTRIBUTE to ATTRIBUTE",
        about: "Where an entry names another one by the first attribute, that one names it by the \
                second; when a value of the first goes, so does that of the second. Both need an \
                equality index, and stand in cn=References,cn=config.",
        example: "link secretary to seeAlso below ou=people,dc=example,dc=com",
        read: read_link,
    },
];

/// The setting with the assignments.
pub(crate) const ASSIGNMENTS: &str = "assignments";

impl Line for Assignment {
    const SETTING: &'static str = ASSIGNMENTS;

    fn read(text: &str, schema: &Schema) -> Parsed<Self> {
        Self::parse(text, schema)
    }
}

impl Assignment {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is no assignment, or is about attributes that the schema does not know, or that are
    /// secret or operational.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, LineError> {
        let (name, mut scanner) = Scanner::begin(text, "assignment", KINDS[0].example)?;
        let kind = scanner.kind(&KINDS)?;
        let rule = (kind.read)(&mut scanner, schema)?;
        let place = scanner.place(schema)?;
        if place.below.is_none() && place.filter.is_none() {
            return wrong("it would be about every entry: say 'below DN' or 'where FILTER'");
        }
        Ok(Self { name: name.to_owned(), rule, place })
    }

    /// What it gives, if it gives numbers.
    pub(crate) const fn numbers(&self) -> Option<&Numbers> {
        match &self.rule {
            Rule::Number(numbers) => Some(numbers),
            Rule::Member(_) | Rule::Link(_) => None,
        }
    }

    /// What it needs an equality index of: numbers to find those that are free, members so that
    /// they follow and leave.
    pub(crate) fn looks_up(&self) -> Vec<Arc<AttributeDescription>> {
        match &self.rule {
            Rule::Number(numbers) => numbers.attributes.clone(),
            Rule::Member(_) | Rule::Link(_) => self.followed().into_iter().cloned().collect(),
        }
    }

    /// The attributes whose values have to follow the entries that they name.
    pub(crate) fn followed(&self) -> Vec<&Arc<AttributeDescription>> {
        match &self.rule {
            Rule::Number(_) => Vec::new(),
            Rule::Member(membership) => vec![&membership.attribute],
            Rule::Link(link) => vec![&link.from, &link.to],
        }
    }

    /// The attributes that it links, if it does.
    pub(super) const fn link(&self) -> Option<&Link> {
        match &self.rule {
            Rule::Link(link) => Some(link),
            Rule::Number(_) | Rule::Member(_) => None,
        }
    }

    /// The group and the attribute, if it makes members.
    pub(super) const fn membership(&self) -> Option<&Membership> {
        match &self.rule {
            Rule::Member(membership) => Some(membership),
            Rule::Number(_) | Rule::Link(_) => None,
        }
    }
}

fn read_number(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Rule> {
    let attributes = scanner.attributes(schema)?;
    for one in &attributes {
        let name = one.text();
        if one.is_operational() {
            return wrong(format!("'{name}' is operational: it may give rights"));
        }
        if one.kind.equality.is_none() {
            return wrong(format!("'{name}' has no equality rule to compare its values by"));
        }
        if (one.kind.syntax.check)(schema, b"1").is_err() {
            return wrong(format!("'{name}' does not take numbers as values"));
        }
    }
    let range = scanner.range()?;
    if *range.end() > NUMBER_MAX {
        return wrong(format!("the last number is given, and at most {NUMBER_MAX}"));
    }
    let stands_for = scanner.takes("for").then(|| scanner.word().to_owned());
    Ok(Rule::Number(Numbers { attributes, range, stands_for }))
}

fn read_member(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Rule> {
    let attribute = read_naming(scanner, schema)?;
    if !scanner.takes("of") {
        return wrong("'of' and the name of a group are expected, as in 'member of cn=a,dc=b'");
    }
    let group = scanner.name(schema)?;
    Ok(Rule::Member(Membership { attribute, group }))
}

fn read_link(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Rule> {
    let from = read_naming(scanner, schema)?;
    if !scanner.takes("to") {
        return wrong("'to' and an attribute are expected, as in 'link secretary to seeAlso'");
    }
    let to = read_naming(scanner, schema)?;
    match from.kind == to.kind {
        true => wrong("an attribute is not linked to itself"),
        false => Ok(Rule::Link(Link { from, to })),
    }
}

/// One attribute that has any number of values which name entries.
fn read_naming(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Arc<AttributeDescription>> {
    let mut attributes = scanner.attributes(schema)?;
    let (Some(one), true) = (attributes.pop(), attributes.is_empty()) else {
        return wrong("one attribute is named here");
    };
    let is_list = one.kind.names_entries() && !one.kind.single_value;
    match is_list && !one.is_operational() {
        true => Ok(one),
        false => wrong(format!("values of '{}' are no names of members", one.text())),
    }
}

/// The highest number: what every client can read.
const NUMBER_MAX: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::kind::check_reference;

    #[test]
    fn every_example_is_read() {
        let schema = Schema::builtin();
        for kind in &KINDS {
            let read = Assignment::parse(&format!("a: {}", kind.example), &schema);
            assert!(read.is_ok(), "{}: {read:?}", kind.example);
        }
    }

    #[test]
    fn what_is_written_is_meant() {
        let schema = Schema::builtin();
        let read = |text: &str| Assignment::parse(text, &schema).unwrap();
        let one = read("a: number uidNumber 7..9 for none below dc=x where (cn=*)");
        let numbers = one.numbers().unwrap();
        assert_eq!((numbers.range.clone(), numbers.stands_for.as_deref()), (7..=9, Some("none")));
        let other = read("b: member owner of cn=a b,dc=x where (cn=*)");
        let membership = other.membership().unwrap();
        assert_eq!(DnKey::from_text(&schema, "cn=a b,dc=x").as_ref(), Ok(&membership.group));
        assert_eq!(membership.attribute.text(), "owner");
        let third = read("c: link secretary to seeAlso where (cn=*)");
        let link = third.link().unwrap();
        assert_eq!((link.from.text(), link.to.text()), ("secretary", "seeAlso"));
    }

    #[test]
    fn what_is_no_assignment_is_refused_with_the_reason() {
        let schema = Schema::builtin();
        for (text, why) in [
            ("a number", "begins with a name"),
            ("a: count uidNumber 1..2 below dc=x", "no kind of assignment; there are: number, "),
            ("a: number uidNumber 1..2", "about every entry"),
            ("a: number nothing 1..2 below dc=x", "no attribute"),
            ("a: number uidNumber 1.. below dc=x", "the last number is given"),
            ("a: number uidNumber 1..9223372036854775808 below dc=x", "at most"),
            ("a: number manager 1..2 below dc=x", "does not take numbers"),
            ("a: number ds-privilege-name 1..2 below dc=x", "operational"),
            ("a: number jpegPhoto 1..2 below dc=x", "no equality rule"),
            ("a: number uidNumber 1..2 for below dc=x", "'dc=x' is too much"),
            ("a: member cn of cn=a below dc=x", "no names of members"),
            ("a: member member,owner of cn=a below dc=x", "one attribute"),
            ("a: link manager seeAlso below dc=x", "'to' and an attribute"),
            ("a: link manager to cn below dc=x", "no names of members"),
            ("a: link seeAlso to seeAlso below dc=x", "not linked to itself"),
            ("a: member member cn=a below dc=x", "'of' and the name"),
            ("a: member member of below dc=x", "is no name"),
        ] {
            let error = Assignment::parse(text, &schema).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_reference_page_is_what_the_kinds_say() {
        check_reference("assignments.md", HEAD, &KINDS);
    }

    const HEAD: &str = "\
# Kinds of assignments

What follows the name in an [assignment](../how-to/assignments.md). `ATTRIBUTES` are names with
commas between, and no blanks; after all of it, `below DN` or `where FILTER` follows, or both.

To regenerate this page: `ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference`.

| kind | followed by | | example |
|---|---|---|---|
";
}
