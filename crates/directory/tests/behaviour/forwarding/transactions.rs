//! Transactions on a node that does not decide.

use super::*;

const START: &str = "1.3.6.1.1.21.1";
pub(super) const SPECIFICATION: &str = "1.3.6.1.1.21.2";
const END: &str = "1.3.6.1.1.21.3";

pub(super) fn begin(client: &mut Client) -> Vec<u8> {
    client.extended(START, None).value.unwrap()
}

fn delete_in(client: &mut Client, transaction: &[u8], name: &str) -> ResultCode {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: SPECIFICATION, critical: true, value: Some(transaction) });
    client.request(Request::Delete(DeleteRequest { name }), controls.as_ref()).code()
}

pub(super) fn end(client: &mut Client, transaction: &[u8]) -> Answer {
    let length = u8::try_from(transaction.len()).unwrap();
    let value = [&[0x30, 2 + length, 4, length], transaction].concat();
    client.extended(END, Some(&value))
}

#[test]
fn transactions_are_one_request() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    for name in ["a", "b", "c"] {
        assert_eq!(client.add(&ou(name), UNIT), ResultCode::Success);
    }
    let transaction = begin(&mut client);
    assert_eq!(delete_in(&mut client, &transaction, &ou("a")), ResultCode::Success);
    assert_eq!(delete_in(&mut client, &transaction, &ou("missing")), ResultCode::Success);
    let refused = end(&mut client, &transaction);
    assert_eq!(refused.code(), ResultCode::NoSuchObject, "{}", refused.diagnostic);
    assert!(exists(cluster.follower(), &ou("a")), "all or nothing");
    let transaction = begin(&mut client);
    assert_eq!(delete_in(&mut client, &transaction, &ou("a")), ResultCode::Success);
    assert_eq!(delete_in(&mut client, &transaction, &ou("b")), ResultCode::Success);
    let before = cluster.log.len();
    cluster.wire.fail([Fault::LoseAnswer]);
    assert_eq!(end(&mut client, &transaction).code(), ResultCode::Success);
    assert_eq!(cluster.log.len(), before + 1);
    assert!(!exists(cluster.follower(), &ou("a")) && !exists(cluster.leader(), &ou("b")));
    assert_eq!(last_record(&cluster).origin.op, OpKind::Transaction);
}

/// The node that was asked made up one, and the one that decided another.
#[test]
fn a_password_that_is_made_up_in_a_transaction_is_the_one_that_is_told() {
    for asks_leader in [false, true] {
        let cluster = Cluster::new();
        let anna = person(&mut cluster.leader().root(), "anna");
        let asked = if asks_leader { cluster.leader() } else { cluster.follower() };
        let mut client = asked.client();
        assert_eq!(client.bind(&anna, "secret"), ResultCode::Success);
        let transaction = begin(&mut client);
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: SPECIFICATION, critical: true, value: Some(&transaction) });
        let value = password_modify(&anna, Some("secret"), None);
        let request = ExtendedRequest { oid: PASSWORD_MODIFY, value: Some(&value) };
        let answer = client.request(Request::Extended(request), controls.as_ref());
        let value = answer.value.unwrap();
        let made = str::from_utf8(&value[4..]).unwrap();
        if asks_leader {
            cluster.lead(Some(1));
        }
        let ended = end(&mut client, &transaction);
        assert_eq!(ended.code(), ResultCode::Success, "{}", ended.diagnostic);
        assert_eq!(cluster.leader().client().bind(&anna, made), ResultCode::Success);
    }
}

#[test]
fn a_transaction_goes_on_when_the_leader_is_lost() {
    for is_committed in [true, false] {
        let cluster = Cluster::with(3, |_| {});
        let mut client = cluster.leader().root();
        assert_eq!(client.add(&ou("a"), UNIT), ResultCode::Success);
        assert_eq!(client.add(&ou("b"), UNIT), ResultCode::Success);
        let transaction = begin(&mut client);
        assert_eq!(delete_in(&mut client, &transaction, &ou("a")), ResultCode::Success);
        assert_eq!(delete_in(&mut client, &transaction, &ou("b")), ResultCode::Success);
        cluster.log.lose(Loses { is_committed, is_late: None, after: 0, to: 2 });
        assert_eq!(end(&mut client, &transaction).code(), ResultCode::Success);
        assert_eq!(cluster.log.len(), 3);
        assert!(!exists(&cluster.nodes[2], &ou("a")) && !exists(&cluster.nodes[2], &ou("b")));
    }
}
