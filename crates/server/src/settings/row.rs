//! One row of the table of settings: what values it takes, and how they are read from text, numbers
//! and lists.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::Settings;

/// One setting.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    /// Where it lives.
    pub(super) place: Place,
    pub(super) kind: Kind,
    /// As it would be written in an environment variable.
    pub(super) default: &'static str,
    /// One sentence for the sample file and the reference page.
    pub(super) sentence: &'static str,
}

/// Where a setting lives, and when it takes effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// It is of this machine, and takes effect when the server starts.
    Start,
    /// It is of this machine, and takes effect when its sources are read again.
    Reload,
    /// It is of the directory, the same on all its servers, and takes effect at once; what this
    /// machine says comes before, and takes effect as that of [`Self::Reload`] does. The number is
    /// that of its attribute type, and never changes.
    Directory(u16),
}

/// What values a setting takes, and where they go.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number.
    Number { min: u64, max: u64, unit: &'static str, set: fn(&mut Settings, u64) },
    /// A file name.
    Path { may_be_empty: bool, set: fn(&mut Settings, PathBuf) },
    /// IP addresses with ports.
    Addresses { set: fn(&mut Settings, Vec<SocketAddr>) },
    /// Permission bits, written in octal.
    Mode { set: fn(&mut Settings, u32) },
    /// A time of the day in UTC, in minutes after midnight; empty = none.
    TimeOfDay { set: fn(&mut Settings, Option<u32>) },
    /// One of some words.
    Word { words: &'static [&'static str], set: fn(&mut Settings, &'static str) },
    /// A list of some words.
    Words { words: &'static [&'static str], set: fn(&mut Settings, Vec<&'static str>) },
    /// Any text.
    Text { set: fn(&mut Settings, String) },
    /// A list of texts. In a variable they are separated by `separator`.
    Texts {
        separator: char,
        /// What the texts are, in words.
        form: &'static str,
        is_well_formed: fn(&str) -> bool,
        set: fn(&mut Settings, Vec<String>),
    },
}

impl Kind {
    /// A whole number of this range.
    pub(super) const fn number(
        range: RangeInclusive<u64>,
        unit: &'static str,
        set: fn(&mut Settings, u64),
    ) -> Self {
        Self::Number { min: *range.start(), max: *range.end(), unit, set }
    }

    /// One of these words.
    pub(super) const fn word(
        words: &'static [&'static str],
        set: fn(&mut Settings, &'static str),
    ) -> Self {
        Self::Word { words, set }
    }
}

/// A value that its row does not accept; says what would be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAccepted(pub(super) String);

impl Row {
    /// `section.key`.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// The environment variable that sets it.
    pub(super) fn variable(&self) -> String {
        format!("ROSTER_{}__{}", self.section.to_uppercase(), self.key.to_uppercase())
    }

    /// What separates the items of a list that is one text; none where it is no list.
    pub(super) fn separator(&self) -> Option<char> {
        match self.kind {
            Kind::Texts { separator, .. } => Some(separator),
            Kind::Addresses { .. } | Kind::Words { .. } => Some(','),
            Kind::Number { .. }
            | Kind::Path { .. }
            | Kind::Mode { .. }
            | Kind::TimeOfDay { .. }
            | Kind::Word { .. }
            | Kind::Text { .. } => None,
        }
    }

    /// The items of a list that is one text.
    pub(super) fn items<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'t> {
        split(text, self.separator().unwrap_or(','))
    }

    /// Sets it from text: a variable, a flag, a default. Lists are separated by commas.
    pub(super) fn set_text(&self, settings: &mut Settings, text: &str) -> Result<(), NotAccepted> {
        let text = text.trim();
        match self.kind {
            Kind::Number { .. } => {
                let number = text.parse::<u64>().map_err(|_| self.not_accepted(text))?;
                self.set_number(settings, number)
            }
            Kind::Addresses { .. } | Kind::Words { .. } | Kind::Texts { .. } => {
                self.set_list(settings, self.items(text))
            }
            Kind::Path { .. }
            | Kind::Mode { .. }
            | Kind::TimeOfDay { .. }
            | Kind::Word { .. }
            | Kind::Text { .. } => self.set_string(settings, text),
        }
    }

    /// Sets it from a TOML integer.
    pub(super) fn set_number(
        &self,
        settings: &mut Settings,
        number: u64,
    ) -> Result<(), NotAccepted> {
        match self.kind {
            Kind::Number { min, max, set, .. } if (min..=max).contains(&number) => {
                set(settings, number);
                Ok(())
            }
            Kind::Number { .. }
            | Kind::Path { .. }
            | Kind::Addresses { .. }
            | Kind::Mode { .. }
            | Kind::TimeOfDay { .. }
            | Kind::Word { .. }
            | Kind::Words { .. }
            | Kind::Text { .. }
            | Kind::Texts { .. } => Err(self.not_accepted(&number.to_string())),
        }
    }

    /// Sets it from a TOML boolean.
    pub(super) fn set_switch(
        &self,
        settings: &mut Settings,
        is_on: bool,
    ) -> Result<(), NotAccepted> {
        if let Kind::Word { words, .. } = self.kind
            && is_switch(words)
        {
            return self.set_string(settings, if is_on { "on" } else { "off" });
        }
        Err(self.not_accepted(&is_on.to_string()))
    }

    /// Sets it from a TOML string.
    pub(super) fn set_string(
        &self,
        settings: &mut Settings,
        text: &str,
    ) -> Result<(), NotAccepted> {
        match self.kind {
            Kind::Path { may_be_empty, set } if may_be_empty || !text.is_empty() => {
                set(settings, PathBuf::from(text));
                return Ok(());
            }
            Kind::Addresses { .. } | Kind::Words { .. } | Kind::Texts { .. } => {
                return self.set_list(settings, std::iter::once(text));
            }
            Kind::Text { set } => {
                set(settings, text.to_owned());
                return Ok(());
            }
            Kind::Mode { set } => {
                if let Some(mode) = parse_mode(text) {
                    set(settings, mode);
                    return Ok(());
                }
            }
            Kind::TimeOfDay { set } => {
                if let Some(minutes) = parse_time_of_day(text) {
                    set(settings, minutes);
                    return Ok(());
                }
            }
            Kind::Word { words, set } => {
                let text = if is_switch(words) { as_switch(text) } else { text };
                if let Some(word) = words.iter().find(|word| **word == text) {
                    set(settings, word);
                    return Ok(());
                }
            }
            Kind::Path { .. } | Kind::Number { .. } => {}
        }
        Err(self.not_accepted(&format!("'{text}'")))
    }

    /// Sets it from a TOML array of strings.
    pub(super) fn set_list<'t>(
        &self,
        settings: &mut Settings,
        items: impl Iterator<Item = &'t str>,
    ) -> Result<(), NotAccepted> {
        let refused = |item: &str| self.not_accepted(&format!("'{item}'"));
        match self.kind {
            Kind::Addresses { set } => {
                let parsed = items.map(|item| item.parse().map_err(|_| refused(item)));
                set(settings, parsed.collect::<Result<_, _>>()?);
            }
            Kind::Words { words, set } => {
                let known = |item: &str| words.iter().find(|word| **word == item).copied();
                let found = items.map(|item| known(item).ok_or_else(|| refused(item)));
                set(settings, found.collect::<Result<_, _>>()?);
            }
            Kind::Texts { is_well_formed, set, .. } => {
                let checked = items.map(|item| {
                    is_well_formed(item).then(|| item.to_owned()).ok_or_else(|| refused(item))
                });
                set(settings, checked.collect::<Result<_, _>>()?);
            }
            Kind::Number { .. }
            | Kind::Path { .. }
            | Kind::Mode { .. }
            | Kind::TimeOfDay { .. }
            | Kind::Word { .. }
            | Kind::Text { .. } => return Err(self.not_accepted("a list")),
        }
        Ok(())
    }

    /// The refusal of `given`, which says what is accepted.
    pub(super) fn not_accepted(&self, given: &str) -> NotAccepted {
        NotAccepted(format!("{} must be {}, not {given}", self.name(), self.accepts()))
    }

    /// What is accepted, in words.
    pub(super) fn accepts(&self) -> String {
        match self.kind {
            Kind::Number { min, max, unit: "", .. } => format!("a number from {min} to {max}"),
            Kind::Number { min, max, unit, .. } => {
                format!("a number of {unit} from {min} to {max}")
            }
            Kind::Path { may_be_empty: false, .. } => "a path".to_owned(),
            Kind::Path { may_be_empty: true, .. } => "a path or empty".to_owned(),
            Kind::Addresses { .. } => {
                "a list of IP addresses with port like \"127.0.0.1:1389\" or \"[::1]:1389\""
                    .to_owned()
            }
            Kind::Mode { .. } => "permission bits in octal like \"0660\"".to_owned(),
            Kind::TimeOfDay { .. } => "a time of the day in UTC like \"00:00\" or empty".to_owned(),
            Kind::Word { words, .. } if is_switch(words) => {
                format!("one of {} (or true, false)", words.join(", "))
            }
            Kind::Word { words, .. } => format!("one of {}", words.join(", ")),
            Kind::Words { words, .. } => format!("a list of some of {}", words.join(", ")),
            Kind::Text { .. } => "a text".to_owned(),
            Kind::Texts { separator: ',', form, .. } => format!("a list of {form}"),
            Kind::Texts { separator, form, .. } => {
                format!("a list of {form}; in a variable separated by '{separator}'")
            }
        }
    }
}

/// Whether a setting is on or off, and nothing else.
pub(super) fn is_switch(words: &[&str]) -> bool {
    words.iter().all(|word| ["on", "off"].contains(word))
}

/// What a switch is called here.
fn as_switch(text: &str) -> &str {
    match text {
        "true" => "on",
        "false" => "off",
        other => other,
    }
}

fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|item| !item.is_empty())
}

/// `"0660"` → `0o660`.
fn parse_mode(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
}

/// `"07:30"` → 450; nothing when empty.
fn parse_time_of_day(text: &str) -> Option<Option<u32>> {
    if text.is_empty() {
        return Some(None);
    }
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str| (digits.len() == 2).then(|| digits.parse::<u32>().ok())?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(Some(hours * 60 + minutes))
}

/// A number of 32 bits; the rows allow no larger one.
pub(super) fn number(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Every number of the table that counts things fits: their limits are below 2^31.
pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Threads of one kind.
pub(super) const THREADS_MAX: u64 = 1_024;

/// A week: longer is surely a mistake in the unit.
pub(super) const TIMEOUT_MAX_S: u64 = 604_800;

/// What a list of networks takes.
pub(super) const NETWORKS: &str =
    "networks like \"10.0.0.0/8\" or \"::1\", with at least 96 bits after \"::ffff:\"";
