//! What entries of each product read as.

use auth::password::Scheme;
use ldap::dn::Dn;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use schema::Entry;

use super::*;
use crate::password_policy::{HashedFrom, NewPassword, Quality, Temporary, Words};

fn read(pairs: &[(&str, &str)]) -> Result<PasswordPolicy, PolicyFault> {
    let schema = Schema::builtin();
    let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
    let name = Dn::parse("cn=x,dc=example").unwrap();
    let entry = Entry::from_pairs(name, pairs.chain([("cn", &b"x"[..])]), &schema).unwrap();
    PasswordPolicy::read(&entry, &schema)
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

#[test]
fn a_policy_of_389_is_read_with_its_defaults() {
    let class = ("objectClass", "passwordPolicy");
    let none = read(&[class]).unwrap();
    let want = PasswordPolicy {
        allow_user_change: true,
        max_failures: 3,
        lockout_duration: seconds(3_600),
        failure_interval: seconds(600),
        expire_warning: seconds(86_400),
        ..PasswordPolicy::default()
    };
    assert_eq!(none, want);
    let policy = read(&[
        class,
        ("passwordExp", "on"),
        ("passwordMaxAge", "180D"),
        ("passwordWarning", "7 days"),
        ("passwordGraceLimit", "2"),
        ("passwordMinAge", "3600"),
        ("passwordHistory", "on"),
        ("passwordLockout", "on"),
        ("passwordMaxFailure", "5"),
        ("passwordUnlock", "off"),
        ("passwordMustChange", "on"),
        ("passwordCheckSyntax", "on"),
        ("passwordMinDigits", "1"),
        ("passwordPalindrome", "on"),
        ("passwordDictCheck", "on"),
        ("passwordBadWords", "Acme Widget"),
        ("passwordUserAttributes", "employeeNumber mobile"),
        ("passwordStorageScheme", "SSHA512"),
        ("passwordTPRMaxUse", "3"),
        ("passwordTPRDelayExpireAt", "600"),
        ("passwordTPRDelayValidFrom", "-1"),
    ])
    .unwrap();
    let mut own = vec!["employeenumber".to_owned(), "mobile".to_owned()];
    own.extend(own_attributes());
    let want = PasswordPolicy {
        max_age: seconds(180 * 86_400),
        expire_warning: seconds(7 * 86_400),
        grace_logins: 2,
        min_age: seconds(3_600),
        in_history: 6,
        lockout: true,
        max_failures: 5,
        lockout_duration: None,
        must_change: true,
        must_change_new: true,
        check_quality: CheckQuality::WherePossible,
        min_length: 8,
        quality: Quality {
            min_digits: 1,
            min_categories: 3,
            min_token_length: 3,
            no_palindrome: true,
            dictionary: true,
            bad_words: vec!["acme".to_owned(), "widget".to_owned()],
            own_attributes: own,
            ..Quality::default()
        },
        scheme: Some(Scheme::Ssha512),
        temporary: Temporary { max_uses: Some(3), valid_after: None, expires_after: seconds(600) },
        ..want
    };
    assert_eq!(policy, want);
}

#[test]
fn switches_of_389_switch() {
    let class = ("objectClass", "passwordPolicy");
    let off = read(&[class, ("passwordMaxAge", "100"), ("passwordMinLength", "9")]).unwrap();
    assert_eq!((off.max_age, off.check_quality), (None, CheckQuality::Off));
    let on = read(&[class, ("passwordExp", "on")]).unwrap();
    assert_eq!(on.max_age, Some(DS389_MAX_AGE));
    let kept = read(&[class, ("passwordInHistory", "4")]).unwrap();
    assert_eq!(kept.in_history, 4);
    let not = read(&[class, ("passwordInHistory", "4"), ("passwordHistory", "off")]).unwrap();
    assert_eq!(not.in_history, 0);
}

#[test]
fn a_policy_of_opendj_is_read() {
    let policy = read(&[
        ("objectClass", "ds-pwp-password-policy"),
        ("ds-pwp-password-attribute", "userPassword"),
        (
            "ds-pwp-default-password-storage-scheme",
            "cn=Salted SHA-512,cn=Password Storage Schemes,cn=config",
        ),
        ("ds-pwp-max-password-age", "90 days"),
        ("ds-pwp-lockout-failure-count", "3"),
        ("ds-pwp-lockout-duration", "5 m"),
        ("ds-pwp-force-change-on-reset", "true"),
        ("ds-pwp-password-history-count", "7"),
        ("ds-pwp-password-history-duration", "365 d"),
        ("ds-pwp-allow-pre-encoded-passwords", "false"),
        ("ds-pwp-length-based-min-password-length", "10"),
        ("ds-pwp-similarity-based-min-password-difference", "4"),
    ]);
    let want = PasswordPolicy {
        allow_user_change: true,
        scheme: Some(Scheme::Ssha512),
        max_age: seconds(90 * 86_400),
        lockout: true,
        max_failures: 3,
        lockout_duration: seconds(300),
        must_change: true,
        in_history: 7,
        history_duration: seconds(365 * 86_400),
        hashed: HashedFrom::Nobody,
        check_quality: CheckQuality::WherePossible,
        min_length: 10,
        quality: Quality { min_difference: 4, ..Quality::default() },
        ..PasswordPolicy::default()
    };
    assert_eq!(policy.unwrap(), want);
}

#[test]
fn where_products_differ_the_draft_holds() {
    let policy = read(&[
        ("objectClass", "pwdPolicy"),
        ("objectClass", "passwordPolicy"),
        ("pwdMaxAge", "10"),
        ("pwdMinLength", "12"),
        ("pwdCheckQuality", "2"),
        ("passwordExp", "on"),
        ("passwordMaxAge", "20"),
        ("passwordMinLength", "6"),
        ("passwordMinSpecials", "1"),
    ])
    .unwrap();
    assert_eq!((policy.max_age, policy.min_length), (seconds(10), 12));
    assert_eq!((policy.check_quality, policy.quality.min_specials), (CheckQuality::Always, 1));
}

#[test]
fn values_that_are_none_are_named() {
    let class = ("objectClass", "passwordPolicy");
    for (attribute, value, want) in [
        ("passwordExp", "maybe", "'maybe' of passwordExp is not TRUE or FALSE, on or off"),
        ("passwordMaxAge", "5 fortnights", "of passwordMaxAge is not a time"),
        ("passwordMaxAge", "99999999w", "of passwordMaxAge is not a time below"),
        ("passwordInHistory", "101", "at most 100 passwords"),
        ("passwordTPRMaxUse", "-2", "of passwordTPRMaxUse is not a whole number"),
        ("passwordStorageScheme", "ROT13", "of passwordStorageScheme is not a scheme"),
        ("passwordBadWords", &"x ".repeat(1_001), "at most 1,000 words"),
    ] {
        let fault = read(&[class, (attribute, value)]).unwrap_err().to_string();
        assert!(fault.contains(want), "{fault}");
    }
}

#[test]
fn every_attribute_is_in_the_schema_once() {
    let schema = Schema::builtin();
    let mut names = std::collections::HashSet::new();
    for row in all() {
        assert!(schema.attribute_type(row.attribute).is_some(), "{}", row.attribute);
        assert!(names.insert(row.attribute), "{}", row.attribute);
    }
}

/// `ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` writes it again.
#[test]
fn the_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/password-policy.md");
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, reference_page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), reference_page());
}

proptest! {
    #[test]
    fn whatever_an_entry_says_is_understood_or_refused(
        read in vec((any::<Index>(), "[-0-9a-zA-Z ,.{}=]{0,20}"), 0..8),
        clear in ".{0,40}",
    ) {
        let rows = all().collect::<Vec<_>>();
        let pairs = read.iter().map(|(at, value)| (at.get(&rows).attribute, value.as_bytes()));
        let classes = ["pwdPolicy", "passwordPolicy", "ds-pwp-password-policy"];
        let classes = classes.map(|class| ("objectClass", class.as_bytes()));
        let schema = Schema::builtin();
        let name = Dn::parse("cn=x,dc=example").unwrap();
        let Ok(entry) = Entry::from_pairs(name, classes.into_iter().chain(pairs), &schema) else {
            return Ok(());
        };
        match PasswordPolicy::read(&entry, &schema) {
            Ok(policy) => {
                let new = NewPassword { clear: &clear, old: Some("old one"), own: &["anna berg"] };
                let _ = policy.check_quality(&new, Words::built_in());
                prop_assert!(policy.in_history <= HISTORY_MAX);
            }
            Err(fault) => prop_assert!(fault.to_string().len() < 500, "{fault}"),
        }
    }
}
