//! The lines of a log, one after the other, each of limited length.

use std::io::{self, BufRead, Read as _};

/// What reading a line came to.
pub(crate) enum NextLine {
    Line,
    TooLong,
    End,
}

/// Puts the next line without its end into `line`. Of one that is too long the rest is passed over.
pub(crate) fn next_line(octets: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<NextLine> {
    line.clear();
    let limit = LINE_BYTES_MAX + 1;
    let read = octets.by_ref().take(limit as u64).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(NextLine::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(NextLine::Line);
    }
    if read < limit {
        return Ok(NextLine::Line);
    }
    octets.skip_until(b'\n')?;
    Ok(NextLine::TooLong)
}

/// The longest line that is read.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;
