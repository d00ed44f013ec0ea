//! Settings of a directory, changed while it runs, by the command line and by OpenLDAP's tools.

mod common;
mod demo;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Run, check_all as check, have, roster};
use demo::Demo;

const ADMINISTRATOR: &str = "cn=Directory Manager";
const PASSWORD: &str = "a long password of this test";

fn config(url: &str, password: &str, arguments: &[&str]) -> Run {
    roster(&[&["config"], arguments, &["-H", url, "-D", ADMINISTRATOR, "-w", password]].concat())
}

/// How a search of a stranger for all people ends, and how many entries it gets.
fn strangers_search(url: &str) -> (i32, usize) {
    let output = Command::new("ldapsearch")
        .args(["-x", "-LLL", "-H", url, "-b", "dc=example,dc=com", "(objectClass=*)", "1.1"])
        .output()
        .expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let entries = text.lines().filter(|line| line.starts_with("dn:")).count();
    (output.status.code().expect("no signal ended it"), entries)
}

fn ldapmodify(url: &str, password: &str, ldif: &str) -> (i32, String) {
    let mut child = Command::new("ldapmodify")
        .args(["-x", "-H", url, "-D", ADMINISTRATOR, "-w", password])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is installed");
    child.stdin.take().expect("it is piped").write_all(ldif.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("no signal ended it"), errors)
}

#[track_caller]
#[allow(clippy::disallowed_methods, reason = "another process has to come so far")]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_limit_holds_as_soon_as_it_is_set() {
    if !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start(30);
    let (url, password) = (demo.url("ldap"), demo.admin_password.as_str());
    let config = |arguments: &[&str]| config(&url, password, arguments);
    let (code, all) = strangers_search(&url);
    assert_eq!(code, 0);
    assert!(all > 30, "{all}");
    let set = ["set", "limits.size_limit_entries=5", "limits.time_limit_s=9"];
    check(&config(&set), 0, &["limits.size_limit_entries: 5\n", "limits.time_limit_s: 9\n"]);
    assert_eq!(strangers_search(&url), (4, 5));
    check(&config(&["get", "limits.size_limit_entries"]), 0, &["5\n"]);
    check(&config(&set), 0, &["limits.size_limit_entries: 5\n"]);
    let run = config(&["list", "--changed"]);
    let of_directory = run.output.lines().filter(|line| line.contains("directory")).count();
    assert_eq!(of_directory, 2, "{run:?}");
    // The demo logs no more than warnings.
    let is_own = |line: &str| line.starts_with("log.level") && line.contains("server");
    assert!(run.output.lines().any(is_own), "{run:?}");
    let run = config(&["list", "size_limit", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&run.output).expect("it is JSON");
    assert_eq!(shown[0]["values"][0], "5", "{shown}");
    // All or none.
    let bad = ["set", "limits.size_limit_entries=7", "limits.outstanding_max=0"];
    check(&config(&bad), 1, &["limits.outstanding_max must be a number of"]);
    assert_eq!(strangers_search(&url), (4, 5));
    check(&config(&["reset", "limits.size_limit_entries"]), 0, &["as by default"]);
    assert_eq!(strangers_search(&url), (0, all));
    check(&config(&["list", "--changed"]), 0, &["limits.time_limit_s"]);
    // What was set, and by whom.
    let history = ["history", "cn=Settings,cn=config", "-H", &url, "-D", ADMINISTRATOR, "-w"];
    let run = roster(&[&history[..], &[password]].concat());
    check(&run, 0, &["limits.size_limit_entries=5"]);
}

#[test]
fn sections_are_entries_with_typed_attributes() {
    if !have("ldapmodify", &["-VV"]) {
        return;
    }
    let demo = Demo::start(10);
    let (url, password) = (demo.url("ldap"), demo.admin_password.as_str());
    let modify = |section: &str, lines: &str| {
        let ldif = format!("dn: cn={section},cn=Settings,cn=config\nchangetype: modify\n{lines}\n");
        ldapmodify(&url, password, &ldif)
    };
    let get = |name: &str| config(&url, password, &["get", name]).output;
    let limits = "replace: roster-limits-size-limit-entries\n\
                  roster-limits-size-limit-entries: 007\n-\n\
                  replace: roster-limits-time-limit-s\nroster-limits-time-limit-s: 8\n";
    assert_eq!(modify("limits", limits).0, 0);
    assert_eq!((get("limits.size_limit_entries"), get("limits.time_limit_s")).0, "7\n");
    assert_eq!(get("limits.time_limit_s"), "8\n");
    let switch = "replace: roster-password-check-own\nroster-password-check-own: FALSE\n";
    assert_eq!(modify("password", switch).0, 0);
    assert_eq!(get("password.check_own"), "false\n");
    let names = "add: roster-authentication-name-attributes\n\
                 roster-authentication-name-attributes: mail\n\
                 roster-authentication-name-attributes: uid\n";
    assert_eq!(modify("authentication", names).0, 0);
    assert_eq!(get("authentication.name_attributes"), "mail\nuid\n");
    // A second value of what has one, a value that is none, an attribute of elsewhere.
    let second = "add: roster-limits-time-limit-s\nroster-limits-time-limit-s: 9\n";
    let (code, errors) = modify("limits", second);
    assert_eq!(code, 20, "{errors}");
    let many = "replace: roster-limits-time-limit-s\nroster-limits-time-limit-s: many\n";
    let (code, errors) = modify("limits", many);
    assert!(code == 21 && errors.contains("limits.time_limit_s must be a number"), "{errors}");
    let (code, errors) = modify("password", limits);
    assert!(code == 53 && errors.contains("no setting of the section password"), "{errors}");
    assert_eq!(modify("limits", "delete: roster-limits-time-limit-s\n").0, 0);
    assert_eq!(get("limits.time_limit_s"), "60\n");
    let unknown = "dn: cn=Settings,cn=config\nchangetype: modify\nadd: roster-setting\n\
                   roster-setting: limits.nothing=1\n\n";
    let (code, errors) = ldapmodify(&url, password, unknown);
    assert!(code == 21 && errors.contains("'limits.nothing' is no setting"), "{errors}");
    // Of one value there is one spelling.
    for line in ["limits.time_limit_s=+7", "limits.time_limit_s= 7", "password.check_own=on"] {
        let ldif = format!(
            "dn: cn=Settings,cn=config\nchangetype: modify\nadd: roster-setting\n\
             roster-setting: {line}\n\n"
        );
        let (code, errors) = ldapmodify(&url, password, &ldif);
        assert!(code == 21 || code == 20, "{line}: {errors}");
    }
    // Who may change settings, and not who somebody is.
    let anna = "uid=user.1,ou=people,dc=example,dc=com";
    let may = |privilege: &str| {
        format!(
            "dn: {anna}\nchangetype: modify\nadd: ds-privilege-name\n\
             ds-privilege-name: {privilege}\n\n"
        )
    };
    let ldif = format!(
        "dn: {anna}\nchangetype: modify\nreplace: userPassword\nuserPassword: {PASSWORD}\n\n{}{}",
        may("config-write"),
        may("config-read")
    );
    assert_eq!(ldapmodify(&url, password, &ldif), (0, String::new()));
    let set = ["config", "set", "limits.time_limit_s=9", "-H", &url, "-D", anna, "-w", PASSWORD];
    check(&roster(&set), 1, &["insufficientAccessRights"]);
    assert_eq!(ldapmodify(&url, password, &may("modify-acl")).0, 0);
    check(&roster(&set), 0, &["limits.time_limit_s: 9"]);
}

#[test]
fn passwords_are_stored_as_was_set_just_now() {
    if !have("ldapmodify", &["-VV"]) {
        return;
    }
    let demo = Demo::start(10);
    let (url, password) = (demo.url("ldap"), demo.admin_password.as_str());
    let anna = "uid=user.1,ou=people,dc=example,dc=com";
    let stored = |scheme: &str| {
        check(&config(&url, password, &["set", &format!("password.scheme={scheme}")]), 0, &[]);
        let ldif = format!(
            "dn: {anna}\nchangetype: modify\nreplace: userPassword\nuserPassword: {PASSWORD}\n\n"
        );
        assert_eq!(ldapmodify(&url, password, &ldif), (0, String::new()));
        let output = Command::new("ldapsearch")
            .args(["-x", "-LLL", "-o", "ldif-wrap=no", "-H", &url, "-D", ADMINISTRATOR])
            .args(["-w", password, "-b", anna, "-s", "base", "userPassword"])
            .output()
            .expect("it is installed");
        String::from_utf8(output.stdout).expect("it is LDIF")
    };
    // "{SSHA512}" and "{PBKDF2", in base64.
    assert!(stored("SSHA512").contains("e1NTSEE1MTJ9"), "{}", stored("SSHA512"));
    let pbkdf2 = stored("PBKDF2-SHA256");
    assert!(pbkdf2.contains("e1BCS0RGMi"), "{pbkdf2}");
    // Names that do not exist are still refused as others are.
    for name in [anna, "uid=nobody,ou=people,dc=example,dc=com"] {
        let output = Command::new("ldapwhoami")
            .args(["-x", "-H", &url, "-D", name, "-w", "wrong"])
            .output()
            .expect("it is installed");
        assert_eq!(output.status.code(), Some(49));
    }
}

/// `roster serve` with its log in a file.
struct Server {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let data = folder.path().join("data").display().to_string();
        let secret = folder.path().join("password");
        fs::write(&secret, PASSWORD).expect("it can be written");
        let secret = secret.display().to_string();
        let init = ["init", "--data", &data, "--suffix", "dc=example,dc=com", "--public"];
        check(&roster(&[&init[..], &["--admin-password-file", &secret]].concat()), 0, &[]);
        let mut server = Self { folder, child: None };
        server.begin();
        server
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn begin(&mut self) {
        self.begin_with(&[]);
    }

    fn begin_with(&mut self, arguments: &[&str]) {
        self.begin_only_with(
            &[&["--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"], arguments].concat(),
        );
    }

    fn begin_only_with(&mut self, arguments: &[&str]) {
        let _ = fs::remove_file(self.path("ready"));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log"));
        let child = Command::new(env!("CARGO_BIN_EXE_roster"))
            .args(["serve", "--data"])
            .arg(self.path("data"))
            .arg("--ready-file")
            .arg(self.path("ready"))
            .args(arguments)
            .stderr(log.expect("it can be written"))
            .spawn()
            .expect("the program is built");
        self.child = Some(child);
        until("the server", || Path::new(&self.path("ready")).exists());
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.signal(rustix::process::Signal::TERM, &child);
            child.wait().expect("it ends");
        }
    }

    fn signal(&self, signal: rustix::process::Signal, child: &Child) {
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal)
            .expect("it runs");
    }

    fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP, self.child.as_ref().expect("it runs"));
    }

    fn url(&self) -> String {
        let ready = fs::read_to_string(self.path("ready")).expect("it is there");
        let address = ready.lines().find_map(|line| line.strip_prefix("ldap "));
        format!("ldap://{}", address.expect("it listens"))
    }

    fn config(&self, arguments: &[&str]) -> Run {
        config(&self.url(), PASSWORD, arguments)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("there is one")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn the_file_of_a_server_comes_first_and_is_read_again() {
    let mut server = Server::start();
    check(&server.config(&["set", "limits.size_limit_entries=50"]), 0, &["entries: 50"]);
    // It survives a restart.
    server.end();
    server.begin();
    check(&server.config(&["get", "limits.size_limit_entries"]), 0, &["50\n"]);
    let toml = server.path("data").join("roster.toml");
    let write = |text: &str| fs::write(&toml, text).expect("it can be written");
    write("[limits]\nsize_limit_entries = 3\n[server]\nworkers = 3\n");
    server.hang_up();
    until("the file is read", || server.log().contains("server.workers"));
    let log = server.log();
    assert!(log.contains("take effect with the next start settings=\"server.workers\""), "{log}");
    assert!(log.contains("settings have changed settings=\"limits.size_limit_entries\""), "{log}");
    let run = server.config(&["list", "size_limit"]);
    check(&run, 0, &[" 3  ", "server", "of this server alone"]);
    let run = server.config(&["set", "limits.size_limit_entries=60"]);
    check(&run, 0, &["is set on this server itself"]);
    // A mistake leaves everything as it was, and is told with its place.
    write("[limits]\nsize_limit_entries = 4\ntime_limit_s = \"long\"\n");
    server.hang_up();
    until("it is told", || server.log().contains("roster.toml:3"));
    assert!(server.log().contains("those of before stay in force"), "{}", server.log());
    write("");
    server.hang_up();
    until("nothing is overridden", || {
        !server.config(&["list", "size_limit"]).output.contains("server")
    });
}

/// An address that nobody listens on.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is one");
    listener.local_addr().expect("it is bound").to_string()
}

/// The subject of the certificate that is shown there; none where nobody speaks TLS.
fn subject(address: &str) -> Option<String> {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", address])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("subject=")).map(str::to_owned)
}

#[test]
fn listeners_and_tls_follow_the_file() {
    if !have("ldapsearch", &["-VV"]) || !have("openssl", &["version"]) {
        return;
    }
    let mut server = Server::start();
    server.end();
    let [plain, other, metrics] = [(); 3].map(|()| free_address());
    let toml = server.path("data").join("roster.toml");
    let write = |text: &str| fs::write(&toml, text).expect("it can be written");
    write(&format!("[listen]\nldap = [\"{plain}\"]\nldaps = []\n"));
    server.begin_only_with(&[]);
    let found = |url: &str| strangers_search(url).0 == 0;
    assert!(found(&format!("ldap://{plain}")) && TcpStream::connect(&other).is_err());
    let mut open = TcpStream::connect(&plain).expect("it is listened on");

    // The port moves to LDAPS, with another certificate; another one is opened; metrics, too.
    let [cert, key] = ["other.pem", "other.key"].map(|name| server.path(name));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/CN=other.example.com", "-days", "30", "-out"])
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("it is installed").success());
    let listen = format!("[listen]\nldap = [\"{other}\"]\nldaps = [\"{plain}\"]\n");
    let admin = format!("[admin]\nlisten = [\"{metrics}\"]\n");
    let tls =
        |key: &Path| format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n", cert.display(), key.display());
    write(&[&listen, &admin, &tls(&key)].map(String::as_str).concat());
    server.hang_up();
    until("the other address", || found(&format!("ldap://{other}")));
    until("the other certificate", || {
        subject(&plain).is_some_and(|subject| subject.contains("other.example.com"))
    });
    let log = server.log();
    assert!(log.contains(&format!("serving ldap://{other}, ldaps://{plain}, http://{metrics}")));
    assert!(!log.contains("next start"), "{log}");
    assert!(TcpStream::connect(&metrics).is_ok());
    // Whoever was connected stays so: an anonymous bind, and its answer.
    open.write_all(b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00").expect("it reads");
    let mut answer = [0; 14];
    open.read_exact(&mut answer).expect("it answers");
    assert_eq!(answer, *b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00");

    // The command says what came of it.
    let url = format!("ldap://{other}");
    let reload = || roster(&["reload", "-H", &url, "-D", ADMINISTRATOR, "-w", PASSWORD]);
    check(&reload(), 0, &["no setting has changed"]);
    write(
        &[&listen, &admin, &tls(&key), "[server]\nworkers = 3\n[access_log]\nkeep_files = 7\n"]
            .concat(),
    );
    check(&reload(), 0, &["access_log.keep_files: in force", "server.workers: takes effect"]);
    check(&reload(), 0, &["server.workers: takes effect"]);
    write("[listen]\nldap = [\"here\"]\n");
    check(&reload(), 1, &["roster.toml:2", "the settings of before stay in force"]);
    check(&roster(&["reload", "-H", &url]), 1, &["needs the privilege config-write"]);

    // What cannot be had leaves all as it was.
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is one");
    let address = taken.local_addr().expect("it is bound");
    write(&format!("[listen]\nldap = [\"{address}\"]\n[limits]\nsize_limit_entries = 3\n"));
    server.hang_up();
    until("it is told", || server.log().contains("is in use by another process"));
    write(&[&listen, &tls(Path::new("/dev/zero"))].map(String::as_str).concat());
    server.hang_up();
    until("it is told", || server.log().contains("it is no file"));
    write(&[&listen, &tls(&server.path("none.key"))].map(String::as_str).concat());
    server.hang_up();
    until("it is told", || server.log().contains("none.key"));
    assert!(found(&format!("ldap://{other}")) && TcpStream::connect(&metrics).is_ok());
    assert!(subject(&plain).is_some_and(|subject| subject.contains("other.example.com")));
    write(&listen);
    server.hang_up();
    until("the old certificate, and no metrics", || {
        TcpStream::connect(&metrics).is_err()
            && subject(&plain).is_some_and(|subject| !subject.contains("other.example.com"))
    });
}

#[test]
fn the_log_follows_its_level() {
    let server = Server::start();
    let toml = server.path("data").join("roster.toml");
    let tell = |entries: u32| {
        let text = format!("[limits]\nsize_limit_entries = {entries}\n");
        fs::write(&toml, text).expect("it can be written");
        server.hang_up();
        let value = format!("{entries}\n");
        until("it is read", || {
            server.config(&["get", "limits.size_limit_entries"]).output == value
        });
    };
    let lines = || server.log().matches("settings have changed").count();
    tell(3);
    until("it is told", || lines() == 1);
    check(&server.config(&["set", "log.level=error"]), 0, &["log.level: error"]);
    tell(4);
    check(&server.config(&["reset", "log.level"]), 0, &["as by default"]);
    tell(5);
    until("it is told again", || lines() == 2);
    check(&server.config(&["set", "log.level=loud"]), 1, &["log.level must be one of error"]);
}

#[test]
fn what_cannot_hold_is_left_out_and_keeps_nothing_else() {
    if !have("ldapmodify", &["-VV"]) {
        return;
    }
    let mut server = Server::start();
    let kind = "( 1.3.6.1.4.1.55555.1 NAME 'testLogin' EQUALITY caseIgnoreMatch \
                SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    let schema = |what: &str| {
        let ldif = format!(
            "dn: cn=schema\nchangetype: modify\n{what}: attributeTypes\nattributeTypes: {kind}\n\n"
        );
        assert_eq!(ldapmodify(&server.url(), PASSWORD, &ldif), (0, String::new()));
    };
    schema("add");
    check(&server.config(&["set", "authentication.name_attributes=testLogin,uid"]), 0, &[]);
    schema("delete");
    check(&server.config(&["set", "limits.size_limit_entries=5"]), 1, &["testLogin"]);
    server.end();
    server.begin();
    let run = server.config(&["list", "name_attributes"]);
    check(&run, 0, &["left out"]);
    assert!(server.log().contains("cannot hold here"), "{}", server.log());
    check(&server.config(&["reset", "authentication.name_attributes"]), 0, &["as by default"]);
    check(&server.config(&["set", "limits.size_limit_entries=5"]), 0, &["entries: 5"]);
    check(&server.config(&["list", "--changed"]), 0, &["limits.size_limit_entries"]);
    assert!(!server.config(&["list"]).output.contains("left out"));
}

#[test]
fn a_pipe_is_read_once() {
    let mut server = Server::start();
    server.end();
    let pipe = server.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("it is installed");
    assert!(made.success());
    let text = "[limits]\nsize_limit_entries = 6\n";
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::write(pipe, text).expect("somebody reads"))
    };
    server.begin_with(&["--config", &pipe.display().to_string()]);
    writer.join().expect("it is read");
    check(&server.config(&["get", "limits.size_limit_entries"]), 0, &["6\n"]);
    check(&server.config(&["set", "limits.time_limit_s=7"]), 0, &["time_limit_s: 7"]);
    server.hang_up();
    until("it is told", || server.log().contains("no file that can be read again"));
    check(&server.config(&["get", "limits.size_limit_entries"]), 0, &["6\n"]);
}

#[test]
fn settings_are_described_without_a_server() {
    let run = roster(&["config", "describe", "size_limit"]);
    check(&run, 0, &["limits.size_limit_entries", "Default: 1000", "roster-limits-size-limit"]);
    let run = roster(&["config", "describe", "--json"]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&run.output).expect("it is JSON");
    assert!(all.len() > 100, "{}", all.len());
    let run = roster(&["config", "set", "limits.size_limit=5", "-w", "x"]);
    check(
        &run,
        2,
        &["there is no setting 'limits.size_limit'", "is limits.size_limit_entries meant?"],
    );
    let run = roster(&["config", "set", "server.workers=5", "-w", "x"]);
    check(&run, 2, &["server.workers is a setting of each server", "ROSTER_SERVER__WORKERS"]);
}
