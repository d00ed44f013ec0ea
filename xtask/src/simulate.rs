//! `cargo xtask simulate`: the simulation of the crate `cluster` with many seeds, or with one of
//! them again.

use crate::shell;
use crate::{Error, options};

/// Nodes unless told otherwise.
const DEFAULT_NODES: u64 = 3;
/// Seeds unless told otherwise.
const DEFAULT_SEEDS: (u64, u64) = (0, 1000);
/// How many nodes there may be, and the test that simulates them.
const TESTS: [(u64, &str); 2] = [
    (3, "simulation::three_nodes_lose_nothing_and_agree"),
    (5, "simulation::five_nodes_lose_nothing_and_agree"),
];
/// The test that changes the members meanwhile; it begins with three.
const CHANGES: &str = "simulation::members_that_change_lose_nothing_and_agree";

/// The tests in which members get copies of the data, without changes of the members and with them.
const COPIES: [&str; 2] = [
    "simulation::members_that_get_copies_lose_nothing_and_agree",
    "simulation::members_that_change_and_get_copies_lose_nothing_and_agree",
];

/// What the command line says.
#[derive(Debug)]
struct Asked {
    test: &'static str,
    /// The first seed, and the one behind the last.
    seeds: (u64, u64),
    is_traced: bool,
}

/// Runs the seeds that `arguments` ask for.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let Asked { test, seeds: (from, to), is_traced } = parse(arguments)?;
    let built = ["test", "--quiet", "--package", "cluster", "--lib", "--no-run"];
    shell::step("the simulation", shell::cargo(&built))?;
    let mut command = shell::cargo(&["test", "--quiet", "--package", "cluster", "--lib", "--"]);
    command.args(["--exact", test, "--nocapture"]);
    command.env("ROSTER_SIMULATION_SEEDS", format!("{from}..{to}"));
    if is_traced {
        command.env("ROSTER_SIMULATION_TRACE", "1");
    }
    shell::step(&format!("seeds {from} to {}", to - 1), command)
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let (mut nodes, mut seeds, mut is_traced) = (DEFAULT_NODES, DEFAULT_SEEDS, false);
    let (mut changes, mut copies) = (false, false);
    options::read(arguments, |name, value| {
        match name {
            "--nodes" => nodes = value.number()?,
            "--seeds" | "--seed" => seeds = range(&value.text()?)?,
            "--trace" => is_traced = true,
            "--changes" => changes = true,
            "--copies" => copies = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let test = TESTS.iter().find(|(known, _)| *known == nodes).map(|(_, test)| *test);
    if (changes || copies) && nodes != DEFAULT_NODES {
        return Err(Error::usage("--changes and --copies begin with 3 nodes"));
    }
    let [copying, copying_and_changing] = COPIES;
    let test = match (copies, changes) {
        (true, true) => copying_and_changing,
        (true, false) => copying,
        (false, true) => CHANGES,
        (false, false) => test.ok_or_else(|| Error::usage("--nodes is 3 or 5"))?,
    };
    Ok(Asked { test, seeds, is_traced })
}

/// The seeds of `7..9`, or of `7`.
fn range(text: &str) -> Result<(u64, u64), Error> {
    let parsed = match text.split_once("..") {
        Some((from, to)) => from.parse().ok().zip(to.parse().ok()),
        None => text.parse().ok().map(|seed: u64| (seed, seed.saturating_add(1))),
    };
    let usage = || Error::usage("seeds are a number, or FROM..TO, without TO");
    parsed.filter(|(from, to)| from < to).ok_or_else(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = parse(&words("--nodes 5 --seed 0 --trace")).unwrap();
        assert_eq!((asked.test, asked.seeds, asked.is_traced), (TESTS[1].1, (0, 1), true));
        assert_eq!(parse(&words("--seeds 7..20")).unwrap().seeds, (7, 20));
        assert_eq!(parse(&words("--changes --seed 3")).unwrap().test, CHANGES);
        assert_eq!(parse(&words("--copies --seed 3")).unwrap().test, COPIES[0]);
        assert_eq!(parse(&words("--copies --changes --seed 3")).unwrap().test, COPIES[1]);
        for wrong in
            ["--nodes 4", "--seeds 7..7", "--seeds x..9", "--seed", "more", "--changes --nodes 5"]
        {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
