//! Pre-read and post-read (RFC 4527): of whom they tell, and how much of it; and modifies that have
//! nothing in them, with which anybody may ask for them.

use std::sync::atomic::Ordering;

use ldap::ber::{Tag, Writer};
use ldap::message::{
    Control, Controls, ControlsBuf, ExtendedRequest, ModifyOperation, ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;

use crate::durable::on_faulty_disk_with;
use crate::support::{Answer, Asked, Client, SUFFIX, Served, modifications};
use crate::writes::{Held, code, start_with, submit};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const PRE_READ: &str = "1.3.6.1.1.13.1";
const POST_READ: &str = "1.3.6.1.1.13.2";
const NO_OP: &str = "1.3.6.1.4.1.4203.1.10.2";
const START: &str = "1.3.6.1.1.21.1";
const SPECIFICATION: &str = "1.3.6.1.1.21.2";
const END: &str = "1.3.6.1.1.21.3";

/// A directory that `anna` may read and not write, with a device that has such a description.
fn served(description: &str, read_entry_max_bytes: usize) -> Served {
    let served = Served::with(|options| options.limits.read_entry_max_bytes = read_entry_max_bytes);
    fill(&served, description);
    served
}

fn fill(served: &Served, description: &str) {
    let mut root = served.root();
    let anna: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("uid", &["anna"]),
        ("cn", &["Anna"]),
        ("sn", &["Anna"]),
        ("userPassword", &["secret"]),
    ];
    assert_eq!(root.add(ANNA, anna), ResultCode::Success);
    let large: &[(&str, &[&str])] =
        &[("objectClass", &["device"]), ("description", &[description])];
    assert_eq!(root.add(&device(), large), ResultCode::Success);
}

fn device() -> String {
    format!("cn=device,{SUFFIX}")
}

fn anna(served: &Served) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "secret"), ResultCode::Success);
    client
}

/// The value of a read entry control.
fn selection<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let list = writer.begin(Tag::SEQUENCE);
    names.into_iter().for_each(|name| writer.octets(Tag::OCTET_STRING, name.as_bytes()));
    writer.end(list);
    value
}

/// Controls that ask for all attributes, before or after the update.
fn reading(oids: &[&str]) -> ControlsBuf {
    let value = selection(["*", "+"]);
    oids.iter().map(|oid| Control { oid, critical: true, value: Some(&value) }).collect()
}

fn in_transaction(transaction: &[u8], oids: &[&str]) -> ControlsBuf {
    let mut controls = reading(oids);
    controls.push(Control { oid: SPECIFICATION, critical: true, value: Some(transaction) });
    controls
}

fn begin(client: &mut Client) -> Vec<u8> {
    client.extended(START, None).value.expect("a transaction has an identifier")
}

fn commit(client: &mut Client, transaction: &[u8]) -> Answer {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let end = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::OCTET_STRING, transaction);
    writer.end(end);
    let request = ExtendedRequest { oid: END, value: Some(&value) };
    client.request(Request::Extended(request), Controls::EMPTY)
}

type Changes<'a> = &'a [(ModifyOperation, &'a str, &'a [&'a str])];

fn modify(client: &mut Client, name: &str, changes: Changes<'_>, with: Controls<'_>) -> Answer {
    let changes = modifications(changes);
    client.request(Request::Modify(ModifyRequest { name, changes: changes.as_ref() }), with)
}

/// A change that the administrator may make.
const CHANGE: Changes<'static> = &[(ModifyOperation::Replace, "l", &["here"])];

/// Whether octets tell of this text.
fn tells(octets: &[u8], text: &str) -> bool {
    octets.windows(text.len()).any(|part| part == text.as_bytes())
}

fn lsn(served: &Served) -> u64 {
    served.directory.store().published().lsn.0
}

#[test]
fn a_modify_with_nothing_in_it_changes_nothing() {
    // It had stamped the entry, and made a change record: for everybody, since no right is missing
    // where nothing is written.
    let served = served("x", 1 << 20);
    let (mut client, mut root) = (anna(&served), served.root());
    let stamps = |client: &mut Client, base: &str| {
        let attributes = &["modifiersName", "modifyTimestamp", "entryCSN"];
        let asked = Asked { base, scope: Scope::Base, attributes, ..Asked::default() };
        client.search(&asked).entries
    };
    let before = lsn(&served);
    for name in [ANNA, SUFFIX, &device(), "cn=schema"] {
        let stamped = stamps(&mut root, name);
        for controls in [ControlsBuf::new(), reading(&[PRE_READ, POST_READ])] {
            let answer = modify(&mut client, name, &[], controls.as_ref());
            assert_eq!(answer.code(), ResultCode::Success, "{name}");
            let read = answer.controls.iter().filter(|(_, value)| tells(value, name)).count();
            assert_eq!(read, controls.as_ref().len(), "{name}: the entry as it is");
        }
        assert_eq!(modify(&mut root, name, &[], Controls::EMPTY).code(), ResultCode::Success);
        assert_eq!(stamps(&mut root, name), stamped, "{name}");
    }
    let mut no_op = ControlsBuf::new();
    no_op.push(Control { oid: NO_OP, critical: true, value: None });
    let answer = modify(&mut client, ANNA, &[], no_op.as_ref());
    assert_eq!(answer.code(), ResultCode::NoOperation);
    assert_eq!(lsn(&served), before, "and there is no record of it");
    let answer = modify(&mut client, &format!("cn=none,{SUFFIX}"), &[], Controls::EMPTY);
    assert_eq!(answer.code(), ResultCode::NoSuchObject);
}

#[test]
fn a_modify_with_nothing_in_it_does_not_tell_of_a_hidden_entry() {
    let served = served("x", 1 << 20);
    let mut root = served.root();
    let hide =
        r#"(targetattr="* || +")(version 3.0; acl "h"; deny (all) userdn="ldap:///anyone";)"#;
    let hide = [(ModifyOperation::Add, "aci", &[hide] as &[&str])];
    assert_eq!(root.modify(&device(), &hide), ResultCode::Success);
    let mut client = anna(&served);
    let mut ask = |name: &str| {
        let with = reading(&[PRE_READ, POST_READ]);
        let answer = modify(&mut client, name, &[], with.as_ref());
        Answer { diagnostic: String::new(), ..answer }
    };
    let hidden = ask(&device());
    assert_eq!(hidden.code(), ResultCode::NoSuchObject);
    assert_eq!(hidden, ask(&format!("cn=none,{SUFFIX}")));
}

#[test]
fn a_post_read_tells_of_its_own_update() {
    // It had told of the entry changed last, which may be that of an update before it.
    let served = served("x", 1 << 20);
    let mut root = served.root();
    let transaction = begin(&mut root);
    let with = in_transaction(&transaction, &[]);
    // `reading` of no control leaves the specification alone.
    assert_eq!(modify(&mut root, &device(), CHANGE, with.as_ref()).code(), ResultCode::Success);
    let with = in_transaction(&transaction, &[POST_READ]);
    assert_eq!(modify(&mut root, ANNA, &[], with.as_ref()).code(), ResultCode::Success);
    let answer = commit(&mut root, &transaction);
    assert_eq!(answer.code(), ResultCode::Success);
    let value = answer.value.unwrap();
    assert!(tells(&value, ANNA) && !tells(&value, &device()));
}

#[test]
fn what_an_update_reads_is_limited_and_beyond_it_nothing_is_changed() {
    let served = served(&"x".repeat(60_000), 100_000);
    let mut root = served.root();
    let before = lsn(&served);
    for oids in [&[PRE_READ] as &[_], &[POST_READ]] {
        let answer = modify(&mut root, &device(), CHANGE, reading(oids).as_ref());
        assert_eq!((answer.code(), answer.controls.len()), (ResultCode::Success, 1));
    }
    assert_eq!(lsn(&served), before + 2);
    let both = reading(&[PRE_READ, POST_READ]);
    let answer = modify(&mut root, &device(), CHANGE, both.as_ref());
    assert_eq!((answer.code(), answer.controls.len()), (ResultCode::AdminLimitExceeded, 0));
    assert!(answer.diagnostic.contains("100000 bytes"), "{}", answer.diagnostic);
    assert_eq!(lsn(&served), before + 2);
}

#[test]
fn what_the_updates_of_a_transaction_read_is_limited_together() {
    let served = served(&"x".repeat(30_000), 100_000);
    let mut root = served.root();
    let mut ask = |updates: usize| {
        let transaction = begin(&mut root);
        let with = in_transaction(&transaction, &[PRE_READ]);
        for _ in 0..updates {
            let answer = modify(&mut root, &device(), CHANGE, with.as_ref());
            assert_eq!(answer.code(), ResultCode::Success);
        }
        commit(&mut root, &transaction)
    };
    let before = lsn(&served);
    let answer = ask(3);
    assert_eq!(answer.code(), ResultCode::Success);
    assert!(answer.value.unwrap().len() > 90_000);
    assert_eq!(lsn(&served), before + 1);
    let answer = ask(4);
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded);
    assert!(answer.value.unwrap().len() < 100, "it names the update that failed");
    assert_eq!(lsn(&served), before + 1);
}

#[test]
fn a_batch_holds_few_large_answers() {
    let (served, faults) = on_faulty_disk_with(|options| {
        options.limits.read_entry_max_bytes = 100_000;
    });
    fill(&served, &"x".repeat(60_000));
    let (name, mut root) = (device(), served.root());
    let held = Held::new(&served);
    let before = faults.syncs.load(Ordering::SeqCst);
    let (pre, no_changes, changes) =
        (reading(&[PRE_READ]), modifications(&[]), modifications(CHANGE));
    let answers = (0..10).map(|_| {
        let read = ModifyRequest { name: &name, changes: no_changes.as_ref() };
        let (sender, read_is_told) = std::sync::mpsc::channel();
        start_with(&mut root, Request::Modify(read), pre.as_ref())
            .submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
        let change = ModifyRequest { name: ANNA, changes: changes.as_ref() };
        [read_is_told, submit(&mut root, Request::Modify(change))]
    });
    let answers = answers.collect::<Vec<_>>();
    held.release();
    answers.iter().flatten().for_each(|answer| assert_eq!(code(answer), ResultCode::Success));
    let syncs = faults.syncs.load(Ordering::SeqCst) - before;
    assert!(syncs >= 5, "two of them fill a batch, and there were {syncs}");
}

#[test]
fn a_read_entry_control_names_a_thousand_attributes_at_the_most() {
    let served = served("x", 1 << 20);
    let mut root = served.root();
    let mut ask = |count: usize, critical: bool| {
        let names = (0..count).map(|number| format!("cn;x-{number}")).collect::<Vec<_>>();
        let value = selection(names.iter().map(String::as_str));
        let mut with = ControlsBuf::new();
        with.push(Control { oid: POST_READ, critical, value: Some(&value) });
        modify(&mut root, &device(), CHANGE, with.as_ref()).code()
    };
    assert_eq!(ask(1_000, true), ResultCode::Success);
    assert_eq!(ask(1_001, true), ResultCode::AdminLimitExceeded);
    assert_eq!(ask(1_001, false), ResultCode::AdminLimitExceeded);
}

#[test]
fn what_is_to_be_read_counts_while_its_update_waits() {
    // Only the modifications were counted: a transaction held gigabytes of such names.
    let served = served("x", 1 << 20);
    let mut root = served.root();
    let transaction = begin(&mut root);
    let option = "x".repeat(190);
    let names = (0..1_000).map(|number| format!("cn;x-{number:04}{option}")).collect::<Vec<_>>();
    let value = selection(names.iter().map(String::as_str));
    let mut with = ControlsBuf::new();
    for oid in [PRE_READ, POST_READ] {
        with.push(Control { oid, critical: true, value: Some(&value) });
    }
    with.push(Control { oid: SPECIFICATION, critical: true, value: Some(&transaction) });
    assert_eq!(modify(&mut root, ANNA, &[], with.as_ref()).code(), ResultCode::Success);
    let held = served.directory.transaction_bytes();
    assert!((2 * 1_000 * 400..2 * 1_000 * 1_200).contains(&held), "{held}");
    let accepted = (0..100)
        .take_while(|_| modify(&mut root, ANNA, &[], with.as_ref()).code() == ResultCode::Success);
    let accepted = accepted.count();
    assert!(accepted < 10, "{accepted} of them take more than 8 MiB");
    assert_eq!(served.directory.transaction_bytes(), 0);
}
