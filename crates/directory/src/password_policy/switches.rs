//! What switches an account off whatever its password: by OpenDJ's names and by 389's.
//!
//! Invariant: an account is off when any of them says so.

use std::sync::Arc;

use environment::Timestamp;
use schema::{AttributeDescription, EntryRead, Schema};

use super::attributes::time;

/// What an entry says of its account, beside the state of its password.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Switches {
    /// An administrator switched it off: nsAccountLock, or ds-pwp-account-disabled.
    pub is_disabled: bool,
    /// ds-pwp-account-expiration-time: it is of no use any more.
    pub expires: Option<Timestamp>,
}

/// What an account is given of one of the attributes that switch it off.
#[derive(Clone, Copy, Default)]
pub(crate) struct GivenSwitch<'g> {
    pub(crate) values: &'g [Vec<u8>],
    /// What its entry stores does not count.
    pub(crate) hides: bool,
}

/// Why an account is off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Off {
    /// Somebody switched it off.
    Disabled,
    /// It has expired.
    Expired,
}

/// The attributes that switch an account off, in one version of the schema.
#[derive(Clone, Debug, Default)]
pub struct SwitchTypes {
    disabled: Vec<Arc<AttributeDescription>>,
    expiration: Option<Arc<AttributeDescription>>,
}

impl SwitchTypes {
    /// Looks them up.
    pub fn new(schema: &Schema) -> Self {
        Self {
            disabled: DISABLED.iter().filter_map(|name| schema.describe(name).ok()).collect(),
            expiration: schema.describe(EXPIRATION).ok(),
        }
    }

    /// Those that disable it.
    pub(crate) fn disabling(&self) -> impl Iterator<Item = &Arc<AttributeDescription>> {
        self.disabled.iter()
    }

    /// What the entry of an account says.
    pub fn read(&self, entry: &dyn EntryRead) -> Switches {
        self.read_with(entry, &|_| None)
    }

    /// What the entry of an account says that is given some of them.
    pub(crate) fn read_with<'g>(
        &self,
        entry: &dyn EntryRead,
        given: &dyn Fn(&AttributeDescription) -> Option<GivenSwitch<'g>>,
    ) -> Switches {
        let mut switches = Switches::default();
        for description in &self.disabled {
            let GivenSwitch { values, hides } = given(description).unwrap_or_default();
            switches.is_disabled |= values.iter().any(|value| is_true(value));
            if hides {
                continue;
            }
            entry.visit_values(description, &mut |_, value| {
                switches.is_disabled |= is_true(value);
                !switches.is_disabled
            });
        }
        if let Some(description) = &self.expiration {
            entry.visit_values(description, &mut |_, value| {
                switches.expires = std::str::from_utf8(value).ok().and_then(time);
                false
            });
        }
        switches
    }
}

impl Switches {
    /// Whether the account is off, for binds by any mechanism.
    ///
    /// # Errors
    /// Why it is.
    pub fn check(&self, now: Timestamp) -> Result<(), Off> {
        if self.is_disabled {
            return Err(Off::Disabled);
        }
        match self.expires {
            Some(expires) if now >= expires => Err(Off::Expired),
            Some(_) | None => Ok(()),
        }
    }
}

fn is_true(value: &[u8]) -> bool {
    value.trim_ascii().eq_ignore_ascii_case(b"true")
}

/// Whether an attribute disables accounts.
pub(crate) fn disables(description: &AttributeDescription) -> bool {
    description.options().is_empty() && DISABLED.iter().any(|name| description.kind.is_named(name))
}

/// The attributes that disable an account; the first is the one that this server writes.
pub(crate) const DISABLED: [&str; 2] = ["nsAccountLock", "ds-pwp-account-disabled"];

/// OpenDJ's name of when an account expires; the draft's is pwdEndTime.
pub(crate) const EXPIRATION: &str = "ds-pwp-account-expiration-time";

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;
    use schema::Entry;

    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)], want: Result<(), Off>) {
        let schema = Schema::builtin();
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
        let name = Dn::parse("cn=x,dc=example").unwrap();
        let entry = Entry::from_pairs(name, pairs, &schema).unwrap();
        let now = time("20260101000000Z").unwrap();
        assert_eq!(SwitchTypes::new(&schema).read(&entry).check(now), want, "{entry:?}");
    }

    #[test]
    fn accounts_are_switched_off_by_either_name() {
        check(&[("cn", "x")], Ok(()));
        for name in DISABLED {
            check(&[(name, "true")], Err(Off::Disabled));
            check(&[(name, "TRUE")], Err(Off::Disabled));
            check(&[(name, "false")], Ok(()));
        }
        check(&[(EXPIRATION, "20251231235959.9Z")], Err(Off::Expired));
        check(&[(EXPIRATION, "20260101000000Z")], Err(Off::Expired));
        check(&[(EXPIRATION, "20260101000001Z")], Ok(()));
    }
}
