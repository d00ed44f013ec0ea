//! Clients that are gone before their binds are answered: what that counts for their address.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use auth::password::{Argon2Cost, HashCosts, PasswordStorage};

use super::simulated::{Peer, all_ended, ask_calmly, connect_from, described, until, with_worker};
use super::*;
use crate::worker::Worker;

/// Without TLS others are not let in.
const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Passwords take some milliseconds to verify, and one thread does that.
fn slow(settings: &mut Settings, options: &mut DirectoryOptions) {
    settings.password.hash_threads = 1;
    let argon2 = Argon2Cost { memory_kib: 16_384, passes: 4, lanes: 1 };
    let costs = HashCosts { argon2, ..HashCosts::default() };
    options.passwords.storage = PasswordStorage { scheme: Scheme::Argon2id, costs };
}

fn person(number: usize) -> String {
    format!("uid=u{number},dc=example,dc=org")
}

/// Adds so many people with one password.
async fn add_people(worker: &Rc<Worker>, count: usize) {
    let argon2 = Argon2Cost { memory_kib: 16_384, passes: 4, lanes: 1 };
    let costs = HashCosts { argon2, ..HashCosts::default() };
    let storage = PasswordStorage { scheme: Scheme::Argon2id, costs };
    let stored = storage.hash(b"secret", &mut environment::OsChance).unwrap();
    let stored = String::from_utf8(stored).unwrap();
    let mut requests = bind(1, ROOT, "secret");
    for (number, id) in (0..count).zip(2..) {
        let pairs = [("objectClass", "inetOrgPerson"), ("cn", "A"), ("sn", "B")];
        let pairs = [&pairs[..], &[("userPassword", stored.as_str())]].concat();
        requests.extend(add_entry(id, &person(number), &pairs));
    }
    let answers = described(&ask_calmly(worker, &requests).await);
    assert_eq!(answers[0], "1 bind success");
    assert!(answers[1..].iter().all(|answer| answer.ends_with(" add success")), "{answers:?}");
}

/// Clients of one address, each with a bind.
fn bind_many<'p>(
    worker: &Rc<Worker>,
    binds: impl IntoIterator<Item = (usize, &'p str)>,
) -> Vec<Rc<RefCell<Peer>>> {
    let clients = binds.into_iter().map(|(number, password)| {
        let client = connect_from(worker, ADDRESS);
        client.borrow_mut().send(bind(1, &person(number), password));
        client
    });
    clients.collect()
}

fn binds(worker: &Worker) -> [usize; 3] {
    worker.shared.client_addresses.binds(ADDRESS)
}

/// Waits until as many binds are in line.
async fn in_line(worker: &Worker, count: usize) {
    until(|| binds(worker)[2] == count).await;
}

#[test]
fn right_passwords_that_nobody_waits_for_delay_nobody() {
    with_worker(slow, async |worker| {
        add_people(worker, 60).await;
        let clients = bind_many(worker, (0..60).map(|number| (number, "secret")));
        // Twenty may fail, and one more.
        until(|| binds(worker)[2] > 0 && binds(worker)[1] == 21).await;
        clients.iter().for_each(|client| client.borrow_mut().reset());
        all_ended(worker).await;
        assert_eq!(binds(worker), [0, 0, 0]);
    });
}

#[test]
fn who_hangs_up_before_the_answer_has_guessed_all_the_same() {
    let few = |settings: &mut Settings, options: &mut DirectoryOptions| {
        slow(settings, options);
        settings.limits.bind_failures_max = 3;
        settings.limits.bind_delay_max = Duration::from_secs(3_600);
    };
    with_worker(few, async |worker| {
        add_people(worker, 1).await;
        // From now on the right password is answered at once: who is not answered knows.
        let right = bind_many(worker, [(0, "secret")]);
        until(|| !right[0].borrow().received.is_empty()).await;
        assert_eq!(described(&right[0].borrow().received), ["1 bind success"]);
        let guesses = bind_many(worker, (0..100).map(|_| (0, "wrong")));
        in_line(worker, 96).await;
        guesses.iter().for_each(|client| client.borrow_mut().reset());
        right[0].borrow_mut().end();
        all_ended(worker).await;
        // Each that had begun, and none that was in line.
        assert_eq!(binds(worker), [4, 0, 0]);
    });
}

#[test]
fn what_waits_in_line_for_clients_that_are_gone_leaves_it() {
    let long = |settings: &mut Settings, _: &mut DirectoryOptions| {
        settings.limits.bind_delay_max = Duration::from_secs(3_600);
        settings.limits.half_closed_timeout = Duration::from_millis(1);
    };
    with_worker(long, async |worker| {
        let addresses = &worker.shared.client_addresses;
        let source = addresses.source(Some(ADDRESS), || None);
        (0..60).for_each(|_| addresses.bind_failed(source, worker.now()));
        let clients = bind_many(worker, [(0, "secret"), (0, "secret"), (0, "secret")]);
        in_line(worker, 3).await;
        clients[0].borrow_mut().reset();
        in_line(worker, 2).await;
        // Who is gone may look like one that has only ended its side.
        clients[1].borrow_mut().end();
        in_line(worker, 1).await;
        clients[2].borrow_mut().reset();
        all_ended(worker).await;
        assert_eq!(binds(worker), [60, 0, 0]);
    });
}
