//! `roster virtual-attribute`: what entries have without storing it.

use clap::{Args, Subcommand};

use super::lines::{AddOptions, DropOptions, Lines, ListOptions, name_of};
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
    /// List the virtual attributes.
    List(ListOptions),
    /// Add virtual attributes.
    Add(AddOptions),
    /// Remove virtual attributes.
    Drop(DropOptions),
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(ListOptions { json, server }) => LINES.list(&mut server.connect()?, *json),
        Action::Add(options) => {
            LINES.add(&mut options.server.connect()?, options)?;
            for text in &options.lines {
                output::line(format_args!("{}: holds from now on", name_of(text)))?;
            }
            Ok(Exit::Done)
        }
        Action::Drop(options) => LINES.drop(options),
    }
}

const LINES: Lines = Lines {
    config: "cn=Virtual Attributes,cn=config",
    attribute: "roster-virtual-attribute",
    monitor: None,
    what: "virtual attribute",
    change: "change of the virtual attributes",
};
