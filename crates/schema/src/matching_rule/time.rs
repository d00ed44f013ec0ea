//! Rules for times (RFC 4517 §3.3.13): normalized to UTC, fractions kept to the last digit.

use crate::prepare::Invalid;
use crate::schema::Schema;

/// The most digits of the fraction of a time.
const FRACTION_DIGITS_MAX: usize = 18;

pub(super) fn prepare(_: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    generalized_time(value, out)
}

/// Writes `YYYYMMDDhhmmss` in UTC and the digits of the fraction without zeros at the end.
pub(crate) fn generalized_time(value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let mut text = Text(value);
    let year = text.two()? * 100 + text.two()?;
    let mut time = text.date_and_hour(year)?;
    let mut seconds_in_unit = 3600;
    if text.at_digit() {
        (seconds_in_unit, time.minute) = (60, text.within(0, 59)?);
        if text.at_digit() {
            (seconds_in_unit, time.second) = (1, text.within(0, 60)?);
        }
    }
    let fraction = text.fraction()?;
    let offset_minutes = text.zone()?.ok_or(Invalid("has no time zone: it ends with 'Z'"))?;
    text.end()?;
    // At most 18 digits times 3600: fits in 128 bits.
    let scale = 10_u128.pow(fraction.digits);
    let scaled = u128::from(fraction.number) * seconds_in_unit;
    let seconds = u32::try_from(scaled / scale).expect("a fraction of an hour has few seconds");
    time.minute += seconds / 60;
    time.second += seconds % 60;
    time.shifted(-offset_minutes)?.write(out);
    write_fraction(scaled % scale, scale, out);
    Ok(())
}

/// Checks a UTC Time (RFC 4517 §3.3.34).
pub(crate) fn utc_time(value: &[u8]) -> Result<(), Invalid> {
    let mut text = Text(value);
    // Any year of a century that has leap years will do: the century is not said.
    let year = 2000 + text.two()?;
    text.date_and_hour(year)?;
    text.within(0, 59)?;
    if text.at_digit() {
        text.within(0, 59)?;
    }
    if matches!(text.0, [b'+' | b'-', _, _]) {
        return Err(NOT_A_TIME);
    }
    text.zone()?;
    text.end()
}

const NOT_A_TIME: Invalid = Invalid("is not a time such as 20260131235959Z");

/// A point in time, to the second.
#[derive(Clone, Copy)]
struct Time {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl Time {
    /// Moves it by some minutes; a leap second stays one.
    fn shifted(self, minutes: i32) -> Result<Self, Invalid> {
        if minutes == 0 {
            return Ok(self);
        }
        let day = days_from_civil(i64::from(self.year), i64::from(self.month), i64::from(self.day));
        let minute = i64::from(self.hour * 60 + self.minute);
        let total = day * 1440 + minute + i64::from(minutes);
        let (year, month, day) = civil_from_days(total.div_euclid(1440));
        let minute = total.rem_euclid(1440);
        if !(0..=9999).contains(&year) {
            return Err(Invalid("is outside of the years 0000 to 9999"));
        }
        let small = |part: i64| u32::try_from(part).expect("a part of a date is small");
        Ok(Self {
            year: small(year),
            month: small(month),
            day: small(day),
            hour: small(minute / 60),
            minute: small(minute % 60),
            second: self.second,
        })
    }

    fn write(self, out: &mut Vec<u8>) {
        let Self { year, month, day, hour, minute, second } = self;
        for two in [year / 100, year % 100, month, day, hour, minute, second] {
            out.push(digit(u128::from(two / 10)));
            out.push(digit(u128::from(two % 10)));
        }
    }
}

/// Writes the digits of `number / scale`, without zeros at the end.
fn write_fraction(number: u128, scale: u128, out: &mut Vec<u8>) {
    let (mut rest, mut scale) = (number, scale);
    while rest > 0 {
        scale /= 10;
        out.push(digit(rest / scale));
        rest %= scale;
    }
}

fn digit(number: u128) -> u8 {
    b'0' + u8::try_from(number % 10).expect("one digit")
}

/// Days since 1970-01-01 in the Gregorian calendar.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March, so that the leap day is the last day.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`]: year, month, day.
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

const fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `number` / 10 to the power of `digits`.
struct Fraction {
    number: u64,
    digits: u32,
}

/// What is left to read of a time.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn at_digit(&self) -> bool {
        self.0.first().is_some_and(u8::is_ascii_digit)
    }

    fn two(&mut self) -> Result<u32, Invalid> {
        let [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] = self.0 else {
            return Err(NOT_A_TIME);
        };
        self.0 = rest;
        Ok(u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
    }

    fn within(&mut self, min: u32, max: u32) -> Result<u32, Invalid> {
        let number = self.two()?;
        if (min..=max).contains(&number) {
            Ok(number)
        } else {
            Err(Invalid("has a part that is out of range"))
        }
    }

    fn date_and_hour(&mut self, year: u32) -> Result<Time, Invalid> {
        let month = self.within(1, 12)?;
        let day = self.within(1, days_in_month(year, month))?;
        let hour = self.within(0, 23)?;
        Ok(Time { year, month, day, hour, minute: 0, second: 0 })
    }

    fn fraction(&mut self) -> Result<Fraction, Invalid> {
        let mut fraction = Fraction { number: 0, digits: 0 };
        let [b'.' | b',', rest @ ..] = self.0 else {
            return Ok(fraction);
        };
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = rest.split_at_checked(length).ok_or(NOT_A_TIME)?;
        self.0 = rest;
        if digits.is_empty() {
            return Err(NOT_A_TIME);
        }
        if length > FRACTION_DIGITS_MAX {
            return Err(Invalid("has a fraction of more than 18 digits"));
        }
        for byte in digits {
            fraction.number = fraction.number * 10 + u64::from(byte - b'0');
            fraction.digits += 1;
        }
        Ok(fraction)
    }

    /// Reads `Z` or an offset, in minutes east; none if there is neither.
    fn zone(&mut self) -> Result<Option<i32>, Invalid> {
        let [sign @ (b'Z' | b'+' | b'-'), rest @ ..] = self.0 else {
            return Ok(None);
        };
        self.0 = rest;
        if *sign == b'Z' {
            return Ok(Some(0));
        }
        let hours = self.within(0, 23)?;
        let minutes = if self.at_digit() { self.within(0, 59)? } else { 0 };
        let offset = i32::try_from(hours * 60 + minutes).expect("less than a day");
        Ok(Some(if *sign == b'-' { -offset } else { offset }))
    }

    const fn end(&self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(NOT_A_TIME) }
    }
}
