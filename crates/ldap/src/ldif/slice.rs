//! Reads the entries of a block without copying what stands in it as it is meant.
//!
//! Invariant: a slice reader finds in the blocks of a file what [`super::LdifReader`] finds in the
//! file: the same entries and the same errors, with the same lines (the fuzz target `ldif_blocks`).

use memchr::memchr;

use super::lines::{FieldRange, Fields, Shape, append_base64};
use super::reader::LdifEntry;
use super::{LdifBlock, LdifError, LdifLimits, LdifReason};

/// Reads the entries of a block; each borrows from the block and from the reader.
///
/// After an error, the next call goes on with the next record.
#[derive(Debug)]
pub struct SliceReader<'b> {
    text: &'b [u8],
    limits: LdifLimits,
    /// Where the next line begins.
    at: usize,
    /// The number of lines before it, in the file.
    line: u64,
    /// Where the text of the record begins.
    record_start: usize,
    /// Whether the end of the current record has not been read yet.
    in_record: bool,
    /// The octets that the fields of the record take, for the limit.
    record_bytes: usize,
    fields: Vec<FieldRange>,
    copied: Vec<u8>,
    /// A folded value in base64, while it is decoded.
    decoded: Vec<u8>,
}

/// What one line is, its continuation lines included.
enum Line {
    /// Where it lies, as in [`FieldRange`].
    Field {
        start: usize,
        end: usize,
    },
    Comment,
    Empty,
    EndOfInput,
}

impl<'b> SliceReader<'b> {
    /// Reads `block`.
    #[must_use]
    pub fn new(block: &'b LdifBlock, limits: LdifLimits) -> Self {
        Self {
            text: &block.text,
            limits,
            at: 0,
            line: block.first_line.saturating_sub(1),
            record_start: 0,
            in_record: false,
            record_bytes: 0,
            fields: Vec::new(),
            copied: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// Reads the next entry; none at the end of the block.
    pub fn next_entry(&mut self) -> Result<Option<LdifEntry<'_>>, LdifError> {
        if !self.load()? {
            return Ok(None);
        }
        LdifEntry::of(Fields::new(self.text, &self.copied, &self.fields)).map(Some)
    }

    /// Where the record read last lies in the block, with the comments before it.
    ///
    /// Of one that an error ended it is all of it only after [`Self::skip_record`].
    #[must_use]
    pub const fn record_range(&self) -> std::ops::Range<usize> {
        self.record_start..self.at
    }

    /// Skips what an error left unread of a record.
    pub fn skip_record(&mut self) {
        while self.in_record {
            match self.next_line() {
                Some(line) => self.in_record = !line.is_empty(),
                None => self.in_record = false,
            }
        }
    }

    /// Loads the fields of the next record; false at the end.
    fn load(&mut self) -> Result<bool, LdifError> {
        self.skip_record();
        self.fields.clear();
        self.copied.clear();
        self.record_bytes = 0;
        self.record_start = self.at;
        self.in_record = true;
        loop {
            let line = self.line + 1;
            match self.read_line()? {
                Line::Field { start, end } => self.field(start, end, line)?,
                Line::Comment => {}
                Line::Empty if self.fields.is_empty() => self.record_start = self.at,
                Line::Empty | Line::EndOfInput => {
                    self.in_record = false;
                    return Ok(!self.fields.is_empty());
                }
            }
        }
    }

    /// The next physical line without its end.
    fn next_line(&mut self) -> Option<&'b [u8]> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let line = match memchr(b'\n', rest) {
            Some(end) => {
                self.at += end + 1;
                rest.get(..end).unwrap_or_default()
            }
            None => {
                self.at = self.text.len();
                rest
            }
        };
        self.line += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn read_line(&mut self) -> Result<Line, LdifError> {
        let mut start = self.at;
        let Some(mut line) = self.next_line() else { return Ok(Line::EndOfInput) };
        self.check_length(line.len())?;
        if self.line == 1 {
            if line.starts_with(b"\xFF\xFE") || line.starts_with(b"\xFE\xFF") {
                return Err(self.error(LdifReason::Utf16));
            }
            if let Some(stripped) = line.strip_prefix(b"\xEF\xBB\xBF") {
                line = stripped;
                start += 3;
            }
        }
        let is_comment = match line.first() {
            None => return Ok(Line::Empty),
            Some(b' ') => return Err(self.error(LdifReason::ContinuationWithoutLine)),
            Some(first) => *first == b'#',
        };
        if self.text.get(self.at) != Some(&b' ') {
            let end = start + line.len();
            return Ok(if is_comment { Line::Comment } else { Line::Field { start, end } });
        }
        let before = self.copied.len();
        self.copied.extend_from_slice(line);
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
            // After the space there may be nothing at all.
            let line = self.next_line().unwrap_or_default();
            self.copied.extend_from_slice(line);
            self.check_length(self.copied.len() - before)?;
        }
        if is_comment {
            self.copied.truncate(before);
            return Ok(Line::Comment);
        }
        let end = self.text.len() + self.copied.len();
        Ok(Line::Field { start: self.text.len() + before, end })
    }

    fn check_length(&self, line_bytes: usize) -> Result<(), LdifError> {
        let LdifLimits { line_length_max_bytes, record_length_max_bytes, .. } = self.limits;
        if line_bytes > line_length_max_bytes {
            return Err(self.error(LdifReason::LineTooLong { max_bytes: line_length_max_bytes }));
        }
        if self.record_bytes + line_bytes > record_length_max_bytes {
            let max_bytes = record_length_max_bytes;
            return Err(self.error(LdifReason::RecordTooLong { max_bytes }));
        }
        Ok(())
    }

    /// Takes the line that lies at `start` to `end` apart; `line` is its number in the file.
    fn field(&mut self, start: usize, end: usize, line: u64) -> Result<(), LdifError> {
        let error = |reason| LdifError { line, reason };
        let length = self.text.len();
        let folded_start = start.checked_sub(length);
        let text = match folded_start {
            None => self.text.get(start..end),
            Some(start) => self.copied.get(start..),
        };
        let text = text.unwrap_or_default();
        match Shape::of(text, self.fields.len(), &self.limits).map_err(error)? {
            Shape::Separator => {
                let (name_end, value_start, end) = (start, start, start);
                self.fields.push(FieldRange { line, start, name_end, value_start, end });
            }
            Shape::Version => {}
            Shape::Field { name_length, value_offset, is_base64: false } => {
                self.record_bytes += text.len();
                let (name_end, value_start) = (start + name_length, start + value_offset);
                self.fields.push(FieldRange { line, start, name_end, value_start, end });
            }
            Shape::Field { name_length, value_offset, is_base64: true } => {
                let encoded = text.get(value_offset..).unwrap_or_default();
                self.decoded.clear();
                if !append_base64(encoded, &mut self.decoded) {
                    return Err(error(LdifReason::BadBase64));
                }
                if let Some(start) = folded_start {
                    self.copied.truncate(start + value_offset);
                }
                let value_start = length + self.copied.len();
                self.copied.extend_from_slice(&self.decoded);
                self.record_bytes += value_offset + self.decoded.len();
                let (name_end, end) = (start + name_length, length + self.copied.len());
                self.fields.push(FieldRange { line, start, name_end, value_start, end });
            }
        }
        Ok(())
    }

    const fn error(&self, reason: LdifReason) -> LdifError {
        LdifError { line: self.line, reason }
    }
}
