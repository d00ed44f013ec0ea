//! What one session asks changes no answer to another on the same thread.
//!
//! A worker keeps much from one request to the next: names, rows, what the rules mean, notes,
//! questions to the hash pool. So sessions of different identities take random turns on one worker,
//! and each has a double on a worker of its own, which is asked the same.

use auth::password::{HashCosts, PasswordStorage, Scheme};
use directory::Worker;
use ldap::message::{Authentication, BindRequest, Controls, ExtendedRequest};
use testing::chance::{Chance, attack_turns};

use super::*;

#[test]
fn interleaved_sessions_are_answered_as_each_would_be_alone() {
    // A slow hash, so that binds are put off to the pool and taken up again.
    let costs = HashCosts { pbkdf2_iterations: 1_000, ..HashCosts::default() };
    let storage = PasswordStorage { scheme: Scheme::Pbkdf2Sha256, costs };
    let served = Served::with(|options| {
        options.passwords.storage = storage;
        options.passwords.check_own = false;
    });
    let world = World::on(served);
    let mut hashes = 0;
    for seed in 0..SEEDS * u64::from(attack_turns()) {
        hashes += round(&world.served, seed);
    }
    assert!(hashes > 0, "no bind was put off");
}

/// Returns how often a bind was put off.
fn round(served: &Served, seed: u64) -> usize {
    let mut chance = Chance::new(seed, 0);
    let mut one = served.client().connection;
    let sessions = 2 + chance.below(5) as usize;
    let mut pairs = (0..sessions).map(|_| (served.client(), served.client())).collect::<Vec<_>>();
    for turn in 0..TURNS {
        let which = chance.below(pairs.len() as u64) as usize;
        let (mixed, alone) = &mut pairs[which];
        let message = draw(&mut chance, mixed, alone);
        on(&mut one.worker, &mut one.pool, mixed, &message);
        alone.connection.feed(&message);
        let (mixed, alone) = (&mut mixed.connection, &mut alone.connection);
        let answers = mixed.received.drain(..).collect::<Vec<_>>();
        let expected = alone.received.drain(..).collect::<Vec<_>>();
        assert_eq!(answers, expected, "seed {seed}, turn {turn}, session {which}");
        assert_eq!(mixed.closed, alone.closed);
        if mixed.closed {
            pairs[which] = (served.client(), served.client());
        }
    }
    pairs.iter().map(|(mixed, _)| mixed.connection.hashes).sum()
}

/// Feeds a client with the worker of all.
fn on(worker: &mut Worker, pool: &mut Worker, client: &mut Client, message: &[u8]) {
    let own = &mut client.connection;
    std::mem::swap(&mut own.worker, worker);
    std::mem::swap(&mut own.pool, pool);
    own.feed(message);
    std::mem::swap(&mut own.worker, worker);
    std::mem::swap(&mut own.pool, pool);
}

/// A request, encoded for both.
fn draw(chance: &mut Chance, mixed: &mut Client, alone: &mut Client) -> Vec<u8> {
    let who = ["anna", "bert", "carla", "nobody"][chance.below(4) as usize];
    let name = person(who);
    let bases = [SUFFIX, PEOPLE, SECRET, &*name, "cn=one,ou=secret,dc=example,dc=org"];
    let base = bases[chance.below(5) as usize];
    let mut both = |op: &Request<'_>| {
        let message = mixed.encode(op.clone(), Controls::EMPTY);
        assert_eq!(message, alone.encode(op.clone(), Controls::EMPTY));
        message
    };
    match chance.below(12) {
        0 => both(&Request::Bind(BindRequest {
            version: 3,
            name: if chance.once_in(4) { "cn=Directory Manager" } else { &name },
            authentication: Authentication::Simple(if chance.once_in(3) {
                b"wrong"
            } else {
                b"secret"
            }),
        })),
        1 => both(&Request::Bind(BindRequest {
            version: 3,
            name: "",
            authentication: Authentication::Simple(b""),
        })),
        2 => both(&Request::Extended(ExtendedRequest { oid: WHO_AM_I, value: None })),
        3..6 => {
            let (description, value) =
                [("employeeNumber", "1"), ("sn", "Berg"), ("userPassword", "secret")]
                    [chance.below(3) as usize];
            let value = value.as_bytes();
            both(&Request::Compare(CompareRequest { name: &name, description, value }))
        }
        // A message that cannot be read ends the session.
        6 if chance.once_in(20) => b"\x30\x05\x02\x01\x05\x5f\x00".to_vec(),
        _ => {
            let filters = [
                "(objectClass=*)",
                "(uid=anna)",
                "(sn=Berg)",
                "(mail=*@example.org)",
                "(description=*a*)",
                "(&(objectClass=person)(telephoneNumber=+49 1))",
                "(|(cn=one)(uid=bert))",
            ];
            let filter = filters[chance.below(7) as usize];
            let scope = [Scope::Base, Scope::One, Scope::Subtree][chance.below(3) as usize];
            let attributes: &[&str] = if chance.once_in(2) { &["*", "+"] } else { &["cn"] };
            let asked = Asked { base, scope, filter, attributes, ..Asked::default() };
            let message = mixed.encode_search(&asked);
            assert_eq!(message, alone.encode_search(&asked));
            message
        }
    }
}

const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

const SEEDS: u64 = 100;

/// Requests of one round.
const TURNS: usize = 200;
