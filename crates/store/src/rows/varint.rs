//! Unsigned integers in 1 to 10 bytes: seven bits a byte, least significant first, the high bit set
//! on all but the last (LEB128).

/// The longest form of a `u64`.
pub const VARINT_LENGTH_MAX_BYTES: usize = 10;

/// Appends `value`.
pub fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes an integer off the front of `bytes`; `None` when there is no whole one.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    read_long(bytes)
}

fn read_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().take(VARINT_LENGTH_MAX_BYTES).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if at == VARINT_LENGTH_MAX_BYTES - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte < 0x80 {
            *bytes = bytes.get(at + 1..)?;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_what_it_wrote(value: u64, shift in 0_u32..64, rest: Vec<u8>) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(value, &mut out);
            prop_assert!(out.len() <= VARINT_LENGTH_MAX_BYTES);
            out.extend_from_slice(&rest);
            let mut bytes = out.as_slice();
            prop_assert_eq!(read(&mut bytes), Some(value));
            prop_assert_eq!(bytes, rest);
        }
    }

    #[test]
    fn part_of_an_integer_is_none() {
        for bytes in [&[][..], &[0x80], &[0xff; 9], &[0xff; 10], &[0xff; 11]] {
            let mut rest = bytes;
            assert_eq!(read(&mut rest), None, "{bytes:?}");
        }
    }
}
