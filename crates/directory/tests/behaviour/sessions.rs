//! Sessions: what depends on the connection, and what a bind does to everything else.

use auth::password::Scheme;
use directory::{Directory, GlobalAcis, LocalUser, Next, Peer, Received, Tls};
use ldap::message::{
    Authentication, BindRequest, Controls, DecodeLimits, ExtendedRequest, Request, Scope,
};
use ldap::result::ResultCode;

use crate::authentication::{ANNA, plain, with_anna};
use crate::support::{Answer, Asked, Client, Connection, ROOT_DN, SUFFIX, Served};

const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

fn connect(served: &Served, peer: Peer) -> Client {
    let mut client = served.client();
    client.connection = Connection::new(&served.directory, peer);
    client
}

fn local(uid: u32) -> Peer {
    Peer { local_user: Some(LocalUser { uid, gid: 0 }), ..Peer::default() }
}

fn root_dse(client: &mut Client, attribute: &str) -> Vec<String> {
    let search =
        Asked { base: "", scope: Scope::Base, attributes: &[attribute], ..Asked::default() };
    client.search(&search).entries[0].texts(attribute)
}

fn external(client: &mut Client, credentials: Option<&[u8]>) -> ResultCode {
    let authentication = Authentication::Sasl { mechanism: "EXTERNAL", credentials };
    let bind = BindRequest { version: 3, name: "", authentication };
    client.request(Request::Bind(bind), Controls::EMPTY).code()
}

fn who(client: &mut Client) -> String {
    let value = client.extended(WHO_AM_I, None).value;
    String::from_utf8(value.expect("Who am I? has a value")).unwrap()
}

/// StartTLS through `handle`, as the connection sees it.
fn start_tls(client: &mut Client, value: Option<&[u8]>) -> (bool, Answer) {
    let request = Request::Extended(ExtendedRequest { oid: START_TLS, value });
    let message = client.encode(request, Controls::EMPTY);
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.handle(&mut connection.session, &message, &mut out);
    let mut answer = Answer::default();
    answer.take(&out);
    (matches!(next, Next::StartTls(_)), answer)
}

#[test]
fn external_makes_a_local_administrator_of_root_and_of_the_owner() {
    let served = Served::new();
    let other_uid = 4_294_967_294;
    let check = |peer: Peer, credentials: Option<&[u8]>, want: ResultCode| {
        let mut client = connect(&served, peer);
        assert_eq!(external(&mut client, credentials), want);
        let is_root = want == ResultCode::Success;
        assert_eq!(who(&mut client) == format!("dn:{ROOT_DN}"), is_root);
    };
    check(local(0), None, ResultCode::Success);
    check(local(0), Some(b""), ResultCode::Success);
    check(local(0), Some(b"dn:CN=directory  manager"), ResultCode::Success);
    check(local(0), Some(b"dn:cn=somebody"), ResultCode::AuthorizationDenied);
    check(local(0), Some(b"u:root"), ResultCode::AuthorizationDenied);
    check(local(other_uid), None, ResultCode::InvalidCredentials);
    check(Peer::default(), None, ResultCode::InappropriateAuthentication);
    let secure = Peer { secure: true, ..Peer::default() };
    check(secure, None, ResultCode::InappropriateAuthentication);
}

#[test]
fn the_root_dse_offers_what_can_succeed_on_the_connection() {
    let without = Served::new();
    let with = Served::with(|options| options.offers_tls = true);
    let check = |served: &Served, peer: Peer, mechanisms: &[&str], tls: bool| {
        let mut client = connect(served, peer);
        assert_eq!(root_dse(&mut client, "supportedSASLMechanisms"), mechanisms);
        let extensions = root_dse(&mut client, "supportedExtension");
        assert_eq!(extensions.iter().any(|oid| oid == START_TLS), tls);
        assert!(extensions.iter().any(|oid| oid == WHO_AM_I));
    };
    let near = ["PLAIN"];
    let local_too = ["EXTERNAL", "PLAIN"];
    check(&without, Peer::default(), &near, false);
    check(&with, Peer::default(), &near, true);
    check(&without, local(0), &local_too, false);
    check(&with, local(0), &local_too, false);
    let far = Peer { ip: Some("192.0.2.1".parse().unwrap()), ..Peer::default() };
    check(&with, far.clone(), &[], true);
    check(&with, Peer { secure: true, ..far }, &near, true);
}

/// SCRAM was offered where nobody had keys: `ldapsearch` took it before all else, asked for the
/// password, and was refused.
#[test]
fn scram_is_offered_for_the_hashes_that_there_are_keys_for() {
    let far = || Peer { ip: Some("192.0.2.1".parse().unwrap()), ..Peer::default() };
    let offered =
        |served: &Served| root_dse(&mut connect(served, far()), "supportedSASLMechanisms");
    let served = Served::new();
    assert_eq!(offered(&served), Vec::<String>::new());

    // An account has keys: written here, or before this start.
    let mut root = served.root();
    let keys = "{SCRAM-SHA-256}4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmt\
                bsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let name = format!("uid=anna,{SUFFIX}");
    let attributes: [(&str, &[&str]); 4] = [
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["x"]),
        ("sn", &["x"]),
        ("userPassword", &[keys]),
    ];
    assert_eq!(root.try_add(&name, &attributes).code(), ResultCode::Success);
    assert_eq!(offered(&served), ["SCRAM-SHA-256"]);
    drop(root);
    let served = served.reopen();
    assert_eq!(offered(&served), ["SCRAM-SHA-256"]);

    // New passwords are stored as keys: by the settings, or by a policy.
    let served = Served::with(|options| options.passwords.storage.scheme = Scheme::ScramSha512);
    assert_eq!(offered(&served), ["SCRAM-SHA-512"]);
    let served = Served::new();
    let policy: [(&str, &[&str]); 4] = [
        ("objectClass", &["subentry", "pwdPolicy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("passwordStorageScheme", &["SCRAM-SHA-256"]),
    ];
    let added = served.root().try_add(&format!("cn=policy,{SUFFIX}"), &policy);
    assert_eq!(added.code(), ResultCode::Success, "{}", added.diagnostic);
    assert_eq!(offered(&served), ["SCRAM-SHA-256"]);
}

/// PLAIN is what a client sends a password by when its owner wants that to be safe.
#[test]
fn plain_needs_protection_where_simple_binds_need_none() {
    let near = Peer { ip: Some("127.0.0.1".parse().unwrap()), ..Peer::default() };
    let secure = Peer { secure: true, ..near.clone() };
    let unix = Peer { local_user: Some(LocalUser { uid: 1, gid: 1 }), ..Peer::default() };
    let theirs = directory::AuthenticationOptions::default().plain_confidentiality;
    let served = with_anna(|authentication| {
        authentication.confidentiality = directory::Confidentiality::Never;
        authentication.plain_confidentiality = theirs;
    });
    for (peer, want) in [
        (near, ResultCode::ConfidentialityRequired),
        (secure, ResultCode::Success),
        (unix, ResultCode::Success),
    ] {
        let mut client = connect(&served, peer);
        assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
        assert_eq!(plain(&mut client, "", "anna", "secret"), want);
    }
}

#[test]
fn start_tls_needs_a_certificate_and_a_quiet_connection() {
    let without = Served::new();
    let (begins, answer) = start_tls(&mut without.client(), None);
    assert_eq!((begins, answer.code()), (false, ResultCode::ProtocolError));

    let with = Served::with(|options| options.offers_tls = true);
    let mut client = with.client();
    let (begins, answer) = start_tls(&mut client, Some(b"x"));
    assert_eq!((begins, answer.code()), (false, ResultCode::ProtocolError));
    let (begins, answer) = start_tls(&mut client, None);
    assert_eq!((begins, answer.code()), (true, ResultCode::Success));
    client.connection.session.set_tls(Tls::default());
    let (begins, answer) = start_tls(&mut client, None);
    assert_eq!((begins, answer.code()), (false, ResultCode::OperationsError));
    let (begins, answer) = start_tls(&mut connect(&with, local(0)), None);
    assert_eq!((begins, answer.code()), (false, ResultCode::ProtocolError));
}

#[test]
fn a_bind_that_cannot_be_read_takes_the_identity_away_too() {
    let served = Served::new();
    let mut client = served.root();
    // Well framed, but the name is not UTF-8.
    client.connection.feed(&[0x30, 0x0d, 2, 1, 9, 0x60, 8, 2, 1, 3, 4, 1, 0xff, 0x80, 0]);
    let mut answer = Answer::default();
    answer.take(&client.connection.received.pop_front().unwrap());
    assert_eq!(answer.code(), ResultCode::ProtocolError);
    assert!(!client.connection.closed);
    assert_eq!(who(&mut client), "");
}

#[test]
fn a_failed_bind_leaves_the_session_anonymous_whatever_failed() {
    let served = Served::new();
    let check = |name: &str, version: i32, authentication: Authentication<'_>| {
        let mut client = served.root();
        let bind = BindRequest { version, name, authentication };
        let code = client.request(Request::Bind(bind), Controls::EMPTY).code();
        assert_ne!(code, ResultCode::Success);
        assert_eq!(who(&mut client), "");
    };
    check(ROOT_DN, 3, Authentication::Simple(b"wrong"));
    check(ROOT_DN, 2, Authentication::Simple(b"secret"));
    check("nonsense", 3, Authentication::Simple(b"secret"));
    check("", 3, Authentication::Simple(b"secret"));
    check(ROOT_DN, 3, Authentication::Simple(b""));
    check("", 3, Authentication::Sasl { mechanism: "NONE", credentials: None });
    check("", 3, Authentication::Sasl { mechanism: "EXTERNAL", credentials: None });
}

#[test]
fn without_an_administrators_password_nobody_binds_as_administrator() {
    let place = tempfile::TempDir::new().unwrap();
    let data = place.path().join("data");
    let suffix = ldap::dn::Dn::parse("o=test").unwrap();
    let clock = std::sync::Arc::new(environment::SystemClock::new());
    Directory::init(&data, &[suffix], None, GlobalAcis::Public, clock).unwrap();
    let served = Served::open_existing(place);
    let mut client = served.client();
    for password in ["secret", "{NONE}", "NONE"] {
        assert_eq!(client.bind(ROOT_DN, password), ResultCode::InvalidCredentials);
    }
    let mut client = connect(&served, local(0));
    assert_eq!(external(&mut client, None), ResultCode::Success);
}

#[test]
fn the_administrators_password_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::new();
    let file = served.options.data.join("admin-password");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("{SSHA}") && !text.contains("secret"));
}

fn received(message: &[u8]) -> Received<'_> {
    Received::decode(message, &DecodeLimits::default())
}

/// What a guess is counted for that names an account so, by PLAIN.
fn account_of(client: &mut Client, name: &str) -> Option<Vec<u8>> {
    let credentials = format!("\0{name}\0guess");
    let authentication =
        Authentication::Sasl { mechanism: "PLAIN", credentials: Some(credentials.as_bytes()) };
    let bind = BindRequest { version: 3, name: "", authentication };
    let message = client.encode(Request::Bind(bind), Controls::EMPTY);
    let Connection { worker, session, .. } = &mut client.connection;
    worker.account_of_guess(session, &received(&message))
}

#[test]
fn guesses_are_counted_for_one_account_however_it_is_named() {
    let served = Served::new();
    let mut client = served.client();
    let mut account = |name: &str| account_of(&mut client, name).unwrap();
    for name in [
        "UID=Anna,ou=p,dc=example,dc=com",
        "uid= anna , ou=p,dc=example,dc=com",
        "uid=\\61nna,ou=p,dc=example,dc=com",
        "uid=\"anna\",ou=p,dc=example,dc=com",
        "userid=anna,ou=p,dc=example,dc=com",
        "0.9.2342.19200300.100.1.1=anna,ou=p,dc=example,dc=com",
        "dn:uid=anna,ou=p,dc=example,dc=com",
    ] {
        assert_eq!(account(name), account("uid=anna,ou=p,dc=example,dc=com"), "{name}");
    }
    assert_eq!(account(" Anna"), account("anna"));
    assert_ne!(account("uid=bert,ou=p,dc=example,dc=com"), account("anna"));
    // Of an entry all names are one, those of users too.
    let served = with_anna(|_| {});
    let mut client = served.client();
    let mut account = |name: &str| account_of(&mut client, name).unwrap();
    for name in ["anna", "u:Anna", "dn:UID=anna,dc=example,dc=org"] {
        assert_eq!(account(name), account(ANNA), "{name}");
    }
    assert_ne!(account(ROOT_DN), account(ANNA));
    let mut named = |name| {
        let authentication = Authentication::Simple(b"guess");
        let bind = BindRequest { version: 3, name, authentication };
        let message = client.encode(Request::Bind(bind), Controls::EMPTY);
        let Connection { worker, session, .. } = &mut client.connection;
        worker.account_of_guess(session, &received(&message))
    };
    assert_eq!(named("anna"), named(ANNA));
    assert_ne!(named("u:anna"), named(ANNA), "a simple bind has no such names");
}
