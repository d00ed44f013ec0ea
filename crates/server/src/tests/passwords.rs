//! Slow password hashes: nothing overtakes them on their connection, and nobody else waits.

use directory::{Argon2Cost, HashCosts, OsChance, PasswordStorage};

use super::*;

const ANNA: &str = "uid=anna,dc=example,dc=org";

/// A hash of "secret" that takes a while even where everything is optimised.
fn slow() -> String {
    let argon2 = Argon2Cost { memory_kib: 16_384, passes: 16, lanes: 1 };
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
