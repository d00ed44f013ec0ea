//! Passwords: verified whatever their scheme, and never shown.

use auth::password::{Argon2Cost, HashCosts, PasswordStorage, Scheme};
use directory::{HashJob, Next};
use environment::OsChance;
use ldap::message::{
    Authentication, BindRequest, Controls, ExtendedRequest, ModifyOperation, Request, Scope,
};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, Served};

const ANNA: &str = "uid=anna,dc=example,dc=org";
/// In no entry, name or diagnostic but as a password.
const CLEAR: &str = "correct horse battery staple";
/// bcrypt of "secret" at its lowest cost.
const SLOW: &str = "{CRYPT}$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

fn add_anna(root: &mut Client, passwords: &[&str]) -> Answer {
    let classes: &[&str] = &["inetOrgPerson"];
    root.try_add(
        ANNA,
        &[("objectClass", classes), ("cn", &["Anna"]), ("sn", &["A"]), ("userPassword", passwords)],
    )
}

fn stored(root: &mut Client) -> Vec<String> {
    let search =
        Asked { base: ANNA, scope: Scope::Base, attributes: &["userPassword"], ..Asked::default() };
    root.search(&search).entries[0].texts("userPassword")
}

#[test]
fn new_passwords_are_stored_in_the_configured_scheme() {
    for (scheme, prefix) in [
        (Scheme::Ssha, "{SSHA}"),
        (Scheme::Ssha512, "{SSHA512}"),
        (Scheme::Argon2id, "{ARGON2}$argon2id$v=19$m=64,t=1,p=1$"),
        (Scheme::Bcrypt, "{BCRYPT}$2b$04$"),
        (Scheme::Pbkdf2Octets, "{PBKDF2_SHA256}"),
    ] {
        let served = Served::with(|options| options.passwords.storage = cheap(scheme));
        let mut root = served.root();
        assert_eq!(add_anna(&mut root, &[CLEAR]).code(), ResultCode::Success);
        assert!(stored(&mut root)[0].starts_with(prefix));
        let mut client = served.client();
        assert_eq!(client.bind(ANNA, CLEAR), ResultCode::Success);
        assert_eq!(client.bind(ANNA, &CLEAR[1..]), ResultCode::InvalidCredentials);
        let stored = stored(&mut root);
        assert_eq!(client.bind(ANNA, &stored[0]), ResultCode::InvalidCredentials);
    }
}

/// A scheme at a cost that tests can afford; all but the digests still go to the hash pool.
pub(crate) fn cheap(scheme: Scheme) -> PasswordStorage {
    let costs = HashCosts {
        argon2: Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 },
        pbkdf2_iterations: 100,
        scram_iterations: 100,
        bcrypt_cost: 4,
        scrypt_log_n: 4,
        crypt_rounds: 1_000,
    };
    PasswordStorage { scheme, costs }
}

/// What becomes of a message that asks for a hash.
pub(crate) fn hashed(client: &mut Client, request: Request<'_>) -> (Box<HashJob>, Vec<u8>) {
    let message = client.encode(request, Controls::EMPTY);
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.handle(&mut connection.session, &message, &mut out);
    let Next::Hash(job) = next else { panic!("a slow hash goes to the pool") };
    (job, out)
}

pub(crate) fn bind_request<'a>(name: &'a str, password: &'a str) -> Request<'a> {
    let authentication = Authentication::Simple(password.as_bytes());
    Request::Bind(BindRequest { version: 3, name, authentication })
}

#[test]
fn a_slow_hash_is_verified_on_the_pool() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &[SLOW]).code(), ResultCode::Success);
    for (password, want) in
        [("secret", ResultCode::Success), ("Secret", ResultCode::InvalidCredentials)]
    {
        let mut client = served.root();
        let (job, out) = hashed(&mut client, bind_request(ANNA, password));
        assert!(out.is_empty());
        let connection = &mut client.connection;
        assert_eq!(*connection.session.identity(), directory::Identity::Anonymous);
        assert_eq!(connection.session.outstanding(), 1);
        let mut out = Vec::new();
        let next = connection.worker.resume(&mut connection.session, job.run(), &mut out);
        assert!(matches!(next, Next::Answered(_)));
        let mut answer = Answer::default();
        answer.take(&out);
        assert_eq!(answer.code(), want);
        assert_eq!(connection.session.outstanding(), 0);
        let authzid = connection.session.identity().authorization_id();
        assert_eq!(authzid == format!("dn:{ANNA}"), want == ResultCode::Success);
    }
}

#[test]
fn a_password_that_was_changed_meanwhile_is_asked_for_again() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &[SLOW]).code(), ResultCode::Success);
    let mut client = served.client();
    let (job, _) = hashed(&mut client, bind_request(ANNA, "secret"));
    let other = [(ModifyOperation::Replace, "userPassword", &["other"][..])];
    assert_eq!(root.modify(ANNA, &other), ResultCode::Success);
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.resume(&mut connection.session, job.run(), &mut out);
    assert!(matches!(next, Next::Answered(_)));
    let mut answer = Answer::default();
    answer.take(&out);
    assert_eq!(answer.code(), ResultCode::InvalidCredentials, "the old one was right when read");
}

#[test]
fn an_abandoned_request_is_neither_hashed_nor_answered() {
    let served = Served::with(|options| options.passwords.storage = cheap(Scheme::Argon2id));
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &["one"]).code(), ResultCode::Success);
    let mut client = served.client();
    let (job, _) = hashed(&mut client, bind_request(ANNA, "one"));
    let connection = &mut client.connection;
    connection.session.abandon_all();
    let mut out = Vec::new();
    let next = connection.worker.resume(&mut connection.session, job.run(), &mut out);
    assert!(matches!(next, Next::Answered(_)) && out.is_empty());
    assert_eq!(*connection.session.identity(), directory::Identity::Anonymous);
    assert_eq!(connection.session.outstanding(), 0);
}

/// Or else a password could be tried, and a wrong one would not be counted (RFC 4511 §4.11).
#[test]
fn a_bind_is_not_abandoned_by_a_request() {
    let served = Served::with(|options| options.passwords.storage = cheap(Scheme::Argon2id));
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &["one"]).code(), ResultCode::Success);
    let mut client = served.client();
    let (job, _) = hashed(&mut client, bind_request(ANNA, "wrong"));
    let abandon = client.encode(Request::Abandon(job.id()), Controls::EMPTY);
    let connection = &mut client.connection;
    connection.session.look_ahead(&abandon, false);
    let (mut out, mut answer) = (Vec::new(), Answer::default());
    let next = connection.worker.resume(&mut connection.session, job.run(), &mut out);
    assert!(matches!(next, Next::Answered(_)));
    answer.take(&out);
    assert_eq!(answer.code(), ResultCode::InvalidCredentials);
    assert_eq!(connection.session.outstanding(), 0);
}

#[test]
fn a_name_that_does_not_exist_costs_as_much_as_one_that_does() {
    for (scheme, hashes) in [(Scheme::Argon2id, 1), (Scheme::Ssha512, 0)] {
        let served = Served::with(|options| options.passwords.storage = cheap(scheme));
        let mut root = served.root();
        assert_eq!(add_anna(&mut root, &["one"]).code(), ResultCode::Success);
        for name in [ANNA, "uid=nobody,dc=example,dc=org", "dc=example,dc=org", "cn=x"] {
            let mut client = served.client();
            assert_eq!(client.bind(name, "two"), ResultCode::InvalidCredentials);
            assert_eq!(client.connection.hashes, hashes, "{name}");
        }
    }
}

#[test]
fn hashing_leaves_the_threads_that_read_and_the_writer() {
    let served = Served::with(|options| options.passwords.storage = cheap(Scheme::Argon2id));
    let mut root = served.root();
    let before = root.connection.hashes;
    let hashes = |root: &Client| root.connection.hashes - before;
    assert_eq!(add_anna(&mut root, &["one", "two"]).code(), ResultCode::Success);
    assert_eq!(hashes(&root), 1, "both with one visit to the pool");
    let modify = |root: &mut Client, operation, value: &[&str]| {
        root.modify(ANNA, &[(operation, "userPassword", value)])
    };
    assert_eq!(modify(&mut root, ModifyOperation::Add, &["three"]), ResultCode::Success);
    assert_eq!(hashes(&root), 2);
    assert_eq!(modify(&mut root, ModifyOperation::Delete, &["two"]), ResultCode::Success);
    assert_eq!(hashes(&root), 3);
    assert_eq!(modify(&mut root, ModifyOperation::Delete, &["two"]), ResultCode::NoSuchAttribute);
    assert_eq!(root.compare(ANNA, "userPassword", "one"), ResultCode::CompareTrue);
    assert_eq!(root.compare(ANNA, "userPassword", "two"), ResultCode::CompareFalse);
    assert_eq!(hashes(&root), 6);
    // Without the slow ones nothing has to wait.
    assert_eq!(modify(&mut root, ModifyOperation::Delete, &[]), ResultCode::Success);
    assert_eq!(
        modify(&mut root, ModifyOperation::Add, &["{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="]),
        ResultCode::Success
    );
    assert_eq!(root.compare(ANNA, "userPassword", "secret"), ResultCode::CompareTrue);
    assert_eq!(root.compare(ANNA, "userPassword", "Secret"), ResultCode::CompareFalse);
    assert_eq!(hashes(&root), 6);
}

#[test]
fn a_generated_password_is_the_one_that_is_told() {
    let served = Served::with(|options| options.passwords.storage = cheap(Scheme::Argon2id));
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &["one"]).code(), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "one"), ResultCode::Success);
    let answer = client.extended("1.3.6.1.4.1.4203.1.11.1", None);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let value = answer.value.unwrap();
    let told = std::str::from_utf8(&value[4..]).unwrap();
    assert_eq!(client.bind(ANNA, told), ResultCode::Success);
    assert_eq!(client.bind(ANNA, "one"), ResultCode::InvalidCredentials);
}

#[test]
fn the_old_password_must_be_right_and_is_looked_at_on_the_pool() {
    let served = Served::with(|options| options.passwords.storage = cheap(Scheme::Argon2id));
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &["one"]).code(), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "one"), ResultCode::Success);
    let change = |client: &mut Client, old: &str, new: &str| {
        let mut value = Vec::new();
        for (tag, text) in [(0x81, old), (0x82, new)] {
            value.extend([tag, u8::try_from(text.len()).unwrap()]);
            value.extend_from_slice(text.as_bytes());
        }
        value.splice(0..0, [0x30, u8::try_from(value.len()).unwrap()]);
        client.extended("1.3.6.1.4.1.4203.1.11.1", Some(&value)).code()
    };
    let before = client.connection.hashes;
    assert_eq!(change(&mut client, "two", "three"), ResultCode::InvalidCredentials);
    assert_eq!(change(&mut client, "one", "three"), ResultCode::Success);
    assert_eq!(client.connection.hashes - before, 2);
    assert_eq!(client.bind(ANNA, "three"), ResultCode::Success);
}

#[test]
fn a_password_stored_otherwise_is_stored_anew_after_a_bind() {
    let served = Served::with(|options| options.passwords.storage = cheap(Scheme::Argon2id));
    let mut root = served.root();
    let old = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    let hashed = PasswordStorage::from(Scheme::Ssha).hash(b"another", &mut OsChance).unwrap();
    let other = String::from_utf8(hashed).unwrap();
    assert_eq!(add_anna(&mut root, &[old, &other]).code(), ResultCode::Success);
    let stamps = |root: &mut Client| {
        let attributes: &[&str] = &["modifyTimestamp", "modifiersName", "entryCSN"];
        let search = Asked { base: ANNA, scope: Scope::Base, attributes, ..Asked::default() };
        let entry = root.search(&search).entries.remove(0);
        attributes.iter().map(|name| entry.texts(name)).collect::<Vec<_>>()
    };
    let before = stamps(&mut root);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "wrong"), ResultCode::InvalidCredentials);
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    // In the background: nobody waits for it but this test.
    while stored(&mut root).iter().any(|one| one == old) {
        std::thread::yield_now();
    }
    let now = stored(&mut root);
    assert!(
        now.iter().any(|one| one.starts_with("{ARGON2}$argon2id$v=19$m=64,t=1,p=1$")),
        "{now:?}"
    );
    assert!(now.contains(&other), "what was not proved stays: {now:?}");
    let after = stamps(&mut root);
    assert_eq!(after[..2], before[..2], "it says nothing about who modified the entry");
    assert_ne!(after[2], before[2]);
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    assert_eq!(client.bind(ANNA, "another"), ResultCode::Success);
}

/// The story of the bug: a person signs in for the first time and changes the password at once. It
/// was stored anew between the look at the old password and the change, which was refused.
#[test]
fn a_password_can_be_changed_while_it_is_stored_anew() {
    let served = Served::with(|options| options.passwords.storage = cheap(Scheme::Argon2id));
    let mut root = served.root();
    let old = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    assert_eq!(add_anna(&mut root, &[old]).code(), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    // Old and new: the old one is looked at here, and the new one has to be hashed.
    let value = b"\x30\x0d\x81\x06secret\x82\x03new";
    let change = ExtendedRequest { oid: "1.3.6.1.4.1.4203.1.11.1", value: Some(value) };
    let (job, _) = hashed(&mut client, Request::Extended(change));
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.resume(&mut connection.session, job.run(), &mut out);
    let Next::Write(pending) = next else { panic!("the change goes to the writer") };
    while stored(&mut root).iter().any(|one| one == old) {
        std::thread::yield_now();
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    pending.submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
    let mut answer = Answer::default();
    answer.take(&receiver.recv().unwrap());
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    drop(client);
    assert_eq!(served.client().bind(ANNA, "new"), ResultCode::Success);
}

#[test]
fn without_the_setting_a_password_stays_as_it_is_stored() {
    let served = Served::with(|options| {
        options.passwords.storage = cheap(Scheme::Argon2id);
        options.passwords.rehash_on_bind = false;
    });
    let mut root = served.root();
    let old = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    assert_eq!(add_anna(&mut root, &[old]).code(), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    served.directory.shutdown();
    assert_eq!(stored(&mut root), [old]);
}

#[test]
fn a_hash_that_costs_too_much_is_refused_at_once() {
    let served = Served::new();
    let mut root = served.root();
    let value = "{PBKDF2}4294967295$AAECAwQFBgcICQoLDA0ODw$sFSyXPFcXgkxACFLfL2dSbbhY6k";
    assert_eq!(add_anna(&mut root, &[value]).code(), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::InvalidCredentials);
    assert_eq!(root.compare(ANNA, "userPassword", "secret"), ResultCode::CompareFalse);
    let delete = [(ModifyOperation::Delete, "userPassword", &["secret"][..])];
    assert_eq!(root.modify(ANNA, &delete), ResultCode::NoSuchAttribute);
}

#[test]
fn a_password_that_is_too_long_is_refused() {
    let served = Served::new();
    let mut root = served.root();
    let long = "x".repeat(1_025);
    assert_eq!(add_anna(&mut root, &[&long]).code(), ResultCode::ConstraintViolation);
    assert_eq!(add_anna(&mut root, &[&long[1..]]).code(), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, &long[1..]), ResultCode::Success);
    assert_eq!(client.bind(ANNA, &long), ResultCode::InvalidCredentials);
}

#[test]
fn a_password_given_in_clear_names_the_stored_value_to_be_removed() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &["one", "two"]).code(), ResultCode::Success);
    let remove = |root: &mut Client, value| {
        root.modify(ANNA, &[(ModifyOperation::Delete, "userPassword", &[value])])
    };
    assert_eq!(remove(&mut root, "three"), ResultCode::NoSuchAttribute);
    assert_eq!(remove(&mut root, "one"), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "one"), ResultCode::InvalidCredentials);
    assert_eq!(client.bind(ANNA, "two"), ResultCode::Success);
    let hash = stored(&mut root).remove(0);
    assert_eq!(remove(&mut root, &hash), ResultCode::Success);
    assert_eq!(client.bind(ANNA, "two"), ResultCode::InvalidCredentials);
}

/// The story of the bug: a page that hashes what people type was answered success, and then the
/// hash signed in, and what they had typed did not.
#[test]
fn a_hash_given_as_new_password_is_refused() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &["one"]).code(), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "one"), ResultCode::Success);
    let mut value = vec![0x30, 0, 0x82, 0];
    value.extend_from_slice(SLOW.as_bytes());
    value[3] = u8::try_from(SLOW.len()).unwrap();
    value[1] = value[3] + 2;
    let answer = client.extended("1.3.6.1.4.1.4203.1.11.1", Some(&value));
    assert_eq!(answer.code(), ResultCode::ConstraintViolation, "{}", answer.diagnostic);
    assert_eq!(client.bind(ANNA, SLOW), ResultCode::InvalidCredentials);
    assert_eq!(client.bind(ANNA, "one"), ResultCode::Success);
}

#[test]
fn no_answer_and_no_debug_text_shows_a_password() {
    let served = Served::new();
    let mut root = served.root();
    let mut seen = String::new();
    let mut note = |answer: &Answer| seen.push_str(&format!("{}{answer:?}", answer.diagnostic));
    note(&add_anna(&mut root, &[CLEAR, CLEAR]));
    note(&add_anna(&mut root, &[CLEAR]));
    note(&add_anna(&mut root, &[CLEAR]));
    for (operation, description, values) in [
        (ModifyOperation::Delete, "userPassword", &[CLEAR, CLEAR][..]),
        (ModifyOperation::Delete, "userPassword;x-no", &[CLEAR]),
        (ModifyOperation::Increment, "userPassword", &[CLEAR]),
        (ModifyOperation::Add, "userPassword", &[CLEAR, CLEAR]),
        (ModifyOperation::Replace, "authPassword", &[CLEAR]),
        (ModifyOperation::Replace, "userPassword", &[CLEAR]),
    ] {
        note(&root.try_modify(ANNA, &[(operation, description, values)]));
    }
    for filter in [format!("(userPassword={CLEAR})"), "(objectClass=*)".to_owned()] {
        let attributes: &[&str] = &["*", "+", "userPassword"];
        let search = Asked { filter: &filter, attributes, ..Asked::default() };
        note(&root.search(&search));
        note(&served.client().search(&search));
    }
    root.compare(ANNA, "userPassword", CLEAR);
    note(&root.extended("1.3.6.1.4.1.4203.1.11.1", Some(CLEAR.as_bytes())));
    // The values are octets in the text of Debug: both forms.
    let octets = format!("{:?}", CLEAR.as_bytes());
    let octets = octets.trim_matches(['[', ']']);
    assert!(!seen.contains(CLEAR) && !seen.contains(octets), "{seen}");

    assert_eq!(
        root.modify(ANNA, &[(ModifyOperation::Replace, "userPassword", &[SLOW])]),
        ResultCode::Success
    );
    let (job, _) = hashed(&mut root, bind_request(ANNA, CLEAR));
    let debug = format!("{job:?} {:?}", root.connection.session);
    let debug = format!("{debug} {:?}", job.run());
    assert!(!debug.contains(CLEAR) && !debug.contains(octets), "{debug}");
}

#[test]
fn a_filter_tells_nothing_about_what_may_not_be_read() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &["{SSHA}AAAA"]).code(), ResultCode::Success);
    let check = |filter: &str, root_finds: bool, others_find: bool| {
        let search = Asked { base: ANNA, scope: Scope::Base, filter, ..Asked::default() };
        for scope in [Scope::Base, Scope::Subtree] {
            let search = Asked { scope, ..search.clone() };
            assert_eq!(served.root().search(&search).entries.len() == 1, root_finds, "{filter}");
            assert_eq!(served.client().search(&search).entries.len() == 1, others_find, "{filter}");
        }
    };
    check("(userPassword=*)", true, false);
    check("(!(userPassword=*))", false, false);
    check("(userPassword={SSHA}AAAA)", true, false);
    check("(!(userPassword={SSHA}AAAA))", false, false);
    check("(!(userPassword={SSHA}BBBB))", true, false);
    check("(|(uid=anna)(userPassword=*))", true, true);
    check("(&(uid=anna)(userPassword=*))", true, false);
    check("(&(uid=anna)(!(&(sn=B)(userPassword=x))))", true, true);
    check("(:octetStringMatch:={SSHA}AAAA)", true, false);
    check("(userPassword:octetStringMatch:={SSHA}AAAA)", true, false);
}
