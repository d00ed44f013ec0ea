//! Files of a data directory that were cut or are gone, as a copy that was not atomic or a repair
//! of the file system leaves them: every command says so, none is ended by a signal, and nothing
//! that was acknowledged is missing without a word.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the helpers of a test are a test, and servers live in real time"
)]

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testing::client::{Attributes, Client, Request, Search};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, SUFFIX, now, pause};

/// A server flushes what is ten seconds old: whatever was written in less is in the journal alone.
const BEFORE_FLUSH: Duration = Duration::from_secs(8);
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Written so often, with values of this length, a journal has three segments.
const PEOPLE: usize = 40;
const DESCRIPTION_BYTES: usize = 1 << 20;

fn place(folder: &Path) -> Place {
    let roster = PathBuf::from(env!("CARGO_BIN_EXE_roster"));
    Place { roster, folder: folder.to_owned(), environment: Vec::new() }
}

/// Ends with this code by itself, and says this.
#[track_caller]
fn check(place: &Place, arguments: &[&str], code: i32, want: &[&str]) -> String {
    // Into a file: an export is larger than a pipe.
    let told = place.folder.join("told");
    let out = File::create(&told).unwrap();
    let mut command = place.command(arguments);
    command.stdout(out.try_clone().unwrap()).stderr(out);
    let mut child = command.spawn().unwrap();
    let begin = now();
    while child.try_wait().unwrap().is_none() && begin.elapsed() < PATIENCE {
        pause(Duration::from_millis(5));
    }
    // A server that runs is one that did not notice.
    let _ = child.kill();
    let status = child.wait().unwrap();
    let text = fs::read_to_string(told).unwrap();
    let end = text.get(text.len().saturating_sub(2000)..).unwrap_or_default();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {status} {end}");
    for want in want {
        assert!(text.contains(want), "{arguments:?}:\n{end}\nlacks: {want}");
    }
    text
}

const SERVE: &[&str] = &["serve", "--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"];

/// No command goes on as if nothing was.
#[track_caller]
fn check_refused(place: &Place, want: &[&str]) {
    for command in [SERVE, &["check"], &["export"]] {
        check(place, command, 2, want);
    }
    let to = place.folder.join("backup");
    check(place, &["backup", "--to", to.to_str().unwrap()], 2, want);
}

fn person(number: usize, description_bytes: usize) -> Request {
    let name = format!("person {number}");
    let mut attributes = Attributes::new();
    for (attribute, value) in [
        ("objectClass", "person".to_owned()),
        ("cn", name.clone()),
        ("sn", name.clone()),
        ("description", "x".repeat(description_bytes)),
    ] {
        attributes.insert(attribute.to_owned(), [value].into());
    }
    Request::Add { dn: format!("cn={name},{SUFFIX}"), attributes }
}

fn add(place: &Place, numbers: std::ops::Range<usize>, description_bytes: usize) -> Duration {
    let running = place.start().unwrap();
    let mut client = Client::connect(running.address).unwrap();
    client.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
    let begin = now();
    for number in numbers {
        let answer = client.call(&person(number, description_bytes)).unwrap();
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    let time = begin.elapsed();
    drop(running);
    time
}

/// How many people there are, as clients see it; then the server is stopped.
fn people(place: &Place) -> usize {
    let running = place.start().unwrap();
    let mut client = Client::connect(running.address).unwrap();
    client.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
    let (base, filter) = (SUFFIX.to_owned(), "(objectClass=person)".to_owned());
    let found = client.search(&Search { base, scope: 2, filter, attributes: vec!["cn".into()] });
    running.stop().unwrap();
    found.unwrap().entries.len()
}

fn copy(from: &Path, to: &Path) -> Place {
    fs::create_dir_all(to).unwrap();
    let mut copying = Command::new("cp");
    copying.args(["-r", "--sparse=always"]).arg(from.join("data")).arg(to);
    assert!(copying.status().unwrap().success());
    place(to)
}

#[test]
fn a_data_file_that_was_cut_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    place.init().unwrap();
    add(&place, 0..200, 100);
    // Stopped as it should be: all is in the data file.
    assert_eq!(people(&place), 200);
    let file = place.data().join("data.mdb");
    let whole = fs::read(&file).unwrap();
    let length = whole.len() as u64;
    for left in [length - 8192, length / 2, 8192, 0] {
        fs::write(&file, &whole).unwrap();
        OpenOptions::new().write(true).open(&file).unwrap().set_len(left).unwrap();
        let want =
            ["data.mdb", "is damaged: it", "roster: hint: ", "restore the data from a backup"];
        check_refused(&place, &want);
        check(&place, &["check", "--accept-loss"], 2, &want);
        assert_eq!(fs::metadata(&file).unwrap().len(), left, "nothing is changed");
    }
    fs::remove_file(&file).unwrap();
    check_refused(&place, &["data.mdb", "it is missing"]);
    assert!(!file.exists());
    // Garbage where LMDB looks first.
    for at in [10, 4096 + 40] {
        let mut garbage = whole.clone();
        garbage[at..at + 60].fill(0xa7);
        fs::write(&file, &garbage).unwrap();
        check_refused(&place, &["data.mdb", "is damaged: its meta page"]);
    }
    fs::write(&file, &whole).unwrap();
    check(&place, &["check"], 0, &["no fault"]);
    assert_eq!(people(&place), 200);
}

/// A data directory of a server that was killed, with all that was acknowledged in the journal
/// alone.
fn killed() -> (tempfile::TempDir, Place) {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        place.init().unwrap();
        if add(&place, 0..PEOPLE, DESCRIPTION_BYTES) < BEFORE_FLUSH {
            return (folder, place);
        }
    }
    panic!("no journal could be written in less than {BEFORE_FLUSH:?}");
}

fn segments(place: &Place) -> Vec<PathBuf> {
    let listed = fs::read_dir(place.data().join("journal")).unwrap();
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "journal"));
    paths.sort();
    paths
}

#[test]
fn lost_segments_are_told_and_only_given_up_when_asked() {
    let (folder, whole) = killed();
    let names = segments(&whole);
    // Three that hold something, and the one that is made ahead.
    assert!(names.len() >= 4, "{names:?}");
    let held = names.len() - 1;
    let cases: Vec<(String, Vec<usize>)> = (0..held)
        .map(|gone| (format!("one-{gone}"), vec![gone]))
        .chain([
            ("newest".to_owned(), vec![held - 1, held]),
            ("all".to_owned(), (0..=held).collect()),
        ])
        .collect();
    for (name, gone) in cases {
        let place = copy(folder.path(), &folder.path().join(&name));
        let here = segments(&place);
        gone.iter().for_each(|at| fs::remove_file(&here[*at]).unwrap());
        let left = segments(&place);
        check_refused(&place, &["missing", "--accept-loss", "backup"]);
        assert_eq!(segments(&place), left, "nothing is changed");
        let told = check(&place, &["check", "--accept-loss"], 0, &["lost: ", "kept: ", "no fault"]);
        // What is left behind a gap is known to be lost.
        let is_range = told.contains("lost: records ");
        assert_eq!(is_range, gone.len() == 1 && gone[0] < held - 1, "{name}: {told}");
        let kept = people(&place);
        assert_eq!(kept == 0, gone.contains(&0), "{name}: {kept} people, {told}");
        assert!(kept < PEOPLE, "{name}: {kept}");
        assert!(place.data().join("journal-lost-1").is_dir());
        // It goes on like any other.
        add(&place, PEOPLE..PEOPLE + 3, 10);
        assert_eq!(people(&place), kept + 3);
        check(&place, &["check", "--accept-loss"], 0, &["nothing to accept", "no fault"]);
        check(&place, &["export"], 0, &["cn: person 42"]);
        assert!(!place.data().join("journal-lost-2").exists());
        fs::remove_dir_all(&place.folder).unwrap();
    }
    // The one that is made ahead holds nothing; the rest is whole.
    fs::remove_file(&names[held]).unwrap();
    assert_eq!(people(&whole), PEOPLE);
    check(&whole, &["check"], 0, &["no fault"]);
}

#[test]
fn a_journal_that_is_gone_or_an_old_one_is_noticed_after_a_proper_stop() {
    let folder = tempfile::tempdir().unwrap();
    let whole = place(folder.path());
    whole.init().unwrap();
    assert_eq!(people(&whole), 0);
    let journal = whole.data().join("journal");
    // As a copy has it that read the journal first.
    let early = folder.path().join("early");
    let copied = Command::new("cp").arg("-r").arg(&journal).arg(&early).status();
    assert!(copied.unwrap().success());
    add(&whole, 0..20, 10);
    assert_eq!(people(&whole), 20);
    fs::remove_dir_all(&journal).unwrap();
    check_refused(&whole, &["the journal is missing", "after record 2", "--accept-loss"]);
    fs::remove_dir_all(&journal).unwrap();
    fs::rename(&early, &journal).unwrap();
    check_refused(
        &whole,
        &["the end of the journal is missing: it ends with record", "--accept-loss"],
    );
    let want = ["how much is not known", "no fault"];
    check(&whole, &["check", "--accept-loss"], 0, &want);
    assert_eq!(people(&whole), 20);
    // A load while no server ran is no loss.
    let ldif = folder.path().join("more.ldif");
    let dn = format!("cn=more,{SUFFIX}");
    fs::write(&ldif, format!("dn: {dn}\nobjectClass: person\ncn: more\nsn: x\n")).unwrap();
    check(&whole, &["import", ldif.to_str().unwrap()], 0, &["imported 1"]);
    check(&whole, &["check"], 0, &["no fault"]);
    check(&whole, &["export"], 0, &["cn: more"]);
    assert_eq!(people(&whole), 21);
    check(&whole, &["check"], 0, &["no fault"]);
}
