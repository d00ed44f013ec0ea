//! Times as people write and read them.

use std::time::Duration;

use directory::password_policy::time;
use environment::{Clock as _, SystemClock, Timestamp};

/// Now, by the clock of this machine.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}

/// So much later than now.
pub(crate) fn from_now(length: Duration) -> Timestamp {
    let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    Timestamp(now().0.saturating_add(micros))
}

/// So much before now.
pub(crate) fn before_now(length: Duration) -> Timestamp {
    let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    Timestamp(now().0.saturating_sub(micros))
}

/// `2027-01-31`, `2027-01-31T18:00:00Z`, or a GeneralizedTime.
pub(crate) fn parsed(text: &str) -> Result<Timestamp, String> {
    let mut digits: String = text.chars().filter(|letter| !"-:TZ ".contains(*letter)).collect();
    for part in ["00", "00", "00"] {
        if digits.len() < 14 {
            digits.push_str(part);
        }
    }
    digits.push('Z');
    time(&digits)
        .ok_or_else(|| "expected a time such as 2027-01-31 or 2027-01-31T18:00:00Z".to_owned())
}

/// `30d`, `12h`, `90m`, `3600s`.
pub(crate) fn length(text: &str) -> Result<Duration, String> {
    let bad = || "expected a duration such as 30d, 12h, 90m or 3600s".to_owned();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(bad()),
    };
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(bad)
}

/// A GeneralizedTime of the server, and how far it is from now.
pub(crate) fn told(text: &str, now: Timestamp) -> String {
    let Some(moment) = time(text) else { return text.to_owned() };
    let written = written(text);
    let distance = Duration::from_micros(moment.0.abs_diff(now.0));
    let distance = rough(distance);
    match moment < now {
        _ if distance.is_empty() => format!("{written} UTC (now)"),
        true => format!("{written} UTC ({distance} ago)"),
        false => format!("{written} UTC (in {distance})"),
    }
}

/// A GeneralizedTime of the server, to the minute.
pub(crate) fn written(text: &str) -> String {
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let date = format!("{}-{}-{}", part(0, 4), part(4, 6), part(6, 8));
    format!("{date} {}:{}", part(8, 10), part(10, 12))
}

/// A length as people say it; nothing below a second.
pub(crate) fn rough(length: Duration) -> String {
    let seconds = length.as_secs();
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    // Two days and more are days: 26 hours are told as hours.
    let unit = units
        .into_iter()
        .find(|(size, name)| seconds >= if *name == "second" { 1 } else { 2 * size });
    let Some((size, name)) = unit else { return String::new() };
    let count = seconds / size;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, want) in [
            ("2027-01-31", "20270131000000Z"),
            ("2027-01-31T18:30:00Z", "20270131183000Z"),
            ("2027-01-31 18:30", "20270131183000Z"),
            ("20270131183000Z", "20270131183000Z"),
        ] {
            assert_eq!(parsed(text).unwrap().generalized_time(), want, "{text}");
        }
        for text in ["", "soon", "2027-13-01", "tomorrow"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_have_a_unit() {
        for (text, want) in [("30d", 2_592_000), ("12h", 43_200), ("90m", 5_400), ("5s", 5)] {
            assert_eq!(length(text).unwrap(), Duration::from_secs(want), "{text}");
        }
        for text in ["", "5", "d", "5y", "99999999999999999d"] {
            assert!(length(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_told_with_its_distance() {
        let now = time("20270101000000Z").unwrap();
        for (text, want) in [
            ("20270131000000Z", "2027-01-31 00:00 UTC (in 30 days)"),
            ("20261231220000Z", "2026-12-31 22:00 UTC (2 hours ago)"),
            ("20270101000000Z", "2027-01-01 00:00 UTC (now)"),
            ("20270101000001Z", "2027-01-01 00:00 UTC (in 1 second)"),
            ("20270102010000Z", "2027-01-02 01:00 UTC (in 25 hours)"),
            ("later", "later"),
        ] {
            assert_eq!(told(text, now), want);
        }
    }
}
