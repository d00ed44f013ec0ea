//! `roster backup`: copies a data directory while it is served, and verifies such copies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use environment::{Clock as _, SystemClock};
use indicatif::{BinaryBytes, ProgressBar};
use offline::backup::{BackupOptions, BackupProgress, WhyFull, backup, verify_backup};
use store::StoreOptions;

use crate::failure::{Exit, Failure};
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::output;
use crate::progress;

/// Back up a data directory, while a server serves it or not.
///
/// The first run copies everything. Later runs into the same directory add what was written since,
/// if the journal still has it (setting store.journal_keep_mib); otherwise they copy everything
/// again, and say so. An interrupted run leaves the backup as it was.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory
    #[arg(
        short,
        long,
        value_name = "DIR",
        env = DATA_VARIABLE,
        default_value = DATA_DEFAULT,
        hide_env_values = true
    )]
    data: PathBuf,

    /// The directory of the backup, on another disk; created if it is missing
    #[arg(short, long, value_name = "DIR", required_unless_present = "verify")]
    to: Option<PathBuf>,

    /// Copy everything, even if adding to the last backup would be enough
    #[arg(long)]
    full: bool,

    /// Verify the backup in this directory: every checksum, and that no record is missing
    #[arg(long, alias = "check", value_name = "DIR", conflicts_with_all = ["to", "full"])]
    verify: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  roster backup --data ./data --to /backup/roster
  roster backup --data ./data --to /backup/roster --full
  roster backup --verify /backup/roster";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if let Some(directory) = &options.verify {
        return verify(directory);
    }
    let to = options.to.as_deref();
    take(&options.data, to.unwrap_or(Path::new("")), options.full)
}

fn take(data: &Path, to: &Path, full: bool) -> Result<Exit, Failure> {
    let clock = SystemClock::new();
    let asked = BackupOptions { data, to, full, store: StoreOptions::default() };
    let bar = Bar::new();
    let report = backup(&asked, &clock, &mut |now| bar.show(now))?;
    bar.end();
    let last = report.manifest.last();
    if let Some(why) = report.full.and_then(why) {
        output::note(format_args!("roster: note: {why}"));
    }
    let speed = speed(report.bytes, clock.elapsed());
    if report.full.is_some() {
        let entries = report.manifest.base.entries;
        let records = report.records;
        output::line(format_args!(
            "full backup of {entries} entries and {records} records after them: {speed}"
        ))?;
    } else {
        output::line(format_args!("{} records added: {speed}", report.records))?;
    }
    // A member knows no more than when its last record was made, and there may be none.
    let until = report.manifest.complete_until;
    let until = match until.micros() {
        0 => String::new(),
        _ => format!(", complete up to {until}"),
    };
    output::line(format_args!("{} now reaches record {}{until}", to.display(), last.lsn))?;
    Ok(Exit::Done)
}

/// What an operator is told who may have expected less to be copied.
fn why(why: WhyFull) -> Option<&'static str> {
    match why {
        WhyFull::First | WhyFull::Asked => None,
        WhyFull::Purged => Some(
            "the journal no longer holds all records since the last backup, so everything was \
             copied; back up more often, or raise store.journal_keep_mib",
        ),
        WhyFull::Forked => Some(
            "the directory has a different history from the last backup, so everything was \
                  copied",
        ),
    }
}

fn verify(directory: &Path) -> Result<Exit, Failure> {
    let clock = SystemClock::new();
    let bar = Bar::new();
    let verified = verify_backup(directory, &mut |now| bar.show(now))?;
    bar.end();
    let manifest = &verified.manifest;
    let (base, last) = (manifest.base.mark, manifest.last());
    output::line(format_args!(
        "no fault: {} entries at record {}, and {} records after it up to {}: {}",
        manifest.base.entries,
        base.lsn,
        verified.records,
        last.lsn,
        speed(manifest.bytes(), clock.elapsed())
    ))?;
    // A base that no record led to has no time.
    let from = match base.time.micros() {
        0 => String::new(),
        _ => format!(" from {}", base.time),
    };
    let until = manifest.complete_until;
    output::line(format_args!("it can be restored to any point{from} up to {until}"))?;
    Ok(Exit::Done)
}

/// `12.3 MiB in 0.5 s (24.6 MiB/s)`.
pub(super) fn speed(bytes: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rate is shown with one digit after the point"
    )]
    let rate = (bytes as f64 / seconds.max(0.001)) as u64;
    format!("{} in {seconds:.1} s ({}/s)", BinaryBytes(bytes), BinaryBytes(rate))
}

/// Progress of one phase after the other, gone when it is dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new() -> Self {
        Self(progress::bar(Some(0), "bytes"))
    }

    pub(crate) fn show(&self, now: BackupProgress) {
        if self.0.message() != now.phase {
            self.0.set_message(now.phase);
            self.0.reset_eta();
        }
        self.0.set_length(now.total_bytes.unwrap_or(now.bytes));
        self.0.set_position(now.bytes);
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}
