//! The write queue: every submitted request is answered once, in order, after it is durable.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use directory::Next;
use ldap::message::{
    AddRequest, Controls, DeleteRequest, MessageId, ModifyOperation, ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served, add_attributes, modifications};

/// Keeps the log busy until it is told to go on, so that what is submitted meanwhile is gathered.
pub(crate) struct Held {
    go_on: Sender<()>,
    pub(crate) client: Client,
}

impl Held {
    pub(crate) fn new(served: &Served) -> Self {
        let mut client = served.root();
        let (go_on, wait) = channel::<()>();
        let (reached, is_reached) = channel();
        let changes = modifications(&[(ModifyOperation::Replace, "l", &["held"])]);
        let modify = ModifyRequest { name: SUFFIX, changes: changes.as_ref() };
        let pending = start(&mut client, Request::Modify(modify));
        // The reply is called by the log, which waits in it.
        pending.submit(Box::new(move |_| {
            reached.send(()).unwrap();
            let _ = wait.recv();
        }));
        is_reached.recv().unwrap();
        Self { go_on, client }
    }

    /// Keeps the writer busy as well: what is submitted from now on waits in the queue.
    pub(crate) fn writer(served: &Served) -> Self {
        assert_eq!(served.options.limits.write_batch_max, 1);
        let mut held = Self::new(served);
        // One is handed to the log, which has not told of the last; one is decided, and fills the
        // batch that cannot be handed over.
        for _ in 0..2 {
            let changes = modifications(&[(ModifyOperation::Replace, "l", &["more"])]);
            let modify = ModifyRequest { name: SUFFIX, changes: changes.as_ref() };
            start(&mut held.client, Request::Modify(modify)).submit(Box::new(|_| {}));
        }
        held
    }

    /// A directory whose batches have room for one request.
    pub(crate) fn one_by_one() -> Served {
        Served::with(|options| options.limits.write_batch_max = 1)
    }

    pub(crate) fn release(self) {
        self.go_on.send(()).unwrap();
    }
}

fn start(client: &mut Client, op: Request<'_>) -> directory::PendingWrite {
    start_with(client, op, Controls::EMPTY)
}

pub(crate) fn start_with(
    client: &mut Client,
    op: Request<'_>,
    controls: Controls<'_>,
) -> directory::PendingWrite {
    let message = client.encode(op, controls);
    let connection = &mut client.connection;
    let mut out = Vec::new();
    match connection.worker.handle(&mut connection.session, &message, &mut out) {
        Next::Write(pending) => pending,
        Next::Answered(_)
        | Next::Later(_)
        | Next::Hash(_)
        | Next::Wait(_)
        | Next::StartTls(_)
        | Next::Close(_) => panic!("a write goes to the queue, not {out:02x?}"),
    }
}

pub(crate) fn submit(client: &mut Client, op: Request<'_>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    start(client, op).submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
    receiver
}

fn submit_add(
    client: &mut Client,
    name: &str,
    attributes: &[(&str, &[&str])],
) -> Receiver<Vec<u8>> {
    let list = add_attributes(attributes);
    submit(client, Request::Add(AddRequest { name, attributes: list.as_ref() }))
}

pub(crate) fn submit_unit(client: &mut Client, name: &str) -> Receiver<Vec<u8>> {
    submit_add(client, name, &[("objectClass", &["organizationalUnit"])])
}

/// The code of the one answer.
#[track_caller]
pub(crate) fn code(receiver: &Receiver<Vec<u8>>) -> ResultCode {
    let octets = receiver.recv().expect("every write is answered");
    let mut answer = Answer::default();
    answer.take(&octets);
    assert!(receiver.recv().is_err(), "and only once");
    answer.code()
}

pub(crate) fn exists(served: &Served, base: &str) -> bool {
    let search = Asked { base, scope: Scope::Base, ..Asked::default() };
    served.client().search(&search).code() == ResultCode::Success
}

#[test]
fn a_write_too_many_is_busy_at_once_and_the_others_are_done() {
    let served = Served::with(|options| {
        options.limits.write_queue_max = 2;
        options.limits.write_batch_max = 1;
    });
    let held = Held::new(&served);
    let mut client = served.root();
    let name = |number| format!("ou={number},dc=example,dc=org");
    let answers: Vec<_> = (0..10).map(|number| submit_unit(&mut client, &name(number))).collect();
    // One with the log, one decided, two in the queue; the writer may not have come that far.
    let refused =
        answers.iter().map(|answer| !matches!(answer.try_recv(), Err(TryRecvError::Empty)));
    let refused: Vec<bool> = refused.collect();
    held.release();
    for (number, (answer, refused)) in answers.iter().zip(&refused).enumerate() {
        if !refused {
            assert_eq!(code(answer), ResultCode::Success);
        }
        assert_eq!(exists(&served, &name(number)), !refused);
    }
    let accepted = refused.iter().filter(|refused| !**refused).count();
    assert!((2..=4).contains(&accepted), "{refused:?}");
}

#[test]
fn requests_of_one_batch_are_decided_on_what_those_before_them_left() {
    let served = Served::new();
    let held = Held::new(&served);
    let mut client = served.root();
    let parent = submit_unit(&mut client, "ou=a,dc=example,dc=org");
    let child = submit_unit(&mut client, "ou=b,ou=a,dc=example,dc=org");
    let again = submit_unit(&mut client, "ou=b,ou=a,dc=example,dc=org");
    let delete =
        |client: &mut Client, name| submit(client, Request::Delete(DeleteRequest { name }));
    let too_early = delete(&mut client, "ou=a,dc=example,dc=org");
    let leaf = delete(&mut client, "ou=b,ou=a,dc=example,dc=org");
    let then = delete(&mut client, "ou=a,dc=example,dc=org");
    held.release();
    assert_eq!(code(&parent), ResultCode::Success);
    assert_eq!(code(&child), ResultCode::Success);
    assert_eq!(code(&again), ResultCode::EntryAlreadyExists);
    assert_eq!(code(&too_early), ResultCode::NotAllowedOnNonLeaf);
    assert_eq!(code(&leaf), ResultCode::Success);
    assert_eq!(code(&then), ResultCode::Success);
    assert!(!exists(&served, "ou=a,dc=example,dc=org"));
}

#[test]
fn an_abandoned_write_that_still_waits_does_not_happen() {
    let served = Held::one_by_one();
    let held = Held::writer(&served);
    let mut client = served.root();
    let gone = submit_unit(&mut client, "ou=gone,dc=example,dc=org");
    let kept = submit_unit(&mut client, "ou=kept,dc=example,dc=org");
    assert_eq!(client.connection.session.outstanding(), 2);
    // Messages of this client: 1 was the bind, 2 the first add.
    let abandon = client.encode(Request::Abandon(MessageId(2)), Controls::EMPTY);
    client.connection.feed(&abandon);
    held.release();
    assert_eq!(gone.recv().unwrap(), b"", "no answer, but the slot is free again");
    assert_eq!(code(&kept), ResultCode::Success);
    client.connection.session.forget(MessageId(2));
    client.connection.session.forget(MessageId(3));
    assert_eq!(client.connection.session.outstanding(), 0);
    assert!(!exists(&served, "ou=gone,dc=example,dc=org"));
    assert!(exists(&served, "ou=kept,dc=example,dc=org"));
}

#[test]
fn the_writes_of_a_closed_connection_that_still_wait_do_not_happen() {
    let served = Held::one_by_one();
    let held = Held::writer(&served);
    let mut client = served.root();
    let gone = submit_unit(&mut client, "ou=gone,dc=example,dc=org");
    client.connection.session.abandon_all();
    held.release();
    assert_eq!(gone.recv().unwrap(), b"");
    assert!(!exists(&served, "ou=gone,dc=example,dc=org"));
}

#[test]
fn the_id_of_a_request_in_progress_cannot_be_used_again() {
    let served = Served::new();
    let held = Held::new(&served);
    let mut client = served.root();
    let kept = submit_unit(&mut client, "ou=kept,dc=example,dc=org");
    let mut again = client.encode_search(&Asked::default());
    // 30 len 02 01 id
    again[4] = 2;
    client.connection.feed(&again);
    let mut answer = Answer::default();
    answer.take(&client.connection.received.pop_front().unwrap());
    assert_eq!(answer.code(), ResultCode::ProtocolError);
    held.release();
    assert_eq!(code(&kept), ResultCode::Success);
}

#[test]
fn shutdown_writes_what_waits_and_refuses_what_comes_later() {
    let served = Served::new();
    let held = Held::new(&served);
    let mut client = served.root();
    let waiting = submit_unit(&mut client, "ou=waiting,dc=example,dc=org");
    let late =
        start(&mut client, Request::Delete(DeleteRequest { name: "ou=waiting,dc=example,dc=org" }));
    held.release();
    served.directory.shutdown();
    assert_eq!(code(&waiting), ResultCode::Success);
    let (sender, receiver) = channel();
    late.submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
    assert_eq!(code(&receiver), ResultCode::Unavailable);
    assert!(exists(&served, "ou=waiting,dc=example,dc=org"), "reading goes on");
    served.directory.shutdown();
}

#[test]
fn writes_that_wait_when_the_directory_is_dropped_are_answered() {
    let served = Served::new();
    let Held { go_on, client: holder } = Held::new(&served);
    let mut client = served.root();
    let waiting: Vec<_> = (0..5)
        .map(|number| submit_unit(&mut client, &format!("ou={number},dc=example,dc=org")))
        .collect();
    drop((client, holder));
    // It ends when they are answered. The writer may hold the directory, and be the last to.
    let dropped = std::thread::spawn(move || drop(served));
    go_on.send(()).unwrap();
    for one in waiting {
        let code = code(&one);
        assert!(matches!(code, ResultCode::Success | ResultCode::Unavailable), "{code:?}");
    }
    dropped.join().unwrap();
}

#[test]
fn a_change_that_is_too_large_fails_alone_and_everyone_is_answered() {
    let served = Served::new();
    let held = Held::new(&served);
    let mut client = served.root();
    // More than a record of the journal may have.
    let huge = "x".repeat(17 << 20);
    let description = [huge.as_str()];
    let device: &[(&str, &[&str])] = &[("objectClass", &["device"]), ("description", &description)];
    let before = submit_unit(&mut client, "ou=before,dc=example,dc=org");
    let large = submit_add(&mut client, "cn=1,dc=example,dc=org", device);
    let after = submit_unit(&mut client, "ou=after,dc=example,dc=org");
    let wrong = submit_unit(&mut client, "ou=after,dc=example,dc=org");
    held.release();
    assert_eq!(code(&before), ResultCode::Success);
    assert_eq!(code(&large), ResultCode::UnwillingToPerform);
    assert_eq!(code(&after), ResultCode::Success);
    assert_eq!(code(&wrong), ResultCode::EntryAlreadyExists);
    let served = served_after(client, served);
    assert!(exists(&served, "ou=before,dc=example,dc=org"));
    assert!(exists(&served, "ou=after,dc=example,dc=org"));
    assert!(!exists(&served, "cn=1,dc=example,dc=org"));
}

/// The same directory, closed and opened.
fn served_after(client: Client, served: Served) -> Served {
    drop(client);
    served.reopen()
}

#[test]
fn an_answered_write_is_there_after_reopening() {
    let served = Served::new();
    let mut root = served.root();
    let class: (&str, &[&str]) = ("objectClass", &["organizationalUnit"]);
    assert_eq!(root.add("ou=kept,dc=example,dc=org", &[class]), ResultCode::Success);
    assert_eq!(root.delete("ou=none,dc=example,dc=org"), ResultCode::NoSuchObject);
    let served = served_after(root, served);
    assert!(exists(&served, "ou=kept,dc=example,dc=org"));
}

#[test]
fn what_was_answered_is_visible_to_every_thread() {
    let served = Served::new();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let served = &served;
            threads.spawn(move || {
                let (mut root, mut reader) = (served.root(), served.client());
                for number in 0..25 {
                    let name = format!("ou={thread}-{number},dc=example,dc=org");
                    let class: (&str, &[&str]) = ("objectClass", &["organizationalUnit"]);
                    assert_eq!(root.add(&name, &[class]), ResultCode::Success);
                    let filter = format!("(ou={thread}-{number})");
                    let search = Asked { filter: &filter, ..Asked::default() };
                    assert_eq!(reader.search(&search).names(), [name.as_str()]);
                    if number % 5 == 0 {
                        assert_eq!(root.delete(&name), ResultCode::Success);
                        assert!(reader.search(&search).entries.is_empty());
                    }
                }
            });
        }
    });
    assert_eq!(served.client().search(&Asked::default()).entries.len(), 81);
    let report = served.directory.store().check(&mut |_, _, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
