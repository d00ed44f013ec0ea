//! `roster virtual-attribute`: what entries have without storing it.

use clap::{Args, Subcommand};

use super::lines::{Lines, name_of};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// Show and change what entries of a running server have without storing it.
///
/// A virtual attribute is a line, 'NAME: KIND … [default|override|merge] [below DN] [where
/// FILTER]'. Kinds are constant, superior, reference and template;
/// docs/how-to/virtual-attributes.md explains them. What it gives is seen at once.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster virtual-attribute add 'o: constant o (Example Ltd.) where (objectClass=person)' -W
  roster virtual-attribute add 'l: superior l from l below ou=people,dc=example,dc=com' -W
  roster virtual-attribute list -W
  roster virtual-attribute drop o -W";

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Add(Add),
    Drop(Drop),
}

/// List the virtual attributes.
#[derive(Args, Debug)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Add virtual attributes.
#[derive(Args, Debug)]
struct Add {
    /// The virtual attributes, each a line
    #[arg(value_name = "LINE", required = true)]
    lines: Vec<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Remove virtual attributes.
#[derive(Args, Debug)]
struct Drop {
    /// The virtual attributes, by name
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(List { json, server }) => LINES.list(&mut server.connect()?, *json),
        Action::Add(Add { lines, server }) => {
            LINES.add(&mut server.connect()?, lines)?;
            for text in lines {
                output::line(format_args!("{}: holds from now on", name_of(text)))?;
            }
            Ok(Exit::Done)
        }
        Action::Drop(Drop { names, server }) => LINES.drop(&mut server.connect()?, names),
    }
}

const LINES: Lines = Lines {
    config: "cn=Virtual Attributes,cn=config",
    attribute: "roster-virtual-attribute",
    what: "virtual attribute",
    change: "change of the virtual attributes",
};
