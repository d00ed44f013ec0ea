//! The short form of `cargo xtask cluster`: kills and pauses under load, and every node holds what
//! was acknowledged.

use std::path::PathBuf;
use std::time::Duration;

use testing::cluster::{Fault, Kind, Options, Until, run};
use testing::crash::server::Place;

/// Tells the order of the faults.
const SEED: u64 = 1;
/// How many faults there are: each of them several times, after different ones.
const ROUNDS: u64 = 30;
/// The nodes.
const NODES: usize = 3;
/// The longest time for which one is frozen.
const PAUSE_MAX: Duration = Duration::from_secs(3);

#[test]
fn what_a_cluster_acknowledged_survives_faults() {
    let folder = tempfile::tempdir().unwrap();
    let named = ["kill", "pause"].map(|name| Kind::named(name).unwrap());
    let faults: Vec<Fault> = named.into_iter().flat_map(|kind| kind.with_nodes(NODES)).collect();
    let kinds = faults.len();
    let roster = PathBuf::from(env!("CARGO_BIN_EXE_roster"));
    let place = Place { roster, folder: folder.path().to_owned(), environment: Vec::new() };
    let options = Options {
        place,
        nodes: NODES,
        until: Until::Rounds(ROUNDS),
        seed: SEED,
        clients: 4,
        pause_max: PAUSE_MAX,
        faults,
        judges_each: false,
        syncs_lie: false,
        verifies: false,
        before: None,
    };
    let mut story = String::new();
    let mut told = |line: &str| story.extend([line, "\n"]);
    let totals = match run(&options, &mut told) {
        Ok(totals) => totals,
        Err(failure) => {
            let kept = folder.keep();
            panic!("seed {SEED}: {failure}\n{story}the data are kept in {}", kept.display());
        }
    };
    assert_eq!((totals.rounds, totals.gaps.len()), (ROUNDS, kinds), "{story}");
    assert!(totals.acknowledged > 0 && totals.refused > 0, "{story}{totals}");
}

#[test]
#[cfg(not(feature = "planted-faults"))]
fn the_product_has_no_planted_fault() {
    let has = |text: &str| {
        let mut grep = std::process::Command::new("grep");
        grep.args(["-qaF", text, env!("CARGO_BIN_EXE_roster")]).status().unwrap().success()
    };
    // The variable that the server reads with the feature `planted-faults`.
    assert!(!has("PLANTED_RESTORES_LEADER"));
    assert!(has("the server is shutting down"));
}
