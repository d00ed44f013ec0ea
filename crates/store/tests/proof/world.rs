//! A store under test and what must be in it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use schema::{Change, EntryId, IndexChange};
use store::{IndexDefinition, IndexStep, LoadOptions, LogPosition, Lsn, Store, StoreOptions, View};
use tempfile::TempDir;

use crate::arbitrary::dice::Dice;
use crate::arbitrary::filters::Condition;
use crate::arbitrary::tree::{Tree, contexts};
use crate::arbitrary::vocabulary::Vocabulary;
use crate::indexes;

pub struct World {
    pub seed: u64,
    pub words: Arc<Vocabulary>,
    pub indexes: Vec<IndexDefinition>,
    /// The filters of filtered indexes.
    pub conditions: Arc<Vec<Condition>>,
    pub store: Arc<Store>,
    /// Goes when the store has gone.
    _directory: TempDir,
    /// What readers see.
    pub published: Tree,
    /// What was sealed and is not published yet.
    sealed: VecDeque<(Lsn, Tree)>,
    /// Whether it began with thousands of entries.
    pub is_large: bool,
}

/// One seed in so many makes a large tree.
const LARGE_EVERY: u64 = 8;

/// The memory of some loads, in bytes.
const SMALL_LOAD_BYTES: u64 = 1 << 16;

impl World {
    pub fn new(seed: u64, dice: &mut Dice) -> Self {
        let words = Arc::new(Vocabulary::random(dice));
        let (indexes, conditions) = indexes::random(&words, dice);
        let mut world = Self::with(seed, words, indexes);
        world.conditions = Arc::new(conditions);
        world.is_large = seed.is_multiple_of(LARGE_EVERY);
        if world.is_large {
            world.load(dice.between(1_000, 3_000), dice);
        } else if dice.one_in(2) {
            let most = *dice.pick(&[20, 200, 600]);
            world.load(dice.between(1, most), dice);
        }
        world
    }

    pub fn with(seed: u64, words: Arc<Vocabulary>, indexes: Vec<IndexDefinition>) -> Self {
        let _directory = tempfile::tempdir().unwrap();
        let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
        let (schema, config) = (Arc::clone(&words.schema), indexes::config(&indexes));
        let store =
            Store::create(_directory.path(), &options, schema, config, &contexts()).unwrap();
        let (published, sealed) = (Tree::default(), VecDeque::new());
        let (store, conditions) = (Arc::new(store), Arc::default());
        let is_large = false;
        Self { seed, words, indexes, conditions, store, _directory, published, sealed, is_large }
    }

    /// Fills the empty store at once.
    pub fn load(&mut self, count: usize, dice: &mut Dice) {
        let mut tree = Tree::default();
        for _ in 0..count {
            let next = EntryId(tree.nodes.len() as u64 + 1);
            if let Some(change @ Change::Add(_)) = tree.change(next, &self.words, dice) {
                tree.apply(&change, &self.words.schema);
            }
        }
        self.load_tree(&tree);
    }

    pub fn load_tree(&mut self, tree: &Tree) {
        // Some rows are compressed, and some loads have so little memory that they spill.
        let usual = LoadOptions { compress: self.seed.is_multiple_of(3), ..LoadOptions::default() };
        let options = match self.seed.is_multiple_of(2) {
            true => LoadOptions { memory_bytes: SMALL_LOAD_BYTES, ..usual },
            false => usual,
        };
        let mut loader = self.store.bulk_load(&options).unwrap();
        for (place, (_, node)) in tree.top_down().into_iter().enumerate() {
            loader.load(&node.entry, place as u64).unwrap();
        }
        loader.commit().unwrap();
        // The load gives its own numbers, in its own order.
        self.published = Tree::default();
        let numbers = tree.top_down().into_iter().map(|(id, _)| id);
        let numbers: std::collections::BTreeMap<u64, u64> = numbers.zip(1..).collect();
        for (id, node) in &tree.nodes {
            let mut node = node.clone();
            node.parent = numbers.get(&node.parent).copied().unwrap_or(0);
            self.published.nodes.insert(numbers[id], node);
        }
    }

    /// Some batches, of which some are published, and some flushed.
    pub fn write(&mut self, dice: &mut Dice) {
        for _ in 0..dice.between(1, 3) {
            let count = dice.between(1, 40);
            self.batch(count, dice);
            if dice.one_in(2) {
                self.publish(dice.between(1, 2));
            }
            if dice.one_in(3) {
                self.store.flush().unwrap();
            }
            self.tend(dice);
        }
        self.publish(1);
    }

    /// A part of the work that there is on indexes; the rest is left as it is.
    fn tend(&self, dice: &mut Dice) {
        for _ in 0..dice.below(6) {
            match self.store.index_step(dice.between(1, 80) as u64).unwrap() {
                IndexStep::Idle => return,
                IndexStep::AfterFlush if dice.one_in(2) => drop(self.store.flush().unwrap()),
                _ => {}
            }
        }
    }

    /// Other indexes: some go, some come, some are built anew.
    fn other_indexes(&mut self, dice: &mut Dice) -> Change {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for _ in 0..dice.between(1, 3) {
            if !self.indexes.is_empty() && dice.one_in(2) {
                let at = dice.below(self.indexes.len());
                if dice.one_in(2) {
                    removed.push(self.indexes.remove(at).to_string());
                } else {
                    added.push(self.indexes[at].clone());
                }
                continue;
            }
            let mut conditions = Vec::clone(&self.conditions);
            added.extend(indexes::another(&self.words, &mut conditions, dice));
            self.conditions = Arc::new(conditions);
        }
        added.sort();
        added.dedup();
        // What goes and comes in one change is there afterwards.
        self.indexes.extend(added.iter().cloned());
        self.indexes.sort();
        self.indexes.dedup();
        let added = added.iter().map(ToString::to_string).collect();
        Change::Index(IndexChange { added, removed })
    }

    fn batch(&mut self, count: usize, dice: &mut Dice) {
        let other = dice.one_in(4).then(|| self.other_indexes(dice));
        let mut tree = self.sealed.back().map_or(&self.published, |(_, tree)| tree).clone();
        let mut batch = self.store.begin().unwrap();
        for _ in 0..count {
            let Some(change) = tree.change(batch.next_entry_id(), &self.words, dice) else {
                continue;
            };
            batch.apply(&change).unwrap();
            tree.apply(&change, &self.words.schema);
        }
        if let Some(change) = other {
            batch.apply(&change).unwrap();
        }
        let mark = batch.seal();
        self.sealed.push_back((mark.lsn, tree));
    }

    /// Makes some of what is sealed visible.
    fn publish(&mut self, count: usize) {
        for _ in 0..count {
            let Some((lsn, tree)) = self.sealed.pop_front() else { return };
            self.published = tree;
            self.store.publish(lsn, LogPosition { term: 1, index: lsn.0 });
        }
    }

    pub fn with_view(&self, look: impl FnOnce(&View<'_>)) {
        let mut reader = self.store.reader();
        look(reader.view().unwrap());
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.words.definitions)?;
        for index in &self.indexes {
            writeln!(f, "index {index}")?;
        }
        for (id, node) in &self.published.nodes {
            writeln!(f, "{id} below {}: {}", node.parent, node.entry.name())?;
            for attribute in node.entry.attributes() {
                let values: Vec<String> =
                    attribute.values.iter().map(|value| value.escape_ascii().to_string()).collect();
                writeln!(f, "    {}: {values:?}", attribute.description)?;
            }
        }
        Ok(())
    }
}
