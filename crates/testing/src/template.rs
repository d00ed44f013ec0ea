//! Texts with placeholders: `{name}` in a request stands for a value captured earlier, in an
//! expectation for "some value of this form".
//!
//! Known forms: `{any}`, `{uuid}`, `{time}`, `{csn}`, `{number}`. `{name=form}` also remembers what
//! it matched. A brace not followed by lower-case letters is itself, so `{SSHA}` needs no escape.

use std::collections::BTreeMap;

/// Values by name: what the runner defines (`root`) and what the dialogue captured.
pub(crate) type Captures = BTreeMap<String, Vec<u8>>;

/// A text, or octets, in which some parts are open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(Vec<u8>),
    Open { name: Option<String>, form: String },
}

impl Template {
    /// Octets without placeholders.
    pub(crate) fn literal(octets: &[u8]) -> Self {
        if octets.is_empty() {
            return Self::default();
        }
        Self { parts: vec![Part::Literal(octets.to_vec())] }
    }

    /// Text with placeholders. Never fails: an odd brace is a brace.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            if let Some((part, after)) = placeholder(rest) {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(part);
                rest = after;
            } else {
                literal.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                rest = rest.get(char.len_utf8()..).unwrap_or_default();
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Self { parts }
    }

    /// A value in one of the notations `hex:…`, `b64:…`, `text:…` or plain text.
    pub(crate) fn parse_value(text: &str) -> Result<Self, String> {
        if let Some(digits) = text.strip_prefix("hex:") {
            return Ok(Self::literal(&hex(digits)?));
        }
        if let Some(encoded) = text.strip_prefix("b64:") {
            return Ok(Self::literal(&base64(encoded)?));
        }
        Ok(Self::parse(text.strip_prefix("text:").unwrap_or(text)))
    }

    /// The octets to send: every placeholder must be a captured name.
    pub(crate) fn expand(&self, captures: &Captures) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        for part in &self.parts {
            match part {
                Part::Literal(octets) => out.extend_from_slice(octets),
                Part::Open { form, .. } => match captures.get(form) {
                    Some(value) => out.extend_from_slice(value),
                    None => return Err(format!("{{{form}}} was not captured before")),
                },
            }
        }
        Ok(out)
    }

    /// As [`Self::expand`], for places that are text on the wire.
    pub(crate) fn expand_text(&self, captures: &Captures) -> Result<String, String> {
        String::from_utf8(self.expand(captures)?).map_err(|_| "must be UTF-8".to_owned())
    }

    /// Whether `actual` has this form; captures are recorded only if all of it matches.
    pub(crate) fn matches(&self, actual: &[u8], captures: &mut Captures) -> bool {
        let mut found = Vec::new();
        if !match_parts(&self.parts, actual, captures, &mut found) {
            return false;
        }
        captures.extend(found);
        true
    }
}

/// Octets as text where they are text, as hexadecimal digits otherwise.
pub(crate) fn show_octets(octets: &[u8]) -> String {
    match str::from_utf8(octets) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("hex:{}", octets.iter().map(|o| format!("{o:02x}")).collect::<String>()),
    }
}

/// Hexadecimal digits; spaces between octets are allowed.
pub(crate) fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err("an odd number of hexadecimal digits".to_owned());
    }
    let octet = |pair: &[u8]| {
        str::from_utf8(pair)
            .ok()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
            .ok_or_else(|| format!("not hexadecimal: {}", String::from_utf8_lossy(pair)))
    };
    digits.chunks(2).map(octet).collect()
}

/// Base64 with padding (RFC 4648 §4).
pub(crate) fn base64(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut bits: u32 = 0;
    let mut count = 0;
    for byte in text.trim().trim_end_matches('=').bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(format!("not base64: {text}")),
        };
        bits = (bits << 6) | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Ok(out)
}

fn placeholder(text: &str) -> Option<(Part, &str)> {
    let (inner, after) = text.strip_prefix('{')?.split_once('}')?;
    let (name, form) = match inner.split_once('=') {
        Some((name, form)) => (Some(name), form),
        None => (None, inner),
    };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase());
    if !word(form) || !name.is_none_or(word) {
        return None;
    }
    Some((Part::Open { name: name.map(str::to_owned), form: form.to_owned() }, after))
}

fn match_parts(
    parts: &[Part],
    actual: &[u8],
    captures: &Captures,
    found: &mut Vec<(String, Vec<u8>)>,
) -> bool {
    let Some((part, others)) = parts.split_first() else {
        return actual.is_empty();
    };
    match part {
        Part::Literal(octets) => match actual.strip_prefix(octets.as_slice()) {
            Some(rest) => match_parts(others, rest, captures, found),
            None => false,
        },
        // The longest stretch first; lines are short, so trying all lengths is cheap.
        Part::Open { name, form } => (0..=actual.len()).rev().any(|end| {
            let (head, tail) = actual.split_at(end);
            let before = found.len();
            if !has_form(head, form, captures) {
                return false;
            }
            if let Some(name) = name {
                found.push((name.clone(), head.to_vec()));
            }
            let matched = match_parts(others, tail, captures, found);
            if !matched {
                found.truncate(before);
            }
            matched
        }),
    }
}

fn has_form(octets: &[u8], form: &str, captures: &Captures) -> bool {
    let text = str::from_utf8(octets).unwrap_or("\0");
    match form {
        "any" => true,
        "number" => !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()),
        "uuid" => follows(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
        "time" => follows(text, "dddddddddddddd*Z"),
        "csn" => follows(text, "dddddddddddddd.dddddd*"),
        name => captures.get(name).is_some_and(|value| value == octets),
    }
}

/// `x` a hexadecimal digit, `d` a decimal one, `*` anything, the rest itself.
fn follows(text: &str, pattern: &str) -> bool {
    let Some(mark) = pattern.chars().next() else {
        return text.is_empty();
    };
    let rest = pattern.get(mark.len_utf8()..).unwrap_or_default();
    let Some(char) = text.chars().next() else {
        return mark == '*' && follows(text, rest);
    };
    let tail = text.get(char.len_utf8()..).unwrap_or_default();
    match mark {
        '*' => follows(text, rest) || follows(tail, pattern),
        'x' => char.is_ascii_hexdigit() && follows(tail, rest),
        'd' => char.is_ascii_digit() && follows(tail, rest),
        itself => char == itself && follows(tail, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, actual: &str, want: bool) {
        let mut captures = Captures::from([("root".to_owned(), b"cn=admin".to_vec())]);
        let template = Template::parse(template);
        assert_eq!(template.matches(actual.as_bytes(), &mut captures), want, "{template:?}");
    }

    #[test]
    fn forms_match_what_they_name() {
        check("abc", "abc", true);
        check("abc", "abcd", false);
        check("{any}", "", true);
        check("a{any}c", "abbc", true);
        check("a{any}c", "abbd", false);
        check("{SSHA}x", "{SSHA}x", true);
        check("{SSHA512}{any}", "{SSHA512}abc", true);
        check("{root}", "cn=admin", true);
        check("{root}", "cn=other", false);
        check("{uuid}", "123e4567-e89b-12d3-a456-426614174000", true);
        check("{uuid}", "123e4567-e89b-12d3-a456-42661417400", false);
        check("{time}", "20260101120000Z", true);
        check("{time}", "20260101120000.123Z", true);
        check("{time}", "2026", false);
        check("{number}", "12", true);
        check("{number}", "", false);
    }

    #[test]
    fn a_captured_value_can_be_sent_and_matched_again() {
        let mut captures = Captures::new();
        let template = Template::parse("id={id=number};{any}");
        assert!(template.matches(b"id=17;x", &mut captures));
        assert_eq!(Template::parse("<{id}>").expand(&captures).unwrap(), b"<17>");
        assert!(Template::parse("{id}").matches(b"17", &mut captures));
        assert!(Template::parse("{unknown}").expand(&captures).is_err());
    }

    #[test]
    fn values_have_three_notations() {
        let value = |text| Template::parse_value(text).unwrap().expand(&Captures::new()).unwrap();
        assert_eq!(value("hex:00 ff"), [0, 255]);
        assert_eq!(value("b64:AP8="), [0, 255]);
        assert_eq!(value("b64:aGVsbG8="), b"hello");
        assert_eq!(value("text:hex:"), b"hex:");
        assert_eq!(value("plain"), b"plain");
        assert!(Template::parse_value("hex:0").is_err());
        assert!(Template::parse_value("b64:*").is_err());
    }
}
