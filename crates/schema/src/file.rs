//! Reads schema files.
//!
//! A file is LDIF-like: `attributeTypes: ( … )` and the like, lines that start with a space
//! continue the one before, `#` starts a comment. The lines of the entry around it (`dn`, `cn`,
//! `objectClass`) mean nothing, but the entry has to be that of a schema. OpenLDAP's two forms are
//! read as well: `attributetype ( … )` and `olcAttributeTypes: {0}( … )`; and modifications of a
//! schema entry that add definitions (`changetype: modify`, `add: attributeTypes`, `-`).

use ldap::dn::{Ava, Dn, Rdn};

use crate::definition::{Definition, DefinitionKind};
use crate::error::{DefinitionLocation, SchemaError, SchemaFault};

/// A schema file: its name, for messages, and its text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaFile {
    /// Shown in messages and as `X-SCHEMA-FILE`.
    pub name: String,
    /// The content.
    pub text: String,
}

impl SchemaFile {
    /// The definitions in it, in order.
    ///
    /// # Errors
    /// When it cannot be read, with the line.
    pub fn definitions(&self) -> Result<Vec<Definition>, SchemaError> {
        Ok(read(self)?.into_iter().map(|sourced| sourced.definition).collect())
    }
}

/// A definition and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Sourced {
    pub(crate) definition: Definition,
    pub(crate) place: DefinitionLocation,
}

/// Says where a definition comes from, in the subschema entry.
pub(crate) const SCHEMA_FILE_EXTENSION: &str = "X-SCHEMA-FILE";

/// Reads all definitions of a file, in order.
pub(crate) fn read(file: &SchemaFile) -> Result<Vec<Sourced>, SchemaError> {
    let mut found = Vec::new();
    for (line, text) in unfold(&file.text) {
        let place = DefinitionLocation { file: file.name.clone(), line: Some(line) };
        let fail = |fault| SchemaError { place: place.clone(), subject: String::new(), fault };
        let Some((kind, text)) = definition_text(&text).map_err(fail)? else { continue };
        let mut definition = Definition::parse(kind, text).map_err(|error| {
            let subject = kind.noun().to_owned();
            SchemaError { place: place.clone(), subject, fault: SchemaFault::Unreadable(error) }
        })?;
        if definition.extension(SCHEMA_FILE_EXTENSION).is_none() {
            definition.set_extension(SCHEMA_FILE_EXTENSION, &file.name);
        }
        found.push(Sourced { definition, place });
    }
    Ok(found)
}

/// Joins continuation lines and drops comments; yields each line with its number.
fn unfold(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut in_comment = false;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        if let Some(rest) = line.strip_prefix([' ', '\t']) {
            match lines.last_mut() {
                _ if in_comment => {}
                Some((_, last)) if !last.is_empty() => {
                    // LDIF drops the space; OpenLDAP's files need it between words.
                    if line.starts_with('\t') || !is_ldif(last) {
                        last.push(' ');
                    }
                    last.push_str(rest);
                }
                // White space alone, or an indented line after an empty one.
                _ => lines.push((index + 1, rest.trim_start().to_owned())),
            }
            continue;
        }
        in_comment = line.starts_with('#');
        if !in_comment {
            lines.push((index + 1, line.to_owned()));
        }
    }
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

fn is_ldif(line: &str) -> bool {
    line.chars().find(|c| matches!(c, ':' | ' ' | '\t')) == Some(':')
}

/// Finds out what a line is; `None` for the lines that mean nothing.
fn definition_text(line: &str) -> Result<Option<(DefinitionKind, &str)>, SchemaFault> {
    // The end of one modification (RFC 2849).
    if line.trim_end() == "-" {
        return Ok(None);
    }
    let Some(end) = line.find([':', ' ', '\t']) else { return Err(SchemaFault::NotALine) };
    let (name, rest) = line.split_at(end);
    let openldap = OPENLDAP_WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(name));
    if name.eq_ignore_ascii_case("objectidentifier") {
        return Err(SchemaFault::MacroLine);
    }
    let Some(value) = rest.strip_prefix(':') else {
        return match openldap {
            Some((_, kind)) => Ok(Some((*kind, rest))),
            None => Err(SchemaFault::NotALine),
        };
    };
    if IGNORED.iter().any(|ignored| ignored.eq_ignore_ascii_case(name)) {
        return Ok(None);
    }
    if name.eq_ignore_ascii_case("dn") {
        return of_schema_entry(value).map(|()| None);
    }
    if name.eq_ignore_ascii_case("changetype") {
        return change_that_adds(value.trim()).map(|()| None);
    }
    // Others than this take definitions away.
    if name.eq_ignore_ascii_case("add") && kind_of(value.trim()).is_some() {
        return Ok(None);
    }
    let Some(kind) = kind_of(name) else {
        let attribute = without_prefix(name);
        return Err(match attribute.eq_ignore_ascii_case("objectIdentifier") {
            true => SchemaFault::MacroLine,
            false => SchemaFault::UnknownLine(name.to_owned()),
        });
    };
    if value.starts_with(':') {
        return Err(SchemaFault::Base64);
    }
    Ok(Some((kind, without_order(value))))
}

/// Refuses a name that is of no schema: whatever is to happen to its entry would not.
fn of_schema_entry(value: &str) -> Result<(), SchemaFault> {
    if value.starts_with(':') {
        return Err(SchemaFault::Base64);
    }
    let name = value.trim();
    let dn = Dn::parse(name).ok();
    let is_schema = |rdn: &Rdn| {
        let of_schema = |ava: &Ava| {
            ava.attribute.eq_ignore_ascii_case("cn")
                && SCHEMA_NAMES.iter().any(|own| ava.value.eq_ignore_ascii_case(own.as_bytes()))
        };
        rdn.avas().iter().any(of_schema)
    };
    match dn.is_some_and(|dn| dn.rdns().iter().any(is_schema)) {
        true => Ok(()),
        false => Err(SchemaFault::OtherEntry(name.to_owned())),
    }
}

/// Refuses a change that takes definitions away.
fn change_that_adds(verb: &str) -> Result<(), SchemaFault> {
    match ["modify", "add"].iter().any(|own| own.eq_ignore_ascii_case(verb)) {
        true => Ok(()),
        false => Err(SchemaFault::ChangeType(verb.to_owned())),
    }
}

/// What an attribute of a schema entry, or of OpenLDAP's configuration, defines.
fn kind_of(name: &str) -> Option<DefinitionKind> {
    DefinitionKind::from_attribute(without_prefix(name))
}

fn without_prefix(name: &str) -> &str {
    let prefix = name.get(..3).filter(|prefix| prefix.eq_ignore_ascii_case("olc"));
    if prefix.is_some() { name.get(3..).unwrap_or(name) } else { name }
}

/// Drops the `{7}` that cn=config puts before ordered values.
fn without_order(value: &str) -> &str {
    let value = value.trim_start();
    let number = value.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    match number {
        Some((digits, rest)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        Some(_) | None => value,
    }
}

/// Lines of the entry that holds the definitions.
const IGNORED: &[&str] = &["objectClass", "cn", "ou", "version", "aci"];

/// What entries with a schema are called: here and with most servers, with OpenLDAP.
const SCHEMA_NAMES: &[&str] = &["schema", "subschema"];

const OPENLDAP_WORDS: &[(&str, DefinitionKind)] = &[
    ("attributetype", DefinitionKind::AttributeType),
    ("objectclass", DefinitionKind::ObjectClass),
    ("ditcontentrule", DefinitionKind::ContentRule),
    ("ldapsyntax", DefinitionKind::Syntax),
];
