//! Programs of many client libraries against a served directory: Go, Node, Java, Perl, PHP, Python.
//!
//! Each program in `tests/clients` says how many of its checks passed and failed, and what it
//! expected where one failed. `cargo xtask test` installs languages and libraries.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running};

/// How many people the programs find.
const PEOPLE: u32 = 2_500;
/// Fewer checks than this in a program, and something has not run.
const CHECKS_MIN: u32 = 35;

/// A directory of its own, served over LDAP and LDAPS.
struct Site {
    folder: tempfile::TempDir,
    place: Place,
    server: Running,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
            folder: folder.path().join("server"),
            environment: Vec::new(),
        };
        place.init().unwrap();
        let people = folder.path().join("people.ldif");
        fs::write(&people, people_ldif()).unwrap();
        place.offline(&["import", people.to_str().unwrap(), &source("data.ldif")]).unwrap();
        let server = place.start().unwrap();
        Self { folder, place, server }
    }

    /// What every program takes: ports, certificate, and who the administrator is.
    fn arguments(&self) -> [String; 5] {
        let ready = fs::read_to_string(self.place.folder.join("ready")).unwrap();
        let secure = ready.lines().find_map(|line| line.strip_prefix("ldaps ")).unwrap();
        [
            self.server.address.port().to_string(),
            secure.rsplit(':').next().unwrap().to_owned(),
            self.place.data().join("tls/cert.pem").display().to_string(),
            ADMIN_DN.to_owned(),
            ADMIN_PASSWORD.to_owned(),
        ]
    }
}

fn people_ldif() -> String {
    let mut text = String::from(
        "dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n",
    );
    for number in 1..=PEOPLE {
        let unix = 10_000 + number;
        write!(
            text,
            "dn: uid=user.{number},ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\n\
             objectClass: posixAccount\nuid: user.{number}\ncn: User {number}\nsn: {number}\n\
             uidNumber: {unix}\ngidNumber: 100\nhomeDirectory: /home/user.{number}\n\
             mail: user.{number}@example.com\n\n"
        )
        .unwrap();
    }
    text
}

/// A program's source, or a folder of it.
fn source(name: &str) -> String {
    format!("{}/tests/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Where `cargo xtask test` puts libraries of a language, and compiled programs may go.
fn libraries(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients").join(language)
}

/// Whether what a test needs is here. Where clients are required (`cargo xtask test` installs them)
/// it fails the test if not; a plain `cargo test` skips it.
fn have(what: &str, is_here: bool) -> bool {
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    assert!(is_here || !required, "{what} is missing: run cargo xtask test, which installs it");
    if !is_here {
        eprintln!("skipped: {what} is not here; cargo xtask test installs it");
    }
    is_here
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The libraries of a language are fetched, and a program of it runs.
fn have_libraries(language: &str, program: &str, version: &str) -> bool {
    have(program, runs(program, &[version]))
        && have(&format!("libraries for {program}"), libraries(language).join("ready").exists())
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The program ends well, and its last line says that enough was checked and nothing failed.
#[track_caller]
fn check(output: &Output) {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success(), "{}\n{text}", output.status);
    let counts = String::from_utf8_lossy(&output.stdout);
    let passed = counts.lines().last().and_then(|line| line.strip_suffix(" passed, 0 failed"));
    let passed: u32 = passed.and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(passed >= CHECKS_MIN, "too few checks: {text}");
}

/// Debian's own interpreter: the libraries are installed for it, not for others on the path.
const PYTHON: &str = "/usr/bin/python3";

#[track_caller]
fn with_python(module: &str, program: &str) {
    if have(&format!("Python's {module}"), runs(PYTHON, &["-c", &format!("import {module}")])) {
        let site = Site::start();
        let script = source(&format!("python/{program}"));
        check(&run(Command::new(PYTHON).args(["-B", &script]).args(site.arguments())));
    }
}

#[test]
fn ldap3_for_python() {
    with_python("ldap3", "with_ldap3.py");
}

#[test]
fn bonsai_for_python() {
    with_python("bonsai", "with_bonsai.py");
}

#[test]
fn python_ldap() {
    with_python("ldap", "with_python_ldap.py");
}

#[test]
fn net_ldap_for_perl() {
    let modules = ["-MNet::LDAP", "-MIO::Socket::SSL", "-e1"];
    if have("Perl's Net::LDAP", runs("perl", &modules)) {
        let site = Site::start();
        check(&run(Command::new("perl").arg(source("perl.pl")).args(site.arguments())));
    }
}

#[test]
fn the_ldap_extension_of_php() {
    if have("PHP's ldap", runs("php", &["-r", "exit((int) !function_exists('ldap_bind'));"])) {
        let site = Site::start();
        check(&run(Command::new("php").arg(source("php.php")).args(site.arguments())));
    }
}

#[track_caller]
fn with_node(program: &str) {
    if !have_libraries("node", "node", "--version") {
        return;
    }
    let site = Site::start();
    // Node looks for libraries in the folders above a program. One folder each: two tests must not
    // write the same file.
    let place = libraries("node").join(program.trim_end_matches(".mjs"));
    fs::create_dir_all(&place).unwrap();
    for name in ["checks.mjs", program] {
        fs::copy(source(&format!("node/{name}")), place.join(name)).unwrap();
    }
    check(&run(Command::new("node").arg(place.join(program)).args(site.arguments())));
}

#[test]
fn ldapts_for_node() {
    with_node("ldapts.mjs");
}

#[test]
fn ldapjs_for_node() {
    with_node("ldapjs.mjs");
}

#[test]
fn go_ldap() {
    let places = ["/usr/local/go/bin/go", "/usr/bin/go"];
    let go = places.into_iter().find(|path| Path::new(path).exists()).unwrap_or("go");
    if !have_libraries("go", go, "version") {
        return;
    }
    let site = Site::start();
    let program = libraries("go").join("client");
    let built = run(Command::new(go).args(["build", "-o"]).arg(&program).current_dir(source("go")));
    assert!(built.status.success(), "{built:?}");
    check(&run(Command::new(&program).args(site.arguments())));
}

/// Compiles a program, and gives what runs it.
fn java(site: &Site, class: &str, class_path: &[PathBuf]) -> Command {
    let classes = site.folder.path().join("classes");
    let path = std::env::join_paths(class_path.iter().chain([&classes])).unwrap();
    let mut compiler = Command::new("javac");
    compiler.args(["-encoding", "UTF-8", "-cp"]).arg(&path).arg("-d").arg(&classes);
    let compiled = run(compiler.arg(source(&format!("java/{class}.java"))));
    assert!(compiled.status.success(), "{compiled:?}");
    let mut command = Command::new("java");
    command.args(["-Dfile.encoding=UTF-8", "-cp"]).arg(&path).arg(class).args(site.arguments());
    command
}

#[test]
fn jndi() {
    if have("javac", runs("javac", &["-version"])) {
        let site = Site::start();
        check(&run(&mut java(&site, "Jndi", &[])));
    }
}

#[test]
fn the_unboundid_sdk_and_its_tools() {
    if !have_libraries("java", "javac", "-version") {
        return;
    }
    let jars = fs::read_dir(libraries("java").join("jars")).unwrap();
    let jars: Vec<PathBuf> = jars.map(|entry| entry.unwrap().path()).collect();
    let (site, other) = (Site::start(), Site::start());
    let other_port = other.server.address.port().to_string();
    check(&run(java(&site, "Unboundid", &jars).arg(other_port)));
}
