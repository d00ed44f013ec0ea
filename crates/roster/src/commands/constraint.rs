//! `roster constraint`: what values of entries must be like, beyond the schema.

use clap::{Args, Subcommand};
use client::Connection;

use super::lines::{AddOptions, DropOptions, Lines, ListOptions, name_of};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress;

/// Show and change the constraints of a running server, and find the entries that break them.
///
/// A constraint is a line, 'NAME: KIND ATTRIBUTES … [below DN] [where FILTER]'. Kinds are unique,
/// pattern, values, length, count and ascii; docs/how-to/constraints.md explains them. Changes that
/// break one are refused with constraintViolation (19). What was there before stays: 'add' and
/// 'check' list it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster constraint add 'one-mail: unique mail below ou=people,dc=example,dc=com' -W
  roster constraint add 'uids: pattern uid /[a-z][a-z0-9]{2,15}/' -W
  roster constraint add 'kinds: values employeeType (staff|contractor)' -W
  roster constraint list -W
  roster constraint check -W
  roster constraint drop one-mail -W";

#[derive(Debug, Subcommand)]
enum Action {
    /// List the constraints.
    List(ListOptions),
    /// Add constraints, and list the entries that break them.
    Add(AddOptions),
    /// Remove constraints.
    Drop(DropOptions),
    Check(Check),
}

/// List the entries that break constraints; exits with code 1 if there are any.
#[derive(Args, Debug)]
struct Check {
    /// Only these, by name
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(ListOptions { json, server }) => LINES.list(&mut server.connect()?, *json),
        Action::Add(options) => add(options),
        Action::Drop(options) => LINES.drop(options),
        Action::Check(Check { names, server }) => check(&mut server.connect_patiently()?, names),
    }
}

fn add(options: &AddOptions) -> Result<Exit, Failure> {
    let mut connection = options.server.connect_patiently()?;
    LINES.add(&mut connection, options)?;
    let mut broken = 0;
    for text in &options.lines {
        output::line(format_args!("{}: holds from now on", name_of(text)))?;
        broken += look(&mut connection, name_of(text))?;
    }
    if broken > 0 {
        output::note(format_args!(
            "roster: note: what is there stays, and can be changed as long as nothing worse comes; \
             'roster constraint check' lists it again"
        ));
    }
    Ok(Exit::Done)
}

fn check(connection: &mut Connection, names: &[String]) -> Result<Exit, Failure> {
    let mut broken = 0;
    for text in &LINES.named(connection, names)? {
        broken += look(connection, name_of(text))?;
    }
    if broken > 0 {
        return Err(Failure::refused("constraints are broken, as listed above")
            .hint("change those entries; the constraints hold for changes alone"));
    }
    Ok(Exit::Done)
}

/// Prints which entries break a constraint; how many.
fn look(connection: &mut Connection, name: &str) -> Result<u64, Failure> {
    let bar = progress::bar(None, "");
    bar.set_message(format!("{name}: looking at the entries"));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let told = LINES.told(connection, name, &[LOOKED_AT, COUNT, LISTED]);
    bar.finish_and_clear();
    let entry = told?.ok_or_else(|| {
        Failure::refused(format!("the server tells nothing of constraint '{name}'"))
    })?;
    let number = |name: &str| entry.text(name).and_then(|text| text.parse::<u64>().ok());
    let (looked_at, count) = (number(LOOKED_AT).unwrap_or(0), number(COUNT).unwrap_or(0));
    let listed: Vec<&str> = entry.texts(LISTED).collect();
    for line in &listed {
        output::line(format_args!("  {line}"))?;
    }
    let more = count.saturating_sub(listed.len() as u64);
    if more > 0 {
        output::line(format_args!("  and {more} more"))?;
    }
    output::line(format_args!("{name}: {count} of {looked_at} entries break it"))?;
    if looked_at == 0 {
        output::note(format_args!(
            "roster: note: there is no entry yet for which '{name}' holds: are 'below' and 'where' \
             as you meant them?"
        ));
    }
    Ok(count)
}

const LINES: Lines = Lines {
    config: "cn=Constraints,cn=config",
    attribute: "roster-constraint",
    monitor: Some("cn=Constraints,cn=monitor"),
    what: "constraint",
    change: "change of the constraints",
};
const LOOKED_AT: &str = "roster-constraint-looked-at";
const COUNT: &str = "roster-constraint-violations";
const LISTED: &str = "roster-constraint-violation";
