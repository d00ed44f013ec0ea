//! Backups of real servers under load: what was acknowledged is in them, and comes back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod demo;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Run, check, roster};
use demo::Demo;
use environment::{Clock as _, SystemClock};
use ldap3::{LdapConn, Mod};

const PEOPLE: &str = "ou=people,dc=example,dc=com";

/// A served directory with a place for backups and restored directories beside it.
struct Place {
    folder: tempfile::TempDir,
    demo: Option<Demo>,
}

impl Place {
    fn start(entries: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data").display().to_string();
        // So little memory that the base is written again and again.
        let settings = [("ROSTER_STORE__OVERLAY_MAX_MIB", "1")];
        let demo = Some(Demo::start_set(entries, &["--data", &data], &settings));
        Self { folder, demo }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn connect(&self) -> LdapConn {
        let demo = self.demo.as_ref().unwrap();
        let mut connection = LdapConn::new(&demo.url("ldap")).unwrap();
        connection.simple_bind(&demo.admin_dn, &demo.admin_password).unwrap().success().unwrap();
        connection
    }

    fn backup(&self, more: &[&str]) -> Run {
        let (data, to) = (self.path("data"), self.path("backup"));
        roster(&[&["backup", "--data", &data, "--to", &to][..], more].concat())
    }

    /// Takes a backup, which must succeed; returns the last record and until when it is complete.
    #[track_caller]
    fn take(&self, more: &[&str]) -> Taken {
        let run = self.backup(more);
        assert_eq!(run.code, 0, "{run:?}");
        let words: Vec<&str> = run.output.lines().last().unwrap().split_whitespace().collect();
        let at = words.iter().position(|word| *word == "record").unwrap();
        let lsn = words[at + 1].trim_end_matches(',').parse().unwrap();
        let until = (*words.last().unwrap()).to_owned();
        Taken { lsn, until, output: run.output, notes: run.errors }
    }

    /// Restores the backup, which must succeed, into a new directory that is clean.
    #[track_caller]
    fn restore(&self, name: &str, more: &[&str]) -> String {
        let (from, data) = (self.path("backup"), self.path(name));
        succeed(&[&["restore", "--from", &from, "--data", &data][..], more].concat());
        let checked = succeed(&["check", "--data", &data]);
        assert!(checked.contains("no fault"), "{checked}");
        data
    }
}

struct Taken {
    lsn: u64,
    until: String,
    output: String,
    notes: String,
}

#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let Run { code, output, errors } = roster(arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}: {output}");
    output
}

fn export(data: &str) -> String {
    succeed(&["export", "--data", data])
}

/// Adds `cn=NAME-0`, `cn=NAME-1` and so on until it is told to stop.
struct Adder {
    name: &'static str,
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Adder {
    fn start(place: &Place, name: &'static str) -> Self {
        let mut connection = place.connect();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (count, ends) = (Arc::clone(&acknowledged), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for number in 0.. {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let dn = format!("cn={name}-{number},{PEOPLE}");
                let set = |value: &str| HashSet::from([value.to_owned()]);
                let attributes = vec![
                    ("objectClass".to_owned(), set("person")),
                    ("sn".to_owned(), set(name)),
                    ("description".to_owned(), set(&"x".repeat(200))),
                ];
                connection.add(&dn, attributes).unwrap().success().unwrap();
                count.fetch_add(1, Ordering::Release);
            }
        });
        Self { name, acknowledged, stop, thread }
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Waits until `more` further entries were acknowledged.
    fn wait(&self, more: u64) {
        let wanted = self.acknowledged() + more;
        wait_until("entries are added", || self.acknowledged() >= wanted);
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }

    /// How many of the entries an export has: the first so many, and no others.
    #[track_caller]
    fn count(&self, ldif: &str) -> u64 {
        let prefix = format!("dn: cn={}-", self.name);
        let numbers: HashSet<u64> = ldif
            .lines()
            .filter_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok())
            .collect();
        let count = numbers.len() as u64;
        assert!((0..count).all(|number| numbers.contains(&number)), "{} has a gap", self.name);
        count
    }
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    let begin = clock.elapsed();
    while !is_so() {
        assert!(clock.elapsed() - begin < Duration::from_secs(300), "waited too long until {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_backup_under_load_has_all_that_was_acknowledged_before_it_began() {
    let mut place = Place::start(300);
    let adders = ["one", "two"].map(|name| Adder::start(&place, name));
    adders.iter().for_each(|adder| adder.wait(300));
    let before = adders.each_ref().map(Adder::acknowledged);
    let first = place.take(&[]);
    assert!(first.output.starts_with("full backup of "), "{}", first.output);
    let restored = export(&place.restore("first", &[]));
    for (adder, before) in adders.iter().zip(before) {
        assert!(adder.count(&restored) >= before, "{} of {before}", adder.count(&restored));
    }

    adders.iter().for_each(|adder| adder.wait(300));
    let before = adders.each_ref().map(Adder::acknowledged);
    let second = place.take(&[]);
    assert!(second.output.contains(" records added: "), "{} {}", second.output, second.notes);
    assert!(second.lsn > first.lsn);
    let verified = succeed(&["backup", "--verify", &place.path("backup")]);
    assert!(verified.starts_with("no fault: "), "{verified}");
    let restored = export(&place.restore("second", &[]));
    for (adder, before) in adders.iter().zip(before) {
        assert!(adder.count(&restored) >= before, "{} of {before}", adder.count(&restored));
    }
    adders.into_iter().for_each(Adder::stop);

    // A last one at rest is the directory itself, whatever the server had in memory only.
    let online = export(&place.path("data"));
    place.take(&[]);
    place.demo = None;
    let offline = export(&place.path("data"));
    assert_eq!(online, offline);
    assert_eq!(export(&place.restore("third", &[])), offline);
}

#[test]
fn every_point_of_a_backup_can_be_restored() {
    let place = Place::start(20);
    let mut connection = place.connect();
    let mut states = Vec::new();
    for round in 0..3 {
        let dn = format!("uid=user.{},{PEOPLE}", round + 1);
        let title = HashSet::from([format!("round {round}")]);
        connection.modify(&dn, vec![Mod::Replace("title".to_owned(), title)]).unwrap();
        if round == 1 {
            connection.delete(&format!("uid=user.9,{PEOPLE}")).unwrap().success().unwrap();
            let name = format!("uid=user.8,{PEOPLE}");
            connection.modifydn(&name, "uid=renamed", true, None).unwrap().success().unwrap();
        }
        let taken = place.take(&[]);
        states.push((taken, export(&place.path("data"))));
    }
    for (round, (taken, state)) in states.iter().enumerate() {
        let lsn = taken.lsn.to_string();
        let data = place.restore(&format!("lsn-{round}"), &["--to-lsn", &lsn]);
        assert!(export(&data) == *state, "up to record {lsn}");
        let data = place.restore(&format!("time-{round}"), &["--to-time", &taken.until]);
        assert!(export(&data) == *state, "up to {}", taken.until);
    }
    let data = place.path("beyond");
    let base = ["restore", "--from", &place.path("backup"), "--data", &data];
    let last = states.last().unwrap().0.lsn;
    for lsn in [0, last + 1] {
        let run = roster(&[&base[..], &["--to-lsn", &lsn.to_string()]].concat());
        assert_eq!(run.code, 2);
        assert!(run.errors.contains("can be restored to any point from "), "{}", run.errors);
        assert!(run.errors.contains(&format!(" to {last}\nroster: hint: ")), "{}", run.errors);
    }
    check(&[&base[..], &["--to-time", "29991231000000Z"]].concat(), 2, "to any point");
    check(&[&base[..], &["--to-time", "yesterday"]].concat(), 2, "is not a time such as");
    assert!(!Path::new(&data).exists());
}

#[test]
fn a_restored_directory_goes_its_own_way() {
    let mut place = Place::start(20);
    place.take(&[]);
    place.demo = None;
    let restored = place.restore("restored", &[]);
    let (backup, data) = (place.path("backup"), place.path("data"));
    check(&["restore", "--from", &backup, "--data", &restored], 2, "is not empty");
    let again = ["backup", "--data", &restored, "--to", &backup];
    check(&again, 2, "is of another store, or of this one before it was restored");
    // The first directory still adds to it, and the other takes it over when it must.
    assert!(place.take(&[]).output.starts_with("0 records added: "));
    assert!(succeed(&[&again[..], &["--full"]].concat()).starts_with("full backup of 22 entries"));
    let old = ["backup", "--data", &data, "--to", &backup];
    check(&old, 2, "choose another directory");
    for name in ["admin-password", "tls/certificate.pem"] {
        let read = |data: &str| fs::read(Path::new(data).join(name)).unwrap_or_default();
        assert_eq!(read(&restored), read(&data), "{name}");
    }
    // It serves, and takes writes.
    let folder = place.folder.path().join("restored").display().to_string();
    let demo = Demo::start_with(1, &["--data", &folder]);
    let mut connection = LdapConn::new(&demo.url("ldap")).unwrap();
    let found = connection.search(PEOPLE, ldap3::Scope::Subtree, "(uid=user.7)", vec!["cn"]);
    assert_eq!(found.unwrap().0.len(), 1);
}

#[test]
fn places_that_will_not_do_are_refused() {
    let place = Place::start(5);
    let data = place.path("data");
    check(&["backup", "--data", &data, "--to", &format!("{data}/backup")], 2, "lies within");
    let other = place.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(format!("{other}/file"), "of mine").unwrap();
    check(&["backup", "--data", &data, "--to", &other], 2, "is not part of a backup");
    check(&["backup", "--data", &other, "--to", &data], 2, "roster: error: ");
    check(&["backup", "--verify", &other], 2, "there is no backup in");
    check(&["restore", "--from", &other, "--data", &place.path("new")], 2, "there is no backup");
    check(&["backup", "--data", &data], 2, "--to <DIR>");
    check(&["backup", "--verify", &other, "--full"], 2, "roster: error: ");
}

#[test]
fn damage_is_found_before_anything_is_restored() {
    let place = Place::start(20);
    place.take(&[]);
    let mut connection = place.connect();
    for number in 0..20 {
        let dn = format!("uid=user.{number},{PEOPLE}");
        let title = HashSet::from(["damaged".to_owned()]);
        connection.modify(&dn, vec![Mod::Replace("title".to_owned(), title)]).unwrap();
    }
    place.take(&[]);
    let backup = place.path("backup");
    let data = place.path("new");
    let mut parts: Vec<PathBuf> = fs::read_dir(&backup)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("lock"))
        .collect();
    parts.sort();
    assert!(parts.len() >= 4, "{parts:?}");
    for part in parts {
        let whole = fs::read(&part).unwrap();
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x10;
        let name = part.file_name().unwrap().to_str().unwrap();
        for damaged in [Some(&flipped[..]), Some(&whole[..middle]), None] {
            match damaged {
                Some(octets) => fs::write(&part, octets).unwrap(),
                None => fs::remove_file(&part).unwrap(),
            }
            let want = if damaged.is_none() && name == "manifest.json" { &backup } else { name };
            check(&["backup", "--verify", &backup], 2, want);
            check(&["restore", "--from", &backup, "--data", &data], 2, want);
            assert!(!Path::new(&data).exists(), "{name}");
        }
        fs::write(&part, whole).unwrap();
    }
    succeed(&["backup", "--verify", &backup]);
}

#[test]
fn an_interrupted_backup_leaves_the_one_before() {
    let place = Place::start(3000);
    let first = place.take(&[]);
    let (data, to) = (place.path("data"), place.path("backup"));
    for run in 0..4 {
        let arguments = ["backup", "--data", &data, "--to", &to, "--full"];
        let mut child = common::command(&arguments).spawn().unwrap();
        let is_begun = || {
            fs::read_dir(&to)
                .unwrap()
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("base-"))
                .count()
                > 1
        };
        // At another moment each time: the copy has begun, or goes on for a while.
        wait_until("the copy begins", || is_begun() || child.try_wait().unwrap().is_some());
        std::thread::park_timeout(Duration::from_millis(run * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        succeed(&["backup", "--verify", &to]);
    }
    let last = place.take(&[]);
    assert_eq!(last.lsn, first.lsn);
    // What the interrupted runs left is gone.
    let bases = fs::read_dir(&to).unwrap().flatten();
    let bases = bases.filter(|entry| entry.file_name().to_string_lossy().starts_with("base-"));
    assert_eq!(bases.count(), 1);
}

#[test]
fn an_export_of_a_served_directory_is_one_point_in_time() {
    let place = Place::start(100);
    let adder = Adder::start(&place, "other");
    let mut connection = place.connect();
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let (ends, count) = (Arc::clone(&stop), Arc::clone(&written));
    // The second entry follows the first: never is it ahead, never more than one behind.
    let writer = std::thread::spawn(move || {
        for number in 1_u64.. {
            for uid in ["user.1", "user.2"] {
                let dn = format!("uid={uid},{PEOPLE}");
                let value = HashSet::from([number.to_string()]);
                let change = vec![Mod::Replace("employeeNumber".to_owned(), value)];
                connection.modify(&dn, change).unwrap().success().unwrap();
            }
            count.store(number, Ordering::Release);
            if ends.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    for _ in 0..4 {
        let before = written.load(Ordering::Acquire);
        wait_until("there are writes", || written.load(Ordering::Acquire) > before + 5);
        let (before, added) = (written.load(Ordering::Acquire), adder.acknowledged());
        let ldif = export(&place.path("data"));
        let number = |uid: &str| -> u64 {
            let entry =
                ldif.split("\n\n").find(|entry| entry.starts_with(&format!("dn: uid={uid},")));
            let mut lines = entry.unwrap().lines();
            let value = lines.find_map(|line| line.strip_prefix("employeeNumber: ")).unwrap();
            value.parse().unwrap()
        };
        let (first, second) = (number("user.1"), number("user.2"));
        assert!(second >= before, "{second} is older than {before}");
        assert!(first == second || first == second + 1, "{first} and {second} do not fit");
        assert!(adder.count(&ldif) >= added);
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    adder.stop();
}
