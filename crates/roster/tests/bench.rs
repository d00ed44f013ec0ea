//! `roster bench` against a demo, one run of a few hundred operations for each job and profile; and
//! against servers that are slow or lie.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod demo;
mod load;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use common::{Run, command, roster};
use demo::Demo;
use ldap::ber::{Frame, frame};
use ldap::message::{
    Attributes, Controls, DecodeLimits, LdapResult, Message, MessageId, Request, Response,
};
use ldap::result::ResultCode;
use load::{Agent, Watched};
use roster::bench::record::BenchRecord;
use rustix::process::{Pid, Signal, kill_process};
use testing::crash::server::pause;

/// People of the demo.
const PEOPLE: u32 = 60;

fn run(demo: &Demo, arguments: &[&str]) -> Run {
    let (uri, entries) = (demo.url("ldap"), PEOPLE.to_string());
    let server = ["-H", &uri, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    let all = [&["bench"], arguments, &server, &["--entries", &entries, "--json"]].concat();
    roster(&all)
}

#[track_caller]
fn record(demo: &Demo, arguments: &[&str]) -> BenchRecord {
    let run = run(demo, arguments);
    assert_eq!((run.code, run.errors.as_str()), (0, ""), "{arguments:?}: {run:?}");
    BenchRecord::parse(run.output.as_bytes()).unwrap()
}

/// Operations in the order of their kinds.
#[track_caller]
fn counts(record: &BenchRecord) -> Vec<(&str, u64)> {
    for stream in &record.streams {
        assert_eq!((stream.wrong, stream.errors), (0, 0), "{stream:?}");
        let rows: u64 = stream.histogram.iter().map(|row| row.1).sum();
        assert_eq!(rows, stream.operations);
    }
    record.streams.iter().map(|stream| (stream.name.as_str(), stream.operations)).collect()
}

/// How many entries the demo holds.
fn entries(demo: &Demo) -> u64 {
    let search = ["search", "-f", "(objectClass=person)", "-n", "1", "-c", "1", "--expect", "0-"];
    record(demo, &search).streams[0].entries
}

#[test]
fn every_job_does_what_it_is_told() {
    let demo = Demo::start(PEOPLE);
    let few = ["-n", "200", "-c", "5"];
    let all = |arguments: &[&str]| record(&demo, &[arguments, &few].concat());
    let search = all(&["search", "--expect", "1", "--order", "unique", "cn"]);
    assert_eq!(counts(&search), [("search", 200)]);
    assert_eq!((search.streams[0].entries, search.load.entries), (200, Some(60)));
    assert_eq!(
        counts(&all(&["search", "--outstanding", "7", "--threads", "2"])),
        [("search", 200)]
    );
    assert_eq!(counts(&all(&["search", "--order", "zipf"])), [("search", 200)]);
    let listed = ["search", "-f", "(uid=user.[3,5,7])", "--expect", "1"];
    assert_eq!(counts(&all(&listed)), [("search", 200)]);
    let made = ["search", "-g", "rand(1,60)", "-f", "(uid=user.%d)", "--expect", "1"];
    assert_eq!(counts(&all(&made)), [("search", 200)]);
    let counted = ["search", "-f", "(uid=user.[inc(1,60)])", "--expect", "1"];
    assert_eq!(counts(&all(&counted)), [("search", 200)]);
    assert_eq!(counts(&all(&["compare"])), [("compare", 200)]);
    assert_eq!(counts(&all(&["modify", "--order", "unique"])), [("modify", 200)]);
    let few_binds =
        |arguments: &[&str]| record(&demo, &[arguments, &["-n", "40", "-c", "5"]].concat());
    assert_eq!(counts(&few_binds(&["bind"])), [("bind", 40)]);
    for same in [&["auth"][..], &["auth", "--same-connection"]] {
        let auth = few_binds(same);
        assert_eq!(counts(&auth), [("search", 40), ("bind", 40), ("cycle", 40)]);
        assert_eq!(auth.operations(), 40);
        assert_eq!(auth.load.connections, if same.len() == 1 { 10 } else { 5 });
    }
    assert_eq!(counts(&record(&demo, &["add", "-n", "9", "-c", "2"])), [("add", 9)]);
    assert_eq!(entries(&demo), 60 + 9);
    assert_eq!(counts(&record(&demo, &["modify-dn", "-n", "4", "-c", "2"])), [("modify-dn", 4)]);
    let dn = "uid=user.[1000005-1000009],ou=people,dc=example,dc=com";
    assert_eq!(counts(&record(&demo, &["delete", "--dn", dn, "-c", "2"])), [("delete", 5)]);
    let added = record(&demo, &["add", "--first", "2000000", "-n", "9", "-c", "2", "--remove"]);
    assert_eq!(counts(&added), [("add", 9)]);
    assert_eq!(entries(&demo), 60 + 4);
}

#[test]
fn a_search_that_is_repeated_finds_the_same() {
    let demo = Demo::start(PEOPLE);
    let few = ["search", "-f", "(uid=user.[1-9]*)", "--expect", "same", "-n", "200", "-c", "4"];
    let compared = |more: &[&str]| {
        let record = record(&demo, &[&few[..], more].concat());
        assert_eq!(counts(&record), [("search", 200)]);
        record.streams[0].compared.unwrap()
    };
    let one = compared(&["--threads", "2"]);
    assert_eq!((one.requests, one.answers, one.forgotten), (9, 191, 0));
    // Each agent has its own first answers.
    let agents = [Agent::start(&[]), Agent::start(&[])];
    let list = format!("{},{}", agents[0].address, agents[1].address);
    let two = compared(&["--agents", &list, "--order", "sequential"]);
    assert_eq!((two.requests, two.answers, two.forgotten), (18, 182, 0));
    let uri = demo.url("ldap");
    let told = roster(&[&["bench"], &few[..], &["-H", &uri]].concat()).output;
    let want = "same count  191 responses compared with the first to each of 9 requests\n";
    assert!(told.contains(want), "{told}");

    // What is written beside may change what is found.
    for (writes, kind) in [
        (&["search", "--with", "modify"][..], "modify"),
        (&["search", "--with", "add"], "add"),
        (&["mixed"], "modify"),
    ] {
        let run = run(&demo, &[writes, &["--expect", "same", "-n", "5"]].concat());
        let want = format!("{kind} may change how many entries a search finds\nroster: hint: ");
        assert!(run.code == 2 && run.errors.contains(&want), "{run:?}");
    }
    let reads = ["mixed", "--mix", "search=3,compare=1", "--expect", "same", "-n", "40"];
    record(&demo, &reads);
}

#[test]
fn a_mix_is_of_requests_or_of_clients() {
    let demo = Demo::start(PEOPLE);
    let mix = "search=60,compare=20,modify=14,add=3,delete=3";
    let arguments = ["mixed", "--mix", mix, "-n", "400", "-c", "4", "--remove"];
    let mixed = record(&demo, &arguments);
    let found = counts(&mixed);
    assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 400);
    let of = |name: &str| found.iter().find(|(kind, _)| *kind == name).unwrap().1;
    assert!((200..280).contains(&of("search")) && of("add") >= of("delete"), "{found:?}");
    assert_eq!(entries(&demo), 60);

    let clients = ["mixed", "--mix", "search=3,bind=1", "--mix-by", "clients", "-c", "8"];
    let mixed = record(&demo, &[&clients[..], &["-n", "30"]].concat());
    assert_eq!(counts(&mixed), [("search", 30), ("bind", 30)]);
    assert_eq!(mixed.load.connections, 8);
    // Binds go over connections of their own: the others stay who they are.
    let requests = ["mixed", "--mix", "modify=1,bind=1", "-c", "3", "-n", "40"];
    assert_eq!(record(&demo, &requests).load.connections, 6);
    // A stream of writes beside searches.
    let beside = ["search", "--with", "modify", "--with-connections", "2", "--with-rate", "50"];
    let beside = record(&demo, &[&beside[..], &["-t", "1", "--warmup", "0"]].concat());
    let modifies = beside.streams[1].operations;
    assert!((10..120).contains(&modifies), "{modifies}");
}

#[test]
fn every_profile_runs() {
    let demo = Demo::start(PEOPLE);
    let list = roster(&["bench", "--list"]).output;
    let names: Vec<&str> =
        list.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    assert!(names.len() >= 19 && names.contains(&"oid-mixed-text"), "{list}");
    for name in names {
        // Passwords are hashed slowly.
        let is_slow = ["auth", "add", "mixed"].iter().any(|slow| name.contains(slow));
        let count = if is_slow { "24" } else { "150" };
        let length = match name {
            "sun-updates" => &["-t", "1", "--priming", "1", "--null", "0"][..],
            _ => &["-n", count],
        };
        let removes =
            if name == "oid-add" || name == "oud-mixed" { &["--remove"][..] } else { &[] };
        let run = record(&demo, &[&["run", name, "-c", "12"], length, removes].concat());
        assert_eq!(run.name, name);
        assert!(counts(&run).iter().any(|(_, count)| *count > 0), "{name}");
        assert!(run.load.connections >= 12, "{name}");
    }
    assert_eq!(entries(&demo), 60);
}

#[test]
fn connections_are_protected_as_asked() {
    let demo = Demo::start(PEOPLE);
    let (ldap, ldaps) = (demo.url("ldap"), demo.url("ldaps"));
    let few = ["-n", "100", "-c", "3", "--outstanding", "4", "--json"];
    for (uri, more, want) in [
        (&ldap, &[][..], "none"),
        (&ldap, &["-ZZ", "--reqcert", "never"], "starttls"),
        (&ldaps, &["--reqcert", "never"], "ldaps"),
        (&demo.url("ldapi"), &[], "none"),
    ] {
        let run =
            roster(&[&["bench", "search", "-H", uri, "--entries", "60"], more, &few].concat());
        assert_eq!((run.code, run.errors.as_str()), (0, ""), "{uri} {more:?}");
        let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
        assert_eq!((counts(&record), record.load.tls.as_str()), (vec![("search", 100)], want));
    }
    let run = roster(&["bench", "search", "-H", &ldaps, "-n", "1"]);
    assert!(run.code == 2 && run.errors.contains("--reqcert never"), "{run:?}");
}

#[test]
fn agents_share_a_load_without_doing_anything_twice() {
    let demo = Demo::start(PEOPLE);
    let agents = [Agent::start(&[]), Agent::start(&[])];
    let list = format!("{},{}", agents[0].address, agents[1].address);
    let shared = |arguments: &[&str]| {
        record(&demo, &[arguments, &["--agents", &list, "-c", "5", "--threads", "2"]].concat())
    };
    let search = shared(&["search", "-n", "301", "--order", "unique", "--expect", "1"]);
    assert_eq!(counts(&search), [("search", 301)]);
    assert_eq!((search.load.agents, search.load.connections), (2, 5));
    assert!(search.cost.client_cpu_us_per_operation > 0.0);
    // Nothing is added or deleted twice, or it would be a wrong answer.
    assert_eq!(counts(&shared(&["add", "-n", "12"])), [("add", 12)]);
    assert_eq!(entries(&demo), 72);
    let dn = "uid=user.[1000001-1000012],ou=people,dc=example,dc=com";
    assert_eq!(counts(&shared(&["delete", "--dn", dn])), [("delete", 12)]);
    let paced = shared(&["search", "--rate", "200", "-t", "1", "--warmup", "0"]);
    assert!((100..300).contains(&paced.streams[0].operations), "{:?}", paced.streams[0].operations);
    assert_eq!(paced.seconds.len(), 1);
    assert_eq!(counts(&shared(&["auth", "-n", "10"]))[2], ("cycle", 10));

    // What an agent cannot do is told by the coordinator.
    let run = run(&demo, &["search", "--agents", &list, "-w", "wrong", "-n", "1", "-c", "2"]);
    assert!(run.code != 0, "{run:?}");
    let run = roster(&["bench", "search", "-H", "ldap://127.0.0.1:1", "--agents", &list]);
    assert!(run.errors.contains("agent 127.0.0.1") && run.errors.contains("cannot connect"));
}

#[test]
fn agents_work_for_those_only_who_know_their_secret() {
    let demo = Demo::start(PEOPLE);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let secret = file("secret", "0123456789abcdef\n");
    let agent = Agent::start(&["--secret-file", &secret]);
    let with = |secret: &[&str]| {
        run(
            &demo,
            &[&["search", "-n", "20", "-c", "2", "--agents", &agent.address], secret].concat(),
        )
    };
    assert_eq!(with(&["--secret-file", &secret]).code, 0);
    let other = file("other", "0123456789abcdeX\n");
    for wrong in [&[][..], &["--secret-file", &other]] {
        let run = with(wrong);
        assert!(run.code == 1 && run.errors.contains("--secret-file"), "{run:?}");
    }
    assert_eq!(with(&["--secret-file", &secret]).code, 0);
    // One that closes after greeting.
    drop(TcpStream::connect(&agent.address).unwrap());
    assert_eq!(with(&["--secret-file", &secret]).code, 0);

    let check = |arguments: &[&str], want: &str| {
        let run = roster(&[&["bench"], arguments].concat());
        assert!(run.code == 2 && run.errors.contains(want), "{run:?}");
    };
    check(&["agent", "--listen", "0.0.0.0:0"], "can be reached from other machines\nroster: hint");
    let short = file("short", "123\n");
    check(&["agent", "--secret-file", &short], "has fewer than 16 bytes");
    check(&["search", "--agents", "127.0.0.1:1"], "is 'roster bench agent --listen");
}

#[test]
fn a_run_that_is_asked_to_end_tells_all_it_has() {
    let demo = Demo::start(PEOPLE);
    let (uri, csv) = (demo.url("ldap"), demo.scratch().join("seconds.csv"));
    let login = ["-H", &uri, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    let csv_option = ["--csv", csv.to_str().unwrap()];
    for signal in [Signal::INT, Signal::TERM] {
        let add = ["bench", "add", "-c", "3", "-t", "600", "--remove", "--threads", "2"];
        let mut run = Watched::start(&[&add[..], &login, &csv_option].concat());
        run.seconds(1);
        run.signal(signal);
        let run = run.end();
        assert_eq!(run.code, 130, "{run:?}");
        assert!(run.errors.contains("roster: error: ended early, after "), "{run:?}");
        let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
        let load = &record.load;
        assert!(load.cut_short && load.duration_s == 600.0 && load.measured_s < 60.0, "{load:?}");
        assert!(load.measured_s > 1.0 && counts(&record)[0].1 > 0, "{load:?}");
        assert!(record.machine.stalls.unwrap().max > 0.0);
        let lines = std::fs::read_to_string(&csv).unwrap();
        assert_eq!(lines.lines().count(), record.seconds.len() + 1);
        // What it added was removed all the same.
        assert_eq!(entries(&demo), u64::from(PEOPLE));
    }
    // In the warm-up there is nothing to tell.
    let (sender, begun) = sync_channel(1);
    let uri = server(move |_, id, out| {
        let _ = sender.try_send(());
        right(id, out);
    });
    let run = command(&["bench", "search", "-H", &uri, "--warmup", "600", "--live"]).spawn();
    let run = run.unwrap();
    begun.recv().unwrap();
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let run = run.wait_with_output().unwrap();
    assert_eq!((run.status.code(), run.stdout.len()), (Some(130), 0), "{run:?}");
}

#[test]
fn who_asks_twice_does_not_wait_for_answers() {
    let uri = server(|number, id, out| {
        if number > 100 {
            pause(Duration::from_secs(600));
        }
        right(id, out);
    });
    let mut run = Watched::start(&["bench", "search", "-H", &uri, "-c", "2", "--warmup", "0"]);
    run.seconds(1);
    // Signals that come soon after each other may be taken as one.
    while run.child.try_wait().unwrap().is_none() {
        run.signal(Signal::INT);
        pause(Duration::from_millis(300));
    }
    // Who waits longer for answers gives up with another code, and with a record.
    let run = run.end();
    assert_eq!((run.code, run.output.as_str()), (130, ""), "{run:?}");
}

#[test]
fn agents_end_with_the_run_and_the_run_with_its_agents() {
    let demo = Demo::start(PEOPLE);
    let uri = demo.url("ldap");
    let mut agents = [Agent::start(&[]), Agent::start(&[])];
    let list = format!("{},{}", agents[0].address, agents[1].address);
    let long = ["bench", "search", "-H", &uri, "-c", "4", "--entries", "60", "--agents", &list];
    let few = || {
        let run = roster(&[&long[..], &["-n", "50", "--json"]].concat());
        assert_eq!(run.code, 0, "{run:?}");
        BenchRecord::parse(run.output.as_bytes()).unwrap()
    };
    let mut run = Watched::start(&[&long[..], &["-t", "600"]].concat());
    run.seconds(1);
    run.signal(Signal::INT);
    let run = run.end();
    let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
    assert!(run.code == 130 && record.load.cut_short && record.operations() > 0, "{run:?}");
    assert!(record.machine.stalls.is_some() && record.cost.client_cpu_us_per_operation > 0.0);
    assert_eq!(counts(&few()), [("search", 50)]);
    // A coordinator that is gone in the warm-up leaves nobody at work.
    let mut run = command(&[&long[..], &["--warmup", "600"]].concat()).spawn().unwrap();
    pause(Duration::from_secs(1));
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(counts(&few()), [("search", 50)]);
    // Half of a load is not the load.
    let mut run = Watched::start(&[&long[..], &["-t", "600"]].concat());
    run.seconds(1);
    agents[1].child.kill().unwrap();
    let run = run.end();
    let lost = format!("agent {}: the peer closed the connection", agents[1].address);
    assert!(run.code == 1 && run.errors.contains(&lost), "{run:?}");
    assert!(BenchRecord::parse(run.output.as_bytes()).unwrap().load.cut_short);
}

#[test]
fn a_run_ends_with_its_server() {
    let demo = Demo::start(PEOPLE);
    let (uri, pid) = (demo.url("ldap"), demo.pid().to_string());
    let search = ["bench", "search", "-H", &uri, "-c", "4", "-t", "600", "--entries", "60"];
    let mut run =
        Watched::start(&[&search[..], &["--server-pid", &pid, "--threads", "2"]].concat());
    run.seconds(1);
    drop(demo);
    let run = run.end();
    assert!(run.code == 1 && run.errors.contains("connection"), "{run:?}");
    let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
    assert!(record.load.cut_short && record.operations() > 0, "{record:?}");
}

/// A server that answers searches until it is told otherwise.
fn server(answer: impl Fn(usize, MessageId, &mut Vec<u8>) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("ldap://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    let count = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            thread::spawn(move || serve(stream, &count, &*answer));
        }
    });
    uri
}

fn serve(
    mut stream: TcpStream,
    count: &AtomicUsize,
    answer: &dyn Fn(usize, MessageId, &mut Vec<u8>),
) {
    let mut incoming = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Ok(Frame::Complete(length)) = frame(&incoming, 1 << 20) {
            let octets: Vec<u8> = incoming.drain(..length).collect();
            let message =
                Message::<Request<'_>>::decode(&octets, &DecodeLimits::default()).unwrap();
            let mut out = Vec::new();
            match &message.op {
                // The root DSE, which is asked for the name of the server, is no part of the run.
                Request::Search(search) if search.base.is_empty() => done(message.id, &mut out),
                Request::Unbind => return,
                _ => answer(count.fetch_add(1, Ordering::Relaxed), message.id, &mut out),
            }
            if stream.write_all(&out).is_err() {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => incoming.extend_from_slice(&buffer[..read]),
            Ok(_) | Err(_) => return,
        }
    }
}

fn respond(id: MessageId, op: Response<'_>, out: &mut Vec<u8>) {
    Message { id, op, controls: Controls::EMPTY }.encode(out);
}

fn entry(id: MessageId, out: &mut Vec<u8>) {
    respond(id, Response::SearchEntry { dn: "cn=x", attributes: Attributes::default() }, out);
}

fn done(id: MessageId, out: &mut Vec<u8>) {
    respond(id, Response::SearchDone(LdapResult::new(ResultCode::Success)), out);
}

fn right(id: MessageId, out: &mut Vec<u8>) {
    entry(id, out);
    done(id, out);
}

#[test]
fn a_stall_is_in_every_latency_that_was_due_in_it() {
    // One answer in the middle is late by 600 ms; the other connection goes on, or would.
    let stalled = Arc::new(Barrier::new(1));
    let uri = server(move |number, id, out| {
        if number == 150 || number == 151 {
            stalled.wait();
            pause(Duration::from_millis(600));
        }
        right(id, out);
    });
    let base = ["bench", "search", "-H", &uri, "-c", "2", "-t", "2", "--warmup", "0", "--json"];
    let open = roster(&[&base[..], &["--rate", "300"]].concat());
    assert_eq!(open.code, 0, "{open:?}");
    let open = BenchRecord::parse(open.output.as_bytes()).unwrap();
    let stream = &open.streams[0];
    // 180 requests were due in the stall of 600 ms: their latencies fall from 600 ms to 0.
    assert!((450..750).contains(&stream.operations), "{}", stream.operations);
    assert!(stream.latency.p90 > 200_000.0 && stream.latency.max > 590_000.0, "{stream:?}");
    assert!(stream.late > 80 && stream.skipped == 0, "{} {}", stream.late, stream.skipped);
    assert_eq!(open.load.rate, Some(300.0));
}

#[test]
fn what_is_too_late_to_be_sent_is_counted() {
    let uri = server(|number, id, out| {
        if number == 50 {
            pause(Duration::from_millis(500));
        }
        right(id, out);
    });
    let base = ["bench", "search", "-H", &uri, "-c", "1", "-t", "1", "--warmup", "0", "--json"];
    let run = roster(&[&base[..], &["--rate", "200", "--latency-limit", "50"]].concat());
    let record = BenchRecord::parse(run.output.as_bytes()).unwrap();
    let stream = &record.streams[0];
    assert!((50..130).contains(&stream.skipped) && stream.late >= 1, "{stream:?}");
}

#[test]
fn wrong_answers_fail_a_run() {
    let ask = |uri: &str| {
        let few = ["-n", "100", "-c", "2", "--expect", "1"];
        let run = roster(&[&["bench", "search", "-H", uri], &few[..]].concat());
        assert_eq!(run.code, 1, "{run:?}");
        run.errors
    };
    let fewer = server(|number, id, out| if number == 70 { done(id, out) } else { right(id, out) });
    let errors = ask(&fewer);
    assert!(errors.contains("1 responses were wrong, the first one: a search found 0"), "{errors}");
    assert!(!errors.contains("hint:"), "{errors}");
    let empty = server(|_, id, out| done(id, out));
    assert!(ask(&empty).contains("hint: the load does not fit this directory"));
    let busy = server(|_, id, out| {
        let result = LdapResult { diagnostic: "later", ..LdapResult::new(ResultCode::Busy) };
        respond(id, Response::SearchDone(result), out);
    });
    assert!(ask(&busy).contains("the server answered busy (51): later"), "{}", ask(&busy));
    let other = server(|_, id, out| right(MessageId(id.0 + 5), out));
    assert!(ask(&other).contains("never sent"));
    let kind = server(|_, id, out| {
        respond(id, Response::Compare(LdapResult::new(ResultCode::CompareTrue)), out);
    });
    assert!(ask(&kind).contains("a response of another kind"));
    let garbled = server(|_, _, out| out.extend_from_slice(b"HTTP/1.1 400\r\n\r\n"));
    assert!(ask(&garbled).contains("the server sent a malformed message"));
    let closes = server(|number, id, out| {
        assert!(number < 60, "the connection is to be lost");
        right(id, out);
    });
    assert!(ask(&closes).contains("the server closed a connection"));
}

#[test]
fn another_number_of_entries_for_the_same_request_fails_a_run() {
    let ask = |job: &[&str]| {
        let uri = server(|number, id, out| {
            (0..3).for_each(|_| entry(id, out));
            if number == 900 { done(id, out) } else { right(id, out) }
        });
        roster(&[&["bench"], job, &["-H", &uri, "-n", "1000", "-c", "2"]].concat())
    };
    // Nobody knows how many are right: any number was, before a first answer was remembered.
    let search = ["search", "-f", "(uid=user.[1-9]*)", "--expect"];
    assert_eq!(ask(&[&search[..], &["0-"]].concat()).code, 0);
    for job in [&[&search[..], &["same"]].concat(), &["run", "oud-substring"][..]] {
        let run = ask(job);
        let want =
            "1 responses were wrong, the first one: a search found 3 entries, but 4 the first";
        assert!(run.code == 1 && run.errors.contains(want), "{run:?}");
    }
}
