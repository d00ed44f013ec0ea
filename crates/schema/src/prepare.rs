//! String preparation (RFC 4518): two strings match when their prepared octets are equal.
//!
//! Invariants: what is prepared twice stays as it is; the octets of a prepared string hold no
//! control character; octet order is the order of code points. Pure ASCII, the usual case, is
//! mapped octet by octet; everything else goes through Unicode normalization form KC.
//!
//! Other than RFC 4518 §2.4 says, code points that Unicode 3.2 had not assigned are allowed: names
//! hold emoji and scripts that came later.

use stringprep::tables::{case_fold_for_nfkc, non_character_code_point, private_use};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Why a value cannot be prepared by a matching rule; an assertion of it is Undefined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Invalid(pub &'static str);

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Whether letters are folded (RFC 4518 §2.2, Appendix B).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Case {
    Exact,
    Ignore,
}

/// The place of a piece in a substring assertion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Position {
    /// The value starts with it.
    Initial,
    /// The value holds it somewhere after what is before it.
    Any,
    /// The value ends with it.
    Final,
}

/// How spaces are written (RFC 4518 §2.6.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spacing {
    /// None at the ends, one between words: as good as [`Spacing::Full`] for equality and order,
    /// and shorter in keys.
    Compact,
    /// One at each end, two between words: a value that substrings are looked for in.
    Full,
    /// A piece of a substring assertion.
    Piece(Position),
}

/// Prepares a text in which runs of spaces count as one and spaces at the ends do not count.
pub(crate) fn text(
    input: &[u8],
    case: Case,
    spacing: Spacing,
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    if spacing == Spacing::Compact && is_plain(input) {
        let start = out.len();
        out.extend_from_slice(input);
        if case == Case::Ignore {
            out.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
        }
        return Ok(());
    }
    out.reserve(input.len() + 2);
    let mut writer = SpaceWriter { start: out.len(), out, spacing, pending: false };
    if input.is_ascii() {
        for &byte in input {
            match map_ascii(byte, case) {
                Some(b' ') => writer.pending = true,
                Some(byte) => writer.write(&[byte]),
                None => {}
            }
        }
    } else {
        each_char(input, case, |char, before_mark| {
            if char == ' ' && !before_mark {
                writer.pending = true;
            } else {
                writer.write(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
        })?;
    }
    writer.finish();
    Ok(())
}

/// Prepares a numeric string: spaces do not count at all (RFC 4518 §2.6.2).
pub(crate) fn numeric(input: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    without(input, Case::Exact, |char| char == ' ', out)
}

/// Prepares a telephone number: spaces and hyphens do not count (RFC 4518 §2.6.3).
pub(crate) fn telephone(input: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let removed = |char| {
        matches!(
            char,
            ' ' | '-' | '\u{58A}' | '\u{2010}' | '\u{2011}' | '\u{2212}' | '\u{FE63}' | '\u{FF0D}'
        )
    };
    without(input, Case::Ignore, removed, out)
}

/// Writes a key for texts that sound alike: a code for each word, separated by spaces.
///
/// Letters that are often confused share a digit, vowels after the first letter are dropped, and
/// repeated codes count once (the Soundex classes, without its cut at four places).
pub(crate) fn phonetic(input: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let start = out.len();
    let (mut in_word, mut last) = (false, 0);
    each_decomposed(input, |char| {
        if !char.is_alphanumeric() {
            in_word = false;
            return;
        }
        let code = sound(char);
        if !in_word {
            if out.len() > start {
                out.push(b' ');
            }
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            match code {
                Sound::Class(class) if class != last => out.push(class),
                Sound::Class(_) | Sound::Silent => {}
                Sound::Itself => {
                    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        in_word = true;
        // `h` and `w` do not separate equal codes, vowels do.
        if !matches!(char, 'h' | 'w') {
            last = match code {
                Sound::Class(class) => class,
                Sound::Silent | Sound::Itself => 0,
            };
        }
    })
}

/// What a letter inside a word adds to its phonetic code.
#[derive(Clone, Copy)]
enum Sound {
    Class(u8),
    Silent,
    Itself,
}

fn sound(char: char) -> Sound {
    match char {
        'b' | 'f' | 'p' | 'v' => Sound::Class(b'1'),
        'c' | 'g' | 'j' | 'k' | 'q' | 's' | 'x' | 'z' | '\u{DF}' => Sound::Class(b'2'),
        'd' | 't' => Sound::Class(b'3'),
        'l' => Sound::Class(b'4'),
        'm' | 'n' => Sound::Class(b'5'),
        'r' => Sound::Class(b'6'),
        'a' | 'e' | 'i' | 'o' | 'u' | 'y' | 'h' | 'w' => Sound::Silent,
        _ => Sound::Itself,
    }
}

/// Whether preparing changes nothing but the case.
fn is_plain(input: &[u8]) -> bool {
    let mut after_space = true;
    for &byte in input {
        let is_space = byte == b' ';
        if (is_space && after_space) || !matches!(byte, 0x20..=0x7E) {
            return false;
        }
        after_space = is_space;
    }
    input.is_empty() || !after_space
}

/// Maps an ASCII character; none when it is mapped to nothing.
const fn map_ascii(byte: u8, case: Case) -> Option<u8> {
    match byte {
        b'\t'..=b'\r' => Some(b' '),
        0..=0x1F | 0x7F => None,
        b'A'..=b'Z' => Some(match case {
            Case::Exact => byte,
            Case::Ignore => byte.to_ascii_lowercase(),
        }),
        _ => Some(byte),
    }
}

/// Writes non-space characters with the spaces between them.
struct SpaceWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    spacing: Spacing,
    /// Spaces were read and not written yet.
    pending: bool,
}

impl SpaceWriter<'_> {
    fn write(&mut self, char: &[u8]) {
        let spaces: &[u8] = match (self.out.len() == self.start, self.spacing) {
            (true, Spacing::Compact) => b"",
            (true, Spacing::Full | Spacing::Piece(Position::Initial)) => b" ",
            (true, Spacing::Piece(Position::Any | Position::Final)) if self.pending => b" ",
            (false, Spacing::Compact) if self.pending => b" ",
            (false, Spacing::Full | Spacing::Piece(_)) if self.pending => b"  ",
            (true, Spacing::Piece(_)) | (false, _) => b"",
        };
        self.out.extend_from_slice(spaces);
        self.out.extend_from_slice(char);
        self.pending = false;
    }

    fn finish(self) {
        let spaces: &[u8] = match (self.out.len() == self.start, self.spacing) {
            (_, Spacing::Compact) => b"",
            (true, Spacing::Full) => b"  ",
            (true, Spacing::Piece(_)) => b" ",
            (false, Spacing::Full | Spacing::Piece(Position::Final)) => b" ",
            (false, Spacing::Piece(_)) if self.pending => b" ",
            (false, Spacing::Piece(_)) => b"",
        };
        self.out.extend_from_slice(spaces);
    }
}

fn without(
    input: &[u8],
    case: Case,
    removed: impl Fn(char) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    out.reserve(input.len());
    if input.is_ascii() {
        let mapped = input.iter().filter_map(|&byte| map_ascii(byte, case));
        out.extend(mapped.filter(|&byte| !removed(byte.into())));
        return Ok(());
    }
    each_char(input, case, |char, _| {
        if !removed(char) {
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
    })
}

/// Maps, normalizes and checks (RFC 4518 §2.1–2.4); calls `visit` with each character and whether
/// a combining mark follows it.
fn each_char(input: &[u8], case: Case, visit: impl FnMut(char, bool)) -> Result<(), Invalid> {
    let mapped = mapped(input)?;
    match case {
        Case::Exact => each_allowed(mapped.nfkc(), visit),
        // Folded again after normalization: characters newer than the folding table may
        // normalize to letters that fold.
        Case::Ignore => {
            let folded = mapped.flat_map(case_fold_for_nfkc).nfkc();
            each_allowed(folded.flat_map(case_fold_for_nfkc).nfkc(), visit)
        }
    }
}

fn each_allowed(
    chars: impl Iterator<Item = char>,
    mut visit: impl FnMut(char, bool),
) -> Result<(), Invalid> {
    let mut chars = chars.peekable();
    if chars.peek().is_some_and(|&first| is_combining_mark(first)) {
        return Err(Invalid("starts with a combining character"));
    }
    while let Some(char) = chars.next() {
        if is_prohibited(char) {
            return Err(Invalid("holds a character that matching prohibits"));
        }
        visit(char, chars.peek().is_some_and(|&next| is_combining_mark(next)));
    }
    Ok(())
}

/// Calls `visit` with each character, folded and without its accents.
fn each_decomposed(input: &[u8], mut visit: impl FnMut(char)) -> Result<(), Invalid> {
    let folded = mapped(input)?.flat_map(case_fold_for_nfkc).nfkd();
    for char in folded.flat_map(case_fold_for_nfkc) {
        if !is_combining_mark(char) {
            visit(char);
        }
    }
    Ok(())
}

fn mapped(input: &[u8]) -> Result<impl Iterator<Item = char> + '_, Invalid> {
    let text = std::str::from_utf8(input).map_err(|_| Invalid("is not UTF-8"))?;
    let kept = text.chars().filter(|&char| !is_mapped_to_nothing(char));
    Ok(kept.map(|char| if is_mapped_to_space(char) { ' ' } else { char }))
}

/// RFC 4518 §2.2, first three paragraphs.
const fn is_mapped_to_nothing(char: char) -> bool {
    matches!(char,
        '\0'..='\u{8}'
        | '\u{E}'..='\u{1F}'
        | '\u{7F}'..='\u{84}'
        | '\u{86}'..='\u{9F}'
        | '\u{AD}'
        | '\u{34F}'
        | '\u{6DD}'
        | '\u{70F}'
        | '\u{1806}'
        | '\u{180B}'..='\u{180E}'
        | '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2063}'
        | '\u{206A}'..='\u{206F}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFF9}'..='\u{FFFC}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0001}'
        | '\u{E0020}'..='\u{E007F}')
}

/// RFC 4518 §2.2, fourth paragraph: controls that separate, and the Unicode separators.
const fn is_mapped_to_space(char: char) -> bool {
    matches!(char,
        '\t'..='\r'
        | '\u{20}'
        | '\u{85}'
        | '\u{A0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200A}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}')
}

/// RFC 4518 §2.4, without unassigned code points (see the head of this file).
fn is_prohibited(char: char) -> bool {
    // Table C.8 of RFC 3454 is mapped to nothing or normalized away before.
    char == '\u{FFFD}' || private_use(char) || non_character_code_point(char)
}
