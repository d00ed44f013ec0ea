//! The short form of `cargo xtask crash`: a few rounds of kill and restart under load, and the
//! proof that a server that loses or mixes up writes would be noticed.

use std::path::PathBuf;
use std::time::Duration;

use testing::crash::server::Place;
use testing::crash::{Fault, Options, run, variants};

fn options(folder: &tempfile::TempDir, rounds: u64, seed: u64) -> Options {
    let place = Place {
        roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
        folder: folder.path().to_owned(),
        environment: Vec::new(),
    };
    Options {
        place,
        rounds,
        seed,
        clients: 4,
        people: 12,
        load_max: Duration::from_millis(300),
        check_every: 3,
        variants: variants(),
        fault: None,
    }
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut story = String::new();
    let mut told = |line: &str| story.extend([line, "\n"]);
    let totals = run(&options(&folder, 6, 1), &mut told)
        .unwrap_or_else(|failure| panic!("{failure}\nlog:\n{}", log(&folder)));
    assert_eq!(totals.rounds, 6, "{story}");
    assert!(totals.kills > 0 && totals.acknowledged > 0 && totals.checks > 0, "{story}");
}

#[test]
fn damage_would_be_noticed() {
    for (name, fault) in Fault::ALL {
        let folder = tempfile::tempdir().unwrap();
        // The first that is noticed is the last: a round may end before there is anybody to damage.
        let damaged = Options { fault: Some(fault), ..options(&folder, 50, 2) };
        let failure = run(&damaged, &mut |_| {}).expect_err(name);
        let text = failure.to_string();
        let want = match fault {
            Fault::Lost => "found none",
            Fault::Half => "description is as it was instead of",
            Fault::Extra => "there are several",
            Fault::Renamed => "uid=renamed",
        };
        assert!(text.contains(want), "{name}: {text}");
    }
}

fn log(folder: &tempfile::TempDir) -> String {
    std::fs::read_to_string(folder.path().join("log")).unwrap_or_default()
}
