//! Rules for values compared almost as they are: octets, bits, booleans, UUIDs, CSNs.

use crate::prepare::{Invalid, Position};
use crate::schema::Schema;

pub(super) fn octets(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    out.extend_from_slice(value);
    Ok(())
}

pub(super) fn octets_piece(_: Position, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    out.extend_from_slice(piece);
    Ok(())
}

/// RFC 4517 §3.3.3.
pub(crate) fn boolean(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    match value {
        b"TRUE" | b"FALSE" => {
            out.extend_from_slice(value);
            Ok(())
        }
        _ => Err(Invalid("is neither TRUE nor FALSE")),
    }
}

/// RFC 4517 §3.3.2: the digits between the quotes.
pub(crate) fn bit_string(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    out.extend_from_slice(bits(value)?);
    Ok(())
}

/// The digits of a bit string such as `'0101'B`.
pub(super) fn bits(value: &[u8]) -> Result<&[u8], Invalid> {
    match value {
        [b'\'', bits @ .., b'\'', b'B'] if bits.iter().all(|bit| matches!(bit, b'0' | b'1')) => {
            Ok(bits)
        }
        _ => Err(Invalid("is not a bit string such as '0101'B")),
    }
}

/// RFC 4530 §2.1: the 16 octets that the text stands for.
pub(crate) fn uuid(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    const NOT_A_UUID: Invalid =
        Invalid("is not a UUID such as 597ae2f6-16a6-1027-98f4-d28b5365dc14");
    if value.len() != 36 {
        return Err(NOT_A_UUID);
    }
    let mut high = None;
    for (position, &byte) in value.iter().enumerate() {
        if matches!(position, 8 | 13 | 18 | 23) {
            if byte != b'-' {
                return Err(NOT_A_UUID);
            }
            continue;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(NOT_A_UUID),
        };
        match high.take() {
            None => high = Some(digit << 4),
            Some(high) => out.push(high | digit),
        }
    }
    Ok(())
}

/// A change sequence number, `20070125062245.123456Z#000000#001#000000`: time, count, server and
/// modification; all parts have a fixed width, so the text orders as it is.
pub(crate) fn csn(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    const NOT_A_CSN: Invalid =
        Invalid("is not a CSN such as 20070125062245.123456Z#000000#001#000000");
    const FORM: &[u8] = b"dddddddddddddd.ddddddZ#xxxxxx#xxx#xxxxxx";
    let fits = |(&byte, &form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => byte == form,
    };
    if value.len() != FORM.len() || !value.iter().zip(FORM).all(fits) {
        return Err(NOT_A_CSN);
    }
    out.extend(value.iter().map(u8::to_ascii_lowercase));
    Ok(())
}

/// RFC 3112 §2: `scheme $ authInfo $ authValue`; spaces around the parts do not count.
pub(crate) fn auth_password(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    const NOT_AN_AUTH_PASSWORD: Invalid = Invalid("is not of the form scheme$authInfo$authValue");
    let mut parts = value.split(|&byte| byte == b'$').map(<[u8]>::trim_ascii);
    let (Some(scheme), Some(info), Some(stored), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(NOT_AN_AUTH_PASSWORD);
    };
    let in_scheme =
        |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b'-' | b'.' | b'/' | b'_');
    let is_well_formed = !scheme.is_empty()
        && scheme.iter().all(in_scheme)
        && info.iter().all(u8::is_ascii_graphic)
        && stored.iter().all(u8::is_ascii_graphic);
    if !is_well_formed {
        return Err(NOT_AN_AUTH_PASSWORD);
    }
    for (position, part) in [scheme, info, stored].into_iter().enumerate() {
        if position > 0 {
            out.push(b'$');
        }
        out.extend_from_slice(part);
    }
    Ok(())
}
