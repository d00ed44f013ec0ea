//! `roster index`: the indexes of a running server, or of a data directory.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use client::Connection;

use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::index::{advise, change, offline, status, verify};

/// Show and change the indexes of a running server, or of a data directory.
///
/// An index is named as 'roster index status' shows it (uid.equality), or by its definition
/// ('equality uid'). Kinds are presence, equality, ordering, substring, approximate and extensible.
/// Indexes are built and dropped while the server runs; searches use an index when all entries are
/// in it. If no server runs, name the data directory with --data.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster index status -W
  roster index add 'substring description' --wait -W
  roster index add 'equality l with title' -W
  roster index add 'equality uid where (objectClass=person)' -W
  roster index rebuild uid.equality -W
  roster index add 'substring description' --data ./data
  roster index advise -H ldapi://%2Frun%2Froster%2Fldapi";

#[derive(Debug, Subcommand)]
enum Action {
    Status(Status),
    Verify(Verify),
    Rebuild(Rebuild),
    Add(Add),
    Drop(Drop),
    Advise(Advise),
}

/// List the indexes: keys, entries, size, state.
#[derive(Args, Debug)]
struct Status {
    /// Only these indexes
    #[arg(value_name = "INDEX")]
    indexes: Vec<String>,

    /// Also show the keys that most entries have
    #[arg(long)]
    popular: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: IndexLocation,
}

/// Compare indexes with the entries; exits with code 1 if something is wrong.
#[derive(Args, Debug)]
struct Verify {
    /// Only these indexes; all by default
    #[arg(value_name = "INDEX")]
    indexes: Vec<String>,

    #[command(flatten)]
    place: IndexLocation,
}

/// Rebuild indexes; the old ones are used until the new ones are complete.
#[derive(Args, Debug)]
struct Rebuild {
    /// The indexes
    #[arg(value_name = "INDEX", required = true)]
    indexes: Vec<String>,

    #[command(flatten)]
    change: Change,
}

/// Add indexes.
#[derive(Args, Debug)]
struct Add {
    /// The definitions, such as 'substring description'
    #[arg(value_name = "DEFINITION", required = true)]
    indexes: Vec<String>,

    /// Pass over those that are there already
    #[arg(long)]
    if_missing: bool,

    #[command(flatten)]
    change: Change,
}

/// Drop indexes.
#[derive(Args, Debug)]
struct Drop {
    /// The indexes
    #[arg(value_name = "INDEX", required = true)]
    indexes: Vec<String>,

    #[command(flatten)]
    change: Change,
}

/// Recommend indexes to add and to drop, based on recent searches.
#[derive(Args, Debug)]
struct Advise {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// What every change has.
#[derive(Args, Debug)]
struct Change {
    /// Return when it is done, and show the progress; always with --data
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    place: IndexLocation,
}

/// Where the indexes are, or naming contexts.
#[derive(Args, Debug)]
pub(super) struct IndexLocation {
    /// A data directory that no server uses, instead of a running server
    #[arg(short, long, value_name = "DIR", conflicts_with_all = ["password", "start_tls"])]
    data: Option<PathBuf>,

    #[command(flatten)]
    server: ServerOptions,
}

impl IndexLocation {
    pub(super) fn ask<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match &self.data {
            Some(data) => offline::with_server(data, work),
            None => work(&mut self.server.connect_patiently()?),
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::Status(Status { indexes, popular, json, place }) => {
            place.ask(|connection| status::run(connection, indexes, *popular, *json))
        }
        Action::Verify(Verify { indexes, place }) => {
            place.ask(|connection| verify::run(connection, indexes))
        }
        Action::Advise(Advise { json, server }) => advise::run(&mut server.connect()?, *json),
        Action::Rebuild(Rebuild { indexes, change }) => change.run(change::What::Rebuild, indexes),
        Action::Add(Add { indexes, if_missing: false, change }) => {
            change.run(change::What::Add, indexes)
        }
        Action::Add(Add { indexes, if_missing: true, change }) => {
            change.run(change::What::AddMissing, indexes)
        }
        Action::Drop(Drop { indexes, change }) => change.run(change::What::Drop, indexes),
    }
}

impl Change {
    fn run(&self, what: change::What, indexes: &[String]) -> Result<Exit, Failure> {
        // Before anybody is asked for a password.
        let parsed = indexes.iter().map(|text| change::Definition::parse(text));
        let definitions = parsed.collect::<Result<Vec<_>, _>>()?;
        let waits = self.wait || self.place.data.is_some();
        self.place.ask(|connection| change::run(connection, what, &definitions, waits))
    }
}
