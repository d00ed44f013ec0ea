//! Passwords that were verified lately: what they save, and whom they let in no longer.
//!
//! What is counted is visits to the hash pool: a bind that needs none was let in by the cache.

use std::time::Duration;

use auth::password::Scheme;
use directory::{AdminPassword, DirectoryOptions, GlobalAcis, PasswordCacheOptions};
use environment::OsChance;
use ldap::dn::Dn;
use ldap::message::ModifyOperation;
use ldap::result::ResultCode;

use crate::authentication::plain;
use crate::passwords::cheap;
use crate::support::{Client, ROOT_DN, ROOT_PASSWORD, SUFFIX, Served, manual_clock};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const BEN: &str = "uid=ben,dc=example,dc=org";
const OK: ResultCode = ResultCode::Success;
const NO: ResultCode = ResultCode::InvalidCredentials;
/// No visit to the hash pool, and one.
const FAST: usize = 0;
const SLOW: usize = 1;
const AGE_S: u64 = 600;

/// Anna, with a password that is slow to verify.
fn with(adjust: impl FnOnce(&mut DirectoryOptions)) -> (Served, Client) {
    let served = Served::with(|options| {
        options.passwords.storage = cheap(Scheme::Argon2id);
        options.password_policy.state_delay = Duration::from_secs(3_600);
        adjust(options);
    });
    let mut root = served.root();
    add(&mut root, ANNA, &["right"]);
    (served, root)
}

fn add(root: &mut Client, name: &str, passwords: &[&str]) {
    let classes: &[&str] = &["inetOrgPerson", "extensibleObject"];
    let attributes: [(&str, &[&str]); 4] =
        [("objectClass", classes), ("cn", &["x"]), ("sn", &["x"]), ("userPassword", passwords)];
    let answer = root.try_add(name, &attributes);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
}

fn add_policy(root: &mut Client, rules: &[(&str, &str)]) {
    let mut attributes: Vec<(&str, &[&str])> = vec![
        ("objectClass", &["top", "subentry", "pwdPolicy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
    ];
    attributes.extend(rules.iter().map(|(name, value)| (*name, std::slice::from_ref(value))));
    assert_eq!(root.add("cn=policy,dc=example,dc=org", &attributes), OK);
}

fn replace(root: &mut Client, attribute: &str, values: &[&str]) {
    assert_eq!(root.modify(ANNA, &[(ModifyOperation::Replace, attribute, values)]), OK);
}

/// A stored value for a password.
fn stored(clear: &str) -> String {
    let value = cheap(Scheme::Argon2id).hash(clear.as_bytes(), &mut OsChance);
    String::from_utf8(value.unwrap()).unwrap()
}

/// Binds as somebody; how it ended, and how often the hash pool was visited.
fn bind(served: &Served, name: &str, password: &str) -> (ResultCode, usize) {
    let mut client = served.client();
    let code = client.bind(name, password);
    let authzid = client.connection.session.identity().authorization_id();
    assert_eq!(authzid.is_empty(), code != OK);
    (code, client.connection.hashes)
}

#[test]
fn a_password_that_was_verified_lately_is_not_hashed_again() {
    let (served, _root) = with(|_| {});
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
    assert_eq!(bind(&served, "UID=Anna, dc=EXAMPLE,dc=org", "right"), (OK, FAST));
    let mut client = served.client();
    for name in ["anna", "u:anna", ANNA] {
        assert_eq!(plain(&mut client, "", name, "right"), OK);
    }
    assert_eq!(client.connection.hashes, 0);
    let counts = served.directory.password_cache_counts();
    assert_eq!((counts.hits, counts.misses, counts.held), (5, 1, 1));
}

#[test]
fn a_wrong_password_is_hashed_and_counted_as_ever() {
    let (served, mut root) = with(|_| {});
    add_policy(&mut root, &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3")]);
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    for _ in 0..2 {
        assert_eq!(bind(&served, ANNA, "wrong"), (NO, SLOW));
    }
    // A success begins the count anew, whatever verified it.
    assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
    for wrong in ["wrong", "righ", "right\0"] {
        assert_eq!(bind(&served, ANNA, wrong), (NO, SLOW));
    }
    // Locked: the time does not tell that this one is right.
    assert_eq!(bind(&served, ANNA, "right"), (NO, SLOW));
    assert_eq!(bind(&served, ANNA, "wrong"), (NO, SLOW));
    let counts = served.directory.password_cache_counts();
    assert_eq!(counts.held, 1, "no guess is kept");
    assert_eq!(counts.hits, 1, "nothing is looked for where it cannot count");
}

#[test]
fn an_account_that_is_switched_off_is_refused_as_late_as_ever() {
    let (served, mut root) = with(|_| {});
    for (attribute, value) in [("nsAccountLock", "true"), ("pwdAccountLockedTime", "000001010000Z")]
    {
        assert_eq!(bind(&served, ANNA, "right").0, OK);
        assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
        replace(&mut root, attribute, &[value]);
        assert_eq!(bind(&served, ANNA, "right"), (NO, SLOW), "{attribute}");
        replace(&mut root, attribute, &[]);
    }
    // The first bind of the second turn as well: unlocked, it counts again.
    assert_eq!(served.directory.password_cache_counts().hits, 3);
}

#[test]
fn a_changed_password_ends_the_old_one_at_once() {
    let (served, mut root) = with(|_| {});
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    replace(&mut root, "userPassword", &["other"]);
    assert_eq!(bind(&served, ANNA, "right"), (NO, SLOW));
    assert_eq!(bind(&served, ANNA, "other"), (OK, SLOW));
    assert_eq!(bind(&served, ANNA, "other"), (OK, FAST));
    assert_eq!(bind(&served, ANNA, "right"), (NO, SLOW));
    // The same password, stored anew: it is verified against what is stored now.
    replace(&mut root, "userPassword", &["other"]);
    assert_eq!(bind(&served, ANNA, "other"), (OK, SLOW));
    replace(&mut root, "userPassword", &[]);
    assert_eq!(bind(&served, ANNA, "other").0, NO);
}

#[test]
fn an_entry_has_nothing_of_another_that_had_its_name_or_its_value() {
    let (served, mut root) = with(|_| {});
    let value = stored("right");
    let ben = BEN;
    replace(&mut root, "userPassword", &[&value]);
    add(&mut root, ben, &[&value]);
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    assert_eq!(bind(&served, ben, "right"), (OK, SLOW), "two accounts share a stored value");
    assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
    assert_eq!(root.delete(ANNA), OK);
    assert_eq!(bind(&served, ANNA, "right").0, NO);
    add(&mut root, ANNA, &[&value]);
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW), "another entry of the same name");
    assert_eq!(root.rename(ANNA, "uid=carla", true, None), OK);
    let carla = "uid=carla,dc=example,dc=org";
    assert_eq!(bind(&served, carla, "right"), (OK, SLOW), "the same entry by another name");
    assert_eq!(bind(&served, carla, "right"), (OK, FAST));
    assert_eq!(bind(&served, ANNA, "right").0, NO);
}

#[test]
fn an_expired_password_is_refused_as_late_as_ever_and_grace_logins_are_counted() {
    for (grace, logins) in [("0", 0), ("2", 2)] {
        let (served, mut root) = with(|_| {});
        let rules = [("pwdMaxAge", "300"), ("pwdGraceAuthNLimit", grace)];
        add_policy(&mut root, &rules);
        replace(&mut root, "userPassword", &["right"]);
        assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
        served.clock.advance(Duration::from_secs(301));
        for _ in 0..logins {
            assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
        }
        assert_eq!(bind(&served, ANNA, "right"), (NO, SLOW));
        assert_eq!(bind(&served, ANNA, "right"), (NO, SLOW));
    }
}

#[test]
fn the_last_login_is_noted_all_the_same() {
    let (served, mut root) = with(|options| {
        options.password_policy.last_login = true;
        options.password_policy.last_login_precision = Duration::ZERO;
    });
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    served.clock.advance(Duration::from_secs(60));
    assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
    drop(root);
    let served = served.reopen();
    root = served.root();
    let search = crate::support::Asked {
        base: ANNA,
        scope: ldap::message::Scope::Base,
        attributes: &["pwdLastSuccess"],
        ..Default::default()
    };
    let last = root.search(&search).entries[0].texts("pwdLastSuccess");
    assert!(last[0].starts_with("20260101000100"), "{last:?}");
}

#[test]
fn nothing_is_kept_of_who_has_a_privilege() {
    for privilege in ["config-read", "unindexed-search-with-control", "bypass-acl"] {
        let (served, mut root) = with(|_| {});
        assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
        assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
        replace(&mut root, "ds-privilege-name", &[privilege]);
        for _ in 0..2 {
            assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW), "{privilege}");
        }
        let counts = served.directory.password_cache_counts();
        assert_eq!((counts.hits, counts.held), (1, 0), "{privilege}");
        replace(&mut root, "ds-privilege-name", &[]);
        assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
        assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
    }
}

#[test]
fn nothing_is_kept_of_the_administrator() {
    let data = tempfile::TempDir::new().unwrap();
    let storage = cheap(Scheme::Argon2id);
    let admin = AdminPassword { clear: ROOT_PASSWORD.as_bytes(), storage };
    let suffix = Dn::parse(SUFFIX).unwrap();
    let path = data.path().join("data");
    directory::Directory::init(&path, &[suffix], Some(admin), GlobalAcis::Public, manual_clock())
        .unwrap();
    let served = Served::open_existing(data);
    for _ in 0..3 {
        assert_eq!(bind(&served, ROOT_DN, ROOT_PASSWORD), (OK, SLOW));
    }
    assert_eq!(served.directory.password_cache_counts().held, 0);
}

#[test]
fn it_ends_with_its_age_however_often_it_is_used() {
    let (served, _root) = with(|_| {});
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    for _ in 0..2 {
        served.clock.advance(Duration::from_secs(AGE_S / 2 - 1));
        assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
    }
    served.clock.advance(Duration::from_secs(2));
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
}

#[test]
fn without_an_age_nothing_is_kept() {
    let cache = PasswordCacheOptions { age_max: Duration::ZERO, ..Default::default() };
    let (served, _root) = with(|options| options.passwords.cache = cache);
    for _ in 0..3 {
        assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    }
    assert_eq!(served.directory.password_cache_counts(), Default::default());
}

#[test]
fn no_more_are_kept_than_the_limit_says() {
    let cache = PasswordCacheOptions { passwords_max: 2, ..Default::default() };
    let (served, mut root) = with(|options| options.passwords.cache = cache);
    let [ben, carla] = ["ben", "carla"].map(|uid| format!("uid={uid},dc=example,dc=org"));
    add(&mut root, &ben, &["right"]);
    add(&mut root, &carla, &["right"]);
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    assert_eq!(bind(&served, &ben, "right"), (OK, SLOW));
    assert_eq!(bind(&served, ANNA, "right"), (OK, FAST));
    assert_eq!(bind(&served, &carla, "right"), (OK, SLOW));
    assert_eq!(served.directory.password_cache_counts().held, 2);
    assert_eq!(bind(&served, ANNA, "right"), (OK, FAST), "it was used, Ben's was not");
    assert_eq!(bind(&served, &ben, "right"), (OK, SLOW));
    assert_eq!(served.directory.password_cache_counts().held, 2);
}

#[test]
fn each_of_a_few_passwords_is_kept() {
    let (served, mut root) = with(|_| {});
    add(&mut root, BEN, &["one", "two"]);
    for visits in [SLOW, FAST, FAST] {
        assert_eq!(bind(&served, BEN, "one"), (OK, visits));
        assert_eq!(bind(&served, BEN, "two"), (OK, visits));
    }
    let remove = [(ModifyOperation::Delete, "userPassword", &["one"][..])];
    assert_eq!(root.modify(BEN, &remove), OK);
    assert_eq!(bind(&served, BEN, "one"), (NO, SLOW));
    assert_eq!(bind(&served, BEN, "two"), (OK, SLOW), "what is stored is another list");
}

/// A fast scheme never comes to the cache, and what is not a bind computes its hash.
#[test]
fn only_binds_with_slow_hashes_look() {
    let (served, mut root) = with(|options| options.passwords.rehash_on_bind = false);
    add(&mut root, BEN, &["{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="]);
    for _ in 0..3 {
        assert_eq!(bind(&served, BEN, "secret"), (OK, FAST));
        assert_eq!(bind(&served, "uid=nobody,dc=example,dc=org", "x"), (NO, SLOW));
    }
    assert_eq!(served.directory.password_cache_counts(), Default::default());
    assert_eq!(bind(&served, ANNA, "right"), (OK, SLOW));
    let before = root.connection.hashes;
    assert_eq!(root.compare(ANNA, "userPassword", "right"), ResultCode::CompareTrue);
    let remove = [(ModifyOperation::Delete, "userPassword", &["right"][..])];
    assert_eq!(root.modify(ANNA, &remove), OK);
    assert_eq!(root.connection.hashes - before, 2);
    let counts = served.directory.password_cache_counts();
    assert_eq!((counts.hits, counts.misses), (0, 1));
}
