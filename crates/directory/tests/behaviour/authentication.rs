//! Authentication: SASL mechanisms, users' names, and where passwords are taken.

use auth::jwt::TokenOptions;
use auth::password::Scheme;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use directory::{
    CertificateMapper, ChannelBindings, ClientCertificate, Confidentiality, FingerprintDigest,
    IdentityMapper, LocalUser, Peer, Tls,
};
use environment::{ManualClock, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ldap::message::{Authentication, BindRequest, Controls, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;
use offline::{ImportOptions, Source, import};
use sha2::{Digest as _, Sha256};

use crate::support::{self, Answer, Asked, Client, Connection, ROOT_DN, SUFFIX, Served};

pub(crate) const ANNA: &str = "uid=anna,dc=example,dc=org";
pub(crate) const BEN: &str = "uid=ben,dc=example,dc=org";
const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";
const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";
/// bcrypt of "secret" at its lowest cost.
pub(crate) const SLOW: &str = "{CRYPT}$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

pub(crate) fn add(
    served: &Served,
    name: &str,
    uid: &str,
    password: &str,
    more: &[(&str, &[&str])],
) {
    let base: [(&str, &[&str]); 5] = [
        ("objectClass", &["inetOrgPerson", "extensibleObject"]),
        ("cn", &["A"]),
        ("sn", &["A"]),
        ("uid", &[uid]),
        ("userPassword", &[password]),
    ];
    let answer = served.root().try_add(name, &[&base[..], more].concat());
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

/// Anna with a password, and whatever `adjust` sets.
pub(crate) fn with_anna(adjust: impl FnOnce(&mut directory::AuthenticationOptions)) -> Served {
    let served = Served::with(|options| adjust(&mut options.authentication));
    add(&served, ANNA, "anna", "secret", &[]);
    served
}

pub(crate) fn connect(served: &Served, peer: Peer) -> Client {
    let mut client = served.client();
    client.connection = Connection::new(&served.directory, peer);
    client
}

pub(crate) fn from_afar() -> Peer {
    Peer { ip: Some("192.0.2.1".parse().unwrap()), ..Peer::default() }
}

pub(crate) fn sasl(client: &mut Client, mechanism: &str, credentials: Option<&[u8]>) -> Answer {
    let authentication = Authentication::Sasl { mechanism, credentials };
    let bind = BindRequest { version: 3, name: "", authentication };
    client.request(Request::Bind(bind), Controls::EMPTY)
}

pub(crate) fn plain(
    client: &mut Client,
    authzid: &str,
    authcid: &str,
    password: &str,
) -> ResultCode {
    let message = format!("{authzid}\0{authcid}\0{password}");
    sasl(client, "PLAIN", Some(message.as_bytes())).code()
}

pub(crate) fn who(client: &mut Client) -> String {
    let value = client.extended(WHO_AM_I, None).value;
    String::from_utf8(value.expect("Who am I? has a value")).unwrap()
}

#[test]
fn plain_takes_dns_and_users_names() {
    let served = with_anna(|_| {});
    let mut client = served.client();
    for name in ["anna", "u:anna", "ANNA", ANNA, "dn:UID=anna, DC=example,DC=org"] {
        assert_eq!(plain(&mut client, "", name, "secret"), ResultCode::Success, "{name}");
        assert_eq!(who(&mut client), format!("dn:{ANNA}"));
        assert_eq!(client.connection.session.mechanism(), "PLAIN");
        assert_eq!(plain(&mut client, "", name, "Secret"), ResultCode::InvalidCredentials);
        assert_eq!(who(&mut client), "");
    }
    for name in ["nobody", "u:", "dn:", "uid=nobody,dc=example,dc=org"] {
        assert_eq!(plain(&mut client, "", name, "secret"), ResultCode::InvalidCredentials);
    }
    assert_eq!(sasl(&mut client, "PLAIN", Some(b"anna")).code(), ResultCode::ProtocolError);
    // Without a first message the client is asked for one.
    let answer = sasl(&mut client, "PLAIN", None);
    assert_eq!(answer.code(), ResultCode::SaslBindInProgress);
    assert_eq!(answer.sasl.as_deref(), Some(&b""[..]));
    assert_eq!(plain(&mut client, "", "anna", "secret"), ResultCode::Success);
}

#[test]
fn only_the_administrator_acts_as_another() {
    let served = with_anna(|_| {});
    add(&served, BEN, "ben", "secret", &[]);
    let mut client = served.client();
    for own in ["u:anna", "dn:UID=Anna,dc=example,dc=org", "anna"] {
        assert_eq!(plain(&mut client, own, "anna", "secret"), ResultCode::Success);
    }
    for other in ["u:ben", BEN, "u:nobody", "dn:", "dn:cn=Directory Manager"] {
        let code = plain(&mut client, other, "anna", "secret");
        assert_eq!(code, ResultCode::AuthorizationDenied, "{other}");
        assert_eq!(who(&mut client), "");
    }
    // Nothing is told of names before the password is right.
    assert_eq!(plain(&mut client, "u:ben", "anna", "x"), ResultCode::InvalidCredentials);
    assert_eq!(plain(&mut client, "u:ben", ROOT_DN, "secret"), ResultCode::Success);
    assert_eq!(who(&mut client), format!("dn:{BEN}"));
    assert_eq!(plain(&mut client, "dn:", ROOT_DN, "secret"), ResultCode::Success);
    assert_eq!(who(&mut client), "");
    let code = plain(&mut client, "u:nobody", ROOT_DN, "secret");
    assert_eq!(code, ResultCode::AuthorizationDenied);
}

/// As with the proxied authorization control: by the privilege and the right on the other's entry.
#[test]
fn whoever_may_proxy_may_sign_in_as_another() {
    let served = with_anna(|_| {});
    add(&served, BEN, "ben", "secret", &[]);
    let mut root = served.root();
    let give = [(ModifyOperation::Add, "ds-privilege-name", &["proxied-auth"][..])];
    assert_eq!(root.modify(ANNA, &give), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(plain(&mut client, "u:ben", "anna", "secret"), ResultCode::AuthorizationDenied);
    // Anonymous has no entry that anybody could be asked about.
    assert_eq!(plain(&mut client, "dn:", "anna", "secret"), ResultCode::Success);
    assert_eq!(who(&mut client), "");
    // How the proof was made is asked as well: by PLAIN, not by a simple bind.
    let aci = format!(
        "(version 3.0; acl \"proxy\"; allow (proxy) userdn=\"ldap:///{ANNA}\" and \
         authmethod=\"sasl PLAIN\";)"
    );
    let put = [(ModifyOperation::Add, "aci", &[aci.as_str()][..])];
    assert_eq!(root.modify(BEN, &put), ResultCode::Success);
    for name in ["u:ben", "ben", BEN] {
        assert_eq!(plain(&mut client, name, "anna", "secret"), ResultCode::Success, "{name}");
        assert_eq!(who(&mut client), format!("dn:{BEN}"));
    }
    for other in ["u:nobody", "dn:cn=nobody,dc=example,dc=org", "dn:cn=Directory Manager"] {
        let code = plain(&mut client, other, "anna", "secret");
        assert_eq!(code, ResultCode::AuthorizationDenied, "{other}");
    }
    assert_eq!(plain(&mut client, "u:anna", "ben", "secret"), ResultCode::AuthorizationDenied);
    assert_eq!(plain(&mut client, "u:ben", "anna", "x"), ResultCode::InvalidCredentials);
    // Nobody acts as an account that is switched off.
    let off = [(ModifyOperation::Add, "ds-pwp-account-disabled", &["true"][..])];
    assert_eq!(root.modify(BEN, &off), ResultCode::Success);
    assert_eq!(plain(&mut client, "u:ben", "anna", "secret"), ResultCode::AuthorizationDenied);
}

#[test]
fn a_slow_password_of_a_sasl_bind_is_verified_on_the_pool() {
    // Stored anew behind the first bind, it would be no slow one for the second.
    let served = Served::with(|options| options.passwords.rehash_on_bind = false);
    add(&served, ANNA, "anna", SLOW, &[]);
    let mut client = served.client();
    assert_eq!(plain(&mut client, "u:anna", "anna", "secret"), ResultCode::Success);
    assert_eq!(who(&mut client), format!("dn:{ANNA}"));
    assert_eq!(client.connection.session.mechanism(), "PLAIN");
    assert_eq!(plain(&mut client, "", "anna", "x"), ResultCode::InvalidCredentials);
    assert_eq!(client.connection.hashes, 2);
}

#[test]
fn a_simple_bind_takes_a_users_name_unless_switched_off() {
    let served = with_anna(|_| {});
    let mut client = served.client();
    assert_eq!(client.bind("anna", "secret"), ResultCode::Success);
    assert_eq!(who(&mut client), format!("dn:{ANNA}"));
    assert_eq!(client.bind("anna", "x"), ResultCode::InvalidCredentials);
    assert_eq!(client.bind("nobody", "secret"), ResultCode::InvalidCredentials);
    assert_eq!(client.bind("anna", ""), ResultCode::UnwillingToPerform);

    let served = with_anna(|authentication| authentication.bind_by_name = false);
    let mut client = served.client();
    assert_eq!(client.bind("anna", "secret"), ResultCode::InvalidDnSyntax);
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    assert_eq!(plain(&mut client, "", "anna", "secret"), ResultCode::Success);
}

#[test]
fn a_name_that_two_entries_have_lets_nobody_in() {
    let served = with_anna(|authentication| {
        authentication.names =
            IdentityMapper { attributes: vec!["uid".to_owned(), "mail".to_owned()], bases: vec![] };
    });
    add(&served, BEN, "ben", "secret", &[("mail", &["carla@example.org", "anna"])]);
    let mut client = served.client();
    assert_eq!(client.bind("carla@example.org", "secret"), ResultCode::Success);
    assert_eq!(who(&mut client), format!("dn:{BEN}"));
    // The first attribute that any entry has decides.
    assert_eq!(client.bind("anna", "secret"), ResultCode::Success);
    assert_eq!(who(&mut client), format!("dn:{ANNA}"));
    add(&served, "cn=x,dc=example,dc=org", "Anna", "secret", &[]);
    assert_eq!(client.bind("anna", "secret"), ResultCode::InvalidCredentials);
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
}

#[test]
fn names_are_looked_for_below_the_bases() {
    let served = with_anna(|authentication| {
        authentication.names.bases = vec!["uid=ben,dc=example,dc=org".to_owned()];
    });
    let mut client = served.client();
    assert_eq!(client.bind("anna", "secret"), ResultCode::InvalidCredentials);
    add(&served, BEN, "ben", "secret", &[]);
    add(&served, &format!("uid=anna,{BEN}"), "anna", "other", &[]);
    assert_eq!(client.bind("anna", "other"), ResultCode::Success);
    assert_eq!(client.bind("ben", "secret"), ResultCode::Success);
    assert_eq!(client.bind("anna", "secret"), ResultCode::InvalidCredentials);
}

#[test]
fn passwords_from_afar_need_protection() {
    let near = Peer { ip: Some("127.0.0.1".parse().unwrap()), ..Peer::default() };
    let near6 = Peer { ip: Some("::1".parse().unwrap()), ..Peer::default() };
    let mapped = Peer { ip: Some("::ffff:127.0.0.1".parse().unwrap()), ..Peer::default() };
    // A proxy can claim any address, and says nothing about the way to it.
    let proxied = Peer { is_proxied: true, ..near.clone() };
    let unix = Peer { local_user: Some(LocalUser { uid: 1, gid: 1 }), ..Peer::default() };
    let secure = Peer { secure: true, ..from_afar() };
    let check = |rule: Confidentiality, taken: &[&Peer], refused: &[&Peer]| {
        let served = with_anna(|authentication| {
            authentication.confidentiality = rule;
            authentication.plain_confidentiality = rule;
        });
        for (peers, want) in
            [(taken, ResultCode::Success), (refused, ResultCode::ConfidentialityRequired)]
        {
            for peer in peers {
                let mut client = connect(&served, (*peer).clone());
                assert_eq!(client.bind(ANNA, "secret"), want, "{rule:?} {peer:?}");
                assert_eq!(plain(&mut client, "", "anna", "secret"), want);
                // Whether the password is right is not told.
                let wrong = client.bind(ANNA, "wrong");
                assert_ne!(wrong, ResultCode::Success);
                assert_eq!(wrong == want, want == ResultCode::ConfidentialityRequired);
                assert_eq!(client.bind("", ""), ResultCode::Success);
                let changed = client.extended(PASSWORD_MODIFY, None).code();
                // Likewise by an update, and where a compare would tell.
                let replace = (ModifyOperation::Replace, "userPassword", &["new"][..]);
                let add: &[(&str, &[&str])] =
                    &[("objectClass", &["account"]), ("userPassword", &["new"])];
                for code in [
                    changed,
                    client.modify(ANNA, &[replace]),
                    client.add("uid=new,dc=example,dc=org", add),
                    client.compare(ANNA, "userPassword", "secret"),
                ] {
                    assert_eq!(code == want, want == ResultCode::ConfidentialityRequired);
                }
                // What is no password is nobody's secret.
                let none = (ModifyOperation::Delete, "userPassword", &[][..]);
                let other = (ModifyOperation::Replace, "description", &["x"][..]);
                let code = client.modify(ANNA, &[none, other]);
                assert_eq!(code, ResultCode::InsufficientAccessRights);
            }
        }
    };
    let far = from_afar();
    check(Confidentiality::Remote, &[&near, &near6, &mapped, &unix, &secure], &[&far, &proxied]);
    check(Confidentiality::Always, &[&unix, &secure], &[&near, &near6, &proxied, &far]);
    check(Confidentiality::Never, &[&near, &proxied, &far, &unix, &secure], &[]);
}

#[test]
fn anonymous_is_off_unless_switched_on() {
    let served = with_anna(|_| {});
    let mut client = served.client();
    let code = sasl(&mut client, "ANONYMOUS", Some(b"sirhc")).code();
    assert_eq!(code, ResultCode::AuthMethodNotSupported);
    let served =
        with_anna(|authentication| authentication.mechanisms = vec!["ANONYMOUS".to_owned()]);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    assert_eq!(sasl(&mut client, "ANONYMOUS", Some(b"sirhc")).code(), ResultCode::Success);
    assert_eq!(who(&mut client), "");
    assert_eq!(sasl(&mut client, "ANONYMOUS", None).code(), ResultCode::Success);
    assert_eq!(sasl(&mut client, "ANONYMOUS", Some(b"a\nb")).code(), ResultCode::ProtocolError);
    // What is not in the list is neither offered nor done.
    assert_eq!(plain(&mut client, "", "anna", "secret"), ResultCode::AuthMethodNotSupported);
    let asked = Asked {
        base: "",
        scope: Scope::Base,
        attributes: &["supportedSASLMechanisms"],
        ..Asked::default()
    };
    let entry = &client.search(&asked).entries[0];
    assert_eq!(entry.texts("supportedSASLMechanisms"), ["ANONYMOUS"]);
}

// ---- SCRAM

fn hmac(key: &[u8], octets: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(octets).finalize().into_bytes().to_vec()
}

fn salted(password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
    let mut salted = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut salted);
    salted.to_vec()
}

/// A password as it is stored for SCRAM-SHA-256.
pub(crate) fn scram_value(password: &str) -> String {
    let salted = salted(password, b"sixteen octets..", 4_096);
    let stored = STANDARD.encode(Sha256::digest(hmac(&salted, b"Client Key")));
    let server = STANDARD.encode(hmac(&salted, b"Server Key"));
    format!("SCRAM-SHA-256$4096:{}${stored}:{server}", STANDARD.encode("sixteen octets.."))
}

/// Anna, whose keys are for the password `secret`.
pub(crate) fn add_anna_with_keys(served: &Served) {
    add(served, ANNA, "anna", "other", &[("authPassword", &[&scram_value("secret")])]);
}

/// A client of SCRAM-SHA-256, and what it may get wrong.
pub(crate) struct Scram<'a> {
    pub(crate) mechanism: &'a str,
    pub(crate) header: &'a str,
    pub(crate) binding: &'a [u8],
    pub(crate) name: &'a str,
    pub(crate) password: &'a str,
}

impl Default for Scram<'_> {
    fn default() -> Self {
        Self {
            mechanism: "SCRAM-SHA-256",
            header: "n,,",
            binding: b"",
            name: "anna",
            password: "secret",
        }
    }
}

impl Scram<'_> {
    /// The salt and iterations that the server tells.
    pub(crate) fn begin(&self, client: &mut Client) -> Result<String, ResultCode> {
        let first = format!("{}n={},r=abc", self.header, self.name);
        let answer = sasl(client, self.mechanism, Some(first.as_bytes()));
        if answer.code() != ResultCode::SaslBindInProgress {
            return Err(answer.code());
        }
        Ok(String::from_utf8(answer.sasl.unwrap()).unwrap())
    }

    fn run(&self, client: &mut Client) -> ResultCode {
        match self.begin(client) {
            Ok(challenge) => self.finish(client, &challenge),
            Err(code) => code,
        }
    }

    /// Sends the proof that belongs to what the server told.
    pub(crate) fn finish(&self, client: &mut Client, challenge: &str) -> ResultCode {
        let parts: Vec<&str> = challenge.split(',').collect();
        let (nonce, salt) = (parts[0], STANDARD.decode(&parts[1][2..]).unwrap());
        assert!(nonce.starts_with("r=abc") && nonce.len() > 20);
        let salted = salted(self.password, &salt, parts[2][2..].parse().unwrap());
        let client_key = hmac(&salted, b"Client Key");
        let binding = [self.header.as_bytes(), self.binding].concat();
        let without_proof = format!("c={},{nonce}", STANDARD.encode(binding));
        let message = format!("n={},r=abc,{challenge},{without_proof}", self.name);
        let signature = hmac(&Sha256::digest(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let last = format!("{without_proof},p={}", STANDARD.encode(proof));
        let answer = sasl(client, self.mechanism, Some(last.as_bytes()));
        if answer.code() == ResultCode::Success {
            let verifier = hmac(&hmac(&salted, b"Server Key"), message.as_bytes());
            let want = format!("v={}", STANDARD.encode(verifier));
            assert_eq!(answer.sasl.as_deref(), Some(want.as_bytes()));
        }
        answer.code()
    }
}

#[test]
fn scram_proves_the_password_of_an_entry() {
    let served = Served::new();
    add_anna_with_keys(&served);
    // SCRAM needs no protection.
    let mut client = connect(&served, from_afar());
    for name in ["anna", "u:anna", "uid=3Danna=2Cdc=3Dexample=2Cdc=3Dorg"] {
        assert_eq!(Scram { name, ..Scram::default() }.run(&mut client), ResultCode::Success);
        assert_eq!(who(&mut client), format!("dn:{ANNA}"));
        assert_eq!(client.connection.session.mechanism(), "SCRAM-SHA-256");
    }
    let wrong = Scram { password: "Secret", ..Scram::default() };
    assert_eq!(wrong.run(&mut client), ResultCode::InvalidCredentials);
    assert_eq!(who(&mut client), "");
    let as_another = Scram { header: "n,a=u:ben,", ..Scram::default() };
    assert_eq!(as_another.run(&mut client), ResultCode::AuthorizationDenied);
    let as_itself = Scram { header: "n,a=u:anna,", ..Scram::default() };
    assert_eq!(as_itself.run(&mut client), ResultCode::Success);
    // Another binding than was said at first.
    let other = Scram { binding: b"x", ..Scram::default() };
    assert_eq!(other.run(&mut client), ResultCode::InvalidCredentials);
}

#[test]
fn a_password_that_is_stored_for_scram_is_one_for_everything() {
    let served = Served::with(|options| {
        options.passwords.storage.scheme = Scheme::ScramSha256;
        options.passwords.storage.costs.scram_iterations = 4_096;
    });
    add(&served, ANNA, "anna", "secret", &[]);
    let mut client = served.client();
    let check = |client: &mut Client, password: &str| {
        assert_eq!(client.bind(ANNA, password), ResultCode::Success);
        assert_eq!(plain(client, "", "anna", password), ResultCode::Success);
        let scram = Scram { password, ..Scram::default() };
        assert_eq!(scram.run(client), ResultCode::Success);
        assert_eq!(who(client), format!("dn:{ANNA}"));
        assert_eq!(client.bind(ANNA, "wrong"), ResultCode::InvalidCredentials);
        let mut root = served.root();
        assert_eq!(root.compare(ANNA, "userPassword", password), ResultCode::CompareTrue);
        assert_eq!(root.compare(ANNA, "userPassword", "wrong"), ResultCode::CompareFalse);
    };
    check(&mut client, "secret");
    // A new one, in clear and by the client's own wish; then one that was made elsewhere.
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    let replace = |value: &str| {
        let changes = [(ModifyOperation::Replace, "userPassword", &[value][..])];
        assert_eq!(served.root().modify(ANNA, &changes), ResultCode::Success);
    };
    replace("geheim");
    check(&mut client, "geheim");
    replace(&scram_value("hidden").replacen("SCRAM-SHA-256$", "{SCRAM-SHA-256}", 1));
    check(&mut client, "hidden");
    let asked = Asked { base: ANNA, scope: Scope::Base, ..Asked::default() };
    let entry = served.root().search(&asked).entries.remove(0);
    let stored = format!("{entry:?}");
    assert!(!stored.contains("hidden") && !stored.contains("geheim"), "{stored}");
}

#[test]
fn scram_tells_nothing_of_names() {
    let served = Served::new();
    add_anna_with_keys(&served);
    // There is an entry, but it has no keys; or keys for another hash.
    add(&served, BEN, "ben", "secret", &[]);
    let salt = |served: &Served, mechanism: &str, name: &str| {
        let mut client = served.client();
        let challenge = Scram { mechanism, name, ..Scram::default() }.begin(&mut client).unwrap();
        challenge.split_once(",s=").unwrap().1.to_owned()
    };
    let (sha_256, sha_512) = ("SCRAM-SHA-256", "SCRAM-SHA-512");
    let made = salt(&served, sha_256, "nobody");
    assert_eq!(salt(&served, sha_256, "nobody"), made);
    assert_eq!(salt(&served, sha_256, "Nobody"), made);
    assert_ne!(salt(&served, sha_256, "nobody2"), made);
    assert_ne!(salt(&served, sha_512, "nobody"), made);
    let ben = salt(&served, sha_256, "ben");
    let anna = salt(&served, sha_512, "anna");
    assert!(salt(&served, sha_256, "anna").ends_with(",i=4096"));
    for (name, password) in [("nobody", "secret"), ("ben", "secret"), ("x=3Dy=2C", "secret")] {
        let mut client = served.client();
        let code = Scram { name, password, ..Scram::default() }.run(&mut client);
        assert_eq!(code, ResultCode::InvalidCredentials);
    }
    // The salts stay the same when the server is started again.
    let served = served.reopen();
    assert_eq!(salt(&served, sha_256, "nobody"), made);
    assert_eq!(salt(&served, sha_256, "ben"), ben);
    assert_eq!(salt(&served, sha_512, "anna"), anna);
}

#[test]
fn scram_is_offered_whichever_entry_has_the_keys() {
    // Keys behind the first thousand entries were not found after a start, so that nobody was
    // offered what they could sign in with.
    let data = tempfile::TempDir::new().unwrap();
    let path = data.path().join("data");
    support::init(&path);
    let mut ldif = String::new();
    for number in 0..2_500 {
        ldif += &format!("dn: cn=d{number},{SUFFIX}\nobjectClass: device\n\n");
    }
    let keys = scram_value("secret");
    ldif += &format!("dn: {ANNA}\nobjectClass: inetOrgPerson\nobjectClass: extensibleObject\n");
    ldif += &format!("cn: A\nsn: A\nuserPassword: secret\nauthPassword: {keys}\n");
    let clock = ManualClock::at(Timestamp(1_767_225_600_000_000));
    let sources = vec![Source::new("test", ldif.as_bytes())];
    let report = import(&path, sources, &ImportOptions::default(), &clock, &mut ()).unwrap();
    assert_eq!(report.imported, 2_501);
    let served = Served::open_existing(data);
    let mut client = served.client();
    let asked = Asked {
        base: "",
        scope: Scope::Base,
        attributes: &["supportedSASLMechanisms"],
        ..Asked::default()
    };
    let mut offered = Vec::new();
    for _ in 0..2_000_000 {
        offered = client.search(&asked).entries[0].texts("supportedSASLMechanisms");
        if offered.iter().any(|name| name == "SCRAM-SHA-256") {
            break;
        }
        std::thread::yield_now();
    }
    assert!(offered.iter().any(|name| name == "SCRAM-SHA-256"), "{offered:?}");
    assert!(offered.iter().all(|name| name != "SCRAM-SHA-512"), "nobody has such keys");
    assert_eq!(Scram::default().run(&mut client), ResultCode::Success);
    // What looks for keys ends with its directory, wherever it is.
    drop(client);
    let served = served.reopen().reopen();
    assert_eq!(Scram::default().run(&mut served.client()), ResultCode::Success);
}

fn secured(served: &Served) -> Client {
    let mut client = connect(served, from_afar());
    let bindings = ChannelBindings {
        exporter: Some(b"exported".to_vec()),
        server_end_point: Some(b"certificate".to_vec()),
    };
    client.connection.session.set_tls(Tls { strength_bits: 256, client: None, bindings });
    client
}

#[test]
fn channel_binding_ties_the_proof_to_the_connection() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let plus = "SCRAM-SHA-256-PLUS";
    let exporter = Scram {
        mechanism: plus,
        header: "p=tls-exporter,,",
        binding: b"exported",
        ..Scram::default()
    };
    let end_point =
        Scram { header: "p=tls-server-end-point,,", binding: b"certificate", ..exporter };
    assert_eq!(exporter.run(&mut secured(&served)), ResultCode::Success);
    assert_eq!(end_point.run(&mut secured(&served)), ResultCode::Success);
    // Somebody in between has another connection to us.
    let relayed = Scram { binding: b"another", ..exporter };
    assert_eq!(relayed.run(&mut secured(&served)), ResultCode::InvalidCredentials);
    let unknown = Scram { header: "p=tls-unique,,", ..exporter };
    assert_eq!(unknown.run(&mut secured(&served)), ResultCode::InvalidCredentials);
    let without = Scram { header: "n,,", binding: b"", ..exporter };
    assert_eq!(without.run(&mut secured(&served)), ResultCode::ProtocolError);
    let unasked = Scram { mechanism: "SCRAM-SHA-256", ..exporter };
    assert_eq!(unasked.run(&mut secured(&served)), ResultCode::ProtocolError);
    // Without TLS there is nothing to bind to.
    assert_eq!(exporter.run(&mut served.client()), ResultCode::AuthMethodNotSupported);
}

#[test]
fn who_could_bind_the_channel_and_was_told_otherwise_is_warned() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let downgraded = Scram { header: "y,,", ..Scram::default() };
    assert_eq!(downgraded.run(&mut secured(&served)), ResultCode::InvalidCredentials);
    assert_eq!(downgraded.run(&mut served.client()), ResultCode::Success);
    assert_eq!(Scram::default().run(&mut secured(&served)), ResultCode::Success);
}

#[test]
fn an_exchange_is_ended_or_given_up_before_anything_else() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let mut client = served.root();
    Scram::default().begin(&mut client).unwrap();
    let answer = client.extended(WHO_AM_I, None);
    assert_eq!(answer.code(), ResultCode::OperationsError);
    // The last message of one mechanism is not one of another.
    let answer = sasl(&mut client, "SCRAM-SHA-512", Some(b"c=biws,r=x,p=AA=="));
    assert_eq!(answer.code(), ResultCode::ProtocolError);
    assert_eq!(who(&mut client), "");
    // A message that comes twice is not taken a second time.
    Scram::default().begin(&mut client).unwrap();
    assert_eq!(client.bind("", ""), ResultCode::Success);
    let answer = sasl(&mut client, "SCRAM-SHA-256", Some(b"c=biws,r=x,p=AA=="));
    assert_eq!(answer.code(), ResultCode::ProtocolError);
    assert_eq!(Scram::default().run(&mut client), ResultCode::Success);
    // TLS begins a session anew.
    Scram::default().begin(&mut client).unwrap();
    client.connection.session.set_tls(Tls::default());
    let answer = sasl(&mut client, "SCRAM-SHA-256", Some(b"c=biws,r=x,p=AA=="));
    assert_eq!(answer.code(), ResultCode::ProtocolError);
}

// ---- certificates

pub(crate) fn certified(served: &Served, subject: &str) -> Client {
    let mut client = connect(served, Peer { secure: true, ..from_afar() });
    let certificate = ClientCertificate { subject: subject.to_owned(), der: b"abc".to_vec() };
    client.connection.session.set_tls(Tls { client: Some(certificate), ..Tls::default() });
    client
}

#[track_caller]
fn check_certificate(served: &Served, subject: &str, want: Option<&str>) {
    let mut client = certified(served, subject);
    let code = sasl(&mut client, "EXTERNAL", Some(b"")).code();
    let expected =
        if want.is_some() { ResultCode::Success } else { ResultCode::InvalidCredentials };
    assert_eq!(code, expected, "{subject}");
    assert_eq!(who(&mut client), want.map(|dn| format!("dn:{dn}")).unwrap_or_default());
}

#[test]
fn a_certificate_is_that_of_the_entry_with_its_subject() {
    let served = with_anna(|_| {});
    check_certificate(&served, "UID=Anna,DC=example, DC=org", Some(ANNA));
    check_certificate(&served, "uid=nobody,dc=example,dc=org", None);
    check_certificate(&served, "cn=x,o=unknown", None);
    check_certificate(&served, "", None);
    // Nobody becomes the administrator by a certificate.
    check_certificate(&served, ROOT_DN, None);
    let mut client = certified(&served, ANNA);
    assert_eq!(sasl(&mut client, "EXTERNAL", Some(b"u:anna")).code(), ResultCode::Success);
    assert_eq!(client.connection.session.mechanism(), "EXTERNAL");
    let code = sasl(&mut client, "EXTERNAL", Some(b"dn:cn=Directory Manager")).code();
    assert_eq!(code, ResultCode::AuthorizationDenied);
    let mut without = connect(&served, Peer { secure: true, ..from_afar() });
    let code = sasl(&mut without, "EXTERNAL", None).code();
    assert_eq!(code, ResultCode::InappropriateAuthentication);
}

#[test]
fn a_certificate_is_that_of_the_entry_that_holds_its_subject() {
    let served = Served::with(|options| {
        options.authentication.certificates =
            CertificateMapper::SubjectDnToUserAttribute("ds-certificate-subject-dn".to_owned());
    });
    let subject: &[(&str, &[&str])] = &[("ds-certificate-subject-dn", &["cn=Anna,o=Cards"])];
    add(&served, ANNA, "anna", "secret", subject);
    check_certificate(&served, "CN=anna, O=cards", Some(ANNA));
    check_certificate(&served, ANNA, None);
    add(&served, BEN, "ben", "secret", subject);
    check_certificate(&served, "CN=anna, O=cards", None);
}

#[test]
fn a_certificate_is_that_of_the_entry_with_the_same_attributes() {
    let served = Served::with(|options| {
        let pair = |of_subject: &str, of_entry: &str| (of_subject.to_owned(), of_entry.to_owned());
        options.authentication.certificates =
            CertificateMapper::SubjectAttributeToUserAttribute(vec![
                pair("cn", "uid"),
                pair("ou", "ou"),
            ]);
    });
    add(&served, ANNA, "anna", "secret", &[("ou", &["People"])]);
    check_certificate(&served, "cn=anna,ou=people,o=x,o=y", Some(ANNA));
    check_certificate(&served, "cn=anna,ou=other,o=x", None);
    // The value nearest to the leaf was taken: whoever could have a second name certified, in
    // front of the own one, was let in by it.
    check_certificate(&served, "cn=anna,ou=people,ou=other,o=x", None);
    check_certificate(&served, "cn=anna,ou=people,o=x,cn=ben", None);
    check_certificate(&served, "cn=anna+cn=ben,ou=people,o=x", None);
    let mut client = certified(&served, "cn=anna,cn=ben,ou=people");
    let answer = sasl(&mut client, "EXTERNAL", Some(b""));
    let reason = "the subject of the client certificate has more than one cn";
    assert_eq!(answer.diagnostic, reason);
    check_certificate(&served, "cn=anna,o=x", None);
    // A value is a value, not a part of a filter.
    check_certificate(&served, "cn=*,ou=people", None);
}

#[test]
fn a_certificate_is_that_of_the_entry_that_holds_its_fingerprint() {
    let fingerprint = "A9:99:3E:36:47:06:81:6A:BA:3E:25:71:78:50:C2:6C:9C:D0:D8:9D";
    let served = Served::with(|options| {
        options.authentication.certificates = CertificateMapper::Fingerprint {
            attribute: "ds-certificate-fingerprint".to_owned(),
            digest: FingerprintDigest::Sha1,
        };
    });
    check_certificate(&served, ANNA, None);
    add(&served, ANNA, "anna", "secret", &[("ds-certificate-fingerprint", &[fingerprint])]);
    check_certificate(&served, "cn=whoever", Some(ANNA));
}

// ---- tokens

/// The second of the tests' clock, and a token that was signed with the shared key.
pub(crate) fn token(claims: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac(SHARED_KEY, signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

pub(crate) const SHARED_KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

pub(crate) fn bearer(client: &mut Client, authzid: &str, token: &str) -> Answer {
    let header = if authzid.is_empty() { "n,,".to_owned() } else { format!("n,a={authzid},") };
    let message = format!("{header}\u{1}auth=Bearer {token}\u{1}\u{1}");
    sasl(client, "OAUTHBEARER", Some(message.as_bytes()))
}

#[test]
fn a_token_of_the_configured_issuer_lets_its_user_in() {
    let served = with_anna(|authentication| {
        authentication.tokens = TokenOptions {
            issuer: "https://idp.example".to_owned(),
            audience: "ldap".to_owned(),
            claim: "preferred_username".to_owned(),
            clock_skew_s: 10,
        };
    });
    let claims = "{\"iss\":\"https://idp.example\",\"aud\":\"ldap\",\
                  \"preferred_username\":\"anna\",\"exp\":1767225600}";
    let good = token(claims);
    let mut client = connect(&served, Peer { secure: true, ..from_afar() });
    // Without keys no token is taken.
    assert_eq!(bearer(&mut client, "", &good).code(), ResultCode::AuthMethodNotSupported);
    let key = URL_SAFE_NO_PAD.encode(SHARED_KEY);
    let keys = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{key}\"}}]}}");
    served.directory.set_token_keys(&keys).unwrap();
    assert!(served.directory.set_token_keys("{}").is_err());
    let answer = bearer(&mut client, "", &good);
    assert_eq!((answer.code(), answer.sasl), (ResultCode::Success, None));
    assert_eq!(who(&mut client), format!("dn:{ANNA}"));
    assert_eq!(client.connection.session.mechanism(), "OAUTHBEARER");
    assert_eq!(bearer(&mut client, "u:anna", &good).code(), ResultCode::Success);
    assert_eq!(bearer(&mut client, "u:ben", &good).code(), ResultCode::AuthorizationDenied);

    // One that is not accepted: the client is told why, acknowledges it, and then it has failed.
    for bad in [
        claims.replace("1767225600", "1767225590"),
        claims.replace("anna", "nobody"),
        claims.replace("\"anna\"", "\"cn=Directory Manager\""),
        claims.replace("idp", "evil"),
    ] {
        let answer = bearer(&mut client, "", &token(&bad));
        assert_eq!(answer.code(), ResultCode::SaslBindInProgress, "{bad}");
        assert_eq!(answer.sasl.as_deref(), Some(&b"{\"status\":\"invalid_token\"}"[..]));
        let answer = sasl(&mut client, "OAUTHBEARER", Some(b"\x01"));
        assert_eq!(answer.code(), ResultCode::InvalidCredentials);
        assert_eq!(who(&mut client), "");
    }
    // Whoever reads a token can use it.
    let mut far = connect(&served, from_afar());
    assert_eq!(bearer(&mut far, "", &good).code(), ResultCode::ConfidentialityRequired);
}

#[test]
fn what_can_never_work_is_refused_at_the_start() {
    let place = tempfile::TempDir::new().unwrap();
    let data = place.path().join("data");
    support::init(&data);
    let refused = |adjust: &dyn Fn(&mut directory::AuthenticationOptions)| {
        let mut options = directory::DirectoryOptions::new(&data);
        adjust(&mut options.authentication);
        let clock = std::sync::Arc::new(environment::SystemClock::new());
        directory::Directory::open(options, clock).err().unwrap().to_string()
    };
    let text = refused(&|it| it.mechanisms = vec!["NTLM".to_owned()]);
    assert_eq!(
        text,
        "section [authentication]: 'NTLM' cannot be used: the server does not know this SASL \
         mechanism"
    );
    // Not built in, or there is no key.
    let text = refused(&|it| it.mechanisms = vec!["GSSAPI".to_owned()]);
    assert!(text.contains("'GSSAPI' cannot be used"), "{text}");
    let text = refused(&|it| it.names.attributes = vec!["nosuchtype".to_owned()]);
    assert!(text.contains("'nosuchtype' cannot be used"), "{text}");
    let text = refused(&|it| it.names.attributes = vec!["userPassword".to_owned()]);
    assert!(text.contains("a password names nobody"), "{text}");
    let text = refused(&|it| it.names.bases = vec!["people".to_owned()]);
    assert!(text.contains("'people' cannot be used"), "{text}");
}

#[test]
fn an_account_that_is_off_is_refused_whatever_the_proof() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let mut root = served.root();
    let mut client = served.client();
    let mut proofs = |expected: ResultCode| {
        assert_eq!(client.bind(ANNA, "other"), expected);
        assert_eq!(plain(&mut client, "", "anna", "other"), expected);
        assert_eq!(Scram::default().run(&mut client), expected);
        let mut certified = certified(&served, ANNA);
        assert_eq!(sasl(&mut certified, "EXTERNAL", Some(b"")).code(), expected);
    };
    proofs(ResultCode::Success);
    let off: (ModifyOperation, &str, &[&str]) =
        (ModifyOperation::Replace, "nsAccountLock", &["true"]);
    assert_eq!(root.modify(ANNA, &[off]), ResultCode::Success);
    proofs(ResultCode::InvalidCredentials);
}

#[test]
fn every_mechanism_that_proves_a_password_counts_failures() {
    let served = Served::with(|options| {
        options.password_policy.state_delay = std::time::Duration::from_secs(3_600);
    });
    add_anna_with_keys(&served);
    let policy: [(&str, &[&str]); 5] = [
        ("objectClass", &["subentry", "pwdPolicy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdLockout", &["TRUE"]),
        ("pwdMaxFailure", &["3"]),
    ];
    let added = served.root().try_add("cn=policy,dc=example,dc=org", &policy);
    assert_eq!(added.code(), ResultCode::Success, "{}", added.diagnostic);
    let mut client = served.client();
    let (no, ok) = (ResultCode::InvalidCredentials, ResultCode::Success);
    let wrong = || Scram { password: "wrong", ..Scram::default() };
    // A right one makes the others forgotten.
    assert_eq!((wrong().run(&mut client), client.bind(ANNA, "wrong")), (no, no));
    assert_eq!(Scram::default().run(&mut client), ok);
    assert_eq!((wrong().run(&mut client), client.bind(ANNA, "wrong")), (no, no));
    assert_eq!(plain(&mut client, "", "anna", "wrong"), no);
    assert_eq!(Scram::default().run(&mut client), no);
    assert_eq!(plain(&mut client, "", "anna", "other"), no);
    assert_eq!(client.bind(ANNA, "other"), no);
    // A certificate is no guess.
    let mut certified = certified(&served, ANNA);
    assert_eq!(sasl(&mut certified, "EXTERNAL", Some(b"")).code(), ok);
}
