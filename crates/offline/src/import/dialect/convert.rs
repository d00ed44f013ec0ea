//! Values of other servers in the form that this server's types want.
//!
//! Invariant: total; what has not exactly the form that is expected gives `None`, never a guess.

use std::fmt::Write as _;

use auth::password;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use environment::Timestamp;

/// Another form of a value; `None` when it has none.
pub(super) type Convert = fn(&[u8]) -> Option<Vec<u8>>;

/// `66446001-1dd211b2-80e8c3ec-d6e2e5c6` of 389 and Sun servers, `D8A2…` of Oracle's, as a UUID.
pub(super) fn uuid_from_digits(value: &[u8]) -> Option<Vec<u8>> {
    let mut octets = [0; 16];
    let mut digits = value.iter().filter(|octet| **octet != b'-');
    for octet in &mut octets {
        *octet = (hex(*digits.next()?)? << 4) | hex(*digits.next()?)?;
    }
    match digits.next() {
        None if value.len() <= UUID_TEXT_BYTES => Some(uuid_text(octets)),
        None | Some(_) => None,
    }
}

/// Sixteen octets, first octet first, as a UUID.
pub(super) fn uuid_from_octets(value: &[u8]) -> Option<Vec<u8>> {
    value.try_into().ok().map(uuid_text)
}

/// An objectGUID: the first three groups have their last octet first ([MS-DTYP] §2.3.4.2).
pub(super) fn uuid_from_guid(value: &[u8]) -> Option<Vec<u8>> {
    let mut octets: [u8; 16] = value.try_into().ok()?;
    for group in [0..4, 4..6, 6..8] {
        octets.get_mut(group)?.reverse();
    }
    Some(uuid_text(octets))
}

/// A time without its fraction of zeros and with a large `Z`: `20240131120000.0Z` of Active
/// Directory, `20240131120000z` of Oracle's.
pub(super) fn time(value: &[u8]) -> Option<Vec<u8>> {
    let (Some(b'Z' | b'z'), true) = (value.last(), value.len() <= TIME_MAX_BYTES) else {
        return None;
    };
    let digits = value.get(..value.len() - 1)?;
    let point = digits.iter().position(|octet| *octet == b'.').unwrap_or(digits.len());
    let (whole, fraction) = digits.split_at(point);
    let is_whole = matches!(whole.len(), 10 | 12 | 14) && whole.iter().all(u8::is_ascii_digit);
    let fraction = match fraction {
        [] => fraction,
        [_, rest @ ..] if rest.iter().all(|octet| *octet == b'0') => b"",
        [_, rest @ ..] if rest.iter().all(u8::is_ascii_digit) => fraction,
        _ => return None,
    };
    is_whole.then(|| [whole, fraction, b"Z"].concat())
}

/// [`time`], where it changes something.
pub(super) fn other_time(value: &[u8]) -> Option<Vec<u8>> {
    // Nearly all are as they should be.
    if value.len() == 15 && value.ends_with(b"Z") {
        return None;
    }
    time(value).filter(|changed| changed != value)
}

/// Ticks of 100 nanoseconds since 1601, as Active Directory counts; its "never" has no other form.
pub(super) fn time_from_ticks(value: &[u8]) -> Option<Vec<u8>> {
    let ticks: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    let micros = (ticks / 10).checked_sub(MICROS_FROM_1601_TO_1970)?;
    (micros < MICROS_TO_10000).then(|| Timestamp(micros).generalized_time().into_bytes())
}

/// A CSN of 389 and Sun servers: seconds, count, replica and subcount in hexadecimal.
pub(super) fn csn_from_389(value: &[u8]) -> Option<Vec<u8>> {
    let number = hexadecimal::<20>(value)?;
    let part = |from_right: u32, bits: u32| (number >> from_right) & ((1 << bits) - 1);
    let micros = u64::try_from(part(48, 32)).ok()?.checked_mul(1_000_000)?;
    csn_text(micros, part(32, 16), part(16, 16), part(0, 16))
}

/// A CSN of OpenDJ: milliseconds, server and count in hexadecimal.
pub(super) fn csn_from_opendj(value: &[u8]) -> Option<Vec<u8>> {
    let number = hexadecimal::<28>(value)?;
    let part = |from_right: u32, bits: u32| (number >> from_right) & ((1 << bits) - 1);
    let micros = u64::try_from(part(48, 64)).ok()?.checked_mul(1000)?;
    csn_text(micros, part(0, 32), part(32, 16), 0)
}

/// The CSN in a value of ds-sync-hist: `attribute:csn:operation:value`.
pub(super) fn csn_from_history(value: &[u8]) -> Option<Vec<u8>> {
    csn_from_opendj(value.split(|octet| *octet == b':').nth(1)?)
}

/// A CSN of OpenLDAP before 2.4: `20060101000000Z#000001#00#000000`, without microseconds.
pub(super) fn csn_from_old_openldap(value: &[u8]) -> Option<Vec<u8>> {
    if value.len() != 32 {
        return None;
    }
    let mut parts = value.split(|octet| *octet == b'#');
    let (moment, count) = (parts.next()?, parts.next()?);
    let (server, change) = (parts.next()?, parts.next()?);
    let all_hex = [count, server, change].concat().iter().all(u8::is_ascii_hexdigit);
    let sizes = (moment.len(), count.len(), server.len(), change.len());
    if parts.next().is_some() || sizes != (15, 6, 2, 6) || !all_hex {
        return None;
    }
    let (digits, zone) = moment.split_at_checked(14)?;
    let is_time = zone == b"Z" && digits.iter().all(u8::is_ascii_digit);
    is_time.then(|| [digits, b".000000Z#", count, b"#0", server, b"#", change].concat())
}

/// A former password of 389 and Sun servers, `20240131120000Z{SSHA}…`, as pwdHistory has it: time,
/// syntax, length and value.
pub(super) fn history_from_389(value: &[u8]) -> Option<Vec<u8>> {
    let (moment, hash) = value.split_at_checked(15)?;
    let is_time = time(moment).is_some_and(|same| same == moment);
    if !is_time || !hash.starts_with(b"{") {
        return None;
    }
    let head = format!("#{OCTET_STRING}#{}#", hash.len());
    Some([moment, head.as_bytes(), hash].concat())
}

/// `true` when an account is switched off, by a Boolean in any case.
pub(super) fn lock_from_boolean(value: &[u8]) -> Option<Vec<u8>> {
    value.eq_ignore_ascii_case(b"true").then(|| b"true".to_vec())
}

/// `true` when Oracle's orclIsEnabled says DISABLED or INACTIVE.
pub(super) fn lock_from_enabled(value: &[u8]) -> Option<Vec<u8>> {
    let off = [b"disabled".as_slice(), b"inactive"];
    off.into_iter().any(|word| value.eq_ignore_ascii_case(word)).then(|| b"true".to_vec())
}

/// `true` when Active Directory's userAccountControl has the flag ACCOUNTDISABLE.
pub(super) fn lock_from_control(value: &[u8]) -> Option<Vec<u8>> {
    const ACCOUNT_DISABLE: i64 = 2;
    let flags: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    (flags & ACCOUNT_DISABLE != 0).then(|| b"true".to_vec())
}

/// A hashed password that can be verified here.
pub(super) fn verifiable_password(value: &[u8]) -> Option<Vec<u8>> {
    password::is_hashed(value).then(|| value.to_vec())
}

/// The password itself where the scheme says that it is not hashed.
pub(super) fn plain_password(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = scheme_of(value)?;
    let is = |name: &str| scheme.eq_ignore_ascii_case(name.as_bytes());
    if is("CLEAR") || is("CLEARTEXT") {
        Some(rest.to_vec())
    } else if is("BASE64") {
        STANDARD.decode(rest).ok()
    } else {
        None
    }
}

/// `{NAME}rest` → (NAME, rest); `None` for what is no password with a scheme.
pub(super) fn scheme_of(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = value.strip_prefix(b"{")?;
    let end = rest.iter().take(SCHEME_MAX_BYTES + 1).position(|octet| *octet == b'}')?;
    let (name, rest) = rest.split_at_checked(end)?;
    let is_name =
        |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'/' | b' ');
    let is_scheme = !name.is_empty() && name.iter().all(is_name);
    is_scheme.then_some((name, rest.strip_prefix(b"}")?))
}

fn uuid_text(octets: [u8; 16]) -> Vec<u8> {
    let mut text = String::with_capacity(UUID_TEXT_BYTES);
    for (at, octet) in octets.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{octet:02x}").expect("a string takes all");
    }
    text.into_bytes()
}

/// Replica numbers of four digits keep their last three: there is no place for more.
fn csn_text(micros: u64, count: u128, replica: u128, change: u128) -> Option<Vec<u8>> {
    if micros >= MICROS_TO_10000 {
        return None;
    }
    let (moment, micro) = (Timestamp(micros).compact(), micros % 1_000_000);
    let (count, replica) = (count & 0xff_ffff, replica & 0xfff);
    Some(format!("{moment}.{micro:06}Z#{count:06x}#{replica:03x}#{change:06x}").into_bytes())
}

/// The number that exactly `DIGITS` digits in hexadecimal stand for.
fn hexadecimal<const DIGITS: usize>(value: &[u8]) -> Option<u128> {
    let digits: &[u8; DIGITS] = value.try_into().ok()?;
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | u128::from(hex(*digit)?)))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

const UUID_TEXT_BYTES: usize = 36;
/// No GeneralizedTime of any server is longer.
const TIME_MAX_BYTES: usize = 32;
/// The longest name of a password scheme.
const SCHEME_MAX_BYTES: usize = 40;
const MICROS_FROM_1601_TO_1970: u64 = 11_644_473_600_000_000;
const MICROS_TO_10000: u64 = 253_402_300_800_000_000;
const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(how: Convert, value: impl AsRef<[u8]>, want: Option<&str>) {
        let found = how(value.as_ref()).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(found.as_deref(), want);
    }

    #[test]
    fn identifiers_become_uuids() {
        let want = Some("66446001-1dd2-11b2-80e8-c3ecd6e2e5c6");
        check(uuid_from_digits, "66446001-1dd211b2-80e8c3ec-d6e2e5c6", want);
        check(uuid_from_digits, "664460011DD211B280E8C3ECD6E2E5C6", want);
        check(uuid_from_digits, "664460011DD211B280E8C3ECD6E2E5C", None);
        check(uuid_from_digits, "664460011DD211B280E8C3ECD6E2E5C67", None);
        check(uuid_from_digits, "664460011DD211B280E8C3ECD6E2E5CG", None);
        check(uuid_from_digits, "-".repeat(100), None);
        let octets: Vec<u8> = (0..16).collect();
        check(uuid_from_octets, &octets, Some("00010203-0405-0607-0809-0a0b0c0d0e0f"));
        check(uuid_from_guid, &octets, Some("03020100-0504-0706-0809-0a0b0c0d0e0f"));
        check(uuid_from_guid, &octets[1..], None);
    }

    #[test]
    fn times_become_generalized_times() {
        check(time, "20240131120000.0Z", Some("20240131120000Z"));
        check(time, "20240131120000.000Z", Some("20240131120000Z"));
        check(time, "20240131120000.123Z", Some("20240131120000.123Z"));
        check(time, "20240131120000z", Some("20240131120000Z"));
        check(other_time, "20240131120000Z", None);
        check(other_time, "20240131120000z", Some("20240131120000Z"));
        for wrong in ["", "Z", "2024Z", "20240131120000", "20240131120000+0100", "never", ".Z"] {
            check(time, wrong, None);
        }
        check(time_from_ticks, "133511328000000000", Some("20240131000000Z"));
        for never in ["0", "9223372036854775807", "-1", "", "1e3"] {
            check(time_from_ticks, never, None);
        }
    }

    #[test]
    fn change_numbers_become_csns() {
        let want = Some("20191211144022.000000Z#000002#001#000003");
        check(csn_from_389, "5df0ffd6000200010003", want);
        check(csn_from_389, "5df0ffd600020001000", None);
        check(csn_from_389, "5df0ffd60002000100033", None);
        let want = Some("20051216065239.419000Z#000001#002#000000");
        check(csn_from_opendj, "000001083257787b000200000001", want);
        check(csn_from_history, "cn:000001083257787b000200000001:repl:x", want);
        check(csn_from_history, "dn:000001083257787b000200000001:add", want);
        check(csn_from_history, "cn", None);
        check(csn_from_opendj, "ffffffffffffffff000200000001", None);
        let want = Some("20060101000000.000000Z#000001#000#000000");
        check(csn_from_old_openldap, "20060101000000Z#000001#00#000000", want);
        check(csn_from_old_openldap, "20060101000000.000000Z#000001#000#000000", None);
    }

    #[test]
    fn passwords_and_locks() {
        check(
            history_from_389,
            "20240131120000Z{SSHA}abcd",
            Some("20240131120000Z#1.3.6.1.4.1.1466.115.121.1.40#10#{SSHA}abcd"),
        );
        check(history_from_389, "20240131120000Z#1.2#4#abcd", None);
        check(lock_from_boolean, "TRUE", Some("true"));
        check(lock_from_boolean, "false", None);
        check(lock_from_enabled, "DISABLED", Some("true"));
        check(lock_from_enabled, "ENABLED", None);
        check(lock_from_control, "514", Some("true"));
        check(lock_from_control, "512", None);
        check(plain_password, "{clear}secret", Some("secret"));
        check(plain_password, "{BASE64}c2VjcmV0", Some("secret"));
        check(plain_password, "{BCRYPT}$2b$08$abc", None);
        check(plain_password, "{SSHA}abc", None);
        assert_eq!(
            scheme_of(b"{X- ORCLNTV}abc"),
            Some((b"X- ORCLNTV".as_slice(), b"abc".as_slice()))
        );
        assert_eq!(scheme_of(b"{not a scheme!}abc"), None);
        assert_eq!(scheme_of(b"{}abc"), None);
    }
}
