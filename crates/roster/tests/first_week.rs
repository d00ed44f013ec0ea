//! What an operator asks in the first week, of real servers: who failed to sign in, a new
//! password for the administrator, how it is, what is wrong.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use client::{ConnectOptions, Connection};
use common::{check_all as check, roster};
use machine::{Machine, PERSON, alone, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// A message whose parts are shorter than 128 octets.
fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128, "{content:?}");
    [&[tag, length][..], &content].concat()
}

/// A SASL bind (RFC 4511 §4.2).
fn sasl_bind(id: u8, mechanism: &str, credentials: &str) -> Vec<u8> {
    let sasl = [tagged(4, &[mechanism.as_bytes()]), tagged(4, &[credentials.as_bytes()])];
    let sasl = tagged(0xa3, &[&sasl[0], &sasl[1]]);
    let bind = tagged(0x60, &[&[2, 1, 3], &[4, 0], &sasl]);
    tagged(0x30, &[&[2, 1, id], &bind])
}

/// Somebody who says to be this user, and does not know the password.
fn guess_by_scram(address: &str, user: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut answer = [0; 512];
    stream.write_all(&sasl_bind(1, "SCRAM-SHA-256", &format!("n,,n={user},r=abc"))).unwrap();
    let length = stream.read(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer[..length]).into_owned();
    let nonce = text.split("r=").nth(1).unwrap().split(',').next().unwrap();
    let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let last = format!("c=biws,r={nonce},p={proof}");
    stream.write_all(&sasl_bind(2, "SCRAM-SHA-256", &last)).unwrap();
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].windows(3).any(|part| part == [0x0a, 1, 49]), "{text}");
}

/// The same with PLAIN, where nobody can listen: the server computes the slow hash elsewhere, and
/// answers later.
fn guess_by_plain(socket: &Path, user: &str) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut answer = [0; 512];
    stream.write_all(&sasl_bind(1, "PLAIN", &format!("\0{user}\0wrong"))).unwrap();
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].windows(3).any(|part| part == [0x0a, 1, 49]), "{answer:?}");
}

fn guess(url: &str, dn: &str) {
    let mut connection = Connection::open(ConnectOptions::new(url)).unwrap();
    connection.bind(dn, b"not the password").unwrap_err();
}

fn failures(arguments: &[&str]) -> Value {
    let run = roster(&[&["log", "failures", "--json"], arguments].concat());
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.output).unwrap()
}

/// Those that were counted: how often, who, why.
fn counted(report: &Value) -> Vec<(u64, String, String)> {
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let all = report["failures"].as_array().unwrap().iter();
    let one = |one: &Value| (one["count"].as_u64().unwrap(), text(one, "name"), text(one, "cause"));
    let mut all: Vec<_> = all.map(one).collect();
    all.sort();
    all
}

#[test]
fn who_failed_to_sign_in_is_found_in_all_files_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut server: Machine = alone(folder.path());
    server.serve();
    let url = server.url();
    guess(&url, PERSON);
    guess(&url, "uid=nobody,dc=example,dc=com");
    guess(&url, "ou=people,dc=example,dc=com");
    guess_by_scram(&server.ldap, "marie");
    guess_by_plain(&server.data.join("ldapi"), "ben");
    guess(&url, "cn=no\u{1b}[2Jbody");
    let data = server.data().to_owned();
    wait_for("lines of six binds", || (failures(&["--data", &data])["failed"] == 6).then_some(()));
    // Put aside, and compressed, as the server itself or logrotate does.
    let logs = server.data.join("logs");
    let rotated = logs.join("access-20260102030405Z.log");
    fs::rename(logs.join("access.log"), &rotated).unwrap();
    server.signal(Signal::HUP);
    wait_for("another file", || logs.join("access.log").exists().then_some(()));
    let packed = fs::File::create(rotated.with_extension("log.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all(&fs::read(&rotated).unwrap()).unwrap();
    packed.finish().unwrap();
    fs::remove_file(&rotated).unwrap();
    guess(&url, PERSON);
    let report = wait_for("a line in the new file", || {
        let report = failures(&["--data", &data]);
        (report["failed"] == 7).then_some(report)
    });
    let want = [
        (1, "ben", "wrong password"),
        (1, "cn=no\u{1b}[2Jbody", "no such entry"),
        (1, "marie", "no password to compare with"),
        (1, "ou=people,dc=example,dc=com", "no password to compare with"),
        (1, "uid=nobody,dc=example,dc=com", "no such entry"),
        (2, PERSON, "wrong password"),
    ];
    let want = want.map(|(count, name, cause)| (count, name.to_owned(), cause.to_owned()));
    assert_eq!(counted(&report), want);
    assert_eq!(report["failures"][0]["address"], "127.0.0.1");
    // Of what was put aside before, nothing is read.
    assert_eq!(failures(&["--data", &data, "--since", "1h"])["failed"], 1);
    let file = logs.join("access-20260102030405Z.log.gz");
    assert_eq!(failures(&[file.to_str().unwrap()])["failed"], 6);
    let run = roster(&["log", "failures", "--data", &data]);
    check(
        &run,
        0,
        &["wrong password", "127.0.0.1", "7 of 7 sign-ins failed", r"cn=no\u{1b}[2Jbody"],
    );
    assert!(!run.output.contains('\u{1b}'), "{run:?}");
    let run = roster(&["log", "failures", "--data", folder.path().to_str().unwrap()]);
    check(&run, 2, &["there is no access log at", "--data names the data directory"]);
    fs::write(&file, b"\x1f\x8b\x08 no gzip").unwrap();
    check(&roster(&["log", "failures", "--data", &data]), 2, &["cannot read", "Z.log.gz"]);
}

/// Whether the administrator comes in with this password.
fn lets_in(url: &str, password: &str) -> bool {
    let mut connection = Connection::open(ConnectOptions::new(url)).unwrap();
    connection.bind("cn=Directory Manager", password.as_bytes()).is_ok()
}

#[test]
fn the_administrator_gets_another_password_with_and_without_a_server() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    let data = server.data().to_owned();
    let set = |more: &[&str]| {
        roster(&[&["account", "set-administrator-password", "--data", &data], more].concat())
    };
    let run = set(&[]);
    check(&run, 0, &["administrator   cn=Directory Manager", "password        ", "session close"]);
    let made = run.output.lines().find_map(|line| line.strip_prefix("password        ")).unwrap();
    server.serve();
    let url = server.url();
    assert!(lets_in(&url, made) && !lets_in(&url, testing::crash::server::ADMIN_PASSWORD));
    // Another one while it is served: the old one stops without a restart.
    let file = folder.path().join("new");
    fs::write(&file, "correct horse battery staple\n").unwrap();
    let run = set(&["--new-password-file", file.to_str().unwrap()]);
    check(&run, 0, &["A running server takes it within two seconds"]);
    assert!(!run.output.contains("horse"), "{run:?}");
    wait_for("the new one", || lets_in(&url, "correct horse battery staple").then_some(()));
    assert!(!lets_in(&url, made));
    let stored = server.data.join("admin-password");
    assert_eq!(fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&stored).unwrap().contains("horse"));
    // What is no password leaves the one before in force.
    fs::write(&stored, "in the clear").unwrap();
    let log = server.data.with_extension("log");
    wait_for("a line that says so", || {
        let text = fs::read_to_string(&log).unwrap();
        text.contains("cannot be used; those of before are").then_some(())
    });
    assert!(lets_in(&url, "correct horse battery staple"));
    fs::write(&file, "\n").unwrap();
    let file = file.to_str().unwrap();
    check(&set(&["--new-password-file", file]), 2, &["contains no password"]);
    let other = folder.path().to_str().unwrap();
    let run = roster(&["account", "set-administrator-password", "--data", other]);
    check(&run, 2, &["is not a roster data directory"]);
}

/// Asks the server as its administrator, over LDAP.
fn with_password<'a>(server: &'a Machine, url: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    let login = ["-H", url, "-y", server.password.to_str().unwrap()];
    [words, &login].concat()
}

#[test]
fn the_status_is_one_screen_and_says_what_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    let data = server.data().to_owned();
    let run = roster(&["status", "--data", &data]);
    check(&run, 2, &["is not running", "version            not known", "disk free          "]);
    server.serve();
    let url = server.url();
    // Through the socket in the data directory.
    let run = roster(&["status", "--data", &data]);
    let want = [
        "it answers",
        "dc=example,dc=com",
        "none: the server is alone",
        " a second",
        "(in 36",
        "not looked at: name one with --backup",
        "none; 'roster doctor'",
    ];
    check(&run, 0, &want);
    assert!(!run.output.contains("not known"), "{run:?}");
    let backup = folder.path().join("backup");
    let backup = backup.to_str().unwrap();
    check(&roster(&["backup", "--data", &data, "--to", backup]), 0, &[]);
    let words = with_password(&server, &url, &["status", "--json", "--backup", backup]);
    let run = roster(&words);
    let json: Value = serde_json::from_str(&run.output).unwrap();
    assert!(json["backup"].as_str().unwrap().starts_with("complete until"), "{json:#}");
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    // Of a data directory that is named no other server tells, also where there is one.
    let folder_of_other = tempfile::tempdir().unwrap();
    let other = alone(folder_of_other.path());
    for variable in [None, Some(&url)] {
        let mut command = common::command(&["status", "--data", other.data()]);
        if let Some(url) = variable {
            command.env("LDAPURI", url);
        }
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("is not running") && !told.contains("it answers"), "{told}");
    }
    let mut command = common::command(&["status", "--data", other.data(), "-y"]);
    let output = command.arg(&other.password).env("LDAPURI", &url).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && told.contains("unset LDAPURI"), "{told}");
    let nowhere = folder.path().join("nowhere").display().to_string();
    let run = roster(&["status", "-H", &url, "--data", &nowhere]);
    check(&run, 0, &["it answers", "data directory     not looked at: '", "nowhere"]);
    // Whoever is nobody is told what that one may know.
    let run = roster(&["status", "-H", &url]);
    check(&run, 0, &["it answers", "version            not known", "only to its administrator"]);
}

/// The ids of what the doctor finds, each with its severity.
fn findings(words: &[&str], code: i32) -> Vec<(String, String, String)> {
    let run = roster(words);
    assert_eq!(run.code, code, "{run:?}");
    let json: Value = serde_json::from_str(&run.output).unwrap();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let all = json["findings"].as_array().unwrap().iter();
    all.map(|one| (text(one, "id"), text(one, "severity"), text(one, "evidence"))).collect()
}

#[test]
fn the_doctor_finds_what_was_planted_and_nothing_in_a_new_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    server.serve();
    let (url, data) = (server.url(), server.data().to_owned());
    let backup = folder.path().join("backup").display().to_string();
    check(&roster(&["backup", "--data", &data, "--to", &backup]), 0, &[]);
    let look = ["doctor", "--json", "--data", &data, "--backup", &backup];
    let words = with_password(&server, &url, &look);
    let found = findings(&words, 0);
    assert!(found.iter().all(|(_, severity, _)| severity == "info"), "{found:?}");
    // Now one fault of each kind.
    let mut root = server.connect().unwrap();
    let add = ldap::message::ModifyOperation::Add;
    let dead = "(targetattr = \"cn || frobnicate\")(version 3.0; acl \"Desk\"; allow (write) \
                groupdn = \"ldap:///cn=gone,dc=example,dc=com\";)";
    let open = "(targetattr = \"*\")(version 3.0; acl \"All\"; allow (read,search) \
                userdn = \"ldap:///anyone\";)";
    let outcome = root.modify("dc=example,dc=com", &[(add, "aci", &[open])]).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    let outcome = root.modify("ou=people,dc=example,dc=com", &[(add, "aci", &[dead])]).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    let weak = "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=";
    let replace = ldap::message::ModifyOperation::Replace;
    let outcome = root.modify(PERSON, &[(replace, "userPassword", &[weak])]).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    let key = server.data.join("tls/key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let evidence = "{\"reason\": \"planted\", \"lsn\": 7}\n";
    fs::write(server.data.join(history::QUARANTINE_FILE), evidence).unwrap();
    let nowhere = folder.path().join("nowhere").display().to_string();
    let look = ["doctor", "--json", "--data", &data, "--backup", &nowhere];
    let words = with_password(&server, &url, &look);
    let found = findings(&words, 1);
    for (id, severity, evidence) in [
        ("quarantine", "error", "planted"),
        ("anonymous", "error", "userPassword"),
        ("backup", "error", "there is no backup"),
        ("acis", "warning", "no attribute that there is: frobnicate"),
        ("acis", "warning", "no entry that there is: cn=gone,dc=example,dc=com"),
        ("passwords", "warning", "stored as {SHA}"),
        ("files", "warning", "tls/key.pem"),
    ] {
        let is_it = |(its, how, what): &(String, String, String)| {
            its == id && how == severity && what.contains(evidence)
        };
        assert!(found.iter().any(is_it), "{id}, {evidence}: {found:#?}");
    }
    // What cannot be looked at is named, and is not well.
    let run = roster(&["doctor", "-H", &url]);
    let hidden = "the server shows its metrics only to its administrator";
    let (warning, note) =
        (format!("warning  server: {hidden}"), format!("not looked at ({hidden}): "));
    check(&run, 1, &[&warning, &note]);
    let run = roster(&["doctor", "-H", &url, "--data", &nowhere]);
    check(&run, 1, &["warning  data: '", "nowhere' "]);
    server.stop();
    let run = roster(&["doctor", "--data", &data]);
    let down = format!("error    server: the server of {data} is not running");
    check(&run, 1, &[&down, "quarantine: quarantine: planted", "chmod go= "]);
}

/// The how-to's commands do what it says, each as it stands there.
#[test]
fn the_commands_of_the_how_to_run() {
    let text = include_str!("../../../docs/how-to/first-week.md");
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ roster "));
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    server.serve();
    let url = server.url();
    let backup = folder.path().join("backup");
    let mut count = 0;
    for line in lines {
        let mut words = Vec::new();
        for word in line.split(' ') {
            match word {
                "DIR" => words.push(server.data()),
                "BACKUP" => words.push(backup.to_str().unwrap()),
                "-W" => words.extend(["-y", server.password.to_str().unwrap()]),
                word => words.push(word),
            }
        }
        let mut command = common::command(&words);
        // Through the socket where the data directory is named, as people do it.
        if !words.contains(&"--data") {
            command.env("LDAPURI", &url);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        count += 1;
        if words.contains(&"set-administrator-password") {
            let told = String::from_utf8(output.stdout).unwrap();
            let made = told.lines().find_map(|line| line.strip_prefix("password        "));
            fs::write(&server.password, made.unwrap()).unwrap();
            wait_for("the new one", || lets_in(&url, made.unwrap()).then_some(()));
        }
    }
    assert!(count >= 9, "{count}");
}

#[test]
fn hints_mend_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let server = alone(folder.path());
    let (data, other) = (server.data().to_owned(), folder.path().join("other"));
    let run = roster(&["restore", "--from", "/nope", "--data", other.to_str().unwrap()]);
    check(&run, 2, &["hint: --from names a directory that 'roster backup --to DIR' has written"]);
    let file = folder.path().join("outside.ldif");
    fs::write(&file, "dn: ou=x,dc=elsewhere\nobjectClass: organizationalUnit\nou: x\n").unwrap();
    let run = roster(&["import", "--data", &data, file.to_str().unwrap()]);
    let want = ["is in no naming context", "the naming contexts are dc=example,dc=com"];
    check(&run, 2, &want);
    // One mistake is one line, and what follows from it another.
    let person = |at: usize, above: &str| {
        format!(
            "dn: uid=u{at},{above}ou=missing,dc=example,dc=com\nobjectClass: inetOrgPerson\n\
             cn: x\nsn: y\n\n"
        )
    };
    let people = (0..100).map(|at| person(at, "") + &person(at + 100, "uid=u1,"));
    fs::write(&file, people.collect::<String>()).unwrap();
    let run = roster(&["import", "--data", &data, file.to_str().unwrap()]);
    check(
        &run,
        2,
        &["its superior 'ou=missing,dc=example,dc=com' does not exist", "… and 199 more"],
    );
    assert!(run.errors.lines().count() < 8, "{}", run.errors);
}
