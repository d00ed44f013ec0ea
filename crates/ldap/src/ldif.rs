//! LDIF files (RFC 2849): records as values, a reader and a writer.
//!
//! A file holds either content records (entries) or change records, never both. Every error names
//! the line at which it was found, and a reader can go on with the next record after any of them.
//!
//! Accepted beyond the RFC: a missing version line, a byte order mark, raw UTF-8 or other octets in
//! values, keywords in any case, a missing last line end or last `-`, missing base64 padding, and
//! the change `increment` (RFC 4525). Refused: values given as a URL, because reading an LDIF file
//! must not read others.

mod blocks;
mod lines;
mod reader;
mod slice;
mod writer;

use std::fmt;

pub use blocks::{LDIF_BLOCK_BYTES, LdifBlock, LdifBlocks};
pub use reader::{LdifEntry, LdifReader};
pub use slice::SliceReader;
pub use writer::{LDIF_FOLD_COLUMNS, LdifWriter, is_safe_string, push_ldif_line};

use crate::message::ModifyOperation;

/// The longest line accepted, counted after its continuation lines were joined.
pub const LDIF_LINE_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The longest record accepted.
pub const LDIF_RECORD_MAX_BYTES: usize = 1024 * 1024 * 1024;
/// The most lines in one record; one line is one value.
pub const LDIF_RECORD_LINES_MAX: usize = 16 * 1024 * 1024;

/// Bounds the memory that reading one record may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LdifLimits {
    /// The longest line after unfolding, in bytes.
    pub line_length_max_bytes: usize,
    /// The longest record, in bytes.
    pub record_length_max_bytes: usize,
    /// The most lines in one record.
    pub record_lines_max: usize,
}

impl Default for LdifLimits {
    fn default() -> Self {
        Self {
            line_length_max_bytes: LDIF_LINE_MAX_BYTES,
            record_length_max_bytes: LDIF_RECORD_MAX_BYTES,
            record_lines_max: LDIF_RECORD_LINES_MAX,
        }
    }
}

/// One record of an LDIF file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LdifRecord {
    /// The line of its `dn:`, counted from 1.
    pub line: u64,
    /// The DN as written; valid UTF-8, not parsed yet.
    pub dn: String,
    /// The controls of a change record.
    pub controls: Vec<LdifControl>,
    /// What the record says about the entry.
    pub body: LdifBody,
}

/// A control to send with a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LdifControl {
    /// The control type.
    pub oid: String,
    /// Whether the change must fail where the control is unknown.
    pub critical: bool,
    /// The control value.
    pub value: Option<Vec<u8>>,
}

/// What a record says about its entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LdifBody {
    /// The entry's attributes in file order, one pair of description and value per value.
    Content(Vec<(String, Vec<u8>)>),
    /// A change to make.
    Change(LdifChange),
}

/// A change to make to an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LdifChange {
    /// Add the entry with these attributes, one pair per value.
    Add(Vec<(String, Vec<u8>)>),
    /// Delete the entry.
    Delete,
    /// Modify its attributes, in this order.
    Modify(Vec<LdifModification>),
    /// Rename or move the entry.
    ModifyDn {
        /// The new RDN as written.
        new_rdn: String,
        /// Whether the values of the old RDN leave the entry.
        delete_old_rdn: bool,
        /// The DN of the new parent, if it changes.
        new_superior: Option<String>,
    },
}

/// One modification of a change record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LdifModification {
    /// What to do with the values.
    pub operation: ModifyOperation,
    /// The attribute description.
    pub description: String,
    /// The values; none deletes or replaces all.
    pub values: Vec<Vec<u8>>,
}

/// Why an LDIF file cannot be read, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LdifError {
    /// The line at which the trouble was found, counted from 1.
    pub line: u64,
    /// What is wrong there.
    pub reason: LdifReason,
}

impl fmt::Display for LdifError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for LdifError {}

/// What is wrong with an LDIF file. Texts from the file are shortened excerpts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LdifReason {
    /// The source could not be read.
    Io(String),
    /// The file is in UTF-16.
    Utf16,
    /// A line is longer than the limit.
    LineTooLong {
        /// The limit.
        max_bytes: usize,
    },
    /// A record is longer than the limit.
    RecordTooLong {
        /// The limit.
        max_bytes: usize,
    },
    /// A record has more lines than the limit.
    TooManyLines {
        /// The limit.
        max: usize,
    },
    /// The version line names a version other than 1.
    BadVersion(String),
    /// A continuation line follows an empty line or begins the file.
    ContinuationWithoutLine,
    /// A line is neither `attribute: value` nor a comment.
    MissingColon,
    /// The text after `::` is not base64.
    BadBase64,
    /// A value is given as a URL.
    Url,
    /// A record does not begin with `dn:`.
    MissingDn(String),
    /// A second `dn:` stands in a record.
    SecondDn,
    /// A DN, an RDN or a keyword's value is not UTF-8.
    NotUtf8(&'static str),
    /// An attribute description has the wrong form.
    BadDescription(String),
    /// An entry has no attributes.
    NoAttributes,
    /// A `-` stands outside of a modify record.
    UnexpectedSeparator,
    /// A change record stands among entries, or where only entries may stand.
    ChangeAmongEntries,
    /// A record that must be an entry changes one.
    ChangeOfEntry(String),
    /// A record that is loaded as an entry has a critical control.
    ControlOfEntry,
    /// An entry stands among change records.
    EntryAmongChanges,
    /// A control line has the wrong form.
    BadControl,
    /// Controls are not followed by `changetype:`.
    MissingChangetype,
    /// The kind of change is unknown.
    UnknownChangetype(String),
    /// Another line must stand here.
    Expected {
        /// What must stand here.
        expected: String,
        /// What does.
        found: String,
    },
    /// The value of `deleteoldrdn:` is neither 0 nor 1.
    BadDeleteOldRdn,
}

impl fmt::Display for LdifReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read on: {error}"),
            Self::Utf16 => f.write_str("the file is in UTF-16: convert it to UTF-8"),
            Self::LineTooLong { max_bytes } => {
                write!(f, "the line is longer than {max_bytes} bytes")
            }
            Self::RecordTooLong { max_bytes } => {
                write!(f, "the record is longer than {max_bytes} bytes")
            }
            Self::TooManyLines { max } => write!(f, "the record has more lines than {max}"),
            Self::BadVersion(version) => {
                write!(f, "LDIF version '{version}' is unknown: only version 1 can be read")
            }
            Self::ContinuationWithoutLine => f.write_str(
                "the line begins with a space but there is no line before it to continue",
            ),
            Self::MissingColon => f.write_str(
                "':' is missing: write 'attribute: value', \
                 and begin the continuation of a long line with a space",
            ),
            Self::BadBase64 => f.write_str(
                "the text after '::' is not valid base64: \
                 it must be whole, filled up with '=' to a multiple of four characters",
            ),
            Self::Url => f.write_str(
                "values from a URL (':<') are not read: \
                 write the value itself, in base64 after '::' if it is not text",
            ),
            Self::MissingDn(found) => {
                write!(f, "a record must begin with 'dn:', but this one begins with '{found}'")
            }
            Self::SecondDn => f.write_str(
                "'dn:' stands inside a record: separate records by an empty line without spaces",
            ),
            Self::NotUtf8(what) => {
                write!(f, "the {what} is not valid UTF-8: convert the file to UTF-8")
            }
            Self::BadDescription(found) => write!(
                f,
                "'{found}' is not an attribute: \
                 it must be a name of letters, digits and hyphens or a dotted OID"
            ),
            Self::NoAttributes => f.write_str("the entry has no attributes"),
            Self::UnexpectedSeparator => {
                f.write_str("'-' has a meaning only after 'changetype: modify'")
            }
            Self::ChangeAmongEntries => f.write_str(
                "a change record stands where an entry is expected: \
                 entries and change records cannot be mixed",
            ),
            Self::ChangeOfEntry(found) => write!(
                f,
                "'changetype: {found}' changes what is there, and only entries can be read here: \
                 leave it out, or send the changes to a running server with ldapmodify"
            ),
            Self::ControlOfEntry => f.write_str(
                "a critical control asks for something that only a running server can do: leave \
                 the line out, or send the record to one",
            ),
            Self::EntryAmongChanges => {
                f.write_str("'changetype:' is missing: entries and change records cannot be mixed")
            }
            Self::BadControl => {
                f.write_str("write a control as 'control: OID', 'control: OID true: value'")
            }
            Self::MissingChangetype => {
                f.write_str("'changetype:' is missing after the control lines")
            }
            Self::UnknownChangetype(found) => write!(
                f,
                "changetype '{found}' is unknown: use add, delete, modify, modrdn or moddn"
            ),
            Self::Expected { expected, found } => {
                write!(f, "expected {expected}, found {found}")
            }
            Self::BadDeleteOldRdn => f.write_str("deleteoldrdn must be 0 or 1"),
        }
    }
}

/// Shortens text from a file so that a message stays readable.
fn excerpt(text: &[u8]) -> String {
    const EXCERPT_MAX_CHARS: usize = 40;
    let text = String::from_utf8_lossy(text.get(..4 * EXCERPT_MAX_CHARS).unwrap_or(text));
    text.chars().filter(|character| !character.is_control()).take(EXCERPT_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests;
