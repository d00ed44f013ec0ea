//! Real clients authenticate against a real `roster demo`: OpenLDAP's tools with Cyrus SASL, and
//! python-ldap.
//!
//! They come from Debian's `ldap-utils`, `libsasl2-modules`, `python3-ldap` and `openssl`;
//! `cargo xtask test` installs them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::have;
use demo::Demo;

/// Cyrus SASL knows the mechanism.
fn have_scram() -> bool {
    have("sh", &["-c", "ls /usr/lib/*/sasl2/libscram.so"])
}

fn run(program: &str, arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Output {
    use std::io::Write as _;
    let mut child = Command::new(program)
        .args(arguments)
        // The certificate is self-signed. (With LDAPNOINIT the tools would not read this.)
        .env("LDAPTLS_REQCERT", "never")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn check(output: &Output, code: i32, want: &str) {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(want), "expected '{want}' in: {text}");
}

/// Password `pencil`, with the keys of RFC 7677 §3 for it.
const MARIE: &str = "dn: uid=marie,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
objectClass: authPasswordObject
uid: marie
cn: Marie Curie
sn: Curie
userPassword: pencil
authPassword: SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT\
 4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=
";

const WANT: &str = "dn:uid=marie,ou=people,dc=example,dc=com";

fn with_marie(settings: &[(&str, &str)]) -> Demo {
    let demo = Demo::start_set(20, &[], settings);
    let login = ["-x", "-D", &demo.admin_dn, "-w", &demo.admin_password, "-H", &demo.url("ldap")];
    check(&run("ldapadd", &login, &[], &MARIE.replace("\\\n", "\n")), 0, "adding new entry");
    demo
}

#[test]
fn the_openldap_tools_sign_in_by_name_and_by_sasl() {
    if !have("ldapwhoami", &["-VV"]) || !have_scram() {
        return;
    }
    let demo = with_marie(&[("ROSTER_AUTHENTICATION__PLAIN_CONFIDENTIALITY", "remote")]);
    let (plain, secure) = (demo.url("ldap"), demo.url("ldaps"));
    let whoami = |arguments: &[&str]| run("ldapwhoami", arguments, &[], "");
    check(&whoami(&["-x", "-H", &plain, "-D", "marie", "-w", "pencil"]), 0, WANT);
    check(&whoami(&["-x", "-H", &plain, "-D", "marie", "-w", "x"]), 49, "Invalid credentials");
    for mechanism in ["SCRAM-SHA-256", "PLAIN"] {
        for (url, more) in [(&plain, &[][..]), (&plain, &["-ZZ"]), (&secure, &[])] {
            let sasl = |password: &str| {
                // By default the tools take PLAIN for too weak, even inside TLS.
                let who = ["-Q", "-O", "none", "-Y", mechanism, "-U", "marie", "-w", password];
                whoami(&[&who[..], &["-H", url], more].concat())
            };
            check(&sasl("pencil"), 0, WANT);
            check(&sasl("pencils"), 49, "Invalid credentials");
        }
    }
    // By its own choice, the tool takes the strongest that is offered: one that somebody has keys
    // for.
    let chosen = ["-U", "marie", "-w", "pencil", "-H", &plain];
    check(&whoami(&chosen), 0, "SASL username: marie");
    let authzid =
        ["-Q", "-O", "none", "-Y", "PLAIN", "-U", "marie", "-w", "pencil", "-H", &plain, "-X"];
    check(&whoami(&[&authzid[..], &["u:marie"]].concat()), 0, WANT);
    check(&whoami(&[&authzid[..], &["u:user.1"]].concat()), 123, "");
}

/// Without `-x` the tool asked for a password and was refused, whatever was typed.
#[test]
fn a_fresh_directory_offers_no_mechanism_that_must_fail() {
    if !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start_set(5, &[], &[]);
    let search = ["-w", "any", "-H", &demo.url("ldap"), "-b", "", "-s", "base"];
    // libldap says so where no mechanism is listed, as of any such server.
    check(&run("ldapsearch", &search, &[], ""), 16, "No such attribute");
}

#[test]
fn a_password_is_refused_where_others_may_listen() {
    if !have("ldapwhoami", &["-VV"]) {
        return;
    }
    let demo = with_marie(&[]);
    drop(demo);
    let strict = Demo::start_set(5, &[], &[("ROSTER_AUTHENTICATION__CONFIDENTIALITY", "always")]);
    let login = ["-x", "-D", &strict.admin_dn, "-w", &strict.admin_password, "-H"];
    let over =
        |url: &str, more: &[&str]| run("ldapwhoami", &[&login[..], &[url], more].concat(), &[], "");
    check(&over(&strict.url("ldap"), &[]), 13, "use StartTLS or ldaps://");
    check(&over(&strict.url("ldap"), &["-ZZ"]), 0, "dn:cn=Directory Manager");
    check(&over(&strict.url("ldaps"), &[]), 0, "dn:cn=Directory Manager");
}

/// An authority and a certificate of it for Marie, in `place`.
const CERTIFICATES: &str = "set -e
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=authority -days 2
openssl req -newkey rsa:2048 -nodes -keyout marie.key -out marie.csr \
  -subj /DC=com/DC=example/OU=people/UID=marie
echo basicConstraints=CA:FALSE > extensions
openssl x509 -req -extfile extensions -in marie.csr \
  -CA ca.pem -CAkey ca.key -CAcreateserial -out marie.pem -days 2";

#[test]
fn a_client_certificate_signs_in() {
    if !have("ldapwhoami", &["-VV"]) || !have("openssl", &["version"]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let made = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(place.path()).output();
    check(&made.unwrap(), 0, "");
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let ca = path("ca.pem");
    let demo = with_marie(&[
        ("ROSTER_TLS__CLIENT_CERTIFICATES", "optional"),
        ("ROSTER_TLS__CLIENT_CA", &ca),
    ]);
    let (cert, key) = (path("marie.pem"), path("marie.key"));
    let shown = [("LDAPTLS_CERT", &*cert), ("LDAPTLS_KEY", &*key)];
    let (plain, secure) = (demo.url("ldap"), demo.url("ldaps"));
    let external = |url: &str, more: &[&str], variables: &[(&str, &str)]| {
        run("ldapwhoami", &[&["-Q", "-Y", "EXTERNAL", "-H", url], more].concat(), variables, "")
    };
    check(&external(&secure, &[], &shown), 0, WANT);
    check(&external(&plain, &["-ZZ"], &shown), 0, WANT);
    // Without one the mechanism is not offered, and the tool does not even try.
    check(&external(&secure, &[], &[]), 250, "no mechanism available");
}

#[test]
fn python_ldap_signs_in() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/authentication.py");
    if !have("/usr/bin/python3", &["-c", "import ldap.sasl"]) || !have_scram() {
        return;
    }
    let demo = with_marie(&[("ROSTER_AUTHENTICATION__PLAIN_CONFIDENTIALITY", "remote")]);
    let script = script.to_str().unwrap();
    let arguments = [script, &demo.url("ldap"), &demo.url("ldaps")];
    check(&run("/usr/bin/python3", &arguments, &[], ""), 0, "all is well");
}
