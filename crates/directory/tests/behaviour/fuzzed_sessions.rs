//! Whole sessions from octets; `fuzz/fuzz_targets/session.rs` looks for more of them.

#[path = "../support/fuzzed/mod.rs"]
#[allow(unreachable_pub, reason = "a fuzz target has it, too")]
mod fuzzed;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use testing::chance::{Chance, attack_turns};

use fuzzed::World;

#[test]
fn sessions_of_any_requests_are_answered_once_and_shown_no_secret() {
    let mut world = World::new();
    let mut told = BTreeMap::<_, usize>::new();
    for seed in 0..SEEDS * u64::from(attack_turns()) {
        let mut chance = Chance::new(seed, 0);
        let length = 100 + chance.below(4_000);
        let octets = (0..length).map(|_| chance.draw() as u8).collect::<Vec<_>>();
        let run = catch_unwind(AssertUnwindSafe(|| world.run(&octets)));
        assert!(run.is_ok(), "seed {seed}");
        if world.is_old() {
            let old = std::mem::replace(&mut world, World::new());
            for (what, count) in old.told {
                *told.entry(what).or_default() += count;
            }
        }
    }
    // It is about more than refusals.
    for what in ["bind", "search", "compare", "add", "delete", "modify", "modifyDn", "extended"] {
        let done = if what == "compare" { "compareFalse" } else { "success" };
        assert!(told.contains_key(&(what, done)), "no {what} succeeded: {told:#?}");
    }
    for what in [("search", "entry"), ("search", "job"), ("bind", "hash")] {
        assert!(told.contains_key(&what), "{what:?}: {told:#?}");
    }
}

const SEEDS: u64 = 200;
