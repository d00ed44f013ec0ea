//! A cluster over several sites: each octet between two members takes 40 ms, there and back 80.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use common::roster;
use machine::{Machine, wait_for};
use serde_json::Value;
use testing::crash::server::{now, pause};

/// How long an octet takes to another member.
const WAY: Duration = Duration::from_millis(40);

/// A way to `to` that takes time; where it begins. It lasts as long as the test.
fn way(to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for here in listener.incoming().flatten() {
            let Ok(there) = TcpStream::connect(&to) else { continue };
            for (from, into) in [(&here, &there), (&there, &here)] {
                carry(from.try_clone().unwrap(), into.try_clone().unwrap());
            }
        }
    });
    address
}

/// Carries octets, each for the same time, whatever comes meanwhile.
fn carry(mut from: TcpStream, mut into: TcpStream) {
    let (sent, arriving) = channel::<(std::time::Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut octets = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut octets) {
            if sent.send((now() + WAY, octets[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, octets) in arriving {
            pause(due.saturating_duration_since(now()));
            if into.write_all(&octets).is_err() {
                break;
            }
        }
        let _ = into.shutdown(Shutdown::Both);
    });
}

/// Three machines, each of which the others reach over a long way.
fn three(folder: &Path) -> Vec<Machine> {
    let path = |name: &str| folder.join(name).display().to_string();
    let names = ["out/node1", "out/node2", "out/node3"];
    let mut all: Vec<Machine> = names.map(|name| Machine::new(folder, name)).into();
    let (suffix, password) = ("dc=example,dc=com", all[0].password.display().to_string());
    let (data, out) = (path("data"), path("out"));
    let ways: Vec<String> = all.iter().map(|machine| way(machine.address.clone())).collect();
    let members: Vec<String> =
        (0..3).map(|at| format!("{} {} {}", at + 1, ways[at], all[at].url())).collect();
    let init = ["cluster", "init", "--data", &data, "--out", &out];
    let members = members.iter().flat_map(|member| ["--member", member]);
    for words in [
        vec!["init", "--data", &data, "--suffix", suffix, "--admin-password-file", &password],
        vec!["import", "--data", &data, &common::example("people.ldif")],
        init.into_iter().chain(members).collect(),
    ] {
        let run = roster(&words);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
    }
    for (machine, way) in all.iter_mut().zip(&ways) {
        let file = machine.data.join("roster.toml");
        let text = fs::read_to_string(&file).unwrap();
        let listen = format!("listen = [\"{way}\"]");
        let own = format!("listen = [\"{}\"]\nsites = \"several\"", machine.address);
        assert!(text.contains(&listen), "{text}");
        fs::write(&file, text.replace(&listen, &own)).unwrap();
    }
    let starting: Vec<_> = all
        .into_iter()
        .map(|mut machine| {
            thread::spawn(move || {
                machine.serve();
                machine
            })
        })
        .collect();
    starting.into_iter().map(|machine| machine.join().unwrap()).collect()
}

/// Who leads, and since when.
fn lead(machine: &Machine) -> Option<(u64, u64)> {
    let told: Value = serde_json::from_str(&machine.ask(&["status", "--json"]).output).ok()?;
    let term = told["cluster"]["members"].as_array()?.iter().filter_map(|one| one["term"].as_u64());
    Some((told["cluster"]["leader"].as_u64()?, term.max()?))
}

#[test]
fn members_at_several_sites_keep_their_leader_and_replace_a_dead_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = three(folder.path());
    let (leader, term) = wait_for("somebody leads", || lead(&all[0]));
    for round in 0..12 {
        all[round % 3].set_title(&format!("round {round}"));
    }
    pause(Duration::from_secs(5));
    assert_eq!(lead(&all[0]), Some((leader, term)), "nobody was elected without need");
    let dead = usize::try_from(leader).unwrap() - 1;
    let mut dead = all.remove(dead);
    dead.kill();
    all[0].set_title("another one leads");
    wait_for("the other has it", || (all[1].title()? == "another one leads").then_some(()));
    dead.serve();
    wait_for("it comes back", || (dead.title()? == "another one leads").then_some(()));
}
