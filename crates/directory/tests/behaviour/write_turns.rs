//! Those who write take turns, and nobody takes all places or all memory of the write queue and of
//! open transactions.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use ldap::message::{Control, Controls, ControlsBuf, ModifyOperation, ModifyRequest, Request};
use ldap::result::ResultCode;

use crate::support::{Answer, Client, SUFFIX, Served, modifications};
use crate::writes::{Held, code, start_with, submit};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const BERT: &str = "uid=bert,dc=example,dc=org";
const START: &str = "1.3.6.1.1.21.1";
const SPECIFICATION: &str = "1.3.6.1.1.21.2";

fn add_people(served: &Served) {
    let mut root = served.root();
    for (name, uid) in [(ANNA, "anna"), (BERT, "bert")] {
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("uid", &[uid]),
            ("cn", &[uid]),
            ("sn", &[uid]),
            ("userPassword", &["secret"]),
        ];
        assert_eq!(root.add(name, attributes), ResultCode::Success);
    }
}

fn bound(served: &Served, name: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(name, "secret"), ResultCode::Success);
    client
}

/// Anybody may change where the suffix is: what is refused is answered beside the log, and may
/// overtake answers to what is logged.
fn open_place(served: &Served) {
    let aci =
        "(targetattr=\"l\")(version 3.0; acl \"place\"; allow (write) userdn=\"ldap:///all\";)";
    let allow = [(ModifyOperation::Add, "aci", &[aci][..])];
    assert_eq!(served.root().modify(SUFFIX, &allow), ResultCode::Success);
}

/// Has a change wait; the name of who asked is told when it is answered.
fn queue(client: &mut Client, who: &'static str, place: &str, told: &Sender<&'static str>) {
    let changes = modifications(&[(ModifyOperation::Replace, "l", &[place])]);
    let modify = Request::Modify(ModifyRequest { name: SUFFIX, changes: changes.as_ref() });
    let told = told.clone();
    start_with(client, modify, Controls::EMPTY).submit(Box::new(move |_| {
        let _ = told.send(who);
    }));
}

/// Asks for a change with so many short values.
fn with_values<T>(count: usize, ask: impl FnOnce(Request<'_>) -> T) -> T {
    let values = (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    let values = values.iter().map(String::as_str).collect::<Vec<_>>();
    let changes = modifications(&[(ModifyOperation::Add, "description", &values)]);
    ask(Request::Modify(ModifyRequest { name: ANNA, changes: changes.as_ref() }))
}

fn is_waiting(answer: &Receiver<Vec<u8>>) -> bool {
    matches!(answer.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn who_has_many_writes_waiting_waits_for_them_alone() {
    let served = Held::one_by_one();
    add_people(&served);
    open_place(&served);
    let (mut anna, mut second, mut bert, mut root) =
        (bound(&served, ANNA), bound(&served, ANNA), bound(&served, BERT), served.root());
    let held = Held::writer(&served);
    let (told, answered) = channel();
    for number in 0..20 {
        queue(&mut anna, "anna", &format!("first {number}"), &told);
        queue(&mut second, "anna", &format!("second {number}"), &told);
    }
    queue(&mut root, "root", "the administrator's", &told);
    queue(&mut bert, "bert", "bert's", &told);
    held.release();
    drop(told);
    let order = answered.iter().collect::<Vec<_>>();
    assert_eq!(order.len(), 42);
    let place = |who| order.iter().position(|one| *one == who).unwrap();
    // The administrator has two of its own in the queue, which keep the writer busy.
    assert!(place("root") <= 6 && place("bert") <= 6, "{order:?}");
}

#[test]
fn nobody_takes_all_places_of_the_write_queue() {
    let served = Served::with(|options| {
        options.limits.write_batch_max = 1;
        options.limits.write_queue_max = 12;
        options.limits.write_queue_asker_max = 3;
    });
    add_people(&served);
    let (mut anna, mut bert, mut root) =
        (bound(&served, ANNA), bound(&served, BERT), served.root());
    let held = Held::writer(&served);
    let ask = |client: &mut Client| with_values(1, |request| submit(client, request));
    let of_anna = (0..8).map(|_| ask(&mut anna)).collect::<Vec<_>>();
    let others = [ask(&mut bert), ask(&mut root), ask(&mut root), ask(&mut root)];
    let waiting = of_anna.iter().filter(|answer| is_waiting(answer)).count();
    assert!((3..=5).contains(&waiting), "{waiting}");
    assert!(others.iter().all(is_waiting));
    held.release();
    for answer in of_anna.iter().skip(5) {
        // What was told was read above.
        assert!(answer.recv().is_err());
    }
    others.iter().for_each(|answer| assert_ne!(code(answer), ResultCode::Busy));
}

#[test]
fn what_large_writes_take_while_they_wait_is_limited() {
    let served = Served::with(|options| {
        options.limits.write_batch_max = 1;
        options.limits.write_queue_max_bytes = 4 << 20;
    });
    add_people(&served);
    let (mut anna, mut second, mut bert) =
        (bound(&served, ANNA), bound(&served, ANNA), bound(&served, BERT));
    let held = Held::writer(&served);
    let mut root = served.root();
    while served.directory.write_queue_depth().0 > 1 {
        std::thread::yield_now();
    }
    let large = |client: &mut Client| with_values(30_000, |request| submit(client, request));
    // About 180 KB each were sent, and take seven times as much. One may be decided already.
    let of_anna = [large(&mut anna), large(&mut anna), large(&mut second)];
    assert!(served.directory.write_queue_bytes() > 30_000 * 40);
    let of_others = [large(&mut bert), large(&mut root)];
    assert!(of_others.iter().all(is_waiting));
    assert!(is_waiting(&of_anna[0]));
    assert_eq!(code(&of_anna[2]), ResultCode::Busy);
    // Small ones go on.
    let small = with_values(1, |request| submit(&mut anna, request));
    held.release();
    of_others.iter().for_each(|answer| assert_ne!(code(answer), ResultCode::Busy));
    assert_ne!(code(&small), ResultCode::Busy);
    assert_eq!(served.directory.write_queue_bytes(), 0);
}

fn begin(client: &mut Client) -> ControlsBuf {
    let transaction = client.extended(START, None).value.expect("an identifier");
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: SPECIFICATION, critical: true, value: Some(&transaction) });
    controls
}

fn keep(client: &mut Client, transaction: &ControlsBuf, values: usize) -> Answer {
    with_values(values, |request| client.request(request, transaction.as_ref()))
}

#[test]
fn what_open_transactions_take_is_limited_over_all_and_for_each_who_asks() {
    let served = Served::with(|options| options.limits.transactions_max_bytes = 8 << 20);
    add_people(&served);
    let (mut anna, mut second, mut bert) =
        (bound(&served, ANNA), bound(&served, ANNA), bound(&served, BERT));
    let [one, two, three] = [&mut anna, &mut second, &mut bert].map(begin);
    assert_eq!(keep(&mut anna, &one, 30_000).code(), ResultCode::Success);
    // Her share is a quarter of all.
    let refused = keep(&mut second, &two, 30_000);
    assert_eq!(refused.code(), ResultCode::AdminLimitExceeded);
    assert_eq!(refused.notices.len(), 1, "its transaction is ended");
    assert_eq!(keep(&mut bert, &three, 30_000).code(), ResultCode::Success);
    // A bind gives hers up.
    assert_eq!(anna.bind(ANNA, "secret"), ResultCode::Success);
    let two = begin(&mut second);
    assert_eq!(keep(&mut second, &two, 30_000).code(), ResultCode::Success);
    assert!((30_000 * 2 * 40..4 << 20).contains(&served.directory.transaction_bytes()));
    // So does the end of the connection.
    drop(second);
    let one = begin(&mut anna);
    assert_eq!(keep(&mut anna, &one, 30_000).code(), ResultCode::Success);
    drop((anna, bert));
    assert_eq!(served.directory.transaction_bytes(), 0);
}

#[test]
fn what_counts_in_a_transaction_is_what_it_takes_in_memory() {
    let served = Served::new();
    add_people(&served);
    let mut root = served.root();
    let transaction = begin(&mut root);
    // Less than 2 MiB are sent.
    assert_eq!(keep(&mut root, &transaction, 230_000).code(), ResultCode::AdminLimitExceeded);
    let transaction = begin(&mut root);
    assert_eq!(keep(&mut root, &transaction, 100_000).code(), ResultCode::Success);
}
