//! Searches that go on with what changes: they wait without a thread, and end when they have to.
#![allow(clippy::disallowed_methods, reason = "asking again is the only way")]

use ldap::control_value::persistent_search::{OID, PersistentSearch};
use ldap::message::{Control, ControlsBuf};

use super::*;

fn persistent(id: i32) -> Vec<u8> {
    let what = PersistentSearch { change_types: 15, changes_only: true, return_changes: true };
    let value = what.encode();
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: OID, critical: true, value: Some(&value) });
    let plain = search(id, "dc=example,dc=org", Scope::Subtree);
    let message = Message::<Request<'_>>::decode(&plain, &DecodeLimits::default()).unwrap();
    let mut out = Vec::new();
    Message { controls: controls.as_ref(), ..message }.encode(&mut out);
    out
}

/// Waits until a search that was sent is under way: what is asked for behind it is answered first
/// on a connection, and it begins on a thread of its own.
fn begun(client: &mut Client, running: &Running, number: usize) {
    client.send(&extended(99, WHO_AM_I));
    assert_eq!(client.receive(), "99 extended success dn:cn=Directory Manager");
    await_that(|| running.streams() == number);
    std::thread::sleep(Duration::from_millis(200));
}

#[track_caller]
fn await_that(mut is_so: impl FnMut() -> bool) {
    for _ in 0..400 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("it did not come to be");
}

impl Running {
    fn streams(&self) -> usize {
        let page = crate::metrics::exposition(&self.metrics.scrape().unwrap());
        let line = page.lines().find(|line| line.starts_with(LENGTH)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

const LENGTH: &str = "roster_queue_length{queue=\"stream\"}";

#[test]
fn a_change_reaches_all_who_wait() {
    let running = Running::with(|settings| settings.limits.idle_timeout = Duration::from_secs(1));
    let begin = |number| {
        let mut reader = running.connect_root();
        reader.send(&persistent(2));
        begun(&mut reader, &running, number);
        reader
    };
    let mut readers: Vec<_> = (1..=8).map(begin).collect();
    // A connection with one is not idle.
    std::thread::sleep(Duration::from_millis(1_500));
    let mut writer = running.connect_root();
    for name in ["a", "b", "c"] {
        writer.send(&add(7, name, 0));
        assert_eq!(writer.receive(), "7 add success");
        for reader in &mut readers {
            assert_eq!(reader.receive(), format!("2 entry ou={name},dc=example,dc=org"));
            // Others are answered meanwhile.
            reader.send(&extended(3, WHO_AM_I));
            assert_eq!(reader.receive(), "3 extended success dn:cn=Directory Manager");
        }
    }
}

#[test]
fn none_is_missing_while_others_write() {
    const ADDED: usize = 600;
    let running = Running::start();
    let mut readers: Vec<_> = (0..3).map(|_| running.connect_root()).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.send(&persistent(2));
        begun(reader, &running, number + 1);
    }
    let writers: Vec<_> = ["a", "b", "c"]
        .map(|lane| {
            let mut writer = running.connect_root();
            std::thread::spawn(move || {
                for number in 0..ADDED / 3 {
                    writer.send(&add(7, &format!("{lane}{number}"), 0));
                    assert_eq!(writer.receive(), "7 add success");
                }
            })
        })
        .into();
    for reader in &mut readers {
        let told: Vec<_> = (0..ADDED).map(|_| reader.receive()).collect();
        assert!(told.iter().all(|one| one.starts_with("2 entry ou=")), "{:?}", told.last());
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn one_that_nobody_waits_for_ends() {
    let running = Running::start();
    let mut client = running.connect_root();
    client.send(&persistent(2));
    begun(&mut client, &running, 1);
    client.send(&request(3, Request::Abandon(MessageId(2))));
    await_that(|| running.streams() == 0);
    // The message id is free again, and a bind gives up all.
    client.send(&persistent(2));
    begun(&mut client, &running, 1);
    client.send(&bind(4, ROOT, "secret"));
    assert_eq!(client.receive(), "4 bind success");
    await_that(|| running.streams() == 0);
    client.send(&persistent(2));
    begun(&mut client, &running, 1);
    drop(client);
    await_that(|| running.streams() == 0);
}

#[test]
fn they_leave_a_connection_room_for_other_requests() {
    let running = Running::start();
    let mut client = running.connect_root();
    // Half of `limits.outstanding_max`.
    for id in 1_000..1_032 {
        client.send(&persistent(id));
    }
    await_that(|| running.streams() == 32);
    client.send(&persistent(2));
    assert_eq!(client.receive(), "2 done busy");
    client.send(&extended(3, WHO_AM_I));
    assert_eq!(client.receive(), "3 extended success dn:cn=Directory Manager");
    // Those of a client that is gone end, whatever it has sent before and was not read.
    for _ in 0..200 {
        client.send(&persistent(9));
    }
    drop(client);
    await_that(|| running.streams() == 0);
}

#[test]
fn a_stop_ends_them() {
    let mut running = Running::start();
    let mut client = running.connect_root();
    client.send(&persistent(2));
    begun(&mut client, &running, 1);
    let received = std::thread::spawn(move || client.receive_all());
    let begun = std::time::Instant::now();
    running.stop();
    assert!(begun.elapsed() < Duration::from_secs(5), "nobody waits for it");
    let want = ["2 done unavailable", "0 notice unavailable the server is shutting down"];
    assert_eq!(received.join().unwrap(), want);
}
