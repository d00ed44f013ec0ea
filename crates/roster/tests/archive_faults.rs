//! An archive of changes that is damaged, cut, removed, foreign, or cannot be written: whoever
//! reads changes gets all of them from the first number on that the server names, or is told what
//! is wrong, and writes go on.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{have, roster};
use testing::client::{Attributes, Change, ChangeKind, Client, Request, Search};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running};

/// The entry that is changed.
const ENTRY: &str = "cn=x,dc=example,dc=com";
/// So many changes of about so many octets before and after are more than the journal keeps, and
/// make some files of the archive.
const CHANGES: u64 = 600;
const TEXT_BYTES: usize = 30_000;

/// What there is before anything is damaged.
struct Whole {
    folder: tempfile::TempDir,
    /// All changes: their CSNs by their numbers, which follow each other.
    first: u64,
    csns: Vec<String>,
    /// Where readers were before the changes.
    cookie: String,
    sync_cookie: String,
    time: String,
}

/// What is left to be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Left {
    /// All, from the first change on.
    All,
    /// What is behind the damage.
    Rest,
    /// All, or the rest where the journal does not have what was lost.
    Some,
    /// What is before the damage: readers are told that the rest cannot be read.
    Beginning,
}

fn place(folder: &Path) -> Place {
    let environment = [
        ("ROSTER_STORE__OVERLAY_MAX_MIB", "1"),
        ("ROSTER_STORE__JOURNAL_KEEP_MIB", "0"),
        ("ROSTER_ARCHIVE__MAX_MIB", "1"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let roster = PathBuf::from(env!("CARGO_BIN_EXE_roster"));
    Place { roster, folder: folder.to_owned(), environment: environment.into() }
}

fn enter(running: &Running) -> Client {
    let mut client = Client::connect(running.address).unwrap();
    client.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
    client
}

fn call(client: &mut Client, request: &Request) {
    let answer = client.call(request).unwrap();
    assert_eq!(answer.code, 0, "{}", answer.diagnostic);
}

fn describe(text: String) -> Request {
    let (kind, attribute) = (ChangeKind::Replace, "description".to_owned());
    let changes = vec![Change { kind, attribute, values: vec![text] }];
    Request::Modify { dn: ENTRY.to_owned(), changes }
}

/// An attribute of the root DSE.
fn root(client: &mut Client, name: &str) -> String {
    let found = client
        .search(&Search {
            base: String::new(),
            scope: 0,
            filter: "(objectClass=*)".to_owned(),
            attributes: vec![name.to_owned()],
        })
        .unwrap();
    found.entries[0].1[name].first().unwrap().clone()
}

fn number(client: &mut Client, name: &str) -> u64 {
    root(client, name).parse().unwrap()
}

/// What ldapsearch is answered: the code, the lines, and what is said about it.
struct Answer {
    code: i32,
    lines: String,
    said: String,
}

impl Answer {
    /// The values of an attribute.
    fn all(&self, name: &str) -> Vec<&str> {
        let value = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(": ").map(str::len);
        let lines = self.lines.lines();
        lines.filter_map(|line| value(line).map(|length| &line[line.len() - length..])).collect()
    }
}

fn ldapsearch(running: &Running, arguments: &[&str]) -> Answer {
    let output = Command::new("ldapsearch")
        .args(["-x", "-o", "ldif-wrap=no", "-H", &format!("ldap://{}", running.address)])
        .args(["-D", ADMIN_DN, "-w", ADMIN_PASSWORD])
        .args(arguments)
        .env("LDAPNOINIT", "1")
        .output()
        .unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (lines, errors) = (text(&output.stdout), text(&output.stderr));
    let result = lines.lines().find_map(|line| line.strip_prefix("result: "));
    let code = result.and_then(|line| line.split(' ').next()?.parse().ok());
    let said = lines.lines().filter(|line| line.starts_with("text: ")).collect::<String>();
    Answer { code: code.unwrap_or(-1), said: format!("{said}{errors}"), lines }
}

/// What a consumer is told.
fn synchronize(running: &Running, control: &str) -> Answer {
    let base = "dc=example,dc=com";
    ldapsearch(running, &["-b", base, "-E", control, "(cn=x)", "description"])
}

/// `roster` at a server, as its administrator.
fn tool(running: &Running, arguments: &[&str]) -> common::Run {
    let url = format!("ldap://{}", running.address);
    roster(&[arguments, &["-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD]].concat())
}

impl Whole {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        place.init().unwrap();
        let running = place.start().unwrap();
        let mut client = enter(&running);
        let attributes: Attributes = [("objectClass", "person"), ("cn", "x"), ("sn", "x")]
            .map(|(name, value)| (name.to_owned(), [value.to_owned()].into()))
            .into();
        call(&mut client, &Request::Add { dn: ENTRY.to_owned(), attributes });
        let cookie = root(&mut client, "lastExternalChangelogCookie");
        let synchronized = synchronize(&running, "sync=ro");
        let lines = synchronized.lines.lines();
        let sync_cookie =
            lines.filter_map(|line| line.split("cookie: ").nth(1)).next_back().unwrap();
        let time = now();
        while now() == time {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
        for round in 0..CHANGES {
            let text = format!("{round} {}", "long text ".repeat(TEXT_BYTES / 10));
            call(&mut client, &describe(text));
        }
        let first = number(&mut client, "firstChangeNumber");
        let told = ldapsearch(&running, &["-b", "cn=changelog", "-s", "one", "+"]);
        let csns = told.all("replicationCSN").into_iter().map(str::to_owned).collect();
        running.stop().unwrap();
        let sync_cookie = sync_cookie.to_owned();
        Self { folder, first, csns, cookie, sync_cookie, time }
    }

    /// A copy in which something is done to the archive; what `roster check` says of it.
    fn copy(&self, damage: impl FnOnce(&Path)) -> (tempfile::TempDir, common::Run) {
        let folder = tempfile::tempdir().unwrap();
        let copied = Command::new("cp")
            .args(["-r", "--sparse=always"])
            .arg(self.folder.path().join("data"))
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(copied.success());
        damage(&folder.path().join("data/archive"));
        let data = folder.path().join("data");
        let checked = roster(&["check", "--data", &data.display().to_string()]);
        (folder, checked)
    }

    /// All readers at a server whose archive was damaged.
    fn read(&self, name: &str, folder: &Path, left: Left) {
        let running = place(folder).start().unwrap();
        let mut client = enter(&running);
        let first = number(&mut client, "firstChangeNumber");
        match left {
            Left::All | Left::Beginning => assert_eq!(first, self.first, "{name}"),
            Left::Rest => assert!(first > self.first + 10, "{name}: {first}"),
            Left::Some => assert!(first >= self.first, "{name}"),
        }
        let is_readable = left != Left::Beginning;
        // Writes go on, and are told.
        call(&mut client, &describe(name.to_owned()));
        let last = number(&mut client, "lastChangeNumber");
        assert_eq!(last, self.first + self.csns.len() as u64, "{name}");
        let told = format!("(changeNumber={last})");
        let told = ldapsearch(&running, &["-b", "cn=changelog", "-s", "one", &told, "+"]);
        assert_eq!((told.code, told.all("replicationCSN").len()), (0, 1), "{name}: {}", told.said);
        let mut csns = self.csns.clone();
        csns.push(told.all("replicationCSN")[0].to_owned());
        let reads = Reads { name, running: &running, whole: self, first, csns, is_readable };
        reads.by_numbers();
        reads.by_cookie();
        reads.by_consumer();
        reads.by_commands(last);
        running.stop().unwrap();
    }
}

/// Readers of what is left.
struct Reads<'r> {
    name: &'r str,
    running: &'r Running,
    whole: &'r Whole,
    first: u64,
    /// All that there were.
    csns: Vec<String>,
    is_readable: bool,
}

impl Reads<'_> {
    /// Nobody is given less than all, unless he is told.
    fn judge(&self, told: &Answer, all: &[String], said: &str) {
        let Self { name, is_readable, .. } = *self;
        let (have, code) = (told.all("replicationCSN"), told.code);
        assert_eq!(code, if is_readable { 0 } else { 53 }, "{name}: {}", told.said);
        assert!(have.len() <= all.len() && have.iter().zip(all).all(|(a, b)| a == b), "{name}");
        assert_eq!(have.len() == all.len(), is_readable, "{name}: {} {}", have.len(), all.len());
        assert!(is_readable || told.said.contains(said), "{name}: {}", told.said);
    }

    fn by_numbers(&self) {
        let filter = "(changeNumber>=1)";
        let told = ldapsearch(self.running, &["-b", "cn=changelog", "-s", "one", filter, "+"]);
        let from = (self.first - self.whole.first) as usize;
        self.judge(&told, &self.csns[from..], "the archive cannot be read: 00000000");
    }

    fn by_cookie(&self) {
        let Self { name, running, whole, .. } = *self;
        let control = format!("!1.3.6.1.4.1.26027.1.5.4=:{}", whole.cookie);
        let filter = "(objectClass=changeLogEntry)";
        let told =
            ldapsearch(running, &["-b", "cn=changelog", "-E", &control, filter, "replicationCSN"]);
        if self.first > whole.first {
            assert_eq!((told.code, told.all("replicationCSN").len()), (53, 0), "{name}");
            let want = ["the cookie does not lead on: ", "is not kept any more; begin again with"];
            assert!(want.iter().all(|want| told.said.contains(want)), "{name}: {}", told.said);
        } else {
            let since = self.csns.len() - CHANGES as usize - 1;
            self.judge(&told, &self.csns[since..], "the archive cannot be read: 00000000");
        }
    }

    fn by_consumer(&self) {
        let control = format!("!sync=ro/{}", self.whole.sync_cookie);
        let told = synchronize(self.running, &control);
        let (name, last) = (self.name, told.all("description").last().copied());
        match told.code {
            // As it is now; where changes cannot be read, with all entries.
            0 => assert_eq!(last, Some(name), "{}", told.said),
            code => {
                let is_whole = self.is_readable && self.first == self.whole.first;
                assert_eq!((code, is_whole), (4096, false), "{name}: {}", told.said);
                assert!(told.said.contains("begin again"), "{name}: {}", told.said);
            }
        }
    }

    fn by_commands(&self, last: u64) {
        let Self { name, running, first, is_readable, .. } = *self;
        let is_all = is_readable && first == self.whole.first;
        let told = tool(running, &["changes", "--from", "1", "--once", "--json"]);
        let numbers: Vec<u64> = told
            .output
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["number"].as_u64().unwrap())
            .collect();
        let expected: Vec<u64> = (first..=last).collect();
        assert_eq!((told.code == 0, numbers == expected), (is_readable, is_readable), "{name}");
        let said = match is_readable {
            true => format!("the first change that the server has is {first}"),
            false => "the archive cannot be read: 00000000".to_owned(),
        };
        assert!(told.errors.contains(&said), "{name}: {}", told.errors);
        let told = tool(running, &["history", ENTRY]);
        let count = told.output.lines().filter(|line| line.contains(ENTRY)).count() as u64;
        let want = if is_all { CHANGES + 2 } else { last + 1 - first };
        assert_eq!((told.code == 0, count == want), (is_readable, is_readable), "{name}");
        assert!(is_readable || told.errors.contains("cannot be read"), "{name}: {}", told.errors);
        let told = tool(running, &["diff", "--at", &self.whole.time]);
        let (code, said) = match (is_all, is_readable) {
            (true, _) => (1, format!("description: {name}")),
            (false, true) => (2, "changes are kept from ".to_owned()),
            (false, false) => (2, "the archive cannot be read: 00000000".to_owned()),
        };
        assert_eq!(told.code, code, "{name}: {}", told.errors);
        let all = format!("{}{}", told.output, told.errors);
        assert!(all.contains(&said), "{name}: {}", told.errors);
    }
}

/// Now, as change logs write it.
fn now() -> String {
    let output = Command::new("date").args(["-u", "+%Y%m%d%H%M%SZ"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The files of an archive, from the oldest to the newest.
fn files(archive: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = all.filter(|path| path.extension().is_some()).collect();
    all.retain(|path| path.extension().is_some_and(|one| one == "changes"));
    all.sort_unstable();
    assert!(all.len() > 2, "{all:?}");
    all
}

/// Turns a bit of the second file: `at` is counted from its beginning, or from its end.
fn flip(archive: &Path, at: i64) {
    let file = OpenOptions::new().read(true).write(true).open(&files(archive)[1]).unwrap();
    let length = file.metadata().unwrap().len();
    let at = if at < 0 { length - at.unsigned_abs() } else { at.unsigned_abs() };
    let mut octet = [0];
    file.read_exact_at(&mut octet, at).unwrap();
    file.write_all_at(&[octet[0] ^ 4], at).unwrap();
}

fn has_tools() -> bool {
    have("ldapsearch", &["-VV"])
}

#[track_caller]
fn says(checked: &common::Run, code: i32, want: &str) {
    let said = format!("{}{}", checked.output, checked.errors);
    assert_eq!(checked.code, code, "{said}");
    assert!(said.contains(want), "{said}");
}

#[test]
fn damage_of_the_archive_is_told_to_every_reader() {
    if !has_tools() {
        return;
    }
    let whole = Whole::make();
    let (folder, checked) = whole.copy(|_| ());
    says(&checked, 0, "");
    whole.read("nothing", folder.path(), Left::All);
    // The header, a block's header and its payload, the index and the trailer.
    for (name, at, said, left) in [
        ("header", 20, "the checksum of its beginning is wrong", Left::Rest),
        ("frame", 4_096 + 30, "is damaged at octet 4096", Left::Beginning),
        ("payload", 4_096 + 90, "the checksum of a block is wrong", Left::Beginning),
        ("index", -80, "its index is damaged", Left::Beginning),
        // Its blocks are found without it.
        ("trailer", -20, "ends in what is no block", Left::All),
    ] {
        let (folder, checked) = whole.copy(|archive| flip(archive, at));
        says(&checked, 2, said);
        whole.read(name, folder.path(), left);
    }
}

#[test]
fn files_that_are_missing_cut_or_of_others_hide_nothing_in_silence() {
    if !has_tools() {
        return;
    }
    let whole = Whole::make();
    let remove = |archive: &Path, which: &dyn Fn(usize, usize) -> bool| {
        let all = files(archive);
        let gone = all.iter().enumerate().filter(|(at, _)| which(*at, all.len()));
        gone.for_each(|(_, path)| fs::remove_file(path).unwrap());
    };
    let (folder, checked) = whole.copy(|archive| remove(archive, &|at, _| at == 1));
    says(&checked, 0, "do not follow each other: what is before ");
    whole.read("middle", folder.path(), Left::Rest);
    let (folder, _) = whole.copy(|archive| remove(archive, &|at, _| at == 0));
    whole.read("oldest", folder.path(), Left::Rest);
    let (folder, _) = whole.copy(|archive| remove(archive, &|at, all| at + 1 == all));
    whole.read("newest", folder.path(), Left::Some);
    let (folder, _) = whole.copy(|archive| remove(archive, &|_, _| true));
    whole.read("all", folder.path(), Left::Rest);
    let (folder, _) = whole.copy(|archive| {
        let newest = files(archive).pop().unwrap();
        OpenOptions::new().write(true).open(newest).unwrap().set_len(9_000).unwrap();
    });
    whole.read("cut", folder.path(), Left::Some);
    // A file that a server was about to begin.
    let blank = |folder: &Path| folder.join("data/archive/0000000999.changes");
    let (folder, checked) =
        whole.copy(|archive| fs::write(archive.join("0000000999.changes"), "").unwrap());
    says(&checked, 0, "nothing was written to 0000000999.changes: ");
    whole.read("blank", folder.path(), Left::All);
    assert!(!blank(folder.path()).exists(), "it is removed");
    // One of another directory.
    let other = Whole::make();
    let (folder, checked) = whole.copy(|archive| {
        let foreign = &files(&other.folder.path().join("data/archive"))[0];
        fs::copy(foreign, archive.join("0000000999.changes")).unwrap();
    });
    says(&checked, 0, "0000000999.changes is of another directory, and is not read: remove it");
    whole.read("foreign", folder.path(), Left::All);
    assert!(blank(folder.path()).exists(), "it is left alone");
}

/// Something that is mounted, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// None where nothing can be mounted.
    fn at(path: &Path, arguments: &[&str]) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(arguments).arg(path).stderr(Stdio::null());
        let done = mount.status().is_ok_and(|status| status.success());
        if !done {
            eprintln!("skipped: nothing can be mounted (it takes root)");
        }
        done.then(|| Self(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn an_archive_that_cannot_be_written_is_checked_and_stops_nobody() {
    if !has_tools() {
        return;
    }
    let whole = Whole::make();
    let mut mounted = None;
    let (folder, checked) = whole.copy(|archive| {
        mounted = Mounted::at(archive, &["--bind", &archive.display().to_string()]);
        if mounted.is_some() {
            // The file that a server locks was never there.
            fs::remove_file(archive.join("archive.lock")).unwrap();
            mounted = mounted.take().filter(|_| {
                let mut again = Command::new("mount");
                again.args(["-o", "remount,bind,ro"]).arg(archive);
                again.status().is_ok_and(|status| status.success())
            });
        }
    });
    if mounted.is_none() {
        return;
    }
    says(&checked, 0, "");
    // The journal alone is read.
    whole.read("protected", folder.path(), Left::Rest);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("archive") && log.contains("Read-only file system"), "{log}");
}

#[test]
fn a_full_disk_of_the_archive_stops_nobody() {
    if !has_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("small");
    fs::create_dir(&disk).unwrap();
    let Some(_mounted) = Mounted::at(&disk, &["-t", "tmpfs", "-o", "size=256k", "none"]) else {
        return;
    };
    let mut place = place(folder.path());
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    place.environment.push(set("ROSTER_ARCHIVE__DIRECTORY", &disk.display().to_string()));
    place.environment.push(set("ROSTER_ARCHIVE__MAX_PERCENT", "100"));
    place.environment.push(set("ROSTER_STORE__DISK_LOW_MIB", "0"));
    place.environment.push(set("ROSTER_STORE__DISK_FULL_MIB", "0"));
    place.init().unwrap();
    // Somebody else's file leaves room for a few blocks.
    let filler = disk.join("filler");
    fs::write(&filler, vec![1; 200 << 10]).unwrap();
    let running = place.start().unwrap();
    let mut client = enter(&running);
    let attributes: Attributes = [("objectClass", "person"), ("cn", "x"), ("sn", "x")]
        .map(|(name, value)| (name.to_owned(), [value.to_owned()].into()))
        .into();
    call(&mut client, &Request::Add { dn: ENTRY.to_owned(), attributes });
    let write = |client: &mut Client, count: u64| {
        for round in 0..count {
            let text = format!("{round} {}", "long text ".repeat(TEXT_BYTES / 10));
            call(client, &describe(text));
        }
    };
    write(&mut client, CHANGES);
    let is_whole = |running: &Running, client: &mut Client| {
        let first = number(client, "firstChangeNumber");
        let told = ldapsearch(running, &["-b", "cn=changelog", "-s", "one", "changeNumber"]);
        assert_eq!(told.code, 0, "{}", told.said);
        let last = number(client, "lastChangeNumber");
        let numbers: Vec<u64> =
            told.all("changeNumber").iter().map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers, (first..=last).collect::<Vec<_>>());
    };
    is_whole(&running, &mut client);
    let failed = |running: &Running| {
        let base = ["-b", "cn=archive,cn=monitor", "-s", "base", "*", "+"];
        let told = ldapsearch(running, &base);
        told.all("roster-archive-failed").first().map(|failed| (*failed).to_owned())
    };
    let until = |want: &str| {
        for _ in 0..600 {
            if failed(&running).as_deref() == Some(want) {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
        panic!("roster-archive-failed does not get {want}: {:?}", failed(&running));
    };
    until("1");
    fs::remove_file(&filler).unwrap();
    until("0");
    write(&mut client, 20);
    is_whole(&running, &mut client);
    running.stop().unwrap();
    let data = place.data().display().to_string();
    let checked = roster(&["check", "--data", &data, "--archive", &disk.display().to_string()]);
    says(&checked, 0, "");
}
