//! Questions while others write and flush.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use store::{Ask, View};

use crate::arbitrary::dice::Dice;
use crate::arbitrary::tree::{Node, Tree, name_key};
use crate::question::Question;
use crate::world::World;

const READERS: u64 = 2;
const BATCHES: usize = 25;

/// The entries of a view, read one by one.
fn scanned(view: &View<'_>) -> Tree {
    let everything = schema::ResolvedFilter::And(Vec::new());
    let root = schema::EntryId::ROOT;
    let plan = view.plan(&Ask::new(&everything, root, ldap::message::Scope::Subtree)).unwrap();
    let mut nodes = BTreeMap::new();
    for stored in plan.entries(view, root) {
        let stored = stored.unwrap();
        let entry = Arc::new(stored.to_entry().unwrap());
        let parent = stored.parent().0;
        let key = name_key(view.schema(), parent, entry.name()).unwrap();
        nodes.insert(stored.id().0, Node { parent, key, entry });
    }
    Tree { nodes }
}

pub fn play(world: &mut World, dice: &mut Dice) {
    let ends = AtomicBool::new(false);
    // What there is at each published LSN.
    let history =
        Mutex::new(BTreeMap::from([(world.store.published().lsn, world.published.clone())]));
    let (store, words) = (Arc::clone(&world.store), Arc::clone(&world.words));
    let conditions = Arc::clone(&world.conditions);
    let seed = world.seed;
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for reader in 0..READERS {
            let mut dice = Dice::new(dice.seed() ^ reader);
            let (store, words, conditions) = (&store, &words, &conditions);
            let (history, ends) = (&history, &ends);
            readers.push(scope.spawn(move || {
                let mut reader = store.reader();
                while !ends.load(Ordering::Relaxed) {
                    let view = reader.view().unwrap();
                    let tree = scanned(view);
                    if let Some(known) = history.lock().unwrap().get(&view.lsn()) {
                        assert_eq!(known.ids(), tree.ids(), "seed {seed} at {:?}", view.lsn());
                    }
                    for _ in 0..10 {
                        let question = Question::about(words, conditions, &tree.ids(), &mut dice);
                        if let Err(wrong) = question.ask(view, &tree) {
                            panic!("seed {seed} at {:?}: {question}\n{wrong}", view.lsn());
                        }
                    }
                }
            }));
        }
        let flusher = scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                store.flush().unwrap();
                thread::yield_now();
            }
        });
        for _ in 0..BATCHES {
            world.write(dice);
            let lsn = world.store.published().lsn;
            history.lock().unwrap().insert(lsn, world.published.clone());
            if readers.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
        flusher.join().unwrap();
    });
}
