//! Sources that are not LDIF in UTF-8: UTF-16 as Windows writes it, and the `name=value` output of
//! Oracle's ldapsearch, become that.
//!
//! Invariants: what begins like LDIF goes through as it is, octet for octet; the first octets alone
//! decide; memory is bounded by the longest line accepted.

use std::io::{self, BufRead, BufReader, Read};

use ldap::description::is_attribute_description;
use ldap::dn::Dn;
use ldap::ldif::{LDIF_LINE_MAX_BYTES, LdifReason};

/// A source as LDIF in UTF-8.
///
/// # Errors
/// When the first octets cannot be read.
pub(crate) fn text<'s>(
    mut source: Box<dyn Read + Send + 's>,
) -> io::Result<Box<dyn Read + Send + 's>> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    (&mut source).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let (unit, skipped) = unit_of(&head);
    let assignments = match unit {
        Unit::One => has_assignments(&head),
        Unit::Little | Unit::Big => false,
    };
    let whole = io::Cursor::new(head).chain(source);
    Ok(match unit {
        Unit::One if assignments => Box::new(Lines::new(BufReader::new(whole))),
        Unit::One => Box::new(whole),
        Unit::Little | Unit::Big => {
            let mut units = BufReader::with_capacity(BUFFER_BYTES, whole);
            io::copy(&mut (&mut units).take(skipped), &mut io::sink())?;
            Box::new(Decoder { units, is_big: unit == Unit::Big, ready: Vec::new(), at: 0 })
        }
    })
}

/// Whether what is no record for this reason is what ldapsearch prints around entries: the number
/// of the search, its result, or a reference.
pub(crate) fn is_search_note(reason: &LdifReason) -> bool {
    let notes = ["search", "result", "ref"];
    matches!(reason, LdifReason::MissingDn(found)
        if notes.into_iter().any(|note| note.eq_ignore_ascii_case(found)))
}

/// How many octets a unit of the text has, and their order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unit {
    One,
    Little,
    Big,
}

/// The unit, and how many octets of a byte order mark to skip.
fn unit_of(head: &[u8]) -> (Unit, u64) {
    match head {
        [0xff, 0xfe, ..] => (Unit::Little, 2),
        [0xfe, 0xff, ..] => (Unit::Big, 2),
        // No LDIF in UTF-8 has a zero among its first octets.
        [1..=0x7f, 0, 1..=0x7f, 0, ..] => (Unit::Little, 0),
        [0, 1..=0x7f, 0, 1..=0x7f, ..] => (Unit::Big, 0),
        _ => (Unit::One, 0),
    }
}

/// UTF-16 as UTF-8.
struct Decoder<R> {
    units: R,
    is_big: bool,
    ready: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Decoder<R> {
    /// Decodes what the buffer holds; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.ready.clear();
        self.at = 0;
        while self.ready.len() < BUFFER_BYTES {
            let Some(first) = self.unit()? else { break };
            let pair = match first {
                0xd800..=0xdbff => {
                    let second = self.unit()?.ok_or_else(not_utf16)?;
                    [first, second]
                }
                _ => [first, 0],
            };
            let units = if matches!(first, 0xd800..=0xdbff) { &pair[..] } else { &pair[..1] };
            for sign in char::decode_utf16(units.iter().copied()) {
                let sign = sign.map_err(|_| not_utf16())?;
                self.ready.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        Ok(!self.ready.is_empty())
    }

    fn unit(&mut self) -> io::Result<Option<u16>> {
        let mut octets = [0; 2];
        let mut length = 0;
        for octet in &mut octets {
            let Some(&next) = self.units.fill_buf()?.first() else { break };
            *octet = next;
            self.units.consume(1);
            length += 1;
        }
        match length {
            0 => Ok(None),
            1 => Err(not_utf16()),
            _ if self.is_big => Ok(Some(u16::from_be_bytes(octets))),
            _ => Ok(Some(u16::from_le_bytes(octets))),
        }
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.ready.len() && !self.fill()? {
            return Ok(0);
        }
        Ok(hand_out(&self.ready, &mut self.at, buffer))
    }
}

fn not_utf16() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file is damaged: it is no UTF-16")
}

/// Whether the first line is a bare name and the second one `name=value`, as Oracle's ldapsearch
/// writes entries.
fn has_assignments(head: &[u8]) -> bool {
    let mut lines = head.split(|octet| *octet == b'\n').map(<[u8]>::trim_ascii_end);
    let Some(first) = lines.find(|line| !line.is_empty()) else { return false };
    is_bare_name(first) && lines.next().is_some_and(|second| assignment(second).is_some())
}

/// Whether a line is a distinguished name and nothing else.
fn is_bare_name(line: &[u8]) -> bool {
    assignment(line).is_some()
        && std::str::from_utf8(line).is_ok_and(|line| Dn::parse(line).is_ok())
}

/// `name=value` → (name, value).
fn assignment(line: &[u8]) -> Option<(&str, &[u8])> {
    let end = line.iter().position(|octet| *octet == b'=')?;
    let (name, value) = line.split_at_checked(end)?;
    let name = std::str::from_utf8(name).ok().filter(|name| is_attribute_description(name))?;
    Some((name, value.strip_prefix(b"=")?))
}

/// `name=value` lines as LDIF: the first line of a block is the name of its entry.
struct Lines<R> {
    lines: R,
    /// Whether the next line begins a block.
    is_first: bool,
    line: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Lines<R> {
    const fn new(lines: R) -> Self {
        Self { lines, is_first: true, line: Vec::new(), ready: Vec::new(), at: 0 }
    }

    /// Turns one line; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.ready.clear();
        self.line.clear();
        self.at = 0;
        let limit = LDIF_LINE_MAX_BYTES as u64 + 2;
        if (&mut self.lines).take(limit).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(false);
        }
        let line = match self.line.as_slice() {
            [line @ .., b'\r', b'\n'] | [line @ .., b'\n'] => line,
            line => line,
        };
        if line.is_empty() {
            self.is_first = true;
        } else if self.is_first {
            self.is_first = false;
            attribute(&mut self.ready, "dn", line);
        } else if let Some((name, value)) = assignment(line) {
            attribute(&mut self.ready, name, value);
        } else {
            // Part of a value of several lines: the reader refuses this record and says where.
            self.ready.extend_from_slice(line);
        }
        self.ready.push(b'\n');
        Ok(true)
    }
}

impl<R: BufRead> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.ready.len() && !self.fill()? {
            return Ok(0);
        }
        Ok(hand_out(&self.ready, &mut self.at, buffer))
    }
}

/// Writes `name: value`, in base64 where a plain value would be read as something else.
fn attribute(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    use base64::Engine as _;
    out.extend_from_slice(name.as_bytes());
    if matches!(value.first(), Some(b' ' | b':' | b'<')) || value.ends_with(b" ") {
        out.extend_from_slice(b":: ");
        out.extend_from_slice(base64::engine::general_purpose::STANDARD.encode(value).as_bytes());
    } else {
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
    }
}

fn hand_out(ready: &[u8], at: &mut usize, buffer: &mut [u8]) -> usize {
    let left = ready.get(*at..).unwrap_or_default();
    let length = left.len().min(buffer.len());
    let (Some(from), Some(into)) = (left.get(..length), buffer.get_mut(..length)) else { return 0 };
    into.copy_from_slice(from);
    *at += length;
    length
}

/// How much of a source is looked at.
const HEAD_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &[u8], want: &str) {
        // One octet at a time and all at once.
        let mut whole = Vec::new();
        text(Box::new(source)).unwrap().read_to_end(&mut whole).unwrap();
        assert_eq!(String::from_utf8(whole).unwrap(), want);
        let mut single = Vec::new();
        let mut reader = text(Box::new(source)).unwrap();
        let mut octet = [0];
        while reader.read(&mut octet).unwrap() > 0 {
            single.extend_from_slice(&octet);
        }
        assert_eq!(String::from_utf8(single).unwrap(), want);
    }

    fn utf16(text: &str, mark: bool, is_big: bool) -> Vec<u8> {
        let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        let octets = |unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        units.flat_map(octets).collect()
    }

    const LDIF: &str = "dn: cn=Gr\u{fc}n \u{1f600},dc=x\r\nchangetype: add\r\ncn: Gr\u{fc}n\r\n";

    #[test]
    fn utf16_is_decoded_with_and_without_a_mark() {
        for mark in [true, false] {
            for is_big in [true, false] {
                check(&utf16(LDIF, mark, is_big), LDIF);
                let long = LDIF.repeat(5000);
                check(&utf16(&long, mark, is_big), &long);
            }
        }
        check(&utf16("", true, false), "");
    }

    #[test]
    fn damaged_utf16_is_an_error() {
        let mut odd = utf16(LDIF, true, false);
        odd.pop();
        let lone = [&utf16("dn", true, false)[..], &[0x3d, 0xd8]].concat();
        for source in [&odd, &lone] {
            let mut out = Vec::new();
            let result = text(Box::new(&source[..])).and_then(|mut all| all.read_to_end(&mut out));
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn ldif_goes_through() {
        for source in [
            LDIF,
            "",
            "\n",
            "version: 1\n\ndn: a=b\na: b=c\n",
            "x",
            "# a=b\ncn=d\n",
            "dn:: Y249eA==\ncn=x: y\n",
            "cn=x\ncn: y\n",
            "cn=x,dc=y\n\ndn: cn=x\n",
        ] {
            check(source.as_bytes(), source);
        }
        let long = "dn: cn=x\ncn: y\n".repeat(1000);
        check(long.as_bytes(), &long);
        check(b"\xef\xbb\xbfdn: cn=x\ncn: y\n", "\u{feff}dn: cn=x\ncn: y\n");
    }

    #[test]
    fn assignments_become_ldif() {
        check(
            b"\ncn=A,cn=Users,dc=x\r\nobjectclass=top\r\ncn=A\r\nauthpassword;oid={SASL/MD5}a==\r\n\
              description= x\n\ncn=B,dc=x\ncn=B=C\nlost\nmail=",
            "\ndn: cn=A,cn=Users,dc=x\nobjectclass: top\ncn: A\nauthpassword;oid: {SASL/MD5}a==\n\
             description:: IHg=\n\ndn: cn=B,dc=x\ncn: B=C\nlost\nmail: \n",
        );
    }

    #[test]
    fn notes_of_ldapsearch_are_known() {
        for note in ["search", "result", "REF"] {
            assert!(is_search_note(&LdifReason::MissingDn(note.to_owned())), "{note}");
        }
        for other in ["cn", "searchGuide", "", "references"] {
            assert!(!is_search_note(&LdifReason::MissingDn(other.to_owned())), "{other}");
        }
        assert!(!is_search_note(&LdifReason::SecondDn));
    }
}
