//! Makes what fails small, and prints it.

use std::sync::Arc;

use store::View;

use crate::arbitrary::tree::{Tree, name_key};
use crate::question::{Question, Wrong};
use crate::world::World;

/// Panics with the smallest form of what is wrong.
pub fn report(world: &World, view: &View<'_>, question: &Question) -> ! {
    let seed = world.seed;
    let fails = |question: &Question| question.ask(view, &world.published).is_err();
    let small = smaller_question(question, &fails);
    let wrong = small.ask(view, &world.published).unwrap_err();
    for loaded in [false, true] {
        if let Some((world, question, wrong)) = smaller_world(world, &small, loaded) {
            let how = if loaded { "loaded" } else { "added" };
            panic!("seed {seed}: {question}\n{wrong}\nof these entries, {how}:\n{world}");
        }
    }
    panic!("seed {seed}, its own history only: {small}\n{wrong}\n{world}");
}

fn smaller_question(question: &Question, fails: &dyn Fn(&Question) -> bool) -> Question {
    let mut question = question.clone();
    loop {
        let smaller = question.filter.smaller().into_iter();
        let smaller = smaller.map(|filter| Question { filter, ..question.clone() });
        let whole = Question { base: 0, scope: ldap::message::Scope::Subtree, ..question.clone() };
        let is_whole = question.base == 0 && question.scope == ldap::message::Scope::Subtree;
        let mut tries = smaller.chain((!is_whole).then_some(whole));
        match tries.find(|one| fails(one)) {
            Some(found) => question = found,
            None => return question,
        }
    }
}

/// A new store with these entries and nothing else; the question's base may have another number.
fn rebuild(
    world: &World,
    tree: &Tree,
    question: &Question,
    loaded: bool,
) -> Option<(World, Question)> {
    let mut other = World::with(world.seed, Arc::clone(&world.words), world.indexes.clone());
    let base = tree.nodes.get(&question.base).map(|node| node.entry.name().clone());
    if loaded {
        other.load_tree(tree);
    } else {
        other.add_tree(tree);
    }
    let mut question = question.clone();
    if let Some(base) = base {
        let found = other.published.nodes.iter().find(|(_, node)| *node.entry.name() == base);
        question.base = *found?.0;
    }
    Some((other, question))
}

fn failing(
    world: &World,
    tree: &Tree,
    question: &Question,
    loaded: bool,
) -> Option<(World, Question, Wrong)> {
    let (world, question) = rebuild(world, tree, question, loaded)?;
    let mut wrong = None;
    world.with_view(|view| wrong = question.ask(view, &world.published).err());
    Some((world, question, wrong?))
}

/// The tree without these entries and what is below them.
fn without(tree: &Tree, ids: &[u64]) -> Tree {
    let mut fewer = tree.clone();
    for (id, node) in tree.top_down() {
        let is_below = node.parent != 0 && !fewer.nodes.contains_key(&node.parent);
        if is_below || ids.contains(&id) {
            fewer.nodes.remove(&id);
        }
    }
    fewer
}

fn smaller_world(
    world: &World,
    question: &Question,
    loaded: bool,
) -> Option<(World, Question, Wrong)> {
    let mut tree = world.published.clone();
    let (mut best, ..) = (failing(world, &tree, question, loaded)?, ());
    // Entries with all that is below them: many at a time first, deep ones first.
    let mut size = tree.nodes.len() / 2;
    while size > 0 {
        let order: Vec<u64> = tree.top_down().into_iter().rev().map(|(id, _)| id).collect();
        for ids in order.chunks(size) {
            let fewer = without(&tree, ids);
            let has_base = question.base == 0 || fewer.nodes.contains_key(&question.base);
            if !has_base || fewer.nodes.len() == tree.nodes.len() {
                continue;
            }
            if let Some(found) = failing(world, &fewer, question, loaded) {
                (tree, best) = (fewer, found);
            }
        }
        size /= 2;
    }
    // Attributes that no name needs.
    for id in tree.ids() {
        for attribute in tree.nodes[&id].entry.attributes().to_vec() {
            let mut fewer = tree.clone();
            let entry = Arc::make_mut(&mut fewer.nodes.get_mut(&id).unwrap().entry);
            entry.remove_attribute(&attribute.description).unwrap();
            if let Some(found) = failing(world, &fewer, question, loaded) {
                (tree, best) = (fewer, found);
            }
        }
    }
    // Indexes.
    let mut world = World::with(world.seed, Arc::clone(&world.words), world.indexes.clone());
    for index in world.indexes.clone() {
        let all = world.indexes.clone();
        world.indexes.retain(|one| *one != index);
        match failing(&world, &tree, question, loaded) {
            Some(found) => best = found,
            None => world.indexes = all,
        }
    }
    Some(best)
}

impl World {
    /// Adds entries in the order of their ids where that can be.
    fn add_tree(&mut self, tree: &Tree) {
        let mut numbers = std::collections::BTreeMap::from([(0, 0)]);
        let mut batch = self.store.begin().unwrap();
        for (old, node) in tree.top_down() {
            let id = batch.next_entry_id();
            let parent = numbers[&node.parent];
            let key = name_key(&self.words.schema, parent, node.entry.name()).unwrap();
            let entry = schema::Entry::clone(&node.entry);
            let parent = schema::EntryId(parent);
            let change = schema::Change::Add(schema::AddChange { id, parent, key, entry });
            batch.apply(&change).unwrap();
            self.published.apply(&change, &self.words.schema);
            numbers.insert(old, id.0);
        }
        batch.commit().unwrap();
    }
}
