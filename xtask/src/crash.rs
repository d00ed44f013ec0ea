//! `cargo xtask crash`: kills a real server at random moments under load, many times, and compares
//! what is there afterwards with what was acknowledged.

use std::path::PathBuf;
use std::time::Duration;

use testing::crash::server::{Place, scratch};
use testing::crash::{Fault, Options, clean, run as run_rounds};

use crate::shell::{self, roster};
use crate::{Error, options};

/// Rounds unless told otherwise; about a second each.
const DEFAULT_ROUNDS: u64 = 300;
/// Concurrent clients unless told otherwise.
const DEFAULT_CLIENTS: usize = 8;
/// Entries of each client.
const PEOPLE: usize = 40;
/// The longest time under load in a round.
const LOAD_MAX: Duration = Duration::from_millis(700);
/// Offline checks.
const CHECK_EVERY: u64 = 10;

/// What the command line says.
#[derive(Debug)]
struct Asked {
    rounds: u64,
    seed: u64,
    clients: usize,
    roster: Option<PathBuf>,
    folder: PathBuf,
    fault: Option<Fault>,
}

/// Runs the rounds that `arguments` ask for.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    let program = asked.roster.clone().map_or_else(roster, Ok)?;
    let place = Place { roster: program, folder: asked.folder.clone(), environment: Vec::new() };
    let options = Options {
        place,
        rounds: asked.rounds,
        seed: asked.seed,
        clients: asked.clients,
        people: PEOPLE,
        load_max: LOAD_MAX,
        check_every: CHECK_EVERY,
        variants: testing::crash::variants(),
        fault: asked.fault,
    };
    println!("xtask: crash: seed {}, data in {}", asked.seed, asked.folder.display());
    let mut totals = None;
    let mut failure = None;
    shell::timed("crash", || {
        match run_rounds(&options, &mut |line| println!("{line}")) {
            Ok(sums) => totals = Some(sums),
            Err(error) => failure = Some(error),
        }
        Ok(())
    })?;
    if let Some(totals) = totals {
        println!("xtask: crash: {totals}");
        clean(&asked.folder);
        return Ok(());
    }
    if let Some(failure) = &failure {
        println!("{failure}");
    }
    println!("the server's log ends with:\n{}", options.place.log_tail());
    let folder = asked.folder.display();
    Err(Error::Wrong(format!(
        "crash: seed {}: not what was acknowledged; the data are kept in {folder}/data, and as \
         they were before the last start in {folder}/before-restart",
        asked.seed
    )))
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let mut asked = Asked {
        rounds: DEFAULT_ROUNDS,
        seed: u64::from(std::process::id()),
        clients: DEFAULT_CLIENTS,
        roster: None,
        folder: scratch("crash"),
        fault: None,
    };
    options::read(arguments, |name, value| {
        match name {
            "--rounds" => asked.rounds = value.number()?,
            "--seed" => asked.seed = value.number()?,
            "--clients" => {
                asked.clients = usize::try_from(value.number()?).unwrap_or(DEFAULT_CLIENTS);
            }
            "--roster" => asked.roster = Some(value.path()?),
            "--folder" => asked.folder = value.path()?,
            "--fault" => {
                let text = value.text()?;
                let fault = Fault::ALL.iter().find(|(name, _)| *name == text);
                let names: Vec<&str> = Fault::ALL.iter().map(|(name, _)| *name).collect();
                let usage = || Error::usage(format!("--fault is one of {}", names.join(", ")));
                asked.fault = Some(fault.ok_or_else(usage)?.1);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_values() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = parse(&words("--rounds 7 --seed 3 --fault half")).unwrap();
        assert_eq!((asked.rounds, asked.seed, asked.fault), (7, 3, Some(Fault::Half)));
        for wrong in ["--rounds", "--rounds x", "--fault none", "more 1"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
