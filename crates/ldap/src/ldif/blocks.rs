//! Cuts LDIF into blocks of whole records, which threads can read on their own.
//!
//! A record ends at an empty line, whatever stands before it: that is all a cutter has to know.
//! Invariants: a block ends where a record does, so that what its records say, with their lines, is
//! what one reader of the whole file finds; of a record that is longer than the limit, no more than
//! twice the limit and two blocks are ever in memory.

use std::io::Read;

use memchr::{memchr_iter, memmem, memrchr};

use super::{LdifError, LdifLimits, LdifReason};

/// The size of a block, unless a record is longer.
pub const LDIF_BLOCK_BYTES: usize = 1 << 20;

/// A piece of a file that holds whole records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LdifBlock {
    /// The number of its first line in the file, from 1.
    pub first_line: u64,
    /// Its text.
    pub text: Vec<u8>,
    /// It holds no more records than this.
    pub record_count_max: u64,
}

/// Reads a file block by block.
#[derive(Debug)]
pub struct LdifBlocks<R> {
    source: R,
    limits: LdifLimits,
    block_bytes: usize,
    /// Read, and not in a block yet.
    rest: Vec<u8>,
    /// The number of lines before `rest`.
    line: u64,
    /// Whether the rest of a record that is too long is still to come.
    is_skipping: bool,
    is_at_end: bool,
}

impl<R: Read> LdifBlocks<R> {
    /// Cuts `source`, which needs no buffer, into blocks of about `block_bytes`.
    pub const fn new(source: R, block_bytes: usize, limits: LdifLimits) -> Self {
        Self {
            source,
            limits,
            block_bytes,
            rest: Vec::new(),
            line: 0,
            is_skipping: false,
            is_at_end: false,
        }
    }

    /// Reads the next block; none at the end of the file.
    ///
    /// # Errors
    /// [`LdifReason::RecordTooLong`], after which the next block begins behind that record; any
    /// other ends the reading.
    pub fn next_block(&mut self) -> Result<Option<LdifBlock>, LdifError> {
        if self.is_skipping {
            self.skip()?;
        }
        let mut text = std::mem::take(&mut self.rest);
        let mut searched = 0;
        loop {
            let is_start = self.line == 0 && searched == 0;
            if !self.is_at_end {
                self.read(&mut text)?;
            }
            if is_start && (text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF")) {
                self.is_at_end = true;
                return Err(LdifError { line: 1, reason: LdifReason::Utf16 });
            }
            if self.is_at_end {
                return Ok((!text.is_empty()).then(|| self.block(text)));
            }
            if let Some(border) = last_border(&text, searched) {
                self.rest = text.get(border..).unwrap_or_default().to_vec();
                text.truncate(border);
                return Ok(Some(self.block(text)));
            }
            let max_bytes = self.limits.record_length_max_bytes;
            if text.len() > max_bytes {
                let line = self.line + 1;
                self.rest = text;
                self.is_skipping = true;
                return Err(LdifError { line, reason: LdifReason::RecordTooLong { max_bytes } });
            }
            // A border may begin in what was searched.
            searched = text.len().saturating_sub(BORDER_BYTES_MAX - 1);
        }
    }

    /// Reads up to a block more.
    fn read(&mut self, text: &mut Vec<u8>) -> Result<(), LdifError> {
        // What is longer than a block grows by its half, so that it is not copied again and again.
        let wanted = self.block_bytes.max(text.len() / 2);
        text.reserve(wanted);
        match self.source.by_ref().take(wanted as u64).read_to_end(text) {
            Ok(read) => self.is_at_end = read < wanted,
            Err(error) => {
                self.is_at_end = true;
                let line = self.line + line_ends(text) + 1;
                return Err(LdifError { line, reason: LdifReason::Io(error.to_string()) });
            }
        }
        Ok(())
    }

    /// Skips what is left of a record that is too long.
    fn skip(&mut self) -> Result<(), LdifError> {
        let mut text = std::mem::take(&mut self.rest);
        let border = loop {
            if let Some(border) = first_border(&text) {
                break border;
            }
            if self.is_at_end {
                break text.len();
            }
            let gone = text.len().saturating_sub(BORDER_BYTES_MAX - 1);
            self.line += line_ends(text.get(..gone).unwrap_or_default());
            text.drain(..gone);
            self.read(&mut text)?;
        };
        self.line += line_ends(text.get(..border).unwrap_or_default());
        text.drain(..border);
        self.rest = text;
        self.is_skipping = false;
        Ok(())
    }

    fn block(&mut self, text: Vec<u8>) -> LdifBlock {
        let first_line = self.line + 1;
        let (lines, paragraphs) = lines_and_paragraphs(&text, &self.limits);
        self.line += lines;
        LdifBlock { first_line, text, record_count_max: paragraphs }
    }
}

/// The end of the last empty line that ends at or behind `from`.
fn last_border(text: &[u8], from: usize) -> Option<usize> {
    let mut end = text.len();
    loop {
        let line_end = memrchr(b'\n', text.get(from..end)?)? + from;
        if matches!(text.get(..line_end), Some([.., b'\n'] | [.., b'\n', b'\r'])) {
            return Some(line_end + 1);
        }
        end = line_end;
    }
}

fn line_ends(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}

/// How many line ends there are, and how many paragraphs between empty lines may be records: one
/// that says nothing, however long the file goes on with such, is none.
fn lines_and_paragraphs(text: &[u8], limits: &LdifLimits) -> (u64, u64) {
    let (mut lines, mut paragraphs, mut start, mut paragraph_start) = (0, 0, 0, 0);
    let (mut is_counted, mut in_comment) = (false, false);
    for end in memchr_iter(b'\n', text).chain([text.len()]) {
        let line = text.get(start..end).unwrap_or_default();
        start = end + 1;
        lines += 1;
        let is_record = match line {
            [] | [b'\r'] => {
                (is_counted, in_comment, paragraph_start) = (false, false, start);
                continue;
            }
            [b' ', ..] if in_comment => false,
            [b'#', ..] => {
                in_comment = true;
                false
            }
            _ => true,
        };
        // A comment that is too long is an error, and this is told of a record.
        let is_long = end - paragraph_start > limits.line_length_max_bytes;
        if !is_counted && (is_record || is_long) {
            paragraphs += 1;
            is_counted = true;
        }
    }
    // What stands behind the last line end is no line more.
    (lines - 1, paragraphs)
}

/// The end of the first empty line.
fn first_border(text: &[u8]) -> Option<usize> {
    let plain = memmem::find(text, b"\n\n").map(|at| at + 2);
    let with_return = memmem::find(text, b"\n\r\n").map(|at| at + 3);
    plain.into_iter().chain(with_return).min()
}

/// The longest form of a line end and an empty line.
const BORDER_BYTES_MAX: usize = 3;

#[cfg(test)]
mod tests;
