//! The text forms that hashes are stored in: base64 in its dialects, `$`-separated fields.
//!
//! Invariant: total and bounded; what is not well formed gives `None`.

use base64::Engine as _;
use base64::alphabet::{self, Alphabet};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Base64 without padding, as written; padding and stray last bits are accepted when read.
pub(super) const BASE64: GeneralPurpose = lenient(&alphabet::STANDARD, false);

/// Base64 with padding, as most servers write it; padding may be missing when read.
pub(super) const BASE64_PADDED: GeneralPurpose = lenient(&alphabet::STANDARD, true);

/// The alphabet of bcrypt.
pub(super) const BASE64_BCRYPT: GeneralPurpose = lenient(&alphabet::BCRYPT, false);

const fn lenient(alphabet: &Alphabet, pads: bool) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true)
        .with_encode_padding(pads);
    GeneralPurpose::new(alphabet, config)
}

/// Base64 with or without padding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// The adapted base64 of Passlib and OpenLDAP: `.` stands for `+`, and there is no padding.
pub(super) fn decode_adapted(text: &str) -> Option<Vec<u8>> {
    decode(&text.replace('.', "+"))
}

/// Writes what [`decode_adapted`] reads.
pub(super) fn encode_adapted(octets: &[u8]) -> String {
    BASE64.encode(octets).replace('+', ".")
}

/// The base64 of crypt(3): the first character holds the lowest six bits.
pub(super) fn decode_crypt(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    for group in text.as_bytes().chunks(4) {
        let mut number = 0_u32;
        for (place, letter) in group.iter().enumerate() {
            number |= crypt_digit(*letter)? << (6 * place);
        }
        let whole = number.to_le_bytes();
        octets.extend_from_slice(whole.get(..group.len() - 1)?);
    }
    Some(octets)
}

/// Writes what [`decode_crypt`] reads.
pub(super) fn encode_crypt(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len() * 4 / 3 + 2);
    for group in octets.chunks(3) {
        let number =
            group.iter().rev().fold(0_u32, |number, octet| number << 8 | u32::from(*octet));
        for place in 0..=group.len() {
            let digit = (number >> (6 * place)) as usize & 63;
            text.push(CRYPT_LETTERS.get(digit).copied().map_or('.', char::from));
        }
    }
    text
}

/// What one character of crypt(3)'s base64 stands for.
pub(super) fn crypt_digit(letter: u8) -> Option<u32> {
    CRYPT_LETTERS.iter().position(|known| *known == letter).and_then(|at| u32::try_from(at).ok())
}

/// The number after `name=` in a list such as `m=65536,t=2,p=1`.
pub(super) fn parameter(list: &str, name: &str) -> Option<u32> {
    list.split(',').find_map(|item| item.strip_prefix(name)?.strip_prefix('=').and_then(number))
}

/// A number of decimal digits, and nothing else.
pub(super) fn number(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

const CRYPT_LETTERS: &[u8; 64] =
    b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base64_of_crypt_is_read_as_written() {
        for length in 0..40_u8 {
            let octets = (0..length).map(|octet| octet.wrapping_mul(89)).collect::<Vec<_>>();
            assert_eq!(decode_crypt(&encode_crypt(&octets)).unwrap(), octets);
            assert_eq!(decode_adapted(&encode_adapted(&octets)).unwrap(), octets);
        }
        assert_eq!(decode_crypt("a!"), None);
        assert_eq!(decode_crypt("ä"), None);
    }

    #[test]
    fn numbers_are_digits() {
        assert_eq!(number("4096"), Some(4096));
        for other in ["", "+1", "-1", " 1", "1 ", "4294967296", "x"] {
            assert_eq!(number(other), None, "{other}");
        }
        assert_eq!(parameter("m=64,t=2,p=1", "t"), Some(2));
        assert_eq!(parameter("m=64,t=2,p=1", "x"), None);
    }
}
