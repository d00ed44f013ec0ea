//! How an account stands: whether it can be signed in with now, every reason why not, and what will
//! be a reason before long. For the account usability control and the policy state operation.
//!
//! Invariant: what refuses a bind ([`AccountState::before_login`], [`Switches::check`]) is told
//! here, and nothing else is told as if it did.

use std::time::Duration;

use auth::password;
use environment::Timestamp;
use ldap::control_value::usability::{Unusable, Usability};
use schema::{EntryRead, Schema};

use super::account::{AccountState, Locked, Rejected};
use super::attributes::{after, between};
use super::rules::PasswordPolicy;
use super::switches::{SwitchTypes, Switches};

/// An account: all that decides about signing in with it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// The state of its password.
    pub state: AccountState,
    /// What switches it off.
    pub switches: Switches,
    /// Whether it has a password.
    pub has_password: bool,
}

/// Something about an account.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Condition {
    /// An administrator switched it off.
    Disabled,
    /// It is not good before.
    NotYetActive(Timestamp),
    /// It was good until then.
    Expired(Timestamp),
    /// It is locked, by failures or by somebody.
    Locked {
        /// Since when; none: by somebody, who did not say.
        since: Option<Timestamp>,
        /// Until when; none: until somebody unlocks it.
        until: Option<Timestamp>,
    },
    /// A bind failed not long ago: the next one is looked at then.
    Delayed(Timestamp),
    /// Nobody has used it for too long, since when it is locked.
    Idle(Timestamp),
    /// The password has expired, and there is no grace left.
    PasswordExpired(Timestamp),
    /// The password has expired, and may still be used so often.
    Grace(Timestamp, u32),
    /// Somebody else set the password, and it is not good before.
    TemporaryLater(Timestamp),
    /// Somebody else set the password; it was not changed by then, or was used too often.
    TemporaryOver(Option<Timestamp>),
    /// The password has to be changed before anything else.
    MustChange,
    /// The password expires then.
    PasswordExpires(Timestamp),
    /// So many binds have failed; after so many more the account is locked.
    Failures {
        /// How many.
        count: usize,
        /// How many more, where failures lock.
        left: Option<usize>,
    },
    /// The password may not be changed before.
    TooYoung(Timestamp),
    /// There is no password.
    NoPassword,
}

/// How much a condition matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Weight {
    /// It is good to know.
    Notice,
    /// It may keep the account from being used before long.
    Warning,
    /// It keeps the account from being used, or from all but changing the password.
    Error,
}

impl Account {
    /// Reads it from its entry; `state` may be newer than what the entry says.
    pub fn new(
        state: AccountState,
        entry: &dyn EntryRead,
        schema: &Schema,
        types: &SwitchTypes,
    ) -> Self {
        let password = &schema.well_known().user_password;
        let has_password = !password::stored_in(entry, password).is_empty();
        Self { state, switches: types.read(entry), has_password }
    }

    /// From when on it is of no use any more.
    pub fn expiration(&self) -> Option<Timestamp> {
        match (self.switches.expires, self.state.end) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Since when it is locked by failures or by somebody, and until when.
    pub fn lock(&self, policy: &PasswordPolicy, now: Timestamp) -> Option<Condition> {
        let since = match self.state.locked? {
            Locked::ForEver => return Some(Condition::Locked { since: None, until: None }),
            Locked::Since(moment) => moment,
        };
        let until = policy.lockout_duration.map(|length| after(since, length));
        let is_over = until.is_some_and(|until| now >= until);
        (!is_over).then_some(Condition::Locked { since: Some(since), until })
    }

    /// When it is locked for not having been used.
    pub fn idle(&self, policy: &PasswordPolicy) -> Option<Timestamp> {
        let last = self.state.last_success.max(self.state.changed)?;
        Some(after(last, policy.max_idle?))
    }

    /// How many more binds may fail.
    pub fn failures_left(&self, policy: &PasswordPolicy, now: Timestamp) -> Option<usize> {
        let most = usize::try_from(policy.max_failures).unwrap_or(usize::MAX);
        let counts = policy.lockout && most > 0;
        counts.then(|| most.saturating_sub(self.failures(policy, now)))
    }

    /// How many have.
    fn failures(&self, policy: &PasswordPolicy, now: Timestamp) -> usize {
        let counts = |failure: &&Timestamp| {
            policy.failure_interval.is_none_or(|length| between(**failure, now) < length)
        };
        self.state.failures.iter().filter(counts).count()
    }

    /// How often the password may be used when it has expired; nothing when grace is over.
    pub fn grace_left(&self, policy: &PasswordPolicy, now: Timestamp) -> u32 {
        let used = u32::try_from(self.state.grace_uses.len()).unwrap_or(u32::MAX);
        let expiry = self.state.expiry(policy);
        let is_late = expiry
            .zip(policy.grace_expiry)
            .is_some_and(|(expiry, length)| now >= after(expiry, length));
        if is_late { 0 } else { policy.grace_logins.saturating_sub(used) }
    }

    /// All there is to say, what matters most first.
    pub fn conditions(&self, policy: &PasswordPolicy, now: Timestamp) -> Vec<Condition> {
        let state = &self.state;
        let mut found = Vec::new();
        if self.switches.is_disabled {
            found.push(Condition::Disabled);
        }
        found.extend(state.start.filter(|start| now < *start).map(Condition::NotYetActive));
        found.extend(self.expiration().filter(|end| now >= *end).map(Condition::Expired));
        found.extend(self.lock(policy, now));
        found.extend(self.idle(policy).filter(|since| now >= *since).map(Condition::Idle));
        if found.is_empty()
            && let Err(Rejected::Delayed(delay)) = state.before_login(policy, now)
        {
            found.push(Condition::Delayed(after(now, delay)));
        }
        match state.expiry(policy) {
            Some(expiry) if now >= expiry => found.push(match self.grace_left(policy, now) {
                0 => Condition::PasswordExpired(expiry),
                left => Condition::Grace(expiry, left),
            }),
            Some(expiry) => {
                let is_soon =
                    policy.expire_warning.is_some_and(|length| between(now, expiry) <= length);
                found.extend(is_soon.then_some(Condition::PasswordExpires(expiry)));
            }
            None => {}
        }
        if state.check_temporary(policy, now).is_err() {
            found.push(match state.temporary_from.filter(|from| now < *from) {
                Some(from) => Condition::TemporaryLater(from),
                None => Condition::TemporaryOver(state.temporary_until.filter(|end| now >= *end)),
            });
        }
        let must_change = policy.forces_change() && state.is_reset;
        found.extend(must_change.then_some(Condition::MustChange));
        let count = self.failures(policy, now);
        let left = self.failures_left(policy, now).filter(|left| *left > 0);
        found.extend((count > 0).then_some(Condition::Failures { count, left }));
        let young = policy.min_age.zip(state.changed).map(|(least, changed)| after(changed, least));
        let young = young.filter(|until| now < *until && !must_change);
        found.extend(young.map(Condition::TooYoung));
        found.extend((!self.has_password).then_some(Condition::NoPassword));
        found
    }

    /// What the account usability control says.
    pub fn usability(&self, policy: &PasswordPolicy, now: Timestamp) -> Usability {
        let seconds = |length: Duration| u32::try_from(length.as_secs()).unwrap_or(u32::MAX);
        let mut why = Unusable::default();
        for condition in self.conditions(policy, now) {
            match condition {
                Condition::Disabled
                | Condition::NotYetActive(_)
                | Condition::Expired(_)
                | Condition::TemporaryLater(_) => why.inactive = true,
                Condition::TemporaryOver(_) => (why.expired, why.grace) = (true, Some(0)),
                Condition::Locked { until: Some(until), .. } | Condition::Delayed(until) => {
                    let left = i32::try_from(seconds(between(now, until))).unwrap_or(i32::MAX);
                    why.unlock_s = Some(left.max(1));
                }
                Condition::Locked { until: None, .. } | Condition::Idle(_) => {
                    why.unlock_s = Some(-1);
                }
                Condition::PasswordExpired(_) => (why.expired, why.grace) = (true, Some(0)),
                Condition::Grace(_, left) => (why.expired, why.grace) = (true, Some(left)),
                Condition::MustChange => why.reset = true,
                Condition::PasswordExpires(_)
                | Condition::Failures { .. }
                | Condition::TooYoung(_)
                | Condition::NoPassword => {}
            }
        }
        if why != Unusable::default() {
            return Usability::Unusable(why);
        }
        let expires_s = self.state.expiry(policy).map(|expiry| seconds(between(now, expiry)));
        Usability::Usable { expires_s }
    }
}

impl Condition {
    /// How much it matters.
    pub fn weight(&self) -> Weight {
        match self {
            Self::Disabled
            | Self::NotYetActive(_)
            | Self::Expired(_)
            | Self::Locked { .. }
            | Self::Delayed(_)
            | Self::Idle(_)
            | Self::PasswordExpired(_)
            | Self::Grace(..)
            | Self::TemporaryLater(_)
            | Self::TemporaryOver(_)
            | Self::MustChange => Weight::Error,
            Self::PasswordExpires(_) | Self::Failures { .. } => Weight::Warning,
            Self::TooYoung(_) | Self::NoPassword => Weight::Notice,
        }
    }

    /// Whether the right password is refused, or there is none.
    pub fn refuses(&self) -> bool {
        match self {
            Self::Disabled
            | Self::NotYetActive(_)
            | Self::Expired(_)
            | Self::Locked { .. }
            | Self::Delayed(_)
            | Self::Idle(_)
            | Self::PasswordExpired(_)
            | Self::TemporaryLater(_)
            | Self::TemporaryOver(_)
            | Self::NoPassword => true,
            Self::Grace(..)
            | Self::MustChange
            | Self::PasswordExpires(_)
            | Self::Failures { .. }
            | Self::TooYoung(_) => false,
        }
    }

    /// PingDirectory's number and name of it, by which programs know it; numbers are of a weight.
    pub fn code(&self) -> (u32, &'static str) {
        match self {
            Self::Disabled => (1, "account-disabled"),
            Self::NotYetActive(_) => (2, "account-not-yet-active"),
            Self::Expired(_) => (3, "account-expired"),
            Self::Locked { until: None, .. } => {
                (4, "account-permanently-locked-due-to-bind-failures")
            }
            Self::Locked { until: Some(_), .. } | Self::Delayed(_) => {
                (5, "account-temporarily-locked-due-to-bind-failures")
            }
            Self::Idle(_) => (6, "account-idle-locked"),
            Self::TemporaryOver(_) => (7, "account-reset-locked"),
            // PingDirectory has none for it.
            Self::TemporaryLater(_) => (100, "temporary-password-not-yet-valid"),
            Self::PasswordExpired(_) => (8, "password-expired"),
            Self::Grace(..) => (10, "password-expired-with-grace-logins"),
            Self::MustChange => (11, "must-change-password"),
            Self::PasswordExpires(_) => (2, "password-expiring"),
            Self::Failures { .. } => (3, "outstanding-bind-failures"),
            Self::TooYoung(_) => (4, "in-minimum-password-age"),
            Self::NoPassword => (5, "no-static-password"),
        }
    }

    /// What the condition is, for people: a clause without a full stop.
    pub fn sentence(&self) -> String {
        let at = |moment: &Timestamp| readable(*moment);
        match self {
            Self::Disabled => "the account is disabled".to_owned(),
            Self::NotYetActive(start) => format!("the account is not valid before {}", at(start)),
            Self::Expired(end) => format!("the account expired on {}", at(end)),
            Self::Locked { since, until } => {
                let since = since.map_or_else(
                    || "by an administrator".to_owned(),
                    |since| format!("since {}", readable(since)),
                );
                let until = until.map_or_else(
                    || "until somebody unlocks it".to_owned(),
                    |until| format!("until {}", readable(until)),
                );
                format!("the account is locked {since}, {until}")
            }
            Self::Delayed(until) => {
                format!("a sign-in failed: the next one is looked at from {} on", at(until))
            }
            Self::Idle(since) => {
                format!("the account was not used for too long: locked since {}", at(since))
            }
            Self::PasswordExpired(since) => format!("the password expired on {}", at(since)),
            Self::Grace(since, left) => format!(
                "the password expired on {}; it can be used {} more",
                at(since),
                times(*left as usize)
            ),
            Self::TemporaryLater(from) => {
                format!("the temporary password is not valid before {}", at(from))
            }
            Self::TemporaryOver(Some(end)) => {
                format!("the temporary password was not changed before {}", at(end))
            }
            Self::TemporaryOver(None) => "the temporary password was used too often".to_owned(),
            Self::MustChange => {
                "the password was reset: it has to be changed before anything else".to_owned()
            }
            Self::PasswordExpires(expiry) => format!("the password expires on {}", at(expiry)),
            Self::Failures { count, left: None } => format!("signing in failed {}", times(*count)),
            Self::Failures { count, left: Some(left) } => format!(
                "signing in failed {}; failing {} more locks the account",
                times(*count),
                times(*left)
            ),
            Self::TooYoung(until) => {
                format!("the password cannot be changed by its owner before {}", at(until))
            }
            Self::NoPassword => "the entry has no password".to_owned(),
        }
    }
}

/// A moment for people.
pub(crate) fn readable(moment: Timestamp) -> String {
    let text = moment.compact();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{} {}:{}:{} UTC",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    )
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

#[cfg(test)]
mod tests;
