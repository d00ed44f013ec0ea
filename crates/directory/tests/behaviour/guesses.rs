//! Guesses of a password under a policy: what counts although nobody waits for its answer, and
//! what does not.
//!
//! A bind whose client hangs up, or that finds no place to be hashed, is one whose job is dropped.

use std::time::Duration;

use auth::password::Scheme;
use directory::{DirectoryOptions, HashJob, Next};
use environment::OsChance;
use ldap::message::{Authentication, BindRequest, Controls, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;

use crate::passwords::cheap;
use crate::support::{Answer, Asked, Client, Served};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const OK: ResultCode = ResultCode::Success;
const NO: ResultCode = ResultCode::InvalidCredentials;

/// A directory that stores passwords in a slow form, Anna with these stored values, and a lock
/// after three failures.
fn with(passwords: &[&str]) -> (Served, Client) {
    with_policy(passwords, &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3")], |_| {})
}

fn with_policy(
    passwords: &[&str],
    rules: &[(&str, &str)],
    adjust: impl FnOnce(&mut DirectoryOptions),
) -> (Served, Client) {
    let served = Served::with(|options| {
        options.passwords.storage = cheap(Scheme::Argon2id);
        options.passwords.rehash_on_bind = false;
        options.password_policy.state_delay = Duration::from_secs(3_600);
        adjust(options);
    });
    let mut root = served.root();
    let person: [(&str, &[&str]); 4] = [
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["x"]),
        ("sn", &["x"]),
        ("userPassword", passwords),
    ];
    let answer = root.try_add(ANNA, &person);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    let mut policy: Vec<(&str, &[&str])> = vec![
        ("objectClass", &["top", "subentry", "pwdPolicy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
    ];
    policy.extend(rules.iter().map(|(name, value)| (*name, std::slice::from_ref(value))));
    let answer = root.try_add("cn=policy,dc=example,dc=org", &policy);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    (served, root)
}

fn stored(clear: &str, scheme: Scheme) -> String {
    String::from_utf8(cheap(scheme).hash(clear.as_bytes(), &mut OsChance).unwrap()).unwrap()
}

/// A bind that waits for its hash.
struct Waiting {
    client: Client,
    job: Box<HashJob>,
}

/// Begins a bind on a connection of its own; none when it is answered at once, whatever it is.
fn begin(served: &Served, password: &str) -> Option<Waiting> {
    let mut client = served.client();
    let authentication = Authentication::Simple(password.as_bytes());
    let bind = BindRequest { version: 3, name: ANNA, authentication };
    let message = client.encode(Request::Bind(bind), Controls::EMPTY);
    let connection = &mut client.connection;
    match connection.worker.handle(&mut connection.session, &message, &mut Vec::new()) {
        Next::Hash(job) => Some(Waiting { client, job }),
        _ => None,
    }
}

impl Waiting {
    /// The hash is computed, and the bind answered.
    fn end(mut self) -> ResultCode {
        let (connection, mut out) = (&mut self.client.connection, Vec::new());
        let done = self.job.run();
        let next = connection.worker.resume(&mut connection.session, done, &mut out);
        assert!(matches!(next, Next::Answered(_)));
        let mut answer = Answer::default();
        answer.take(&out);
        answer.code()
    }

    /// The hash is computed, and the bind goes on; none when that answers it.
    fn go_on(mut self) -> Option<Self> {
        let connection = &mut self.client.connection;
        let done = self.job.run();
        match connection.worker.resume(&mut connection.session, done, &mut Vec::new()) {
            Next::Hash(job) => Some(Self { job, ..self }),
            _ => None,
        }
    }

    /// The hash is computed, and nobody is there to hear.
    fn computed(self) {
        let _ = self.job.run();
    }
}

/// Accounts whose right password is answered at once: it is quick to verify, or was verified
/// lately.
fn at_once() -> Vec<(Served, Client)> {
    let quick = with(&[&stored("right", Scheme::Ssha512)]);
    let remembered = with(&["right"]);
    assert_eq!(remembered.0.client().bind(ANNA, "right"), OK);
    for (served, _) in [&quick, &remembered] {
        assert!(begin(served, "right").is_none());
    }
    vec![quick, remembered]
}

#[test]
fn a_guess_counts_although_nobody_waits_for_its_hash() {
    // A client that hung up after two milliseconds knew by then that it was not the right one.
    for (served, _root) in at_once() {
        for guess in ["one", "two"] {
            drop(begin(&served, guess).unwrap());
        }
        assert_eq!(served.client().bind(ANNA, "right"), OK, "two are not three");
        for guess in ["one", "two"] {
            drop(begin(&served, guess).unwrap());
        }
        begin(&served, "three").unwrap().computed();
        assert_eq!(begin(&served, "right").unwrap().end(), NO);
    }
}

#[test]
fn of_guesses_side_by_side_none_is_right_beyond_the_limit() {
    // Failures counted when their hashes were done: the right one was let in as the last of sixty.
    for (served, _root) in at_once() {
        let guesses: Vec<_> =
            (0..60).map(|number| begin(&served, &format!("guess {number}")).unwrap()).collect();
        let right = begin(&served, "right").expect("it is as late as the wrong ones");
        assert_eq!(right.end(), NO);
        assert!(guesses.into_iter().all(|guess| guess.end() == NO));
        assert_eq!(served.client().bind(ANNA, "right"), NO);
    }
}

#[test]
fn a_guess_that_is_answered_counts_once() {
    for (served, _root) in at_once() {
        for guess in ["one", "two"] {
            assert_eq!(begin(&served, guess).unwrap().end(), NO);
        }
        assert_eq!(served.client().bind(ANNA, "right"), OK);
        // Those side by side, too, in whatever order they end.
        let guesses = ["one", "two"].map(|guess| begin(&served, guess).unwrap());
        assert!(guesses.into_iter().rev().all(|guess| guess.end() == NO));
        assert_eq!(served.client().bind(ANNA, "right"), OK);
    }
}

#[test]
fn a_delay_after_failures_begins_with_the_guess() {
    let rules = [("pwdMinDelay", "60"), ("pwdMaxDelay", "600")];
    let (served, _root) = with_policy(&[&stored("right", Scheme::Ssha512)], &rules, |_| {});
    let guess = begin(&served, "wrong").unwrap();
    assert_eq!(begin(&served, "right").expect("it is late").end(), NO);
    assert_eq!(guess.end(), NO);
    served.clock.advance(Duration::from_secs(61));
    assert!(begin(&served, "right").is_none());
}

#[test]
fn right_passwords_that_nobody_waits_for_lock_nobody_out() {
    // Nothing is remembered, so that a client which hung up has learned nothing.
    let (served, mut root) = with(&["right"]);
    for _ in 0..50 {
        drop(begin(&served, "right").unwrap());
        begin(&served, "right").unwrap().computed();
    }
    assert_eq!(served.client().bind(ANNA, "right"), OK);
    // What is remembered of the password before the last change tells nothing, either.
    assert_eq!(root.modify(ANNA, &[(ModifyOperation::Replace, "userPassword", &["other"])]), OK);
    for _ in 0..50 {
        drop(begin(&served, "other").unwrap());
    }
    assert_eq!(served.client().bind(ANNA, "other"), OK);
}

#[test]
fn right_binds_side_by_side_are_all_let_in() {
    let all_end = |served: &Served, password| {
        let binds: Vec<_> = (0..50).map(|_| begin(served, password).unwrap()).collect();
        assert!(binds.into_iter().all(|bind| bind.end() == OK), "{password}");
    };
    let (served, _root) = with(&["right", "also right"]);
    all_end(&served, "right");
    // Another one is remembered: this may be a guess, but all of them are the same one.
    all_end(&served, "also right");
    assert!(begin(&served, "also right").is_none());
    // So it is where one failure locks, for those that were begun before it turned out.
    let rules = [("pwdLockout", "TRUE"), ("pwdMaxFailure", "1")];
    let (served, _root) = with_policy(&["right", "also right"], &rules, |_| {});
    assert_eq!(served.client().bind(ANNA, "right"), OK);
    all_end(&served, "also right");
    // Clients that are gone when it turns out that it was right have guessed nothing.
    let (served, _root) = with(&["right", "also right"]);
    assert_eq!(served.client().bind(ANNA, "right"), OK);
    for _ in 0..50 {
        begin(&served, "also right").unwrap().computed();
    }
    assert_eq!(served.client().bind(ANNA, "also right"), OK);
}

#[test]
fn a_guess_that_many_clients_make_at_once_is_one_until_they_are_answered() {
    let (served, _root) = with(&["right"]);
    assert_eq!(served.client().bind(ANNA, "right"), OK);
    let binds: Vec<_> = (0..50).map(|_| begin(&served, "wrong").unwrap()).collect();
    drop(binds);
    assert_eq!(served.client().bind(ANNA, "right"), OK, "it was one");
    let binds: Vec<_> = (0..50).map(|_| begin(&served, "wrong").unwrap()).collect();
    assert!(binds.into_iter().all(|bind| bind.end() == NO));
    assert_eq!(served.client().bind(ANNA, "right"), NO, "each was answered");
}

#[test]
fn a_password_of_which_the_form_looks_at_a_part_is_right_beside_one_that_is_remembered() {
    // bcrypt looks at 72 octets: two passwords may be right for one stored value.
    let long = "x".repeat(72);
    let (served, _root) = with(&[&stored(&long, Scheme::Bcrypt)]);
    let [one, other] = ["one", "other"].map(|end| format!("{long}{end}"));
    assert_eq!(served.client().bind(ANNA, &one), OK);
    assert_eq!(begin(&served, &other).expect("another one is remembered").end(), OK);
}

#[test]
fn a_right_password_that_is_refused_is_as_late_as_a_wrong_one() {
    let rules = [("pwdMaxAge", "300")];
    let (served, mut root) = with_policy(&["right"], &rules, |_| {});
    let value = stored("right", Scheme::Ssha512);
    assert_eq!(root.modify(ANNA, &[(ModifyOperation::Replace, "userPassword", &[&value])]), OK);
    assert!(begin(&served, "right").is_none());
    served.clock.advance(Duration::from_secs(301));
    assert_eq!(begin(&served, "right").expect("it is late").end(), NO);
}

/// Five failures lock, with a second after each.
const DELAYED: &[(&str, &str)] =
    &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "5"), ("pwdMinDelay", "1"), ("pwdMaxDelay", "1")];
const BEYOND_DELAY: Duration = Duration::from_millis(1_050);

#[test]
fn a_guess_that_is_long_under_way_ends_no_delay() {
    let (served, _root) = with_policy(&["right"], DELAYED, |_| {});
    assert_eq!(served.client().bind(ANNA, "right"), OK);
    let long = begin(&served, "long").unwrap();
    served.clock.advance(BEYOND_DELAY);
    for number in 0..50 {
        drop(begin(&served, &format!("guess {number}")).unwrap());
    }
    assert_eq!(begin(&served, "right").expect("it is late").end(), NO);
    served.clock.advance(BEYOND_DELAY);
    assert_eq!(served.client().bind(ANNA, "right"), OK, "one counted, the others had no place");
    for number in 0..4 {
        drop(begin(&served, &format!("guess {number}")).unwrap());
        served.clock.advance(BEYOND_DELAY);
    }
    assert_eq!(begin(&served, "right").expect("four, and one is under way").end(), NO);
    drop(long);
    served.clock.advance(BEYOND_DELAY);
    assert_eq!(served.client().bind(ANNA, "right"), NO);
}

#[test]
fn guesses_that_end_within_a_delay_are_failures_each() {
    let ends: [fn(Waiting); 3] = [drop, Waiting::computed, |guess| assert_eq!(guess.end(), NO)];
    for end in ends {
        let (served, _root) = with_policy(&[&stored("right", Scheme::Ssha512)], DELAYED, |_| {});
        let guesses = ["one", "two", "three", "four"].map(|guess| {
            let guess = begin(&served, guess).unwrap();
            served.clock.advance(BEYOND_DELAY);
            guess
        });
        guesses.into_iter().for_each(end);
        served.clock.advance(BEYOND_DELAY);
        drop(begin(&served, "five").unwrap());
        served.clock.advance(BEYOND_DELAY);
        assert_eq!(served.client().bind(ANNA, "right"), NO);
    }
}

#[test]
fn guesses_under_way_for_longer_than_a_lock_lasts_still_count() {
    let rules = [("pwdLockout", "TRUE"), ("pwdMaxFailure", "3"), ("pwdLockoutDuration", "60")];
    let (served, _root) = with_policy(&[&stored("right", Scheme::Ssha512)], &rules, |_| {});
    let guesses = ["one", "two", "three"].map(|guess| begin(&served, guess).unwrap());
    served.clock.advance(Duration::from_secs(61));
    assert_eq!(begin(&served, "right").expect("three are under way").end(), NO);
    drop(guesses);
    assert_eq!(served.client().bind(ANNA, "right"), NO);
    served.clock.advance(Duration::from_secs(61));
    assert_eq!(served.client().bind(ANNA, "right"), OK);
}

#[test]
fn right_binds_beside_a_guess_under_way_fill_nothing() {
    let rules = [("pwdLockout", "TRUE"), ("pwdMaxFailure", "5"), ("pwdGraceAuthNLimit", "3")];
    let (served, root) = with_policy(&[&stored("right", Scheme::Ssha512)], &rules, |_| {});
    let guess = begin(&served, "wrong").unwrap();
    let mut client = served.client();
    for _ in 0..1_000 {
        assert_eq!(client.bind(ANNA, "right"), OK);
    }
    // Nor do they leave anything: there was no failure yet to clear.
    drop((guess, client, root));
    let served = served.reopen();
    let attributes = ["pwdFailureTime", "pwdLastSuccess"];
    let of_anna = Asked { base: ANNA, scope: Scope::Base, ..Asked::default() };
    let found = served.root().search(&Asked { attributes: &attributes, ..of_anna });
    let left = attributes.map(|name| found.entries[0].texts(name).len());
    assert_eq!(left, [1, 0]);
}

/// Argon2id with so much memory; new passwords take 64.
fn with_memory(memory_kib: u32) -> String {
    let mut storage = cheap(Scheme::Argon2id);
    storage.costs.argon2.memory_kib = memory_kib;
    String::from_utf8(storage.hash(b"right", &mut OsChance).unwrap()).unwrap()
}

#[test]
fn a_wrong_password_is_refused_no_sooner_than_one_that_is_stored_like_new_ones() {
    let cheaper = [stored("right", Scheme::ScramSha256), with_memory(32)];
    for value in &cheaper {
        let (served, _root) = with(&[value]);
        let late = || begin(&served, "wrong").unwrap().go_on().expect("as late as nobody's");
        assert_eq!(late().end(), NO);
        // Who hung up by then knew that it was wrong; who was answered is counted once.
        drop(late());
        assert_eq!(served.client().bind(ANNA, "right"), OK, "two are not three");
        assert!(begin(&served, "right").is_none(), "it is remembered");
        assert_eq!(late().end(), NO);
        drop(late());
        assert_eq!(served.client().bind(ANNA, "right"), OK, "two are not three");
        (0..3).for_each(|_| drop(late()));
        assert_eq!(served.client().bind(ANNA, "right"), NO);
    }
    for value in [with_memory(64), with_memory(128)] {
        let (served, _root) = with(&[&value]);
        assert!(begin(&served, "wrong").unwrap().go_on().is_none(), "one hash is late enough");
        // One of them is.
        let (served, _root) = with(&[&cheaper[0], &value]);
        assert!(begin(&served, "wrong").unwrap().go_on().is_none());
    }
}

#[test]
fn a_right_password_in_a_cheaper_form_that_is_refused_is_as_late_as_a_wrong_one() {
    let rules = [("pwdMaxAge", "300")];
    let (served, mut root) = with_policy(&["right"], &rules, |_| {});
    let value = stored("right", Scheme::ScramSha256);
    assert_eq!(root.modify(ANNA, &[(ModifyOperation::Replace, "userPassword", &[&value])]), OK);
    assert!(begin(&served, "right").unwrap().go_on().is_none());
    served.clock.advance(Duration::from_secs(301));
    for password in ["right", "wrong"] {
        let late = begin(&served, password).unwrap().go_on().expect("it is late");
        assert_eq!(late.end(), NO);
    }
}
