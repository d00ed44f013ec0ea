//! Two servers over real sockets: what one is asked for is carried out by the other.

use std::sync::{Mutex, OnceLock};

use auth::password::{Argon2Cost, HashCosts, PasswordStorage};
use directory::MakeLog;
use directory::forward::{ForwardError, Forwarder, ForwarderDone};
use zeroize::Zeroizing;

use super::follows::Follows;
use super::*;
use crate::ForwardedPool;

/// Hands requests to the pool of the other server, or keeps them.
#[derive(Debug, Default)]
struct ToPool {
    pool: OnceLock<ForwardedPool>,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl Forwarder for ToPool {
    fn forward(&self, request: Zeroizing<Vec<u8>>, done: ForwarderDone) {
        match self.pool.get() {
            Some(pool) => {
                self.kept.lock().unwrap().push(request.to_vec());
                pool.carry_out(request, Box::new(|octets| done(Ok(octets))));
            }
            None => done(Err(ForwardError::NotSent)),
        }
    }
}

struct Pair {
    follower: Running,
    leader: Running,
    forwarder: Arc<ToPool>,
    pool: ForwardedPool,
}

impl Pair {
    fn start() -> Self {
        Self::hashing(1)
    }

    /// Where a hash takes so many passes.
    fn hashing(passes: u32) -> Self {
        Self::limited(passes, |_| {})
    }

    /// And with other settings of the follower.
    fn limited(passes: u32, adjust: impl FnOnce(&mut Settings)) -> Self {
        let (own, pool) = (Arc::<ToPool>::default(), std::sync::mpsc::channel());
        let leader = Running::with_pool(
            |options| {
                options.forwarder = Some(own);
                let argon2 = Argon2Cost { memory_kib: 64, passes, lanes: 1 };
                let costs = HashCosts { argon2, ..HashCosts::default() };
                options.passwords.storage = PasswordStorage { scheme: Scheme::Argon2id, costs };
            },
            &pool.0,
        );
        let pool = pool.1.recv().unwrap();
        let forwarder = Arc::<ToPool>::default();
        forwarder.pool.set(pool.clone()).unwrap();
        let given = Arc::clone(&forwarder);
        let follower = Running::with_both(|settings, options| {
            adjust(settings);
            options.forwarder = Some(given);
            options.log = Some(MakeLog::new(|_| Ok(Arc::<Follows>::default())));
        });
        Self { follower, leader, forwarder, pool }
    }
}

#[test]
fn what_one_server_is_asked_for_is_carried_out_by_the_other() {
    let pair = Pair::start();
    let mut client = pair.follower.connect_root();
    let anna = "uid=anna,dc=example,dc=org";
    let pairs = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "Anna"),
        ("sn", "Berg"),
        ("userPassword", "a good secret"),
    ];
    client.send(&add_entry(2, anna, &pairs));
    assert_eq!(client.receive(), "2 add success");
    client.send(&add_entry(3, anna, &pairs));
    assert_eq!(client.receive(), "3 add entryAlreadyExists");
    // It was hashed over there, by the pool for that.
    assert!(pair.leader.counters.hashes.value() > 0);
    assert_eq!(pair.follower.counters.hashes.value(), 0);
    let mut bound = pair.leader.connect();
    bound.send(&bind(1, anna, "a good secret"));
    assert_eq!(bound.receive(), "1 bind success");
}

#[test]
fn octets_that_are_no_request_are_refused_and_a_closed_pool_takes_none() {
    let mut pair = Pair::start();
    let ask = |octets: Vec<u8>| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let octets = Zeroizing::new(octets);
        pair.pool.carry_out(octets, Box::new(move |answer| sender.send(answer).unwrap()));
        directory::forward::answer::ForwardedAnswer::decode(&receiver.recv().unwrap()).unwrap()
    };
    let refused = |octets: Vec<u8>| match ask(octets) {
        directory::forward::answer::ForwardedAnswer::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    };
    let mut octets = directory::forward::PROTOCOL_VERSION.to_le_bytes().to_vec();
    octets.extend_from_slice(b"nothing");
    assert_eq!(refused(octets), ldap::result::ResultCode::ProtocolError);
    // Its first two octets are those of another version.
    assert_eq!(refused(b"nothing".to_vec()), ldap::result::ResultCode::Unavailable);
    let mut client = pair.follower.connect_root();
    client.send(&add_entry(2, "ou=x,dc=example,dc=org", &[("objectClass", "organizationalUnit")]));
    assert_eq!(client.receive(), "2 add success");
    let request = pair.forwarder.kept.lock().unwrap()[0].clone();
    assert!(matches!(
        ask(request.clone()),
        directory::forward::answer::ForwardedAnswer::Answered(_)
    ));
    pair.leader.stop();
    let (sender, receiver) = std::sync::mpsc::channel();
    let request = Zeroizing::new(request);
    pair.pool.carry_out(request, Box::new(move |answer| sender.send(answer).unwrap()));
    let answer = directory::forward::answer::ForwardedAnswer::decode(&receiver.recv().unwrap());
    let nobody = directory::forward::answer::ForwardedAnswer::NotDeciding { leader: None };
    assert_eq!(answer.unwrap(), nobody, "whoever decides next carries it out");
}

/// The threads that go on with a request ended before the one that hashed for it: nobody answered.
#[test]
fn what_waits_for_a_hash_when_the_server_stops_is_answered() {
    let mut pair = Pair::hashing(4_000);
    let mut client = pair.follower.connect_root();
    let pairs = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "Anna"),
        ("sn", "Berg"),
        ("userPassword", "a good secret"),
    ];
    client.send(&add_entry(2, "uid=anna,dc=example,dc=org", &pairs));
    // It is on its way to the pool, and in it before the client is told anything.
    while pair.forwarder.kept.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let request = Zeroizing::new(pair.forwarder.kept.lock().unwrap()[0].clone());
    let (sender, receiver) = std::sync::mpsc::channel();
    pair.pool.carry_out(request, Box::new(move |answer| sender.send(answer).unwrap()));
    pair.leader.stop();
    let answer = receiver.recv_timeout(Duration::from_secs(60)).expect("it is answered");
    let answer = directory::forward::answer::ForwardedAnswer::decode(&answer).unwrap();
    // Where the hash was there first, it was carried out.
    assert!(matches!(
        answer,
        directory::forward::answer::ForwardedAnswer::NotDeciding { leader: None }
            | directory::forward::answer::ForwardedAnswer::Answered(_)
    ));
}

/// The value of a password modify request with an old password that is wrong (RFC 3062).
fn guess(id: i32, user: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (tag, text) in [(0x80, user), (0x81, "wrong"), (0x82, "a better secret")] {
        fields.extend([tag, u8::try_from(text.len()).unwrap()]);
        fields.extend(text.as_bytes());
    }
    let value = [&[0x30, u8::try_from(fields.len()).unwrap()][..], &fields].concat();
    let value = Some(&value[..]);
    request(id, Request::Extended(ExtendedRequest { oid: "1.3.6.1.4.1.4203.1.11.1", value }))
}

/// Guesses that were handed on counted when they were answered: as many as were sent at once were
/// looked at.
#[test]
fn of_guesses_that_are_handed_on_no_more_are_under_way_than_may_fail() {
    let pair = Pair::limited(1, |settings| {
        settings.server.workers = 1;
        settings.limits.bind_failures_max = 3;
        settings.limits.bind_delay_max = Duration::from_secs(60);
    });
    let anna = "uid=anna,dc=example,dc=org";
    let mut root = pair.leader.connect_root();
    let pairs = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "Anna"),
        ("sn", "Berg"),
        ("userPassword", "a good secret"),
    ];
    root.send(&add_entry(2, anna, &pairs));
    assert_eq!(root.receive(), "2 add success");
    let mut client = pair.follower.connect_root();
    let begun = tokio::time::Instant::now();
    for id in 2..40 {
        client.send(&guess(id, anna));
    }
    let sent = || pair.forwarder.kept.lock().unwrap().len();
    while sent() < 7 {
        std::thread::yield_now();
    }
    // Three, and one more, at once; then each after a wait, which doubles each time.
    let looked_at = sent();
    let waits = begun.elapsed().as_millis() / 100 + 1;
    let most = 4 + usize::try_from(waits.ilog2()).unwrap();
    assert!(looked_at <= most, "{looked_at} in {waits} tenths of a second");
    let answer = client.receive();
    assert!(answer.starts_with("2 extended invalidCredentials"), "{answer}");
}

/// Settings may have clients ask the leader themselves: the URL names the entry that it was about.
#[test]
fn clients_are_told_whom_to_ask_where_the_settings_say_so() {
    let forwarder = Arc::<ToPool>::default();
    let given = Arc::clone(&forwarder);
    let follower = Running::with_both(|_, options| {
        options.forwarder = Some(given);
        options.log = Some(MakeLog::new(|_| Ok(Arc::<Follows>::default())));
        options.refers_writes = true;
    });
    let mut client = follower.connect_root();
    let name = "ou=new unit,dc=example,dc=org";
    client.send(&add_entry(2, name, &[("objectClass", "organizationalUnit")]));
    let answer = client.receive_message().unwrap();
    let answer = Message::<Response<'_>>::decode(&answer, &DecodeLimits::default()).unwrap();
    let Response::Add(result) = answer.op else { panic!("{answer:?}") };
    assert_eq!(result.code, ldap::result::ResultCode::Referral);
    let urls: Vec<_> = result.referrals.iter().collect();
    assert_eq!(urls, ["ldap://leader.example:1389/ou=new%20unit,dc=example,dc=org"]);
    client.send(&request(3, Request::Delete(ldap::message::DeleteRequest { name })));
    assert_eq!(client.receive(), "3 delete referral");
    assert!(forwarder.kept.lock().unwrap().is_empty());
    follower.check_alive();
}
