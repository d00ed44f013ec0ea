//! Several nodes in one thread, over a simulated network, disk and clock: the real engine, the real
//! log store, faults by chance, and what must hold whatever happens.
//!
//! A seed decides everything, so that a failure happens again in the same way:
//! `ROSTER_SIMULATION_SEEDS=7..8 cargo test -p cluster simulation`.

mod checks;
mod clients;
mod faults;
mod network;
mod runtime;
mod world;

use std::ops::Range;

pub use self::runtime::Simulated;
use self::world::{Kind, World};
use crate::types::Runtime;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Summary {
    acknowledged: usize,
    refused: usize,
    unknown: usize,
    crashes: usize,
    /// Over everything that was seen, in order.
    trace: u64,
}

/// One run; panics with what went wrong.
fn run(seed: u64, kind: Kind) -> Summary {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(Runtime::scope(seed, async move { World::new(seed, kind).run().await }))
}

/// The seeds of this run: those asked for, or so many as fit into a test.
fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(asked) = std::env::var("ROSTER_SIMULATION_SEEDS") else { return usual };
    let (from, to) = asked.split_once("..").expect("seeds are FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// Runs all seeds, and says which one failed.
fn run_all(seeds: Range<u64>, kind: Kind) {
    let mut sum = Summary::default();
    for seed in seeds.clone() {
        let outcome = std::panic::catch_unwind(|| run(seed, kind));
        let Ok(summary) = outcome else { panic!("seed {seed} of {kind:?} failed; see above") };
        sum.acknowledged += summary.acknowledged;
        sum.refused += summary.refused;
        sum.unknown += summary.unknown;
        sum.crashes += summary.crashes;
    }
    println!("{} seeds of {kind:?}: {sum:?}", seeds.count());
    assert!(sum.acknowledged > 0 && sum.unknown > 0 && sum.crashes > 0, "the runs show something");
}

#[test]
fn three_nodes_lose_nothing_and_agree() {
    run_all(seeds(0..80), Kind::nodes(3));
}

#[test]
fn five_nodes_lose_nothing_and_agree() {
    run_all(seeds(0..30), Kind::nodes(5));
}

#[test]
fn a_seed_runs_the_same_every_time() {
    for seed in 0..3 {
        assert_eq!(run(seed, Kind::nodes(3)), run(seed, Kind::nodes(3)), "seed {seed}");
    }
}

/// With the hole open that the mandatory settings close, the checks must see it: otherwise they
/// prove nothing.
#[test]
fn the_checks_see_a_leader_that_goes_on_after_a_restart() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let kind = Kind { restores_leader: true, ..Kind::nodes(3) };
    let failed = (0..20).find(|seed| std::panic::catch_unwind(|| run(*seed, kind)).is_err());
    std::panic::set_hook(hook);
    assert!(failed.is_some(), "none of 20 runs failed although writes are lost");
}
