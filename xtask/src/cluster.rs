//! `cargo xtask cluster`: has the nodes of a real cluster fail under load, and their network,
//! disks, clocks and files, many times, and compares what each holds afterwards with what was
//! acknowledged.

mod plant;

use std::path::PathBuf;
use std::time::Duration;

use testing::cluster::{Fault, KINDS, Kind, Options, Until, clean, missing, run as run_rounds};
use testing::crash::server::{Place, scratch};

use self::plant::Plant;
use crate::shell::{self, roster, roster_debug};
use crate::{Error, options, release_before};

/// Rounds unless told otherwise; about three seconds each.
const DEFAULT_ROUNDS: u64 = 30;
/// Rounds in which a planted fault must be seen.
const PLANT_ROUNDS: u64 = 20;
/// Nodes unless told otherwise.
const DEFAULT_NODES: u64 = 3;
/// Concurrent clients unless told otherwise.
const DEFAULT_CLIENTS: u64 = 6;
/// The longest time for which a node is frozen, in seconds.
const DEFAULT_PAUSE_S: u64 = 60;
/// What takes turns unless told otherwise: it takes neither root nor a tool.
const DEFAULT_FAULTS: &str = "kill,pause";
/// How many nodes there may be.
const NODES: [u64; 2] = [3, 5];

/// What the command line says.
#[derive(Debug)]
struct Asked {
    nodes: u64,
    rounds: Option<u64>,
    /// How long, instead of rounds.
    minutes: Option<u64>,
    /// Members are compared after each round.
    verifies: bool,
    before: Before,
    seed: u64,
    clients: u64,
    pause_s: u64,
    /// The release build instead of the debug build.
    release: bool,
    roster: Option<PathBuf>,
    folder: PathBuf,
    kinds: Vec<Kind>,
    /// Only faults whose names have this in them.
    only: String,
    /// What loses acknowledged writes, which the run must see.
    plant: Option<&'static Plant>,
}

/// From what upgrades are.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Before {
    /// The same program: nodes are only restarted.
    Same,
    /// The release before, built from source.
    Built,
    At(PathBuf),
}

impl Asked {
    fn faults(&self) -> Vec<Fault> {
        let of_kinds = || self.kinds.iter().flat_map(|kind| kind.with_nodes(self.nodes as usize));
        let all = self.plant.map_or_else(|| of_kinds().collect(), |plant| plant.faults.to_vec());
        all.into_iter().filter(|fault| fault.to_string().contains(&self.only)).collect()
    }
}

/// Runs the rounds that `arguments` ask for.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    let faults = asked.faults();
    if faults.is_empty() {
        return Err(Error::usage(format!("none of these faults has '{}' in its name", asked.only)));
    }
    if let Some(reason) = missing(&faults) {
        let hint = format!("--faults {DEFAULT_FAULTS} takes nothing");
        return Err(Error::Unable { reason, hint });
    }
    let options = asked.options(faults)?;
    asked.tell(&options);
    let mut done = None;
    shell::timed("cluster", || {
        done = Some(run_rounds(&options, &mut |line| println!("{line}")));
        Ok(())
    })?;
    if let Some(plant) = asked.plant {
        let seen = done.map_or(Ok(()), |done| plant.judge(asked.seed, done));
        return seen.inspect(|()| clean(&options.place));
    }
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
                 in {}; images of disks can be mounted with 'mount -o loop'",
                asked.seed,
                asked.folder.display()
            )))
        }
        None => Ok(()),
    }
}

impl Asked {
    fn tell(&self, options: &Options) {
        println!("xtask: cluster: seed {}, data in {}", self.seed, self.folder.display());
        let upgrades = options.faults.iter().any(|fault| matches!(fault, Fault::Upgrade(_)));
        match &options.before {
            Some(before) => println!("xtask: cluster: the release before: {}", before.display()),
            None if upgrades => println!(
                "xtask: cluster: no release before (--before): an upgrade restarts nodes with the \
                 same program"
            ),
            None => {}
        }
    }

    /// Builds the program, if there is none; what the run is told.
    fn options(&self, faults: Vec<Fault>) -> Result<Options, Error> {
        let build = || match self.plant {
            Some(plant) => plant.build(),
            None if self.release => roster(),
            None => roster_debug(),
        };
        let roster = self.roster.clone().map_or_else(build, Ok)?;
        let environment = self.plant.map(Plant::environment).unwrap_or_default();
        let rounds = if self.plant.is_some() { PLANT_ROUNDS } else { DEFAULT_ROUNDS };
        let rounds = Until::Rounds(self.rounds.unwrap_or(rounds));
        let before = match &self.before {
            Before::Same => None,
            Before::Built => Some(release_before::build()?),
            Before::At(path) => Some(path.clone()),
        };
        Ok(Options {
            place: Place { roster, folder: self.folder.clone(), environment },
            nodes: self.nodes as usize,
            until: self.minutes.map_or(rounds, |it| Until::Time(Duration::from_secs(60 * it))),
            seed: self.seed,
            clients: self.clients as usize,
            pause_max: Duration::from_secs(self.pause_s),
            faults,
            judges_each: self.plant.is_some(),
            syncs_lie: self.plant.is_some_and(|plant| plant.syncs_lie),
            verifies: self.verifies || self.minutes.is_some(),
            before,
        })
    }
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let mut asked = Asked {
        nodes: DEFAULT_NODES,
        rounds: None,
        minutes: None,
        verifies: false,
        before: Before::Same,
        seed: u64::from(std::process::id()),
        clients: DEFAULT_CLIENTS,
        pause_s: DEFAULT_PAUSE_S,
        release: false,
        roster: None,
        folder: scratch("cluster"),
        kinds: kinds(DEFAULT_FAULTS)?,
        only: String::new(),
        plant: None,
    };
    options::read(arguments, |name, value| {
        match name {
            "--nodes" => {
                let nodes = value.number()?;
                let usage = || Error::usage("--nodes is 3 or 5");
                asked.nodes =
                    Some(nodes).filter(|nodes| NODES.contains(nodes)).ok_or_else(usage)?;
            }
            "--faults" => asked.kinds = kinds(&value.text()?)?,
            "--only" => asked.only = value.text()?,
            "--rounds" => asked.rounds = Some(value.number()?),
            "--minutes" => asked.minutes = Some(value.number()?),
            "--verify" => asked.verifies = true,
            "--before" => asked.before = value.path_if_any().map_or(Before::Built, Before::At),
            "--plant" => asked.plant = Some(Plant::named(&value.text()?)?),
            "--seed" => asked.seed = value.number()?,
            "--clients" => asked.clients = value.number()?,
            "--pause-max" => asked.pause_s = value.number()?,
            "--release" => asked.release = true,
            "--roster" => asked.roster = Some(value.path()?),
            "--folder" => asked.folder = value.path()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match (asked.rounds, asked.minutes) {
        (Some(_), Some(_)) => Err(Error::usage("--rounds or --minutes, not both")),
        _ => Ok(asked),
    }
}

/// The kinds that a list names.
fn kinds(text: &str) -> Result<Vec<Kind>, Error> {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let usage = || Error::usage(format!("--faults takes some of {}", names.join(",")));
    text.split(',').map(|name| Kind::named(name).ok_or_else(usage)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_values() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = parse(&words("--nodes 5 --faults pause --rounds 7 --seed 3")).unwrap();
        assert_eq!((asked.nodes, asked.rounds, asked.seed), (5, Some(7), 3));
        assert_eq!(asked.faults().len(), 3);
        let one = parse(&["--only".to_owned(), "kill all, long".to_owned()]).unwrap();
        assert_eq!(one.faults().len(), 1);
        assert_eq!(parse(&[]).unwrap().faults().len(), 8);
        assert_eq!(parse(&words("--faults partition,disk")).unwrap().faults().len(), 11);
        assert_eq!(parse(&words("--faults power,eio")).unwrap().faults().len(), 10);
        let planted = parse(&words("--plant lying-syncs --roster /r")).unwrap();
        let until = |asked: &Asked| asked.options(asked.faults()).unwrap().until;
        assert_eq!(until(&planted), Until::Rounds(20));
        let long = parse(&words("--minutes 90 --before --faults members --roster /r")).unwrap();
        assert_eq!((long.before, long.minutes), (Before::Built, Some(90)));
        let long = parse(&words("--minutes 90 --before /b --roster /r")).unwrap();
        let options = long.options(long.faults()).unwrap();
        assert_eq!((options.before, options.verifies), (Some("/b".into()), true));
        assert_eq!(options.until, Until::Time(Duration::from_secs(5400)));
        for wrong in [
            "--plant none",
            "--nodes 4",
            "--rounds x",
            "--faults none",
            "--faults kill,",
            "more 1",
            "--rounds 1 --minutes 1",
        ] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
