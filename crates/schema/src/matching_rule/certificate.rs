//! certificateExactMatch (RFC 4523 §2.1): certificates are told apart by serial number and issuer.
//!
//! Only as much of a certificate is read as that takes. One that cannot be read so far is compared
//! octet by octet.

use std::borrow::Cow;

use ldap::ber::{Reader, Tag};

use crate::dn_key::{DnKey, RdnSequenceWriter};
use crate::prepare::Invalid;
use crate::schema::Schema;

/// Writes issuer and serial number, or the octets after [`UNREADABLE`].
pub(super) fn certificate(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let start = out.len();
    if write_identity(schema, value, out).is_none() {
        out.truncate(start);
        out.push(UNREADABLE);
        out.extend_from_slice(value);
    }
    Ok(())
}

/// The assertion in text form (RFC 4523 §2.1), in the older form `serial$issuer`, or a certificate.
pub(super) fn exact_assertion(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    let text = match std::str::from_utf8(value) {
        // The tag of a SEQUENCE is the digit 0 as well.
        Ok(text) if !is_sequence(value) => text,
        Ok(_) | Err(_) => return certificate(schema, value, out),
    };
    let (serial, issuer) = split_assertion(text).ok_or(NOT_AN_ASSERTION)?;
    DnKey::write(schema, &issuer, out).map_err(|error| Invalid(error.reason()))?;
    out.push(SERIAL_MARK);
    write_decimal(serial, out).ok_or(NOT_AN_ASSERTION)
}

/// Whether `value` is one SEQUENCE in definite-length form, as every X.509 object is.
pub(crate) fn is_sequence(value: &[u8]) -> bool {
    let mut reader = Reader::new(value);
    reader.read(Tag::SEQUENCE).is_ok() && reader.is_empty()
}

fn write_identity(schema: &Schema, certificate: &[u8], out: &mut Vec<u8>) -> Option<()> {
    const VERSION: Tag = Tag::context(0, true);
    let mut reader = Reader::new(certificate);
    let mut signed = reader.sequence(Tag::SEQUENCE).ok()?;
    let mut body = signed.sequence(Tag::SEQUENCE).ok()?;
    if body.peek_tag() == Some(VERSION) {
        body.read(VERSION).ok()?;
    }
    let serial = body.read(Tag::INTEGER).ok()?;
    body.read(Tag::SEQUENCE).ok()?;
    let mut issuer = body.sequence(Tag::SEQUENCE).ok()?;
    let mut writer = RdnSequenceWriter::new(schema, out);
    while !issuer.is_empty() {
        let mut rdn = issuer.sequence(Tag::SET).ok()?;
        while !rdn.is_empty() {
            let mut ava = rdn.sequence(Tag::SEQUENCE).ok()?;
            let attribute = dotted(ava.read(Tag(OBJECT_IDENTIFIER)).ok()?)?;
            let (tag, octets) = ava.read_any().ok()?;
            writer.ava(&attribute, &text_octets(tag, octets)?, !rdn.is_empty()).ok()?;
        }
    }
    out.push(SERIAL_MARK);
    out.extend_from_slice(minimal(serial));
    Some(())
}

/// The octets of a DirectoryString (RFC 5280 §4.1.2.4) in UTF-8.
fn text_octets(tag: Tag, octets: &[u8]) -> Option<Cow<'_, [u8]>> {
    let text: String = match tag.0 {
        // T61String: in practice Latin 1.
        0x14 => octets.iter().map(|&byte| char::from(byte)).collect(),
        // UniversalString.
        0x1C => octets
            .chunks(4)
            .map(|four| char::from_u32(u32::from_be_bytes(four.try_into().ok()?)))
            .collect::<Option<_>>()?,
        // BMPString.
        0x1E => {
            let unit = |two: &[u8]| two.try_into().ok().map(u16::from_be_bytes);
            let units = octets.chunks(2).map(unit).collect::<Option<Vec<u16>>>()?;
            String::from_utf16(&units).ok()?
        }
        _ => return Some(Cow::Borrowed(octets)),
    };
    Some(Cow::Owned(text.into_bytes()))
}

/// The dotted form of an OID in DER.
fn dotted(der: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut arc: u64 = 0;
    for &byte in der {
        arc = arc.checked_mul(128)?.checked_add(u64::from(byte & 0x7F))?;
        if byte & 0x80 != 0 {
            continue;
        }
        if text.is_empty() {
            let first = (arc / 40).min(2);
            text = format!("{first}.{}", arc - first * 40);
        } else {
            text.push('.');
            text.push_str(&arc.to_string());
        }
        arc = 0;
    }
    let is_complete = der.last().is_some_and(|last| last & 0x80 == 0);
    is_complete.then_some(text)
}

/// An INTEGER without octets that only repeat the sign.
fn minimal(integer: &[u8]) -> &[u8] {
    let mut rest = integer;
    while let [0x00, tail @ ..] | [0xFF, tail @ ..] = rest {
        let is_negative = rest.first() == Some(&0xFF);
        if tail.first().is_none_or(|second| (*second >= 0x80) != is_negative) {
            break;
        }
        rest = tail;
    }
    rest
}

/// Takes serial number and issuer out of `{ serialNumber 1, issuer rdnSequence:"cn=x" }` or of
/// `1$cn=x`.
fn split_assertion(text: &str) -> Option<(&str, Cow<'_, str>)> {
    let Some(inner) = text.trim().strip_prefix('{') else {
        let (serial, issuer) = text.split_once('$')?;
        return Some((serial.trim(), Cow::Borrowed(issuer)));
    };
    let mut rest = inner.strip_suffix('}')?.trim();
    let (mut serial, mut issuer) = (None, None);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("serialNumber") {
            let after = after.trim_start();
            let length = after.find([',', ' ']).unwrap_or(after.len());
            let (number, after) = after.split_at_checked(length)?;
            serial = Some(number);
            rest = after;
        } else {
            let after = rest.strip_prefix("issuer")?.trim_start();
            let after = after.strip_prefix("rdnSequence:").unwrap_or(after).trim_start();
            let (name, after) = quoted(after)?;
            issuer = Some(name);
            rest = after;
        }
        rest = rest.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some((serial?, issuer?))
}

/// Reads a GSER string (RFC 3641 §3.2): quotes inside are doubled.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let end = from + inner.get(from..)?.find('"')?;
        let after = inner.get(end + 1..)?;
        if !after.starts_with('"') {
            let text = inner.get(..end)?;
            let plain = if from == 0 {
                Cow::Borrowed(text)
            } else {
                Cow::Owned(text.replace("\"\"", "\""))
            };
            return Some((plain, after));
        }
        from = end + 2;
    }
}

/// Writes a decimal number as the content of a minimal INTEGER.
fn write_decimal(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut number = [0_u8; SERIAL_OCTETS_MAX];
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for octet in number.iter_mut().rev() {
            let sum = u16::from(*octet) * 10 + carry;
            *octet = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        if carry > 0 {
            return None;
        }
    }
    if number.first().is_some_and(|first| *first >= 0x80) {
        return None;
    }
    if negative {
        let mut carry = true;
        for octet in number.iter_mut().rev() {
            let (sum, overflow) = (!*octet).overflowing_add(u8::from(carry));
            *octet = sum;
            carry = overflow;
        }
    }
    out.extend_from_slice(minimal(&number));
    Some(())
}

/// The longest serial number of an assertion, in octets; RFC 5280 §4.1.2.2 allows 20.
const SERIAL_OCTETS_MAX: usize = 64;
/// Ends the issuer; no RDN starts with it.
const SERIAL_MARK: u8 = 1;
/// Starts a certificate that cannot be read; no issuer starts with it.
const UNREADABLE: u8 = 0;
const OBJECT_IDENTIFIER: u8 = 0x06;
const NOT_AN_ASSERTION: Invalid =
    Invalid("is not of the form { serialNumber 1, issuer rdnSequence:\"cn=x\" }");
