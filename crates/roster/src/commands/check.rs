//! `roster check`: verifies the data of a directory.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress;

/// Verify the journal, and every table and index against the entries of a data directory.
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
    let bar = progress::bar(Some(0), "entries");
    let check = directory::check(&options.data, &mut |phase, done, total| {
        bar.set_message(phase);
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let check = check?;
    for finding in &check.journal.findings {
        output::line(format_args!("{finding}"))?;
    }
    for finding in &check.base.findings {
        output::line(format_args!("{finding}"))?;
    }
    if let Some(torn) = &check.journal.torn {
        // Nothing of it was acknowledged.
        output::note(format_args!(
            "roster: note: {} bytes at the end of {} were half written when the server or the \
             machine ended; the next start cuts them off",
            torn.bytes, torn.segment
        ));
    }
    let entries = check.entries.unwrap_or(check.base.entries);
    let records = match check.journal.records {
        0 => String::new(),
        records => format!(", {records} records in the journal"),
    };
    match check.faults() {
        0 => {
            output::line(format_args!("{entries} entries{records}, no fault"))?;
            Ok(Exit::Done)
        }
        count => Err(Failure::local(format!("{count} faults in {entries} entries{records}"))
            .hint("restore a backup, or export what can be read and import it anew")),
    }
}
