//! `roster bench replay`: the load of a log that a server wrote, against it and others.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod demo;
mod load;

use std::fs;
use std::path::PathBuf;

use client::{ConnectOptions, Connection, SearchFor};
use common::{check, roster};
use demo::Demo;
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use load::Agent;
use roster::bench::record::BenchRecord;
use testing::crash::server::pause;

/// People of each demo.
const PEOPLE: u32 = 60;
const SUFFIX: &str = "dc=example,dc=com";

/// The access log of a demo, once it has this text.
fn log(demo: &Demo, has: &str) -> PathBuf {
    log_once(demo, &|text| text.contains(has), has)
}

/// The access log of a demo that was asked by so many clients, once all of them have left: whoever
/// reads it twice finds the same.
fn whole_log(demo: &Demo, clients: usize) -> PathBuf {
    let is_whole = |text: &str| {
        let text = text.to_lowercase();
        let [both, left] = ["connect", "disconnect"].map(|word| text.matches(word).count());
        left >= clients && both == 2 * left
    };
    log_once(demo, &is_whole, "the end of every connection")
}

fn log_once(demo: &Demo, is_there: &dyn Fn(&str) -> bool, what: &str) -> PathBuf {
    let find = || {
        let folders = fs::read_dir(demo.scratch()).unwrap().flatten();
        folders.map(|folder| folder.path().join("logs/access.log")).find(|path| path.is_file())
    };
    for _ in 0..600 {
        let path = find();
        if path.as_ref().is_some_and(|path| is_there(&fs::read_to_string(path).unwrap())) {
            return path.unwrap();
        }
        pause(std::time::Duration::from_millis(50));
    }
    panic!("no log has {what}")
}

/// Some requests of every kind, the last one with this name.
fn ask(demo: &Demo, last: &str) {
    let person = |number: u32| format!("uid=user.{number},ou=people,{SUFFIX}");
    let mut connection = Connection::open(ConnectOptions::new(demo.url("ldap"))).unwrap();
    for number in 1..=6 {
        let mut user = Connection::open(ConnectOptions::new(demo.url("ldap"))).unwrap();
        user.bind(&person(number), b"password").unwrap();
    }
    connection.bind(&demo.admin_dn, demo.admin_password.as_bytes()).unwrap();
    for number in 1..=20 {
        let one = format!("(uid=user.{number})");
        let two = format!("(&(objectClass=person)(mail=user.{number}@*)(!(sn=nobody)))");
        for text in [&one, &one, &two] {
            let asked = SearchFor {
                attributes: &["cn", "mail"],
                ..SearchFor::below(SUFFIX, Filter::parse(text).unwrap())
            };
            connection.search(&asked).unwrap();
        }
        let name = person(number);
        let whole = Filter::Present("objectClass");
        let asked = SearchFor { scope: Scope::Base, ..SearchFor::below(&name, whole) };
        connection.search(&asked).unwrap();
    }
    for number in 1..=5 {
        let change = (ModifyOperation::Replace, "title", &["x"][..]);
        connection.modify(&person(number), &[change]).unwrap();
    }
    let ou = format!("ou={last},{SUFFIX}");
    let attributes = [("objectClass", &["organizationalUnit"][..]), ("ou", &[last][..])];
    connection.add(&ou, &attributes).unwrap();
    connection.delete(&ou).unwrap();
    connection.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap();
    let whole = Filter::Present("objectClass");
    connection.search(&SearchFor { scope: Scope::Base, ..SearchFor::below(&ou, whole) }).unwrap();
}

fn replay(demo: &Demo, log: &str, more: &[&str]) -> BenchRecord {
    let (uri, entries) = (demo.url("ldapi"), PEOPLE.to_string());
    let base = ["bench", "replay", log, "-H", &uri, "--entries", &entries, "--json"];
    let run = roster(&[&base[..], more].concat());
    assert_eq!((run.code, run.errors.as_str()), (0, ""), "{run:?}");
    BenchRecord::parse(run.output.as_bytes()).unwrap()
}

fn operations(record: &BenchRecord, kind: &str) -> u64 {
    let streams = record.streams.iter();
    streams.filter(|stream| stream.name == kind).map(|stream| stream.operations).sum()
}

/// So many, as far as chance goes: requests come at random moments.
#[track_caller]
fn about(count: u64, want: u64) {
    let spread = 5 * want.isqrt() + 5;
    assert!(count.abs_diff(want) <= spread, "{count} is not about {want}");
}

#[test]
fn a_log_is_repeated_in_both_formats_about_other_entries() {
    let target = Demo::start(PEOPLE);
    for format in ["json", "text"] {
        let settings = [("ROSTER_ACCESS_LOG__FORMAT", format)];
        let recorded = Demo::start_set(PEOPLE, &[], &settings);
        ask(&recorded, "the-last");
        // Six people, and who asked for the rest.
        let path = whole_log(&recorded, 7).display().to_string();
        let text = fs::read_to_string(&path).unwrap();

        let reads = replay(&target, &path, &["--speed", "0.5"]);
        let log = reads.replay.as_ref().unwrap();
        // The beginnings of addresses have two lengths.
        assert_eq!((log.requests, log.shapes, log.bad_lines), (81, 5, 0), "{log:?}");
        assert_eq!(log.lines, text.lines().count() as u64);
        let left_out: Vec<_> = log.left_out.iter().map(|(why, n)| (why.as_str(), *n)).collect();
        let want = [("binds, without --password", 7), ("extended operations", 1), (NO_WRITES, 7)];
        assert_eq!(left_out, want);
        assert_eq!(reads.streams.len(), 1, "nothing but searches");
        let found = &reads.streams[0];
        about(found.operations, 81);
        assert_eq!((found.wrong, found.errors), (0, 0));
        assert_eq!(found.result_codes.keys().collect::<Vec<_>>(), [&0]);
        assert!(found.entries >= found.operations / 2, "{found:?}");
        assert!(reads.load.measured_s >= 2.0 * log.length_s - 0.1, "{log:?} {:?}", reads.load);

        let all = ["--writes", "--remove", "--password", "password", "--threads", "2"];
        let all = replay(&target, &path, &all);
        let log = all.replay.as_ref().unwrap();
        // The administrator is no entry that could be drawn.
        assert_eq!(log.left_out.values().sum::<u64>(), 2, "{log:?}");
        about(all.operations(), 81 + 6 + 7);
        assert!(operations(&all, "modify") > 0 && operations(&all, "search") > 0, "{all:?}");
        for stream in &all.streams {
            assert_eq!((stream.wrong, stream.errors), (0, 0), "{stream:?}");
        }
    }
    // What was written stands for what was, and was taken back.
    let mut connection = Connection::open(ConnectOptions::new(target.url("ldap"))).unwrap();
    let people = Filter::Present("uid");
    assert_eq!(connection.search(&SearchFor::below(SUFFIX, people)).unwrap().entries.len(), 60);
    let titled = Filter::parse("(title=x)").unwrap();
    let titled = connection.search(&SearchFor::below(SUFFIX, titled)).unwrap();
    assert!(titled.entries.is_empty(), "{titled:?}");
    // Nothing of the logs is asked for.
    let asked = fs::read_to_string(log(&target, "title=x")).unwrap();
    for value in ["nobody", "the-last"] {
        assert!(!asked.contains(value), "{value}");
    }
    assert!(asked.contains("(&(objectClass=person)(mail="), "{asked}");
}

const NO_WRITES: &str = "updates, without --writes";

/// A log of ten seconds: in each of the first five a hundred searches, in the others twenty.
fn ten_seconds() -> String {
    let mut text = String::new();
    for second in 0..10 {
        for number in 0..if second < 5 { 100 } else { 20 } {
            text.push_str(&format!(
                "[2026-11-22T12:00:{second:02}.{number:06}Z] SEARCH conn=1 op={number} \
                 base=\"dc=x\" scope=\"sub\" filter=\"(uid=somebody)\" attrs=\"cn\" \
                 result=0 nentries=1\n"
            ));
        }
    }
    text
}

#[test]
fn requests_come_when_they_came() {
    let target = Demo::start(PEOPLE);
    let file = target.scratch().join("other.log");
    // The suffix has other types than that of the target.
    let text = ten_seconds().replace("dc=x", "dc=x,dc=y");
    fs::write(&file, &text).unwrap();
    let path = file.to_str().unwrap();
    let agents = [Agent::start(&[]), Agent::start(&[])];
    let agents = agents.each_ref().map(|agent| agent.address.as_str()).join(",");
    for more in [&["--threads", "2"][..], &["--agents", &agents]] {
        let record = replay(&target, path, &[&["--speed", "5"], more].concat());
        assert_eq!(record.load.measured_s, 2.0);
        about(record.seconds[0].operations, 500);
        about(record.seconds[1].operations, 100);
        assert_eq!(record.replay.as_ref().unwrap().length_s, 10.0);
    }
    // A part of it, compressed and in pieces.
    let gzip = target.scratch().join("other.log.gz");
    let (one, other) = text.split_at(text.find("[2026-11-22T12:00:03").unwrap());
    let mut encoder = flate2::write::GzEncoder::new(
        fs::File::create(&gzip).unwrap(),
        flate2::Compression::fast(),
    );
    std::io::Write::write_all(&mut encoder, one.as_bytes()).unwrap();
    encoder.finish().unwrap();
    fs::write(&file, other).unwrap();
    let first = replay(&target, gzip.to_str().unwrap(), &[path, "-t", "1", "--prime", "1"]);
    assert_eq!((first.load.measured_s, first.replay.as_ref().unwrap().requests), (1.0, 600));
    about(first.operations(), 100);
    assert_eq!(first.steps.len(), 2);
}

#[test]
fn what_cannot_be_read_or_repeated_is_told() {
    let target = Demo::start(PEOPLE);
    let file = target.scratch().join("odd.log");
    let long = "x".repeat(70_000);
    let odd = "[2026-11-22T12:00:00Z] FROB conn=1\n[2026-11-22T12:00:00Z] MODIFYDN dn=\"cn=x\"\n\
               [2026-11-22T12:00:01Z] SEARCH base=\"l=x\" scope=\"sub\" filter=\"(uid=a)\"\n\
               [2026-11-22T12:00:01Z] COMPARE dn=\"uid=a,ou=x,dc=x,dc=x\" attr=\"userPassword\"\n\
               [2026-11-22T12:00:02Z] DROPPED count=9 reason=\"full\"\n";
    let text = format!("{}junk\n{{\n{long}\n{odd}", ten_seconds().replace("dc=x", "dc=x,dc=y"));
    fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let uri = target.url("ldap");
    let run = roster(&["bench", "replay", path, "-H", &uri, "-t", "1"]);
    assert_eq!((run.code, run.errors.as_str()), (0, ""), "{run:?}");
    for want in [
        "\n  log         600 requests of 1 shapes in 10 s, 1 times as fast, out of 608 lines\n",
        "  left out    1 operations of a kind that this release does not know\n",
        "              1 renames\n",
        "              1 requests about entries with names of a form that no entry here has\n",
        "              1 requests with attributes that no entry here shows values of\n",
        "  dropped     9 lines, when the log was written\n",
        "  unreadable  3 lines\n",
        "line 601: it is no line of the access log\n",
        "line 602: it is not a JSON object of the log\n",
        "line 603: it is longer than 64 KiB\n",
    ] {
        assert!(run.output.contains(want), "{}\nlacks\n{want}", run.output);
    }
    let bad = |arguments: &[&str], want: &str| {
        check(&[&["bench", "replay"], arguments, &["-H", &uri]].concat(), 2, want);
    };
    bad(&[path, "--rate", "5"], "the log says when requests are due\nroster: hint: use --speed");
    bad(&[path, "--speed", "0"], "a speed is from 0.01 to 1000");
    bad(&["/nowhere"], "cannot read /nowhere: ");
    fs::write(&file, "dn: dc=x\n").unwrap();
    bad(&[path], "none of 1 lines is a request to repeat\nroster: hint: is it an access log");
    fs::write(&file, "[2026-11-22T12:00:00Z] ADD dn=\"cn=x\"\n").unwrap();
    bad(&[path], "the log has nothing that could be repeated here");
}
