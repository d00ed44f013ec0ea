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
    if matches!(spacing, Spacing::Compact | Spacing::Full) && is_plain(input) {
        plain_text(input, case, spacing, out);
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

/// Writes a plain text, which is most texts, without asking for each octet what it is.
fn plain_text(input: &[u8], case: Case, spacing: Spacing, out: &mut Vec<u8>) {
    let start = out.len();
    if spacing == Spacing::Full {
        out.push(b' ');
        for (position, word) in input.split(|&octet| octet == b' ').enumerate() {
            if position > 0 {
                out.extend_from_slice(b"  ");
            }
            out.extend_from_slice(word);
        }
        out.push(b' ');
    } else {
        out.extend_from_slice(input);
    }
    if case == Case::Ignore {
        out.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
    }
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

/// Whether preparing changes nothing but the case, and the number of spaces.
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
    each_char(input, case, |char, before_mark| {
        // With a combining mark it is another character.
        if before_mark || !removed(char) {
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
    })
}

/// Maps, normalizes and checks (RFC 4518 §2.1–2.4); calls `visit` with each character and whether
/// a combining mark follows it.
fn each_char(input: &[u8], case: Case, visit: impl FnMut(char, bool)) -> Result<(), Invalid> {
    let mapped = mapped(input)?;
    let mut room = Room::for_prepared(input);
    let mut visit = visit;
    let visit = |char, before_mark| {
        visit(char, before_mark);
        room.take(char)
    };
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
    mut visit: impl FnMut(char, bool) -> Result<(), Invalid>,
) -> Result<(), Invalid> {
    let mut chars = chars.peekable();
    if chars.peek().is_some_and(|&first| is_combining_mark(first)) {
        return Err(Invalid("starts with a combining character"));
    }
    while let Some(char) = chars.next() {
        if is_prohibited(char) {
            return Err(Invalid("holds a character that matching prohibits"));
        }
        visit(char, chars.peek().is_some_and(|&next| is_combining_mark(next)))?;
    }
    Ok(())
}

/// Calls `visit` with each character, folded and without its accents.
fn each_decomposed(input: &[u8], mut visit: impl FnMut(char)) -> Result<(), Invalid> {
    let folded = mapped(input)?.flat_map(case_fold_for_nfkc).nfkd();
    let mut room = Room::for_prepared(input);
    for char in folded.flat_map(case_fold_for_nfkc) {
        room.take(char)?;
        if !is_combining_mark(char) {
            visit(char);
        }
    }
    Ok(())
}

/// How much a text may still grow while it is prepared. One character may become eighteen
/// (U+FDFA): a text of nothing else would take eighteen times as long as any other.
struct Room {
    left_bytes: usize,
}

impl Room {
    fn for_prepared(input: &[u8]) -> Self {
        Self { left_bytes: input.len().saturating_mul(GROWTH_MAX).max(GROWN_ALWAYS_BYTES) }
    }

    fn take(&mut self, char: char) -> Result<(), Invalid> {
        self.left_bytes = self
            .left_bytes
            .checked_sub(char.len_utf8())
            .ok_or(Invalid("grows more than fourfold when it is prepared for matching"))?;
        Ok(())
    }
}

/// How many times as long a prepared text may be; texts of some language do not grow by half.
const GROWTH_MAX: usize = 4;
/// As long as this any prepared text may be, in bytes.
const GROWN_ALWAYS_BYTES: usize = 4_096;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prepared(input: &str, case: Case, spacing: Spacing) -> Result<String, Invalid> {
        let mut out = Vec::new();
        text(input.as_bytes(), case, spacing, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[track_caller]
    fn check(input: &str, spacing: Spacing, expected: &str) {
        assert_eq!(prepared(input, Case::Exact, spacing).as_deref(), Ok(expected), "{input:?}");
    }

    #[track_caller]
    fn check_folded(input: &str, expected: &str) {
        let folded = prepared(input, Case::Ignore, Spacing::Compact);
        assert_eq!(folded.as_deref(), Ok(expected), "{input:?}");
    }

    #[track_caller]
    fn check_prohibited(input: &str) {
        for case in [Case::Exact, Case::Ignore] {
            assert!(prepared(input, case, Spacing::Compact).is_err(), "{input:?}");
        }
    }

    const INITIAL: Spacing = Spacing::Piece(Position::Initial);
    const ANY: Spacing = Spacing::Piece(Position::Any);
    const FINAL: Spacing = Spacing::Piece(Position::Final);

    // The examples of RFC 4518 §2.6.1.
    #[test]
    fn spaces_of_a_value_are_one_at_the_ends_and_two_between_words() {
        check("foo bar  ", Spacing::Full, " foo  bar ");
        check("foo bar  ", INITIAL, " foo  bar ");
        check("foo bar  ", ANY, "foo  bar ");
        check("foo bar  ", FINAL, "foo  bar ");
        check("", Spacing::Full, "  ");
        check("   ", Spacing::Full, "  ");
        check("a", Spacing::Full, " a ");
        check("  a   b  ", Spacing::Full, " a  b ");
    }

    #[test]
    fn spaces_at_the_ends_of_a_piece_count_once() {
        check("foo", INITIAL, " foo");
        check("  foo  ", INITIAL, " foo ");
        check("foo", ANY, "foo");
        check("  foo  ", ANY, " foo ");
        check("  foo", ANY, " foo");
        check("foo", FINAL, "foo ");
        check("  foo", FINAL, " foo ");
        check(" a  b", ANY, " a  b");
    }

    #[test]
    fn a_piece_of_spaces_is_one_space() {
        for piece in [INITIAL, ANY, FINAL] {
            check(" ", piece, " ");
            check("     ", piece, " ");
            check("\t\n", piece, " ");
            check("\u{A0}", piece, " ");
            check("", piece, " ");
        }
    }

    #[test]
    fn compact_values_have_no_spaces_at_the_ends_and_one_between_words() {
        check("foo", Spacing::Compact, "foo");
        check("foo bar", Spacing::Compact, "foo bar");
        check("  foo \t bar  ", Spacing::Compact, "foo bar");
        check("", Spacing::Compact, "");
        check("    ", Spacing::Compact, "");
        check(" x", Spacing::Compact, "x");
        check("x ", Spacing::Compact, "x");
        check("a  b", Spacing::Compact, "a b");
        check("gr\u{FC}n  wei\u{DF} ", Spacing::Compact, "gr\u{FC}n wei\u{DF}");
    }

    #[test]
    fn controls_and_invisible_characters_are_mapped_to_nothing() {
        check("a\0b", Spacing::Compact, "ab");
        check("a\u{7F}b", Spacing::Compact, "ab");
        check("a\u{1F}\u{8}b", Spacing::Compact, "ab");
        check("soft\u{AD}hyphen", Spacing::Compact, "softhyphen");
        check("zero\u{200B}width", Spacing::Compact, "zerowidth");
        check("joi\u{200D}ner", Spacing::Compact, "joiner");
        check("\u{FEFF}bom", Spacing::Compact, "bom");
        check("object\u{FFFC}", Spacing::Compact, "object");
        check("heart\u{2764}\u{FE0F}", Spacing::Compact, "heart\u{2764}");
        check("word\u{2060}joiner", Spacing::Compact, "wordjoiner");
        check("tag\u{E0041}", Spacing::Compact, "tag");
        check("\u{AD}", Spacing::Full, "  ");
    }

    #[test]
    fn separators_are_mapped_to_space() {
        for space in [
            "\t", "\n", "\u{B}", "\u{C}", "\r", "\u{85}", "\u{A0}", "\u{1680}", "\u{2003}",
            "\u{2028}", "\u{2029}", "\u{202F}", "\u{205F}", "\u{3000}",
        ] {
            check(&format!("a{space}b"), Spacing::Compact, "a b");
            check(&format!("{space}a{space}{space}"), Spacing::Full, " a ");
        }
    }

    #[test]
    fn case_is_folded_beyond_ascii() {
        check_folded("Hello World", "hello world");
        check_folded("GR\u{DC}N", "gr\u{FC}n");
        check_folded("Stra\u{DF}e", "strasse");
        check_folded("STRASSE", "strasse");
        check_folded("\u{3A3}\u{3AF}\u{3C2}", "\u{3C3}\u{3AF}\u{3C3}");
        check_folded("\u{41C}\u{418}\u{420}", "\u{43C}\u{438}\u{440}");
        check_folded("\u{130}", "i\u{307}");
        check_folded("\u{1F130}", "a");
        check("Hello", Spacing::Compact, "Hello");
    }

    #[test]
    fn compatible_characters_are_the_same() {
        check("\u{FB01}le", Spacing::Compact, "file");
        check("\u{FF21}\u{FF22}", Spacing::Compact, "AB");
        check("e\u{301}", Spacing::Compact, "\u{E9}");
        check("\u{212B}", Spacing::Compact, "\u{C5}");
        check("\u{2460}", Spacing::Compact, "1");
        check("\u{BD}", Spacing::Compact, "1\u{2044}2");
        check("\u{1100}\u{1161}", Spacing::Compact, "\u{AC00}");
        check_folded("\u{FF21}\u{301}", "\u{E1}");
    }

    #[test]
    fn a_space_that_carries_a_mark_is_no_space() {
        check("a \u{301} b", Spacing::Compact, "a \u{301} b");
        check("\u{A8}", Spacing::Compact, " \u{308}");
        check("\u{A8}", Spacing::Full, "  \u{308} ");
    }

    #[test]
    fn some_characters_are_prohibited() {
        check_prohibited("a\u{E000}");
        check_prohibited("a\u{FFFD}");
        check_prohibited("a\u{FDD0}");
        check_prohibited("a\u{1FFFF}");
        check_prohibited("\u{10FFFD}");
        check_prohibited("\u{301}a");
    }

    #[test]
    fn newer_characters_are_allowed() {
        check("\u{1F600}", Spacing::Compact, "\u{1F600}");
        check("\u{1F9D1}\u{200D}\u{1F4BB} x", Spacing::Compact, "\u{1F9D1}\u{1F4BB} x");
    }

    #[test]
    fn octets_that_are_not_utf_8_are_refused() {
        for input in [&b"\xFF"[..], b"a\xC3", b"\xED\xA0\x80", b"\xC0\x80", b"\xF4\x90\x80\x80"] {
            let mut out = Vec::new();
            assert!(text(input, Case::Ignore, Spacing::Compact, &mut out).is_err());
            assert!(numeric(input, &mut out).is_err());
            assert!(telephone(input, &mut out).is_err());
            assert!(phonetic(input, &mut out).is_err());
        }
    }

    #[track_caller]
    fn check_with(
        prepare: fn(&[u8], &mut Vec<u8>) -> Result<(), Invalid>,
        input: &str,
        expected: &str,
    ) {
        let mut out = b"before".to_vec();
        assert_eq!(prepare(input.as_bytes(), &mut out), Ok(()), "{input:?}");
        assert_eq!(String::from_utf8_lossy(&out), format!("before{expected}"), "{input:?}");
    }

    // The examples of RFC 4518 §2.6.2.
    #[test]
    fn spaces_do_not_count_in_numeric_strings() {
        check_with(numeric, "  123  456  ", "123456");
        check_with(numeric, "  ", "");
        check_with(numeric, "", "");
        check_with(numeric, "1\u{A0}2", "12");
        check_with(numeric, "1-2", "1-2");
        check_with(numeric, "\u{FF11}2", "12");
    }

    // The examples of RFC 4518 §2.6.3.
    #[test]
    fn spaces_and_hyphens_do_not_count_in_telephone_numbers() {
        check_with(telephone, " -123  456  -", "123456");
        check_with(telephone, "+1 (555) 010-2030", "+1(555)0102030");
        check_with(telephone, "1\u{2010}2\u{2212}3\u{FF0D}4\u{58A}5\u{2011}6", "123456");
        check_with(telephone, "EXT 5", "ext5");
        check_with(telephone, "- -", "");
    }

    // Taking the space away would leave the mark to the letter before it.
    #[test]
    fn spaces_and_hyphens_that_carry_a_mark_count() {
        check_with(telephone, "1 o\u{2D8}0", "1o \u{306}0");
        check_with(telephone, "1-\u{301}", "1-\u{301}");
        check_with(numeric, "1 \u{301}", "1 \u{301}");
    }

    #[test]
    fn names_that_sound_alike_have_one_phonetic_key() {
        let key = |input: &str| {
            let mut out = Vec::new();
            phonetic(input.as_bytes(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let alike = |one: &str, other: &str| assert_eq!(key(one), key(other), "{one} {other}");
        alike("Robert", "Rupert");
        alike("Smith", "Smyth");
        alike("Jon  Smith", "John Smythe");
        alike("Meyer", "Maier");
        alike("M\u{FC}ller", "Mueller");
        alike("Muller", "M\u{FC}ller");
        alike("O'Brien", "o brien");
        assert_ne!(key("Smith"), key("Jones"));
        assert_ne!(key("Anna"), key("Emma"));
        assert_ne!(key("room 12"), key("room 13"));
        assert_eq!(key(""), "");
        assert_eq!(key("--"), "");
    }

    proptest! {
        #[test]
        fn preparing_twice_is_preparing_once(input: String) {
            for case in [Case::Exact, Case::Ignore] {
                let Ok(once) = prepared(&input, case, Spacing::Compact) else { continue };
                let twice = prepared(&once, case, Spacing::Compact);
                prop_assert_eq!(Ok(&once), twice.as_ref());
                let full = prepared(&input, case, Spacing::Full);
                prop_assert_eq!(&prepared(&once, case, Spacing::Full), &full);
                prop_assert!(!once.bytes().any(|byte| byte < 0x20));
            }
            for prepare in [numeric, telephone] {
                let (mut once, mut twice) = (Vec::new(), Vec::new());
                if prepare(input.as_bytes(), &mut once).is_ok() {
                    prop_assert_eq!(prepare(&once, &mut twice), Ok(()));
                    prop_assert_eq!(once, twice);
                }
            }
        }

        #[test]
        fn the_short_way_for_ascii_agrees_with_the_long_one(input in "[ -~\t\0]{0,20}") {
            // A character that is mapped to nothing takes the long way.
            let long = format!("{input}\u{AD}");
            for case in [Case::Exact, Case::Ignore] {
                for spacing in [Spacing::Compact, Spacing::Full, INITIAL, ANY, FINAL] {
                    prop_assert_eq!(
                        prepared(&input, case, spacing),
                        prepared(&long, case, spacing)
                    );
                }
            }
        }

        #[test]
        fn what_compact_values_tell_apart_full_ones_do(one in "[ab ]{0,6}", other in "[ab ]{0,6}") {
            let equal = |spacing| {
                prepared(&one, Case::Exact, spacing) == prepared(&other, Case::Exact, spacing)
            };
            prop_assert_eq!(equal(Spacing::Compact), equal(Spacing::Full));
        }
    }
}
