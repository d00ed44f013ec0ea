//! Every condition, and that it is told exactly when binds are refused.

use super::*;
use crate::password_policy::Temporary;

const DAY: Duration = Duration::from_secs(86_400);
const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

fn ago(days: u32) -> Timestamp {
    Timestamp(NOW.0 - u64::from(days) * 86_400_000_000)
}

fn account(state: AccountState) -> Account {
    Account { state, has_password: true, ..Account::default() }
}

fn policy() -> PasswordPolicy {
    PasswordPolicy {
        max_age: Some(90 * DAY),
        expire_warning: Some(10 * DAY),
        grace_logins: 2,
        grace_expiry: Some(5 * DAY),
        lockout: true,
        lockout_duration: Some(DAY),
        max_failures: 3,
        max_idle: Some(200 * DAY),
        min_age: Some(DAY),
        must_change: true,
        ..PasswordPolicy::default()
    }
}

/// The conditions are these; and they refuse exactly when a bind with the right password is.
#[track_caller]
fn check(account: &Account, want: &[Condition], usability: Usability) {
    let policy = policy();
    let found = account.conditions(&policy, NOW);
    assert_eq!(found, want);
    assert_eq!(account.usability(&policy, NOW), usability, "{found:?}");
    let state = &account.state;
    let bound = state.before_login(&policy, NOW).is_ok()
        && account.switches.check(NOW).is_ok()
        && state.after_success(&policy, NOW).is_ok();
    assert_eq!(!found.iter().any(Condition::refuses), bound, "{found:?}");
}

fn unusable(why: Unusable) -> Usability {
    Usability::Unusable(why)
}

const INACTIVE: Unusable =
    Unusable { inactive: true, reset: false, expired: false, grace: None, unlock_s: None };

#[test]
fn an_account_in_order_has_nothing_to_say() {
    check(&account(AccountState::default()), &[], Usability::Usable { expires_s: None });
    let state = AccountState { changed: Some(ago(30)), ..AccountState::default() };
    check(&account(state), &[], Usability::Usable { expires_s: Some(60 * 86_400) });
}

#[test]
fn what_switches_an_account_off_is_told() {
    let off = Switches { is_disabled: true, expires: Some(ago(2)) };
    let one = Account { switches: off, ..account(AccountState::default()) };
    let want = [Condition::Disabled, Condition::Expired(ago(2))];
    check(&one, &want, unusable(INACTIVE));
    let state = AccountState { end: Some(ago(1)), ..AccountState::default() };
    check(&account(state), &[Condition::Expired(ago(1))], unusable(INACTIVE));
    let tomorrow = after(NOW, DAY);
    let state = AccountState { start: Some(tomorrow), ..AccountState::default() };
    check(&account(state), &[Condition::NotYetActive(tomorrow)], unusable(INACTIVE));
}

#[test]
fn locks_are_told_with_their_end() {
    let since = Timestamp(NOW.0 - 3_600_000_000);
    let locked = |locked| account(AccountState { locked: Some(locked), ..AccountState::default() });
    let until = after(since, DAY);
    check(
        &locked(Locked::Since(since)),
        &[Condition::Locked { since: Some(since), until: Some(until) }],
        unusable(Unusable { unlock_s: Some(82_800), ..Unusable::default() }),
    );
    check(&locked(Locked::Since(ago(1))), &[], Usability::Usable { expires_s: None });
    check(
        &locked(Locked::ForEver),
        &[Condition::Locked { since: None, until: None }],
        unusable(Unusable { unlock_s: Some(-1), ..Unusable::default() }),
    );
    let state = AccountState { last_success: Some(ago(201)), ..AccountState::default() };
    check(
        &account(state),
        &[Condition::Idle(ago(1))],
        unusable(Unusable { unlock_s: Some(-1), ..Unusable::default() }),
    );
}

#[test]
fn expired_passwords_are_told_with_their_grace() {
    let changed = |days| AccountState { changed: Some(ago(days)), ..AccountState::default() };
    let soon = Condition::PasswordExpires(after(NOW, DAY));
    check(&account(changed(89)), &[soon], Usability::Usable { expires_s: Some(86_400) });
    let expired = |grace| unusable(Unusable { expired: true, grace, ..Unusable::default() });
    check(&account(changed(91)), &[Condition::Grace(ago(1), 2)], expired(Some(2)));
    let state = AccountState { grace_uses: vec![ago(0), ago(0)], ..changed(91) };
    check(&account(state), &[Condition::PasswordExpired(ago(1))], expired(Some(0)));
    check(&account(changed(95)), &[Condition::PasswordExpired(ago(5))], expired(Some(0)));
}

#[test]
fn what_is_good_to_know_refuses_nothing() {
    let state = AccountState { is_reset: true, ..AccountState::default() };
    let reset = unusable(Unusable { reset: true, ..Unusable::default() });
    check(&account(state), &[Condition::MustChange], reset);
    let usable = Usability::Usable { expires_s: None };
    let state = AccountState { failures: vec![ago(1)], ..AccountState::default() };
    check(&account(state), &[Condition::Failures { count: 1, left: Some(2) }], usable);
    let state = AccountState { changed: Some(ago(0)), ..AccountState::default() };
    let whole = Usability::Usable { expires_s: Some(90 * 86_400) };
    check(&account(state), &[Condition::TooYoung(after(NOW, DAY))], whole);
    assert!(Condition::NoPassword.refuses());
}

#[test]
fn temporary_passwords_have_their_time_and_their_uses() {
    let policy = PasswordPolicy {
        must_change: true,
        temporary: Temporary { max_uses: Some(2), ..Temporary::default() },
        ..PasswordPolicy::default()
    };
    let tomorrow = after(NOW, DAY);
    let reset = |uses, from, until| AccountState {
        is_reset: true,
        temporary_uses: uses,
        temporary_from: from,
        temporary_until: until,
        ..AccountState::default()
    };
    let must = Condition::MustChange;
    for (state, want) in [
        (reset(1, Some(ago(1)), Some(tomorrow)), vec![must]),
        (reset(0, Some(tomorrow), None), vec![Condition::TemporaryLater(tomorrow), must]),
        (reset(0, None, Some(ago(1))), vec![Condition::TemporaryOver(Some(ago(1))), must]),
        (reset(2, None, Some(tomorrow)), vec![Condition::TemporaryOver(None), must]),
    ] {
        let refused = state.before_login(&policy, NOW).is_err();
        let found = account(state).conditions(&policy, NOW);
        assert_eq!(found, want);
        assert_eq!(found.iter().any(Condition::refuses), refused);
    }
}

#[test]
fn a_delay_is_told_as_long_as_it_lasts() {
    let slow = PasswordPolicy { min_delay: Some(DAY), ..PasswordPolicy::default() };
    let failed = AccountState { failures: vec![ago(0)], ..AccountState::default() };
    let found = account(failed.clone()).conditions(&slow, NOW);
    let delayed = Condition::Delayed(after(NOW, DAY));
    assert_eq!(found, [delayed, Condition::Failures { count: 1, left: None }]);
    assert!(delayed.refuses() && failed.before_login(&slow, NOW).is_err());
    assert_eq!(account(failed).conditions(&slow, after(NOW, DAY)).len(), 1);
}

#[test]
fn people_and_programs_are_told_the_same() {
    let locked = Condition::Locked { since: Some(NOW), until: None };
    assert_eq!(locked.code().0, 4);
    assert_eq!(
        locked.sentence(),
        "the account is locked since 2027-01-15 08:00:00 UTC, until somebody unlocks it"
    );
    let grace = Condition::Grace(NOW, 1);
    assert_eq!((grace.code().0, grace.weight()), (10, Weight::Error));
    assert_eq!(
        grace.sentence(),
        "the password expired on 2027-01-15 08:00:00 UTC; it can be used once more"
    );
    let failures = Condition::Failures { count: 2, left: Some(1) };
    assert_eq!(
        failures.sentence(),
        "signing in failed 2 times; failing once more locks the account"
    );
}
