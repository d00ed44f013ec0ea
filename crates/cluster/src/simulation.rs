//! Several nodes in one thread, over a simulated network, disk and clock: the real engine, the real
//! log store and the real state, faults by chance, and what must hold whatever happens.
//!
//! A seed decides everything, so that a failure happens again in the same way: `cargo xtask
//! simulate --seed 7 --trace`.
//!
//! Start at `world.rs` for a run, then `checks.rs` for what must hold.

mod checks;
mod clients;
mod faults;
mod linearizable;
mod network;
mod requests;
mod runtime;
mod state;
mod world;

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

pub(crate) use self::network::Link;
pub use self::runtime::Simulated;
use self::world::{Kind, Plant, World};
use crate::options::LOG_KEEP_BYTES;
use crate::types::Runtime;

/// What runs came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Summary {
    acknowledged: usize,
    refused: usize,
    unknown: usize,
    /// Requests of unknown outcome that were sent again.
    retries: usize,
    /// Reads that must see all that was acknowledged before.
    reads: usize,
    local_reads: usize,
    crashes: usize,
    /// Changes of the members that came to their end.
    changes: usize,
    /// Copies of the data that took the place of those of a node.
    copies: usize,
    /// Over everything that was seen, in order.
    trace: u64,
}

impl Summary {
    const fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.retries += other.retries;
        self.reads += other.reads;
        self.local_reads += other.local_reads;
        self.crashes += other.crashes;
        self.changes += other.changes;
        self.copies += other.copies;
        self.trace ^= other.trace;
    }
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

/// Whether everything that is seen is to be printed.
fn is_traced() -> bool {
    static IS_TRACED: OnceLock<bool> = OnceLock::new();
    *IS_TRACED.get_or_init(|| std::env::var_os("ROSTER_SIMULATION_TRACE").is_some())
}

/// The seeds that are asked for.
fn asked() -> Option<Range<u64>> {
    let asked = std::env::var("ROSTER_SIMULATION_SEEDS").ok()?;
    let (from, to) = asked.split_once("..").expect("seeds are FROM..TO");
    Some(from.parse().expect("a number")..to.parse().expect("a number"))
}

/// Runs so many seeds as fit into a test, or those asked for, on all processors; says which failed.
#[allow(clippy::disallowed_methods, reason = "tells a person how fast it is")]
fn run_all(usual: Range<u64>, kind: Kind) {
    let (seeds, threads) = match asked() {
        None => (usual, 1),
        Some(seeds) => (seeds, std::thread::available_parallelism().map_or(1, usize::from)),
    };
    let _template = state::template();
    let (next, sum) = (AtomicU64::new(seeds.start), Mutex::new(Summary::default()));
    let failed = Mutex::new(Vec::new());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.lock().unwrap().len() >= FAILURES_MAX {
                        return;
                    }
                    match std::panic::catch_unwind(|| run(seed, kind)) {
                        Ok(summary) => sum.lock().unwrap().add(&summary),
                        Err(reason) => {
                            println!("seed {seed} failed: {}", text(&*reason));
                            failed.lock().unwrap().push(seed);
                        }
                    }
                    let done = seed + 1 - seeds.start;
                    if done.is_multiple_of(PROGRESS_SEEDS) {
                        let a_second = done as f64 / began.elapsed().as_secs_f64();
                        println!("{done} seeds, {a_second:.1} a second");
                    }
                }
            });
        }
    });
    let (sum, failed) = (sum.into_inner().unwrap(), failed.into_inner().unwrap());
    let took = began.elapsed();
    println!("{} seeds of {} nodes in {took:.1?}: {sum:?}", seeds.clone().count(), kind.nodes);
    let copies = if kind.log_keep_bytes < LOG_KEEP_BYTES { "--copies " } else { "" };
    let which = match kind.changes {
        true => format!("{copies}--changes"),
        false => format!("{copies}--nodes {}", kind.nodes),
    };
    assert!(
        failed.is_empty(),
        "seeds {failed:?} failed, see above; again: cargo xtask simulate {which} --seed {} --trace",
        failed[0]
    );
    let is_enough = seeds.count() < 10 || (sum.unknown > 0 && sum.crashes > 0 && sum.retries > 0);
    let is_enough = is_enough && (!kind.changes || sum.changes > 0);
    let is_enough = is_enough && (kind.log_keep_bytes >= LOG_KEEP_BYTES || sum.copies > 0);
    assert!(is_enough && sum.acknowledged > 0 && sum.reads > 0, "the runs show something: {sum:?}");
}

/// What a panic said.
fn text(reason: &(dyn Any + Send)) -> String {
    let text = reason.downcast_ref::<String>().cloned();
    let text = text.or_else(|| reason.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "it does not say why".to_owned())
}

/// How many seeds may fail before no other is begun.
const FAILURES_MAX: usize = 5;

/// After so many seeds it is told how far they are.
const PROGRESS_SEEDS: u64 = 100;

#[test]
fn three_nodes_lose_nothing_and_agree() {
    run_all(0..12, Kind::nodes(3));
}

#[test]
fn five_nodes_lose_nothing_and_agree() {
    run_all(0..5, Kind::nodes(5));
}

#[test]
fn members_that_change_lose_nothing_and_agree() {
    run_all(0..4, Kind::changing(3));
}

#[test]
fn members_that_get_copies_lose_nothing_and_agree() {
    run_all(0..4, Kind::copying(3));
}

#[test]
fn members_that_change_and_get_copies_lose_nothing_and_agree() {
    run_all(0..3, Kind::copying_and_changing(3));
}

#[test]
fn a_seed_runs_the_same_every_time() {
    for kind in [Kind::nodes(3), Kind::copying(3)] {
        for seed in 0..2 {
            assert_eq!(run(seed, kind), run(seed, kind), "seed {seed}");
        }
    }
}

/// With something wrong on purpose, the checks must see it: otherwise they prove nothing.
#[test]
fn the_checks_see_what_is_wrong() {
    let plants = [
        (Plant::RestoresLeader, "have different entries"),
        (Plant::AcknowledgesEarly, "was acknowledged"),
        (Plant::UnknownAsRefused, "was refused"),
        (Plant::ReadsUnasked, "is not linearizable"),
        (Plant::ServesAtOnce, "went back"),
        (Plant::RetriesBlindly, "happened twice"),
        (Plant::SkipsChanges, "have other entries"),
        (Plant::AltersInTransit, "have different entries"),
        (Plant::LosesEndOfLog, "the check of node 1 found"),
    ];
    let wrong: Vec<_> = plants.iter().filter_map(|(plant, says)| not_seen(*plant, says)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is the matter when no check sees what is wrong and says so in these words. Others may see
/// it as well.
fn not_seen(plant: Plant, says: &str) -> Option<String> {
    let kind = Kind { plant: Some(plant), ..Kind::nodes(3) };
    let found = (0..PLANT_SEEDS).find_map(|seed| {
        let failure = std::panic::catch_unwind(|| run(seed, kind)).err()?;
        let reason = text(&*failure);
        println!("{plant:?}: seed {seed}: {reason}");
        reason.contains(says).then_some(seed)
    });
    found.is_none().then(|| format!("no run found {plant:?} and said '{says}'"))
}

/// Something wrong is found in so many runs.
const PLANT_SEEDS: u64 = 40;
