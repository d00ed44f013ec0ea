//! Values of policy entries and of account state, as text.

use std::time::Duration;

use environment::Timestamp;
use schema::{AttributeDescription, EntryRead, Schema};

/// The first value of an attribute as text.
pub(super) fn text(entry: &dyn EntryRead, schema: &Schema, name: &str) -> Option<String> {
    let mut found = None;
    visit(entry, schema, name, &mut |value| {
        found = Some(value.to_owned());
        false
    });
    found
}

/// Calls `visit` with each value that is text, until it says to stop.
pub(super) fn visit(
    entry: &dyn EntryRead,
    schema: &Schema,
    name: &str,
    visit: &mut dyn FnMut(&str) -> bool,
) {
    let Ok(description) = schema.describe(name) else { return };
    let description: &AttributeDescription = &description;
    entry.visit_values(description, &mut |_, value| {
        std::str::from_utf8(value).map_or(true, &mut *visit)
    });
}

/// A GeneralizedTime in UTC (RFC 4517 §3.3.13), with or without a fraction.
pub fn time(text: &str) -> Option<Timestamp> {
    let digits = text.strip_suffix('Z')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
    if whole.len() != 14 || !is_plain(whole) || !is_plain(fraction) || fraction.len() > 9 {
        return None;
    }
    let number = |from: usize, to: usize| whole.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_from_civil(year, month, day)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    let micros = format!("{fraction:0<6}").get(..6)?.parse::<u64>().ok()?;
    Some(Timestamp(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
}

/// Days from 1970-01-01 to a date; `None` before it. The year is counted from March, so that the
/// leap day is its last.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    (era * 146_097 + of_era).checked_sub(719_468)
}

/// The moment so much later; the last one there is when that is beyond.
pub(super) fn after(moment: Timestamp, length: Duration) -> Timestamp {
    let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    Timestamp(moment.0.saturating_add(micros))
}

/// How long it is from one moment to a later one; nothing when it is not later.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_micros(to.0.saturating_sub(from.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for seconds in [0, 951_782_400, 951_868_799, 1_767_225_600, 4_102_444_799] {
            let moment = Timestamp(seconds * 1_000_000);
            assert_eq!(time(&moment.generalized_time()), Some(moment));
        }
        assert_eq!(time("20260101000000.5Z"), Some(Timestamp(1_767_225_600_500_000)));
        assert_eq!(time("20260101000000.123456789Z"), Some(Timestamp(1_767_225_600_123_456)));
        for other in ["", "Z", "20260101000000", "20261301000000Z", "2026010100000Z", "0000Zäää"]
        {
            assert_eq!(time(other), None, "{other}");
        }
        // Before 1970: the value that stands for "for ever" is looked for by its text.
        assert_eq!(time("000001010000Z"), None);
        assert_eq!(time("19691231235959Z"), None);
    }
}
