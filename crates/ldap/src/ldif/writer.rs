//! Writes LDIF files.
//!
//! Invariant: what is written is ASCII; a value that is not plain printable text, in the sense of
//! RFC 2849, is written in base64.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{LdifBody, LdifChange, LdifControl, LdifRecord};
use crate::message::ModifyOperation;

/// Where tools usually fold lines.
pub const LDIF_FOLD_COLUMNS: usize = 78;

/// Writes LDIF records to `W`, which is best buffered.
///
/// A record is written as a whole with [`record`](Self::record), or piece by piece: `dn`, then
/// `attribute` for each value, then `end_record`.
pub struct LdifWriter<W> {
    out: W,
    /// The longest line written; 0 folds nothing.
    fold_columns: usize,
    /// The line being put together; used again for each.
    line: Vec<u8>,
}

impl<W: Write> LdifWriter<W> {
    /// Writes to `out`, lines folded at `fold_columns`; 0 folds nothing.
    pub const fn new(out: W, fold_columns: usize) -> Self {
        Self { out, fold_columns, line: Vec::new() }
    }

    /// Gives back what was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes the version line, which belongs at the start of a file.
    pub fn version(&mut self) -> io::Result<()> {
        self.out.write_all(b"version: 1\n\n")
    }

    /// Writes a comment, each line of `text` as its own.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        for line in text.lines() {
            writeln!(self.out, "# {}", line.replace('\r', " "))?;
        }
        Ok(())
    }

    /// Begins a record.
    pub fn dn(&mut self, dn: &str) -> io::Result<()> {
        self.attribute("dn", dn.as_bytes())
    }

    /// Writes one value. The description must be one (RFC 4512 §2.5).
    pub fn attribute(&mut self, description: &str, value: &[u8]) -> io::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(description.as_bytes());
        self.end_line_with_value(value)
    }

    /// Ends a record with an empty line.
    pub fn end_record(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")
    }

    /// Writes a whole record.
    pub fn record(&mut self, record: &LdifRecord) -> io::Result<()> {
        self.dn(&record.dn)?;
        for control in &record.controls {
            self.control(control)?;
        }
        match &record.body {
            LdifBody::Content(attributes) => self.attributes(attributes)?,
            LdifBody::Change(change) => self.change(change)?,
        }
        self.end_record()
    }

    fn attributes(&mut self, attributes: &[(String, Vec<u8>)]) -> io::Result<()> {
        attributes.iter().try_for_each(|(description, value)| self.attribute(description, value))
    }

    fn change(&mut self, change: &LdifChange) -> io::Result<()> {
        match change {
            LdifChange::Add(attributes) => {
                self.attribute("changetype", b"add")?;
                self.attributes(attributes)
            }
            LdifChange::Delete => self.attribute("changetype", b"delete"),
            LdifChange::Modify(modifications) => {
                self.attribute("changetype", b"modify")?;
                for modification in modifications {
                    let keyword = keyword(modification.operation);
                    let description = &modification.description;
                    self.attribute(keyword, description.as_bytes())?;
                    for value in &modification.values {
                        self.attribute(description, value)?;
                    }
                    self.out.write_all(b"-\n")?;
                }
                Ok(())
            }
            LdifChange::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
                self.attribute("changetype", b"modrdn")?;
                self.attribute("newrdn", new_rdn.as_bytes())?;
                self.attribute("deleteoldrdn", if *delete_old_rdn { b"1" } else { b"0" })?;
                match new_superior {
                    Some(dn) => self.attribute("newsuperior", dn.as_bytes()),
                    None => Ok(()),
                }
            }
        }
    }

    fn control(&mut self, control: &LdifControl) -> io::Result<()> {
        self.line.clear();
        write!(self.line, "control: {} {}", control.oid, control.critical)?;
        match &control.value {
            Some(value) => self.end_line_with_value(value),
            None => self.end_line(),
        }
    }

    /// Appends `value` to the line in the form it needs and writes the line.
    fn end_line_with_value(&mut self, value: &[u8]) -> io::Result<()> {
        if is_safe(value) {
            self.line.push(b':');
            if !value.is_empty() {
                self.line.push(b' ');
            }
            self.line.extend_from_slice(value);
        } else {
            self.line.extend_from_slice(b":: ");
            let start = self.line.len();
            self.line.resize(start + value.len().div_ceil(3) * 4, 0);
            let encoded = self.line.get_mut(start..).unwrap_or_default();
            STANDARD.encode_slice(value, encoded).map_err(io::Error::other)?;
        }
        self.end_line()
    }

    /// Writes the line, folded: continuation lines begin with a space.
    fn end_line(&mut self) -> io::Result<()> {
        // One column for the space and one for an octet is the least that makes progress.
        let columns = if self.fold_columns == 0 { usize::MAX } else { self.fold_columns.max(2) };
        let (first, mut rest) = self.line.split_at(self.line.len().min(columns));
        self.out.write_all(first)?;
        while !rest.is_empty() {
            let (next, after) = rest.split_at(rest.len().min(columns - 1));
            self.out.write_all(b"\n ")?;
            self.out.write_all(next)?;
            rest = after;
        }
        self.out.write_all(b"\n")
    }
}

const fn keyword(operation: ModifyOperation) -> &'static str {
    match operation {
        ModifyOperation::Add => "add",
        ModifyOperation::Delete => "delete",
        ModifyOperation::Replace => "replace",
        ModifyOperation::Increment => "increment",
    }
}

/// Whether a value may be written as it is (RFC 2849, SAFE-STRING and note 8).
fn is_safe(value: &[u8]) -> bool {
    let starts_safe = !matches!(value.first(), Some(b' ' | b':' | b'<'));
    // No early exit, so that the loop works on many octets at once.
    let has_unsafe = value.iter().fold(false, |found, octet| {
        found | !octet.is_ascii() | (*octet == 0) | (*octet == b'\n') | (*octet == b'\r')
    });
    starts_safe && !has_unsafe && value.last() != Some(&b' ')
}
