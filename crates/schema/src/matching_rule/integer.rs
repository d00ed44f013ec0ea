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
        return Err(TOO_LONG);
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

/// Writes an integer in two's complement, the highest octet first, for the rules that look at its
/// bits: eight octets, or as many more as it takes.
pub(super) fn twos_complement(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let (negative, digits) = parse(value)?;
    if digits.len() > INTEGER_DIGITS_MAX {
        return Err(TOO_LONG);
    }
    let small = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
    if let Some(number) = small {
        out.extend_from_slice(&number.to_be_bytes());
        return Ok(());
    }
    let start = out.len();
    // One more for the sign.
    out.extend_from_slice(&[0; 8]);
    for limb in limbs(digits).iter().rev() {
        out.extend_from_slice(&limb.to_be_bytes());
    }
    if negative {
        let mut carries = true;
        for octet in out.get_mut(start..).unwrap_or_default().iter_mut().rev() {
            (*octet, carries) = (!*octet).overflowing_add(u8::from(carries));
        }
    }
    Ok(())
}

/// The number that decimal digits stand for, its lowest 64 bits first.
fn limbs(digits: &[u8]) -> Vec<u64> {
    let mut limbs: Vec<u64> = Vec::with_capacity(digits.len() / LIMB_DIGITS + 1);
    for digits in digits.chunks(LIMB_DIGITS) {
        let (mut scale, mut carry) = (1, 0);
        for digit in digits {
            scale *= 10;
            carry = carry * 10 + u128::from(digit - b'0');
        }
        for limb in &mut limbs {
            let [high, low] = halves(u128::from(*limb) * scale + carry);
            (*limb, carry) = (low, u128::from(high));
        }
        if carry > 0 {
            let [_, low] = halves(carry);
            limbs.push(low);
        }
    }
    limbs
}

/// The high and the low 64 bits.
fn halves(number: u128) -> [u64; 2] {
    [number >> 64, number & u128::from(u64::MAX)]
        .map(|half| u64::try_from(half).expect("half of 128 bits"))
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
const TOO_LONG: Invalid = Invalid("is an integer of more than 10000 digits");
const SHORT_DIGITS_MAX: u8 = 100;
/// Decimal digits that 64 bits surely hold.
const LIMB_DIGITS: usize = 18;
