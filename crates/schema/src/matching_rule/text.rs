//! Rules for texts: strings, numbers written as text, postal addresses, words.

use crate::prepare::{self, Case, Invalid, Position, Spacing};
use crate::schema::Schema;
use crate::syntax;

pub(super) fn ignore(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    prepare::text(value, Case::Ignore, Spacing::Compact, out)
}

pub(super) fn ignore_full(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    prepare::text(value, Case::Ignore, Spacing::Full, out)
}

pub(super) fn ignore_piece(
    position: Position,
    piece: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    prepare::text(piece, Case::Ignore, Spacing::Piece(position), out)
}

pub(super) fn exact(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    prepare::text(value, Case::Exact, Spacing::Compact, out)
}

pub(super) fn exact_full(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    prepare::text(value, Case::Exact, Spacing::Full, out)
}

pub(super) fn exact_piece(
    position: Position,
    piece: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    prepare::text(piece, Case::Exact, Spacing::Piece(position), out)
}

pub(super) fn ignore_ia5(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    ignore(schema, ascii(value)?, out)
}

pub(super) fn ignore_ia5_full(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    ignore_full(schema, ascii(value)?, out)
}

pub(super) fn ignore_ia5_piece(
    position: Position,
    piece: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    ignore_piece(position, ascii(piece)?, out)
}

pub(super) fn exact_ia5(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    exact(schema, ascii(value)?, out)
}

pub(super) fn exact_ia5_full(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    exact_full(schema, ascii(value)?, out)
}

pub(super) fn exact_ia5_piece(
    position: Position,
    piece: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    exact_piece(position, ascii(piece)?, out)
}

pub(super) fn numeric(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    prepare::numeric(value, out)
}

/// Pieces are of the syntax that assertions of equality have (RFC 4511 §4.5.1.7.2).
pub(super) fn numeric_piece(_: Position, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    syntax::text::numeric(piece).map_err(Invalid)?;
    prepare::numeric(piece, out)
}

pub(super) fn telephone(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    prepare::telephone(value, out)
}

pub(super) fn telephone_piece(_: Position, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    syntax::text::telephone(piece).map_err(Invalid)?;
    prepare::telephone(piece, out)
}

pub(super) fn phonetic(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    prepare::phonetic(value, out)
}

/// The lines of a list, joined by an octet that no prepared line holds: so two lists are equal when
/// all their lines are, and no piece of a substring assertion can match across lines.
pub(super) fn ignore_list(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    list(value, Spacing::Compact, out)
}

pub(super) fn ignore_list_full(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    list(value, Spacing::Full, out)
}

fn list(value: &[u8], spacing: Spacing, out: &mut Vec<u8>) -> Result<(), Invalid> {
    for (position, line) in split_lines(value).enumerate() {
        if position > 0 {
            out.push(LINE_END);
        }
        match unescape_line(line)? {
            Some(line) => prepare::text(&line, Case::Ignore, spacing, out)?,
            None => prepare::text(line, Case::Ignore, spacing, out)?,
        }
    }
    Ok(())
}

/// The lines of a postal address, still escaped (RFC 4517 §3.3.28).
pub(crate) fn split_lines(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b'$')
}

/// Replaces `\24` and `\5C`; none if there is nothing to replace.
fn unescape_line(line: &[u8]) -> Result<Option<Vec<u8>>, Invalid> {
    if !line.contains(&b'\\') {
        return Ok(None);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let (escaped, after) = match after {
            [b'2', b'4', after @ ..] => (b'$', after),
            [b'5', b'C' | b'c', after @ ..] => (b'\\', after),
            _ => return Err(Invalid("has a backslash that escapes neither '$' nor '\\'")),
        };
        plain.push(escaped);
        rest = after;
    }
    Ok(Some(plain))
}

/// The words of a text, each once prepared, separated by single spaces.
pub(super) fn words(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let start = out.len();
    ignore(schema, value, out)?;
    // Punctuation separates words too; octets of other scripts stay.
    let prepared = out.get_mut(start..).unwrap_or_default();
    for byte in prepared.iter_mut() {
        if byte.is_ascii_punctuation() {
            *byte = b' ';
        }
    }
    Ok(())
}

/// One word, to be found among [`words`].
pub(super) fn word(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let start = out.len();
    ignore(schema, value, out)?;
    let prepared = out.get(start..).unwrap_or_default();
    let is_separator = |byte: &u8| *byte == b' ' || byte.is_ascii_punctuation();
    if prepared.is_empty() || prepared.iter().any(is_separator) {
        return Err(Invalid("is not a single word"));
    }
    Ok(())
}

fn ascii(value: &[u8]) -> Result<&[u8], Invalid> {
    if value.is_ascii() { Ok(value) } else { Err(Invalid("holds a character outside of IA5")) }
}

const LINE_END: u8 = 0;
