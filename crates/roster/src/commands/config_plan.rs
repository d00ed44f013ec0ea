//! `roster config export`, `plan` and `apply`: the configuration as one file says it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use clap::Args;
use client::Connection;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::again;
use crate::configuration::file::{Desired, FILE_MAX_BYTES};
use crate::configuration::plan::{Plan, Present};
use crate::configuration::requests::{self, MessageOption};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::index::change;
use crate::index::offline::with_server_as;
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

    /// A data directory that no server uses, instead of a running server
    #[arg(short, long, value_name = "DIR", conflicts_with_all = ["password", "start_tls"])]
    data: Option<PathBuf>,

    /// Settings of the server that is to serve the data directory
    #[arg(long = SETTINGS, value_name = "FILE", requires = "data", hide = true)]
    config: Option<PathBuf>,

    /// End when the process with this number ends, which started this one
    #[arg(long = PARENT, value_name = "PID", requires = "data", hide = true)]
    parent: Option<i32>,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    server: ServerOptions,
}

/// The option that names the settings of a server to be.
const SETTINGS: &str = "server-settings";
/// The option that names the process without which nobody waits for this one.
const PARENT: &str = "end-with";

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
    if let (dropped @ 1.., all) = plan.dropped() {
        output::note(format_args!(
            "roster: note: {dropped} of {all} indexes go: the list of the file does not have them"
        ));
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
    if let Some(parent) = options.parent {
        end_with(parent)?;
    }
    let desired = read(&options.file)?;
    let work = |connection: &mut Connection| carry_out(connection, &desired, &options.message);
    match &options.data {
        Some(data) => with_server_as(options.config.as_deref(), data, work),
        None => work(&mut options.server.connect_patiently()?),
    }
}

/// Makes a data directory what a file says, before it is served: by a process of its own, which has
/// given everything back when it ends.
///
/// # Errors
/// When it is not made so.
pub(crate) fn apply_before(file: &Path, data: &Path, config: Option<&Path>) -> Result<(), Failure> {
    // It is read by two processes, and again at the next start: a pipe would be empty by then, and
    // an empty file changes nothing.
    let is_stream = file == Path::new("-")
        || !fs::metadata(file).map_err(|error| Failure::path("read", file, &error))?.is_file();
    if is_stream {
        let why = "is no file: --apply needs one that can be read again";
        return Err(Failure::local(format!("{} {why}", file.display())));
    }
    // Mistakes are told before anything is opened.
    read(file)?;
    let failed = |error| Failure::path("run", Path::new("roster config apply"), &error);
    let mut arguments = ["config", "apply", "--data"].map(OsString::from).to_vec();
    arguments.push(data.into());
    if let Some(config) = config {
        arguments.extend([format!("--{SETTINGS}").into(), config.into()]);
    }
    arguments.extend([format!("--{PARENT}").into(), process::id().to_string().into()]);
    arguments.extend(["--".into(), file.into()]);
    let mut command = again::command_with(arguments);
    // What it prints is no part of the server's output.
    let status = command.stdout(io::stderr()).status().map_err(failed)?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::refused(format!("{} was not applied", file.display()))
            .hint("the server does not begin with another configuration than it should have")),
    }
}

/// Has the system send SIGTERM when the process ends that started this one, however it ends: nobody
/// else would end this one, and it has the data directory.
fn end_with(parent: i32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(Failure::local)?;
    // It may have ended before.
    match getppid().is_some_and(|own| own.as_raw_nonzero().get() == parent) {
        true => Ok(()),
        false => Err(Failure::interrupted("interrupted: the server ended that was to begin")),
    }
}

/// Makes a directory so.
///
/// # Errors
/// When the server refuses: what was done by then is told.
fn carry_out(
    connection: &mut Connection,
    desired: &Desired,
    message: &MessageOption,
) -> Result<Exit, Failure> {
    let plan = Plan::of(&Present::ask(connection)?, desired);
    show(connection, &plan, desired)?;
    let (indexes, rest) = (plan.new_indexes(), plan.rest());
    let has_new = !indexes.is_empty();
    requests::carry_out(connection, &indexes, message, "new indexes")?;
    if has_new {
        // Whoever interrupts the waiting knows what was done.
        output::note(format_args!("roster: the new indexes were added, and are built now"));
    }
    wait_for_indexes(connection, &plan, has_new)?;
    if plan.is_empty() {
        output::line(format_args!("nothing to change"))?;
        return Ok(Exit::Done);
    }
    requests::carry_out(connection, &rest, message, "change of the configuration")
        .map_err(|failure| if has_new { after_indexes(failure) } else { failure })?;
    output::line(format_args!("done: {} changed", plan.count()))?;
    Ok(Exit::Done)
}

/// Waits until the indexes are built that the file names, as what comes may need them; also those
/// that somebody else has added, as one who applied the same file and was interrupted.
fn wait_for_indexes(
    connection: &mut Connection,
    plan: &Plan,
    has_new: bool,
) -> Result<(), Failure> {
    if plan.named_indexes().is_empty() {
        return Ok(());
    }
    match change::wait_for(connection, plan.named_indexes()) {
        Err(failure) if has_new => Err(after_indexes(failure)),
        // Who may not see how far they are needs none of them, or the server says which.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What failed when the new indexes were there already.
fn after_indexes(failure: Failure) -> Failure {
    const ADDED: &str = "the new indexes were added before";
    let hint = failure.hint.as_ref().map_or(ADDED.to_owned(), |hint| format!("{ADDED}; {hint}"));
    failure.hint(hint)
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or does not say what is to be.
fn read(path: &Path) -> Result<Desired, Failure> {
    let failed = |error| Failure::path("read", path, &error);
    let mut octets = Vec::new();
    let most = FILE_MAX_BYTES as u64 + 1;
    match path.to_str() {
        Some("-") => io::stdin().lock().take(most).read_to_end(&mut octets),
        _ => fs::File::open(path).map_err(failed)?.take(most).read_to_end(&mut octets),
    }
    .map_err(failed)?;
    let said = |why: String| Failure::local(format!("{}: {why}", path.display()));
    let text = String::from_utf8(octets).map_err(|_| said("it is not UTF-8".to_owned()))?;
    Desired::parse(&text).map_err(|error| said(error.to_string()))
}
