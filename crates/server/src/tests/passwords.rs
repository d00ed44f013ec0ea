//! Slow password hashes: nothing overtakes them on their connection, and nobody else waits.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use auth::password::{Argon2Cost, HashCosts, PasswordStorage};
use directory::Next;
use environment::OsChance;

use ldap::message::{
    Control, ControlsBuf, Modification, ModificationsBuf, ModifyOperation, ModifyRequest,
};

use super::budgets::{connect_from, metric, wait_until};
use super::simulated::{all_ended, described, until, with_worker};
use super::*;
use crate::connection::presence::Presence;

const ANNA: &str = "uid=anna,dc=example,dc=org";

/// A hash of "secret" that takes a while even where everything is optimised.
fn slow() -> String {
    hash(16)
}

fn hash(passes: u32) -> String {
    let argon2 = Argon2Cost { memory_kib: 16_384, passes, lanes: 1 };
    let costs = HashCosts { argon2, ..HashCosts::default() };
    let storage = PasswordStorage { scheme: Scheme::Argon2id, costs };
    String::from_utf8(storage.hash(b"secret", &mut OsChance).unwrap()).unwrap()
}

fn add_anna(running: &Running, password: &str) {
    let pairs = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "Anna"),
        ("sn", "Berg"),
        ("userPassword", password),
    ];
    let mut root = running.connect_root();
    root.send(&add_entry(2, ANNA, &pairs));
    assert_eq!(root.receive(), "2 add success");
}

#[test]
fn what_is_sent_behind_a_bind_waits_for_it_and_others_do_not() {
    let running = Running::with(|settings| settings.server.workers = 1);
    add_anna(&running, &slow());
    let mut client = running.connect();
    let wrong = [bind(1, ANNA, "wrong"), extended(2, WHO_AM_I)].concat();
    let right = [bind(3, ANNA, "secret"), search(4, ANNA, Scope::Base)].concat();
    client.send(&[wrong, right].concat());
    // On the same worker.
    running.check_alive();
    assert_eq!(client.receive(), "1 bind invalidCredentials");
    assert_eq!(client.receive(), "2 extended success");
    assert_eq!(client.receive(), "3 bind success");
    assert_eq!(client.receive(), format!("4 entry {ANNA}"));
    assert_eq!(client.receive(), "4 done success");
}

#[test]
fn one_bind_too_many_is_told_busy() {
    let running = Running::with(|settings| {
        settings.password.hash_threads = 1;
        settings.password.hash_queue_max = 2;
    });
    add_anna(&running, &slow());
    let mut clients = (0..8).map(|_| running.connect()).collect::<Vec<_>>();
    for client in &mut clients {
        client.send(&bind(1, ANNA, "secret"));
    }
    let mut answers = clients.iter_mut().map(Client::receive).collect::<Vec<_>>();
    answers.sort();
    answers.dedup();
    assert_eq!(answers, ["1 bind busy", "1 bind success"]);
    // They may try again.
    for client in &mut clients {
        client.send(&bind(2, ANNA, "secret"));
        let answer = client.receive();
        assert!(answer.starts_with("2 bind success"), "{answer}");
    }
}

#[test]
fn a_client_that_leaves_does_not_hold_the_pool() {
    let running = Running::with(|settings| settings.password.hash_threads = 1);
    add_anna(&running, &slow());
    for _ in 0..50 {
        let mut client = running.connect();
        client.send(&bind(1, ANNA, "secret"));
    }
    let mut client = running.connect();
    client.send(&bind(1, ANNA, "secret"));
    assert_eq!(client.receive(), "1 bind success");
}

/// How many requests wait for a thread that hashes.
fn waiting(running: &Running) -> usize {
    metric(running, "roster_queue_length{queue=\"hash\"}")
}

/// One thread that hashes, and so many positions in its queue.
fn with_places(max: usize) -> Running {
    let running = Running::with(|settings| {
        settings.password.hash_threads = 1;
        settings.password.hash_queue_max = max;
        settings.password.hash_queue_address_max = max;
        settings.limits.half_closed_timeout = Duration::from_millis(20);
        // Else so many of one address wait before that.
        settings.limits.bind_failures_max = 0;
    });
    add_anna(&running, &hash(4));
    running
}

/// Clients of one address, each with a bind that waits, or is computed.
fn bind_many(running: &Running, last: u8, count: usize) -> Vec<Client> {
    let clients = (0..count).map(|_| {
        let mut client = connect_from(running, last);
        client.send(&bind(1, ANNA, "secret"));
        client
    });
    clients.collect()
}

#[test]
fn who_waits_for_a_password_holds_next_to_nothing() {
    // Each held 16 KiB to look ahead into: 1,024 of an address were all it may hold, and the others
    // were closed without an answer.
    let running = with_places(100);
    let mut root = running.connect_root();
    let clients = bind_many(&running, 1, 40);
    wait_until(&mut root, || waiting(&running) >= 30);
    let each = metric(&running, "roster_undelivered_anonymous_bytes") / clients.len();
    assert!(each < 1_024, "{each} octets are held for each");
}

#[test]
fn an_address_that_fills_the_queue_takes_its_places_from_itself() {
    let running = with_places(16);
    let mut root = running.connect_root();
    let mut first = bind_many(&running, 1, 12);
    wait_until(&mut root, || waiting(&running) >= 11);
    let mut others = [2, 3].map(|last| bind_many(&running, last, 2)).into_iter().flatten();
    assert!(others.all(|mut client| client.receive() == "1 bind success"));
    let mut answers = first.iter_mut().map(Client::receive).collect::<Vec<_>>();
    answers.sort();
    answers.dedup();
    assert_eq!(answers, ["1 bind busy", "1 bind success"]);
}

#[test]
fn binds_of_clients_that_are_gone_give_up_their_places() {
    let running = with_places(100);
    let mut root = running.connect_root();
    let clients = bind_many(&running, 1, 60);
    wait_until(&mut root, || waiting(&running) >= 50);
    let hashed = running.counters.hashes.value();
    drop(clients);
    wait_until(&mut root, || waiting(&running) == 0);
    let hashed = running.counters.hashes.value() - hashed;
    assert!(hashed < 40, "{hashed} were computed for nobody");
    // So do those of clients that have ended their side only: who is gone looks like them.
    let mut clients = bind_many(&running, 1, 60);
    clients.iter().for_each(Client::finish_sending);
    // Until the server has closed it.
    clients.iter_mut().for_each(|client| drop(client.receive_all()));
    wait_until(&mut root, || running.counters.connections.value() == 1);
    assert_eq!(waiting(&running), 0);
}

#[test]
fn who_hangs_up_has_guessed_at_the_account_too() {
    let running = Running::with(|settings| {
        settings.password.hash_threads = 1;
        settings.limits.half_closed_timeout = Duration::from_millis(20);
        settings.limits.bind_failures_max = 0;
    });
    add_anna(&running, &slow());
    let policy = [
        ("objectClass", "subentry"),
        ("objectClass", "pwdPolicy"),
        ("subtreeSpecification", "{}"),
        ("pwdAttribute", "userPassword"),
        ("pwdLockout", "TRUE"),
        ("pwdMaxFailure", "3"),
    ];
    let mut root = running.connect_root();
    root.send(&add_entry(2, "cn=policy,dc=example,dc=org", &policy));
    assert_eq!(root.receive(), "2 add success");
    // From now on the right one is answered at once.
    let mut client = running.connect();
    client.send(&bind(1, ANNA, "secret"));
    assert_eq!(client.receive(), "1 bind success");
    let guesses: Vec<_> = (0..3)
        .map(|number| {
            let mut client = running.connect();
            client.send(&bind(1, ANNA, &format!("guess {number}")));
            client.finish_sending();
            client
        })
        .collect();
    // Some are answered in time, others are given up.
    for mut guess in guesses {
        let answers = guess.receive_all();
        assert!(answers.iter().all(|answer| answer == "1 bind invalidCredentials"), "{answers:?}");
    }
    client.send(&bind(2, ANNA, "secret"));
    assert_eq!(client.receive(), "2 bind invalidCredentials");
}

/// A bind with a control of so many octets that means nothing.
fn large_bind(id: i32, octets: usize) -> Vec<u8> {
    let junk = vec![b'x'; octets];
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.3.4", critical: false, value: Some(&junk) });
    let authentication = Authentication::Simple(b"secret");
    let op = Request::Bind(BindRequest { version: 3, name: ANNA, authentication });
    let mut out = Vec::new();
    Message { id: MessageId(id), op, controls: controls.as_ref() }.encode(&mut out);
    out
}

#[test]
fn requests_that_wait_for_a_password_are_counted_and_refused_where_there_is_no_room() {
    const MIB: usize = 1 << 20;
    let running = Running::with(|settings| {
        settings.password.hash_threads = 1;
        settings.limits.undelivered_max_bytes = 8 * MIB;
    });
    add_anna(&running, &hash(12));
    let mut root = running.connect_root();
    let mut clients = (0..12).map(|_| running.connect_root()).collect::<Vec<_>>();
    let held = || metric(&running, "roster_undelivered_bytes");
    for client in &mut clients[..3] {
        client.send(&large_bind(2, MIB));
    }
    wait_until(&mut root, || waiting(&running) >= 2);
    assert!(held() >= 2 * MIB, "{}", held());
    for client in &mut clients[3..] {
        client.send(&large_bind(2, 2 * MIB));
    }
    let mut answers = clients.iter_mut().map(Client::receive).collect::<Vec<_>>();
    answers.retain(|answer| answer != "2 bind success");
    let answered = clients.len() - answers.len();
    assert!(answered > 0 && !answers.is_empty(), "{answered} of {}", clients.len());
    // What has arrived of a message counts, too: whoever sends while all is used up may be closed.
    let is_refusal = |answer: &String| ["2 bind busy", "closed"].contains(&answer.as_str());
    assert!(answers.iter().all(is_refusal), "{answers:?}");
    wait_until(&mut root, || held() == 0);
}

/// What is whole, and finds no memory to wait in, is told so; its connection stays.
#[test]
fn a_bind_that_finds_no_memory_to_wait_in_is_busy() {
    const MIB: usize = 1 << 20;
    let change = |settings: &mut Settings, _: &mut DirectoryOptions| {
        settings.limits.undelivered_max_bytes = 8 * MIB;
    };
    with_worker(change, async |worker| {
        let budget = &worker.shared.budget;
        let client = simulated::connect_from(worker, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let answers = |count: usize| {
            let client = Rc::clone(&client);
            until(move || described(&client.borrow().received).len() == count)
        };
        client.borrow_mut().send(bind(1, ROOT, "secret"));
        let pairs = [("objectClass", "inetOrgPerson"), ("cn", "A"), ("sn", "B")];
        let password = hash(1);
        let pairs = [&pairs[..], &[("userPassword", password.as_str())]].concat();
        client.borrow_mut().send(add_entry(2, ANNA, &pairs));
        answers(2).await;
        let request = large_bind(3, MIB);
        let (last, most) = request.split_last().unwrap();
        client.borrow_mut().send(most.iter().copied());
        until(|| client.borrow().unread() == 0 && budget.held().0 >= most.len()).await;
        // Others have the rest, but for less than it takes to wait.
        let presence = Arc::new(Presence::new(Duration::ZERO));
        let others = budget.open(None, &presence, Duration::ZERO);
        let held = others.hold(8 * MIB - budget.held().0 - MIB / 2);
        client.borrow_mut().send([*last]);
        answers(3).await;
        drop(held);
        budget.close(&others);
        client.borrow_mut().send(bind(4, ROOT, "secret"));
        client.borrow_mut().send(large_bind(5, MIB));
        answers(5).await;
        let told = described(&client.borrow().received);
        assert_eq!(told[2..], ["3 bind busy", "4 bind success", "5 bind success"]);
        client.borrow_mut().end();
        all_ended(worker).await;
    });
}

#[test]
fn a_request_whose_password_is_changed_meanwhile_does_not_ask_for_ever() {
    // With the answer about the changed password it had lost that about the new one: it asked for
    // that again, lost the other one, and so on.
    let data = tempfile::tempdir().unwrap();
    let (directory, _) = open(data.path(), |_, options| {
        let argon2 = Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 };
        let costs = HashCosts { argon2, ..HashCosts::default() };
        options.passwords.storage = PasswordStorage { scheme: Scheme::Argon2id, costs };
    });
    let mut worker = directory.worker();
    let mut session = directory.session(directory::Peer::default());
    let out = &mut Vec::new();
    let wait = |next: Next| {
        let Next::Write(write) = next else { panic!("it is a write") };
        let (sender, receiver) = std::sync::mpsc::channel();
        write.submit(Box::new(move |_| sender.send(()).unwrap()));
        receiver.recv().unwrap();
    };
    let bound = worker.handle(&mut session, &bind(1, ROOT, "secret"), out);
    assert!(matches!(bound, Next::Answered(_)));
    let password = hash(1);
    let pairs = [("objectClass", "inetOrgPerson"), ("cn", "A"), ("sn", "B")];
    let pairs = [&pairs[..], &[("userPassword", password.as_str())]].concat();
    wait(worker.handle(&mut session, &add_entry(2, ANNA, &pairs), out));
    let field = |tag: u8, text: &str| [&[tag, text.len() as u8], text.as_bytes()].concat();
    let fields = [field(0x80, ANNA), field(0x81, "secret"), field(0x82, "a long one")].concat();
    let value = [&[0x30, fields.len() as u8], &*fields].concat();
    let oid = "1.3.6.1.4.1.4203.1.11.1";
    let change = request(3, Request::Extended(ExtendedRequest { oid, value: Some(&value) }));
    let Next::Hash(job) = worker.handle(&mut session, &change, out) else { panic!("it asks") };
    // Another hash of the same password, as the server itself stores one after a bind.
    let other = hash(1);
    let mut values = ValuesBuf::new();
    values.push(other.as_bytes());
    let mut changes = ModificationsBuf::new();
    changes.push(Modification {
        operation: ModifyOperation::Replace,
        attribute: PartialAttribute { description: "userPassword", values: values.as_ref() },
    });
    let modify = ModifyRequest { name: ANNA, changes: changes.as_ref() };
    wait(worker.handle(&mut session, &request(4, Request::Modify(modify)), out));
    let Next::Hash(job) = worker.resume(&mut session, job.run(), out) else { panic!("it asks") };
    wait(worker.resume(&mut session, job.run(), out));
}
