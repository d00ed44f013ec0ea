//! A cluster that grows: `roster cluster init` in place, `token`, `join`, all as real processes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use client::SearchFor;
use common::{command, roster};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use machine::{Machine, first, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use testing::chance::Chance;
use testing::cluster::{Loss, Media};
use testing::crash::server::{ADMIN_PASSWORD, now, pause};

#[test]
fn a_token_is_for_the_cluster_that_made_it_and_for_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let one = first(folder.path());
    wait_for("it decides", || (one.roles().first()?.1 == "leader").then_some(()));
    let token = one.token(&["--learner", "--valid", "5"]);
    let two = Machine::new(folder.path(), "two");
    let refused = |token: &str, want: &str| {
        let run = two.join(token);
        assert!(run.code != 0 && run.errors.contains(want), "{want}: {run:?}");
        let _ = fs::remove_dir_all(&two.data);
    };
    refused("a token", "this is no token");
    refused(&token[..token.len() - 8], "this is no token");
    // Its certificate is not that of the server that made the token.
    let other = first(&{
        let folder = folder.path().join("other");
        fs::create_dir(&folder).unwrap();
        folder
    });
    let elsewhere = one.token(&["--url", &other.url()]);
    refused(&elsewhere, "make another token");
    // Who watches is shown the members again and again, also when they are gone.
    let url = one.url();
    let watching = ["cluster", "status", "--watch", "--json", "-H", &url, "-w", ADMIN_PASSWORD];
    let mut watching = command(&watching).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!([next(), next()].map(|seen| seen["cluster"]["leader"].as_u64()), [Some(1); 2]);
    // Nobody but the administrator makes one.
    let run = roster(&["cluster", "token", "-H", &one.url()]);
    assert!(run.code != 0, "{run:?}");
    // A directory in which something is stays as it is.
    let run = other.join(&token);
    assert!(run.code != 0 && run.errors.contains("is not empty"), "{run:?}");
    // It is taken back by deleting it.
    let none: &[&str] = &[];
    let change = [(ModifyOperation::Replace, "roster-join-token", none)];
    let outcome = one.connect().unwrap().modify("cn=Join Tokens,cn=config", &change).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    refused(&token, "the token is not known here");
    // Of a server that is no member it would be of no use.
    let alone = folder.path().join("alone");
    let alone = alone.to_str().unwrap();
    let suffix = ["--suffix", "dc=example,dc=com", "--admin-password-file"];
    let password = one.password.to_str().unwrap();
    let run = roster(&[&["init", "--data", alone][..], &suffix, &[password]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    // A typing error keeps nobody from what was made before.
    let init = |member: &str| roster(&["cluster", "init", "--data", alone, "--member", member]);
    assert_eq!(init("1 127.0.0.1:7636 ldap://127.0.0.1:1").code, 0);
    let kept = fs::read(Path::new(alone).join("cluster/node.pem")).unwrap();
    let run = init("2 127.0.0.1:7636 ldap://127.0.0.1:1");
    assert!(run.code != 0 && run.errors.contains("[cluster] already"), "{run:?}");
    assert_eq!(fs::read(Path::new(alone).join("cluster/node.pem")).unwrap(), kept);
    // Once more is refused, with the reason.
    let member = format!("1 {} {}", one.address, one.url());
    let run = roster(&["cluster", "init", "--data", one.data(), "--member", &member]);
    assert!(run.code != 0, "{run:?}");
    drop(one);
    wait_for("it says that nobody answers", || next()["error"].is_string().then_some(()));
    let _ = watching.kill();
    let _ = watching.wait();
}

/// A running server becomes a cluster of one, in its process, while clients write.
#[test]
fn a_running_server_becomes_the_first_member() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = machine::alone(folder.path());
    one.serve();
    let pid = one.server.as_ref().unwrap().id();
    let member = format!("1 {} {}", one.address, one.url());
    let init = |member: &str| one.ask(&["init", "--member", member]);
    let refused = |member: &str, says: &str| {
        let run = init(member);
        assert!(run.code != 0 && run.errors.contains(says), "{says}: {run:?}");
    };
    // It stays as it is as long as it cannot be one.
    refused("0 127.0.0.1:1 ldap://127.0.0.1", "is no member");
    refused(&format!("1 {} {}", one.ldap, one.url()), "cannot listen on");
    refused("1 0.0.0.0:7636 ldap://127.0.0.1", "is not HOST:PORT");
    refused("1 127.0.0.1:+7636 ldap://127.0.0.1", "is not HOST:PORT");
    refused("1 a'b:7636 ldap://127.0.0.1", "is not HOST:PORT");
    // What it could not begin with afterwards, it does not end for.
    let file = one.data.join("roster.toml");
    for (text, says) in [
        ("nonsense.x = 1\n", "there is no setting"),
        ("cluster.certificates = \"elsewhere\"\n", "duplicate key"),
        ("[cluster]\nid = 7\n", "[cluster] already"),
    ] {
        fs::write(&file, text).unwrap();
        refused(&member, says);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::remove_file(&file).unwrap();
    let run = one.ask(&["init", "--member", &member, "-H", "ldap://127.0.0.1:1"]);
    assert!(run.code == 2 && run.errors.contains("name one with -H"), "{run:?}");
    let words = ["cluster", "init", "--member", &member];
    let run = roster(&[&words[..], &["-H", &one.url()]].concat());
    assert!(run.code == 1 && run.errors.contains("config-write"), "{run:?}");
    let run = roster(&[&words[..], &["--data", one.data()]].concat());
    assert!(run.code == 2 && run.errors.contains("in use"), "{run:?}");
    assert!(!one.data.join("cluster").exists() && !one.data.join("roster.toml").exists());
    // A client writes all the time: what was acknowledged is there, and it is away for a moment.
    let is_over = AtomicBool::new(false);
    let (acknowledged, away) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(&one, &is_over));
        wait_for("it writes", || one.title().filter(|title| title != "before").map(drop));
        let run = init(&member);
        let told = (run.code, run.output.contains("member 1  ldap://"));
        assert_eq!(told, (0, true), "{run:?}");
        // Some more, by the member.
        let before = one.title();
        wait_for("it writes again", || (one.title() != before).then_some(()));
        is_over.store(true, Ordering::Relaxed);
        writing.join().unwrap()
    });
    assert_eq!(one.title(), Some(acknowledged));
    assert!(away < std::time::Duration::from_secs(20), "{away:?}");
    assert_eq!(one.roles(), [(1, "leader".to_owned(), true)]);
    assert_eq!(one.server.as_ref().unwrap().id(), pid);
    assert!(one.server.as_mut().unwrap().try_wait().unwrap().is_none(), "it is the same process");
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "roster\n");
    let run = one.ask(&["init", "--member", &member]);
    assert!(run.code == 1 && run.errors.contains("is a member of a cluster already"), "{run:?}");
    // It is one like any other.
    let mut two = Machine::new(folder.path(), "two");
    let run = two.join(&one.token(&["--learner"]));
    assert_eq!(run.code, 0, "{run:?}");
    two.serve();
    wait_for("the data", || (two.title() == one.title()).then_some(()));
    one.kill();
    one.serve();
    assert_eq!(one.roles().len(), 2);
}

/// A signal that came while it ended was lost.
#[test]
fn a_server_that_becomes_a_member_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    for after_ms in [0, 20, 150] {
        let place = folder.path().join(after_ms.to_string());
        fs::create_dir(&place).unwrap();
        let mut one = machine::alone(&place);
        one.serve();
        let (address, url) = (one.address.clone(), one.url());
        let member = serde_json::json!({ "member": 1, "address": address, "url": url }).to_string();
        let mut connection = one.connect().unwrap();
        let mut ask = || connection.extended(directory::INIT_CLUSTER, Some(member.as_bytes())).ok();
        assert!(ask().unwrap().0.is_success());
        // Once more is refused, if it is answered: the first is carried out.
        assert!(ask().is_none_or(|(outcome, _)| !outcome.is_success()));
        drop(connection);
        pause(std::time::Duration::from_millis(after_ms));
        one.signal(Signal::TERM);
        let server = one.server.as_mut().unwrap();
        wait_for("it ends", || server.try_wait().unwrap());
        one.server = None;
        one.serve();
        one.set_title("it serves");
    }
}

/// Writes one value after the other; the last one that was acknowledged, and the longest time in
/// which none was.
fn write_until(one: &Machine, is_over: &AtomicBool) -> (String, std::time::Duration) {
    let (mut last, mut longest, mut at) = (String::new(), std::time::Duration::ZERO, now());
    let mut connection = None;
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let title = format!("title {number}");
        let change = [(ModifyOperation::Replace, "title", &[title.as_str()][..])];
        let Some(open) = connection.as_mut() else {
            connection = one.connect();
            continue;
        };
        let outcome = client::Connection::modify(open, machine::PERSON, &change);
        match outcome {
            Ok(outcome) if outcome.is_success() => {
                longest = longest.max(at.elapsed());
                (last, at) = (title, now());
            }
            // Whether it happened nobody knows: it is written over.
            Ok(_) | Err(_) => connection = None,
        }
    }
    (last, longest)
}

#[test]
fn one_server_becomes_three() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = first(folder.path());
    one.set_title("before");
    let [mut two, mut three] = ["two", "three"].map(|name| Machine::new(folder.path(), name));
    let token = one.token(&[]);
    // It is ended somewhere on its way, and goes on.
    let words = two.join_command(&token);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Meanwhile it waits for the one that is to let it in.
    one.signal(Signal::STOP);
    let mut killed = command(&words).spawn().unwrap();
    wait_for("it has begun", || two.data.join("cluster/node.key").exists().then_some(()));
    // One at a time: two would each make a key.
    let run = two.join(&token);
    assert!(run.code != 0 && run.errors.contains("is under way in"), "{run:?}");
    let _ = killed.kill();
    let _ = killed.wait();
    one.signal(Signal::CONT);
    let run = roster(&["serve", "--data", two.data()]);
    assert!(run.code != 0 && run.errors.contains("has not got its data yet"), "{run:?}");
    let run = two.join(&token);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.output.contains("roster serve --data"), "{run:?}");
    two.serve();
    wait_for("the data", || (two.title()? == "before").then_some(()));
    assert!(one.roles().iter().all(|(id, _, is_voter)| *is_voter == (*id == 1)));
    // It is for one machine.
    let run = three.join(&token);
    assert!(run.code != 0 && run.errors.contains("another machine has used"), "{run:?}");
    let _ = fs::remove_dir_all(&three.data);
    let run = three.join(&one.token(&[]));
    assert_eq!(run.code, 0, "{run:?}");
    three.serve();
    wait_for("all are voters", || {
        let roles = one.roles();
        (roles.len() == 3 && roles.iter().all(|(_, _, is_voter)| *is_voter)).then_some(())
    });
    three.set_title("through the third");
    wait_for("all have it", || {
        let all = [&one, &two, &three].map(Machine::title);
        all.iter().all(|title| title.as_deref() == Some("through the third")).then_some(())
    });
    // Under the names that scripts for OpenDJ ask for.
    let asked = SearchFor {
        scope: Scope::One,
        attributes: &["ds-mon-status", "missing-changes", "ds-mon-current-delay"],
        ..SearchFor::below("cn=replication,cn=monitor", Filter::Present("objectClass"))
    };
    wait_for("all are as they should be", || {
        let found = three.connect()?.search(&asked).ok()?;
        let is_well = |entry: &client::FoundEntry| {
            entry.text("ds-mon-status") == Some("Normal")
                && entry.text("missing-changes") == Some("0")
                && entry.text("ds-mon-current-delay") == Some("0")
        };
        (found.entries.len() == 3 && found.entries.iter().all(is_well)).then_some(())
    });
    // The one that was alone is not needed any more.
    one.kill();
    two.set_title("without the first");
    wait_for("the other has it", || (three.title()? == "without the first").then_some(()));
    one.serve();
    wait_for("it comes back", || (one.title()? == "without the first").then_some(()));
}

/// A machine had joined and lost its power: what marked its directory as one without data was there
/// again, and it was not served. Or it had been started, and its key for TLS was there without the
/// certificate: it did not start again.
#[test]
fn a_machine_that_loses_its_power_has_joined() {
    let folder = tempfile::tempdir().unwrap();
    let one = first(folder.path());
    one.set_title("before");
    let mut two = Machine::new(folder.path(), "two");
    fs::create_dir(&two.data).unwrap();
    let media = Media::set_up(folder.path(), std::slice::from_ref(&two.data), false).unwrap();
    for verb in ["join", "rejoin"] {
        for (id, _, _) in one.roles().iter().filter(|(_, _, is_voter)| !is_voter) {
            let run = one.ask(&["remove", "--yes", &id.to_string()]);
            assert_eq!(run.code, 0, "{run:?}");
        }
        let token = one.token(&["--learner"]);
        let mut words = two.join_command(&token);
        verb.clone_into(&mut words[1]);
        let mut command = command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        media.give(0, &mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let lost = media.lose(0, Loss::All, &mut Chance::new(1, 1)).unwrap();
        two.serve_on(|command| media.give(0, command));
        let certificate = fs::read_to_string(two.data.join("tls/cert.pem")).unwrap();
        two.kill();
        media.lose(0, Loss::All, &mut Chance::new(1, 1)).unwrap();
        two.serve();
        wait_for("the data", || (two.title()? == "before").then_some(()));
        two.kill();
        assert_eq!(fs::read_to_string(two.data.join("tls/cert.pem")).unwrap(), certificate);
        assert_eq!(two.data.join("old-1").exists(), verb == "rejoin", "{lost:?}");
    }
}

#[test]
fn a_member_with_a_lost_disk_rejoins_in_its_own_place_and_another_one_moves() {
    let folder = tempfile::tempdir().unwrap();
    let [one, mut two, mut three] = machine::three(folder.path());
    let voters = || {
        let roles = one.roles();
        let voters = roles.iter().filter(|(_, _, is_voter)| *is_voter);
        voters.map(|(id, _, _)| *id).collect::<Vec<_>>()
    };
    let [_, id_of_two, id_of_three] = voters()[..] else { panic!("{:?}", voters()) };
    let run = one.ask(&["token", "--replaces", "77"]);
    assert!(run.code != 0 && run.errors.contains("no voter has the number 77"), "{run:?}");
    let token = one.token(&["--replaces", &id_of_three.to_string()]);
    // While it is served nothing happens to it.
    let url = three.url();
    let rejoin = |data: &str, address: &str| {
        let words = ["cluster", "rejoin", &token, "--data", data, "--address", address];
        roster(&[&words[..], &["--url", &url]].concat())
    };
    let run = rejoin(three.data(), &three.address);
    assert!(run.code != 0 && run.errors.contains("stop the process"), "{run:?}");
    three.kill();
    let settings = three.data.join("roster.toml");
    let text =
        fs::read_to_string(&settings).unwrap() + "\n[limits]\nsize_limit_entries = 4321 # ours\n";
    fs::write(&settings, text).unwrap();
    fs::write(three.data.join("data.mdb"), "no data any more").unwrap();
    one.set_title("without the third");
    let run = rejoin(three.data(), &three.address);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.output.contains(&format!("the place of member {id_of_three}")), "{run:?}");
    let old = fs::read_to_string(three.data.join("old-1/data.mdb")).unwrap();
    assert_eq!(old, "no data any more");
    let text = fs::read_to_string(&settings).unwrap();
    assert!(text.contains("size_limit_entries = 4321 # ours"), "{text}");
    // Once more is refused: it is a member, whose data stay.
    let run = rejoin(three.data(), &three.address);
    assert!(run.code != 0 && run.errors.contains("has rejoined with this token"), "{run:?}");
    assert!(!three.data.join("old-2").exists());
    three.serve();
    wait_for("it has its place", || {
        let roles = one.roles();
        let is_gone = roles.len() == 3 && !roles.iter().any(|(id, _, _)| *id == id_of_three);
        (is_gone && voters().len() == 3).then_some(())
    });
    assert_eq!(three.title().as_deref(), Some("without the third"));
    // Another one moves: it listens elsewhere first, and then the others know.
    two.kill();
    let elsewhere = Machine::new(folder.path(), "elsewhere");
    let settings = two.data.join("roster.toml");
    let text = fs::read_to_string(&settings).unwrap();
    assert!(text.contains(&two.address), "{text}");
    fs::write(&settings, text.replace(&two.address, &elsewhere.address)).unwrap();
    two.serve();
    let number = id_of_two.to_string();
    let run = one.ask(&["rename", &number, "--address", &three.address]);
    assert!(run.code != 0 && run.errors.contains("has the address"), "{run:?}");
    let words = ["rename", &number, "--address", &elsewhere.address, "--url", "ldap://b.example"];
    let run = one.ask(&words);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(one.ask(&words).output.contains("already"));
    one.set_title("after the move");
    wait_for("it is reached", || (two.title()? == "after the move").then_some(()));
    let told = one.ask(&["status"]).output;
    assert!(told.contains("ldap://b.example") && told.contains(&elsewhere.address), "{told}");
    three.set_title("all is well");
    wait_for("all have it", || {
        let all = [&one, &two, &three].map(Machine::title);
        all.iter().all(|title| title.as_deref() == Some("all is well")).then_some(())
    });
}

#[test]
fn a_machine_begins_with_a_backup_and_gets_what_came_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = first(folder.path());
    let (backup, other) = (folder.path().join("backup"), folder.path().join("other-backup"));
    let [backup, other] = [&backup, &other].map(|path| path.to_str().unwrap());
    // Of a server that is alone it is of no use, nor of another cluster.
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut elsewhere = first(&elsewhere);
    wait_for("it decides", || (elsewhere.roles().first()?.1 == "leader").then_some(()));
    elsewhere.set_title("elsewhere");
    elsewhere.stop();
    let run = roster(&["backup", "--data", elsewhere.data(), "--to", other]);
    assert_eq!(run.code, 0, "{run:?}");
    one.set_title("before");
    // With it the base has all of it.
    one.stop();
    one.serve();
    let run = roster(&["backup", "--data", one.data(), "--to", backup]);
    assert_eq!(run.code, 0, "{run:?}");
    one.set_title("after");
    let mut two = Machine::new(folder.path(), "two");
    let token = one.token(&[]);
    let join = |backup: &str| {
        let mut words = two.join_command(&token);
        words.extend(["--from-backup".to_owned(), backup.to_owned()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        roster(&words)
    };
    let run = join(folder.path().join("no-backup").to_str().unwrap());
    assert!(run.code != 0 && run.errors.contains("no-backup"), "{run:?}");
    // It was verified before anything else: nobody was made a member.
    assert_eq!(one.roles().len(), 1);
    let run = join(other);
    assert!(run.code != 0 && run.errors.contains("is not of this cluster"), "{run:?}");
    // The same command again, with the right one.
    let run = join(backup);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.errors.contains("entries of the backup, as of change"), "{run:?}");
    assert!(!run.errors.contains("a copy of all data comes"), "{run:?}");
    two.serve();
    wait_for("all of it", || (two.title()? == "after").then_some(()));
    let log = fs::read_to_string(one.data.with_extension("log")).unwrap();
    assert!(!log.contains("a copy of the data is made"), "{log}");
    let run = one.ask(&["verify"]);
    assert_eq!(run.code, 0, "{run:?}");
}
