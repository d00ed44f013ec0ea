//! How administrators define a virtual attribute: `NAME: KIND … [below DN] [where FILTER]`, in a
//! line.
//!
//! A kind plugs in by one row of `KINDS`.

use std::sync::Arc;

use schema::{AttributeDescription, Schema};

use super::definition::{Area, Beside, Constant, Definition, Part, Source};
use crate::lines::kind::Kind;
use crate::lines::scanner::{LineError, Parsed, Scanner, wrong};

/// What entries have without storing it, as an administrator says it.
#[derive(Debug)]
pub struct VirtualAttribute {
    /// Its name.
    pub name: String,
    pub(super) definition: Definition,
}

/// What a kind reads: the attribute, and where its values come from.
pub(super) type Given = (Arc<AttributeDescription>, Source);

/// Every kind.
pub(super) static KINDS: [Kind<Given>; 4] = [
    Kind {
        name: "constant",
        form: "ATTRIBUTE (VALUE|VALUE…)",
        about: "These values.",
        example: "constant o (Example Ltd.) below ou=people,dc=example,dc=com",
        read: read_constant,
    },
    Kind {
        name: "superior",
        form: "ATTRIBUTE from ATTRIBUTE",
        about: "The values that the superior of the entry has of the second attribute.",
        example: "superior l from l below ou=people,dc=example,dc=com",
        read: read_superior,
    },
    Kind {
        name: "reference",
        form: "ATTRIBUTE from ATTRIBUTE of ATTRIBUTE",
        about: "The values that entries which the third attribute names have of the second.",
        example: "reference departmentNumber from departmentNumber of manager below \
                  ou=people,dc=example,dc=com",
        read: read_reference,
    },
    Kind {
        name: "template",
        form: "ATTRIBUTE \"TEXT\"",
        about: "A text, in which the name of an attribute in braces stands for its first value in \
                the entry. Without that value nothing is given.",
        example: "template displayName \"{givenName} {sn}\" where (objectClass=inetOrgPerson)",
        read: read_template,
    },
];

/// The setting with the lines.
pub(crate) const VIRTUAL_ATTRIBUTES: &str = "virtual-attributes";

impl VirtualAttribute {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is none, or is about attributes that the schema does not know, or that are secret or
    /// operational.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, LineError> {
        let (name, mut scanner) = Scanner::begin(text, "virtual attribute", KINDS[0].example)?;
        let kind = scanner.kind(&KINDS)?;
        let (description, source) = (kind.read)(&mut scanner, schema)?;
        let word = WORDS.iter().find(|(word, _)| scanner.takes(word));
        let (beside, merges) = word.map_or((Beside::Stored, false), |(_, meant)| *meant);
        let place = scanner.place(schema)?;
        if place.below.is_none() && place.filter.is_none() {
            return wrong("it would be about every entry: say 'below DN' or 'where FILTER'");
        }
        let area = Area::Place(place);
        let (named_only, subentry) = (false, None);
        let definition =
            Definition { description, source, beside, merges, named_only, area, subentry };
        Ok(Self { name: name.to_owned(), definition })
    }
}

fn read_constant(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Given> {
    let description = read_given(scanner, schema)?;
    let values = scanner.enclosed('(', ')', Some('|'))?;
    for value in &values {
        if let Err(error) = (description.kind.syntax.check)(schema, value.as_bytes()) {
            let name = description.text();
            return wrong(format!("'{value}' is no value of '{name}': {error}"));
        }
    }
    if description.kind.single_value && values.len() > 1 {
        return wrong(format!("'{}' takes one value", description.text()));
    }
    let values = values.into_iter().map(String::into_bytes);
    let constant = Constant::new(&description, values, schema);
    Ok((description, Source::Constant(constant)))
}

fn read_superior(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Given> {
    let description = read_given(scanner, schema)?;
    if !scanner.takes("from") {
        return wrong("'from' and an attribute are expected, as in 'superior l from l'");
    }
    let from = read_source(scanner, schema, &description)?;
    Ok((description, Source::Superior(from)))
}

fn read_reference(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Given> {
    let description = read_given(scanner, schema)?;
    let why = "'from', an attribute, 'of' and an attribute are expected, as in 'reference l from l \
               of manager'";
    if !scanner.takes("from") {
        return wrong(why);
    }
    let of = read_source(scanner, schema, &description)?;
    if !scanner.takes("of") {
        return wrong(why);
    }
    let by = one(scanner, schema)?;
    let is_name = by.kind.equality.is_some_and(|rule| NAMES.contains(&rule.oid));
    match is_name {
        true => Ok((description, Source::Referenced { of, by })),
        false => wrong(format!("values of '{}' name no entries", by.text())),
    }
}

fn read_template(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Given> {
    let description = read_given(scanner, schema)?;
    if (description.kind.syntax.check)(schema, b"text").is_err() {
        return wrong(format!("values of '{}' are no text", description.text()));
    }
    let text = scanner.enclosed('"', '"', None)?.concat();
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while let Some((literal, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            return wrong(format!("'}}' is missing behind '{{{after}'"));
        };
        parts.push(Part::Literal(literal.to_owned()));
        let known = schema.describe(name);
        let known = known.map_err(|error| LineError(format!("'{name}' in braces: {error}")))?;
        if known.kind.is_secret() || known.is_password() {
            return wrong(format!("'{name}' is secret"));
        }
        parts.push(Part::Value(known));
        rest = after;
    }
    parts.push(Part::Literal(rest.to_owned()));
    match parts.len() > PARTS_MAX {
        true => wrong(format!("the text has more than {} attributes", PARTS_MAX / 2)),
        false => Ok((description, Source::Text(parts))),
    }
}

/// The attribute that is given.
fn read_given(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Arc<AttributeDescription>> {
    let found = one(scanner, schema)?;
    match Definition::refusal(&found) {
        Some(reason) => wrong(format!("'{}' is not given: {reason}", found.text())),
        None => Ok(found),
    }
}

/// One attribute, of which there may be values.
fn one(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Arc<AttributeDescription>> {
    let mut all = scanner.attributes(schema)?;
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_) | None, _) => wrong("one attribute is expected"),
    }
}

/// The attribute whose values are given as those of `given`.
fn read_source(
    scanner: &mut Scanner<'_>,
    schema: &Schema,
    given: &AttributeDescription,
) -> Parsed<Arc<AttributeDescription>> {
    let found = one(scanner, schema)?;
    match found.kind.syntax.oid == given.kind.syntax.oid {
        true => Ok(found),
        false => {
            let (found, given) = (found.text(), given.text());
            wrong(format!("values of '{found}' have another syntax than those of '{given}'"))
        }
    }
}

/// What may stand before the place: what becomes of stored values, and whether others are added.
const WORDS: [(&str, (Beside, bool)); 3] = [
    ("default", (Beside::Stored, false)),
    ("override", (Beside::Given, false)),
    ("merge", (Beside::Both, true)),
];
/// Parts of a text, at the most.
const PARTS_MAX: usize = 33;
/// The rules by which names are equal: `distinguishedNameMatch` and `uniqueMemberMatch`.
const NAMES: [&str; 2] = ["2.5.13.1", "2.5.13.23"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::kind::check_reference;

    #[test]
    fn every_example_is_read() {
        let schema = Schema::builtin();
        for kind in &KINDS {
            let read = VirtualAttribute::parse(&format!("a: {}", kind.example), &schema);
            assert!(read.is_ok(), "{}: {read:?}", kind.example);
        }
    }

    #[test]
    fn what_is_written_is_meant() {
        let schema = Schema::builtin();
        let read = |text: &str| VirtualAttribute::parse(text, &schema).unwrap().definition;
        let one = read("a: constant l (Paris|New\\|York) merge below dc=x");
        assert_eq!((one.beside, one.merges), (Beside::Both, true));
        let Source::Constant(constant) = one.source else { panic!() };
        assert_eq!(constant.values, [b"Paris".to_vec(), b"New|York".to_vec()]);
        let other = read("a: template cn \"{uid}: {sn}\" override where (cn=*)");
        assert_eq!(other.beside, Beside::Given);
        let Source::Text(parts) = other.source else { panic!() };
        let texts: Vec<String> = parts
            .iter()
            .map(|part| match part {
                Part::Literal(text) => format!("'{text}'"),
                Part::Value(description) => description.text().to_owned(),
            })
            .collect();
        assert_eq!(texts, ["''", "uid", "': '", "sn", "''"]);
    }

    #[test]
    fn what_is_no_virtual_attribute_is_refused_with_the_reason() {
        let schema = Schema::builtin();
        for (text, why) in [
            ("a constant", "begins with a name"),
            ("a: count l (x) below dc=x", "there are: constant, "),
            ("a: constant l (x)", "about every entry"),
            ("a: constant userPassword (x) below dc=x", "secret"),
            ("a: constant objectClass (x) below dc=x", "acts on"),
            ("a: constant nsRoleDN (cn=x) below dc=x", "acts on"),
            ("a: constant l,st (x) below dc=x", "one attribute"),
            ("a: constant uidNumber (x) below dc=x", "is no value of 'uidNumber'"),
            ("a: constant displayName (x|y) below dc=x", "takes one value"),
            ("a: constant l x below dc=x", "'(' is expected"),
            ("a: superior l below dc=x", "'from' and an attribute"),
            ("a: superior l from jpegPhoto below dc=x", "another syntax"),
            ("a: superior l from userPassword below dc=x", "secret"),
            ("a: reference l from l below dc=x", "'of' and an attribute"),
            ("a: reference l from l of st below dc=x", "name no entries"),
            ("a: template uidNumber \"{uid}\" below dc=x", "no text"),
            ("a: template cn \"{uid\" below dc=x", "'}' is missing"),
            ("a: template cn \"{nothing}\" below dc=x", "in braces"),
            ("a: template cn \"{userPassword}\" below dc=x", "secret"),
            ("a: template cn \"x\" whatever below dc=x", "is too much"),
        ] {
            let error = VirtualAttribute::parse(text, &schema).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_reference_page_is_what_the_kinds_say() {
        check_reference("virtual-attributes.md", HEAD, &KINDS);
    }

    const HEAD: &str = "\
# Kinds of virtual attributes

What follows the name of a [virtual attribute](../how-to/virtual-attributes.md). After all of it
`default`, `override` or `merge` may follow, and then `below DN` or `where FILTER`, or both.

To regenerate this page: `ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference`.

| kind | followed by | | example |
|---|---|---|---|
";
}
