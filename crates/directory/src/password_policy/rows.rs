//! The attributes of policy entries: one row for each name that a product has for a rule.
//!
//! Invariant: what is read is understood as a whole or not at all.
//! Invariant: where an entry has several names for one rule, the draft's holds, then OpenDJ's.

mod draft;
mod ds389;
mod opendj;
mod page;
mod row;
mod takes;

#[cfg(test)]
mod tests;

use std::time::Duration;

use schema::{EntryRead, Schema};

pub use self::page::reference_page;
use self::row::Row;
pub(super) use self::takes::HISTORY_MAX;
use self::takes::{RulesRead, Takes, WORDS_MAX_BYTES};
use super::attributes::{text, visit};
use super::quality::Quality;
use super::rules::{CheckQuality, PasswordPolicy, PolicyFault};

impl PasswordPolicy {
    /// Reads a policy entry. What it does not say is as the draft has it: no rule.
    ///
    /// # Errors
    /// The first value that is not what its attribute takes: a policy that was half understood
    /// would be weaker than it looks.
    pub fn read(entry: &dyn EntryRead, schema: &Schema) -> Result<Self, PolicyFault> {
        let mut read = RulesRead {
            policy: Self { allow_user_change: true, ..Self::default() },
            ..RulesRead::default()
        };
        let is_389 = has_class(entry, schema, "passwordPolicy");
        if is_389 {
            read.policy.max_failures = DS389_MAX_FAILURES;
            read.policy.lockout_duration = Some(DS389_LOCKOUT);
            read.policy.failure_interval = Some(DS389_FAILURE_INTERVAL);
            read.policy.expire_warning = Some(DS389_WARNING);
        }
        read_rows(&mut read, ds389::ROWS, entry, schema)?;
        read.switch();
        read_rows(&mut read, opendj::ROWS, entry, schema)?;
        read_rows(&mut read, draft::ROWS, entry, schema)?;
        Ok(read.finish())
    }
}

fn read_rows(
    read: &mut RulesRead,
    rows: &[Row],
    entry: &dyn EntryRead,
    schema: &Schema,
) -> Result<(), PolicyFault> {
    for row in rows {
        let value = match row.takes {
            Takes::Words(_) => all_values(entry, schema, row.attribute),
            Takes::Nothing => continue,
            _ => text(entry, schema, row.attribute),
        };
        let Some(value) = value else { continue };
        row.takes.set(read, value.trim()).map_err(|takes| PolicyFault {
            attribute: row.attribute,
            value: value.chars().take(SHOWN_MAX_CHARACTERS).collect(),
            takes,
        })?;
    }
    Ok(())
}

/// All values of an attribute, one behind the other.
fn all_values(entry: &dyn EntryRead, schema: &Schema, attribute: &str) -> Option<String> {
    let mut all = String::new();
    let mut is_there = false;
    visit(entry, schema, attribute, &mut |value| {
        is_there = true;
        all.push_str(value);
        all.push(' ');
        all.len() <= WORDS_MAX_BYTES
    });
    is_there.then_some(all)
}

fn has_class(entry: &dyn EntryRead, schema: &Schema, name: &str) -> bool {
    let mut found = false;
    visit(entry, schema, "objectClass", &mut |class| {
        found = class.eq_ignore_ascii_case(name);
        !found
    });
    found
}

impl RulesRead {
    /// After 389's attributes: what its switches leave of them.
    fn switch(&mut self) {
        let Self { policy, switches } = self;
        if switches.expires {
            policy.max_age = switches.max_age.or(Some(DS389_MAX_AGE));
        }
        match switches.is_remembered {
            Some(false) => policy.in_history = 0,
            Some(true) if policy.in_history == 0 => policy.in_history = DS389_IN_HISTORY,
            Some(true) | None => {}
        }
        if switches.stays_locked {
            policy.lockout_duration = None;
        }
        policy.min_length = switches.min_length.unwrap_or(0);
        policy.quality.min_categories = switches.min_categories.unwrap_or(0);
        policy.quality.min_token_length = switches.min_token_length.unwrap_or(0);
        if switches.is_checked {
            policy.check_quality = CheckQuality::WherePossible;
            policy.min_length = switches.min_length.unwrap_or(DS389_MIN_LENGTH);
            policy.quality.min_categories = switches.min_categories.unwrap_or(DS389_MIN_CATEGORIES);
            policy.quality.min_token_length = switches.min_token_length.unwrap_or(DS389_MIN_TOKEN);
            add_own(&mut policy.quality);
        }
    }

    fn finish(self) -> PasswordPolicy {
        let Self { mut policy, switches } = self;
        if switches.has_validator {
            policy.check_quality = CheckQuality::WherePossible;
        }
        if let Some(check_quality) = switches.quality_of_draft {
            policy.check_quality = check_quality;
            if check_quality != CheckQuality::Off {
                policy.quality.dictionary = true;
                add_own(&mut policy.quality);
            }
        }
        policy
    }
}

/// The attributes that say who somebody is.
pub(super) fn own_attributes() -> Vec<String> {
    ["uid", "cn", "sn", "givenName", "displayName", "mail", "ou"].map(str::to_owned).to_vec()
}

fn add_own(quality: &mut Quality) {
    for name in own_attributes() {
        if !quality.own_attributes.iter().any(|one| one.eq_ignore_ascii_case(&name)) {
            quality.own_attributes.push(name);
        }
    }
}

/// All rows, as the reference page lists them.
pub(super) fn all() -> impl Iterator<Item = &'static Row> {
    [draft::ROWS, ds389::ROWS, opendj::ROWS].into_iter().flatten()
}

const DS389_MAX_AGE: Duration = Duration::from_secs(8_640_000);
const DS389_WARNING: Duration = Duration::from_secs(86_400);
const DS389_LOCKOUT: Duration = Duration::from_secs(3_600);
const DS389_FAILURE_INTERVAL: Duration = Duration::from_secs(600);
const DS389_MAX_FAILURES: u32 = 3;
const DS389_IN_HISTORY: u32 = 6;
const DS389_MIN_LENGTH: u32 = 8;
const DS389_MIN_CATEGORIES: u32 = 3;
const DS389_MIN_TOKEN: u32 = 3;

/// Characters of a value that a refusal shows.
const SHOWN_MAX_CHARACTERS: usize = 64;
