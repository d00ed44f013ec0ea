//! What is known of one account, and what follows from it: binds, failures, changes of the
//! password (draft-behera-ldap-password-policy-10 §5.3, §7, §8).

use std::time::Duration;

use environment::Timestamp;
use schema::{EntryRead, Schema};

use super::attributes::{after, between, text, time, visit};
use super::control::{PolicyError, PolicyWarning};
use super::rows::HISTORY_MAX;
use super::rules::PasswordPolicy;

/// The state of one account: operational attributes of its entry.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccountState {
    /// pwdChangedTime: when the password was set.
    pub changed: Option<Timestamp>,
    /// pwdAccountLockedTime.
    pub locked: Option<Locked>,
    /// pwdFailureTime: binds with a wrong password since the last right one, oldest first.
    pub failures: Vec<Timestamp>,
    /// pwdGraceUseTime: binds since the password expired.
    pub grace_uses: Vec<Timestamp>,
    /// pwdReset: somebody else set the password.
    pub is_reset: bool,
    /// pwdStartTime: the password is not good before.
    pub start: Option<Timestamp>,
    /// pwdEndTime: nor after.
    pub end: Option<Timestamp>,
    /// pwdLastSuccess: the last bind.
    pub last_success: Option<Timestamp>,
    /// pwdHistory: passwords that were used, in their stored form, oldest first.
    pub history: Vec<Used>,
    /// pwdTPRUseCount: binds, right or wrong, since the password was reset.
    pub temporary_uses: u32,
    /// pwdTPRValidFrom: the password that was reset is not good before.
    pub temporary_from: Option<Timestamp>,
    /// pwdTPRExpireAt: nor from then on.
    pub temporary_until: Option<Timestamp>,
}

/// A change of the password.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'c> {
    /// By whom.
    pub by: Changer,
    /// What was stored.
    pub old: &'c [&'c str],
    /// When.
    pub now: Timestamp,
}

/// Who sets a password.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Changer {
    /// Whose it is.
    Owner,
    /// Somebody else.
    Administrator,
    /// Whoever adds the entry.
    Adder,
}

/// Since when an account is locked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Locked {
    /// Until somebody unlocks it: `000001010000Z`.
    ForEver,
    /// Since then; for how long, the policy says.
    Since(Timestamp),
}

/// A password that was used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Used {
    /// Until when.
    pub until: Timestamp,
    /// Its stored form.
    pub stored: String,
}

/// Why a bind or a change is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejected {
    /// The account is locked: by failures, by somebody, by its times, or for having been idle.
    Locked,
    /// A bind failed not long ago: the next one is looked at after that time only.
    Delayed(Duration),
    /// The password has expired, and no grace is left.
    Expired,
    /// People may not change their password.
    ChangeNotAllowed,
    /// The old password has to be sent, too.
    OldPasswordMissing,
    /// The last one was not used long enough.
    TooYoung,
}

impl Rejected {
    /// What the control says of it. A locked account is told from a wrong password only there.
    pub fn error(self) -> PolicyError {
        match self {
            Self::Locked | Self::Delayed(_) => PolicyError::AccountLocked,
            Self::Expired => PolicyError::PasswordExpired,
            Self::ChangeNotAllowed => PolicyError::PasswordModNotAllowed,
            Self::OldPasswordMissing => PolicyError::MustSupplyOldPassword,
            Self::TooYoung => PolicyError::PasswordTooYoung,
        }
    }
}

/// What a successful bind is told.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Remark {
    /// What is about to go wrong.
    pub warning: Option<PolicyWarning>,
    /// Nothing may be done before the password is changed.
    pub must_change: bool,
}

/// A bind with the right password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SuccessfulLogin {
    /// What it is told.
    pub remark: Remark,
    /// The state after it.
    pub state: AccountState,
}

impl AccountState {
    /// Reads it from the account's entry. A value that cannot be read counts as not there, but for
    /// a lock, which then holds for ever.
    pub fn read(entry: &dyn EntryRead, schema: &Schema) -> Self {
        let one = |name| text(entry, schema, name).as_deref().and_then(time);
        let many = |name| {
            let mut times = Vec::new();
            visit(entry, schema, name, &mut |value| {
                times.extend(time(value));
                true
            });
            times.sort_unstable();
            times
        };
        let locked = text(entry, schema, "pwdAccountLockedTime")
            .map(|value| time(&value).map_or(Locked::ForEver, Locked::Since));
        let mut history = Vec::new();
        visit(entry, schema, "pwdHistory", &mut |value| {
            history.extend(Used::parse(value));
            true
        });
        history.sort_by_key(|used| used.until);
        Self {
            changed: one("pwdChangedTime"),
            locked,
            failures: many("pwdFailureTime"),
            grace_uses: many("pwdGraceUseTime"),
            is_reset: text(entry, schema, "pwdReset")
                .is_some_and(|value| value.eq_ignore_ascii_case("TRUE")),
            start: one("pwdStartTime"),
            end: one("pwdEndTime"),
            last_success: one("pwdLastSuccess"),
            history,
            temporary_uses: text(entry, schema, "pwdTPRUseCount")
                .map_or(0, |value| value.parse().unwrap_or(u32::MAX)),
            temporary_from: one("pwdTPRValidFrom"),
            temporary_until: one("pwdTPRExpireAt"),
        }
    }

    /// The attributes that hold it, with all their values.
    pub fn attributes(&self) -> [(&'static str, Vec<String>); 12] {
        let one = |moment: Option<Timestamp>| moment.map(written).into_iter().collect();
        let many = |moments: &[Timestamp]| moments.iter().copied().map(written).collect();
        let number = |number: u32| (number > 0).then(|| number.to_string()).into_iter().collect();
        let locked = self.locked.map(|locked| match locked {
            Locked::ForEver => FOR_EVER.to_owned(),
            Locked::Since(moment) => written(moment),
        });
        [
            ("pwdChangedTime", one(self.changed)),
            ("pwdAccountLockedTime", locked.into_iter().collect()),
            ("pwdFailureTime", many(&self.failures)),
            ("pwdGraceUseTime", many(&self.grace_uses)),
            ("pwdReset", self.is_reset.then(|| "TRUE".to_owned()).into_iter().collect()),
            ("pwdStartTime", one(self.start)),
            ("pwdEndTime", one(self.end)),
            ("pwdLastSuccess", one(self.last_success)),
            ("pwdHistory", self.history.iter().map(Used::written).collect()),
            ("pwdTPRUseCount", number(self.temporary_uses)),
            ("pwdTPRValidFrom", one(self.temporary_from)),
            ("pwdTPRExpireAt", one(self.temporary_until)),
        ]
    }

    /// Whether a password is looked at at all (§7.1). Asked before it is verified, so that a locked
    /// account says nothing about passwords.
    ///
    /// # Errors
    /// When the account is locked, or its next bind is delayed.
    pub fn before_login(&self, policy: &PasswordPolicy, now: Timestamp) -> Result<(), Rejected> {
        let is_locked = match self.locked {
            None => false,
            Some(Locked::ForEver) => true,
            Some(Locked::Since(moment)) => {
                policy.lockout_duration.is_none_or(|length| now < after(moment, length))
            }
        };
        let is_early = self.start.is_some_and(|start| now < start);
        let is_late = self.end.is_some_and(|end| now >= end);
        if is_locked || is_early || is_late || self.is_idle(policy, now) {
            return Err(Rejected::Locked);
        }
        self.check_temporary(policy, now)?;
        match self.delay(policy, now) {
            Duration::ZERO => Ok(()),
            delay => Err(Rejected::Delayed(delay)),
        }
    }

    /// Whether a password that was reset is good yet, and still (389's temporary passwords).
    pub(super) fn check_temporary(
        &self,
        policy: &PasswordPolicy,
        now: Timestamp,
    ) -> Result<(), Rejected> {
        if !self.is_reset {
            return Ok(());
        }
        if self.temporary_from.is_some_and(|from| now < from) {
            return Err(Rejected::Locked);
        }
        let is_over = self.temporary_until.is_some_and(|until| now >= until);
        let is_used_up = policy.temporary.max_uses.is_some_and(|most| self.temporary_uses >= most);
        if is_over || is_used_up { Err(Rejected::Expired) } else { Ok(()) }
    }

    /// Whether binds were counted between these states, because the password is good for a few.
    pub(super) fn differs_in_uses(&self, later: &Self) -> bool {
        self.grace_uses != later.grace_uses || self.temporary_uses != later.temporary_uses
    }

    /// How often a password that was reset was used after one more bind.
    fn uses_after(&self, policy: &PasswordPolicy) -> u32 {
        let is_counted = self.is_reset && policy.temporary.max_uses.is_some();
        self.temporary_uses.saturating_add(u32::from(is_counted))
    }

    /// The state after a bind of which only counts that it was one.
    pub(super) fn after_use(self, policy: &PasswordPolicy) -> Self {
        Self { temporary_uses: self.uses_after(policy), ..self }
    }

    /// Nobody has signed in for too long. An account that never was used counts from its password.
    fn is_idle(&self, policy: &PasswordPolicy, now: Timestamp) -> bool {
        let last = self.last_success.max(self.changed);
        matches!((policy.max_idle, last), (Some(most), Some(last)) if now >= after(last, most))
    }

    /// How long the next bind still has to wait (§7.7).
    fn delay(&self, policy: &PasswordPolicy, now: Timestamp) -> Duration {
        let (Some(least), Some(last)) = (policy.min_delay, self.failures.last()) else {
            return Duration::ZERO;
        };
        let most = policy.max_delay.unwrap_or(least).max(least);
        let doublings = u32::try_from(self.failures.len() - 1).unwrap_or(u32::MAX).min(31);
        let delay = least.saturating_mul(1 << doublings).min(most);
        between(now, after(*last, delay))
    }

    /// A bind with the right password (§7.2 to §7.5). Failures after it, and their lock, stay:
    /// another node may have noted them first.
    ///
    /// # Errors
    /// When the password has expired and no grace is left.
    pub fn after_success(
        &self,
        policy: &PasswordPolicy,
        now: Timestamp,
    ) -> Result<SuccessfulLogin, Rejected> {
        let mut state = Self { last_success: Some(now), ..self.clone() };
        state.failures.retain(|failure| *failure > now);
        state.locked = match state.locked {
            Some(Locked::Since(moment)) if moment > now => state.locked,
            _ => None,
        };
        state.temporary_uses = self.uses_after(policy);
        let must_change = policy.forces_change() && self.is_reset;
        let mut warning = None;
        if let Some(expiry) = self.expiry(policy) {
            if now >= expiry {
                let used = u32::try_from(self.grace_uses.len()).unwrap_or(u32::MAX);
                let is_late =
                    policy.grace_expiry.is_some_and(|length| now >= after(expiry, length));
                // This one is used up now.
                let left = policy.grace_logins.saturating_sub(used).checked_sub(1);
                let Some(left) = left.filter(|_| !is_late) else { return Err(Rejected::Expired) };
                state.grace_uses.push(now);
                warning = Some(PolicyWarning::GraceRemaining(left));
            } else {
                let left = between(now, expiry);
                let is_soon = policy.expire_warning.is_some_and(|length| left <= length);
                warning = is_soon.then_some(PolicyWarning::BeforeExpiration(left));
            }
        }
        Ok(SuccessfulLogin { remark: Remark { warning, must_change }, state })
    }

    /// When the password expires.
    pub fn expiry(&self, policy: &PasswordPolicy) -> Option<Timestamp> {
        Some(after(self.changed?, policy.max_age?))
    }

    /// A bind with a wrong password (§7.6); it may be earlier than others that are known.
    pub fn after_failure(&self, policy: &PasswordPolicy, now: Timestamp) -> Self {
        let mut state = Self { temporary_uses: self.uses_after(policy), ..self.clone() };
        // A lock that was over is no reason to keep the failures that led to it.
        if let (Some(Locked::Since(moment)), Some(length)) = (state.locked, policy.lockout_duration)
            && now >= after(moment, length)
        {
            state.locked = None;
            state.failures.retain(|failure| *failure > moment);
        }
        let place = state.failures.partition_point(|failure| *failure <= now);
        state.failures.insert(place, now);
        let latest = state.failures.last().copied().unwrap_or(now);
        if let Some(length) = policy.failure_interval {
            let is_recent = |failure| failure == latest || between(failure, latest) < length;
            state.failures.retain(|failure| is_recent(*failure));
        }
        let most = usize::try_from(policy.max_failures).unwrap_or(usize::MAX);
        if policy.lockout && most > 0 && state.failures.len() >= most && state.locked.is_none() {
            state.locked = Some(Locked::Since(latest));
        }
        let too_many = state.failures.len().saturating_sub(policy.failures_kept());
        state.failures.drain(..too_many);
        state
    }

    /// Whether people may change their own password now (§8.2). An administrator always may.
    ///
    /// # Errors
    /// When they may not.
    pub fn may_change(
        &self,
        policy: &PasswordPolicy,
        sends_old: bool,
        now: Timestamp,
    ) -> Result<(), Rejected> {
        let has_to = policy.forces_change() && self.is_reset;
        if !policy.allow_user_change {
            return Err(Rejected::ChangeNotAllowed);
        }
        if policy.safe_modify && !sends_old {
            return Err(Rejected::OldPasswordMissing);
        }
        let is_young = policy
            .min_age
            .zip(self.changed)
            .is_some_and(|(least, changed)| now < after(changed, least));
        if is_young && !has_to { Err(Rejected::TooYoung) } else { Ok(()) }
    }

    /// The password was changed (§8.2.7).
    pub fn after_change(&self, policy: &PasswordPolicy, changed: &Changed<'_>) -> Self {
        let Changed { by, now, .. } = *changed;
        let mut history = self.history.clone();
        if policy.remembers() {
            let old = changed.old.iter().take(HISTORY_KEPT_MAX);
            history.extend(old.map(|stored| Used { until: now, stored: (*stored).to_owned() }));
        }
        let beyond = history.len() - remembered(&history, policy, now).len();
        history.drain(..beyond);
        let is_reset = match by {
            Changer::Owner => false,
            Changer::Administrator => policy.must_change,
            Changer::Adder => policy.must_change_new,
        };
        let since =
            |length: Option<Duration>| length.filter(|_| is_reset).map(|length| after(now, length));
        // Who locked an account for ever meant its owner.
        let stays_locked = by == Changer::Owner && self.locked == Some(Locked::ForEver);
        Self {
            changed: Some(now),
            locked: self.locked.filter(|_| stays_locked),
            failures: Vec::new(),
            grace_uses: Vec::new(),
            is_reset,
            history,
            temporary_uses: 0,
            temporary_from: since(policy.temporary.valid_after),
            temporary_until: since(policy.temporary.expires_after),
            ..self.clone()
        }
    }

    /// The stored forms that a new password must not be behind, besides the one in use.
    pub fn used<'s>(
        &'s self,
        policy: &PasswordPolicy,
        now: Timestamp,
    ) -> impl Iterator<Item = &'s str> + use<'s> {
        remembered(&self.history, policy, now).iter().map(|used| used.stored.as_str())
    }
}

/// The end of a history that counts: so many passwords, and those that were used not long ago.
fn remembered<'h>(history: &'h [Used], policy: &PasswordPolicy, now: Timestamp) -> &'h [Used] {
    let counted = usize::try_from(policy.in_history).unwrap_or(usize::MAX);
    let is_old =
        |used: &Used| policy.history_duration.is_none_or(|age| now >= after(used.until, age));
    let old = history.iter().take_while(|used| is_old(used)).count();
    let first = history.len().saturating_sub(counted).min(old);
    history.get(first.max(history.len().saturating_sub(HISTORY_KEPT_MAX))..).unwrap_or_default()
}

impl Used {
    /// `time#syntax#length#data` (§5.3.7).
    fn parse(value: &str) -> Option<Self> {
        let mut parts = value.splitn(4, '#');
        let until = time(parts.next()?)?;
        let (_, length, stored) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = length.parse() == Ok(stored.len());
        is_whole.then(|| Self { until, stored: stored.to_owned() })
    }

    fn written(&self) -> String {
        let Self { until, stored } = self;
        format!("{}#{OCTET_STRING}#{}#{stored}", written(*until), stored.len())
    }
}

/// A GeneralizedTime with microseconds: two failures of one second are two.
fn written(moment: Timestamp) -> String {
    format!("{}.{:06}Z", moment.compact(), moment.0 % 1_000_000)
}

/// The time of a lock that nothing ends but somebody who unlocks it.
const FOR_EVER: &str = "000001010000Z";

/// Used passwords that are kept at most: a new one is hashed as often.
const HISTORY_KEPT_MAX: usize = HISTORY_MAX as usize;

/// The syntax of userPassword (RFC 4517 §3.3.25).
const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";

#[cfg(test)]
mod tests;
