//! Rules for integers (RFC 4517 §3.3.16), of any size.

use crate::prepare::Invalid;
use crate::schema::Schema;

/// The most digits of an integer that can be compared.
pub const INTEGER_DIGITS_MAX: usize = 10_000;

/// Writes sign, number of digits and digits, so that octet order is numeric order.
///
/// A number starts with `0x80` + its digits, or `0xFF` and the number of digits in four octets when
/// there are more than [`SHORT_DIGITS_MAX`]; every octet of a negative number is complemented.
pub(crate) fn integer(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let (negative, digits) = parse(value)?;
    if digits.len() > INTEGER_DIGITS_MAX {
        return Err(Invalid("is an integer of more than 10000 digits"));
    }
    let start = out.len();
    match u8::try_from(digits.len()) {
        Ok(count) if count <= SHORT_DIGITS_MAX => out.push(0x80 + count),
        Ok(_) | Err(_) => {
            let count = u32::try_from(digits.len()).expect("at most INTEGER_DIGITS_MAX");
            out.push(0xFF);
            out.extend_from_slice(&count.to_be_bytes());
        }
    }
    out.extend_from_slice(digits);
    if negative {
        for byte in out.get_mut(start..).unwrap_or_default() {
            *byte = !*byte;
        }
    }
    Ok(())
}

/// Writes an integer of 64 bits for the rules that look at its bits.
pub(super) fn integer_64(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    parse(value)?;
    let text = std::str::from_utf8(value).map_err(|_| NOT_AN_INTEGER)?;
    let number: i64 = text.parse().map_err(|_| Invalid("does not fit in 64 bits"))?;
    out.extend_from_slice(&number.to_be_bytes());
    Ok(())
}

/// The numbers behind two keys of [`integer_64`].
pub(super) fn bits(value: &[u8], assertion: &[u8]) -> Option<(i64, i64)> {
    let number = |key: &[u8]| key.try_into().ok().map(i64::from_be_bytes);
    Some((number(value)?, number(assertion)?))
}

/// Whether it is negative, and its digits.
fn parse(value: &[u8]) -> Result<(bool, &[u8]), Invalid> {
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let canonical = match digits {
        [b'0'] => !negative,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if canonical { Ok((negative, digits)) } else { Err(NOT_AN_INTEGER) }
}

const NOT_AN_INTEGER: Invalid =
    Invalid("is not an integer: an optional '-' and digits without leading zeros");
const SHORT_DIGITS_MAX: u8 = 100;
