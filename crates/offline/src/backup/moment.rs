//! Points in time as an operator writes and reads them.
//!
//! Invariant: what [`Moment`] prints, it reads, to the microsecond.

use std::fmt;
use std::str::FromStr;

use environment::Timestamp;
use serde::{Deserialize, Serialize};

/// A point in time, to the microsecond; written as in RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(Timestamp);

impl Moment {
    /// From microseconds since 1970; what is later than the year 9999 is its end.
    pub const fn from_micros(micros: u64) -> Self {
        Self(Timestamp(if micros < MICROS_MAX { micros } else { MICROS_MAX }))
    }

    /// Microseconds since 1970.
    pub const fn micros(self) -> u64 {
        self.0.0
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.compact();
        let part = |from, to| text.get(from..to).unwrap_or_default();
        write!(f, "{}-{}-{}", part(0, 4), part(4, 6), part(6, 8))?;
        write!(f, "T{}:{}:{}", part(8, 10), part(10, 12), part(12, 14))?;
        write!(f, ".{:06}Z", self.0.0 % MICROS)
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.to_string()
    }
}

impl TryFrom<String> for Moment {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Reads a GeneralizedTime (RFC 4517 §3.3.13), such as `20260131235959.5Z`, or the form of
/// RFC 3339, such as `2026-01-31T23:59:59.5+01:00`.
///
/// A zone is needed: a local time would be a guess. A time given to the second, or less exactly,
/// means its first instant.
impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut reader = Reader(text.as_bytes());
        let year = reader.number(4)?;
        let has_dashes = reader.take(b'-');
        let month = reader.number(2)?;
        if has_dashes && !reader.take(b'-') {
            return Err(NOT_A_TIME);
        }
        let day = reader.number(2)?;
        let seconds = if has_dashes { reader.extended_time()? } else { reader.basic_time()? };
        let fraction = reader.fraction()?;
        let offset = reader.zone()?;
        if !reader.0.is_empty() || year < 1970 {
            return Err(NOT_A_TIME);
        }
        let days = days_since_1970(year, month, day).ok_or(NOT_A_TIME)?;
        let seconds = (days * SECONDS_PER_DAY + seconds).checked_add_signed(-offset);
        let micros = seconds.ok_or(NOT_A_TIME)? * MICROS + fraction;
        if micros > MICROS_MAX { Err(NOT_A_TIME) } else { Ok(Self::from_micros(micros)) }
    }
}

struct Reader<'t>(&'t [u8]);

impl Reader<'_> {
    fn take(&mut self, wanted: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if first.eq_ignore_ascii_case(&wanted) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn number(&mut self, digits: usize) -> Result<u64, &'static str> {
        let (number, rest) = self.0.split_at_checked(digits).ok_or(NOT_A_TIME)?;
        self.0 = rest;
        number.iter().try_fold(0, |sum, digit| match digit {
            b'0'..=b'9' => Ok(sum * 10 + u64::from(digit - b'0')),
            _ => Err(NOT_A_TIME),
        })
    }

    fn at_most(&mut self, max: u64) -> Result<u64, &'static str> {
        self.number(2).and_then(|number| if number <= max { Ok(number) } else { Err(NOT_A_TIME) })
    }

    /// `Thh:mm:ss` in seconds; a space may stand for the T.
    fn extended_time(&mut self) -> Result<u64, &'static str> {
        if !self.take(b'T') && !self.take(b' ') {
            return Err(NOT_A_TIME);
        }
        let hours = self.at_most(23)?;
        let minutes = if self.take(b':') { self.at_most(59)? } else { return Err(NOT_A_TIME) };
        let seconds = if self.take(b':') { self.at_most(60)? } else { return Err(NOT_A_TIME) };
        Ok(hours * 3600 + minutes * 60 + seconds)
    }

    /// `hh`, `hhmm` or `hhmmss` in seconds.
    fn basic_time(&mut self) -> Result<u64, &'static str> {
        let mut seconds = self.at_most(23)? * 3600;
        for (unit, max) in [(60, 59), (1, 60)] {
            if self.0.first().is_some_and(u8::is_ascii_digit) {
                seconds += self.at_most(max)? * unit;
            } else if matches!(self.0.first(), Some(b'.' | b',')) {
                // A fraction of an hour or a minute is allowed, and nobody's wish.
                return Err(NOT_A_TIME);
            }
        }
        Ok(seconds)
    }

    /// Microseconds; digits after the sixth do not count.
    fn fraction(&mut self) -> Result<u64, &'static str> {
        if !self.take(b'.') && !self.take(b',') {
            return Ok(0);
        }
        let digits = self.0.iter().take_while(|digit| digit.is_ascii_digit()).count();
        if digits == 0 {
            return Err(NOT_A_TIME);
        }
        let counted = digits.min(6);
        let number = self.number(counted)?;
        self.0 = self.0.get(digits - counted..).unwrap_or_default();
        Ok(number * 10_u64.pow(u32::try_from(6 - counted).unwrap_or(0)))
    }

    /// The offset from UTC in seconds: `Z`, `+hh`, `+hhmm` or `+hh:mm`.
    fn zone(&mut self) -> Result<i64, &'static str> {
        if self.take(b'Z') {
            return Ok(0);
        }
        let sign = if self.take(b'+') {
            1
        } else if self.take(b'-') {
            -1
        } else {
            return Err(NO_ZONE);
        };
        let hours = self.at_most(23)?;
        self.take(b':');
        let minutes = if self.0.is_empty() { 0 } else { self.at_most(59)? };
        Ok(sign * i64::try_from(hours * 3600 + minutes * 60).unwrap_or(0))
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, from 1970 on.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let at = usize::try_from(month).ok()?.checked_sub(1)?;
    if !(1..=*lengths.get(at)?).contains(&day) {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    Some(years + lengths.iter().take(at).sum::<u64>() + day - 1)
}

const MICROS: u64 = 1_000_000;
/// The last microsecond of the year 9999.
const MICROS_MAX: u64 = 253_402_300_799_999_999;
const SECONDS_PER_DAY: u64 = 86_400;
const NOT_A_TIME: &str = "is not a time such as 2026-01-31T23:59:59Z or 20260131235959Z";
const NO_ZONE: &str = "has no time zone: it ends with Z, or with an offset such as +01:00";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(text.parse::<Moment>().map(|moment| moment.to_string()), Ok(want.to_owned()));
        assert_eq!(want.parse::<Moment>().map(|moment| moment.to_string()), Ok(want.to_owned()));
    }

    #[test]
    fn both_forms_are_read() {
        check("20260131235959Z", "2026-01-31T23:59:59.000000Z");
        check("20260131235959.25Z", "2026-01-31T23:59:59.250000Z");
        check("2026013123Z", "2026-01-31T23:00:00.000000Z");
        check("202601312359+0130", "2026-01-31T22:29:00.000000Z");
        check("2026-01-31T23:59:59Z", "2026-01-31T23:59:59.000000Z");
        check("2026-01-31t23:59:59,1234567z", "2026-01-31T23:59:59.123456Z");
        check("2026-01-31 23:59:59.9-01:00", "2026-02-01T00:59:59.900000Z");
        check("2024-02-29T12:00:00+01", "2024-02-29T11:00:00.000000Z");
        check("19700101000000Z", "1970-01-01T00:00:00.000000Z");
        check("21000301000000Z", "2100-03-01T00:00:00.000000Z");
        check("20001231235960Z", "2001-01-01T00:00:00.000000Z");
        check("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z");
        assert_eq!(Moment::from_micros(u64::MAX).to_string(), "9999-12-31T23:59:59.999999Z");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "now",
            "20260131",
            "2026-01-31",
            "20261331000000Z",
            "20260230000000Z",
            "21000229000000Z",
            "20260131240000Z",
            "20260131235959.Z",
            "2026013123.5Z",
            "19691231235959Z",
            "19700101000000+0100",
            "2026-01-31T23:59Z",
            "9999-12-31T23:59:59-01:00",
            "20260131235959Zx",
            "2026-0131T23:59:59Z",
        ] {
            assert_eq!(text.parse::<Moment>(), Err(NOT_A_TIME), "{text}");
        }
        for text in ["20260131235959", "2026-01-31T23:59:59"] {
            assert_eq!(text.parse::<Moment>(), Err(NO_ZONE), "{text}");
        }
    }
}
