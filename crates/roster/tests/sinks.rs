//! Sinks against real targets: files, an HTTPS server of Python's and receivers that misbehave, a
//! nats-server of Debian, a broker of Kafka.
//!
//! `cargo xtask test` installs them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]
#![allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
#![allow(clippy::disallowed_methods, reason = "asking programs again is the only way")]

#[path = "sinks/broker.rs"]
mod broker;
mod common;
#[path = "sinks/directory.rs"]
mod directory;
#[path = "sinks/hostile.rs"]
mod hostile;
#[path = "sinks/kafka.rs"]
mod kafka;
#[path = "sinks/nats.rs"]
mod nats;
#[path = "sinks/receiver.rs"]
mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::directory::{DiskSpace as _, FileSystemSpace};
use testing::client::{Change, ChangeKind, Client, Request};

use common::have;
use directory::{PEOPLE, SYNC, Server, add_person, check_order, objects, person, set, until};
use kafka::Kafka;
use nats::Nats;
use receiver::{Behaviour, Https, Receiver};

/// A change of sinks is in force by then.
const IN_FORCE: Duration = Duration::from_secs(1);
const ADD: ChangeKind = ChangeKind::Add;

/// A sink that is the identity's, below the people.
fn of_people(head: &str) -> String {
    format!("{head} as {SYNC} below {PEOPLE}")
}

/// Gives or takes the privilege that the identity needs.
fn changelog_read(client: &mut Client, kind: ChangeKind) {
    let values = vec!["changelog-read".to_owned()];
    let changes = vec![Change { kind, attribute: "ds-privilege-name".to_owned(), values }];
    let request = Request::Modify { dn: SYNC.to_owned(), changes };
    assert_eq!(client.call(&request).unwrap().code, 0);
}

#[test]
fn a_file_has_what_the_identity_may_read_and_no_secret() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let line = of_people("log: file log.jsonl");
    server.sinks(ADD, &[&line]);
    add_person(&mut client, "anna");
    assert!(set(&mut client, &person("anna"), "mail", "anna@example.com"));
    assert!(set(&mut client, &person("anna"), "userPassword", "a secret of anna"));
    assert!(set(&mut client, &person("anna"), "mobile", "+49 170 1"));
    let renamed = Request::ModifyDn {
        dn: person("anna"),
        new_rdn: "uid=berta".to_owned(),
        delete_old_rdn: true,
        new_superior: None,
    };
    assert_eq!(client.call(&renamed).unwrap().code, 0);
    let request = Request::Delete { dn: person("berta") };
    // Others hear of what is deleted only: that is told while it is there.
    until("the rename is told", || read(&server, "log.jsonl").contains("modrdn"));
    assert_eq!(client.call(&request).unwrap().code, 0);
    until("the deletion is told", || read(&server, "log.jsonl").contains("\"type\":\"delete\""));
    let text = read(&server, "log.jsonl");
    let told = objects(&text);
    let kinds: Vec<&str> = told.iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "add", "{text}");
    assert_eq!(kinds[kinds.len() - 2..], ["modrdn", "delete"], "{text}");
    let uuids: BTreeSet<&str> = told.iter().map(|one| one["uuid"].as_str().unwrap()).collect();
    assert_eq!(uuids.len(), 1, "{text}");
    let ids: BTreeSet<&str> = told.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), told.len(), "{text}");
    assert!(!text.contains("userPassword") && !text.contains("SSHA"), "{text}");
    assert!(text.contains("anna@example.com") && text.contains("+49 170 1"), "{text}");
    until("it is not behind", || server.has_told_all("log"));
    assert_eq!(server.number("log", "roster-sink-sent"), told.len() as u64);
    assert_eq!(server.shown("log", "roster-sink-state"), "running");
}

#[test]
fn what_a_sink_stores_makes_no_changes_of_its_own() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let both = ["a", "b"].map(|name| format!("{name}: file {name}.jsonl as {SYNC}"));
    server.sinks(ADD, &[&both[0], &both[1]]);
    add_person(&mut client, "anna");
    until("it is told", || read(&server, "b.jsonl").contains("anna"));
    sleep(Duration::from_secs(3));
    let before = server.number("a", "roster-sink-position");
    sleep(Duration::from_secs(4));
    let after = server.number("a", "roster-sink-position");
    assert_eq!(after, before, "positions are stored for their own sake");
    assert_eq!(objects(&read(&server, "a.jsonl")).len(), 1);
}

#[test]
fn lines_that_are_no_sinks_are_refused() {
    let server = Server::start(&[]);
    let refused = |line: &str, code: i64, why: &str| {
        let (found, diagnostic) = server.try_sinks(ADD, &[line]);
        assert_eq!(found, code, "{line}: {diagnostic}");
        assert!(diagnostic.contains(why), "{line}: {diagnostic}");
    };
    refused("a: file a.jsonl", 21, "'as' and the name of an entry");
    refused(&of_people("a: file /etc/passwd"), 21, "no name for the file");
    server.sinks(ADD, &[&of_people("a: file a.jsonl")]);
    refused(&of_people("A: file b.jsonl"), 20, "the sink 'A' is there already");
    refused(&of_people("b: file A.jsonl"), 53, "writes to the file");
    // What one writes is no secret of another.
    let hook = |name: &str, key: &str| {
        of_people(&format!("{name}: webhook http://127.0.0.1:1 key={key} ca=ca.pem"))
    };
    let bus = |name: &str, secret: &str| {
        of_people(&format!("{name}: nats nats://127.0.0.1:1 subject=s {secret}"))
    };
    server.sinks(
        ADD,
        &[&hook("hook", "b.1"), &bus("bus", "user=u password=p"), &bus("t", "token=T")],
    );
    for file in ["b", "B", "p", "t", "ca.pem"] {
        refused(&of_people(&format!("b: file {file}")), 53, "that the sink '");
    }
    for key in ["a.jsonl", "A.jsonl.7"] {
        refused(&hook("other", key), 53, "writes to the file");
    }
    server.sinks(ADD, &[&hook("other", "a.jsonl.key")]);
    server.sinks(ChangeKind::Replace, &[&of_people("a: file a.jsonl")]);
    let more: Vec<String> =
        (0..16).map(|at| of_people(&format!("s{at}: file f{at}.jsonl"))).collect();
    let lines: Vec<&str> = more.iter().map(String::as_str).collect();
    let (code, diagnostic) = server.try_sinks(ADD, &lines);
    assert_eq!((code, &*diagnostic), (53, "there are at most 16 sinks"));
}

#[test]
fn a_sink_waits_while_its_identity_may_not_and_is_changed_while_it_runs() {
    let server = Server::start(&[]);
    let mut client = server.client();
    server.sinks(ADD, &[&of_people("log: file log.jsonl")]);
    add_person(&mut client, "anna");
    until("anna is told", || read(&server, "log.jsonl").contains("anna"));
    changelog_read(&mut client, ChangeKind::Delete);
    add_person(&mut client, "berta");
    until("it waits", || server.shown("log", "roster-sink-state") == "waiting");
    assert!(server.shown("log", "roster-sink-error").contains("changelog-read"));
    assert!(!read(&server, "log.jsonl").contains("berta"));
    changelog_read(&mut client, ADD);
    until("berta is told", || read(&server, "log.jsonl").contains("berta"));
    // With another file it goes on where it was.
    let changed = of_people("log: file other.jsonl attributes=mail");
    server.sinks(ChangeKind::Replace, &[&changed]);
    sleep(IN_FORCE);
    add_person(&mut client, "carla");
    assert!(set(&mut client, &person("carla"), "mobile", "1"));
    assert!(set(&mut client, &person("carla"), "mail", "carla@example.com"));
    until("carla is told", || read(&server, "other.jsonl").contains("carla@example.com"));
    let text = read(&server, "other.jsonl");
    assert!(!text.contains("mobile") && !text.contains("berta"), "{text}");
    server.sinks(ChangeKind::Delete, &[]);
    until("it is gone", || server.shown("log", "roster-sink-state").is_empty());
    sleep(IN_FORCE);
    add_person(&mut client, "dora");
    sleep(Duration::from_secs(2));
    assert!(!read(&server, "other.jsonl").contains("dora"));
    assert_eq!(server.shown("log", "roster-sink-state"), "");
}

#[test]
fn entries_that_come_to_match_or_match_no_more_are_told() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let line = format!("staff: file staff.jsonl as {SYNC} where (employeeType=staff)");
    server.sinks(ADD, &[&line]);
    add_person(&mut client, "anna");
    add_person(&mut client, "berta");
    for kind in ["staff", "guest", "retired"] {
        assert!(set(&mut client, &person("anna"), "employeeType", kind));
    }
    assert!(set(&mut client, &person("berta"), "employeeType", "staff"));
    until("berta is told", || read(&server, "staff.jsonl").contains("berta"));
    let told = objects(&read(&server, "staff.jsonl"));
    // It is added as one who is none, and may be staff by the time that is told.
    let is_meant =
        |one: &&serde_json::Value| one["dn"] == person("anna") && one["type"] == "modify";
    let of_anna: Vec<String> = told.iter().filter(is_meant).map(ToString::to_string).collect();
    assert_eq!(of_anna.len(), 3, "{of_anna:?}");
    assert!(of_anna[0].contains("\"staff\"") && of_anna[1].contains("\"guest\""), "{of_anna:?}");
}

#[test]
fn entries_that_match_no_more_are_told_though_the_sink_looks_late() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let filter = "(&(employeeType=active)(title=boss))";
    server.sinks(ADD, &[&format!("staff: file staff.jsonl as {SYNC} where {filter}")]);
    for name in ["anna", "berta"] {
        add_person(&mut client, name);
        assert!(set(&mut client, &person(name), "title", "boss"));
        assert!(set(&mut client, &person(name), "employeeType", "active"));
    }
    until("all is told", || server.has_told_all("staff"));
    let told = objects(&read(&server, "staff.jsonl")).len();
    changelog_read(&mut client, ChangeKind::Delete);
    // Two changes: by neither alone does the entry of now match.
    assert!(set(&mut client, &person("anna"), "employeeType", "left"));
    assert!(set(&mut client, &person("anna"), "title", "none"));
    // And one that is gone.
    assert!(set(&mut client, &person("berta"), "employeeType", "left"));
    let request = Request::Delete { dn: person("berta") };
    assert_eq!(client.call(&request).unwrap().code, 0);
    changelog_read(&mut client, ADD);
    until("the deletion is told", || read(&server, "staff.jsonl").contains("\"type\":\"delete\""));
    let later = read(&server, "staff.jsonl").lines().skip(told).collect::<Vec<_>>().join("\n");
    assert!(later.contains("left") && later.contains("none"), "{later}");
}

/// Changes people until the time is over; the last number of each that was acknowledged.
fn change_people(server: &Server, acknowledged: &mut BTreeMap<String, u64>, time: Duration) {
    let mut client = server.client();
    let begun = Instant::now();
    'all: loop {
        for at in 0..8 {
            let dn = person(&format!("p{at}"));
            let last = acknowledged.entry(dn.clone()).or_default();
            if !set(&mut client, &dn, "description", &(*last + 1).to_string()) {
                break 'all;
            }
            *last += 1;
            if begun.elapsed() > time {
                break 'all;
            }
        }
    }
}

#[test]
fn a_server_that_is_killed_loses_no_change_in_a_file() {
    let mut server = Server::start(&[]);
    let mut client = server.client();
    (0..8).for_each(|at| add_person(&mut client, &format!("p{at}")));
    server.sinks(ADD, &[&of_people("log: file log.jsonl")]);
    let mut acknowledged = BTreeMap::new();
    for round in 0..8 {
        change_people(&server, &mut acknowledged, Duration::from_millis(150 + 60 * round));
        server.kill();
        server.again();
    }
    until("all is told", || server.has_told_all("log"));
    check_order(&objects(&read(&server, "log.jsonl")), &acknowledged);
}

#[test]
fn a_server_that_is_stopped_tells_nothing_twice() {
    let mut server = Server::start(&[]);
    let mut client = server.client();
    (0..8).for_each(|at| add_person(&mut client, &format!("p{at}")));
    server.sinks(ADD, &[&of_people("log: file log.jsonl")]);
    let mut acknowledged = BTreeMap::new();
    for _ in 0..2 {
        change_people(&server, &mut acknowledged, Duration::from_millis(300));
        server.stop();
        server.again();
    }
    until("all is told", || server.has_told_all("log"));
    let told = objects(&read(&server, "log.jsonl"));
    check_order(&told, &acknowledged);
    let ids: BTreeSet<String> = told.iter().map(|one| one["id"].to_string()).collect();
    assert_eq!(ids.len(), told.len());
}

#[test]
fn nats_has_each_change_once_though_server_and_target_are_killed() {
    if !have(nats::PROGRAM, &["--version"]) {
        return;
    }
    let user = "authorization { user: roster, password: \"secret-of-nats\" }";
    let mut nats = Nats::start(user);
    nats.make_stream();
    let mut server = Server::start(&[]);
    server.put("nats.password", "secret-of-nats\n");
    let mut client = server.client();
    (0..8).for_each(|at| add_person(&mut client, &format!("p{at}")));
    let target = format!("nats://127.0.0.1:{}", nats.port);
    let options = "subject=directory.changes user=roster password=nats.password timeout=3";
    server.sinks(ADD, &[&of_people(&format!("bus: nats {target} {options}"))]);
    let mut acknowledged = BTreeMap::new();
    for round in 0..6 {
        change_people(&server, &mut acknowledged, Duration::from_millis(200 + 50 * round));
        match round % 3 {
            0 | 1 => {
                server.kill();
                server.again();
            }
            _ => {
                nats.kill();
                // Writes do not wait for it.
                change_people(&server, &mut acknowledged, Duration::from_millis(300));
                until("it waits", || server.shown("bus", "roster-sink-state") == "waiting");
                nats.again();
            }
        }
    }
    until("all is told", || server.has_told_all("bus"));
    check_order(&nats.objects(), &acknowledged);
    let ids = nats.ids();
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "the stream drops what comes twice");
}

#[test]
fn a_webhook_is_signed_and_sent_by_https() {
    if !have("/usr/bin/python3", &["--version"]) || !have("openssl", &["version"]) {
        return;
    }
    let server = Server::start(&[]);
    let mut client = server.client();
    let https = Https::start();
    server.put("hook.key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    server.put("ca.pem", &https.certificate());
    let url = format!("https://localhost:{}/changes?of=roster", https.port);
    server.sinks(ADD, &[&of_people(&format!("hook: webhook {url} key=hook.key ca=ca.pem"))]);
    add_person(&mut client, "anna");
    add_person(&mut client, "berta");
    until("berta is told", || https.received().contains("berta"));
    let told = objects(&https.received());
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|one| one["path"] == "/changes?of=roster" && one["signed"] == true));
    // Without the certificate nobody is believed.
    let line = of_people(&format!("hook: webhook {url} key=hook.key"));
    server.sinks(ChangeKind::Replace, &[&line]);
    sleep(IN_FORCE);
    add_person(&mut client, "carla");
    until("it waits", || server.shown("hook", "roster-sink-state") == "waiting");
    assert!(!https.received().contains("carla"));
}

#[test]
fn receivers_that_misbehave_keep_a_sink_and_nobody_else() {
    for behaviour in [
        Behaviour::Silent,
        Behaviour::Reset,
        Behaviour::Answers(500),
        Behaviour::Answers(302),
        Behaviour::Answers(401),
        Behaviour::Endless,
    ] {
        let server = Server::start(&[]);
        let mut client = server.client();
        let receiver = Receiver::start(behaviour);
        server.put("hook.key", "a key of some length\n");
        let url = format!("http://127.0.0.1:{}", receiver.port);
        let line = of_people(&format!("hook: webhook {url} key=hook.key timeout=1"));
        server.sinks(ADD, &[&line]);
        let begun = Instant::now();
        (0..20).for_each(|at| add_person(&mut client, &format!("p{at}")));
        assert!(begun.elapsed() < Duration::from_secs(20), "writes wait for {behaviour:?}");
        until("it is kept", || server.number("hook", "roster-sink-failed") > 1);
        assert_eq!(server.number("hook", "roster-sink-dead-letters"), 0, "{behaviour:?}");
        assert_eq!(server.shown("hook", "roster-sink-state"), "waiting", "{behaviour:?}");
        receiver.becomes(Behaviour::Answers(204));
        until("all is told", || server.number("hook", "roster-sink-sent") == 20);
    }
}

#[test]
fn a_file_waits_while_the_disk_is_full_and_positions_are_stored() {
    let mut server = Server::start(&[]);
    let mut client = server.client();
    let receiver = Receiver::start(Behaviour::Answers(204));
    server.put("hook.key", "a key of some length\n");
    let url = format!("http://127.0.0.1:{}", receiver.port);
    let hook = of_people(&format!("hook: webhook {url} key=hook.key"));
    server.sinks(ADD, &[&hook, &of_people("log: file log.jsonl")]);
    add_person(&mut client, "anna");
    until("anna is told", || receiver.count() == 1 && read(&server, "log.jsonl").contains("anna"));
    server.stop();
    server.set("ROSTER_SINKS__RUN", "off");
    server.again();
    add_person(&mut server.client(), "berta");
    server.stop();
    // What is free is less than that, and more than half of it.
    let free_mib = FileSystemSpace::of(server.file("")).free_bytes().unwrap() >> 20;
    let full_mib = (free_mib + free_mib / 2).to_string();
    server.set("ROSTER_SINKS__RUN", "on");
    let limits = ["ROSTER_STORE__DISK_LOW_MIB", "ROSTER_STORE__DISK_FULL_MIB"];
    limits.iter().for_each(|name| server.set(name, &full_mib));
    server.again();
    let request = Request::Delete { dn: person("anna") };
    assert_eq!(server.client().call(&request).unwrap().code, 53);
    until("berta is told", || receiver.count() == 2);
    until("the file waits", || server.shown("log", "roster-sink-error").contains("the disk"));
    for _ in 0..2 {
        server.stop();
        server.again();
        until("it has begun", || server.has_told_all("hook"));
    }
    assert_eq!(receiver.count(), 2, "its position was not stored");
    assert!(!read(&server, "log.jsonl").contains("berta"));
    server.stop();
    limits.iter().for_each(|name| server.set(name, "1"));
    server.again();
    until("berta is told", || read(&server, "log.jsonl").contains("berta"));
    assert_eq!(receiver.count(), 2);
}

#[test]
fn what_waits_for_a_receiver_is_told_by_the_rights_of_then() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let receiver = Receiver::start(Behaviour::Answers(500));
    server.put("hook.key", "a key of some length\n");
    let url = format!("http://127.0.0.1:{}", receiver.port);
    server.sinks(ADD, &[&of_people(&format!("hook: webhook {url} key=hook.key"))]);
    (0..3).for_each(|at| add_person(&mut client, &format!("p{at}")));
    until("it waits", || server.shown("hook", "roster-sink-state") == "waiting");
    changelog_read(&mut client, ChangeKind::Delete);
    // What is under way is answered by then.
    sleep(Duration::from_millis(200));
    receiver.becomes(Behaviour::Answers(204));
    sleep(Duration::from_secs(5));
    assert_eq!(server.number("hook", "roster-sink-sent"), 0, "rights are gone");
    assert!(server.shown("hook", "roster-sink-error").contains("changelog-read"));
    changelog_read(&mut client, ADD);
    until("all is told", || server.number("hook", "roster-sink-sent") == 3);
}

#[test]
fn a_stop_in_the_middle_of_a_batch_repeats_no_more_than_what_is_under_way() {
    let mut server = Server::start(&[]);
    let mut client = server.client();
    let receiver = Receiver::start(Behaviour::Answers(500));
    server.put("hook.key", "a key of some length\n");
    let url = format!("http://127.0.0.1:{}", receiver.port);
    server.sinks(ADD, &[&of_people(&format!("hook: webhook {url} key=hook.key"))]);
    (0..40).for_each(|at| add_person(&mut client, &format!("p{at}")));
    until("it waits", || server.shown("hook", "roster-sink-state") == "waiting");
    receiver.becomes(Behaviour::Slow(100));
    until("a part is told", || server.number("hook", "roster-sink-sent") >= 10);
    let refused = receiver.count() - server.number("hook", "roster-sink-sent");
    server.stop();
    server.again();
    until("all is told", || server.has_told_all("hook"));
    let count = receiver.count();
    assert!(count <= refused + 42, "{count} requests, {refused} of them refused, for 40 changes");
}

#[test]
fn what_a_receiver_refuses_for_good_is_a_dead_letter() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let receiver = Receiver::start(Behaviour::Answers(400));
    server.put("hook.key", "a key of some length\n");
    let url = format!("http://127.0.0.1:{}", receiver.port);
    let line = of_people(&format!("hook: webhook {url} key=hook.key tries=2"));
    server.sinks(ADD, &[&line]);
    add_person(&mut client, "anna");
    until("it is left out", || server.number("hook", "roster-sink-dead-letters") == 1);
    assert!(server.log().contains("a dead letter"), "{}", server.log());
    receiver.becomes(Behaviour::Long);
    add_person(&mut client, "berta");
    until("the next one is told", || server.number("hook", "roster-sink-sent") == 1);
    assert_eq!(receiver.count(), 3);
}

#[test]
fn kafka_has_the_changes_of_an_entry_in_one_partition_in_order() {
    if !have("java", &["-version"]) {
        return;
    }
    if !kafka::jars().join("../ready").exists() {
        let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
        assert!(!required, "the jars of Kafka are missing: run cargo xtask test");
        eprintln!("skipped: the jars of Kafka are missing; cargo xtask test fetches them");
        return;
    }
    let kafka = Kafka::start(3);
    let mut server = Server::start(&[]);
    let mut client = server.client();
    (0..8).for_each(|at| add_person(&mut client, &format!("p{at}")));
    let target = format!("{} topic=changes cleartext=yes", kafka.address());
    server.sinks(ADD, &[&of_people(&format!("topic: kafka {target}"))]);
    let mut acknowledged = BTreeMap::new();
    change_people(&server, &mut acknowledged, Duration::from_millis(500));
    server.kill();
    server.again();
    change_people(&server, &mut acknowledged, Duration::from_millis(300));
    until("all is told", || server.has_told_all("topic"));
    let (mut all, mut places) = (Vec::new(), BTreeMap::new());
    for (partition, count) in kafka.counts() {
        for (key, object) in kafka.read(partition, count) {
            assert_eq!(object["uuid"].as_str(), Some(&*key));
            assert_eq!(*places.entry(key).or_insert(partition), partition);
            all.push(object);
        }
    }
    check_order(&all, &acknowledged);
    assert!(places.values().collect::<BTreeSet<_>>().len() > 1, "{places:?}");
}

fn read(server: &Server, name: &str) -> String {
    fs::read_to_string(server.file(name)).unwrap_or_default()
}
