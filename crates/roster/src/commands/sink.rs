//! `roster sink`: what the server sends where as it changes.

use clap::{Args, Subcommand};
use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;

use super::lines::{Lines, name_of};
use crate::connect::ServerOptions;
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
    List(List),
    Add(Add),
    Drop(Drop),
}

/// List the sinks, each with what it does.
#[derive(Args, Debug)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Add sinks; each begins behind the last change, or where 'from=' says.
#[derive(Args, Debug)]
struct Add {
    /// The sinks, each a line
    #[arg(value_name = "SINK", required = true)]
    sinks: Vec<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Remove sinks, and what is known of where they were.
#[derive(Args, Debug)]
struct Drop {
    /// The sinks, by name
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(List { json: true, server }) => LINES.list(&mut server.connect()?, true),
        Action::List(List { json: false, server }) => list(&mut server.connect()?),
        Action::Add(Add { sinks, server }) => add(&mut server.connect()?, sinks),
        Action::Drop(Drop { names, server }) => LINES.drop(&mut server.connect()?, names),
    }
}

/// Prints each, and what it does on this server.
fn list(connection: &mut Connection) -> Result<Exit, Failure> {
    LINES.list(connection, false)?;
    for text in LINES.all(connection)? {
        let name = name_of(&text);
        let base = format!("cn={name},{MONITOR}");
        let asked = SearchFor {
            scope: Scope::Base,
            attributes: SHOWN,
            ..SearchFor::below(&base, Filter::Present("objectClass"))
        };
        let found = connection.search(&asked)?;
        let Some(entry) = found.entries.first() else { continue };
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

fn add(connection: &mut Connection, added: &[String]) -> Result<Exit, Failure> {
    LINES.add(connection, added)?;
    for text in added {
        output::line(format_args!("{}: begins", name_of(text)))?;
    }
    Ok(Exit::Done)
}

const LINES: Lines = Lines {
    config: "cn=Sinks,cn=config",
    attribute: "roster-sink",
    what: "sink",
    change: "change of the sinks",
};
const MONITOR: &str = "cn=sinks,cn=monitor";
const SHOWN: &[&str] = &[
    "roster-sink-state",
    "roster-sink-sent",
    "roster-sink-dead-letters",
    "roster-sink-lag-changes",
    "roster-sink-error",
];
