//! `cargo xtask cluster`: kills and freezes the nodes of a real cluster under load, many times, and
//! compares what each holds afterwards with what was acknowledged.

use std::path::PathBuf;

use testing::cluster::{Fault, Options, clean, run as run_rounds};
use testing::crash::server::{Place, scratch};

use crate::shell::{self, roster};
use crate::{Error, options};

/// Rounds unless told otherwise; about three seconds each.
const DEFAULT_ROUNDS: u64 = 30;
/// Nodes unless told otherwise.
const DEFAULT_NODES: u64 = 3;
/// Concurrent clients unless told otherwise.
const DEFAULT_CLIENTS: u64 = 6;
/// How many nodes there may be.
const NODES: [u64; 2] = [3, 5];

/// What the command line says.
#[derive(Debug)]
struct Asked {
    nodes: u64,
    rounds: u64,
    seed: u64,
    clients: u64,
    roster: Option<PathBuf>,
    folder: PathBuf,
    faults: Vec<Fault>,
}

/// Runs the rounds that `arguments` ask for.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    let program = asked.roster.clone().map_or_else(roster, Ok)?;
    let place = Place { roster: program, folder: asked.folder.clone(), environment: Vec::new() };
    let options = Options {
        place,
        nodes: asked.nodes as usize,
        rounds: asked.rounds,
        seed: asked.seed,
        clients: asked.clients as usize,
        faults: asked.faults,
    };
    println!("xtask: cluster: seed {}, data in {}", asked.seed, asked.folder.display());
    let mut done = None;
    shell::timed("cluster", || {
        done = Some(run_rounds(&options, &mut |line| println!("{line}")));
        Ok(())
    })?;
    match done {
        Some(Ok(totals)) => {
            println!("xtask: cluster: seed {}: {totals}", asked.seed);
            clean(&options.place);
            Ok(())
        }
        Some(Err(failure)) => {
            println!("{failure}");
            Err(Error::Wrong(format!(
                "cluster: seed {}: not as it must be; the data and the logs of the nodes are kept \
                 in {}/data",
                asked.seed,
                asked.folder.display()
            )))
        }
        None => Ok(()),
    }
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let mut asked = Asked {
        nodes: DEFAULT_NODES,
        rounds: DEFAULT_ROUNDS,
        seed: u64::from(std::process::id()),
        clients: DEFAULT_CLIENTS,
        roster: None,
        folder: scratch("cluster"),
        faults: Fault::KINDS.iter().flat_map(|(_, faults)| faults.iter().copied()).collect(),
    };
    options::read(arguments, |name, value| {
        match name {
            "--nodes" => {
                let nodes = value.number()?;
                let usage = || Error::usage("--nodes is 3 or 5");
                asked.nodes =
                    Some(nodes).filter(|nodes| NODES.contains(nodes)).ok_or_else(usage)?;
            }
            "--faults" => asked.faults = kinds(&value.text()?)?,
            "--rounds" => asked.rounds = value.number()?,
            "--seed" => asked.seed = value.number()?,
            "--clients" => asked.clients = value.number()?,
            "--roster" => asked.roster = Some(value.path()?),
            "--folder" => asked.folder = value.path()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(asked)
}

/// The faults of the kinds that a list names.
fn kinds(text: &str) -> Result<Vec<Fault>, Error> {
    let mut faults = Vec::new();
    for name in text.split(',') {
        let kind = Fault::KINDS.iter().find(|(known, _)| *known == name);
        let names: Vec<&str> = Fault::KINDS.iter().map(|(name, _)| *name).collect();
        let usage = || Error::usage(format!("--faults takes some of {}", names.join(",")));
        faults.extend_from_slice(kind.ok_or_else(usage)?.1);
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_values() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = parse(&words("--nodes 5 --faults pause --rounds 7 --seed 3")).unwrap();
        assert_eq!((asked.nodes, asked.rounds, asked.seed, asked.faults.len()), (5, 7, 3, 2));
        assert_eq!(parse(&words("--faults kill,pause")).unwrap().faults.len(), 8);
        for wrong in ["--nodes 4", "--rounds x", "--faults none", "--faults kill,", "more 1"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
