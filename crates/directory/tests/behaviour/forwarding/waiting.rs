//! How long updates wait that are handed on, and how many are on their way.

use super::*;

/// Its time began when it came: those at the end of a long line were refused, though the one that
/// decides was well.
#[test]
fn an_update_waits_as_long_as_those_before_it_are_answered() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.wire.fail([Fault::Keep; 4]);
    let answers = ["a", "b", "c", "d"].map(|name| submit_unit(&mut client, &ou(name)));
    for answer in &answers {
        assert_eq!(cluster.wire.kept_within(), Duration::from_secs(10));
        cluster.follower().clock.advance(Duration::from_secs(6));
        cluster.wire.let_go(true);
        assert_eq!(code(answer), ResultCode::Success);
    }
    // Also behind one that its client has given up.
    cluster.wire.fail([Fault::Keep; 2]);
    let first = submit_unit(&mut client, &ou("e"));
    let name = &ou("a");
    let given_up =
        start_with(&mut client, Request::Delete(DeleteRequest { name }), Controls::EMPTY);
    let id = given_up.id();
    given_up.submit(Box::new(|_| {}));
    let last = submit_unit(&mut client, &ou("f"));
    client.request(Request::Abandon(id), Controls::EMPTY);
    cluster.wire.kept_within();
    cluster.follower().clock.advance(Duration::from_secs(9));
    cluster.wire.let_go(true);
    assert_eq!(code(&first), ResultCode::Success);
    assert_eq!(cluster.wire.kept_within(), Duration::from_secs(10));
    cluster.wire.let_go(true);
    assert_eq!(code(&last), ResultCode::Success);
    assert!(exists(cluster.leader(), &ou("a")), "it was not sent");
}

/// All share one way to the node that decides: whoever filled it had everybody wait.
#[test]
fn one_who_asks_on_many_connections_leaves_room_on_the_way_to_others() {
    const ON_THE_WAY: usize = 512;
    let cluster = Cluster::new();
    let anna = person(&mut cluster.leader().root(), "anna");
    cluster.wire.fail(vec![Fault::Keep; ON_THE_WAY + 2]);
    let mut clients: Vec<_> = (0..ON_THE_WAY + 2).map(|_| cluster.follower().root()).collect();
    let names: Vec<_> = (0..clients.len()).map(|number| ou(&number.to_string())).collect();
    let answers: Vec<_> =
        clients.iter_mut().zip(&names).map(|(client, name)| submit_unit(client, name)).collect();
    assert_eq!(cluster.wire.count(), ON_THE_WAY);
    let mut other = cluster.follower().client();
    other.bind(&anna, "secret");
    let waiting = submit_unit(&mut other, &ou("other"));
    assert_eq!(cluster.wire.count(), ON_THE_WAY + 1);
    // What waits for room waits for answers: it has all of its time when it leaves.
    cluster.follower().clock.advance(Duration::from_secs(9));
    cluster.wire.let_go(true);
    assert_eq!(code(&answers[0]), ResultCode::Success);
    while cluster.wire.count() < ON_THE_WAY + 2 {
        std::thread::yield_now();
    }
    assert_eq!(cluster.wire.last_kept_within(), Duration::from_secs(10));
    // Nobody decides: what waits still is refused with the others, and was not sent.
    cluster.follower().clock.advance(Duration::from_secs(1));
    for _ in 1..ON_THE_WAY + 1 {
        cluster.wire.let_go(false);
    }
    assert!(answers[1..ON_THE_WAY].iter().all(|one| code(one) == ResultCode::Other));
    assert_eq!(code(&answers[ON_THE_WAY + 1]), ResultCode::Unavailable);
    assert_eq!(code(&waiting), ResultCode::Other);
    assert_eq!(cluster.wire.count(), ON_THE_WAY + 2);
}

#[test]
fn of_a_line_whose_first_is_never_answered_none_waits_longer_than_that_one() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.wire.fail([Fault::Keep; 2]);
    let first = submit_unit(&mut client, &ou("a"));
    cluster.wire.kept_within();
    cluster.follower().clock.advance(Duration::from_secs(4));
    let answers = ["b", "c"].map(|name| submit_unit(&mut client, &ou(name)));
    cluster.follower().clock.advance(Duration::from_secs(6));
    cluster.wire.let_go(false);
    assert_eq!(code(&first), ResultCode::Other);
    // The next one came later, and has what is left of its time.
    assert_eq!(cluster.wire.kept_within(), Duration::from_secs(4));
    cluster.follower().clock.advance(Duration::from_secs(4));
    cluster.wire.let_go(false);
    assert_eq!(code(&answers[0]), ResultCode::Other);
    assert_eq!(code(&answers[1]), ResultCode::Unavailable, "it was not sent");
    assert_eq!(cluster.wire.count(), 2);
}

#[test]
fn without_a_leader_a_write_waits_and_is_refused_in_the_end() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.lead(None);
    let unsent = submit_unit(&mut client, &ou("a"));
    cluster.follower().clock.advance(Duration::from_secs(11));
    assert_eq!(code(&unsent), ResultCode::Unavailable);
    cluster.wire.fail([Fault::LoseRequest]);
    let sent = cluster.wire.count();
    let unknown = submit_unit(&mut client, &ou("b"));
    while cluster.wire.count() == sent {
        std::thread::yield_now();
    }
    cluster.follower().clock.advance(Duration::from_secs(11));
    let mut answer = Answer::default();
    answer.take(&unknown.recv().unwrap());
    assert_eq!(answer.code(), ResultCode::Other);
    assert!(answer.diagnostic.contains("the outcome is unknown"), "{}", answer.diagnostic);
    // A leader comes in time.
    let patient = submit_unit(&mut client, &ou("c"));
    cluster.lead(Some(0));
    assert_eq!(code(&patient), ResultCode::Success);
    assert_eq!(cluster.log.len(), 1);
}
