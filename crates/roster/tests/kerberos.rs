//! Somebody with a Kerberos ticket signs in by SASL GSSAPI: a realm of MIT Kerberos on the loopback
//! interface, OpenLDAP's tools with Cyrus SASL, and a roster that was built with `gssapi`.
//!
//! `cargo xtask kerberos` installs what is missing, and builds and runs this.
#![cfg(feature = "gssapi")]
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod demo;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use demo::Demo;
use testing::ports::free_addresses;

/// A realm, its key distribution centre, and the keytab of the services on `localhost`.
struct Realm {
    place: tempfile::TempDir,
    centre: Child,
}

impl Realm {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let [port] = free_addresses().unwrap().map(|address| address.port());
        let path = |name: &str| place.path().join(name).display().to_string();
        let client = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n \
             dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n \
             udp_preference_limit = 1\n\
             [realms]\n {REALM} = {{\n kdc = 127.0.0.1:{port}\n }}\n"
        );
        fs::write(path("krb5.conf"), client).unwrap();
        let centre = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
             [realms]\n {REALM} = {{\n database_name = {}\n key_stash_file = {}\n }}\n\
             [logging]\n kdc = FILE:{}\n",
            path("principal"),
            path("stash"),
            path("kdc.log")
        );
        fs::write(path("kdc.conf"), centre).unwrap();
        let within = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).envs(variables(place.path()));
            command.stdout(Stdio::null());
            command
        };
        let done = |program: &str, arguments: &[&str]| {
            let status = within(program, arguments).status().unwrap();
            assert!(status.success(), "{program} {arguments:?}");
        };
        done("/usr/sbin/kdb5_util", &["create", "-s", "-r", REALM, "-P", "master"]);
        let admin = |query: &str| done("/usr/sbin/kadmin.local", &["-r", REALM, "-q", query]);
        for name in ["marie", "paul", "ghost"] {
            admin(&format!("addprinc -pw pencil {name}"));
        }
        for service in ["ldap/localhost", "host/localhost"] {
            admin(&format!("addprinc -randkey {service}"));
            admin(&format!("ktadd -k {} {service}", path("keytab")));
        }
        let centre = within("/usr/sbin/krb5kdc", &["-n", "-r", REALM, "-P", &path("pid")]);
        let centre = { centre }.spawn().unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        Self { place, centre }
    }

    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(program)
            .args(arguments)
            .envs(variables(self.place.path()))
            .env("LDAPTLS_REQCERT", "never")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that needs no input may be gone.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn sign_in(&self, principal: &str) {
        check(&self.run("/usr/bin/kinit", &[principal], "pencil\n"), 0, "");
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        let _ = self.centre.kill();
        let _ = self.centre.wait();
    }
}

/// Where everybody in this realm finds what they need.
fn variables(place: &Path) -> [(&'static str, String); 4] {
    let path = |name: &str| place.join(name).display().to_string();
    [
        ("KRB5_CONFIG", path("krb5.conf")),
        ("KRB5_KDC_PROFILE", path("kdc.conf")),
        ("KRB5CCNAME", format!("FILE:{}", path("tickets"))),
        ("KRB5RCACHENAME", format!("file2:{}", path("replays"))),
    ]
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

const REALM: &str = "EXAMPLE.TEST";

/// One whose name is that of a principal, and one whose name is a whole principal.
const PEOPLE: &str = "dn: uid=marie,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: marie
cn: Marie Curie
sn: Curie

dn: cn=paul,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: paul@EXAMPLE.TEST
cn: paul
sn: Langevin
";

#[test]
fn a_ticket_lets_the_entry_of_its_principal_in() {
    let realm = Realm::start();
    let place = realm.place.path();
    let keytab = place.join("keytab").display().to_string();
    let mut settings = vec![
        ("ROSTER_AUTHENTICATION__KEYTAB", &*keytab),
        ("ROSTER_AUTHENTICATION__MECHANISMS", "GSSAPI,PLAIN"),
    ];
    let variables = variables(place);
    settings.extend(variables.iter().map(|(name, value)| (*name, &**value)));
    let demo = Demo::start_set(20, &[], &settings);
    let login = ["-x", "-D", &demo.admin_dn, "-w", &demo.admin_password, "-H", &demo.url("ldap")];
    check(&realm.run("ldapadd", &login, PEOPLE), 0, "adding new entry");
    // Tickets are for a host's name.
    let url = |scheme: &str| demo.url(scheme).replace("127.0.0.1", "localhost");
    let (plain, secure) = (url("ldap"), url("ldaps"));
    let whoami = |url: &str, more: &[&str]| {
        let who = ["-N", "-Q", "-Y", "GSSAPI", "-H", url];
        realm.run("ldapwhoami", &[&who[..], more].concat(), "")
    };
    let offered = ["-x", "-H", &plain, "-b", "", "-s", "base", "supportedSASLMechanisms"];
    check(&realm.run("ldapsearch", &offered, ""), 0, "supportedSASLMechanisms: GSSAPI");

    assert_ne!(whoami(&plain, &[]).status.code(), Some(0), "without a ticket");
    realm.sign_in("marie");
    let marie = "dn:uid=marie,ou=people,dc=example,dc=com";
    check(&whoami(&plain, &[]), 0, marie);
    check(&whoami(&plain, &["-ZZ"]), 0, marie);
    check(&whoami(&secure, &[]), 0, marie);
    // Themselves, by any name; nobody else.
    check(&whoami(&plain, &["-X", "u:marie"]), 0, marie);
    check(&whoami(&plain, &["-X", "u:user.1"]), 123, "");
    // There is no security layer to be had.
    assert_ne!(whoami(&plain, &["-O", "minssf=56"]).status.code(), Some(0));

    realm.sign_in("paul");
    check(&whoami(&plain, &[]), 0, "dn:cn=paul,ou=people,dc=example,dc=com");
    realm.sign_in("ghost");
    check(&whoami(&plain, &[]), 49, "Invalid credentials");

    // New keys take effect, and with them old tickets have none.
    realm.sign_in("marie");
    check(&whoami(&plain, &[]), 0, marie);
    fs::remove_file(&keytab).unwrap();
    let query = format!("ktadd -k {keytab} ldap/localhost");
    let admin = ["-r", REALM, "-q", &query];
    check(&realm.run("/usr/sbin/kadmin.local", &admin, ""), 0, "");
    check(&whoami(&plain, &[]), 49, "Invalid credentials");
    realm.sign_in("marie");
    check(&whoami(&plain, &[]), 0, marie);
}
