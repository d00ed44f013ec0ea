//! The texts that pieces of a template stand for.

use crate::chance::Chance;

pub(super) fn push_escaped(out: &mut String, value: &str) {
    let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    if plain {
        out.push_str(value);
    } else {
        ldap::dn::escape_value(value.as_bytes(), out);
    }
}

/// The first RDNs of a DN.
pub(super) fn push_dn(out: &mut String, dn: &str, rdns_max: usize) {
    let rdns = super::split_unescaped(dn, ',').take(rdns_max);
    for (index, rdn) in rdns.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(rdn);
    }
}

/// Appends a number with at least so many digits; 0 has none of its own.
pub(super) fn push_number(out: &mut String, number: u64, digits_min: usize) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut rest = number;
    let mut start = DIGITS_MAX;
    for digit in digits.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        start -= 1;
    }
    for _ in DIGITS_MAX..digits_min {
        out.push('0');
    }
    let start = start.min(DIGITS_MAX.saturating_sub(digits_min));
    let digits = digits.get(start..).and_then(|digits| str::from_utf8(digits).ok());
    out.push_str(digits.unwrap_or_default());
}

pub(super) fn push_letters(
    out: &mut String,
    chance: &mut Chance,
    alphabet: &[char],
    length_min: u32,
    length_max: u32,
) {
    let length = if length_min == length_max {
        length_min
    } else {
        chance.between(u64::from(length_min), u64::from(length_max)) as u32
    };
    let count = alphabet.len() as u64;
    for _ in 0..length {
        out.extend(alphabet.get(chance.below(count) as usize));
    }
}

/// `+1 ddd ddd dddd`.
pub(super) fn push_telephone(out: &mut String, chance: &mut Chance) {
    let digits = chance.below(10_000_000_000);
    out.push_str("+1 ");
    push_number(out, digits / 10_000_000, 3);
    out.push(' ');
    push_number(out, digits / 10_000 % 1_000, 3);
    out.push(' ');
    push_number(out, digits % 10_000, 4);
}

/// A UUID of version 4 (RFC 9562 §5.4) from drawn bits.
pub(super) fn push_guid(out: &mut String, chance: &mut Chance) {
    let (high, low) = (chance.draw(), chance.draw());
    let high = high & !0xF000 | 0x4000;
    let low = low & !(0b11 << 62) | (0b10 << 62);
    let bits = u128::from(high) << 64 | u128::from(low);
    for digit in 0..32_u32 {
        if matches!(digit, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        let nibble = (bits >> (124 - 4 * digit)) & 0xF;
        out.extend(char::from_digit(nibble as u32, 16));
    }
}

/// Digits of the greatest number.
const DIGITS_MAX: usize = 20;
