//! Updates on a node that does not decide: they are carried out as if their client were connected
//! to the one that does, once, and their client sees them.

mod transactions;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use directory::{Peer, Tls};
use history::record::{OpKind, Record};
use ldap::message::{
    Control, Controls, ControlsBuf, DeleteRequest, ExtendedRequest, ModifyOperation, ModifyRequest,
    Request, Scope,
};
use ldap::result::ResultCode;
use schema::Schema;
use store::{DigestPoint, KeptRequest};

use self::transactions::{SPECIFICATION, begin, end};
use crate::support::cluster::{Cluster, Fault, Loses};
use crate::support::disk::SetSpace;
use crate::support::{Answer, Asked, Client, ROOT_DN, SUFFIX, Served, modifications};
use crate::writes::{code, exists, start_with, submit, submit_unit};

const UNIT: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";

fn ou(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

fn person(client: &mut Client, name: &str) -> String {
    let dn = format!("uid={name},{SUFFIX}");
    let attributes: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &[name]),
        ("sn", &[name]),
        ("userPassword", &["secret"]),
    ];
    let answer = client.try_add(&dn, attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    dn
}

fn last_record(cluster: &Cluster) -> Record {
    let records = cluster.log.records();
    Record::decode(&records.last().unwrap().bytes, &Schema::builtin()).unwrap()
}

fn description(served: &Served, base: &str) -> Vec<String> {
    let asked =
        Asked { base, scope: Scope::Base, attributes: &["description"], ..Asked::default() };
    served.root().search(&asked).entries[0].texts("description")
}

#[test]
fn each_operation_is_carried_out_where_it_is_decided_and_seen_where_it_was_asked_for() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    let (a, b) = (ou("a"), ou("b"));
    assert_eq!(client.add(&a, UNIT), ResultCode::Success);
    assert!(exists(cluster.follower(), &a) && exists(cluster.leader(), &a));
    let changes: &[(ModifyOperation, &str, &[&str])] =
        &[(ModifyOperation::Add, "description", &["one"])];
    assert_eq!(client.modify(&a, changes), ResultCode::Success);
    assert_eq!(description(cluster.follower(), &a), ["one"]);
    assert_eq!(client.rename(&a, "ou=b", true, None), ResultCode::Success);
    assert!(exists(cluster.follower(), &b) && !exists(cluster.follower(), &a));
    assert_eq!(client.delete(&b), ResultCode::Success);
    assert!(!exists(cluster.follower(), &b) && !exists(cluster.leader(), &b));
    let record = last_record(&cluster);
    assert_eq!((record.origin.op, &*record.origin.who.dn), (OpKind::Delete, ROOT_DN));
    assert_eq!(record.origin.who.mechanism, "simple");
    assert_eq!(cluster.wire.count(), 4);
}

#[test]
fn what_is_decided_here_is_not_handed_on() {
    let cluster = Cluster::new();
    assert_eq!(cluster.leader().root().add(&ou("a"), UNIT), ResultCode::Success);
    assert!(exists(cluster.follower(), &ou("a")));
    assert_eq!(cluster.wire.count(), 0);
}

#[test]
fn an_update_is_answered_when_this_node_has_applied_it() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.log.hold(1, true);
    let answer = submit_unit(&mut client, &ou("a"));
    // The leader has it, and everything that could answer has come by.
    while cluster.log.len() == 0 {
        std::thread::yield_now();
    }
    assert!(!exists(cluster.follower(), &ou("a")));
    assert!(answer.try_recv().is_err(), "nobody here sees it yet");
    cluster.log.hold(1, false);
    assert_eq!(code(&answer), ResultCode::Success);
    assert!(exists(cluster.follower(), &ou("a")));
}

#[test]
fn a_node_whose_log_has_failed_tells_of_no_success_that_it_does_not_apply() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.log.hold(1, true);
    // One that waits when the log fails, and one of the same connection behind it.
    let waiting = submit_unit(&mut client, &ou("a"));
    while cluster.log.len() == 0 {
        std::thread::yield_now();
    }
    let behind = submit_unit(&mut client, &ou("b"));
    cluster.log.fail(1);
    let mut answer = Answer::default();
    answer.take(&waiting.recv().unwrap());
    assert_eq!(answer.code(), ResultCode::Other, "{}", answer.diagnostic);
    assert!(answer.diagnostic.starts_with("the outcome is unknown: "), "{}", answer.diagnostic);
    // The next are not handed on: nothing of them has happened.
    assert_eq!(code(&behind), ResultCode::Unavailable);
    let mut other = cluster.follower().root();
    assert_eq!(code(&submit_unit(&mut other, &ou("c"))), ResultCode::Unavailable);
    assert_eq!((cluster.wire.count(), cluster.log.len()), (1, 1));
    assert!(!exists(cluster.follower(), &ou("a")) && exists(cluster.leader(), &ou("a")));
}

#[test]
fn refusals_are_those_of_the_node_that_decides() {
    let cluster = Cluster::new();
    let (mut here, mut there) = (cluster.follower().root(), cluster.leader().root());
    assert_eq!(here.add(&ou("a"), UNIT), ResultCode::Success);
    let missing = format!("cn=x,{}", ou("b"));
    for client in [&mut here, &mut there] {
        assert_eq!(client.add(&ou("a"), UNIT), ResultCode::EntryAlreadyExists);
        assert_eq!(client.add("no name", UNIT), ResultCode::InvalidDnSyntax);
        let answer = client.try_add(&missing, UNIT);
        assert_eq!((answer.code(), &*answer.matched), (ResultCode::NoSuchObject, SUFFIX));
    }
    let mut nobody = cluster.follower().client();
    assert_eq!(nobody.delete(&ou("a")), ResultCode::InsufficientAccessRights);
    assert_eq!(cluster.log.len(), 1);
}

#[test]
fn the_order_of_a_connection_is_kept() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    let names: Vec<String> = (0..20)
        .scan(SUFFIX.to_owned(), |above, number| {
            *above = format!("ou={number},{above}");
            Some(above.clone())
        })
        .collect();
    let answers: Vec<_> = names.iter().map(|name| submit_unit(&mut client, name)).collect();
    for answer in &answers {
        assert_eq!(code(answer), ResultCode::Success, "each is below the one before");
    }
}

#[test]
fn the_order_of_a_connection_is_kept_when_the_lead_is_lost() {
    // What came after the loss was handed on, and got there before what had been decided in vain.
    let cluster = Cluster::with(3, |_| {});
    let mut client = cluster.leader().root();
    cluster.log.silence(true);
    cluster.log.lose(Loses { is_committed: false, is_late: None, after: 0, to: 2 });
    let below = format!("ou=b,{}", ou("a"));
    let first = submit_unit(&mut client, &ou("a"));
    while cluster.log.leader() != Some(2) {
        std::thread::yield_now();
    }
    let second = submit_unit(&mut client, &below);
    assert_eq!(cluster.wire.count(), 0, "nobody knows yet what became of the one above");
    // Another connection waits for nobody.
    assert_eq!(cluster.follower().root().add(&ou("c"), UNIT), ResultCode::Success);
    cluster.log.silence(false);
    assert_eq!(code(&first), ResultCode::Success);
    assert_eq!(code(&second), ResultCode::Success);
    cluster.log.wait_until_lost();
}

#[test]
fn strangers_have_nothing_hashed_where_it_is_decided() {
    let slow = |options: &mut directory::DirectoryOptions| {
        options.passwords.storage = auth::password::Scheme::Pbkdf2Sha256.into();
    };
    let cluster = Cluster::with(2, slow);
    let anna = person(&mut cluster.leader().root(), "anna");
    let attributes: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["otto"]),
        ("sn", &["otto"]),
        ("userPassword", &["secret"]),
    ];
    let otto = format!("uid=otto,{SUFFIX}");
    let denied = ResultCode::InsufficientAccessRights;
    let mut stranger = cluster.follower().client();
    assert_eq!(stranger.add(&otto, attributes), denied);
    let set = [(ModifyOperation::Replace, "userPassword", &["other"][..])];
    assert_eq!(stranger.modify(&anna, &set), denied);
    assert_eq!(cluster.wire.count(), 2);
    assert_eq!(cluster.wire.hashes.load(Ordering::Relaxed), 0);
    assert_eq!(cluster.follower().root().add(&otto, attributes), ResultCode::Success);
    assert_eq!(cluster.wire.hashes.load(Ordering::Relaxed), 1);
}

#[test]
fn a_request_that_is_sent_again_happens_once() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.wire.fail([Fault::NotSent, Fault::LoseRequest, Fault::LoseAnswer, Fault::LoseAnswer]);
    assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Success);
    assert_eq!(cluster.log.len(), 1);
    let sent = cluster.wire.requests.lock().unwrap();
    assert_eq!(sent.len(), 5);
    assert!(sent.iter().all(|one| *one == sent[0]), "under the same id");
}

/// What all nodes keep of what they have applied.
fn kept(served: &Served) -> (Vec<DigestPoint>, Vec<KeptRequest>) {
    let store = served.directory.store();
    (store.digests(), store.requests().unwrap())
}

#[test]
fn all_nodes_have_the_same_digest_and_know_the_same_requests() {
    let cluster = Cluster::with(3, |_| {});
    for (number, leader) in [0, 1, 2, 0].into_iter().enumerate() {
        cluster.lead(Some(leader));
        let name = format!("p{number}");
        let dn = person(&mut cluster.nodes[1].root(), &name);
        let changes: &[(ModifyOperation, &str, &[&str])] =
            &[(ModifyOperation::Replace, "description", &["one", "two"])];
        assert_eq!(cluster.nodes[2].root().modify(&dn, changes), ResultCode::Success);
        if number % 2 == 0 {
            assert_eq!(cluster.nodes[0].root().delete(&dn), ResultCode::Success);
        }
        // Decided by one that is lost with it.
        let (is_committed, to) = (number % 2 == 0, (leader + 1) % 3);
        cluster.log.lose(Loses { is_committed, is_late: None, after: 0, to });
        assert_eq!(cluster.nodes[1].root().add(&ou(&name), UNIT), ResultCode::Success);
        cluster.log.wait_until_lost();
        cluster.nodes[number % 3].directory.store().flush().unwrap();
    }
    let (digests, requests) = kept(&cluster.nodes[0]);
    assert_eq!(digests.len(), 1);
    assert_eq!(requests.len(), cluster.log.len());
    for node in &cluster.nodes {
        assert_eq!(kept(node), (digests.clone(), requests.clone()));
    }
}

#[test]
fn a_request_that_is_sent_again_happens_once_also_when_its_record_is_in_no_log_any_more() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Success);
    assert_eq!(client.delete(&ou("a")), ResultCode::Success);
    let sent = cluster.wire.requests.lock().unwrap()[0].clone();
    let later = cluster.without_log();
    let answered = kept(later.leader());
    assert_eq!(answered.1.len(), 2);
    // The first request, under its own name.
    let (sender, receiver) = channel();
    assert!(later.wire.send(sent, Box::new(move |octets| sender.send(octets).unwrap())));
    drop(receiver.recv().unwrap());
    assert!(!exists(later.leader(), &ou("a")), "it is deleted, and stays so");
    assert_eq!(later.log.len(), 0);
    // Others are carried out.
    assert_eq!(later.follower().root().add(&ou("a"), UNIT), ResultCode::Success);
    assert_eq!(kept(later.leader()), kept(later.follower()));
}

#[test]
fn what_was_refused_and_is_sent_again_stays_refused() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.wire.fail([Fault::LoseAnswer]);
    assert_eq!(client.delete(&ou("a")), ResultCode::NoSuchObject);
    // A copy that was long on its way.
    assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Success);
    let late = cluster.wire.requests.lock().unwrap()[0].clone();
    let (sender, receiver) = channel();
    assert!(cluster.wire.send(late, Box::new(move |octets| sender.send(octets).unwrap())));
    drop(receiver.recv().unwrap());
    assert!(exists(cluster.leader(), &ou("a")));
}

#[test]
fn a_leader_that_is_lost_after_the_record_was_committed_leaves_one_record() {
    for node in [0, 1] {
        let cluster = Cluster::with(3, |_| {});
        let mut client = cluster.nodes[node].root();
        cluster.log.lose(Loses { is_committed: true, is_late: None, after: 0, to: 2 });
        assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Success);
        assert_eq!(cluster.log.len(), 1);
        cluster.log.wait_until_lost();
        for served in &cluster.nodes {
            cluster.log.hold(0, false);
            assert!(exists(served, &ou("a")));
        }
    }
}

#[test]
fn a_leader_that_is_lost_before_anybody_has_the_record_is_followed_by_one_that_decides_it() {
    for node in [0, 1] {
        let cluster = Cluster::with(3, |_| {});
        let mut client = cluster.nodes[node].root();
        cluster.log.lose(Loses { is_committed: false, is_late: None, after: 0, to: 2 });
        assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Success);
        assert_eq!(cluster.log.len(), 1);
        // And the one that was lost goes on.
        cluster.log.wait_until_lost();
        cluster.lead(Some(0));
        assert_eq!(client.add(&ou("b"), UNIT), ResultCode::Success);
        assert!(exists(&cluster.nodes[0], &ou("b")));
    }
}

/// A node that led for the first time after it had followed went on from its own clock alone.
#[test]
fn stamps_rise_whoever_decides() {
    for ahead in [0, 1] {
        let cluster = Cluster::with(2, |_| {});
        // One clock goes ahead by an hour.
        cluster.nodes[ahead].clock.advance(Duration::from_secs(3_600));
        for (number, leader) in [0, 1, 0, 1, 0].into_iter().enumerate() {
            cluster.lead(Some(leader));
            for node in &cluster.nodes {
                let name = ou(&format!("{number} {}", node.options.data.display()));
                let name = name.replace('/', "-");
                assert_eq!(node.root().add(&name, UNIT), ResultCode::Success);
            }
        }
        let csns: Vec<_> = cluster
            .log
            .records()
            .iter()
            .map(|one| Record::decode(&one.bytes, &Schema::builtin()).unwrap().csn.time)
            .collect();
        assert_eq!(csns.len(), 10);
        assert!(csns.is_sorted_by(|a, b| a < b), "{csns:?}");
    }
}

#[test]
fn settings_ask_for_referrals() {
    let cluster = Cluster::with(2, |options| options.refers_writes = true);
    let mut client = cluster.follower().root();
    let answer = client.try_add(&ou("a"), UNIT);
    assert_eq!(answer.code(), ResultCode::Referral);
    assert_eq!(answer.referrals, [format!("ldap://node0/{}", ou("a"))]);
    let changed =
        client.extended(PASSWORD_MODIFY, Some(&password_modify("uid=x,dc=y", None, None)));
    assert_eq!(changed.referrals, ["ldap://node0/uid=x,dc=y"]);
    cluster.lead(None);
    assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Unavailable);
    assert_eq!(cluster.wire.count(), 0);
}

#[test]
fn what_waits_is_bounded_and_canceled_while_it_waits() {
    let cluster = Cluster::with(2, |options| options.limits.write_queue_max = 2);
    let mut client = cluster.follower().root();
    cluster.lead(None);
    let first = submit_unit(&mut client, &ou("a"));
    let second = submit_unit(&mut client, &ou("b"));
    assert_eq!(code(&submit_unit(&mut client, &ou("c"))), ResultCode::Busy);
    // The second one was not sent; the first one was, as far as anybody knows.
    let id = |number: u8| [0x30, 3, 2, 1, number];
    let mut cancel = |value: &[u8]| client.extended("1.3.6.1.1.8", Some(value)).code();
    assert_eq!(cancel(&id(3)), ResultCode::Success);
    assert_eq!(cancel(&id(2)), ResultCode::TooLate);
    cluster.lead(Some(0));
    assert_eq!(code(&first), ResultCode::Success);
    assert_eq!(code(&second), ResultCode::Canceled);
    assert_eq!(cluster.log.len(), 1);
}

#[test]
fn a_shutdown_answers_what_waits() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.lead(None);
    let first = submit_unit(&mut client, &ou("a"));
    let second = submit_unit(&mut client, &ou("b"));
    cluster.follower().directory.shutdown();
    assert_eq!(code(&first), ResultCode::Unavailable);
    assert_eq!(code(&second), ResultCode::Unavailable);
    assert_eq!(code(&submit_unit(&mut client, &ou("c"))), ResultCode::Unavailable);
}

/// The value of a password modify request (RFC 3062).
fn password_modify(user: &str, old: Option<&str>, new: Option<&str>) -> Vec<u8> {
    let mut parts = Vec::new();
    for (tag, text) in [(0x80, Some(user)), (0x81, old), (0x82, new)] {
        if let Some(text) = text {
            parts.extend([tag, u8::try_from(text.len()).unwrap()]);
            parts.extend(text.as_bytes());
        }
    }
    let mut value = vec![0x30, u8::try_from(parts.len()).unwrap()];
    value.extend(parts);
    value
}

#[test]
fn passwords_are_changed_and_hashed_where_it_is_decided() {
    let slow = |options: &mut directory::DirectoryOptions| {
        options.passwords.storage = auth::password::Scheme::Pbkdf2Sha256.into();
    };
    let cluster = Cluster::with(2, slow);
    let mut root = cluster.follower().root();
    let anna = person(&mut root, "anna");
    assert_eq!(root.connection.hashes, 0, "nothing is hashed here");
    let mut client = cluster.follower().client();
    assert_eq!(client.bind(&anna, "secret"), ResultCode::Success);
    let hashes = client.connection.hashes;
    let change = |client: &mut Client, old: &str, new: Option<&str>| {
        client.extended(PASSWORD_MODIFY, Some(&password_modify(&anna, Some(old), new)))
    };
    let wrong = change(&mut client, "wrong", Some("better secret"));
    assert_eq!(wrong.code(), ResultCode::InvalidCredentials);
    assert!(client.connection.completion.as_ref().unwrap().is_wrong_guess);
    let right = change(&mut client, "secret", Some("better secret"));
    assert_eq!(right.code(), ResultCode::Success, "{}", right.diagnostic);
    assert_eq!(client.connection.hashes, hashes);
    assert_eq!(client.bind(&anna, "better secret"), ResultCode::Success);
    // One that is made up is told, also when its answer was lost once.
    cluster.wire.fail([Fault::LoseAnswer]);
    let made = change(&mut client, "better secret", None);
    let value = made.value.unwrap();
    let made = str::from_utf8(&value[4..]).unwrap();
    assert_eq!(client.bind(&anna, made), ResultCode::Success);
}

const PRE_READ: &str = "1.3.6.1.1.13.1";
const POST_READ: &str = "1.3.6.1.1.13.2";
const ASSERTION: &str = "1.3.6.1.1.12";
const NO_OP: &str = "1.3.6.1.4.1.4203.1.10.2";
const PROXIED: &str = "2.16.840.1.113730.3.4.18";

fn modify_with(client: &mut Client, name: &str, value: &str, controls: &[(&str, &[u8])]) -> Answer {
    let changes = modifications(&[(ModifyOperation::Replace, "description", &[value])]);
    let mut list = ControlsBuf::new();
    for (oid, value) in controls {
        let value = (!value.is_empty()).then_some(*value);
        list.push(Control { oid, critical: true, value });
    }
    let modify = ModifyRequest { name, changes: changes.as_ref() };
    client.request(Request::Modify(modify), list.as_ref())
}

#[test]
fn controls_have_the_effect_that_they_have_there() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    let (a, anna) = (ou("a"), person(&mut client, "anna"));
    assert_eq!(client.add(&a, UNIT), ResultCode::Success);
    let selection = [&[0x30, 13, 4, 11][..], b"description"].concat();
    let read: &[(&str, &[u8])] = &[(PRE_READ, &selection), (POST_READ, &selection)];
    assert_eq!(modify_with(&mut client, &a, "one", read).controls.len(), 2);
    // The answer that was lost is told.
    cluster.wire.fail([Fault::LoseAnswer]);
    let again = modify_with(&mut client, &a, "two", read);
    let tells = |text: &[u8]| again.controls.iter().any(|(_, value)| value.ends_with(text));
    assert!(again.controls.len() == 2 && tells(b"one") && tells(b"two"), "{again:?}");
    // (description=one)
    let assertion = [&[0xa3, 18, 4, 11][..], b"description", &[4, 3], b"one"].concat();
    let refused = modify_with(&mut client, &a, "three", &[(ASSERTION, &assertion)]);
    assert_eq!(refused.code(), ResultCode::AssertionFailed);
    let nothing = modify_with(&mut client, &a, "three", &[(NO_OP, b"")]);
    assert_eq!(nothing.code(), ResultCode::NoOperation);
    assert_eq!(description(cluster.follower(), &a), ["two"]);
    let proxied = format!("dn:{anna}");
    let denied = modify_with(&mut client, &a, "three", &[(PROXIED, proxied.as_bytes())]);
    assert_eq!(denied.code(), ResultCode::InsufficientAccessRights);
    let own = modify_with(&mut client, &a, "three", &[(PROXIED, b"dn:cn=Directory Manager")]);
    assert_eq!(own.code(), ResultCode::Success);
    assert_eq!(last_record(&cluster).origin.who.authz, "dn:cn=Directory Manager");
}

#[test]
fn a_node_of_another_version_carries_nothing_out_and_is_no_fault_of_the_client() {
    let cluster = Cluster::new();
    cluster.wire.is_other_version.store(true, Ordering::SeqCst);
    let before = cluster.log.len();
    let answer = cluster.follower().root().try_add(&ou("a"), UNIT);
    assert_eq!(answer.code(), ResultCode::Unavailable, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains("different versions"), "{}", answer.diagnostic);
    assert_eq!((cluster.log.len(), cluster.wire.count()), (before, 1), "once, for nothing");
    cluster.wire.is_other_version.store(false, Ordering::SeqCst);
    assert_eq!(cluster.follower().root().add(&ou("a"), UNIT), ResultCode::Success);
}

/// Does what `ask` asks of the second node: it is carried out by the first, whose answer is lost,
/// and told by the third, after what `meanwhile` does.
fn told_by_another(
    cluster: &Cluster,
    ask: impl FnOnce(&mut Client) -> Answer + Send,
    meanwhile: impl FnOnce(),
) -> Answer {
    let (lost, before) = (std::iter::once(Fault::LoseAnswer), cluster.log.len());
    cluster.wire.fail(lost.chain(std::iter::repeat_n(Fault::NotSent, 10_000)));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&mut cluster.follower().root()));
        while cluster.log.len() == before {
            std::thread::yield_now();
        }
        cluster.lead(Some(2));
        meanwhile();
        cluster.wire.mend();
        asked.join().unwrap()
    })
}

#[test]
fn what_was_carried_out_is_told_by_a_node_that_is_full() {
    let space = Arc::new(SetSpace(AtomicU64::new(1 << 40)));
    let told = Arc::clone(&space);
    let cluster = Cluster::with(3, |options| {
        let told: Arc<dyn directory::DiskSpace> = Arc::clone(&told) as _;
        options.space = Some(told);
    });
    let tree = ou("tree");
    let mut root = cluster.leader().root();
    assert_eq!(root.add(&tree, UNIT), ResultCode::Success);
    assert_eq!(root.add(&format!("ou=below,{tree}"), UNIT), ResultCode::Success);
    let delete = |client: &mut Client| {
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
        client.request(Request::Delete(DeleteRequest { name: &tree }), controls.as_ref())
    };
    let answer = told_by_another(&cluster, delete, || space.0.store(0, Ordering::SeqCst));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let refused = cluster.follower().root().try_add(&tree, UNIT);
    assert_eq!(refused.code(), ResultCode::UnwillingToPerform, "{}", refused.diagnostic);
}

#[test]
fn what_an_entry_is_after_a_change_is_told_again_as_long_as_it_is_that() {
    let selection = [&[0x30, 13, 4, 11][..], b"description"].concat();
    let cluster = || {
        let cluster = Cluster::with(3, |_| {});
        assert_eq!(cluster.leader().root().add(&ou("a"), UNIT), ResultCode::Success);
        cluster
    };
    let one = |controls: &'static [&'static str]| {
        let selection = &selection;
        move |client: &mut Client| {
            let controls: Vec<_> = controls.iter().map(|oid| (*oid, &selection[..])).collect();
            modify_with(client, &ou("a"), "one", &controls)
        }
    };
    let told = told_by_another(&cluster(), one(&[POST_READ]), || {});
    assert_eq!(told.code(), ResultCode::Success, "{}", told.diagnostic);
    let [(oid, value)] = &told.controls[..] else { panic!("{told:?}") };
    assert!(oid == POST_READ && value.ends_with(b"one"));
    let lost = |answer: Answer| {
        assert_eq!(answer.code(), ResultCode::Other);
        assert!(answer.diagnostic.contains("the change was made"), "{}", answer.diagnostic);
    };
    let changed = cluster();
    let another = || {
        let mut root = changed.nodes[2].root();
        assert_eq!(modify_with(&mut root, &ou("a"), "two", &[]).code(), ResultCode::Success);
    };
    lost(told_by_another(&changed, one(&[POST_READ]), another));
    for controls in [&[PRE_READ][..], &[PRE_READ, POST_READ]] {
        lost(told_by_another(&cluster(), one(controls), || {}));
    }
    let plain = told_by_another(&cluster(), one(&[]), || {});
    assert_eq!(plain.code(), ResultCode::Success);
    // A deletion, and an update of a transaction.
    let delete = |client: &mut Client| {
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: PRE_READ, critical: true, value: Some(&selection) });
        client.request(Request::Delete(DeleteRequest { name: &ou("a") }), controls.as_ref())
    };
    lost(told_by_another(&cluster(), delete, || {}));
    let transaction = |client: &mut Client| {
        let transaction = begin(client);
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: PRE_READ, critical: true, value: Some(&selection) });
        controls.push(Control { oid: SPECIFICATION, critical: true, value: Some(&transaction) });
        let delete = DeleteRequest { name: &ou("a") };
        let answer = client.request(Request::Delete(delete), controls.as_ref());
        assert_eq!(answer.code(), ResultCode::Success);
        end(client, &transaction)
    };
    lost(told_by_another(&cluster(), transaction, || {}));
}

#[test]
fn the_deletion_of_a_tree_goes_on_at_the_next_leader() {
    for (is_committed, after) in [(true, 0), (false, 1), (true, 1), (false, 0), (true, 2)] {
        let cluster = Cluster::with(3, |_| {});
        let mut root = cluster.leader().root();
        assert_eq!(root.add(&ou("tree"), UNIT), ResultCode::Success);
        // More than two steps.
        let names = (0..2_100).map(|number| format!("ou={number},{}", ou("tree")));
        let answers: Vec<_> = names.map(|name| submit_unit(&mut root, &name)).collect();
        answers.iter().for_each(|answer| assert_eq!(code(answer), ResultCode::Success));
        let mut client = cluster.nodes[1].root();
        cluster.log.lose(Loses { is_committed, is_late: None, after, to: 2 });
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
        let name = &ou("tree");
        let answer = client.request(Request::Delete(DeleteRequest { name }), controls.as_ref());
        assert_eq!(answer.code(), ResultCode::Success, "{is_committed} {after}");
        cluster.log.wait_until_lost();
        cluster.log.hold(0, false);
        for served in &cluster.nodes {
            let below = Asked { base: SUFFIX, filter: "(ou=*)", ..Asked::default() };
            assert_eq!(served.root().search(&below).entries.len(), 0);
        }
        assert_eq!(cluster.nodes[1].root().add(&ou("tree"), UNIT), ResultCode::Success);
    }
}

#[test]
fn a_session_that_is_not_what_it_was_is_refused() {
    let cluster = Cluster::new();
    let mut root = cluster.leader().root();
    let anna = person(&mut root, "anna");
    let mut client = cluster.follower().client();
    assert_eq!(client.bind(&anna, "secret"), ResultCode::Success);
    // This node does not know yet.
    cluster.log.hold(1, true);
    assert_eq!(root.delete(&anna), ResultCode::Success);
    let changes = modifications(&[(ModifyOperation::Replace, "description", &["x"])]);
    let modify = ModifyRequest { name: &anna, changes: changes.as_ref() };
    let answer = submit(&mut client, Request::Modify(modify));
    cluster.log.hold(1, false);
    assert_eq!(code(&answer), ResultCode::InsufficientAccessRights);
}

#[test]
fn what_is_no_update_is_not_carried_out_for_another_node() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Success);
    let sent = cluster.wire.requests.lock().unwrap()[0].clone();
    for cut in 0..sent.len() {
        let (sender, receiver) = channel();
        let answer = move |octets: Vec<u8>| sender.send(octets).unwrap();
        assert!(cluster.wire.send(sent[..cut].to_vec(), Box::new(answer)));
        assert!(matches!(receiver.recv().unwrap()[2], 4), "it is refused");
    }
}

/// The entry, with ACIs that the leader sets before any other node is asked.
fn with_acis(cluster: &Cluster, name: &str, acis: &[&str]) {
    let changes: &[(ModifyOperation, &str, &[&str])] = &[(ModifyOperation::Replace, "aci", acis)];
    assert_eq!(cluster.leader().root().modify(name, changes), ResultCode::Success);
}

#[test]
fn access_rules_ask_for_the_connection_of_the_client() {
    let cluster = Cluster::with(2, |options| {
        options.authentication.confidentiality = directory::Confidentiality::Never;
    });
    let anna = person(&mut cluster.leader().root(), "anna");
    let (near, plain) = (ou("near"), ou("plain"));
    for name in [&near, &plain] {
        assert_eq!(cluster.leader().root().add(name, UNIT), ResultCode::Success);
    }
    let of = |rule: &str| {
        format!(
            "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (all) userdn=\"ldap:///self || \
                 ldap:///anyone\" and {rule};)"
        )
    };
    with_acis(&cluster, &near, &[&of("ip=\"192.0.2.7\"")]);
    with_acis(&cluster, &plain, &[&of("authmethod=\"simple\" and ssf<=\"0\"")]);
    let client_at = |address: &str| {
        let peer = Peer {
            address: format!("{address}:1000"),
            ip: Some(address.parse().unwrap()),
            ..Peer::default()
        };
        cluster.follower().client_from(peer)
    };
    let change = |client: &mut Client, name: &str| modify_with(client, name, "changed", &[]).code();
    let mut client = client_at("192.0.2.7");
    assert_eq!(change(&mut client, &near), ResultCode::Success);
    assert_eq!(last_record(&cluster).origin.who.address, "192.0.2.7:1000");
    assert_eq!(change(&mut client, &plain), ResultCode::InsufficientAccessRights);
    let mut client = client_at("192.0.2.8");
    assert_eq!(change(&mut client, &near), ResultCode::InsufficientAccessRights);
    assert_eq!(client.bind(&anna, "secret"), ResultCode::Success);
    assert_eq!(change(&mut client, &plain), ResultCode::Success);
    let record = last_record(&cluster);
    assert_eq!((&*record.origin.who.dn, &*record.origin.who.mechanism), (&*anna, "simple"));
    client.connection.session.set_tls(Tls { strength_bits: 256, ..Tls::default() });
    assert_eq!(change(&mut client, &plain), ResultCode::InsufficientAccessRights);
}

#[test]
fn what_binds_leave_is_written_by_the_node_that_decides() {
    let cluster = Cluster::with(2, |options| options.password_policy.last_login = true);
    let anna = person(&mut cluster.leader().root(), "anna");
    assert_eq!(cluster.follower().client().bind(&anna, "secret"), ResultCode::Success);
    // A shutdown waits for it.
    cluster.follower().directory.shutdown();
    let asked = Asked {
        base: &anna,
        scope: Scope::Base,
        attributes: &["pwdLastSuccess"],
        ..Asked::default()
    };
    let found = cluster.leader().root().search(&asked);
    assert_eq!(found.entries[0].texts("pwdLastSuccess").len(), 1, "{found:?}");
    assert_eq!(last_record(&cluster).origin.op, OpKind::Internal);
}

#[test]
fn whoever_must_change_a_password_does_so_through_any_node() {
    let anna = format!("uid=anna,{SUFFIX}");
    let fill = |served: &Served| {
        let mut root = served.root();
        assert_eq!(person(&mut root, "anna"), anna);
        let policy: &[(&str, &[&str])] = &[
            ("objectClass", &["subentry", "pwdPolicy"]),
            ("cn", &["policy"]),
            ("subtreeSpecification", &["{}"]),
            ("pwdAttribute", &["userPassword"]),
            ("pwdMustChange", &["TRUE"]),
        ];
        let answer = root.try_add(&format!("cn=policy,{SUFFIX}"), policy);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        let changes = modifications(&[(ModifyOperation::Replace, "pwdReset", &["TRUE"])]);
        let modify = ModifyRequest { name: &anna, changes: changes.as_ref() };
        let mut relax = ControlsBuf::new();
        relax.push(Control { oid: "1.3.6.1.4.1.4203.666.5.12", critical: true, value: None });
        let answer = root.request(Request::Modify(modify), relax.as_ref());
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    };
    let cluster = Cluster::filled(2, fill, |_| {});
    let mut client = cluster.follower().client();
    assert_eq!(client.bind(&anna, "secret"), ResultCode::Success);
    assert_eq!(client.delete(&anna), ResultCode::InsufficientAccessRights);
    assert_eq!(cluster.wire.count(), 0, "it is refused here");
    let value = password_modify(&anna, Some("secret"), Some("a better secret"));
    let changed = client.extended(PASSWORD_MODIFY, Some(&value));
    assert_eq!(changed.code(), ResultCode::Success, "{}", changed.diagnostic);
    assert_eq!(client.bind(&anna, "a better secret"), ResultCode::Success);
    assert_eq!(cluster.follower().root().delete(&anna), ResultCode::Success);
}
