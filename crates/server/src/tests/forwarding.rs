//! Two servers over real sockets: what one is asked for is carried out by the other.

use std::sync::{Mutex, OnceLock};

use auth::password::{Argon2Cost, HashCosts, PasswordStorage};
use directory::MakeLog;
use directory::forward::{ForwardError, Forwarder, ForwarderDone};
use history::log::{
    BarrierDone, CommitDone, CommitError, CommitLog, Gone, LogBatch, Membership, OnlySelf,
    ReadLevel, Reign, Role, RoleWatcher, Tail,
};
use store::{LogPosition, Lsn};

use super::*;
use crate::ForwardedPool;

/// A log that follows another one, and says that it has applied everything.
struct Follows;

impl CommitLog for Follows {
    fn commit(&self, _: Reign, _: LogBatch, done: CommitDone) {
        done(Err(CommitError::NotDeciding { leader: None }));
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn window(&self) -> usize {
        1
    }

    fn role(&self) -> Role {
        Role::Following { leader: None }
    }

    fn watch(&self, watcher: RoleWatcher) {
        watcher(&self.role());
    }

    fn barrier(&self, _: ReadLevel, done: BarrierDone) {
        done(Ok(self.applied()));
    }

    fn tail(&self, from: Lsn) -> Result<Box<dyn Tail>, Gone> {
        Err(Gone { first: from, reason: "nothing is kept".to_owned() })
    }

    fn applied(&self) -> Lsn {
        Lsn(u64::MAX)
    }

    fn members(&self) -> &dyn Membership {
        &OnlySelf
    }

    fn forget(&self, _: LogPosition) {}

    fn close(&self) {}
}

/// Hands requests to the pool of the other server, or keeps them.
#[derive(Debug, Default)]
struct ToPool {
    pool: OnceLock<ForwardedPool>,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl Forwarder for ToPool {
    fn forward(&self, request: Vec<u8>, done: ForwarderDone) {
        match self.pool.get() {
            Some(pool) => {
                self.kept.lock().unwrap().push(request.clone());
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
        let (own, pool) = (Arc::<ToPool>::default(), std::sync::mpsc::channel());
        let leader = Running::with_pool(
            |options| {
                options.forwarder = Some(own);
                let argon2 = Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 };
                let costs = HashCosts { argon2, ..HashCosts::default() };
                options.passwords.storage = PasswordStorage { scheme: Scheme::Argon2id, costs };
            },
            &pool.0,
        );
        let pool = pool.1.recv().unwrap();
        let forwarder = Arc::<ToPool>::default();
        forwarder.pool.set(pool.clone()).unwrap();
        let given = Arc::clone(&forwarder);
        let follower = Running::with_both(|_, options| {
            options.forwarder = Some(given);
            options.log = Some(MakeLog::new(|_| Ok(Arc::new(Follows))));
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
        pair.pool.carry_out(octets, Box::new(move |answer| sender.send(answer).unwrap()));
        directory::forward::answer::ForwardedAnswer::decode(&receiver.recv().unwrap()).unwrap()
    };
    let refused = |octets: Vec<u8>| match ask(octets) {
        directory::forward::answer::ForwardedAnswer::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(b"nothing".to_vec()), ldap::result::ResultCode::ProtocolError);
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
    pair.pool.carry_out(request, Box::new(move |answer| sender.send(answer).unwrap()));
    let answer = directory::forward::answer::ForwardedAnswer::decode(&receiver.recv().unwrap());
    let nobody = directory::forward::answer::ForwardedAnswer::NotDeciding { leader: None };
    assert_eq!(answer.unwrap(), nobody, "whoever decides next carries it out");
}
