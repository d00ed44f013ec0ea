//! `roster check`: verifies the data of a directory.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use directory::{Directory, DirectoryOptions, SystemClock};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress;

/// Verify every table and index of a data directory against its entries.
///
/// No server may use the data directory meanwhile. Nothing is changed. Ends with exit code 2 when
/// something is wrong.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory
    #[arg(short, long, value_name = "DIR", env = "ROSTER_SERVER__DATA")]
    data: PathBuf,
}

const EXAMPLES: &str = "\
Example:
  roster check --data ./data";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let clock = Arc::new(SystemClock::new());
    let directory = Directory::open(DirectoryOptions::new(&options.data), clock)?;
    let bar = progress::bar(None, "entries");
    let report = directory.store().check(&mut |phase, done, total| {
        bar.set_message(phase);
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = report?;
    for finding in &report.findings {
        output::line(format_args!("{finding}"))?;
    }
    match report.counts.values().sum::<u64>() {
        0 => {
            output::line(format_args!("{} entries, no fault", report.entries))?;
            Ok(Exit::Done)
        }
        count => Err(Failure::local(format!("{count} faults in {} entries", report.entries))
            .hint("export what can be read and import it into a new data directory")),
    }
}
