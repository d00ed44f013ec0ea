//! What is reported of an account: one row for each operation that asks.

use std::borrow::Cow;
use std::time::Duration;

use environment::Timestamp;
use ldap::control_value::policy_state::{PolicyState, StateOperation, operation as number};

use crate::password_policy::{Account, Condition, PasswordPolicy, Weight};
use crate::write::request::StateQuery;

/// What is known of an account.
pub(super) struct AccountReport<'a> {
    /// The DN of its policy.
    pub(super) name: Option<&'a str>,
    pub(super) policy: &'a PasswordPolicy,
    pub(super) account: &'a Account,
    pub(super) now: Timestamp,
}

/// An operation that asks for something.
struct Row {
    number: u32,
    report: fn(&AccountReport<'_>) -> Vec<String>,
}

const fn row(number: u32, report: fn(&AccountReport<'_>) -> Vec<String>) -> Row {
    Row { number, report }
}

/// All of them. The first part is OpenDJ's; its clients end with an error on other numbers.
static ROWS: &[Row] = &[
    row(number::POLICY_DN, |it| it.name.map(str::to_owned).into_iter().collect()),
    row(number::DISABLED, |it| truth(it.account.switches.is_disabled)),
    row(number::EXPIRATION, |it| moment(it.account.expiration())),
    row(number::UNTIL_EXPIRATION, |it| it.until(it.account.expiration())),
    row(number::CHANGED, |it| moment(it.account.state.changed)),
    row(number::WARNED, |_| Vec::new()),
    row(number::UNTIL_PASSWORD_EXPIRATION, |it| it.until(it.account.state.expiry(it.policy))),
    row(number::UNTIL_WARNING, |it| {
        let expiry = it.account.state.expiry(it.policy);
        let before = it.policy.expire_warning.unwrap_or(Duration::ZERO);
        it.until(expiry.map(|expiry| Timestamp(expiry.0.saturating_sub(micros(before)))))
    }),
    row(number::FAILURES, |it| moments(&it.account.state.failures)),
    row(number::UNTIL_UNLOCK, |it| match it.account.lock(it.policy, it.now) {
        Some(Condition::Locked { until, .. }) => it.until(until),
        _ => Vec::new(),
    }),
    row(number::REMAINING_FAILURES, |it| {
        let left = it.account.failures_left(it.policy, it.now);
        left.map(|left| left.to_string()).into_iter().collect()
    }),
    row(number::LAST_LOGIN, |it| moment(it.account.state.last_success)),
    row(number::UNTIL_IDLE_LOCK, |it| it.until(it.account.idle(it.policy))),
    row(number::RESET, |it| truth(it.account.state.is_reset)),
    row(number::UNTIL_RESET_LOCK, |it| {
        it.until(it.account.state.temporary_until.filter(|_| it.account.state.is_reset))
    }),
    row(number::GRACE_USES, |it| moments(&it.account.state.grace_uses)),
    row(number::REMAINING_GRACE, |it| vec![it.account.grace_left(it.policy, it.now).to_string()]),
    row(number::REQUIRED_CHANGE, |_| Vec::new()),
    row(number::UNTIL_REQUIRED_CHANGE, |_| Vec::new()),
    row(number::HISTORY, |it| {
        it.account.state.history.iter().map(|used| used.until.generalized_time()).collect()
    }),
    // PingDirectory's.
    row(number::ACTIVATION, |it| moment(it.account.state.start)),
    row(number::UNTIL_ACTIVATION, |it| it.until(it.account.state.start)),
    row(number::NOTICES, |it| it.lines(Weight::Notice)),
    row(number::WARNINGS, |it| it.lines(Weight::Warning)),
    row(number::ERRORS, |it| it.lines(Weight::Error)),
    row(number::USABLE, |it| truth(!it.has(&Condition::refuses))),
    row(number::NOT_YET_ACTIVE, |it| {
        truth(it.has(&|one| matches!(one, Condition::NotYetActive(_))))
    }),
    row(number::EXPIRED, |it| truth(it.has(&|one| matches!(one, Condition::Expired(_))))),
    row(number::PASSWORD_EXPIRATION, |it| moment(it.account.state.expiry(it.policy))),
    row(number::LOCKED, |it| truth(it.account.lock(it.policy, it.now).is_some())),
    row(number::LOCKED_TIME, |it| match it.account.lock(it.policy, it.now) {
        Some(Condition::Locked { since, .. }) => moment(since),
        _ => Vec::new(),
    }),
    row(number::IDLE_LOCKED, |it| truth(it.has(&|one| matches!(one, Condition::Idle(_))))),
    row(number::IDLE_LOCKED_TIME, |it| moment(it.account.idle(it.policy))),
    row(number::HISTORY_COUNT, |it| vec![it.account.state.history.len().to_string()]),
    row(number::PASSWORD_EXPIRED, |it| {
        let expiry = it.account.state.expiry(it.policy);
        truth(expiry.is_some_and(|expiry| it.now >= expiry))
    }),
    row(number::HAS_PASSWORD, |it| truth(it.account.has_password)),
];

/// Whether an operation asks for something.
pub(super) fn is_known(number: u32) -> bool {
    ROWS.iter().any(|row| row.number == number)
}

impl AccountReport<'_> {
    /// The value of the response: what was asked for, in the order of the table, each once.
    pub(super) fn value(&self, query: &StateQuery) -> Vec<u8> {
        let StateQuery { target, numbers, knows_ping } = query;
        let is_asked = |row: &&Row| match numbers[..] {
            [] => *knows_ping || row.number <= number::CLEAR_HISTORY,
            [_, ..] => numbers.contains(&row.number),
        };
        let answer = |row: &Row| StateOperation {
            number: row.number,
            values: (row.report)(self).into_iter().map(Cow::Owned).collect(),
        };
        let operations = ROWS.iter().filter(is_asked).map(answer).collect();
        PolicyState { target: Cow::Borrowed(target), operations }.encode()
    }

    fn has(&self, is_meant: &dyn Fn(&Condition) -> bool) -> bool {
        self.account.conditions(self.policy, self.now).iter().any(is_meant)
    }

    /// Conditions as PingDirectory writes them.
    fn lines(&self, weight: Weight) -> Vec<String> {
        let found = self.account.conditions(self.policy, self.now);
        let meant = found.iter().filter(|one| one.weight() == weight);
        let line = |one: &Condition| {
            let (code, name) = one.code();
            format!("code={code}\tname={name}\tmessage={}", one.sentence())
        };
        meant.map(line).collect()
    }

    /// Seconds until a moment; none when it is past.
    fn until(&self, moment: Option<Timestamp>) -> Vec<String> {
        let seconds = |moment: Timestamp| moment.0.saturating_sub(self.now.0).div_ceil(1_000_000);
        moment.map(|moment| seconds(moment).to_string()).into_iter().collect()
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

fn truth(is_so: bool) -> Vec<String> {
    vec![is_so.to_string()]
}

fn moment(moment: Option<Timestamp>) -> Vec<String> {
    moment.map(Timestamp::generalized_time).into_iter().collect()
}

fn moments(moments: &[Timestamp]) -> Vec<String> {
    moments.iter().copied().map(Timestamp::generalized_time).collect()
}
