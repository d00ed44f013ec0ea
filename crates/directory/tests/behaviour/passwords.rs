//! Passwords: verified whatever their scheme, and never shown.

use directory::{Flow, Next, Scheme};
use ldap::message::{Authentication, BindRequest, Controls, ModifyOperation, Request, Scope};
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
    for (scheme, prefix) in
        [(Scheme::Ssha, "{SSHA}"), (Scheme::Ssha256, "{SSHA256}"), (Scheme::Ssha512, "{SSHA512}")]
    {
        let served = Served::with(|options| options.password_scheme = scheme);
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

#[test]
fn a_slow_hash_is_verified_on_the_pool_and_nothing_overtakes_it() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(add_anna(&mut root, &[SLOW]).code(), ResultCode::Success);
    for (password, want) in
        [("secret", ResultCode::Success), ("Secret", ResultCode::InvalidCredentials)]
    {
        let mut client = served.root();
        let authentication = Authentication::Simple(password.as_bytes());
        let bind = BindRequest { version: 3, name: ANNA, authentication };
        let message = client.encode(Request::Bind(bind), Controls::EMPTY);
        let connection = &mut client.connection;
        let mut out = Vec::new();
        let next = connection.worker.handle(&mut connection.session, &message, &mut out);
        let Next::Later(job) = next else { panic!("a slow hash goes to the pool") };
        assert!(job.exclusive());
        assert!(out.is_empty());
        assert_eq!(*connection.session.identity(), directory::Identity::Anonymous);
        let mut answer = Answer::default();
        let done = connection.pool.run(job, &mut |chunk| {
            answer.take(&chunk);
            Flow::Continue
        });
        connection.session.finish(done);
        assert_eq!(answer.code(), want);
        let authzid = connection.session.identity().authorization_id();
        assert_eq!(authzid == format!("dn:{ANNA}"), want == ResultCode::Success);
    }
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

#[test]
fn a_hash_given_as_new_password_by_the_user_is_taken_for_clear_text() {
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
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::InvalidCredentials);
    assert_eq!(client.bind(ANNA, SLOW), ResultCode::Success);
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
    let authentication = Authentication::Simple(CLEAR.as_bytes());
    let bind = BindRequest { version: 3, name: ANNA, authentication };
    let message = root.encode(Request::Bind(bind), Controls::EMPTY);
    let connection = &mut root.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a slow hash goes to the pool") };
    let debug = format!("{job:?} {:?}", connection.session);
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
