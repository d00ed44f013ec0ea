//! `roster bench` against several servers, and in steps.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod demo;
mod load;

use common::{check, roster};
use demo::Demo;
use load::{Agent, Watched};
use roster::bench::record::{BenchRecord, ServerShare};
use rustix::process::{Pid, Signal, kill_process};

/// People of each demo.
const PEOPLE: u32 = 60;

/// Two servers, by their owner.
struct Pair {
    demos: [Demo; 2],
    uris: [String; 2],
}

impl Pair {
    fn start() -> Self {
        let demos = [Demo::start(PEOPLE), Demo::start(PEOPLE)];
        let uris = [demos[0].url("ldapi"), demos[1].url("ldapi")];
        Self { demos, uris }
    }

    fn list(&self) -> String {
        self.uris.join(" ")
    }
}

fn bench<'a>(servers: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [&["bench"], arguments, &["-H", servers, "--entries", "60"]].concat()
}

#[track_caller]
fn record(servers: &str, arguments: &[&str]) -> BenchRecord {
    let run = roster(&[&bench(servers, arguments)[..], &["--json"]].concat());
    assert_eq!((run.code, run.errors.as_str()), (0, ""), "{arguments:?}: {run:?}");
    BenchRecord::parse(run.output.as_bytes()).unwrap()
}

/// What each server did adds up to what was done; connections to each. One of them may have done
/// nothing: few operations are soon over where the other's connections are heard first.
#[track_caller]
fn connections(record: &BenchRecord, pair: &Pair) -> Vec<u64> {
    let shares = &record.servers;
    let uris: Vec<&str> = shares.iter().map(|share| share.server.uri.as_str()).collect();
    assert_eq!(uris, pair.uris);
    assert_eq!(record.server.uri, pair.list());
    let operations: u64 = shares.iter().map(|share| share.operations).sum();
    assert_eq!(operations, record.operations());
    let entries: u64 = shares.iter().map(|share| share.entries).sum();
    assert_eq!(entries, record.streams.iter().map(|stream| stream.entries).sum::<u64>());
    for share in shares {
        assert_eq!(share.operations > 0, share.latency.max > 0.0, "{share:?}");
        assert_eq!((share.wrong, share.errors, &share.lost), (0, 0, &None), "{share:?}");
    }
    let connections: Vec<u64> = shares.iter().map(|share| share.connections).collect();
    assert_eq!(connections.iter().sum::<u64>(), record.load.connections);
    connections
}

#[test]
fn connections_are_shared_out_evenly_among_servers() {
    let pair = Pair::start();
    let list = pair.list();
    let search = record(&list, &["search", "-n", "2000", "-c", "5", "--expect", "1"]);
    assert_eq!(search.operations(), 2000);
    assert_eq!(connections(&search, &pair), [3, 2]);
    // Their own account, as the administrator is told it.
    let spent = |share: &ServerShare| share.spent.clone().unwrap();
    let cores: f64 = search.servers.iter().map(|share| spent(share).cores).sum();
    let all = search.cost.server.unwrap();
    assert!(all.source == "monitor" && (all.cores - cores).abs() < 1e-9, "{all:?} {cores}");

    // Of several streams with few connections each, those for binds counted.
    let mix = ["mixed", "--mix", "search=1,bind=1", "--mix-by", "clients", "-c", "6"];
    let mixed = record(&list, &[&mix[..], &["-n", "40", "--threads", "2"]].concat());
    assert_eq!(connections(&mixed, &pair), [3, 3]);
    let auth = record(&list, &["auth", "-n", "24", "-c", "4"]);
    assert_eq!((auth.operations(), connections(&auth, &pair)), (24, vec![4, 4]));

    let agents = [Agent::start(&[]), Agent::start(&[]), Agent::start(&[])];
    let agents = agents.each_ref().map(|agent| agent.address.as_str()).join(",");
    let shared = record(&list, &["search", "-n", "900", "-c", "6", "--agents", &agents]);
    assert_eq!((shared.operations(), connections(&shared, &pair)), (900, vec![3, 3]));

    // Their processes, and a page.
    let pids = pair.demos.each_ref().map(|demo| demo.pid().to_string()).join(",");
    let file = pair.demos[0].scratch().join("run.json").display().to_string();
    let timed = ["search", "-t", "1", "--server-pid", &pids, "--output", &file];
    let timed = record(&list, &timed);
    assert!(timed.servers.iter().all(|share| spent(share).source == "pid"), "{timed:?}");
    assert!(timed.servers.iter().all(|share| share.operations > 0), "{timed:?}");
    assert!(timed.servers.iter().all(|share| share.server.pid.is_some()));
    assert!(timed.seconds.iter().all(|second| second.server_cpu_us > Some(0)));
    let page = pair.demos[0].scratch().join("page.html").display().to_string();
    assert_eq!(roster(&["bench", "report", &file, "-o", &page]).code, 0);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("<th scope=\"row\">{}", &pair.uris[1][..20])), "{page}");
    let pid = pair.demos[0].pid().to_string();
    let one = bench(&list, &["search", "--server-pid", &pid]);
    check(&one, 2, "--server-pid names 1 processes of 2 servers\nroster: hint: name one for each");

    // A person is shown a line for each.
    let told = roster(&["bench", "search", "-H", &list, "--entries", "60", "-n", "90"]).output;
    let lines = pair.uris.iter().filter(|uri| {
        told.lines().any(|line| line.contains(*uri) && line.contains("25 connections, "))
    });
    assert_eq!(lines.count(), 2, "{told}");
}

#[test]
fn a_server_that_goes_away_is_told_and_the_others_go_on() {
    let agents = [Agent::start(&[]), Agent::start(&[])];
    let agents = agents.each_ref().map(|agent| agent.address.as_str()).join(",");
    for more in [&["--threads", "2"][..], &["--agents", &agents]] {
        let pair = Pair::start();
        let list = pair.list();
        let search = ["search", "-c", "4", "-t", "6", "--warmup", "0"];
        let mut run = Watched::start(&bench(&list, &[&search, more].concat()));
        run.seconds(1);
        let Pair { demos: [one, other], uris } = pair;
        drop(one);
        let run = run.end();
        drop(other);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.errors.contains(&format!("roster: error: {}: ", uris[0])), "{run:?}");
        let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
        let load = &record.load;
        assert!(!load.cut_short && load.measured_s == 6.0, "{load:?}");
        let [lost, there] = &record.servers[..] else { panic!("{:?}", record.servers) };
        assert_eq!((lost.lost_connections, there.lost_connections), (2, 0), "{lost:?} {there:?}");
        assert!(lost.lost.is_some() && there.lost.is_none(), "{lost:?} {there:?}");
        assert!(there.operations > lost.operations && lost.operations > 0, "{lost:?} {there:?}");
        assert_eq!(there.errors, 0);
        let last = record.seconds.last().unwrap();
        assert!(last.operations > 0 && record.seconds.len() == 6, "{last:?}");
    }
}

#[test]
fn a_run_ends_when_all_its_servers_are_gone() {
    let pair = Pair::start();
    let list = pair.list();
    let mut run = Watched::start(&bench(&list, &["search", "-c", "4", "-t", "600"]));
    run.seconds(1);
    drop(pair);
    let run = run.end();
    assert_eq!(run.code, 1, "{run:?}");
    let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
    assert!(record.load.cut_short, "{record:?}");
    assert!(record.servers.iter().all(|share| share.lost_connections == 2), "{record:?}");
}

#[test]
fn a_server_that_says_nothing_any_more_does_not_hold_up_a_run() {
    let pair = Pair::start();
    let list = pair.list();
    let pid = Pid::from_raw(i32::try_from(pair.demos[0].pid()).unwrap()).unwrap();
    let mut run = Watched::start(&bench(&list, &["search", "-c", "4", "-t", "4"]));
    run.seconds(1);
    kill_process(pid, Signal::STOP).unwrap();
    let run = run.end();
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(run.code, 1, "{run:?}");
    let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
    let [stuck, there] = &record.servers[..] else { panic!("{:?}", record.servers) };
    assert_eq!((stuck.errors, stuck.lost_connections), (2, 2), "{stuck:?}");
    assert!(stuck.lost.as_ref().unwrap().contains("left requests unanswered"), "{stuck:?}");
    assert!(there.errors == 0 && there.operations > stuck.operations, "{there:?}");
}

#[test]
fn steps_are_told_and_not_measured() {
    let demo = Demo::start(PEOPLE);
    let uri = demo.url("ldapi");
    let steps = ["--prime", "1", "--null", "1"];
    let run = record(&uri, &[&["search", "-t", "2", "--warmup", "0"][..], &steps].concat());
    let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["prime", "null", "measured"]);
    let [prime, null, measured] = &run.steps[..] else { panic!("{:?}", run.steps) };
    assert!(prime.operations > 0 && prime.seconds == 1.0 && prime.latency.max > 0.0, "{prime:?}");
    assert_eq!((null.operations, null.seconds), (0, 1.0));
    let stream = &run.streams[0];
    assert_eq!(measured.operations, stream.operations);
    assert_eq!(stream.operations, run.seconds.iter().map(|second| second.operations).sum::<u64>());
    // What was primed is in no figure of the run.
    assert!(stream.made >= stream.operations && stream.made < stream.operations + 100);
    let cores = run.steps.iter().map(|step| step.spent.as_ref().unwrap().cores);
    let cores: Vec<f64> = cores.collect();
    assert!(cores[1] < cores[0] && cores[1] < cores[2], "{cores:?}");

    // Nothing is written before it is measured; the mix without its writes primes.
    let mixed = ["mixed", "--mix", "search=1,add=1", "-n", "40", "-c", "4", "--remove"];
    let mixed = record(&uri, &[&mixed[..], &steps].concat());
    assert!(mixed.steps[0].operations > 0, "{:?}", mixed.steps);
    assert_eq!(mixed.operations(), 40);
    check(
        &bench(&uri, &["add", "-n", "1", "--prime", "1"]),
        2,
        "nothing of this load reads, so that nothing can be primed\nroster: hint: leave --prime",
    );
    let told = ["bench", "search", "-H", &uri, "-n", "9", "--entries", "60", "--null", "1"];
    let told = roster(&told).output;
    assert!(told.contains("  steps       null      1.0 s, nothing asked, 0."), "{told}");
    assert!(told.contains("\n              measured  "), "{told}");
}
