//! Whatever the indexes, a search answers what a naive scan answers: for arbitrary schemas, trees,
//! entries and filters, in every scope, over arbitrary index configurations, with changes in
//! memory, in LMDB and in between, and while others write and flush.
//!
//! A case is made of its seed; one in 8 begins with thousands of entries. What fails is made small
//! and printed with the seed, the filter and the plan. `PROOF_SEED` runs that seed alone,
//! `PROOF_SEEDS` so many of them: the long form.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a module of tests")]

mod arbitrary;
#[path = "proof/beside.rs"]
mod beside;
#[path = "proof/indexes.rs"]
mod indexes;
#[path = "proof/octets.rs"]
mod octets;
#[path = "proof/question.rs"]
mod question;
#[path = "proof/shrink.rs"]
mod shrink;
#[path = "proof/world.rs"]
mod world;

use std::sync::Arc;

use arbitrary::dice::Dice;
use arbitrary::filters::Asked;
use arbitrary::tree::{Node, Tree, name_key};
use arbitrary::vocabulary::Vocabulary;
use ldap::dn::Dn;
use ldap::message::Scope;
use question::Question;
use schema::Entry;
use store::IndexDefinition;
use world::World;

/// Cases of the short form.
const CASES: u64 = 12;
const OCTET_CASES: u64 = 10;
const ROUNDS: usize = 8;
const QUESTIONS: usize = 60;
/// A large tree is asked less: each answer is compared with a scan.
const LARGE_ROUNDS: usize = 3;
const LARGE_QUESTIONS: usize = 25;

fn play(seed: u64, cases: impl Fn(&mut World, &mut Dice)) {
    let mut dice = Dice::new(seed);
    let mut world = World::new(seed, &mut dice);
    cases(&mut world, &mut dice);
    let findings = world.store.check(&mut |_, _, _| ()).unwrap().findings;
    assert_eq!(findings, [], "seed {seed}: {world}");
}

/// Runs seeds: the one that is asked for, or so many as are asked for, or some.
fn seeds(first: u64, count: u64, run: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, count) = match number("PROOF_SEED") {
        Some(seed) => (seed, 1),
        None => (first, number("PROOF_SEEDS").unwrap_or(count)),
    };
    (first..first + count).for_each(run);
}

#[test]
fn the_indexed_answer_is_that_of_a_naive_scan() {
    seeds(1, CASES, |seed| {
        play(seed, |world, dice| {
            let (rounds, questions) = match world.is_large {
                true => (LARGE_ROUNDS, LARGE_QUESTIONS),
                false => (ROUNDS, QUESTIONS),
            };
            for _ in 0..rounds {
                world.write(dice);
                let questions = (0..questions).map(|_| Question::random(world, dice));
                let questions: Vec<Question> = questions.collect();
                world.with_view(|view| {
                    for question in &questions {
                        if question.ask(view, &world.published).is_err() {
                            shrink::report(world, view, question);
                        }
                    }
                });
            }
        });
    });
}

fn pairs(pool: &[Vec<u8>]) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
    pool.iter().flat_map(|first| pool.iter().map(move |second| (first, second)))
}

/// The octets that keys of pairs are made with, in values of one attribute and of the other.
#[test]
fn no_pair_of_values_is_taken_for_another() {
    let mut dice = Dice::new(1);
    let kind = "EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )\n";
    let define =
        |number| format!("attributeTypes: ( 1.3.6.1.4.1.99999.{number} NAME 'x{number}' {kind}");
    let mut words = Vocabulary::defined([define(0), define(1)].concat(), &mut dice);
    words.words.retain(|word| word.kind.name().starts_with('x'));
    let octets = [0, 1, 2, b'a'];
    let mut pool = vec![Vec::new()];
    pool.extend(octets.map(|octet| vec![octet]));
    pool.extend(octets.iter().flat_map(|one| octets.map(|other| vec![*one, other])));
    for word in &mut words.words {
        word.pool.clone_from(&pool);
    }
    let index = IndexDefinition::parse("equality x0 with x1").unwrap();
    let mut world = World::with(1, Arc::new(words), vec![index]);
    let mut tree = Tree::default();
    let mut add = |parent: u64, dn: &str, values: &[(&str, &[u8])]| {
        let name = Dn::parse(dn).unwrap();
        let key = name_key(&world.words.schema, parent, &name).unwrap();
        let entry = Entry::from_pairs(name, values.iter().copied(), &world.words.schema).unwrap();
        let node = Node { parent, key, entry: Arc::new(entry) };
        tree.nodes.insert(tree.nodes.len() as u64 + 1, node);
    };
    add(0, "o=Other", &[("objectClass", b"top")]);
    for (number, (first, second)) in pairs(&pool).enumerate() {
        add(1, &format!("cn={number},o=Other"), &[("x0", first), ("x1", second)]);
    }
    world.load_tree(&tree);
    world.with_view(|view| {
        let equal = |of: &str, value: &Vec<u8>| Asked::Equal(of.to_owned(), value.clone());
        for (first, second) in pairs(&pool) {
            let filter = Asked::And(vec![equal("x0", first), equal("x1", second)]);
            let scope = Scope::Subtree;
            let question = Question { filter, base: 0, scope, page: 0, wanted: None };
            if question.ask(view, &world.published).is_err() {
                shrink::report(&world, view, &question);
            }
        }
    });
}

#[test]
fn octet_strings_of_any_form_are_found() {
    seeds(20_000, OCTET_CASES, |seed| {
        let mut dice = Dice::new(seed);
        let dice = &mut dice;
        let words = Arc::new(octets::vocabulary(dice));
        let (indexes, conditions) = indexes::random(&words, dice);
        let mut world = World::with(seed, words, indexes);
        world.conditions = Arc::new(conditions);
        let most = *dice.pick(&[60, 400]);
        world.load(dice.between(1, most), dice);
        for _ in 0..ROUNDS / 2 {
            world.write(dice);
            let ids = world.published.ids();
            let questions = (0..QUESTIONS).map(|number| match number % 2 {
                0 => octets::question(&world.words, &ids, dice),
                _ => Question::random(&world, dice),
            });
            let questions: Vec<Question> = questions.collect();
            world.with_view(|view| {
                for question in &questions {
                    if question.ask(view, &world.published).is_err() {
                        shrink::report(&world, view, question);
                    }
                }
            });
        }
        let findings = world.store.check(&mut |_, _, _| ()).unwrap().findings;
        assert_eq!(findings, [], "seed {seed}: {world}");
    });
}

#[test]
fn it_is_so_while_others_write_and_flush() {
    seeds(10_000, 2, |seed| play(seed, beside::play));
}
