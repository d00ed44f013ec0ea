//! When a scheduled task is done: five fields as crontab(5) has them, and a time zone behind them
//! if it is not that of the machine.
//!
//! Invariant: what there is to compute for one question has a limit: some years of days.

use std::fmt;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use environment::Timestamp;

use crate::lines::scanner::{Parsed, wrong};

/// Times.
#[derive(Clone)]
pub struct CronTimes {
    text: String,
    times: Crontab,
}

impl CronTimes {
    /// Reads five fields, and a time zone.
    pub(crate) fn parse(text: &str) -> Parsed<Self> {
        if text.len() > TEXT_MAX_BYTES {
            return wrong(format!("the times have more than {TEXT_MAX_BYTES} bytes"));
        }
        let fields = text.split_ascii_whitespace().count();
        if !(FIELDS..=FIELDS + 1).contains(&fields) {
            return wrong(format!(
                "'{text}' is no five fields (minute, hour, day, month, day of the week), such as \
                 '0 2 * * *'; a time zone may follow"
            ));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::System;
        let times = match parse_crontab_with(text, options) {
            Ok(times) => times,
            // What the library tells has several lines, with the place.
            Err(error) => {
                let told = error.to_string();
                let mut told = told.lines().map(str::trim).filter(|line| !line.is_empty());
                let told = told.next_back().unwrap_or_default().to_owned();
                return wrong(format!("'{text}' is no time: {told}"));
            }
        };
        let times = Self { text: text.to_owned(), times };
        // The thirtieth of February never comes.
        match times.next_after(Timestamp(SOME_MOMENT_US)) {
            Some(_) => Ok(times),
            None => wrong(format!("'{text}' never comes")),
        }
    }

    /// The next one behind a moment; none where there is none within the years that are looked at.
    #[must_use]
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let moment = MakeTimestamp::from_microsecond(i64::try_from(moment.0).ok()?).ok()?;
        let next = self.times.find_next(moment).ok()?.timestamp().as_microsecond();
        u64::try_from(next).ok().map(Timestamp)
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for CronTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const FIELDS: usize = 5;
const TEXT_MAX_BYTES: usize = 256;
/// In 2026.
const SOME_MOMENT_US: u64 = 1_790_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_time_is_told_in_the_zone_that_is_named() {
        let times = CronTimes::parse("30 2 * * * Europe/Zurich").unwrap();
        // 2026-11-29T00:00:00Z: half past two there is half past one here.
        let next = times.next_after(Timestamp(1_795_910_400_000_000)).unwrap();
        assert_eq!(next.generalized_time(), "20261129013000Z");
        let next = times.next_after(next).unwrap();
        assert_eq!(next.generalized_time(), "20261130013000Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "* * * *", "61 * * * * UTC", "0 2 * * * Mars", "0 0 30 2 * UTC", "@daily"]
        {
            let error = CronTimes::parse(text).unwrap_err();
            assert!(error.0.contains(text), "{error}");
        }
    }
}
