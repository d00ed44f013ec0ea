//! Transactions (RFC 5805): one step in the history, seen whole or not at all, and limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use environment::{ManualClock, Timestamp};
use ldap::message::{
    Control, Controls, ControlsBuf, DeleteRequest, ExtendedRequest, MessageId, ModifyDnRequest,
    ModifyOperation, ModifyRequest, Request,
};
use ldap::result::ResultCode;

use crate::durable::on_faulty_disk;
use crate::support::disk::Faults;
use crate::support::{Answer, Asked, Client, SUFFIX, Served, add_attributes, modifications};
use crate::writes::{Held, code, start_with, submit, submit_unit};

const START: &str = "1.3.6.1.1.21.1";
const SPECIFICATION: &str = "1.3.6.1.1.21.2";
const END: &str = "1.3.6.1.1.21.3";
const ABORTED: &str = "1.3.6.1.1.21.4";

fn begin(client: &mut Client) -> Vec<u8> {
    let answer = client.extended(START, None);
    assert_eq!(answer.code(), ResultCode::Success);
    answer.value.expect("a transaction has an identifier")
}

fn specification(transaction: &[u8]) -> ControlsBuf {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: SPECIFICATION, critical: true, value: Some(transaction) });
    controls
}

fn add(client: &mut Client, transaction: &[u8], name: &str, description: &str) -> Answer {
    let list = add_attributes(&[("objectClass", &["device"]), ("description", &[description])]);
    let add = ldap::message::AddRequest { name, attributes: list.as_ref() };
    client.request(Request::Add(add), specification(transaction).as_ref())
}

fn end_value(commit: bool, transaction: &[u8]) -> Vec<u8> {
    let mut value = vec![0x30, 5 + transaction.len() as u8, 1, 1, if commit { 0xff } else { 0 }];
    value.extend([4, transaction.len() as u8]);
    value.extend(transaction);
    value
}

fn end(client: &mut Client, commit: bool, transaction: &[u8]) -> Answer {
    client.extended(END, Some(&end_value(commit, transaction)))
}

fn devices(client: &mut Client) -> usize {
    let search = Asked { filter: "(objectClass=device)", ..Asked::default() };
    client.search(&search).entries.len()
}

const PERSON: &[(&str, &[&str])] = &[
    ("objectClass", &["inetOrgPerson"]),
    ("cn", &["anna"]),
    ("sn", &["anna"]),
    ("userPassword", &["secret"]),
];

fn add_person(client: &mut Client, transaction: &[u8], uid: &str) -> ResultCode {
    let (list, name) = (add_attributes(PERSON), format!("uid={uid},{SUFFIX}"));
    let add = ldap::message::AddRequest { name: &name, attributes: list.as_ref() };
    client.request(Request::Add(add), specification(transaction).as_ref()).code()
}

fn set(client: &mut Client, transaction: &[u8], name: &str, value: (&str, &str)) -> ResultCode {
    let list = modifications(&[(ModifyOperation::Replace, value.0, &[value.1][..])]);
    let modify = ModifyRequest { name, changes: list.as_ref() };
    client.request(Request::Modify(modify), specification(transaction).as_ref()).code()
}

/// In a transaction whoever had no right to set a password had it hashed: an update before it might
/// have given the right.
#[test]
fn who_may_not_set_a_password_has_none_hashed_in_a_transaction_either() {
    let served = Served::with(|options| {
        options.passwords.storage = auth::password::Scheme::Pbkdf2Sha256.into();
        options.passwords.check_own = false;
    });
    let mut root = served.root();
    let anna = format!("uid=anna,{SUFFIX}");
    for name in [&anna, &format!("uid=otto,{SUFFIX}")] {
        assert_eq!(root.add(name, PERSON), ResultCode::Success);
    }
    let rule = "(targetattr=\"description\")(version 3.0; acl \"own\"; allow (write) \
                userdn=\"ldap:///self\";)";
    let mine = "(targetattr=\"userPassword\")(targetfilter=\"(description=mine)\")(version 3.0; \
                acl \"mine\"; allow (write) userdn=\"ldap:///self\";)";
    let allow = [(ModifyOperation::Add, "aci", &[rule, mine][..])];
    assert_eq!(root.modify(SUFFIX, &allow), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(&anna, "secret"), ResultCode::Success);
    let hashes = client.connection.hashes;
    let otto = format!("uid=otto,{SUFFIX}");
    let (accepted, denied) = (ResultCode::Success, ResultCode::InsufficientAccessRights);
    // The second one, too: the transaction cannot be carried out.
    for _ in 0..2 {
        let transaction = begin(&mut client);
        assert_eq!(add_person(&mut client, &transaction, "paul"), accepted);
        assert_eq!(add_person(&mut client, &transaction, "petra"), accepted);
        assert_eq!(end(&mut client, true, &transaction).code(), denied);
        let transaction = begin(&mut client);
        let password = ("userPassword", "other");
        assert_eq!(set(&mut client, &transaction, &otto, password), accepted);
        assert_eq!(set(&mut client, &transaction, &otto, password), accepted);
        assert_eq!(end(&mut client, true, &transaction).code(), denied);
    }
    // Nor where there is no such transaction.
    assert_eq!(add_person(&mut client, b"none", "paul"), ResultCode::OperationsError);
    assert_eq!(client.connection.hashes, hashes);
    // A right that comes with an update before it is one.
    let mut client = served.client();
    assert_eq!(client.bind(&otto, "secret"), ResultCode::Success);
    let transaction = begin(&mut client);
    assert_eq!(set(&mut client, &transaction, &otto, ("description", "mine")), accepted);
    assert_eq!(set(&mut client, &transaction, &otto, ("userPassword", "other")), accepted);
    assert_eq!(end(&mut client, true, &transaction).code(), ResultCode::Success);
    assert_eq!(served.client().bind(&otto, "other"), ResultCode::Success);
}

fn notice(transaction: &[u8]) -> Vec<(String, Vec<u8>)> {
    vec![(ABORTED.to_owned(), transaction.to_vec())]
}

#[test]
fn a_transaction_is_one_record_and_a_failed_one_is_none() {
    let served = Served::new();
    let mut client = served.root();
    let before = served.directory.store().published().lsn.0;
    let transaction = begin(&mut client);
    for number in 0..5 {
        add(&mut client, &transaction, &format!("cn={number},{SUFFIX}"), "x");
    }
    assert_eq!(served.directory.store().published().lsn.0, before, "nothing happens yet");
    assert_eq!(end(&mut client, true, &transaction).code(), ResultCode::Success);
    assert_eq!(served.directory.store().published().lsn.0, before + 1);
    assert_eq!(devices(&mut client), 5);

    let transaction = begin(&mut client);
    add(&mut client, &transaction, &format!("cn=5,{SUFFIX}"), "x");
    add(&mut client, &transaction, &format!("cn=0,{SUFFIX}"), "x");
    let answer = end(&mut client, true, &transaction);
    assert_eq!(answer.code(), ResultCode::EntryAlreadyExists);
    assert_eq!(served.directory.store().published().lsn.0, before + 1);
    assert_eq!(devices(&mut client), 5);
    // The ids that the failed one would have used are free for others.
    assert_eq!(client.add(&format!("cn=6,{SUFFIX}"), &[("objectClass", &["device"])]), {
        ResultCode::Success
    });
    assert_eq!(devices(&mut client), 6);
}

#[test]
fn the_name_of_a_transaction_tells_nothing() {
    // It had the numbers of the connection and of the transaction in it.
    let served = Served::new();
    let mut names: Vec<Vec<u8>> = Vec::new();
    for _ in 0..3 {
        let mut client = served.root();
        names.extend([begin(&mut client), begin(&mut client)]);
    }
    for (at, one) in names.iter().enumerate() {
        assert_eq!(one.len(), names[0].len());
        for other in &names[at + 1..] {
            let alike = one.iter().zip(other).filter(|(one, other)| one == other).count();
            assert!(alike < one.len() / 2, "{one:?} {other:?}");
        }
    }
}

#[test]
fn readers_see_all_of_a_transaction_or_nothing() {
    let served = Served::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = served.client();
            let mut seen = 0;
            while !is_over.load(Ordering::Acquire) {
                let count = devices(&mut client);
                assert!(count.is_multiple_of(10), "half a transaction: {count}");
                assert!(count >= seen, "what was seen stays");
                seen = count;
            }
        });
        let mut client = served.root();
        for round in 0..20 {
            let transaction = begin(&mut client);
            for number in 0..10 {
                add(&mut client, &transaction, &format!("cn={round} {number},{SUFFIX}"), "x");
            }
            assert_eq!(end(&mut client, true, &transaction).code(), ResultCode::Success);
            assert_eq!(devices(&mut client), (round + 1) * 10, "one's own writes are seen");
        }
        is_over.store(true, Ordering::Release);
    });
}

#[test]
fn a_transaction_that_is_not_used_is_given_up_and_the_client_is_told() {
    let clock = Arc::new(ManualClock::at(Timestamp(1_767_225_600_000_000)));
    let served = Served::new().under(Arc::clone(&clock) as _);
    let mut client = served.root();
    let old = begin(&mut client);
    clock.advance(Duration::from_secs(200));
    let used = begin(&mut client);
    assert_eq!(add(&mut client, &old, &format!("cn=a,{SUFFIX}"), "x").code(), ResultCode::Success);
    clock.advance(Duration::from_secs(290));
    let answer = add(&mut client, &old, &format!("cn=b,{SUFFIX}"), "x");
    assert_eq!((answer.code(), answer.notices), (ResultCode::Success, vec![]));
    clock.advance(Duration::from_secs(20));
    let answer = add(&mut client, &old, &format!("cn=c,{SUFFIX}"), "x");
    assert_eq!((answer.code(), answer.notices), (ResultCode::Success, notice(&used)));
    assert_eq!(end(&mut client, true, &used).code(), ResultCode::OperationsError);
    clock.advance(Duration::from_secs(301));
    let answer = end(&mut client, true, &old);
    assert_eq!((answer.code(), answer.notices), (ResultCode::OperationsError, notice(&old)));
    assert_eq!(devices(&mut client), 0);
}

#[test]
fn the_updates_of_a_transaction_are_limited() {
    let served = Served::new();
    let mut client = served.root();
    let transaction = begin(&mut client);
    for number in 0..1000 {
        let answer = add(&mut client, &transaction, &format!("cn={number},{SUFFIX}"), "x");
        assert_eq!(answer.code(), ResultCode::Success, "{number}");
    }
    let answer = add(&mut client, &transaction, &format!("cn=1000,{SUFFIX}"), "x");
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded);
    assert_eq!(answer.notices, notice(&transaction));
    assert_eq!(end(&mut client, true, &transaction).code(), ResultCode::OperationsError);
    assert_eq!(devices(&mut client), 0);
}

#[test]
fn the_octets_of_all_transactions_of_a_connection_are_limited() {
    let served = Served::new();
    let mut client = served.root();
    let (first, second) = (begin(&mut client), begin(&mut client));
    let large = "x".repeat(1_900_000);
    for number in 0..4 {
        let transaction = if number % 2 == 0 { &first } else { &second };
        let answer = add(&mut client, transaction, &format!("cn={number},{SUFFIX}"), &large);
        assert_eq!(answer.code(), ResultCode::Success, "{number}");
    }
    let answer = add(&mut client, &second, &format!("cn=4,{SUFFIX}"), &large);
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded);
    assert_eq!(answer.notices, notice(&second), "the one that asked for too much");
    assert_eq!(end(&mut client, true, &first).code(), ResultCode::Success);
    assert_eq!(devices(&mut client), 2);
}

#[test]
fn a_request_that_cannot_be_read_ends_the_transactions_of_its_connection() {
    let served = Served::new();
    let mut client = served.root();
    let transaction = begin(&mut client);
    add(&mut client, &transaction, &format!("cn=a,{SUFFIX}"), "x");
    // A delete whose name is not UTF-8.
    client.connection.feed(&[0x30, 0x06, 0x02, 0x01, 0x63, 0x4a, 0x01, 0xff]);
    let mut answer = Answer::default();
    while let Some(message) = client.connection.received.pop_front() {
        answer.take(&message);
    }
    assert_eq!(answer.code(), ResultCode::ProtocolError);
    assert_eq!(answer.notices, notice(&transaction));
    assert_eq!(end(&mut client, true, &transaction).code(), ResultCode::OperationsError);
}

#[test]
fn an_end_that_is_abandoned_while_it_waits_does_nothing() {
    let served = Held::one_by_one();
    let mut client = served.root();
    let transaction = begin(&mut client);
    add(&mut client, &transaction, &format!("cn=a,{SUFFIX}"), "x");
    let held = Held::writer(&served);
    let value = end_value(true, &transaction);
    let request = ExtendedRequest { oid: END, value: Some(&value) };
    let pending = start_with(&mut client, Request::Extended(request), Controls::EMPTY);
    let id = pending.id();
    let (sender, receiver) = channel();
    pending.submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
    let abandon = client.encode(Request::Abandon(id), Controls::EMPTY);
    client.connection.feed(&abandon);
    held.release();
    assert_eq!(receiver.recv().unwrap(), Vec::<u8>::new(), "nobody waits for the answer");
    client.connection.session.forget(id);
    assert_eq!(end(&mut client, true, &transaction).code(), ResultCode::OperationsError);
    assert_eq!(devices(&mut client), 0);
}

#[test]
fn a_transaction_is_decided_on_what_others_did_before_it_ended() {
    let served = Served::new();
    let (mut client, mut other) = (served.root(), served.root());
    let transaction = begin(&mut client);
    let name = format!("cn=a,{SUFFIX}");
    add(&mut client, &transaction, &name, "mine");
    assert_eq!(other.add(&name, &[("objectClass", &["device"])]), ResultCode::Success);
    let answer = end(&mut client, true, &transaction);
    assert_eq!(answer.code(), ResultCode::EntryAlreadyExists);

    // The other way round, in one batch of the writer: who comes after sees it all.
    let transaction = begin(&mut client);
    let controls = specification(&transaction);
    let request = DeleteRequest { name: &name };
    let answer = client.request(Request::Delete(request), controls.as_ref());
    assert_eq!(answer.code(), ResultCode::Success);
    let held = Held::new(&served);
    let value = end_value(true, &transaction);
    let request = ExtendedRequest { oid: END, value: Some(&value) };
    let submit = |client: &mut Client, op: Request<'_>| {
        let (sender, receiver) = channel();
        let pending = start_with(client, op, Controls::EMPTY);
        pending.submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
        receiver
    };
    let ended = submit(&mut client, Request::Extended(request));
    let changes = modifications(&[(ModifyOperation::Replace, "l", &["x"])]);
    let modify = ModifyRequest { name: &name, changes: changes.as_ref() };
    let late = submit(&mut other, Request::Modify(modify));
    held.release();
    assert_eq!(code(&ended), ResultCode::Success);
    assert_eq!(code(&late), ResultCode::NoSuchObject);
}

#[test]
fn message_ids_of_updates_are_free_once_they_are_accepted() {
    let served = Served::new();
    let mut client = served.root();
    let transaction = begin(&mut client);
    add(&mut client, &transaction, &format!("cn=a,{SUFFIX}"), "x");
    assert_eq!(client.connection.session.outstanding(), 0);
    // A client may reuse the id of what was answered (RFC 4511 §4.1.1.1).
    let mut out = Vec::new();
    let name = format!("cn=a,{SUFFIX}");
    let op = Request::Delete(DeleteRequest { name: &name });
    let controls = specification(&transaction);
    ldap::message::Message { id: MessageId(2), op, controls: controls.as_ref() }.encode(&mut out);
    client.connection.feed(&out);
    let mut answer = Answer::default();
    answer.take(&client.connection.received.pop_front().unwrap());
    assert_eq!(answer.code(), ResultCode::Success);
    assert_eq!(end(&mut client, true, &transaction).code(), ResultCode::Success);
    assert_eq!(devices(&mut client), 0);
}

#[test]
fn a_tree_is_not_deleted_by_a_name_that_only_a_lost_transaction_gave_it() {
    let (served, faults) = on_faulty_disk();
    let mut root = served.root();
    let (tree, other) = (format!("ou=tree,{SUFFIX}"), format!("ou=other,{SUFFIX}"));
    assert_eq!(code(&submit_unit(&mut root, &tree)), ResultCode::Success);
    let units = (0..300).map(|number| submit_unit(&mut root, &format!("ou={number},{tree}")));
    for unit in units.collect::<Vec<_>>() {
        assert_eq!(code(&unit), ResultCode::Success);
    }
    let transaction = begin(&mut root);
    let rename = ModifyDnRequest {
        name: &tree,
        new_rdn: "ou=other",
        delete_old_rdn: true,
        new_superior: None,
    };
    root.request(Request::ModifyDn(rename), specification(&transaction).as_ref());
    // So large that it needs a segment of its own.
    add(&mut root, &transaction, &format!("cn=large,{SUFFIX}"), &"x".repeat(2 << 20));
    let held = Held::new(&served);
    Faults::set(&faults.is_full, true);
    let value = end_value(true, &transaction);
    let lost =
        submit(&mut root, Request::Extended(ExtendedRequest { oid: END, value: Some(&value) }));
    while served.directory.log().in_flight() == 0 {
        thread::yield_now();
    }
    // Decided on what is in flight; its first step is to follow that.
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    let (sender, deleted) = channel();
    start_with(&mut root, Request::Delete(DeleteRequest { name: &other }), controls.as_ref())
        .submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
    (0..100_000).for_each(|_| thread::yield_now());
    held.release();
    assert_eq!(code(&lost), ResultCode::UnwillingToPerform, "there is no room for it");
    assert_ne!(code(&deleted), ResultCode::Success);
    let search = Asked { base: &tree, ..Asked::default() };
    assert_eq!(root.search(&search).entries.len(), 301);
}
