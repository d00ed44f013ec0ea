//! `roster config export`, `plan` and `apply`: the configuration as one file says it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use client::Connection;

use crate::configuration::file::{Desired, FILE_MAX_BYTES};
use crate::configuration::plan::{Plan, Present};
use crate::configuration::requests::{self, MessageOption};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::index::change;
use crate::output;

/// What is written.
#[derive(Args, Debug)]
pub(super) struct Export {
    /// Also settings that are as by default
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// What is compared.
#[derive(Args, Debug)]
pub(super) struct PlanOptions {
    /// The file; '-' is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Exit with code 1 if something differs
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// What is made so.
#[derive(Args, Debug)]
pub(super) struct Apply {
    /// The file; '-' is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    server: ServerOptions,
}

/// Writes the configuration as a file.
pub(super) fn export(options: &Export) -> Result<Exit, Failure> {
    let present = Present::ask(&mut options.server.connect()?)?;
    let mut out = output::out();
    out.write_all(present.desired(options.all).text().as_bytes())?;
    out.flush()?;
    Ok(Exit::Done)
}

/// Shows what differs from a file.
pub(super) fn plan(options: &PlanOptions) -> Result<Exit, Failure> {
    let desired = read(&options.file)?;
    let mut connection = options.server.connect()?;
    let plan = Plan::of(&Present::ask(&mut connection)?, &desired);
    show(&mut connection, &plan, &desired)?;
    if plan.is_empty() {
        output::line(format_args!("nothing to change"))?;
        return Ok(Exit::Done);
    }
    output::note(format_args!(
        "roster: {} to change; 'roster config apply {}' changes them",
        plan.count(),
        output::in_shell(&options.file)
    ));
    Ok(if options.check { Exit::Refused } else { Exit::Done })
}

fn show(connection: &mut Connection, plan: &Plan, desired: &Desired) -> Result<(), Failure> {
    for line in plan.lines(connection)? {
        output::line(format_args!("{}", output::within_line(&line)))?;
    }
    let left = desired.left_alone();
    if !left.is_empty() {
        let left = left.join(", ");
        output::note(format_args!("roster: note: left alone, not in the file: {left}"));
    }
    Ok(())
}

/// Makes a directory what a file says.
pub(super) fn apply(options: &Apply) -> Result<Exit, Failure> {
    let desired = read(&options.file)?;
    carry_out(&mut options.server.connect_patiently()?, &desired, &options.message)
}

/// Makes a directory so.
///
/// # Errors
/// When the server refuses: what was done by then is told.
pub(crate) fn carry_out(
    connection: &mut Connection,
    desired: &Desired,
    message: &MessageOption,
) -> Result<Exit, Failure> {
    let plan = Plan::of(&Present::ask(connection)?, desired);
    show(connection, &plan, desired)?;
    if plan.is_empty() {
        output::line(format_args!("nothing to change"))?;
        return Ok(Exit::Done);
    }
    let (indexes, rest) = (plan.new_indexes(), plan.rest());
    requests::carry_out(connection, &indexes, message, "new indexes")?;
    if !indexes.is_empty() && !rest.is_empty() {
        // What comes may need them.
        change::wait_for(connection, &plan.new_definitions())?;
    }
    requests::carry_out(connection, &rest, message, "change of the configuration").map_err(
        |failure| match indexes.is_empty() {
            true => failure,
            false => {
                let hint = failure.hint.clone().unwrap_or_default();
                failure.hint(format!("the new indexes were added before; {hint}"))
            }
        },
    )?;
    output::line(format_args!("done: {} changed", plan.count()))?;
    Ok(Exit::Done)
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or does not say what is to be.
pub(crate) fn read(path: &Path) -> Result<Desired, Failure> {
    let failed = |error| Failure::path("read", path, &error);
    let mut octets = Vec::new();
    let most = FILE_MAX_BYTES as u64 + 1;
    match path.to_str() {
        Some("-") => std::io::stdin().lock().take(most).read_to_end(&mut octets),
        _ => fs::File::open(path).map_err(failed)?.take(most).read_to_end(&mut octets),
    }
    .map_err(failed)?;
    let said = |why: String| Failure::local(format!("{}: {why}", path.display()));
    let text = String::from_utf8(octets).map_err(|_| said("it is not UTF-8".to_owned()))?;
    Desired::parse(&text).map_err(|error| said(error.to_string()))
}
