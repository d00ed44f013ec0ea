//! One worker, in process, under simulated peers that fail, block and take short pieces at any
//! octet.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::RangeFrom;
use std::rc::Rc;

use directory::Peer as DirectoryPeer;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::{spawn_local, yield_now};
use tokio::time::Instant;

use super::super::simulated::Peer;
use super::*;
use crate::accept;
use crate::files;
use crate::log::{Logs, Trail};
use crate::metrics::Meter;
use crate::server::share;
use crate::stream::Stream;
use crate::tls::Tls;
use crate::worker::Worker;

#[test]
fn answers_stay_with_their_connection_whatever_the_peers_do() {
    let data = tempfile::tempdir().unwrap();
    let (directory, settings) = open(data.path(), many);
    let tls = Arc::new(Tls::new(&settings, files::now()).unwrap());
    let (shared, threads) = share(&directory, &settings, tls).unwrap();
    let meters = [Arc::<Meter>::default()];
    let (mut logs, mut scribes) = Logs::start(&directory, &settings, &meters).unwrap();
    let scribe = scribes.pop().unwrap();
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
    let failures = runtime.block_on(async {
        let worker = Rc::new(Worker::new(shared, scribe));
        let (_orders, receiver) = unbounded_channel();
        let serving = Rc::clone(&worker);
        spawn_local(async move { serving.serve(receiver).await });
        let entries = (0..OWNERS).flat_map(|owner| add_for(2 + owner as i32, owner));
        let requests = bind(1, ROOT, "secret").into_iter().chain(entries).collect::<Vec<_>>();
        let answers = ask_calmly(&worker, &requests).await;
        let answers = messages(&answers).0.into_iter().map(describe).collect::<Vec<_>>();
        assert!(answers.len() == 1 + OWNERS && answers.iter().all(|one| one.ends_with("success")));
        let mut ids = 1..;
        let mut failures = Vec::new();
        for seed in 0..SEEDS {
            failures.extend(round(&worker, seed, &mut ids).await);
        }
        failures
    });
    drop(runtime);
    for thread in threads {
        thread.join().unwrap();
    }
    logs.end_access();
    directory.shutdown();
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

fn connect(worker: &Rc<Worker>, chance: Chance, is_plain: bool) -> Rc<RefCell<Peer>> {
    let peer = Peer::new(chance);
    let stream = Stream::Simulated(Peer::transport(&peer, is_plain));
    let address = "simulated".to_owned();
    let asker = DirectoryPeer { address, ..DirectoryPeer::default() };
    accept::begin(worker, stream, asker, Trail::new("ldapi"));
    peer
}

fn finish(peer: &mut Peer, octets: &[u8]) {
    peer.send(octets.iter().copied());
    peer.end();
    peer.take_more(usize::MAX);
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

/// What is answered to a client that takes everything, while nobody else asks.
async fn ask_calmly(worker: &Rc<Worker>, octets: &[u8]) -> Vec<u8> {
    let peer = connect(worker, Chance::new(0, 0), true);
    finish(&mut peer.borrow_mut(), octets);
    all_ended(worker).await;
    let mut peer = peer.borrow_mut();
    std::mem::take(&mut peer.received)
}

/// Waits until every connection is gone.
async fn all_ended(worker: &Worker) {
    let begun = Instant::now();
    while worker.shared.counters.connections.value() > 0 {
        assert!(begun.elapsed() < PATIENCE, "a connection does not end");
        yield_now().await;
    }
}

const OWNERS: usize = 8;

/// What the clients of one round do, at the most.
const ACTS_MAX: u64 = 300;

const SEEDS: u64 = 2_000;
