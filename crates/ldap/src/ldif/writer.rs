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
        push_ldif_line(&mut self.line, description, value, self.fold_columns);
        self.out.write_all(&self.line)
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

    /// Writes a control of a change record, after its DN.
    pub fn control(&mut self, control: &LdifControl) -> io::Result<()> {
        self.line.clear();
        write!(self.line, "control: {} {}", control.oid, control.critical)?;
        match &control.value {
            Some(value) => end_line_with_value(&mut self.line, 0, value, self.fold_columns),
            None => end_line(&mut self.line, 0, self.fold_columns),
        }
        self.out.write_all(&self.line)
    }
}

/// Appends one value as a line, folded at `fold_columns` (0 folds nothing): in plain text where
/// RFC 2849 allows it, else in base64. The description must be one (RFC 4512 §2.5).
pub fn push_ldif_line(out: &mut Vec<u8>, description: &str, value: &[u8], fold_columns: usize) {
    let start = out.len();
    out.extend_from_slice(description.as_bytes());
    end_line_with_value(out, start, value, fold_columns);
}

/// Appends `value` to the line from `start` on in the form it needs, and ends the line.
fn end_line_with_value(out: &mut Vec<u8>, start: usize, value: &[u8], fold_columns: usize) {
    if value.is_empty() {
        out.push(b':');
    } else if is_safe_string(value) {
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
    } else {
        out.extend_from_slice(b":: ");
        let start = out.len();
        out.resize(start + value.len().div_ceil(3) * 4, 0);
        let encoded = out.get_mut(start..).unwrap_or_default();
        STANDARD.encode_slice(value, encoded).expect("there is room for what base64 makes of it");
    }
    end_line(out, start, fold_columns);
}

/// Ends the line from `start` on, and folds it: continuation lines begin with a space.
fn end_line(out: &mut Vec<u8>, start: usize, fold_columns: usize) {
    // One column for the space and one for an octet is the least that makes progress.
    let columns = if fold_columns == 0 { usize::MAX } else { fold_columns.max(2) };
    let end = out.len();
    if let Some(rest) = (end - start).checked_sub(columns).filter(|rest| *rest > 0) {
        let parts = rest.div_ceil(columns - 1);
        out.resize(end + FOLD.len() * parts, 0);
        // From the last on, so that none is written over before it has moved.
        for part in (1..=parts).rev() {
            let from = start + columns + (part - 1) * (columns - 1);
            let to = from + FOLD.len() * part;
            out.copy_within(from..end.min(from + columns - 1), to);
            if let Some(fold) = out.get_mut(to - FOLD.len()..to) {
                fold.copy_from_slice(FOLD);
            }
        }
    }
    out.push(b'\n');
}

/// What goes between the parts of a folded line.
const FOLD: &[u8] = b"\n ";

const fn keyword(operation: ModifyOperation) -> &'static str {
    match operation {
        ModifyOperation::Add => "add",
        ModifyOperation::Delete => "delete",
        ModifyOperation::Replace => "replace",
        ModifyOperation::Increment => "increment",
    }
}

/// Whether a value may be written as it is (RFC 2849, SAFE-STRING, note 8); else it needs base64.
#[must_use]
pub fn is_safe_string(value: &[u8]) -> bool {
    let starts_safe = !matches!(value.first(), Some(b' ' | b':' | b'<'));
    // Eight octets at once, and without an early end: nearly all values are safe.
    let (words, rest) = value.as_chunks::<8>();
    let mut last = [b'x'; 8];
    last.iter_mut().zip(rest).for_each(|(last, octet)| *last = *octet);
    let found = words.iter().fold(unsafe_octets(last), |found, word| found | unsafe_octets(*word));
    starts_safe && found == 0 && value.last() != Some(&b' ')
}

/// Not 0 when one of the octets is NUL, a line end, or not ASCII.
const fn unsafe_octets(word: [u8; 8]) -> u64 {
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGH
    }
    let word = u64::from_ne_bytes(word);
    let line_feeds = zeros(word ^ (ONES * b'\n' as u64));
    let returns = zeros(word ^ (ONES * b'\r' as u64));
    (word & HIGH) | zeros(word) | line_feeds | returns
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
