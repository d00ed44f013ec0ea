//! How fresh reads are on one of several servers, what a response tells of the position it speaks
//! of, and what waits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use directory::{DefaultReadLevel, Next, Peer, ReadReady, WaitingRead};
use ldap::control_value::read_level::{
    AskedLevel, OID as READ_LEVEL, POSITION_OID as POSITION, ReadLevelRequest,
};
use ldap::message::{
    CompareRequest, Control, Controls, ControlsBuf, DeleteRequest, ExtendedRequest, MessageId,
    ModifyDnRequest, ModifyOperation, ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;
use tempfile::TempDir;

use crate::support::cluster::{Cluster, Quorum, copy};
use crate::support::{Answer, Asked, Client, SUFFIX, Served, modifications, small};

const UNIT: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];

const LINEARIZABLE: ReadLevelRequest<'_> = ReadLevelRequest::new(AskedLevel::Linearizable);
const LOCAL: ReadLevelRequest<'_> = ReadLevelRequest::new(AskedLevel::Local);

const fn bounded(bound_ms: u32) -> ReadLevelRequest<'static> {
    ReadLevelRequest::new(AskedLevel::Bounded { bound_ms })
}

const fn at_least(cookie: &[u8]) -> ReadLevelRequest<'_> {
    ReadLevelRequest::new(AskedLevel::AtLeast { cookie })
}

fn ou(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

/// Searches for one entry, at this level.
fn read(client: &mut Client, base: &str, level: ReadLevelRequest<'_>) -> Answer {
    let value = level.encode();
    let controls: &[(&str, bool, Option<&[u8]>)] = &[(READ_LEVEL, true, Some(&value))];
    client.search(&Asked { base, scope: Scope::Base, controls, ..Asked::default() })
}

/// A request that has the position told.
fn told(client: &mut Client, request: Request<'_>) -> (Answer, Vec<u8>) {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: POSITION, critical: true, value: None });
    let answer = client.request(request, controls.as_ref());
    let positions: Vec<_> =
        answer.controls.iter().filter(|(oid, _)| oid == POSITION).map(|(_, value)| value).collect();
    assert_eq!(positions.len(), 1, "{answer:?}");
    let cookie = positions[0].clone();
    (answer, cookie)
}

/// Adds an entry; the position of that.
fn add_told(client: &mut Client, name: &str) -> Vec<u8> {
    let list = crate::support::add_attributes(UNIT);
    let add = ldap::message::AddRequest { name, attributes: list.as_ref() };
    let (answer, cookie) = told(client, Request::Add(add));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    cookie
}

/// Begins a search at this level that has to wait.
fn begin(client: &mut Client, base: &str, level: ReadLevelRequest<'_>) -> Box<WaitingRead> {
    let value = level.encode();
    let controls: &[(&str, bool, Option<&[u8]>)] = &[(READ_LEVEL, true, Some(&value))];
    let asked = Asked { base, scope: Scope::Base, controls, ..Asked::default() };
    let message = client.encode_search(&asked);
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.handle(&mut connection.session, &message, &mut out);
    assert!(out.is_empty());
    let Next::Wait(read) = next else { panic!("it has to wait") };
    read
}

fn submit(read: Box<WaitingRead>) -> Receiver<ReadReady> {
    let (sender, receiver) = channel();
    read.submit(Box::new(move |ready| sender.send(ready).unwrap())).unwrap();
    receiver
}

/// The answer to a read that goes on.
fn end(client: &mut Client, waiting: &Receiver<ReadReady>) -> Answer {
    let ready = waiting.recv_timeout(Duration::from_secs(60)).expect("it goes on");
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.resume_read(&mut connection.session, ready, &mut out);
    assert!(matches!(next, Next::Answered(_)));
    let mut answer = Answer::default();
    let mut rest = out.as_slice();
    while let Ok(ldap::ber::Frame::Complete(length)) = ldap::ber::frame(rest, usize::MAX) {
        answer.take(&rest[..length]);
        rest = &rest[length..];
    }
    answer
}

fn depth(served: &Served) -> usize {
    served.directory.waiting_reads().unwrap().0
}

#[test]
fn a_read_at_the_least_as_new_as_a_write_waits_until_it_is_there() {
    let cluster = Cluster::new();
    cluster.log.hold(1, true);
    let cookie = add_told(&mut cluster.leader().root(), &ou("a"));
    let mut client = cluster.follower().client();
    let local = read(&mut client, &ou("a"), LOCAL);
    assert_eq!(local.code(), ResultCode::NoSuchObject, "nobody here sees it yet");
    let waiting = submit(begin(&mut client, &ou("a"), at_least(&cookie)));
    // Others go on.
    assert_eq!(read(&mut client, SUFFIX, LOCAL).entries.len(), 1);
    assert_eq!(depth(cluster.follower()), 1);
    assert!(waiting.try_recv().is_err());
    cluster.log.hold(1, false);
    assert_eq!(end(&mut client, &waiting).names(), [ou("a")]);
    assert_eq!(depth(cluster.follower()), 0);
    // It is there now, and nothing waits.
    let answer = read(&mut client, &ou("a"), at_least(&cookie));
    assert_eq!((answer.names(), client.connection.waited), (vec![&*ou("a")], 0));
    assert_eq!(cluster.log.rounds(), 0, "nobody else was asked");
}

/// Whether a cookie names the last change, which is all that the last node has not.
fn check_names_the_last(cluster: &Cluster, cookie: &[u8]) {
    let (late, others) = cluster.nodes.split_last().unwrap();
    let last = |node: &Served| node.directory.store().published().lsn.0;
    let level = ReadLevelRequest { wait_ms: Some(0), ..at_least(cookie) };
    for node in others {
        assert_eq!(last(node), last(late) + 1);
        assert_eq!(read(&mut node.client(), SUFFIX, level).code(), ResultCode::Success);
    }
    assert_eq!(read(&mut late.client(), SUFFIX, level).code(), ResultCode::Unavailable);
}

#[test]
fn each_response_that_is_asked_for_it_tells_its_position() {
    let cluster = Cluster::with(3, |_| {});
    // It has all that there is now, and nothing that comes.
    let leave_one_behind = || [false, true].map(|is_held| cluster.log.hold(2, is_held));
    // Also where it was handed on.
    for served in &cluster.nodes[..2] {
        let mut client = served.root();
        let (a, b) = (ou("a"), ou("b"));
        let mut cookies = Vec::new();
        let mut check = |cookie: Vec<u8>| {
            check_names_the_last(&cluster, &cookie);
            cookies.push(cookie);
        };
        leave_one_behind();
        check(add_told(&mut client, &a));
        let mut ask = |request: Request<'_>, want: ResultCode| {
            if want == ResultCode::Success {
                leave_one_behind();
            }
            let (answer, cookie) = told(&mut client, request);
            assert_eq!(answer.code(), want, "{}", answer.diagnostic);
            check(cookie);
        };
        let changes = modifications(&[(ModifyOperation::Add, "description", &["x"])]);
        let modify = ModifyRequest { name: &a, changes: changes.as_ref() };
        ask(Request::Modify(modify), ResultCode::Success);
        ask(Request::Modify(modify), ResultCode::AttributeOrValueExists);
        let rename =
            ModifyDnRequest { name: &a, new_rdn: "ou=b", delete_old_rdn: true, new_superior: None };
        ask(Request::ModifyDn(rename), ResultCode::Success);
        let compare = CompareRequest { name: &b, description: "description", value: b"x" };
        ask(Request::Compare(compare), ResultCode::CompareTrue);
        ask(Request::Delete(DeleteRequest { name: &b }), ResultCode::Success);
        let controls: &[(&str, bool, Option<&[u8]>)] = &[(POSITION, true, None)];
        let found = client.search(&Asked { controls, ..Asked::default() });
        check(found.controls[0].1.clone());
        for cookie in &cookies {
            assert_eq!(cookie.len(), cookies[0].len(), "they tell nothing by their length");
            let equal = cookies.iter().filter(|other| *other == cookie).count();
            assert_eq!(equal, 1, "no two are equal");
        }
    }
}

#[test]
fn a_transaction_has_its_position_at_its_end() {
    let cluster = Cluster::new();
    for (served, name) in cluster.nodes.iter().zip(["a", "b"]) {
        let mut client = served.root();
        let begun = client.extended("1.3.6.1.1.21.1", None).value.unwrap();
        let name = ou(name);
        let list = crate::support::add_attributes(UNIT);
        let add =
            Request::Add(ldap::message::AddRequest { name: &name, attributes: list.as_ref() });
        let controls = |is_critical: bool| {
            let mut controls = ControlsBuf::new();
            let oid = "1.3.6.1.1.21.2";
            controls.push(Control { oid, critical: true, value: Some(&begun) });
            controls.push(Control { oid: POSITION, critical: is_critical, value: None });
            controls
        };
        let answer = client.request(add, controls(false).as_ref());
        assert_eq!((answer.code(), answer.controls.len()), (ResultCode::Success, 0));
        let mut value = vec![0x30, u8::try_from(begun.len()).unwrap() + 2];
        value.extend([4, u8::try_from(begun.len()).unwrap()]);
        value.extend(&begun);
        let end = ExtendedRequest { oid: "1.3.6.1.1.21.3", value: Some(&value) };
        cluster.log.hold(1, true);
        let is_leader = Arc::ptr_eq(&served.directory, &cluster.leader().directory);
        if !is_leader {
            cluster.log.hold(1, false);
        }
        let (answer, cookie) = told(&mut client, Request::Extended(end));
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        let mut reader = cluster.follower().client();
        if is_leader {
            let waiting = submit(begin(&mut reader, &name, at_least(&cookie)));
            cluster.log.hold(1, false);
            assert_eq!(super::read_levels::end(&mut reader, &waiting).names(), [&*name]);
        } else {
            assert_eq!(read(&mut reader, &name, at_least(&cookie)).names(), [&*name]);
        }
    }
    // An update alone has none yet.
    let mut client = cluster.leader().root();
    let begun = client.extended("1.3.6.1.1.21.1", None).value.unwrap();
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.3.6.1.1.21.2", critical: true, value: Some(&begun) });
    controls.push(Control { oid: POSITION, critical: true, value: None });
    let delete = Request::Delete(DeleteRequest { name: SUFFIX });
    let answer = client.request(delete, controls.as_ref());
    assert_eq!(answer.code(), ResultCode::UnavailableCriticalExtension);
}

#[test]
fn a_cookie_of_another_directory_is_refused() {
    let (cluster, other) = (Cluster::new(), Served::new());
    let foreign = add_told(&mut other.root(), &ou("a"));
    let mut altered = add_told(&mut cluster.leader().root(), &ou("a"));
    altered[20] ^= 1;
    for served in [cluster.leader(), cluster.follower()] {
        for cookie in [&foreign[..], &altered, b"", &[0; 92]] {
            let answer = read(&mut served.client(), SUFFIX, at_least(cookie));
            assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
            let why = "the cookie of the read level control is none of this directory";
            assert_eq!(answer.diagnostic, why);
        }
    }
}

#[test]
fn a_server_that_is_alone_understands_all_levels() {
    let served = Served::new();
    let mut root = served.root();
    let old = add_told(&mut root, &ou("a"));
    for level in [LOCAL, LINEARIZABLE, bounded(1), at_least(&old)] {
        assert_eq!(read(&mut root, &ou("a"), level).names(), [ou("a")], "{level:?}");
    }
    assert_eq!(root.connection.waited, 0);
    assert!(served.directory.waiting_reads().is_none());
    // A copy that has not come as far, under the same number.
    drop(root);
    served.directory.shutdown();
    let (options, data) = served.pulled();
    let older = TempDir::new().unwrap();
    copy(&options.data, &older.path().join("data"));
    let served = Served::opened(options, data);
    let new = add_told(&mut served.root(), &ou("b"));
    let older = Arc::new(older);
    let copied = Served::opened(small(older.path().join("data")), older);
    let mut client = copied.client();
    assert_eq!(read(&mut client, SUFFIX, at_least(&old)).code(), ResultCode::Success);
    let answer = read(&mut client, SUFFIX, at_least(&new));
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert!(answer.diagnostic.contains("is not in this directory"), "{}", answer.diagnostic);
}

#[test]
fn linearizable_reads_that_come_during_a_round_share_the_next() {
    let cluster = Cluster::new();
    cluster.log.set_quorum(Quorum::Slow);
    let mut client = cluster.follower().client();
    let mut waiting = vec![submit(begin(&mut client, SUFFIX, LINEARIZABLE))];
    cluster.log.wait_for_rounds(1);
    waiting.extend((0..50).map(|_| submit(begin(&mut client, SUFFIX, LINEARIZABLE))));
    assert_eq!(depth(cluster.follower()), 51);
    cluster.log.set_quorum(Quorum::There);
    for one in &waiting {
        assert_eq!(end(&mut client, one).entries.len(), 1);
    }
    assert_eq!(cluster.log.rounds(), 2);
    assert_eq!(client.connection.session.outstanding(), 0);
    // A write on the leader is seen, although this node has not applied it when it is asked.
    cluster.log.hold(1, true);
    add_told(&mut cluster.leader().root(), &ou("a"));
    let one = submit(begin(&mut client, &ou("a"), LINEARIZABLE));
    cluster.log.wait_for_rounds(3);
    cluster.log.hold(1, false);
    assert_eq!(end(&mut client, &one).names(), [ou("a")]);
}

#[test]
fn a_round_is_good_for_all_bounds_that_it_is_within() {
    let cluster = Cluster::new();
    let follower = cluster.follower();
    let mut client = follower.client();
    let mut check = |bound_ms: u32, rounds: usize| {
        assert_eq!(read(&mut client, SUFFIX, bounded(bound_ms)).code(), ResultCode::Success);
        assert_eq!(cluster.log.rounds(), rounds);
    };
    check(1_000, 1);
    check(1, 1);
    follower.clock.advance(Duration::from_millis(1_000));
    check(1_000, 1);
    check(999, 2);
    follower.clock.advance(Duration::from_millis(500));
    check(499, 3);
    check(400, 3);
}

#[test]
fn without_a_majority_only_local_reads_are_answered() {
    let hour = Duration::from_secs(3_600);
    let cluster = Cluster::with(2, |options| options.limits.read_wait_max = hour);
    let follower = cluster.follower();
    let mut client = follower.client();
    assert_eq!(read(&mut client, SUFFIX, bounded(1_000)).code(), ResultCode::Success);
    cluster.log.set_quorum(Quorum::Gone);
    assert_eq!(read(&mut client, SUFFIX, bounded(1_000)).code(), ResultCode::Success);
    follower.clock.advance(Duration::from_millis(1_001));
    let answer = read(&mut client, SUFFIX, bounded(1_000));
    assert_eq!(answer.code(), ResultCode::Unavailable);
    let why = "the data of this server may be older than 1000 ms: no majority of the servers can \
               be asked, and it heard from a leader 1234 ms ago";
    assert_eq!(answer.diagnostic, why);
    assert_eq!(read(&mut client, SUFFIX, LOCAL).entries.len(), 1);
    // Others try until their time is over.
    let asked = cluster.log.rounds();
    let waiting = submit(begin(&mut client, SUFFIX, LINEARIZABLE));
    for _ in 0..200 {
        follower.clock.advance(Duration::from_millis(20));
        std::thread::yield_now();
    }
    cluster.log.wait_for_rounds(asked + 1);
    assert!(waiting.try_recv().is_err(), "it goes on trying");
    follower.clock.advance(hour);
    let answer = end(&mut client, &waiting);
    assert_eq!(answer.code(), ResultCode::Unavailable);
    let why = "this server cannot tell whether its data are the newest: no majority of the servers \
               can be asked, and it heard from a leader 1234 ms ago";
    assert_eq!(answer.diagnostic, why);
    // Or there is one again.
    let waiting = submit(begin(&mut client, SUFFIX, LINEARIZABLE));
    cluster.log.set_quorum(Quorum::There);
    while depth(follower) > 0 {
        follower.clock.advance(Duration::from_millis(1));
        std::thread::yield_now();
    }
    assert_eq!(end(&mut client, &waiting).code(), ResultCode::Success);
}

#[test]
fn a_client_says_how_long_it_waits() {
    let cluster = Cluster::new();
    let follower = cluster.follower();
    cluster.log.hold(1, true);
    let cookie = add_told(&mut cluster.leader().root(), &ou("a"));
    let mut client = follower.client();
    // Not at all.
    let at_once = ReadLevelRequest { wait_ms: Some(0), ..at_least(&cookie) };
    let answer = read(&mut client, SUFFIX, at_once);
    assert_eq!(answer.code(), ResultCode::Unavailable);
    let why = "the change that the cookie names has not come to this server in 0 ms";
    assert_eq!(answer.diagnostic, why);
    // No longer than the server lets it.
    let for_ever = ReadLevelRequest { wait_ms: Some(u32::MAX >> 1), ..at_least(&cookie) };
    let waiting = submit(begin(&mut client, SUFFIX, for_ever));
    follower.clock.advance(Duration::from_secs(5));
    assert_eq!(end(&mut client, &waiting).code(), ResultCode::Unavailable);
    // Or as long as the search may take.
    let value = at_least(&cookie).encode();
    let controls: &[(&str, bool, Option<&[u8]>)] = &[(READ_LEVEL, true, Some(&value))];
    let asked = Asked { controls, time_limit_s: 2, ..Asked::default() };
    let message = client.encode_search(&asked);
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Wait(read) = next else { panic!("it has to wait") };
    let waiting = submit(read);
    follower.clock.advance(Duration::from_secs(2));
    assert_eq!(end(&mut client, &waiting).code(), ResultCode::TimeLimitExceeded);
}

#[test]
fn what_waits_can_be_given_up() {
    let cluster = Cluster::new();
    cluster.log.set_quorum(Quorum::Slow);
    let mut client = cluster.follower().client();
    let [abandoned, canceled] = [(); 2].map(|()| submit(begin(&mut client, SUFFIX, LINEARIZABLE)));
    assert_eq!(client.connection.session.outstanding(), 2);
    let cancel = ExtendedRequest { oid: "1.3.6.1.1.8", value: Some(&[0x30, 3, 2, 1, 2]) };
    let answer = client.request(Request::Extended(cancel), Controls::EMPTY);
    assert_eq!(answer.code(), ResultCode::Success);
    client.request(Request::Abandon(MessageId(1)), Controls::EMPTY);
    assert_eq!(end(&mut client, &canceled).code(), ResultCode::Canceled);
    assert_eq!(end(&mut client, &abandoned), Answer::default());
    assert_eq!(client.connection.session.outstanding(), 0);
    assert_eq!(depth(cluster.follower()), 0);
    // A bind gives up everything.
    let waiting = submit(begin(&mut client, SUFFIX, LINEARIZABLE));
    assert_eq!(client.bind("", ""), ResultCode::Success);
    assert_eq!(end(&mut client, &waiting), Answer::default());
    // The end of the server as well.
    let waiting = submit(begin(&mut client, SUFFIX, LINEARIZABLE));
    cluster.follower().directory.retire();
    let answer = end(&mut client, &waiting);
    assert_eq!(answer.code(), ResultCode::Unavailable);
    assert_eq!(answer.diagnostic, "the server is shutting down");
    let late = read(&mut client, SUFFIX, LINEARIZABLE);
    assert_eq!(late.code(), ResultCode::Unavailable);
}

#[test]
fn no_more_wait_than_there_may_be() {
    let cluster = Cluster::with(2, |options| {
        options.limits.waiting_reads_max = 5;
        options.limits.waiting_reads_asker_max = 3;
    });
    cluster.log.set_quorum(Quorum::Slow);
    let follower = cluster.follower();
    let (mut stranger, mut root) = (follower.client(), follower.root());
    let mut waiting = Vec::new();
    // Strangers have half of the places, the administrator as many as there are.
    for (client, most) in [(&mut stranger, 2), (&mut root, 5)] {
        waiting.extend((0..most).map(|_| submit(begin(client, SUFFIX, LINEARIZABLE))));
        let one_more = begin(client, SUFFIX, LINEARIZABLE);
        let refused = one_more.submit(Box::new(|_| panic!("it was refused")));
        let (read, why) = refused.unwrap_err();
        assert_eq!(why, "too many reads are waiting for other servers");
        client.connection.session.forget(read.id());
    }
    assert_eq!(follower.directory.waiting_reads(), Some((7, 5)));
    cluster.log.set_quorum(Quorum::There);
    for (number, one) in waiting.iter().enumerate() {
        let client = if number < 2 { &mut stranger } else { &mut root };
        assert_eq!(end(client, one).code(), ResultCode::Success);
    }
    assert_eq!(depth(follower), 0);
}

#[test]
fn settings_say_how_fresh_reads_are_that_do_not() {
    let people = ou("people");
    let levels = vec![(people.clone(), DefaultReadLevel::Linearizable)];
    let cluster = Cluster::with(2, |options| options.read_levels.clone_from(&levels));
    let follower = cluster.follower();
    assert_eq!(cluster.leader().root().add(&people, UNIT), ResultCode::Success);
    assert_eq!(cluster.leader().root().add(&ou("b"), UNIT), ResultCode::Success);
    let stale =
        Peer { read_level: DefaultReadLevel::Bounded { staleness_ms: 1_000 }, ..Peer::default() };
    let rounds = |client: &mut Client, base: &str, scope: Scope| {
        let before = cluster.log.rounds();
        let answer = client.search(&Asked { base, scope, ..Asked::default() });
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        cluster.log.rounds() - before
    };
    let mut client = follower.client();
    assert_eq!(rounds(&mut client, &people, Scope::Base), 1);
    assert_eq!(rounds(&mut client, &people, Scope::Base), 1, "each time");
    assert_eq!(rounds(&mut client, SUFFIX, Scope::Subtree), 1, "it is a part of that");
    assert_eq!(rounds(&mut client, &ou("b"), Scope::Subtree), 0);
    assert_eq!(rounds(&mut client, "", Scope::Base), 0);
    assert_eq!(rounds(&mut client, "cn=schema", Scope::Base), 0);
    assert_eq!(rounds(&mut follower.root(), "cn=monitor", Scope::Base), 0);
    let before = cluster.log.rounds();
    assert_eq!(client.compare(&people, "ou", "people"), ResultCode::CompareTrue);
    assert_eq!(cluster.log.rounds(), before + 1);
    // Of a listener and a context the stricter one counts.
    let mut client = follower.client_from(stale);
    follower.clock.advance(Duration::from_secs(10));
    assert_eq!(rounds(&mut client, &ou("b"), Scope::Base), 1);
    assert_eq!(rounds(&mut client, &ou("b"), Scope::Base), 0, "the last one is young enough");
    assert_eq!(rounds(&mut client, &people, Scope::Base), 1);
    // What a request says counts before both.
    let before = cluster.log.rounds();
    assert_eq!(read(&mut client, &people, LOCAL).code(), ResultCode::Success);
    assert_eq!(cluster.log.rounds(), before);
    // Binds do not ask for anything.
    cluster.log.set_quorum(Quorum::Gone);
    drop(follower.root());
    assert_eq!(read(&mut client, &people, LOCAL).code(), ResultCode::Success);
}

#[test]
fn a_password_is_compared_at_a_level_once() {
    let cluster = Cluster::filled(
        2,
        |served| {
            let name = format!("uid=anna,{SUFFIX}");
            let attributes: &[(&str, &[&str])] = &[
                ("objectClass", &["inetOrgPerson"]),
                ("cn", &["Anna"]),
                ("sn", &["Berg"]),
                ("userPassword", &["secret"]),
            ];
            assert_eq!(served.root().add(&name, attributes), ResultCode::Success);
        },
        |_| {},
    );
    let mut root = cluster.follower().root();
    let name = format!("uid=anna,{SUFFIX}");
    let value = LINEARIZABLE.encode();
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: READ_LEVEL, critical: true, value: Some(&value) });
    let compare = CompareRequest { name: &name, description: "userPassword", value: b"secret" };
    let answer = root.request(Request::Compare(compare), controls.as_ref());
    assert_eq!(answer.code(), ResultCode::CompareTrue);
    assert_eq!(cluster.log.rounds(), 1);
}

#[test]
fn what_is_no_level_is_refused_and_applies_to_reads_alone() {
    let served = Served::new();
    let mut root = served.root();
    for value in [None, Some(&b""[..]), Some(b"\x30\x03\x0a\x01\x07")] {
        let controls: &[(&str, bool, Option<&[u8]>)] = &[(READ_LEVEL, false, value)];
        let answer = root.search(&Asked { controls, ..Asked::default() });
        assert_eq!(answer.code(), ResultCode::ProtocolError, "{value:?}");
    }
    let value = LOCAL.encode();
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: READ_LEVEL, critical: true, value: Some(&value) });
    let delete = Request::Delete(DeleteRequest { name: "ou=x" });
    let answer = root.request(delete, controls.as_ref());
    assert_eq!(answer.code(), ResultCode::UnavailableCriticalExtension);
}
