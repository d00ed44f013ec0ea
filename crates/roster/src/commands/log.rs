//! `roster log`: what the access log of a server on this machine says.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use environment::Timestamp;

use crate::access_log::failures::Failures;
use crate::access_log::files;
use crate::account::moment;
use crate::failure::{Exit, Failure};
use crate::location::DataLocation;
use crate::output;

/// Read the access log of a server on this machine.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster log failures --data ./data
  roster log failures --since 24h
  roster log failures --since 2027-01-31 --top 0 --json
  roster log failures access-20270131000000Z.log.gz";

#[derive(Debug, Subcommand)]
enum Action {
    Failures(Read),
}

/// Who failed to sign in, from where, why, how often and when last.
///
/// Reads the log where 'roster serve' writes it, by the same settings, with the files that were
/// put aside, compressed or not; or files that are named, '-' for standard input.
#[derive(Args, Debug)]
struct Read {
    /// Access logs to read instead of those of the data directory
    #[arg(value_name = "FILE", conflicts_with_all = ["data", "config"])]
    files: Vec<PathBuf>,

    /// Only since then: 24h, 7d, 2027-01-31 or 2027-01-31T18:00:00Z, in UTC
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,

    /// Show so many lines, the most frequent; 0 shows all that are kept (50,000)
    #[arg(long, value_name = "N", default_value_t = 50)]
    top: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: DataLocation,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::Failures(read) => failures(read),
    }
}

fn failures(options: &Read) -> Result<Exit, Failure> {
    let mut failures = Failures::since(options.since);
    let mut each = |_: &str, octets: &mut dyn std::io::Read| failures.read(octets);
    let read = match options.files.is_empty() {
        false => files::read_named(&options.files, &mut each),
        true => {
            let settings = options.location.settings()?;
            let path = settings.access_log_path().ok_or_else(|| {
                Failure::local("the server writes no access log: access_log.format is off")
                    .hint("set it to json in roster.toml, and restart the server")
            })?;
            if !files::exists(&path) {
                let what = format!("there is no access log at {}", path.display());
                return Err(Failure::local(what).hint(
                    "--data names the data directory of the server, --config its settings; or \
                     name the files",
                ));
            }
            files::read(&path, options.since, &mut each)
        }
    };
    read.map_err(|(path, error)| Failure::path("read", &path, &error))?;
    let report = failures.report(options.top);
    match options.json {
        true => output::json(&report)?,
        false => output::line(format_args!("{}", report.text()))?,
    }
    if report.unreadable_lines > 0 {
        output::note(format_args!(
            "roster: note: {} of {} lines are none of an access log, and were passed over",
            report.unreadable_lines, report.lines
        ));
    }
    if report.dropped_lines > 0 {
        output::note(format_args!(
            "roster: note: the server dropped {} lines, as the log says: there may be more",
            report.dropped_lines
        ));
    }
    Ok(Exit::Done)
}

/// A time, or how long ago.
fn since(text: &str) -> Result<Timestamp, String> {
    match moment::length(text) {
        Ok(length) => Ok(moment::before_now(length)),
        Err(_) => moment::parsed(text).map_err(|_| {
            "expected a time such as 24h, 7d, 2027-01-31 or 2027-01-31T18:00:00Z".into()
        }),
    }
}
