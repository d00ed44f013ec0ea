//! What the values of policy attributes are like.
//!
//! Invariant: each kind has a limit.

use std::time::Duration;

use auth::password::Scheme;

use crate::password_policy::rules::{CheckQuality, PasswordPolicy};

/// What was read so far. Of 389 some attributes are switches of others.
#[derive(Default)]
pub(super) struct RulesRead {
    pub(super) policy: PasswordPolicy,
    pub(super) switches: SwitchedRules,
}

/// What 389 switches, and what is switched.
#[derive(Default)]
pub(super) struct SwitchedRules {
    pub(super) is_checked: bool,
    pub(super) expires: bool,
    pub(super) max_age: Option<Duration>,
    pub(super) is_remembered: Option<bool>,
    pub(super) stays_locked: bool,
    pub(super) min_length: Option<u32>,
    pub(super) min_categories: Option<u32>,
    pub(super) min_token_length: Option<u32>,
    /// Rules of OpenDJ's validators: they check by being there.
    pub(super) has_validator: bool,
    /// One of the draft's names is there.
    pub(super) quality_of_draft: Option<CheckQuality>,
}

/// What an attribute takes, and where it goes.
pub(super) enum Takes {
    /// It is read by nobody.
    Nothing,
    /// Any value: what matters is that it is there.
    There(fn(&mut RulesRead)),
    /// A whole number.
    Number(fn(&mut RulesRead, u32)),
    /// A whole number whose being there switches the check on.
    Validator(fn(&mut RulesRead, u32)),
    /// How many passwords are remembered.
    History(fn(&mut RulesRead, u32)),
    /// A number, or -1 for none.
    Unless(fn(&mut RulesRead, Option<u32>)),
    /// A time, 0 for none.
    Seconds(fn(&mut RulesRead, Option<Duration>)),
    /// A time, -1 for none.
    SecondsUnless(fn(&mut RulesRead, Option<Duration>)),
    /// TRUE and FALSE, on and off.
    Switch(fn(&mut RulesRead, bool)),
    /// pwdCheckQuality.
    Check(fn(&mut RulesRead, CheckQuality)),
    /// Words with spaces between them, in all values.
    Words(fn(&mut RulesRead, Vec<String>)),
    /// Words with spaces between them, in all values. Their being there switches the check on.
    Own(fn(&mut RulesRead, Vec<String>)),
    /// How passwords are stored.
    Scheme(fn(&mut RulesRead, Scheme)),
}

impl Takes {
    /// Reads a value.
    pub(super) fn set(&self, read: &mut RulesRead, value: &str) -> Result<(), &'static str> {
        match self {
            Self::Nothing => {}
            Self::There(set) => set(read),
            Self::Number(set) => set(read, number(value)?),
            Self::Validator(set) => {
                read.switches.has_validator = true;
                set(read, number(value)?);
            }
            Self::History(set) => {
                let number = number(value)?;
                if number > HISTORY_MAX {
                    return Err("at most 100 passwords that are remembered");
                }
                set(read, number);
            }
            Self::Unless(set) => {
                set(read, if value == "-1" { None } else { Some(number(value)?) });
            }
            Self::Seconds(set) => set(read, Some(time(value)?).filter(|time| !time.is_zero())),
            Self::SecondsUnless(set) => {
                let time = if value == "-1" { None } else { Some(time(value)?) };
                set(read, time.filter(|time| !time.is_zero()));
            }
            Self::Switch(set) => set(read, switch(value)?),
            Self::Check(set) => set(
                read,
                match number(value) {
                    Ok(0) => CheckQuality::Off,
                    Ok(1) => CheckQuality::WherePossible,
                    Ok(2) => CheckQuality::Always,
                    Ok(_) | Err(_) => return Err("0, 1 or 2"),
                },
            ),
            Self::Words(set) => set(read, words(value)?),
            Self::Own(set) => {
                read.switches.has_validator = true;
                set(read, words(value)?);
            }
            Self::Scheme(set) => set(read, scheme(value)?),
        }
        Ok(())
    }

    /// For the reference page.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "–",
            Self::There(_) => "any value",
            Self::Number(_) | Self::Validator(_) => "number",
            Self::History(_) => "number, at most 100",
            Self::Unless(_) => "number, -1",
            Self::Seconds(_) => "seconds",
            Self::SecondsUnless(_) => "seconds, -1",
            Self::Switch(_) => "switch",
            Self::Check(_) => "0, 1, 2",
            Self::Words(_) | Self::Own(_) => "words",
            Self::Scheme(_) => "scheme",
        }
    }
}

fn number(value: &str) -> Result<u32, &'static str> {
    value.parse().map_err(|_| "a whole number, not negative and below 2^32")
}

/// Seconds, or a number with a unit: `180D` of 389, `5 days` of OpenDJ.
fn time(value: &str) -> Result<Duration, &'static str> {
    let takes = "a time: seconds, or a number with one of the units s, m, h, d, w";
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at_checked(end).ok_or(takes)?;
    let number: u64 = digits.parse().map_err(|_| takes)?;
    let unit = unit.trim().to_ascii_lowercase();
    let seconds = match unit.as_str() {
        "" | "s" | "second" | "seconds" => number,
        "ms" | "millisecond" | "milliseconds" => number.div_ceil(1_000),
        "m" | "minute" | "minutes" => number.saturating_mul(60),
        "h" | "hour" | "hours" => number.saturating_mul(3_600),
        "d" | "day" | "days" => number.saturating_mul(86_400),
        "w" | "week" | "weeks" => number.saturating_mul(604_800),
        _ => return Err(takes),
    };
    if seconds > u64::from(u32::MAX) {
        return Err("a time below 2^32 seconds");
    }
    Ok(Duration::from_secs(seconds))
}

fn switch(value: &str) -> Result<bool, &'static str> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err("TRUE or FALSE, on or off"),
    }
}

fn words(value: &str) -> Result<Vec<String>, &'static str> {
    let words = value.split([' ', ',', '\t', '\n', '\r']).filter(|word| !word.is_empty());
    let words = words.map(str::to_lowercase).collect::<Vec<_>>();
    if words.len() > WORDS_MAX || value.len() > WORDS_MAX_BYTES {
        return Err("at most 1,000 words in 64 KiB");
    }
    Ok(words)
}

/// A scheme by its word, in braces or not, or by the name of OpenDJ's entry for it.
fn scheme(value: &str) -> Result<Scheme, &'static str> {
    let takes = "a scheme in which passwords are written, such as ARGON2 or SSHA512";
    let name = match value.strip_prefix("cn=").or_else(|| value.strip_prefix("CN=")) {
        Some(rest) => rest.split(',').next().unwrap_or_default(),
        None => value.trim_start_matches('{').trim_end_matches('}'),
    };
    let upper = name.trim().to_ascii_uppercase();
    let word = OPENDJ_SCHEMES.iter().find(|(known, _)| *known == upper).map(|(_, word)| *word);
    Scheme::of_word(word.unwrap_or(&upper)).ok_or(takes)
}

/// What OpenDJ calls its schemes.
const OPENDJ_SCHEMES: &[(&str, &str)] = &[
    ("ARGON2ID", "ARGON2"),
    ("SALTED SHA-1", "SSHA"),
    ("SALTED SHA-256", "SSHA256"),
    ("SALTED SHA-384", "SSHA384"),
    ("SALTED SHA-512", "SSHA512"),
];

/// Words of one attribute.
const WORDS_MAX: usize = 1_000;
/// Passwords that are remembered: a new one is hashed as often.
pub(in crate::password_policy) const HISTORY_MAX: u32 = 100;

/// Octets of all words of one attribute.
pub(super) const WORDS_MAX_BYTES: usize = 64 << 10;
