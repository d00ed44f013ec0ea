//! One worker, in process, under simulated peers that fail, block and take short pieces at any
//! octet.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::RangeFrom;
use std::rc::Rc;
use testing::chance::attack_turns;

use tokio::task::yield_now;

use super::super::simulated::{Peer, all_ended, ask_calmly, connect, finish, with_worker};
use super::*;
use crate::worker::Worker;

#[test]
fn answers_stay_with_their_connection_whatever_the_peers_do() {
    let failures = with_worker(many, async |worker| {
        let entries = (0..OWNERS).flat_map(|owner| add_for(2 + owner as i32, owner));
        let requests = bind(1, ROOT, "secret").into_iter().chain(entries).collect::<Vec<_>>();
        let answers = ask_calmly(worker, &requests).await;
        let answers = messages(&answers).0.into_iter().map(describe).collect::<Vec<_>>();
        assert!(answers.len() == 1 + OWNERS && answers.iter().all(|one| one.ends_with("success")));
        let mut ids = 1..;
        let mut failures = Vec::new();
        for seed in 0..SEEDS * u64::from(attack_turns()) {
            failures.extend(round(worker, seed, &mut ids).await);
        }
        failures
    });
    let count = failures.len();
    assert!(failures.is_empty(), "{count} failures, the first: {:?}", failures.first());
}

/// One client of a round.
struct Played {
    peer: Rc<RefCell<Peer>>,
    script: Script,
    /// What it has not sent yet.
    left: VecDeque<u8>,
    undisturbed: bool,
}

impl Played {
    fn start(worker: &Rc<Worker>, script: Script, chance: Chance, is_plain: bool) -> Self {
        let left = script.octets().into();
        Self { peer: connect(worker, chance, is_plain), script, left, undisturbed: true }
    }

    /// Lets the client do something, at random.
    fn act(&mut self, chance: &mut Chance) {
        let mut peer = self.peer.borrow_mut();
        let few = 1 + chance.below(200) as usize;
        match chance.below(20) {
            0..8 => {
                let count = few.min(self.left.len());
                peer.send(self.left.drain(..count));
            }
            8 => peer.send(self.left.drain(..)),
            9..15 => peer.take_more(few),
            15 => peer.take_more(100_000),
            16 if chance.once_in(3) => {
                peer.fail_after(few * few);
                self.undisturbed = false;
            }
            17 if chance.once_in(6) => {
                peer.reset();
                self.undisturbed = false;
            }
            18 if chance.once_in(3) => {
                // It sends no more, but reads.
                self.undisturbed &= self.left.is_empty();
                self.left.clear();
                peer.end();
            }
            _ => {}
        }
    }

    /// Lets the client send the rest, and take whatever comes.
    fn finish(&mut self) {
        let left = self.left.drain(..).collect::<Vec<_>>();
        finish(&mut self.peer.borrow_mut(), &left);
    }
}

/// Clients that misbehave, together; returns what was wrong.
async fn round(worker: &Rc<Worker>, seed: u64, ids: &mut RangeFrom<i32>) -> Option<String> {
    let mut chance = Chance::new(seed, 0);
    let mut scripts = Vec::new();
    for owner in 0..2 + chance.below(OWNERS as u64 - 1) as usize {
        let mut script = Script::draw(&mut chance, owner, ids, Endings::All);
        for part in script.parts() {
            script.learn(&ask_calmly(worker, &part).await);
        }
        script.check_learned();
        scripts.push(script);
    }
    let start = |(owner, script)| {
        let own = Chance::new(seed, 1 + owner as u64);
        Played::start(worker, script, own, chance.once_in(2))
    };
    let mut played = scripts.into_iter().enumerate().map(start).collect::<Vec<_>>();
    for _ in 0..chance.below(ACTS_MAX) {
        let which = chance.below(played.len() as u64) as usize;
        played[which].act(&mut chance);
        if chance.once_in(3) {
            yield_now().await;
        }
    }
    played.iter_mut().for_each(Played::finish);
    all_ended(worker).await;
    played.iter().enumerate().find_map(|(owner, played)| {
        let checked = played.script.check(&played.peer.borrow().received, played.undisturbed);
        checked.err().map(|why| format!("seed {seed}, e{owner}: {why}"))
    })
}

const OWNERS: usize = 8;

/// What the clients of one round do, at the most.
const ACTS_MAX: u64 = 300;

const SEEDS: u64 = 800;
