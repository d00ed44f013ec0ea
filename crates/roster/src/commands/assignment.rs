//! `roster assignment`: what the server writes by itself when entries come to be of a kind.

use clap::{Args, Subcommand};
use client::Connection;

use super::lines::{AddOptions, DropOptions, Lines, ListOptions, name_of};
use crate::failure::{Exit, Failure};
use crate::output;

/// Show and change what a running server writes by itself: numbers, and memberships in groups.
///
/// An assignment is a line, 'NAME: KIND … [below DN] [where FILTER]'. Kinds are number and member;
/// docs/how-to/assignments.md explains them. It holds for entries that are added or changed from
/// then on; what was there before stays.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster assignment add 'uids: number uidNumber 10000..59999 where (objectClass=posixAccount)' -W
  roster assignment add 'cooks: member member of cn=cooks,dc=example,dc=com where (title=cook)' -W
  roster assignment list -W
  roster assignment drop staff -W";

#[derive(Debug, Subcommand)]
enum Action {
    /// List the assignments.
    List(ListOptions),
    /// Add assignments.
    Add(AddOptions),
    /// Remove assignments; what they wrote stays, and no number is given again.
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

/// Prints each with the number that comes next.
fn list(connection: &mut Connection) -> Result<Exit, Failure> {
    LINES.list(connection, false)?;
    for text in LINES.all(connection)? {
        let name = name_of(&text);
        let told = LINES.told(connection, name, &[NEXT])?;
        if let Some(next) = told.as_ref().and_then(|entry| entry.text(NEXT)) {
            output::note(format_args!("roster: {name}: the next number is {next}"));
        }
    }
    Ok(Exit::Done)
}

fn add(options: &AddOptions) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    LINES.add(&mut connection, options)?;
    for text in &options.lines {
        output::line(format_args!("{}: holds from now on", name_of(text)))?;
    }
    output::note(format_args!(
        "roster: note: it is about entries that are added or changed from now on"
    ));
    Ok(Exit::Done)
}

const LINES: Lines = Lines {
    config: "cn=Assignments,cn=config",
    attribute: "roster-assignment",
    monitor: Some("cn=Assignments,cn=monitor"),
    what: "assignment",
    change: "change of the assignments",
};
const NEXT: &str = "roster-assignment-next";
