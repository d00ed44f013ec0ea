//! Clients that ask for much and do not read: their searches give up their threads, and go on when
//! they do.

use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::message::{
    Control, ControlsBuf, Modification, ModificationsBuf, ModifyOperation, ModifyRequest,
};
use tokio::time::Instant;

use super::*;
use crate::connection::presence::Presence;
use crate::limits::budget::{Budget, BudgetLimits};
use crate::pools::fair_queue::QueueSize;
use crate::pools::scan_pool::{CHUNKS_MAX, Delivery, ScanPool, ScanPoolSize};

/// Entries, and the octets of each: more than what is between the server and a client takes.
const ENTRIES: i32 = 250;
const SIZE: usize = 60_000;

/// What a search may take that has nothing to wait for, on a busy machine.
const PROMPT: Duration = Duration::from_secs(2);

/// So many threads for large searches; whatever is in the directory, everybody may read it.
fn with_threads(threads: usize) -> Running {
    with(threads, 64 * 1024)
}

/// So many threads for large searches, and so much room for what a client has not taken; whatever
/// is in the directory, everybody may read it.
fn with(threads: usize, output_max_bytes: usize) -> Running {
    let running = Running::with_both(|settings, options| {
        settings.server.scan_threads = threads;
        settings.limits.output_buffer_max_bytes = output_max_bytes;
        settings.limits.size_limit_entries = 0;
        // Nobody is to be ended for what is held.
        settings.limits.undelivered_per_address_max_bytes = 1 << 30;
        settings.limits.undelivered_anonymous_max_bytes = 1 << 30;
        options.limits.inline_candidates_max = 0;
        options.limits.time_limit_s = 0;
    });
    let mut root = running.connect_root();
    let all = "(targetattr=\"*\")(version 3.0; acl \"all\"; \
               allow (read,search,compare) userdn=\"ldap:///anyone\";)";
    let mut values = ValuesBuf::new();
    values.push(all.as_bytes());
    let mut changes = ModificationsBuf::new();
    changes.push(Modification {
        operation: ModifyOperation::Add,
        attribute: PartialAttribute { description: "aci", values: values.as_ref() },
    });
    let modify = ModifyRequest { name: "dc=example,dc=org", changes: changes.as_ref() };
    root.send(&request(2, Request::Modify(modify)));
    assert_eq!(root.receive(), "2 modify success");
    for name in ["anna", "ben"] {
        let pairs =
            [("objectClass", "person"), ("cn", name), ("sn", "x"), ("userPassword", "theirs")];
        root.send(&add_entry(3, &format!("cn={name},dc=example,dc=org"), &pairs));
        assert_eq!(root.receive(), "3 add success");
    }
    fill(&running, ENTRIES, SIZE);
    running
}

fn sign_in(running: &Running, name: &str) -> Client {
    let mut client = running.connect();
    client.send(&bind(1, &format!("cn={name},dc=example,dc=org"), "theirs"));
    assert_eq!(client.receive(), "1 bind success");
    client
}

const UNITS: &str = "(objectClass=organizationalUnit)";

/// A search of all units, whose first entry was read.
fn stall(mut client: Client) -> Client {
    client.send(&search_by(2, "dc=example,dc=org", Scope::Subtree, UNITS));
    assert!(client.receive().starts_with("2 entry ou=e"));
    client
}

/// Waits until so many searches have parked.
fn until_parked(running: &Running, count: u64) {
    let begun = Instant::now();
    while running.counters.parked.value() < count {
        assert!(begun.elapsed() < TIMEOUT, "they do not park");
        std::thread::yield_now();
    }
}

/// A search on the pool, which is answered at once.
#[track_caller]
fn check_prompt(client: &mut Client, who: &str) {
    let begun = Instant::now();
    client.send(&search(9, "ou=e1,dc=example,dc=org", Scope::Base));
    assert_eq!(client.receive(), "9 entry ou=e1,dc=example,dc=org");
    assert_eq!(client.receive(), "9 done success");
    assert!(begun.elapsed() < PROMPT, "{who} waited {:?}", begun.elapsed());
}

#[test]
fn clients_that_do_not_read_hold_no_thread() {
    // Each held a thread of the pool until its time was up: as many of them as there are threads
    // kept all large searches from everybody, the administrator's, too, for a minute.
    let running = with_threads(2);
    let mut stalled = Vec::new();
    let (mut root, mut ben) = (running.connect_root(), sign_in(&running, "ben"));
    for count in [2, 20] {
        while stalled.len() < count {
            stalled.push(stall(running.connect()));
            stalled.push(stall(sign_in(&running, "anna")));
        }
        check_prompt(&mut root, "the administrator");
        check_prompt(&mut ben, "one who has signed in");
        check_prompt(&mut running.connect(), "a stranger");
    }
    until_parked(&running, 20);
    // Nobody lost anything by it.
    for client in stalled.iter_mut().take(2) {
        let more = (0..ENTRIES).map(|_| client.receive()).collect::<Vec<_>>();
        assert_eq!(more.last().unwrap(), "2 done success");
    }
}

#[test]
fn all_searches_of_a_connection_share_what_may_wait_for_it() {
    // A search that parks leaves its chunks. Were they counted for each search, a client that sends
    // searches and does not read would hold some for each.
    let data = tempfile::tempdir().unwrap();
    let (directory, _) = open(data.path(), |_, options| {
        options.limits.inline_candidates_max = 0;
        options.limits.chunk_bytes = 1_000;
    });
    let mut worker = directory.worker();
    let mut session = directory.session(directory::Peer::default());
    let mut handle = |message: &[u8]| worker.handle(&mut session, message, &mut Vec::new());
    assert!(!matches!(handle(&bind(1, ROOT, "secret")), directory::Next::Close(_)));
    for id in 1..=100 {
        let directory::Next::Write(write) = handle(&add(id, &format!("e{id}"), 2_000)) else {
            panic!("an add is a write");
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        write.submit(Box::new(move |_| sender.send(()).unwrap()));
        receiver.recv().unwrap();
    }
    let jobs = (201..=260).map(|id| {
        match handle(&search_by(id, "dc=example,dc=org", Scope::Subtree, UNITS)) {
            directory::Next::Later(job) => job,
            _ => panic!("a large search is a job"),
        }
    });
    let jobs = jobs.collect::<Vec<_>>();
    let counters = Arc::<crate::metrics::counters::Counters>::default();
    let queue = QueueSize { max: 100, reserved: 0, asker_max: 100 };
    let max = 1 << 30;
    let budget = Budget::new(BudgetLimits {
        all_max_bytes: max,
        anonymous_max_bytes: max,
        address_max_bytes: max,
    });
    let threads = 2;
    let size = ScanPoolSize { threads, threads_reserved: 1, queue };
    let (pool, handles) = ScanPool::start(&directory, &counters, &budget, size).unwrap();
    let account = budget.open(None, &Arc::new(Presence::new(Duration::ZERO)), Duration::ZERO);
    let submit = |job| pool.submit(&session, &account, job).unwrap();
    let mut waiting = jobs.into_iter().map(submit).collect::<Vec<_>>();
    let begun = Instant::now();
    while counters.parked.value() < 60 {
        assert!(begun.elapsed() < TIMEOUT, "they do not park");
        std::thread::yield_now();
    }
    let held = waiting.iter().map(|one| one.len()).sum::<usize>() - 60;
    assert_eq!(held, account.chunks());
    assert!(held <= (1 + threads) * (CHUNKS_MAX + 1), "{held} chunks");
    // All are answered when they are taken.
    let (mut done, mut units) = (0, 0);
    while !waiting.is_empty() {
        assert!(begun.elapsed() < TIMEOUT, "they do not go on");
        waiting = waiting
            .into_iter()
            .filter_map(|mut one| match one.try_recv() {
                Ok(Delivery::Chunk(chunk)) => {
                    units += messages_of(&chunk.take().bytes);
                    Some(one)
                }
                Ok(Delivery::Parked(parked)) => Some(pool.resume(&session, &account, *parked)),
                Ok(Delivery::Done(..)) => {
                    done += 1;
                    None
                }
                Ok(Delivery::Released | Delivery::Changed(_)) => Some(one),
                Ok(Delivery::Hashed(_) | Delivery::Displaced(_) | Delivery::Fresh(_)) => {
                    panic!("nothing is hashed, or waits")
                }
                Ok(Delivery::Broken) => panic!("nothing is sent in parts"),
                Err(_) => Some(one),
            })
            .collect();
    }
    assert_eq!((done, units, account.chunks()), (60, 60 * 100, 0));
    assert_eq!(budget.held(), (0, 0));
    drop(pool);
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    directory.shutdown();
}

/// How many messages there are.
fn messages_of(mut octets: &[u8]) -> usize {
    let mut count = 0;
    while let Ok(Frame::Complete(length)) = frame(octets, usize::MAX) {
        octets = &octets[length..];
        count += 1;
    }
    count
}

/// All units, in the order of their names backwards.
fn sorted(id: i32) -> Vec<u8> {
    let key = SortKey { attribute: "ou", rule: None, reverse: true };
    let value = write_sort_keys(&[key]);
    let mut controls = ControlsBuf::new();
    let oid = "1.2.840.113556.1.4.473";
    controls.push(Control { oid, critical: true, value: Some(&value) });
    let mut out = Vec::new();
    let op = Request::Search(SearchRequest {
        base: "dc=example,dc=org",
        scope: Scope::Subtree,
        deref: DerefAliases::Never,
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        filter: Filter::parse(UNITS).unwrap(),
        attributes: Strings::EMPTY,
    });
    Message { id: MessageId(id), op, controls: controls.as_ref() }.encode(&mut out);
    out
}

#[test]
fn a_client_that_goes_on_reading_gets_everything_once_and_in_order() {
    let running = with_threads(2);
    let names = (1..=ENTRIES).map(|id| format!("2 entry ou=e{id},dc=example,dc=org"));
    let by_id = names.collect::<Vec<_>>();
    let mut backwards = by_id.clone();
    backwards.sort_by(|one, other| other.cmp(one));
    let plain = search_by(2, "dc=example,dc=org", Scope::Subtree, UNITS);
    for (message, mut want) in [(plain, by_id), (sorted(2), backwards)] {
        let mut client = running.connect_root();
        let before = running.counters.parked.value();
        client.send(&message);
        let mut got = vec![client.receive()];
        // It stops again and again.
        for stop in 1..4 {
            until_parked(&running, before + stop);
            got.extend((0..70).map(|_| client.receive()));
        }
        while !got.last().unwrap().contains("done") {
            got.push(client.receive());
        }
        want.push("2 done success".to_owned());
        // `e10` is before `e1,` as text, and behind it as a name.
        let mut got_sorted = got.clone();
        got_sorted.sort_unstable();
        got_sorted.dedup();
        assert_eq!(got_sorted.len(), got.len(), "one came twice");
        assert_eq!(got.len(), want.len());
        assert_eq!(got.last(), want.last());
        if want[0].contains("ou=e1,") {
            assert_eq!(got, want);
        } else {
            let value = |answer: &String| {
                let name = answer.strip_prefix("2 entry ou=").unwrap_or_default();
                name.split(',').next().unwrap_or_default().to_owned()
            };
            let order = got[..got.len() - 1].iter().map(value).collect::<Vec<_>>();
            assert!(order.is_sorted_by(|one, other| one > other), "{order:?}");
        }
    }
}

#[test]
fn a_parked_search_that_is_abandoned_is_over() {
    let running = with_threads(2);
    let mut client = stall(running.connect_root());
    until_parked(&running, 1);
    client.send(&request(3, Request::Abandon(MessageId(2))));
    client.send(&extended(4, WHO_AM_I));
    let mut answers = Vec::new();
    while answers.last().is_none_or(|answer: &String| !answer.starts_with("4 ")) {
        answers.push(client.receive());
    }
    assert!(answers.iter().all(|answer| !answer.contains("done")), "{answers:?}");
    assert!(answers.len() < 200, "{}", answers.len());
    // Its id is free again, as soon as its end is known; until then it is refused.
    loop {
        client.send(&search(2, "dc=example,dc=org", Scope::Base));
        if client.receive() == "2 entry dc=example,dc=org" {
            break;
        }
    }
    assert_eq!(client.receive(), "2 done success");
}

#[test]
fn connections_that_end_while_their_searches_are_parked_leave_nothing() {
    let mut running = with_threads(2);
    let stalled = (0..10).map(|_| stall(running.connect())).collect::<Vec<_>>();
    until_parked(&running, 10);
    drop(stalled);
    let mut root = running.connect_root();
    while running.counters.connections.value() > 1 {
        check_prompt(&mut root, "the administrator");
    }
    // The server waits for nothing when it stops, either.
    let mut last = stall(running.connect_root());
    until_parked(&running, 11);
    let begun = Instant::now();
    drop(root);
    let reads = std::thread::spawn(move || last.receive_all());
    running.stop();
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    let answers = reads.join().unwrap();
    assert!(answers.contains(&"2 done success".to_owned()), "what was asked for was answered");
}

/// No index knows any of it, and each candidate is tested for all of it.
fn slow(id: i32) -> Vec<u8> {
    slow_by(id, 1_000)
}

fn slow_by(id: i32, terms: u32) -> Vec<u8> {
    let terms = (0..terms).map(|term| format!("(description=no {term})")).collect::<String>();
    let filter = format!("(|{terms})");
    search_by(id, "dc=example,dc=org", Scope::Subtree, &filter)
}

#[test]
fn strangers_do_not_take_the_thread_of_those_who_have_signed_in() {
    let running = with_threads(2);
    let mut root = running.connect_root();
    // Of one connection some are handed in at a time.
    let mut strangers = (0..10).map(|_| running.connect()).collect::<Vec<_>>();
    let mut sent = 0;
    for stranger in &mut strangers {
        stranger.send(&(2..17).flat_map(slow).collect::<Vec<_>>());
        sent += 15;
    }
    let waiting = || {
        let lengths = running.metric("roster_queue_length");
        lengths["{queue=\"scan\"}"].parse::<u64>().unwrap()
    };
    let begun = Instant::now();
    // One has the thread.
    while waiting() < 9 {
        assert!(begun.elapsed() < TIMEOUT, "they are not that slow");
        std::thread::yield_now();
    }
    check_prompt(&mut root, "the administrator");
    assert!(waiting() > 0, "{sent} searches of strangers were answered meanwhile");
}

/// A time slice ended only when a search was over: who asked for many slow ones had all threads,
/// for as long as one takes, each time somebody else asked for something.
#[test]
fn a_long_search_gives_its_thread_to_others() {
    let running = with_threads(1);
    let mut ben = sign_in(&running, "ben");
    let mut annas = (0..3).map(|_| sign_in(&running, "anna")).collect::<Vec<_>>();
    annas.iter_mut().for_each(|anna| anna.send(&slow_by(2, 30)));
    let begun = Instant::now();
    let waiting = || running.metric("roster_queue_length")["{queue=\"scan\"}"].clone();
    while waiting() == "0" {
        assert!(begun.elapsed() < TIMEOUT, "they are not that slow");
        std::thread::yield_now();
    }
    check_prompt(&mut ben, "one who has signed in");
    assert!(running.counters.yielded.value() > 0);
    // They go on, and are answered all the same.
    annas.iter_mut().for_each(|anna| assert_eq!(anna.receive(), "2 done success"));
}

/// Whoever had enough searches under way had all threads: what another one asked for waited for the
/// end of a time slice, or of a sort.
#[test]
fn one_who_asks_for_much_leaves_a_thread_to_others() {
    let running = with_threads(2);
    let mut ben = sign_in(&running, "ben");
    let mut annas = (0..3).map(|_| sign_in(&running, "anna")).collect::<Vec<_>>();
    annas.iter_mut().for_each(|anna| anna.send(&slow_by(2, 30)));
    let begun = Instant::now();
    let waiting = || running.metric("roster_queue_length")["{queue=\"scan\"}"].clone();
    while waiting() != "2" {
        assert!(begun.elapsed() < TIMEOUT, "she has more than one thread");
        std::thread::yield_now();
    }
    check_prompt(&mut ben, "one who has signed in");
    annas.iter_mut().for_each(|anna| assert_eq!(anna.receive(), "2 done success"));
}

/// What connections leave in the queue goes with them: it took memory that nobody counted,
/// positions, and the time of threads.
#[test]
fn connections_that_end_leave_nothing_in_the_queue() {
    let running = with(2, 1024 * 1024);
    let waiting = || {
        let lengths = running.metric("roster_queue_length");
        lengths["{queue=\"scan\"}"].parse::<u64>().unwrap()
    };
    let begun = Instant::now();
    let mut busy = (0..4).map(|_| running.connect()).collect::<Vec<_>>();
    for one in &mut busy {
        one.send(&(2..6).flat_map(slow).collect::<Vec<_>>());
    }
    while waiting() < 2 {
        assert!(begun.elapsed() < TIMEOUT, "they are not that slow");
        std::thread::yield_now();
    }
    let held = running.connect_root();
    let mut longest = 0;
    for _ in 0..20 {
        let mut gone = running.connect();
        gone.send(&(2..6).flat_map(slow).chain(request(6, Request::Unbind)).collect::<Vec<_>>());
        assert_eq!(gone.receive(), "closed");
        longest = longest.max(waiting());
    }
    assert!(longest <= 16 + 4, "{longest} wait");
    drop((busy, held));
    let begun = Instant::now();
    while waiting() > 0 {
        assert!(begun.elapsed() < TIMEOUT, "somebody waits");
        std::thread::yield_now();
    }
}
