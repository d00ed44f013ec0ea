//! `roster sink`: what the server sends where as it changes.

use clap::{Args, Subcommand};
use client::Connection;

use super::lines::{AddOptions, DropOptions, Lines, ListOptions, name_of};
use crate::failure::{Exit, Failure};
use crate::output;

/// Show and change where a running server sends its changes.
///
/// A sink is a line, 'NAME: KIND TARGET [OPTION=VALUE …] as DN [below DN] [where FILTER]'. Kinds
/// are file, webhook, nats and kafka; docs/how-to/sinks.md explains them. It is told what the
/// identity behind 'as' may read, which needs the privilege changelog-read.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster sink add 'log: file changes.jsonl as uid=sync,ou=services,dc=example,dc=com' -W
  roster sink list -W
  roster sink drop log -W";

#[derive(Debug, Subcommand)]
enum Action {
    /// List the sinks, each with what it does.
    List(ListOptions),
    /// Add sinks; each begins behind the last change, or where 'from=' says.
    Add(AddOptions),
    /// Remove sinks, and what is known of where they were.
    Drop(DropOptions),
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(ListOptions { json: true, server }) => {
            LINES.list(&mut server.connect()?, true)
        }
        Action::List(ListOptions { json: false, server }) => list(&mut server.connect()?),
        Action::Add(options) => add(options),
        Action::Drop(options) => LINES.drop(options),
    }
}

/// Prints each, and what it does on this server.
fn list(connection: &mut Connection) -> Result<Exit, Failure> {
    LINES.list(connection, false)?;
    for text in LINES.all(connection)? {
        let name = name_of(&text);
        let Some(entry) = LINES.told(connection, name, SHOWN)? else { continue };
        let number = |attribute| entry.text(attribute).unwrap_or("0").to_owned();
        let state = entry.text("roster-sink-state").unwrap_or("unknown");
        let (sent, dead) = (number("roster-sink-sent"), number("roster-sink-dead-letters"));
        let lag = number("roster-sink-lag-changes");
        let error = entry.text("roster-sink-error").map(|why| format!(": {why}"));
        let error = error.unwrap_or_default();
        output::note(format_args!(
            "roster: {name}: {state}, {sent} sent, {dead} dead letters, {lag} changes behind{error}"
        ));
    }
    Ok(Exit::Done)
}

fn add(options: &AddOptions) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    LINES.add(&mut connection, options)?;
    for text in &options.lines {
        output::line(format_args!("{}: begins", name_of(text)))?;
    }
    Ok(Exit::Done)
}

const LINES: Lines = Lines {
    config: "cn=Sinks,cn=config",
    attribute: "roster-sink",
    monitor: Some("cn=sinks,cn=monitor"),
    what: "sink",
    change: "change of the sinks",
};
const SHOWN: &[&str] = &[
    "roster-sink-state",
    "roster-sink-sent",
    "roster-sink-dead-letters",
    "roster-sink-lag-changes",
    "roster-sink-error",
];
