//! Filter text (RFC 4515) to BER (RFC 4511 §4.5.1.7), strictly enough for scripts.
//!
//! Filters that text cannot express are sent with `raw`.

use crate::ber::{OCTET_STRING, put, put_with};

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUALITY: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const GREATER_OR_EQUAL: u8 = 0xa5;
const LESS_OR_EQUAL: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const APPROX: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;

/// Appends the filter that `text` describes.
pub(crate) fn encode(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let rest = component(text, out)?;
    if rest.is_empty() { Ok(()) } else { Err(format!("text after the filter: {rest}")) }
}

fn component<'a>(text: &'a str, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let inner = text.strip_prefix('(').ok_or("a filter starts with a parenthesis")?;
    let tag = match inner.as_bytes().first() {
        Some(b'&') => AND,
        Some(b'|') => OR,
        Some(b'!') => NOT,
        _ => {
            let (item, rest) = inner.split_once(')').ok_or("a filter is not closed")?;
            encode_item(item, out)?;
            return Ok(rest);
        }
    };
    let mut rest = inner.get(1..).unwrap_or_default();
    let mut content = Vec::new();
    while rest.starts_with('(') {
        rest = component(rest, &mut content)?;
    }
    put(out, tag, &content);
    rest.strip_prefix(')').ok_or_else(|| "a filter list is not closed".to_owned())
}

fn encode_item(item: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let (left, value) = item.split_once('=').ok_or_else(|| format!("no '=' in ({item})"))?;
    if let Some(left) = left.strip_suffix(':') {
        return encode_extensible(left, value, out);
    }
    let (tag, description) = match left.as_bytes().last() {
        Some(b'>') => (GREATER_OR_EQUAL, left.trim_end_matches('>')),
        Some(b'<') => (LESS_OR_EQUAL, left.trim_end_matches('<')),
        Some(b'~') => (APPROX, left.trim_end_matches('~')),
        _ if value == "*" => {
            put(out, PRESENT, left.as_bytes());
            return Ok(());
        }
        _ if value.contains('*') => return encode_substrings(left, value, out),
        _ => (EQUALITY, left),
    };
    let value = unescape(value)?;
    put_with(out, tag, |out| {
        put(out, OCTET_STRING, description.as_bytes());
        put(out, OCTET_STRING, &value);
    });
    Ok(())
}

fn encode_substrings(description: &str, value: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let last = value.matches('*').count();
    let mut pieces = Vec::new();
    for (at, piece) in value.split('*').enumerate().filter(|(_, piece)| !piece.is_empty()) {
        let tag = match at {
            0 => 0x80,
            at if at == last => 0x82,
            _ => 0x81,
        };
        put(&mut pieces, tag, &unescape(piece)?);
    }
    put_with(out, SUBSTRINGS, |out| {
        put(out, OCTET_STRING, description.as_bytes());
        put(out, crate::ber::SEQUENCE, &pieces);
    });
    Ok(())
}

/// `left` is what stands before `:=`: `type`, `:dn` and `:rule`, each of which may be absent.
fn encode_extensible(left: &str, value: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let mut parts = left.split(':');
    let description = parts.next().unwrap_or_default();
    let others: Vec<&str> = parts.collect();
    let (dn, rule) = match others.as_slice() {
        [] => (false, None),
        [only] if only.eq_ignore_ascii_case("dn") => (true, None),
        [rule] => (false, Some(*rule)),
        [dn, rule] if dn.eq_ignore_ascii_case("dn") => (true, Some(*rule)),
        _ => return Err(format!("not an extensible filter: {left}")),
    };
    let value = unescape(value)?;
    put_with(out, EXTENSIBLE, |out| {
        if let Some(rule) = rule {
            put(out, 0x81, rule.as_bytes());
        }
        if !description.is_empty() {
            put(out, 0x82, description.as_bytes());
        }
        put(out, 0x83, &value);
        if dn {
            put(out, 0x84, &[0xff]);
        }
    });
    Ok(())
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let digits = after.get(..2).ok_or("an escape takes two hexadecimal digits")?;
        out.extend(crate::template::hex(digits)?);
        rest = after.get(2..).unwrap_or_default();
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let mut out = Vec::new();
        let result = encode(text, &mut out).map(|()| out);
        let want = crate::template::hex(want).map_err(|_| String::new());
        assert_eq!(result.map_err(|_| String::new()), want, "{text}");
    }

    #[test]
    fn filters_become_their_ber() {
        check("(a=b)", "a3 06 04 01 61 04 01 62");
        check("(a=*)", "87 01 61");
        check(r"(a=\2a)", "a3 06 04 01 61 04 01 2a");
        check("(a>=b)", "a5 06 04 01 61 04 01 62");
        check("(a<=b)", "a6 06 04 01 61 04 01 62");
        check("(a~=b)", "a8 06 04 01 61 04 01 62");
        check("(a=x*)", "a4 08 04 01 61 30 03 80 01 78");
        check("(a=*x)", "a4 08 04 01 61 30 03 82 01 78");
        check("(a=*x*)", "a4 08 04 01 61 30 03 81 01 78");
        check("(a=x*y*z)", "a4 0e 04 01 61 30 09 80 01 78 81 01 79 82 01 7a");
        check("(&)", "a0 00");
        check("(|)", "a1 00");
        check("(!(a=*))", "a2 03 87 01 61");
        check("(&(a=*)(|(b=*)))", "a0 08 87 01 61 a1 03 87 01 62");
        check("(a:=b)", "a9 06 82 01 61 83 01 62");
        check("(:r:=b)", "a9 06 81 01 72 83 01 62");
        check("(a:dn:r:=b)", "a9 0c 81 01 72 82 01 61 83 01 62 84 01 ff");
    }

    #[test]
    fn what_is_not_a_filter_is_refused() {
        for text in ["", "a=b", "(a)", "(a=b", "(&(a=b)", "(a=b)x", r"(a=\2)", r"(a=\zz)"] {
            let mut out = Vec::new();
            assert!(encode(text, &mut out).is_err(), "{text}");
        }
    }
}
