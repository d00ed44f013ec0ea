//! Accounts through time: each rule of the draft at its edges.

use ldap::dn::Dn;
use schema::Entry;

use super::*;
use crate::password_policy::Temporary;

const DAY: u64 = 86_400;

/// So many seconds after the beginning of the story.
fn at(seconds: u64) -> Timestamp {
    Timestamp((1_767_225_600 + seconds) * 1_000_000)
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn new() -> AccountState {
    AccountState { changed: Some(at(0)), ..AccountState::default() }
}

fn owner<'c>(old: &'c [&'c str], now: u64) -> Changed<'c> {
    Changed { by: Changer::Owner, old, now: at(now) }
}

fn reset<'c>(old: &'c [&'c str], now: u64) -> Changed<'c> {
    Changed { by: Changer::Administrator, old, now: at(now) }
}

fn warning(state: &AccountState, policy: &PasswordPolicy, now: u64) -> Option<PolicyWarning> {
    state.after_success(policy, at(now)).unwrap().remark.warning
}

#[test]
fn without_rules_nothing_is_refused() {
    let policy = PasswordPolicy { allow_user_change: true, ..PasswordPolicy::default() };
    let mut state = new();
    for failure in 0..100 {
        state = state.after_failure(&policy, at(failure));
        assert_eq!(state.before_login(&policy, at(failure)), Ok(()));
    }
    let login = state.after_success(&policy, at(1_000 * DAY)).unwrap();
    assert_eq!(login.remark, Remark::default());
    assert_eq!(login.state.failures, []);
    assert_eq!(state.may_change(&policy, false, at(0)), Ok(()));
}

#[test]
fn a_password_expires_after_a_warning_and_some_grace() {
    let policy = PasswordPolicy {
        max_age: seconds(30 * DAY),
        expire_warning: seconds(7 * DAY),
        grace_logins: 2,
        ..PasswordPolicy::default()
    };
    let state = new();
    assert_eq!(warning(&state, &policy, 23 * DAY - 1), None);
    let week = PolicyWarning::BeforeExpiration(Duration::from_secs(7 * DAY));
    assert_eq!(warning(&state, &policy, 23 * DAY), Some(week));
    let second = PolicyWarning::BeforeExpiration(Duration::from_secs(1));
    assert_eq!(warning(&state, &policy, 30 * DAY - 1), Some(second));
    let first = state.after_success(&policy, at(30 * DAY)).unwrap();
    assert_eq!(first.remark.warning, Some(PolicyWarning::GraceRemaining(1)));
    let last = first.state.after_success(&policy, at(31 * DAY)).unwrap();
    assert_eq!(last.remark.warning, Some(PolicyWarning::GraceRemaining(0)));
    assert_eq!(last.state.after_success(&policy, at(31 * DAY)), Err(Rejected::Expired));
    let changed = last.state.after_change(&policy, &owner(&[], 31 * DAY));
    assert_eq!(warning(&changed, &policy, 31 * DAY), None);
    // Grace that is over, too.
    let policy = PasswordPolicy { grace_expiry: seconds(DAY), ..policy };
    assert!(state.after_success(&policy, at(31 * DAY - 1)).is_ok());
    assert_eq!(state.after_success(&policy, at(31 * DAY)), Err(Rejected::Expired));
    // An entry that was never given a time does not expire.
    assert_eq!(warning(&AccountState::default(), &policy, 31 * DAY), None);
}

#[test]
fn failures_lock_an_account_for_a_while() {
    let policy = PasswordPolicy {
        lockout: true,
        max_failures: 3,
        lockout_duration: seconds(600),
        failure_interval: seconds(60),
        ..PasswordPolicy::default()
    };
    let mut state = new();
    for failure in [0, 61, 62] {
        state = state.after_failure(&policy, at(failure));
        assert_eq!(state.before_login(&policy, at(failure)), Ok(()), "the first one is too old");
    }
    state = state.after_failure(&policy, at(63));
    assert_eq!(state.locked, Some(Locked::Since(at(63))));
    assert_eq!(state.before_login(&policy, at(63)), Err(Rejected::Locked));
    assert_eq!(state.before_login(&policy, at(662)), Err(Rejected::Locked));
    assert_eq!(state.before_login(&policy, at(663)), Ok(()));
    // One more failure is the first of a new count.
    let again = state.after_failure(&policy, at(663));
    assert_eq!((again.locked, again.failures.len()), (None, 1));
    assert_eq!(state.after_success(&policy, at(700)).unwrap().state.locked, None);
    // Without a duration it stays locked; without the switch it never is.
    let for_ever = PasswordPolicy { lockout_duration: None, ..policy.clone() };
    assert_eq!(state.before_login(&for_ever, at(1_000 * DAY)), Err(Rejected::Locked));
    let off = PasswordPolicy { lockout: false, ..policy };
    let state = (0..10).fold(new(), |state, second| state.after_failure(&off, at(second)));
    assert_eq!((state.locked, state.failures.len()), (None, 3));
}

#[test]
fn each_failure_doubles_the_wait_up_to_the_most() {
    let policy = PasswordPolicy {
        min_delay: seconds(2),
        max_delay: seconds(10),
        ..PasswordPolicy::default()
    };
    let mut state = new();
    let mut now = 0;
    for wait in [2, 4, 8, 10, 10] {
        state = state.after_failure(&policy, at(now));
        let delayed = Rejected::Delayed(Duration::from_secs(1));
        assert_eq!(state.before_login(&policy, at(now + wait - 1)), Err(delayed), "{wait}");
        now += wait;
        assert_eq!(state.before_login(&policy, at(now)), Ok(()));
    }
    let login = state.after_success(&policy, at(now)).unwrap();
    assert_eq!(login.state.before_login(&policy, at(now)), Ok(()));
}

#[test]
fn an_account_has_its_time_and_may_not_be_idle() {
    let policy = PasswordPolicy { max_idle: seconds(30 * DAY), ..PasswordPolicy::default() };
    let state = AccountState { start: Some(at(10)), end: Some(at(20)), ..new() };
    for (now, want) in [(9, false), (10, true), (19, true), (20, false)] {
        assert_eq!(state.before_login(&policy, at(now)).is_ok(), want, "{now}");
    }
    assert_eq!(new().before_login(&policy, at(30 * DAY - 1)), Ok(()), "never used");
    assert_eq!(new().before_login(&policy, at(30 * DAY)), Err(Rejected::Locked));
    let used = new().after_success(&policy, at(20 * DAY)).unwrap().state;
    assert_eq!(used.before_login(&policy, at(49 * DAY)), Ok(()));
    assert_eq!(used.before_login(&policy, at(50 * DAY)), Err(Rejected::Locked));
    let closed = AccountState { locked: Some(Locked::ForEver), ..new() };
    let policy = PasswordPolicy { lockout_duration: seconds(1), ..PasswordPolicy::default() };
    assert_eq!(closed.before_login(&policy, at(DAY)), Err(Rejected::Locked));
}

#[test]
fn a_password_that_somebody_set_has_to_be_changed_by_its_owner() {
    let policy = PasswordPolicy {
        must_change: true,
        allow_user_change: true,
        min_age: seconds(DAY),
        ..PasswordPolicy::default()
    };
    let set = new().after_change(&policy, &reset(&[], 0));
    assert!(set.after_success(&policy, at(1)).unwrap().remark.must_change);
    assert_eq!(set.may_change(&policy, false, at(1)), Ok(()), "however young it is");
    let own = set.after_change(&policy, &owner(&[], 1));
    assert!(!own.after_success(&policy, at(2)).unwrap().remark.must_change);
    assert_eq!(own.may_change(&policy, false, at(DAY)), Err(Rejected::TooYoung));
    assert_eq!(own.may_change(&policy, false, at(DAY + 1)), Ok(()));
    let safe = PasswordPolicy { safe_modify: true, ..policy.clone() };
    assert_eq!(own.may_change(&safe, false, at(2 * DAY)), Err(Rejected::OldPasswordMissing));
    assert_eq!(own.may_change(&safe, true, at(2 * DAY)), Ok(()));
    let none = PasswordPolicy { allow_user_change: false, ..policy };
    assert_eq!(own.may_change(&none, true, at(2 * DAY)), Err(Rejected::ChangeNotAllowed));
}

#[test]
fn so_many_used_passwords_are_remembered() {
    let policy = PasswordPolicy { in_history: 2, ..PasswordPolicy::default() };
    let mut state = new();
    for (second, stored) in [(1, "{A}#one"), (2, "{A}two"), (3, "{A}three")] {
        state = state.after_change(&policy, &owner(&[stored], second));
    }
    assert_eq!(state.used(&policy, at(4)).collect::<Vec<_>>(), ["{A}two", "{A}three"]);
    let fewer = PasswordPolicy { in_history: 1, ..policy };
    assert_eq!(state.used(&fewer, at(4)).collect::<Vec<_>>(), ["{A}three"]);
    let none = PasswordPolicy { in_history: 0, ..fewer };
    assert_eq!(state.used(&none, at(4)).count(), 0);
    assert_eq!(state.after_change(&none, &owner(&["{A}x"], 4)).history, []);
}

#[test]
fn what_is_written_is_read_again() {
    let policy = PasswordPolicy {
        in_history: 3,
        must_change: true,
        max_failures: 9,
        ..PasswordPolicy::default()
    };
    let mut state = new().after_change(&policy, &reset(&["{SSHA}a#b=="], 5));
    state = state.after_failure(&policy, at(6)).after_failure(&policy, Timestamp(at(6).0 + 1));
    state.grace_uses = vec![at(7)];
    (state.start, state.end, state.last_success) = (Some(at(1)), Some(at(99)), Some(at(8)));
    (state.temporary_uses, state.temporary_from, state.temporary_until) =
        (2, Some(at(3)), Some(at(4)));
    let schema = Schema::builtin();
    for locked in [None, Some(Locked::ForEver), Some(Locked::Since(at(9)))] {
        state.locked = locked;
        let mut pairs = vec![("objectClass", b"account".to_vec()), ("uid", b"x".to_vec())];
        for (name, values) in state.attributes() {
            pairs.extend(values.into_iter().map(|value| (name, value.into_bytes())));
        }
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_slice()));
        let name = Dn::parse("uid=x,dc=example").unwrap();
        let entry = Entry::from_pairs(name, pairs, &schema).unwrap();
        assert_eq!(AccountState::read(&entry, &schema), state);
    }
}

#[test]
fn a_lock_that_cannot_be_read_holds() {
    let schema = Schema::builtin();
    let pairs: [(&str, &[u8]); 3] = [
        ("objectClass", b"account"),
        ("uid", b"x"),
        ("pwdHistory", b"20260101000000Z#1.3#99#short"),
    ];
    let name = Dn::parse("uid=x,dc=example").unwrap();
    let entry = Entry::from_pairs(name, pairs, &schema).unwrap();
    assert_eq!(AccountState::read(&entry, &schema), AccountState::default());
}

#[test]
fn used_passwords_are_remembered_for_so_long() {
    let policy = PasswordPolicy { history_duration: seconds(10), ..PasswordPolicy::default() };
    let mut state = new();
    for (second, stored) in [(1, "one"), (2, "two"), (8, "three")] {
        state = state.after_change(&policy, &owner(&[stored], second));
    }
    assert_eq!(state.used(&policy, at(10)).collect::<Vec<_>>(), ["one", "two", "three"]);
    assert_eq!(state.used(&policy, at(11)).collect::<Vec<_>>(), ["two", "three"]);
    assert_eq!(state.used(&policy, at(18)).count(), 0);
    // What is counted stays, however old it is.
    let both = PasswordPolicy { in_history: 1, ..policy.clone() };
    assert_eq!(state.used(&both, at(18)).collect::<Vec<_>>(), ["three"]);
    let after = state.after_change(&policy, &owner(&["four"], 13));
    assert_eq!(after.history.len(), 2, "the others are not needed any more");
    let forms = (0..300).map(|n| n.to_string()).collect::<Vec<_>>();
    for form in &forms {
        state = state.after_change(&policy, &owner(&[form], 14));
    }
    assert_eq!(state.history.len(), 100);
}

#[test]
fn a_temporary_password_has_its_time_and_its_uses() {
    let temporary =
        Temporary { max_uses: Some(2), valid_after: seconds(10), expires_after: seconds(60) };
    let policy = PasswordPolicy {
        must_change: true,
        allow_user_change: true,
        temporary,
        ..PasswordPolicy::default()
    };
    let set = new().after_change(&policy, &reset(&[], 0));
    assert_eq!(set.before_login(&policy, at(9)), Err(Rejected::Locked));
    assert_eq!(set.before_login(&policy, at(10)), Ok(()));
    assert_eq!(set.before_login(&policy, at(59)), Ok(()));
    assert_eq!(set.before_login(&policy, at(60)), Err(Rejected::Expired));
    // Right and wrong ones count.
    let once = set.after_failure(&policy, at(20));
    assert_eq!(once.before_login(&policy, at(20)), Ok(()));
    let twice = once.after_success(&policy, at(21)).unwrap().state;
    assert_eq!(twice.before_login(&policy, at(22)), Err(Rejected::Expired));
    let own = twice.after_change(&policy, &owner(&[], 23));
    assert_eq!((own.temporary_uses, own.temporary_from, own.temporary_until), (0, None, None));
    assert_eq!(own.before_login(&policy, at(1_000)), Ok(()));
    assert_eq!(own.after_failure(&policy, at(1_001)).temporary_uses, 0);
    // An entry is added with one only where that is said.
    let added = Changed { by: Changer::Adder, ..reset(&[], 0) };
    assert!(!new().after_change(&policy, &added).is_reset);
    let policy = PasswordPolicy { must_change_new: true, ..policy };
    assert!(new().after_change(&policy, &added).is_reset);
}

#[test]
fn nobody_unlocks_himself() {
    let policy = PasswordPolicy { lockout: true, ..PasswordPolicy::default() };
    for (locked, by, want) in [
        (Locked::ForEver, Changer::Owner, Some(Locked::ForEver)),
        (Locked::ForEver, Changer::Administrator, None),
        (Locked::Since(at(1)), Changer::Owner, None),
        (Locked::Since(at(1)), Changer::Administrator, None),
    ] {
        let state = AccountState { locked: Some(locked), ..new() };
        let changed = Changed { by, old: &[], now: at(2) };
        assert_eq!(state.after_change(&policy, &changed).locked, want);
    }
}
