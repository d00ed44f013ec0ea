//! Following a real slapd under load, through breaks of everybody, until its place is taken.
//!
//! Where slapd is not installed the test ends at once, unless `ROSTER_TEST_CLIENTS` says that it is
//! required.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "helpers of tests fail the test when something is not as it must be, and load takes \
              time"
)]

#[path = "follow/again.rs"]
mod again;
mod common;
mod ds389;
mod machine;
#[path = "follow/names.rs"]
mod names;
#[path = "follow/proxy.rs"]
mod proxy;

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use client::{ConnectOptions, Connection, SearchFor};
use common::{Run, check_all, roster};
use ds389::{Ds389, has};
use ldap::filter::Filter;
use ldap::message::{Controls, ModifyDnRequest, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;
use machine::{Machine, wait_for};
use proxy::{Breaks, Proxy, has_text};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD};
use testing::ports::free_addresses;

const SUFFIX: &str = "dc=example,dc=com";

/// Who may do everything, and the password.
#[derive(Clone, Copy, Debug)]
struct Root(&'static str, &'static str);

const OF_SLAPD: Root = Root("cn=admin,dc=example,dc=com", "secret");
const OF_389: Root = Root("cn=Directory Manager", "secret12");

/// A slapd that provides changes.
struct Slapd {
    folder: PathBuf,
    url: String,
    child: Child,
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Slapd {
    /// With so many people.
    fn start(folder: &Path, people: u32, has_session_log: bool) -> Self {
        let folder = folder.join("slapd");
        fs::create_dir_all(folder.join("db")).unwrap();
        let log = if has_session_log { "syncprov-sessionlog 1000" } else { "" };
        let conf = include_str!("follow/slapd.conf")
            .replace("HERE", folder.to_str().unwrap())
            .replace("SESSIONLOG", log);
        fs::write(folder.join("slapd.conf"), conf).unwrap();
        let mut ldif = format!(
            "dn: {SUFFIX}\nobjectClass: organization\nobjectClass: dcObject\no: Old\n\
             dc: example\n\n\
             dn: uid=reader,{SUFFIX}\nobjectClass: account\nobjectClass: simpleSecurityObject\n\
             uid: reader\nuserPassword: {{SSHA}}acQ0G9wY14zBwzo83XXiCouNPEhzYWx0\n\n\
             dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n\n\
             dn: ou=moving,{SUFFIX}\nobjectClass: organizationalUnit\nou: moving\n\n"
        );
        for number in 0..people {
            let unit = if number % 100 == 0 { "moving" } else { "people" };
            let _ = write!(
                ldif,
                "dn: uid=user.{number},ou={unit},{SUFFIX}\nobjectClass: inetOrgPerson\n\
                 uid: user.{number}\ncn: User {number}\nsn: {number}\n\
                 userPassword: {{SSHA}}AkXcOxOSh8MCK0Yc+YO5OzqOYkCKoTRF\ndescription: first\n\n"
            );
        }
        fs::write(folder.join("all.ldif"), ldif).unwrap();
        let conf = folder.join("slapd.conf");
        let output = Command::new("/usr/sbin/slapd")
            .args(["-T", "add", "-q", "-w", "-f"])
            .arg(&conf)
            .arg("-l")
            .arg(folder.join("all.ldif"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let [address] = free_addresses().unwrap();
        let url = format!("ldap://{address}");
        let child = Self::run(&folder, &url);
        let slapd = Self { folder, url, child };
        slapd.wait();
        slapd
    }

    fn run(folder: &Path, url: &str) -> Child {
        Command::new("/usr/sbin/slapd")
            .args(["-d", "0", "-h", url, "-f"])
            .arg(folder.join("slapd.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn wait(&self) {
        wait_for("a slapd that answers", || self.connect());
    }

    fn connect(&self) -> Option<Connection> {
        connect(&self.url, OF_SLAPD)
    }

    /// Ends it without notice, and starts it again.
    fn kill_and_start(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = Self::run(&self.folder, &self.url);
        self.wait();
    }
}

fn connect(url: &str, root: Root) -> Option<Connection> {
    let mut connection = Connection::open(ConnectOptions::new(url)).ok()?;
    connection.bind(root.0, root.1.as_bytes()).ok()?;
    Some(connection)
}

/// The longest that a command runs.
const RUN_MAX_S: &str = "300";

/// Clients that change what slapd has, until it takes no more changes or the test ends.
struct Load {
    stop: Arc<AtomicBool>,
    deletes: Arc<AtomicBool>,
    changes: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(url: &str, root: Root, people: u32) -> Self {
        let (stop, changes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let deletes = Arc::new(AtomicBool::new(true));
        let (url, ends, counted) = (url.to_owned(), Arc::clone(&stop), Arc::clone(&changes));
        let may_delete = Arc::clone(&deletes);
        let thread = std::thread::spawn(move || {
            let mut number = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                let Some(mut connection) = connect(&url, root) else {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                };
                while !ends.load(Ordering::Relaxed) {
                    number += 1;
                    let deletes = may_delete.load(Ordering::Relaxed);
                    match change(&mut connection, number, people, deletes) {
                        // It is frozen, so this is over.
                        Some(ResultCode::UnwillingToPerform) => return,
                        Some(_) => drop(counted.fetch_add(1, Ordering::Relaxed)),
                        None => break,
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { stop, deletes, changes, thread: Some(thread) }
    }

    /// Deletes nothing more.
    fn end_deletions(&self) {
        self.deletes.store(false, Ordering::Relaxed);
        // None is under way.
        self.more(2);
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Waits until so many more changes were made.
    fn more(&self, count: u64) {
        let until = self.changes() + count;
        wait_for("changes of the load", || (self.changes() >= until).then_some(()));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One change; none if the connection is lost.
fn change(
    connection: &mut Connection,
    number: u64,
    people: u32,
    deletes: bool,
) -> Option<ResultCode> {
    let person = 1 + number * 7919 % (u64::from(people) - 1);
    let person = if person.is_multiple_of(100) { person + 1 } else { person };
    let dn = format!("uid=user.{person},ou=people,{SUFFIX}");
    let text = format!("change {number}");
    let other = format!("uid=new.{},ou=people,{SUFFIX}", number % 40);
    let rename = |connection: &mut Connection, name: &str, new_rdn: &str| {
        let request = ModifyDnRequest { name, new_rdn, delete_old_rdn: true, new_superior: None };
        connection.request_with(Request::ModifyDn(request), Controls::EMPTY)
    };
    let outcome = match number % 10 {
        0 => connection.add(
            &other,
            &[("objectClass", &["inetOrgPerson"]), ("cn", &["New"]), ("sn", &[&text])],
        ),
        5 if deletes => {
            connection.delete(&format!("uid=new.{},ou=people,{SUFFIX}", (number + 15) % 40))
        }
        7 if deletes => connection.delete(&dn),
        8 => connection.add(
            &dn.replace(&person.to_string(), &format!("{}", (number - 1) * 7919 % 90)),
            &[("objectClass", &["inetOrgPerson"]), ("cn", &["Again"]), ("sn", &[&text])],
        ),
        // A branch has two names, in turns, and with it all below it.
        9 if number % 20 == 19 => {
            let [from, to] = match number / 20 % 2 {
                0 => ["moving", "moved"],
                _ => ["moved", "moving"],
            };
            rename(connection, &format!("ou={from},{SUFFIX}"), &format!("ou={to}"))
        }
        9 => rename(connection, &dn, &format!("uid=renamed.{person}")),
        _ => connection.modify(&dn, &[(ModifyOperation::Replace, "description", &[&text])]),
    };
    outcome.ok().map(|outcome| outcome.code)
}

/// A server here, with nothing but the entry of its suffix.
fn bare(folder: &Path) -> Machine {
    bare_of(folder, "here", SUFFIX)
}

fn bare_of(folder: &Path, name: &str, suffix: &str) -> Machine {
    let mut machine = Machine::new(folder, name);
    let (password, data) = (machine.password.display().to_string(), machine.data().to_owned());
    let words = ["init", "--data", &data, "--suffix", suffix, "--admin-password-file", &password];
    check_all(&roster(&words), 0, &[]);
    machine.serve();
    machine
}

/// Runs of `roster follow`.
struct Follower<'m> {
    machine: &'m Machine,
    folder: PathBuf,
    source: String,
    bind: Vec<String>,
}

impl<'m> Follower<'m> {
    fn of(folder: &Path, url: &str, root: Root, machine: &'m Machine) -> Self {
        let password = folder.join("source-password");
        fs::write(&password, root.1).unwrap();
        let words = ["--source-bind-dn", root.0, "--source-password-file"];
        let mut bind: Vec<String> = words.map(str::to_owned).to_vec();
        bind.push(password.display().to_string());
        let source = format!("{url}/{SUFFIX}");
        Self { machine, folder: folder.to_owned(), source, bind }
    }

    fn words<'w>(&'w self, url: &'w str, more: &[&'w str]) -> Vec<&'w str> {
        let password = self.machine.password.to_str().unwrap();
        let mut words = vec!["follow", &self.source, "-H", url, "-y", password];
        words.extend(self.bind.iter().map(String::as_str));
        words.extend(more);
        words
    }

    fn run(&self, more: &[&str]) -> Run {
        self.run_over(&self.machine.url(), more)
    }

    /// Over another way to the server here.
    fn run_over(&self, url: &str, more: &[&str]) -> Run {
        // A source that stands still must not have the test do so, too.
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", RUN_MAX_S, env!("CARGO_BIN_EXE_roster")]);
        let output = command.args(self.words(url, more)).stdin(Stdio::null()).output().unwrap();
        let text = |octets| String::from_utf8(octets).unwrap();
        let code = output.status.code().unwrap_or(-1);
        Run { code, output: text(output.stdout), errors: text(output.stderr) }
    }

    /// Starts one that goes on; what it says comes into a file.
    fn start(&self, name: &str, more: &[&str]) -> Following {
        self.start_over(&self.machine.url(), name, more)
    }

    fn start_over(&self, url: &str, name: &str, more: &[&str]) -> Following {
        let log = self.folder.join(name);
        let mut command = common::command(&self.words(url, more));
        let child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Following { child, log }
    }
}

struct Following {
    child: Child,
    log: PathBuf,
}

impl Following {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn wait_for(&self, text: &str) {
        let what = format!("{text} of {}", self.log.display());
        wait_for(&what, || self.said().contains(text).then_some(()));
    }

    /// Ends it without notice.
    fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut output = String::new();
        let code = self.child.wait().unwrap().code();
        if let Some(mut out) = self.child.stdout.take() {
            let _ = out.read_to_string(&mut output);
        }
        (code, self.said() + &output)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the two differ; nothing may.
#[track_caller]
fn check_equal(
    folder: &Path,
    there: &str,
    root: Root,
    machine: &Machine,
    bases: &[&str],
    stamps: &str,
) {
    let source = folder.join("source-password").display().to_string();
    let (here, there) = (format!("{}/{SUFFIX}", machine.url()), format!("{there}/{SUFFIX}"));
    let own = machine.password.display().to_string();
    let bind = ["-D", root.0, "-y", &source, "--b-bind-dn", ADMIN_DN, "--b-password-file", &own];
    for base in bases {
        for more in [&[][..], &["--operational", "--only", stamps]] {
            let run = roster(&[&["diff", &there, &here, "-b", base], &bind[..], more].concat());
            check_all(&run, 0, &["0 to add, 0 to modify, 0 to rename, 0 to delete"]);
            assert!(!run.output.contains("only servers set"), "{}", run.output);
        }
    }
}

const STAMPS: &str = "entryUUID,createTimestamp,creatorsName,modifyTimestamp,modifiersName";

/// A change here, by its administrator.
fn changed_here(machine: &Machine) -> (ResultCode, String) {
    let mut connection = connect(&machine.url(), Root(ADMIN_DN, ADMIN_PASSWORD)).unwrap();
    let change = [(ModifyOperation::Replace, "description", &["here"][..])];
    let outcome = connection.modify(SUFFIX, &change).unwrap();
    (outcome.code, outcome.diagnostic)
}

#[test]
fn a_slapd_under_load_is_followed_through_breaks_until_its_place_is_taken() {
    if !has(&["/usr/sbin/slapd", "/usr/lib/ldap/syncprov.so"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let people = 3_000;
    let mut slapd = Slapd::start(folder, people, true);
    let mut machine = bare(folder);
    let load = Load::start(&slapd.url, OF_SLAPD, people);
    let follower = Follower::of(folder, &slapd.url, OF_SLAPD, &machine);
    let first = follower.start("first.log", &[]);
    first.wait_for("all is here after");
    // Nobody else changes the branch, and nobody else follows.
    let (code, why) = changed_here(&machine);
    assert_eq!(code, ResultCode::UnwillingToPerform);
    assert!(why.contains(&format!("the branch follows {}", slapd.url)), "{why}");
    check_all(&follower.run(&[]), 1, &["another 'roster follow' follows", "--take-over"]);
    load.more(200);
    first.kill();
    load.more(200);
    let second = follower.start("second.log", &[]);
    second.wait_for("all is here after");
    assert!(second.said().contains("going on where it was"), "{}", second.said());
    load.more(200);
    slapd.kill_and_start();
    load.more(100);
    second.wait_for("trying again in");
    drop(follower);
    machine.kill();
    load.more(100);
    machine.serve();
    load.more(100);
    let follower = Follower::of(folder, &slapd.url, OF_SLAPD, &machine);
    let run = follower.run(&["--cut-over"]);
    check_all(&run, 0, &["switched over: changes are made here now; nobody took them for "]);
    println!("{}\n{} changes", run.errors, load.changes());
    let (code, said) = second.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another 'roster follow' has taken over"), "{said}");
    drop(load);
    check_equal(folder, &slapd.url, OF_SLAPD, &machine, &[SUFFIX], STAMPS);
    // Passwords are what they were, and changes are taken.
    assert!(connect(&machine.url(), Root("uid=reader,dc=example,dc=com", "reader")).is_some());
    assert_eq!(changed_here(&machine).0, ResultCode::Success);
    check_all(&follower.run(&["--cut-over"]), 1, &["follows no server"]);
    check_all(&follower.run(&[]), 1, &["holds entries", "--replace"]);
}

/// What slapd holds beside `people`, as 389 takes it.
fn people_of_389(people: u32) -> String {
    let mut ldif =
        format!("dn: ou=moving,{SUFFIX}\nchangetype: add\nobjectClass: organizationalUnit\n\n");
    for number in 0..people {
        let unit = if number % 100 == 0 { "moving" } else { "people" };
        let _ = write!(
            ldif,
            "dn: uid=user.{number},ou={unit},{SUFFIX}\nchangetype: add\n\
             objectClass: inetOrgPerson\ncn: User {number}\nsn: {number}\n\
             userPassword: password{number}\ndescription: first\n\n"
        );
    }
    ldif
}

#[test]
fn a_389_under_load_is_followed_by_its_change_log_until_its_place_is_taken() {
    let is_root = rustix::process::geteuid().is_root();
    let programs = ["/usr/sbin/dscreate", "/usr/sbin/ns-slapd", "/usr/bin/ldapmodify"];
    if !is_root || !has(&programs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ds = Ds389::create(folder);
    let people = 500;
    ds.modify(
        folder,
        "dn: cn=Retro Changelog Plugin,cn=plugins,cn=config\nchangetype: modify\n\
         replace: nsslapd-pluginEnabled\nnsslapd-pluginEnabled: on\n",
    );
    ds.tool("/usr/sbin/dsctl", &["rostertest", "restart"]);
    ds.modify(folder, &people_of_389(people));
    let machine = bare(folder);
    let load = Load::start(&ds.url, OF_389, people);
    let follower = Follower::of(folder, &ds.url, OF_389, &machine);
    let first = follower.start("first.log", &[]);
    first.wait_for("all is here after");
    load.more(100);
    first.kill();
    load.more(100);
    let second = follower.start("second.log", &[]);
    second.wait_for("all is here after");
    assert!(second.said().contains("going on where it was"), "{}", second.said());
    load.more(100);
    // It stops for good when it is made read-only while it deletes: two of its threads wait for
    // each other.
    load.end_deletions();
    let run = follower.run(&["--cut-over"]);
    check_all(&run, 0, &["switched over: changes are made here now; nobody took them for "]);
    println!("{}\n{} changes", run.errors, load.changes());
    drop(load);
    let stamps = "createTimestamp,creatorsName,modifyTimestamp,modifiersName";
    let branches = ["people", "moving", "moved", "groups"].map(|it| format!("ou={it},{SUFFIX}"));
    let branches = branches.each_ref().map(String::as_str);
    check_equal(folder, &ds.url, OF_389, &machine, &branches, stamps);
    let user = Root("uid=user.0,ou=moving,dc=example,dc=com", "password0");
    let moved = Root("uid=user.0,ou=moved,dc=example,dc=com", "password0");
    assert!(connect(&machine.url(), user).or_else(|| connect(&machine.url(), moved)).is_some());
    assert_eq!(changed_here(&machine).0, ResultCode::Success);
}

/// Without a log of sessions, slapd tells what is there, and what it does not tell is gone.
#[test]
fn what_was_deleted_while_nobody_followed_goes_and_what_is_refused_is_kept() {
    if !has(&["/usr/sbin/slapd", "/usr/lib/ldap/syncprov.so"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let slapd = Slapd::start(folder, 300, false);
    let machine = bare(folder);
    let mut there = slapd.connect().unwrap();
    let odd = format!("uid=odd,ou=people,{SUFFIX}");
    let classes = ["inetOrgPerson", "odd"];
    let attributes: [(&str, &[&str]); 4] =
        [("objectClass", &classes), ("cn", &["Odd"]), ("sn", &["Odd"]), ("oddText", &["x"])];
    assert!(there.add(&odd, &attributes).unwrap().is_success());
    // Who may not read all does not copy a part.
    let reader = Root("uid=reader,dc=example,dc=com", "reader");
    let follower = Follower::of(folder, &slapd.url, reader, &machine);
    check_all(&follower.run(&[]), 1, &["sizeLimitExceeded", "limits dn.exact="]);
    let follower = Follower::of(folder, &slapd.url, OF_SLAPD, &machine);
    let rejects = folder.join("rejects.ldif").display().to_string();
    let first = follower.start("first.log", &["--reject-file", &rejects]);
    first.wait_for("all is here after");
    assert!(first.said().contains(&format!("refused: {odd}: ")), "{}", first.said());
    let kept = fs::read_to_string(&rejects).unwrap();
    assert!(kept.contains("oddText: x\n") && kept.starts_with("# "), "{kept}");
    first.kill();
    for number in 1..50 {
        let name = format!("uid=user.{number},ou=people,{SUFFIX}");
        assert!(there.delete(&name).unwrap().is_success());
    }
    // What is below a renamed branch is not told of by name.
    let name = &format!("ou=moving,{SUFFIX}");
    let rename =
        ModifyDnRequest { name, new_rdn: "ou=moved", delete_old_rdn: true, new_superior: None };
    let renamed = there.request_with(Request::ModifyDn(rename), Controls::EMPTY).unwrap();
    assert!(renamed.is_success());
    let second = follower.start("second.log", &[]);
    second.wait_for("all is here after");
    assert!(second.said().contains("49 deleted"), "{}", second.said());
    // What was refused is gone, and so its place can be taken as it is.
    assert!(there.delete(&odd).unwrap().is_success());
    drop(second);
    let run = follower.run(&["--cut-over", "--source-is-read-only"]);
    check_all(&run, 0, &["switched over"]);
    check_equal(folder, &slapd.url, OF_SLAPD, &machine, &[SUFFIX], STAMPS);
}

/// The change log here is that of OpenDJ, with cookies.
#[test]
fn a_change_log_with_cookies_is_followed_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = bare_of(folder, "source", SUFFIX);
    let other = "o=other";
    let machine = bare_of(folder, "here", other);
    let root = Root(ADMIN_DN, ADMIN_PASSWORD);
    let mut there = connect(&source.url(), root).unwrap();
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    for name in ["people", "moving"] {
        assert!(there.add(&format!("ou={name},{SUFFIX}"), &unit).unwrap().is_success());
    }
    let group: [(&str, &[&str]); 2] =
        [("objectClass", &["groupOfNames"]), ("member", &["ou=people,dc=example,dc=com"])];
    assert!(there.add(&format!("cn=group,{SUFFIX}"), &group).unwrap().is_success());
    let people = 300;
    for number in 0..people {
        let unit = if number % 100 == 0 { "moving" } else { "people" };
        let name = format!("uid=user.{number},ou={unit},{SUFFIX}");
        let text = number.to_string();
        let person: [(&str, &[&str]); 3] =
            [("objectClass", &["inetOrgPerson"]), ("cn", &[&text]), ("sn", &[&text])];
        assert!(there.add(&name, &person).unwrap().is_success());
    }
    let load = Load::start(&source.url(), root, people);
    let follower = Follower::of(folder, &source.url(), root, &machine);
    let ways = ["--by", "changelog", "--to-suffix", other];
    let first = follower.start("first.log", &ways);
    first.wait_for("all is here after");
    load.more(100);
    first.kill();
    load.more(200);
    let second = follower.start("second.log", &ways);
    second.wait_for("all is here after");
    assert!(second.said().contains("going on where it was"), "{}", second.said());
    load.more(100);
    // It knows no way to have this source take no changes, and has nobody end for that.
    let run = follower.run(&[&ways[..], &["--cut-over"]].concat());
    check_all(&run, 1, &["cannot be made read-only", "--source-is-read-only"]);
    drop(load);
    let run = follower.run(&[&ways[..], &["--cut-over", "--source-is-read-only"]].concat());
    check_all(&run, 0, &["switched over"]);
    assert_eq!(second.ended().0, Some(1));
    // Both as LDIF.
    let own = machine.password.display().to_string();
    let lines = |url: &str, base: &str| {
        let words = ["export", "-H", url, "-y", &own, "-b", base, "*", "+"];
        let run = roster(&words);
        assert_eq!(run.code, 0, "{run:?}");
        let text = run.output.replace("\n ", "").replace(SUFFIX, other);
        let is_compared = |line: &&str| {
            ["dn:", "uid:", "cn:", "sn:", "description:", "member:", "entryUUID:", "create"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        let mut lines: Vec<_> = text.lines().filter(is_compared).map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let (want, have) = (lines(&source.url(), SUFFIX), lines(&machine.url(), other));
    assert!(want.len() > 800, "{}", want.len());
    assert!(have.contains(&"member: ou=people,o=other".to_owned()));
    assert_eq!(have, want);
}

/// Changes of the line of a branch that name a session: one that ends it, or notes a position.
fn is_line_change(octets: &[u8], times: usize) -> bool {
    let name = b"roster-follow";
    let named = octets.windows(name.len()).filter(|part| part == name).count();
    named == times && has_text(octets, " session ")
}

/// Whether a server has an entry.
fn has_entry(machine: &Machine, name: &str) -> bool {
    let mut here = connect(&machine.url(), Root(ADMIN_DN, ADMIN_PASSWORD)).unwrap();
    let all = SearchFor::below(name, Filter::Present("objectClass"));
    let found = here.search(&SearchFor { scope: Scope::Base, ..all }).unwrap();
    !found.entries.is_empty()
}

/// The answer to one position is lost, and later the one to the step that switches over.
#[test]
fn an_answer_that_is_lost_ends_nothing_and_leaves_one_server_that_takes_changes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = bare_of(folder, "source", SUFFIX);
    let machine = bare(folder);
    let root = Root(ADMIN_DN, ADMIN_PASSWORD);
    let follower = Follower::of(folder, &source.url(), root, &machine);
    let ways = ["--by", "changelog"];
    let at = |octets: &[u8]| is_line_change(octets, 2);
    let notes = Proxy::start(&machine.url(), Breaks { at, times: 3, away: Duration::ZERO });
    let first = follower.start_over(&notes.url, "first.log", &ways);
    first.wait_for("all is here after");
    wait_for("three lost answers", || (notes.broken.load(Ordering::Relaxed) == 3).then_some(()));
    let mut there = connect(&source.url(), root).unwrap();
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    let name = format!("ou=late,{SUFFIX}");
    assert!(there.add(&name, &unit).unwrap().is_success());
    wait_for("what was added late", || has_entry(&machine, &name).then_some(()));
    assert!(!first.said().contains("another 'roster follow'"), "{}", first.said());
    let at = |octets: &[u8]| is_line_change(octets, 1);
    let lift = Proxy::start(&machine.url(), Breaks { at, times: 1, away: Duration::ZERO });
    let more = [&ways[..], &["--cut-over", "--source-is-read-only"]].concat();
    check_all(&follower.run_over(&lift.url, &more), 0, &["switched over: changes are made here"]);
    assert_eq!(lift.broken.load(Ordering::Relaxed), 1);
    assert_eq!(first.ended().0, Some(1));
    assert_eq!(changed_here(&machine).0, ResultCode::Success);
}

/// Whether a slapd takes no changes, as its configuration says.
fn is_read_only(slapd: &Slapd) -> bool {
    let mut there = slapd.connect().unwrap();
    let change = [(ModifyOperation::Replace, "description", &["x"][..])];
    !there.modify(&format!("ou=people,{SUFFIX}"), &change).unwrap().is_success()
}

#[test]
fn a_source_that_is_away_after_it_was_frozen_takes_changes_again_in_time() {
    if !has(&["/usr/sbin/slapd", "/usr/lib/ldap/syncprov.so"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let slapd = Slapd::start(folder, 50, true);
    let machine = bare(folder);
    let at = |octets: &[u8]| has_text(octets, "olcReadOnly") && has_text(octets, "TRUE");
    let away = Duration::from_secs(6);
    let way = Proxy::start(&slapd.url, Breaks { at, times: 1, away });
    let follower = Follower::of(folder, &way.url, OF_SLAPD, &machine);
    let first = follower.start("first.log", &[]);
    first.wait_for("all is here after");
    // Nobody tells it whether the source is frozen.
    let run = follower.run(&["--cut-over", "--within", "2"]);
    check_all(&run, 1, &["the lag did not end within 2 s"]);
    assert_eq!(way.broken.load(Ordering::Relaxed), 1);
    assert!(!is_read_only(&slapd), "{run:?}");
    assert_eq!(changed_here(&machine).0, ResultCode::UnwillingToPerform);
}

#[test]
fn a_source_that_stalls_after_it_was_frozen_takes_changes_again_in_time() {
    if !has(&["/usr/sbin/slapd", "/usr/lib/ldap/syncprov.so"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let slapd = Slapd::start(folder, 50, true);
    let machine = bare(folder);
    let after = |octets: &[u8]| has_text(octets, "olcReadOnly") && has_text(octets, "TRUE");
    let way = proxy::stalling(&slapd.url, after, |octets| has_text(octets, "contextCSN"));
    let follower = Follower::of(folder, &way, OF_SLAPD, &machine);
    let first = follower.start("first.log", &[]);
    first.wait_for("all is here after");
    let begun = std::time::Instant::now();
    let run = follower.run(&["--cut-over", "--within", "3"]);
    check_all(&run, 1, &["the lag did not end within 3 s"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!is_read_only(&slapd), "{run:?}");
}

/// Subentries, which searches show to who asks for them alone, and branches that move into and out
/// of what is followed.
#[test]
fn subentries_and_subtrees_that_move_over_the_border_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = bare_of(folder, "source", SUFFIX);
    let base = format!("ou=people,{SUFFIX}");
    let machine = bare_of(folder, "here", &base);
    let root = Root(ADMIN_DN, ADMIN_PASSWORD);
    let mut there = connect(&source.url(), root).unwrap();
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    for name in ["people", "out", "a,ou=people", "b,ou=a,ou=people", "c,ou=out", "d,ou=c,ou=out"] {
        assert!(there.add(&format!("ou={name},{SUFFIX}"), &unit).unwrap().is_success(), "{name}");
    }
    let policy = |name: &str| format!("cn={name},{base}");
    let classes = ["subentry", "pwdPolicy"];
    let values: [(&str, &[&str]); 4] = [
        ("objectClass", &classes),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdMinLength", &["5"]),
    ];
    for name in ["one", "two"] {
        let added = there.add(&policy(name), &values).unwrap();
        assert!(added.is_success(), "{added}");
    }
    let mut follower = Follower::of(folder, &source.url(), root, &machine);
    follower.source = format!("{}/{base}", source.url());
    let first = follower.start("first.log", &["--by", "changelog"]);
    first.wait_for("all is here after");
    assert!(has_entry(&machine, &policy("one")) && has_entry(&machine, &policy("two")));
    let change = [(ModifyOperation::Replace, "pwdMinLength", &["6"][..])];
    assert!(there.modify(&policy("one"), &change).unwrap().is_success());
    assert!(there.delete(&policy("two")).unwrap().is_success());
    let mut rename = |name: &str, new_superior: &str| {
        let new_rdn = name.split(',').next().unwrap();
        let new_superior = Some(new_superior);
        let rename = ModifyDnRequest { name, new_rdn, delete_old_rdn: true, new_superior };
        let done = there.request_with(Request::ModifyDn(rename), Controls::EMPTY).unwrap();
        assert!(done.is_success(), "{done}");
    };
    rename(&format!("ou=a,{base}"), &format!("ou=out,{SUFFIX}"));
    rename(&format!("ou=c,ou=out,{SUFFIX}"), &base);
    wait_for("what moved in", || has_entry(&machine, &format!("ou=d,ou=c,{base}")).then_some(()));
    drop(first);
    let more = ["--by", "changelog", "--cut-over", "--source-is-read-only"];
    let run = follower.run(&more);
    check_all(&run, 0, &["switched over", "; 0 entries were refused"]);
    assert!(!has_entry(&machine, &policy("two")) && !has_entry(&machine, &format!("ou=a,{base}")));
    let mut here = connect(&machine.url(), root).unwrap();
    let all = SearchFor::below(&base, Filter::Present("pwdMinLength"));
    let one = SearchFor { scope: Scope::Base, ..all };
    let found = here.search(&SearchFor { base: &policy("one"), ..one }).unwrap();
    assert_eq!(found.entries[0].text("pwdMinLength"), Some("6"));
}

/// The server here would end the connection over it, each time anew.
#[test]
fn an_entry_larger_than_a_request_is_refused_and_following_goes_on() {
    if !has(&["/usr/sbin/slapd", "/usr/lib/ldap/syncprov.so"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let slapd = Slapd::start(folder, 20, true);
    let machine = bare(folder);
    let mut there = slapd.connect().unwrap();
    let name = format!("uid=user.1,ou=people,{SUFFIX}");
    for letter in ["a", "b", "c", "d", "e", "f"] {
        let value = letter.repeat(3 << 20);
        let change = [(ModifyOperation::Add, "description", &[&*value][..])];
        let done = there.modify(&name, &change).unwrap();
        assert!(done.is_success(), "{done}");
    }
    let follower = Follower::of(folder, &slapd.url, OF_SLAPD, &machine);
    let first = follower.start("first.log", &[]);
    first.wait_for("all is here after");
    assert!(first.said().contains("larger than a request may be"), "{}", first.said());
    assert!(!has_entry(&machine, &name));
}
