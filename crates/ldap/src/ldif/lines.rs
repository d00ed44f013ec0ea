//! The lines of an LDIF file: finds records, joins folded lines, drops comments, decodes base64.
//!
//! All of it happens in one buffer that is used again for each record, so reading a plain file
//! costs one search for line ends and one copy. Invariant: the ranges of `fields` lie in `text`.

use std::io::{self, BufRead};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memchr;

use super::{LdifError, LdifLimits, LdifReason, excerpt};

/// Reads the lines of one record at a time.
pub(super) struct LineReader<R> {
    source: R,
    limits: LdifLimits,
    /// The number of physical lines read.
    line: u64,
    /// Whether the end of the line read last was found; an error may leave a line half read.
    at_line_start: bool,
    /// Whether the end of the current record has not been read yet.
    in_record: bool,
    text: Vec<u8>,
    fields: Vec<FieldRange>,
    decoded: Vec<u8>,
}

/// Where the parts of a field lie: in the text of its record and, counted on from the end of it, in
/// what was copied.
#[derive(Debug)]
pub(super) struct FieldRange {
    pub(super) line: u64,
    pub(super) start: usize,
    pub(super) name_end: usize,
    pub(super) value_start: usize,
    pub(super) end: usize,
}

/// A line `name: value`, or the line `-`, whose name is empty.
#[derive(Clone, Copy)]
pub(super) struct Field<'r> {
    pub(super) line: u64,
    pub(super) name: &'r [u8],
    pub(super) value: &'r [u8],
}

/// The fields of one record, in file order.
#[derive(Clone)]
pub(super) struct Fields<'r> {
    text: &'r [u8],
    /// What does not lie in the text as it is meant: folded lines and decoded values.
    copied: &'r [u8],
    ranges: std::slice::Iter<'r, FieldRange>,
}

impl<'r> Fields<'r> {
    pub(super) fn new(text: &'r [u8], copied: &'r [u8], ranges: &'r [FieldRange]) -> Self {
        Self { text, copied, ranges: ranges.iter() }
    }

    /// A name or a value; each lies in one of the two as a whole.
    fn part(&self, start: usize, end: usize) -> &'r [u8] {
        let length = self.text.len();
        let part = match start.checked_sub(length) {
            None => self.text.get(start..end),
            Some(start) => self.copied.get(start..end - length),
        };
        part.unwrap_or_default()
    }
}

impl<'r> Iterator for Fields<'r> {
    type Item = Field<'r>;

    fn next(&mut self) -> Option<Field<'r>> {
        let range = self.ranges.next()?;
        Some(Field {
            line: range.line,
            name: self.part(range.start, range.name_end),
            value: self.part(range.value_start, range.end),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranges.size_hint()
    }
}

impl Field<'_> {
    pub(super) const fn is_separator(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether the field has this name, in any case.
    pub(super) const fn is(&self, keyword: &str) -> bool {
        self.name.eq_ignore_ascii_case(keyword.as_bytes())
    }
}

/// What one line is, its continuation lines included.
enum Line {
    Field,
    Comment,
    Empty,
    EndOfInput,
}

impl<R: BufRead> LineReader<R> {
    pub(super) const fn new(source: R, limits: LdifLimits) -> Self {
        Self {
            source,
            limits,
            line: 0,
            at_line_start: true,
            in_record: false,
            text: Vec::new(),
            fields: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// Loads the next record; false at the end of the file.
    pub(super) fn load(&mut self) -> Result<bool, LdifError> {
        self.skip()?;
        self.text.clear();
        self.fields.clear();
        self.in_record = true;
        loop {
            let start = self.text.len();
            let line = self.line + 1;
            match self.read_line()? {
                Line::Field => self.field(start, line)?,
                Line::Comment => self.text.truncate(start),
                Line::Empty if self.fields.is_empty() => {}
                Line::Empty | Line::EndOfInput => {
                    self.in_record = false;
                    return Ok(!self.fields.is_empty());
                }
            }
        }
    }

    /// Skips what is left of the current record, if an error ended the reading of it.
    pub(super) fn skip(&mut self) -> Result<(), LdifError> {
        while self.in_record {
            self.text.clear();
            let whole_line = self.at_line_start;
            match self.read_physical_line(0) {
                Ok(more) => self.in_record = more && !(whole_line && self.text.is_empty()),
                // What is skipped may be as long as it likes.
                Err(LdifError {
                    reason: LdifReason::LineTooLong { .. } | LdifReason::RecordTooLong { .. },
                    ..
                }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The fields of the record loaded last.
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields::new(&self.text, &[], &self.fields)
    }

    /// The number of the line read last.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// Appends one line, unfolded, to `text`.
    fn read_line(&mut self) -> Result<Line, LdifError> {
        let start = self.text.len();
        if !self.read_physical_line(start)? {
            return Ok(Line::EndOfInput);
        }
        if self.line == 1 {
            self.strip_byte_order_mark()?;
        }
        let kind = match self.text.get(start) {
            None => return Ok(Line::Empty),
            Some(b' ') => return Err(self.error(LdifReason::ContinuationWithoutLine)),
            Some(b'#') => Line::Comment,
            Some(_) => Line::Field,
        };
        while self.peek()? == Some(b' ') {
            self.source.consume(1);
            self.read_physical_line(start)?;
        }
        Ok(kind)
    }

    /// Appends what is left of a physical line to `text`, without its end; false if nothing is
    /// left. The line it belongs to began at `line_start`.
    fn read_physical_line(&mut self, line_start: usize) -> Result<bool, LdifError> {
        let start = self.text.len();
        let mut found = false;
        loop {
            let chunk = match self.source.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.error(LdifReason::Io(error.to_string()))),
            };
            let end = memchr(b'\n', chunk);
            let (content, _) = chunk.split_at(end.unwrap_or(chunk.len()));
            self.text.extend_from_slice(content);
            let length = content.len();
            found |= !chunk.is_empty();
            self.at_line_start = end.is_some() || chunk.is_empty();
            self.source.consume(length + usize::from(end.is_some()));
            self.line += u64::from(found && self.at_line_start);
            self.check_length(line_start)?;
            if self.at_line_start {
                break;
            }
        }
        if self.text.len() > start && self.text.ends_with(b"\r") {
            self.text.pop();
        }
        Ok(found)
    }

    fn check_length(&self, line_start: usize) -> Result<(), LdifError> {
        let LdifLimits { line_length_max_bytes, record_length_max_bytes, .. } = self.limits;
        let line = self.line + u64::from(!self.at_line_start);
        let error = |reason| LdifError { line, reason };
        if self.text.len() - line_start > line_length_max_bytes {
            return Err(error(LdifReason::LineTooLong { max_bytes: line_length_max_bytes }));
        }
        if self.text.len() > record_length_max_bytes {
            return Err(error(LdifReason::RecordTooLong { max_bytes: record_length_max_bytes }));
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>, LdifError> {
        loop {
            match self.source.fill_buf() {
                Ok(chunk) => return Ok(chunk.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(LdifReason::Io(error.to_string()))),
            }
        }
    }

    fn strip_byte_order_mark(&mut self) -> Result<(), LdifError> {
        if self.text.starts_with(b"\xFF\xFE") || self.text.starts_with(b"\xFE\xFF") {
            return Err(self.error(LdifReason::Utf16));
        }
        if self.text.starts_with(b"\xEF\xBB\xBF") {
            self.text.drain(..3);
        }
        Ok(())
    }

    /// Takes the line that begins at `start` apart; `line` is its number in the file.
    fn field(&mut self, start: usize, line: u64) -> Result<(), LdifError> {
        let error = |reason| LdifError { line, reason };
        let text = self.text.get(start..).unwrap_or_default();
        let count = self.fields.len();
        match Shape::of(text, count, &self.limits).map_err(error)? {
            Shape::Separator => {
                let end = start;
                let separator = FieldRange { line, start, name_end: start, value_start: end, end };
                self.fields.push(separator);
            }
            // It may stand before any record: files are joined by `cat`.
            Shape::Version => self.text.truncate(start),
            Shape::Field { name_length, value_offset, is_base64 } => {
                let value_start = start + value_offset;
                if is_base64 {
                    let encoded = self.text.get(value_start..).unwrap_or_default();
                    self.decoded.clear();
                    if !append_base64(encoded, &mut self.decoded) {
                        return Err(error(LdifReason::BadBase64));
                    }
                    self.text.truncate(value_start);
                    self.text.extend_from_slice(&self.decoded);
                }
                let (name_end, end) = (start + name_length, self.text.len());
                self.fields.push(FieldRange { line, start, name_end, value_start, end });
            }
        }
        Ok(())
    }

    const fn error(&self, reason: LdifReason) -> LdifError {
        LdifError { line: self.line, reason }
    }
}

/// What an unfolded line is, by its form.
pub(super) enum Shape {
    /// `-`.
    Separator,
    /// The version line, which says nothing more.
    Version,
    /// `name: value`.
    Field {
        name_length: usize,
        /// Where the value begins in the line.
        value_offset: usize,
        is_base64: bool,
    },
}

impl Shape {
    /// Finds the parts of a line; its record has `count` fields before it.
    pub(super) fn of(text: &[u8], count: usize, limits: &LdifLimits) -> Result<Self, LdifReason> {
        if count >= limits.record_lines_max {
            return Err(LdifReason::TooManyLines { max: limits.record_lines_max });
        }
        if text.first() == Some(&b'-') && text.trim_ascii_end() == b"-" {
            return Ok(Self::Separator);
        }
        let name_length = memchr(b':', text).ok_or(LdifReason::MissingColon)?;
        let (name, value) = text.split_at(name_length);
        if name.is_empty() {
            return Err(LdifReason::BadDescription(String::new()));
        }
        let marker_length = match value.get(1) {
            Some(b':') => 2,
            Some(b'<') => return Err(LdifReason::Url),
            _ => 1,
        };
        let spaces = value.iter().skip(marker_length).take_while(|byte| **byte == b' ').count();
        let value_offset = name_length + marker_length + spaces;
        if count == 0 && name.eq_ignore_ascii_case(b"version") {
            let version = text.get(value_offset..).unwrap_or_default().trim_ascii_end();
            if version != b"1" {
                return Err(LdifReason::BadVersion(excerpt(version)));
            }
            return Ok(Self::Version);
        }
        Ok(Self::Field { name_length, value_offset, is_base64: marker_length == 2 })
    }
}

/// Decodes base64 to the end of `out`; false if the text is not base64 with its padding (RFC 2849,
/// RFC 4648 §3.2): without, a value that was cut could pass for a whole one.
pub(super) fn append_base64(text: &[u8], out: &mut Vec<u8>) -> bool {
    STANDARD.decode_vec(text.trim_ascii_end(), out).is_ok()
}
