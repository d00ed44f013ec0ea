//! ACIs as text, in the syntax of Sun's directory servers and those after them.
//!
//! Invariants: what is read has every name resolved; what is displayed reads back as an equal ACI;
//! every refusal has a column. Recursion ends at [`BIND_RULE_DEPTH_MAX`].

mod bind;
mod display;
mod error;
mod limits;
mod name;
mod scan;
mod target;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use ldap::description::is_attribute_description;
use ldap::filter::Filter;
use schema::{ResolvedFilter, Schema};

pub use self::error::{AciError, AciReason};
pub use self::limits::{
    ACI_LENGTH_MAX_BYTES, ACI_VALUES_MAX, BIND_RULE_DEPTH_MAX, PARENT_LEVEL_MAX,
};
pub(crate) use self::name::resolve as resolve_url;
use self::scan::{Fault, Part, Scanner};
use crate::rule::{Aci, AttributeName, FilterText, Right, Rights, Statement};

/// Reads an ACI.
pub(crate) fn parse(text: &str, schema: &Schema) -> Result<Aci, AciError> {
    let (unknown, unanswered) = (Vec::new(), Vec::new());
    let mut parser = Parser { scanner: Scanner::new(text), schema, unknown, unanswered, values: 0 };
    parser.aci().map_err(|fault| {
        let before = text.get(..fault.offset).unwrap_or(text);
        AciError { column: before.chars().count() + 1, reason: fault.reason }
    })
}

/// Writes an ACI as [`parse`] reads it.
pub(crate) fn write(aci: &Aci, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    display::write(aci, f)
}

/// Reads from the left; every method starts at the scanner's place and ends after what it read.
struct Parser<'t> {
    scanner: Scanner<'t>,
    schema: &'t Schema,
    /// Names of attributes that the schema does not have.
    unknown: Vec<String>,
    /// Terms of filters that are Undefined although their attributes are known.
    unanswered: Vec<String>,
    /// How many values were read.
    values: usize,
}

impl<'t> Parser<'t> {
    fn aci(&mut self) -> Result<Aci, Fault> {
        let text = self.scanner.text();
        if text.len() > ACI_LENGTH_MAX_BYTES {
            return Err(Fault { offset: ACI_LENGTH_MAX_BYTES, reason: AciReason::TooLong });
        }
        let targets = self.targets()?;
        let name = self.head()?;
        let mut statements = Vec::new();
        while statements.is_empty() || !self.scanner.eat(")") {
            statements.push(self.statement()?);
        }
        self.scanner.skip_spaces();
        if !self.scanner.is_at_end() {
            return Err(self.scanner.fault(AciReason::TextAfterEnd));
        }
        let unknown = std::mem::take(&mut self.unknown);
        let unanswered = std::mem::take(&mut self.unanswered);
        Ok(Aci { name, targets, statements, text: text.to_owned(), unknown, unanswered })
    }

    /// Reads what follows `(version`, up to the first permission.
    fn head(&mut self) -> Result<String, Fault> {
        self.scanner.skip_spaces();
        let version = self.scanner.until(";", "';' after the version")?;
        if version.text != "3.0" {
            return Err(version.fault(AciReason::Version));
        }
        let word = self.scanner.word();
        if !word.text.eq_ignore_ascii_case("acl") {
            return Err(word.expected("'acl' and the name of the ACI in quotes"));
        }
        self.scanner.skip_spaces();
        let name = if self.scanner.is_at("\"") {
            let name = self.scanner.quoted()?;
            self.scanner.expect(";", "';' after the name")?;
            name
        } else {
            self.scanner.until(";", "the name of the ACI in quotes, and ';'")?
        };
        if name.text.contains('"') {
            return Err(name.fault(AciReason::Quote));
        }
        Ok(name.text.to_owned())
    }

    /// Reads `allow (rights) rule;`.
    fn statement(&mut self) -> Result<Statement, Fault> {
        let word = self.scanner.word();
        let allows = match word.text.to_ascii_lowercase().as_str() {
            "allow" => true,
            "deny" => false,
            _ => return Err(word.expected("'allow' or 'deny'")),
        };
        self.scanner.expect("(", "'(' and rights")?;
        let mut rights = Rights::default();
        loop {
            rights = rights.with(self.right()?);
            if self.scanner.eat(")") {
                break;
            }
            self.scanner.expect(",", "',' or ')' after a right")?;
        }
        let rule = self.bind_rule(1)?;
        if !self.scanner.eat(";") && !self.scanner.is_at(")") {
            return Err(self.scanner.expected("'and', 'or' or ';' after a bind rule"));
        }
        Ok(Statement { allows, rights, rule })
    }

    fn right(&mut self) -> Result<Rights, Fault> {
        let word = self.scanner.word();
        let name = word.text.to_ascii_lowercase();
        match name.as_str() {
            "all" => Ok(Rights::ALL),
            "self_write" | "self" => Ok(Right::SelfWrite.into()),
            "moddn" => Err(word.fault(AciReason::NotSupported(MODDN))),
            _ => Right::find(&name)
                .map(Rights::from)
                .ok_or_else(|| word.fault(AciReason::Right(word.text.to_owned()))),
        }
    }

    /// Resolves an attribute by name; one that the schema does not have is kept.
    fn attribute(&mut self, part: Part<'_>) -> Result<AttributeName, Fault> {
        self.count(part)?;
        if !is_attribute_description(part.text) {
            return Err(part.fault(AciReason::Attribute(part.text.to_owned())));
        }
        if let Ok(description) = self.schema.describe(part.text) {
            return Ok(AttributeName::Known(Arc::clone(&description)));
        }
        self.note_unknown(part.text);
        Ok(AttributeName::Unknown(part.text.to_owned()))
    }

    /// Resolves a filter; what it says of attributes that the schema does not have is not known.
    fn filter(&mut self, part: Part<'_>) -> Result<FilterText, Fault> {
        self.count(part)?;
        let filter = Filter::parse(part.text).map_err(|error| Fault {
            offset: part.offset + error.offset,
            reason: AciReason::Filter(error.reason),
        })?;
        self.note_unanswered(&filter);
        let resolved = ResolvedFilter::resolve(&filter, self.schema);
        Ok(FilterText { text: part.text.to_owned(), filter: resolved })
    }

    /// Notes what of a filter has no answer.
    fn note_unanswered(&mut self, filter: &Filter<'_>) {
        if let Some(inner) = parts(filter) {
            return inner.iter().for_each(|filter| self.note_unanswered(filter));
        }
        let name = attribute_of(filter);
        self.note_unknown_in(filter);
        let is_known = name.is_none_or(|name| self.schema.describe(name).is_ok());
        if is_known && ResolvedFilter::resolve(filter, self.schema) == ResolvedFilter::Undefined {
            self.unanswered.push(filter.to_string());
        }
    }

    fn note_unknown_in(&mut self, filter: &Filter<'_>) {
        match parts(filter) {
            Some(inner) => inner.iter().for_each(|filter| self.note_unknown_in(filter)),
            None => {
                if let Some(name) = attribute_of(filter) {
                    self.note_unknown(name);
                }
            }
        }
    }

    fn note_unknown(&mut self, name: &str) {
        let is_known = self.schema.describe(name).is_ok();
        if !is_known && !self.unknown.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            self.unknown.push(name.to_owned());
        }
    }

    /// Counts a value that was read.
    fn count(&mut self, part: Part<'_>) -> Result<(), Fault> {
        self.values += 1;
        if self.values > ACI_VALUES_MAX {
            return Err(part.fault(AciReason::TooManyValues));
        }
        Ok(())
    }
}

/// The filters that a filter joins; none of one that asks about an entry itself.
fn parts<'f, 't>(filter: &'f Filter<'t>) -> Option<&'f [Filter<'t>]> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => Some(filters),
        Filter::Not(filter) => Some(std::slice::from_ref(filter)),
        Filter::Present(_)
        | Filter::Equality(_)
        | Filter::GreaterOrEqual(_)
        | Filter::LessOrEqual(_)
        | Filter::Approx(_)
        | Filter::Substrings(_)
        | Filter::Extensible(_) => None,
    }
}

/// The attribute that one term of a filter asks about.
fn attribute_of<'f>(filter: &'f Filter<'_>) -> Option<&'f str> {
    match filter {
        Filter::And(_) | Filter::Or(_) | Filter::Not(_) => None,
        Filter::Present(name) => Some(name),
        Filter::Equality(ava)
        | Filter::GreaterOrEqual(ava)
        | Filter::LessOrEqual(ava)
        | Filter::Approx(ava) => Some(ava.description),
        Filter::Substrings(substrings) => Some(substrings.description),
        Filter::Extensible(extensible) => extensible.description,
    }
}

const MODDN: &str =
    "the right 'moddn' is not supported: use 'export' on what is moved and 'import' where it goes";
