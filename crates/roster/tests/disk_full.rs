//! A disk that is really full: a small file system, filled by somebody else's file.
//!
//! Mounting needs root; where it is not allowed the tests say so and pass.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "the helpers of a test are a test, and a disk is full in real time"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testing::client::{Answer, Attributes, Change, ChangeKind, Client, Request, Search};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running, SUFFIX};

/// Size of the file system: two segments of the journal, the database, and room to play with.
const DISK_MIB: u64 = 512;
/// How long a server may take to notice that there is room again.
const PATIENCE: Duration = Duration::from_secs(120);
/// unwillingToPerform: the answer to a write for which there is no room.
const NO_ROOM: i64 = 53;
/// Codes that say that nothing was done: busy, unavailable, unwillingToPerform.
const NOT_DONE: [i64; 3] = [51, 52, NO_ROOM];

/// A small file system at `place.data()`, unmounted when dropped.
struct SmallDisk {
    place: Place,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where nothing can be mounted.
    fn mount(settings: &[(&str, &str)]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
            folder: folder.path().to_owned(),
            environment: settings
                .iter()
                .map(|(n, v)| (format!("ROSTER_STORE__{n}"), (*v).to_owned()))
                .collect(),
        };
        fs::create_dir(place.data()).unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(DISK_MIB << 20).unwrap();
        let made = run("mkfs.ext4", &["-q", "-F", "-m", "0", "-O", "^has_journal"], &image)
            && run("mount", &["-o", "loop", &image.display().to_string()], &place.data());
        let size = format!("size={DISK_MIB}m");
        if !made && !run("mount", &["-t", "tmpfs", "-o", &size, "none"], &place.data()) {
            eprintln!("skipped: a small file system cannot be mounted (it takes root)");
            return None;
        }
        // What a new file system holds is no data.
        let _ = fs::remove_dir(place.data().join("lost+found"));
        place.init().unwrap();
        Some(Self { place, _folder: folder })
    }

    /// Takes room away until so much is left.
    fn leave_mib(&self, mib: u64) {
        self.free();
        let room = self.free_mib().saturating_sub(mib);
        let length = format!("{room}MiB");
        assert!(run("fallocate", &["-l", &length], &self.filler()), "{length}");
    }

    /// Gives the room back.
    fn free(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.place.data().join("filler")
    }

    fn free_mib(&self) -> u64 {
        let output = Command::new("df")
            .args(["--output=avail", "-B1048576"])
            .arg(self.place.data())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().last().unwrap().trim().parse().unwrap()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.place.data());
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn enter(running: &Running) -> Client {
    let mut client = Client::connect(running.address).unwrap();
    client.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
    client
}

fn dn(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

fn person(name: &str, description: &str) -> Request {
    let mut attributes = Attributes::new();
    for (attribute, value) in [
        ("objectClass", "person"),
        ("cn", name),
        ("sn", name),
        ("userPassword", "first password"),
        ("description", description),
    ] {
        attributes.insert(attribute.to_owned(), [value.to_owned()].into());
    }
    Request::Add { dn: dn(name), attributes }
}

fn describe(name: &str, description: &str) -> Request {
    let (attribute, values) = ("description".to_owned(), vec![description.to_owned()]);
    Request::Modify {
        dn: dn(name),
        changes: vec![Change { kind: ChangeKind::Replace, attribute, values }],
    }
}

fn search(client: &mut Client, filter: &str, attributes: &[&str]) -> Vec<(String, Attributes)> {
    let attributes = attributes.iter().map(|name| (*name).to_owned()).collect();
    let (base, filter) = (SUFFIX.to_owned(), filter.to_owned());
    let found = client.search(&Search { base, scope: 2, filter, attributes }).unwrap();
    assert_eq!(found.code, 0, "{}", found.diagnostic);
    found.entries
}

/// All common names.
fn names(client: &mut Client) -> BTreeSet<String> {
    let found = search(client, "(objectClass=person)", &["cn"]);
    found.iter().map(|(_, one)| one["cn"].first().unwrap().clone()).collect()
}

/// Descriptions by common name.
fn read(client: &mut Client, filter: &str) -> BTreeMap<String, String> {
    let entries = search(client, filter, &["cn", "description"]);
    let first = |attributes: &Attributes, name: &str| attributes[name].first().unwrap().clone();
    entries.iter().map(|(_, one)| (first(one, "cn"), first(one, "description"))).collect()
}

/// Repeats a request until it is answered as wanted.
#[track_caller]
fn until(client: &mut Client, request: &Request, wanted: i64) -> Answer {
    let begin = Instant::now();
    loop {
        let answer = client.call(request).unwrap();
        if answer.code == wanted {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "still answered {answer:?} instead of {wanted}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn writes_stop_before_the_disk_is_full_and_go_on_by_themselves() {
    let settings = [("DISK_LOW_MIB", "60"), ("DISK_FULL_MIB", "30"), ("JOURNAL_KEEP_MIB", "0")];
    let Some(disk) = SmallDisk::mount(&settings) else { return };
    let running = disk.place.start().unwrap();
    let mut admin = enter(&running);
    assert_eq!(admin.call(&person("one", "before")).unwrap().code, 0);
    let mut own = Client::connect(running.address).unwrap();
    own.bind(&dn("one"), "first password").unwrap();
    let password =
        |old: &str, new: &str| Request::Password { old: old.to_owned(), new: new.to_owned() };
    assert_eq!(own.call(&password("first password", "second password")).unwrap().code, 0);

    // Little room: only the administrator may write.
    disk.leave_mib(45);
    let answer = until(&mut admin, &describe("one", "little room"), 0);
    assert_eq!(answer.code, 0);
    let answer = until(&mut own, &password("second password", "second password"), NO_ROOM);
    assert!(answer.diagnostic.contains("MiB"), "{answer:?}");
    assert_eq!(admin.call(&person("two", "little room")).unwrap().code, 0);

    // No room: nobody may, and reads go on.
    disk.leave_mib(15);
    let answer = until(&mut admin, &describe("one", "no room"), NO_ROOM);
    assert!(answer.diagnostic.contains("MiB"), "{answer:?}");
    assert_eq!(admin.call(&person("three", "no room")).unwrap().code, NO_ROOM);
    let before = read(&mut admin, "(objectClass=person)");
    assert_eq!(before.len(), 2, "{before:?}");

    // Room again: writes go on without anybody's help.
    disk.free();
    until(&mut admin, &describe("one", "room again"), 0);
    until(&mut own, &password("second password", "third password"), 0);
    let after = read(&mut admin, "(objectClass=person)");
    assert_eq!(after["one"], "room again");
    assert_eq!(after["two"], "little room");
    assert!(running.stop().unwrap().success());
    let checked = disk.place.offline(&["check"]).unwrap();
    assert!(checked.contains("no fault"), "{checked}");
}

/// What a client knows while the disk is full.
#[derive(Default)]
struct Known {
    /// Acknowledged.
    there: BTreeMap<String, String>,
    /// Answered with a code that says that nothing was done.
    refused: Vec<String>,
    next: u32,
}

impl Known {
    /// Adds people with long descriptions until one of them is refused.
    fn fill(&mut self, client: &mut Client, description_bytes: usize) -> Answer {
        loop {
            let name = format!("p{}", self.next);
            self.next += 1;
            let description = format!("{name} {}", "x".repeat(description_bytes));
            let answer = client.call(&person(&name, &description)).unwrap();
            match answer.code {
                0 => {
                    self.there.insert(name, description);
                }
                code if NOT_DONE.contains(&code) => {
                    assert!(!answer.diagnostic.is_empty());
                    self.refused.push(name);
                    return answer;
                }
                _ => panic!("{answer:?}"),
            }
        }
    }

    /// Everybody who was acknowledged is there and nobody else; values are compared for those
    /// whose answers came last.
    #[track_caller]
    fn compare(&self, client: &mut Client, when: &str) {
        let names = names(client);
        let missing: Vec<&String> = self.there.keys().filter(|one| !names.contains(*one)).collect();
        assert!(missing.is_empty(), "{when}: {missing:?} of {}", self.there.len());
        assert_eq!(names.len(), self.there.len(), "{when}: refused {:?}", self.refused);
        let newest = format!("(cn=p{}*)", self.next / 10);
        for (name, description) in read(client, &format!("(|(cn=a)(cn=b){newest})")) {
            assert_eq!(self.there.get(&name), Some(&description), "{when}: {name}");
        }
    }
}

#[test]
fn a_fast_writer_does_not_overrun_the_guard() {
    let settings = [("DISK_LOW_MIB", "60"), ("DISK_FULL_MIB", "60"), ("JOURNAL_KEEP_MIB", "0")];
    let Some(disk) = SmallDisk::mount(&settings) else { return };
    let running = disk.place.start().unwrap();
    let mut client = enter(&running);
    let mut known = Known::default();
    disk.leave_mib(120);
    let answer = known.fill(&mut client, 900_000);
    assert_eq!(answer.code, NO_ROOM, "{answer:?}");
    assert!(answer.diagnostic.contains("MiB"), "{answer:?}");
    // A segment, what was under way, and pages of the data file that are written anew.
    assert!(disk.free_mib() >= 20, "{} MiB left", disk.free_mib());
    disk.free();
    until(&mut client, &describe("p0", "room again"), 0);
    known.there.insert("p0".to_owned(), "room again".to_owned());
    known.compare(&mut client, "with room again");
    assert!(running.stop().unwrap().success());
}

/// Fills the disk while the server serves, gives room back, fills it again, kills the server.
fn fill_and_free(overlay_max_mib: &str, description_bytes: usize) {
    let settings = [
        ("DISK_LOW_MIB", "0"),
        ("DISK_FULL_MIB", "0"),
        ("JOURNAL_KEEP_MIB", "0"),
        ("OVERLAY_MAX_MIB", overlay_max_mib),
    ];
    let Some(disk) = SmallDisk::mount(&settings) else { return };
    let running = disk.place.start().unwrap();
    let mut client = enter(&running);
    let mut known = Known::default();
    for name in ["a", "b"] {
        assert_eq!(client.call(&person(name, "before")).unwrap().code, 0);
        known.there.insert(name.to_owned(), "before".to_owned());
    }
    disk.leave_mib(10);
    let answer = known.fill(&mut client, description_bytes);
    eprintln!("full: {answer:?}");
    known.compare(&mut client, "full");
    disk.free();
    until(&mut client, &describe("a", "room again"), 0);
    known.there.insert("a".to_owned(), "room again".to_owned());
    known.compare(&mut client, "with room again");

    // Killed while it is full: what was acknowledged is there, at the latest with room again.
    disk.leave_mib(10);
    known.fill(&mut client, description_bytes);
    running.kill().unwrap();
    let running = match disk.place.start() {
        Ok(running) => running,
        Err(reason) => {
            let reason = reason.to_string();
            assert!(reason.contains("MiB left, a start takes up to"), "{reason}");
            disk.free();
            disk.place.start().unwrap()
        }
    };
    let mut client = enter(&running);
    known.compare(&mut client, "after a kill");
    disk.free();
    until(&mut client, &describe("b", "the end"), 0);
    known.there.insert("b".to_owned(), "the end".to_owned());
    assert!(running.stop().unwrap().success());
    let checked = disk.place.offline(&["check"]).unwrap();
    assert!(checked.contains("no fault"), "{checked}");
    let running = disk.place.start().unwrap();
    known.compare(&mut enter(&running), "after a stop");
}

#[test]
fn no_room_for_the_database_loses_nothing() {
    // The overlay is full long before the journal.
    fill_and_free("8", 100_000);
}

#[test]
fn no_room_for_the_journal_loses_nothing() {
    // The journal's segments are full long before the overlay.
    fill_and_free("4096", 500_000);
}
