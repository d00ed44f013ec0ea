//! `roster restore`: makes a data directory of a backup, up to its end or to a point before.

use std::path::PathBuf;

use clap::Args;
use offline::backup::{BackupError, Moment, RestoreOptions, Until, restore};
use store::StoreOptions;

use super::backup::Bar;
use crate::failure::{Exit, Failure};
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::output;
use crate::settings_file;

/// Create a data directory from a backup.
///
/// The whole backup is verified first. Without --to-lsn and --to-time everything in it is restored.
/// The new directory has a history of its own: back it up to another directory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The directory of the backup
    #[arg(short, long, value_name = "DIR")]
    from: PathBuf,

    /// The data directory to create; it must be missing or empty
    #[arg(short, long, value_name = "DIR", env = DATA_VARIABLE, default_value = DATA_DEFAULT,
        hide_env_values = true)]
    data: PathBuf,

    /// Restore up to this record
    #[arg(long, value_name = "LSN", conflicts_with = "to_time")]
    to_lsn: Option<u64>,

    /// Restore what was written up to this time, such as 2026-01-31T23:59:59Z or 20260131235959Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to_time: Option<Moment>,
}

const EXAMPLES: &str = "\
Examples:
  roster restore --from /backup/roster --data ./restored
  roster restore --from /backup/roster --data ./restored --to-time 2026-01-31T12:00:00+01:00
  roster restore --from /backup/roster --data ./restored --to-lsn 123456";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let until = match (options.to_lsn, options.to_time) {
        (Some(lsn), _) => Until::Lsn(lsn),
        (None, Some(time)) => Until::Time(time),
        (None, None) => Until::End,
    };
    let asked = RestoreOptions {
        from: &options.from,
        data: &options.data,
        until,
        store: StoreOptions::default(),
    };
    let bar = Bar::new();
    let report = restore(&asked, &mut |now| bar.show(now)).map_err(refusal)?;
    bar.end();
    if report.was_member {
        settings_file::leave_cluster(&options.data)?;
    }
    let data = options.data.display();
    output::line(format_args!("{} entries restored into {data}", report.entries))?;
    // A base that no record led to has no time.
    let time = match report.last.time.micros() {
        0 => String::new(),
        _ => format!(" of {}", report.last.time),
    };
    let left_out = report.last_of_backup.lsn - report.last.lsn;
    output::line(format_args!(
        "the last record is {}{time}; {} were replayed after the base, {left_out} left out",
        report.last.lsn, report.records
    ))?;
    if report.was_member {
        output::note(format_args!(
            "roster: the backup is that of a member of a cluster, and what it was restored to is a \
             server alone: make it the first member of a new one with 'roster cluster init'"
        ));
    }
    output::line(format_args!("\nStart it with:\n  roster serve --data {data}"))?;
    Ok(Exit::Done)
}

/// Where there is no backup, another directory is meant: taking one would not bring back the data.
fn refusal(error: BackupError) -> Failure {
    let is_none = matches!(error, BackupError::NoBackup { .. });
    let failure = Failure::from(error);
    match is_none {
        true => failure.hint("--from names a directory that 'roster backup --to DIR' has written"),
        false => failure,
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    text.parse().map_err(|reason| format!("it {reason}"))
}
