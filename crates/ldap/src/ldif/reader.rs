//! What the lines of a record mean.

use std::io::BufRead;

use super::lines::{Field, Fields, LineReader, append_base64};
use super::{
    LdifBody, LdifChange, LdifControl, LdifError, LdifLimits, LdifModification, LdifReason,
    LdifRecord, excerpt,
};
use crate::description::{is_attribute_description, is_numeric_oid};
use crate::message::ModifyOperation;

/// Reads an LDIF file record by record.
///
/// After an error, the next call goes on with the next record. Only [`LdifReason::Io`] ends the
/// reading: the source would fail again.
pub struct LdifReader<R> {
    lines: LineReader<R>,
    /// What the first record was; all others must be the same.
    kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Entries,
    Changes,
}

impl<R: BufRead> LdifReader<R> {
    /// Reads from `source`, which is best given a buffer of 64 KiB or more.
    pub const fn new(source: R, limits: LdifLimits) -> Self {
        Self { lines: LineReader::new(source, limits), kind: None }
    }

    /// Reads the next record; none at the end of the file.
    pub fn next_record(&mut self) -> Result<Option<LdifRecord>, LdifError> {
        if !self.lines.load()? {
            return Ok(None);
        }
        let Record { line, dn, kind, fields } = record(self.lines.fields(), &mut self.kind)?;
        let (controls, body) = match kind {
            Kind::Entries => {
                check_attributes(fields.clone(), line)?;
                (Vec::new(), LdifBody::Content(owned_attributes(fields)))
            }
            Kind::Changes => {
                let (controls, change) = change(fields, line)?;
                (controls, LdifBody::Change(change))
            }
        };
        Ok(Some(LdifRecord { line, dn: dn.to_owned(), controls, body }))
    }

    /// Reads the next record of a file that must hold entries only, of which some may say that they
    /// are to be added; copies nothing out of the reader's buffer.
    pub fn next_entry(&mut self) -> Result<Option<LdifEntry<'_>>, LdifError> {
        if !self.lines.load()? {
            return Ok(None);
        }
        LdifEntry::of(self.lines.fields()).map(Some)
    }

    /// Skips what an error left unread of a record. Reading the next record does so, too.
    pub fn skip_record(&mut self) -> Result<(), LdifError> {
        self.lines.skip()
    }

    /// The number of the line read last, for a progress message.
    pub const fn line(&self) -> u64 {
        self.lines.line()
    }
}

/// An entry of a content file, borrowed from its reader.
#[derive(Clone)]
pub struct LdifEntry<'r> {
    /// The line of its `dn:`, counted from 1.
    pub line: u64,
    /// The DN as written; not parsed yet.
    pub dn: &'r str,
    /// The controls of a record that says that it is added.
    pub controls: Vec<LdifControl>,
    fields: Fields<'r>,
}

impl<'r> LdifEntry<'r> {
    /// The entry that the fields of a record make.
    pub(super) fn of(fields: Fields<'r>) -> Result<Self, LdifError> {
        let Record { line, dn, kind, mut fields } = record(fields, &mut None)?;
        let mut controls = Vec::new();
        if kind == Kind::Changes {
            let changetype;
            (controls, changetype) = kind_of_change(&mut fields, line)?;
            if !changetype.value.trim_ascii_end().eq_ignore_ascii_case(b"add") {
                let reason = LdifReason::ChangeOfEntry(excerpt(changetype.value));
                return Err(LdifError { line, reason });
            }
        }
        check_attributes(fields.clone(), line)?;
        Ok(Self { line, dn, controls, fields })
    }

    /// Refuses a record that means nothing without one of its controls.
    ///
    /// # Errors
    /// [`LdifReason::ControlOfEntry`].
    pub fn check_without_controls(&self) -> Result<(), LdifError> {
        if self.controls.iter().any(|control| control.critical) {
            return Err(LdifError { line: self.line, reason: LdifReason::ControlOfEntry });
        }
        Ok(())
    }

    /// The attributes in file order, one pair of description and value per value.
    pub fn attributes(&self) -> impl Iterator<Item = (&'r str, &'r [u8])> + use<'r> {
        self.fields.clone().map(|field| (name(&field), field.value))
    }
}

/// The start of a record: its DN, what it is, and the fields after the DN.
struct Record<'r> {
    line: u64,
    dn: &'r str,
    kind: Kind,
    fields: Fields<'r>,
}

fn record<'r>(
    mut fields: Fields<'r>,
    expected: &mut Option<Kind>,
) -> Result<Record<'r>, LdifError> {
    let first = fields.next().expect("a record is loaded only when it has a field");
    let line = first.line;
    if !first.is("dn") {
        let found = excerpt(if first.is_separator() { b"-" } else { first.name });
        return Err(LdifError { line, reason: LdifReason::MissingDn(found) });
    }
    let dn = utf8(&first, "DN")?;
    let kind = match fields.clone().next() {
        Some(field) if field.is("changetype") || field.is("control") => Kind::Changes,
        _ => Kind::Entries,
    };
    let reason = match (*expected.get_or_insert(kind), kind) {
        (Kind::Entries, Kind::Changes) => LdifReason::ChangeAmongEntries,
        (Kind::Changes, Kind::Entries) => LdifReason::EntryAmongChanges,
        (Kind::Entries, Kind::Entries) | (Kind::Changes, Kind::Changes) => {
            return Ok(Record { line, dn, kind, fields });
        }
    };
    Err(LdifError { line, reason })
}

/// Checks the fields of an entry, whose record begins at `line`.
fn check_attributes(fields: Fields<'_>, line: u64) -> Result<(), LdifError> {
    let mut is_empty = true;
    for field in fields {
        is_empty = false;
        let reason = if field.is_separator() {
            LdifReason::UnexpectedSeparator
        } else if !is_attribute_description(name(&field)) {
            LdifReason::BadDescription(excerpt(field.name))
        } else if field.is("dn") {
            LdifReason::SecondDn
        } else {
            continue;
        };
        return Err(LdifError { line: field.line, reason });
    }
    if is_empty {
        return Err(LdifError { line, reason: LdifReason::NoAttributes });
    }
    Ok(())
}

fn owned_attributes(fields: Fields<'_>) -> Vec<(String, Vec<u8>)> {
    fields.map(|field| (name(&field).to_owned(), field.value.to_vec())).collect()
}

/// Reads the controls of a change record, whose DN stands at `line`, and the field `changetype`.
fn kind_of_change<'r>(
    fields: &mut Fields<'r>,
    line: u64,
) -> Result<(Vec<LdifControl>, Field<'r>), LdifError> {
    let mut controls = Vec::new();
    loop {
        match fields.next() {
            Some(field) if field.is("control") => controls.push(control(&field)?),
            Some(field) if field.is("changetype") => return Ok((controls, field)),
            other => {
                let line = other.map_or(line, |field| field.line);
                return Err(LdifError { line, reason: LdifReason::MissingChangetype });
            }
        }
    }
}

/// Reads the fields of a change record after its DN, which stands at `line`.
fn change(mut fields: Fields<'_>, line: u64) -> Result<(Vec<LdifControl>, LdifChange), LdifError> {
    let (controls, changetype) = kind_of_change(&mut fields, line)?;
    let kind = changetype.value.trim_ascii_end().to_ascii_lowercase();
    let change = match kind.as_slice() {
        b"add" => {
            check_attributes(fields.clone(), changetype.line)?;
            return Ok((controls, LdifChange::Add(owned_attributes(fields))));
        }
        b"delete" => LdifChange::Delete,
        b"modify" => LdifChange::Modify(modifications(&mut fields)?),
        b"modrdn" | b"moddn" => modify_dn(&mut fields, changetype.line)?,
        _ => {
            let reason = LdifReason::UnknownChangetype(excerpt(changetype.value));
            return Err(LdifError { line: changetype.line, reason });
        }
    };
    match fields.next() {
        None => Ok((controls, change)),
        Some(field) => Err(expected("an empty line after the change", Some(field), line)),
    }
}

/// Reads `OID [true|false] [value]`, the value with its own colon.
fn control(field: &Field<'_>) -> Result<LdifControl, LdifError> {
    let error = |reason| LdifError { line: field.line, reason };
    let bad = || error(LdifReason::BadControl);
    let colon = memchr::memchr(b':', field.value).unwrap_or(field.value.len());
    let (head, value) = field.value.split_at_checked(colon).ok_or_else(bad)?;
    let mut words = str::from_utf8(head).map_err(|_| bad())?.split_ascii_whitespace();
    let oid = words.next().filter(|oid| is_numeric_oid(oid)).ok_or_else(bad)?.to_owned();
    let critical = match words.next() {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("true") => true,
        Some(word) if word.eq_ignore_ascii_case("false") => false,
        Some(_) => return Err(bad()),
    };
    if words.next().is_some() {
        return Err(bad());
    }
    let value = match value {
        [] => None,
        [_, b'<', ..] => return Err(error(LdifReason::Url)),
        [_, b':', encoded @ ..] => {
            let mut value = Vec::new();
            if !append_base64(encoded.trim_ascii_start(), &mut value) {
                return Err(error(LdifReason::BadBase64));
            }
            Some(value)
        }
        [_, plain @ ..] => {
            let spaces = plain.iter().take_while(|byte| **byte == b' ').count();
            Some(plain.get(spaces..).unwrap_or_default().to_vec())
        }
    };
    Ok(LdifControl { oid, critical, value })
}

/// Reads modifications up to the end of the record; the last `-` may be missing.
fn modifications(fields: &mut Fields<'_>) -> Result<Vec<LdifModification>, LdifError> {
    let mut modifications = Vec::new();
    while let Some(field) = fields.next() {
        let operation = match OPERATIONS.iter().find(|(keyword, _)| field.is(keyword)) {
            Some((_, operation)) => *operation,
            None => {
                return Err(expected("add:, delete:, replace: or increment:", Some(field), 0));
            }
        };
        let description = utf8(&field, "attribute")?.trim_ascii_end();
        if !is_attribute_description(description) {
            let reason = LdifReason::BadDescription(excerpt(field.value));
            return Err(LdifError { line: field.line, reason });
        }
        let mut values = Vec::new();
        for field in fields.by_ref().take_while(|field| !field.is_separator()) {
            if !field.is(description) {
                let wanted = format!("'{description}:' or '-'");
                return Err(expected(&wanted, Some(field), 0));
            }
            values.push(field.value.to_vec());
        }
        let description = description.to_owned();
        modifications.push(LdifModification { operation, description, values });
    }
    Ok(modifications)
}

/// Reads the lines after `changetype: modrdn`, which stands at `line`.
fn modify_dn(fields: &mut Fields<'_>, line: u64) -> Result<LdifChange, LdifError> {
    let new_rdn = match fields.next() {
        Some(field) if field.is("newrdn") => utf8(&field, "new RDN")?.to_owned(),
        other => return Err(expected("'newrdn:'", other, line)),
    };
    let delete_old_rdn = match fields.next() {
        Some(field) if field.is("deleteoldrdn") => match field.value.trim_ascii_end() {
            b"0" => false,
            b"1" => true,
            _ => {
                return Err(LdifError { line: field.line, reason: LdifReason::BadDeleteOldRdn });
            }
        },
        other => return Err(expected("'deleteoldrdn:'", other, line)),
    };
    let new_superior = match fields.next() {
        None => None,
        Some(field) if field.is("newsuperior") => Some(utf8(&field, "new superior")?.to_owned()),
        other => return Err(expected("'newsuperior:' or an empty line", other, line)),
    };
    Ok(LdifChange::ModifyDn { new_rdn, delete_old_rdn, new_superior })
}

/// The error that `wanted` must stand where `found` does, or at the end of the record whose last
/// keyword stands at `line`.
fn expected(wanted: &str, found: Option<Field<'_>>, line: u64) -> LdifError {
    let (line, found) = match found {
        None => (line, "the end of the record".to_owned()),
        Some(field) if field.is_separator() => (field.line, "'-'".to_owned()),
        Some(field) => (field.line, format!("'{}:'", excerpt(field.name))),
    };
    LdifError { line, reason: LdifReason::Expected { expected: wanted.to_owned(), found } }
}

fn utf8<'r>(field: &Field<'r>, what: &'static str) -> Result<&'r str, LdifError> {
    str::from_utf8(field.value)
        .map_err(|_| LdifError { line: field.line, reason: LdifReason::NotUtf8(what) })
}

/// The name as text; a name that is not UTF-8 becomes empty, which no description is.
fn name<'r>(field: &Field<'r>) -> &'r str {
    str::from_utf8(field.name).unwrap_or_default()
}

/// The keywords of a modification.
const OPERATIONS: [(&str, ModifyOperation); 4] = [
    ("add", ModifyOperation::Add),
    ("delete", ModifyOperation::Delete),
    ("replace", ModifyOperation::Replace),
    ("increment", ModifyOperation::Increment),
];
