//! Subtree delete of trees that are too large for one step.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use environment::{ManualClock, Timestamp};
use ldap::message::{
    AddRequest, Control, Controls, ControlsBuf, DeleteRequest, ModifyDnRequest, ModifyOperation,
    ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;
use offline::{ImportOptions, Source, import};
use tempfile::TempDir;

use crate::support::{self, Asked, Client, SUFFIX, Served, add_attributes, modifications};
use crate::writes::{Held, code, start_with};

const TREE: &str = "ou=tree,dc=example,dc=org";

/// A directory with a tree of `count` entries: `ou=tree` with units of 49 people each; every
/// second unit lies below the one before it.
fn served(count: usize) -> Served {
    let data = TempDir::new().unwrap();
    let path = data.path().join("data");
    support::init(&path);
    let mut ldif = format!("dn: {TREE}\nobjectClass: organizationalUnit\n\n");
    let mut unit = TREE.to_owned();
    for number in 1..count {
        if number % 50 == 1 {
            let above = if number % 100 == 1 { &unit } else { TREE };
            unit = format!("ou=unit {number},{above}");
            let _ = writeln!(ldif, "dn: {unit}\nobjectClass: organizationalUnit\n");
        } else {
            let _ = writeln!(ldif, "dn: uid=u{number},{unit}\nobjectClass: inetOrgPerson");
            let _ =
                writeln!(ldif, "cn: User {number}\nsn: {number}\nmail: u{number}@example.org\n");
        }
    }
    let clock = ManualClock::at(Timestamp(1_767_225_600_000_000));
    let options = ImportOptions::default();
    let sources = vec![Source::new("test", ldif.as_bytes())];
    let report = import(&path, sources, &options, &clock, &mut ()).unwrap();
    assert_eq!(report.imported, count as u64);
    Served::open_existing(data)
}

fn control() -> ControlsBuf {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    controls
}

/// Submits a request; the answer comes through the receiver, and the flag says that it came.
fn submit(
    client: &mut Client,
    op: Request<'_>,
    controls: Controls<'_>,
) -> (Receiver<Vec<u8>>, Arc<AtomicBool>) {
    let (sender, receiver) = channel();
    let is_answered = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_answered);
    start_with(client, op, controls).submit(Box::new(move |done| {
        flag.store(true, Ordering::Release);
        sender.send(done.bytes).unwrap();
    }));
    (receiver, is_answered)
}

fn delete_tree(client: &mut Client) -> (Receiver<Vec<u8>>, Arc<AtomicBool>) {
    let request = Request::Delete(DeleteRequest { name: TREE });
    submit(client, request, control().as_ref())
}

fn count(served: &Served) -> u64 {
    served.directory.store().reader().view().unwrap().entry_count().unwrap()
}

fn is_clean(served: &Served) {
    let found =
        served.client().search(&Asked { base: TREE, scope: Scope::Base, ..Asked::default() });
    assert_eq!(found.code(), ResultCode::NoSuchObject);
    assert_eq!(count(served), 1, "the suffix is left");
}

#[test]
fn a_large_tree_goes_in_steps_each_a_record_of_its_own() {
    let served = served(3_000);
    let before = served.directory.store().published().lsn.0;
    let mut client = served.root();
    let (answer, _) = delete_tree(&mut client);
    assert_eq!(code(&answer), ResultCode::Success);
    let records = served.directory.store().published().lsn.0 - before;
    assert!((15..=20).contains(&records), "200 entries a step: {records}");
    is_clean(&served);
    let served = {
        drop(client);
        served.reopen()
    };
    is_clean(&served);
}

#[test]
fn the_writes_of_others_go_on_between_the_steps() {
    let served = served(3_000);
    let held = Held::new(&served);
    let (mut client, mut other) = (served.root(), served.root());
    let (deleted, is_deleted) = delete_tree(&mut client);
    let changes = modifications(&[(ModifyOperation::Replace, "l", &["x"])]);
    let modify = ModifyRequest { name: SUFFIX, changes: changes.as_ref() };
    let (sender, modified) = channel();
    start_with(&mut other, Request::Modify(modify), Controls::EMPTY).submit(Box::new(
        move |done| {
            assert!(!is_deleted.load(Ordering::Acquire), "the tree would have been waited for");
            sender.send(done.bytes).unwrap();
        },
    ));
    held.release();
    assert_eq!(code(&modified), ResultCode::Success);
    assert_eq!(code(&deleted), ResultCode::Success);
    is_clean(&served);
}

#[test]
fn a_queue_that_is_never_empty_does_not_stop_the_steps() {
    let mut served = served(1_000);
    // With small batches most of what is sent is still in the queue when one is done.
    served.options.limits.write_batch_max = 2;
    let served = served.reopen();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = served.root();
                let (sender, receiver) = channel();
                // Many at once, and another for each that is answered.
                let mut open = 0;
                while open > 0 || !is_over.load(Ordering::Acquire) {
                    if open < 100 && !is_over.load(Ordering::Acquire) {
                        let changes = modifications(&[(ModifyOperation::Replace, "l", &["x"])]);
                        let modify = ModifyRequest { name: SUFFIX, changes: changes.as_ref() };
                        let request = Request::Modify(modify);
                        let pending = start_with(&mut client, request, Controls::EMPTY);
                        let (id, sender) = (pending.id(), sender.clone());
                        pending.submit(Box::new(move |_| sender.send(id).unwrap()));
                        open += 1;
                    } else {
                        client.connection.session.forget(receiver.recv().unwrap());
                        open -= 1;
                    }
                }
            });
        }
        let mut client = served.root();
        let (deleted, _) = delete_tree(&mut client);
        let answer = deleted.recv_timeout(Duration::from_secs(120));
        is_over.store(true, Ordering::Release);
        assert!(answer.is_ok(), "the tree is still not deleted");
    });
    is_clean(&served);
}

#[test]
fn what_is_added_to_the_tree_meanwhile_goes_too() {
    let served = served(1_000);
    let held = Held::new(&served);
    let (mut client, mut other) = (served.root(), served.root());
    let (deleted, _) = delete_tree(&mut client);
    let mut added = Vec::new();
    for number in 0..300 {
        let name = format!("ou=late {number},{TREE}");
        let list = add_attributes(&[("objectClass", &["organizationalUnit"])]);
        let add = AddRequest { name: &name, attributes: list.as_ref() };
        added.push(submit(&mut other, Request::Add(add), Controls::EMPTY).0);
    }
    held.release();
    for one in added {
        assert_eq!(code(&one), ResultCode::Success);
    }
    assert_eq!(code(&deleted), ResultCode::Success);
    is_clean(&served);
}

#[test]
fn a_tree_that_gets_another_name_meanwhile_goes_all_the_same() {
    let served = served(1_000);
    let held = Held::new(&served);
    let (mut client, mut other) = (served.root(), served.root());
    let (deleted, _) = delete_tree(&mut client);
    let rename = ModifyDnRequest {
        name: TREE,
        new_rdn: "ou=shrub",
        delete_old_rdn: true,
        new_superior: None,
    };
    let (renamed, _) = submit(&mut other, Request::ModifyDn(rename), Controls::EMPTY);
    held.release();
    assert_eq!(code(&renamed), ResultCode::Success);
    assert_eq!(code(&deleted), ResultCode::Success);
    is_clean(&served);
}

#[test]
fn what_leaves_the_tree_meanwhile_stays() {
    let served = served(1_000);
    let held = Held::new(&served);
    let (mut client, mut other) = (served.root(), served.root());
    let (deleted, _) = delete_tree(&mut client);
    // The last unit, so that the first step does not reach it.
    let name = "ou=unit 951,ou=tree,dc=example,dc=org";
    let rename = ModifyDnRequest {
        name,
        new_rdn: "ou=refuge",
        delete_old_rdn: true,
        new_superior: Some(SUFFIX),
    };
    let (moved, _) = submit(&mut other, Request::ModifyDn(rename), Controls::EMPTY);
    held.release();
    assert_eq!(code(&moved), ResultCode::Success);
    assert_eq!(code(&deleted), ResultCode::Success);
    assert_eq!(count(&served), 1 + 49, "the suffix, and a unit with 48 people");
}

#[test]
fn two_deletes_of_one_tree_both_succeed_or_find_nothing() {
    let served = served(1_000);
    let held = Held::new(&served);
    let (mut client, mut other) = (served.root(), served.root());
    let (first, _) = delete_tree(&mut client);
    let (second, _) = delete_tree(&mut other);
    held.release();
    assert_eq!(code(&first), ResultCode::Success);
    assert_eq!(code(&second), ResultCode::Success, "it was begun before the tree was gone");
    is_clean(&served);
    let (third, _) = delete_tree(&mut other);
    assert_eq!(code(&third), ResultCode::NoSuchObject);
}

#[test]
fn a_tree_too_large_for_one_step_is_not_deleted_in_a_transaction() {
    let served = served(300);
    let mut client = served.root();
    let begun = client.extended("1.3.6.1.1.21.1", None).value.unwrap();
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    controls.push(Control { oid: "1.3.6.1.1.21.2", critical: true, value: Some(&begun) });
    let request = Request::Delete(DeleteRequest { name: TREE });
    assert_eq!(client.request(request, controls.as_ref()).code(), ResultCode::Success);
    let mut value = vec![0x30, 2 + begun.len() as u8, 4, begun.len() as u8];
    value.extend(&begun);
    let answer = client.extended("1.3.6.1.1.21.3", Some(&value));
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded);
    assert_eq!(count(&served), 301);
}

#[test]
fn what_is_kept_of_the_answers_of_deletes_in_steps_is_limited() {
    // Each could keep the entry as it was until its last step, for any number of deletes.
    let (mut options, data) = served(1_000).pulled();
    options.limits.transactions_max_bytes = 4_096;
    let served = Served::opened(options, data);
    let mut client = served.root();
    let long = "x".repeat(3_000);
    let change = [(ModifyOperation::Replace, "description", &[&*long] as &[&str])];
    assert_eq!(client.modify(TREE, &change), ResultCode::Success);
    let mut with = control();
    with.push(Control { oid: "1.3.6.1.1.13.1", critical: true, value: Some(b"\x30\x00") });
    let held = Held::new(&served);
    let mut delete = || {
        let request = Request::Delete(DeleteRequest { name: TREE });
        submit(&mut client, request, with.as_ref()).0
    };
    let (first, second) = (delete(), delete());
    held.release();
    assert_eq!(code(&first), ResultCode::Success);
    assert_eq!(code(&second), ResultCode::Busy);
    is_clean(&served);
    assert_eq!(served.directory.transaction_bytes(), 0);
}

/// The most memory this process has used so far, in KiB.
fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Takes about a minute without optimisation: `cargo test -p directory --test behaviour --
/// --ignored a_hundred_thousand`.
#[test]
#[ignore = "a minute"]
fn a_hundred_thousand_entries_are_deleted_in_bounded_memory() {
    let served = served(100_000);
    assert_eq!(count(&served), 100_001);
    let before = memory_peak_kib();
    let mut client = served.root();
    let (answer, _) = delete_tree(&mut client);
    assert_eq!(code(&answer), ResultCode::Success);
    is_clean(&served);
    let grown = memory_peak_kib() - before;
    assert!(grown < 400 * 1024, "the peak grew by {grown} KiB");
}
