//! The attributes of policy entries: one row for each name that a product has for a rule.
//!
//! Invariant: what is read is understood as a whole or not at all.
//! Invariant: where an entry has several names for one rule, the draft's holds, then OpenDJ's.

mod draft;
mod ds389;
mod opendj;
mod page;
mod takes;

#[cfg(test)]
mod tests;

use std::time::Duration;

use schema::{EntryRead, Schema};

pub use self::page::reference_page;
pub(super) use self::takes::HISTORY_MAX;
use self::takes::Takes;
use super::attributes::{text, visit};
use super::quality::Quality;
use super::rules::{CheckQuality, Policy, PolicyFault};

/// Whose name it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Product {
    /// draft-behera-ldap-password-policy, OpenLDAP, Oracle.
    Draft,
    /// 389 Directory Server, Red Hat and Sun.
    Ds389,
    /// OpenDJ, OpenDS, `ds-pwp-` in entries and `ds-cfg-` in its configuration.
    OpenDj,
}

/// One name.
pub(super) struct Row {
    product: Product,
    attribute: &'static str,
    takes: Takes,
    /// For the reference page.
    does: &'static str,
}

/// What was read so far. Of 389 some attributes are switches of others.
#[derive(Default)]
pub(super) struct Said {
    policy: Policy,
    switches: Switches,
}

/// What 389 switches, and what is switched.
#[derive(Default)]
struct Switches {
    is_checked: bool,
    expires: bool,
    max_age: Option<Duration>,
    is_remembered: Option<bool>,
    stays_locked: bool,
    min_length: Option<u32>,
    min_categories: Option<u32>,
    min_token_length: Option<u32>,
    /// Rules of OpenDJ's validators: they check by being there.
    has_validator: bool,
    /// One of the draft's names is there.
    quality_of_draft: Option<CheckQuality>,
}

/// Reads a policy entry. What it does not say is no rule, or what the product has as its default.
pub(super) fn read(entry: &dyn EntryRead, schema: &Schema) -> Result<Policy, PolicyFault> {
    let mut said =
        Said { policy: Policy { allow_user_change: true, ..Policy::default() }, ..Said::default() };
    let is_389 = has_class(entry, schema, "passwordPolicy");
    if is_389 {
        said.policy.max_failures = DS389_MAX_FAILURES;
        said.policy.lockout_duration = Some(DS389_LOCKOUT);
        said.policy.failure_interval = Some(DS389_FAILURE_INTERVAL);
        said.policy.expire_warning = Some(DS389_WARNING);
    }
    read_rows(&mut said, ds389::ROWS, entry, schema)?;
    said.switch();
    read_rows(&mut said, opendj::ROWS, entry, schema)?;
    read_rows(&mut said, draft::ROWS, entry, schema)?;
    Ok(said.finish())
}

fn read_rows(
    said: &mut Said,
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
        row.takes.set(said, value.trim()).map_err(|takes| PolicyFault {
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

impl Said {
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

    fn finish(self) -> Policy {
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

impl Row {
    const fn of(
        product: Product,
        attribute: &'static str,
        takes: Takes,
        does: &'static str,
    ) -> Self {
        Self { product, attribute, takes, does }
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

/// Octets of all words of one attribute.
const WORDS_MAX_BYTES: usize = 64 << 10;
/// Characters of a value that a refusal shows.
const SHOWN_MAX_CHARACTERS: usize = 64;
