//! Time, as a parameter.

use std::time::{Duration, Instant, SystemTime};

use jiff::tz::TimeZone;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// `YYYYmmddHHMMSS` of this moment in UTC (the date part of RFC 4517 §3.3.13).
    pub fn compact(self) -> String {
        let (year, month, day) = civil_from_days(self.seconds() / SECONDS_PER_DAY);
        let second = self.seconds() % SECONDS_PER_DAY;
        let mut text = String::with_capacity(GENERALIZED_TIME_BYTES);
        push_digits::<10>(&mut text, year, 4);
        for part in [month, day, second / 3600, second / 60 % 60, second % 60] {
            push_digits::<10>(&mut text, part, 2);
        }
        text
    }

    /// A GeneralizedTime of whole seconds (RFC 4517 §3.3.13), as in `createTimestamp`.
    pub fn generalized_time(self) -> String {
        let mut text = self.compact();
        text.push('Z');
        text
    }
}

/// `YYYYmmddHHMMSSZ`.
const GENERALIZED_TIME_BYTES: usize = 15;

/// Writes a number with at least so many digits, of base 10 or 16 in lower case: what the
/// formatting of the standard library does, which takes a tenth of the instructions of a stamp.
pub fn push_digits<const BASE: u64>(text: &mut String, number: u64, width: u32) {
    let digit = |value: u64| char::from_digit((value % BASE) as u32, BASE as u32).unwrap_or('0');
    let mut unit = BASE.pow(width.saturating_sub(1));
    while number / BASE >= unit {
        unit *= BASE;
    }
    while unit > 0 {
        text.push(digit(number / unit));
        unit /= BASE;
    }
}

/// What tells the time.
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;
    /// A clock that never goes back, for time limits; its zero is arbitrary.
    fn elapsed(&self) -> Duration;
    /// Seconds that clocks on the wall are ahead of UTC at a moment; none when that is not known.
    fn offset_s(&self, _at: Timestamp) -> Option<i32> {
        Some(0)
    }
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    /// The time zone of the process: `TZ`, or that of the machine. None when `TZ` names one that
    /// is not there.
    zone: Option<TimeZone>,
}

impl SystemClock {
    /// A clock whose `elapsed` starts now. The time zone stays what it is now.
    #[allow(clippy::disallowed_methods, reason = "this is the one place where time comes in")]
    pub fn new() -> Self {
        let named = std::env::var_os("TZ").is_some_and(|name| !name.is_empty());
        let zone = match TimeZone::try_system() {
            Ok(zone) => Some(zone),
            // A machine without a zone has the one of the C library.
            Err(_) if !named => Some(TimeZone::UTC),
            Err(error) => {
                tracing::warn!(%error, "the time zone in TZ does not exist");
                None
            }
        };
        Self { started: Instant::now(), zone }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place where time comes in")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn offset_s(&self, at: Timestamp) -> Option<i32> {
        let at = jiff::Timestamp::from_second(i64::try_from(at.seconds()).ok()?).ok()?;
        Some(self.zone.as_ref()?.to_offset(at).seconds())
    }
}

/// Days since 1970-01-01 to a proleptic Gregorian date. The year is counted from March, so that
/// the leap day is its last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + DAYS_FROM_0000_03_01_TO_1970_01_01;
    let era = shifted / DAYS_PER_400_YEARS;
    let day_of_era = shifted % DAYS_PER_400_YEARS;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

const SECONDS_PER_DAY: u64 = 86_400;
const DAYS_PER_400_YEARS: u64 = 146_097;
const DAYS_FROM_0000_03_01_TO_1970_01_01: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: u64, want: &str) {
        assert_eq!(Timestamp(seconds * 1_000_000).generalized_time(), want);
    }

    #[test]
    fn dates_are_gregorian() {
        check(0, "19700101000000Z");
        check(951_782_399, "20000228235959Z");
        check(951_782_400, "20000229000000Z");
        check(951_868_800, "20000301000000Z");
        check(1_709_164_800, "20240229000000Z");
        check(1_735_689_599, "20241231235959Z");
        check(4_107_542_400, "21000301000000Z");
        check(4_102_444_800, "21000101000000Z");
        check(253_402_300_800, "100000101000000Z");
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        for number in [0, 1, 9, 10, 15, 16, 99, 100, 0xabc, 0xfff, 0x1000, u64::MAX / 10, u64::MAX]
        {
            let (mut decimal, mut hexadecimal) = (String::new(), String::new());
            push_digits::<10>(&mut decimal, number, 3);
            push_digits::<16>(&mut hexadecimal, number, 3);
            assert_eq!((decimal, hexadecimal), (format!("{number:03}"), format!("{number:03x}")));
        }
    }
}
