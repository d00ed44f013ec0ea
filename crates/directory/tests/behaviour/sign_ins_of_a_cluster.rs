//! Failures and successes of sign-ins at several nodes: each counts at once where it happens, and
//! all of them come together where it is decided, in whatever order they come.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use directory::DirectoryOptions;
use history::record::{OpKind, Record};
use ldap::control_value::policy_state::{self, PolicyState, StateOperation, operation};
use ldap::message::{Control, ControlsBuf, ModifyOperation, ModifyRequest, Request, Scope};
use ldap::result::ResultCode;

use crate::support::cluster::{Cluster, Fault, Loses};
use crate::support::{Asked, SUFFIX, Served, modifications};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const OK: ResultCode = ResultCode::Success;
const NO: ResultCode = ResultCode::InvalidCredentials;
const SOON: Duration = Duration::from_millis(10);
const NEVER: Duration = Duration::from_secs(100_000);
const SECOND: Duration = Duration::from_secs(1);

/// Nodes with Anna and a lock after so many failures; each hands on what binds leave after such a
/// delay, and its clock is a millisecond ahead of the one before.
fn with(
    failures_max: &str,
    delays: &[Duration],
    adjust: impl Fn(&mut DirectoryOptions),
) -> Cluster {
    let fill = |served: &Served| {
        let mut root = served.root();
        let person: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["x"]),
            ("sn", &["x"]),
            ("userPassword", &["right"]),
        ];
        assert_eq!(root.add(ANNA, person), OK);
        let policy: &[(&str, &[&str])] = &[
            ("objectClass", &["top", "subentry", "pwdPolicy"]),
            ("subtreeSpecification", &["{}"]),
            ("pwdAttribute", &["userPassword"]),
            ("pwdLockout", &["TRUE"]),
            ("pwdMaxFailure", &[failures_max]),
        ];
        assert_eq!(root.add(&format!("cn=policy,{SUFFIX}"), policy), OK);
    };
    let next = Cell::new(0);
    let cluster = Cluster::filled(delays.len(), fill, |options| {
        options.password_policy.state_delay = delays[next.replace(next.get() + 1)];
        adjust(options);
    });
    for (node, ahead) in cluster.nodes.iter().zip(1..) {
        node.clock.advance(Duration::from_millis(ahead));
    }
    cluster
}

fn values(served: &Served, name: &str) -> Vec<String> {
    let asked = Asked { base: ANNA, scope: Scope::Base, attributes: &[name], ..Asked::default() };
    served.root().search(&asked).entries[0].texts(name)
}

/// How many failures a node knows of, written or not.
fn known_failures(served: &Served) -> usize {
    let asks = StateOperation { number: operation::FAILURES, values: Vec::new() };
    let value = PolicyState { target: ANNA.into(), operations: vec![asks] }.encode();
    let answer = served.root().extended(policy_state::OID, Some(&value));
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    let state = PolicyState::decode(answer.value.as_deref().unwrap()).unwrap();
    state.operations.iter().map(|one| one.values.len()).sum()
}

fn wait_until_known(served: &Served, failures: usize) {
    wait_until("they are not known", || known_failures(served) == failures);
}

/// How many records there are of what binds have left.
fn records(cluster: &Cluster) -> usize {
    let schema = cluster.leader().directory.store().schema();
    let records = cluster.log.records();
    let kinds = records.iter().map(|one| Record::decode(&one.bytes, &schema).unwrap().origin.op);
    kinds.filter(|kind| *kind == OpKind::Internal).count()
}

fn guess(served: &Served, times: usize) {
    for _ in 0..times {
        assert_eq!(served.client().bind(ANNA, "wrong"), NO);
    }
}

/// Waits until it is so; what is not within a minute never is.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("{what}");
}

fn wait_until_locked(cluster: &Cluster) {
    for node in &cluster.nodes {
        wait_until("it is not locked", || !values(node, "pwdAccountLockedTime").is_empty());
        assert_eq!(node.client().bind(ANNA, "right"), NO);
    }
}

fn unlock(served: &Served) {
    let none: &[&str] = &[];
    let changes = ["pwdAccountLockedTime", "pwdFailureTime"]
        .map(|name| (ModifyOperation::Replace, name, none));
    let changes = modifications(&changes);
    let modify = ModifyRequest { name: ANNA, changes: changes.as_ref() };
    let mut relax = ControlsBuf::new();
    relax.push(Control { oid: "1.3.6.1.4.1.4203.666.5.12", critical: true, value: None });
    let answer = served.root().request(Request::Modify(modify), relax.as_ref());
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
}

#[test]
fn failures_at_several_nodes_lock_the_account_at_all() {
    let cluster = with("5", &[SOON; 3], |_| {});
    for (node, times) in cluster.nodes.iter().zip([1, 2, 2]) {
        guess(node, times);
    }
    wait_until_locked(&cluster);
}

#[test]
fn a_node_counts_its_failures_at_once_and_no_node_answers_more_than_the_policy_allows() {
    let cluster = with("3", &[NEVER; 3], |_| {});
    cluster.lead(None);
    for node in &cluster.nodes {
        guess(node, 2);
        assert!(values(node, "pwdFailureTime").is_empty(), "nobody decides");
        guess(node, 1);
        assert_eq!(node.client().bind(ANNA, "right"), NO);
    }
}

#[test]
fn failures_without_a_leader_are_added_up_when_there_is_one() {
    let cluster = with("4", &[SOON; 3], |_| {});
    cluster.lead(None);
    guess(&cluster.nodes[1], 2);
    guess(&cluster.nodes[2], 2);
    wait_until("they wait", || cluster.wire.count() > 0);
    cluster.lead(Some(0));
    wait_until_locked(&cluster);
    assert_eq!(values(cluster.leader(), "pwdFailureTime").len(), 4);
}

#[test]
fn failures_before_a_success_at_another_node_are_cleared_although_they_come_later() {
    let cluster = with("5", &[SOON, NEVER], |_| {});
    guess(cluster.follower(), 2);
    cluster.leader().clock.advance(SECOND);
    guess(cluster.leader(), 1);
    assert_eq!(cluster.leader().client().bind(ANNA, "right"), OK);
    wait_until("it is noted", || !values(cluster.leader(), "pwdLastSuccess").is_empty());
    cluster.follower().directory.shutdown();
    assert!(values(cluster.leader(), "pwdFailureTime").is_empty());
}

#[test]
fn failures_after_a_success_at_another_node_stay_although_it_comes_later() {
    let cluster = with("5", &[NEVER; 3], |_| {});
    let [_, one, other] = &cluster.nodes[..] else { panic!("they are three") };
    guess(one, 1);
    assert_eq!(one.client().bind(ANNA, "right"), OK);
    other.clock.advance(SECOND);
    guess(other, 2);
    let noted = |served: &Served| {
        served.directory.shutdown();
        values(cluster.leader(), "pwdFailureTime")
    };
    let failures = noted(other);
    assert_eq!(failures.len(), 2);
    assert_eq!(noted(one), failures);
    assert_eq!(values(cluster.leader(), "pwdLastSuccess").len(), 1);
}

#[test]
fn what_was_noted_at_another_node_before_an_administrator_unlocked_counts_no_more() {
    let cluster = with("3", &[SOON, NEVER], |_| {});
    guess(cluster.follower(), 2);
    guess(cluster.leader(), 3);
    wait_until_locked(&cluster);
    cluster.leader().clock.advance(SECOND);
    unlock(cluster.leader());
    // What comes after it does, on a clock that is behind as well.
    guess(cluster.follower(), 1);
    cluster.follower().directory.shutdown();
    assert_eq!(values(cluster.leader(), "pwdFailureTime").len(), 1);
}

#[test]
fn what_was_sent_before_an_administrator_unlocked_counts_no_more_when_it_comes() {
    let cluster = with("3", &[SOON; 2], |_| {});
    cluster.wire.fail([Fault::NotSent; 1_000]);
    guess(cluster.follower(), 2);
    wait_until("they are sent", || cluster.wire.count() > 0);
    guess(cluster.leader(), 3);
    wait_until_locked(&cluster);
    cluster.leader().clock.advance(SECOND);
    unlock(cluster.leader());
    cluster.wire.mend();
    cluster.follower().directory.shutdown();
    assert!(values(cluster.leader(), "pwdFailureTime").is_empty());
    assert_eq!(cluster.leader().client().bind(ANNA, "right"), OK);
}

#[test]
fn what_is_sent_again_because_nobody_knows_counts_once() {
    let adjust = |options: &mut DirectoryOptions| options.limits.forward_wait_max = Duration::ZERO;
    let cluster = with("5", &[NEVER; 2], adjust);
    cluster.wire.fail([Fault::LoseAnswer]);
    guess(cluster.follower(), 2);
    cluster.follower().directory.shutdown();
    assert!(cluster.wire.count() > 1, "it was sent again");
    assert_eq!(values(cluster.leader(), "pwdFailureTime").len(), 2);
}

#[test]
fn failures_in_a_record_that_never_comes_still_count() {
    let cluster = with("3", &[SOON, NEVER], |_| {});
    cluster.log.silence(true);
    cluster.log.lose(Loses { is_committed: false, is_late: None, after: 0, to: 1 });
    cluster.wire.fail([Fault::NotSent; 10_000]);
    guess(cluster.leader(), 2);
    wait_until("it is lost", || cluster.log.leader() == Some(1));
    // A record that has its number.
    let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
    for name in ["one", "two", "three"] {
        assert_eq!(cluster.nodes[1].root().add(&format!("ou={name},{SUFFIX}"), unit), OK);
    }
    cluster.log.silence(false);
    cluster.log.wait_until_lost();
    guess(cluster.leader(), 1);
    assert_eq!(cluster.leader().client().bind(ANNA, "right"), NO);
}

#[test]
fn what_is_told_by_several_nodes_counts_at_once_and_costs_one_record() {
    let cluster = with("20", &[NEVER, SOON, SOON], |_| {});
    let [leader, one, other] = &cluster.nodes[..] else { panic!("they are three") };
    guess(leader, 2);
    guess(one, 2);
    wait_until_known(leader, 4);
    guess(other, 2);
    wait_until_known(leader, 6);
    // What a node has told does not hold back what comes after it.
    guess(one, 1);
    wait_until_known(leader, 7);
    assert_eq!((records(&cluster), values(leader, "pwdFailureTime").len()), (0, 0));
    leader.directory.shutdown();
    assert_eq!((records(&cluster), values(leader, "pwdFailureTime").len()), (1, 7));
    for node in [one, other] {
        wait_until_known(node, 7);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the delay of the thread that writes is real time")]
fn an_account_that_is_guessed_at_everywhere_costs_a_record_in_each_delay() {
    let delay = Duration::from_millis(200);
    let cluster = with("100000", &[delay, SOON, SOON], |_| {});
    let begin = Instant::now();
    for round in 1..=5 {
        for _ in 0..3 {
            cluster.nodes.iter().for_each(|node| guess(node, 1));
            thread::park_timeout(Duration::from_millis(20));
        }
        wait_until("there is no record", || records(&cluster) >= round);
    }
    // A slow machine only makes them fewer.
    assert!(begin.elapsed() >= 5 * delay, "more than one record in a delay");
    for node in &cluster.nodes {
        wait_until_known(node, 5 * 3 * 3);
    }
}

#[test]
fn failures_told_by_several_nodes_lock_the_account_at_once() {
    let cluster = with("4", &[NEVER, SOON, SOON], |_| {});
    let [leader, one, other] = &cluster.nodes[..] else { panic!("they are three") };
    guess(one, 2);
    wait_until_known(leader, 2);
    guess(other, 1);
    wait_until_known(leader, 3);
    assert_eq!(records(&cluster), 0);
    guess(other, 1);
    wait_until_locked(&cluster);
    assert_eq!((records(&cluster), values(leader, "pwdFailureTime").len()), (1, 4));
}

#[test]
fn a_lock_is_handed_on_at_once_although_what_was_told_before_is_not_written() {
    let cluster = with("3", &[NEVER, SOON], |_| {});
    guess(cluster.follower(), 2);
    wait_until_known(cluster.leader(), 2);
    assert_eq!(records(&cluster), 0);
    guess(cluster.follower(), 1);
    wait_until_locked(&cluster);
    assert_eq!(values(cluster.leader(), "pwdFailureTime").len(), 3);
}

#[test]
fn what_was_told_to_a_leader_that_lost_the_lead_is_told_to_the_next_one() {
    let cluster = with("3", &[NEVER, SOON, NEVER], |_| {});
    let [first, teller, second] = &cluster.nodes[..] else { panic!("they are three") };
    guess(teller, 2);
    wait_until_known(first, 2);
    cluster.lead(Some(2));
    wait_until_known(second, 2);
    // It is not the matter of the one before any more.
    wait_until_known(first, 0);
    guess(second, 1);
    wait_until_locked(&cluster);
    assert_eq!((records(&cluster), values(second, "pwdFailureTime").len()), (1, 3));
}

#[test]
fn what_was_told_to_a_leader_whose_record_nobody_knows_of_counts_once() {
    for is_committed in [true, false] {
        let cluster = with("3", &[NEVER, SOON, NEVER], |_| {});
        let [first, teller, second] = &cluster.nodes[..] else { panic!("they are three") };
        guess(teller, 2);
        wait_until_known(first, 2);
        cluster.log.lose(Loses { is_committed, is_late: None, after: 0, to: 2 });
        guess(first, 1);
        cluster.log.wait_until_lost();
        wait_until_locked(&cluster);
        // Nobody remembers anything any more that the leader does not know.
        [teller, first].into_iter().for_each(|node| node.directory.shutdown());
        assert_eq!(values(second, "pwdFailureTime").len(), 3);
        assert!(records(&cluster) == 1 || !is_committed, "it is there already");
    }
}

#[test]
fn what_finds_no_room_at_the_leader_stays_where_it_is_and_is_told_later() {
    let next = Cell::new(0);
    let cluster = with("4", &[NEVER, SOON, NEVER], |options| {
        // The first one has no room for what others tell.
        if next.replace(next.get() + 1) == 0 {
            options.password_policy.accounts_max = 0;
        }
    });
    let [first, teller, second] = &cluster.nodes[..] else { panic!("they are three") };
    guess(teller, 2);
    wait_until("it is told again", || cluster.wire.count() > 3);
    assert_eq!((known_failures(first), known_failures(teller)), (0, 2));
    guess(teller, 1);
    cluster.lead(Some(2));
    wait_until_known(second, 3);
    guess(second, 1);
    wait_until_locked(&cluster);
    assert_eq!(values(second, "pwdFailureTime").len(), 4);
}
