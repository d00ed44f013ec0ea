//! Faults that are planted in the cluster itself, so that a run shows that it would see them: it is
//! right when it fails.
//!
//! Invariant: what is built with a planted fault has a name of its own and is not left where the
//! product is built.

use std::fs;
use std::path::PathBuf;

use testing::cluster::{Fault, Rest, Totals, Victim};
use testing::crash::Failure;

use crate::Error;
use crate::shell::{cargo, roster_debug, step, target};

/// A fault that loses acknowledged writes.
#[derive(Debug)]
pub(super) struct Plant {
    /// As the command line names it.
    pub(super) name: &'static str,
    /// The rounds in which it must show.
    pub(super) faults: &'static [Fault],
    /// Settings of the nodes.
    environment: &'static [(&'static str, &'static str)],
    /// It is in a build of its own; else in what is around the nodes.
    is_built: bool,
    pub(super) syncs_lie: bool,
}

/// All of them.
pub(super) const PLANTS: [Plant; 2] = [
    Plant {
        name: "restores-leader",
        faults: &[
            Fault::Power(Victim::Leader, Rest::Short),
            Fault::Kill(Victim::Leader, Rest::Short),
        ],
        // A leader that is started again leads before the others elect one.
        environment: &[
            ("PLANTED_RESTORES_LEADER", "1"),
            ("ROSTER_CLUSTER__FAILOVER_AFTER_MS", "20000"),
        ],
        is_built: true,
        syncs_lie: false,
    },
    Plant {
        name: "lying-syncs",
        faults: &[Fault::Power(Victim::All, Rest::Short), Fault::Power(Victim::All, Rest::Long)],
        environment: &[],
        is_built: false,
        syncs_lie: true,
    },
];

impl Plant {
    pub(super) fn named(name: &str) -> Result<&'static Self, Error> {
        let names: Vec<&str> = PLANTS.iter().map(|plant| plant.name).collect();
        let usage = || Error::usage(format!("--plant is one of {}", names.join(", ")));
        PLANTS.iter().find(|plant| plant.name == name).ok_or_else(usage)
    }

    /// The program that has it.
    pub(super) fn build(&self) -> Result<PathBuf, Error> {
        if !self.is_built {
            return roster_debug();
        }
        let words = ["build", "--quiet", "--package", "roster", "--features", "planted-faults"];
        step("a server with planted faults", cargo(&words))?;
        let (built, planted) =
            (target().join("debug/roster"), target().join("debug/roster-planted"));
        fs::rename(&built, &planted)
            .map_err(|error| Error::Wrong(format!("{}: {error}", built.display())))?;
        Ok(planted)
    }

    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.environment.iter().map(owned).collect()
    }

    /// Whether the run saw it: that is right, and all else is wrong.
    pub(super) fn judge(&self, seed: u64, done: Result<Totals, Failure>) -> Result<(), Error> {
        let name = self.name;
        match done {
            Err(failure) if failure.round > 0 => {
                println!("{failure}");
                let round = failure.round;
                println!("xtask: cluster: seed {seed}: '{name}' is seen, in round {round}");
                Ok(())
            }
            Err(failure) => {
                Err(Error::Wrong(format!("cluster: '{name}': at the start: {failure}")))
            }
            Ok(totals) => {
                let rounds = totals.rounds;
                Err(Error::Wrong(format!(
                    "cluster: seed {seed}: '{name}' loses acknowledged writes, and {rounds} rounds \
                     have not seen it"
                )))
            }
        }
    }
}
