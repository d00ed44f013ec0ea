//! One line of a log, as a JSON object or in a form like OpenDJ's.
//!
//! Invariant: whatever a client sent, a line is one line: control characters, what is no UTF-8, and
//! characters that turn the direction of writing are escaped.

use environment::Timestamp;

/// How lines are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Json,
    Text,
}

/// A key in each of the forms, with what stands before and after it.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) json: &'static str,
    pub(super) text: &'static str,
}

/// The key of these names.
macro_rules! key {
    ($json:literal, $text:literal) => {
        $crate::log::line::Key {
            json: concat!(",\"", $json, "\":"),
            text: concat!(" ", $text, "="),
        }
    };
}
pub(super) use key;

/// A line in the making.
pub(super) struct Line<'b> {
    pub(super) out: &'b mut Vec<u8>,
    form: Form,
}

impl<'b> Line<'b> {
    pub(super) fn begin(
        out: &'b mut Vec<u8>,
        form: Form,
        time: &[u8],
        json: &str,
        text: &str,
    ) -> Self {
        let (before, between, kind, after): (&[u8], &[u8], _, &[u8]) = match form {
            Form::Json => (b"{\"time\":\"", b"\",\"kind\":\"", json, b"\""),
            Form::Text => (b"[", b"] ", text, b""),
        };
        for part in [before, time, between, kind.as_bytes(), after] {
            out.extend_from_slice(part);
        }
        Self { out, form }
    }

    pub(super) fn end(self) {
        let end: &[u8] = match self.form {
            Form::Json => b"}\n",
            Form::Text => b"\n",
        };
        self.out.extend_from_slice(end);
    }

    fn key(&mut self, key: Key) {
        let text = match self.form {
            Form::Json => key.json,
            Form::Text => key.text,
        };
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn number(&mut self, key: Key, number: u64) {
        self.key(key);
        push_number(self.out, number);
    }

    /// Something that is so.
    pub(super) fn flag(&mut self, key: Key) {
        self.key(key);
        match self.form {
            Form::Json => self.out.extend_from_slice(b"true"),
            // The name alone.
            Form::Text => {
                self.out.pop();
            }
        }
    }

    pub(super) fn text(&mut self, key: Key, text: &[u8]) {
        self.open(key);
        push_escaped(self.out, text);
        self.close();
    }

    /// Begins a text of which more is pushed to `out`, escaped.
    pub(super) fn open(&mut self, key: Key) {
        self.key(key);
        self.out.push(b'"');
    }

    pub(super) fn close(&mut self) {
        self.out.push(b'"');
    }

    pub(super) fn list<'t>(&mut self, key: Key, items: impl Iterator<Item = &'t [u8]>) {
        self.key(key);
        let (open, between, close): (&[u8], &[u8], &[u8]) = match self.form {
            Form::Json => (b"[\"", b"\",\"", b"\"]"),
            Form::Text => (b"\"", b" ", b"\""),
        };
        let mut before = open;
        for item in items {
            self.out.extend_from_slice(before);
            push_escaped(self.out, item);
            before = between;
        }
        let end: &[u8] = match (before == open, self.form) {
            (false, _) => close,
            (true, Form::Json) => b"[]",
            (true, Form::Text) => b"\"\"",
        };
        self.out.extend_from_slice(end);
    }
}

pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Text within quotation marks.
pub(super) fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    // Without a branch for each octet: nearly all text is plain.
    let is_plain = text
        .iter()
        .fold(true, |plain, &octet| plain & (octet.wrapping_sub(0x20) < 0x5f) & !is_quoted(octet));
    if is_plain {
        return out.extend_from_slice(text);
    }
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => out.extend_from_slice(&[b'\\', character as u8]),
                _ if is_hidden(character) => push_code(out, character),
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for octet in chunk.invalid() {
            out.extend_from_slice(b"\\\\x");
            push_hex(out, *octet);
        }
    }
}

const fn is_quoted(octet: u8) -> bool {
    octet == b'"' || octet == b'\\'
}

/// Whether a terminal would do something else than show it: controls, and what Unicode has for
/// formats, directions and tags.
#[must_use]
pub const fn is_hidden(character: char) -> bool {
    matches!(character, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `\u00e9`; beyond four digits two of them, as in JSON.
fn push_code(out: &mut Vec<u8>, character: char) {
    for &mut code in character.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        push_hex(out, (code >> 8) as u8);
        push_hex(out, code as u8);
    }
}

pub(super) fn push_hex(out: &mut Vec<u8>, octet: u8) {
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    out.extend_from_slice(&[digit(octet >> 4), digit(octet & 15)]);
}

/// Moments as text; most have the second of the one before.
pub(super) struct TimeText {
    second: u64,
    /// `2026-11-22T11:12:13.123456Z`.
    text: [u8; 27],
}

impl TimeText {
    pub(super) fn new() -> Self {
        Self { second: u64::MAX, text: *b"0000-00-00T00:00:00.000000Z" }
    }

    pub(super) fn of(&mut self, time: Timestamp) -> &[u8] {
        if self.second != time.seconds() {
            self.second = time.seconds();
            let compact = time.compact();
            // Digits go where digits are.
            let digits = self.text.iter_mut().take(19).filter(|octet| octet.is_ascii_digit());
            digits.zip(compact.bytes()).for_each(|(octet, digit)| *octet = digit);
        }
        let mut fraction = time.0 % 1_000_000;
        for octet in self.text.iter_mut().skip(20).take(6).rev() {
            *octet = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_escaped(text: &[u8], want: &str) {
        let mut out = Vec::new();
        push_escaped(&mut out, text);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn nothing_a_client_sends_ends_a_line_or_hides() {
        check_escaped(b"cn=plain,dc=example", "cn=plain,dc=example");
        check_escaped("cn=Mü\"ll\\er".as_bytes(), "cn=Mü\\\"ll\\\\er");
        check_escaped("a\u{61c}\u{2064}\u{e0041}".as_bytes(), "a\\u061c\\u2064\\udb40\\udc41");
        check_escaped(b"a\r\nb\t\0\x1b[2J\x7f", "a\\u000d\\u000ab\\u0009\\u0000\\u001b[2J\\u007f");
        check_escaped("\u{85}\u{2028}\u{202e}".as_bytes(), "\\u0085\\u2028\\u202e");
        check_escaped(b"a\xff\xfeb", "a\\\\xff\\\\xfeb");
    }

    #[test]
    fn the_forms_say_the_same() {
        let write = |form| {
            let mut out = Vec::new();
            let mut line = Line::begin(&mut out, form, b"T", "search", "SEARCH");
            line.number(key!("msg", "msgID"), u64::MAX);
            line.number(key!("op", "op"), 0);
            line.text(key!("base", "base"), b"o=\"x\"");
            line.list(key!("attributes", "attrs"), [&b"cn"[..], b"s\nn"].into_iter());
            line.list(key!("none", "none"), std::iter::empty());
            line.flag(key!("unindexed", "unindexed"));
            line.end();
            String::from_utf8(out).unwrap()
        };
        let json = concat!(
            r#"{"time":"T","kind":"search","msg":18446744073709551615,"op":0,"#,
            r#""base":"o=\"x\"","attributes":["cn","s\u000an"],"none":[],"unindexed":true}"#,
        );
        assert_eq!(write(Form::Json), format!("{json}\n"));
        let text = concat!(
            r#"[T] SEARCH msgID=18446744073709551615 op=0 base="o=\"x\"" "#,
            r#"attrs="cn s\u000an" none="" unindexed"#,
        );
        assert_eq!(write(Form::Text), format!("{text}\n"));
    }

    #[test]
    fn times_have_microseconds() {
        let mut text = TimeText::new();
        let mut check = |micros, want: &str| {
            assert_eq!(std::str::from_utf8(text.of(Timestamp(micros))).unwrap(), want);
        };
        check(0, "1970-01-01T00:00:00.000000Z");
        check(1, "1970-01-01T00:00:00.000001Z");
        check(1_709_164_799_999_999, "2024-02-28T23:59:59.999999Z");
        check(1_709_164_800_000_000, "2024-02-29T00:00:00.000000Z");
    }
}
