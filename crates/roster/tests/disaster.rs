//! What is left of a cluster, and what was saved of it: going on after a lost majority, backups of
//! members, and restoring them. All as real processes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::SearchFor;
use common::{Run, command, roster};
use ldap::filter::Filter;
use ldap::message::Scope;
use machine::{Machine, PERSON, three, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, pause};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn recover(data: &Path, more: &[&str]) -> Run {
    let data = data.display().to_string();
    roster(&[&["cluster", "recover", "--data", &data], more].concat())
}

/// How many tokens a server knows.
fn tokens(machine: &Machine) -> usize {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["roster-join-token"],
        ..SearchFor::below("cn=Join Tokens,cn=config", Filter::Present("objectClass"))
    };
    let found = machine.connect().unwrap().search(&asked).unwrap();
    found.entries[0].attributes.iter().map(|(_, values)| values.len()).sum()
}

#[test]
fn what_is_left_of_a_lost_majority_goes_on_as_a_new_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let [mut one, mut two, mut three] = three(folder.path());
    let token = one.token(&["--valid", "60"]);
    three.set_title("all have it");
    wait_for("it is there", || (two.title()? == "all have it").then_some(()));
    // As a server uses it, nothing is done.
    let run = recover(&two.data, &["--force"]);
    assert!(run.code != 0 && run.errors.contains("stop the process"), "{run:?}");
    one.kill();
    three.kill();
    two.kill();
    // Looking says what there is, and changes nothing.
    let run = recover(&two.data, &[]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.output.contains("what may be lost: changes after"), "{run:?}");
    assert!(run.output.contains(&one.address) && run.output.contains(&three.address), "{run:?}");
    let told: Value = serde_json::from_str(&recover(&two.data, &["--json"]).output).unwrap();
    assert_eq!(told["others"].as_array().unwrap().len(), 2, "{told}");
    two.serve();
    assert_eq!(two.roles().len(), 3);
    two.kill();
    // Ended when it has put the journal aside: nothing starts on that, and nothing is lost.
    let half = folder.path().join("half");
    copy(&two.data, &half);
    fs::rename(half.join("journal"), half.join("journal-lost-1")).unwrap();
    let data = half.to_str().unwrap();
    let run = roster(&["serve", "--data", data]);
    assert!(run.code != 0 && run.errors.contains("journal is missing"), "{run:?}");
    let again: Value = serde_json::from_str(&recover(&half, &["--json"]).output).unwrap();
    assert_eq!((&again["last_lsn"], &again["damage"]), (&told["last_lsn"], &Value::Null));
    let run = recover(&half, &["--force"]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = roster(&["export", "--data", data, "uid=anna", "title"]);
    assert!(run.output.contains("title: all have it"), "{run:?}");
    // It is ended at any moment, and done again.
    for round in 0..8 {
        let again = folder.path().join(format!("again-{round}"));
        copy(&two.data, &again);
        let words = ["cluster", "recover", "--force", "--data", again.to_str().unwrap()];
        let mut killed = command(&words).spawn().unwrap();
        pause(Duration::from_millis(5 * round));
        let _ = killed.kill();
        let was_done = killed.wait().unwrap().success();
        let run = recover(&again, &["--force"]);
        let is_over = run.errors.contains("not that of a member of a cluster");
        assert!(run.code == 0 || is_over, "{round} {was_done}: {run:?}");
        let run = roster(&["check", "--data", again.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{round}: {run:?}");
        fs::remove_dir_all(&again).unwrap();
    }
    let run = recover(&two.data, &["--force"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.output.contains("of a new cluster now"), "{run:?}");
    two.serve();
    assert_eq!(two.title().as_deref(), Some("all have it"));
    two.set_title("alone");
    assert_eq!(
        two.roles().iter().map(|(_, role, _)| role.as_str()).collect::<Vec<_>>(),
        ["leader"]
    );
    // Nobody of the old cluster belongs to the new one, and no old token lets anybody in.
    assert_eq!(tokens(&two), 0);
    three.serve();
    let mut four = Machine::new(folder.path(), "four");
    let run = four.join(&token);
    assert!(run.code != 0, "{run:?}");
    fs::remove_dir_all(&four.data).unwrap();
    let run = four.join(&two.token(&[]));
    assert_eq!(run.code, 0, "{run:?}");
    four.serve();
    assert_eq!(four.title().as_deref(), Some("alone"));
    assert_ne!(three.title().as_deref(), Some("alone"));
    assert_eq!(two.roles().len(), 2);
    // What is left of the old one knows no leader.
    assert!(three.roles().iter().all(|(_, role, _)| role != "leader"), "{:?}", three.roles());
}

/// Somebody deletes an entry; it comes back from what was restored to `point`, while the cluster
/// runs.
fn a_part_comes_back(one: &Machine, two: &Machine, three: &Machine, folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    let entry = |attribute: &str| {
        let found = two.connect()?.search(&SearchFor {
            scope: Scope::Base,
            attributes: &["title", "entryUUID"],
            ..SearchFor::below(PERSON, Filter::Present("objectClass"))
        });
        found.ok()?.entries.first()?.text(attribute).map(str::to_owned)
    };
    let id = entry("entryUUID").unwrap();
    assert!(one.connect().unwrap().delete(PERSON).unwrap().is_success());
    wait_for("it is gone everywhere", || entry("title").is_none().then_some(()));
    let (part, there) = (path("people.ldif"), path("there.ldif"));
    let words = ["export", "--data", &path("point"), "-b", "ou=people,dc=example,dc=com"];
    assert_eq!(roster(&[&words[..], &["-o", &part]].concat()).code, 0);
    let login = ["-Z", "--reqcert", "never", "-D", ADMIN_DN, "-w", ADMIN_PASSWORD];
    let words = ["import", "-H", &three.url(), "--reject-file", &there, &part];
    let run = roster(&[&words[..], &login].concat());
    assert!(run.output.contains("1 entr") || run.errors.contains("1 entr"), "{run:?}");
    wait_for("it is back", || (entry("title")? == "round 2").then_some(()));
    assert_eq!(entry("entryUUID").unwrap(), id);
}

#[test]
fn a_backup_of_any_member_is_restored_to_a_point_and_becomes_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, three] = three(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let backup = |machine: &Machine| {
        let run = roster(&["backup", "--data", machine.data(), "--to", &path("backup")]);
        assert_eq!(run.code, 0, "{run:?}");
        run.output
    };
    three.set_title("first");
    wait_for("it is there", || (two.title()? == "first").then_some(()));
    assert!(backup(&two).contains("full backup"));
    let tokens_before = tokens(&one);
    let _ = one.token(&[]);
    assert_eq!(tokens(&one), tokens_before + 1);
    let mut last_lsn = 0;
    for (round, machine) in [&one, &two, &three, &one].into_iter().enumerate() {
        let title = format!("round {round}");
        three.set_title(&title);
        wait_for("it is there", || (machine.title()? == title).then_some(()));
        let status = machine.ask(&["status", "--json"]).output;
        let status: Value = serde_json::from_str(&status).unwrap();
        let applied = status["cluster"]["members"][0]["applied_lsn"].as_u64().unwrap();
        // A member does not write down at once what it knows to be committed.
        last_lsn = wait_for("it is in the backup", || {
            let told = backup(machine);
            assert!(!told.contains("full backup"), "{told}");
            let verified = roster(&["backup", "--verify", &path("backup")]);
            assert_eq!(verified.code, 0, "{verified:?}");
            let words: Vec<&str> = told.split_whitespace().collect();
            let at = words.iter().rposition(|word| *word == "record").unwrap();
            let lsn: u64 = words[at + 1].trim_end_matches(',').parse().unwrap();
            (lsn >= applied).then_some(lsn)
        });
    }
    // One that is behind does not put less in its place, also when all is asked for.
    two.signal(Signal::STOP);
    one.set_title("round 4");
    wait_for("it is in the backup", || {
        let told = backup(&one);
        let words: Vec<&str> = told.split_whitespace().collect();
        let at = words.iter().rposition(|word| *word == "record").unwrap();
        let lsn: u64 = words[at + 1].trim_end_matches(',').parse().unwrap();
        (lsn > last_lsn).then_some(())
    });
    for more in [&[][..], &["--full"]] {
        let words = ["backup", "--data", two.data(), "--to", &path("backup")];
        let run = roster(&[&words, more].concat());
        assert!(run.code != 0 && run.errors.contains("is behind the others"), "{run:?}");
    }
    assert_eq!(roster(&["backup", "--verify", &path("backup")]).code, 0);
    two.signal(Signal::CONT);
    // To the end, and to a point before.
    let restore = |name: &str, more: &[&str]| {
        let words = ["restore", "--from", &path("backup"), "--data", &path(name)];
        let run = roster(&[&words, more].concat());
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.errors.contains("roster cluster init"), "{run:?}");
        let settings = fs::read_to_string(Path::new(&path(name)).join("roster.toml")).unwrap();
        assert!(!settings.contains("[cluster]"), "{settings}");
        let run = roster(&["check", "--data", &path(name)]);
        assert_eq!(run.code, 0, "{run:?}");
    };
    restore("whole", &[]);
    restore("point", &["--to-lsn", &(last_lsn - 1).to_string()]);
    a_part_comes_back(&one, &two, &three, folder.path());
    drop([one, two, three]);
    for (name, title) in [("whole", "round 4"), ("point", "round 2")] {
        let mut again = Machine::new(folder.path(), name);
        let member = format!("1 {} {}", again.address, again.url());
        let run = roster(&["cluster", "init", "--data", again.data(), "--member", &member]);
        assert_eq!(run.code, 0, "{run:?}");
        again.serve();
        assert_eq!(again.title().as_deref(), Some(title));
        assert_eq!(tokens(&again), 0);
        again.set_title("goes on");
        let mut other = Machine::new(folder.path(), &format!("{name}-other"));
        let run = other.join(&again.token(&[]));
        assert_eq!(run.code, 0, "{run:?}");
        other.serve();
        assert_eq!(other.title().as_deref(), Some("goes on"));
        // And can be backed up in its turn, to another directory.
        let to = PathBuf::from(path(&format!("{name}-backup"))).display().to_string();
        let run = roster(&["backup", "--data", again.data(), "--to", &to]);
        assert_eq!(run.code, 0, "{run:?}");
        let run = roster(&["backup", "--data", again.data(), "--to", &path("backup")]);
        assert!(run.code != 0 && run.errors.contains("of another store"), "{run:?}");
    }
}

#[test]
fn a_member_with_an_older_image_of_its_disk_leaves_before_it_can_vote_again() {
    let folder = tempfile::tempdir().unwrap();
    let [one, mut two, mut three] = three(folder.path());
    // An image of a member that is down, and what it confirms after that.
    three.kill();
    let image = folder.path().join("image");
    copy(&three.data, &image);
    three.serve();
    for title in ["later", "and later"] {
        one.set_title(title);
        wait_for("it is there", || (three.title()? == title).then_some(()));
    }
    three.kill();
    fs::remove_dir_all(&three.data).unwrap();
    fs::rename(&image, &three.data).unwrap();
    three.serve();
    let kept = three.data.join("quarantine.json");
    wait_for("it leaves", || kept.exists().then_some(()));
    let why = fs::read_to_string(&kept).unwrap();
    assert!(why.contains("what it has promised is forgotten"), "{why}");
    three.kill();
    let run = roster(&["serve", "--data", three.data()]);
    assert!(run.code != 0 && run.errors.contains("quarantine"), "{run:?}");
    // A member that was down and is as it was is none of these.
    two.kill();
    two.serve();
    two.set_title("well");
    pause(Duration::from_secs(4));
    assert!(!two.data.join("quarantine.json").exists());
    assert_eq!(two.title().as_deref(), Some("well"));
}
